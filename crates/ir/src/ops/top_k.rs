//! `chlo.top_k`: the largest elements along the last axis, in descending order, with their
//! positions.
//!
//! Floats are in IEEE 754's total order, as XLA takes it: -0 below +0, a NaN above or below all by
//! its sign. Equal elements keep their order.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::program::Library;

/// The `k` largest elements of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct TopK {
    /// How many.
    pub k: u64,
}

impl StructuredOp for TopK {
    const NAMES: &'static [&'static str] = &["chlo.top_k"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let k = attributes.need_int("k")?;
        let k = u64::try_from(k).map_err(|_| format!("top_k: k is {k}, below 0"))?;
        Ok(TopK { k })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with_int("k", self.k as i64)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("top_k", 1, 0)?;
        let operand = &signature.operands[0];
        if operand.dtype.is_complex() {
            return Err(format!("top_k: element type {} is not taken", operand.dtype));
        }
        let Some(&extent) = operand.shape.last() else {
            return Err(format!("top_k: the operand {operand} has no axis"));
        };
        if self.k > extent || extent > i32::MAX as u64 {
            return Err(format!("top_k: k is {}, the last axis of {operand} {extent}", self.k));
        }
        let mut shape = operand.shape.clone();
        *shape.last_mut().expect("it has an axis") = self.k;
        Ok(vec![TensorType::new(shape.clone(), operand.dtype), TensorType::new(shape, DType::I32)])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let operand = &operands[0];
        let extent = *operand.ty().shape.last().expect("infer has checked the rank");
        let (mut values, mut positions) = (Vec::new(), Vec::new());
        for row in 0..operand.ty().len().checked_div(extent).unwrap_or(0) {
            let mut order: Vec<u64> = (0..extent).collect();
            order.sort_by_key(|&n| std::cmp::Reverse(rank(operand, row * extent + n)));
            for &n in order.iter().take(self.k as usize) {
                values.push(operand.bits(row * extent + n, 0));
                positions.push(n);
            }
        }
        let values = Literal::from_bits(op.result_type(0).clone(), &values);
        Ok(vec![values, Literal::from_bits(op.result_type(1).clone(), &positions)])
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Library(Library::TopK { k: self.k })
    }
}

/// An integer that orders as the elements do.
fn rank(operand: &Literal, position: u64) -> i128 {
    let bits = operand.bits(position, 0);
    match (operand.ty().dtype.class(), operand.ty().dtype) {
        (Class::Float, DType::F64) => total(bits as i64, i64::MAX),
        (Class::Float, _) => total(i64::from(bits as i32), i64::from(i32::MAX)),
        (Class::Signed, _) => operand.int(position).into(),
        _ => bits.into(),
    }
}

/// A float's bits, whose magnitude is `mask`, as an integer in the same order.
fn total(bits: i64, mask: i64) -> i128 {
    if bits < 0 { (bits ^ mask).into() } else { bits.into() }
}

impl Rules for TopK {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let positions = cx.copy(op)[1];
        let Some(tangent) = cx.tangent(op.operand(0)) else { return Ok(()) };
        let positions = cx.residual(positions);
        let axis = op.operand_type(0).rank() - 1;
        let tangent = cx.linear().take_along(tangent, positions, axis)?;
        cx.bind_tangent(op.result(0), tangent);
        Ok(())
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it is not linear")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.is_elementwise(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::interpret;
    use crate::testing::{fault, function, tensor};

    #[test]
    fn the_largest_stand_first_with_their_positions() {
        let nan = f64::NAN;
        let x = tensor(DType::F32, &[2, 4], &[1., 3., 3., -2., nan, -0., 0., 9.]);
        let got = interpret::call(None, &function(TopK { k: 3 }, std::slice::from_ref(&x)), &[x]).expect("runs");
        let expected = tensor(DType::F32, &[2, 3], &[3., 3., 1., nan, 9., 0.]);
        crate::testing::assert_close(&got[0], &expected, 0.0);
        assert_eq!(got[1], tensor(DType::I32, &[2, 3], &[1., 2., 0., 0., 3., 2.]));
        let y = Literal::from_bits(TensorType::new([2], DType::F32), &[0xffc0_0000, 0xff80_0000]);
        let got = interpret::call(None, &function(TopK { k: 2 }, std::slice::from_ref(&y)), &[y]);
        assert_eq!(got.expect("runs")[1], tensor(DType::I32, &[2], &[1., 0.]));
    }

    #[test]
    fn faults_are_told() {
        let ty = TensorType::new([4, 2], DType::F32);
        let message = "top_k: k is 3, the last axis of tensor<4x2xf32> 2";
        assert_eq!(fault(TopK { k: 3 }, &[ty]), message);
    }

    #[test]
    fn rules() {
        for (shape, k) in [(&[5][..], 2), (&[2, 3], 3), (&[2, 3], 0)] {
            check_body(&[values(shape, 1)], |b, x| b.push(TopK { k }, x, &[]));
        }
    }
}
