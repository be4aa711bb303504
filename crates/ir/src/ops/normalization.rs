//! Batch normalizations written out in other ops: by these functions their derivatives and batches
//! are taken. Like the ops' kernels they compute 16-bit floats in `f32`.

use super::OpView;
use super::batch_norm_inference::Features;
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::types::TensorType;
use jaxrs_kernel::DType;

/// Why the ops have no transpose.
pub(super) const NO_TRANSPOSE: &str = "its derivative is made of other ops";

/// A function that grows, with the axes of the normalization.
struct Normalization<'b, 'f> {
    b: &'b mut Builder<'f>,
    axis: usize,
    shape: Vec<u64>,
    epsilon: f64,
}

impl Normalization<'_, '_> {
    /// One value for each feature, repeated to the whole shape.
    fn whole(&mut self, feature: ValueId) -> Result<ValueId, String> {
        self.b.broadcast_in_dim(feature, &self.shape, &[self.axis])
    }

    /// The sums over all elements of a feature.
    fn sum(&mut self, x: ValueId) -> Result<ValueId, String> {
        let others: Vec<usize> = (0..self.shape.len()).filter(|&axis| axis != self.axis).collect();
        self.b.sum(x, &others)
    }

    /// Elements of a feature.
    fn count(&self) -> f64 {
        let others = (0..self.shape.len()).filter(|&axis| axis != self.axis);
        others.map(|axis| self.shape[axis]).product::<u64>() as f64
    }

    fn mean(&mut self, x: ValueId) -> Result<ValueId, String> {
        let sum = self.sum(x)?;
        let count = self.b.full_like(sum, self.count())?;
        self.b.divide(sum, count)
    }

    fn centered(&mut self, x: ValueId, mean: ValueId) -> Result<ValueId, String> {
        let mean = self.whole(mean)?;
        self.b.subtract(x, mean)
    }

    /// `variance + epsilon`.
    fn padded(&mut self, variance: ValueId) -> Result<ValueId, String> {
        let epsilon = self.b.full_like(variance, self.epsilon)?;
        self.b.add(variance, epsilon)
    }

    /// `sqrt(variance + epsilon)`.
    fn deviation(&mut self, variance: ValueId) -> Result<ValueId, String> {
        let padded = self.padded(variance)?;
        self.b.elementwise("stablehlo.sqrt", &[padded])
    }

    /// `centered / sqrt(variance + epsilon) * scale + offset`.
    fn normal(
        &mut self,
        centered: ValueId,
        variance: ValueId,
        scale: ValueId,
        offset: ValueId,
    ) -> Result<ValueId, String> {
        let deviation = self.deviation(variance)?;
        let [deviation, scale, offset] = [deviation, scale, offset].map(|value| self.whole(value));
        let normal = self.b.divide(centered, deviation?)?;
        let scaled = self.b.multiply(normal, scale?)?;
        self.b.add(scaled, offset?)
    }
}

/// A function of the op's operands, whose body works on them in the type of the computation.
fn function(
    op: OpView<'_>,
    features: &Features,
    body: impl FnOnce(&mut Normalization<'_, '_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Result<Function, String> {
    let mut f = Function::new("normalization");
    let types: Vec<TensorType> =
        (0..op.data().operands.len()).map(|n| op.operand_type(n).clone()).collect();
    let parameters: Vec<ValueId> = types.iter().map(|ty| f.add_parameter(ty.clone())).collect();
    let dtype = types[0].dtype;
    let wide = if matches!(dtype, DType::BF16 | DType::F16) { DType::F32 } else { dtype };
    let mut b = Builder::new(&mut f);
    let mut inputs = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        inputs.push(b.convert(parameter, wide)?);
    }
    let (axis, epsilon) = (features.axis, features.epsilon);
    let mut n = Normalization { b: &mut b, axis, shape: types[0].shape.clone(), epsilon };
    let mut results = Vec::new();
    for result in body(&mut n, &inputs)? {
        results.push(b.convert(result, dtype)?);
    }
    f.result_attributes = vec![Default::default(); results.len()];
    let body = f.body;
    f.blocks[body].yields = results;
    Ok(f)
}

/// `batch_norm_inference`.
pub(super) fn inference(op: OpView<'_>, features: &Features) -> Result<Function, String> {
    function(op, features, |n, x| {
        let &[x, scale, offset, mean, variance] = x else {
            return Err("batch_norm_inference: five operands".into());
        };
        let centered = n.centered(x, mean)?;
        Ok(vec![n.normal(centered, variance, scale, offset)?])
    })
}

/// `batch_norm_training`.
pub(super) fn training(op: OpView<'_>, features: &Features) -> Result<Function, String> {
    function(op, features, |n, x| {
        let &[x, scale, offset] = x else {
            return Err("batch_norm_training: three operands".into());
        };
        let mean = n.mean(x)?;
        let centered = n.centered(x, mean)?;
        let squares = n.b.multiply(centered, centered)?;
        let variance = n.mean(squares)?;
        Ok(vec![n.normal(centered, variance, scale, offset)?, mean, variance])
    })
}

/// `batch_norm_grad`.
pub(super) fn gradient(op: OpView<'_>, features: &Features) -> Result<Function, String> {
    function(op, features, |n, x| {
        let &[x, scale, mean, variance, grad] = x else {
            return Err("batch_norm_grad: five operands".into());
        };
        let centered = n.centered(x, mean)?;
        let product = n.b.multiply(grad, centered)?;
        let (sum, products) = (n.sum(grad)?, n.sum(product)?);
        let (padded, deviation) = (n.padded(variance)?, n.deviation(variance)?);
        let along = n.b.divide(products, padded)?;
        let count = n.b.full_like(scale, n.count())?;
        let divisor = n.b.multiply(deviation, count)?;
        let factor = n.b.divide(scale, divisor)?;
        let [along, total, count, factor] = [along, sum, count, factor].map(|value| n.whole(value));
        let along = n.b.multiply(along?, centered)?;
        let all = n.b.multiply(grad, count?)?;
        let rest = n.b.subtract(all, total?)?;
        let rest = n.b.subtract(rest, along)?;
        let grad_x = n.b.multiply(rest, factor?)?;
        Ok(vec![grad_x, n.b.divide(products, deviation)?, sum])
    })
}
