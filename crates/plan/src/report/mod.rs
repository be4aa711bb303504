//! A plan for people and scripts: [`Report::new`] gathers it, [`Report::text`], [`Report::json`]
//! and [`Report::html`] show it.
//!
//! All sizes are rounded up to 64 bytes, but for views, which lie inside others.

mod html;
mod json;
mod text;

pub(crate) use text::size;

use crate::readers::{Readers, name_of};
use crate::walk::{Roots, TimeLine, visit};
use crate::{Place, Planned, Region, UsedAs};
use jaxrs_kernel::program::{Bytes, Donation, Program, SourcePlace, Step, StepKind, ValueId};

/// Everything there is to say about a plan.
#[derive(Clone, Debug)]
pub struct Report {
    /// The program's name.
    pub program: String,
    /// Threads the plan is for.
    pub threads: u32,
    /// Bytes of all arguments.
    pub argument_bytes: u64,
    /// Bytes of all results.
    pub output_bytes: u64,
    /// Bytes of results that live in donated arguments.
    pub alias_bytes: u64,
    /// Bytes of the constants.
    pub constant_bytes: u64,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// The height of the arena's values alone, where they are.
    pub arena_without_scratch_bytes: u64,
    /// What library calls allocate outside the plan; whoever has the library fills it in.
    pub library_scratch_bytes: u64,
    /// The largest sum of arena bytes in use at one point.
    pub lower_bound_bytes: u64,
    /// What placed the arena.
    pub solver: String,
    /// The order of steps that was chosen.
    pub order: String,
    /// What this order was expected to need of the arena, before anything was placed.
    pub order_expected_bytes: u64,
    /// No order of the steps, without more copies, needs a smaller arena.
    pub order_bound_bytes: u64,
    /// Steps, those inside others too.
    pub steps: usize,
    /// One past the last point.
    pub points: u32,
    /// The arena at its fullest, if it is ever in use.
    pub peak: Option<Peak>,
    /// Copies in the program.
    pub copies: Vec<CopyRow>,
    /// Donated arguments.
    pub donations: Vec<DonationRow>,
    /// Values and scratch, one row for each range of points.
    pub values: Vec<ValueRow>,
    /// What the plan would be without one thing or another; whoever plans again fills it in.
    pub ablation: Vec<AblationRow>,
}

/// The plan without one of the planner's ideas.
#[derive(Clone, Debug)]
pub struct AblationRow {
    /// What it goes without.
    pub without: String,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Arguments, results, constants and arena together.
    pub peak_bytes: u64,
    /// Bytes of the copies.
    pub copy_bytes: u64,
}

impl AblationRow {
    /// The figures of a plan that was made without something.
    pub fn new(without: &str, report: &Report) -> AblationRow {
        AblationRow {
            without: without.to_string(),
            arena_bytes: report.arena_bytes,
            peak_bytes: report.peak_bytes(),
            copy_bytes: report.copies.iter().map(|c| c.bytes).sum(),
        }
    }
}

/// The point at which the arena holds most.
#[derive(Clone, Debug)]
pub struct Peak {
    /// The point.
    pub point: u32,
    /// The step there, with its place in the source.
    pub step: String,
    /// What is in the arena then, largest first.
    pub rows: Vec<usize>,
}

/// A copy.
#[derive(Clone, Debug)]
pub struct CopyRow {
    /// What is copied.
    pub value: String,
    /// How much.
    pub bytes: u64,
    /// Why.
    pub reason: String,
}

/// A donated argument.
#[derive(Clone, Debug)]
pub struct DonationRow {
    /// Its position.
    pub argument: u32,
    /// Its bytes.
    pub bytes: u64,
    /// What its buffer is used as.
    pub used_as: UsedAs,
    /// The result in it.
    pub output: Option<u32>,
    /// Why there is none, or why not the one that the source names.
    pub reason: String,
}

/// A value, or a step's scratch, in one range of points.
#[derive(Clone, Debug)]
pub struct ValueRow {
    /// Its name.
    pub name: String,
    /// The op that makes it; `scratch` for scratch.
    pub op: String,
    /// Its type.
    pub ty: String,
    /// Its bytes.
    pub bytes: u64,
    /// The piece of storage; values of one may overlap.
    pub buffer: u32,
    /// Where it is.
    pub region: Region,
    /// Its first byte there.
    pub offset: u64,
    /// The first point at which it is in use.
    pub start: u32,
    /// The first point at which it is not.
    pub end: u32,
    /// Its op's place in the source.
    pub source: Option<SourcePlace>,
    /// The step that reads it last.
    pub last_reader: Option<String>,
}

impl Report {
    /// Gathers the report of a plan.
    pub fn new(planned: &Planned, program_name: &str) -> Report {
        let program = &planned.program;
        let aligned = |v: ValueId| program.values[v].bytes().aligned().0;
        let line = TimeLine::new(program);
        let values = rows(planned, &line);
        let alias = program
            .results
            .iter()
            .zip(&planned.results)
            .filter(|(_, region)| matches!(region, Region::Argument(_)));
        let mut steps = 0;
        visit(&program.body, &mut |_| steps += 1);
        Report {
            program: program_name.to_string(),
            threads: planned.threads,
            argument_bytes: program.parameters.iter().map(|p| aligned(p.value)).sum(),
            output_bytes: program.results.iter().map(|&r| aligned(r)).sum(),
            alias_bytes: alias.map(|(&value, _)| aligned(value)).sum(),
            constant_bytes: program
                .constants
                .values()
                .map(|c| Bytes(c.len() as u64).aligned().0)
                .sum(),
            arena_bytes: planned.arena.0,
            arena_without_scratch_bytes: planned.values_height().0,
            library_scratch_bytes: 0,
            lower_bound_bytes: planned.notes.lower_bound.0,
            solver: planned.notes.solver.to_string(),
            order: planned.notes.order.to_string(),
            order_expected_bytes: planned.notes.order_expected.0,
            order_bound_bytes: planned.notes.order_bound.0,
            steps,
            points: line.horizon(),
            peak: peak(program, &values, &line),
            copies: copies(planned),
            donations: planned.notes.donations.iter().map(donation).collect(),
            values,
            ablation: Vec::new(),
        }
    }

    /// Bytes of the arena.
    pub fn arena_bytes(&self) -> u64 {
        self.arena_bytes
    }

    /// Whether no arena for this order is smaller.
    pub fn is_optimal(&self) -> bool {
        self.arena_bytes == self.lower_bound_bytes
    }

    /// Whether no other order of the steps gives a smaller arena.
    pub fn is_least_order(&self) -> bool {
        self.arena_bytes <= self.order_bound_bytes
    }

    /// Arguments, results, constants and arena together.
    pub fn peak_bytes(&self) -> u64 {
        self.argument_bytes + self.output_bytes - self.alias_bytes
            + self.arena_bytes
            + self.constant_bytes
    }
}

fn copies(planned: &Planned) -> Vec<CopyRow> {
    let row = |note: &crate::CopyNote| CopyRow {
        value: planned.program.values[note.value].name.clone(),
        bytes: note.bytes.0,
        reason: note.reason.clone(),
    };
    planned.notes.copies.iter().filter(|n| n.bytes.0 > 0).map(row).collect()
}

fn donation(note: &crate::DonationNote) -> DonationRow {
    DonationRow {
        argument: note.argument,
        bytes: note.bytes.0,
        used_as: note.used_as,
        output: note.output,
        reason: note.reason.clone(),
    }
}

/// The values that have a place, then the scratch.
fn rows(planned: &Planned, line: &TimeLine) -> Vec<ValueRow> {
    let program = &planned.program;
    let roots = Roots::new(program);
    let readers = Readers::new(program, &roots, line);
    let mut rows = Vec::new();
    let mut buffers = 0;
    for (value, data) in &program.values {
        let Some(Place { region, offset }) = planned.places[value] else { continue };
        let root = roots.root(value).value;
        let bytes = if root == value { data.bytes().aligned() } else { data.bytes() };
        let buffer = planned.notes.buffer[value];
        buffers = buffers.max(buffer + 1);
        let kept = match region {
            Region::Argument(i) => program.parameters[i as usize].donation == Donation::Kept,
            Region::Arena | Region::Output(_) | Region::Constant(_) => false,
        };
        let whole = [(0, line.horizon())];
        let live = if kept { &whole[..] } else { &planned.notes.live[value][..] };
        for &(start, end) in live {
            rows.push(ValueRow {
                name: data.name.clone(),
                op: data.op.clone(),
                ty: data.type_name(),
                bytes: bytes.0,
                buffer,
                region,
                offset: offset.0,
                start,
                end,
                source: data.source.clone(),
                last_reader: readers.last(root).map(str::to_string),
            });
        }
    }
    visit(&program.body, &mut |step| {
        let Some(&offset) = planned.scratch.get(&step.id) else { return };
        let bytes = Bytes(step.scratch.per_thread.0 * u64::from(planned.threads)).aligned().0;
        let (start, end) = planned.notes.scratch_live[&step.id];
        let made = step.results.first().map(|&r| &program.values[r]);
        rows.push(ValueRow {
            name: format!(
                "scratch.{}",
                made.map_or_else(|| step.id.to_string(), |m| m.name.clone())
            ),
            op: "scratch".into(),
            ty: format!("tensor<{bytes}xui8>"),
            bytes,
            buffer: buffers,
            region: Region::Arena,
            offset: offset.0,
            start,
            end,
            source: made.and_then(|m| m.source.clone()),
            last_reader: None,
        });
        buffers += 1;
    });
    rows
}

fn peak(program: &Program, values: &[ValueRow], line: &TimeLine) -> Option<Peak> {
    // Values of one buffer count once: the buffer's extent, while any of them is in use.
    let mut buffers: rustc_hash::FxHashMap<u32, (u64, Vec<(u32, u32)>)> = Default::default();
    for row in values.iter().filter(|r| r.region == Region::Arena) {
        let entry = buffers.entry(row.buffer).or_default();
        entry.0 = entry.0.max(row.bytes);
        entry.1.push((row.start, row.end));
    }
    let mut change = vec![0i64; line.horizon() as usize + 2];
    for (bytes, mut ranges) in buffers.into_values() {
        ranges.sort_unstable();
        let mut covered = 0;
        for (start, end) in ranges {
            let start = start.max(covered);
            if start < end {
                change[start as usize] += bytes as i64;
                change[end as usize] -= bytes as i64;
                covered = end;
            }
        }
    }
    let (mut load, mut most, mut point) = (0, 0, 0);
    for (at, by) in change.into_iter().enumerate() {
        load += by;
        if load > most {
            (most, point) = (load, at as u32);
        }
    }
    if most == 0 {
        return None;
    }
    let live = |r: &ValueRow| r.region == Region::Arena && r.start <= point && point < r.end;
    let mut rows: Vec<usize> = (0..values.len()).filter(|&i| live(&values[i])).collect();
    rows.sort_by_key(|&i| (std::cmp::Reverse(values[i].bytes), values[i].offset));
    let step = step_at(program, &program.body, line, point).unwrap_or_else(|| "the end".into());
    Some(Peak { point, step, rows })
}

/// The innermost step at a point.
fn step_at(program: &Program, steps: &[Step], line: &TimeLine, point: u32) -> Option<String> {
    let step = steps.iter().find(|s| {
        let span = line.span(s);
        span.read <= point && point <= span.write
    })?;
    for list in crate::walk::lists(step) {
        if let Some(inner) = step_at(program, list, line, point) {
            return Some(inner);
        }
    }
    let kind = match step.kind {
        StepKind::Kernel(_) => "kernel",
        StepKind::Library(_) => "library call",
        StepKind::Copy => "copy",
        StepKind::While(_) => "loop",
        StepKind::Case(_) => "branch",
        StepKind::Tile(_) => "tiles",
    };
    Some(format!("{kind} {}", name_of(program, step)))
}
