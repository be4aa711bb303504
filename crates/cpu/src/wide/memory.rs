//! Loads and stores of elements of every type: contiguous, strided, gathered, uniform.

use super::code::{Addr, Ins, Lanes, Src, VReg};
use super::encode::{Enc, Length, enc};
use super::lower::{Chunks, Lower, Parts, SPLAT32, SPLAT64, Val};
use super::near::is_near;
use jaxrs_kernel::kernel::Access;
use jaxrs_kernel::{Affine, DType, ParamId, Reg, RegType};

const LOAD32: Enc = enc(1, 2, 0x6f, false);
const LOAD64: Enc = enc(1, 2, 0x6f, true);
const STORE32: Enc = enc(1, 2, 0x7f, false);
const STORE64: Enc = enc(1, 2, 0x7f, true);
const WIDEN8: Enc = enc(2, 1, 0x31, false);
const WIDEN16: Enc = enc(2, 1, 0x33, false);
const NARROW8: Enc = enc(2, 2, 0x31, false);
const NARROW16: Enc = enc(2, 2, 0x33, false);
const FROM_F16: Enc = enc(2, 1, 0x13, false);
const TO_F16: Enc = enc(3, 1, 0x1d, false);
const BYTES: Enc = enc(1, 3, 0x6f, false);
const STORE_BYTES: Enc = enc(1, 3, 0x7f, false);
/// `movd` and `movq` to memory.
const FIRST32: Enc = enc(1, 1, 0x7e, false);
const FIRST64: Enc = enc(1, 1, 0xd6, true);

impl Lower<'_> {
    /// The element of a parameter.
    pub(super) fn load(&mut self, param: ParamId, at: &Affine) -> Val {
        if let Some(value) = self.load_from_tile(param, at) {
            return value;
        }
        if self.kernel.params[param].access != Access::Read {
            self.flush_stores();
        }
        let parts = self.parts(at);
        let dtype = self.kernel.params[param].dtype;
        if parts.varying.is_empty() && parts.step == 0 {
            let at = self.address(param, &parts, 0);
            return Val::Uniform(self.load_uniform(dtype, at));
        }
        let size = dtype.size() as i64;
        let chunks: Chunks = (0..self.cx.chunks)
            .map(|chunk| {
                let mask = self.cx.mask.as_ref().map(|m| m[chunk]);
                if !parts.varying.is_empty() {
                    let (at, index) = self.varying_address(param, &parts, chunk);
                    return self.gather(dtype, at, Lanes::At(index, size as u8), mask);
                }
                let more = chunk as i64 * self.cx.lanes * parts.step * size;
                let at = self.address(param, &parts, more);
                if parts.step == 1 {
                    self.load_contiguous(dtype, at, mask)
                } else if mask.is_none() && is_near(parts.step) {
                    self.load_near(dtype, param, &parts, more)
                } else {
                    let apart = i32::try_from(parts.step * size).expect("checked when chosen");
                    self.gather(dtype, at, Lanes::Apart(apart), mask)
                }
            })
            .collect();
        Val::Varying(chunks)
    }

    fn load_uniform(&mut self, dtype: DType, at: Addr) -> VReg {
        let narrow = match dtype {
            DType::I1 | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::BF16 | DType::F16 => 2,
            _ => {
                let to = self.vector();
                let enc = if dtype.size() == 8 { SPLAT64 } else { SPLAT32 };
                self.put(Ins::Load { enc, length: Length::Zmm, to, at, mask: None });
                return to;
            }
        };
        let mut value = self.general();
        self.put(Ins::LoadNarrow { bytes: narrow, to: value, at });
        if dtype == DType::I1 {
            return self.mask_from_bit(value);
        }
        if dtype == DType::BF16 {
            value = self.scaled(value, 1 << 16);
        }
        let to = self.vector();
        self.put(Ins::Spread { to, from: value, wide: false });
        if dtype == DType::F16 {
            return self.from_f16_bits(Src::Reg(to), Length::Zmm);
        }
        to
    }

    /// All lanes on if a general register is 1, off if it is 0.
    pub(super) fn mask_from_bit(&mut self, bit: VReg) -> VReg {
        let (all, to) = (self.general(), self.mask_reg());
        self.put(Ins::Neg { to: all, a: bit });
        self.put(Ins::MaskFromGeneral { to, from: all });
        to
    }

    pub(super) fn load_contiguous(&mut self, dtype: DType, at: Addr, mask: Option<VReg>) -> VReg {
        let length = self.length(dtype.reg());
        let mut read = |enc| {
            let to = self.vector();
            self.put(Ins::Load { enc, length, to, at, mask });
            to
        };
        match dtype {
            DType::F32 | DType::I32 | DType::U32 => read(LOAD32),
            DType::F16 => read(FROM_F16),
            DType::I8 | DType::U8 => read(WIDEN8),
            DType::I16 | DType::U16 => read(WIDEN16),
            DType::BF16 => {
                let bits = read(WIDEN16);
                self.shift_imm(false, 6, bits, 16)
            }
            DType::I1 => {
                let bytes = read(WIDEN8);
                self.not_zero(bytes)
            }
            DType::I64 | DType::U64 | DType::F64 | DType::C64 | DType::C128 => read(LOAD64),
        }
    }

    /// The mask of the 32-bit lanes that are not zero.
    pub(super) fn not_zero(&mut self, value: VReg) -> VReg {
        let (to, b) = (self.mask_reg(), self.splat32(0));
        let length = self.length(RegType::I32);
        let (enc, a) = (enc(3, 1, 0x1f, false), Src::Reg(value));
        self.put(Ins::Compare { enc, length, to, a, b, imm: Some(4) });
        to
    }

    /// Elements anywhere.
    fn gather(&mut self, dtype: DType, at: Addr, lanes: Lanes, mask: Option<VReg>) -> VReg {
        let size = dtype.size();
        let to = self.vector();
        if size >= 4 {
            let wide = size == 8;
            let (index, opcode, scale) = self.gather_index(lanes, size);
            let length = if wide || opcode == 0x93 || self.cx.lanes == 16 {
                Length::Zmm
            } else {
                Length::Ymm
            };
            let enc = enc(2, 1, opcode, wide);
            self.put(Ins::Gather { enc, length, to, at, index, scale, mask });
            return to;
        }
        let (bytes, count) = (size as u8, self.cx.lanes as u8);
        self.put(Ins::LaneLoad { bytes, count, to, at, lanes, mask });
        match dtype {
            DType::I1 => self.not_zero(to),
            DType::BF16 => self.shift_imm(false, 6, to, 16),
            DType::F16 => {
                let length = self.length(RegType::F32);
                self.from_f16_bits(Src::Reg(to), length)
            }
            _ => to,
        }
    }

    /// Index vector, opcode of the gather (a scatter's is 16 more), and scale.
    fn gather_index(&mut self, lanes: Lanes, size: u64) -> (Src, u8, u8) {
        match lanes {
            Lanes::Apart(apart) => {
                let step = i64::from(apart) / size as i64;
                let mut bytes = [0; 64];
                for (lane, out) in bytes.chunks_exact_mut(4).enumerate() {
                    out.copy_from_slice(&((lane as i64 * step) as i32).to_le_bytes());
                }
                (self.whole(&bytes), 0x92, size as u8)
            }
            Lanes::At(index, scale) => (Src::Reg(index), 0x93, scale),
        }
    }

    /// The address without the parts that vary, and their sum in 64-bit lanes, in elements.
    fn varying_address(&mut self, param: ParamId, parts: &Parts, chunk: usize) -> (Addr, VReg) {
        let at = self.address(param, parts, 0);
        let index = self.varying_sum(parts, chunk);
        (at, index)
    }

    /// Writes an element of a parameter.
    pub(super) fn store(&mut self, param: ParamId, at: &Affine, value: Reg) {
        if self.store_to_tile(param, at, value) {
            return;
        }
        let parts = self.parts(at);
        let dtype = self.kernel.params[param].dtype;
        if self.cx.mask.is_none() && parts.varying.is_empty() && is_near(parts.step) {
            self.store_near(param, parts, value);
            return;
        }
        self.flush_stores();
        if parts.varying.is_empty() && parts.step == 0 {
            let at = self.address(param, &parts, 0);
            self.store_first(dtype, at, value);
            return;
        }
        let size = dtype.size() as i64;
        for chunk in 0..self.cx.chunks {
            let mask = self.cx.mask.as_ref().map(|m| m[chunk]);
            if !parts.varying.is_empty() {
                let (at, index) = self.varying_address(param, &parts, chunk);
                self.scatter(dtype, at, Lanes::At(index, size as u8), mask, value, chunk);
                continue;
            }
            let more = chunk as i64 * self.cx.lanes * parts.step * size;
            let at = self.address(param, &parts, more);
            if parts.step == 1 {
                self.store_contiguous(dtype, at, mask, value, chunk);
            } else {
                let apart = i32::try_from(parts.step * size).expect("checked when chosen");
                self.scatter(dtype, at, Lanes::Apart(apart), mask, value, chunk);
            }
        }
    }

    /// The one element of a uniform store.
    fn store_first(&mut self, dtype: DType, at: Addr, value: Reg) {
        let (length, mask) = (Length::Xmm, None);
        match dtype {
            DType::I1 => {
                let from = self.mask_of(value, 0);
                let (all, bit) = (self.general(), self.general());
                self.put(Ins::MaskToGeneral { to: all, from });
                self.put(Ins::AndImm { to: bit, a: all, value: 1 });
                self.put(Ins::StoreNarrow { bytes: 1, from: bit, at });
            }
            DType::F32 | DType::I32 | DType::U32 => {
                let from = self.register(value, 0);
                self.put(Ins::Store { enc: FIRST32, length, from, at, mask, imm: None });
            }
            DType::F64 | DType::I64 | DType::U64 | DType::C64 | DType::C128 => {
                let from = self.register(value, 0);
                self.put(Ins::Store { enc: FIRST64, length, from, at, mask, imm: None });
            }
            DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::BF16 | DType::F16 => {
                let mut from = self.register(value, 0);
                if dtype == DType::F16 {
                    from = self.to_f16_bits(from, Length::Zmm);
                }
                let mut first = self.general();
                self.put(Ins::First { to: first, from, wide: false });
                if dtype == DType::BF16 {
                    let to = self.general();
                    self.put(Ins::ShiftImm { extension: 5, to, a: first, by: 16 });
                    first = to;
                }
                self.put(Ins::StoreNarrow { bytes: dtype.size() as u8, from: first, at });
            }
        }
    }

    fn store_contiguous(
        &mut self,
        dtype: DType,
        at: Addr,
        mask: Option<VReg>,
        value: Reg,
        chunk: usize,
    ) {
        if dtype == DType::I1 {
            let bits = self.mask_of(value, chunk);
            let (from, ones) = (self.vector(), self.whole(&[1; 64]));
            let (length, merge) = (Length::Xmm, None);
            self.put(Ins::Op {
                enc: BYTES,
                length,
                to: from,
                a: None,
                b: ones,
                imm: None,
                mask: Some(bits),
                merge,
            });
            let enc = if self.cx.lanes == 16 || mask.is_some() { STORE_BYTES } else { FIRST64 };
            self.put(Ins::Store { enc, length, from, at, mask, imm: None });
            return;
        }
        let from = self.register(value, chunk);
        self.store_vector(dtype, at, mask, from);
    }

    /// Writes a vector's lanes (of truth values: 32-bit lanes of 0 and 1) side by side.
    pub(super) fn store_vector(&mut self, dtype: DType, at: Addr, mask: Option<VReg>, from: VReg) {
        let length = self.length(dtype.reg());
        let (enc, from, imm) = match dtype {
            DType::I1 | DType::I8 | DType::U8 => (NARROW8, from, None),
            DType::I16 | DType::U16 => (NARROW16, from, None),
            DType::BF16 => (NARROW16, self.shift_imm(false, 2, from, 16), None),
            DType::F16 => (TO_F16, from, Some(0)),
            _ if dtype.size() == 8 => (STORE64, from, None),
            _ => (STORE32, from, None),
        };
        self.put(Ins::Store { enc, length, from, at, mask, imm });
    }

    /// A value's lanes in a vector; a truth value's as 0 and 1 in 32-bit lanes.
    pub(super) fn lanes_vector(&mut self, value: Reg, chunk: usize) -> VReg {
        if self.ty(value) == RegType::I1 {
            let bits = self.mask_of(value, chunk);
            return self.lanes_of_mask(bits, false, 1);
        }
        self.register(value, chunk)
    }

    fn scatter(
        &mut self,
        dtype: DType,
        at: Addr,
        lanes: Lanes,
        mask: Option<VReg>,
        value: Reg,
        chunk: usize,
    ) {
        let size = dtype.size();
        if size >= 4 {
            let from = self.register(value, chunk);
            let wide = size == 8;
            let (index, opcode, scale) = self.gather_index(lanes, size);
            let length = if wide || opcode == 0x93 || self.cx.lanes == 16 {
                Length::Zmm
            } else {
                Length::Ymm
            };
            let enc = enc(2, 1, opcode + 0x10, wide);
            self.put(Ins::Scatter { enc, length, from, at, index, scale, mask });
            return;
        }
        let from = match dtype {
            DType::I1 => {
                let bits = self.mask_of(value, chunk);
                self.lanes_of_mask(bits, false, 1)
            }
            DType::BF16 => {
                let from = self.register(value, chunk);
                self.shift_imm(false, 2, from, 16)
            }
            DType::F16 => {
                let from = self.register(value, chunk);
                let length = self.length(RegType::F32);
                self.to_f16_bits(from, length)
            }
            _ => self.register(value, chunk),
        };
        let (bytes, count) = (size as u8, self.cx.lanes as u8);
        self.put(Ins::LaneStore { bytes, count, from, at, lanes, mask });
    }

    /// The `f32` values of `f16` bits in 32-bit lanes.
    pub(super) fn from_f16_bits(&mut self, bits: Src, length: Length) -> VReg {
        let a = self.in_register(bits, false);
        let (half, to) = (self.vector(), self.vector());
        self.put(Ins::Narrow { enc: NARROW16, length, to: half, a, imm: None });
        self.put_op(FROM_F16, length, to, None, Src::Reg(half), None);
        to
    }

    /// The `f16` bits of `f32` values, zero-extended to 32-bit lanes.
    pub(super) fn to_f16_bits(&mut self, a: VReg, length: Length) -> VReg {
        let (half, to) = (self.vector(), self.vector());
        self.put(Ins::Narrow { enc: TO_F16, length, to: half, a, imm: Some(0) });
        self.put_op(WIDEN16, length, to, None, Src::Reg(half), None);
        to
    }
}
