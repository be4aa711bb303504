//! Floats by their distributions.

use super::bits;
use crate::array::{Array, IntoShape, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, TensorType, ValueId, ops};

/// What a float type is made of.
struct Float {
    /// Bits of the fraction.
    fraction: u32,
    /// The unsigned type of its width.
    bits: DType,
    /// The least normal number.
    tiny: f64,
    /// The distance from 1 to the next number.
    epsilon: f64,
}

fn float(dtype: DType) -> Result<Float, String> {
    let power = |n: i32| 2f64.powi(n);
    Ok(match dtype {
        DType::BF16 => {
            Float { fraction: 7, bits: DType::U16, tiny: power(-126), epsilon: power(-7) }
        }
        DType::F16 => {
            Float { fraction: 10, bits: DType::U16, tiny: power(-14), epsilon: power(-10) }
        }
        DType::F32 => {
            Float { fraction: 23, bits: DType::U32, tiny: power(-126), epsilon: power(-23) }
        }
        DType::F64 => {
            Float { fraction: 52, bits: DType::U64, tiny: power(-1022), epsilon: power(-52) }
        }
        _ => return Err(format!("random floats are of a float type, not {dtype}")),
    })
}

/// Floats in `[low, high)`, which are of `dtype` and rank 0 or the shape.
fn uniform_between(
    b: &mut Builder<'_>,
    key: ValueId,
    shape: &[u64],
    dtype: DType,
    low: ValueId,
    high: ValueId,
) -> Result<ValueId, String> {
    let float = float(dtype)?;
    // Fractions of less than 8 bits need no more than 8 random ones.
    let drawn = if float.fraction < 8 { DType::U8 } else { float.bits };
    let random = bits::random(b, key, shape, drawn)?;
    let random = b.convert(random, float.bits)?;
    let shift = b.full_like(random, f64::from(drawn.bits() - float.fraction))?;
    let fraction = b.elementwise("stablehlo.shift_right_logical", &[random, shift])?;
    let one = b.full(&TensorType::new(shape, dtype), 1.0)?;
    let one_bits = b.one(ops::BitcastConvert { to: float.bits }, &[one])?;
    let number = b.elementwise("stablehlo.or", &[fraction, one_bits])?;
    let number = b.one(ops::BitcastConvert { to: dtype }, &[number])?;
    let unit = b.subtract(number, one)?;
    let broadcast = |b: &mut Builder<'_>, value: ValueId| match b.ty(value).rank() {
        0 => b.splat(value, shape),
        _ => Ok(value),
    };
    let (low, high) = (broadcast(b, low)?, broadcast(b, high)?);
    let span = b.subtract(high, low)?;
    let scaled = b.multiply(unit, span)?;
    let moved = b.add(scaled, low)?;
    b.elementwise("stablehlo.maximum", &[low, moved])
}

/// Floats in `[low, high)` for numbers.
fn between(
    b: &mut Builder<'_>,
    key: ValueId,
    shape: &[u64],
    dtype: DType,
    low: f64,
    high: f64,
) -> Result<ValueId, String> {
    let scalar = TensorType::scalar(dtype);
    let (low, high) = (b.full(&scalar, low)?, b.full(&scalar, high)?);
    uniform_between(b, key, shape, dtype, low, high)
}

/// `f32` in `[0, 1)`.
#[track_caller]
pub fn uniform(key: &Array, shape: impl IntoShape) -> Array {
    uniform_of(key, shape, 0.0, 1.0, DType::F32)
}

/// Floats in `[low, high)` of a type.
#[track_caller]
pub fn uniform_of(
    key: &Array,
    shape: impl IntoShape,
    low: impl Into<Operand>,
    high: impl Into<Operand>,
    dtype: DType,
) -> Array {
    let (place, shape) = (Place::here(), shape.into_shape());
    let low = low.into().into_array(dtype, place).broadcast_if_needed(&shape, dtype);
    let high = high.into().into_array(dtype, place).broadcast_if_needed(&shape, dtype);
    trace::one(&[key, &low, &high], place, |b, x| {
        uniform_between(b, x[0], &shape, dtype, x[1], x[2])
    })
}

/// The standard normal distribution in `f32`.
#[track_caller]
pub fn normal(key: &Array, shape: impl IntoShape) -> Array {
    normal_of(key, shape, DType::F32)
}

/// The standard normal distribution in a float or complex type. (Of complex numbers the real and
/// the imaginary part have variance 1/2.)
#[track_caller]
pub fn normal_of(key: &Array, shape: impl IntoShape, dtype: DType) -> Array {
    let shape = shape.into_shape();
    trace::one(&[key], Place::here(), |b, key| {
        if !dtype.is_complex() {
            return normal_value(b, key[0], &shape, dtype);
        }
        let keys = bits::split(b, key[0], &[2])?;
        let mut part = |at| {
            let key = bits::half(b, keys, at)?;
            normal_value(b, key, &shape, dtype.part())
        };
        let (re, im) = (part(0)?, part(1)?);
        let both = b.elementwise("stablehlo.complex", &[re, im])?;
        let root = b.full_like(both, std::f64::consts::SQRT_2)?;
        b.divide(both, root)
    })
}

fn normal_value(
    b: &mut Builder<'_>,
    key: ValueId,
    shape: &[u64],
    dtype: DType,
) -> Result<ValueId, String> {
    // The number after -1.
    let low = -1.0 + float(dtype)?.epsilon / 2.0;
    let unit = between(b, key, shape, dtype, low, 1.0)?;
    inverse_normal(b, unit)
}

/// `sqrt(2) * erf_inv(x)`.
fn inverse_normal(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId, String> {
    let inverse = b.elementwise("chlo.erf_inv", &[x])?;
    let root = b.full_like(inverse, std::f64::consts::SQRT_2)?;
    b.multiply(root, inverse)
}

/// The standard normal distribution between two numbers, in `f32`.
#[track_caller]
pub fn truncated_normal(key: &Array, low: f64, high: f64, shape: impl IntoShape) -> Array {
    let (shape, dtype) = (shape.into_shape(), DType::F32);
    trace::one(&[key], Place::here(), |b, key| {
        let scalar = TensorType::scalar(dtype);
        let root = b.full(&scalar, std::f64::consts::SQRT_2)?;
        let mut edge = |value: f64| {
            let value = b.full(&scalar, value)?;
            let scaled = b.divide(value, root)?;
            Ok::<_, String>((value, b.elementwise("chlo.erf", &[scaled])?))
        };
        let ((low, from), (high, to)) = (edge(low)?, edge(high)?);
        let unit = uniform_between(b, key[0], &shape, dtype, from, to)?;
        let out = inverse_normal(b, unit)?;
        let mut inside = |edge: ValueId, towards: f64| {
            let towards = b.full(&scalar, towards)?;
            b.elementwise("chlo.next_after", &[edge, towards])
        };
        let (low, high) = (inside(low, f64::INFINITY)?, inside(high, f64::NEG_INFINITY)?);
        b.one(ops::Clamp, &[low, out, high])
    })
}

/// Whether `f32` numbers in `[0, 1)` are less than `p`: true with that probability.
#[track_caller]
pub fn bernoulli(key: &Array, p: impl Into<Operand>, shape: impl IntoShape) -> Array {
    uniform(key, shape).lt(p.into())
}

/// A distribution made from numbers in `[low, 1)`.
fn from_uniform(
    key: &Array,
    shape: &[u64],
    place: Place,
    low: impl Fn(&Float) -> f64,
    f: impl FnOnce(&mut Builder<'_>, ValueId) -> Result<ValueId, String>,
) -> Array {
    trace::one(&[key], place, |b, key| {
        let low = low(&float(DType::F32)?);
        let unit = between(b, key[0], shape, DType::F32, low, 1.0)?;
        f(b, unit)
    })
}

/// `-log(-log(x))`.
fn gumbel_value(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId, String> {
    let log = b.elementwise("stablehlo.log", &[x])?;
    let negated = b.negate(log)?;
    let log = b.elementwise("stablehlo.log", &[negated])?;
    b.negate(log)
}

/// The standard Gumbel distribution in `f32`.
#[track_caller]
pub fn gumbel(key: &Array, shape: impl IntoShape) -> Array {
    from_uniform(key, &shape.into_shape(), Place::here(), |float| float.tiny, gumbel_value)
}

/// The exponential distribution of rate 1 in `f32`.
#[track_caller]
pub fn exponential(key: &Array, shape: impl IntoShape) -> Array {
    from_uniform(
        key,
        &shape.into_shape(),
        Place::here(),
        |_| 0.0,
        |b, x| {
            let negated = b.negate(x)?;
            let log = b.elementwise("stablehlo.log_plus_one", &[negated])?;
            b.negate(log)
        },
    )
}

/// The standard Laplace distribution in `f32`.
#[track_caller]
pub fn laplace(key: &Array, shape: impl IntoShape) -> Array {
    let low = |float: &Float| -1.0 + float.epsilon / 2.0;
    from_uniform(key, &shape.into_shape(), Place::here(), low, |b, x| {
        let sign = b.elementwise("stablehlo.sign", &[x])?;
        let size = b.elementwise("stablehlo.abs", &[x])?;
        let negated = b.negate(size)?;
        let log = b.elementwise("stablehlo.log_plus_one", &[negated])?;
        b.multiply(sign, log)
    })
}

/// The standard logistic distribution in `f32`.
#[track_caller]
pub fn logistic(key: &Array, shape: impl IntoShape) -> Array {
    from_uniform(
        key,
        &shape.into_shape(),
        Place::here(),
        |float| float.tiny,
        |b, x| {
            let log = b.elementwise("stablehlo.log", &[x])?;
            let negated = b.negate(x)?;
            let other = b.elementwise("stablehlo.log_plus_one", &[negated])?;
            b.subtract(log, other)
        },
    )
}

/// The standard Cauchy distribution in `f32`.
#[track_caller]
pub fn cauchy(key: &Array, shape: impl IntoShape) -> Array {
    from_uniform(
        key,
        &shape.into_shape(),
        Place::here(),
        |float| float.epsilon,
        |b, x| {
            let half = b.full_like(x, 0.5)?;
            let pi = b.full_like(x, std::f64::consts::PI)?;
            let moved = b.subtract(x, half)?;
            let angle = b.multiply(pi, moved)?;
            b.elementwise("stablehlo.tan", &[angle])
        },
    )
}

/// -1 or 1 as `i32`, equally likely.
#[track_caller]
pub fn rademacher(key: &Array, shape: impl IntoShape) -> Array {
    2 * bernoulli(key, 0.5, shape).astype(DType::I32) - 1
}

/// Positions along an axis with the probabilities whose logarithms, up to a constant, stand there.
#[track_caller]
pub fn categorical(key: &Array, logits: &Array, axis: i64) -> Array {
    let noise = gumbel(key, logits.shape()).astype(logits.dtype());
    (noise + logits).argmax(axis)
}

impl Array {
    /// Rank 0 stays; another shape is repeated to `shape`, in `dtype`.
    #[track_caller]
    fn broadcast_if_needed(self, shape: &[u64], dtype: DType) -> Array {
        let array = if self.dtype() == dtype { self } else { self.astype(dtype) };
        if array.rank() == 0 || array.shape() == shape { array } else { array.broadcast_to(shape) }
    }
}
