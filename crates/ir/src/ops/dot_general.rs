//! `stablehlo.dot_general`: sums of products over contracting axes, for each batch; and its old
//! form `stablehlo.dot`.
//!
//! `precision_config` and `algorithm` ask for a least precision; what is computed is never less
//! precise, so they are read and dropped.

pub(super) mod rules;

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

/// Row-major strides in elements.
fn dense(ty: &TensorType) -> Vec<i64> {
    ty.strides().into_iter().map(|s| s as i64).collect()
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

    /// Every axis, none merged, for operands with these strides.
    fn groups(&self, lhs: &TensorType, rhs: &TensorType, strides: [&[i64]; 2]) -> Groups {
        let [ls, rs] = strides;
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
        let mut place = |group: Vec<(u64, i64, i64)>, kept: bool| {
            let mut axes: Vec<DotAxis> = group
                .into_iter()
                .rev()
                .map(|(extent, lhs, rhs)| {
                    let stride = if kept { out } else { 0 };
                    if kept {
                        out *= extent.max(1) as i64;
                    }
                    DotAxis { extent, lhs, rhs, out: stride }
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

    /// The library call, if the library has the types.
    pub fn library(&self, op: OpView<'_>) -> Option<Dot> {
        let dense = [0, 1].map(|n| dense(op.operand_type(n)));
        self.library_strided(op, [&dense[0], &dense[1]], None)
    }

    /// The library call on operands whose axes have these strides in memory, in elements, and the
    /// result's, which is dense if nothing is said.
    pub fn library_strided(
        &self,
        op: OpView<'_>,
        strides: [&[i64]; 2],
        out: Option<&[i64]>,
    ) -> Option<Dot> {
        let (lhs, rhs) = (op.operand_type(0), op.operand_type(1));
        let Groups { mut batch, mut m, mut n, mut k } = self.groups(lhs, rhs, strides);
        if let Some(out) = out {
            let axes = batch.iter_mut().chain(&mut m).chain(&mut n);
            axes.zip(out).for_each(|(axis, &stride)| axis.out = stride);
        }
        // The order of the contracting axes is free: nested as in memory, more of them merge.
        k.sort_by_key(|axis| std::cmp::Reverse((axis.lhs, axis.rhs)));
        self.arithmetic(op).in_library().then(|| Dot {
            operand_types: [lhs.dtype, rhs.dtype],
            out: self.result,
            batch: merge(batch),
            m: merge(m),
            n: merge(n),
            k: merge(k),
            begin: Default::default(),
            epilogue: None,
        })
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
        // Without products no loop may be left around nothing.
        let some = self.lhs_contracting.iter().all(|&axis| lhs.shape[axis] > 0);
        let sum =
            if some { self.nest(e, op, [&mut left, &mut right], 0, &zero) } else { zero };
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
        let strides = [&dense(lhs.ty())[..], &dense(rhs.ty())];
        let Groups { batch, m, n, k } = self.groups(lhs.ty(), rhs.ty(), strides);
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
        let Groups { batch, m, n, k } = self.groups(lhs, rhs, [&dense(lhs), &dense(rhs)]);
        let terms = extent(&k);
        let one_batch = extent(&m).saturating_mul(extent(&n)).saturating_mul(terms);
        let small = terms <= SMALL_K
            || one_batch <= SMALL_BATCH
            || one_batch.saturating_mul(extent(&batch)) <= SMALL_IN_ALL;
        match self.library(op) {
            Some(dot) if !small => Lowering::Library(Library::Dot(dot)),
            _ => Lowering::Elements {
                cost: self.arithmetic(op).cost(terms),
                element: Box::new(move |e, _, index| self.element(e, op, index)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Op;
    use crate::testing::{
        assert_close, check_function, fault, lowered_as, only_op, program, small, tensor,
    };
    use crate::{Function, interpret};

    /// A contraction of tensors of the types, by its axes.
    fn dot(axes: &str, lhs: &str, rhs: &str, out: &str) -> String {
        format!(
            "(%x: tensor<{lhs}>, %y: tensor<{rhs}>) -> tensor<{out}> {{
              %0 = stablehlo.dot_general %x, %y, {axes}, precision = [DEFAULT, DEFAULT]
                : (tensor<{lhs}>, tensor<{rhs}>) -> tensor<{out}>
              return %0 : tensor<{out}>
            }}"
        )
    }

    const FORMS: [(&str, [&str; 3]); 9] = [
        ("contracting_dims = [1] x [0]", ["3x4x", "4x5x", "3x5x"]),
        ("contracting_dims = [0] x [1]", ["4x3x", "5x4x", "3x5x"]),
        ("batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2]", [
            "2x3x4x5x", "2x3x5x6x", "2x3x4x6x",
        ]),
        ("batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3]", [
            "2x5x2x3x4x", "2x5x2x4x", "2x2x5x3x5x",
        ]),
        ("batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4]", [
            "2x5x2x3x", "4x2x2x4x5x", "2x2x3x4x4x",
        ]),
        ("contracting_dims = [2, 0] x [0, 1]", ["3x2x4x", "4x3x5x", "2x5x"]),
        ("contracting_dims = [0] x [0]", ["7x", "7x", ""]),
        ("contracting_dims = [] x []", ["3x", "4x", "3x4x"]),
        ("contracting_dims = [1] x [0]", ["3x0x", "0x5x", "3x5x"]),
    ];

    /// What a library call would compute, by its description.
    fn by_library(dot: &Dot, operands: &[Literal], ty: &TensorType) -> Literal {
        let arithmetic = Arithmetic::new("test", dot.operand_types, dot.out).expect("types");
        let groups = [&dot.batch, &dot.m, &dot.n, &dot.k];
        let flat = |group: &[DotAxis], stride: fn(&DotAxis) -> i64| {
            let shape: Vec<u64> = group.iter().map(|a| a.extent).collect();
            positions(&shape, &group.iter().map(stride).collect::<Vec<i64>>())
        };
        let [l, r, o] = [|a: &DotAxis| a.lhs, |a: &DotAxis| a.rhs, |a: &DotAxis| a.out];
        let [lhs, rhs, out] = [l, r, o].map(|stride| groups.map(|g| flat(g, stride)));
        let mut terms = |position: usize, add: &mut dyn FnMut(usize, usize)| {
            for b in 0..out[0].len() {
                for m in 0..out[1].len() {
                    for n in 0..out[2].len() {
                        if out[0][b] + out[1][m] + out[2][n] != position {
                            continue;
                        }
                        for k in 0..out[3].len() {
                            add(lhs[0][b] + lhs[1][m] + lhs[3][k], rhs[0][b] + rhs[2][n] + rhs[3][k]);
                        }
                    }
                }
            }
        };
        arithmetic.evaluate(&operands[0], &operands[1], ty, &mut terms)
    }

    fn check(function: &Function, operands: &[Literal]) -> Vec<Literal> {
        let expected = interpret::call(None, function, operands).expect("it evaluates");
        let op = only_op(function);
        let Op::DotGeneral(this) = &op.data().op else { panic!("a contraction") };
        let element = Lowering::Elements {
            cost: crate::lower::ElementCost::Free,
            element: Box::new(move |e, _, index| this.element(e, op, index)),
        };
        assert_close(&lowered_as(function, operands, element)[0], &expected[0], 0.0);
        if let Some(dot) = this.library(op) {
            assert_close(&by_library(&dot, operands, expected[0].ty()), &expected[0], 0.0);
        }
        expected
    }

    #[test]
    fn elements_and_library_agree_for_every_form_and_type() {
        let types = [
            ["f32", "f32", "f32"],
            ["bf16", "bf16", "bf16"],
            ["bf16", "bf16", "f32"],
            ["f16", "f32", "f64"],
            ["i8", "i8", "i32"],
            ["ui8", "i8", "i16"],
            ["i64", "i64", "i64"],
            ["i1", "i1", "i1"],
            ["i32", "i32", "f32"],
            ["complex<f32>", "complex<f32>", "complex<f32>"],
            ["f32", "complex<f64>", "complex<f64>"],
        ];
        for (n, (axes, [lhs, rhs, out])) in FORMS.into_iter().enumerate() {
            for [l, r, o] in types {
                let shape = |s: &str, d: &str| format!("{s}{d}");
                let text = dot(axes, &shape(lhs, l), &shape(rhs, r), &shape(out, o));
                let function = program(&text);
                let operand = |p: usize| {
                    let ty = function.ty(function.parameters()[p]);
                    small(ty.dtype, &ty.shape, (2 * n + p) as u64)
                };
                check(&function, &[operand(0), operand(1)]);
            }
        }
    }

    #[test]
    fn products_add_up() {
        let function = program(&dot("contracting_dims = [1] x [0]", "2x2xi8", "2x1xi8", "2x1xi32"));
        let x = tensor(DType::I8, &[2, 2], &[100., 100., -1., 2.]);
        let y = tensor(DType::I8, &[2, 1], &[100., 3.]);
        let product = check(&function, &[x, y]);
        assert_eq!(product, [tensor(DType::I32, &[2, 1], &[10300., -94.])]);
    }

    #[test]
    fn the_old_form_is_read() {
        let text = "(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
          %0 = stablehlo.dot %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }";
        let function = program(text);
        let x = tensor(DType::F32, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
        let y = tensor(DType::F32, &[3], &[1., 0., 2.]);
        let product = check_function(&function, &[x, y], 0.0);
        assert_eq!(product, [tensor(DType::F32, &[2], &[7., 16.])]);
    }

    #[test]
    fn neighbouring_axes_merge() {
        let text = dot("contracting_dims = [2] x [0]", "8x64x32xf32", "32x16x4xf32", "8x64x16x4xf32");
        let function = program(&text);
        let op = only_op(&function);
        let Op::DotGeneral(this) = &op.data().op else { panic!("a contraction") };
        let dot = this.library(op).expect("a library call");
        let axis = |extent, lhs, rhs, out| DotAxis { extent, lhs, rhs, out };
        assert_eq!(dot.m, [axis(512, 32, 0, 64)]);
        assert_eq!(dot.n, [axis(64, 0, 1, 1)]);
        assert_eq!(dot.k, [axis(32, 1, 64, 0)]);
    }

    #[test]
    fn faults_name_the_axes() {
        let dot = DotGeneral {
            lhs_batch: Vec::new(),
            rhs_batch: Vec::new(),
            lhs_contracting: vec![1],
            rhs_contracting: vec![0],
            result: DType::F32,
        };
        let ty = |shape: &[u64]| TensorType::new(shape, DType::F32);
        assert_eq!(
            fault(dot.clone(), &[ty(&[64, 512]), ty(&[511, 8])]),
            "dot_general: contracting sizes differ: lhs axis 1 is 512, rhs axis 0 is 511"
        );
        assert_eq!(fault(dot, &[ty(&[64]), ty(&[8])]), "dot_general: lhs has no axis 1: tensor<64xf32>");
    }
}
