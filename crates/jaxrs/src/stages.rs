//! The stages of a jitted function: lowered, compiled.

use crate::array::Array;
use crate::compile;
use crate::error::{Error, Place, Result};
use crate::invoke::{Frame, Leaf};
use crate::jit::{Entry, Output, Prepared};
use crate::trace;
use crate::tree::Tree;
use jaxrs_ir::{Attribute, DType, Function, Op, TensorType};
use jaxrs_plan::report::Report;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A function that was traced for one form of its arguments.
pub struct Lowered<R> {
    prepared: Prepared<R>,
}

impl<R: Tree> Lowered<R> {
    pub(crate) fn new(prepared: Prepared<R>) -> Lowered<R> {
        Lowered { prepared }
    }

    /// The function as StableHLO text; arrays that it captures are parameters after its own.
    pub fn as_text(&self) -> String {
        text_of(&self.prepared)
    }

    /// The function as a StableHLO module that other compilers read: donated arguments are marked as
    /// JAX marks them; arrays that the function captures are parameters after its own. What it
    /// prints is left out.
    ///
    /// # Errors
    /// If an op is left that has no StableHLO.
    #[track_caller]
    pub fn to_stablehlo(&self) -> Result<String> {
        let mut function = exported(&self.prepared, Place::here())?;
        for block in function.blocks.keys().collect::<Vec<_>>() {
            let mut ops = std::mem::take(&mut function.blocks[block].ops);
            ops.retain(|&op| !matches!(function.ops[op].op, Op::Print(_)));
            function.blocks[block].ops = ops;
        }
        Ok(trace::as_text(&function))
    }

    /// The arguments' types.
    pub fn argument_types(&self) -> Vec<TensorType> {
        let function = &self.prepared.0.function;
        function.parameters().iter().map(|&value| function.ty(value).clone()).collect()
    }

    /// Plans memory and makes native code.
    ///
    /// # Errors
    /// If the program cannot be compiled.
    #[track_caller]
    pub fn compile(self) -> Result<Compiled<R>> {
        let place = Place::here();
        self.prepared.0.compiled(place)?;
        Ok(Compiled { prepared: self.prepared, used: Mutex::new(None) })
    }
}

/// A compiled function.
pub struct Compiled<R> {
    prepared: Prepared<R>,
    /// What the last `call_into` left of donated arrays, and where it stands.
    used: Mutex<Option<(Place, Array)>>,
}

/// Where a program's bytes are. (XLA's names: arena is `temp`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAnalysis {
    /// Bytes of the arguments.
    pub argument_bytes: u64,
    /// Bytes of the results.
    pub output_bytes: u64,
    /// Bytes of results in donated arguments' memory.
    pub alias_bytes: u64,
    /// Bytes of intermediate values.
    pub arena_bytes: u64,
    /// Bytes of constants.
    pub constant_bytes: u64,
    /// argument + output - alias + arena + constant.
    pub peak_bytes: u64,
    /// The most bytes of intermediate values that are live at once: no arena can be smaller.
    pub lower_bound_bytes: u64,
}

/// What a program computes and moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostAnalysis {
    /// Additions, multiplications and other operations on elements.
    pub flops: u64,
    /// Bytes that operations read and write before any fusion.
    pub bytes_accessed: u64,
}

impl<R: Tree> Compiled<R> {
    /// The arguments' types.
    pub fn argument_types(&self) -> &[TensorType] {
        let all = self.compiled().parameter_types();
        &all[..all.len() - self.prepared.0.captures.len()]
    }

    pub(crate) fn ready(entry: Entry<R>) -> Compiled<R> {
        Compiled { prepared: Prepared(Arc::new(entry)), used: Mutex::new(None) }
    }

    fn compiled(&self) -> &compile::Compiled {
        self.prepared.0.compiled(Place::here()).expect("compiled when it was made")
    }

    /// The memory plan; displays as `jaxrs-compile plan` does.
    pub fn memory_plan(&self) -> MemoryPlan {
        MemoryPlan(self.compiled().report(&self.prepared.0.function.name))
    }

    /// Where the program's bytes are.
    pub fn memory_analysis(&self) -> MemoryAnalysis {
        let report = self.memory_plan().0;
        MemoryAnalysis {
            argument_bytes: report.argument_bytes,
            output_bytes: report.output_bytes,
            alias_bytes: report.alias_bytes,
            arena_bytes: report.arena_bytes,
            constant_bytes: report.constant_bytes,
            peak_bytes: report.peak_bytes(),
            lower_bound_bytes: report.lower_bound_bytes,
        }
    }

    /// What the program computes and moves.
    pub fn cost_analysis(&self) -> CostAnalysis {
        let (flops, bytes_accessed) = jaxrs_ir::cost::of(&self.prepared.0.function);
        CostAnalysis { flops, bytes_accessed }
    }

    /// The function as StableHLO text.
    pub fn as_text(&self) -> String {
        text_of(&self.prepared)
    }

    /// Calls the program with its arguments as one tree, e.g. a tuple: its result. Of donated
    /// arguments the memory is reused if there is no other handle to it.
    ///
    /// # Errors
    /// If the arguments' types differ from those that the function was lowered for, an array is
    /// donated and passed twice, or there is no memory. Nothing is consumed then, and the error has
    /// the donated arrays ([`Error::take_donated`]).
    #[track_caller]
    pub fn call<A: Tree>(&self, arguments: A) -> Result<R> {
        let place = Place::here();
        if trace::is_tracing() {
            return self.inline(arguments, place);
        }
        let mut frame = Frame::take();
        arguments.into_leaves(&mut frame.passing);
        for (position, array) in frame.passing.drain(..).enumerate() {
            let donated = self.is_donated(position);
            frame.leaves.push(Leaf::new(array, donated, "", position));
        }
        let entry = &self.prepared.0;
        let result = match self.run(&mut frame, place) {
            Ok(()) => {
                let mut results = frame.results.drain(..);
                Ok(entry.result.map(|_| results.next().expect("an array for each leaf")))
            }
            Err(error) => Err(frame.keep(error)),
        };
        frame.give_back();
        result
    }

    /// A call while a function is traced becomes part of that function.
    fn inline<A: Tree>(&self, arguments: A, place: Place) -> Result<R> {
        let entry = &self.prepared.0;
        let mut frame = Frame::default();
        arguments.into_leaves(&mut frame.passing);
        let arrays = frame.passing.drain(..).enumerate();
        frame.leaves.extend(arrays.map(|(n, array)| Leaf::new(array, false, "", n)));
        frame.check(&entry.function.name, place)?;
        frame.check_types(self.argument_types(), place)?;
        let leaves = frame.leaves.into_iter().map(|leaf| leaf.array);
        let arrays: Vec<Array> = leaves.chain(entry.captures.iter().cloned()).collect();
        let mut results = trace::call(&entry.function, &arrays, place).into_iter();
        Ok(entry.result.map(|_| results.next().expect("an array for each leaf")))
    }

    /// Calls the program into given results: in a steady state, nothing is allocated on the heap.
    ///
    /// `results` is of the form that the program gives, e.g. what [`Compiled::call`] gave. A result
    /// without a donor is written to the memory of the array in its place, unless another handle
    /// to that is alive. A donated argument's memory becomes its result's, and the array itself, in
    /// `arguments`, is used up: what reads it gets an error that names this call. So a loop swaps
    /// state and results:
    ///
    /// ```
    /// # use jaxrs::prelude::*;
    /// #[jit(donate = [state])]
    /// fn step(state: Array, by: &Array) -> (Array, Array) {
    ///     let next = &state + by;
    ///     let sum = next.sum(..);
    ///     (next, sum)
    /// }
    /// let mut arguments = (Array::zeros([3]), Array::ones([3]));
    /// let compiled = step::lower(&arguments.0, &arguments.1)?.compile()?;
    /// let mut results = (Array::zeros([3]), Array::zeros([0u64; 0]));
    /// for _ in 0..10 {
    ///     compiled.call_into(&mut arguments, &mut results)?;
    ///     std::mem::swap(&mut arguments.0, &mut results.0);
    /// }
    /// assert_eq!(results.1.item::<f32>()?, 30.0);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Compiled::call`]; then `arguments` are as they were, and so are the results, or they hold
    /// the error.
    #[track_caller]
    pub fn call_into<A: Tree>(&self, arguments: &mut A, results: &mut R) -> Result<()> {
        let place = Place::here();
        let mut frame = Frame::take();
        let mut position = 0;
        arguments.visit_mut(&mut |array| {
            let donated = self.is_donated(position);
            let given = match donated {
                true => std::mem::replace(array, Array::hollow()),
                false => array.clone(),
            };
            frame.leaves.push(Leaf::new(given, donated, "", position));
            position += 1;
        });
        let outcome = self.run_into(&mut frame, results, place);
        let mut leaves = frame.leaves.drain(..);
        let mut position = 0;
        arguments.visit_mut(&mut |array| {
            let leaf = leaves.next().expect("one for each array, as above");
            if self.is_donated(position) {
                // A call that has run and then failed has taken the donation back.
                let used = outcome.is_ok() || !leaf.donated;
                *array = if used { self.used(place) } else { leaf.array };
            }
            position += 1;
        });
        drop(leaves);
        frame.give_back();
        outcome
    }

    fn run_into(&self, frame: &mut Frame, results: &mut R, place: Place) -> Result<()> {
        let interface = self.compiled().interface();
        let mut infos = interface.results.iter();
        let mut given = 0;
        results.visit_mut(&mut |array| {
            given += 1;
            if infos.next().is_some_and(|info| info.donor().is_none()) {
                frame.results.push(std::mem::replace(array, Array::hollow()));
            }
        });
        let expected = interface.results.len();
        let mut outcome = match given == expected {
            true => self.run(frame, place),
            false => {
                let message = format!("{given} arrays for results, the program gives {expected}");
                Err(Error::new(message, place))
            }
        };
        if let Err(error) = &mut outcome {
            // The arguments stay with the caller.
            drop(error.take_donated());
        }
        let ran = outcome.is_ok();
        let (mut made, mut infos) = (frame.results.drain(..), interface.results.iter());
        results.visit_mut(&mut |array| {
            let fresh = infos.next().is_some_and(|info| info.donor().is_none());
            if ran || fresh {
                *array = made.next().expect("as many as were taken, or as there are results");
            }
            if let Err(error) = &outcome
                && array.buffer().is_some_and(|buffer| buffer.len() as u64 != array.ty().bytes())
            {
                // Its memory was shared, and there is none of its own yet.
                *array = Array::failed(array.ty().clone(), error.clone());
            }
        });
        drop(made);
        outcome
    }

    fn is_donated(&self, position: usize) -> bool {
        self.prepared.0.donated.binary_search(&(position as u32)).is_ok()
    }

    fn run(&self, frame: &mut Frame, place: Place) -> Result<()> {
        let (entry, compiled) = (&self.prepared.0, self.compiled());
        let name = &entry.function.name;
        frame.check(name, place)?;
        frame.check_types(self.argument_types(), place)?;
        frame.run(compiled, &entry.captures, entry.strict, name, place)?;
        Ok(())
    }

    /// What stands in the place of a donated array after a call.
    fn used(&self, place: Place) -> Array {
        let mut last = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, array)) = &*last
            && *at == place
        {
            return array.clone();
        }
        let name = &self.prepared.0.function.name;
        let message = format!("this array was donated to `{name}`, which used it up");
        let error = Error::new(message, place).note("donate a copy to keep it: array.copy()");
        error.seen();
        let array = Array::failed(TensorType::scalar(DType::F32), error);
        *last = Some((place, array.clone()));
        array
    }
}

/// The function as text; an error is a comment.
fn text_of<R>(prepared: &Prepared<R>) -> String {
    match exported(prepared, Place::here()) {
        Ok(function) => trace::as_text(&function),
        Err(error) => format!("// {}\n", error.message()),
    }
}

/// The function without ops of transforms; donated arguments are marked as JAX marks them.
fn exported<R>(prepared: &Prepared<R>, place: Place) -> Result<Function> {
    let entry = &prepared.0;
    let mut function = trace::lowered(&entry.function, place)?;
    for &donated in &entry.donated {
        let attributes = &mut function.parameter_attributes[donated as usize];
        let marks = ["jax.buffer_donor", "tf.aliasing_output"];
        if marks.iter().all(|mark| attributes.get(mark).is_none()) {
            *attributes = std::mem::take(attributes).with(marks[0], Attribute::Bool(true));
        }
    }
    Ok(function)
}

/// A memory plan.
pub struct MemoryPlan(Report);

impl MemoryPlan {
    /// The plan as a page for the browser.
    pub fn html(&self) -> String {
        self.0.html()
    }

    /// The plan as JSON.
    pub fn json(&self) -> String {
        self.0.json()
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text(false))
    }
}

/// The types of a function's results, without running it: arrays of shapes alone
/// ([`Array::shape_only`]).
///
/// # Errors
/// The first error that a result holds.
#[track_caller]
pub fn eval_shape<A: Tree, O: Output>(f: impl FnOnce(&A) -> O, argument: &A) -> Result<O::Tree> {
    let place = Place::here();
    let mut types = Vec::new();
    argument.visit(&Default::default(), &mut |_, array| types.push(array.ty().clone()));
    let mut error = None;
    let traced = trace::trace("eval_shape", &types, place, |arrays| {
        let mut arrays = arrays.into_iter();
        let argument = argument.map(|_| arrays.next().expect("a parameter for each leaf"));
        match f(&argument).into_result() {
            Ok(tree) => Some(tree),
            Err(fault) => {
                error = Some(fault);
                None
            }
        }
    })?;
    match (traced.result, error) {
        (Some(tree), _) => Ok(tree.map(|array| Array::shape_only(array.shape(), array.dtype()))),
        (None, error) => Err(error.expect("given with None")),
    }
}
