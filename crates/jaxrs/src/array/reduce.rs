//! Reductions.

use super::{Array, IntoAxes};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::DType;
use jaxrs_ir::ops;
use jaxrs_kernel::dtype::Class;

/// The element type in which elements of a type are summed: as NumPy, small integers in 32 bits.
fn sum_type(dtype: DType) -> DType {
    match dtype {
        DType::I1 | DType::I8 | DType::I16 => DType::I32,
        DType::U8 | DType::U16 => DType::U32,
        other => other,
    }
}

impl Array {
    /// The sum along axes; `i1` and small integers are summed as 32-bit integers.
    #[track_caller]
    pub fn sum(&self, axes: impl IntoAxes) -> Array {
        let (rank, dtype) = (self.rank(), sum_type(self.dtype()));
        trace::one(&[self], Place::here(), |b, x| {
            let axes = axes.into_axes(rank)?;
            let x = b.convert(x[0], dtype)?;
            b.sum(x, &axes)
        })
    }

    /// The mean along axes; integers as `f32`.
    #[track_caller]
    pub fn mean(&self, axes: impl IntoAxes) -> Array {
        let rank = self.rank();
        let dtype = match self.dtype().class() {
            Class::Float | Class::Complex => self.dtype(),
            _ => DType::F32,
        };
        trace::one(&[self], Place::here(), |b, x| {
            let axes = axes.into_axes(rank)?;
            let x = b.convert(x[0], dtype)?;
            let count: u64 = axes.iter().map(|&axis| b.ty(x).shape[axis]).product();
            let sum = b.sum(x, &axes)?;
            let count = b.full_like(sum, count as f64)?;
            b.divide(sum, count)
        })
    }

    /// The matrix product: the last axis with the first but one of the other, batch axes
    /// broadcast; vectors as in NumPy's `matmul`.
    #[track_caller]
    pub fn dot(&self, other: &Array) -> Array {
        let dtype = super::promote(self.dtype(), other.dtype());
        trace::one(&[self, other], Place::here(), |b, x| {
            let (x, y) = (b.convert(x[0], dtype)?, b.convert(x[1], dtype)?);
            let (m, n) = (b.ty(x).rank(), b.ty(y).rank());
            if m == 0 || n == 0 {
                return Err("dot: an operand has no axis".into());
            }
            let op = ops::DotGeneral {
                lhs_batch: Vec::new(),
                rhs_batch: Vec::new(),
                lhs_contracting: vec![m - 1],
                rhs_contracting: vec![n.saturating_sub(2)],
                result: dtype,
            };
            b.one(op, &[x, y])
        })
    }
}
