//! `stablehlo.map`: a region over the elements of the operands.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::{Frame, ScalarRegion};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::region;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, batch, none};
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

impl Map {
    /// The region over a batch of all elements: from the operands and the values of enclosing
    /// blocks that it uses, which are given beside it.
    fn over_all(op: OpView<'_>) -> Result<(Function, Vec<ValueId>), String> {
        let (each, captured) = region::extract(op.function, op.region(0));
        let operands = &op.data().operands;
        let ty = op.result_type(0);
        let flags: Vec<bool> = (0..each.parameters().len()).map(|n| n < operands.len()).collect();
        let all = batch(&each, &flags, ty.len()).map_err(|error| error.message)?;
        let mut f = Function::new("map");
        let inputs = [&operands[..], &captured].concat();
        let parameters: Vec<ValueId> =
            inputs.iter().map(|&v| f.add_parameter(op.function.ty(v).clone())).collect();
        let mut b = Builder::new(&mut f);
        let mut arguments = Vec::with_capacity(parameters.len());
        for (&parameter, &flat) in parameters.iter().zip(&flags) {
            arguments.push(if flat { b.reshape(parameter, &[ty.len()])? } else { parameter });
        }
        let mut result = b.inline(&all.function, &arguments)[0];
        if !all.results[0] {
            result = b.splat(result, &[ty.len()])?;
        }
        let result = b.reshape(result, &ty.shape)?;
        f.result_attributes = vec![Attributes::new()];
        let body = f.body;
        f.blocks[body].yields = vec![result];
        Ok((f, inputs))
    }
}

impl Rules for Map {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let (f, inputs) = Map::over_all(op)?;
        cx.as_function(op, &f, &inputs)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "its derivative is that of its region's ops")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let (f, inputs) = Map::over_all(op)?;
        cx.as_function(op, &f, &inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};

    #[test]
    fn rules() {
        for shape in [&[][..], &[2, 3], &[0]] {
            let inputs = [values(shape, 1), values(shape, 2), values(&[], 3)];
            check_body(&inputs, |b, x| {
                let scalars = [b.ty(x[2]), b.ty(x[2])];
                let region = b.region(&scalars, |b, y| {
                    let product = b.multiply(y[0], y[1])?;
                    let sine = b.elementwise("stablehlo.sine", &[product])?;
                    Ok(vec![b.multiply(sine, x[2])?])
                })?;
                let axes = (0..shape.len()).collect();
                b.push(Map { axes }, &x[..2], &[region])
            });
        }
    }
}
