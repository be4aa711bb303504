//! Functions that compiled code calls: arithmetic without an instruction of its own, and the
//! services of the runtime.

use crate::executable::Context;
use crate::pool::{KernelFn, run_kernel};

/// A function compiled code may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(crate) enum Helper {
    RemF32,
    RemF64,
    FmaF32,
    FmaF64,
    ParallelFor,
    Copy,
    Fill,
    Library,
    Hook,
    Tile,
}

impl Helper {
    /// Every helper, at the position of its number.
    pub(crate) const ALL: [Helper; 10] = [
        Helper::RemF32,
        Helper::RemF64,
        Helper::FmaF32,
        Helper::FmaF64,
        Helper::ParallelFor,
        Helper::Copy,
        Helper::Fill,
        Helper::Library,
        Helper::Hook,
        Helper::Tile,
    ];

    /// Where it stands.
    pub(crate) fn address(self) -> usize {
        match self {
            Helper::RemF32 => rem_f32 as *const () as usize,
            Helper::RemF64 => rem_f64 as *const () as usize,
            Helper::FmaF32 => fma_f32 as *const () as usize,
            Helper::FmaF64 => fma_f64 as *const () as usize,
            Helper::ParallelFor => parallel_for as *const () as usize,
            Helper::Copy => copy as *const () as usize,
            Helper::Fill => fill as *const () as usize,
            Helper::Library => library as *const () as usize,
            Helper::Hook => hook as *const () as usize,
            Helper::Tile => tile as *const () as usize,
        }
    }
}

extern "C" fn rem_f32(a: f32, b: f32) -> f32 {
    a % b
}

extern "C" fn rem_f64(a: f64, b: f64) -> f64 {
    a % b
}

extern "C" fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

extern "C" fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

/// Runs a kernel over `[0, range)` on all threads, in pieces of at least `grain`.
unsafe extern "C" fn parallel_for(
    context: *const Context,
    kernel: KernelFn,
    ptrs: *const *mut u8,
    range: i64,
    grain: i64,
) {
    // SAFETY: the entry passes the context it was called with, which outlives the call, and
    // pointers that are valid for the kernel over the whole range.
    unsafe { run_kernel((*context).pool(), kernel, ptrs, range, grain) };
}

/// The body of a tile: context, first block, end block, the thread's scratch.
type TileFn = unsafe extern "C" fn(*const Context, i64, i64, *mut u8);

/// Runs a tile's blocks on all threads.
unsafe extern "C" fn tile(
    context: *const Context,
    body: TileFn,
    scratch: *mut u8,
    per_thread: u64,
    blocks: i64,
) {
    /// What the threads share.
    struct Shared(*const Context, *mut u8);
    // SAFETY: the context is shared by design; each thread uses its own part of the scratch.
    unsafe impl Sync for Shared {}
    let shared = Shared(context, scratch);
    // SAFETY: the entry passes the context it was called with, which outlives the call.
    let pool = unsafe { (*context).pool() };
    pool.run(blocks, 1, |lo, hi, thread| {
        let shared = &shared;
        let mine = shared.1.wrapping_add(thread * per_thread as usize);
        // SAFETY: blocks are disjoint rows; the plan has scratch for each of the pool's threads.
        unsafe { body(shared.0, lo, hi, mine) };
    });
}

/// Copies bytes between ranges that may overlap.
unsafe extern "C" fn copy(_context: *const Context, to: *mut u8, from: *const u8, bytes: u64) {
    // SAFETY: both are places of values of `bytes` bytes in regions the caller of the entry
    // promised to be valid.
    unsafe { std::ptr::copy(from, to, bytes as usize) };
}

/// Fills a range with the byte 0xFF, a NaN in every float type.
unsafe extern "C" fn fill(_context: *const Context, to: *mut u8, bytes: u64) {
    // SAFETY: the range lies in a region that the plan lets the program write at this point.
    unsafe { std::ptr::write_bytes(to, 0xff, bytes as usize) };
}

/// Calls a prepared library step.
unsafe extern "C" fn library(
    context: *const Context,
    index: u64,
    ptrs: *const *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: the context outlives the call; the pointers are the step's places in regions the
    // caller of the entry promised to be valid.
    unsafe {
        let context = &*context;
        context.library(index).run(context.pool(), ptrs, scratch);
    }
}

/// Tells the hooks that a step is about to run (`when` 0) or has run (`when` 1).
unsafe extern "C" fn hook(context: *const Context, step: u64, when: u64) {
    // SAFETY: the context outlives the call.
    unsafe { (*context).hook(step as u32, when != 0) };
}
