//! The error function, its complement and its inverse.

use super::exponential::{exp_moderate, exp_product};
use super::math::Math;
use jaxrs_kernel::Reg;

/// `erf(x) / x - 1` in `x^2` for `x` to 0.93 (2^-25.8) and to 1 (2^-62.7).
const ERF_32: &[f64] = &[
    1.283791477e-01,
    -3.761248116e-01,
    1.128168285e-01,
    -2.676172342e-02,
    4.985938904e-03,
    -5.953711091e-04,
];
const ERF_64: &[f64] = &[
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954858,
    -0.026866170645072938,
    0.00522397762478121,
    -0.0008548326978757313,
    0.00012055331037300316,
    -1.4925593513328211e-05,
    1.6460972875341212e-06,
    -1.635002542305974e-07,
    1.4657878727034427e-08,
    -1.136565330184479e-09,
    5.94522793605812e-11,
];
/// `-log(erfc(x)) / x` for `x` from 0.92 to 4, to 2^-30 of `erf(x)`.
const LOG_ERFC_32: &[f64] = &[
    1.128648467e+00,
    6.351514099e-01,
    1.062367260e-01,
    -2.376193640e-02,
    3.642401862e-03,
    -3.227906212e-04,
    1.123008346e-05,
];
/// `(1 + 2 x) e^(x^2) erfc(x)` in `(x - k) / (x + k)`: `k` = 2 for `x` to 10.2 (2^-26), 4 for `x`
/// to 27.4 (2^-59.5).
const ERFCX_32: &[f64] = &[
    1.276978394e+00,
    -9.276398506e-02,
    -1.660314611e-01,
    1.640554257e-01,
    -5.420388254e-02,
    -8.060142830e-03,
    8.630093392e-03,
    1.313307658e-03,
    -1.227998559e-03,
    -3.994467818e-04,
];
const ERFCX_64: &[f64] = &[
    1.2329951186255526,
    -0.13962111684056253,
    0.015379652102619655,
    0.06809705425469542,
    -0.10103906603629964,
    0.09373283499825139,
    -0.0663303658123171,
    0.03716751553908183,
    -0.016197734056679947,
    0.005031969963689829,
    -0.0007577732964321743,
    -0.0001992566175090325,
    0.00015062171445509576,
    -2.439947510934546e-05,
    -1.1222170878574118e-05,
    5.7102794862895765e-06,
    2.941731867324779e-07,
    -8.2608877819175e-07,
    7.404154027932588e-08,
    1.1042487701574722e-07,
    -1.7385700181244114e-08,
    -1.4087618828052864e-08,
    1.6384642561021836e-09,
    1.1870070516045117e-09,
];

/// `erfc(x)` for `x >= 0`: `e^(-x^2)` times a quotient, with the rounding errors of the square and
/// of the quotient put back.
fn erfc_positive(m: &mut Math<'_>, x: Reg) -> Reg {
    let (k, limit) = if m.wide() { (4.0, 27.4) } else { (2.0, 10.2) };
    let x = m.min_c(x, limit);
    let (less, more) = (m.add_c(x, -k), m.add_c(x, k));
    let q = m.div(less, more);
    let coefficients = if m.wide() { ERFCX_64 } else { ERFCX_32 };
    let g = m.poly(q, coefficients);
    let denominator = m.fma_cc(x, 2.0, 1.0);
    let quotient = m.div(g, denominator);
    let minus = m.neg(quotient);
    let rest = m.fma(minus, denominator, g);
    let back = m.c_sub(1.0, denominator);
    let denominator_low = m.fma_c(x, 2.0, back);
    let rest = m.fma(minus, denominator_low, rest);
    // The rest relative to g, which is from 1 to 1.28.
    let rest = m.mul_c(rest, 0.85);
    let (square, square_low) = m.two_mul(x, x);
    let exponent = m.neg(square);
    let low = m.sub(rest, square_low);
    exp_product(m, quotient, exponent, low)
}

/// `erf(x)` for small `x`.
fn erf_near(m: &mut Math<'_>, x: Reg) -> Reg {
    let coefficients = if m.wide() { ERF_64 } else { ERF_32 };
    let square = m.mul(x, x);
    let poly = m.poly(square, coefficients);
    m.fma(poly, x, x)
}

pub(super) fn erfc(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let value = erfc_positive(m, size);
    let mirrored = m.c_sub(2.0, value);
    let left = m.lt(x, 0.0);
    let far = m.select(left, mirrored, value);
    let near = erf_near(m, x);
    let near = m.c_sub(1.0, near);
    let is_near = m.lt(size, 0.5);
    m.select(is_near, near, far)
}

pub(super) fn erf(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let far = if m.wide() {
        let value = erfc_positive(m, size);
        m.c_sub(1.0, value)
    } else {
        let size = m.min_c(size, 4.0);
        let slope = m.poly(size, LOG_ERFC_32);
        let exponent = m.mul(slope, size);
        let exponent = m.neg(exponent);
        let value = exp_moderate(m, exponent);
        m.c_sub(1.0, value)
    };
    let far = m.with_sign(far, x);
    let near = erf_near(m, x);
    let limit = if m.wide() { 1.0 } else { 0.925 };
    let is_far = m.gt(size, limit);
    m.select(is_far, far, near)
}
