//! Rules of `reduce`. Sums are linear; a maximum (or minimum) shares its tangent equally among the
//! elements that are it, as JAX does; a search for an extreme's position gives it that of the
//! element found. Any other body, products among them, is taken apart into a tree of whole-tensor
//! ops, whose rules then say the rest.

use super::Reduce;
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::ops::monoid::{Body, Kind, function_of, kinds};
use crate::ops::{Op, OpView, extreme};
use crate::region;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::Compare as Direction;

impl Reduce {
    fn kept_axes(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|axis| !self.axes.contains(axis)).collect()
    }

    /// A result's value at every element that went into it.
    fn spread(
        &self,
        b: &mut Builder<'_>,
        result: ValueId,
        shape: &[u64],
    ) -> Result<ValueId, String> {
        b.broadcast_in_dim(result, shape, &self.kept_axes(shape.len()))
    }

    /// The same as a tree of ops on whole tensors, from operands, initial values and what the body
    /// uses of enclosing blocks; with the values that it takes.
    fn tree(&self, op: OpView<'_>) -> Result<(Function, Vec<ValueId>), String> {
        let body = Body::new(op.function, op.region(0));
        let mut values = op.data().operands.clone();
        values.extend(&body.captured);
        let types: Vec<TensorType> = values.iter().map(|&v| op.function.ty(v).clone()).collect();
        let count = op.data().results.len();
        let shape = types[0].shape.clone();
        let kept = self.kept_axes(shape.len());
        let order: Vec<usize> = self.axes.iter().chain(&kept).copied().collect();
        let kept: Vec<u64> = kept.into_iter().map(|axis| shape[axis]).collect();
        let mut rows = vec![self.axes.iter().map(|&axis| shape[axis]).product()];
        rows.extend(&kept);
        let tree = function_of(&types, |b, x| {
            let mut inputs = Vec::with_capacity(count);
            for &input in &x[..count] {
                let input = b.transpose(input, &order)?;
                inputs.push(b.reshape(input, &rows)?);
            }
            body.reduce(b, inputs, &x[count..2 * count], &x[2 * count..])
        })?;
        Ok((tree, values))
    }

    /// The tangent of a maximum or minimum, from the tangents of the elements that are it.
    fn extreme(
        &self,
        cx: &mut Jvp<'_>,
        [operand, init]: [ValueId; 2],
        result: ValueId,
    ) -> Result<ValueId, String> {
        let ty = cx.ty(operand).clone();
        let values = cx.values(&[operand, init]);
        let mut b = cx.primal();
        let spread = self.spread(&mut b, result, &ty.shape)?;
        let here = b.compare(Direction::Eq, values[0], spread)?;
        let each = b.convert(here, ty.dtype)?;
        let mut count = b.sum(each, &self.axes)?;
        let kept = b.ty(result);
        let start = b.splat(values[1], &kept.shape)?;
        let at_start = b.compare(Direction::Eq, start, result)?;
        let of_init = cx.tangent(init);
        let mut b = cx.primal();
        if of_init.is_some() {
            let start = b.convert(at_start, ty.dtype)?;
            count = b.add(count, start)?;
        }
        // Without any element that is it there is nothing to share out.
        let (zero, one) = (b.full_like(count, 0.0)?, b.full_like(count, 1.0)?);
        let none = b.compare(Direction::Eq, count, zero)?;
        let count = b.select(none, one, count)?;
        let share = b.divide(one, count)?;
        let mut sum = None;
        if let Some(tangent) = cx.tangent(operand) {
            let here = cx.residual(here);
            let mut b = cx.linear();
            let zeros = b.full_like(tangent, 0.0)?;
            let masked = b.select(here, tangent, zeros)?;
            sum = Some(b.sum(masked, &self.axes)?);
        }
        if let Some(tangent) = of_init {
            let at_start = cx.residual(at_start);
            let mut b = cx.linear();
            let tangent = b.splat(tangent, &kept.shape)?;
            let zeros = b.full_like(tangent, 0.0)?;
            let masked = b.select(at_start, tangent, zeros)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, masked)?,
                None => masked,
            });
        }
        let share = cx.residual(share);
        cx.linear().multiply(sum.expect("called with a tangent"), share)
    }

    /// The axis along which the second operand counts and the body searches for the first one's
    /// extreme and its position.
    fn search(&self, op: OpView<'_>) -> Option<usize> {
        let ([axis], [_, positions, _, _]) = (&self.axes[..], &op.data().operands[..]) else {
            return None;
        };
        let made_by = op.function.defining_op(*positions)?;
        let Op::Iota(iota) = &op.function.ops[made_by].op else { return None };
        (iota.axis == *axis && op.operand_type(0).dtype.is_float()).then_some(())?;
        extreme::by_order(op.function, op.region(0)).map(|_| *axis)
    }

    /// The rule of such a search: the tangent of the element found.
    fn found(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.copy(op);
        let Some(tangent) = cx.tangent(op.operand(0)) else { return Ok(()) };
        let shape = &op.operand_type(0).shape;
        let (positions, found) = (cx.value(op.operand(1)), cx.value(op.result(1)));
        let mut b = cx.primal();
        let found = self.spread(&mut b, found, shape)?;
        let here = b.compare(Direction::Eq, positions, found)?;
        let here = cx.residual(here);
        let mut b = cx.linear();
        let zeros = b.full_like(tangent, 0.0)?;
        let masked = b.select(here, tangent, zeros)?;
        let tangent = b.sum(masked, &self.axes)?;
        cx.bind_tangent(op.result(0), tangent);
        Ok(())
    }

    /// One operand reduced by one op.
    fn part(
        &self,
        b: &mut Builder<'_>,
        name: &str,
        operand: ValueId,
        init: ValueId,
    ) -> Result<ValueId, String> {
        let scalar = TensorType::scalar(b.ty(operand).dtype);
        let body =
            b.region(&[scalar.clone(), scalar], |b, x| Ok(vec![b.elementwise(name, x)?]))?;
        Ok(b.push(self.clone(), &[operand, init], &[body])?[0])
    }

    /// Batches over initial values: each operand is reduced from what changes nothing, and the
    /// initial values come last. None where the body is not known well enough.
    fn from_identities(
        &self,
        cx: &mut Batch<'_>,
        op: OpView<'_>,
        kinds: &[Kind],
    ) -> Result<Option<Vec<(ValueId, bool)>>, String> {
        let count = kinds.len();
        let mut results = Vec::with_capacity(count);
        for (n, kind) in kinds.iter().enumerate() {
            let (operand, init) = (op.operand(n), op.operand(count + n));
            let (name, identity) = (kind.name(), kind.identity(op.operand_type(n).dtype));
            let (Some(name), Some(identity)) = (name, identity) else { return Ok(None) };
            let (of_operand, of_init) = (cx.is_batched(operand), cx.is_batched(init));
            let shift = usize::from(of_operand);
            let reduce = Reduce { axes: self.axes.iter().map(|axis| axis + shift).collect() };
            let (operand, init) = (cx.value(operand), cx.value(init));
            let size = cx.size();
            let mut b = cx.builder();
            if !of_init {
                results.push((reduce.part(&mut b, name, operand, init)?, of_operand));
                continue;
            }
            let start = b.constant(identity)?;
            let mut part = reduce.part(&mut b, name, operand, start)?;
            if !of_operand {
                part = b.repeat(part, 0, size)?;
            }
            let shape = b.ty(part).shape;
            let init = b.broadcast_in_dim(init, &shape, &[0])?;
            results.push((b.elementwise(name, &[init, part])?, true));
        }
        Ok(Some(results))
    }
}

impl Rules for Reduce {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let operands = &op.data().operands;
        let count = operands.len() / 2;
        if self.search(op).is_some() && operands[2..].iter().all(|&v| cx.tangent(v).is_none()) {
            return self.found(cx, op);
        }
        let kinds = kinds(op.function, op.region(0)).unwrap_or_default();
        let known = |kind: &Kind| matches!(kind, Kind::Add | Kind::Maximum | Kind::Minimum);
        let has_tangent = |n: usize| {
            cx.tangent(operands[n]).is_some() || cx.tangent(operands[count + n]).is_some()
        };
        let all = !kinds.is_empty() && (0..count).all(|n| known(&kinds[n]) || !has_tangent(n));
        if !all {
            let (tree, values) = self.tree(op)?;
            return cx.tangents_as_function(op, &tree, &values);
        }
        cx.copy(op);
        for (n, kind) in kinds.into_iter().enumerate() {
            let (operand, init) = (operands[n], operands[count + n]);
            if cx.tangent(operand).is_none() && cx.tangent(init).is_none() {
                continue;
            }
            let tangent = match kind {
                Kind::Add => {
                    let (operand, init) = (cx.tangent_or_zero(operand)?, cx.tangent_or_zero(init)?);
                    self.part(&mut cx.linear(), "stablehlo.add", operand, init)?
                }
                _ => {
                    let result = cx.value(op.result(n));
                    self.extreme(cx, [operand, init], result)?
                }
            };
            cx.bind_tangent(op.result(n), tangent);
        }
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let kinds = kinds(op.function, op.region(0)).unwrap_or_default();
        let operands = &op.data().operands;
        let count = operands.len() / 2;
        for n in 0..count {
            let Some(cotangent) = cx.cotangent(op.result(n)) else { continue };
            let (operand, init) = (operands[n], operands[count + n]);
            if !cx.is_linear(operand) && !cx.is_linear(init) {
                continue;
            }
            if kinds.get(n) != Some(&Kind::Add) {
                return none(op, "transpose", "its body is no sum");
            }
            if cx.is_linear(operand) {
                let shape = &op.operand_type(n).shape;
                let spread = self.spread(&mut cx.builder(), cotangent, shape)?;
                cx.add(operand, spread)?;
            }
            if cx.is_linear(init) {
                let axes: Vec<usize> = (0..op.result_type(n).rank()).collect();
                let sum = cx.builder().sum(cotangent, &axes)?;
                cx.add(init, sum)?;
            }
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let operands = &op.data().operands;
        let count = operands.len() / 2;
        let captured = region::captures(op.function, op.id);
        let of_captured = captured.iter().any(|&v| cx.is_batched(v));
        let of_inits = operands[count..].iter().any(|&v| cx.is_batched(v));
        let mut results = None;
        if of_inits && !of_captured && let Some(kinds) = kinds(op.function, op.region(0)) {
            results = self.from_identities(cx, op, &kinds)?;
        }
        if results.is_none() && (of_inits || of_captured) {
            let (tree, values) = self.tree(op)?;
            return cx.as_function(op, &tree, &values);
        }
        if let Some(results) = results {
            for (&result, (value, batched)) in op.data().results.iter().zip(results) {
                cx.bind(result, value, batched);
            }
            return Ok(());
        }
        let mut values = Vec::with_capacity(operands.len());
        for (n, &operand) in operands.iter().enumerate() {
            values.push(if n < count { cx.full(operand)? } else { cx.value(operand) });
        }
        let body = cx.region(op, op.region(0));
        let reduce = Reduce { axes: self.axes.iter().map(|axis| axis + 1).collect() };
        let results = cx.builder().push(reduce, &values, &[body])?;
        for (&result, value) in op.data().results.iter().zip(results) {
            cx.bind(result, value, true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::Literal;
    use crate::testing::program;
    use crate::transform::testing::{
        Options, check, check_body, check_with, function, ints, spread, values,
    };
    use jaxrs_kernel::DType;

    #[test]
    fn sums_and_extremes() {
        for name in ["stablehlo.add", "stablehlo.maximum", "stablehlo.minimum"] {
            for axes in [&[0_usize][..], &[1], &[0, 1], &[]] {
                let start = if name == "stablehlo.maximum" { -9.0 } else { 9.0 };
                let init = spread(DType::F64, &[], start, start + 1.0, 1);
                check_body(&[values(&[2, 3], 4), init], |b, x| {
                    Ok(vec![Reduce { axes: axes.to_vec() }.part(b, name, x[0], x[1])?])
                });
            }
        }
        let complex = [spread(DType::C128, &[3], -1.0, 1.0, 1)];
        check_body(&complex, |b, x| Ok(vec![b.sum(x[0], &[0])?]));
    }

    #[test]
    fn an_initial_value_may_be_the_extreme() {
        let init = spread(DType::F64, &[], 1.0, 1.5, 1);
        check_body(&[values(&[2, 3], 4), init], |b, x| {
            Ok(vec![Reduce { axes: vec![1] }.part(b, "stablehlo.maximum", x[0], x[1])?])
        });
    }

    #[test]
    fn products() {
        for extent in [0_u64, 1, 2, 5] {
            let inputs = [values(&[extent, 2], 3), values(&[], 1)];
            let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
            let f = function(&types, |b, x| {
                Ok(vec![Reduce { axes: vec![0] }.part(b, "stablehlo.multiply", x[0], x[1])?])
            });
            let batch = extent > 0;
            check_with(&f, &inputs, Options { batch, second: extent > 0, ..Options::default() });
        }
    }

    #[test]
    fn integers_and_truth_values() {
        check_body(&[ints(&[3, 2], &[4, 1, 3, -2, 7, 7]), ints(&[], &[1])], |b, x| {
            let names = ["add", "multiply", "maximum", "minimum", "and", "or", "xor"];
            let part = |name: &str| format!("stablehlo.{name}");
            let mut out = Vec::new();
            for name in names.map(part) {
                out.push(Reduce { axes: vec![0] }.part(b, &name, x[0], x[1])?);
            }
            Ok(out)
        });
    }

    /// A reduction of two operands that finds the largest element and its position.
    fn search(positions: &str) -> Function {
        program(&format!(
            "(%x: tensor<2x4xf64>, %n: tensor<2x4xi32>) -> (tensor<2xf64>, tensor<2xi32>) {{
              %i = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
              %j = stablehlo.constant dense<0> : tensor<i32>
              %p = {positions} : tensor<2x4xi32>
              %0:2 = stablehlo.reduce(%x init: %i), (%p init: %j) across dimensions = [1]
                : (tensor<2x4xf64>, tensor<2x4xi32>, tensor<f64>, tensor<i32>)
                -> (tensor<2xf64>, tensor<2xi32>)
               reducer(%a: tensor<f64>, %c: tensor<f64>) (%b: tensor<i32>, %d: tensor<i32>) {{
                %1 = stablehlo.compare GT, %a, %c, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
                %2 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
                %3 = stablehlo.or %1, %2 : tensor<i1>
                %4 = stablehlo.compare EQ, %a, %c, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
                %5 = stablehlo.compare LT, %b, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %6 = stablehlo.and %4, %5 : tensor<i1>
                %7 = stablehlo.or %3, %6 : tensor<i1>
                %8 = stablehlo.select %3, %a, %c : tensor<i1>, tensor<f64>
                %9 = stablehlo.select %7, %b, %d : tensor<i1>, tensor<i32>
                stablehlo.return %8, %9 : tensor<f64>, tensor<i32>
              }}
              return %0#0, %0#1 : tensor<2xf64>, tensor<2xi32>
            }}"
        ))
    }

    #[test]
    fn searches() {
        let inputs = [values(&[2, 4], 5), ints(&[2, 4], &[0, 1, 2, 3, 7, 5, 5, 0])];
        // Counted positions, and any others, for which the tree is taken.
        for positions in ["stablehlo.iota dim = 1", "stablehlo.add %n, %n"] {
            let f = search(positions);
            let is_search = f.ops.iter().any(|(id, data)| match &data.op {
                Op::Reduce(reduce) => reduce.search(OpView { function: &f, id }).is_some(),
                _ => false,
            });
            assert_eq!(is_search, positions.contains("iota"));
            check(&f, &inputs);
        }
    }

    #[test]
    fn a_body_may_use_outer_values() {
        let f = program(
            "(%x: tensor<3x2xf64>, %i: tensor<f64>, %s: tensor<f64>) -> tensor<2xf64> {
              %0 = \"stablehlo.reduce\"(%x, %i) <{dimensions = array<i64: 0>}> ({
              ^bb0(%a: tensor<f64>, %b: tensor<f64>):
                %1 = stablehlo.multiply %a, %b : tensor<f64>
                %2 = stablehlo.multiply %1, %s : tensor<f64>
                stablehlo.return %2 : tensor<f64>
              }) : (tensor<3x2xf64>, tensor<f64>) -> tensor<2xf64>
              return %0 : tensor<2xf64>
            }",
        );
        check(&f, &[values(&[3, 2], 1), values(&[], 2), values(&[], 3)]);
    }

    #[test]
    fn several_operands() {
        let inputs: Vec<Literal> =
            vec![values(&[3, 2], 1), values(&[3, 2], 2), values(&[], 3), values(&[], 4)];
        let f = program(
            "(%x: tensor<3x2xf64>, %y: tensor<3x2xf64>, %i: tensor<f64>, %j: tensor<f64>)
                -> (tensor<2xf64>, tensor<2xf64>) {
              %0:2 = \"stablehlo.reduce\"(%x, %y, %i, %j) <{dimensions = array<i64: 0>}> ({
              ^bb0(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<f64>, %d: tensor<f64>):
                %1 = stablehlo.add %c, %a : tensor<f64>
                %2 = stablehlo.maximum %b, %d : tensor<f64>
                stablehlo.return %1, %2 : tensor<f64>, tensor<f64>
              }) : (tensor<3x2xf64>, tensor<3x2xf64>, tensor<f64>, tensor<f64>)
                -> (tensor<2xf64>, tensor<2xf64>)
              return %0#0, %0#1 : tensor<2xf64>, tensor<2xf64>
            }",
        );
        check(&f, &inputs);
    }
}
