//! `stablehlo.clamp`: elements kept between two bounds, each a tensor or one value for all.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::function::ValueId;
use jaxrs_kernel::Compare::{Gt, Lt};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::{BinaryOp, RegType};

/// A clamp: operands are the lower bound, the tensor, the upper bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Clamp;

impl StructuredOp for Clamp {
    const NAMES: &'static [&'static str] = &["stablehlo.clamp"];

    fn from_attributes(
        _name: &str,
        _attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        Ok(Clamp)
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("clamp", 3, 0)?;
        let operand = &signature.operands[1];
        for (name, bound) in [("min", &signature.operands[0]), ("max", &signature.operands[2])] {
            let fits = bound.rank() == 0 || bound.shape == operand.shape;
            if bound.dtype != operand.dtype || !fits {
                return Err(format!(
                    "clamp: {name} is {bound}; it must have the element type of {operand} and \
                     its shape or rank 0"
                ));
            }
        }
        if operand.dtype.is_complex() {
            return Err(format!("clamp: {operand} has no order"));
        }
        Ok(vec![operand.clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let dtype = op.operand_type(1).dtype;
        let bound = |n: usize, at: u64| {
            let scalar = operands[n].ty().rank() == 0;
            (&operands[n], if scalar { 0 } else { at })
        };
        Ok(vec![Literal::tabulate(op.result_type(0).clone(), |at| {
            let (low, low_at) = bound(0, at);
            let (high, high_at) = bound(2, at);
            if !dtype.is_float() {
                let raised = operands[1].wide_int(at).max(low.wide_int(low_at));
                let value = raised.min(high.wide_int(high_at)) as u64;
                return [value, 0];
            }
            let float = |literal: &Literal, at: u64| match dtype.reg() {
                RegType::F64 => f64::from_bits(literal.bits(at, 0)),
                _ => f64::from(f32::from_bits(literal.bits(at, 0) as u32)),
            };
            let raised = maximum(float(&operands[1], at), float(low, low_at));
            let value = -maximum(-raised, -float(high, high_at));
            let bits = match dtype.reg() {
                RegType::F64 => value.to_bits(),
                _ => u64::from((value as f32).to_bits()),
            };
            [bits, 0]
        })])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Cheap,
            element: Box::new(move |e, _, index| {
                let at = |n: usize| if op.operand_type(n).rank() == 0 { &[] } else { index };
                let low = e.read(op.operand(0), at(0)).real();
                let x = e.read(op.operand(1), index).real();
                let high = e.read(op.operand(2), at(2)).real();
                let (maximum, minimum) = match op.operand_type(1).dtype.class() {
                    Class::Bool => (BinaryOp::Or, BinaryOp::And),
                    Class::Signed => (BinaryOp::MaxS, BinaryOp::MinS),
                    Class::Unsigned => (BinaryOp::MaxU, BinaryOp::MinU),
                    Class::Float => (BinaryOp::MaxF, BinaryOp::MinF),
                    Class::Complex => unreachable!("refused by infer"),
                };
                let raised = e.builder().binary(maximum, x, low);
                Scalar::Real(e.builder().binary(minimum, raised, high))
            }),
        }
    }
}

/// IEEE 754's `maximum`: NaN if either is, -0 below +0.
fn maximum(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x.total_cmp(&y).is_gt() { x } else { y }
}

impl Rules for Clamp {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.copy(op);
        let shape = op.result_type(0).shape.clone();
        let zeros = cx.linear().zeros(op.result_type(0))?;
        let operands = cx.values(&op.data().operands);
        let mut b = cx.primal();
        let (low, high) = (b.spread(operands[0], &shape)?, b.spread(operands[2], &shape)?);
        let x = operands[1];
        let mut sum = None;
        for position in 0..3 {
            let Some(tangent) = cx.tangent(op.operand(position)) else { continue };
            let mut b = cx.primal();
            let is_it = match position {
                0 => {
                    let (above, apart) = (b.compare(Gt, low, x)?, b.compare(Lt, low, high)?);
                    b.elementwise("stablehlo.and", &[above, apart])?
                }
                1 => {
                    let (above, below) = (b.compare(Gt, x, low)?, b.compare(Lt, x, high)?);
                    b.elementwise("stablehlo.and", &[above, below])?
                }
                _ => {
                    let (above, crossed) = (b.compare(Gt, x, high)?, b.compare(Gt, low, high)?);
                    b.elementwise("stablehlo.or", &[above, crossed])?
                }
            };
            let is_it = cx.residual(is_it);
            let mut b = cx.linear();
            let tangent = b.spread(tangent, &shape)?;
            let term = b.select(is_it, tangent, zeros)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, term)?,
                None => term,
            });
        }
        if let Some(sum) = sum {
            cx.bind_tangent(op.result(0), sum);
        }
        Ok(())
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it is not linear")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let shape = [&[cx.size()], &op.result_type(0).shape[..]].concat();
        let x = cx.full(op.operand(1))?;
        let bound = |cx: &mut Batch<'_>, source: ValueId| {
            let (value, batched) = (cx.value(source), cx.is_batched(source));
            match (batched, cx.builder().ty(value).rank()) {
                // One bound for all stays one.
                (false, 0) => Ok(value),
                (false, _) => cx.full(source),
                (true, rank) => {
                    let axes: Vec<usize> = (0..rank).collect();
                    cx.builder().broadcast_in_dim(value, &shape, &axes)
                }
            }
        };
        let (low, high) = (bound(cx, op.operand(0))?, bound(cx, op.operand(2))?);
        let value = cx.builder().one(Clamp, &[low, x, high])?;
        cx.bind(op.result(0), value, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, spread, values};
    use crate::testing::{check, fault, pattern, tensor};
    use jaxrs_kernel::DType;

    #[test]
    fn keeps_between_the_bounds() {
        let t = |values: &[f64]| tensor(DType::I32, &[3], values);
        let operands = [t(&[5., 10., 15.]), t(&[3., 13., 23.]), t(&[10., 15., 20.])];
        assert_eq!(check(Clamp, &operands), [t(&[5., 13., 20.])]);
    }

    #[test]
    fn the_upper_bound_wins() {
        let t = |value| tensor(DType::F32, &[], &[value]);
        assert_eq!(check(Clamp, &[t(3.), t(0.), t(1.)]), [t(1.)]);
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
            for shape in [&[][..], &[0], &[20, 30]] {
                let x = pattern(dtype, shape, 1);
                for (low, high) in [(shape, shape), (&[], shape), (shape, &[]), (&[], &[])] {
                    let bounds = (pattern(dtype, low, 2), pattern(dtype, high, 3));
                    check(Clamp, &[bounds.0, x.clone(), bounds.1]);
                }
            }
        }
    }

    #[test]
    fn faults() {
        let ty = |shape: &[u64], dtype| TensorType::new(shape, dtype);
        let x = ty(&[2], DType::F32);
        fault(Clamp, &[x.clone(), x.clone(), ty(&[1], DType::F32)]);
        fault(Clamp, &[ty(&[], DType::F64), x.clone(), x.clone()]);
        let z = ty(&[2], DType::C64);
        fault(Clamp, &[z.clone(), z.clone(), z]);
    }

    #[test]
    fn rules() {
        let bound = |shape: &[u64], value: f64| spread(DType::F64, shape, value, value + 0.3, 4);
        for (low, high) in [(&[][..], &[][..]), (&[2, 3], &[2, 3]), (&[], &[2, 3])] {
            let inputs = [bound(low, -1.0), values(&[2, 3], 1), bound(high, 0.8)];
            check_body(&inputs, |b, x| Ok(vec![b.one(Clamp, x)?]));
        }
        // Bounds the other way round: the upper one counts.
        let inputs = [bound(&[], 1.0), values(&[3], 1), bound(&[], -1.0)];
        check_body(&inputs, |b, x| Ok(vec![b.one(Clamp, x)?]));
    }
}
