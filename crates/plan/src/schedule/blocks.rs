//! Steps that stand next to each other in some best order become one block.
//!
//! Liu, "An application of generalized tree pebbling to sparse matrix factorization" (1987), cuts a
//! chain where its load is lowest after it was highest: what lies between two such valleys runs at
//! once. The two rules here are those cuts, for steps of which one waits for the other alone:
//! * A step that gives back at least what it takes, and needs no more on the way than the one
//!   before it did, comes right after that one.
//! * A step that takes at least what it gives back, and needs no more on the way than the one after
//!   it will, comes right before that one.

use super::bound::{Reach, Set, has, members, put};
use super::dag;
use super::graph::Graph;
use super::load::{Both, Load, in_place};

/// Steps of one block at most.
const MAX_BLOCK: usize = 64;

/// Blocks in place of steps.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// The steps of each block, in order.
    pub(crate) steps: Vec<Vec<u32>>,
    pub(crate) successors: Vec<Vec<u32>>,
    pub(crate) predecessors: Vec<Vec<u32>>,
}

/// Which of the values that others read, too, are taken to be read by those before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Done,
    Waiting,
}

/// How the load goes in a block, from where it starts: the most, and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Profile {
    hill: Both,
    net: Load,
}

impl Profile {
    /// How far the most lies above the end.
    fn fall(&self) -> Both {
        self.hill.map(|h| h.minus(self.net))
    }
}

fn fits(a: Both, b: Both) -> bool {
    a[0].fits(b[0]) && a[1].fits(b[1])
}

struct Merger<'a> {
    graph: &'a Graph,
    reach: &'a Reach,
    steps: Vec<Vec<u32>>,
    successors: Vec<Vec<u32>>,
    predecessors: Vec<Vec<u32>>,
    profiles: Vec<Option<(Profile, Profile)>>,
}

impl Blocks {
    /// Merges as far as the rules go.
    pub(crate) fn new(graph: &Graph, reach: &Reach) -> Blocks {
        let sorted = |lists: &[Vec<u32>]| -> Vec<Vec<u32>> {
            let mut lists = lists.to_vec();
            for list in &mut lists {
                list.sort_unstable();
                list.dedup();
            }
            lists
        };
        let n = graph.reads.len();
        let mut merger = Merger {
            graph,
            reach,
            steps: (0..n as u32).map(|s| vec![s]).collect(),
            successors: sorted(&graph.dag.successors),
            predecessors: sorted(&graph.dag.predecessors),
            profiles: vec![None; n],
        };
        let mut waiting: Vec<u32> = (0..n as u32).collect();
        while let Some(block) = waiting.pop() {
            if merger.steps[block as usize].is_empty() {
                continue;
            }
            if let Some(first) = merger.grow(block) {
                waiting.push(first);
                waiting.extend(&merger.successors[first as usize]);
                waiting.extend(&merger.predecessors[first as usize]);
            }
        }
        merger.finish()
    }

    /// Each step by itself.
    pub(crate) fn single(graph: &Graph) -> Blocks {
        Blocks {
            steps: (0..graph.reads.len() as u32).map(|s| vec![s]).collect(),
            successors: graph.dag.successors.clone(),
            predecessors: graph.dag.predecessors.clone(),
        }
    }

    /// The steps of blocks in an order.
    pub(crate) fn flat(&self, order: &[u32]) -> Vec<u32> {
        order.iter().flat_map(|&b| self.steps[b as usize].iter().copied()).collect()
    }

    /// The blocks in an order of steps, each where its last step stands if it can.
    pub(crate) fn sorted(&self, order: &[u32]) -> Vec<u32> {
        let mut at = vec![0u32; order.len()];
        for (i, &s) in order.iter().enumerate() {
            at[s as usize] = i as u32;
        }
        let last = |b: u32| self.steps[b as usize].iter().map(|&s| at[s as usize]).max();
        dag::sorted(&self.predecessors, &self.successors, |b| last(b).unwrap_or(0))
    }

    /// Cuts the blocks where all of any size stand before or after: those between two cuts, in the
    /// order of the cuts. Blocks that touch only values of less than `small` bytes come as early as
    /// they can.
    pub(crate) fn pieces(&self, graph: &Graph, order: &[u32], small: u64) -> Vec<Vec<u32>> {
        let n = self.steps.len();
        let reach = Reach::new(order, &self.successors);
        let is_big = |block: u32| {
            self.steps[block as usize].iter().any(|&s| {
                let s = s as usize;
                let touched = graph.reads[s].iter().chain(&graph.makes[s]);
                let inside = graph.inside[s].read[0].max(graph.inside[s].write[0]).most();
                inside >= small as i64
                    || touched.into_iter().any(|&i| graph.items[i as usize].bytes >= small)
            })
        };
        let mut big: Set = vec![0; n.div_ceil(64)];
        (0..n as u32).filter(|&b| is_big(b)).for_each(|b| put(&mut big, b));
        let size =
            |set: &Set| -> u32 { set.iter().zip(&big).map(|(a, b)| (a & b).count_ones()).sum() };
        let all = size(&big);
        let mut cuts: Set = vec![0; n.div_ceil(64)];
        for block in members(&big) {
            let (before, after) = (&reach.before[block as usize], &reach.after[block as usize]);
            if size(before) + size(after) + 1 == all {
                put(&mut cuts, block);
            }
        }
        let mut piece = vec![0usize; n];
        let mut pieces: Vec<Vec<u32>> = Vec::new();
        for &block in order {
            let b = block as usize;
            piece[b] = if has(&big, block) {
                let before = reach.before[b].iter().zip(&cuts);
                before.map(|(a, b)| (a & b).count_ones() as usize).sum()
            } else {
                self.predecessors[b].iter().map(|&p| piece[p as usize]).max().unwrap_or(0)
            };
            while pieces.len() <= piece[b] {
                pieces.push(Vec::new());
            }
            pieces[piece[b]].push(block);
        }
        pieces
    }
}

impl Merger<'_> {
    /// Merges a block with its only predecessor or successor; says what it is part of then.
    fn grow(&mut self, block: u32) -> Option<u32> {
        if let [before] = self.predecessors[block as usize][..]
            && self.joined(before, block, |a, b| {
                b.1.net.fits(Load::default()) && fits(b.1.hill, a.1.fall())
            })
        {
            self.merge(before, block);
            return Some(before);
        }
        if let [after] = self.successors[block as usize][..]
            && self.joined(block, after, |a, b| {
                Load::default().fits(a.0.net) && fits(a.0.fall(), b.0.hill)
            })
        {
            self.merge(block, after);
            return Some(block);
        }
        None
    }

    /// Whether a rule holds for two blocks. Of the profiles, the first is the one if all that could
    /// be free is free, the second the one if nothing is.
    fn joined(
        &mut self,
        a: u32,
        b: u32,
        rule: impl Fn((Profile, Profile), (Profile, Profile)) -> bool,
    ) -> bool {
        if self.steps[a as usize].len() + self.steps[b as usize].len() > MAX_BLOCK {
            return false;
        }
        let (a, b) = (self.profiles(a), self.profiles(b));
        rule(a, b)
    }

    fn profiles(&mut self, block: u32) -> (Profile, Profile) {
        if let Some(known) = self.profiles[block as usize] {
            return known;
        }
        let found = (self.profile(block, Others::Done), self.profile(block, Others::Waiting));
        self.profiles[block as usize] = Some(found);
        found
    }

    fn profile(&self, block: u32, others: Others) -> Profile {
        let graph = self.graph;
        let steps = &self.steps[block as usize];
        let mut load = Load::default();
        let mut hill = Both::default();
        for (at, &s) in steps.iter().enumerate() {
            let before = |t: &u32, r: u32| has(&self.reach.before[*t as usize], r);
            let dies = |i: u32| {
                let item = &graph.items[i as usize];
                let ours = !item.given && item.makers.iter().all(|m| steps.contains(m));
                let later = steps[at + 1..].iter().any(|t| item.readers.contains(t));
                let read = |&r: &u32| {
                    let known =
                        steps[..=at].contains(&r) || steps[..=at].iter().any(|t| before(t, r));
                    let after = has(&self.reach.after[s as usize], r);
                    known || (others == Others::Done && !ours && !after)
                };
                !item.kept && !later && item.readers.iter().all(read)
            };
            let (mut made, mut unread) = (Load::default(), Load::default());
            for &i in &graph.makes[s as usize] {
                let item = &graph.items[i as usize];
                if !item.makers.iter().any(|m| steps[..at].contains(m)) {
                    // Of a value in parts others may have made the first.
                    let theirs = item.makers.len() > 1
                        && item.makers.iter().any(|m| !steps.contains(m))
                        && others == Others::Done;
                    if !theirs {
                        made.add(item.load);
                    }
                }
                if item.readers.is_empty() && !item.kept && item.makers.len() == 1 {
                    unread.add(item.load);
                }
            }
            let mut write = load.plus(made);
            let mut freed = Load::default();
            for &i in graph.reads[s as usize].iter().filter(|&&i| dies(i)) {
                let bytes = graph.items[i as usize].load;
                freed.add(bytes);
                if graph.early[s as usize].contains(&i) {
                    write.subtract(bytes);
                }
            }
            let early = |o: u32| graph.early[s as usize].contains(&o);
            for operand in in_place(&graph.shares[s as usize], |o| dies(o) && !early(o)) {
                write.subtract(graph.items[operand as usize].load);
            }
            let inside = &graph.inside[s as usize];
            for m in 0..2 {
                hill[m] = hill[m].max(load.plus(inside.read[m])).max(write.plus(inside.write[m]));
            }
            load = load.plus(made).minus(freed).minus(unread);
        }
        Profile { hill, net: load }
    }

    fn merge(&mut self, a: u32, b: u32) {
        let steps = std::mem::take(&mut self.steps[b as usize]);
        self.steps[a as usize].extend(steps);
        self.profiles[a as usize] = None;
        for (from, back) in [(b, true), (b, false)] {
            let list = if back {
                std::mem::take(&mut self.predecessors[from as usize])
            } else {
                std::mem::take(&mut self.successors[from as usize])
            };
            for other in list {
                let mirror = if back { &mut self.successors } else { &mut self.predecessors };
                let of_other = &mut mirror[other as usize];
                of_other.retain(|&x| x != b);
                if other == a {
                    continue;
                }
                if !of_other.contains(&a) {
                    of_other.push(a);
                }
                let own = if back { &mut self.predecessors } else { &mut self.successors };
                if !own[a as usize].contains(&other) {
                    own[a as usize].push(other);
                }
            }
        }
    }

    /// Numbers the blocks anew and orders those that are alike.
    fn finish(mut self) -> Blocks {
        let n = self.steps.len();
        let alive: Vec<u32> =
            (0..n as u32).filter(|&b| !self.steps[b as usize].is_empty()).collect();
        self.order_twins(&alive);
        let mut number = vec![u32::MAX; n];
        for (i, &b) in alive.iter().enumerate() {
            number[b as usize] = i as u32;
        }
        let renamed = |lists: &[Vec<u32>]| -> Vec<Vec<u32>> {
            let rename = |&b: &u32| lists[b as usize].iter().map(|&x| number[x as usize]).collect();
            alive.iter().map(rename).collect()
        };
        let (successors, predecessors) = (renamed(&self.successors), renamed(&self.predecessors));
        let steps = alive.iter().map(|&b| std::mem::take(&mut self.steps[b as usize])).collect();
        Blocks { steps, successors, predecessors }
    }

    /// Of two blocks between the same others, one that needs no more on the way and falls at least
    /// as far after it comes first: their places could be changed otherwise.
    fn order_twins(&mut self, alive: &[u32]) {
        type Key = (Vec<u32>, Vec<u32>, Vec<u32>);
        let mut groups: rustc_hash::FxHashMap<Key, Vec<u32>> = rustc_hash::FxHashMap::default();
        for &b in alive {
            let sorted = |list: &[u32]| {
                let mut list = list.to_vec();
                list.sort_unstable();
                list
            };
            let shared = self.shared(b);
            let key = (
                sorted(&self.predecessors[b as usize]),
                sorted(&self.successors[b as usize]),
                shared,
            );
            groups.entry(key).or_default().push(b);
        }
        let mut groups: Vec<Vec<u32>> = groups.into_values().filter(|g| g.len() > 1).collect();
        groups.sort_unstable();
        for mut group in groups {
            let key = |m: &mut Self, b: u32| {
                let (free, held) = m.profiles(b);
                let up = |p: Profile| p.hill.map(|l| l.0);
                let down = |p: Profile| p.fall().map(|l| l.0.map(|x: i64| -x));
                (up(free), up(held), down(free), down(held), b)
            };
            let mut keyed: Vec<(_, u32)> = group.iter().map(|&b| (key(self, b), b)).collect();
            keyed.sort_unstable();
            group = keyed.into_iter().map(|k| k.1).collect();
            for pair in 1..group.len() {
                let (a, b) = (group[pair - 1], group[pair]);
                let (x, y) = (self.profiles(a), self.profiles(b));
                let first =
                    |p: Profile, q: Profile| fits(p.hill, q.hill) && fits(q.fall(), p.fall());
                if first(x.0, y.0) && first(x.1, y.1) {
                    self.successors[a as usize].push(b);
                    self.predecessors[b as usize].push(a);
                }
            }
        }
    }

    /// The values that a block has in common with others, beside those it is given by the one
    /// before it or gives to the one after: twins have the same.
    fn shared(&self, block: u32) -> Vec<u32> {
        let steps = &self.steps[block as usize];
        let mut found = Vec::new();
        for &s in steps {
            for &i in self.graph.reads[s as usize].iter().chain(&self.graph.makes[s as usize]) {
                let item = &self.graph.items[i as usize];
                let outside = item.given || item.makers.iter().any(|m| !steps.contains(m));
                if outside {
                    found.push(i);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
