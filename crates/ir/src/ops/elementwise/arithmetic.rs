//! Arithmetic on numbers of every type, and on truth values.

use super::complex;
use super::math::Math;
use crate::lower::Scalar;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::{BinaryOp, Compare, CompareKind, DType, KernelBuilder, RegType, UnaryOp};

/// Sum; of truth values: or.
pub(super) fn add(b: &mut KernelBuilder, dtype: DType, x: Scalar, y: Scalar) -> Scalar {
    let op = if dtype == DType::I1 { BinaryOp::Or } else { BinaryOp::Add };
    by_part(b, op, x, y)
}

pub(super) fn subtract(b: &mut KernelBuilder, x: Scalar, y: Scalar) -> Scalar {
    by_part(b, BinaryOp::Sub, x, y)
}

fn by_part(b: &mut KernelBuilder, op: BinaryOp, x: Scalar, y: Scalar) -> Scalar {
    let pairs = x.parts().into_iter().zip(y.parts());
    let parts: Vec<_> = pairs.map(|(x, y)| b.binary(op, x, y)).collect();
    Scalar::from_parts(&parts)
}

/// Product; of truth values: and.
pub(super) fn multiply(b: &mut KernelBuilder, dtype: DType, x: Scalar, y: Scalar) -> Scalar {
    match (x, y) {
        (Scalar::Complex(xr, xi), Scalar::Complex(yr, yi)) => {
            let ty = b.ty(xr);
            let z = complex::multiply(&mut Math::new(b, ty), (xr, xi), (yr, yi));
            Scalar::Complex(z.0, z.1)
        }
        _ => {
            let op = if dtype == DType::I1 { BinaryOp::And } else { BinaryOp::Mul };
            Scalar::Real(b.binary(op, x.real(), y.real()))
        }
    }
}

pub(super) fn divide(b: &mut KernelBuilder, dtype: DType, x: Scalar, y: Scalar) -> Scalar {
    let op = match dtype.class() {
        Class::Complex => {
            let (x, y) = (x.parts(), y.parts());
            let ty = b.ty(x[0]);
            let z = complex::divide(&mut Math::new(b, ty), (x[0], x[1]), (y[0], y[1]));
            return Scalar::Complex(z.0, z.1);
        }
        Class::Signed => BinaryOp::DivS,
        Class::Bool | Class::Unsigned => BinaryOp::DivU,
        Class::Float => BinaryOp::Div,
    };
    Scalar::Real(b.binary(op, x.real(), y.real()))
}

pub(super) fn remainder(b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
    let op = match dtype.class() {
        Class::Signed => BinaryOp::RemS,
        Class::Bool | Class::Unsigned => BinaryOp::RemU,
        Class::Float | Class::Complex => BinaryOp::Rem,
    };
    Scalar::Real(b.binary(op, x[0].real(), x[1].real()))
}

/// Maximum; of truth values: or; of complex numbers: by real, then by imaginary part.
pub(super) fn maximum(b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
    let op = match dtype.class() {
        Class::Bool => BinaryOp::Or,
        Class::Signed => BinaryOp::MaxS,
        Class::Unsigned => BinaryOp::MaxU,
        Class::Float => BinaryOp::MaxF,
        Class::Complex => return extreme(b, Compare::Gt, x),
    };
    Scalar::Real(b.binary(op, x[0].real(), x[1].real()))
}

/// Minimum; of truth values: and; of complex numbers: by real, then by imaginary part.
pub(super) fn minimum(b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
    let op = match dtype.class() {
        Class::Bool => BinaryOp::And,
        Class::Signed => BinaryOp::MinS,
        Class::Unsigned => BinaryOp::MinU,
        Class::Float => BinaryOp::MinF,
        Class::Complex => return extreme(b, Compare::Lt, x),
    };
    Scalar::Real(b.binary(op, x[0].real(), x[1].real()))
}

/// The complex operand that stands first (`Lt`) or last (`Gt`).
fn extreme(b: &mut KernelBuilder, direction: Compare, x: &[Scalar]) -> Scalar {
    let (x, y) = (x[0].parts(), x[1].parts());
    let beyond = b.compare(direction, CompareKind::Float, x[0], y[0]);
    let equal = b.compare(Compare::Eq, CompareKind::Float, x[0], y[0]);
    let beyond_im = b.compare(direction, CompareKind::Float, x[1], y[1]);
    let tie = b.binary(BinaryOp::And, equal, beyond_im);
    let first = b.binary(BinaryOp::Or, beyond, tie);
    Scalar::Complex(b.select(first, x[0], y[0]), b.select(first, x[1], y[1]))
}

pub(super) fn negate(b: &mut KernelBuilder, x: Scalar) -> Scalar {
    let parts: Vec<_> = x.parts().into_iter().map(|part| b.unary(UnaryOp::Neg, part)).collect();
    Scalar::from_parts(&parts)
}

/// Absolute value; of a complex number: its modulus, real.
pub(super) fn abs(b: &mut KernelBuilder, _: DType, x: &[Scalar]) -> Scalar {
    match x[0] {
        Scalar::Real(x) => Scalar::Real(b.unary(UnaryOp::Abs, x)),
        Scalar::Complex(re, im) => {
            let ty = b.ty(re);
            Scalar::Real(complex::modulus(&mut Math::new(b, ty), (re, im)))
        }
    }
}

/// -1, 0 or 1; of a float zero or NaN: itself; of a complex number: `x / |x|`.
pub(super) fn sign(b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
    match (x[0], dtype.class()) {
        (Scalar::Complex(..), _) => complex::or_real(b, x, |_, x| x, complex::sign),
        (Scalar::Real(x), Class::Float) => {
            let ty = b.ty(x);
            let mut m = Math::new(b, ty);
            let (above, below) = (m.gt(x, 0.0), m.lt(x, 0.0));
            let rest = m.select_c(below, -1.0, x);
            Scalar::Real(m.select_c(above, 1.0, rest))
        }
        (Scalar::Real(x), _) => {
            let ty = b.ty(x);
            let (zero, one, minus) = (b.int(ty, 0), b.int(ty, 1), b.int(ty, -1));
            let above = b.compare(Compare::Gt, CompareKind::Signed, x, zero);
            let below = b.compare(Compare::Lt, CompareKind::Signed, x, zero);
            let rest = b.select(below, minus, zero);
            Scalar::Real(b.select(above, one, rest))
        }
    }
}

/// `x` to the power of `y`, integers: wrapping; a negative `y` gives 1, -1 or 0 (the quotient of 1
/// and the power, towards zero; 0 to a negative power gives 0).
pub(super) fn integer_power(b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
    let (base, exponent) = (x[0].real(), x[1].real());
    let ty: RegType = b.ty(base);
    let (zero, one) = (b.int(ty, 0), b.int(ty, 1));
    let signed = dtype.class() == Class::Signed;
    let steps = ty.bits() - u32::from(signed);
    let (mut power, mut result) = (base, one);
    for step in 0..steps {
        let at = b.int(ty, 1 << step);
        let masked = b.binary(BinaryOp::And, exponent, at);
        let unset = b.compare(Compare::Eq, CompareKind::Unsigned, masked, zero);
        let factor = b.select(unset, one, power);
        result = b.binary(BinaryOp::Mul, result, factor);
        if step + 1 < steps {
            power = b.binary(BinaryOp::Mul, power, power);
        }
    }
    if signed {
        // Of 1 and -1 the loop's result is right whatever the sign of the exponent.
        let minus = b.int(ty, -1);
        let negative = b.compare(Compare::Lt, CompareKind::Signed, exponent, zero);
        let is_one = b.compare(Compare::Eq, CompareKind::Signed, base, one);
        let is_minus = b.compare(Compare::Eq, CompareKind::Signed, base, minus);
        let unit = b.binary(BinaryOp::Or, is_one, is_minus);
        let reciprocal = b.select(unit, result, zero);
        result = b.select(negative, reciprocal, result);
    }
    Scalar::Real(result)
}
