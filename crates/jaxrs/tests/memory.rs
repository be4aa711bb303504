//! Memory at run time: calls at once, arenas, donation and its errors, figures.

use jaxrs::prelude::*;
use jaxrs::{Compiled, Device, Lowered, donation_report};
use std::thread;

type Outcome = Result<(), jaxrs::Error>;

fn array(n: u64, start: f32) -> Array {
    let values: Vec<f32> = (0..n).map(|i| start + i as f32).collect();
    Array::from_vec(values)
}

#[test]
fn what_is_shared_between_threads_may_be() {
    fn shared<T: Send + Sync>() {}
    shared::<Array>();
    shared::<Scalar<f32>>();
    shared::<Compiled<(Array, Vec<Array>)>>();
    shared::<Lowered<Array>>();
    shared::<jaxrs::Error>();
    shared::<jaxrs::jit::Jitted>();
}

#[jit(donate = [state])]
fn advance(state: Array, by: &Array) -> (Array, Array) {
    let product = state.reshape([64, 64]).dot(&by.reshape([64, 64]));
    let next = &state + product.reshape([4096]) * 1e-4;
    let sum = next.sum(..);
    (next, sum)
}

#[test]
fn one_executable_is_called_from_eight_threads_at_once() -> Outcome {
    let by = array(4096, 0.0) * 1e-3;
    let run = |start: f32| -> Result<Vec<u32>, jaxrs::Error> {
        let mut state = array(4096, start);
        let mut sums = Vec::new();
        for _ in 0..20 {
            let (next, sum) = advance(state, &by)?;
            state = next;
            sums.push(sum.item::<f32>()?.to_bits());
        }
        Ok(sums)
    };
    let alone: Vec<Vec<u32>> = (0..8).map(|n| run(n as f32)).collect::<Result<_, _>>()?;
    for _ in 0..3 {
        let together: Vec<Vec<u32>> = thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || run(n as f32))).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Result<_, _>>()
        })?;
        assert_eq!(together, alone);
    }
    Ok(())
}

#[test]
fn a_donated_array_is_used_up_once() -> Outcome {
    #[jit(donate = [0, 1])]
    fn both(x: Array, y: Array) -> (Array, Array) {
        (&x + &y, x - y)
    }
    let x = array(8, 1.0);
    let address = x.address();
    let error = both(x.clone(), x).expect_err("one array twice");
    assert!(error.message().contains("donated twice"), "{error}");
    assert!(error.message().contains("of `x`") && error.message().contains("of `y`"), "{error}");
    // Nothing was consumed.
    let kept = error.take_donated();
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[0].address(), address);
    assert_eq!(kept[0].to_vec::<f32>()?[7], 8.0);
    let (sum, _) = both(kept[0].copy(), kept[0].copy())?;
    assert_eq!(sum.to_vec::<f32>()?[0], 2.0);
    Ok(())
}

#[test]
fn donation_is_reported_in_bytes() -> Outcome {
    #[jit(donate = [x])]
    fn reported(x: Array) -> Array {
        x * 2.0
    }
    let x = reported(reported(array(256, 0.0))?)?;
    let other = x.clone();
    let y = reported(x)?;
    assert_eq!(y.to_vec::<f32>()?[1], 2.0 * other.to_vec::<f32>()?[1]);
    let all = donation_report();
    let report = all.iter().find(|r| r.function.ends_with("::reported")).expect("it was called");
    assert_eq!((report.calls, report.reused_bytes, report.copied_bytes), (3, 2048, 1024));
    Ok(())
}

#[test]
fn strict_mode_refuses_to_copy() -> Outcome {
    #[jit(donate = [x], strict)]
    fn strictly(x: Array, y: &Array) -> Array {
        x + y
    }
    let (x, y) = (array(4, 0.0), array(4, 1.0));
    let other = x.clone();
    let address = x.address();
    let error = strictly(x, &y).expect_err("there are two handles");
    assert!(error.message().contains("has other handles"), "{error}");
    drop(other);
    let x = error.take_donated().pop().expect("given back");
    let x = strictly(x, &y)?;
    assert_eq!(x.address(), address);
    assert_eq!(x.to_vec::<f32>()?, [1.0, 3.0, 5.0, 7.0]);
    // Stages are as strict.
    let compiled = strictly::lower(&x, &y)?.compile()?;
    let error = compiled.call((x.clone(), y.clone())).expect_err("there are two handles");
    assert!(error.message().contains("has other handles"), "{error}");
    Ok(())
}

#[test]
fn a_used_array_names_the_call_that_used_it() -> Outcome {
    #[jit(donate = [x])]
    fn next(x: Array) -> Array {
        x + 1.0
    }
    let mut arguments = (array(4, 0.0),);
    let mut result = array(4, 0.0);
    let compiled = next::lower(&arguments.0)?.compile()?;
    compiled.call_into(&mut arguments, &mut result)?;
    let line = line!() - 1;
    assert_eq!(result.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    let error = arguments.0.to_vec::<f32>().expect_err("used up");
    assert!(error.message().contains("donated to `"), "{error}");
    assert!(error.message().contains("next`"), "{error}");
    assert_eq!(error.place().map(jaxrs::Place::line), Some(line));
    // A second call says so, too, and changes nothing.
    let error = compiled.call_into(&mut arguments, &mut result).expect_err("used up");
    assert!(error.message().contains("used it up"), "{error}");
    assert_eq!(result.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    // Wrong types are refused, and the arguments stay.
    let mut wrong = (array(5, 0.0),);
    assert!(compiled.call_into(&mut wrong, &mut result).is_err());
    assert_eq!(wrong.0.to_vec::<f32>()?.len(), 5);
    Ok(())
}

#[test]
fn results_in_shared_memory_are_written_elsewhere() -> Outcome {
    #[jit]
    fn twice(x: &Array) -> Array {
        x * 2.0
    }
    let mut arguments = (array(4, 1.0),);
    let compiled = twice::lower(&arguments.0)?.compile()?;
    let mut result = array(4, 0.0);
    let (before, kept) = (result.address(), result.clone());
    compiled.call_into(&mut arguments, &mut result)?;
    assert_ne!(result.address(), before);
    assert_eq!(kept.to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0]);
    let before = result.address();
    compiled.call_into(&mut arguments, &mut result)?;
    assert_eq!(result.address(), before);
    assert_eq!(result.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
    // The result may be a handle to the argument.
    let mut result = arguments.0.clone();
    compiled.call_into(&mut arguments, &mut result)?;
    assert_eq!(result.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(arguments.0.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    Ok(())
}

#[test]
fn twenty_executables_hold_one_arena() -> Outcome {
    // Each needs an arena of its own size.
    let functions: Vec<_> = (1..=20u64)
        .map(|n| {
            let x = Array::shape_only([n * 1000, 8], DType::F32);
            let lowered = chain::lower(&x)?;
            Ok((n, lowered.compile()?))
        })
        .collect::<Result<_, jaxrs::Error>>()?;
    let arena = |compiled: &Compiled<Array>| compiled.memory_analysis().arena_bytes;
    let (sum, most) = functions.iter().fold((0, 0), |(sum, most), (_, compiled)| {
        (sum + arena(compiled), arena(compiled).max(most))
    });
    assert!(most > 0 && sum > 5 * most, "{sum} {most}");
    // In a process of its own, so that no other test holds arenas.
    if std::env::var_os(CHILD).is_none() {
        return child("twenty_executables_hold_one_arena", &[]).map(drop);
    }
    let device = Device::cpu();
    device.trim();
    for (n, compiled) in &functions {
        compiled.call((Array::ones([n * 1000, 8]),))?;
    }
    let idle = device.idle_arena_bytes();
    assert!(idle >= most && idle < 2 * most, "{idle} bytes of arenas, the largest needs {most}");
    device.trim();
    assert_eq!(device.idle_arena_bytes(), 0);
    Ok(())
}

#[jit]
fn chain(x: &Array) -> Array {
    let sums = x.sum(0);
    let y = (x - &sums).tanh();
    let other = y.sum(0);
    (y * x - other).sum(1)
}

/// Set in processes that run one test by itself.
const CHILD: &str = "JAXRS_TEST_CHILD";

/// Runs a test by itself: what it printed, and what it wrote to standard error.
fn child(test: &str, environment: &[(&str, &str)]) -> Result<(String, String), jaxrs::Error> {
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(environment.iter().copied())
        .output()
        .expect("the program runs again");
    let (out, err) = (output.stdout, output.stderr);
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    assert!(output.status.success(), "{out}\n{err}");
    Ok((out.into_owned(), err.into_owned()))
}

#[test]
fn the_device_says_what_is_in_memory() -> Outcome {
    if std::env::var_os(CHILD).is_none() {
        return child("the_device_says_what_is_in_memory", &[]).map(drop);
    }
    let device = Device::cpu();
    let before = device.memory_stats();
    assert!(before.bytes_limit > 1 << 28, "{before:?}");
    let x = Array::from_slice(&[0.5f32; 3 << 18], [3, 1 << 18]);
    let line = line!() - 1;
    let handle = x.clone();
    let stats = device.memory_stats();
    assert_eq!(stats.bytes_in_use, before.bytes_in_use + (3 << 20));
    assert_eq!((stats.live, stats.allocations), (before.live + 1, before.allocations + 1));
    let live = device.live_arrays();
    assert_eq!(live.len(), 1);
    assert_eq!((live[0].shape.as_slice(), live[0].dtype), (&[3u64, 1 << 18][..], DType::F32));
    assert_eq!((live[0].bytes, live[0].place.line()), (3 << 20, line));
    assert!(live[0].place.file().ends_with("memory.rs"));
    let ((), scope) = device.memory_scope(|| drop(Array::from_vec(vec![0.0f32; 1 << 20])));
    assert_eq!(scope.peak_bytes_in_use, stats.bytes_in_use + (4 << 20));
    let ((), scope) = device.memory_scope(|| ());
    assert_eq!(scope.peak_bytes_in_use, stats.bytes_in_use);
    assert_eq!(device.memory_stats().peak_bytes_in_use, stats.bytes_in_use + (4 << 20));
    device.reset_peak();
    assert_eq!(device.memory_stats().peak_bytes_in_use, stats.bytes_in_use);
    let free = device.memory_stats();
    assert!(free.largest_free_block_bytes >= 4 << 20 && free.cached_bytes >= 4 << 20, "{free:?}");
    drop((x, handle));
    assert_eq!(device.live_arrays(), []);
    assert_eq!(device.memory_stats().bytes_in_use, before.bytes_in_use);
    device.trim();
    let after = device.memory_stats();
    assert_eq!((after.cached_bytes, after.largest_free_block_bytes), (0, 0));
    Ok(())
}

#[test]
fn a_retrace_says_why() -> Outcome {
    #[jit(static = [n])]
    fn traced(x: &Array, n: usize) -> Array {
        x * n as f32
    }
    if std::env::var_os(CHILD).is_none() {
        let (_, log) = child("a_retrace_says_why", &[("JAXRS_LOG", "other,retrace")])?;
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("traced at")).collect();
        assert_eq!(lines.len(), 3, "{log}");
        assert!(lines[0].ends_with("first call"), "{log}");
        assert!(lines[1].contains("array 0 is tensor<3xf32>, was tensor<2xf32>"), "{log}");
        assert!(lines[2].contains("n=5") && lines[2].contains("n=4"), "{log}");
        return Ok(());
    }
    traced(&array(2, 0.0), 4)?;
    traced(&array(3, 0.0), 4)?;
    traced(&array(3, 0.0), 4)?;
    traced(&array(3, 0.0), 5)?;
    assert_eq!(traced::cache_stats().hits, 1);
    Ok(())
}

#[test]
fn without_jit_bodies_run_op_by_op() -> Outcome {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static RUNS: AtomicU32 = AtomicU32::new(0);
    #[jit(donate = [x])]
    fn counted(x: Array) -> Array {
        RUNS.fetch_add(1, Relaxed);
        x + 1.0
    }
    if std::env::var_os(CHILD).is_none() {
        return child("without_jit_bodies_run_op_by_op", &[]).map(drop);
    }
    let x = counted(counted(array(1, 0.0))?)?;
    assert_eq!(RUNS.load(Relaxed), 1);
    jaxrs::disable_jit(true);
    let x = counted(counted(x)?)?;
    assert_eq!(RUNS.load(Relaxed), 3);
    assert_eq!(
        jit(|x: &Array| Array::scalar(x.item::<f32>().expect("known")))(&x)?.item::<f32>()?,
        4.0
    );
    jaxrs::disable_jit(false);
    assert_eq!(counted(x)?.item::<f32>()?, 5.0);
    assert_eq!(RUNS.load(Relaxed), 3);
    Ok(())
}
