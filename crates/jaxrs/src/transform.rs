//! Derivatives and batching of closures.

use crate::array::{Array, Value};
use crate::error::{Error, Place};
use crate::trace::{self, Traced};
use crate::tree::Tree;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::transform;
use jaxrs_ir::{Function, TensorType};

/// A fault of a transform of the IR, at the place of the transform's call.
fn fault(error: &jaxrs_ir::Error, place: Place) -> Error {
    let mut out = Error::new(error.message.clone(), place);
    if let Some((file, line, column)) = &error.location.source {
        out = out.note(format!("the operation is at {file}:{line}:{column}"));
    }
    error.notes.iter().fold(out, |out, note| out.note(note.clone()))
}

pub(crate) fn types(arrays: &[Array]) -> Vec<TensorType> {
    arrays.iter().map(|array| array.ty().clone()).collect()
}

/// The tree with its arrays replaced, in order.
pub(crate) fn fill<T: Tree>(template: &T, arrays: Vec<Array>) -> T {
    let mut arrays = arrays.into_iter();
    template.map(|_| arrays.next().expect("an array for each leaf"))
}

/// The tree with an error in each place.
pub(crate) fn failed<T: Tree>(template: &T, error: &Error) -> T {
    template.map(|array| Array::failed(array.ty().clone(), error.clone()))
}

/// The first error that a leaf holds.
pub(crate) fn first_error(leaves: &[Array]) -> Option<Error> {
    leaves.iter().find_map(|leaf| match leaf.value() {
        Value::Failed(error) => Some(error.clone()),
        _ => None,
    })
}

/// Traces a closure on a tree like this one.
fn trace_like<A: Tree, R: Tree>(
    name: &str,
    like: &A,
    place: Place,
    f: impl FnOnce(&A) -> R,
) -> Result<(Traced<R>, Vec<Array>), Error> {
    let leaves = like.leaves();
    if let Some(error) = first_error(&leaves) {
        return Err(error);
    }
    let traced = trace::trace(name, &types(&leaves), place, |arrays| f(&fill(like, arrays)))?;
    Ok((traced, leaves))
}

/// The flags of the parameters of a traced closure: the leaves, then the captures.
fn flags<R>(traced: &Traced<R>, leaves: usize) -> Vec<bool> {
    (0..leaves + traced.captures.len()).map(|n| n < leaves).collect()
}

/// An error unless all leaves have derivatives.
fn check_differentiable(what: &str, leaves: &[Array], place: Place) -> Result<(), Error> {
    match leaves.iter().find(|leaf| !transform::is_differentiable(leaf.dtype())) {
        Some(leaf) => Err(Error::new(
            format!("{what}: an argument is {}; derivatives are of floats", leaf.ty()),
            place,
        )
        .note(format!("it was made at {}", leaf.place()))
        .note("convert it with astype, or capture it in the closure instead of passing it")),
        None => Ok(()),
    }
}

/// The function that gives the closure's results, then the gradient of the first one.
fn gradient_function<R>(
    traced: &Traced<R>,
    leaves: usize,
    place: Place,
) -> Result<Function, Error> {
    let from = &traced.function;
    let mut linear =
        transform::linearize(from, &flags(traced, leaves)).map_err(|error| fault(&error, place))?;
    // Only the first result is differentiated.
    let depends = linear.tangents.first() == Some(&true);
    let body = linear.linear.body;
    linear.linear.blocks[body].yields.truncate(usize::from(depends));
    linear.linear.result_attributes.truncate(usize::from(depends));
    let transposed = transform::transpose(&linear.linear, linear.residuals)
        .map_err(|error| fault(&error, place))?;
    let mut out = Function::new("gradient");
    let parameters: Vec<_> =
        from.parameters().iter().map(|&v| out.add_parameter(from.ty(v).clone())).collect();
    let mut b = Builder::new(&mut out);
    b.location = place.location();
    let mut values = b.inline(&linear.primal, &parameters);
    let mut operands = values.split_off(from.results().len());
    for &result in linear.linear.results() {
        let one = b.full(linear.linear.ty(result), 1.0);
        operands.push(one.map_err(|message| Error::new(message, place))?);
    }
    values.extend(b.inline(&transposed, &operands));
    let body = out.body;
    out.result_attributes = vec![Default::default(); values.len()];
    out.blocks[body].yields = values;
    Ok(out)
}

/// Gives the value of a scalar function and its gradient, with an auxiliary output that is not
/// differentiated.
#[track_caller]
pub fn value_and_grad_aux<A: Tree, X: Tree>(
    f: impl Fn(&A) -> (Array, X),
) -> impl Fn(&A) -> ((Array, X), A) {
    let place = Place::here();
    move |argument| {
        let attempt = || {
            let (traced, leaves) = trace_like("value_and_grad", argument, place, &f)?;
            check_differentiable("grad", &leaves, place)?;
            let loss = traced.result.0.ty();
            if loss.rank() != 0 || !loss.dtype.is_float() {
                let message = format!("grad: the function gives {loss}, not a rank-0 float");
                let fix = "reduce it to a number (sum, mean), or use vjp or jacrev";
                return Err(Error::new(message, place).note(fix));
            }
            let function = gradient_function(&traced, leaves.len(), place)?;
            let mut results = trace::call(&function, &traced.operands(&leaves), place);
            let grads = results.split_off(results.len() - leaves.len());
            let value = fill(&traced.result, results);
            Ok((value, fill(argument, grads)))
        };
        attempt().unwrap_or_else(|error: Error| {
            let ty = TensorType::scalar(jaxrs_ir::DType::F32);
            let value = Array::failed(ty, error.clone());
            // The closure's own output gives the form of the auxiliary one.
            let aux = failed(&f(&failed(argument, &error)).1, &error);
            ((value, aux), failed(argument, &error))
        })
    }
}

/// Gives the value of a scalar function and its gradient.
#[track_caller]
pub fn value_and_grad<A: Tree>(f: impl Fn(&A) -> Array) -> impl Fn(&A) -> (Array, A) {
    let both = value_and_grad_aux(move |argument: &A| (f(argument), ()));
    move |argument| {
        let ((value, ()), grads) = both(argument);
        (value, grads)
    }
}

/// Gives the gradient of a scalar function.
///
/// ```
/// use jaxrs::prelude::*;
/// let slope = grad(|x: &Array| (x * x).sum(..));
/// assert_eq!(slope(&Array::from_vec(vec![1.0f32, 3.0])).to_vec::<f32>()?, [2.0, 6.0]);
/// # Ok::<(), jaxrs::Error>(())
/// ```
#[track_caller]
pub fn grad<A: Tree>(f: impl Fn(&A) -> Array) -> impl Fn(&A) -> A {
    let both = value_and_grad(f);
    move |argument| both(argument).1
}

/// The results of `f` and their tangents, for tangents of the argument.
#[track_caller]
pub fn jvp<A: Tree, R: Tree>(f: impl Fn(&A) -> R, argument: &A, tangent: &A) -> (R, R) {
    let place = Place::here();
    let attempt = || {
        let (traced, leaves) = trace_like("jvp", argument, place, &f)?;
        let active: Vec<bool> =
            leaves.iter().map(|leaf| transform::is_differentiable(leaf.dtype())).collect();
        let mut all = active.clone();
        all.resize(leaves.len() + traced.captures.len(), false);
        let made = transform::jvp(&traced.function, &all).map_err(|error| fault(&error, place))?;
        let mut operands = traced.operands(&leaves);
        let tangents = tangent.leaves();
        operands.extend(tangents.into_iter().zip(&active).filter(|(_, a)| **a).map(|(t, _)| t));
        let mut results = trace::call(&made.function, &operands, place);
        let given = results.split_off(made.tangents.len());
        let mut given = given.into_iter();
        let tangents = results
            .iter()
            .zip(&made.tangents)
            .map(|(result, &has)| match has {
                true => given.next().expect("a tangent for each flag"),
                false => result.zeros_like(),
            })
            .collect();
        Ok((fill(&traced.result, results), fill(&traced.result, tangents)))
    };
    attempt().unwrap_or_else(|error: Error| {
        let result = f(&failed(argument, &error));
        (failed(&result, &error), failed(&result, &error))
    })
}

/// The results of `f`, and the function from their cotangents to those of the argument.
#[track_caller]
pub fn vjp<A: Tree, R: Tree, F: Fn(&A) -> R>(
    f: F,
    argument: &A,
) -> (R, impl Fn(&R) -> A + use<A, R, F>) {
    let place = Place::here();
    let attempt = || {
        let (traced, leaves) = trace_like("vjp", argument, place, &f)?;
        check_differentiable("vjp", &leaves, place)?;
        let linear = transform::linearize(&traced.function, &flags(&traced, leaves.len()))
            .map_err(|error| fault(&error, place))?;
        let transposed = transform::transpose(&linear.linear, linear.residuals)
            .map_err(|error| fault(&error, place))?;
        let mut results = trace::call(&linear.primal, &traced.operands(&leaves), place);
        let residuals = results.split_off(traced.function.results().len());
        Ok((fill(&traced.result, results), (transposed, residuals, linear.tangents)))
    };
    let template = argument.map(Array::clone);
    let (result, pullback) = match attempt() {
        Ok((result, pullback)) => (result, Ok(pullback)),
        Err(error) => (failed(&f(&failed(argument, &error)), &error), Err(error)),
    };
    (result, move |cotangent: &R| match &pullback {
        Ok((transposed, residuals, tangents)) => {
            let mut operands = residuals.clone();
            let cotangents = cotangent.leaves();
            operands
                .extend(cotangents.into_iter().zip(tangents).filter(|(_, t)| **t).map(|(c, _)| c));
            fill(&template, trace::call(transposed, &operands, place))
        }
        Err(error) => failed(&template, error),
    })
}

/// `f` over a new first axis of each array of its argument; its results have it, too. Arrays that
/// the closure captures have no such axis.
#[track_caller]
pub fn vmap<A: Tree, R: Tree>(f: impl Fn(&A) -> R) -> impl Fn(&A) -> R {
    let place = Place::here();
    move |argument| {
        let leaves = argument.leaves();
        let attempt = || {
            let size = batch_size("vmap", &leaves, place)?;
            let types: Vec<TensorType> = leaves
                .iter()
                .map(|leaf| TensorType::new(&leaf.shape()[1..], leaf.dtype()))
                .collect();
            let traced = trace::trace("vmap", &types, place, |arrays| f(&fill(argument, arrays)))?;
            let made = transform::batch(&traced.function, &flags(&traced, leaves.len()), size)
                .map_err(|error| fault(&error, place))?;
            let mut out = made.function;
            // Results that do not depend on the batch repeat.
            let yields = out.results().to_vec();
            let mut b = Builder::new(&mut out);
            let mut all = Vec::with_capacity(yields.len());
            for (value, batched) in yields.into_iter().zip(made.results) {
                let value = match batched {
                    true => value,
                    false => b.repeat(value, 0, size).map_err(|m| Error::new(m, place))?,
                };
                all.push(value);
            }
            let body = out.body;
            out.blocks[body].yields = all;
            let results = trace::call(&out, &traced.operands(&leaves), place);
            Ok(fill(&traced.result, results))
        };
        attempt().unwrap_or_else(|error: Error| failed(&f(&failed(argument, &error)), &error))
    }
}

/// The extent of the first axis, which all have; or the first error that one holds.
pub(crate) fn batch_size(what: &str, leaves: &[Array], place: Place) -> Result<u64, Error> {
    if let Some(error) = first_error(leaves) {
        return Err(error);
    }
    let Some(first) = leaves.first() else {
        return Err(Error::new(format!("{what}: the argument has no arrays"), place));
    };
    let size = first.shape().first().copied();
    for leaf in leaves {
        let Some(&extent) = leaf.shape().first() else {
            let message = format!("{what}: an argument is {}, which has no axis", leaf.ty());
            return Err(Error::new(message, place).note("capture it in the closure instead"));
        };
        if Some(extent) != size {
            let message =
                format!("{what}: the first axes of {} and {} differ", first.ty(), leaf.ty());
            return Err(Error::new(message, place));
        }
    }
    Ok(size.expect("seen above"))
}

/// `f` of the argument, and the linear function from tangents of the argument to those of the
/// results there.
#[track_caller]
pub fn linearize<A: Tree, R: Tree, F: Fn(&A) -> R>(
    f: F,
    argument: &A,
) -> (R, impl Fn(&A) -> R + use<A, R, F>) {
    let place = Place::here();
    let attempt = || {
        let (traced, leaves) = trace_like("linearize", argument, place, &f)?;
        check_differentiable("linearize", &leaves, place)?;
        let made = transform::linearize(&traced.function, &flags(&traced, leaves.len()))
            .map_err(|error| fault(&error, place))?;
        let mut results = trace::call(&made.primal, &traced.operands(&leaves), place);
        let residuals = results.split_off(traced.function.results().len());
        Ok((fill(&traced.result, results), (made.linear, residuals, made.tangents)))
    };
    let (result, linear) = match attempt() {
        Ok((result, linear)) => (result, Ok(linear)),
        Err(error) => (failed(&f(&failed(argument, &error)), &error), Err(error)),
    };
    let template = result.map(Array::clone);
    (result, move |tangent: &A| match &linear {
        Ok((function, residuals, flags)) => {
            let operands = [residuals.clone(), tangent.leaves()].concat();
            let mut given = trace::call(function, &operands, place).into_iter();
            let mut flags = flags.iter();
            template.map(|array| match flags.next() {
                Some(true) => given.next().expect("a tangent for each flag"),
                _ => array.zeros_like(),
            })
        }
        Err(error) => failed(&template, error),
    })
}

/// The first axis of the identity matrix of `n` rows, each in the form of `ty`.
fn basis(b: &mut Builder<'_>, ty: &TensorType) -> Result<jaxrs_ir::ValueId, String> {
    let n = ty.len();
    let square = TensorType::new([n, n], jaxrs_ir::DType::I32);
    let (rows, columns) = (b.iota(&square, 0)?, b.iota(&square, 1)?);
    let equal = b.compare(jaxrs_kernel::Compare::Eq, rows, columns)?;
    let one = b.convert(equal, ty.dtype)?;
    b.reshape(one, &[&[n], ty.shape.as_slice()].concat())
}

/// The derivatives of each element of the result by each element of the argument, in forward mode:
/// in the place of each array of the argument one of shape `result ++ array`. Cost: one forward
/// pass over a batch for each array of the argument.
#[track_caller]
pub fn jacfwd<A: Tree>(f: impl Fn(&A) -> Array) -> impl Fn(&A) -> A {
    let place = Place::here();
    move |argument| {
        let attempt = || {
            let (traced, leaves) = trace_like("jacfwd", argument, place, &f)?;
            check_differentiable("jacfwd", &leaves, place)?;
            let count = leaves.len() + traced.captures.len();
            let operands = traced.operands(&leaves);
            let mut jacobians = Vec::with_capacity(leaves.len());
            for (n, leaf) in leaves.iter().enumerate() {
                let active: Vec<bool> = (0..count).map(|at| at == n).collect();
                let made = transform::jvp(&traced.function, &active)
                    .map_err(|error| fault(&error, place))?;
                let shape = [traced.result.shape(), leaf.shape()].concat();
                if !made.tangents[0] {
                    jacobians.push(Array::full_of(shape, 0, traced.result.dtype()));
                    continue;
                }
                let mut flags = vec![false; count];
                flags.push(true);
                let all = transform::batch(&made.function, &flags, leaf.len())
                    .map_err(|error| fault(&error, place))?;
                let inputs: Vec<&Array> = operands.iter().collect();
                jacobians.push(trace::one(&inputs, place, |b, values| {
                    let mut values = values.to_vec();
                    values.push(basis(b, leaf.ty())?);
                    let columns = b.inline(&all.function, &values)[1];
                    let rank = b.ty(columns).rank();
                    let moved = b.move_axis(columns, 0, rank - 1)?;
                    b.reshape(moved, &shape)
                }));
            }
            Ok(fill(argument, jacobians))
        };
        attempt().unwrap_or_else(|error: Error| failed(argument, &error))
    }
}

/// [`jacfwd`] in reverse mode. Cost: one forward pass and one backward pass over a batch.
#[track_caller]
pub fn jacrev<A: Tree>(f: impl Fn(&A) -> Array) -> impl Fn(&A) -> A {
    let place = Place::here();
    move |argument| {
        let attempt = || {
            let (traced, leaves) = trace_like("jacrev", argument, place, &f)?;
            check_differentiable("jacrev", &leaves, place)?;
            let made = transform::linearize(&traced.function, &flags(&traced, leaves.len()))
                .map_err(|error| fault(&error, place))?;
            let out = traced.result.ty().clone();
            if !made.tangents[0] {
                return Ok(argument.map(|leaf| {
                    Array::full_of([&out.shape, leaf.shape()].concat(), 0, out.dtype)
                }));
            }
            let transposed = transform::transpose(&made.linear, made.residuals)
                .map_err(|error| fault(&error, place))?;
            let mut flags = vec![false; made.residuals];
            flags.push(true);
            let all = transform::batch(&transposed, &flags, out.len())
                .map_err(|error| fault(&error, place))?;
            let operands = traced.operands(&leaves);
            let operands: Vec<&Array> = operands.iter().collect();
            let rows = trace::record(&operands, leaves.len(), place, |b, values| {
                let mut inputs = b.inline(&made.primal, values).split_off(1);
                inputs.push(basis(b, &out)?);
                let mut rows = b.inline(&all.function, &inputs);
                for (row, (&batched, leaf)) in rows.iter_mut().zip(all.results.iter().zip(&leaves))
                {
                    if !batched {
                        *row = b.repeat(*row, 0, out.len())?;
                    }
                    *row = b.reshape(*row, &[&out.shape, leaf.shape()].concat())?;
                }
                Ok(rows)
            });
            Ok(fill(argument, rows))
        };
        attempt().unwrap_or_else(|error: Error| failed(argument, &error))
    }
}

/// The second derivatives of a scalar function of one array: shape `array ++ array`.
#[track_caller]
pub fn hessian(f: impl Fn(&Array) -> Array) -> impl Fn(&Array) -> Array {
    let gradient = grad(f);
    jacfwd(move |x: &Array| gradient(x))
}

/// [`vmap`] whose batch axes are named: for each array of the argument the axis that is the batch
/// (None: the array is the same for all), and the axis of the results where it is put.
#[track_caller]
pub fn vmap_axes<A: Tree, R: Tree>(
    f: impl Fn(&A) -> R,
    axes: impl Into<Vec<Option<usize>>>,
    out: usize,
) -> impl Fn(&A) -> R {
    let (place, axes) = (Place::here(), axes.into());
    move |argument| {
        let leaves = argument.leaves();
        if axes.len() != leaves.len() {
            let (given, taken) = (axes.len(), leaves.len());
            let message = format!("vmap_axes: {given} axes for an argument of {taken} arrays");
            let error = Error::new(message, place);
            return failed(&f(&failed(argument, &error)), &error);
        }
        let moved: Vec<Array> = leaves
            .iter()
            .zip(&axes)
            .filter_map(|(leaf, axis)| {
                axis.map(|axis| {
                    trace::one(&[leaf], place, |b, x| match axis < b.ty(x[0]).rank() {
                        true => b.move_axis(x[0], axis, 0),
                        false => Err(format!("vmap_axes: {} has no axis {axis}", b.ty(x[0]))),
                    })
                })
            })
            .collect();
        let all = vmap(|batched: &Vec<Array>| {
            let (mut batched, mut axes) = (batched.iter(), axes.iter());
            f(&argument.map(|leaf| match axes.next() {
                Some(Some(_)) => batched.next().expect("one for each batched array").clone(),
                _ => leaf.clone(),
            }))
        });
        all(&moved).map(|array| {
            trace::one(&[array], place, |b, x| match out < b.ty(x[0]).rank() {
                true => b.move_axis(x[0], 0, out),
                false => Err(format!("vmap_axes: a result {} has no axis {out}", b.ty(x[0]))),
            })
        })
    }
}
