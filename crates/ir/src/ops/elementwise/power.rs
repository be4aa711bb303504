//! `x` to the power of `y`: `e^(y log |x|)` with the logarithm as a sum of two floats.

use super::exponential::exp_sum;
use super::logarithm::parts;
use super::math::Math;
use jaxrs_kernel::{Compare, CompareKind, Reg};

/// `(log((1 + s) / (1 - s)) - 2 s) / s^3` in `s^2`, to 2^-37.5 of the logarithm, less the `f32`
/// nearest to 2/3.
const LOG_FOR_32: &[f64] =
    &[-3.04986942367691e-08, 4.000034568e-01, 2.853658609e-01, 2.359680419e-01];
const TWO_THIRDS_32: f64 = 0.6666666865348816;

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
    let log = log_sum(m, size);
    let (value, product) = exp_of_product(m, y, log);
    // Right where |x| is normal and the exponent of e is of a moderate size.
    let normal = m.is_normal(size);
    let extent = m.abs(product);
    let moderate = m.lt(extent, MODERATE);
    let common = m.and(normal, moderate);
    let other = m.not(common);
    let value = m.rarely(other, &[value], |m| vec![special_power(m, x, size, y)])[0];
    // A negative x, zero included.
    let bits = m.bits(x);
    let zero = m.int(0);
    let negative = m.b.compare(Compare::Lt, CompareKind::Signed, bits, zero);
    m.rarely(negative, &[value], |m| vec![of_negative(m, x, y, value)])[0]
}

/// Above this the power is infinite or zero.
const MODERATE: f64 = 1e4;

/// `e^(y log)`, and the product.
fn exp_of_product(m: &mut Math<'_>, y: Reg, (high, low): (Reg, Reg)) -> (Reg, Reg) {
    let (product, rest) = m.two_mul(y, high);
    let rest = m.fma(y, low, rest);
    (exp_sum(m, product, rest), product)
}

/// The power of `|x|` for any `x` and `y`, and what IEEE 754 says of ones, zeros and NaN.
fn special_power(m: &mut Math<'_>, x: Reg, size: Reg, y: Reg) -> Reg {
    // Below the normal range x is scaled into it.
    let (least, shift) =
        if m.wide() { (f64::MIN_POSITIVE, 54) } else { (f32::MIN_POSITIVE.into(), 24) };
    let small = m.lt(size, least);
    let scaled = m.mul_c(size, 2f64.powi(shift));
    let scaled = m.select(small, scaled, size);
    let (high, low) = log_sum(m, scaled);
    let [ln_2, ln_2_rest] = if m.wide() { LN_2_64 } else { LN_2_32 };
    let moved = m.select_cc(small, -f64::from(shift) * ln_2, 0.0);
    let moved_low = m.select_cc(small, -f64::from(shift) * ln_2_rest, 0.0);
    let shifted = m.two_add(high, moved);
    let low = m.add(low, moved_low);
    let low = m.add(shifted.1, low);
    let zero = m.eq(size, 0.0);
    let high = m.select_c(zero, f64::NEG_INFINITY, shifted.0);
    let finite = m.lt(size, f64::INFINITY);
    let high = m.select(finite, high, size);
    let product = m.mul(y, high);
    let extent = m.abs(product);
    let moderate = m.lt(extent, MODERATE);
    let minus = m.neg(product);
    let rest = m.fma(y, high, minus);
    let rest = m.fma(y, low, rest);
    let none = m.c(0.0);
    let rest = m.select(moderate, rest, none);
    let value = exp_sum(m, product, rest);
    // (+-1)^(+-inf) = 1, and 1^y = x^0 = 1 even for NaN.
    let (unit_size, y_size) = (m.eq(size, 1.0), m.abs(y));
    let y_infinite = m.eq(y_size, f64::INFINITY);
    let unit = m.and(unit_size, y_infinite);
    let (one, zero) = (m.eq(x, 1.0), m.eq(y, 0.0));
    let unit = m.or(unit, one);
    let unit = m.or(unit, zero);
    m.select_c(unit, 1.0, value)
}

/// The power of a negative `x` from that of `|x|`: its sign, and NaN where `y` is not whole.
fn of_negative(m: &mut Math<'_>, x: Reg, y: Reg, value: Reg) -> Reg {
    let whole = m.trunc(y);
    let is_whole = m.cmp(Compare::Eq, whole, y);
    let half = m.mul_c(y, 0.5);
    let half_whole = m.trunc(half);
    let has_half = m.cmp(Compare::Ne, half_whole, half);
    let odd = m.and(is_whole, has_half);
    let minus = m.neg(value);
    let value = m.select(odd, minus, value);
    // Of -0 and -inf every power is a limit.
    let (below, bounded) = (m.lt(x, 0.0), m.gt(x, f64::NEG_INFINITY));
    let fraction = m.not(is_whole);
    let undefined = m.and(below, bounded);
    let undefined = m.and(undefined, fraction);
    m.select_c(undefined, f64::NAN, value)
}

/// The logarithm of a positive normal number as a sum of two floats.
fn log_sum(m: &mut Math<'_>, size: Reg) -> (Reg, Reg) {
    let parts = parts(m, size);
    let e = parts.exponent(m);
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

/// `s^2`, and `s^3` as a sum of two floats.
fn cube_sum(m: &mut Math<'_>, s: Reg, s_low: Reg) -> (Reg, Reg, Reg) {
    let (z, z_low) = m.two_mul(s, s);
    let twice = m.add(s, s);
    let z_low = m.fma(twice, s_low, z_low);
    let (cube, cube_low) = m.two_mul(s, z);
    let cube_low = m.fma(s, z_low, cube_low);
    (z, cube, m.fma(s_low, z, cube_low))
}

/// `log((1 + s) / (1 - s))`: `2 s + 2/3 s^3` in two floats, the rest in one.
fn tail_32(m: &mut Math<'_>, s: Reg, s_low: Reg) -> (Reg, Reg) {
    let (z, cube, cube_low) = cube_sum(m, s, s_low);
    let poly = m.poly(z, LOG_FOR_32);
    let twice_low = m.add(s_low, s_low);
    let tail = m.fma(cube, poly, twice_low);
    let two_thirds = m.c(TWO_THIRDS_32);
    let tail = m.fma(cube_low, two_thirds, tail);
    let twice = m.add(s, s);
    let log = m.fma(cube, two_thirds, twice);
    let rest = m.sub(twice, log);
    let log_low = m.fma(cube, two_thirds, rest);
    (log, m.add(log_low, tail))
}

/// The same, that term in two floats.
fn tail_64(m: &mut Math<'_>, s: Reg, s_low: Reg) -> (Reg, Reg) {
    let (z, cube, cube_low) = cube_sum(m, s, s_low);
    let twice = m.add(s, s);
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
