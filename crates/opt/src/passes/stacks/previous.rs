//! A step that reads what the step before stacked reads it in its slot, not in a carry of its own.
//!
//! A loop that stacks its carry, `ys[i] = c = f(c)`, has two copies of it. In each step but the first
//! the carry is what lies in the slot written before; the slot written last takes the first value in
//! the beginning, so that the first step reads that. This saves memory only where the carry is read
//! by what cannot be computed in place, such as a contraction; elsewhere the loop stays as it is.

use super::forms::is_pointwise;
use super::slots::{Filled, filled};
use crate::passes::counter::Counted;
use crate::passes::{loops, region};
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{BlockId, Function, Literal, Op, OpId, ValueId, ops};
use jaxrs_kernel::Compare;
use rustc_hash::FxHashSet;

/// Carries of fewer bytes stay.
pub(super) const SMALL: u64 = 1024;

/// Rewrites every loop whose carry is what it stacks.
pub fn run(function: &mut Function) {
    super::rewrite_loops(function, &mut visit);
}

fn visit(f: &mut Function, id: BlockId, counted: &Counted) -> bool {
    let mut changed = false;
    for fill in filled(counted, f) {
        if let Some(carry) = stacked_carry(f, id, counted.op, &fill) {
            changed |= rewrite(f, id, counted, &fill, carry).is_ok();
        }
    }
    changed
}

/// The carry that a loop stacks, if it gains by reading it in its slot.
fn stacked_carry(f: &Function, block: BlockId, op: OpId, fill: &Filled) -> Option<usize> {
    let data = &f.ops[op];
    let body = &f.blocks[data.regions[1]];
    let value = match f.defining_op(fill.update).map(|op| &f.ops[op]) {
        Some(data) if matches!(data.op, Op::Reshape(_)) => data.operands[0],
        _ => fill.update,
    };
    let carry = body.yields.iter().position(|&next| next == value || next == fill.update)?;
    is_spared(f, block, op, carry).then_some(carry)
}

/// Whether a carry needs no memory of its own if a loop stacks it.
pub(in crate::passes) fn is_spared(f: &Function, block: BlockId, op: OpId, carry: usize) -> bool {
    let data = &f.ops[op];
    let [condition, body] = [0, 1].map(|n| &f.blocks[data.regions[n]]);
    let argument = body.arguments[carry];
    let made = f.defining_op(body.yields[carry]).is_some_and(|op| body.ops.contains(&op));
    let asked = uses(f, data.regions[0], condition.arguments[carry]);
    // Where the last one must be memory of its own, the carry is that.
    let result = data.results[carry];
    let needed = f.blocks[block].yields.contains(&result)
        || f.blocks[block].ops.iter().any(|&op| {
            let data = &f.ops[op];
            let operand = data.operands.contains(&result);
            operand && !is_pointwise(&data.op) && !matches!(data.op, Op::Reduce(_))
                || region::captures(f, op).contains(&result)
        });
    let contracted = body.ops.iter().any(|&op| {
        matches!(f.ops[op].op, Op::DotGeneral(_)) && f.ops[op].operands.contains(&argument)
    });
    made && !asked && !needed && contracted && f.ty(argument).bytes() >= SMALL
}

/// Whether a block or a region in it uses a value.
pub(super) fn uses(f: &Function, block: BlockId, value: ValueId) -> bool {
    let data = &f.blocks[block];
    data.yields.contains(&value)
        || data.ops.iter().any(|&op| {
            f.ops[op].operands.contains(&value) || region::captures(f, op).contains(&value)
        })
}

/// After an error nothing has changed but for ops that nothing uses.
fn rewrite(
    f: &mut Function,
    block: BlockId,
    counted: &Counted,
    fill: &Filled,
    carry: usize,
) -> Result<(), String> {
    let data = f.ops[counted.op].clone();
    let body = data.regions[1];
    let buffer = f.blocks[body].arguments[fill.carry];
    let argument = f.blocks[body].arguments[carry];
    let update = f.defining_op(f.blocks[body].yields[fill.carry]).ok_or("no update")?;
    let mut starts = f.ops[update].operands[2..].to_vec();
    let piece = f.ty(fill.update).shape.clone();
    let ty = f.ty(argument).clone();
    let last = fill.block * (counted.trips - 1);

    // In the body: first the slot's index, then the carry.
    let index = computing(f, body, &starts);
    let rest: Vec<OpId> = {
        let ops = std::mem::take(&mut f.blocks[body].ops);
        ops.into_iter().filter(|op| !index.contains(op)).collect()
    };
    f.blocks[body].ops.extend(&index);
    let mut make = || {
        let location = data.location.clone();
        let mut b = Builder { function: f, block: body, location };
        let at = starts[fill.axis];
        let dtype = b.ty(at).dtype;
        let number = |b: &mut Builder<'_>, n| b.constant(Literal::scalar(dtype, &[n]));
        let (ends, step) = (number(&mut b, last)?, number(&mut b, fill.block)?);
        let zero = number(&mut b, 0)?;
        let (first, wrapped) = if fill.rising { (zero, ends) } else { (ends, zero) };
        let begins = b.compare(Compare::Eq, at, first)?;
        let before = if fill.rising { b.subtract(at, step)? } else { b.add(at, step)? };
        starts[fill.axis] = b.select(begins, wrapped, before)?;
        let operands: Vec<ValueId> = [buffer].into_iter().chain(starts.iter().copied()).collect();
        let slot = b.one(ops::DynamicSlice { sizes: piece.clone() }, &operands)?;
        b.reshape(slot, &ty.shape)
    };
    let made = make();
    f.blocks[body].ops.extend(rest);
    let old = made?;

    // Before the loop: the slot written last takes the first value.
    let ops = std::mem::take(&mut f.blocks[block].ops);
    let mut make = || {
        let location = data.location.clone();
        let mut b = Builder { function: f, block, location };
        let first = b.reshape(data.operands[carry], &piece)?;
        let scalar = jaxrs_ir::TensorType::scalar(jaxrs_kernel::DType::I64);
        let mut operands = vec![data.operands[fill.carry], first];
        for axis in 0..piece.len() {
            let at = if axis == fill.axis && fill.rising { last } else { 0 };
            operands.push(b.constant(Literal::splat(scalar.clone(), &at.to_le_bytes()))?);
        }
        b.one(ops::DynamicUpdateSlice, &operands)
    };
    let made = make();
    let fresh = std::mem::take(&mut f.blocks[block].ops);
    let at = ops.iter().position(|&op| op == counted.op).ok_or("another block")?;
    f.blocks[block].ops.extend(&ops[..at]);
    f.blocks[block].ops.extend(fresh);
    f.blocks[block].ops.extend(&ops[at..]);
    let made = made?;

    // After it: the last one is in that slot.
    let result = data.results[carry];
    if uses(f, block, result) {
        let ops = std::mem::take(&mut f.blocks[block].ops);
        let mut make = || {
            let location = data.location.clone();
            let mut b = Builder { function: f, block, location };
            let start = if fill.rising { last } else { 0 };
            let all = data.results[fill.carry];
            let slot = b.slice_axis(all, fill.axis, start, start + fill.block)?;
            b.reshape(slot, &ty.shape)
        };
        let value = make();
        let fresh = std::mem::replace(&mut f.blocks[block].ops, ops);
        let at = f.blocks[block].ops.iter().position(|&op| op == counted.op);
        let at = at.ok_or("another block")? + 1;
        f.blocks[block].ops.splice(at..at, fresh);
        loops::rename(f, block, &[(result, value?)].into_iter().collect());
    }
    f.ops[counted.op].operands[fill.carry] = made;

    let names = [(argument, old)].into_iter().collect();
    loops::rename(f, body, &names);

    // The carry does not change, and nothing reads it: the clean-up of loops takes it away.
    f.blocks[body].yields[carry] = argument;
    Ok(())
}

/// The ops of a block that compute values, in order.
pub(super) fn computing(f: &Function, block: BlockId, values: &[ValueId]) -> Vec<OpId> {
    let mut needed: FxHashSet<ValueId> = values.iter().copied().collect();
    let mut out = Vec::new();
    for &op in f.blocks[block].ops.iter().rev() {
        let data = &f.ops[op];
        if data.results.iter().any(|v| needed.contains(v)) {
            needed.extend(&data.operands);
            needed.extend(region::captures(f, op));
            out.push(op);
        }
    }
    out.reverse();
    out
}
