//! Tests of the rules of `scan`.

use super::Scan;
use super::rules::emit;
use crate::builder::Builder;
use crate::function::{Function, ValueId};
use crate::literal::Literal;
use crate::transform::linearize;
use crate::transform::testing::{check, function, ints, values};
use crate::types::TensorType;

type Body = fn(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>;

fn scan(inputs: &[Literal], scan: &Scan, body: Body) -> Function {
    let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
    function(&types, |b, x| emit(b, scan, x, body))
}

fn checked(inputs: &[Literal], consts: usize, carries: usize, body: Body) {
    for reverse in [false, true] {
        let op = Scan { length: 3, reverse, consts, carries };
        check(&scan(inputs, &op, body), inputs);
    }
}

#[test]
fn a_recurrence() {
    // c' = sin(c * w) + x, y = c' * x.
    checked(&[values(&[2], 1), values(&[2], 2), values(&[3, 2], 3)], 1, 1, |b, x| {
        let product = b.multiply(x[1], x[0])?;
        let sine = b.elementwise("stablehlo.sine", &[product])?;
        let next = b.add(sine, x[2])?;
        Ok(vec![next, b.multiply(next, x[2])?])
    });
}

#[test]
fn carries_get_tangents_from_each_other() {
    // Only the first carry has one at first; a counter has none.
    checked(
        &[values(&[], 1), values(&[], 2), ints(&[], &[3]), values(&[3], 3)],
        0,
        3,
        |b, x| {
            let first = b.multiply(x[0], x[3])?;
            let second = b.add(x[0], x[1])?;
            let one = b.full_like(x[2], 1.0)?;
            Ok(vec![first, second, b.add(x[2], one)?, b.multiply(second, second)?, x[2]])
        },
    );
}

#[test]
fn maps_and_loops_without_results() {
    checked(&[values(&[2], 1), values(&[3, 2], 3)], 1, 0, |b, x| {
        let product = b.multiply(x[0], x[1])?;
        Ok(vec![b.elementwise("stablehlo.exponential", &[product])?])
    });
    checked(&[values(&[2], 1)], 0, 1, |b, x| {
        Ok(vec![b.elementwise("stablehlo.tanh", &[x[0]])?])
    });
}

#[test]
fn residuals_that_are_there_are_not_stacked() {
    // The linear part needs w, exp(w), x, and the carry: only the last one is stacked.
    let inputs = [values(&[2], 1), values(&[2], 2), values(&[3, 2], 3)];
    let f = scan(&inputs, &Scan { length: 3, reverse: false, consts: 1, carries: 1 }, |b, x| {
        let w = b.elementwise("stablehlo.exponential", &[x[0]])?;
        let product = b.multiply(x[1], w)?;
        let next = b.multiply(product, x[2])?;
        Ok(vec![next])
    });
    let parts = linearize(&f, &[false, true, false]).expect("a derivative");
    let stacked: rustc_hash::FxHashSet<Vec<u64>> = parts.linear.parameters()[..parts.residuals]
        .iter()
        .map(|&v| parts.linear.ty(v).shape.clone())
        .collect();
    assert!(stacked.len() <= 2, "{stacked:?}");
    // x itself, and exp(w) computed once.
    assert_eq!(parts.residuals, 2, "{}", crate::text::print_function(&parts.linear));
    assert!(parts.residual_parameters.contains(&Some(2)));
}

#[test]
fn the_region_may_use_outer_values() {
    let inputs = [values(&[2], 1), values(&[2], 2), values(&[3, 2], 3)];
    let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
    let f = function(&types, |b, x| {
        let outer = b.multiply(x[0], x[0])?;
        let op = Scan { length: 3, reverse: false, consts: 0, carries: 1 };
        emit(b, &op, &x[1..], |b, y| {
            let product = b.multiply(y[0], outer)?;
            let next = b.add(product, y[1])?;
            Ok(vec![next, next])
        })
    });
    check(&f, &inputs);
}

#[test]
fn a_scan_of_scans() {
    checked(&[values(&[2], 1), values(&[3, 3, 2], 3)], 0, 1, |b, x| {
        let op = Scan { length: 3, reverse: true, consts: 0, carries: 1 };
        let out = emit(b, &op, x, |b, y| {
            let product = b.multiply(y[0], y[1])?;
            let next = b.elementwise("stablehlo.cosine", &[product])?;
            Ok(vec![next])
        })?;
        Ok(vec![out[0], out[0]])
    });
}

#[test]
fn linear_loops_may_carry_what_is_known() {
    // A linear function with a counter and a known power beside the linear carry.
    let inputs = [values(&[2], 1), ints(&[], &[1]), values(&[2], 2), values(&[3, 2], 3)];
    let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
    let f = function(&types, |b, x| {
        let op = Scan { length: 3, reverse: false, consts: 1, carries: 3 };
        emit(b, &op, &[x[0], x[1], x[0], x[2], x[3]], |b, y| {
            let one = b.full_like(y[1], 1.0)?;
            let power = b.multiply(y[2], y[0])?;
            let count = b.convert(y[1], jaxrs_kernel::DType::F64)?;
            let count = b.splat(count, &[2])?;
            let scaled = b.multiply(y[3], power)?;
            let slice = b.multiply(y[4], count)?;
            let next = b.add(scaled, slice)?;
            Ok(vec![b.add(y[1], one)?, power, next, b.multiply(next, y[0])?, power])
        })
    });
    // Linear in the last carry and the tensor.
    let back = crate::transform::transpose(&f, 2).expect("a transpose");
    let errors = crate::verify::verify_function(&back, None);
    assert!(errors.is_empty(), "{errors:?}");
    let out = |f: &Function, x: &[Literal]| crate::interpret::call(None, f, x).expect("values");
    let numbers = crate::transform::testing::numbers;
    let forward = out(&f, &inputs);
    let like = |l: &Literal| match l.ty().dtype {
        jaxrs_kernel::DType::F64 => values(&l.ty().shape, 7),
        _ => l.clone(),
    };
    let cotangents: Vec<Literal> = forward.iter().map(like).collect();
    let got = out(&back, &[&inputs[..2], &cotangents].concat());
    // Results 2 and 3 depend on the linear parameters.
    let sum = |x: &[Literal], y: &[Literal]| -> f64 {
        let pairs = x.iter().zip(y).flat_map(|(x, y)| numbers(x).into_iter().zip(numbers(y)));
        pairs.map(|(x, y)| x * y).sum()
    };
    let (left, right) = (sum(&forward[2..4], &cotangents[2..4]), sum(&got, &inputs[2..]));
    assert!((left - right).abs() < 1e-9, "{left} {right}");
}

#[test]
fn the_text_reads_back() {
    let inputs = [values(&[2], 1), values(&[2], 2), values(&[3, 2], 3)];
    let f = scan(&inputs, &Scan { length: 3, reverse: true, consts: 1, carries: 1 }, |b, x| {
        Ok(vec![b.multiply(x[0], x[1])?, x[2]])
    });
    let text = crate::text::print_function(&f);
    let again = crate::text::parse(&text, "test").unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(crate::text::print_function(&again.functions[0]), text);
}
