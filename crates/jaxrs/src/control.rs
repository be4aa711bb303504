//! Loops and choices of traced functions, and functions with rules of their own.

use crate::array::{Array, Operand};
use crate::error::{Error, Place};
use crate::trace::{self, Traced};
use crate::transform::{batch_size, failed, fill, first_error, types};
use crate::tree::Tree;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::ops;
use jaxrs_ir::transform::is_differentiable;
use jaxrs_ir::{BlockId, DType, Function, TensorType, ValueId};
use std::cell::RefCell;
use std::ops::Range;

pub use jaxrs_ir::ops::checkpoint::Policy;

/// A region that is a traced closure: its arguments are those of the closure; what the closure
/// captured are values of the enclosing block.
fn region(
    b: &mut Builder<'_>,
    function: &Function,
    arguments: usize,
    captured: &[ValueId],
) -> Result<BlockId, String> {
    let parameters = &function.parameters()[..arguments];
    let types: Vec<TensorType> = parameters.iter().map(|&v| function.ty(v).clone()).collect();
    b.region(&types, |b, values| {
        let all: Vec<ValueId> = values.iter().chain(captured).copied().collect();
        Ok(b.inline(function, &all))
    })
}

/// Arrays that operations take, in groups that their values can be told apart by.
#[derive(Default)]
struct Groups<'a> {
    arrays: Vec<&'a Array>,
    ends: Vec<usize>,
}

impl<'a> Groups<'a> {
    fn of(groups: &[&'a [Array]]) -> Groups<'a> {
        let mut out = Groups::default();
        for group in groups {
            out.arrays.extend(group.iter());
            out.ends.push(out.arrays.len());
        }
        out
    }

    fn values<'v>(&self, values: &'v [ValueId], group: usize) -> &'v [ValueId] {
        let start = if group == 0 { 0 } else { self.ends[group - 1] };
        &values[start..self.ends[group]]
    }
}

/// What `attempt` makes of the argument's arrays; if it fails, or one of them holds an error, what
/// `f` gives for the argument, with the error in each place.
fn on_leaves<A: Tree, R: Tree>(
    argument: &A,
    f: impl Fn(&A) -> R,
    attempt: impl FnOnce(Vec<Array>) -> Result<R, Error>,
) -> R {
    let leaves = argument.leaves();
    let outcome = match first_error(&leaves) {
        Some(error) => Err(error),
        None => attempt(leaves),
    };
    outcome.unwrap_or_else(|error| failed(&f(&failed(argument, &error)), &error))
}

/// An error unless the carry that a step gives has the types of the one it takes.
fn same_carry(
    what: &str,
    before: &[Array],
    after: &[TensorType],
    place: Place,
) -> Result<(), Error> {
    if before.len() != after.len() {
        let (before, after) = (before.len(), after.len());
        let message = format!("{what}: the carry has {before} arrays, a step gives {after}");
        return Err(Error::new(message, place));
    }
    for (position, (array, ty)) in before.iter().zip(after).enumerate() {
        if array.ty() != ty {
            let message = format!(
                "{what}: array {position} of the carry is {}, a step gives {ty} for it",
                array.ty()
            );
            let fix = "start with that type (astype, broadcast_to), or convert in the step";
            return Err(Error::new(message, place).note(fix));
        }
    }
    Ok(())
}

fn result_types(function: &Function) -> Vec<TensorType> {
    function.results().iter().map(|&value| function.ty(value).clone()).collect()
}

/// Runs `f` once for each position of the first axis of `xs`, handing a carry on: the last carry,
/// and the outputs of all steps stacked along a new first axis. It is differentiable in both modes.
///
/// ```
/// use jaxrs::prelude::*;
/// let xs = Array::from_vec(vec![1.0f32, 2.0, 3.0]);
/// let (sum, sums) = scan(|sum: &Array, x: &Array| (sum + x, sum + x), &Array::scalar(0.0f32), &xs);
/// assert_eq!(sum.item::<f32>()?, 6.0);
/// assert_eq!(sums.to_vec::<f32>()?, [1.0, 3.0, 6.0]);
/// # Ok::<(), jaxrs::Error>(())
/// ```
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree>(f: impl Fn(&C, &X) -> (C, Y), init: &C, xs: &X) -> (C, Y) {
    let place = Place::here();
    let slices = xs.leaves();
    match slices.first().map(|first| (first.ty().clone(), first.shape().first().copied())) {
        Some((_, Some(length))) => steps(f, init, xs, length, false, place),
        _ => {
            let error = Error::new("scan: no array of xs has an axis to go along", place)
                .note("for a number of steps without slices use fori_loop");
            let (carry, out) = f(&failed(init, &error), &failed(xs, &error));
            (failed(&carry, &error), failed(&out, &error))
        }
    }
}

/// [`scan`] from the last position to the first.
#[track_caller]
pub fn scan_reverse<C: Tree, X: Tree, Y: Tree>(
    f: impl Fn(&C, &X) -> (C, Y),
    init: &C,
    xs: &X,
) -> (C, Y) {
    let length = xs.leaves().first().and_then(|first| first.shape().first().copied());
    steps(f, init, xs, length.unwrap_or(0), true, Place::here())
}

fn steps<C: Tree, X: Tree, Y: Tree>(
    f: impl Fn(&C, &X) -> (C, Y),
    init: &C,
    xs: &X,
    length: u64,
    reverse: bool,
    place: Place,
) -> (C, Y) {
    let attempt = || {
        let (carries, slices) = (init.leaves(), xs.leaves());
        if let Some(error) = first_error(&carries).or_else(|| first_error(&slices)) {
            return Err(error);
        }
        let mut parameters = types(&carries);
        for slice in &slices {
            if slice.shape().first() != Some(&length) {
                let message = format!("scan: {} has not {length} slices", slice.ty());
                return Err(Error::new(message, place));
            }
            parameters.push(TensorType::new(&slice.shape()[1..], slice.dtype()));
        }
        let traced = trace::trace("scan", &parameters, place, |mut arrays| {
            let elements = arrays.split_off(carries.len());
            f(&fill(init, arrays), &fill(xs, elements))
        })?;
        let given = result_types(&traced.function);
        let count = traced.result.0.leaves().len();
        same_carry("scan", &carries, &given[..count], place)?;
        let groups = Groups::of(&[&traced.captures, &carries, &slices]);
        let op = ops::Scan { length, reverse, consts: traced.captures.len(), carries: count };
        let mut results = trace::record(&groups.arrays, given.len(), place, |b, values| {
            let consts = b.types(groups.values(values, 0));
            let arguments = [consts, parameters.clone()].concat();
            let region = b.region(&arguments, |b, inner| {
                let (consts, rest) = inner.split_at(traced.captures.len());
                let all: Vec<ValueId> = rest.iter().chain(consts).copied().collect();
                Ok(b.inline(&traced.function, &all))
            })?;
            b.push(op, values, &[region])
        });
        let outputs = results.split_off(count);
        Ok((fill(&traced.result.0, results), fill(&traced.result.1, outputs)))
    };
    attempt().unwrap_or_else(|error: Error| {
        let (carry, out) = f(&failed(init, &error), &failed(xs, &error));
        (failed(&carry, &error), failed(&out, &error))
    })
}

/// Runs `f` for each number of the range, handing a carry on: the last carry. The number is an
/// `i32`. It is differentiable in both modes.
#[track_caller]
pub fn fori_loop<C: Tree>(range: Range<i32>, f: impl Fn(&Array, &C) -> C, init: &C) -> C {
    let place = Place::here();
    let length = i64::from(range.end) - i64::from(range.start);
    let first = Operand::Int(range.start.into()).into_array(DType::I32, place);
    let step = |(i, carry): &(Array, C), (): &()| ((i + 1, f(i, carry)), ());
    let start = (first, init.map(Array::clone));
    steps(step, &start, &(), length.max(0) as u64, false, place).0.1
}

/// Runs `body` as long as `condition` holds of the carry: the last carry. It is differentiable in
/// forward mode only, because the number of steps is not known.
#[track_caller]
pub fn while_loop<C: Tree>(condition: impl Fn(&C) -> Array, body: impl Fn(&C) -> C, init: &C) -> C {
    let place = Place::here();
    on_leaves(init, &body, |carries| {
        let parameters = types(&carries);
        let holds =
            trace::trace("condition", &parameters, place, |arrays| condition(&fill(init, arrays)))?;
        let next = trace::trace("body", &parameters, place, |arrays| body(&fill(init, arrays)))?;
        same_carry("while_loop", &carries, &result_types(&next.function), place)?;
        let groups = Groups::of(&[&carries, &holds.captures, &next.captures]);
        let results = trace::record(&groups.arrays, carries.len(), place, |b, values| {
            let regions = [
                region(b, &holds.function, carries.len(), groups.values(values, 1))?,
                region(b, &next.function, carries.len(), groups.values(values, 2))?,
            ];
            b.push(ops::While, groups.values(values, 0), &regions)
        });
        Ok(fill(&next.result, results))
    })
}

/// `on_true` of the operand where the rank-0 predicate holds, else `on_false`; only one of them
/// runs. Both give trees of the same types.
#[track_caller]
pub fn cond<A: Tree, R: Tree>(
    predicate: &Array,
    on_true: impl Fn(&A) -> R,
    on_false: impl Fn(&A) -> R,
    operand: &A,
) -> R {
    let index = predicate.ne(0).astype(DType::I32);
    choose("cond", &index, &[&on_false, &on_true], operand, Place::here())
}

/// The branch of this number, of the operand; only one runs. The rank-0 index is clamped to the
/// branches there are. All give trees of the same types.
///
/// # Panics
/// If there are no branches: then there is no tree that could hold an error.
#[track_caller]
pub fn switch<A: Tree, R: Tree>(index: &Array, branches: &[&dyn Fn(&A) -> R], operand: &A) -> R {
    assert!(!branches.is_empty(), "switch: there are no branches");
    let last = branches.len() as i64 - 1;
    let index = index.maximum(0).minimum(last).astype(DType::I32);
    choose("switch", &index, branches, operand, Place::here())
}

fn choose<A: Tree, R: Tree>(
    what: &str,
    index: &Array,
    branches: &[&dyn Fn(&A) -> R],
    operand: &A,
    place: Place,
) -> R {
    on_leaves(operand, branches[0], |leaves| {
        let parameters = types(&leaves);
        let mut traced: Vec<Traced<R>> = Vec::with_capacity(branches.len());
        for (position, branch) in branches.iter().enumerate() {
            let next = trace::trace("branch", &parameters, place, |arrays| {
                branch(&fill(operand, arrays))
            })?;
            if let Some(first) = traced.first()
                && result_types(&first.function) != result_types(&next.function)
            {
                let shown = |function: &Function| {
                    let types: Vec<String> =
                        result_types(function).iter().map(ToString::to_string).collect();
                    types.join(", ")
                };
                let message = format!(
                    "{what}: branch 0 gives {}, branch {position} gives {}",
                    shown(&first.function),
                    shown(&next.function)
                );
                return Err(Error::new(message, place));
            }
            traced.push(next);
        }
        let index = std::slice::from_ref(index);
        let mut lists: Vec<&[Array]> = vec![index, &leaves];
        lists.extend(traced.iter().map(|branch| branch.captures.as_slice()));
        let groups = Groups::of(&lists);
        let count = traced[0].function.results().len();
        let results = trace::record(&groups.arrays, count, place, |b, values| {
            let mut regions = Vec::with_capacity(traced.len());
            for (position, branch) in traced.iter().enumerate() {
                let captured = [groups.values(values, 1), groups.values(values, 2 + position)];
                regions.push(region(b, &branch.function, 0, &captured.concat())?);
            }
            b.push(ops::Case, groups.values(values, 0), &regions)
        });
        Ok(fill(&traced[0].result, results))
    })
}

/// `f` of each position of the first axis of `xs`, one after the other: the results stacked. It
/// needs the memory of one at a time, where [`crate::vmap`] takes all at once.
#[track_caller]
pub fn map<X: Tree, Y: Tree>(f: impl Fn(&X) -> Y, xs: &X) -> Y {
    let length = xs.leaves().first().and_then(|first| first.shape().first().copied());
    steps(|(): &(), x: &X| ((), f(x)), &(), xs, length.unwrap_or(0), false, Place::here()).1
}

/// [`map`] that takes `batch` positions at once.
#[track_caller]
pub fn map_batched<X: Tree, Y: Tree>(f: impl Fn(&X) -> Y, xs: &X, batch: u64) -> Y {
    let place = Place::here();
    let length = match batch_size("map_batched", &xs.leaves(), place) {
        Ok(length) => length,
        Err(error) => return failed(&f(&failed(xs, &error)), &error),
    };
    let batch = batch.clamp(1, length.max(1));
    let whole = length / batch * batch;
    let part = |from: u64, to: u64| {
        xs.map(|x| trace::one(&[x], place, |b, v| b.slice_axis(v[0], 0, from, to)))
    };
    let all = crate::vmap(&f);
    let blocks = part(0, whole).map(|x| {
        let shape = [&[whole / batch, batch], &x.shape()[1..]].concat();
        x.reshape(shape)
    });
    let ((), out) = steps(|(): &(), x: &X| ((), all(x)), &(), &blocks, whole / batch, false, place);
    let out = out.map(|y| {
        let shape = [&[whole], &y.shape()[2.min(y.rank())..]].concat();
        y.reshape(shape)
    });
    if whole == length {
        return out;
    }
    let rest = all(&part(whole, length));
    out.zip_map(&rest, |x, y| trace::one(&[x, y], place, |b, v| b.concatenate(v, 0)))
}

/// All running combinations `x0`, `f(x0, x1)`, `f(f(x0, x1), x2)`, ... of the slices along the
/// first axis, of an associative `f` that works on several slices at once, in a number of calls of
/// `f` that grows with the logarithm of their count (Blelloch, "Prefix sums and their
/// applications", 1990).
#[track_caller]
pub fn associative_scan<A: Tree>(f: impl Fn(&A, &A) -> A, elements: &A) -> A {
    let place = Place::here();
    match batch_size("associative_scan", &elements.leaves(), place) {
        Ok(_) => prefixes(&f, elements, place),
        Err(error) => failed(elements, &error),
    }
}

fn prefixes<A: Tree>(f: &impl Fn(&A, &A) -> A, elements: &A, place: Place) -> A {
    let length = elements.leaves().first().and_then(|x| x.shape().first().copied()).unwrap_or(0);
    if length < 2 {
        return elements.map(Array::clone);
    }
    let every_other = |tree: &A, start: u64, limit: u64| {
        tree.map(|x| {
            trace::one(&[x], place, |b, v| {
                let mut limits = b.ty(v[0]).shape;
                let (mut starts, mut strides) = (vec![0; limits.len()], vec![1; limits.len()]);
                (starts[0], limits[0], strides[0]) = (start, limit, 2);
                b.one(ops::Slice { starts, limits, strides }, &[v[0]])
            })
        })
    };
    let pairs = f(&every_other(elements, 0, length - 1), &every_other(elements, 1, length));
    let odd = prefixes(f, &pairs, place);
    let first = |tree: &A, count: u64| {
        tree.map(|x| trace::one(&[x], place, |b, v| b.slice_axis(v[0], 0, 0, count)))
    };
    let rest = every_other(elements, 2, length);
    let even = match length {
        2 => first(elements, 1),
        _ => {
            let tail = f(&first(&odd, (length - 1) / 2), &rest);
            first(elements, 1)
                .zip_map(&tail, |x, y| trace::one(&[x, y], place, |b, v| b.concatenate(v, 0)))
        }
    };
    even.zip_map(&odd, |even, odd| {
        trace::one(&[even, odd], place, |b, v| interleave(b, v[0], v[1], length))
    })
}

/// Slices of two values in turn, along the first axis.
fn interleave(
    b: &mut Builder<'_>,
    even: ValueId,
    odd: ValueId,
    length: u64,
) -> Result<ValueId, String> {
    let ty = b.ty(even);
    let mut spread = |value: ValueId, low: i64, high: i64| {
        let zero = b.zeros(&TensorType::scalar(ty.dtype))?;
        let mut op = ops::Pad {
            low: vec![0; ty.rank()],
            high: vec![0; ty.rank()],
            interior: vec![0; ty.rank()],
        };
        (op.low[0], op.high[0], op.interior[0]) = (low, high, 1);
        b.one(op, &[value, zero])
    };
    let odd_last = length.is_multiple_of(2);
    let even = spread(even, 0, i64::from(odd_last))?;
    let odd = spread(odd, 1, i64::from(!odd_last))?;
    let name = if ty.dtype == DType::I1 { "stablehlo.or" } else { "stablehlo.add" };
    b.elementwise(name, &[even, odd])
}

/// `f`, whose intermediate values are not kept for reverse mode but computed again.
#[track_caller]
pub fn checkpoint<A: Tree, R: Tree>(f: impl Fn(&A) -> R) -> impl Fn(&A) -> R {
    checkpoint_policy(Policy::Nothing, f)
}

/// [`checkpoint`] that keeps what the policy says.
#[track_caller]
pub fn checkpoint_policy<A: Tree, R: Tree>(
    policy: Policy,
    f: impl Fn(&A) -> R,
) -> impl Fn(&A) -> R {
    let place = Place::here();
    move |argument| {
        on_leaves(argument, &f, |leaves| {
            let traced = trace::trace("checkpoint", &types(&leaves), place, |arrays| {
                f(&fill(argument, arrays))
            })?;
            let operands = traced.operands(&leaves);
            let operands: Vec<&Array> = operands.iter().collect();
            let count = traced.function.results().len();
            let results = trace::record(&operands, count, place, |b, values| {
                let region = region(b, &traced.function, values.len(), &[])?;
                b.push(ops::Checkpoint { policy, again: false }, values, &[region])
            });
            Ok(fill(&traced.result, results))
        })
    }
}

/// The array, which counts as constant for derivatives.
#[track_caller]
pub fn stop_gradient(array: &Array) -> Array {
    if !is_differentiable(array.dtype()) {
        return array.clone();
    }
    let place = Place::here();
    trace::one(&[array], place, |b, values| without_tangent(b, values[0]))
}

/// The value itself, whose derivative is zero.
pub(crate) fn without_tangent(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId, String> {
    let ty = b.ty(x);
    if !is_differentiable(ty.dtype) {
        return Ok(x);
    }
    let primal = b.region(std::slice::from_ref(&ty), |_, x| Ok(vec![x[0]]))?;
    let rule = b.region(&[ty.clone(), ty], |b, x| Ok(vec![x[0], b.full_like(x[0], 0.0)?]))?;
    Ok(b.push(ops::CustomJvp, &[x], &[primal, rule])?[0])
}

/// Tangents (or cotangents) in the form of a tree, from those of the leaves that have one.
fn fill_tangents<T: Tree>(template: &T, tangents: Vec<Array>) -> T {
    let mut tangents = tangents.into_iter();
    template.map(|array| match is_differentiable(array.dtype()) {
        true => tangents.next().expect("one for each float"),
        false => array.zeros_like(),
    })
}

/// The leaves that have tangents.
fn floats<T: Tree>(tree: &T) -> Vec<Array> {
    tree.leaves().into_iter().filter(|leaf| is_differentiable(leaf.dtype())).collect()
}

fn float_types(types: &[TensorType]) -> Vec<TensorType> {
    types.iter().filter(|ty| is_differentiable(ty.dtype)).cloned().collect()
}

thread_local! {
    /// The functions whose rules are being traced on this thread, by their places.
    static RULES: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

/// Traces a rule of the function made at a place. A function that its own rule uses is there the
/// plain one: the rule would be traced without end.
fn trace_rule<R: Tree>(
    name: &str,
    parameters: &[TensorType],
    place: Place,
    rule: impl FnOnce(Vec<Array>) -> R,
) -> Result<Traced<R>, Error> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            RULES.with_borrow_mut(Vec::pop);
        }
    }
    RULES.with_borrow_mut(|places| places.push(place));
    let _leave = Leave;
    trace::trace(name, parameters, place, rule)
}

/// Whether a rule of the function made at a place is being traced.
fn in_own_rule(place: Place) -> bool {
    RULES.with_borrow(|places| places.contains(&place))
}

/// `f` with a derivative of its own: `rule` gives the results and their tangents for arguments and
/// their tangents. Where the rule itself uses the function, its derivative is that of `f`.
#[track_caller]
pub fn custom_jvp<A: Tree, R: Tree>(
    f: impl Fn(&A) -> R,
    rule: impl Fn(&A, &A) -> (R, R),
) -> impl Fn(&A) -> R {
    let place = Place::here();
    move |argument| {
        if in_own_rule(place) {
            return f(argument);
        }
        on_leaves(argument, &f, |leaves| {
            let parameters = types(&leaves);
            let primal = trace::trace("custom_jvp", &parameters, place, |arrays| {
                f(&fill(argument, arrays))
            })?;
            let with_tangents = [parameters.clone(), float_types(&parameters)].concat();
            let tangent = trace_rule("jvp", &with_tangents, place, |mut arrays| {
                let tangents = arrays.split_off(leaves.len());
                let given = fill(argument, arrays);
                let (result, out) = rule(&given, &fill_tangents(&given, tangents));
                (result, floats(&out))
            })?;
            let groups = Groups::of(&[&leaves, &primal.captures, &tangent.captures]);
            let count = primal.function.results().len();
            let results = trace::record(&groups.arrays, count, place, |b, values| {
                let regions = [
                    region(b, &primal.function, leaves.len(), groups.values(values, 1))?,
                    region(b, &tangent.function, with_tangents.len(), groups.values(values, 2))?,
                ];
                b.push(ops::CustomJvp, groups.values(values, 0), &regions)
            });
            Ok(fill(&primal.result, results))
        })
    }
}

/// `f` with a reverse mode of its own: `forward` gives the results and what `backward` needs to
/// make the argument's cotangents from the results'. Where the rules themselves use the function,
/// its derivative is that of `f`.
#[track_caller]
pub fn custom_vjp<A: Tree, R: Tree, S: Tree>(
    f: impl Fn(&A) -> R,
    forward: impl Fn(&A) -> (R, S),
    backward: impl Fn(&S, &R) -> A,
) -> impl Fn(&A) -> R {
    let place = Place::here();
    move |argument| {
        if in_own_rule(place) {
            return f(argument);
        }
        on_leaves(argument, &f, |leaves| {
            let parameters = types(&leaves);
            let primal = trace::trace("custom_vjp", &parameters, place, |arrays| {
                f(&fill(argument, arrays))
            })?;
            let first = trace_rule("forward", &parameters, place, |arrays| {
                forward(&fill(argument, arrays))
            })?;
            let results = result_types(&primal.function);
            let mut given = result_types(&first.function);
            let residuals = given.split_off(results.len().min(given.len()));
            if given != results {
                let message = "custom_vjp: the forward rule gives other types than the function";
                return Err(Error::new(message, place));
            }
            let taken = [residuals.clone(), float_types(&results)].concat();
            let (result, kept) = &first.result;
            let second = trace_rule("backward", &taken, place, |mut arrays| {
                let cotangents = arrays.split_off(residuals.len());
                let back = backward(&fill(kept, arrays), &fill_tangents(result, cotangents));
                floats(&back)
            })?;
            let groups =
                Groups::of(&[&leaves, &primal.captures, &first.captures, &second.captures]);
            let made = trace::record(&groups.arrays, results.len(), place, |b, values| {
                let regions = [
                    region(b, &primal.function, leaves.len(), groups.values(values, 1))?,
                    region(b, &first.function, leaves.len(), groups.values(values, 2))?,
                    region(b, &second.function, taken.len(), groups.values(values, 3))?,
                ];
                b.push(ops::CustomVjp, groups.values(values, 0), &regions)
            });
            Ok(fill(&primal.result, made))
        })
    }
}
