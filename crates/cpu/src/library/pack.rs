//! Copies pieces of an operand into panels: for each position of depth, the elements of a few rows
//! side by side, as the tiles read them.

use super::packed::Pack;
use super::simd::Number;
use super::source::Source;
use super::tables::{Rows, inside};
use jaxrs_kernel::contraction::Check;

/// # Safety
/// The rows' elements at all depths that the checks let through are there; `out` has room for
/// `depth.len * width` numbers.
#[inline(always)]
pub(super) unsafe fn pack<S: Source<T>, T: Number>(job: &Pack<'_>, out: *mut T) {
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
pub(super) unsafe fn pack_complex<T: Number>(job: &Pack<'_>, out: *mut T) {
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
