//! Fourier transforms, line by line: `rustfft` and `realfft` make the plans when a program is
//! compiled. Threads share out the lines of each axis.
//!
//! A line is copied into the thread's memory and transformed from there into the result; where its
//! elements are no neighbours, several lines are copied together, and back.

use super::spare::Spare;
use crate::pool::Pool;
use jaxrs_kernel::DType;
use jaxrs_kernel::program::{self, FftKind, Library};
use jaxrs_kernel::scratch::{fft_lines, fft_slab, scratch};
use realfft::{ComplexToReal, FftNum, RealFftPlanner, RealToComplex};
use rustfft::FftPlanner;
use rustfft::num_complex::Complex;
use std::sync::Arc;

/// Elements below which an axis stays on one thread.
const ONE_THREAD: u64 = 8192;

/// A transform, ready to run.
pub(super) enum Fft {
    F32(Plan<f32>),
    F64(Plan<f64>),
}

/// A transform of parts `T`.
pub(super) struct Plan<T> {
    fft: program::Fft,
    /// Of each transformed axis.
    axes: Vec<Arc<dyn rustfft::Fft<T>>>,
    real: Option<Real<T>>,
    /// Complex extents of the transformed axes.
    extents: Vec<usize>,
    /// Lines copied together.
    lines: usize,
    /// Complex elements of memory: lines, lines, what the plans need, a slab.
    memory: [usize; 4],
    scratch_step: usize,
    spare: Spare,
}

/// The last axis where one side is real.
enum Real<T> {
    Forward(Arc<dyn RealToComplex<T>>),
    Inverse(Arc<dyn ComplexToReal<T>>),
}

/// Pointers that threads share.
#[derive(Clone, Copy)]
struct Buffers<T> {
    from: *const T,
    to: *mut T,
    scratch: *mut u8,
}
// SAFETY: threads read and write different lines, and use their own scratch.
unsafe impl<T> Sync for Buffers<T> {}

/// A thread's memory.
struct Memory<T> {
    line: *mut Complex<T>,
    other: *mut Complex<T>,
    scratch: *mut Complex<T>,
    slab: *mut Complex<T>,
}

impl Fft {
    pub(super) fn new(fft: &program::Fft, scratch_step: usize) -> Fft {
        match fft.part {
            DType::F64 => Fft::F64(Plan::new(fft, scratch_step)),
            _ => Fft::F32(Plan::new(fft, scratch_step)),
        }
    }

    /// Computes the result.
    ///
    /// # Safety
    /// As [`super::LibraryStep::run`].
    pub(super) unsafe fn run(&self, pool: &Pool, buffers: *const *mut u8, scratch: *mut u8) {
        // SAFETY: by the caller.
        unsafe {
            match self {
                Fft::F32(plan) => plan.run(pool, buffers, scratch),
                Fft::F64(plan) => plan.run(pool, buffers, scratch),
            }
        }
    }

    /// Bytes that a call allocates.
    pub(super) fn spare_bytes(&self, threads: usize) -> u64 {
        match self {
            Fft::F32(plan) => plan.spare_bytes(threads),
            Fft::F64(plan) => plan.spare_bytes(threads),
        }
    }
}

impl<T: FftNum> Plan<T> {
    fn new(fft: &program::Fft, scratch_step: usize) -> Plan<T> {
        let mut planner = FftPlanner::new();
        let mut axes = Vec::new();
        let mut needed = 0;
        for &length in &fft.lengths {
            let length = length.max(1) as usize;
            let axis = if fft.kind.is_inverse() {
                planner.plan_fft_inverse(length)
            } else {
                planner.plan_fft_forward(length)
            };
            needed = needed.max(axis.get_outofplace_scratch_len());
            axes.push(axis);
        }
        let last = fft.lengths.last().map_or(1, |&length| length.max(1) as usize);
        let mut planner = RealFftPlanner::new();
        let real = match fft.kind {
            FftKind::RealForward => Some(Real::Forward(planner.plan_fft_forward(last))),
            FftKind::RealInverse => Some(Real::Inverse(planner.plan_fft_inverse(last))),
            FftKind::Forward | FftKind::Inverse => None,
        };
        needed = needed.max(match &real {
            Some(Real::Forward(plan)) => plan.get_scratch_len(),
            Some(Real::Inverse(plan)) => plan.get_scratch_len(),
            None => 0,
        });
        let lines = fft_lines(fft) as usize;
        let longest = axes.iter().map(|axis| axis.len()).max().unwrap_or(1);
        let line = (lines * longest + 1).next_multiple_of(2);
        let strided = if axes.len() > 1 { line } else { 0 };
        Plan {
            extents: fft.complex_extents().iter().map(|&extent| extent as usize).collect(),
            axes,
            real,
            lines,
            memory: [line, strided, needed, fft_slab(fft) as usize],
            scratch_step,
            spare: Spare::default(),
            fft: fft.clone(),
        }
    }

    fn spare_bytes(&self, threads: usize) -> u64 {
        let planned = scratch(&Library::Fft(self.fft.clone())).per_thread.0 as usize;
        if self.bytes() <= planned { 0 } else { (self.bytes() * threads) as u64 }
    }

    fn bytes(&self) -> usize {
        self.memory.iter().sum::<usize>() * size_of::<Complex<T>>()
    }

    /// # Safety
    /// As [`Fft::run`].
    unsafe fn run(&self, pool: &Pool, buffers: *const *mut u8, scratch: *mut u8) {
        let batch = self.fft.batch as usize;
        if batch == 0 || self.fft.lengths.contains(&0) {
            return;
        }
        let last = self.axes.len() - 1;
        let complex: usize = self.extents.iter().product();
        // SAFETY: by the caller; each line is one thread's.
        unsafe {
            let (from, to) = ((*buffers).cast_const(), *buffers.add(1));
            match &self.real {
                None => {
                    let from = from.cast::<Complex<T>>();
                    let mut shared = Buffers { from, to: to.cast(), scratch };
                    for axis in (0..=last).rev() {
                        self.axis(pool, shared, batch, axis);
                        shared.from = shared.to;
                    }
                }
                Some(Real::Forward(plan)) => {
                    let length = plan.len();
                    let shared = Buffers { from: from.cast::<T>(), to: to.cast::<T>(), scratch };
                    let lines = batch * complex / self.extents[last];
                    self.share(pool, &shared, lines, length, |shared, low, high, memory| {
                        for line in low..high {
                            let to = shared.to.cast::<Complex<T>>().add(line * self.extents[last]);
                            self.forward(&**plan, shared.from.add(line * length), to, memory);
                        }
                    });
                    let to = to.cast::<Complex<T>>();
                    let shared = Buffers { from: to.cast_const(), to, scratch };
                    for axis in (0..last).rev() {
                        self.axis(pool, shared, batch, axis);
                    }
                }
                Some(Real::Inverse(plan)) => {
                    let shared = Buffers { from: from.cast::<T>(), to: to.cast::<T>(), scratch };
                    let real = complex / self.extents[last] * plan.len();
                    self.share(pool, &shared, batch, real, |shared, low, high, memory| {
                        for part in low..high {
                            let from = shared.from.cast::<Complex<T>>().add(part * complex);
                            self.inverse(&**plan, from, shared.to.add(part * real), memory);
                        }
                    });
                }
            }
        }
    }

    /// Calls `f(buffers, low, high, memory)` on ranges of `count` things of `each` elements.
    fn share<U>(
        &self,
        pool: &Pool,
        buffers: &Buffers<U>,
        count: usize,
        each: usize,
        f: impl Fn(&Buffers<U>, usize, usize, &Memory<T>) + Sync,
    ) {
        let grain = ONE_THREAD.div_ceil(each as u64);
        pool.run(count as i64, grain as i64, |low, high, thread| {
            let planned = buffers.scratch.wrapping_add(thread * self.scratch_step);
            self.spare.with((planned, self.scratch_step), self.bytes(), |memory| {
                let line = memory.cast::<Complex<T>>();
                let other = line.wrapping_add(self.memory[0]);
                let scratch = other.wrapping_add(self.memory[1]);
                let slab = scratch.wrapping_add(self.memory[2]);
                f(buffers, low as usize, high as usize, &Memory { line, other, scratch, slab });
            });
        });
    }

    /// Transforms along a complex axis.
    ///
    /// # Safety
    /// As [`Fft::run`]; operand and result are apart or one.
    unsafe fn axis(&self, pool: &Pool, buffers: Buffers<Complex<T>>, batch: usize, axis: usize) {
        let length = self.extents[axis];
        let inner: usize = self.extents[axis + 1..].iter().product();
        let outer: usize = batch * self.extents[..axis].iter().product::<usize>();
        let groups = if inner == 1 { 1 } else { inner.div_ceil(self.lines) };
        let each = length * inner.min(self.lines);
        self.share(pool, &buffers, outer * groups, each, |shared, low, high, memory| {
            for number in low..high {
                let (block, group) = (number / groups, number % groups);
                let at = block * length * inner + group * self.lines;
                let lines = if inner == 1 { 1 } else { self.lines.min(inner - group * self.lines) };
                // SAFETY: by the caller.
                unsafe {
                    let (from, to) = (shared.from.add(at), shared.to.add(at));
                    self.lines(axis, from, to, [lines, inner], memory);
                }
            }
        });
    }

    /// Transforms lines that begin side by side, each of elements `step` apart.
    ///
    /// # Safety
    /// The lines are there, and nobody else uses those of the result.
    unsafe fn lines(
        &self,
        axis: usize,
        from: *const Complex<T>,
        to: *mut Complex<T>,
        [lines, step]: [usize; 2],
        memory: &Memory<T>,
    ) {
        let length = self.extents[axis];
        // SAFETY: by the caller; the memory has the plan's extents.
        unsafe {
            for n in 0..length {
                for line in 0..lines {
                    memory.line.add(line * length + n).write(from.add(n * step + line).read());
                }
            }
            let near = step == 1;
            let result = if near { to } else { memory.other };
            let input = std::slice::from_raw_parts_mut(memory.line, lines * length);
            let output = std::slice::from_raw_parts_mut(result, lines * length);
            let scratch = std::slice::from_raw_parts_mut(memory.scratch, self.memory[2]);
            self.axes[axis].process_outofplace_with_scratch(input, output, scratch);
            if self.fft.kind.is_inverse() {
                let factor = reciprocal::<T>(length);
                output.iter_mut().for_each(|x| *x = *x * factor);
            }
            if !near {
                for n in 0..length {
                    for line in 0..lines {
                        to.add(n * step + line).write(output[line * length + n]);
                    }
                }
            }
        }
    }

    /// A real line to its complex half.
    ///
    /// # Safety
    /// As [`Plan::lines`].
    unsafe fn forward(
        &self,
        plan: &dyn RealToComplex<T>,
        from: *const T,
        to: *mut Complex<T>,
        memory: &Memory<T>,
    ) {
        let length = plan.len();
        // SAFETY: by the caller; the memory has a complex line.
        unsafe {
            let line = memory.line.cast::<T>();
            std::ptr::copy_nonoverlapping(from, line, length);
            let input = std::slice::from_raw_parts_mut(line, length);
            let output = std::slice::from_raw_parts_mut(to, length / 2 + 1);
            let scratch = std::slice::from_raw_parts_mut(memory.scratch, self.memory[2]);
            plan.process_with_scratch(input, output, scratch).expect("the plan's lengths");
        }
    }

    /// A block of complex halves to real lines.
    ///
    /// # Safety
    /// As [`Plan::lines`].
    unsafe fn inverse(
        &self,
        plan: &dyn ComplexToReal<T>,
        from: *const Complex<T>,
        to: *mut T,
        memory: &Memory<T>,
    ) {
        let last = self.axes.len() - 1;
        let (half, length) = (self.extents[last], plan.len());
        let lines: usize = self.extents[..last].iter().product();
        let factor = reciprocal::<T>(length);
        // SAFETY: by the caller; the memory has a slab if there is more than one axis.
        unsafe {
            let mut from = from;
            for axis in 0..last {
                let inner: usize = self.extents[axis + 1..].iter().product();
                let outer: usize = self.extents[..axis].iter().product();
                for block in 0..outer {
                    for first in (0..inner).step_by(self.lines) {
                        let at = block * self.extents[axis] * inner + first;
                        let count = self.lines.min(inner - first);
                        let to = memory.slab.add(at);
                        self.lines(axis, from.add(at), to, [count, inner], memory);
                    }
                }
                from = memory.slab;
            }
            for number in 0..lines {
                std::ptr::copy_nonoverlapping(from.add(number * half), memory.line, half);
                let input = std::slice::from_raw_parts_mut(memory.line, half);
                input[0].im = T::zero();
                if length.is_multiple_of(2) {
                    input[half - 1].im = T::zero();
                }
                let output = std::slice::from_raw_parts_mut(to.add(number * length), length);
                let scratch = std::slice::from_raw_parts_mut(memory.scratch, self.memory[2]);
                plan.process_with_scratch(input, output, scratch).expect("the plan's lengths");
                output.iter_mut().for_each(|x| *x = *x * factor);
            }
        }
    }
}

fn reciprocal<T: FftNum>(length: usize) -> T {
    T::from_f64(1.0 / length as f64).expect("a float")
}

#[cfg(test)]
mod tests {
    use super::super::LibraryStep;
    use super::super::tests::{Random, aligned};
    use super::*;

    /// The transform of lines along an axis, from the definition.
    fn along(data: &[[f64; 2]], shape: &[usize], axis: usize, inverse: bool) -> Vec<[f64; 2]> {
        let length = shape[axis];
        let inner: usize = shape[axis + 1..].iter().product();
        let sign = if inverse { 1.0 } else { -1.0 };
        let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
        let element = |at: usize| {
            let (outer, k, i) = (at / inner / length, at / inner % length, at % inner);
            let mut sum = [0.0; 2];
            for n in 0..length {
                let [re, im] = data[(outer * length + n) * inner + i];
                let angle = sign * std::f64::consts::TAU * (k * n % length) as f64 / length as f64;
                let (sin, cos) = angle.sin_cos();
                sum[0] += re * cos - im * sin;
                sum[1] += re * sin + im * cos;
            }
            sum.map(|part| part * scale)
        };
        (0..data.len()).map(element).collect()
    }

    fn run(fft: &program::Fft, threads: usize, from: &mut [f64], to: Option<usize>) -> Vec<f64> {
        let library = Library::Fft(fft.clone());
        let step = LibraryStep::new(&library, &[]);
        let mut memory = aligned(scratch(&library).per_thread.0 as usize * threads);
        let mut out = vec![f64::NAN; to.unwrap_or(0)];
        let result = if to.is_some() { out.as_mut_ptr() } else { from.as_mut_ptr() };
        let pointers = [from.as_mut_ptr().cast(), result.cast()];
        // SAFETY: the buffers have the shapes' lengths; complex sides may be one.
        unsafe { step.run(&Pool::shared(threads), pointers.as_ptr(), memory.as_mut_ptr()) };
        if to.is_some() { out } else { from.to_vec() }
    }

    fn near(a: &[f64], b: &[f64], what: &str) {
        assert_eq!(a.len(), b.len(), "{what}");
        let far = a.iter().zip(b).any(|(a, b)| (a - b).abs() > 1e-9 || a.is_nan());
        assert!(!far, "{what}");
    }

    #[test]
    fn every_kind_length_and_count_of_axes() {
        let mut random = Random::new(5);
        for lengths in [
            &[1][..],
            &[2],
            &[7],
            &[16],
            &[31],
            &[90],
            &[1021],
            &[1, 5],
            &[6, 1],
            &[12, 20],
            &[3, 17],
            &[4, 5, 6],
            &[2, 1, 9],
        ] {
            for batch in [0, 1, 3] {
                let count: usize = batch * lengths.iter().product::<usize>();
                let mut number = || (random.below(2001) as f64 - 1000.0) / 1000.0;
                let complex: Vec<[f64; 2]> = (0..count).map(|_| [number(), number()]).collect();
                let real: Vec<[f64; 2]> = complex.iter().map(|x| [x[0], 0.0]).collect();
                let mut shape = vec![batch];
                shape.extend(lengths);
                let of = |data: &[[f64; 2]], inverse| {
                    (1..shape.len()).fold(data.to_vec(), |d, axis| along(&d, &shape, axis, inverse))
                };
                let fft = |kind| program::Fft {
                    kind,
                    part: DType::F64,
                    batch: batch as u64,
                    lengths: lengths.iter().map(|&length| length as u64).collect(),
                };
                let what = format!("{batch} x {lengths:?}");
                for threads in [1, 3] {
                    for (kind, inverse) in [(FftKind::Forward, false), (FftKind::Inverse, true)] {
                        let expected = of(&complex, inverse).concat();
                        let mut from = complex.concat();
                        let got = run(&fft(kind), threads, &mut from, Some(2 * count));
                        near(&got, &expected, &what);
                        near(&from, &complex.concat(), &what);
                        near(&run(&fft(kind), threads, &mut from, None), &expected, &what);
                    }
                    let last = lengths[lengths.len() - 1];
                    let half = last / 2 + 1;
                    let expected: Vec<[f64; 2]> = of(&real, false)
                        .chunks(last)
                        .flat_map(|line| line[..half].to_vec())
                        .collect();
                    let mut from: Vec<f64> = real.iter().map(|x| x[0]).collect();
                    let kind = FftKind::RealForward;
                    let mut got = run(&fft(kind), threads, &mut from, Some(2 * expected.len()));
                    near(&got, &expected.concat(), &what);
                    let kind = FftKind::RealInverse;
                    near(&run(&fft(kind), threads, &mut got, Some(count)), &from, &what);
                }
            }
        }
    }

    #[test]
    fn common_lengths_need_no_more_than_is_planned() {
        for length in
            [1, 2, 3, 5, 7, 12, 30, 64, 97, 100, 127, 500, 641, 1000, 1021, 1024, 1031, 4096]
        {
            for lengths in [vec![length], vec![3, length], vec![length, 4]] {
                for kind in
                    [FftKind::Forward, FftKind::Inverse, FftKind::RealForward, FftKind::RealInverse]
                {
                    for part in [DType::F32, DType::F64] {
                        let fft = program::Fft { kind, part, batch: 2, lengths: lengths.clone() };
                        assert_eq!(Fft::new(&fft, 0).spare_bytes(2), 0, "{fft:?}");
                    }
                }
            }
        }
        let long = program::Fft {
            kind: FftKind::Forward,
            part: DType::F32,
            batch: 1,
            lengths: vec![1 << 20],
        };
        assert!(Fft::new(&long, 0).spare_bytes(2) >= 8 << 20);
    }
}
