//! Makes a stack a carry of the loop that reads it, and puts a value or another carry into its slots.

use super::{Change, Dying, Read, dependents};
use crate::passes::counter::Counted;
use crate::passes::residuals::reshaped;
use crate::passes::stacks::previous::{computing, uses};
use crate::passes::{loops, region};
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{BlockId, Function, Literal, OpId, TensorType, ValueId, ops};
use rustc_hash::{FxHashMap, FxHashSet};

/// A loop whose stack takes what it computes.
pub(super) struct Rewrite<'a> {
    /// The loop's block.
    pub(super) block: BlockId,
    /// The loop.
    pub(super) counted: &'a Counted,
    /// The stack.
    pub(super) dying: &'a Dying,
}

impl Rewrite<'_> {
    /// The loop's new op. After an error nothing has changed but for what nothing uses.
    pub(super) fn apply(&self, f: &mut Function, change: Change) -> Result<OpId, String> {
        let data = f.ops[self.counted.op].clone();
        let [condition, body] = [0, 1].map(|n| data.regions[n]);
        let stack = self.dying.stack;
        let ty = f.ty(stack).clone();
        let first = match change {
            Change::Value { .. } => stack,
            Change::Carry { carry, read } => self.before(f, data.operands[carry], read)?,
        };
        f.add_argument(condition, ty.clone());
        let argument = f.add_argument(body, ty.clone());
        loops::rename(f, body, &[(stack, argument)].into_iter().collect());
        let next = match change {
            Change::Value { value, read } => self.place_value(f, argument, value, read)?,
            Change::Carry { carry, read } => self.place_carry(f, argument, carry, read)?,
        };
        f.blocks[body].yields.push(next);

        let operands = [&data.operands[..], &[first]].concat();
        let mut types: Vec<TensorType> = data.results.iter().map(|&v| f.ty(v).clone()).collect();
        types.push(ty);
        let location = data.location.clone();
        let new = f.push_op(self.block, data.op.clone(), &operands, types, &data.regions, location);
        f.blocks[self.block].ops.pop();
        let ops = std::mem::take(&mut f.blocks[self.block].ops);
        let at = ops.iter().position(|&op| op == self.counted.op).ok_or("another block")?;
        let results = f.ops[new].results.clone();
        let mut names: FxHashMap<ValueId, ValueId> =
            data.results.iter().copied().zip(results.iter().copied()).collect();
        let last = *results.last().expect("the stack");
        names.insert(stack, last);
        // Only what comes after the loop reads the slots as they are then.
        f.blocks[self.block].ops = ops[at + 1..].to_vec();
        if let Change::Carry { carry, read } = change {
            let result = data.results[carry];
            if uses(f, self.block, result) {
                let ops = std::mem::take(&mut f.blocks[self.block].ops);
                let value = self.after(f, last, result, read);
                f.blocks[self.block].ops.extend(ops);
                names.insert(result, value?);
            }
        }
        loops::rename(f, self.block, &names);
        let rest = std::mem::take(&mut f.blocks[self.block].ops);
        f.blocks[self.block].ops = [&ops[..at], &[new], &rest].concat();
        Ok(new)
    }

    /// The stack with the carry's first value in the slot before those of the read.
    fn before(&self, f: &mut Function, value: ValueId, read: usize) -> Result<ValueId, String> {
        let line = self.dying.reads[read].line;
        let ops = std::mem::take(&mut f.blocks[self.block].ops);
        let at = ops.iter().position(|&op| op == self.counted.op).ok_or("another block")?;
        let made = {
            let mut b = self.builder(f, self.block);
            let at = u64::try_from(line.first - line.step).map_err(|e| e.to_string())?;
            let scalar = TensorType::scalar(jaxrs_ir::DType::I64);
            let start = b.constant(Literal::splat(scalar.clone(), &at.to_le_bytes()))?;
            let zero = b.constant(Literal::splat(scalar, &[0; 8]))?;
            let mut starts = vec![zero; b.ty(self.dying.stack).rank()];
            starts[self.dying.axis] = start;
            self.write(&mut b, self.dying.stack, value, &starts)
        };
        let fresh = std::mem::take(&mut f.blocks[self.block].ops);
        f.blocks[self.block].ops = [&ops[..at], &fresh, &ops[at..]].concat();
        made
    }

    /// What the carry's result is: the slot written last.
    fn after(
        &self,
        f: &mut Function,
        stack: ValueId,
        result: ValueId,
        read: usize,
    ) -> Result<ValueId, String> {
        let line = self.dying.reads[read].line;
        let last = line.first + line.step * i128::from(self.counted.trips - 1);
        let shape = f.ty(result).shape.clone();
        let mut b = self.builder(f, self.block);
        let at = u64::try_from(last).map_err(|e| e.to_string())?;
        let slot = b.slice_axis(stack, self.dying.axis, at, at + self.dying.block)?;
        b.reshape(slot, &shape)
    }

    /// Puts a value into its slot as soon as it is made, and lets all that depends on it read the
    /// stack as it is then.
    fn place_value(
        &self,
        f: &mut Function,
        argument: ValueId,
        value: ValueId,
        read: usize,
    ) -> Result<ValueId, String> {
        let body = f.ops[self.counted.op].regions[1];
        let later = dependents(f, &f.blocks[body].ops, value);
        let starts = f.ops[self.dying.reads[read].op].operands[1..].to_vec();
        let shape = f.ty(value).shape.clone();
        let ops = std::mem::take(&mut f.blocks[body].ops);
        let maker = f.defining_op(value).ok_or("an argument")?;
        let at = ops.iter().position(|&op| op == maker).ok_or("another block")? + 1;
        let (ops, at) = self.moved(f, &ops, at, read);
        let mut names: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let mut make = || {
            let mut b = self.builder(f, body);
            let next = self.write(&mut b, argument, value, &starts)?;
            let own = self.slot(&mut b, next, &starts)?;
            names.insert(value, b.reshape(own, &shape)?);
            for other in &self.dying.reads {
                let data = b.function.ops[other.op].clone();
                if other.line == self.dying.reads[read].line || !ops[..at].contains(&other.op) {
                    continue;
                }
                let again = self.slot(&mut b, next, &data.operands[1..])?;
                names.insert(data.results[0], again);
                for &op in &ops[..at] {
                    if let [view] = b.function.ops[op].results[..]
                        && reshaped(b.function, view) == Some(data.results[0])
                    {
                        let shape = b.ty(view).shape;
                        names.insert(view, b.reshape(again, &shape)?);
                    }
                }
            }
            Ok::<ValueId, String>(next)
        };
        let made = make();
        let fresh = std::mem::take(&mut f.blocks[body].ops);
        f.blocks[body].ops = [&ops[..at], &fresh, &ops[at..]].concat();
        let made = made?;
        for &op in &later {
            let name = |v: &mut ValueId| *v = names.get(v).copied().unwrap_or(*v);
            f.ops[op].operands.iter_mut().for_each(name);
            for region in f.ops[op].regions.clone() {
                loops::rename(f, region, &names);
            }
        }
        // Slices of other slots that come later read the newest stack, too.
        for other in &self.dying.reads {
            if other.line != self.dying.reads[read].line && ops[at..].contains(&other.op) {
                f.ops[other.op].operands[0] = made;
            }
        }
        Ok(made)
    }

    /// The body's ops, those that read other slots after the first `at` unless these need them, and
    /// how many come first then: what is made of other slots is not kept while the slot is read.
    fn moved(&self, f: &Function, ops: &[OpId], at: usize, read: usize) -> (Vec<OpId>, usize) {
        let mut needed: Vec<ValueId> = f.ops[ops[at - 1]].operands.clone();
        let mut before: FxHashSet<OpId> = [ops[at - 1]].into_iter().collect();
        for &op in ops[..at].iter().rev() {
            if f.ops[op].results.iter().any(|v| needed.contains(v)) {
                needed.extend(&f.ops[op].operands);
                needed.extend(region::captures(f, op));
                before.insert(op);
            }
        }
        let mut late: FxHashSet<OpId> = FxHashSet::default();
        for other in &self.dying.reads {
            if other.line != self.dying.reads[read].line && !before.contains(&other.op) {
                late.insert(other.op);
                late.extend(dependents(f, ops, f.ops[other.op].results[0]));
            }
        }
        let (first, then): (Vec<OpId>, Vec<OpId>) =
            ops[..at].iter().partition(|op| !late.contains(op));
        (first.iter().chain(&then).chain(&ops[at..]).copied().collect(), first.len())
    }

    /// Lets the carry be read in the slot that the step before wrote, and its next value be written
    /// at the end.
    fn place_carry(
        &self,
        f: &mut Function,
        argument: ValueId,
        carry: usize,
        read: usize,
    ) -> Result<ValueId, String> {
        let body = f.ops[self.counted.op].regions[1];
        let Read { op, line } = self.dying.reads[read];
        let starts = f.ops[op].operands[1..].to_vec();
        let old = f.blocks[body].arguments[carry];
        let shape = f.ty(old).shape.clone();
        let index = computing(f, body, &starts);
        let ops = std::mem::take(&mut f.blocks[body].ops);
        f.blocks[body].ops.extend(&index);
        let mut make = || {
            let mut b = self.builder(f, body);
            let mut starts = starts.clone();
            let at = starts[self.dying.axis];
            let step = Literal::scalar(b.ty(at).dtype, &[line.step as u64]);
            let step = b.constant(step)?;
            starts[self.dying.axis] = b.subtract(at, step)?;
            let slot = self.slot(&mut b, argument, &starts)?;
            b.reshape(slot, &shape)
        };
        let made = make();
        f.blocks[body].ops.extend(ops.iter().filter(|op| !index.contains(op)));
        loops::rename(f, body, &[(old, made?)].into_iter().collect());
        let next = std::mem::replace(&mut f.blocks[body].yields[carry], old);
        let mut b = self.builder(f, body);
        self.write(&mut b, argument, next, &starts)
    }

    fn builder<'f>(&self, f: &'f mut Function, block: BlockId) -> Builder<'f> {
        let location = f.ops[self.counted.op].location.clone();
        Builder { function: f, block, location }
    }

    fn piece(&self, b: &Builder<'_>) -> Vec<u64> {
        let mut shape = b.ty(self.dying.stack).shape;
        shape[self.dying.axis] = self.dying.block;
        shape
    }

    fn slot(
        &self,
        b: &mut Builder<'_>,
        stack: ValueId,
        starts: &[ValueId],
    ) -> Result<ValueId, String> {
        let operands = [&[stack], starts].concat();
        let sizes = self.piece(b);
        b.one(ops::DynamicSlice { sizes }, &operands)
    }

    fn write(
        &self,
        b: &mut Builder<'_>,
        stack: ValueId,
        value: ValueId,
        starts: &[ValueId],
    ) -> Result<ValueId, String> {
        let piece = self.piece(b);
        let value = b.reshape(value, &piece)?;
        let operands = [&[stack, value], starts].concat();
        b.one(ops::DynamicUpdateSlice, &operands)
    }
}
