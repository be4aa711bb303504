//! The best order of some blocks between a state and the rest of the program: a search over the
//! sets of blocks that have run.
//!
//! What is live depends on the set alone, so that each set is looked at once. The search takes the
//! set whose way needs least so far, and of those the fullest: what it finishes first is best. A
//! block that can run next without needing more than the way so far, and after which no more is
//! live than before, runs at once: no order is better that has it later.

use super::blocks::Blocks;
use super::bound::members;
use super::graph::Graph;
use super::load::{Both, Inside, Load, Run, in_place};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A set of blocks, `64 * W` at most.
type Mask<const W: usize> = [u64; W];

/// What a search may do and what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// Whether scratch counts: 0 if so, 1 if not.
    pub(crate) measure: usize,
    /// Needs up to this are as good as none.
    pub(crate) floor: i64,
    /// Only what needs less is of interest.
    pub(crate) below: i64,
    /// With scratch no more may be needed.
    pub(crate) cap: i64,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The best order of the blocks and what it needs, the floor at least.
    Best(Vec<u32>, i64),
    /// There is none below the limit.
    None,
    /// The work did not suffice; every order needs at least so much.
    Unknown(i64),
}

/// Work that is left, in steps run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work(pub(crate) u64);

impl Work {
    /// Spends some; false if there is not enough left.
    pub(crate) fn spend(&mut self, amount: u64) -> bool {
        let enough = self.0 >= amount;
        self.0 = self.0.saturating_sub(amount);
        enough
    }
}

/// Searches the order of `part`, some of the blocks, after `run`: with at most 1,024 blocks.
pub(crate) fn search(
    graph: &Graph,
    blocks: &Blocks,
    part: &[u32],
    run: &Run<'_>,
    goal: Goal,
    work: &mut Work,
) -> Outcome {
    fn best<const W: usize>(problem: &Problem<W>, goal: Goal, work: &mut Work) -> Outcome {
        Search { problem, goal }.best_first(work)
    }
    match part.len() {
        0..=64 => best::<1>(&Problem::new(graph, blocks, part, run), goal, work),
        65..=128 => best::<2>(&Problem::new(graph, blocks, part, run), goal, work),
        129..=256 => best::<4>(&Problem::new(graph, blocks, part, run), goal, work),
        257..=1024 => best::<16>(&Problem::new(graph, blocks, part, run), goal, work),
        _ => Outcome::Unknown(goal.floor),
    }
}

/// A good order of `part`: only the `width` best sets of each size are looked at.
pub(crate) fn beam(
    graph: &Graph,
    blocks: &Blocks,
    part: &[u32],
    run: &Run<'_>,
    goal: Goal,
    width: usize,
    work: &mut Work,
) -> Option<(Vec<u32>, i64)> {
    fn best<const W: usize>(
        problem: &Problem<W>,
        goal: Goal,
        width: usize,
        work: &mut Work,
    ) -> Option<(Vec<u32>, i64)> {
        Search { problem, goal }.beam(width, work)
    }
    match part.len() {
        0..=64 => best::<1>(&Problem::new(graph, blocks, part, run), goal, width, work),
        65..=128 => best::<2>(&Problem::new(graph, blocks, part, run), goal, width, work),
        129..=256 => best::<4>(&Problem::new(graph, blocks, part, run), goal, width, work),
        257..=1024 => best::<16>(&Problem::new(graph, blocks, part, run), goal, width, work),
        _ => None,
    }
}

/// A value, as far as the blocks matter to it.
struct Local<const W: usize> {
    load: Load,
    readers: Mask<W>,
    makers: Mask<W>,
    /// Whether it is in use after all blocks.
    stays: bool,
    /// Whether it is written in part before all blocks.
    started: bool,
}

/// A step of a block.
struct Micro {
    inside: Inside,
    /// What it certainly makes.
    made: Load,
    /// What it makes unless another block has made a part before.
    first: Vec<u32>,
    /// Values it reads as the last of its block, and whether in full before it writes.
    last: Vec<(u32, bool)>,
    /// (result, operand) of one memory if the operand dies.
    shares: Vec<(u32, u32)>,
    /// What no one reads.
    unread: Load,
}

struct Problem<const W: usize> {
    names: Vec<u32>,
    before: Vec<Mask<W>>,
    /// The blocks that wait for a block.
    after: Vec<Vec<u32>>,
    steps: Vec<Vec<Micro>>,
    locals: Vec<Local<W>>,
    start: Load,
    rooms: Load,
}

fn set<const W: usize>(mask: &mut Mask<W>, i: usize) {
    mask[i / 64] |= 1 << (i % 64);
}

/// Whether all of `a` is in `b`.
fn within<const W: usize>(a: &Mask<W>, b: &Mask<W>) -> bool {
    a.iter().zip(b).all(|(a, b)| a & !b == 0)
}

impl<const W: usize> Problem<W> {
    fn new(graph: &Graph, blocks: &Blocks, part: &[u32], run: &Run<'_>) -> Problem<W> {
        let mut at: FxHashMap<u32, usize> = FxHashMap::default();
        for (i, &block) in part.iter().enumerate() {
            at.insert(block, i);
        }
        let mut locals: Vec<Local<W>> = Vec::new();
        let mut left: Vec<u32> = Vec::new();
        let mut local_of: FxHashMap<u32, u32> = FxHashMap::default();
        for (i, &block) in part.iter().enumerate() {
            for &s in &blocks.steps[block as usize] {
                let read = graph.reads[s as usize].iter().map(|&item| (item, true));
                let made = graph.makes[s as usize].iter().map(|&item| (item, false));
                for (item, reads) in read.chain(made) {
                    let local = *local_of.entry(item).or_insert_with(|| {
                        locals.push(Local {
                            load: graph.items[item as usize].load,
                            readers: [0; W],
                            makers: [0; W],
                            stays: graph.items[item as usize].kept,
                            started: run.started[item as usize],
                        });
                        left.push(run.left[item as usize]);
                        locals.len() as u32 - 1
                    });
                    let local_data = &mut locals[local as usize];
                    if reads {
                        set(&mut local_data.readers, i);
                        left[local as usize] -= 1;
                    } else {
                        set(&mut local_data.makers, i);
                    }
                }
            }
        }
        for (local, &left) in locals.iter_mut().zip(&left) {
            local.stays |= left > 0;
        }
        let mut before = Vec::with_capacity(part.len());
        let mut after = vec![Vec::new(); part.len()];
        for (i, &block) in part.iter().enumerate() {
            let mut mask = [0; W];
            for p in &blocks.predecessors[block as usize] {
                if let Some(&p) = at.get(p) {
                    set(&mut mask, p);
                    after[p].push(i as u32);
                }
            }
            before.push(mask);
        }
        let mut steps = Vec::with_capacity(part.len());
        for &block in part {
            steps.push(micros(graph, &blocks.steps[block as usize], &local_of, &locals));
        }
        let (start, rooms) = (run.load, graph.rooms);
        Problem { names: part.to_vec(), before, after, steps, locals, start, rooms }
    }

    /// Runs a block after a set: the most that is live, and what is live then.
    fn run(&self, done: &Mask<W>, block: usize, load: Load) -> (Both, Load) {
        let mut all = *done;
        set(&mut all, block);
        let dies = |i: u32| {
            let local = &self.locals[i as usize];
            !local.stays && within(&local.readers, &all)
        };
        let mut load = load;
        let mut most = Both::default();
        for (at, micro) in self.steps[block].iter().enumerate() {
            let mut made = micro.made;
            for &i in &micro.first {
                let local = &self.locals[i as usize];
                if !local.started && local.makers.iter().zip(done).all(|(a, b)| a & b == 0) {
                    made.add(local.load);
                }
            }
            let mut write = load.plus(made);
            let mut freed = micro.unread;
            for &(i, early) in &micro.last {
                if dies(i) {
                    freed.add(self.locals[i as usize].load);
                    if early {
                        write.subtract(self.locals[i as usize].load);
                    }
                }
            }
            for operand in in_place(&micro.shares, dies) {
                write.subtract(self.locals[operand as usize].load);
            }
            for m in 0..2 {
                let peak = load.plus(micro.inside.read[m]).max(write.plus(micro.inside.write[m]));
                most[m] = if at == 0 { peak } else { most[m].max(peak) };
            }
            load = load.plus(made).minus(freed);
        }
        (most, load)
    }
}

/// The steps of a block.
fn micros<const W: usize>(
    graph: &Graph,
    steps: &[u32],
    local_of: &FxHashMap<u32, u32>,
    locals: &[Local<W>],
) -> Vec<Micro> {
    let micro = |(at, &s): (usize, &u32)| {
        let s = s as usize;
        let (mut made, mut unread, mut first) = (Load::default(), Load::default(), Vec::new());
        for &i in &graph.makes[s] {
            let item = &graph.items[i as usize];
            let local = local_of[&i];
            if !item.makers.iter().any(|m| steps[..at].contains(m)) {
                let makers = locals[local as usize].makers.iter().map(|w| w.count_ones());
                if locals[local as usize].started || makers.sum::<u32>() > 1 {
                    first.push(local);
                } else {
                    made.add(item.load);
                }
            }
            if item.readers.is_empty() && !item.kept && item.makers.last() == Some(&(s as u32)) {
                unread.add(item.load);
            }
        }
        let later = |i: u32| {
            let item = &graph.items[i as usize];
            steps[at + 1..].iter().any(|t| item.readers.contains(t))
        };
        let early = |i: u32| graph.early[s].contains(&i);
        let last = graph.reads[s].iter().filter(|&&i| !later(i));
        let shares = graph.shares[s].iter().filter(|(_, o)| !later(*o) && !early(*o));
        Micro {
            inside: graph.inside[s],
            made,
            first,
            last: last.map(|&i| (local_of[&i], early(i))).collect(),
            shares: shares
                .filter(|(r, o)| local_of.contains_key(r) && local_of.contains_key(o))
                .map(|(r, o)| (local_of[r], local_of[o]))
                .collect(),
            unread,
        }
    };
    steps.iter().enumerate().map(micro).collect()
}

struct Search<'a, const W: usize> {
    problem: &'a Problem<W>,
    goal: Goal,
}

/// A set that has run, and how.
#[derive(Clone, Debug)]
struct State<const W: usize> {
    done: Mask<W>,
    /// What waits for nothing any more.
    ready: Mask<W>,
    load: Load,
    need: i64,
    count: u32,
    /// Where its path is stored.
    path: u32,
}

/// The blocks that lead to a state: the path before, and one block more.
struct Path {
    before: u32,
    block: u32,
}

impl<const W: usize> Search<'_, W> {
    fn start(&self) -> State<W> {
        let mut ready = [0; W];
        for (block, before) in self.problem.before.iter().enumerate() {
            if *before == [0; W] {
                set(&mut ready, block);
            }
        }
        State {
            done: [0; W],
            ready,
            load: self.problem.start,
            need: self.goal.floor,
            count: 0,
            path: u32::MAX,
        }
    }

    /// What a block needs after a state, or none if that is beyond the limits.
    fn after(&self, state: &State<W>, block: usize) -> Option<(i64, Load)> {
        let (most, load) = self.problem.run(&state.done, block, state.load);
        let need = most[self.goal.measure].minus(self.problem.rooms).most();
        if need >= self.goal.below {
            return None;
        }
        let capped =
            self.goal.measure == 0 || most[0].minus(self.problem.rooms).most() <= self.goal.cap;
        capped.then_some((need, load))
    }

    fn extend(
        &self,
        state: &mut State<W>,
        block: usize,
        need: i64,
        load: Load,
        paths: &mut Vec<Path>,
    ) {
        set(&mut state.done, block);
        state.ready[block / 64] &= !(1 << (block % 64));
        for &next in &self.problem.after[block] {
            if within(&self.problem.before[next as usize], &state.done) {
                set(&mut state.ready, next as usize);
            }
        }
        state.load = load;
        state.need = state.need.max(need);
        state.count += 1;
        paths.push(Path { before: state.path, block: block as u32 });
        state.path = paths.len() as u32 - 1;
    }

    /// Runs what may run at once, then says what may come next: block, need, load.
    fn settle(
        &self,
        state: &mut State<W>,
        paths: &mut Vec<Path>,
        work: &mut Work,
    ) -> Vec<(usize, i64, Load)> {
        let mut next: Vec<(usize, i64, Load)> = Vec::new();
        loop {
            next.clear();
            let mut free = None;
            for block in members(&state.ready) {
                let block = block as usize;
                work.spend(self.problem.steps[block].len() as u64);
                let Some((need, load)) = self.after(state, block) else { continue };
                if need <= state.need && load.fits(state.load) {
                    free = Some((block, need, load));
                    break;
                }
                next.push((block, need, load));
            }
            let Some((block, need, load)) = free else { return next };
            self.extend(state, block, need, load, paths);
        }
    }

    fn order(&self, state: &State<W>, paths: &[Path]) -> Vec<u32> {
        let mut order = Vec::with_capacity(state.count as usize);
        let mut at = state.path;
        while let Some(path) = paths.get(at as usize) {
            order.push(self.problem.names[path.block as usize]);
            at = path.before;
        }
        order.reverse();
        order
    }

    fn best_first(&self, work: &mut Work) -> Outcome {
        let n = self.problem.names.len() as u32;
        let mut paths: Vec<Path> = Vec::new();
        let mut states = vec![self.start()];
        let mut known: FxHashMap<Mask<W>, i64> = FxHashMap::default();
        let mut heap = BinaryHeap::new();
        heap.push((Reverse((self.goal.floor, n, self.problem.start.most())), Reverse(0u32)));
        while let Some((Reverse((need, ..)), Reverse(id))) = heap.pop() {
            if work.0 == 0 {
                return Outcome::Unknown(need);
            }
            let mut state = states[id as usize].clone();
            if known.get(&state.done).is_some_and(|&best| best < need) {
                continue;
            }
            let before = state.count;
            let next = self.settle(&mut state, &mut paths, work);
            if state.count == n {
                return Outcome::Best(self.order(&state, &paths), state.need);
            }
            if state.count > before {
                let best = known.entry(state.done).or_insert(i64::MAX);
                if *best <= state.need {
                    continue;
                }
                *best = state.need;
            }
            for (block, need, load) in next {
                let mut child = state.clone();
                let need = need.max(state.need);
                let mut done = state.done;
                set(&mut done, block);
                let best = known.entry(done).or_insert(i64::MAX);
                if *best <= need {
                    continue;
                }
                *best = need;
                self.extend(&mut child, block, need, load, &mut paths);
                let key = Reverse((child.need, n - child.count, child.load.most()));
                states.push(child);
                heap.push((key, Reverse(states.len() as u32 - 1)));
            }
        }
        Outcome::None
    }

    fn beam(&self, width: usize, work: &mut Work) -> Option<(Vec<u32>, i64)> {
        let n = self.problem.names.len();
        let mut paths: Vec<Path> = Vec::new();
        let mut layers: Vec<Vec<State<W>>> = vec![Vec::new(); n + 1];
        layers[0].push(self.start());
        for count in 0..n {
            let mut layer = std::mem::take(&mut layers[count]);
            layer.sort_by_key(|s| (s.done, s.need));
            layer.dedup_by_key(|s| s.done);
            layer.sort_by_key(|s| (s.need, s.load.minus(self.problem.rooms).most(), s.load.0));
            layer.truncate(width);
            for mut state in layer {
                if work.0 == 0 {
                    return None;
                }
                let next = self.settle(&mut state, &mut paths, work);
                if state.count as usize > count {
                    layers[state.count as usize].push(state);
                    continue;
                }
                for (block, need, load) in next {
                    let mut child = state.clone();
                    self.extend(&mut child, block, need, load, &mut paths);
                    layers[child.count as usize].push(child);
                }
            }
        }
        let best = layers[n].iter().min_by_key(|s| s.need)?;
        Some((self.order(best, &paths), best.need))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::bound::{Reach, bound};
    use crate::schedule::dag::Dag;
    use crate::schedule::graph::Item;
    use crate::schedule::orders;

    /// A random graph in which each step makes a value; some share with an operand.
    fn random(seed: u64, n: usize) -> Graph {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = move |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % n
        };
        let mut graph = Graph {
            dag: Dag::new(n),
            items: Vec::new(),
            reads: vec![Vec::new(); n],
            makes: vec![Vec::new(); n],
            shares: vec![Vec::new(); n],
            early: vec![Vec::new(); n],
            inside: vec![Inside::default(); n],
            rooms: Load::default(),
        };
        let add = |graph: &mut Graph, bytes: i64, given: bool| {
            let load = Load([bytes, if bytes > 2 { bytes } else { 0 }, 0]);
            graph.items.push(Item { bytes: bytes as u64, load, given, ..Item::default() });
            graph.items.len() as u32 - 1
        };
        if below(2) == 0 {
            add(&mut graph, 4, true);
            graph.rooms = Load([4, 4, 0]);
        }
        for s in 0..n {
            let bytes = 1 + below(4) as i64 * below(3) as i64;
            let result = add(&mut graph, bytes, false);
            graph.items[result as usize].makers.push(s as u32);
            graph.makes[s].push(result);
            for _ in 0..below(4) {
                let item = below(result as usize + 1);
                if item as u32 == result || graph.reads[s].contains(&(item as u32)) {
                    continue;
                }
                if !graph.items[item].given {
                    let maker = graph.items[item].makers[0];
                    graph.dag.add(maker, s as u32);
                }
                graph.items[item].readers.push(s as u32);
                graph.reads[s].push(item as u32);
                match below(4) {
                    0 | 1 if graph.items[item].bytes == bytes as u64 => {
                        graph.shares[s].push((result, item as u32));
                    }
                    2 => graph.early[s].push(item as u32),
                    _ => {}
                }
            }
            if below(3) == 0 {
                let scratch = [Load([below(5) as i64; 3]), Load::default()];
                graph.inside[s] = Inside { read: scratch, write: scratch };
            }
        }
        for item in &mut graph.items {
            item.kept = below(6) == 0;
        }
        graph
    }

    /// The least cost over all orders.
    fn brute(graph: &Graph, order: &mut Vec<u32>, best: &mut i64) {
        let n = graph.reads.len();
        if order.len() == n {
            *best = (*best).min(graph.cost(order).peak);
            return;
        }
        for s in 0..n as u32 {
            let ready = |p: &u32| order.contains(p);
            if !order.contains(&s) && graph.dag.predecessors[s as usize].iter().all(ready) {
                order.push(s);
                brute(graph, order, best);
                order.pop();
            }
        }
    }

    #[test]
    fn the_search_is_exact() {
        for seed in 0..400 {
            let graph = random(seed, 2 + seed as usize % 7);
            let mut least = i64::MAX;
            brute(&graph, &mut Vec::new(), &mut least);
            let source = crate::schedule::orders::source(&graph);
            let reach = Reach::new(&source, &graph.dag.successors);
            assert!(bound(&graph, Some(&reach))[0] <= least, "seed {seed}: the bound is none");
            for blocks in [Blocks::new(&graph, &reach), Blocks::single(&graph)] {
                let part: Vec<u32> = (0..blocks.steps.len() as u32).collect();
                let run = Run::new(&graph);
                let floor = run.load.minus(graph.rooms).most();
                let goal = Goal { measure: 0, floor, below: i64::MAX, cap: i64::MAX };
                let found = search(&graph, &blocks, &part, &run, goal, &mut Work(u64::MAX));
                let Outcome::Best(order, need) = found else { panic!("seed {seed}: {found:?}") };
                let order = blocks.flat(&order);
                assert_eq!(
                    (need, graph.cost(&order).peak),
                    (least, least),
                    "seed {seed} {blocks:?}"
                );
                let beamed = beam(&graph, &blocks, &part, &run, goal, 3, &mut Work(u64::MAX));
                let (order, need) = beamed.expect("an order");
                assert_eq!(graph.cost(&blocks.flat(&order)).peak, need);
            }
        }
    }

    #[test]
    fn steps_as_late_as_they_can_stand_need_no_more() {
        for seed in 0..2000 {
            let graph = random(seed, 4 + seed as usize % 12);
            let order = orders::source(&graph);
            let late = orders::late(&graph, &order);
            let place = |step: u32| late.iter().position(|&s| s == step);
            for (step, after) in graph.dag.successors.iter().enumerate() {
                assert!(after.iter().all(|&t| place(step as u32) < place(t)), "seed {seed}");
            }
            let [early, late] = [&order, &late].map(|order| graph.cost(order));
            assert!(late.values <= early.values, "seed {seed}");
        }
    }
}
