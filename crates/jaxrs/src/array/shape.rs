//! Shapes and axes, and operations on them.

use super::Array;
use crate::error::Place;
use crate::trace;

/// What names a shape: an extent, or a list of them.
pub trait IntoShape {
    /// The extents.
    fn into_shape(self) -> Vec<u64>;
}

impl IntoShape for u64 {
    fn into_shape(self) -> Vec<u64> {
        vec![self]
    }
}

impl IntoShape for &[u64] {
    fn into_shape(self) -> Vec<u64> {
        self.to_vec()
    }
}

impl IntoShape for &Vec<u64> {
    fn into_shape(self) -> Vec<u64> {
        self.clone()
    }
}

impl IntoShape for Vec<u64> {
    fn into_shape(self) -> Vec<u64> {
        self
    }
}

impl<const N: usize> IntoShape for [u64; N] {
    fn into_shape(self) -> Vec<u64> {
        self.to_vec()
    }
}

impl<const N: usize> IntoShape for &[u64; N] {
    fn into_shape(self) -> Vec<u64> {
        self.to_vec()
    }
}

/// What names axes: one, a list, or `..` for all; negative ones count from the last.
pub trait IntoAxes {
    /// The axes of an array of this rank, each once; an error names the axis that it lacks.
    fn into_axes(self, rank: usize) -> Result<Vec<usize>, String>;
}

/// The axis that a number names.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let from_end = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(from_end)
        .ok()
        .filter(|&n| n < rank)
        .ok_or_else(|| format!("there is no axis {axis} of {rank}"))
}

impl IntoAxes for std::ops::RangeFull {
    fn into_axes(self, rank: usize) -> Result<Vec<usize>, String> {
        Ok((0..rank).collect())
    }
}

impl IntoAxes for i64 {
    fn into_axes(self, rank: usize) -> Result<Vec<usize>, String> {
        Ok(vec![axis(self, rank)?])
    }
}

impl IntoAxes for &[i64] {
    fn into_axes(self, rank: usize) -> Result<Vec<usize>, String> {
        let mut axes = Vec::with_capacity(self.len());
        for &n in self {
            let n = axis(n, rank)?;
            if axes.contains(&n) {
                return Err(format!("axis {n} is named twice"));
            }
            axes.push(n);
        }
        Ok(axes)
    }
}

impl<const N: usize> IntoAxes for [i64; N] {
    fn into_axes(self, rank: usize) -> Result<Vec<usize>, String> {
        self[..].into_axes(rank)
    }
}

impl Array {
    /// The elements, row-major, in another shape of as many.
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoShape) -> Array {
        let shape = shape.into_shape();
        trace::one(&[self], Place::here(), |b, x| b.reshape(x[0], &shape))
    }

    /// The array repeated to a shape, aligned at the last axis; axes of extent 1 repeat.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl IntoShape) -> Array {
        let shape = shape.into_shape();
        trace::one(&[self], Place::here(), |b, x| {
            super::elementwise::broadcast_value(b, x[0], &shape)
        })
    }

    /// Result axis `n` is axis `axes[n]`; `..` reverses the axes.
    #[track_caller]
    pub fn transpose(&self, axes: impl IntoAxes + 'static) -> Array {
        let reverse =
            std::any::Any::type_id(&axes) == std::any::TypeId::of::<std::ops::RangeFull>();
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let mut order = axes.into_axes(rank)?;
            if reverse {
                order.reverse();
            }
            b.transpose(x[0], &order)
        })
    }
}
