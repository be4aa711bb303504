//! The memory that an order needs at each point, as the planner will get it.
//!
//! Donated arguments and results are rooms beside the arena: what fits into one while it is free
//! costs nothing. For the values of at least some size, those that are live (arguments and results
//! among them) less all rooms of at least that size must lie in the arena; the greatest such
//! difference, over the sizes that matter, is what the arena needs. These sizes are the levels.

use super::graph::{Graph, Scene, Scope};
use crate::walk::lists;
use jaxrs_kernel::program::{Bytes, Donation, Step, StepKind, ValueId};
use smallvec::SmallVec;

/// How many sizes are told apart.
pub(crate) const LEVELS: usize = 3;

/// Bytes of values of at least each level's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load(pub(crate) [i64; LEVELS]);

impl Load {
    /// One number on every level.
    fn all(bytes: i64) -> Load {
        Load([bytes; LEVELS])
    }

    pub(crate) fn add(&mut self, other: Load) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }

    pub(crate) fn subtract(&mut self, other: Load) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a -= b);
    }

    pub(crate) fn plus(mut self, other: Load) -> Load {
        self.add(other);
        self
    }

    pub(crate) fn minus(mut self, other: Load) -> Load {
        self.subtract(other);
        self
    }

    /// The larger on each level.
    pub(crate) fn max(self, other: Load) -> Load {
        Load(std::array::from_fn(|k| self.0[k].max(other.0[k])))
    }

    /// Whether it is at most the other on every level.
    pub(crate) fn fits(self, other: Load) -> bool {
        self.0.iter().zip(other.0).all(|(&a, b)| a <= b)
    }

    /// The most on any level; no rooms give less than nothing.
    pub(crate) fn most(self) -> i64 {
        self.0.into_iter().fold(0, i64::max)
    }
}

/// The sizes that matter, ascending, and the rooms of at least those sizes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    sizes: [u64; LEVELS],
    count: usize,
    rooms: Load,
}

impl Levels {
    /// Without rooms.
    pub(crate) fn plain() -> Levels {
        Levels { count: 1, ..Levels::default() }
    }

    /// Those of a program whose results in `taken` live in arguments.
    pub(crate) fn new(scene: &Scene<'_>, taken: &[bool]) -> Levels {
        let program = scene.program;
        let bytes = |v: ValueId| program.values[v].bytes().0;
        let mut rooms: Vec<u64> = Vec::new();
        for parameter in &program.parameters {
            if parameter.donation != Donation::Kept {
                rooms.push(bytes(parameter.value));
            }
        }
        let results = program.results.iter().zip(taken);
        rooms.extend(results.filter(|r| !r.1).map(|r| bytes(*r.0)));
        rooms.retain(|&r| r > 0);
        rooms.sort_unstable();
        let Some(&largest) = rooms.last() else { return Levels::plain() };
        // What no room holds, and half of the rooms' bytes above.
        let half = rooms.iter().sum::<u64>() / 2;
        let mut sum = 0;
        let middle = rooms.iter().copied().find(|r| {
            sum += r;
            sum >= half
        });
        let mut sizes = vec![0, middle.unwrap_or(largest) + 1, largest + 1];
        sizes.dedup();
        let mut levels = Levels { count: sizes.len(), ..Levels::default() };
        for (k, &size) in sizes.iter().enumerate() {
            levels.sizes[k] = size;
            let counted = rooms.iter().filter(|&&r| r >= size);
            levels.rooms.0[k] = counted.map(|&r| Bytes(r).aligned().0 as i64).sum();
        }
        levels
    }

    /// What a value of some bytes counts on each level.
    pub(crate) fn load(&self, bytes: Bytes) -> Load {
        let counts = |k: usize| k < self.count && self.sizes[k] <= bytes.0;
        let rounded = bytes.aligned().0 as i64;
        Load(std::array::from_fn(|k| if counts(k) { rounded } else { 0 }))
    }

    pub(crate) fn rooms(&self) -> Load {
        self.rooms
    }
}

/// A need with and without the steps' scratch.
pub(crate) type Both = [Load; 2];

/// What a step needs beside its operands and results: until it writes, and when it writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inside {
    pub(crate) read: Both,
    pub(crate) write: Both,
}

impl Inside {
    /// Its scratch, or the most that the steps inside hold.
    pub(crate) fn new(scene: &Scene<'_>, step: &Step) -> Inside {
        let scopes = match &step.kind {
            StepKind::While(inner) => Scope::repeat(inner),
            StepKind::Case(inner) => inner.branches.iter().map(Scope::branch).collect(),
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
                let bytes = step.scratch.per_thread.0 * u64::from(scene.threads);
                let scratch = [Load::all(Bytes(bytes).aligned().0 as i64), Load::default()];
                return Inside { read: scratch, write: scratch };
            }
        };
        let mut most = Both::default();
        for (list, scope) in lists(step).into_iter().zip(scopes) {
            let graph = Graph::new(scene, list, &scope);
            let mut run = Run::new(&graph);
            let given = run.load;
            for s in 0..list.len() as u32 {
                let peak = run.step(s);
                for m in 0..2 {
                    most[m] = most[m].max(peak[m].minus(given));
                }
            }
        }
        match step.kind {
            // The results are the branches' own.
            StepKind::Case(_) => Inside { read: most, write: Both::default() },
            _ => Inside { read: most, write: most },
        }
    }
}

/// What an order costs; least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// The most that the arena needs.
    pub(crate) peak: i64,
    /// The same without scratch.
    pub(crate) values: i64,
    /// The sum of what all values hold after each step.
    pub(crate) area: i64,
}

/// The state between two steps.
#[derive(Clone, Debug)]
pub(crate) struct Run<'a> {
    graph: &'a Graph,
    /// Steps that have yet to read each item.
    pub(crate) left: Vec<u32>,
    /// Whether an item is written, at least in part.
    pub(crate) started: Vec<bool>,
    /// What is live.
    pub(crate) load: Load,
}

impl<'a> Run<'a> {
    /// Before the first step.
    pub(crate) fn new(graph: &'a Graph) -> Run<'a> {
        let mut load = Load::default();
        for item in &graph.items {
            if item.given && (!item.readers.is_empty() || item.kept) {
                load.add(item.load);
            }
        }
        Run {
            graph,
            left: graph.items.iter().map(|i| i.readers.len() as u32).collect(),
            started: graph.items.iter().map(|i| i.given).collect(),
            load,
        }
    }

    /// Runs a step; says the most that is live meanwhile, with and without scratch.
    pub(crate) fn step(&mut self, s: u32) -> Both {
        let (graph, s) = (self.graph, s as usize);
        for &item in &graph.reads[s] {
            self.left[item as usize] -= 1;
        }
        let left = &self.left;
        let dies = |item: u32| left[item as usize] == 0 && !graph.items[item as usize].kept;
        let (mut made, mut unread) = (Load::default(), Load::default());
        for &i in &graph.makes[s] {
            let item = &graph.items[i as usize];
            if !std::mem::replace(&mut self.started[i as usize], true) {
                made.add(item.load);
            }
            if item.readers.is_empty() && !item.kept && item.makers.last() == Some(&(s as u32)) {
                unread.add(item.load);
            }
        }
        let early = &graph.early[s];
        let mut write = self.load.plus(made);
        let mut freed = Load::default();
        for &i in graph.reads[s].iter().filter(|&&i| dies(i)) {
            let load = graph.items[i as usize].load;
            freed.add(load);
            if early.contains(&i) {
                write.subtract(load);
            }
        }
        for operand in in_place(&graph.shares[s], |o| dies(o) && !early.contains(&o)) {
            write.subtract(graph.items[operand as usize].load);
        }
        let inside = &graph.inside[s];
        let peak = [0, 1].map(|m| self.load.plus(inside.read[m]).max(write.plus(inside.write[m])));
        self.load = self.load.plus(made).minus(freed).minus(unread);
        peak
    }
}

/// The operands that make room for results: each result and each operand of a pair counts once.
pub(crate) fn in_place(pairs: &[(u32, u32)], dies: impl Fn(u32) -> bool) -> SmallVec<[u32; 4]> {
    let mut results: SmallVec<[u32; 4]> = SmallVec::new();
    let mut operands: SmallVec<[u32; 4]> = SmallVec::new();
    for &(result, operand) in pairs {
        if !results.contains(&result) && !operands.contains(&operand) && dies(operand) {
            results.push(result);
            operands.push(operand);
        }
    }
    operands
}

impl Graph {
    /// What an order of all steps costs.
    pub(crate) fn cost(&self, order: &[u32]) -> Cost {
        let mut run = Run::new(self);
        let mut cost = Cost::default();
        let start = run.load.minus(self.rooms).most();
        (cost.peak, cost.values) = (start, start);
        for &s in order {
            let peak = run.step(s);
            cost.peak = cost.peak.max(peak[0].minus(self.rooms).most());
            cost.values = cost.values.max(peak[1].minus(self.rooms).most());
            cost.area = cost.area.saturating_add(run.load.0[0]);
        }
        cost
    }
}
