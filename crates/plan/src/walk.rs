//! The structure of a program as the planner sees it: who owns each value's bytes, and which point
//! of the one time line each step runs at.
//!
//! A step that holds no others takes two points: at the even one, `read`, it reads; at the odd one,
//! `write`, it writes. The points of a loop's condition and body, and of a branch, lie inside the
//! interval of their step. A range of time is half-open.

use cranelift_entity::SecondaryMap;
use jaxrs_kernel::program::{Program, Step, StepId, StepKind, Storage, ValueId, While};
use rustc_hash::{FxHashMap, FxHashSet};

/// A point of the time line.
pub(crate) type Point = u32;

/// The value that owns another value's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// The owner; itself for a value with bytes of its own.
    pub(crate) value: ValueId,
    /// Where the value begins in the owner.
    pub(crate) offset: u64,
}

/// The owner of each value's bytes. A carry that no iteration changes belongs to its initial value.
#[derive(Clone, Default)]
pub(crate) struct Roots {
    owner: FxHashMap<ValueId, ValueId>,
    renamed: FxHashSet<ValueId>,
    of: SecondaryMap<ValueId, Option<Root>>,
}

impl Roots {
    /// Finds the owners of a program's values.
    pub(crate) fn new(program: &Program) -> Roots {
        let mut roots = Roots::default();
        visit(&program.body, &mut |step| {
            let StepKind::While(inner) = &step.kind else { return };
            for i in 0..inner.carries.len() {
                if is_invariant(inner, i) {
                    roots.owner.insert(inner.carries[i], step.operands[i]);
                    roots.owner.insert(step.results[i], step.operands[i]);
                }
            }
        });
        for value in program.values.keys() {
            roots.of[value] = Some(roots.resolve(program, value));
        }
        roots.renamed = roots.owner.keys().map(|&v| roots.root(v).value).collect();
        roots
    }

    /// The owner of a value.
    pub(crate) fn root(&self, value: ValueId) -> Root {
        self.of[value].unwrap_or(Root { value, offset: 0 })
    }

    /// Whether a carry or a loop's result is only another name of this owner.
    pub(crate) fn is_renamed(&self, owner: ValueId) -> bool {
        self.renamed.contains(&owner)
    }

    /// Whether a value is all of its owner's bytes.
    pub(crate) fn is_whole(&self, program: &Program, value: ValueId) -> bool {
        let root = self.root(value);
        root.offset == 0 && program.values[root.value].bytes() == program.values[value].bytes()
    }

    fn resolve(&self, program: &Program, value: ValueId) -> Root {
        let (mut at, mut offset) = (value, 0);
        loop {
            if let Some(&owner) = self.owner.get(&at) {
                at = owner;
            } else if let Storage::View { base, offset: more } = program.values[at].storage {
                at = base;
                offset += more.0;
            } else {
                return Root { value: at, offset };
            }
        }
    }
}

/// Whether carry `i` keeps its initial value.
pub(crate) fn is_invariant(inner: &While, i: usize) -> bool {
    inner.next[i] == inner.carries[i]
}

/// Calls `f` for every step, outer steps before the steps inside them.
pub(crate) fn visit<'a>(steps: &'a [Step], f: &mut impl FnMut(&'a Step)) {
    for step in steps {
        f(step);
        for list in lists(step) {
            visit(list, f);
        }
    }
}

/// The lists of steps inside a step that have points of their own.
pub(crate) fn lists(step: &Step) -> Vec<&[Step]> {
    match &step.kind {
        StepKind::While(inner) => vec![&inner.condition, &inner.body],
        StepKind::Case(inner) => inner.branches.iter().map(|b| &b.steps[..]).collect(),
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => vec![],
    }
}

/// [`lists`], to change.
pub(crate) fn lists_mut(step: &mut Step) -> Vec<&mut Vec<Step>> {
    match &mut step.kind {
        StepKind::While(inner) => vec![&mut inner.condition, &mut inner.body],
        StepKind::Case(inner) => inner.branches.iter_mut().map(|b| &mut b.steps).collect(),
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => vec![],
    }
}

/// The values that a step reads at its read point or anywhere inside.
pub(crate) fn reads(step: &Step, f: &mut impl FnMut(ValueId)) {
    step.operands.iter().for_each(|&v| f(v));
    match &step.kind {
        StepKind::While(inner) => {
            inner.condition.iter().chain(&inner.body).for_each(|s| reads(s, f));
            f(inner.condition_value);
            inner.next.iter().for_each(|&v| f(v));
        }
        StepKind::Case(inner) => {
            for branch in &inner.branches {
                branch.steps.iter().for_each(|s| reads(s, f));
                branch.results.iter().for_each(|&v| f(v));
            }
        }
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {}
    }
}

/// The values that a step makes, inside it too; not a carry that keeps its initial value.
pub(crate) fn makes(step: &Step, f: &mut impl FnMut(ValueId)) {
    own_results(step).for_each(&mut *f);
    if let StepKind::While(inner) = &step.kind {
        (0..inner.carries.len())
            .filter(|&i| !is_invariant(inner, i))
            .for_each(|i| f(inner.carries[i]));
    }
    for list in lists(step) {
        list.iter().for_each(|s| makes(s, f));
    }
}

/// The results that a step writes: all but a loop's carries that keep their initial values.
pub(crate) fn own_results(step: &Step) -> impl Iterator<Item = ValueId> + '_ {
    step.results.iter().enumerate().filter_map(move |(i, &v)| match &step.kind {
        StepKind::While(inner) if is_invariant(inner, i) => None,
        _ => Some(v),
    })
}

/// The points of one step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    /// Where it reads its operands; even.
    pub(crate) read: Point,
    /// Where its results begin; odd.
    pub(crate) write: Point,
    /// Of a loop: where the condition is read, and where the next carries are.
    /// Of a branch: where each branch starts and where its results are read.
    pub(crate) inside: Vec<(Point, Point)>,
}

/// The points of a program's steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeLine {
    spans: SecondaryMap<StepId, Span>,
    /// One past the last step's points; the results are read here.
    pub(crate) end: Point,
}

impl TimeLine {
    /// Numbers the points of a program in its order.
    pub(crate) fn new(program: &Program) -> TimeLine {
        let mut line = TimeLine::default();
        line.end = line.number(&program.body, 0);
        line
    }

    /// The points of a step.
    pub(crate) fn span(&self, step: &Step) -> &Span {
        &self.spans[step.id]
    }

    /// One past everything: the end of what is live at the end.
    pub(crate) fn horizon(&self) -> Point {
        self.end + 1
    }

    fn number(&mut self, steps: &[Step], mut at: Point) -> Point {
        for step in steps {
            let mut span = Span { read: at, ..Span::default() };
            at += 1;
            match &step.kind {
                StepKind::While(inner) => {
                    let middle = self.number(&inner.condition, at + 1);
                    let bottom = self.number(&inner.body, middle + 2);
                    span.inside.push((middle, bottom));
                    at = bottom + 1;
                }
                StepKind::Case(inner) => {
                    at += 1;
                    for branch in &inner.branches {
                        let finish = self.number(&branch.steps, at);
                        span.inside.push((at, finish));
                        at = finish + 2;
                    }
                    at += 1;
                }
                StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
                }
            }
            span.write = at;
            at += 1;
            self.spans[step.id] = span;
        }
        at
    }
}
