//! The pipeline: from a program to its plan.

use crate::classes::{Classes, Context};
use crate::copies::Copies;
use crate::liveness::Liveness;
use crate::refusal::Refusals;
use crate::regions::{Arena, Placement};
use crate::walk::{Roots, TimeLine};
use crate::{
    DonationNote, Notes, Options, Place, PlanError, Planned, Region, Spent, UsedAs, alias, donate,
    readers, schedule, share, split, unroll, validate, walk,
};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use jaxrs_kernel::Kernel;
use jaxrs_kernel::program::{
    Branch, Bytes, ConstantId, Donation, KernelId, Program, Step, StepId, StepKind, Storage,
    ValueId,
};
use rustc_hash::FxHashSet;

/// Rounds of copies before the planner gives up; two or three are usual.
const MAX_ROUNDS: usize = 32;

/// Steps of a program, times orders, that are planned in full to find the best order.
const MAX_PLANNED: usize = 800;

/// Plans a program's memory.
pub fn plan(program: Program, options: &Options) -> Result<Planned, PlanError> {
    let planned = plan_if(program, options, &|_| true)?;
    planned.ok_or_else(|| PlanError::Internal("a plan is not worth it".into()))
}

/// Plans a program's memory if that is `worth` it: none if, in every order that is tried, values
/// need so many bytes of the arena that it is not.
pub fn plan_if(
    mut program: Program,
    options: &Options,
    worth: &dyn Fn(u64) -> bool,
) -> Result<Option<Planned>, PlanError> {
    let mut copies = Copies::new(&program);
    copies.results(&mut program);
    split::split(&mut program, &mut copies.next_step);
    // Kernels and constants do not change, and constants may be large.
    let code = Code::take(&mut program);
    let first = best_order(program.clone(), &code, &copies, options, worth)?;
    let Some(mut best) = first else { return Ok(None) };
    if options.strict_aliases {
        keep_aliases(&best)?;
    }
    let mut spent = best.notes.spent;
    let loops = loops_that_copy(&best.program);
    let mut least = copying(&best.program, &best.program.body, &FxHashSet::default());
    for times in [2, 3] {
        if loops.is_empty() || least < MIN_COPIED {
            break;
        }
        let (mut program, mut copies) = (program.clone(), copies.clone());
        let unrolled = unroll::unroll(&mut program, &code, &loops, times, &mut copies.next_step);
        let Some(branches) = unrolled else { break };
        // What a loop does not change any more is its operand.
        copies.results(&mut program);
        let planned = best_order(program, &code, &copies, options, &|_| true)?;
        let Some(planned) = planned else { break };
        let copied = copying(&planned.program, &planned.program.body, &branches);
        spent.add(planned.notes.spent);
        if copied <= least / 2 && planned.arena.0 <= best.arena.0 + best.arena.0 / 16 + 256 {
            (best, least) = (planned, copied);
        }
    }
    best.notes.spent = spent;
    (best.program.kernels, best.program.constants) = (code.kernels, code.constants);
    if options.validate {
        validate::validate(&best)?;
    }
    Ok(Some(best))
}

/// An error unless every donated argument is the result that the source names.
fn keep_aliases(planned: &Planned) -> Result<(), PlanError> {
    for (argument, parameter) in (0..).zip(&planned.program.parameters) {
        let Donation::Donated { preferred: Some(result) } = parameter.donation else { continue };
        let empty = planned.program.values[parameter.value].is_empty();
        if empty || planned.results.get(result as usize) == Some(&Region::Argument(argument)) {
            continue;
        }
        let note = planned.notes.donations.iter().find(|n| n.argument == argument);
        let reason = match note.and_then(|n| n.output) {
            Some(other) => format!("result {other} is in its memory"),
            None => note.map(|n| n.reason.clone()).unwrap_or_default(),
        };
        return Err(PlanError::Alias { argument, result, reason });
    }
    Ok(())
}

/// What of a program is the same in every order.
pub(crate) struct Code {
    pub(crate) kernels: PrimaryMap<KernelId, Kernel>,
    pub(crate) constants: PrimaryMap<ConstantId, Vec<u8>>,
}

impl Code {
    fn take(program: &mut Program) -> Code {
        Code {
            kernels: std::mem::take(&mut program.kernels),
            constants: std::mem::take(&mut program.constants),
        }
    }
}

/// Bytes copied in an iteration for which a loop may be unrolled.
const MIN_COPIED: u64 = 1024;

/// How often a loop is taken to run, to weigh the copies inside.
const ITERATIONS: u64 = 16;

/// The loops that copy carries in every iteration.
fn loops_that_copy(program: &Program) -> FxHashSet<StepId> {
    let mut loops = FxHashSet::default();
    walk::visit(&program.body, &mut |step| {
        let StepKind::While(inner) = &step.kind else { return };
        if copying(program, &inner.body, &FxHashSet::default()) >= MIN_COPIED {
            loops.insert(step.id);
        }
    });
    loops
}

/// Bytes copied by steps, more for those in loops. The last side of the `ending` branches runs once
/// in a loop.
fn copying(program: &Program, steps: &[Step], ending: &FxHashSet<StepId>) -> u64 {
    let of = |list: &[Step]| copying(program, list, ending);
    steps
        .iter()
        .map(|step| match &step.kind {
            StepKind::Copy => program.values[step.results[0]].bytes().0,
            StepKind::While(inner) => {
                of(&inner.condition).saturating_add(of(&inner.body)).saturating_mul(ITERATIONS)
            }
            StepKind::Case(inner) => {
                let once = ending.contains(&step.id);
                let last = inner.branches.len() - 1;
                let side = |(i, b): (usize, &Branch)| {
                    if once && i == last { of(&b.steps) / ITERATIONS } else { of(&b.steps) }
                };
                inner.branches.iter().enumerate().map(side).max().unwrap_or(0)
            }
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Tile(_) => 0,
        })
        .fold(0, u64::saturating_add)
}

/// Plans a program in each of several orders, as far as time allows, and keeps the best. Orders that
/// are not `worth` it, by what they need at least without scratch, are left out.
fn best_order(
    mut program: Program,
    code: &Code,
    copies: &Copies,
    options: &Options,
    worth: &dyn Fn(u64) -> bool,
) -> Result<Option<Planned>, PlanError> {
    let schedule::Candidates { orders, bound, steps: searched } = if options.ideas.reorder {
        schedule::schedule(&mut program, code, options.threads)
    } else {
        schedule::Candidates::source(program.body.len())
    };
    let count = (MAX_PLANNED / (program.body.len() + 1)).clamp(1, orders.len().max(1));
    // Another order may have more results in arguments.
    let donors = orders.iter().take(count).any(|c| c.name == schedule::DONORS_FIRST);
    let mut spent = Spent { steps: searched, ..Spent::default() };
    let mut best: Option<(Ordered, Found)> = None;
    for candidate in orders.into_iter().take(count) {
        let mut ordered = Ordered::new(&program, copies, &candidate);
        let to_beat = best.as_ref().map(|(_, found)| found.cost);
        let least = |c: Cost| c.arena <= bound && c.copied == 0 && !donors;
        let goal = (worth, to_beat);
        let found = ordered.plan(code, options, goal, |c| count == 1 || least(c), &mut spent)?;
        let Some(found) = found else { continue };
        let ends = found.planned.is_some();
        best = Some((ordered, found));
        if ends {
            break;
        }
    }
    let Some((mut ordered, found)) = best else { return Ok(None) };
    let planned = match found.planned {
        Some(planned) => Some(planned),
        None => {
            let goal = (worth, None);
            ordered.plan(code, options, goal, |_| true, &mut spent)?.and_then(|f| f.planned)
        }
    };
    let mut planned = planned.expect("the last order is planned in full");
    planned.program = ordered.program;
    planned.notes.order_expected = Bytes(ordered.expected);
    planned.notes.spent = spent;
    // A bound beyond what is reached bounds nothing; a list of one step has one order.
    let holds = bound <= planned.arena.0 || planned.program.body.len() < 2;
    planned.notes.order_bound = Bytes(if holds { bound.min(planned.arena.0) } else { 0 });
    Ok(Some(planned))
}

/// What an order costs; least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// Bytes of the arena and of the results that are in no argument.
    memory: u64,
    copied: u64,
    /// Bytes of the arena without scratch.
    values: u64,
    arena: u64,
}

/// What an order costs, and its plan if no other is to be tried.
struct Found {
    cost: Cost,
    planned: Option<Planned>,
}

/// A program in one order.
struct Ordered {
    program: Program,
    copies: Copies,
    order: &'static str,
    /// Bytes of arena that the order is expected to need.
    expected: u64,
}

impl Ordered {
    fn new(program: &Program, copies: &Copies, candidate: &schedule::Candidate) -> Ordered {
        let mut program = program.clone();
        schedule::apply(&mut program, &candidate.order);
        Ordered {
            program,
            copies: copies.clone(),
            order: candidate.name,
            expected: candidate.cost.peak.max(0) as u64,
        }
    }

    /// Puts in copies until all that must share memory can, then calls `then` with the classes.
    fn settle<R>(
        &mut self,
        code: &Code,
        options: &Options,
        rounds: &mut u64,
        then: impl FnOnce(&Context<'_>, &Classes, &Liveness, &Copies) -> R,
    ) -> Result<R, PlanError> {
        for _ in 0..MAX_ROUNDS {
            *rounds += 1;
            let program = &self.program;
            let roots = Roots::new(program);
            let line = TimeLine::new(program);
            let live = Liveness::new(program, &roots, &line, &self.copies.held);
            let held = &self.copies.held;
            let context =
                Context::new(program, &roots, &line, options.threads, &code.kernels, held);
            let mut classes = Classes::new(&context, &live);
            let needs = alias::must_alias(&context, &mut classes, &self.copies.tried);
            if !needs.is_empty() {
                let reasons = readers::reasons(&context, &classes, &needs);
                let of = |v: ValueId| classes.find(roots.root(v).value);
                self.copies.insert(&mut self.program, &needs, reasons, &of);
                continue;
            }
            let late = donate::donate(&context, &mut classes, options.strict_aliases);
            if let Some((result, at, reason)) = late_copy(&context, &classes, &late) {
                self.copies.result_at(&mut self.program, result, at, reason);
                continue;
            }
            if options.ideas.in_place {
                share::in_place(&context, &mut classes);
            }
            return Ok(then(&context, &classes, &live, &self.copies));
        }
        Err(PlanError::Internal("the copies do not come to an end".into()))
    }

    /// Packs the order roughly; in full if its cost makes it the `last`. None if it is not `worth`
    /// it or does not cost less than `to_beat`.
    fn plan(
        &mut self,
        code: &Code,
        options: &Options,
        (worth, to_beat): (&dyn Fn(u64) -> bool, Option<Cost>),
        last: impl FnOnce(Cost) -> bool,
        spent: &mut Spent,
    ) -> Result<Option<Found>, PlanError> {
        let order = self.order;
        spent.orders += 1;
        let (found, comparisons) =
            self.settle(code, options, &mut spent.rounds, |context, classes, live, copies| {
                let results = result_regions(context, classes);
                let arena = Arena::new(context, classes, &results, &options.ideas);
                let copied = Copies::bytes(context.program);
                let made = made(context, &results);
                let beats = |cost: Cost| to_beat.is_none_or(|least| cost < least);
                let cost =
                    |arena: u64, values: u64| Cost { memory: arena + made, copied, values, arena };
                if !worth(arena.bounds.1) || !beats(cost(arena.bounds.0, arena.bounds.1)) {
                    return (None, 0);
                }
                let mut placement = arena.roughly(&options.ideas);
                let cost = cost(placement.arena, placement.values);
                if !beats(cost) {
                    return (None, placement.comparisons);
                }
                let planned = last(cost).then(|| {
                    placement = arena.thoroughly(std::mem::take(&mut placement), &options.ideas);
                    let notes =
                        Notes { copies: copies.notes(context.program), order, ..Notes::default() };
                    let planned = (results, &placement, notes);
                    finish(context, classes, live, copies, options, planned)
                });
                (Some(Found { cost, planned }), placement.comparisons)
            })?;
        spent.comparisons += comparisons;
        Ok(found)
    }
}

/// Bytes of the results that are in no argument.
fn made(context: &Context<'_>, results: &[Region]) -> u64 {
    let own = |(region, &value): (&Region, &ValueId)| match region {
        Region::Argument(_) => 0,
        _ => Bytes(context.bytes(value)).aligned().0,
    };
    results.iter().zip(&context.program.results).map(own).sum()
}

/// Where in the body the first late result is copied: result, step, reason. One a round, since each
/// moves the others.
fn late_copy(
    context: &Context<'_>,
    classes: &Classes,
    late: &[donate::Late],
) -> Option<(usize, usize, String)> {
    let body = &context.program.body;
    late.iter().find_map(|pair| {
        let parameter = context.program.parameters[pair.argument as usize].value;
        let donor = classes.of(context.roots.root(parameter).value);
        let result = context.program.results[pair.result as usize];
        let result_class = classes.of(context.roots.root(result).value);
        let dead = donor.ranges.last()?.1;
        let made = result_class.ranges.last()?.0;
        let early = body.partition_point(|s| {
            let span = context.line.span(s);
            span.read < dead || span.write <= made
        });
        // A loop's result may be named later than its memory is made, and parts come one by one.
        let base = match context.program.values[result].storage {
            Storage::View { base, .. } => base,
            Storage::Parameter(_) | Storage::Constant(_) | Storage::Own => result,
        };
        let root = context.roots.root(result).value;
        let names = |step: &Step| {
            let mut found = step.results.contains(&base);
            walk::makes(step, &mut |v| found |= context.roots.root(v).value == root);
            found
        };
        let named = body.iter().rposition(names).map_or(0, |i| i + 1);
        let at = early.max(named);
        if dead > context.line.end {
            return None;
        }
        let reason =
            format!("argument {} is still read when result {} is made", pair.argument, pair.result);
        Some((pair.result as usize, at, reason))
    })
}

/// Where each result is at the end.
fn result_regions(context: &Context<'_>, classes: &Classes) -> Vec<Region> {
    let region = |(i, &value): (usize, &ValueId)| {
        let class = classes.of(context.roots.root(value).value);
        match class.argument {
            Some(a) if context.bytes(value) > 0 => Region::Argument(a),
            Some(_) | None => Region::Output(i as u32),
        }
    };
    context.program.results.iter().enumerate().map(region).collect()
}

/// The plan of settled classes, all but the program itself.
fn finish(
    context: &Context<'_>,
    classes: &Classes,
    live: &Liveness,
    copies: &Copies,
    options: &Options,
    (results, placement, mut notes): (Vec<Region>, &Placement, Notes),
) -> Planned {
    let program = context.program;
    let mut places: SecondaryMap<ValueId, Option<Place>> = SecondaryMap::new();
    (notes.lower_bound, notes.solver) = (Bytes(placement.lower_bound), placement.solver);
    for (value, data) in &program.values {
        let root = context.roots.root(value);
        if data.is_empty() || live.ranges[root.value].is_empty() {
            continue;
        }
        let place = match program.values[root.value].storage {
            Storage::Constant(c) => {
                Some(Place { region: Region::Constant(c), offset: Bytes::default() })
            }
            Storage::Parameter(i) if program.parameters[i as usize].donation == Donation::Kept => {
                Some(Place { region: Region::Argument(i), offset: Bytes::default() })
            }
            Storage::Parameter(_) | Storage::Own | Storage::View { .. } => {
                placement.places.get(&classes.find(root.value)).copied()
            }
        };
        places[value] =
            place.map(|p| Place { region: p.region, offset: Bytes(p.offset.0 + root.offset) });
        notes.live[value] = live.ranges[root.value].to_vec();
        notes.buffer[value] = classes.find(root.value).as_u32();
    }
    walk::visit(&program.body, &mut |step| {
        if placement.scratch.contains_key(&step.id) {
            let span = context.line.span(step);
            notes.scratch_live.insert(step.id, (span.read, span.write + 1));
        }
    });
    notes.donations =
        donations(context, classes, live, copies, options.strict_aliases, (&results, &places));
    Planned {
        program: Program {
            name: String::new(),
            values: PrimaryMap::new(),
            kernels: PrimaryMap::new(),
            constants: PrimaryMap::new(),
            parameters: Vec::new(),
            results: Vec::new(),
            body: Vec::new(),
        },
        places,
        scratch: placement.scratch.clone(),
        results,
        threads: context.threads,
        arena: Bytes(placement.arena),
        notes,
    }
}

fn donations(
    context: &Context<'_>,
    classes: &Classes,
    live: &Liveness,
    copies: &Copies,
    strict: bool,
    planned: (&[Region], &SecondaryMap<ValueId, Option<Place>>),
) -> Vec<DonationNote> {
    let (program, (results, places)) = (context.program, planned);
    let mut others = vec![false; program.parameters.len()];
    for (value, place) in places.iter() {
        if let Some(Place { region: Region::Argument(i), .. }) = place {
            let parameter = program.parameters[*i as usize].value;
            others[*i as usize] |=
                context.roots.root(value).value != context.roots.root(parameter).value;
        }
    }
    let words = std::cell::OnceCell::new();
    let mut notes = Vec::new();
    for (i, parameter) in program.parameters.iter().enumerate() {
        let Donation::Donated { preferred } = parameter.donation else { continue };
        let preferred = preferred.filter(|&p| (p as usize) < results.len());
        let argument = i as u32;
        let output =
            results.iter().position(|r| *r == Region::Argument(argument)).map(|r| r as u32);
        let words = words.get_or_init(|| Refusals::new(context, classes, live, copies, strict));
        let reason = match (output, preferred) {
            (Some(o), Some(p)) if o != p => words.re_paired(argument, p, o),
            (Some(_), _) => String::new(),
            (None, _) => words.unused(argument),
        };
        notes.push(DonationNote {
            argument,
            bytes: Bytes(context.bytes(parameter.value)).aligned(),
            used_as: match output {
                Some(_) => UsedAs::Output,
                None if others[i] => UsedAs::Scratch,
                None => UsedAs::None,
            },
            output,
            reason,
        });
    }
    notes
}
