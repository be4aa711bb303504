//! `stablehlo.dynamic_update_slice`: a window at computed positions replaced; the positions are
//! clamped so that it lies inside.

use super::dynamic_slice::check_starts;
use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{self, Emitter, Lowering, Scalar};
use crate::function::ValueId;
use crate::ops::dynamic_slice::{first_start, start_indices};
use crate::ops::indexing::Windows;
use crate::ops::{DynamicSlice, Scatter};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::{TensorType, advance};
use jaxrs_kernel::Affine;
use jaxrs_kernel::builder::{Build, Guard};

/// An update: operand 0 with operand 1 written at the positions of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicUpdateSlice;

/// The window's first position on each axis.
fn starts(e: &mut Emitter<'_>, op: OpView<'_>) -> Vec<Affine> {
    let (whole, update) = (op.operand_type(0), op.operand_type(1));
    (0..whole.rank())
        .map(|axis| {
            let high = (whole.shape[axis] - update.shape[axis]) as i64;
            lower::start_index(e, op.operand(2 + axis), high)
        })
        .collect()
}

/// The result's element at an index, for a reader that does not want the result in memory: the
/// update's inside the window, operand 0's elsewhere.
pub fn element(e: &mut Emitter<'_>, op: OpView<'_>, index: &[Affine]) -> Scalar {
    let update = op.operand_type(1);
    if update.is_empty() {
        return e.read(op.operand(0), index);
    }
    let starts = starts(e, op);
    let (mut at, mut inside) = (Vec::new(), Guard::Always);
    for (axis, start) in starts.iter().enumerate() {
        let extent = update.shape[axis];
        let place = index[axis].sub(start);
        if extent != op.operand_type(0).shape[axis] {
            let guard = e.builder().in_range(&place, 0, extent as i64);
            inside = e.builder().both(inside, guard);
        }
        at.push(if extent == 1 { Affine::constant(0) } else { place });
    }
    e.branch(inside, |e| e.read(op.operand(1), &at), |e| e.read(op.operand(0), index))
}

impl StructuredOp for DynamicUpdateSlice {
    const NAMES: &'static [&'static str] = &["stablehlo.dynamic_update_slice"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(DynamicUpdateSlice)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("dynamic_update_slice", signature.operands.len().max(2), 0)?;
        let (operand, update) = (&signature.operands[0], &signature.operands[1]);
        if operand.dtype != update.dtype || operand.rank() != update.rank() {
            return Err(format!(
                "dynamic_update_slice: the operand is {operand}, the update {update}; their \
                 element types and ranks must be equal"
            ));
        }
        check_starts("dynamic_update_slice", operand, &signature.operands[2..])?;
        for (axis, (&size, &extent)) in update.shape.iter().zip(&operand.shape).enumerate() {
            if size > extent {
                return Err(format!(
                    "dynamic_update_slice: axis {axis}: an update of {size} does not fit into \
                     {extent}"
                ));
            }
        }
        Ok(vec![operand.clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (whole, update) = (op.operand_type(0), op.operand_type(1));
        let size = whole.dtype.size() as usize;
        let strides = whole.strides();
        let mut first = 0;
        for (axis, stride) in strides.iter().enumerate() {
            let high = whole.shape[axis] - update.shape[axis];
            first += interpret::start_index(&operands[2 + axis], high) * stride;
        }
        let mut out = operands[0].to_bytes();
        let bytes = operands[1].bytes();
        let mut index = vec![0; update.rank()];
        for position in 0..update.len() as usize {
            let offset: u64 = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
            let to = (first + offset) as usize * size;
            out[to..to + size].copy_from_slice(&bytes[position * size..(position + 1) * size]);
            advance(&mut index, &update.shape);
        }
        Ok(vec![Literal::dense(whole.clone(), out)])
    }

    /// In place: only the window is written.
    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Loops {
            updates: vec![(0, 0)],
            emit: Box::new(move |e| {
                let update = op.operand_type(1);
                if update.is_empty() {
                    return;
                }
                let starts = starts(e, op);
                lower::nest(e, &update.shape, true, |e, index| {
                    let value = e.read(op.operand(1), index);
                    let at: Vec<Affine> =
                        index.iter().zip(&starts).map(|(i, start)| i.add(start)).collect();
                    e.write(op.result(0), &at, value);
                });
            }),
        }
    }
}

impl Rules for DynamicUpdateSlice {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.copy(op);
        let mut operands = vec![cx.tangent_or_zero(op.operand(0))?, cx.tangent_or_zero(op.operand(1))?];
        for &start in &op.data().operands[2..] {
            operands.push(cx.residual_of(start));
        }
        let tangent = cx.linear().one(DynamicUpdateSlice, &operands)?;
        cx.bind_tangent(op.result(0), tangent);
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let starts: Vec<ValueId> =
            op.data().operands[2..].iter().map(|&start| cx.value(start)).collect();
        let update = op.operand_type(1);
        if cx.is_linear(op.operand(0)) {
            let zeros = cx.builder().zeros(update)?;
            let around = cx.builder().one(DynamicUpdateSlice, &[&[ct, zeros], &starts[..]].concat())?;
            cx.add(op.operand(0), around)?;
        }
        if cx.is_linear(op.operand(1)) {
            let slice = DynamicSlice { sizes: update.shape.clone() };
            let inside = cx.builder().one(slice, &[&[ct], &starts[..]].concat())?;
            cx.add(op.operand(1), inside)?;
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let (x, update) = (cx.full(op.operand(0))?, cx.full(op.operand(1))?);
        let starts = &op.data().operands[2..];
        let (whole, part) = (op.operand_type(0), op.operand_type(1));
        let rank = whole.rank();
        let value = if !starts.iter().any(|&start| cx.is_batched(start)) {
            let mut operands = vec![x, update, first_start(cx, starts)?];
            operands.extend(starts.iter().map(|&start| cx.value(start)));
            cx.builder().one(DynamicUpdateSlice, &operands)?
        } else if part.is_empty() {
            x
        } else {
            // A scatter leaves out what does not lie inside.
            let limits: Vec<u64> = (0..rank).map(|n| whole.shape[n] - part.shape[n]).collect();
            let indices = start_indices(cx, starts, Some(&limits))?;
            let windows = Windows {
                inside: (1..=rank).collect(),
                inserted: Vec::new(),
                operand_batch: vec![0],
                indices_batch: vec![0],
                start: (1..=rank).collect(),
                vector: 1,
            };
            let scalar = TensorType::scalar(whole.dtype);
            let mut b = cx.builder();
            let replace = b.region(&[scalar.clone(), scalar], |_, x| Ok(vec![x[1]]))?;
            let scatter = Scatter { windows, sorted: false, unique: true };
            b.push(scatter, &[x, indices, update], &[replace])?[0]
        };
        cx.bind(op.result(0), value, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, ints, values};
    use crate::testing::{check, fault, function, int, pattern, tensor};
    use jaxrs_kernel::{Access, DType, interp};

    #[test]
    fn starts_are_clamped() {
        let x = tensor(DType::I32, &[2, 3], &[0., 1., 2., 3., 4., 5.]);
        let update = tensor(DType::I32, &[1, 2], &[8., 9.]);
        let starts = [int(DType::U64, u64::MAX.into()), int(DType::U64, 1)];
        let got = check(DynamicUpdateSlice, &[&[x, update], &starts[..]].concat());
        assert_eq!(got, [tensor(DType::I32, &[2, 3], &[0., 1., 2., 3., 8., 9.])]);
    }

    #[test]
    fn agrees_with_its_kernel_and_its_element_function() {
        for dtype in DType::ALL {
            let scalars = [pattern(dtype, &[], 0), pattern(dtype, &[], 1)];
            check(DynamicUpdateSlice, &scalars);
            for (first, second) in [(0, 2), (5, -1), (1, 1)] {
                let starts = [int(DType::I16, first), int(DType::I16, second)];
                for window in [[2, 2], [4, 1], [0, 3], [4, 5], [1, 1]] {
                    let tensors = [pattern(dtype, &[4, 5], 0), pattern(dtype, &window, 1)];
                    let operands = [&tensors, &starts[..]].concat();
                    let expected = check(DynamicUpdateSlice, &operands);
                    assert_eq!(by_element(&operands).to_bytes(), expected[0].to_bytes());
                }
            }
        }
    }

    /// The result computed by a kernel around [`element`].
    fn by_element(operands: &[Literal]) -> Literal {
        let function = function(DynamicUpdateSlice, operands);
        let op = OpView { function: &function, id: function.blocks[function.body].ops[0] };
        let mut e = Emitter::new(&function, "by_element");
        let ty = op.result_type(0);
        let parts = ty.dtype.parts();
        let mut buffers = Vec::new();
        for (&value, literal) in function.parameters().iter().zip(operands) {
            let from = literal.ty();
            let len = from.len() * from.dtype.parts();
            let param = e.builder().param(from.dtype.part(), len, Access::Read);
            e.read_from(value, param);
            buffers.push(literal.to_bytes());
        }
        let out = e.builder().param(ty.dtype.part(), ty.len() * parts, Access::Write);
        e.write_to(op.result(0), out);
        buffers.push(vec![0; ty.bytes() as usize]);
        lower::nest(&mut e, &ty.shape, false, |e, index| {
            let value = element(e, op, index);
            e.write(op.result(0), index, value);
        });
        interp::run(&e.finish(), &mut buffers, 0, 1);
        Literal::dense(ty.clone(), buffers.pop().expect("the result"))
    }

    #[test]
    fn faults() {
        let ty = |shape: &[u64], dtype| TensorType::new(shape, dtype);
        let (x, at) = (ty(&[4], DType::F32), TensorType::scalar(DType::I32));
        fault(DynamicUpdateSlice, std::slice::from_ref(&x));
        fault(DynamicUpdateSlice, &[x.clone(), x.clone()]);
        fault(DynamicUpdateSlice, &[x.clone(), ty(&[5], DType::F32), at.clone()]);
        fault(DynamicUpdateSlice, &[x.clone(), ty(&[2], DType::I32), at.clone()]);
        fault(DynamicUpdateSlice, &[x.clone(), ty(&[2, 1], DType::F32), at]);
        fault(DynamicUpdateSlice, &[x.clone(), x.clone(), x]);
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
            let tensors = [values(shape, 1), values(sizes, 2)];
            let inputs: Vec<Literal> = tensors.into_iter().chain(starts).collect();
            check_body(&inputs, |b, x| Ok(vec![b.one(DynamicUpdateSlice, x)?]));
        }
    }
}
