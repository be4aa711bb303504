//! Long programs are planned in little more than linear time: in release builds, which plan them in
//! seconds.
#![cfg(not(debug_assertions))]

mod common;

use common::Build;
use jaxrs_kernel::program::{Program, ValueId};
use jaxrs_plan::{Options, plan, validate};
use std::time::Instant;

fn check(name: &str, program: Program) {
    let begin = Instant::now();
    let planned =
        plan(program, &Options { validate: false, ..Options::default() }).expect("a plan");
    let planning = begin.elapsed();
    let begin = Instant::now();
    validate::validate(&planned).expect("a right plan");
    println!(
        "{name}: planned in {planning:?}, validated in {:?}, arena {} of bound {}, {}",
        begin.elapsed(),
        planned.arena.0,
        planned.notes.lower_bound.0,
        planned.notes.solver
    );
    assert!(planning.as_secs() < 20, "{name} took {planning:?}");
}

#[test]
fn fifty_thousand_steps() {
    const STEPS: usize = 50_000;
    let chance = |n: usize, i: usize| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % n;

    let mut build = Build::default();
    let mut steps = Vec::new();
    let mut value = build.donated(1000);
    for i in 0..STEPS {
        value = match i % 3 {
            0 => build.update(&mut steps, &[value]),
            1 => build.elementwise(&mut steps, &[value]),
            _ => build.dot(&mut steps, &[value], 1000),
        };
    }
    check("a chain", build.finish(steps, &[value]));

    let mut build = Build::default();
    let mut steps = Vec::new();
    let mut values: Vec<ValueId> = (0..50).map(|_| build.donated(100)).collect();
    for i in 0..STEPS {
        let recent = &values[values.len() - 50..];
        let operands = [recent[chance(50, i)], recent[chance(50, i + 7)]];
        let len = 16 * (1 + chance(40, i + 3)) as u64;
        values.push(build.dot(&mut steps, &operands, len));
    }
    let results: Vec<ValueId> = values[values.len() - 20..].to_vec();
    check("a web", build.finish(steps, &results));

    let mut build = Build::default();
    let mut steps = Vec::new();
    let mut results = Vec::new();
    for i in 0..STEPS / 10 {
        let parameter = build.donated(10 + (i % 90) as u64);
        let mut value = parameter;
        for _ in 0..10 {
            value = build.elementwise(&mut steps, &[value]);
        }
        results.push(value);
    }
    check("five thousand donors", build.finish(steps, &results));
}
