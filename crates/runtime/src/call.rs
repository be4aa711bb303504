//! Calling an executable, with donation.

use crate::arena::ArenaPool;
use crate::buffer::{Buffer, OutOfMemory};
use crate::executable::Executable;
use jaxrs_plan::Region;
use thiserror::Error;

/// What a call is given for an argument.
pub enum Argument<'a> {
    /// To be read only. Where the program wants a donation, a copy is made.
    Borrowed(&'a Buffer),
    /// To be used up: its memory becomes a result or holds intermediate values.
    Donated(Buffer),
}

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// A wrong number of arguments.
    #[error("{name} takes {expected} arguments, not {given}")]
    Arguments {
        /// The program.
        name: String,
        /// What it takes.
        expected: usize,
        /// What it was given.
        given: usize,
    },
    /// An argument of a wrong size.
    #[error("{name}: argument {index} has {given} bytes, its type {expected}")]
    Size {
        /// The program.
        name: String,
        /// The argument.
        index: usize,
        /// Bytes of its type.
        expected: usize,
        /// Bytes of the buffer.
        given: usize,
    },
    /// No memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

/// What a call did besides computing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallReport {
    /// Bytes of arguments that were copied because the program wants them donated.
    pub copied_bytes: usize,
    /// Results that took over a donated argument's memory.
    pub aliased_results: usize,
    /// Bytes of these results.
    pub aliased_bytes: usize,
}

/// Runs an executable: the results, in order.
///
/// # Errors
/// If the arguments do not fit the program, or there is no memory; then nothing has run.
pub fn call(
    executable: &dyn Executable,
    arguments: Vec<Argument<'_>>,
) -> Result<(Vec<Buffer>, CallReport), CallError> {
    let interface = executable.interface();
    let name = || interface.name.clone();
    if arguments.len() != interface.arguments.len() {
        let (expected, given) = (interface.arguments.len(), arguments.len());
        return Err(CallError::Arguments { name: name(), expected, given });
    }
    let mut report = CallReport::default();
    let mut owned: Vec<Option<Buffer>> = Vec::with_capacity(arguments.len());
    let mut pointers = Vec::with_capacity(arguments.len());
    for (index, (argument, info)) in arguments.into_iter().zip(&interface.arguments).enumerate() {
        let (given, expected) = match &argument {
            Argument::Borrowed(buffer) => (buffer.len(), info.tensor.bytes()),
            Argument::Donated(buffer) => (buffer.len(), info.tensor.bytes()),
        };
        if given != expected {
            return Err(CallError::Size { name: name(), index, expected, given });
        }
        let buffer = match argument {
            Argument::Borrowed(buffer) if !info.donated => {
                pointers.push(buffer.as_ptr());
                owned.push(None);
                continue;
            }
            Argument::Borrowed(buffer) => {
                report.copied_bytes += buffer.len();
                Buffer::from_bytes(buffer.as_bytes())?
            }
            Argument::Donated(buffer) => buffer,
        };
        pointers.push(buffer.as_ptr());
        owned.push(Some(buffer));
    }
    let mut results: Vec<Option<Buffer>> = Vec::with_capacity(interface.results.len());
    let mut outputs = Vec::with_capacity(interface.results.len());
    for info in &interface.results {
        match info.region {
            Region::Argument(_) => {
                outputs.push(std::ptr::null_mut());
                results.push(None);
            }
            Region::Output(_) | Region::Arena | Region::Constant(_) => {
                let buffer = Buffer::uninitialized(info.tensor.bytes())?;
                outputs.push(buffer.as_ptr());
                results.push(Some(buffer));
            }
        }
    }
    let arena = ArenaPool::global().borrow(interface.arena.0 as usize)?;
    // SAFETY: all sizes were checked or chosen above, every block is aligned to 64 and a multiple
    // of it long; outputs and the arena are fresh, donated arguments owned, the others borrowed
    // and, by the plan, not written.
    unsafe { executable.run(&pointers, &outputs, arena.as_ptr()) };
    let results = results
        .into_iter()
        .zip(&interface.results)
        .map(|(result, info)| match (result, info.region) {
            (Some(buffer), _) => buffer,
            (None, Region::Argument(argument)) => {
                let mut buffer =
                    owned[argument as usize].take().expect("a donor gives to one result");
                buffer.set_len(info.tensor.bytes());
                report.aliased_results += 1;
                report.aliased_bytes += info.tensor.bytes();
                buffer
            }
            (None, _) => unreachable!("allocated above"),
        })
        .collect();
    Ok((results, report))
}
