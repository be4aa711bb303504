//! Rules of `scan`: each is a scan of what the rule makes of the region.
//!
//! Which carries have a tangent (a batch axis) is found by trying: those that start with one, then
//! those that get one in a step, until there are no more.
//!
//! In reverse mode the residuals of each step are stacked, but for those that are there already: a
//! constant, a slice of an operand, a slice of a result; and what depends on constants only is
//! computed once before the loop. The linear scan has tangents as carries alone.

use super::{Scan, slice_type};
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::ops::OpView;
use crate::region;
use crate::transform::{
    Batch, Jvp, Linearized, Rule, Rules, Transposition, backward_slice, batch, invariant,
    jvp, linearize, with_effects,
};

/// A scan whose region uses no values of enclosing blocks: they are constants.
pub(super) struct Closed {
    pub(super) scan: Scan,
    pub(super) body: Function,
    pub(super) operands: Vec<ValueId>,
}

impl Closed {
    fn new(scan: &Scan, op: OpView<'_>) -> Closed {
        let (mut body, captured) = region::extract(op.function, op.region(0));
        let mut order = body.parameters().to_vec();
        let moved = order.split_off(order.len() - captured.len());
        order.splice(scan.consts..scan.consts, moved);
        body.reorder_parameters(order);
        let mut operands = op.data().operands.clone();
        let consts = scan.consts + captured.len();
        operands.splice(scan.consts..scan.consts, captured);
        Closed { scan: Scan { consts, ..scan.clone() }, body, operands }
    }

    /// The flags with those of the carries added that get theirs in a step, and what `step` made
    /// with these.
    fn fixpoint<T>(
        &self,
        mut flags: Vec<bool>,
        step: impl Fn(&Function, &[bool]) -> Result<T, crate::Error>,
        results: impl Fn(&T) -> &[bool],
    ) -> Result<(Vec<bool>, T), String> {
        loop {
            let made = step(&self.body, &flags).map_err(|error| error.message)?;
            let carries = &mut flags[self.scan.consts..self.scan.consts + self.scan.carries];
            let pairs = carries.iter_mut().zip(results(&made));
            let new = pairs.filter(|(flag, result)| **result && !**flag);
            if new.map(|(flag, _)| *flag = true).count() == 0 {
                return Ok((flags, made));
            }
        }
    }

    /// Splits what there is for each operand into that of constants, carries and tensors.
    fn split<'t, T>(&self, all: &'t [T]) -> [&'t [T]; 3] {
        let (consts, rest) = all.split_at(self.scan.consts);
        let (carries, tensors) = rest.split_at(self.scan.carries);
        [consts, carries, tensors]
    }

    /// The operands flagged, by kind.
    pub(super) fn flagged(&self, flags: &[bool]) -> [Vec<ValueId>; 3] {
        let pick = |(values, flags): (&[ValueId], &[bool])| {
            let pairs = values.iter().zip(flags).filter(|(_, flag)| **flag);
            pairs.map(|(value, _)| *value).collect()
        };
        let ([a, b, c], [d, e, f]) = (self.split(&self.operands), self.split(flags));
        [(a, d), (b, e), (c, f)].map(pick)
    }

    fn forward(&self, cx: &mut Jvp<'_>, op: OpView<'_>, flags: Vec<bool>) -> Rule {
        let (flags, both) = self.fixpoint(flags, jvp, |both| &both.tangents)?;
        let [consts, carries, tensors] = self.flagged(&flags);
        let [of_consts, of_carries, of_tensors] = [&consts, &carries, &tensors].map(Vec::len);
        let values = cx.values(&self.operands);
        let mut tangents = Vec::new();
        for &operand in consts.iter().chain(&carries).chain(&tensors) {
            tangents.push(cx.tangent_or_zero(operand)?);
        }
        let count = both.tangents.len();
        let scan = Scan {
            consts: self.scan.consts + of_consts,
            carries: self.scan.carries + of_carries,
            ..self.scan.clone()
        };
        let [x, y, z] = self.split(&values);
        let (dx, rest) = tangents.split_at(of_consts);
        let (dy, dz) = rest.split_at(of_carries);
        let carry_flags = self.split(&flags)[1].to_vec();
        let results = emit(&mut cx.primal(), &scan, &[x, dx, y, dy, z, dz].concat(), |b, args| {
            let parts = [x, dx, y, dy, z, dz].map(<[ValueId]>::len);
            let [x, dx, y, dy, z, dz] = pieces(args, parts);
            let mut results = b.inline(&both.function, &[x, y, z, dx, dy, dz].concat());
            let tangents = results.split_off(count);
            let (next, slices) = results.split_at(carry_flags.len());
            let (dnext, dslices) =
                carry_tangents(b, &carry_flags, &both.tangents, &tangents, dy)?;
            Ok([next, &dnext, slices, &dslices].concat())
        })?;
        let carries = self.scan.carries;
        let parts = [carries, of_carries, count - carries];
        let [next, dnext, slices] = pieces(&results[..parts.iter().sum()], parts);
        let dslices = &results[parts.iter().sum()..];
        let primals: Vec<ValueId> = next.iter().chain(slices).copied().collect();
        bind(cx, op, &primals, &carry_flags, &both.tangents, dnext, dslices);
        let _ = of_tensors;
        Ok(())
    }

    fn linearized(&self, cx: &mut Jvp<'_>, op: OpView<'_>, flags: Vec<bool>) -> Rule {
        let (flags, parts) = self.fixpoint(flags, linearize, |parts| &parts.tangents)?;
        if !parts.tangents.contains(&true) {
            cx.copy(op);
            return Ok(());
        }
        let values = cx.values(&self.operands);
        let kept = Kept::new(self, &parts);
        // What constants alone give, before the loop.
        let consts = &values[..self.scan.consts];
        let once = backward_slice(&parts.primal, kept.consts(&parts, self), &kept.once);
        let once = cx.primal().inline(&once, consts);
        let scan = Scan { consts: self.scan.consts + once.len(), ..self.scan.clone() };
        let count = parts.tangents.len();
        let body = kept.body(self, &parts, count);
        let [x, y, z] = self.split(&values);
        let results = emit(&mut cx.primal(), &scan, &[x, &once, y, z].concat(), |b, args| {
            Ok(b.inline(&body, args))
        })?;
        // The residuals: the same for every step, or a slice for each.
        let (mut fixed, mut sliced) = (Vec::new(), Vec::new());
        for residual in &kept.residuals {
            match *residual {
                Residual::Const(n) => fixed.push(cx.residual(values[n])),
                Residual::Once(n) => fixed.push(cx.residual(once[n])),
                Residual::Tensor(n) => sliced.push(cx.residual(values[n])),
                Residual::Result(n) => sliced.push(cx.residual(results[n])),
            }
        }
        let [consts, carries, tensors] = self.flagged(&flags);
        let mut tangents = Vec::new();
        for &operand in consts.iter().chain(&carries).chain(&tensors) {
            tangents.push(cx.tangent_or_zero(operand)?);
        }
        let (dx, rest) = tangents.split_at(consts.len());
        let (dy, dz) = rest.split_at(carries.len());
        let linear = Scan {
            consts: fixed.len() + dx.len(),
            carries: dy.len(),
            ..self.scan.clone()
        };
        let carry_flags = self.split(&flags)[1].to_vec();
        let operands = [&fixed, dx, dy, &sliced, dz].concat();
        let lengths = [fixed.len(), dx.len(), dy.len(), sliced.len(), dz.len()];
        let out = emit(&mut cx.linear(), &linear, &operands, |b, args| {
            let [fixed, dx, dy, sliced, dz] = pieces(args, lengths);
            let (mut fixed, mut sliced) = (fixed.iter(), sliced.iter());
            let mut inputs: Vec<ValueId> = Vec::new();
            for residual in &kept.residuals {
                let from = if residual.is_fixed() { &mut fixed } else { &mut sliced };
                inputs.push(*from.next().expect("one for each residual"));
            }
            inputs.extend(dx.iter().chain(dy).chain(dz));
            let tangents = b.inline(&parts.linear, &inputs);
            let (next, slices) =
                carry_tangents(b, &carry_flags, &parts.tangents, &tangents, dy)?;
            Ok([next, slices].concat())
        })?;
        let (next, slices) = out.split_at(dy.len());
        bind(cx, op, &results[..count], &carry_flags, &parts.tangents, next, slices);
        Ok(())
    }

    fn batched(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let size = cx.size();
        let flags: Vec<bool> = self.operands.iter().map(|&v| cx.is_batched(v)).collect();
        let (flags, over) =
            self.fixpoint(flags, |f, flags| batch(f, flags, size), |over| &over.results)?;
        let first = self.scan.consts + self.scan.carries;
        let mut operands = Vec::with_capacity(flags.len());
        for (n, (&operand, &flag)) in self.operands.iter().zip(&flags).enumerate() {
            let value = if flag { cx.full(operand)? } else { cx.value(operand) };
            // Steps come before the batch.
            let moved = flag && n >= first;
            operands.push(if moved { cx.builder().move_axis(value, 0, 1)? } else { value });
        }
        let carry_flags = self.split(&flags)[1];
        let results = emit(&mut cx.builder(), &self.scan, &operands, |b, args| {
            let mut out = b.inline(&over.function, args);
            for ((value, &flag), &has_axis) in
                out.iter_mut().zip(carry_flags).zip(&over.results)
            {
                if flag && !has_axis {
                    *value = b.repeat(*value, 0, size)?;
                }
            }
            Ok(out)
        })?;
        for (n, (&result, mut value)) in op.data().results.iter().zip(results).enumerate() {
            let flag = carry_flags.get(n).copied().unwrap_or(over.results[n]);
            if flag && n >= self.scan.carries {
                value = cx.builder().move_axis(value, 1, 0)?;
            }
            cx.bind(result, value, flag);
        }
        Ok(())
    }
}

/// Where a residual of the region comes from.
#[derive(Clone, Copy)]
enum Residual {
    /// A constant operand.
    Const(usize),
    /// A value computed once before the loop.
    Once(usize),
    /// A tensor of which each step takes a slice.
    Tensor(usize),
    /// A stacked result of the loop.
    Result(usize),
}

impl Residual {
    fn is_fixed(self) -> bool {
        matches!(self, Residual::Const(_) | Residual::Once(_))
    }
}

/// What a linearized scan keeps for its linear part.
struct Kept {
    residuals: Vec<Residual>,
    /// Values of the region that depend on constants only.
    once: Vec<ValueId>,
    /// Values of the region that are stacked beside its results.
    stacked: Vec<ValueId>,
}

impl Kept {
    fn new(closed: &Closed, parts: &Linearized) -> Kept {
        let primal = &parts.primal;
        let count = parts.tangents.len();
        let (results, residuals) = primal.results().split_at(count);
        let first = closed.scan.consts + closed.scan.carries;
        let fixed: Vec<bool> =
            (0..closed.operands.len()).map(|n| n < closed.scan.consts).collect();
        let fixed = invariant(primal, &fixed);
        let (mut once, mut stacked) = (Vec::new(), Vec::new());
        let slices = |value: &ValueId| {
            let at = results[closed.scan.carries..].iter().position(|v| v == value)?;
            Some(closed.scan.carries + at)
        };
        let mut place = |(value, parameter): (&ValueId, &Option<usize>)| match *parameter {
            Some(n) if n < closed.scan.consts => Residual::Const(n),
            Some(n) if n >= first => Residual::Tensor(n),
            _ if fixed.contains(value) => {
                once.push(*value);
                Residual::Once(once.len() - 1)
            }
            _ => Residual::Result(slices(value).unwrap_or_else(|| {
                stacked.push(*value);
                count + stacked.len() - 1
            })),
        };
        let residuals = residuals.iter().zip(&parts.residual_parameters).map(&mut place).collect();
        Kept { residuals, once, stacked }
    }

    fn consts<'p>(&self, parts: &'p Linearized, closed: &Closed) -> &'p [ValueId] {
        &parts.primal.parameters()[..closed.scan.consts]
    }

    /// The region of the loop: from constants, what is computed once, carries and slices to results
    /// and stacked residuals.
    fn body(&self, closed: &Closed, parts: &Linearized, count: usize) -> Function {
        let primal = &parts.primal;
        let mut from = primal.parameters().to_vec();
        from.splice(closed.scan.consts..closed.scan.consts, self.once.iter().copied());
        let mut to = primal.results()[..count].to_vec();
        to.extend(&self.stacked);
        with_effects(primal, &from, &to)
    }
}

/// Appends a scan whose region `body` builds.
pub(super) fn emit(
    b: &mut Builder<'_>,
    scan: &Scan,
    operands: &[ValueId],
    body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Result<Vec<ValueId>, String> {
    let mut types = b.types(operands);
    for ty in &mut types[scan.consts + scan.carries..] {
        *ty = slice_type(ty);
    }
    let region = b.region(&types, body)?;
    b.push(scan.clone(), operands, &[region])
}

/// Splits a list into pieces of these lengths.
pub(super) fn pieces<const N: usize>(mut list: &[ValueId], lengths: [usize; N]) -> [&[ValueId]; N] {
    lengths.map(|length| {
        let (piece, rest) = list.split_at(length);
        list = rest;
        piece
    })
}

/// The tangents of the next carries that have one, zeros where a step gives none, and those of the
/// slices that have one; `tangents` are those of the results flagged.
fn carry_tangents(
    b: &mut Builder<'_>,
    carries: &[bool],
    results: &[bool],
    tangents: &[ValueId],
    like: &[ValueId],
) -> Result<(Vec<ValueId>, Vec<ValueId>), String> {
    let mut tangents = tangents.iter().copied();
    let mut like = like.iter();
    let mut next = Vec::new();
    for (&carry, &result) in carries.iter().zip(results) {
        let tangent = if result { tangents.next() } else { None };
        if !carry {
            continue;
        }
        let like = *like.next().expect("a tangent of each carry");
        next.push(match tangent {
            Some(tangent) => tangent,
            None => b.full_like(like, 0.0)?,
        });
    }
    Ok((next, tangents.collect()))
}

/// Binds the results: `next` are the tangents of the carries flagged, `slices` those of the
/// stacked results flagged.
fn bind(
    cx: &mut Jvp<'_>,
    op: OpView<'_>,
    primals: &[ValueId],
    carries: &[bool],
    results: &[bool],
    next: &[ValueId],
    slices: &[ValueId],
) {
    let (mut next, mut slices) = (next.iter(), slices.iter());
    for (n, (&result, &primal)) in op.data().results.iter().zip(primals).enumerate() {
        let tangent = match carries.get(n) {
            Some(true) => next.next(),
            Some(false) => None,
            None if results[n] => slices.next(),
            None => None,
        };
        cx.bind(result, primal, tangent.copied());
    }
}

impl Rules for Scan {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let closed = Closed::new(self, op);
        let flags: Vec<bool> = closed.operands.iter().map(|&v| cx.tangent(v).is_some()).collect();
        if cx.is_reverse() {
            return closed.linearized(cx, op, flags);
        }
        closed.forward(cx, op, flags)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let linear = Closed::new(self, op).transposing(cx, op)?;
        linear.transposed(cx, op)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        Closed::new(self, op).batched(cx, op)
    }
}
