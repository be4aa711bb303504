//! [`Device`]: where arrays are, and how much memory they take there.

use crate::array::{LiveArray, live_arrays};
use jaxrs_runtime::{ArenaPool, MemoryStats, PeakScope};

/// What holds arrays and runs programs. There is one: the host's processor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Device(());

impl Device {
    /// The host's processor.
    pub fn cpu() -> Device {
        Device(())
    }

    /// Bytes in use by arrays and arenas, their peak, the limit, and what is held for reuse.
    ///
    /// ```
    /// use jaxrs::{Array, Device};
    /// let before = Device::cpu().memory_stats().bytes_in_use;
    /// let x = Array::from_vec(vec![0.0f32; 1 << 20]);
    /// assert!(Device::cpu().memory_stats().bytes_in_use >= before + (4 << 20));
    /// # drop(x);
    /// ```
    pub fn memory_stats(self) -> MemoryStats {
        jaxrs_runtime::memory_stats()
    }

    /// Starts a new measurement of the peak.
    pub fn reset_peak(self) {
        jaxrs_runtime::reset_peak();
    }

    /// Runs `f`, and says how memory was used: the peak is that of the time in which `f` ran (of all
    /// threads). Scopes may be nested, and open in several threads at once.
    ///
    /// ```
    /// use jaxrs::{Array, Device};
    /// let (sum, stats) = Device::cpu().memory_scope(|| Array::ones([1 << 20]).sum(..));
    /// assert!(stats.peak_bytes_in_use >= 4 << 20);
    /// # assert_eq!(sum.item::<f32>()?, (1 << 20) as f32);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    pub fn memory_scope<R>(self, f: impl FnOnce() -> R) -> (R, MemoryStats) {
        let scope = PeakScope::new();
        let result = f();
        let stats = MemoryStats { peak_bytes_in_use: scope.peak_bytes(), ..self.memory_stats() };
        (result, stats)
    }

    /// The arrays that have memory, the largest first, with the places that made them.
    pub fn live_arrays(self) -> Vec<LiveArray> {
        live_arrays()
    }

    /// Gives arenas and memory that is held for reuse back to the system.
    pub fn trim(self) {
        ArenaPool::global().trim();
    }

    /// Bytes of the arenas that no call uses now; all executables share them.
    pub fn idle_arena_bytes(self) -> u64 {
        ArenaPool::global().idle_bytes() as u64
    }
}
