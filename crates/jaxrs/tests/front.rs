//! The front end: arrays, transforms and jitted closures together.

use jaxrs::prelude::*;

type Outcome = Result<(), jaxrs::Error>;

fn array(x: &[f64]) -> Array {
    Array::from_slice(x, [x.len() as u64])
}

#[test]
fn operators_broadcast_and_promote() -> Outcome {
    let x = array(&[1.0, 2.0, 3.0]);
    let y = 2.0 * (&x + 1.0) - x.reshape([3, 1]);
    assert_eq!(y.shape(), [3, 3]);
    assert_eq!(y.to_vec::<f64>()?, [3.0, 5.0, 7.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0]);
    Ok(())
}

#[test]
fn gradients_nest() -> Outcome {
    let cube = |x: &Array| x * x * x;
    let x = Array::scalar(2.0f64);
    assert_eq!(grad(cube)(&x).item::<f64>()?, 12.0);
    assert_eq!(grad(grad(cube))(&x).item::<f64>()?, 12.0);
    assert_eq!(grad(grad(grad(cube)))(&x).item::<f64>()?, 6.0);
    Ok(())
}

#[test]
fn a_jitted_closure_is_traced_once_for_each_form() -> Outcome {
    use std::cell::Cell;
    let traced = Cell::new(0);
    let double = jit(|x: &Array| {
        traced.set(traced.get() + 1);
        x + x
    });
    for _ in 0..3 {
        assert_eq!(double(&array(&[1.0, 2.0]))?.to_vec::<f64>()?, [2.0, 4.0]);
    }
    double(&array(&[1.0]))?;
    assert_eq!(traced.get(), 2);
    Ok(())
}

#[test]
fn a_donated_argument_keeps_its_address() -> Outcome {
    let step = jit_donate(|x: Array| x * 2.0);
    let x = array(&[1.0; 100]);
    let before = x.address();
    let x = step(x)?;
    assert_eq!(x.address(), before);
    let other = x.clone();
    let y = step(x)?;
    assert_ne!(y.address(), other.address());
    assert_eq!(other.to_vec::<f64>()?[0], 2.0);
    Ok(())
}

#[test]
fn vmap_of_a_gradient() -> Outcome {
    let slope = grad(|x: &Array| x * x);
    let all = vmap(|x: &Array| slope(x));
    assert_eq!(all(&array(&[1.0, 2.0, 3.0])).to_vec::<f64>()?, [2.0, 4.0, 6.0]);
    Ok(())
}

#[test]
fn an_error_surfaces_where_the_value_is_read() {
    let x = array(&[1.0, 2.0]);
    let wrong = (&x + array(&[1.0, 2.0, 3.0])) * 2.0;
    let error = wrong.to_vec::<f64>().expect_err("shapes differ");
    assert!(error.message().contains("do not broadcast"), "{error}");
    assert!(error.place().is_some_and(|place| place.file().ends_with("front.rs")));
    let error = jit(|x: &Array| x + array(&[1.0, 2.0, 3.0]))(&x).expect_err("the same");
    assert!(error.message().contains("do not broadcast"), "{error}");
}

#[test]
fn loops_and_choices_have_derivatives() -> Outcome {
    let x = Array::scalar(3.0f64);
    let power = |x: &Array| fori_loop(0..4, |_, y: &Array| y * x, &Array::scalar(1.0f64));
    assert_eq!(power(&x).item::<f64>()?, 81.0);
    assert_eq!(grad(power)(&x).item::<f64>()?, 108.0);
    assert_eq!(grad(grad(power))(&x).item::<f64>()?, 108.0);
    let piecewise = |x: &Array| cond(&x.gt(0.0), |x: &Array| x * x, |x: &Array| -x, x);
    assert_eq!(grad(piecewise)(&x).item::<f64>()?, 6.0);
    assert_eq!(grad(piecewise)(&-&x).item::<f64>()?, -1.0);
    let doubled = while_loop(|x: &Array| x.lt(100.0), |x: &Array| x * 2.0, &x);
    assert_eq!(doubled.item::<f64>()?, 192.0);
    let (sum, sums) = scan(|sum: &Array, x: &Array| (sum + x, sum * x), &x, &array(&[1.0, 2.0]));
    assert_eq!((sum.item::<f64>()?, sums.to_vec::<f64>()?), (6.0, vec![3.0, 8.0]));
    let all = associative_scan(|x: &Array, y: &Array| x + y, &array(&[1.0, 2.0, 3.0, 4.0, 5.0]));
    assert_eq!(all.to_vec::<f64>()?, [1.0, 3.0, 6.0, 10.0, 15.0]);
    let squares = map_batched(|x: &Array| x * x, &array(&[1.0, 2.0, 3.0]), 2);
    assert_eq!(squares.to_vec::<f64>()?, [1.0, 4.0, 9.0]);
    Ok(())
}

#[test]
fn functions_have_rules_of_their_own() -> Outcome {
    let x = Array::scalar(2.0f64);
    let custom = custom_vjp(
        |x: &Array| x * x,
        |x: &Array| (x * x, x.clone()),
        |x: &Array, ct: &Array| 10.0 * (x * ct),
    );
    assert_eq!(grad(custom)(&x).item::<f64>()?, 20.0);
    let custom = custom_jvp(|x: &Array| x * x, |x: &Array, t: &Array| (x * x, t * 7.0));
    assert_eq!(grad(&custom)(&x).item::<f64>()?, 7.0);
    assert_eq!(jvp(custom, &x, &x).1.item::<f64>()?, 14.0);
    let kept = |x: &Array| stop_gradient(&x.square()) * x;
    assert_eq!(grad(kept)(&x).item::<f64>()?, 4.0);
    let again = checkpoint(|x: &Array| x.sin().exp());
    let (value, slope) = value_and_grad(again)(&x);
    let expected = (2.0f64.sin().exp(), 2.0f64.cos() * 2.0f64.sin().exp());
    assert!((value.item::<f64>()? - expected.0).abs() < 1e-14);
    assert!((slope.item::<f64>()? - expected.1).abs() < 1e-14);
    Ok(())
}

#[test]
fn jacobians() -> Outcome {
    let f = |x: &Array| x * x * x;
    let x = array(&[1.0, 2.0]);
    let expected = [3.0, 0.0, 0.0, 12.0];
    assert_eq!(jacfwd(f)(&x).to_vec::<f64>()?, expected);
    assert_eq!(jacrev(f)(&x).to_vec::<f64>()?, expected);
    let second = hessian(|x: &Array| (x * x * x).sum(..))(&x);
    assert_eq!(second.to_vec::<f64>()?, [6.0, 0.0, 0.0, 12.0]);
    let (_, linear) = linearize(f, &x);
    assert_eq!(linear(&x).to_vec::<f64>()?, [3.0, 24.0]);
    let outer = vmap_axes(|(x, y): &(Array, Array)| x * y, [Some(1), None], 0);
    let m = Array::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    assert_eq!(outer(&(m, x)).to_vec::<f64>()?, [1.0, 6.0, 2.0, 8.0]);
    Ok(())
}

#[test]
fn tangents_and_slices_of_a_wrong_form_are_errors() {
    let x = array(&[1.0, 2.0]);
    let double = |x: &Array| x * 2.0;
    let (_, tangent) = jvp(double, &x, &array(&[1.0]));
    assert!(tangent.error().is_some_and(|e| e.message().contains("must be tensor<2xf64>")));
    let (_, back) = vjp(double, &x);
    assert!(back(&Array::scalar(1.0f64)).error().is_some());
    let (_, tangents) = jvp(|x: &Vec<Array>| x.clone(), &vec![x.clone()], &Vec::new());
    assert!(tangents[0].error().is_some_and(|e| e.message().contains("takes 2 arrays")));
    let scalar = Array::scalar(1.0f64);
    assert!(map_batched(double, &scalar, 2).error().is_some());
    let pair = (x.clone(), scalar);
    let sum = |(a, b): &(Array, Array), (c, d): &(Array, Array)| (a + c, b + d);
    assert!(associative_scan(sum, &pair).1.error().is_some());
    let short = custom_vjp(
        |x: &Array| vec![x.clone(), x.clone()],
        |x: &Array| (vec![x.clone()], ()),
        |(): &(), ct: &Vec<Array>| ct[0].clone(),
    );
    assert!(short(&x)[0].error().is_some_and(|e| e.message().contains("forward rule")));
}
