//! Contractions whose result is only put into a larger tensor: they write it there.

use super::strided::{self, Start, Strided, known};
use super::{Into, base};
use crate::passes::counter::Counted;
use cranelift_entity::SecondaryMap;
use jaxrs_ir::lower::Lowering;
use jaxrs_ir::{Function, Op, OpId, ValueId, ops};
use jaxrs_kernel::program::Library;

/// How often each value is used, by ops and as what a block returns.
pub(crate) fn uses(f: &Function) -> SecondaryMap<ValueId, u32> {
    let mut uses = SecondaryMap::new();
    for block in f.blocks.values() {
        let operands = block.ops.iter().flat_map(|&op| &f.ops[op].operands);
        operands.chain(&block.yields).for_each(|&v| uses[v] += 1);
    }
    uses
}

/// The contraction that a `dynamic_update_slice` puts into its operand and that has no other use,
/// with where it writes.
pub(super) fn product(
    f: &Function,
    update: OpId,
    uses: &SecondaryMap<ValueId, u32>,
    outer: &dyn Fn(ValueId) -> bool,
) -> Option<(OpId, [Strided; 2], Into)> {
    let data = &f.ops[update];
    if !matches!(data.op, Op::DynamicUpdateSlice(_)) || f.ty(data.results[0]).is_empty() {
        return None;
    }
    let (whole, mut value) = (data.operands[0], data.operands[1]);
    let mut place = window(f, whole, value, &data.operands[2..]);
    let product = loop {
        if uses[value] != 1 || f.ty(value).is_empty() {
            return None;
        }
        let op = f.defining_op(value)?;
        if let Op::DotGeneral(_) = f.ops[op].op {
            break op;
        }
        place.strides = strided::before(f, value, &place.strides)?;
        value = f.ops[op].operands[0];
    };
    if !matches!(ops::lower(f, product), Lowering::Library(Library::Dot(_))) {
        return None;
    }
    let operands = [0, 1].map(|n| strided::strided(f, f.ops[product].operands[n], outer));
    let mut beside = [false; 2];
    for (n, operand) in operands.iter().enumerate() {
        beside[n] = base(f, operand.base) == base(f, whole);
        let operand = (f.ops[product].operands[n], operand.base);
        if beside[n] && !is_apart_in_steps(f, operand.0, operand.1, update) {
            return None;
        }
    }
    Some((product, operands, Into { update, place, beside }))
}

/// Whether an operand is a value, perhaps moved.
pub(crate) fn reads(f: &Function, value: ValueId, operand: ValueId) -> bool {
    let mut at = Some(operand);
    while let Some(known) = at {
        if known == value {
            return true;
        }
        at = strided::moved(f, known, &|_| true);
    }
    false
}

/// A window of a tensor as a tensor in its memory.
fn window(f: &Function, whole: ValueId, part: ValueId, starts: &[ValueId]) -> Strided {
    let mut place = Strided::whole(f, whole);
    for (axis, &index) in starts.iter().enumerate() {
        let high = (f.ty(whole).shape[axis] - f.ty(part).shape[axis]) as i64;
        let stride = place.strides[axis];
        place.begin_at(f, Start { index, high, stride });
    }
    place
}

/// What a slice of the tensor that an op updates has of what the op writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowRead {
    /// The same elements.
    Same,
    /// No element.
    Apart,
}

/// How a slice of the tensor that a `dynamic_update_slice` updates lies to what that writes, if it
/// is such a slice and that is known.
pub(super) fn window_read(f: &Function, slice: OpId, update: OpId) -> Option<WindowRead> {
    let (part, data) = (f.ops[slice].results.first()?, &f.ops[update]);
    let (from, whole) = (f.ops[slice].operands.first()?, data.operands.first()?);
    if from != whole || !matches!(data.op, Op::DynamicUpdateSlice(_)) {
        return None;
    }
    if is_apart(f, *part, *from, update) {
        return Some(WindowRead::Apart);
    }
    if f.ty(*part) != f.ty(data.operands[1]) {
        return None;
    }
    let equal = |axis: usize| {
        let high = (f.ty(*whole).shape[axis] - f.ty(*part).shape[axis]) as i64;
        let written = data.operands[2 + axis];
        match &f.ops[slice].op {
            Op::DynamicSlice(_) => {
                let read = f.ops[slice].operands[1 + axis];
                let start = known(f, read, high);
                read == written || start.is_some() && start == known(f, written, high)
            }
            Op::Slice(slice) => {
                slice.strides[axis] == 1
                    && known(f, written, high) == Some(slice.starts[axis] as i64)
            }
            _ => false,
        }
    };
    (0..f.ty(*whole).rank()).all(equal).then_some(WindowRead::Same)
}

/// Whether a value that is part of the tensor that an op updates has no element of what is written,
/// by known indices.
fn is_apart(f: &Function, value: ValueId, memory: ValueId, update: OpId) -> bool {
    apart(f, value, memory, update, &|_, _, _| false)
}

/// The same by indices that follow a loop's counter, too.
pub(crate) fn is_apart_in_steps(
    f: &Function,
    value: ValueId,
    memory: ValueId,
    update: OpId,
) -> bool {
    let mut counted = None;
    for (op, data) in &f.ops {
        let body = data.regions.get(1).map(|&region| &f.blocks[region].ops);
        let around = matches!(data.op, Op::While(_)) && body.is_some_and(|b| b.contains(&update));
        if around {
            counted = Counted::of(f, op);
        }
    }
    apart(f, value, memory, update, &|indices, high, extent| {
        counted.as_ref().is_some_and(|counted| counted.apart(f, indices, high, extent))
    })
}

/// Whether two indices, clamped, are a number apart.
type Differ<'a> = &'a dyn Fn([ValueId; 2], i64, u64) -> bool;

fn apart(f: &Function, value: ValueId, memory: ValueId, update: OpId, differ: Differ<'_>) -> bool {
    let mut value = value;
    // The op that takes the part out of the memory.
    let (part, op) = loop {
        let Some(op) = f.defining_op(value) else { return false };
        let Some(&operand) = f.ops[op].operands.first() else { return false };
        if operand == memory {
            break (value, op);
        }
        value = operand;
    };
    let data = &f.ops[update];
    let (whole, written) = (f.ty(data.operands[0]), f.ty(data.operands[1]));
    if f.ty(memory) != whole || f.ty(part).rank() != whole.rank() {
        return false;
    }
    let range = |axis: usize| match &f.ops[op].op {
        Op::Slice(slice) => Some((slice.starts[axis] as i64, slice.limits[axis] as i64)),
        Op::DynamicSlice(slice) => {
            let high = (whole.shape[axis] - slice.sizes[axis]) as i64;
            let start = known(f, f.ops[op].operands[1 + axis], high)?;
            Some((start, start + slice.sizes[axis] as i64))
        }
        _ => None,
    };
    let own = |axis: usize| {
        let high = (whole.shape[axis] - written.shape[axis]) as i64;
        let start = known(f, data.operands[2 + axis], high)?;
        Some((start, start + written.shape[axis] as i64))
    };
    let dynamic = |axis: usize| match &f.ops[op].op {
        Op::DynamicSlice(slice) if slice.sizes[axis] == written.shape[axis] => {
            let extent = written.shape[axis];
            let indices = [f.ops[op].operands[1 + axis], data.operands[2 + axis]];
            differ(indices, (whole.shape[axis] - extent) as i64, extent)
        }
        _ => false,
    };
    (0..whole.rank()).any(|axis| match (range(axis), own(axis)) {
        (Some(a), Some(b)) => a.1 <= b.0 || b.1 <= a.0,
        _ => dynamic(axis),
    })
}
