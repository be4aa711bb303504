//! `jaxrs.custom_linear`: a linear function of which only the transposed one is known, as
//! `jaxrs.custom_vjp` makes it. It cannot be evaluated.
//!
//! Operands are residuals, then tangents; the region takes the residuals and a cotangent for each
//! result, and gives a cotangent for each tangent.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::function::ValueId;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::region;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;

/// What is said where such a function is needed itself.
pub const REVERSE_ONLY: &str =
    "custom_vjp gives a rule for reverse mode only; for forward mode use custom_jvp";

/// A linear function known by its transpose.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomLinear {
    /// How many operands are residuals.
    pub residuals: usize,
}

impl StructuredOp for CustomLinear {
    const NAMES: &'static [&'static str] = &["jaxrs.custom_linear"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let residuals = attributes.need_int("residuals")?;
        let residuals = usize::try_from(residuals)
            .map_err(|_| format!("custom_linear: residuals is {residuals}"))?;
        Ok(CustomLinear { residuals })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with_int("residuals", self.residuals as i64)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("custom_linear", signature.operands.len(), 1)?;
        let (arguments, yields) = &signature.regions[0];
        let short = || format!("custom_linear: there are no {} residuals", self.residuals);
        let (residuals, tangents) =
            signature.operands.split_at_checked(self.residuals).ok_or_else(short)?;
        let (taken, results) = arguments.split_at_checked(self.residuals).ok_or_else(short)?;
        super::same_types("custom_linear: residuals of the region", taken, residuals)?;
        super::same_types("custom_linear: results of the region", yields, tangents)?;
        Ok(results.to_vec())
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        _operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        Err(REVERSE_ONLY.into())
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}

impl Rules for CustomLinear {
    fn jvp(&self, _cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        none(op, "derivative", REVERSE_ONLY)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let (back, captured) = region::extract(op.function, op.region(0));
        let (residuals, tangents) = op.data().operands.split_at(self.residuals);
        let known = residuals.iter().chain(&captured);
        if known.clone().any(|&v| cx.is_linear(v)) {
            return none(op, "transpose", "its residuals are not known");
        }
        let known: Vec<ValueId> = known.map(|&v| cx.value(v)).collect();
        let mut inputs = known[..self.residuals].to_vec();
        for &result in &op.data().results {
            inputs.push(cx.cotangent_or_zero(result)?);
        }
        inputs.extend(&known[self.residuals..]);
        let cotangents = cx.builder().inline(&back, &inputs);
        for (&tangent, cotangent) in tangents.iter().zip(cotangents) {
            if cx.is_linear(tangent) {
                cx.add(tangent, cotangent)?;
            }
        }
        Ok(())
    }

    fn batch(&self, _cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        none(op, "batching rule", REVERSE_ONLY)
    }
}
