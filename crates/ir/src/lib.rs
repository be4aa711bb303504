//! StableHLO as an SSA intermediate representation.
//!
//! * [`types`], [`literal`], [`function`]: tensor types, constant tensors, modules and functions.
//! * [`ops`]: every op: one row of [`ops::elementwise`], or one file of [`ops`] implementing
//!   [`ops::StructuredOp`].
//! * [`text`]: parser and printer of StableHLO text.
//! * [`verify`]: what a well-formed module is.
//! * [`interpret`]: the reference semantics, plain and slow.
//! * [`lower`]: how an op describes itself to kernels.
//! * [`builder`]: appends ops whose result types are inferred; [`linalg`]: linear algebra of them;
//!   [`transform`]: derivatives and batching of functions.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod attribute;
pub mod builder;
pub mod copy;
pub mod cost;
pub mod error;
pub mod function;
pub mod interpret;
pub mod linalg;
pub mod literal;
pub mod lower;
pub mod ops;
pub mod region;
#[cfg(test)]
mod testing;
pub mod text;
pub mod transform;
pub mod types;
pub mod verify;

pub use attribute::{Attribute, Attributes};
pub use error::{Error, Errors, Location};
pub use function::{Block, BlockId, Function, Module, OpData, OpId, ValueDef, ValueId};
pub use jaxrs_kernel::DType;
pub use literal::Literal;
pub use ops::Op;
pub use types::TensorType;
