//! `jaxrs.scan`: a region run a known number of times, over slices of tensors. An op of the front
//! end: [`crate::transform::lower`] makes it a `stablehlo.while`.
//!
//! Operands are constants (the same for every step), the carries' first values, and tensors whose
//! first axis runs over the steps. The region takes the constants, the carries, and one slice of
//! each tensor; it gives the next carries and one slice of each stacked result. Results are the
//! last carries, then the stacked ones. In reverse the steps go from the last slice to the first.

mod rules;
#[cfg(test)]
mod tests;
mod transposed;

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;

/// A scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// Steps.
    pub length: u64,
    /// Whether the steps go from the last slice to the first.
    pub reverse: bool,
    /// How many operands are constants.
    pub consts: usize,
    /// How many operands behind them are carries.
    pub carries: usize,
}

impl Scan {
    /// The number of the slice that a step takes.
    pub fn slice(&self, step: u64) -> u64 {
        if self.reverse { self.length - 1 - step } else { step }
    }
}

/// The type of a slice of a tensor along the first axis.
fn slice_type(ty: &TensorType) -> TensorType {
    TensorType::new(&ty.shape[1..], ty.dtype)
}

impl StructuredOp for Scan {
    const NAMES: &'static [&'static str] = &["jaxrs.scan"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let mut count = |name: &str| {
            let value = attributes.need_int(name)?;
            u64::try_from(value).map_err(|_| format!("scan: {name} is {value}"))
        };
        Ok(Scan {
            length: count("length")?,
            consts: count("consts")? as usize,
            carries: count("carries")? as usize,
            reverse: attributes.take_bool("reverse", false)?,
        })
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
            .with_int("carries", self.carries as i64)
            .with_int("consts", self.consts as i64)
            .with_int("length", self.length as i64)
            .with("reverse", Attribute::Bool(self.reverse))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("scan", signature.operands.len(), 1)?;
        let first = self.consts.saturating_add(self.carries);
        let Some((fixed, tensors)) = signature.operands.split_at_checked(first) else {
            return Err(format!(
                "scan: {} constants and {} carries, but {} operands",
                self.consts,
                self.carries,
                signature.operands.len()
            ));
        };
        // Steps are counted in 32 bits, as JAX does it.
        if self.length > i32::MAX as u64 {
            return Err(format!("scan: {} steps are too many", self.length));
        }
        let carries = &fixed[self.consts..];
        let mut expected = fixed.to_vec();
        for ty in tensors {
            if ty.shape.first() != Some(&self.length) {
                return Err(format!("scan: {ty} has no first axis of {} steps", self.length));
            }
            expected.push(slice_type(ty));
        }
        let (arguments, yields) = &signature.regions[0];
        super::same_types("scan: arguments of the region", arguments, &expected)?;
        let (next, slices) = yields.split_at(self.carries.min(yields.len()));
        super::same_types("scan: carries that the region gives", next, carries)?;
        let mut results = carries.to_vec();
        for ty in slices {
            let shape = [&[self.length], &ty.shape[..]].concat();
            results.push(TensorType::checked("scan", shape, ty.dtype)?);
        }
        Ok(results)
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (fixed, tensors) = operands.split_at(self.consts + self.carries);
        let (consts, carries) = fixed.split_at(self.consts);
        let mut carries = carries.to_vec();
        let mut steps: Vec<Vec<Literal>> = Vec::new();
        for step in 0..self.length {
            let mut arguments = [consts, &carries].concat();
            for tensor in tensors {
                let ty = slice_type(tensor.ty());
                let (bytes, at) = (ty.bytes() as usize, self.slice(step) as usize);
                let slice = tensor.bytes()[at * bytes..(at + 1) * bytes].to_vec();
                arguments.push(Literal::dense(ty, slice));
            }
            let mut yields = frame.region(op.region(0), &arguments)?;
            steps.push(yields.split_off(self.carries));
            carries = yields;
        }
        if self.reverse {
            steps.reverse();
        }
        let mut results = carries;
        for n in self.carries..op.data().results.len() {
            let slices = steps.iter().flat_map(|slices| slices[n - self.carries].to_bytes());
            results.push(Literal::dense(op.result_type(n).clone(), slices.collect()));
        }
        Ok(results)
    }

    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}
