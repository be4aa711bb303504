//! Parts of numbers, rounding to integers, and tests.

use super::math::Math;
use crate::lower::Scalar;
use jaxrs_kernel::{
    BinaryOp, CastOp, Compare, CompareKind, DType, KernelBuilder, Reg, RegType, UnaryOp,
};

/// One instruction.
pub(super) fn unary(b: &mut KernelBuilder, op: UnaryOp, x: &[Scalar]) -> Scalar {
    Scalar::Real(b.unary(op, x[0].real()))
}

/// To the nearest integer, ties away from zero. Not by adding a half, which may round up.
pub(super) fn round_away(m: &mut Math<'_>, x: Reg) -> Reg {
    let whole = m.trunc(x);
    let rest = m.sub(x, whole);
    let rest = m.abs(rest);
    let one = m.c(1.0);
    let step = m.with_sign(one, x);
    let next = m.add(whole, step);
    let far = m.ge(rest, 0.5);
    m.select(far, next, whole)
}

pub(super) fn re(x: Scalar) -> Scalar {
    match x {
        Scalar::Real(x) | Scalar::Complex(x, _) => Scalar::Real(x),
    }
}

pub(super) fn im(b: &mut KernelBuilder, x: Scalar) -> Scalar {
    match x {
        Scalar::Real(x) => {
            let ty = b.ty(x);
            Scalar::Real(b.float(ty, 0.0))
        }
        Scalar::Complex(_, im) => Scalar::Real(im),
    }
}

pub(super) fn conj(b: &mut KernelBuilder, x: Scalar) -> Scalar {
    match x {
        Scalar::Real(_) => x,
        Scalar::Complex(re, im) => Scalar::Complex(re, b.unary(UnaryOp::Neg, im)),
    }
}

pub(super) fn complex_of(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::C128 } else { DType::C64 }
}

pub(super) fn is_finite(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    m.lt(size, f64::INFINITY)
}

pub(super) fn is_inf(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    m.eq(size, f64::INFINITY)
}

pub(super) fn is_pos_inf(m: &mut Math<'_>, x: Reg) -> Reg {
    m.eq(x, f64::INFINITY)
}

pub(super) fn is_neg_inf(m: &mut Math<'_>, x: Reg) -> Reg {
    m.eq(x, f64::NEG_INFINITY)
}

/// The next number of the element type after `x` towards `y`.
pub(super) fn next_after(b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
    let (x, y) = (x[0].real(), x[1].real());
    let int = match dtype {
        DType::BF16 | DType::F16 => RegType::I16,
        _ => b.ty(x).as_int(),
    };
    let bits = match dtype {
        DType::BF16 => b.unary(UnaryOp::BitsBf16, x),
        DType::F16 => b.unary(UnaryOp::BitsF16, x),
        _ => b.cast(CastOp::Bitcast, x, int),
    };
    let float = CompareKind::Float;
    let zero = b.float(dtype.reg(), 0.0);
    // Away from zero the bits go up by one, towards it down; from zero to the least number.
    let upwards = b.compare(Compare::Lt, float, x, y);
    let negative = b.compare(Compare::Lt, float, x, zero);
    let towards_zero = b.compare(Compare::Eq, CompareKind::Unsigned, upwards, negative);
    let (one, minus) = (b.int(int, 1), b.int(int, -1));
    let step = b.select(towards_zero, minus, one);
    let stepped = b.binary(BinaryOp::Add, bits, step);
    let sign = b.int(int, 1 << (int.bits() - 1));
    let (sign, none) = (b.binary(BinaryOp::Or, sign, one), one);
    let least = b.select(upwards, none, sign);
    let is_zero = b.compare(Compare::Eq, float, x, zero);
    let bits = b.select(is_zero, least, stepped);
    let next = match dtype {
        DType::BF16 => b.unary(UnaryOp::FromBitsBf16, bits),
        DType::F16 => b.unary(UnaryOp::FromBitsF16, bits),
        _ => b.cast(CastOp::Bitcast, bits, dtype.reg()),
    };
    let equal = b.compare(Compare::Eq, float, x, y);
    let next = b.select(equal, y, next);
    let (x_nan, y_nan) = (b.compare(Compare::Ne, float, x, x), b.compare(Compare::Ne, float, y, y));
    let nan = b.binary(BinaryOp::Or, x_nan, y_nan);
    let sum = b.binary(BinaryOp::Add, x, y);
    Scalar::Real(b.select(nan, sum, next))
}
