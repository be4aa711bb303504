//! The SSA function that a step stands for.

use super::Builder;
use crate::passes::region;
use jaxrs_ir::copy::Copied;
use jaxrs_ir::{Function, OpId, ValueId};
use jaxrs_kernel::program::OriginId;
use rustc_hash::FxHashSet;

impl Builder<'_> {
    /// The function that computes `results` from `operands`, kept with the program.
    pub(super) fn origin(&mut self, operands: &[ValueId], results: &[ValueId]) -> OriginId {
        let origin = function_between(self.function, operands, results);
        self.origins.push(origin)
    }
}

/// A function whose parameters are `operands`, and whose ops are those that `results` need of the
/// ops between. An operand may be named twice.
pub(crate) fn function_between(
    from: &Function,
    operands: &[ValueId],
    results: &[ValueId],
) -> Function {
    let mut to = Function::new("main");
    let mut copied = Copied::default();
    for &operand in operands {
        let parameter = to.add_parameter(from.ty(operand).clone());
        copied.values.insert(operand, parameter);
    }
    let known = copied.values.keys().copied().collect();
    let body = to.body;
    for op in ops_between(from, known, results) {
        copied.op(from, op, &mut to, body);
    }
    to.blocks[body].yields = copied.all(results);
    to.result_attributes = vec![Default::default(); results.len()];
    to
}

/// The ops that `results` need, given the values `known`, each after the ops it needs.
pub(crate) fn ops_between(
    from: &Function,
    known: FxHashSet<ValueId>,
    results: &[ValueId],
) -> Vec<OpId> {
    let mut done = known;
    let mut out = Vec::new();
    // A value, and whether its operands have been visited.
    let mut stack: Vec<(ValueId, bool)> = results.iter().rev().map(|&v| (v, false)).collect();
    while let Some((value, ready)) = stack.pop() {
        if done.contains(&value) {
            continue;
        }
        let op = from.defining_op(value).expect("an argument is among the operands");
        let data = &from.ops[op];
        if ready {
            done.extend(&data.results);
            out.push(op);
            continue;
        }
        stack.push((value, true));
        let captures =
            if data.regions.is_empty() { Vec::new() } else { region::captures(from, op) };
        for &operand in data.operands.iter().chain(&captures) {
            if !done.contains(&operand) {
                stack.push((operand, false));
            }
        }
    }
    out
}
