//! A short way to write scalar bodies.

use crate::lower::Scalar;
use jaxrs_kernel::builder::{Guard, branch};
use jaxrs_kernel::{BinaryOp, CastOp, Compare, CompareKind, KernelBuilder, Reg, RegType, UnaryOp};

/// Emits float instructions of one register type, and integer ones of the same width.
pub(super) struct Math<'b> {
    pub(super) b: &'b mut KernelBuilder,
    pub(super) ty: RegType,
}

impl Math<'_> {
    /// A body's emitter for a float type.
    pub(super) fn new(b: &mut KernelBuilder, ty: RegType) -> Math<'_> {
        debug_assert!(ty.is_float(), "a float body on {ty}");
        Math { b, ty }
    }

    /// Whether the body is for `f64`.
    pub(super) fn wide(&self) -> bool {
        self.ty == RegType::F64
    }

    /// A constant, rounded to the type.
    pub(super) fn c(&mut self, value: f64) -> Reg {
        self.b.float(self.ty, value)
    }

    /// What a rare case gives instead of the common values. Only elements of the rare case pay for
    /// it: a loop over vectors skips the branch where no lane takes it.
    pub(super) fn rarely(
        &mut self,
        condition: Reg,
        common: &[Reg],
        rare: impl FnOnce(&mut Math<'_>) -> Vec<Reg>,
    ) -> Vec<Reg> {
        let ty = self.ty;
        let guard = Guard::When(condition);
        branch(self.b, guard, |b| rare(&mut Math::new(b, ty)), |_| common.to_vec())
    }

    pub(super) fn add(&mut self, x: Reg, y: Reg) -> Reg {
        self.b.binary(BinaryOp::Add, x, y)
    }

    pub(super) fn sub(&mut self, x: Reg, y: Reg) -> Reg {
        self.b.binary(BinaryOp::Sub, x, y)
    }

    pub(super) fn mul(&mut self, x: Reg, y: Reg) -> Reg {
        self.b.binary(BinaryOp::Mul, x, y)
    }

    pub(super) fn div(&mut self, x: Reg, y: Reg) -> Reg {
        self.b.binary(BinaryOp::Div, x, y)
    }

    /// `x * y + z`, rounded once.
    pub(super) fn fma(&mut self, x: Reg, y: Reg, z: Reg) -> Reg {
        self.b.fma(x, y, z)
    }

    /// `x` plus a constant.
    pub(super) fn add_c(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.add(x, y)
    }

    /// `x` times a constant.
    pub(super) fn mul_c(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.mul(x, y)
    }

    /// A constant minus `x`.
    pub(super) fn c_sub(&mut self, x: f64, y: Reg) -> Reg {
        let x = self.c(x);
        self.sub(x, y)
    }

    /// `x * y + z` with constants `y` and `z`.
    pub(super) fn fma_cc(&mut self, x: Reg, y: f64, z: f64) -> Reg {
        let (y, z) = (self.c(y), self.c(z));
        self.fma(x, y, z)
    }

    /// `x * y + z` with a constant `y`.
    pub(super) fn fma_c(&mut self, x: Reg, y: f64, z: Reg) -> Reg {
        let y = self.c(y);
        self.fma(x, y, z)
    }

    pub(super) fn neg(&mut self, x: Reg) -> Reg {
        self.b.unary(UnaryOp::Neg, x)
    }

    pub(super) fn abs(&mut self, x: Reg) -> Reg {
        self.b.unary(UnaryOp::Abs, x)
    }

    pub(super) fn sqrt(&mut self, x: Reg) -> Reg {
        self.b.unary(UnaryOp::Sqrt, x)
    }

    pub(super) fn floor(&mut self, x: Reg) -> Reg {
        self.b.unary(UnaryOp::Floor, x)
    }

    pub(super) fn nearest(&mut self, x: Reg) -> Reg {
        self.b.unary(UnaryOp::Nearest, x)
    }

    pub(super) fn trunc(&mut self, x: Reg) -> Reg {
        self.b.unary(UnaryOp::Trunc, x)
    }

    /// The smaller of `x` and a constant that is no zero; NaN if `x` is.
    pub(super) fn min_c(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.b.binary(BinaryOp::MinF, x, y)
    }

    /// The larger of `x` and a constant that is no zero; NaN if `x` is.
    pub(super) fn max_c(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.b.binary(BinaryOp::MaxF, x, y)
    }

    pub(super) fn cmp(&mut self, op: Compare, x: Reg, y: Reg) -> Reg {
        self.b.compare(op, CompareKind::Float, x, y)
    }

    pub(super) fn lt(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.cmp(Compare::Lt, x, y)
    }

    pub(super) fn le(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.cmp(Compare::Le, x, y)
    }

    pub(super) fn gt(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.cmp(Compare::Gt, x, y)
    }

    pub(super) fn ge(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.cmp(Compare::Ge, x, y)
    }

    pub(super) fn eq(&mut self, x: Reg, y: f64) -> Reg {
        let y = self.c(y);
        self.cmp(Compare::Eq, x, y)
    }

    pub(super) fn is_nan(&mut self, x: Reg) -> Reg {
        self.cmp(Compare::Ne, x, x)
    }

    pub(super) fn and(&mut self, x: Reg, y: Reg) -> Reg {
        self.b.binary(BinaryOp::And, x, y)
    }

    pub(super) fn or(&mut self, x: Reg, y: Reg) -> Reg {
        self.b.binary(BinaryOp::Or, x, y)
    }

    pub(super) fn not(&mut self, x: Reg) -> Reg {
        self.b.unary(UnaryOp::Not, x)
    }

    pub(super) fn select(&mut self, condition: Reg, x: Reg, y: Reg) -> Reg {
        self.b.select(condition, x, y)
    }

    /// A constant where the condition holds, else `y`.
    pub(super) fn select_c(&mut self, condition: Reg, x: f64, y: Reg) -> Reg {
        let x = self.c(x);
        self.b.select(condition, x, y)
    }

    /// One constant or another.
    pub(super) fn select_cc(&mut self, condition: Reg, x: f64, y: f64) -> Reg {
        let (x, y) = (self.c(x), self.c(y));
        self.b.select(condition, x, y)
    }

    /// The polynomial with these coefficients, constant term first.
    pub(super) fn poly(&mut self, x: Reg, coefficients: &[f64]) -> Reg {
        let (&last, rest) = coefficients.split_last().expect("a polynomial has a coefficient");
        let mut value = self.c(last);
        for &coefficient in rest.iter().rev() {
            let coefficient = self.c(coefficient);
            value = self.fma(value, x, coefficient);
        }
        value
    }

    // ---- bits

    /// The bits as an integer.
    pub(super) fn bits(&mut self, x: Reg) -> Reg {
        self.b.cast(CastOp::Bitcast, x, self.ty.as_int())
    }

    /// The float with these bits.
    pub(super) fn float(&mut self, bits: Reg) -> Reg {
        self.b.cast(CastOp::Bitcast, bits, self.ty)
    }

    /// An integer of the type's width.
    pub(super) fn int(&mut self, value: i64) -> Reg {
        self.b.int(self.ty.as_int(), value)
    }

    /// An integer instruction with a constant as second operand.
    pub(super) fn int_c(&mut self, op: BinaryOp, x: Reg, y: i64) -> Reg {
        let y = self.int(y);
        self.b.binary(op, x, y)
    }

    /// Bits of the mantissa that are stored.
    pub(super) fn mantissa(&self) -> i64 {
        if self.wide() { 52 } else { 23 }
    }

    /// The bits of a constant, rounded to the type.
    pub(super) fn bits_of(&self, value: f64) -> i64 {
        if self.wide() { value.to_bits() as i64 } else { i64::from((value as f32).to_bits()) }
    }

    /// Whether `x` is positive, finite and not below the normal range.
    pub(super) fn is_normal(&mut self, x: Reg) -> Reg {
        let least = if self.wide() { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE.into() };
        let (least, infinity) = (self.bits_of(least), self.bits_of(f64::INFINITY));
        let bits = self.bits(x);
        let above = self.int_c(BinaryOp::Sub, bits, least);
        let range = self.int(infinity - least);
        self.b.compare(Compare::Lt, CompareKind::Unsigned, above, range)
    }

    /// The sign bit alone, as an integer.
    pub(super) fn sign_bit(&mut self, x: Reg) -> Reg {
        let bits = self.bits(x);
        let mask = if self.wide() { i64::MIN } else { 0x8000_0000 };
        self.int_c(BinaryOp::And, bits, mask)
    }

    /// `x` with its sign flipped where `sign` has its sign bit set.
    pub(super) fn flip_sign(&mut self, x: Reg, sign: Reg) -> Reg {
        let (x, sign) = (self.bits(x), self.sign_bit(sign));
        let flipped = self.b.binary(BinaryOp::Xor, x, sign);
        self.float(flipped)
    }

    /// `x`, not negative, with the sign of `sign`.
    pub(super) fn with_sign(&mut self, x: Reg, sign: Reg) -> Reg {
        let (x, sign) = (self.bits(x), self.sign_bit(sign));
        let signed = self.b.binary(BinaryOp::Or, x, sign);
        self.float(signed)
    }

    /// `|x|` with the sign of `sign`.
    pub(super) fn copy_sign(&mut self, x: Reg, sign: Reg) -> Reg {
        let x = self.abs(x);
        self.with_sign(x, sign)
    }

    /// The product as an unevaluated sum of two floats.
    pub(super) fn two_mul(&mut self, x: Reg, y: Reg) -> (Reg, Reg) {
        let high = self.mul(x, y);
        let minus = self.neg(high);
        (high, self.fma(x, y, minus))
    }

    /// The sum as an unevaluated sum of two floats.
    pub(super) fn two_add(&mut self, x: Reg, y: Reg) -> (Reg, Reg) {
        let high = self.add(x, y);
        let part = self.sub(high, x);
        let rest = self.sub(high, part);
        let (dx, dy) = (self.sub(x, rest), self.sub(y, part));
        (high, self.add(dx, dy))
    }

    /// The same, of operands whose first is zero or has the larger exponent.
    pub(super) fn quick_two_add(&mut self, x: Reg, y: Reg) -> (Reg, Reg) {
        let high = self.add(x, y);
        let part = self.sub(high, x);
        (high, self.sub(y, part))
    }
}

/// A real element's body, in the element's register type.
pub(super) fn real(
    b: &mut KernelBuilder,
    x: &[Scalar],
    body: impl FnOnce(&mut Math<'_>, Reg) -> Reg,
) -> Scalar {
    let x = x[0].real();
    let ty = b.ty(x);
    Scalar::Real(body(&mut Math::new(b, ty), x))
}

/// A body of two real elements.
pub(super) fn real2(
    b: &mut KernelBuilder,
    x: &[Scalar],
    body: impl FnOnce(&mut Math<'_>, Reg, Reg) -> Reg,
) -> Scalar {
    let (x, y) = (x[0].real(), x[1].real());
    let ty = b.ty(x);
    Scalar::Real(body(&mut Math::new(b, ty), x, y))
}
