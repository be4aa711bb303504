//! Memory of buffers and arenas: aligned, in huge pages where large, and kept for reuse.
//!
//! A fresh mapping costs a page fault for every page at its first use, several times what writing
//! the page costs. So freed blocks are kept, up to as many bytes as were ever in use at once, and
//! a request takes the smallest kept block that is large enough but not far too large.

use crate::buffer::OutOfMemory;
use crate::stats;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of every block.
pub(crate) const ALIGNMENT: usize = 64;
/// Blocks from here on are mappings of their own, aligned to huge pages, and ask for them.
const HUGE: usize = 2 << 20;
/// Sizes are multiples of this or less.
const PAGE: usize = 4096;

/// Memory that belongs to its holder alone.
pub(crate) struct Block {
    pub(crate) start: NonNull<u8>,
    /// Usable bytes; a multiple of [`ALIGNMENT`].
    pub(crate) bytes: usize,
}

impl Block {
    /// No memory: an address that is aligned, for no bytes.
    pub(crate) const fn none() -> Block {
        let start = std::ptr::without_provenance_mut(ALIGNMENT);
        // SAFETY: the alignment is not zero.
        Block { start: unsafe { NonNull::new_unchecked(start) }, bytes: 0 }
    }
}

// SAFETY: a block owns its memory; nothing about it belongs to a thread.
unsafe impl Send for Block {}

/// Blocks kept for reuse, by size.
struct Kept {
    blocks: BTreeMap<usize, List>,
    bytes: usize,
    /// Requests so far.
    clock: u64,
}

/// Blocks of one size; the list stays when it is empty, so that giving and taking in turn
/// allocates nothing.
#[derive(Default)]
struct List {
    blocks: Vec<Block>,
    /// When one of them was given back last.
    used: u64,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { blocks: BTreeMap::new(), bytes: 0, clock: 0 });

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The size of the block for a request: at most 1/256 more, and a page; not every size is another
/// one, so that the lists of kept blocks are few.
fn rounded(bytes: usize) -> Option<usize> {
    let unit = (bytes.checked_next_power_of_two()? / 512).clamp(ALIGNMENT, PAGE);
    bytes.max(1).checked_next_multiple_of(unit)
}

/// Memory from the system, or null.
fn fresh(bytes: usize) -> *mut u8 {
    if bytes >= HUGE {
        return map(bytes);
    }
    match Layout::from_size_align(bytes, ALIGNMENT) {
        // SAFETY: the size is not zero.
        Ok(layout) => unsafe { alloc(layout) },
        Err(_) => std::ptr::null_mut(),
    }
}

/// A mapping aligned to huge pages, of as many bytes and no more, or null. The C library's aligned
/// allocation would keep what it maps for the alignment.
fn map(bytes: usize) -> *mut u8 {
    let Some(length) = bytes.checked_add(HUGE) else { return std::ptr::null_mut() };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping, no existing memory is touched.
    let whole = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
    if whole == libc::MAP_FAILED {
        return std::ptr::null_mut();
    }
    let whole = whole.cast::<u8>();
    let before = whole.align_offset(HUGE);
    let start = whole.wrapping_add(before);
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE);
    let end = bytes.next_multiple_of(page.max(1));
    // SAFETY: the parts before and after the block lie in the mapping just made; whole pages.
    unsafe {
        if before > 0 {
            libc::munmap(whole.cast(), before);
        }
        if before + end < length {
            libc::munmap(start.wrapping_add(end).cast(), length - before - end);
        }
    }
    #[cfg(target_os = "linux")]
    // SAFETY: the range is the mapping just made; the advice changes no content.
    unsafe {
        libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE)
    };
    start
}

/// A block of at least `bytes` bytes.
pub(crate) fn take(bytes: usize) -> Result<Block, OutOfMemory> {
    let error = OutOfMemory { bytes };
    let size = rounded(bytes).ok_or(error)?;
    {
        let mut kept = kept();
        let mut lists = kept.blocks.range_mut(size..=size + size / 4);
        if let Some(block) = lists.find_map(|(_, list)| list.blocks.pop()) {
            kept.bytes -= block.bytes;
            stats::cached(kept.bytes as u64);
            stats::taken(block.bytes as u64, true);
            return Ok(block);
        }
    }
    let mut start = fresh(size);
    if start.is_null() {
        trim();
        start = fresh(size);
    }
    let start = NonNull::new(start).ok_or(error)?;
    stats::taken(size as u64, false);
    Ok(Block { start, bytes: size })
}

/// Takes a block back.
pub(crate) fn give(block: Block) {
    stats::given_back(block.bytes as u64);
    let mut kept = kept();
    kept.clock += 1;
    let (most, clock) = (stats::most() as usize, kept.clock);
    // Sizes that nobody asks for any more make room for this one.
    while kept.bytes + block.bytes > most {
        let full = kept.blocks.values_mut().filter(|list| !list.blocks.is_empty());
        let Some(oldest) = full.min_by_key(|list| list.used).and_then(|list| list.blocks.pop())
        else {
            drop(kept);
            free(block);
            return;
        };
        kept.bytes -= oldest.bytes;
        free(oldest);
    }
    kept.bytes += block.bytes;
    stats::cached(kept.bytes as u64);
    let list = kept.blocks.entry(block.bytes).or_default();
    list.used = clock;
    list.blocks.push(block);
}

/// Bytes of the largest block that is kept.
pub(crate) fn largest_kept() -> usize {
    let kept = kept();
    let full = kept.blocks.iter().rev().find(|(_, list)| !list.blocks.is_empty());
    full.map_or(0, |(&size, _)| size)
}

/// Gives memory that is kept for reuse back to the system.
pub fn trim() {
    let mut kept = kept();
    let blocks = std::mem::take(&mut kept.blocks);
    kept.bytes = 0;
    stats::cached(0);
    drop(kept);
    blocks.into_values().flat_map(|list| list.blocks).for_each(free);
}

#[allow(clippy::needless_pass_by_value, reason = "the block ends here")]
fn free(block: Block) {
    if block.bytes >= HUGE {
        // SAFETY: mapped by `map` with this size, and owned.
        unsafe { libc::munmap(block.start.as_ptr().cast(), block.bytes) };
        return;
    }
    let layout = Layout::from_size_align(block.bytes, ALIGNMENT);
    let layout = layout.expect("the layout it was allocated with");
    // SAFETY: allocated by `fresh` with this layout, and owned.
    unsafe { dealloc(block.start.as_ptr(), layout) };
}
