//! Readers that read a copy instead of the value itself.

use crate::copies::{Held, Tails};
use crate::walk::{lists, lists_mut};
use jaxrs_kernel::program::{Bytes, Program, Step, StepKind, Storage, Value, ValueId};
use rustc_hash::FxHashMap;

/// Values that later readers read under another name.
#[derive(Default)]
pub(crate) struct Renaming {
    to: FxHashMap<ValueId, ValueId>,
}

impl Renaming {
    /// Readers of `from`, or of a part of it, read `to` from now on.
    pub(crate) fn add(&mut self, from: ValueId, to: ValueId) {
        self.to.insert(from, to);
    }

    pub(crate) fn apply(&mut self, program: &mut Program, value: &mut ValueId) {
        // What was renamed may have got another name since.
        for _ in 0..=self.to.len() {
            match self.once(program, *value) {
                Some(to) => *value = to,
                None => return,
            }
        }
    }

    /// The value's next name.
    fn once(&mut self, program: &mut Program, value: ValueId) -> Option<ValueId> {
        if self.to.is_empty() {
            return None;
        }
        if let Some(&to) = self.to.get(&value) {
            return Some(to);
        }
        // A view of what is renamed, or of what the renamed one is a view of.
        let base_of = |program: &Program, v: ValueId| match program.values[v].storage {
            Storage::View { base, offset } => (base, offset),
            Storage::Own | Storage::Parameter(_) | Storage::Constant(_) => (v, Bytes(0)),
        };
        let (base, offset) = base_of(program, value);
        let renamed = |from: &ValueId| {
            let data = &program.values[*from];
            base_of(program, *from).0 == base && data.bytes() == program.values[base].bytes()
        };
        let from = match self.to.contains_key(&base) {
            true => base,
            false => self.to.keys().copied().filter(renamed).min()?,
        };
        let to = self.to[&from];
        let (base, within) = base_of(program, to);
        let offset = Bytes(offset.0 + within.0);
        let data = &program.values[value];
        let name = format!("{}.view{}", data.name, program.values.len());
        let view = Value { name, storage: Storage::View { base, offset }, ..data.clone() };
        let view = program.values.push(view);
        self.to.insert(value, view);
        Some(view)
    }

    /// Renames what a step reads, inside it too.
    pub(crate) fn step(
        &mut self,
        program: &mut Program,
        tails: &mut Tails,
        held: &mut Held,
        step: &mut Step,
    ) {
        if self.to.is_empty() {
            return;
        }
        for (_, value) in held.get_mut(&step.id).into_iter().flatten() {
            self.apply(program, value);
        }
        for list in 0..lists(step).len() as u32 {
            for copy in tails.get_mut(&(step.id, list)).into_iter().flatten() {
                self.apply(program, &mut copy.1);
            }
        }
        step.operands.iter_mut().for_each(|v| self.apply(program, v));
        match &mut step.kind {
            StepKind::While(inner) => {
                self.apply(program, &mut inner.condition_value);
                inner.next.iter_mut().for_each(|v| self.apply(program, v));
            }
            StepKind::Case(inner) => {
                let results = inner.branches.iter_mut().flat_map(|b| &mut b.results);
                results.for_each(|v| self.apply(program, v));
            }
            StepKind::Tile(tile) => {
                tile.steps.iter_mut().for_each(|s| self.step(program, tails, held, s));
            }
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy => {}
        }
        for list in lists_mut(step) {
            list.iter_mut().for_each(|s| self.step(program, tails, held, s));
        }
    }

    /// Renames what is read at the end of a step's list.
    pub(crate) fn ends(
        &mut self,
        program: &mut Program,
        tails: &mut Tails,
        step: &mut Step,
        list: usize,
    ) {
        let tail = match step.kind {
            StepKind::While(_) if list == 0 => None,
            StepKind::While(_) => tails.get_mut(&(step.id, 0)),
            _ => tails.get_mut(&(step.id, list as u32)),
        };
        for copy in tail.into_iter().flatten() {
            self.apply(program, &mut copy.1);
        }
        match &mut step.kind {
            StepKind::While(inner) if list == 0 => self.apply(program, &mut inner.condition_value),
            StepKind::While(inner) => inner.next.iter_mut().for_each(|v| self.apply(program, v)),
            StepKind::Case(inner) => {
                inner.branches[list].results.iter_mut().for_each(|v| self.apply(program, v));
            }
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {}
        }
    }
}
