//! `stablehlo.while`: a region run as long as another one says so.

mod rules;

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::DType;

/// A loop: operands are the carries' first values; region 0 is the condition, region 1 the body.
#[derive(Clone, Debug, PartialEq)]
pub struct While;

impl StructuredOp for While {
    const NAMES: &'static [&'static str] = &["stablehlo.while"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(While)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("while", signature.operands.len(), 2)?;
        let carries = &signature.operands;
        let [(condition_arguments, condition), (body_arguments, next)] = &signature.regions[..]
        else {
            unreachable!("two regions")
        };
        super::same_types("while: arguments of the condition", condition_arguments, carries)?;
        super::same_types("while: arguments of the body", body_arguments, carries)?;
        super::same_types("while: results of the body", next, carries)?;
        super::same_types(
            "while: results of the condition",
            condition,
            &[TensorType::scalar(DType::I1)],
        )?;
        Ok(carries.clone())
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let mut carries = operands.to_vec();
        while frame.region(op.region(0), &carries)?[0].bits(0, 0) != 0 {
            carries = frame.region(op.region(1), &carries)?;
        }
        Ok(carries)
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}
