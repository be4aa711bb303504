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

#[cfg(test)]
mod tests {
    use super::super::LibraryStep;
    use super::super::tests::{Random, aligned, machines};
    use super::*;
    use jaxrs_kernel::linalg::{Plain, Solve, Turn, Vectors, cells as of};
    use jaxrs_kernel::program::Library;

    /// Bytes of the results of matrices, by the plain loops.
    fn expected(linalg: &program::Linalg, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let routine = linalg.routine;
        let shape = linalg.shape.map(|extent| extent as usize);
        let (count, begin) = routine.operands();
        let mut first = operands[begin].clone();
        let mut beside = if count == 2 { operands[1 - begin].clone() } else { Vec::new() };
        let batch = linalg.batch as usize;
        let mut results: Vec<Vec<f64>> = Vec::new();
        let [elements, wide] = routine.memory(shape);
        let (mut elements, mut wide) = (vec![0.0; elements], vec![0.0; wide]);
        for &place in routine.results() {
            results.push(vec![0.0; batch * routine.len(place, shape)]);
        }
        for n in 0..batch {
            let len = routine.len(Place::First, shape);
            let beside_len = routine.beside_len(shape);
            let lens =
                [Place::More(0), Place::More(1), Place::Values].map(|p| routine.len(p, shape));
            let [mut left, mut right, mut values] = lens.map(|len| vec![0.0; len]);
            let mut pivots = vec![0; lens[2]];
            let mut info = [0];
            let call = Call {
                shape,
                beside: of(&mut beside[n * beside_len..(n + 1) * beside_len]),
                first: of(&mut first[n * len..(n + 1) * len]),
                more: [of(&mut left), of(&mut right)],
                values: of(&mut values),
                pivots: of(&mut pivots),
                info: of(&mut info).first(),
            };
            routine.run(Plain, &call, Memory { elements: &mut elements, wide: &mut wide });
            for (result, &place) in results.iter_mut().zip(routine.results()) {
                let part = match place {
                    Place::First => first[n * len..(n + 1) * len].to_vec(),
                    Place::More(0) => left.clone(),
                    Place::More(_) => right.clone(),
                    Place::Values => values.clone(),
                    Place::Pivots => pivots.iter().map(|&p| p.into()).collect(),
                    Place::Info => vec![info[0].into()],
                };
                result[n * part.len()..(n + 1) * part.len()].copy_from_slice(&part);
            }
        }
        results
    }

    /// Compares a routine on random matrices with the plain loops, on every machine and with
    /// threads, apart and in place.
    fn check(routine: Routine, batch: u64, shape: [u64; 2]) {
        let linalg = program::Linalg { routine, dtype: DType::F64, batch, shape };
        let extents = shape.map(|extent| extent as usize);
        let mut random = Random::new(batch + shape[0] * 7 + shape[1]);
        let mut numbers = |count: usize| -> Vec<f64> {
            (0..count).map(|_| (random.below(2001) as f64 - 1000.0) / 1000.0).collect()
        };
        let (count, begin) = routine.operands();
        let mut operands = vec![Vec::new(); count];
        for (n, operand) in operands.iter_mut().enumerate() {
            let each = if n == begin {
                routine.len(Place::First, extents)
            } else {
                routine.beside_len(extents)
            };
            *operand = numbers(batch as usize * each);
            let size = (each as f64).sqrt() as usize;
            if size * size == each && size > 0 {
                let diagonal = (0..operand.len()).filter(|at| at % each % (size + 1) == 0);
                diagonal.for_each(|at| operand[at] += size as f64);
            }
        }
        let expected = expected(&linalg, &operands);
        let library = Library::Linalg(linalg);
        let scratch = jaxrs_kernel::scratch::scratch(&library).per_thread.0 as usize;
        for machine in machines() {
            for (threads, in_place) in [(1, false), (3, true)] {
                let step = LibraryStep::with(&library, &[], machine);
                let mut memory = aligned(scratch * threads);
                memory.fill(0xff);
                let mut inputs = operands.clone();
                let mut results: Vec<Vec<f64>> =
                    expected.iter().map(|result| vec![f64::NAN; result.len()]).collect();
                let mut pointers: Vec<*mut u8> =
                    inputs.iter_mut().map(|input| input.as_mut_ptr().cast()).collect();
                pointers.extend(results.iter_mut().map(|result| result.as_mut_ptr().cast::<u8>()));
                if in_place {
                    pointers[count] = pointers[begin];
                }
                // SAFETY: the buffers have the results' lengths, integers in more than they need.
                unsafe {
                    step.run(&Pool::shared(threads), pointers.as_ptr(), memory.as_mut_ptr());
                }
                if in_place {
                    results[0].copy_from_slice(&inputs[begin]);
                }
                for ((got, expected), place) in results.iter().zip(&expected).zip(routine.results())
                {
                    let what = format!("{linalg:?} {machine:?} {threads} {place:?}");
                    if matches!(place, Place::Pivots | Place::Info) {
                        let got = got.as_ptr().cast::<i32>();
                        for (at, &expected) in expected.iter().enumerate() {
                            // SAFETY: the buffer has room for twice as many.
                            let got = unsafe { got.add(at).read() };
                            assert_eq!(f64::from(got), expected, "{what}");
                        }
                        continue;
                    }
                    for (a, b) in got.iter().zip(expected) {
                        assert!(
                            (a - b).abs() < 1e-9 || a.is_nan() && b.is_nan(),
                            "{what}: {a}, {b}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn machines_and_threads_agree_with_the_plain_loops() {
        let solve = |left, lower, turn| Routine::Solve(Solve { left, lower, unit: false, turn });
        for (routine, shapes) in [
            (Routine::Cholesky { lower: true, info: true }, &[[5, 5], [40, 40]][..]),
            (solve(true, true, Turn::None), &[[30, 20], [30, 1]]),
            (solve(true, false, Turn::Transpose), &[[30, 2], [18, 40]]),
            (solve(false, true, Turn::None), &[[9, 33]]),
            (Routine::Lu, &[[20, 33], [40, 20]]),
            (Routine::Qr, &[[20, 30], [30, 20]]),
            (Routine::Reflections { count: 5 }, &[[20, 7]]),
            (Routine::Eigh { lower: true }, &[[17, 17]]),
            (
                Routine::Svd { vectors: Vectors { computed: true, full: false } },
                &[[9, 12], [12, 9]],
            ),
        ] {
            for &shape in shapes {
                for batch in [0, 1, 3] {
                    check(routine, batch, shape);
                }
            }
        }
    }

    #[test]
    fn narrow_floats_are_computed_in_wider_copies() {
        let routine = Routine::Cholesky { lower: true, info: false };
        let linalg = program::Linalg { routine, dtype: DType::BF16, batch: 2, shape: [2, 2] };
        let library = Library::Linalg(linalg);
        let mut x: Vec<bf16> =
            [4.0, 9.0, 2.0, 5.0, 9.0, 0.0, 3.0, 2.0].map(bf16::from_f32).to_vec();
        let mut y = vec![bf16::ZERO; 8];
        let mut scratch = aligned(jaxrs_kernel::scratch::scratch(&library).per_thread.0 as usize);
        let pointers = [x.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
        let step = LibraryStep::new(&library, &[]);
        // SAFETY: the buffers have the shapes' lengths.
        unsafe { step.run(&Pool::shared(1), pointers.as_ptr(), scratch.as_mut_ptr()) };
        assert_eq!(y, [2.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 1.0].map(bf16::from_f32));
    }
}
