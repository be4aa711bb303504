//! Contractions whose machine instruction multiplies several narrow elements in each lane: pairs of
//! 16-bit integers or `bf16`, and fours of bytes. A number in a panel then holds the elements of
//! that many successive depths, the first in the low bits.
//!
//! Fours multiply unsigned right bytes by signed left bytes. A signed right side is packed with 128
//! added, and every row of the result starts from -128 times the sum of its left bytes.

use super::packed::{Pack, PackFn};
use super::simd::Number;
use super::tile::{Kernels, MOST_ROWS, Machine};
use half::bf16;
use jaxrs_kernel::DType;
use jaxrs_kernel::contraction::Check;

/// How a contraction's elements are grouped.
pub(super) struct Grouped<T: 'static> {
    /// Depths in a number.
    pub(super) group: usize,
    /// Whether 128 is added to right elements.
    pub(super) biased: bool,
    /// Whether the left elements in memory are what a packed number holds.
    pub(super) raw_left: bool,
    pub(super) kernels: Kernels<T>,
    pub(super) pack: [PackFn<T>; 2],
}

/// A number whose bits can be narrow elements.
pub(super) trait Word: Number {
    fn from_word(word: u32) -> Self;
}

impl Word for i32 {
    #[inline(always)]
    fn from_word(word: u32) -> i32 {
        word as i32
    }
}

impl Word for f32 {
    #[inline(always)]
    fn from_word(word: u32) -> f32 {
        f32::from_bits(word)
    }
}

/// A narrow element as the bits of a lane of 16 or 8 bits.
trait Lane: Copy {
    fn lane(self) -> u32;
}

/// A byte in a lane of 8 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Byte(u8);

/// A signed byte plus 128.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Biased(u8);

macro_rules! lanes {
    ($($t:ty: |$x:ident| $bits:expr;)*) => {$(
        impl Lane for $t {
            #[inline(always)]
            fn lane(self) -> u32 { let $x = self; $bits }
        }
    )*};
}
lanes! {
    u8: |x| u32::from(x);
    i8: |x| u32::from(i16::from(x) as u16);
    i16: |x| u32::from(x as u16);
    bf16: |x| u32::from(x.to_bits());
    Byte: |x| u32::from(x.0);
    Biased: |x| u32::from(x.0 ^ 0x80);
}

/// The function for a machine: compiled with AVX2 where it is there.
macro_rules! pack_for {
    ($machine:expr, $lane:ty, $word:ty, $group:literal) => {
        match $machine {
            Machine::Portable => pack::<$lane, $word, $group> as PackFn<$word>,
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2 | Machine::Avx512 => pack_avx2::<$lane, $word, $group>,
        }
    };
}

/// For `bf16` operands; None if the machine has no instruction for them.
pub(super) fn floats(
    types: [DType; 2],
    checks: &[Check],
    machine: Machine,
) -> Option<Grouped<f32>> {
    // With checks, patches of converted elements are the better way.
    if types != [DType::BF16; 2] || !checks.is_empty() {
        return None;
    }
    Some(Grouped {
        group: 2,
        biased: false,
        raw_left: true,
        kernels: super::tile::bf16_pairs(machine)?,
        pack: [pack_for!(machine, bf16, f32, 2); 2],
    })
}

/// For integers of at most 16 bits with sign; None for others.
pub(super) fn integers(
    types: [DType; 2],
    checks: &[Check],
    machine: Machine,
) -> Option<Grouped<i32>> {
    if types[0] == DType::I8
        && matches!(types[1], DType::I8 | DType::U8)
        && checks.is_empty()
        && let Some(kernels) = super::tile::fours(machine)
    {
        let biased = types[1] == DType::I8;
        let right = if biased {
            pack_for!(machine, Biased, i32, 4)
        } else {
            pack_for!(machine, Byte, i32, 4)
        };
        let pack = [pack_for!(machine, Byte, i32, 4), right];
        return Some(Grouped { group: 4, biased, raw_left: true, kernels, pack });
    }
    let pack = |dtype| {
        Some(match dtype {
            DType::I1 | DType::U8 => pack_for!(machine, u8, i32, 2),
            DType::I8 => pack_for!(machine, i8, i32, 2),
            DType::I16 => pack_for!(machine, i16, i32, 2),
            _ => return None,
        })
    };
    Some(Grouped {
        group: 2,
        biased: false,
        raw_left: types[0] == DType::I16,
        pack: [pack(types[0])?, pack(types[1])?],
        kernels: super::tile::pairs(machine)?,
    })
}

/// For each row of a panel of fours, -128 times the sum of its signed bytes.
///
/// # Safety
/// As [`super::packed::Packed::bias`].
pub(super) unsafe fn bias(
    left: *const i32,
    step: isize,
    rows: usize,
    depth: usize,
) -> [i32; MOST_ROWS] {
    let mut sums = [0i32; MOST_ROWS];
    // The four bytes of a word, shifted up in turn so that the shift back extends the sign.
    let bytes =
        |word: i32| (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
    // SAFETY: by the caller.
    unsafe {
        if step == 0 {
            for line in std::slice::from_raw_parts(left, depth * rows).chunks_exact(rows) {
                for (sum, &word) in sums.iter_mut().zip(line) {
                    *sum += bytes(word);
                }
            }
        } else {
            for (row, sum) in sums[..rows].iter_mut().enumerate() {
                let line = left.wrapping_offset(row as isize * step);
                *sum = std::slice::from_raw_parts(line, depth).iter().map(|&w| bytes(w)).sum();
            }
        }
    }
    sums.map(|sum| sum.wrapping_mul(-128))
}

/// # Safety
/// As [`pack`], on a machine with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn pack_avx2<S: Lane, W: Word, const GROUP: usize>(job: &Pack<'_>, out: *mut W) {
    // SAFETY: by the caller.
    unsafe { pack::<S, W, GROUP>(job, out) }
}

/// Fills a panel `[depth / GROUP][width]`; what is beyond the depth or the rows is zero.
///
/// # Safety
/// As [`super::packed::PackFn`].
#[inline(always)]
unsafe fn pack<S: Lane, W: Word, const GROUP: usize>(job: &Pack<'_>, out: *mut W) {
    let (rows, width) = (job.rows, job.width);
    let offsets = if job.side == 0 { job.depth.left_offsets() } else { job.depth.right_offsets() };
    let base: *const S = job.base.cast();
    let free = job.all_inside();
    let whole = offsets.len() / GROUP;
    let join = |lanes: [S; GROUP]| {
        let word = lanes.iter().enumerate();
        W::from_word(word.fold(0, |w, (n, lane)| w | lane.lane() << (32 / GROUP * n)))
    };
    let mut done = 0;
    // SAFETY: by the caller, for all accesses below.
    unsafe {
        if free && rows.step == Some(1) && matches!(rows.len, 16 | 32) && rows.len == width {
            let first = base.wrapping_offset(rows.operand[0] as isize);
            for (number, at) in offsets.chunks_exact(GROUP).enumerate() {
                let at: [i64; GROUP] = std::array::from_fn(|n| at[n]);
                let line = out.wrapping_add(number * width);
                if width == 32 {
                    side_by_side::<S, W, GROUP, 32>(first, at, line);
                } else {
                    side_by_side::<S, W, GROUP, 16>(first, at, line);
                }
            }
            done = whole;
        } else if free && job.unit_depth() && !offsets.is_empty() {
            for row in 0..rows.len {
                let from = base.wrapping_offset((rows.operand[row] + offsets[0]) as isize);
                let from: *const [S; GROUP] = from.cast();
                for number in 0..whole {
                    *out.wrapping_add(number * width + row) =
                        join(from.add(number).read_unaligned());
                }
            }
            for number in 0..whole {
                for row in rows.len..width {
                    *out.wrapping_add(number * width + row) = W::default();
                }
            }
            done = whole;
        }
        for number in done..offsets.len().div_ceil(GROUP) {
            for row in 0..width {
                let mut word = 0;
                for n in 0..GROUP {
                    let k = number * GROUP + n;
                    if row < rows.len && k < offsets.len() && (free || job.inside(row, k)) {
                        let at = rows.operand[row] + offsets[k];
                        word |= base.wrapping_offset(at as isize).read().lane() << (32 / GROUP * n);
                    }
                }
                *out.wrapping_add(number * width + row) = W::from_word(word);
            }
        }
    }
}

/// Joins `GROUP` lines of `N` neighbours.
///
/// # Safety
/// They are there, and `out` has room.
#[inline(always)]
unsafe fn side_by_side<S: Lane, W: Word, const GROUP: usize, const N: usize>(
    first: *const S,
    at: [i64; GROUP],
    out: *mut W,
) {
    let mut words = [0u32; N];
    for (n, offset) in at.into_iter().enumerate() {
        // SAFETY: by the caller.
        let line: [S; N] =
            unsafe { first.wrapping_offset(offset as isize).cast::<[S; N]>().read_unaligned() };
        for row in 0..N {
            words[row] |= line[row].lane() << (32 / GROUP * n);
        }
    }
    let mut line = [W::default(); N];
    for row in 0..N {
        line[row] = W::from_word(words[row]);
    }
    // SAFETY: by the caller.
    unsafe { out.cast::<[W; N]>().write_unaligned(line) };
}
