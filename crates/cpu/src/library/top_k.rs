//! The `k` largest elements of each row, in descending order, with their positions.
//!
//! Each element becomes an integer that orders by value, then by position from the last; a buffer of
//! about `2k` of them is cut back to the `k` largest whenever it is full, and what is not above the
//! least of these is passed over.

use super::key::{Key, Keyed, with_keyed};
use super::spare::Spare;
use crate::pool::Pool;
use half::{bf16, f16};
use jaxrs_kernel::DType;

/// Elements below which the call stays on one thread.
const ONE_THREAD: u64 = 16384;

/// A top-k, ready to run.
pub(super) struct TopK {
    k: usize,
    rows: u64,
    len: usize,
    dtype: DType,
    scratch_step: usize,
    spare: Spare,
}

/// Pointers that threads share.
struct Buffers {
    from: *const u8,
    values: *mut u8,
    positions: *mut i32,
    scratch: *mut u8,
}
// SAFETY: threads write disjoint rows and their own scratch.
unsafe impl Sync for Buffers {}

impl TopK {
    pub(super) fn new(k: u64, operand: &(DType, Vec<u64>), scratch_step: usize) -> TopK {
        let (dtype, shape) = operand;
        let (len, outer) = shape.split_last().map_or((1, &[][..]), |(&len, outer)| (len, outer));
        TopK {
            k: k as usize,
            rows: outer.iter().product(),
            len: len as usize,
            dtype: *dtype,
            scratch_step,
            spare: Spare::default(),
        }
    }

    /// Computes values and positions.
    ///
    /// # Safety
    /// As [`super::LibraryStep::run`].
    pub(super) unsafe fn run(&self, pool: &Pool, buffers: *const *mut u8, scratch: *mut u8) {
        if self.k == 0 || self.rows == 0 || self.len == 0 {
            return;
        }
        // SAFETY: by the caller.
        let shared = unsafe {
            &Buffers {
                from: *buffers,
                values: *buffers.add(1),
                positions: (*buffers.add(2)).cast(),
                scratch,
            }
        };
        let bytes = capacity(self.k, self.len) * 16;
        let grain = ONE_THREAD.div_ceil(self.len as u64).max(1);
        pool.run(self.rows as i64, grain as i64, |low, high, thread| {
            let planned = shared.scratch.wrapping_add(thread * self.scratch_step);
            self.spare.with((planned, self.scratch_step), bytes, |memory| {
                for row in low as usize..high as usize {
                    // SAFETY: by the caller; the memory holds the buffer.
                    unsafe { with_keyed!(self.dtype, one_row(self, shared, row, memory)) };
                }
            });
        });
    }
}

/// Elements of the buffer.
fn capacity(k: usize, len: usize) -> usize {
    (2 * k).max(64).min(len.max(k))
}

/// Bytes that a top-k allocates.
pub(super) fn spare_bytes(k: u64, operand: &(DType, Vec<u64>), threads: usize) -> u64 {
    let len = operand.1.last().copied().unwrap_or(1);
    let rows = operand.1.iter().rev().skip(1).product::<u64>();
    let bytes = 16 * capacity(k as usize, len as usize) as u64;
    if bytes <= jaxrs_kernel::scratch::top_k_bytes(k) {
        0
    } else {
        bytes * rows.min(threads as u64)
    }
}

/// # Safety
/// As [`TopK::run`].
unsafe fn one_row<T: Keyed<K>, K: Key + Into<u64>>(
    top: &TopK,
    shared: &Buffers,
    row: usize,
    memory: *mut u8,
) {
    // SAFETY: by the caller; the memory has room for `capacity` items of 16 bytes.
    unsafe {
        let from = shared.from.cast::<T>().add(row * top.len);
        let values = shared.values.cast::<T>().add(row * top.k);
        let positions = shared.positions.add(row * top.k);
        let item = |n: usize| -> u128 {
            let key: u64 = from.add(n).read().total_key().into();
            u128::from(key) << 32 | u128::from(!(n as u32))
        };
        let room = capacity(top.k, top.len);
        let buffer = std::slice::from_raw_parts_mut(memory.cast::<u128>(), room);
        for (n, slot) in buffer.iter_mut().enumerate() {
            *slot = item(n);
        }
        let mut used = room;
        // Items at or below this have `k` above them.
        let mut least = 0;
        for n in room..top.len {
            if used == room {
                buffer.select_nth_unstable_by(top.k - 1, |a, b| b.cmp(a));
                least = buffer[top.k - 1];
                used = top.k;
            }
            let item = item(n);
            if item > least {
                buffer[used] = item;
                used += 1;
            }
        }
        let buffer = &mut buffer[..used];
        if used > top.k {
            buffer.select_nth_unstable_by(top.k - 1, |a, b| b.cmp(a));
        }
        let best = &mut buffer[..top.k];
        best.sort_unstable_by(|a, b| b.cmp(a));
        for (n, &item) in best.iter().enumerate() {
            let position = !(item as u32);
            positions.add(n).write(position as i32);
            values.add(n).write(from.add(position as usize).read());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LibraryStep;
    use super::super::tests::{Random, aligned};
    use super::*;
    use jaxrs_kernel::program::Library;

    #[test]
    fn largest_first() {
        let mut random = Random::new(11);
        let special = [0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for (rows, len, k) in [
            (1, 1, 1),
            (3, 100, 8),
            (2, 1000, 300),
            (5, 64, 64),
            (1, 70000, 40000),
            (0, 5, 2),
            (4, 9, 0),
        ] {
            let values: Vec<f32> = (0..rows * len)
                .map(|_| match random.below(4) {
                    0 => special[random.below(6) as usize],
                    1 => f32::from_bits(random.next() as u32),
                    _ => random.below(20) as f32,
                })
                .collect();
            let library = Library::TopK { k: k as u64 };
            let operand = (DType::F32, vec![rows as u64, len as u64]);
            let step = LibraryStep::new(&library, &[operand]);
            let per_thread = jaxrs_kernel::scratch::scratch(&library).per_thread.0 as usize;
            for threads in [1, 2] {
                let mut scratch = aligned(per_thread * threads);
                let (mut best, mut at) = (vec![0f32; rows * k], vec![0i32; rows * k]);
                let pointers = [
                    values.as_ptr().cast_mut().cast(),
                    best.as_mut_ptr().cast(),
                    at.as_mut_ptr().cast(),
                ];
                // SAFETY: the buffers have the shapes' lengths.
                unsafe {
                    step.run(&Pool::shared(threads), pointers.as_ptr(), scratch.as_mut_ptr());
                };
                for row in 0..rows {
                    let line = &values[row * len..][..len];
                    let mut order: Vec<usize> = (0..len).collect();
                    order.sort_by(|&a, &b| line[b].total_cmp(&line[a]));
                    for n in 0..k {
                        assert_eq!(at[row * k + n] as usize, order[n], "{rows}x{len}, {k}: {n}");
                        assert_eq!(best[row * k + n].to_bits(), line[order[n]].to_bits());
                    }
                }
            }
        }
    }
}
