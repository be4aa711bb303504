//! A kernel over rows as the kernel of one row, which is told where each row begins.

use super::walk::{Rename, Use, inst_uses, rename};
use super::{Rows, finish};
use jaxrs_kernel::kernel::{Block, Def, Kernel, Loop, LoopKind, Stmt};
use jaxrs_kernel::{Affine, Inst, ParamId, Reg};

/// A kernel over the elements of one row.
pub struct RowKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// For each parameter: how many elements its part of a row is after that of the row before.
    pub steps: Vec<i64>,
}

/// The kernel as one over the elements of a row of `row` elements, if each of its `rows` rows is
/// computed as the first one, from parameters that begin elsewhere.
pub fn of_one_row(kernel: &Kernel, rows: u64, row: u64) -> Option<RowKernel> {
    let mut kernel = kernel.clone();
    finish(&mut kernel, Rows::Exactly(rows));
    if kernel.range != Some(rows) || rows < 2 {
        return None;
    }
    let body = std::mem::take(&mut kernel.body);
    let (mut lets, outer) = only_loop(body)?;
    if !outer.ranged || outer.start != 0 {
        return None;
    }
    let (before, mut inner) = only_loop(outer.body)?;
    let whole = inner.start == 0 && inner.end.unsigned_abs() == row;
    let plain = |stmt: &Stmt| matches!(stmt, Stmt::Let(_) | Stmt::Store { .. });
    if inner.kind != LoopKind::Parallel || !whole || !inner.body.stmts.iter().all(plain) {
        return None;
    }
    let mut first = Block { stmts: before };
    let mut steps = vec![None; kernel.params.len()];
    for stmt in first.stmts.iter().chain(&inner.body.stmts) {
        note(&kernel, stmt, outer.var, &mut steps)?;
    }
    let index = |at: &Affine| {
        let mut at = at.clone();
        at.add_term(outer.var, -at.coefficient(outer.var));
        at
    };
    let to = Rename { reg: &|r| r, index: &index };
    rename(&mut kernel, &mut first, &to);
    rename(&mut kernel, &mut inner.body, &to);
    inner.ranged = true;
    lets.extend(first.stmts);
    lets.push(Stmt::Loop(inner));
    kernel.body = Block { stmts: lets };
    kernel.range = Some(row);
    Some(RowKernel { kernel, steps: steps.into_iter().map(|step| step.unwrap_or(0)).collect() })
}

/// The instructions of a block that ends in its only loop, and that loop.
fn only_loop(mut block: Block) -> Option<(Vec<Stmt>, Box<Loop>)> {
    let Some(Stmt::Loop(l)) = block.stmts.pop() else { return None };
    let lets = block.stmts.iter().all(|stmt| matches!(stmt, Stmt::Let(_)));
    (lets && l.carries.is_empty()).then_some((block.stmts, l))
}

/// Notes how far apart a statement's accesses of two rows are; None if the row counts otherwise.
fn note(kernel: &Kernel, stmt: &Stmt, row: Reg, steps: &mut [Option<i64>]) -> Option<()> {
    let mut access = |param: ParamId, at: &Affine| {
        let step = at.coefficient(row);
        let known = steps[param.as_u32() as usize].get_or_insert(step);
        (*known == step).then_some(())
    };
    match stmt {
        Stmt::Let(reg) => {
            let Def::Inst(inst) = &kernel.regs[*reg].def else { return None };
            if let Inst::Load(param, at) = inst {
                return access(*param, at);
            }
            let mut free = true;
            inst_uses(inst, &mut |u| match u {
                Use::Reg(used) => free &= used != row,
                Use::Index(at) => free &= at.coefficient(row) == 0,
            });
            free.then_some(())
        }
        Stmt::Store { param, at, value } => {
            if *value == row {
                return None;
            }
            access(*param, at)
        }
        Stmt::Loop(_) | Stmt::If(_) => None,
    }
}
