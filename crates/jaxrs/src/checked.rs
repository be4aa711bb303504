//! `JAXRS_CHECK=1`: each step's result beside the interpreter's on the same operands.
//!
//! Results must be equal bit for bit, but for sums whose order is free and what is made of them
//! within the step: see [`bounds`].

mod bounds;

use crate::compare::difference_beyond;
use crate::tensor::{self, Tensor};
use cranelift_entity::PrimaryMap;
use jaxrs_cpu::{Hook, Moment};
use jaxrs_ir::{Attributes, Function, Literal, Module, Op, TensorType, text};
use jaxrs_kernel::program::{OriginId, StepId, ValueId};
use jaxrs_kernel::{Program, Step, StepKind};
use jaxrs_plan::Planned;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};

/// Compares steps as they run. Loops and branches are compared by their inner steps.
pub(crate) struct Checker {
    program: Program,
    origins: PrimaryMap<OriginId, Function>,
    steps: FxHashMap<StepId, Step>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    operands: FxHashMap<StepId, Vec<Literal>>,
    fault: Option<String>,
}

impl Checker {
    pub(crate) fn new(planned: &Planned, origins: &PrimaryMap<OriginId, Function>) -> Arc<Checker> {
        let mut steps = FxHashMap::default();
        for_each_step(&planned.program.body, &mut |step: &Step| {
            let composed = matches!(step.kind, StepKind::While(_) | StepKind::Case(_));
            // What an empty tensor holds is not said.
            let is_empty = |origin: OriginId| {
                let mut ops = origins[origin].ops.values();
                ops.len() == 1 && ops.all(|data| matches!(data.op, Op::Empty(_)))
            };
            if step.origin.is_some_and(|origin| !is_empty(origin)) && !composed {
                steps.insert(step.id, step.clone());
            }
        });
        Arc::new(Checker {
            program: planned.program.clone(),
            origins: origins.clone(),
            steps,
            state: Mutex::default(),
        })
    }

    pub(crate) fn hook(self: &Arc<Checker>) -> Hook {
        let checker = Arc::clone(self);
        Arc::new(move |moment| checker.look(moment))
    }

    /// The first difference since the last call of this function.
    pub(crate) fn take_fault(&self) -> Option<String> {
        self.state.lock().ok()?.fault.take()
    }

    fn look(&self, moment: &Moment<'_>) {
        let Some(step) = self.steps.get(&moment.step) else { return };
        let Ok(mut state) = self.state.lock() else { return };
        if state.fault.is_some() {
            return;
        }
        if !moment.done {
            let operands = step.operands.iter().map(|&v| self.literal(moment, v)).collect();
            // An operand without a place is a local value of a tile around the step.
            if let Some(operands) = operands {
                state.operands.insert(step.id, operands);
            }
        } else if let Some(operands) = state.operands.remove(&step.id) {
            state.fault = self.compare(moment, step, &operands);
        }
    }

    fn ty(&self, value: ValueId) -> TensorType {
        let value = &self.program.values[value];
        TensorType::new(value.shape.clone(), value.dtype)
    }

    fn literal(&self, moment: &Moment<'_>, value: ValueId) -> Option<Literal> {
        Some(Literal::dense(self.ty(value), moment.bytes(value)?.to_vec()))
    }

    fn compare(&self, moment: &Moment<'_>, step: &Step, operands: &[Literal]) -> Option<String> {
        let origin = &self.origins[step.origin?];
        let expected = match bounds::call(origin, operands) {
            Ok(expected) => expected,
            Err(error) => return Some(format!("check: {}: {}", step.id, error.message)),
        };
        for (&value, (expected, errors)) in step.results.iter().zip(&expected) {
            let got = Tensor { ty: self.ty(value), bytes: moment.bytes(value)?.to_vec() };
            let expected = Tensor { ty: expected.ty().clone(), bytes: expected.to_bytes() };
            let allowed = |at: u64, _| errors.as_ref().map_or(0.0, |errors| errors[at as usize]);
            if let Some(difference) = difference_beyond(&got, &expected, &allowed, 0.0) {
                let value = &self.program.values[value];
                let place = value.source.as_ref().map_or(String::new(), |s| format!(" ({s})"));
                let file = write_case(origin, step.id, operands);
                return Some(format!(
                    "check: {} differs from the interpreter in {}{place}: {difference}; {file}",
                    step.id, value.name
                ));
            }
        }
        None
    }
}

/// Writes the step's function and operands to files, to run by themselves; says where.
fn write_case(origin: &Function, step: StepId, operands: &[Literal]) -> String {
    let (folder, process) = (std::env::temp_dir(), std::process::id());
    let (program, inputs) = (
        folder.join(format!("jaxrs-check-{process}-{step}.mlir")),
        folder.join(format!("jaxrs-check-{process}-{step}.safetensors")),
    );
    let mut function = origin.clone();
    function.name = "main".into();
    let module =
        Module { name: "check".into(), attributes: Attributes::new(), functions: vec![function] };
    let tensors: Vec<Tensor> =
        operands.iter().map(|l| Tensor { ty: l.ty().clone(), bytes: l.to_bytes() }).collect();
    let written = std::fs::write(&program, text::print(&module))
        .map_err(|error| error.to_string())
        .and_then(|()| tensor::save(&inputs, &tensors).map_err(|error| error.to_string()));
    match written {
        Ok(()) => format!("the step by itself: {}, {}", program.display(), inputs.display()),
        Err(error) => format!("the step by itself could not be written: {error}"),
    }
}

/// Every step, those inside loops, branches and tiles, too.
pub(crate) fn for_each_step(steps: &[Step], visit: &mut dyn FnMut(&Step)) {
    for step in steps {
        visit(step);
        match &step.kind {
            StepKind::While(inner) => {
                for_each_step(&inner.condition, visit);
                for_each_step(&inner.body, visit);
            }
            StepKind::Case(inner) => {
                for branch in &inner.branches {
                    for_each_step(&branch.steps, visit);
                }
            }
            StepKind::Tile(inner) => for_each_step(&inner.steps, visit),
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy => {}
        }
    }
}
