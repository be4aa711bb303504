//! Library steps: contractions, convolutions, sorts, top-k, linear algebra, Fourier transforms.
//!
//! A [`LibraryStep`] is prepared once, when a program is compiled, from the step's description and
//! its operands' types; [`LibraryStep::run`] (for compiled code: [`run_library`]) then allocates
//! nothing but what [`library_scratch_bytes`] says. Results do not depend on the number of threads.
//!
//! Dots and convolutions are both a `jaxrs_kernel::contraction::Contraction`; `contract` chooses how
//! each is computed:
//! * `tiny`: plain loops; `thin`, `thin_loops`: matrix times vector, at the speed of memory; `lines`:
//!   depthwise convolutions and others that would leave blocks empty; `plain`: any types, from the
//!   definition.
//! * `engine`: everything else, by blocks. `tables` say where rows and depths are, `packed`, `pack`
//!   and `patch` copy them side by side (`groups`: several narrow ones in a number), `tile` is the
//!   innermost loop over `simd` vectors, `source` converts elements.
//!
//! `linalg` runs `jaxrs_kernel::linalg` with this machine's innermost loops, `fft` what `rustfft`
//! plans. `sort` and `top_k` order rows by the integers of `key`; `spare` keeps what does not fit scratch.

mod contract;
mod engine;
mod fft;
mod groups;
mod key;
mod linalg;
mod lines;
mod pack;
mod packed;
mod patch;
mod plain;
mod print;
mod simd;
mod sort;
mod source;
mod spare;
mod tables;
mod thin;
mod thin_loops;
mod tile;
mod tiny;
mod top_k;

use crate::pool::{KernelFn, Pool};
use contract::Contract;
use jaxrs_kernel::DType;
use jaxrs_kernel::program::Library;
use std::sync::OnceLock;
use tile::Machine;

/// A library call, ready to run.
pub struct LibraryStep {
    call: Call,
    kernel: OnceLock<KernelFn>,
}

enum Call {
    Contract(Contract),
    Sort(sort::Sort),
    TopK(top_k::TopK),
    Linalg(linalg::Linalg),
    Fft(fft::Fft),
    Print(print::Print),
}

impl LibraryStep {
    /// Prepares a call on operands of these types.
    pub fn new(library: &Library, operands: &[(DType, Vec<u64>)]) -> LibraryStep {
        LibraryStep::with(library, operands, Machine::detect())
    }

    fn with(library: &Library, operands: &[(DType, Vec<u64>)], machine: Machine) -> LibraryStep {
        let step = jaxrs_kernel::scratch::scratch(library).per_thread.0 as usize;
        let call = match library {
            Library::Dot(dot) => {
                Call::Contract(Contract::dot(dot, operands.len().max(2), machine, step))
            }
            Library::Convolution(conv) => {
                Call::Contract(Contract::convolution(conv, machine, step))
            }
            Library::Sort(sort) => Call::Sort(sort::Sort::new(sort, step)),
            Library::TopK { k } => Call::TopK(top_k::TopK::new(*k, &operands[0], step)),
            Library::Linalg(linalg) => Call::Linalg(linalg::Linalg::new(linalg, machine, step)),
            Library::Fft(fft) => Call::Fft(fft::Fft::new(fft, step)),
            Library::Print { label, axes } => {
                Call::Print(print::Print::new(label, *axes, operands))
            }
        };
        LibraryStep { call, kernel: OnceLock::new() }
    }

    /// Gives the kernel of a step that has one. A sort's buffers are one element each of a0, b0, a1,
    /// b1, ..., then one byte that becomes whether a stands before b; a contraction's are those of
    /// its epilogue. Called once, before the first run, as the kernel's address is known only when
    /// all code is compiled.
    pub fn set_kernel(&self, kernel: KernelFn) {
        let _ = self.kernel.set(kernel);
    }

    /// Runs the call. `buffers` are the operands' and then the results'.
    ///
    /// # Safety
    /// Every buffer holds its value's elements, aligned to 64 bytes; results overlap operands only
    /// as the step's `sharing` allows; `scratch` has `jaxrs_kernel::scratch::scratch(library)`
    /// bytes for each of the pool's threads, aligned to 64.
    pub unsafe fn run(&self, pool: &Pool, buffers: *const *mut u8, scratch: *mut u8) {
        let kernel = self.kernel.get().copied();
        // SAFETY: by the caller.
        unsafe {
            match &self.call {
                Call::Contract(contract) => contract.run(pool, buffers, scratch, kernel),
                Call::Sort(sort) => sort.run(pool, buffers, scratch, kernel),
                Call::TopK(top_k) => top_k.run(pool, buffers, scratch),
                Call::Linalg(linalg) => linalg.run(pool, buffers, scratch),
                Call::Fft(fft) => fft.run(pool, buffers, scratch),
                Call::Print(print) => print.run(buffers),
            }
        }
    }
}

/// [`LibraryStep::run`] for compiled code.
///
/// # Safety
/// As there; `step` and `pool` point to what their types say.
pub unsafe extern "C" fn run_library(
    step: *const LibraryStep,
    pool: *const Pool,
    buffers: *const *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: by the caller.
    unsafe { (*step).run(&*pool, buffers, scratch) }
}

/// Bytes that a call may allocate outside the plan, on all threads together.
pub fn library_scratch_bytes(
    library: &Library,
    operands: &[(DType, Vec<u64>)],
    threads: usize,
) -> u64 {
    match library {
        Library::Dot(_) | Library::Convolution(_) | Library::Print { .. } => 0,
        Library::Sort(sort) => sort::spare_bytes(sort, threads),
        Library::TopK { k } => top_k::spare_bytes(*k, &operands[0], threads),
        Library::Linalg(linalg) => linalg::spare_bytes(linalg, threads),
        Library::Fft(fft) => fft::Fft::new(fft, 0).spare_bytes(threads),
    }
}

#[cfg(test)]
mod tests {
    //! What the tests of library steps share.
    use super::tile::Machine;
    use jaxrs_kernel::DType;

    /// Every kind of machine that this one can be.
    pub(super) fn machines() -> Vec<Machine> {
        match Machine::detect() {
            Machine::Portable => vec![Machine::Portable],
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2 => vec![Machine::Portable, Machine::Avx2],
            #[cfg(target_arch = "x86_64")]
            Machine::Avx512 => vec![Machine::Portable, Machine::Avx2, Machine::Avx512],
        }
    }

    /// Bytes aligned to 64.
    pub(super) fn aligned(len: usize) -> Aligned {
        Aligned { lines: vec![Line([0; 64]); len.div_ceil(64)], len }
    }

    pub(super) struct Aligned {
        lines: Vec<Line>,
        len: usize,
    }

    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line(#[allow(dead_code)] [u8; 64]);

    impl std::ops::Deref for Aligned {
        type Target = [u8];
        fn deref(&self) -> &[u8] {
            // SAFETY: the lines are bytes in a row, at least `len`.
            unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
        }
    }

    impl std::ops::DerefMut for Aligned {
        fn deref_mut(&mut self) -> &mut [u8] {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
        }
    }

    /// SplitMix64.
    pub(super) struct Random(u64);

    impl Random {
        pub(super) fn new(seed: u64) -> Random {
            Random(seed)
        }

        pub(super) fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        pub(super) fn below(&mut self, end: u64) -> u64 {
            self.next() % end
        }

        pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
            for i in (1..items.len()).rev() {
                items.swap(i, self.below(i as u64 + 1) as usize);
            }
        }

        /// Elements that are small integers; any bits of integer types.
        pub(super) fn elements(&mut self, dtype: DType, count: u64) -> Aligned {
            let mut out = aligned((dtype.size() * count) as usize);
            let parts = (count * dtype.parts()) as usize;
            let part = dtype.part();
            for i in 0..parts {
                let small = self.below(9) as f32 - 4.0;
                let bits: u64 = match part {
                    DType::I1 => self.below(2),
                    DType::BF16 => u64::from(half::bf16::from_f32(small).to_bits()),
                    DType::F16 => u64::from(half::f16::from_f32(small).to_bits()),
                    DType::F32 => u64::from(small.to_bits()),
                    DType::F64 => f64::from(small).to_bits(),
                    _ => self.next(),
                };
                let size = part.size() as usize;
                out[i * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
            }
            out
        }

        /// Equal as numbers: zeros of both signs are.
        pub(super) fn same(&self, dtype: DType, a: &[u8], b: &[u8]) -> bool {
            let size = dtype.part().size() as usize;
            a.len() == b.len()
                && a.chunks(size).zip(b.chunks(size)).all(|(a, b)| {
                    let zero = |x: &[u8]| {
                        let mut x = x.to_vec();
                        *x.last_mut().expect("elements have bytes") &= 0x7f;
                        x.iter().all(|&byte| byte == 0)
                    };
                    a == b
                        || dtype.class() != jaxrs_kernel::dtype::Class::Bool && zero(a) && zero(b)
                })
        }
    }
}
