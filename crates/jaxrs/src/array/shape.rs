//! Shapes and axes, and operations on them.

use super::Array;
use crate::error::Place;
use crate::trace;
use jaxrs_ir::ops;

/// What names a shape: an extent, or a list of them.
pub trait IntoShape {
    /// The extents.
    fn into_shape(self) -> Vec<u64>;
}

impl IntoShape for () {
    fn into_shape(self) -> Vec<u64> {
        Vec::new()
    }
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

    /// Whether a reduction keeps the axes, with extent 1; see [`keep`].
    fn keeps(&self) -> bool {
        false
    }

    /// Whether they are all axes, without an order.
    fn is_all(&self) -> bool {
        false
    }
}

/// Axes that a reduction keeps, with extent 1: what [`keep`] gives.
#[derive(Clone, Copy, Debug)]
pub struct Keep<A>(A);

/// Axes that a reduction keeps, with extent 1, so that its result broadcasts against its operand:
/// NumPy's `keepdims=True`.
///
/// ```
/// use jaxrs::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 3.0, 2.0, 2.0], [2, 2]);
/// let shares = &x / x.sum(keep(-1));
/// assert_eq!(shares.to_vec::<f32>()?, [0.25, 0.75, 0.5, 0.5]);
/// # Ok::<(), jaxrs::Error>(())
/// ```
pub fn keep<A: IntoAxes>(axes: A) -> Keep<A> {
    Keep(axes)
}

impl<A: IntoAxes> IntoAxes for Keep<A> {
    fn into_axes(self, rank: usize) -> Result<Vec<usize>, String> {
        self.0.into_axes(rank)
    }

    fn keeps(&self) -> bool {
        true
    }

    fn is_all(&self) -> bool {
        self.0.is_all()
    }
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

    fn is_all(&self) -> bool {
        true
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

/// Positions of new axes in a result: one, or a list; negative ones count from its last.
pub trait IntoPositions {
    /// The positions in the result that an array of this rank becomes.
    fn into_positions(self, rank: usize) -> Result<Vec<usize>, String>;
}

impl IntoPositions for i64 {
    fn into_positions(self, rank: usize) -> Result<Vec<usize>, String> {
        self.into_axes(rank + 1)
    }
}

impl IntoPositions for &[i64] {
    fn into_positions(self, rank: usize) -> Result<Vec<usize>, String> {
        self.into_axes(rank + self.len())
    }
}

impl<const N: usize> IntoPositions for [i64; N] {
    fn into_positions(self, rank: usize) -> Result<Vec<usize>, String> {
        self.into_axes(rank + N)
    }
}

impl Array {
    /// The elements, row-major, in another shape of as many.
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoShape) -> Array {
        let shape = shape.into_shape();
        trace::one(&[self], Place::here(), |b, x| b.reshape(x[0], &shape))
    }

    /// The elements, row-major, along one axis.
    #[track_caller]
    pub fn ravel(&self) -> Array {
        self.reshape([self.len()])
    }

    /// The elements, row-major, along one axis; as [`Array::ravel`].
    #[track_caller]
    pub fn flatten(&self) -> Array {
        self.ravel()
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
    pub fn transpose(&self, axes: impl IntoAxes) -> Array {
        let (rank, reverse) = (self.rank(), axes.is_all());
        trace::one(&[self], Place::here(), |b, x| {
            let mut order = axes.into_axes(rank)?;
            if reverse {
                order.reverse();
            }
            b.transpose(x[0], &order)
        })
    }

    /// The array with its axes in reverse.
    #[track_caller]
    pub fn t(&self) -> Array {
        self.transpose(..)
    }

    /// The array with its last two axes exchanged.
    #[track_caller]
    pub fn mt(&self) -> Array {
        self.swap_axes(-1, -2)
    }

    /// The array with two axes exchanged.
    #[track_caller]
    pub fn swap_axes(&self, one: i64, other: i64) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(axis(one, rank)?, axis(other, rank)?);
            b.transpose(x[0], &order)
        })
    }

    /// The array with axes moved to other positions; the others keep their order.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::zeros([2, 3, 4]);
    /// assert_eq!(x.move_axis(0, -1).shape(), [3, 4, 2]);
    /// assert_eq!(x.move_axis([0, 1], [1, 2]).shape(), [4, 2, 3]);
    /// ```
    #[track_caller]
    pub fn move_axis(&self, from: impl IntoAxes, to: impl IntoAxes) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let (from, to) = (from.into_axes(rank)?, to.into_axes(rank)?);
            if from.len() != to.len() {
                return Err(format!("move_axis: {} axes, {} positions", from.len(), to.len()));
            }
            let mut order: Vec<usize> = (0..rank).filter(|axis| !from.contains(axis)).collect();
            let mut moves: Vec<(usize, usize)> = to.into_iter().zip(from).collect();
            moves.sort_unstable();
            moves.into_iter().for_each(|(to, from)| order.insert(to, from));
            b.transpose(x[0], &order)
        })
    }

    /// The array without these axes, which must have extent 1; `..` drops all that have.
    #[track_caller]
    pub fn squeeze(&self, axes: impl IntoAxes) -> Array {
        let (rank, all) = (self.rank(), axes.is_all());
        trace::one(&[self], Place::here(), |b, x| {
            let ty = b.ty(x[0]);
            let mut axes = axes.into_axes(rank)?;
            if all {
                axes.retain(|&axis| ty.shape[axis] == 1);
            }
            if let Some(axis) = axes.iter().find(|&&axis| ty.shape[axis] != 1) {
                return Err(format!("squeeze: axis {axis} of {ty} has not extent 1"));
            }
            let rest = (0..rank).filter(|axis| !axes.contains(axis));
            let shape: Vec<u64> = rest.map(|axis| ty.shape[axis]).collect();
            b.reshape(x[0], &shape)
        })
    }

    /// The array with a new axis of extent 1 at each of these positions of the result.
    #[track_caller]
    pub fn expand_dims(&self, positions: impl IntoPositions) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let positions = positions.into_positions(rank)?;
            super::reduce::with_axes(b, x[0], &positions)
        })
    }

    /// The elements in reverse along axes.
    #[track_caller]
    pub fn flip(&self, axes: impl IntoAxes) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let mut axes = axes.into_axes(rank)?;
            axes.sort_unstable();
            b.one(ops::Reverse { axes }, x)
        })
    }

    /// The elements moved along an axis by `shift`, those that leave coming in at the other end.
    #[track_caller]
    pub fn roll(&self, shift: i64, along: i64) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let along = axis(along, rank)?;
            let extent = b.ty(x[0]).shape[along];
            let Some(by) = (shift as i128).checked_rem_euclid(extent.into()) else {
                return Ok(x[0]);
            };
            let cut = extent - by as u64;
            let first = b.slice_axis(x[0], along, cut, extent)?;
            let second = b.slice_axis(x[0], along, 0, cut)?;
            b.concatenate(&[first, second], along)
        })
    }
}
