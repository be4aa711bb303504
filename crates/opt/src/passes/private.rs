//! Gives each op that updates a constant, or a loop that starts from one, a tensor of its own to
//! begin with: filled in where it is needed instead of copied from a constant.

use super::rewrite::{self, Rewriter};
use jaxrs_ir::lower::Lowering;
use jaxrs_ir::{Function, Literal, Op, OpId, TensorType, ValueId, ops};

/// Rewrites the operands of every such op.
pub fn run(function: &mut Function) {
    rewrite::run(function, &mut |r, op| {
        for position in begins(r.f, op) {
            let operand = r.f.ops[op].operands[position];
            if let Some(own) = filled(r, op, operand) {
                r.f.ops[op].operands[position] = own;
            }
        }
        None
    });
}

/// The operands whose memory the op's results take over.
fn begins(f: &Function, op: OpId) -> Vec<usize> {
    match ops::lower(f, op) {
        Lowering::Loops { updates, .. } => updates.iter().map(|u| u.1 as usize).collect(),
        _ if matches!(f.ops[op].op, Op::While(_)) => (0..f.ops[op].operands.len()).collect(),
        _ => Vec::new(),
    }
}

/// A fresh broadcast of a splat's element.
fn filled(r: &mut Rewriter<'_>, op: OpId, value: ValueId) -> Option<ValueId> {
    let literal = r.literal(value)?;
    let ty = literal.ty().clone();
    if ty.is_empty() {
        return None;
    }
    let element = Literal::splat(TensorType::scalar(ty.dtype), literal.as_splat()?);
    let location = r.f.ops[op].location.clone();
    let scalar = r.constant(element, &location);
    let fill = ops::BroadcastInDim { axes: Vec::new(), shape: ty.shape.clone() };
    Some(r.push(fill, &[scalar], ty, &location))
}
