//! The memory plan: which bytes each value of a program lives in, decided before it runs.
//!
//! [`plan`](fn@plan) is the pipeline: schedule, alias, donate, pack, validate.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

use cranelift_entity::SecondaryMap;
use jaxrs_kernel::program::{Bytes, ConstantId, Program, StepId, ValueId};
use rustc_hash::FxHashMap;

/// A region of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// The arena of a call.
    Arena,
    /// An argument's buffer.
    Argument(u32),
    /// A result's buffer.
    Output(u32),
    /// A constant.
    Constant(ConstantId),
}

/// Where a value lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The region.
    pub region: Region,
    /// Its first byte in the region.
    pub offset: Bytes,
}

/// A program with the place of each of its values.
///
/// Every result `i` is complete at the end in `results[i]`: `Region::Output(i)` at offset 0, or
/// `Region::Argument(a)` at offset 0 for a donated argument `a` that the result takes over. No two
/// results name one region.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The program, in its final order, with the copies that the plan needs as steps.
    pub program: Program,
    /// The place of each value that has bytes; of a tile's local values None.
    pub places: SecondaryMap<ValueId, Option<Place>>,
    /// The offset in the arena of each step's scratch, `threads` times its per-thread bytes.
    pub scratch: FxHashMap<StepId, Bytes>,
    /// Where each result is at the end.
    pub results: Vec<Region>,
    /// Threads the scratch is planned for.
    pub threads: u32,
    /// Bytes of the arena.
    pub arena: Bytes,
}
