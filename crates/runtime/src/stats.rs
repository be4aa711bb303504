//! How much memory buffers and arenas take.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static IN_USE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
static CACHED: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static REUSED: AtomicU64 = AtomicU64::new(0);

/// The process's buffers and arenas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes of live buffers and arenas.
    pub bytes_in_use: u64,
    /// The most bytes that were in use at once since the start or [`reset_peak`].
    pub peak_bytes_in_use: u64,
    /// Bytes held for reuse.
    pub cached_bytes: u64,
    /// Buffers and arenas made so far.
    pub allocations: u64,
    /// Those of them whose memory had been used before.
    pub reused: u64,
}

/// The figures now.
pub fn memory_stats() -> MemoryStats {
    MemoryStats {
        bytes_in_use: IN_USE.load(Relaxed),
        peak_bytes_in_use: PEAK.load(Relaxed),
        cached_bytes: CACHED.load(Relaxed),
        allocations: ALLOCATIONS.load(Relaxed),
        reused: REUSED.load(Relaxed),
    }
}

/// Starts a new measurement of the peak.
pub fn reset_peak() {
    PEAK.store(IN_USE.load(Relaxed), Relaxed);
}

pub(crate) fn taken(bytes: u64, reused: bool) {
    let now = IN_USE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
    ALLOCATIONS.fetch_add(1, Relaxed);
    REUSED.fetch_add(u64::from(reused), Relaxed);
}

pub(crate) fn given_back(bytes: u64) {
    IN_USE.fetch_sub(bytes, Relaxed);
}

pub(crate) fn cached(bytes: u64) {
    CACHED.store(bytes, Relaxed);
}

pub(crate) fn peak() -> u64 {
    PEAK.load(Relaxed)
}
