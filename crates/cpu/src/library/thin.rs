//! Contractions with at most [`THIN`] rows on one side: matrix times vector and the like, which run
//! at the speed of memory. Nothing of the matrix is packed.
//!
//! If the matrix's rows (right rows) are neighbours, a strip of results is kept in cache and rows of
//! depth are added to it four at a time; if its depth is contiguous, results are dot products, eight
//! rows at a time. The thin side is packed. Strips and groups of rows lie at fixed places, so that
//! results do not depend on threads.

use super::simd::Number;
use super::source::Target;
use super::tables::{Depth, Rows};
use super::tile::Machine;
use crate::pool::Pool;
use jaxrs_kernel::contraction::{Contraction, DEPTH_BLOCK, DepthAxis};
use jaxrs_kernel::{DType, thin};

/// Most rows of the thin side.
pub(super) const THIN: usize = thin::THIN as usize;
/// Right rows of a strip.
pub(super) const STRIP: usize = 512;
/// Multiply-adds below which a contraction stays on one thread.
const ONE_THREAD: u64 = 1 << 16;

/// A contraction with a thin left side, ready to run.
pub(super) struct Thin<T: 'static> {
    contraction: Contraction,
    left: DType,
    functions: Functions<T>,
    out: DType,
    extents: [u64; 3],
    /// Whether depth is contiguous, else the right rows.
    dots: bool,
    /// Whether the left side is numbers along depth already.
    left_direct: bool,
    sizes: [isize; 3],
}

/// The loops for one type of right elements.
#[derive(Clone, Copy)]
pub(super) struct Functions<T> {
    pub(super) strip: unsafe fn(&Strip<'_, T>),
    pub(super) dots: unsafe fn(&Dots<T>),
}

/// Adds depths to a strip of results.
pub(super) struct Strip<'a, T> {
    /// `[rows][left_step]`.
    pub(super) left: *const T,
    pub(super) left_step: isize,
    pub(super) rows: usize,
    /// The first depth's elements; the offsets of all depths.
    pub(super) right: *const u8,
    pub(super) offsets: &'a [i64],
    pub(super) columns: usize,
    /// `[rows][STRIP]`.
    pub(super) sums: *mut T,
}

/// Dot products of left rows with right rows.
pub(super) struct Dots<T> {
    /// `[rows][left_step]`.
    pub(super) left: *const T,
    pub(super) left_step: isize,
    pub(super) rows: usize,
    pub(super) right: [*const u8; GROUP],
    /// Right rows: `GROUP` or 1.
    pub(super) columns: usize,
    pub(super) depth: usize,
    /// `[rows][columns]`, added to.
    pub(super) sums: *mut T,
}

/// Bytes of a row that are fetched ahead.
const SHORT_ROW: usize = 512;

/// Asks for the first bytes of rows that are read soon.
fn prefetch(rows: &[*const u8; GROUP], bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for row in rows {
        for at in (0..bytes).step_by(64) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint; any address will do.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(at).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (rows, bytes);
}

/// Right rows of a group of dot products.
pub(super) const GROUP: usize = 8;

/// Pointers that tasks share.
#[derive(Clone, Copy)]
struct Buffers {
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    scratch: *mut u8,
}
// SAFETY: tasks write disjoint elements of the result and their own thread's scratch.
unsafe impl Sync for Buffers {}

/// A number that there are thin loops for.
pub(super) trait ThinNumber: Target + Number {
    /// The loops over right elements of a type; None if it is not read as this number.
    fn functions(machine: Machine, right: DType) -> Option<Functions<Self>>;
    /// Elements of the left side, of one of the same types.
    ///
    /// # Safety
    /// They are there; `to` has room for one an offset.
    unsafe fn read_line(
        left: *const u8,
        first: isize,
        offsets: &[i64],
        dtype: DType,
        to: *mut Self,
    );
}

impl<T: ThinNumber> Thin<T> {
    /// None if the contraction is not thin, or neither its right rows nor its depth are contiguous.
    pub(super) fn new(
        c: &Contraction,
        operand_types: [DType; 2],
        out: DType,
        machine: Machine,
    ) -> Option<Thin<T>> {
        let thin::Thin { contraction: c, dots, .. } = thin::Thin::of(c, operand_types, out)?;
        let types = if c.swapped { [1, 0] } else { [0, 1] }.map(|i: usize| operand_types[i]);
        // The scratch is planned for this way.
        let known = "a type of thin contractions";
        Some(Thin {
            functions: T::functions(machine, types[1]).expect(known),
            left: types[0],
            out,
            extents: c.extents(),
            dots,
            left_direct: types[0].size() as usize == size_of::<T>()
                && matches!(&c.depth[..], [] | [DepthAxis { left: 1, .. }]),
            sizes: [types[0], types[1], out].map(|d| d.size() as isize),
            contraction: c,
        })
    }

    /// Computes the result; see [`super::engine::Engine::run`].
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn run(
        &self,
        pool: &Pool,
        operands: [*const u8; 2],
        out: *mut u8,
        scratch: *mut u8,
        scratch_step: usize,
    ) {
        let [left, right, depth] = self.extents;
        let batches = self.contraction.batches();
        if left == 0 || batches == 0 {
            return;
        }
        let [first, second] = if self.contraction.swapped { [1, 0] } else { [0, 1] };
        let buffers = Buffers { left: operands[first], right: operands[second], out, scratch };
        let buffers = &buffers;
        let strips = right.div_ceil(STRIP as u64);
        let grain = ONE_THREAD.div_ceil(depth * right.min(STRIP as u64)).max(1);
        pool.run((batches * strips) as i64, grain as i64, |low, high, thread| {
            let scratch = buffers.scratch.wrapping_add(thread * scratch_step);
            let mut tables = (Depth::new(), Rows::new(), Rows::new());
            for task in low as u64..high as u64 {
                let (batch, start) = (task / strips, task % strips * STRIP as u64);
                let columns = (right - start).min(STRIP as u64) as usize;
                // SAFETY: by the caller.
                unsafe {
                    let buffers = Buffers { scratch, ..*buffers };
                    self.task(batch, start, columns, buffers, &mut tables);
                }
            }
        });
    }

    /// # Safety
    /// As [`Thin::run`].
    unsafe fn task(
        &self,
        batch: u64,
        start: u64,
        columns: usize,
        buffers: Buffers,
        (depths, rows, right_rows): &mut (Depth, Rows, Rows),
    ) {
        let c = &self.contraction;
        let mut base = c.base;
        let mut rest = batch;
        for axis in c.batch.iter().rev() {
            let at = (rest % axis.extent) as i64;
            rest /= axis.extent;
            for (base, step) in base.iter_mut().zip([axis.left, axis.right, axis.out]) {
                *base += at * step;
            }
        }
        let at =
            |buffer: *const u8, n: usize| buffer.wrapping_offset(base[n] as isize * self.sizes[n]);
        let (left, right) = (at(buffers.left, 0), at(buffers.right, 1));
        let out = at(buffers.out, 2).cast_mut();
        let left_rows = self.extents[0] as usize;
        rows.set(c, 0, 0, left_rows);
        let packed: *mut T = buffers.scratch.cast();
        let mut sums = [[T::default(); STRIP]; THIN];
        let total = self.extents[2];
        let block = if self.dots { thin::DOT_BLOCK } else { DEPTH_BLOCK };
        let mut from = 0;
        while from < total {
            let len = (total - from).min(block) as usize;
            // SAFETY: by the caller; the scratch has room for the left rows' block.
            unsafe {
                let lines = match rows.step {
                    Some(step) if self.left_direct => {
                        let first = rows.operand[0] + self.depth_at(from, 0);
                        (left.cast::<T>().wrapping_offset(first as isize), step as isize)
                    }
                    _ => {
                        self.pack_left(left, rows, depths, from, len, packed);
                        (packed.cast_const(), self.left_step() as isize)
                    }
                };
                if self.dots {
                    let first = (self.depth_at(from, 1) as isize) * self.sizes[1];
                    let right = right.wrapping_offset(first);
                    self.dot_products(right, start, columns, len, lines, right_rows, &mut sums);
                } else {
                    depths.set(c, from, len);
                    let first = start as isize * self.sizes[1];
                    let right = right.wrapping_offset(first);
                    self.strip(right, columns, lines, depths.right_offsets(), &mut sums);
                }
            }
            from += len as u64;
        }
        let mut done = 0;
        while done < columns {
            let len = (columns - done).min(32);
            right_rows.set(c, 1, start + done as u64, len);
            for (line, &row) in sums.iter().zip(&rows.out[..left_rows]) {
                if let Some(step) = right_rows.out_step {
                    let first = (row + right_rows.out[0]) as isize;
                    let sums = &line[done..done + len];
                    // SAFETY: by the caller.
                    unsafe { T::write_line(sums, out, first, step as isize, self.out) };
                    continue;
                }
                for (&sum, &column) in line[done..].iter().zip(&right_rows.out[..len]) {
                    // SAFETY: by the caller.
                    unsafe { sum.write(out, (row + column) as isize, self.out) };
                }
            }
            done += len;
        }
    }

    /// The right (1) or left (0) offset of a depth, where depth is one axis.
    fn depth_at(&self, position: u64, side: usize) -> i64 {
        match &self.contraction.depth[..] {
            [axis] => position as i64 * if side == 0 { axis.left } else { axis.right },
            _ => 0,
        }
    }

    /// From one packed left row to the next: so that they fit the scratch of the blocked way.
    fn left_step(&self) -> usize {
        (self.extents[2].min(thin::DOT_BLOCK)) as usize
    }

    /// Packs the left rows' block of depth.
    ///
    /// # Safety
    /// As [`Thin::run`].
    unsafe fn pack_left(
        &self,
        left: *const u8,
        rows: &Rows,
        depths: &mut Depth,
        from: u64,
        len: usize,
        packed: *mut T,
    ) {
        let mut done = 0;
        while done < len {
            let part = (len - done).min(DEPTH_BLOCK as usize);
            depths.set(&self.contraction, from + done as u64, part);
            for (row, &offset) in rows.operand[..rows.len].iter().enumerate() {
                // SAFETY: by the caller.
                unsafe {
                    let to = packed.add(row * self.left_step() + done);
                    T::read_line(left, offset as isize, depths.left_offsets(), self.left, to);
                }
            }
            done += part;
        }
    }

    /// Adds a block of depth to a strip, its own sum first.
    ///
    /// # Safety
    /// As [`Thin::run`].
    unsafe fn strip(
        &self,
        right: *const u8,
        columns: usize,
        (left, left_step): (*const T, isize),
        offsets: &[i64],
        sums: &mut [[T; STRIP]; THIN],
    ) {
        let mut block = [[T::default(); STRIP]; 4];
        for first in (0..self.extents[0] as usize).step_by(4) {
            let rows = (self.extents[0] as usize - first).min(4);
            block.fill([T::default(); STRIP]);
            let job = Strip {
                left: left.wrapping_offset(first as isize * left_step),
                left_step,
                rows,
                right,
                offsets,
                columns,
                sums: block.as_mut_ptr().cast(),
            };
            // SAFETY: by the caller.
            unsafe { (self.functions.strip)(&job) };
            for (sums, block) in sums[first..first + rows].iter_mut().zip(&block) {
                for (sum, &more) in sums[..columns].iter_mut().zip(block) {
                    *sum = sum.plus(more);
                }
            }
        }
    }

    /// Adds the dot products over a block of depth.
    ///
    /// # Safety
    /// As [`Thin::run`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn dot_products(
        &self,
        right: *const u8,
        start: u64,
        columns: usize,
        depth: usize,
        (left, left_step): (*const T, isize),
        right_rows: &mut Rows,
        sums: &mut [[T; STRIP]; THIN],
    ) {
        let mut at = 0;
        while at < columns {
            let len = if columns - at >= GROUP { GROUP } else { 1 };
            right_rows.set(&self.contraction, 1, start + at as u64, len);
            let mut pointers = [right; GROUP];
            for (pointer, &offset) in pointers.iter_mut().zip(&right_rows.operand[..len]) {
                *pointer = right.wrapping_offset(offset as isize * self.sizes[1]);
            }
            if len == GROUP {
                // The next group, if its rows follow: short rows side by side are too many streams
                // for the machine to foresee.
                let step = pointers[1] as isize - pointers[0] as isize;
                let ahead = pointers.map(|row| row.wrapping_offset(GROUP as isize * step));
                prefetch(&ahead, (depth * self.sizes[1].unsigned_abs()).min(SHORT_ROW));
            }
            for first in (0..self.extents[0] as usize).step_by(2) {
                let rows = (self.extents[0] as usize - first).min(2);
                let mut products = [[T::default(); GROUP]; 2];
                let job = Dots {
                    left: left.wrapping_offset(first as isize * left_step),
                    left_step,
                    rows,
                    right: pointers,
                    columns: len,
                    depth,
                    sums: products.as_mut_ptr().cast(),
                };
                // SAFETY: by the caller.
                unsafe { (self.functions.dots)(&job) };
                for (sums, products) in sums[first..first + rows].iter_mut().zip(&products) {
                    for (sum, &more) in sums[at..at + len].iter_mut().zip(products) {
                        *sum = sum.plus(more);
                    }
                }
            }
            at += len;
        }
    }
}
