//! `stablehlo.iota`: each element is its index along one axis.

use super::convert;
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::{CastOp, DType, RegType};

/// An iota.
#[derive(Clone, Debug, PartialEq)]
pub struct Iota {
    /// The axis that counts.
    pub axis: usize,
    /// The result's type.
    pub ty: TensorType,
}

impl StructuredOp for Iota {
    const NAMES: &'static [&'static str] = &["stablehlo.iota"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let ty = signature.declared("iota")?.clone();
        let axis = attributes.need_int("iota_dimension")?;
        let axis = axes(&[axis], ty.rank(), "iota: iota_dimension")?[0];
        Ok(Iota { axis, ty })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with_int("iota_dimension", self.axis as i64)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("iota", 0, 0)?;
        if self.ty.dtype == DType::I1 {
            return Err("iota: element type i1 is not taken".into());
        }
        if self.axis >= self.ty.rank() {
            return Err(format!("iota: axis {} is out of range for {}", self.axis, self.ty));
        }
        Ok(vec![TensorType::checked("iota", self.ty.shape.clone(), self.ty.dtype)?])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        _operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (stride, extent) = (self.ty.strides()[self.axis], self.ty.shape[self.axis]);
        Ok(vec![Literal::tabulate(self.ty.clone(), |position| {
            let index = position / stride % extent;
            convert::evaluate_parts([index, 0], DType::I64, self.ty.dtype)
        })])
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(|e, _, index| {
                let b = e.builder();
                let mut value = b.index_value(&index[self.axis]);
                let mut from = DType::I64;
                // Through a type that holds every index, so that narrow vectors do.
                let (extent, to) = (self.ty.shape[self.axis], self.ty.dtype);
                if extent <= 1 << 31 {
                    (value, from) = (b.cast(CastOp::Truncate, value, RegType::I32), DType::I32);
                }
                if extent <= 1 << 24 && matches!(to, DType::BF16 | DType::F16) {
                    let cast = CastOp::SignedToFloat;
                    (value, from) = (b.cast(cast, value, RegType::F32), DType::F32);
                }
                convert::element(b, Scalar::Real(value), from, to)
            }),
        }
    }
}

impl Rules for Iota {
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
    use super::*;
    use crate::testing::{check, fault, read, tensor};

    fn iota(axis: usize, shape: &[u64], dtype: DType) -> Iota {
        Iota { axis, ty: TensorType::new(shape, dtype) }
    }

    #[test]
    fn counts_along_its_axis() {
        let got = check(iota(1, &[2, 3], DType::F16), &[]);
        assert_eq!(got, [tensor(DType::F16, &[2, 3], &[0., 1., 2., 0., 1., 2.])]);
        let got = check(iota(0, &[2, 2], DType::C64), &[]);
        let rows = [0., 0., 0., 0., 1., 0., 1., 0.];
        assert_eq!(got, [tensor(DType::C64, &[2, 2], &rows)]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::I1) {
            for shape in [&[300][..], &[3, 0], &[2, 3, 4], &[1, 1]] {
                for axis in 0..shape.len() {
                    check(iota(axis, shape, dtype), &[]);
                }
            }
        }
    }

    #[test]
    fn faults() {
        assert_eq!(fault(iota(0, &[2], DType::I1), &[]), "iota: element type i1 is not taken");
        fault(iota(1, &[2], DType::I8), &[]);
        fault(iota(0, &[1 << 40, 1 << 40], DType::I8), &[]);
        let attributes = Attributes::new().with_int("iota_dimension", -1);
        let ty = TensorType::new([2], DType::I8);
        assert!(read("stablehlo.iota", attributes.clone(), &[], &[ty]).is_err());
        assert!(read("stablehlo.iota", attributes, &[], &[]).is_err());
    }
}
