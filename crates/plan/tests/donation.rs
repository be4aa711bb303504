//! The pairs of donors and results alias as many bytes as any order of the steps and any pairing
//! could.

mod common;

use common::{Build, Chance};
use jaxrs_kernel::program::{Donation, Program, Sharing, Step, ValueId};
use jaxrs_plan::{Options, Region, plan};

/// A program whose values are all arguments or results: what is not aliased is all that its memory
/// depends on.
fn program(seed: u64) -> Program {
    let mut chance = Chance::new(seed);
    let mut build = Build::default();
    let lengths = [64, 64, 100, 32, 200];
    let mut known = Vec::new();
    for _ in 0..1 + chance.below(4) {
        let donation = match chance.below(4) {
            0 => Donation::Kept,
            _ => Donation::Donated { preferred: None },
        };
        known.push(build.parameter(lengths[chance.below(5)], donation));
    }
    let (mut steps, mut results) = (Vec::new(), Vec::new());
    for _ in 0..1 + chance.below(5) {
        let operands: Vec<ValueId> =
            (0..1 + chance.below(2)).map(|_| known[chance.below(known.len())]).collect();
        let len = build.program.values[operands[0]].len();
        let len = if chance.below(3) > 0 { len } else { lengths[chance.below(5)] };
        let result = build.own(len);
        let mut step = build.step(&operands, &[result], Sharing::Never);
        for (cell, &operand) in step.sharing[0].iter_mut().zip(&operands) {
            let same = build.program.values[operand].len() == len;
            if same && chance.below(2) == 0 {
                *cell = Sharing::SameElement;
            }
        }
        steps.push(step);
        known.push(result);
        results.push(result);
    }
    build.finish(steps, &results)
}

/// The most bytes that can be aliased: every order of the steps, every pairing.
fn most(program: &Program) -> u64 {
    let mut best = 0;
    let mut left: Vec<&Step> = program.body.iter().collect();
    orders(program, &mut left, &mut Vec::new(), &mut best);
    best
}

fn orders<'a>(
    program: &Program,
    left: &mut Vec<&'a Step>,
    order: &mut Vec<&'a Step>,
    best: &mut u64,
) {
    if left.is_empty() {
        let donors: Vec<usize> = (0..program.parameters.len())
            .filter(|&i| program.parameters[i].donation != Donation::Kept)
            .collect();
        *best = (*best).max(pairs(program, order, 0, &donors));
        return;
    }
    for i in 0..left.len() {
        let waits = left[i].operands.iter().any(|v| left.iter().any(|s| s.results.contains(v)));
        if !waits {
            let step = left.remove(i);
            order.push(step);
            orders(program, left, order, best);
            order.pop();
            left.insert(i, step);
        }
    }
}

/// The most bytes with the results from one on, and these donors free.
fn pairs(program: &Program, order: &[&Step], result: usize, donors: &[usize]) -> u64 {
    let Some(&value) = program.results.get(result) else { return 0 };
    let mut best = pairs(program, order, result + 1, donors);
    let bytes = program.values[value].bytes().0;
    let made = order.iter().position(|s| s.results.contains(&value)).expect("a step makes it");
    for (n, &donor) in donors.iter().enumerate() {
        let argument = program.parameters[donor].value;
        let fits = program.values[argument].bytes().0 >= bytes;
        let dead = order[made + 1..].iter().all(|s| !s.operands.contains(&argument));
        let step = order[made];
        let mut read = step.operands.iter().zip(&step.sharing[0]).filter(|o| *o.0 == argument);
        if fits && dead && read.all(|o| *o.1 == Sharing::SameElement) {
            let mut rest = donors.to_vec();
            rest.remove(n);
            best = best.max(bytes + pairs(program, order, result + 1, &rest));
        }
    }
    best
}

#[test]
fn no_pairing_aliases_more() {
    let mut less = Vec::new();
    for seed in 0..3000 {
        let program = program(seed);
        let most = most(&program);
        let planned = plan(program, &Options::default()).expect("a plan");
        assert_eq!(planned.arena.0, 0, "seed {seed}: all values are arguments or results");
        let aliased: u64 = planned
            .program
            .results
            .iter()
            .zip(&planned.results)
            .filter(|(_, region)| matches!(region, Region::Argument(_)))
            .map(|(&value, _)| planned.program.values[value].bytes().0)
            .sum();
        assert!(aliased <= most, "seed {seed}: {aliased} is more than the most, {most}");
        if aliased < most {
            less.push((seed, aliased, most));
        }
    }
    assert!(
        less.is_empty(),
        "{} of 3000, as seed, bytes, most: {:?}",
        less.len(),
        &less[..less.len().min(20)]
    );
}
