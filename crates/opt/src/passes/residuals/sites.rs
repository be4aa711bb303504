//! Stacks that a loop fills, and the places that read a slot of each.

use super::Info;
use super::graph::{self, Graph, NodeId};
use crate::passes::counter::{Counted, Line};
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// A carry of which each iteration writes one slot, and that it does not read.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    /// The carry's position.
    pub carry: usize,
    /// What is written.
    pub node: NodeId,
    /// Whether something uses the result otherwise than slot by slot.
    pub pinned: bool,
    /// Whether a site reads it.
    pub read: bool,
}

/// The stacks of a loop.
#[derive(Debug)]
pub(super) struct Stacks {
    /// The stacks.
    pub all: Vec<Stack>,
    /// The slot written in an iteration, as a function of the counter.
    pub slot: Line,
    /// The same, a value of the body.
    pub index: ValueId,
}

/// Ops of a block that depend on slots of one index.
#[derive(Debug)]
pub(super) struct Site {
    /// The block.
    pub block: BlockId,
    /// The slot's index, at which all stacks are read.
    pub index: ValueId,
    /// Values of the block that cheap ops make from slots, each with its node.
    pub values: FxHashMap<ValueId, NodeId>,
    /// Those of them that something else uses.
    pub sinks: Vec<(ValueId, NodeId)>,
}

/// The stacks that a loop fills from end to end.
pub(super) fn stacks(
    f: &Function,
    counter: &Counted,
    graph: &mut Graph,
    info: &Info,
) -> Option<Stacks> {
    let op = counter.op;
    let body = f.ops[op].regions[1];
    let (arguments, yields) = (&f.blocks[body].arguments, &f.blocks[body].yields);
    let mut found: Option<Stacks> = None;
    for (carry, (&argument, &next)) in arguments.iter().zip(yields).enumerate() {
        let condition = f.blocks[f.ops[op].regions[0]].arguments[carry];
        let Some(update) = f.defining_op(next) else { continue };
        let data = &f.ops[update];
        let Op::DynamicUpdateSlice(_) = data.op else { continue };
        let (whole, slot) = (f.ty(argument), f.ty(data.operands[1]));
        let alone = data.operands[0] == argument
            && info.users[argument] == [update]
            && info.returns[argument].is_empty()
            && info.users[next].is_empty()
            && info.returns[next].len() == 1
            && info.users[condition].is_empty();
        let slots = whole.rank() > 0
            && slot.shape[0] == 1
            && slot.shape[1..] == whole.shape[1..]
            && whole.shape[0] == counter.trips
            && !slot.is_empty();
        if !alone || !slots {
            continue;
        }
        let index = data.operands[2];
        let line = counter.line(f, index).filter(|line| line.is_permutation(counter.trips));
        let Some(line) = line else { continue };
        let node = graph.known(f, data.operands[1])?;
        let stack = Stack { carry, node, pinned: false, read: false };
        let stacks = found.get_or_insert(Stacks { all: Vec::new(), slot: line, index });
        if stacks.slot == line && f.ty(stacks.index) == f.ty(index) {
            stacks.all.push(stack);
        }
    }
    found
}

/// The sites that read the stacks. Says of each stack whether it is read, and read only so.
pub(super) fn sites(
    f: &Function,
    counter: &Counted,
    stacks: &mut Stacks,
    graph: &mut Graph,
    info: &Info,
) -> Vec<Site> {
    let op = counter.op;
    let mut sites: Vec<Site> = Vec::new();
    let mut slices: FxHashMap<ValueId, NodeId> = FxHashMap::default();
    for stack in &mut stacks.all {
        let result = f.ops[op].results[stack.carry];
        stack.pinned = !info.returns[result].is_empty();
        for &user in &info.users[result] {
            match slot_of(f, user, result, counter.trips, info) {
                Some(index) => {
                    stack.read = true;
                    slices.insert(f.ops[user].results[0], stack.node);
                    let block = info.home[user].expand().expect("it is in a block");
                    if !sites.iter().any(|s| (s.block, s.index) == (block, index)) {
                        let (values, sinks) = (FxHashMap::default(), Vec::new());
                        sites.push(Site { block, index, values, sinks });
                    }
                }
                None => stack.pinned = true,
            }
        }
    }
    for site in &mut sites {
        fill(f, site, stacks, &slices, graph, info);
    }
    sites
}

/// The index at which an op reads one slot, if it is inside the stack.
fn slot_of(f: &Function, op: OpId, stack: ValueId, trips: u64, info: &Info) -> Option<ValueId> {
    let data = &f.ops[op];
    let Op::DynamicSlice(slice) = &data.op else { return None };
    let whole = f.ty(stack);
    if data.operands[0] != stack
        || data.operands[1..].contains(&stack)
        || slice.sizes[0] != 1
        || slice.sizes[1..] != whole.shape[1..]
    {
        return None;
    }
    let block = info.home[op].expand()?;
    let mut loops = info.loops.iter().copied();
    let reader = loops.find(|&op| f.ops[op].regions.get(1) == Some(&block))?;
    let reading = Counted::of(f, reader)?;
    let (low, high) = reading.line(f, data.operands[1])?.range(reading.trips);
    (low >= 0 && high < i128::from(trips)).then_some(data.operands[1])
}

/// Finds what cheap ops make of the slots.
fn fill(
    f: &Function,
    site: &mut Site,
    stacks: &Stacks,
    slices: &FxHashMap<ValueId, NodeId>,
    graph: &mut Graph,
    info: &Info,
) {
    if f.ty(site.index) == f.ty(stacks.index)
        && let Some(node) = graph.known(f, stacks.index)
    {
        site.values.insert(site.index, node);
    }
    // What depends on a slot, in order, and the ops that make it.
    let mut made: Vec<ValueId> = Vec::new();
    let mut inside: FxHashSet<OpId> = FxHashSet::default();
    for &op in &f.blocks[site.block].ops {
        let data = &f.ops[op];
        if graph::is_barrier(f, op) {
            // What may not be merged with the same of elsewhere may still be saved there.
            for (operand, &result) in data.operands.iter().zip(&data.results) {
                if let Some(&node) = site.values.get(operand) {
                    site.values.insert(result, node);
                    if made.contains(operand) {
                        made.push(result);
                    }
                }
            }
            continue;
        }
        let [result] = data.results[..] else { continue };
        if site.values.contains_key(&result) {
            continue;
        }
        if let Some(&node) = slices.get(&result)
            && data.operands[1] == site.index
        {
            site.values.insert(result, node);
            made.push(result);
            inside.insert(op);
            continue;
        }
        let depends = |v: &ValueId| made.contains(v);
        let depends = data.operands.iter().any(depends);
        if let Some(operand) = graph::reshaped(f, result) {
            if let Some(&node) = site.values.get(&operand) {
                site.values.insert(result, node);
                inside.insert(op);
                if depends {
                    made.push(result);
                }
            }
            continue;
        }
        if !graph::is_cheap(f, op) || data.operands.is_empty() {
            continue;
        }
        let of = |v: &ValueId, graph: &mut Graph| match site.values.get(v) {
            Some(&node) => Some(node),
            None => graph.known(f, *v),
        };
        let nodes: Option<Vec<NodeId>> = data.operands.iter().map(|v| of(v, graph)).collect();
        let Some(nodes) = nodes else { continue };
        // What only moves elements is not worth moving to the first loop.
        let moves = matches!(
            data.op,
            Op::Transpose(_) | Op::Slice(_) | Op::Reverse(_) | Op::Pad(_) | Op::Concatenate(_)
        );
        let before = graph.nodes.len();
        let node = graph.cheap(f, op, nodes);
        if moves && node >= before {
            continue;
        }
        site.values.insert(result, node);
        inside.insert(op);
        if depends {
            made.push(result);
        }
    }
    let outside = |v: &ValueId| {
        let inside = |user: &OpId| inside.contains(user) || graph::is_barrier(f, *user);
        !info.returns[*v].is_empty() || !info.users[*v].iter().all(inside)
    };
    site.sinks = made.iter().filter(|v| outside(v)).map(|&v| (v, site.values[&v])).collect();
}
