//! A list of steps as a graph: what must stand before what, and what memory each step takes and
//! gives back.

use super::dag::Dag;
use super::load::{Inside, Levels, Load};
use crate::pipeline::Code;
use crate::walk::{Roots, is_invariant, lists, own_results, reads};
use jaxrs_kernel::program::{
    Branch, Donation, Library, Program, Sharing, Step, StepKind, Storage, ValueId, While,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a graph is made for.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) program: &'a Program,
    pub(crate) roots: &'a Roots,
    pub(crate) code: &'a Code,
    pub(crate) threads: u32,
    /// Rooms beside the arena.
    pub(crate) levels: &'a Levels,
}

/// What a list is given and what must be left at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Values that exist at the start and whose memory is free once they are dead.
    pub(crate) given: Vec<ValueId>,
    /// Values that are needed at the end.
    pub(crate) kept: Vec<ValueId>,
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

    /// The same without a word on what takes the place of arguments.
    pub(crate) fn results(program: &Program) -> Scope {
        Scope { kept: program.results.clone(), ..Scope::default() }
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
    /// The same for each level.
    pub(crate) load: Load,
    /// Steps that write it: several, if it is written in parts.
    pub(crate) makers: Vec<u32>,
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
    /// For each step, the items it writes, or parts of them.
    pub(crate) makes: Vec<Vec<u32>>,
    /// For each step, (result, operand) items that may share memory.
    pub(crate) shares: Vec<Vec<(u32, u32)>>,
    /// For each step, items that it has read in full before it writes.
    pub(crate) early: Vec<Vec<u32>>,
    /// For each step, what it needs while it runs.
    pub(crate) inside: Vec<Inside>,
    /// Room beside the arena, by level.
    pub(crate) rooms: Load,
}

impl Graph {
    /// The graph of a list.
    pub(crate) fn new(scene: &Scene<'_>, steps: &[Step], scope: &Scope) -> Graph {
        let (program, roots) = (scene.program, scene.roots);
        let n = steps.len();
        let mut graph = Graph {
            dag: Dag::new(n),
            items: Vec::new(),
            reads: vec![Vec::new(); n],
            makes: vec![Vec::new(); n],
            shares: vec![Vec::new(); n],
            early: vec![Vec::new(); n],
            inside: Vec::with_capacity(n),
            rooms: scene.levels.rooms(),
        };
        let mut item_of: FxHashMap<ValueId, u32> = FxHashMap::default();
        let mut maker: FxHashMap<ValueId, u32> = FxHashMap::default();
        let mut parts: FxHashMap<ValueId, Vec<u32>> = FxHashMap::default();
        let owner = |v: ValueId| roots.root(v).value;
        let item = |v: ValueId, given: bool| {
            let bytes = program.values[v].bytes();
            let load = scene.levels.load(bytes);
            Item { bytes: bytes.aligned().0, load, given, ..Item::default() }
        };
        for &value in &scope.given {
            item_of.entry(owner(value)).or_insert_with(|| {
                graph.items.push(item(owner(value), true));
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
                let at = *item_of.entry(root).or_insert_with(|| {
                    graph.items.push(item(root, false));
                    graph.items.len() as u32 - 1
                });
                let made = &mut graph.items[at as usize];
                if !made.given && made.makers.last() != Some(&(s as u32)) {
                    made.makers.push(s as u32);
                    graph.makes[s].push(at);
                }
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
            graph.shares[s] = sharing(scene, step, &item_of);
            graph.early[s] = early(scene, step, &item_of);
            graph.inside.push(Inside::new(scene, step));
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
}

/// Which of a program's results will live in a donated argument.
pub(crate) fn taken(scene: &Scene<'_>, steps: &[Step], scope: &Scope) -> Vec<bool> {
    let (program, roots) = (scene.program, scene.roots);
    let owner = |v: ValueId| roots.root(v).value;
    let bytes = |v: ValueId| program.values[v].bytes().0;
    let near = replacements(program, roots, steps, scope);
    let (mut donors, mut ends) = (FxHashSet::default(), FxHashSet::default());
    donors.extend(scope.given.iter().map(|&g| owner(g)));
    ends.extend(donors.iter().copied());
    for &(start, end) in &near {
        donors.remove(&owner(start));
        ends.insert(owner(end));
    }
    let mut taken: Vec<bool> = program.results.iter().map(|&v| ends.contains(&owner(v))).collect();
    let (mut made, mut read) = (FxHashMap::default(), FxHashMap::default());
    for (s, step) in steps.iter().enumerate() {
        reads(step, &mut |v| {
            read.insert(owner(v), s);
        });
        own_results(step).for_each(|v| {
            made.insert(owner(v), s);
        });
    }
    let mut donors: Vec<(u64, ValueId)> = donors.into_iter().map(|v| (bytes(v), v)).collect();
    donors.sort_unstable();
    let mut order: Vec<usize> = (0..taken.len()).filter(|&i| !taken[i]).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(bytes(program.results[i])));
    for i in order {
        let result = program.results[i];
        let at = made.get(&owner(result)).copied();
        let fits =
            |donor: &(u64, ValueId)| donor.0 >= bytes(result) && read.get(&donor.1).copied() <= at;
        let from = donors.partition_point(|d| d.0 < bytes(result));
        let found = donors[from..].iter().take(64).position(fits);
        if let Some(donor) = found {
            donors.remove(from + donor);
            taken[i] = true;
        }
    }
    taken
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
fn sharing(scene: &Scene<'_>, step: &Step, item_of: &FxHashMap<ValueId, u32>) -> Vec<(u32, u32)> {
    let (program, roots) = (scene.program, scene.roots);
    let item = |v: ValueId| item_of.get(&roots.root(v).value).copied();
    let mut pairs = Vec::new();
    let mut note = |result: ValueId, operand: ValueId| {
        let equal = program.values[result].bytes() == program.values[operand].bytes();
        let whole = roots.is_whole(program, result) && roots.is_whole(program, operand);
        if let (Some(r), Some(o), true) = (item(result), item(operand), equal && whole) {
            pairs.push((r, o));
        }
    };
    let alone = match step.kind {
        StepKind::Kernel(kernel) => {
            scene.threads == 1 || scene.code.kernels[kernel].range.is_none()
        }
        StepKind::Library(_)
        | StepKind::Copy
        | StepKind::Tile(_)
        | StepKind::While(_)
        | StepKind::Case(_) => scene.threads == 1,
    };
    let least = if alone { Sharing::Ordered } else { Sharing::SameElement };
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
                    if updates || kind >= least {
                        note(step.results[r], step.operands[o]);
                    }
                }
            }
        }
    }
    pairs.retain(|&(r, o)| r != o);
    pairs
}

/// The items that a step has read in full before it writes anything.
fn early(scene: &Scene<'_>, step: &Step, item_of: &FxHashMap<ValueId, u32>) -> Vec<u32> {
    if step.results.is_empty() || step.sharing.len() != step.results.len() {
        return Vec::new();
    }
    let full =
        |o: usize| step.sharing.iter().all(|row| row.get(o) == Some(&Sharing::AfterFullRead));
    let item = |&v: &ValueId| item_of.get(&scene.roots.root(v).value).copied();
    let late: Vec<u32> = step
        .operands
        .iter()
        .enumerate()
        .filter(|&(o, _)| !full(o))
        .filter_map(|(_, v)| item(v))
        .collect();
    let mut found: Vec<u32> = step.operands.iter().filter_map(item).collect();
    found.retain(|i| !late.contains(i));
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a step, or one inside of it, shows values: such steps keep their order.
fn prints(step: &Step) -> bool {
    match &step.kind {
        StepKind::Library(Library::Print { .. }) => true,
        _ => lists(step).into_iter().flatten().any(prints),
    }
}
