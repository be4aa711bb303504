//! Kernels and programs to native code; library steps; threads.

pub mod library;
pub mod pool;
