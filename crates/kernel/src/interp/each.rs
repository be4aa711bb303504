//! Kernels without loops over many elements.

use super::{computed, narrow, widen};
use crate::inst::{
    BinaryOp, CastOp, Compare, CompareKind, Inst, Typed, UnaryOp, bits32, eval_binary, eval_cast,
    eval_compare, eval_unary,
};
use crate::kernel::{Block, Def, Kernel, Reg, Stmt};
use crate::{Affine, RegType};
use cranelift_entity::{EntityRef, SecondaryMap};

/// Elements evaluated together.
const CHUNK: usize = 512;

/// An operand of [`run_each`].
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Run `i` reads its own elements, from `i * len` on.
    Each(&'a [u8]),
    /// Every run reads the same elements.
    Same(&'a [u8]),
}

/// Runs a kernel that has no loops `count` times. Its first parameters are the operands; each of
/// the others is written, `len` elements a run. Loads and stores are at constant positions below
/// the parameter's `len`, stores outside of branches. Gives the written parameters' bytes.
pub fn run_each(kernel: &Kernel, operands: &[Column<'_>], count: usize) -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = kernel
        .params
        .values()
        .skip(operands.len())
        .map(|p| vec![0; count * (p.len * p.dtype.size()) as usize])
        .collect();
    let mut table: SecondaryMap<Reg, Vec<u64>> = SecondaryMap::new();
    let mut first = 0;
    while first < count {
        let size = CHUNK.min(count - first);
        let block = &kernel.body;
        chunk(kernel, block, operands, &mut out, &mut table, first, size);
        first += size;
    }
    out
}

/// Runs a block for a chunk of elements; one inside a branch stores nothing.
fn chunk(
    kernel: &Kernel,
    block: &Block,
    operands: &[Column<'_>],
    out: &mut [Vec<u8>],
    table: &mut SecondaryMap<Reg, Vec<u64>>,
    first: usize,
    size: usize,
) {
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(reg) => {
                let data = &kernel.regs[*reg];
                let Def::Inst(inst) = &data.def else {
                    unreachable!("kernel {}: {reg} is no instruction", kernel.name)
                };
                let mut column = std::mem::take(&mut table[*reg]);
                column.resize(size, 0);
                if let Inst::Load(param, at) = inst {
                    let data = &kernel.params[*param];
                    let width = data.dtype.size() as usize;
                    let (len, at) = (data.len as usize, constant(kernel, at));
                    assert!(at < len, "kernel {}: load from {param}[{at}]", kernel.name);
                    match operands[param.index()] {
                        Column::Each(bytes) => {
                            for (i, value) in column.iter_mut().enumerate() {
                                let at = ((first + i) * len + at) * width;
                                *value = widen(&bytes[at..], data.dtype);
                            }
                        }
                        Column::Same(bytes) => column.fill(widen(&bytes[at * width..], data.dtype)),
                    }
                } else {
                    instruction(kernel, inst, data.ty, table, &mut column);
                }
                table[*reg] = column;
            }
            Stmt::Store { param, at, value } => {
                let data = &kernel.params[*param];
                let width = data.dtype.size() as usize;
                let (len, at) = (data.len as usize, constant(kernel, at));
                assert!(at < len, "kernel {}: store to {param}[{at}]", kernel.name);
                let bytes = &mut out[param.index() - operands.len()];
                for (i, &value) in table[*value].iter().enumerate().take(size) {
                    let at = ((first + i) * len + at) * width;
                    narrow(value, data.dtype, &mut bytes[at..at + width]);
                }
            }
            // Instructions are total, so that both sides may run for every element.
            Stmt::If(branch) => {
                for side in [&branch.then, &branch.otherwise] {
                    chunk(kernel, side, operands, &mut [], table, first, size);
                }
                for &(result, then, otherwise) in &branch.results {
                    let taken = table[branch.condition].iter();
                    let values = taken.zip(table[then].iter().zip(&table[otherwise]));
                    let column = values.map(|(&c, (&a, &b))| if c != 0 { a } else { b }).collect();
                    table[result] = column;
                }
            }
            Stmt::Loop(_) => unreachable!("kernel {} has a loop", kernel.name),
        }
    }
}

fn constant(kernel: &Kernel, at: &Affine) -> usize {
    let position = at.as_constant().and_then(|c| usize::try_from(c).ok());
    position.unwrap_or_else(|| panic!("kernel {}: an access at {at}", kernel.name))
}

/// One instruction over a chunk. The common float instructions have loops of their own, which the
/// compiler turns into vectors; the others are evaluated one by one with the same functions as in
/// [`super::run`].
fn instruction(
    kernel: &Kernel,
    inst: &Inst,
    ty: RegType,
    table: &SecondaryMap<Reg, Vec<u64>>,
    out: &mut [u64],
) {
    let of = |r: &Reg| kernel.regs[*r].ty;
    match inst {
        Inst::Binary(op, a, b) => binary(*op, ty, &table[*a], &table[*b], out),
        Inst::Fma(a, b, c) => {
            let (a, b, c) = (&table[*a], &table[*b], &table[*c]);
            let operands = a.iter().zip(b).zip(c);
            if ty == RegType::F32 {
                for (o, ((&a, &b), &c)) in out.iter_mut().zip(operands) {
                    *o = bits32(single(a).mul_add(single(b), single(c)));
                }
            } else {
                for (o, ((&a, &b), &c)) in out.iter_mut().zip(operands) {
                    *o = double(a).mul_add(double(b), double(c)).to_bits();
                }
            }
        }
        Inst::Select(condition, a, b) => {
            let operands = table[*condition].iter().zip(&table[*a]).zip(&table[*b]);
            for (o, ((&c, &a), &b)) in out.iter_mut().zip(operands) {
                *o = if c != 0 { a } else { b };
            }
        }
        Inst::Unary(op, a) => unary(*op, of(a), ty, &table[*a], out),
        Inst::Compare(op, kind, a, b) => {
            compare(*op, *kind, of(a), &table[*a], &table[*b], out);
        }
        Inst::Cast(op, a) => cast(*op, of(a), ty, &table[*a], out),
        Inst::Const(bits) => out.fill(*bits),
        other => {
            for (i, o) in out.iter_mut().enumerate() {
                *o = computed(kernel, other, ty, |r| table[r][i]);
            }
        }
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn binary(op: BinaryOp, ty: RegType, a: &[u64], b: &[u64], out: &mut [u64]) {
    macro_rules! floats {
        ($f:expr) => {{
            let operands = out.iter_mut().zip(a.iter().zip(b));
            if ty == RegType::F32 {
                operands.for_each(|(o, (&a, &b))| {
                    let f: fn(f32, f32) -> f32 = $f;
                    *o = bits32(f(single(a), single(b)));
                });
            } else {
                operands.for_each(|(o, (&a, &b))| {
                    let f: fn(f64, f64) -> f64 = $f;
                    *o = f(double(a), double(b)).to_bits();
                });
            }
        }};
    }
    match op {
        BinaryOp::Add if ty.is_float() => floats!(|x, y| x + y),
        BinaryOp::Sub if ty.is_float() => floats!(|x, y| x - y),
        BinaryOp::Mul if ty.is_float() => floats!(|x, y| x * y),
        BinaryOp::Div if ty.is_float() => floats!(|x, y| x / y),
        _ => {
            for (o, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
                *o = eval_binary(op, Typed { ty, bits: a }, Typed { ty, bits: b });
            }
        }
    }
}

fn unary(op: UnaryOp, from: RegType, to: RegType, a: &[u64], out: &mut [u64]) {
    for (o, &a) in out.iter_mut().zip(a) {
        *o = eval_unary(op, Typed { ty: from, bits: a }, to);
    }
}

fn cast(op: CastOp, from: RegType, to: RegType, a: &[u64], out: &mut [u64]) {
    if op == CastOp::Bitcast {
        out.copy_from_slice(a);
        return;
    }
    for (o, &a) in out.iter_mut().zip(a) {
        *o = eval_cast(op, Typed { ty: from, bits: a }, to);
    }
}

fn compare(op: Compare, kind: CompareKind, ty: RegType, a: &[u64], b: &[u64], out: &mut [u64]) {
    for (o, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
        *o = u64::from(eval_compare(op, kind, Typed { ty, bits: a }, Typed { ty, bits: b }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{self, Guard};
    use crate::{Access, DType, KernelBuilder};

    /// A complex product by a real factor that is the same for all: more elements than a chunk.
    #[test]
    fn columns_are_read_and_written_by_run() {
        let mut b = KernelBuilder::new("scale");
        let z = b.param(DType::F32, 2, Access::Read);
        let s = b.param(DType::F32, 1, Access::Read);
        let out = b.param(DType::F32, 2, Access::Write);
        let factor = b.load(s, Affine::constant(0));
        for part in 0..2 {
            let value = b.load(z, Affine::constant(part));
            let product = b.binary(BinaryOp::Mul, value, factor);
            b.store(out, Affine::constant(part), product);
        }
        let kernel = b.finish();
        let input: Vec<f32> = (0..2000).map(|i| i as f32).collect();
        let bytes: Vec<u8> = input.iter().flat_map(|v| v.to_le_bytes()).collect();
        let half = 0.5f32.to_le_bytes();
        let out = run_each(&kernel, &[Column::Each(&bytes), Column::Same(&half)], 1000);
        let expected: Vec<u8> = input.iter().flat_map(|v| (v * 0.5).to_le_bytes()).collect();
        assert_eq!(out, [expected]);
    }

    #[test]
    fn a_branch_is_taken_element_by_element() {
        let mut b = KernelBuilder::new("abs");
        let x = b.param(DType::F32, 1, Access::Read);
        let out = b.param(DType::F32, 1, Access::Write);
        let value = b.load(x, Affine::constant(0));
        let zero = b.f32(0.0);
        let negative = b.compare(Compare::Lt, CompareKind::Float, value, zero);
        let sides = builder::branch(
            &mut b,
            Guard::When(negative),
            |b| vec![b.unary(UnaryOp::Neg, value)],
            |_| vec![value],
        );
        b.store(out, Affine::constant(0), sides[0]);
        let input = [-1.5f32, 2.0, -0.25].map(f32::to_le_bytes).concat();
        let out = run_each(&b.finish(), &[Column::Each(&input)], 3);
        assert_eq!(out, [[1.5f32, 2.0, 0.25].map(f32::to_le_bytes).concat()]);
    }
}
