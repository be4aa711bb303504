//! The instructions of [`jaxrs_kernel::inst`] on vectors, each with its exact meaning.

use super::analysis;
use super::code::{Ins, Src, VReg};
use super::encode::{Enc, Length, enc};
use super::lower::{Chunks, Lower, Parts, SPLAT32, SPLAT64, Val};
use jaxrs_kernel::inst::mask;
use jaxrs_kernel::{Affine, BinaryOp, CastOp, Compare, CompareKind, Inst, Reg, RegType, UnaryOp};

/// Codes of `vcmpps` and `vpcmpd`.
fn float_code(op: Compare) -> u8 {
    match op {
        Compare::Eq => 0x00,
        Compare::Ne => 0x04,
        Compare::Lt => 0x11,
        Compare::Le => 0x12,
        Compare::Gt => 0x1e,
        Compare::Ge => 0x1d,
    }
}

fn int_code(op: Compare) -> u8 {
    match op {
        Compare::Eq => 0,
        Compare::Lt => 1,
        Compare::Le => 2,
        Compare::Ne => 4,
        Compare::Ge => 5,
        Compare::Gt => 6,
    }
}

const UNORDERED: u8 = 3;

/// The prefix of a float instruction: packed single or double.
fn float(map: u8, opcode: u8, wide: bool) -> Enc {
    enc(map, u8::from(wide), opcode, wide)
}

/// A 32- or 64-bit integer instruction.
fn int(map: u8, opcode: u8, wide: bool) -> Enc {
    enc(map, 1, opcode, wide)
}

impl Lower<'_> {
    /// The length of a register of values of a type.
    pub(super) fn length(&self, ty: RegType) -> Length {
        if ty.bits() == 64 || self.cx.lanes == 16 { Length::Zmm } else { Length::Ymm }
    }

    // ---- operands

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
    fn index_lanes(&mut self, at: &Affine, chunk: usize) -> Src {
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
    fn index_lanes32(&mut self, reg: Reg, chunk: usize) -> Src {
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

    // ---- building blocks

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

    fn op1(&mut self, enc: Enc, length: Length, b: Src, imm: Option<u8>) -> VReg {
        let to = self.vector();
        self.put(Ins::Op { enc, length, to, a: None, b, imm, mask: None, merge: None });
        to
    }

    fn op2(&mut self, enc: Enc, length: Length, a: Src, b: Src) -> VReg {
        let to = self.vector();
        self.put(Ins::Op { enc, length, to, a: Some(a), b, imm: None, mask: None, merge: None });
        to
    }

    /// A conversion of a register operand.
    fn convert(&mut self, enc: Enc, length: Length, a: Src, wide: bool) -> VReg {
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

    fn compare_op(&mut self, enc: Enc, length: Length, a: Src, b: Src, imm: u8) -> VReg {
        let to = self.mask_reg();
        self.put(Ins::Compare { enc, length, to, a, b, imm: Some(imm) });
        to
    }

    /// `mask ? b : a`.
    fn blend(&mut self, wide: bool, length: Length, mask: VReg, a: Src, b: Src) -> VReg {
        let to = self.vector();
        self.put(Ins::Blend { wide, length, to, mask, a, b });
        to
    }

    fn mask2(&mut self, opcode: u8, a: VReg, b: VReg) -> VReg {
        let to = self.mask_reg();
        self.put(Ins::MaskBinary { opcode, to, a, b });
        to
    }

    fn mask_not(&mut self, a: VReg) -> VReg {
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
    fn normal(&mut self, ty: RegType, value: VReg) -> VReg {
        if !matches!(ty, RegType::I8 | RegType::I16) {
            return value;
        }
        let b = self.splat32(mask(ty) as u32);
        let length = self.length(ty);
        self.op2(int(1, 0xdb, false), length, Src::Reg(value), b)
    }

    /// A narrow integer with its sign in the bits above.
    fn signed(&mut self, ty: RegType, value: Src) -> Src {
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
    fn respread(&mut self, uniform: bool, value: VReg) -> VReg {
        if !uniform {
            return value;
        }
        self.op1(SPLAT32, Length::Zmm, Src::Reg(value), None)
    }

    // ---- instructions

    /// Whether a register is the same in all lanes.
    fn is_uniform(&self, reg: Reg) -> bool {
        match &self.values[reg] {
            Val::Const(_) | Val::Uniform(_) | Val::General(_) => true,
            Val::Index(at) => at.terms.iter().all(|t| self.is_uniform(t.0)),
            Val::Lane(_) | Val::Varying(_) => false,
            Val::None => unreachable!("{reg} is used before it is defined"),
        }
    }

    pub(super) fn instruction(&mut self, reg: Reg, inst: &Inst) -> Val {
        let operands: &[Reg] = match inst {
            Inst::Load(param, at) => return self.load(*param, at),
            Inst::FloorDiv(at, by) => return self.floor_div(at, *by, true),
            Inst::Modulo(at, by) => return self.floor_div(at, *by, false),
            Inst::Const(_) | Inst::Index(_) => unreachable!("not computed here"),
            Inst::Unary(_, a) | Inst::Cast(_, a) => &[*a],
            Inst::Binary(_, a, b) | Inst::Compare(_, _, a, b) => &[*a, *b],
            Inst::Fma(a, b, c) | Inst::Select(a, b, c) => &[*a, *b, *c],
        };
        let uniform = operands.iter().all(|&r| self.is_uniform(r));
        let count = if uniform { 1 } else { self.cx.chunks };
        let chunks: Chunks =
            (0..count).map(|chunk| self.lane_instruction(reg, inst, chunk, uniform)).collect();
        if uniform { Val::Uniform(chunks[0]) } else { Val::Varying(chunks) }
    }

    fn lane_instruction(&mut self, reg: Reg, inst: &Inst, chunk: usize, uniform: bool) -> VReg {
        let ty = self.ty(reg);
        match inst {
            Inst::Unary(op, a) => self.unary(*op, *a, chunk),
            Inst::Binary(op, a, b) if ty == RegType::I1 => {
                let (a, b) = (self.mask_of(*a, chunk), self.mask_of(*b, chunk));
                self.binary_mask(*op, a, b)
            }
            Inst::Binary(op, a, b) => {
                let (a, b) = (self.src(*a, chunk), self.src(*b, chunk));
                match op {
                    BinaryOp::DivS | BinaryOp::DivU | BinaryOp::RemS | BinaryOp::RemU => {
                        self.divide(*op, ty, a, b, uniform)
                    }
                    _ => self.binary(*op, ty, a, b),
                }
            }
            Inst::Fma(a, b, c) => {
                let [a, b, c] = [a, b, c].map(|&r| self.src(r, chunk));
                let (to, wide, length) = (self.vector(), ty.bits() == 64, self.length(ty));
                self.put(Ins::Fma { wide, length, to, a, b, c });
                to
            }
            Inst::Compare(op, kind, a, b) => self.compare(*op, *kind, *a, *b, chunk, uniform),
            Inst::Select(c, a, b) => {
                let condition = self.mask_of(*c, chunk);
                if ty == RegType::I1 {
                    let (a, b) = (self.mask_of(*a, chunk), self.mask_of(*b, chunk));
                    return self.choose_mask(condition, a, b);
                }
                let (a, b) = (self.src(*a, chunk), self.src(*b, chunk));
                let length = self.length(ty);
                self.blend(ty.bits() == 64, length, condition, b, a)
            }
            Inst::Cast(op, a) => self.cast(*op, *a, ty, chunk, uniform),
            _ => unreachable!("handled by the caller"),
        }
    }

    fn unary(&mut self, op: UnaryOp, a: Reg, chunk: usize) -> VReg {
        let ty = self.ty(a);
        if ty == RegType::I1 {
            let a = self.mask_of(a, chunk);
            return match op {
                UnaryOp::Not | UnaryOp::Clz => self.mask_not(a),
                _ => a,
            };
        }
        let x = self.src(a, chunk);
        let (wide, length, bits) = (ty.bits() == 64, self.length(ty), ty.bits());
        let sign = 1u64 << (bits - 1);
        let round = |code: u8| Some(8 | code);
        let round_enc = enc(3, 1, if wide { 0x09 } else { 0x08 }, wide);
        match op {
            UnaryOp::Neg if ty.is_float() => {
                let b = self.splat(wide, sign);
                self.op2(int(1, 0xef, wide), length, x, b)
            }
            UnaryOp::Abs if ty.is_float() => {
                let b = self.splat(wide, sign - 1);
                self.op2(int(1, 0xdb, wide), length, x, b)
            }
            UnaryOp::Neg => {
                let zero = self.splat(wide, 0);
                let value = self.op2(int(1, if wide { 0xfb } else { 0xfa }, wide), length, zero, x);
                self.normal(ty, value)
            }
            UnaryOp::Abs => {
                let x = self.signed(ty, x);
                let opcode = if wide { 0x1f } else { 0x1e };
                let value = self.op1(int(2, opcode, wide), length, x, None);
                self.normal(ty, value)
            }
            UnaryOp::Sqrt => self.op1(float(1, 0x51, wide), length, x, None),
            UnaryOp::Nearest => self.op1(round_enc, length, x, round(0)),
            UnaryOp::Floor => self.op1(round_enc, length, x, round(1)),
            UnaryOp::Ceil => self.op1(round_enc, length, x, round(2)),
            UnaryOp::Trunc => self.op1(round_enc, length, x, round(3)),
            UnaryOp::Not => {
                let b = self.splat(wide, mask(ty));
                self.op2(int(1, 0xef, wide), length, x, b)
            }
            UnaryOp::Popcnt => self.op1(int(2, 0x55, wide), length, x, None),
            UnaryOp::Clz => {
                let count = self.op1(int(2, 0x44, wide), length, x, None);
                if bits >= 32 {
                    return count;
                }
                let extra = self.splat32(32 - bits);
                self.op2(int(1, 0xfa, false), length, Src::Reg(count), extra)
            }
            UnaryOp::RoundBf16 => self.round_bf16(x, length),
            UnaryOp::BitsBf16 => {
                let rounded = self.round_bf16(x, length);
                self.shift_imm(false, 2, rounded, 16)
            }
            UnaryOp::FromBitsBf16 => {
                let x = self.in_register(x, false);
                self.shift_imm(false, 6, x, 16)
            }
            UnaryOp::RoundF16 => {
                let a = self.in_register(x, false);
                let (half, enc) = (self.vector(), enc(3, 1, 0x1d, false));
                self.put(Ins::Narrow { enc, length, to: half, a, imm: Some(0) });
                self.op1(int(2, 0x13, false), length, Src::Reg(half), None)
            }
            UnaryOp::BitsF16 => {
                let a = self.in_register(x, false);
                self.to_f16_bits(a, length)
            }
            UnaryOp::FromBitsF16 => self.from_f16_bits(x, length),
        }
    }

    fn round_bf16(&mut self, x: Src, length: Length) -> VReg {
        let x = self.in_register(x, false);
        let high = self.shift_imm(false, 2, x, 16);
        let [one, half, keep, quiet] =
            [1, 0x7fff, 0xffff_0000, 0x0040_0000].map(|bits| self.splat32(bits));
        let odd = self.op2(int(1, 0xdb, false), length, Src::Reg(high), one);
        let add = self.op2(int(1, 0xfe, false), length, Src::Reg(odd), half);
        let sum = self.op2(int(1, 0xfe, false), length, Src::Reg(x), Src::Reg(add));
        let nan = self.op2(int(1, 0xeb, false), length, Src::Reg(x), quiet);
        let (a, b) = (Src::Reg(sum), Src::Reg(nan));
        let is_nan = {
            let x = Src::Reg(x);
            self.compare_op(float(1, 0xc2, false), length, x, x, UNORDERED)
        };
        let value = self.blend(false, length, is_nan, a, b);
        self.op2(int(1, 0xdb, false), length, Src::Reg(value), keep)
    }

    /// A reduction's instruction on two registers.
    pub(super) fn combine(&mut self, op: BinaryOp, ty: RegType, a: VReg, b: VReg) -> VReg {
        if ty == RegType::I1 {
            return self.binary_mask(op, a, b);
        }
        self.binary(op, ty, Src::Reg(a), Src::Reg(b))
    }

    fn binary_mask(&mut self, op: BinaryOp, a: VReg, b: VReg) -> VReg {
        use BinaryOp as B;
        match op {
            B::Add | B::Sub | B::Xor => self.mask2(0x47, a, b),
            B::Mul | B::And | B::MinU | B::MaxS => self.mask2(0x41, a, b),
            B::Or | B::MaxU | B::MinS => self.mask2(0x45, a, b),
            B::RemS | B::RemU | B::Shl | B::ShrU => self.mask2(0x42, b, a),
            B::DivS | B::DivU => {
                let not = self.mask_not(b);
                self.mask2(0x45, a, not)
            }
            B::ShrS => a,
            B::Div | B::Rem | B::MinF | B::MaxF => unreachable!("{op:?} takes no i1"),
        }
    }

    fn binary(&mut self, op: BinaryOp, ty: RegType, a: Src, b: Src) -> VReg {
        use BinaryOp as B;
        let (wide, length) = (ty.bits() == 64, self.length(ty));
        // Constants stand last, where they can be read from memory.
        let commutes = matches!(
            op,
            B::Add | B::Mul | B::And | B::Or | B::Xor | B::MinS | B::MaxS | B::MinU | B::MaxU
        );
        let (a, b) = if commutes && !matches!(a, Src::Reg(_)) { (b, a) } else { (a, b) };
        let simple = match op {
            B::Add if ty.is_float() => float(1, 0x58, wide),
            B::Sub if ty.is_float() => float(1, 0x5c, wide),
            B::Mul if ty.is_float() => float(1, 0x59, wide),
            B::Div => float(1, 0x5e, wide),
            B::MinF | B::MaxF => return self.min_max(op, wide, length, a, b),
            B::Add => int(1, if wide { 0xd4 } else { 0xfe }, wide),
            B::Sub => int(1, if wide { 0xfb } else { 0xfa }, wide),
            B::Mul => int(2, 0x40, wide),
            B::And => int(1, 0xdb, wide),
            B::Or => int(1, 0xeb, wide),
            B::Xor => int(1, 0xef, wide),
            B::MinS => int(2, 0x39, wide),
            B::MaxS => int(2, 0x3d, wide),
            B::MinU => int(2, 0x3b, wide),
            B::MaxU => int(2, 0x3f, wide),
            B::Shl => int(2, 0x47, wide),
            B::ShrU => int(2, 0x45, wide),
            B::ShrS => int(2, 0x46, wide),
            B::Rem | B::DivS | B::DivU | B::RemS | B::RemU => {
                unreachable!("{op:?} is not chosen for vectors")
            }
        };
        let (a, b) = match op {
            B::MinS | B::MaxS => (self.signed(ty, a), self.signed(ty, b)),
            B::ShrS => (self.signed(ty, a), b),
            _ => (a, b),
        };
        let value = self.op2(simple, length, a, b);
        match op {
            B::And | B::Or | B::Xor | B::MinU | B::MaxU | B::ShrU => value,
            _ => self.normal(ty, value),
        }
    }

    /// Integer division and remainder.
    fn divide(&mut self, op: BinaryOp, ty: RegType, a: Src, b: Src, uniform: bool) -> VReg {
        let signed = matches!(op, BinaryOp::DivS | BinaryOp::RemS);
        let remainder = matches!(op, BinaryOp::RemS | BinaryOp::RemU);
        if ty == RegType::I64 {
            let (a, b, to) = (self.in_register(a, true), self.in_register(b, true), self.vector());
            let opcode = u8::from(!signed) + 2 * u8::from(remainder);
            let count = if uniform { 1 } else { 8 };
            self.put(Ins::LaneDivide { opcode, count, to, a, b });
            if uniform {
                return self.op1(SPLAT64, Length::Zmm, Src::Reg(to), None);
            }
            return to;
        }
        let (a, b) = if signed { (self.signed(ty, a), self.signed(ty, b)) } else { (a, b) };
        let (x, y) = (self.in_register(a, false), self.in_register(b, false));
        // The quotient of 32-bit integers in f64, towards zero, is exact.
        let (to_float, to_int) = if signed {
            (enc(1, 2, 0xe6, false), enc(1, 1, 0xe6, true))
        } else {
            (enc(1, 2, 0x7a, false), enc(1, 0, 0x78, true))
        };
        let float_x = self.op1(to_float, Length::Zmm, Src::Reg(x), None);
        let float_y = self.op1(to_float, Length::Zmm, Src::Reg(y), None);
        let ratio =
            self.op2(float(1, 0x5e, true), Length::Zmm, Src::Reg(float_x), Src::Reg(float_y));
        let quotient = self.op1(to_int, Length::Zmm, Src::Reg(ratio), None);
        let quotient = self.respread(uniform, quotient);
        let length = self.length(ty);
        if remainder {
            // By zero: nothing is taken away, whatever the quotient is.
            let back = self.op2(int(2, 0x40, false), length, Src::Reg(quotient), Src::Reg(y));
            let rest = self.op2(int(1, 0xfa, false), length, Src::Reg(x), Src::Reg(back));
            return self.normal(ty, rest);
        }
        if !signed {
            // By zero: infinity or NaN, which become all ones.
            return self.normal(ty, quotient);
        }
        let (zero, ones) = (self.splat32(0), self.splat32(u32::MAX));
        let by_zero =
            self.compare_op(int(3, 0x1f, false), length, Src::Reg(y), zero, int_code(Compare::Eq));
        let value = self.blend(false, length, by_zero, Src::Reg(quotient), ones);
        self.normal(ty, value)
    }

    /// Orders zeros by sign; a NaN wins.
    fn min_max(&mut self, op: BinaryOp, wide: bool, length: Length, a: Src, b: Src) -> VReg {
        let code = if op == BinaryOp::MinF { 4 } else { 5 };
        let ranged = self.vector();
        let a_reg = self.in_register(a, wide);
        let a = Src::Reg(a_reg);
        self.put_op(enc(3, 1, 0x50, wide), length, ranged, Some(code), b, Some(a_reg));
        let unordered = self.compare_op(float(1, 0xc2, wide), length, a, b, UNORDERED);
        let to = self.vector();
        self.put(Ins::Op {
            enc: float(1, 0x58, wide),
            length,
            to,
            a: Some(a),
            b,
            imm: None,
            mask: Some(unordered),
            merge: Some(ranged),
        });
        to
    }

    fn compare(
        &mut self,
        op: Compare,
        kind: CompareKind,
        a: Reg,
        b: Reg,
        chunk: usize,
        uniform: bool,
    ) -> VReg {
        let ty = self.ty(a);
        if ty == RegType::I1 {
            let (mut x, mut y) = (self.mask_of(a, chunk), self.mask_of(b, chunk));
            if kind == CompareKind::Signed {
                // The signed values are 0 and -1.
                std::mem::swap(&mut x, &mut y);
            }
            return match op {
                Compare::Eq => self.mask2(0x46, x, y),
                Compare::Ne => self.mask2(0x47, x, y),
                Compare::Lt => self.mask2(0x42, x, y),
                Compare::Gt => self.mask2(0x42, y, x),
                Compare::Le => {
                    let above = self.mask2(0x42, y, x);
                    self.mask_not(above)
                }
                Compare::Ge => {
                    let below = self.mask2(0x42, x, y);
                    self.mask_not(below)
                }
            };
        }
        let small = |reg| analysis::is_small_index(self.kernel, reg);
        if ty == RegType::I64 && small(a) && small(b) && kind != CompareKind::Float {
            let (x, y) = (self.index_lanes32(a, chunk), self.index_lanes32(b, chunk));
            let opcode = if kind == CompareKind::Signed { 0x1f } else { 0x1e };
            let length = self.length(RegType::I32);
            return self.compare_op(int(3, opcode, false), length, x, y, int_code(op));
        }
        let (x, y) = (self.src(a, chunk), self.src(b, chunk));
        let (wide, length) = (ty.bits() == 64, self.length(ty));
        let result = match kind {
            CompareKind::Float => {
                self.compare_op(float(1, 0xc2, wide), length, x, y, float_code(op))
            }
            CompareKind::Signed => {
                let (x, y) = (self.signed(ty, x), self.signed(ty, y));
                self.compare_op(int(3, 0x1f, wide), length, x, y, int_code(op))
            }
            CompareKind::Unsigned => {
                self.compare_op(int(3, 0x1e, wide), length, x, y, int_code(op))
            }
        };
        if !(wide && uniform) {
            return result;
        }
        // Eight lanes were compared: all sixteen get the first one's answer.
        let (bits, bit) = (self.general(), self.general());
        self.put(Ins::MaskToGeneral { to: bits, from: result });
        self.put(Ins::AndImm { to: bit, a: bits, value: 1 });
        self.mask_from_bit(bit)
    }

    fn cast(&mut self, op: CastOp, a: Reg, to: RegType, chunk: usize, uniform: bool) -> VReg {
        let from = self.ty(a);
        if from == RegType::I64
            && analysis::is_small_index(self.kernel, a)
            && analysis::is_small_cast(op, to)
        {
            let value = self.index_lanes32(a, chunk);
            let value = self.in_register(value, false);
            return match op {
                CastOp::Truncate => self.normal(to, value),
                _ => {
                    let length = self.length(RegType::F32);
                    self.op1(enc(1, 0, 0x5b, false), length, Src::Reg(value), None)
                }
            };
        }
        if from == RegType::I1 {
            let bits = self.mask_of(a, chunk);
            return self.cast_mask(op, bits, to);
        }
        let x = self.src(a, chunk);
        let (from_wide, to_wide) = (from.bits() == 64, to.bits() == 64);
        match op {
            CastOp::Bitcast => self.in_register(x, to_wide),
            CastOp::ZeroExtend | CastOp::SignExtend | CastOp::Truncate => {
                self.resize(op == CastOp::SignExtend, from, to, x, uniform)
            }
            CastOp::SignedToFloat | CastOp::UnsignedToFloat => {
                let signed = op == CastOp::SignedToFloat || from.bits() < 32;
                let x = if op == CastOp::SignedToFloat { self.signed(from, x) } else { x };
                let enc = match (from_wide, to_wide, signed) {
                    (false, false, true) => enc(1, 0, 0x5b, false),
                    (false, false, false) => enc(1, 3, 0x7a, false),
                    (false, true, true) => enc(1, 2, 0xe6, false),
                    (false, true, false) => enc(1, 2, 0x7a, false),
                    (true, false, true) => enc(1, 0, 0x5b, true),
                    (true, false, false) => enc(1, 3, 0x7a, true),
                    (true, true, true) => enc(1, 2, 0xe6, true),
                    (true, true, false) => enc(1, 2, 0x7a, true),
                };
                let length = self.conversion_length(from_wide || to_wide);
                let value = self.convert(enc, length, x, from_wide);
                self.respread(uniform && from_wide && !to_wide, value)
            }
            CastOp::FloatToSigned => self.float_to_signed(x, from, to, uniform),
            CastOp::FloatToUnsigned => self.float_to_unsigned(x, from, to, uniform),
            CastOp::FloatToFloat => match (from_wide, to_wide) {
                (false, true) => self.convert(enc(1, 0, 0x5a, false), Length::Zmm, x, false),
                (true, false) => {
                    let value = self.convert(enc(1, 1, 0x5a, true), Length::Zmm, x, true);
                    self.respread(uniform, value)
                }
                _ => self.in_register(x, to_wide),
            },
        }
    }

    fn conversion_length(&self, wide: bool) -> Length {
        self.length(if wide { RegType::I64 } else { RegType::I32 })
    }

    fn cast_mask(&mut self, op: CastOp, bits: VReg, to: RegType) -> VReg {
        let wide = to.bits() == 64;
        let one = |value: f64| match to {
            RegType::F32 => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        };
        match op {
            CastOp::SignExtend if to != RegType::I1 => self.lanes_of_mask(bits, wide, mask(to)),
            CastOp::ZeroExtend if to != RegType::I1 => self.lanes_of_mask(bits, wide, 1),
            CastOp::SignedToFloat => {
                // -0 where the lane is off would be wrong: zero lanes are +0.
                self.lanes_of_mask(bits, wide, one(-1.0))
            }
            CastOp::UnsignedToFloat => self.lanes_of_mask(bits, wide, one(1.0)),
            _ => bits,
        }
    }

    /// An integer of another width.
    fn resize(&mut self, sign: bool, from: RegType, to: RegType, x: Src, uniform: bool) -> VReg {
        let (from_wide, to_wide) = (from.bits() == 64, to.bits() == 64);
        if to == RegType::I1 {
            let (one, length, mask) =
                (self.splat(from_wide, 1), self.length(from), self.mask_reg());
            let enc = int(2, 0x27, from_wide);
            self.put(Ins::Compare { enc, length, to: mask, a: x, b: one, imm: None });
            if from_wide && uniform {
                let (bits, bit) = (self.general(), self.general());
                self.put(Ins::MaskToGeneral { to: bits, from: mask });
                self.put(Ins::AndImm { to: bit, a: bits, value: 1 });
                return self.mask_from_bit(bit);
            }
            return mask;
        }
        match (from_wide, to_wide) {
            (true, true) => self.in_register(x, true),
            (true, false) => {
                let (a, out) = (self.in_register(x, true), self.vector());
                let (enc, length) = (enc(2, 2, 0x35, false), Length::Zmm);
                self.put(Ins::Narrow { enc, length, to: out, a, imm: None });
                let out = self.respread(uniform, out);
                self.normal(to, out)
            }
            (false, true) => {
                let x = if sign { self.signed(from, x) } else { x };
                let opcode = if sign { 0x25 } else { 0x35 };
                self.convert(enc(2, 1, opcode, false), Length::Zmm, x, false)
            }
            (false, false) => {
                let x = if sign { self.signed(from, x) } else { x };
                let value = self.in_register(x, false);
                if sign || to.bits() < from.bits() { self.normal(to, value) } else { value }
            }
        }
    }

    fn float_to_signed(&mut self, x: Src, from: RegType, to: RegType, uniform: bool) -> VReg {
        let (from_wide, to_wide) = (from.bits() == 64, to.bits() == 64);
        let from_length = self.length(from);
        let x = Src::Reg(self.in_register(x, from_wide));
        let number = |value: f64| match from {
            RegType::F32 => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        };
        let compare = float(1, 0xc2, from_wide);
        if to == RegType::I1 {
            let least = self.splat(from_wide, number(-1.0));
            let result = self.compare_op(compare, from_length, x, least, float_code(Compare::Le));
            return self.spread_mask(result, from_wide && uniform);
        }
        let enc = match (from_wide, to_wide) {
            (false, false) => enc(1, 2, 0x5b, false),
            (false, true) => enc(1, 1, 0x7a, false),
            (true, false) => enc(1, 1, 0xe6, true),
            (true, true) => enc(1, 1, 0x7a, true),
        };
        let length = self.conversion_length(from_wide || to_wide);
        let value = self.op1(enc, length, x, None);
        // Above the range the instruction gives the least value, for a NaN, too.
        let limit =
            self.splat(from_wide, number(if to_wide { 2f64.powi(63) } else { 2f64.powi(31) }));
        let above = self.compare_op(compare, from_length, x, limit, float_code(Compare::Ge));
        let nan = self.compare_op(compare, from_length, x, x, UNORDERED);
        let most = self.splat(to_wide, if to_wide { i64::MAX as u64 } else { i32::MAX as u64 });
        let zero = self.splat(to_wide, 0);
        let to_length = self.length(if to_wide { RegType::I64 } else { RegType::I32 });
        let value = self.blend(to_wide, to_length, above, Src::Reg(value), most);
        let value = self.blend(to_wide, to_length, nan, Src::Reg(value), zero);
        let value = self.respread(uniform && from_wide && !to_wide, value);
        if to.bits() >= 32 {
            return value;
        }
        let bits = to.bits();
        let low = self.splat32((-(1i32 << (bits - 1))) as u32);
        let high = self.splat32((1u32 << (bits - 1)) - 1);
        let length = self.length(RegType::I32);
        let value = self.op2(int(2, 0x3d, false), length, Src::Reg(value), low);
        let value = self.op2(int(2, 0x39, false), length, Src::Reg(value), high);
        self.normal(to, value)
    }

    fn float_to_unsigned(&mut self, x: Src, from: RegType, to: RegType, uniform: bool) -> VReg {
        let (from_wide, to_wide) = (from.bits() == 64, to.bits() == 64);
        let from_length = self.length(from);
        if to == RegType::I1 {
            let one = match from {
                RegType::F32 => u64::from(1f32.to_bits()),
                _ => 1f64.to_bits(),
            };
            let one = self.splat(from_wide, one);
            let compare = float(1, 0xc2, from_wide);
            let result = self.compare_op(compare, from_length, x, one, float_code(Compare::Ge));
            return self.spread_mask(result, from_wide && uniform);
        }
        // The second operand wins over a NaN.
        let zero = self.splat(from_wide, 0);
        let x = self.op2(float(1, 0x5f, from_wide), from_length, x, zero);
        let enc = match (from_wide, to_wide) {
            (false, false) => enc(1, 0, 0x78, false),
            (false, true) => enc(1, 1, 0x78, false),
            (true, false) => enc(1, 0, 0x78, true),
            (true, true) => enc(1, 1, 0x78, true),
        };
        let length = self.conversion_length(from_wide || to_wide);
        let value = self.op1(enc, length, Src::Reg(x), None);
        let value = self.respread(uniform && from_wide && !to_wide, value);
        if to.bits() >= 32 {
            return value;
        }
        let high = self.splat32(mask(to) as u32);
        let length = self.length(RegType::I32);
        self.op2(int(2, 0x3b, false), length, Src::Reg(value), high)
    }

    fn spread_mask(&mut self, value: VReg, needed: bool) -> VReg {
        if !needed {
            return value;
        }
        let (bits, bit) = (self.general(), self.general());
        self.put(Ins::MaskToGeneral { to: bits, from: value });
        self.put(Ins::AndImm { to: bit, a: bits, value: 1 });
        self.mask_from_bit(bit)
    }

    /// Floor quotient or remainder of an index expression over a positive constant.
    fn floor_div(&mut self, at: &Affine, by: i64, quotient: bool) -> Val {
        let bounds = super::lower::bounds(self.kernel, at);
        let small = bounds.0 >= 0 && bounds.1 < 1 << 31 && by < 1 << 31;
        let power = by & (by - 1) == 0;
        let shift = by.trailing_zeros() as u8;
        // 2^long / by rounded up: exact for dividends below 2^31.
        let long = 31 + (64 - (by - 1).leading_zeros()) as u8;
        let factor = ((1i128 << long) + i128::from(by) - 1) / i128::from(by);
        let parts = self.parts(at);
        if parts.step == 0 && parts.varying.is_empty() {
            let a = self.sum(&parts);
            let to = self.general();
            if power && quotient {
                self.put(Ins::ShiftImm { extension: 7, to, a, by: shift });
            } else if power && by <= 1 << 30 {
                self.put(Ins::AndImm { to, a, value: (by - 1) as i32 });
            } else if small {
                let product = self.scaled(a, factor as i64);
                self.put(Ins::ShiftImm { extension: 5, to, a: product, by: long });
                if !quotient {
                    let back = self.scaled(to, by);
                    let rest = self.general();
                    self.put(Ins::Sub { to: rest, a, b: back });
                    return Val::General(rest);
                }
            } else {
                let other = self.general();
                let (quotient, remainder) = if quotient { (to, other) } else { (other, to) };
                self.put(Ins::FloorDiv { quotient, remainder, a, by });
            }
            return Val::General(to);
        }
        let chunks = (0..self.cx.chunks)
            .map(|chunk| {
                let x = self.index_lanes(at, chunk);
                let x = self.in_register(x, true);
                if power && quotient {
                    return self.shift_imm(true, 4, x, shift);
                }
                if power {
                    let b = self.splat(true, (by - 1) as u64);
                    return self.op2(int(1, 0xdb, true), Length::Zmm, Src::Reg(x), b);
                }
                debug_assert!(small, "checked when chosen");
                let multiply = int(1, 0xf4, true);
                let b = self.splat(true, factor as u64);
                let product = self.op2(multiply, Length::Zmm, Src::Reg(x), b);
                let q = self.shift_imm(true, 2, product, long);
                if quotient {
                    return q;
                }
                let b = self.splat(true, by as u64);
                let back = self.op2(multiply, Length::Zmm, Src::Reg(q), b);
                self.op2(int(1, 0xfb, true), Length::Zmm, Src::Reg(x), Src::Reg(back))
            })
            .collect();
        Val::Varying(chunks)
    }

    /// The combination of all lanes, in all lanes.
    pub(super) fn across_lanes(&mut self, op: BinaryOp, ty: RegType, value: VReg) -> VReg {
        if ty == RegType::I1 {
            return self.across_mask(op, value);
        }
        let mut value = value;
        let swap = |this: &mut Self, enc: Enc, length, value, imm| {
            this.op1(enc, length, Src::Reg(value), Some(imm))
        };
        let swap_quarters = |this: &mut Self, value: VReg, imm: u8| {
            let to = this.vector();
            let enc = enc(3, 1, 0x43, false);
            this.put_op(enc, Length::Zmm, to, Some(imm), Src::Reg(value), Some(value));
            to
        };
        if self.length(ty) == Length::Zmm {
            for imm in [0x4e, 0xb1] {
                let other = swap_quarters(self, value, imm);
                value = self.combine(op, ty, value, other);
            }
        } else {
            let other = swap(self, enc(3, 1, 0x00, true), Length::Ymm, value, 0x4e);
            value = self.combine(op, ty, value, other);
        }
        let length = self.length(ty);
        let shuffle = enc(1, 1, 0x70, false);
        let other = swap(self, shuffle, length, value, 0x4e);
        value = self.combine(op, ty, value, other);
        if ty.bits() != 64 {
            let other = swap(self, shuffle, length, value, 0xb1);
            value = self.combine(op, ty, value, other);
        }
        let spread = length == Length::Ymm;
        self.respread(spread, value)
    }

    fn across_mask(&mut self, op: BinaryOp, value: VReg) -> VReg {
        use BinaryOp as B;
        let all = if self.cx.lanes == 16 { 0xffff } else { 0xff };
        let (bits, used, bit) = (self.general(), self.general(), self.general());
        self.put(Ins::MaskToGeneral { to: bits, from: value });
        self.put(Ins::AndImm { to: used, a: bits, value: all });
        match op {
            B::And | B::Mul | B::MinU | B::MaxS => {
                self.put(Ins::IsEqual { to: bit, a: used, value: all });
                self.mask_from_bit(bit)
            }
            B::Or | B::MaxU | B::MinS => {
                self.put(Ins::IsEqual { to: bit, a: used, value: 0 });
                let none = self.mask_from_bit(bit);
                self.mask_not(none)
            }
            _ => {
                // The parity: halves folded onto each other.
                let mut value = used;
                for by in [8, 4, 2, 1] {
                    let (shifted, sum) = (self.general(), self.general());
                    self.put(Ins::ShiftImm { extension: 5, to: shifted, a: value, by });
                    self.put(Ins::Xor { to: sum, a: value, b: shifted });
                    value = sum;
                }
                self.put(Ins::AndImm { to: bit, a: value, value: 1 });
                self.mask_from_bit(bit)
            }
        }
    }
}
