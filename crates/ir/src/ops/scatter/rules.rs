//! Rules of `scatter`, for bodies that are one op of accumulator and update: sums, products,
//! minima, maxima and replacement, as JAX has them. Any body can be batched.
//!
//! There is, by decision, no derivative for other bodies, nor for updates of a product unless no
//! element is updated twice (JAX: the same). Of equal candidates for a maximum each gets an equal
//! share. Where replacements of one element meet, the one that was kept is found by its number.

use super::Scatter;
use crate::builder::Builder;
use crate::function::ValueId;
use crate::ops::gather::{Gather, rules::by_component};
use crate::ops::monoid::{Kind, kinds};
use crate::ops::{Iota, OpView};
use crate::region;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::{Compare as Direction, DType};

const BODIES: &str =
    "its body is no sum, product, minimum, maximum or replacement of accumulator and update";

impl Scatter {
    /// Appends the scatter of one operand with a body of one elementwise op, or, without a name,
    /// that replaces.
    pub(in crate::ops) fn apply<'n>(
        &self,
        b: &mut Builder<'_>,
        name: impl Into<Option<&'n str>>,
        operand: ValueId,
        indices: ValueId,
        updates: ValueId,
    ) -> Result<ValueId, String> {
        let scalar = TensorType::scalar(b.ty(operand).dtype);
        let name = name.into();
        let body = b.region(&[scalar.clone(), scalar], |b, x| match name {
            Some(name) => Ok(vec![b.elementwise(name, x)?]),
            None => Ok(vec![x[1]]),
        })?;
        Ok(b.push(self.clone(), &[operand, indices, updates], &[body])?[0])
    }

    /// The windows of a tensor of the operand's shape; of those outside something else.
    fn windows_of(
        &self,
        b: &mut Builder<'_>,
        tensor: ValueId,
        indices: ValueId,
        updates: &TensorType,
    ) -> Result<ValueId, String> {
        let ty = b.ty(tensor);
        let gather = Gather {
            windows: self.windows.clone(),
            slice_sizes: self.sizes(&ty, updates),
            sorted: self.sorted,
        };
        b.one(gather, &[tensor, indices])
    }

    /// The windows of a tensor of the operand's shape; of those outside zeros.
    fn inside_windows_of(
        &self,
        b: &mut Builder<'_>,
        tensor: ValueId,
        indices: ValueId,
        updates: &TensorType,
    ) -> Result<ValueId, String> {
        let values = self.windows_of(b, tensor, indices, updates)?;
        let (operand, ty) = (b.ty(tensor), b.ty(indices));
        if self.windows.start.is_empty() {
            return Ok(values);
        }
        let sizes = self.sizes(&operand, updates);
        let last: Vec<u64> =
            self.windows.start.iter().map(|&axis| operand.shape[axis] - sizes[axis]).collect();
        let zero = b.zeros(&ty)?;
        let last = by_component(b, &self.windows, &ty, &last)?;
        let above = b.compare(Direction::Ge, indices, zero)?;
        let below = b.compare(Direction::Le, indices, last)?;
        let mut inside = b.elementwise("stablehlo.and", &[above, below])?;
        if self.windows.vector < ty.rank() {
            let init = b.full(&TensorType::scalar(DType::I1), 1.0)?;
            inside = b.reduce("stablehlo.and", inside, init, &[self.windows.vector])?;
        }
        let outer: Vec<usize> =
            (0..updates.rank()).filter(|axis| !self.windows.inside.contains(axis)).collect();
        let inside = b.broadcast_in_dim(inside, &updates.shape, &outer)?;
        let zeros = b.full_like(values, 0.0)?;
        b.select(inside, values, zeros)
    }

    /// The tangent where updates replace: of operand elements that none replaced, and of the
    /// update that each other one has got.
    fn replaced(
        &self,
        cx: &mut Jvp<'_>,
        [operand, indices, updates]: [ValueId; 3],
    ) -> Result<ValueId, String> {
        let (ty, update) = (cx.ty(operand).clone(), cx.ty(updates).clone());
        let source_indices = indices;
        let indices = cx.value(indices);
        let number = if update.len() < i32::MAX as u64 { DType::I32 } else { DType::I64 };
        let mut b = cx.primal();
        // Each update's number, from 1.
        let flat = b.one(Iota { axis: 0, ty: TensorType::new([update.len()], number) }, &[])?;
        let one = b.full_like(flat, 1.0)?;
        let flat = b.add(flat, one)?;
        let numbers = b.reshape(flat, &update.shape)?;
        let zeros = b.zeros(&ty.with_dtype(number))?;
        let placed = self.apply(&mut b, None, zeros, indices, numbers)?;
        let untouched = b.compare(Direction::Eq, placed, zeros)?;
        let back = self.windows_of(&mut b, placed, indices, &update)?;
        let kept = b.compare(Direction::Eq, back, numbers)?;
        self.masked_sum(cx, [operand, source_indices, updates], [untouched, kept])
    }

    /// The sum of the operand's tangent and the updates' where the masks, primal values, hold.
    fn masked_sum(
        &self,
        cx: &mut Jvp<'_>,
        [operand, indices, updates]: [ValueId; 3],
        masks: [ValueId; 2],
    ) -> Result<ValueId, String> {
        let mut masked = Vec::new();
        for (value, mask) in [operand, updates].into_iter().zip(masks) {
            let Some(tangent) = cx.tangent(value) else {
                masked.push(cx.tangent_or_zero(value)?);
                continue;
            };
            let mask = cx.residual(mask);
            let mut b = cx.linear();
            let zeros = b.full_like(tangent, 0.0)?;
            masked.push(b.select(mask, tangent, zeros)?);
        }
        if cx.tangent(updates).is_none() {
            return Ok(masked[0]);
        }
        let indices = cx.residual_of(indices);
        self.apply(&mut cx.linear(), "stablehlo.add", masked[0], indices, masked[1])
    }

    /// The tangent of a maximum or minimum, shared equally by all candidates that are it.
    fn extreme(
        &self,
        cx: &mut Jvp<'_>,
        [operand, indices, updates]: [ValueId; 3],
        result: ValueId,
    ) -> Result<ValueId, String> {
        let ty = cx.ty(operand).clone();
        let update = cx.ty(updates).clone();
        let values = cx.values(&[operand, indices, updates]);
        let mut b = cx.primal();
        let kept = b.compare(Direction::Eq, values[0], result)?;
        let target = self.windows_of(&mut b, result, values[1], &update)?;
        let successful = b.compare(Direction::Eq, values[2], target)?;
        let count = b.convert(kept, ty.dtype)?;
        let each = b.convert(successful, ty.dtype)?;
        let count = self.apply(&mut b, "stablehlo.add", count, values[1], each)?;
        let one = b.full_like(count, 1.0)?;
        // Without any candidate (NaN) there is nothing to share out.
        let none = b.full_like(count, 0.0)?;
        let none = b.compare(Direction::Eq, count, none)?;
        let count = b.select(none, one, count)?;
        let share = b.divide(one, count)?;
        let sum = self.masked_sum(cx, [operand, indices, updates], [kept, successful])?;
        let share = cx.residual(share);
        cx.linear().multiply(sum, share)
    }

    /// The tangent of a product.
    fn product(
        &self,
        cx: &mut Jvp<'_>,
        [operand, indices, updates]: [ValueId; 3],
    ) -> Result<ValueId, String> {
        let update = cx.ty(updates).clone();
        let at = cx.residual_of(indices);
        let mut sum = None;
        if let Some(tangent) = cx.tangent(operand) {
            let factor = cx.residual_of(updates);
            let mut b = cx.linear();
            sum = Some(self.apply(&mut b, "stablehlo.multiply", tangent, at, factor)?);
        }
        if let Some(tangent) = cx.tangent(updates) {
            if !self.unique {
                return Err("stablehlo.scatter has no derivative for the updates of a product \
                            whose indices may repeat: set unique_indices if they do not"
                    .into());
            }
            let values = cx.values(&[operand, indices]);
            let mut b = cx.primal();
            let factor = self.windows_of(&mut b, values[0], values[1], &update)?;
            let factor = cx.residual(factor);
            let start = match sum {
                Some(sum) => sum,
                None => cx.tangent_or_zero(operand)?,
            };
            let mut b = cx.linear();
            let term = b.multiply(tangent, factor)?;
            sum = Some(self.apply(&mut b, "stablehlo.add", start, at, term)?);
        }
        Ok(sum.expect("called with a tangent"))
    }
}

impl Rules for Scatter {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let Some(kinds) = kinds(op.function, op.region(0)) else {
            return none(op, "derivative", BODIES);
        };
        cx.copy(op);
        let operands = &op.data().operands;
        let indices = operands[kinds.len()];
        for (n, &kind) in kinds.iter().enumerate() {
            let (operand, updates) = (operands[n], operands[kinds.len() + 1 + n]);
            let all = [operand, indices, updates];
            let (of_operand, of_updates) = (cx.tangent(operand), cx.tangent(updates));
            if of_operand.is_none() && of_updates.is_none() {
                continue;
            }
            let nothing = cx.ty(operand).is_empty() || cx.ty(updates).is_empty();
            let tangent = match kind {
                _ if nothing => cx.tangent_or_zero(operand)?,
                Kind::Old => {
                    let Some(tangent) = of_operand else { continue };
                    tangent
                }
                Kind::Add | Kind::Subtract => {
                    let start = cx.tangent_or_zero(operand)?;
                    match of_updates {
                        None => start,
                        Some(update) => {
                            let at = cx.residual_of(indices);
                            let mut b = cx.linear();
                            let minus = kind == Kind::Subtract;
                            let update = if minus { b.negate(update)? } else { update };
                            self.apply(&mut b, "stablehlo.add", start, at, update)?
                        }
                    }
                }
                Kind::New if self.unique || of_updates.is_none() => {
                    let start = cx.tangent_or_zero(operand)?;
                    let update = cx.tangent_or_zero(updates)?;
                    let at = cx.residual_of(indices);
                    self.apply(&mut cx.linear(), None, start, at, update)?
                }
                Kind::New => self.replaced(cx, all)?,
                Kind::Multiply => self.product(cx, all)?,
                Kind::Maximum | Kind::Minimum => {
                    let result = cx.value(op.result(n));
                    self.extreme(cx, all, result)?
                }
                Kind::And | Kind::Or | Kind::Xor => return none(op, "derivative", BODIES),
            };
            cx.bind_tangent(op.result(n), tangent);
        }
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let Some(kinds) = kinds(op.function, op.region(0)) else {
            return none(op, "transpose", BODIES);
        };
        let operands = &op.data().operands;
        let indices = operands[kinds.len()];
        for (n, &kind) in kinds.iter().enumerate() {
            let (operand, updates) = (operands[n], operands[kinds.len() + 1 + n]);
            let Some(cotangent) = cx.cotangent(op.result(n)) else { continue };
            let update = op.function.ty(updates);
            let nothing = op.function.ty(operand).is_empty() || update.is_empty();
            if cx.is_linear(operand) {
                let factor = match kind {
                    Kind::Multiply if !cx.is_linear(updates) => Some(cx.value(updates)),
                    _ => None,
                };
                let at = cx.value(indices);
                let mut b = cx.builder();
                let cotangent = match (kind, factor) {
                    _ if nothing => cotangent,
                    (Kind::Add | Kind::Subtract | Kind::Old, _) => cotangent,
                    (Kind::New, _) => {
                        let zeros = b.zeros(update)?;
                        self.apply(&mut b, None, cotangent, at, zeros)?
                    }
                    (Kind::Multiply, Some(factor)) => {
                        self.apply(&mut b, "stablehlo.multiply", cotangent, at, factor)?
                    }
                    _ => return none(op, "transpose", "it is not linear in its operand"),
                };
                cx.add(operand, cotangent)?;
            }
            if cx.is_linear(updates) && !nothing {
                let linear = match kind {
                    Kind::Add | Kind::Subtract => true,
                    Kind::New => self.unique,
                    _ => false,
                };
                if !linear {
                    return none(op, "transpose", "it is not linear in its updates");
                }
                let at = cx.value(indices);
                let mut b = cx.builder();
                let mut windows = self.inside_windows_of(&mut b, cotangent, at, update)?;
                if kind == Kind::Subtract {
                    windows = b.negate(windows)?;
                }
                cx.add(updates, windows)?;
            }
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        if region::captures(op.function, op.id).iter().any(|&v| cx.is_batched(v)) {
            let why = "its body uses a batched value of an enclosing block";
            return none(op, "batching rule", why);
        }
        let operands = &op.data().operands;
        let count = operands.len() / 2;
        let mut values = Vec::with_capacity(operands.len());
        for (n, &operand) in operands.iter().enumerate() {
            values.push(if n == count { cx.value(operand) } else { cx.full(operand)? });
        }
        let of_indices = cx.is_batched(operands[count]);
        let scatter = Scatter {
            windows: self.windows.batched(true, of_indices),
            sorted: self.sorted && !of_indices,
            unique: self.unique,
        };
        let body = cx.region(op, op.region(0));
        let results = cx.builder().push(scatter, &values, &[body])?;
        for (&result, value) in op.data().results.iter().zip(results) {
            cx.bind(result, value, true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::indexing::Windows;
    use crate::transform::testing::{Options, check_with, function, ints, values};

    fn rows(unique: bool) -> Scatter {
        let windows = Windows {
            inside: vec![1],
            inserted: vec![0],
            operand_batch: vec![],
            indices_batch: vec![],
            start: vec![0],
            vector: 1,
        };
        Scatter { windows, sorted: false, unique }
    }

    fn check(scatter: &Scatter, name: Option<&str>, shapes: [&[u64]; 3], indices: &[i64]) {
        let inputs = [values(shapes[0], 1), ints(shapes[1], indices), values(shapes[2], 2)];
        let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
        let f = function(&types, |b, x| Ok(vec![scatter.apply(b, name, x[0], x[1], x[2])?]));
        check_with(&f, &inputs, Options::default());
    }

    #[test]
    fn sums_minima_and_replacements() {
        let names = ["add", "subtract", "maximum", "minimum"].map(|n| format!("stablehlo.{n}"));
        for name in names.iter().map(|name| Some(&name[..])).chain([None]) {
            // One row twice, one outside.
            check(&rows(false), name, [&[3, 2], &[4, 1], &[4, 2]], &[1, 0, 1, 3]);
        }
    }

    #[test]
    fn products_and_unique_replacements() {
        for name in [Some("stablehlo.multiply"), None] {
            check(&rows(true), name, [&[6, 2], &[2, 1], &[2, 2]], &[1, 4]);
        }
    }

    #[test]
    fn batching_axes_and_windows() {
        let windows = Windows {
            inside: vec![2],
            inserted: vec![],
            operand_batch: vec![0],
            indices_batch: vec![1],
            start: vec![1],
            vector: 0,
        };
        let scatter = Scatter { windows, sorted: false, unique: false };
        for name in [Some("stablehlo.add"), None] {
            check(&scatter, name, [&[2, 4], &[1, 2, 2], &[2, 2, 2]], &[0, 1, 2, 1]);
        }
    }
}
