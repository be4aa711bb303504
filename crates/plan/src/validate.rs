//! An independent check of a plan: runs the planned program over memory whose bytes say which value
//! they belong to. It shares no code with the planner.
//!
//! Every write puts a new *content* into memory; a copy repeats its operand's. Checked:
//! * each operand, condition, next carry, branch result and result of the program finds its content
//!   in its place, whole;
//! * an updated operand's content stands in the result's place before the step;
//! * a step writes over one of its operands only where its sharing allows it; its results and its
//!   scratch are apart;
//! * only the arena, results and donated arguments are written, and inside their bounds;
//! * a loop's and a branch's values of one position have one place.
//!
//! Loops run twice, which shows what one iteration spoils for the next. What branches leave is what
//! all of them leave.

use crate::{Place, Planned, Region};
use jaxrs_kernel::program::{
    Case, ConstantId, Donation, Program, Sharing, Step, StepKind, Storage, Tile, ValueId, While,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What a plan does wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

/// Checks a plan. The time is that of a few passes over the program, doubled for each loop around
/// a step.
pub fn validate(planned: &Planned) -> Result<(), Violation> {
    let program = &planned.program;
    let mut machine = Machine { planned, next: 0, state: State::default() };
    machine.check_results()?;
    for (i, parameter) in program.parameters.iter().enumerate() {
        let bytes = program.values[parameter.value].bytes().0;
        let content = machine.fresh();
        machine.state.expected.insert(parameter.value, content);
        machine.state.memory.entry(Region::Argument(i as u32)).or_default().set(0, bytes, content);
    }
    let mut constants: FxHashMap<ConstantId, Content> = FxHashMap::default();
    for (id, bytes) in &program.constants {
        let content = machine.fresh();
        let memory = machine.state.memory.entry(Region::Constant(id)).or_default();
        memory.set(0, bytes.len() as u64, content);
        constants.insert(id, content);
    }
    for (value, data) in &program.values {
        if let Storage::Constant(id) = data.storage {
            let content = constants.get(&id).copied();
            let known = content.ok_or_else(|| Violation(format!("{} has no bytes", data.name)))?;
            machine.state.expected.insert(value, known);
        }
    }
    machine.list(&program.body)?;
    for (i, (&value, &region)) in program.results.iter().zip(&planned.results).enumerate() {
        if program.values[value].is_empty() {
            continue;
        }
        let place = machine.place(value)?;
        if place.region != region || place.offset.0 != 0 {
            return fail(format!("result {i} is at {place:?}, not at the start of {region:?}"));
        }
        machine.read(value, &format!("result {i}"))?;
    }
    Ok(())
}

fn fail<T>(text: String) -> Result<T, Violation> {
    Err(Violation(text))
}

/// What bytes belong to: an id, and the position of the first of them in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    id: u32,
    offset: u64,
}

impl Content {
    fn at(self, by: u64) -> Content {
        Content { id: self.id, offset: self.offset + by }
    }
}

/// The contents of a region: start, end, content of the first byte.
#[derive(Clone, Debug, Default)]
struct Memory(BTreeMap<u64, (u64, Content)>);

impl Memory {
    fn set(&mut self, start: u64, end: u64, content: Content) {
        if start >= end {
            return;
        }
        let hit: Vec<(u64, u64, Content)> = self.pieces(start, end).collect();
        for (low, high, old) in hit {
            self.0.remove(&low);
            if low < start {
                self.0.insert(low, (start, old));
            }
            if high > end {
                self.0.insert(end, (high, old.at(end - low)));
            }
        }
        self.0.insert(start, (end, content));
    }

    /// The pieces that touch a range, whole.
    fn pieces(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, Content)> + '_ {
        let before = self.0.range(..=start).next_back().filter(|p| p.1.0 > start);
        let from = before.map_or(start, |p| *p.0);
        self.0.range(from..end).map(|(&low, &(high, content))| (low, high, content))
    }

    fn holds(&self, start: u64, end: u64, content: Content) -> bool {
        let mut at = start;
        for (low, high, found) in self.pieces(start, end) {
            if low > at || found.id != content.id {
                return false;
            }
            if found.offset + (at - low) != content.offset + (at - start) {
                return false;
            }
            at = high;
        }
        at >= end
    }

    /// What both hold.
    fn common(&self, other: &Memory) -> Memory {
        let mut both = Memory::default();
        for (&low, &(high, content)) in &self.0 {
            for (start, end, found) in other.pieces(low, high) {
                let (from, to) = (low.max(start), high.min(end));
                if found.id == content.id && content.at(from - low) == found.at(from - start) {
                    both.0.insert(from, (to, content.at(from - low)));
                }
            }
        }
        both
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    memory: FxHashMap<Region, Memory>,
    /// What each value's place should hold; of a view, its base's.
    expected: FxHashMap<ValueId, Content>,
}

struct Machine<'a> {
    planned: &'a Planned,
    next: u32,
    state: State,
}

impl<'a> Machine<'a> {
    fn program(&self) -> &'a Program {
        &self.planned.program
    }

    fn name(&self, value: ValueId) -> &'a str {
        &self.program().values[value].name
    }

    fn bytes(&self, value: ValueId) -> u64 {
        self.program().values[value].bytes().0
    }

    fn fresh(&mut self) -> Content {
        self.next += 1;
        Content { id: self.next, offset: 0 }
    }

    fn check_results(&self) -> Result<(), Violation> {
        let program = self.program();
        if self.planned.results.len() != program.results.len() {
            return fail("not every result has a region".into());
        }
        for (i, &region) in self.planned.results.iter().enumerate() {
            match region {
                Region::Output(o) if o as usize == i => {}
                Region::Argument(a)
                    if program.parameters[a as usize].donation != Donation::Kept => {}
                Region::Arena | Region::Output(_) | Region::Argument(_) | Region::Constant(_) => {
                    return fail(format!("result {i} is at {region:?}"));
                }
            }
            if self.planned.results[..i].contains(&region) {
                return fail(format!("{region:?} holds two results"));
            }
        }
        Ok(())
    }

    fn place(&self, value: ValueId) -> Result<Place, Violation> {
        self.planned.places[value]
            .ok_or_else(|| Violation(format!("{} has no place", self.name(value))))
    }

    fn expected(&self, value: ValueId) -> Result<Content, Violation> {
        if let Some(&content) = self.state.expected.get(&value) {
            return Ok(content);
        }
        if let Storage::View { base, offset } = self.program().values[value].storage {
            return Ok(self.expected(base)?.at(offset.0));
        }
        fail(format!("{} is read before it is made", self.name(value)))
    }

    /// Checks that a value's place holds its content.
    fn read(&self, value: ValueId, reader: &str) -> Result<(), Violation> {
        let bytes = self.bytes(value);
        if bytes == 0 {
            return Ok(());
        }
        let place = self.place(value)?;
        let content = self.expected(value)?;
        let found = self.state.memory.get(&place.region);
        if !found.is_some_and(|m| m.holds(place.offset.0, place.offset.0 + bytes, content)) {
            return fail(format!(
                "{} is spoiled in {:?} when {reader} reads it",
                self.name(value),
                place
            ));
        }
        Ok(())
    }

    fn set(&mut self, region: Region, start: u64, end: u64, content: Content) {
        self.state.memory.entry(region).or_default().set(start, end, content);
    }

    /// Checks that a range of memory may be written.
    fn writable(&self, region: Region, end: u64, what: &str) -> Result<(), Violation> {
        let program = self.program();
        let room = match region {
            Region::Arena => self.planned.arena.0,
            Region::Argument(i) => match program.parameters.get(i as usize) {
                Some(p) if p.donation != Donation::Kept => self.bytes(p.value),
                _ => return fail(format!("{what} writes argument {i}, which is kept")),
            },
            Region::Output(i) => match program.results.get(i as usize) {
                Some(&r) if self.planned.results[i as usize] == region => self.bytes(r),
                _ => return fail(format!("{what} is in result {i}, which is elsewhere")),
            },
            Region::Constant(_) => return fail(format!("{what} writes a constant")),
        };
        if end > room {
            return fail(format!("{what} ends at {end} in {region:?} of {room} bytes"));
        }
        Ok(())
    }

    fn write(&mut self, value: ValueId, content: Content) -> Result<(), Violation> {
        let bytes = self.bytes(value);
        if bytes == 0 {
            return Ok(());
        }
        let place = self.place(value)?;
        let end = place.offset.0 + bytes;
        self.writable(place.region, end, self.name(value))?;
        if let Storage::View { base, offset } = self.program().values[value].storage {
            // A part of a value that is written part by part.
            let whole = match self.state.expected.get(&base) {
                Some(&content) => content,
                None => self.fresh(),
            };
            self.state.expected.insert(base, whole);
            self.set(place.region, place.offset.0, end, whole.at(offset.0));
        } else {
            self.state.expected.insert(value, content);
            self.set(place.region, place.offset.0, end, content);
        }
        Ok(())
    }

    fn list(&mut self, steps: &[Step]) -> Result<(), Violation> {
        steps.iter().try_for_each(|step| match &step.kind {
            StepKind::While(inner) => self.repeat(step, inner),
            StepKind::Case(inner) => self.branch(step, inner),
            StepKind::Tile(tile) => {
                self.locals(step, tile)?;
                self.leaf(step)
            }
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy => self.leaf(step),
        })
    }

    fn leaf(&mut self, step: &Step) -> Result<(), Violation> {
        let who = self.step_name(step);
        for &operand in &step.operands {
            self.read(operand, &who)?;
        }
        for &(result, operand) in &step.updates {
            let (result, operand) =
                (step.results[result as usize], step.operands[operand as usize]);
            let bytes = self.bytes(result);
            if bytes == 0 {
                continue;
            }
            let place = self.place(result)?;
            let content = self.expected(operand)?;
            let memory = self.state.memory.get(&place.region);
            if !memory.is_some_and(|m| m.holds(place.offset.0, place.offset.0 + bytes, content)) {
                return fail(format!("{who} updates {}, which is not there", self.name(operand)));
            }
        }
        self.apart(step, &who)?;
        if let Some((start, end)) = self.scratch(step)? {
            self.writable(Region::Arena, end, &format!("the scratch of {who}"))?;
            let content = self.fresh();
            self.set(Region::Arena, start, end, content);
        }
        for &result in &step.results {
            let content = match step.kind {
                StepKind::Copy if self.bytes(result) > 0 => self.expected(step.operands[0])?,
                _ => self.fresh(),
            };
            self.write(result, content)?;
        }
        Ok(())
    }

    fn step_name(&self, step: &Step) -> String {
        step.results.first().map_or_else(|| step.id.to_string(), |&r| self.name(r).to_string())
    }

    fn scratch(&self, step: &Step) -> Result<Option<(u64, u64)>, Violation> {
        let bytes = step.scratch.per_thread.0 * u64::from(self.planned.threads);
        if bytes == 0 {
            return Ok(None);
        }
        match self.planned.scratch.get(&step.id) {
            Some(at) => Ok(Some((at.0, at.0 + bytes))),
            None => fail(format!("{} has no scratch", self.step_name(step))),
        }
    }

    fn range(&self, value: ValueId) -> Result<Option<(Region, u64, u64)>, Violation> {
        let bytes = self.bytes(value);
        if bytes == 0 {
            return Ok(None);
        }
        let place = self.place(value)?;
        Ok(Some((place.region, place.offset.0, place.offset.0 + bytes)))
    }

    /// Checks that a step's results, scratch and operands overlap only where the step allows it.
    fn apart(&self, step: &Step, who: &str) -> Result<(), Violation> {
        let meet =
            |a: (Region, u64, u64), b: (Region, u64, u64)| a.0 == b.0 && a.1 < b.2 && b.1 < a.2;
        let scratch = self.scratch(step)?.map(|(a, b)| (Region::Arena, a, b));
        for (r, &result) in step.results.iter().enumerate() {
            let Some(range) = self.range(result)? else { continue };
            for &other in &step.results[..r] {
                if self.range(other)?.is_some_and(|o| meet(range, o)) {
                    return fail(format!(
                        "results {} and {} of one step overlap",
                        self.name(other),
                        self.name(result)
                    ));
                }
            }
            if scratch.is_some_and(|s| meet(range, s)) {
                return fail(format!("{who} overlaps the scratch of its step"));
            }
            for (o, &operand) in step.operands.iter().enumerate() {
                let Some(other) = self.range(operand)? else { continue };
                if meet(range, other) && !self.may_meet(step, r, o, range.1 == other.1) {
                    return fail(format!(
                        "{} is written over {} while it is read",
                        self.name(result),
                        self.name(operand)
                    ));
                }
            }
        }
        for &operand in &step.operands {
            let Some(range) = self.range(operand)? else { continue };
            if scratch.is_some_and(|s| meet(range, s)) {
                return fail(format!("the scratch of {who} overlaps {}", self.name(operand)));
            }
        }
        Ok(())
    }

    fn may_meet(&self, step: &Step, result: usize, operand: usize, same_start: bool) -> bool {
        let alone = match step.kind {
            StepKind::Kernel(k) => {
                self.planned.threads == 1 || self.program().kernels[k].range.is_none()
            }
            _ => self.planned.threads == 1,
        };
        match step.sharing.get(result).and_then(|row| row.get(operand)) {
            Some(Sharing::AfterFullRead) => true,
            Some(Sharing::SameElement) => same_start,
            Some(Sharing::Ordered) => same_start && alone,
            Some(Sharing::Never) | None => false,
        }
    }

    fn same_place(&self, a: ValueId, b: ValueId) -> Result<(), Violation> {
        if self.bytes(a) == 0 && self.bytes(b) == 0 {
            return Ok(());
        }
        if self.place(a)? != self.place(b)? {
            return fail(format!("{} and {} must have one place", self.name(a), self.name(b)));
        }
        Ok(())
    }

    fn repeat(&mut self, step: &Step, inner: &While) -> Result<(), Violation> {
        let who = self.step_name(step);
        for (i, &carry) in inner.carries.iter().enumerate() {
            self.read(step.operands[i], &who)?;
            self.same_place(step.operands[i], carry)?;
            self.same_place(inner.next[i], carry)?;
            self.same_place(step.results[i], carry)?;
        }
        let mut carried: Vec<Option<Content>> = self.contents(&step.operands)?;
        for iteration in 0..3 {
            for (&carry, content) in inner.carries.iter().zip(&carried) {
                if let Some(content) = content {
                    self.state.expected.insert(carry, *content);
                }
            }
            self.list(&inner.condition)?;
            self.read(inner.condition_value, &format!("the condition of {who}"))?;
            for &carry in &inner.carries {
                self.read(carry, &format!("the end of {who}"))?;
            }
            if iteration == 2 {
                break;
            }
            self.list(&inner.body)?;
            for &next in &inner.next {
                self.read(next, &format!("the next iteration of {who}"))?;
            }
            carried = self.contents(&inner.next)?;
        }
        for (&result, content) in step.results.iter().zip(carried) {
            if let Some(content) = content {
                self.state.expected.insert(result, content);
            }
        }
        Ok(())
    }

    fn contents(&self, values: &[ValueId]) -> Result<Vec<Option<Content>>, Violation> {
        let content = |&v: &ValueId| {
            if self.bytes(v) == 0 { Ok(None) } else { self.expected(v).map(Some) }
        };
        values.iter().map(content).collect()
    }

    fn branch(&mut self, step: &Step, inner: &Case) -> Result<(), Violation> {
        let who = self.step_name(step);
        self.read(step.operands[0], &who)?;
        let before = self.state.clone();
        let mut after: Option<State> = None;
        let mut contents: Vec<Option<Option<Content>>> = vec![None; step.results.len()];
        for (b, branch) in inner.branches.iter().enumerate() {
            self.state = before.clone();
            self.list(&branch.steps)?;
            for (i, (&value, &result)) in branch.results.iter().zip(&step.results).enumerate() {
                self.read(value, &format!("branch {b} of {who}"))?;
                self.same_place(value, result)?;
                if self.bytes(value) == 0 {
                    continue;
                }
                let content = self.expected(value)?;
                contents[i] = Some(match contents[i] {
                    None => Some(content),
                    Some(other) => other.filter(|o| *o == content),
                });
            }
            let state = std::mem::take(&mut self.state);
            after = Some(match after {
                None => state,
                Some(other) => merge(other, &state),
            });
        }
        self.state = after.unwrap_or(before);
        for (&result, content) in step.results.iter().zip(contents) {
            match content {
                None => {}
                Some(Some(same)) => {
                    self.state.expected.insert(result, same);
                }
                Some(None) => {
                    let content = self.fresh();
                    self.write(result, content)?;
                }
            }
        }
        Ok(())
    }

    /// Checks a tile's local values in a scratch of their own.
    fn locals(&mut self, step: &Step, tile: &Tile) -> Result<(), Violation> {
        let who = self.step_name(step);
        let local: FxHashMap<ValueId, (u64, u64)> = tile
            .locals
            .iter()
            .map(|&(v, at)| {
                let rows = tile.rows.min(tile.extent.max(1));
                (v, (at.0, at.0 + self.bytes(v).div_ceil(tile.extent.max(1)) * rows))
            })
            .collect();
        let mut memory = Memory::default();
        let mut contents: FxHashMap<ValueId, Content> = FxHashMap::default();
        for inner in &tile.steps {
            for &operand in &inner.operands {
                if let Some(&(start, end)) = local.get(&operand) {
                    let Some(&content) = contents.get(&operand) else {
                        return fail(format!("{} is read before it is made", self.name(operand)));
                    };
                    if !memory.holds(start, end, content) {
                        return fail(format!(
                            "{} is spoiled in a tile of {who}",
                            self.name(operand)
                        ));
                    }
                } else if !step.operands.contains(&operand) && !step.results.contains(&operand) {
                    return fail(format!("{} is no operand of {who}", self.name(operand)));
                }
            }
            for (r, &result) in inner.results.iter().enumerate() {
                let Some(&(start, end)) = local.get(&result) else {
                    if !step.results.contains(&result) {
                        return fail(format!("{} is no result of {who}", self.name(result)));
                    }
                    continue;
                };
                if end > step.scratch.per_thread.0 {
                    return fail(format!("{} exceeds the scratch of {who}", self.name(result)));
                }
                for (o, operand) in inner.operands.iter().enumerate() {
                    let Some(&(low, high)) = local.get(operand) else { continue };
                    if low < end && start < high && !self.may_meet(inner, r, o, low == start) {
                        return fail(format!("{} is written over its operand", self.name(result)));
                    }
                }
                let content = self.fresh();
                memory.set(start, end, content);
                contents.insert(result, content);
            }
        }
        Ok(())
    }
}

/// What both of two states hold.
fn merge(a: State, b: &State) -> State {
    let memory = a
        .memory
        .iter()
        .filter_map(|(region, m)| b.memory.get(region).map(|o| (*region, m.common(o))))
        .collect();
    // A value made inside a branch is not read after it.
    let expected =
        a.expected.into_iter().filter(|(v, content)| b.expected.get(v) == Some(content)).collect();
    State { memory, expected }
}
