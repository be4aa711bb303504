//! Calling an executable, with donation.

use crate::arena::ArenaPool;
use crate::buffer::{Buffer, OutOfMemory};
use crate::executable::{Executable, ResultInfo};
use std::cell::Cell;
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
    /// An argument that the program writes to was lent to be read only.
    #[error("{name}: argument {index} is donated, so the call must be given it whole")]
    Shared {
        /// The program.
        name: String,
        /// The argument.
        index: usize,
    },
    /// Too few buffers for results.
    #[error("{name} needs {expected} buffers for results, not {given}")]
    Outputs {
        /// The program.
        name: String,
        /// Results without a donor.
        expected: usize,
        /// Buffers given.
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
    let mut copied_bytes = 0;
    let mut owned: Vec<Result<Buffer, &Buffer>> = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.into_iter().enumerate() {
        owned.push(match argument {
            Argument::Donated(buffer) => Ok(buffer),
            Argument::Borrowed(buffer) => {
                match interface.arguments.get(index).is_some_and(|info| info.donated) {
                    true => {
                        copied_bytes += buffer.len();
                        Ok(Buffer::from_bytes(buffer.as_bytes())?)
                    }
                    false => Err(buffer),
                }
            }
        });
    }
    let mut fresh: Vec<Buffer> = interface.fresh().map(|_| Buffer::empty()).collect();
    let lent = owned.iter_mut().map(|argument| match argument {
        Ok(buffer) => Lent::Write(buffer),
        Err(buffer) => Lent::Read(buffer),
    });
    let report = call_into(executable, lent, fresh.iter_mut())?;
    let mut fresh = fresh.into_iter();
    let result = |info: &ResultInfo| match info.donor() {
        None => fresh.next().expect("one for each result without a donor"),
        Some(argument) => std::mem::replace(&mut owned[argument], Ok(Buffer::empty()))
            .expect("the program may write to a donor"),
    };
    let results = interface.results.iter().map(result).collect();
    Ok((results, CallReport { copied_bytes, ..report }))
}

/// What a call is lent for an argument.
pub enum Lent<'a> {
    /// To be read only.
    Read(&'a Buffer),
    /// To be used up: after the call it holds the result that has its memory, if one has, else
    /// nothing of meaning.
    Write(&'a mut Buffer),
}

/// Lists of a call, kept by each thread: calls in a steady state allocate nothing.
#[derive(Default)]
struct Lists {
    arguments: Vec<*mut u8>,
    donors: Vec<*mut Buffer>,
    outputs: Vec<*mut u8>,
    fresh: Vec<*mut Buffer>,
}

thread_local! {
    static LISTS: Cell<Lists> = const { Cell::new(Lists::new()) };
}

impl Lists {
    const fn new() -> Lists {
        Lists { arguments: Vec::new(), donors: Vec::new(), outputs: Vec::new(), fresh: Vec::new() }
    }

    fn clear(&mut self) {
        self.arguments.clear();
        self.donors.clear();
        self.outputs.clear();
        self.fresh.clear();
    }
}

/// Runs an executable on lent memory. `outputs` are buffers for the results that have no donor
/// ([`Interface::fresh`](crate::Interface::fresh)), in order: what memory they have is used if it is large enough.
///
/// # Errors
/// If the arguments do not fit the program, or there is no memory; then nothing has run, the
/// arguments are as they were, and outputs may be empty.
pub fn call_into<'a>(
    executable: &dyn Executable,
    arguments: impl Iterator<Item = Lent<'a>>,
    outputs: impl Iterator<Item = &'a mut Buffer>,
) -> Result<CallReport, CallError> {
    let mut lists = LISTS.take();
    lists.clear();
    let outcome = call_with(executable, arguments, outputs, &mut lists);
    LISTS.set(lists);
    outcome
}

fn call_with<'a>(
    executable: &dyn Executable,
    arguments: impl Iterator<Item = Lent<'a>>,
    mut outputs: impl Iterator<Item = &'a mut Buffer>,
    lists: &mut Lists,
) -> Result<CallReport, CallError> {
    let interface = executable.interface();
    let name = || interface.name.clone();
    let mut given = 0;
    for argument in arguments {
        given += 1;
        let Some(info) = interface.arguments.get(given - 1) else { continue };
        let index = given - 1;
        let (start, size, donor): (_, _, *mut Buffer) = match argument {
            Lent::Read(_) if info.donated => {
                return Err(CallError::Shared { name: name(), index });
            }
            Lent::Read(buffer) => (buffer.as_ptr(), buffer.len(), std::ptr::null_mut()),
            Lent::Write(buffer) => (buffer.as_ptr(), buffer.len(), buffer),
        };
        let expected = info.tensor.bytes();
        if size != expected {
            return Err(CallError::Size { name: name(), index, expected, given: size });
        }
        lists.arguments.push(start);
        lists.donors.push(donor);
    }
    if given != interface.arguments.len() {
        let expected = interface.arguments.len();
        return Err(CallError::Arguments { name: name(), expected, given });
    }
    for info in &interface.results {
        if info.donor().is_some() {
            lists.outputs.push(std::ptr::null_mut());
            continue;
        }
        let Some(buffer) = outputs.next() else {
            let expected = interface.fresh().count();
            return Err(CallError::Outputs { name: name(), expected, given: lists.fresh.len() });
        };
        buffer.reserve(info.tensor.bytes())?;
        lists.outputs.push(buffer.as_ptr());
        lists.fresh.push(buffer);
    }
    let arena = ArenaPool::global().borrow(interface.arena.0 as usize)?;
    // SAFETY: all sizes were checked or chosen above, every block is aligned to 64 and a multiple
    // of it long; outputs and donated arguments are lent exclusively and the arena is borrowed,
    // the other arguments are lent and, by the plan, not written.
    unsafe { executable.run(&lists.arguments, &lists.outputs, arena.as_ptr()) };
    let mut report = CallReport::default();
    let mut fresh = lists.fresh.iter();
    for info in &interface.results {
        let bytes = info.tensor.bytes();
        let buffer = match info.donor() {
            None => *fresh.next().expect("pushed above"),
            Some(argument) => {
                report.aliased_results += 1;
                report.aliased_bytes += bytes;
                lists.donors[argument]
            }
        };
        // SAFETY: made above from a reference that is exclusive for longer than this call; a donor
        // is an argument that the program wants donated, so it is not null.
        unsafe { (*buffer).set_len(bytes) };
    }
    Ok(report)
}
