//! Loops that split where guards on their variables change, and branches.

use super::{Build, Guard, LoopOptions, MAX_CODE, MAX_PIECES};
use crate::affine::Affine;
use crate::inst::BinaryOp;
use crate::kernel::{LoopKind, Reg};

/// A loop with more edges than this keeps its guards.
const MAX_EDGES: usize = 64;

/// A parallel loop over `[0, extent)`. The body may be called several times, with variables of
/// other bounds; a loop of one iteration (not ranged) is its body with a constant.
pub fn parallel<C: Build>(
    cx: &mut C,
    extent: i64,
    options: LoopOptions,
    mut body: impl FnMut(&mut C, &Affine),
) {
    stretches(cx, extent, options, LoopKind::Parallel, &[], |cx, var, _| {
        body(cx, var);
        Vec::new()
    });
}

/// A loop over `[0, extent)` with carries; gives their final values, the initial ones for extent 0.
/// In a [`LoopKind::Reduce`] loop every carry names its instruction, `next = op(carry, x)`.
pub fn reduce<C: Build>(
    cx: &mut C,
    extent: i64,
    options: LoopOptions,
    kind: LoopKind,
    inits: &[(Reg, Option<BinaryOp>)],
    body: impl FnMut(&mut C, &Affine, &[Reg]) -> Vec<Reg>,
) -> Vec<Reg> {
    stretches(cx, extent, options, kind, inits, body)
}

fn stretches<C: Build>(
    cx: &mut C,
    extent: i64,
    options: LoopOptions,
    kind: LoopKind,
    inits: &[(Reg, Option<BinaryOp>)],
    mut body: impl FnMut(&mut C, &Affine, &[Reg]) -> Vec<Reg>,
) -> Vec<Reg> {
    let mut values: Vec<(Reg, Option<BinaryOp>)> = inits.to_vec();
    let mut edges = vec![0, extent];
    let outer = cx.builder().copies;
    if options.split && extent > 1 && cx.builder().trials == 0 {
        let trial = cx.builder().begin_trial();
        let (var, inside) = cx.builder().open_loop((0, extent), options.ranged, kind, inits);
        body(cx, &var, &inside);
        let (cuts, size) = cx.builder().end_trial(&trial);
        edges.splice(1..1, cuts.into_iter().filter(|&c| c > 0 && c < extent));
        // The longest stretch without guards and what is before and after it, at least.
        let affordable = MAX_CODE / (outer * size).max(1);
        join_short(&mut edges, affordable.clamp(3, MAX_PIECES));
        cx.builder().copies = outer * (edges.len() - 1);
    }
    for pair in edges.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        if start >= end {
            continue;
        }
        let registers: Vec<Reg> = values.iter().map(|v| v.0).collect();
        let next = if end - start == 1 && !options.ranged {
            body(cx, &Affine::constant(start), &registers)
        } else {
            let (var, inside) = cx.builder().open_loop((start, end), options.ranged, kind, &values);
            let next = body(cx, &var, &inside);
            cx.builder().close_loop(&next)
        };
        for (value, next) in values.iter_mut().zip(next) {
            value.0 = next;
        }
    }
    cx.builder().copies = outer;
    values.into_iter().map(|v| v.0).collect()
}

/// Joins neighbouring stretches, the shortest first, until there are at most so many; all of them
/// if they were many and none of what is left is half of the whole.
fn join_short(edges: &mut Vec<i64>, most: usize) {
    let whole = [edges[0], edges[edges.len() - 1]];
    if edges.len() > MAX_EDGES {
        *edges = whole.to_vec();
    }
    let many = edges.len() > most + 1;
    while edges.len() > most + 1 {
        let length = |at: &usize| edges[at + 1] - edges[at - 1];
        let shortest = (1..edges.len() - 1).min_by_key(length).expect("there is an inner edge");
        edges.remove(shortest);
    }
    let longest = edges.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    if many && 2 * longest < whole[1] - whole[0] {
        *edges = whole.to_vec();
    }
}

/// Values of `then` where the guard holds, of `otherwise` elsewhere; only the taken side runs.
pub fn branch<C: Build>(
    cx: &mut C,
    guard: Guard,
    then: impl FnOnce(&mut C) -> Vec<Reg>,
    otherwise: impl FnOnce(&mut C) -> Vec<Reg>,
) -> Vec<Reg> {
    match guard {
        Guard::Always => then(cx),
        Guard::Never => otherwise(cx),
        Guard::When(condition) => {
            cx.builder().open_if(condition);
            let values = then(cx);
            cx.builder().open_else(&values);
            let values = otherwise(cx);
            cx.builder().close_if(&values)
        }
    }
}
