//! `func.call`: another function of the module.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;

/// A call. Whether the callee exists and has these types is the verifier's to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function's name, without the `@`.
    pub callee: String,
    /// The result types.
    pub results: Vec<TensorType>,
}

/// Takes the name of a function out of the attributes.
pub(super) fn take_symbol(attributes: &mut Attributes, name: &str) -> Result<String, String> {
    match attributes.take(name) {
        Some(Attribute::Symbol(symbol) | Attribute::String(symbol)) => Ok(symbol),
        Some(other) => Err(format!("attribute {name}: expected @name, found {other:?}")),
        None => Err(format!("attribute {name} is missing")),
    }
}

impl StructuredOp for Call {
    const NAMES: &'static [&'static str] = &["func.call", "call"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let callee = take_symbol(attributes, "callee")?;
        Ok(Call { callee, results: signature.results.clone() })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with("callee", Attribute::Symbol(self.callee.clone()))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("call", signature.operands.len(), 0)?;
        Ok(self.results.clone())
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        frame.call(&self.callee, operands, &op.result_types())
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}

impl Rules for Call {
    fn jvp(&self, _: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        none(op, "derivative", "functions are transformed after their calls are inlined")
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "functions are transformed after their calls are inlined")
    }

    fn batch(&self, _: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        none(op, "batching rule", "functions are transformed after their calls are inlined")
    }
}

