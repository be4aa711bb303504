//! `stablehlo.reshape`: the same elements, row-major, under another shape.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
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
