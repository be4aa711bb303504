//! What planning costs, counted, not timed: no program may make the planner try much more than its
//! size deserves.

use jaxrs::compile::{Options, plan};
use std::fmt::Write as _;

/// Layers forwards, then backwards: each reads what its forward twin made.
fn network(layers: usize) -> String {
    let ty = |n: usize| format!("tensor<8x{n}xf32>");
    let width = |layer: usize| 16 + 8 * (layer * 7 % 5);
    let mut text = String::from("func.func public @main(%x0: tensor<8x16xf32>");
    for i in 0..layers {
        write!(text, ", %w{i}: tensor<{}x{}xf32>", width(i), width(i + 1)).expect("a string");
    }
    writeln!(text, ") -> tensor<8x16xf32> {{").expect("a string");
    for i in 0..layers {
        let (from, to) = (ty(width(i)), ty(width(i + 1)));
        let weights = format!("tensor<{}x{}xf32>", width(i), width(i + 1));
        writeln!(
            text,
            "%d{i} = stablehlo.dot_general %x{i}, %w{i}, contracting_dims = [1] x [0] : ({from}, {weights}) -> {to}
             %x{} = stablehlo.tanh %d{i} : {to}",
            i + 1
        )
        .expect("a string");
    }
    let last = ty(width(layers));
    writeln!(text, "%g{layers} = stablehlo.multiply %x{layers}, %x{layers} : {last}")
        .expect("a string");
    for i in (0..layers).rev() {
        let (from, to) = (ty(width(i)), ty(width(i + 1)));
        let weights = format!("tensor<{}x{}xf32>", width(i), width(i + 1));
        writeln!(
            text,
            "%b{i} = stablehlo.multiply %g{}, %x{} : {to}
             %e{i} = stablehlo.dot_general %b{i}, %w{i}, contracting_dims = [1] x [1] : ({to}, {weights}) -> {from}
             %g{i} = stablehlo.add %e{i}, %x{i} : {from}",
            i + 1,
            i + 1
        )
        .expect("a string");
    }
    text + "return %g0 : tensor<8x16xf32>\n}\n"
}

#[test]
fn planning_is_bounded() {
    for layers in [1, 4, 16, 48] {
        let text = network(layers);
        let program = plan(text.as_bytes(), "network", &Options::default()).expect("a plan");
        let planned = program.planned();
        let (steps, spent) = (planned.program.body.len() as u64, planned.notes.spent);
        let rows = planned.places.values().flatten().count() as u64;
        assert!(steps >= 2 * layers as u64, "{steps} steps");
        let about = format!("{layers} layers, {steps} steps, {rows} values: {spent:?}");
        assert!(spent.orders <= 10.min(800 / steps + 2), "{about}");
        assert!(spent.rounds <= 4 * spent.orders, "{about}");
        assert!(spent.steps <= 2 * (2_000 + 300 * steps), "{about}");
        assert!(spent.comparisons <= 40_000 + 60 * rows * rows, "{about}");
    }
}
