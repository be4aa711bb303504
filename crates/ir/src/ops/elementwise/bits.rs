//! Bitwise ops, shifts, and products' high halves.

use crate::lower::Scalar;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::{BinaryOp, CastOp, DType, KernelBuilder, Reg, RegType};

fn binary(b: &mut KernelBuilder, op: BinaryOp, x: &[Scalar]) -> Scalar {
    Scalar::Real(b.binary(op, x[0].real(), x[1].real()))
}

pub(super) fn and(b: &mut KernelBuilder, _: DType, x: &[Scalar]) -> Scalar {
    binary(b, BinaryOp::And, x)
}

pub(super) fn or(b: &mut KernelBuilder, _: DType, x: &[Scalar]) -> Scalar {
    binary(b, BinaryOp::Or, x)
}

pub(super) fn xor(b: &mut KernelBuilder, _: DType, x: &[Scalar]) -> Scalar {
    binary(b, BinaryOp::Xor, x)
}

pub(super) fn shift_left(b: &mut KernelBuilder, _: DType, x: &[Scalar]) -> Scalar {
    binary(b, BinaryOp::Shl, x)
}

pub(super) fn shift_right_arithmetic(b: &mut KernelBuilder, _: DType, x: &[Scalar]) -> Scalar {
    binary(b, BinaryOp::ShrS, x)
}

pub(super) fn shift_right_logical(b: &mut KernelBuilder, _: DType, x: &[Scalar]) -> Scalar {
    binary(b, BinaryOp::ShrU, x)
}

/// The upper half of the product of twice the width.
pub(super) fn multiply_high(b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
    let (x, y) = (x[0].real(), x[1].real());
    let (signed, ty) = (dtype.class() == Class::Signed, b.ty(x));
    let high = match ty {
        RegType::I64 => wide_high(b, signed, x, y),
        _ => {
            let extend = if signed { CastOp::SignExtend } else { CastOp::ZeroExtend };
            let (x, y) = (b.cast(extend, x, RegType::I64), b.cast(extend, y, RegType::I64));
            let product = b.binary(BinaryOp::Mul, x, y);
            let width = b.int(RegType::I64, ty.bits().into());
            let high = b.binary(BinaryOp::ShrU, product, width);
            b.cast(CastOp::Truncate, high, ty)
        }
    };
    Scalar::Real(high)
}

/// The same for 64 bits, from 32-bit halves.
fn wide_high(b: &mut KernelBuilder, signed: bool, x: Reg, y: Reg) -> Reg {
    let ty = RegType::I64;
    let (half, mask) = (b.int(ty, 32), b.int(ty, 0xffff_ffff));
    let mut halves = |v: Reg| (b.binary(BinaryOp::ShrU, v, half), b.binary(BinaryOp::And, v, mask));
    let ((xh, xl), (yh, yl)) = (halves(x), halves(y));
    let mut mul = |p: Reg, q: Reg| b.binary(BinaryOp::Mul, p, q);
    let (ll, lh, hl, hh) = (mul(xl, yl), mul(xl, yh), mul(xh, yl), mul(xh, yh));
    let carry = b.binary(BinaryOp::ShrU, ll, half);
    let middle = b.binary(BinaryOp::Add, hl, carry);
    let (up, low) = (b.binary(BinaryOp::ShrU, middle, half), b.binary(BinaryOp::And, middle, mask));
    let second = b.binary(BinaryOp::Add, lh, low);
    let second = b.binary(BinaryOp::ShrU, second, half);
    let sum = b.binary(BinaryOp::Add, hh, up);
    let high = b.binary(BinaryOp::Add, sum, second);
    if !signed {
        return high;
    }
    // A negative factor counts as 2^64 too much.
    let last = b.int(ty, 63);
    let mut excess = |v: Reg, other: Reg| {
        let sign = b.binary(BinaryOp::ShrS, v, last);
        b.binary(BinaryOp::And, sign, other)
    };
    let (of_x, of_y) = (excess(x, y), excess(y, x));
    let high = b.binary(BinaryOp::Sub, high, of_x);
    b.binary(BinaryOp::Sub, high, of_y)
}
