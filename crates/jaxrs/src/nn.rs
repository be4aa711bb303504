//! Functions of neural networks, as `jax.nn` has them: activations, softmax, encodings.

use crate::array::{Array, IntoAxes, keep};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, ValueId};
use jaxrs_kernel::Compare;
use std::f64::consts::{PI, SQRT_2};

pub use crate::array::pool::{avg_pool, max_pool, min_pool, sum_pool};

/// `max(x, 0)`, whose derivative at 0 is 0.
///
/// ```
/// use jaxrs::prelude::*;
/// let x = Array::from_vec(vec![-1.0f32, 2.0]);
/// assert_eq!(nn::relu(&x).to_vec::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), jaxrs::Error>(())
/// ```
#[track_caller]
pub fn relu(x: &Array) -> Array {
    trace::one(&[x], Place::here(), |b, x| {
        // The condition is that of the derivative: 0 where both sides are equal.
        let zero = b.full_like(x[0], 0.0)?;
        let positive = b.compare(Compare::Gt, x[0], zero)?;
        let nan = b.compare(Compare::Ne, x[0], x[0])?;
        let kept = b.elementwise("stablehlo.or", &[positive, nan])?;
        b.select(kept, x[0], zero)
    })
}

/// `min(max(x, 0), 6)`, whose derivative at 0 and 6 is 0.
#[track_caller]
pub fn relu6(x: &Array) -> Array {
    floats(x, |b, x| {
        let (zero, six) = (b.full_like(x, 0.0)?, b.full_like(x, 6.0)?);
        let above = b.compare(Compare::Gt, x, zero)?;
        let below = b.compare(Compare::Lt, x, six)?;
        let within = b.elementwise("stablehlo.and", &[above, below])?;
        let bounded = b.select(above, six, zero)?;
        let nan = b.compare(Compare::Ne, x, x)?;
        let kept = b.elementwise("stablehlo.or", &[within, nan])?;
        b.select(kept, x, bounded)
    })
}

/// `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, the usual approximation of [`gelu_exact`].
#[track_caller]
pub fn gelu(x: &Array) -> Array {
    floats(x, |b, x| {
        let square = b.multiply(x, x)?;
        let cube = b.multiply(square, x)?;
        let part = scaled(b, cube, 0.044_715)?;
        let inner = b.add(x, part)?;
        let inner = scaled(b, inner, (2.0 / PI).sqrt())?;
        let tanh = b.elementwise("stablehlo.tanh", &[inner])?;
        half_of(b, x, tanh)
    })
}

/// `x / 2 (1 + erf(x / sqrt(2)))`: the element times the normal distribution's share below it.
#[track_caller]
pub fn gelu_exact(x: &Array) -> Array {
    floats(x, |b, x| {
        let inner = scaled(b, x, 1.0 / SQRT_2)?;
        let erf = b.elementwise("chlo.erf", &[inner])?;
        half_of(b, x, erf)
    })
}

/// `x / (1 + exp(-x))`, also named swish.
#[track_caller]
pub fn silu(x: &Array) -> Array {
    floats(x, |b, x| {
        let gate = b.elementwise("stablehlo.logistic", &[x])?;
        b.multiply(x, gate)
    })
}

/// As [`silu`].
#[track_caller]
pub fn swish(x: &Array) -> Array {
    silu(x)
}

/// `x`, below 0 `alpha (exp(x) - 1)`.
#[track_caller]
pub fn elu(x: &Array, alpha: f64) -> Array {
    floats(x, |b, x| {
        let zero = b.full_like(x, 0.0)?;
        let positive = b.compare(Compare::Gt, x, zero)?;
        // Where it is not used, the exponential must not overflow, for the derivative's sake.
        let safe = b.select(positive, zero, x)?;
        let exp = b.elementwise("stablehlo.exponential_minus_one", &[safe])?;
        let below = scaled(b, exp, alpha)?;
        b.select(positive, x, below)
    })
}

/// `1.0507 elu(x, 1.6733)`, which keeps mean and variance of its input in a deep network.
#[track_caller]
pub fn selu(x: &Array) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| elu(&x[0], 1.673_263_242_354_377_2) * 1.050_700_987_355_480_5)
}

/// `x`, below 0 `alpha (exp(x / alpha) - 1)`.
#[track_caller]
pub fn celu(x: &Array, alpha: f64) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| {
        let below = (x[0].minimum(0.0) / alpha).expm1() * alpha;
        x[0].gt(0.0).where_(&x[0], below)
    })
}

/// `x`, below 0 `slope x` (`jax.nn` has 0.01 by default).
#[track_caller]
pub fn leaky_relu(x: &Array, slope: f64) -> Array {
    floats(x, |b, x| {
        let zero = b.full_like(x, 0.0)?;
        let positive = b.compare(Compare::Ge, x, zero)?;
        let below = scaled(b, x, slope)?;
        b.select(positive, x, below)
    })
}

/// `log(1 + exp(x))`, without overflow.
#[track_caller]
pub fn softplus(x: &Array) -> Array {
    x.logaddexp(0.0)
}

/// `1 / (1 + exp(-x))`.
#[track_caller]
pub fn sigmoid(x: &Array) -> Array {
    x.sigmoid()
}

/// `log(sigmoid(x))`, without overflow.
#[track_caller]
pub fn log_sigmoid(x: &Array) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| -softplus(&-&x[0]))
}

/// `x / (1 + |x|)`.
#[track_caller]
pub fn soft_sign(x: &Array) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| &x[0] / (x[0].abs() + 1.0))
}

/// `relu6(x + 3) / 6`.
#[track_caller]
pub fn hard_sigmoid(x: &Array) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| relu6(&(&x[0] + 3.0)) / 6.0)
}

/// `x hard_sigmoid(x)`.
#[track_caller]
pub fn hard_silu(x: &Array) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| &x[0] * hard_sigmoid(&x[0]))
}

/// `x` between -1 and 1, else the bound.
#[track_caller]
pub fn hard_tanh(x: &Array) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| {
        let bounded = x[0].lt(-1.0).where_(-1.0, &x[0]);
        x[0].gt(1.0).where_(1.0, bounded)
    })
}

/// `x tanh(softplus(x))`.
#[track_caller]
pub fn mish(x: &Array) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| &x[0] * softplus(&x[0]).tanh())
}

/// One half of an axis times the sigmoid of the other.
#[track_caller]
pub fn glu(x: &Array, along: i64) -> Array {
    let place = Place::here();
    trace::whole(&[x], place, |x| {
        let mut halves = x[0].split(2, along);
        match (halves.pop(), halves.pop()) {
            (Some(gate), Some(value)) => value * gate.sigmoid(),
            (Some(failed), None) => failed,
            (None, _) => x[0].clone(),
        }
    })
}

/// `exp(x) / sum(exp(x))` along axes, without overflow: positive numbers whose sum is 1.
///
/// ```
/// use jaxrs::prelude::*;
/// let x = Array::from_vec(vec![1000.0f32, 1000.0]);
/// assert_eq!(nn::softmax(&x, -1).to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), jaxrs::Error>(())
/// ```
#[track_caller]
pub fn softmax(x: &Array, axes: impl IntoAxes) -> Array {
    let place = Place::here();
    let axes = axis_list(x, axes);
    trace::whole(&[x], place, |x| match axes {
        Ok(axes) => {
            let exp = relative(&x[0], &axes).exp();
            let sum = exp.sum(keep(&axes[..]));
            exp / sum
        }
        Err(message) => trace::one(&[&x[0]], place, |_, _| Err(message)),
    })
}

/// The logarithm of [`softmax`], exact where that is small.
#[track_caller]
pub fn log_softmax(x: &Array, axes: impl IntoAxes) -> Array {
    let place = Place::here();
    let axes = axis_list(x, axes);
    trace::whole(&[x], place, |x| match axes {
        Ok(axes) => {
            let relative = relative(&x[0], &axes);
            let log = relative.exp().sum(keep(&axes[..])).log();
            relative - log
        }
        Err(message) => trace::one(&[&x[0]], place, |_, _| Err(message)),
    })
}

/// `log(sum(exp(x)))` along axes, without overflow; [`Array::logsumexp`].
#[track_caller]
pub fn logsumexp(x: &Array, axes: impl IntoAxes) -> Array {
    x.logsumexp(axes)
}

/// For each integer a new last axis: 1 at its position, else 0; [`Array::one_hot`].
#[track_caller]
pub fn one_hot(x: &Array, count: u64) -> Array {
    x.one_hot(count)
}

/// The elements less their mean along axes, over their standard deviation: `(x - mean) /
/// sqrt(variance + epsilon)` (`jax.nn` has `epsilon` 1e-5).
#[track_caller]
pub fn standardize(x: &Array, axes: impl IntoAxes, epsilon: f64) -> Array {
    let place = Place::here();
    let axes = axis_list(x, axes);
    trace::whole(&[x], place, |x| match axes {
        Ok(axes) => {
            let centered = &x[0] - x[0].mean(keep(&axes[..]));
            let variance = centered.square().mean(keep(&axes[..]));
            centered * (variance + epsilon).rsqrt()
        }
        Err(message) => trace::one(&[&x[0]], place, |_, _| Err(message)),
    })
}

/// [`standardize`] along the last axis, times a scale plus a bias.
#[track_caller]
pub fn layer_norm(x: &Array, scale: &Array, bias: &Array, epsilon: f64) -> Array {
    let place = Place::here();
    trace::whole(&[x, scale, bias], place, |x| standardize(&x[0], -1, epsilon) * &x[1] + &x[2])
}

/// The mean over elements of a loss that `jax.nn` leaves to libraries: the cross entropy of
/// logits along the last axis and class numbers.
#[track_caller]
pub fn cross_entropy(logits: &Array, classes: &Array) -> Array {
    let place = Place::here();
    trace::whole(&[logits, classes], place, |x| {
        let at = x[1].expand_dims(-1);
        -log_softmax(&x[0], -1).take_along_axis(&at, -1).mean(..)
    })
}

/// The elements less the greatest along axes; of that no derivative is taken, as it cancels.
#[track_caller]
fn relative(x: &Array, axes: &[i64]) -> Array {
    x - x.fixed_max(axes)
}

/// The axes as numbers, to name them more than once.
fn axis_list(x: &Array, axes: impl IntoAxes) -> Result<Vec<i64>, String> {
    Ok(axes.into_axes(x.rank())?.into_iter().map(|axis| axis as i64).collect())
}

/// An elementwise function of floats; integers as `f32`.
#[track_caller]
fn floats(
    x: &Array,
    f: impl FnOnce(&mut Builder<'_>, ValueId) -> Result<ValueId, String>,
) -> Array {
    let dtype = if x.dtype().is_int() || x.dtype() == DType::I1 { DType::F32 } else { x.dtype() };
    trace::one(&[x], Place::here(), |b, x| {
        let x = b.convert(x[0], dtype)?;
        f(b, x)
    })
}

/// The value times a number.
fn scaled(b: &mut Builder<'_>, x: ValueId, by: f64) -> Result<ValueId, String> {
    let by = b.full_like(x, by)?;
    b.multiply(x, by)
}

/// `x / 2 (1 + y)`.
fn half_of(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<ValueId, String> {
    let one = b.full_like(y, 1.0)?;
    let sum = b.add(one, y)?;
    let half = scaled(b, sum, 0.5)?;
    b.multiply(x, half)
}
