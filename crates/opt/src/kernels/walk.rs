//! Walks over the uses in a kernel.

use jaxrs_kernel::kernel::{Block, Def, Kernel, Stmt};
use jaxrs_kernel::{Affine, Inst, Reg};

/// A use of registers.
pub(super) enum Use<'a> {
    /// As an operand.
    Reg(Reg),
    /// In an index expression.
    Index(&'a Affine),
}

/// The uses of an instruction.
pub(super) fn inst_uses<'a>(inst: &'a Inst, see: &mut dyn FnMut(Use<'a>)) {
    match inst {
        Inst::Const(_) => {}
        Inst::Index(at) | Inst::FloorDiv(at, _) | Inst::Modulo(at, _) | Inst::Load(_, at) => {
            see(Use::Index(at));
        }
        Inst::Unary(_, a) | Inst::Cast(_, a) => see(Use::Reg(*a)),
        Inst::Binary(_, a, b) | Inst::Compare(_, _, a, b) => {
            [*a, *b].into_iter().for_each(|r| see(Use::Reg(r)));
        }
        Inst::Fma(a, b, c) | Inst::Select(a, b, c) => {
            [*a, *b, *c].into_iter().for_each(|r| see(Use::Reg(r)));
        }
    }
}

/// The uses in a block and the blocks inside.
pub(super) fn uses<'a>(kernel: &'a Kernel, block: &'a Block, see: &mut dyn FnMut(Use<'a>)) {
    for stmt in &block.stmts {
        stmt_uses(kernel, stmt, see);
    }
}

/// The uses in a statement and the blocks inside.
pub(super) fn stmt_uses<'a>(kernel: &'a Kernel, stmt: &'a Stmt, see: &mut dyn FnMut(Use<'a>)) {
    match stmt {
        Stmt::Let(reg) => {
            if let Def::Inst(inst) = &kernel.regs[*reg].def {
                inst_uses(inst, see);
            }
        }
        Stmt::Store { at, value, .. } => {
            see(Use::Index(at));
            see(Use::Reg(*value));
        }
        Stmt::Loop(l) => {
            for carry in &l.carries {
                see(Use::Reg(carry.init));
                see(Use::Reg(carry.next));
            }
            uses(kernel, &l.body, see);
        }
        Stmt::If(branch) => {
            see(Use::Reg(branch.condition));
            for &(_, then, otherwise) in &branch.results {
                see(Use::Reg(then));
                see(Use::Reg(otherwise));
            }
            uses(kernel, &branch.then, see);
            uses(kernel, &branch.otherwise, see);
        }
    }
}

/// What to put in place of uses.
pub(super) struct Rename<'a> {
    /// Of an operand.
    pub(super) reg: &'a dyn Fn(Reg) -> Reg,
    /// Of an index expression.
    pub(super) index: &'a dyn Fn(&Affine) -> Affine,
}

/// The instruction with its uses replaced.
pub(super) fn renamed(inst: &Inst, to: &Rename<'_>) -> Inst {
    let (r, at) = (to.reg, to.index);
    match inst {
        Inst::Const(bits) => Inst::Const(*bits),
        Inst::Index(a) => Inst::Index(at(a)),
        Inst::FloorDiv(a, by) => Inst::FloorDiv(at(a), *by),
        Inst::Modulo(a, by) => Inst::Modulo(at(a), *by),
        Inst::Load(param, a) => Inst::Load(*param, at(a)),
        Inst::Unary(op, a) => Inst::Unary(*op, r(*a)),
        Inst::Binary(op, a, b) => Inst::Binary(*op, r(*a), r(*b)),
        Inst::Fma(a, b, c) => Inst::Fma(r(*a), r(*b), r(*c)),
        Inst::Compare(op, kind, a, b) => Inst::Compare(*op, *kind, r(*a), r(*b)),
        Inst::Select(a, b, c) => Inst::Select(r(*a), r(*b), r(*c)),
        Inst::Cast(op, a) => Inst::Cast(*op, r(*a)),
    }
}

/// Replaces the uses in a block (taken out of the kernel) and the blocks inside.
pub(super) fn rename(kernel: &mut Kernel, block: &mut Block, to: &Rename<'_>) {
    for stmt in &mut block.stmts {
        match stmt {
            Stmt::Let(reg) => {
                if let Def::Inst(inst) = &kernel.regs[*reg].def {
                    kernel.regs[*reg].def = Def::Inst(renamed(inst, to));
                }
            }
            Stmt::Store { at, value, .. } => {
                *at = (to.index)(at);
                *value = (to.reg)(*value);
            }
            Stmt::Loop(l) => {
                for carry in &mut l.carries {
                    carry.init = (to.reg)(carry.init);
                    carry.next = (to.reg)(carry.next);
                }
                rename(kernel, &mut l.body, to);
            }
            Stmt::If(branch) => {
                branch.condition = (to.reg)(branch.condition);
                for (_, then, otherwise) in &mut branch.results {
                    *then = (to.reg)(*then);
                    *otherwise = (to.reg)(*otherwise);
                }
                rename(kernel, &mut branch.then, to);
                rename(kernel, &mut branch.otherwise, to);
            }
        }
    }
}
