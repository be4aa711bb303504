//! Removes instructions, loops and branches that nothing uses.

use super::walk::{Use, inst_uses};
use cranelift_entity::SecondaryMap;
use jaxrs_kernel::kernel::{Block, Def, Kernel, Stmt};
use jaxrs_kernel::{Affine, Reg};

/// Removes them from the kernel.
pub(super) fn run(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    let mut dead = Dead { kernel, used: SecondaryMap::new() };
    dead.block(&mut body);
    kernel.body = body;
}

struct Dead<'a> {
    kernel: &'a Kernel,
    used: SecondaryMap<Reg, bool>,
}

impl Dead<'_> {
    fn index(&mut self, at: &Affine) {
        at.terms.iter().for_each(|t| self.used[t.0] = true);
    }

    /// Uses stand after what they use, so one walk from the end finds all.
    fn block(&mut self, block: &mut Block) {
        let mut kept = Vec::with_capacity(block.stmts.len());
        while let Some(mut stmt) = block.stmts.pop() {
            if self.keeps(&mut stmt) {
                kept.push(stmt);
            }
        }
        kept.reverse();
        block.stmts = kept;
    }

    fn keeps(&mut self, stmt: &mut Stmt) -> bool {
        match stmt {
            Stmt::Let(reg) => {
                if !self.used[*reg] {
                    return false;
                }
                let kernel = self.kernel;
                if let Def::Inst(inst) = &kernel.regs[*reg].def {
                    inst_uses(inst, &mut |u| match u {
                        Use::Reg(r) => self.used[r] = true,
                        Use::Index(at) => self.index(at),
                    });
                }
                true
            }
            Stmt::Store { at, value, .. } => {
                self.used[*value] = true;
                let at = at.clone();
                self.index(&at);
                true
            }
            Stmt::Loop(l) => {
                l.carries.retain(|c| self.used[c.result] || !only_feeds_itself(c));
                let live = l.carries.iter().any(|c| self.used[c.result]);
                if !live && !has_store(&l.body) {
                    return false;
                }
                for carry in &l.carries {
                    self.used[carry.init] = true;
                    self.used[carry.next] = true;
                }
                self.block(&mut l.body);
                true
            }
            Stmt::If(branch) => {
                branch.results.retain(|r| self.used[r.0]);
                let stores = has_store(&branch.then) || has_store(&branch.otherwise);
                if branch.results.is_empty() && !stores {
                    return false;
                }
                for &(_, then, otherwise) in &branch.results {
                    self.used[then] = true;
                    self.used[otherwise] = true;
                }
                self.block(&mut branch.then);
                self.block(&mut branch.otherwise);
                self.used[branch.condition] = true;
                true
            }
        }
    }
}

/// Whether a carry is combined by one instruction, so that nothing but its own next value reads it.
fn only_feeds_itself(carry: &jaxrs_kernel::kernel::Carry) -> bool {
    carry.op.is_some()
}

fn has_store(block: &Block) -> bool {
    block.stmts.iter().any(|stmt| match stmt {
        Stmt::Let(_) => false,
        Stmt::Store { .. } => true,
        Stmt::Loop(l) => has_store(&l.body),
        Stmt::If(branch) => has_store(&branch.then) || has_store(&branch.otherwise),
    })
}
