//! `stablehlo.reverse`: some axes backwards.

use super::{OpView, Signature, StructuredOp, distinct};
use crate::attribute::{Attributes, axes};
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::Affine;

/// A reversal.
#[derive(Clone, Debug, PartialEq)]
pub struct Reverse {
    /// The axes that run backwards.
    pub axes: Vec<usize>,
}

impl StructuredOp for Reverse {
    const NAMES: &'static [&'static str] = &["stablehlo.reverse"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        let dims = attributes.need_ints("dimensions")?;
        Ok(Reverse { axes: axes(&dims, rank, "reverse: dimensions")? })
    }

    fn attributes(&self) -> Attributes {
        let dims: Vec<i64> = self.axes.iter().map(|&a| a as i64).collect();
        Attributes::new().with_ints("dimensions", &dims)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("reverse", 1, 0)?;
        let operand = &signature.operands[0];
        distinct(&self.axes, "reverse: dimensions")?;
        if let Some(axis) = self.axes.iter().find(|&&axis| axis >= operand.rank()) {
            return Err(format!("reverse: axis {axis} is out of range for {operand}"));
        }
        Ok(vec![operand.clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let ty = op.operand_type(0);
        let mut steps: Vec<i64> = ty.strides().iter().map(|&stride| stride as i64).collect();
        let mut start = 0;
        for &axis in &self.axes {
            start += (ty.shape[axis] as i64 - 1) * steps[axis];
            steps[axis] = -steps[axis];
        }
        Ok(vec![interpret::strided(&operands[0], ty, start, &steps)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| {
                let mut at = index.to_vec();
                for &axis in &self.axes {
                    let last = op.operand_type(0).shape[axis] as i64 - 1;
                    at[axis] = Affine::constant(last).sub(&index[axis]);
                }
                e.read(op.operand(0), &at)
            }),
        }
    }
}

impl Rules for Reverse {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let ct = cx.builder().one(self.clone(), &[ct])?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.with(op, Reverse { axes: self.axes.iter().map(|axis| axis + 1).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, tensor};
    use jaxrs_kernel::DType;

    #[test]
    fn runs_backwards() {
        let x = tensor(DType::I16, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
        let expected = tensor(DType::I16, &[2, 3], &[3., 2., 1., 6., 5., 4.]);
        assert_eq!(check(Reverse { axes: vec![1] }, &[x]), [expected]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in DType::ALL {
            check(Reverse { axes: vec![] }, &[pattern(dtype, &[], 0)]);
            check(Reverse { axes: vec![0, 1] }, &[pattern(dtype, &[0, 3], 0)]);
            check(Reverse { axes: vec![2, 0] }, &[pattern(dtype, &[3, 2, 4], 0)]);
        }
    }

    #[test]
    fn faults() {
        let ty = [TensorType::new([2, 3], DType::F32)];
        fault(Reverse { axes: vec![1, 1] }, &ty);
        fault(Reverse { axes: vec![2] }, &ty);
    }

    #[test]
    fn rules() {
        for axes in [vec![], vec![1], vec![1, 0]] {
            check_body(&[values(&[2, 3], 1)], |b, x| Ok(vec![b.one(Reverse { axes }, x)?]));
        }
    }
}
