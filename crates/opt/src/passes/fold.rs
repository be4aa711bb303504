//! Computes ops on constants, where the result is small; splats stay splats.

use super::rewrite::{self, Change, Rewriter};
use crate::build::function_between;
use jaxrs_ir::lower::{ElementCost, Lowering};
use jaxrs_ir::{Function, Literal, Op, OpId, TensorType, interpret, ops};

/// A result of at most so many bytes may be larger than what it is computed from.
const SMALL: u64 = 1024;
/// Element operations that may be spent on one op.
const MAX_WORK: u64 = 1 << 18;

/// Folds every op that can be.
pub fn run(function: &mut Function) {
    rewrite::run(function, &mut |r, op| visit(r, op));
}

fn visit(r: &mut Rewriter<'_>, op: OpId) -> Change {
    let f = &*r.f;
    let data = &f.ops[op];
    if data.operands.is_empty() || data.results.is_empty() {
        return None;
    }
    let literals: Vec<&Literal> =
        data.operands.iter().map(|&v| r.literal(v)).collect::<Option<_>>()?;
    let location = data.location.clone();
    let values = match all_splats(f, op, &literals) {
        Some(value) => vec![value],
        None => dense(f, op, &literals)?,
    };
    Some(values.into_iter().map(|value| r.constant(value, &location)).collect())
}

/// The result of an op that gives one element everywhere for operands that do.
fn all_splats(f: &Function, op: OpId, literals: &[&Literal]) -> Option<Literal> {
    let data = &f.ops[op];
    let ty = f.ty(data.results[0]).clone();
    if ty.is_empty() {
        return None;
    }
    let splats: Vec<&[u8]> = literals.iter().map(|l| l.as_splat()).collect::<Option<_>>()?;
    match &data.op {
        Op::BroadcastInDim(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Slice(_)
        | Op::DynamicSlice(_)
        | Op::Reverse(_) => Some(Literal::splat(ty, splats[0])),
        Op::Concatenate(_) if splats.iter().all(|s| *s == splats[0]) => {
            Some(Literal::splat(ty, splats[0]))
        }
        Op::Elementwise(_)
        | Op::Compare(_)
        | Op::Convert(_)
        | Op::Select(_)
        | Op::Clamp(_)
        | Op::ReducePrecision(_) => {
            let scalar = evaluate_on_scalars(f, op)?;
            Some(Literal::splat(ty, scalar.as_splat()?))
        }
        _ => None,
    }
}

/// The result of a pointwise op with every operand's type and literal made rank 0.
pub(crate) fn evaluate_on_scalars(f: &Function, op: OpId) -> Option<Literal> {
    let data = &f.ops[op];
    let mut small = Function::new("fold");
    let mut arguments = Vec::new();
    let mut operands = Vec::new();
    for &operand in &data.operands {
        let ty = TensorType::scalar(f.ty(operand).dtype);
        let element = match &f.defining_op(operand).map(|op| &f.ops[op].op) {
            Some(Op::Constant(constant)) => constant.value.as_splat()?.to_vec(),
            // Of the operand of a constant-like op only the type counts.
            _ => vec![0; ty.dtype.size() as usize],
        };
        operands.push(small.add_parameter(ty.clone()));
        arguments.push(Literal::splat(ty, &element));
    }
    let result = TensorType::scalar(f.ty(data.results[0]).dtype);
    let body = small.body;
    let location = data.location.clone();
    let copy = small.push_op(body, data.op.clone(), &operands, vec![result], &[], location);
    small.blocks[body].yields = small.ops[copy].results.clone();
    interpret::call(None, &small, &arguments).ok()?.pop()
}

/// The results of any op, if they are small enough to keep and quick to compute.
fn dense(f: &Function, op: OpId, literals: &[&Literal]) -> Option<Vec<Literal>> {
    let data = &f.ops[op];
    let results: u64 = data.results.iter().map(|&v| f.ty(v).bytes()).sum();
    let operands: u64 = literals.iter().map(|l| l.stored_bytes()).sum();
    let elements: u64 = data.results.iter().map(|&v| f.ty(v).len()).sum::<u64>()
        + literals.iter().map(|l| l.ty().len()).sum::<u64>();
    let each = match ops::lower(f, op) {
        Lowering::Elements { cost: ElementCost::Loop(n), .. } => n,
        Lowering::Elements { .. } | Lowering::View => 1,
        Lowering::Loops { .. } | Lowering::Library(_) => 16,
        Lowering::Control => return None,
    };
    let barrier = matches!(data.op, Op::OptimizationBarrier(_) | Op::CustomCall(_));
    let captures = !super::region::captures(f, op).is_empty();
    if barrier
        || captures
        || results > operands.max(SMALL)
        || elements.saturating_mul(each) > MAX_WORK
    {
        return None;
    }
    let function = function_between(f, &distinct(&data.operands), &data.results);
    let arguments: Vec<Literal> = distinct(&data.operands)
        .iter()
        .map(|v| {
            let position = data.operands.iter().position(|o| o == v).expect("one of them");
            literals[position].clone()
        })
        .collect();
    // A fault of the evaluation is the program's when it runs.
    interpret::call(None, &function, &arguments).ok()
}

fn distinct(values: &[jaxrs_ir::ValueId]) -> Vec<jaxrs_ir::ValueId> {
    let mut out = Vec::new();
    for &value in values {
        if !out.contains(&value) {
            out.push(value);
        }
    }
    out
}
