//! Calls of compiled functions on arrays: what `#[jit]`, [`crate::Compiled::call`] and
//! [`crate::Compiled::call_into`] have in common.
//!
//! The lists that a call needs are kept by its thread, so that calls in a steady state allocate
//! nothing.

use crate::array::{Array, Value};
use crate::compile::{Compiled, RunError};
use crate::error::{Error, Place, Result};
use crate::trace;
use crate::tree::Structure;
use jaxrs_ir::TensorType;
use jaxrs_runtime::Lent;
use std::cell::RefCell;

/// An array that a call is given.
pub(crate) struct Leaf {
    pub array: Array,
    pub donated: bool,
    /// The argument, and which of its arrays.
    pub name: &'static str,
    pub position: usize,
    /// Whether the array is the call's own copy of what was given.
    copied: bool,
}

impl Leaf {
    pub fn new(array: Array, donated: bool, name: &'static str, position: usize) -> Leaf {
        Leaf { array, donated, name, position, copied: false }
    }

    /// For people.
    fn shown(&self) -> String {
        match self.name {
            "" => format!("array {}", self.position),
            name => format!("array {} of `{name}`", self.position),
        }
    }
}

/// What a call is made of.
#[derive(Default)]
pub(crate) struct Frame {
    pub leaves: Vec<Leaf>,
    pub structure: Structure,
    /// Arrays on their way into or out of `leaves`.
    pub passing: Vec<Array>,
    /// Before the call: arrays whose memory results without a donor may take, in order. After it:
    /// the results.
    pub results: Vec<Array>,
    identities: Vec<(usize, usize)>,
}

/// What a call did with donated arguments.
#[derive(Clone, Copy, Default)]
pub(crate) struct Donation {
    pub reused_bytes: u64,
    pub copied_bytes: u64,
}

thread_local! {
    static SPARE: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

impl Frame {
    /// An empty frame.
    pub fn take() -> Frame {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Keeps its memory for the next call.
    pub fn give_back(mut self) {
        self.leaves.clear();
        self.structure.clear();
        self.passing.clear();
        self.results.clear();
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().push(self));
    }

    /// Errors before anything is consumed: an argument that holds one, or an array that is donated
    /// and passed once more.
    pub fn check(&mut self, function: &str, place: Place) -> Result<()> {
        for leaf in &self.leaves {
            if let Value::Failed(error) = leaf.array.value() {
                error.seen();
                return Err(error.clone());
            }
        }
        if !self.leaves.iter().any(|leaf| leaf.donated) {
            return Ok(());
        }
        self.identities.clear();
        let identities = self.leaves.iter().enumerate().map(|(n, l)| (l.array.key(), n));
        self.identities.extend(identities);
        self.identities.sort_unstable();
        // Equal ones stand together.
        for group in self.identities.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            let mut all = group.iter().map(|&(_, n)| &self.leaves[n]);
            let Some(donated) = all.clone().find(|leaf| leaf.donated) else { continue };
            let other = all.find(|leaf| !std::ptr::eq(*leaf, donated)).expect("two at least");
            let how = if other.donated { "donated twice" } else { "donated and also read" };
            let (first, second) = (donated.shown(), other.shown());
            let message = format!("{function}: one array is {how}, as {first} and as {second}");
            return Err(
                Error::new(message, place).note("nothing was consumed; pass a copy: array.copy()")
            );
        }
        Ok(())
    }

    /// An error unless the arrays are of these types.
    pub fn check_types(&self, expected: &[TensorType], place: Place) -> Result<()> {
        if self.leaves.len() != expected.len() {
            let (given, taken) = (self.leaves.len(), expected.len());
            let message = format!("the program takes {taken} arrays, {given} were given");
            return Err(Error::new(message, place));
        }
        for (position, (leaf, ty)) in self.leaves.iter().zip(expected).enumerate() {
            if leaf.array.ty() != ty {
                let found = leaf.array.ty();
                let message = format!("array {position} is {found}, the program takes {ty}");
                return Err(Error::new(message, place).note("lower the function for this form"));
            }
        }
        Ok(())
    }

    /// The error, which keeps the arrays that the call was to use up.
    pub fn keep(&self, error: Error) -> Error {
        let donated = self.leaves.iter().filter(|leaf| leaf.donated);
        error.keep(donated.map(|leaf| leaf.array.clone()).collect())
    }

    /// Runs a program: `results` are its results then. A call that fails has consumed nothing,
    /// unless its error says so.
    pub fn run(
        &mut self,
        compiled: &Compiled,
        captures: &[Array],
        strict: bool,
        function: &str,
        place: Place,
    ) -> Result<Donation> {
        let mut donation = Donation::default();
        for array in self.leaves.iter().map(|leaf| &leaf.array).chain(captures) {
            trace::memory_of(array, place)?;
        }
        let mut shared = self.leaves.iter_mut().filter(|l| l.donated && !l.array.is_unique());
        if strict && let Some(shared) = shared.next() {
            let message =
                format!("{function}: {} is donated, but has other handles", shared.shown());
            return Err(Error::new(message, place)
                .note("nothing was consumed; drop the clones, or do without strict"));
        }
        let failed = |error: String| Error::new(error, place);
        for leaf in shared {
            let copy = leaf.array.duplicate(place).map_err(|error| failed(error.to_string()))?;
            (leaf.array, leaf.copied) = (copy, true);
            donation.copied_bytes += leaf.array.ty().bytes();
        }
        let (interface, types) = (compiled.interface(), compiled.result_types());
        let fresh = || {
            let all = interface.results.iter().zip(types);
            all.filter(|(info, _)| info.donor().is_none()).map(|(_, ty)| ty)
        };
        for (position, ty) in fresh().enumerate() {
            match self.results.get_mut(position) {
                None => self.results.push(Array::blank(ty, place)),
                Some(given) => {
                    if given.ty() != ty || given.buffer_mut().is_none() {
                        *given = Array::blank(ty, place);
                    }
                }
            }
        }
        let lent = self.leaves.iter_mut().map(|leaf| match leaf.donated {
            true => Lent::Write(leaf.array.buffer_mut().expect("unique, or copied above")),
            false => Lent::Read(leaf.array.buffer().expect("checked above")),
        });
        let read = captures.iter().map(|array| Lent::Read(array.buffer().expect("checked above")));
        let outputs = self.results.iter_mut();
        let outputs = outputs.map(|array| array.buffer_mut().expect("unique, or made above"));
        compiled.call_into(lent.chain(read), outputs).map_err(|error| match error {
            RunError::Call(message) => failed(message),
            RunError::Check(message) => {
                self.leaves.iter_mut().for_each(|leaf| leaf.donated = false);
                failed(message).note("the call has run: donated arguments are used up")
            }
        })?;
        let mut made = std::mem::take(&mut self.passing);
        made.append(&mut self.results);
        let mut made_in_order = made.drain(..);
        for (info, ty) in interface.results.iter().zip(types) {
            self.results.push(match info.donor() {
                None => {
                    let mut array = made_in_order.next().expect("one for each without a donor");
                    array.became(ty, place);
                    array
                }
                Some(argument) => {
                    let leaf = &mut self.leaves[argument];
                    let mut array = std::mem::replace(&mut leaf.array, Array::hollow());
                    array.became(ty, place);
                    if !leaf.copied {
                        donation.reused_bytes += ty.bytes();
                    }
                    array
                }
            });
        }
        drop(made_in_order);
        self.passing = made;
        Ok(donation)
    }
}
