//! `x` to the power of `y`: `e^(y log |x|)` with the logarithm as a sum of two floats.

use super::exponential::exp_sum;
use super::logarithm::parts;
use super::math::Math;
use jaxrs_kernel::{Compare, Reg};

/// `(log((1 + s) / (1 - s)) - 2 s) / s^3` in `s^2`, to 2^-37.5 of the logarithm.
const LOG_FOR_32: &[f64] = &[6.666666560e-01, 4.000034568e-01, 2.853658609e-01, 2.359680419e-01];

/// `(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5` in `s^2`, to 2^-66 of the logarithm.
const LOG_FOR_64: &[f64] = &[
    0.4000000000000242,
    0.28571428570014346,
    0.22222222535923009,
    0.18181782905367455,
    0.15386827217286622,
    0.13255136923113361,
    0.13212377817285278,
];

/// ln 2 with so many of its last bits zero that multiples by exponents are exact, and the rest; of
/// an `f32` and an `f64`.
const LN_2_32: [f64; 2] = [0.693145751953125, 1.4286068203094173e-06];
const LN_2_64: [f64; 2] = [0.6931471805598903, 5.497923018708371e-14];

pub(super) fn power(m: &mut Math<'_>, x: Reg, y: Reg) -> Reg {
    let size = m.abs(x);
    let value = power_of_size(m, size, y);
    with_specials(m, x, y, value)
}

/// Signs, and what IEEE 754 says of zeros, ones, infinities and NaN.
fn with_specials(m: &mut Math<'_>, x: Reg, y: Reg, value: Reg) -> Reg {
    let whole = m.trunc(y);
    let is_whole = m.cmp(Compare::Eq, whole, y);
    let half = m.mul_c(y, 0.5);
    let half_whole = m.trunc(half);
    let has_half = m.cmp(Compare::Ne, half_whole, half);
    let odd = m.and(is_whole, has_half);
    let flipped = m.flip_sign(value, x);
    let value = m.select(odd, flipped, value);
    let (negative, bounded) = (m.lt(x, 0.0), m.gt(x, f64::NEG_INFINITY));
    let root_of_negative = m.not(is_whole);
    let undefined = m.and(negative, bounded);
    let undefined = m.and(undefined, root_of_negative);
    let value = m.select_c(undefined, f64::NAN, value);
    // (-1)^(+-inf) = 1, and 1^y = x^0 = 1 even for NaN.
    let (minus_one, y_size) = (m.eq(x, -1.0), m.abs(y));
    let y_infinite = m.eq(y_size, f64::INFINITY);
    let unit = m.and(minus_one, y_infinite);
    let (one, zero) = (m.eq(x, 1.0), m.eq(y, 0.0));
    let unit = m.or(unit, one);
    let unit = m.or(unit, zero);
    m.select_c(unit, 1.0, value)
}

/// -inf of zero; infinity and NaN themselves; else `value`.
fn log_specials(m: &mut Math<'_>, size: Reg, value: Reg) -> Reg {
    let zero = m.eq(size, 0.0);
    let value = m.select_c(zero, f64::NEG_INFINITY, value);
    let finite = m.lt(size, f64::INFINITY);
    m.select(finite, value, size)
}

fn power_of_size(m: &mut Math<'_>, size: Reg, y: Reg) -> Reg {
    let (high, low) = log_sum(m, size);
    let high = log_specials(m, size, high);
    let finite = m.abs(high);
    let finite = m.lt(finite, f64::INFINITY);
    let none = m.c(0.0);
    let low = m.select(finite, low, none);
    let (product, rest) = m.two_mul(y, high);
    let rest = m.fma(y, low, rest);
    // Where the product overflows or is zero, its rest is not a number, or nothing.
    let extent = m.abs(product);
    let moderate = m.lt(extent, 1e4);
    let rest = m.select(moderate, rest, none);
    exp_sum(m, product, rest)
}

/// The logarithm of a positive finite number as a sum of two floats.
fn log_sum(m: &mut Math<'_>, size: Reg) -> (Reg, Reg) {
    let (least, shift) =
        if m.wide() { (f64::MIN_POSITIVE, 54) } else { (f32::MIN_POSITIVE.into(), 24) };
    let small = m.lt(size, least);
    let scaled = m.mul_c(size, 2f64.powi(shift));
    let scaled = m.select(small, scaled, size);
    let parts = parts(m, scaled);
    let shift = m.select_cc(small, -f64::from(shift), 0.0);
    let e = parts.exponent(m);
    let e = m.add(e, shift);
    // s = f / (2 + f), with the sum's and the quotient's rounding errors in the low part.
    let f = m.add_c(parts.m, -1.0);
    let sum = m.add_c(parts.m, 1.0);
    let back = m.add_c(sum, -1.0);
    let sum_low = m.sub(parts.m, back);
    let one = m.c(1.0);
    let reciprocal = m.div(one, sum);
    let s = m.mul(f, reciprocal);
    let minus_s = m.neg(s);
    let rest = m.fma(minus_s, sum, f);
    let rest = m.fma(minus_s, sum_low, rest);
    let s_low = m.mul(rest, reciprocal);
    let (log, tail) = if m.wide() { tail_64(m, s, s_low) } else { tail_32(m, s, s_low) };
    // e ln 2.
    let [ln_2, ln_2_rest] = if m.wide() { LN_2_64 } else { LN_2_32 };
    let high = m.mul_c(e, ln_2);
    let tail = m.fma_c(e, ln_2_rest, tail);
    let (high, low) = m.quick_two_add(high, log);
    let low = m.add(low, tail);
    m.quick_two_add(high, low)
}

/// `log((1 + s) / (1 - s))`: the term of third order may be rounded.
fn tail_32(m: &mut Math<'_>, s: Reg, s_low: Reg) -> (Reg, Reg) {
    let z = m.mul(s, s);
    let cube = m.mul(z, s);
    let poly = m.poly(z, LOG_FOR_32);
    let twice_low = m.add(s_low, s_low);
    (m.add(s, s), m.fma(cube, poly, twice_low))
}

/// The same, that term in two floats.
fn tail_64(m: &mut Math<'_>, s: Reg, s_low: Reg) -> (Reg, Reg) {
    let (z, z_low) = m.two_mul(s, s);
    let twice = m.add(s, s);
    let z_low = m.fma(twice, s_low, z_low);
    let (cube, cube_low) = m.two_mul(s, z);
    let cube_low = m.fma(s, z_low, cube_low);
    let cube_low = m.fma(s_low, z, cube_low);
    // 2/3 s^3.
    let third = m.c(2.0 / 3.0);
    let (p, p_low) = m.two_mul(cube, third);
    let p_low = m.fma_c(cube, 3.700743415417188e-17, p_low);
    let p_low = m.fma(cube_low, third, p_low);
    // The rest in one float.
    let poly = m.poly(z, LOG_FOR_64);
    let fifth = m.mul(cube, z);
    let tail = m.fma(fifth, poly, p_low);
    let tail = m.fma_c(s_low, 2.0, tail);
    let (log, log_low) = m.quick_two_add(twice, p);
    (log, m.add(log_low, tail))
}
