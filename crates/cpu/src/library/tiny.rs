//! Contractions of a few hundred multiply-adds a batch, of numbers that are not converted: plain
//! loops without tables or packing, so that neither a single call nor a batch of many costs more
//! than its arithmetic.

use super::simd::Number;
use crate::pool::Pool;
use jaxrs_kernel::DType;
use jaxrs_kernel::contraction::{BatchAxis, Contraction};

/// Most multiply-adds of a batch.
const MOST: u64 = 512;
/// Multiply-adds of a piece of work for a thread.
const GRAIN: u64 = 1 << 15;
/// Columns that are summed side by side.
const SIDE: usize = 16;

/// A tiny contraction, ready to run.
pub(super) struct Tiny<T> {
    swapped: bool,
    base: [isize; 3],
    batch: Vec<BatchAxis>,
    batches: u64,
    /// Extents of left rows, right rows and depth.
    extents: [usize; 3],
    /// Left and result step of a left row; right and result step of a right row; left and right
    /// step of depth.
    left: [isize; 2],
    right: [isize; 2],
    depth: [isize; 2],
    number: std::marker::PhantomData<T>,
}

/// Pointers that threads share.
struct Buffers<T> {
    left: *const T,
    right: *const T,
    out: *mut T,
}
// SAFETY: threads write disjoint batches of the result.
unsafe impl<T> Sync for Buffers<T> {}

impl<T: Number> Tiny<T> {
    /// None if the contraction is not tiny, or of several axes, or its elements are no `T`s.
    pub(super) fn new(c: &Contraction, types: [DType; 2], out: DType) -> Option<Tiny<T>> {
        let number = |d: DType| d.is_float() && d.size() as usize == size_of::<T>();
        let extents = c.extents();
        let one = |count: usize| count <= 1;
        if !types.iter().all(|&d| number(d))
            || !number(out)
            || !c.checks.is_empty()
            || extents.iter().product::<u64>() > MOST
            || extents.contains(&0)
            || ![c.rows[0].len(), c.rows[1].len(), c.depth.len()].into_iter().all(one)
            || c.batch.len() > 8
        {
            return None;
        }
        let row = |side: usize| {
            c.rows[side].first().map_or([0; 2], |a| [a.operand as isize, a.out as isize])
        };
        Some(Tiny {
            swapped: c.swapped,
            base: c.base.map(|b| b as isize),
            batch: c.batch.clone(),
            batches: c.batches(),
            extents: extents.map(|e| e as usize),
            left: row(0),
            right: row(1),
            depth: c.depth.first().map_or([0; 2], |a| [a.left as isize, a.right as isize]),
            number: std::marker::PhantomData,
        })
    }

    /// Computes the result.
    ///
    /// # Safety
    /// The buffers hold what the contraction reads and writes.
    pub(super) unsafe fn run(&self, pool: &Pool, operands: [*const u8; 2], out: *mut u8) {
        let [first, second] = if self.swapped { [1, 0] } else { [0, 1] };
        let buffers = Buffers::<T> {
            left: operands[first].cast::<T>().wrapping_offset(self.base[0]),
            right: operands[second].cast::<T>().wrapping_offset(self.base[1]),
            out: out.cast::<T>().wrapping_offset(self.base[2]),
        };
        let work = self.extents.iter().product::<usize>() as u64;
        let buffers = &buffers;
        if self.batches * work <= GRAIN && pool.spares() {
            // SAFETY: by the caller.
            unsafe { self.some(0, self.batches, buffers) };
            return;
        }
        let grain = GRAIN.div_ceil(work);
        pool.run(self.batches as i64, grain as i64, |low, high, _| {
            // SAFETY: by the caller.
            unsafe { self.some(low as u64, high as u64, buffers) };
        });
    }

    /// Computes the batches from `low` up to `high`.
    ///
    /// # Safety
    /// As [`Tiny::run`].
    unsafe fn some(&self, low: u64, high: u64, buffers: &Buffers<T>) {
        let mut index = [0; 8];
        let mut at = [0isize; 3];
        let mut rest = low;
        for (index, axis) in index.iter_mut().zip(&self.batch).rev() {
            *index = rest % axis.extent;
            rest /= axis.extent;
            let n = *index as isize;
            at[0] += n * axis.left as isize;
            at[1] += n * axis.right as isize;
            at[2] += n * axis.out as isize;
        }
        for _ in low..high {
            let [left, right] =
                [buffers.left.wrapping_offset(at[0]), buffers.right.wrapping_offset(at[1])];
            // SAFETY: by the caller.
            unsafe { self.one(left, right, buffers.out.wrapping_offset(at[2])) };
            for (index, axis) in index.iter_mut().zip(&self.batch).rev() {
                *index += 1;
                let steps = [axis.left as isize, axis.right as isize, axis.out as isize];
                if *index < axis.extent {
                    at = [at[0] + steps[0], at[1] + steps[1], at[2] + steps[2]];
                    break;
                }
                let back = axis.extent as isize - 1;
                at = [at[0] - back * steps[0], at[1] - back * steps[1], at[2] - back * steps[2]];
                *index = 0;
            }
        }
    }

    /// Computes one batch.
    ///
    /// # Safety
    /// As [`Tiny::run`].
    unsafe fn one(&self, left: *const T, right: *const T, out: *mut T) {
        let [rows, columns, _] = self.extents;
        let side_by_side = self.right == [1, 1];
        for row in 0..rows {
            let left = left.wrapping_offset(row as isize * self.left[0]);
            let out = out.wrapping_offset(row as isize * self.left[1]);
            let mut column = 0;
            // SAFETY: by the caller.
            unsafe {
                while side_by_side && column + 4 <= columns {
                    let (right, out) = (right.add(column), out.add(column));
                    column += match columns - column {
                        SIDE.. => self.columns::<SIDE>(left, right, out),
                        8.. => self.columns::<8>(left, right, out),
                        _ => self.columns::<4>(left, right, out),
                    };
                }
                while column < columns {
                    let right = right.wrapping_offset(column as isize * self.right[0]);
                    let mut sum = T::default();
                    for k in 0..self.extents[2] as isize {
                        let a = *left.wrapping_offset(k * self.depth[0]);
                        let b = *right.wrapping_offset(k * self.depth[1]);
                        sum = T::multiply_add(a, b, sum);
                    }
                    *out.wrapping_offset(column as isize * self.right[1]) = sum;
                    column += 1;
                }
            }
        }
    }

    /// Computes `N` neighbours; returns `N`.
    ///
    /// # Safety
    /// As [`Tiny::run`].
    #[inline(always)]
    unsafe fn columns<const N: usize>(
        &self,
        left: *const T,
        right: *const T,
        out: *mut T,
    ) -> usize {
        let mut sums = [T::default(); N];
        for k in 0..self.extents[2] as isize {
            // SAFETY: by the caller.
            unsafe {
                let a = *left.wrapping_offset(k * self.depth[0]);
                let line = right.wrapping_offset(k * self.depth[1]).cast::<[T; N]>();
                for (sum, &b) in sums.iter_mut().zip(&*line) {
                    *sum = T::multiply_add(a, b, *sum);
                }
            }
        }
        // SAFETY: by the caller.
        unsafe { out.cast::<[T; N]>().write(sums) };
        N
    }
}
