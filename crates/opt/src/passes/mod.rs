//! Rewrites of the SSA function, one file each. Each is close to linear in the number of ops.

pub mod copy;
pub mod dce;
pub mod inline;
pub mod region;
