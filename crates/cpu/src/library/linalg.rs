//! Linear algebra: the routines of `jaxrs_kernel::linalg` on each matrix of a batch, with this
//! machine's innermost loops. Threads share out the matrices.

use super::spare::Spare;
use super::tile::Machine;
use crate::pool::Pool;
use half::{bf16, f16};
use jaxrs_kernel::DType;
use jaxrs_kernel::linalg::leaf::{self, TILE};
use jaxrs_kernel::linalg::{Call, Complex, Leaf, Memory, Place, Routine, Scalar};
use jaxrs_kernel::program;
use jaxrs_kernel::scratch::{linalg_bytes, widened_bytes};
use std::cell::Cell;

/// Elements below which a call stays on one thread.
const ONE_THREAD: u64 = 1024;

/// A routine, ready to run.
pub(super) struct Linalg {
    linalg: program::Linalg,
    loops: Loops,
    scratch_step: usize,
    spare: Spare,
}

/// Pointers that threads share.
struct Buffers {
    buffers: *const *mut u8,
    scratch: *mut u8,
}
// SAFETY: threads write the results of different matrices and their own scratch.
unsafe impl Sync for Buffers {}

impl Linalg {
    pub(super) fn new(linalg: &program::Linalg, machine: Machine, scratch_step: usize) -> Linalg {
        Linalg { linalg: *linalg, loops: Loops(machine), scratch_step, spare: Spare::default() }
    }

    /// Runs the routine.
    ///
    /// # Safety
    /// As [`super::LibraryStep::run`].
    pub(super) unsafe fn run(&self, pool: &Pool, buffers: *const *mut u8, scratch: *mut u8) {
        let shared = &Buffers { buffers, scratch };
        let [rows, columns] = self.linalg.shape;
        let each = (rows * columns * rows.min(columns)).max(1);
        let grain = ONE_THREAD.div_ceil(each);
        let bytes = linalg_bytes(&self.linalg) as usize;
        pool.run(self.linalg.batch as i64, grain as i64, |low, high, thread| {
            let planned = shared.scratch.wrapping_add(thread * self.scratch_step);
            self.spare.with((planned, self.scratch_step), bytes, |memory| {
                for n in low as usize..high as usize {
                    // SAFETY: by the caller; the memory has the routine's bytes.
                    unsafe {
                        match self.linalg.dtype {
                            DType::F32 => self.matrix::<f32>(shared.buffers, n, memory),
                            DType::F64 => self.matrix::<f64>(shared.buffers, n, memory),
                            DType::C64 => self.matrix::<Complex<f32>>(shared.buffers, n, memory),
                            DType::C128 => self.matrix::<Complex<f64>>(shared.buffers, n, memory),
                            DType::BF16 => self.narrow::<bf16>(shared.buffers, n, memory),
                            DType::F16 => self.narrow::<f16>(shared.buffers, n, memory),
                            _ => unreachable!("ops take floats and complex numbers only"),
                        }
                    }
                }
            });
        });
    }

    /// The shape of the first result.
    fn shape(&self) -> [usize; 2] {
        self.linalg.shape.map(|extent| extent as usize)
    }

    /// Matrix `n` of the batch.
    ///
    /// # Safety
    /// As [`Linalg::run`]; elements are `S`s.
    unsafe fn matrix<S: Scalar>(&self, buffers: *const *mut u8, n: usize, memory: *mut u8) {
        let routine = self.linalg.routine;
        let shape = self.shape();
        let (count, begin) = routine.operands();
        let len = routine.len(Place::First, shape);
        // SAFETY: by the caller; the operand and the result are apart or one.
        unsafe {
            let from = (*buffers.add(begin)).cast::<S>().add(n * len);
            let to = (*buffers.add(count)).cast::<S>().add(n * len);
            std::ptr::copy(from, to, len);
            let beside_len = routine.beside_len(shape);
            let beside = if count == 2 {
                cells((*buffers.add(1 - begin)).cast::<S>(), n, beside_len)
            } else {
                &[]
            };
            let mut call = Call {
                shape,
                beside,
                first: cells(to, 0, len),
                more: [&[], &[]],
                values: &[],
                pivots: &[],
                info: None,
            };
            for (number, &place) in routine.results().iter().enumerate().skip(1) {
                let buffer = *buffers.add(count + number);
                let len = routine.len(place, shape);
                match place {
                    Place::First => {}
                    Place::More(which) => call.more[which] = cells(buffer.cast(), n, len),
                    Place::Values => call.values = cells(buffer.cast(), n, len),
                    Place::Pivots => call.pivots = cells(buffer.cast(), n, len),
                    Place::Info => call.info = cells(buffer.cast(), n, len).first(),
                }
            }
            self.call(&call, memory);
        }
    }

    /// Matrix `n` of a batch of narrow floats, in wider copies.
    ///
    /// # Safety
    /// As [`Linalg::run`]; elements are `T`s.
    unsafe fn narrow<T: Narrow>(&self, buffers: *const *mut u8, n: usize, memory: *mut u8) {
        let routine = self.linalg.routine;
        let shape = self.shape();
        let (count, begin) = routine.operands();
        let (len, beside_len) = (routine.len(Place::First, shape), routine.beside_len(shape));
        let (first, beside) = (memory.cast::<f32>(), (len * 4).next_multiple_of(64));
        let beside = memory.wrapping_add(beside).cast::<f32>();
        // SAFETY: by the caller; the memory begins with room for both copies.
        unsafe {
            let from = (*buffers.add(begin)).cast::<T>().add(n * len);
            (0..len).for_each(|at| first.add(at).write(from.add(at).read().wide()));
            if count == 2 {
                let from = (*buffers.add(1 - begin)).cast::<T>().add(n * beside_len);
                (0..beside_len).for_each(|at| beside.add(at).write(from.add(at).read().wide()));
            }
            let call = Call {
                shape,
                beside: if count == 2 { cells(beside, 0, beside_len) } else { &[] },
                first: cells(first, 0, len),
                more: [&[], &[]],
                values: &[],
                pivots: &[],
                info: match routine {
                    Routine::Cholesky { info: true, .. } => {
                        cells((*buffers.add(count + 1)).cast(), n, 1).first()
                    }
                    _ => None,
                },
            };
            self.call(&call, memory.wrapping_add(widened_bytes(&self.linalg) as usize));
            let to = (*buffers.add(count)).cast::<T>().add(n * len);
            (0..len).for_each(|at| to.add(at).write(T::of(first.add(at).read())));
        }
    }

    /// # Safety
    /// The memory has the routine's bytes, aligned to 16.
    unsafe fn call<S: Scalar>(&self, call: &Call<'_, S>, memory: *mut u8) {
        let [elements, wide] = self.linalg.routine.memory(call.shape);
        let after = (elements * size_of::<S>()).next_multiple_of(64);
        // SAFETY: by the caller; any bytes are numbers, and nobody else uses the memory.
        let memory = unsafe {
            Memory {
                elements: std::slice::from_raw_parts_mut(memory.cast(), elements),
                wide: std::slice::from_raw_parts_mut(memory.wrapping_add(after).cast(), wide),
            }
        };
        self.linalg.routine.run(self.loops, call, memory);
    }
}

/// Bytes that a routine allocates.
pub(super) fn spare_bytes(linalg: &program::Linalg, threads: usize) -> u64 {
    let planned = jaxrs_kernel::scratch::scratch(&program::Library::Linalg(*linalg)).per_thread.0;
    let bytes = linalg_bytes(linalg);
    if bytes <= planned { 0 } else { bytes * linalg.batch.min(threads as u64) }
}

/// Matrix `n`'s elements.
///
/// # Safety
/// They are there, and nobody else writes them while the cells live.
unsafe fn cells<'a, T>(from: *mut T, n: usize, len: usize) -> &'a [Cell<T>] {
    // SAFETY: by the caller; a cell has the layout of its content.
    unsafe { std::slice::from_raw_parts(from.add(n * len).cast::<Cell<T>>(), len) }
}

/// A float that is computed in `f32`.
trait Narrow: Copy {
    fn wide(self) -> f32;
    fn of(value: f32) -> Self;
}

impl Narrow for bf16 {
    fn wide(self) -> f32 {
        self.to_f32()
    }
    fn of(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}

impl Narrow for f16 {
    fn wide(self) -> f32 {
        self.to_f32()
    }
    fn of(value: f32) -> f16 {
        f16::from_f32(value)
    }
}

/// The innermost loops of this machine.
#[derive(Clone, Copy)]
struct Loops(Machine);

/// Calls a function that has been made for each machine.
macro_rules! on_machine {
    ($machine:expr, $name:ident::<$($generic:ident),*>($($argument:expr),*)) => {
        match $machine {
            Machine::Portable => portable::$name::<$($generic),*>($($argument),*),
            // SAFETY: the machine has been found to have the instructions.
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2 => unsafe { avx2::$name::<$($generic),*>($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Machine::Avx512 => unsafe { avx512::$name::<$($generic),*>($($argument),*) },
        }
    };
}

impl Leaf for Loops {
    fn tile<S: Scalar>(self, left: &[S], right: &[S], out: &mut [S; TILE]) {
        on_machine!(self.0, tile::<S>(left, right, out));
    }
    fn subtract<S: Scalar>(self, y: &[Cell<S>], x: &[S]) {
        on_machine!(self.0, subtract::<S>(y, x));
    }
    fn dot<S: Scalar, const CONJ: bool>(self, x: &[Cell<S>], y: &[Cell<S>]) -> S {
        on_machine!(self.0, dot::<S, CONJ>(x, y))
    }
    fn add<S: Scalar, const CONJ: bool>(self, y: &[Cell<S>], factor: S, x: &[Cell<S>]) {
        on_machine!(self.0, add::<S, CONJ>(y, factor, x));
    }
    fn rotate<S: Scalar>(self, x: &[Cell<S>], y: &[Cell<S>], c: f64, s: f64) {
        on_machine!(self.0, rotate::<S>(x, y, c, s));
    }
}

macro_rules! loops {
    ($name:ident, $fused:literal, [$($width:literal),*], $(#[$attr:meta])*) => {
        mod $name {
            use super::{Cell, Scalar, TILE, leaf};

            $(#[$attr])*
            pub(super) fn tile<S: Scalar>(left: &[S], right: &[S], out: &mut [S; TILE]) {
                const WIDTHS: [usize; 3] = [$($width),*];
                match size_of::<S>() {
                    4 => leaf::tile::<S, { WIDTHS[0] }, $fused>(left, right, out),
                    8 => leaf::tile::<S, { WIDTHS[1] }, $fused>(left, right, out),
                    _ => leaf::tile::<S, { WIDTHS[2] }, $fused>(left, right, out),
                }
            }
            $(#[$attr])*
            pub(super) fn subtract<S: Scalar>(y: &[Cell<S>], x: &[S]) {
                leaf::subtract(y, x);
            }
            $(#[$attr])*
            pub(super) fn dot<S: Scalar, const CONJ: bool>(x: &[Cell<S>], y: &[Cell<S>]) -> S {
                leaf::dot::<S, CONJ, $fused>(x, y)
            }
            $(#[$attr])*
            pub(super) fn add<S: Scalar, const CONJ: bool>(
                y: &[Cell<S>],
                factor: S,
                x: &[Cell<S>],
            ) {
                leaf::add::<S, CONJ, $fused>(y, factor, x);
            }
            $(#[$attr])*
            pub(super) fn rotate<S: Scalar>(x: &[Cell<S>], y: &[Cell<S>], c: f64, s: f64) {
                leaf::rotate::<S, $fused>(x, y, c, s);
            }
        }
    };
}
loops!(portable, false, [8, 4, 4],);
#[cfg(target_arch = "x86_64")]
loops!(avx2, true, [16, 8, 4], #[target_feature(enable = "avx2,fma")]);
#[cfg(target_arch = "x86_64")]
loops!(
    avx512, true, [32, 16, 8],
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
);
