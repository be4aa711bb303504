//! An order in which more results can take the memory of donated arguments: the last reader of an
//! argument stands before the step that makes the result.
//!
//! `graph` sees to results that are made in place over an argument, and to those that the source
//! names. Here any donor that is large enough counts.

use super::dag::{self, Dag};
use super::graph::{Graph, Scene, Scope};
use crate::walk::{own_results, reads};
use jaxrs_kernel::program::{Bytes, Donation, Sharing, Step, StepKind, ValueId};
use rustc_hash::FxHashMap;

/// Results that are looked at, the largest.
const MAX_RESULTS: usize = 48;
/// Donors that are looked at for each result: those it is made over, then the smallest that fit.
const MAX_DONORS: usize = 12;
/// Pairs that the search tries.
const MAX_TRIES: usize = 2_000;

/// An order in which more bytes of results can be in donated arguments than in the given one.
pub(crate) fn order(scene: &Scene<'_>, steps: &[Step], given: &[u32]) -> Option<Vec<u32>> {
    let pairs = Pairs::new(scene, steps);
    let possible = pairs.most(&mut |_, _| true);
    if possible == 0 {
        return None;
    }
    let mut position = vec![0u32; steps.len()];
    for (at, &step) in given.iter().enumerate() {
        position[step as usize] = at as u32;
    }
    let now = pairs.most(&mut |result, donor| {
        let maker = pairs.results[result].maker;
        let before = |&r: &u32| r == maker || position[r as usize] < position[maker as usize];
        pairs.donors[donor].readers.iter().all(before)
    });
    if now >= possible {
        return None;
    }
    // Without the pairs that the graph prefers.
    let scope = Scope::results(scene.program);
    let graph = Graph::new(scene, steps, &scope);
    let mut search = Search {
        pairs: &pairs,
        dag: graph.dag,
        taken: vec![false; pairs.donors.len()],
        best: now,
        found: None,
        tries: MAX_TRIES,
    };
    search.from(0, 0);
    let dag = search.found?;
    let order = dag::sorted(&dag.predecessors, &dag.successors, |s| position[s as usize]);
    Some(order)
}

/// A donated argument.
struct Donor {
    bytes: u64,
    readers: Vec<u32>,
}

/// A result that a step makes whole.
struct End {
    bytes: u64,
    /// Rounded up.
    size: u64,
    maker: u32,
    /// Donors that are large enough, and that its maker does not read or reads in place.
    donors: Vec<usize>,
}

/// What can be in what.
struct Pairs {
    donors: Vec<Donor>,
    results: Vec<End>,
}

impl Pairs {
    fn new(scene: &Scene<'_>, steps: &[Step]) -> Pairs {
        let (program, roots) = (scene.program, scene.roots);
        let owner = |v: ValueId| roots.root(v).value;
        let bytes = |v: ValueId| program.values[v].bytes().0;
        let mut ends: FxHashMap<ValueId, Option<u32>> = FxHashMap::default();
        for &value in &program.results {
            ends.insert(owner(value), None);
        }
        let mut given: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut donors: Vec<Donor> = Vec::new();
        for parameter in &program.parameters {
            let root = owner(parameter.value);
            if parameter.donation != Donation::Kept && bytes(root) > 0 && !ends.contains_key(&root)
            {
                given.insert(root, donors.len());
                donors.push(Donor { bytes: bytes(root), readers: Vec::new() });
            }
        }
        let mut parts: FxHashMap<ValueId, u32> = FxHashMap::default();
        for (s, step) in steps.iter().enumerate() {
            reads(step, &mut |v| {
                if let Some(&donor) = given.get(&owner(v)) {
                    donors[donor].readers.push(s as u32);
                }
            });
            own_results(step).for_each(|v| {
                if let Some(maker) = ends.get_mut(&owner(v)) {
                    *maker = Some(s as u32);
                    *parts.entry(owner(v)).or_default() += 1;
                }
            });
        }
        donors.iter_mut().for_each(|d| d.readers.dedup());
        let mut results: Vec<End> = Vec::new();
        let mut ends: Vec<(ValueId, Option<u32>)> = ends.into_iter().collect();
        ends.sort_unstable();
        for (root, maker) in ends {
            let (Some(maker), Some(1)) = (maker, parts.get(&root)) else { continue };
            let fits = |&d: &usize| {
                donors[d].bytes >= bytes(root)
                    && (!donors[d].readers.contains(&maker)
                        || in_place(scene, &steps[maker as usize], root, |v| {
                            given.get(&owner(v)) == Some(&d)
                        }))
            };
            let mut fitting: Vec<usize> = (0..donors.len()).filter(fits).collect();
            fitting.sort_by_key(|&d| (!donors[d].readers.contains(&maker), donors[d].bytes, d));
            fitting.truncate(MAX_DONORS);
            if bytes(root) > 0 && !fitting.is_empty() {
                let size = Bytes(bytes(root)).aligned().0;
                results.push(End { bytes: bytes(root), size, maker, donors: fitting });
            }
        }
        results.sort_by_key(|r| (std::cmp::Reverse(r.bytes), r.maker));
        results.truncate(MAX_RESULTS);
        Pairs { donors, results }
    }

    /// The most bytes that pairs which are allowed can alias: results in descending size, each by
    /// an augmenting path.
    fn most(&self, allowed: &mut dyn FnMut(usize, usize) -> bool) -> u64 {
        let mut result_of: Vec<Option<usize>> = vec![None; self.donors.len()];
        let mut sum = 0;
        for (r, end) in self.results.iter().enumerate() {
            let mut seen = vec![false; self.donors.len()];
            if self.augment(r, &mut result_of, &mut seen, allowed) {
                sum += end.size;
            }
        }
        sum
    }

    fn augment(
        &self,
        result: usize,
        result_of: &mut [Option<usize>],
        seen: &mut [bool],
        allowed: &mut dyn FnMut(usize, usize) -> bool,
    ) -> bool {
        for &donor in &self.results[result].donors {
            if std::mem::replace(&mut seen[donor], true) || !allowed(result, donor) {
                continue;
            }
            let free = match result_of[donor] {
                None => true,
                Some(other) => self.augment(other, result_of, seen, allowed),
            };
            if free {
                result_of[donor] = Some(result);
                return true;
            }
        }
        false
    }
}

/// Whether a step makes a value over each operand of an argument.
fn in_place(
    scene: &Scene<'_>,
    step: &Step,
    root: ValueId,
    is_argument: impl Fn(ValueId) -> bool,
) -> bool {
    let roots = scene.roots;
    let position = step.results.iter().position(|&v| roots.root(v).value == root);
    let Some(result) = position else { return false };
    let whole = |v: ValueId| roots.is_whole(scene.program, v);
    match &step.kind {
        // Its first operands are the carries' initial values.
        StepKind::While(_) => {
            let mut read = 0;
            reads(step, &mut |v| read += usize::from(is_argument(v)));
            read == 1 && step.operands.get(result).is_some_and(|&v| is_argument(v) && whole(v))
        }
        StepKind::Case(_) => false,
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
            let sharing = |o: usize| step.sharing.get(result).and_then(|row| row.get(o)).copied();
            let shares = |(o, &v): (usize, &ValueId)| match sharing(o).unwrap_or(Sharing::Never) {
                Sharing::Never => false,
                Sharing::Ordered => scene.threads == 1 && roots.root(v).offset == 0,
                Sharing::SameElement => roots.root(v).offset == 0,
                Sharing::AfterFullRead => true,
            };
            step.operands.iter().enumerate().filter(|o| is_argument(*o.1)).all(shares)
        }
    }
}

/// Depth first: for each result a donor, or none.
struct Search<'a> {
    pairs: &'a Pairs,
    dag: Dag,
    taken: Vec<bool>,
    best: u64,
    found: Option<Dag>,
    tries: usize,
}

impl Search<'_> {
    fn from(&mut self, result: usize, sum: u64) {
        if sum > self.best {
            (self.best, self.found) = (sum, Some(self.dag.clone()));
        }
        let Some(end) = self.pairs.results.get(result) else { return };
        let rest: u64 = self.pairs.results[result..].iter().map(|r| r.size).sum();
        for &donor in &end.donors {
            if self.taken[donor] || sum + rest <= self.best {
                continue;
            }
            if self.tries == 0 {
                return;
            }
            self.tries -= 1;
            if let Some(added) = self.readers_first(donor, end.maker) {
                self.taken[donor] = true;
                self.from(result + 1, sum + end.size);
                self.taken[donor] = false;
                self.take_back(&added, end.maker);
            }
        }
        if sum + rest - end.size > self.best {
            self.from(result + 1, sum);
        }
    }

    /// Puts a donor's readers before a step, unless that makes a cycle.
    fn readers_first(&mut self, donor: usize, maker: u32) -> Option<Vec<u32>> {
        let mut added = Vec::new();
        for &reader in &self.pairs.donors[donor].readers {
            if reader == maker {
                continue;
            }
            if !self.dag.add(reader, maker) {
                self.take_back(&added, maker);
                return None;
            }
            added.push(reader);
        }
        Some(added)
    }

    fn take_back(&mut self, added: &[u32], maker: u32) {
        added.iter().rev().for_each(|&reader| self.dag.remove(reader, maker));
    }
}
