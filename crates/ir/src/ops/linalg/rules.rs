//! Batches of linear algebra: a further leading axis of matrices.

use super::super::{
    Cholesky, Eigh, Fft, Geqrf, HouseholderProduct, Lu, OpView, Svd, TriangularSolve,
};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};

macro_rules! batch_only {
    ($($op:ident),*) => {
        $(impl Rules for $op {
            fn jvp(&self, _: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
                none(op, "derivative", "it is not written yet")
            }

            fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
                none(op, "transpose", "it is not written yet")
            }

            fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
                cx.is_elementwise(op)
            }
        })*
    };
}
batch_only!(Cholesky, Eigh, Fft, Geqrf, HouseholderProduct, Lu, Svd, TriangularSolve);
