//! Operands of instructions: where a value is, and instructions by their operands.

use super::code::{Ins, Src, VReg};
use super::encode::{Enc, Length, enc};
use super::lower::{Lower, Parts, SPLAT32, SPLAT64, Val};
use super::ops::int;
use jaxrs_kernel::inst::mask;
use jaxrs_kernel::{Affine, Reg, RegType};

impl Lower<'_> {
    /// The length of a register of values of a type.
    pub(super) fn length(&self, ty: RegType) -> Length {
        if ty.bits() == 64 || self.cx.lanes == 16 { Length::Zmm } else { Length::Ymm }
    }

    /// A register's value as a vector operand.
    pub(super) fn src(&mut self, reg: Reg, chunk: usize) -> Src {
        let ty = self.ty(reg);
        match self.values[reg].clone() {
            Val::Const(bits) => self.splat(ty.bits() == 64, bits),
            Val::Uniform(v) => Src::Reg(v),
            Val::Varying(chunks) => Src::Reg(chunks[chunk]),
            Val::Index(at) => self.index_lanes(&at, chunk),
            Val::General(_) | Val::Lane(_) => self.index_lanes(&Affine::reg(reg), chunk),
            Val::None => unreachable!("{reg} is used before it is defined"),
        }
    }

    /// A register's value in a vector register.
    pub(super) fn register(&mut self, reg: Reg, chunk: usize) -> VReg {
        let wide = self.ty(reg).bits() == 64;
        let src = self.src(reg, chunk);
        self.in_register(src, wide)
    }

    pub(super) fn in_register(&mut self, src: Src, wide: bool) -> VReg {
        if let Src::Reg(reg) = src {
            return reg;
        }
        let to = self.vector();
        self.put(Ins::Copy { to, from: src, wide });
        to
    }

    /// An `i1` register's value.
    pub(super) fn mask_of(&mut self, reg: Reg, chunk: usize) -> VReg {
        match self.values[reg].clone() {
            Val::Const(bits) => self.mask_constant(bits != 0),
            Val::Uniform(v) => v,
            Val::Varying(chunks) => chunks[chunk],
            other => unreachable!("an i1 is a mask, not {other:?}"),
        }
    }

    pub(super) fn mask_constant(&mut self, on: bool) -> VReg {
        let (bits, to) = (self.general(), self.mask_reg());
        self.put(Ins::Immediate { to: bits, value: if on { -1 } else { 0 } });
        self.put(Ins::MaskFromGeneral { to, from: bits });
        to
    }

    /// An index expression in 64-bit lanes.
    pub(super) fn index_lanes(&mut self, at: &Affine, chunk: usize) -> Src {
        let parts = self.parts(at);
        let general = self.sum(&parts);
        let spread = self.vector();
        self.put(Ins::Spread { to: spread, from: general, wide: true });
        if parts.step == 0 && parts.varying.is_empty() {
            return Src::Reg(spread);
        }
        let varying = self.varying_sum(&parts, chunk);
        let to = self.vector();
        self.put_op(int(1, 0xd4, true), Length::Zmm, to, None, Src::Reg(varying), Some(spread));
        Src::Reg(to)
    }

    /// The parts of an index expression that differ from lane to lane, in 64-bit lanes.
    pub(super) fn varying_sum(&mut self, parts: &Parts, chunk: usize) -> VReg {
        let mut sum: Option<VReg> = None;
        for &(reg, factor) in &parts.varying {
            let value = self.src(reg, chunk);
            let term = if factor == 1 {
                self.in_register(value, true)
            } else {
                let (a, b) = (self.in_register(value, true), self.splat(true, factor as u64));
                self.op2(int(2, 0x40, true), Length::Zmm, Src::Reg(a), b)
            };
            sum = Some(match sum {
                None => term,
                Some(sum) => {
                    self.op2(int(1, 0xd4, true), Length::Zmm, Src::Reg(sum), Src::Reg(term))
                }
            });
        }
        if parts.step == 0 {
            return sum.expect("an expression that varies");
        }
        let steps = self.steps(true, chunk, parts.step);
        match sum {
            Some(sum) => self.op2(int(1, 0xd4, true), Length::Zmm, Src::Reg(sum), steps),
            None => self.in_register(steps, true),
        }
    }

    /// An index whose values fit 32 bits (or of which only the low ones matter), in 32-bit lanes.
    pub(super) fn index_lanes32(&mut self, reg: Reg, chunk: usize) -> Src {
        let at = match self.values[reg].clone() {
            Val::Const(bits) => return self.splat32(bits as u32),
            Val::Index(at) => at,
            _ => Affine::reg(reg),
        };
        let parts = self.parts(&at);
        if !parts.varying.is_empty() {
            let a = self.index_lanes(&at, chunk);
            let (a, to) = (self.in_register(a, true), self.vector());
            let (enc, length) = (enc(2, 2, 0x35, false), Length::Zmm);
            self.put(Ins::Narrow { enc, length, to, a, imm: None });
            return Src::Reg(to);
        }
        let general = self.sum(&parts);
        let spread = self.vector();
        self.put(Ins::Spread { to: spread, from: general, wide: false });
        if parts.step == 0 {
            return Src::Reg(spread);
        }
        let steps = self.steps(false, chunk, parts.step);
        let length = self.length(RegType::I32);
        Src::Reg(self.op2(int(1, 0xfe, false), length, Src::Reg(spread), steps))
    }

    /// `to = op(a, b)`; `a` may be absent, or given as a register.
    pub(super) fn put_op(
        &mut self,
        enc: Enc,
        length: Length,
        to: VReg,
        imm: Option<u8>,
        b: Src,
        a: Option<VReg>,
    ) {
        let a = a.map(Src::Reg);
        self.put(Ins::Op { enc, length, to, a, b, imm, mask: None, merge: None });
    }

    pub(super) fn op1(&mut self, enc: Enc, length: Length, b: Src, imm: Option<u8>) -> VReg {
        let to = self.vector();
        self.put(Ins::Op { enc, length, to, a: None, b, imm, mask: None, merge: None });
        to
    }

    pub(super) fn op2(&mut self, enc: Enc, length: Length, a: Src, b: Src) -> VReg {
        let to = self.vector();
        self.put(Ins::Op { enc, length, to, a: Some(a), b, imm: None, mask: None, merge: None });
        to
    }

    /// A conversion of a register operand.
    pub(super) fn convert(&mut self, enc: Enc, length: Length, a: Src, wide: bool) -> VReg {
        let a = self.in_register(a, wide);
        self.op1(enc, length, Src::Reg(a), None)
    }

    /// A shift by a constant: extension 2 right, 4 right with the sign, 6 left.
    pub(super) fn shift_imm(&mut self, wide: bool, extension: u8, a: VReg, imm: u8) -> VReg {
        let to = self.vector();
        let opcode = if wide && extension != 4 { 0x73 } else { 0x72 };
        let length = self.length(if wide { RegType::I64 } else { RegType::I32 });
        self.put(Ins::Shift { enc: int(1, opcode, wide), extension, length, to, a, imm });
        to
    }

    pub(super) fn compare_op(&mut self, enc: Enc, length: Length, a: Src, b: Src, imm: u8) -> VReg {
        let to = self.mask_reg();
        self.put(Ins::Compare { enc, length, to, a, b, imm: Some(imm) });
        to
    }

    /// `mask ? b : a`.
    pub(super) fn blend(&mut self, wide: bool, length: Length, mask: VReg, a: Src, b: Src) -> VReg {
        let to = self.vector();
        self.put(Ins::Blend { wide, length, to, mask, a, b });
        to
    }

    pub(super) fn mask2(&mut self, opcode: u8, a: VReg, b: VReg) -> VReg {
        let to = self.mask_reg();
        self.put(Ins::MaskBinary { opcode, to, a, b });
        to
    }

    pub(super) fn mask_not(&mut self, a: VReg) -> VReg {
        let to = self.mask_reg();
        self.put(Ins::MaskNot { to, a });
        to
    }

    /// A constant in the lanes that are on, zero elsewhere.
    pub(super) fn lanes_of_mask(&mut self, bits: VReg, wide: bool, value: u64) -> VReg {
        let to = self.vector();
        let length = self.length(if wide { RegType::I64 } else { RegType::I32 });
        let (enc, b) = (if wide { SPLAT64 } else { SPLAT32 }, self.element(wide, value));
        let (a, imm, merge) = (None, None, None);
        self.put(Ins::Op { enc, length, to, a, b, imm, mask: Some(bits), merge });
        to
    }

    /// Drops the bits above a narrow integer.
    pub(super) fn normal(&mut self, ty: RegType, value: VReg) -> VReg {
        if !matches!(ty, RegType::I8 | RegType::I16) {
            return value;
        }
        let b = self.splat32(mask(ty) as u32);
        let length = self.length(ty);
        self.op2(int(1, 0xdb, false), length, Src::Reg(value), b)
    }

    /// A narrow integer with its sign in the bits above.
    pub(super) fn signed(&mut self, ty: RegType, value: Src) -> Src {
        let unused = match ty {
            RegType::I8 => 24,
            RegType::I16 => 16,
            _ => return value,
        };
        let value = self.in_register(value, false);
        let high = self.shift_imm(false, 6, value, unused);
        Src::Reg(self.shift_imm(false, 4, high, unused))
    }

    /// A uniform result of fewer than all lanes in all lanes.
    pub(super) fn respread(&mut self, uniform: bool, value: VReg) -> VReg {
        if !uniform {
            return value;
        }
        self.op1(SPLAT32, Length::Zmm, Src::Reg(value), None)
    }

    /// Whether a register is the same in all lanes.
    pub(super) fn is_uniform(&self, reg: Reg) -> bool {
        match &self.values[reg] {
            Val::Const(_) | Val::Uniform(_) | Val::General(_) => true,
            Val::Index(at) => at.terms.iter().all(|t| self.is_uniform(t.0)),
            Val::Lane(_) | Val::Varying(_) => false,
            Val::None => unreachable!("{reg} is used before it is defined"),
        }
    }
}
