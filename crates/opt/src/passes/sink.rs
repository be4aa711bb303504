//! Copies into a region what it had better compute itself: broadcasts that it captures, so that it
//! captures the small operand instead and its kernels read that, and slices of what is there in any
//! case, which it reads in place. Must come after the last search for equal ops.

use super::region;
use super::rewrite::{self, Rewriter};
use jaxrs_ir::copy::Copied;
use jaxrs_ir::lower::Lowering;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueDef, ValueId, ops};
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
        let places = Places { block: r.block, region };
        for value in captures {
            if !copied.values.contains_key(&value) {
                clone_chain(r.f, value, places, &mut copied, &mut fresh);
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

/// The region and the block of its op.
#[derive(Clone, Copy)]
struct Places {
    block: BlockId,
    region: BlockId,
}

/// Whether computing the value in a region is better than capturing it.
fn sinks(f: &Function, value: ValueId, places: Places) -> bool {
    let Some(op) = f.defining_op(value) else { return false };
    let data = &f.ops[op];
    match data.op {
        Op::BroadcastInDim(_) => 4 * f.ty(data.operands[0]).bytes() <= f.ty(value).bytes(),
        Op::Slice(_) | Op::DynamicSlice(_) => {
            stays(f, data.operands[0], places.block) && is_read(f, value, places.region)
        }
        Op::Reshape(_) => {
            let from = data.operands[0];
            let slice = f.defining_op(from).map(|op| &f.ops[op].op);
            matches!(slice, Some(Op::Slice(_) | Op::DynamicSlice(_)))
                && stays(f, from, places.block)
                && is_read(f, value, places.region)
        }
        _ => false,
    }
}

/// Whether a value, or what it is sliced from, is memory for all of a block and never written.
fn stays(f: &Function, value: ValueId, block: BlockId) -> bool {
    let mut value = value;
    let there = loop {
        let op = match f.values[value].def {
            ValueDef::Argument(home, _) => break home != block || block == f.body,
            ValueDef::Result(op, _) => op,
        };
        if !f.blocks[block].ops.contains(&op) {
            break true;
        }
        match f.ops[op].op {
            Op::Reshape(_) | Op::Slice(_) | Op::DynamicSlice(_) => value = f.ops[op].operands[0],
            _ => return false,
        }
    };
    let writes = |&op: &OpId| {
        let at = |n: usize| f.ops[op].operands[n] == value;
        match ops::lower(f, op) {
            Lowering::Loops { updates, .. } => updates.iter().any(|&(_, o)| at(o as usize)),
            Lowering::Control => f.ops[op].operands.contains(&value),
            Lowering::Library(_) | Lowering::Elements { .. } | Lowering::View => false,
        }
    };
    there && !f.blocks.values().flat_map(|block| &block.ops).any(writes)
}

/// Whether all that use a value in a region and in those inside can read it element by element, or
/// with strides.
fn is_read(f: &Function, value: ValueId, region: BlockId) -> bool {
    let block = &f.blocks[region];
    !block.yields.contains(&value)
        && block.ops.iter().all(|&op| {
            let data = &f.ops[op];
            let reads = match data.op {
                Op::DotGeneral(_) => true,
                _ => matches!(ops::lower(f, op), Lowering::Elements { .. }),
            };
            let inner = || data.regions.iter().all(|&region| is_read(f, value, region));
            (reads || !data.operands.contains(&value)) && inner()
        })
}

fn clone_chain(
    f: &mut Function,
    value: ValueId,
    places: Places,
    copied: &mut Copied,
    fresh: &mut Vec<OpId>,
) {
    if copied.values.contains_key(&value) {
        return;
    }
    if !sinks(f, value, places) {
        copied.values.insert(value, value);
        return;
    }
    let op = f.defining_op(value).expect("an op that sinks");
    for operand in f.ops[op].operands.clone() {
        clone_chain(f, operand, places, copied, fresh);
    }
    let data = f.ops[op].clone();
    let operands = copied.all(&data.operands);
    let types = vec![f.ty(value).clone()];
    let copy = f.push_op(places.region, data.op, &operands, types, &[], data.location);
    f.blocks[places.region].ops.pop();
    fresh.push(copy);
    copied.values.insert(value, f.ops[copy].results[0]);
}
