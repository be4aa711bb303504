//! Rules of `checkpoint`. In forward mode, transposed and over batches it is a checkpoint of what
//! the rule makes of the region. In reverse mode its linear part is one that takes the operands, what
//! the policy kept, and the tangents: transposed, it computes the rest again.

use super::{Checkpoint, Policy};
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::ops::OpView;
use crate::region;
use crate::transform::{
    Batch, Jvp, Linearized, Rule, Rules, Transposition, backward_slice, batch, jvp, linearize,
    needed, transpose_some, with_effects,
};

/// The region as a function, with the values that it takes: operands, then those of enclosing
/// blocks.
fn closed(op: OpView<'_>) -> (Function, Vec<ValueId>) {
    let (body, captured) = region::extract(op.function, op.region(0));
    let mut operands = op.data().operands.clone();
    operands.extend(captured);
    (body, operands)
}

/// Appends a checkpoint whose region `body` builds.
fn emit(
    b: &mut Builder<'_>,
    checkpoint: &Checkpoint,
    operands: &[ValueId],
    body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Result<Vec<ValueId>, String> {
    let region = b.region(&b.types(operands), body)?;
    b.push(checkpoint.clone(), operands, &[region])
}

fn bind(cx: &mut Jvp<'_>, op: OpView<'_>, primals: &[ValueId], flags: &[bool], tangents: &[ValueId]) {
    let mut tangents = tangents.iter().copied();
    for ((&result, &primal), &flag) in op.data().results.iter().zip(primals).zip(flags) {
        let tangent = if flag { tangents.next() } else { None };
        cx.bind(result, primal, tangent);
    }
}

/// What the linear part is given: parameters of the region, and results of ops that the policy
/// keeps.
struct Given {
    parameters: Vec<usize>,
    kept: Vec<ValueId>,
}

impl Given {
    fn new(parts: &Linearized, results: usize, policy: Policy) -> Given {
        let primal = &parts.primal;
        let residuals = &primal.results()[results..];
        let (used, kept) = needed(primal, residuals, |op| policy.keeps(&primal.ops[op]));
        let parameters = primal.parameters().iter().enumerate();
        let parameters = parameters.filter(|(_, v)| used.contains(v)).map(|(n, _)| n).collect();
        Given { parameters, kept }
    }
}

impl Checkpoint {
    fn linearized(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let (body, operands) = closed(op);
        let flags: Vec<bool> = operands.iter().map(|&v| cx.tangent(v).is_some()).collect();
        let parts = linearize(&body, &flags).map_err(|error| error.message)?;
        let count = parts.tangents.len();
        if !parts.tangents.contains(&true) {
            cx.copy(op);
            return Ok(());
        }
        let primal = &parts.primal;
        let given = Given::new(&parts, count, self.policy);
        let residuals = &primal.results()[count..];
        let values = cx.values(&operands);
        let to = [&primal.results()[..count], &given.kept].concat();
        let forward = with_effects(primal, primal.parameters(), &to);
        let out = emit(&mut cx.primal(), self, &values, |b, x| Ok(b.inline(&forward, x)))?;
        let mut from: Vec<ValueId> =
            given.parameters.iter().map(|&n| primal.parameters()[n]).collect();
        from.extend(&given.kept);
        let again = backward_slice(primal, &from, residuals);
        let mut inputs = Vec::with_capacity(from.len());
        for &n in &given.parameters {
            inputs.push(cx.residual(values[n]));
        }
        for &kept in &out[count..] {
            inputs.push(cx.residual(kept));
        }
        let known = inputs.len();
        inputs.extend(operands.iter().filter_map(|&v| cx.tangent(v)));
        let linear = Checkpoint { again: true, ..self.clone() };
        let tangents = emit(&mut cx.linear(), &linear, &inputs, |b, x| {
            let mut residuals = b.inline(&again, &x[..known]);
            residuals.extend(&x[known..]);
            Ok(b.inline(&parts.linear, &residuals))
        })?;
        bind(cx, op, &out[..count], &parts.tangents, &tangents);
        Ok(())
    }

    fn forward(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let (body, operands) = closed(op);
        let flags: Vec<bool> = operands.iter().map(|&v| cx.tangent(v).is_some()).collect();
        let both = jvp(&body, &flags).map_err(|error| error.message)?;
        let mut inputs = cx.values(&operands);
        inputs.extend(operands.iter().filter_map(|&v| cx.tangent(v)));
        let out = emit(&mut cx.primal(), self, &inputs, |b, x| Ok(b.inline(&both.function, x)))?;
        let (primals, tangents) = out.split_at(both.tangents.len());
        bind(cx, op, primals, &both.tangents, tangents);
        Ok(())
    }
}

impl Rules for Checkpoint {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        if !cx.is_reverse() {
            return self.forward(cx, op);
        }
        if self.policy == Policy::Everything {
            let (body, operands) = closed(op);
            return cx.as_function(op, &body, &operands);
        }
        self.linearized(cx, op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let (body, operands) = closed(op);
        let linear: Vec<bool> = operands.iter().map(|&v| cx.is_linear(v)).collect();
        let (back, known) = transpose_some(&body, &linear)?;
        let (targets, others): (Vec<ValueId>, Vec<ValueId>) =
            operands.iter().partition(|v| cx.is_linear(**v));
        let mut inputs: Vec<ValueId> = others.iter().map(|&v| cx.value(v)).collect();
        let results = &op.data().results;
        let cotangents: Vec<Option<ValueId>> = results.iter().map(|&v| cx.cotangent(v)).collect();
        inputs.extend(cotangents.iter().flatten());
        let types = op.result_types();
        let out = emit(&mut cx.builder(), self, &inputs, |b, x| {
            let (values, rest) = x.split_at(known);
            let (mut arguments, mut rest) = (values.to_vec(), rest.iter());
            for (cotangent, ty) in cotangents.iter().zip(&types) {
                arguments.push(match cotangent {
                    Some(_) => *rest.next().expect("one for each"),
                    None => b.zeros(ty)?,
                });
            }
            Ok(b.inline(&back, &arguments))
        })?;
        for (target, cotangent) in targets.into_iter().zip(out) {
            cx.add(target, cotangent)?;
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let (body, operands) = closed(op);
        let flags: Vec<bool> = operands.iter().map(|&v| cx.is_batched(v)).collect();
        let over = batch(&body, &flags, cx.size()).map_err(|error| error.message)?;
        let values: Vec<ValueId> = operands.iter().map(|&v| cx.value(v)).collect();
        let out =
            emit(&mut cx.builder(), self, &values, |b, x| Ok(b.inline(&over.function, x)))?;
        for ((&result, value), flag) in op.data().results.iter().zip(out).zip(over.results) {
            cx.bind(result, value, flag);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{DotGeneral, Op};
    use crate::transform::testing::{check, function, values};
    use crate::types::TensorType;
    use jaxrs_kernel::DType;

    const POLICIES: [Policy; 4] =
        [Policy::Nothing, Policy::Dots, Policy::DotsWithNoBatchDims, Policy::Everything];

    /// sin(tanh(x . w) . w), with an outer value.
    fn layers(policy: Policy) -> Function {
        let ty = TensorType::new([2, 2], DType::F64);
        function(&[ty.clone(), ty], |b, x| {
            let outer = b.add(x[0], x[0])?;
            emit(b, &Checkpoint { policy, again: false }, x, |b, y| {
                let dot = DotGeneral {
                    lhs_batch: vec![],
                    rhs_batch: vec![],
                    lhs_contracting: vec![1],
                    rhs_contracting: vec![0],
                    result: DType::F64,
                };
                let first = b.one(dot.clone(), y)?;
                let first = b.elementwise("stablehlo.tanh", &[first])?;
                let second = b.one(dot, &[first, y[1]])?;
                let second = b.multiply(second, outer)?;
                Ok(vec![b.elementwise("stablehlo.sine", &[second])?, first])
            })
        })
    }

    #[test]
    fn derivatives_and_batches() {
        for policy in POLICIES {
            check(&layers(policy), &[values(&[2, 2], 1), values(&[2, 2], 2)]);
        }
    }

    #[test]
    fn a_policy_says_what_is_kept() {
        let residuals = POLICIES.map(|policy| {
            let f = layers(policy);
            let parts = linearize(&f, &[true, true]).expect("a derivative");
            parts.residual_parameters.iter().filter(|p| p.is_none()).count()
        });
        // Twice x, which is computed outside; with dots their two results, too.
        assert_eq!(residuals[..3], [1, 3, 3]);
        assert!(residuals[3] > 3, "{residuals:?}");
    }

    #[test]
    fn what_is_computed_again_stands_behind_a_barrier() {
        let f = layers(Policy::Nothing);
        let parts = linearize(&f, &[true, true]).expect("a derivative");
        let back = crate::transform::transpose(&parts.linear, parts.residuals);
        let lowered = crate::transform::lower(&back.expect("a transpose")).expect("no custom rule");
        let count = |name: &str| {
            let body = &lowered.blocks[lowered.body].ops;
            body.iter().filter(|&&op| lowered.ops[op].op.name() == name).count()
        };
        assert_eq!(count("stablehlo.optimization_barrier"), 1);
        assert_eq!(count("stablehlo.tanh"), 1);
        assert!(!lowered.ops.values().any(|data| matches!(data.op, Op::Checkpoint(_))));
    }
}
