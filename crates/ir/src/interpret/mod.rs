//! The reference semantics: plain, slow, obviously right.
//!
//! Elementwise ops run their scalar body (see [`crate::ops::elementwise`]); every other op is
//! evaluated element by element in its own file. Reductions combine in row-major order.
//!
//! A value is dropped after its last use, so that memory stays near what is live.

mod layout;
mod liveness;
mod region;
mod walk;

pub use layout::{rearrange, start_index, strided};
pub use region::{ScalarRegion, is_closed};
pub use walk::{Walk, positions};

use crate::error::{Error, Location};
use crate::function::{BlockId, Function, Module, OpId, ValueId};
use crate::literal::Literal;
use crate::ops::{Op, OpView};
use crate::types::TensorType;
use cranelift_entity::SecondaryMap;
use liveness::LastUses;
use std::rc::Rc;

/// A function being interpreted: its values so far, and the module for calls.
pub struct Frame<'a> {
    /// The module, if the function may call others.
    pub module: Option<&'a Module>,
    /// The function.
    pub function: &'a Function,
    values: SecondaryMap<ValueId, Option<Literal>>,
    last_uses: SecondaryMap<BlockId, Option<Rc<LastUses>>>,
    /// The innermost fault, whose place is more exact than that of the op that passes it on.
    fault: Option<Error>,
    depth: u32,
}

/// Deeper calls than this are taken for endless recursion.
const MAX_DEPTH: u32 = 100;

/// Larger tensors than this are not written out.
const MAX_BYTES: u64 = 1 << 33;

/// The results of a function for arguments of its parameters' types.
pub fn call(
    module: Option<&Module>,
    function: &Function,
    arguments: &[Literal],
) -> Result<Vec<Literal>, Error> {
    let mut frame = Frame::new(module, function, 0);
    frame.check_arguments(arguments).map_err(|m| Error::new(m, &function.location))?;
    frame.run(function.body, arguments)
}

/// Sees an op of a function after it was evaluated: the frame, the op, its operands and results.
pub type Watch<'w> =
    dyn FnMut(&mut Frame<'_>, OpId, &[Literal], &[Literal]) -> Result<(), Error> + 'w;

/// [`call`] with a look at each op outside regions.
pub fn call_watched(
    function: &Function,
    arguments: &[Literal],
    watch: &mut Watch<'_>,
) -> Result<Vec<Literal>, Error> {
    let mut frame = Frame::new(None, function, 0);
    frame.check_arguments(arguments).map_err(|m| Error::new(m, &function.location))?;
    frame.run_watched(function.body, arguments, watch)
}

impl<'a> Frame<'a> {
    pub(crate) fn new(module: Option<&'a Module>, function: &'a Function, depth: u32) -> Frame<'a> {
        Frame {
            module,
            function,
            values: SecondaryMap::new(),
            last_uses: SecondaryMap::new(),
            fault: None,
            depth,
        }
    }

    /// The value, if it has been computed and is still used.
    pub fn value(&self, value: ValueId) -> Option<&Literal> {
        self.values.get(value)?.as_ref()
    }

    /// The yields of a region for arguments; values of the enclosing blocks are visible.
    pub fn region(
        &mut self,
        block: BlockId,
        arguments: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let results = self.run(block, arguments);
        self.pass_on(results)
    }

    /// The results, of the given types, of another function of the module.
    pub fn call(
        &mut self,
        name: &str,
        arguments: &[Literal],
        results: &[TensorType],
    ) -> Result<Vec<Literal>, String> {
        let function = self
            .module
            .and_then(|m| m.function(name))
            .ok_or_else(|| format!("call: there is no function @{name}"))?;
        if self.depth == MAX_DEPTH {
            return Err(format!("call of @{name}: calls nest deeper than {MAX_DEPTH}"));
        }
        let mut frame = Frame::new(self.module, function, self.depth + 1);
        frame.check_arguments(arguments)?;
        let types: Vec<&TensorType> = function.results().iter().map(|&v| function.ty(v)).collect();
        if !types.iter().copied().eq(results) {
            return Err(format!(
                "call of @{name}: the results are ({}), not ({})",
                list(types),
                list(results)
            ));
        }
        let results = frame.run(function.body, arguments);
        self.pass_on(results)
    }

    fn pass_on(&mut self, results: Result<Vec<Literal>, Error>) -> Result<Vec<Literal>, String> {
        results.map_err(|error| {
            let message = error.message.clone();
            self.fault = Some(error);
            message
        })
    }

    fn check_arguments(&self, arguments: &[Literal]) -> Result<(), String> {
        let function = self.function;
        let parameters: Vec<&TensorType> =
            function.parameters().iter().map(|&v| function.ty(v)).collect();
        let types: Vec<&TensorType> = arguments.iter().map(Literal::ty).collect();
        if types == parameters {
            return Ok(());
        }
        let (found, expected) = (list(types), list(parameters));
        Err(format!("call of @{}: arguments are ({found}), not ({expected})", function.name))
    }

    fn run(&mut self, block: BlockId, arguments: &[Literal]) -> Result<Vec<Literal>, Error> {
        self.run_watched(block, arguments, &mut |_, _, _, _| Ok(()))
    }

    fn run_watched(
        &mut self,
        block: BlockId,
        arguments: &[Literal],
        watch: &mut Watch<'_>,
    ) -> Result<Vec<Literal>, Error> {
        let function = self.function;
        let data = &function.blocks[block];
        let last_uses = self.last_uses(block);
        for (&value, literal) in data.arguments.iter().zip(arguments) {
            self.values[value] = Some(literal.clone());
        }
        for (position, &id) in data.ops.iter().enumerate() {
            let op = &function.ops[id];
            let operands: Result<Vec<Literal>, String> =
                op.operands.iter().map(|&value| self.read(value)).collect();
            let operands = operands.map_err(|message| Error::new(message, &op.location))?;
            let results = self.evaluate(id, &operands)?;
            watch(self, id, &operands, &results)?;
            for (&value, literal) in op.results.iter().zip(results) {
                debug_assert_eq!(function.ty(value), literal.ty(), "{}", op.op.name());
                self.values[value] = Some(literal);
            }
            for &value in last_uses.after(position) {
                self.values[value] = None;
            }
        }
        let at = data.ops.last().map_or(&function.location, |&id| &function.ops[id].location);
        let yields: Result<Vec<Literal>, String> =
            data.yields.iter().map(|&value| self.read(value)).collect();
        let yields = yields.map_err(|message| Error::new(message, at))?;
        for &value in last_uses.at_end() {
            self.values[value] = None;
        }
        Ok(yields)
    }

    fn last_uses(&mut self, block: BlockId) -> Rc<LastUses> {
        let function = self.function;
        let known = &mut self.last_uses[block];
        known.get_or_insert_with(|| Rc::new(LastUses::new(function, block))).clone()
    }

    fn read(&self, value: ValueId) -> Result<Literal, String> {
        self.value(value).cloned().ok_or_else(|| format!("{value} is used before it is computed"))
    }

    /// The results of an op for operands of its operands' types.
    pub fn evaluate(&mut self, id: OpId, operands: &[Literal]) -> Result<Vec<Literal>, Error> {
        let function = self.function;
        let op = &function.ops[id];
        let results = self
            .check_size(id, operands)
            .and_then(|()| op.op.evaluate(self, OpView { function, id }, operands));
        results.map_err(|message| self.located(message, &op.location))
    }

    fn located(&mut self, message: String, location: &Location) -> Error {
        match self.fault.take() {
            Some(fault) if fault.message == message => fault,
            _ => Error::new(message, location),
        }
    }

    /// An error if a result would be too large to write out.
    fn check_size(&self, id: OpId, operands: &[Literal]) -> Result<(), String> {
        let op = &self.function.ops[id];
        let splat = match op.op {
            Op::Constant(_) => true,
            Op::BroadcastInDim(_) | Op::Reshape(_) => operands[0].as_splat().is_some(),
            _ => false,
        };
        let large = |&&value: &&ValueId| !splat && self.function.ty(value).bytes() > MAX_BYTES;
        match op.results.iter().find(large) {
            Some(&value) => Err(format!(
                "{}: {} is too large to interpret",
                op.op.name(),
                self.function.ty(value)
            )),
            None => Ok(()),
        }
    }
}

fn list<'t>(types: impl IntoIterator<Item = &'t TensorType>) -> String {
    types.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
