//! `stablehlo.slice`: a strided part at constant positions.

use super::{OpView, Signature, StructuredOp, signed, unsigned};
use crate::attribute::Attributes;
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::Affine;

/// A slice: `[start, limit)` with a stride, for each axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// First positions.
    pub starts: Vec<u64>,
    /// Positions that are not reached.
    pub limits: Vec<u64>,
    /// Distances, at least 1.
    pub strides: Vec<u64>,
}

impl StructuredOp for Slice {
    const NAMES: &'static [&'static str] = &["stablehlo.slice"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Slice {
            starts: unsigned(&attributes.need_ints("start_indices")?, "slice: start_indices")?,
            limits: unsigned(&attributes.need_ints("limit_indices")?, "slice: limit_indices")?,
            strides: unsigned(&attributes.need_ints("strides")?, "slice: strides")?,
        })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
            .with_ints("start_indices", &signed(&self.starts))
            .with_ints("limit_indices", &signed(&self.limits))
            .with_ints("strides", &signed(&self.strides))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("slice", 1, 0)?;
        let operand = &signature.operands[0];
        let lengths = [self.starts.len(), self.limits.len(), self.strides.len()];
        if lengths.iter().any(|&length| length != operand.rank()) {
            return Err(format!(
                "slice: {operand} has {} axes, start_indices, limit_indices and strides have \
                 {lengths:?} entries",
                operand.rank()
            ));
        }
        let mut shape = Vec::new();
        for (axis, &extent) in operand.shape.iter().enumerate() {
            let (start, limit, stride) =
                (self.starts[axis], self.limits[axis], self.strides[axis]);
            if start > limit || limit > extent {
                return Err(format!(
                    "slice: axis {axis}: [{start}, {limit}) is not within [0, {extent})"
                ));
            }
            if stride == 0 {
                return Err(format!("slice: axis {axis}: the stride is 0"));
            }
            shape.push((limit - start).div_ceil(stride));
        }
        Ok(vec![TensorType::new(shape, operand.dtype)])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let result = op.result_type(0);
        let (mut start, mut steps) = (0, Vec::new());
        for (axis, &stride) in op.operand_type(0).strides().iter().enumerate() {
            start += (self.starts[axis] * stride) as i64;
            // A longer stride than the axis is never taken.
            let step = if result.shape[axis] > 1 { self.strides[axis] } else { 0 };
            steps.push((step * stride) as i64);
        }
        Ok(vec![interpret::strided(&operands[0], result, start, &steps)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| {
                let extents = &op.result_type(0).shape;
                let place = |axis: usize| {
                    let start = self.starts[axis] as i64;
                    if extents[axis] == 1 {
                        return Affine::constant(start);
                    }
                    index[axis].scale(self.strides[axis] as i64).offset(start)
                };
                let at: Vec<Affine> = (0..index.len()).map(place).collect();
                e.read(op.operand(0), &at)
            }),
        }
    }
}

impl Rules for Slice {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let (whole, part) = (op.operand_type(0), op.result_type(0));
        let high = |axis: usize| {
            let (start, stride, count) =
                (self.starts[axis], self.strides[axis], part.shape[axis]);
            let reach = if count == 0 { 0 } else { (count - 1) * stride + 1 };
            (whole.shape[axis] - start - reach) as i64
        };
        let high: Vec<i64> = (0..whole.rank()).map(high).collect();
        let interior: Vec<u64> = self.strides.iter().map(|stride| stride - 1).collect();
        let mut b = cx.builder();
        let zero = b.zeros(&TensorType::scalar(whole.dtype))?;
        let ct = b.pad(ct, zero, &signed(&self.starts), &high, &interior)?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let front = |first: u64, rest: &[u64]| [&[first], rest].concat();
        let size = cx.size();
        let (starts, limits) = (front(0, &self.starts), front(size, &self.limits));
        cx.with(op, Slice { starts, limits, strides: front(1, &self.strides) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, read, tensor};
    use jaxrs_kernel::DType;

    fn slice(starts: &[u64], limits: &[u64], strides: &[u64]) -> Slice {
        Slice { starts: starts.into(), limits: limits.into(), strides: strides.into() }
    }

    #[test]
    fn takes_every_other_element() {
        let x = tensor(DType::I32, &[2, 5], &[0., 1., 2., 3., 4., 5., 6., 7., 8., 9.]);
        let got = check(slice(&[1, 0], &[2, 5], &[1, 2]), &[x]);
        assert_eq!(got, [tensor(DType::I32, &[1, 3], &[5., 7., 9.])]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in DType::ALL {
            check(slice(&[], &[], &[]), &[pattern(dtype, &[], 1)]);
            check(slice(&[2], &[2], &[1]), &[pattern(dtype, &[4], 1)]);
            check(slice(&[1, 0, 2], &[4, 3, 7], &[2, 1, 9]), &[pattern(dtype, &[4, 3, 8], 2)]);
        }
    }

    #[test]
    fn faults_name_the_axis() {
        let ty = [TensorType::new([4], DType::F32)];
        assert_eq!(
            fault(slice(&[3], &[5], &[1]), &ty),
            "slice: axis 0: [3, 5) is not within [0, 4)"
        );
        assert_eq!(fault(slice(&[0], &[4], &[0]), &ty), "slice: axis 0: the stride is 0");
        fault(slice(&[0, 0], &[4, 4], &[1, 1]), &ty);
        let attributes = slice(&[0], &[4], &[1]).attributes();
        let negative = Attributes(attributes.0.into_iter().skip(1).collect())
            .with_ints("start_indices", &[-1]);
        let fault = read("stablehlo.slice", negative, &ty, &[]);
        assert_eq!(fault, Err("slice: start_indices: -1 must not be negative".into()));
    }

    #[test]
    fn rules() {
        for (shape, starts, limits, strides) in [
            (&[5][..], &[1][..], &[4][..], &[1][..]),
            (&[5], &[0], &[5], &[2]),
            (&[6], &[1], &[6], &[3]),
            (&[3, 4], &[1, 0], &[2, 4], &[2, 3]),
            (&[3], &[2], &[2], &[2]),
            (&[], &[], &[], &[]),
        ] {
            let [starts, limits, strides] = [starts, limits, strides].map(Vec::from);
            let op = Slice { starts, limits, strides };
            check_body(&[values(shape, 1)], |b, x| Ok(vec![b.one(op, x)?]));
        }
    }
}
