//! Transcendental functions of complex numbers, on `f64` parts.
//!
//! Formulas that do not cancel or overflow where the result does not: Kahan, "Branch cuts for
//! complex elementary functions" (1987), for roots, inverse functions and `tanh`.

use super::complex::{Pair, add, divide, modulus, multiply, over_i, sqrt, subtract, times_i};
use super::exponential as real_exp;
use super::inverse as real_inverse;
use super::logarithm as real_log;
use super::math::Math;
use super::roots as real_roots;
use super::trigonometric as real_trig;
use jaxrs_kernel::{Compare, Reg};
use std::f64::consts::LN_2;

/// Beyond this the exponential is computed of an argument smaller by [`SHIFT`].
const LARGE: f64 = 700.0;
const SHIFT: f64 = 20.0;

/// What `e^(x - SHIFT)` is short of `e^x` where `large` holds; else 1.
fn shift_factor(m: &mut Math<'_>, large: Reg) -> Reg {
    m.select_cc(large, SHIFT.exp(), 1.0)
}

/// The product, zero where the second factor is zero, whatever the first.
fn times_or_zero(m: &mut Math<'_>, x: Reg, y: Reg) -> Reg {
    let product = m.mul(x, y);
    let zero = m.eq(y, 0.0);
    m.select(zero, y, product)
}

pub(super) fn exp(m: &mut Math<'_>, z: Pair) -> Pair {
    let large = m.gt(z.0, LARGE);
    let less = m.add_c(z.0, -SHIFT);
    let x = m.select(large, less, z.0);
    let size = real_exp::exp(m, x);
    let factor = shift_factor(m, large);
    let (sin, cos) = real_trig::sin_cos(m, z.1);
    let (re, im) = (m.mul(size, cos), times_or_zero(m, size, sin));
    let (re, im) = (m.mul(re, factor), m.mul(im, factor));
    let vanishes = m.eq(z.0, f64::NEG_INFINITY);
    (m.select_c(vanishes, 0.0, re), m.select_c(vanishes, 0.0, im))
}

/// `e^x cos y - 1` as `(e^x - 1) cos y - 2 sin^2(y / 2)`.
pub(super) fn expm1(m: &mut Math<'_>, z: Pair) -> Pair {
    let whole = exp(m, z);
    let (less, cos) = (real_exp::expm1(m, z.0), real_trig::cos(m, z.1));
    let half = m.mul_c(z.1, 0.5);
    let sine = real_trig::sin(m, half);
    let square = m.mul(sine, sine);
    let first = m.mul(less, cos);
    let re = m.fma_c(square, -2.0, first);
    let large = m.gt(z.0, 40.0);
    (m.select(large, whole.0, re), whole.1)
}

/// `log |z|`.
fn log_modulus(m: &mut Math<'_>, z: Pair) -> Reg {
    let (re, im) = (m.abs(z.0), m.abs(z.1));
    let order = m.cmp(Compare::Gt, re, im);
    let (most, least) = (m.select(order, re, im), m.select(order, im, re));
    let (big, small) = (m.gt(most, 1e300), m.lt(most, 1e-290));
    let scale = m.select_cc(big, 2f64.powi(-8), 1.0);
    let scale = m.select_c(small, 2f64.powi(600), scale);
    let shift = m.select_cc(big, 8.0 * LN_2, 0.0);
    let shift = m.select_c(small, -600.0 * LN_2, shift);
    let scaled = (m.mul(re, scale), m.mul(im, scale));
    let size = modulus(m, scaled);
    let log = real_log::log(m, size);
    let log = m.add(log, shift);
    // Near 1: log1p((a - 1) (a + 1) + b^2) / 2 with the larger part a.
    let (below, above) = (m.add_c(most, -1.0), m.add_c(most, 1.0));
    let square = m.mul(least, least);
    let excess = m.fma(below, above, square);
    let near = real_log::log1p(m, excess);
    let near = m.mul_c(near, 0.5);
    let (low, high) = (m.gt(size, 0.6), m.lt(size, 1.5));
    let is_near = m.and(low, high);
    let unscaled = m.eq(shift, 0.0);
    let is_near = m.and(is_near, unscaled);
    m.select(is_near, near, log)
}

pub(super) fn log(m: &mut Math<'_>, z: Pair) -> Pair {
    (log_modulus(m, z), real_inverse::atan2(m, z.1, z.0))
}

pub(super) fn log1p(m: &mut Math<'_>, z: Pair) -> Pair {
    let sum = m.add_c(z.0, 1.0);
    let (far, im) = log(m, (sum, z.1));
    // |1 + z|^2 - 1 = x (2 + x) + y^2, for small z.
    let two_more = m.add_c(z.0, 2.0);
    let square = m.mul(z.1, z.1);
    let excess = m.fma(z.0, two_more, square);
    let near = real_log::log1p(m, excess);
    let near = m.mul_c(near, 0.5);
    let size = modulus(m, z);
    let small = m.lt(size, 0.5);
    (m.select(small, near, far), im)
}

/// `e^z / (1 + e^z)` on the left half-plane, `1 / (1 + e^-z)` on the right.
pub(super) fn logistic(m: &mut Math<'_>, z: Pair) -> Pair {
    let left = m.lt(z.0, 0.0);
    let minus = (m.neg(z.0), m.neg(z.1));
    let argument = (m.select(left, z.0, minus.0), m.select(left, z.1, minus.1));
    let power = exp(m, argument);
    let one = m.c(1.0);
    let zero = m.c(0.0);
    let numerator = (m.select(left, power.0, one), m.select(left, power.1, zero));
    let denominator = (m.add(power.0, one), power.1);
    divide(m, numerator, denominator)
}

pub(super) fn rsqrt(m: &mut Math<'_>, z: Pair) -> Pair {
    let root = sqrt(m, z);
    let one = (m.c(1.0), m.c(0.0));
    divide(m, one, root)
}

/// By modulus and angle.
pub(super) fn cbrt(m: &mut Math<'_>, z: Pair) -> Pair {
    let size = modulus(m, z);
    let root = real_roots::cbrt(m, size);
    let angle = real_inverse::atan2(m, z.1, z.0);
    let third = m.mul_c(angle, 1.0 / 3.0);
    let (sin, cos) = real_trig::sin_cos(m, third);
    (m.mul(root, cos), m.mul(root, sin))
}

/// `e^(w log z)`; of zero: 1 for `w = 0`, 0 for `w` with a positive real part.
pub(super) fn power(m: &mut Math<'_>, z: Pair, w: Pair) -> Pair {
    let log = log(m, z);
    let exponent = multiply(m, w, log);
    let (re, im) = exp(m, exponent);
    let (z_re, z_im) = (m.eq(z.0, 0.0), m.eq(z.1, 0.0));
    let base_zero = m.and(z_re, z_im);
    let positive = m.gt(w.0, 0.0);
    let vanishes = m.and(base_zero, positive);
    let (w_re, w_im) = (m.eq(w.0, 0.0), m.eq(w.1, 0.0));
    let unit = m.and(w_re, w_im);
    let (re, im) = (m.select_c(vanishes, 0.0, re), m.select_c(vanishes, 0.0, im));
    (m.select_c(unit, 1.0, re), m.select_c(unit, 0.0, im))
}

/// `sinh y` and `cosh y` less a factor, which is given apart so that products do not overflow.
fn sinh_cosh(m: &mut Math<'_>, y: Reg) -> (Reg, Reg, Reg) {
    let size = m.abs(y);
    let large = m.gt(size, LARGE);
    let less = m.add_c(size, -SHIFT);
    let size = m.select(large, less, size);
    let moved = m.with_sign(size, y);
    let factor = shift_factor(m, large);
    (real_exp::sinh(m, moved), real_exp::cosh(m, moved), factor)
}

pub(super) fn sinh(m: &mut Math<'_>, z: Pair) -> Pair {
    let (sinh, cosh, factor) = sinh_cosh(m, z.0);
    let (sin, cos) = real_trig::sin_cos(m, z.1);
    let (re, im) = (times_or_zero(m, cos, sinh), times_or_zero(m, cosh, sin));
    (m.mul(re, factor), m.mul(im, factor))
}

pub(super) fn cosh(m: &mut Math<'_>, z: Pair) -> Pair {
    let (sinh, cosh, factor) = sinh_cosh(m, z.0);
    let (sin, cos) = real_trig::sin_cos(m, z.1);
    // Zero if either factor is, even where the other is infinite.
    let product = times_or_zero(m, sinh, sin);
    let flat = m.eq(sinh, 0.0);
    let im = m.select(flat, sinh, product);
    let re = m.mul(cosh, cos);
    (m.mul(re, factor), m.mul(im, factor))
}

/// `sin z = sinh(i z) / i`.
pub(super) fn sin(m: &mut Math<'_>, z: Pair) -> Pair {
    let turned = times_i(m, z);
    let value = sinh(m, turned);
    over_i(m, value)
}

/// `cos z = cosh(i z)`.
pub(super) fn cos(m: &mut Math<'_>, z: Pair) -> Pair {
    let turned = times_i(m, z);
    cosh(m, turned)
}

/// With `t = tan y`, `b = 1 + t^2`, `s = sinh x`: `(b s cosh x, t) / (1 + b s^2)`; for large `x`
/// `(+-1, 4 sin y cos y e^(-2 |x|))`.
pub(super) fn tanh(m: &mut Math<'_>, z: Pair) -> Pair {
    let size = m.abs(z.0);
    let bounded = m.min_c(size, 20.0);
    let x = m.with_sign(bounded, z.0);
    let (s, c, t) = (real_exp::sinh(m, x), real_exp::cosh(m, x), real_trig::tan(m, z.1));
    let one = m.c(1.0);
    let b = m.fma(t, t, one);
    let b_s = m.mul(b, s);
    let denominator = m.fma(b_s, s, one);
    let re = m.mul(b_s, c);
    let (re, im) = (m.div(re, denominator), m.div(t, denominator));
    let large = m.gt(size, 19.5);
    let unit = m.with_sign(one, z.0);
    let twice = m.mul_c(size, -2.0);
    let decay = real_exp::exp_of_negative(m, twice);
    let double = m.add(z.1, z.1);
    let sine = real_trig::sin(m, double);
    let far = m.mul(decay, sine);
    let far = m.add(far, far);
    (m.select(large, unit, re), m.select(large, far, im))
}

/// `tan z = tanh(i z) / i`.
pub(super) fn tan(m: &mut Math<'_>, z: Pair) -> Pair {
    let turned = times_i(m, z);
    let value = tanh(m, turned);
    over_i(m, value)
}

/// `sqrt(1 - z)` and `sqrt(1 + z)`.
fn roots_of_one(m: &mut Math<'_>, z: Pair) -> (Pair, Pair) {
    let (less, more) = (m.c_sub(1.0, z.0), m.add_c(z.0, 1.0));
    let minus = m.neg(z.1);
    (sqrt(m, (less, minus)), sqrt(m, (more, z.1)))
}

/// Imaginary part of `conj(u) v`.
fn cross(m: &mut Math<'_>, u: Pair, v: Pair) -> Reg {
    let product = m.mul(u.1, v.0);
    let minus = m.neg(product);
    m.fma(u.0, v.1, minus)
}

pub(super) fn asin(m: &mut Math<'_>, z: Pair) -> Pair {
    let (less, more) = roots_of_one(m, z);
    let product = multiply(m, less, more);
    let re = real_inverse::atan2(m, z.0, product.0);
    let im = cross(m, less, more);
    (re, real_inverse::asinh(m, im))
}

pub(super) fn acos(m: &mut Math<'_>, z: Pair) -> Pair {
    let (less, more) = roots_of_one(m, z);
    let half = real_inverse::atan2(m, less.0, more.0);
    let im = cross(m, more, less);
    (m.add(half, half), real_inverse::asinh(m, im))
}

/// `asinh z = asin(i z) / i`.
pub(super) fn asinh(m: &mut Math<'_>, z: Pair) -> Pair {
    let turned = times_i(m, z);
    let value = asin(m, turned);
    over_i(m, value)
}

pub(super) fn acosh(m: &mut Math<'_>, z: Pair) -> Pair {
    let one = (m.c(1.0), m.c(0.0));
    let (less, more) = (subtract(m, z, one), add(m, z, one));
    let (less, more) = (sqrt(m, less), sqrt(m, more));
    let product = m.mul(less.1, more.1);
    let re = m.fma(less.0, more.0, product);
    let half = real_inverse::atan2(m, less.1, more.0);
    (real_inverse::asinh(m, re), m.add(half, half))
}

/// `(log1p(4 x / ((1 - x)^2 + y^2)) / 4, atan2(2 y, (1 - x) (1 + x) - y^2) / 2)`.
pub(super) fn atanh(m: &mut Math<'_>, z: Pair) -> Pair {
    let (less, more) = (m.c_sub(1.0, z.0), m.add_c(z.0, 1.0));
    let square = m.mul(z.1, z.1);
    let distance = m.fma(less, less, square);
    let four = m.mul_c(z.0, 4.0);
    let argument = m.div(four, distance);
    let re = real_log::log1p(m, argument);
    let minus = m.neg(square);
    let across = m.fma(less, more, minus);
    let twice = m.add(z.1, z.1);
    let im = real_inverse::atan2(m, twice, across);
    (m.mul_c(re, 0.25), m.mul_c(im, 0.5))
}

/// `atan z = atanh(i z) / i`.
pub(super) fn atan(m: &mut Math<'_>, z: Pair) -> Pair {
    let turned = times_i(m, z);
    let value = atanh(m, turned);
    over_i(m, value)
}

/// `-i log((x + i y) / sqrt(x^2 + y^2))`.
pub(super) fn atan2(m: &mut Math<'_>, y: Pair, x: Pair) -> Pair {
    let turned = times_i(m, y);
    let numerator = add(m, x, turned);
    let (x_square, y_square) = (multiply(m, x, x), multiply(m, y, y));
    let sum = add(m, x_square, y_square);
    let root = sqrt(m, sum);
    let quotient = divide(m, numerator, root);
    let value = log(m, quotient);
    over_i(m, value)
}
