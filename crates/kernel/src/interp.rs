//! Runs kernels by the letter of [`crate::kernel`] and [`crate::inst`]: the oracle for fusion and
//! for code generation.
//!
//! [`run`] takes any kernel, one instruction at a time. [`run_each`] runs a kernel without loops
//! over many elements, an instruction at a time over a chunk of elements; the interpreter of the
//! IR evaluates elementwise ops with it.
//!
//! An access out of bounds is a fault of whoever built the kernel and panics with its name.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::inst::{Inst, Typed, eval_binary, eval_cast, eval_compare, eval_fma, eval_unary, mask};
use crate::kernel::{Block, Def, Kernel, Loop, ParamId, Reg, Stmt};
use cranelift_entity::{EntityRef, SecondaryMap};

mod each;

pub use each::{Column, run_each};

/// Runs the kernel over `[lo, hi)` of its outer index; `buffers[n]` is parameter `n`'s memory.
pub fn run(kernel: &Kernel, buffers: &mut [Vec<u8>], lo: i64, hi: i64) {
    let places: Vec<Place> = (0..buffers.len()).map(|buffer| Place { buffer, offset: 0 }).collect();
    run_at(kernel, buffers, &places, lo, hi);
}

/// Where a parameter's first element is: in which buffer, at which byte. The offset may lie
/// outside the buffer as long as no access does (a tile's local values).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The buffer.
    pub buffer: usize,
    /// Bytes from its start.
    pub offset: i64,
}

/// Runs the kernel with parameters anywhere in the buffers, so that they may share memory.
pub fn run_at(kernel: &Kernel, buffers: &mut [Vec<u8>], places: &[Place], lo: i64, hi: i64) {
    assert_eq!(places.len(), kernel.params.len(), "kernel {}: parameters", kernel.name);
    let regs = SecondaryMap::new();
    Machine { kernel, buffers, places, regs, lo, hi }.block(&kernel.body);
}

struct Machine<'a> {
    kernel: &'a Kernel,
    buffers: &'a mut [Vec<u8>],
    places: &'a [Place],
    regs: SecondaryMap<Reg, u64>,
    lo: i64,
    hi: i64,
}

impl Machine<'_> {
    fn block(&mut self, block: &Block) {
        let kernel = self.kernel;
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(reg) => {
                    let Def::Inst(inst) = &kernel.regs[*reg].def else {
                        unreachable!("kernel {}: {reg} is no instruction", kernel.name)
                    };
                    self.regs[*reg] = self.value(*reg, inst);
                }
                Stmt::Store { param, at, value } => {
                    let bits = self.regs[*value];
                    let dtype = kernel.params[*param].dtype;
                    let at = self.address(*param, at, "store to");
                    let buffer = &mut self.buffers[self.places[param.index()].buffer];
                    narrow(bits, dtype, &mut buffer[at..at + dtype.size() as usize]);
                }
                Stmt::Loop(l) => self.looped(l),
                Stmt::If(branch) => {
                    let taken = self.regs[branch.condition] != 0;
                    self.block(if taken { &branch.then } else { &branch.otherwise });
                    for &(result, then, otherwise) in &branch.results {
                        self.regs[result] = self.regs[if taken { then } else { otherwise }];
                    }
                }
            }
        }
    }

    fn looped(&mut self, l: &Loop) {
        let (mut start, mut end) = (l.start, l.end);
        if l.ranged {
            (start, end) = (start.max(self.lo), end.min(self.hi));
        }
        let mut carried: Vec<u64> = l.carries.iter().map(|c| self.regs[c.init]).collect();
        for position in start..end {
            self.regs[l.var] = position as u64;
            for (carry, &value) in l.carries.iter().zip(&carried) {
                self.regs[carry.inside] = value;
            }
            self.block(&l.body);
            for (carry, value) in l.carries.iter().zip(&mut carried) {
                *value = self.regs[carry.next];
            }
        }
        for (carry, &value) in l.carries.iter().zip(&carried) {
            self.regs[carry.result] = value;
        }
    }

    fn value(&self, reg: Reg, inst: &Inst) -> u64 {
        let ty = self.kernel.regs[reg].ty;
        match inst {
            Inst::Index(at) => self.index(at) as u64,
            Inst::FloorDiv(at, by) => self.index(at).div_euclid(*by) as u64,
            Inst::Modulo(at, by) => self.index(at).rem_euclid(*by) as u64,
            Inst::Load(param, at) => {
                let dtype = self.kernel.params[*param].dtype;
                let at = self.address(*param, at, "load from");
                widen(&self.buffers[self.places[param.index()].buffer][at..], dtype)
            }
            other => computed(self.kernel, other, ty, |r| self.regs[r]),
        }
    }

    fn index(&self, at: &Affine) -> i64 {
        let term =
            |&(reg, coefficient): &(Reg, i64)| (self.regs[reg] as i64).wrapping_mul(coefficient);
        at.terms.iter().map(term).fold(at.constant, i64::wrapping_add)
    }

    /// The byte in the parameter's buffer of an element, checked.
    fn address(&self, param: ParamId, at: &Affine, verb: &str) -> usize {
        let data = &self.kernel.params[param];
        let (name, position) = (&self.kernel.name, self.index(at));
        assert!(
            u64::try_from(position).is_ok_and(|p| p < data.len),
            "kernel {name}: {verb} {param}[{at}] at {position} of {} elements",
            data.len
        );
        let place = self.places[param.index()];
        let (size, bytes) = (data.dtype.size() as i64, self.buffers[place.buffer].len());
        let byte = place.offset + position * size;
        assert!(
            byte >= 0 && (byte + size) as u64 <= bytes as u64,
            "kernel {name}: {verb} {param}[{at}] at byte {byte} of a buffer of {bytes}"
        );
        byte as usize
    }
}

/// The value of an instruction that neither loads nor computes an index.
fn computed(kernel: &Kernel, inst: &Inst, ty: crate::RegType, of: impl Fn(Reg) -> u64) -> u64 {
    let typed = |r: &Reg| Typed { ty: kernel.regs[*r].ty, bits: of(*r) };
    match inst {
        Inst::Const(bits) => bits & mask(ty),
        Inst::Unary(op, a) => eval_unary(*op, typed(a), ty),
        Inst::Binary(op, a, b) => eval_binary(*op, typed(a), typed(b)),
        Inst::Fma(a, b, c) => eval_fma(typed(a), typed(b), typed(c)),
        Inst::Compare(op, kind, a, b) => u64::from(eval_compare(*op, *kind, typed(a), typed(b))),
        Inst::Select(condition, a, b) => of(if of(*condition) != 0 { *a } else { *b }),
        Inst::Cast(op, a) => eval_cast(*op, typed(a), ty),
        Inst::Index(_) | Inst::FloorDiv(..) | Inst::Modulo(..) | Inst::Load(..) => {
            unreachable!("kernel {}: indices and loads are handled apart", kernel.name)
        }
    }
}

/// Register bits from the bytes at the start of `bytes`, as a load gives them: `bf16` and `f16`
/// widened to `f32`, integers zero-extended (`dtype` is not complex).
pub fn widen(bytes: &[u8], dtype: DType) -> u64 {
    match dtype {
        DType::I1 => u64::from(bytes[0] & 1),
        DType::I8 | DType::U8 => u64::from(bytes[0]),
        DType::I16 | DType::U16 => u64::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        DType::BF16 => {
            u64::from(half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32().to_bits())
        }
        DType::F16 => u64::from(half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32().to_bits()),
        DType::I32 | DType::U32 | DType::F32 => {
            u64::from(u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes")))
        }
        DType::I64 | DType::U64 | DType::F64 => {
            u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
        }
        DType::C64 | DType::C128 => unreachable!("a part is real"),
    }
}

/// Writes register bits as an element, as a store does (`out` has the element's size).
pub fn narrow(bits: u64, dtype: DType, out: &mut [u8]) {
    match dtype {
        DType::BF16 => {
            out.copy_from_slice(&half::bf16::from_f32(f32::from_bits(bits as u32)).to_le_bytes());
        }
        DType::F16 => {
            out.copy_from_slice(&half::f16::from_f32(f32::from_bits(bits as u32)).to_le_bytes());
        }
        other => out.copy_from_slice(&bits.to_le_bytes()[..other.size() as usize]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{self, Build, LoopOptions};
    use crate::kernel::LoopKind;
    use crate::{Access, BinaryOp, KernelBuilder};

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    /// Sums of rows of a padded 3 x 4 matrix, padding read as zero.
    fn padded_sums() -> Kernel {
        let mut b = KernelBuilder::new("padded_sums");
        let x = b.param(DType::F32, 12, Access::Read);
        let y = b.param(DType::BF16, 3, Access::Write);
        b.set_range(3);
        builder::parallel(&mut b, 3, LoopOptions { ranged: true, split: true }, |b, row| {
            let inits = [(b.f32(0.0), Some(BinaryOp::Add))];
            let options = LoopOptions { ranged: false, split: true };
            let sum = builder::reduce(b, 6, options, LoopKind::Reduce, &inits, |b, i, c| {
                let inside = b.in_range(&i.offset(-1), 0, 4);
                let at = row.scale(4).add(i).offset(-1);
                let value = builder::branch(
                    b,
                    inside,
                    |b| vec![b.builder().load(x, at)],
                    |b| vec![b.builder().f32(0.0)],
                );
                vec![b.binary(BinaryOp::Add, c[0], value[0])]
            });
            b.store(y, row.clone(), sum[0]);
        });
        b.finish()
    }

    #[test]
    fn pieces_of_the_range_give_the_whole() {
        let kernel = padded_sums();
        assert_eq!(crate::verify::verify(&kernel), Ok(()), "{kernel}");
        let input: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let mut buffers = vec![floats(&input), vec![0; 6]];
        run(&kernel, &mut buffers, 1, 3);
        run(&kernel, &mut buffers, 0, 1);
        let sums: Vec<u64> = buffers[1].chunks(2).map(|c| widen(c, DType::BF16)).collect();
        let expected = [6.0f32, 22.0, 38.0].map(|v| u64::from(v.to_bits()));
        assert_eq!(sums, expected);
    }

    #[test]
    fn parameters_may_share_a_buffer() {
        let mut b = KernelBuilder::new("increment");
        let x = b.param(DType::I32, 4, Access::Read);
        let y = b.param(DType::I32, 4, Access::Write);
        builder::parallel(&mut b, 4, LoopOptions::default(), |b, i| {
            let value = b.load(x, i.clone());
            let one = b.int(crate::RegType::I32, 1);
            let sum = b.binary(BinaryOp::Add, value, one);
            b.store(y, i.clone(), sum);
        });
        let kernel = b.finish();
        let mut buffers =
            vec![[1u32, 2, 3, u32::MAX].iter().flat_map(|v| v.to_le_bytes()).collect()];
        let place = Place { buffer: 0, offset: 0 };
        run_at(&kernel, &mut buffers, &[place, place], 0, 0);
        assert_eq!(buffers[0], [2u32, 3, 4, 0].map(u32::to_le_bytes).concat());
    }

    #[test]
    #[should_panic(expected = "kernel reads_past: load from p0[2] at 2 of 2 elements")]
    fn an_access_out_of_bounds_names_the_kernel() {
        let mut b = KernelBuilder::new("reads_past");
        let x = b.param(DType::F32, 2, Access::ReadWrite);
        b.load(x, Affine::constant(2));
        run(&b.finish(), &mut [vec![0; 8]], 0, 0);
    }
}
