//! Which values of a block die where.

use crate::function::{BlockId, Function, ValueId};
use rustc_hash::FxHashMap;

/// Where the values that a block defines are used last.
pub(super) struct LastUses {
    after: Vec<Vec<ValueId>>,
    at_end: Vec<ValueId>,
}

impl LastUses {
    /// The last uses of the block's arguments and of its ops' results, in the block itself and in
    /// the regions of its ops.
    pub(super) fn new(function: &Function, block: BlockId) -> LastUses {
        let data = &function.blocks[block];
        let mut last: FxHashMap<ValueId, usize> = FxHashMap::default();
        for &value in &data.arguments {
            last.insert(value, 0);
        }
        for (position, &op) in data.ops.iter().enumerate() {
            let mut uses = Vec::new();
            collect_uses(function, op, &mut uses);
            for value in uses {
                last.entry(value).and_modify(|at| *at = position);
            }
            for &value in &function.ops[op].results {
                last.insert(value, position);
            }
        }
        let mut out =
            LastUses { after: vec![Vec::new(); data.ops.len()], at_end: data.yields.clone() };
        out.at_end.retain(|value| last.contains_key(value));
        for value in &data.yields {
            last.remove(value);
        }
        for (value, position) in last {
            match out.after.get_mut(position) {
                Some(dead) => dead.push(value),
                None => out.at_end.push(value),
            }
        }
        out
    }

    /// The values that are not used after the op at this position.
    pub(super) fn after(&self, position: usize) -> &[ValueId] {
        &self.after[position]
    }

    /// The other values of the block.
    pub(super) fn at_end(&self) -> &[ValueId] {
        &self.at_end
    }
}

fn collect_uses(function: &Function, op: crate::OpId, uses: &mut Vec<ValueId>) {
    let data = &function.ops[op];
    uses.extend(&data.operands);
    for &block in &data.regions {
        let block = &function.blocks[block];
        uses.extend(&block.yields);
        for &op in &block.ops {
            collect_uses(function, op, uses);
        }
    }
}
