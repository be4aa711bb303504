//! The memory of library calls that is no value: what the planner places and the library uses.

use crate::program::{Bytes, Library, Scratch};

/// Most bytes for each thread of a contraction or a sort.
pub const LIMIT: u64 = 1 << 20;

/// The scratch of a library call. A library must make do with it.
pub fn scratch(library: &Library) -> Scratch {
    let bytes = match library {
        Library::Dot(_) | Library::Convolution(_) | Library::Sort(_) => LIMIT,
        Library::TopK { .. } => 0,
    };
    Scratch { per_thread: Bytes(bytes).aligned() }
}
