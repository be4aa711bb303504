//! The derivatives that the rows of the table name.
//!
//! The formulas, and what they give at kinks and poles, are JAX's (`jax/_src/lax/lax.py` and
//! `special.py`), but for complex `sign` and `acosh`, of which JAX's hold in part of the plane
//! only.

use super::bessel;
use super::derivative::Derivative::{self, Linear, Partials};
use super::derivative::Partial::{One, Over, Times, Without};
use crate::builder::Builder;
use crate::function::ValueId;
use crate::ops::OpView;
use crate::transform::{Jvp, Rule};
use jaxrs_kernel::{Compare, DType};
use std::f64::consts::PI;

type Formed = Result<ValueId, String>;
type Cotangent = Result<Option<ValueId>, String>;

/// The row of this name on one operand.
fn of(b: &mut Builder<'_>, name: &str, x: ValueId) -> Formed {
    b.elementwise(name, &[x])
}

/// `x + c`.
fn plus(b: &mut Builder<'_>, x: ValueId, c: f64) -> Formed {
    let c = b.full_like(x, c)?;
    b.add(x, c)
}

/// `c - x`.
fn minus_from(b: &mut Builder<'_>, c: f64, x: ValueId) -> Formed {
    let c = b.full_like(x, c)?;
    b.subtract(c, x)
}

/// `c * x`.
fn times(b: &mut Builder<'_>, c: f64, x: ValueId) -> Formed {
    let c = b.full_like(x, c)?;
    b.multiply(c, x)
}

fn square(b: &mut Builder<'_>, x: ValueId) -> Formed {
    b.multiply(x, x)
}

/// `x`, or 1 where it is 0.
fn replace_zero(b: &mut Builder<'_>, x: ValueId) -> Formed {
    let (zero, one) = (b.full_like(x, 0.0)?, b.full_like(x, 1.0)?);
    let is_zero = b.compare(Compare::Eq, x, zero)?;
    b.select(is_zero, one, x)
}

// ---- arithmetic

pub(super) const ADD: Derivative = Linear(|_, ct, _, _| Ok(Some(ct)));
pub(super) const SUBTRACT: Derivative =
    Linear(|b, ct, position, _| if position == 0 { Ok(Some(ct)) } else { b.negate(ct).map(Some) });
pub(super) const NEGATE: Derivative = Linear(|b, ct, _, _| b.negate(ct).map(Some));
pub(super) const DIVIDE: Derivative = Partials(&[
    Over(|_, x, _| Ok(x[1])),
    Times(|b, x, y| {
        let quotient = b.divide(y, x[1])?;
        b.negate(quotient)
    }),
]);
pub(super) const REMAINDER: Derivative = Partials(&[
    One,
    Times(|b, x, _| {
        let quotient = b.divide(x[0], x[1])?;
        let size = of(b, "stablehlo.abs", quotient)?;
        let (whole, sign) = (of(b, "stablehlo.floor", size)?, of(b, "stablehlo.sign", quotient)?);
        let count = b.multiply(sign, whole)?;
        b.negate(count)
    }),
]);
/// The greater or smaller operand has the derivative; of equal ones each has half.
pub(super) const EXTREME: Derivative =
    Partials(&[Times(|b, x, y| share(b, x[0], x[1], y)), Times(|b, x, y| share(b, x[1], x[0], y))]);
pub(super) const SQUARE: Derivative = Partials(&[Times(|b, x, _| times(b, 2.0, x[0]))]);

fn share(b: &mut Builder<'_>, of: ValueId, other: ValueId, result: ValueId) -> Formed {
    let [zero, half, one] = [0.0, 0.5, 1.0].map(|value| b.full_like(of, value));
    let (is, both) = (b.compare(Compare::Eq, of, result)?, b.compare(Compare::Eq, other, result)?);
    let some = b.select(both, half?, one?)?;
    b.select(is, some, zero?)
}

/// `abs`: the tangent with the operand's sign (of 0: plus); of complex numbers
/// `re(t conj(x) / |x|)`, at 0: 0.
pub(super) fn abs(cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
    let size = cx.copy(op)[0];
    let operand = op.operand(0);
    let Some(tangent) = cx.tangent(operand) else { return Ok(()) };
    let x = cx.value(operand);
    let mut b = cx.primal();
    let tangent = if b.ty(x).dtype.is_complex() {
        let safe = replace_zero(&mut b, size)?;
        let safe = complex_of(&mut b, safe)?;
        let conjugate = of(&mut b, "chlo.conj", x)?;
        let factor = b.divide(conjugate, safe)?;
        let factor = cx.residual(factor);
        let mut b = cx.linear();
        let product = b.multiply(tangent, factor)?;
        of(&mut b, "stablehlo.real", product)?
    } else {
        let zero = b.full_like(x, 0.0)?;
        let positive = b.compare(Compare::Ge, x, zero)?;
        let positive = cx.residual(positive);
        let mut b = cx.linear();
        let negated = b.negate(tangent)?;
        b.select(positive, tangent, negated)?
    };
    cx.bind_tangent(op.result(0), tangent);
    Ok(())
}

/// `sign`: zero; of complex numbers `u re(conj(u) t) / |x|` with `u = i sign(x)`, at 0: 0. (JAX takes
/// the latter for zero as well.)
pub(super) fn sign(cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
    let result = cx.copy(op)[0];
    let operand = op.operand(0);
    let Some(tangent) = cx.tangent(operand) else { return Ok(()) };
    let x = cx.value(operand);
    let mut b = cx.primal();
    if !b.ty(x).dtype.is_complex() {
        return Ok(());
    }
    let size = of(&mut b, "stablehlo.abs", x)?;
    let safe = replace_zero(&mut b, size)?;
    let safe = complex_of(&mut b, safe)?;
    let [re, im] = ["stablehlo.real", "stablehlo.imag"].map(|part| of(&mut b, part, result));
    let minus_im = b.negate(im?)?;
    let turned = b.elementwise("stablehlo.complex", &[minus_im, re?])?;
    let conjugate = of(&mut b, "chlo.conj", turned)?;
    let factor = b.divide(conjugate, safe)?;
    let (factor, turned) = (cx.residual(factor), cx.residual(turned));
    let mut b = cx.linear();
    let product = b.multiply(tangent, factor)?;
    let along = of(&mut b, "stablehlo.real", product)?;
    let along = complex_of(&mut b, along)?;
    let tangent = b.multiply(along, turned)?;
    cx.bind_tangent(op.result(0), tangent);
    Ok(())
}

// ---- parts of complex numbers

/// A real value as a complex one.
fn complex_of(b: &mut Builder<'_>, re: ValueId) -> Formed {
    let im = b.full_like(re, 0.0)?;
    b.elementwise("stablehlo.complex", &[re, im])
}

pub(super) fn real(b: &mut Builder<'_>, ct: ValueId, _: usize, dtype: DType) -> Cotangent {
    if dtype.is_complex() { complex_of(b, ct).map(Some) } else { Ok(Some(ct)) }
}

pub(super) fn imag(b: &mut Builder<'_>, ct: ValueId, _: usize, dtype: DType) -> Cotangent {
    if !dtype.is_complex() {
        return Ok(None);
    }
    let (zero, im) = (b.full_like(ct, 0.0)?, b.negate(ct)?);
    b.elementwise("stablehlo.complex", &[zero, im]).map(Some)
}

pub(super) fn complex(b: &mut Builder<'_>, ct: ValueId, position: usize, _: DType) -> Cotangent {
    if position == 0 {
        return of(b, "stablehlo.real", ct).map(Some);
    }
    let im = of(b, "stablehlo.imag", ct)?;
    b.negate(im).map(Some)
}

pub(super) fn conj(b: &mut Builder<'_>, ct: ValueId, _: usize, _: DType) -> Cotangent {
    of(b, "chlo.conj", ct).map(Some)
}

// ---- roots and powers

pub(super) const SQRT: Derivative = Partials(&[Times(|b, _, y| {
    let half = b.full_like(y, 0.5)?;
    b.divide(half, y)
})]);
pub(super) const RSQRT: Derivative = Partials(&[Times(|b, x, y| {
    let quotient = b.divide(y, x[0])?;
    times(b, -0.5, quotient)
})]);
pub(super) const CBRT: Derivative = Partials(&[Times(|b, _, y| {
    let (third, square) = (b.full_like(y, 1.0 / 3.0)?, square(b, y)?);
    b.divide(third, square)
})]);
pub(super) const POWER: Derivative = Partials(&[
    Times(|b, x, _| {
        let less = plus(b, x[1], -1.0)?;
        let power = b.elementwise("stablehlo.power", &[x[0], less])?;
        b.multiply(x[1], power)
    }),
    Times(|b, x, y| {
        let base = replace_zero(b, x[0])?;
        let log = of(b, "stablehlo.log", base)?;
        b.multiply(log, y)
    }),
]);

// ---- exponentials and logarithms

pub(super) const EXP: Derivative = Partials(&[Times(|_, _, y| Ok(y))]);
pub(super) const EXPM1: Derivative = Partials(&[Times(|b, _, y| plus(b, y, 1.0))]);
pub(super) const LOG: Derivative = Partials(&[Over(|_, x, _| Ok(x[0]))]);
pub(super) const LOG1P: Derivative = Partials(&[Over(|b, x, _| plus(b, x[0], 1.0))]);
pub(super) const LOGISTIC: Derivative = Partials(&[Times(|b, _, y| {
    let rest = minus_from(b, 1.0, y)?;
    b.multiply(y, rest)
})]);
pub(super) const TANH: Derivative = Partials(&[Times(|b, _, y| product_round_one(b, y))]);
pub(super) const SINH: Derivative = Partials(&[Times(|b, x, _| of(b, "chlo.cosh", x[0]))]);
pub(super) const COSH: Derivative = Partials(&[Times(|b, x, _| of(b, "chlo.sinh", x[0]))]);
pub(super) const ASINH: Derivative = Partials(&[Times(|b, x, _| {
    let square = square(b, x[0])?;
    let sum = plus(b, square, 1.0)?;
    of(b, "stablehlo.rsqrt", sum)
})]);
pub(super) const ACOSH: Derivative = Partials(&[Times(|b, x, _| {
    if b.ty(x[0]).dtype.is_complex() {
        let (less, more) = (plus(b, x[0], -1.0)?, plus(b, x[0], 1.0)?);
        let (less, more) = (of(b, "stablehlo.rsqrt", less)?, of(b, "stablehlo.rsqrt", more)?);
        return b.multiply(less, more);
    }
    let square = square(b, x[0])?;
    let difference = plus(b, square, -1.0)?;
    of(b, "stablehlo.rsqrt", difference)
})]);
pub(super) const ATANH: Derivative = Partials(&[Over(|b, x, _| product_round_one(b, x[0]))]);

/// `(1 + x) (1 - x)`.
fn product_round_one(b: &mut Builder<'_>, x: ValueId) -> Formed {
    let (more, less) = (plus(b, x, 1.0)?, minus_from(b, 1.0, x)?);
    b.multiply(more, less)
}

// ---- angles

pub(super) const SINE: Derivative = Partials(&[Times(|b, x, _| of(b, "stablehlo.cosine", x[0]))]);
pub(super) const COSINE: Derivative = Partials(&[Times(|b, x, _| {
    let sine = of(b, "stablehlo.sine", x[0])?;
    b.negate(sine)
})]);
pub(super) const TAN: Derivative = Partials(&[Times(|b, _, y| {
    let square = square(b, y)?;
    plus(b, square, 1.0)
})]);
pub(super) const ASIN: Derivative = Partials(&[Times(|b, x, _| chord(b, x[0]))]);
pub(super) const ACOS: Derivative = Partials(&[Times(|b, x, _| {
    let chord = chord(b, x[0])?;
    b.negate(chord)
})]);
pub(super) const ATAN: Derivative = Partials(&[Over(|b, x, _| {
    let square = square(b, x[0])?;
    plus(b, square, 1.0)
})]);
pub(super) const ATAN2: Derivative = Partials(&[
    Times(|b, x, _| over_squares(b, x[1], x)),
    Times(|b, x, _| {
        let minus = b.negate(x[0])?;
        over_squares(b, minus, x)
    }),
]);

/// `1 / sqrt(1 - x^2)`.
fn chord(b: &mut Builder<'_>, x: ValueId) -> Formed {
    let square = square(b, x)?;
    let rest = minus_from(b, 1.0, square)?;
    of(b, "stablehlo.rsqrt", rest)
}

fn over_squares(b: &mut Builder<'_>, value: ValueId, x: &[ValueId]) -> Formed {
    let (first, second) = (square(b, x[0])?, square(b, x[1])?);
    let sum = b.add(first, second)?;
    b.divide(value, sum)
}

// ---- special functions

pub(super) const ERF: Derivative =
    Partials(&[Times(|b, x, _| bell(b, 2.0 / PI.sqrt(), -1.0, x[0]))]);
pub(super) const ERFC: Derivative =
    Partials(&[Times(|b, x, _| bell(b, -2.0 / PI.sqrt(), -1.0, x[0]))]);
pub(super) const ERF_INV: Derivative =
    Partials(&[Times(|b, _, y| bell(b, PI.sqrt() / 2.0, 1.0, y))]);

/// `factor exp(sign x^2)`.
fn bell(b: &mut Builder<'_>, factor: f64, sign: f64, x: ValueId) -> Formed {
    let square = square(b, x)?;
    let exponent = times(b, sign, square)?;
    let power = of(b, "stablehlo.exponential", exponent)?;
    times(b, factor, power)
}

pub(super) const BESSEL_I1E: Derivative = Partials(&[Times(|b, x, y| {
    let epsilon = match b.ty(x[0]).dtype {
        DType::BF16 => 0.0078125,
        DType::F16 => 0.0009765625,
        DType::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    };
    let tiny = b.full_like(x[0], epsilon)?;
    let size = of(b, "stablehlo.abs", x[0])?;
    let large = b.compare(Compare::Gt, size, tiny)?;
    let safe = b.select(large, x[0], tiny)?;
    let one = b.full_like(x[0], 1.0)?;
    let (sign, reciprocal) = (of(b, "stablehlo.sign", safe)?, b.divide(one, safe)?);
    let sum = b.add(sign, reciprocal)?;
    let product = b.multiply(y, sum)?;
    let zeroth = bessel::i0e(b, safe)?;
    let slope = b.subtract(zeroth, product)?;
    let half = b.full_like(x[0], 0.5)?;
    b.select(large, slope, half)
})]);
pub(super) const LGAMMA: Derivative = Partials(&[Times(|b, x, _| of(b, "chlo.digamma", x[0]))]);
pub(super) const DIGAMMA: Derivative = Partials(&[Times(|b, x, _| {
    let one = b.full_like(x[0], 1.0)?;
    b.elementwise("chlo.polygamma", &[one, x[0]])
})]);
pub(super) const POLYGAMMA: Derivative = Partials(&[
    Without("the order of polygamma is a whole number"),
    Times(|b, x, _| {
        let next = plus(b, x[0], 1.0)?;
        b.elementwise("chlo.polygamma", &[next, x[1]])
    }),
]);
pub(super) const ZETA: Derivative = Partials(&[
    Without("no op gives the derivative of zeta by its exponent"),
    Times(|b, x, _| {
        let next = plus(b, x[0], 1.0)?;
        let zeta = b.elementwise("chlo.zeta", &[next, x[1]])?;
        let product = b.multiply(x[0], zeta)?;
        b.negate(product)
    }),
]);
pub(super) const NEXT_AFTER: Derivative =
    Derivative::None("it steps through the numbers of a format, which have no tangents");
