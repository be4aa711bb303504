//! Makes one loop of two reduce loops over one range that stand in one block, and computes what
//! both compute once: reductions of one tensor read it once.

use super::walk::{Rename, Use, rename, renamed, stmt_uses};
use jaxrs_kernel::kernel::{Block, Def, Kernel, Loop, LoopKind, Stmt};
use jaxrs_kernel::{Inst, Reg, RegType};
use rustc_hash::{FxHashMap, FxHashSet};

/// Merges loops everywhere in the kernel.
pub(super) fn run(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    block(kernel, &mut body);
    kernel.body = body;
}

fn block(kernel: &mut Kernel, body: &mut Block) {
    let mut at = 0;
    while at < body.stmts.len() {
        while merge_next(kernel, body, at) {}
        match &mut body.stmts[at] {
            Stmt::Loop(l) => {
                let mut inner = std::mem::take(&mut l.body);
                block(kernel, &mut inner);
                if let Stmt::Loop(l) = &mut body.stmts[at] {
                    l.body = inner;
                }
            }
            Stmt::If(branch) => {
                block(kernel, &mut branch.then);
                block(kernel, &mut branch.otherwise);
            }
            Stmt::Let(_) | Stmt::Store { .. } => {}
        }
        at += 1;
    }
}

/// Merges into the loop at `at` the next one that can be; whatever stands between and is needed
/// by it moves before the loop.
fn merge_next(kernel: &mut Kernel, body: &mut Block, at: usize) -> bool {
    let Stmt::Loop(first) = &body.stmts[at] else { return false };
    if first.kind != LoopKind::Reduce || first.ranged {
        return false;
    }
    // What cannot move before the first loop.
    let mut after: FxHashSet<Reg> = first.carries.iter().map(|c| c.result).collect();
    for next in at + 1..body.stmts.len() {
        let needs = |stmt: &Stmt, after: &FxHashSet<Reg>| {
            let mut found = false;
            stmt_uses(kernel, stmt, &mut |u| match u {
                Use::Reg(r) => found |= after.contains(&r),
                Use::Index(index) => found |= index.terms.iter().any(|t| after.contains(&t.0)),
            });
            found
        };
        match &body.stmts[next] {
            Stmt::Let(reg) => {
                if needs(&body.stmts[next], &after) {
                    after.insert(*reg);
                }
            }
            Stmt::Store { .. } => return false,
            Stmt::If(branch) => after.extend(branch.results.iter().map(|r| r.0)),
            Stmt::Loop(second) => {
                let same = (first.start, first.end, first.kind, first.ranged)
                    == (second.start, second.end, second.kind, second.ranged);
                if same && !needs(&body.stmts[next], &after) {
                    merge(kernel, body, at, next);
                    return true;
                }
                after.extend(second.carries.iter().map(|c| c.result));
                if second.kind != LoopKind::Reduce {
                    return false;
                }
            }
        }
    }
    false
}

fn merge(kernel: &mut Kernel, body: &mut Block, at: usize, next: usize) {
    let Stmt::Loop(second) = body.stmts.remove(next) else { unreachable!("found as a loop") };
    // The values between that the second loop needs: all that do not need the first loop.
    let Stmt::Loop(mut first) = body.stmts.remove(at) else { unreachable!("found as a loop") };
    let mut after: FxHashSet<Reg> = first.carries.iter().map(|c| c.result).collect();
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    for stmt in body.stmts.drain(at..next - 1) {
        let mut stays = !matches!(stmt, Stmt::Let(_));
        stmt_uses(kernel, &stmt, &mut |u| match u {
            Use::Reg(r) => stays |= after.contains(&r),
            Use::Index(index) => stays |= index.terms.iter().any(|t| after.contains(&t.0)),
        });
        if stays {
            match &stmt {
                Stmt::Let(reg) => {
                    after.insert(*reg);
                }
                Stmt::Loop(l) => after.extend(l.carries.iter().map(|c| c.result)),
                Stmt::If(branch) => after.extend(branch.results.iter().map(|r| r.0)),
                Stmt::Store { .. } => {}
            }
            behind.push(stmt);
        } else {
            before.push(stmt);
        }
    }
    join(kernel, &mut first, *second);
    before.push(Stmt::Loop(first));
    before.extend(behind);
    body.stmts.splice(at..at, before);
}

/// Appends the second loop's work to the first's.
fn join(kernel: &mut Kernel, first: &mut Loop, second: Loop) {
    let (old, new) = (second.var, first.var);
    let mut known: FxHashMap<(Inst, RegType), Reg> = FxHashMap::default();
    for stmt in &first.body.stmts {
        if let Stmt::Let(reg) = stmt
            && let Def::Inst(inst) = &kernel.regs[*reg].def
        {
            known.insert((inst.clone(), kernel.regs[*reg].ty), *reg);
        }
    }
    let mut names: FxHashMap<Reg, Reg> = FxHashMap::default();
    names.insert(old, new);
    let mut carries = second.carries;
    for mut stmt in second.body.stmts {
        let reg = |r: Reg| names.get(&r).copied().unwrap_or(r);
        let index = |at: &jaxrs_kernel::Affine| {
            let mut out = jaxrs_kernel::Affine::constant(at.constant);
            at.terms.iter().for_each(|&(r, c)| out.add_term(reg(r), c));
            out
        };
        let to = Rename { reg: &reg, index: &index };
        if let Stmt::Let(own) = stmt
            && let Def::Inst(inst) = &kernel.regs[own].def
        {
            let inst = renamed(inst, &to);
            let key = (inst.clone(), kernel.regs[own].ty);
            kernel.regs[own].def = Def::Inst(inst);
            if let Some(&same) = known.get(&key) {
                names.insert(own, same);
                continue;
            }
            known.insert(key, own);
        } else {
            let mut one = Block { stmts: vec![stmt] };
            rename(kernel, &mut one, &to);
            stmt = one.stmts.pop().expect("one statement");
        }
        first.body.stmts.push(stmt);
    }
    for carry in &mut carries {
        carry.next = names.get(&carry.next).copied().unwrap_or(carry.next);
    }
    first.carries.extend(carries);
}
