//! The memory plan: which bytes each value of a program lives in, decided before it runs.
//!
//! [`plan`](fn@plan) is the whole of it; `pipeline` reads like a table of contents. Modules:
//! * `walk`: owners of bytes, and the one time line of steps; `liveness`: when bytes are in use.
//! * `split`: cheap values are made again rather than copied; `schedule`: the order of the steps,
//!   readers before the in-place writer; `unroll`: loops whose carries change places, repeated
//!   until they are back.
//! * `classes`, `alias`, `donate`, `share`: values that share memory; `copies`, `rename`,
//!   `readers`, `refusal`: the copies without which they cannot, and why; what is not shared, and why.
//! * `regions` and [`pack`]: the arena, and results and dead arguments as room for others.
//! * [`validate`]: an independent check; [`report`]: the plan for people and scripts.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod alias;
mod classes;
mod copies;
mod donate;
mod liveness;
pub mod pack;
mod pipeline;
mod readers;
mod refusal;
mod regions;
mod rename;
pub mod report;
mod schedule;
mod share;
mod split;
mod unroll;
pub mod validate;
mod walk;

pub use pipeline::{plan, plan_if};

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
///
/// A loop's initial value, carry, next value and result of one position have one place, and so have
/// a branch's results and the step's; a step's result has the place of the operand it updates.
/// Values without bytes have no place.
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
    /// How the plan came about, for the report.
    pub notes: Notes,
}

impl Planned {
    /// The bytes of the arena up to the last that is not scratch.
    pub fn values_height(&self) -> Bytes {
        let roots = walk::Roots::new(&self.program);
        let end = |(value, place): (ValueId, &Option<Place>)| match place {
            Some(Place { region: Region::Arena, offset }) if roots.root(value).value == value => {
                offset.0 + self.program.values[value].bytes().aligned().0
            }
            Some(_) | None => 0,
        };
        Bytes(self.places.iter().map(end).max().unwrap_or(0))
    }
}

/// What a report needs beside the places.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// The copies, in the program's order.
    pub copies: Vec<CopyNote>,
    /// The donated arguments.
    pub donations: Vec<DonationNote>,
    /// Half-open ranges of points in which each value that owns bytes is in use.
    pub live: SecondaryMap<ValueId, Vec<(u32, u32)>>,
    /// The same for steps with scratch.
    pub scratch_live: FxHashMap<StepId, (u32, u32)>,
    /// A number for each piece of storage: values of one may overlap.
    pub buffer: SecondaryMap<ValueId, u32>,
    /// No arena for this order and these classes is smaller.
    pub lower_bound: Bytes,
    /// What this order was expected to need of the arena, before anything was placed.
    pub order_expected: Bytes,
    /// No order of the steps, without more copies, needs a smaller arena.
    pub order_bound: Bytes,
    /// What placed the arena.
    pub solver: &'static str,
    /// The order of the steps that was chosen.
    pub order: &'static str,
    /// What the plan took.
    pub spent: Spent,
}

/// What a plan took, in counts that are the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Steps run while their order was searched.
    pub steps: u64,
    /// Orders that were planned.
    pub orders: u64,
    /// Times the classes of values were made, once and after each round of copies.
    pub rounds: u64,
    /// Comparisons of two values while they were placed.
    pub comparisons: u64,
}

impl Spent {
    fn add(&mut self, other: Spent) {
        self.steps += other.steps;
        self.orders += other.orders;
        self.rounds += other.rounds;
        self.comparisons += other.comparisons;
    }
}

/// A copy in the planned program.
#[derive(Clone, Debug)]
pub struct CopyNote {
    /// The step.
    pub step: StepId,
    /// What is copied.
    pub value: ValueId,
    /// How much.
    pub bytes: Bytes,
    /// Why.
    pub reason: String,
}

/// What became of a donated argument.
#[derive(Clone, Debug)]
pub struct DonationNote {
    /// The argument.
    pub argument: u32,
    /// Its bytes.
    pub bytes: Bytes,
    /// What its buffer is used as.
    pub used_as: UsedAs,
    /// The result that takes it over.
    pub output: Option<u32>,
    /// Why it holds no result, or why not the one that the source names.
    pub reason: String,
}

/// What a donated buffer is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedAs {
    /// A result lives in it at the end.
    Output,
    /// Other values live in it.
    Scratch,
    /// Nothing.
    None,
}

/// What a plan is made for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that run a step.
    pub threads: u32,
    /// Pair donated arguments with results only as the source names them.
    pub strict_aliases: bool,
    /// Check the plan with [`validate::validate`].
    pub validate: bool,
    /// What the planner may use.
    pub ideas: Ideas,
}

/// A switch for each idea of the planner, so that a report can say what each one saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ideas {
    /// Steps in another order than the source's.
    pub reorder: bool,
    /// Results in the memory of operands that die, where nothing demands it.
    pub in_place: bool,
    /// Other values in donated arguments and in results before they are written.
    pub rooms: bool,
    /// The packer's search; without it values are placed in program order, each as low as it fits.
    pub packing: bool,
}

impl Default for Ideas {
    fn default() -> Ideas {
        Ideas { reorder: true, in_place: true, rooms: true, packing: true }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 1,
            strict_aliases: false,
            validate: cfg!(debug_assertions),
            ideas: Ideas::default(),
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// The planner contradicts itself.
    #[error("the planner is at fault: {0}")]
    Internal(String),
    /// The validator refuses the plan.
    #[error("the plan is wrong: {0}")]
    Invalid(#[from] validate::Violation),
    /// A pair that the source names and that is to be kept cannot be.
    #[error("argument {argument} cannot become result {result} as the source names it: {reason}")]
    Alias {
        /// The donated argument.
        argument: u32,
        /// The result.
        result: u32,
        /// Why not.
        reason: String,
    },
}
