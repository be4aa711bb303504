//! What is put together of contractions' results is made where it will be: a `concatenate` or `pad`
//! of them becomes a chain of updates of one tensor, each right after what it puts there, so that
//! fusion lets the contraction write its part ([`crate::fuse`]).
//!
//! Where elementwise ops stand between, the contraction goes to the part first and the ops run in
//! place on it: `update(s, tanh(dot))` is `t = update(s, dot); update(t, tanh(slice(t)))`. Other
//! users of a part read it as a slice of the whole, the latest one where they stand; so do those of
//! slices of the whole before that have no element of the part. Must come
//! after the last search for equal ops, and before constants that are updated get tensors of their
//! own.

mod carried;
mod plan;

use super::rewrite::{self, Rewriter};
use jaxrs_ir::ops::{BroadcastInDim, DynamicSlice, DynamicUpdateSlice, Empty, Reshape, Transpose};
use jaxrs_ir::{BlockId, Function, Literal, Location, Op, OpId, TensorType, ValueId};
use jaxrs_kernel::DType;
use plan::{Begin, Part, Plan, Start};
use rustc_hash::FxHashMap;

/// Rewrites a function.
pub fn run(function: &mut Function) {
    let plan = Plan::new(function);
    if plan.parts.is_empty() {
        return;
    }
    let mut state = State {
        plan,
        tails: FxHashMap::default(),
        waiting: Vec::new(),
        placed: FxHashMap::default(),
        beside: FxHashMap::default(),
    };
    rewrite::run(function, &mut |r, op| state.visit(r, op));
}

/// What is at which place by now.
struct State {
    plan: Plan,
    /// The newest tensor of each whole, by the op that makes the whole in the text.
    tails: FxHashMap<OpId, ValueId>,
    /// Values made by the ops visited last, whose parts are to be written, each in its block.
    waiting: Vec<(ValueId, OpId, BlockId)>,
    /// For each value that is a part by now: the whole and the number of the part.
    placed: FxHashMap<ValueId, (OpId, usize)>,
    /// For each value that is a slice of a whole beside its parts: the whole and the slice's op.
    beside: FxHashMap<ValueId, (OpId, OpId)>,
}

impl State {
    fn visit(&mut self, r: &mut Rewriter<'_>, op: OpId) -> rewrite::Change {
        self.write_waiting(r);
        let data = r.f.ops[op].clone();
        let own = self.plan.wholes.contains_key(&op);
        if !own {
            self.read_parts(r, op);
        }
        for &result in &data.results {
            if !self.plan.parts.contains_key(&result) {
                continue;
            }
            match data.op {
                Op::While(_) => self.carry(r, op, result),
                _ => self.waiting.push((result, op, r.block)),
            }
        }
        if !own {
            return None;
        }
        let whole = self.plan.wholes[&op].clone();
        for number in 0..whole.parts.len() {
            if !whole.parts[number].early {
                let value = r.current(data.operands[whole.parts[number].operand]);
                let value = self.current(r, value, &data.location);
                self.put(r, op, number, value, &data.location);
            }
        }
        Some(vec![self.tail(r, op, &data.location)])
    }

    /// Writes the parts that the last op made; not into a region of the op after it.
    fn write_waiting(&mut self, r: &mut Rewriter<'_>) {
        let (here, outside): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|part| part.2 == r.block);
        self.waiting = outside;
        for (value, maker, _) in here {
            let (whole, number) = self.plan.parts[&value];
            let location = r.f.ops[maker].location.clone();
            let moved = self.plan.wholes[&whole].parts[number].moved.clone();
            let update = moved.iter().fold(value, |v, &op| again(r, op, v, &location));
            self.put(r, whole, number, update, &location);
            self.placed.insert(value, (whole, number));
            let beside = self.plan.wholes[&whole].beside.iter();
            self.beside.extend(beside.map(|&(value, slice)| (value, (whole, slice))));
        }
    }

    /// Puts a value into its part of a whole.
    fn put(
        &mut self,
        r: &mut Rewriter<'_>,
        whole: OpId,
        number: usize,
        value: ValueId,
        at: &Location,
    ) {
        let tail = self.tail(r, whole, at);
        let mut operands = vec![tail, value];
        operands.extend(self.starts(r, (whole, number), at));
        let ty = r.f.ty(tail).clone();
        let new = r.push(DynamicUpdateSlice, &operands, ty, at);
        self.tails.insert(whole, new);
    }

    /// The newest tensor of a whole.
    fn tail(&mut self, r: &mut Rewriter<'_>, op: OpId, at: &Location) -> ValueId {
        if let Some(&tail) = self.tails.get(&op) {
            return tail;
        }
        let data = r.f.ops[op].clone();
        let ty = r.f.ty(data.results[0]).clone();
        let tail = match self.plan.wholes[&op].start {
            Start::Empty => r.push(Empty { ty: ty.clone() }, &[], ty, at),
            Start::Filled => {
                let fill = BroadcastInDim { axes: Vec::new(), shape: ty.shape.clone() };
                let value = there(r, data.operands[1], at);
                r.push(fill, &[value], ty, at)
            }
            Start::Operand => there(r, data.operands[0], at),
        };
        self.tails.insert(op, tail);
        tail
    }

    /// Lets an op read parts from the newest wholes.
    fn read_parts(&mut self, r: &mut Rewriter<'_>, op: OpId) {
        for position in 0..r.f.ops[op].operands.len() {
            let value = r.f.ops[op].operands[position];
            let location = r.f.ops[op].location.clone();
            r.f.ops[op].operands[position] = self.current(r, value, &location);
        }
    }

    /// The value, or the part of a whole that it is by now.
    fn current(&self, r: &mut Rewriter<'_>, value: ValueId, at: &Location) -> ValueId {
        if let Some(&(whole, slice)) = self.beside.get(&value) {
            let (tail, ty) = (self.tails[&whole], r.f.ty(value).clone());
            let data = r.f.ops[slice].clone();
            let operands = [&[tail], &data.operands[1..]].concat();
            let part = r.f.ty(data.results[0]).clone();
            let read = r.push(data.op, &operands, part, at);
            let shape = ty.shape.clone();
            let reshaped = data.results[0] != value;
            return if reshaped { r.push(Reshape { shape }, &[read], ty, at) } else { read };
        }
        match self.placed.get(&value) {
            Some(&(whole, number)) => self.read(r, self.tails[&whole], (whole, number), at),
            None => value,
        }
    }

    /// A part, by its whole and its number, as it is in a tensor.
    fn read(
        &self,
        r: &mut Rewriter<'_>,
        tensor: ValueId,
        part: (OpId, usize),
        at: &Location,
    ) -> ValueId {
        let Part { shape, moved, .. } = &self.plan.wholes[&part.0].parts[part.1];
        let mut operands = vec![tensor];
        operands.extend(self.starts(r, part, at));
        let ty = TensorType::new(shape.clone(), r.f.ty(tensor).dtype);
        let slice = DynamicSlice { sizes: shape.clone() };
        let read = r.push(slice, &operands, ty, at);
        // Back through what moved the value to its part.
        moved.iter().rev().fold(read, |v, &op| back(r, op, v, at))
    }

    /// Start indices of a part.
    fn starts(&self, r: &mut Rewriter<'_>, part: (OpId, usize), at: &Location) -> Vec<ValueId> {
        match &self.plan.wholes[&part.0].parts[part.1].begin {
            Begin::Known(starts) => {
                let constant = |r: &mut Rewriter<'_>, start: u64| {
                    r.constant(Literal::scalar(DType::I64, &[start]), at)
                };
                starts.iter().map(|&start| constant(r, start)).collect()
            }
            Begin::Values(values) => values.iter().map(|&v| there(r, v, at)).collect(),
        }
    }
}

/// A value of before, or a constant, which is made again.
fn there(r: &mut Rewriter<'_>, value: ValueId, at: &Location) -> ValueId {
    let value = r.current(value);
    match r.literal(value).cloned() {
        Some(literal) => r.constant(literal, at),
        None => value,
    }
}

/// What an op that moves elements makes of another value of its operand's shape.
fn again(r: &mut Rewriter<'_>, op: OpId, value: ValueId, at: &Location) -> ValueId {
    let data = r.f.ops[op].clone();
    let ty = TensorType::new(r.f.ty(data.results[0]).shape.clone(), r.f.ty(value).dtype);
    r.push(data.op, &[value], ty, at)
}

/// The operand of an op that moves elements, from its result.
fn back(r: &mut Rewriter<'_>, op: OpId, value: ValueId, at: &Location) -> ValueId {
    let data = r.f.ops[op].clone();
    let ty = TensorType::new(r.f.ty(data.operands[0]).shape.clone(), r.f.ty(value).dtype);
    match data.op {
        Op::Transpose(transpose) => {
            let mut permutation = vec![0; ty.rank()];
            for (to, &from) in transpose.permutation.iter().enumerate() {
                permutation[from] = to;
            }
            r.push(Transpose { permutation }, &[value], ty, at)
        }
        // Of as many elements in the same order.
        _ => r.push(Reshape { shape: ty.shape.clone() }, &[value], ty, at),
    }
}
