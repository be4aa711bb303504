//! Arenas: the memory of a call's intermediate values.

use crate::buffer::OutOfMemory;
use crate::memory::{self, Block};
use std::sync::{Mutex, PoisonError};

/// Arenas that are borrowed for the length of a call. It keeps the largest one that was used (of
/// calls at once: one each), so that all executables of a process share their memory.
#[derive(Default)]
pub struct ArenaPool {
    idle: Mutex<Vec<Block>>,
}

/// A borrowed arena; goes back when dropped.
pub struct Arena<'a> {
    pool: &'a ArenaPool,
    block: Option<Block>,
}

impl ArenaPool {
    /// An empty pool.
    pub const fn new() -> ArenaPool {
        ArenaPool { idle: Mutex::new(Vec::new()) }
    }

    /// The process's pool.
    pub fn global() -> &'static ArenaPool {
        static POOL: ArenaPool = ArenaPool::new();
        &POOL
    }

    /// An arena of at least this many bytes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn borrow(&self, bytes: usize) -> Result<Arena<'_>, OutOfMemory> {
        if bytes == 0 {
            return Ok(Arena { pool: self, block: None });
        }
        let idle = self.lock().pop();
        if let Some(block) = idle {
            if block.bytes >= bytes {
                return Ok(Arena { pool: self, block: Some(block) });
            }
            // Too small: the larger one takes its place.
            memory::give(block);
        }
        Ok(Arena { pool: self, block: Some(memory::take(bytes)?) })
    }

    /// Gives idle arenas back to the system.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut *self.lock());
        idle.into_iter().for_each(memory::give);
        memory::trim();
    }

    /// Bytes of idle arenas.
    pub fn idle_bytes(&self) -> usize {
        self.lock().iter().map(|block| block.bytes).sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Block>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arena<'_> {
    /// The address of the first byte, aligned to 64.
    pub fn as_ptr(&self) -> *mut u8 {
        match &self.block {
            Some(block) => block.start.as_ptr(),
            // Aligned, and never read.
            None => std::ptr::without_provenance_mut(memory::ALIGNMENT),
        }
    }
}

impl Drop for Arena<'_> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            let mut idle = self.pool.lock();
            idle.push(block);
            idle.sort_unstable_by_key(|block| block.bytes);
        }
    }
}
