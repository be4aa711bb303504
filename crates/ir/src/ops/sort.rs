//! `stablehlo.sort`: sorts slices of tensors together by a comparison of their elements.
//!
//! JAX's comparison of one operand is recognised as a key ([`key`]), so that the library need not
//! call a kernel for each comparison.

use super::compare::Order;
use super::reduce::element;
use super::{Op, OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::function::{BlockId, Function, OpData, ValueId};
use crate::interpret::{Frame, ScalarRegion};
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use cranelift_entity::EntityRef;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::program::{self, KernelId, Library, SortOrder};
use jaxrs_kernel::{Compare as Direction, DType};

/// A sort of one or several operands of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Sort {
    /// The axis along which is sorted.
    pub axis: usize,
    /// Whether equal elements keep their order.
    pub stable: bool,
}

/// The order of a comparison of rows by one operand as JAX writes it: of integers `a < b` or
/// `a > b`; of floats the same in total order, after -0 has become +0 and every NaN the same one.
pub fn key(function: &Function, block: BlockId) -> Option<SortOrder> {
    let data = &function.blocks[block];
    let compare = made_by(function, data.yields[0])?;
    let Op::Compare(row) = &compare.op else { return None };
    let descending = match row.direction {
        Direction::Lt => false,
        Direction::Gt => true,
        _ => return None,
    };
    let dtype = function.ty(compare.operands[0]).dtype;
    let (order, expected) = (row.order(dtype), dtype.class());
    let plain = match expected {
        Class::Signed => order == Order::Signed,
        Class::Unsigned | Class::Bool => order == Order::Unsigned,
        Class::Float => order == Order::Total,
        Class::Complex => false,
    };
    if !plain {
        return None;
    }
    let argument = |value: ValueId| {
        let source = if dtype.is_float() { canonical(function, value)? } else { value };
        data.arguments.iter().position(|&a| a == source)
    };
    let (a, b) = (argument(compare.operands[0])?, argument(compare.operands[1])?);
    // The arguments are pairs: one operand's element of the first row, then of the second.
    let (descending, first) = match (a % 2, b % 2) {
        (0, 1) if b == a + 1 => (descending, a),
        (1, 0) if a == b + 1 => (!descending, b),
        _ => return None,
    };
    Some(SortOrder::Key { operand: (first / 2) as u32, descending })
}

/// The value of which `value` is the form with one zero and one NaN:
/// `select(x != x, NaN, select(x == 0, 0, x))`.
fn canonical(function: &Function, value: ValueId) -> Option<ValueId> {
    let (x, is_nan, nan, ordered) = choice(function, value)?;
    let (y, is_zero, zero, plain) = choice(function, ordered)?;
    let nan_test = is_nan.0 == Direction::Ne && is_nan.1 == x;
    let zero_test = is_zero.0 == Direction::Eq && number(function, is_zero.1)? == 0.0;
    let same = x == y && y == plain;
    let constants = number(function, nan)?.is_nan() && is_positive_zero(number(function, zero)?);
    (nan_test && zero_test && same && constants).then_some(x)
}

fn is_positive_zero(value: f64) -> bool {
    value == 0.0 && value.is_sign_positive()
}

/// `select(compare(x, y), then, otherwise)` with an IEEE comparison: x, direction and y, then,
/// otherwise.
type Choice = (ValueId, (Direction, ValueId), ValueId, ValueId);

fn choice(function: &Function, value: ValueId) -> Option<Choice> {
    let select = made_by(function, value)?;
    let Op::Select(_) = &select.op else { return None };
    let compare = made_by(function, select.operands[0])?;
    let Op::Compare(row) = &compare.op else { return None };
    let dtype = function.ty(compare.operands[0]).dtype;
    if row.order(dtype) != Order::Float || !dtype.is_float() {
        return None;
    }
    let test = (row.direction, compare.operands[1]);
    Some((compare.operands[0], test, select.operands[1], select.operands[2]))
}

fn made_by(function: &Function, value: ValueId) -> Option<&OpData> {
    function.defining_op(value).map(|op| &function.ops[op])
}

/// The value of a float constant.
fn number(function: &Function, value: ValueId) -> Option<f64> {
    let literal = super::combiner::constant(function, value)?;
    match literal.ty().dtype {
        DType::BF16 | DType::F16 | DType::F32 => {
            Some(f64::from(f32::from_bits(literal.bits(0, 0) as u32)))
        }
        DType::F64 => Some(f64::from_bits(literal.bits(0, 0))),
        _ => None,
    }
}

impl StructuredOp for Sort {
    const NAMES: &'static [&'static str] = &["stablehlo.sort"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank) as i64;
        let dimension = attributes.take_int("dimension")?.unwrap_or(-1);
        if dimension >= rank || dimension < -rank {
            return Err(format!("sort: dimension {dimension} is out of range for rank {rank}"));
        }
        let axis = if dimension < 0 { dimension + rank } else { dimension } as usize;
        Ok(Sort { axis, stable: attributes.take_bool("is_stable", false)? })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
            .with_int("dimension", self.axis as i64)
            .with("is_stable", crate::Attribute::Bool(self.stable))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let operands = &signature.operands;
        let Some(first) = operands.first() else {
            return Err("sort: there is no operand".into());
        };
        signature.expect("sort", operands.len(), 1)?;
        if self.axis >= first.rank() {
            return Err(format!("sort: dimension {} is out of range for {first}", self.axis));
        }
        for (n, operand) in operands.iter().enumerate() {
            if operand.shape != first.shape {
                return Err(format!(
                    "sort: operand shapes differ: operand 0 is {first}, operand {n} is {operand}"
                ));
            }
        }
        let (arguments, yields) = &signature.regions[0];
        let pairs: Vec<TensorType> =
            operands.iter().flat_map(|t| [(); 2].map(|()| TensorType::scalar(t.dtype))).collect();
        if *arguments != pairs {
            return Err(format!(
                "sort: the comparator takes {arguments:?}, expected two scalars of each operand's \
                 type in turn"
            ));
        }
        if yields[..] != [TensorType::scalar(DType::I1)] {
            return Err(format!("sort: the comparator returns {yields:?}, expected a tensor<i1>"));
        }
        Ok(operands.clone())
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let shape = &operands[0].ty().shape;
        let extent = shape[self.axis] as usize;
        let stride: u64 = shape[self.axis + 1..].iter().product();
        let mut comparator = Comparator {
            region: ScalarRegion::new(frame, op.region(0)),
            operands,
            arguments: Vec::new(),
            yields: Vec::new(),
        };
        // For each result element, the position of the operands' element that it becomes.
        let mut from: Vec<u64> = (0..operands[0].ty().len()).collect();
        for start in 0..from.len() as u64 {
            if extent == 0 || !(start / stride).is_multiple_of(extent as u64) {
                continue;
            }
            let mut row: Vec<u64> = (0..extent as u64).map(|n| start + n * stride).collect();
            merge_sort(&mut row, &mut |a, b| comparator.before(frame, a, b))?;
            for (n, position) in row.into_iter().enumerate() {
                from[start as usize + n * stride as usize] = position;
            }
        }
        let sorted = |literal: &Literal| {
            let pick = |&at: &u64| element(std::slice::from_ref(literal), at);
            let bits: Vec<u64> = from.iter().flat_map(pick).collect();
            Literal::from_bits(literal.ty().clone(), &bits)
        };
        Ok(operands.iter().map(sorted).collect())
    }

    /// A sort by a kernel names no kernel yet: whoever builds the program makes it from the region.
    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let shape = &op.operand_type(0).shape;
        let order = key(op.function, op.region(0));
        Lowering::Library(Library::Sort(program::Sort {
            extents: [
                shape[..self.axis].iter().product(),
                shape[self.axis],
                shape[self.axis + 1..].iter().product(),
            ],
            dtypes: op.data().operands.iter().map(|&v| op.function.ty(v).dtype).collect(),
            stable: self.stable,
            order: order.unwrap_or(SortOrder::Kernel(KernelId::new(0))),
        }))
    }
}

struct Comparator<'a> {
    region: ScalarRegion,
    operands: &'a [Literal],
    arguments: Vec<u64>,
    yields: Vec<u64>,
}

impl Comparator<'_> {
    /// Whether the row at position `a` stands before the one at `b`.
    fn before(&mut self, frame: &mut Frame<'_>, a: u64, b: u64) -> Result<bool, String> {
        self.arguments.clear();
        for operand in self.operands {
            for position in [a, b] {
                let parts = 0..operand.ty().dtype.parts();
                self.arguments.extend(parts.map(|part| operand.bits(position, part)));
            }
        }
        self.yields.clear();
        self.region.run(frame, &self.arguments, &mut self.yields)?;
        Ok(self.yields[0] != 0)
    }
}

/// Sorts, keeping the order of equal items. The standard library's sort may panic on a comparison
/// that is no order; here any comparison gives some permutation.
fn merge_sort(
    items: &mut [u64],
    before: &mut dyn FnMut(u64, u64) -> Result<bool, String>,
) -> Result<(), String> {
    if items.len() < 2 {
        return Ok(());
    }
    let (left, right) = items.split_at_mut(items.len() / 2);
    merge_sort(left, before)?;
    merge_sort(right, before)?;
    let (mut l, mut r) = (0, 0);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while l < left.len() && r < right.len() {
        if before(right[r], left[l])? {
            merged.push(right[r]);
            r += 1;
        } else {
            merged.push(left[l]);
            l += 1;
        }
    }
    merged.extend_from_slice(&left[l..]);
    merged.extend_from_slice(&right[r..]);
    items.copy_from_slice(&merged);
    Ok(())
}

impl Rules for Sort {
    /// Sorts the positions along with the operands; by them the tangents are taken.
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let mut operands = cx.values(&op.data().operands);
        let region = cx.region(op, op.region(0));
        let mut b = cx.primal();
        let large = op.operand_type(0).shape[self.axis] > i32::MAX as u64;
        let ty = op.operand_type(0).with_dtype(if large { DType::I64 } else { DType::I32 });
        operands.push(b.iota(&ty, self.axis)?);
        for _ in 0..2 {
            b.function.add_argument(region, TensorType::scalar(ty.dtype));
        }
        let mut results = b.push(self.clone(), &operands, &[region])?;
        let positions = results.pop().expect("a result for each operand");
        for (&result, value) in op.data().results.iter().zip(results) {
            cx.bind(result, value, None);
        }
        for (&operand, &result) in op.data().operands.iter().zip(&op.data().results) {
            let Some(tangent) = cx.tangent(operand) else { continue };
            let positions = cx.residual(positions);
            let tangent = cx.linear().take_along(tangent, positions, self.axis)?;
            cx.bind_tangent(result, tangent);
        }
        Ok(())
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it is not linear")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.with(op, Sort { axis: self.axis + 1, stable: self.stable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, ints, values};
    use crate::interpret;
    use crate::testing::{only_op, program, small, tensor};

    fn sort(shape: &str, axis: i64, dtype: &str, order: &str) -> String {
        let extents = shape;
        format!(
            "(%x: tensor<{extents}{dtype}>, %y: tensor<{extents}i32>)
                -> (tensor<{extents}{dtype}>, tensor<{extents}i32>) {{
              %0:2 = \"stablehlo.sort\"(%x, %y) <{{dimension = {axis} : i64, is_stable = true}}> ({{
              ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>, %c: tensor<i32>, %d: tensor<i32>):
                {order}
              }}) : (tensor<{extents}{dtype}>, tensor<{extents}i32>)
                -> (tensor<{extents}{dtype}>, tensor<{extents}i32>)
              return %0#0, %0#1 : tensor<{extents}{dtype}>, tensor<{extents}i32>
            }}"
        )
    }

    fn plain(dtype: &str, direction: &str, order: &str, operands: &str) -> String {
        format!(
            "%1 = stablehlo.compare {direction}, {operands}, {order}
               : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
             stablehlo.return %1 : tensor<i1>"
        )
    }

    /// JAX's form of a float to be compared.
    fn canonical(dtype: &str, nan: &str, from: &str, to: &str) -> String {
        format!(
            "%z{to} = stablehlo.constant dense<0.0> : tensor<{dtype}>
             %e{to} = stablehlo.compare EQ, %{from}, %z{to}, FLOAT
               : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
             %s{to} = stablehlo.select %e{to}, %z{to}, %{from} : tensor<i1>, tensor<{dtype}>
             %n{to} = stablehlo.compare NE, %{from}, %{from}, FLOAT
               : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
             %q{to} = stablehlo.constant dense<{nan}> : tensor<{dtype}>
             %{to} = stablehlo.select %n{to}, %q{to}, %s{to} : tensor<i1>, tensor<{dtype}>\n"
        )
    }

    fn key_of(text: &str) -> Option<SortOrder> {
        let function = program(text);
        key(&function, only_op(&function).region(0))
    }

    #[test]
    fn jax_comparisons_are_keys() {
        let of = |descending| Some(SortOrder::Key { operand: 0, descending });
        let ints = |direction, operands| plain("i8", direction, "SIGNED", operands);
        assert_eq!(key_of(&sort("3x", 0, "i8", &ints("LT", "%a, %b"))), of(false));
        assert_eq!(key_of(&sort("3x", 0, "i8", &ints("GT", "%a, %b"))), of(true));
        assert_eq!(key_of(&sort("3x", 0, "i8", &ints("LT", "%b, %a"))), of(true));
        assert_eq!(key_of(&sort("3x", 0, "i8", &ints("LE", "%a, %b"))), None);
        assert_eq!(key_of(&sort("3x", 0, "i8", &ints("LT", "%a, %a"))), None);
        let second = plain("i32", "LT", "SIGNED", "%c, %d");
        let operand_1 = Some(SortOrder::Key { operand: 1, descending: false });
        assert_eq!(key_of(&sort("3x", 0, "i8", &second)), operand_1);
        for (dtype, nan) in [("f32", "0x7FC00000"), ("bf16", "0x7FC0"), ("f64", "0x7FF8000000000000")] {
            let both = canonical(dtype, nan, "a", "p") + &canonical(dtype, nan, "b", "q");
            let total = plain(dtype, "LT", "TOTALORDER", "%p, %q");
            assert_eq!(key_of(&sort("3x", 0, dtype, &(both.clone() + &total))), of(false));
            let float = plain(dtype, "LT", "FLOAT", "%p, %q");
            assert_eq!(key_of(&sort("3x", 0, dtype, &(both.clone() + &float))), None);
            let one = canonical(dtype, nan, "a", "p") + &plain(dtype, "LT", "TOTALORDER", "%p, %b");
            assert_eq!(key_of(&sort("3x", 0, dtype, &one)), None);
        }
    }

    #[test]
    fn rows_move_together_and_equal_ones_keep_their_order() {
        let text = sort("2x3x", 1, "f32", &plain("f32", "LT", "FLOAT", "%a, %b"));
        let x = tensor(DType::F32, &[2, 3], &[3., 1., 1., 0., -1., f64::INFINITY]);
        let y = tensor(DType::I32, &[2, 3], &[0., 1., 2., 3., 4., 5.]);
        let got = interpret::call(None, &program(&text), &[x, y]).expect("it sorts");
        let values = [1., 1., 3., -1., 0., f64::INFINITY];
        assert_eq!(got[0], tensor(DType::F32, &[2, 3], &values));
        assert_eq!(got[1], tensor(DType::I32, &[2, 3], &[1., 2., 0., 4., 3., 5.]));
    }

    #[test]
    fn any_axis_and_any_comparison_gives_a_permutation() {
        for (shape, axis) in [("4x3x2x", 0), ("4x3x2x", -2), ("5x", -1), ("0x2x", 0), ("2x0x", 1)] {
            // LE is no order; the order of the result is open, but nothing may be lost.
            for direction in ["LT", "LE", "GT", "NE"] {
                let text = sort(shape, axis, "i8", &plain("i8", direction, "SIGNED", "%a, %b"));
                let function = program(&text);
                let ty = function.ty(function.parameters()[0]).clone();
                let operands = [small(DType::I8, &ty.shape, 5), small(DType::I32, &ty.shape, 6)];
                let got = interpret::call(None, &function, &operands).expect("it sorts");
                let sorted = |l: &Literal| {
                    let mut all: Vec<i64> = (0..l.ty().len()).map(|at| l.int(at)).collect();
                    all.sort_unstable();
                    all
                };
                assert_eq!(sorted(&got[0]), sorted(&operands[0]), "{text}");
            }
        }
    }

    #[test]
    fn rules() {
        for (shape, axis) in [(&[5][..], 0), (&[2, 3], 0), (&[3, 2], 1), (&[2, 0], 0)] {
            let len = shape.iter().product::<u64>() as i64;
            let keys = ints(shape, &(0..len).map(|n| n * n % 3).collect::<Vec<i64>>());
            let inputs = [values(shape, 1), keys, values(shape, 2)];
            for key in 0..2 {
                check_body(&inputs, |b, x| {
                    let types = b.types(x);
                    let arguments: Vec<TensorType> =
                        types.iter().flat_map(|ty| vec![TensorType::scalar(ty.dtype); 2]).collect();
                    let region = b.region(&arguments, |b, x| {
                        Ok(vec![b.compare(Direction::Lt, x[2 * key], x[2 * key + 1])?])
                    })?;
                    b.push(Sort { axis, stable: true }, x, &[region])
                });
            }
        }
    }
}
