//! `stablehlo.concatenate`: operands one after the other along an axis.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Emitter, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::Affine;
use jaxrs_kernel::builder::Build;

/// A concatenation.
#[derive(Clone, Debug, PartialEq)]
pub struct Concatenate {
    /// The axis.
    pub axis: usize,
}

impl Concatenate {
    /// Reads from the operands of `parts`, each with its first position along the axis; the index
    /// is known to lie in one of them. Halving keeps the guards few.
    fn pick(
        &self,
        e: &mut Emitter<'_>,
        op: OpView<'_>,
        parts: &[(usize, i64)],
        index: &[Affine],
    ) -> Scalar {
        if let [(operand, start)] = *parts {
            let mut at = index.to_vec();
            at[self.axis] = at[self.axis].offset(-start);
            return e.read(op.operand(operand), &at);
        }
        let (left, right) = parts.split_at(parts.len() / 2);
        let guard = e.builder().in_range(&index[self.axis], 0, right[0].1);
        e.branch(guard, |e| self.pick(e, op, left, index), |e| self.pick(e, op, right, index))
    }
}

impl StructuredOp for Concatenate {
    const NAMES: &'static [&'static str] = &["stablehlo.concatenate"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        let axis = attributes.need_int("dimension")?;
        Ok(Concatenate { axis: axes(&[axis], rank, "concatenate: dimension")?[0] })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with_int("dimension", self.axis as i64)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("concatenate", signature.operands.len(), 0)?;
        let first = signature.operands.first().ok_or("concatenate: there are no operands")?;
        if self.axis >= first.rank() {
            return Err(format!("concatenate: axis {} is out of range for {first}", self.axis));
        }
        let mut shape = first.shape.clone();
        for (position, ty) in signature.operands.iter().enumerate().skip(1) {
            let fits = ty.rank() == first.rank()
                && ty.dtype == first.dtype
                && (0..ty.rank()).all(|a| a == self.axis || ty.shape[a] == first.shape[a]);
            if !fits {
                return Err(format!(
                    "concatenate: operand 0 is {first}, operand {position} is {ty}; they may \
                     differ in axis {} only",
                    self.axis
                ));
            }
            shape[self.axis] = shape[self.axis]
                .checked_add(ty.shape[self.axis])
                .ok_or("concatenate: the result is too large")?;
        }
        Ok(vec![TensorType::checked("concatenate", shape, first.dtype)?])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let result = op.result_type(0);
        let mut out = Vec::with_capacity(result.bytes() as usize);
        let bytes: Vec<_> = operands.iter().map(Literal::bytes).collect();
        let rows: u64 = result.shape[..self.axis].iter().product();
        for row in 0..rows as usize {
            for (operand, bytes) in operands.iter().zip(&bytes) {
                let inner: u64 = operand.ty().shape[self.axis..].iter().product();
                let length = (inner * result.dtype.size()) as usize;
                out.extend_from_slice(&bytes[row * length..(row + 1) * length]);
            }
        }
        Ok(vec![Literal::dense(result.clone(), out)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| {
                let (mut parts, mut start) = (Vec::new(), 0);
                for operand in 0..op.data().operands.len() {
                    let extent = op.operand_type(operand).shape[self.axis] as i64;
                    if extent > 0 {
                        parts.push((operand, start));
                    }
                    start += extent;
                }
                self.pick(e, op, &parts, index)
            }),
        }
    }
}

impl Rules for Concatenate {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let mut start = 0;
        for (position, &operand) in op.data().operands.iter().enumerate() {
            let limit = start + op.operand_type(position).shape[self.axis];
            if cx.is_linear(operand) {
                let part = cx.builder().slice_axis(ct, self.axis, start, limit)?;
                cx.add(operand, part)?;
            }
            start = limit;
        }
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.with(op, Concatenate { axis: self.axis + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, tensor};
    use jaxrs_kernel::DType;

    #[test]
    fn puts_columns_side_by_side() {
        let x = tensor(DType::F32, &[2, 1], &[1., 2.]);
        let y = tensor(DType::F32, &[2, 2], &[3., 4., 5., 6.]);
        let expected = tensor(DType::F32, &[2, 3], &[1., 3., 4., 2., 5., 6.]);
        assert_eq!(check(Concatenate { axis: 1 }, &[x, y]), [expected]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        let extents: [&[u64]; 5] = [&[3], &[0, 2, 0], &[0, 0], &[1, 1, 1, 2], &[2; 13]];
        for dtype in DType::ALL {
            for axis in 0..3 {
                for extents in extents {
                    let operand = |(n, &extent): (usize, &u64)| {
                        let mut shape = [2, 3, 1];
                        shape[axis] = extent;
                        pattern(dtype, &shape, n as u64)
                    };
                    let operands: Vec<Literal> = extents.iter().enumerate().map(operand).collect();
                    check(Concatenate { axis }, &operands);
                }
            }
        }
    }

    #[test]
    fn faults() {
        let ty = |shape: &[u64], dtype| TensorType::new(shape, dtype);
        let x = ty(&[2, 3], DType::F32);
        fault(Concatenate { axis: 0 }, &[]);
        fault(Concatenate { axis: 2 }, std::slice::from_ref(&x));
        fault(Concatenate { axis: 0 }, &[x.clone(), ty(&[2, 4], DType::F32)]);
        fault(Concatenate { axis: 0 }, &[x.clone(), ty(&[2, 3], DType::I32)]);
        fault(Concatenate { axis: 0 }, &[x, ty(&[2], DType::F32)]);
        let large = ty(&[u64::MAX / 2], DType::I8);
        fault(Concatenate { axis: 0 }, &[large.clone(), large.clone(), large]);
    }

    #[test]
    fn rules() {
        for axis in 0..2 {
            let mut other = [2, 3];
            other[axis] = 1;
            let inputs = [values(&[2, 3], 1), values(&other, 2), values(&[2, 3], 3)];
            check_body(&inputs, |b, x| Ok(vec![b.concatenate(x, axis)?]));
        }
        let inputs = [values(&[0, 2], 1), values(&[1, 2], 2)];
        check_body(&inputs, |b, x| Ok(vec![b.concatenate(&[x[1], x[0], x[1]], 0)?]));
    }
}
