//! Loops that count from 0, and indices that follow their counters.

use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use jaxrs_kernel::Compare;

/// A loop whose iterations are counted by a carry: 0, 1, 2, ...
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    /// The carry's position.
    pub carry: usize,
    /// How often the body runs.
    pub trips: u64,
}

/// The counter of a `while`, if it has one.
pub(super) fn counter(f: &Function, op: OpId) -> Option<Counter> {
    let data = &f.ops[op];
    let [condition, body] = data.regions[..] else { return None };
    let trips = super::super::trips::trips(f, op)?;
    let compare = &f.ops[f.defining_op(f.blocks[condition].yields[0])?];
    let Op::Compare(how) = &compare.op else { return None };
    let arguments = &f.blocks[condition].arguments;
    let carry = arguments.iter().position(|&a| a == compare.operands[0])?;
    let next = affine(f, f.blocks[body].yields[carry], f.blocks[body].arguments[carry])?;
    let first = integer(f, data.operands[carry])?;
    (how.direction == Compare::Lt && first == 0 && next == Affine { factor: 1, offset: 1 })
        .then_some(Counter { carry, trips })
}

/// `factor * counter + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Affine {
    pub factor: i64,
    pub offset: i64,
}

impl Affine {
    /// The least and the greatest of its values over iterations.
    pub(super) fn range(self, trips: u64) -> (i64, i64) {
        let last = self.factor * (trips as i64 - 1) + self.offset;
        (self.offset.min(last), self.offset.max(last))
    }

    /// Whether it takes each value below `trips` once.
    pub(super) fn is_permutation(self, trips: u64) -> bool {
        self.factor.abs() == 1 && self.range(trips) == (0, trips as i64 - 1)
    }
}

/// A scalar as a function of a counter.
pub(super) fn affine(f: &Function, value: ValueId, counter: ValueId) -> Option<Affine> {
    follow(f, value, counter, 16)
}

fn follow(f: &Function, value: ValueId, counter: ValueId, depth: u32) -> Option<Affine> {
    if value == counter {
        return Some(Affine { factor: 1, offset: 0 });
    }
    if let Some(offset) = integer(f, value) {
        // Nothing overflows below.
        return (offset.abs() < 1 << 40).then_some(Affine { factor: 0, offset });
    }
    let data = &f.ops[f.defining_op(value)?];
    let of = |n: usize| follow(f, data.operands[n], counter, depth.checked_sub(1)?);
    let wide = |v: ValueId| f.ty(v).dtype.is_int() && f.ty(v).dtype.bits() >= 32;
    match &data.op {
        Op::Elementwise(e) if wide(value) => {
            let sign = match e.name() {
                "stablehlo.add" => 1,
                "stablehlo.subtract" => -1,
                _ => return None,
            };
            let (x, y) = (of(0)?, of(1)?);
            let factor = x.factor + sign * y.factor;
            let offset = x.offset + sign * y.offset;
            (factor.abs() < 1 << 20 && offset.abs() < 1 << 41).then_some(Affine { factor, offset })
        }
        Op::Convert(_) if wide(value) && wide(data.operands[0]) => of(0),
        _ => None,
    }
}

/// The value of a rank-0 integer constant.
pub(super) fn integer(f: &Function, value: ValueId) -> Option<i64> {
    match &f.ops[f.defining_op(value)?].op {
        Op::Constant(constant) if f.ty(value).dtype.is_int() && f.ty(value).rank() == 0 => {
            Some(constant.value.int(0))
        }
        _ => None,
    }
}

/// The `while` that each block is the body of.
pub(super) fn owner(f: &Function, block: BlockId, loops: &[OpId]) -> Option<OpId> {
    loops.iter().copied().find(|&op| f.ops[op].regions.get(1) == Some(&block))
}
