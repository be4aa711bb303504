//! Contractions by blocks: packs a block of the right side, then runs tiles over it.
//!
//! A task is a rectangle of left and right rows of one batch; tasks are independent, and each
//! accumulates its elements block of depth by block of depth in order. Neither a task's extents nor
//! a tile's change any element's chain of operations, so the result does not depend on threads.
//! The left side is read where it is if it has the right type and unit stride along depth, else a
//! panel of it is packed, once for all tiles of the panel. All memory is the step's scratch.

use super::groups::Grouped;
use super::packed::{Pack, PackFn, Packed, PatchFn};
use super::source::Target;
use super::tables::{Depth, MOST_CHECKS, Rows};
use super::tile::{Kernels, MOST_COLUMNS, MOST_ROWS, Machine, Run, Tile, Tiled};
use crate::pool::{KernelFn, Pool};
use jaxrs_kernel::DType;
use jaxrs_kernel::contraction::{
    Arithmetic, Blocks, Contraction, DEPTH_BLOCK, DepthAxis, RIGHT_UNIT, RowAxis,
};
use jaxrs_kernel::program::{Epilogue, EpilogueParam};
use std::cell::RefCell;

/// Multiply-adds below which a contraction stays on one thread.
const ONE_THREAD: u64 = 1 << 17;
/// Tiles of a panel of columns below which it is not packed.
const FEW_TILES: u64 = 6;
/// Most panels of a task.
const MOST_PANELS: usize = 64;
/// Most axes of a group.
const MOST_AXES: usize = 16;
/// Most parameters of an epilogue's kernel.
const MOST_PARAMS: usize = 16;

/// A contraction ready to run, accumulated in `T`.
pub(super) struct Engine<T: 'static> {
    contraction: Contraction,
    kernels: Kernels<T>,
    pack: [PackFn<T>; 2],
    patch: Option<PatchFn<T>>,
    /// Whether left elements in memory are what a packed number holds.
    raw_left: bool,
    /// The same of the right elements.
    raw_right: bool,
    /// Whether right elements are packed with 128 added.
    biased: bool,
    /// Bytes of a left, a right and a result element, of complex ones of a part.
    sizes: [isize; 3],
    out: DType,
    in_place: bool,
    /// Depths in a number.
    group: usize,
    blocks: Blocks,
    /// Left rows, right rows, depth, in scalars.
    extents: [u64; 3],
}

/// What is computed of the sums, and with which buffers: those of the step.
#[derive(Clone, Copy)]
pub(super) struct Finish<'a> {
    pub(super) epilogue: &'a Epilogue,
    pub(super) kernel: KernelFn,
    pub(super) buffers: *const *mut u8,
    /// Operands of the step; the result's buffer comes after theirs.
    pub(super) operands: usize,
}

/// Pointers that tasks share.
#[derive(Clone, Copy)]
struct Buffers<'a> {
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    scratch: *mut u8,
    finish: Option<Finish<'a>>,
}
// SAFETY: tasks write disjoint elements of the result and their own thread's scratch.
unsafe impl Sync for Buffers<'_> {}

thread_local! {
    /// Too large to be cleared for each task.
    static WORK: RefCell<Work> = const { RefCell::new(Work::new()) };
}

/// The tables of a task.
struct Work {
    depth: Depth,
    rows: Rows,
    columns: Rows,
    runs: [Run; DEPTH_BLOCK as usize],
    patch: [Run; DEPTH_BLOCK as usize],
}

impl Work {
    const fn new() -> Work {
        Work {
            depth: Depth::new(),
            rows: Rows::new(),
            columns: Rows::new(),
            runs: [Run::NONE; DEPTH_BLOCK as usize],
            patch: [Run::NONE; DEPTH_BLOCK as usize],
        }
    }
}

/// The memory of a task.
struct Places<T> {
    left: *const u8,
    out: *mut u8,
    panel: *mut T,
    staged: *mut T,
}

/// Columns of the result that are one tile wide.
#[derive(Clone, Copy)]
struct Panel<T> {
    /// Their right elements, and the distance from one depth to the next.
    right: *const T,
    step: usize,
    /// Where they begin in the result, if they are neighbours there and accumulated in place.
    out: Option<i64>,
}

/// A rectangle of the result.
#[derive(Clone, Copy)]
struct Task {
    batch: u64,
    left: [u64; 2],
    right: [u64; 2],
}

impl<T: Tiled + Packed + Target> Engine<T> {
    /// None if the plain loops must do it.
    pub(super) fn new(
        mut contraction: Contraction,
        operand_types: [DType; 2],
        out: DType,
        arithmetic: Arithmetic,
        machine: Machine,
    ) -> Option<Engine<T>> {
        let [left, right] =
            if contraction.swapped { [1, 0] } else { [0, 1] }.map(|i: usize| operand_types[i]);
        let complex = out.is_complex();
        if complex {
            split_parts(&mut contraction);
        }
        let groups = [
            contraction.batch.len(),
            contraction.rows[0].len(),
            contraction.rows[1].len(),
            contraction.depth.len(),
        ];
        if contraction.checks.len() > MOST_CHECKS || groups.iter().any(|&g| g > MOST_AXES) {
            return None;
        }
        let extents = contraction.extents();
        let grouped = T::grouped([left, right], &contraction.checks, machine);
        let pack_right = if complex { Some(T::pack_complex()) } else { T::pack_fn(right, machine) };
        let Grouped { group, biased, raw_left, kernels, pack } = match grouped {
            Some(grouped) => grouped,
            None => Grouped {
                group: 1,
                biased: false,
                raw_left: size_of::<T>() as u64 == left.part().size(),
                kernels: T::kernels(machine),
                pack: [T::pack_fn(left, machine)?, pack_right?],
            },
        };
        Some(Engine {
            kernels,
            pack,
            patch: if group == 1 && !contraction.checks.is_empty() {
                T::patch_fn(left, machine)
            } else {
                None
            },
            group,
            raw_left,
            raw_right: group == 1 && !complex && size_of::<T>() as u64 == right.size(),
            biased,
            sizes: [left, right, out].map(|d| d.part().size() as isize),
            out,
            in_place: arithmetic.in_place(out),
            blocks: Blocks::new(arithmetic, out, extents[1], extents[2]),
            extents,
            contraction,
        })
    }

    /// With the sums of a block apart from the result: for an epilogue.
    pub(super) fn with_sums_apart(self) -> Engine<T> {
        Engine { blocks: self.blocks.apart(self.extents[0]), ..self }
    }

    /// Computes the result. `operands` are in the step's order; each thread's scratch begins
    /// `scratch_step` bytes after the one before.
    ///
    /// # Safety
    /// The buffers hold what the contraction reads and writes, the scratch what
    /// [`jaxrs_kernel::scratch`] says for each thread; nothing overlaps.
    pub(super) unsafe fn run(
        &self,
        pool: &Pool,
        operands: [*const u8; 2],
        out: *mut u8,
        scratch: *mut u8,
        scratch_step: usize,
        finish: Option<Finish<'_>>,
    ) {
        let [left, right, depth] = self.extents;
        let batches = self.contraction.batches();
        if left == 0 || right == 0 || batches == 0 {
            return;
        }
        let [first, second] = if self.contraction.swapped { [1, 0] } else { [0, 1] };
        let buffers =
            Buffers { left: operands[first], right: operands[second], out, scratch, finish };
        let work = batches * left * right * depth.max(1);
        let alone = work < ONE_THREAD && pool.spares();
        let threads = if alone { 1 } else { pool.threads() as u64 };
        let columns = self.task_columns(left, right, batches, threads);
        let right_tasks = right.div_ceil(columns);
        let rows = self.task_rows(left, batches * right_tasks, threads, depth);
        let left_tasks = left.div_ceil(rows);
        let task = |number: u64| {
            let (rest, right_task) = (number / right_tasks, number % right_tasks);
            let (batch, left_task) = (rest / left_tasks, rest % left_tasks);
            let span = |task: u64, step: u64, end: u64| [task * step, end.min((task + 1) * step)];
            Task {
                batch,
                left: span(left_task, rows, left),
                right: span(right_task, columns, right),
            }
        };
        let count = batches * left_tasks * right_tasks;
        let buffers = &buffers;
        let one = |number: i64, thread: usize| {
            let scratch = buffers.scratch.wrapping_add(thread * scratch_step);
            // SAFETY: by the caller; the thread's scratch is its own.
            WORK.with_borrow_mut(|work| unsafe {
                self.task(&task(number as u64), Buffers { scratch, ..*buffers }, work);
            });
        };
        if threads == 1 {
            (0..count as i64).for_each(|number| one(number, 0));
        } else {
            pool.each(count as i64, one);
        }
    }

    /// Right rows of a task: a block, or less where few left rows leave no other way to give all
    /// threads work without reading the right side twice.
    fn task_columns(&self, left: u64, right: u64, batches: u64, threads: u64) -> u64 {
        let few = left <= FEW_TILES * self.kernels.rows as u64;
        if threads == 1 || !few {
            return self.blocks.right;
        }
        let wanted = (4 * threads).div_ceil(batches);
        right
            .div_ceil(wanted)
            .next_multiple_of(RIGHT_UNIT)
            .max(2 * RIGHT_UNIT)
            .min(self.blocks.right)
    }

    /// Left rows of a task: enough to make packing the right side cheap, few enough to give all
    /// threads work and to keep the result's piece in cache between blocks of depth.
    fn task_rows(&self, left: u64, others: u64, threads: u64, depth: u64) -> u64 {
        let unit = self.kernels.rows as u64;
        let most = if self.blocks.staged {
            self.blocks.staged_rows / unit * unit
        } else if depth > DEPTH_BLOCK {
            240 / unit * unit
        } else {
            1200 / unit * unit
        };
        let wanted = if threads == 1 { 1 } else { (4 * threads).div_ceil(others) };
        left.div_ceil(wanted).max(4 * unit).next_multiple_of(unit).min(most)
    }

    /// # Safety
    /// As [`Engine::run`].
    unsafe fn task(&self, task: &Task, buffers: Buffers<'_>, work: &mut Work) {
        let c = &self.contraction;
        work.rows.forget();
        work.columns.forget();
        let [batch_left, batch_right, batch_out] = self.batch_offsets(task.batch);
        let [_, right_at, staged_at, _] = self.blocks.layout();
        let left = buffers.left.wrapping_offset(batch_left * self.sizes[0]);
        let right = buffers.right.wrapping_offset(batch_right * self.sizes[1]);
        let out = buffers.out.wrapping_offset(batch_out * self.sizes[2]);
        let panel: *mut T = buffers.scratch.cast();
        let block: *mut T = buffers.scratch.wrapping_add(right_at as usize).cast();
        let staged: *mut T = buffers.scratch.wrapping_add(staged_at as usize).cast();
        let total = self.extents[2];
        if total == 0 {
            // SAFETY: by the caller.
            unsafe { self.zeros(task, work, out) };
            return;
        }
        let mut start = 0;
        while start < total {
            let len = (total - start).min(self.blocks.depth);
            work.depth.set(c, start, len as usize);
            // SAFETY: by the caller.
            unsafe {
                let panels = self.panels(task, work, right, block);
                let places = Places { left, out, panel, staged };
                self.tiles(task, work, &places, &panels, start > 0);
            }
            start += len;
        }
        if self.blocks.staged {
            // SAFETY: by the caller.
            unsafe {
                match buffers.finish {
                    Some(finish) => self.finish(task, work, staged, batch_out as i64, finish),
                    None => self.unstage(task, work, staged, out),
                }
            }
        }
    }

    fn batch_offsets(&self, batch: u64) -> [isize; 3] {
        let mut rest = batch;
        let mut offsets = self.contraction.base;
        for axis in self.contraction.batch.iter().rev() {
            let at = (rest % axis.extent) as i64;
            rest /= axis.extent;
            offsets[0] += at * axis.left;
            offsets[1] += at * axis.right;
            offsets[2] += at * axis.out;
        }
        offsets.map(|o| o as isize)
    }

    /// Width of the right panel that begins `at` columns into a task of `columns`.
    fn width(&self, at: usize, columns: usize) -> usize {
        let lanes = self.kernels.lanes;
        if columns - at > lanes { 2 * lanes } else { lanes }
    }

    /// Packs the task's right rows for the block of depth, panel after panel. A panel that is read
    /// by few tiles is left where it is, if tiles can read it there.
    ///
    /// # Safety
    /// As [`Engine::run`].
    unsafe fn panels(
        &self,
        task: &Task,
        work: &mut Work,
        right: *const u8,
        block: *mut T,
    ) -> [Panel<T>; MOST_PANELS] {
        let columns = (task.right[1] - task.right[0]) as usize;
        let few = task.left[1] - task.left[0] <= FEW_TILES * self.kernels.rows as u64;
        let unchecked = self.contraction.checked == 0 || self.contraction.checks.is_empty();
        let in_place =
            work.depth.right_step.filter(|&step| few && self.raw_right && unchecked && step > 0);
        let mut panels = [Panel { right: block.cast_const(), step: 0, out: None }; MOST_PANELS];
        let mut at = 0;
        while at < columns {
            let width = self.width(at, columns);
            let len = width.min(columns - at);
            work.columns.set(&self.contraction, 1, task.right[0] + at as u64, len);
            let panel = &mut panels[at / self.kernels.lanes];
            if self.in_place && work.columns.contiguous_out() {
                panel.out = Some(work.columns.out[0]);
            }
            match in_place {
                Some(step) if work.columns.step == Some(1) && len == width => {
                    let first = work.columns.operand[0] + work.depth.right_offsets()[0];
                    panel.right = right.cast::<T>().wrapping_offset(first as isize);
                    panel.step = step as usize;
                }
                _ => {
                    let to = block.wrapping_add(at * work.depth.len.div_ceil(self.group));
                    (panel.right, panel.step) = (to, width);
                    let job = Pack {
                        contraction: &self.contraction,
                        base: right,
                        side: 1,
                        rows: &work.columns,
                        depth: &work.depth,
                        width,
                    };
                    // SAFETY: by the caller; the block has room for all of the task's panels.
                    unsafe { (self.pack[1])(&job, to) };
                }
            }
            at += width;
        }
        panels
    }

    /// Runs the tiles of a task for one block of depth.
    ///
    /// # Safety
    /// As [`Engine::run`].
    unsafe fn tiles(
        &self,
        task: &Task,
        work: &mut Work,
        places: &Places<T>,
        panels: &[Panel<T>; MOST_PANELS],
        accumulate: bool,
    ) {
        let c = &self.contraction;
        let columns = (task.right[1] - task.right[0]) as usize;
        let mut nowhere = [T::default(); MOST_COLUMNS];
        let packed_run = [Run { start: 0, len: work.depth.len.div_ceil(self.group), left: 0 }];
        let mut row = task.left[0];
        while row < task.left[1] {
            let left = (task.left[1] - row).min(self.kernels.rows as u64);
            // Panels end where the last axis does, if it is long: then their rows are evenly spaced.
            let len = match c.rows[0].last() {
                Some(axis) if c.rows[0].len() > 1 && axis.extent >= 8 => {
                    left.min(axis.extent - row % axis.extent)
                }
                _ => left,
            } as usize;
            let fits = |&&size: &&usize| size >= len;
            let size = *self.kernels.sizes.iter().find(fits).expect("the last size fits");
            work.rows.set(c, 0, row, len);
            let step = work.rows.step.filter(|&step| self.raw_left && size == len && step != 0);
            let direct = match step {
                Some(step) if self.group == 1 => {
                    let first = work.rows.operand[0] as isize;
                    let left = places.left.cast::<T>().wrapping_offset(first);
                    let runs = work.depth.left_runs(c, &work.rows, &mut work.runs);
                    runs.map(|runs| (left, step as isize, runs))
                }
                Some(step) => self
                    .grouped_left(&work.rows, &work.depth, places.left, step as isize)
                    .map(|(left, step)| (left, step, &packed_run[..])),
                None => None,
            };
            let (left, row_step, runs) = match direct {
                Some(direct) => direct,
                None => {
                    let job = Pack {
                        contraction: c,
                        base: places.left,
                        side: 0,
                        rows: &work.rows,
                        depth: &work.depth,
                        width: size,
                    };
                    let panel = places.panel;
                    // SAFETY: by the caller; the panel has room for the largest tile's rows.
                    unsafe {
                        let patch =
                            self.patch.and_then(|patch| patch(&job, panel, &mut work.patch));
                        match patch {
                            Some((count, step)) => {
                                (panel.cast_const(), step as isize, &work.patch[..count])
                            }
                            None => {
                                (self.pack[0])(&job, panel);
                                (panel.cast_const(), 0, &packed_run[..])
                            }
                        }
                    }
                }
            };
            let start = if self.biased {
                // SAFETY: the panel, packed or in place, has these numbers.
                unsafe { T::bias(left, row_step, size, packed_run[0].len) }
            } else {
                [T::default(); MOST_ROWS]
            };
            let mut at = 0;
            while at < columns {
                let width = self.width(at, columns);
                let mut tile = Tile {
                    left,
                    row_step,
                    runs,
                    right: panels[at / self.kernels.lanes].right,
                    right_step: panels[at / self.kernels.lanes].step,
                    rows: size,
                    vectors: width / self.kernels.lanes,
                    start,
                    out: [nowhere.as_mut_ptr(); MOST_ROWS],
                    valid: [len, width.min(columns - at)],
                    accumulate,
                };
                // SAFETY: by the caller.
                unsafe {
                    if self.blocks.staged {
                        let first = (row - task.left[0]) as usize;
                        for (i, out) in tile.out[..len].iter_mut().enumerate() {
                            *out = places.staged.add((first + i) * self.blocks.right as usize + at);
                        }
                        (self.kernels.run)(&tile);
                    } else if let Some(start) = panels[at / self.kernels.lanes].out {
                        let first = places.out.cast::<T>().offset(start as isize);
                        for (out, &offset) in tile.out.iter_mut().zip(&work.rows.out[..len]) {
                            *out = first.offset(offset as isize);
                        }
                        (self.kernels.run)(&tile);
                    } else {
                        work.columns.set(c, 1, task.right[0] + at as u64, tile.valid[1]);
                        self.scattered(tile, &work.rows, &work.columns, places.out);
                    }
                }
                at += width;
            }
            row += len as u64;
        }
    }

    /// Where a panel's left elements are as groups, and the distance of its rows, if every group is
    /// whole and aligned in memory.
    fn grouped_left(
        &self,
        rows: &Rows,
        depth: &Depth,
        left: *const u8,
        step: isize,
    ) -> Option<(*const T, isize)> {
        let group = self.group as isize;
        let first = (rows.operand[0] + depth.left_offsets()[0]) as isize;
        let at = left.wrapping_offset(first * self.sizes[0]);
        let whole = depth.left_unit()
            && self.contraction.checks.is_empty()
            && depth.len.is_multiple_of(self.group)
            && step % group == 0
            && (at as usize).is_multiple_of(size_of::<T>());
        whole.then(|| (at.cast(), step / group))
    }

    /// Runs a tile whose elements are not neighbours in the result, or of another type there.
    ///
    /// # Safety
    /// As [`Engine::run`].
    unsafe fn scattered(&self, mut tile: Tile<'_, T>, rows: &Rows, columns: &Rows, out: *mut u8) {
        let mut space = [[T::default(); MOST_COLUMNS]; MOST_ROWS];
        for (out, line) in tile.out.iter_mut().zip(&mut space) {
            *out = line.as_mut_ptr();
        }
        let accumulate = std::mem::replace(&mut tile.accumulate, false);
        // SAFETY: by the caller; the tile fits the space. It is accumulated only in place.
        unsafe {
            (self.kernels.run)(&tile);
            for (line, &row) in space.iter().zip(&rows.out[..rows.len]) {
                if let (false, Some(step)) = (accumulate, columns.out_step) {
                    let first = (row + columns.out[0]) as isize;
                    T::write_line(&line[..columns.len], out, first, step as isize, self.out);
                    continue;
                }
                for (&sum, &column) in line.iter().zip(&columns.out[..columns.len]) {
                    let at = (row + column) as isize;
                    if accumulate {
                        let at = out.cast::<T>().offset(at);
                        *at = (*at).plus(sum);
                    } else {
                        sum.write(out, at, self.out);
                    }
                }
            }
        }
    }

    /// Writes a task's staged sums to the result.
    ///
    /// # Safety
    /// As [`Engine::run`].
    unsafe fn unstage(&self, task: &Task, work: &mut Work, staged: *const T, out: *mut u8) {
        let columns = task.right[1] - task.right[0];
        let mut at = 0;
        while at < columns {
            let len = (columns - at).min(MOST_COLUMNS as u64) as usize;
            work.columns.set(&self.contraction, 1, task.right[0] + at, len);
            for row in task.left[0]..task.left[1] {
                work.rows.set(&self.contraction, 0, row, 1);
                let line = (row - task.left[0]) * self.blocks.right + at;
                // SAFETY: by the caller; the line is inside the staged piece.
                unsafe {
                    let sums = std::slice::from_raw_parts(staged.add(line as usize), len);
                    let first = (work.rows.out[0] + work.columns.out[0]) as isize;
                    if let Some(step) = work.columns.out_step {
                        T::write_line(sums, out, first, step as isize, self.out);
                        continue;
                    }
                    for (&sum, &column) in sums.iter().zip(&work.columns.out) {
                        sum.write(out, (work.rows.out[0] + column) as isize, self.out);
                    }
                }
            }
            at += len as u64;
        }
    }

    /// Runs the epilogue on each row of a task's staged sums; `first` is where the batch begins.
    ///
    /// # Safety
    /// As [`Engine::run`].
    unsafe fn finish(
        &self,
        task: &Task,
        work: &mut Work,
        staged: *const T,
        first: i64,
        finish: Finish<'_>,
    ) {
        let Finish { epilogue, kernel, buffers, operands } = finish;
        let columns = (task.right[1] - task.right[0]) as i64;
        work.columns.set(&self.contraction, 1, task.right[0], 1);
        let mut pointers = [std::ptr::null_mut::<u8>(); MOST_PARAMS];
        for row in task.left[0]..task.left[1] {
            work.rows.set(&self.contraction, 0, row, 1);
            let position = first + work.rows.out[0] + work.columns.out[0];
            let (number, column) = (position / epilogue.row as i64, position % epilogue.row as i64);
            let line = (row - task.left[0]) * self.blocks.right;
            let sums = staged.wrapping_add(line as usize).wrapping_offset(-column as isize);
            // SAFETY: by the caller, all rows of the operands and the result are there, and the
            // kernel touches the sums of these columns only.
            unsafe {
                for (pointer, param) in pointers.iter_mut().zip(&epilogue.params) {
                    *pointer = match *param {
                        EpilogueParam::Sums => sums.cast_mut().cast(),
                        EpilogueParam::Operand { operand, step } => (*buffers
                            .add(operand as usize))
                        .wrapping_offset((number * step) as isize),
                    };
                }
                pointers[epilogue.params.len()] = (*buffers.add(operands))
                    .wrapping_offset((number * epilogue.result_row as i64) as isize);
                kernel(pointers.as_ptr(), column, column + columns);
            }
        }
    }

    /// Writes zeros, the sums of no products.
    ///
    /// # Safety
    /// As [`Engine::run`].
    unsafe fn zeros(&self, task: &Task, work: &mut Work, out: *mut u8) {
        for row in task.left[0]..task.left[1] {
            work.rows.set(&self.contraction, 0, row, 1);
            for column in task.right[0]..task.right[1] {
                work.columns.set(&self.contraction, 1, column, 1);
                let at = (work.rows.out[0] + work.columns.out[0]) as isize;
                // SAFETY: by the caller.
                unsafe { T::default().write(out, at, self.out) };
            }
        }
    }
}

/// A contraction of complex elements as one of their parts: depth and right rows get one more axis,
/// real and imaginary, and the right side is packed as `[[re, im], [-im, re]]`.
fn split_parts(c: &mut Contraction) {
    c.base = c.base.map(|b| 2 * b);
    for axis in &mut c.batch {
        (axis.left, axis.right, axis.out) = (2 * axis.left, 2 * axis.right, 2 * axis.out);
    }
    for axis in c.rows.iter_mut().flatten() {
        (axis.operand, axis.out) = (2 * axis.operand, 2 * axis.out);
    }
    for axis in &mut c.depth {
        (axis.left, axis.right) = (2 * axis.left, 2 * axis.right);
    }
    c.rows[1].push(RowAxis { extent: 2, operand: 0, out: 1 });
    c.depth.push(DepthAxis { extent: 2, left: 1, right: 0 });
}
