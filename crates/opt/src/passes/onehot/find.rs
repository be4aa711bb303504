//! Recognises one-hot tensors: along one axis, the element whose position is the id is a number
//! (mostly 1), and all others are 0.

use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, Function, Op, ValueId};
use jaxrs_kernel::Compare;
use jaxrs_kernel::dtype::Class;

/// Ops looked through at most, one in another.
const MAX_DEPTH: u32 = 12;
/// Ops looked at for one value.
const MAX_LOOKS: u32 = 40;

/// A one-hot tensor.
pub(super) struct OneHot {
    /// The axis along which at most one element is not 0.
    pub axis: usize,
    /// Where that element is: integers of the tensor's shape without the axis. An id outside the
    /// axis leaves zeros only.
    pub ids: ValueId,
    /// The element, if it is not 1 everywhere: of the shape of the ids.
    pub on: Option<ValueId>,
}

/// The parts of a value that is one-hot, their ops appended.
pub(super) fn one_hot(b: &mut Builder<'_>, value: ValueId) -> Option<OneHot> {
    find(b, value, &mut { MAX_LOOKS })
}

fn find(b: &mut Builder<'_>, value: ValueId, looks: &mut u32) -> Option<OneHot> {
    *looks = looks.checked_sub(1)?;
    let data = b.function.ops[b.function.defining_op(value)?].clone();
    let ty = b.ty(value);
    if ty.is_empty() {
        return None;
    }
    match (&data.op, &data.operands[..]) {
        (Op::Compare(compare), &[x, y]) if compare.direction == Compare::Eq => {
            let (axis, ids) = counted(b.function, x, y).or_else(|| counted(b.function, y, x))?;
            let ids = without_axis(b, ids, axis)?;
            Some(OneHot { axis, ids, on: None })
        }
        (Op::Convert(_), &[x]) => {
            let inner = find(b, x, looks)?;
            let on = match inner.on {
                Some(on) => Some(b.convert(on, ty.dtype).ok()?),
                None => None,
            };
            Some(OneHot { on, ..inner })
        }
        (Op::Select(_), &[predicate, on, off]) => {
            if b.function.ty(predicate).rank() == 0 || !is_zero(b.function, off) {
                return None;
            }
            let inner = find(b, predicate, looks)?;
            if !constant_along(b.function, on, inner.axis, MAX_DEPTH) {
                return None;
            }
            let mut on = without_axis(b, on, inner.axis)?;
            if let Some(mask) = inner.on {
                let ty = b.ty(on);
                let zero = b.zeros(&ty).ok()?;
                on = b.select(mask, on, zero).ok()?;
            }
            Some(OneHot { on: Some(on), ..inner })
        }
        (Op::Elementwise(row), &[x]) if row.name() == "stablehlo.negate" => {
            let inner = find(b, x, looks)?;
            let on = value_or_one(b, &inner, ty.dtype)?;
            let on = b.negate(on).ok()?;
            Some(OneHot { on: Some(on), ..inner })
        }
        (Op::Elementwise(row), &[x, y]) => {
            let name = row.name();
            let product = match name {
                "stablehlo.multiply" => true,
                "stablehlo.and" => ty.dtype == DType::I1,
                "stablehlo.divide" => false,
                _ => return None,
            };
            for (hot, factor) in [(x, y), (y, x)].into_iter().take(1 + usize::from(product)) {
                let repeats = |axis| constant_along(b.function, factor, axis, 4);
                if !(0..ty.rank()).any(repeats) {
                    continue;
                }
                let Some(inner) = find(b, hot, looks) else { continue };
                if !constant_along(b.function, factor, inner.axis, MAX_DEPTH) {
                    continue;
                }
                let factor = without_axis(b, factor, inner.axis)?;
                let on = match inner.on {
                    None if product => factor,
                    _ => {
                        let on = value_or_one(b, &inner, ty.dtype)?;
                        b.elementwise(name, &[on, factor]).ok()?
                    }
                };
                return Some(OneHot { on: Some(on), ..inner });
            }
            None
        }
        (Op::Transpose(op), &[x]) => {
            let inner = find(b, x, looks)?;
            let axis = op.permutation.iter().position(|&from| from == inner.axis)?;
            let order: Vec<usize> = op
                .permutation
                .iter()
                .filter(|&&from| from != inner.axis)
                .map(|&from| from - usize::from(from > inner.axis))
                .collect();
            moved(&inner, axis, |v| b.transpose(v, &order).ok())
        }
        (Op::Reshape(_), &[x]) => {
            let from = b.ty(x).shape;
            let inner = find(b, x, looks)?;
            let axis = same_axis(&from, inner.axis, &ty.shape)?;
            let mut shape = ty.shape;
            shape.remove(axis);
            moved(&inner, axis, |v| b.reshape(v, &shape).ok())
        }
        (Op::BroadcastInDim(op), &[x]) => {
            let from = b.ty(x).shape;
            let inner = find(b, x, looks)?;
            let axis = op.axes[inner.axis];
            if from[inner.axis] != ty.shape[axis] {
                return None;
            }
            let mut shape = ty.shape;
            shape.remove(axis);
            let axes: Vec<usize> = op
                .axes
                .iter()
                .filter(|&&to| to != axis)
                .map(|&to| to - usize::from(to > axis))
                .collect();
            moved(&inner, axis, |v| b.broadcast_in_dim(v, &shape, &axes).ok())
        }
        _ => None,
    }
}

/// The one-hot tensor with its parts under another shape.
fn moved(
    hot: &OneHot,
    axis: usize,
    mut part: impl FnMut(ValueId) -> Option<ValueId>,
) -> Option<OneHot> {
    let on = match hot.on {
        Some(on) => Some(part(on)?),
        None => None,
    };
    Some(OneHot { axis, ids: part(hot.ids)?, on })
}

/// The element at the id, of the shape of the ids.
pub(super) fn value_or_one(b: &mut Builder<'_>, hot: &OneHot, dtype: DType) -> Option<ValueId> {
    match hot.on {
        Some(on) => Some(on),
        None => {
            let ty = b.ty(hot.ids).with_dtype(dtype);
            b.full(&ty, 1.0).ok()
        }
    }
}

/// The axis that `counter` counts and `ids`, if those do not change along it.
fn counted(f: &Function, counter: ValueId, ids: ValueId) -> Option<(usize, ValueId)> {
    let axis = counts(f, counter)?;
    let ty = f.ty(counter);
    let fits = ty.dtype.is_int() && ty.shape[axis] - 1 <= largest(ty.dtype);
    (fits && constant_along(f, ids, axis, MAX_DEPTH)).then_some((axis, ids))
}

/// The largest integer of a type.
pub(super) fn largest(dtype: DType) -> u64 {
    let sign = u32::from(dtype.class() == Class::Signed);
    u64::MAX >> (64 - (dtype.bits() - sign))
}

/// The axis along which each element is its own position.
pub(super) fn counts(f: &Function, value: ValueId) -> Option<usize> {
    counts_within(f, value, MAX_DEPTH)
}

fn counts_within(f: &Function, value: ValueId, depth: u32) -> Option<usize> {
    let depth = depth.checked_sub(1)?;
    let data = &f.ops[f.defining_op(value)?];
    let ty = f.ty(value);
    match &data.op {
        Op::Iota(iota) => Some(iota.axis),
        Op::Constant(constant) => {
            let literal = &constant.value;
            let counting = ty.rank() == 1
                && ty.dtype.is_int()
                && ty.len() > 1
                && (0..ty.len()).all(|n| literal.bits(n, 0) == n);
            counting.then_some(0)
        }
        Op::BroadcastInDim(op) => {
            let from = data.operands[0];
            let inner = counts_within(f, from, depth)?;
            let axis = op.axes[inner];
            (f.ty(from).shape[inner] == ty.shape[axis]).then_some(axis)
        }
        Op::Reshape(_) => {
            let from = data.operands[0];
            same_axis(&f.ty(from).shape, counts_within(f, from, depth)?, &ty.shape)
        }
        Op::Transpose(op) => {
            let inner = counts_within(f, data.operands[0], depth)?;
            op.permutation.iter().position(|&from| from == inner)
        }
        Op::Convert(_) => {
            let from = data.operands[0];
            let axis = counts_within(f, from, depth)?;
            let exact = |d: DType| d.is_int() && ty.shape[axis] - 1 <= largest(d);
            (exact(f.ty(from).dtype) && exact(ty.dtype)).then_some(axis)
        }
        _ => None,
    }
}

/// Where an axis is under another shape of the same elements, if it is there as it was.
fn same_axis(from: &[u64], axis: usize, to: &[u64]) -> Option<usize> {
    let before: u64 = from[..axis].iter().product();
    let mut product = 1;
    for (n, &extent) in to.iter().enumerate() {
        if product == before && extent == from[axis] {
            return Some(n);
        }
        product *= extent;
    }
    None
}

/// Whether the elements of a value do not depend on the position along an axis.
fn constant_along(f: &Function, value: ValueId, axis: usize, depth: u32) -> bool {
    let ty = f.ty(value);
    if ty.shape.get(axis) == Some(&1) {
        return true;
    }
    let Some(op) = f.defining_op(value) else { return false };
    let data = &f.ops[op];
    if let Op::Constant(constant) = &data.op {
        return constant.value.as_splat().is_some();
    }
    let Some(depth) = depth.checked_sub(1) else { return false };
    match &data.op {
        Op::Iota(iota) => iota.axis != axis,
        Op::BroadcastInDim(op) => match op.axes.iter().position(|&to| to == axis) {
            None => true,
            Some(inner) => {
                let from = data.operands[0];
                f.ty(from).shape[inner] != ty.shape[axis] || constant_along(f, from, inner, depth)
            }
        },
        Op::Transpose(op) => constant_along(f, data.operands[0], op.permutation[axis], depth),
        Op::Reshape(_) => {
            let from = data.operands[0];
            same_axis(&ty.shape, axis, &f.ty(from).shape)
                .is_some_and(|inner| constant_along(f, from, inner, depth))
        }
        Op::Elementwise(_) | Op::Convert(_) | Op::Compare(_) | Op::Select(_) | Op::Clamp(_) => {
            data.operands.iter().all(|&v| f.ty(v).rank() == 0 || constant_along(f, v, axis, depth))
        }
        _ => false,
    }
}

/// Whether every element is (positive or negative) zero.
fn is_zero(f: &Function, value: ValueId) -> bool {
    let mut value = value;
    loop {
        let Some(op) = f.defining_op(value) else { return false };
        let data = &f.ops[op];
        match &data.op {
            Op::BroadcastInDim(_) | Op::Reshape(_) => value = data.operands[0],
            Op::Constant(constant) => {
                let splat = constant.value.as_splat();
                return splat.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0));
            }
            _ => return false,
        }
    }
}

/// A value that does not change along an axis, without that axis.
pub(super) fn without_axis(b: &mut Builder<'_>, value: ValueId, axis: usize) -> Option<ValueId> {
    let first = b.slice_axis(value, axis, 0, 1).ok()?;
    let mut shape = b.ty(value).shape;
    shape.remove(axis);
    b.reshape(first, &shape).ok()
}
