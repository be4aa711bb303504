//! Bounded caches of compiled code.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a cache was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Calls that found an entry.
    pub hits: u64,
    /// Calls that made one.
    pub misses: u64,
    /// Entries dropped to make room.
    pub evictions: u64,
    /// Entries now.
    pub entries: usize,
}

/// Values by key; when it is full, the one that was not used for longest goes.
pub(crate) struct Cache<K, V> {
    capacity: usize,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    entries: FxHashMap<K, (V, u64)>,
    clock: u64,
    stats: CacheStats,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// An empty cache of at most so many entries.
    pub fn new(capacity: usize) -> Cache<K, V> {
        let state = State { entries: FxHashMap::default(), clock: 0, stats: CacheStats::default() };
        Cache { capacity, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut state = self.lock();
        state.clock += 1;
        let clock = state.clock;
        let found = state.entries.get_mut(key).map(|(value, used)| {
            *used = clock;
            value.clone()
        });
        state.stats.hits += u64::from(found.is_some());
        found
    }

    /// Keeps a value.
    pub fn insert(&self, key: K, value: V) {
        let mut state = self.lock();
        state.stats.misses += 1;
        state.clock += 1;
        let clock = state.clock;
        if state.entries.len() >= self.capacity
            && let Some(oldest) =
                state.entries.iter().min_by_key(|(_, (_, used))| *used).map(|(k, _)| k.clone())
        {
            state.entries.remove(&oldest);
            state.stats.evictions += 1;
        }
        state.entries.insert(key, (value, clock));
    }

    /// The value of a key; `make` makes it if there is none, while others may use the cache.
    pub fn get_or_insert<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        let value = make()?;
        self.insert(key.clone(), value.clone());
        Ok(value)
    }

    /// The keys.
    pub fn keys(&self) -> Vec<K> {
        self.lock().entries.keys().cloned().collect()
    }

    /// Drops all entries.
    pub fn clear(&self) {
        self.lock().entries.clear();
    }

    /// How it was used.
    pub fn stats(&self) -> CacheStats {
        let state = self.lock();
        CacheStats { entries: state.entries.len(), ..state.stats }
    }
}
