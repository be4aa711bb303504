//! Operands of contractions that are other tensors' elements in another order, or a part of them:
//! the library reads those with strides from where they begin, so that no copy is made.

use super::constant;
use jaxrs_ir::{Function, Op, TensorType, ValueDef, ValueId};

/// A value of more than so many times the part's bytes is not kept for the part alone.
const MOST_KEPT: u64 = 8;

/// A value as elements of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Strided {
    /// The value that is memory.
    pub base: ValueId,
    /// For each axis of the value, the distance in the base's elements.
    pub strides: Vec<i64>,
    /// Where the value begins in the base.
    pub first: i64,
    /// What is added to that at run time.
    pub starts: Vec<Start>,
}

/// An index that is clamped to `0..=high` and moves a tensor by `stride` elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// An integer of rank 0.
    pub index: ValueId,
    /// Its largest value.
    pub high: i64,
    /// Elements of the base.
    pub stride: i64,
}

impl Strided {
    /// The value by itself.
    pub(super) fn whole(f: &Function, value: ValueId) -> Strided {
        Strided { base: value, strides: dense(f.ty(value)), first: 0, starts: Vec::new() }
    }

    /// Moves it by an index, now if that is known.
    pub(super) fn begin_at(&mut self, f: &Function, start: Start) {
        match known(f, start.index, start.high) {
            Some(index) => self.first += index * start.stride,
            None => self.starts.push(start),
        }
    }
}

/// The value through the transposes, reshapes, repetitions and slices that make it, as far as
/// strides can say.
///
/// `outer` tells the values of enclosing blocks, whose memory is kept in any case.
pub(super) fn strided(f: &Function, value: ValueId, outer: &dyn Fn(ValueId) -> bool) -> Strided {
    let mut chain = vec![value];
    let mut best = Strided::whole(f, value);
    while let Some(operand) = moved(f, chain[chain.len() - 1], outer) {
        chain.push(operand);
        match along(f, &chain) {
            Some(longer) => best = longer,
            None => break,
        }
    }
    best
}

/// An index that is clamped to `0..=high`, if it is known.
pub(super) fn known(f: &Function, index: ValueId, high: i64) -> Option<i64> {
    if high == 0 {
        return Some(0);
    }
    let value = constant(f, index)?.wide_int(0);
    Some(value.clamp(0, i128::from(high)) as i64)
}

fn dense(ty: &TensorType) -> Vec<i64> {
    ty.strides().into_iter().map(|s| s as i64).collect()
}

/// The operand of an op that only moves, repeats or leaves out elements.
pub(super) fn moved(
    f: &Function,
    value: ValueId,
    outer: &dyn Fn(ValueId) -> bool,
) -> Option<ValueId> {
    let data = &f.ops[f.defining_op(value)?];
    match data.op {
        Op::Transpose(_) | Op::Reshape(_) | Op::BroadcastInDim(_) | Op::Reverse(_) => {
            Some(data.operands[0])
        }
        Op::Slice(_) | Op::DynamicSlice(_) => {
            let from = data.operands[0];
            // A small part of a large temporary is better taken out of it.
            let updated = f.defining_op(from).map(|op| &f.ops[op].op);
            let kept = matches!(f.values[from].def, ValueDef::Argument(..))
                || matches!(updated, Some(Op::DynamicUpdateSlice(_)))
                || outer(from)
                || f.ty(from).bytes() <= MOST_KEPT * f.ty(value).bytes();
            kept.then_some(from)
        }
        _ => None,
    }
}

/// The first value as elements of the last one's memory.
fn along(f: &Function, chain: &[ValueId]) -> Option<Strided> {
    let mut place = Strided::whole(f, *chain.last()?);
    for pair in chain.windows(2).rev() {
        let (value, operand) = (pair[0], pair[1]);
        let (to, from) = (&f.ty(value).shape, &f.ty(operand).shape);
        let data = &f.ops[f.defining_op(value)?];
        let strides = &place.strides;
        place.strides = match &data.op {
            Op::Transpose(t) => t.permutation.iter().map(|&axis| strides[axis]).collect(),
            Op::BroadcastInDim(b) => {
                let mut out = vec![0; to.len()];
                for ((&axis, &extent), &stride) in b.axes.iter().zip(from).zip(strides) {
                    if extent != 1 {
                        out[axis] = stride;
                    }
                }
                out
            }
            Op::Reshape(_) => reshaped(from, strides, to)?,
            Op::Reverse(reverse) => {
                let mut out = strides.clone();
                for &axis in &reverse.axes {
                    place.first += strides[axis] * (from[axis] as i64 - 1).max(0);
                    out[axis] = -out[axis];
                }
                out
            }
            Op::Slice(slice) => {
                let ends = slice.starts.iter().zip(strides);
                place.first += ends.map(|(&start, stride)| start as i64 * stride).sum::<i64>();
                strides.iter().zip(&slice.strides).map(|(a, &b)| a * b as i64).collect()
            }
            Op::DynamicSlice(slice) => {
                for (axis, &index) in data.operands[1..].iter().enumerate() {
                    let high = (from[axis] - slice.sizes[axis]) as i64;
                    let stride = place.strides[axis];
                    place.begin_at(f, Start { index, high, stride });
                }
                place.strides
            }
            _ => return None,
        };
    }
    Some(place)
}

/// The strides of the operand of a value that is moved or reshaped only, for given strides of the
/// value.
pub(super) fn before(f: &Function, value: ValueId, strides: &[i64]) -> Option<Vec<i64>> {
    let data = &f.ops[f.defining_op(value)?];
    let from = f.ty(*data.operands.first()?);
    match &data.op {
        Op::Transpose(t) => {
            let mut out = vec![0; strides.len()];
            for (&axis, &stride) in t.permutation.iter().zip(strides) {
                out[axis] = stride;
            }
            Some(out)
        }
        Op::Reshape(_) => reshaped(&f.ty(value).shape, strides, &from.shape),
        // Nothing is repeated.
        Op::BroadcastInDim(b) if from.len() == f.ty(value).len() => {
            Some(b.axes.iter().map(|&axis| strides[axis]).collect())
        }
        _ => None,
    }
}

/// The strides under another shape, if there are any.
fn reshaped(from: &[u64], strides: &[i64], to: &[u64]) -> Option<Vec<i64>> {
    // Axes of one element have no say; neighbours that step as one are one.
    let mut source: Vec<(u64, i64)> = Vec::new();
    for (&extent, &stride) in from.iter().zip(strides).filter(|(e, _)| **e != 1) {
        match source.last_mut() {
            Some(last) if last.1 == stride * extent as i64 => *last = (last.0 * extent, stride),
            _ => source.push((extent, stride)),
        }
    }
    let mut out = vec![0; to.len()];
    let mut left = (1, 0);
    for axis in (0..to.len()).rev().filter(|&axis| to[axis] != 1) {
        if left.0 == 1 {
            left = source.pop()?;
        }
        if left.0 % to[axis] != 0 {
            return None;
        }
        out[axis] = left.1;
        left = (left.0 / to[axis], left.1 * to[axis] as i64);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::reshaped;

    #[test]
    fn reshapes_of_strided_tensors() {
        let check = |from: &[u64], strides: &[i64], to: &[u64], expected: Option<&[i64]>| {
            assert_eq!(reshaped(from, strides, to).as_deref(), expected, "{from:?} {to:?}");
        };
        check(&[6], &[1], &[2, 3], Some(&[3, 1]));
        check(&[2, 3], &[3, 1], &[6], Some(&[1]));
        check(&[2, 3], &[1, 2], &[6], None);
        check(&[2, 3, 4], &[4, 8, 1], &[2, 12], None);
        check(&[2, 3, 4], &[12, 4, 1], &[6, 4], Some(&[4, 1]));
        check(&[4, 6], &[1, 4], &[2, 2, 3, 2], Some(&[2, 1, 8, 4]));
        check(&[4, 6], &[1, 4], &[1, 4, 1, 6], Some(&[0, 1, 0, 4]));
        check(&[2, 2], &[0, 0], &[4], Some(&[0]));
        check(&[4, 3], &[3, 1], &[6, 2], Some(&[2, 1]));
        check(&[4, 3], &[6, 1], &[6, 2], None);
        check(&[2, 2, 3], &[0, 3, 1], &[2, 6], Some(&[0, 1]));
    }
}
