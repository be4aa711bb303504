//! The inner loops of thin contractions.
// Loops of constant bounds over arrays of vectors: indices show what is unrolled.
#![allow(clippy::needless_range_loop)]

use super::simd::{Number, Portable, Simd};
use super::source::Source;
use super::thin::{Dots, Functions, GROUP, STRIP, Strip, ThinNumber};
use super::tile::Machine;
use half::{bf16, f16};
use jaxrs_kernel::DType;

macro_rules! thin_functions {
    ($($(#[$attr:meta])* $strip:ident, $dots:ident: $simd:ty, $source:ty;)*) => {$(
        $(#[$attr])*
        unsafe fn $strip(job: &Strip<'_, <$simd as Simd>::T>) {
            // SAFETY: by the caller.
            unsafe {
                match job.rows {
                    1 => strip::<$simd, $source, 1>(job),
                    2 => strip::<$simd, $source, 2>(job),
                    3 => strip::<$simd, $source, 3>(job),
                    _ => strip::<$simd, $source, 4>(job),
                }
            }
        }
        $(#[$attr])*
        unsafe fn $dots(job: &Dots<<$simd as Simd>::T>) {
            // SAFETY: by the caller.
            unsafe {
                match (job.rows, job.columns) {
                    (1, 1) => dots::<$simd, $source, 1, 1, 4>(job),
                    (_, 1) => dots::<$simd, $source, 2, 1, 4>(job),
                    (1, _) => dots::<$simd, $source, 1, GROUP, 1>(job),
                    _ => dots::<$simd, $source, 2, GROUP, 1>(job),
                }
            }
        }
    )*};
}

thin_functions! {
    strip_f32, dots_f32: Portable<f32>, f32;
    strip_bf16, dots_bf16: Portable<f32>, bf16;
    strip_f16, dots_f16: Portable<f32>, f16;
    strip_f64, dots_f64: Portable<f64>, f64;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::simd::x86::{F32x8, F32x16, F64x4, F64x8};
    use super::{Dots, GROUP, Simd, Strip, bf16, dots, f16, strip};

    thin_functions! {
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,f16c")]
        strip512_f32, dots512_f32: F32x16, f32;
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,f16c")]
        strip512_bf16, dots512_bf16: F32x16, bf16;
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,f16c")]
        strip512_f16, dots512_f16: F32x16, f16;
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,f16c")]
        strip512_f64, dots512_f64: F64x8, f64;
        #[target_feature(enable = "avx2,fma,f16c")]
        strip256_f32, dots256_f32: F32x8, f32;
        #[target_feature(enable = "avx2,fma,f16c")]
        strip256_bf16, dots256_bf16: F32x8, bf16;
        #[target_feature(enable = "avx2,fma,f16c")]
        strip256_f16, dots256_f16: F32x8, f16;
        #[target_feature(enable = "avx2,fma,f16c")]
        strip256_f64, dots256_f64: F64x4, f64;
    }

    pub(super) type Both<T> = (unsafe fn(&Strip<'_, T>), unsafe fn(&Dots<T>));
    pub(super) const F32: [Both<f32>; 2] =
        [(strip256_f32, dots256_f32), (strip512_f32, dots512_f32)];
    pub(super) const BF16: [Both<f32>; 2] =
        [(strip256_bf16, dots256_bf16), (strip512_bf16, dots512_bf16)];
    pub(super) const F16: [Both<f32>; 2] =
        [(strip256_f16, dots256_f16), (strip512_f16, dots512_f16)];
    pub(super) const F64: [Both<f64>; 2] =
        [(strip256_f64, dots256_f64), (strip512_f64, dots512_f64)];
}

macro_rules! on_machine {
    ($machine:expr, $t:ty, $strip:ident, $dots:ident, $x86:ident) => {{
        let of = |(strip, dots): (unsafe fn(&Strip<'_, $t>), unsafe fn(&Dots<$t>))| Functions {
            strip,
            dots,
        };
        match $machine {
            Machine::Portable => of(($strip, $dots)),
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2 => of(x86::$x86[0]),
            #[cfg(target_arch = "x86_64")]
            Machine::Avx512 => of(x86::$x86[1]),
        }
    }};
}

impl ThinNumber for f32 {
    fn functions(machine: Machine, right: DType) -> Option<Functions<f32>> {
        Some(match right {
            DType::F32 => on_machine!(machine, f32, strip_f32, dots_f32, F32),
            DType::BF16 => on_machine!(machine, f32, strip_bf16, dots_bf16, BF16),
            DType::F16 => on_machine!(machine, f32, strip_f16, dots_f16, F16),
            _ => return None,
        })
    }

    unsafe fn read_line(
        left: *const u8,
        first: isize,
        offsets: &[i64],
        dtype: DType,
        to: *mut f32,
    ) {
        // SAFETY: by the caller.
        unsafe {
            match dtype {
                DType::BF16 => read_line::<bf16, f32>(left, first, offsets, to),
                DType::F16 => read_line::<f16, f32>(left, first, offsets, to),
                _ => read_line::<f32, f32>(left, first, offsets, to),
            }
        }
    }
}

impl ThinNumber for f64 {
    fn functions(machine: Machine, right: DType) -> Option<Functions<f64>> {
        (right == DType::F64).then(|| on_machine!(machine, f64, strip_f64, dots_f64, F64))
    }

    unsafe fn read_line(left: *const u8, first: isize, offsets: &[i64], _: DType, to: *mut f64) {
        // SAFETY: by the caller.
        unsafe { read_line::<f64, f64>(left, first, offsets, to) };
    }
}

/// # Safety
/// As [`ThinNumber::read_line`]; the elements are `E`s.
unsafe fn read_line<E: Source<T>, T>(left: *const u8, first: isize, offsets: &[i64], to: *mut T) {
    for (k, &offset) in offsets.iter().enumerate() {
        // SAFETY: by the caller.
        unsafe { to.add(k).write(left.cast::<E>().offset(first + offset as isize).read().read()) };
    }
}

/// A vector of converted elements.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn load<S: Simd, E: Source<S::T>>(at: *const E) -> S::V {
    let mut line = [S::T::default(); 16];
    // SAFETY: by the caller; a vector has at most 16 lanes.
    unsafe {
        for (lane, value) in line[..S::LANES].iter_mut().enumerate() {
            *value = at.add(lane).read().read();
        }
        S::load(line.as_ptr())
    }
}

/// A vector of the first `count` elements, then zeros.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn load_part<S: Simd, E: Source<S::T>>(at: *const E, count: usize) -> S::V {
    let mut line = [S::T::default(); 16];
    // SAFETY: by the caller.
    unsafe {
        for (lane, value) in line[..count.min(S::LANES)].iter_mut().enumerate() {
            *value = at.add(lane).read().read();
        }
        S::load(line.as_ptr())
    }
}

/// A vector of the first `count` numbers, then zeros.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn load_numbers<S: Simd>(at: *const S::T, count: usize) -> S::V {
    let mut line = [S::T::default(); 16];
    // SAFETY: by the caller.
    unsafe {
        line[..count].copy_from_slice(std::slice::from_raw_parts(at, count));
        S::load(line.as_ptr())
    }
}

/// # Safety
/// The machine has the instructions; what the job names is there.
#[inline(always)]
unsafe fn strip<S: Simd, E: Source<S::T>, const ROWS: usize>(job: &Strip<'_, S::T>) {
    let mut k = 0;
    // SAFETY: by the caller.
    unsafe {
        while k + 4 <= job.offsets.len() {
            strip_part::<S, E, ROWS, 4>(job, k);
            k += 4;
        }
        while k < job.offsets.len() {
            strip_part::<S, E, ROWS, 1>(job, k);
            k += 1;
        }
    }
}

/// Adds `DEPTH` depths from `k` on to the strip.
///
/// # Safety
/// As [`strip`]; the strip has room for whole vectors.
#[inline(always)]
unsafe fn strip_part<S: Simd, E: Source<S::T>, const ROWS: usize, const DEPTH: usize>(
    job: &Strip<'_, S::T>,
    k: usize,
) {
    // SAFETY: by the caller.
    unsafe {
        let right: *const E = job.right.cast();
        let lines: [*const E; DEPTH] =
            std::array::from_fn(|i| right.offset(job.offsets[k + i] as isize));
        let mut factors = [[S::splat(S::T::default()); DEPTH]; ROWS];
        for row in 0..ROWS {
            for i in 0..DEPTH {
                factors[row][i] =
                    S::splat(*job.left.offset(row as isize * job.left_step).add(k + i));
            }
        }
        let whole = job.columns / S::LANES * S::LANES;
        let mut at = 0;
        while at < whole {
            let mut vectors = [S::splat(S::T::default()); DEPTH];
            for i in 0..DEPTH {
                vectors[i] = load::<S, E>(lines[i].add(at));
            }
            for row in 0..ROWS {
                let place = job.sums.add(row * STRIP + at);
                let mut sum = S::load(place);
                for i in 0..DEPTH {
                    sum = S::multiply_add(factors[row][i], vectors[i], sum);
                }
                S::store(place, sum);
            }
            at += S::LANES;
        }
        if whole < job.columns {
            let count = job.columns - whole;
            for i in 0..DEPTH {
                let vector = load_part::<S, E>(lines[i].add(whole), count);
                for row in 0..ROWS {
                    let place = job.sums.add(row * STRIP + whole);
                    S::store(place, S::multiply_add(factors[row][i], vector, S::load(place)));
                }
            }
        }
    }
}

/// # Safety
/// The machine has the instructions; what the job names is there.
#[inline(always)]
unsafe fn dots<
    S: Simd,
    E: Source<S::T>,
    const ROWS: usize,
    const COLUMNS: usize,
    const UNROLL: usize,
>(
    job: &Dots<S::T>,
) {
    let step = S::LANES * UNROLL;
    let whole = job.depth / step * step;
    // SAFETY: by the caller.
    unsafe {
        let mut sums = [[[S::splat(S::T::default()); UNROLL]; COLUMNS]; ROWS];
        let mut k = 0;
        while k < whole {
            for unrolled in 0..UNROLL {
                let at = k + unrolled * S::LANES;
                let left: [S::V; ROWS] = std::array::from_fn(|row| {
                    S::load(job.left.offset(row as isize * job.left_step).add(at))
                });
                for column in 0..COLUMNS {
                    let vector = load::<S, E>(job.right[column].cast::<E>().add(at));
                    for row in 0..ROWS {
                        let sum = &mut sums[row][column][unrolled];
                        *sum = S::multiply_add(left[row], vector, *sum);
                    }
                }
            }
            k += step;
        }
        let mut spilled = sums;
        while k < job.depth {
            let count = (job.depth - k).min(S::LANES);
            for column in 0..COLUMNS {
                let vector = load_part::<S, E>(job.right[column].cast::<E>().add(k), count);
                for row in 0..ROWS {
                    let left = load_numbers::<S>(
                        job.left.offset(row as isize * job.left_step).add(k),
                        count,
                    );
                    let sum = &mut spilled[row][column][0];
                    *sum = S::multiply_add(left, vector, *sum);
                }
            }
            k += count;
        }
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let mut sum = spilled[row][column][0];
                for &more in &spilled[row][column][1..] {
                    sum = S::add(sum, more);
                }
                let mut lanes = [S::T::default(); 16];
                S::store(lanes.as_mut_ptr(), sum);
                let mut width = S::LANES / 2;
                while width > 0 {
                    for lane in 0..width {
                        lanes[lane] = lanes[lane].plus(lanes[lane + width]);
                    }
                    width /= 2;
                }
                *job.sums.add(row * GROUP + column) = lanes[0];
            }
        }
    }
}
