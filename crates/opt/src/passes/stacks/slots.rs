//! Carries that a loop fills slot by slot, one slot in each step.

use crate::passes::counter::Counted;
use crate::passes::region;
use jaxrs_ir::{BlockId, Function, Op, ValueId};
use rustc_hash::FxHashMap;

/// A carry that the body fills: an update of one slot of a buffer that nothing else reads.
pub struct Filled {
    /// The position of the carry.
    pub carry: usize,
    /// What the body writes; a value of the buffer's type but for the extent of the axis.
    pub update: ValueId,
    /// The axis of the slots.
    pub axis: usize,
    /// How many elements of the axis a slot has.
    pub block: u64,
    /// Whether the slots are filled in ascending order.
    pub rising: bool,
}

/// The carries that a loop fills wholly.
pub fn filled(counted: &Counted, f: &Function) -> Vec<Filled> {
    let data = &f.ops[counted.op];
    let mut uses = FxHashMap::default();
    data.regions.iter().for_each(|&region| count_uses(f, region, &mut uses));
    let once = |value: ValueId| uses.get(&value) == Some(&1);
    let [condition, body] = [0, 1].map(|n| &f.blocks[data.regions[n]]);
    let fill = |carry: usize| {
        let (argument, next) = (body.arguments[carry], body.yields[carry]);
        let unread = once(argument) && once(next) && !once(condition.arguments[carry]);
        let update = &f.ops[f.defining_op(next).filter(|op| body.ops.contains(op))?];
        if !unread || !matches!(update.op, Op::DynamicUpdateSlice(_)) {
            return None;
        }
        let (whole, part) = (f.ty(argument), f.ty(update.operands[1]));
        let mut axes = (0..whole.rank()).filter(|&axis| whole.shape[axis] != part.shape[axis]);
        let (axis, None) = (axes.next()?, axes.next()) else { return None };
        let block = part.shape[axis];
        if update.operands[0] != argument
            || whole.is_empty()
            || part.is_empty()
            || block.checked_mul(counted.trips) != Some(whole.shape[axis])
        {
            return None;
        }
        let line = counted.line(f, update.operands[2 + axis])?;
        let (size, last) = (i128::from(block), i128::from(whole.shape[axis] - block));
        let rising = match (line.first, line.step) {
            (0, step) if step == size => true,
            (first, step) if first == last && step == -size => false,
            _ => return None,
        };
        Some(Filled { carry, update: update.operands[1], axis, block, rising })
    };
    (0..data.operands.len()).filter_map(fill).collect()
}

/// How often values are used in a block and the regions inside.
fn count_uses(f: &Function, block: BlockId, uses: &mut FxHashMap<ValueId, u32>) {
    let mut count = |value: ValueId| *uses.entry(value).or_default() += 1;
    for &op in &f.blocks[block].ops {
        f.ops[op].operands.iter().for_each(|&value| count(value));
        region::captures(f, op).into_iter().for_each(&mut count);
    }
    f.blocks[block].yields.iter().for_each(|&value| count(value));
}
