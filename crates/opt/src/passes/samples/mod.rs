//! Runs what is done to each sample of a batch sample by sample: a loop over the batch in which a
//! product, what is computed from it and what that is reduced to are those of one sample, so that
//! the products of the whole batch are never in memory at once.
//!
//! Done where such a product is large beside the function's arguments and results, and beside all
//! that leaves the loop.

mod again;
mod body;
mod rules;

use super::region;
use cranelift_entity::SecondaryMap;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rules::{Slicing, rule};
use rustc_hash::{FxHashMap, FxHashSet};

/// Products of fewer bytes are left as they are.
const LEAST_BYTES: u64 = 8 << 10;
/// One turn of the loop makes products of at least so many bytes, if the batch has as much.
const LEAST_TURN: u64 = 2 << 10;
/// How far apart ops of one loop are.
const REACH: usize = 300;

/// Rewrites every such batch.
pub fn run(function: &mut Function) {
    let types = function.parameters().iter().chain(function.results());
    let held: u64 = types.map(|&v| function.ty(v).bytes()).sum();
    block(function, function.body, held);
}

fn block(f: &mut Function, id: BlockId, held: u64) {
    for op in f.blocks[id].ops.clone() {
        if region::is_control(f, op) {
            f.ops[op].regions.clone().into_iter().for_each(|region| block(f, region, held));
        }
    }
    let mut tried: FxHashSet<OpId> = FxHashSet::default();
    loop {
        let large = |&op: &OpId| {
            let data = &f.ops[op];
            matches!(data.op, Op::DotGeneral(_)) && {
                let bytes = f.ty(data.results[0]).bytes();
                bytes >= LEAST_BYTES && 4 * bytes >= held
            }
        };
        let seed = f.blocks[id].ops.iter().copied().find(|op| large(op) && !tried.contains(op));
        let Some(seed) = seed else { break };
        tried.insert(seed);
        let scope = Scope::new(f, id);
        if let Some(group) = scope.group(seed) {
            body::build(f, id, &group);
        }
    }
}

/// Ops that are run sample by sample.
struct Group {
    /// Extents of the batch axes, which every value of the group has first.
    batch: Vec<u64>,
    /// Samples of a turn along each of them.
    turn: Vec<u64>,
    /// The ops, in their order.
    members: Vec<OpId>,
    /// Members that the block keeps, too.
    again: FxHashSet<OpId>,
    /// Reductions over batch axes, too: of each sample inside, of those after the loop.
    partial: FxHashSet<OpId>,
    /// The values that others use.
    outputs: Vec<ValueId>,
    /// Ops that must come after the loop.
    after: FxHashSet<OpId>,
}

impl Group {
    /// Whether a member stays in the block, too.
    fn is_kept(&self, f: &Function, op: OpId) -> bool {
        self.again.contains(&op) || is_cheap(&f.ops[op].op)
    }
}

/// A block with the places of its ops and the users of its values.
struct Scope<'a> {
    f: &'a Function,
    ops: &'a [OpId],
    place: SecondaryMap<OpId, Option<usize>>,
    users: FxHashMap<ValueId, Vec<OpId>>,
    returned: FxHashSet<ValueId>,
}

impl<'a> Scope<'a> {
    fn new(f: &'a Function, block: BlockId) -> Scope<'a> {
        let data = &f.blocks[block];
        let mut place = SecondaryMap::new();
        let mut users: FxHashMap<ValueId, Vec<OpId>> = FxHashMap::default();
        for (n, &op) in data.ops.iter().enumerate() {
            place[op] = Some(n);
            for value in used(f, op) {
                users.entry(value).or_default().push(op);
            }
        }
        let returned = data.yields.iter().copied().collect();
        Scope { f, ops: &data.ops, place, users, returned }
    }

    /// The group that grows from a product, if it pays.
    fn group(&self, seed: OpId) -> Option<Group> {
        let f = self.f;
        let Op::DotGeneral(dot) = &f.ops[seed].op else { return None };
        let result = f.ops[seed].results[0];
        let axes = match dot.lhs_batch.len() {
            0 if f.ty(f.ops[seed].operands[0]).rank() >= 3 => 1,
            batch => batch,
        };
        let batch = f.ty(result).shape[..axes].to_vec();
        if batch.iter().product::<u64>() < 2 {
            return None;
        }
        rule(f, seed, &batch)?;
        let mut group = Group {
            turn: Vec::new(),
            members: vec![seed],
            again: FxHashSet::default(),
            partial: FxHashSet::default(),
            outputs: Vec::new(),
            after: FxHashSet::default(),
            batch,
        };
        let mut inside: FxHashSet<ValueId> = FxHashSet::from_iter([result]);
        self.grow(seed, &mut group, &mut inside);
        self.pull(&mut group, &mut inside);
        again::choose(self, &mut group, &inside);
        self.pays(&mut group).then_some(group)
    }

    /// Adds the ops that use what is inside, as far as they work sample by sample.
    fn grow(&self, seed: OpId, group: &mut Group, inside: &mut FxHashSet<ValueId>) {
        let f = self.f;
        let mut behind: FxHashSet<ValueId> = FxHashSet::default();
        let first = self.place[seed].expect("an op of the block");
        for (distance, &op) in self.ops[first + 1..].iter().enumerate() {
            let operands = used(f, op);
            let waits = operands.iter().any(|v| behind.contains(v));
            if !waits && !operands.iter().any(|v| inside.contains(v)) {
                continue;
            }
            let near = distance < REACH && !waits;
            let whole = |slicing: &[Slicing]| {
                let pairs = operands.iter().zip(slicing);
                pairs.into_iter().all(|(v, s)| !inside.contains(v) || is_leading(s, &group.batch))
            };
            if near && rule(f, op, &group.batch).is_some_and(|slicing| whole(&slicing)) {
                group.members.push(op);
                inside.extend(&f.ops[op].results);
            } else if near && body::is_partial(f, op, &group.batch) {
                group.members.push(op);
                group.partial.insert(op);
                behind.extend(&f.ops[op].results);
            } else {
                group.after.insert(op);
                behind.extend(&f.ops[op].results);
            }
        }
    }

    /// Adds the ops that make what the group's ops use: what is cheap, and what nobody else uses.
    fn pull(&self, group: &mut Group, inside: &mut FxHashSet<ValueId>) {
        let f = self.f;
        let mut stack: Vec<OpId> = group.members.clone();
        while let Some(user) = stack.pop() {
            let Some(slicing) = self.slicing(user, group) else { continue };
            for (&value, slicing) in f.ops[user].operands.iter().zip(&slicing) {
                if inside.contains(&value) || !is_leading(slicing, &group.batch) {
                    continue;
                }
                let Some(op) = f.defining_op(value) else { continue };
                let data = &f.ops[op];
                if self.place[op].is_none() || rule(f, op, &group.batch).is_none() {
                    continue;
                }
                let users = self.users.get(&value).map_or(&[][..], |users| users);
                let alone = !self.returned.contains(&value)
                    && users.iter().all(|&user| self.reads_leading(user, value, group));
                let cheap = is_cheap(&data.op);
                // A product of something else is better read than made again in small pieces.
                let product = matches!(&data.op, Op::DotGeneral(dot) if dot.lhs_batch.is_empty());
                if cheap || (alone && !product) {
                    group.members.push(op);
                    inside.insert(value);
                    stack.push(op);
                }
            }
        }
        group.members.sort_by_key(|&op| self.place[op]);
    }

    /// Whether an op is a member that uses a value's samples by the value's first axes.
    fn reads_leading(&self, user: OpId, value: ValueId, group: &Group) -> bool {
        let Some(slicing) = self.slicing(user, group) else { return false };
        let operands = &self.f.ops[user].operands;
        group.members.contains(&user)
            && operands
                .iter()
                .zip(&slicing)
                .all(|(&v, s)| v != value || is_leading(s, &group.batch))
    }

    /// How a member's operands are sliced.
    fn slicing(&self, op: OpId, group: &Group) -> Option<Vec<Slicing>> {
        match group.partial.contains(&op) {
            true => Some(body::partial_slicing(&group.batch)),
            false => rule(self.f, op, &group.batch),
        }
    }

    /// Whether the loop saves memory; sets the outputs and the size of a turn.
    fn pays(&self, group: &mut Group) -> bool {
        let f = self.f;
        for &op in &group.members {
            let value = f.ops[op].results[0];
            let users = self.users.get(&value).map_or(&[][..], |users| users);
            let leaves = self.returned.contains(&value)
                || group.partial.contains(&op)
                || users.iter().any(|user| !group.members.contains(user));
            if leaves && !group.is_kept(f, op) {
                group.outputs.push(value);
            }
        }
        let largest = |values: &mut dyn Iterator<Item = ValueId>| {
            values.map(|v| f.ty(v).bytes()).max().unwrap_or(0)
        };
        let products =
            group.members.iter().filter(|&&op| matches!(f.ops[op].op, Op::DotGeneral(_)));
        let mut inner = products.map(|&op| f.ops[op].results[0]);
        let inner = largest(&mut inner.by_ref().filter(|v| !group.outputs.contains(v)));
        let outer = largest(&mut group.outputs.iter().copied());
        let samples: u64 = group.batch.iter().product();
        let mut wanted = LEAST_TURN.div_ceil((inner / samples).max(1));
        group.turn = vec![1; group.batch.len()];
        for (turn, &extent) in group.turn.iter_mut().zip(&group.batch).rev() {
            let least = wanted.min(extent);
            *turn = (least..=extent).find(|n| extent.is_multiple_of(*n)).unwrap_or(extent);
            wanted = wanted.div_ceil(*turn);
        }
        inner >= LEAST_BYTES && inner >= 2 * outer && group.turn != group.batch
    }
}

/// The values that an op uses, its regions included: the operands first.
fn used(f: &Function, op: OpId) -> Vec<ValueId> {
    let mut values = f.ops[op].operands.clone();
    if !f.ops[op].regions.is_empty() {
        values.extend(region::captures(f, op));
    }
    values
}

/// Whether it is no work to make the value again.
fn is_cheap(op: &Op) -> bool {
    matches!(op, Op::BroadcastInDim(_) | Op::Iota(_) | Op::Constant(_))
}

/// Whether a value is sliced along its first axes, one for each batch axis.
fn is_leading(slicing: &Slicing, batch: &[u64]) -> bool {
    slicing.len() == batch.len() && slicing.iter().enumerate().all(|(n, &at)| at == (n, n))
}
