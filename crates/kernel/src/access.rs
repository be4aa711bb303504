//! When a kernel's results may share memory with its operands.

use crate::kernel::{Kernel, ParamId};
use crate::program::Sharing;
use cranelift_entity::EntityRef;

/// For each result, for each of the first `operands` parameters: whether they may share memory.
pub fn sharing(kernel: &Kernel, operands: usize) -> Vec<Vec<Sharing>> {
    let results = operands..kernel.params.len();
    results.map(|_| (0..operands).map(|o| unread(kernel, ParamId::new(o))).collect()).collect()
}

/// An operand without an element leaves nothing to spoil.
fn unread(kernel: &Kernel, operand: ParamId) -> Sharing {
    if kernel.params[operand].len == 0 { Sharing::AfterFullRead } else { Sharing::Never }
}
