//! How an op describes itself to kernels.
//!
//! [`Lowering`] is what an op says of itself; [`Emitter`] builds a kernel from such descriptions:
//! reading an operand's element either loads it or, where the operand is fused into the kernel,
//! emits its op's description of that element in place. Fusion is this substitution.

#[cfg(test)]
mod chains;
mod emitter;
mod loops;
#[cfg(test)]
mod stencils;

pub use emitter::{Emitter, Read, Scalar, linear};
pub use loops::{clamped_index, nest, start_index, widened};

use jaxrs_kernel::Affine;
use jaxrs_kernel::program;

/// An element of a result at an index.
pub type ElementFn<'a> = dyn Fn(&mut Emitter<'_>, usize, &[Affine]) -> Scalar + 'a;
/// Loops that write every result.
pub type LoopsFn<'a> = dyn Fn(&mut Emitter<'_>) + 'a;

/// What an op is to a kernel.
pub enum Lowering<'a> {
    /// Every element of a result by itself: the function gives result `n`'s element at an index,
    /// reading operands through [`Emitter::read`]. It may contain loops (a reduction).
    Elements {
        /// The function.
        element: Box<ElementFn<'a>>,
        /// What computing one element costs.
        cost: ElementCost,
    },
    /// Loops of its own that read operands and write results.
    Loops {
        /// (result, operand): the result starts as the operand's content, and the loops change it.
        updates: Vec<(u32, u32)>,
        /// The loops.
        emit: Box<LoopsFn<'a>>,
    },
    /// Each result has the bytes of the operand of its position unchanged.
    View,
    /// A library call on whole operands.
    Library(program::Library),
    /// Control flow, built by whoever builds the program: `while`, `case`, `if`, `call`.
    Control,
}

/// What computing one element of a result costs, apart from reading operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ElementCost {
    /// Index arithmetic, or next to nothing: always computed again rather than stored.
    Free,
    /// A few instructions.
    Cheap,
    /// A division, a transcendental function: tens of instructions.
    Expensive,
    /// A loop over this many operand elements.
    Loop(u64),
}
