//! Elementwise functions of floats and numbers.

use super::promote::Kind;
use super::reduce::mean_type;
use super::{Array, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_kernel::Compare;
use jaxrs_kernel::dtype::Class;

macro_rules! float_functions {
    ($($(#[$doc:meta])* $method:ident: $name:literal,)*) => {
        impl Array {
            $($(#[$doc])*
            ///
            /// Integers are taken as `f32`.
            #[track_caller]
            pub fn $method(&self) -> Array {
                self.float_unary($name)
            })*
        }
    };
}

float_functions! {
    /// `e` to the power of each element.
    exp: "stablehlo.exponential",
    /// `exp(x) - 1`, exact near 0.
    expm1: "stablehlo.exponential_minus_one",
    /// The natural logarithm.
    log: "stablehlo.log",
    /// `log(1 + x)`, exact near 0.
    log1p: "stablehlo.log_plus_one",
    /// The square root.
    sqrt: "stablehlo.sqrt",
    /// One over the square root.
    rsqrt: "stablehlo.rsqrt",
    /// The cube root.
    cbrt: "stablehlo.cbrt",
    /// The sine.
    sin: "stablehlo.sine",
    /// The cosine.
    cos: "stablehlo.cosine",
    /// The tangent.
    tan: "stablehlo.tan",
    /// The inverse of the sine.
    asin: "chlo.asin",
    /// The inverse of the cosine.
    acos: "chlo.acos",
    /// The inverse of the tangent.
    atan: "chlo.atan",
    /// The hyperbolic sine.
    sinh: "chlo.sinh",
    /// The hyperbolic cosine.
    cosh: "chlo.cosh",
    /// The hyperbolic tangent.
    tanh: "stablehlo.tanh",
    /// The inverse of the hyperbolic sine.
    asinh: "chlo.asinh",
    /// The inverse of the hyperbolic cosine.
    acosh: "chlo.acosh",
    /// The inverse of the hyperbolic tangent.
    atanh: "chlo.atanh",
    /// `1 / (1 + exp(-x))`.
    sigmoid: "stablehlo.logistic",
    /// The error function. Complex elements are an error.
    erf: "chlo.erf",
    /// One less the error function, exact where it is small. Complex elements are an error.
    erfc: "chlo.erfc",
    /// The inverse of the error function. Complex elements are an error.
    erf_inv: "chlo.erf_inv",
    /// The logarithm of the absolute value of the gamma function. Complex elements are an error.
    lgamma: "chlo.lgamma",
    /// The derivative of [`Array::lgamma`]. Complex elements are an error.
    digamma: "chlo.digamma",
    /// The modified Bessel function of the first kind of order 1, times `exp(-|x|)`. Complex
    /// elements are an error.
    bessel_i1e: "chlo.bessel_i1e",
}

impl Array {
    /// The largest integer that is not larger. Integers are as they were.
    #[track_caller]
    pub fn floor(&self) -> Array {
        self.rounded("stablehlo.floor")
    }

    /// The smallest integer that is not smaller. Integers are as they were.
    #[track_caller]
    pub fn ceil(&self) -> Array {
        self.rounded("stablehlo.ceil")
    }

    /// The nearest integer; of two the even one. Integers are as they were.
    #[track_caller]
    pub fn round(&self) -> Array {
        self.rounded("stablehlo.round_nearest_even")
    }

    /// The integer next to it towards zero. Integers are as they were.
    #[track_caller]
    pub fn trunc(&self) -> Array {
        if !self.dtype().is_float() {
            return self.rounded("stablehlo.floor");
        }
        trace::one(&[self], Place::here(), |b, x| {
            let zero = b.full_like(x[0], 0.0)?;
            let negative = b.compare(Compare::Lt, x[0], zero)?;
            let up = b.elementwise("stablehlo.ceil", x)?;
            let down = b.elementwise("stablehlo.floor", x)?;
            b.select(negative, up, down)
        })
    }

    #[track_caller]
    fn rounded(&self, name: &str) -> Array {
        match self.dtype().class() {
            Class::Float | Class::Complex => self.unary(name),
            _ => self.clone(),
        }
    }

    /// `x * x`.
    #[track_caller]
    pub fn square(&self) -> Array {
        self.unary("chlo.square")
    }

    /// `1 / x`; integers as `f32`.
    #[track_caller]
    pub fn reciprocal(&self) -> Array {
        let dtype = mean_type(self.dtype());
        trace::one(&[self], Place::here(), |b, x| {
            let x = b.convert(x[0], dtype)?;
            let one = b.full_like(x, 1.0)?;
            b.divide(one, x)
        })
    }

    /// The absolute value; of complex elements a float.
    #[track_caller]
    pub fn abs(&self) -> Array {
        match self.dtype().class() {
            Class::Bool | Class::Unsigned => self.clone(),
            _ => self.unary("stablehlo.abs"),
        }
    }

    /// -1, 0 or 1, NaN of NaN; of a complex element the element over its absolute value.
    #[track_caller]
    pub fn sign(&self) -> Array {
        if self.dtype().class() != Class::Unsigned {
            return self.unary("stablehlo.sign");
        }
        let dtype = self.dtype();
        trace::one(&[self], Place::here(), |b, x| {
            let truth = super::reduce::truth(b, x[0])?;
            b.convert(truth, dtype)
        })
    }

    /// 2 to the power of each element; integers as `f32`.
    #[track_caller]
    pub fn exp2(&self) -> Array {
        self.scaled(std::f64::consts::LN_2, "stablehlo.exponential", true)
    }

    /// The logarithm to base 2; integers as `f32`.
    #[track_caller]
    pub fn log2(&self) -> Array {
        self.scaled(std::f64::consts::LN_2, "stablehlo.log", false)
    }

    /// The logarithm to base 10; integers as `f32`.
    #[track_caller]
    pub fn log10(&self) -> Array {
        self.scaled(std::f64::consts::LN_10, "stablehlo.log", false)
    }

    /// A function of the element times a factor, or the function over the factor.
    #[track_caller]
    fn scaled(&self, factor: f64, name: &str, inside: bool) -> Array {
        let dtype = mean_type(self.dtype());
        trace::one(&[self], Place::here(), |b, x| {
            let x = b.convert(x[0], dtype)?;
            let factor = b.full_like(x, factor)?;
            if inside {
                let scaled = b.multiply(x, factor)?;
                return b.elementwise(name, &[scaled]);
            }
            let value = b.elementwise(name, &[x])?;
            b.divide(value, factor)
        })
    }

    /// Degrees of radians; integers as `f32`.
    #[track_caller]
    pub fn degrees(&self) -> Array {
        self * (180.0 / std::f64::consts::PI)
    }

    /// Radians of degrees; integers as `f32`.
    #[track_caller]
    pub fn radians(&self) -> Array {
        self * (std::f64::consts::PI / 180.0)
    }

    /// Each element to the power of the exponent's.
    ///
    /// An exponent that is a Rust integer is computed by multiplications, for any type; a negative
    /// one of integers is an error. Other exponents promote the element type.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::from_vec(vec![-2.0f32, 3.0]);
    /// assert_eq!(x.pow(3).to_vec::<f32>()?, [-8.0, 27.0]);
    /// assert_eq!(grad(|x: &Array| x.pow(3).sum(..))(&x).to_vec::<f32>()?, [12.0, 27.0]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn pow(&self, exponent: impl Into<Operand>) -> Array {
        match exponent.into() {
            Operand::Int(exponent) => self.integer_pow(exponent),
            exponent => Array::binary("stablehlo.power", self.into(), exponent),
        }
    }

    #[track_caller]
    fn integer_pow(&self, exponent: i64) -> Array {
        let dtype = Kind::Strong(self.dtype()).join(Kind::WeakInt).dtype();
        trace::one(&[self], Place::here(), |b, x| {
            let x = b.convert(x[0], dtype)?;
            if exponent < 0 && dtype.is_int() {
                return Err(format!("pow: integers have no power {exponent}; convert to floats"));
            }
            let mut rest = exponent.unsigned_abs();
            let (mut power, mut result) = (x, None);
            while rest > 0 {
                if rest & 1 == 1 {
                    result = Some(match result {
                        Some(result) => b.multiply(result, power)?,
                        None => power,
                    });
                }
                rest >>= 1;
                if rest > 0 {
                    power = b.multiply(power, power)?;
                }
            }
            let one = b.full_like(x, 1.0)?;
            let result = result.unwrap_or(one);
            if exponent < 0 { b.divide(one, result) } else { Ok(result) }
        })
    }

    /// The angle of the point `(other, self)` in the plane; integers as `f32`.
    #[track_caller]
    pub fn atan2(&self, other: impl Into<Operand>) -> Array {
        Array::float_binary("stablehlo.atan2", self.into(), other.into())
    }

    /// `sqrt(x^2 + y^2)` without overflow between; integers as `f32`.
    #[track_caller]
    pub fn hypot(&self, other: impl Into<Operand>) -> Array {
        let (x, y) = (Operand::from(self), other.into());
        let dtype = x.kind().join(y.kind()).join(Kind::WeakFloat).dtype();
        Array::together(vec![x, y], dtype, |b, x| {
            let (x, y) = (
                b.elementwise("stablehlo.abs", &[x[0]])?,
                b.elementwise("stablehlo.abs", &[x[1]])?,
            );
            let infinite = b.full_like(x, f64::INFINITY)?;
            let one_infinite = b.compare(Compare::Eq, x, infinite)?;
            let other_infinite = b.compare(Compare::Eq, y, infinite)?;
            let either = b.elementwise("stablehlo.or", &[one_infinite, other_infinite])?;
            let large = b.elementwise("stablehlo.maximum", &[x, y])?;
            let small = b.elementwise("stablehlo.minimum", &[x, y])?;
            let (zero, one) = (b.full_like(x, 0.0)?, b.full_like(x, 1.0)?);
            let none = b.compare(Compare::Eq, large, zero)?;
            let divisor = b.select(none, one, large)?;
            let ratio = b.divide(small, divisor)?;
            let square = b.multiply(ratio, ratio)?;
            let sum = b.add(one, square)?;
            let root = b.elementwise("stablehlo.sqrt", &[sum])?;
            let size = b.multiply(large, root)?;
            let size = b.select(none, large, size)?;
            b.select(either, infinite, size)
        })
    }

    /// `log(exp(x) + exp(y))` without overflow; integers as `f32`.
    #[track_caller]
    pub fn logaddexp(&self, other: impl Into<Operand>) -> Array {
        let (x, y) = (Operand::from(self), other.into());
        let dtype = x.kind().join(y.kind()).join(Kind::WeakFloat).dtype();
        Array::together(vec![x, y], dtype, |b, x| {
            let (x, y) = (x[0], x[1]);
            let large = b.elementwise("stablehlo.maximum", &[x, y])?;
            let distance = b.subtract(x, y)?;
            let is_nan = b.compare(Compare::Ne, distance, distance)?;
            let size = b.elementwise("stablehlo.abs", &[distance])?;
            let size = b.negate(size)?;
            let exp = b.elementwise("stablehlo.exponential", &[size])?;
            let log = b.elementwise("stablehlo.log_plus_one", &[exp])?;
            let sum = b.add(large, log)?;
            // Both infinite and equal, or NaN: the sum is either.
            let either = b.add(x, y)?;
            b.select(is_nan, either, sum)
        })
    }

    /// The next float towards the other.
    #[track_caller]
    pub fn next_after(&self, other: impl Into<Operand>) -> Array {
        Array::float_binary("chlo.next_after", self.into(), other.into())
    }

    /// The polygamma function of this order; integers as `f32`.
    #[track_caller]
    pub fn polygamma(&self, order: impl Into<Operand>) -> Array {
        Array::float_binary("chlo.polygamma", order.into(), self.into())
    }

    /// The Hurwitz zeta function of `x` and `q`; integers as `f32`.
    #[track_caller]
    pub fn zeta(&self, q: impl Into<Operand>) -> Array {
        Array::float_binary("chlo.zeta", self.into(), q.into())
    }

    /// `x * log(y)`, 0 where `x` is 0.
    #[track_caller]
    pub fn xlogy(&self, other: impl Into<Operand>) -> Array {
        let (x, y) = (Operand::from(self), other.into());
        let dtype = x.kind().join(y.kind()).join(Kind::WeakFloat).dtype();
        Array::together(vec![x, y], dtype, |b, x| {
            let (zero, one) = (b.full_like(x[0], 0.0)?, b.full_like(x[0], 1.0)?);
            let none = b.compare(Compare::Eq, x[0], zero)?;
            let safe = b.select(none, one, x[1])?;
            let log = b.elementwise("stablehlo.log", &[safe])?;
            let product = b.multiply(x[0], log)?;
            b.select(none, zero, product)
        })
    }

    /// The sine of `pi x` over `pi x`, 1 at 0; integers as `f32`.
    #[track_caller]
    pub fn sinc(&self) -> Array {
        let dtype = mean_type(self.dtype());
        trace::one(&[self], Place::here(), |b, x| {
            let x = b.convert(x[0], dtype)?;
            let (zero, one) = (b.full_like(x, 0.0)?, b.full_like(x, 1.0)?);
            let none = b.compare(Compare::Eq, x, zero)?;
            let pi = b.full_like(x, std::f64::consts::PI)?;
            let angle = b.multiply(pi, x)?;
            let safe = b.select(none, one, angle)?;
            let sine = b.elementwise("stablehlo.sine", &[safe])?;
            let ratio = b.divide(sine, safe)?;
            b.select(none, one, ratio)
        })
    }

    /// The real part; of real elements the array itself.
    #[track_caller]
    pub fn real(&self) -> Array {
        if self.dtype().is_complex() { self.unary("stablehlo.real") } else { self.clone() }
    }

    /// The imaginary part; of real elements zeros.
    #[track_caller]
    pub fn imag(&self) -> Array {
        if self.dtype().is_complex() { self.unary("stablehlo.imag") } else { self.zeros_like() }
    }

    /// The complex conjugate; of real elements the array itself.
    #[track_caller]
    pub fn conj(&self) -> Array {
        if self.dtype().is_complex() { self.unary("chlo.conj") } else { self.clone() }
    }

    /// The angle of complex elements; of real ones 0, or pi if they are negative.
    #[track_caller]
    pub fn angle(&self) -> Array {
        let dtype = mean_type(self.dtype());
        trace::one(&[self], Place::here(), |b, x| {
            let x = b.convert(x[0], dtype)?;
            let (re, im) = match dtype.is_complex() {
                true => {
                    (b.elementwise("stablehlo.real", &[x])?, b.elementwise("stablehlo.imag", &[x])?)
                }
                false => (x, b.full_like(x, 0.0)?),
            };
            b.elementwise("stablehlo.atan2", &[im, re])
        })
    }

    /// Complex elements of real and imaginary parts, `f32` or `f64`.
    #[track_caller]
    pub fn complex(real: impl Into<Operand>, imag: impl Into<Operand>) -> Array {
        Array::float_binary("stablehlo.complex", real.into(), imag.into())
    }
}
