//! `stablehlo.constant`: a tensor known at compile time.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its value.
    pub value: Literal,
}

impl StructuredOp for Constant {
    const NAMES: &'static [&'static str] = &["stablehlo.constant"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        match attributes.take("value") {
            Some(Attribute::Dense(value)) => Ok(Constant { value }),
            Some(other) => Err(format!("constant: value: expected dense<...>, found {other:?}")),
            None => Err("constant: attribute value is missing".into()),
        }
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with("value", Attribute::Dense(self.value.clone()))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("constant", 0, 0)?;
        Ok(vec![self.value.ty().clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        _operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        Ok(vec![self.value.clone()])
    }

    /// Only a splat is computed in place; whoever builds the program makes any other constant a
    /// value of its own, which kernels load.
    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(|e, _, _| {
                assert!(self.value.as_splat().is_some(), "a dense constant is loaded");
                let dtype = self.value.ty().dtype;
                let parts: Vec<_> = (0..dtype.parts())
                    .map(|part| e.builder().constant(dtype.reg(), self.value.bits(0, part)))
                    .collect();
                Scalar::from_parts(&parts)
            }),
        }
    }
}

impl Rules for Constant {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_constant(op)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it has no operand")
    }

    fn batch(&self, _: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        none(op, "batching rule", "it has no operand")
    }
}

