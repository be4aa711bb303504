//! The stages of a jitted function: lowered, compiled.

use crate::array::Array;
use crate::compile;
use crate::error::{Error, Place, Result};
use crate::jit::{Output, Prepared};
use crate::trace;
use crate::tree::Tree;
use jaxrs_ir::TensorType;
use jaxrs_plan::report::Report;
use jaxrs_runtime::Argument;
use std::fmt;

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
        Ok(Compiled { prepared: self.prepared })
    }
}

/// A compiled function.
pub struct Compiled<R> {
    prepared: Prepared<R>,
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
    /// If the arguments' types differ from those that the function was lowered for.
    #[track_caller]
    pub fn call<A: Tree>(&self, arguments: A) -> Result<R> {
        let place = Place::here();
        let (entry, compiled) = (&self.prepared.0, self.compiled());
        let mut leaves = Vec::new();
        arguments.into_leaves(&mut leaves);
        check_types(
            &leaves,
            &compiled.parameter_types()[..compiled.parameter_types().len() - entry.captures.len()],
            place,
        )?;
        let mut owned: Vec<std::result::Result<_, Array>> = Vec::with_capacity(leaves.len());
        for (position, leaf) in leaves.into_iter().enumerate() {
            owned.push(match entry.donated.contains(&(position as u32)) {
                true => leaf.into_buffer(),
                false => Err(leaf),
            });
        }
        let mut given = Vec::with_capacity(owned.len() + entry.captures.len());
        let mut kept = Vec::new();
        let mut order = Vec::new();
        for slot in owned {
            match slot {
                Ok(buffer) => order.push(Some(buffer)),
                Err(array) => {
                    kept.push(array);
                    order.push(None);
                }
            }
        }
        let mut borrowed = kept.iter();
        for slot in order {
            given.push(match slot {
                Some(buffer) => Argument::Donated(buffer),
                None => {
                    let array = borrowed.next().expect("one for each empty slot");
                    Argument::Borrowed(trace::memory_of(array, place)?)
                }
            });
        }
        for array in &entry.captures {
            given.push(Argument::Borrowed(trace::memory_of(array, place)?));
        }
        let (results, _) =
            compiled.call(given).map_err(|error| Error::new(error.to_string(), place))?;
        let mut arrays = results
            .into_iter()
            .zip(compiled.result_types())
            .map(|(buffer, ty)| Array::concrete(ty.clone(), buffer, place));
        Ok(entry.result.map(|_| arrays.next().expect("an array for each leaf")))
    }
}

/// The function as StableHLO text; donated arguments are marked as JAX marks them.
fn text_of<R>(prepared: &Prepared<R>) -> String {
    let entry = &prepared.0;
    let mut function = match trace::lowered(&entry.function, Place::here()) {
        Ok(function) => function,
        Err(error) => return format!("// {}\n", error.message()),
    };
    for &donated in &entry.donated {
        let attributes = &mut function.parameter_attributes[donated as usize];
        *attributes =
            std::mem::take(attributes).with("jax.buffer_donor", jaxrs_ir::Attribute::Bool(true));
    }
    trace::as_text(&function)
}

fn check_types(leaves: &[Array], expected: &[TensorType], place: Place) -> Result<()> {
    if leaves.len() != expected.len() {
        let (given, taken) = (leaves.len(), expected.len());
        let message = format!("the program takes {taken} arrays, {given} were given");
        return Err(Error::new(message, place));
    }
    for (position, (leaf, ty)) in leaves.iter().zip(expected).enumerate() {
        if leaf.ty() != ty {
            let message = format!("array {position} is {}, the program takes {ty}", leaf.ty());
            return Err(Error::new(message, place).note("lower the function for this form"));
        }
    }
    Ok(())
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
