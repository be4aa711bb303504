//! Which values must share memory: an updated operand with its result, a loop's carries, a
//! branch's results; and which copies are needed where they cannot.

use crate::classes::{Classes, Conflict, Context};
use crate::walk::{is_invariant, lists};
use jaxrs_kernel::program::{Case, Donation, Step, StepId, StepKind, ValueId, While};
use rustc_hash::FxHashSet;

/// A place at which a value must be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Spot {
    /// An operand, before its step.
    Operand(StepId, u32),
    /// What a step overwrites, for those that read it later: before the step.
    Readers(StepId, u32),
    /// A result's memory must hold an operand that the step reads in another order, too: a copy
    /// to read.
    Held(StepId, u32, u32),
    /// The same where the operand is needed later: a copy in the result's memory.
    HeldCopy(StepId, u32, u32),
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
///
/// Where the memory of an overwritten value is to be kept in use, as a donated argument's or a
/// carry's is, the copy is for its later readers, unless that was `tried`.
pub(crate) fn must_alias(
    context: &Context<'_>,
    classes: &mut Classes,
    tried: &FxHashSet<(StepId, u32)>,
) -> Vec<Need> {
    let mut needs = Vec::new();
    let body = &context.program.body;
    let home: FxHashSet<ValueId> = context
        .program
        .parameters
        .iter()
        .filter(|p| p.donation != Donation::Kept)
        .map(|p| context.roots.root(p.value).value)
        .collect();
    carries(context, classes, body);
    updates(context, classes, body, &Home { values: home.clone(), tried }, &mut needs);
    branches(context, classes, body, &mut needs);
    initial(context, classes, body, &Home { values: home, tried }, &mut needs);
    next(context, classes, body, &mut needs);
    needs
}

/// The values whose memory should stay in use, of the list at hand.
struct Home<'a> {
    values: FxHashSet<ValueId>,
    tried: &'a FxHashSet<(StepId, u32)>,
}

impl Home<'_> {
    /// Where the copy goes that lets a step overwrite an operand.
    fn spot(&self, context: &Context<'_>, step: &Step, operand: u32, conflict: Conflict) -> Spot {
        let value = step.operands[operand as usize];
        let root = context.roots.root(value).value;
        let readers = matches!(conflict, Conflict::Live(_))
            && self.values.contains(&root)
            && !context.roots.is_renamed(root)
            && !self.tried.contains(&(step.id, operand));
        if readers { Spot::Readers(step.id, operand) } else { Spot::Operand(step.id, operand) }
    }

    /// The same for a list inside a step.
    fn inside(&self, step: &Step, list: usize) -> Home<'_> {
        let values = match &step.kind {
            // The condition's list comes first.
            StepKind::While(inner) if list == 1 => (0..inner.carries.len())
                .filter(|&i| !is_invariant(inner, i))
                .map(|i| inner.carries[i])
                .collect(),
            StepKind::While(_)
            | StepKind::Case(_)
            | StepKind::Kernel(_)
            | StepKind::Library(_)
            | StepKind::Copy
            | StepKind::Tile(_) => FxHashSet::default(),
        };
        Home { values, tried: self.tried }
    }
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

fn updates(
    context: &Context<'_>,
    classes: &mut Classes,
    steps: &[Step],
    home: &Home<'_>,
    needs: &mut Vec<Need>,
) {
    for step in steps {
        for &(result, operand) in &step.updates {
            let held = context.held.get(&step.id).into_iter().flatten().find(|h| h.0 == result);
            let value = held.map_or(step.operands[operand as usize], |h| h.1);
            let in_place = context.may_share(step, result as usize, operand as usize)
                || context.bytes(value) == 0
                || held.is_some();
            if !in_place {
                let (spot, conflict) = (
                    Spot::Held(step.id, operand, result),
                    Conflict::Live(context.line.span(step).read),
                );
                needs.push(Need { spot, value, conflict });
                continue;
            }
            let merged = classes.merge(context, value, step.results[result as usize]);
            if let Err(conflict) = merged {
                let spot = match held {
                    Some(_) => Spot::HeldCopy(step.id, operand, result),
                    None => home.spot(context, step, operand, conflict),
                };
                needs.push(Need { spot, value, conflict });
            }
        }
        for (i, list) in lists(step).into_iter().enumerate() {
            updates(context, classes, list, &home.inside(step, i), needs);
        }
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

fn initial(
    context: &Context<'_>,
    classes: &mut Classes,
    steps: &[Step],
    home: &Home<'_>,
    needs: &mut Vec<Need>,
) {
    for step in steps {
        if let Some(inner) = loop_of(step) {
            for i in (0..inner.carries.len()).filter(|&i| !is_invariant(inner, i)) {
                let value = step.operands[i];
                if let Err(conflict) = classes.merge(context, value, inner.carries[i]) {
                    let spot = home.spot(context, step, i as u32, conflict);
                    needs.push(Need { spot, value, conflict });
                }
            }
        }
        for (i, list) in lists(step).into_iter().enumerate() {
            initial(context, classes, list, &home.inside(step, i), needs);
        }
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
