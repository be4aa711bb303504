//! The loop over the samples.

use super::rules::{Slicing, of_turn, rule};
use super::{Group, is_leading};
use crate::passes::loops;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::ops::monoid::{self, Kind};
use jaxrs_ir::{BlockId, DType, Function, Literal, Op, OpId, TensorType, ValueId, ops};
use jaxrs_kernel::Compare;
use rustc_hash::FxHashMap;

/// Whether an op reduces samples and what is in them to one value, in parts that can be reduced
/// later on.
pub(super) fn is_partial(f: &Function, op: OpId, batch: &[u64]) -> bool {
    let data = &f.ops[op];
    let (Op::Reduce(reduce), &[value, init]) = (&data.op, &data.operands[..]) else { return false };
    let ty = f.ty(value);
    let kinds = monoid::kinds(f, data.regions[0]);
    let identity = kinds.and_then(|kinds| kinds[0].identity(ty.dtype));
    let starts = match f.defining_op(init).map(|op| &f.ops[op].op) {
        Some(Op::Constant(constant)) => identity.as_ref() == Some(&constant.value),
        _ => false,
    };
    // Parts of narrow floats would be rounded.
    let exact = !ty.dtype.is_float() || ty.dtype.size() >= 4;
    let some = reduce.axes.iter().any(|&axis| axis < batch.len());
    let inner = reduce.axes.iter().any(|&axis| axis >= batch.len());
    starts && exact && some && inner && ty.shape.get(..batch.len()) == Some(batch)
}

/// How a partial reduction's operands are sliced.
pub(super) fn partial_slicing(batch: &[u64]) -> Vec<Slicing> {
    vec![(0..batch.len()).map(|n| (n, n)).collect(), Vec::new()]
}

/// Replaces the group's ops by a loop.
pub(super) fn build(f: &mut Function, block: BlockId, group: &Group) {
    let turned: Vec<Option<OpId>> =
        group.outputs.iter().map(|&output| turned(f, group, output)).collect();
    let mut all = std::mem::take(&mut f.blocks[block].ops);
    all.retain(|op| !turned.contains(&Some(*op)));
    let last = *group.members.last().expect("at least one");
    let end = all.iter().position(|&op| op == last).expect("an op of the block") + 1;
    // What waits for the loop comes after it.
    let stays = |op: &OpId| !group.members.contains(op) || group.is_kept(f, *op);
    let (before, after): (Vec<OpId>, Vec<OpId>) =
        all[..end].iter().copied().filter(stays).partition(|op| !group.after.contains(op));
    f.blocks[block].ops = before;
    let values = Loop::new(f, block, group, &turned).run();
    let values = values.expect("ops that fit as a whole fit in parts");
    f.blocks[block].ops.extend(after);
    f.blocks[block].ops.extend(&all[end..]);
    let named = group.outputs.iter().zip(&turned).map(|(&output, turned)| match turned {
        Some(op) => f.ops[*op].results[0],
        None => output,
    });
    let names: FxHashMap<ValueId, ValueId> = named.zip(values).collect();
    loops::rename(f, block, &names);
}

/// The transpose that alone uses an output, if it leaves the elements of a sample side by side: the
/// loop puts them in its order.
fn turned(f: &Function, group: &Group, output: ValueId) -> Option<OpId> {
    let home = f.blocks.values().find(|block| block.ops.contains(&group.members[0]))?;
    let op = *home.ops.iter().find(|&&op| f.ops[op].operands.contains(&output))?;
    let Op::Transpose(transpose) = &f.ops[op].op else { return None };
    let along = transpose.permutation.last().is_some_and(|&axis| axis >= group.batch.len());
    let whole = !group.partial.contains(&f.defining_op(output)?);
    let uses = f.blocks.values().flat_map(|block| {
        block.ops.iter().flat_map(|&op| &f.ops[op].operands).chain(&block.yields)
    });
    (along && whole && uses.filter(|&&v| v == output).count() == 1).then_some(op)
}

struct Loop<'a> {
    b: Builder<'a>,
    group: &'a Group,
    /// The order of axes in which each output is put together, if it is not its own.
    turned: &'a [Option<OpId>],
    /// Inside: the first sample of the turn along each batch axis.
    starts: Vec<ValueId>,
    zero: ValueId,
    /// What stands for a value inside.
    inside: FxHashMap<(ValueId, Slicing), ValueId>,
}

impl<'a> Loop<'a> {
    fn new(
        f: &'a mut Function,
        block: BlockId,
        group: &'a Group,
        turned: &'a [Option<OpId>],
    ) -> Loop<'a> {
        let location = f.ops[group.members[0]].location.clone();
        let b = Builder { function: f, block, location };
        let zero = ValueId::from_u32(0);
        Loop { b, group, turned, starts: Vec::new(), zero, inside: FxHashMap::default() }
    }

    /// The outputs, after the loop.
    fn run(mut self) -> Result<Vec<ValueId>, String> {
        let outer = self.b.block;
        let scalar = TensorType::scalar(DType::I32);
        self.zero = self.number(0)?;
        let mut initial = vec![self.zero];
        for (&output, turned) in self.group.outputs.iter().zip(self.turned) {
            let ty = match turned {
                Some(op) => self.b.ty(self.b.function.ops[*op].results[0]),
                None => self.whole(output),
            };
            initial.push(self.b.zeros(&ty)?);
        }
        let types = self.b.types(&initial);
        let turns = self.group.batch.iter().zip(&self.group.turn).map(|(&all, &turn)| all / turn);
        let turns: Vec<u64> = turns.collect();
        let count: u64 = turns.iter().product();
        let condition = self.b.region(&types, |b, carries| {
            let count = b.constant(Literal::scalar(DType::I32, &[count]))?;
            Ok(vec![b.compare(Compare::Lt, carries[0], count)?])
        })?;
        let body = self.b.function.add_block();
        let carries: Vec<ValueId> =
            types.iter().map(|ty| self.b.function.add_argument(body, ty.clone())).collect();
        self.b.block = body;
        debug_assert_eq!(self.b.ty(carries[0]), scalar);
        self.place(carries[0], &turns)?;
        for &op in &self.group.members {
            self.member(op)?;
        }
        let leading: Slicing = (0..self.group.batch.len()).map(|n| (n, n)).collect();
        let one = self.number(1)?;
        let mut next = vec![self.b.add(carries[0], one)?];
        let outputs = self.group.outputs.iter().zip(self.turned);
        for ((&output, turned), &carry) in outputs.zip(&carries[1..]) {
            let mut part = self.inside[&(output, leading.clone())];
            let mut starts = self.starts.clone();
            starts.resize(self.b.ty(carry).rank(), self.zero);
            if let Some(op) = turned
                && let Op::Transpose(transpose) = self.b.function.ops[*op].op.clone()
            {
                starts = transpose.permutation.iter().map(|&axis| starts[axis]).collect();
                part = self.b.one(transpose, &[part])?;
            }
            let mut operands = vec![carry, part];
            operands.extend(starts);
            next.push(self.b.one(ops::DynamicUpdateSlice, &operands)?);
        }
        self.b.function.blocks[body].yields = next;
        self.b.block = outer;
        let results = self.b.push(ops::While, &initial, &[condition, body])?;
        let outputs = self.group.outputs.iter().zip(&results[1..]);
        outputs.map(|(&output, &result)| self.reduced(output, result)).collect()
    }

    fn number(&mut self, value: u64) -> Result<ValueId, String> {
        self.b.constant(Literal::scalar(DType::I32, &[value]))
    }

    /// The type of an output with its batch axes.
    fn whole(&self, output: ValueId) -> TensorType {
        let f = &*self.b.function;
        let op = f.defining_op(output).expect("made by a member");
        match &f.ops[op].op {
            Op::Reduce(reduce) if self.group.partial.contains(&op) => {
                let from = f.ty(f.ops[op].operands[0]);
                let inner = ops::Reduce { axes: self.inner_axes(reduce) };
                TensorType::new(inner.kept(&from.shape), from.dtype)
            }
            _ => f.ty(output).clone(),
        }
    }

    fn inner_axes(&self, reduce: &ops::Reduce) -> Vec<usize> {
        reduce.axes.iter().copied().filter(|&axis| axis >= self.group.batch.len()).collect()
    }

    /// Finds the turn's samples from the number of the turn.
    fn place(&mut self, turn: ValueId, turns: &[u64]) -> Result<(), String> {
        let mut after: u64 = turns.iter().product();
        for (n, &extent) in turns.iter().enumerate() {
            after /= extent;
            let mut at = turn;
            if extent == 1 {
                self.starts.push(self.zero);
                continue;
            }
            if after > 1 {
                let by = self.number(after)?;
                at = self.b.divide(at, by)?;
            }
            if turns[..n].iter().any(|&outer| outer > 1) {
                let by = self.number(extent)?;
                at = self.b.elementwise("stablehlo.remainder", &[at, by])?;
            }
            if self.group.turn[n] > 1 {
                let by = self.number(self.group.turn[n])?;
                at = self.b.multiply(at, by)?;
            }
            self.starts.push(at);
        }
        Ok(())
    }

    fn member(&mut self, op: OpId) -> Result<(), String> {
        let data = self.b.function.ops[op].clone();
        let group = self.group;
        let partial = group.partial.contains(&op);
        let slicing = match partial {
            true => partial_slicing(&group.batch),
            false => rule(self.b.function, op, &group.batch).expect("a member"),
        };
        let mut operands = Vec::new();
        for (&value, slicing) in data.operands.iter().zip(slicing) {
            operands.push(self.operand(value, slicing)?);
        }
        self.b.location = data.location.clone();
        let turned = match &data.op {
            Op::Reduce(reduce) if partial => ops::Reduce { axes: self.inner_axes(reduce) }.into(),
            other => of_turn(other, &group.turn),
        };
        let result = self.b.push(turned, &operands, &data.regions)?[0];
        let leading = (0..group.batch.len()).map(|n| (n, n)).collect();
        self.inside.insert((data.results[0], leading), result);
        Ok(())
    }

    /// An operand inside: what a member makes, a slice, or the value itself.
    fn operand(&mut self, value: ValueId, slicing: Slicing) -> Result<ValueId, String> {
        if slicing.is_empty() {
            return Ok(value);
        }
        let key = (value, slicing);
        if let Some(&known) = self.inside.get(&key) {
            return Ok(known);
        }
        debug_assert!(
            is_leading(&key.1, &self.group.batch) || !self.group.outputs.contains(&value)
        );
        let mut sizes = self.b.ty(value).shape;
        let mut operands = vec![value];
        operands.resize(1 + sizes.len(), self.zero);
        for &(axis, batch) in &key.1 {
            sizes[axis] = self.group.turn[batch];
            operands[1 + axis] = self.starts[batch];
        }
        let slice = self.b.one(ops::DynamicSlice { sizes }, &operands)?;
        self.inside.insert(key, slice);
        Ok(slice)
    }

    /// An output as it was: the rest of a reduction is done on the loop's result.
    fn reduced(&mut self, output: ValueId, result: ValueId) -> Result<ValueId, String> {
        let f = &*self.b.function;
        let op = f.defining_op(output).expect("made by a member");
        if !self.group.partial.contains(&op) {
            return Ok(result);
        }
        let data = f.ops[op].clone();
        let Op::Reduce(reduce) = &data.op else { unreachable!("only reductions are partial") };
        let kind: Kind = monoid::kinds(f, data.regions[0]).expect("a partial one has a kind")[0];
        let axes: Vec<usize> =
            reduce.axes.iter().copied().filter(|&axis| axis < self.group.batch.len()).collect();
        self.b.reduce(kind.name().expect("an op"), result, data.operands[1], &axes)
    }
}
