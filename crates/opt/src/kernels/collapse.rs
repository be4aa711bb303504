//! Makes one loop of two where one is all that the other's body is.
//!
//! * Where every index steps through both as through one long loop, the pair is that loop.
//! * The outer index of a kernel is what threads share: where it has few values, the loops
//!   below are taken in, too, their variables computed from the one index.

use super::walk::{Rename, Use, rename, uses};
use jaxrs_kernel::kernel::{Block, Def, Kernel, Loop, LoopKind, RegData, Stmt};
use jaxrs_kernel::{Affine, Inst, RegType};

/// What the outer index counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Whatever makes the loops long.
    Any,
    /// So many values.
    Exactly(u64),
}

/// Values of the outer index that are enough to share among threads.
const ENOUGH: u64 = 32;
/// Iterations of an inner loop beside which a division for the outer one is nothing.
const LONG: i64 = 8;

/// Collapses loops everywhere in the kernel.
pub(super) fn run(kernel: &mut Kernel, rows: Rows) {
    let mut body = std::mem::take(&mut kernel.body);
    outer(kernel, &mut body, rows);
    block(kernel, &mut body);
    kernel.body = body;
}

/// The numbers of rows that the outer index can count: the products of the outermost loops.
pub fn row_counts(kernel: &Kernel) -> Vec<u64> {
    let Some(range) = kernel.range else { return Vec::new() };
    let mut counts = vec![range];
    let mut loops = kernel.body.stmts.iter().filter_map(|stmt| match stmt {
        Stmt::Loop(l) => Some(l),
        _ => None,
    });
    if let (Some(only), None) = (loops.next(), loops.next()) {
        let mut l: &Loop = only;
        while let Some(inner) = inside(l) {
            let Some(next) = counts[counts.len() - 1].checked_mul((inner.end - inner.start) as u64)
            else {
                break;
            };
            counts.push(next);
            l = inner;
        }
    }
    counts
}

/// The kernel's outer loop, if there is one only.
fn outer(kernel: &mut Kernel, body: &mut Block, rows: Rows) {
    let mut loops = body.stmts.iter_mut().filter_map(|stmt| match stmt {
        Stmt::Loop(l) => Some(l),
        _ => None,
    });
    let (Some(only), None) = (loops.next(), loops.next()) else { return };
    if !only.ranged {
        return;
    }
    loop {
        let Some(range) = kernel.range else { return };
        let Some(inner) = inside(only) else { return };
        let (extent, kind) = (inner.end - inner.start, inner.kind);
        let wanted = match rows {
            Rows::Any => true,
            Rows::Exactly(rows) => range.saturating_mul(extent as u64) <= rows,
        };
        if !wanted || kind != LoopKind::Parallel || range.checked_mul(extent as u64).is_none() {
            return;
        }
        let long = inside(inner).is_some_and(|l| l.end - l.start >= LONG) || has_reduce(inner);
        let forced = match rows {
            Rows::Any => range < ENOUGH && long,
            Rows::Exactly(_) => true,
        };
        if fits(kernel, only, inner) {
            exact(kernel, only);
        } else if forced {
            divided(kernel, only);
        } else {
            return;
        }
        kernel.range = Some(range * extent as u64);
    }
}

/// Whether a loop's body is mostly a reduction.
fn has_reduce(l: &Loop) -> bool {
    l.body.stmts.iter().any(|stmt| match stmt {
        Stmt::Loop(inner) => inner.kind != LoopKind::Parallel && inner.end - inner.start >= LONG,
        _ => false,
    })
}

fn block(kernel: &mut Kernel, body: &mut Block) {
    for stmt in &mut body.stmts {
        match stmt {
            Stmt::Loop(l) => {
                if !l.ranged {
                    while inside(l).is_some_and(|inner| fits(kernel, l, inner)) {
                        exact(kernel, l);
                    }
                }
                block(kernel, &mut l.body);
            }
            Stmt::If(branch) => {
                block(kernel, &mut branch.then);
                block(kernel, &mut branch.otherwise);
            }
            Stmt::Let(_) | Stmt::Store { .. } => {}
        }
    }
}

/// The loop that is all of a loop's body, with the same carries going round.
fn inside(l: &Loop) -> Option<&Loop> {
    let [Stmt::Loop(inner)] = &l.body.stmts[..] else { return None };
    let carries = l.carries.len() == inner.carries.len()
        && l.carries.iter().zip(&inner.carries).all(|(outer, inner)| {
            inner.init == outer.inside && outer.next == inner.result && outer.op == inner.op
        });
    (carries && l.kind == inner.kind).then_some(inner)
}

/// Whether every index inside steps through both loops as through one.
fn fits(kernel: &Kernel, l: &Loop, inner: &Loop) -> bool {
    let extent = inner.end - inner.start;
    let mut all = true;
    uses(kernel, &inner.body, &mut |u| match u {
        Use::Reg(reg) => all &= reg != l.var && reg != inner.var,
        Use::Index(at) => {
            let by = at.coefficient(inner.var);
            all &= by.checked_mul(extent) == Some(at.coefficient(l.var));
        }
    });
    let range = (l.end - l.start).checked_mul(extent);
    all && range.is_some() && l.start.checked_mul(extent).is_some()
}

/// Takes the inner loop into the outer one, whose variable counts both.
fn exact(kernel: &mut Kernel, l: &mut Loop) {
    let Some(Stmt::Loop(mut inner)) = l.body.stmts.pop() else { unreachable!("checked before") };
    let extent = inner.end - inner.start;
    let (outer_var, inner_var, start) = (l.var, inner.var, inner.start);
    let index = |at: &Affine| {
        let by = at.coefficient(inner_var);
        let mut out = at.offset(by * start);
        out.add_term(inner_var, -by);
        out.add_term(outer_var, by - at.coefficient(outer_var));
        out
    };
    rename(kernel, &mut inner.body, &Rename { reg: &|r| r, index: &index });
    take_in(kernel, l, *inner, extent);
}

/// The same, with both variables computed from the one that counts both.
fn divided(kernel: &mut Kernel, l: &mut Loop) {
    let Some(Stmt::Loop(mut inner)) = l.body.stmts.pop() else { unreachable!("checked before") };
    let extent = inner.end - inner.start;
    let both = kernel.regs.push(RegData { ty: RegType::I64, def: Def::LoopVar, bounds: None });
    let (outer_var, inner_var, start) = (l.var, inner.var, inner.start);
    kernel.regs[outer_var].def = Def::Inst(Inst::FloorDiv(Affine::reg(both), extent));
    let mut lets = vec![Stmt::Let(outer_var)];
    if start == 0 {
        kernel.regs[inner_var].def = Def::Inst(Inst::Modulo(Affine::reg(both), extent));
    } else {
        let bounds = Some((0, extent - 1));
        let def = Def::Inst(Inst::Modulo(Affine::reg(both), extent));
        let rest = kernel.regs.push(RegData { ty: RegType::I64, def, bounds });
        kernel.regs[inner_var].def = Def::Inst(Inst::Index(Affine::reg(rest).offset(start)));
        lets.push(Stmt::Let(rest));
    }
    lets.push(Stmt::Let(inner_var));
    // An index that steps through both as through one needs neither.
    let index = |at: &Affine| {
        let by = at.coefficient(inner_var);
        if by == 0 || by.checked_mul(extent) != Some(at.coefficient(outer_var)) {
            return at.clone();
        }
        let mut out = at.offset(by * start);
        out.add_term(inner_var, -by);
        out.add_term(outer_var, -at.coefficient(outer_var));
        out.add_term(both, by);
        out
    };
    rename(kernel, &mut inner.body, &Rename { reg: &|r| r, index: &index });
    lets.append(&mut inner.body.stmts);
    inner.body.stmts = lets;
    l.var = both;
    take_in(kernel, l, *inner, extent);
}

fn take_in(kernel: &mut Kernel, l: &mut Loop, inner: Loop, extent: i64) {
    l.start *= extent;
    l.end *= extent;
    kernel.regs[l.var].bounds = Some((l.start, l.end - 1));
    for (outer, inner) in l.carries.iter_mut().zip(inner.carries) {
        outer.inside = inner.inside;
        outer.next = inner.next;
    }
    l.body = inner.body;
}
