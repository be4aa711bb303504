//! When each value's bytes are in use: ranges of points, computed backwards over the time line.
//!
//! * An operand is in use up to the step's write point, or through it unless the step reads it in
//!   full before it writes anything. A result is in use from the write point on.
//! * What a loop reads from outside lives through the loop. A carry lives from the loop's start
//!   through its condition to its last reader; the next value from where it is made to the bottom.
//! * A value that only some branches read is free in the others: its range has a gap there.

use crate::copies::Held;
use crate::walk::{Point, Roots, TimeLine, is_invariant, makes, own_results, reads, visit};
use cranelift_entity::SecondaryMap;
use jaxrs_kernel::program::{Program, Sharing, Step, StepId, StepKind, ValueId, While};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Half-open ranges of points, ascending, not touching.
pub(crate) type Ranges = SmallVec<[(Point, Point); 1]>;

/// The ranges of every value that owns bytes; those of a value that is only a view are its owner's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    /// By owner.
    pub(crate) ranges: SecondaryMap<ValueId, Ranges>,
}

impl Liveness {
    /// Computes the ranges of a program in its order.
    pub(crate) fn new(program: &Program, roots: &Roots, line: &TimeLine, held: &Held) -> Liveness {
        let mut walk = Walk {
            roots,
            line,
            held,
            open: FxHashMap::default(),
            journal: Vec::new(),
            pieces: pieces(program, roots),
            captures: captures(program, roots, held),
            live: Liveness::default(),
        };
        for &value in &program.results {
            walk.reads(value, line.horizon());
        }
        walk.list(&program.body);
        for parameter in &program.parameters {
            let root = roots.root(parameter.value).value;
            let end = walk.open.remove(&root).unwrap_or(1);
            walk.live.ranges[root].push((0, end));
        }
        // What is left are constants, which are never placed.
        for (root, end) in std::mem::take(&mut walk.open) {
            walk.live.ranges[root].push((0, end));
        }
        let mut live = walk.live;
        for ranges in live.ranges.values_mut() {
            ranges.reverse();
            merge_touching(ranges);
        }
        live
    }
}

/// Joins ranges that touch or overlap in an ascending list.
pub(crate) fn merge_touching(ranges: &mut Ranges) {
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
}

/// The end of an operand's use by a step that holds no others.
fn read_end(step: &Step, operand: usize, write: Point) -> Point {
    let early = !step.results.is_empty()
        && step.sharing.len() == step.results.len()
        && step.sharing.iter().all(|row| row.get(operand) == Some(&Sharing::AfterFullRead));
    if early { write } else { write + 1 }
}

/// Steps that write into an owner through views, by owner, where there is more than one.
fn pieces(program: &Program, roots: &Roots) -> FxHashMap<ValueId, u32> {
    let mut count: FxHashMap<ValueId, u32> = FxHashMap::default();
    crate::walk::visit(&program.body, &mut |step| {
        for result in own_results(step) {
            *count.entry(roots.root(result).value).or_default() += 1;
        }
    });
    count.retain(|_, n| *n > 1);
    count
}

/// For each loop, the owners from outside that it reads.
fn captures(program: &Program, roots: &Roots, held: &Held) -> FxHashMap<StepId, Vec<ValueId>> {
    let mut found = FxHashMap::default();
    crate::walk::visit(&program.body, &mut |step| {
        let StepKind::While(inner) = &step.kind else { return };
        found.insert(step.id, captured(inner, roots, held));
    });
    found
}

fn captured(inner: &While, roots: &Roots, held: &Held) -> Vec<ValueId> {
    let mut own = FxHashSet::default();
    for s in inner.condition.iter().chain(&inner.body) {
        makes(s, &mut |v| {
            own.insert(roots.root(v).value);
        });
    }
    for i in 0..inner.carries.len() {
        if !is_invariant(inner, i) {
            own.insert(inner.carries[i]);
        }
    }
    let mut outside = Vec::new();
    let mut seen = FxHashSet::default();
    let mut note = |v: ValueId| {
        let root = roots.root(v).value;
        if !own.contains(&root) && seen.insert(root) {
            outside.push(root);
        }
    };
    inner.condition.iter().chain(&inner.body).for_each(|s| reads(s, &mut note));
    for list in [&inner.condition, &inner.body] {
        visit(list, &mut |s| held.get(&s.id).into_iter().flatten().for_each(|&(_, v)| note(v)));
    }
    note(inner.condition_value);
    inner.next.iter().for_each(|&v| note(v));
    outside
}

struct Walk<'a> {
    roots: &'a Roots,
    line: &'a TimeLine,
    held: &'a Held,
    /// Owners live at the present point, and where their present range ends.
    open: FxHashMap<ValueId, Point>,
    /// Owners in the order they were opened.
    journal: Vec<ValueId>,
    pieces: FxHashMap<ValueId, u32>,
    captures: FxHashMap<StepId, Vec<ValueId>>,
    live: Liveness,
}

impl Walk<'_> {
    fn reads(&mut self, value: ValueId, end: Point) {
        let root = self.roots.root(value).value;
        if let std::collections::hash_map::Entry::Vacant(entry) = self.open.entry(root) {
            entry.insert(end);
            self.journal.push(root);
        }
    }

    fn makes(&mut self, value: ValueId, at: Point) {
        let root = self.roots.root(value).value;
        if let Some(left) = self.pieces.get_mut(&root) {
            *left -= 1;
            if *left > 0 {
                self.reads(root, at + 1);
                return;
            }
        }
        let end = self.open.remove(&root).unwrap_or(at + 1);
        self.live.ranges[root].push((at, end));
    }

    fn list(&mut self, steps: &[Step]) {
        for step in steps.iter().rev() {
            match &step.kind {
                StepKind::While(inner) => self.repeat(step, inner),
                StepKind::Case(_) => self.branch(step),
                StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
                    let span = self.line.span(step);
                    for &result in &step.results {
                        self.makes(result, span.write);
                    }
                    // The latest end counts for an operand that stands twice.
                    let mut ends: SmallVec<[(ValueId, Point); 8]> = step
                        .operands
                        .iter()
                        .enumerate()
                        .map(|(i, &v)| (v, read_end(step, i, span.write)))
                        .collect();
                    let held = self.held.get(&step.id).into_iter().flatten();
                    ends.extend(held.map(|&(_, v)| (v, span.write + 1)));
                    ends.sort_by_key(|&(_, end)| std::cmp::Reverse(end));
                    for (value, end) in ends {
                        self.reads(value, end);
                    }
                }
            }
        }
    }

    fn repeat(&mut self, step: &Step, inner: &While) {
        let span = self.line.span(step).clone();
        let (middle, bottom) = span.inside[0];
        let changed = |i: &usize| !is_invariant(inner, *i);
        for i in (0..inner.carries.len()).filter(changed) {
            self.makes(step.results[i], span.write);
        }
        for root in self.captures.remove(&step.id).unwrap_or_default() {
            self.reads(root, span.write);
        }
        for i in (0..inner.carries.len()).filter(changed) {
            self.reads(inner.next[i], bottom + 1);
        }
        self.list(&inner.body);
        self.reads(inner.condition_value, middle + 1);
        for i in (0..inner.carries.len()).filter(changed) {
            self.reads(inner.carries[i], middle + 1);
        }
        self.list(&inner.condition);
        for i in (0..inner.carries.len()).filter(changed) {
            self.makes(inner.carries[i], span.read + 1);
        }
        for &operand in &step.operands {
            self.reads(operand, span.read + 1);
        }
    }

    fn branch(&mut self, step: &Step) {
        let StepKind::Case(inner) = &step.kind else { unreachable!("a branch") };
        let span = self.line.span(step).clone();
        for &result in &step.results {
            self.makes(result, span.write);
        }
        let mut entering = Vec::new();
        for (branch, &(start, finish)) in inner.branches.iter().zip(&span.inside).rev() {
            let mark = self.journal.len();
            for &result in &branch.results {
                self.reads(result, finish + 1);
            }
            self.list(&branch.steps);
            let opened: Vec<ValueId> = self.journal.drain(mark..).collect();
            for root in opened {
                if let Some(end) = self.open.remove(&root) {
                    self.live.ranges[root].push((start, end));
                    entering.push(root);
                }
            }
        }
        let first = span.inside.first().map_or(span.read + 1, |s| s.0);
        for root in entering {
            self.reads(root, first);
        }
        self.reads(step.operands[0], span.read + 1);
    }
}
