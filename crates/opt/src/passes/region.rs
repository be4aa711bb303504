//! What regions are to the passes.

pub use jaxrs_ir::region::{captures, captures_of_block};
use jaxrs_ir::{Function, Op, OpId};

/// Whether the op's regions are control flow, whose ops work on tensors of any shape and are
/// steps of their own; the regions of other ops combine single elements.
pub fn is_control(function: &Function, op: OpId) -> bool {
    matches!(function.ops[op].op, Op::While(_) | Op::Case(_) | Op::If(_))
}
