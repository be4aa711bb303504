//! `stablehlo.cholesky`: the triangular factor of Hermitian positive definite matrices.
//!
//! What StableHLO leaves open: the other triangle of the result is zero, and the result of a matrix
//! that is not positive definite is NaN, as JAX has it. JAX's `lapack_*potrf_ffi` has a second
//! result that says so.

use super::{OpView, Signature, StructuredOp, linalg};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::linalg::Routine;

/// A Cholesky factorization.
#[derive(Clone, Debug, PartialEq)]
pub struct Cholesky {
    /// Whether `a = l l^H` is computed from the lower triangle, else `a = u^H u` from the upper one.
    pub lower: bool,
    /// Whether there is a second result: 0, or the order of the first leading part of the matrix
    /// that is not positive definite.
    pub info: bool,
}

impl StructuredOp for Cholesky {
    const NAMES: &'static [&'static str] = &["stablehlo.cholesky", "jaxrs.potrf"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let lower = attributes.take_bool("lower", false)?;
        Ok(Cholesky { lower, info: attributes.take_bool("info", false)? })
    }

    fn attributes(&self) -> Attributes {
        let attributes = Attributes::new().with("lower", Attribute::Bool(self.lower));
        if self.info { attributes.with("info", Attribute::Bool(true)) } else { attributes }
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("cholesky", 1, 0)?;
        let operand = &signature.operands[0];
        linalg::square("cholesky", operand)?;
        let mut results = vec![operand.clone()];
        if self.info {
            results.push(linalg::with_last("cholesky", operand, &[], DType::I32)?);
        }
        Ok(results)
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

impl Cholesky {
    fn routine(&self) -> Routine {
        Routine::Cholesky { lower: self.lower, info: self.info }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret;
    use crate::testing::{assert_close, fault, function, tensor};

    #[test]
    fn one_triangle_is_read_and_the_other_is_zero() {
        let x = tensor(DType::F32, &[2, 2, 2], &[4., 9., 2., 5., 9., 3., 8., 2.]);
        let op = |lower| Cholesky { lower, info: true };
        let run = |lower| {
            let f = function(op(lower), std::slice::from_ref(&x));
            interpret::call(None, &f, std::slice::from_ref(&x)).expect("runs")
        };
        let nan = f64::NAN;
        let lower = tensor(DType::F32, &[2, 2, 2], &[2., 0., 1., 2., nan, nan, nan, nan]);
        assert_close(&run(true)[0], &lower, 1e-6);
        assert_eq!(run(true)[1], tensor(DType::I32, &[2], &[0., 2.]));
        let upper = tensor(DType::F32, &[2, 2, 2], &[nan, nan, nan, nan, 3., 1., 0., 1.]);
        assert_close(&run(false)[0], &upper, 1e-6);
        assert_eq!(run(false)[1], tensor(DType::I32, &[2], &[2., 0.]));
        // Rounded once from f32.
        let x = tensor(DType::BF16, &[1, 1], &[2.0]);
        let f = function(Cholesky { lower: true, info: false }, std::slice::from_ref(&x));
        let got = interpret::call(None, &f, &[x]).expect("runs");
        assert_close(&got[0], &tensor(DType::BF16, &[1, 1], &[2f64.sqrt()]), 0.0);
    }

    #[test]
    fn faults_are_told() {
        let op = Cholesky { lower: true, info: false };
        for (ty, message) in [
            (
                TensorType::new([2, 3], DType::F32),
                "cholesky: the matrices of tensor<2x3xf32> are not square",
            ),
            (TensorType::new([3], DType::F32), "cholesky: tensor<3xf32> has no two axes"),
            (TensorType::new([3, 3], DType::I32), "cholesky: element type i32 is not taken"),
        ] {
            assert_eq!(fault(op.clone(), &[ty]), message);
        }
    }
}
