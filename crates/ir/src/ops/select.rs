//! `stablehlo.select`: elements of one of two tensors, by a predicate for each or one for all.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::builder::Build;

/// A selection: operand 0 is the predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct Select;

impl StructuredOp for Select {
    const NAMES: &'static [&'static str] = &["stablehlo.select"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Select)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("select", 3, 0)?;
        let [predicate, on_true, on_false] = &signature.operands[..] else {
            unreachable!("three operands")
        };
        if on_true != on_false {
            return Err(format!("select: operand 1 is {on_true}, operand 2 is {on_false}"));
        }
        let fits = predicate.rank() == 0 || predicate.shape == on_true.shape;
        if predicate.dtype != DType::I1 || !fits {
            return Err(format!(
                "select: the predicate is {predicate}; it must be i1 and of rank 0 or the shape \
                 of {on_true}"
            ));
        }
        Ok(vec![on_true.clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let result = op.result_type(0);
        if let Some(predicate) = operands[0].as_splat() {
            return Ok(vec![operands[if predicate[0] != 0 { 1 } else { 2 }].clone()]);
        }
        let size = result.dtype.size() as usize;
        let predicate = operands[0].bytes();
        let mut out = operands[2].to_bytes();
        let on_true = operands[1].bytes();
        let elements = out.chunks_exact_mut(size).zip(on_true.chunks_exact(size));
        for ((out, on_true), &chosen) in elements.zip(&*predicate) {
            if chosen != 0 {
                out.copy_from_slice(on_true);
            }
        }
        Ok(vec![Literal::dense(result.clone(), out)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Cheap,
            element: Box::new(move |e, _, index| {
                let at = if op.operand_type(0).rank() == 0 { &[] } else { index };
                let predicate = e.read(op.operand(0), at).real();
                if let Some(known) = e.builder().as_const(predicate) {
                    return e.read(op.operand(if known != 0 { 1 } else { 2 }), index);
                }
                let on_true = e.read(op.operand(1), index).parts();
                let on_false = e.read(op.operand(2), index).parts();
                let parts: Vec<_> = on_true
                    .iter()
                    .zip(&on_false)
                    .map(|(&x, &y)| e.builder().select(predicate, x, y))
                    .collect();
                Scalar::from_parts(&parts)
            }),
        }
    }
}

impl Rules for Select {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.copy(op);
        let predicate = cx.residual_of(op.operand(0));
        let x = cx.tangent_or_zero(op.operand(1))?;
        let y = cx.tangent_or_zero(op.operand(2))?;
        let tangent = cx.linear().select(predicate, x, y)?;
        cx.bind_tangent(op.result(0), tangent);
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let predicate = cx.value(op.operand(0));
        let zeros = cx.builder().zeros(op.result_type(0))?;
        for (position, [x, y]) in [(1, [ct, zeros]), (2, [zeros, ct])] {
            if cx.is_linear(op.operand(position)) {
                let part = cx.builder().select(predicate, x, y)?;
                cx.add(op.operand(position), part)?;
            }
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let (x, y) = (cx.full(op.operand(1))?, cx.full(op.operand(2))?);
        let mut predicate = cx.value(op.operand(0));
        if op.operand_type(0).rank() > 0 {
            predicate = cx.full(op.operand(0))?;
        } else if cx.is_batched(op.operand(0)) {
            let shape = cx.builder().ty(x).shape;
            predicate = cx.builder().broadcast_in_dim(predicate, &shape, &[0])?;
        }
        let value = cx.builder().select(predicate, x, y)?;
        cx.bind(op.result(0), value, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, spread, values};
    use crate::testing::{check, fault, pattern, tensor};

    #[test]
    fn chooses_element_by_element() {
        let predicate = tensor(DType::I1, &[2, 2], &[0., 1., 1., 0.]);
        let x = tensor(DType::I32, &[2, 2], &[1., 2., 3., 4.]);
        let y = tensor(DType::I32, &[2, 2], &[5., 6., 7., 8.]);
        let expected = tensor(DType::I32, &[2, 2], &[5., 2., 3., 8.]);
        assert_eq!(check(Select, &[predicate, x, y]), [expected]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in DType::ALL {
            for shape in [&[][..], &[0, 2], &[3, 4]] {
                let (x, y) = (pattern(dtype, shape, 1), pattern(dtype, shape, 2));
                check(Select, &[pattern(DType::I1, shape, 3), x.clone(), y.clone()]);
                for seed in 0..4 {
                    check(Select, &[pattern(DType::I1, &[], seed), x.clone(), y.clone()]);
                }
            }
        }
    }

    #[test]
    fn faults() {
        let ty = |shape: &[u64], dtype| TensorType::new(shape, dtype);
        let (p, x) = (ty(&[2], DType::I1), ty(&[2], DType::F32));
        fault(Select, &[p.clone(), x.clone()]);
        fault(Select, &[x.clone(), x.clone(), x.clone()]);
        fault(Select, &[ty(&[1], DType::I1), x.clone(), x.clone()]);
        fault(Select, &[p, x, ty(&[2], DType::F64)]);
    }

    #[test]
    fn rules() {
        for shape in [&[][..], &[4]] {
            let bits = &[1.0, 0.0, 1.0, 1.0][..shape.iter().product::<u64>() as usize];
            let inputs = [tensor(DType::I1, shape, bits), values(&[4], 1), values(&[4], 2)];
            check_body(&inputs, |b, x| Ok(vec![b.select(x[0], x[1], x[2])?]));
            let [x, y] = [1, 2].map(|seed| spread(DType::C128, &[4], -1.0, 1.0, seed));
            check_body(&[inputs[0].clone(), x, y], |b, x| Ok(vec![b.select(x[0], x[1], x[2])?]));
        }
    }
}
