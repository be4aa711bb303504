//! QR factorization: an op of the front end, which has a derivative; [`crate::transform::lower()`]
//! makes it the two calls of LAPACK that JAX makes.

use super::{Geqrf, HouseholderProduct, OpView, Signature, StructuredOp, linalg};
use crate::attribute::{Attribute, Attributes};
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::interpret::{self, Frame};
use crate::linalg::upper_triangle;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;

/// `a = q r`, the columns of `q` orthonormal, `r` an upper triangle.
#[derive(Clone, Debug, PartialEq)]
pub struct Qr {
    /// Whether `q` is square, else it has as many columns as the shorter side of `a`.
    pub full: bool,
}

impl StructuredOp for Qr {
    const NAMES: &'static [&'static str] = &["jaxrs.qr"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Qr { full: attributes.take_bool("full_matrices", false)? })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with("full_matrices", Attribute::Bool(self.full))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let [rows, columns] = linalg::operand("qr", signature)?;
        let a = &signature.operands[0];
        let count = if self.full { rows } else { rows.min(columns) };
        Ok(vec![
            linalg::with_last("qr", a, &[rows, count], a.dtype)?,
            linalg::with_last("qr", a, &[count, columns], a.dtype)?,
        ])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let mut function = Function::new("qr");
        let a = function.add_parameter(op.operand_type(0).clone());
        let results = self.expand(&mut Builder::new(&mut function), a)?;
        let body = function.body;
        function.blocks[body].yields = results.to_vec();
        interpret::call(None, &function, operands).map_err(|error| error.message)
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}

impl Qr {
    /// Appends the ops that it stands for.
    pub(crate) fn expand(&self, b: &mut Builder<'_>, a: ValueId) -> Result<[ValueId; 2], String> {
        let ty = b.ty(a);
        let rank = ty.rank();
        let [rows, columns] = linalg::matrices("qr", &ty)?;
        let short = rows.min(columns);
        let count = if self.full { rows } else { short };
        let results = b.push(Geqrf, &[a], &[])?;
        let (packed, factors) = (results[0], results[1]);
        let reflections = if count <= columns {
            b.slice_axis(packed, rank - 1, 0, count)?
        } else {
            let zero = b.zeros(&TensorType::scalar(ty.dtype))?;
            let (mut high, none) = (vec![0; rank], vec![0; rank]);
            high[rank - 1] = (count - columns) as i64;
            b.pad(packed, zero, &none, &high, &vec![0; rank])?
        };
        let q = b.one(HouseholderProduct, &[reflections, factors])?;
        let r = b.slice_axis(packed, rank - 2, 0, count)?;
        Ok([q, upper_triangle(b, r, 0)?])
    }
}
