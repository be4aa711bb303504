//! LU factorization with partial pivoting: JAX's `lapack_*getrf_ffi`.

use super::{OpView, Signature, StructuredOp, linalg};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::linalg::Routine;

/// `p a = l u`. Results: `l` (its diagonal is one) and `u` in one matrix; for each pivot, the row that
/// was swapped with its own, from 1; 0, or the position of the first pivot that is zero, from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Lu;

impl StructuredOp for Lu {
    const NAMES: &'static [&'static str] = &["jaxrs.lu"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Lu)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let [rows, columns] = linalg::operand("lu", signature)?;
        let a = &signature.operands[0];
        let pivots = linalg::with_last("lu", a, &[rows.min(columns)], DType::I32)?;
        Ok(vec![a.clone(), pivots, linalg::with_last("lu", a, &[], DType::I32)?])
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

impl Lu {
    fn routine(&self) -> Routine {
        Routine::Lu
    }
}
