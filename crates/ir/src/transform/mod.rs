//! Derivatives and batching of functions.
//!
//! Each transform walks a function and appends, op by op, what the op's rules ([`Rules`]) say:
//! * [`jvp()`]: results and their tangents, side by side (forward mode);
//! * [`linearize`]: the results, with the values that their tangents need, and apart from that the
//!   function from tangents to tangents, which is linear;
//! * [`transpose()`]: of a linear function the function from cotangents to cotangents. Reverse mode
//!   is `linearize`, then `transpose`;
//! * [`batch()`]: the function over arrays that have one axis more, the first one.
//!
//! Functions have no calls (the front end inlines them). A region that uses values of enclosing
//! blocks is first made a function of its own ([`crate::region::extract`]).
//!
//! The split of reverse mode into forward mode and transposition is that of JAX (Frostig et al.,
//! "Decomposing reverse-mode automatic differentiation", 2021).

mod batch;
mod jvp;
mod lower;
mod partial;
#[cfg(test)]
pub(crate) mod testing;
mod transpose;

pub use batch::{Batch, Batched, batch};
pub use jvp::{Jvp, Jvped, Linearized, is_differentiable, jvp, linearize};
pub use lower::lower;
pub use partial::{Split, backward_slice, prune, split};
pub(crate) use partial::{invariant, needed, with_effects};
pub(crate) use transpose::transpose_some;
pub use transpose::{Transposition, transpose};

use crate::error::Error;
use crate::function::{Function, OpId};
use crate::ops::{OpView, StructuredOp};

/// What a rule gives: nothing (it has told the context), or why it does not apply.
pub type Rule = Result<(), String>;

/// The derivative and batching rules of an op. They append ops to the context's builders and bind
/// the op's results there.
pub trait Rules: StructuredOp {
    /// Appends the op on the primal operands and what gives the tangents of its results; called
    /// only where some operand or captured value has a tangent.
    ///
    /// Tangents are emitted by [`Jvp::linear`], from tangents and [`Jvp::residual`]s only, by ops
    /// whose [`Rules::transpose`] is there.
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule;

    /// For an op of a linear function that depends on linear operands: appends what gives the
    /// cotangents of these from those of the results.
    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule;

    /// Appends the op over operands of which some have a batch axis, the first one; called only
    /// where some operand or captured value has one.
    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule;
}

/// The error of an op for which there is, by decision, no such rule.
pub fn none(op: OpView<'_>, what: &str, why: &str) -> Rule {
    Err(format!("{} has no {what}: {why}", op.data().op.name()))
}

/// A rule's error with the op's place.
fn at(function: &Function, op: OpId, message: String) -> Error {
    Error::new(message, &function.ops[op].location)
}
