//! Inverses of the trigonometric and hyperbolic functions.

use super::logarithm::log1p;
use super::math::Math;
use jaxrs_kernel::{BinaryOp, Compare, CompareKind, Reg};
use std::f64::consts::{FRAC_PI_2, LN_2, PI};

/// `(atan x - x) / x^3` in `x^2` for `x` from 0 to 1; to 2^-28.5 and 2^-60.
const ATAN_32: &[f64] = &[
    -3.333329909e-01,
    1.999854833e-01,
    -1.426424216e-01,
    1.095218814e-01,
    -8.403456777e-02,
    5.795769513e-02,
    -3.117793849e-02,
    1.091465135e-02,
    -1.793631112e-03,
];
const ATAN_64: &[f64] = &[
    -0.33333333333333287,
    0.19999999999990445,
    -0.14285714285036452,
    0.11111111086442552,
    -0.09090908547174176,
    0.07692299710848924,
    -0.0666658371522854,
    0.05881716108386919,
    -0.05259433580572445,
    0.04744925386391173,
    -0.042863889186103676,
    0.03821002084795744,
    -0.032785355496447156,
    0.026151569523338213,
    -0.018614099324976954,
    0.011317572647594702,
    -0.005612341726347423,
    0.0021515686390818902,
    -0.0005928875992763651,
    0.00010387088904409208,
    -8.654123567589412e-06,
];

/// `(asin x - x) / x^3` in `x^2` for `x` from 0 to 1/2; to 2^-31.7 and 2^-59.8.
const ASIN_32: &[f64] = &[
    1.666665998e-01,
    7.500505028e-02,
    4.451676747e-02,
    3.180950511e-02,
    1.443106137e-02,
    3.752806053e-02,
];
const ASIN_64: &[f64] = &[
    0.1666666666666676,
    0.07499999999970636,
    0.04464285717477708,
    0.030381942699468104,
    0.022372215232255546,
    0.01735160744453004,
    0.013980877320479607,
    0.011398432011856512,
    0.010783029348039383,
    0.0036956093263063516,
    0.021734461709709194,
    -0.021038313354566976,
    0.032653795042753696,
];

/// A constant minus `x`, with the bits of the constant that the type has not.
fn exact_minus(m: &mut Math<'_>, constant: f64, low: f64, x: Reg) -> Reg {
    let high = if m.wide() { constant } else { f64::from(constant as f32) };
    let low = if m.wide() { low } else { constant - high };
    let difference = m.c_sub(high, x);
    m.add_c(difference, low)
}

const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;

/// `atan y` for `y` from 0 to 1.
fn atan_unit(m: &mut Math<'_>, y: Reg) -> Reg {
    let coefficients = if m.wide() { ATAN_64 } else { ATAN_32 };
    let z = m.mul(y, y);
    let poly = m.poly(z, coefficients);
    let cube = m.mul(z, y);
    m.fma(poly, cube, y)
}

/// `pi/2 - atan(1/x)` beyond 1.
pub(super) fn atan(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let beyond = m.gt(size, 1.0);
    let one = m.c(1.0);
    let reciprocal = m.div(one, size);
    let y = m.select(beyond, reciprocal, size);
    let value = atan_unit(m, y);
    let rest = exact_minus(m, FRAC_PI_2, FRAC_PI_2_LOW, value);
    let value = m.select(beyond, rest, value);
    m.with_sign(value, x)
}

/// The angle of `(x, y)`.
pub(super) fn atan2(m: &mut Math<'_>, y: Reg, x: Reg) -> Reg {
    let (x_size, y_size) = (m.abs(x), m.abs(y));
    let steep = m.cmp(Compare::Gt, y_size, x_size);
    let most = m.select(steep, y_size, x_size);
    let least = m.select(steep, x_size, y_size);
    let ratio = m.div(least, most);
    // 0 / 0 counts as 0, infinity over itself as 1.
    let none = m.eq(most, 0.0);
    let ratio = m.select(none, least, ratio);
    let both = m.eq(least, f64::INFINITY);
    let ratio = m.select_c(both, 1.0, ratio);
    let value = atan_unit(m, ratio);
    let rest = exact_minus(m, FRAC_PI_2, FRAC_PI_2_LOW, value);
    let value = m.select(steep, rest, value);
    let bits = m.bits(x);
    let zero = m.int(0);
    let left = m.b.compare(Compare::Lt, CompareKind::Signed, bits, zero);
    let rest = exact_minus(m, PI, 2.0 * FRAC_PI_2_LOW, value);
    let value = m.select(left, rest, value);
    let value = m.with_sign(value, y);
    // A NaN in either.
    let (x_nan, y_nan) = (m.is_nan(x), m.is_nan(y));
    let nan = m.b.binary(BinaryOp::Or, x_nan, y_nan);
    m.select_c(nan, f64::NAN, value)
}

/// `asin s` and whether it stands for the whole: beyond 1/2, `s = sqrt((1 - |x|) / 2)`, and the
/// angle from the other axis is twice its arc sine.
fn asin_part(m: &mut Math<'_>, size: Reg) -> (Reg, Reg) {
    let beyond = m.gt(size, 0.5);
    let rest = m.c_sub(1.0, size);
    let half = m.mul_c(rest, 0.5);
    let square = m.mul(size, size);
    let z = m.select(beyond, half, square);
    let root = m.sqrt(half);
    let s = m.select(beyond, root, size);
    let coefficients = if m.wide() { ASIN_64 } else { ASIN_32 };
    let poly = m.poly(z, coefficients);
    let cube = m.mul(z, s);
    (m.fma(poly, cube, s), beyond)
}

pub(super) fn asin(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let (part, beyond) = asin_part(m, size);
    let twice = m.add(part, part);
    let rest = exact_minus(m, FRAC_PI_2, FRAC_PI_2_LOW, twice);
    let value = m.select(beyond, rest, part);
    m.with_sign(value, x)
}

pub(super) fn acos(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let (part, beyond) = asin_part(m, size);
    let twice = m.add(part, part);
    let left = m.lt(x, 0.0);
    let opposite = exact_minus(m, PI, 2.0 * FRAC_PI_2_LOW, twice);
    let far = m.select(left, opposite, twice);
    let minus = m.neg(part);
    let signed = m.select(left, minus, part);
    let near = exact_minus(m, FRAC_PI_2, FRAC_PI_2_LOW, signed);
    m.select(beyond, far, near)
}

/// Where `x^2` would swallow the 1; `log1p(x)` is `log(x)` there.
fn large(m: &Math<'_>) -> f64 {
    if m.wide() { 2f64.powi(60) } else { 2f64.powi(30) }
}

/// `log(|x| + sqrt(x^2 + 1))`.
pub(super) fn asinh(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let limit = large(m);
    let beyond = m.gt(size, limit);
    let one = m.c(1.0);
    let square = m.mul(size, size);
    let sum = m.add(square, one);
    let root = m.sqrt(sum);
    let denominator = m.add(root, one);
    let part = m.div(square, denominator);
    let argument = m.add(size, part);
    let argument = m.select(beyond, size, argument);
    let value = log1p(m, argument);
    let more = m.select_cc(beyond, LN_2, 0.0);
    let value = m.add(value, more);
    m.with_sign(value, x)
}

/// `log(x + sqrt(x^2 - 1))`.
pub(super) fn acosh(m: &mut Math<'_>, x: Reg) -> Reg {
    let limit = large(m);
    let beyond = m.gt(x, limit);
    let above = m.add_c(x, -1.0);
    let next = m.add_c(above, 2.0);
    let product = m.mul(above, next);
    let root = m.sqrt(product);
    let argument = m.add(above, root);
    let argument = m.select(beyond, x, argument);
    let value = log1p(m, argument);
    let more = m.select_cc(beyond, LN_2, 0.0);
    let value = m.add(value, more);
    let below = m.lt(x, 1.0);
    m.select_c(below, f64::NAN, value)
}

/// `log((1 + |x|) / (1 - |x|)) / 2`.
pub(super) fn atanh(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let rest = m.c_sub(1.0, size);
    let twice = m.add(size, size);
    let argument = m.div(twice, rest);
    let value = log1p(m, argument);
    let half = m.mul_c(value, 0.5);
    // Halving the tiny may round; the result is x.
    let tiny = m.lt(size, 1e-20);
    let value = m.select(tiny, size, half);
    m.with_sign(value, x)
}
