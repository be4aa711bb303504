//! Reductions along axes. Each takes axes as [`IntoAxes`]: `..` for all, `-1`, `[0, 2]`; with
//! [`super::keep`] the reduced axes stay, with extent 1.

use super::{Array, IntoAxes};
use crate::control::without_tangent;
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, TensorType, ValueId};
use jaxrs_kernel::Compare;
use jaxrs_kernel::dtype::Class;

/// The element type in which elements of a type are summed: as NumPy, small integers in 32 bits.
pub(super) fn sum_type(dtype: DType) -> DType {
    match dtype {
        DType::I1 | DType::I8 | DType::I16 => DType::I32,
        DType::U8 | DType::U16 => DType::U32,
        other => other,
    }
}

/// The element type of means of elements of a type.
pub(super) fn mean_type(dtype: DType) -> DType {
    match dtype.class() {
        Class::Float | Class::Complex => dtype,
        _ => DType::F32,
    }
}

/// The element type in which sums of a type are kept until they are rounded.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        other => other,
    }
}

/// The value of the element type that is the first (`-1`) or last (`1`) in order.
pub(super) fn extreme(
    b: &mut Builder<'_>,
    dtype: DType,
    direction: f64,
) -> Result<ValueId, String> {
    let value = match dtype {
        DType::I1 => f64::from(direction > 0.0),
        _ => f64::INFINITY * direction,
    };
    b.full(&TensorType::scalar(dtype), value)
}

/// The value with the axes that a reduction has dropped put back, with extent 1.
pub(super) fn with_axes(
    b: &mut Builder<'_>,
    x: ValueId,
    axes: &[usize],
) -> Result<ValueId, String> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    let mut shape = b.ty(x).shape;
    sorted.iter().for_each(|&axis| shape.insert(axis, 1));
    b.reshape(x, &shape)
}

/// The value of reduced axes repeated along them to a shape.
pub(super) fn spread_over(
    b: &mut Builder<'_>,
    x: ValueId,
    axes: &[usize],
    shape: &[u64],
) -> Result<ValueId, String> {
    let rest: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
    b.broadcast_in_dim(x, shape, &rest)
}

/// How many elements the axes have.
pub(super) fn count(b: &Builder<'_>, x: ValueId, axes: &[usize]) -> u64 {
    let shape = b.ty(x).shape;
    axes.iter().map(|&axis| shape[axis]).product()
}

/// The sum, computed in `f32` if elements have 16 bits.
fn sum(b: &mut Builder<'_>, x: ValueId, axes: &[usize]) -> Result<ValueId, String> {
    let dtype = b.ty(x).dtype;
    let x = b.convert(x, wide(dtype))?;
    let sum = b.sum(x, axes)?;
    b.convert(sum, dtype)
}

/// The mean of floats, computed in `f32` if they have 16 bits.
fn mean(b: &mut Builder<'_>, x: ValueId, axes: &[usize]) -> Result<ValueId, String> {
    let dtype = b.ty(x).dtype;
    let x = b.convert(x, wide(dtype))?;
    let number = count(b, x, axes) as f64;
    let sum = b.sum(x, axes)?;
    let number = b.full_like(sum, number)?;
    let mean = b.divide(sum, number)?;
    b.convert(mean, dtype)
}

/// The greatest or least element; the axes must have elements.
pub(super) fn select_extreme(
    b: &mut Builder<'_>,
    what: &str,
    x: ValueId,
    axes: &[usize],
) -> Result<ValueId, String> {
    if axes.is_empty() {
        return Ok(x);
    }
    let ty = b.ty(x);
    if let Some(axis) = axes.iter().find(|&&axis| ty.shape[axis] == 0) {
        return Err(format!("{what}: axis {axis} of {ty} has no elements"));
    }
    let (name, direction) = match what {
        "max" => ("stablehlo.maximum", -1.0),
        _ => ("stablehlo.minimum", 1.0),
    };
    let init = extreme(b, ty.dtype, direction)?;
    b.reduce(name, x, init, axes)
}

/// The sum of squared distances from the mean, over the count less `ddof`.
fn variance(b: &mut Builder<'_>, x: ValueId, axes: &[usize], ddof: f64) -> Result<ValueId, String> {
    let dtype = b.ty(x).dtype;
    let x = b.convert(x, wide(dtype))?;
    let shape = b.ty(x).shape;
    let number = count(b, x, axes) as f64;
    let center = mean(b, x, axes)?;
    let center = spread_over(b, center, axes, &shape)?;
    let distance = b.subtract(x, center)?;
    let square = squared_size(b, distance)?;
    let sum = b.sum(square, axes)?;
    let number = b.full_like(sum, number - ddof)?;
    let variance = b.divide(sum, number)?;
    let to = if dtype.is_complex() { b.ty(variance).dtype } else { dtype };
    b.convert(variance, to)
}

/// The square of the absolute value, a float.
pub(super) fn squared_size(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId, String> {
    if !b.ty(x).dtype.is_complex() {
        return b.multiply(x, x);
    }
    let re = b.elementwise("stablehlo.real", &[x])?;
    let im = b.elementwise("stablehlo.imag", &[x])?;
    let (re, im) = (b.multiply(re, re)?, b.multiply(im, im)?);
    b.add(re, im)
}

/// The greatest element where it is finite, else zero: what `exp` is taken relative to.
pub(super) fn finite_max(
    b: &mut Builder<'_>,
    x: ValueId,
    axes: &[usize],
) -> Result<ValueId, String> {
    let max = select_extreme(b, "max", x, axes)?;
    let finite = b.elementwise("stablehlo.is_finite", &[max])?;
    let zero = b.full_like(max, 0.0)?;
    let max = b.select(finite, max, zero)?;
    without_tangent(b, max)
}

/// Whether elements differ from zero.
pub(crate) fn truth(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId, String> {
    if b.ty(x).dtype == DType::I1 {
        return Ok(x);
    }
    let zero = b.full_like(x, 0.0)?;
    b.compare(Compare::Ne, x, zero)
}

impl Array {
    /// A reduction along axes, which are kept with extent 1 if so asked.
    #[track_caller]
    pub(super) fn reduced(
        &self,
        axes: impl IntoAxes,
        f: impl FnOnce(&mut Builder<'_>, ValueId, &[usize]) -> Result<ValueId, String>,
    ) -> Array {
        let (rank, keeps) = (self.rank(), axes.keeps());
        trace::one(&[self], Place::here(), |b, x| {
            let axes = axes.into_axes(rank)?;
            let result = f(b, x[0], &axes)?;
            if keeps { with_axes(b, result, &axes) } else { Ok(result) }
        })
    }

    /// The sum along axes; `i1` and small integers are summed as 32-bit integers.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::arange(6).reshape([2, 3]);
    /// assert_eq!(x.sum(..).item::<i32>()?, 15);
    /// assert_eq!(x.sum(0).to_vec::<i32>()?, [3, 5, 7]);
    /// assert_eq!(x.sum(keep(-1)).shape(), [2, 1]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn sum(&self, axes: impl IntoAxes) -> Array {
        let dtype = sum_type(self.dtype());
        self.reduced(axes, |b, x, axes| {
            let x = b.convert(x, dtype)?;
            sum(b, x, axes)
        })
    }

    /// The product along axes; `i1` and small integers are multiplied as 32-bit integers.
    #[track_caller]
    pub fn prod(&self, axes: impl IntoAxes) -> Array {
        let dtype = sum_type(self.dtype());
        self.reduced(axes, |b, x, axes| {
            let x = b.convert(x, wide(dtype))?;
            if axes.is_empty() {
                return b.convert(x, dtype);
            }
            let one = b.full(&TensorType::scalar(wide(dtype)), 1.0)?;
            let product = b.reduce("stablehlo.multiply", x, one, axes)?;
            b.convert(product, dtype)
        })
    }

    /// The mean along axes; integers as `f32`. Without elements it is NaN.
    #[track_caller]
    pub fn mean(&self, axes: impl IntoAxes) -> Array {
        let dtype = mean_type(self.dtype());
        self.reduced(axes, |b, x, axes| {
            let x = b.convert(x, dtype)?;
            mean(b, x, axes)
        })
    }

    /// The greatest element along axes, NaN if one is; an axis without elements is an error.
    #[track_caller]
    pub fn max(&self, axes: impl IntoAxes) -> Array {
        self.reduced(axes, |b, x, axes| select_extreme(b, "max", x, axes))
    }

    /// The least element along axes, NaN if one is; an axis without elements is an error.
    #[track_caller]
    pub fn min(&self, axes: impl IntoAxes) -> Array {
        self.reduced(axes, |b, x, axes| select_extreme(b, "min", x, axes))
    }

    /// Whether all elements along axes are true, or not zero: an `i1`.
    #[track_caller]
    pub fn all(&self, axes: impl IntoAxes) -> Array {
        self.reduced(axes, |b, x, axes| {
            let truth = truth(b, x)?;
            let init = b.full(&TensorType::scalar(DType::I1), 1.0)?;
            b.reduce("stablehlo.and", truth, init, axes)
        })
    }

    /// Whether some element along axes is true, or not zero: an `i1`.
    #[track_caller]
    pub fn any(&self, axes: impl IntoAxes) -> Array {
        self.reduced(axes, |b, x, axes| {
            let truth = truth(b, x)?;
            let init = b.full(&TensorType::scalar(DType::I1), 0.0)?;
            b.reduce("stablehlo.or", truth, init, axes)
        })
    }

    /// How many elements along axes are not zero, an `i32`.
    #[track_caller]
    pub fn count_nonzero(&self, axes: impl IntoAxes) -> Array {
        self.reduced(axes, |b, x, axes| {
            let truth = truth(b, x)?;
            let ones = b.convert(truth, DType::I32)?;
            b.sum(ones, axes)
        })
    }

    /// The mean of squared distances from the mean along axes; integers as `f32`. Of complex
    /// elements it is a float.
    #[track_caller]
    pub fn var(&self, axes: impl IntoAxes) -> Array {
        self.var_ddof(axes, 0.0)
    }

    /// The sum of squared distances from the mean, divided by the number of elements less `ddof`
    /// (1 for the unbiased estimate from a sample).
    #[track_caller]
    pub fn var_ddof(&self, axes: impl IntoAxes, ddof: f64) -> Array {
        let dtype = mean_type(self.dtype());
        self.reduced(axes, |b, x, axes| {
            let x = b.convert(x, dtype)?;
            variance(b, x, axes, ddof)
        })
    }

    /// The square root of [`Array::var`].
    #[track_caller]
    pub fn std(&self, axes: impl IntoAxes) -> Array {
        self.std_ddof(axes, 0.0)
    }

    /// The square root of [`Array::var_ddof`].
    #[track_caller]
    pub fn std_ddof(&self, axes: impl IntoAxes, ddof: f64) -> Array {
        let dtype = mean_type(self.dtype());
        self.reduced(axes, |b, x, axes| {
            let x = b.convert(x, dtype)?;
            let variance = variance(b, x, axes, ddof)?;
            b.elementwise("stablehlo.sqrt", &[variance])
        })
    }

    /// `log(sum(exp(x)))` along axes, without overflow; integers as `f32`.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::from_vec(vec![1000.0f32, 1000.0]);
    /// assert_eq!(x.logsumexp(..).item::<f32>()?, 1000.0 + 2f32.ln());
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp(&self, axes: impl IntoAxes) -> Array {
        let dtype = mean_type(self.dtype());
        self.reduced(axes, |b, x, axes| {
            let x = b.convert(x, dtype)?;
            let shape = b.ty(x).shape;
            let max = finite_max(b, x, axes)?;
            let spread = spread_over(b, max, axes, &shape)?;
            let relative = b.subtract(x, spread)?;
            let exp = b.elementwise("stablehlo.exponential", &[relative])?;
            let total = sum(b, exp, axes)?;
            let log = b.elementwise("stablehlo.log", &[total])?;
            b.add(log, max)
        })
    }

    /// The greatest element along axes, which are kept, where it is finite, else 0; its derivative
    /// is zero.
    #[track_caller]
    pub(crate) fn fixed_max(&self, axes: &[i64]) -> Array {
        self.reduced(super::keep(axes), finite_max)
    }

    /// The 2-norm along axes, `sqrt(sum(|x|^2))`; integers as `f32`.
    #[track_caller]
    pub fn norm(&self, axes: impl IntoAxes) -> Array {
        let dtype = mean_type(self.dtype());
        self.reduced(axes, |b, x, axes| {
            let x = b.convert(x, dtype)?;
            let squares = squared_size(b, x)?;
            let total = sum(b, squares, axes)?;
            b.elementwise("stablehlo.sqrt", &[total])
        })
    }

    /// The greatest element less the least along axes.
    #[track_caller]
    pub fn ptp(&self, axes: impl IntoAxes) -> Array {
        self.reduced(axes, |b, x, axes| {
            let max = select_extreme(b, "max", x, axes)?;
            let min = select_extreme(b, "min", x, axes)?;
            b.subtract(max, min)
        })
    }
}
