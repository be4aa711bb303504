//! Tensors made of another one's elements in other places.

use crate::literal::Literal;
use crate::types::{TensorType, advance};

/// A tensor of type `ty` whose element at an index is `from`'s at the index that `map` gives.
pub fn rearrange(from: &Literal, ty: &TensorType, map: impl Fn(&[u64]) -> Vec<u64>) -> Literal {
    if let Some(element) = from.as_splat() {
        return Literal::splat(ty.clone(), element);
    }
    let size = ty.dtype.size() as usize;
    let (bytes, strides) = (from.bytes(), from.ty().strides());
    let mut out = Vec::with_capacity(ty.bytes() as usize);
    let mut index = vec![0; ty.rank()];
    for _ in 0..ty.len() {
        let at: u64 = map(&index).iter().zip(&strides).map(|(i, s)| i * s).sum();
        let at = at as usize * size;
        out.extend_from_slice(&bytes[at..at + size]);
        advance(&mut index, &ty.shape);
    }
    Literal::dense(ty.clone(), out)
}

/// A tensor of type `ty` whose element at an index is `from`'s at position `start` plus the index
/// times `steps`; every such position is one of `from`'s.
pub fn strided(from: &Literal, ty: &TensorType, start: i64, steps: &[i64]) -> Literal {
    if let Some(element) = from.as_splat() {
        return Literal::splat(ty.clone(), element);
    }
    let size = ty.dtype.size() as usize;
    let bytes = from.bytes();
    let mut out = Vec::with_capacity(ty.bytes() as usize);
    let mut index = vec![0; ty.rank()];
    let mut position = start;
    for _ in 0..ty.len() {
        let at = position as usize * size;
        out.extend_from_slice(&bytes[at..at + size]);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            position += steps[axis];
            if index[axis] < ty.shape[axis] {
                break;
            }
            position -= steps[axis] * index[axis] as i64;
            index[axis] = 0;
        }
    }
    Literal::dense(ty.clone(), out)
}

/// The rank-0 integer `value` clamped to `[0, high]`.
pub fn start_index(value: &Literal, high: u64) -> u64 {
    value.wide_int(0).clamp(0, i128::from(high)) as u64
}
