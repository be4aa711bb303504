//! Loops that split where guards on their variables change, and branches.

use super::{Build, Guard, LoopOptions, MAX_PIECES};
use crate::affine::Affine;
use crate::inst::BinaryOp;
use crate::kernel::{LoopKind, Reg};

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
    if options.split && extent > 1 && cx.builder().trials == 0 {
        let trial = cx.builder().begin_trial();
        let (var, inside) = cx.builder().open_loop((0, extent), options.ranged, kind, inits);
        body(cx, &var, &inside);
        let cuts = cx.builder().end_trial(&trial);
        let cuts: Vec<i64> = cuts.into_iter().filter(|&c| c > 0 && c < extent).collect();
        if cuts.len() < MAX_PIECES {
            edges.splice(1..1, cuts);
        }
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
    values.into_iter().map(|v| v.0).collect()
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
