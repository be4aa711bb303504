//! Reductions that find where the largest or least element of a row stands, as JAX writes `argmax`
//! and `argmin`: [`Extreme::of`] recognises them, [`Extreme::emit`] computes them in two loops of one
//! instruction each, which vectors can do: first the value, then the least position that has it.
//! Of zeros of both signs that are largest (or least) together, the value is the one that is so in
//! total order.

use super::combiner::{Combiner, constant};
use super::{Op, OpView};
use crate::function::{BlockId, Function, ValueId};
use crate::lower::{ElementCost, Emitter, Lowering, Scalar};
use crate::ops::compare::Order;
use jaxrs_kernel::builder::{self, Build, LoopOptions};
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::{
    Affine, BinaryOp, Compare as Direction, CompareKind, DType, KernelBuilder, Reg, RegType,
};

/// Rows shorter than this are better taken side by side, element by element.
const SHORT: u64 = 32;

/// Ops deep that an element may be computed again.
const DEEP: u32 = 8;

/// A search for the largest or least element of a row and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extreme {
    /// Whether the largest is searched.
    largest: bool,
}

impl Extreme {
    /// The search that a reduction of two operands along one axis is: the first operand's
    /// extreme, the first NaN before all others, with the least of the second operand's elements
    /// beside it, which are the positions.
    pub fn of(op: OpView<'_>, axes: &[usize]) -> Option<Extreme> {
        let ([axis], [_, positions, value, position]) = (axes, &op.data().operands[..]) else {
            return None;
        };
        let shape = &op.operand_type(0).shape;
        let iota = op.function.defining_op(*positions).map(|id| &op.function.ops[id].op);
        let along = matches!(iota, Some(Op::Iota(iota)) if iota.axis == *axis);
        let start = constant(op.function, *value)?;
        constant(op.function, *position)?;
        let bits = start.bits(0, 0);
        let nan = match start.ty().dtype {
            DType::F64 => f64::from_bits(bits).is_nan(),
            dtype => dtype.is_float() && f32::from_bits(bits as u32).is_nan(),
        };
        let long = axis + 1 == shape.len() && shape[*axis] >= SHORT;
        if !long || !along || nan || op.operand_type(1).dtype == DType::I1 {
            return None;
        }
        by_order(op.function, op.region(0))
    }

    /// Whether the operand's elements may be computed twice.
    pub fn is_cheap(e: &Emitter<'_>, value: ValueId) -> bool {
        is_cheap(e, value, DEEP)
    }

    /// The value and its position, from the initial ones, over an axis of the operands.
    pub fn emit(
        self,
        e: &mut Emitter<'_>,
        op: OpView<'_>,
        (axis, at): (usize, &mut [Affine]),
        inits: &[Scalar],
    ) -> Vec<Scalar> {
        let (ty, index) = (op.operand_type(0), op.operand_type(1).dtype);
        let extent = ty.shape[axis] as i64;
        let options = LoopOptions { ranged: false, split: true };
        let by = extreme(ty.dtype, self.largest);
        let carry = [(inits[0].real(), Some(by))];
        let value =
            builder::reduce(e, extent, options, LoopKind::Reduce, &carry, |e, var, best| {
                at[axis] = var.clone();
                let element = e.read(op.operand(0), at).real();
                vec![e.builder().binary(by, best[0], element)]
            })[0];
        let largest = largest(index);
        let least = extreme(index, false);
        let b = e.builder();
        let none = b.constant(index.reg(), largest);
        let here = is_there(b, ty.dtype, inits[0].real(), value);
        let start = b.select(here, inits[1].real(), none);
        let carry = [(start, Some(least))];
        let position =
            builder::reduce(e, extent, options, LoopKind::Reduce, &carry, |e, var, best| {
                at[axis] = var.clone();
                let element = e.read(op.operand(0), at).real();
                let position = e.read(op.operand(1), at).real();
                let b = e.builder();
                let here = is_there(b, ty.dtype, element, value);
                let position = b.select(here, position, none);
                vec![b.binary(least, best[0], position)]
            })[0];
        vec![Scalar::Real(value), Scalar::Real(position)]
    }
}

/// Whether an element is the extreme one: equal, or a NaN as it is.
fn is_there(b: &mut KernelBuilder, dtype: DType, element: Reg, value: Reg) -> Reg {
    if !dtype.is_float() {
        return b.compare(Direction::Eq, CompareKind::Unsigned, element, value);
    }
    let equal = b.compare(Direction::Eq, CompareKind::Float, element, value);
    let no_number = b.compare(Direction::Ne, CompareKind::Float, value, value);
    let this = b.compare(Direction::Ne, CompareKind::Float, element, element);
    let both = b.binary(BinaryOp::And, no_number, this);
    b.binary(BinaryOp::Or, equal, both)
}

/// The instruction for the extreme of two.
fn extreme(dtype: DType, largest: bool) -> BinaryOp {
    match (dtype.class(), largest) {
        (Class::Float, true) => BinaryOp::MaxF,
        (Class::Float, false) => BinaryOp::MinF,
        (Class::Signed, true) => BinaryOp::MaxS,
        (Class::Signed, false) => BinaryOp::MinS,
        (_, true) => BinaryOp::MaxU,
        (_, false) => BinaryOp::MinU,
    }
}

/// The largest integer of a type, by its bits.
fn largest(dtype: DType) -> u64 {
    let ones = u64::MAX >> (64 - dtype.bits());
    if dtype.class() == Class::Signed { ones >> 1 } else { ones }
}

fn is_cheap(e: &Emitter<'_>, value: ValueId, deep: u32) -> bool {
    if e.is_loaded(value) {
        return true;
    }
    let Some(op) = e.function.defining_op(value).filter(|_| deep > 0) else { return false };
    let cheap = match crate::ops::lower(e.function, op) {
        Lowering::Elements { cost, .. } => cost <= ElementCost::Cheap,
        Lowering::View => true,
        Lowering::Loops { .. } | Lowering::Library(_) | Lowering::Control => false,
    };
    cheap && e.function.ops[op].operands.iter().all(|&v| is_cheap(e, v, deep - 1))
}

/// The search that a body makes. It may only compare the values with each other and the positions
/// with each other, so that it is known by what it does for each order of the two.
pub(super) fn by_order(function: &Function, block: BlockId) -> Option<Extreme> {
    let data = &function.blocks[block];
    let [value, position, ..] = data.arguments[..] else { return None };
    let (dtype, index) = (function.ty(value).dtype, function.ty(position).dtype);
    let orders = (dtype.is_float() || dtype.is_int()) && index.is_int();
    if !orders || !data.ops.iter().all(|&op| only_compares(function, block, op)) {
        return None;
    }
    let combiner = Combiner::new(function, block);
    let number = |value: f64| match dtype {
        DType::F64 => value.to_bits(),
        _ if dtype.is_float() => u64::from((value as f32).to_bits()),
        _ => value as u64,
    };
    let mut values = vec![number(0.0), number(1.0)];
    if dtype.is_float() {
        values.push(number(f64::NAN));
    }
    let mut e = Emitter::new(function, "orders");
    let mut fits = [true; 2];
    for (n, &old) in values.iter().enumerate() {
        for (m, &new) in values.iter().enumerate() {
            for (i, j) in [(0, 0), (0, 1), (1, 0)] {
                let scalar =
                    |e: &mut Emitter<'_>, ty: RegType, bits| e.builder().constant(ty, bits);
                let old = [scalar(&mut e, dtype.reg(), old), scalar(&mut e, index.reg(), i)];
                let new = [scalar(&mut e, dtype.reg(), new), scalar(&mut e, index.reg(), j)];
                let got = combiner.emit(&mut e, &old, &new.map(Scalar::Real));
                for (fits, largest) in fits.iter_mut().zip([false, true]) {
                    // The values are 0, 1, NaN.
                    let keeps = n == 2 || (m != 2 && if largest { n > m } else { n < m });
                    let value = if keeps { old[0] } else { new[0] };
                    let position = if keeps || (n == m && i < j) { old[1] } else { new[1] };
                    *fits &= got == [value, position];
                }
            }
        }
    }
    match fits {
        [true, false] => Some(Extreme { largest: false }),
        [false, true] => Some(Extreme { largest: true }),
        _ => None,
    }
}

/// Whether an op of a body compares two values or two positions, or chooses by such comparisons.
fn only_compares(function: &Function, block: BlockId, op: crate::OpId) -> bool {
    let arguments = &function.blocks[block].arguments;
    let data = &function.ops[op];
    let inside = |v: &ValueId| {
        arguments.contains(v)
            || function
                .defining_op(*v)
                .is_some_and(|made| function.blocks[block].ops.contains(&made))
    };
    match &data.op {
        Op::Compare(row) => {
            let place = |v: &ValueId| arguments.iter().position(|a| a == v).map(|at| at % 2);
            let [Some(a), Some(b)] = [0, 1].map(|n| place(&data.operands[n])) else { return false };
            a == b && row.order(function.ty(data.operands[0]).dtype) != Order::Total
        }
        Op::Select(_) => data.operands.iter().all(inside),
        Op::Elementwise(row) => {
            let logic = ["stablehlo.and", "stablehlo.or", "stablehlo.xor", "stablehlo.not"];
            let truth = function.ty(data.results[0]).dtype == DType::I1;
            truth && logic.contains(&row.name()) && data.operands.iter().all(inside)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_function, only_op, program, tensor};

    fn search(dtype: &str, direction: &str, rows: &str, len: u64) -> String {
        let init = match (dtype, direction) {
            ("i32", "GT") => "-2147483648",
            ("i32", _) => "2147483647",
            (_, "GT") => "0xFF800000",
            _ => "0x7F800000",
        };
        let order = if dtype == "i32" { "SIGNED" } else { "FLOAT" };
        let (x, out) = (format!("{rows}{len}x"), rows);
        format!(
            "(%x: tensor<{x}{dtype}>) -> (tensor<{out}{dtype}>, tensor<{out}i32>) {{
              %v = stablehlo.constant dense<{init}> : tensor<{dtype}>
              %p = stablehlo.constant dense<0> : tensor<i32>
              %n = stablehlo.iota dim = {axis} : tensor<{x}i32>
              %0:2 = \"stablehlo.reduce\"(%x, %n, %v, %p) <{{dimensions = array<i64: {axis}>}}> ({{
              ^bb0(%a: tensor<{dtype}>, %b: tensor<i32>, %c: tensor<{dtype}>, %d: tensor<i32>):
                %2 = stablehlo.compare {direction}, %a, %c, {order}
                  : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
                %3 = stablehlo.compare NE, %a, %a, {order}
                  : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
                %4 = stablehlo.or %2, %3 : tensor<i1>
                %5 = stablehlo.compare EQ, %a, %c, {order}
                  : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
                %6 = stablehlo.compare LT, %b, %d, SIGNED
                  : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %7 = stablehlo.and %5, %6 : tensor<i1>
                %8 = stablehlo.or %4, %7 : tensor<i1>
                %9 = stablehlo.select %4, %a, %c : tensor<i1>, tensor<{dtype}>
                %10 = stablehlo.select %8, %b, %d : tensor<i1>, tensor<i32>
                stablehlo.return %9, %10 : tensor<{dtype}>, tensor<i32>
              }}) : (tensor<{x}{dtype}>, tensor<{x}i32>, tensor<{dtype}>, tensor<i32>)
                -> (tensor<{out}{dtype}>, tensor<{out}i32>)
              return %0#0, %0#1 : tensor<{out}{dtype}>, tensor<{out}i32>
            }}",
            axis = u32::from(!rows.is_empty())
        )
    }

    fn found(function: &Function) -> Option<Extreme> {
        Extreme::of(only_op(function), &[only_op(function).operand_type(0).rank() - 1])
    }

    #[test]
    fn searches_are_recognised_and_agree() {
        let numbers = |n: u64| ((n * 7919 + 13) % 23) as f64 - 11.0;
        for (dtype, name) in [(DType::F32, "f32"), (DType::I32, "i32")] {
            for (direction, largest) in [("GT", true), ("LT", false)] {
                for (rows, shape) in [("", vec![40]), ("3x", vec![3, 40])] {
                    let function = program(&search(name, direction, rows, 40));
                    assert_eq!(found(&function), Some(Extreme { largest }));
                    let len: u64 = shape.iter().product();
                    let values: Vec<f64> = (0..len).map(numbers).collect();
                    check_function(&function, &[tensor(dtype, &shape, &values)], 0.0);
                }
            }
        }
        // Rows that are short are not searched in two loops.
        assert_eq!(found(&program(&search("f32", "GT", "3x", 8))), None);
        // Neither is a body that is another one.
        assert_eq!(found(&program(&search("f32", "GE", "3x", 40))), None);
    }

    #[test]
    fn the_first_nan_is_found_and_infinities_count() {
        let function = program(&search("f32", "GT", "", 40));
        let mut values = vec![1.0; 40];
        values[7] = f64::NAN;
        values[9] = f64::NAN;
        let got = check_function(&function, &[tensor(DType::F32, &[40], &values)], 0.0);
        assert_eq!(got[1], tensor(DType::I32, &[], &[7.0]));
        let low = tensor(DType::F32, &[40], &[f64::NEG_INFINITY; 40]);
        assert_eq!(check_function(&function, &[low], 0.0)[1], tensor(DType::I32, &[], &[0.0]));
    }
}
