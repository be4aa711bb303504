//! Dots and convolutions: which way each is computed, chosen when the program is compiled.

use super::engine::{Engine, Finish};
use super::lines::Lines;
use super::plain;
use super::thin::Thin;
use super::tile::Machine;
use super::tiny::Tiny;
use crate::pool::{KernelFn, Pool};
use jaxrs_kernel::DType;
use jaxrs_kernel::contraction::{Arithmetic, Contraction};
use jaxrs_kernel::program::{Convolution, Dot, DotBegin, DotStart, Epilogue};

/// A contraction or convolution, ready to run.
pub(super) struct Contract {
    method: Method,
    scratch_step: usize,
    begin: Begin,
    epilogue: Option<Box<Epilogue>>,
}

/// Where the tensors begin in their buffers.
struct Begin {
    /// Operands of the step; the result's buffer comes after theirs.
    operands: usize,
    /// For lhs, rhs and result: where it begins, in elements, and the bytes of one.
    tensors: [(DotBegin, isize); 3],
}

enum Method {
    Blocks(Vec<Block>),
    PlainDot(Dot),
    PlainConvolution(Convolution),
}

/// An engine by the type it accumulates in.
enum Block {
    TinyF32(Tiny<f32>),
    TinyF64(Tiny<f64>),
    ThinF32(Thin<f32>),
    ThinF64(Thin<f64>),
    LinesF32(Lines<f32>),
    LinesF64(Lines<f64>),
    F32(Engine<f32>),
    F64(Engine<f64>),
    I32(Engine<i32>),
    I64(Engine<i64>),
}

impl Contract {
    /// A dot of a step with so many operands.
    pub(super) fn dot(
        dot: &Dot,
        operands: usize,
        machine: Machine,
        scratch_step: usize,
    ) -> Contract {
        let one = Contraction::of_dot(dot);
        let block = match dot.epilogue {
            Some(_) => Engine::new(one, dot.operand_types, dot.out, Arithmetic::F32, machine)
                .map(|engine| Block::F32(engine.with_sums_apart())),
            None => block(one, dot.operand_types, dot.out, machine),
        };
        let method = match block {
            Some(block) => Method::Blocks(vec![block]),
            None => Method::PlainDot(dot.clone()),
        };
        let epilogue = dot.epilogue.clone();
        let types = [dot.operand_types[0], dot.operand_types[1], dot.out];
        let tensors = [0, 1, 2].map(|t| (dot.begin[t].clone(), types[t].size() as isize));
        Contract { method, scratch_step, begin: Begin { operands, tensors }, epilogue }
    }

    /// A convolution.
    pub(super) fn convolution(
        conv: &Convolution,
        machine: Machine,
        scratch_step: usize,
    ) -> Contract {
        let blocks = Contraction::of_convolution(conv).and_then(|phases| {
            let blocks = phases.into_iter();
            blocks.map(|c| block(c, conv.operand_types, conv.out, machine)).collect()
        });
        let method = match blocks {
            Some(blocks) => Method::Blocks(blocks),
            None => Method::PlainConvolution(conv.clone()),
        };
        let tensors = [0; 3].map(|_| (DotBegin::default(), 0));
        let begin = Begin { operands: 2, tensors };
        Contract { method, scratch_step, begin, epilogue: None }
    }

    /// Computes the result.
    ///
    /// # Safety
    /// As [`super::LibraryStep::run`].
    pub(super) unsafe fn run(
        &self,
        pool: &Pool,
        buffers: *const *mut u8,
        scratch: *mut u8,
        kernel: Option<KernelFn>,
    ) {
        let operands = self.begin.operands;
        let finish = self.epilogue.as_ref().map(|epilogue| Finish {
            epilogue,
            kernel: kernel.expect("an epilogue's kernel is given before the first run"),
            buffers,
            operands,
        });
        // SAFETY: by the caller.
        unsafe {
            let [lhs, rhs, out] = self.begin.pointers(buffers);
            let plain = plain::Buffers { lhs, rhs, out };
            match &self.method {
                Method::Blocks(blocks) => {
                    for block in blocks {
                        let operands = [lhs.cast_const(), rhs.cast_const()];
                        let step = self.scratch_step;
                        match block {
                            Block::TinyF32(tiny) => tiny.run(pool, operands, out),
                            Block::TinyF64(tiny) => tiny.run(pool, operands, out),
                            Block::ThinF32(thin) => thin.run(pool, operands, out, scratch, step),
                            Block::ThinF64(thin) => thin.run(pool, operands, out, scratch, step),
                            Block::LinesF32(lines) => lines.run(pool, operands, out),
                            Block::LinesF64(lines) => lines.run(pool, operands, out),
                            Block::F32(engine) => {
                                engine.run(pool, operands, out, scratch, step, finish);
                            }
                            Block::F64(engine) => {
                                engine.run(pool, operands, out, scratch, step, None);
                            }
                            Block::I32(engine) => {
                                engine.run(pool, operands, out, scratch, step, None);
                            }
                            Block::I64(engine) => {
                                engine.run(pool, operands, out, scratch, step, None);
                            }
                        }
                    }
                }
                Method::PlainDot(dot) => plain::dot(dot, pool, plain),
                Method::PlainConvolution(conv) => plain::convolution(conv, pool, plain),
            }
        }
    }
}

impl Begin {
    /// The first elements of lhs, rhs and result.
    ///
    /// # Safety
    /// The buffers are those of the step's operands and result.
    unsafe fn pointers(&self, buffers: *const *mut u8) -> [*mut u8; 3] {
        let buffer = [0, 1, self.operands];
        std::array::from_fn(|tensor| {
            let (begin, size) = &self.tensors[tensor];
            // SAFETY: by the caller; the starts' operands hold integers of their types.
            unsafe {
                let at = |s: &DotStart| start(*buffers.add(s.operand as usize), s) * s.stride;
                let first = begin.first + begin.starts.iter().map(at).sum::<i64>();
                (*buffers.add(buffer[tensor])).wrapping_offset(first as isize * size)
            }
        })
    }
}

/// The index that a start names, clamped.
///
/// # Safety
/// `index` points to an integer of the start's type.
unsafe fn start(index: *const u8, start: &DotStart) -> i64 {
    // SAFETY: by the caller.
    let value = unsafe {
        match start.dtype {
            DType::U64 => {
                return index.cast::<u64>().read().min(start.high as u64) as i64;
            }
            DType::I64 => index.cast::<i64>().read(),
            DType::I32 => i64::from(index.cast::<i32>().read()),
            DType::U32 => i64::from(index.cast::<u32>().read()),
            DType::I16 => i64::from(index.cast::<i16>().read()),
            DType::U16 => i64::from(index.cast::<u16>().read()),
            DType::I8 => i64::from(index.cast::<i8>().read()),
            // No other type is an index.
            _ => i64::from(index.read()),
        }
    };
    value.clamp(0, start.high)
}

/// An engine for a contraction; None if the plain loops must do it.
fn block(c: Contraction, types: [DType; 2], out: DType, machine: Machine) -> Option<Block> {
    let arithmetic = Arithmetic::of(types, out)?;
    match arithmetic {
        Arithmetic::F32 => {
            if let Some(tiny) = Tiny::new(&c, types, out) {
                return Some(Block::TinyF32(tiny));
            }
            if let Some(thin) = Thin::new(&c, types, out, machine) {
                return Some(Block::ThinF32(thin));
            }
            if let Some(lines) = Lines::new(&c, types, out, machine) {
                return Some(Block::LinesF32(lines));
            }
        }
        Arithmetic::F64 => {
            if let Some(tiny) = Tiny::new(&c, types, out) {
                return Some(Block::TinyF64(tiny));
            }
            if let Some(thin) = Thin::new(&c, types, out, machine) {
                return Some(Block::ThinF64(thin));
            }
            if let Some(lines) = Lines::new(&c, types, out, machine) {
                return Some(Block::LinesF64(lines));
            }
        }
        Arithmetic::I32 | Arithmetic::I64 => {}
    }
    Some(match arithmetic {
        Arithmetic::F32 => Block::F32(Engine::new(c, types, out, arithmetic, machine)?),
        Arithmetic::F64 => Block::F64(Engine::new(c, types, out, arithmetic, machine)?),
        Arithmetic::I32 => Block::I32(Engine::new(c, types, out, arithmetic, machine)?),
        Arithmetic::I64 => Block::I64(Engine::new(c, types, out, arithmetic, machine)?),
    })
}

#[cfg(test)]
mod tests;
