//! Which values are made in their place.

use crate::passes::region;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use jaxrs_ir::lower::Lowering;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId, ops};
use jaxrs_kernel::program::Library;
use rustc_hash::{FxHashMap, FxHashSet};

/// Ops between a whole and the memory that it becomes.
const MOST_STEPS: usize = 12;
/// Elementwise ops between a contraction and its part.
const MOST_OPS: usize = 64;

/// Everything that is made in its place.
pub(super) struct Plan {
    /// By the op that puts the parts together.
    pub(super) wholes: FxHashMap<OpId, Whole>,
    /// For each value that is written to its part as soon as it is made: the whole and the part's
    /// number. The contraction and what elementwise ops make of it may be one part.
    pub(super) parts: FxHashMap<ValueId, (OpId, usize)>,
}

/// A tensor made of parts.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    /// What it is before any part is written.
    pub(super) start: Start,
    /// Its parts.
    pub(super) parts: Vec<Part>,
    /// Slices of operand 0 that have no element of the parts, and what is the same in another shape:
    /// each with the slice's op.
    pub(super) beside: Vec<(ValueId, OpId)>,
}

/// What a whole begins as.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// Nothing: parts fill it.
    Empty,
    /// Operand 1 of its op, everywhere.
    Filled,
    /// Operand 0 of its op.
    Operand,
}

/// A part.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Which operand of the whole's op it is.
    pub(super) operand: usize,
    /// Where it begins.
    pub(super) begin: Begin,
    /// Its shape.
    pub(super) shape: Vec<u64>,
    /// The ops that move what is made early to the operand, in order.
    pub(super) moved: Vec<OpId>,
    /// Whether it is written as soon as it is made, not where the whole is put together.
    pub(super) early: bool,
}

/// Start indices.
#[derive(Clone, Debug)]
pub(super) enum Begin {
    /// Known ones.
    Known(Vec<u64>),
    /// Operands of the op.
    Values(Vec<ValueId>),
}

impl Plan {
    /// For a function.
    pub(super) fn new(f: &Function) -> Plan {
        let mut plan = Plan { wholes: FxHashMap::default(), parts: FxHashMap::default() };
        let has = |op: &Op| matches!(op, Op::DotGeneral(_) | Op::While(_));
        if f.ops.values().any(|data| has(&data.op)) {
            let info = Info::new(f);
            Planner { f, info: &info, plan: &mut plan }.block(f.body);
        }
        plan
    }
}

/// Where ops are and who uses values.
pub(super) struct Info {
    pub(super) home: SecondaryMap<OpId, PackedOption<BlockId>>,
    position: SecondaryMap<OpId, u32>,
    pub(super) users: SecondaryMap<ValueId, Vec<OpId>>,
    pub(super) returned: SecondaryMap<ValueId, bool>,
}

impl Info {
    fn new(f: &Function) -> Info {
        let mut info = Info {
            home: SecondaryMap::new(),
            position: SecondaryMap::new(),
            users: SecondaryMap::new(),
            returned: SecondaryMap::new(),
        };
        for (block, data) in &f.blocks {
            for (position, &op) in data.ops.iter().enumerate() {
                info.home[op] = block.into();
                info.position[op] = position as u32;
                f.ops[op].operands.iter().for_each(|&v| info.users[v].push(op));
            }
            data.yields.iter().for_each(|&v| info.returned[v] = true);
        }
        info
    }

    fn single(&self, value: ValueId) -> bool {
        self.users[value].len() == 1 && !self.returned[value]
    }
}

pub(super) struct Planner<'a> {
    pub(super) f: &'a Function,
    pub(super) info: &'a Info,
    plan: &'a mut Plan,
}

/// What is made early for a part.
struct Early {
    /// Values of one shape: the contraction, then what elementwise ops make of it, or one of them.
    made: Vec<ValueId>,
    /// What is moved to the part in the end.
    root: ValueId,
    /// What moves it there.
    moved: Vec<OpId>,
}

impl Early {
    /// Whether the part is complete with the values made early.
    fn is_complete(&self) -> bool {
        self.made.contains(&self.root)
    }
}

impl Planner<'_> {
    fn block(&mut self, block: BlockId) {
        let f = self.f;
        for &op in &f.blocks[block].ops {
            match &f.ops[op].op {
                Op::Concatenate(c) => self.concatenate(op, c.axis),
                Op::Pad(p) => self.pad(op, p),
                Op::Transpose(t) => self.transpose(op, t),
                Op::DynamicUpdateSlice(_) => self.update(op),
                _ if region::is_control(f, op) => {
                    f.ops[op].regions.iter().for_each(|&region| self.block(region));
                }
                _ => {}
            }
        }
    }

    fn concatenate(&mut self, op: OpId, axis: usize) {
        let f = self.f;
        let data = &f.ops[op];
        let total = f.ty(data.results[0]).bytes();
        if total == 0 || !self.becomes_memory(data.results[0], 0) {
            return;
        }
        let (mut parts, mut made, mut bytes, mut at) = (Vec::new(), Vec::new(), 0, 0);
        for (operand, &value) in data.operands.iter().enumerate() {
            let shape = f.ty(value).shape.clone();
            let mut starts = vec![0; shape.len()];
            starts[axis] = at;
            at += shape[axis];
            if f.ty(value).is_empty() {
                continue;
            }
            let early = self.early(op, value);
            // A loop carries the whole once.
            let of_loop = |v| f.defining_op(v).filter(|&op| matches!(f.ops[op].op, Op::While(_)));
            let taken = |v: &ValueId| {
                let same =
                    |&m: &ValueId| m == *v || of_loop(m).is_some_and(|op| of_loop(*v) == Some(op));
                made.iter().any(|(m, _)| same(m))
            };
            let early = early.filter(|e| !e.made.iter().any(taken));
            let mut part = Part {
                operand,
                begin: Begin::Known(starts),
                shape,
                moved: Vec::new(),
                early: false,
            };
            if let Some(early) = early {
                bytes += f.ty(value).bytes();
                part.early = early.is_complete();
                part.moved = early.moved;
                made.extend(early.made.into_iter().map(|v| (v, parts.len())));
            }
            parts.push(part);
        }
        if 4 * bytes >= total {
            self.add(op, Whole { start: Start::Empty, parts, beside: Vec::new() }, made);
        }
    }

    fn pad(&mut self, op: OpId, pad: &ops::Pad) {
        let f = self.f;
        let data = &f.ops[op];
        let negative = pad.low.iter().chain(&pad.high).any(|&n| n < 0);
        if negative || pad.interior.iter().any(|&n| n != 0) {
            return;
        }
        let value = data.operands[0];
        if f.ty(value).is_empty() || !self.becomes_memory(data.results[0], 0) {
            return;
        }
        let Some(early) = self.early(op, value) else { return };
        let fill = data.operands[1];
        if !self.is_known_before(fill, early.made[0]) {
            return;
        }
        let starts = pad.low.iter().map(|&n| n as u64).collect();
        self.one(op, Start::Filled, 0, Begin::Known(starts), early, Vec::new());
    }

    /// A contraction that is only returned, its axes in another order, is made in that order, as
    /// long as it writes elements that stand side by side.
    fn transpose(&mut self, op: OpId, transpose: &ops::Transpose) {
        let f = self.f;
        let (value, result) = (f.ops[op].operands[0], f.ops[op].results[0]);
        let shape = f.ty(result).shape.clone();
        let Some(Op::DotGeneral(dot)) = f.defining_op(value).map(|op| &f.ops[op].op) else {
            return;
        };
        let along = transpose.permutation.last().is_some_and(|&axis| axis >= dot.lhs_batch.len());
        if f.ty(result).is_empty()
            || !along
            || !self.is_returned(result)
            || !self.info.single(value)
        {
            return;
        }
        let Some(mut early) = self.early(op, value).filter(Early::is_complete) else { return };
        early.moved.push(op);
        let begin = Begin::Known(vec![0; shape.len()]);
        let part = Part { operand: 0, begin, shape, moved: early.moved, early: true };
        let made = early.made.into_iter().map(|v| (v, 0)).collect();
        self.add(op, Whole { start: Start::Empty, parts: vec![part], beside: Vec::new() }, made);
    }

    /// Whether a block returns the value, perhaps in another shape.
    fn is_returned(&self, value: ValueId) -> bool {
        let (f, info) = (self.f, self.info);
        let viewed = |&user: &OpId| {
            matches!(ops::lower(f, user), Lowering::View)
                && self.is_returned(f.ops[user].results[0])
        };
        info.returned[value] || info.users[value].iter().any(viewed)
    }

    fn update(&mut self, op: OpId) {
        let f = self.f;
        let data = &f.ops[op];
        let (whole, value) = (data.operands[0], data.operands[1]);
        let Some(early) = self.early(op, value) else { return };
        let first = early.made[0];
        if matches!(f.ops[f.defining_op(first).expect("a value made early")].op, Op::While(_)) {
            return;
        }
        // A contraction by itself is put there by fusion.
        if first == early.root && self.info.single(first) {
            return;
        }
        let known = data.operands.iter().enumerate();
        if known.filter(|(n, _)| *n != 1).any(|(_, &v)| !self.is_known_before(v, first)) {
            return;
        }
        // All others read the tensor before.
        let maker = f.defining_op(first).expect("a value made early");
        // What the contraction reads of the tensor lies beside the part.
        let beside = |part: ValueId| {
            let operands = f.ops[maker].operands.iter();
            operands
                .filter(|&&v| crate::fuse::reads(f, part, v))
                .all(|&v| crate::fuse::is_apart_in_steps(f, v, whole, op))
        };
        let before = |&user: &OpId| {
            user == op
                || self.info.home[user] == self.info.home[op]
                    && self.info.position[user] < self.info.position[maker]
                    && f.ops[user].results.iter().all(|&part| beside(part))
        };
        if self.info.returned[whole] || !self.info.users[whole].iter().all(before) {
            return;
        }
        let starts = data.operands[2..].to_vec();
        let beside = self.beside(op);
        self.one(op, Start::Operand, 1, Begin::Values(starts), early, beside);
    }

    /// Slices of what an op updates that lie beside what it writes.
    fn beside(&self, op: OpId) -> Vec<(ValueId, OpId)> {
        let f = self.f;
        let whole = f.ops[op].operands[0];
        let mut out = Vec::new();
        for &user in &self.info.users[whole] {
            let [part] = f.ops[user].results[..] else { continue };
            let slice = matches!(f.ops[user].op, Op::Slice(_) | Op::DynamicSlice(_));
            if slice && crate::fuse::is_apart_in_steps(f, part, whole, op) {
                let views = self.info.users[part].iter();
                let views = views.filter(|&&view| matches!(f.ops[view].op, Op::Reshape(_)));
                out.push((part, user));
                out.extend(views.map(|&view| (f.ops[view].results[0], user)));
            }
        }
        out
    }

    fn one(
        &mut self,
        op: OpId,
        start: Start,
        operand: usize,
        begin: Begin,
        early: Early,
        beside: Vec<(ValueId, OpId)>,
    ) {
        let shape = self.f.ty(self.f.ops[op].operands[operand]).shape.clone();
        let complete = early.is_complete();
        let part = Part { operand, begin, shape, moved: early.moved, early: complete };
        let made = early.made.into_iter().map(|v| (v, 0)).collect();
        self.add(op, Whole { start, parts: vec![part], beside }, made);
    }

    fn add(&mut self, op: OpId, whole: Whole, made: Vec<(ValueId, usize)>) {
        if made.iter().any(|(v, _)| self.plan.parts.contains_key(v)) {
            return;
        }
        self.plan.parts.extend(made.into_iter().map(|(v, number)| (v, (op, number))));
        self.plan.wholes.insert(op, whole);
    }

    /// Whether a value is there before another one is made; constants are made again.
    fn is_known_before(&self, value: ValueId, made: ValueId) -> bool {
        let (f, info) = (self.f, self.info);
        let Some(op) = f.defining_op(value) else { return true };
        if crate::fuse::constant(f, value).is_some() {
            return true;
        }
        let other = f.defining_op(made).expect("a value made early");
        info.home[op] != info.home[other] || info.position[op] < info.position[other]
    }

    /// What can be made in its place for an operand of a whole.
    fn early(&self, whole: OpId, operand: ValueId) -> Option<Early> {
        let (f, info) = (self.f, self.info);
        let (mut value, mut moved) = (operand, Vec::new());
        loop {
            let op = f.defining_op(value)?;
            if info.home[op] != info.home[whole] {
                return None;
            }
            let from = f.ops[op].operands.first().copied();
            let moves = match f.ops[op].op {
                Op::Reshape(_) | Op::Transpose(_) => true,
                Op::BroadcastInDim(_) => from.is_some_and(|v| f.ty(v).len() == f.ty(value).len()),
                _ => false,
            };
            if !moves || !info.single(value) {
                break;
            }
            moved.insert(0, op);
            value = from?;
        }
        let made = match &f.ops[f.defining_op(value)?].op {
            Op::DotGeneral(_) if info.single(value) || self.is_readable(value) => vec![value],
            Op::While(_) if self.is_carried(value) => {
                (info.single(value) || self.is_readable(value)).then(|| vec![value])?
            }
            Op::DotGeneral(_) => return None,
            _ => match self.contraction(value) {
                Some(product) if self.is_readable(value) || info.single(value) => {
                    vec![product, value]
                }
                Some(product) => vec![product],
                // It is memory anyway, for contractions.
                None if self.is_pointwise(value) && self.is_contracted(value) => vec![value],
                None => return None,
            },
        };
        Some(Early { made, root: value, moved })
    }

    pub(super) fn is_pointwise(&self, value: ValueId) -> bool {
        let f = self.f;
        let Some(op) = f.defining_op(value) else { return false };
        matches!(
            f.ops[op].op,
            Op::Elementwise(_)
                | Op::Clamp(_)
                | Op::Compare(_)
                | Op::Convert(_)
                | Op::ReducePrecision(_)
                | Op::Select(_)
        )
    }

    /// The contraction of the library that elementwise ops make a value of, if nothing else uses it
    /// or what is made of it on the way.
    fn contraction(&self, root: ValueId) -> Option<ValueId> {
        let (f, info) = (self.f, self.info);
        let home = info.home[f.defining_op(root)?];
        let (mut inside, mut products) = (Vec::new(), Vec::new());
        let mut stack = vec![root];
        while let Some(value) = stack.pop() {
            let Some(op) = f.defining_op(value) else { continue };
            if info.home[op] != home || inside.contains(&op) {
                continue;
            }
            if self.is_pointwise(value) {
                if inside.len() == MOST_OPS {
                    return None;
                }
                inside.push(op);
                stack.extend(f.ops[op].operands.iter().rev());
            } else if matches!(f.ops[op].op, Op::DotGeneral(_))
                && f.ty(value) == f.ty(root)
                && matches!(ops::lower(f, op), Lowering::Library(Library::Dot(_)))
            {
                products.push(value);
            }
        }
        // All that is made of the product leads to the root.
        products.into_iter().find(|&product| {
            let (mut stack, mut seen) = (vec![product], FxHashSet::default());
            while let Some(value) = stack.pop() {
                if value == root || !seen.insert(value) {
                    continue;
                }
                if info.returned[value] || !info.users[value].iter().all(|op| inside.contains(op)) {
                    return false;
                }
                stack.extend(info.users[value].iter().flat_map(|&op| &f.ops[op].results));
            }
            true
        })
    }

    /// Whether all users of a value beside the whole can read it as a slice.
    fn is_readable(&self, value: ValueId) -> bool {
        let (f, info) = (self.f, self.info);
        let Some(own) = f.defining_op(value) else { return false };
        let reads = |&user: &OpId| {
            let op = &f.ops[user].op;
            info.home[user] == info.home[own]
                && (matches!(
                    op,
                    Op::DotGeneral(_)
                        | Op::Reduce(_)
                        | Op::Concatenate(_)
                        | Op::DynamicUpdateSlice(_)
                        | Op::Pad(_)
                ) || f.ops[user].results.first().is_some_and(|&v| self.is_pointwise(v))
                    || self.is_movement(user))
        };
        !info.returned[value] && info.users[value].iter().all(reads)
    }

    /// Whether an op moves elements for others that can read a slice.
    fn is_movement(&self, op: OpId) -> bool {
        let data = &self.f.ops[op];
        matches!(data.op, Op::Reshape(_) | Op::Transpose(_) | Op::BroadcastInDim(_))
            && data.results.iter().all(|&v| self.is_readable(v))
    }

    /// Whether a contraction reads the value, perhaps moved.
    fn is_contracted(&self, value: ValueId) -> bool {
        let f = self.f;
        self.is_readable(value)
            && self.info.users[value].iter().any(|&user| match f.ops[user].op {
                Op::DotGeneral(_) => true,
                Op::Reshape(_) | Op::Transpose(_) => self.is_contracted(f.ops[user].results[0]),
                _ => false,
            })
    }

    /// Whether a value must be memory, as it is or after elementwise ops in place.
    fn becomes_memory(&self, value: ValueId, depth: usize) -> bool {
        let (f, info) = (self.f, self.info);
        let needs = |&user: &OpId| {
            let data = &f.ops[user];
            match ops::lower(f, user) {
                Lowering::Library(_) | Lowering::Control => true,
                Lowering::View => self.becomes_memory(data.results[0], depth + 1),
                Lowering::Loops { updates, .. } => {
                    updates.iter().any(|&(_, o)| data.operands[o as usize] == value)
                }
                Lowering::Elements { .. } => {
                    let wide = |&&v: &&ValueId| {
                        let spread = f.defining_op(v).map(|op| &f.ops[op].op);
                        f.ty(v) == f.ty(value)
                            && !matches!(spread, Some(Op::BroadcastInDim(_) | Op::Constant(_)))
                    };
                    let alone = data.operands.iter().filter(wide).count() == 1;
                    alone
                        && data.results.len() == 1
                        && f.ty(data.results[0]) == f.ty(value)
                        && self.is_pointwise(data.results[0])
                        && self.becomes_memory(data.results[0], depth + 1)
                }
            }
        };
        depth <= MOST_STEPS && (info.returned[value] || info.users[value].iter().any(needs))
    }
}
