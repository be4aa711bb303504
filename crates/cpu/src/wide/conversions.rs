//! Conversions between element types.

use super::analysis;
use super::code::{Ins, Src, VReg};
use super::encode::{Length, enc};
use super::lower::Lower;
use super::ops::{UNORDERED, float, float_code, int};
use jaxrs_kernel::inst::mask;
use jaxrs_kernel::{CastOp, Compare, Reg, RegType};

impl Lower<'_> {
    pub(super) fn cast(
        &mut self,
        op: CastOp,
        a: Reg,
        to: RegType,
        chunk: usize,
        uniform: bool,
    ) -> VReg {
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
    pub(super) fn resize(
        &mut self,
        sign: bool,
        from: RegType,
        to: RegType,
        x: Src,
        uniform: bool,
    ) -> VReg {
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
}
