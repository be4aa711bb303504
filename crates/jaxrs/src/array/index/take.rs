//! Elements at computed positions, by name of an axis.

use super::Index;
use super::at::{Mode, fill_value};
use super::windows::{from_start, position_type, within};
use crate::array::elementwise::{broadcast_shapes, broadcast_value};
use crate::array::shape::axis;
use crate::array::{Array, IntoShape, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::{DType, TensorType, ops};
use jaxrs_kernel::Compare;

impl Array {
    /// The parts at these positions of an axis, in the shape of the positions. Of positions out of
    /// range the parts are NaN (of integers the least, of unsigned ones the greatest).
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::arange(6).reshape([2, 3]);
    /// let at = Array::from_vec(vec![2, 0, -1]);
    /// assert_eq!(x.take(&at, 1).to_vec::<i32>()?, [2, 0, 2, 5, 3, 5]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, positions: &Array, along: i64) -> Array {
        let place = Place::here();
        let along = match axis(along, self.rank()) {
            Ok(along) => along,
            Err(message) => return trace::one(&[self], place, |_, _| Err(message)),
        };
        let mut indices = vec![Index::from(..); along];
        indices.push(positions.into());
        self.at(indices).mode(Mode::Fill(None)).get()
    }

    /// For each position the element there along an axis; on the other axes array and positions
    /// broadcast. Positions out of range give what [`Array::take`] gives.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::from_slice(&[3, 1, 2, 5, 6, 4], [2, 3]);
    /// assert_eq!(x.take_along_axis(&x.argsort(1), 1).to_vec::<i32>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn take_along_axis(&self, positions: &Array, along: i64) -> Array {
        trace::one(&[self, positions], Place::here(), |b, values| {
            let (ty, given) = (b.ty(values[0]), b.ty(values[1]));
            if !given.dtype.is_int() || ty.rank() != given.rank() {
                return Err(format!("take_along_axis: {given} are no positions in {ty}"));
            }
            let along = axis(along, ty.rank())?;
            let (mut shape, mut other) = (ty.shape.clone(), given.shape.clone());
            let (extent, count) = (shape[along], other[along]);
            (shape[along], other[along]) = (1, 1);
            let Some(mut shape) = broadcast_shapes(&shape, &other) else {
                return Err(format!("take_along_axis: {ty} and {given} do not broadcast"));
            };
            shape[along] = extent;
            let x = broadcast_value(b, values[0], &shape)?;
            shape[along] = count;
            let dtype = position_type(&ty.shape, [given.dtype]);
            let positions = from_start(b, values[1], extent, dtype)?;
            let positions = broadcast_value(b, positions, &shape)?;
            let result = TensorType::new(shape, ty.dtype);
            let fill = fill_value(b, None, &result)?;
            if extent == 0 {
                return Ok(fill);
            }
            let inside = within(b, positions, extent)?;
            let elements = b.take_along(x, positions, along)?;
            b.select(inside, elements, fill)
        })
    }

    /// A window of this shape from computed positions, which are clamped so that the window stays
    /// inside; negative ones count from the end.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::arange(12).reshape([3, 4]);
    /// let row = Array::scalar(2i32);
    /// assert_eq!(x.dynamic_slice(i![&row, 1], [1, 2]).to_vec::<i32>()?, [9, 10]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn dynamic_slice(&self, starts: impl AsRef<[Index]>, sizes: impl IntoShape) -> Array {
        let place = Place::here();
        let starts = positions(starts.as_ref(), self.shape(), place);
        let operands: Vec<&Array> = [self].into_iter().chain(&starts).collect();
        let sizes = sizes.into_shape();
        trace::one(&operands, place, |b, values| {
            let shape = b.ty(values[0]).shape;
            let operands = placed(b, values, 1, &shape)?;
            b.one(ops::DynamicSlice { sizes }, &operands)
        })
    }

    /// The array with a window replaced by `update`, at computed positions, which are clamped so
    /// that the window stays inside; negative ones count from the end.
    #[track_caller]
    pub fn dynamic_update_slice(&self, update: &Array, starts: impl AsRef<[Index]>) -> Array {
        let place = Place::here();
        let starts = positions(starts.as_ref(), self.shape(), place);
        let operands: Vec<&Array> = [self, update].into_iter().chain(&starts).collect();
        trace::one(&operands, place, |b, values| {
            let ty = b.ty(values[0]);
            let mut operands = placed(b, values, 2, &ty.shape)?;
            operands[1] = b.convert(operands[1], ty.dtype)?;
            b.one(ops::DynamicUpdateSlice, &operands)
        })
    }

    /// For each integer a new last axis of `count` elements: 1 at its position, else 0, as `f32`.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::from_vec(vec![1, 0]);
    /// assert_eq!(x.one_hot(3).to_vec::<f32>()?, [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn one_hot(&self, count: u64) -> Array {
        trace::one(&[self], Place::here(), |b, x| {
            let ty = b.ty(x[0]);
            let last = ty.rank();
            let repeated = b.repeat(x[0], last, count)?;
            let count = b.ty(repeated);
            // Classes beyond those that the element type has do not occur.
            let class = b.iota(&count.with_dtype(DType::I64), last)?;
            let given = b.convert(repeated, DType::I64)?;
            let hit = b.compare(Compare::Eq, given, class)?;
            b.convert(hit, DType::F32)
        })
    }

    /// How often each of `0, 1, ..., length - 1` occurs, as `i32`; others are not counted but
    /// negative ones, which count as 0.
    #[track_caller]
    pub fn bincount(&self, length: u64) -> Array {
        let place = Place::here();
        trace::whole(&[self], place, |x| {
            let positions = x[0].ravel().maximum(0);
            Array::full_of([length], 0, DType::I32).at([Index::from(&positions)]).add(1)
        })
    }

    /// The sums of the parts along the first axis that have the same number in `segments`, for
    /// each of `0, 1, ..., count - 1`.
    #[track_caller]
    pub fn segment_sum(&self, segments: &Array, count: u64) -> Array {
        let place = Place::here();
        trace::whole(&[self, segments], place, |x| {
            let mut shape = x[0].shape().to_vec();
            if let Some(first) = shape.first_mut() {
                *first = count;
            }
            let zeros = Array::full_of(shape, 0, x[0].dtype());
            zeros.at([Index::from(&x[1])]).add(&x[0])
        })
    }

    /// For each query the position in this sorted array of one axis before which it would stand:
    /// before equal elements, or after them if `right`. NaN is the greatest.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::from_vec(vec![1.0f32, 2.0, 2.0, 5.0]);
    /// let queries = Array::from_vec(vec![2.0f32, 9.0]);
    /// assert_eq!(x.searchsorted(&queries, false).to_vec::<i32>()?, [1, 4]);
    /// assert_eq!(x.searchsorted(&queries, true).to_vec::<i32>()?, [3, 4]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, queries: &Array, right: bool) -> Array {
        let place = Place::here();
        if self.rank() != 1 {
            let message = format!("searchsorted: {} has not one axis", self.ty());
            return trace::one(&[self, queries], place, |_, _| Err(message));
        }
        let dtype = crate::array::promote(self.dtype(), queries.dtype());
        trace::whole(&[self, queries], place, |x| {
            let (sorted, queries) = (x[0].astype(dtype), x[1].astype(dtype));
            let n = sorted.len();
            let mut low = queries.zeros_like().astype(DType::I32);
            // Before `low` all stand before the query; from `high` on none does.
            let mut high = low.clone() + i64::try_from(n).unwrap_or(i64::MAX);
            for _ in 0..u64::BITS - n.leading_zeros() {
                let middle = (&low + &high).shift_right_logical(1);
                let element = sorted.at([Index::from(&middle)]).get();
                let before = if right { element.le(&queries) } else { element.lt(&queries) };
                let before = if dtype.is_float() {
                    let (nan, other) = (queries.isnan(), element.isnan());
                    let beside = if right { nan } else { nan & !other };
                    before | beside
                } else {
                    before
                };
                let before = before & low.lt(&high);
                (low, high) = (before.where_(&middle + 1, &low), before.where_(&high, &middle));
            }
            low
        })
    }
}

/// Positions, one for each axis, as arrays of rank 0.
fn positions(starts: &[Index], shape: &[u64], place: Place) -> Vec<Array> {
    let dtype = position_type(shape, []);
    let one = |index: &Index| match index {
        Index::Array(array) => array.clone(),
        Index::At(at) => Operand::Int(*at).into_array(dtype, place),
        Index::Range { .. } | Index::Ellipsis | Index::NewAxis => {
            let message = "the start of a window is one position in each axis".to_string();
            trace::one(&[], place, |_, _| Err(message))
        }
    };
    starts.iter().map(one).collect()
}

/// The values with the positions, from the value of this number on, counted from the start.
fn placed(
    b: &mut jaxrs_ir::builder::Builder<'_>,
    values: &[jaxrs_ir::ValueId],
    from: usize,
    shape: &[u64],
) -> Result<Vec<jaxrs_ir::ValueId>, String> {
    if values.len() - from != shape.len() {
        return Err(format!("{} positions for {} axes", values.len() - from, shape.len()));
    }
    let dtype = position_type(shape, values[from..].iter().map(|&value| b.ty(value).dtype));
    let mut all = values[..from].to_vec();
    for (&value, &extent) in values[from..].iter().zip(shape) {
        if !b.ty(value).dtype.is_int() {
            return Err(format!("a position is {}, expected an integer", b.ty(value)));
        }
        all.push(from_start(b, value, extent, dtype)?);
    }
    Ok(all)
}
