//! The order of the steps: no order of a small program needs less than the one that is planned,
//! and what is said to be least is.

mod common;

use common::{Build, Chance};
use jaxrs_kernel::program::{Program, Sharing, Step, ValueId};
use jaxrs_plan::{Options, plan, validate};

/// A web of `size` steps over an argument that is kept: products, sums in place, reductions. The
/// last step reads all that no other reads.
fn web(seed: u64, size: usize) -> Program {
    let mut chance = Chance::new(seed);
    let mut build = Build::default();
    let mut steps = Vec::new();
    let mut known = vec![build.kept(64)];
    for _ in 0..size {
        let recent = known.len().saturating_sub(6);
        let pick = |chance: &mut Chance| known[recent + chance.below(known.len() - recent)];
        let (a, b) = (pick(&mut chance), pick(&mut chance));
        let len = |build: &Build, v: ValueId| build.program.values[v].len();
        known.push(match chance.below(5) {
            0 | 1 => build.dot(&mut steps, &[a, b], [16, 64, 64, 256][chance.below(4)]),
            2 if len(&build, a) == len(&build, b) => build.elementwise(&mut steps, &[a, b]),
            2 | 3 => build.elementwise(&mut steps, &[a]),
            _ => build.dot(&mut steps, &[a], 16),
        });
    }
    let read: Vec<ValueId> = steps.iter().flat_map(|s: &Step| s.operands.clone()).collect();
    known.retain(|v| !read.contains(v));
    let result = build.dot(&mut steps, &known, 1);
    build.finish(steps, &[result])
}

/// Bytes that an order needs beside the argument and the result.
fn need(program: &Program, order: &[usize]) -> u64 {
    let bytes = |v: ValueId| program.values[v].bytes().aligned().0;
    let is_ours =
        |v: ValueId| program.results[0] != v && program.parameters.iter().all(|p| p.value != v);
    let mut live: Vec<ValueId> = Vec::new();
    let mut most = 0;
    for (at, &s) in order.iter().enumerate() {
        let step = &program.body[s];
        let later =
            |v: &ValueId| order[at + 1..].iter().any(|&t| program.body[t].operands.contains(v));
        let dies = |v: &ValueId| live.contains(v) && !later(v);
        let result = step.results[0];
        let made = if is_ours(result) { bytes(result) } else { 0 };
        let shares = |o: usize| step.sharing[0][o] == Sharing::SameElement;
        let in_place =
            step.operands.iter().enumerate().any(|(o, v)| {
                shares(o) && dies(v) && bytes(*v) == bytes(result) && is_ours(result)
            });
        let held: u64 = live.iter().map(|&v| bytes(v)).sum();
        most = most.max(held + made - if in_place { made } else { 0 });
        live.retain(|v| later(v));
        if later(&result) && is_ours(result) {
            live.push(result);
        }
    }
    most
}

/// The least need over all orders.
fn brute(program: &Program, order: &mut Vec<usize>, least: &mut u64) {
    if order.len() == program.body.len() {
        *least = (*least).min(need(program, order));
        return;
    }
    for s in 0..program.body.len() {
        let made = |v: &ValueId| {
            let maker = program.body.iter().position(|t| t.results[0] == *v);
            maker.is_none_or(|m| order.contains(&m))
        };
        if !order.contains(&s) && program.body[s].operands.iter().all(made) {
            order.push(s);
            brute(program, order, least);
            order.pop();
        }
    }
}

#[test]
fn small_programs_get_the_best_order() {
    for seed in 1..300 {
        let program = web(seed, 3 + seed as usize % 5);
        let mut least = u64::MAX;
        brute(&program, &mut Vec::new(), &mut least);
        let planned = plan(program, &Options::default()).expect("a plan");
        assert_eq!(planned.notes.lower_bound.0, least, "seed {seed}");
        assert!(planned.arena.0 >= planned.notes.order_bound.0);
        assert!(planned.notes.order_bound.0 <= least, "seed {seed}");
    }
}

#[test]
fn larger_webs_get_valid_orders_that_need_no_more() {
    let mut proved = 0;
    for seed in 1..40 {
        let program = web(seed, 20 + 2 * seed as usize);
        let source: Vec<usize> = (0..program.body.len()).collect();
        let before = need(&program, &source);
        let planned = plan(program, &Options::default()).expect("a plan");
        validate::validate(&planned).expect("a right plan");
        let order: Vec<usize> = (0..planned.program.body.len()).collect();
        assert_eq!(planned.notes.lower_bound.0, need(&planned.program, &order));
        assert!(planned.notes.lower_bound.0 <= before, "seed {seed}");
        proved += u32::from(planned.arena == planned.notes.order_bound);
    }
    assert!(proved > 30, "{proved} of 39 are known to be the least");
}
