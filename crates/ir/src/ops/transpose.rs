//! `stablehlo.transpose`: axes in another order.

use super::{OpView, Signature, StructuredOp, distinct};
use crate::attribute::{Attributes, axes};
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
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

impl Rules for Transpose {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let mut inverse = vec![0; self.permutation.len()];
        for (to, &from) in self.permutation.iter().enumerate() {
            inverse[from] = to;
        }
        let ct = cx.builder().transpose(ct, &inverse)?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let rest = self.permutation.iter().map(|axis| axis + 1);
        cx.with(op, Transpose { permutation: std::iter::once(0).chain(rest).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, tensor};
    use jaxrs_kernel::DType;

    fn transpose(permutation: &[usize]) -> Transpose {
        Transpose { permutation: permutation.into() }
    }

    #[test]
    fn turns_rows_into_columns() {
        let x = tensor(DType::U8, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
        let expected = tensor(DType::U8, &[3, 2], &[1., 4., 2., 5., 3., 6.]);
        assert_eq!(check(transpose(&[1, 0]), &[x]), [expected]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in DType::ALL {
            check(transpose(&[]), &[pattern(dtype, &[], 0)]);
            check(transpose(&[1, 0]), &[pattern(dtype, &[0, 4], 0)]);
            check(transpose(&[2, 0, 1]), &[pattern(dtype, &[3, 4, 2], 0)]);
            check(transpose(&[3, 1, 2, 0]), &[pattern(dtype, &[2, 1, 3, 5], 0)]);
        }
    }

    #[test]
    fn faults() {
        let ty = [TensorType::new([2, 3], DType::F32)];
        assert_eq!(fault(transpose(&[1, 1]), &ty), "transpose: permutation: axis 1 is named twice");
        fault(transpose(&[0]), &ty);
        fault(transpose(&[0, 2]), &ty);
    }

    #[test]
    fn rules() {
        for permutation in [vec![2, 0, 1], vec![0, 2, 1], vec![0, 1, 2]] {
            let op = Transpose { permutation };
            check_body(&[values(&[2, 3, 1], 1)], |b, x| Ok(vec![b.one(op, x)?]));
        }
    }
}
