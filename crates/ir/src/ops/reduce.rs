//! `stablehlo.reduce`: combines the elements along axes with a region.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::function::{BlockId, Function};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Emitter, Lowering, Scalar};
use crate::types::TensorType;
use jaxrs_kernel::builder::{self, LoopOptions};
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::{Affine, BinaryOp, Reg};

/// A reduction of one or several operands of one shape, each with an initial value.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The axes that go away, ascending.
    pub axes: Vec<usize>,
}

impl Reduce {
    /// The shape without the reduced axes.
    pub fn kept(&self, shape: &[u64]) -> Vec<u64> {
        let kept = |axis: &usize| !self.axes.contains(axis);
        (0..shape.len()).filter(kept).map(|axis| shape[axis]).collect()
    }

    /// Loops over the reduced axes from `depth` on.
    fn nest(
        &self,
        e: &mut Emitter<'_>,
        op: OpView<'_>,
        at: &mut Vec<Affine>,
        depth: usize,
        values: &[Reg],
        ops: Option<&[BinaryOp]>,
    ) -> Vec<Reg> {
        let operands = op.data().operands.len() / 2;
        let Some(&axis) = self.axes.get(depth) else {
            let mut arguments = unpack(op, values);
            arguments.extend((0..operands).map(|n| e.read(op.operand(n), at)));
            return pack(&e.region(op.region(0), &arguments));
        };
        let extent = op.operand_type(0).shape[axis] as i64;
        let kind = if ops.is_some() { LoopKind::Reduce } else { LoopKind::Sequential };
        let inits: Vec<(Reg, Option<BinaryOp>)> = values
            .iter()
            .enumerate()
            .map(|(n, &value)| (value, ops.map(|ops| ops[n])))
            .collect();
        let options = LoopOptions { ranged: false, split: true };
        builder::reduce(e, extent, options, kind, &inits, |e, var, values| {
            at[axis] = var.clone();
            self.nest(e, op, at, depth + 1, values, ops)
        })
    }
}

/// Elements from registers, two for each complex operand.
fn unpack(op: OpView<'_>, values: &[Reg]) -> Vec<Scalar> {
    let mut rest = values;
    let mut scalars = Vec::new();
    for n in 0..op.data().operands.len() / 2 {
        let (parts, after) = rest.split_at(op.operand_type(n).dtype.parts() as usize);
        scalars.push(Scalar::from_parts(parts));
        rest = after;
    }
    scalars
}

fn pack(scalars: &[Scalar]) -> Vec<Reg> {
    scalars.iter().flat_map(|s| s.parts()).collect()
}

/// The instruction of each accumulator if the region is one reassociable instruction a result, on
/// that result's two arguments.
pub fn combiners(function: &Function, block: BlockId) -> Option<Vec<BinaryOp>> {
    let _ = (function, block);
    todo!("recognise add, multiply, minimum, maximum, and, or, xor on arguments (n, n + results)")
}

impl StructuredOp for Reduce {
    const NAMES: &'static [&'static str] = &["stablehlo.reduce"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        let mut axes = axes(&attributes.need_ints("dimensions")?, rank, "reduce: dimensions")?;
        axes.sort_unstable();
        Ok(Reduce { axes })
    }

    fn attributes(&self) -> Attributes {
        let dims: Vec<i64> = self.axes.iter().map(|&a| a as i64).collect();
        Attributes::new().with_ints("dimensions", &dims)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let _ = signature;
        todo!()
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        _operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        todo!()
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let operands = op.data().operands.len() / 2;
        let shape = &op.operand_type(0).shape;
        Lowering::Elements {
            cost: ElementCost::Loop(self.axes.iter().map(|&a| shape[a]).product()),
            element: Box::new(move |e, number, index| {
                let mut kept = index.iter().cloned();
                let mut at: Vec<Affine> = (0..shape.len())
                    .map(|axis| {
                        if self.axes.contains(&axis) {
                            Affine::constant(0)
                        } else {
                            kept.next().expect("an index of the kept axes")
                        }
                    })
                    .collect();
                let inits: Vec<Scalar> =
                    (0..operands).map(|n| e.read(op.operand(operands + n), &[])).collect();
                let ops = combiners(op.function, op.region(0));
                let values = self.nest(e, op, &mut at, 0, &pack(&inits), ops.as_deref());
                unpack(op, &values)[number]
            }),
        }
    }
}
