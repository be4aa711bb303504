//! Removes ops whose results nothing uses.

use cranelift_entity::SecondaryMap;
use jaxrs_ir::{BlockId, Function, OpId, ValueId};

/// Removes every op that neither has an effect nor makes a value that is used.
pub fn run(function: &mut Function) {
    let mut used: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    block(function, function.body, &mut used);
}

/// Removes them from one region, all of whose uses of outer values are taken as needed.
pub fn run_region(function: &mut Function, region: BlockId) {
    let mut used: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    block(function, region, &mut used);
}

fn block(function: &mut Function, id: BlockId, used: &mut SecondaryMap<ValueId, bool>) {
    for &value in &function.blocks[id].yields {
        used[value] = true;
    }
    let mut ops = std::mem::take(&mut function.blocks[id].ops);
    let mut kept = Vec::with_capacity(ops.len());
    while let Some(op) = ops.pop() {
        let data = &function.ops[op];
        if !data.results.iter().any(|&v| used[v]) && !has_effect(function, op) {
            continue;
        }
        for &value in &data.operands {
            used[value] = true;
        }
        for region in data.regions.clone() {
            block(function, region, used);
        }
        kept.push(op);
    }
    kept.reverse();
    function.blocks[id].ops = kept;
}

/// Whether running the op matters beyond its results: of our ops, those without results.
pub fn has_effect(function: &Function, op: OpId) -> bool {
    let data = &function.ops[op];
    let inside = |&region: &BlockId| {
        function.blocks[region].ops.iter().any(|&inner| has_effect(function, inner))
    };
    data.results.is_empty() || data.regions.iter().any(inside)
}
