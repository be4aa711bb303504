//! Takes optimization barriers out, once nothing is left that would merge or move what they keep
//! apart: to kernels and steps they are nothing.

use super::rewrite;
use jaxrs_ir::{Function, Op};

/// Removes every barrier.
pub fn run(function: &mut Function) {
    rewrite::run(function, &mut |r, op| match r.f.ops[op].op {
        Op::OptimizationBarrier(_) => Some(r.f.ops[op].operands.clone()),
        _ => None,
    });
}
