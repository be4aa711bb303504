//! `jaxrs.custom_vjp`: a region with a rule for reverse mode. An op of the front end:
//! [`crate::transform::lower`] puts the first region in its place.
//!
//! The second region takes the operands and gives the results, then residuals. The third takes the
//! residuals, then a cotangent for each result that can have one, and gives a cotangent for each
//! operand that can have one.

use super::custom_jvp::{by_type, no_captured_tangents, over, repeated, tangent_types};
use super::custom_linear::{CustomLinear, REVERSE_ONLY};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::function::ValueId;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::region;
use crate::transform::{
    Batch, Jvp, Rule, Rules, Transposition, is_differentiable, none,
};
use crate::types::TensorType;

/// A region with a rule for reverse mode.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomVjp;

impl StructuredOp for CustomVjp {
    const NAMES: &'static [&'static str] = &["jaxrs.custom_vjp"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(CustomVjp)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("custom_vjp", signature.operands.len(), 3)?;
        let operands = &signature.operands;
        let [(arguments, results), (forward_arguments, forward_results), (taken, given)] =
            &signature.regions[..]
        else {
            unreachable!("three regions")
        };
        super::same_types("custom_vjp: arguments of the function", arguments, operands)?;
        super::same_types("custom_vjp: arguments of the forward rule", forward_arguments, operands)?;
        let (same, residuals) = forward_results.split_at(results.len().min(forward_results.len()));
        super::same_types("custom_vjp: results of the forward rule", same, results)?;
        let expected = [residuals, &tangent_types(results)].concat();
        super::same_types("custom_vjp: arguments of the backward rule", taken, &expected)?;
        let expected = tangent_types(operands);
        super::same_types("custom_vjp: results of the backward rule", given, &expected)?;
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

impl Rules for CustomVjp {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        no_captured_tangents(cx, op)?;
        if !cx.is_reverse() {
            return none(op, "derivative in forward mode", REVERSE_ONLY);
        }
        let types = op.result_types();
        let operands = &op.data().operands;
        let (forward, captured) = region::extract(op.function, op.region(1));
        let inputs = cx.values(&[&operands[..], &captured].concat());
        let mut primals = cx.primal().inline(&forward, &inputs);
        let mut residuals = primals.split_off(types.len());
        let (back, captured) = region::extract(op.function, op.region(2));
        let own = residuals.len();
        residuals.extend(cx.values(&captured));
        let mut inputs: Vec<ValueId> =
            residuals.into_iter().map(|primal| cx.residual(primal)).collect();
        let linear = CustomLinear { residuals: inputs.len() };
        for &operand in operands {
            if is_differentiable(cx.ty(operand).dtype) {
                inputs.push(cx.tangent_or_zero(operand)?);
            }
        }
        let mut b = cx.linear();
        let mut arguments = b.types(&inputs[..linear.residuals]);
        arguments.extend(tangent_types(&types));
        let region = b.region(&arguments, |b, x| {
            let (residuals, cotangents) = x.split_at(linear.residuals);
            let (own, outer) = residuals.split_at(own);
            Ok(b.inline(&back, &[own, cotangents, outer].concat()))
        })?;
        let tangents = b.push(linear, &inputs, &[region])?;
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
        let (function, outer) = over(cx, op, 0, &flags)?;
        let (forward, outer_forward) = over(cx, op, 1, &flags)?;
        // All results have the axis or none: cotangents of both kinds could not be told apart in
        // what the backward rule adds up.
        let results = function.results.iter().chain(&forward.results[..types.len()]);
        let wanted = results.clone().any(|&flag| flag);
        let mut back_flags = forward.results[types.len()..].to_vec();
        back_flags.resize(back_flags.len() + tangent_types(&types).len(), wanted);
        let (back, outer_back) = over(cx, op, 2, &back_flags)?;
        let values: Vec<ValueId> = operands.iter().map(|&v| cx.value(v)).collect();
        let targets: Vec<bool> = operands
            .iter()
            .zip(&flags)
            .filter(|(v, _)| is_differentiable(op.function.ty(**v).dtype))
            .map(|(_, flag)| *flag)
            .collect();
        let mut b = cx.builder();
        let inputs = b.types(&values);
        let all = std::iter::repeat_n(wanted, types.len());
        let first = b.region(&inputs, |b, x| {
            let out = b.inline(&function.function, &[x, &outer].concat());
            repeated(b, out, &function.results, all.clone(), size)
        })?;
        let second = b.region(&inputs, |b, x| {
            let out = b.inline(&forward.function, &[x, &outer_forward].concat());
            repeated(b, out, &forward.results, all, size)
        })?;
        let residuals = b.function.blocks[second].yields[types.len()..].to_vec();
        let mut arguments = b.types(&residuals);
        for ty in tangent_types(&types) {
            let axis = wanted.then_some(size);
            let shape: Vec<u64> = axis.into_iter().chain(ty.shape).collect();
            arguments.push(TensorType::new(shape, ty.dtype));
        }
        let third = b.region(&arguments, |b, x| {
            let out = b.inline(&back.function, &[x, &outer_back].concat());
            let mut cotangents = repeated(b, out, &back.results, targets.iter().copied(), size)?;
            // What all elements share gets the sum of their cotangents.
            for (n, cotangent) in cotangents.iter_mut().enumerate() {
                if back.results[n] && !targets[n] {
                    *cotangent = b.sum(*cotangent, &[0])?;
                }
            }
            Ok(cotangents)
        })?;
        let out = b.push(CustomVjp, &values, &[first, second, third])?;
        for (&result, value) in op.data().results.iter().zip(out) {
            cx.bind(result, value, wanted);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;
    use crate::transform::testing::{
        Options, batches, check_with, derivatives, function, gradient, ints, numbers, values,
    };
    use crate::transform::{batch, jvp, linearize};
    use jaxrs_kernel::DType;

    /// x * sin(y), and a number that goes through; `factor` times the true cotangents.
    fn product(factor: f64) -> Function {
        let inputs = [values(&[2], 1), values(&[2], 2), ints(&[], &[3])];
        let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
        let back_types = vec![types[0].clone(); 3];
        function(&types, |b, x| {
            let first = b.region(&types, |b, x| {
                let sine = b.elementwise("stablehlo.sine", &[x[1]])?;
                Ok(vec![b.multiply(x[0], sine)?, x[2]])
            })?;
            let second = b.region(&types, |b, x| {
                let sine = b.elementwise("stablehlo.sine", &[x[1]])?;
                let cosine = b.elementwise("stablehlo.cosine", &[x[1]])?;
                let slope = b.multiply(x[0], cosine)?;
                Ok(vec![b.multiply(x[0], sine)?, x[2], sine, slope])
            })?;
            let third = b.region(&back_types, |b, x| {
                let factor = b.full_like(x[2], factor)?;
                let cotangent = b.multiply(x[2], factor)?;
                Ok(vec![b.multiply(x[0], cotangent)?, b.multiply(x[1], cotangent)?])
            })?;
            b.push(CustomVjp, x, &[first, second, third])
        })
    }

    #[test]
    fn the_gradient_is_the_rules() {
        let inputs = [values(&[2], 1), values(&[2], 2), ints(&[], &[3])];
        let active = [true, true, false];
        let of = |factor: f64| {
            let (gradient, given) = gradient(&product(factor), &inputs, &active);
            let out = crate::interpret::call(None, &gradient, &given).expect("values");
            out.iter().flat_map(numbers).collect::<Vec<f64>>()
        };
        let (once, twice) = (of(1.0), of(2.0));
        assert!(once.iter().zip(&twice).all(|(x, y)| (2.0 * x - y).abs() < 1e-12));
        // The gradient is a function like any other, to be differentiated and batched.
        let (gradient, given) = gradient(&product(1.0), &inputs, &active);
        check_with(&gradient, &given, Options { second: false, ..Options::default() });
        batches(&product(1.0), &inputs);
    }

    #[test]
    fn what_a_batch_shares_gets_the_sum() {
        let inputs = [values(&[3, 2], 1), values(&[2], 2), ints(&[], &[3])];
        let over = batch(&product(1.0), &[true, false, false], 3).expect("a rule").function;
        let (gradient, given) = gradient(&over, &inputs, &[true, true, false]);
        let got = crate::interpret::call(None, &gradient, &given).expect("values");
        let ops = function(&given_types(&inputs), |b, x| {
            let sine = b.elementwise("stablehlo.sine", &[x[1]])?;
            let sine = b.repeat(sine, 0, 3)?;
            Ok(vec![b.multiply(x[0], sine)?])
        });
        let (plain, _) = super::tests::gradient(&ops, &inputs, &[true, true, false]);
        let expected = crate::interpret::call(None, &plain, &given).expect("values");
        for (got, expected) in got.iter().zip(&expected) {
            let pairs = numbers(got).into_iter().zip(numbers(expected));
            assert!(pairs.into_iter().all(|(x, y)| (x - y).abs() < 1e-12), "{got:?}");
        }
    }

    fn given_types(inputs: &[Literal]) -> Vec<TensorType> {
        inputs.iter().map(|l| l.ty().clone()).collect()
    }

    #[test]
    fn forward_mode_says_what_to_use() {
        let f = product(1.0);
        let error = jvp(&f, &[true, true, false]).map(|_| ()).expect_err("no rule");
        assert!(error.message.contains("use custom_jvp"), "{error:?}");
        let parts = linearize(&f, &[true, true, false]).expect("a rule");
        assert!(crate::transform::lower(&parts.linear).is_err());
        // Where nothing is differentiated it is a function like any other.
        let inputs = [values(&[2], 1), values(&[2], 2), ints(&[], &[3])];
        derivatives(&f, &inputs, &[false; 3], Options { second: false, ..Options::default() });
        let text = crate::text::print_function(&f);
        let again = crate::text::parse(&text, "test").unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(crate::text::print_function(&again.functions[0]), text);
        assert_eq!(inputs[0].ty().dtype, DType::F64);
    }
}
