//! `stablehlo.scatter`: combines updates into windows of tensors with a region.
//!
//! A window that does not lie inside as a whole is skipped as a whole: StableHLO would keep the
//! elements that are inside, but XLA, with which programs are written and tested, drops them all.
//! Windows are written one after the other, as XLA does it, in row-major order; so are the elements
//! of each.

mod rules;

use super::combiner::check_body;
use super::indexing::{Names, Windows};
use super::reduce::element;
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::function::{BlockId, Function};
use crate::interpret::{Frame, ScalarRegion};
use crate::literal::Literal;
use crate::lower::{Emitter, Lowering, Scalar, nest, widened};
use crate::types::{TensorType, advance};
use jaxrs_kernel::builder::{self, Build, Guard, LoopOptions};
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::{Affine, DType};

const NAMES: Names = Names {
    op: "scatter",
    inside: "update_window_dims",
    inserted: "inserted_window_dims",
    operand_batch: "input_batching_dims",
    indices_batch: "scatter_indices_batching_dims",
    start: "scatter_dims_to_operand_dims",
};

/// A scatter of one or several updates into as many operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// How operands, indices and updates correspond.
    pub windows: Windows,
    /// Whether the start indices ascend.
    pub sorted: bool,
    /// Whether no element is updated twice.
    pub unique: bool,
}

/// The types of a scatter.
struct Types<'a> {
    inputs: &'a [TensorType],
    indices: &'a TensorType,
    updates: &'a [TensorType],
}

impl<'a> Types<'a> {
    fn new(operands: &'a [TensorType]) -> Result<Types<'a>, String> {
        if operands.len() < 3 || operands.len().is_multiple_of(2) {
            return Err(format!(
                "scatter: expected operands, indices and as many updates, found {} operands in all",
                operands.len()
            ));
        }
        let (inputs, rest) = operands.split_at(operands.len() / 2);
        Ok(Types { inputs, indices: &rest[0], updates: &rest[1..] })
    }
}

impl Scatter {
    /// Extents of a window in each operand axis.
    fn sizes(&self, operand: &TensorType, updates: &TensorType) -> Vec<u64> {
        let (batch, inside) = self.windows.split(&updates.shape);
        let one: Vec<u64> = vec![1; batch.len()];
        self.windows.offset(&one, &inside, operand.rank(), 1)
    }

    /// The start index of a window with the condition that the window lies inside.
    fn start(&self, e: &mut Emitter<'_>, op: OpView<'_>, batch: &[Affine]) -> (Vec<Start>, Guard) {
        let n = op.data().operands.len() / 2;
        let (operand, indices) = (op.operand_type(0), op.operand_type(n));
        let sizes = self.sizes(operand, op.operand_type(n + 1));
        let mut starts = Vec::new();
        let mut inside = Guard::Always;
        for (component, &axis) in self.windows.start.iter().enumerate() {
            let component = Affine::constant(component as i64);
            let at = self.windows.component(batch, component, indices.rank());
            let start = e.read(op.operand(n), &at).real();
            let wide = widened(e, start, indices.dtype);
            let last = operand.shape[axis] as i64 - sizes[axis] as i64;
            let b = e.builder();
            let anywhere = b.as_index(wide, i64::MIN, i64::MAX);
            let guard = b.in_range(&anywhere, 0, last + 1);
            inside = b.both(inside, guard);
            starts.push(Start { axis, value: wide, last });
        }
        (starts, inside)
    }

    /// Updates one window, whose start is inside.
    fn window(
        &self,
        e: &mut Emitter<'_>,
        op: OpView<'_>,
        batch: &[Affine],
        starts: &[Start],
        inside: &[Affine],
    ) {
        let n = op.data().operands.len() / 2;
        let rank = op.operand_type(0).rank();
        let mut at = self.windows.offset(batch, inside, rank, Affine::constant(0));
        for start in starts {
            // Known to hold here; said by a clamp, as the register is seen outside, too.
            let index = e.builder().clamp_index(start.value, 0, start.last);
            at[start.axis] = at[start.axis].add(&index);
        }
        let from = self.windows.combine(batch, inside);
        let updates: Vec<Scalar> =
            (0..n).map(|k| e.read(op.operand(n + 1 + k), &from)).collect();
        let mut arguments = Vec::new();
        for (k, &update) in updates.iter().enumerate() {
            let used = uses_argument(op.function, op.region(0), k);
            arguments.push(if used { e.read_written(op.result(k), &at) } else { update });
        }
        arguments.extend(updates);
        for (k, scalar) in e.region(op.region(0), &arguments).into_iter().enumerate() {
            e.write(op.result(k), &at, scalar);
        }
    }

    /// Loops over the windows from `depth` on, those of [`Scatter::order`] in sequence.
    fn each_window(
        &self,
        e: &mut Emitter<'_>,
        extents: &[u64],
        parallel: &[bool],
        batch: &mut Vec<Affine>,
        body: &mut dyn FnMut(&mut Emitter<'_>, &[Affine]),
    ) {
        // Parallel axes outermost, then the others in order.
        let order: Vec<usize> = (0..extents.len())
            .filter(|&axis| parallel[axis])
            .chain((0..extents.len()).filter(|&axis| !parallel[axis]))
            .collect();
        let ranged = order.iter().copied().find(|&axis| extents[axis] > 1);
        let ranged = ranged.filter(|&axis| parallel[axis]);
        if let Some(axis) = ranged {
            e.builder().set_range(extents[axis]);
        }
        level(e, &Axes { extents, parallel, order: &order, ranged }, 0, batch, body);
    }
}

struct Start {
    axis: usize,
    value: jaxrs_kernel::Reg,
    last: i64,
}

struct Axes<'a> {
    extents: &'a [u64],
    parallel: &'a [bool],
    order: &'a [usize],
    ranged: Option<usize>,
}

fn level(
    e: &mut Emitter<'_>,
    axes: &Axes<'_>,
    depth: usize,
    batch: &mut Vec<Affine>,
    body: &mut dyn FnMut(&mut Emitter<'_>, &[Affine]),
) {
    let Some(&axis) = axes.order.get(depth) else { return body(e, batch) };
    let extent = axes.extents[axis] as i64;
    let options = LoopOptions { ranged: axes.ranged == Some(axis), split: true };
    if axes.parallel[axis] {
        builder::parallel(e, extent, options, |e, var| {
            batch[axis] = var.clone();
            level(e, axes, depth + 1, batch, body);
        });
    } else {
        builder::reduce(e, extent, options, LoopKind::Sequential, &[], |e, var, _| {
            batch[axis] = var.clone();
            level(e, axes, depth + 1, batch, body);
            Vec::new()
        });
    }
}

/// Whether a region's argument is used in it.
fn uses_argument(function: &Function, block: BlockId, position: usize) -> bool {
    let data = &function.blocks[block];
    let value = data.arguments[position];
    let in_op = |&op: &crate::OpId| {
        let op = &function.ops[op];
        op.operands.contains(&value) || !op.regions.is_empty()
    };
    data.yields.contains(&value) || data.ops.iter().any(in_op)
}

impl StructuredOp for Scatter {
    const NAMES: &'static [&'static str] = &["stablehlo.scatter"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let types = Types::new(&signature.operands)?;
        let mut fields = attributes.need_fields("scatter_dimension_numbers")?;
        Ok(Scatter {
            windows: Windows::from_fields(&NAMES, &mut fields, &types.inputs[0], types.indices)?,
            sorted: attributes.take_bool("indices_are_sorted", false)?,
            unique: attributes.take_bool("unique_indices", false)?,
        })
    }

    fn attributes(&self) -> Attributes {
        let fields = self.windows.fields(&NAMES);
        let numbers = Attribute::Struct("stablehlo.scatter".into(), fields);
        Attributes::new()
            .with("indices_are_sorted", Attribute::Bool(self.sorted))
            .with("scatter_dimension_numbers", numbers)
            .with("unique_indices", Attribute::Bool(self.unique))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let Types { inputs, indices, updates } = Types::new(&signature.operands)?;
        signature.expect("scatter", signature.operands.len(), 1)?;
        self.windows.check(&NAMES, &inputs[0], indices)?;
        let rank = indices.rank() - usize::from(self.windows.vector < indices.rank())
            + self.windows.inside.len();
        for (n, (input, update)) in inputs.iter().zip(updates).enumerate() {
            if input.shape != inputs[0].shape || update.shape != updates[0].shape {
                return Err(format!(
                    "scatter: shapes differ: operand 0 is {} with updates {}, operand {n} is \
                     {input} with updates {update}",
                    inputs[0], updates[0]
                ));
            }
            if input.dtype != update.dtype {
                return Err(format!("scatter: operand {n} is {input}, its updates {update}"));
            }
        }
        if updates[0].rank() != rank {
            return Err(format!("scatter: the updates are {}, expected rank {rank}", updates[0]));
        }
        let batch = self.windows.split(&updates[0].shape).0;
        let expected = self.windows.batch_shape(indices);
        if batch != expected {
            return Err(format!(
                "scatter: the updates {} have extents {batch:?} outside the windows, the indices \
                 {indices} {expected:?}",
                updates[0]
            ));
        }
        let sizes = self.sizes(&inputs[0], &updates[0]);
        for (axis, (&size, &extent)) in sizes.iter().zip(&inputs[0].shape).enumerate() {
            // An inserted axis of an empty operand has no window inside: every update is skipped.
            if size > extent && size > 1 {
                return Err(format!(
                    "scatter: the window is {size} in operand axis {axis}, which is {extent}"
                ));
            }
        }
        let dtypes: Vec<DType> = inputs.iter().map(|t| t.dtype).collect();
        check_body("scatter", &signature.regions[0], &dtypes)?;
        Ok(inputs.to_vec())
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (inputs, rest) = operands.split_at(operands.len() / 2);
        let (indices, updates) = (&rest[0], &rest[1..]);
        let (operand, update) = (inputs[0].ty(), updates[0].ty());
        let sizes = self.sizes(operand, update);
        let mut values: Vec<Vec<u64>> = inputs
            .iter()
            .map(|l| (0..l.ty().len()).flat_map(|at| element(std::slice::from_ref(l), at)).collect())
            .collect();
        let mut region = ScalarRegion::new(frame, op.region(0));
        let strides: Vec<i64> = indices.ty().strides().iter().map(|&s| s as i64).collect();
        let operand_strides = operand.strides();
        let (mut arguments, mut yields) = (Vec::new(), Vec::new());
        let (batches, insides) = self.windows.split(&update.shape);
        let update_strides = update.strides();
        let (mut batch, mut inside) = (vec![0; batches.len()], vec![0; insides.len()]);
        for _ in 0..update.len() {
            let index = self.windows.combine(&batch, &inside);
            let position = index.iter().zip(&update_strides).map(|(i, s)| i * s).sum();
            let (this_batch, this_inside) = (batch.clone(), inside.clone());
            if !advance(&mut inside, &insides) {
                advance(&mut batch, &batches);
            }
            let (batch, inside) = (this_batch, this_inside);
            let mut at = self.windows.offset(&batch, &inside, operand.rank(), 0);
            let mut whole = !operand.is_empty();
            for (n, &axis) in self.windows.start.iter().enumerate() {
                let component = self.windows.component(&batch, n as u64, strides.len());
                let from: u64 = component.iter().zip(&strides).map(|(&i, &s)| i * s as u64).sum();
                let start = u64::try_from(indices.int(from)).ok();
                let last = operand.shape[axis].checked_sub(sizes[axis]);
                match start {
                    Some(start) if last.is_some_and(|last| start <= last) => at[axis] += start,
                    _ => whole = false,
                }
            }
            if !whole {
                continue;
            }
            let to: u64 = at.iter().zip(&operand_strides).map(|(i, s)| i * s).sum();
            arguments.clear();
            let parts = |k: usize| inputs[k].ty().dtype.parts() as usize;
            for (k, values) in values.iter().enumerate() {
                let first = to as usize * parts(k);
                arguments.extend_from_slice(&values[first..first + parts(k)]);
            }
            arguments.extend(element(updates, position));
            yields.clear();
            region.run(frame, &arguments, &mut yields)?;
            let mut rest = &yields[..];
            for (k, values) in values.iter_mut().enumerate() {
                let (new, after) = rest.split_at(parts(k));
                let first = to as usize * parts(k);
                values[first..first + parts(k)].copy_from_slice(new);
                rest = after;
            }
        }
        let results = inputs.iter().zip(&values);
        Ok(results.map(|(l, values)| Literal::from_bits(l.ty().clone(), values)).collect())
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let results = op.data().results.len() as u32;
        let emit = move |e: &mut Emitter<'_>| {
            let n = op.data().operands.len() / 2;
            let updates = op.operand_type(n + 1);
            if updates.is_empty() || op.operand_type(0).is_empty() {
                return;
            }
            let (extents, inside) = self.windows.split(&updates.shape);
            let parallel: Vec<bool> =
                (0..extents.len()).map(|axis| self.unique || self.windows.is_batch(axis)).collect();
            let mut batch = vec![Affine::constant(0); extents.len()];
            self.each_window(e, &extents, &parallel, &mut batch, &mut |e, batch| {
                let (starts, guard) = self.start(e, op, batch);
                let all = |e: &mut Emitter<'_>| {
                    nest(e, &inside, false, |e, inside| {
                        self.window(e, op, batch, &starts, inside);
                    });
                    Vec::new()
                };
                builder::branch(e, guard, all, |_| Vec::new());
            });
        };
        let updates = (0..results).map(|n| (n, n)).collect();
        Lowering::Loops { updates, emit: Box::new(emit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_function, check_program, program, tensor};

    /// A scatter by one op of two scalars, or with the update itself where `op` is empty.
    fn scatter(
        fields: &str,
        unique: bool,
        op: &str,
        [input, indices, update, dtype]: [&str; 4],
    ) -> String {
        let body = if op.is_empty() {
            format!("stablehlo.return %b : tensor<{dtype}>")
        } else {
            format!(
                "%1 = stablehlo.{op} %a, %b : tensor<{dtype}>
                 stablehlo.return %1 : tensor<{dtype}>"
            )
        };
        format!(
            "(%x: tensor<{input}{dtype}>, %i: tensor<{indices}>, %u: tensor<{update}{dtype}>)
                -> tensor<{input}{dtype}> {{
              %0 = \"stablehlo.scatter\"(%x, %i, %u) <{{indices_are_sorted = false,
                scatter_dimension_numbers = #stablehlo.scatter<{fields}>,
                unique_indices = {unique}}}> ({{
              ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>):
                {body}
              }}) : (tensor<{input}{dtype}>, tensor<{indices}>, tensor<{update}{dtype}>)
                -> tensor<{input}{dtype}>
              return %0 : tensor<{input}{dtype}>
            }}"
        )
    }

    const ROWS: &str = "update_window_dims = [1], inserted_window_dims = [0], \
                        scatter_dims_to_operand_dims = [0], index_vector_dim = 1";

    #[test]
    fn kernels_agree_for_every_form() {
        let forms = [
            (ROWS, ["6x4x", "5x1xi32", "5x4x"]),
            (ROWS, ["6x4x", "5x1xi64", "5x3x"]),
            (ROWS, ["6x4x", "0x1xi32", "0x4x"]),
            (ROWS, ["0x4x", "5x1xi32", "5x4x"]),
            ("inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], \
              index_vector_dim = 1", ["3x", "20x1xi32", "20x"]),
            ("update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]",
             ["6x4x", "2xi32", "3x2x"]),
            ("update_window_dims = [0], inserted_window_dims = [1], \
              scatter_dims_to_operand_dims = [1]", ["6x4x", "1xi32", "6x"]),
            ("inserted_window_dims = [1], input_batching_dims = [0], \
              scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], \
              index_vector_dim = 2", ["6x4x", "6x3x1xi32", "6x3x"]),
            ("update_window_dims = [1], input_batching_dims = [2], \
              scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [1, 0], \
              inserted_window_dims = [0], index_vector_dim = 0",
             ["3x4x2x", "2x5x2xui8", "5x2x2x"]),
            ("update_window_dims = [0], scatter_dims_to_operand_dims = [], index_vector_dim = 0",
             ["4x", "0xi32", "4x"]),
        ];
        for (fields, [input, indices, update]) in forms {
            for (op, dtype) in [
                ("add", "f32"), ("", "f32"), ("maximum", "i16"), ("multiply", "bf16"),
                ("add", "complex<f64>"), ("or", "i1"),
            ] {
                for seed in 0..2 {
                    let types = [input, indices, update, dtype];
                    check_program(&scatter(fields, false, op, types), 10 * seed);
                }
            }
        }
    }

    #[test]
    fn windows_that_stick_out_are_skipped() {
        let fields = "update_window_dims = [1], scatter_dims_to_operand_dims = [0], \
                      index_vector_dim = 1";
        let text = scatter(fields, false, "add", ["5x", "4x1xi32", "4x2x", "f32"]);
        let x = tensor(DType::F32, &[5], &[0.0; 5]);
        let starts = tensor(DType::I32, &[4, 1], &[-1., 1., 4., 3.]);
        let updates = tensor(DType::F32, &[4, 2], &[1., 2., 3., 4., 5., 6., 7., 8.]);
        let got = check_function(&program(&text), &[x, starts, updates], 0.0);
        assert_eq!(got, [tensor(DType::F32, &[5], &[0., 3., 4., 7., 8.])]);
    }

    #[test]
    fn unique_windows_are_written_in_parallel() {
        for (indices, update) in [([2., 0., 5.], "3x4x"), ([1., 9., 3.], "3x4x")] {
            let text = scatter(ROWS, true, "", ["6x4x", "3x1xi32", update, "f32"]);
            let x = tensor(DType::F32, &[6, 4], &[0.5; 24]);
            let starts = tensor(DType::I32, &[3, 1], &indices);
            let updates = crate::testing::small(DType::F32, &[3, 4], 3);
            check_function(&program(&text), &[x, starts, updates], 0.0);
        }
    }

    #[test]
    fn several_operands_are_updated_together() {
        let text = "(%x: tensor<4xf32>, %y: tensor<4xi32>, %i: tensor<6x1xi32>,
                     %u: tensor<6xf32>, %v: tensor<6xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
          %0:2 = \"stablehlo.scatter\"(%x, %y, %i, %u, %v) <{scatter_dimension_numbers =
            #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
            index_vector_dim = 1>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
            %1 = stablehlo.compare GE, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %2 = stablehlo.select %1, %a, %c : tensor<i1>, tensor<f32>
            %3 = stablehlo.select %1, %b, %d : tensor<i1>, tensor<i32>
            stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
          }) : (tensor<4xf32>, tensor<4xi32>, tensor<6x1xi32>, tensor<6xf32>, tensor<6xi32>)
            -> (tensor<4xf32>, tensor<4xi32>)
          return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
        }";
        for seed in 0..4 {
            check_program(text, 10 * seed);
        }
    }
}
