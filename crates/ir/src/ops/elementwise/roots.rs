//! Roots.

use super::math::Math;
use jaxrs_kernel::{BinaryOp, Reg};

pub(super) fn sqrt(m: &mut Math<'_>, x: Reg) -> Reg {
    m.sqrt(x)
}

pub(super) fn rsqrt(m: &mut Math<'_>, x: Reg) -> Reg {
    let root = m.sqrt(x);
    let one = m.c(1.0);
    m.div(one, root)
}

/// `m^(-1/3)` for `m` from 1 to 2, to 2^-14.7.
const RECIPROCAL_CBRT: &[f64] = &[
    1.6700067641938048,
    -1.1728803652098483,
    0.6954828710432785,
    -0.22123799430852967,
    0.028591053822838983,
];

/// `|x| = 2^(3q + k) m`: from a first guess of `m^(-1/3)`, which one step of third order makes
/// exact to rounding, and one of Newton's on the root itself.
pub(super) fn cbrt(m: &mut Math<'_>, x: Reg) -> Reg {
    let mantissa = m.mantissa();
    let size = m.abs(x);
    let least = if m.wide() { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE.into() };
    // Below the normal range: scaled by a power of 8.
    let small = m.lt(size, least);
    let scaled = m.mul_c(size, 2f64.powi(if m.wide() { 54 } else { 24 }));
    let scaled = m.select(small, scaled, size);
    let after = m.select_cc(small, 2f64.powi(if m.wide() { -18 } else { -8 }), 1.0);

    let bits = m.bits(scaled);
    let exponent = m.int_c(BinaryOp::ShrU, bits, mantissa);
    let carrier = m.bits_of(2f64.powi(mantissa as i32));
    let float = m.int_c(BinaryOp::Or, exponent, carrier);
    let float = m.float(float);
    let bias = if m.wide() { 1023.0 } else { 127.0 };
    let power = 2f64.powi(mantissa as i32);
    let e = m.add_c(float, -(power + bias));
    let third = m.mul_c(e, 1.0 / 3.0);
    // A little up, so that a multiple of 3 is not rounded below itself.
    let third = m.add_c(third, 0.01);
    let q = m.floor(third);
    let k = m.fma_c(q, -3.0, e);
    let fraction = m.int_c(BinaryOp::And, bits, (1 << mantissa) - 1);
    let one = m.bits_of(1.0);
    let fraction = m.int_c(BinaryOp::Or, fraction, one);
    let fraction = m.float(fraction);
    // a = 2^k m, from 1 to 8, and the guess of a^(-1/3).
    let guess = m.poly(fraction, RECIPROCAL_CBRT);
    let (first, second) = (m.ge(k, 1.0), m.ge(k, 2.0));
    let factor = m.select_cc(first, 2.0, 1.0);
    let factor = m.select_c(second, 4.0, factor);
    let shrink = m.select_cc(first, 0.5f64.cbrt(), 1.0);
    let shrink = m.select_c(second, 0.25f64.cbrt(), shrink);
    let a = m.mul(fraction, factor);
    let guess = m.mul(guess, shrink);
    // One step: z (1 + d/3 + 2 d^2/9) with d = 1 - a z^3.
    let square = m.mul(guess, guess);
    let cube = m.mul(square, guess);
    let one = m.c(1.0);
    let minus = m.neg(a);
    let d = m.fma(cube, minus, one);
    let step = m.fma_cc(d, 2.0 / 9.0, 1.0 / 3.0);
    let step = m.mul(step, d);
    let z = m.fma(guess, step, guess);
    // The root a z^2, and its residual a - y^3 with the square's rounding error in it.
    let z_square = m.mul(z, z);
    let y = m.mul(a, z_square);
    let (high, low) = m.two_mul(y, y);
    let minus_y = m.neg(y);
    let rest = m.fma(high, minus_y, a);
    let rest = m.fma(low, minus_y, rest);
    let slope = m.mul_c(z_square, 1.0 / 3.0);
    let y = m.fma(rest, slope, y);
    // Times 2^q.
    let magic = power * 1.5 + bias;
    let q = m.add_c(q, magic);
    let q = m.bits(q);
    let q = m.int_c(BinaryOp::Shl, q, mantissa);
    let q = m.float(q);
    let y = m.mul(y, q);
    let y = m.mul(y, after);
    let y = m.with_sign(y, x);
    // Zero, infinity and NaN are their own roots.
    let normal = m.lt(size, f64::INFINITY);
    let y = m.select(normal, y, x);
    let zero = m.eq(x, 0.0);
    m.select(zero, x, y)
}
