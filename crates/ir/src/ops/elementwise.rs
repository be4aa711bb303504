//! The elementwise ops: one row each.
//!
//! A row gives the name, the types it takes, and the body: the op on one element, as kernel
//! instructions. The interpreter evaluates that body, and every back end compiles it, so that both
//! give the same bits. How exact the bodies are is tested apart, in `tests/accuracy.rs`.

use super::{OpView, Signature};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::{BinaryOp, DType, KernelBuilder};

/// An elementwise op: a row of [`TABLE`].
#[derive(Clone, Copy)]
pub struct Elementwise(&'static Row);

/// What a row says.
pub struct Row {
    /// StableHLO's name.
    pub name: &'static str,
    /// Operands.
    pub arity: usize,
    /// Whether it takes the element type; all operands have one type.
    pub accepts: fn(DType) -> bool,
    /// The result's element type for the operands'.
    pub result: fn(DType) -> DType,
    /// What an element costs.
    pub cost: ElementCost,
    /// The op on one element of the operands' type.
    pub body: fn(&mut KernelBuilder, DType, &[Scalar]) -> Scalar,
}

/// Every elementwise op.
pub static TABLE: &[Row] = &[Row {
    name: "stablehlo.add",
    arity: 2,
    accepts: |_| true,
    result: |d| d,
    cost: ElementCost::Cheap,
    body: |b, _, x| Scalar::Real(b.binary(BinaryOp::Add, x[0].real(), x[1].real())),
}];

impl Elementwise {
    /// The row with this name.
    pub fn from_name(name: &str) -> Option<Elementwise> {
        TABLE.iter().find(|row| row.name == name).map(Elementwise)
    }

    /// StableHLO's name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The row.
    pub fn row(self) -> &'static Row {
        self.0
    }

    /// The result type, or what is wrong with the operands.
    pub fn infer(self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let row = self.0;
        signature.expect(row.name, row.arity, 0)?;
        let first = &signature.operands[0];
        for (position, ty) in signature.operands.iter().enumerate() {
            if ty != first {
                return Err(format!(
                    "{}: operand types differ: operand 0 is {first}, operand {position} is {ty}",
                    row.name
                ));
            }
        }
        if !(row.accepts)(first.dtype) {
            return Err(format!("{}: element type {} is not taken", row.name, first.dtype));
        }
        Ok(vec![first.with_dtype((row.result)(first.dtype))])
    }

    /// The result for operands.
    pub fn evaluate(self, operands: &[Literal]) -> Result<Vec<Literal>, String> {
        let _ = operands;
        todo!()
    }

    /// The body at the index of the result's element.
    pub fn lower<'a>(self, op: OpView<'a>) -> Lowering<'a> {
        let row = self.0;
        Lowering::Elements {
            cost: row.cost,
            element: Box::new(move |e, _, index| {
                let operands: Vec<Scalar> =
                    op.data().operands.iter().map(|&v| e.read(v, index)).collect();
                (row.body)(e.builder(), op.operand_type(0).dtype, &operands)
            }),
        }
    }
}

impl PartialEq for Elementwise {
    fn eq(&self, other: &Elementwise) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Elementwise {}

impl std::fmt::Debug for Elementwise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}
