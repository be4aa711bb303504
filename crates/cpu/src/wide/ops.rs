//! The instructions of [`jaxrs_kernel::inst`] on vectors, each with its exact meaning.

use super::analysis;
use super::code::{Ins, Src, VReg};
use super::encode::{Enc, Length, enc};
use super::lower::{Chunks, Lower, SPLAT64, Val};
use jaxrs_kernel::inst::mask;
use jaxrs_kernel::{Affine, BinaryOp, Compare, CompareKind, Inst, Reg, RegType, UnaryOp};

/// Codes of `vcmpps` and `vpcmpd`.
pub(super) fn float_code(op: Compare) -> u8 {
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

pub(super) const UNORDERED: u8 = 3;

/// The prefix of a float instruction: packed single or double.
pub(super) fn float(map: u8, opcode: u8, wide: bool) -> Enc {
    enc(map, u8::from(wide), opcode, wide)
}

/// A 32- or 64-bit integer instruction.
pub(super) fn int(map: u8, opcode: u8, wide: bool) -> Enc {
    enc(map, 1, opcode, wide)
}

impl Lower<'_> {
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

    pub(super) fn lane_instruction(
        &mut self,
        reg: Reg,
        inst: &Inst,
        chunk: usize,
        uniform: bool,
    ) -> VReg {
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
}
