//! Operands of contractions that are other tensors' elements in another order: the library reads
//! those with strides, so that no transposed copy is made.

use jaxrs_ir::{Function, Op, TensorType, ValueId};

/// A value as elements of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Strided {
    /// The value that is memory.
    pub base: ValueId,
    /// For each axis of the value, the distance in the base's elements.
    pub strides: Vec<i64>,
}

/// The value through the transposes, reshapes and repetitions that make it, as far as strides can
/// say.
pub(super) fn strided(f: &Function, value: ValueId) -> Strided {
    let mut chain = vec![value];
    let mut best = Strided { base: value, strides: dense(f.ty(value)) };
    while let Some(operand) = moved(f, chain[chain.len() - 1]) {
        chain.push(operand);
        match along(f, &chain) {
            Some(strides) => best = Strided { base: operand, strides },
            None => break,
        }
    }
    best
}

fn dense(ty: &TensorType) -> Vec<i64> {
    ty.strides().into_iter().map(|s| s as i64).collect()
}

/// The operand of an op that only moves or repeats elements.
fn moved(f: &Function, value: ValueId) -> Option<ValueId> {
    let data = &f.ops[f.defining_op(value)?];
    match data.op {
        Op::Transpose(_) | Op::Reshape(_) | Op::BroadcastInDim(_) => Some(data.operands[0]),
        _ => None,
    }
}

/// The first value's strides in the last one's memory.
fn along(f: &Function, chain: &[ValueId]) -> Option<Vec<i64>> {
    let mut strides = dense(f.ty(*chain.last()?));
    for pair in chain.windows(2).rev() {
        let (value, operand) = (pair[0], pair[1]);
        let (to, from) = (&f.ty(value).shape, &f.ty(operand).shape);
        strides = match &f.ops[f.defining_op(value)?].op {
            Op::Transpose(t) => t.permutation.iter().map(|&axis| strides[axis]).collect(),
            Op::BroadcastInDim(b) => {
                let mut out = vec![0; to.len()];
                for ((&axis, &extent), &stride) in b.axes.iter().zip(from).zip(&strides) {
                    if extent != 1 {
                        out[axis] = stride;
                    }
                }
                out
            }
            Op::Reshape(_) => reshaped(from, &strides, to)?,
            _ => return None,
        };
    }
    Some(strides)
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
