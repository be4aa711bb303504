//! `stablehlo.gather`: windows of a tensor from start indices, which are clamped so that a window
//! stays inside.

pub(super) mod rules;

use super::indexing::{Names, Windows};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, clamped_index};
use crate::types::TensorType;
use jaxrs_kernel::{Affine, DType};

const NAMES: Names = Names {
    op: "gather",
    inside: "offset_dims",
    inserted: "collapsed_slice_dims",
    operand_batch: "operand_batching_dims",
    indices_batch: "start_indices_batching_dims",
    start: "start_index_map",
};

/// A gather.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// How operand, indices and result correspond.
    pub windows: Windows,
    /// Extent of a window in each operand axis.
    pub slice_sizes: Vec<u64>,
    /// Whether the start indices ascend.
    pub sorted: bool,
}

impl Gather {
    /// The largest start in an operand axis.
    fn last(&self, operand: &TensorType, axis: usize) -> u64 {
        operand.shape[axis] - self.slice_sizes[axis]
    }
}

impl StructuredOp for Gather {
    const NAMES: &'static [&'static str] = &["stablehlo.gather"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let [operand, indices] = &signature.operands[..] else {
            return Err(format!(
                "gather: expected 2 operands, found {}",
                signature.operands.len()
            ));
        };
        let mut fields = attributes.need_fields("dimension_numbers")?;
        let windows = Windows::from_fields(&NAMES, &mut fields, operand, indices)?;
        let sizes = attributes.need_ints("slice_sizes")?;
        let size = |&size: &i64| {
            u64::try_from(size).map_err(|_| format!("gather: slice_sizes: {size} is negative"))
        };
        Ok(Gather {
            windows,
            slice_sizes: sizes.iter().map(size).collect::<Result<_, _>>()?,
            sorted: attributes.take_bool("indices_are_sorted", false)?,
        })
    }

    fn attributes(&self) -> Attributes {
        let sizes: Vec<i64> = self.slice_sizes.iter().map(|&s| s as i64).collect();
        let fields = self.windows.fields(&NAMES);
        Attributes::new()
            .with("dimension_numbers", Attribute::Struct("stablehlo.gather".into(), fields))
            .with("indices_are_sorted", Attribute::Bool(self.sorted))
            .with_ints("slice_sizes", &sizes)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("gather", 2, 0)?;
        let (operand, indices) = (&signature.operands[0], &signature.operands[1]);
        if self.slice_sizes.len() != operand.rank() {
            return Err(format!(
                "gather: slice_sizes has {} entries, the operand is {operand}",
                self.slice_sizes.len()
            ));
        }
        self.windows.check(&NAMES, operand, indices)?;
        let mut inside = Vec::new();
        for (axis, (&size, &extent)) in self.slice_sizes.iter().zip(&operand.shape).enumerate() {
            if size > extent {
                return Err(format!(
                    "gather: slice size {size} exceeds operand axis {axis}, which is {extent}"
                ));
            }
            let dropped = self.windows.inserted.contains(&axis)
                || self.windows.operand_batch.contains(&axis);
            if !dropped {
                inside.push(size);
            } else if size > 1 {
                return Err(format!(
                    "gather: slice size {size} in collapsed or batching axis {axis}, at most 1"
                ));
            }
        }
        let shape = self.windows.combine(&self.windows.batch_shape(indices), &inside);
        let result = TensorType::checked("gather", shape, operand.dtype)?;
        // A window without elements may start behind the last element.
        if !result.is_empty() && self.slice_sizes.contains(&0) {
            return Err(format!(
                "gather: slice_sizes {:?} name a collapsed or batching axis of {operand} without \
                 elements",
                self.slice_sizes
            ));
        }
        Ok(vec![result])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (operand, indices) = (operands[0].ty(), &operands[1]);
        let strides = indices.ty().strides();
        Ok(vec![interpret::rearrange(&operands[0], op.result_type(0), |index| {
            let (batch, inside) = self.windows.split(index);
            let mut at = self.windows.offset(&batch, &inside, operand.rank(), 0);
            for (n, &axis) in self.windows.start.iter().enumerate() {
                let component = self.windows.component(&batch, n as u64, strides.len());
                let position = component.iter().zip(&strides).map(|(i, s)| i * s).sum();
                let last = self.last(operand, axis);
                at[axis] += match indices.ty().dtype {
                    DType::U64 => indices.bits(position, 0).min(last),
                    _ => indices.int(position).clamp(0, last as i64) as u64,
                };
            }
            at
        })])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let (operand, indices) = (op.operand_type(0), op.operand_type(1));
        Lowering::Elements {
            cost: ElementCost::Cheap,
            element: Box::new(move |e, _, index| {
                let (batch, inside) = self.windows.split(index);
                let mut at: Vec<Affine> = self.windows.offset(&batch, &inside, operand.rank(), Affine::constant(0));
                for (n, &axis) in self.windows.start.iter().enumerate() {
                    let n = Affine::constant(n as i64);
                    let component = self.windows.component(&batch, n, indices.rank());
                    let start = e.read(op.operand(1), &component).real();
                    let last = self.last(operand, axis) as i64;
                    let start = clamped_index(e, start, indices.dtype, last);
                    at[axis] = at[axis].add(&start);
                }
                e.read(op.operand(0), &at)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_function, check_program, program, tensor};

    fn gather(fields: &str, sizes: &str, operand: &str, indices: &str, out: &str) -> String {
        format!(
            "(%x: tensor<{operand}>, %i: tensor<{indices}>) -> tensor<{out}> {{
              %0 = \"stablehlo.gather\"(%x, %i) <{{
                dimension_numbers = #stablehlo.gather<{fields}>, indices_are_sorted = false,
                slice_sizes = array<i64: {sizes}>}}>
                : (tensor<{operand}>, tensor<{indices}>) -> tensor<{out}>
              return %0 : tensor<{out}>
            }}"
        )
    }

    #[test]
    fn kernels_agree_for_every_form() {
        let forms = [
            ("offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], \
              index_vector_dim = 1", "1, 4", "6x4xf32", "5x1xi32", "5x4xf32"),
            ("offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1]", "6, 1",
             "6x4xf64", "1xi32", "6xf64"),
            ("offset_dims = [1, 2], start_index_map = [1, 0], index_vector_dim = 0", "2, 3",
             "6x4xi8", "2x5xi64", "5x2x3xi8"),
            ("collapsed_slice_dims = [1], operand_batching_dims = [0], \
              start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2",
             "1, 1", "6x4xbf16", "6x2x1xi32", "6x2xbf16"),
            ("offset_dims = [2], operand_batching_dims = [0, 2], \
              start_indices_batching_dims = [2, 0], start_index_map = [1], index_vector_dim = 1",
             "1, 2, 1", "3x4x2xui16", "2x1x3xui8", "2x3x2xui16"),
            ("offset_dims = [0, 1], start_index_map = [0], index_vector_dim = 0", "2, 4",
             "6x4xcomplex<f32>", "1xui64", "2x4xcomplex<f32>"),
            ("collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2", "1",
             "6xi1", "3x2xi16", "3x2xi1"),
            ("offset_dims = [1], start_index_map = [0], index_vector_dim = 1", "0",
             "0xf32", "3x1xi32", "3x0xf32"),
        ];
        for (fields, sizes, operand, indices, out) in forms {
            for seed in 0..4 {
                check_program(&gather(fields, sizes, operand, indices, out), 10 * seed);
            }
        }
    }

    #[test]
    fn starts_are_clamped() {
        let fields = "offset_dims = [1], start_index_map = [0], index_vector_dim = 1";
        let function = program(&gather(fields, "2", "5xf32", "4x1xi32", "4x2xf32"));
        let x = tensor(DType::F32, &[5], &[0., 1., 2., 3., 4.]);
        let starts = tensor(DType::I32, &[4, 1], &[-7., 1., 4., 1e9]);
        let got = check_function(&function, &[x, starts], 0.0);
        assert_eq!(got, [tensor(DType::F32, &[4, 2], &[0., 1., 1., 2., 3., 4., 3., 4.])]);
    }

    #[test]
    fn faults_are_told() {
        let check = |fields: &str, sizes: &str, out: &str, expected: &str| {
            let text = gather(fields, sizes, "6x4xf32", "5x1xi32", out);
            let source = format!("func.func public @main{text}");
            let message = match crate::text::parse(&source, "test") {
                Ok(module) => format!("{:?}", crate::verify::verify(&module, "test")),
                Err(errors) => errors.to_string(),
            };
            assert!(message.contains(expected), "{message}");
        };
        let fields = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], \
                      index_vector_dim = 1";
        check(fields, "1, 9", "5x9xf32", "slice size 9 exceeds operand axis 1, which is 4");
        check(fields, "2, 4", "5x4xf32", "slice size 2 in collapsed or batching axis 0");
        check(fields, "1", "5x4xf32", "slice_sizes has 1 entries");
        check("offset_dims = [1], start_index_map = [0], index_vector_dim = 1", "1, 4", "5x4xf32",
            "name 1 axes, the operand tensor<6x4xf32> has 2");
        check("offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1], \
               index_vector_dim = 1", "1, 4", "5x4xf32", "a start index has 1 components");
        check(fields, "0, 4", "5x4xf32", "name a collapsed or batching axis");
        check("offset_dims = [7], collapsed_slice_dims = [0], start_index_map = [0], \
               index_vector_dim = 1", "1, 4", "5x4xf32", "axis 7 is out of range");
    }
}
