//! Eigenvalues and eigenvectors of Hermitian matrices: JAX's `lapack_*syevd_ffi` and
//! `lapack_*heevd_ffi`.

use super::{OpView, Signature, StructuredOp, linalg};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::linalg::Routine;

/// `a v = v diag(w)`. Results: `v`; `w`, ascending; and 0, or 1 for a matrix that is not finite, of
/// which all is NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Eigh {
    /// Whether the lower triangle is read, else the upper one.
    pub lower: bool,
}

impl StructuredOp for Eigh {
    const NAMES: &'static [&'static str] = &["jaxrs.eigh"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Eigh { lower: attributes.take_bool("lower", true)? })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with("lower", Attribute::Bool(self.lower))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        linalg::operand("eigh", signature)?;
        let a = &signature.operands[0];
        let size = linalg::square("eigh", a)?;
        let values = linalg::with_last("eigh", a, &[size], a.dtype.part())?;
        Ok(vec![a.clone(), values, linalg::with_last("eigh", a, &[], DType::I32)?])
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

impl Eigh {
    fn routine(&self) -> Routine {
        Routine::Eigh { lower: self.lower }
    }
}
