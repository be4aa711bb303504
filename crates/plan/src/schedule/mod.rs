//! The order of the steps of each list: several candidates, of which the one that needs the least
//! memory is kept.
//!
//! Before any order is made, in-place writes are given their readers' order: whoever else reads a
//! value that a step updates, that a loop carries, or whose argument a result takes over, stands
//! before the writer, unless that makes a cycle. Larger values come first.

mod dag;
mod graph;
mod orders;

use crate::walk::{Roots, lists_mut};
use graph::{Graph, Scope};
use jaxrs_kernel::program::{Program, Step, StepKind};

/// Lists longer than this are ordered by the cheapest candidates alone.
const LONG: usize = 20_000;

/// An order of the program's outermost list.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// What made it.
    pub(crate) name: &'static str,
    /// Positions of the steps in the present order.
    pub(crate) order: Vec<u32>,
}

/// Orders every list inside another step, then returns candidates for the outermost list, those
/// with the least estimated memory first.
pub(crate) fn schedule(program: &mut Program) -> Vec<Candidate> {
    let roots = Roots::new(program);
    let mut body = std::mem::take(&mut program.body);
    for step in &mut body {
        inside(program, &roots, step);
    }
    let candidates = candidates(program, &roots, &body, &Scope::program(program));
    program.body = body;
    candidates
}

/// Puts the outermost list into an order.
pub(crate) fn apply(program: &mut Program, order: &[u32]) {
    reorder(&mut program.body, order);
}

fn reorder(steps: &mut Vec<Step>, order: &[u32]) {
    let mut old: Vec<Option<Step>> = std::mem::take(steps).into_iter().map(Some).collect();
    steps
        .extend(order.iter().map(|&i| old[i as usize].take().expect("an order names a step once")));
}

fn inside(program: &Program, roots: &Roots, step: &mut Step) {
    for list in lists_mut(step) {
        for inner in list.iter_mut() {
            inside(program, roots, inner);
        }
    }
    let scopes = match &step.kind {
        StepKind::While(inner) => Scope::repeat(inner),
        StepKind::Case(inner) => inner.branches.iter().map(Scope::branch).collect(),
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
            Vec::new()
        }
    };
    for (list, scope) in lists_mut(step).into_iter().zip(scopes) {
        if let Some(best) = candidates(program, roots, list, &scope).into_iter().next() {
            reorder(list, &best.order);
        }
    }
}

/// Distinct orders of a list, the one with the least estimated peak first.
fn candidates(program: &Program, roots: &Roots, steps: &[Step], scope: &Scope) -> Vec<Candidate> {
    if steps.len() < 2 {
        return vec![Candidate { name: "source", order: (0..steps.len() as u32).collect() }];
    }
    let graph = Graph::new(program, roots, steps, scope);
    let mut found = vec![Candidate { name: "source", order: orders::source(&graph) }];
    found.push(Candidate { name: "greedy", order: orders::greedy(&graph, orders::Tie::Latest) });
    if steps.len() <= LONG {
        found.push(Candidate {
            name: "greedy by source",
            order: orders::greedy(&graph, orders::Tie::Source),
        });
        found.push(Candidate { name: "depth first", order: orders::depth_first(&graph) });
        found.push(Candidate { name: "backwards", order: orders::backwards(&graph) });
    }
    let mut rated: Vec<(u64, u64, Candidate)> = Vec::new();
    for candidate in found {
        if rated.iter().all(|r| r.2.order != candidate.order) {
            let (peak, area) = graph.cost(&candidate.order);
            rated.push((peak, area, candidate));
        }
    }
    let tries = (100_000 / (steps.len() + 1)).min(10 * steps.len());
    let start = rated.iter().min_by_key(|r| (r.0, r.1)).expect("there is the source order");
    let improved = orders::improve(&graph, start.2.order.clone(), tries);
    if rated.iter().all(|r| r.2.order != improved) {
        let (peak, area) = graph.cost(&improved);
        rated.push((peak, area, Candidate { name: "local search", order: improved }));
    }
    // Stable: the source order wins among equals.
    rated.sort_by_key(|r| (r.0, u64::from(r.2.name != "source")));
    rated.into_iter().map(|r| r.2).collect()
}
