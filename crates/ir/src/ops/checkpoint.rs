//! `jaxrs.checkpoint`: a region whose derivative in reverse mode keeps only what it is given, and
//! what a policy names, and computes the rest again. An op of the front end:
//! [`crate::transform::lower`] puts the region in its place.

mod rules;

use super::{Op, OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::function::OpData;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;

/// What is kept beside the operands (`jax.checkpoint_policies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `nothing_saveable`.
    Nothing,
    /// `dots_saveable`: results of contractions and convolutions.
    Dots,
    /// `dots_with_no_batch_dims_saveable`: results of contractions without batch axes.
    DotsWithNoBatchDims,
    /// `everything_saveable`: as without a checkpoint.
    Everything,
}

impl Policy {
    const ALL: [(Policy, &'static str); 4] = [
        (Policy::Nothing, "nothing"),
        (Policy::Dots, "dots"),
        (Policy::DotsWithNoBatchDims, "dots_with_no_batch_dims"),
        (Policy::Everything, "everything"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Policy::ALL.into_iter().find(|(policy, _)| *policy == self).expect("all are listed").1
    }

    /// The policy with this name.
    pub fn from_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|(_, known)| *known == name).map(|(policy, _)| policy)
    }

    /// Whether an op's results are kept.
    pub fn keeps(self, op: &OpData) -> bool {
        match (self, &op.op) {
            (Policy::Nothing, _) => false,
            (Policy::Dots, op) => matches!(op, Op::DotGeneral(_) | Op::Convolution(_)),
            (Policy::DotsWithNoBatchDims, Op::DotGeneral(dot)) => dot.lhs_batch.is_empty(),
            (Policy::DotsWithNoBatchDims, _) => false,
            (Policy::Everything, _) => true,
        }
    }
}

/// A checkpoint: operands are the region's arguments, results what it gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// What is kept.
    pub policy: Policy,
    /// Whether it computes something again: then nothing of it may be shared with, or done before,
    /// what its operands come from.
    pub again: bool,
}

impl StructuredOp for Checkpoint {
    const NAMES: &'static [&'static str] = &["jaxrs.checkpoint"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let name = attributes.take_enum("policy")?.unwrap_or_else(|| "nothing".into());
        let policy = Policy::from_name(&name)
            .ok_or_else(|| format!("checkpoint: there is no policy {name}"))?;
        Ok(Checkpoint { policy, again: attributes.take_bool("again", false)? })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
            .with("again", Attribute::Bool(self.again))
            .with("policy", Attribute::String(self.policy.name().into()))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("checkpoint", signature.operands.len(), 1)?;
        let (arguments, yields) = &signature.regions[0];
        super::same_types("checkpoint: arguments of the region", arguments, &signature.operands)?;
        Ok(yields.clone())
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        frame.region(op.region(0), operands)
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}
