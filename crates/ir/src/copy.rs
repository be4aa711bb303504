//! Copies ops from one function into another.

use crate::function::{BlockId, Function, OpId, ValueId};
use rustc_hash::FxHashMap;

/// The values copied so far: of the source function, to the target's.
#[derive(Debug, Default)]
pub struct Copied {
    /// The target's value of each source value.
    pub values: FxHashMap<ValueId, ValueId>,
}

impl Copied {
    /// Copies an op, regions included, to the end of a block. Every value that it uses has been
    /// copied.
    pub fn op(&mut self, from: &Function, op: OpId, to: &mut Function, block: BlockId) -> OpId {
        let data = &from.ops[op];
        let regions: Vec<BlockId> =
            data.regions.iter().map(|&region| self.region(from, region, to)).collect();
        let operands = self.all(&data.operands);
        let types = data.results.iter().map(|&v| from.ty(v).clone()).collect();
        let location = data.location.clone();
        let copy = to.push_op(block, data.op.clone(), &operands, types, &regions, location);
        for (&old, &new) in data.results.iter().zip(&to.ops[copy].results) {
            self.values.insert(old, new);
        }
        copy
    }

    /// Copies a block with its arguments into a new one, to become a region.
    pub fn region(&mut self, from: &Function, block: BlockId, to: &mut Function) -> BlockId {
        let target = to.add_block();
        self.arguments(from, block, to, target);
        self.block(from, block, to, target);
        target
    }

    /// Gives a target block the source block's arguments.
    pub fn arguments(&mut self, from: &Function, block: BlockId, to: &mut Function, at: BlockId) {
        for &argument in &from.blocks[block].arguments {
            let new = to.add_argument(at, from.ty(argument).clone());
            self.values.insert(argument, new);
        }
    }

    /// Copies a block's ops and yields.
    pub fn block(&mut self, from: &Function, block: BlockId, to: &mut Function, at: BlockId) {
        for &op in &from.blocks[block].ops {
            self.op(from, op, to, at);
        }
        to.blocks[at].yields = self.all(&from.blocks[block].yields);
    }

    /// The copies of values.
    pub fn all(&self, values: &[ValueId]) -> Vec<ValueId> {
        values.iter().map(|v| self.values[v]).collect()
    }
}
