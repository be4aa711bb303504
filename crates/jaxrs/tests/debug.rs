//! Printing from running programs, and the search for NaNs. Each test runs itself again, to see what
//! it prints.

use jaxrs::debug;
use jaxrs::prelude::*;

type Outcome = Result<(), jaxrs::Error>;

const CHILD: &str = "JAXRS_TEST_CHILD";

/// None in the process that runs the test by itself; else what it printed there, by line.
fn printed(test: &str, environment: &[(&str, &str)]) -> Option<Vec<String>> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(environment.iter().copied())
        .output()
        .expect("the program runs again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    Some(text.lines().filter_map(|line| Some(line[line.find('|')?..].to_string())).collect())
}

fn array(x: &[f32]) -> Array {
    Array::from_slice(x, [x.len() as u64])
}

#[test]
fn values_are_printed_in_order() -> Outcome {
    if let Some(lines) = printed("values_are_printed_in_order", &[]) {
        let expected = [
            "| eager tensor<2xf32> [1.0, 2.0]",
            // The jitted function, twice.
            "| x is tensor<2xf32> [1.0, 2.0]",
            "| y is tensor<2xf32> [2.0, 4.0] and n tensor<i32> 7 |",
            "| unused tensor<2xf32> [11.0, 12.0]",
            "| x is tensor<2xf32> [3.0, 4.0]",
            "| y is tensor<2xf32> [6.0, 8.0] and n tensor<i32> 7 |",
            "| unused tensor<2xf32> [13.0, 14.0]",
            // Each step of a loop, in order with what stands round it.
            "| before",
            "| carry tensor<f32> 0.0",
            "| carry tensor<f32> 1.0",
            "| carry tensor<f32> 3.0",
            "| after tensor<f32> 6.0",
            // The branch that runs.
            "| positive tensor<f32> 6.0",
        ];
        assert_eq!(lines, expected);
        return Ok(());
    }
    let x = array(&[1.0, 2.0]);
    debug::print("| eager {}", &x);
    let f = jit(|x: &Array| {
        debug::print("| x is {}", x);
        let y = x * 2.0;
        debug::print("| y is {} and n {} |", &(y.clone(), Array::scalar(7)));
        debug::print("| unused", &(x + 10.0));
        y.sum(..)
    });
    assert_eq!(f(&x)?.item::<f32>()?, 6.0);
    assert_eq!(f(&array(&[3.0, 4.0]))?.item::<f32>()?, 14.0);
    let total = jit(|xs: &Array| {
        debug::print("| before", &());
        let (sum, _) = scan(
            |sum: &Array, x: &Array| {
                debug::print("| carry {}", sum);
                (sum + x, ())
            },
            &Array::scalar(0.0f32),
            xs,
        );
        debug::print("| after {}", &sum);
        sum
    });
    let sum = total(&array(&[1.0, 2.0, 3.0]))?;
    let choose = jit(|x: &Array| {
        let positive = |x: &Array| {
            debug::print("| positive {}", x);
            x.clone()
        };
        let negative = |x: &Array| {
            debug::print("| negative {}", x);
            -x
        };
        cond(&x.gt(0.0), positive, negative, x)
    });
    choose(&sum)?;
    Ok(())
}

#[test]
fn transforms_print_values_once() -> Outcome {
    if let Some(lines) = printed("transforms_print_values_once", &[]) {
        let expected = [
            "| grad tensor<f32> 9.0",
            "| vmap tensor<f32> 1.0",
            "| vmap tensor<f32> 4.0",
            "| both tensor<f32> 1.0",
            "| both tensor<f32> 4.0",
            "| loop tensor<f32> 1.0",
            "| loop tensor<f32> 2.0",
        ];
        assert_eq!(lines, expected);
        return Ok(());
    }
    let square = |label: &'static str| {
        move |x: &Array| {
            let y = x * x;
            debug::print(label, &y);
            y
        }
    };
    let slope = jit(grad(square("| grad {}")))(&Array::scalar(3.0f32))?;
    assert_eq!(slope.item::<f32>()?, 6.0);
    let x = array(&[1.0, 2.0]);
    jit(vmap(square("| vmap {}")))(&x)?;
    let slopes = jit(vmap(grad(square("| both {}"))))(&x)?;
    assert_eq!(slopes.to_vec::<f32>()?, [2.0, 4.0]);
    let power = |x: &Array| {
        let step = |_: &Array, y: &Array| {
            debug::print("| loop {}", y);
            y * x
        };
        fori_loop(0..2, step, &Array::scalar(1.0f32))
    };
    assert_eq!(jit(grad(power))(&Array::scalar(2.0f32))?.item::<f32>()?, 4.0);
    Ok(())
}

#[test]
fn exports_do_not_print() -> Outcome {
    #[jit]
    fn shows(x: &Array) -> Array {
        debug::print("x {}", x);
        x + 1.0
    }
    let lowered = shows::lower(&Array::shape_only([2], DType::F32))?;
    assert!(lowered.as_text().contains("jaxrs.print"), "{}", lowered.as_text());
    assert!(!lowered.to_stablehlo()?.contains("jaxrs."), "{}", lowered.to_stablehlo()?);
    Ok(())
}

#[test]
fn the_op_that_made_a_nan_is_named() -> Outcome {
    let watch = [("JAXRS_DEBUG_NANS", "1")];
    if printed("the_op_that_made_a_nan_is_named", &watch).is_some() {
        return Ok(());
    }
    let f = jit(|x: &Array| {
        let shifted = x - 1.0;
        let logs = shifted.log();
        (logs * 2.0).sum(..)
    });
    let line = line!() - 3;
    assert_eq!(f(&array(&[2.0, 2.0]))?.item::<f32>()?, 0.0);
    let error = f(&array(&[2.0, 0.5])).expect_err("the logarithm of a negative number");
    let message = error.message();
    assert!(message.contains("stablehlo.log made a NaN"), "{message}");
    assert!(message.contains(&format!("debug.rs:{line}")), "{message}");
    assert!(message.contains("element 1 of tensor<2xf32>"), "{message}");
    let error = f(&array(&[f32::NAN, 2.0])).expect_err("the argument has one");
    assert!(error.message().contains("was given a NaN"), "{error}");
    // Inside a loop, and outside of jit.
    let g = jit(|x: &Array| fori_loop(0..3, |_, x: &Array| (x - 1.0).sqrt(), x));
    let error = g(&Array::scalar(2.0f32)).expect_err("the second step");
    assert!(error.message().contains("stablehlo.sqrt made a NaN"), "{error}");
    let error = array(&[-1.0]).sqrt().to_vec::<f32>().expect_err("at once");
    assert!(error.message().contains("stablehlo.sqrt made a NaN"), "{error}");
    Ok(())
}
