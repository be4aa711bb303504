//! Loops, branches and calls.

use crate::build::Gen;
use crate::program;
use crate::random::SMALL;
use crate::shapes::{stencil, update};
use jaxrs_ir::ops::{Call, Case, Clamp, Compare, Composite, DynamicSlice, If, Reshape, While};
use jaxrs_ir::{Attributes, BlockId, DType, TensorType, ValueId};
use jaxrs_kernel::Compare as Direction;

/// The bound that a loop keeps for the carries that have one.
const CARRIED: f64 = 8.0;

/// A loop that counts, with carries that are updated, swapped, kept or replaced.
pub fn counted_loop(g: &mut Gen<'_>) -> Option<ValueId> {
    if g.depth >= 2 {
        return None;
    }
    let counter = g.r.pick(&[DType::I32, DType::I32, DType::I32, DType::I64, DType::U8]);
    let (first, trips) = (g.r.below(2), g.r.pick(&[0, 1, 2, 3, 3, 4, 5]));
    let mut init: Vec<ValueId> = Vec::new();
    let alike = g.any();
    for n in 0..1 + g.r.index(4) {
        // Carries of one type can change places.
        let ty = g.ty(alike);
        init.push(if n > 0 && g.r.percent(60) { g.of(&ty) } else { g.any() });
    }
    let bounds: Vec<f64> =
        init.iter().map(|&v| if g.bound(v) <= CARRIED { CARRIED } else { f64::INFINITY }).collect();
    let at = g.r.index(init.len() + 1);
    let start = g.number(counter, first as f64);
    init.insert(at, start);
    let types: Vec<TensorType> = init.iter().map(|&v| g.ty(v)).collect();
    let limit = g.number(counter, (first + trips) as f64);
    let early = g.r.percent(15);

    let condition = g.region_of(&types, |g, carries| {
        let limit = if g.r.percent(50) { limit } else { g.number(counter, (first + trips) as f64) };
        let more = g.add(Compare::new(Direction::Lt), &[carries[at], limit], 1.0);
        let mut more = more.expect("it is a scalar");
        let truth = (0..types.len()).find(|&n| types[n] == TensorType::scalar(DType::I1));
        if let (true, Some(truth)) = (early, truth) {
            more = g.apply("stablehlo.and", &[more, carries[truth]]);
        }
        vec![more]
    });
    protect(g, condition);

    let mut count = None;
    let body = g.region_of(&types, |g, carries| {
        g.depth += 1;
        let mut others = bounds.iter();
        for (n, &carry) in carries.iter().enumerate() {
            let bound = if n == at { 10.0 } else { *others.next().expect("one a carry") };
            g.keep(carry, bound);
        }
        let one = g.number(counter, 1.0);
        let next = g.apply("stablehlo.add", &[carries[at], one]);
        count = g.f.defining_op(next);
        if g.r.percent(40) {
            along_counter(g, carries, at);
        }
        let ops = 1 + g.r.below(5);
        for _ in 0..ops {
            program::any_op(g);
        }
        let yields = next_carries(g, carries, at, next, &types);
        g.depth -= 1;
        yields
    });
    g.protected.extend(count);

    let results = g.push(While, &init, &[condition, body])?;
    let mut others = bounds.iter();
    for (n, &result) in results.iter().enumerate() {
        let bound = if n == at { 10.0 } else { *others.next().expect("one a carry") };
        g.keep(result, bound);
    }
    results.last().copied()
}

/// Marks what the loop needs to end.
fn protect(g: &mut Gen<'_>, block: BlockId) {
    let ops = g.f.blocks[block].ops.clone();
    g.protected.extend(ops);
}

/// Reads a carry at the counter and writes there, as a scan does.
fn along_counter(g: &mut Gen<'_>, carries: &[ValueId], counter: usize) -> Option<ValueId> {
    let of: Vec<ValueId> = carries
        .iter()
        .copied()
        .filter(|&v| g.f.ty(v).rank() > 0 && !g.f.ty(v).is_empty())
        .collect();
    let carry = *of.get(g.r.index(of.len().max(1)))?;
    let ty = g.ty(carry);
    let mut sizes = ty.shape.clone();
    sizes[0] = 1;
    let zero = g.number(g.dtype(carries[counter]), 0.0);
    let mut starts = vec![carries[counter]];
    starts.resize(ty.rank(), zero);
    let operands: Vec<ValueId> = [carry].into_iter().chain(starts.iter().copied()).collect();
    let bound = g.bound(carry);
    let row = g.add(DynamicSlice { sizes }, &operands, bound)?;
    let flat = g.add(Reshape { shape: ty.shape[1..].to_vec() }, &[row], bound)?;
    let changed = if g.r.percent(50) {
        let name = g.r.pick(&["stablehlo.add", "stablehlo.maximum"]);
        let other = g.of(&g.ty(flat));
        g.apply(name, &[flat, other])
    } else {
        flat
    };
    let mut shape = g.shape(changed);
    shape.insert(0, 1);
    let bound = g.bound(changed).max(bound);
    let row = g.add(Reshape { shape }, &[changed], bound)?;
    let target = g.of(&ty);
    let operands: Vec<ValueId> = [target, row].into_iter().chain(starts).collect();
    let bound = bound.max(g.bound(target));
    g.add(jaxrs_ir::ops::DynamicUpdateSlice, &operands, bound)
}

fn next_carries(
    g: &mut Gen<'_>,
    carries: &[ValueId],
    at: usize,
    next: ValueId,
    types: &[TensorType],
) -> Vec<ValueId> {
    let swap = g.r.percent(30);
    let mut yields = Vec::new();
    for (n, ty) in types.iter().enumerate() {
        if n == at {
            yields.push(next);
            continue;
        }
        let limit = if g.bound(carries[n]) <= CARRIED { CARRIED } else { f64::INFINITY };
        let other = (1..types.len())
            .map(|by| (n + by) % types.len())
            .find(|&m| m != at && types[m] == *ty && g.bound(carries[m]) <= limit);
        let value = match (g.r.below(8), other) {
            (_, Some(other)) if swap => carries[other],
            (0, _) => carries[n],
            (1 | 2, _) => stencil(g, carries[n]).unwrap_or(carries[n]),
            (3, _) if ty.rank() > 0 => update(g, carries[n]).unwrap_or(carries[n]),
            (4, _) => g.apply("stablehlo.add", &[carries[n], carries[n]]),
            _ => g.of(ty),
        };
        yields.push(limited(g, value, carries[n], limit));
    }
    yields
}

/// The value if it keeps the carry's bound, else clamped, else the carry.
fn limited(g: &mut Gen<'_>, value: ValueId, carry: ValueId, limit: f64) -> ValueId {
    let bound = g.bound(value);
    let dtype = g.dtype(value);
    if bound <= limit {
        return value;
    }
    if bound.is_infinite() && !dtype.is_int() || dtype.is_complex() {
        return carry;
    }
    let unsigned = dtype.class() == jaxrs_kernel::dtype::Class::Unsigned;
    let low = g.number(dtype, if unsigned { 0.0 } else { -SMALL });
    let high = g.number(dtype, SMALL);
    g.add(Clamp, &[low, value, high], SMALL).expect("the shape is the same")
}

/// One of several branches, which use and return values from outside.
pub fn branch(g: &mut Gen<'_>) -> Option<ValueId> {
    if g.depth >= 2 {
        return None;
    }
    let two = g.r.percent(50);
    let selector = if two { DType::I1 } else { DType::I32 };
    let selector = g.of(&TensorType::scalar(selector));
    let mut types: Vec<TensorType> = Vec::new();
    for _ in 0..1 + g.r.index(3) {
        let alike = g.any();
        types.push(g.ty(alike));
    }
    let mut regions = Vec::new();
    let mut bounds = vec![0.0f64; types.len()];
    for _ in 0..if two { 2 } else { 1 + g.r.index(3) } {
        let region = g.region_of(&[], |g, _| {
            g.depth += 1;
            for _ in 0..g.r.below(4) {
                program::any_op(g);
            }
            let yields: Vec<ValueId> = types.iter().map(|ty| g.of(ty)).collect();
            g.depth -= 1;
            yields
        });
        let yields = g.f.blocks[region].yields.clone();
        for (bound, &value) in bounds.iter_mut().zip(&yields) {
            *bound = bound.max(g.bound(value));
        }
        regions.push(region);
    }
    let results =
        if two { g.push(If, &[selector], &regions)? } else { g.push(Case, &[selector], &regions)? };
    for (&result, bound) in results.iter().zip(bounds) {
        g.keep(result, bound);
    }
    results.last().copied()
}

/// A call of the program's other function, as it is or as a composite.
pub fn call(g: &mut Gen<'_>) -> Option<ValueId> {
    if g.callees.is_empty() {
        return None;
    }
    let callee = g.callees[g.r.index(g.callees.len())].clone();
    let operands: Vec<ValueId> = callee.parameters.iter().map(|ty| g.of(ty)).collect();
    let (decomposition, results) = (callee.name, callee.results);
    let results = if g.r.percent(40) {
        let rest = Attributes::new().with_int("version", g.r.between(0, 2));
        let op = Composite { name: "test.inner".into(), decomposition, results, rest };
        g.push(op, &operands, &[])?
    } else {
        g.push(Call { callee: decomposition, results }, &operands, &[])?
    };
    for &result in &results {
        g.keep(result, f64::INFINITY);
    }
    results.last().copied()
}
