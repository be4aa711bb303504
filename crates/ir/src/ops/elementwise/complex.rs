//! Complex arithmetic.

use super::math::Math;
use crate::lower::Scalar;
use jaxrs_kernel::{BinaryOp, CastOp, Compare, KernelBuilder, Reg, RegType};

/// Real and imaginary part.
pub(super) type Pair = (Reg, Reg);

/// A body with a real and a complex form. The complex one is computed in `f64`.
pub(super) fn or_real(
    b: &mut KernelBuilder,
    x: &[Scalar],
    real: impl FnOnce(&mut Math<'_>, Reg) -> Reg,
    complex: impl FnOnce(&mut Math<'_>, Pair) -> Pair,
) -> Scalar {
    match x[0] {
        Scalar::Real(_) => super::math::real(b, x, real),
        Scalar::Complex(re, im) => {
            let ty = b.ty(re);
            let wide = (widen(b, re), widen(b, im));
            let (re, im) = complex(&mut Math::new(b, RegType::F64), wide);
            Scalar::Complex(round_to(b, re, ty), round_to(b, im, ty))
        }
    }
}

/// The same for two operands.
pub(super) fn or_real2(
    b: &mut KernelBuilder,
    x: &[Scalar],
    real: impl FnOnce(&mut Math<'_>, Reg, Reg) -> Reg,
    complex: impl FnOnce(&mut Math<'_>, Pair, Pair) -> Pair,
) -> Scalar {
    match (x[0], x[1]) {
        (Scalar::Complex(xr, xi), Scalar::Complex(yr, yi)) => {
            let ty = b.ty(xr);
            let (x, y) = ((widen(b, xr), widen(b, xi)), (widen(b, yr), widen(b, yi)));
            let (re, im) = complex(&mut Math::new(b, RegType::F64), x, y);
            Scalar::Complex(round_to(b, re, ty), round_to(b, im, ty))
        }
        _ => super::math::real2(b, x, real),
    }
}

/// An `f32` as `f64`; an `f64` itself.
pub(super) fn widen(b: &mut KernelBuilder, x: Reg) -> Reg {
    round_to(b, x, RegType::F64)
}

/// A float as one of another type.
pub(super) fn round_to(b: &mut KernelBuilder, x: Reg, ty: RegType) -> Reg {
    if b.ty(x) == ty { x } else { b.cast(CastOp::FloatToFloat, x, ty) }
}

pub(super) fn add(m: &mut Math<'_>, x: Pair, y: Pair) -> Pair {
    (m.add(x.0, y.0), m.add(x.1, y.1))
}

pub(super) fn subtract(m: &mut Math<'_>, x: Pair, y: Pair) -> Pair {
    (m.sub(x.0, y.0), m.sub(x.1, y.1))
}

pub(super) fn multiply(m: &mut Math<'_>, x: Pair, y: Pair) -> Pair {
    let (rr, ii) = (m.mul(x.0, y.0), m.mul(x.1, y.1));
    let (ri, ir) = (m.mul(x.0, y.1), m.mul(x.1, y.0));
    (m.sub(rr, ii), m.add(ri, ir))
}

/// `x * i`.
pub(super) fn times_i(m: &mut Math<'_>, x: Pair) -> Pair {
    (m.neg(x.1), x.0)
}

/// `x / i`.
pub(super) fn over_i(m: &mut Math<'_>, x: Pair) -> Pair {
    (x.1, m.neg(x.0))
}

/// Quotient by Smith's method: without overflow where the result has none. By zero: infinities
/// and NaN as of the parts; a finite number over an infinite one: zero.
pub(super) fn divide(m: &mut Math<'_>, x: Pair, y: Pair) -> Pair {
    let (c_size, d_size) = (m.abs(y.0), m.abs(y.1));
    let swap = m.cmp(Compare::Lt, c_size, d_size);
    // With the larger part of y as p and the smaller as q: x / y is (a + b r, b - a r) over
    // p + q r for r = q / p, and the same with a and b swapped, one sign changed, for swapped parts.
    let (p, q) = (m.select(swap, y.1, y.0), m.select(swap, y.0, y.1));
    let ratio = m.div(q, p);
    let scale = m.fma(q, ratio, p);
    let (u, v) = (m.select(swap, x.1, x.0), m.select(swap, x.0, x.1));
    let re = m.fma(v, ratio, u);
    let product = m.mul(u, ratio);
    let im = m.sub(v, product);
    let minus = m.neg(im);
    let im = m.select(swap, minus, im);
    let (re, im) = (m.div(re, scale), m.div(im, scale));
    // By zero.
    let size = m.add(c_size, d_size);
    let by_zero = m.eq(size, 0.0);
    let infinity = m.c(f64::INFINITY);
    let infinity = m.copy_sign(infinity, y.0);
    let (zero_re, zero_im) = (m.mul(x.0, infinity), m.mul(x.1, infinity));
    let (re, im) = (m.select(by_zero, zero_re, re), m.select(by_zero, zero_im, im));
    // A finite number by an infinite one.
    let infinite = m.eq(size, f64::INFINITY);
    let (a_size, b_size) = (m.abs(x.0), m.abs(x.1));
    let larger = m.add(a_size, b_size);
    let finite = m.lt(larger, f64::INFINITY);
    let vanishes = m.and(infinite, finite);
    (m.select_c(vanishes, 0.0, re), m.select_c(vanishes, 0.0, im))
}

/// The modulus, without overflow where the result has none; infinite if either part is.
pub(super) fn modulus(m: &mut Math<'_>, x: Pair) -> Reg {
    let (re, im) = (m.abs(x.0), m.abs(x.1));
    let value = if m.wide() {
        let large = m.cmp(Compare::Gt, re, im);
        let (most, least) = (m.select(large, re, im), m.select(large, im, re));
        // Scaled by a power of two so that squares neither overflow nor vanish.
        let big = m.gt(most, 1e150);
        let small = m.lt(most, 1e-140);
        let down = m.select_cc(big, 2f64.powi(-600), 1.0);
        let scale = m.select_c(small, 2f64.powi(600), down);
        let up = m.select_cc(big, 2f64.powi(600), 1.0);
        let back = m.select_c(small, 2f64.powi(-600), up);
        let (most, least) = (m.mul(most, scale), m.mul(least, scale));
        let root = root_of_squares(m, most, least);
        m.mul(root, back)
    } else {
        // Squares of f32 neither overflow nor vanish as f64.
        let (re, im) = (widen(m.b, re), widen(m.b, im));
        let mut wide = Math::new(m.b, RegType::F64);
        let square = wide.mul(re, re);
        let sum = wide.fma(im, im, square);
        let root = wide.sqrt(sum);
        round_to(m.b, root, RegType::F32)
    };
    let (re_inf, im_inf) = (m.eq(re, f64::INFINITY), m.eq(im, f64::INFINITY));
    let infinite = m.b.binary(BinaryOp::Or, re_inf, im_inf);
    m.select_c(infinite, f64::INFINITY, value)
}

/// `sqrt(x^2 + y^2)` with the rounding errors of the squares put back.
fn root_of_squares(m: &mut Math<'_>, x: Reg, y: Reg) -> Reg {
    let (high, low) = m.two_mul(x, x);
    let rest = m.fma(y, y, low);
    let sum = m.add(high, rest);
    m.sqrt(sum)
}

/// `x / |x|`; zero of zero; NaN in both parts if either is.
pub(super) fn sign(m: &mut Math<'_>, x: Pair) -> Pair {
    let size = modulus(m, x);
    let (re, im) = (m.div(x.0, size), m.div(x.1, size));
    let zero = m.eq(size, 0.0);
    let (re, im) = (m.select_c(zero, 0.0, re), m.select_c(zero, 0.0, im));
    let (re_nan, im_nan) = (m.is_nan(x.0), m.is_nan(x.1));
    let nan = m.or(re_nan, im_nan);
    (m.select_c(nan, f64::NAN, re), m.select_c(nan, f64::NAN, im))
}

/// The principal square root.
pub(super) fn sqrt(m: &mut Math<'_>, x: Pair) -> Pair {
    // Kahan: the larger part is sqrt((|x| + |re|) / 2), the other im over twice it. Scaled by a
    // power of four where |x| would overflow or be denormal.
    let (re_size, im_size) = (m.abs(x.0), m.abs(x.1));
    let wide = m.cmp(Compare::Gt, re_size, im_size);
    let most = m.select(wide, re_size, im_size);
    let (big, small) = (m.gt(most, 1e300), m.lt(most, 1e-290));
    let down = m.select_cc(big, 2f64.powi(-4), 1.0);
    let scale = m.select_c(small, 2f64.powi(110), down);
    let up = m.select_cc(big, 2f64.powi(2), 1.0);
    let back = m.select_c(small, 2f64.powi(-55), up);
    let (re, im) = (m.mul(x.0, scale), m.mul(x.1, scale));
    let size = modulus(m, (re, im));
    let re_size = m.abs(re);
    let sum = m.add(size, re_size);
    let half = m.mul_c(sum, 0.5);
    let large = m.sqrt(half);
    let twice = m.add(large, large);
    let im_size = m.abs(im);
    let small = m.div(im_size, twice);
    let zero = m.eq(twice, 0.0);
    let small = m.select_c(zero, 0.0, small);
    let right = m.ge(re, 0.0);
    let (re, im) = (m.select(right, large, small), m.select(right, small, large));
    let (re, im) = (m.mul(re, back), m.mul(im, back));
    let im = m.with_sign(im, x.1);
    // An infinite imaginary part gives infinities, whatever the real part; an infinite real part
    // with a finite imaginary one gives an infinity and zero.
    let im_inf = m.eq(im_size, f64::INFINITY);
    let infinity = m.c(f64::INFINITY);
    let signed = m.with_sign(infinity, x.1);
    let (re, im) = (m.select(im_inf, infinity, re), m.select(im_inf, signed, im));
    let zero = m.c(0.0);
    let signed_zero = m.with_sign(zero, x.1);
    let im_finite = m.lt(im_size, f64::INFINITY);
    let (up, down) = (m.eq(x.0, f64::INFINITY), m.eq(x.0, f64::NEG_INFINITY));
    let (up, down) = (m.and(up, im_finite), m.and(down, im_finite));
    let (re, im) = (m.select(up, infinity, re), m.select(up, signed_zero, im));
    (m.select_c(down, 0.0, re), m.select(down, signed, im))
}
