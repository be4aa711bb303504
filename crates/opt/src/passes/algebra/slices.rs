//! Parts of tensors, and tensors put together from parts.

use super::At;
use crate::passes::rewrite::Rewriter;
use jaxrs_ir::{Op, TensorType, ValueId, ops};

type Value = Option<ValueId>;

pub(super) fn slice(r: &mut Rewriter<'_>, at: &At, op: &ops::Slice) -> Value {
    let operand = at.operands[0];
    if *r.f.ty(operand) == at.ty {
        return Some(operand);
    }
    match r.op_of(operand)?.clone() {
        Op::Slice(first) => {
            let inner = r.operands_of(operand)[0];
            Some(at.emit(r, composed(&first, op), &[inner], at.ty.clone()))
        }
        Op::Concatenate(parts) => {
            let (start, limit) = (op.starts[parts.axis], op.limits[parts.axis]);
            let mut before = 0;
            for part in r.operands_of(operand).to_vec() {
                let extent = r.f.ty(part).shape[parts.axis];
                if start >= before && limit <= before + extent {
                    let mut inner = op.clone();
                    inner.starts[parts.axis] -= before;
                    inner.limits[parts.axis] -= before;
                    return Some(at.emit(r, inner, &[part], at.ty.clone()));
                }
                before += extent;
            }
            None
        }
        Op::BroadcastInDim(broadcast) => {
            let inner = r.operands_of(operand)[0];
            let from = r.f.ty(inner).clone();
            let whole = |axis: usize| {
                let extent = broadcast.shape[axis];
                (op.starts[axis], op.limits[axis], op.strides[axis]) == (0, extent, 1)
            };
            if broadcast.axes.iter().zip(&from.shape).any(|(&a, &e)| e != 1 && !whole(a)) {
                return None;
            }
            let op = ops::BroadcastInDim { axes: broadcast.axes, shape: at.ty.shape.clone() };
            Some(at.emit(r, op, &[inner], at.ty.clone()))
        }
        _ => None,
    }
}

/// A slice of a slice.
fn composed(first: &ops::Slice, second: &ops::Slice) -> ops::Slice {
    let mut out = second.clone();
    for axis in 0..out.starts.len() {
        let (start, stride) = (first.starts[axis], first.strides[axis]);
        let count = (second.limits[axis] - second.starts[axis]).div_ceil(second.strides[axis]);
        out.starts[axis] = start + second.starts[axis] * stride;
        out.strides[axis] = stride * second.strides[axis];
        // The limit stands just after the last element taken.
        out.limits[axis] = match count {
            0 => out.starts[axis],
            n => out.starts[axis] + (n - 1) * out.strides[axis] + 1,
        };
    }
    out
}

pub(super) fn dynamic_slice(r: &mut Rewriter<'_>, at: &At, op: &ops::DynamicSlice) -> Value {
    let operand = at.operands[0];
    let from = r.f.ty(operand).clone();
    if from == at.ty {
        return Some(operand);
    }
    let mut slice = ops::Slice { starts: vec![], limits: vec![], strides: vec![1; from.rank()] };
    for (axis, &size) in op.sizes.iter().enumerate() {
        let high = from.shape[axis] - size;
        let start = if high == 0 { 0 } else { start(r, at.operands[1 + axis], high)? };
        slice.starts.push(start);
        slice.limits.push(start + size);
    }
    Some(at.emit(r, slice, &[operand], at.ty.clone()))
}

/// A start index that is known, clamped.
fn start(r: &Rewriter<'_>, value: ValueId, high: u64) -> Option<u64> {
    Some(jaxrs_ir::interpret::start_index(r.literal(value)?, high))
}

pub(super) fn dynamic_update_slice(r: &mut Rewriter<'_>, at: &At) -> Value {
    let update = at.operands[1];
    if *r.f.ty(update) == at.ty {
        return Some(update);
    }
    r.f.ty(update).is_empty().then_some(at.operands[0])
}

pub(super) fn concatenate(r: &mut Rewriter<'_>, at: &At, op: &ops::Concatenate) -> Value {
    let full = |&&v: &&ValueId| !r.f.ty(v).is_empty();
    let parts: Vec<ValueId> = at.operands.iter().filter(full).copied().collect();
    if let [only] = parts[..] {
        return Some(only);
    }
    if parts.len() < at.operands.len() {
        return Some(at.emit(r, op.clone(), &parts, at.ty.clone()));
    }
    rejoined(r, at, op)
}

/// Neighbouring slices of one tensor, put together again.
fn rejoined(r: &mut Rewriter<'_>, at: &At, op: &ops::Concatenate) -> Value {
    let mut whole: Option<(ValueId, ops::Slice)> = None;
    for &part in &at.operands {
        let Some(Op::Slice(next)) = r.op_of(part) else { return None };
        let inner = r.operands_of(part)[0];
        if next.strides.iter().any(|&s| s != 1) {
            return None;
        }
        match &mut whole {
            None => whole = Some((inner, next.clone())),
            Some((known, slice)) => {
                let others = |axis: usize| {
                    axis == op.axis
                        || (slice.starts[axis], slice.limits[axis])
                            == (next.starts[axis], next.limits[axis])
                };
                let follows = slice.limits[op.axis] == next.starts[op.axis];
                if *known != inner || !follows || !(0..at.ty.rank()).all(others) {
                    return None;
                }
                slice.limits[op.axis] = next.limits[op.axis];
            }
        }
    }
    let (inner, slice) = whole?;
    Some(at.emit(r, slice, &[inner], at.ty.clone()))
}

pub(super) fn pad(r: &mut Rewriter<'_>, at: &At, op: &ops::Pad) -> Value {
    let operand = at.operands[0];
    let from: TensorType = r.f.ty(operand).clone();
    // What is cut off at the end may make up for padding between the elements.
    let edges = op.low.iter().chain(&op.high).all(|&n| n == 0);
    (from == at.ty && edges).then_some(operand)
}
