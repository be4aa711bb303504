//! Copies pieces of an operand into panels: for each position of depth, the elements of a few rows
//! side by side, as the tiles read them.

use super::groups::Grouped;
use super::simd::Number;
use super::source::Source;
use super::tile::{MOST_COLUMNS, MOST_ROWS, Machine, Run};
use jaxrs_kernel::DType;
use jaxrs_kernel::contraction::{Check, Contraction, DEPTH_BLOCK};

/// Most checks of a contraction; one with more runs as plain loops.
pub(super) const MOST_CHECKS: usize = 4;
const DEPTH: usize = DEPTH_BLOCK as usize;

/// Where a few rows are.
pub(super) struct Rows {
    /// How many.
    pub(super) len: usize,
    /// Offsets of their elements in the operand and in the result.
    pub(super) operand: [i64; MOST_COLUMNS],
    pub(super) out: [i64; MOST_COLUMNS],
    /// Their part of each check's position.
    place: [[i64; MOST_COLUMNS]; MOST_CHECKS],
    /// Least and largest of it.
    bounds: [(i64, i64); MOST_CHECKS],
    /// The distance from each row's element to the next, if it is the same for all.
    pub(super) step: Option<i64>,
    /// The same in the result.
    out_step: Option<i64>,
    /// Where the next rows begin, if they follow these.
    next: (usize, u64, Odometer),
}

/// Where the positions of a block of depth are.
pub(super) struct Depth {
    /// How many.
    pub(super) len: usize,
    left: [i64; DEPTH],
    right: [i64; DEPTH],
    place: [[i64; DEPTH]; MOST_CHECKS],
    bounds: [(i64, i64); MOST_CHECKS],
    /// Stretches where the left elements are neighbours; beyond that, the checks are equal, too.
    runs: [Run; DEPTH],
    run_count: usize,
    taps: [Run; DEPTH],
    tap_count: usize,
    /// Stretches along the last axis.
    stretches: [Run; DEPTH],
    stretch_count: usize,
    /// Whether the right elements are neighbours throughout.
    right_unit: bool,
}

/// Counts through axes in row-major order, the last fastest.
struct Odometer {
    index: [u64; 16],
}

impl Odometer {
    fn at(
        mut position: u64,
        extents: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator,
    ) -> Odometer {
        let mut index = [0; 16];
        let count = extents.len();
        for (axis, extent) in extents.rev().enumerate() {
            index[count - 1 - axis] = position % extent;
            position /= extent;
        }
        Odometer { index }
    }

    /// Moves on by a number of positions that does not pass the end of the last axis.
    fn advance(
        &mut self,
        by: u64,
        extents: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator,
    ) {
        let count = extents.len();
        let mut by = by;
        for (axis, extent) in extents.rev().enumerate() {
            let at = &mut self.index[count - 1 - axis];
            *at += by;
            if *at < extent {
                return;
            }
            *at = 0;
            by = 1;
        }
    }
}

impl Rows {
    pub(super) const fn new() -> Rows {
        Rows {
            len: 0,
            operand: [0; MOST_COLUMNS],
            out: [0; MOST_COLUMNS],
            place: [[0; MOST_COLUMNS]; MOST_CHECKS],
            bounds: [(0, 0); MOST_CHECKS],
            step: None,
            out_step: None,
            next: (usize::MAX, 0, Odometer { index: [0; 16] }),
        }
    }

    /// The rows `[start, start + len)` of a side.
    pub(super) fn set(&mut self, c: &Contraction, side: usize, start: u64, len: usize) {
        let axes = &c.rows[side][..];
        let checks = if side == c.checked { &c.checks[..] } else { &[] };
        self.len = len;
        let Some(last) = axes.last() else {
            (self.operand[0], self.out[0]) = (0, 0);
            (self.step, self.out_step) = (Some(1), Some(1));
            return;
        };
        self.bounds = [(i64::MAX, i64::MIN); MOST_CHECKS];
        if (self.next.0, self.next.1) != (side, start) {
            self.next.2 = Odometer::at(start, axes.iter().map(|a| a.extent));
        }
        (self.next.0, self.next.1) = (side, start + len as u64);
        let odometer = &mut self.next.2;
        let mut done = 0;
        let mut one_run = false;
        while done < len {
            let index = &odometer.index[..axes.len()];
            let run = (last.extent - index[axes.len() - 1]).min((len - done) as u64) as usize;
            one_run = run == len;
            let mut operand: i64 =
                axes.iter().zip(index).map(|(a, &at)| a.operand * at as i64).sum();
            let mut out: i64 = axes.iter().zip(index).map(|(a, &at)| a.out * at as i64).sum();
            for i in done..done + run {
                (self.operand[i], self.out[i]) = (operand, out);
                operand += last.operand;
                out += last.out;
            }
            for (number, check) in checks.iter().enumerate() {
                let first = check.base + check.row_step * index[check.row] as i64;
                let step = if check.row == axes.len() - 1 { check.row_step } else { 0 };
                let bounds = &mut self.bounds[number];
                fill(&mut self.place[number][done..done + run], first, step, bounds);
            }
            done += run;
            odometer.advance(run as u64, axes.iter().map(|a| a.extent));
        }
        (self.step, self.out_step) = if one_run {
            let of = |step: i64| Some(if len > 1 { step } else { 1 });
            (of(last.operand), of(last.out))
        } else {
            (even(&self.operand[..len]), even(&self.out[..len]))
        };
    }

    /// Forgets the contraction that the last rows were of.
    pub(super) fn forget(&mut self) {
        self.next.0 = usize::MAX;
    }

    /// Whether the rows are neighbours in the result.
    pub(super) fn contiguous_out(&self) -> bool {
        self.out_step == Some(1)
    }
}

/// The distance from each value to the next, if it is the same for all; 1 for a single value.
fn even(values: &[i64]) -> Option<i64> {
    let step = if values.len() > 1 { values[1] - values[0] } else { 1 };
    values.windows(2).all(|w| w[1] - w[0] == step).then_some(step)
}

impl Depth {
    pub(super) const fn new() -> Depth {
        Depth {
            len: 0,
            left: [0; DEPTH],
            right: [0; DEPTH],
            place: [[0; DEPTH]; MOST_CHECKS],
            bounds: [(0, 0); MOST_CHECKS],
            runs: [Run::NONE; DEPTH],
            run_count: 0,
            taps: [Run::NONE; DEPTH],
            tap_count: 0,
            stretches: [Run::NONE; DEPTH],
            stretch_count: 0,
            right_unit: false,
        }
    }

    /// The positions `[start, start + len)`.
    pub(super) fn set(&mut self, c: &Contraction, start: u64, len: usize) {
        self.len = len;
        self.stretch_count = 0;
        let axes = &c.depth[..];
        let Some(last) = axes.last() else {
            (self.left[0], self.right[0]) = (0, 0);
            self.runs[0] = Run { start: 0, len: 1, left: 0 };
            (self.taps[0], self.stretches[0]) = (self.runs[0], self.runs[0]);
            (self.run_count, self.tap_count, self.stretch_count) = (1, 1, 1);
            self.right_unit = true;
            return;
        };
        self.bounds = [(i64::MAX, i64::MIN); MOST_CHECKS];
        let mut odometer = Odometer::at(start, axes.iter().map(|a| a.extent));
        let mut done = 0;
        while done < len {
            let index = &odometer.index[..axes.len()];
            let run = (last.extent - index[axes.len() - 1]).min((len - done) as u64) as usize;
            let mut left: i64 = axes.iter().zip(index).map(|(a, &at)| a.left * at as i64).sum();
            let mut right: i64 = axes.iter().zip(index).map(|(a, &at)| a.right * at as i64).sum();
            for i in done..done + run {
                (self.left[i], self.right[i]) = (left, right);
                left += last.left;
                right += last.right;
            }
            for (number, check) in c.checks.iter().enumerate() {
                let first = check.depth_step * index[check.depth] as i64;
                let step = if check.depth == axes.len() - 1 { check.depth_step } else { 0 };
                let bounds = &mut self.bounds[number];
                fill(&mut self.place[number][done..done + run], first, step, bounds);
            }
            self.stretches[self.stretch_count] = Run { start: done, len: run, left: 0 };
            self.stretch_count += 1;
            done += run;
            odometer.advance(run as u64, axes.iter().map(|a| a.extent));
        }
        self.right_unit = self.right[..len].windows(2).all(|w| w[1] == w[0] + 1);
        let checked = if c.checked == 0 { &self.left } else { &self.right };
        let places = &self.place[..c.checks.len()];
        self.run_count = runs(&self.left, len, &mut self.runs, |_| true);
        self.tap_count =
            runs(checked, len, &mut self.taps, |i| places.iter().all(|p| p[i] == p[i - 1]));
    }

    /// Whether the left elements are neighbours throughout.
    pub(super) fn left_unit(&self) -> bool {
        self.run_count == 1
    }

    /// The left elements' offsets.
    pub(super) fn left_offsets(&self) -> &[i64] {
        &self.left[..self.len]
    }

    /// What a depth adds to a check's place.
    pub(super) fn place(&self, check: usize, k: usize) -> i64 {
        self.place[check][k]
    }

    /// The right elements' offsets.
    pub(super) fn right_offsets(&self) -> &[i64] {
        &self.right[..self.len]
    }

    /// The stretches of left elements that the rows read; None if the rows differ in what they
    /// read. Stretches that are zero for all rows are left out.
    pub(super) fn left_runs<'a>(
        &'a self,
        c: &Contraction,
        rows: &Rows,
        space: &'a mut [Run; DEPTH],
    ) -> Option<&'a [Run]> {
        if c.checked != 0 || c.checks.is_empty() || self.all_inside(c, rows) {
            return (self.run_count * 4 <= self.len + 3).then(|| &self.runs[..self.run_count]);
        }
        if self.run_count * 4 > self.len + 3 {
            return None;
        }
        let mut count = 0;
        for tap in &self.taps[..self.tap_count] {
            let mut inside = true;
            let mut outside = false;
            for (number, check) in c.checks.iter().enumerate() {
                let place = self.place[number][tap.start];
                let (low, high) = rows.bounds[number];
                inside &= low + place >= 0 && high + place < check.size;
                outside |= high + place < 0 || low + place >= check.size;
            }
            if inside && !outside {
                if count > 0 {
                    let last: &mut Run = &mut space[count - 1];
                    let gap = tap.start - last.start;
                    if gap == last.len && tap.left == last.left + gap as i64 {
                        last.len += tap.len;
                        continue;
                    }
                }
                space[count] = *tap;
                count += 1;
            } else if !outside {
                return None;
            }
        }
        let total: usize = space[..count].iter().map(|r| r.len).sum();
        (count * 4 <= total + 3).then(|| &space[..count])
    }

    fn all_inside(&self, c: &Contraction, rows: &Rows) -> bool {
        c.checks.iter().enumerate().all(|(number, check)| {
            let ((a, b), (low, high)) = (rows.bounds[number], self.bounds[number]);
            a + low >= 0 && b + high < check.size
        })
    }
}

/// Fills with a line of values and widens the bounds by them.
fn fill(values: &mut [i64], first: i64, step: i64, bounds: &mut (i64, i64)) {
    let mut value = first;
    for slot in values.iter_mut() {
        *slot = value;
        value += step;
    }
    let last = value - step;
    *bounds = (bounds.0.min(first.min(last)), bounds.1.max(first.max(last)));
}

/// Stretches of neighbours, cut where `same` says so; returns their count.
fn runs(
    offsets: &[i64; DEPTH],
    len: usize,
    out: &mut [Run; DEPTH],
    same: impl Fn(usize) -> bool,
) -> usize {
    let mut count = 0;
    for i in 0..len {
        if i > 0 && offsets[i] == offsets[i - 1] + 1 && same(i) {
            out[count - 1].len += 1;
        } else {
            out[count] = Run { start: i, len: 1, left: offsets[i] };
            count += 1;
        }
    }
    count
}

/// What to pack.
pub(super) struct Pack<'a> {
    pub(super) contraction: &'a Contraction,
    /// The operand's first element of the batch.
    pub(super) base: *const u8,
    /// Which side it is.
    pub(super) side: usize,
    pub(super) rows: &'a Rows,
    pub(super) depth: &'a Depth,
    /// Rows of the panel; those beyond `rows.len` become zero.
    pub(super) width: usize,
}

impl Pack<'_> {
    /// The checks of the side's elements.
    fn checks(&self) -> &[Check] {
        if self.side == self.contraction.checked { &self.contraction.checks } else { &[] }
    }

    /// Whether all of the rows' elements pass the checks.
    pub(super) fn all_inside(&self) -> bool {
        self.checks().is_empty() || self.depth.all_inside(self.contraction, self.rows)
    }

    /// Whether one element passes them.
    pub(super) fn inside(&self, row: usize, k: usize) -> bool {
        self.checks().iter().enumerate().all(|(number, check)| {
            let place = self.rows.place[number][row] + self.depth.place[number][k];
            (0..check.size).contains(&place)
        })
    }

    /// Whether the side's elements are neighbours along depth.
    pub(super) fn unit_depth(&self) -> bool {
        if self.side == 0 { self.depth.run_count == 1 } else { self.depth.right_unit }
    }
}

/// Fills a panel `[depth][width]`.
pub(super) type PackFn<T> = unsafe fn(&Pack<'_>, *mut T);

/// Copies the piece of the left operand that a panel's rows read, with zeros for what lies outside,
/// so that the rows overlap as they do in the operand. Gives the number of stretches of depth and
/// the distance between rows; None if the rows do not overlap evenly, or the piece has no room in a
/// packed panel's place.
pub(super) type PatchFn<T> =
    unsafe fn(&Pack<'_>, *mut T, &mut [Run; DEPTH]) -> Option<(usize, i64)>;

/// The function for a machine: compiled with AVX2 where it is there.
macro_rules! on_machine {
    ($kind:ident, $machine:expr, $portable:expr, $avx2:expr) => {
        match $machine {
            Machine::Portable => $portable as $kind<_>,
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2 | Machine::Avx512 => $avx2,
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! The same functions with wider moves.
    use super::{DEPTH, Number, Pack, Run, Source, pack, patch};

    /// # Safety
    /// As [`pack`], on a machine with AVX2.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn pack_avx2<S: Source<T>, T: Number>(job: &Pack<'_>, out: *mut T) {
        // SAFETY: by the caller.
        unsafe { pack::<S, T>(job, out) }
    }

    /// # Safety
    /// As [`patch`], on a machine with AVX2.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn patch_avx2<S: Source<T>, T: Number>(
        job: &Pack<'_>,
        out: *mut T,
        runs: &mut [Run; DEPTH],
    ) -> Option<(usize, i64)> {
        // SAFETY: by the caller.
        unsafe { patch::<S, T>(job, out, runs) }
    }
}
#[cfg(target_arch = "x86_64")]
use avx2::{pack_avx2, patch_avx2};

/// The packing function for elements of a type.
pub(super) trait Packed: Number {
    /// None if the type is not read as this number.
    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<Self>>;

    /// The patch function for elements of a type; None if the type is not read as this number.
    fn patch_fn(_: DType, _: Machine) -> Option<PatchFn<Self>> {
        None
    }

    /// How elements of these types are multiplied several in a number; None if they are not.
    fn grouped(_: [DType; 2], _: &[Check], _: Machine) -> Option<Grouped<Self>> {
        None
    }

    /// What rows of a panel start from where 128 was added to right elements; see
    /// [`super::groups`].
    ///
    /// # Safety
    /// The panel's numbers are there: `depth` of each row, rows `step` apart, or packed if that is 0.
    unsafe fn bias(
        _left: *const Self,
        _step: isize,
        _rows: usize,
        _depth: usize,
    ) -> [Self; MOST_ROWS] {
        [Self::default(); MOST_ROWS]
    }

    /// For the right side of complex elements: [`Contraction`] with parts as last axes.
    fn pack_complex() -> PackFn<Self> {
        pack_complex::<Self>
    }
}

impl Packed for f32 {
    fn grouped(types: [DType; 2], checks: &[Check], machine: Machine) -> Option<Grouped<f32>> {
        super::groups::floats(types, checks, machine)
    }

    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<f32>> {
        match dtype.part() {
            DType::F32 => {
                Some(on_machine!(PackFn, machine, pack::<f32, f32>, pack_avx2::<f32, f32>))
            }
            DType::BF16 => Some(on_machine!(
                PackFn,
                machine,
                pack::<half::bf16, f32>,
                pack_avx2::<half::bf16, f32>
            )),
            DType::F16 => Some(on_machine!(
                PackFn,
                machine,
                pack::<half::f16, f32>,
                pack_avx2::<half::f16, f32>
            )),
            _ => None,
        }
    }

    fn patch_fn(dtype: DType, machine: Machine) -> Option<PatchFn<f32>> {
        match dtype {
            DType::F32 => {
                Some(on_machine!(PatchFn, machine, patch::<f32, f32>, patch_avx2::<f32, f32>))
            }
            DType::BF16 => Some(on_machine!(
                PatchFn,
                machine,
                patch::<half::bf16, f32>,
                patch_avx2::<half::bf16, f32>
            )),
            DType::F16 => Some(on_machine!(
                PatchFn,
                machine,
                patch::<half::f16, f32>,
                patch_avx2::<half::f16, f32>
            )),
            _ => None,
        }
    }
}

impl Packed for f64 {
    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<f64>> {
        (dtype.part() == DType::F64)
            .then(|| on_machine!(PackFn, machine, pack::<f64, f64>, pack_avx2::<f64, f64>))
    }

    fn patch_fn(dtype: DType, machine: Machine) -> Option<PatchFn<f64>> {
        (dtype == DType::F64)
            .then(|| on_machine!(PatchFn, machine, patch::<f64, f64>, patch_avx2::<f64, f64>))
    }
}

impl Packed for i32 {
    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<i32>> {
        match dtype {
            DType::I1 | DType::U8 => {
                Some(on_machine!(PackFn, machine, pack::<u8, i32>, pack_avx2::<u8, i32>))
            }
            DType::I8 => Some(on_machine!(PackFn, machine, pack::<i8, i32>, pack_avx2::<i8, i32>)),
            DType::I16 => {
                Some(on_machine!(PackFn, machine, pack::<i16, i32>, pack_avx2::<i16, i32>))
            }
            DType::U16 => {
                Some(on_machine!(PackFn, machine, pack::<u16, i32>, pack_avx2::<u16, i32>))
            }
            DType::I32 | DType::U32 => {
                Some(on_machine!(PackFn, machine, pack::<i32, i32>, pack_avx2::<i32, i32>))
            }
            DType::I64 | DType::U64 => {
                Some(on_machine!(PackFn, machine, pack::<i64, i32>, pack_avx2::<i64, i32>))
            }
            _ => None,
        }
    }

    fn grouped(types: [DType; 2], checks: &[Check], machine: Machine) -> Option<Grouped<i32>> {
        super::groups::integers(types, checks, machine)
    }

    unsafe fn bias(left: *const i32, step: isize, rows: usize, depth: usize) -> [i32; MOST_ROWS] {
        // SAFETY: by the caller.
        unsafe { super::groups::bias(left, step, rows, depth) }
    }
}

impl Packed for i64 {
    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<i64>> {
        match dtype {
            DType::I1 | DType::U8 => {
                Some(on_machine!(PackFn, machine, pack::<u8, i64>, pack_avx2::<u8, i64>))
            }
            DType::I8 => Some(on_machine!(PackFn, machine, pack::<i8, i64>, pack_avx2::<i8, i64>)),
            DType::I16 => {
                Some(on_machine!(PackFn, machine, pack::<i16, i64>, pack_avx2::<i16, i64>))
            }
            DType::U16 => {
                Some(on_machine!(PackFn, machine, pack::<u16, i64>, pack_avx2::<u16, i64>))
            }
            DType::I32 => {
                Some(on_machine!(PackFn, machine, pack::<i32, i64>, pack_avx2::<i32, i64>))
            }
            DType::U32 => {
                Some(on_machine!(PackFn, machine, pack::<u32, i64>, pack_avx2::<u32, i64>))
            }
            DType::I64 | DType::U64 => {
                Some(on_machine!(PackFn, machine, pack::<i64, i64>, pack_avx2::<i64, i64>))
            }
            _ => None,
        }
    }
}

/// # Safety
/// The rows' elements at all depths that the checks let through are there; `out` has room for
/// `depth.len * width` numbers.
#[inline(always)]
unsafe fn pack<S: Source<T>, T: Number>(job: &Pack<'_>, out: *mut T) {
    let (rows, depth, width) = (job.rows, job.depth, job.width);
    let checks = job.checks();
    let offsets = if job.side == 0 { &depth.left } else { &depth.right };
    let offsets = &offsets[..depth.len];
    let base: *const S = job.base.cast();
    // SAFETY: every access below is of an element that the caller says is there, or inside the
    // panel.
    unsafe {
        if rows.len < width {
            for k in 0..depth.len {
                for row in rows.len..width {
                    *out.add(k * width + row) = T::default();
                }
            }
        }
        let free = job.all_inside();
        if free && rows.step == Some(1) {
            let from = base.wrapping_offset(rows.operand[0] as isize);
            copy_neighbours(from, offsets, out, rows.len, width);
        } else if free {
            transpose(base, rows, offsets, job.unit_depth(), out, width);
        } else if rows.step == Some(1) && unit_places(rows, checks) {
            checked_rows(job, checks, offsets, base, out);
        } else {
            checked_stretches(job, checks, offsets, base, out);
        }
    }
}

/// Copies `N` neighbouring rows at each depth.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn copy_rows<S: Source<T>, T: Number, const N: usize>(
    from: *const S,
    offsets: &[i64],
    out: *mut T,
    width: usize,
) {
    for (k, &offset) in offsets.iter().enumerate() {
        // SAFETY: by the caller.
        unsafe {
            let line: [S; N] =
                from.wrapping_offset(offset as isize).cast::<[S; N]>().read_unaligned();
            let mut numbers = [T::default(); N];
            for n in 0..N {
                numbers[n] = line[n].read();
            }
            out.add(k * width).cast::<[T; N]>().write_unaligned(numbers);
        }
    }
}

/// Copies rows that are not neighbours, a few positions of depth at a time.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn transpose<S: Source<T>, T: Number>(
    base: *const S,
    rows: &Rows,
    offsets: &[i64],
    unit: bool,
    out: *mut T,
    width: usize,
) {
    for (block, offsets) in offsets.chunks(16).enumerate() {
        for row in 0..rows.len {
            // SAFETY: by the caller.
            unsafe {
                let from = base.wrapping_offset(rows.operand[row] as isize);
                let mut to = out.add(block * 16 * width + row);
                if unit {
                    let from = from.wrapping_offset(offsets[0] as isize);
                    for k in 0..offsets.len() {
                        *to = from.add(k).read().read();
                        to = to.wrapping_add(width);
                    }
                } else {
                    for &offset in offsets {
                        *to = from.wrapping_offset(offset as isize).read().read();
                        to = to.wrapping_add(width);
                    }
                }
            }
        }
    }
}

/// Whether each check's place is the same for all rows, or grows by one with each.
fn unit_places(rows: &Rows, checks: &[Check]) -> bool {
    (0..checks.len()).all(|number| {
        let place = &rows.place[number][..rows.len];
        let step = if rows.len > 1 { place[1] - place[0] } else { 0 };
        (step == 0 || step == 1) && place.windows(2).all(|w| w[1] - w[0] == step)
    })
}

/// Copies the neighbouring rows that are inside at each depth; the rest becomes zero.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn checked_rows<S: Source<T>, T: Number>(
    job: &Pack<'_>,
    checks: &[Check],
    offsets: &[i64],
    base: *const S,
    out: *mut T,
) {
    let (rows, depth) = (job.rows, job.depth);
    let moves = |number: usize| rows.len > 1 && rows.place[number][1] != rows.place[number][0];
    if !(0..checks.len()).any(moves) {
        // All rows are inside or none: along a stretch of depth, from some position to another.
        for stretch in &depth.stretches[..depth.stretch_count] {
            let (mut low, mut high) = (0, stretch.len as i64);
            for (number, check) in checks.iter().enumerate() {
                let place = &depth.place[number][stretch.start..][..stretch.len];
                let step = if place.len() > 1 { place[1] - place[0] } else { 0 };
                let first = rows.place[number][0] + place[0];
                let (from, to) = inside(first, step, check.size, stretch.len as i64);
                (low, high) = (low.max(from), high.min(to));
            }
            let high = high.max(0) as usize;
            let low = (low.max(0) as usize).min(high);
            let parts = [(0, low, false), (low, high, true), (high, stretch.len, false)];
            for (from, to, present) in parts {
                let (from, to) = (stretch.start + from, stretch.start + to);
                let out = out.wrapping_add(from * job.width);
                // SAFETY: by the caller; the present part is inside.
                unsafe { copy_or_clear(job, base, &offsets[from..to], out, present) };
            }
        }
        return;
    }
    for (k, &offset) in offsets.iter().enumerate() {
        let (mut low, mut high) = (0, rows.len as i64);
        for (number, check) in checks.iter().enumerate() {
            let first = rows.place[number][0] + depth.place[number][k];
            let (from, to) = inside(first, i64::from(moves(number)), check.size, rows.len as i64);
            (low, high) = (low.max(from), high.min(to));
        }
        let high = high.max(0) as usize;
        let low = (low.max(0) as usize).min(high);
        // SAFETY: by the caller; rows from low to high are inside.
        unsafe {
            let to = out.add(k * job.width);
            if low == 0 && high == rows.len {
                copy_or_clear(job, base, &offsets[k..=k], to, true);
                continue;
            }
            let from = base.wrapping_offset((rows.operand[0] + offset) as isize);
            for row in 0..low {
                *to.add(row) = T::default();
            }
            for row in low..high {
                *to.add(row) = from.add(row).read().read();
            }
            for row in high..rows.len {
                *to.add(row) = T::default();
            }
        }
    }
}

/// The positions `n` from `.0` up to `.1` below `len` where `0 <= first + n * step < size`; `step`
/// is not negative.
pub(super) fn inside(first: i64, step: i64, size: i64, len: i64) -> (i64, i64) {
    if step == 0 {
        return if (0..size).contains(&first) { (0, len) } else { (0, 0) };
    }
    let above = |bound: i64| if first >= bound { 0 } else { (bound - first + step - 1) / step };
    (above(0).min(len), above(size).min(len))
}

/// Copies all of the panel's neighbouring rows at some depths, or clears them.
///
/// # Safety
/// As [`pack`]; if they are copied they are inside.
#[inline(always)]
unsafe fn copy_or_clear<S: Source<T>, T: Number>(
    job: &Pack<'_>,
    base: *const S,
    offsets: &[i64],
    out: *mut T,
    copy: bool,
) {
    let (len, width) = (job.rows.len, job.width);
    // SAFETY: by the caller.
    unsafe {
        if copy {
            let from = base.wrapping_offset(job.rows.operand[0] as isize);
            copy_neighbours(from, offsets, out, len, width);
        } else {
            for k in 0..offsets.len() {
                std::slice::from_raw_parts_mut(out.add(k * width), len).fill(T::default());
            }
        }
    }
}

/// Copies neighbouring rows at each depth.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn copy_neighbours<S: Source<T>, T: Number>(
    from: *const S,
    offsets: &[i64],
    out: *mut T,
    len: usize,
    width: usize,
) {
    // SAFETY: by the caller.
    unsafe {
        match len {
            32 => copy_rows::<S, T, 32>(from, offsets, out, width),
            16 => copy_rows::<S, T, 16>(from, offsets, out, width),
            12 => copy_rows::<S, T, 12>(from, offsets, out, width),
            8 => copy_rows::<S, T, 8>(from, offsets, out, width),
            4 => copy_rows::<S, T, 4>(from, offsets, out, width),
            _ => {
                for (k, &offset) in offsets.iter().enumerate() {
                    let (from, to) = (from.wrapping_offset(offset as isize), out.add(k * width));
                    for row in 0..len {
                        *to.add(row) = from.add(row).read().read();
                    }
                }
            }
        }
    }
}

/// Copies row by row, along each stretch of depth, what is inside; the rest becomes zero.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn checked_stretches<S: Source<T>, T: Number>(
    job: &Pack<'_>,
    checks: &[Check],
    offsets: &[i64],
    base: *const S,
    out: *mut T,
) {
    let (rows, depth, width) = (job.rows, job.depth, job.width);
    let between = |values: &[i64]| if values.len() > 1 { values[1] - values[0] } else { 0 };
    for stretch in &depth.stretches[..depth.stretch_count] {
        let offsets = &offsets[stretch.start..][..stretch.len];
        let step = between(offsets) as isize;
        for row in 0..rows.len {
            let (mut low, mut high) = (0, stretch.len as i64);
            for (number, check) in checks.iter().enumerate() {
                let place = &depth.place[number][stretch.start..][..stretch.len];
                let first = rows.place[number][row] + place[0];
                let part = inside(first, between(place), check.size, stretch.len as i64);
                (low, high) = (low.max(part.0), high.min(part.1));
            }
            let high = high.max(0) as usize;
            let low = (low.max(0) as usize).min(high);
            // SAFETY: by the caller; what is read is inside.
            unsafe {
                let mut to = out.add(stretch.start * width + row);
                for _ in 0..low {
                    *to = T::default();
                    to = to.wrapping_add(width);
                }
                let from = base.wrapping_offset((rows.operand[row] + offsets[0]) as isize);
                let mut from = from.wrapping_offset(low as isize * step);
                for _ in low..high {
                    *to = from.read().read();
                    to = to.wrapping_add(width);
                    from = from.wrapping_offset(step);
                }
                for _ in high..stretch.len {
                    *to = T::default();
                    to = to.wrapping_add(width);
                }
            }
        }
    }
}

/// Packs complex elements whose last row and depth axes are their parts: `[[re, im], [-im, re]]`.
///
/// # Safety
/// As [`pack`].
unsafe fn pack_complex<T: Number>(job: &Pack<'_>, out: *mut T) {
    let (rows, depth) = (job.rows, job.depth);
    for k in 0..depth.len {
        for row in 0..job.width {
            let inside = row < rows.len && job.inside(row, k);
            let (imaginary_left, imaginary_out) = (k % 2 == 1, row % 2 == 1);
            let part = i64::from(imaginary_left != imaginary_out);
            // SAFETY: by the caller; an element is read only if it is inside.
            unsafe {
                let value = if inside {
                    let at = rows.operand[row] + depth.right[k] + part;
                    let value = *job.base.cast::<T>().offset(at as isize);
                    if imaginary_left && !imaginary_out { value.negative() } else { value }
                } else {
                    T::default()
                };
                *out.add(k * job.width + row) = value;
            }
        }
    }
}

/// See [`PatchFn`].
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn patch<S: Source<T>, T: Number>(
    job: &Pack<'_>,
    out: *mut T,
    runs: &mut [Run; DEPTH],
) -> Option<(usize, i64)> {
    let (rows, depth) = (job.rows, job.depth);
    let checks = &job.contraction.checks[..];
    let place_step = |number: usize| rows.place[number][1] - rows.place[number][0];
    if rows.len < 2 || job.contraction.checked != 0 {
        return None;
    }
    // The check whose place moves with the rows.
    let mut moving = (0..checks.len()).filter(|&number| place_step(number) != 0);
    let (moving, None) = (moving.next()?, moving.next()) else { return None };
    let even_places =
        (0..checks.len()).all(|number| even(&rows.place[number][..rows.len]).is_some());
    let (place_step, row_step) = (place_step(moving), rows.step?);
    if !even_places || place_step <= 0 || row_step % place_step != 0 {
        return None;
    }
    // Elements from one place to the next in the operand and in the patch.
    let spacing = row_step / place_step;
    let taps = &depth.taps[..depth.tap_count];
    let pitch = taps.iter().map(|tap| tap.len).max()?;
    let first_place = rows.place[moving][0];
    let origin = rows.operand[0] - first_place * spacing;
    let base: *const S = job.base.cast();
    let (mut count, mut used) = (0, 0);
    let mut at = 0;
    while at < taps.len() {
        // Taps that differ in nothing but the moving place.
        let line = |tap: &Run| tap.left - depth.place[moving][tap.start] * spacing;
        let alike = |tap: &Run| {
            tap.len == taps[at].len
                && line(tap) == line(&taps[at])
                && (0..checks.len()).all(|number| {
                    number == moving
                        || depth.place[number][tap.start] == depth.place[number][taps[at].start]
                })
        };
        let group = taps[at..].iter().take_while(|tap| alike(tap)).count();
        let group = &taps[at..at + group];
        at += group.len();
        let present = checks.iter().enumerate().all(|(number, check)| {
            let place = rows.place[number][0] + depth.place[number][group[0].start];
            number == moving || (0..check.size).contains(&place)
        });
        if !present {
            continue;
        }
        let places = group.iter().map(|tap| depth.place[moving][tap.start]);
        let low = places.clone().min()?;
        let high = places.max()?;
        let start = first_place + low;
        let span = (place_step * (job.width as i64 - 1) + high - low + 1) as usize;
        if used + span * pitch > depth.len * job.width {
            return None;
        }
        let end = start + span as i64;
        let size = checks[moving].size;
        let inside = (start.clamp(0, size).max(start), end.clamp(0, size).max(start));
        let inside = ((inside.0 - start) as usize, (inside.1 - start) as usize);
        let len = group[0].len;
        // SAFETY: by the caller: places inside are elements; the patch has room, see above.
        unsafe {
            let to = out.add(used);
            let from = base.wrapping_offset((origin + line(&group[0]) + start * spacing) as isize);
            clear(to, inside.0 * pitch);
            if len == pitch && spacing == pitch as i64 {
                let from = from.wrapping_add(inside.0 * pitch);
                convert(
                    from,
                    to.add(inside.0 * pitch),
                    (inside.1 - inside.0.min(inside.1)) * pitch,
                );
            } else {
                for n in inside.0..inside.1 {
                    convert(
                        from.wrapping_offset(n as isize * spacing as isize),
                        to.add(n * pitch),
                        len,
                    );
                }
            }
            let done = inside.1.max(inside.0);
            clear(to.add(done * pitch), (span - done) * pitch);
        }
        for tap in group {
            let left = used as i64 + (depth.place[moving][tap.start] - low) * pitch as i64;
            match runs[..count].last_mut() {
                Some(last)
                    if last.start + last.len == tap.start
                        && last.left + last.len as i64 == left =>
                {
                    last.len += tap.len;
                }
                _ => {
                    runs[count] = Run { start: tap.start, len: tap.len, left };
                    count += 1;
                }
            }
        }
        used += span * pitch;
    }
    Some((count, place_step * pitch as i64))
}

/// # Safety
/// There is room for `len` numbers.
#[inline(always)]
unsafe fn clear<T: Number>(to: *mut T, len: usize) {
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts_mut(to, len).fill(T::default()) };
}

/// # Safety
/// There are `len` elements, and room for as many numbers.
#[inline(always)]
unsafe fn convert<S: Source<T>, T: Number>(from: *const S, to: *mut T, len: usize) {
    for n in 0..len {
        // SAFETY: by the caller.
        unsafe { to.add(n).write(from.add(n).read().read()) };
    }
}
