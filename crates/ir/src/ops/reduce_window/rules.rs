//! Rules of `reduce_window`. Sums are linear: the transpose is a windowed sum with strides and
//! dilations of the tensor changed over. A maximum (or minimum) takes the tangent of the element that
//! it is, the first one in the window: a windowed reduction that carries element, tangent and
//! whether there is one, whose transpose is `select_and_scatter`. Running reductions are taken apart
//! into steps of doubled distance, all others into windows written out and a reduction of these.

use super::{ReduceWindow, Scan};
use crate::builder::Builder;
use crate::function::{BlockId, Function, ValueDef, ValueId};
use crate::literal::Literal;
use crate::ops::combiner::constant;
use crate::ops::gather::Gather;
use crate::ops::indexing::Windows;
use crate::ops::monoid::{Body, Kind, function_of, kinds};
use crate::ops::window::WindowAxis;
use crate::ops::{Op, OpView, Pad, Reduce, SelectAndScatter};
use crate::region;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, backward_slice, none};
use crate::types::TensorType;
use jaxrs_kernel::{Compare as Direction, DType};

/// The choice between two elements: whether the first one stays.
pub(in crate::ops) type Choice<'a> =
    &'a dyn Fn(&mut Builder<'_>, ValueId, ValueId) -> Result<ValueId, String>;

/// The windows of values whose elements the choice takes, out of windows of `x`: zero where a window
/// lies outside.
pub(in crate::ops) fn chosen(
    b: &mut Builder<'_>,
    window: &[WindowAxis],
    choice: Choice<'_>,
    x: ValueId,
    values: ValueId,
) -> Result<ValueId, String> {
    let ty = b.ty(x);
    let there = b.full(&ty.with_dtype(DType::I1), 1.0)?;
    let scalar = |dtype| TensorType::scalar(dtype);
    let one = [scalar(ty.dtype), scalar(b.ty(values).dtype), scalar(DType::I1)];
    let body = b.region(&[&one[..], &one[..]].concat(), |b, x| {
        let stays = choice(b, x[0], x[3])?;
        let none = b.elementwise("stablehlo.not", &[x[5]])?;
        let stays = b.elementwise("stablehlo.or", &[none, stays])?;
        let stays = b.elementwise("stablehlo.and", &[x[2], stays])?;
        let there = b.elementwise("stablehlo.or", &[x[2], x[5]])?;
        Ok(vec![b.select(stays, x[0], x[3])?, b.select(stays, x[1], x[4])?, there])
    })?;
    let mut operands = vec![x, values, there];
    for ty in &one {
        operands.push(b.zeros(ty)?);
    }
    let op = ReduceWindow { window: window.to_vec() };
    Ok(b.push(op, &operands, &[body])?[1])
}

/// The choice of a body that [`chosen`] has made, as a function of two elements.
fn choice_of(function: &Function, body: BlockId) -> Option<Function> {
    let (f, captured) = region::extract(function, body);
    let x = f.parameters();
    if x.len() != 6 || f.results().len() != 3 || !captured.is_empty() {
        return None;
    }
    let operands = |value: ValueId, is: &dyn Fn(&Op) -> bool| -> Option<&[ValueId]> {
        let ValueDef::Result(op, _) = f.values[value].def else { return None };
        is(&f.ops[op].op).then(|| &f.ops[op].operands[..])
    };
    let named = |name: &'static str| move |op: &Op| op.name() == name;
    let select = |op: &Op| matches!(op, Op::Select(_));
    let (first, second) = (operands(f.results()[0], &select)?, operands(f.results()[1], &select)?);
    let stays = first[0];
    if first[1..] != [x[0], x[3]] || second[1..] != [x[1], x[4]] || second[0] != stays {
        return None;
    }
    let [there, either] = operands(stays, &named("stablehlo.and"))? else { return None };
    let [none, stays] = operands(*either, &named("stablehlo.or"))? else { return None };
    let [new] = operands(*none, &named("stablehlo.not"))? else { return None };
    (*there == x[2] && *new == x[5]).then(|| backward_slice(&f, &[x[0], x[3]], &[*stays]))
}

/// The values of an axis of a tensor at positions, the axis becoming one of as many elements.
fn take(
    b: &mut Builder<'_>,
    x: ValueId,
    axis: usize,
    positions: &[u64],
) -> Result<ValueId, String> {
    let mut sizes = b.ty(x).shape;
    sizes[axis] = 1;
    let count = positions.len() as u64;
    let indices = Literal::tabulate(TensorType::new([count, 1], DType::I32), |n| {
        [positions[n as usize], 0]
    });
    let indices = b.constant(indices)?;
    let windows = Windows {
        inside: (0..sizes.len()).filter(|&a| a != axis).collect(),
        inserted: vec![axis],
        operand_batch: Vec::new(),
        indices_batch: Vec::new(),
        start: vec![axis],
        vector: 1,
    };
    b.one(Gather { windows, slice_sizes: sizes, sorted: false }, &[x, indices])
}

impl ReduceWindow {
    /// All windows of a tensor written out: the first axis runs inside a window, the others over
    /// the windows.
    fn written_out(
        &self,
        b: &mut Builder<'_>,
        x: ValueId,
        init: ValueId,
        counts: &[u64],
    ) -> Result<ValueId, String> {
        let rank = counts.len();
        let pad = Pad {
            low: self.window.iter().map(|w| w.low).collect(),
            high: self.window.iter().map(|w| w.high).collect(),
            interior: self.window.iter().map(|w| w.base_dilation as u64 - 1).collect(),
        };
        let mut x = b.one(pad, &[x, init])?;
        let mut shape = Vec::new();
        for (axis, (window, &count)) in self.window.iter().zip(counts).enumerate() {
            let positions = (0..window.extent).flat_map(|inside| {
                (0..count).map(move |n| n * window.stride as u64 + inside * window.dilation as u64)
            });
            x = take(b, x, axis, &positions.collect::<Vec<u64>>())?;
            shape.extend([window.extent, count]);
        }
        let x = b.reshape(x, &shape)?;
        let order: Vec<usize> =
            (0..rank).map(|axis| 2 * axis).chain((0..rank).map(|axis| 2 * axis + 1)).collect();
        let x = b.transpose(x, &order)?;
        let elements = self.window.iter().map(|w| w.extent).product();
        b.reshape(x, &[&[elements], counts].concat())
    }

    /// The same by ops on whole tensors, from operands, initial values and what the body uses of
    /// enclosing blocks; with the values that it takes.
    fn taken_apart(&self, op: OpView<'_>) -> Result<(Function, Vec<ValueId>), String> {
        let (body, captured) = region::extract(op.function, op.region(0));
        let mut values = op.data().operands.clone();
        values.extend(&captured);
        let types: Vec<TensorType> = values.iter().map(|&v| op.function.ty(v).clone()).collect();
        let count = op.data().results.len();
        if let Some(Scan { axis, reverse }) = self.scan(op) {
            let body = Body::new(op.function, op.region(0));
            let f = function_of(&types, |b, x| {
                body.running(b, x[..count].to_vec(), (axis, reverse), &x[2 * count..])
            })?;
            return Ok((f, values));
        }
        let counts = op.result_type(0).shape.clone();
        let scalars: Vec<TensorType> =
            types[..count].iter().map(|ty| TensorType::scalar(ty.dtype)).collect();
        let f = function_of(&types, |b, x| {
            let inits = &x[count..2 * count];
            if counts.contains(&0) {
                let results = inits.iter().map(|&init| b.splat(init, &counts));
                return results.collect();
            }
            let mut operands = Vec::with_capacity(2 * count);
            for (&input, &init) in x[..count].iter().zip(inits) {
                operands.push(self.written_out(b, input, init, &counts)?);
            }
            operands.extend(inits);
            let captured = &x[2 * count..];
            let body = b.region(&[&scalars[..], &scalars[..]].concat(), |b, y| {
                Ok(b.inline(&body, &[y, captured].concat()))
            })?;
            b.push(Reduce { axes: vec![0] }, &operands, &[body])
        })?;
        Ok((f, values))
    }

    /// The windowed sum that is the transpose of this one.
    fn transposed_window(&self, input: &[u64], output: &[u64]) -> Vec<WindowAxis> {
        let dilated = |n: u64, by: i64| if n == 0 { 0 } else { (n as i64 - 1) * by + 1 };
        let axis = |((window, &input), &output): ((&WindowAxis, &u64), &u64)| {
            let extent = dilated(window.extent, window.dilation);
            let low = extent - window.low - 1;
            WindowAxis {
                extent: window.extent,
                stride: window.base_dilation,
                base_dilation: window.stride,
                dilation: window.dilation,
                low,
                high: dilated(input, window.base_dilation) + extent
                    - 1
                    - dilated(output, window.stride)
                    - low,
            }
        };
        self.window.iter().zip(input).zip(output).map(axis).collect()
    }

    /// Whether the windows are such as `select_and_scatter` has.
    fn is_plain(&self) -> bool {
        self.window.iter().all(|axis| axis.base_dilation == 1 && axis.dilation == 1)
    }

    fn sum(
        &self,
        b: &mut Builder<'_>,
        operand: ValueId,
        init: ValueId,
    ) -> Result<ValueId, String> {
        let scalar = TensorType::scalar(b.ty(operand).dtype);
        let body = b.region(&[scalar.clone(), scalar], |b, x| Ok(vec![b.add(x[0], x[1])?]))?;
        Ok(b.push(self.clone(), &[operand, init], &[body])?[0])
    }

    /// The cotangent of a sum's operand.
    fn spread(
        &self,
        b: &mut Builder<'_>,
        cotangent: ValueId,
        operand: &TensorType,
    ) -> Result<ValueId, String> {
        let output = b.ty(cotangent);
        if output.is_empty() || operand.is_empty() {
            return b.zeros(operand);
        }
        let back =
            ReduceWindow { window: self.transposed_window(&operand.shape, &output.shape) };
        let zero = b.zeros(&TensorType::scalar(output.dtype))?;
        back.sum(b, cotangent, zero)
    }

    /// The cotangent of a sum's initial value: it counts once, and for each place of a window
    /// without an element.
    fn of_init(
        &self,
        b: &mut Builder<'_>,
        cotangent: ValueId,
        operand: &TensorType,
    ) -> Result<ValueId, String> {
        let axes: Vec<usize> = (0..operand.rank()).collect();
        let zero = b.zeros(&TensorType::scalar(operand.dtype))?;
        let ones = b.full(operand, 1.0)?;
        let elements = self.sum(b, ones, zero)?;
        let places: u64 = self.window.iter().map(|w| w.extent).product();
        let all = b.full_like(cotangent, places as f64 + 1.0)?;
        let times = b.subtract(all, elements)?;
        let product = b.multiply(cotangent, times)?;
        b.sum(product, &axes)
    }
}

/// Whether the body is a maximum or minimum whose initial value is below (above) all others.
fn is_pooling(op: OpView<'_>, n: usize, kind: Kind) -> bool {
    let init = op.operand(op.data().operands.len() / 2 + n);
    matches!(kind, Kind::Maximum | Kind::Minimum)
        && constant(op.function, init).is_some_and(|init| {
            kind.identity(init.ty().dtype).is_some_and(|neutral| neutral == init)
        })
}

impl Rules for ReduceWindow {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let operands = &op.data().operands;
        let count = operands.len() / 2;
        let kinds = kinds(op.function, op.region(0)).unwrap_or_default();
        let running = self.scan(op).is_some();
        let has_tangent = |n: usize| {
            cx.tangent(operands[n]).is_some() || cx.tangent(operands[count + n]).is_some()
        };
        let known = |n: usize| match kinds.get(n) {
            _ if !has_tangent(n) => true,
            Some(Kind::Add) => true,
            Some(&kind) => !running && self.is_plain() && is_pooling(op, n, kind),
            None => false,
        };
        if kinds.is_empty() || !(0..count).all(known) {
            let (f, values) = self.taken_apart(op)?;
            return cx.tangents_as_function(op, &f, &values);
        }
        cx.copy(op);
        for (n, kind) in kinds.into_iter().enumerate() {
            let (operand, init) = (operands[n], operands[count + n]);
            let of_operand = cx.tangent(operand);
            if of_operand.is_none() && cx.tangent(init).is_none() {
                continue;
            }
            let tangent = match (kind, of_operand) {
                (Kind::Maximum | Kind::Minimum, Some(tangent)) => {
                    let x = cx.residual_of(operand);
                    let direction =
                        if kind == Kind::Maximum { Direction::Ge } else { Direction::Le };
                    let choice = |b: &mut Builder<'_>, x, y| b.compare(direction, x, y);
                    chosen(&mut cx.linear(), &self.window, &choice, x, tangent)?
                }
                // A constant has no tangent.
                (Kind::Maximum | Kind::Minimum, None) => continue,
                _ => {
                    let (operand, init) = (cx.tangent_or_zero(operand)?, cx.tangent_or_zero(init)?);
                    self.sum(&mut cx.linear(), operand, init)?
                }
            };
            cx.bind_tangent(op.result(n), tangent);
        }
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let operands = &op.data().operands;
        let count = operands.len() / 2;
        if let Some(choice) = choice_of(op.function, op.region(0)) {
            let others = [operands[0], operands[2], operands[3], operands[4], operands[5]];
            if others.iter().any(|&v| cx.is_linear(v)) || !self.is_plain() {
                return none(op, "transpose", "its body is not linear");
            }
            let Some(cotangent) = cx.cotangent(op.result(1)) else { return Ok(()) };
            let x = cx.value(operands[0]);
            let choice = |b: &mut Builder<'_>, x, y| Ok(b.inline(&choice, &[x, y])[0]);
            let scatter = SelectAndScatter { window: self.window.clone() };
            let mut b = cx.builder();
            let zero = b.zeros(&TensorType::scalar(b.ty(cotangent).dtype))?;
            let sum = scatter.add(&mut b, &choice, [x, cotangent, zero])?;
            return cx.add(operands[1], sum);
        }
        let kinds = kinds(op.function, op.region(0)).unwrap_or_default();
        for n in 0..count {
            let Some(cotangent) = cx.cotangent(op.result(n)) else { continue };
            let (operand, init) = (operands[n], operands[count + n]);
            if !cx.is_linear(operand) && !cx.is_linear(init) {
                continue;
            }
            if kinds.get(n) != Some(&Kind::Add) {
                return none(op, "transpose", "its body is no sum");
            }
            let ty = op.operand_type(n);
            if cx.is_linear(operand) {
                let spread = self.spread(&mut cx.builder(), cotangent, ty)?;
                cx.add(operand, spread)?;
            }
            if cx.is_linear(init) {
                let sum = self.of_init(&mut cx.builder(), cotangent, ty)?;
                cx.add(init, sum)?;
            }
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let operands = &op.data().operands;
        let count = operands.len() / 2;
        let captured = region::captures(op.function, op.id);
        if operands[count..].iter().chain(&captured).any(|&v| cx.is_batched(v)) {
            let (f, values) = self.taken_apart(op)?;
            return cx.as_function(op, &f, &values);
        }
        let mut values = Vec::with_capacity(operands.len());
        for (n, &operand) in operands.iter().enumerate() {
            values.push(if n < count { cx.full(operand)? } else { cx.value(operand) });
        }
        let mut window = self.window.clone();
        window.insert(0, WindowAxis::POINT);
        let body = cx.region(op, op.region(0));
        let results = cx.builder().push(ReduceWindow { window }, &values, &[body])?;
        for (&result, value) in op.data().results.iter().zip(results) {
            cx.bind(result, value, true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check, check_body, function, values};

    fn window(
        b: &mut Builder<'_>,
        window: &[WindowAxis],
        name: &str,
        x: ValueId,
        init: ValueId,
    ) -> Result<ValueId, String> {
        let scalar = TensorType::scalar(b.ty(x).dtype);
        let body =
            b.region(&[scalar.clone(), scalar], |b, x| Ok(vec![b.elementwise(name, x)?]))?;
        let op = ReduceWindow { window: window.to_vec() };
        Ok(b.push(op, &[x, init], &[body])?[0])
    }

    /// With a constant initial value that changes nothing.
    fn checked(axes: &[WindowAxis], name: &str, shape: &[u64]) {
        let kind = match name {
            "stablehlo.add" => Kind::Add,
            "stablehlo.multiply" => Kind::Multiply,
            "stablehlo.maximum" => Kind::Maximum,
            _ => Kind::Minimum,
        };
        check_body(&[values(shape, shape.len() as u64)], |b, x| {
            let init = b.constant(kind.identity(DType::F64).expect("one of them has it"))?;
            Ok(vec![window(b, axes, name, x[0], init)?])
        });
    }

    const POINT: WindowAxis = WindowAxis::POINT;

    #[test]
    fn windows_of_all_kinds() {
        let pair = WindowAxis { extent: 2, ..POINT };
        for name in ["stablehlo.add", "stablehlo.maximum", "stablehlo.minimum"] {
            checked(&[WindowAxis { stride: 2, low: 1, high: 1, ..pair }, pair], name, &[3, 3]);
            checked(&[WindowAxis { extent: 3, stride: 3, ..POINT }, POINT], name, &[5, 2]);
        }
        // Some windows have padding alone.
        let dilated =
            [WindowAxis { dilation: 2, base_dilation: 3, low: 2, high: -1, stride: 2, ..pair }];
        for name in ["stablehlo.add", "stablehlo.maximum", "stablehlo.multiply"] {
            check_body(&[values(&[4], 1)], |b, x| {
                let init = b.full(&TensorType::scalar(DType::F64), -9.0)?;
                Ok(vec![window(b, &dilated, name, x[0], init)?])
            });
        }
    }

    #[test]
    fn running_reductions() {
        for extent in [1, 5] {
            let forward = WindowAxis { extent, low: extent as i64 - 1, ..POINT };
            let back = WindowAxis { extent, high: extent as i64 - 1, ..POINT };
            for name in ["stablehlo.add", "stablehlo.multiply", "stablehlo.maximum"] {
                checked(&[POINT, forward], name, &[2, extent]);
                checked(&[back, POINT], name, &[extent, 2]);
            }
        }
    }

    #[test]
    fn initial_values_that_count() {
        let axes = [WindowAxis { extent: 2, low: 1, ..POINT }];
        for name in ["stablehlo.add", "stablehlo.multiply", "stablehlo.maximum"] {
            check_body(&[values(&[4], 3), values(&[], 2)], |b, x| {
                Ok(vec![window(b, &axes, name, x[0], x[1])?])
            });
        }
    }

    #[test]
    fn pooling_is_a_select_and_scatter() {
        let f = function(&[TensorType::new([4], DType::F64)], |b, x| {
            let init = b.constant(Kind::Maximum.identity(DType::F64).expect("it has one"))?;
            let axes = [WindowAxis { extent: 2, stride: 2, ..POINT }];
            Ok(vec![window(b, &axes, "stablehlo.maximum", x[0], init)?])
        });
        let parts = crate::transform::linearize(&f, &[true]).expect("a derivative");
        let back = crate::transform::transpose(&parts.linear, 1).expect("a transpose");
        let is_scatter = |data: &crate::OpData| matches!(data.op, Op::SelectAndScatter(_));
        assert!(back.ops.values().any(is_scatter), "{}", crate::text::print_function(&back));
        check(&f, &[values(&[4], 2)]);
    }
}
