//! `chlo.constant_like`: one value in the shape of the operand.

use super::convert::evaluate_parts;
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::builder::Build;

/// A splat constant; of the operand only the type counts.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantLike {
    /// The value: an integer, a float or a truth value.
    pub value: Attribute,
}

impl ConstantLike {
    /// The value's parts as an element of a type, as register bits.
    fn parts(&self, dtype: DType) -> Result<[u64; 2], String> {
        match &self.value {
            Attribute::Int(value, _) => {
                let (bits, from) = match i64::try_from(*value) {
                    Ok(value) => (value as u64, DType::I64),
                    Err(_) => (*value as u64, DType::U64),
                };
                Ok(evaluate_parts([bits, 0], from, dtype))
            }
            Attribute::Float(value, _) => Ok(evaluate_parts([value.to_bits(), 0], DType::F64, dtype)),
            Attribute::Bool(value) => Ok(evaluate_parts([u64::from(*value), 0], DType::I1, dtype)),
            Attribute::Dense(literal) if literal.ty().len() == 1 => {
                Ok(evaluate_parts(literal.parts(0), literal.ty().dtype, dtype))
            }
            other => Err(format!("constant_like: value: expected a number, found {other:?}")),
        }
    }
}

impl StructuredOp for ConstantLike {
    const NAMES: &'static [&'static str] = &["chlo.constant_like"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let value = attributes.take("value").ok_or("constant_like: attribute value is missing")?;
        Ok(ConstantLike { value })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with("value", self.value.clone())
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("constant_like", 1, 0)?;
        self.parts(signature.operands[0].dtype)?;
        Ok(vec![signature.operands[0].clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        _operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let ty = op.result_type(0);
        let parts = self.parts(ty.dtype)?;
        let element = Literal::scalar(ty.dtype, &parts[..ty.dtype.parts() as usize]);
        Ok(vec![Literal::splat(ty.clone(), &element.to_bytes())])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, _| {
                let dtype = op.result_type(0).dtype;
                let parts = self.parts(dtype).expect("infer read the value");
                let registers: Vec<_> = parts[..dtype.parts() as usize]
                    .iter()
                    .map(|&bits| e.builder().constant(dtype.reg(), bits))
                    .collect();
                Scalar::from_parts(&registers)
            }),
        }
    }
}

impl Rules for ConstantLike {
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
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, tensor};

    #[test]
    fn fills_the_operands_shape() {
        let like = |value| ConstantLike { value };
        for (value, dtype) in [
            (Attribute::Float(2., Some("f32".into())), DType::F32),
            (Attribute::Int(2, Some("i32".into())), DType::I32),
            (Attribute::Float(2., None), DType::BF16),
            (Attribute::Dense(tensor(DType::U8, &[], &[2.])), DType::U8),
        ] {
            let got = check(like(value), &[pattern(dtype, &[3], 1)]);
            assert_eq!(got[0].to_bytes(), tensor(dtype, &[3], &[2.; 3]).to_bytes());
        }
        fault(like(Attribute::Unit), &[TensorType::new([2], DType::F32)]);
    }

    #[test]
    fn rules() {
        let op = ConstantLike { value: Attribute::Float(2.5, None) };
        check_body(&[values(&[3], 1)], |b, x| {
            let constant = b.one(op, x)?;
            Ok(vec![b.multiply(x[0], constant)?, constant])
        });
    }
}
