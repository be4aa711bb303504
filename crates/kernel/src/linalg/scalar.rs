//! Numbers that linear algebra computes with: real and complex, of both widths.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};

/// A real part.
pub trait Part: Copy + Default + Debug + Send + Sync + 'static {
    /// The nearest value.
    fn of(value: f64) -> Self;
    /// The same value.
    fn wide(self) -> f64;
}

/// An element. Scalar factors and norms are computed as `f64`s; everything else in the type itself.
pub trait Scalar:
    Copy
    + Default
    + Debug
    + PartialEq
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + 'static
{
    /// Its real part's type.
    type Part: Part;
    /// Whether it has an imaginary part.
    const COMPLEX: bool;
    /// Distance from 1 to the next number.
    const EPSILON: f64;
    /// Numbers of smaller magnitude have squares that are not normal.
    const TINY: f64;
    /// From its parts; a real number's second one is dropped.
    fn new(re: f64, im: f64) -> Self;
    /// The real part.
    fn re(self) -> f64;
    /// The imaginary part, of a real number 0.
    fn im(self) -> f64;
    /// With the imaginary part negated.
    fn conj(self) -> Self;
    /// Times a real number of its own width.
    fn times(self, factor: Self::Part) -> Self;
    /// `a * b + self`; rounded once where `FUSED`, which is slow on machines without the
    /// instruction.
    fn plus_product<const FUSED: bool>(self, a: Self, b: Self) -> Self;

    /// From a real number.
    fn real(value: f64) -> Self {
        Self::new(value, 0.0)
    }

    /// The conjugate if `CONJ`.
    #[inline(always)]
    fn conj_if<const CONJ: bool>(self) -> Self {
        if CONJ { self.conj() } else { self }
    }

    /// The quotient.
    fn over(self, other: Self) -> Self {
        let (a, b, c, d) = (self.re(), self.im(), other.re(), other.im());
        if !Self::COMPLEX || d == 0.0 {
            return Self::new(a / c, b / c);
        }
        // Smith's: the larger part of the divisor is divided out first.
        if c.abs() >= d.abs() {
            let (ratio, scale) = (d / c, c + d * (d / c));
            Self::new((a + b * ratio) / scale, (b - a * ratio) / scale)
        } else {
            let (ratio, scale) = (c / d, d + c * (c / d));
            Self::new((a * ratio + b) / scale, (b * ratio - a) / scale)
        }
    }

    /// The square of the magnitude.
    fn square(self) -> f64 {
        self.re() * self.re() + self.im() * self.im()
    }

    /// The magnitude.
    fn size(self) -> f64 {
        if Self::COMPLEX { self.re().hypot(self.im()) } else { self.re().abs() }
    }

    /// The sum of the parts' magnitudes, by which pivots are chosen.
    fn rough_size(self) -> f64 {
        self.re().abs() + self.im().abs()
    }

    /// Whether no part is infinite or NaN.
    fn is_finite(self) -> bool {
        self.re().is_finite() && self.im().is_finite()
    }

    /// NaN in each part.
    fn nan() -> Self {
        Self::new(f64::NAN, f64::NAN)
    }
}

/// A complex number: the two parts as they lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

macro_rules! scalar {
    ($($t:ident),*) => {$(
        impl Part for $t {
            fn of(value: f64) -> $t {
                value as $t
            }
            fn wide(self) -> f64 {
                self.into()
            }
        }

        impl Scalar for $t {
            type Part = $t;
            const COMPLEX: bool = false;
            const EPSILON: f64 = $t::EPSILON as f64;
            const TINY: f64 = scalar!(tiny $t);
            #[inline(always)]
            fn new(re: f64, _: f64) -> $t {
                re as $t
            }
            #[inline(always)]
            fn re(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn im(self) -> f64 {
                0.0
            }
            #[inline(always)]
            fn conj(self) -> $t {
                self
            }
            #[inline(always)]
            fn times(self, factor: $t) -> $t {
                self * factor
            }
            #[inline(always)]
            fn plus_product<const FUSED: bool>(self, a: $t, b: $t) -> $t {
                if FUSED { a.mul_add(b, self) } else { a * b + self }
            }
        }

        impl Add for Complex<$t> {
            type Output = Self;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Complex { re: self.re + other.re, im: self.im + other.im }
            }
        }
        impl Sub for Complex<$t> {
            type Output = Self;
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Complex { re: self.re - other.re, im: self.im - other.im }
            }
        }
        impl Mul for Complex<$t> {
            type Output = Self;
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Complex {
                    re: self.re * other.re - self.im * other.im,
                    im: self.re * other.im + self.im * other.re,
                }
            }
        }
        impl Neg for Complex<$t> {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Complex { re: -self.re, im: -self.im }
            }
        }
        impl AddAssign for Complex<$t> {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl SubAssign for Complex<$t> {
            #[inline(always)]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl Scalar for Complex<$t> {
            type Part = $t;
            const COMPLEX: bool = true;
            const EPSILON: f64 = $t::EPSILON as f64;
            const TINY: f64 = scalar!(tiny $t);
            #[inline(always)]
            fn new(re: f64, im: f64) -> Self {
                Complex { re: re as $t, im: im as $t }
            }
            #[inline(always)]
            fn re(self) -> f64 {
                self.re.into()
            }
            #[inline(always)]
            fn im(self) -> f64 {
                self.im.into()
            }
            #[inline(always)]
            fn conj(self) -> Self {
                Complex { re: self.re, im: -self.im }
            }
            #[inline(always)]
            fn times(self, factor: $t) -> Self {
                Complex { re: self.re * factor, im: self.im * factor }
            }
            #[inline(always)]
            fn plus_product<const FUSED: bool>(self, a: Self, b: Self) -> Self {
                if FUSED {
                    Complex {
                        re: (-a.im).mul_add(b.im, a.re.mul_add(b.re, self.re)),
                        im: a.im.mul_add(b.re, a.re.mul_add(b.im, self.im)),
                    }
                } else {
                    self + a * b
                }
            }
        }
    )*};
    (tiny f32) => { 1e-18 };
    (tiny f64) => { 1e-150 };
}
scalar!(f32, f64);
