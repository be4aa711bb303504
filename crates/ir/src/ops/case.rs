//! `stablehlo.case`: one of several regions, by an index.

mod rules;

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
pub(super) use rules::select_elements;

use jaxrs_kernel::DType;

/// A choice: operand 0 is the index; out of range it takes the last region.
#[derive(Clone, Debug, PartialEq)]
pub struct Case;

/// The results of regions without arguments, of which one runs.
pub(super) fn branch_types(what: &str, signature: &Signature) -> Result<Vec<TensorType>, String> {
    let Some((_, first)) = signature.regions.first() else {
        return Err(format!("{what}: there are no branches"));
    };
    for (position, (arguments, results)) in signature.regions.iter().enumerate() {
        super::same_types(&format!("{what}: arguments of branch {position}"), arguments, &[])?;
        super::same_types(&format!("{what}: results of branch {position}"), results, first)?;
    }
    Ok(first.clone())
}

impl StructuredOp for Case {
    const NAMES: &'static [&'static str] = &["stablehlo.case"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Case)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("case", 1, signature.regions.len())?;
        let index = &signature.operands[0];
        if index != &TensorType::scalar(DType::I32) {
            return Err(format!("case: the index is {index}, not tensor<i32>"));
        }
        branch_types("case", signature)
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let last = op.data().regions.len() - 1;
        let chosen = usize::try_from(operands[0].int(0)).map_or(last, |index| index.min(last));
        frame.region(op.region(chosen), &[])
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}
