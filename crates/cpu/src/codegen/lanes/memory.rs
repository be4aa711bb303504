//! Loads and stores, of whole vectors and lane by lane.

use super::super::access::access_flags;
use super::super::nest::arguments;
use super::{DATA, Elements, INDEX, Lanes, MASK, Unknown, Vectors, count, int_type};
use crate::wide::code::{Addr, Lanes as Apart, Src, VReg};
use crate::wide::encode::{Enc, Length};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8X16, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};
use smallvec::SmallVec;

impl Lanes<'_, '_> {
    pub(super) fn address(&mut self, at: &Addr) -> Value {
        let mut address = self.general(at.base);
        if let Some((index, scale)) = at.index {
            let index = self.general(index);
            let scaled = self.builder().ins().imul_imm_s(index, i64::from(scale));
            address = self.builder().ins().iadd(address, scaled);
        }
        if at.disp != 0 {
            address = self.builder().ins().iadd_imm_s(address, i64::from(at.disp));
        }
        address
    }

    pub(super) fn load_extended(&mut self, bytes: u8, address: Value) -> Value {
        let flags = access_flags();
        match bytes {
            1 => self.builder().ins().uload8(I64, flags, address, 0),
            2 => self.builder().ins().uload16(I64, flags, address, 0),
            4 => self.builder().ins().uload32(flags, address, 0),
            _ => self.builder().ins().load(I64, flags, address, 0),
        }
    }

    pub(super) fn store_low(&mut self, bytes: u8, address: Value, value: Value) {
        let flags = access_flags();
        match bytes {
            1 => self.builder().ins().istore8(flags, value, address, 0),
            2 => self.builder().ins().istore16(flags, value, address, 0),
            4 => self.builder().ins().istore32(flags, value, address, 0),
            _ => self.builder().ins().store(flags, value, address, 0),
        };
    }

    pub(super) fn load(
        &mut self,
        enc: Enc,
        length: Length,
        at: &Addr,
        mask: Option<VReg>,
    ) -> Result<Vectors, Unknown> {
        let n = count(length);
        let base = self.address(at);
        let flags = access_flags();
        if (enc.map, enc.prefix) == (2, 1) && matches!(enc.opcode, 0x58 | 0x59) {
            let ty = if enc.wide { I64 } else { I32 };
            let value = self.builder().ins().load(ty, flags, base, 0);
            let value = self.builder().ins().splat(int_type(enc.wide), value);
            return Ok(SmallVec::from_elem(value, n));
        }
        let size: u8 = match (enc.map, enc.opcode) {
            (1, 0x6f) if enc.wide => 8,
            (1, 0x6f) => 4,
            (2, 0x31) => 1,
            (2, 0x33 | 0x13) => 2,
            _ => return Err(Unknown),
        };
        let lanes = (16 * n / usize::from(size.max(4))) as u8;
        let bits = if mask.is_some() {
            self.lane_loads(size, lanes, base, &Elements::Apart(i64::from(size)), mask)
        } else {
            (0..n as i32)
                .map(|part| match size {
                    1 => {
                        let four = self.builder().ins().load(I32, flags, base, 4 * part);
                        let bytes = self.builder().ins().scalar_to_vector(I32X4, four);
                        let bytes = self.cast(I8X16, bytes);
                        let halves = self.builder().ins().uwiden_low(bytes);
                        self.builder().ins().uwiden_low(halves)
                    }
                    2 => {
                        let eight = self.builder().ins().load(I64, flags, base, 8 * part);
                        let halves = self.builder().ins().scalar_to_vector(I64X2, eight);
                        let halves = self.cast(I16X8, halves);
                        self.builder().ins().uwiden_low(halves)
                    }
                    _ => self.builder().ins().load(I32X4, flags, base, 16 * part),
                })
                .collect()
        };
        if (enc.map, enc.opcode) == (2, 0x13) {
            return Ok(self.float_of_f16(&bits));
        }
        Ok(bits)
    }

    pub(super) fn store(
        &mut self,
        enc: Enc,
        length: Length,
        from: VReg,
        at: &Addr,
        mask: Option<VReg>,
    ) -> Result<(), Unknown> {
        let base = self.address(at);
        let flags = access_flags();
        if self.bytes.contains(&from) {
            let values = self.vectors(from, 4);
            let lanes = if enc.opcode == 0xd6 { 8 } else { 16 };
            if mask.is_none() && lanes == 16 {
                let packed = self.pack_bytes(&values);
                self.builder().ins().store(flags, packed, base, 0);
                return Ok(());
            }
            self.lane_stores(1, lanes, base, &Elements::Apart(1), mask, &values);
            return Ok(());
        }
        let n = count(length);
        let values = self.vectors(from, n);
        let size: u8 = match (enc.map, enc.opcode) {
            (1, 0x7e) => {
                let value = self.lane(&values, I32, 0);
                self.builder().ins().store(flags, value, base, 0);
                return Ok(());
            }
            (1, 0xd6) => {
                let value = self.lane(&values, I64, 0);
                self.builder().ins().store(flags, value, base, 0);
                return Ok(());
            }
            (1, 0x7f) if enc.wide => 8,
            (1, 0x7f) => 4,
            (2, 0x31) => 1,
            (2, 0x33) | (3, 0x1d) => 2,
            _ => return Err(Unknown),
        };
        let values = if enc.map == 3 { self.f16_of_float(&values) } else { values };
        let lanes = (16 * n / usize::from(size.max(4))) as u8;
        if mask.is_some() {
            let elements = Elements::Apart(i64::from(size));
            self.lane_stores(size, lanes, base, &elements, mask, &values);
            return Ok(());
        }
        match size {
            1 if n == 4 => {
                let packed = self.pack_bytes(&values);
                self.builder().ins().store(flags, packed, base, 0);
            }
            1 => {
                let elements = Elements::Apart(1);
                self.lane_stores(1, lanes, base, &elements, None, &values);
            }
            2 => {
                for (part, pair) in values.chunks(2).enumerate() {
                    let (a, b) = (self.cast(I32X4, pair[0]), self.cast(I32X4, pair[1]));
                    let packed = self.builder().ins().unarrow(a, b);
                    self.builder().ins().store(flags, packed, base, 16 * part as i32);
                }
            }
            _ => {
                for (part, &value) in values.iter().enumerate() {
                    self.builder().ins().store(flags, value, base, 16 * part as i32);
                }
            }
        }
        Ok(())
    }

    /// Sixteen 32-bit lanes below 256 as bytes.
    fn pack_bytes(&mut self, values: &[Value]) -> Value {
        let [a, b, c, d] = [0, 1, 2, 3].map(|n| self.cast(I32X4, values[n]));
        let low = self.builder().ins().unarrow(a, b);
        let high = self.builder().ins().unarrow(c, d);
        self.builder().ins().unarrow(low, high)
    }

    fn spill(&mut self, slot: usize, values: &[Value]) {
        let slot = self.slots[slot];
        for (part, &value) in values.iter().enumerate() {
            self.builder().ins().stack_store(I64, value, slot, 16 * part as i32);
        }
    }

    /// The element size, places and lanes of a gather or scatter.
    pub(super) fn indexed(
        &mut self,
        enc: Enc,
        length: Length,
        index: Src,
        scale: u8,
    ) -> (u8, Elements, u8) {
        let size = if enc.wide { 8 } else { 4 };
        // Opcodes with the low bit have 64-bit indices, eight of them.
        let (index_size, lanes) = match (enc.opcode & 1 == 1, enc.wide) {
            (true, _) => (8, 8),
            (false, true) => (4, 8),
            (false, false) => (4, if length == Length::Zmm { 16 } else { 8 }),
        };
        let n = usize::from(lanes) * usize::from(index_size) / 16;
        let values = self.src(index, index_size == 8, n);
        self.spill(INDEX, &values);
        (size, Elements::Indexed(index_size, i64::from(scale)), lanes)
    }

    pub(super) fn elements(&mut self, lanes: Apart) -> Elements {
        match lanes {
            Apart::Apart(bytes) => Elements::Apart(i64::from(bytes)),
            Apart::At(index, scale) => {
                let values = self.vectors(index, 4);
                self.spill(INDEX, &values);
                Elements::Indexed(8, i64::from(scale))
            }
        }
    }

    /// A loop over lanes that are on: `f` is given the lane's number and its element's address.
    fn lane_loop(
        &mut self,
        lanes: u8,
        base: Value,
        elements: &Elements,
        mask: Option<VReg>,
        f: impl FnOnce(&mut Self, Value, Value),
    ) {
        if let Some(mask) = mask {
            let values = self.vectors(mask, usize::from(lanes).div_ceil(4));
            self.spill(MASK, &values);
        }
        let (body, on, next, exit) = (
            self.builder().create_block(),
            self.builder().create_block(),
            self.builder().create_block(),
            self.builder().create_block(),
        );
        let lane = self.builder().append_block_param(body, I64);
        let zero = self.builder().ins().iconst(I64, 0);
        self.builder().ins().jump(body, &arguments([zero]));
        self.builder().switch_to_block(body);
        if mask.is_some() {
            let bit = self.slot_element(MASK, lane, 4);
            self.builder().ins().brif(bit, on, &[], next, &[]);
        } else {
            self.builder().ins().jump(on, &[]);
        }
        self.builder().switch_to_block(on);
        let distance = match elements {
            Elements::Apart(bytes) => self.builder().ins().imul_imm_s(lane, *bytes),
            Elements::Indexed(size, scale) => {
                let index = self.slot_element(INDEX, lane, *size);
                let index =
                    if *size == 8 { index } else { self.builder().ins().sextend(I64, index) };
                self.builder().ins().imul_imm_s(index, *scale)
            }
        };
        let address = self.builder().ins().iadd(base, distance);
        f(self, lane, address);
        self.builder().ins().jump(next, &[]);
        self.builder().switch_to_block(next);
        let following = self.builder().ins().iadd_imm_s(lane, 1);
        let more =
            self.builder().ins().icmp_imm_s(IntCC::SignedLessThan, following, i64::from(lanes));
        self.builder().ins().brif(more, body, &arguments([following]), exit, &[]);
        self.builder().switch_to_block(exit);
    }

    fn slot_address(&mut self, slot: usize, lane: Value, size: u8) -> Value {
        let slot = self.slots[slot];
        let base = self.builder().ins().stack_addr(I64, slot, 0);
        let distance = self.builder().ins().imul_imm_s(lane, i64::from(size));
        self.builder().ins().iadd(base, distance)
    }

    fn slot_element(&mut self, slot: usize, lane: Value, size: u8) -> Value {
        let address = self.slot_address(slot, lane, size);
        let ty = if size == 8 { I64 } else { I32 };
        self.builder().ins().load(ty, access_flags(), address, 0)
    }

    /// Elements zero-extended to lanes of 32 or 64 bits, zero where the mask is off.
    pub(super) fn lane_loads(
        &mut self,
        bytes: u8,
        lanes: u8,
        base: Value,
        elements: &Elements,
        mask: Option<VReg>,
    ) -> Vectors {
        let zero = self.splat32(0);
        self.spill(DATA, &[zero; 4]);
        let size = bytes.max(4);
        self.lane_loop(lanes, base, elements, mask, |this, lane, address| {
            let value = this.load_extended(bytes, address);
            let to = this.slot_address(DATA, lane, size);
            this.store_low(size, to, value);
        });
        let slot = self.slots[DATA];
        let n = i32::from(lanes) * i32::from(size) / 16;
        (0..n.max(1))
            .map(|part| self.builder().ins().stack_load(I64, I32X4, slot, 16 * part))
            .collect()
    }

    pub(super) fn lane_stores(
        &mut self,
        bytes: u8,
        lanes: u8,
        base: Value,
        elements: &Elements,
        mask: Option<VReg>,
        values: &[Value],
    ) {
        self.spill(DATA, values);
        let size = bytes.max(4);
        self.lane_loop(lanes, base, elements, mask, |this, lane, address| {
            let from = this.slot_address(DATA, lane, size);
            let value = this.load_extended(size, from);
            this.store_low(bytes, address, value);
        });
    }
}
