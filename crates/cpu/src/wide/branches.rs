//! Branches: taken or not as a whole, or both sides under masks.

use super::analysis::Lane;
use super::code::{Class, Ins, Src, VReg};
use super::loops::needs_lanes;
use super::lower::{Chunks, Lower, Val};
use jaxrs_kernel::kernel::{Block, If};
use jaxrs_kernel::{Reg, RegType};

impl<'k> Lower<'k> {
    pub(super) fn branch(&mut self, inner: &'k If) {
        match self.values[inner.condition].clone() {
            Val::Const(bits) => {
                let (block, side) =
                    if bits != 0 { (&inner.then, 1) } else { (&inner.otherwise, 2) };
                self.block(block);
                for &(result, a, b) in &inner.results {
                    let value = self.values[if side == 1 { a } else { b }].clone();
                    self.set(result, value);
                }
            }
            Val::Uniform(mask) => self.uniform_branch(inner, mask),
            Val::Varying(masks) => self.masked_branch(inner, &masks),
            other => unreachable!("a condition is a mask, not {other:?}"),
        }
    }

    fn uniform_branch(&mut self, inner: &'k If, mask: VReg) {
        let (otherwise, exit) = (self.code.label(), self.code.label());
        let varies: Vec<bool> = inner
            .results
            .iter()
            .map(|&(result, ..)| {
                self.cx.classes.as_ref().is_some_and(|c| c[result] != Lane::Uniform)
            })
            .collect();
        let outs: Vec<Chunks> = inner
            .results
            .iter()
            .zip(&varies)
            .map(|(&(result, ..), &varies)| {
                let count = if varies { self.cx.chunks } else { 1 };
                let mask = self.is_mask(result);
                let fresh = |_| {
                    if mask { self.code.reg(Class::Mask) } else { self.code.reg(Class::Vector) }
                };
                (0..count).map(fresh).collect()
            })
            .collect();
        self.put(Ins::JumpUnless { mask, bits: 1, label: otherwise });
        for (block, first) in [(&inner.then, true), (&inner.otherwise, false)] {
            let mark = self.mark();
            self.block(block);
            for (&(_, a, b), out) in inner.results.iter().zip(&outs) {
                for (chunk, &to) in out.iter().enumerate() {
                    self.assign(to, if first { a } else { b }, chunk);
                }
            }
            self.forget(&mark);
            if first {
                self.put(Ins::Jump { label: exit });
                self.put(Ins::Bind { label: otherwise, is_loop: false });
            }
        }
        self.put(Ins::Bind { label: exit, is_loop: false });
        for ((&(result, ..), out), varies) in inner.results.iter().zip(&outs).zip(varies) {
            let value = self.value_of(varies, out);
            self.set(result, value);
        }
    }

    /// Both sides run, each with its lanes on, unless it has none.
    fn masked_branch(&mut self, inner: &'k If, condition: &Chunks) {
        let outer = self.cx.mask.clone();
        let mut sides: Vec<Vec<Chunks>> = Vec::new();
        for (block, then) in [(&inner.then, true), (&inner.otherwise, false)] {
            let masks: Chunks = condition
                .iter()
                .enumerate()
                .map(|(chunk, &c)| {
                    let to = self.mask_reg();
                    match (&outer, then) {
                        (None, true) => return c,
                        (None, false) => self.put(Ins::MaskNot { to, a: c }),
                        (Some(on), true) => {
                            self.put(Ins::MaskBinary { opcode: 0x41, to, a: c, b: on[chunk] });
                        }
                        (Some(on), false) => {
                            self.put(Ins::MaskBinary { opcode: 0x42, to, a: c, b: on[chunk] });
                        }
                    }
                    to
                })
                .collect();
            let results: Vec<Reg> =
                inner.results.iter().map(|&(_, a, b)| if then { a } else { b }).collect();
            sides.push(self.masked_side(block, masks, &results));
        }
        self.cx.mask = outer;
        let otherwise = sides.pop().expect("two sides");
        let then = sides.pop().expect("two sides");
        for (n, &(result, ..)) in inner.results.iter().enumerate() {
            let ty = self.ty(result);
            let chunks: Chunks = (0..condition.len())
                .map(|chunk| {
                    let (a, b) = (then[n][chunk], otherwise[n][chunk]);
                    if ty == RegType::I1 {
                        return self.choose_mask(condition[chunk], a, b);
                    }
                    let to = self.vector();
                    let (wide, length) = (ty.bits() == 64, self.length(ty));
                    let (mask, a, b) = (condition[chunk], Src::Reg(b), Src::Reg(a));
                    self.put(Ins::Blend { wide, length, to, mask, a, b });
                    to
                })
                .collect();
            self.set(result, Val::Varying(chunks));
        }
    }

    /// One side of a branch under masks; gives its results' registers.
    fn masked_side(&mut self, block: &'k Block, masks: Chunks, results: &[Reg]) -> Vec<Chunks> {
        let chunks = masks.len();
        let mark = self.mark();
        let skip = self.code.label();
        if needs_lanes(self.kernel, block) {
            let mut any = masks[0];
            for &mask in &masks[1..] {
                let to = self.mask_reg();
                self.put(Ins::MaskBinary { opcode: 0x45, to, a: any, b: mask });
                any = to;
            }
            let bits = if self.cx.lanes == 16 { 0xffff } else { 0xff };
            self.put(Ins::JumpUnless { mask: any, bits, label: skip });
        }
        self.cx.mask = Some(masks);
        self.block(block);
        // What is copied inside the skipped part is read only where lanes are on.
        let out = results.iter().map(|&reg| self.copies(reg, chunks)).collect();
        self.put(Ins::Bind { label: skip, is_loop: false });
        self.forget(&mark);
        out
    }

    /// `a` where the mask is on, else `b`.
    pub(super) fn choose_mask(&mut self, mask: VReg, a: VReg, b: VReg) -> VReg {
        let (x, y, to) = (self.mask_reg(), self.mask_reg(), self.mask_reg());
        self.put(Ins::MaskBinary { opcode: 0x41, to: x, a: mask, b: a });
        self.put(Ins::MaskBinary { opcode: 0x42, to: y, a: mask, b });
        self.put(Ins::MaskBinary { opcode: 0x45, to, a: x, b: y });
        to
    }
}
