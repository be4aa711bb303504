//! What a back end and the planner see of a program: data only.
//!
//! * [`dtype`]: element types of tensors and the register types that carry them in a kernel.
//! * [`inst`]: the scalar instructions, each with its exact meaning ([`inst::Inst`] is the list).
//! * [`kernel`]: a kernel, structured loops over scalar instructions; [`builder`] makes one.
//! * [`access`]: which results of a kernel may share memory with which operands.
//! * [`program`]: a function as ordered steps over values.
//! * [`mod@print`]: the text form of both; [`verify`]: what a well-formed kernel is; [`interp`]: runs
//!   kernels, slowly and by the letter.
//! * [`linalg`]: what the library's linear algebra means, on single matrices.
//! * [`scratch`]: the memory that library calls need beside their operands and results.
//!
//! No other crate of the workspace is a dependency of this one, so that neither a back end nor the
//! planner can see an op.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod access;
pub mod affine;
pub mod builder;
pub mod contraction;
pub mod dtype;
pub mod inst;
pub mod interp;
pub mod kernel;
pub mod linalg;
pub mod print;
pub mod program;
pub mod scratch;
pub mod thin;
pub mod verify;

pub use affine::Affine;
pub use builder::KernelBuilder;
pub use dtype::{DType, RegType};
pub use inst::{BinaryOp, CastOp, Compare, CompareKind, Inst, UnaryOp};
pub use kernel::{Access, Kernel, ParamId, Reg};
pub use program::{Program, Step, StepKind, ValueId};
