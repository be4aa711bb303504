//! Machine code with Cranelift: the one module that knows its interface.
//!
//! [`nest`] writes a kernel's loops, [`scalar`] its instructions one element at a time, [`entry`]
//! the function that runs a program's steps; [`target`] compiles what they write.

pub(crate) mod entry;
pub(crate) mod nest;
pub(crate) mod scalar;
pub(crate) mod target;

use crate::CompileError;
use cranelift_codegen::ir::types;
use jaxrs_kernel::Kernel;
use target::{Code, Target, Texts, Workspace};

/// Compiles a kernel to a `fn(ptrs: *const *mut u8, lo: i64, hi: i64)`.
pub(crate) fn compile_kernel(
    target: &Target,
    work: &mut Workspace,
    texts: Texts,
    kernel: &Kernel,
) -> Result<Code, CompileError> {
    target.compile(work, &[types::I64; 3], texts, |builder| {
        nest::emit_kernel(builder, target, kernel);
    })
}
