//! `x > 0` asked of `maximum(x, 0)` instead, where that is computed before: the gradient of a
//! rectifier then needs its result only, which the next layer needs anyway, and not its operand.

use super::rewrite;
use jaxrs_ir::ops::compare::Order;
use jaxrs_ir::{Function, Op, ValueId};
use jaxrs_kernel::Compare;
use rustc_hash::FxHashMap;

/// Rewrites every such comparison.
pub fn run(function: &mut Function) {
    let mut rectified: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    rewrite::run(function, &mut |r, op| {
        let data = &r.f.ops[op];
        let zero = |v: ValueId| {
            let positive = |l: &jaxrs_ir::Literal| {
                l.ty().dtype.is_float() && l.as_splat().is_some() && l.bits(0, 0) == 0
            };
            r.literal(v).is_some_and(positive)
        };
        match (&data.op, &data.operands[..]) {
            // Only the body's own values are in sight of all that follows.
            (Op::Elementwise(e), &[a, b])
                if e.name() == "stablehlo.maximum" && r.block == r.f.body =>
            {
                if zero(b) {
                    rectified.insert(a, data.results[0]);
                } else if zero(a) {
                    rectified.insert(b, data.results[0]);
                }
            }
            (Op::Compare(c), &[x, y])
                if c.direction == Compare::Gt && c.order != Some(Order::Total) && zero(y) =>
            {
                if let Some(&positive) = rectified.get(&x) {
                    r.f.ops[op].operands[0] = positive;
                }
            }
            _ => {}
        }
        None
    });
}
