//! `check.*`: the comparisons of StableHLO's own test programs. They have no result; a difference
//! is an error of the evaluation.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::DType;

/// A comparison of operand 0 with operand 1, or with a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// How close they must be.
    pub kind: CheckKind,
    /// The expected value, if it is not operand 1.
    pub expected: Option<Literal>,
}

/// How close two values must be; NaN is close to NaN, an infinity to itself only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckKind {
    /// Equal.
    Equal,
    /// At most this far apart.
    Almost(f64),
    /// At most so many representable values apart.
    Ulps(u64),
}

impl Check {
    /// An error that says what differs, if something does.
    pub fn compare(&self, got: &Literal, expected: &Literal) -> Result<(), String> {
        let dtype = got.ty().dtype;
        for position in 0..got.ty().len() {
            for part in 0..dtype.parts() {
                let (a, b) = (got.bits(position, part), expected.bits(position, part));
                if !self.close(dtype.part(), a, b) {
                    return Err(format!(
                        "check: element {position} is {}, expected {}",
                        show(dtype.part(), a),
                        show(dtype.part(), b)
                    ));
                }
            }
        }
        Ok(())
    }

    fn close(&self, dtype: DType, a: u64, b: u64) -> bool {
        if !dtype.is_float() {
            return a == b;
        }
        let (x, y) = (float(dtype, a), float(dtype, b));
        if x == y || (x.is_nan() && y.is_nan()) {
            return true;
        }
        match self.kind {
            CheckKind::Equal => false,
            _ if !x.is_finite() || !y.is_finite() => false,
            CheckKind::Almost(tolerance) => (x - y).abs() <= tolerance,
            CheckKind::Ulps(most) => rank(dtype, a).abs_diff(rank(dtype, b)) <= u128::from(most),
        }
    }
}

fn float(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}

fn show(dtype: DType, bits: u64) -> String {
    if dtype.is_float() { format!("{:e}", float(dtype, bits)) } else { format!("{bits:#x}") }
}

/// The position of a float among all floats of its type, zero in the middle.
fn rank(dtype: DType, bits: u64) -> i128 {
    let narrow = crate::literal::narrow(bits, dtype);
    let mut wide = [0; 8];
    wide[..narrow.len()].copy_from_slice(&narrow);
    let sign = 1u64 << (8 * dtype.size() - 1);
    let bits = u64::from_le_bytes(wide);
    let magnitude = i128::from(bits & (sign - 1));
    if bits & sign == 0 { magnitude } else { -magnitude }
}

impl StructuredOp for Check {
    const NAMES: &'static [&'static str] = &[
        "check.expect_eq",
        "check.expect_eq_const",
        "check.expect_almost_eq",
        "check.expect_almost_eq_const",
        "check.expect_close",
    ];

    fn from_attributes(
        name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let expected = match attributes.take("value") {
            Some(Attribute::Dense(value)) => Some(value),
            _ if signature.operands.len() == 2 => None,
            _ => return Err(format!("{name}: the expected value is missing")),
        };
        // Printed under one name, the kind follows from the attributes.
        let most = attributes.take_int("max_ulp_difference")?;
        let tolerance = match attributes.take("tolerance") {
            Some(Attribute::Float(value, _)) => Some(value),
            _ => None,
        };
        let kind = match (name, most, tolerance) {
            ("check.expect_close", None, _) => CheckKind::Ulps(3),
            (_, Some(most), _) => CheckKind::Ulps(most.unsigned_abs()),
            (_, None, Some(tolerance)) => CheckKind::Almost(tolerance),
            (name, None, None) if name.starts_with("check.expect_almost") => {
                CheckKind::Almost(0.001)
            }
            _ => CheckKind::Equal,
        };
        Ok(Check { kind, expected })
    }

    fn attributes(&self) -> Attributes {
        let attributes = match &self.expected {
            Some(value) => Attributes::new().with("value", Attribute::Dense(value.clone())),
            None => Attributes::new(),
        };
        match self.kind {
            CheckKind::Ulps(most) => attributes.with_int("max_ulp_difference", most as i64),
            CheckKind::Almost(tolerance) => {
                attributes.with("tolerance", Attribute::Float(tolerance, None))
            }
            CheckKind::Equal => attributes,
        }
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("check", 1 + usize::from(self.expected.is_none()), 0)?;
        let got = &signature.operands[0];
        let expected = self.expected.as_ref().map_or(&signature.operands[signature.operands.len() - 1], |e| e.ty());
        if got != expected {
            return Err(format!("check: operand is {got}, expected value is {expected}"));
        }
        Ok(Vec::new())
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let expected = self.expected.as_ref().unwrap_or_else(|| &operands[1]);
        self.compare(&operands[0], expected)?;
        Ok(Vec::new())
    }

    /// Never lowered: whoever runs such a program makes the operands results and compares those.
    fn lower<'a>(&'a self, _op: OpView<'a>) -> Lowering<'a> {
        Lowering::Control
    }
}

impl Rules for Check {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_constant(op)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it has no result")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let size = cx.size();
        let repeated = |literal: &Literal| {
            let mut ty = literal.ty().clone();
            ty.shape.insert(0, size);
            Literal::dense(ty, literal.to_bytes().repeat(size as usize))
        };
        let expected = self.expected.as_ref().map(repeated);
        cx.with(op, Check { kind: self.kind, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};

    #[test]
    fn rules() {
        let x = values(&[2], 1);
        let constant = Check { kind: CheckKind::Almost(100.0), expected: Some(x.clone()) };
        let other = Check { kind: CheckKind::Equal, expected: None };
        check_body(&[x], |b, x| {
            b.push(constant, x, &[])?;
            b.push(other, &[x[0], x[0]], &[])?;
            Ok(x.to_vec())
        });
    }
}
