//! The order of the steps of each list: several candidates, of which the one that needs the least
//! memory is kept.
//!
//! Before any order is made, in-place writes are given their readers' order: whoever else reads a
//! value that a step updates, that a loop carries, or whose argument a result takes over, stands
//! before the writer, unless that makes a cycle. Larger values come first.
//!
//! `load` says what an order needs, `bound` what every order needs. While the quick orders of
//! `orders` need more, steps are joined to `blocks`, `exact` searches the best order of them all or
//! of the pieces between cuts, and `local` betters what is too large for that. `donors` finds an order
//! in which more results can have the memory of donated arguments.

mod blocks;
mod bound;
mod dag;
mod donors;
mod exact;
mod graph;
mod load;
mod local;
mod orders;

use crate::pipeline::Code;
use crate::walk::{Roots, lists_mut};
use blocks::Blocks;
use bound::Reach;
use exact::{Goal, Outcome, Work};
use graph::{Graph, Scene, Scope};
use jaxrs_kernel::program::{Program, Step, StepKind};
use load::{Cost, Levels, Run};

/// Lists longer than this are ordered by the cheapest candidates alone.
const LONG: usize = 20_000;

/// Lists longer than this are planned in one order, and not compared by what results take.
const MOST_FOR_DONORS: usize = 399;

/// The order that has more results in donated arguments.
pub(crate) const DONORS_FIRST: &str = "donors first";

/// An order of the program's outermost list.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// What made it.
    pub(crate) name: &'static str,
    /// Positions of the steps in the present order.
    pub(crate) order: Vec<u32>,
    /// What it is expected to cost.
    pub(crate) cost: Cost,
}

/// Orders of a list.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    /// Distinct orders, least expected memory first.
    pub(crate) orders: Vec<Candidate>,
    /// Bytes of arena that every order needs, without more copies.
    pub(crate) bound: u64,
    /// Steps run to find them.
    pub(crate) steps: u64,
}

impl Candidates {
    /// The present order of so many steps, of which nothing is known.
    pub(crate) fn source(steps: usize) -> Candidates {
        let order = (0..steps as u32).collect();
        let only = Candidate { name: "source", order, cost: Cost::default() };
        Candidates { orders: vec![only], bound: 0, steps: 0 }
    }
}

/// Orders every list inside another step, then returns candidates for the outermost list.
pub(crate) fn schedule(program: &mut Program, code: &Code, threads: u32) -> Candidates {
    let roots = Roots::new(program);
    let mut body = std::mem::take(&mut program.body);
    let plain = Levels::plain();
    let (mut least, mut steps) = (true, 0);
    for step in &mut body {
        let scene = Scene { program, roots: &roots, code, threads, levels: &plain };
        least &= inside(&scene, step, &mut steps);
    }
    let scope = Scope::program(program);
    let scene = Scene { program, roots: &roots, code, threads, levels: &plain };
    let levels = Levels::new(&scene, &graph::taken(&scene, &body, &scope));
    let scene = Scene { levels: &levels, ..scene };
    let mut candidates = candidates(&scene, &body, &scope);
    if !least {
        candidates.bound = 0;
    }
    candidates.steps += steps;
    if body.len() <= MOST_FOR_DONORS
        && let Some(best) = candidates.orders.first()
        && let Some(order) = donors::order(&scene, &body, &best.order)
    {
        let cost = Graph::new(&scene, &body, &scope).cost(&order);
        let candidate = Candidate { name: DONORS_FIRST, order, cost };
        candidates.orders.insert(1, candidate);
    }
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

/// Orders the lists inside a step; says whether what it needs is known to be the least.
fn inside(scene: &Scene<'_>, step: &mut Step, spent: &mut u64) -> bool {
    let mut least = true;
    for list in lists_mut(step) {
        for inner in list.iter_mut() {
            least &= inside(scene, inner, spent);
        }
    }
    let scopes = match &step.kind {
        StepKind::While(inner) => Scope::repeat(inner),
        StepKind::Case(inner) => inner.branches.iter().map(Scope::branch).collect(),
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
            Vec::new()
        }
    };
    // What only some branches read is free in the others, which `load` does not see.
    least &= scopes.is_empty() || !matches!(step.kind, StepKind::Case(_));
    for (list, scope) in lists_mut(step).into_iter().zip(scopes) {
        let Candidates { orders, bound, steps } = candidates(scene, list, &scope);
        *spent += steps;
        if let Some(best) = orders.into_iter().next() {
            least &= best.cost.peak.max(0) as u64 <= bound;
            reorder(list, &best.order);
        }
    }
    least
}

/// Distinct orders of a list, the one with the least expected cost first.
fn candidates(scene: &Scene<'_>, steps: &[Step], scope: &Scope) -> Candidates {
    if steps.len() < 2 {
        return Candidates { bound: u64::MAX, ..Candidates::source(steps.len()) };
    }
    let graph = Graph::new(scene, steps, scope);
    let mut found = Found { graph: &graph, orders: Vec::new(), bound: [0, 0], steps: 0 };
    let source = orders::source(&graph);
    let reach =
        (steps.len() <= bound::MAX_STEPS).then(|| Reach::new(&source, &graph.dag.successors));
    found.bound = bound::bound(&graph, reach.as_ref());
    found.add("source", source.clone());
    if !found.is_least() {
        found.add("greedy", orders::greedy(&graph, orders::Tie::Latest));
    }
    if !found.is_least() && steps.len() <= LONG {
        found.add("greedy by source", orders::greedy(&graph, orders::Tie::Source));
        found.add("depth first", orders::depth_first(&graph));
        found.add("backwards", orders::backwards(&graph));
    }
    if !found.is_least() {
        found.search(reach.as_ref());
    }
    let Found { mut orders, bound, steps, .. } = found;
    // Stable: the source order wins among equals.
    orders.sort_by_key(|c| (c.cost.peak, c.cost.values, c.name != "source"));
    Candidates { orders, bound: bound[0].max(0) as u64, steps }
}

/// The orders found so far.
struct Found<'a> {
    graph: &'a Graph,
    orders: Vec<Candidate>,
    /// What every order needs, with and without scratch.
    bound: [i64; 2],
    /// Steps run.
    steps: u64,
}

impl Found<'_> {
    fn add(&mut self, name: &'static str, order: Vec<u32>) {
        let later = orders::late(self.graph, &order);
        let costs = [&order, &later].map(|order| self.graph.cost(order));
        let better = (costs[1].peak, costs[1].values) < (costs[0].peak, costs[0].values);
        let (order, cost) = if better { (later, costs[1]) } else { (order, costs[0]) };
        if self.orders.iter().all(|c| c.order != order) {
            self.steps += 2 * order.len() as u64;
            self.orders.push(Candidate { name, order, cost });
        }
    }

    fn best(&self) -> &Candidate {
        self.orders.iter().min_by_key(|c| c.cost).expect("there is the source order")
    }

    /// Whether no order can need less than the best.
    fn is_least(&self) -> bool {
        let cost = self.best().cost;
        cost.peak <= self.bound[0] && cost.values <= self.bound[1]
    }

    /// Looks for better orders, with scratch first, then without.
    fn search(&mut self, reach: Option<&Reach>) {
        let n = self.graph.reads.len() as u64;
        let blocks = match reach {
            Some(reach) => Blocks::new(self.graph, reach),
            None => Blocks::single(self.graph),
        };
        let scratch = self.graph.inside.iter().any(|i| i.read[0] != i.read[1]);
        for measure in 0..=usize::from(scratch) {
            let need = |cost: Cost| [cost.peak, cost.values][measure];
            let given = (2_000 + 260 * n).min(2_000_000);
            let mut work = Work(given);
            if need(self.best().cost) > self.bound[measure] && reach.is_some() {
                self.whole(&blocks, measure, &mut work);
            }
            if need(self.best().cost) > self.bound[measure] {
                let start = blocks.sorted(&self.best().order);
                let floor = self.bound[measure];
                let order = local::improve(self.graph, &blocks, start, (measure, floor), &mut work);
                self.add("local search", blocks.flat(&order));
            }
            self.steps += given - work.0;
        }
    }

    /// Searches among all orders, or those of each piece between cuts.
    fn whole(&mut self, blocks: &Blocks, measure: usize, work: &mut Work) {
        let order = blocks.sorted(&self.best().order);
        // Large ones are seldom searched to the end.
        let given = if blocks.steps.len() <= 64 { work.0 / 3 * 2 } else { work.0 / 3 };
        let mut own = Work(given);
        if blocks.steps.len() <= 256 {
            let best = self.best().cost;
            let goal = Goal {
                measure,
                floor: self.bound[measure],
                below: [best.peak, best.values][measure],
                cap: best.peak,
            };
            let run = Run::new(self.graph);
            match exact::search(self.graph, blocks, &order, &run, goal, &mut own) {
                Outcome::Best(order, need) => {
                    self.bound[measure] = need;
                    return self.add("exact", blocks.flat(&order));
                }
                Outcome::None => {
                    self.bound[measure] = goal.below;
                    return;
                }
                Outcome::Unknown(need) if measure == 0 => self.bound[0] = need,
                Outcome::Unknown(_) => {}
            }
        }
        work.spend(given - own.0);
        if [self.best().cost.peak, self.best().cost.values][measure] > self.bound[measure] {
            let order = self.pieces(blocks, &order, measure, work);
            self.add("pieces", blocks.flat(&order));
        }
    }

    /// The best order of each piece, as far as it is found.
    fn pieces(&self, blocks: &Blocks, order: &[u32], measure: usize, work: &mut Work) -> Vec<u32> {
        let graph = self.graph;
        let mut floor = self.bound[measure];
        let parts = blocks.pieces(graph, order, floor.max(0) as u64 / 256 + 1);
        let mut run = Run::new(graph);
        let mut order = Vec::with_capacity(order.len());
        for part in parts {
            let start = run.clone();
            let mut need = 0;
            for &block in &part {
                for &s in &blocks.steps[block as usize] {
                    need = need.max(run.step(s)[measure].minus(graph.rooms).most());
                }
            }
            if need <= floor || part.len() < 2 {
                order.extend(part);
                continue;
            }
            let goal = Goal { measure, floor, below: need, cap: self.best().cost.peak };
            let mut own = Work(work.0 / 3);
            let found = exact::search(graph, blocks, &part, &start, goal, &mut own);
            work.spend(work.0 / 3 - own.0);
            let found = match found {
                Outcome::Best(order, need) => Some((order, need)),
                Outcome::None => None,
                Outcome::Unknown(_) => {
                    let width = (work.0 / 2 / (16 * part.len() as u64)).clamp(1, 64) as usize;
                    let mut own = Work(work.0 / 2);
                    let beamed = exact::beam(graph, blocks, &part, &start, goal, width, &mut own);
                    work.spend(work.0 / 2 - own.0);
                    beamed
                }
            };
            let (part, need) = found.unwrap_or((part, need));
            floor = floor.max(need);
            order.extend(part);
        }
        order
    }
}
