//! `jaxrs.custom_jvp`: a region with a rule for its derivative. An op of the front end:
//! [`crate::transform::lower`] puts the first region in its place.
//!
//! The second region takes the operands, then a tangent for each that can have one, and gives the
//! results, then a tangent for each that can have one.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::builder::Builder;
use crate::function::ValueId;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::region;
use crate::transform::{
    Batch, Batched, Jvp, Rule, Rules, Transposition, batch, is_differentiable, none, split,
};
use crate::types::TensorType;

/// A region with a rule for forward mode.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomJvp;

/// The types of tangents.
pub(super) fn tangent_types(types: &[TensorType]) -> Vec<TensorType> {
    types.iter().filter(|ty| is_differentiable(ty.dtype)).cloned().collect()
}

/// An error if a region uses a value of an enclosing block that depends on what is differentiated.
pub(super) fn no_captured_tangents(cx: &Jvp<'_>, op: OpView<'_>) -> Rule {
    if region::captures(op.function, op.id).iter().any(|&v| cx.tangent(v).is_some()) {
        return none(
            op,
            "derivative",
            "its function uses a value from outside that depends on what is differentiated; pass \
             it as an argument",
        );
    }
    Ok(())
}

/// A value for each type that can have a tangent, None for the others.
pub(super) fn by_type<'v>(types: &[TensorType], values: &'v [ValueId]) -> Vec<Option<&'v ValueId>> {
    let mut values = values.iter();
    let of = |ty: &TensorType| if is_differentiable(ty.dtype) { values.next() } else { None };
    types.iter().map(of).collect()
}

impl StructuredOp for CustomJvp {
    const NAMES: &'static [&'static str] = &["jaxrs.custom_jvp"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(CustomJvp)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("custom_jvp", signature.operands.len(), 2)?;
        let operands = &signature.operands;
        let [(arguments, results), (rule_arguments, rule_results)] = &signature.regions[..] else {
            unreachable!("two regions")
        };
        super::same_types("custom_jvp: arguments of the function", arguments, operands)?;
        let with_tangents = |types: &[TensorType]| [types, &tangent_types(types)].concat();
        super::same_types(
            "custom_jvp: arguments of the rule",
            rule_arguments,
            &with_tangents(operands),
        )?;
        super::same_types("custom_jvp: results of the rule", rule_results, &with_tangents(results))?;
        Ok(results.clone())
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

/// Which results of the function and the rule have the batch axis, for each result.
fn result_flags(function: &Batched, rule: &Batched, types: &[TensorType]) -> Vec<bool> {
    let count = function.results.len();
    let mut tangents = rule.results[count..].iter();
    let flag = |(n, ty): (usize, &TensorType)| {
        let tangent = is_differentiable(ty.dtype) && tangents.next() == Some(&true);
        function.results[n] || rule.results[n] || tangent
    };
    types.iter().enumerate().map(flag).collect()
}

/// Gives results the batch axis where they must have it.
pub(super) fn repeated(
    b: &mut Builder<'_>,
    mut values: Vec<ValueId>,
    has_axis: &[bool],
    wanted: impl IntoIterator<Item = bool>,
    size: u64,
) -> Result<Vec<ValueId>, String> {
    for ((value, &has_axis), wanted) in values.iter_mut().zip(has_axis).zip(wanted) {
        if wanted && !has_axis {
            *value = b.repeat(*value, 0, size)?;
        }
    }
    Ok(values)
}

/// A region over batches: the function, and the values of enclosing blocks that it takes last.
pub(super) fn over(
    cx: &Batch<'_>,
    op: OpView<'_>,
    region: usize,
    flags: &[bool],
) -> Result<(Batched, Vec<ValueId>), String> {
    let (f, captured) = region::extract(op.function, op.region(region));
    let captured_flags = captured.iter().map(|&v| cx.is_batched(v));
    let flags: Vec<bool> = flags.iter().copied().chain(captured_flags).collect();
    let over = batch(&f, &flags, cx.size()).map_err(|error| error.message)?;
    Ok((over, captured.iter().map(|&v| cx.value(v)).collect()))
}

impl Rules for CustomJvp {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        no_captured_tangents(cx, op)?;
        let operands = &op.data().operands;
        let (mut rule, captured) = region::extract(op.function, op.region(1));
        // Tangents last.
        let mut order = rule.parameters().to_vec();
        let end = order.len() - captured.len();
        order[operands.len()..].rotate_left(end - operands.len());
        rule.reorder_parameters(order);
        let mut inputs = cx.values(operands);
        inputs.extend(cx.values(&captured));
        let known = inputs.len();
        let mut tangents = Vec::new();
        for &operand in operands {
            if is_differentiable(cx.ty(operand).dtype) {
                tangents.push(cx.tangent_or_zero(operand)?);
            }
        }
        let types = op.result_types();
        let (primals, tangents) = if cx.is_reverse() {
            let parts = split(&rule, known, types.len());
            if parts.is_known[..types.len()].contains(&false) {
                return none(op, "derivative", "the results of its rule depend on the tangents");
            }
            let mut primals = cx.primal().inline(&parts.known, &inputs);
            let residuals = primals.split_off(types.len());
            let mut inputs: Vec<ValueId> =
                residuals.into_iter().map(|primal| cx.residual(primal)).collect();
            inputs.extend(tangents);
            (primals, cx.linear().inline(&parts.unknown, &inputs))
        } else {
            inputs.extend(tangents);
            let mut primals = cx.primal().inline(&rule, &inputs);
            let tangents = primals.split_off(types.len());
            (primals, tangents)
        };
        let tangents = by_type(&types, &tangents);
        for ((&result, primal), tangent) in op.data().results.iter().zip(primals).zip(tangents) {
            cx.bind(result, primal, tangent.copied());
        }
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let (function, captured) = region::extract(op.function, op.region(0));
        let operands = [&op.data().operands[..], &captured].concat();
        cx.as_function(op, &function, &operands)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let (size, types) = (cx.size(), op.result_types());
        let operands = &op.data().operands;
        let flags: Vec<bool> = operands.iter().map(|&v| cx.is_batched(v)).collect();
        let tangents = operands.iter().filter(|v| is_differentiable(op.function.ty(**v).dtype));
        let mut rule_flags = flags.clone();
        rule_flags.extend(tangents.map(|&v| cx.is_batched(v)));
        let (function, outer) = over(cx, op, 0, &flags)?;
        let (rule, outer_rule) = over(cx, op, 1, &rule_flags)?;
        let wanted = result_flags(&function, &rule, &types);
        let tangents = types.iter().zip(&wanted).filter(|(ty, _)| is_differentiable(ty.dtype));
        let mut rule_wanted = wanted.clone();
        rule_wanted.extend(tangents.map(|(_, wanted)| *wanted));
        let values: Vec<ValueId> = operands.iter().map(|&v| cx.value(v)).collect();
        let mut b = cx.builder();
        let types = b.types(&values);
        let rule_types: Vec<TensorType> = [&types[..], &tangent_types(&types)].concat();
        let first = b.region(&types, |b, x| {
            let out = b.inline(&function.function, &[x, &outer].concat());
            repeated(b, out, &function.results, wanted.iter().copied(), size)
        })?;
        let second = b.region(&rule_types, |b, x| {
            let out = b.inline(&rule.function, &[x, &outer_rule].concat());
            repeated(b, out, &rule.results, rule_wanted, size)
        })?;
        let out = b.push(CustomJvp, &values, &[first, second])?;
        for ((&result, value), flag) in op.data().results.iter().zip(out).zip(wanted) {
            cx.bind(result, value, flag);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;
    use crate::transform::testing::{check, function, ints, values};

    /// x * sin(y) by hand; the derivative written out; a number goes through.
    fn product() -> Function {
        let inputs = [values(&[2], 1), values(&[2], 2), ints(&[], &[3])];
        let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
        let rule_types = [&types[..], &tangent_types(&types)].concat();
        function(&types, |b, x| {
            let first = b.region(&types, |b, x| {
                let sine = b.elementwise("stablehlo.sine", &[x[1]])?;
                Ok(vec![b.multiply(x[0], sine)?, x[2]])
            })?;
            let second = b.region(&rule_types, |b, x| {
                let sine = b.elementwise("stablehlo.sine", &[x[1]])?;
                let cosine = b.elementwise("stablehlo.cosine", &[x[1]])?;
                let slope = b.multiply(x[0], cosine)?;
                let (left, right) = (b.multiply(x[3], sine)?, b.multiply(slope, x[4])?);
                Ok(vec![b.multiply(x[0], sine)?, x[2], b.add(left, right)?])
            })?;
            b.push(CustomJvp, x, &[first, second])
        })
    }

    #[test]
    fn derivatives_and_batches() {
        check(&product(), &[values(&[2], 1), values(&[2], 2), ints(&[], &[3])]);
    }

    #[test]
    fn the_rule_is_what_counts() {
        // A function whose rule says twice what is true.
        let ty = TensorType::new([2], jaxrs_kernel::DType::F64);
        let f = function(std::slice::from_ref(&ty), |b, x| {
            let first = b.region(std::slice::from_ref(&ty), |_, x| Ok(vec![x[0]]))?;
            let second = b.region(&[ty.clone(), ty.clone()], |b, x| {
                Ok(vec![x[0], b.add(x[1], x[1])?])
            })?;
            b.push(CustomJvp, x, &[first, second])
        });
        let text = crate::text::print_function(&f);
        let again = crate::text::parse(&text, "test").unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(crate::text::print_function(&again.functions[0]), text);
        let both = crate::transform::jvp(&f, &[true]).expect("a rule");
        let x = [values(&[2], 1), values(&[2], 2)];
        let got = crate::interpret::call(None, &both.function, &x).expect("values");
        let twice: Vec<f64> =
            crate::transform::testing::numbers(&x[1]).iter().map(|x| 2.0 * x).collect();
        assert_eq!(crate::transform::testing::numbers(&got[1]), twice);
    }
}
