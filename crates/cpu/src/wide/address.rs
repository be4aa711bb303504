//! Index arithmetic in general registers, and the addresses made of it.

use super::code::{Addr, Ins, VReg};
use super::lower::{BaseKey, Lower, Parts, Val};
use jaxrs_kernel::kernel::{Block, Def, Stmt};
use jaxrs_kernel::{Affine, Inst, ParamId, Reg};
use smallvec::SmallVec;

impl Lower<'_> {
    /// An index expression with other expressions put in their places.
    pub(super) fn expand(&self, at: &Affine) -> Affine {
        let mut out = Affine::constant(at.constant);
        for &(reg, coefficient) in &at.terms {
            match &self.values[reg] {
                Val::Index(inner) => out = out.add(&inner.scale(coefficient)),
                Val::Const(bits) => out.constant += coefficient * *bits as i64,
                _ => out.add_term(reg, coefficient),
            }
        }
        out
    }

    /// The parts of an index expression; of the registers that are visible, if `partly`.
    fn parts_of(&mut self, at: &Affine, partly: bool) -> Parts {
        let at = self.expand(at);
        let mut parts = Parts { constant: at.constant, ..Parts::default() };
        for &(reg, coefficient) in &at.terms {
            let general = match &self.values[reg] {
                Val::None => {
                    assert!(partly, "{reg} is used before it is defined");
                    continue;
                }
                Val::General(general) => *general,
                Val::Lane(general) => {
                    parts.step += coefficient;
                    *general
                }
                Val::Uniform(vector) => {
                    let vector = *vector;
                    self.first(reg, vector)
                }
                Val::Varying(_) => {
                    parts.varying.push((reg, coefficient));
                    continue;
                }
                Val::Index(_) | Val::Const(_) => unreachable!("expanded"),
            };
            match parts.general.iter_mut().find(|t| t.0 == general) {
                Some(term) => term.1 += coefficient,
                None => parts.general.push((general, coefficient)),
            }
        }
        // Later registers belong to inner loops.
        parts.general.sort_by_key(|t| t.0);
        parts
    }

    pub(super) fn parts(&mut self, at: &Affine) -> Parts {
        self.parts_of(at, false)
    }

    /// A uniform `i64` as a general register.
    fn first(&mut self, reg: Reg, vector: VReg) -> VReg {
        if let Some(&general) = self.firsts.get(&reg) {
            return general;
        }
        let to = self.general();
        self.put(Ins::First { to, from: vector, wide: true });
        self.firsts.insert(reg, to);
        self.first_log.push(reg);
        to
    }

    pub(super) fn scaled(&mut self, a: VReg, by: i64) -> VReg {
        if by == 1 {
            return a;
        }
        let to = self.general();
        if let Ok(value) = i32::try_from(by) {
            if by > 0 && by & (by - 1) == 0 {
                let by = by.trailing_zeros() as u8;
                self.put(Ins::ShiftImm { extension: 4, to, a, by });
            } else {
                self.put(Ins::MulImm { to, a, value });
            }
            return to;
        }
        let b = self.immediate(by);
        self.put(Ins::Mul { to, a, b });
        to
    }

    pub(super) fn immediate(&mut self, value: i64) -> VReg {
        let to = self.general();
        self.put(Ins::Immediate { to, value });
        to
    }

    pub(super) fn plus(&mut self, a: VReg, value: i64) -> VReg {
        if value == 0 {
            return a;
        }
        let to = self.general();
        if let Ok(value) = i32::try_from(value) {
            self.put(Ins::AddImm { to, a, value });
        } else {
            let b = self.immediate(value);
            self.put(Ins::Add { to, a, b });
        }
        to
    }

    /// The sum of the general parts and the constant (of the first lane).
    pub(super) fn sum(&mut self, parts: &Parts) -> VReg {
        let mut sum: Option<VReg> = None;
        for &(general, factor) in &parts.general {
            let term = self.scaled(general, factor);
            sum = Some(match sum {
                None => term,
                Some(a) => {
                    let to = self.general();
                    self.put(Ins::Add { to, a, b: term });
                    to
                }
            });
        }
        match sum {
            Some(sum) => self.plus(sum, parts.constant),
            None => self.immediate(parts.constant),
        }
    }

    /// A parameter's address plus bytes for the terms, computed once where it is first needed.
    fn base(&mut self, param: ParamId, terms: &[(VReg, i64)]) -> VReg {
        let Some((&(general, bytes), before)) = terms.split_last() else {
            return self.params[param].expect("parameters are loaded first");
        };
        let key: BaseKey = (param, terms.iter().copied().collect());
        if let Some(&base) = self.bases.get(&key) {
            return base;
        }
        let before = self.base(param, before);
        let to = self.general();
        if matches!(bytes, 1 | 2 | 4 | 8) {
            let at = Addr { base: before, index: Some((general, bytes as u8)), disp: 0 };
            self.put(Ins::LoadAddress { to, at });
        } else {
            let b = self.scaled(general, bytes);
            self.put(Ins::Add { to, a: before, b });
        }
        self.bases.insert(key.clone(), to);
        self.base_log.push(key);
        to
    }

    /// The address of the element of the first lane, `more` bytes further on.
    pub(super) fn address(&mut self, param: ParamId, parts: &Parts, more: i64) -> Addr {
        let size = self.kernel.params[param].dtype.size() as i64;
        let mut terms: SmallVec<[(VReg, i64); 4]> =
            parts.general.iter().map(|&(g, factor)| (g, factor * size)).collect();
        let mut index = None;
        if let Some(&(general, bytes)) = terms.last()
            && matches!(bytes, 1 | 2 | 4 | 8)
        {
            index = Some((general, bytes as u8));
            terms.pop();
        }
        let base = self.base(param, &terms);
        let disp = parts.constant * size + more;
        match i32::try_from(disp) {
            Ok(disp) if disp.abs() < 1 << 30 => Addr { base, index, disp },
            _ => Addr { base: self.plus(base, disp), index, disp: 0 },
        }
    }

    /// Computes the loop-invariant parts of all addresses of a block that is about to be a loop's.
    pub(super) fn prepare_addresses(&mut self, block: &Block) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(reg) => {
                    let kernel = self.kernel;
                    if let Def::Inst(Inst::Load(param, at)) = &kernel.regs[*reg].def {
                        self.prepare_address(*param, at);
                    }
                }
                Stmt::Store { param, at, .. } => self.prepare_address(*param, at),
                Stmt::Loop(inner) => self.prepare_addresses(&inner.body),
                Stmt::If(inner) => {
                    self.prepare_addresses(&inner.then);
                    self.prepare_addresses(&inner.otherwise);
                }
            }
        }
    }

    fn prepare_address(&mut self, param: ParamId, at: &Affine) {
        if self.tile.as_ref().is_some_and(|rows| rows.has(param, at)) {
            return;
        }
        let size = self.kernel.params[param].dtype.size() as i64;
        let parts = self.parts_of(at, true);
        let terms: SmallVec<[(VReg, i64); 4]> =
            parts.general.iter().map(|&(g, factor)| (g, factor * size)).collect();
        self.base(param, &terms);
    }
}
