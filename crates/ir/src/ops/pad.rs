//! `stablehlo.pad`: padding at the edges (negative: removal) and between elements.

use super::{OpView, Signature, StructuredOp, signed, unsigned};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering};
use crate::ops::Slice;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::{TensorType, advance};
use jaxrs_kernel::Affine;
use jaxrs_kernel::DType;
use jaxrs_kernel::builder::{Build, Guard};

/// More padding than this on one axis would overflow index arithmetic.
const MOST: i64 = 1 << 60;

/// A padding.
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// Elements before the first one of each axis; negative: elements removed.
    pub low: Vec<i64>,
    /// Elements after the last one.
    pub high: Vec<i64>,
    /// Elements between two neighbours.
    pub interior: Vec<u64>,
}

impl StructuredOp for Pad {
    const NAMES: &'static [&'static str] = &["stablehlo.pad"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let interior = attributes.need_ints("interior_padding")?;
        Ok(Pad {
            low: attributes.need_ints("edge_padding_low")?,
            high: attributes.need_ints("edge_padding_high")?,
            interior: unsigned(&interior, "pad: interior_padding")?,
        })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
            .with_ints("edge_padding_low", &self.low)
            .with_ints("edge_padding_high", &self.high)
            .with_ints("interior_padding", &signed(&self.interior))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("pad", 2, 0)?;
        let (operand, padding) = (&signature.operands[0], &signature.operands[1]);
        if padding != &TensorType::scalar(operand.dtype) {
            return Err(format!("pad: the operand is {operand}, the padding value {padding}"));
        }
        let lengths = [self.low.len(), self.high.len(), self.interior.len()];
        if lengths.iter().any(|&length| length != operand.rank()) {
            return Err(format!(
                "pad: {operand} has {} axes, edge_padding_low, edge_padding_high and \
                 interior_padding have {lengths:?} entries",
                operand.rank()
            ));
        }
        let mut shape = Vec::new();
        for (axis, &extent) in operand.shape.iter().enumerate() {
            let (low, high, interior) = (self.low[axis], self.high[axis], self.interior[axis]);
            if low.max(high) > MOST || low.min(high) < -MOST || interior > MOST as u64 {
                return Err(format!(
                    "pad: axis {axis}: padding {low}, {high} and {interior} is too large"
                ));
            }
            let spread = i128::from(extent.saturating_sub(1)) * i128::from(interior);
            let wide = i128::from(extent) + spread;
            let padded = wide + i128::from(low) + i128::from(high);
            if padded < 0 {
                return Err(format!(
                    "pad: axis {axis} of extent {extent} with padding {low} and {high} would have \
                     {padded} elements"
                ));
            }
            if wide.max(padded) > i128::from(MOST) {
                return Err(format!("pad: axis {axis} would have {padded} elements, too many"));
            }
            shape.push(padded as u64);
        }
        Ok(vec![TensorType::checked("pad", shape, operand.dtype)?])
    }

    /// Every element of the operand goes to its place, unless it is removed.
    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (from, result) = (op.operand_type(0), op.result_type(0));
        let size = from.dtype.size() as usize;
        let mut out = operands[1].to_bytes().repeat(result.len() as usize);
        let (bytes, strides) = (operands[0].bytes(), result.strides());
        let mut index = vec![0; from.rank()];
        for position in 0..from.len() as usize {
            let mut to = Some(0);
            for axis in 0..index.len() {
                let place = self.low[axis] + (index[axis] * (self.interior[axis] + 1)) as i64;
                let inside = place >= 0 && place < result.shape[axis] as i64;
                to = to.filter(|_| inside).map(|at| at + place as usize * strides[axis] as usize);
            }
            if let Some(to) = to {
                let element = &bytes[position * size..(position + 1) * size];
                out[to * size..(to + 1) * size].copy_from_slice(element);
            }
            advance(&mut index, &from.shape);
        }
        Ok(vec![Literal::dense(result.clone(), out)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| {
                let from = op.operand_type(0);
                if from.is_empty() {
                    return e.read(op.operand(1), &[]);
                }
                let (mut at, mut inside) = (Vec::new(), Guard::Always);
                for (axis, &extent) in from.shape.iter().enumerate() {
                    let step = self.interior[axis] as i64 + 1;
                    let place = index[axis].offset(-self.low[axis]);
                    let b = e.builder();
                    // The last place that holds an element, plus 1.
                    let end = (extent as i64 - 1) * step + 1;
                    let guard = b.in_range(&place, 0, end);
                    inside = b.both(inside, guard);
                    if extent == 1 {
                        at.push(Affine::constant(0));
                        continue;
                    }
                    if step > 1 {
                        let rest = b.modulo(&place, step);
                        let guard = b.in_range(&rest, 0, 1);
                        inside = b.both(inside, guard);
                    }
                    at.push(b.floor_div(&place, step));
                }
                e.branch(inside, |e| e.read(op.operand(0), &at), |e| e.read(op.operand(1), &[]))
            }),
        }
    }
}

impl Rules for Pad {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let (x, value) = (op.operand(0), op.operand(1));
        let shape = op.operand_type(0).shape.clone();
        let mut b = cx.builder();
        let zero = b.zeros(op.operand_type(1))?;
        let minus = |edges: &[i64]| edges.iter().map(|edge| -edge).collect::<Vec<i64>>();
        // Without edges, then without what stands between.
        let whole = b.pad(ct, zero, &minus(&self.low), &minus(&self.high), &vec![0; shape.len()])?;
        let strides = self.interior.iter().map(|interior| interior + 1).collect();
        let starts = vec![0; shape.len()];
        let limits = b.ty(whole).shape;
        let inner = b.one(Slice { starts, limits, strides }, &[whole])?;
        if cx.is_linear(value) {
            let all: Vec<usize> = (0..shape.len()).collect();
            let mut b = cx.builder();
            let (total, inside) = (b.sum(ct, &all)?, b.sum(inner, &all)?);
            let rest = b.subtract(total, inside)?;
            cx.add(value, rest)?;
        }
        if cx.is_linear(x) { cx.add(x, inner) } else { Ok(()) }
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let (operand, padding) = (op.operand(0), op.operand(1));
        let front = |edges: &[i64]| [&[0], edges].concat();
        let (low, high) = (front(&self.low), front(&self.high));
        let interior = [&[0], &self.interior[..]].concat();
        let x = cx.full(operand)?;
        let value = cx.value(padding);
        let batched = cx.is_batched(padding);
        let mut b = cx.builder();
        let result = if batched {
            let zero = b.zeros(op.operand_type(1))?;
            let padded = b.pad(x, zero, &low, &high, &interior)?;
            let mask = b.full(&op.operand_type(0).with_dtype(DType::I1), 1.0)?;
            let outside = b.zeros(&TensorType::scalar(DType::I1))?;
            let mask = b.pad(mask, outside, &self.low, &self.high, &self.interior)?;
            let shape = b.ty(padded).shape;
            let axes: Vec<usize> = (1..shape.len()).collect();
            let mask = b.broadcast_in_dim(mask, &shape, &axes)?;
            let values = b.broadcast_in_dim(value, &shape, &[0])?;
            b.select(mask, padded, values)?
        } else {
            b.pad(x, value, &low, &high, &interior)?
        };
        cx.bind(op.result(0), result, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, spread, values};
    use crate::testing::{check, fault, pattern, tensor};

    /// Low, high and interior padding of an axis.
    type Axis = (i64, i64, u64);

    fn pad(axes: &[Axis]) -> Pad {
        Pad {
            low: axes.iter().map(|a| a.0).collect(),
            high: axes.iter().map(|a| a.1).collect(),
            interior: axes.iter().map(|a| a.2).collect(),
        }
    }

    #[test]
    fn pads_as_the_specification_shows() {
        let x = tensor(DType::I32, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
        let zero = tensor(DType::I32, &[], &[0.]);
        let mut expected = [0.; 45];
        for (at, value) in [(1, 1.), (4, 2.), (7, 3.), (19, 4.), (22, 5.), (25, 6.)] {
            expected[at] = value;
        }
        let got = check(pad(&[(0, 2, 1), (1, 1, 2)]), &[x, zero]);
        assert_eq!(got, [tensor(DType::I32, &[5, 9], &expected)]);
    }

    #[test]
    fn negative_padding_removes_what_interior_padding_made() {
        let x = tensor(DType::F32, &[3], &[1., 2., 3.]);
        let nine = tensor(DType::F32, &[], &[9.]);
        let got = check(pad(&[(-1, -2, 2)]), &[x, nine]);
        assert_eq!(got, [tensor(DType::F32, &[4], &[9., 9., 2., 9.])]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        let cases: [(&[u64], &[Axis]); 9] = [
            (&[], &[]),
            (&[0], &[(2, 1, 3)]),
            (&[4], &[(-2, -2, 0)]),
            (&[5], &[(-1, 3, 0)]),
            (&[1], &[(2, 2, 7)]),
            (&[1], &[(-1, 2, 0)]),
            (&[3, 4], &[(1, 1, 0), (2, 0, 0)]),
            (&[3, 4], &[(-3, 1, 2), (1, -2, 1)]),
            (&[2, 3, 2], &[(0, 1, 0), (0, 0, 0), (1, 1, 1)]),
        ];
        for dtype in DType::ALL {
            for (shape, axes) in cases {
                check(pad(axes), &[pattern(dtype, shape, 1), pattern(dtype, &[], 2)]);
            }
        }
    }

    #[test]
    fn faults() {
        let operands = |shape: &[u64]| {
            [TensorType::new(shape, DType::F32), TensorType::scalar(DType::F32)]
        };
        assert_eq!(
            fault(pad(&[(-3, -2, 0)]), &operands(&[4])),
            "pad: axis 0 of extent 4 with padding -3 and -2 would have -1 elements"
        );
        fault(pad(&[(0, 0, 0)]), &operands(&[4, 4]));
        fault(pad(&[(i64::MAX, 0, 0)]), &operands(&[4]));
        fault(pad(&[(i64::MIN, i64::MAX, 0)]), &operands(&[4]));
        fault(pad(&[(0, 0, u64::MAX)]), &operands(&[4]));
        fault(pad(&[(0, 0, 1 << 59)]), &operands(&[1 << 30]));
        let mixed = [TensorType::new([4], DType::F32), TensorType::scalar(DType::I32)];
        fault(pad(&[(0, 0, 0)]), &mixed);
    }

    #[test]
    fn rules() {
        for (shape, low, high, interior) in [
            (&[3][..], &[1][..], &[2][..], &[0][..]),
            (&[4], &[-1], &[1], &[1]),
            (&[3], &[-2], &[-1], &[2]),
            (&[2, 3], &[0, 1], &[1, -1], &[1, 0]),
            (&[0], &[2], &[0], &[1]),
            (&[], &[], &[], &[]),
        ] {
            let inputs = [values(shape, 1), values(&[], 2)];
            check_body(&inputs, |b, x| Ok(vec![b.pad(x[0], x[1], low, high, interior)?]));
        }
        let inputs = [&[3][..], &[]].map(|shape| spread(DType::C128, shape, -1.0, 1.0, 1));
        check_body(&inputs, |b, x| Ok(vec![b.pad(x[0], x[1], &[-1], &[2], &[1])?]));
    }
}
