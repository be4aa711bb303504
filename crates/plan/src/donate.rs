//! Which donated argument's buffer each result takes over.
//!
//! A pair is possible where the argument is large enough and dead by the time the result is
//! written. Results are served in descending size, each by an augmenting path, which makes the sum
//! of aliased bytes the greatest possible. Among a result's donors the one named by the source
//! comes first, then one that the result is computed from, then the smallest.

use crate::classes::{Classes, Conflict, Context};
use crate::walk::visit;
use jaxrs_kernel::program::{Donation, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// A bound on the pairs looked at, so that thousands of arguments stay quick.
const MAX_PAIRS: usize = 1 << 20;

/// A result that can take over a donated argument only as a copy, made once the argument is dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) result: u32,
    pub(crate) argument: u32,
}

/// Pairs donors with results, merging their classes, and returns the pairs that need a copy.
pub(crate) fn donate(context: &Context<'_>, classes: &mut Classes, strict: bool) -> Vec<Late> {
    let mut matching = Matching::new(context, classes, strict);
    let mut order = matching.open.clone();
    order.sort_by_key(|&i| (std::cmp::Reverse(matching.result_bytes(i)), i));
    for result in order {
        let mut seen = FxHashSet::default();
        matching.augment(result, &mut seen);
    }
    let mut taken = std::mem::take(&mut matching.donor_of);
    let late = matching.late(&mut taken);
    let mut pairs: Vec<(u32, u32)> = taken.into_iter().collect();
    pairs.sort_unstable();
    for (result, argument) in pairs {
        let value = context.program.results[result as usize];
        let parameter = context.program.parameters[argument as usize].value;
        classes.merge(context, value, parameter).expect("the matching only holds possible pairs");
    }
    late
}

struct Matching<'a> {
    context: &'a Context<'a>,
    classes: &'a Classes,
    /// Results without a donor in their class.
    open: Vec<u32>,
    /// For each open result, its possible donors, best first.
    candidates: FxHashMap<u32, Vec<u32>>,
    donor_of: FxHashMap<u32, u32>,
    result_of: FxHashMap<u32, u32>,
    tests: usize,
    known: FxHashMap<(u32, u32), Result<(), Conflict>>,
}

impl<'a> Matching<'a> {
    fn new(context: &'a Context<'a>, classes: &'a Classes, strict: bool) -> Matching<'a> {
        let program = context.program;
        let class = |value: ValueId| classes.of(context.roots.root(value).value);
        let open: Vec<u32> = (0..program.results.len() as u32)
            .filter(|&i| {
                let value = program.results[i as usize];
                class(value).argument.is_none() && context.bytes(value) > 0
            })
            .collect();
        let mut donors: Vec<(u64, u32, Option<u32>)> = Vec::new();
        for (i, parameter) in program.parameters.iter().enumerate() {
            let Donation::Donated { preferred } = parameter.donation else { continue };
            let bytes = context.bytes(parameter.value);
            if bytes > 0 && class(parameter.value).result.is_none() {
                donors.push((bytes, i as u32, preferred));
            }
        }
        donors.sort_unstable();
        let named: FxHashSet<u32> = donors.iter().filter_map(|d| d.2).collect();
        let read_by = operands_of_results(context, classes);
        let mut candidates = FxHashMap::default();
        let mut tests = 0;
        for &result in &open {
            let bytes = context.bytes(program.results[result as usize]);
            let near = read_by.get(&result);
            let mut fitting: Vec<(u32, u64, u32)> = donors
                [donors.partition_point(|d| d.0 < bytes)..]
                .iter()
                .filter(|d| match d.2 {
                    Some(wanted) => !strict || wanted == result,
                    None => !strict || !named.contains(&result),
                })
                .map(|&(size, donor, preferred)| {
                    let rank = match preferred {
                        Some(wanted) if wanted == result => 0,
                        _ if near.is_some_and(|n| n.contains(&donor)) && size == bytes => 1,
                        None => 2,
                        Some(_) => 3,
                    };
                    (rank, size, donor)
                })
                .collect();
            tests += fitting.len();
            if tests > MAX_PAIRS {
                fitting.retain(|f| f.0 < 2);
            }
            fitting.sort_unstable();
            candidates.insert(result, fitting.into_iter().map(|f| f.2).collect());
        }
        Matching {
            context,
            classes,
            open,
            candidates,
            donor_of: FxHashMap::default(),
            result_of: FxHashMap::default(),
            tests: 0,
            known: FxHashMap::default(),
        }
    }

    fn result_bytes(&self, result: u32) -> u64 {
        self.context.bytes(self.context.program.results[result as usize])
    }

    fn possible(&mut self, result: u32, donor: u32) -> Result<(), Conflict> {
        let program = self.context.program;
        let value = program.results[result as usize];
        let parameter = program.parameters[donor as usize].value;
        self.tests += 1;
        let (context, classes) = (self.context, self.classes);
        *self
            .known
            .entry((result, donor))
            .or_insert_with(|| classes.can_merge(context, value, parameter))
    }

    /// Finds a donor for the result, moving other results to other donors where that helps.
    fn augment(&mut self, result: u32, seen: &mut FxHashSet<u32>) -> bool {
        // A depth-first search with its own stack: (result, next candidate).
        let mut path: Vec<(u32, usize)> = vec![(result, 0)];
        let mut chosen: Vec<u32> = Vec::new();
        while let Some((at, next)) = path.last_mut() {
            let at = *at;
            let Some(&donor) = self.candidates[&at].get(*next) else {
                path.pop();
                chosen.pop();
                continue;
            };
            *next += 1;
            if self.tests > MAX_PAIRS || seen.contains(&donor) || self.possible(at, donor).is_err()
            {
                continue;
            }
            seen.insert(donor);
            chosen.push(donor);
            if let Some(&other) = self.result_of.get(&donor) {
                path.push((other, 0));
                continue;
            }
            for (&(result, _), &donor) in path.iter().zip(&chosen) {
                self.donor_of.insert(result, donor);
                self.result_of.insert(donor, result);
            }
            return true;
        }
        false
    }

    /// Pairs that the source names and that only a copy makes possible, unless a result at least as
    /// large has the argument. A smaller one gives it up.
    fn late(&mut self, taken: &mut FxHashMap<u32, u32>) -> Vec<Late> {
        let mut late = Vec::new();
        for result in self.open.clone() {
            if taken.contains_key(&result) {
                continue;
            }
            let named = self.candidates[&result].iter().copied().find(|&donor| {
                let parameter = self.context.program.parameters[donor as usize];
                parameter.donation == Donation::Donated { preferred: Some(result) }
            });
            let Some(donor) = named else { continue };
            let holder = taken.iter().find(|t| *t.1 == donor).map(|t| *t.0);
            if holder.is_some_and(|h| self.result_bytes(h) >= self.result_bytes(result)) {
                continue;
            }
            if let Err(Conflict::Live(_)) = self.possible(result, donor) {
                if let Some(holder) = holder {
                    taken.remove(&holder);
                }
                late.push(Late { result, argument: donor });
            }
        }
        late
    }
}

/// For each result, the arguments that a step which makes a value of its class reads.
fn operands_of_results(context: &Context<'_>, classes: &Classes) -> FxHashMap<u32, FxHashSet<u32>> {
    let mut found: FxHashMap<u32, FxHashSet<u32>> = FxHashMap::default();
    visit(&context.program.body, &mut |step| {
        for &value in &step.results {
            let Some(result) = classes.of(context.roots.root(value).value).result else { continue };
            for &operand in &step.operands {
                if let Some(a) = classes.of(context.roots.root(operand).value).argument {
                    found.entry(result).or_default().insert(a);
                }
            }
        }
    });
    found
}
