//! Puts the copies that a plan needs into the program, each with its reason.

use crate::CopyNote;
use crate::alias::{Need, Spot};
use crate::rename::Renaming;
use crate::walk::{Roots, lists_mut, visit};
use jaxrs_kernel::program::{
    Donation, Program, Scratch, Sharing, Step, StepId, StepKind, Storage, Value, ValueId,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// A copy at the end of a list: position, source and reason.
pub(crate) type TailCopy = (u32, ValueId, String);

/// The copies at the end of a loop's body (list 0) or of a branch (by its index).
pub(crate) type Tails = FxHashMap<(StepId, u32), Vec<TailCopy>>;

/// A copy before a step, for one of its operands.
struct Before {
    operand: u32,
    copy: Step,
    role: Role,
}

/// Who reads a copy before a step.
#[derive(Clone, Copy)]
enum Role {
    /// The step's operand.
    Operand,
    /// Those that read the operand later.
    Readers,
    /// No operand: it stands where the step's result begins. The operand is this value.
    Held(ValueId),
}

type BeforeSteps = FxHashMap<StepId, Vec<Before>>;

/// For a step, its results whose memory holds a value at the start that the step reads elsewhere.
pub(crate) type Held = FxHashMap<StepId, Vec<(u32, ValueId)>>;

/// The copies put in so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// Why each is needed.
    reasons: FxHashMap<StepId, String>,
    /// At the bottom of a loop (list 0) or the end of a branch (by its index): position, source and
    /// reason.
    tails: Tails,
    /// The steps of `tails`, ordered afresh whenever one is added.
    tail_steps: FxHashSet<StepId>,
    /// Values that steps overwrite although they read a copy.
    pub(crate) held: Held,
    /// For a step and a result, the copy that is read of a held value.
    read_copies: FxHashMap<(StepId, u32), StepId>,
    /// Copies that are no longer needed.
    dropped: FxHashSet<StepId>,
    /// Steps and operands that were overwritten at the cost of their later readers.
    pub(crate) tried: FxHashSet<(StepId, u32)>,
    /// The next free step id.
    pub(crate) next_step: u32,
}

impl Copies {
    /// No copies yet.
    pub(crate) fn new(program: &Program) -> Copies {
        let mut next_step = 0;
        visit(&program.body, &mut |step| {
            next_step = next_step.max(step.id.as_u32() + 1);
            if let StepKind::Tile(tile) = &step.kind {
                for inner in &tile.steps {
                    next_step = next_step.max(inner.id.as_u32() + 1);
                }
            }
        });
        Copies { next_step, ..Copies::default() }
    }

    /// Every copy of a planned program in its order.
    pub(crate) fn notes(&self, program: &Program) -> Vec<CopyNote> {
        let mut notes = Vec::new();
        visit(&program.body, &mut |step| {
            if !matches!(step.kind, StepKind::Copy) {
                return;
            }
            let reason = self.reasons.get(&step.id).map_or("stands in the program", |r| &r[..]);
            notes.push(CopyNote {
                step: step.id,
                value: step.operands[0],
                bytes: program.values[step.results[0]].bytes().aligned(),
                reason: reason.to_string(),
            });
        });
        notes
    }

    /// Bytes of every copy of a program.
    pub(crate) fn bytes(program: &Program) -> u64 {
        let mut bytes = 0;
        visit(&program.body, &mut |step| {
            if matches!(step.kind, StepKind::Copy) {
                bytes += program.values[step.results[0]].bytes().aligned().0;
            }
        });
        bytes
    }

    /// Makes a step that copies `value`.
    fn step(&mut self, program: &mut Program, value: ValueId, reason: String) -> Step {
        let data = &program.values[value];
        let name = format!("{}.copy{}", data.name, program.values.len());
        let copy = program.values.push(Value {
            name,
            op: "copy".into(),
            dtype: data.dtype,
            shape: data.shape.clone(),
            storage: Storage::Own,
            source: data.source.clone(),
        });
        let id = StepId::from_u32(self.next_step);
        self.next_step += 1;
        self.reasons.insert(id, reason);
        Step {
            id,
            kind: StepKind::Copy,
            operands: vec![value],
            results: vec![copy],
            updates: Vec::new(),
            sharing: vec![vec![Sharing::SameElement]],
            scratch: Scratch::default(),
            origin: None,
        }
    }

    /// Copies every result that cannot be returned where it is: a constant, an argument that is
    /// kept, a part of a value, or a value that is a result already.
    pub(crate) fn results(&mut self, program: &mut Program) {
        let roots = Roots::new(program);
        // An argument that is several results stays the one that the source names.
        let mut seen: FxHashMap<ValueId, usize> = FxHashMap::default();
        for parameter in &program.parameters {
            let Donation::Donated { preferred: Some(named) } = parameter.donation else { continue };
            let root = roots.root(parameter.value).value;
            let result = program.results.get(named as usize);
            if result.is_some_and(|&v| roots.root(v).value == root && roots.is_whole(program, v)) {
                seen.insert(root, named as usize);
            }
        }
        for i in 0..program.results.len() {
            let value = program.results[i];
            let root = roots.root(value).value;
            let reason = match program.values[root].storage {
                Storage::Constant(_) => Some("the result is a constant".to_string()),
                Storage::Parameter(p)
                    if program.parameters[p as usize].donation == Donation::Kept =>
                {
                    Some(format!("the result is argument {p}, which is not donated"))
                }
                Storage::Parameter(_) | Storage::Own | Storage::View { .. } => {
                    if !roots.is_whole(program, value) {
                        Some(format!("the result is a part of {}", program.values[root].name))
                    } else {
                        seen.get(&root)
                            .filter(|&&other| other != i)
                            .map(|&other| format!("result {other} is the same value"))
                    }
                }
            };
            match reason {
                Some(reason) if !program.values[value].is_empty() => {
                    self.result(program, i, reason);
                }
                Some(_) | None => {
                    seen.entry(root).or_insert(i);
                }
            }
        }
    }

    /// Copies result `i` at the end.
    pub(crate) fn result(&mut self, program: &mut Program, i: usize, reason: String) {
        let step = self.step(program, program.results[i], reason);
        program.results[i] = step.results[0];
        program.body.push(step);
    }

    /// Copies result `i` as soon as the donated argument that it takes over is dead: before step
    /// `at` of the body, whose readers from there on read the copy.
    pub(crate) fn result_at(&mut self, program: &mut Program, i: usize, at: usize, reason: String) {
        let value = program.results[i];
        let step = self.step(program, value, reason);
        let copy = step.results[0];
        program.results[i] = copy;
        let mut renaming = Renaming::default();
        renaming.add(value, copy);
        let mut body = std::mem::take(&mut program.body);
        body[at..]
            .iter_mut()
            .for_each(|later| renaming.step(program, &mut self.tails, &mut self.held, later));
        body.insert(at, step);
        program.body = body;
    }

    /// Puts in the copies for `needs`, which were found for this program and these classes.
    pub(crate) fn insert(
        &mut self,
        program: &mut Program,
        needs: &[Need],
        reasons: Vec<String>,
        class_of: &impl Fn(ValueId) -> ValueId,
    ) {
        let mut before: BeforeSteps = FxHashMap::default();
        for (need, reason) in needs.iter().zip(reasons) {
            match need.spot {
                Spot::Operand(step, operand) => {
                    let copy = self.step(program, need.value, reason);
                    before.entry(step).or_default().push(Before {
                        operand,
                        copy,
                        role: Role::Operand,
                    });
                }
                Spot::Held(step, operand, result) => {
                    let copy = self.step(program, need.value, reason);
                    self.held.entry(step).or_default().push((result, need.value));
                    self.read_copies.insert((step, result), copy.id);
                    before.entry(step).or_default().push(Before {
                        operand,
                        copy,
                        role: Role::Operand,
                    });
                }
                Spot::HeldCopy(step, operand, result) => {
                    // The copy for reading is not needed now that the value itself stays.
                    let copy = self.step(program, need.value, reason);
                    self.dropped.extend(self.read_copies.remove(&(step, result)));
                    let held = self.held.get_mut(&step).expect("the value is held");
                    for entry in held.iter_mut().filter(|h| h.0 == result) {
                        entry.1 = copy.results[0];
                    }
                    let keep = Before { operand, copy, role: Role::Held(need.value) };
                    before.entry(step).or_default().push(keep);
                }
                Spot::Readers(step, operand) => {
                    let copy = self.step(program, need.value, reason);
                    self.tried.insert((step, operand));
                    before.entry(step).or_default().push(Before {
                        operand,
                        copy,
                        role: Role::Readers,
                    });
                }
                Spot::Next(step, slot) => {
                    self.tail((step, 0), slot, need.value, reason);
                }
                Spot::Branch(step, branch, slot) => {
                    self.tail((step, branch), slot, need.value, reason);
                }
            }
        }
        let mut body = std::mem::take(&mut program.body);
        let mut renaming = self.rebuild(program, &mut body, &mut before, class_of);
        let mut results = std::mem::take(&mut program.results);
        results.iter_mut().for_each(|v| renaming.apply(program, v));
        program.results = results;
        program.body = body;
    }

    /// Adds a copy at the end of a list. One that is there already only stood in the wrong order:
    /// all of them are ordered afresh.
    fn tail(&mut self, list: (StepId, u32), slot: u32, value: ValueId, reason: String) {
        let tail = self.tails.entry(list).or_default();
        if tail.iter().all(|t| t.0 != slot) {
            tail.push((slot, value, reason));
        }
    }

    fn rebuild(
        &mut self,
        program: &mut Program,
        steps: &mut Vec<Step>,
        before: &mut BeforeSteps,
        class_of: &impl Fn(ValueId) -> ValueId,
    ) -> Renaming {
        let old = std::mem::take(steps);
        let mut renaming = Renaming::default();
        for mut step in old {
            if self.tail_steps.remove(&step.id) || self.dropped.remove(&step.id) {
                continue;
            }
            renaming.step(program, &mut self.tails, &mut self.held, &mut step);
            let mut inner = Vec::new();
            for list in lists_mut(&mut step) {
                inner.push(self.rebuild(program, list, before, class_of));
            }
            for (i, mut names) in inner.into_iter().enumerate() {
                names.ends(program, &mut self.tails, &mut step, i);
            }
            self.tails_of(program, &mut step, class_of);
            for Before { operand, mut copy, role } in before.remove(&step.id).unwrap_or_default() {
                let operand = operand as usize;
                renaming.step(program, &mut self.tails, &mut self.held, &mut copy);
                match role {
                    Role::Operand => step.operands[operand] = copy.results[0],
                    Role::Held(mut value) => {
                        renaming.apply(program, &mut value);
                        step.operands[operand] = value;
                    }
                    Role::Readers => {
                        // The step itself reads the copy, too, but for the one it overwrites.
                        let kept = step.operands[operand];
                        renaming.add(kept, copy.results[0]);
                        renaming.step(program, &mut self.tails, &mut self.held, &mut step);
                        step.operands[operand] = kept;
                    }
                }
                steps.push(copy);
            }
            steps.push(step);
        }
        renaming
    }

    /// Writes the copies at the ends of a step's lists.
    fn tails_of(
        &mut self,
        program: &mut Program,
        step: &mut Step,
        class_of: &impl Fn(ValueId) -> ValueId,
    ) {
        let id = step.id;
        match &mut step.kind {
            StepKind::While(inner) => {
                let Some(tail) = self.tails.get(&(id, 0)).cloned() else { return };
                let targets = inner.carries.clone();
                let done = self.ordered(program, &tail, &targets, class_of);
                for (slot, value) in done.values {
                    inner.next[slot as usize] = value;
                }
                inner.body.extend(done.steps);
            }
            StepKind::Case(inner) => {
                let targets = step.results.clone();
                for (b, branch) in inner.branches.iter_mut().enumerate() {
                    let Some(tail) = self.tails.get(&(id, b as u32)).cloned() else { continue };
                    let done = self.ordered(program, &tail, &targets, class_of);
                    for (slot, value) in done.values {
                        branch.results[slot as usize] = value;
                    }
                    branch.steps.extend(done.steps);
                }
            }
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {}
        }
    }

    /// Orders copies that happen at once so that each is read before it is overwritten; a cycle is
    /// broken by one more copy.
    fn ordered(
        &mut self,
        program: &mut Program,
        tail: &[TailCopy],
        targets: &[ValueId],
        class_of: &impl Fn(ValueId) -> ValueId,
    ) -> Tail {
        let mut left: Vec<Pending> = tail
            .iter()
            .map(|(slot, value, reason)| Pending {
                slot: *slot,
                value: *value,
                class: Some(class_of(*value)),
                reason: reason.clone(),
            })
            .collect();
        let mut done = Tail::default();
        while !left.is_empty() {
            let free = left.iter().position(|copy| {
                let target = Some(class_of(targets[copy.slot as usize]));
                left.iter().all(|other| other.slot == copy.slot || other.class != target)
            });
            let at = free.unwrap_or_else(|| {
                let target = Some(class_of(targets[left[0].slot as usize]));
                for other in left.iter_mut().skip(1).filter(|other| other.class == target) {
                    let saved = self.step(program, other.value, EXCHANGE.into());
                    self.tail_steps.insert(saved.id);
                    other.value = saved.results[0];
                    other.class = None;
                    done.steps.push(saved);
                }
                0
            });
            let Pending { slot, value, reason, .. } = left.remove(at);
            let copy = self.step(program, value, reason);
            self.tail_steps.insert(copy.id);
            done.values.push((slot, copy.results[0]));
            done.steps.push(copy);
        }
        done
    }
}

const EXCHANGE: &str = "saves a value while others exchange their places";

/// One of the copies at the end of a list: to position `slot`, reading a value of `class`.
struct Pending {
    slot: u32,
    value: ValueId,
    class: Option<ValueId>,
    reason: String,
}

#[derive(Default)]
struct Tail {
    steps: Vec<Step>,
    values: Vec<(u32, ValueId)>,
}
