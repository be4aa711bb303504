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
