//! Sine, cosine and tangent over the whole range.
//!
//! `x = n pi/2 + r` with `|r| <= pi/4`. For moderate `x`, `pi/2` is subtracted `n` times in three
//! pieces (Cody and Waite; with a fused multiply-add the first step is exact). For the others, `x`
//! is multiplied with as many bits of `2/pi` as matter (Payne and Hanek), in `f64`.

use super::complex::{round_to, widen};
use super::math::Math;
use jaxrs_kernel::{BinaryOp, Compare, CompareKind, Reg, RegType};

/// `pi/2` in pieces of 24 and of 53 bits, all positive.
const HALF_PI_32: [f64; 3] = [1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15];
const HALF_PI_64: [f64; 3] = [1.5707963267948966, 6.123233995736765e-17, 1.0828566739219139e-32];

/// `2/pi` as a sum of floats.
const TWO_OVER_PI: [f64; 4] =
    [0.6366197723675814, -3.935735335036497e-17, -2.1442872565786008e-33, 1.6036588260553174e-49];

/// `2/pi` in pieces of 53 bits; piece `j` counts `2^(-53 (j + 1))`.
const TWO_OVER_PI_BITS: [u64; 24] = [
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

fn reduce(m: &mut Math<'_>, x: Reg) -> Reduced {
    let magic = 1.5 * 2f64.powi(m.mantissa() as i32);
    let pieces = if m.wide() { HALF_PI_64 } else { HALF_PI_32 };
    let sum = m.fma_cc(x, TWO_OVER_PI[0], magic);
    let n = m.add_c(sum, -magic);
    let first = m.fma_c(n, -pieces[0], x);
    let second = m.fma_c(n, -pieces[1], first);
    let lost = m.sub(first, second);
    let low = m.fma_c(n, -pieces[1], lost);
    let low = m.fma_c(n, -pieces[2], low);
    let (r, low) = m.quick_two_add(second, low);

    let (far_n, far_r, far_low) = if m.wide() { far_double(m, x) } else { far_single(m, x) };
    let far_sum = m.add_c(far_n, magic);
    let size = m.abs(x);
    let limit = moderate(m);
    let far = m.gt(size, limit);
    let sum = m.select(far, far_sum, sum);
    let r = m.select(far, far_r, r);
    let low = m.select(far, far_low, low);
    Reduced { quadrant: m.bits(sum), r, low }
}

/// `x` less the nearest multiple of 4, exactly.
fn modulo_4(m: &mut Math<'_>, x: Reg) -> Reg {
    let quarter = m.mul_c(x, 0.25);
    let n = m.nearest(quarter);
    m.fma_c(n, -4.0, x)
}

/// Adds to a fraction; what makes it exceed a half goes to the integer part.
fn accumulate(m: &mut Math<'_>, (n, f): (Reg, Reg), term: Reg) -> (Reg, Reg) {
    let sum = m.add(f, term);
    let whole = m.nearest(sum);
    let f = m.sub(f, whole);
    (m.add(n, whole), m.add(f, term))
}

/// Quadrants and rest of an `f32`: its product with three of four pieces of `2/pi`; above 2^90 the
/// first one gives multiples of 4 only.
fn far_single(m: &mut Math<'_>, x: Reg) -> (Reg, Reg, Reg) {
    let x = widen(m.b, x);
    let w = &mut Math::new(m.b, RegType::F64);
    let size = w.abs(x);
    let huge = w.gt(size, 2f64.powi(90));
    let piece = |w: &mut Math<'_>, j: usize| w.select_cc(huge, TWO_OVER_PI[j + 1], TWO_OVER_PI[j]);
    let pieces = [piece(w, 0), piece(w, 1), piece(w, 2)];
    let (p0, e0) = w.two_mul(x, pieces[0]);
    let (p1, e1) = w.two_mul(x, pieces[1]);
    let rest = w.fma(x, pieces[2], e1);
    let zero = w.c(0.0);
    let mut sum = (zero, zero);
    for term in [p0, e0, p1] {
        let term = modulo_4(w, term);
        sum = accumulate(w, sum, term);
    }
    let fraction = w.add(sum.1, rest);
    let r = w.mul_c(fraction, std::f64::consts::FRAC_PI_2);
    let (n, r) = (round_to(m.b, sum.0, RegType::F32), round_to(m.b, r, RegType::F32));
    (n, r, m.c(0.0))
}

/// Quadrants and rest of an `f64`: its product with the five of the 24 pieces of `2/pi` that matter
/// for its exponent, summed as two floats.
fn far_double(m: &mut Math<'_>, x: Reg) -> (Reg, Reg, Reg) {
    // The first piece that matters: those before it give multiples of 4.
    let bits = m.bits(x);
    let exponent = m.int_c(BinaryOp::ShrU, bits, 52);
    let exponent = m.int_c(BinaryOp::And, exponent, 0x7ff);
    let carrier = m.bits_of(2f64.powi(52));
    let float = m.int_c(BinaryOp::Or, exponent, carrier);
    let float = m.float(float);
    let exponent = m.add_c(float, -(2f64.powi(52) + 1023.0));
    let first = m.fma_cc(exponent, 1.0 / 53.0, -53.5 / 53.0);
    let first = m.floor(first);
    let first = m.max_c(first, -1.0);
    let is_negative = m.lt(first, 0.0);
    let first = m.select_c(is_negative, 0.0, first);
    let carried = m.add_c(first, 1.5 * 2f64.powi(52));
    let index = m.bits(carried);
    // x 2^(-53 first), by way of an exponent.
    let scale = m.fma_cc(first, -53.0, 1.5 * 2f64.powi(52) + 1023.0);
    let scale = m.bits(scale);
    let scale = m.int_c(BinaryOp::Shl, scale, 52);
    let scale = m.float(scale);
    let x = m.mul(x, scale);
    // Five consecutive pieces, by the index's bits.
    let mut pieces: Vec<Reg> =
        TWO_OVER_PI_BITS.iter().map(|&bits| m.c(bits as f64 * 2f64.powi(-53))).collect();
    for step in [16usize, 8, 4, 2, 1] {
        let bit = m.int_c(BinaryOp::And, index, step as i64);
        let zero = m.int(0);
        let set = m.b.compare(Compare::Ne, CompareKind::Unsigned, bit, zero);
        let needed = (5 + step - 1).min(pieces.len());
        pieces = (0..needed)
            .map(|j| match pieces.get(j + step) {
                Some(&far) => m.select(set, far, pieces[j]),
                None => pieces[j],
            })
            .collect();
    }
    // Products with their rounding errors, each piece weighing 2^-53 of the one before.
    let mut terms = Vec::new();
    let mut weighted = x;
    for &piece in &pieces[..5] {
        terms.push(m.two_mul(weighted, piece));
        weighted = m.mul_c(weighted, 2f64.powi(-53));
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
    let half_pi = m.c(HALF_PI_64[0]);
    let (r, r_low) = m.two_mul(high, half_pi);
    let r_low = m.fma_c(high, HALF_PI_64[1], r_low);
    let r_low = m.fma(low, half_pi, r_low);
    let (r, r_low) = m.quick_two_add(r, r_low);
    (n, r, r_low)
}

/// Sine and cosine of a rest.
fn sin_cos_rest(m: &mut Math<'_>, reduced: &Reduced) -> (Reg, Reg) {
    let (r, low) = (reduced.r, reduced.low);
    let (sin, cos) = if m.wide() { (SIN_64, COS_64) } else { (SIN_32, COS_32) };
    let z = m.mul(r, r);
    let poly = m.poly(z, sin);
    let cube = m.mul(z, r);
    let sine = m.fma(poly, cube, low);
    let sine = m.add(r, sine);
    let poly = m.poly(z, cos);
    let one = m.c(1.0);
    if !m.wide() {
        let poly = m.mul(poly, z);
        let poly = m.add_c(poly, -0.5);
        return (sine, m.fma(poly, z, one));
    }
    // 1 - z/2 with what rounding loses; and r low, the first term of the rest's low part.
    let half = m.mul_c(z, 0.5);
    let near = m.sub(one, half);
    let back = m.sub(one, near);
    let lost = m.sub(back, half);
    let square = m.mul(z, z);
    let tail = m.fma(square, poly, lost);
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

pub(super) fn sin(m: &mut Math<'_>, x: Reg) -> Reg {
    let reduced = reduce(m, x);
    let (sine, cosine) = sin_cos_rest(m, &reduced);
    let value = by_quadrant(m, reduced.quadrant, sine, cosine);
    let value = not_a_number_of_infinite(m, x, value);
    let zero = m.eq(x, 0.0);
    m.select(zero, x, value)
}

pub(super) fn cos(m: &mut Math<'_>, x: Reg) -> Reg {
    let reduced = reduce(m, x);
    let (sine, cosine) = sin_cos_rest(m, &reduced);
    let next = m.int_c(BinaryOp::Add, reduced.quadrant, 1);
    let value = by_quadrant(m, next, sine, cosine);
    not_a_number_of_infinite(m, x, value)
}

/// Both, from one reduction.
pub(super) fn sin_cos(m: &mut Math<'_>, x: Reg) -> (Reg, Reg) {
    (sin(m, x), cos(m, x))
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
    let magic = 1.5 * 2f64.powi(m.mantissa() as i32);
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
    let reduced = reduce(m, x);
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
    let value = not_a_number_of_infinite(m, x, value);
    let zero = m.eq(x, 0.0);
    m.select(zero, x, value)
}

/// Of an infinity the reduction gives anything.
fn not_a_number_of_infinite(m: &mut Math<'_>, x: Reg, value: Reg) -> Reg {
    let size = m.abs(x);
    let finite = m.lt(size, f64::INFINITY);
    let nan = m.c(f64::NAN);
    m.select(finite, value, nan)
}
