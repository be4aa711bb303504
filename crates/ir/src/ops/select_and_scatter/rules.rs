//! Rules of `select_and_scatter` that adds: linear in the source and the initial value; the operand
//! only says where. Its transpose takes from each window the value at the element selected.
//!
//! There is, by decision, no derivative for another body than a sum (JAX has none either), nor a
//! transpose where the choice uses values of enclosing blocks.

use super::SelectAndScatter;
use crate::builder::Builder;
use crate::function::ValueId;
use crate::ops::OpView;
use crate::ops::monoid::{Kind, kinds};
use crate::ops::reduce_window::rules::{Choice, chosen};
use crate::ops::window::WindowAxis;
use crate::region;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::DType;

const NO_SUM: &str = "it does not add";

impl SelectAndScatter {
    /// Appends one that adds, of operand, source and initial value.
    pub(in crate::ops) fn add(
        &self,
        b: &mut Builder<'_>,
        choice: Choice<'_>,
        operands: [ValueId; 3],
    ) -> Result<ValueId, String> {
        let pair = |b: &Builder<'_>, n: usize| {
            let scalar = TensorType::scalar(b.function.ty(operands[n]).dtype);
            [scalar.clone(), scalar]
        };
        let (chosen, added) = (pair(b, 0), pair(b, 1));
        let select = b.region(&chosen, |b, x| Ok(vec![choice(b, x[0], x[1])?]))?;
        let scatter = b.region(&added, |b, x| Ok(vec![b.add(x[0], x[1])?]))?;
        Ok(b.push(self.clone(), &operands, &[select, scatter])?[0])
    }

    fn adds(op: OpView<'_>) -> bool {
        kinds(op.function, op.region(1)).is_some_and(|kinds| kinds == [Kind::Add])
    }
}

impl Rules for SelectAndScatter {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.copy(op);
        let [operand, source, init] = [0, 1, 2].map(|n| op.operand(n));
        if cx.tangent(source).is_none() && cx.tangent(init).is_none() {
            return Ok(());
        }
        if !SelectAndScatter::adds(op) {
            return none(op, "derivative", NO_SUM);
        }
        let (choice, captured) = region::extract(op.function, op.region(0));
        let captured: Vec<ValueId> = captured.into_iter().map(|v| cx.residual_of(v)).collect();
        let operand = cx.residual_of(operand);
        let tangents = [cx.tangent_or_zero(source)?, cx.tangent_or_zero(init)?];
        let choice = |b: &mut Builder<'_>, x, y| {
            Ok(b.inline(&choice, &[&[x, y], &captured[..]].concat())[0])
        };
        let all = [operand, tangents[0], tangents[1]];
        let tangent = self.add(&mut cx.linear(), &choice, all)?;
        cx.bind_tangent(op.result(0), tangent);
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let [operand, source, init] = [0, 1, 2].map(|n| op.operand(n));
        let Some(cotangent) = cx.cotangent(op.result(0)) else { return Ok(()) };
        if !SelectAndScatter::adds(op) || cx.is_linear(operand) {
            return none(op, "transpose", NO_SUM);
        }
        if cx.is_linear(init) {
            let axes: Vec<usize> = (0..op.result_type(0).rank()).collect();
            let sum = cx.builder().sum(cotangent, &axes)?;
            cx.add(init, sum)?;
        }
        if cx.is_linear(source) {
            let (choice, captured) = region::extract(op.function, op.region(0));
            if !captured.is_empty() {
                return none(op, "transpose", "its choice uses values of enclosing blocks");
            }
            let operand = cx.value(operand);
            let choice = |b: &mut Builder<'_>, x, y| Ok(b.inline(&choice, &[x, y])[0]);
            let values = chosen(&mut cx.builder(), &self.window, &choice, operand, cotangent)?;
            cx.add(source, values)?;
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let captured = region::captures(op.function, op.id);
        if captured.iter().any(|&v| cx.is_batched(v)) {
            let why = "its regions use a batched value of an enclosing block";
            return none(op, "batching rule", why);
        }
        let init = op.operand(2);
        let mut window = self.window.clone();
        window.insert(0, WindowAxis::POINT);
        let operands = [cx.full(op.operand(0))?, cx.full(op.operand(1))?];
        let regions = [0, 1].map(|n| cx.region(op, op.region(n)));
        let (value, of_init) = (cx.value(init), cx.is_batched(init));
        if of_init && !SelectAndScatter::adds(op) {
            return none(op, "batching rule for initial values", NO_SUM);
        }
        let mut b = cx.builder();
        let dtype: DType = b.ty(value).dtype;
        let start = if of_init { b.zeros(&TensorType::scalar(dtype))? } else { value };
        let all = [operands[0], operands[1], start];
        let mut result = b.push(SelectAndScatter { window }, &all, &regions)?[0];
        if of_init {
            let shape = b.ty(result).shape;
            let value = b.broadcast_in_dim(value, &shape, &[0])?;
            result = b.add(result, value)?;
        }
        cx.bind(op.result(0), result, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use jaxrs_kernel::Compare as Direction;

    #[test]
    fn derivatives_and_batches() {
        let pair = WindowAxis { extent: 2, stride: 2, ..WindowAxis::POINT };
        let cases: [(&[WindowAxis], &[u64], &[u64]); 3] = [
            (&[pair], &[4], &[2]),
            (&[WindowAxis { stride: 1, low: 1, high: 1, ..pair }], &[3], &[4]),
            (&[pair, WindowAxis { extent: 3, ..WindowAxis::POINT }], &[4, 4], &[2, 2]),
        ];
        for (window, operand, source) in cases {
            for direction in [Direction::Ge, Direction::Le] {
                let inputs = [values(operand, 1), values(source, 2), values(&[], 3)];
                check_body(&inputs, |b, x| {
                    let op = SelectAndScatter { window: window.to_vec() };
                    let choice = |b: &mut Builder<'_>, x, y| b.compare(direction, x, y);
                    Ok(vec![op.add(b, &choice, [x[0], x[1], x[2]])?])
                });
            }
        }
    }
}
