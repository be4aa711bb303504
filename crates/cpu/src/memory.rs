//! Executable memory: the machine code of one program, given back when dropped.

use std::ptr::NonNull;

/// Pages that hold machine code, readable and executable.
pub(crate) struct CodeMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pages are never written after `new`, and unmapped only by `drop`.
unsafe impl Send for CodeMemory {}
// SAFETY: as above: shared access only reads and executes.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Pages with a copy of the code after `link` patched it; `link` is told the address at which
    /// the code will stand.
    pub(crate) fn new(
        mut code: Vec<u8>,
        link: impl FnOnce(&mut [u8], usize),
    ) -> std::io::Result<CodeMemory> {
        let bytes = code.len().max(1);
        // SAFETY: a fresh anonymous mapping, no existing memory is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).expect("mmap does not map page 0");
        let memory = CodeMemory { start, bytes };
        link(&mut code, start.as_ptr() as usize);
        // SAFETY: the mapping has at least `code.len()` writable bytes and is ours alone.
        unsafe { start.as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        // SAFETY: the range is the mapping made above; nothing holds a reference into it.
        let status = unsafe {
            libc::mprotect(start.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_EXEC)
        };
        if status != 0 {
            return Err(std::io::Error::last_os_error());
        }
        flush(start.as_ptr(), bytes);
        Ok(memory)
    }

    /// The address of the byte at an offset.
    pub(crate) fn address(&self, offset: usize) -> *const u8 {
        assert!(offset < self.bytes, "an offset in the code");
        self.start.as_ptr().wrapping_add(offset)
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; the executable that owns it is gone, so no code runs in it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Makes new code visible to instruction fetch where the processor does not do it itself.
#[cfg(target_arch = "aarch64")]
fn flush(start: *mut u8, bytes: usize) {
    unsafe extern "C" {
        fn __clear_cache(start: *mut u8, end: *mut u8);
    }
    // SAFETY: the range is a mapping of ours.
    unsafe { __clear_cache(start, start.add(bytes)) };
}

#[cfg(not(target_arch = "aarch64"))]
fn flush(_start: *mut u8, _bytes: usize) {}
