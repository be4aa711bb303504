//! `stablehlo.gather`: windows of a tensor from start indices, which are clamped so that a window
//! stays inside.

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
        TensorType::checked("gather", shape, operand.dtype).map(|ty| vec![ty])
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
