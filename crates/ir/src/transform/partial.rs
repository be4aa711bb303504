//! Parts of functions: what a result needs, and what can be computed before some of the parameters
//! are known.

use crate::copy::Copied;
use crate::function::{BlockId, Function, OpId, ValueId};
use crate::ops::Op;
use crate::region;
use rustc_hash::FxHashSet;

/// The values of its block that an op uses, regions included.
fn uses(function: &Function, op: OpId) -> Vec<ValueId> {
    let data = &function.ops[op];
    let mut uses = data.operands.clone();
    if !data.regions.is_empty() {
        uses.extend(region::captures(function, op));
    }
    uses
}

/// Whether an op does something beside giving results.
fn has_effect(function: &Function, op: OpId) -> bool {
    let data = &function.ops[op];
    let inside = |&region: &BlockId| {
        function.blocks[region].ops.iter().any(|&inner| has_effect(function, inner))
    };
    match &data.op {
        Op::CustomCall(call) => !call.is_identity(),
        Op::Check(_) | Op::Print(_) => true,
        _ => data.regions.iter().any(inside),
    }
}

/// Drops the ops of the body that no result needs; the values that are used, parameters among
/// them.
pub fn prune(function: &mut Function) -> FxHashSet<ValueId> {
    let mut used: FxHashSet<ValueId> = function.results().iter().copied().collect();
    let mut kept = Vec::new();
    for &op in function.blocks[function.body].ops.iter().rev() {
        let data = &function.ops[op];
        if has_effect(function, op) || data.results.iter().any(|v| used.contains(v)) {
            used.extend(uses(function, op));
            kept.push(op);
        }
    }
    kept.reverse();
    let body = function.body;
    function.blocks[body].ops = kept;
    used
}

/// What values of the body need: all that is used for them, but not what is used for the results of
/// ops that are `given`; with the results of these that are used.
pub(crate) fn needed(
    function: &Function,
    values: &[ValueId],
    given: impl Fn(OpId) -> bool,
) -> (FxHashSet<ValueId>, Vec<ValueId>) {
    let mut used: FxHashSet<ValueId> = values.iter().copied().collect();
    let mut kept = Vec::new();
    for &op in function.blocks[function.body].ops.iter().rev() {
        let wanted = function.ops[op].results.iter().filter(|v| used.contains(v));
        let wanted: Vec<ValueId> = wanted.copied().collect();
        if wanted.is_empty() {
            continue;
        }
        if given(op) && !is_splat(&function.ops[op].op) {
            kept.extend(wanted);
        } else {
            used.extend(uses(function, op));
        }
    }
    (used, kept)
}

/// The function from the values `from`, which are parameters or made in the body, to the values
/// `to`, if these need no other parameters than `from`. What ops do beside that is left out.
pub fn backward_slice(function: &Function, from: &[ValueId], to: &[ValueId]) -> Function {
    slice(function, from, to, false)
}

/// [`backward_slice`] with all that the function does beside giving results; `from` has all its
/// parameters.
pub(crate) fn with_effects(function: &Function, from: &[ValueId], to: &[ValueId]) -> Function {
    slice(function, from, to, true)
}

fn slice(function: &Function, from: &[ValueId], to: &[ValueId], effects: bool) -> Function {
    let mut out = Function::new("part");
    let mut copied = Copied::default();
    for &value in from {
        let parameter = out.add_parameter(function.ty(value).clone());
        copied.values.insert(value, parameter);
    }
    let mut used: FxHashSet<ValueId> = to.iter().copied().collect();
    let mut kept = Vec::new();
    for &op in function.blocks[function.body].ops.iter().rev() {
        let needed = |v: &ValueId| used.contains(v) && !from.contains(v);
        if function.ops[op].results.iter().any(needed) || effects && has_effect(function, op) {
            used.extend(uses(function, op));
            kept.push(op);
        }
    }
    let body = out.body;
    for op in kept.into_iter().rev() {
        let given: Vec<(ValueId, ValueId)> = function.ops[op]
            .results
            .iter()
            .filter(|v| from.contains(v))
            .map(|v| (*v, copied.values[v]))
            .collect();
        copied.op(function, op, &mut out, body);
        copied.values.extend(given);
    }
    set_results(&mut out, copied.all(to));
    out
}

fn set_results(function: &mut Function, results: Vec<ValueId>) {
    function.result_attributes = vec![Default::default(); results.len()];
    let body = function.body;
    function.blocks[body].yields = results;
}

/// A function in two parts by what depends on which parameters.
pub struct Split {
    /// From the first parameters to those results that depend on no others, then the residuals.
    pub known: Function,
    /// From the residuals, then the other parameters, to the other results.
    pub unknown: Function,
    /// How many residuals there are.
    pub residuals: usize,
    /// Which results are the first part's.
    pub is_known: Vec<bool>,
}

/// Splits a function into what depends on its first `known` parameters only, and the rest. The
/// results from number `late` on are the second part's in any case.
pub fn split(f: &Function, known: usize, late: usize) -> Split {
    let (mut first, mut second) = (Function::new(f.name.clone()), Function::new("rest"));
    let (parameters, others) = f.parameters().split_at(known);
    let mut early = Copied::default();
    for &parameter in parameters {
        let new = first.add_parameter(f.ty(parameter).clone());
        early.values.insert(parameter, new);
    }
    let mut unknown: FxHashSet<ValueId> = others.iter().copied().collect();
    let mut rest = Vec::new();
    for &op in &f.blocks[f.body].ops {
        if uses(f, op).iter().any(|v| unknown.contains(v)) {
            unknown.extend(&f.ops[op].results);
            rest.push(op);
        } else {
            let body = first.body;
            early.op(f, op, &mut first, body);
        }
    }
    let is_known: Vec<bool> =
        f.results().iter().enumerate().map(|(n, v)| n < late && !unknown.contains(v)).collect();
    // What the second part uses of the first: constants are written again, the rest is kept.
    let mut needed: Vec<ValueId> = Vec::new();
    let mut constants: Vec<OpId> = Vec::new();
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    let used = rest.iter().flat_map(|&op| uses(f, op));
    let yielded = f.results().iter().zip(&is_known).filter(|(_, known)| !**known).map(|(v, _)| *v);
    for value in used.chain(yielded) {
        if unknown.contains(&value) || !seen.insert(value) {
            continue;
        }
        match f.defining_op(value) {
            Some(op) if is_splat(&f.ops[op].op) => constants.push(op),
            _ => needed.push(value),
        }
    }
    let mut late_values = Copied::default();
    for &value in needed.iter().chain(others) {
        let new = second.add_parameter(f.ty(value).clone());
        late_values.values.insert(value, new);
    }
    let body = second.body;
    for op in constants.into_iter().chain(rest) {
        late_values.op(f, op, &mut second, body);
    }
    let pick = |flag: bool| {
        let flagged = f.results().iter().zip(&is_known).filter(move |(_, known)| **known == flag);
        flagged.map(|(v, _)| *v).collect::<Vec<ValueId>>()
    };
    let mut results = early.all(&pick(true));
    results.extend(early.all(&needed));
    set_results(&mut first, results);
    set_results(&mut second, late_values.all(&pick(false)));
    Split { known: first, unknown: second, residuals: needed.len(), is_known }
}

fn is_splat(op: &Op) -> bool {
    matches!(op, Op::Constant(constant) if constant.value.as_splat().is_some())
}

/// The values of a function's body that depend on none of the parameters but those flagged.
pub(crate) fn invariant(f: &Function, parameters: &[bool]) -> FxHashSet<ValueId> {
    let flagged = f.parameters().iter().zip(parameters).filter(|(_, flag)| **flag);
    let mut known: FxHashSet<ValueId> = flagged.map(|(v, _)| *v).collect();
    for &op in &f.blocks[f.body].ops {
        if uses(f, op).iter().all(|v| known.contains(v)) {
            known.extend(&f.ops[op].results);
        }
    }
    known
}
