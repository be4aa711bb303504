//! All lanes of a register combined into one.

use super::code::{Ins, Src, VReg};
use super::encode::{Enc, Length, enc};
use super::lower::Lower;
use jaxrs_kernel::{BinaryOp, RegType};

impl Lower<'_> {
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
