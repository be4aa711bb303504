//! `stablehlo.batch_norm_inference`: normalizes by a given mean and variance of each feature; and
//! what its two siblings share.
//!
//! Kernels compute in `f32` (`f64` for `f64`) and round once; the interpreter computes in `f64`.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Emitter, Lowering, Scalar};
use crate::ops::combiner::rounding;
use crate::ops::normalization;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::{TensorType, advance};
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::inst::{Typed, eval_cast, eval_unary};
use jaxrs_kernel::{Affine, BinaryOp, CastOp, DType, KernelBuilder, Reg, RegType, UnaryOp};

/// Which axis has the features, and what is added to a variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// The axis.
    pub axis: usize,
    /// Added to each variance.
    pub epsilon: f64,
}

impl Features {
    /// From the attributes `feature_index` and `epsilon`.
    pub fn read(
        what: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Features, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        let axis = attributes.need_int("feature_index")?;
        let axis = crate::attribute::axes(&[axis], rank, &format!("{what}: feature_index"))?[0];
        match attributes.take("epsilon") {
            Some(Attribute::Float(epsilon, _)) => Ok(Features { axis, epsilon }),
            Some(Attribute::Int(epsilon, _)) => Ok(Features { axis, epsilon: epsilon as f64 }),
            other => Err(format!("{what}: epsilon: expected a float, found {other:?}")),
        }
    }

    /// The attributes.
    pub fn attributes(&self) -> Attributes {
        Attributes::new()
            .with("epsilon", Attribute::Float(self.epsilon, Some("f32".into())))
            .with_int("feature_index", self.axis as i64)
    }

    /// An error unless the first operand is of floats, of which `whole` more have its type, and the
    /// rest have one element a feature.
    pub fn check(
        &self,
        what: &str,
        signature: &Signature,
        operands: usize,
        whole: &[usize],
    ) -> Result<TensorType, String> {
        signature.expect(what, operands, 0)?;
        let first = &signature.operands[0];
        if !first.dtype.is_float() || self.axis >= first.rank() {
            let axis = self.axis;
            return Err(format!("{what}: expected floats with an axis {axis}, found {first}"));
        }
        let feature = TensorType::new([first.shape[self.axis]], first.dtype);
        for (n, ty) in signature.operands.iter().enumerate() {
            let expected = if n == 0 || whole.contains(&n) { first } else { &feature };
            if ty != expected {
                return Err(format!("{what}: operand {n} is {ty}, expected {expected}"));
            }
        }
        Ok(feature)
    }

    /// The reciprocal-free normal form: `(x - mean) / sqrt(variance + epsilon)`.
    pub(super) fn normalize(&self, b: &mut KernelBuilder, x: Reg, mean: Reg, variance: Reg) -> Reg {
        let centered = b.binary(BinaryOp::Sub, x, mean);
        let deviation = self.deviation(b, variance);
        b.binary(BinaryOp::Div, centered, deviation)
    }

    /// `sqrt(variance + epsilon)`.
    pub(super) fn deviation(&self, b: &mut KernelBuilder, variance: Reg) -> Reg {
        let sum = self.padded(b, variance);
        b.unary(UnaryOp::Sqrt, sum)
    }

    /// [`Features::padded`] of a number, in steps.
    pub(super) fn padded_number(&self, step: &impl Fn(f64) -> f64, variance: f64) -> f64 {
        step(variance + step(self.epsilon))
    }

    /// [`Features::normalize`] of a number, in steps, scaled and moved.
    pub(super) fn normal_number(
        &self,
        step: &impl Fn(f64) -> f64,
        x: f64,
        [mean, variance, scale, offset]: [f64; 4],
    ) -> f64 {
        let deviation = step(self.padded_number(step, variance).sqrt());
        let normal = step(step(x - mean) / deviation);
        step(step(normal * scale) + offset)
    }

    /// `variance + epsilon`.
    pub(super) fn padded(&self, b: &mut KernelBuilder, variance: Reg) -> Reg {
        let ty = b.ty(variance);
        let epsilon = b.float(ty, self.epsilon);
        b.binary(BinaryOp::Add, variance, epsilon)
    }
}

/// What an operation of `f64` gives in the arithmetic of kernels for a type, `f32` but for `f64`: as
/// a double has more than twice the digits, rounding again gives the same as one rounding.
pub(super) fn step(dtype: DType) -> impl Fn(f64) -> f64 {
    move |x| if dtype == DType::F64 { x } else { f64::from(x as f32) }
}

/// The element rounded to its type.
pub(super) fn rounded(b: &mut KernelBuilder, dtype: DType, value: Reg) -> Scalar {
    Scalar::Real(rounding(dtype).map_or(value, |op| b.unary(op, value)))
}

/// The elements as numbers.
pub(super) fn numbers(literal: &Literal) -> Vec<f64> {
    let number = |at| match literal.ty().dtype {
        DType::F64 => f64::from_bits(literal.bits(at, 0)),
        _ => f64::from(f32::from_bits(literal.bits(at, 0) as u32)),
    };
    (0..literal.ty().len()).map(number).collect()
}

/// The tensor of these numbers, rounded to its type.
pub(super) fn from_numbers(ty: &TensorType, numbers: &[f64]) -> Literal {
    let to = ty.dtype.reg();
    let narrow = |&number: &f64| {
        let wide = Typed { ty: RegType::F64, bits: number.to_bits() };
        let bits = if to == RegType::F64 {
            wide.bits
        } else {
            eval_cast(CastOp::FloatToFloat, wide, to)
        };
        rounding(ty.dtype).map_or(bits, |op| eval_unary(op, Typed { ty: to, bits }, to))
    };
    Literal::from_bits(ty.clone(), &numbers.iter().map(narrow).collect::<Vec<u64>>())
}

/// The feature of each element.
pub(super) fn features(ty: &TensorType, axis: usize) -> Vec<usize> {
    let mut index = vec![0; ty.rank()];
    let mut feature = |_| {
        let feature = index[axis] as usize;
        advance(&mut index, &ty.shape);
        feature
    };
    (0..ty.len()).map(&mut feature).collect()
}

/// Reads one number of a feature.
pub(super) fn of_feature(
    e: &mut Emitter<'_>,
    op: OpView<'_>,
    operand: usize,
    feature: &Affine,
) -> Reg {
    e.read(op.operand(operand), std::slice::from_ref(feature)).real()
}

/// A normalization: operands are `x`, scale, offset, mean, variance.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNormInference {
    /// Axis and epsilon.
    pub features: Features,
}

impl StructuredOp for BatchNormInference {
    const NAMES: &'static [&'static str] = &["stablehlo.batch_norm_inference"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let features = Features::read("batch_norm_inference", attributes, signature)?;
        Ok(BatchNormInference { features })
    }

    fn attributes(&self) -> Attributes {
        self.features.attributes()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        self.features.check("batch_norm_inference", signature, 5, &[])?;
        Ok(vec![signature.operands[0].clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let all: Vec<Vec<f64>> = operands.iter().map(numbers).collect();
        let [x, scale, offset, mean, variance] = &all[..] else {
            unreachable!("infer has counted the operands")
        };
        let ty = op.result_type(0);
        let step = step(ty.dtype);
        let normalize = |(&x, f): (&f64, usize)| {
            self.features.normal_number(&step, x, [mean[f], variance[f], scale[f], offset[f]])
        };
        let of = features(ty, self.features.axis);
        let out: Vec<f64> = x.iter().zip(of).map(normalize).collect();
        Ok(vec![from_numbers(ty, &out)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Expensive,
            element: Box::new(move |e, _, index| {
                let x = e.read(op.operand(0), index).real();
                let feature = &index[self.features.axis];
                let [scale, offset, mean, variance] =
                    [1, 2, 3, 4].map(|operand| of_feature(e, op, operand, feature));
                let b = e.builder();
                let normal = self.features.normalize(b, x, mean, variance);
                let scaled = b.binary(BinaryOp::Mul, normal, scale);
                let sum = b.binary(BinaryOp::Add, scaled, offset);
                rounded(b, op.result_type(0).dtype, sum)
            }),
        }
    }
}

impl Rules for BatchNormInference {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.as_function(op, &normalization::inference(op, &self.features)?, &op.data().operands)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", normalization::NO_TRANSPOSE)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.as_function(op, &normalization::inference(op, &self.features)?, &op.data().operands)
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchNormInference, Features};
    use crate::testing::{check_function, program, small, tensor};
    use crate::transform::testing::{check_body, spread, values};
    use jaxrs_kernel::DType;

    #[test]
    fn kernels_agree() {
        for dtype in ["f32", "f64", "bf16", "f16"] {
            let text = format!(
                "(%x: tensor<2x3x4x{dtype}>, %s: tensor<3x{dtype}>, %o: tensor<3x{dtype}>,
                  %m: tensor<3x{dtype}>, %v: tensor<3x{dtype}>) -> tensor<2x3x4x{dtype}> {{
                  %0 = \"stablehlo.batch_norm_inference\"(%x, %s, %o, %m, %v)
                    <{{epsilon = 0.5 : f32, feature_index = 1 : i64}}>
                    : (tensor<2x3x4x{dtype}>, tensor<3x{dtype}>, tensor<3x{dtype}>,
                       tensor<3x{dtype}>, tensor<3x{dtype}>) -> tensor<2x3x4x{dtype}>
                  return %0 : tensor<2x3x4x{dtype}>
                }}"
            );
            let function = program(&text);
            let dtype = DType::from_name(dtype).expect("a type");
            let mut operands = vec![small(dtype, &[2, 3, 4], 0)];
            operands.extend((1..4).map(|seed| small(dtype, &[3], seed)));
            operands.push(tensor(dtype, &[3], &[0.5, 3.5, 8.5]));
            let tolerance = if matches!(dtype, DType::BF16 | DType::F16) { 1e-2 } else { 1e-5 };
            check_function(&function, &operands, tolerance);
        }
    }

    #[test]
    fn rules() {
        for (axis, extent) in [(0, 2), (1, 3)] {
            let features = [2, 3, 4].map(|seed| values(&[extent], seed));
            let variance = spread(DType::F64, &[extent], 0.5, 2.0, 5);
            let inputs = [vec![values(&[2, 3, 2], 1)], features.to_vec(), vec![variance]].concat();
            let op = BatchNormInference { features: Features { axis, epsilon: 0.1 } };
            check_body(&inputs, |b, x| b.push(op, x, &[]));
        }
    }
}
