//! Where dead memory is overwritten with NaNs, to find steps that read what they should not.

use crate::executable::Layout;
use jaxrs_kernel::program::{Program, Step, StepId, StepKind, Storage, ValueId};
use jaxrs_plan::{Planned, Region};
use rustc_hash::FxHashMap;

/// Ranges (slot, offset, bytes) to overwrite.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    /// Before the first step.
    pub(crate) first: Vec<(usize, u64, u64)>,
    /// After a step of the outermost list.
    pub(crate) after: FxHashMap<StepId, Vec<(usize, u64, u64)>>,
}

/// The first and last position of the outermost list at which a value is used.
type Spans = FxHashMap<ValueId, (usize, usize)>;

impl Poison {
    /// For a plan: the arena, the results' buffers and unread donated arguments at the start, and
    /// every value's bytes, as far as no live value has them, after its last use.
    pub(crate) fn new(planned: &Planned, layout: &Layout) -> Poison {
        let program = &planned.program;
        let mut poison = Poison::default();
        if planned.arena.0 > 0 {
            poison.first.push((layout.arena_slot(), 0, planned.arena.0));
        }
        for (index, region) in planned.results.iter().enumerate() {
            let bytes = program.values[program.results[index]].bytes().0;
            if let (Region::Output(output), true) = (region, bytes > 0) {
                poison.first.push((layout.output_slot(*output), 0, bytes));
            }
        }
        let mut spans = spans(program, layout);
        hold_updated(&mut spans, program, layout);
        let ranges: Vec<(ValueId, usize, usize, usize, u64, u64)> = spans
            .iter()
            .filter_map(|(&value, &(first, last))| {
                let (slot, offset) = layout.place(program, value)?;
                let bytes = program.values[value].bytes().0;
                let writable = slot == layout.arena_slot() || layout.is_written(planned, slot);
                (bytes > 0 && writable).then_some((value, first, last, slot, offset, bytes))
            })
            .collect();
        for (position, step) in program.body.iter().enumerate() {
            let mut dead: Vec<(usize, u64, u64)> = Vec::new();
            for &(_, _, last, slot, offset, bytes) in &ranges {
                if last != position {
                    continue;
                }
                let live: Vec<(u64, u64)> = ranges
                    .iter()
                    .filter(|r| r.1 <= position && r.2 > position && r.3 == slot)
                    .map(|r| (r.4, r.4 + r.5))
                    .collect();
                dead.extend(subtract(offset, offset + bytes, &live).map(|(a, b)| (slot, a, b - a)));
            }
            if !dead.is_empty() {
                dead.sort_unstable();
                dead.dedup();
                poison.after.insert(step.id, dead);
            }
        }
        poison
    }
}

/// What remains of `[start, end)` without the given ranges.
fn subtract(start: u64, end: u64, without: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    let mut pieces = vec![(start, end)];
    for &(a, b) in without {
        pieces = pieces
            .into_iter()
            .flat_map(|(s, e)| [(s, e.min(a)), (s.max(b), e)])
            .filter(|(s, e)| s < e)
            .collect();
    }
    pieces.into_iter()
}

/// When each value is live: a parameter from before the first step, a result to after the last.
fn spans(program: &Program, layout: &Layout) -> Spans {
    let mut spans = Spans::default();
    for parameter in &program.parameters {
        spans.insert(parameter.value, (0, 0));
    }
    for (position, step) in program.body.iter().enumerate() {
        visit(step, &mut |value| {
            let (root, _) = layout.root(program, value);
            let span = spans.entry(root).or_insert((position, position));
            span.1 = position;
            // Nested values and views have places of their own.
            if root != value && !matches!(program.values[value].storage, Storage::View { .. }) {
                spans.entry(value).or_insert((position, position)).1 = position;
            }
        });
    }
    for &result in &program.results {
        let (root, _) = layout.root(program, result);
        spans.entry(root).or_insert((0, 0)).1 = usize::MAX;
    }
    spans
}

/// A step may update what stands in its result's place and read a copy of it elsewhere: the value
/// in the place is used by that step although it is no operand.
fn hold_updated(spans: &mut Spans, program: &Program, layout: &Layout) {
    for (position, step) in program.body.iter().enumerate() {
        for &(result, operand) in &step.updates {
            let place = layout.place(program, step.results[result as usize]);
            if layout.place(program, step.operands[operand as usize]) == place {
                continue;
            }
            let held = spans
                .iter_mut()
                .filter(|(v, span)| span.1 < position && layout.place(program, **v) == place)
                .max_by_key(|(_, span)| span.1);
            if let Some((_, span)) = held {
                span.1 = position;
            }
        }
    }
}

fn visit(step: &Step, see: &mut impl FnMut(ValueId)) {
    step.operands.iter().chain(&step.results).for_each(|&v| see(v));
    match &step.kind {
        StepKind::While(inner) => {
            inner.carries.iter().chain(&inner.next).for_each(|&v| see(v));
            see(inner.condition_value);
            inner.condition.iter().chain(&inner.body).for_each(|s| visit(s, see));
        }
        StepKind::Case(inner) => {
            for branch in &inner.branches {
                branch.results.iter().for_each(|&v| see(v));
                branch.steps.iter().for_each(|s| visit(s, see));
            }
        }
        // A tile's own values live in its scratch.
        StepKind::Tile(_) | StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy => {}
    }
}
