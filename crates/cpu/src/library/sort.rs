//! Sorts rows of several operands together.
//!
//! By a key: keys are mapped to unsigned integers and sorted with their positions, by comparison
//! where there are few, else by a radix sort of their bytes; the operands are then gathered.
//! By a comparator: a merge sort of positions, which gives some permutation whatever the comparator
//! says. Both are stable. A row's memory is the scratch of its thread, or spare memory if the row
//! is long.

use super::key::{Key, Keyed, with_keyed};
use super::spare::Spare;
use crate::pool::{KernelFn, Pool};
use half::{bf16, f16};
use jaxrs_kernel::DType;
use jaxrs_kernel::program::SortOrder;
use jaxrs_kernel::scratch::sort_row;

/// Rows of fewer elements are sorted by comparison.
const FEW: usize = 200;
/// Elements below which a sort stays on one thread.
const ONE_THREAD: u64 = 4096;

/// A sort, ready to run.
pub(super) struct Sort {
    sort: jaxrs_kernel::program::Sort,
    scratch_step: usize,
    spare: Spare,
}

/// Pointers that threads share.
struct Buffers {
    buffers: *const *mut u8,
    scratch: *mut u8,
}
// SAFETY: threads write disjoint rows and their own scratch.
unsafe impl Sync for Buffers {}

/// A row.
struct Row<'a> {
    /// Position of its first element, elements from one to the next.
    first: usize,
    step: usize,
    len: usize,
    buffers: *const *mut u8,
    dtypes: &'a [DType],
    /// Two arrays for keys and positions, then one row of any operand.
    memory: *mut u8,
}

/// A key with the position of its element.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item<K> {
    key: K,
    position: u32,
}

impl Sort {
    pub(super) fn new(sort: &jaxrs_kernel::program::Sort, scratch_step: usize) -> Sort {
        Sort { sort: sort.clone(), scratch_step, spare: Spare::default() }
    }

    /// Sorts.
    ///
    /// # Safety
    /// As [`super::LibraryStep::run`]; result `n` may be operand `n`'s memory. The comparator may be
    /// called on any two rows.
    pub(super) unsafe fn run(
        &self,
        pool: &Pool,
        buffers: *const *mut u8,
        scratch: *mut u8,
        comparator: Option<KernelFn>,
    ) {
        let [before, len, after] = self.sort.extents;
        let rows = before * after;
        if rows * len == 0 {
            return;
        }
        let shared = &Buffers { buffers, scratch };
        let one = |low: i64, high: i64, thread: usize| {
            let planned = shared.scratch.wrapping_add(thread * self.scratch_step);
            self.spare.with(
                (planned, self.scratch_step),
                sort_row(&self.sort) as usize,
                |memory| {
                    for number in low as u64..high as u64 {
                        let row = Row {
                            first: (number / after * len * after + number % after) as usize,
                            step: after as usize,
                            len: len as usize,
                            buffers: shared.buffers,
                            dtypes: &self.sort.dtypes,
                            memory,
                        };
                        // SAFETY: by the caller; the memory is enough for the row.
                        unsafe { self.row(&row, comparator) };
                    }
                },
            );
        };
        let grain = ONE_THREAD.div_ceil(len).max(1);
        pool.run(rows as i64, grain as i64, one);
    }

    /// # Safety
    /// As [`Sort::run`].
    unsafe fn row(&self, row: &Row<'_>, comparator: Option<KernelFn>) {
        // SAFETY: by the caller.
        unsafe {
            match self.sort.order {
                SortOrder::Key { operand, descending } => {
                    let dtype = self.sort.dtypes[operand as usize];
                    with_keyed!(dtype, by_key(row, operand as usize, descending));
                }
                SortOrder::Kernel(_) => {
                    let comparator = comparator.expect("the comparator is set before a run");
                    by_comparator(row, comparator);
                }
            }
        }
    }
}

impl Row<'_> {
    /// An operand's elements.
    ///
    /// # Safety
    /// The buffers are there.
    unsafe fn operand<T>(&self, number: usize) -> *const T {
        // SAFETY: by the caller.
        unsafe { (*self.buffers.add(number)).cast::<T>().add(self.first) }
    }

    /// The arrays of items.
    fn items<I>(&self) -> [*mut I; 2] {
        let bytes = (self.len * size_of::<I>()).next_multiple_of(64);
        [self.memory.cast(), self.memory.wrapping_add(bytes).cast()]
    }

    /// Memory for one row of an operand, after the items.
    fn line(&self, item: usize) -> *mut u8 {
        self.memory.wrapping_add(2 * (self.len * item).next_multiple_of(64))
    }
}

/// # Safety
/// As [`Sort::run`]; the operand's elements are `T`s.
unsafe fn by_key<T: Keyed<K>, K: Key>(row: &Row<'_>, operand: usize, descending: bool) {
    let [first, second] = row.items::<Item<K>>();
    // SAFETY: by the caller; the memory holds two arrays of items.
    unsafe {
        let from = row.operand::<T>(operand);
        for position in 0..row.len {
            let key = from.add(position * row.step).read().sort_key();
            let key = if descending { !key } else { key };
            first.add(position).write(Item { key, position: position as u32 });
        }
        let sorted = sorted(first, second, row.len);
        gather(row, size_of::<Item<K>>(), |n| (*sorted.add(n)).position);
    }
}

/// Sorts items by key, equal ones by position; returns which of the arrays has them.
///
/// # Safety
/// Both arrays have `len` items; the first holds them, in order of position.
unsafe fn sorted<K: Key>(first: *mut Item<K>, second: *mut Item<K>, len: usize) -> *const Item<K> {
    // SAFETY: by the caller.
    unsafe {
        let items = std::slice::from_raw_parts_mut(first, len);
        if len < FEW {
            items.sort_unstable();
            return first;
        }
        // How often each value of each byte occurs.
        let mut counts = [[0u32; 256]; 8];
        for item in &*items {
            for (byte, counts) in counts[..K::BYTES].iter_mut().enumerate() {
                counts[item.key.byte(byte)] += 1;
            }
        }
        let (mut from, mut to) = (first, second);
        for (byte, counts) in counts[..K::BYTES].iter_mut().enumerate() {
            if counts.iter().any(|&count| count as usize == len) {
                continue;
            }
            let mut start = 0;
            for count in counts.iter_mut() {
                start += std::mem::replace(count, start);
            }
            for n in 0..len {
                let item = from.add(n).read();
                let place = &mut counts[item.key.byte(byte)];
                to.add(*place as usize).write(item);
                *place += 1;
            }
            std::mem::swap(&mut from, &mut to);
        }
        from
    }
}

/// Writes the results: element `n` of a row is the operand's element at `position(n)`.
///
/// # Safety
/// As [`Sort::run`]; positions are below the row's length. Items have `item` bytes.
unsafe fn gather(row: &Row<'_>, item: usize, position: impl Fn(usize) -> u32 + Copy) {
    for (number, dtype) in row.dtypes.iter().enumerate() {
        // SAFETY: by the caller.
        unsafe {
            match dtype.size() {
                1 => gather_one::<u8>(row, item, number, position),
                2 => gather_one::<u16>(row, item, number, position),
                4 => gather_one::<u32>(row, item, number, position),
                8 => gather_one::<u64>(row, item, number, position),
                _ => gather_one::<[u64; 2]>(row, item, number, position),
            }
        }
    }
}

/// # Safety
/// As [`gather`]; the operand's elements have a `T`'s size.
unsafe fn gather_one<T: Copy>(
    row: &Row<'_>,
    item: usize,
    number: usize,
    position: impl Fn(usize) -> u32,
) {
    // SAFETY: by the caller.
    unsafe {
        let from = row.operand::<T>(number);
        let to = row.operand::<T>(row.dtypes.len() + number).cast_mut();
        if std::ptr::eq(from, to) {
            let line: *mut T = row.line(item).cast();
            for n in 0..row.len {
                line.add(n).write(from.add(n * row.step).read());
            }
            for n in 0..row.len {
                to.add(n * row.step).write(line.add(position(n) as usize).read());
            }
        } else {
            for n in 0..row.len {
                to.add(n * row.step).write(from.add(position(n) as usize * row.step).read());
            }
        }
    }
}

/// # Safety
/// As [`Sort::run`].
unsafe fn by_comparator(row: &Row<'_>, comparator: KernelFn) {
    let [first, second] = row.items::<u32>();
    let mut out = 0u8;
    // a0, b0, a1, b1, ..., out
    let count = 2 * row.dtypes.len() + 1;
    let mut pointers = smallvec::SmallVec::<[*mut u8; 17]>::from_elem(&raw mut out, count);
    let (pointers, out) = (pointers.as_mut_ptr(), &raw const out);
    let mut before = |a: u32, b: u32| {
        // SAFETY: by the caller; positions are below the row's length.
        unsafe {
            for (number, dtype) in row.dtypes.iter().enumerate() {
                let size = dtype.size() as usize;
                let base = *row.buffers.add(number);
                let at = |n: u32| base.add((row.first + n as usize * row.step) * size);
                pointers.add(2 * number).write(at(a));
                pointers.add(2 * number + 1).write(at(b));
            }
            comparator(pointers, 0, 1);
            out.read_volatile() != 0
        }
    };
    // SAFETY: the memory holds two arrays of positions.
    unsafe {
        for position in 0..row.len {
            first.add(position).write(position as u32);
            second.add(position).write(position as u32);
        }
        let first = std::slice::from_raw_parts_mut(first, row.len);
        let second = std::slice::from_raw_parts_mut(second, row.len);
        let sorted: *const u32 = merge_sort(first, second, &mut before).as_ptr();
        gather(row, size_of::<u32>(), |n| *sorted.add(n));
    }
}

/// Sorts positions by a comparison that need not be consistent; returns which array has them.
fn merge_sort<'a>(
    first: &'a mut [u32],
    second: &'a mut [u32],
    before: &mut impl FnMut(u32, u32) -> bool,
) -> &'a [u32] {
    const RUN: usize = 8;
    let len = first.len();
    for run in first.chunks_mut(RUN) {
        for end in 1..run.len() {
            let item = run[end];
            let mut at = end;
            while at > 0 && before(item, run[at - 1]) {
                run[at] = run[at - 1];
                at -= 1;
            }
            run[at] = item;
        }
    }
    let (mut from, mut to) = (first, second);
    let mut width = RUN;
    while width < len {
        for (pair, out) in from.chunks(2 * width).zip(to.chunks_mut(2 * width)) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut l, mut r) = (0, 0);
            for slot in out {
                let take_right = r < right.len() && (l == left.len() || before(right[r], left[l]));
                *slot = if take_right { right[r] } else { left[l] };
                (l, r) = if take_right { (l, r + 1) } else { (l + 1, r) };
            }
        }
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    from
}

/// Bytes that a sort allocates on this many threads.
pub(super) fn spare_bytes(sort: &jaxrs_kernel::program::Sort, threads: usize) -> u64 {
    let row = sort_row(sort);
    let rows = sort.extents[0].saturating_mul(sort.extents[2]);
    if row <= jaxrs_kernel::scratch::LIMIT || rows * sort.extents[1] == 0 {
        return 0;
    }
    row.next_multiple_of(16).saturating_mul(rows.min(threads as u64))
}

#[cfg(test)]
mod tests {
    use super::super::LibraryStep;
    use super::super::tests::{Random, aligned};
    use super::*;
    use cranelift_entity::EntityRef;
    use jaxrs_kernel::program::{KernelId, Library, Sort};

    /// Sorts operand 0's rows with a plain stable sort of positions; `before` compares elements.
    fn expected(sort: &Sort, key: &[u8], before: impl Fn(&[u8], &[u8]) -> bool) -> Vec<usize> {
        let [outer, len, after] = sort.extents.map(|e| e as usize);
        let size = sort.dtypes[0].size() as usize;
        let element = |at: usize| &key[at * size..][..size];
        let mut from = vec![0; outer * len * after];
        for row in 0..outer * after {
            let first = row / after * len * after + row % after;
            let mut order: Vec<usize> = (0..len).map(|n| first + n * after).collect();
            order.sort_by(|&a, &b| {
                let (a, b) = (element(a), element(b));
                before(b, a).cmp(&before(a, b))
            });
            for (n, at) in order.into_iter().enumerate() {
                from[first + n * after] = at;
            }
        }
        from
    }

    /// Runs a sort of `operands` into other memory and in place, and compares.
    fn check(sort: &Sort, operands: &[Vec<u8>], from: &[usize], comparator: Option<KernelFn>) {
        let library = Library::Sort(sort.clone());
        let step = LibraryStep::new(&library, &[]);
        if let Some(comparator) = comparator {
            step.set_kernel(comparator);
        }
        let per_thread = jaxrs_kernel::scratch::scratch(&library).per_thread.0 as usize;
        for threads in [1, 3] {
            let pool = Pool::shared(threads);
            let mut scratch = aligned(per_thread * threads);
            for in_place in [false, true] {
                let mut inputs = operands.to_vec();
                let mut results: Vec<Vec<u8>> = inputs.iter().map(|o| vec![0; o.len()]).collect();
                let mut pointers: Vec<*mut u8> = inputs.iter_mut().map(Vec::as_mut_ptr).collect();
                if in_place {
                    pointers.extend_from_within(..);
                } else {
                    pointers.extend(results.iter_mut().map(Vec::as_mut_ptr));
                }
                // SAFETY: the buffers have the operands' lengths.
                unsafe { step.run(&pool, pointers.as_ptr(), scratch.as_mut_ptr()) };
                let results = if in_place { inputs } else { results };
                for ((operand, result), dtype) in operands.iter().zip(&results).zip(&sort.dtypes) {
                    let size = dtype.size() as usize;
                    let wanted: Vec<u8> =
                        from.iter().flat_map(|&at| operand[at * size..][..size].to_vec()).collect();
                    assert!(*result == wanted, "{sort:?}, in place: {in_place}");
                }
            }
        }
    }

    #[test]
    fn by_keys() {
        let mut random = Random::new(7);
        let special = [0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-42];
        for extents in [[1, 1000, 1], [3, 50, 2], [2, 0, 3], [1, 1, 1], [2, 300, 3], [1, 70000, 1]]
        {
            for descending in [false, true] {
                let count = extents.iter().product::<u64>() as usize;
                let keys: Vec<f32> = (0..count)
                    .map(|_| match random.below(3) {
                        0 => special[random.below(7) as usize],
                        1 => random.below(5) as f32 - 2.0,
                        _ => f32::from_bits(random.next() as u32),
                    })
                    .collect();
                let bytes = |items: Vec<[u8; 4]>| items.concat();
                let operands = [
                    bytes(keys.iter().map(|k| k.to_le_bytes()).collect()),
                    bytes((0..count as u32).map(u32::to_le_bytes).collect()),
                ];
                let order = SortOrder::Key { operand: 0, descending };
                let dtypes = vec![DType::F32, DType::I32];
                let sort = Sort { extents, dtypes, stable: true, order };
                let from = expected(&sort, &operands[0], |a, b| {
                    let read = |x: &[u8]| f32::from_le_bytes(x.try_into().expect("4 bytes"));
                    let (a, b) = if descending { (read(b), read(a)) } else { (read(a), read(b)) };
                    a < b || b.is_nan() && !a.is_nan()
                });
                check(&sort, &operands, &from, None);
            }
        }
    }

    #[test]
    fn integer_keys() {
        let mut random = Random::new(8);
        let dtypes =
            [DType::I8, DType::U8, DType::I16, DType::I32, DType::U32, DType::I64, DType::U64];
        for dtype in dtypes {
            for len in [5, 40, 700] {
                let count = 2 * len;
                let key = random.elements(dtype, count).to_vec();
                let other = random.elements(DType::C128, count).to_vec();
                let sort = Sort {
                    extents: [2, len, 1],
                    dtypes: vec![dtype, DType::C128],
                    stable: false,
                    order: SortOrder::Key { operand: 0, descending: false },
                };
                let from = expected(&sort, &key, |a, b| {
                    let read = |x: &[u8]| {
                        let negative = dtype.class() == jaxrs_kernel::dtype::Class::Signed
                            && x.last().is_some_and(|&byte| byte >= 128);
                        let mut bytes = [if negative { 0xff } else { 0 }; 16];
                        bytes[..x.len()].copy_from_slice(x);
                        i128::from_le_bytes(bytes)
                    };
                    read(a) < read(b)
                });
                check(&sort, &[key, other], &from, None);
            }
        }
    }

    unsafe extern "C" fn less(buffers: *const *mut u8, _: i64, _: i64) {
        // SAFETY: the sort gives two elements and a place for the result.
        unsafe {
            let (a, b) = ((*buffers).cast::<u16>(), (*buffers.add(1)).cast::<u16>());
            (*buffers.add(2)).write(u8::from(a.read_unaligned() % 64 < b.read_unaligned() % 64));
        }
    }

    unsafe extern "C" fn nonsense(buffers: *const *mut u8, _: i64, _: i64) {
        // SAFETY: as above.
        unsafe { (*buffers.add(2)).write(1) };
    }

    #[test]
    fn by_kernels() {
        let mut random = Random::new(9);
        for extents in [[1, 500, 1], [3, 9, 4], [1, 17, 2], [1, 110_000, 1]] {
            let count = extents.iter().product();
            let key = random.elements(DType::U16, count).to_vec();
            let order = SortOrder::Kernel(KernelId::new(0));
            let sort = Sort { extents, dtypes: vec![DType::U16], stable: true, order };
            let from = expected(&sort, &key, |a, b| a[0] % 64 < b[0] % 64);
            check(&sort, std::slice::from_ref(&key), &from, Some(less));
            // A comparison that is no order still gives a permutation.
            let library = Library::Sort(sort);
            let step = LibraryStep::new(&library, &[]);
            step.set_kernel(nonsense);
            let per_thread = jaxrs_kernel::scratch::scratch(&library).per_thread.0 as usize;
            let (mut input, mut result) = (key.clone(), vec![0u8; key.len()]);
            let pointers = [input.as_mut_ptr(), result.as_mut_ptr()];
            let mut scratch = aligned(per_thread);
            // SAFETY: the buffers have the operand's length.
            unsafe { step.run(&Pool::shared(1), pointers.as_ptr(), scratch.as_mut_ptr()) };
            let sum = |x: &[u8]| x.iter().map(|&b| u64::from(b)).sum::<u64>();
            assert_eq!(sum(&key), sum(&result));
        }
    }
}
