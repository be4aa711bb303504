//! `stablehlo.if`: one of two regions, by a predicate.

use super::case::branch_types;
use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::DType;

/// A branch: operand 0 is the predicate; region 0 runs where it is true, else region 1.
#[derive(Clone, Debug, PartialEq)]
pub struct If;

impl StructuredOp for If {
    const NAMES: &'static [&'static str] = &["stablehlo.if"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(If)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("if", 1, 2)?;
        let predicate = &signature.operands[0];
        if predicate != &TensorType::scalar(DType::I1) {
            return Err(format!("if: the predicate is {predicate}, not tensor<i1>"));
        }
        branch_types("if", signature)
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let chosen = if operands[0].bits(0, 0) != 0 { 0 } else { 1 };
        frame.region(op.region(chosen), &[])
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}
