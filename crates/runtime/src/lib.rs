//! What programs run on: buffers, arenas, and calls with donation.
//!
//! * [`Buffer`]: the bytes of one tensor, aligned to 64, from the process's `memory` pool, so
//!   that a result of a repeated call finds pages that are already mapped.
//! * [`ArenaPool`]: arenas, borrowed for the length of a call and shared by all executables.
//! * [`Executable`]: what a back end makes of a program; [`call()`] runs it safely.
//! * `stats`: how much memory is in use.
#![deny(missing_docs)]

mod arena;
mod buffer;
mod call;
mod memory;
mod print;
mod stats;

pub use arena::{Arena, ArenaPool};
pub use buffer::{Buffer, OutOfMemory};
pub use call::{Argument, CallError, CallReport, Lent, call, call_into};
pub use executable::{ArgumentInfo, Executable, Interface, ResultInfo, TensorInfo};
pub use memory::trim;
pub use print::{Printer, print, set_printer};
pub use stats::{MemoryStats, PeakScope, memory_stats, reset_peak};

mod executable;
