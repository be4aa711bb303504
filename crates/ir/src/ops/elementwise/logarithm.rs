//! Logarithms.
//!
//! `x` is `2^e * m` with `m` from `sqrt(1/2)` to `sqrt(2)`, and `log x = e ln 2 + log(1 + f)` with
//! `f = m - 1`. The exponent becomes a float by being put into the low bits of a large one.

use super::math::Math;
use jaxrs_kernel::{BinaryOp, Reg};

const SQRT_HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// `(log(1 + f) - f + f^2 / 2) / f^3`, to 2^-27.3 of the logarithm.
const LOG_32: &[f64] = &[
    3.333333121e-01,
    -2.500083791e-01,
    2.000129215e-01,
    -1.662276531e-01,
    1.419970320e-01,
    -1.316419229e-01,
    1.277908588e-01,
    -7.646059866e-02,
];
/// `(log((1 + s) / (1 - s)) - 2 s) / s^3` in `s^2`, to 2^-59.4 of the logarithm.
const LOG_64: &[f64] = &[
    0.666666666666674,
    0.39999999999376645,
    0.28571428751667366,
    0.22222197543369074,
    0.1818362159400448,
    0.1531249553716287,
    0.14812356018643943,
];

/// `2^e * m` with `m` from `sqrt(1/2)` to `sqrt(2)`.
pub(super) struct Parts {
    /// The biased exponent, an integer.
    pub(super) exponent: Reg,
    /// The exponent as a float of its biased integer plus [`Math::mantissa`]'s power of two.
    exponent_float: Reg,
    /// `m`.
    pub(super) m: Reg,
}

/// Takes a positive normal number apart.
pub(super) fn parts(m: &mut Math<'_>, x: Reg) -> Parts {
    let (one, root) = (m.bits_of(1.0), m.bits_of(SQRT_HALF));
    let mantissa = m.mantissa();
    let bits = m.bits(x);
    let moved = m.int_c(BinaryOp::Add, bits, one - root);
    let exponent = m.int_c(BinaryOp::ShrU, moved, mantissa);
    let fraction = m.int_c(BinaryOp::And, moved, (1 << mantissa) - 1);
    let fraction = m.int_c(BinaryOp::Add, fraction, root);
    let fraction = m.float(fraction);
    let carrier = m.bits_of(2f64.powi(mantissa as i32));
    let float = m.int_c(BinaryOp::Or, exponent, carrier);
    let exponent_float = m.float(float);
    Parts { exponent, exponent_float, m: fraction }
}

/// What to subtract from [`Parts::exponent_float`] for the exponent.
fn exponent_offset(m: &Math<'_>) -> f64 {
    if m.wide() { 2f64.powi(52) + 1023.0 } else { 2f64.powi(23) + 127.0 }
}

impl Parts {
    /// The exponent as a float.
    pub(super) fn exponent(&self, m: &mut Math<'_>) -> Reg {
        let offset = exponent_offset(m);
        m.add_c(self.exponent_float, -offset)
    }
}

/// `e ln 2 + log(1 + f)`.
fn log_of(m: &mut Math<'_>, e: Reg, f: Reg) -> Reg {
    let square = m.mul(f, f);
    let ln_2 = std::f64::consts::LN_2;
    if m.wide() {
        // log(1 + f) = f - (f^2 / 2 - s (f^2 / 2 + R)) with s = f / (2 + f).
        let half_square = m.mul_c(square, 0.5);
        let two_f = m.add_c(f, 2.0);
        let s = m.div(f, two_f);
        let z = m.mul(s, s);
        let poly = m.poly(z, LOG_64);
        let sum = m.fma(z, poly, half_square);
        let low = m.mul_c(e, 2.319_046_813_846_299_6e-17);
        let inner = m.fma(s, sum, low);
        let inner = m.sub(half_square, inner);
        let high = m.mul_c(e, ln_2);
        let high_low = m.neg(high);
        let high_low = m.fma_c(e, ln_2, high_low);
        let inner = m.sub(inner, high_low);
        let rest = m.sub(inner, f);
        return m.sub(high, rest);
    }
    let high = f64::from(ln_2 as f32);
    let low = m.mul_c(e, ln_2 - high);
    let poly = m.poly(f, LOG_32);
    let poly = m.mul(poly, f);
    let poly = m.add_c(poly, -0.5);
    let tail = m.fma(square, poly, low);
    let sum = m.add(f, tail);
    m.fma_c(e, high, sum)
}

pub(super) fn log(m: &mut Math<'_>, x: Reg) -> Reg {
    let value = log_of_normal(m, x, 0.0);
    let normal = m.is_normal(x);
    let other = m.not(normal);
    m.rarely(other, &[value], |m| {
        // A number below the normal range is scaled into it.
        let mantissa = m.mantissa();
        let scaled = m.mul_c(x, 2f64.powi(mantissa as i32));
        let value = log_of_normal(m, scaled, mantissa as f64);
        vec![special(m, x, 0.0, value)]
    })[0]
}

/// The logarithm of a positive normal number over `2^scale`.
fn log_of_normal(m: &mut Math<'_>, x: Reg, scale: f64) -> Reg {
    let parts = parts(m, x);
    let offset = exponent_offset(m) + scale;
    let e = m.add_c(parts.exponent_float, -offset);
    let f = m.add_c(parts.m, -1.0);
    log_of(m, e, f)
}

/// `value` for `pole < x < inf`; -inf at the pole, NaN below; infinity and NaN themselves.
fn special(m: &mut Math<'_>, x: Reg, pole: f64, value: Reg) -> Reg {
    let finite = m.lt(x, f64::INFINITY);
    let value = m.select(finite, value, x);
    let at_pole = m.eq(x, pole);
    let beyond = m.select_cc(at_pole, f64::NEG_INFINITY, f64::NAN);
    let outside = m.le(x, pole);
    m.select(outside, beyond, value)
}

/// With `u = 1 + x` rounded and what rounding lost put back.
pub(super) fn log1p(m: &mut Math<'_>, x: Reg) -> Reg {
    let u = m.add_c(x, 1.0);
    let back = m.add_c(u, -1.0);
    let lost = m.sub(x, back);
    let parts = parts(m, u);
    // The scale 2^-e; nothing is lost where that would overflow.
    let (mantissa, most) = (m.mantissa(), if m.wide() { 2046 } else { 254 });
    let bounded = m.int_c(BinaryOp::MinU, parts.exponent, most - 1);
    let shifted = m.int_c(BinaryOp::Shl, bounded, mantissa);
    let top = m.int(most << mantissa);
    let scale = m.b.binary(BinaryOp::Sub, top, shifted);
    let scale = m.float(scale);
    let f = m.add_c(parts.m, -1.0);
    let f = m.fma(lost, scale, f);
    let e = parts.exponent(m);
    let value = log_of(m, e, f);
    let value = special(m, x, -1.0, value);
    // Zero with its sign.
    let size = m.abs(x);
    let tiny = m.lt(size, 1e-20);
    m.select(tiny, x, value)
}
