//! `stablehlo.dynamic_slice`: a part of constant size at computed positions, which are clamped so
//! that it lies inside.

use super::{OpView, Signature, StructuredOp, signed, unsigned};
use crate::attribute::Attributes;
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{self, ElementCost, Lowering};
use crate::function::ValueId;
use crate::ops::indexing::Windows;
use crate::ops::{Clamp, DynamicUpdateSlice, Gather};
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::DType;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::Affine;

/// A slice at computed positions: operand 0 is sliced, the others are its starts.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicSlice {
    /// The result's shape.
    pub sizes: Vec<u64>,
}

/// Checks the start indices of an op: one rank-0 integer for each axis, all of one type.
pub(super) fn check_starts(
    what: &str,
    operand: &TensorType,
    starts: &[TensorType],
) -> Result<(), String> {
    if starts.len() != operand.rank() {
        return Err(format!("{what}: {operand} needs {} start indices, found {}",
            operand.rank(), starts.len()));
    }
    for (axis, ty) in starts.iter().enumerate() {
        if ty.rank() > 0 || !ty.dtype.is_int() || ty != &starts[0] {
            return Err(format!(
                "{what}: start index {axis} is {ty}; all must be integers of rank 0 and one type"
            ));
        }
    }
    Ok(())
}

impl StructuredOp for DynamicSlice {
    const NAMES: &'static [&'static str] = &["stablehlo.dynamic_slice"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let sizes = attributes.need_ints("slice_sizes")?;
        Ok(DynamicSlice { sizes: unsigned(&sizes, "dynamic_slice: slice_sizes")? })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with_ints("slice_sizes", &signed(&self.sizes))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("dynamic_slice", signature.operands.len().max(1), 0)?;
        let (operand, starts) = (&signature.operands[0], &signature.operands[1..]);
        check_starts("dynamic_slice", operand, starts)?;
        if self.sizes.len() != operand.rank() {
            return Err(format!(
                "dynamic_slice: {operand} has {} axes, slice_sizes has {} entries",
                operand.rank(),
                self.sizes.len()
            ));
        }
        for (axis, (&size, &extent)) in self.sizes.iter().zip(&operand.shape).enumerate() {
            if size > extent {
                return Err(format!(
                    "dynamic_slice: axis {axis}: a slice of {size} does not fit into {extent}"
                ));
            }
        }
        Ok(vec![TensorType::new(self.sizes.clone(), operand.dtype)])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let from = op.operand_type(0);
        let steps: Vec<i64> = from.strides().iter().map(|&stride| stride as i64).collect();
        let mut first = 0;
        for (axis, &step) in steps.iter().enumerate() {
            let high = from.shape[axis] - self.sizes[axis];
            first += interpret::start_index(&operands[1 + axis], high) as i64 * step;
        }
        Ok(vec![interpret::strided(&operands[0], op.result_type(0), first, &steps)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| {
                let from = op.operand_type(0);
                let mut at: Vec<Affine> = Vec::new();
                for (axis, position) in index.iter().enumerate() {
                    let high = (from.shape[axis] - self.sizes[axis]) as i64;
                    let start = lower::start_index(e, op.operand(1 + axis), high);
                    at.push(position.add(&start));
                }
                e.read(op.operand(0), &at)
            }),
        }
    }
}

impl Rules for DynamicSlice {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear_in_first(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let zeros = cx.builder().zeros(op.operand_type(0))?;
        let starts = op.data().operands[1..].iter().map(|&start| cx.value(start));
        let operands: Vec<ValueId> = [zeros, ct].into_iter().chain(starts).collect();
        let ct = cx.builder().one(DynamicUpdateSlice, &operands)?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let (operand, starts) = (op.operand(0), &op.data().operands[1..]);
        let rank = self.sizes.len();
        let sizes = [&[cx.size()], &self.sizes[..]].concat();
        let value = if !starts.iter().any(|&start| cx.is_batched(start)) {
            let mut operands = vec![cx.value(operand), first_start(cx, starts)?];
            operands.extend(starts.iter().map(|&start| cx.value(start)));
            cx.builder().one(DynamicSlice { sizes }, &operands)?
        } else if cx.size() == 0 {
            // No window fits into nothing.
            cx.builder().zeros(&TensorType::new(sizes, op.result_type(0).dtype))?
        } else {
            let indices = start_indices(cx, starts, None)?;
            let x = cx.value(operand);
            // Whether each element of the batch has a tensor of its own to slice.
            let own = usize::from(cx.is_batched(operand));
            let slice_sizes = if own == 1 { [&[1], &self.sizes[..]].concat() } else { self.sizes.clone() };
            let windows = Windows {
                inside: (1..=rank).collect(),
                inserted: Vec::new(),
                operand_batch: vec![0; own],
                indices_batch: vec![0; own],
                start: (own..rank + own).collect(),
                vector: 1,
            };
            cx.builder().one(Gather { windows, slice_sizes, sorted: false }, &[x, indices])?
        };
        cx.bind(op.result(0), value, true);
        Ok(())
    }
}

/// The start on the batch axis, of the other starts' type.
pub(super) fn first_start(cx: &mut Batch<'_>, starts: &[ValueId]) -> Result<ValueId, String> {
    let known = starts.first().map(|&start| cx.value(start));
    let mut b = cx.builder();
    let ty = known.map_or(TensorType::scalar(DType::I32), |start| b.ty(start));
    b.zeros(&ty)
}

/// Starts, of which some have the batch axis, as one tensor of an index vector for each element of
/// the batch; kept from 0 to the limits, if there are some.
pub(super) fn start_indices(
    cx: &mut Batch<'_>,
    starts: &[ValueId],
    limits: Option<&[u64]>,
) -> Result<ValueId, String> {
    let mut columns = Vec::with_capacity(starts.len());
    for (axis, &start) in starts.iter().enumerate() {
        let mut column = cx.full(start)?;
        let size = cx.size();
        let mut b = cx.builder();
        if let Some(limits) = limits {
            let ty = TensorType::scalar(b.ty(column).dtype);
            let signed = u32::from(ty.dtype.class() == Class::Signed);
            let most = u64::MAX >> (64 - (ty.dtype.bits() - signed));
            let limit = Literal::scalar(ty.dtype, &[limits[axis].min(most)]);
            let (low, high) = (b.zeros(&ty)?, b.constant(limit)?);
            column = b.one(Clamp, &[low, column, high])?;
        }
        columns.push(b.reshape(column, &[size, 1])?);
    }
    cx.builder().concatenate(&columns, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, ints, values};
    use crate::testing::{check, fault, int, pattern, tensor};
    use jaxrs_kernel::DType;

    fn dynamic_slice(sizes: &[u64]) -> DynamicSlice {
        DynamicSlice { sizes: sizes.into() }
    }

    #[test]
    fn starts_are_clamped() {
        let x = tensor(DType::F32, &[5], &[0., 1., 2., 3., 4.]);
        let cases = [
            (DType::I32, 1, 1.),
            (DType::I32, -7, 0.),
            (DType::I32, 4, 3.),
            (DType::I8, -128, 0.),
            (DType::U8, 255, 3.),
            (DType::I64, i64::MAX.into(), 3.),
            (DType::I64, i64::MIN.into(), 0.),
            (DType::U64, u64::MAX.into(), 3.),
            (DType::U64, 2, 2.),
            (DType::U32, u32::MAX.into(), 3.),
        ];
        for (dtype, start, first) in cases {
            let got = check(dynamic_slice(&[2]), &[x.clone(), int(dtype, start)]);
            assert_eq!(got, [tensor(DType::F32, &[2], &[first, first + 1.])], "{dtype} {start}");
        }
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in DType::ALL {
            check(dynamic_slice(&[]), &[pattern(dtype, &[], 0)]);
            for (first, second) in [(0, 2), (5, -1), (1, 1)] {
                let starts = [int(DType::I32, first), int(DType::I32, second)];
                for sizes in [[2, 2], [4, 1], [0, 3], [4, 5]] {
                    let x = pattern(dtype, &[4, 5], 0);
                    let operands = [&[x], &starts[..]].concat();
                    check(dynamic_slice(&sizes), &operands);
                }
            }
        }
    }

    #[test]
    fn faults() {
        let x = TensorType::new([4], DType::F32);
        let at = TensorType::scalar(DType::I32);
        fault(dynamic_slice(&[5]), &[x.clone(), at.clone()]);
        fault(dynamic_slice(&[2]), std::slice::from_ref(&x));
        fault(dynamic_slice(&[2]), &[]);
        fault(dynamic_slice(&[2, 2]), &[x.clone(), at.clone()]);
        fault(dynamic_slice(&[2]), &[x.clone(), at.clone(), at]);
        fault(dynamic_slice(&[2]), &[x.clone(), TensorType::scalar(DType::F32)]);
        fault(dynamic_slice(&[2]), &[x, TensorType::new([1], DType::I32)]);
    }

    #[test]
    fn rules() {
        for (shape, sizes, starts) in [
            (&[5][..], &[2][..], &[1][..]),
            (&[3, 4], &[2, 3], &[1, 9]),
            (&[3, 2], &[0, 2], &[1, -1]),
            (&[], &[], &[]),
        ] {
            let starts = starts.iter().map(|&start| ints(&[], &[start]));
            let inputs: Vec<Literal> = std::iter::once(values(shape, 1)).chain(starts).collect();
            let op = DynamicSlice { sizes: sizes.into() };
            check_body(&inputs, |b, x| Ok(vec![b.one(op, x)?]));
        }
    }
}
