//! Reductions over windows that slide along axes.

use super::reduce::extreme;
use super::{Array, IntoShape, Padding};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::ops::window::WindowAxis;
use jaxrs_ir::{TensorType, ValueId, ops};

/// A pooling: windows along the axes between the first (batch) and the last (features).
struct Pool {
    window: Vec<u64>,
    strides: Vec<u64>,
    padding: Padding,
}

impl Pool {
    fn axes(&self, shape: &[u64]) -> Result<Vec<WindowAxis>, String> {
        let spatial = self.window.len();
        if shape.len() != spatial + 2 || self.strides.len() != spatial {
            return Err(format!(
                "pool: {spatial} windows and {} strides for shape {shape:?}, which has a batch \
                 axis first and features last",
                self.strides.len()
            ));
        }
        let mut axes = vec![WindowAxis::POINT];
        for (axis, (&extent, &stride)) in self.window.iter().zip(&self.strides).enumerate() {
            let (low, high) = self.padding.of(axis, shape[axis + 1], extent, stride)?;
            let stride = i64::try_from(stride).map_err(|_| "pool: the stride is too large")?;
            axes.push(WindowAxis { extent, stride, low, high, ..WindowAxis::POINT });
        }
        axes.push(WindowAxis::POINT);
        Ok(axes)
    }

    fn reduce(
        &self,
        b: &mut Builder<'_>,
        name: &str,
        x: ValueId,
        init: ValueId,
    ) -> Result<ValueId, String> {
        let ty = b.ty(x);
        let window = self.axes(&ty.shape)?;
        let scalar = TensorType::scalar(ty.dtype);
        let body = b.region(&[scalar.clone(), scalar], |b, x| Ok(vec![b.elementwise(name, x)?]))?;
        Ok(b.push(ops::ReduceWindow { window }, &[x, init], &[body])?[0])
    }
}

#[track_caller]
fn pool(
    x: &Array,
    window: impl IntoShape,
    strides: impl IntoShape,
    padding: Padding,
    f: impl FnOnce(&mut Builder<'_>, &Pool, ValueId) -> Result<ValueId, String>,
) -> Array {
    let pool = Pool { window: window.into_shape(), strides: strides.into_shape(), padding };
    trace::one(&[x], Place::here(), |b, x| f(b, &pool, x[0]))
}

/// The greatest element of each window along the axes between the first (batch) and the last
/// (features); padding is less than any.
///
/// ```
/// use jaxrs::prelude::*;
/// use jaxrs::array::Padding;
/// let x = Array::arange(16).astype(DType::F32).reshape([1, 4, 4, 1]);
/// let y = nn::max_pool(&x, [2, 2], [2, 2], Padding::Valid);
/// assert_eq!(y.to_vec::<f32>()?, [5.0, 7.0, 13.0, 15.0]);
/// # Ok::<(), jaxrs::Error>(())
/// ```
#[track_caller]
pub fn max_pool(
    x: &Array,
    window: impl IntoShape,
    strides: impl IntoShape,
    padding: Padding,
) -> Array {
    pool(x, window, strides, padding, |b, pool, x| {
        let init = extreme(b, b.ty(x).dtype, -1.0)?;
        pool.reduce(b, "stablehlo.maximum", x, init)
    })
}

/// The least element of each window; see [`max_pool`].
#[track_caller]
pub fn min_pool(
    x: &Array,
    window: impl IntoShape,
    strides: impl IntoShape,
    padding: Padding,
) -> Array {
    pool(x, window, strides, padding, |b, pool, x| {
        let init = extreme(b, b.ty(x).dtype, 1.0)?;
        pool.reduce(b, "stablehlo.minimum", x, init)
    })
}

/// The sum of each window; see [`max_pool`].
#[track_caller]
pub fn sum_pool(
    x: &Array,
    window: impl IntoShape,
    strides: impl IntoShape,
    padding: Padding,
) -> Array {
    pool(x, window, strides, padding, |b, pool, x| {
        let zero = b.zeros(&TensorType::scalar(b.ty(x).dtype))?;
        pool.reduce(b, "stablehlo.add", x, zero)
    })
}

/// The sum of each window over its number of elements, padding counted as zeros; see
/// [`max_pool`].
#[track_caller]
pub fn avg_pool(
    x: &Array,
    window: impl IntoShape,
    strides: impl IntoShape,
    padding: Padding,
) -> Array {
    let dtype = super::reduce::mean_type(x.dtype());
    pool(x, window, strides, padding, |b, pool, x| {
        let x = b.convert(x, dtype)?;
        let zero = b.zeros(&TensorType::scalar(dtype))?;
        let sum = pool.reduce(b, "stablehlo.add", x, zero)?;
        let count = b.full_like(sum, pool.window.iter().product::<u64>() as f64)?;
        b.divide(sum, count)
    })
}
