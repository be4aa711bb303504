//! Order: the greatest and least positions, sorting, medians.

use super::reduce::{mean_type, select_extreme, spread_over};
use super::shape::axis;
use super::{Array, IntoAxes};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::ops::compare::Order;
use jaxrs_ir::{DType, TensorType, ValueId, ops};
use jaxrs_kernel::Compare;

/// Whether the first of two elements stands before the second: NaN last, -0 and 0 equal.
fn before(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<ValueId, String> {
    if !b.ty(x).dtype.is_float() {
        return b.compare(Compare::Lt, x, y);
    }
    let mut one = |x: ValueId| {
        let (zero, nan) = (b.full_like(x, 0.0)?, b.full_like(x, f64::NAN)?);
        let is_zero = b.compare(Compare::Eq, x, zero)?;
        let value = b.select(is_zero, zero, x)?;
        let is_nan = b.compare(Compare::Ne, x, x)?;
        b.select(is_nan, nan, value)
    };
    let (x, y) = (one(x)?, one(y)?);
    let order = ops::Compare { direction: Compare::Lt, order: Some(Order::Total) };
    b.one(order, &[x, y])
}

/// Values sorted together by the first of them.
fn sorted(b: &mut Builder<'_>, values: &[ValueId], axis: usize) -> Result<Vec<ValueId>, String> {
    let arguments: Vec<TensorType> = values
        .iter()
        .flat_map(|&value| {
            let scalar = TensorType::scalar(b.ty(value).dtype);
            [scalar.clone(), scalar]
        })
        .collect();
    let body = b.region(&arguments, |b, x| Ok(vec![before(b, x[0], x[1])?]))?;
    b.push(ops::Sort { axis, stable: true }, values, &[body])
}

/// The value and its positions along an axis, sorted.
fn sorted_with_positions(
    b: &mut Builder<'_>,
    x: ValueId,
    axis: usize,
) -> Result<Vec<ValueId>, String> {
    let positions = b.ty(x).with_dtype(DType::I32);
    let positions = b.iota(&positions, axis)?;
    sorted(b, &[x, positions], axis)
}

/// The first position along axes of the greatest or least element, or of NaN if there is one.
fn position_of(
    b: &mut Builder<'_>,
    what: &str,
    x: ValueId,
    axes: &[usize],
    all: bool,
) -> Result<ValueId, String> {
    let ty = b.ty(x);
    if axes.len() != 1 && !all {
        return Err(format!("arg{what}: of one axis, or of all by `..`"));
    }
    let found = select_extreme(b, what, x, axes)?;
    let found = spread_over(b, found, axes, &ty.shape)?;
    let mut here = b.compare(Compare::Eq, x, found)?;
    if !ty.dtype.is_int() {
        let is_nan = b.compare(Compare::Ne, x, x)?;
        here = b.elementwise("stablehlo.or", &[here, is_nan])?;
    }
    let counted = ty.with_dtype(DType::I32);
    let positions = match axes {
        [axis] => b.iota(&counted, *axis)?,
        _ => {
            let flat = b.iota(&TensorType::new([ty.len()], DType::I32), 0)?;
            b.reshape(flat, &ty.shape)?
        }
    };
    let none = b.full(&counted, f64::from(i32::MAX))?;
    let candidates = b.select(here, positions, none)?;
    select_extreme(b, "min", candidates, axes)
}

impl Array {
    /// The first position of the greatest element along an axis, or, of `..`, in row-major order,
    /// as `i32`; NaN is greater than any.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::from_slice(&[1.0f32, 3.0, 2.0, 0.0], [2, 2]);
    /// assert_eq!(x.argmax(1).to_vec::<i32>()?, [1, 0]);
    /// assert_eq!(x.argmax(..).item::<i32>()?, 1);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax(&self, axes: impl IntoAxes) -> Array {
        let all = axes.is_all();
        self.reduced(axes, |b, x, axes| position_of(b, "max", x, axes, all))
    }

    /// The first position of the least element along an axis, or, of `..`, in row-major order, as
    /// `i32`; NaN is less than any.
    #[track_caller]
    pub fn argmin(&self, axes: impl IntoAxes) -> Array {
        let all = axes.is_all();
        self.reduced(axes, |b, x, axes| position_of(b, "min", x, axes, all))
    }

    /// The elements in ascending order along an axis, NaN last.
    #[track_caller]
    pub fn sort(&self, along: i64) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| Ok(sorted(b, x, axis(along, rank)?)?[0]))
    }

    /// The elements in descending order along an axis, NaN first.
    #[track_caller]
    pub fn sort_descending(&self, along: i64) -> Array {
        let place = Place::here();
        trace::whole(&[self], place, |x| x[0].sort(along).flip(along))
    }

    /// The positions along an axis of the elements in ascending order, as `i32`; equal elements
    /// keep their order.
    #[track_caller]
    pub fn argsort(&self, along: i64) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            Ok(sorted_with_positions(b, x[0], axis(along, rank)?)?[1])
        })
    }

    /// The positions along an axis of the elements in descending order, as `i32`; equal elements
    /// keep their order.
    #[track_caller]
    pub fn argsort_descending(&self, along: i64) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            // Of the elements in reverse, ascending and stable, then in reverse again.
            let along = axis(along, rank)?;
            let reverse = || ops::Reverse { axes: vec![along] };
            let reversed = b.one(reverse(), x)?;
            let order = sorted_with_positions(b, reversed, along)?[1];
            let order = b.one(reverse(), &[order])?;
            let extent = b.ty(order).shape[along];
            let last = b.full_like(order, extent as f64 - 1.0)?;
            b.subtract(last, order)
        })
    }

    /// The `k` greatest elements along the last axis, in descending order, and their positions,
    /// as `i32`; equal elements keep their order.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let (values, positions) = Array::from_vec(vec![1.0f32, 5.0, 3.0]).top_k(2);
    /// assert_eq!(values.to_vec::<f32>()?, [5.0, 3.0]);
    /// assert_eq!(positions.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn top_k(&self, k: u64) -> (Array, Array) {
        let mut both =
            trace::record(&[self], 2, Place::here(), |b, x| b.push(ops::TopK { k }, x, &[]));
        let positions = both.pop().expect("two results");
        (both.pop().expect("two results"), positions)
    }

    /// The middle element along axes in order, or the mean of the two in the middle; NaN if one
    /// is. Integers as `f32`.
    #[track_caller]
    pub fn median(&self, axes: impl IntoAxes) -> Array {
        self.quantile(0.5, axes)
    }

    /// The element along axes below which the share `q` of the elements lies, interpolated between
    /// the two next to that place; NaN if one is. Integers as `f32`.
    #[track_caller]
    pub fn quantile(&self, q: f64, axes: impl IntoAxes) -> Array {
        let dtype = mean_type(self.dtype());
        self.reduced(axes, |b, x, axes| {
            if !(0.0..=1.0).contains(&q) || !dtype.is_float() {
                return Err(format!("quantile: share {q} of {dtype}; shares are 0 to 1 of floats"));
            }
            let x = b.convert(x, dtype)?;
            let ty = b.ty(x);
            let rest: Vec<usize> = (0..ty.rank()).filter(|axis| !axes.contains(axis)).collect();
            let mut shape: Vec<u64> = rest.iter().map(|&axis| ty.shape[axis]).collect();
            let order: Vec<usize> = rest.iter().chain(axes).copied().collect();
            let count: u64 = axes.iter().map(|&axis| ty.shape[axis]).product();
            let kept = shape.clone();
            if count == 0 {
                return b.full(&TensorType::new(kept, dtype), f64::NAN);
            }
            shape.push(count);
            let last = shape.len() - 1;
            let flat = b.transpose(x, &order)?;
            let flat = b.reshape(flat, &shape)?;
            let ordered = sorted(b, &[flat], last)?[0];
            let mut at = |place: u64| {
                let element = b.slice_axis(ordered, last, place, place + 1)?;
                b.reshape(element, &kept)
            };
            let place = q * (count - 1) as f64;
            let (low, high) = (at(place.floor() as u64)?, at(place.ceil() as u64)?);
            let greatest = at(count - 1)?;
            let (share, other) =
                (b.full_like(low, place.fract())?, b.full_like(low, 1.0 - place.fract())?);
            let (low, high) = (b.multiply(low, other)?, b.multiply(high, share)?);
            let between = b.add(low, high)?;
            // NaN is sorted to the end.
            let is_nan = b.compare(Compare::Ne, greatest, greatest)?;
            b.select(is_nan, greatest, between)
        })
    }
}
