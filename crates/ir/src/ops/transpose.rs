//! `stablehlo.transpose`: axes in another order.

use super::{OpView, Signature, StructuredOp, distinct};
use crate::attribute::{Attributes, axes};
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering};
use crate::types::TensorType;
use jaxrs_kernel::Affine;

/// A transposition.
#[derive(Clone, Debug, PartialEq)]
pub struct Transpose {
    /// The operand's axis of each result axis.
    pub permutation: Vec<usize>,
}

impl StructuredOp for Transpose {
    const NAMES: &'static [&'static str] = &["stablehlo.transpose"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let dims = attributes.need_ints("permutation")?;
        Ok(Transpose { permutation: axes(&dims, dims.len(), "transpose: permutation")? })
    }

    fn attributes(&self) -> Attributes {
        let dims: Vec<i64> = self.permutation.iter().map(|&a| a as i64).collect();
        Attributes::new().with_ints("permutation", &dims)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("transpose", 1, 0)?;
        let operand = &signature.operands[0];
        if operand.rank() != self.permutation.len() {
            return Err(format!(
                "transpose: {operand} has {} axes, permutation names {}",
                operand.rank(),
                self.permutation.len()
            ));
        }
        distinct(&self.permutation, "transpose: permutation")?;
        let shape: Option<Vec<u64>> =
            self.permutation.iter().map(|&axis| operand.shape.get(axis).copied()).collect();
        let shape = shape.ok_or("transpose: permutation names an axis out of range")?;
        Ok(vec![TensorType::new(shape, operand.dtype)])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let strides = op.operand_type(0).strides();
        let steps: Vec<i64> = self.permutation.iter().map(|&axis| strides[axis] as i64).collect();
        Ok(vec![interpret::strided(&operands[0], op.result_type(0), 0, &steps)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| {
                let mut at = vec![Affine::constant(0); index.len()];
                for (position, &axis) in index.iter().zip(&self.permutation) {
                    at[axis] = position.clone();
                }
                e.read(op.operand(0), &at)
            }),
        }
    }
}
