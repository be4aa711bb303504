//! The first half of a QR factorization: JAX's `lapack_*geqrf_ffi`.

use super::{OpView, Signature, StructuredOp, linalg};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::linalg::Routine;

/// `a = q r`. Results: `r` in the upper triangle and the vectors of the reflections whose product is
/// `q` below; the reflections' factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Geqrf;

impl StructuredOp for Geqrf {
    const NAMES: &'static [&'static str] = &["jaxrs.geqrf"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Geqrf)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let [rows, columns] = linalg::operand("geqrf", signature)?;
        let a = &signature.operands[0];
        Ok(vec![a.clone(), linalg::with_last("geqrf", a, &[rows.min(columns)], a.dtype)?])
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

impl Geqrf {
    fn routine(&self) -> Routine {
        Routine::Qr
    }
}
