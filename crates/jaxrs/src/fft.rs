//! Fourier transforms, in the conventions of `jax.numpy.fft`: the forward transform is not scaled,
//! the inverse one by `1 / n`. Real numbers become `complex<f32>` (`f64`: `complex<f64>`).
//!
//! ```
//! use jaxrs::{fft, prelude::*};
//! let x = Array::from_vec(vec![1.0f32, 2.0, 3.0, 4.0]);
//! let there_and_back = fft::irfft(&fft::rfft(&x, -1), 4, -1);
//! assert!((there_and_back - x).abs().max(..).item::<f32>()? < 1e-6);
//! # Ok::<(), jaxrs::Error>(())
//! ```

use crate::array::Array;
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, ValueId, ops};
use jaxrs_kernel::program::FftKind;

/// The types in which a transform of this one is computed: real and complex.
fn types(dtype: DType) -> [DType; 2] {
    match dtype {
        DType::F64 | DType::C128 => [DType::F64, DType::C128],
        _ => [DType::F32, DType::C64],
    }
}

/// The transform of the last axes.
fn last_axes(
    b: &mut Builder<'_>,
    x: ValueId,
    kind: FftKind,
    lengths: Vec<u64>,
) -> Result<ValueId, String> {
    let [real, complex] = types(b.ty(x).dtype);
    let from = if kind == FftKind::RealForward { real } else { complex };
    let x = if b.ty(x).dtype.is_complex() && !from.is_complex() {
        return Err(format!("rfft takes real numbers, not {}", b.ty(x).dtype));
    } else {
        b.convert(x, from)?
    };
    b.one(ops::Fft { kind, lengths }, &[x])
}

/// The transform along one axis, which `length` says of the real side.
fn along(x: &Array, axis: i64, kind: FftKind, length: Option<u64>, place: Place) -> Array {
    trace::one(&[x], place, |b, values| {
        let rank = b.ty(values[0]).rank();
        let axis = crate::array::axis_of(axis, rank)?;
        let moved = b.move_axis(values[0], axis, rank - 1)?;
        let length = length.unwrap_or(b.ty(moved).shape[rank - 1]);
        let done = last_axes(b, moved, kind, vec![length])?;
        b.move_axis(done, rank - 1, axis)
    })
}

/// The transform of the last `count` axes.
fn over(x: &Array, count: usize, kind: FftKind, place: Place) -> Array {
    trace::one(&[x], place, |b, values| {
        let shape = b.ty(values[0]).shape;
        let first = shape
            .len()
            .checked_sub(count)
            .ok_or_else(|| format!("fft: {} has less than {count} axes", b.ty(values[0])))?;
        last_axes(b, values[0], kind, shape[first..].to_vec())
    })
}

/// The transform along an axis.
#[track_caller]
pub fn fft(x: &Array, axis: i64) -> Array {
    along(x, axis, FftKind::Forward, None, Place::here())
}

/// The inverse of [`fft`].
#[track_caller]
pub fn ifft(x: &Array, axis: i64) -> Array {
    along(x, axis, FftKind::Inverse, None, Place::here())
}

/// The transform of real numbers along an axis: the first `n / 2 + 1` of its elements, which the
/// others mirror.
#[track_caller]
pub fn rfft(x: &Array, axis: i64) -> Array {
    along(x, axis, FftKind::RealForward, None, Place::here())
}

/// The inverse of [`rfft`], `length` real numbers.
#[track_caller]
pub fn irfft(x: &Array, length: u64, axis: i64) -> Array {
    along(x, axis, FftKind::RealInverse, Some(length), Place::here())
}

/// The transform of the last two axes.
#[track_caller]
pub fn fft2(x: &Array) -> Array {
    over(x, 2, FftKind::Forward, Place::here())
}

/// The inverse of [`fft2`].
#[track_caller]
pub fn ifft2(x: &Array) -> Array {
    over(x, 2, FftKind::Inverse, Place::here())
}

/// The transform of the last `count` axes, at most 3.
#[track_caller]
pub fn fftn(x: &Array, count: usize) -> Array {
    over(x, count, FftKind::Forward, Place::here())
}

/// The inverse of [`fftn`].
#[track_caller]
pub fn ifftn(x: &Array, count: usize) -> Array {
    over(x, count, FftKind::Inverse, Place::here())
}

/// The frequencies of the elements of a transform of `n` samples, `spacing` apart, as `f32`.
#[track_caller]
pub fn fftfreq(n: u64, spacing: f64) -> Array {
    let half = n.div_ceil(2);
    let at = Array::arange(n);
    let signed = at.lt(half as i64).where_(&at, &at - n as i64);
    signed.astype(DType::F32) / (n as f64 * spacing)
}
