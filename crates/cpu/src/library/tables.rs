//! Where the elements of a few rows, and of a block of depth, are: offsets, and the places that
//! checks compare with an operand's bounds.

use super::tile::{MOST_COLUMNS, Run};
use jaxrs_kernel::contraction::{Contraction, DEPTH_BLOCK};

/// Most checks of a contraction; one with more runs as plain loops.
pub(super) const MOST_CHECKS: usize = 4;
pub(super) const DEPTH: usize = DEPTH_BLOCK as usize;

/// Where a few rows are.
pub(super) struct Rows {
    /// How many.
    pub(super) len: usize,
    /// Offsets of their elements in the operand and in the result.
    pub(super) operand: [i64; MOST_COLUMNS],
    pub(super) out: [i64; MOST_COLUMNS],
    /// Their part of each check's position.
    pub(super) place: [[i64; MOST_COLUMNS]; MOST_CHECKS],
    /// Least and largest of it.
    bounds: [(i64, i64); MOST_CHECKS],
    /// The distance from each row's element to the next, if it is the same for all.
    pub(super) step: Option<i64>,
    /// The same in the result.
    pub(super) out_step: Option<i64>,
    /// Where the next rows begin, if they follow these.
    next: (usize, u64, Odometer),
}

/// Where the positions of a block of depth are.
pub(super) struct Depth {
    /// How many.
    pub(super) len: usize,
    pub(super) left: [i64; DEPTH],
    pub(super) right: [i64; DEPTH],
    pub(super) place: [[i64; DEPTH]; MOST_CHECKS],
    bounds: [(i64, i64); MOST_CHECKS],
    /// Stretches where the left elements are neighbours; beyond that, the checks are equal, too.
    runs: [Run; DEPTH],
    pub(super) run_count: usize,
    pub(super) taps: [Run; DEPTH],
    pub(super) tap_count: usize,
    /// Stretches along the last axis.
    pub(super) stretches: [Run; DEPTH],
    pub(super) stretch_count: usize,
    /// The distance from each right element to the next, if it is the same for all.
    pub(super) right_step: Option<i64>,
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
pub(super) fn even(values: &[i64]) -> Option<i64> {
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
            right_step: None,
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
            self.right_step = Some(1);
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
        self.right_step = even(&self.right[..len]);
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

    pub(super) fn all_inside(&self, c: &Contraction, rows: &Rows) -> bool {
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

/// The positions `n` from `.0` up to `.1` below `len` where `0 <= first + n * step < size`; `step`
/// is not negative.
pub(super) fn inside(first: i64, step: i64, size: i64, len: i64) -> (i64, i64) {
    if step == 0 {
        return if (0..size).contains(&first) { (0, len) } else { (0, 0) };
    }
    let above = |bound: i64| if first >= bound { 0 } else { (bound - first + step - 1) / step };
    (above(0).min(len), above(size).min(len))
}
