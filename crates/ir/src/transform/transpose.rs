//! From a linear function to the one from cotangents to cotangents.

use super::{Rule, at};
use crate::builder::Builder;
use crate::copy::Copied;
use crate::error::{Error, Location};
use crate::function::{Function, ValueId};
use crate::ops::OpView;
use crate::region;
use rustc_hash::{FxHashMap, FxHashSet};

/// The transposed function of `f`, which is linear in its parameters from number `known` on: from
/// the first `known` parameters, then a cotangent for each result, to a cotangent for each of the
/// other parameters.
///
/// # Errors
/// If an op that depends on them is not linear.
pub fn transpose(f: &Function, known: usize) -> Result<Function, Error> {
    let mut out = Function::new("transposed");
    let mut copied = Copied::default();
    let (first, linear) = f.parameters().split_at(known);
    for &parameter in first {
        let new = out.add_parameter(f.ty(parameter).clone());
        copied.values.insert(parameter, new);
    }
    let cotangents: Vec<ValueId> =
        f.results().iter().map(|&v| out.add_parameter(f.ty(v).clone())).collect();
    let mut cx = Transposition {
        source: f,
        out: &mut out,
        known: copied,
        linear: linear.iter().copied().collect(),
        cotangents: FxHashMap::default(),
        location: Location::default(),
    };
    let ops = &f.blocks[f.body].ops;
    // What depends on the known parameters only is computed as it stands.
    let mut reversed = Vec::new();
    for &op in ops {
        let data = &f.ops[op];
        let linear = data.operands.iter().any(|v| cx.linear.contains(v))
            || (!data.regions.is_empty()
                && region::captures(f, op).iter().any(|v| cx.linear.contains(v)));
        if linear {
            cx.linear.extend(&data.results);
            reversed.push(op);
        } else {
            let body = cx.out.body;
            cx.known.op(f, op, cx.out, body);
        }
    }
    for (&result, cotangent) in f.results().iter().zip(cotangents) {
        if cx.linear.contains(&result) {
            cx.add(result, cotangent).map_err(|message| Error::new(message, &f.location))?;
        }
    }
    for op in reversed.into_iter().rev() {
        let view = OpView { function: f, id: op };
        let data = view.data();
        if !data.results.iter().any(|v| cx.cotangents.contains_key(v)) {
            continue;
        }
        cx.location = data.location.clone();
        data.op.transpose(&mut cx, view).map_err(|message| at(f, op, message))?;
    }
    let mut yields = Vec::with_capacity(linear.len());
    for &parameter in linear {
        let cotangent = cx.cotangent_or_zero(parameter);
        yields.push(cotangent.map_err(|message| Error::new(message, &f.location))?);
    }
    out.result_attributes = vec![Default::default(); yields.len()];
    let body = out.body;
    out.blocks[body].yields = yields;
    Ok(out)
}

/// What a rule for transposition sees and writes to.
pub struct Transposition<'a> {
    source: &'a Function,
    out: &'a mut Function,
    known: Copied,
    linear: FxHashSet<ValueId>,
    cotangents: FxHashMap<ValueId, ValueId>,
    location: Location,
}

impl Transposition<'_> {
    /// Appends to the transposed function.
    pub fn builder(&mut self) -> Builder<'_> {
        let block = self.out.body;
        Builder { function: self.out, block, location: self.location.clone() }
    }

    /// Whether a source value depends on the linear parameters.
    pub fn is_linear(&self, source: ValueId) -> bool {
        self.linear.contains(&source)
    }

    /// The value of a source value that does not depend on the linear parameters.
    pub fn value(&self, source: ValueId) -> ValueId {
        self.known.values[&source]
    }

    /// The sum of the cotangents that a source value has got; None: zero.
    pub fn cotangent(&self, source: ValueId) -> Option<ValueId> {
        self.cotangents.get(&source).copied()
    }

    /// The cotangent of a source value, zeros written out.
    pub fn cotangent_or_zero(&mut self, source: ValueId) -> Result<ValueId, String> {
        if let Some(cotangent) = self.cotangent(source) {
            return Ok(cotangent);
        }
        let ty = self.source.ty(source).clone();
        self.builder().zeros(&ty)
    }

    /// Adds to the cotangent of a source value, which is linear.
    pub fn add(&mut self, source: ValueId, cotangent: ValueId) -> Rule {
        debug_assert_eq!(self.source.ty(source), self.out.ty(cotangent), "type of a cotangent");
        let sum = match self.cotangent(source) {
            Some(before) => self.builder().add(before, cotangent)?,
            None => cotangent,
        };
        self.cotangents.insert(source, sum);
        Ok(())
    }

    /// Appends the transposed function of one that does the same as the op on these source values,
    /// and adds the cotangents that it gives: a rule by decomposition.
    pub fn as_function(&mut self, op: OpView<'_>, f: &Function, operands: &[ValueId]) -> Rule {
        let linear: Vec<bool> = operands.iter().map(|&v| self.is_linear(v)).collect();
        let (back, known) = transpose_some(f, &linear)?;
        let known = operands.iter().zip(&linear).filter(|(_, linear)| !**linear).take(known);
        let mut inputs: Vec<ValueId> = known.map(|(&v, _)| self.value(v)).collect();
        for &result in &op.data().results {
            inputs.push(self.cotangent_or_zero(result)?);
        }
        let cotangents = self.builder().inline(&back, &inputs);
        let targets = operands.iter().zip(&linear).filter(|(_, linear)| **linear);
        for ((&target, _), cotangent) in targets.zip(cotangents) {
            self.add(target, cotangent)?;
        }
        Ok(())
    }
}

/// The transposed function of `f`, which is linear in the parameters flagged, with the number of the
/// others, which come first.
pub(crate) fn transpose_some(f: &Function, linear: &[bool]) -> Result<(Function, usize), String> {
    let mut f = f.clone();
    let pick = |flag: bool| {
        let pairs = f.parameters().iter().zip(linear);
        pairs.filter(move |(_, linear)| **linear == flag).map(|(v, _)| *v)
    };
    let order: Vec<ValueId> = pick(false).chain(pick(true)).collect();
    let known = linear.iter().filter(|linear| !**linear).count();
    f.reorder_parameters(order);
    let back = transpose(&f, known).map_err(|error| error.message)?;
    Ok((back, known))
}
