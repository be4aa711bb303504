//! Which values must share memory: an updated operand with its result, a loop's carries, a
//! branch's results; and which copies are needed where they cannot.

use crate::classes::{Classes, Conflict, Context};
use crate::walk::{is_invariant, lists};
use jaxrs_kernel::program::{Case, Step, StepId, StepKind, ValueId, While};

/// A place at which a value must be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Spot {
    /// An operand, before its step.
    Operand(StepId, u32),
    /// A carry's next value, at the bottom of its loop.
    Next(StepId, u32),
    /// A branch's result, at the branch's end.
    Branch(StepId, u32, u32),
}

/// A copy that is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Where.
    pub(crate) spot: Spot,
    /// What is copied.
    pub(crate) value: ValueId,
    /// Why it cannot be written in place.
    pub(crate) conflict: Conflict,
}

/// Merges what must share memory and returns the copies without which it cannot.
///
/// Updates come first, in order, since only the copy of an operand can stand in for one; then
/// branches and loops, inner ones first.
pub(crate) fn must_alias(context: &Context<'_>, classes: &mut Classes) -> Vec<Need> {
    let mut needs = Vec::new();
    let body = &context.program.body;
    carries(context, classes, body);
    updates(context, classes, body, &mut needs);
    branches(context, classes, body, &mut needs);
    initial(context, classes, body, &mut needs);
    next(context, classes, body, &mut needs);
    needs
}

fn loop_of(step: &Step) -> Option<&While> {
    if let StepKind::While(inner) = &step.kind { Some(inner) } else { None }
}

fn case_of(step: &Step) -> Option<&Case> {
    if let StepKind::Case(inner) = &step.kind { Some(inner) } else { None }
}

/// A carry and the loop's result of its position are never in use together.
fn carries(context: &Context<'_>, classes: &mut Classes, steps: &[Step]) {
    for step in steps {
        if let Some(inner) = loop_of(step) {
            for i in (0..inner.carries.len()).filter(|&i| !is_invariant(inner, i)) {
                classes
                    .merge(context, inner.carries[i], step.results[i])
                    .expect("a carry ends where the loop's result begins");
            }
        }
        lists(step).into_iter().for_each(|list| carries(context, classes, list));
    }
}

fn updates(context: &Context<'_>, classes: &mut Classes, steps: &[Step], needs: &mut Vec<Need>) {
    for step in steps {
        for &(result, operand) in &step.updates {
            let value = step.operands[operand as usize];
            let merged = classes.merge(context, value, step.results[result as usize]);
            if let Err(conflict) = merged {
                needs.push(Need { spot: Spot::Operand(step.id, operand), value, conflict });
            }
        }
        lists(step).into_iter().for_each(|list| updates(context, classes, list, needs));
    }
}

fn branches(context: &Context<'_>, classes: &mut Classes, steps: &[Step], needs: &mut Vec<Need>) {
    for step in steps {
        lists(step).into_iter().for_each(|list| branches(context, classes, list, needs));
        let Some(inner) = case_of(step) else { continue };
        for (b, branch) in inner.branches.iter().enumerate() {
            for (i, (&value, &result)) in branch.results.iter().zip(&step.results).enumerate() {
                if let Err(conflict) = classes.merge(context, value, result) {
                    let spot = Spot::Branch(step.id, b as u32, i as u32);
                    needs.push(Need { spot, value, conflict });
                }
            }
        }
    }
}

fn initial(context: &Context<'_>, classes: &mut Classes, steps: &[Step], needs: &mut Vec<Need>) {
    for step in steps {
        if let Some(inner) = loop_of(step) {
            for i in (0..inner.carries.len()).filter(|&i| !is_invariant(inner, i)) {
                let value = step.operands[i];
                if let Err(conflict) = classes.merge(context, value, inner.carries[i]) {
                    needs.push(Need { spot: Spot::Operand(step.id, i as u32), value, conflict });
                }
            }
        }
        lists(step).into_iter().for_each(|list| initial(context, classes, list, needs));
    }
}

fn next(context: &Context<'_>, classes: &mut Classes, steps: &[Step], needs: &mut Vec<Need>) {
    for step in steps {
        lists(step).into_iter().for_each(|list| next(context, classes, list, needs));
        let Some(inner) = loop_of(step) else { continue };
        for i in (0..inner.carries.len()).filter(|&i| !is_invariant(inner, i)) {
            let value = inner.next[i];
            if let Err(conflict) = classes.merge(context, value, inner.carries[i]) {
                needs.push(Need { spot: Spot::Next(step.id, i as u32), value, conflict });
            }
        }
    }
}
