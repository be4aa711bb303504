//! Takes the first or the last step out of a loop whose other steps then read a slot in place.
//!
//! `select(i == 0, x, ys[i - 1])`, which is contracted, is a tensor of its own; once the step that is
//! different stands outside the loop, each of the two is contracted where it lies.

use crate::passes::counter::Counted;
use crate::passes::{algebra, cse, dce, fold, loops, region, trips};
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{BlockId, Function, Literal, Op, OpId, ValueId};
use jaxrs_kernel::Compare;
use rustc_hash::FxHashMap;

/// Selected tensors of fewer bytes are left.
const SMALL: u64 = 1024;
/// Bodies of more ops are left: they would be compiled twice.
const MANY: usize = 128;

/// Peels every loop that gains by it.
pub fn run(function: &mut Function) {
    let body = function.body;
    if super::each_loop(function, body, &mut visit) {
        trips::run(function);
        loops::run(function);
        fold::run(function);
        algebra::run(function);
        cse::run(function);
        dce::run(function);
    }
}

fn visit(f: &mut Function, id: BlockId, counted: &Counted) -> bool {
    odd_step(f, counted).is_some_and(|odd| peel(f, id, counted, odd).is_ok())
}

/// A tensor that one step, the first or the last, takes from elsewhere than the others.
struct Odd {
    /// What the others take it for, by the selection's result.
    others: Vec<(ValueId, ValueId)>,
    /// Whether the last step is the odd one.
    last: bool,
}

fn odd_step(f: &Function, counted: &Counted) -> Option<Odd> {
    let body = f.ops[counted.op].regions[1];
    if !is_small(f, body) {
        return None;
    }
    let body = &f.blocks[body];
    let find = |last: bool| {
        let step = if last { counted.trips - 1 } else { 0 };
        let mut others = Vec::new();
        let mut gains = false;
        for &op in &body.ops {
            let data = &f.ops[op];
            if !matches!(data.op, Op::Select(_)) || f.ty(data.operands[0]).rank() > 0 {
                continue;
            }
            let Some(compared) = f.defining_op(data.operands[0]).map(|op| &f.ops[op]) else {
                continue;
            };
            let Op::Compare(compare) = &compared.op else { continue };
            let other = match compare.direction {
                Compare::Eq => data.operands[2],
                Compare::Ne => data.operands[1],
                _ => continue,
            };
            if counted.meets(f, compared.operands[0], compared.operands[1]) == Some(step) {
                others.push((data.results[0], other));
                let large = f.ty(data.results[0]).bytes() >= SMALL;
                gains |= large && contracted(f, &body.ops, data.results[0]);
            }
        }
        gains.then_some(Odd { others, last })
    };
    find(true).or_else(|| find(false))
}

/// Whether a body may be compiled twice.
pub(in crate::passes) fn is_small(f: &Function, body: BlockId) -> bool {
    let ops = &f.blocks[body].ops;
    ops.len() <= MANY && !ops.iter().any(|&op| region::is_control(f, op))
}

/// Whether one of the ops contracts the value, or a view of it.
pub(super) fn contracted(f: &Function, ops: &[OpId], value: ValueId) -> bool {
    let mut views = vec![value];
    ops.iter().any(|&op| {
        let data = &f.ops[op];
        if !data.operands.iter().any(|v| views.contains(v)) {
            return false;
        }
        if matches!(data.op, Op::Reshape(_) | Op::Transpose(_)) {
            views.extend(&data.results);
        }
        matches!(data.op, Op::DotGeneral(_))
    })
}

/// After an error nothing has changed but for ops that nothing uses.
fn peel(f: &mut Function, block: BlockId, counted: &Counted, odd: Odd) -> Result<(), String> {
    let data = f.ops[counted.op].clone();
    let [condition, body] = [0, 1].map(|n| data.regions[n]);
    let (step, captured) = jaxrs_ir::region::extract(f, body);
    let from = if odd.last { data.results.clone() } else { data.operands.clone() };
    let end = if odd.last { Some(shorter(f, counted)?) } else { None };

    let ops = std::mem::take(&mut f.blocks[block].ops);
    let at = ops.iter().position(|&op| op == counted.op);
    let mut arguments = from;
    for (n, &argument) in f.blocks[body].arguments.clone().iter().enumerate() {
        if let Some(line) = counted.line_of(argument).filter(|_| odd.last) {
            let dtype = f.ty(argument).dtype;
            let value = line.first + line.step * i128::from(counted.trips - 1);
            let bits = value as u64 & u64::MAX >> (64 - dtype.bits());
            let mut b = Builder { function: f, block, location: data.location.clone() };
            arguments[n] = b.constant(Literal::scalar(dtype, &[bits]))?;
        }
    }
    arguments.extend(captured);
    let mut b = Builder { function: f, block, location: data.location.clone() };
    let results = b.inline(&step, &arguments);
    let fresh = std::mem::replace(&mut f.blocks[block].ops, ops);
    let at = at.expect("the loop is in its block") + usize::from(odd.last);
    // The new names are for what was there before only.
    if let Some(end) = end {
        let names: FxHashMap<ValueId, ValueId> =
            data.results.iter().copied().zip(results).collect();
        substitute(f, block, &names);
        let compare = f.defining_op(f.blocks[condition].yields[0]).expect("a comparison");
        let mut b = Builder { function: f, block: condition, location: data.location.clone() };
        let end = b.constant(end)?;
        let constant = f.blocks[condition].ops.pop().expect("just made");
        f.blocks[condition].ops.insert(0, constant);
        f.ops[compare].operands[1] = end;
    } else {
        f.ops[counted.op].operands = results;
    }
    f.blocks[block].ops.splice(at..at, fresh);
    loops::rename(f, body, &odd.others.into_iter().collect());
    Ok(())
}

/// Replaces values in a block and the regions inside, each once: carries may swap.
pub(in crate::passes) fn substitute(
    f: &mut Function,
    block: BlockId,
    names: &FxHashMap<ValueId, ValueId>,
) {
    let name = |v: &mut ValueId| *v = names.get(v).copied().unwrap_or(*v);
    for op in f.blocks[block].ops.clone() {
        f.ops[op].operands.iter_mut().for_each(name);
        for region in f.ops[op].regions.clone() {
            substitute(f, region, names);
        }
    }
    f.blocks[block].yields.iter_mut().for_each(name);
}

/// The end of the count for one step less.
fn shorter(f: &Function, counted: &Counted) -> Result<Literal, String> {
    let condition = &f.blocks[f.ops[counted.op].regions[0]];
    let compare = f.defining_op(condition.yields[0]).ok_or("no comparison")?;
    let [left, right] = f.ops[compare].operands[..] else { return Err("no comparison".into()) };
    let carry = condition.arguments.iter().position(|&a| a == left).ok_or("no counter")?;
    let argument = f.blocks[f.ops[counted.op].regions[1]].arguments[carry];
    let line = counted.line_of(argument).ok_or("no counter")?;
    let end = i128::from(trips::constant(f, right).ok_or("no end")?) - line.step;
    let dtype = f.ty(right).dtype;
    Ok(Literal::scalar(dtype, &[end as u64 & u64::MAX >> (64 - dtype.bits())]))
}
