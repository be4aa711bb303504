//! Arithmetic, comparisons and conversions on vectors of 16 bytes.

use super::{Lanes, Unknown, Vectors, count, float_type, int_type};
use crate::wide::code::{Src, VReg};
use crate::wide::encode::{Enc, Length};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, F64, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use cranelift_frontend::FunctionBuilder;
use jaxrs_kernel::{BinaryOp, RegType, UnaryOp};
use smallvec::SmallVec;

impl<'b> Lanes<'_, 'b> {
    pub(super) fn map(
        &mut self,
        values: &[Value],
        ty: Type,
        mut f: impl FnMut(&mut FunctionBuilder<'b>, Value) -> Value,
    ) -> Vectors {
        values
            .iter()
            .map(|&x| {
                let x = self.cast(ty, x);
                f(self.scalars.builder, x)
            })
            .collect()
    }

    fn map2(
        &mut self,
        a: &[Value],
        b: &[Value],
        ty: Type,
        mut f: impl FnMut(&mut FunctionBuilder<'b>, Value, Value) -> Value,
    ) -> Vectors {
        a.iter()
            .zip(b)
            .map(|(&x, &y)| {
                let (x, y) = (self.cast(ty, x), self.cast(ty, y));
                f(self.scalars.builder, x, y)
            })
            .collect()
    }

    pub(super) fn select(&mut self, mask: &[Value], a: &[Value], b: &[Value]) -> Vectors {
        let mut out = Vectors::new();
        for ((&m, &x), &y) in mask.iter().zip(a).zip(b) {
            let (m, x, y) = (self.cast(I32X4, m), self.cast(I32X4, x), self.cast(I32X4, y));
            out.push(self.builder().ins().bitselect(m, x, y));
        }
        out
    }

    pub(super) fn fma(&mut self, wide: bool, a: &Vectors, b: &Vectors, c: &Vectors) -> Vectors {
        let ty = float_type(wide);
        if self.scalars.target.fma {
            return (0..a.len())
                .map(|n| {
                    let [x, y, z] = [a[n], b[n], c[n]].map(|v| self.cast(ty, v));
                    self.builder().ins().fma(x, y, z)
                })
                .collect();
        }
        let (lane, reg) = if wide { (F64, RegType::F64) } else { (F32, RegType::F32) };
        let lanes = a.len() * 16 / lane.bytes() as usize;
        self.each(&[(a, lane), (b, lane), (c, lane)], lane, lanes, |s, x| {
            s.fma(reg, x[0], x[1], x[2])
        })
    }

    pub(super) fn compare(
        &mut self,
        enc: Enc,
        a: &[Value],
        b: &[Value],
        imm: Option<u8>,
    ) -> Result<Vectors, Unknown> {
        if enc.opcode == 0xc2 {
            let cond = match imm {
                Some(0x00) => FloatCC::Equal,
                Some(0x04) => FloatCC::NotEqual,
                Some(0x11) => FloatCC::LessThan,
                Some(0x12) => FloatCC::LessThanOrEqual,
                Some(0x1e) => FloatCC::GreaterThan,
                Some(0x1d) => FloatCC::GreaterThanOrEqual,
                Some(0x03) => FloatCC::Unordered,
                _ => return Err(Unknown),
            };
            return Ok(self.map2(a, b, float_type(enc.wide), |f, x, y| f.ins().fcmp(cond, x, y)));
        }
        let ty = int_type(enc.wide);
        if enc.opcode == 0x27 {
            let both = self.map2(a, b, ty, |f, x, y| f.ins().band(x, y));
            let zero = self.splat32(0);
            let zeros = SmallVec::<[Value; 4]>::from_elem(zero, both.len());
            return Ok(self.map2(&both, &zeros, ty, |f, x, y| f.ins().icmp(IntCC::NotEqual, x, y)));
        }
        let signed = enc.opcode == 0x1f;
        let (mut a, mut b): (Vectors, Vectors) = (a.into(), b.into());
        if !signed && enc.wide {
            // Unsigned order is signed order with the sign bits flipped.
            let flip = self.constant(&(1u64 << 63).to_le_bytes().repeat(2));
            let flips = SmallVec::<[Value; 4]>::from_elem(flip, a.len());
            a = self.map2(&a, &flips, I32X4, |f, x, y| f.ins().bxor(x, y));
            b = self.map2(&b, &flips, I32X4, |f, x, y| f.ins().bxor(x, y));
        }
        let as_signed = signed || enc.wide;
        let cond = match (imm, as_signed) {
            (Some(0), _) => IntCC::Equal,
            (Some(4), _) => IntCC::NotEqual,
            (Some(1), true) => IntCC::SignedLessThan,
            (Some(2), true) => IntCC::SignedLessThanOrEqual,
            (Some(5), true) => IntCC::SignedGreaterThanOrEqual,
            (Some(6), true) => IntCC::SignedGreaterThan,
            (Some(1), false) => IntCC::UnsignedLessThan,
            (Some(2), false) => IntCC::UnsignedLessThanOrEqual,
            (Some(5), false) => IntCC::UnsignedGreaterThanOrEqual,
            (Some(6), false) => IntCC::UnsignedGreaterThan,
            _ => return Err(Unknown),
        };
        Ok(self.map2(&a, &b, ty, |f, x, y| f.ins().icmp(cond, x, y)))
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one instruction")]
    pub(super) fn op(
        &mut self,
        enc: Enc,
        length: Length,
        to: VReg,
        a: Option<Src>,
        b: Src,
        imm: Option<u8>,
        mask: Option<VReg>,
        merge: Option<VReg>,
    ) -> Result<(), Unknown> {
        let splat = enc.map == 2 && matches!(enc.opcode, 0x58 | 0x59);
        if (enc.map, enc.prefix, enc.opcode) == (1, 3, 0x6f) {
            // Truth values as numbers 0 and 1, stored as bytes later.
            let bits = self.vectors(mask.ok_or(Unknown)?, 4);
            let one = self.splat32(1);
            let out = self.map(&bits, I32X4, |f, x| f.ins().band(x, one));
            self.bytes.insert(to);
            self.set(to, &out);
            return Ok(());
        }
        let n = count(length);
        let mut out = if splat {
            let ty = if enc.wide { I64 } else { I32 };
            let value = match b {
                Src::Whole(at) => self.src(Src::Splat(at), enc.wide, 1)[0],
                other => {
                    let from = self.src(other, enc.wide, 1);
                    let first = self.lane(&from, ty, 0);
                    self.builder().ins().splat(int_type(enc.wide), first)
                }
            };
            SmallVec::from_elem(value, n)
        } else if let Some(a) = a {
            let (a, b) = (self.src(a, enc.wide, n), self.src(b, enc.wide, n));
            self.op2(enc, &a, &b, imm)?
        } else {
            self.op1(enc, n, b, imm)?
        };
        if let Some(mask) = mask {
            let mask = self.lane_mask(mask, enc.wide, n);
            let zero = self.splat32(0);
            let old = match merge {
                Some(reg) => self.vectors(reg, n),
                None => SmallVec::from_elem(zero, n),
            };
            out = self.select(&mask, &out, &old);
        }
        self.set(to, &out);
        Ok(())
    }

    fn op2(
        &mut self,
        enc: Enc,
        a: &Vectors,
        b: &Vectors,
        imm: Option<u8>,
    ) -> Result<Vectors, Unknown> {
        let (wide, ints, floats) = (enc.wide, int_type(enc.wide), float_type(enc.wide));
        let lane = if wide { I64 } else { I32 };
        let lanes = a.len() * 16 / lane.bytes() as usize;
        let reg = if wide { RegType::I64 } else { RegType::I32 };
        let is_float = enc.prefix == u8::from(wide);
        let out = match (enc.map, enc.opcode) {
            (1, 0x58) if is_float => self.map2(a, b, floats, |f, x, y| f.ins().fadd(x, y)),
            (1, 0x5c) if is_float => self.map2(a, b, floats, |f, x, y| f.ins().fsub(x, y)),
            (1, 0x59) if is_float => self.map2(a, b, floats, |f, x, y| f.ins().fmul(x, y)),
            (1, 0x5e) if is_float => self.map2(a, b, floats, |f, x, y| f.ins().fdiv(x, y)),
            // The second operand wins over a NaN and between zeros.
            (1, 0x5f) => {
                let above =
                    self.map2(a, b, floats, |f, x, y| f.ins().fcmp(FloatCC::GreaterThan, x, y));
                self.select(&above, a, b)
            }
            (3, 0x50) if imm == Some(4) => self.map2(a, b, floats, |f, x, y| f.ins().fmin(x, y)),
            (3, 0x50) => self.map2(a, b, floats, |f, x, y| f.ins().fmax(x, y)),
            (1, 0xfe | 0xd4) => self.map2(a, b, ints, |f, x, y| f.ins().iadd(x, y)),
            (1, 0xfa | 0xfb) => self.map2(a, b, ints, |f, x, y| f.ins().isub(x, y)),
            (2, 0x40) => self.map2(a, b, ints, |f, x, y| f.ins().imul(x, y)),
            (1, 0xf4) => {
                let low = self.constant(&0xffff_ffffu64.to_le_bytes().repeat(2));
                let low = self.cast(I64X2, low);
                self.map2(a, b, I64X2, |f, x, y| {
                    let (x, y) = (f.ins().band(x, low), f.ins().band(y, low));
                    f.ins().imul(x, y)
                })
            }
            (1, 0xdb) => self.map2(a, b, ints, |f, x, y| f.ins().band(x, y)),
            (1, 0xeb) => self.map2(a, b, ints, |f, x, y| f.ins().bor(x, y)),
            (1, 0xef) => self.map2(a, b, ints, |f, x, y| f.ins().bxor(x, y)),
            (2, 0x39) if !wide => self.map2(a, b, ints, |f, x, y| f.ins().smin(x, y)),
            (2, 0x3d) if !wide => self.map2(a, b, ints, |f, x, y| f.ins().smax(x, y)),
            (2, 0x3b) if !wide => self.map2(a, b, ints, |f, x, y| f.ins().umin(x, y)),
            (2, 0x3f) if !wide => self.map2(a, b, ints, |f, x, y| f.ins().umax(x, y)),
            (2, 0x39 | 0x3d | 0x3b | 0x3f) => {
                let signed = matches!(enc.opcode, 0x39 | 0x3d);
                let least = matches!(enc.opcode, 0x39 | 0x3b);
                let compare = Enc { map: 3, opcode: if signed { 0x1f } else { 0x1e }, ..enc };
                let first = self.compare(compare, a, b, Some(if least { 1 } else { 6 }))?;
                self.select(&first, a, b)
            }
            (2, 0x45..=0x47) => {
                let op = match enc.opcode {
                    0x45 => BinaryOp::ShrU,
                    0x46 => BinaryOp::ShrS,
                    _ => BinaryOp::Shl,
                };
                if b.iter().all(|&v| v == b[0]) && self.is_splat(b[0], lane) {
                    let by = self.lane(b, lane, 0);
                    return Ok(self.shift_all(op, a, ints, lane, by));
                }
                self.each(&[(a, lane), (b, lane)], lane, lanes, |s, x| {
                    s.binary(op, reg, x[0], x[1])
                })
            }
            (3, 0x43) => {
                let imm = imm.ok_or(Unknown)?;
                (0..4).map(|n| a[usize::from(imm >> (2 * n) & 3)]).collect()
            }
            _ => return Err(Unknown),
        };
        Ok(out)
    }

    /// Whether a value is a constant vector of equal lanes.
    fn is_splat(&mut self, value: Value, lane: Type) -> bool {
        use cranelift_codegen::ir::{InstructionData, ValueDef};
        let dfg = &self.builder().func.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(value) else { return false };
        let InstructionData::UnaryConst { constant_handle, .. } = dfg.insts[inst] else {
            return false;
        };
        let bytes = dfg.constants.get(constant_handle).as_slice();
        let size = lane.bytes() as usize;
        bytes.chunks(size).all(|c| c == &bytes[..size])
    }

    /// A shift of all lanes by one amount, which may be the width or more.
    fn shift_all(&mut self, op: BinaryOp, a: &[Value], ty: Type, lane: Type, by: Value) -> Vectors {
        let bits = i64::from(lane.bits());
        let inside = self.builder().ins().icmp_imm_s(IntCC::UnsignedLessThan, by, bits);
        let most = self.builder().ins().iconst(lane, bits - 1);
        let safe = self.builder().ins().select(inside, by, most);
        let zero = self.splat32(0);
        let zero = self.cast(ty, zero);
        self.map(a, ty, |f, x| match op {
            BinaryOp::ShrS => f.ins().sshr(x, safe),
            BinaryOp::ShrU => {
                let shifted = f.ins().ushr(x, safe);
                f.ins().select(inside, shifted, zero)
            }
            _ => {
                let shifted = f.ins().ishl(x, safe);
                f.ins().select(inside, shifted, zero)
            }
        })
    }

    fn op1(&mut self, enc: Enc, n: usize, b: Src, imm: Option<u8>) -> Result<Vectors, Unknown> {
        let wide = enc.wide;
        let (ints, floats) = (int_type(wide), float_type(wide));
        let x = self.src(b, wide, n);
        let out = match (enc.map, enc.prefix, enc.opcode) {
            (1, 0 | 1, 0x51) => self.map(&x, floats, |f, x| f.ins().sqrt(x)),
            (3, 1, 0x08 | 0x09) => {
                let code = imm.ok_or(Unknown)? & 3;
                self.map(&x, floats, |f, x| match code {
                    0 => f.ins().nearest(x),
                    1 => f.ins().floor(x),
                    2 => f.ins().ceil(x),
                    _ => f.ins().trunc(x),
                })
            }
            (2, 1, 0x1e | 0x1f) => self.map(&x, ints, |f, x| f.ins().iabs(x)),
            (2, 1, 0x44) => {
                let (lane, reg) = if wide { (I64, RegType::I64) } else { (I32, RegType::I32) };
                let lanes = n * 16 / lane.bytes() as usize;
                self.each(&[(&x, lane)], lane, lanes, |s, x| s.unary(UnaryOp::Clz, reg, x[0]))
            }
            (2, 1, 0x33) => x,
            (2, 1, 0x13) => self.float_of_f16(&x),
            (2, 1, 0x25) => self.widen(&x, n, true),
            (2, 1, 0x35) => self.widen(&x, n, false),
            (3, 1, 0x00) => SmallVec::from_slice(&[x[1], x[0]]),
            (1, 1, 0x70) => {
                let imm = imm.ok_or(Unknown)?;
                let mut pick = [0; 16];
                for (at, byte) in pick.iter_mut().enumerate() {
                    *byte = (imm >> (2 * (at / 4)) & 3) * 4 + (at % 4) as u8;
                }
                x.iter().map(|&v| self.shuffle(v, v, pick)).collect()
            }
            (1, 0, 0x5b) if !wide => self.map(&x, I32X4, |f, x| f.ins().fcvt_from_sint(F32X4, x)),
            (1, 3, 0x7a) if !wide => self.map(&x, I32X4, |f, x| f.ins().fcvt_from_uint(F32X4, x)),
            (1, 2, 0x5b) => self.map(&x, F32X4, |f, x| f.ins().fcvt_to_sint_sat(I32X4, x)),
            (1, 0, 0x78) if !wide => self.map(&x, F32X4, |f, x| f.ins().fcvt_to_uint_sat(I32X4, x)),
            (1, 0, 0x5a) => (0..n)
                .map(|part| {
                    let from = self.cast(F32X4, x[part / 2]);
                    let high = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
                    let from = if part % 2 == 0 { from } else { self.shuffle(from, from, high) };
                    let from = self.cast(F32X4, from);
                    self.builder().ins().fvpromote_low(from)
                })
                .collect(),
            (1, 1, 0x5a) => {
                let lanes = 2 * n;
                self.each(&[(&x, F64)], F32, lanes, |s, x| s.builder.ins().fdemote(F32, x[0]))
            }
            _ => return self.convert(enc, n, &x),
        };
        Ok(out)
    }

    /// Conversions that 128-bit vectors lack.
    fn convert(&mut self, enc: Enc, n: usize, x: &Vectors) -> Result<Vectors, Unknown> {
        let lanes = 2 * n;
        let out = match (enc.prefix, enc.opcode, enc.wide) {
            // 32-bit integers to f64.
            (2, 0xe6, false) => {
                self.each(&[(x, I32)], F64, lanes, |s, x| s.builder.ins().fcvt_from_sint(F64, x[0]))
            }
            (2, 0x7a, false) => self.each(&[(x, I32)], F64, lanes, |s, x| {
                let wide = s.builder.ins().uextend(I64, x[0]);
                s.builder.ins().fcvt_from_sint(F64, wide)
            }),
            // 64-bit integers.
            (0, 0x5b, true) => {
                self.each(&[(x, I64)], F32, lanes, |s, x| s.builder.ins().fcvt_from_sint(F32, x[0]))
            }
            (3, 0x7a, true) => {
                self.each(&[(x, I64)], F32, lanes, |s, x| s.builder.ins().fcvt_from_uint(F32, x[0]))
            }
            (2, 0xe6, true) => {
                self.each(&[(x, I64)], F64, lanes, |s, x| s.builder.ins().fcvt_from_sint(F64, x[0]))
            }
            (2, 0x7a, true) => {
                self.each(&[(x, I64)], F64, lanes, |s, x| s.builder.ins().fcvt_from_uint(F64, x[0]))
            }
            // Floats to integers, saturating: the limits that the code checks are the same.
            (1, 0x7a, wide) => {
                let from = if wide { F64 } else { F32 };
                self.each(&[(x, from)], I64, lanes, |s, x| {
                    s.builder.ins().fcvt_to_sint_sat(I64, x[0])
                })
            }
            (1, 0x78, wide) => {
                let from = if wide { F64 } else { F32 };
                self.each(&[(x, from)], I64, lanes, |s, x| {
                    s.builder.ins().fcvt_to_uint_sat(I64, x[0])
                })
            }
            (1, 0xe6, true) => self.each(&[(x, F64)], I32, lanes, |s, x| {
                // Above the range the instruction gives the least value: the quotient of the
                // least value by -1 is that.
                let (low, high) = (
                    s.builder.ins().f64const(-2147483648.0),
                    s.builder.ins().f64const(2147483648.0),
                );
                let safe = s.builder.ins().fmax(x[0], low);
                let safe = s.builder.ins().fmin(safe, high);
                let wide = s.builder.ins().fcvt_to_sint_sat(I64, safe);
                s.builder.ins().ireduce(I32, wide)
            }),
            (0, 0x78, true) => self.each(&[(x, F64)], I32, lanes, |s, x| {
                // An infinite or NaN quotient becomes all ones, as the division by zero wants.
                let max = s.builder.ins().f64const(f64::from(u32::MAX));
                let above = s.builder.ins().fcmp(FloatCC::UnorderedOrGreaterThan, x[0], max);
                let safe = s.builder.ins().select(above, max, x[0]);
                let wide = s.builder.ins().fcvt_to_uint_sat(I64, safe);
                s.builder.ins().ireduce(I32, wide)
            }),
            _ => return Err(Unknown),
        };
        Ok(out)
    }

    pub(super) fn float_of_f16(&mut self, x: &Vectors) -> Vectors {
        self.each(&[(x, I32)], F32, 4 * x.len(), |s, x| {
            let bits = s.reduce(cranelift_codegen::ir::types::I16, x[0]);
            s.unary(UnaryOp::FromBitsF16, RegType::I16, bits)
        })
    }

    pub(super) fn f16_of_float(&mut self, x: &Vectors) -> Vectors {
        self.each(&[(x, F32)], I32, 4 * x.len(), |s, x| {
            let bits = s.unary(UnaryOp::BitsF16, RegType::F32, x[0]);
            s.extend(I32, bits, false)
        })
    }
}
