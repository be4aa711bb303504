//! Rules of `while`: forward mode carries tangents beside the values; reverse mode there is none, by
//! decision, as the number of steps is not known. A batch whose elements take different numbers of
//! steps goes on until all are done, and keeps the values of those that are.

use super::While;
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::ops::OpView;
use crate::ops::case::select_elements;
use crate::region;
use crate::transform::{Batch, Batched, Jvp, Rule, Rules, Transposition, batch, jvp, none};
use crate::types::TensorType;
use jaxrs_kernel::DType;

/// Condition and body as functions, from the carries and the values that each uses of enclosing
/// blocks.
struct Parts {
    condition: (Function, Vec<ValueId>),
    body: (Function, Vec<ValueId>),
}

impl Parts {
    fn new(op: OpView<'_>) -> Parts {
        Parts {
            condition: region::extract(op.function, op.region(0)),
            body: region::extract(op.function, op.region(1)),
        }
    }
}

/// Appends a loop whose condition and body are built by functions of the carries.
fn emit(
    b: &mut Builder<'_>,
    first: &[ValueId],
    condition: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
    body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Result<Vec<ValueId>, String> {
    let types = b.types(first);
    let condition = b.region(&types, condition)?;
    let body = b.region(&types, body)?;
    b.push(While, first, &[condition, body])
}

fn filled<T: Copy>(flags: &[bool], values: &[T]) -> Vec<Option<T>> {
    let mut values = values.iter().copied();
    flags.iter().map(|&flag| if flag { values.next() } else { None }).collect()
}

/// Whether a predicate holds for any element of a batch.
fn any(b: &mut Builder<'_>, predicate: ValueId) -> Result<ValueId, String> {
    let no = b.zeros(&TensorType::scalar(DType::I1))?;
    b.reduce("stablehlo.or", predicate, no, &[0])
}

/// The loop over a batch: which carries have the batch axis, and condition and body for these.
fn batched(parts: &Parts, cx: &Batch<'_>, op: OpView<'_>) -> Result<(Batched, Batched, Vec<bool>), String> {
    let mut carries: Vec<bool> = op.data().operands.iter().map(|&v| cx.is_batched(v)).collect();
    let flags = |carries: &[bool], captured: &[ValueId]| -> Vec<bool> {
        carries.iter().copied().chain(captured.iter().map(|&v| cx.is_batched(v))).collect()
    };
    let body = &parts.body.0;
    loop {
        let of_condition = flags(&carries, &parts.condition.1);
        let condition = batch(&parts.condition.0, &of_condition, cx.size());
        let condition = condition.map_err(|error| error.message)?;
        let over = batch(body, &flags(&carries, &parts.body.1), cx.size());
        let over = over.map_err(|error| error.message)?;
        let mut changed = false;
        for (n, carry) in carries.iter_mut().enumerate() {
            // Where elements stop apart, all that changes differs between them.
            let changes = condition.results[0] && body.results()[n] != body.parameters()[n];
            if !*carry && (over.results[n] || changes) {
                (*carry, changed) = (true, true);
            }
        }
        if !changed {
            return Ok((condition, over, carries));
        }
    }
}

impl Rules for While {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let parts = Parts::new(op);
        let (body, captured) = &parts.body;
        let operands = &op.data().operands;
        let mut flags: Vec<bool> =
            operands.iter().chain(captured).map(|&v| cx.tangent(v).is_some()).collect();
        let both = loop {
            let both = jvp(body, &flags).map_err(|error| error.message)?;
            let pairs = flags.iter_mut().zip(&both.tangents);
            let new = pairs.filter(|(flag, result)| **result && !**flag);
            if new.map(|(flag, _)| *flag = true).count() == 0 {
                break both;
            }
        };
        let count = operands.len();
        let carries = &flags[..count];
        if !carries.contains(&true) {
            cx.copy(op);
            return Ok(());
        }
        if cx.is_reverse() {
            return none(
                op,
                "derivative in reverse mode",
                "the number of its steps is not known; use fori_loop with a known trip count, or \
                 scan",
            );
        }
        let mut first = cx.values(operands);
        for (&operand, _) in operands.iter().zip(carries).filter(|(_, flag)| **flag) {
            first.push(cx.tangent_or_zero(operand)?);
        }
        let outer = cx.values(captured);
        let outer_tangents: Vec<ValueId> = captured.iter().filter_map(|&v| cx.tangent(v)).collect();
        let of_condition = cx.values(&parts.condition.1);
        let results = emit(
            &mut cx.primal(),
            &first,
            |b, x| Ok(b.inline(&parts.condition.0, &[&x[..count], &of_condition].concat())),
            |b, x| {
                let (values, tangents) = x.split_at(count);
                let inputs = [values, &outer, tangents, &outer_tangents].concat();
                let mut next = b.inline(&both.function, &inputs);
                let new = filled(&both.tangents, &next.split_off(count));
                let old = filled(carries, tangents);
                for (new, old) in new.into_iter().zip(old) {
                    let Some(old) = old else { continue };
                    next.push(match new {
                        Some(new) => new,
                        None => b.full_like(old, 0.0)?,
                    });
                }
                Ok(next)
            },
        )?;
        let tangents = filled(carries, &results[count..]);
        for ((&result, &value), tangent) in op.data().results.iter().zip(&results).zip(tangents) {
            cx.bind(result, value, tangent);
        }
        Ok(())
    }

    fn transpose(&self, _cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "the number of its steps is not known; use scan")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let parts = Parts::new(op);
        let (condition, body, carries) = batched(&parts, cx, op)?;
        let apart = condition.results[0];
        let mut first = Vec::with_capacity(carries.len());
        for (&operand, &flag) in op.data().operands.iter().zip(&carries) {
            first.push(if flag { cx.full(operand)? } else { cx.value(operand) });
        }
        let values = |cx: &Batch<'_>, captured: &[ValueId]| -> Vec<ValueId> {
            captured.iter().map(|&v| cx.value(v)).collect()
        };
        let of_condition = values(cx, &parts.condition.1);
        let of_body = values(cx, &parts.body.1);
        let size = cx.size();
        let results = emit(
            &mut cx.builder(),
            &first,
            |b, x| {
                let goes_on = b.inline(&condition.function, &[x, &of_condition].concat())[0];
                Ok(vec![if apart { any(b, goes_on)? } else { goes_on }])
            },
            |b, x| {
                let mut next = b.inline(&body.function, &[x, &of_body].concat());
                for ((next, &flag), &has_axis) in
                    next.iter_mut().zip(&carries).zip(&body.results)
                {
                    if flag && !has_axis {
                        *next = b.repeat(*next, 0, size)?;
                    }
                }
                if apart {
                    let goes_on = b.inline(&condition.function, &[x, &of_condition].concat())[0];
                    for ((next, &old), _) in
                        next.iter_mut().zip(x).zip(&carries).filter(|(_, flag)| **flag)
                    {
                        *next = select_elements(b, goes_on, *next, old)?;
                    }
                }
                Ok(next)
            },
        )?;
        for ((&result, value), flag) in op.data().results.iter().zip(results).zip(carries) {
            cx.bind(result, value, flag);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::program;
    use crate::transform::testing::{Options, check_with, ints, values};

    const FORWARD: Options =
        Options { reverse: false, second: true, batch: true, tolerance: 1e-6 };

    /// Multiplies by a factor while the counter is below a bound.
    const POWER: &str = "(%x: tensor<2xf64>, %w: tensor<2xf64>, %n: tensor<i32>)
          -> (tensor<2xf64>, tensor<i32>) {
        %z = stablehlo.constant dense<0> : tensor<i32>
        %0:2 = stablehlo.while(%a = %x, %i = %z) : tensor<2xf64>, tensor<i32>
        cond {
          %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
        } do {
          %c = stablehlo.constant dense<1> : tensor<i32>
          %1 = stablehlo.multiply %a, %w : tensor<2xf64>
          %2 = stablehlo.add %i, %c : tensor<i32>
          stablehlo.return %1, %2 : tensor<2xf64>, tensor<i32>
        }
        return %0#0, %0#1 : tensor<2xf64>, tensor<i32>
      }";

    #[test]
    fn counted_loops() {
        let inputs = [values(&[2], 1), values(&[2], 2), ints(&[], &[3])];
        check_with(&program(POWER), &inputs, FORWARD);
    }

    #[test]
    fn a_condition_on_values() {
        // Doubles until the sum is large; the carry that never changes has no batch axis.
        let f = program(
            "(%x: tensor<f64>, %y: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
              %0:2 = stablehlo.while(%a = %x, %b = %y) : tensor<f64>, tensor<f64>
              cond {
                %c = stablehlo.constant dense<50.0> : tensor<f64>
                %1 = stablehlo.multiply %a, %a : tensor<f64>
                %2 = stablehlo.compare LT, %1, %c, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
                stablehlo.return %2 : tensor<i1>
              } do {
                %1 = stablehlo.add %a, %a : tensor<f64>
                %2 = stablehlo.multiply %b, %b : tensor<f64>
                %3 = stablehlo.add %1, %2 : tensor<f64>
                stablehlo.return %3, %b : tensor<f64>, tensor<f64>
              }
              return %0#0, %0#1 : tensor<f64>, tensor<f64>
            }",
        );
        check_with(&f, &[values(&[], 1), values(&[], 5)], FORWARD);
    }

    #[test]
    fn reverse_mode_says_what_to_use() {
        let f = program(POWER);
        let error = crate::transform::linearize(&f, &[true, false, false]).map(|_| ()).unwrap_err();
        assert!(error.message.contains("use fori_loop with a known trip count"), "{error:?}");
    }
}
