//! Patches: the piece of an input that a panel of a convolution reads, with zeros round it. Rows
//! overlap in it as they do in the input, so that it is a fraction of the size of a packed panel.

use super::packed::Pack;
use super::simd::Number;
use super::source::Source;
use super::tables::{DEPTH, even};
use super::tile::Run;

/// See [`super::packed::PatchFn`].
///
/// # Safety
/// As [`pack`].
#[inline(always)]
pub(super) unsafe fn patch<S: Source<T>, T: Number>(
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
