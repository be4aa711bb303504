//! `stablehlo.reduce`: combines the elements along axes with a region.
//!
//! The interpreter starts with the initial value and takes elements in row-major order. Kernels may
//! reassociate where the body is one instruction (see [`super::combiner`]).

use super::combiner::{Combiner, check_body, check_operands, pack};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attributes, axes};
use crate::interpret::{Frame, Walk};
use crate::literal::Literal;
use crate::lower::{ElementCost, Emitter, Lowering, Scalar};
use crate::types::TensorType;
use jaxrs_kernel::builder::{self, LoopOptions};
use jaxrs_kernel::{Affine, Reg};

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
        combiner: &Combiner,
        at: &mut Vec<Affine>,
        depth: usize,
        values: &[Reg],
    ) -> Vec<Reg> {
        let Some(&axis) = self.axes.get(depth) else {
            let operands = op.data().operands.len() / 2;
            let elements: Vec<Scalar> =
                (0..operands).map(|n| e.read(op.operand(n), at)).collect();
            return combiner.emit(e, values, &elements);
        };
        let extent = op.operand_type(0).shape[axis] as i64;
        let options = LoopOptions { ranged: false, split: true };
        let carries = combiner.carries(values);
        builder::reduce(e, extent, options, combiner.kind(), &carries, |e, var, values| {
            at[axis] = var.clone();
            self.nest(e, op, combiner, at, depth + 1, values)
        })
    }
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
        let (inputs, dtypes) = check_operands("reduce", &signature.operands)?;
        signature.expect("reduce", signature.operands.len(), 1)?;
        for (position, &axis) in self.axes.iter().enumerate() {
            if axis >= inputs[0].rank() {
                return Err(format!("reduce: axis {axis} is out of range for {}", inputs[0]));
            }
            if self.axes[..position].contains(&axis) {
                return Err(format!("reduce: axis {axis} is named twice"));
            }
        }
        check_body("reduce", &signature.regions[0], &dtypes)?;
        let kept = self.kept(&inputs[0].shape);
        Ok(dtypes.into_iter().map(|dtype| TensorType::new(kept.clone(), dtype)).collect())
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (inputs, inits) = operands.split_at(operands.len() / 2);
        let shape = &inputs[0].ty().shape;
        let combiner = Combiner::new(op.function, op.region(0));
        let mut folder = combiner.folder(frame);

        let init = element(inits, 0);
        let mut values = init.repeat(op.result_type(0).len() as usize);
        let mut strides = vec![0; shape.len()];
        let mut stride = init.len() as i64;
        for axis in (0..shape.len()).rev().filter(|axis| !self.axes.contains(axis)) {
            strides[axis] = stride;
            stride *= shape[axis] as i64;
        }
        if !shape.contains(&0) {
            let mut walk = Walk::new(shape, vec![(0, strides)]);
            for position in 0.. {
                let at = walk.at(0) as usize;
                let elements = element(inputs, position);
                folder.step(frame, &mut values[at..at + init.len()], &elements)?;
                if !walk.advance() {
                    break;
                }
            }
        }
        for values in values.chunks_exact_mut(init.len()) {
            folder.finish(values);
        }
        Ok(unzip(op, &values))
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let operands = op.data().operands.len() / 2;
        let shape = &op.operand_type(0).shape;
        let extents = self.axes.iter().map(|&a| shape[a]);
        Lowering::Elements {
            cost: ElementCost::Loop(extents.fold(1, u64::saturating_mul)),
            element: Box::new(move |e, number, index| {
                if let Some(known) = e.known(op.result(number), index) {
                    return known;
                }
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
                let combiner = Combiner::new(op.function, op.region(0));
                let values = self.nest(e, op, &combiner, &mut at, 0, &pack(&inits));
                let scalars = combiner.finish(builder::Build::builder(e), &values);
                for (n, &scalar) in scalars.iter().enumerate() {
                    e.remember(op.result(n), index, scalar);
                }
                scalars[number]
            }),
        }
    }
}

/// The bits of the elements of several tensors at one position, part by part.
pub(super) fn element(literals: &[Literal], position: u64) -> Vec<u64> {
    let parts = |l: &Literal| l.ty().dtype.parts();
    literals.iter().flat_map(|l| (0..parts(l)).map(move |p| l.bits(position, p))).collect()
}

/// The results from their elements' bits, interleaved as [`element`] gives them.
pub(super) fn unzip(op: OpView<'_>, values: &[u64]) -> Vec<Literal> {
    let results = op.data().results.len();
    let types: Vec<&TensorType> = (0..results).map(|n| op.result_type(n)).collect();
    let width: usize = types.iter().map(|t| t.dtype.parts() as usize).sum();
    let mut first = 0;
    let pick = |ty: &&TensorType| {
        let parts = ty.dtype.parts() as usize;
        let bits: Vec<u64> = values
            .chunks_exact(width)
            .flat_map(|row| row[first..first + parts].iter().copied())
            .collect();
        first += parts;
        Literal::from_bits((*ty).clone(), &bits)
    };
    types.iter().map(pick).collect()
}
