//! Arrays joined, cut, repeated and padded.

use super::elementwise::broadcast_value;
use super::shape::axis;
use super::{Array, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, TensorType, ValueId, ops};
use std::borrow::Borrow;

/// What [`Array::pad`] puts at the edges.
#[derive(Clone, Debug)]
pub enum PadMode {
    /// A number, or a rank-0 array.
    Constant(Operand),
    /// The element at the edge.
    Edge,
    /// The elements mirrored at the edge element, which is not repeated.
    Reflect,
    /// The elements mirrored at the edge, the edge element repeated.
    Symmetric,
    /// The elements from the other end.
    Wrap,
}

/// Into how many parts, or at which positions, [`Array::split`] cuts.
pub trait IntoCuts {
    /// The limits of the parts along an axis of this extent; the last is the extent.
    fn into_limits(self, extent: u64) -> Result<Vec<u64>, String>;
}

impl IntoCuts for u64 {
    fn into_limits(self, extent: u64) -> Result<Vec<u64>, String> {
        match extent.checked_rem(self) {
            Some(0) => Ok((1..=self).map(|n| extent / self * n).collect()),
            _ => Err(format!("split: {extent} elements do not make {self} equal parts")),
        }
    }
}

impl IntoCuts for &[u64] {
    fn into_limits(self, extent: u64) -> Result<Vec<u64>, String> {
        let limits: Vec<u64> = self.iter().copied().chain([extent]).collect();
        match limits.is_sorted() {
            true => Ok(limits),
            false => Err(format!("split: {self:?} are no ascending positions within {extent}")),
        }
    }
}

impl<const N: usize> IntoCuts for [u64; N] {
    fn into_limits(self, extent: u64) -> Result<Vec<u64>, String> {
        self[..].into_limits(extent)
    }
}

/// The element type that all arrays promote to.
fn common_type(arrays: &[&Array]) -> DType {
    let types = arrays.iter().map(|array| array.dtype());
    types.reduce(super::promote).unwrap_or(DType::F32)
}

/// Values joined along an axis, those without elements left out.
fn joined(b: &mut Builder<'_>, parts: &[ValueId], axis: usize) -> Result<ValueId, String> {
    let some: Vec<ValueId> =
        parts.iter().copied().filter(|&part| b.ty(part).shape[axis] > 0).collect();
    match &some[..] {
        [] => Ok(parts[0]),
        some => b.concatenate(some, axis),
    }
}

impl Array {
    /// Arrays joined along an axis; their other extents are equal, their types are promoted.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let (x, y) = (Array::zeros([2, 3]), Array::ones([2, 1]));
    /// assert_eq!(Array::concatenate([&x, &y], -1).shape(), [2, 4]);
    /// # Array::concatenate([&x, &y], -1).ok()?;
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn concatenate<A: Borrow<Array>>(arrays: impl AsRef<[A]>, along: i64) -> Array {
        let arrays: Vec<&Array> = arrays.as_ref().iter().map(Borrow::borrow).collect();
        let dtype = common_type(&arrays);
        trace::one(&arrays, Place::here(), |b, x| {
            let first = x.first().ok_or("concatenate: there are no arrays")?;
            let along = axis(along, b.ty(*first).rank())?;
            let mut parts = Vec::with_capacity(x.len());
            for &part in x {
                parts.push(b.convert(part, dtype)?);
            }
            b.concatenate(&parts, along)
        })
    }

    /// Arrays of one shape along a new axis, which stands at this position of the result.
    #[track_caller]
    pub fn stack<A: Borrow<Array>>(arrays: impl AsRef<[A]>, along: i64) -> Array {
        let arrays: Vec<&Array> = arrays.as_ref().iter().map(Borrow::borrow).collect();
        let dtype = common_type(&arrays);
        trace::one(&arrays, Place::here(), |b, x| {
            let first = x.first().ok_or("stack: there are no arrays")?;
            let shape = b.ty(*first).shape;
            let along = axis(along, shape.len() + 1)?;
            let mut parts = Vec::with_capacity(x.len());
            for &part in x {
                if b.ty(part).shape != shape {
                    let (one, other) = (b.ty(*first), b.ty(part));
                    return Err(format!("stack: the shapes of {one} and {other} differ"));
                }
                let part = b.convert(part, dtype)?;
                parts.push(super::reduce::with_axes(b, part, &[along])?);
            }
            b.concatenate(&parts, along)
        })
    }

    /// The array cut along an axis: into so many equal parts, or at these positions.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::arange(6);
    /// assert_eq!(x.split(3, 0)[1].to_vec::<i32>()?, [2, 3]);
    /// assert_eq!(x.split([1, 4], 0)[2].to_vec::<i32>()?, [4, 5]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self, cuts: impl IntoCuts, along: i64) -> Vec<Array> {
        let place = Place::here();
        let limits = axis(along, self.rank())
            .and_then(|along| Ok((along, cuts.into_limits(self.shape()[along])?)));
        let (along, limits) = match limits {
            Ok(limits) => limits,
            Err(message) => return vec![trace::one(&[self], place, |_, _| Err(message))],
        };
        trace::record(&[self], limits.len(), place, |b, x| {
            let mut start = 0;
            let mut parts = Vec::with_capacity(limits.len());
            for &limit in &limits {
                parts.push(b.slice_axis(x[0], along, start, limit)?);
                start = limit;
            }
            Ok(parts)
        })
    }

    /// Each element `times` times in succession along an axis.
    #[track_caller]
    pub fn repeat(&self, times: u64, along: i64) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let along = axis(along, rank)?;
            let mut shape = b.ty(x[0]).shape;
            shape[along] = shape[along].checked_mul(times).ok_or("repeat: too many elements")?;
            let repeated = b.repeat(x[0], along + 1, times)?;
            b.reshape(repeated, &shape)
        })
    }

    /// The array `times[n]` times in succession along each axis, aligned at the last one.
    #[track_caller]
    pub fn tile(&self, times: impl super::IntoShape) -> Array {
        let times = times.into_shape();
        trace::one(&[self], Place::here(), |b, x| {
            let shape = b.ty(x[0]).shape;
            let rank = shape.len().max(times.len());
            let filled = |list: &[u64]| {
                let mut filled = vec![1; rank - list.len()];
                filled.extend_from_slice(list);
                filled
            };
            let (shape, times) = (filled(&shape), filled(&times));
            let between: Vec<u64> =
                times.iter().zip(&shape).flat_map(|(&times, &extent)| [times, extent]).collect();
            let axes: Vec<usize> = (0..rank).map(|axis| 2 * axis + 1).collect();
            let tiled = b.reshape(x[0], &shape)?;
            let tiled = b.broadcast_in_dim(tiled, &between, &axes)?;
            let shape: Vec<u64> = between.chunks(2).map(|pair| pair[0] * pair[1]).collect();
            b.reshape(tiled, &shape)
        })
    }

    /// The array with `widths[n].0` elements before axis `n` and `widths[n].1` after it; one pair
    /// stands for all axes.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// use jaxrs::array::PadMode;
    /// let x = Array::from_vec(vec![1, 2, 3]);
    /// assert_eq!(x.pad(&[(1, 2)], PadMode::Constant(0.into())).to_vec::<i32>()?, [0, 1, 2, 3, 0, 0]);
    /// assert_eq!(x.pad(&[(2, 1)], PadMode::Reflect).to_vec::<i32>()?, [3, 2, 1, 2, 3, 2]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, widths: &[(u64, u64)], mode: PadMode) -> Array {
        let place = Place::here();
        let rank = self.rank();
        let widths = match widths {
            [all] if rank != 1 => vec![*all; rank],
            _ => widths.to_vec(),
        };
        let counted = move || match widths.len() == rank {
            true => Ok(widths),
            false => Err(format!("pad: {} pairs of widths for {rank} axes", widths.len())),
        };
        if let PadMode::Constant(value) = mode {
            let value = value.into_array(self.dtype(), place);
            return trace::one(&[self, &value], place, |b, x| {
                let widths = counted()?;
                let dtype = b.ty(x[0]).dtype;
                let value = b.convert(x[1], dtype)?;
                let value = broadcast_value(b, value, &[])?;
                let low: Vec<i64> = widths.iter().map(|width| width.0 as i64).collect();
                let high: Vec<i64> = widths.iter().map(|width| width.1 as i64).collect();
                b.pad(x[0], value, &low, &high, &vec![0; rank])
            });
        }
        trace::one(&[self], place, |b, x| {
            let mut padded = x[0];
            for (axis, &(low, high)) in counted()?.iter().enumerate() {
                padded = pad_axis(b, padded, axis, (low, high), &mode)?;
            }
            Ok(padded)
        })
    }
}

/// One axis padded with elements of the value.
fn pad_axis(
    b: &mut Builder<'_>,
    x: ValueId,
    axis: usize,
    (low, high): (u64, u64),
    mode: &PadMode,
) -> Result<ValueId, String> {
    let ty = b.ty(x);
    let extent = ty.shape[axis];
    if low == 0 && high == 0 {
        return Ok(x);
    }
    if extent == 0 {
        return Err(format!("pad: axis {axis} of {ty} has no element to repeat"));
    }
    if let PadMode::Edge = mode {
        let mut parts = Vec::new();
        let edge = |b: &mut Builder<'_>, at: u64, width: u64| {
            let element = b.slice_axis(x, axis, at, at + 1)?;
            let mut shape = ty.shape.clone();
            shape[axis] = width;
            broadcast_value(b, element, &shape)
        };
        parts.push(edge(b, 0, low)?);
        parts.push(x);
        parts.push(edge(b, extent - 1, high)?);
        return joined(b, &parts, axis);
    }
    // Whole periods of the extended sequence, of which the padded axis is a slice.
    let (period, step) = match mode {
        PadMode::Reflect if extent == 1 => (x, 1),
        PadMode::Reflect => {
            let back = b.slice_axis(x, axis, 1, extent - 1)?;
            let back = b.one(ops::Reverse { axes: vec![axis] }, &[back])?;
            (joined(b, &[x, back], axis)?, 2 * extent - 2)
        }
        PadMode::Symmetric => {
            let back = b.one(ops::Reverse { axes: vec![axis] }, &[x])?;
            (joined(b, &[x, back], axis)?, 2 * extent)
        }
        PadMode::Wrap | PadMode::Edge | PadMode::Constant(_) => (x, extent),
    };
    let before = low.div_ceil(step);
    let after = (extent + high).div_ceil(step);
    let too_large = || format!("pad: axis {axis} of {ty} is too large");
    let all = before.checked_add(after).ok_or_else(too_large)?;
    let mut shape = b.ty(period).shape;
    TensorType::checked("pad", vec![all, ty.len(), 2], ty.dtype)?;
    let start = before * step - low;
    let repeated = b.repeat(period, axis, all)?;
    shape[axis] *= all;
    let repeated = b.reshape(repeated, &shape)?;
    b.slice_axis(repeated, axis, start, start + low + extent + high)
}
