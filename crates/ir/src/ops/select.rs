//! `stablehlo.select`: elements of one of two tensors, by a predicate for each or one for all.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
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
