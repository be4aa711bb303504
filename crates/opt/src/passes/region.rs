//! What regions are to the passes.

use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rustc_hash::FxHashSet;

/// Whether the op's regions are control flow, whose ops work on tensors of any shape and are
/// steps of their own; the regions of other ops combine single elements.
pub fn is_control(function: &Function, op: OpId) -> bool {
    matches!(function.ops[op].op, Op::While(_) | Op::Case(_) | Op::If(_))
}

/// The values of enclosing blocks that an op's regions use, in the order of their first use.
pub fn captures(function: &Function, op: OpId) -> Vec<ValueId> {
    let mut walk = Captures { function, inside: FxHashSet::default(), out: Vec::new() };
    for &region in &function.ops[op].regions {
        walk.block(region);
    }
    walk.out
}

/// The values of enclosing blocks that a region uses, in the order of their first use.
pub fn captures_of_block(function: &Function, region: BlockId) -> Vec<ValueId> {
    let mut walk = Captures { function, inside: FxHashSet::default(), out: Vec::new() };
    walk.block(region);
    walk.out
}

struct Captures<'a> {
    function: &'a Function,
    inside: FxHashSet<ValueId>,
    out: Vec<ValueId>,
}

impl Captures<'_> {
    fn block(&mut self, block: BlockId) {
        let data = &self.function.blocks[block];
        self.inside.extend(&data.arguments);
        for &op in &data.ops {
            let data = &self.function.ops[op];
            data.operands.iter().for_each(|&v| self.see(v));
            data.regions.iter().for_each(|&region| self.block(region));
            self.inside.extend(&data.results);
        }
        data.yields.iter().for_each(|&v| self.see(v));
    }

    fn see(&mut self, value: ValueId) {
        if self.inside.insert(value) {
            self.out.push(value);
        }
    }
}
