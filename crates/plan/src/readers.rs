//! Who reads a value, and words for why it must be copied.

use crate::alias::{Need, Spot};
use crate::classes::{Classes, Conflict, Context};
use crate::walk::{Roots, TimeLine, lists, visit};
use jaxrs_kernel::program::{Program, SourcePlace, Step, StepKind, Storage, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Words for why each copy is needed.
pub(crate) fn reasons(context: &Context<'_>, classes: &Classes, needs: &[Need]) -> Vec<String> {
    if needs.is_empty() {
        return Vec::new();
    }
    let readers = Readers::new(context.program, context.roots, context.line);
    needs.iter().map(|need| reason(context, classes, &readers, need)).collect()
}

fn reason(context: &Context<'_>, classes: &Classes, readers: &Readers, need: &Need) -> String {
    let program = context.program;
    let root = context.roots.root(need.value).value;
    let name = &program.values[root].name;
    let place = match need.spot {
        Spot::Held(..) | Spot::HeldCopy(..) => {
            return format!("{name} is overwritten while other parts of it are read");
        }
        Spot::Operand(..) | Spot::Readers(..) => "is written in place",
        Spot::Next(..) => "becomes a loop's carry",
        Spot::Branch(..) => "becomes a branch's result",
    };
    match need.conflict {
        Conflict::ReadOnly(_) => match program.values[root].storage {
            Storage::Parameter(i) => format!("argument {i} {place} but is not donated"),
            Storage::Constant(_) => format!("a constant {place}"),
            Storage::Own | Storage::View { .. } => format!("{name} {place} over a kept value"),
        },
        Conflict::Live(point) => match readers.after(root, point) {
            Some(reader) => format!("{name} {place} but is still read by {reader}"),
            None => match classes.of(root).result {
                Some(i) => format!("{name} {place} but is result {i}"),
                None => format!("{name} {place} while the memory it should take is still read"),
            },
        },
        Conflict::Fixed => format!("{name} {place} but has a buffer of its own"),
        Conflict::Size => format!("{name} {place} but is too large for the buffer"),
        Conflict::Part => format!("{name} is only read in part and {place}"),
    }
}

/// Who reads each owner, and when.
pub(crate) struct Readers {
    by_root: FxHashMap<ValueId, Vec<(u32, String)>>,
}

impl Readers {
    /// Every read of a program.
    pub(crate) fn new(program: &Program, roots: &Roots, line: &TimeLine) -> Readers {
        let mut by_root: FxHashMap<ValueId, Vec<(u32, String)>> = FxHashMap::default();
        visit(&program.body, &mut |step| {
            let mut note = |v: ValueId, at: u32, reader: &Step| {
                let list = by_root.entry(roots.root(v).value).or_default();
                list.push((at, name_of(program, reader)));
            };
            let span = line.span(step);
            step.operands.iter().for_each(|&v| note(v, span.read, step));
            match &step.kind {
                StepKind::While(inner) => {
                    note(inner.condition_value, span.inside[0].0, step);
                    inner.next.iter().for_each(|&v| note(v, span.inside[0].1, step));
                    // What is read inside is read again by the next iteration, unless it is made
                    // inside, too.
                    let mut made = FxHashSet::default();
                    for list in lists(step) {
                        visit(list, &mut |s| made.extend(s.results.iter().copied()));
                    }
                    for list in lists(step) {
                        visit(list, &mut |reader| {
                            own_reads(reader, &mut |v| {
                                if !made.contains(&roots.root(v).value) {
                                    note(v, span.inside[0].1, reader);
                                }
                            });
                        });
                    }
                }
                StepKind::Case(inner) => {
                    for (branch, at) in inner.branches.iter().zip(&span.inside) {
                        branch.results.iter().for_each(|&v| note(v, at.1, step));
                    }
                }
                StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
                }
            }
        });
        for list in by_root.values_mut() {
            list.sort_by_key(|l| l.0);
        }
        Readers { by_root }
    }

    /// The first step that reads an owner after a point.
    pub(crate) fn after(&self, root: ValueId, point: u32) -> Option<&str> {
        self.first_after(root, point).map(|found| found.1)
    }

    /// The same with the point at which it reads.
    pub(crate) fn first_after(&self, root: ValueId, point: u32) -> Option<(u32, &str)> {
        let list = self.by_root.get(&root)?;
        list.get(list.partition_point(|l| l.0 <= point)).map(|l| (l.0, &l.1[..]))
    }

    /// The last step that reads an owner.
    pub(crate) fn last(&self, root: ValueId) -> Option<&str> {
        self.by_root.get(&root)?.last().map(|l| &l.1[..])
    }
}

/// The values that a step reads by itself, not by the steps inside it.
fn own_reads(step: &Step, f: &mut impl FnMut(ValueId)) {
    step.operands.iter().for_each(|&v| f(v));
    match &step.kind {
        StepKind::While(inner) => {
            f(inner.condition_value);
            inner.next.iter().for_each(|&v| f(v));
        }
        StepKind::Case(inner) => {
            inner.branches.iter().flat_map(|b| &b.results).for_each(|&v| f(v));
        }
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {}
    }
}

/// A step's name for people: its first result's, with its place in the source.
pub(crate) fn name_of(program: &Program, step: &Step) -> String {
    step.results.first().map_or_else(|| step.id.to_string(), |&v| value_of(program, v))
}

/// A value's name for people, with its place in the source.
pub(crate) fn value_of(program: &Program, value: ValueId) -> String {
    let value = &program.values[value];
    let place = |s: &SourcePlace| format!("{} ({s})", value.name);
    value.source.as_ref().map_or_else(|| value.name.clone(), place)
}
