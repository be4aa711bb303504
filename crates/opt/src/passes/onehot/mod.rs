//! One-hot tensors that need not exist: a product with one takes rows of the other operand, or adds
//! them up; a sum along its axis is the number itself; and one update written into a constant is a
//! selection, which whoever reads it computes.
//!
//! Results are those of the product but for one difference: where the other operand holds an
//! infinity or a NaN in an element that is multiplied by 0, the product is NaN, and here that
//! element has no say. An id outside the axis gives zeros, as in the product.

mod find;
mod product;

use super::rewrite::{self, Change, Rewriter};
use find::one_hot;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::ops::indexing::Windows;
use jaxrs_ir::ops::monoid::{self, Kind};
use jaxrs_ir::{DType, Function, Literal, Op, OpId, TensorType, ValueId, ops};
use jaxrs_kernel::Compare;
use rustc_hash::FxHashSet;

/// Rewrites every op with a one-hot operand, and every scatter that makes a one-hot tensor.
pub fn run(function: &mut Function) {
    let transposed = transposed_values(function);
    rewrite::run(function, &mut |r, op| visit(r, op, &transposed));
}

fn visit(r: &mut Rewriter<'_>, op: OpId, transposed: &FxHashSet<ValueId>) -> Change {
    let data = r.f.ops[op].clone();
    let [result] = data.results[..] else { return None };
    if r.f.ty(result).is_empty() {
        return None;
    }
    let mut b = Builder { function: &mut *r.f, block: r.block, location: data.location.clone() };
    let value = match (&data.op, &data.operands[..]) {
        (Op::DotGeneral(dot), &[x, y]) => {
            product::dot(&mut b, dot, [x, y], transposed.contains(&result))
        }
        (Op::Reduce(reduce), &[x, init]) => {
            let add = monoid::kinds(b.function, data.regions[0])? == [Kind::Add];
            if add { sum(&mut b, reduce, x, init) } else { None }
        }
        (Op::Gather(gather), &[x, indices]) => {
            let (windows, indices) = along(&mut b, &gather.windows, x, indices)?;
            b.one(ops::Gather { windows, ..gather.clone() }, &[x, indices]).ok()
        }
        (Op::Scatter(scatter), &[x, indices, updates]) => {
            let kind = monoid::kinds(b.function, data.regions[0])?[0];
            match along(&mut b, &scatter.windows, x, indices) {
                None => selected(&mut b, scatter, kind, [x, indices, updates]),
                Some((windows, indices)) => {
                    let scatter = ops::Scatter { windows, ..scatter.clone() };
                    match selected(&mut b, &scatter, kind, [x, indices, updates]) {
                        None => {
                            let operands = [x, indices, updates];
                            b.push(scatter, &operands, &data.regions).ok().map(|v| v[0])
                        }
                        selected => selected,
                    }
                }
            }
        }
        _ => None,
    }?;
    debug_assert_eq!(r.f.ty(value), r.f.ty(result));
    Some(vec![value])
}

/// The values that only transposes use.
fn transposed_values(f: &Function) -> FxHashSet<ValueId> {
    let (mut yes, mut no) = (FxHashSet::default(), FxHashSet::default());
    for block in f.blocks.values() {
        no.extend(block.yields.iter().copied());
        for &op in &block.ops {
            let data = &f.ops[op];
            let set = if matches!(data.op, Op::Transpose(_)) { &mut yes } else { &mut no };
            set.extend(data.operands.iter().copied());
        }
    }
    yes.retain(|value| !no.contains(value));
    yes
}

/// The sum of a one-hot tensor along its axis: the element at the id, or 0 if that is outside.
fn sum(
    b: &mut Builder<'_>,
    reduce: &ops::Reduce,
    value: ValueId,
    init: ValueId,
) -> Option<ValueId> {
    if !splat(b.function, init)?.to_bytes().iter().all(|&byte| byte == 0) {
        return None;
    }
    let hot = one_hot(b, value)?;
    if !reduce.axes.contains(&hot.axis) {
        return None;
    }
    let ty = b.ty(value);
    let on = find::value_or_one(b, &hot, ty.dtype)?;
    let inside = inside(b, hot.ids, ty.shape[hot.axis])?;
    let off = b.zeros(&b.ty(on)).ok()?;
    let element = b.select(inside, on, off).ok()?;
    let axes: Vec<usize> = reduce
        .axes
        .iter()
        .filter(|&&axis| axis != hot.axis)
        .map(|&axis| axis - usize::from(axis > hot.axis))
        .collect();
    b.sum(element, &axes).ok()
}

/// Whether ids are positions of an axis of this extent.
fn inside(b: &mut Builder<'_>, ids: ValueId, extent: u64) -> Option<ValueId> {
    let ty = b.ty(ids);
    let last = (extent - 1).min(find::largest(ty.dtype));
    let last = number(b, &ty, last)?;
    let below = b.compare(Compare::Le, ids, last).ok()?;
    if ty.dtype.class() == jaxrs_kernel::dtype::Class::Unsigned {
        return Some(below);
    }
    let zero = b.zeros(&ty).ok()?;
    let above = b.compare(Compare::Ge, ids, zero).ok()?;
    b.elementwise("stablehlo.and", &[above, below]).ok()
}

/// A constant of one non-negative integer.
fn number(b: &mut Builder<'_>, ty: &TensorType, value: u64) -> Option<ValueId> {
    let element = jaxrs_ir::literal::narrow(value, ty.dtype);
    b.constant(Literal::splat(ty.clone(), &element)).ok()
}

/// The literal of which a value repeats one element.
fn splat(f: &Function, value: ValueId) -> Option<Literal> {
    let mut value = value;
    loop {
        let data = &f.ops[f.defining_op(value)?];
        match &data.op {
            Op::BroadcastInDim(_) | Op::Reshape(_) => value = data.operands[0],
            Op::Constant(constant) => {
                return constant.value.as_splat().is_some().then(|| constant.value.clone());
            }
            _ => return None,
        }
    }
}

/// Windows whose start along an operand axis is their own number, all of it: they run along with
/// that axis. Gives the windows and the indices without that component.
fn along(
    b: &mut Builder<'_>,
    windows: &Windows,
    operand: ValueId,
    indices: ValueId,
) -> Option<(Windows, ValueId)> {
    let (ty, shape) = (b.ty(indices), b.ty(operand).shape);
    let data = b.function.ops[b.function.defining_op(indices)?].clone();
    let Op::Concatenate(parts) = data.op else { return None };
    let single = |&v: &ValueId| b.function.ty(v).shape[parts.axis] == 1;
    if parts.axis != windows.vector || !data.operands.iter().all(single) {
        return None;
    }
    let mut out = windows.clone();
    let mut left = data.operands;
    let mut component = 0;
    while component < left.len() && left.len() > 1 {
        let axis = out.start[component];
        let counted = find::counts(b.function, left[component]);
        let counted = counted.filter(|&n| {
            n != windows.vector
                && ty.shape[n] == shape[axis]
                && out.inserted.contains(&axis)
                && !out.indices_batch.contains(&n)
        });
        let Some(of_indices) = counted else {
            component += 1;
            continue;
        };
        left.remove(component);
        out.start.remove(component);
        out.inserted.retain(|&inserted| inserted != axis);
        let at = out.operand_batch.partition_point(|&batch| batch < axis);
        out.operand_batch.insert(at, axis);
        out.indices_batch.insert(at, of_indices);
    }
    if out == *windows {
        return None;
    }
    let indices = b.concatenate(&left, windows.vector).ok()?;
    Some((out, indices))
}

/// A scatter of one update for each position along the other axes into a splat constant, as a
/// selection by where the update goes.
fn selected(
    b: &mut Builder<'_>,
    scatter: &ops::Scatter,
    kind: Kind,
    [operand, indices, updates]: [ValueId; 3],
) -> Option<ValueId> {
    let windows = &scatter.windows;
    let (ty, indices_ty, updates_ty) = (b.ty(operand), b.ty(indices), b.ty(updates));
    let constant = splat(b.function, operand)?;
    let &[axis] = &windows.start[..] else { return None };
    let zero = constant.as_splat()?.iter().all(|&byte| byte == 0);
    if !(kind == Kind::New || kind == Kind::Add && zero) || updates_ty.is_empty() {
        return None;
    }
    // Every other axis is covered whole by each update, or each position has its own.
    let (batch, inside) = windows.split(&updates_ty.shape);
    let covered = windows.offset(&batch, &inside, ty.rank(), 1);
    let whole = |n: usize| covered[n] == if n == axis { 1 } else { ty.shape[n] };
    let alone = |n: usize| batch[n] == 1 || windows.is_batch(n);
    if !(0..ty.rank()).all(whole) || !(0..batch.len()).all(alone) {
        return None;
    }
    // Axes of the windows' tensor, by where they are in the operand.
    let numbers: Vec<usize> = (1..=updates_ty.rank()).collect();
    let (batch_axes, inside_axes) = windows.split(&numbers);
    let sources = windows.offset(&batch_axes, &inside_axes, ty.rank(), 0);
    let spread = |b: &mut Builder<'_>, value: ValueId, sources: &[usize]| {
        let from = b.ty(value).shape;
        // The axes that are in the operand, in its order; the others have one element.
        let mut places: Vec<(usize, usize)> = Vec::new();
        for source in 0..from.len() {
            if let Some(to) = sources.iter().position(|&s| s == source + 1) {
                places.push((source, to));
            } else if from[source] != 1 {
                return None;
            }
        }
        let shape: Vec<u64> = places.iter().map(|&(source, _)| from[source]).collect();
        let axes: Vec<usize> = places.iter().map(|&(_, to)| to).collect();
        let value = b.reshape(value, &shape).ok()?;
        b.broadcast_in_dim(value, &ty.shape, &axes).ok()
    };
    let on = spread(b, updates, &sources)?;
    // Ids have the windows' axes only, and maybe one of a single component.
    let ids = b.reshape(indices, &windows.batch_shape(&indices_ty)).ok()?;
    let of_ids =
        |&source: &usize| batch_axes.iter().position(|&a| a == source).map_or(0, |n| n + 1);
    let id_sources: Vec<usize> = sources.iter().map(of_ids).collect();
    let mut ids = spread(b, ids, &id_sources)?;
    let mut dtype = indices_ty.dtype;
    if ty.shape[axis] - 1 > find::largest(dtype) {
        dtype = DType::I64;
        ids = b.convert(ids, dtype).ok()?;
    }
    let counter = b.iota(&ty.with_dtype(dtype), axis).ok()?;
    let hit = b.compare(Compare::Eq, ids, counter).ok()?;
    let element = constant.as_splat()?;
    let off = b.constant(Literal::splat(ty.clone(), element)).ok()?;
    b.select(hit, on, off).ok()
}
