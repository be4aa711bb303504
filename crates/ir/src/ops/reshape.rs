//! `stablehlo.reshape`: the same elements, row-major, under another shape.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;

/// A reshape.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshape {
    /// The result's shape.
    pub shape: Vec<u64>,
}

impl StructuredOp for Reshape {
    const NAMES: &'static [&'static str] = &["stablehlo.reshape"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Reshape { shape: signature.declared("reshape")?.shape.clone() })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("reshape", 1, 0)?;
        let operand = &signature.operands[0];
        let result = TensorType::new(self.shape.clone(), operand.dtype);
        if operand.len() != result.len() {
            return Err(format!(
                "reshape: {operand} has {} elements, {result} has {}",
                operand.len(),
                result.len()
            ));
        }
        Ok(vec![result])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        Ok(vec![operands[0].reshaped(op.result_type(0).clone())])
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::View
    }
}

impl Rules for Reshape {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let ct = cx.builder().reshape(ct, &op.operand_type(0).shape)?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let shape = [&[cx.size()], &self.shape[..]].concat();
        cx.with(op, Reshape { shape })
    }
}

#[cfg(test)]
mod tests {
    use crate::transform::testing::{check_body, values};

    #[test]
    fn rules() {
        for (from, to) in [(&[2, 3][..], &[3, 2][..]), (&[1], &[]), (&[0, 2], &[3, 0])] {
            check_body(&[values(from, 1)], |b, x| Ok(vec![b.reshape(x[0], to)?]));
        }
    }
}

