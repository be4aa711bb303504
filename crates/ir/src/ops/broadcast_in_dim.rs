//! `stablehlo.broadcast_in_dim`: axes mapped into a larger shape, the others repeated.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
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

impl Rules for BroadcastInDim {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let small = op.operand_type(0).shape.clone();
        let kept = |(from, &to): (usize, &usize)| (small[from] == self.shape[to]).then_some(to);
        let kept: Vec<usize> = self.axes.iter().enumerate().filter_map(kept).collect();
        let others: Vec<usize> = (0..self.shape.len()).filter(|axis| !kept.contains(axis)).collect();
        let mut ascending = kept.clone();
        ascending.sort_unstable();
        let place = |to: &usize| ascending.binary_search(to).expect("it is one of them");
        let order: Vec<usize> = kept.iter().map(place).collect();
        let mut b = cx.builder();
        let sum = b.sum(ct, &others)?;
        let turned = b.transpose(sum, &order)?;
        let ct = b.reshape(turned, &small)?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let axes = std::iter::once(0).chain(self.axes.iter().map(|axis| axis + 1)).collect();
        let shape = [&[cx.size()], &self.shape[..]].concat();
        cx.with(op, BroadcastInDim { axes, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, spread, values};

    #[test]
    fn rules() {
        for (axes, from, shape) in [
            (&[][..], &[][..], &[2, 3][..]),
            (&[1], &[3], &[2, 3]),
            (&[0, 2], &[2, 1], &[2, 3, 2]),
            (&[2, 0], &[3, 2], &[2, 1, 3]),
            (&[1, 0], &[1, 1], &[2, 1]),
            (&[0], &[1], &[0]),
        ] {
            let op = BroadcastInDim { axes: axes.into(), shape: shape.into() };
            let complex = spread(jaxrs_kernel::DType::C128, from, -1.0, 1.0, 2);
            check_body(&[complex], |b, x| Ok(vec![b.one(op.clone(), x)?]));
            check_body(&[values(from, 1)], |b, x| Ok(vec![b.one(op, x)?]));
        }
    }
}
