//! The exponential function and what is made of it: `exp`, `expm1`, `logistic`, `tanh`, `sinh`,
//! `cosh`.
//!
//! `x` is split into `n ln 2 + r` with `|r| <= ln 2 / 2`. `n` is rounded by adding a number so large
//! that the sum has no bits below 1; its low bits are then `n` as an integer, and shifted up they
//! are the exponent of `2^n`. The polynomials are minimax fits (Remez) of the relative error.

use super::math::Math;
use jaxrs_kernel::{BinaryOp, Reg};

const LN_2: f64 = std::f64::consts::LN_2;
const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// The next 53 bits of ln 2.
const LN_2_LOW_64: f64 = 2.319_046_813_846_299_6e-17;

/// `(e^r - 1) / r`, to 2^-28.8 and 2^-58.
const EXP_32: &[f64] = &[
    1.000000033e+00,
    4.999999404e-01,
    1.666642894e-01,
    4.166803105e-02,
    8.374365119e-03,
    1.384269693e-03,
];
const EXP_64: &[f64] = &[
    1.0,
    0.5000000000000013,
    0.16666666666666205,
    0.04166666666651464,
    0.0083333333335543,
    0.0013888888947274833,
    0.00019841269430377506,
    2.4801489604200734e-05,
    2.755762991207423e-06,
    2.763142696458958e-07,
    2.499113178179399e-08,
];

/// `(e^r - 1 - r) / r^2`, so that `e^r - 1` is exact to 2^-26 (f32: 2^-32 with one more) and 2^-61.
const EXPM1_32: &[f64] = &[
    5.000000045e-01,
    1.666666636e-01,
    4.166635780e-02,
    8.333390524e-03,
    1.394089317e-03,
    1.984562916e-04,
];
const EXPM1_64: &[f64] = &[
    0.5,
    0.16666666666666677,
    0.041666666666666505,
    0.00833333333332145,
    0.0013888888888963912,
    0.00019841269886658515,
    2.480158717050262e-05,
    2.7557243602573104e-06,
    2.7557403535291707e-07,
    2.5109271431101174e-08,
    2.0875311552572387e-09,
];

/// `n` such that `x = n ln 2 + r`.
struct Split {
    /// The bits of `1.5 * 2^mantissa + bias + n`.
    bits: Reg,
    /// `n` as a float.
    n: Reg,
    /// `x - n * high(ln 2)`.
    part: Reg,
    /// `r`.
    rest: Reg,
}

fn split(m: &mut Math<'_>, x: Reg, bias: f64) -> Split {
    let magic = 1.5 * 2f64.powi(m.mantissa() as i32) + bias;
    let sum = m.fma_cc(x, LOG2_E, magic);
    let n = m.add_c(sum, -magic);
    let (high, low) = ln_2(m);
    let part = m.fma_c(n, -high, x);
    let rest = m.fma_c(n, -low, part);
    let bits = m.bits(sum);
    Split { bits, n, part, rest }
}

/// ln 2 as a sum of two floats.
fn ln_2(m: &Math<'_>) -> (f64, f64) {
    let single = f64::from(LN_2 as f32);
    if m.wide() { (LN_2, LN_2_LOW_64) } else { (single, LN_2 - single) }
}

/// `e^r` for the rest of a split.
fn exp_rest(m: &mut Math<'_>, r: Reg) -> Reg {
    let coefficients = if m.wide() { EXP_64 } else { EXP_32 };
    let slope = m.poly(r, coefficients);
    let one = m.c(1.0);
    m.fma(slope, r, one)
}

/// `e^r - 1` for the rest of a split.
fn expm1_rest(m: &mut Math<'_>, r: Reg) -> Reg {
    let coefficients = if m.wide() { EXPM1_64 } else { EXPM1_32 };
    let second = m.poly(r, coefficients);
    let square = m.mul(r, r);
    m.fma(square, second, r)
}

/// The bias that makes [`Split::bits`] the sum of the biased exponents of two factors of `2^n`.
fn two_step_bias(m: &Math<'_>) -> f64 {
    if m.wide() { 2046.0 } else { 254.0 }
}

/// `value * 2^n` of a split with [`two_step_bias`], rounded once: in two steps, so that a result
/// below the normal range is right.
pub(super) fn scale(m: &mut Math<'_>, value: Reg, bits: Reg) -> Reg {
    let mantissa = m.mantissa();
    let half = m.int_c(BinaryOp::ShrU, bits, 1);
    let first = m.int_c(BinaryOp::Shl, half, mantissa);
    let both = m.int_c(BinaryOp::Shl, bits, mantissa);
    let second = m.b.binary(BinaryOp::Sub, both, first);
    let (first, second) = (m.float(first), m.float(second));
    let value = m.mul(value, first);
    m.mul(value, second)
}

/// `2^n` of a split whose bias is the exponent's, with `n` in the normal range.
fn power_of_two(m: &mut Math<'_>, bits: Reg) -> Reg {
    let mantissa = m.mantissa();
    let bits = m.int_c(BinaryOp::Shl, bits, mantissa);
    m.float(bits)
}

fn exponent_bias(m: &Math<'_>) -> f64 {
    if m.wide() { 1023.0 } else { 127.0 }
}

/// The largest argument up to which `e^x` needs to be computed; beyond it is infinite.
fn largest(m: &Math<'_>) -> f64 {
    if m.wide() { 710.0 } else { 89.0 }
}

/// Below this `e^x` is zero.
fn least(m: &Math<'_>) -> f64 {
    if m.wide() { -746.0 } else { -104.0 }
}

pub(super) fn exp(m: &mut Math<'_>, x: Reg) -> Reg {
    let (largest, least) = (largest(m), least(m));
    let x = m.min_c(x, largest);
    let x = m.max_c(x, least);
    exp_clamped(m, x)
}

/// `e^x` for `x <= 0`.
pub(super) fn exp_of_negative(m: &mut Math<'_>, x: Reg) -> Reg {
    let least = least(m);
    let x = m.max_c(x, least);
    exp_clamped(m, x)
}

fn exp_clamped(m: &mut Math<'_>, x: Reg) -> Reg {
    let bias = two_step_bias(m);
    let split = split(m, x, bias);
    let value = exp_rest(m, split.rest);
    scale(m, value, split.bits)
}

/// `e^(x + low)` where `low` is small beside `x`, without the error that `x` alone would make.
pub(super) fn exp_sum(m: &mut Math<'_>, x: Reg, low: Reg) -> Reg {
    let (largest, least) = (largest(m), least(m));
    let x = m.min_c(x, largest);
    let x = m.max_c(x, least);
    let bias = two_step_bias(m);
    let split = split(m, x, bias);
    let rest = m.add(split.rest, low);
    let value = exp_rest(m, rest);
    scale(m, value, split.bits)
}

/// `factor * e^(x + low)`, rounded to the type's range at the end only.
pub(super) fn exp_product(m: &mut Math<'_>, factor: Reg, x: Reg, low: Reg) -> Reg {
    let (largest, least) = (largest(m), least(m));
    let x = m.min_c(x, largest);
    let x = m.max_c(x, least);
    let bias = two_step_bias(m);
    let split = split(m, x, bias);
    let (_, ln_2_low) = ln_2(m);
    let lost = m.sub(split.part, split.rest);
    let lost = m.fma_c(split.n, -ln_2_low, lost);
    let low = m.add(lost, low);
    let coefficients = if m.wide() { EXP_64 } else { EXP_32 };
    let slope = m.poly(split.rest, coefficients);
    let one = m.c(1.0);
    let value = m.fma(slope, split.rest, one);
    let back = m.sub(one, value);
    let value_low = m.fma(slope, split.rest, back);
    let (product, product_low) = m.two_mul(value, factor);
    let product_low = m.fma(value_low, factor, product_low);
    let product_low = m.fma(product, low, product_low);
    let value = m.add(product, product_low);
    scale(m, value, split.bits)
}

/// `e^x` where neither it nor `2^n` is out of the normal range.
pub(super) fn exp_moderate(m: &mut Math<'_>, x: Reg) -> Reg {
    let bias = exponent_bias(m);
    let split = split(m, x, bias);
    let value = exp_rest(m, split.rest);
    let power = power_of_two(m, split.bits);
    m.mul(value, power)
}

pub(super) fn expm1(m: &mut Math<'_>, x: Reg) -> Reg {
    let lowest = if m.wide() { -40.0 } else { -20.0 };
    let largest = largest(m);
    let clamped = m.min_c(x, largest);
    let clamped = m.max_c(clamped, lowest);
    // 2^n may be infinite where the result is not, so that half of it is computed.
    let bias = exponent_bias(m) - 1.0;
    let split = split(m, clamped, bias);
    let value = expm1_rest(m, split.rest);
    let half_power = power_of_two(m, split.bits);
    let offset = m.add_c(half_power, -0.5);
    let half = m.fma(half_power, value, offset);
    let result = m.add(half, half);
    // Zero with its sign, and what halving makes inexact.
    let size = m.abs(x);
    let tiny = m.lt(size, 1e-20);
    m.select(tiny, x, result)
}

/// `e^y - 1` for `0 <= y`, not so large that `2^n` overflows.
fn expm1_small(m: &mut Math<'_>, y: Reg) -> Reg {
    let bias = exponent_bias(m);
    let split = split(m, y, bias);
    let value = expm1_rest(m, split.rest);
    let power = power_of_two(m, split.bits);
    let offset = m.add_c(power, -1.0);
    m.fma(power, value, offset)
}

/// With `t = e^-|x|` and `w = t / (1 + t)`: `1 - w`, for negative `x` `t - t w`. So only the
/// rounding of `t` itself shows in the result.
pub(super) fn logistic(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let minus = m.neg(size);
    let power = exp_of_negative(m, minus);
    let negative = m.lt(x, 0.0);
    let one = m.c(1.0);
    let whole = m.select(negative, power, one);
    let denominator = m.c_sub(-1.0, power);
    let minus_w = m.div(power, denominator);
    m.fma(minus_w, whole, whole)
}

/// `(tanh x - x) / x^3` in `x^2` for `x` to 0.36; to 2^-30.5 and 2^-62.
const TANH_32: &[f64] = &[-3.333331799e-01, 1.333217546e-01, -5.369494881e-02, 1.929033718e-02];
const TANH_64: &[f64] = &[
    -0.33333333333333315,
    0.1333333333332717,
    -0.053968253961664,
    0.02186948819029938,
    -0.008863225242781467,
    0.003591942701804632,
    -0.0014537669978961693,
    0.0005759908653965443,
    -0.0001851323273736387,
];

/// With `u = e^(2|x|) - 1`: `u / (u + 2)`; for small `x`, where three roundings would show, a
/// polynomial.
pub(super) fn tanh(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let limit = if m.wide() { 20.0 } else { 10.0 };
    let bounded = m.min_c(size, limit);
    let twice = m.add(bounded, bounded);
    let u = expm1_small(m, twice);
    let denominator = m.add_c(u, 2.0);
    let far = m.div(u, denominator);
    let coefficients = if m.wide() { TANH_64 } else { TANH_32 };
    let square = m.mul(size, size);
    let cube = m.mul(square, size);
    let poly = m.poly(square, coefficients);
    let near = m.fma(poly, cube, size);
    let is_near = m.lt(size, 0.35);
    let value = m.select(is_near, near, far);
    m.with_sign(value, x)
}

/// With `u = e^|x| - 1`: `(u + u / (u + 1)) / 2`; where `u` would overflow, from `e^(|x|/2)`.
pub(super) fn sinh(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let limit = largest(m) - 2.0;
    let moderate = m.min_c(size, limit);
    let u = expm1_small(m, moderate);
    let next = m.add_c(u, 1.0);
    let fraction = m.div(u, next);
    let twice = m.add(u, fraction);
    let value = m.mul_c(twice, 0.5);
    let huge = huge_half_exp(m, size);
    let is_huge = m.gt(size, limit);
    let value = m.select(is_huge, huge, value);
    // Halving the tiny may round; the result is x.
    let tiny = m.lt(size, 1e-20);
    let value = m.select(tiny, size, value);
    m.with_sign(value, x)
}

/// `(e^|x| + e^-|x|) / 2`.
pub(super) fn cosh(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let limit = largest(m) - 2.0;
    let moderate = m.min_c(size, limit);
    let power = exp_clamped(m, moderate);
    let half = m.mul_c(power, 0.5);
    let quarter = m.c(0.25);
    let small = m.div(quarter, half);
    let value = m.add(half, small);
    let huge = huge_half_exp(m, size);
    let is_huge = m.gt(size, limit);
    m.select(is_huge, huge, value)
}

/// `e^x / 2` for large `x`, infinite only where the result is.
fn huge_half_exp(m: &mut Math<'_>, x: Reg) -> Reg {
    let limit = largest(m) + 2.0;
    let x = m.min_c(x, limit);
    let bias = two_step_bias(m) - 1.0;
    let split = split(m, x, bias);
    let value = exp_rest(m, split.rest);
    scale(m, value, split.bits)
}
