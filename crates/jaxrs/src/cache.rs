//! Bounded caches of compiled code.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::{BuildHasher as _, Hash};
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
///
/// Keys are looked up by their hash and a comparison, so that a caller can look for one without
/// making it.
pub(crate) struct Cache<K, V> {
    capacity: usize,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    /// By hash.
    entries: FxHashMap<u64, Vec<Entry<K, V>>>,
    count: usize,
    clock: u64,
    stats: CacheStats,
}

struct Entry<K, V> {
    key: K,
    value: V,
    used: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// An empty cache of at most so many entries.
    pub fn new(capacity: usize) -> Cache<K, V> {
        let (entries, stats) = (FxHashMap::default(), CacheStats::default());
        let state = State { entries, count: 0, clock: 0, stats };
        Cache { capacity, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of the key with this hash that `is` holds of.
    pub fn find(&self, hash: u64, is: impl Fn(&K) -> bool) -> Option<V> {
        let mut state = self.lock();
        state.clock += 1;
        let clock = state.clock;
        let mut entries = state.entries.get_mut(&hash)?.iter_mut();
        let value = entries.find(|entry| is(&entry.key)).map(|entry| {
            entry.used = clock;
            entry.value.clone()
        });
        state.stats.hits += u64::from(value.is_some());
        value
    }

    /// Keeps a value for a key with this hash.
    pub fn insert(&self, hash: u64, key: K, value: V) {
        let mut state = self.lock();
        state.stats.misses += 1;
        state.clock += 1;
        let used = state.clock;
        if state.count >= self.capacity {
            state.evict();
        }
        state.entries.entry(hash).or_default().push(Entry { key, value, used });
        state.count += 1;
    }

    /// The value of a key; `make` makes it if there is none, while others may use the cache.
    pub fn get_or_insert<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let hash = FxBuildHasher.hash_one(key);
        if let Some(value) = self.find(hash, |other| other == key) {
            return Ok(value);
        }
        let value = make()?;
        self.insert(hash, key.clone(), value.clone());
        Ok(value)
    }

    /// The keys.
    pub fn keys(&self) -> Vec<K> {
        self.lock().entries.values().flatten().map(|entry| entry.key.clone()).collect()
    }

    /// Drops all entries.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.entries.clear();
        state.count = 0;
    }

    /// How it was used.
    pub fn stats(&self) -> CacheStats {
        let state = self.lock();
        CacheStats { entries: state.count, ..state.stats }
    }
}

impl<K, V> State<K, V> {
    /// Drops the entry that was not used for longest.
    fn evict(&mut self) {
        let all = self.entries.iter().flat_map(|(&hash, entries)| {
            entries.iter().enumerate().map(move |(at, entry)| (entry.used, hash, at))
        });
        let Some((_, hash, at)) = all.min_by_key(|&(used, ..)| used) else { return };
        let entries = self.entries.get_mut(&hash).expect("found above");
        entries.swap_remove(at);
        if entries.is_empty() {
            self.entries.remove(&hash);
        }
        self.count -= 1;
        self.stats.evictions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_not_used_for_longest_goes() {
        let cache: Cache<u32, u32> = Cache::new(2);
        let get = |key: u32| cache.get_or_insert(&key, || Ok::<_, ()>(key * 10));
        for key in [1, 2, 1, 3] {
            assert_eq!(get(key), Ok(key * 10));
        }
        let mut keys = cache.keys();
        keys.sort_unstable();
        assert_eq!(keys, [1, 3]);
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.evictions, stats.entries), (1, 3, 1, 2));
    }

    #[test]
    fn keys_of_one_hash_are_told_apart() {
        let cache: Cache<u32, u32> = Cache::new(8);
        cache.insert(0, 1, 10);
        cache.insert(0, 2, 20);
        assert_eq!(cache.find(0, |&key| key == 2), Some(20));
        assert_eq!(cache.find(0, |&key| key == 3), None);
    }
}
