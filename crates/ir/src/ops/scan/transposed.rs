//! The transpose of `scan`: it goes the other way round, with the cotangents of constants added up
//! in carries. Carries that are known are computed before, by a scan of their own.

use super::rules::{Closed, emit, pieces};
use super::{Scan, slice_type};
use crate::function::{Function, ValueId};
use crate::ops::OpView;
use crate::transform::{
    Rule, Transposition, backward_slice, invariant, is_differentiable, none, split, transpose_some,
};
use crate::types::TensorType;

/// An operand of a scan that is to be transposed.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    /// A value of the transposed function.
    Known(ValueId),
    /// A value of the linear function.
    Linear(ValueId),
}

/// A scan that is to be transposed: it is linear in its carries, and in the operands that say so.
pub(super) struct Linear {
    scan: Scan,
    body: Function,
    operands: Vec<Operand>,
    /// The results of the linear function that it gives.
    results: Vec<ValueId>,
}

/// Those known and those linear.
fn apart(operands: &[Operand]) -> (Vec<ValueId>, Vec<ValueId>) {
    let (mut known, mut linear) = (Vec::new(), Vec::new());
    for operand in operands {
        match *operand {
            Operand::Known(value) => known.push(value),
            Operand::Linear(source) => linear.push(source),
        }
    }
    (known, linear)
}

impl Linear {
    pub(super) fn transposed(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let scan = &self.scan;
        let carries = scan.consts..scan.consts + scan.carries;
        let (known_consts, consts) = apart(&self.operands[..scan.consts]);
        let (known_tensors, tensors) = apart(&self.operands[carries.end..]);
        let (next, stacked) = self.results.split_at(scan.carries);
        if next.iter().any(|&v| !is_differentiable(op.function.ty(v).dtype)) {
            return none(op, "transpose", "it carries values that are not linear");
        }
        let is_linear = |(n, operand): (usize, &Operand)| {
            carries.contains(&n) || matches!(operand, Operand::Linear(_))
        };
        let flags: Vec<bool> = self.operands.iter().enumerate().map(is_linear).collect();
        let (back, _) = transpose_some(&self.body, &flags)?;
        // Carries: sums for the constants, then the carries' cotangents.
        let mut first = Vec::new();
        for &value in &consts {
            first.push(cx.builder().zeros(op.function.ty(value))?);
        }
        for &result in next {
            first.push(cx.cotangent_or_zero(result)?);
        }
        let given: Vec<Option<ValueId>> = stacked.iter().map(|&v| cx.cotangent(v)).collect();
        let slices: Vec<TensorType> =
            stacked.iter().map(|&v| slice_type(op.function.ty(v))).collect();
        let mut operands = [&known_consts[..], &first, &known_tensors].concat();
        operands.extend(given.iter().flatten());
        let scan = Scan {
            length: scan.length,
            reverse: !scan.reverse,
            consts: known_consts.len(),
            carries: first.len(),
        };
        let lengths = [known_consts.len(), consts.len(), carries.len(), known_tensors.len()];
        let out = emit(&mut cx.builder(), &scan, &operands, |b, args| {
            let [fixed, sums, next, sliced] = pieces(&args[..lengths.iter().sum()], lengths);
            let mut rest = args[lengths.iter().sum()..].iter();
            let mut inputs = [fixed, sliced, next].concat();
            for (given, ty) in given.iter().zip(&slices) {
                inputs.push(match given {
                    Some(_) => *rest.next().expect("a slice of each"),
                    None => b.zeros(ty)?,
                });
            }
            let mut out = b.inline(&back, &inputs);
            for (out, &sum) in out.iter_mut().zip(sums) {
                *out = b.add(sum, *out)?;
            }
            Ok(out)
        })?;
        let (of_consts, rest) = out.split_at(consts.len());
        let (of_carries, of_tensors) = rest.split_at(carries.len());
        for (&target, &cotangent) in consts.iter().zip(of_consts) {
            cx.add(target, cotangent)?;
        }
        for (operand, &cotangent) in self.operands[carries].iter().zip(of_carries) {
            if let Operand::Linear(target) = *operand {
                cx.add(target, cotangent)?;
            }
        }
        for (&target, &cotangent) in tensors.iter().zip(of_tensors) {
            cx.add(target, cotangent)?;
        }
        Ok(())
    }
}

impl Closed {
    /// Which operands are linear, with the carries that become so in a step.
    fn linear(&self, cx: &Transposition<'_>) -> Vec<bool> {
        let mut linear: Vec<bool> = self.operands.iter().map(|&v| cx.is_linear(v)).collect();
        loop {
            let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
            let known = invariant(&self.body, &known);
            let carries = &mut linear[self.scan.consts..self.scan.consts + self.scan.carries];
            let pairs = carries.iter_mut().zip(self.body.results());
            let new = pairs.filter(|(linear, next)| !**linear && !known.contains(next));
            if new.map(|(linear, _)| *linear = true).count() == 0 {
                return linear;
            }
        }
    }

    /// The scan as what is to be transposed. Carries that are known are computed by a scan of their
    /// own, beside what the others need of them.
    pub(super) fn transposing(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Result<Linear, String> {
        let linear = self.linear(cx);
        let operand = |cx: &Transposition<'_>, source: ValueId| match cx.is_linear(source) {
            true => Operand::Linear(source),
            false => Operand::Known(cx.value(source)),
        };
        let carries = &linear[self.scan.consts..self.scan.consts + self.scan.carries];
        if !carries.contains(&false) {
            return Ok(Linear {
                scan: self.scan.clone(),
                body: self.body.clone(),
                operands: self.operands.iter().map(|&v| operand(cx, v)).collect(),
                results: op.data().results.clone(),
            });
        }
        let [known_consts, known_carries, known_tensors] =
            self.flagged(&linear.iter().map(|linear| !linear).collect::<Vec<bool>>());
        let [consts, linear_carries, tensors] = self.flagged(&linear);
        // What is known comes first, of parameters and of results.
        let mut body = self.body.clone();
        let linear = &linear;
        let numbers = |wanted| (0..linear.len()).filter(move |&n| linear[n] == wanted);
        let parameters = body.parameters().to_vec();
        let order = numbers(false).chain(numbers(true)).map(|n| parameters[n]).collect();
        body.reorder_parameters(order);
        let mut places: Vec<usize> = (0..body.results().len()).collect();
        places.sort_by_key(|&n| carries.get(n) != Some(&false));
        let block = body.body;
        body.blocks[block].yields = places.iter().map(|&n| body.results()[n]).collect();
        let known = parameters.len() - consts.len() - linear_carries.len() - tensors.len();
        let parts = split(&body, known, known_carries.len());
        // Residuals: the same for every step, slices of tensors, or stacked by the first scan.
        let first = &parts.known;
        let (next, residuals) = first.results().split_at(known_carries.len());
        let position = |value: &ValueId| first.parameters().iter().position(|v| v == value);
        let first_tensor = known_consts.len() + known_carries.len();
        let stacked: Vec<ValueId> = residuals
            .iter()
            .filter(|v| !position(v).is_some_and(|n| n < known_consts.len() || n >= first_tensor))
            .copied()
            .collect();
        let step = backward_slice(first, first.parameters(), &[next, &stacked].concat());
        let scan = Scan {
            consts: known_consts.len(),
            carries: known_carries.len(),
            ..self.scan.clone()
        };
        let all = [known_consts, known_carries, known_tensors].concat();
        let values: Vec<ValueId> = all.iter().map(|&v| cx.value(v)).collect();
        let out = emit(&mut cx.builder(), &scan, &values, |b, x| Ok(b.inline(&step, x)))?;
        let mut slices = out[scan.carries..].iter();
        let (mut fixed, mut sliced) = (Vec::new(), Vec::new());
        for (residual, &parameter) in residuals.iter().zip(parts.unknown.parameters()) {
            match position(residual) {
                Some(n) if n < scan.consts => fixed.push((Operand::Known(values[n]), parameter)),
                Some(n) if n >= first_tensor => sliced.push((Operand::Known(values[n]), parameter)),
                _ => {
                    let slice = *slices.next().expect("stacked");
                    sliced.push((Operand::Known(slice), parameter));
                }
            }
        }
        let mut body = parts.unknown;
        let mut rest = body.parameters()[parts.residuals..].iter().copied();
        let mut operands = fixed;
        let counts = [consts.len(), linear_carries.len()];
        operands.extend(consts.into_iter().map(|v| operand(cx, v)).zip(&mut rest));
        let scan = Scan { consts: operands.len(), carries: counts[1], ..self.scan.clone() };
        operands.extend(linear_carries.into_iter().map(|v| operand(cx, v)).zip(&mut rest));
        operands.extend(sliced);
        operands.extend(tensors.into_iter().map(|v| operand(cx, v)).zip(&mut rest));
        body.reorder_parameters(operands.iter().map(|(_, parameter)| *parameter).collect());
        let results = &places[carries.iter().filter(|linear| !**linear).count()..];
        Ok(Linear {
            scan,
            body,
            operands: operands.into_iter().map(|(operand, _)| operand).collect(),
            results: results.iter().map(|&n| op.result(n)).collect(),
        })
    }
}
