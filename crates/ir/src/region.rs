//! Regions and the values of enclosing blocks that they use.

use crate::copy::Copied;
use crate::function::{BlockId, Function, OpId, ValueId};
use rustc_hash::FxHashSet;

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

/// A region as a function of its own: its parameters are the region's arguments, then the values
/// of enclosing blocks that it uses, which are given beside it.
pub fn extract(function: &Function, region: BlockId) -> (Function, Vec<ValueId>) {
    let captured = captures_of_block(function, region);
    (extract_over(function, region, &captured), captured)
}

/// A region as a function of its own: its parameters are the region's arguments, then the values of
/// enclosing blocks that are given, all that it uses among them.
pub fn extract_over(function: &Function, region: BlockId, captured: &[ValueId]) -> Function {
    let mut to = Function::new("region");
    let mut copied = Copied::default();
    for &value in function.blocks[region].arguments.iter().chain(captured) {
        let parameter = to.add_parameter(function.ty(value).clone());
        copied.values.insert(value, parameter);
    }
    let body = to.body;
    copied.block(function, region, &mut to, body);
    to.result_attributes = vec![Default::default(); to.results().len()];
    to
}
