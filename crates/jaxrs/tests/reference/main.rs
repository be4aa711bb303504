//! Small functions, written here and in JAX (`tests/reference/*.py`, whose results are stored
//! beside): values must be equal within rounding, and each script's cases must all be here.

mod control;
mod elementwise;
mod gradients;
mod indexing;
mod linear;
mod products;
mod random;
mod reductions;
mod shapes;

use jaxrs::prelude::*;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::Path;

/// The inputs of a script, by name.
type Inputs = BTreeMap<String, Array>;

/// A case: its name and what gives its results.
struct Case {
    name: &'static str,
    run: fn(&Inputs) -> Vec<Array>,
}

/// `[inputs] name => expression; ...`: the value is an array or a tree of arrays.
macro_rules! cases {
    ($inputs:tt $($name:literal => $value:expr;)*) => {
        pub const CASES: &[crate::Case] = &[$(crate::Case {
            name: $name,
            run: |inputs| {
                crate::inputs!(inputs $inputs);
                jaxrs::Tree::leaves(&$value)
            },
        }),*];
    };
}
use cases;

macro_rules! inputs {
    ($from:ident [$($input:ident),* $(,)?]) => {
        $(let $input = &$from[stringify!($input)];
        let _ = $input;)*
    };
}
use inputs;

fn read(file: &SafeTensors<'_>, prefix: &str) -> BTreeMap<String, Array> {
    let mut arrays = BTreeMap::new();
    for (name, view) in file.iter() {
        let Some(name) = name.strip_prefix(prefix) else { continue };
        let shape: Vec<u64> = view.shape().iter().map(|&extent| extent as u64).collect();
        let bytes = view.data();
        let array = match view.dtype() {
            Dtype::BOOL => of::<bool>(bytes, shape),
            Dtype::I8 => of::<i8>(bytes, shape),
            Dtype::I32 => of::<i32>(bytes, shape),
            Dtype::U8 => of::<u8>(bytes, shape),
            Dtype::U16 => of::<u16>(bytes, shape),
            Dtype::U32 => of::<u32>(bytes, shape),
            Dtype::U64 => of::<u64>(bytes, shape),
            Dtype::F16 => of::<half::f16>(bytes, shape),
            Dtype::F64 => of::<f64>(bytes, shape),
            Dtype::F32 => of::<f32>(bytes, shape),
            Dtype::C64 => of::<num_complex::Complex<f32>>(bytes, shape),
            other => panic!("{name}: {other:?} has no place in the scripts"),
        };
        arrays.insert(name.to_string(), array);
    }
    arrays
}

fn of<T: Element>(bytes: &[u8], shape: Vec<u64>) -> Array {
    let elements: Vec<T> = bytes.chunks(T::DTYPE.size() as usize).map(T::read).collect();
    Array::from_slice(&elements, shape)
}

/// The elements as numbers; a complex one is two.
fn numbers(array: &Array) -> Result<Vec<f64>, jaxrs::Error> {
    if array.dtype().is_complex() {
        return Ok([numbers(&array.real())?, numbers(&array.imag())?].concat());
    }
    array.astype(DType::F64).to_vec::<f64>()
}

/// What is wrong with results, or nothing.
fn differences(found: &[Array], expected: &[&Array]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} results, not {}", found.len(), expected.len()));
    }
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        if let Some(error) = found.error() {
            return Err(format!("result {n}: {error}"));
        }
        if found.ty() != expected.ty() {
            return Err(format!("result {n}: {}, not {}", found.ty(), expected.ty()));
        }
        let (x, y) = (numbers(found).expect("no error"), numbers(expected).expect("no error"));
        // Sums cancel: what is small beside other elements may be off by their rounding.
        let scale = y.iter().filter(|y| y.is_finite()).fold(0.0f64, |scale, y| scale.max(y.abs()));
        for (x, y) in x.iter().zip(&y) {
            let near = (x - y).abs() <= 2e-5 * y.abs() + 2e-6 * scale.min(1e3);
            if !(near || x == y || x.is_nan() && y.is_nan()) {
                return Err(format!("result {n}: {x} for {y}\n  {found}\n  {expected}"));
            }
        }
    }
    Ok(())
}

/// Checks all cases of a script, run at once and jitted.
fn check(script: &str, cases: &[&[Case]]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference");
    let bytes = std::fs::read(root.join(script).with_extension("safetensors")).expect("stored");
    let file = SafeTensors::deserialize(&bytes).expect("made by the script");
    let inputs = read(&file, "in/");
    let expected = read(&file, "out/");
    let mut known: Vec<&str> =
        expected.keys().filter_map(|key| Some(key.rsplit_once('/')?.0)).collect();
    known.dedup();
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut failures = Vec::new();
    for case in cases.iter().copied().flatten() {
        known.retain(|name| *name != case.name);
        if !case.name.contains(&only) {
            continue;
        }
        let wanted: Vec<&Array> =
            (0..).map_while(|n| expected.get(&format!("{}/{n}", case.name))).collect();
        if let Err(message) = differences(&(case.run)(&inputs), &wanted) {
            failures.push(format!("{}: {message}", case.name));
            continue;
        }
        let outcome = jit(|inputs: &Inputs| (case.run)(inputs))(&inputs)
            .map_err(|error| error.to_string())
            .and_then(|results| differences(&results, &wanted));
        if let Err(message) = outcome {
            failures.push(format!("{} jitted: {message}", case.name));
        }
    }
    assert!(known.is_empty(), "{script} has cases that are not here: {known:?}");
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn arrays_are_as_in_jax() {
    check(
        "arrays",
        &[
            elementwise::CASES,
            reductions::CASES,
            shapes::CASES,
            indexing::CASES,
            products::CASES,
            gradients::CASES,
        ],
    );
}

#[test]
fn random_numbers_and_control_flow_are_as_in_jax() {
    check("programs", &[random::CASES, control::CASES]);
}

#[test]
fn linear_algebra_and_transforms_are_as_in_jax() {
    check("linear", &[linear::CASES]);
}
