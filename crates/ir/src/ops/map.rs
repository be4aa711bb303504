//! `stablehlo.map`: a region over the elements of the operands.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::{Frame, ScalarRegion};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::types::TensorType;

/// A map.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The axes: all of them, in order.
    pub axes: Vec<usize>,
}

impl StructuredOp for Map {
    const NAMES: &'static [&'static str] = &["stablehlo.map"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        let dims = attributes.need_ints("dimensions")?;
        Ok(Map { axes: axes(&dims, rank, "map: dimensions")? })
    }

    fn attributes(&self) -> Attributes {
        let dims: Vec<i64> = self.axes.iter().map(|&a| a as i64).collect();
        Attributes::new().with_ints("dimensions", &dims)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("map", signature.operands.len(), 1)?;
        let first = signature.operands.first().ok_or("map: there are no operands")?;
        if let Some(other) = signature.operands.iter().find(|ty| ty.shape != first.shape) {
            return Err(format!("map: operands of different shapes: {first} and {other}"));
        }
        if !self.axes.iter().copied().eq(0..first.rank()) {
            return Err(format!(
                "map: dimensions {:?} are not all axes of {first} in order",
                self.axes
            ));
        }
        let (arguments, yields) = &signature.regions[0];
        let scalars: Vec<TensorType> =
            signature.operands.iter().map(|ty| TensorType::scalar(ty.dtype)).collect();
        super::same_types("map: arguments of the region", arguments, &scalars)?;
        match &yields[..] {
            [ty] if ty.rank() == 0 => {
                Ok(vec![TensorType::checked("map", first.shape.clone(), ty.dtype)?])
            }
            _ => Err("map: the region must give one tensor of rank 0".into()),
        }
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let result = op.result_type(0).clone();
        let mut region = ScalarRegion::new(frame, op.region(0));
        let (mut arguments, mut bits) = (Vec::new(), Vec::new());
        for at in 0..result.len() {
            arguments.clear();
            for literal in operands {
                let parts = literal.ty().dtype.parts();
                arguments.extend((0..parts).map(|part| literal.bits(at, part)));
            }
            region.run(frame, &arguments, &mut bits)?;
        }
        Ok(vec![Literal::from_bits(result, &bits)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Expensive,
            element: Box::new(move |e, _, index| {
                let operands = &op.data().operands;
                let arguments: Vec<Scalar> = operands.iter().map(|&v| e.read(v, index)).collect();
                e.region(op.region(0), &arguments)[0]
            }),
        }
    }
}
