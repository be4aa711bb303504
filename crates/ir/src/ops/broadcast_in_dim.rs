//! `stablehlo.broadcast_in_dim`: axes mapped into a larger shape, the others repeated.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering};
use crate::types::TensorType;
use jaxrs_kernel::Affine;

/// A broadcast.
#[derive(Clone, Debug, PartialEq)]
pub struct BroadcastInDim {
    /// The result's axis of each operand axis.
    pub axes: Vec<usize>,
    /// The result's shape.
    pub shape: Vec<u64>,
}

impl StructuredOp for BroadcastInDim {
    const NAMES: &'static [&'static str] = &["stablehlo.broadcast_in_dim"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let shape = signature.declared("broadcast_in_dim")?.shape.clone();
        let dims = attributes.need_ints("broadcast_dimensions")?;
        let axes = axes(&dims, shape.len(), "broadcast_in_dim: broadcast_dimensions")?;
        Ok(BroadcastInDim { axes, shape })
    }

    fn attributes(&self) -> Attributes {
        let dims: Vec<i64> = self.axes.iter().map(|&a| a as i64).collect();
        Attributes::new().with_ints("broadcast_dimensions", &dims)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("broadcast_in_dim", 1, 0)?;
        let operand = &signature.operands[0];
        if operand.rank() != self.axes.len() {
            return Err(format!(
                "broadcast_in_dim: {operand} has {} axes, broadcast_dimensions names {}",
                operand.rank(),
                self.axes.len()
            ));
        }
        for (from, &to) in self.axes.iter().enumerate() {
            let (small, large) = (operand.shape[from], self.shape[to]);
            if self.axes[..from].contains(&to) {
                return Err(format!("broadcast_in_dim: result axis {to} is named twice"));
            }
            if small != large && small != 1 {
                return Err(format!(
                    "broadcast_in_dim: operand axis {from} is {small}, result axis {to} is \
                     {large}; they must be equal, or the operand's 1"
                ));
            }
        }
        Ok(vec![TensorType::new(self.shape.clone(), operand.dtype)])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let from = op.operand_type(0);
        Ok(vec![interpret::rearrange(&operands[0], op.result_type(0), |index| {
            let pick = |(&axis, &extent)| if extent == 1 { 0 } else { index[axis] };
            self.axes.iter().zip(&from.shape).map(pick).collect()
        })])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| {
                let pick = |(&axis, &extent): (&usize, &u64)| {
                    if extent == 1 { Affine::constant(0) } else { index[axis].clone() }
                };
                let at: Vec<Affine> =
                    self.axes.iter().zip(&op.operand_type(0).shape).map(pick).collect();
                e.read(op.operand(0), &at)
            }),
        }
    }
}
