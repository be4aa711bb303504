//! Running reductions along an axis, and differences.

use super::Array;
use super::reduce::{extreme, finite_max, mean_type, spread_over};
use super::shape::axis;
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::ops::window::WindowAxis;
use jaxrs_ir::{DType, TensorType, ValueId, ops};

/// The reduction with the elementwise op of this name of each element and those before it.
fn running(
    b: &mut Builder<'_>,
    name: &str,
    x: ValueId,
    init: ValueId,
    axis: usize,
) -> Result<ValueId, String> {
    let ty = b.ty(x);
    if ty.is_empty() {
        return Ok(x);
    }
    let extent = ty.shape[axis];
    let mut window = vec![WindowAxis::POINT; ty.rank()];
    window[axis] = WindowAxis { extent, low: extent as i64 - 1, ..WindowAxis::POINT };
    let scalar = TensorType::scalar(ty.dtype);
    let body = b.region(&[scalar.clone(), scalar], |b, x| Ok(vec![b.elementwise(name, x)?]))?;
    Ok(b.push(ops::ReduceWindow { window }, &[x, init], &[body])?[0])
}

/// The element type of running sums of elements of a type.
fn counted(dtype: DType) -> DType {
    if dtype == DType::I1 { DType::I32 } else { dtype }
}

impl Array {
    #[track_caller]
    fn running(&self, name: &'static str, dtype: DType, init: f64, along: i64) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let along = axis(along, rank)?;
            let x = b.convert(x[0], dtype)?;
            let init = match init.is_finite() {
                true => b.full(&TensorType::scalar(dtype), init)?,
                false => extreme(b, dtype, init.signum())?,
            };
            running(b, name, x, init, along)
        })
    }

    /// The sum of each element and those before it along an axis; `i1` as `i32`.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// assert_eq!(Array::arange(4).cumsum(0).to_vec::<i32>()?, [0, 1, 3, 6]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, along: i64) -> Array {
        self.running("stablehlo.add", counted(self.dtype()), 0.0, along)
    }

    /// The product of each element and those before it along an axis; `i1` as `i32`.
    #[track_caller]
    pub fn cumprod(&self, along: i64) -> Array {
        self.running("stablehlo.multiply", counted(self.dtype()), 1.0, along)
    }

    /// The greatest of each element and those before it along an axis.
    #[track_caller]
    pub fn cummax(&self, along: i64) -> Array {
        self.running("stablehlo.maximum", self.dtype(), f64::NEG_INFINITY, along)
    }

    /// The least of each element and those before it along an axis.
    #[track_caller]
    pub fn cummin(&self, along: i64) -> Array {
        self.running("stablehlo.minimum", self.dtype(), f64::INFINITY, along)
    }

    /// `log(sum(exp(x)))` of each element and those before it along an axis, relative to the
    /// greatest of all; integers as `f32`.
    #[track_caller]
    pub fn cumlogsumexp(&self, along: i64) -> Array {
        let (rank, dtype) = (self.rank(), mean_type(self.dtype()));
        trace::one(&[self], Place::here(), |b, x| {
            let along = axis(along, rank)?;
            let x = b.convert(x[0], dtype)?;
            let shape = b.ty(x).shape;
            if shape.contains(&0) {
                return Ok(x);
            }
            let max = finite_max(b, x, &[along])?;
            let max = spread_over(b, max, &[along], &shape)?;
            let relative = b.subtract(x, max)?;
            let exp = b.elementwise("stablehlo.exponential", &[relative])?;
            let init = b.zeros(&TensorType::scalar(dtype))?;
            let sums = running(b, "stablehlo.add", exp, init, along)?;
            let log = b.elementwise("stablehlo.log", &[sums])?;
            b.add(log, max)
        })
    }

    /// Each element less the one before it along an axis, which becomes shorter by one; `n` times.
    #[track_caller]
    pub fn diff(&self, n: u64, along: i64) -> Array {
        let rank = self.rank();
        trace::one(&[self], Place::here(), |b, x| {
            let along = axis(along, rank)?;
            let mut x = x[0];
            for _ in 0..n {
                let extent = b.ty(x).shape[along];
                let later = b.slice_axis(x, along, 1.min(extent), extent)?;
                let earlier = b.slice_axis(x, along, 0, extent.saturating_sub(1))?;
                x = match b.ty(x).dtype {
                    DType::I1 => b.elementwise("stablehlo.xor", &[later, earlier])?,
                    _ => b.subtract(later, earlier)?,
                };
            }
            Ok(x)
        })
    }
}
