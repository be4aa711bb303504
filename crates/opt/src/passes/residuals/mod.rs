//! What a loop saves for a later one, a slot of a stack in each iteration, and what the later loop
//! makes again instead.
//!
//! Reverse-mode differentiation of a `scan` saves every operand of every derivative: a hidden
//! state, its `tanh`, `1 - tanh²`. Some few values suffice, from which cheap elementwise ops make
//! the others in the later loop. Which ones is a minimum cut: values are vertices that cost their
//! bytes, a cheap op leads from its operands to its result, what cannot be made again is a source,
//! what the later loop does with slots beyond cheap ops is a sink. The cut nearest to the sinks
//! leaves the least to be made again; it may lie behind cheap ops of the later loop, which are then
//! run in the first one.
//!
//! A carry is the same carry's next value, an iteration before: where that is saved or can be made
//! again, the carry itself is not saved (`decide`).

mod decide;
mod graph;
mod rewrite;
mod sites;
#[cfg(test)]
mod tests;

pub(super) use graph::{is_cheap, reshaped};

use super::{cse, dce, loops};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};

/// Saves less in every loop that saves more than it needs to.
pub fn run(function: &mut Function) {
    let whole = Info::new(function);
    if whole.loops.len() < 2 {
        return;
    }
    let mut changed = false;
    for &op in &whole.loops {
        let info = Info::new(function);
        if let Some(plan) = decide::decide(function, op, &info) {
            rewrite::apply(function, op, plan);
            changed = true;
        }
    }
    if changed {
        dce::run(function);
        loops::run(function);
        dce::run(function);
        cse::run(function);
    }
}

/// Where ops are and what uses values.
pub(super) struct Info {
    /// Every `while`, outer ones first.
    pub loops: Vec<OpId>,
    /// The block of each op.
    pub home: SecondaryMap<OpId, PackedOption<BlockId>>,
    /// The op of each region.
    pub parent: SecondaryMap<BlockId, PackedOption<OpId>>,
    /// The ops that have a value as an operand.
    pub users: SecondaryMap<ValueId, Vec<OpId>>,
    /// The blocks that return a value.
    pub returns: SecondaryMap<ValueId, Vec<BlockId>>,
    /// The position of each op in its block.
    pub position: SecondaryMap<OpId, u32>,
}

impl Info {
    pub(super) fn new(f: &Function) -> Info {
        let mut info = Info {
            loops: Vec::new(),
            home: SecondaryMap::new(),
            parent: SecondaryMap::new(),
            users: SecondaryMap::new(),
            returns: SecondaryMap::new(),
            position: SecondaryMap::new(),
        };
        info.block(f, f.body);
        info
    }

    fn block(&mut self, f: &Function, block: BlockId) {
        for (position, &op) in f.blocks[block].ops.iter().enumerate() {
            let data = &f.ops[op];
            self.home[op] = block.into();
            self.position[op] = position as u32;
            data.operands.iter().for_each(|&v| self.users[v].push(op));
            if matches!(data.op, Op::While(_)) {
                self.loops.push(op);
            }
            for &region in &data.regions {
                self.parent[region] = op.into();
                self.block(f, region);
            }
        }
        f.blocks[block].yields.iter().for_each(|&v| self.returns[v].push(block));
    }

    /// The op of a block in which something of a block inside lies.
    pub(super) fn ancestor(&self, mut inside: BlockId, block: BlockId) -> Option<OpId> {
        loop {
            let op = self.parent[inside].expand()?;
            let home = self.home[op].expand()?;
            if home == block {
                return Some(op);
            }
            inside = home;
        }
    }

    /// Whether something after an op of its block uses a value, or the block returns it.
    pub(super) fn used_after(&self, value: ValueId, op: OpId) -> bool {
        let Some(block) = self.home[op].expand() else { return true };
        let after = |user: Option<OpId>| user.is_none_or(|u| self.position[u] > self.position[op]);
        let of_user = |&user: &OpId| match self.home[user].expand() {
            Some(home) if home == block => Some(user),
            Some(home) => self.ancestor(home, block),
            None => None,
        };
        self.users[value].iter().any(|user| after(of_user(user)))
            || self.returns[value].iter().any(|&b| b == block || after(self.ancestor(b, block)))
    }
}
