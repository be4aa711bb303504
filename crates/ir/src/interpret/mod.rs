//! The reference semantics: plain, slow, obviously right.
//!
//! Elementwise ops run their scalar body (see [`crate::ops::elementwise`]); every other op is
//! evaluated element by element in its own file. Reductions combine in row-major order.

mod region;
mod walk;

pub use region::ScalarRegion;
pub use walk::{Walk, positions};

use crate::error::Error;
use crate::function::{BlockId, Function, Module, ValueId};
use crate::literal::Literal;
use crate::ops::OpView;
use crate::types::{TensorType, advance};
use rustc_hash::FxHashMap;

/// A function being interpreted: its values so far, and the module for calls.
pub struct Frame<'a> {
    /// The module, if the function may call others.
    pub module: Option<&'a Module>,
    /// The function.
    pub function: &'a Function,
    values: FxHashMap<ValueId, Literal>,
    depth: u32,
}

/// Deeper calls than this are taken for endless recursion.
const MAX_DEPTH: u32 = 200;

/// The results of a function for arguments of its parameters' types.
pub fn call(
    module: Option<&Module>,
    function: &Function,
    arguments: &[Literal],
) -> Result<Vec<Literal>, Error> {
    let mut frame = Frame { module, function, values: FxHashMap::default(), depth: 0 };
    frame.run(function.body, arguments)
}

impl Frame<'_> {
    /// The value, if it has been computed.
    pub fn value(&self, value: ValueId) -> Option<&Literal> {
        self.values.get(&value)
    }

    /// The yields of a region for arguments; values of the enclosing blocks are visible.
    pub fn region(
        &mut self,
        block: BlockId,
        arguments: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        self.run(block, arguments).map_err(|error| error.message)
    }

    /// The results of another function of the module.
    pub fn call(
        &mut self,
        name: &str,
        arguments: &[Literal],
        results: &[TensorType],
    ) -> Result<Vec<Literal>, String> {
        let _ = results;
        let function = self
            .module
            .and_then(|m| m.function(name))
            .ok_or_else(|| format!("call: there is no function @{name}"))?;
        if self.depth == MAX_DEPTH {
            return Err(format!("call of @{name}: calls nest deeper than {MAX_DEPTH}"));
        }
        let mut frame = Frame {
            module: self.module,
            function,
            values: FxHashMap::default(),
            depth: self.depth + 1,
        };
        frame.run(function.body, arguments).map_err(|error| error.message)
    }

    fn run(&mut self, block: BlockId, arguments: &[Literal]) -> Result<Vec<Literal>, Error> {
        let function = self.function;
        let data = &function.blocks[block];
        for (&value, literal) in data.arguments.iter().zip(arguments) {
            self.values.insert(value, literal.clone());
        }
        for &id in &data.ops {
            let op = &function.ops[id];
            let operands: Vec<Literal> =
                op.operands.iter().map(|v| self.values[v].clone()).collect();
            let results = op
                .op
                .evaluate(self, OpView { function, id }, &operands)
                .map_err(|message| Error::new(message, &op.location))?;
            for (&value, literal) in op.results.iter().zip(results) {
                debug_assert_eq!(function.ty(value), literal.ty(), "{}", op.op.name());
                self.values.insert(value, literal);
            }
        }
        Ok(data.yields.iter().map(|v| self.values[v].clone()).collect())
    }
}

/// A tensor of type `ty` whose element at an index is `from`'s at the index that `map` gives.
pub fn rearrange(from: &Literal, ty: &TensorType, map: impl Fn(&[u64]) -> Vec<u64>) -> Literal {
    if let Some(element) = from.as_splat() {
        return Literal::splat(ty.clone(), element);
    }
    let size = ty.dtype.size() as usize;
    let (bytes, strides) = (from.bytes(), from.ty().strides());
    let mut out = Vec::with_capacity(ty.bytes() as usize);
    let mut index = vec![0; ty.rank()];
    for _ in 0..ty.len() {
        let at: u64 = map(&index).iter().zip(&strides).map(|(i, s)| i * s).sum();
        let at = at as usize * size;
        out.extend_from_slice(&bytes[at..at + size]);
        advance(&mut index, &ty.shape);
    }
    Literal::dense(ty.clone(), out)
}

/// A tensor of type `ty` whose element at an index is `from`'s at position `start` plus the index
/// times `steps`; every such position is one of `from`'s.
pub fn strided(from: &Literal, ty: &TensorType, start: i64, steps: &[i64]) -> Literal {
    if let Some(element) = from.as_splat() {
        return Literal::splat(ty.clone(), element);
    }
    let size = ty.dtype.size() as usize;
    let bytes = from.bytes();
    let mut out = Vec::with_capacity(ty.bytes() as usize);
    let mut index = vec![0; ty.rank()];
    let mut position = start;
    for _ in 0..ty.len() {
        let at = position as usize * size;
        out.extend_from_slice(&bytes[at..at + size]);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            position += steps[axis];
            if index[axis] < ty.shape[axis] {
                break;
            }
            position -= steps[axis] * index[axis] as i64;
            index[axis] = 0;
        }
    }
    Literal::dense(ty.clone(), out)
}

/// The rank-0 integer `value` clamped to `[0, high]`.
pub fn start_index(value: &Literal, high: u64) -> u64 {
    value.wide_int(0).clamp(0, i128::from(high)) as u64
}
