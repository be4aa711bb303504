//! A loop that reads a stack slot by slot and fills another of the same type in the same order fills
//! the first one, if nothing reads that afterwards: the steps of an optimizer, layer by layer in the
//! backward loop, write the new weights and moments over the old ones.

use super::forms::is_pointwise;
use super::reuse::is_read_late;
use super::slots::{self, Filled};
use crate::passes::counter::Counted;
use crate::passes::residuals::{Info, reshaped};
use crate::passes::{dce, loops};
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueDef, ValueId};
use rustc_hash::FxHashSet;

/// Rewrites every such loop. `donated` says of each parameter whether it may be overwritten.
pub fn run(function: &mut Function, donated: &[bool]) {
    let body = function.body;
    let mut visit = |f: &mut Function, id, counted: &Counted| replace(f, id, counted, donated);
    if super::each_loop(function, body, &mut visit) {
        dce::run(function);
    }
}

fn replace(f: &mut Function, block: BlockId, counted: &Counted, donated: &[bool]) -> bool {
    let mut filled = slots::filled(counted, f);
    if filled.is_empty() {
        return false;
    }
    let info = Info::new(f);
    let body = f.ops[counted.op].regions[1];
    let mut candidates: Vec<Vec<ValueId>> = filled
        .iter()
        .map(|fill| {
            let mut read = read(f, body, fill);
            read.retain(|&stack| {
                f.ty(stack) == f.ty(f.blocks[body].arguments[fill.carry])
                    && is_free(f, block, stack, donated)
                    && is_left(f, &info, block, counted, fill, stack)
            });
            read
        })
        .collect();
    let mut changed = false;
    // Those with the fewest choices first.
    while let Some(n) = (0..filled.len())
        .filter(|&n| !candidates[n].is_empty())
        .min_by_key(|&n| candidates[n].len())
    {
        let (fill, stack) = (filled.swap_remove(n), candidates.swap_remove(n)[0]);
        candidates.iter_mut().for_each(|others| others.retain(|&other| other != stack));
        let argument = f.blocks[body].arguments[fill.carry];
        loops::rename(f, body, &[(stack, argument)].into_iter().collect());
        f.ops[counted.op].operands[fill.carry] = stack;
        changed = true;
    }
    changed
}

/// The stacks of whose slices elementwise ops make what is filled in.
fn read(f: &Function, body: BlockId, fill: &Filled) -> Vec<ValueId> {
    let inside: FxHashSet<OpId> = f.blocks[body].ops.iter().copied().collect();
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    let mut stacks = Vec::new();
    let mut stack = vec![fill.update];
    while let Some(value) = stack.pop() {
        let op = f.defining_op(value).filter(|op| inside.contains(op));
        let Some(op) = op.filter(|_| seen.insert(value)) else { continue };
        let data = &f.ops[op];
        if is_pointwise(&data.op) || reshaped(f, value).is_some() {
            stack.extend(&data.operands);
        } else if matches!(data.op, Op::DynamicSlice(_)) && !stacks.contains(&data.operands[0]) {
            stacks.push(data.operands[0]);
        }
    }
    stacks
}

/// Whether a value of the block is one that may be overwritten.
fn is_free(f: &Function, block: BlockId, stack: ValueId, donated: &[bool]) -> bool {
    match f.values[stack].def {
        ValueDef::Argument(home, n) => {
            home == f.body && block == home && donated.get(n as usize) == Some(&true)
        }
        ValueDef::Result(op, _) => {
            f.blocks[block].ops.contains(&op) && !matches!(f.ops[op].op, Op::Constant(_))
        }
    }
}

/// Whether the loop reads of a stack, in each step, only the slot that it fills then, and nothing
/// after it reads any.
fn is_left(
    f: &Function,
    info: &Info,
    block: BlockId,
    counted: &Counted,
    fill: &Filled,
    stack: ValueId,
) -> bool {
    let body = f.ops[counted.op].regions[1];
    let last = i128::from(f.ty(stack).shape[fill.axis] - fill.block);
    let size = i128::from(fill.block);
    let wanted = if fill.rising { (0, size) } else { (last, -size) };
    let user = |&user: &OpId| {
        let data = &f.ops[user];
        let Some(home) = info.home[user].expand() else { return false };
        if home == body {
            let Op::DynamicSlice(slice) = &data.op else { return false };
            let line = counted.line(f, data.operands[1 + fill.axis]);
            let mut slot = f.ty(stack).shape.clone();
            slot[fill.axis] = fill.block;
            return slice.sizes == slot && line.is_some_and(|l| (l.first, l.step) == wanted);
        }
        let at = if home == block { Some(user) } else { info.ancestor(home, block) };
        at.is_some_and(|at| info.position[at] < info.position[counted.op])
    };
    info.returns[stack].is_empty()
        && info.users[stack].iter().all(user)
        && !is_read_late(f, block, counted.op, stack)
}
