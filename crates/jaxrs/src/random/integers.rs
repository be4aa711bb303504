//! Integers, permutations and choices.

use super::bits;
use crate::array::{Array, IntoShape};
use crate::error::{Error, Place};
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, Literal, TensorType, ValueId, ops};
use jaxrs_kernel::Compare;

/// `i32` in `[low, high)`; where that is empty, `low`.
#[track_caller]
pub fn randint(key: &Array, shape: impl IntoShape, low: i32, high: i32) -> Array {
    let shape = shape.into_shape();
    trace::one(&[key], Place::here(), |b, key| {
        let keys = bits::split(b, key[0], &[2])?;
        let mut draw = |at| {
            let key = bits::half(b, keys, at)?;
            bits::random(b, key, &shape, DType::U32)
        };
        let (high_bits, low_bits) = (draw(0)?, draw(1)?);
        let span = if high <= low { 1 } else { high.wrapping_sub(low) as u32 };
        let word = (1 << 16) % span;
        let factor = word.wrapping_mul(word) % span;
        let ty = TensorType::new(shape.clone(), DType::U32);
        let mut full = |value: u32| b.constant(Literal::splat(ty.clone(), &value.to_le_bytes()));
        let (span, factor) = (full(span)?, full(factor)?);
        let remainder =
            |b: &mut Builder<'_>, x: ValueId| b.elementwise("stablehlo.remainder", &[x, span]);
        let upper = remainder(b, high_bits)?;
        let upper = b.multiply(upper, factor)?;
        let lower = remainder(b, low_bits)?;
        let sum = b.add(upper, lower)?;
        let offset = remainder(b, sum)?;
        let offset = b.convert(offset, DType::I32)?;
        let low = b.full_like(offset, f64::from(low))?;
        b.add(low, offset)
    })
}

/// The slices along the first axis in random order.
#[track_caller]
pub fn permutation(key: &Array, x: &Array) -> Array {
    if x.rank() == 1 {
        return trace::one(&[key, x], Place::here(), |b, v| shuffled(b, v[0], v[1]));
    }
    let Some(&rows) = x.shape().first() else {
        let error = Error::new("permutation: the array has no axis", Place::here());
        return Array::failed(x.ty().clone(), error.note("for 0..n use permutation_of"));
    };
    x.take(&permutation_of(key, rows), 0)
}

/// `0, 1, ..., n - 1` in random order, as `i32`.
#[track_caller]
pub fn permutation_of(key: &Array, n: u64) -> Array {
    trace::one(&[key], Place::here(), |b, key| {
        let positions = b.iota(&TensorType::new([n], DType::I32), 0)?;
        shuffled(b, key[0], positions)
    })
}

/// A vector in random order: sorted by random keys, so often that ties do not matter.
fn shuffled(b: &mut Builder<'_>, mut key: ValueId, x: ValueId) -> Result<ValueId, String> {
    let ty = b.ty(x);
    let rounds = 3.0 * (ty.len().max(1) as f64).ln() / f64::from(u32::MAX).ln();
    let mut x = x;
    for _ in 0..rounds.ceil() as u32 {
        let keys = bits::split(b, key, &[2])?;
        key = bits::half(b, keys, 0)?;
        let drawn = bits::half(b, keys, 1)?;
        let order = bits::random(b, drawn, &ty.shape, DType::U32)?;
        let (word, element) = (TensorType::scalar(DType::U32), TensorType::scalar(ty.dtype));
        let less = b.region(&[word.clone(), word, element.clone(), element], |b, x| {
            Ok(vec![b.compare(Compare::Lt, x[0], x[1])?])
        })?;
        x = b.push(ops::Sort { axis: 0, stable: true }, &[order, x], &[less])?[1];
    }
    Ok(x)
}

/// Slices along the first axis, drawn with or without replacement, all equally likely.
#[track_caller]
pub fn choice(key: &Array, x: &Array, shape: impl IntoShape, replace: bool) -> Array {
    let (shape, place) = (shape.into_shape(), Place::here());
    let Some(&rows) = x.shape().first() else {
        let error = Error::new("choice: the array has no axis", place);
        return Array::failed(x.ty().clone(), error);
    };
    let drawn: u64 = shape.iter().product();
    let wrong = if rows == 0 && drawn > 0 {
        Some("choice: there is nothing to draw from".to_string())
    } else if !replace && drawn > rows {
        Some(format!("choice: {drawn} cannot be drawn of {rows} without replacement"))
    } else {
        None
    };
    if let Some(message) = wrong {
        return Array::failed(x.ty().clone(), Error::new(message, place));
    }
    if replace {
        return x.take(&randint(key, shape, 0, rows as i32), 0);
    }
    let rest = x.shape()[1..].to_vec();
    let mixed = permutation(key, x);
    let first = trace::one(&[&mixed], place, |b, v| b.slice_axis(v[0], 0, 0, drawn));
    first.reshape([shape, rest].concat())
}
