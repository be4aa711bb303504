//! `stablehlo.optimization_barrier`: its operands, behind a wall that passes must not look through.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;

/// A barrier. It costs nothing where it runs: each result has its operand's bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizationBarrier;

impl StructuredOp for OptimizationBarrier {
    const NAMES: &'static [&'static str] = &["stablehlo.optimization_barrier"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(OptimizationBarrier)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("optimization_barrier", signature.operands.len(), 0)?;
        Ok(signature.operands.clone())
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        Ok(operands.to_vec())
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::View
    }
}
