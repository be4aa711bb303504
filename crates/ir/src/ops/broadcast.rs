//! `stablehlo.broadcast`: new axes before the operand's, over which it is repeated.

use super::{OpView, Signature, StructuredOp, signed, unsigned};
use crate::attribute::Attributes;
use crate::interpret::{self, Frame};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;

/// A broadcast.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast {
    /// Extents of the new axes.
    pub sizes: Vec<u64>,
}

impl StructuredOp for Broadcast {
    const NAMES: &'static [&'static str] = &["stablehlo.broadcast"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let sizes = attributes.need_ints("broadcast_sizes")?;
        Ok(Broadcast { sizes: unsigned(&sizes, "broadcast: broadcast_sizes")? })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with_ints("broadcast_sizes", &signed(&self.sizes))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("broadcast", 1, 0)?;
        let operand = &signature.operands[0];
        let shape = [&self.sizes[..], &operand.shape[..]].concat();
        Ok(vec![TensorType::checked("broadcast", shape, operand.dtype)?])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let mut steps = vec![0; self.sizes.len()];
        steps.extend(op.operand_type(0).strides().iter().map(|&stride| stride as i64));
        Ok(vec![interpret::strided(&operands[0], op.result_type(0), 0, &steps)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| e.read(op.operand(0), &index[self.sizes.len()..])),
        }
    }
}

impl Rules for Broadcast {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let ct = cx.cotangent_or_zero(op.result(0))?;
        let axes: Vec<usize> = (0..self.sizes.len()).collect();
        let ct = cx.builder().sum(ct, &axes)?;
        cx.add(op.operand(0), ct)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let operand = cx.value(op.operand(0));
        let new = self.sizes.len();
        let axes = std::iter::once(0).chain((1..=op.operand_type(0).rank()).map(|axis| axis + new));
        let axes: Vec<usize> = axes.collect();
        let shape = [&[cx.size()], &op.result_type(0).shape[..]].concat();
        let value = cx.builder().broadcast_in_dim(operand, &shape, &axes)?;
        cx.bind(op.result(0), value, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, tensor};
    use jaxrs_kernel::DType;

    #[test]
    fn repeats_the_operand() {
        let x = tensor(DType::F32, &[2], &[1., 2.]);
        let expected = tensor(DType::F32, &[3, 2], &[1., 2., 1., 2., 1., 2.]);
        assert_eq!(check(Broadcast { sizes: vec![3] }, &[x]), [expected]);
        for sizes in [&[][..], &[0], &[2, 3]] {
            for shape in [&[][..], &[4], &[0, 2]] {
                check(Broadcast { sizes: sizes.into() }, &[pattern(DType::C64, shape, 1)]);
            }
        }
        fault(Broadcast { sizes: vec![1 << 62] }, &[TensorType::new([2], DType::F32)]);
    }

    #[test]
    fn rules() {
        for (sizes, shape) in [(&[2, 3][..], &[][..]), (&[2], &[3, 2]), (&[], &[2])] {
            let op = Broadcast { sizes: sizes.into() };
            check_body(&[values(shape, 1)], |b, x| Ok(vec![b.one(op, x)?]));
        }
    }
}
