//! Contractions with few rows on one side, in many batches or with a window: depthwise convolutions
//! and their gradients. Blocks would be nearly empty; instead, a line of the result along some axis
//! (channels, or image columns) is summed depth by depth, each a multiply-add of two lines.

use super::source::{Source, Target};
use super::tables::{Depth, MOST_CHECKS};
use super::tile::Machine;
use crate::pool::Pool;
use half::{bf16, f16};
use jaxrs_kernel::DType;
use jaxrs_kernel::contraction::{Contraction, DEPTH_BLOCK};

/// Most rows of the side with few.
const FEW: u64 = 4;
/// Results of a line.
const LINE: usize = 256;
/// Most axes beside the line's.
const MOST_AXES: usize = 16;
/// Multiply-adds of a piece of work for a thread.
const GRAIN: u64 = 1 << 15;

/// A contraction by lines, ready to run.
pub(super) struct Lines<T: 'static> {
    contraction: Contraction,
    line: Line,
    /// Axes that are walked position by position.
    outer: Vec<Outer>,
    add: AddFn<T>,
    sizes: [isize; 3],
    out: DType,
}

/// An axis: steps in left, right and result.
#[derive(Clone, Copy)]
struct Line {
    extent: u64,
    steps: [i64; 3],
    /// The check whose place moves along the line, and by how much.
    moving: Option<(usize, i64)>,
}

/// An axis with what it adds to each check's place.
#[derive(Clone, Copy)]
struct Outer {
    extent: u64,
    steps: [i64; 3],
    places: [i64; MOST_CHECKS],
}

/// Adds products of two lines: sums, left, right, their steps, how many.
type AddFn<T> = unsafe fn(*mut T, *const u8, *const u8, [isize; 2], usize);

/// Pointers that threads share.
struct Buffers {
    left: *const u8,
    right: *const u8,
    out: *mut u8,
}
// SAFETY: threads write disjoint lines of the result.
unsafe impl Sync for Buffers {}

impl<T: Target + Lined> Lines<T> {
    /// None if blocks (or thin loops) are the better way.
    pub(super) fn new(
        c: &Contraction,
        operand_types: [DType; 2],
        out: DType,
        machine: Machine,
    ) -> Option<Lines<T>> {
        let [left, right, depth] = c.extents();
        let types = if c.swapped { [1, 0] } else { [0, 1] }.map(|i: usize| operand_types[i]);
        if left.min(right) > FEW || depth == 0 || out.is_complex() || c.checks.len() > MOST_CHECKS {
            return None;
        }
        // Tiles are full enough along a long side.
        if c.checks.is_empty() && left.max(right) >= 32 {
            return None;
        }
        let mut axes: Vec<Outer> = Vec::new();
        let plain = |extent, steps| Outer { extent, steps, places: [0; MOST_CHECKS] };
        axes.extend(c.batch.iter().map(|a| plain(a.extent, [a.left, a.right, a.out])));
        for side in 0..2 {
            for (number, axis) in c.rows[side].iter().enumerate() {
                let operand = if side == 0 { [axis.operand, 0] } else { [0, axis.operand] };
                let mut outer = plain(axis.extent, [operand[0], operand[1], axis.out]);
                for (place, check) in outer.places.iter_mut().zip(&c.checks) {
                    if side == c.checked && check.row == number {
                        *place = check.row_step;
                    }
                }
                axes.push(outer);
            }
        }
        // The longest axis along which all are neighbours, or one operand stays.
        let even = |a: &Outer| {
            a.steps[2] == 1 && a.steps[0].abs() <= 1 && a.steps[1].abs() <= 1
                || a.steps[2] == 1 && a.steps.contains(&0)
        };
        let best = (0..axes.len()).max_by_key(|&i| (even(&axes[i]), axes[i].extent))?;
        let line = axes.remove(best);
        if line.extent < 4 || axes.len() > MOST_AXES {
            return None;
        }
        let moving = line.places.iter().position(|&p| p != 0).map(|n| (n, line.places[n]));
        Some(Lines {
            line: Line { extent: line.extent, steps: line.steps, moving },
            outer: axes,
            add: T::add_fn(types, machine)?,
            sizes: [types[0], types[1], out].map(|d| d.size() as isize),
            out,
            contraction: c.clone(),
        })
    }

    /// Computes the result.
    ///
    /// # Safety
    /// The buffers hold what the contraction reads and writes.
    pub(super) unsafe fn run(&self, pool: &Pool, operands: [*const u8; 2], out: *mut u8) {
        let c = &self.contraction;
        let [first, second] = if c.swapped { [1, 0] } else { [0, 1] };
        let at = |n: usize| c.base[n] as isize * self.sizes[n];
        let buffers = Buffers {
            left: operands[first].wrapping_offset(at(0)),
            right: operands[second].wrapping_offset(at(1)),
            out: out.wrapping_offset(at(2)),
        };
        let depth = c.extents()[2];
        let positions: u64 = self.outer.iter().map(|a| a.extent).product();
        let pieces = self.line.extent.div_ceil(LINE as u64);
        let buffers = &buffers;
        let work = depth * self.line.extent.min(LINE as u64);
        let grain = GRAIN.div_ceil(work);
        pool.run((positions * pieces) as i64, grain as i64, |low, high, _| {
            let mut table = Depth::new();
            let mut set = None;
            for task in low as u64..high as u64 {
                let (position, piece) = (task / pieces, task % pieces);
                let start = piece * LINE as u64;
                let len = (self.line.extent - start).min(LINE as u64) as usize;
                // SAFETY: by the caller.
                unsafe { self.line(buffers, position, start, len, &mut table, &mut set) };
            }
        });
    }

    /// Computes a piece of a line. `set` says which depths the table has.
    ///
    /// # Safety
    /// As [`Lines::run`].
    unsafe fn line(
        &self,
        buffers: &Buffers,
        position: u64,
        start: u64,
        len: usize,
        table: &mut Depth,
        set: &mut Option<u64>,
    ) {
        let c = &self.contraction;
        let mut at = self.line.steps.map(|s| s * start as i64);
        let mut places = [0; MOST_CHECKS];
        for (place, check) in places.iter_mut().zip(&c.checks) {
            *place = check.base;
        }
        if let Some((number, step)) = self.line.moving {
            places[number] += step * start as i64;
        }
        let mut rest = position;
        for axis in self.outer.iter().rev() {
            let index = (rest % axis.extent) as i64;
            rest /= axis.extent;
            for (at, step) in at.iter_mut().zip(axis.steps) {
                *at += index * step;
            }
            for (place, step) in places.iter_mut().zip(axis.places) {
                *place += index * step;
            }
        }
        let depth = c.extents()[2];
        let mut sums = [T::default(); LINE];
        let mut from = 0;
        while from < depth {
            let count = (depth - from).min(DEPTH_BLOCK);
            if *set != Some(from) {
                table.set(c, from, count as usize);
                *set = Some(from);
            }
            let mut block = [T::default(); LINE];
            for k in 0..count as usize {
                let (low, high) = self.inside(table, &places, k, len);
                if low >= high {
                    continue;
                }
                let (left, right) = (table.left_offsets()[k], table.right_offsets()[k]);
                let offset = |n: usize, depth: i64| {
                    (at[n] + depth + low as i64 * self.line.steps[n]) as isize * self.sizes[n]
                };
                let steps = [self.line.steps[0] as isize, self.line.steps[1] as isize];
                // SAFETY: by the caller; positions from low to high are inside.
                unsafe {
                    (self.add)(
                        block.as_mut_ptr().add(low),
                        buffers.left.wrapping_offset(offset(0, left)),
                        buffers.right.wrapping_offset(offset(1, right)),
                        steps,
                        high - low,
                    );
                }
            }
            for (sum, &more) in sums[..len].iter_mut().zip(&block) {
                *sum = sum.plus(more);
            }
            from += count;
        }
        let (first, step) = (at[2] as isize, self.line.steps[2] as isize);
        // SAFETY: by the caller.
        unsafe { T::write_line(&sums[..len], buffers.out, first, step, self.out) };
    }

    /// The part of the line that is inside at a depth.
    fn inside(&self, table: &Depth, places: &[i64], k: usize, len: usize) -> (usize, usize) {
        let (mut low, mut high) = (0, len as i64);
        for (number, check) in self.contraction.checks.iter().enumerate() {
            let first = places[number] + table.place(number, k);
            let step = match self.line.moving {
                Some((moving, step)) if moving == number => step,
                _ => 0,
            };
            let (from, to) = super::tables::inside(first, step, check.size, len as i64);
            (low, high) = (low.max(from), high.min(to));
        }
        (low.max(0) as usize, high.max(0) as usize)
    }
}

/// A number that lines are summed in.
pub(super) trait Lined: super::simd::Number {
    /// The function for operands of these types; None if they are not read as this number, or
    /// differ.
    fn add_fn(types: [DType; 2], machine: Machine) -> Option<AddFn<Self>>;
}

macro_rules! on_machine {
    ($machine:expr, $source:ty, $t:ty) => {
        match $machine {
            Machine::Portable => add::<$source, $t> as AddFn<$t>,
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2 | Machine::Avx512 => add_avx2::<$source, $t>,
        }
    };
}

impl Lined for f32 {
    fn add_fn(types: [DType; 2], machine: Machine) -> Option<AddFn<f32>> {
        Some(match types {
            [DType::F32, DType::F32] => on_machine!(machine, f32, f32),
            [DType::BF16, DType::BF16] => on_machine!(machine, bf16, f32),
            [DType::F16, DType::F16] => on_machine!(machine, f16, f32),
            _ => return None,
        })
    }
}

impl Lined for f64 {
    fn add_fn(types: [DType; 2], machine: Machine) -> Option<AddFn<f64>> {
        (types == [DType::F64; 2]).then_some(on_machine!(machine, f64, f64))
    }
}

/// # Safety
/// As [`add`], on a machine with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_avx2<S: Source<T>, T: super::simd::Number>(
    sums: *mut T,
    left: *const u8,
    right: *const u8,
    steps: [isize; 2],
    count: usize,
) {
    // SAFETY: by the caller.
    unsafe { add::<S, T>(sums, left, right, steps, count) };
}

/// # Safety
/// There are `count` sums and elements.
#[inline(always)]
unsafe fn add<S: Source<T>, T: super::simd::Number>(
    sums: *mut T,
    left: *const u8,
    right: *const u8,
    steps: [isize; 2],
    count: usize,
) {
    let (left, right): (*const S, *const S) = (left.cast(), right.cast());
    // SAFETY: by the caller.
    unsafe {
        let sums = std::slice::from_raw_parts_mut(sums, count);
        let line = |from| std::slice::from_raw_parts(from, count);
        match steps {
            [1, 1] => {
                for ((sum, &a), &b) in sums.iter_mut().zip(line(left)).zip(line(right)) {
                    *sum = T::multiply_add(a.read(), b.read(), *sum);
                }
            }
            [1, 0] => {
                let b = right.read().read();
                for (sum, &a) in sums.iter_mut().zip(line(left)) {
                    *sum = T::multiply_add(a.read(), b, *sum);
                }
            }
            [0, 1] => {
                let a = left.read().read();
                for (sum, &b) in sums.iter_mut().zip(line(right)) {
                    *sum = T::multiply_add(a, b.read(), *sum);
                }
            }
            [a_step, b_step] => {
                for (n, sum) in sums.iter_mut().enumerate() {
                    let a = left.wrapping_offset(n as isize * a_step).read().read();
                    let b = right.wrapping_offset(n as isize * b_step).read().read();
                    *sum = T::multiply_add(a, b, *sum);
                }
            }
        }
    }
}
