//! The second half of a QR factorization: JAX's `lapack_*orgqr_ffi` and `lapack_*ungqr_ffi`.

use super::{OpView, Signature, StructuredOp, linalg};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::linalg::Routine;

/// The first columns of the product of reflections, given as [`super::Geqrf`] gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct HouseholderProduct;

impl StructuredOp for HouseholderProduct {
    const NAMES: &'static [&'static str] = &["jaxrs.householder_product"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(HouseholderProduct)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("householder_product", 2, 0)?;
        let [a, factors] = &signature.operands[..] else { unreachable!("two operands") };
        linalg::wide("householder_product", a)?;
        let [rows, columns] = linalg::matrices("householder_product", a)?;
        let count = factors.shape.last().copied().unwrap_or(0);
        let expected = linalg::with_last("householder_product", a, &[count], a.dtype)?;
        if *factors != expected || count > columns || columns > rows {
            return Err(format!(
                "householder_product: {factors} are no factors of at most so many reflections as \
                 {a} has columns, which are at most as many as its rows"
            ));
        }
        Ok(vec![a.clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        Ok(linalg::evaluate(self.routine(op), operands, &op.result_types()))
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        linalg::lower(self.routine(op), op.result_type(0))
    }
}

impl HouseholderProduct {
    fn routine(&self, op: OpView<'_>) -> Routine {
        Routine::Reflections { count: *op.operand_type(1).shape.last().expect("a checked shape") }
    }
}
