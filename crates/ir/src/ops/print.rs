//! `jaxrs.print`: shows its operands where the program runs. It has no result, so that no pass
//! drops, merges or moves it; steps that print keep their order.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::program::Library;

/// A line of text with values.
#[derive(Clone, Debug, PartialEq)]
pub struct Print {
    /// The line; each `{}` stands for an operand.
    pub label: String,
    /// There is a line for each position of so many leading axes, which all operands have.
    pub axes: u64,
}

impl StructuredOp for Print {
    const NAMES: &'static [&'static str] = &["jaxrs.print"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let label = match attributes.take("label") {
            Some(Attribute::String(label)) => label,
            Some(other) => return Err(format!("attribute label: expected text, found {other:?}")),
            None => return Err("attribute label is missing".into()),
        };
        let axes = attributes.take_int("axes")?.unwrap_or(0);
        let axes = u64::try_from(axes).map_err(|_| format!("print: axes is {axes}, below 0"))?;
        Ok(Print { label, axes })
    }

    fn attributes(&self) -> Attributes {
        let label = Attribute::String(self.label.clone());
        Attributes::new().with("label", label).with_int("axes", self.axes as i64)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("print", signature.operands.len(), 0)?;
        let leading = |ty: &TensorType| {
            let axes = usize::try_from(self.axes).ok()?;
            ty.shape.get(..axes).map(<[u64]>::to_vec)
        };
        let mut all = signature.operands.iter().map(leading);
        let first = all.next();
        if let Some(first) = first
            && (first.is_none() || all.any(|other| other != first))
        {
            return Err(format!("print: the operands differ in their first {} axes", self.axes));
        }
        Ok(Vec::new())
    }

    /// The interpreter computes values; it shows none.
    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        _operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        Ok(Vec::new())
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Library(Library::Print { label: self.label.clone(), axes: self.axes })
    }
}

impl Rules for Print {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_constant(op)
    }

    /// Cotangents have nothing to show: the values were shown on the way there.
    fn transpose(&self, _: &mut Transposition<'_>, _: OpView<'_>) -> Rule {
        Ok(())
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.with(op, Print { label: self.label.clone(), axes: self.axes + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fault;
    use crate::transform::testing::{check_body, values};
    use jaxrs_kernel::DType;

    #[test]
    fn rules() {
        let op = Print { label: "x {}".into(), axes: 0 };
        check_body(&[values(&[2], 1)], |b, x| {
            b.push(op, x, &[])?;
            Ok(x.to_vec())
        });
    }

    #[test]
    fn faults_are_told() {
        let ty = TensorType::new([2], DType::F32);
        let message = "print: the operands differ in their first 2 axes";
        assert_eq!(fault(Print { label: String::new(), axes: 2 }, &[ty]), message);
    }
}
