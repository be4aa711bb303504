//! Rules of `case` and `if`: the branches are transformed apart. In reverse mode residuals of
//! different branches share places by their types, a branch without a value for one giving zeros;
//! what a branch uses of enclosing blocks is no residual of its own. Where the choice differs
//! between the elements of a batch, all branches run and the results are selected.

use super::Case;
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::literal::Literal;
use crate::ops::{If, Op, OpView};
use crate::region;
use crate::transform::{
    Batch, Jvp, Linearized, Rule, Rules, Transposition, batch, jvp, linearize, transpose_some,
};
use crate::types::TensorType;
use jaxrs_kernel::{Compare as Direction, DType};

/// The branches as functions of what any of them uses of enclosing blocks.
struct Branches {
    functions: Vec<Function>,
    captured: Vec<ValueId>,
}

impl Branches {
    fn new(op: OpView<'_>) -> Branches {
        let captured = region::captures(op.function, op.id);
        let function = |&block| region::extract_over(op.function, block, &captured);
        Branches { functions: op.data().regions.iter().map(function).collect(), captured }
    }

    fn each<T>(
        &self,
        make: impl Fn(&Function) -> Result<T, crate::Error>,
    ) -> Result<Vec<T>, String> {
        self.functions.iter().map(|f| make(f).map_err(|error| error.message)).collect()
    }
}

/// Which results are flagged in any branch.
fn union<'t>(branches: impl Iterator<Item = &'t Vec<bool>>) -> Vec<bool> {
    branches.fold(Vec::new(), |all, flags| match all.is_empty() {
        true => flags.clone(),
        false => all.iter().zip(flags).map(|(a, b)| *a || *b).collect(),
    })
}

/// Appends a choice whose branches are built one by one.
fn emit(
    b: &mut Builder<'_>,
    op: &Op,
    index: ValueId,
    branches: usize,
    mut build: impl FnMut(&mut Builder<'_>, usize) -> Result<Vec<ValueId>, String>,
) -> Result<Vec<ValueId>, String> {
    let mut regions = Vec::with_capacity(branches);
    for n in 0..branches {
        regions.push(b.region(&[], |b, _| build(b, n))?);
    }
    b.push(op.clone(), &[index], &regions)
}

/// The tangents of the results flagged in `all`, from those of one branch; `types` are the
/// results' types.
fn padded(
    b: &mut Builder<'_>,
    all: &[bool],
    flags: &[bool],
    tangents: Vec<ValueId>,
    types: &[TensorType],
) -> Result<Vec<ValueId>, String> {
    let mut tangents = tangents.into_iter();
    let mut out = Vec::new();
    for ((&wanted, &given), ty) in all.iter().zip(flags).zip(types) {
        let tangent = if given { tangents.next() } else { None };
        if wanted {
            out.push(match tangent {
                Some(tangent) => tangent,
                None => b.zeros(ty)?,
            });
        }
    }
    Ok(out)
}

fn bind_all(
    cx: &mut Jvp<'_>,
    op: OpView<'_>,
    primals: &[ValueId],
    flags: &[bool],
    tangents: &[ValueId],
) {
    let mut tangents = tangents.iter().copied();
    for ((&result, &primal), &flag) in op.data().results.iter().zip(primals).zip(flags) {
        let tangent = if flag { tangents.next() } else { None };
        cx.bind(result, primal, tangent);
    }
}

/// Where the residuals of each branch are found behind the primal results.
struct Places {
    types: Vec<TensorType>,
    /// For each branch and residual of its own, the place.
    of_branches: Vec<Vec<usize>>,
}

impl Places {
    fn new(branches: &[Linearized], results: usize) -> Places {
        let (mut types, mut of_branches) = (Vec::<TensorType>::new(), Vec::new());
        for parts in branches {
            let mut taken: Vec<usize> = Vec::new();
            let residuals = parts.primal.results()[results..].iter();
            for (&value, parameter) in residuals.zip(&parts.residual_parameters) {
                if parameter.is_some() {
                    continue;
                }
                let ty = parts.primal.ty(value);
                let free = (0..types.len()).find(|n| types[*n] == *ty && !taken.contains(n));
                taken.push(free.unwrap_or_else(|| {
                    types.push(ty.clone());
                    types.len() - 1
                }));
            }
            of_branches.push(taken);
        }
        Places { types, of_branches }
    }
}

fn linearized(cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
    let branches = Branches::new(op);
    let captured = &branches.captured;
    let flags: Vec<bool> = captured.iter().map(|&v| cx.tangent(v).is_some()).collect();
    let parts = branches.each(|f| linearize(f, &flags))?;
    let all = union(parts.iter().map(|parts| &parts.tangents));
    if !all.contains(&true) {
        cx.copy(op);
        return Ok(());
    }
    let results = all.len();
    let places = Places::new(&parts, results);
    let values = cx.values(captured);
    let choice = cx.value(op.operand(0));
    let count = parts.len();
    let out = emit(&mut cx.primal(), &op.data().op, choice, count, |b, n| {
        let mut yields = b.inline(&parts[n].primal, &values);
        let residuals = yields.split_off(results);
        let own = residuals.into_iter().zip(&parts[n].residual_parameters);
        let own = own.filter(|(_, parameter)| parameter.is_none()).map(|(value, _)| value);
        let mut slots: Vec<Option<ValueId>> = vec![None; places.types.len()];
        for (value, &place) in own.zip(&places.of_branches[n]) {
            slots[place] = Some(value);
        }
        for (slot, ty) in slots.into_iter().zip(&places.types) {
            yields.push(match slot {
                Some(value) => value,
                None => b.zeros(ty)?,
            });
        }
        Ok(yields)
    })?;
    let slots: Vec<ValueId> = out[results..].iter().map(|&v| cx.residual(v)).collect();
    let mut inputs = Vec::with_capacity(count);
    for (parts, places) in parts.iter().zip(&places.of_branches) {
        let mut own = places.iter().map(|&place| slots[place]);
        let mut residuals = Vec::new();
        for parameter in &parts.residual_parameters {
            residuals.push(match *parameter {
                Some(n) => cx.residual(values[n]),
                None => own.next().expect("a place for each residual"),
            });
        }
        inputs.push(residuals);
    }
    let tangents: Vec<ValueId> = captured.iter().filter_map(|&v| cx.tangent(v)).collect();
    let types = op.result_types();
    let choice = cx.residual(choice);
    let linear = emit(&mut cx.linear(), &op.data().op, choice, count, |b, n| {
        let given = b.inline(&parts[n].linear, &[&inputs[n][..], &tangents].concat());
        padded(b, &all, &parts[n].tangents, given, &types)
    })?;
    bind_all(cx, op, &out[..results], &all, &linear);
    Ok(())
}

fn forward(cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
    let branches = Branches::new(op);
    let captured = &branches.captured;
    let flags: Vec<bool> = captured.iter().map(|&v| cx.tangent(v).is_some()).collect();
    let both = branches.each(|f| jvp(f, &flags))?;
    let all = union(both.iter().map(|both| &both.tangents));
    let mut inputs = cx.values(captured);
    inputs.extend(captured.iter().filter_map(|&v| cx.tangent(v)));
    let types = op.result_types();
    let choice = cx.value(op.operand(0));
    let out = emit(&mut cx.primal(), &op.data().op, choice, both.len(), |b, n| {
        let mut results = b.inline(&both[n].function, &inputs);
        let tangents = results.split_off(all.len());
        results.extend(padded(b, &all, &both[n].tangents, tangents, &types)?);
        Ok(results)
    })?;
    let (primals, tangents) = out.split_at(all.len());
    bind_all(cx, op, primals, &all, tangents);
    Ok(())
}

fn transposed(cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
    let Branches { functions, captured } = Branches::new(op);
    let linear: Vec<bool> = captured.iter().map(|&v| cx.is_linear(v)).collect();
    let mut backs = Vec::with_capacity(functions.len());
    for f in &functions {
        backs.push(transpose_some(f, &linear)?.0);
    }
    let (targets, known): (Vec<ValueId>, Vec<ValueId>) =
        captured.iter().partition(|v| cx.is_linear(**v));
    let mut inputs: Vec<ValueId> = known.into_iter().map(|v| cx.value(v)).collect();
    for &result in &op.data().results {
        inputs.push(cx.cotangent_or_zero(result)?);
    }
    let choice = cx.value(op.operand(0));
    let out = emit(&mut cx.builder(), &op.data().op, choice, backs.len(), |b, n| {
        Ok(b.inline(&backs[n], &inputs))
    })?;
    for (target, cotangent) in targets.into_iter().zip(out) {
        cx.add(target, cotangent)?;
    }
    Ok(())
}

/// For each element of a batch `x` where the predicate holds, else `y`; all have the batch axis.
pub(in crate::ops) fn select_elements(
    b: &mut Builder<'_>,
    predicate: ValueId,
    x: ValueId,
    y: ValueId,
) -> Result<ValueId, String> {
    let shape = b.ty(x).shape;
    let predicate = b.broadcast_in_dim(predicate, &shape, &[0])?;
    b.select(predicate, x, y)
}

fn batched(cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
    let branches = Branches::new(op);
    let captured = &branches.captured;
    let flags: Vec<bool> = captured.iter().map(|&v| cx.is_batched(v)).collect();
    let (size, choice) = (cx.size(), cx.value(op.operand(0)));
    let over = branches.each(|f| batch(f, &flags, size))?;
    let inputs: Vec<ValueId> = captured.iter().map(|&v| cx.value(v)).collect();
    let full = |b: &mut Builder<'_>, n: usize, all: &[bool]| {
        let mut results = b.inline(&over[n].function, &inputs);
        for (value, (has_axis, wanted)) in results.iter_mut().zip(over[n].results.iter().zip(all)) {
            if *wanted && !has_axis {
                *value = b.repeat(*value, 0, size)?;
            }
        }
        Ok::<_, String>(results)
    };
    if !cx.is_batched(op.operand(0)) {
        let all = union(over.iter().map(|over| &over.results));
        let out = emit(&mut cx.builder(), &op.data().op, choice, over.len(), |b, n| {
            full(b, n, &all)
        })?;
        for ((&result, value), flag) in op.data().results.iter().zip(out).zip(all) {
            cx.bind(result, value, flag);
        }
        return Ok(());
    }
    let all = vec![true; op.data().results.len()];
    let is_if = matches!(op.data().op, Op::If(_));
    let mut b = cx.builder();
    let mut out = full(&mut b, over.len() - 1, &all)?;
    for n in (0..over.len() - 1).rev() {
        let this = full(&mut b, n, &all)?;
        let chosen = if is_if {
            choice
        } else {
            let number = b.constant(Literal::scalar(DType::I32, &[n as u64]))?;
            let number = b.splat(number, &[size])?;
            b.compare(Direction::Eq, choice, number)?
        };
        for (value, this) in out.iter_mut().zip(this) {
            *value = select_elements(&mut b, chosen, this, *value)?;
        }
    }
    for (&result, value) in op.data().results.iter().zip(out) {
        cx.bind(result, value, true);
    }
    Ok(())
}

macro_rules! branch_rules {
    ($($op:ident),*) => {
        $(impl Rules for $op {
            fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
                if cx.is_reverse() { linearized(cx, op) } else { forward(cx, op) }
            }

            fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
                transposed(cx, op)
            }

            fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
                batched(cx, op)
            }
        })*
    };
}

branch_rules!(Case, If);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{program, tensor};
    use crate::transform::testing::{check, ints, values};

    #[test]
    fn one_of_three() {
        let f = program(
            "(%i: tensor<i32>, %x: tensor<2xf64>, %y: tensor<2xf64>)
                -> (tensor<2xf64>, tensor<2xf64>) {
              %0:2 = \"stablehlo.case\"(%i) ({
                %1 = stablehlo.multiply %x, %y : tensor<2xf64>
                %2 = stablehlo.multiply %1, %1 : tensor<2xf64>
                stablehlo.return %2, %x : tensor<2xf64>, tensor<2xf64>
              }, {
                %1 = stablehlo.constant dense<3.0> : tensor<2xf64>
                stablehlo.return %1, %1 : tensor<2xf64>, tensor<2xf64>
              }, {
                %1 = stablehlo.multiply %x, %x : tensor<2xf64>
                %2 = stablehlo.multiply %1, %1 : tensor<2xf64>
                %3 = stablehlo.multiply %2, %2 : tensor<2xf64>
                stablehlo.return %3, %1 : tensor<2xf64>, tensor<2xf64>
              }) : (tensor<i32>) -> (tensor<2xf64>, tensor<2xf64>)
              return %0#0, %0#1 : tensor<2xf64>, tensor<2xf64>
            }",
        );
        for choice in [0, 1, 2, -1] {
            check(&f, &[ints(&[], &[choice]), values(&[2], 1), values(&[2], 2)]);
        }
    }

    #[test]
    fn one_of_two() {
        let f = program(
            "(%p: tensor<i1>, %x: tensor<f64>, %y: tensor<2xf64>) -> (tensor<f64>, tensor<i32>) {
              %0:2 = \"stablehlo.if\"(%p) ({
                %1 = stablehlo.multiply %x, %x : tensor<f64>
                %n = stablehlo.constant dense<3> : tensor<i32>
                stablehlo.return %1, %n : tensor<f64>, tensor<i32>
              }, {
                %i = stablehlo.constant dense<0.0> : tensor<f64>
                %1 = stablehlo.multiply %y, %y : tensor<2xf64>
                %2 = stablehlo.reduce(%1 init: %i) applies stablehlo.add across dimensions = [0]
                  : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
                %n = stablehlo.constant dense<4> : tensor<i32>
                stablehlo.return %2, %n : tensor<f64>, tensor<i32>
              }) : (tensor<i1>) -> (tensor<f64>, tensor<i32>)
              return %0#0, %0#1 : tensor<f64>, tensor<i32>
            }",
        );
        for choice in [0.0, 1.0] {
            let predicate = tensor(DType::I1, &[], &[choice]);
            check(&f, &[predicate, values(&[], 1), values(&[2], 2)]);
        }
    }
}
