//! `stablehlo.triangular_solve`: solves systems of equations with triangular matrices.

use super::{OpView, Signature, StructuredOp, linalg};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::linalg::{Routine, Solve, Turn};

/// Solves `op(a) x = b` or `x op(a) = b`.
#[derive(Clone, Debug, PartialEq)]
pub struct TriangularSolve {
    /// Which system.
    pub solve: Solve,
}

impl StructuredOp for TriangularSolve {
    const NAMES: &'static [&'static str] = &["stablehlo.triangular_solve"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let turn = match attributes.take_enum("transpose_a")?.as_deref() {
            None | Some("NO_TRANSPOSE") => Turn::None,
            Some("TRANSPOSE") => Turn::Transpose,
            Some("ADJOINT") => Turn::Adjoint,
            Some(other) => {
                return Err(format!(
                    "triangular_solve: transpose_a is {other}, expected NO_TRANSPOSE, TRANSPOSE or \
                     ADJOINT"
                ));
            }
        };
        let left = attributes.take_bool("left_side", false)?;
        let lower = attributes.take_bool("lower", false)?;
        let unit = attributes.take_bool("unit_diagonal", false)?;
        Ok(TriangularSolve { solve: Solve { left, lower, unit, turn } })
    }

    fn attributes(&self) -> Attributes {
        let turn = match self.solve.turn {
            Turn::None => "NO_TRANSPOSE",
            Turn::Transpose => "TRANSPOSE",
            Turn::Adjoint => "ADJOINT",
        };
        Attributes::new()
            .with("left_side", Attribute::Bool(self.solve.left))
            .with("lower", Attribute::Bool(self.solve.lower))
            .with("transpose_a", Attribute::Enum("transpose".into(), turn.into()))
            .with("unit_diagonal", Attribute::Bool(self.solve.unit))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("triangular_solve", 2, 0)?;
        let [a, b] = &signature.operands[..] else { unreachable!("two operands") };
        let size = linalg::square("triangular_solve", a)?;
        let [rows, columns] = linalg::matrices("triangular_solve", b)?;
        if a.dtype != b.dtype || a.shape[..a.rank() - 2] != b.shape[..b.rank() - 2] {
            return Err(format!(
                "triangular_solve: a is {a}, b is {b}; element types and leading axes must be equal"
            ));
        }
        if size != if self.solve.left { rows } else { columns } {
            let (side, axis) = if self.solve.left { ("left", "rows") } else { ("right", "columns") };
            return Err(format!(
                "triangular_solve: a is {a} and stands {side}, but b is {b}, with other {axis}"
            ));
        }
        Ok(vec![b.clone()])
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

impl TriangularSolve {
    fn routine(&self) -> Routine {
        Routine::Solve(self.solve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret;
    use crate::testing::{assert_close, fault, program, tensor};
    use jaxrs_kernel::DType;

    #[test]
    fn solves_from_either_side() {
        let run = |left: bool, turn: &str, b: &Literal| {
            let text = format!(
                "(%a: tensor<2x2xf64>, %b: tensor<2x2xf64>) -> tensor<2x2xf64> {{
                  %0 = \"stablehlo.triangular_solve\"(%a, %b) <{{left_side = {left}, lower = true,
                    transpose_a = #stablehlo<transpose {turn}>, unit_diagonal = false}}>
                    : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
                  return %0 : tensor<2x2xf64>
                }}"
            );
            let a = tensor(DType::F64, &[2, 2], &[2., 77., 1., 4.]);
            interpret::call(None, &program(&text), &[a, b.clone()]).expect("runs").remove(0)
        };
        let b = |values: &[f64]| tensor(DType::F64, &[2, 2], values);
        assert_close(&run(true, "NO_TRANSPOSE", &b(&[2., 4., 9., 6.])), &b(&[1., 2., 2., 1.]), 0.0);
        assert_close(&run(true, "ADJOINT", &b(&[4., 5., 8., 4.])), &b(&[1., 2., 2., 1.]), 0.0);
        assert_close(&run(false, "TRANSPOSE", &b(&[2., 9., 4., 6.])), &b(&[1., 2., 2., 1.]), 0.0);
    }

    #[test]
    fn faults_are_told() {
        let solve = Solve { left: true, lower: true, unit: false, turn: Turn::None };
        let ty = |shape: &[u64], dtype| TensorType::new(shape, dtype);
        for (b, message) in [
            (
                ty(&[3, 2], DType::F32),
                "triangular_solve: a is tensor<2x2xf32> and stands left, but b is tensor<3x2xf32>, \
                 with other rows",
            ),
            (
                ty(&[2, 2], DType::F64),
                "triangular_solve: a is tensor<2x2xf32>, b is tensor<2x2xf64>; element types and \
                 leading axes must be equal",
            ),
        ] {
            assert_eq!(fault(TriangularSolve { solve }, &[ty(&[2, 2], DType::F32), b]), message);
        }
    }
}
