//! Singular value decomposition: JAX's `lapack_*gesdd_ffi`.

use super::{OpView, Signature, StructuredOp, linalg};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::linalg::{Routine, Vectors};

/// `a = u diag(s) v^H`. Results: zeros of the operand's type (LAPACK leaves anything there); `s`,
/// descending; `u`; `v^H`; and 0, or 1 for a matrix that is not finite, of which all is NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Svd {
    /// Which vectors; those that are not computed are zeros.
    pub vectors: Vectors,
}

impl StructuredOp for Svd {
    const NAMES: &'static [&'static str] = &["jaxrs.svd"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        // Where it is not said, the declared shape of the vectors tells.
        let wide = match (&signature.operands[..], &signature.results[..]) {
            ([a], [_, _, u, v, _]) => {
                let count = |ty: &TensorType, back: usize| ty.shape.iter().rev().nth(back).copied();
                count(u, 0) == count(a, 1) && count(v, 1) == count(a, 0)
            }
            _ => false,
        };
        let computed = attributes.take_bool("compute_uv", true)?;
        let full = attributes.take_bool("full_matrices", wide)?;
        Ok(Svd { vectors: Vectors { computed, full } })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
            .with("compute_uv", Attribute::Bool(self.vectors.computed))
            .with("full_matrices", Attribute::Bool(self.vectors.full))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let [rows, columns] = linalg::operand("svd", signature)?;
        let a = &signature.operands[0];
        let short = rows.min(columns);
        let [left, right] =
            if self.vectors.full { [rows, columns] } else { [short; 2] };
        Ok(vec![
            a.clone(),
            linalg::with_last("svd", a, &[short], a.dtype.part())?,
            linalg::with_last("svd", a, &[rows, left], a.dtype)?,
            linalg::with_last("svd", a, &[right, columns], a.dtype)?,
            linalg::with_last("svd", a, &[], DType::I32)?,
        ])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        Ok(linalg::evaluate(self.routine(), operands, &op.result_types()))
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        linalg::lower(self.routine(), op.result_type(0))
    }
}

impl Svd {
    fn routine(&self) -> Routine {
        Routine::Svd { vectors: self.vectors }
    }
}
