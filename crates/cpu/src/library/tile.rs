//! The innermost loops of a contraction: a small tile of the result held in registers.
//!
//! A tile is up to [`Kernels::rows`] left rows by one or two vectors of right rows. Each of its
//! elements is a chain of multiply-adds in order of depth from zero, added to the result at the
//! end, whatever the tile's size: so results do not depend on how rows are cut into tiles.
// Loops of constant bounds over arrays of vectors: indices show what is unrolled.
#![allow(clippy::needless_range_loop)]

use super::simd::{Number, Portable, Simd};

/// A stretch of depth along which a left panel is read with unit stride.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// First position in the block's depth.
    pub(super) start: usize,
    /// Positions.
    pub(super) len: usize,
    /// Offset of the left elements, in elements.
    pub(super) left: i64,
}

impl Run {
    /// No positions.
    pub(super) const NONE: Run = Run { start: 0, len: 0, left: 0 };
}

/// A tile to compute.
pub(super) struct Tile<'a, T> {
    /// The left elements: packed `[depth][rows]`, or where they are.
    pub(super) left: *const T,
    /// Elements from one left row to the next if they are not packed; 0 if they are.
    pub(super) row_step: isize,
    /// Stretches of depth.
    pub(super) runs: &'a [Run],
    /// The right elements: vectors of neighbours at each depth.
    pub(super) right: *const T,
    /// Elements from one depth to the next; `vectors * lanes` if they are packed.
    pub(super) right_step: usize,
    /// Rows computed: one of the kernels' sizes.
    pub(super) rows: usize,
    /// Vectors: 1 or 2.
    pub(super) vectors: usize,
    /// What each row's sums start from.
    pub(super) start: [T; MOST_ROWS],
    /// Where each row of the result begins: of rows that are only computed, anywhere.
    pub(super) out: [*mut T; MOST_ROWS],
    /// Rows and columns of the result.
    pub(super) valid: [usize; 2],
    /// Whether the result is added to what is there.
    pub(super) accumulate: bool,
}

/// Most rows of a tile.
pub(super) const MOST_ROWS: usize = 12;
/// Most columns of a tile.
pub(super) const MOST_COLUMNS: usize = 32;

/// The tile functions for a number type on this machine.
pub(super) struct Kernels<T> {
    /// Rows of the largest tile.
    pub(super) rows: usize,
    /// The sizes there are, ascending.
    pub(super) sizes: &'static [usize],
    /// Elements of a vector.
    pub(super) lanes: usize,
    /// Computes a tile.
    pub(super) run: unsafe fn(&Tile<'_, T>),
}

/// The vectors that a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Machine {
    /// The best this process can use.
    pub(super) fn detect() -> Machine {
        #[cfg(target_arch = "x86_64")]
        {
            let has = |found: &[bool]| found.iter().all(|&f| f);
            if has(&[
                is_x86_feature_detected!("avx512f"),
                is_x86_feature_detected!("avx512dq"),
                is_x86_feature_detected!("avx512bw"),
                is_x86_feature_detected!("avx512vl"),
                is_x86_feature_detected!("fma"),
                is_x86_feature_detected!("f16c"),
            ]) {
                return Machine::Avx512;
            }
            if has(&[
                is_x86_feature_detected!("avx2"),
                is_x86_feature_detected!("fma"),
                is_x86_feature_detected!("f16c"),
            ]) {
                return Machine::Avx2;
            }
        }
        Machine::Portable
    }
}

/// A number that there are tiles for.
pub(super) trait Tiled: Number {
    /// The functions for a machine.
    fn kernels(machine: Machine) -> Kernels<Self>;
}

macro_rules! tile_functions {
    ($($(#[$attr:meta])* $name:ident: $simd:ty, [$($rows:literal),*];)*) => {$(
        $(#[$attr])*
        unsafe fn $name(t: &Tile<'_, <$simd as Simd>::T>) {
            // SAFETY: by the caller.
            unsafe {
                match (t.rows, t.vectors, t.row_step != 0) {
                    $(
                        ($rows, 2, false) => tile::<$simd, $rows, 2, false>(t),
                        ($rows, 1, false) => tile::<$simd, $rows, 1, false>(t),
                        ($rows, 2, true) => tile::<$simd, $rows, 2, true>(t),
                        ($rows, 1, true) => tile::<$simd, $rows, 1, true>(t),
                    )*
                    _ => unreachable!("a tile's rows are one of the sizes, its vectors 1 or 2"),
                }
            }
        }
    )*};
}

tile_functions! {
    portable_f32: Portable<f32>, [1, 2, 4];
    portable_f64: Portable<f64>, [1, 2, 4];
    portable_i32: Portable<i32>, [1, 2, 4];
    portable_i64: Portable<i64>, [1, 2, 4];
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::simd::x86 as simd;
    use super::{Kernels, Machine, Simd, Tile, tile};

    tile_functions! {
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
        avx512_f32: simd::F32x16, [1, 2, 4, 8, 12];
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
        avx512_f64: simd::F64x8, [1, 2, 4, 8, 12];
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
        avx512_i32: simd::I32x16, [1, 4, 8];
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
        avx512_i64: simd::I64x8, [1, 4, 8];
        #[target_feature(enable = "avx2,fma")]
        avx2_f32: simd::F32x8, [1, 2, 4, 6];
        #[target_feature(enable = "avx2,fma")]
        avx2_f64: simd::F64x4, [1, 2, 4, 6];
        #[target_feature(enable = "avx2,fma")]
        avx2_i32: simd::I32x8, [1, 2, 4];
        #[target_feature(enable = "avx2,fma")]
        avx2_i64: super::Portable<i64>, [1, 2, 4];
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,avx512vnni")]
        vnni_pairs: simd::VnniPairsX16, [1, 2, 4, 8, 12];
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,avx512vnni")]
        vnni_fours: simd::FoursX16, [1, 2, 4, 8, 12];
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma,avx512bf16")]
        avx512_bf16: simd::Bf16PairsX16, [1, 2, 4, 8, 12];
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
        avx512_pairs: simd::PairsX16, [1, 4, 8];
        #[target_feature(enable = "avx2,fma")]
        avx2_pairs: simd::PairsX8, [1, 4, 6];
    }

    /// For pairs of 16-bit integers.
    pub(in super::super) fn pairs(machine: Machine) -> Option<Kernels<i32>> {
        Some(match machine {
            Machine::Portable => return None,
            Machine::Avx2 => kernels(&[1, 4, 6], 8, avx2_pairs),
            Machine::Avx512 if is_x86_feature_detected!("avx512vnni") => {
                kernels(&[1, 2, 4, 8, 12], 16, vnni_pairs)
            }
            Machine::Avx512 => kernels(&[1, 4, 8], 16, avx512_pairs),
        })
    }

    /// For fours of bytes: signed left, unsigned right.
    pub(in super::super) fn fours(machine: Machine) -> Option<Kernels<i32>> {
        (machine == Machine::Avx512 && is_x86_feature_detected!("avx512vnni"))
            .then(|| kernels(&[1, 2, 4, 8, 12], 16, vnni_fours as unsafe fn(&Tile<'_, i32>)))
    }

    /// For pairs of `bf16`.
    pub(in super::super) fn bf16_pairs(machine: Machine) -> Option<Kernels<f32>> {
        (machine == Machine::Avx512 && is_x86_feature_detected!("avx512bf16"))
            .then(|| kernels(&[1, 2, 4, 8, 12], 16, avx512_bf16 as unsafe fn(&Tile<'_, f32>)))
    }

    fn kernels<T>(
        sizes: &'static [usize],
        lanes: usize,
        run: unsafe fn(&Tile<'_, T>),
    ) -> Kernels<T> {
        Kernels { rows: sizes[sizes.len() - 1], sizes, lanes, run }
    }

    pub(super) const F32: [unsafe fn(&Tile<'_, f32>); 2] = [avx2_f32, avx512_f32];
    pub(super) const F64: [unsafe fn(&Tile<'_, f64>); 2] = [avx2_f64, avx512_f64];
    pub(super) const I32: [unsafe fn(&Tile<'_, i32>); 2] = [avx2_i32, avx512_i32];
    pub(super) const I64: [unsafe fn(&Tile<'_, i64>); 2] = [avx2_i64, avx512_i64];
}

macro_rules! tiled {
    ($t:ty, $portable:ident, $x86:ident, [$($lanes2:literal: $sizes2:expr)?], [$lanes5:literal: $sizes5:expr]) => {
        impl Tiled for $t {
            fn kernels(machine: Machine) -> Kernels<$t> {
                let of = |sizes: &'static [usize], lanes, run| Kernels {
                    rows: sizes[sizes.len() - 1],
                    sizes,
                    lanes,
                    run,
                };
                match machine {
                    Machine::Portable => of(&[1, 2, 4], 8, $portable as unsafe fn(&Tile<'_, $t>)),
                    #[cfg(target_arch = "x86_64")]
                    Machine::Avx2 => of($($sizes2, $lanes2,)? x86::$x86[0]),
                    #[cfg(target_arch = "x86_64")]
                    Machine::Avx512 => of($sizes5, $lanes5, x86::$x86[1]),
                }
            }
        }
    };
}
tiled!(f32, portable_f32, F32, [8: &[1, 2, 4, 6]], [16: &[1, 2, 4, 8, 12]]);
tiled!(f64, portable_f64, F64, [4: &[1, 2, 4, 6]], [8: &[1, 2, 4, 8, 12]]);
tiled!(i32, portable_i32, I32, [8: &[1, 2, 4]], [16: &[1, 4, 8]]);
tiled!(i64, portable_i64, I64, [8: &[1, 2, 4]], [8: &[1, 4, 8]]);

#[cfg(not(target_arch = "x86_64"))]
pub(super) use other::{bf16_pairs, fours, pairs};
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{bf16_pairs, fours, pairs};

#[cfg(not(target_arch = "x86_64"))]
mod other {
    //! Machines without such instructions.
    use super::{Kernels, Machine};

    pub(in super::super) fn pairs(_: Machine) -> Option<Kernels<i32>> {
        None
    }

    pub(in super::super) fn fours(_: Machine) -> Option<Kernels<i32>> {
        None
    }

    pub(in super::super) fn bf16_pairs(_: Machine) -> Option<Kernels<f32>> {
        None
    }
}

/// Computes a tile of `ROWS` rows and `VECTORS` vectors; `STEPPED` says that the left elements are
/// where they are.
///
/// # Safety
/// The machine has the instructions; all of the tile's elements are there.
#[inline(always)]
unsafe fn tile<S: Simd, const ROWS: usize, const VECTORS: usize, const STEPPED: bool>(
    t: &Tile<'_, S::T>,
) {
    // SAFETY: by the caller.
    unsafe {
        let columns = VECTORS * S::LANES;
        let mut sums = [[S::splat(S::T::default()); VECTORS]; ROWS];
        for row in 0..ROWS {
            for v in 0..VECTORS {
                sums[row][v] = S::splat(t.start[row]);
            }
        }
        for run in t.runs {
            let right_step = t.right_step;
            let mut right = t.right.add(run.start * right_step);
            let end = right.wrapping_add(run.len * right_step);
            if STEPPED {
                let mut left = t.left.offset(run.left as isize);
                let step = t.row_step;
                while right != end {
                    let vectors: [S::V; VECTORS] =
                        std::array::from_fn(|v| S::load(right.add(v * S::LANES)));
                    for row in 0..ROWS {
                        let value = S::splat(*left.offset(row as isize * step));
                        for v in 0..VECTORS {
                            sums[row][v] = S::multiply_add(value, vectors[v], sums[row][v]);
                        }
                    }
                    left = left.add(1);
                    right = right.wrapping_add(right_step);
                }
            } else {
                let mut left = t.left.add(run.start * ROWS);
                while right != end {
                    let vectors: [S::V; VECTORS] =
                        std::array::from_fn(|v| S::load(right.add(v * S::LANES)));
                    for row in 0..ROWS {
                        let value = S::splat(*left.add(row));
                        for v in 0..VECTORS {
                            sums[row][v] = S::multiply_add(value, vectors[v], sums[row][v]);
                        }
                    }
                    left = left.add(ROWS);
                    right = right.wrapping_add(right_step);
                }
            }
        }
        // The loops over the sums have constant bounds and no branches, so that they are unrolled
        // and the sums stay in registers.
        if t.valid[1] == columns {
            if t.accumulate {
                for row in 0..ROWS {
                    for v in 0..VECTORS {
                        let there = S::load(t.out[row].add(v * S::LANES));
                        sums[row][v] = S::add(there, sums[row][v]);
                    }
                }
            }
            for row in 0..ROWS {
                for v in 0..VECTORS {
                    S::store(t.out[row].add(v * S::LANES), sums[row][v]);
                }
            }
        } else {
            let mut lines = [[S::T::default(); MOST_COLUMNS]; ROWS];
            for row in 0..ROWS {
                for v in 0..VECTORS {
                    S::store(lines[row].as_mut_ptr().add(v * S::LANES), sums[row][v]);
                }
            }
            for (line, &out) in lines.iter().zip(&t.out) {
                for (column, &sum) in line[..t.valid[1]].iter().enumerate() {
                    let at = out.add(column);
                    *at = if t.accumulate { (*at).plus(sum) } else { sum };
                }
            }
        }
    }
}
