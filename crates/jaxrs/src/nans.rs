//! `JAXRS_DEBUG_NANS=1`: the first op that makes a NaN, with its place.

use crate::checked::for_each_step;
use cranelift_entity::PrimaryMap;
use jaxrs_cpu::{Hook, Moment};
use jaxrs_ir::{DType, Function, Literal, Location, OpId, TensorType, interpret};
use jaxrs_kernel::program::{OriginId, StepId, ValueId};
use jaxrs_kernel::{Program, Step, StepKind};
use jaxrs_plan::Planned;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Looks at the results of steps as they run. Loops and branches are looked at by their inner
/// steps.
pub(crate) struct NanWatch {
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

impl NanWatch {
    pub(crate) fn new(
        planned: &Planned,
        origins: &PrimaryMap<OriginId, Function>,
    ) -> Arc<NanWatch> {
        let program = planned.program.clone();
        let mut steps = FxHashMap::default();
        for_each_step(&program.body, &mut |step: &Step| {
            let composed = matches!(step.kind, StepKind::While(_) | StepKind::Case(_));
            let floats = step.results.iter().any(|&v| program.values[v].dtype.is_float());
            if step.origin.is_some() && !composed && floats {
                steps.insert(step.id, step.clone());
            }
        });
        let (origins, state) = (origins.clone(), Mutex::default());
        Arc::new(NanWatch { program, origins, steps, state })
    }

    pub(crate) fn hook(self: &Arc<NanWatch>) -> Hook {
        let watch = Arc::clone(self);
        Arc::new(move |moment| watch.look(moment))
    }

    /// The first NaN since the last call of this function.
    pub(crate) fn take_fault(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fault.take()
    }

    fn look(&self, moment: &Moment<'_>) {
        let Some(step) = self.steps.get(&moment.step) else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.fault.is_some() {
            return;
        }
        if !moment.done {
            // An operand without a place is a local value of a tile around the step.
            let operands = step.operands.iter().map(|&v| self.literal(moment, v)).collect();
            if let Some(operands) = operands {
                state.operands.insert(step.id, operands);
            }
            return;
        }
        let Some(operands) = state.operands.remove(&step.id) else { return };
        let mut results = step.results.iter().filter_map(|&v| self.literal(moment, v));
        if results.any(|literal| nan_in(&literal).is_some())
            && let Some(origin) = step.origin
        {
            state.fault = Some(first_op(&self.origins[origin], &operands));
        }
    }

    fn literal(&self, moment: &Moment<'_>, value: ValueId) -> Option<Literal> {
        let bytes = moment.bytes(value)?.to_vec();
        let value = &self.program.values[value];
        Some(Literal::dense(TensorType::new(value.shape.clone(), value.dtype), bytes))
    }
}

/// The position of the first NaN.
fn nan_in(literal: &Literal) -> Option<u64> {
    let dtype = literal.ty().dtype;
    if !dtype.part().is_float() {
        return None;
    }
    let is_nan = |bits: u64| match dtype.part() {
        DType::F64 => f64::from_bits(bits).is_nan(),
        _ => f32::from_bits(bits as u32).is_nan(),
    };
    (0..literal.ty().len())
        .find(|&at| (0..dtype.parts()).any(|part| is_nan(literal.bits(at, part))))
}

/// Says which op of a step makes the NaN: one that has none in its operands, or else the first
/// that is given one.
fn first_op(origin: &Function, operands: &[Literal]) -> String {
    let mut found: Option<(bool, OpId, u64)> = None;
    // What cannot be evaluated is told by the step's place alone.
    let _ = interpret::call_watched(origin, operands, &mut |_, id, operands, results| {
        let Some(at) = results.iter().find_map(nan_in) else { return Ok(()) };
        let makes = operands.iter().all(|operand| nan_in(operand).is_none());
        if found.is_none_or(|(other, ..)| makes && !other) {
            found = Some((makes, id, at));
        }
        Ok(())
    });
    let Some((makes, id, at)) = found else {
        return format!("nan: a step made a NaN{}", shown(&origin.location));
    };
    let data = &origin.ops[id];
    let ty = data.results.first().map_or_else(String::new, |&v| origin.ty(v).to_string());
    let place = shown(&data.location);
    let name = data.op.name();
    match makes {
        true => format!("nan: {name} made a NaN{place}: element {at} of {ty}"),
        false => {
            format!("nan: {name} was given a NaN{place}, which an argument of the program holds")
        }
    }
}

fn shown(location: &Location) -> String {
    location.place().map_or_else(String::new, |place| format!(" at {place}"))
}
