//! `stablehlo.reduce`: combines the elements along axes with a region.
//!
//! The interpreter starts with the initial value and takes elements in row-major order. Kernels may
//! reassociate where the body is one instruction (see [`super::combiner`]).

mod rules;

use super::extreme::Extreme;
use super::combiner::{Combiner, check_body, check_operands, pack};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::{Frame, Walk};
use crate::literal::Literal;
use crate::lower::{ElementCost, Emitter, Lowering, Scalar};
use crate::types::TensorType;
use jaxrs_kernel::builder::{self, LoopOptions};
use jaxrs_kernel::{Affine, Reg};

/// A reduction of one or several operands of one shape, each with an initial value.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The axes that go away, ascending.
    pub axes: Vec<usize>,
}

impl Reduce {
    /// The shape without the reduced axes.
    pub fn kept(&self, shape: &[u64]) -> Vec<u64> {
        let kept = |axis: &usize| !self.axes.contains(axis);
        (0..shape.len()).filter(kept).map(|axis| shape[axis]).collect()
    }

    /// Loops over the reduced axes from `depth` on.
    fn nest(
        &self,
        e: &mut Emitter<'_>,
        op: OpView<'_>,
        combiner: &Combiner,
        at: &mut Vec<Affine>,
        depth: usize,
        values: &[Reg],
    ) -> Vec<Reg> {
        let Some(&axis) = self.axes.get(depth) else {
            let operands = op.data().operands.len() / 2;
            let elements: Vec<Scalar> =
                (0..operands).map(|n| e.read(op.operand(n), at)).collect();
            return combiner.emit(e, values, &elements);
        };
        let extent = op.operand_type(0).shape[axis] as i64;
        let options = LoopOptions { ranged: false, split: true };
        let carries = combiner.carries(values);
        builder::reduce(e, extent, options, combiner.kind(), &carries, |e, var, values| {
            at[axis] = var.clone();
            self.nest(e, op, combiner, at, depth + 1, values)
        })
    }
}

impl StructuredOp for Reduce {
    const NAMES: &'static [&'static str] = &["stablehlo.reduce"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        let mut axes = axes(&attributes.need_ints("dimensions")?, rank, "reduce: dimensions")?;
        axes.sort_unstable();
        Ok(Reduce { axes })
    }

    fn attributes(&self) -> Attributes {
        let dims: Vec<i64> = self.axes.iter().map(|&a| a as i64).collect();
        Attributes::new().with_ints("dimensions", &dims)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let (inputs, dtypes) = check_operands("reduce", &signature.operands)?;
        signature.expect("reduce", signature.operands.len(), 1)?;
        for (position, &axis) in self.axes.iter().enumerate() {
            if axis >= inputs[0].rank() {
                return Err(format!("reduce: axis {axis} is out of range for {}", inputs[0]));
            }
            if self.axes[..position].contains(&axis) {
                return Err(format!("reduce: axis {axis} is named twice"));
            }
        }
        check_body("reduce", &signature.regions[0], &dtypes)?;
        let kept = self.kept(&inputs[0].shape);
        Ok(dtypes.into_iter().map(|dtype| TensorType::new(kept.clone(), dtype)).collect())
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (inputs, inits) = operands.split_at(operands.len() / 2);
        let shape = &inputs[0].ty().shape;
        let combiner = Combiner::new(op.function, op.region(0));
        let mut folder = combiner.folder(frame);

        let init = element(inits, 0);
        let mut values = init.repeat(op.result_type(0).len() as usize);
        let mut strides = vec![0; shape.len()];
        let mut stride = init.len() as i64;
        for axis in (0..shape.len()).rev().filter(|axis| !self.axes.contains(axis)) {
            strides[axis] = stride;
            stride *= shape[axis] as i64;
        }
        if !shape.contains(&0) {
            let mut walk = Walk::new(shape, vec![(0, strides)]);
            for position in 0.. {
                let at = walk.at(0) as usize;
                let elements = element(inputs, position);
                folder.step(frame, &mut values[at..at + init.len()], &elements)?;
                if !walk.advance() {
                    break;
                }
            }
        }
        for values in values.chunks_exact_mut(init.len()) {
            folder.finish(values);
        }
        Ok(unzip(op, &values))
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let operands = op.data().operands.len() / 2;
        let shape = &op.operand_type(0).shape;
        let extents = self.axes.iter().map(|&a| shape[a]);
        Lowering::Elements {
            cost: ElementCost::Loop(extents.fold(1, u64::saturating_mul)),
            element: Box::new(move |e, number, index| {
                if let Some(known) = e.known(op.result(number), index) {
                    return known;
                }
                let mut kept = index.iter().cloned();
                let mut at: Vec<Affine> = (0..shape.len())
                    .map(|axis| {
                        if self.axes.contains(&axis) {
                            Affine::constant(0)
                        } else {
                            kept.next().expect("an index of the kept axes")
                        }
                    })
                    .collect();
                let inits: Vec<Scalar> =
                    (0..operands).map(|n| e.read(op.operand(operands + n), &[])).collect();
                let search = Extreme::of(op, &self.axes);
                if let Some(search) = search.filter(|_| Extreme::is_cheap(e, op.operand(0))) {
                    let found = search.emit(e, op, (self.axes[0], &mut at), &inits);
                    for (n, &scalar) in found.iter().enumerate() {
                        e.remember(op.result(n), index, scalar);
                    }
                    return found[number];
                }
                let combiner = Combiner::new(op.function, op.region(0));
                let mut values = pack(&inits);
                // Without elements no loop may be left around nothing.
                if self.axes.iter().all(|&axis| shape[axis] > 0) {
                    values = self.nest(e, op, &combiner, &mut at, 0, &values);
                }
                let scalars = combiner.finish(builder::Build::builder(e), &values);
                for (n, &scalar) in scalars.iter().enumerate() {
                    e.remember(op.result(n), index, scalar);
                }
                scalars[number]
            }),
        }
    }
}

/// The bits of the elements of several tensors at one position, part by part.
pub(super) fn element(literals: &[Literal], position: u64) -> Vec<u64> {
    let parts = |l: &Literal| l.ty().dtype.parts();
    literals.iter().flat_map(|l| (0..parts(l)).map(move |p| l.bits(position, p))).collect()
}

/// The results from their elements' bits, interleaved as [`element`] gives them.
pub(super) fn unzip(op: OpView<'_>, values: &[u64]) -> Vec<Literal> {
    let results = op.data().results.len();
    let types: Vec<&TensorType> = (0..results).map(|n| op.result_type(n)).collect();
    let width: usize = types.iter().map(|t| t.dtype.parts() as usize).sum();
    let mut first = 0;
    let pick = |ty: &&TensorType| {
        let parts = ty.dtype.parts() as usize;
        let bits: Vec<u64> = values
            .chunks_exact(width)
            .flat_map(|row| row[first..first + parts].iter().copied())
            .collect();
        first += parts;
        Literal::from_bits((*ty).clone(), &bits)
    };
    types.iter().map(pick).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_function, check_program, program, small, tensor};
    use jaxrs_kernel::DType;

    /// A reduction of `x` by one op.
    fn by(op: &str, shape: &str, dtype: &str, axes: &str, result: &str) -> String {
        format!(
            "(%x: tensor<{shape}{dtype}>, %i: tensor<{dtype}>) -> tensor<{result}{dtype}> {{
              %0 = stablehlo.reduce(%x init: %i) applies stablehlo.{op} across dimensions = {axes}
                : (tensor<{shape}{dtype}>, tensor<{dtype}>) -> tensor<{result}{dtype}>
              return %0 : tensor<{result}{dtype}>
            }}"
        )
    }

    #[test]
    fn kernels_agree_for_every_op_and_shape() {
        let shapes = [
            ("3x4x5x", "[0]", "4x5x"),
            ("3x4x5x", "[2, 0]", "4x"),
            ("3x4x5x", "[0, 1, 2]", ""),
            ("3x4x5x", "[1]", "3x5x"),
            ("3x1x5x", "[1]", "3x5x"),
            ("3x0x5x", "[1]", "3x5x"),
            ("3x0x5x", "[0, 1]", "5x"),
            ("0x3x", "[1]", "0x"),
            ("4x", "[]", "4x"),
            ("", "[]", ""),
        ];
        for (n, (shape, axes, result)) in shapes.into_iter().enumerate() {
            for dtype in ["f32", "f64", "bf16", "f16", "i32", "ui8", "i64", "complex<f32>"] {
                check_program(&by("add", shape, dtype, axes, result), n as u64);
            }
            for op in ["maximum", "minimum", "multiply"] {
                check_program(&by(op, shape, "f32", axes, result), n as u64);
                check_program(&by(op, shape, "i16", axes, result), n as u64);
                check_program(&by(op, shape, "ui32", axes, result), n as u64);
                check_program(&by(op, shape, "i1", axes, result), n as u64);
            }
            for op in ["and", "or", "xor"] {
                check_program(&by(op, shape, "i1", axes, result), n as u64);
                check_program(&by(op, shape, "i8", axes, result), n as u64);
            }
            check_program(&by("multiply", shape, "complex<f64>", axes, result), n as u64);
        }
    }

    #[test]
    fn an_initial_value_counts_once() {
        let function = program(&by("add", "2x3x", "f32", "[1]", "2x"));
        let x = tensor(DType::F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let sum = check_function(&function, &[x, tensor(DType::F32, &[], &[10.0])], 0.0);
        assert_eq!(sum, [tensor(DType::F32, &[2], &[16.0, 25.0])]);
    }

    #[test]
    fn narrow_sums_are_rounded_once() {
        let function = program(&by("add", "300x", "bf16", "[0]", ""));
        let x = tensor(DType::BF16, &[300], &[1.0; 300]);
        let sum = check_function(&function, &[x, tensor(DType::BF16, &[], &[0.0])], 0.0);
        // In steps of bf16 the sum would stay at 256.
        assert_eq!(sum, [tensor(DType::BF16, &[], &[300.0])]);
    }

    #[test]
    fn several_operands_and_any_body() {
        let text = "(%x: tensor<4x6xf32>, %n: tensor<4x6xi32>, %i: tensor<f32>, %j: tensor<i32>)
              -> (tensor<4xf32>, tensor<4xi32>) {
          %0:2 = stablehlo.reduce(%x init: %i), (%n init: %j) across dimensions = [1]
            : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>)
            -> (tensor<4xf32>, tensor<4xi32>)
           reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>) {
            %2 = stablehlo.compare GT, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %3 = stablehlo.compare EQ, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %4 = stablehlo.compare LT, %b, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %5 = stablehlo.and %3, %4 : tensor<i1>
            %6 = stablehlo.or %2, %5 : tensor<i1>
            %7 = stablehlo.select %2, %a, %c : tensor<i1>, tensor<f32>
            %8 = stablehlo.select %6, %b, %d : tensor<i1>, tensor<i32>
            stablehlo.return %7, %8 : tensor<f32>, tensor<i32>
          }
          return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
        }";
        let function = program(text);
        let x = tensor(DType::F32, &[4, 6], &[3.0, 1., 4., 1., 5., 9.].repeat(4));
        let n = tensor(DType::I32, &[4, 6], &[0., 1., 2., 3., 4., 5.].repeat(4));
        let low = tensor(DType::F32, &[], &[f64::NEG_INFINITY]);
        let zero = tensor(DType::I32, &[], &[0.0]);
        let best = check_function(&function, &[x, n, low, zero], 0.0);
        assert_eq!(best[0], tensor(DType::F32, &[4], &[9.0; 4]));
        assert_eq!(best[1], tensor(DType::I32, &[4], &[5.0; 4]));
        check_program(text, 7);
    }

    #[test]
    fn one_body_may_name_an_instruction_for_each_operand() {
        let text = "(%x: tensor<5x3xf32>, %y: tensor<5x3xi8>, %i: tensor<f32>, %j: tensor<i8>)
              -> (tensor<3xf32>, tensor<3xi8>) {
          %0:2 = \"stablehlo.reduce\"(%x, %y, %i, %j) <{dimensions = array<i64: 0>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<i8>, %c: tensor<f32>, %d: tensor<i8>):
            %1 = stablehlo.add %c, %a : tensor<f32>
            %2 = stablehlo.maximum %b, %d : tensor<i8>
            stablehlo.return %1, %2 : tensor<f32>, tensor<i8>
          }) : (tensor<5x3xf32>, tensor<5x3xi8>, tensor<f32>, tensor<i8>)
            -> (tensor<3xf32>, tensor<3xi8>)
          return %0#0, %0#1 : tensor<3xf32>, tensor<3xi8>
        }";
        let function = program(text);
        let block = function.ops.values().find_map(|op| op.regions.first()).expect("a region");
        let ops = super::super::combiner::combiners(&function, *block);
        assert_eq!(ops, Some(vec![jaxrs_kernel::BinaryOp::Add, jaxrs_kernel::BinaryOp::MaxS]));
        check_program(text, 3);
    }

    #[test]
    fn large_reductions_are_interpreted_quickly() {
        let function = program(&by("add", "100000x", "i64", "[0]", ""));
        let operands = [small(DType::I64, &[100_000], 1), small(DType::I64, &[], 2)];
        check_function(&function, &operands, 0.0);
    }
}
