//! A list of steps as a graph: what must stand before what, and what memory each step takes and
//! gives back.

use super::dag::Dag;
use crate::walk::{Roots, is_invariant, lists, own_results, reads};
use jaxrs_kernel::program::{
    Branch, Donation, Library, Program, Sharing, Step, StepKind, Storage, ValueId, While,
};
use rustc_hash::FxHashMap;

/// What a list is given and what must be left at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Values that exist at the start and whose memory is free once they are dead.
    given: Vec<ValueId>,
    /// Values that are needed at the end.
    kept: Vec<ValueId>,
    /// A value at the end that best takes the place of one at the start: (start, end).
    replaced: Vec<(ValueId, ValueId)>,
}

impl Scope {
    /// Of the outermost list: donated arguments are given, results kept.
    pub(crate) fn program(program: &Program) -> Scope {
        let mut scope = Scope { kept: program.results.clone(), ..Scope::default() };
        for parameter in &program.parameters {
            if let Donation::Donated { preferred } = parameter.donation {
                scope.given.push(parameter.value);
                let named = preferred.and_then(|p| program.results.get(p as usize));
                if let Some(&result) = named {
                    scope.replaced.push((parameter.value, result));
                }
            }
        }
        scope
    }

    /// Of a loop's condition and body.
    pub(crate) fn repeat(inner: &While) -> Vec<Scope> {
        let changed = (0..inner.carries.len()).filter(|&i| !is_invariant(inner, i));
        let mut body = Scope { kept: inner.next.clone(), ..Scope::default() };
        for i in changed {
            body.given.push(inner.carries[i]);
            body.replaced.push((inner.carries[i], inner.next[i]));
        }
        vec![Scope { kept: vec![inner.condition_value], ..Scope::default() }, body]
    }

    /// Of a branch.
    pub(crate) fn branch(branch: &Branch) -> Scope {
        Scope { kept: branch.results.clone(), ..Scope::default() }
    }
}

/// A value that owns bytes, as far as a list's order matters to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    /// Rounded up.
    pub(crate) bytes: u64,
    /// Steps that read it.
    pub(crate) readers: Vec<u32>,
    /// In use at the end.
    pub(crate) kept: bool,
    /// In use from the start.
    pub(crate) given: bool,
}

/// A list of steps as a graph.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// What must stand before what.
    pub(crate) dag: Dag,
    /// The values.
    pub(crate) items: Vec<Item>,
    /// For each step, the items it reads, without repeats.
    pub(crate) reads: Vec<Vec<u32>>,
    /// For each step, the items whose first byte it makes.
    pub(crate) makes: Vec<Vec<u32>>,
    /// For each step, (result, operand) items that may share memory.
    pub(crate) shares: Vec<Vec<(u32, u32)>>,
    /// For each step, bytes it needs while it runs.
    pub(crate) transient: Vec<u64>,
}

impl Graph {
    /// The graph of a list.
    pub(crate) fn new(program: &Program, roots: &Roots, steps: &[Step], scope: &Scope) -> Graph {
        let n = steps.len();
        let mut graph = Graph {
            dag: Dag::new(n),
            items: Vec::new(),
            reads: vec![Vec::new(); n],
            makes: vec![Vec::new(); n],
            shares: vec![Vec::new(); n],
            transient: Vec::new(),
        };
        let mut item_of: FxHashMap<ValueId, u32> = FxHashMap::default();
        let mut maker: FxHashMap<ValueId, u32> = FxHashMap::default();
        let mut parts: FxHashMap<ValueId, Vec<u32>> = FxHashMap::default();
        let owner = |v: ValueId| roots.root(v).value;
        let bytes = |v: ValueId| program.values[v].bytes().aligned().0;
        for &value in &scope.given {
            item_of.entry(owner(value)).or_insert_with(|| {
                graph.items.push(Item {
                    bytes: bytes(owner(value)),
                    given: true,
                    ..Item::default()
                });
                graph.items.len() as u32 - 1
            });
        }
        for (s, step) in steps.iter().enumerate() {
            for &result in &step.results {
                maker.insert(result, s as u32);
            }
            for result in own_results(step) {
                let root = owner(result);
                parts.entry(root).or_default().push(s as u32);
                item_of.entry(root).or_insert_with(|| {
                    graph.items.push(Item { bytes: bytes(root), ..Item::default() });
                    graph.makes[s].push(graph.items.len() as u32 - 1);
                    graph.items.len() as u32 - 1
                });
            }
        }
        let mut read_by: FxHashMap<ValueId, Vec<u32>> = FxHashMap::default();
        for (s, step) in steps.iter().enumerate() {
            let s = s as u32;
            let mut before: Vec<u32> = Vec::new();
            reads(step, &mut |value| {
                match maker.get(&value) {
                    Some(&m) => before.push(m),
                    None => {
                        if let Storage::View { base, .. } = program.values[value].storage {
                            before.extend(maker.get(&base));
                        }
                        before.extend(parts.get(&owner(value)).into_iter().flatten());
                    }
                }
                read_by.entry(owner(value)).or_default().push(s);
                if let Some(&item) = item_of.get(&owner(value)) {
                    graph.reads[s as usize].push(item);
                }
            });
            before.sort_unstable();
            before.dedup();
            for from in before {
                // A later part of the same value, or the step itself.
                if from < s {
                    graph.dag.add(from, s);
                }
            }
            graph.reads[s as usize].sort_unstable();
            graph.reads[s as usize].dedup();
        }
        for (s, list) in graph.reads.iter().enumerate() {
            for &item in list {
                graph.items[item as usize].readers.push(s as u32);
            }
        }
        for &value in &scope.kept {
            if let Some(&item) = item_of.get(&owner(value)) {
                graph.items[item as usize].kept = true;
            }
        }
        for (s, step) in steps.iter().enumerate() {
            graph.shares[s] = sharing(program, roots, step, &item_of);
            graph.transient.push(transient(program, roots, step));
        }
        let mut last = None;
        for (s, _) in steps.iter().enumerate().filter(|(_, step)| prints(step)) {
            if let Some(last) = last.replace(s as u32) {
                graph.dag.add(last, s as u32);
            }
        }
        graph.readers_first(program, roots, steps, scope, &read_by, &maker);
        graph
    }

    /// Puts the readers of a value that is written in place before its writer.
    fn readers_first(
        &mut self,
        program: &Program,
        roots: &Roots,
        steps: &[Step],
        scope: &Scope,
        read_by: &FxHashMap<ValueId, Vec<u32>>,
        maker: &FxHashMap<ValueId, u32>,
    ) {
        let owner = |v: ValueId| roots.root(v).value;
        // (bytes, value, writer)
        let mut writes: Vec<(u64, ValueId, u32)> = Vec::new();
        for (s, step) in steps.iter().enumerate() {
            let mut note = |v: ValueId| {
                writes.push((program.values[v].bytes().0, owner(v), s as u32));
            };
            for &(_, operand) in &step.updates {
                note(step.operands[operand as usize]);
            }
            if let StepKind::While(inner) = &step.kind {
                (0..inner.carries.len())
                    .filter(|&i| !is_invariant(inner, i))
                    .for_each(|i| note(step.operands[i]));
            }
        }
        for &(start, end) in &replacements(program, roots, steps, scope) {
            let written = match maker.get(&end) {
                Some(&m) => Some(m),
                None => maker.get(&owner(end)).copied(),
            };
            if let Some(writer) = written {
                writes.push((program.values[end].bytes().0, owner(start), writer));
            }
        }
        writes.sort_by_key(|w| (std::cmp::Reverse(w.0), w.2));
        writes.dedup();
        for (bytes, value, writer) in writes {
            if bytes == 0 {
                continue;
            }
            let mut added = Vec::new();
            for &reader in read_by.get(&value).into_iter().flatten() {
                if reader == writer || self.dag.successors[reader as usize].contains(&writer) {
                    continue;
                }
                if self.dag.add(reader, writer) {
                    added.push(reader);
                } else {
                    // A copy is needed anyway.
                    added.drain(..).for_each(|r| self.dag.remove(r, writer));
                    break;
                }
            }
        }
    }

    /// The estimated peak of an order and the sum of its loads.
    pub(crate) fn cost(&self, order: &[u32]) -> (u64, u64) {
        let mut left: Vec<u32> = self.items.iter().map(|i| i.readers.len() as u32).collect();
        let mut load: u64 = 0;
        for item in &self.items {
            if item.given && (!item.readers.is_empty() || item.kept) {
                load += item.bytes;
            }
        }
        let (mut peak, mut area) = (load, 0u64);
        for &s in order {
            let step = s as usize;
            for &item in &self.reads[step] {
                left[item as usize] -= 1;
            }
            let dies = |item: u32| left[item as usize] == 0 && !self.items[item as usize].kept;
            let made: u64 = self.makes[step].iter().map(|&i| self.items[i as usize].bytes).sum();
            // Each result and each operand of a pair counts once; lists are short.
            let shares = &self.shares[step];
            let mut in_place = 0;
            for (i, &(result, operand)) in shares.iter().enumerate() {
                let taken =
                    shares[..i].iter().any(|&(r, o)| (r == result || o == operand) && dies(o));
                if dies(operand) && !taken {
                    in_place += self.items[operand as usize].bytes;
                }
            }
            let freed: u64 = self.reads[step]
                .iter()
                .filter(|&&i| dies(i))
                .map(|&i| self.items[i as usize].bytes)
                .sum();
            peak = peak.max(load + made + self.transient[step] - in_place);
            load = load + made - freed;
            // A value that no one reads is free at once.
            for &i in &self.makes[step] {
                let item = &self.items[i as usize];
                if item.readers.is_empty() && !item.kept {
                    load -= item.bytes;
                }
            }
            area = area.saturating_add(load);
        }
        (peak, area)
    }
}

/// Pairs of a value at the start and the one at the end that takes its place: of arguments, a
/// result that is made from it in place rather than the one that the source names.
fn replacements(
    program: &Program,
    roots: &Roots,
    steps: &[Step],
    scope: &Scope,
) -> Vec<(ValueId, ValueId)> {
    let owner = |v: ValueId| roots.root(v).value;
    let mut by_root: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for &value in &scope.kept {
        by_root.insert(owner(value), value);
    }
    let given: FxHashMap<ValueId, ()> = scope.given.iter().map(|&v| (owner(v), ())).collect();
    let mut near: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let mut taken: FxHashMap<ValueId, ()> = FxHashMap::default();
    for step in steps {
        for (r, &result) in step.results.iter().enumerate() {
            let Some(&end) = by_root.get(&owner(result)) else { continue };
            for (o, &operand) in step.operands.iter().enumerate() {
                let root = owner(operand);
                let shares = step.sharing.get(r).and_then(|row| row.get(o)).copied();
                let bytes = |v: ValueId| program.values[v].bytes();
                if given.contains_key(&root)
                    && shares.unwrap_or(Sharing::Never) >= Sharing::SameElement
                    && bytes(root) == bytes(end)
                    && !near.contains_key(&root)
                    && !taken.contains_key(&end)
                {
                    near.insert(root, end);
                    taken.insert(end, ());
                }
            }
        }
    }
    let mut pairs: Vec<(ValueId, ValueId)> = near.iter().map(|(&a, &b)| (a, b)).collect();
    for &(start, end) in &scope.replaced {
        if !near.contains_key(&owner(start)) && !taken.contains_key(&end) {
            pairs.push((start, end));
        }
    }
    pairs.sort_unstable();
    pairs
}

/// The items of a step that may share memory.
fn sharing(
    program: &Program,
    roots: &Roots,
    step: &Step,
    item_of: &FxHashMap<ValueId, u32>,
) -> Vec<(u32, u32)> {
    let item = |v: ValueId| item_of.get(&roots.root(v).value).copied();
    let mut pairs = Vec::new();
    let mut note = |result: ValueId, operand: ValueId| {
        let equal = program.values[result].bytes() == program.values[operand].bytes();
        if let (Some(r), Some(o), true) = (item(result), item(operand), equal) {
            pairs.push((r, o));
        }
    };
    match &step.kind {
        StepKind::While(_) => {
            step.results.iter().zip(&step.operands).for_each(|(&r, &o)| note(r, o));
        }
        StepKind::Case(inner) => {
            // A value from outside that a branch returns or updates at its end.
            for branch in &inner.branches {
                for (&result, &value) in step.results.iter().zip(&branch.results) {
                    note(result, value);
                }
            }
        }
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
            for (r, row) in step.sharing.iter().enumerate() {
                for (o, &kind) in row.iter().enumerate() {
                    let updates = step.updates.contains(&(r as u32, o as u32));
                    if updates || kind >= Sharing::SameElement {
                        note(step.results[r], step.operands[o]);
                    }
                }
            }
        }
    }
    pairs.retain(|&(r, o)| r != o);
    pairs
}

/// Whether a step, or one inside of it, shows values: such steps keep their order.
fn prints(step: &Step) -> bool {
    match &step.kind {
        StepKind::Library(Library::Print { .. }) => true,
        _ => lists(step).into_iter().flatten().any(prints),
    }
}

/// Bytes that a step needs while it runs: its scratch, or the peak of what it holds inside.
fn transient(program: &Program, roots: &Roots, step: &Step) -> u64 {
    let scopes = match &step.kind {
        StepKind::While(inner) => Scope::repeat(inner),
        StepKind::Case(inner) => inner.branches.iter().map(Scope::branch).collect(),
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
            return step.scratch.per_thread.0;
        }
    };
    let mut most = 0;
    for (list, scope) in lists(step).into_iter().zip(scopes) {
        let graph = Graph::new(program, roots, list, &scope);
        let order: Vec<u32> = (0..list.len() as u32).collect();
        let given: u64 = graph.items.iter().filter(|i| i.given).map(|i| i.bytes).sum();
        most = most.max(graph.cost(&order).0.saturating_sub(given));
    }
    most
}
