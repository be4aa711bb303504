//! Control flow clean-up: carries that never change, that nothing reads, or that are always equal;
//! branches that are known.

use super::region;
use super::rewrite::{self, Change, Rewriter};
use cranelift_entity::SecondaryMap;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Cleans up every loop and branch.
pub fn run(function: &mut Function) {
    let used = used_values(function);
    rewrite::run(function, &mut |r, op| visit(r, op, &used));
}

type Used = SecondaryMap<ValueId, bool>;

/// Whether anything reads each value.
fn used_values(f: &Function) -> Used {
    let mut used = SecondaryMap::new();
    for block in f.blocks.values() {
        for &op in &block.ops {
            f.ops[op].operands.iter().for_each(|&v| used[v] = true);
        }
        block.yields.iter().for_each(|&v| used[v] = true);
    }
    used
}

fn visit(r: &mut Rewriter<'_>, op: OpId, used: &Used) -> Change {
    match &r.f.ops[op].op {
        Op::While(_) => shrink(r, op, used),
        Op::If(_) | Op::Case(_) => known_branch(r, op).or_else(|| fewer_results(r, op)),
        _ => None,
    }
}

/// A loop without its invariant, twin and dead carries, if it has any.
fn shrink(r: &mut Rewriter<'_>, op: OpId, used: &Used) -> Change {
    let data = r.f.ops[op].clone();
    let [condition, body] = data.regions[..] else { return None };
    let inside: [Vec<ValueId>; 2] = [condition, body].map(|b| r.f.blocks[b].arguments.clone());
    let next = r.f.blocks[body].yields.clone();
    let count = data.operands.len();

    // What a carry always equals: its initial value, or another carry.
    let mut same: Vec<Option<usize>> = vec![None; count];
    let mut names: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let mut results: Vec<ValueId> = data.results.clone();
    let mut kept: Vec<usize> = Vec::new();
    for n in 0..count {
        if next[n] == inside[1][n] {
            inside.iter().for_each(|arguments| {
                names.insert(arguments[n], data.operands[n]);
            });
            results[n] = data.operands[n];
            continue;
        }
        same[n] =
            kept.iter().copied().find(|&m| twins(r.f, &data.operands, &inside[1], &next, m, n));
        match same[n] {
            Some(m) => inside.iter().for_each(|arguments| {
                names.insert(arguments[n], arguments[m]);
            }),
            None => kept.push(n),
        }
    }
    let live = live_carries(r.f, op, &kept, &inside, &next, &same, used);
    let dead = |n: &usize| !live.contains(n);
    if names.is_empty() && !kept.iter().any(dead) {
        return None;
    }
    kept.retain(|n| live.contains(n));
    rename(r.f, condition, &names);
    rename(r.f, body, &names);

    for (block, arguments) in [condition, body].into_iter().zip(&inside) {
        let remaining: Vec<ValueId> = kept.iter().map(|&n| arguments[n]).collect();
        for (position, &argument) in remaining.iter().enumerate() {
            let def = jaxrs_ir::ValueDef::Argument(block, position as u32);
            r.f.values[argument].def = def;
        }
        r.f.blocks[block].arguments = remaining;
    }
    let yields = r.f.blocks[body].yields.clone();
    r.f.blocks[body].yields = kept.iter().map(|&n| yields[n]).collect();
    let operands: Vec<ValueId> = kept.iter().map(|&n| data.operands[n]).collect();
    let types = kept.iter().map(|&n| r.f.ty(data.results[n]).clone()).collect();
    let smaller =
        r.f.push_op(r.block, data.op, &operands, types, &data.regions, data.location.clone());
    super::dce::run_region(r.f, condition);
    super::dce::run_region(r.f, body);
    for (&n, &value) in kept.iter().zip(&r.f.ops[smaller].results) {
        results[n] = value;
    }
    for n in 0..count {
        if let Some(m) = same[n] {
            results[n] = results[m];
        } else if results[n] == data.results[n] {
            // Dead: nothing reads it; any value of its type stands in.
            results[n] = data.operands[n];
        }
    }
    Some(results)
}

/// Whether two carries begin equal and stay so: both add one constant in each iteration.
fn twins(
    f: &Function,
    operands: &[ValueId],
    arguments: &[ValueId],
    next: &[ValueId],
    m: usize,
    n: usize,
) -> bool {
    let step = |k: usize| -> Option<ValueId> {
        let op = &f.ops[f.defining_op(next[k])?];
        let add = matches!(op.op, Op::Elementwise(e) if e.name() == "stablehlo.add");
        match op.operands[..] {
            [a, b] if add && a == arguments[k] => Some(b),
            [a, b] if add && b == arguments[k] => Some(a),
            _ => None,
        }
    };
    let equal = |a: ValueId, b: ValueId| {
        let literal = |v: ValueId| match &f.ops[f.defining_op(v)?].op {
            Op::Constant(constant) => Some(&constant.value),
            _ => None,
        };
        a == b || literal(a).is_some_and(|x| literal(b) == Some(x))
    };
    equal(operands[m], operands[n])
        && matches!((step(m), step(n)), (Some(a), Some(b)) if equal(a, b))
}

/// The carries that the condition, a result in use, or a live carry's next value needs.
fn live_carries(
    f: &Function,
    op: OpId,
    kept: &[usize],
    inside: &[Vec<ValueId>; 2],
    next: &[ValueId],
    same: &[Option<usize>],
    used: &Used,
) -> FxHashSet<usize> {
    let data = &f.ops[op];
    let body = data.regions[1];
    let read = |n: usize| used[data.results[n]];
    let mut live = FxHashSet::default();
    let mut stack: Vec<ValueId> = Vec::new();
    let effects = super::dce::has_effect(f, op);
    let position: FxHashMap<ValueId, usize> = inside
        .iter()
        .flat_map(|arguments| arguments.iter().enumerate().map(|(n, &v)| (v, n)))
        .collect();
    let mut needed: Vec<usize> = Vec::new();
    for &n in kept {
        let twin = (0..next.len()).any(|k| same[k] == Some(n) && read(k));
        if effects || twin || read(n) {
            needed.push(n);
        }
    }
    let condition = data.regions[0];
    for &inner in &f.blocks[condition].ops {
        stack.extend(&f.ops[inner].operands);
        stack.extend(region::captures(f, inner));
    }
    stack.extend(&f.blocks[condition].yields);
    let owner: FxHashSet<OpId> = f.blocks[body].ops.iter().copied().collect();
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    loop {
        while let Some(value) = stack.pop() {
            if !seen.insert(value) {
                continue;
            }
            if let Some(&n) = position.get(&value) {
                needed.push(same[n].unwrap_or(n));
            }
            if let Some(op) = f.defining_op(value)
                && owner.contains(&op)
            {
                stack.extend(&f.ops[op].operands);
                stack.extend(region::captures(f, op));
            }
        }
        let Some(n) = needed.pop() else { break };
        if live.insert(n) {
            stack.push(next[n]);
        }
    }
    live
}

/// Replaces values in a block and the regions inside.
pub(super) fn rename(f: &mut Function, block: BlockId, names: &FxHashMap<ValueId, ValueId>) {
    let name = |v: &mut ValueId| {
        while let Some(&new) = names.get(v) {
            *v = new;
        }
    };
    for op in f.blocks[block].ops.clone() {
        f.ops[op].operands.iter_mut().for_each(name);
        for region in f.ops[op].regions.clone() {
            rename(f, region, names);
        }
    }
    f.blocks[block].yields.iter_mut().for_each(name);
}

/// The branch that a known index takes, in place of the op.
fn known_branch(r: &mut Rewriter<'_>, op: OpId) -> Change {
    let data = r.f.ops[op].clone();
    let index = r.literal(data.operands[0])?;
    let last = data.regions.len() - 1;
    let taken = match (&data.op, usize::try_from(index.int(0))) {
        (Op::If(_), Ok(n)) => 1 - n.min(1),
        (_, Ok(n)) => n.min(last),
        (_, Err(_)) => last,
    };
    let region = data.regions[taken];
    let ops = std::mem::take(&mut r.f.blocks[region].ops);
    r.f.blocks[r.block].ops.extend(ops);
    Some(r.f.blocks[region].yields.clone())
}

/// A branch without the results that every side takes from outside alike.
fn fewer_results(r: &mut Rewriter<'_>, op: OpId) -> Change {
    let data = r.f.ops[op].clone();
    let yields: Vec<Vec<ValueId>> =
        data.regions.iter().map(|&b| r.f.blocks[b].yields.clone()).collect();
    let inside: FxHashSet<ValueId> = data
        .regions
        .iter()
        .flat_map(|&b| &r.f.blocks[b].ops)
        .flat_map(|&op| r.f.ops[op].results.iter().copied())
        .collect();
    let mut results = data.results.clone();
    let mut kept = Vec::new();
    for n in 0..results.len() {
        let first = yields[0][n];
        if !inside.contains(&first) && yields.iter().all(|y| y[n] == first) {
            results[n] = first;
        } else {
            kept.push(n);
        }
    }
    if kept.len() == results.len() {
        return None;
    }
    if kept.is_empty() && !super::dce::has_effect(r.f, op) {
        return Some(results);
    }
    for (&region, yields) in data.regions.iter().zip(&yields) {
        r.f.blocks[region].yields = kept.iter().map(|&n| yields[n]).collect();
    }
    let types = kept.iter().map(|&n| r.f.ty(data.results[n]).clone()).collect();
    let location = data.location.clone();
    let smaller = r.f.push_op(r.block, data.op, &data.operands, types, &data.regions, location);
    for (&n, &value) in kept.iter().zip(&r.f.ops[smaller].results) {
        results[n] = value;
    }
    Some(results)
}
