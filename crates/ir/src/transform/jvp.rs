//! Forward mode, and the linear part of reverse mode.

use super::{Rule, at, partial};
use crate::builder::Builder;
use crate::copy::Copied;
use crate::error::{Error, Location};
use crate::function::{BlockId, Function, OpId, ValueId};
use crate::ops::{Op, OpView};
use crate::region;
use crate::types::TensorType;
use jaxrs_kernel::DType;
use rustc_hash::FxHashMap;

/// Whether values of the element type have tangents (of their own type).
pub fn is_differentiable(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_complex()
}

/// A function with tangents beside its values.
pub struct Jvped {
    /// From the parameters, then the tangents of those that have one, to the results, then the
    /// tangents of those that have one.
    pub function: Function,
    /// Which results have a tangent; that of the others is zero.
    pub tangents: Vec<bool>,
}

/// A function in two parts.
pub struct Linearized {
    /// From the parameters to the results, then the residuals.
    pub primal: Function,
    /// How many residuals there are.
    pub residuals: usize,
    /// From the residuals, then the tangents of the parameters that have one, to the tangents of
    /// the results that have one.
    pub linear: Function,
    /// Which results have a tangent; that of the others is zero.
    pub tangents: Vec<bool>,
    /// For each residual, the parameter that it is, if it is one.
    pub residual_parameters: Vec<Option<usize>>,
}

/// The results of `f` and their tangents for tangents of the parameters flagged in `active`.
///
/// # Errors
/// If an op that depends on them has no derivative.
pub fn jvp(f: &Function, active: &[bool]) -> Result<Jvped, Error> {
    let mut out = Function::new(f.name.clone());
    let mut cx = Jvp::new(f, &mut out, None);
    cx.parameters(active);
    cx.block(f.body)?;
    let (mut yields, tangents) = cx.results();
    yields.extend(tangents.iter().flatten());
    finish(&mut out, yields);
    Ok(Jvped { function: out, tangents: tangents.iter().map(Option::is_some).collect() })
}

/// `f` in its two parts, for tangents of the parameters flagged in `active`.
///
/// # Errors
/// If an op that depends on them has no derivative, or none in reverse mode.
pub fn linearize(f: &Function, active: &[bool]) -> Result<Linearized, Error> {
    let (mut out, mut linear) = (Function::new(f.name.clone()), Function::new("linear"));
    let mut cx = Jvp::new(f, &mut out, Some(&mut linear));
    cx.parameters(active);
    cx.block(f.body)?;
    let (mut yields, tangents) = cx.results();
    let mut residuals = cx.residuals;
    finish(&mut linear, tangents.iter().flatten().copied().collect());
    // What only tangents need that no result has is not kept.
    let used = partial::prune(&mut linear);
    let unused = |(_, parameter): &(ValueId, ValueId)| !used.contains(parameter);
    let dropped: Vec<ValueId> = residuals.extract_if(.., |r| unused(r)).map(|r| r.1).collect();
    yields.extend(residuals.iter().map(|&(primal, _)| primal));
    finish(&mut out, yields);
    partial::prune(&mut out);
    let parameters: FxHashMap<ValueId, usize> =
        out.parameters().iter().enumerate().map(|(n, &v)| (v, n)).collect();
    let residual_parameters =
        residuals.iter().map(|(primal, _)| parameters.get(primal).copied()).collect();
    // Residuals were made parameters as they were met: put them before the tangents.
    let is_residual = |value: &ValueId| residuals.iter().any(|(_, r)| r == value);
    let (first, last): (Vec<ValueId>, Vec<ValueId>) =
        linear.parameters().iter().filter(|v| !dropped.contains(v)).partition(|v| is_residual(v));
    linear.reorder_parameters(first.into_iter().chain(last).collect());
    Ok(Linearized {
        primal: out,
        residuals: residuals.len(),
        linear,
        tangents: tangents.iter().map(Option::is_some).collect(),
        residual_parameters,
    })
}

fn finish(function: &mut Function, yields: Vec<ValueId>) {
    function.result_attributes = vec![Default::default(); yields.len()];
    let body = function.body;
    function.blocks[body].yields = yields;
}

/// What a rule for forward mode sees and writes to.
pub struct Jvp<'a> {
    source: &'a Function,
    out: &'a mut Function,
    linear: Option<&'a mut Function>,
    primal: Copied,
    tangents: FxHashMap<ValueId, ValueId>,
    residuals: Vec<(ValueId, ValueId)>,
    known: FxHashMap<ValueId, ValueId>,
    location: Location,
}

impl<'a> Jvp<'a> {
    fn new(source: &'a Function, out: &'a mut Function, linear: Option<&'a mut Function>) -> Self {
        Jvp {
            source,
            out,
            linear,
            primal: Copied::default(),
            tangents: FxHashMap::default(),
            residuals: Vec::new(),
            known: FxHashMap::default(),
            location: Location::default(),
        }
    }

    fn parameters(&mut self, active: &[bool]) {
        let source = self.source;
        let parameters = source.parameters();
        assert_eq!(parameters.len(), active.len(), "a flag for each parameter");
        for &parameter in parameters {
            let new = self.out.add_parameter(source.ty(parameter).clone());
            self.primal.values.insert(parameter, new);
        }
        for (&parameter, _) in parameters.iter().zip(active).filter(|(_, active)| **active) {
            let to = match &mut self.linear {
                Some(linear) => &mut **linear,
                None => &mut *self.out,
            };
            let tangent = to.add_parameter(source.ty(parameter).clone());
            self.tangents.insert(parameter, tangent);
        }
    }

    fn block(&mut self, block: BlockId) -> Result<(), Error> {
        let source = self.source;
        for &op in &source.blocks[block].ops {
            self.op(op).map_err(|message| at(source, op, message))?;
        }
        Ok(())
    }

    fn op(&mut self, id: OpId) -> Rule {
        let source = self.source;
        let data = &source.ops[id];
        self.location = data.location.clone();
        let op = OpView { function: source, id };
        let active = data.operands.iter().any(|v| self.tangents.contains_key(v))
            || (!data.regions.is_empty()
                && region::captures(source, id).iter().any(|v| self.tangents.contains_key(v)));
        if !active {
            self.copy(op);
            return Ok(());
        }
        data.op.jvp(self, op)
    }

    /// The body's results, with their tangents.
    fn results(&self) -> (Vec<ValueId>, Vec<Option<ValueId>>) {
        let results = self.source.results();
        let tangents = results.iter().map(|&v| self.tangent(v)).collect();
        (self.primal.all(results), tangents)
    }

    /// Whether tangents go to a function of their own: reverse mode is to follow.
    pub fn is_reverse(&self) -> bool {
        self.linear.is_some()
    }

    /// Appends to the primal part.
    pub fn primal(&mut self) -> Builder<'_> {
        let block = self.out.body;
        Builder { function: self.out, block, location: self.location.clone() }
    }

    /// Appends to the linear part.
    pub fn linear(&mut self) -> Builder<'_> {
        let function = match &mut self.linear {
            Some(linear) => &mut **linear,
            None => &mut *self.out,
        };
        let block = function.body;
        Builder { function, block, location: self.location.clone() }
    }

    /// The primal value of a value of the source function.
    pub fn value(&self, source: ValueId) -> ValueId {
        self.primal.values[&source]
    }

    /// The primal values of values of the source function.
    pub fn values(&self, source: &[ValueId]) -> Vec<ValueId> {
        self.primal.all(source)
    }

    /// The tangent, in the linear part, of a value of the source function; None: zero.
    pub fn tangent(&self, source: ValueId) -> Option<ValueId> {
        self.tangents.get(&source).copied()
    }

    /// The tangent of a value of the source function, zeros written out.
    pub fn tangent_or_zero(&mut self, source: ValueId) -> Result<ValueId, String> {
        if let Some(tangent) = self.tangent(source) {
            return Ok(tangent);
        }
        let ty = self.source.ty(source).clone();
        self.linear().zeros(&ty)
    }

    /// A primal value, for use in the linear part.
    pub fn residual(&mut self, primal: ValueId) -> ValueId {
        if self.linear.is_none() {
            return primal;
        }
        if let Some(&known) = self.known.get(&primal) {
            return known;
        }
        if let Some(again) = self.written_again(primal) {
            self.known.insert(primal, again);
            return again;
        }
        let ty = self.out.ty(primal).clone();
        let parameter = self.linear().function.add_parameter(ty);
        self.residuals.push((primal, parameter));
        self.known.insert(primal, parameter);
        parameter
    }

    /// A primal value computed in the linear part, if that takes less than to keep it: constants,
    /// counts, and what is larger than what it is made of.
    fn written_again(&mut self, primal: ValueId) -> Option<ValueId> {
        let op = self.out.defining_op(primal)?;
        let data = &self.out.ops[op];
        let grows = || {
            let from = data.operands.iter().map(|&v| self.out.ty(v).bytes()).sum::<u64>();
            from < self.out.ty(primal).bytes()
        };
        let cheap = match &data.op {
            Op::Constant(constant) => constant.value.as_splat().is_some(),
            Op::Iota(_) => true,
            Op::BroadcastInDim(_) | Op::Convert(_) => grows(),
            _ => false,
        };
        if !cheap {
            return None;
        }
        let (op, operands) = (data.op.clone(), data.operands.clone());
        let operands: Vec<ValueId> = operands.into_iter().map(|v| self.residual(v)).collect();
        Some(self.linear().one(op, &operands).expect("the op has these types"))
    }

    /// The value of a source value, for use in the linear part.
    pub fn residual_of(&mut self, source: ValueId) -> ValueId {
        let primal = self.value(source);
        self.residual(primal)
    }

    /// Binds a result of the source function.
    pub fn bind(&mut self, source: ValueId, primal: ValueId, tangent: Option<ValueId>) {
        self.primal.values.insert(source, primal);
        if let Some(tangent) = tangent {
            self.tangents.insert(source, tangent);
        }
    }

    /// Gives a bound result its tangent.
    pub fn bind_tangent(&mut self, source: ValueId, tangent: ValueId) {
        self.tangents.insert(source, tangent);
    }

    /// Appends the op as it is on the primal operands, and binds its results without tangents.
    pub fn copy(&mut self, op: OpView<'_>) -> Vec<ValueId> {
        let id = self.primal.op(op.function, op.id, self.out, self.out.body);
        self.out.ops[id].results.clone()
    }

    /// A copy of a region of the op in the primal part.
    pub fn region(&mut self, op: OpView<'_>, region: BlockId) -> BlockId {
        self.primal.region(op.function, region, self.out)
    }

    /// The rule of an op that is linear in all operands: the same op on their tangents.
    pub fn is_linear(&mut self, op: OpView<'_>) -> Rule {
        self.copy(op);
        let operands = &op.data().operands;
        let mut tangents = Vec::with_capacity(operands.len());
        for &operand in operands {
            tangents.push(self.tangent_or_zero(operand)?);
        }
        let results = self.linear().push(op.data().op.clone(), &tangents, &[])?;
        for (&result, tangent) in op.data().results.iter().zip(results) {
            self.bind_tangent(result, tangent);
        }
        Ok(())
    }

    /// The rule of an op that is linear in its first operand, the others being indices and the
    /// like, which have no tangents: the same op on the first operand's tangent.
    pub fn is_linear_in_first(&mut self, op: OpView<'_>) -> Rule {
        self.copy(op);
        let Some(tangent) = self.tangent(op.operand(0)) else { return Ok(()) };
        let mut operands = vec![tangent];
        for &operand in &op.data().operands[1..] {
            operands.push(self.residual_of(operand));
        }
        let results = self.linear().push(op.data().op.clone(), &operands, &[])?;
        self.bind_tangent(op.result(0), results[0]);
        Ok(())
    }

    /// The rule of an op that is linear in each of two operands.
    pub fn is_bilinear(&mut self, op: OpView<'_>) -> Rule {
        self.copy(op);
        let (x, y) = (op.operand(0), op.operand(1));
        let mut sum = None;
        for (tangent, first) in [(self.tangent(x), true), (self.tangent(y), false)] {
            let Some(tangent) = tangent else { continue };
            let other = self.residual_of(if first { y } else { x });
            let operands = if first { [tangent, other] } else { [other, tangent] };
            let mut b = self.linear();
            let term = b.one(op.data().op.clone(), &operands)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, term)?,
                None => term,
            });
        }
        if let Some(sum) = sum {
            self.bind_tangent(op.result(0), sum);
        }
        Ok(())
    }

    /// The rule of an op whose results do not change with its operands but in steps.
    pub fn is_constant(&mut self, op: OpView<'_>) -> Rule {
        self.copy(op);
        Ok(())
    }

    /// Tangents multiplied by known factors and added; None: none has one.
    pub fn combination(
        &mut self,
        terms: &[(Option<ValueId>, ValueId)],
    ) -> Result<Option<ValueId>, String> {
        let mut sum = None;
        for &(tangent, factor) in terms {
            let Some(tangent) = tangent else { continue };
            let factor = self.residual(factor);
            let mut b = self.linear();
            let term = b.multiply(tangent, factor)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, term)?,
                None => term,
            });
        }
        Ok(sum)
    }

    /// Appends a function, both its parts, for arguments with the tangents that they have: its
    /// results, each with its tangent.
    pub fn call(
        &mut self,
        f: &Function,
        arguments: &[ValueId],
        tangents: &[Option<ValueId>],
    ) -> Result<Vec<(ValueId, Option<ValueId>)>, String> {
        let active: Vec<bool> = tangents.iter().map(Option::is_some).collect();
        let tangents = tangents.iter().flatten();
        let (primals, mut tangents, active) = if self.is_reverse() {
            let parts = linearize(f, &active).map_err(|error| error.message)?;
            let mut results = self.primal().inline(&parts.primal, arguments);
            let residuals = results.split_off(results.len() - parts.residuals);
            let mut inputs: Vec<ValueId> =
                residuals.into_iter().map(|primal| self.residual(primal)).collect();
            inputs.extend(tangents);
            let tangents = self.linear().inline(&parts.linear, &inputs);
            (results, tangents.into_iter(), parts.tangents)
        } else {
            let both = jvp(f, &active).map_err(|error| error.message)?;
            let inputs: Vec<ValueId> = arguments.iter().chain(tangents).copied().collect();
            let mut results = self.primal().inline(&both.function, &inputs);
            let tangents = results.split_off(both.tangents.len());
            (results, tangents.into_iter(), both.tangents)
        };
        let tangent = |active: bool| active.then(|| tangents.next().expect("a tangent each"));
        let tangents: Vec<Option<ValueId>> = active.into_iter().map(tangent).collect();
        Ok(primals.into_iter().zip(tangents).collect())
    }

    /// Appends a function that does the same as the op on the values of its operands, and binds
    /// the op's results: a rule by decomposition.
    pub fn as_function(&mut self, op: OpView<'_>, f: &Function, operands: &[ValueId]) -> Rule {
        let arguments = self.values(operands);
        let tangents: Vec<Option<ValueId>> = operands.iter().map(|&v| self.tangent(v)).collect();
        let results = self.call(f, &arguments, &tangents)?;
        for (&result, (primal, tangent)) in op.data().results.iter().zip(results) {
            self.bind(result, primal, tangent);
        }
        Ok(())
    }

    /// Like [`Jvp::as_function`], but the results are the op's own, which may differ from the
    /// function's by rounding.
    pub fn tangents_as_function(
        &mut self,
        op: OpView<'_>,
        f: &Function,
        operands: &[ValueId],
    ) -> Rule {
        let own = self.copy(op);
        self.as_function(op, f, operands)?;
        self.primal.values.extend(op.data().results.iter().copied().zip(own));
        Ok(())
    }

    /// The type of a source value.
    pub fn ty(&self, source: ValueId) -> &TensorType {
        self.source.ty(source)
    }
}
