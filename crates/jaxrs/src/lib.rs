//! An ahead-of-time tracing JIT compiler for array programs whose memory plan is exact and visible.
//!
//! * [`Array`] is a tensor; operations on it run at once, or are recorded while a function is traced.
//! * [`grad`], [`vmap`] and the other transforms take a closure and give one.
//! * [`compile`] is the pipeline from StableHLO to a planned native executable. [`tensor`] reads and
//!   writes tensors, [`compare`] compares them, [`check`] runs StableHLO's own test programs.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod array;
mod cache;
pub mod check;
mod checked;
pub mod compare;
pub mod compile;
mod control;
pub mod debug;
mod device;
mod donation;
mod dump;
mod eager;
mod error;
pub mod fft;
pub mod files;
mod import;
mod invoke;
pub mod jit;
pub mod linalg;
mod nans;
pub mod nn;
pub mod random;
mod stages;
pub mod tensor;
mod trace;
mod transform;
pub mod tree;

// What `#[jit]` and `#[derive(Tree)]` expand to names the crate from outside.
extern crate self as jaxrs;

pub use array::{Array, Element, LiveArray, NewAxis, Operand, Scalar, keep, live_arrays};
pub use cache::CacheStats;
pub use control::{
    Policy, associative_scan, checkpoint, checkpoint_policy, cond, custom_jvp, custom_vjp,
    fori_loop, map, map_batched, scan, scan_reverse, stop_gradient, switch, while_loop,
};
pub use device::Device;
pub use donation::{DonationReport, donation_report};
pub use eager::eager_cache_stats;
pub use error::{Error, Place, Result};
pub use import::import;
pub use jaxrs_ir::{DType, TensorType};
pub use jaxrs_macros::{Tree, jit};
pub use jaxrs_runtime::MemoryStats;
pub use jit::{disable_jit, jit, jit_donate};
pub use stages::{Compiled, CostAnalysis, Lowered, MemoryAnalysis, MemoryPlan, eval_shape};
pub use transform::{
    grad, hessian, jacfwd, jacrev, jvp, linearize, value_and_grad, value_and_grad_aux, vjp, vmap,
    vmap_axes,
};
pub use tree::Tree;

/// What most programs use.
pub mod prelude {
    pub use crate::{
        Array, DType, Element, NewAxis, Policy, Scalar, Tree, associative_scan, checkpoint,
        checkpoint_policy, cond, custom_jvp, custom_vjp, fori_loop, grad, hessian, i, jacfwd,
        jacrev, jit, jit_donate, jvp, keep, linearize, map_batched, nn, scan, scan_reverse,
        stop_gradient, switch, value_and_grad, value_and_grad_aux, vjp, vmap, vmap_axes,
        while_loop,
    };
}
