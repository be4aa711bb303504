//! What a row of the table says of the op's derivative, and the rules that follow.

use super::Elementwise;
use crate::builder::Builder;
use crate::function::ValueId;
use crate::ops::OpView;
use crate::transform::{Jvp, Rule, Transposition, none};
use Derivative::{Bilinear, Linear, Partials, Special, Zero};
use Partial::{One, Over, Times, Without};
use jaxrs_kernel::DType;

/// A value, appended from the operands and the result.
pub type Formula = fn(&mut Builder<'_>, &[ValueId], ValueId) -> Result<ValueId, String>;

/// The cotangent of an operand, whose position and element type are given, from the result's; None
/// is zero.
pub type Transposed =
    fn(&mut Builder<'_>, ValueId, usize, DType) -> Result<Option<ValueId>, String>;

/// The derivative of a row.
#[derive(Clone, Copy)]
pub enum Derivative {
    /// It is linear (over the real numbers): the tangent is the op on the tangents.
    Linear(Transposed),
    /// It is linear in each of its two operands.
    Bilinear,
    /// It has a partial derivative for each operand.
    Partials(&'static [Partial]),
    /// A rule of its own.
    Special(fn(&mut Jvp<'_>, OpView<'_>) -> Rule),
    /// It moves in steps only, or its types have no tangents.
    Zero,
    /// By decision none, for this reason.
    None(&'static str),
}

/// What becomes of the tangent of an operand.
#[derive(Clone, Copy)]
pub enum Partial {
    /// It is the result's.
    One,
    /// It is multiplied.
    Times(Formula),
    /// It is divided.
    Over(Formula),
    /// By decision there is no such derivative, for this reason.
    Without(&'static str),
}

impl Elementwise {
    /// See [`crate::transform::Rules::jvp`].
    pub fn jvp(self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        match self.row().derivative {
            Linear(_) => cx.is_linear(op),
            Bilinear => cx.is_bilinear(op),
            Partials(partials) => self.sum_of(partials, cx, op),
            Special(rule) => rule(cx, op),
            Zero => cx.is_constant(op),
            Derivative::None(why) => none(op, "derivative", why),
        }
    }

    fn sum_of(self, partials: &[Partial], cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let result = cx.copy(op)[0];
        let operands = cx.values(&op.data().operands);
        let mut sum = None;
        for (partial, &operand) in partials.iter().zip(&op.data().operands) {
            let Some(tangent) = cx.tangent(operand) else { continue };
            let term = match partial {
                One => tangent,
                Times(formula) | Over(formula) => {
                    let factor = formula(&mut cx.primal(), &operands, result)?;
                    let factor = cx.residual(factor);
                    match partial {
                        Over(_) => cx.linear().divide(tangent, factor)?,
                        _ => cx.linear().multiply(tangent, factor)?,
                    }
                }
                Without(why) => return none(op, "derivative", why),
            };
            sum = Some(match sum {
                Some(sum) => cx.linear().add(sum, term)?,
                None => term,
            });
        }
        if let Some(sum) = sum {
            cx.bind_tangent(op.result(0), sum);
        }
        Ok(())
    }

    /// See [`crate::transform::Rules::transpose`].
    pub fn transpose(self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let Some(ct) = cx.cotangent(op.result(0)) else { return Ok(()) };
        let operands = &op.data().operands;
        let known = operands.iter().position(|&v| !cx.is_linear(v));
        match (self.row().derivative, known) {
            (Linear(transposed), _) => {
                for (position, &operand) in operands.iter().enumerate() {
                    let dtype = op.operand_type(position).dtype;
                    if cx.is_linear(operand)
                        && let Some(ct) = transposed(&mut cx.builder(), ct, position, dtype)?
                    {
                        cx.add(operand, ct)?;
                    }
                }
                Ok(())
            }
            (Bilinear, Some(known)) => {
                let factor = cx.value(operands[known]);
                let ct = cx.builder().multiply(ct, factor)?;
                cx.add(operands[1 - known], ct)
            }
            (_, Some(1)) if self.name() == "stablehlo.divide" => {
                let divisor = cx.value(operands[1]);
                let ct = cx.builder().divide(ct, divisor)?;
                cx.add(operands[0], ct)
            }
            _ => none(op, "transpose", "it is not linear in these operands"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;
    use crate::interpret;
    use crate::literal::Literal;
    use crate::ops::elementwise::TABLE;
    use crate::testing::tensor;
    use crate::transform::testing::{
        Options, batches, derivatives, function, gradient, numbers, spread,
    };
    use crate::transform::{is_differentiable, jvp};
    use crate::types::TensorType;

    /// Where a row's operands lie, if not between -2 and 2.
    fn domain(name: &str, position: usize) -> (f64, f64) {
        match (name, position) {
            ("stablehlo.sqrt" | "stablehlo.rsqrt" | "stablehlo.log" | "stablehlo.cbrt", _) => {
                (0.3, 2.5)
            }
            ("stablehlo.power", 0) | ("chlo.lgamma" | "chlo.digamma" | "stablehlo.divide", _) => {
                (0.5, 3.0)
            }
            ("stablehlo.log_plus_one", _) => (-0.6, 2.0),
            ("chlo.asin" | "chlo.acos" | "chlo.atanh" | "chlo.erf_inv", _) => (-0.9, 0.9),
            ("chlo.acosh", _) => (1.3, 3.0),
            ("stablehlo.remainder", 0) => (-7.0, 7.0),
            ("stablehlo.remainder", 1) => (1.5, 2.5),
            ("chlo.polygamma" | "chlo.zeta", _) => (2.0, 4.0),
            _ => (-2.0, 2.0),
        }
    }

    fn row_function(name: &str, types: &[TensorType]) -> Function {
        function(types, |b, x| Ok(vec![b.elementwise(name, x)?]))
    }

    #[test]
    fn every_row() {
        let options = Options::default();
        for row in TABLE {
            for dtype in [DType::F64, DType::C128].into_iter().filter(|&d| (row.accepts)(d)) {
                for shape in [&[][..], &[7]] {
                    let input = |n: usize| {
                        if (row.name, n) == ("chlo.polygamma", 0) {
                            let order = |at: u64| (1 + at % 3) as f64;
                            let len = shape.iter().product::<u64>();
                            return tensor(
                                dtype,
                                shape,
                                &(0..len).map(order).collect::<Vec<f64>>(),
                            );
                        }
                        let (low, high) = domain(row.name, n);
                        spread(dtype, shape, low, high, 3 + n as u64)
                    };
                    let inputs: Vec<Literal> = (0..row.arity).map(input).collect();
                    let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
                    let f = row_function(row.name, &types);
                    let each: Vec<Vec<bool>> = match row.derivative {
                        Derivative::None(_) => Vec::new(),
                        Partials([Without(_), _]) => vec![vec![false, true]],
                        _ if row.arity == 2 => {
                            vec![vec![true, true], vec![true, false], vec![false, true]]
                        }
                        _ => vec![vec![true]],
                    };
                    for active in each {
                        // Second derivatives by all operands need those by the order.
                        let second = !matches!(row.derivative, Partials([Without(_), _]));
                        derivatives(&f, &inputs, &active, Options { second, ..options });
                    }
                    batches(&f, &inputs);
                }
            }
        }
    }

    #[test]
    fn every_row_in_every_type() {
        for row in TABLE {
            for dtype in DType::ALL.into_iter().filter(|&d| (row.accepts)(d)) {
                let types = vec![TensorType::new([2], dtype); row.arity];
                let f = row_function(row.name, &types);
                let inputs: Vec<Literal> = types
                    .iter()
                    .map(|ty| Literal::splat(ty.clone(), &vec![0; dtype.size() as usize]))
                    .collect();
                let mut active = vec![is_differentiable(dtype); row.arity];
                match row.derivative {
                    Derivative::None(_) => continue,
                    Partials([Without(_), _]) => active[0] = false,
                    _ => {}
                }
                let (gradient, inputs) = gradient(&f, &inputs, &active);
                assert_eq!(crate::verify::verify_function(&gradient, None), []);
                interpret::call(None, &gradient, &inputs).expect("the gradient runs");
            }
        }
    }

    #[test]
    fn at_kinks_and_poles() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let cases: &[(&str, &[f64], &[f64])] = &[
            ("stablehlo.maximum", &[1.0, 1.0], &[0.5, 0.5]),
            ("stablehlo.minimum", &[1.0, 1.0], &[0.5, 0.5]),
            ("stablehlo.maximum", &[1.0, 2.0], &[0.0, 1.0]),
            ("stablehlo.minimum", &[1.0, 2.0], &[1.0, 0.0]),
            ("stablehlo.abs", &[0.0], &[1.0]),
            ("stablehlo.abs", &[-0.0], &[1.0]),
            ("stablehlo.power", &[0.0, 2.0], &[0.0, 0.0]),
            ("stablehlo.power", &[0.0, 1.0], &[1.0, 0.0]),
            ("stablehlo.power", &[0.0, 0.0], &[nan, 0.0]),
            ("stablehlo.power", &[-2.0, 3.0], &[12.0, nan]),
            ("stablehlo.sqrt", &[0.0], &[inf]),
            ("stablehlo.cbrt", &[0.0], &[inf]),
            ("stablehlo.log", &[0.0], &[inf]),
            ("stablehlo.atan2", &[0.0, 0.0], &[nan, nan]),
            ("stablehlo.tanh", &[100.0], &[0.0]),
            ("stablehlo.logistic", &[-1000.0], &[0.0]),
            ("chlo.bessel_i1e", &[0.0], &[0.5]),
            ("stablehlo.remainder", &[5.0, 3.0], &[1.0, -1.0]),
            ("stablehlo.remainder", &[-5.0, 3.0], &[1.0, 1.0]),
            ("stablehlo.floor", &[2.0], &[0.0]),
        ];
        for (name, at, expected) in cases {
            let inputs: Vec<Literal> = at.iter().map(|&x| tensor(DType::F64, &[], &[x])).collect();
            let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
            let f = row_function(name, &types);
            for (n, &expected) in expected.iter().enumerate() {
                let active: Vec<bool> = (0..at.len()).map(|m| m == n).collect();
                let forward = jvp(&f, &active).expect("a derivative");
                let one = tensor(DType::F64, &[], &[1.0]);
                let results =
                    interpret::call(None, &forward.function, &[&inputs[..], &[one]].concat());
                let results = results.expect("it runs");
                let got = results.get(1).map_or(0.0, |tangent| numbers(tangent)[0]);
                let equal = got == expected || got.is_nan() && expected.is_nan();
                assert!(equal, "{name} at {at:?} by operand {n}: {got}, not {expected}");
            }
        }
    }

    #[test]
    fn there_is_none_by_decision() {
        for (name, why) in [
            ("chlo.next_after", "it steps through the numbers of a format"),
            ("chlo.zeta", "no op gives the derivative of zeta by its exponent"),
        ] {
            let f = row_function(name, &vec![TensorType::scalar(DType::F64); 2]);
            let error = jvp(&f, &[true, false]).err().expect("no derivative");
            assert!(error.message.contains(why), "{error:?}");
        }
    }
}
