//! `jaxrs.empty`: a tensor whose elements are not said, to be written part by part. The interpreter
//! gives zeros, compiled code what its memory holds; nothing may depend on either.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;

/// A tensor without content.
#[derive(Clone, Debug, PartialEq)]
pub struct Empty {
    /// The result's type.
    pub ty: TensorType,
}

impl StructuredOp for Empty {
    const NAMES: &'static [&'static str] = &["jaxrs.empty"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Empty { ty: signature.declared("empty")?.clone() })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("empty", 0, 0)?;
        Ok(vec![TensorType::checked("empty", self.ty.shape.clone(), self.ty.dtype)?])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        _operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let zero = vec![0; self.ty.dtype.size() as usize];
        Ok(vec![Literal::splat(self.ty.clone(), &zero)])
    }

    /// Memory that nothing is written to.
    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Loops { updates: Vec::new(), emit: Box::new(|_| {}) }
    }
}

impl Rules for Empty {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_constant(op)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it has no operand")
    }

    fn batch(&self, _: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        none(op, "batching rule", "it has no operand")
    }
}

#[cfg(test)]
mod tests {
    use crate::interpret;
    use crate::testing::{program, tensor};
    use jaxrs_kernel::DType;

    #[test]
    fn what_is_written_is_there() {
        let function = program(
            "(%x: tensor<2xf32>) -> tensor<2xf32> {
              %0 = \"jaxrs.empty\"() : () -> tensor<2xf32>
              %1 = stablehlo.constant dense<0> : tensor<i32>
              %2 = stablehlo.dynamic_update_slice %0, %x, %1
                : (tensor<2xf32>, tensor<2xf32>, tensor<i32>) -> tensor<2xf32>
              return %2 : tensor<2xf32>
            }",
        );
        let x = tensor(DType::F32, &[2], &[3., 4.]);
        let got = interpret::call(None, &function, std::slice::from_ref(&x)).expect("it evaluates");
        assert_eq!(got, [x]);
    }
}
