//! Copies into a region the broadcasts that it captures: it captures the small operand instead,
//! and its kernels read that. Must come after the last search for equal ops.

use super::region;
use super::rewrite::{self, Rewriter};
use jaxrs_ir::copy::Copied;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rustc_hash::FxHashMap;

/// Sinks into every region of control flow.
pub fn run(function: &mut Function) {
    rewrite::run(function, &mut |r, op| {
        if region::is_control(r.f, op) {
            sink(r, op);
        }
        None
    });
}

fn sink(r: &mut Rewriter<'_>, op: OpId) {
    for region in r.f.ops[op].regions.clone() {
        let mut copied = Copied::default();
        let captures = region::captures_of_block(r.f, region);
        let mut fresh = Vec::new();
        for value in captures {
            if !copied.values.contains_key(&value) {
                clone_chain(r.f, value, region, &mut copied, &mut fresh);
            }
        }
        if fresh.is_empty() {
            continue;
        }
        let names: FxHashMap<ValueId, ValueId> =
            copied.values.iter().filter(|(a, b)| a != b).map(|(&a, &b)| (a, b)).collect();
        super::loops::rename(r.f, region, &names);
        let ops = std::mem::take(&mut r.f.blocks[region].ops);
        fresh.extend(ops);
        r.f.blocks[region].ops = fresh;
    }
}

/// Whether computing the value in a region is better than capturing it.
fn sinks(f: &Function, value: ValueId) -> bool {
    let Some(op) = f.defining_op(value) else { return false };
    let data = &f.ops[op];
    matches!(data.op, Op::BroadcastInDim(_))
        && 4 * f.ty(data.operands[0]).bytes() <= f.ty(value).bytes()
}

fn clone_chain(
    f: &mut Function,
    value: ValueId,
    region: BlockId,
    copied: &mut Copied,
    fresh: &mut Vec<OpId>,
) {
    if copied.values.contains_key(&value) {
        return;
    }
    if !sinks(f, value) {
        copied.values.insert(value, value);
        return;
    }
    let op = f.defining_op(value).expect("an op that sinks");
    for operand in f.ops[op].operands.clone() {
        clone_chain(f, operand, region, copied, fresh);
    }
    let data = f.ops[op].clone();
    let operands = copied.all(&data.operands);
    let types = vec![f.ty(value).clone()];
    let copy = f.push_op(region, data.op, &operands, types, &[], data.location);
    f.blocks[region].ops.pop();
    fresh.push(copy);
    copied.values.insert(value, f.ops[copy].results[0]);
}
