//! Chains of ops that move or convert elements.

use super::At;
use crate::passes::rewrite::Rewriter;
use jaxrs_ir::{DType, Op, ValueId, ops};

type Value = Option<ValueId>;

pub(super) fn reshape(r: &mut Rewriter<'_>, at: &At) -> Value {
    let operand = at.operands[0];
    if *r.f.ty(operand) == at.ty {
        return Some(operand);
    }
    match r.op_of(operand)? {
        Op::Reshape(_) => {
            let inner = r.operands_of(operand)[0];
            let op = ops::Reshape { shape: at.ty.shape.clone() };
            Some(at.emit(r, op, &[inner], at.ty.clone()))
        }
        Op::BroadcastInDim(broadcast) => {
            // Only axes of extent 1 come or go: the same broadcast to another rank.
            let axes = unit_moves(&broadcast.shape, &at.ty.shape)?;
            let inner = r.operands_of(operand)[0];
            let targets = broadcast.axes.iter().map(|&axis| axes[axis]);
            let targets = targets.collect::<Option<Vec<usize>>>()?;
            let op = ops::BroadcastInDim { axes: targets, shape: at.ty.shape.clone() };
            Some(at.emit(r, op, &[inner], at.ty.clone()))
        }
        _ => None,
    }
}

/// Where each axis of `from` is in `to`, if the two differ in axes of extent 1 only.
fn unit_moves(from: &[u64], to: &[u64]) -> Option<Vec<Option<usize>>> {
    let mut long = (0..to.len()).filter(|&axis| to[axis] != 1);
    let mut map = Vec::new();
    for &extent in from {
        map.push(match extent {
            1 => None,
            _ => Some(long.next().filter(|&axis| to[axis] == extent)?),
        });
    }
    long.next().is_none().then_some(map)
}

pub(super) fn transpose(r: &mut Rewriter<'_>, at: &At, op: &ops::Transpose) -> Value {
    let operand = at.operands[0];
    if op.permutation.iter().enumerate().all(|(n, &axis)| n == axis) {
        return Some(operand);
    }
    match r.op_of(operand)? {
        Op::Transpose(first) => {
            let permutation = op.permutation.iter().map(|&axis| first.permutation[axis]).collect();
            let inner = r.operands_of(operand)[0];
            Some(at.emit(r, ops::Transpose { permutation }, &[inner], at.ty.clone()))
        }
        Op::BroadcastInDim(first) => {
            let place = |axis: &usize| {
                op.permutation.iter().position(|to| to == axis).expect("a permutation")
            };
            let axes = first.axes.iter().map(place).collect();
            let inner = r.operands_of(operand)[0];
            let op = ops::BroadcastInDim { axes, shape: at.ty.shape.clone() };
            Some(at.emit(r, op, &[inner], at.ty.clone()))
        }
        _ => None,
    }
}

pub(super) fn broadcast(r: &mut Rewriter<'_>, at: &At, op: &ops::BroadcastInDim) -> Value {
    let operand = at.operands[0];
    let from = r.f.ty(operand).clone();
    if from == at.ty && op.axes.is_sorted() {
        return Some(operand);
    }
    match r.op_of(operand)? {
        Op::BroadcastInDim(first) => {
            let axes = first.axes.iter().map(|&axis| op.axes[axis]).collect();
            let inner = r.operands_of(operand)[0];
            let op = ops::BroadcastInDim { axes, shape: op.shape.clone() };
            Some(at.emit(r, op, &[inner], at.ty.clone()))
        }
        Op::Reshape(_) => {
            let inner = r.operands_of(operand)[0];
            let shape = r.f.ty(inner).shape.clone();
            if shape.contains(&1) {
                return None;
            }
            let moved = unit_moves(&shape, &from.shape)?;
            let axes = moved.into_iter().map(|to| to.map(|axis| op.axes[axis]));
            let axes = axes.collect::<Option<Vec<usize>>>()?;
            let op = ops::BroadcastInDim { axes, shape: op.shape.clone() };
            Some(at.emit(r, op, &[inner], at.ty.clone()))
        }
        _ => None,
    }
}

pub(super) fn convert(r: &mut Rewriter<'_>, at: &At) -> Value {
    let operand = at.operands[0];
    let middle = r.f.ty(operand).dtype;
    if middle == at.ty.dtype {
        return Some(operand);
    }
    if !matches!(r.op_of(operand)?, Op::Convert(_)) {
        return None;
    }
    let inner = r.operands_of(operand)[0];
    let first = r.f.ty(inner).dtype;
    if first == at.ty.dtype && holds(middle, first) {
        return Some(inner);
    }
    // A conversion that keeps the value exactly may be left out before one that looks at the
    // value alone. An integer's bits wrap where a float's value saturates.
    let same_class = first == DType::I1 || middle.is_int() == first.is_int();
    if holds(middle, first) && (same_class || at.ty.dtype.is_float()) {
        let op = ops::Convert { to: at.ty.dtype };
        return Some(at.emit(r, op, &[inner], at.ty.clone()));
    }
    None
}

/// Whether every value of `narrow` is a value of `wide`.
fn holds(wide: DType, narrow: DType) -> bool {
    let digits = |dtype: DType| match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => dtype.bits(),
    };
    if wide.is_complex() || narrow.is_complex() {
        return false;
    }
    match (narrow.is_float(), wide.is_float()) {
        (true, true) => wide.size() > narrow.size() && (wide, narrow) != (DType::F16, DType::BF16),
        (false, true) => digits(narrow) <= digits(wide) && wide != DType::F16,
        (true, false) => false,
        (false, false) => {
            let unsigned = |d: DType| !matches!(d.class(), jaxrs_kernel::dtype::Class::Signed);
            wide.bits() > narrow.bits() && (unsigned(narrow) || !unsigned(wide))
        }
    }
}

pub(super) fn reverse(r: &mut Rewriter<'_>, at: &At, op: &ops::Reverse) -> Value {
    let operand = at.operands[0];
    let axes: Vec<usize> = op.axes.iter().copied().filter(|&a| at.ty.shape[a] > 1).collect();
    if axes.is_empty() {
        return Some(operand);
    }
    match r.op_of(operand) {
        Some(Op::Reverse(first)) => {
            let both = |a: &usize| first.axes.contains(a) != axes.contains(a);
            let axes = (0..at.ty.rank()).filter(both).collect();
            let inner = r.operands_of(operand)[0];
            Some(at.emit(r, ops::Reverse { axes }, &[inner], at.ty.clone()))
        }
        _ => None,
    }
}
