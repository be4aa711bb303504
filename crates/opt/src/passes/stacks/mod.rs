//! What leaves a loop as a stacked result, one slot filled in each step, and is used only in part
//! or reduced never exists: the loop carries the part or the accumulator instead.
//!
//! * `slots` finds the carries that a loop fills slot by slot.
//! * `forms` follows the values made of them that have one piece a step: elementwise results,
//!   broadcasts, reshapes, reductions of other axes, windows of steps.
//! * `uses` decides: a reduction over the steps becomes an accumulator, one step's piece a carry
//!   (or nothing, if the loop carries it anyway), and any other value made of the stacked results is
//!   stacked in their place where that is no larger.
//! * `pieces` makes what the body computes in one step; `carries` puts it into the loop.
//!
//! * [`previous`] and [`peel`], passes of their own, make steps read their predecessor's slot;
//!   [`reuse`] and [`replace`] let a step write into the slots that it reads last.
//!
//! An accumulator takes its elements one step after the other, as XLA's reductions do, in the
//! reduction's own type; sums and products of `bf16` and `f16` in `f32`, rounded at the end, as
//! everywhere here.
//!
//! The stacked result itself is dead then, and [`super::loops`] removes its carry.

mod carries;
mod forms;
pub mod peel;
mod pieces;
pub mod previous;
pub mod replace;
pub mod reuse;
mod slots;
#[cfg(test)]
mod tests;
mod uses;

use super::counter::Counted;
use super::{algebra, cse, dce, fold, loops, region};
use jaxrs_ir::{BlockId, Function, Op};

/// Rewrites every loop that stacks what is not needed.
pub fn run(function: &mut Function) {
    let body = function.body;
    let mut changed = false;
    // What a loop no longer stacks may be all that an inner or an earlier one did.
    while each_loop(function, body, &mut unstack) {
        dce::run(function);
        loops::run(function);
        dce::run(function);
        changed = true;
    }
    if changed {
        fold::run(function);
        algebra::run(function);
        cse::run(function);
    }
}

/// What is done to a loop that counts, in its block; whether anything was.
type Visit<'a> = &'a mut dyn FnMut(&mut Function, BlockId, &Counted) -> bool;

/// Visits every loop that counts; carries and ops that are then dead go.
fn rewrite_loops(function: &mut Function, visit: Visit<'_>) {
    let body = function.body;
    if each_loop(function, body, visit) {
        loops::run(function);
        dce::run(function);
    }
}

/// Visits every loop that counts, inner ones first; says whether any was changed.
fn each_loop(f: &mut Function, id: BlockId, visit: Visit<'_>) -> bool {
    let mut changed = false;
    for op in f.blocks[id].ops.clone() {
        if region::is_control(f, op) {
            for inner in f.ops[op].regions.clone() {
                changed |= each_loop(f, inner, visit);
            }
        }
        if matches!(f.ops[op].op, Op::While(_))
            && let Some(counted) = Counted::of(f, op)
        {
            changed |= visit(f, id, &counted);
        }
    }
    changed
}

fn unstack(f: &mut Function, id: BlockId, counted: &Counted) -> bool {
    let filled = slots::filled(counted, f);
    let at = f.blocks[id].ops.iter().position(|&other| other == counted.op);
    let (Some(at), false) = (at, filled.is_empty()) else { return false };
    let wanted = uses::find(f, id, &f.blocks[id].ops[at + 1..], counted, &filled);
    wanted.is_some_and(|wanted| carries::rewrite(f, id, counted, &filled, &wanted).is_ok())
}
