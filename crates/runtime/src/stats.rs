//! How much memory buffers and arenas take.

use crate::memory;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static IN_USE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
/// The peak since the start.
static MOST: AtomicU64 = AtomicU64::new(0);
static CACHED: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static REUSED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

/// The peaks of the scopes that are open, each with its number.
static SCOPES: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The process's buffers and arenas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes of live buffers and arenas.
    pub bytes_in_use: u64,
    /// The most bytes that were in use at once since the start or [`reset_peak`].
    pub peak_bytes_in_use: u64,
    /// The most bytes that the process may use: the machine's memory, or less where a control
    /// group says so. 0: not known.
    pub bytes_limit: u64,
    /// Bytes held for reuse.
    pub cached_bytes: u64,
    /// Bytes of the largest block held for reuse.
    pub largest_free_block_bytes: u64,
    /// Live buffers and arenas.
    pub live: u64,
    /// Buffers and arenas made so far.
    pub allocations: u64,
    /// Those of them whose memory had been used before.
    pub reused: u64,
}

/// The figures now.
pub fn memory_stats() -> MemoryStats {
    let allocations = ALLOCATIONS.load(Relaxed);
    MemoryStats {
        bytes_in_use: IN_USE.load(Relaxed),
        peak_bytes_in_use: PEAK.load(Relaxed),
        bytes_limit: *LIMIT,
        cached_bytes: CACHED.load(Relaxed),
        largest_free_block_bytes: memory::largest_kept() as u64,
        live: allocations.saturating_sub(FREED.load(Relaxed)),
        allocations,
        reused: REUSED.load(Relaxed),
    }
}

static LIMIT: LazyLock<u64> = LazyLock::new(|| {
    // SAFETY: asks for figures of the machine.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let machine = match (u64::try_from(pages), u64::try_from(size)) {
        (Ok(pages), Ok(size)) => pages.saturating_mul(size),
        _ => 0,
    };
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    group.filter(|&group| group < machine || machine == 0).unwrap_or(machine)
});

/// Starts a new measurement of the peak.
pub fn reset_peak() {
    PEAK.store(IN_USE.load(Relaxed), Relaxed);
}

/// Measures the peak from now on until it is dropped, beside the process's and other scopes'.
pub struct PeakScope(u64);

impl PeakScope {
    /// Begins.
    #[allow(clippy::new_without_default, reason = "it acts")]
    pub fn new() -> PeakScope {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let mut scopes = scopes();
        scopes.push((number, IN_USE.load(Relaxed)));
        OPEN.store(scopes.len(), Relaxed);
        PeakScope(number)
    }

    /// The most bytes that the process had in use at once since the beginning.
    pub fn peak_bytes(&self) -> u64 {
        scopes().iter().find(|(number, _)| *number == self.0).map_or(0, |(_, peak)| *peak)
    }
}

impl Drop for PeakScope {
    fn drop(&mut self) {
        let mut scopes = scopes();
        scopes.retain(|(number, _)| *number != self.0);
        OPEN.store(scopes.len(), Relaxed);
    }
}

fn scopes() -> MutexGuard<'static, Vec<(u64, u64)>> {
    SCOPES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn taken(bytes: u64, reused: bool) {
    let now = IN_USE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
    MOST.fetch_max(now, Relaxed);
    ALLOCATIONS.fetch_add(1, Relaxed);
    REUSED.fetch_add(u64::from(reused), Relaxed);
    if OPEN.load(Relaxed) > 0 {
        scopes().iter_mut().for_each(|(_, peak)| *peak = now.max(*peak));
    }
}

pub(crate) fn given_back(bytes: u64) {
    IN_USE.fetch_sub(bytes, Relaxed);
    FREED.fetch_add(1, Relaxed);
}

pub(crate) fn cached(bytes: u64) {
    CACHED.store(bytes, Relaxed);
}

/// The most bytes that were ever in use at once.
pub(crate) fn most() -> u64 {
    MOST.load(Relaxed)
}
