//! Support for tests of rules: a function's derivatives against finite differences and its batches
//! against the loop, all by the interpreter.
//!
//! A test builds a function ([`function`]) and calls [`check`] with inputs in `f64`, complex ones
//! in `complex<f64>`, no element within `1e-3` of a kink. Complex numbers are taken as pairs of reals, as
//! JAX takes them: finite differences go along a complex direction, and the product of a cotangent
//! and a tangent is the real part of their product (without conjugation).

use super::{batch, is_differentiable, jvp, linearize, transpose};
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::interpret;
use crate::literal::Literal;
use crate::testing::tensor;
use crate::text;
use crate::types::TensorType;
use crate::verify::verify_function;
use jaxrs_kernel::DType;
use jaxrs_kernel::dtype::Class;

/// Distance of the evaluations of finite differences.
const STEP: f64 = 1e-4;

/// Elements of the batches.
const BATCH: u64 = 3;

/// What is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Whether reverse mode is there (it is not through loops of unknown length).
    pub reverse: bool,
    /// Whether second derivatives are checked.
    pub second: bool,
    /// Whether batches are checked.
    pub batch: bool,
    /// How far derivatives may be from finite differences, relative to the largest one.
    pub tolerance: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { reverse: true, second: true, batch: true, tolerance: 1e-6 }
    }
}

/// A function of parameters of these types, built by `body`.
pub(crate) fn function(
    parameters: &[TensorType],
    body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Function {
    let mut function = Function::new("f");
    let parameters: Vec<ValueId> =
        parameters.iter().map(|ty| function.add_parameter(ty.clone())).collect();
    let results = body(&mut Builder::new(&mut function), &parameters).expect("a valid function");
    finish(&mut function, results);
    function
}

/// A function of parameters of the inputs' types, checked with [`check`].
pub(crate) fn check_body(
    inputs: &[Literal],
    body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) {
    let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
    check(&function(&types, body), inputs);
}

/// A tensor of floats (or complex numbers) between two bounds, no two parts closer than a share of
/// their distance.
pub(crate) fn spread(dtype: DType, shape: &[u64], low: f64, high: f64, seed: u64) -> Literal {
    let count = shape.iter().product::<u64>() * dtype.parts();
    let mut order: Vec<u64> = (0..count).collect();
    order.sort_by_key(|&n| mix(n + (seed << 20)));
    let value = |&place: &u64| {
        let jitter = unit(place + (seed << 24)) * 0.25 + 0.5;
        low + (high - low) * (place as f64 + jitter) / count as f64
    };
    tensor(dtype, shape, &order.iter().map(value).collect::<Vec<f64>>())
}

/// The same in `f64` between -2 and 2.
pub(crate) fn values(shape: &[u64], seed: u64) -> Literal {
    spread(DType::F64, shape, -2.0, 2.0, seed)
}

/// A tensor of integers.
pub(crate) fn ints(shape: &[u64], values: &[i64]) -> Literal {
    tensor(DType::I32, shape, &values.iter().map(|&v| v as f64).collect::<Vec<f64>>())
}

/// Checks all: first and second derivatives, in both modes, for all parameters that can have a
/// tangent together and for each alone; batches over every subset of the parameters; batches of
/// the gradient, the gradient of batches, and batches of batches.
pub(crate) fn check(f: &Function, inputs: &[Literal]) {
    check_with(f, inputs, Options::default());
}

/// The same without what the options leave out.
pub(crate) fn check_with(f: &Function, inputs: &[Literal], options: Options) {
    let active: Vec<bool> = inputs.iter().map(|l| is_differentiable(l.ty().dtype)).collect();
    derivatives(f, inputs, &active, options);
    let count = active.iter().filter(|active| **active).count();
    if count > 1 {
        for only in (0..active.len()).filter(|&n| active[n]) {
            let alone: Vec<bool> = (0..active.len()).map(|n| n == only).collect();
            derivatives(f, inputs, &alone, Options { second: false, ..options });
        }
    }
    if options.batch {
        batches(f, inputs);
        if options.reverse && count > 0 {
            let (gradient, inputs) = gradient(f, inputs, &active);
            batches_over(&gradient, &inputs, &few(inputs.len()));
        }
        let once = Options { second: false, ..options };
        for batched in few(inputs.len()) {
            let (over, stacked) = batched_function(f, inputs, &batched);
            derivatives(&over, &stacked, &active, once);
            batches_over(&over, &stacked, &few(stacked.len()));
        }
    }
}

/// All parameters, then each alone.
fn few(count: usize) -> Vec<Vec<bool>> {
    let all = std::iter::once(vec![true; count]);
    let alone = (0..count).map(|only| (0..count).map(|n| n == only).collect());
    if count > 1 { all.chain(alone).collect() } else { all.collect() }
}

/// Checks that batches of `f` over every subset of its parameters equal the loop.
pub(crate) fn batches(f: &Function, inputs: &[Literal]) {
    let count = inputs.len();
    assert!(count < 8, "too many subsets of {count} parameters");
    let subsets = (1_u32..1 << count).map(|set| (0..count).map(|n| set >> n & 1 == 1).collect());
    batches_over(f, inputs, &subsets.collect::<Vec<Vec<bool>>>());
}

fn batches_over(f: &Function, inputs: &[Literal], subsets: &[Vec<bool>]) {
    for batched in subsets {
        let what = format!("batch over {batched:?}");
        let none = batch(f, batched, 0).unwrap_or_else(|e| fail(f, &what, &e));
        verified(&none.function, &what);
        call(&none.function, &stacked(inputs, batched, 0));
        for size in [BATCH, 1] {
            let over = batch(f, batched, size).unwrap_or_else(|e| fail(f, &what, &e));
            verified(&over.function, &what);
            let each: Vec<Vec<Literal>> =
                (0..size).map(|n| call(f, &element(inputs, batched, n))).collect();
            let got = call(&over.function, &stacked(inputs, batched, size));
            for (at, (got, has_axis)) in got.iter().zip(&over.results).enumerate() {
                let what = format!("result {at} of {what} of {size}");
                let loops: Vec<Literal> = each.iter().map(|results| results[at].clone()).collect();
                if *has_axis {
                    near(&over.function, got, &stack(&loops), 1e-11, &what);
                } else {
                    loops.iter().for_each(|one| near(&over.function, got, one, 1e-11, &what));
                }
            }
        }
    }
}

/// The batched function with its inputs.
fn batched_function(
    f: &Function,
    inputs: &[Literal],
    batched: &[bool],
) -> (Function, Vec<Literal>) {
    let over = batch(f, batched, BATCH).unwrap_or_else(|e| fail(f, "batch", &e));
    (over.function, stacked(inputs, batched, BATCH))
}

fn stacked(inputs: &[Literal], batched: &[bool], size: u64) -> Vec<Literal> {
    let each: Vec<Vec<Literal>> = (0..size).map(|n| element(inputs, batched, n)).collect();
    let column = |at: usize| each.iter().map(|row| row[at].clone()).collect::<Vec<Literal>>();
    let empty = |input: &Literal| {
        let mut ty = input.ty().clone();
        ty.shape.insert(0, 0);
        Literal::dense(ty, Vec::new())
    };
    let each_or_none = |at: usize| match size {
        0 => empty(&inputs[at]),
        _ => stack(&column(at)),
    };
    (0..inputs.len())
        .map(|at| if batched[at] { each_or_none(at) } else { inputs[at].clone() })
        .collect()
}

/// The inputs of one element of a batch: the batched ones are rotated, and a little other.
fn element(inputs: &[Literal], batched: &[bool], number: u64) -> Vec<Literal> {
    let other = |(input, batched): (&Literal, &bool)| {
        if *batched { varied(input, number) } else { input.clone() }
    };
    inputs.iter().zip(batched).map(other).collect()
}

fn varied(input: &Literal, number: u64) -> Literal {
    let ty = input.ty().clone();
    let len = ty.len();
    let float = |bits: u64| {
        let value = real(ty.dtype.part(), bits) * (1.0 - 0.0625 * number as f64);
        crate::ops::convert::evaluate_parts([value.to_bits(), 0], DType::F64, ty.dtype.part())[0]
    };
    Literal::tabulate(ty.clone(), |position| {
        let parts = input.parts((position + number) % len);
        match ty.dtype.class() {
            Class::Float | Class::Complex => parts.map(float),
            Class::Bool if len == 1 => [parts[0] ^ (number & 1), 0],
            Class::Bool => parts,
            Class::Signed | Class::Unsigned => {
                [parts[0].wrapping_add(number) & (u64::MAX >> (64 - ty.dtype.bits())), 0]
            }
        }
    })
}

fn stack(elements: &[Literal]) -> Literal {
    let mut ty = elements[0].ty().clone();
    ty.shape.insert(0, elements.len() as u64);
    Literal::dense(ty, elements.iter().flat_map(Literal::to_bytes).collect())
}

/// Checks the derivatives with respect to the parameters flagged.
pub(crate) fn derivatives(f: &Function, inputs: &[Literal], active: &[bool], options: Options) {
    verified(f, "the function");
    let expected = call(f, inputs);
    let directions = directions(inputs, active, 1);
    let forward = jvp(f, active).unwrap_or_else(|e| fail(f, "jvp", &e));
    verified(&forward.function, "jvp");
    let given = [inputs, &directions[..]].concat();
    let mut results = call(&forward.function, &given);
    let tangents = results.split_off(expected.len());
    for (got, expected) in results.iter().zip(&expected) {
        near(&forward.function, got, expected, 1e-12, "a result of jvp");
    }
    let differences = differences(f, inputs, active, &directions);
    let mut rest = tangents.iter();
    for (at, (difference, has_tangent)) in differences.iter().zip(&forward.tangents).enumerate() {
        let Some(difference) = difference else {
            assert!(!has_tangent, "result {at} cannot have a tangent\n{}", text::print_function(f));
            continue;
        };
        let what = format!("the tangent of result {at} (expected: the finite differences)");
        let finite = numbers(difference).iter().all(|x| x.is_finite());
        assert!(finite, "{what}: {difference:?}\n{}", text::print_function(f));
        let zeros = tensor(
            difference.ty().dtype,
            &[],
            &[0.0, 0.0][..difference.ty().dtype.parts() as usize],
        );
        let zeros = Literal::splat(difference.ty().clone(), &zeros.to_bytes());
        let got = if *has_tangent { rest.next().expect("a tangent") } else { &zeros };
        near(&forward.function, got, difference, options.tolerance, &what);
    }
    if !options.reverse {
        return;
    }
    let parts = linearize(f, active).unwrap_or_else(|e| fail(f, "linearize", &e));
    verified(&parts.primal, "linearize");
    verified(&parts.linear, "the linear part");
    assert_eq!(parts.tangents, forward.tangents, "which results have tangents");
    let mut results = call(&parts.primal, inputs);
    let residuals = results.split_off(expected.len());
    assert_eq!(residuals.len(), parts.residuals, "residuals");
    for (got, expected) in results.iter().zip(&expected) {
        near(&parts.primal, got, expected, 1e-12, "a result of linearize");
    }
    let linear = call(&parts.linear, &[&residuals[..], &directions].concat());
    for (got, expected) in linear.iter().zip(&tangents) {
        near(&parts.linear, got, expected, 1e-11, "a tangent of the linear part");
    }
    let back = transpose(&parts.linear, parts.residuals)
        .unwrap_or_else(|e| fail(&parts.linear, "transpose", &e));
    verified(&back, "transpose");
    let all = vec![true; tangents.len()];
    let cotangents = self::directions(&tangents, &all, 2);
    let got = call(&back, &[&residuals[..], &cotangents].concat());
    let types = |literals: &[Literal]| -> Vec<TensorType> {
        literals.iter().map(|l| l.ty().clone()).collect()
    };
    assert_eq!(types(&got), types(&directions), "the cotangents of the parameters");
    let (left, right) = (product(&cotangents, &tangents), product(&got, &directions));
    let size = magnitude(&cotangents, &tangents).max(magnitude(&got, &directions)).max(1e-300);
    assert!(
        (left - right).abs() <= 1e-10 * size,
        "<w, J v> is {left}, <J^T w, v> is {right}\nlinear part:\n{}transposed:\n{}",
        text::print_function(&parts.linear),
        text::print_function(&back),
    );
    if options.second && !tangents.is_empty() {
        let (gradient, given) = gradient(f, inputs, active);
        let flags: Vec<bool> = given.iter().map(|l| is_differentiable(l.ty().dtype)).collect();
        derivatives(&gradient, &given, &flags, Options { second: false, ..options });
        let types = given_types(&forward.function);
        let flags: Vec<bool> = types.iter().map(|ty| is_differentiable(ty.dtype)).collect();
        let inputs = [inputs, &directions[..]].concat();
        derivatives(&forward.function, &inputs, &flags, Options { second: false, ..options });
    }
}

fn zeros(ty: &TensorType) -> Literal {
    Literal::splat(ty.clone(), &vec![0; ty.dtype.size() as usize])
}

fn given_types(f: &Function) -> Vec<TensorType> {
    f.parameters().iter().map(|&v| f.ty(v).clone()).collect()
}

/// The function from parameters and cotangents of the results to the cotangents of the parameters
/// flagged, with inputs for it.
pub(crate) fn gradient(
    f: &Function,
    inputs: &[Literal],
    active: &[bool],
) -> (Function, Vec<Literal>) {
    let parts = linearize(f, active).unwrap_or_else(|e| fail(f, "linearize", &e));
    let back = transpose(&parts.linear, parts.residuals)
        .unwrap_or_else(|e| fail(&parts.linear, "transpose", &e));
    let mut out = Function::new("gradient");
    let mut arguments: Vec<ValueId> =
        given_types(f).into_iter().map(|ty| out.add_parameter(ty)).collect();
    let tangents: Vec<TensorType> =
        parts.linear.results().iter().map(|&v| parts.linear.ty(v).clone()).collect();
    let cotangents: Vec<ValueId> =
        tangents.iter().map(|ty| out.add_parameter(ty.clone())).collect();
    let mut b = Builder::new(&mut out);
    let results = b.inline(&parts.primal, &arguments);
    arguments = results[f.results().len()..].to_vec();
    arguments.extend(cotangents);
    let results = b.inline(&back, &arguments);
    finish(&mut out, results);
    let like: Vec<Literal> = tangents.iter().map(zeros).collect();
    let cotangents = directions(&like, &vec![true; like.len()], 3);
    (out, [inputs, &cotangents[..]].concat())
}

fn finish(function: &mut Function, results: Vec<ValueId>) {
    function.result_attributes = vec![Default::default(); results.len()];
    let body = function.body;
    function.blocks[body].yields = results;
}

fn verified(function: &Function, what: &str) {
    let errors = verify_function(function, None);
    assert!(errors.is_empty(), "{what}: {errors:?}\n{}", text::print_function(function));
}

fn fail<T>(f: &Function, what: &str, error: &crate::Error) -> T {
    panic!("{what}: {}\n{}", error.message, text::print_function(f))
}

fn call(function: &Function, inputs: &[Literal]) -> Vec<Literal> {
    interpret::call(None, function, inputs)
        .unwrap_or_else(|e| fail(function, "the interpreter", &e))
}

/// Tensors like those flagged, with elements from -1 to 1.
fn directions(like: &[Literal], active: &[bool], seed: u64) -> Vec<Literal> {
    let direction = |(n, literal): (usize, &Literal)| {
        let ty = literal.ty();
        let count = ty.len() * ty.dtype.parts();
        let value = |at: u64| 2.0 * unit(at + ((n as u64) << 16) + (seed << 40)) - 1.0;
        tensor(ty.dtype, &ty.shape, &(0..count).map(value).collect::<Vec<f64>>())
    };
    like.iter().enumerate().filter(|(n, _)| active[*n]).map(direction).collect()
}

/// Central finite differences of the fourth order of the results that can have a tangent.
fn differences(
    f: &Function,
    inputs: &[Literal],
    active: &[bool],
    directions: &[Literal],
) -> Vec<Option<Literal>> {
    let at = |steps: f64| {
        let mut directions = directions.iter();
        let moved: Vec<Literal> = inputs
            .iter()
            .zip(active)
            .map(|(input, active)| match active {
                true => moved(input, directions.next().expect("a direction"), steps * STEP),
                false => input.clone(),
            })
            .collect();
        call(f, &moved)
    };
    let [far_below, below, above, far_above] = [-2.0, -1.0, 1.0, 2.0].map(at);
    let difference = |n: usize| {
        let ty = above[n].ty();
        is_differentiable(ty.dtype).then(|| {
            let [a, b, c, d] = [&far_below[n], &below[n], &above[n], &far_above[n]].map(numbers);
            let slope = |i: usize| (8.0 * (c[i] - b[i]) - (d[i] - a[i])) / (12.0 * STEP);
            tensor(ty.dtype, &ty.shape, &(0..a.len()).map(slope).collect::<Vec<f64>>())
        })
    };
    (0..above.len()).map(difference).collect()
}

fn moved(input: &Literal, direction: &Literal, step: f64) -> Literal {
    let sums: Vec<f64> =
        numbers(input).iter().zip(numbers(direction)).map(|(x, d)| x + step * d).collect();
    tensor(input.ty().dtype, &input.ty().shape, &sums)
}

/// The parts of the elements.
pub(crate) fn numbers(literal: &Literal) -> Vec<f64> {
    let (part, parts) = (literal.ty().dtype.part(), literal.ty().dtype.parts());
    let each = |n| real(part, literal.bits(n / parts, n % parts));
    (0..literal.ty().len() * parts).map(each).collect()
}

fn real(part: DType, bits: u64) -> f64 {
    f64::from_bits(crate::ops::convert::evaluate_parts([bits, 0], part, DType::F64)[0])
}

/// The real part of the sum of the products of elements, with its terms.
fn terms<'l>(x: &'l [Literal], y: &'l [Literal]) -> impl Iterator<Item = f64> + 'l {
    x.iter().zip(y).flat_map(|(x, y)| {
        let complex = x.ty().dtype.is_complex();
        let sign = move |n: usize| if complex && n % 2 == 1 { -1.0 } else { 1.0 };
        numbers(x).into_iter().zip(numbers(y)).enumerate().map(move |(n, (x, y))| sign(n) * x * y)
    })
}

fn product(x: &[Literal], y: &[Literal]) -> f64 {
    terms(x, y).sum()
}

fn magnitude(x: &[Literal], y: &[Literal]) -> f64 {
    terms(x, y).map(f64::abs).sum()
}

/// An error unless the tensors are equal: floats within the tolerance times the largest of them or
/// 1, not a number where the other is.
fn near(f: &Function, got: &Literal, expected: &Literal, tolerance: f64, what: &str) {
    assert_eq!(got.ty(), expected.ty(), "{what}\n{}", text::print_function(f));
    if !is_differentiable(got.ty().dtype) {
        let equal = got.to_bytes() == expected.to_bytes();
        assert!(equal, "{what}: {got:?} is not {expected:?}\n{}", text::print_function(f));
        return;
    }
    let (got, expected) = (numbers(got), numbers(expected));
    let finite = got.iter().chain(&expected).filter(|x| x.is_finite());
    let scale = finite.fold(1.0, |most: f64, x| most.max(x.abs()));
    for (at, (x, y)) in got.iter().zip(&expected).enumerate() {
        let close = (x - y).abs() <= tolerance * scale || x == y || (x.is_nan() && y.is_nan());
        let f = if close { String::new() } else { text::print_function(f) };
        assert!(close, "{what}: part {at} is {x}, not {y}\n{got:?}\n{expected:?}\n{f}");
    }
}

/// A number from 0 to 1.
fn unit(seed: u64) -> f64 {
    (mix(seed) >> 11) as f64 / (1_u64 << 53) as f64
}

fn mix(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[test]
fn products_and_sums() {
    let types = [values(&[2, 3], 1), values(&[2, 3], 2)];
    let build = |b: &mut Builder<'_>, x: &[ValueId]| {
        let product = b.multiply(x[0], x[1])?;
        let square = b.multiply(product, x[0])?;
        Ok(vec![b.add(square, x[1])?, product])
    };
    let complex = [1, 2].map(|seed| spread(DType::C128, &[2], -1.0, 1.0, seed));
    for inputs in [types, complex] {
        let f = function(&[inputs[0].ty().clone(), inputs[1].ty().clone()], build);
        // Batches of one operand alone, of which this needs derivatives, repeat the other.
        check_with(&f, &inputs, Options { batch: false, ..Options::default() });
        batches(&f, &inputs);
    }
}

#[test]
fn results_without_tangents() {
    check_body(&[values(&[3], 1), ints(&[2], &[4, -1])], |b, x| {
        let sum = b.add(x[1], x[1])?;
        let zeros = b.zeros(&TensorType::new([2], DType::F64))?;
        Ok(vec![sum, b.add(x[0], x[0])?, zeros])
    });
}
