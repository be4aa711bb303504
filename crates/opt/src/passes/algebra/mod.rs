//! Identities that keep every bit of a result (but for a NaN's payload): chains of shape ops,
//! slices of what was put together, what convolutions read in place, operations with a neutral operand.

mod arithmetic;
mod convolution;
mod shape;
mod slices;

use super::rewrite::{self, Change, Rewriter};
use jaxrs_ir::{Function, Location, Op, OpId, TensorType, ValueId};

/// Rewrites every op that is equal to something simpler.
pub fn run(function: &mut Function) {
    rewrite::run(function, &mut visit);
}

fn visit(r: &mut Rewriter<'_>, op: OpId) -> Change {
    let data = &r.f.ops[op];
    if data.results.len() != 1 || r.f.ty(data.results[0]).is_empty() {
        return None;
    }
    let at = At {
        operands: data.operands.clone(),
        ty: r.f.ty(data.results[0]).clone(),
        location: data.location.clone(),
    };
    let value = match data.op.clone() {
        Op::Reshape(_) => shape::reshape(r, &at),
        Op::Transpose(op) => shape::transpose(r, &at, &op),
        Op::BroadcastInDim(op) => shape::broadcast(r, &at, &op),
        Op::Convert(_) => shape::convert(r, &at),
        Op::ReducePrecision(op) if op.keeps(at.ty.dtype) => Some(at.operands[0]),
        Op::Reverse(op) => shape::reverse(r, &at, &op),
        Op::Slice(op) => slices::slice(r, &at, &op),
        Op::DynamicSlice(op) => slices::dynamic_slice(r, &at, &op),
        Op::DynamicUpdateSlice(_) => slices::dynamic_update_slice(r, &at),
        Op::Concatenate(op) => slices::concatenate(r, &at, &op),
        Op::Pad(op) => slices::pad(r, &at, &op),
        Op::Convolution(op) => convolution::convolution(r, &at, &op),
        Op::Select(_) => arithmetic::select(r, &at),
        Op::Compare(op) => arithmetic::compare(r, &at, &op),
        Op::Elementwise(op) => arithmetic::elementwise(r, &at, op.name()),
        _ => None,
    };
    value.map(|value| vec![value])
}

/// An op being visited: its operands, its result's type, its place.
struct At {
    operands: Vec<ValueId>,
    ty: TensorType,
    location: Location,
}

impl At {
    /// A new op in its place, simplified in turn.
    fn emit(
        &self,
        r: &mut Rewriter<'_>,
        op: impl Into<Op>,
        operands: &[ValueId],
        ty: TensorType,
    ) -> ValueId {
        let value = r.push(op, operands, ty, &self.location);
        let op = r.f.defining_op(value).expect("just made");
        match visit(r, op) {
            Some(values) => values[0],
            None => value,
        }
    }
}
