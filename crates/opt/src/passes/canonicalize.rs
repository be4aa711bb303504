//! One form of what can be said in several: constants of one element are splats, old spellings of
//! ops are the new ones, what moves no element is a reshape.

use super::rewrite::{self, Change, Rewriter};
use jaxrs_ir::{Function, Literal, Op, OpId, ops};

/// Rewrites every op that has another form.
pub fn run(function: &mut Function) {
    rewrite::run(function, &mut |r, op| visit(r, op));
}

fn visit(r: &mut Rewriter<'_>, op: OpId) -> Change {
    let data = &r.f.ops[op];
    let location = data.location.clone();
    match &data.op {
        Op::Constant(constant) => {
            let value = splat(&constant.value)?;
            Some(vec![r.constant(value, &location)])
        }
        Op::ConstantLike(_) => {
            let ty = r.f.ty(data.results[0]).clone();
            let scalar = super::fold::evaluate_on_scalars(r.f, op)?;
            let value = Literal::splat(ty, scalar.as_splat()?);
            Some(vec![r.constant(value, &location)])
        }
        Op::Broadcast(broadcast) => {
            let (operand, ty) = (data.operands[0], r.f.ty(data.results[0]).clone());
            let axes = (broadcast.sizes.len()..ty.rank()).collect();
            let op = ops::BroadcastInDim { axes, shape: ty.shape.clone() };
            Some(vec![r.push(op, &[operand], ty, &location)])
        }
        Op::Transpose(transpose) => {
            let (operand, ty) = (data.operands[0], r.f.ty(data.results[0]).clone());
            let shape = &r.f.ty(operand).shape;
            let long = transpose.permutation.iter().filter(|&&axis| shape[axis] != 1);
            if !long.is_sorted() {
                return None;
            }
            let op = ops::Reshape { shape: ty.shape.clone() };
            Some(vec![r.push(op, &[operand], ty, &location)])
        }
        Op::BroadcastInDim(broadcast) => {
            let (operand, ty) = (data.operands[0], r.f.ty(data.results[0]).clone());
            let from = r.f.ty(operand);
            let long = broadcast.axes.iter().zip(&from.shape).filter(|(_, e)| **e != 1);
            if from.len() != ty.len() || !long.is_sorted_by_key(|(axis, _)| *axis) {
                return None;
            }
            let op = ops::Reshape { shape: ty.shape.clone() };
            Some(vec![r.push(op, &[operand], ty, &location)])
        }
        _ => None,
    }
}

/// The literal as a splat if all its elements are equal and it is not one yet.
fn splat(literal: &Literal) -> Option<Literal> {
    let ty = literal.ty();
    if ty.is_empty() || literal.as_splat().is_some() {
        return None;
    }
    let bytes = literal.bytes();
    let size = ty.dtype.size() as usize;
    if !bytes.chunks_exact(size).all(|element| element == &bytes[..size]) {
        return None;
    }
    Some(Literal::splat(ty.clone(), &bytes[..size]))
}
