//! `stablehlo.custom_call`: something outside StableHLO, named by a string. Only targets that
//! leave their operand alone are known; a program with any other is refused where it is read, see
//! [`Op::unsupported`](super::Op::unsupported).

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;

/// A call of something outside.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomCall {
    /// What is called.
    pub target: String,
    /// The result types.
    pub results: Vec<TensorType>,
    /// The other attributes.
    pub rest: Attributes,
}

/// Targets that say where or how a tensor is stored, on one device nothing.
const IDENTITIES: &[&str] = &[
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "LayoutConstraint",
    "annotate_device_placement",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
];

impl CustomCall {
    /// Whether the result is the operand.
    pub fn is_identity(&self) -> bool {
        self.results.len() == 1 && IDENTITIES.contains(&self.target.as_str())
    }
}

/// The op that a target stands for, with its attributes: exporters write the ops of CHLO that
/// StableHLO lacks as `@mhlo.erf` with `mhlo.attributes`, and JAX writes linear algebra as calls of
/// LAPACK.
pub(super) fn alias(attributes: &Attributes) -> Option<(&'static str, Attributes)> {
    let Some(Attribute::String(target)) = attributes.get("call_target_name") else { return None };
    if let Some(found) = super::lapack::import(target, attributes) {
        return Some(found);
    }
    let name = match target.strip_prefix("mhlo.")? {
        "acos" => "chlo.acos",
        "acosh" => "chlo.acosh",
        "asin" => "chlo.asin",
        "asinh" => "chlo.asinh",
        "atan" => "chlo.atan",
        "atanh" => "chlo.atanh",
        "cosh" => "chlo.cosh",
        "erf" => "chlo.erf",
        "sinh" => "chlo.sinh",
        "tan" => "stablehlo.tan",
        "topk" => "chlo.top_k",
        _ => return None,
    };
    let mut inner = match attributes.get("mhlo.attributes") {
        Some(Attribute::Dict(inner)) => inner.clone(),
        _ => Attributes::new(),
    };
    match inner.take("largest") {
        None | Some(Attribute::Bool(true)) => Some((name, inner)),
        Some(_) => None,
    }
}

impl StructuredOp for CustomCall {
    const NAMES: &'static [&'static str] = &["stablehlo.custom_call"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let target = match attributes.take("call_target_name") {
            Some(Attribute::String(target) | Attribute::Symbol(target)) => target,
            Some(other) => {
                return Err(format!("attribute call_target_name: expected text, found {other:?}"));
            }
            None => return Err("attribute call_target_name is missing".into()),
        };
        let rest = std::mem::take(attributes);
        Ok(CustomCall { target, results: signature.results.clone(), rest })
    }

    fn attributes(&self) -> Attributes {
        let mut attributes =
            Attributes::new().with("call_target_name", Attribute::String(self.target.clone()));
        attributes.0.extend(self.rest.0.iter().cloned());
        attributes
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        if self.is_identity() {
            signature.expect("custom_call", 1, 0)?;
            if signature.operands != self.results {
                return Err(format!(
                    "custom_call @{}: the operand is {}, the result {}; only one device is \
                     supported, where they are equal",
                    self.target, signature.operands[0], self.results[0]
                ));
            }
        }
        Ok(self.results.clone())
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        if !self.is_identity() {
            return Err(format!("custom_call @{} is not supported", self.target));
        }
        Ok(operands.to_vec())
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        assert!(self.is_identity(), "custom_call @{} is refused by the verifier", self.target);
        Lowering::View
    }
}

impl Rules for CustomCall {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        if !self.is_identity() {
            return none(op, "derivative", UNKNOWN);
        }
        cx.copy(op);
        if let Some(tangent) = cx.tangent(op.operand(0)) {
            cx.bind_tangent(op.result(0), tangent);
        }
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        if !self.is_identity() {
            return none(op, "transpose", UNKNOWN);
        }
        let ct = cx.cotangent_or_zero(op.result(0))?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        if !self.is_identity() {
            return none(op, "batching rule", UNKNOWN);
        }
        // Its attributes are about axes; on one device they say nothing.
        let (value, batched) = (cx.value(op.operand(0)), cx.is_batched(op.operand(0)));
        cx.bind(op.result(0), value, batched);
        Ok(())
    }
}

const UNKNOWN: &str = "what its target computes is unknown";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, function, values};

    #[test]
    fn rules() {
        let ty = TensorType::new([2], jaxrs_kernel::DType::F64);
        let call = |target: &str| CustomCall {
            target: target.into(),
            results: vec![ty.clone()],
            rest: Attributes::new(),
        };
        check_body(&[values(&[2], 1)], |b, x| Ok(vec![b.one(call("Sharding"), x)?]));
        let f = function(std::slice::from_ref(&ty), |b, x| Ok(vec![b.one(call("other"), x)?]));
        let error = crate::transform::jvp(&f, &[true]).err().expect("no derivative");
        assert!(error.message.ends_with(UNKNOWN), "{error:?}");
    }
}
