//! `stablehlo.optimization_barrier`: its operands, behind a wall that passes must not look through.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::function::ValueId;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
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

impl Rules for OptimizationBarrier {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.copy(op);
        let pairs = op.data().operands.iter().zip(&op.data().results);
        let active: Vec<(ValueId, ValueId)> =
            pairs.filter_map(|(&operand, &result)| Some((cx.tangent(operand)?, result))).collect();
        let tangents: Vec<ValueId> = active.iter().map(|pair| pair.0).collect();
        let tangents = cx.linear().push(OptimizationBarrier, &tangents, &[])?;
        for ((_, result), tangent) in active.into_iter().zip(tangents) {
            cx.bind_tangent(result, tangent);
        }
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let pairs = op.data().operands.iter().zip(&op.data().results);
        let active: Vec<(ValueId, ValueId)> = pairs
            .filter(|(operand, _)| cx.is_linear(**operand))
            .filter_map(|(&operand, &result)| Some((cx.cotangent(result)?, operand)))
            .collect();
        let cotangents: Vec<ValueId> = active.iter().map(|pair| pair.0).collect();
        let cotangents = cx.builder().push(OptimizationBarrier, &cotangents, &[])?;
        for ((_, operand), cotangent) in active.into_iter().zip(cotangents) {
            cx.add(operand, cotangent)?;
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let operands = &op.data().operands;
        let values: Vec<ValueId> = operands.iter().map(|&operand| cx.value(operand)).collect();
        let results = cx.builder().push(OptimizationBarrier, &values, &[])?;
        for ((&operand, &result), value) in operands.iter().zip(&op.data().results).zip(results) {
            cx.bind(result, value, cx.is_batched(operand));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, ints, values};

    #[test]
    fn rules() {
        let inputs = [values(&[2], 1), ints(&[3], &[1, 2, 3]), values(&[], 2)];
        check_body(&inputs, |b, x| b.push(OptimizationBarrier, x, &[]));
    }
}

