//! An ahead-of-time compiler for array programs whose memory plan is exact and visible.
//!
//! [`compile`] is the pipeline: StableHLO text to a planned native executable. [`tensor`] reads and
//! writes tensors, [`compare`] compares them, [`check`] runs StableHLO's own test programs.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod check;
mod checked;
pub mod compare;
pub mod compile;
pub mod tensor;
