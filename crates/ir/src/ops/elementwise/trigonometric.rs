//! Sine, cosine and tangent over the whole range.
//!
//! `x = n pi/2 + r` with `|r| <= pi/4`. For moderate `x`, `pi/2` is subtracted `n` times in three
//! pieces (Cody and Waite; with a fused multiply-add the first step is exact). For the others, `x`
//! is multiplied with as many bits of `2/pi` as matter (Payne and Hanek), in a branch of its own.

use super::math::Math;
use jaxrs_kernel::{BinaryOp, Compare, CompareKind, Reg};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// `pi/2` in pieces of 24 and of 53 bits, all positive.
const HALF_PI_32: [f64; 3] = [1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15];
const HALF_PI_64: [f64; 3] = [FRAC_PI_2, 6.123233995736765e-17, 1.0828566739219139e-32];

/// `2/pi` in pieces of 24 bits; piece `j` counts `2^(-24 (j + 1))`.
const TWO_OVER_PI_32: [u64; 9] =
    [0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041, 0xfe5163];

/// `2/pi` in pieces of 53 bits; piece `j` counts `2^(-53 (j + 1))`.
const TWO_OVER_PI_64: [u64; 24] = [
    0x145f306dc9c882,
    0x14a7f09d5f47d4,
    0x1a6ee06db14acc,
    0x13c439041fe516,
    0x757bd778ac36e,
    0x91b8e909374b8,
    0x324977504e8c,
    0x121cfe1deb1cb1,
    0x534e7dd1046be,
    0x14baed1213a671,
    0x18135a2fbf209c,
    0x191d639835339f,
    0x93908bf177bf2,
    0xa0ec7fe25fff7,
    0x102cc07f79788c,
    0xb5a0a6d1f6d36,
    0xfd9e4f96136e9,
    0x1d18fd9a797fa8,
    0x16ba93dd63f5f2,
    0x1f17b3d0739f78,
    0x14a525d4d7f6bf,
    0xc47e357421580,
    0x198237e3db5d5f,
    0x10cfbc209af436,
];

/// `(sin x - x) / x^3`, `(cos x - 1 + x^2 / 2) / x^4` and `(tan x - x) / x^3` in `x^2`, relative
/// errors 2^-28, 2^-31.8, 2^-29.5 and 2^-57.9, 2^-62, 2^-60.
const SIN_32: &[f64] = &[-1.666665452e-01, 8.332154806e-03, -1.951445491e-04];
const COS_32: &[f64] = &[4.166665455e-02, -1.388764784e-03, 2.446295527e-05];
const TAN_32: &[f64] = &[
    3.333335011e-01,
    1.333265082e-01,
    5.406138296e-02,
    2.127437371e-02,
    1.085666969e-02,
    6.235885423e-05,
    4.390032327e-03,
];
const SIN_64: &[f64] = &[
    -0.1666666666666663,
    0.008333333333321992,
    -0.0001984126982948084,
    2.7557313581569096e-06,
    -2.5050741224718106e-08,
    1.5895835036899398e-10,
];
const COS_64: &[f64] = &[
    0.04166666666666665,
    -0.001388888888888276,
    2.4801587294556576e-05,
    -2.7557315712320506e-07,
    2.0875893477195028e-09,
    -1.1367729850422856e-11,
];
const TAN_64: &[f64] = &[
    0.3333333333333338,
    0.13333333333325495,
    0.053968253972819555,
    0.021869488401624896,
    0.008863237884666945,
    0.003592101279097087,
    0.0014560426944132687,
    0.0005888788800489039,
    0.00024370018728789647,
    8.368852766544388e-05,
    6.698715031597119e-05,
    -2.533854036338e-05,
    4.8390898537486545e-05,
    -2.4153286003798e-05,
    9.772362230104665e-06,
];

/// An argument less a multiple of `pi/2`.
struct Reduced {
    /// An integer whose two low bits are the quadrant.
    quadrant: Reg,
    /// The rest.
    r: Reg,
    /// What rounding has lost of it.
    low: Reg,
}

/// Up to here `n` times the first piece is exact enough.
fn moderate(m: &Math<'_>) -> f64 {
    if m.wide() { 2f64.powi(30) } else { 32768.0 }
}

/// How much of the rest is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// One float, off by a unit of its last place at most.
    Rounded,
    /// Two.
    Exact,
}

fn reduce(m: &mut Math<'_>, x: Reg, rest: Rest) -> Reduced {
    let magic = magic(m);
    let pieces = if m.wide() { HALF_PI_64 } else { HALF_PI_32 };
    let sum = m.fma_cc(x, FRAC_2_PI, magic);
    let n = m.add_c(sum, -magic);
    let first = m.fma_c(n, -pieces[0], x);
    let (r, low) = match rest {
        Rest::Rounded => {
            let second = m.fma_c(n, -pieces[1], first);
            (m.fma_c(n, -pieces[2], second), m.c(0.0))
        }
        Rest::Exact => {
            let piece = m.c(-pieces[1]);
            let (product, product_low) = m.two_mul(n, piece);
            let (second, lost) = m.two_add(first, product);
            let low = m.add(lost, product_low);
            let low = m.fma_c(n, -pieces[2], low);
            m.quick_two_add(second, low)
        }
    };
    let size = m.abs(x);
    let limit = moderate(m);
    let is_far = m.gt(size, limit);
    let common = [sum, r, low];
    let results = match rest {
        Rest::Rounded => m.rarely(is_far, &common[..2], |m| far(m, x)[..2].to_vec()),
        Rest::Exact => m.rarely(is_far, &common, |m| far(m, x).to_vec()),
    };
    let low = results.get(2).copied().unwrap_or(low);
    Reduced { quadrant: m.bits(results[0]), r: results[1], low }
}

/// A number so large that a sum with it has no bits below 1.
fn magic(m: &Math<'_>) -> f64 {
    1.5 * 2f64.powi(m.mantissa() as i32)
}

/// `x` less the nearest multiple of 4, exactly.
fn modulo_4(m: &mut Math<'_>, x: Reg) -> Reg {
    let quarter = m.mul_c(x, 0.25);
    let n = m.nearest(quarter);
    m.fma_c(n, -4.0, x)
}

/// The quadrant plus [`magic`] and the rest, in two floats, of a number beyond [`moderate`]; NaN of
/// an infinity. The number is multiplied with the five pieces of `2/pi` that matter for its exponent.
fn far(m: &mut Math<'_>, x: Reg) -> [Reg; 3] {
    let mantissa = m.mantissa();
    let (width, bias) = (mantissa as f64 + 1.0, if m.wide() { 1023.0 } else { 127.0 });
    let carrier = 2f64.powi(mantissa as i32);
    // The first piece that matters: those before it give multiples of 4.
    let bits = m.bits(x);
    let exponent = m.int_c(BinaryOp::ShrU, bits, mantissa);
    let exponent = m.int_c(BinaryOp::And, exponent, if m.wide() { 0x7ff } else { 0xff });
    let exponent = m.int_c(BinaryOp::Or, exponent, m.bits_of(carrier));
    let exponent = m.float(exponent);
    let exponent = m.add_c(exponent, -(carrier + bias));
    let first = m.fma_cc(exponent, 1.0 / width, -(width + 0.5) / width);
    let first = m.floor(first);
    let negative = m.lt(first, 0.0);
    let first = m.select_c(negative, 0.0, first);
    let magic = magic(m);
    let index = m.add_c(first, magic);
    let index = m.bits(index);
    // x 2^(-width first), by way of an exponent.
    let scale = m.fma_cc(first, -width, magic + bias);
    let scale = m.bits(scale);
    let scale = m.int_c(BinaryOp::Shl, scale, mantissa);
    let scale = m.float(scale);
    let x = m.mul(x, scale);
    // Products with their rounding errors, each piece weighing 2^-width of the one before.
    let unit = 2f64.powi(-(mantissa as i32) - 1);
    let mut terms = Vec::new();
    let mut weighted = x;
    for piece in consecutive_pieces(m, index) {
        terms.push(m.two_mul(weighted, piece));
        weighted = m.mul_c(weighted, unit);
    }
    let zero = m.c(0.0);
    let (mut n, mut high, mut low) = (zero, zero, zero);
    for term in [terms[0].0, terms[0].1, terms[1].0, terms[1].1, terms[2].0] {
        let term = modulo_4(m, term);
        let (sum, lost) = m.two_add(high, term);
        let whole = m.nearest(sum);
        high = m.sub(sum, whole);
        n = m.add(n, whole);
        low = m.add(low, lost);
    }
    for term in [terms[2].1, terms[3].0, terms[3].1, terms[4].0] {
        let (sum, lost) = m.two_add(high, term);
        high = sum;
        low = m.add(low, lost);
    }
    let (high, low) = m.quick_two_add(high, low);
    // Times pi/2.
    let (most, rest) =
        if m.wide() { (HALF_PI_64[0], HALF_PI_64[1]) } else { (HALF_PI_32[0], HALF_PI_32[1]) };
    let half_pi = m.c(most);
    let (r, r_low) = m.two_mul(high, half_pi);
    let r_low = m.fma_c(high, rest, r_low);
    let r_low = m.fma(low, half_pi, r_low);
    let (r, r_low) = m.quick_two_add(r, r_low);
    [m.add_c(n, magic), r, r_low]
}

/// Five pieces of `2/pi` as fractions, from the one with the number in the index's low bits on.
fn consecutive_pieces(m: &mut Math<'_>, index: Reg) -> Vec<Reg> {
    const WANTED: usize = 5;
    let (table, steps): (&[u64], &[usize]) =
        if m.wide() { (&TWO_OVER_PI_64, &[16, 8, 4, 2, 1]) } else { (&TWO_OVER_PI_32, &[4, 2, 1]) };
    let unit = 2f64.powi(-(m.mantissa() as i32) - 1);
    let mut pieces: Vec<Reg> = table.iter().map(|&bits| m.c(bits as f64 * unit)).collect();
    for &step in steps {
        let bit = m.int_c(BinaryOp::And, index, step as i64);
        let zero = m.int(0);
        let set = m.b.compare(Compare::Ne, CompareKind::Unsigned, bit, zero);
        let needed = (WANTED + step - 1).min(pieces.len());
        let pick = |j: usize| match pieces.get(j + step) {
            Some(&further) => m.select(set, further, pieces[j]),
            None => pieces[j],
        };
        pieces = (0..needed).map(pick).collect();
    }
    pieces
}

/// Sine and cosine of a rest; of an `f32` its low part is not looked at.
fn sin_cos_rest(m: &mut Math<'_>, reduced: &Reduced) -> (Reg, Reg) {
    let (r, low) = (reduced.r, reduced.low);
    let (sin, cos) = if m.wide() { (SIN_64, COS_64) } else { (SIN_32, COS_32) };
    let z = m.mul(r, r);
    let sine = m.poly(z, sin);
    let cube = m.mul(z, r);
    let cosine = m.poly(z, cos);
    let one = m.c(1.0);
    if !m.wide() {
        let half = m.c(-0.5);
        let cosine = m.fma(cosine, z, half);
        return (m.fma(sine, cube, r), m.fma(cosine, z, one));
    }
    let sine = m.fma(sine, cube, low);
    let sine = m.add(r, sine);
    // 1 - z/2 with what rounding loses; and r low, the first term of the rest's low part.
    let half = m.mul_c(z, 0.5);
    let near = m.sub(one, half);
    let back = m.sub(one, near);
    let lost = m.sub(back, half);
    let square = m.mul(z, z);
    let tail = m.fma(square, cosine, lost);
    let minus_r = m.neg(r);
    let tail = m.fma(minus_r, low, tail);
    (sine, m.add(near, tail))
}

/// `sine` in even quadrants, `cosine` in odd ones; negative in the third and fourth.
fn by_quadrant(m: &mut Math<'_>, quadrant: Reg, sine: Reg, cosine: Reg) -> Reg {
    let odd = is_odd(m, quadrant);
    let value = m.select(odd, cosine, sine);
    let width = i64::from(m.ty.bits());
    let sign = m.int_c(BinaryOp::Shl, quadrant, width - 2);
    let sign = m.float(sign);
    m.flip_sign(value, sign)
}

fn is_odd(m: &mut Math<'_>, quadrant: Reg) -> Reg {
    let bit = m.int_c(BinaryOp::And, quadrant, 1);
    let zero = m.int(0);
    m.b.compare(Compare::Ne, CompareKind::Unsigned, bit, zero)
}

fn reduce_for_sine(m: &mut Math<'_>, x: Reg) -> Reduced {
    let rest = if m.wide() { Rest::Exact } else { Rest::Rounded };
    reduce(m, x, rest)
}

/// The sine of a reduced `x`; a zero keeps its sign.
fn sin_of(m: &mut Math<'_>, x: Reg, reduced: &Reduced, (sine, cosine): (Reg, Reg)) -> Reg {
    let value = by_quadrant(m, reduced.quadrant, sine, cosine);
    let zero = m.eq(x, 0.0);
    m.select(zero, x, value)
}

fn cos_of(m: &mut Math<'_>, reduced: &Reduced, (sine, cosine): (Reg, Reg)) -> Reg {
    let next = m.int_c(BinaryOp::Add, reduced.quadrant, 1);
    by_quadrant(m, next, sine, cosine)
}

pub(super) fn sin(m: &mut Math<'_>, x: Reg) -> Reg {
    let reduced = reduce_for_sine(m, x);
    let both = sin_cos_rest(m, &reduced);
    sin_of(m, x, &reduced, both)
}

pub(super) fn cos(m: &mut Math<'_>, x: Reg) -> Reg {
    let reduced = reduce_for_sine(m, x);
    let both = sin_cos_rest(m, &reduced);
    cos_of(m, &reduced, both)
}

/// Both, from one reduction.
pub(super) fn sin_cos(m: &mut Math<'_>, x: Reg) -> (Reg, Reg) {
    let reduced = reduce_for_sine(m, x);
    let both = sin_cos_rest(m, &reduced);
    (sin_of(m, x, &reduced, both), cos_of(m, &reduced, both))
}

/// Sine and cosine of `pi x`, reduced exactly.
pub(super) fn sin_cos_pi(m: &mut Math<'_>, x: Reg) -> (Reg, Reg) {
    // Beyond the mantissa's bits every number is an even integer, as the bounds are.
    let limit = 2f64.powi(m.mantissa() as i32 + 2);
    let x = m.min_c(x, limit);
    let x = m.max_c(x, -limit);
    let twice = m.add(x, x);
    let n = m.nearest(twice);
    let fraction = m.fma_c(n, -0.5, x);
    let (r, low) = pi_times(m, fraction);
    // n modulo 4, which the low bits of a sum do not show of a large n.
    let n = modulo_4(m, n);
    let magic = magic(m);
    let quadrant = m.add_c(n, magic);
    let quadrant = m.bits(quadrant);
    let (sine, cosine) = sin_cos_rest(m, &Reduced { quadrant, r, low });
    let next = m.int_c(BinaryOp::Add, quadrant, 1);
    (by_quadrant(m, quadrant, sine, cosine), by_quadrant(m, next, sine, cosine))
}

/// `pi x` as a sum of two floats.
fn pi_times(m: &mut Math<'_>, x: Reg) -> (Reg, Reg) {
    let pi = std::f64::consts::PI;
    let (high, rest) = if m.wide() {
        (pi, 2.0 * HALF_PI_64[1])
    } else {
        (f64::from(pi as f32), pi - f64::from(pi as f32))
    };
    let high = m.c(high);
    let (product, low) = m.two_mul(x, high);
    (product, m.fma_c(x, rest, low))
}

/// `|sin(pi x)|`.
pub(super) fn sin_pi_size(m: &mut Math<'_>, x: Reg) -> Reg {
    let (sin, _) = sin_cos_pi(m, x);
    m.abs(sin)
}

pub(super) fn tan(m: &mut Math<'_>, x: Reg) -> Reg {
    let reduced = reduce(m, x, Rest::Exact);
    let (r, low) = (reduced.r, reduced.low);
    let coefficients = if m.wide() { TAN_64 } else { TAN_32 };
    let z = m.mul(r, r);
    let poly = m.poly(z, coefficients);
    let cube = m.mul(z, r);
    // tan(r + low) = tan r + low (1 + tan^2 r), nearly.
    let slope = m.fma(z, low, low);
    let tail = m.fma(poly, cube, slope);
    let (high, low) = m.quick_two_add(r, tail);
    // -1 / (high + low), with one correction.
    let minus_one = m.c(-1.0);
    let quotient = m.div(minus_one, high);
    let one = m.c(1.0);
    let rest = m.fma(quotient, high, one);
    let rest = m.fma(quotient, low, rest);
    let reciprocal = m.fma(quotient, rest, quotient);
    let odd = is_odd(m, reduced.quadrant);
    let value = m.select(odd, reciprocal, high);
    let zero = m.eq(x, 0.0);
    m.select(zero, x, value)
}
