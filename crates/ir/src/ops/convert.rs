//! `stablehlo.convert`: every element as another type.
//!
//! Rounding is to nearest, ties to even, and happens once, also where a kernel goes from `f64` or
//! a wide integer to a 16-bit float: the intermediate is rounded to odd (its last bit set where
//! anything was lost), which leaves the second rounding correct. Floats go to integers towards
//! zero and saturate; NaN becomes 0.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, is_differentiable};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::{
    BinaryOp, CastOp, Compare, CompareKind, DType, KernelBuilder, Reg, RegType, UnaryOp,
};

/// A conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct Convert {
    /// The element type of the result.
    pub to: DType,
}

impl StructuredOp for Convert {
    const NAMES: &'static [&'static str] = &["stablehlo.convert"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Convert { to: signature.declared("convert")?.dtype })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("convert", 1, 0)?;
        let operand = &signature.operands[0];
        Ok(vec![TensorType::checked("convert", operand.shape.clone(), self.to)?])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (from, result) = (op.operand_type(0).dtype, op.result_type(0).clone());
        if operands[0].as_splat().is_some() && !result.is_empty() {
            let parts = evaluate_parts(operands[0].parts(0), from, self.to);
            let element =
                Literal::scalar(self.to, &parts[..self.to.parts() as usize]).to_bytes();
            return Ok(vec![Literal::splat(result, &element)]);
        }
        Ok(vec![Literal::tabulate(result, |at| {
            evaluate_parts(operands[0].parts(at), from, self.to)
        })])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Cheap,
            element: Box::new(move |e, _, index| {
                let x = e.read(op.operand(0), index);
                element(e.builder(), x, op.operand_type(0).dtype, self.to)
            }),
        }
    }
}

/// An element of type `from` as one of type `to`.
pub fn element(b: &mut KernelBuilder, x: Scalar, from: DType, to: DType) -> Scalar {
    if from == to {
        return x;
    }
    match (x, to.is_complex()) {
        (Scalar::Complex(re, im), true) => {
            let re = part(b, re, from.part(), to.part());
            Scalar::Complex(re, part(b, im, from.part(), to.part()))
        }
        (Scalar::Real(x), true) => {
            let re = part(b, x, from, to.part());
            Scalar::Complex(re, b.float(to.reg(), 0.0))
        }
        (Scalar::Complex(re, _), false) => Scalar::Real(part(b, re, from.part(), to)),
        (Scalar::Real(x), false) => Scalar::Real(part(b, x, from, to)),
    }
}

/// A real element of type `from` as one of the real type `to`.
fn part(b: &mut KernelBuilder, x: Reg, from: DType, to: DType) -> Reg {
    let ty = to.reg();
    match (from.class(), to.class()) {
        (Class::Complex, _) | (_, Class::Complex) => unreachable!("a part is real"),
        (Class::Bool, Class::Bool) => x,
        (Class::Float, Class::Bool) => {
            let zero = b.float(from.reg(), 0.0);
            b.compare(Compare::Ne, CompareKind::Float, x, zero)
        }
        (Class::Signed | Class::Unsigned, Class::Bool) => {
            let zero = b.int(from.reg(), 0);
            b.compare(Compare::Ne, CompareKind::Unsigned, x, zero)
        }
        (Class::Bool, Class::Signed | Class::Unsigned) => b.cast(CastOp::ZeroExtend, x, ty),
        (Class::Bool, Class::Float) => b.cast(CastOp::UnsignedToFloat, x, ty),
        (Class::Signed | Class::Unsigned, Class::Signed | Class::Unsigned) => {
            match (from.bits().cmp(&to.bits()), from.class()) {
                (std::cmp::Ordering::Equal, _) => x,
                (std::cmp::Ordering::Greater, _) => b.cast(CastOp::Truncate, x, ty),
                (std::cmp::Ordering::Less, Class::Signed) => b.cast(CastOp::SignExtend, x, ty),
                (std::cmp::Ordering::Less, _) => b.cast(CastOp::ZeroExtend, x, ty),
            }
        }
        (Class::Signed | Class::Unsigned, Class::Float) => int_to_float(b, x, from, to),
        (Class::Float, Class::Signed) => b.cast(CastOp::FloatToSigned, x, ty),
        (Class::Float, Class::Unsigned) => b.cast(CastOp::FloatToUnsigned, x, ty),
        (Class::Float, Class::Float) => match (from, to) {
            (DType::F64, DType::BF16 | DType::F16) => {
                let odd = round_to_odd(b, x);
                round(b, odd, to)
            }
            (DType::F64, _) | (_, DType::F64) if from != to => b.cast(CastOp::FloatToFloat, x, ty),
            (_, DType::BF16 | DType::F16) if from != to => round(b, x, to),
            _ => x,
        },
    }
}

/// An `f32` rounded to a 16-bit float type.
fn round(b: &mut KernelBuilder, x: Reg, to: DType) -> Reg {
    b.unary(if to == DType::BF16 { UnaryOp::RoundBf16 } else { UnaryOp::RoundF16 }, x)
}

/// An `f64` as the `f32` nearest towards zero, with its last bit set if that is not exact.
fn round_to_odd(b: &mut KernelBuilder, x: Reg) -> Reg {
    let near = b.cast(CastOp::FloatToFloat, x, RegType::F32);
    let back = b.cast(CastOp::FloatToFloat, near, RegType::F64);
    let (size, back_size) = (b.unary(UnaryOp::Abs, x), b.unary(UnaryOp::Abs, back));
    let above = b.compare(Compare::Gt, CompareKind::Float, back_size, size);
    let below = b.compare(Compare::Lt, CompareKind::Float, back_size, size);
    let bits = b.cast(CastOp::Bitcast, near, RegType::I32);
    let one = b.int(RegType::I32, 1);
    let down = b.binary(BinaryOp::Sub, bits, one);
    let down = b.binary(BinaryOp::Or, down, one);
    let up = b.binary(BinaryOp::Or, bits, one);
    let bits = b.select(below, up, bits);
    let bits = b.select(above, down, bits);
    b.cast(CastOp::Bitcast, bits, RegType::F32)
}

fn int_to_float(b: &mut KernelBuilder, x: Reg, from: DType, to: DType) -> Reg {
    let cast = match from.class() {
        Class::Signed => CastOp::SignedToFloat,
        _ => CastOp::UnsignedToFloat,
    };
    if !matches!(to, DType::BF16 | DType::F16) {
        return b.cast(cast, x, to.reg());
    }
    match from.bits() {
        ..=16 => {
            let exact = b.cast(cast, x, RegType::F32);
            round(b, exact, to)
        }
        32 => {
            let exact = b.cast(cast, x, RegType::F64);
            let odd = round_to_odd(b, exact);
            round(b, odd, to)
        }
        _ => {
            let sticky = sticky(b, x, from.class());
            let exact = b.cast(cast, sticky, RegType::F64);
            let odd = round_to_odd(b, exact);
            round(b, odd, to)
        }
    }
}

/// A 64-bit integer with at most 53 significant bits between the same 16-bit floats: beyond 2^53
/// the last 12 bits become one that says whether any of them was set.
fn sticky(b: &mut KernelBuilder, x: Reg, class: Class) -> Reg {
    let ty = RegType::I64;
    let (mask, half, zero) = (b.int(ty, 0xfff), b.int(ty, 0x800), b.int(ty, 0));
    let rest = b.binary(BinaryOp::And, x, mask);
    let exact = b.compare(Compare::Eq, CompareKind::Unsigned, rest, zero);
    let whole = b.binary(BinaryOp::Sub, x, rest);
    let marked = b.binary(BinaryOp::Or, whole, half);
    let marked = b.select(exact, x, marked);
    // Between -2^53 and 2^53 (unsigned: below 2^53) the number itself is exact.
    let shift = b.int(ty, 53);
    let small = if class == Class::Signed {
        let top = b.binary(BinaryOp::ShrS, x, shift);
        let one = b.int(ty, 1);
        let top = b.binary(BinaryOp::Add, top, one);
        let two = b.int(ty, 2);
        b.compare(Compare::Lt, CompareKind::Unsigned, top, two)
    } else {
        let top = b.binary(BinaryOp::ShrU, x, shift);
        b.compare(Compare::Eq, CompareKind::Unsigned, top, zero)
    };
    b.select(small, x, marked)
}

/// An exact real number.
#[derive(Clone, Copy)]
enum Exact {
    Int(i128),
    Float(f64),
}

/// The parts of an element of type `from` as those of type `to`, as register bits: the definition
/// of the op, written apart from the kernel's.
pub fn evaluate_parts(parts: [u64; 2], from: DType, to: DType) -> [u64; 2] {
    if from == to {
        return parts;
    }
    // Of a complex element that becomes real, the imaginary part is ignored.
    let exact = parts.map(|bits| match from.part() {
        DType::I8 => Exact::Int(i128::from(bits as i8)),
        DType::I16 => Exact::Int(i128::from(bits as i16)),
        DType::I32 => Exact::Int(i128::from(bits as i32)),
        DType::I64 => Exact::Int(i128::from(bits as i64)),
        DType::I1 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            Exact::Int(i128::from(bits))
        }
        DType::BF16 | DType::F16 | DType::F32 => Exact::Float(f32::from_bits(bits as u32).into()),
        DType::F64 | DType::C64 | DType::C128 => Exact::Float(f64::from_bits(bits)),
    });
    let zero = |value: Exact| match value {
        Exact::Int(v) => v == 0,
        Exact::Float(v) => v == 0.0,
    };
    match to {
        DType::I1 => [u64::from(!zero(exact[0])), 0],
        DType::C64 | DType::C128 => {
            let im = if from.is_complex() { exact[1] } else { Exact::Float(0.0) };
            [to_bits(exact[0], to.part()), to_bits(im, to.part())]
        }
        _ => [to_bits(exact[0], to), 0],
    }
}

fn to_bits(value: Exact, to: DType) -> u64 {
    let int = |low: i128, high: i128| match value {
        // Integers wrap, floats saturate.
        Exact::Int(v) => v as u64,
        Exact::Float(v) => (v as i128).clamp(low, high) as u64,
    };
    match to {
        DType::I8 => int(i8::MIN.into(), i8::MAX.into()) & 0xff,
        DType::I16 => int(i16::MIN.into(), i16::MAX.into()) & 0xffff,
        DType::I32 => int(i32::MIN.into(), i32::MAX.into()) & 0xffff_ffff,
        DType::I64 => int(i64::MIN.into(), i64::MAX.into()),
        DType::U8 => int(0, u8::MAX.into()) & 0xff,
        DType::U16 => int(0, u16::MAX.into()) & 0xffff,
        DType::U32 => int(0, u32::MAX.into()) & 0xffff_ffff,
        DType::U64 => int(0, u64::MAX.into()),
        DType::F64 => match value {
            Exact::Int(v) => (v as f64).to_bits(),
            Exact::Float(v) => v.to_bits(),
        },
        DType::F32 => match value {
            Exact::Int(v) => u64::from((v as f32).to_bits()),
            Exact::Float(v) => u64::from((v as f32).to_bits()),
        },
        DType::BF16 => u64::from(narrowed(value, 7, -126, 127).to_bits()),
        DType::F16 => u64::from(narrowed(value, 10, -14, 15).to_bits()),
        DType::I1 | DType::C64 | DType::C128 => unreachable!("handled by the caller"),
    }
}

/// The value rounded to a float format narrower than `f32`.
fn narrowed(value: Exact, mantissa: u32, least: i32, largest: i32) -> f32 {
    let value = match value {
        Exact::Float(v) => v,
        Exact::Int(v) => round_int(v, mantissa + 1),
    };
    let rounded = round_significand(value, mantissa, least);
    if rounded.abs() >= power_of_two(largest + 1) {
        return f32::INFINITY.copysign(rounded as f32);
    }
    rounded as f32
}

/// The integer rounded to so many significant bits, ties to even; exact as an `f64`.
fn round_int(value: i128, bits: u32) -> f64 {
    let size = value.unsigned_abs();
    let drop = (128 - size.leading_zeros()).saturating_sub(bits);
    let (whole, rest) = (size >> drop, size & ((1 << drop) - 1));
    let half = (1 << drop) >> 1;
    let up = drop > 0 && (rest > half || (rest == half && whole & 1 == 1));
    let rounded = ((whole + u128::from(up)) << drop) as f64;
    if value < 0 { -rounded } else { rounded }
}

/// The value rounded to `mantissa` bits after the leading one, ties to even; below the exponent
/// `least` to as many as there are at it. NaN and infinities stay.
pub(super) fn round_significand(value: f64, mantissa: u32, least: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = power_of_two(exponent(value).max(least) - mantissa as i32);
    // The unit is a power of two, so that neither step rounds.
    (value / unit).round_ties_even() * unit
}

/// The exponent of the leading bit of a finite number other than 0.
pub(super) fn exponent(value: f64) -> i32 {
    let bits = value.abs().to_bits();
    match (bits >> 52) as i32 {
        0 => 63 - bits.leading_zeros() as i32 - 1074,
        biased => biased - 1023,
    }
}

/// `2^exponent` for exponents from -1074 to 1024 (infinity).
pub(super) fn power_of_two(exponent: i32) -> f64 {
    if exponent >= -1022 {
        return f64::from_bits(((exponent + 1023) as u64) << 52);
    }
    f64::from_bits(1 << (exponent + 1074))
}

impl Rules for Convert {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        if is_differentiable(self.to) { cx.is_linear(op) } else { cx.is_constant(op) }
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        // Between real and complex numbers, too, the way back is the transpose.
        let ct = cx.builder().convert(ct, op.operand_type(0).dtype)?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.is_elementwise(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, function, gradient, ints, spread};
    use crate::testing::{check, int, pattern, tensor};

    fn scalar(from: Literal, to: DType) -> Literal {
        check(Convert { to }, &[from]).remove(0)
    }

    #[test]
    fn values() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let cases = [
            (DType::F32, -1.7, DType::I32, -1.),
            (DType::F32, nan, DType::I8, 0.),
            (DType::F32, 300., DType::I8, 127.),
            (DType::F64, -3., DType::U16, 0.),
            (DType::F64, inf, DType::I16, 32767.),
            (DType::BF16, 0.5, DType::I1, 1.),
            (DType::F32, nan, DType::I1, 1.),
            (DType::F32, -0., DType::I1, 0.),
            (DType::I1, 1., DType::I8, 1.),
            (DType::I1, 1., DType::BF16, 1.),
            (DType::I32, 300., DType::I8, 44.),
            (DType::I8, -1., DType::U32, 4294967295.),
            (DType::U8, 255., DType::I8, -1.),
            (DType::I8, 2., DType::I1, 1.),
            (DType::F64, 65519.9, DType::F16, 65504.),
            (DType::F64, 65520., DType::F16, inf),
            (DType::F64, 1e-8, DType::F16, 0.),
            (DType::F64, 3.4e38, DType::BF16, inf),
            (DType::I32, 16777217., DType::F32, 16777216.),
        ];
        for (from, value, to, expected) in cases {
            let got = scalar(tensor(from, &[], &[value]), to);
            assert_eq!(got, tensor(to, &[], &[expected]), "{value} from {from} to {to}");
        }
        let z = tensor(DType::C64, &[], &[0., 2.]);
        assert_eq!(scalar(z.clone(), DType::F64), tensor(DType::F64, &[], &[0.]));
        assert_eq!(scalar(z.clone(), DType::I1), tensor(DType::I1, &[], &[0.]));
        assert_eq!(scalar(z, DType::C128), tensor(DType::C128, &[], &[0., 2.]));
        let two = tensor(DType::I16, &[], &[2.]);
        assert_eq!(scalar(two, DType::C64), tensor(DType::C64, &[], &[2., 0.]));
    }

    /// Each value lies next to the middle of two 16-bit floats, where rounding twice goes wrong.
    #[test]
    fn rounds_once() {
        let tie = 1. + f64::powi(2., -8);
        let above = tie + f64::powi(2., -50);
        let below = tie - f64::powi(2., -50);
        let step = 1. + f64::powi(2., -7);
        for (value, expected) in [(tie, 1.), (above, step), (below, 1.), (-above, -step)] {
            let got = scalar(tensor(DType::F64, &[], &[value]), DType::BF16);
            assert_eq!(got, tensor(DType::BF16, &[], &[expected]), "{value}");
        }
        let tie = (1i128 << 40) + (1 << 32);
        for (dtype, value, up) in [
            (DType::I64, tie, false),
            (DType::I64, tie + 1, true),
            (DType::I64, tie - 1, false),
            (DType::I64, -(tie + 1), true),
            (DType::I64, (tie << 20) + 1, true),
            (DType::I64, tie << 20, false),
            (DType::U64, (tie << 23) + 1, true),
            (DType::U64, tie << 23, false),
            (DType::U64, (tie << 23) - 1, false),
            (DType::I32, (tie >> 10) + 1, true),
            (DType::I32, -(tie >> 10) - 1, true),
            (DType::I32, tie >> 10, false),
        ] {
            let got = scalar(int(dtype, value), DType::BF16);
            let leading = f64::powi(2., value.unsigned_abs().ilog2() as i32);
            let size = leading * if up { step } else { 1. };
            let expected = if value < 0 { -size } else { size };
            assert_eq!(got, tensor(DType::BF16, &[], &[expected]), "{value}");
        }
    }

    #[test]
    fn agrees_with_its_kernel() {
        for from in DType::ALL {
            for to in DType::ALL {
                check(Convert { to }, &[pattern(from, &[700], 1)]);
                check(Convert { to }, &[pattern(from, &[2, 0], 1)]);
                check(Convert { to }, &[pattern(from, &[], 2)]);
            }
        }
        // Splats stay splats.
        let one = Literal::splat(TensorType::new([1 << 40], DType::F32), &1f32.to_le_bytes());
        let function = crate::testing::function(Convert { to: DType::BF16 }, std::slice::from_ref(&one));
        let op = OpView { function: &function, id: function.blocks[function.body].ops[0] };
        let splat = Convert { to: DType::BF16 };
        let mut frame = Frame::new(None, &function, 0);
        let got = splat.evaluate(&mut frame, op, &[one]).expect("a conversion");
        assert_eq!(got[0].as_splat(), Some(&[0x80, 0x3f][..]));
    }

    #[test]
    fn significands() {
        assert_eq!(round_significand(1.5, 0, -126), 2.);
        assert_eq!(round_significand(-2.5, 0, -126), -2.);
        assert_eq!(round_significand(5e-324, 52, -1022), 5e-324);
        assert_eq!(round_significand(f64::MAX, 51, -1022), f64::INFINITY);
        assert_eq!((exponent(1.), exponent(-0.75), exponent(5e-324)), (0, -1, -1074));
        assert_eq!(power_of_two(-1074), 5e-324);
    }

    #[test]
    fn rules() {
        let real = spread(DType::F64, &[3], -2.0, 2.0, 1);
        let complex = spread(DType::C128, &[3], -1.0, 1.0, 2);
        for (x, to) in [
            (real.clone(), DType::C128),
            (complex.clone(), DType::F64),
            (complex, DType::C128),
            (spread(DType::F64, &[], -2.0, 2.0, 1), DType::I32),
            (ints(&[2], &[3, -4]), DType::F64),
        ] {
            check_body(&[x], |b, x| Ok(vec![b.one(Convert { to }, x)?]));
        }
        // Rounding is no part of the derivative.
        let f = function(&[TensorType::new([3], DType::F64)], |b, x| {
            let narrow = b.convert(x[0], DType::BF16)?;
            Ok(vec![b.convert(narrow, DType::F32)?])
        });
        let (gradient, inputs) = gradient(&f, std::slice::from_ref(&real), &[true]);
        let results = crate::interpret::call(None, &gradient, &inputs).expect("the gradient runs");
        assert_eq!(results[0].ty(), inputs[0].ty());
    }
}
