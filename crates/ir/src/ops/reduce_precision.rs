//! `stablehlo.reduce_precision`: floats rounded to what a narrower format can hold.

use super::convert::{exponent, power_of_two, round_significand};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::{
    BinaryOp, CastOp, Compare, CompareKind, DType, KernelBuilder, Reg, RegType, UnaryOp,
};

/// A rounding to a format with so many bits; values that would be subnormal there become 0, and
/// NaN becomes infinity in a format without mantissa.
#[derive(Clone, Debug, PartialEq)]
pub struct ReducePrecision {
    /// Bits of the exponent, at least 1.
    pub exponent_bits: u32,
    /// Bits of the mantissa after the leading one.
    pub mantissa_bits: u32,
}

/// Bits of a type's exponent and mantissa.
fn format(dtype: DType) -> (u32, u32) {
    match dtype {
        DType::BF16 => (8, 7),
        DType::F16 => (5, 10),
        DType::F32 => (8, 23),
        _ => (11, 52),
    }
}

impl StructuredOp for ReducePrecision {
    const NAMES: &'static [&'static str] = &["stablehlo.reduce_precision"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let mut bits = |name: &str, least: i64| {
            let value = attributes.need_int(name)?;
            if value < least || value > i64::from(i32::MAX) {
                return Err(format!("reduce_precision: {name} is {value}, not at least {least}"));
            }
            Ok(value as u32)
        };
        Ok(ReducePrecision {
            exponent_bits: bits("exponent_bits", 1)?,
            mantissa_bits: bits("mantissa_bits", 0)?,
        })
    }

    fn attributes(&self) -> Attributes {
        let int = |value: u32| Attribute::Int(value.into(), Some("i32".into()));
        Attributes::new()
            .with("exponent_bits", int(self.exponent_bits))
            .with("mantissa_bits", int(self.mantissa_bits))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("reduce_precision", 1, 0)?;
        let operand = &signature.operands[0];
        if !operand.dtype.is_float() {
            return Err(format!("reduce_precision: {operand} does not hold floats"));
        }
        Ok(vec![operand.clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let dtype = op.operand_type(0).dtype;
        let (exponent_bits, mantissa_bits) = format(dtype);
        let mantissa = self.mantissa_bits.min(mantissa_bits);
        let narrower = self.exponent_bits < exponent_bits;
        let largest = (1 << (self.exponent_bits.min(exponent_bits) - 1)) - 1;
        let least = 2 - (1 << (exponent_bits - 1));
        let round = |value: f64| {
            if value.is_nan() && mantissa == 0 {
                return f64::INFINITY;
            }
            let mut rounded = round_significand(value, mantissa, least);
            if mantissa == 0 && value != 0.0 && value.is_finite() {
                // Without a mantissa the exponent's last bit says what is even; its bias is odd.
                let (at, unit) = (exponent(value), power_of_two(exponent(value)));
                if at % 2 != 0 && value.abs() / unit == 1.5 {
                    rounded = unit.copysign(value);
                }
            }
            if rounded == 0.0 || !rounded.is_finite() {
                return rounded;
            }
            let at = exponent(rounded);
            if narrower && at <= -largest {
                0f64.copysign(rounded)
            } else if at > largest {
                f64::INFINITY.copysign(rounded)
            } else {
                rounded
            }
        };
        Ok(vec![Literal::tabulate(op.result_type(0).clone(), |at| {
            let bits = operands[0].bits(at, 0);
            let bits = match dtype {
                DType::F64 => round(f64::from_bits(bits)).to_bits(),
                _ => u64::from((round(f32::from_bits(bits as u32).into()) as f32).to_bits()),
            };
            [bits, 0]
        })])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Cheap,
            element: Box::new(move |e, _, index| {
                let x = e.read(op.operand(0), index).real();
                Scalar::Real(self.element(e.builder(), x, op.operand_type(0).dtype))
            }),
        }
    }
}

impl ReducePrecision {
    /// Whether the format holds every value of a type.
    pub fn keeps(&self, dtype: DType) -> bool {
        let (exponent_bits, mantissa_bits) = format(dtype);
        self.exponent_bits >= exponent_bits && self.mantissa_bits >= mantissa_bits
    }

    /// On the bits: rounding is an addition to the mantissa, whose carry goes into the exponent;
    /// then the exponent decides over infinity and 0.
    fn element(&self, b: &mut KernelBuilder, x: Reg, dtype: DType) -> Reg {
        let (exponent_bits, mantissa_bits) = format(dtype);
        let round = self.mantissa_bits < mantissa_bits;
        let narrower = self.exponent_bits < exponent_bits;
        if !round && !narrower {
            return x;
        }
        let original = match dtype {
            DType::BF16 => b.unary(UnaryOp::BitsBf16, x),
            DType::F16 => b.unary(UnaryOp::BitsF16, x),
            _ => b.cast(CastOp::Bitcast, x, dtype.reg().as_int()),
        };
        let ty = b.ty(original);
        let mut bits = original;
        if round {
            bits = round_bits(b, bits, ty, mantissa_bits - self.mantissa_bits);
        }
        if narrower {
            bits = self.limit_exponent(b, bits, ty, exponent_bits, mantissa_bits);
        }
        let value = match dtype {
            DType::BF16 => b.unary(UnaryOp::FromBitsBf16, bits),
            DType::F16 => b.unary(UnaryOp::FromBitsF16, bits),
            _ => b.cast(CastOp::Bitcast, bits, dtype.reg()),
        };
        let number = b.compare(Compare::Eq, CompareKind::Float, x, x);
        let other = if self.mantissa_bits == 0 { b.float(dtype.reg(), f64::INFINITY) } else { x };
        b.select(number, value, other)
    }

    fn limit_exponent(
        &self,
        b: &mut KernelBuilder,
        bits: Reg,
        ty: RegType,
        exponent_bits: u32,
        mantissa_bits: u32,
    ) -> Reg {
        let bias = (1i64 << (exponent_bits - 1)) - 1;
        let largest = (1i64 << (self.exponent_bits - 1)) - 1;
        let field = ((1i64 << exponent_bits) - 1) << mantissa_bits;
        let sign_bit = b.int(ty, 1i64 << (exponent_bits + mantissa_bits));
        let infinity = b.int(ty, field);
        let exponent = b.binary(BinaryOp::And, bits, infinity);
        let sign = b.binary(BinaryOp::And, bits, sign_bit);
        let most = b.int(ty, (bias + largest) << mantissa_bits);
        let over = b.compare(Compare::Gt, CompareKind::Unsigned, exponent, most);
        let least = b.int(ty, (bias - largest) << mantissa_bits);
        let under = b.compare(Compare::Le, CompareKind::Unsigned, exponent, least);
        let infinite = b.binary(BinaryOp::Or, sign, infinity);
        let bits = b.select(over, infinite, bits);
        b.select(under, sign, bits)
    }
}

/// The integer with its last `drop > 0` bits rounded away to 0, ties to even.
fn round_bits(b: &mut KernelBuilder, bits: Reg, ty: RegType, drop: u32) -> Reg {
    let shift = b.int(ty, drop.into());
    let one = b.int(ty, 1);
    let last = b.binary(BinaryOp::ShrU, bits, shift);
    let last = b.binary(BinaryOp::And, last, one);
    let below_half = b.int(ty, (1 << (drop - 1)) - 1);
    let bias = b.binary(BinaryOp::Add, last, below_half);
    let sum = b.binary(BinaryOp::Add, bits, bias);
    let kept = b.int(ty, !((1 << drop) - 1));
    b.binary(BinaryOp::And, sum, kept)
}

impl Rules for ReducePrecision {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let ct = cx.builder().one(self.clone(), &[ct])?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.is_elementwise(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, read, tensor};

    fn to(exponent_bits: u32, mantissa_bits: u32) -> ReducePrecision {
        ReducePrecision { exponent_bits, mantissa_bits }
    }

    #[test]
    fn rounds_as_the_specification_shows() {
        let inf = f64::INFINITY;
        let x = tensor(DType::F64, &[6], &[inf, -inf, 5e-324, -0., 65519., 65520.]);
        let expected = tensor(DType::F64, &[6], &[inf, -inf, 0., -0., 65504., inf]);
        assert_eq!(check(to(5, 10), &[x]), [expected]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
            for exponent in [1, 2, 4, 5, 8, 11, 64] {
                for mantissa in [0, 1, 3, 7, 10, 23, 51, 52, 99] {
                    check(to(exponent, mantissa), &[pattern(dtype, &[200], 1)]);
                }
            }
            check(to(5, 10), &[pattern(dtype, &[0], 1)]);
            check(to(5, 10), &[pattern(dtype, &[], 1)]);
        }
    }

    #[test]
    fn faults() {
        fault(to(5, 10), &[TensorType::new([2], DType::I32)]);
        for (exponent, mantissa) in [(0, 10), (5, -1), (1 << 40, 10)] {
            let attributes = Attributes::new()
                .with_int("exponent_bits", exponent)
                .with_int("mantissa_bits", mantissa);
            assert!(read("stablehlo.reduce_precision", attributes, &[], &[]).is_err());
        }
    }

    #[test]
    fn rules() {
        let whole = ReducePrecision { exponent_bits: 11, mantissa_bits: 52 };
        check_body(&[values(&[3], 1)], |b, x| Ok(vec![b.one(whole, x)?]));
    }
}
