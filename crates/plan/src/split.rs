//! Values that are cheaper to make again than to copy, such as a fill with zeros that several loops
//! start from: each step that would overwrite one gets its own, made right before it.

use crate::walk::{is_invariant, lists_mut, visit};
use jaxrs_kernel::program::{Program, Step, StepId, StepKind, Storage, Value, ValueId};
use rustc_hash::FxHashMap;

/// Registers of a kernel that is cheap to run for each element.
const CHEAP_REGISTERS: usize = 32;

/// Bytes of all operands of a step that is cheap to keep at hand.
const CHEAP_OPERANDS: u64 = 64;

/// Gives each in-place writer of a cheap value that others read, too, its own.
pub(crate) fn split(program: &mut Program, next_step: &mut u32) {
    let mut makers: FxHashMap<ValueId, (Step, bool)> = FxHashMap::default();
    let mut uses: FxHashMap<ValueId, u32> = FxHashMap::default();
    visit(&program.body, &mut |step| {
        if is_cheap(program, step) {
            makers.insert(step.results[0], (step.clone(), false));
        }
    });
    if makers.is_empty() {
        return;
    }
    let base = |program: &Program, v: ValueId| match program.values[v].storage {
        Storage::View { base, .. } => base,
        Storage::Own | Storage::Parameter(_) | Storage::Constant(_) => v,
    };
    for step in &program.body {
        crate::walk::reads(step, &mut |v| *uses.entry(base(program, v)).or_default() += 1);
        // Tiles name their operands themselves.
    }
    for &result in &program.results {
        *uses.entry(base(program, result)).or_default() += 1;
    }
    let mut body = std::mem::take(&mut program.body);
    let mut splitter = Splitter { program, makers, uses, next_step };
    splitter.list(&mut body, 0);
    let Splitter { makers, uses, .. } = splitter;
    let unused = |step: &Step| {
        let result = step.results.first().copied();
        result.is_some_and(|r| {
            makers.get(&r).is_some_and(|m| m.1) && uses.get(&r).is_none_or(|&n| n == 0)
        })
    };
    remove(&mut body, &unused);
    program.body = body;
}

fn remove(steps: &mut Vec<Step>, unused: &impl Fn(&Step) -> bool) {
    steps.retain(|s| !unused(s));
    for step in steps {
        for list in lists_mut(step) {
            remove(list, unused);
        }
    }
}

fn is_cheap(program: &Program, step: &Step) -> bool {
    let StepKind::Kernel(kernel) = step.kind else { return false };
    let operands: u64 = step.operands.iter().map(|&v| program.values[v].bytes().0).sum();
    let stable = step.operands.iter().all(|&v| match program.values[v].storage {
        Storage::Constant(_) => true,
        Storage::Parameter(i) => {
            program.parameters[i as usize].donation == jaxrs_kernel::program::Donation::Kept
        }
        Storage::Own | Storage::View { .. } => false,
    });
    step.results.len() == 1
        && step.updates.is_empty()
        && step.scratch.per_thread.0 == 0
        && program.values[step.results[0]].storage == Storage::Own
        && stable
        && operands <= CHEAP_OPERANDS
        && program.kernels[kernel].regs.len() <= CHEAP_REGISTERS
}

struct Splitter<'a> {
    program: &'a mut Program,
    /// The step that makes a value, and whether it was made again.
    makers: FxHashMap<ValueId, (Step, bool)>,
    uses: FxHashMap<ValueId, u32>,
    next_step: &'a mut u32,
}

impl Splitter<'_> {
    fn list(&mut self, steps: &mut Vec<Step>, depth: usize) {
        let old = std::mem::take(steps);
        let here: Vec<ValueId> = old.iter().flat_map(|s| s.results.iter().copied()).collect();
        for mut step in old {
            for list in lists_mut(&mut step) {
                self.list(list, depth + 1);
            }
            for operand in written(&step) {
                let value = step.operands[operand];
                let shared = self.uses.get(&value).is_some_and(|&n| n > 1);
                let outside = depth > 0 && !here.contains(&value);
                if self.makers.contains_key(&value) && (shared || outside) {
                    let again = self.again(value);
                    step.operands[operand] = again.results[0];
                    steps.push(again);
                }
            }
            steps.push(step);
        }
    }

    fn again(&mut self, value: ValueId) -> Step {
        let maker = self.makers.get_mut(&value).expect("looked up before");
        maker.1 = true;
        *self.uses.get_mut(&value).expect("it is used") -= 1;
        let mut step = maker.0.clone();
        let data = self.program.values[value].clone();
        let name = format!("{}.again{}", data.name, self.program.values.len());
        let copy = self.program.values.push(Value { name, ..data });
        step.id = StepId::from_u32(*self.next_step);
        *self.next_step += 1;
        step.results = vec![copy];
        step
    }
}

/// The operands that a step overwrites.
fn written(step: &Step) -> Vec<usize> {
    match &step.kind {
        StepKind::While(inner) => {
            (0..inner.carries.len()).filter(|&i| !is_invariant(inner, i)).collect()
        }
        StepKind::Kernel(_)
        | StepKind::Library(_)
        | StepKind::Copy
        | StepKind::Tile(_)
        | StepKind::Case(_) => step.updates.iter().map(|u| u.1 as usize).collect(),
    }
}
