//! Rules of `dot_general`: it is linear in each operand, and each transpose is one again. A batch
//! axis of both operands is a batch axis, of one a free one.

use super::DotGeneral;
use crate::builder::Builder;
use crate::function::ValueId;
use crate::ops::OpView;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use jaxrs_kernel::DType;

/// Where the result's axes of one operand's axes stand.
struct Side<'a> {
    batch: &'a [usize],
    contracting: &'a [usize],
    free: Vec<usize>,
    /// The first of the result's axes that are this operand's free ones.
    first_free: usize,
}

/// Two values in one element type, the one that loses nothing.
pub(in crate::ops) fn promoted(
    b: &mut Builder<'_>,
    x: ValueId,
    y: ValueId,
) -> Result<(ValueId, ValueId, DType), String> {
    let (dx, dy) = (b.ty(x).dtype, b.ty(y).dtype);
    let rank = |dtype: DType| (dtype.is_complex(), dtype.is_float(), dtype.part().bits());
    let dtype = if rank(dx) >= rank(dy) { dx } else { dy };
    Ok((b.convert(x, dtype)?, b.convert(y, dtype)?, dtype))
}

impl DotGeneral {
    fn sides(&self, lhs_rank: usize, rhs_rank: usize) -> [Side<'_>; 2] {
        let (lhs_free, rhs_free) = (self.lhs_free(lhs_rank), self.rhs_free(rhs_rank));
        let batch = self.lhs_batch.len();
        let after = batch + lhs_free.len();
        [
            Side {
                batch: &self.lhs_batch,
                contracting: &self.lhs_contracting,
                free: lhs_free,
                first_free: batch,
            },
            Side {
                batch: &self.rhs_batch,
                contracting: &self.rhs_contracting,
                free: rhs_free,
                first_free: after,
            },
        ]
    }
}

/// The cotangent of one operand from that of the result and the other operand.
fn transposed(
    b: &mut Builder<'_>,
    this: &Side<'_>,
    other: &Side<'_>,
    cotangent: ValueId,
    value: ValueId,
) -> Result<ValueId, String> {
    let (cotangent, value, result) = promoted(b, cotangent, value)?;
    let dot = DotGeneral {
        lhs_batch: (0..this.batch.len()).collect(),
        rhs_batch: other.batch.to_vec(),
        lhs_contracting: (other.first_free..other.first_free + other.free.len()).collect(),
        rhs_contracting: other.free.clone(),
        result,
    };
    let out = b.one(dot, &[cotangent, value])?;
    // The axes of `out` in terms of this operand: batch, free, and the contracting ones in the
    // order in which the other operand has them.
    let mut pairs: Vec<(usize, usize)> =
        other.contracting.iter().copied().zip(this.contracting.iter().copied()).collect();
    pairs.sort_unstable();
    let mut axes: Vec<usize> = this.batch.iter().chain(&this.free).copied().collect();
    axes.extend(pairs.into_iter().map(|(_, axis)| axis));
    let permutation: Vec<usize> = (0..axes.len())
        .map(|axis| axes.iter().position(|&a| a == axis).expect("every axis once"))
        .collect();
    b.transpose(out, &permutation)
}

fn shifted(axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|axis| axis + 1).collect()
}

fn shifted_behind_batch(axes: &[usize]) -> Vec<usize> {
    std::iter::once(0).chain(shifted(axes)).collect()
}

impl Rules for DotGeneral {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_bilinear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let [lhs, rhs] = self.sides(op.operand_type(0).rank(), op.operand_type(1).rank());
        let Some(cotangent) = cx.cotangent(op.result(0)) else { return Ok(()) };
        let first = cx.is_linear(op.operand(0));
        let (this, other) = if first { (&lhs, &rhs) } else { (&rhs, &lhs) };
        let (operand, value) = (usize::from(!first), usize::from(first));
        let value = cx.value(op.operand(value));
        let mut b = cx.builder();
        let out = transposed(&mut b, this, other, cotangent, value)?;
        let out = b.convert(out, op.operand_type(operand).dtype)?;
        cx.add(op.operand(operand), out)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let [lhs, rhs] = [op.operand(0), op.operand(1)];
        let values = [cx.value(lhs), cx.value(rhs)];
        let mut dot = self.clone();
        let at = match (cx.is_batched(lhs), cx.is_batched(rhs)) {
            (true, true) => {
                dot.lhs_batch = shifted_behind_batch(&self.lhs_batch);
                dot.rhs_batch = shifted_behind_batch(&self.rhs_batch);
                dot.lhs_contracting = shifted(&self.lhs_contracting);
                dot.rhs_contracting = shifted(&self.rhs_contracting);
                0
            }
            (true, false) => {
                dot.lhs_batch = shifted(&self.lhs_batch);
                dot.lhs_contracting = shifted(&self.lhs_contracting);
                self.lhs_batch.len()
            }
            (false, _) => {
                dot.rhs_batch = shifted(&self.rhs_batch);
                dot.rhs_contracting = shifted(&self.rhs_contracting);
                self.lhs_batch.len() + self.lhs_free(op.operand_type(0).rank()).len()
            }
        };
        let mut b = cx.builder();
        let result = b.one(dot, &values)?;
        let result = b.move_axis(result, at, 0)?;
        cx.bind(op.result(0), result, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::Literal;
    use crate::transform::testing::{
        Options, check_body, derivatives, function, spread, values,
    };

    fn dot(b: [&[usize]; 2], c: [&[usize]; 2], result: DType) -> DotGeneral {
        DotGeneral {
            lhs_batch: b[0].to_vec(),
            rhs_batch: b[1].to_vec(),
            lhs_contracting: c[0].to_vec(),
            rhs_contracting: c[1].to_vec(),
            result,
        }
    }

    #[test]
    fn derivatives_and_batches() {
        type Axes = [&'static [usize]; 2];
        let cases: [([&[u64]; 2], Axes, Axes); 6] = [
            ([&[2, 3], &[3, 4]], [&[], &[]], [&[1], &[0]]),
            ([&[3], &[3]], [&[], &[]], [&[0], &[0]]),
            ([&[2], &[3]], [&[], &[]], [&[], &[]]),
            ([&[2, 3, 4], &[4, 2, 2]], [&[0], &[1]], [&[2], &[0]]),
            ([&[3, 2, 4], &[4, 5, 3]], [&[], &[]], [&[2, 0], &[0, 2]]),
            ([&[2, 3, 2, 2], &[2, 2, 3, 4]], [&[1, 3], &[2, 0]], [&[0], &[1]]),
        ];
        for (n, ([lhs, rhs], batch, contracting)) in cases.into_iter().enumerate() {
            let inputs = [values(lhs, n as u64), values(rhs, n as u64 + 9)];
            check_body(&inputs, |b, x| Ok(vec![b.one(dot(batch, contracting, DType::F64), x)?]));
        }
        let complex: Vec<Literal> =
            [1, 2].map(|seed| spread(DType::C128, &[2, 2], -1.0, 1.0, seed)).to_vec();
        check_body(&complex, |b, x| {
            Ok(vec![b.one(dot([&[], &[]], [&[1], &[0]], DType::C128), x)?])
        });
    }

    #[test]
    fn a_value_with_itself() {
        check_body(&[values(&[3, 3], 1)], |b, x| {
            Ok(vec![b.one(dot([&[], &[]], [&[0], &[1]], DType::F64), &[x[0], x[0]])?])
        });
    }

    #[test]
    fn cotangents_have_the_operands_types() {
        let types = [(DType::BF16, DType::BF16, DType::F32), (DType::F32, DType::F64, DType::F64)];
        for (lhs, rhs, result) in types {
            let ty = |dtype| crate::TensorType::new([2, 2], dtype);
            let f = function(&[ty(lhs), ty(rhs)], |b, x| {
                Ok(vec![b.one(dot([&[], &[]], [&[1], &[0]], result), x)?])
            });
            let parts = crate::transform::linearize(&f, &[true, true]).expect("a derivative");
            let back = crate::transform::transpose(&parts.linear, parts.residuals);
            let back = back.expect("a transpose");
            let types: Vec<DType> = back.results().iter().map(|&v| back.ty(v).dtype).collect();
            assert_eq!(types, [lhs, rhs]);
        }
    }

    #[test]
    fn empty_axes() {
        let inputs = [values(&[2, 0], 1), values(&[0, 3], 2)];
        let f = function(&[inputs[0].ty().clone(), inputs[1].ty().clone()], |b, x| {
            Ok(vec![b.one(dot([&[], &[]], [&[1], &[0]], DType::F64), x)?])
        });
        derivatives(&f, &inputs, &[true, true], Options::default());
    }
}
