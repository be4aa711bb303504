//! A contraction of which only slices are used becomes one for each slice, of slices of its operands:
//! those are read in place, and each result is memory only as long as it is used itself.
//!
//! Done where a slice is an operand of a contraction again, as of attention's queries, keys and
//! values; what kernels read is left together.

use super::rewrite::{self, Rewriter};
use cranelift_entity::SecondaryMap;
use jaxrs_ir::ops::{DotGeneral, Slice};
use jaxrs_ir::{Function, Location, Op, OpId, TensorType, ValueId, ops};

type Users = SecondaryMap<ValueId, Vec<Option<OpId>>>;

/// Splits the contractions of a function.
pub fn run(function: &mut Function) {
    let users = users(function);
    rewrite::run(function, &mut |r, op| {
        let data = r.f.ops[op].clone();
        let Op::Slice(slice) = &data.op else { return None };
        let whole = data.operands[0];
        splits(r.f, whole, &users).then(|| vec![sliced(r, whole, slice, &users, &data.location)])
    });
}

/// The ops that use each value; None is a block that returns it.
fn users(f: &Function) -> Users {
    let mut users = Users::new();
    for block in f.blocks.values() {
        for &op in &block.ops {
            f.ops[op].operands.iter().for_each(|&v| users[v].push(Some(op)));
        }
        block.yields.iter().for_each(|&v| users[v].push(None));
    }
    users
}

/// Whether a value is made from a contraction and all its users are slices without an element in
/// common, one of them for another contraction.
fn splits(f: &Function, whole: ValueId, users: &Users) -> bool {
    if !is_made_by_contraction(f, whole, users) || users[whole].len() < 2 {
        return false;
    }
    let mut slices: Vec<(ValueId, &Slice)> = Vec::new();
    for &user in &users[whole] {
        let Some(user) = user else { return false };
        let Op::Slice(slice) = &f.ops[user].op else { return false };
        if slices.iter().any(|(_, other)| overlap(other, slice)) {
            return false;
        }
        slices.push((f.ops[user].results[0], slice));
    }
    slices.iter().any(|&(value, _)| is_contracted(f, value, users))
}

/// Whether the value is a contraction, or elementwise ops on one that nothing else uses.
fn is_made_by_contraction(f: &Function, value: ValueId, users: &Users) -> bool {
    let Some(op) = f.defining_op(value) else { return false };
    let data = &f.ops[op];
    match data.op {
        Op::DotGeneral(_) => true,
        Op::Elementwise(_) => data
            .operands
            .iter()
            .any(|&v| users[v].len() == 1 && is_made_by_contraction(f, v, users)),
        _ => false,
    }
}

/// Whether the ranges of two slices meet on every axis.
fn overlap(a: &Slice, b: &Slice) -> bool {
    (0..a.starts.len()).all(|i| a.starts[i] < b.limits[i] && b.starts[i] < a.limits[i])
}

/// Whether a contraction reads the value, perhaps moved.
fn is_contracted(f: &Function, value: ValueId, users: &Users) -> bool {
    users[value].iter().flatten().any(|&user| match f.ops[user].op {
        Op::DotGeneral(_) => true,
        Op::Reshape(_) | Op::Transpose(_) => is_contracted(f, f.ops[user].results[0], users),
        _ => false,
    })
}

/// A slice of a value, of slices of what makes it where that is a contraction or cheap.
fn sliced(
    r: &mut Rewriter<'_>,
    value: ValueId,
    slice: &Slice,
    users: &Users,
    location: &Location,
) -> ValueId {
    let from = r.f.ty(value).clone();
    let to = TensorType::new(shape(slice), from.dtype);
    if to == from {
        return value;
    }
    let data = r.f.defining_op(value).map(|op| r.f.ops[op].clone());
    let (op, operands) = data.map_or((None, Vec::new()), |data| (Some(data.op), data.operands));
    match op {
        Some(Op::DotGeneral(dot)) if is_made_by_contraction(r.f, value, users) => {
            part(r, &dot, &operands, slice, to, location)
        }
        Some(Op::Elementwise(op)) if is_made_by_contraction(r.f, value, users) => {
            let of = |v: ValueId| sliced(r, v, slice, users, location);
            let parts: Vec<ValueId> = operands.into_iter().map(of).collect();
            r.push(op, &parts, to, location)
        }
        Some(Op::BroadcastInDim(broadcast)) => {
            let inner = r.f.ty(operands[0]).clone();
            let mut own = whole(&inner);
            for (axis, &out) in broadcast.axes.iter().enumerate() {
                if inner.shape[axis] != 1 {
                    copy_axis(&mut own, axis, slice, out);
                }
            }
            let inner = sliced(r, operands[0], &own, users, location);
            let op = ops::BroadcastInDim { axes: broadcast.axes, shape: to.shape.clone() };
            r.push(op, &[inner], to, location)
        }
        _ => r.push(slice.clone(), &[value], to, location),
    }
}

/// The slice that takes everything.
fn whole(ty: &TensorType) -> Slice {
    let rank = ty.rank();
    Slice { starts: vec![0; rank], limits: ty.shape.clone(), strides: vec![1; rank] }
}

fn copy_axis(to: &mut Slice, axis: usize, from: &Slice, other: usize) {
    to.starts[axis] = from.starts[other];
    to.limits[axis] = from.limits[other];
    to.strides[axis] = from.strides[other];
}

fn shape(slice: &Slice) -> Vec<u64> {
    let extent =
        |axis: usize| (slice.limits[axis] - slice.starts[axis]).div_ceil(slice.strides[axis]);
    (0..slice.starts.len()).map(extent).collect()
}

/// The part of a contraction that a slice takes.
fn part(
    r: &mut Rewriter<'_>,
    dot: &DotGeneral,
    operands: &[ValueId],
    slice: &Slice,
    ty: TensorType,
    location: &Location,
) -> ValueId {
    let ranks = [0, 1].map(|side| r.f.ty(operands[side]).rank());
    let free = |rank: usize, batch: &[usize], contracting: &[usize]| -> Vec<usize> {
        (0..rank).filter(|axis| !batch.contains(axis) && !contracting.contains(axis)).collect()
    };
    let lhs_free = free(ranks[0], &dot.lhs_batch, &dot.lhs_contracting);
    let rhs_free = free(ranks[1], &dot.rhs_batch, &dot.rhs_contracting);
    let batch = dot.lhs_batch.len();
    let sides =
        [(&dot.lhs_batch, &lhs_free, batch), (&dot.rhs_batch, &rhs_free, batch + lhs_free.len())];
    let mut parts = Vec::new();
    for (&operand, (batch_axes, free_axes, first_free)) in operands.iter().zip(sides) {
        let from = r.f.ty(operand).clone();
        let mut own = whole(&from);
        let batch_axes = batch_axes.iter().enumerate().map(|(i, &axis)| (i, axis));
        let free_axes = free_axes.iter().enumerate().map(|(i, &axis)| (first_free + i, axis));
        for (out, axis) in batch_axes.chain(free_axes) {
            copy_axis(&mut own, axis, slice, out);
        }
        let to = TensorType::new(shape(&own), from.dtype);
        parts.push(if to == from { operand } else { r.push(own, &[operand], to, location) });
    }
    r.push(dot.clone(), &parts, ty, location)
}
