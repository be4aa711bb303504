//! The bytes of one tensor.

use crate::memory::{self, Block};
use std::mem::ManuallyDrop;
use thiserror::Error;

/// No memory for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("out of memory: {bytes} bytes asked for")]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub bytes: usize,
}

/// Bytes aligned to 64, whose memory may be larger than they are and is reused when dropped.
pub struct Buffer {
    block: ManuallyDrop<Block>,
    size: usize,
}

// SAFETY: shared access only reads the bytes.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of this many bytes of any content.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn uninitialized(size: usize) -> Result<Buffer, OutOfMemory> {
        Ok(Buffer { block: ManuallyDrop::new(memory::take(size)?), size })
    }

    /// A buffer without memory.
    pub const fn empty() -> Buffer {
        Buffer { block: ManuallyDrop::new(Block::none()), size: 0 }
    }

    /// Makes room for so many bytes; if there is too little, the buffer is empty afterwards.
    pub(crate) fn reserve(&mut self, size: usize) -> Result<(), OutOfMemory> {
        if self.capacity() < size {
            *self = Buffer::uninitialized(size)?;
            self.size = 0;
        }
        Ok(())
    }

    /// A buffer of zeros.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn zeroed(size: usize) -> Result<Buffer, OutOfMemory> {
        let buffer = Buffer::uninitialized(size)?;
        // SAFETY: the block is ours and has `capacity` bytes.
        unsafe { buffer.as_ptr().write_bytes(0, buffer.capacity()) };
        Ok(buffer)
    }

    /// A copy of the bytes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Buffer, OutOfMemory> {
        let buffer = Buffer::uninitialized(bytes.len())?;
        // SAFETY: the block is new and has room for the bytes.
        unsafe { buffer.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(buffer)
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.size
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Bytes of its memory.
    pub fn capacity(&self) -> usize {
        self.block.bytes
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: every buffer that leaves the crate is initialized: by its constructor, or as the
        // result of a program, which writes all of it.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.size) }
    }

    /// The bytes, to change them.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_bytes`, and the access is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.size) }
    }

    /// The address of the first byte, aligned to 64.
    pub fn as_ptr(&self) -> *mut u8 {
        self.block.start.as_ptr()
    }

    /// Changes the number of bytes, within the memory it has.
    pub(crate) fn set_len(&mut self, size: usize) {
        assert!(size <= self.capacity(), "a result is no larger than its donor's memory");
        self.size = size;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: taken once, here; the buffer is not used afterwards.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        if block.bytes > 0 {
            memory::give(block);
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.size)
    }
}
