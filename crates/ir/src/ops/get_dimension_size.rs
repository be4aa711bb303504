//! `stablehlo.get_dimension_size`: the extent of an axis.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::{DType, RegType};

/// The extent of an axis, an `i32`.
#[derive(Clone, Debug, PartialEq)]
pub struct GetDimensionSize {
    /// The axis.
    pub axis: usize,
}

impl StructuredOp for GetDimensionSize {
    const NAMES: &'static [&'static str] = &["stablehlo.get_dimension_size"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        let axis = attributes.need_int("dimension")?;
        Ok(GetDimensionSize { axis: axes(&[axis], rank, "get_dimension_size: dimension")?[0] })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with_int("dimension", self.axis as i64)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("get_dimension_size", 1, 0)?;
        let operand = &signature.operands[0];
        match operand.shape.get(self.axis) {
            Some(&extent) if i32::try_from(extent).is_ok() => {
                Ok(vec![TensorType::scalar(DType::I32)])
            }
            Some(extent) => Err(format!("get_dimension_size: {extent} does not fit into an i32")),
            None => {
                Err(format!("get_dimension_size: axis {} is out of range for {operand}", self.axis))
            }
        }
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        _operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        Ok(vec![Literal::scalar(DType::I32, &[op.operand_type(0).shape[self.axis]])])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, _| {
                let extent = op.operand_type(0).shape[self.axis] as i64;
                Scalar::Real(e.builder().int(RegType::I32, extent))
            }),
        }
    }
}

impl Rules for GetDimensionSize {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_constant(op)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it is not linear")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let operand = cx.value(op.operand(0));
        let size = cx.builder().one(GetDimensionSize { axis: self.axis + 1 }, &[operand])?;
        cx.bind(op.result(0), size, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, tensor};

    #[test]
    fn gives_the_extent() {
        let x = pattern(DType::F32, &[2, 7], 1);
        let got = check(GetDimensionSize { axis: 1 }, &[x]);
        assert_eq!(got, [tensor(DType::I32, &[], &[7.])]);
        fault(GetDimensionSize { axis: 1 }, &[TensorType::new([2], DType::I8)]);
        fault(GetDimensionSize { axis: 0 }, &[TensorType::new([1 << 31], DType::I8)]);
    }

    #[test]
    fn rules() {
        check_body(&[values(&[2, 3], 1)], |b, x| Ok(vec![b.one(GetDimensionSize { axis: 1 }, x)?]));
    }
}
