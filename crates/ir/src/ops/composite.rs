//! `stablehlo.composite`: a named op given by a function that does the same.

use super::call::take_symbol;
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;

/// A call of the decomposition; the name and its attributes are carried along.
#[derive(Clone, Debug, PartialEq)]
pub struct Composite {
    /// The composite's name.
    pub name: String,
    /// The function that does the same, without the `@`.
    pub decomposition: String,
    /// The result types.
    pub results: Vec<TensorType>,
    /// The other attributes.
    pub rest: Attributes,
}

impl StructuredOp for Composite {
    const NAMES: &'static [&'static str] = &["stablehlo.composite"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let decomposition = take_symbol(attributes, "decomposition")?;
        let name = match attributes.take("name") {
            Some(Attribute::String(name)) => name,
            Some(other) => return Err(format!("attribute name: expected text, found {other:?}")),
            None => return Err("attribute name is missing".into()),
        };
        let mut rest = Attributes::new();
        for key in ["composite_attributes", "version"] {
            if let Some(value) = attributes.take(key) {
                rest = rest.with(key, value);
            }
        }
        Ok(Composite { name, decomposition, results: signature.results.clone(), rest })
    }

    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new()
            .with("name", Attribute::String(self.name.clone()))
            .with("decomposition", Attribute::Symbol(self.decomposition.clone()));
        attributes.0.extend(self.rest.0.iter().cloned());
        attributes
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("composite", signature.operands.len(), 0)?;
        Ok(self.results.clone())
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        frame.call(&self.decomposition, operands, &op.result_types())
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}

impl Rules for Composite {
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

