//! `stablehlo.batch_norm_grad`: the gradients of a normalization of a batch, by the formula of the
//! specification.

use super::batch_norm_inference::{
    Features, features, from_numbers, numbers, of_feature, rounded, step,
};
use super::batch_norm_training::{count, sums};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{Emitter, Lowering, nest};
use crate::ops::normalization;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::{Affine, BinaryOp};

/// Gradients: operands are `x`, scale, mean, variance and the result's gradient; results the
/// gradients of `x`, scale and offset.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNormGrad {
    /// Axis and epsilon.
    pub features: Features,
}

impl BatchNormGrad {
    fn emit(&self, e: &mut Emitter<'_>, op: OpView<'_>) {
        let (ty, axis) = (op.operand_type(0), self.features.axis);
        nest(e, &[ty.shape[axis]], true, |e, feature| {
            let feature = &feature[0];
            let mut index = vec![Affine::constant(0); ty.rank()];
            index[axis] = feature.clone();
            let reg = ty.dtype.reg();
            let [scale, mean, variance] =
                [1, 2, 3].map(|operand| of_feature(e, op, operand, feature));
            let b = e.builder();
            let zero = b.constant(reg, 0);
            let count = b.float(reg, count(ty, axis) as f64);
            let (deviation, padded) =
                (self.features.deviation(b, variance), self.features.padded(b, variance));
            let read = |e: &mut Emitter<'_>, at: &[Affine]| {
                let x = e.read(op.operand(0), at).real();
                let grad = e.read(op.operand(4), at).real();
                (e.builder().binary(BinaryOp::Sub, x, mean), grad)
            };
            let terms = &mut |e: &mut Emitter<'_>, at: &[Affine]| {
                let (centered, grad) = read(e, at);
                vec![grad, e.builder().binary(BinaryOp::Mul, grad, centered)]
            };
            let sums = sums(e, (&ty.shape, axis), &mut index, 0, &[zero, zero], terms);
            let b = e.builder();
            let factor = b.binary(BinaryOp::Div, scale, deviation);
            let factor = b.binary(BinaryOp::Div, factor, count);
            let mut inner = ty.shape.clone();
            inner[axis] = 1;
            nest(e, &inner, false, |e, at| {
                let mut at = at.to_vec();
                at[axis] = feature.clone();
                let (centered, grad) = read(e, &at);
                let b = e.builder();
                let all = b.binary(BinaryOp::Mul, grad, count);
                let along = b.binary(BinaryOp::Mul, sums[1], centered);
                let along = b.binary(BinaryOp::Div, along, padded);
                let rest = b.binary(BinaryOp::Sub, all, sums[0]);
                let rest = b.binary(BinaryOp::Sub, rest, along);
                let out = b.binary(BinaryOp::Mul, factor, rest);
                let out = rounded(b, ty.dtype, out);
                e.write(op.result(0), &at, out);
            });
            let grad_scale = e.builder().binary(BinaryOp::Div, sums[1], deviation);
            for (n, value) in [(1, grad_scale), (2, sums[0])] {
                let value = rounded(e.builder(), ty.dtype, value);
                e.write(op.result(n), std::slice::from_ref(feature), value);
            }
        });
    }
}

impl StructuredOp for BatchNormGrad {
    const NAMES: &'static [&'static str] = &["stablehlo.batch_norm_grad"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let features = Features::read("batch_norm_grad", attributes, signature)?;
        Ok(BatchNormGrad { features })
    }

    fn attributes(&self) -> Attributes {
        self.features.attributes()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let feature = self.features.check("batch_norm_grad", signature, 5, &[4])?;
        Ok(vec![signature.operands[0].clone(), feature.clone(), feature])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (ty, axis) = (op.operand_type(0), self.features.axis);
        let all: Vec<Vec<f64>> = operands.iter().map(numbers).collect();
        let [x, scale, mean, variance, grad] = &all[..] else {
            unreachable!("infer has counted the operands")
        };
        let of = features(ty, axis);
        let mut grad_offset = vec![0.0; ty.shape[axis] as usize];
        let mut products = grad_offset.clone();
        let step = step(ty.dtype);
        for ((&x, &grad), &f) in x.iter().zip(grad).zip(&of) {
            grad_offset[f] += grad;
            products[f] += step(grad * step(x - mean[f]));
        }
        let rounded = |sums: Vec<f64>| -> Vec<f64> { sums.into_iter().map(&step).collect() };
        let (grad_offset, products) = (rounded(grad_offset), rounded(products));
        let count = step(count(ty, axis) as f64);
        let padded: Vec<f64> =
            variance.iter().map(|&v| self.features.padded_number(&step, v)).collect();
        let deviation: Vec<f64> = padded.iter().map(|v| step(v.sqrt())).collect();
        let grad_x = |((&x, &grad), &f): ((&f64, &f64), &usize)| {
            let along = step(step(products[f] * step(x - mean[f])) / padded[f]);
            let factor = step(step(scale[f] / deviation[f]) / count);
            let rest = step(step(step(grad * count) - grad_offset[f]) - along);
            step(factor * rest)
        };
        let out: Vec<f64> = x.iter().zip(grad).zip(&of).map(grad_x).collect();
        let grad_scale: Vec<f64> =
            products.iter().zip(&deviation).map(|(p, d)| step(p / d)).collect();
        Ok([out, grad_scale, grad_offset]
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

impl Rules for BatchNormGrad {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.as_function(op, &normalization::gradient(op, &self.features)?, &op.data().operands)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", normalization::NO_TRANSPOSE)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.as_function(op, &normalization::gradient(op, &self.features)?, &op.data().operands)
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchNormGrad, Features};
    use crate::testing::{check_function, program, small, tensor};
    use crate::transform::testing::{check_body, spread, values};
    use jaxrs_kernel::DType;

    #[test]
    fn kernels_agree() {
        for axis in 0..3_u64 {
            let (x, f) = ("tensor<3x4x5xf64>", format!("tensor<{}xf64>", 3 + axis));
            let text = format!(
                "(%x: {x}, %s: {f}, %m: {f}, %v: {f}, %g: {x}) -> ({x}, {f}, {f}) {{
                  %0:3 = \"stablehlo.batch_norm_grad\"(%x, %s, %m, %v, %g)
                    <{{epsilon = 0.5 : f32, feature_index = {axis} : i64}}>
                    : ({x}, {f}, {f}, {f}, {x}) -> ({x}, {f}, {f})
                  return %0#0, %0#1, %0#2 : {x}, {f}, {f}
                }}"
            );
            let feature = |seed| small(DType::F64, &[3 + axis], seed);
            let operands = [
                small(DType::F64, &[3, 4, 5], 1),
                feature(2),
                feature(3),
                tensor(DType::F64, &[3 + axis], &vec![1.5; 3 + axis as usize]),
                small(DType::F64, &[3, 4, 5], 4),
            ];
            check_function(&program(&text), &operands, 1e-9);
        }
    }

    #[test]
    fn rules() {
        for (axis, extent) in [(0, 2), (1, 3)] {
            let features = [2, 3].map(|seed| values(&[extent], seed));
            let variance = spread(DType::F64, &[extent], 0.5, 2.0, 5);
            let rest = vec![variance, values(&[2, 3, 2], 6)];
            let inputs = [vec![values(&[2, 3, 2], 1)], features.to_vec(), rest].concat();
            let op = BatchNormGrad { features: Features { axis, epsilon: 0.1 } };
            check_body(&inputs, |b, x| b.push(op, x, &[]));
        }
    }
}
