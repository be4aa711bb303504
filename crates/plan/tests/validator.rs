//! The validator refuses plans that are wrong in one place.

mod common;

use common::Build;
use jaxrs_kernel::program::{Bytes, Scratch, Sharing, StepKind, ValueId};
use jaxrs_plan::{Options, Place, Planned, Region, plan, validate};

struct Case {
    planned: Planned,
    /// An argument that is kept, one that is donated, two values, an updated one.
    kept: ValueId,
    values: [ValueId; 3],
}

/// `z = update(dot(kept), elementwise(dot(donated)))`, with scratch in the second dot.
fn case() -> Case {
    let mut build = Build::default();
    let mut steps = Vec::new();
    let kept = build.kept(64);
    let donated = build.donated(32);
    let x = build.dot(&mut steps, &[kept], 128);
    let y = build.dot(&mut steps, &[donated, kept], 128);
    steps.last_mut().expect("a step").scratch = Scratch { per_thread: Bytes(128) };
    let z = build.update(&mut steps, &[x, y]);
    let w = build.dot(&mut steps, &[z, y], 16);
    let program = build.finish(steps, &[w]);
    let planned = plan(program, &Options { validate: true, ..Options::default() }).expect("a plan");
    Case { planned, kept, values: [x, y, z] }
}

/// Changes the plan and expects a refusal that says `why`.
fn refused(why: &str, change: impl FnOnce(&mut Case)) {
    let mut case = case();
    change(&mut case);
    let violation = validate::validate(&case.planned).expect_err(why).to_string();
    assert!(violation.contains(why), "{violation:?} says nothing of {why:?}");
}

#[test]
fn wrong_plans_are_refused() {
    refused("is spoiled", |c| {
        c.planned.arena = Bytes(1 << 20);
        c.planned.scratch.values_mut().for_each(|at| *at = Bytes(1 << 19));
        c.planned.places[c.values[1]] = c.planned.places[c.values[0]];
    });
    refused("which is not there", |c| {
        let place = c.planned.places[c.values[0]].expect("a place");
        let moved = Bytes(place.offset.0 + 2048);
        c.planned.arena = Bytes(1 << 20);
        c.planned.places[c.values[2]] = Some(Place { offset: moved, ..place });
    });
    refused("bytes", |c| c.planned.arena = Bytes(512));
    refused("has no place", |c| c.planned.places[c.values[1]] = None);
    refused("written over arg.0", |c| {
        let place = Place { region: Region::Argument(0), offset: Bytes(0) };
        assert_eq!(c.planned.places[c.kept], Some(place));
        c.planned.places[c.values[0]] = Some(place);
        c.planned.places[c.values[2]] = Some(place);
    });
    refused("scratch", |c| {
        let place = c.planned.places[c.values[1]].expect("a place");
        c.planned.scratch.values_mut().for_each(|at| *at = place.offset);
    });
    refused("result 0 is at", |c| c.planned.results[0] = Region::Arena);
    refused("is read before it is made", |c| {
        // The steps in another order.
        let steps = &mut c.planned.program.body;
        let update = steps.iter().position(|s| !s.updates.is_empty()).expect("an update");
        let step = steps.remove(update);
        steps.push(step);
    });
    refused("written over", |c| {
        for step in &mut c.planned.program.body {
            if !step.updates.is_empty() {
                step.sharing[0][0] = Sharing::Never;
            }
        }
    });
}

#[test]
fn an_update_that_also_reads_elsewhere_gets_a_copy() {
    let mut build = Build::default();
    let mut steps = Vec::new();
    let x = build.donated(64);
    let y = build.update(&mut steps, &[x]);
    steps[0].sharing[0][0] = Sharing::Never;
    let program = build.finish(steps, &[y]);
    let planned = plan(program, &Options { validate: true, ..Options::default() }).expect("a plan");
    assert_eq!(planned.notes.copies.len(), 1);
    assert_eq!(planned.results, [Region::Argument(0)]);
    let copies = planned.program.body.iter().filter(|s| matches!(s.kind, StepKind::Copy)).count();
    assert_eq!(copies, 1);
}

#[test]
fn a_swap_crosses_over() {
    let mut build = Build::default();
    let mut steps = Vec::new();
    let preferred = |result| jaxrs_kernel::program::Donation::Donated { preferred: Some(result) };
    let a = build.parameter(64, preferred(0));
    let b = build.parameter(64, preferred(1));
    let new_a = build.elementwise(&mut steps, &[b]);
    let new_b = build.elementwise(&mut steps, &[a]);
    let program = build.finish(steps, &[new_a, new_b]);
    let planned = plan(program, &Options { validate: true, ..Options::default() }).expect("a plan");
    assert_eq!(planned.results, [Region::Argument(1), Region::Argument(0)]);
    assert!(planned.notes.copies.is_empty());
    assert_eq!(planned.arena, Bytes(0));
}

#[test]
fn donors_without_results_host_others() {
    let mut build = Build::default();
    let mut steps = Vec::new();
    let big = build.donated(1024);
    let small = build.dot(&mut steps, &[big], 8);
    let mid = build.dot(&mut steps, &[small], 512);
    let other = build.dot(&mut steps, &[small], 512);
    let out = build.dot(&mut steps, &[mid, other], 2000);
    let program = build.finish(steps, &[out]);
    let planned = plan(program, &Options { validate: true, ..Options::default() }).expect("a plan");
    // Both halves of the argument, and the small value in the result's memory.
    assert!(planned.arena.0 <= 64, "{} bytes of arena", planned.arena.0);
    let note = &planned.notes.donations[0];
    assert_eq!(note.used_as, jaxrs_plan::UsedAs::Scratch);
    assert!(note.reason.contains("larger"), "{}", note.reason);
}

#[test]
fn readers_stand_before_the_writer() {
    let mut build = Build::default();
    let mut steps = Vec::new();
    let x = build.donated(4096);
    let y = build.update(&mut steps, &[x]);
    let row = build.dot(&mut steps, &[x], 16);
    let program = build.finish(steps, &[y, row]);
    let planned = plan(program, &Options { validate: true, ..Options::default() }).expect("a plan");
    assert!(planned.notes.copies.is_empty(), "{:?}", planned.notes.copies);
    assert_eq!(planned.results[0], Region::Argument(0));
}
