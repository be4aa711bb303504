//! The units decided so far: which values each one stores, and which units read them.
//!
//! Decisions are taken from the last op to the first, so that a unit's readers are known when it
//! is made. `height` is at least the longest way from a unit to the end: an edge goes from a
//! larger height to a smaller one, which bounds the search for a way between two units.

use jaxrs_ir::{OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// More units than this and a search gives up.
const MAX_SEARCH: usize = 400;

/// What a unit is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A kernel over an iteration space.
    Kernel(Vec<u64>),
    /// An op by itself.
    Op(OpId),
}

/// A unit.
#[derive(Clone, Debug)]
pub(super) struct UnitData {
    /// What it is.
    pub kind: Kind,
    /// The values it stores, last first.
    pub roots: Vec<ValueId>,
    /// Position of its last op.
    pub position: u32,
    /// Instructions so far, roughly.
    pub size: u32,
    /// The values it reads, whether from memory or not.
    pub reads: FxHashSet<ValueId>,
    /// The most iterations of any of its loop nests.
    pub iterations: f64,
    /// Where its loops, by their position in the path, are split: once more code for each.
    pub cuts: Cuts,
    height: u32,
    readers: Vec<u32>,
    read: Vec<u32>,
}

/// Values of loop variables at which loops are split.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts(FxHashMap<u32, BTreeSet<i64>>);

impl Cuts {
    /// Adds values at which a loop is split.
    pub(super) fn add(&mut self, position: u32, at: impl IntoIterator<Item = i64>) {
        self.0.entry(position).or_default().extend(at);
    }

    /// The most pieces of a loop.
    pub(super) fn longest(&self) -> usize {
        self.0.values().map(|at| at.len() + 1).max().unwrap_or(1)
    }

    /// How many times the innermost code stands in the kernel, about.
    pub(super) fn copies(&self) -> u32 {
        self.0.values().fold(1, |all, at| all.saturating_mul(at.len() as u32 + 1))
    }

    /// All the cuts of both.
    pub(super) fn with(&self, other: &Cuts) -> Cuts {
        let mut all = self.clone();
        other.0.iter().for_each(|(&position, at)| all.add(position, at.iter().copied()));
        all
    }
}

/// The units of a block.
#[derive(Debug, Default)]
pub(super) struct Units {
    units: Vec<UnitData>,
    merged: Vec<u32>,
}

impl Units {
    /// A new unit without readers.
    pub(super) fn push(&mut self, kind: Kind, position: u32) -> u32 {
        let (roots, readers, read) = (Vec::new(), Vec::new(), Vec::new());
        let (reads, iterations) = (FxHashSet::default(), 1.0);
        let unit = UnitData {
            kind,
            roots,
            position,
            size: 0,
            reads,
            iterations,
            cuts: Cuts::default(),
            height: 0,
            readers,
            read,
        };
        self.units.push(unit);
        self.merged.push(self.merged.len() as u32);
        self.merged.len() as u32 - 1
    }

    /// The unit that a unit has become part of.
    pub(super) fn find(&self, unit: u32) -> u32 {
        let mut unit = unit;
        while self.merged[unit as usize] != unit {
            unit = self.merged[unit as usize];
        }
        unit
    }

    /// A unit's data.
    pub(super) fn get(&self, unit: u32) -> &UnitData {
        &self.units[self.find(unit) as usize]
    }

    /// A unit's data.
    pub(super) fn get_mut(&mut self, unit: u32) -> &mut UnitData {
        let unit = self.find(unit);
        &mut self.units[unit as usize]
    }

    /// Says that `reader` loads what `unit` stores.
    pub(super) fn edge(&mut self, unit: u32, reader: u32) {
        let (unit, reader) = (self.find(unit), self.find(reader));
        if unit == reader || self.units[unit as usize].readers.contains(&reader) {
            return;
        }
        self.units[unit as usize].readers.push(reader);
        self.units[reader as usize].read.push(unit);
        self.raise(unit, self.units[reader as usize].height + 1);
    }

    /// Raises a unit's height, and those of the units it reads.
    fn raise(&mut self, unit: u32, height: u32) {
        let mut stack = vec![(unit, height)];
        while let Some((unit, height)) = stack.pop() {
            let unit = self.find(unit);
            let data = &mut self.units[unit as usize];
            if data.height >= height {
                continue;
            }
            data.height = height;
            for &before in &self.units[unit as usize].read {
                stack.push((before, height + 1));
            }
        }
    }

    /// Whether there may be a way from any of `from` to `to`. Does not start from `to` itself.
    pub(super) fn reaches(&self, from: &[u32], to: u32) -> bool {
        let to = self.find(to);
        let least = self.units[to as usize].height;
        let mut stack: Vec<u32> = from.iter().map(|&u| self.find(u)).collect();
        stack.retain(|&u| u != to);
        let mut seen = FxHashSet::default();
        while let Some(unit) = stack.pop() {
            if unit == to {
                return true;
            }
            if self.units[unit as usize].height <= least || !seen.insert(unit) {
                continue;
            }
            if seen.len() > MAX_SEARCH {
                return true;
            }
            stack.extend(self.units[unit as usize].readers.iter().map(|&u| self.find(u)));
        }
        false
    }

    /// Whether the two units can be one: no way leads from one to the other.
    pub(super) fn independent(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        let readers = |unit: u32| self.units[unit as usize].readers.clone();
        let direct = |from: u32, to: u32| readers(from).iter().any(|&r| self.find(r) == to);
        !direct(a, b)
            && !direct(b, a)
            && !self.reaches(&readers(a), b)
            && !self.reaches(&readers(b), a)
    }

    /// Makes two independent units one; gives its name.
    pub(super) fn merge(&mut self, a: u32, b: u32) -> u32 {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return a;
        }
        let other = self.units[b as usize].clone();
        self.merged[b as usize] = a;
        let data = &mut self.units[a as usize];
        let (mine, theirs) = (data.height, other.height);
        data.roots.extend(other.roots);
        data.readers.extend(other.readers);
        data.read.extend(other.read);
        data.position = data.position.max(other.position);
        data.size += other.size;
        data.reads.extend(other.reads);
        data.iterations = data.iterations.max(other.iterations);
        data.cuts = data.cuts.with(&other.cuts);
        data.height = mine.min(theirs);
        // Those before either unit are now before both.
        let height = mine.max(theirs);
        self.units[a as usize].height = height;
        for before in self.units[a as usize].read.clone() {
            self.raise(before, height + 1);
        }
        a
    }

    /// The units that stand by themselves, each after those whose values it loads, else in the
    /// order of their positions.
    pub(super) fn ordered(&self) -> Vec<u32> {
        use std::cmp::Reverse;
        let alone: Vec<u32> = (0..self.units.len() as u32).filter(|&u| self.find(u) == u).collect();
        let mut waiting = vec![0u32; self.units.len()];
        let readers = |unit: u32| -> Vec<u32> {
            let data = &self.units[unit as usize];
            let mut all: Vec<u32> = data.readers.iter().map(|&r| self.find(r)).collect();
            all.sort_unstable();
            all.dedup();
            all.retain(|&r| r != unit);
            all
        };
        for &unit in &alone {
            readers(unit).into_iter().for_each(|r| waiting[r as usize] += 1);
        }
        let key = |unit: u32| Reverse((self.units[unit as usize].position, unit));
        let mut ready: std::collections::BinaryHeap<_> =
            alone.iter().filter(|&&u| waiting[u as usize] == 0).map(|&u| key(u)).collect();
        let mut order = Vec::with_capacity(alone.len());
        while let Some(Reverse((_, unit))) = ready.pop() {
            order.push(unit);
            for reader in readers(unit) {
                waiting[reader as usize] -= 1;
                if waiting[reader as usize] == 0 {
                    ready.push(key(reader));
                }
            }
        }
        assert_eq!(order.len(), alone.len(), "units depend on each other in a circle");
        order
    }
}
