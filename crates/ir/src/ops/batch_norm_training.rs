//! `stablehlo.batch_norm_training`: normalizes by the mean and variance of each feature in the
//! batch, and gives these, too.

use super::batch_norm_inference::{
    Features, features, from_numbers, numbers, of_feature, rounded, step,
};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{Emitter, Lowering, nest};
use crate::ops::normalization;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::builder::{self, Build, LoopOptions};
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::{Affine, BinaryOp, Reg};

/// A normalization: operands are `x`, scale, offset; results the normal form, mean, variance.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNormTraining {
    /// Axis and epsilon.
    pub features: Features,
}

/// Sums over all elements of a feature: loops over the axes but `index`'s feature axis from `axis`
/// on.
pub(super) fn sums(
    e: &mut Emitter<'_>,
    (shape, feature_axis): (&[u64], usize),
    index: &mut Vec<Affine>,
    axis: usize,
    values: &[Reg],
    terms: &mut dyn FnMut(&mut Emitter<'_>, &[Affine]) -> Vec<Reg>,
) -> Vec<Reg> {
    // Without elements no loop may be left around nothing.
    if shape.contains(&0) {
        return values.to_vec();
    }
    if axis == shape.len() {
        let terms = terms(e, index);
        let pairs = values.iter().zip(terms);
        return pairs.map(|(&sum, x)| e.builder().binary(BinaryOp::Add, sum, x)).collect();
    }
    if axis == feature_axis {
        return sums(e, (shape, feature_axis), index, axis + 1, values, terms);
    }
    let carries: Vec<_> = values.iter().map(|&value| (value, Some(BinaryOp::Add))).collect();
    let options = LoopOptions { ranged: false, split: true };
    builder::reduce(e, shape[axis] as i64, options, LoopKind::Reduce, &carries, |e, var, values| {
        index[axis] = var.clone();
        sums(e, (shape, feature_axis), index, axis + 1, values, terms)
    })
}

/// Elements of a feature.
pub(super) fn count(ty: &TensorType, axis: usize) -> u64 {
    let others = (0..ty.rank()).filter(|&a| a != axis);
    others.map(|a| ty.shape[a]).product()
}

impl BatchNormTraining {
    fn emit(&self, e: &mut Emitter<'_>, op: OpView<'_>) {
        let (ty, axis) = (op.operand_type(0), self.features.axis);
        nest(e, &[ty.shape[axis]], true, |e, feature| {
            let feature = &feature[0];
            let mut index = vec![Affine::constant(0); ty.rank()];
            index[axis] = feature.clone();
            let reg = ty.dtype.reg();
            let zero = e.builder().constant(reg, 0);
            let count = e.builder().float(reg, count(ty, axis) as f64);
            let shape = (&ty.shape[..], axis);
            let read = |e: &mut Emitter<'_>, at: &[Affine]| e.read(op.operand(0), at).real();
            let sum = sums(e, shape, &mut index, 0, &[zero], &mut |e, at| vec![read(e, at)])[0];
            let mean = e.builder().binary(BinaryOp::Div, sum, count);
            let squares = sums(e, shape, &mut index, 0, &[zero], &mut |e, at| {
                let x = read(e, at);
                let b = e.builder();
                let centered = b.binary(BinaryOp::Sub, x, mean);
                vec![b.binary(BinaryOp::Mul, centered, centered)]
            })[0];
            let variance = e.builder().binary(BinaryOp::Div, squares, count);
            let [scale, offset] = [1, 2].map(|operand| of_feature(e, op, operand, feature));
            let mut inner = ty.shape.clone();
            inner[axis] = 1;
            nest(e, &inner, false, |e, at| {
                let mut at = at.to_vec();
                at[axis] = feature.clone();
                let x = read(e, &at);
                let b = e.builder();
                let normal = self.features.normalize(b, x, mean, variance);
                let scaled = b.binary(BinaryOp::Mul, normal, scale);
                let out = b.binary(BinaryOp::Add, scaled, offset);
                let out = rounded(b, ty.dtype, out);
                e.write(op.result(0), &at, out);
            });
            for (n, value) in [(1, mean), (2, variance)] {
                let value = rounded(e.builder(), ty.dtype, value);
                e.write(op.result(n), std::slice::from_ref(feature), value);
            }
        });
    }
}

impl StructuredOp for BatchNormTraining {
    const NAMES: &'static [&'static str] = &["stablehlo.batch_norm_training"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let features = Features::read("batch_norm_training", attributes, signature)?;
        Ok(BatchNormTraining { features })
    }

    fn attributes(&self) -> Attributes {
        self.features.attributes()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let feature = self.features.check("batch_norm_training", signature, 3, &[])?;
        Ok(vec![signature.operands[0].clone(), feature.clone(), feature])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (ty, axis) = (op.operand_type(0), self.features.axis);
        let (x, of) = (numbers(&operands[0]), features(ty, axis));
        let (scale, offset) = (numbers(&operands[1]), numbers(&operands[2]));
        let (step, count) = (step(ty.dtype), count(ty, axis) as f64);
        let average = |term: &dyn Fn(f64, usize) -> f64| {
            let mut sums = vec![0.0; ty.shape[axis] as usize];
            x.iter().zip(&of).for_each(|(&x, &f)| sums[f] += term(x, f));
            sums.iter().map(|&sum| step(step(sum) / count)).collect::<Vec<f64>>()
        };
        let mean = average(&|x, _| x);
        let variance = average(&|x, f| step(step(x - mean[f]).powi(2)));
        let normalize = |(&x, &f): (&f64, &usize)| {
            self.features.normal_number(&step, x, [mean[f], variance[f], scale[f], offset[f]])
        };
        let out: Vec<f64> = x.iter().zip(&of).map(normalize).collect();
        Ok([out, mean, variance]
            .iter()
            .enumerate()
            .map(|(n, numbers)| from_numbers(op.result_type(n), numbers))
            .collect())
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let emit = move |e: &mut Emitter<'_>| self.emit(e, op);
        Lowering::Loops { updates: Vec::new(), emit: Box::new(emit) }
    }
}

impl Rules for BatchNormTraining {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.as_function(op, &normalization::training(op, &self.features)?, &op.data().operands)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", normalization::NO_TRANSPOSE)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.as_function(op, &normalization::training(op, &self.features)?, &op.data().operands)
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchNormTraining, Features};
    use crate::testing::{check_function, program, small, tensor};
    use crate::transform::testing::{check_body, values};
    use jaxrs_kernel::DType;

    fn text(shape: &str, feature: u64, axis: usize, dtype: &str) -> String {
        let (x, f) = (format!("tensor<{shape}{dtype}>"), format!("tensor<{feature}x{dtype}>"));
        format!(
            "(%x: {x}, %s: {f}, %o: {f}) -> ({x}, {f}, {f}) {{
              %0:3 = \"stablehlo.batch_norm_training\"(%x, %s, %o)
                <{{epsilon = 0.0 : f32, feature_index = {axis} : i64}}>
                : ({x}, {f}, {f}) -> ({x}, {f}, {f})
              return %0#0, %0#1, %0#2 : {x}, {f}, {f}
            }}"
        )
    }

    #[test]
    fn the_batch_is_normalized() {
        let function = program(&text("2x2x2x", 2, 2, "f64"));
        let x = tensor(DType::F64, &[2, 2, 2], &[1., 2., 3., 4., 3., 4., 1., 2.]);
        let ones = tensor(DType::F64, &[2], &[1.; 2]);
        let got = check_function(&function, &[x, ones.clone(), ones.clone()], 1e-12);
        assert_eq!(got[0], tensor(DType::F64, &[2, 2, 2], &[0., 0., 2., 2., 2., 2., 0., 0.]));
        assert_eq!(got[1], tensor(DType::F64, &[2], &[2., 3.]));
        assert_eq!(got[2], ones);
    }

    #[test]
    fn kernels_agree() {
        for (dtype, tolerance) in [(DType::F32, 1e-4), (DType::BF16, 3e-2)] {
            for axis in 0..3 {
                let function = program(&text("3x4x5x", 3 + axis, axis as usize, dtype.name()));
                let operands = [
                    small(dtype, &[3, 4, 5], 1),
                    small(dtype, &[3 + axis], 2),
                    tensor(dtype, &[3 + axis], &vec![20.0; 3 + axis as usize]),
                ];
                check_function(&function, &operands, tolerance);
            }
        }
    }

    #[test]
    fn rules() {
        for (axis, extent) in [(0, 2), (1, 3)] {
            let features = [2, 3].map(|seed| values(&[extent], seed));
            let inputs = [vec![values(&[2, 3, 2], 1)], features.to_vec()].concat();
            let op = BatchNormTraining { features: Features { axis, epsilon: 0.1 } };
            check_body(&inputs, |b, x| b.push(op, x, &[]));
        }
    }
}
