//! A slot that a loop reads for the last time takes what the loop computes next.
//!
//! The way back of a `scan` reads what the way there has stacked, each slot in one step. The stack
//! becomes a carry, and a value of the slot's type that contractions read lies in the slot once that
//! is dead: one that elementwise ops make of the slot, as `dy * (1 - y²)`, or the carry's next
//! value, as the gradient with respect to the layer's input. The carry is then no memory of its own.

mod place;

use super::forms::is_pointwise;
use super::previous::{SMALL, uses};
use crate::passes::counter::{Counted, Line};
use crate::passes::region;
use crate::passes::residuals::{Info, reshaped};
use jaxrs_ir::{BlockId, Function, Op, OpId, TensorType, ValueDef, ValueId};
use place::Rewrite;
use rustc_hash::FxHashSet;

/// Rewrites every loop that reads a stack for the last time.
pub fn run(function: &mut Function) {
    super::rewrite_loops(function, &mut visit);
}

fn visit(f: &mut Function, id: BlockId, counted: &Counted) -> bool {
    let body = f.ops[counted.op].regions[1];
    let mut stacks: Vec<ValueId> = Vec::new();
    for &op in &f.blocks[body].ops {
        let stack = f.ops[op].operands.first().copied();
        let read = matches!(f.ops[op].op, Op::DynamicSlice(_)).then_some(stack).flatten();
        stacks.extend(read.filter(|v| !stacks.contains(v)));
    }
    let mut changed = false;
    let mut op = counted.op;
    for stack in stacks {
        let Some(counted) = Counted::of(f, op) else { break };
        let Some(dying) = Dying::new(f, id, &counted, stack) else { continue };
        if let Some(change) = dying.carry(f, &counted).or_else(|| dying.value(f, &counted)) {
            let done = Rewrite { block: id, counted: &counted, dying: &dying }.apply(f, change);
            if let Ok(new) = done {
                (op, changed) = (new, true);
            }
        }
    }
    changed
}

/// A stack of which a loop's steps read slots, and nothing else but slots in other places after it.
struct Dying {
    stack: ValueId,
    axis: usize,
    /// Elements of the axis in a slot.
    block: u64,
    /// Where each slice begins.
    reads: Vec<Read>,
    /// Slots read after the loop, where each begins.
    after: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Read {
    op: OpId,
    line: Line,
}

/// What is to lie in the stack.
#[derive(Clone, Copy)]
enum Change {
    /// A value, in the slot that a read of the same step is the last of.
    Value { value: ValueId, read: usize },
    /// A carry, whose next value takes the slot of a read.
    Carry { carry: usize, read: usize },
}

impl Dying {
    fn new(f: &Function, block: BlockId, counted: &Counted, stack: ValueId) -> Option<Dying> {
        let body = f.ops[counted.op].regions[1];
        let made = f.defining_op(stack)?;
        let known = matches!(f.values[stack].def, ValueDef::Result(..));
        if !known
            || !f.blocks[block].ops.contains(&made)
            || matches!(f.ops[made].op, Op::Constant(_))
        {
            return None;
        }
        let info = Info::new(f);
        if !info.returns[stack].is_empty() {
            return None;
        }
        let (mut reads, mut after, mut form) = (Vec::new(), Vec::new(), None);
        let whole = &f.ty(stack).shape;
        let mut same_form = |part: &[u64]| {
            let mut axes = (0..whole.len()).filter(|&axis| whole[axis] != part[axis]);
            let (axis, None) = (axes.next()?, axes.next()) else { return None };
            let own = (axis, part[axis]);
            (*form.get_or_insert(own) == own && part[axis] > 0).then_some(axis)
        };
        let mut later: Vec<(OpId, u64)> = Vec::new();
        for &user in &info.users[stack] {
            let data = &f.ops[user];
            let home = info.home[user].expand()?;
            if home == body {
                let Op::DynamicSlice(slice) = &data.op else { return None };
                let axis = same_form(&slice.sizes)?;
                let line = counted.line(f, data.operands[1 + axis])?;
                reads.push(Read { op: user, line });
                continue;
            }
            let at = if home == block { user } else { info.ancestor(home, block)? };
            if info.position[at] < info.position[counted.op] {
                continue;
            }
            let Op::Slice(slice) = &data.op else { return None };
            if at == counted.op || home != block || slice.strides.iter().any(|&s| s != 1) {
                return None;
            }
            let part: Vec<u64> =
                slice.limits.iter().zip(&slice.starts).map(|(l, s)| l - s).collect();
            later.push((user, slice.starts[same_form(&part)?]));
        }
        after.extend(later.iter().map(|&(_, at)| at));
        if is_read_late(f, block, counted.op, stack) {
            return None;
        }
        let (axis, block) = form?;
        let high = i128::from(whole[axis] - block);
        let inside = |read: &Read| {
            let (low, most) = read.line.range(counted.trips);
            low >= 0 && most <= high && read.line.step.unsigned_abs() == u128::from(block)
        };
        let plain = reads.iter().all(inside)
            && reads.windows(2).all(|pair| pair[0].line.step == pair[1].line.step);
        (plain && !reads.is_empty()).then_some(Dying { stack, axis, block, reads, after })
    }

    /// How many steps before the read at `line` another one reads the same slot, if whole steps lie
    /// between them.
    fn ahead(&self, line: Line, other: Line) -> Option<i128> {
        let difference = line.first - other.first;
        (difference % line.step == 0).then_some(difference / line.step)
    }

    /// Whether slots written at a line, in steps from `first` on, are read neither in later steps nor
    /// after the loop.
    fn is_last(&self, line: Line, first: i128, trips: u64) -> bool {
        let size = i128::from(self.block);
        let in_loop = |read: &Read| {
            // Slots that are not whole steps apart would overlap.
            self.ahead(line, read.line).is_some_and(|steps| steps <= 0)
        };
        let start = line.first + line.step * first;
        let end = line.first + line.step * i128::from(trips - 1);
        let (low, high) = (start.min(end), start.max(end));
        let apart = |&at: &u64| i128::from(at) + size <= low || i128::from(at) >= high + size;
        self.reads.iter().all(in_loop) && self.after.iter().all(apart)
    }

    /// Whether what is made of the slots at a line does not meet, in an op's operands, what depends
    /// on a value: all of it can be read before that is in the slot.
    fn is_read_before(&self, f: &Function, line: Line, value: ValueId, body: BlockId) -> bool {
        let later = dependents(f, &f.blocks[body].ops, value);
        let mut of_slot: FxHashSet<ValueId> = FxHashSet::default();
        for &op in &f.blocks[body].ops {
            let data = &f.ops[op];
            let slot = self.reads.iter().any(|read| read.op == op && read.line == line);
            let made = data.operands.iter().any(|v| of_slot.contains(v));
            if made && later.contains(&op) {
                return false;
            }
            let moves = matches!(data.op, Op::Reshape(_) | Op::Transpose(_));
            let own = data.results.contains(&value);
            if slot || made && !own && (is_pointwise(&data.op) || moves) {
                of_slot.extend(&data.results);
            }
        }
        true
    }

    /// Whether a value has the type of a slot but for axes of extent 1.
    fn fits(&self, f: &Function, ty: &TensorType) -> bool {
        let whole = f.ty(self.stack);
        let long = |shape: &[u64]| shape.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        let mut slot = whole.shape.clone();
        slot[self.axis] = self.block;
        ty.dtype == whole.dtype && long(&slot) == long(&ty.shape) && ty.bytes() >= SMALL
    }

    /// A value that elementwise ops make of a slot, and contractions read.
    fn value(&self, f: &Function, counted: &Counted) -> Option<Change> {
        let body = f.ops[counted.op].regions[1];
        let data = &f.blocks[body];
        for (number, read) in self.reads.iter().enumerate() {
            if !self.is_last(read.line, 0, counted.trips) {
                continue;
            }
            let made = dependents(f, &f.blocks[body].ops, f.ops[read.op].results[0]);
            let value = data.ops.iter().rev().find(|op| {
                let data = &f.ops[**op];
                let [value] = data.results[..] else { return false };
                made.contains(*op)
                    && is_pointwise(&data.op)
                    && self.fits(f, f.ty(value))
                    && super::peel::contracted(f, &f.blocks[body].ops, value)
                    && !f.blocks[body].yields.contains(&value)
                    && !is_of_product(f, value)
                    && self.is_read_before(f, read.line, value, body)
            });
            if let Some(&op) = value {
                return Some(Change::Value { value: f.ops[op].results[0], read: number });
            }
        }
        None
    }

    /// A carry of a slot's type whose next value nothing in the step reads.
    fn carry(&self, f: &Function, counted: &Counted) -> Option<Change> {
        let data = &f.ops[counted.op];
        let [condition, body] = [0, 1].map(|n| data.regions[n]);
        let whole = i128::from(f.ty(self.stack).shape[self.axis] - self.block);
        for (number, read) in self.reads.iter().enumerate() {
            let first = read.line.first - read.line.step;
            if !(0..=whole).contains(&first) || !self.is_last(read.line, -1, counted.trips) {
                continue;
            }
            for (carry, &argument) in f.blocks[body].arguments.iter().enumerate() {
                let next = f.blocks[body].yields[carry];
                let made = f.defining_op(next).is_some_and(|op| f.blocks[body].ops.contains(&op));
                let once = f.blocks[body].yields.iter().filter(|&&v| v == next).count() == 1;
                if made
                    && once
                    && self.fits(f, f.ty(argument))
                    && !uses(f, condition, f.blocks[condition].arguments[carry])
                    && f.blocks[body].yields.iter().all(|&v| v != argument)
                    && dependents(f, &f.blocks[body].ops, next).is_empty()
                    && self.is_read_before(f, read.line, next, body)
                {
                    return Some(Change::Carry { carry, read: number });
                }
            }
        }
        None
    }
}

/// Whether the loop or something after it reads what elementwise ops have made of a stack before.
pub(super) fn is_read_late(f: &Function, block: BlockId, op: OpId, stack: ValueId) -> bool {
    let ops = &f.blocks[block].ops;
    let at = ops.iter().position(|&other| other == op).unwrap_or(0);
    let mut made: FxHashSet<ValueId> = FxHashSet::default();
    for &op in &ops[..at] {
        let data = &f.ops[op];
        let slice = matches!(data.op, Op::Slice(_) | Op::DynamicSlice(_));
        let moves = slice || matches!(data.op, Op::Reshape(_) | Op::Transpose(_));
        let reads = |v: &ValueId| *v == stack || made.contains(v);
        if (moves || is_pointwise(&data.op)) && data.operands.iter().any(reads) {
            made.extend(&data.results);
        }
    }
    let late = |&op: &OpId| {
        f.ops[op].operands.iter().any(|v| made.contains(v))
            || region::captures(f, op).iter().any(|v| made.contains(v))
    };
    region::captures(f, op).iter().any(|v| made.contains(v))
        || ops.iter().skip(at + 1).any(late)
        || f.blocks[block].yields.iter().any(|v| made.contains(v))
}

/// Those of some ops, in order, that depend on a value.
fn dependents(f: &Function, ops: &[OpId], value: ValueId) -> FxHashSet<OpId> {
    let mut values: FxHashSet<ValueId> = [value].into_iter().collect();
    let mut out = FxHashSet::default();
    for &op in ops {
        let data = &f.ops[op];
        let captured = if data.regions.is_empty() { Vec::new() } else { region::captures(f, op) };
        if data.operands.iter().chain(&captured).any(|v| values.contains(v)) {
            values.extend(&data.results);
            out.insert(op);
        }
    }
    out
}

/// Whether elementwise ops make a value of a contraction, which is its memory then.
fn is_of_product(f: &Function, value: ValueId) -> bool {
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        let Some(op) = f.defining_op(value).filter(|_| seen.insert(value)) else { continue };
        if matches!(f.ops[op].op, Op::DotGeneral(_)) {
            return true;
        }
        if is_pointwise(&f.ops[op].op) || reshaped(f, value).is_some() {
            stack.extend(&f.ops[op].operands);
        }
    }
    false
}
