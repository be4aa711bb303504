//! `stablehlo.dot_general`: sums of products over contracting axes, for each batch; and its old
//! form `stablehlo.dot`.
//!
//! `precision_config` and `algorithm` ask for a least precision; what is computed is never less
//! precise, so they are read and dropped.

use super::contraction::Arithmetic;
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes, axes};
use crate::interpret::{Frame, positions};
use crate::literal::Literal;
use crate::lower::{Emitter, Lowering, Scalar};
use crate::types::TensorType;
use jaxrs_kernel::builder::{self, Build, LoopOptions};
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::program::{Dot, DotAxis, Library};
use jaxrs_kernel::{Affine, DType, Reg};

/// A contraction.
#[derive(Clone, Debug, PartialEq)]
pub struct DotGeneral {
    /// Batch axes of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Batch axes of the right operand, in the same order.
    pub rhs_batch: Vec<usize>,
    /// Contracting axes of the left operand.
    pub lhs_contracting: Vec<usize>,
    /// Contracting axes of the right operand, in the same order.
    pub rhs_contracting: Vec<usize>,
    /// The result's element type.
    pub result: DType,
}

/// Axes of one kind with their strides; see [`Dot`].
struct Groups {
    batch: Vec<DotAxis>,
    m: Vec<DotAxis>,
    n: Vec<DotAxis>,
    k: Vec<DotAxis>,
}

impl DotGeneral {
    fn lhs_free(&self, rank: usize) -> Vec<usize> {
        let taken = |a: &usize| self.lhs_batch.contains(a) || self.lhs_contracting.contains(a);
        (0..rank).filter(|a| !taken(a)).collect()
    }

    fn rhs_free(&self, rank: usize) -> Vec<usize> {
        let taken = |a: &usize| self.rhs_batch.contains(a) || self.rhs_contracting.contains(a);
        (0..rank).filter(|a| !taken(a)).collect()
    }

    fn arithmetic(&self, op: OpView<'_>) -> Arithmetic {
        let operands = [op.operand_type(0).dtype, op.operand_type(1).dtype];
        Arithmetic::new("dot_general", operands, self.result).expect("infer has checked the types")
    }

    /// Every axis, none merged.
    fn groups(&self, lhs: &TensorType, rhs: &TensorType) -> Groups {
        let (ls, rs) = (lhs.strides(), rhs.strides());
        let mut batch = Vec::new();
        let (mut m, mut n, mut k) = (Vec::new(), Vec::new(), Vec::new());
        for (&l, &r) in self.lhs_batch.iter().zip(&self.rhs_batch) {
            batch.push((lhs.shape[l], ls[l], rs[r]));
        }
        for l in self.lhs_free(lhs.rank()) {
            m.push((lhs.shape[l], ls[l], 0));
        }
        for r in self.rhs_free(rhs.rank()) {
            n.push((rhs.shape[r], 0, rs[r]));
        }
        for (&l, &r) in self.lhs_contracting.iter().zip(&self.rhs_contracting) {
            k.push((lhs.shape[l], ls[l], rs[r]));
        }
        let mut out = 1;
        let mut place = |group: Vec<(u64, u64, u64)>, kept: bool| {
            let mut axes: Vec<DotAxis> = group
                .into_iter()
                .rev()
                .map(|(extent, lhs, rhs)| {
                    let stride = if kept { out } else { 0 };
                    if kept {
                        out *= extent.max(1) as i64;
                    }
                    DotAxis { extent, lhs: lhs as i64, rhs: rhs as i64, out: stride }
                })
                .collect();
            axes.reverse();
            axes
        };
        let k = place(k, false);
        let n = place(n, true);
        let m = place(m, true);
        Groups { batch: place(batch, true), m, n, k }
    }

    /// The result's element at an index, as a loop over the contracting axes.
    pub fn element(&self, e: &mut Emitter<'_>, op: OpView<'_>, index: &[Affine]) -> Scalar {
        let (lhs, rhs) = (op.operand_type(0), op.operand_type(1));
        let mut left = vec![Affine::constant(0); lhs.rank()];
        let mut right = vec![Affine::constant(0); rhs.rank()];
        let (batch, free) = index.split_at(self.lhs_batch.len());
        for ((at, &l), &r) in batch.iter().zip(&self.lhs_batch).zip(&self.rhs_batch) {
            left[l] = at.clone();
            right[r] = at.clone();
        }
        let lhs_free = self.lhs_free(lhs.rank());
        let (lhs_at, rhs_at) = free.split_at(lhs_free.len());
        for (at, l) in lhs_at.iter().zip(lhs_free) {
            left[l] = at.clone();
        }
        for (at, r) in rhs_at.iter().zip(self.rhs_free(rhs.rank())) {
            right[r] = at.clone();
        }
        let arithmetic = self.arithmetic(op);
        let zero: Vec<Reg> = arithmetic.zero(e.builder()).iter().map(|z| z.0).collect();
        let sum = self.nest(e, op, [&mut left, &mut right], 0, &zero);
        arithmetic.finish(e.builder(), &sum)
    }

    fn nest(
        &self,
        e: &mut Emitter<'_>,
        op: OpView<'_>,
        [left, right]: [&mut Vec<Affine>; 2],
        depth: usize,
        sum: &[Reg],
    ) -> Vec<Reg> {
        let arithmetic = self.arithmetic(op);
        let add = arithmetic.sum();
        let Some(&l) = self.lhs_contracting.get(depth) else {
            let x = e.read(op.operand(0), left);
            let y = e.read(op.operand(1), right);
            let product = arithmetic.product(e.builder(), x, y);
            let parts = sum.iter().zip(product);
            return parts.map(|(&sum, x)| e.builder().binary(add, sum, x)).collect();
        };
        let r = self.rhs_contracting[depth];
        let extent = op.operand_type(0).shape[l] as i64;
        let carries: Vec<_> = sum.iter().map(|&s| (s, Some(add))).collect();
        let options = LoopOptions { ranged: false, split: true };
        builder::reduce(e, extent, options, LoopKind::Reduce, &carries, |e, var, sum| {
            left[l] = var.clone();
            right[r] = var.clone();
            self.nest(e, op, [left, right], depth + 1, sum)
        })
    }
}

/// Drops axes of extent 1, and merges neighbours that are one axis in every tensor.
fn merge(axes: Vec<DotAxis>) -> Vec<DotAxis> {
    let mut merged: Vec<DotAxis> = Vec::new();
    for axis in axes.into_iter().filter(|axis| axis.extent != 1) {
        if let Some(outer) = merged.last_mut() {
            let by = axis.extent as i64;
            let outer_strides = [outer.lhs, outer.rhs, outer.out];
            if outer_strides == [axis.lhs * by, axis.rhs * by, axis.out * by] {
                *outer = DotAxis { extent: outer.extent * axis.extent, ..axis };
                continue;
            }
        }
        merged.push(axis);
    }
    merged
}

fn extent(axes: &[DotAxis]) -> u64 {
    axes.iter().fold(1, |product, axis| product.saturating_mul(axis.extent))
}

/// Contractions of at most so many products a result element, or in all, or a batch, are loops in a
/// kernel: a library call would cost more than it gains, and a kernel can be fused.
const SMALL_K: u64 = 4;
const SMALL_IN_ALL: u64 = 4096;
const SMALL_BATCH: u64 = 512;

impl StructuredOp for DotGeneral {
    const NAMES: &'static [&'static str] = &["stablehlo.dot_general", "stablehlo.dot"];

    fn from_attributes(
        name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let result = signature.declared("dot_general")?.dtype;
        attributes.take("precision_config");
        attributes.take("algorithm");
        let [lhs, rhs] = &signature.operands[..] else {
            let found = signature.operands.len();
            return Err(format!("dot_general: expected 2 operands, found {found}"));
        };
        if name == "stablehlo.dot" {
            if !(1..=2).contains(&lhs.rank()) || !(1..=2).contains(&rhs.rank()) {
                return Err(format!("dot: expected operands of rank 1 or 2, found {lhs} and {rhs}"));
            }
            return Ok(DotGeneral {
                lhs_batch: Vec::new(),
                rhs_batch: Vec::new(),
                lhs_contracting: vec![lhs.rank() - 1],
                rhs_contracting: vec![0],
                result,
            });
        }
        let mut numbers = attributes.need_fields("dot_dimension_numbers")?;
        let mut read = |name: &str, rank: usize| {
            let values = numbers.take_ints(name)?.unwrap_or_default();
            axes(&values, rank, &format!("dot_general: {name}"))
        };
        Ok(DotGeneral {
            lhs_batch: read("lhs_batching_dimensions", lhs.rank())?,
            rhs_batch: read("rhs_batching_dimensions", rhs.rank())?,
            lhs_contracting: read("lhs_contracting_dimensions", lhs.rank())?,
            rhs_contracting: read("rhs_contracting_dimensions", rhs.rank())?,
            result,
        })
    }

    fn attributes(&self) -> Attributes {
        let ints = |axes: &[usize]| axes.iter().map(|&a| a as i64).collect::<Vec<i64>>();
        let numbers = Attributes::new()
            .with_ints("lhs_batching_dimensions", &ints(&self.lhs_batch))
            .with_ints("rhs_batching_dimensions", &ints(&self.rhs_batch))
            .with_ints("lhs_contracting_dimensions", &ints(&self.lhs_contracting))
            .with_ints("rhs_contracting_dimensions", &ints(&self.rhs_contracting));
        Attributes::new()
            .with("dot_dimension_numbers", Attribute::Struct("stablehlo.dot".into(), numbers))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("dot_general", 2, 0)?;
        let (lhs, rhs) = (&signature.operands[0], &signature.operands[1]);
        Arithmetic::new("dot_general", [lhs.dtype, rhs.dtype], self.result)?;
        for (what, l, r) in [
            ("batch", &self.lhs_batch, &self.rhs_batch),
            ("contracting", &self.lhs_contracting, &self.rhs_contracting),
        ] {
            if l.len() != r.len() {
                return Err(format!(
                    "dot_general: {} {what} axes on the left, {} on the right",
                    l.len(),
                    r.len()
                ));
            }
        }
        for (side, ty, batch, contracting) in [
            ("lhs", lhs, &self.lhs_batch, &self.lhs_contracting),
            ("rhs", rhs, &self.rhs_batch, &self.rhs_contracting),
        ] {
            let all: Vec<usize> = batch.iter().chain(contracting).copied().collect();
            for (position, &axis) in all.iter().enumerate() {
                if axis >= ty.rank() {
                    return Err(format!("dot_general: {side} has no axis {axis}: {ty}"));
                }
                if all[..position].contains(&axis) {
                    return Err(format!("dot_general: {side} axis {axis} is named twice"));
                }
            }
        }
        for (what, ls, rs) in [
            ("batch", &self.lhs_batch, &self.rhs_batch),
            ("contracting", &self.lhs_contracting, &self.rhs_contracting),
        ] {
            for (&l, &r) in ls.iter().zip(rs) {
                let (left, right) = (lhs.shape[l], rhs.shape[r]);
                if left != right {
                    return Err(format!(
                        "dot_general: {what} sizes differ: lhs axis {l} is {left}, rhs axis {r} \
                         is {right}"
                    ));
                }
            }
        }
        let mut shape: Vec<u64> = self.lhs_batch.iter().map(|&a| lhs.shape[a]).collect();
        shape.extend(self.lhs_free(lhs.rank()).iter().map(|&a| lhs.shape[a]));
        shape.extend(self.rhs_free(rhs.rank()).iter().map(|&a| rhs.shape[a]));
        TensorType::checked("dot_general", shape, self.result).map(|ty| vec![ty])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (lhs, rhs) = (&operands[0], &operands[1]);
        let Groups { batch, m, n, k } = self.groups(lhs.ty(), rhs.ty());
        let left = |group: &[DotAxis]| -> Vec<usize> {
            let shape: Vec<u64> = group.iter().map(|a| a.extent).collect();
            positions(&shape, &group.iter().map(|a| a.lhs).collect::<Vec<i64>>())
        };
        let right = |group: &[DotAxis]| -> Vec<usize> {
            let shape: Vec<u64> = group.iter().map(|a| a.extent).collect();
            positions(&shape, &group.iter().map(|a| a.rhs).collect::<Vec<i64>>())
        };
        let (lhs_batch, rhs_batch) = (left(&batch), right(&batch));
        let (lhs_m, rhs_n) = (left(&m), right(&n));
        let (lhs_k, rhs_k) = (left(&k), right(&k));
        let mut terms = |position: usize, add: &mut dyn FnMut(usize, usize)| {
            let (row, column) = (position / rhs_n.len(), position % rhs_n.len());
            let (b, row) = (row / lhs_m.len(), row % lhs_m.len());
            let (x, y) = (lhs_batch[b] + lhs_m[row], rhs_batch[b] + rhs_n[column]);
            for (k, l) in lhs_k.iter().zip(&rhs_k) {
                add(x + k, y + l);
            }
        };
        Ok(vec![self.arithmetic(op).evaluate(lhs, rhs, op.result_type(0), &mut terms)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let (lhs, rhs) = (op.operand_type(0), op.operand_type(1));
        let Groups { batch, m, n, mut k } = self.groups(lhs, rhs);
        let arithmetic = self.arithmetic(op);
        let terms = extent(&k);
        let one_batch = extent(&m).saturating_mul(extent(&n)).saturating_mul(terms);
        let small = terms <= SMALL_K
            || one_batch <= SMALL_BATCH
            || one_batch.saturating_mul(extent(&batch)) <= SMALL_IN_ALL;
        if small || !arithmetic.in_library() {
            return Lowering::Elements {
                cost: arithmetic.cost(terms),
                element: Box::new(move |e, _, index| self.element(e, op, index)),
            };
        }
        // The order of the contracting axes is free: nested as in memory, more of them merge.
        k.sort_by_key(|axis| std::cmp::Reverse((axis.lhs, axis.rhs)));
        Lowering::Library(Library::Dot(Dot {
            operand_types: [lhs.dtype, rhs.dtype],
            out: self.result,
            batch: merge(batch),
            m: merge(m),
            n: merge(n),
            k: merge(k),
        }))
    }
}
