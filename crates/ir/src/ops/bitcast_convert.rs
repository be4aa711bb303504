//! `stablehlo.bitcast_convert`: the same bits as another element type; where the widths differ,
//! the last axis counts the narrow elements of a wide one, lowest bits first.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Emitter, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::{Affine, BinaryOp, CastOp, Compare, CompareKind, DType, KernelBuilder, Reg, RegType, UnaryOp};

/// A reinterpretation.
#[derive(Clone, Debug, PartialEq)]
pub struct BitcastConvert {
    /// The element type of the result.
    pub to: DType,
}

/// Narrow elements in a wide one.
fn ratio(wide: DType, narrow: DType) -> u64 {
    u64::from(wide.bits() / narrow.bits())
}

impl StructuredOp for BitcastConvert {
    const NAMES: &'static [&'static str] = &["stablehlo.bitcast_convert"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        Ok(BitcastConvert { to: signature.declared("bitcast_convert")?.dtype })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("bitcast_convert", 1, 0)?;
        let operand = &signature.operands[0];
        let (from, to) = (operand.dtype, self.to);
        if from.is_complex() != to.is_complex() {
            return Err(format!("bitcast_convert: {operand} has no bits of type {to}"));
        }
        let mut shape = operand.shape.clone();
        if to.bits() < from.bits() {
            shape.push(ratio(from, to));
        } else if to.bits() > from.bits() && shape.pop() != Some(ratio(to, from)) {
            return Err(format!(
                "bitcast_convert: the last axis of {operand} must be {} to make {to}",
                ratio(to, from)
            ));
        }
        Ok(vec![TensorType::checked("bitcast_convert", shape, to)?])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (from, to) = (op.operand_type(0).dtype, self.to);
        let result = op.result_type(0).clone();
        let bytes = operands[0].bytes();
        // Apart from the byte an `i1` takes, memory holds the bits in order.
        let bytes = match (from == DType::I1, to == DType::I1) {
            (false, true) => (0..bytes.len() * 8).map(|n| bytes[n / 8] >> (n % 8) & 1).collect(),
            (true, false) => {
                let pack = |bits: &[u8]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit);
                bytes.chunks(8).map(pack).collect()
            }
            _ => bytes.into_owned(),
        };
        Ok(vec![Literal::dense(result, bytes)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| {
                let (from, to) = (op.operand_type(0).dtype, self.to);
                if from == to {
                    return e.read(op.operand(0), index);
                }
                if from.is_complex() {
                    return complex(e, op, from, index);
                }
                let bits = match from.bits().cmp(&to.bits()) {
                    std::cmp::Ordering::Equal => {
                        let x = e.read(op.operand(0), index).real();
                        to_bits(e.builder(), x, from)
                    }
                    std::cmp::Ordering::Greater => narrower(e, op, from, to, index),
                    std::cmp::Ordering::Less => wider(e, op, from, to, index),
                };
                Scalar::Real(from_bits(e.builder(), bits, to))
            }),
        }
    }
}

/// A `complex<f64>`'s parts are the bits of one `complex<f32>` each.
fn complex(e: &mut Emitter<'_>, op: OpView<'_>, from: DType, index: &[Affine]) -> Scalar {
    if from == DType::C64 {
        let mut part = |n: i64| {
            let mut at = index.to_vec();
            at.push(Affine::constant(n));
            let parts = e.read(op.operand(0), &at).parts();
            let b = e.builder();
            let [low, high] = [parts[0], parts[1]].map(|x| {
                let bits = to_bits(b, x, DType::F32);
                resize(b, bits, RegType::I64)
            });
            let amount = b.int(RegType::I64, 32);
            let high = b.binary(BinaryOp::Shl, high, amount);
            let bits = b.binary(BinaryOp::Or, low, high);
            from_bits(b, bits, DType::F64)
        };
        return Scalar::Complex(part(0), part(1));
    }
    let (last, outer) = index.split_last().expect("the result has the extra axis");
    let parts = e.read(op.operand(0), outer).parts();
    let b = e.builder();
    let (at, zero) = (b.index_value(last), b.int(RegType::I64, 0));
    let first = b.compare(Compare::Eq, CompareKind::Signed, at, zero);
    let part = b.select(first, parts[0], parts[1]);
    let bits = to_bits(b, part, DType::F64);
    let amount = b.int(RegType::I64, 32);
    let high = b.binary(BinaryOp::ShrU, bits, amount);
    let [low, high] = [bits, high].map(|half| {
        let half = resize(b, half, RegType::I32);
        from_bits(b, half, DType::F32)
    });
    Scalar::Complex(low, high)
}

/// The part of the operand's element that the last axis counts to.
fn narrower(
    e: &mut Emitter<'_>,
    op: OpView<'_>,
    from: DType,
    to: DType,
    index: &[Affine],
) -> Reg {
    let (last, outer) = index.split_last().expect("the result has the extra axis");
    let x = e.read(op.operand(0), outer).real();
    let b = e.builder();
    let bits = to_bits(b, x, from);
    let ty = b.ty(bits);
    let amount = b.index_value(&last.scale(to.bits().into()));
    let amount = resize(b, amount, ty);
    let shifted = b.binary(BinaryOp::ShrU, bits, amount);
    resize(b, shifted, integer(to))
}

/// The elements along the operand's last axis put together.
fn wider(e: &mut Emitter<'_>, op: OpView<'_>, from: DType, to: DType, index: &[Affine]) -> Reg {
    let ty = integer(to);
    let mut bits = e.builder().int(ty, 0);
    for n in 0..ratio(to, from) as i64 {
        let mut at = index.to_vec();
        at.push(Affine::constant(n));
        let x = e.read(op.operand(0), &at).real();
        let b = e.builder();
        let part = to_bits(b, x, from);
        let part = resize(b, part, ty);
        let amount = b.int(ty, n * i64::from(from.bits()));
        let part = b.binary(BinaryOp::Shl, part, amount);
        bits = b.binary(BinaryOp::Or, bits, part);
    }
    bits
}

/// The integer register type as wide as an element.
fn integer(dtype: DType) -> RegType {
    match dtype {
        DType::BF16 | DType::F16 => RegType::I16,
        other => other.reg().as_int(),
    }
}

fn resize(b: &mut KernelBuilder, x: Reg, ty: RegType) -> Reg {
    match b.ty(x).bits().cmp(&ty.bits()) {
        std::cmp::Ordering::Equal => x,
        std::cmp::Ordering::Less => b.cast(CastOp::ZeroExtend, x, ty),
        std::cmp::Ordering::Greater => b.cast(CastOp::Truncate, x, ty),
    }
}

fn to_bits(b: &mut KernelBuilder, x: Reg, dtype: DType) -> Reg {
    match dtype {
        DType::BF16 => b.unary(UnaryOp::BitsBf16, x),
        DType::F16 => b.unary(UnaryOp::BitsF16, x),
        DType::F32 | DType::F64 => b.cast(CastOp::Bitcast, x, integer(dtype)),
        _ => x,
    }
}

fn from_bits(b: &mut KernelBuilder, x: Reg, dtype: DType) -> Reg {
    match dtype {
        DType::BF16 => b.unary(UnaryOp::FromBitsBf16, x),
        DType::F16 => b.unary(UnaryOp::FromBitsF16, x),
        DType::F32 | DType::F64 => b.cast(CastOp::Bitcast, x, dtype.reg()),
        _ => x,
    }
}

impl Rules for BitcastConvert {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_constant(op)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it is not linear")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.is_elementwise(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, ints, values};
    use crate::testing::{check, fault, pattern, tensor};

    #[test]
    fn lowest_bits_stand_first() {
        let x = Literal::scalar(DType::F64, &[0x0123_4567_89AB_CDEF]);
        let parts = [0xCDEF, 0x89AB, 0x4567, 0x0123].map(f64::from);
        let got = check(BitcastConvert { to: DType::U16 }, std::slice::from_ref(&x));
        assert_eq!(got, [tensor(DType::U16, &[4], &parts)]);
        assert_eq!(check(BitcastConvert { to: DType::F64 }, &got), [x]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        // Not through NaNs, whose payloads may change where 16-bit floats travel as wider ones.
        for from in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
            for to in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
                let last = u64::from(to.bits().div_ceil(from.bits()));
                for outer in [&[][..], &[0], &[5, 3]] {
                    let mut shape = outer.to_vec();
                    if to.bits() > from.bits() {
                        shape.push(last);
                    }
                    let small = if to.is_float() { DType::I1 } else { from };
                    let x = pattern(small, &shape, 1);
                    let x = check(super::super::Convert { to: from }, &[x]).remove(0);
                    check(BitcastConvert { to }, &[x]);
                }
            }
        }
        for dtype in [DType::C64, DType::C128] {
            check(BitcastConvert { to: dtype }, &[pattern(dtype, &[3], 1)]);
        }
        for outer in [&[][..], &[0], &[5, 3]] {
            let wide = pattern(DType::C128, outer, 1);
            let narrow = check(BitcastConvert { to: DType::C64 }, std::slice::from_ref(&wide));
            assert_eq!(check(BitcastConvert { to: DType::C128 }, &narrow), [wide]);
        }
    }

    #[test]
    fn faults() {
        let ty = |shape: &[u64], dtype| TensorType::new(shape, dtype);
        fault(BitcastConvert { to: DType::F64 }, &[ty(&[3], DType::C64)]);
        fault(BitcastConvert { to: DType::F64 }, &[ty(&[3], DType::F32)]);
        fault(BitcastConvert { to: DType::F64 }, &[ty(&[], DType::F32)]);
    }

    #[test]
    fn rules() {
        for to in [DType::I64, DType::U16] {
            let op = BitcastConvert { to };
            check_body(&[values(&[3], 1)], |b, x| Ok(vec![b.one(op, x)?]));
        }
        let parts = ints(&[3, 2], &[1, 2, 3, 4, 5, 6]);
        check_body(&[parts], |b, x| Ok(vec![b.one(BitcastConvert { to: DType::U64 }, x)?]));
    }
}
