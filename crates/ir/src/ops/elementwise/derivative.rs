//! Derivatives of the elementwise ops.

use super::Elementwise;
use crate::ops::OpView;
use crate::transform::{Jvp, Rule, Transposition, none};

impl Elementwise {
    /// See [`crate::transform::Rules::jvp`].
    pub fn jvp(self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        match self.name() {
            "stablehlo.add" | "stablehlo.subtract" | "stablehlo.negate" => cx.is_linear(op),
            "stablehlo.multiply" => cx.is_bilinear(op),
            _ => none(op, "derivative", "it is not written yet"),
        }
    }

    /// See [`crate::transform::Rules::transpose`].
    pub fn transpose(self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let Some(ct) = cx.cotangent(op.result(0)) else { return Ok(()) };
        match self.name() {
            "stablehlo.add" => {
                for &operand in &op.data().operands {
                    if cx.is_linear(operand) {
                        cx.add(operand, ct)?;
                    }
                }
                Ok(())
            }
            "stablehlo.multiply" => {
                let (x, y) = (op.operand(0), op.operand(1));
                let (linear, other) = if cx.is_linear(x) { (x, y) } else { (y, x) };
                let factor = cx.value(other);
                let term = cx.builder().multiply(ct, factor)?;
                cx.add(linear, term)
            }
            _ => none(op, "transpose", "it is not written yet"),
        }
    }
}
