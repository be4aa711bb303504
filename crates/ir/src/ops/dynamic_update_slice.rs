//! `stablehlo.dynamic_update_slice`: a window at computed positions replaced; the positions are
//! clamped so that it lies inside.

use super::dynamic_slice::check_starts;
use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{self, Emitter, Lowering, Scalar};
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
