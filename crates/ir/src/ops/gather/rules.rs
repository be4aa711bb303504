//! Rules of `gather`: it is linear in the operand, and its transpose adds the windows up where they
//! came from. A batch axis of the operand alone is one more axis inside the windows, one of the
//! indices alone runs over the windows, and one of both is a batching axis.

use super::Gather;
use crate::builder::Builder;
use crate::function::ValueId;
use crate::literal::Literal;
use crate::ops::clamp::Clamp;
use crate::ops::indexing::Windows;
use crate::ops::scatter::Scatter;
use crate::ops::OpView;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::DType;

/// The largest integer of a type.
fn largest(dtype: DType) -> u64 {
    let bits = if dtype.class() == jaxrs_kernel::dtype::Class::Unsigned {
        dtype.bits()
    } else {
        dtype.bits() - 1
    };
    u64::MAX >> (64 - bits)
}

/// A constant of the indices' shape that has one number for each component of a start index.
pub(in crate::ops) fn by_component(
    b: &mut Builder<'_>,
    windows: &Windows,
    indices: &TensorType,
    numbers: &[u64],
) -> Result<ValueId, String> {
    let most = largest(indices.dtype);
    let row = TensorType::new([numbers.len() as u64], indices.dtype);
    let row = Literal::tabulate(row, |n| [numbers[n as usize].min(most), 0]);
    let row = b.constant(row)?;
    if windows.vector == indices.rank() {
        let scalar = b.reshape(row, &[])?;
        return b.splat(scalar, &indices.shape);
    }
    b.broadcast_in_dim(row, &indices.shape, &[windows.vector])
}

impl Gather {
    /// The start indices with those outside moved to the nearest one inside.
    fn clamped(
        &self,
        b: &mut Builder<'_>,
        operand: &TensorType,
        indices: ValueId,
    ) -> Result<ValueId, String> {
        let ty = b.ty(indices);
        let last: Vec<u64> = self.windows.start.iter().map(|&a| self.last(operand, a)).collect();
        if last.is_empty() || ty.is_empty() {
            return Ok(indices);
        }
        let low = b.zeros(&ty)?;
        let high = by_component(b, &self.windows, &ty, &last)?;
        b.one(Clamp, &[low, indices, high])
    }
}

impl Windows {
    /// With a batch axis before all others: of the operand, of the indices, or of both. The
    /// windows' tensor has it first.
    pub(in crate::ops) fn batched(&self, operand: bool, indices: bool) -> Windows {
        let by = |axes: &[usize], shift: bool| -> Vec<usize> {
            axes.iter().map(|axis| axis + usize::from(shift)).collect()
        };
        let mut windows = Windows {
            inside: by(&self.inside, true),
            inserted: by(&self.inserted, operand),
            operand_batch: by(&self.operand_batch, operand),
            indices_batch: by(&self.indices_batch, indices),
            start: by(&self.start, operand),
            vector: self.vector + usize::from(indices),
        };
        match (operand, indices) {
            (true, true) => {
                windows.operand_batch.insert(0, 0);
                windows.indices_batch.insert(0, 0);
            }
            (true, false) => windows.inside.insert(0, 0),
            _ => {}
        }
        windows
    }
}

impl Rules for Gather {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear_in_first(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let Some(cotangent) = cx.cotangent(op.result(0)) else { return Ok(()) };
        let operand = op.operand_type(0);
        let indices = cx.value(op.operand(1));
        let mut b = cx.builder();
        let zeros = b.zeros(operand)?;
        let indices = self.clamped(&mut b, operand, indices)?;
        let scatter =
            Scatter { windows: self.windows.clone(), sorted: self.sorted, unique: false };
        let sum = scatter.apply(&mut b, "stablehlo.add", zeros, indices, cotangent)?;
        cx.add(op.operand(0), sum)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let [operand, indices] = [op.operand(0), op.operand(1)];
        let (of_operand, of_indices) = (cx.is_batched(operand), cx.is_batched(indices));
        let mut gather = Gather {
            windows: self.windows.batched(of_operand, of_indices),
            slice_sizes: self.slice_sizes.clone(),
            sorted: self.sorted && !of_indices,
        };
        if of_operand {
            let size = cx.size();
            gather.slice_sizes.insert(0, if of_indices { size.min(1) } else { size });
        }
        let operands = [cx.value(operand), cx.value(indices)];
        let result = cx.builder().one(gather, &operands)?;
        cx.bind(op.result(0), result, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, ints, values};

    fn windows(
        inside: &[usize],
        inserted: &[usize],
        batch: [&[usize]; 2],
        start: &[usize],
        vector: usize,
    ) -> Windows {
        Windows {
            inside: inside.to_vec(),
            inserted: inserted.to_vec(),
            operand_batch: batch[0].to_vec(),
            indices_batch: batch[1].to_vec(),
            start: start.to_vec(),
            vector,
        }
    }

    #[test]
    fn derivatives_and_batches() {
        // Rows; windows out of range; windows over two axes; batching axes; an index of one number.
        type Shapes = [&'static [u64]; 3];
        let cases: [(Windows, Shapes, &[i64]); 5] = [
            (windows(&[1], &[0], [&[], &[]], &[0], 1), [&[1, 2], &[4, 2], &[3, 1]], &[1, 3, 1]),
            (windows(&[1], &[], [&[], &[]], &[0], 1), [&[2], &[5], &[3, 1]], &[-4, 2, 9]),
            (
                windows(&[0, 2], &[], [&[], &[]], &[1, 0], 0),
                [&[2, 1], &[3, 4], &[2, 2]], &[0, 3, 1, -1],
            ),
            (
                windows(&[], &[1], [&[0], &[0]], &[1], 2),
                [&[1, 1], &[2, 3], &[2, 2, 1]], &[0, 2, 1, 1],
            ),
            (windows(&[0], &[1], [&[], &[]], &[1], 0), [&[3, 1], &[3, 2], &[1]], &[1]),
        ];
        for (n, (windows, [sizes, operand, shape], indices)) in cases.into_iter().enumerate() {
            let inputs = [values(operand, n as u64), ints(shape, indices)];
            let gather = Gather { windows, slice_sizes: sizes.to_vec(), sorted: false };
            check_body(&inputs, |b, x| Ok(vec![b.one(gather.clone(), x)?]));
        }
    }
}
