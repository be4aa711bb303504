//! Batch normalizations, of values whose sums are exact in any order.

use crate::build::{Gen, sum_reach};
use jaxrs_ir::ops::batch_norm_inference::Features;
use jaxrs_ir::ops::{BatchNormGrad, BatchNormInference, BatchNormTraining};
use jaxrs_ir::{TensorType, ValueId};

/// One of the three batch normalizations.
pub fn batch_norm(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.dtype(v).is_float() && g.f.ty(v).rank() > 0)?;
    let ty = g.ty(x);
    let axis = g.r.index(ty.rank());
    let epsilon = g.r.pick(&[0.0, 0.5, f64::from(1e-3f32)]);
    let features = Features { axis, epsilon };
    let feature = TensorType::new([ty.shape[axis]], ty.dtype);
    let count: u64 = (0..ty.rank()).filter(|&a| a != axis).map(|a| ty.shape[a]).product();
    let bound = g.bound(x);
    match g.r.below(3) {
        0 => {
            let mut operands = vec![x];
            operands.extend((0..4).map(|_| g.of(&feature)));
            g.add(BatchNormInference { features }, &operands, f64::INFINITY)
        }
        // The mean is exact then, and so is the sum of the squares round it.
        1 if count.is_power_of_two() && count <= 64 && bound <= 3.0 => {
            let operands = [x, g.of(&feature), g.of(&feature)];
            let results = g.push(BatchNormTraining { features }, &operands, &[])?;
            for result in results {
                g.keep(result, f64::INFINITY);
            }
            g.scope.last().copied()
        }
        _ if count as f64 * 4.0 * (bound + 3.0) <= sum_reach(ty.dtype) => {
            let (scale, variance) = (g.of(&feature), g.of(&feature));
            let (mean, grad) = (g.tame(&feature, 3.0), g.tame(&ty, 3.0));
            let op = BatchNormGrad { features };
            let results = g.push(op, &[x, scale, mean, variance, grad], &[])?;
            g.keep(results[0], f64::INFINITY);
            g.keep(results[1], f64::INFINITY);
            Some(g.keep(results[2], 3.0 * count as f64))
        }
        _ => None,
    }
}
