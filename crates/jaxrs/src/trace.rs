//! Tracing: running a Rust function once on traced arrays, which records what it does.
//!
//! Each thread has a stack of functions that are being made; operations are recorded in the
//! innermost one. An array from outside of it (concrete, or traced further out) that it uses is
//! *captured*: it becomes a parameter beside the function's own.

use crate::array::{Array, Value};
use crate::eager;
use crate::error::{Error, Place};
use crate::tree::{Path, Tree};
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{Function, Module, TensorType, ValueId, text};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function that is being made, or was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TraceId(u64);

struct Recording {
    id: TraceId,
    function: Function,
    captures: Vec<Array>,
    captured: FxHashMap<usize, ValueId>,
}

thread_local! {
    static STACK: RefCell<Vec<Recording>> = const { RefCell::new(Vec::new()) };
}

/// Whether a function is being traced on this thread.
pub(crate) fn is_tracing() -> bool {
    STACK.with_borrow(|stack| !stack.is_empty())
}

/// A function made from a closure.
pub(crate) struct Traced<R> {
    /// From the parameters, then the captures, to the arrays of the result.
    pub function: Function,
    /// The arrays from outside that it uses.
    pub captures: Vec<Array>,
    /// What the closure gave; of its arrays only the types have a meaning.
    pub result: R,
}

impl<R> Traced<R> {
    /// The captures after arguments.
    pub fn operands(&self, arguments: &[Array]) -> Vec<Array> {
        arguments.iter().chain(&self.captures).cloned().collect()
    }
}

/// Takes the innermost recording off the stack, also if the closure panics.
struct Guard(TraceId);

impl Guard {
    fn finish(self) -> Recording {
        let recording = STACK.with_borrow_mut(Vec::pop).expect("pushed by `trace`");
        assert_eq!(recording.id, self.0, "traces end in the order of their nesting");
        std::mem::forget(self);
        recording
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        STACK.with_borrow_mut(Vec::pop);
    }
}

/// Runs a closure on traced arrays of these types: the function that it stands for.
///
/// # Errors
/// The first error that an array of its result holds.
pub(crate) fn trace<R: Tree>(
    name: &str,
    parameters: &[TensorType],
    place: Place,
    closure: impl FnOnce(Vec<Array>) -> R,
) -> Result<Traced<R>, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = TraceId(NEXT.fetch_add(1, Ordering::Relaxed));
    let mut function = Function::new(name);
    function.location = place.location();
    let arguments = parameters
        .iter()
        .map(|ty| {
            let value = function.add_parameter(ty.clone());
            Array::new(ty.clone(), Value::Traced(id, value), place)
        })
        .collect();
    let recording =
        Recording { id, function, captures: Vec::new(), captured: FxHashMap::default() };
    STACK.with_borrow_mut(|stack| stack.push(recording));
    let guard = Guard(id);
    let result = closure(arguments);
    let mut yields = Vec::new();
    let mut error = None;
    result.visit(&Path::default(), &mut |_, array| match import(array, place) {
        Ok(value) => yields.push(value),
        Err(fault) => error = error.take().or(Some(fault)),
    });
    let mut recording = guard.finish();
    if let Some(error) = error {
        return Err(error);
    }
    let body = recording.function.body;
    recording.function.result_attributes = vec![Default::default(); yields.len()];
    recording.function.blocks[body].yields = yields;
    Ok(Traced { function: recording.function, captures: recording.captures, result })
}

/// The value of an array in the innermost function.
fn import(array: &Array, place: Place) -> Result<ValueId, Error> {
    STACK.with_borrow_mut(|stack| {
        let depth = stack.len() - 1;
        let known = match array.value() {
            Value::Failed(error) => return Err(error.clone()),
            Value::Traced(trace, value) if *trace == stack[depth].id => return Ok(*value),
            Value::Traced(trace, _) => stack.iter().any(|recording| recording.id == *trace),
            Value::Concrete(_) => true,
            Value::Shape => return Err(shape_only(array, place)),
        };
        if !known {
            return Err(ended(array, place));
        }
        let top = &mut stack[depth];
        let key = array.key();
        if let Some(&value) = top.captured.get(&key) {
            return Ok(value);
        }
        let value = top.function.add_parameter(array.ty().clone());
        top.captured.insert(key, value);
        top.captures.push(array.clone());
        Ok(value)
    })
}

pub(crate) fn shape_only(array: &Array, place: Place) -> Error {
    let message = format!("of this {} only the type is known", array.ty());
    Error::new(message, place).note(format!("it was made at {}", array.place()))
}

pub(crate) fn ended(array: &Array, place: Place) -> Error {
    let message = format!("a traced {} is used after its function was traced", array.ty());
    Error::new(message, place)
        .note(format!("it was made at {}", array.place()))
        .note("return it from the function instead of keeping it")
}

/// Records (or, outside of traced functions, runs) what `f` appends, on the values of operands:
/// its results. If `f` fails, or an operand holds an error, there are `results` arrays that hold it.
pub(crate) fn record(
    operands: &[&Array],
    results: usize,
    place: Place,
    f: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Vec<Array> {
    let failed = |error: Error| {
        let ty = operands
            .first()
            .map_or_else(|| TensorType::scalar(jaxrs_ir::DType::F32), |first| first.ty().clone());
        (0..results).map(|_| Array::failed(ty.clone(), error.clone())).collect()
    };
    if let Some(error) = operands.iter().find_map(|array| match array.value() {
        Value::Failed(error) => Some(error.clone()),
        _ => None,
    }) {
        return failed(error);
    }
    let made = if is_tracing() {
        append(operands, place, f)
    } else {
        build(operands, place, f).and_then(|function| eager::run(&function, operands, place))
    };
    made.unwrap_or_else(failed)
}

/// [`record`] of one result.
pub(crate) fn one(
    operands: &[&Array],
    place: Place,
    f: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<ValueId, String>,
) -> Array {
    let mut results = record(operands, 1, place, |b, values| Ok(vec![f(b, values)?]));
    results.pop().expect("one result was asked for")
}

/// An operation made of others, on arrays in place of the operands: recorded as its parts, or,
/// outside of traced functions, run as one.
pub(crate) fn composed(
    operands: &[&Array],
    results: usize,
    place: Place,
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> Vec<Array> {
    let operands: Vec<Array> = operands.iter().map(|&array| array.clone()).collect();
    if is_tracing() {
        return place.during(|| f(&operands));
    }
    let types: Vec<TensorType> = operands.iter().map(|array| array.ty().clone()).collect();
    let broken = operands.iter().find_map(|array| match array.value() {
        Value::Failed(error) => Some(error.clone()),
        _ => None,
    });
    let traced = match broken {
        Some(error) => Err(error),
        None => place.during(|| trace("main", &types, place, |arrays| f(&arrays))),
    };
    match traced {
        Ok(traced) => call(&traced.function, &traced.operands(&operands), place),
        Err(error) => {
            let ty = types.into_iter().next();
            let ty = ty.unwrap_or_else(|| TensorType::scalar(jaxrs_ir::DType::F32));
            (0..results).map(|_| Array::failed(ty.clone(), error.clone())).collect()
        }
    }
}

/// [`composed`] of one result.
pub(crate) fn whole(operands: &[&Array], place: Place, f: impl FnOnce(&[Array]) -> Array) -> Array {
    let mut results = composed(operands, 1, place, |arrays| vec![f(arrays)]);
    results.pop().expect("one result was asked for")
}

/// Inlines (or, outside of traced functions, runs) a function on arrays: its results. Arrays of
/// other types than its parameters', such as a tangent of another shape, are an error.
pub(crate) fn call(function: &Function, arguments: &[Array], place: Place) -> Vec<Array> {
    let arguments: Vec<&Array> = arguments.iter().collect();
    record(&arguments, function.results().len(), place, |b, values| {
        let parameters = function.parameters();
        if parameters.len() != values.len() {
            let (taken, given) = (parameters.len(), values.len());
            return Err(format!("{}: takes {taken} arrays, not {given}", function.name));
        }
        for (n, (&parameter, &value)) in parameters.iter().zip(values).enumerate() {
            let (taken, given) = (function.ty(parameter), b.function.ty(value));
            if taken != given {
                return Err(format!("{}: operand {n} must be {taken}, not {given}", function.name));
            }
        }
        Ok(b.inline(function, values))
    })
}

/// Appends to the innermost function.
fn append(
    operands: &[&Array],
    place: Place,
    f: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Result<Vec<Array>, Error> {
    let mut values = Vec::with_capacity(operands.len());
    for operand in operands {
        values.push(import(operand, place)?);
    }
    STACK.with_borrow_mut(|stack| {
        let top = stack.last_mut().expect("a function is being traced");
        let mut b = Builder::new(&mut top.function);
        b.location = place.location();
        let results = f(&mut b, &values).map_err(|message| fault(message, operands, place))?;
        let array = |&value: &ValueId| {
            let ty = top.function.ty(value).clone();
            Array::new(ty, Value::Traced(top.id, value), place)
        };
        Ok(results.iter().map(array).collect())
    })
}

/// A function of its own of what `f` appends.
fn build(
    operands: &[&Array],
    place: Place,
    f: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Result<Function, Error> {
    for array in operands {
        memory_of(array, place)?;
    }
    let mut function = Function::new("main");
    let values: Vec<ValueId> =
        operands.iter().map(|array| function.add_parameter(array.ty().clone())).collect();
    let mut b = Builder::new(&mut function);
    let yields = f(&mut b, &values).map_err(|message| fault(message, operands, place))?;
    let body = function.body;
    function.result_attributes = vec![Default::default(); yields.len()];
    function.blocks[body].yields = yields;
    Ok(function)
}

/// The elements' memory, or why there is none.
pub(crate) fn memory_of(array: &Array, place: Place) -> Result<&jaxrs_runtime::Buffer, Error> {
    match array.value() {
        Value::Concrete(buffer) => Ok(buffer),
        Value::Failed(error) => Err(error.clone()),
        Value::Traced(..) => Err(ended(array, place)),
        Value::Shape => Err(shape_only(array, place)),
    }
}

fn fault(message: String, operands: &[&Array], place: Place) -> Error {
    let mut error = Error::new(message, place);
    for (position, operand) in operands.iter().enumerate() {
        let (ty, made) = (operand.ty(), operand.place());
        error = error.note(format!("operand {position} is {ty}, made at {made}"));
    }
    error
}

/// The function without ops of the front end.
pub(crate) fn lowered(function: &Function, place: Place) -> Result<Function, Error> {
    jaxrs_ir::transform::lower(function).map_err(|error| Error::new(error.message, place))
}

/// The function as text, ops of the front end as they are.
pub(crate) fn as_text(function: &Function) -> String {
    text::print(&module(function.clone()))
}

/// A module of one function.
pub(crate) fn module(function: Function) -> Module {
    Module {
        name: format!("jit_{}", function.name),
        attributes: Default::default(),
        functions: vec![Function { name: "main".into(), ..function }],
    }
}
