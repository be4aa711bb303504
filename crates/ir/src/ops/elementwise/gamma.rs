//! The logarithm of the gamma function, its derivatives, and the zeta function of Hurwitz. All are
//! computed in `f64`, of `f32` elements too, and rounded at the end.

use super::complex::{round_to, widen};
use super::exponential::exp;
use super::logarithm::{log, log1p};
use super::math::Math;
use super::power::power;
use super::trigonometric::{sin_cos_pi, sin_pi_size};
use jaxrs_kernel::{Compare, Reg, RegType};
use std::f64::consts::PI;

/// Lanczos' approximation with g = 7 and nine terms: `gamma(z + 1)` is
/// `sqrt(2 pi) (z + 7.5)^(z + 0.5) e^-(z + 7.5)` times `FIRST + sum(TERMS[k] / (z + k + 1))`.
const G: f64 = 7.0;
const FIRST: f64 = 0.9999999999998099;
const TERMS: [f64; 8] = [
    676.5203681218851,
    -1259.1392167224028,
    771.3234287776531,
    -176.6150291621406,
    12.507343278686905,
    -0.13857109526572012,
    9.984369578019572e-6,
    1.5056327351493116e-7,
];

/// A body of one operand computed in `f64`.
pub(super) fn in_double(
    m: &mut Math<'_>,
    x: Reg,
    body: impl FnOnce(&mut Math<'_>, Reg) -> Reg,
) -> Reg {
    let ty = m.ty;
    let wide = widen(m.b, x);
    let value = body(&mut Math::new(m.b, RegType::F64), wide);
    round_to(m.b, value, ty)
}

/// The same of two operands.
fn in_double2(
    m: &mut Math<'_>,
    x: Reg,
    y: Reg,
    body: impl FnOnce(&mut Math<'_>, Reg, Reg) -> Reg,
) -> Reg {
    let ty = m.ty;
    let (x, y) = (widen(m.b, x), widen(m.b, y));
    let value = body(&mut Math::new(m.b, RegType::F64), x, y);
    round_to(m.b, value, ty)
}

/// `log |gamma(x)|`.
pub(super) fn lgamma(m: &mut Math<'_>, x: Reg) -> Reg {
    in_double(m, x, lgamma_double)
}

/// By Lanczos; left of 1/2 by `log(pi / |sin(pi x)|) - lgamma(1 - x)`.
fn lgamma_double(m: &mut Math<'_>, x: Reg) -> Reg {
    let left = m.lt(x, 0.5);
    let minus = m.neg(x);
    let less = m.add_c(x, -1.0);
    let z = m.select(left, minus, less);
    let mut sum = m.c(FIRST);
    for (k, &term) in TERMS.iter().enumerate() {
        let at = m.add_c(z, k as f64 + 1.0);
        let numerator = m.c(term);
        let part = m.div(numerator, at);
        sum = m.add(sum, part);
    }
    // (z + 1/2 - t / log t) log t with t = z + 7.5.
    let base = G + 0.5;
    let t = m.add_c(z, base);
    let scaled = m.mul_c(z, 1.0 / base);
    let log_t = log1p(m, scaled);
    let log_t = m.add_c(log_t, base.ln());
    let half = m.add_c(z, 0.5);
    let ratio = m.div(t, log_t);
    let factor = m.sub(half, ratio);
    let log_sum = log(m, sum);
    let tail = m.add_c(log_sum, 0.5 * (2.0 * PI).ln());
    let right = m.fma(factor, log_t, tail);
    let size = sin_pi_size(m, x);
    // Near zero `-log |x|`, as `pi x` is not exact below the normal range.
    let extent = m.abs(x);
    let tiny = m.lt(extent, 1e-200);
    let sine = m.select(tiny, extent, size);
    let log_sine = log(m, sine);
    let log_pi = m.select_cc(tiny, 0.0, PI.ln());
    let reflected = m.sub(log_pi, log_sine);
    let reflected = m.sub(reflected, right);
    let value = m.select(left, reflected, right);
    // Infinite at both ends and at the poles, where the sine is 0.
    let infinite = m.eq(extent, f64::INFINITY);
    let pole = m.eq(size, 0.0);
    let pole = m.and(left, pole);
    let infinite = m.or(infinite, pole);
    m.select_c(infinite, f64::INFINITY, value)
}

/// The derivative of `lgamma`.
pub(super) fn digamma(m: &mut Math<'_>, x: Reg) -> Reg {
    in_double(m, x, digamma_double)
}

/// By the asymptotic series after steps up to 10; left of 1/2 by `digamma(1 - x) - pi cot(pi x)`.
fn digamma_double(m: &mut Math<'_>, x: Reg) -> Reg {
    const STEPS: usize = 10;
    /// `-B(2k) / (2k)`.
    const SERIES: [f64; 9] = [
        -1.0 / 12.0,
        1.0 / 120.0,
        -1.0 / 252.0,
        1.0 / 240.0,
        -1.0 / 132.0,
        691.0 / 32760.0,
        -1.0 / 12.0,
        3617.0 / 8160.0,
        -43867.0 / 14364.0,
    ];
    let left = m.lt(x, 0.5);
    let mirrored = m.c_sub(1.0, x);
    let start = m.select(left, mirrored, x);
    // digamma(z) = digamma(z + 1) - 1/z, for as long as z is below 10.
    let (mut z, mut steps) = (start, m.c(0.0));
    for _ in 0..STEPS {
        let below = m.lt(z, STEPS as f64);
        let one = m.c(1.0);
        let part = m.div(one, z);
        let zero = m.c(0.0);
        let part = m.select(below, part, zero);
        steps = m.add(steps, part);
        let step = m.select(below, one, zero);
        z = m.add(z, step);
    }
    let one = m.c(1.0);
    let inverse = m.div(one, z);
    let square = m.mul(inverse, inverse);
    let series = m.poly(square, &SERIES);
    let log_z = log(m, z);
    let half = m.fma_c(inverse, -0.5, log_z);
    let value = m.fma(series, square, half);
    let value = m.sub(value, steps);
    let (sin, cos) = sin_cos_pi(m, x);
    let cot = m.div(cos, sin);
    let reflected = m.fma_c(cot, -PI, value);
    let value = m.select(left, reflected, value);
    // Poles at zero and the negative integers.
    let whole = m.floor(x);
    let is_whole = m.cmp(Compare::Eq, whole, x);
    let not_positive = m.le(x, 0.0);
    let pole = m.and(is_whole, not_positive);
    m.select_c(pole, f64::NAN, value)
}

/// Zeta of Hurwitz: the sum of `(q + k)^-x` over all `k >= 0`.
pub(super) fn zeta(m: &mut Math<'_>, x: Reg, q: Reg) -> Reg {
    in_double2(m, x, q, zeta_double)
}

/// Ten terms, then Euler and Maclaurin's formula for the others.
fn zeta_double(m: &mut Math<'_>, x: Reg, q: Reg) -> Reg {
    const TERMS: usize = 10;
    /// `B(2k) / (2k)!`.
    const BERNOULLI: [f64; 12] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30240.0,
        -1.0 / 1209600.0,
        1.0 / 47900160.0,
        -691.0 / 1307674368000.0,
        1.0 / 74724249600.0,
        -3617.0 / 10670622842880000.0,
        43867.0 / 5109094217170944000.0,
        -174611.0 / 802857662698291200000.0,
        77683.0 / 14101100039391805440000.0,
        -236364091.0 / 1693824136731743669452800000.0,
    ];
    let minus_x = m.neg(x);
    let mut sum = m.c(0.0);
    for k in 0..TERMS {
        let base = m.add_c(q, k as f64);
        let term = power(m, base, minus_x);
        sum = m.add(sum, term);
    }
    let a = m.add_c(q, TERMS as f64);
    let last = power(m, a, minus_x);
    // a^(1-x) / (x - 1) + a^-x / 2.
    let less = m.add_c(x, -1.0);
    let integral = m.div(a, less);
    let ends = m.add_c(integral, 0.5);
    sum = m.fma(last, ends, sum);
    // B(2k) / (2k)! x (x + 1) ... (x + 2k - 2) a^(-x - 2k + 1), each from the one before.
    let one = m.c(1.0);
    let inverse = m.div(one, a);
    let square = m.mul(inverse, inverse);
    let mut factor = m.mul(x, inverse);
    factor = m.mul(factor, last);
    for (k, &bernoulli) in BERNOULLI.iter().enumerate() {
        sum = m.fma_c(factor, bernoulli, sum);
        let (first, second) = (m.add_c(x, 2.0 * k as f64 + 1.0), m.add_c(x, 2.0 * k as f64 + 2.0));
        let rise = m.mul(first, second);
        let rise = m.mul(rise, square);
        factor = m.mul(factor, rise);
    }
    // The series is for x > 1; at 1 it diverges. At a zero or negative integer q one term is
    // infinite; between them a negative base has no power but a whole one.
    let low = m.lt(x, 1.0);
    let value = m.select_c(low, f64::NAN, sum);
    let at_one = m.eq(x, 1.0);
    let value = m.select_c(at_one, f64::INFINITY, value);
    let not_positive = m.le(q, 0.0);
    let q_floor = m.floor(q);
    let q_whole = m.cmp(Compare::Eq, q_floor, q);
    let pole = m.and(not_positive, q_whole);
    let x_floor = m.floor(x);
    let x_whole = m.cmp(Compare::Eq, x_floor, x);
    let half = m.mul_c(x, 0.5);
    let half_floor = m.floor(half);
    let x_even = m.cmp(Compare::Eq, half_floor, half);
    let of_pole = m.select_cc(x_even, f64::INFINITY, f64::NAN);
    let fraction = m.not(x_whole);
    let undefined = m.and(not_positive, fraction);
    let value = m.select_c(undefined, f64::NAN, value);
    let value = m.select(pole, of_pole, value);
    let x_large = m.eq(x, f64::INFINITY);
    let q_one = m.eq(q, 1.0);
    let limit = m.and(x_large, q_one);
    m.select_c(limit, 1.0, value)
}

/// The derivative of order `n + 1` of `lgamma` at `x`: `(-1)^(n + 1) n! zeta(n + 1, x)`, digamma
/// for `n = 0`; NaN for an `n` that is no whole number or negative.
pub(super) fn polygamma(m: &mut Math<'_>, n: Reg, x: Reg) -> Reg {
    in_double2(m, n, x, |m, n, x| {
        let next = m.add_c(n, 1.0);
        let factorial = lgamma_double(m, next);
        let factorial = exp(m, factorial);
        let zeta = zeta_double(m, next, x);
        let value = m.mul(factorial, zeta);
        let half = m.mul_c(n, 0.5);
        let half_floor = m.floor(half);
        let even = m.cmp(Compare::Eq, half_floor, half);
        let minus = m.neg(value);
        let value = m.select(even, minus, value);
        let zero = m.eq(n, 0.0);
        let first = digamma_double(m, x);
        let value = m.select(zero, first, value);
        let n_floor = m.floor(n);
        let fraction = m.cmp(Compare::Ne, n_floor, n);
        let negative = m.lt(n, 0.0);
        let wrong = m.or(fraction, negative);
        m.select_c(wrong, f64::NAN, value)
    })
}
