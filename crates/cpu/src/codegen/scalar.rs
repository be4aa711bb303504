//! One scalar instruction, as Cranelift code of exactly its meaning.
//!
//! An `i1` is an `i8` that holds 0 or 1.

use super::target::Target;
use crate::helpers::Helper;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use jaxrs_kernel::{BinaryOp, CastOp, Compare, CompareKind, RegType, UnaryOp};

/// Emits scalar instructions into a function.
pub(crate) struct Scalars<'a, 'b> {
    pub(crate) builder: &'a mut FunctionBuilder<'b>,
    pub(crate) target: &'a Target,
}

/// Cranelift's type of a register.
pub(crate) fn scalar_type(ty: RegType) -> Type {
    match ty {
        RegType::I1 | RegType::I8 => types::I8,
        RegType::I16 => types::I16,
        RegType::I32 => types::I32,
        RegType::I64 => types::I64,
        RegType::F32 => types::F32,
        RegType::F64 => types::F64,
    }
}

/// The condition code of an integer comparison.
pub(crate) fn int_condition(op: Compare, kind: CompareKind) -> IntCC {
    let signed = kind == CompareKind::Signed;
    match op {
        Compare::Eq => IntCC::Equal,
        Compare::Ne => IntCC::NotEqual,
        Compare::Lt if signed => IntCC::SignedLessThan,
        Compare::Le if signed => IntCC::SignedLessThanOrEqual,
        Compare::Gt if signed => IntCC::SignedGreaterThan,
        Compare::Ge if signed => IntCC::SignedGreaterThanOrEqual,
        Compare::Lt => IntCC::UnsignedLessThan,
        Compare::Le => IntCC::UnsignedLessThanOrEqual,
        Compare::Gt => IntCC::UnsignedGreaterThan,
        Compare::Ge => IntCC::UnsignedGreaterThanOrEqual,
    }
}

/// The condition code of a float comparison.
pub(crate) fn float_condition(op: Compare) -> FloatCC {
    match op {
        Compare::Eq => FloatCC::Equal,
        Compare::Ne => FloatCC::NotEqual,
        Compare::Lt => FloatCC::LessThan,
        Compare::Le => FloatCC::LessThanOrEqual,
        Compare::Gt => FloatCC::GreaterThan,
        Compare::Ge => FloatCC::GreaterThanOrEqual,
    }
}

impl Scalars<'_, '_> {
    /// A constant of an integer type.
    pub(crate) fn int(&mut self, ty: Type, value: i64) -> Value {
        let bits = ty.bits();
        let value = if bits == 64 { value } else { value & ((1i64 << bits) - 1) };
        self.builder.ins().iconst(ty, value)
    }

    /// A constant by its bits.
    pub(crate) fn constant(&mut self, ty: RegType, bits: u64) -> Value {
        match ty {
            RegType::F32 => self.builder.ins().f32const(f32::from_bits(bits as u32)),
            RegType::F64 => self.builder.ins().f64const(f64::from_bits(bits)),
            _ => self.int(scalar_type(ty), bits as i64),
        }
    }

    /// The bits of a float as an integer or the other way round.
    pub(crate) fn bitcast(&mut self, ty: Type, value: Value) -> Value {
        if self.builder.func.dfg.value_type(value) == ty {
            return value;
        }
        self.builder.ins().bitcast(ty, MemFlagsData::new(), value)
    }

    /// An integer extended to a wider type (or itself).
    pub(crate) fn extend(&mut self, ty: Type, value: Value, signed: bool) -> Value {
        if self.builder.func.dfg.value_type(value) == ty {
            value
        } else if signed {
            self.builder.ins().sextend(ty, value)
        } else {
            self.builder.ins().uextend(ty, value)
        }
    }

    /// The low bits of an integer (or itself).
    pub(crate) fn reduce(&mut self, ty: Type, value: Value) -> Value {
        if self.builder.func.dfg.value_type(value) == ty {
            value
        } else {
            self.builder.ins().ireduce(ty, value)
        }
    }

    /// A unary instruction.
    pub(crate) fn unary(&mut self, op: UnaryOp, ty: RegType, a: Value) -> Value {
        match op {
            UnaryOp::Neg if ty.is_float() => self.builder.ins().fneg(a),
            UnaryOp::Abs if ty.is_float() => self.builder.ins().fabs(a),
            // Modulo 2 every value is its own negative.
            UnaryOp::Neg | UnaryOp::Abs if ty == RegType::I1 => a,
            UnaryOp::Neg => self.builder.ins().ineg(a),
            UnaryOp::Abs => {
                let negative = self.builder.ins().ineg(a);
                let zero = self.int(scalar_type(ty), 0);
                let below = self.builder.ins().icmp(IntCC::SignedLessThan, a, zero);
                self.builder.ins().select(below, negative, a)
            }
            UnaryOp::Sqrt => self.builder.ins().sqrt(a),
            UnaryOp::Floor => self.builder.ins().floor(a),
            UnaryOp::Ceil => self.builder.ins().ceil(a),
            UnaryOp::Trunc => self.builder.ins().trunc(a),
            UnaryOp::Nearest => self.builder.ins().nearest(a),
            UnaryOp::Not if ty == RegType::I1 => self.xor_constant(types::I8, a, 1),
            UnaryOp::Not => self.builder.ins().bnot(a),
            UnaryOp::Popcnt | UnaryOp::Clz if ty == RegType::I1 => {
                if op == UnaryOp::Popcnt {
                    a
                } else {
                    self.xor_constant(types::I8, a, 1)
                }
            }
            UnaryOp::Popcnt => {
                let narrow = scalar_type(ty);
                let wide = if narrow == types::I64 { types::I64 } else { types::I32 };
                let value = self.extend(wide, a, false);
                let count = self.builder.ins().popcnt(value);
                self.reduce(narrow, count)
            }
            UnaryOp::Clz => {
                let narrow = scalar_type(ty);
                let wide = if narrow == types::I64 { types::I64 } else { types::I32 };
                let value = self.extend(wide, a, false);
                let count = self.builder.ins().clz(value);
                let extra = self.int(wide, i64::from(wide.bits() - narrow.bits()));
                let count = self.builder.ins().isub(count, extra);
                self.reduce(narrow, count)
            }
            UnaryOp::RoundBf16 => {
                let bits = self.bits_bf16(a);
                let bits = self.shift_left(bits, 16);
                self.bitcast(types::F32, bits)
            }
            UnaryOp::BitsBf16 => {
                let bits = self.bits_bf16(a);
                self.reduce(types::I16, bits)
            }
            UnaryOp::FromBitsBf16 => {
                let wide = self.extend(types::I32, a, false);
                let bits = self.shift_left(wide, 16);
                self.bitcast(types::F32, bits)
            }
            UnaryOp::RoundF16 => self.round_f16(a),
            UnaryOp::BitsF16 => self.bits_f16(a),
            UnaryOp::FromBitsF16 => self.float_of_f16(a),
        }
    }

    fn xor_constant(&mut self, ty: Type, a: Value, value: i64) -> Value {
        let constant = self.int(ty, value);
        self.builder.ins().bxor(a, constant)
    }

    fn shift_left(&mut self, a: Value, by: i64) -> Value {
        self.builder.ins().ishl_imm_u(a, by)
    }

    /// The `bf16` bits nearest to an `f32`, in the low half of an `i32`.
    fn bits_bf16(&mut self, a: Value) -> Value {
        let bits = self.bitcast(types::I32, a);
        let high = self.builder.ins().ushr_imm_u(bits, 16);
        // To nearest even: half a unit, less a little where the unit is even.
        let odd = self.builder.ins().band_imm_u(high, 1);
        let half = self.int(types::I32, 0x7fff);
        let add = self.builder.ins().iadd(odd, half);
        let rounded = self.builder.ins().iadd(bits, add);
        let rounded = self.builder.ins().ushr_imm_u(rounded, 16);
        let quiet = self.int(types::I32, 0x40);
        let nan = self.builder.ins().bor(high, quiet);
        let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, a, a);
        self.builder.ins().select(is_nan, nan, rounded)
    }

    /// The `f32` nearest to another among the values of `f16`.
    fn round_f16(&mut self, a: Value) -> Value {
        let bits = self.bitcast(types::I32, a);
        let sign_mask = self.int(types::I32, 0x8000_0000u32.into());
        let sign = self.builder.ins().band(bits, sign_mask);
        let magnitude = self.builder.ins().bxor(bits, sign);
        // Normal results: drop 13 bits, to nearest even.
        let unit = self.builder.ins().ushr_imm_u(magnitude, 13);
        let odd = self.builder.ins().band_imm_u(unit, 1);
        let half = self.int(types::I32, 0x0fff);
        let add = self.builder.ins().iadd(odd, half);
        let sum = self.builder.ins().iadd(magnitude, add);
        let keep = self.int(types::I32, 0xffff_e000u32.into());
        let normal = self.builder.ins().band(sum, keep);
        // Above the largest finite value: infinity.
        let largest = self.int(types::I32, 0x477f_e000);
        let infinity = self.int(types::I32, 0x7f80_0000);
        let above = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, normal, largest);
        let normal = self.builder.ins().select(above, infinity, normal);
        // Subnormal results: 0.5 has the unit 2^-24 in its last place.
        let value = self.bitcast(types::F32, magnitude);
        let one_half = self.builder.ins().f32const(0.5);
        let sum = self.builder.ins().fadd(value, one_half);
        let small = self.builder.ins().fsub(sum, one_half);
        let small = self.bitcast(types::I32, small);
        let least_normal = self.int(types::I32, 0x3880_0000);
        let below = self.builder.ins().icmp(IntCC::UnsignedLessThan, magnitude, least_normal);
        let rounded = self.builder.ins().select(below, small, normal);
        let signed = self.builder.ins().bor(rounded, sign);
        let result = self.bitcast(types::F32, signed);
        let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, a, a);
        self.builder.ins().select(is_nan, a, result)
    }

    /// The `f16` bits nearest to an `f32`, an `i16`.
    fn bits_f16(&mut self, a: Value) -> Value {
        let rounded = self.round_f16(a);
        let bits = self.bitcast(types::I32, rounded);
        let sign = self.builder.ins().ushr_imm_u(bits, 16);
        let sign = self.builder.ins().band_imm_u(sign, 0x8000);
        let magnitude = self.builder.ins().band_imm_u(bits, 0x7fff_ffff);
        let shifted = self.builder.ins().ushr_imm_u(magnitude, 13);
        let bias = self.int(types::I32, 112 << 10);
        let normal = self.builder.ins().isub(shifted, bias);
        let value = self.bitcast(types::F32, magnitude);
        let one_half = self.builder.ins().f32const(0.5);
        let sum = self.builder.ins().fadd(value, one_half);
        let sum = self.bitcast(types::I32, sum);
        let half_bits = self.int(types::I32, 0x3f00_0000);
        let small = self.builder.ins().isub(sum, half_bits);
        let least_normal = self.int(types::I32, 0x3880_0000);
        let below = self.builder.ins().icmp(IntCC::UnsignedLessThan, magnitude, least_normal);
        let finite = self.builder.ins().select(below, small, normal);
        let infinity = self.int(types::I32, 0x7f80_0000);
        let above = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, magnitude, infinity);
        let at = self.builder.ins().icmp(IntCC::Equal, magnitude, infinity);
        let infinity16 = self.int(types::I32, 0x7c00);
        let nan16 = self.int(types::I32, 0x7e00);
        let finite = self.builder.ins().select(at, infinity16, finite);
        let result = self.builder.ins().select(above, nan16, finite);
        let result = self.builder.ins().bor(result, sign);
        self.reduce(types::I16, result)
    }

    /// The `f32` equal to the `f16` with these bits.
    fn float_of_f16(&mut self, a: Value) -> Value {
        let wide = self.extend(types::I32, a, false);
        let sign = self.builder.ins().band_imm_u(wide, 0x8000);
        let sign = self.shift_left(sign, 16);
        let magnitude = self.builder.ins().band_imm_u(wide, 0x7fff);
        let shifted = self.shift_left(magnitude, 13);
        // The exponent's bias differs by 112; the product is exact, for subnormals, too.
        let value = self.bitcast(types::F32, shifted);
        let scale = self.builder.ins().f32const(f32::from_bits((127 + 112) << 23));
        let product = self.builder.ins().fmul(value, scale);
        let finite = self.bitcast(types::I32, product);
        let infinity = self.int(types::I32, 0x7f80_0000);
        let special = self.builder.ins().bor(shifted, infinity);
        let limit = self.int(types::I32, 0x7c00);
        let is_special =
            self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, magnitude, limit);
        let bits = self.builder.ins().select(is_special, special, finite);
        let bits = self.builder.ins().bor(bits, sign);
        self.bitcast(types::F32, bits)
    }

    /// A binary instruction.
    pub(crate) fn binary(&mut self, op: BinaryOp, ty: RegType, a: Value, b: Value) -> Value {
        if ty == RegType::I1 {
            return self.binary_bool(op, a, b);
        }
        match op {
            BinaryOp::Add if ty.is_float() => self.builder.ins().fadd(a, b),
            BinaryOp::Sub if ty.is_float() => self.builder.ins().fsub(a, b),
            BinaryOp::Mul if ty.is_float() => self.builder.ins().fmul(a, b),
            BinaryOp::Add => self.builder.ins().iadd(a, b),
            BinaryOp::Sub => self.builder.ins().isub(a, b),
            BinaryOp::Mul => self.builder.ins().imul(a, b),
            BinaryOp::Div => self.builder.ins().fdiv(a, b),
            BinaryOp::Rem => {
                let helper = if ty == RegType::F32 { Helper::RemF32 } else { Helper::RemF64 };
                self.call(helper, &[a, b])
            }
            BinaryOp::MinF => self.builder.ins().fmin(a, b),
            BinaryOp::MaxF => self.builder.ins().fmax(a, b),
            BinaryOp::MinS => self.builder.ins().smin(a, b),
            BinaryOp::MaxS => self.builder.ins().smax(a, b),
            BinaryOp::MinU => self.builder.ins().umin(a, b),
            BinaryOp::MaxU => self.builder.ins().umax(a, b),
            BinaryOp::And => self.builder.ins().band(a, b),
            BinaryOp::Or => self.builder.ins().bor(a, b),
            BinaryOp::Xor => self.builder.ins().bxor(a, b),
            BinaryOp::DivS | BinaryOp::DivU | BinaryOp::RemS | BinaryOp::RemU => {
                self.divide(op, ty, a, b)
            }
            BinaryOp::Shl | BinaryOp::ShrS | BinaryOp::ShrU => self.shift(op, ty, a, b),
        }
    }

    /// On an `i1`, whose signed values are 0 and -1.
    fn binary_bool(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        use BinaryOp as B;
        match op {
            B::Add | B::Sub | B::Xor => self.builder.ins().bxor(a, b),
            B::Mul | B::And | B::MinU | B::MaxS => self.builder.ins().band(a, b),
            B::Or | B::MaxU | B::MinS => self.builder.ins().bor(a, b),
            B::DivS | B::DivU => {
                let not = self.xor_constant(types::I8, b, 1);
                self.builder.ins().bor(a, not)
            }
            B::RemS | B::RemU | B::Shl | B::ShrU => {
                let not = self.xor_constant(types::I8, b, 1);
                self.builder.ins().band(a, not)
            }
            B::ShrS => a,
            B::Div | B::Rem | B::MinF | B::MaxF => unreachable!("{op:?} takes no i1"),
        }
    }

    /// Integer division and remainder, total.
    fn divide(&mut self, op: BinaryOp, ty: RegType, a: Value, b: Value) -> Value {
        let narrow = scalar_type(ty);
        let wide = if narrow == types::I64 { types::I64 } else { types::I32 };
        let signed = matches!(op, BinaryOp::DivS | BinaryOp::RemS);
        let (x, y) = (self.extend(wide, a, signed), self.extend(wide, b, signed));
        let (zero, one) = (self.int(wide, 0), self.int(wide, 1));
        let by_zero = self.builder.ins().icmp(IntCC::Equal, y, zero);
        let mut safe = self.builder.ins().select(by_zero, one, y);
        let all_ones = self.int(wide, -1);
        // MIN / -1 traps, so division by -1 is a negation.
        let by_minus_one = signed.then(|| {
            let condition = self.builder.ins().icmp(IntCC::Equal, y, all_ones);
            safe = self.builder.ins().select(condition, one, safe);
            condition
        });
        let mut result = match op {
            BinaryOp::DivS => self.builder.ins().sdiv(x, safe),
            BinaryOp::DivU => self.builder.ins().udiv(x, safe),
            BinaryOp::RemS => self.builder.ins().srem(x, safe),
            _ => self.builder.ins().urem(x, safe),
        };
        if op == BinaryOp::DivS {
            let negative = self.builder.ins().ineg(x);
            let condition = by_minus_one.expect("signed");
            result = self.builder.ins().select(condition, negative, result);
        }
        // A remainder by -1 was computed by 1: zero already.
        let otherwise = if matches!(op, BinaryOp::DivS | BinaryOp::DivU) { all_ones } else { x };
        let result = self.builder.ins().select(by_zero, otherwise, result);
        self.reduce(narrow, result)
    }

    fn shift(&mut self, op: BinaryOp, ty: RegType, a: Value, b: Value) -> Value {
        let narrow = scalar_type(ty);
        let bits = i64::from(narrow.bits());
        if op == BinaryOp::ShrS {
            let most = self.int(narrow, bits - 1);
            let by = self.builder.ins().umin(b, most);
            return self.builder.ins().sshr(a, by);
        }
        let width = self.int(narrow, bits);
        let inside = self.builder.ins().icmp(IntCC::UnsignedLessThan, b, width);
        let shifted = if op == BinaryOp::Shl {
            self.builder.ins().ishl(a, b)
        } else {
            self.builder.ins().ushr(a, b)
        };
        let zero = self.int(narrow, 0);
        self.builder.ins().select(inside, shifted, zero)
    }

    /// `a * b + c` rounded once.
    pub(crate) fn fma(&mut self, ty: RegType, a: Value, b: Value, c: Value) -> Value {
        if self.target.fma {
            return self.builder.ins().fma(a, b, c);
        }
        let helper = if ty == RegType::F32 { Helper::FmaF32 } else { Helper::FmaF64 };
        self.call(helper, &[a, b, c])
    }

    fn call(&mut self, helper: Helper, arguments: &[Value]) -> Value {
        let function = self.target.helper(self.builder, helper);
        let call = self.builder.ins().call(function, arguments);
        self.builder.inst_results(call)[0]
    }

    /// A comparison of two values of a type.
    pub(crate) fn compare(
        &mut self,
        op: Compare,
        kind: CompareKind,
        ty: RegType,
        a: Value,
        b: Value,
    ) -> Value {
        match kind {
            CompareKind::Float => self.builder.ins().fcmp(float_condition(op), a, b),
            // The signed values of an i1 are 0 and -1: the other way round.
            CompareKind::Signed if ty == RegType::I1 => {
                self.builder.ins().icmp(int_condition(op, kind), b, a)
            }
            CompareKind::Signed | CompareKind::Unsigned => {
                self.builder.ins().icmp(int_condition(op, kind), a, b)
            }
        }
    }

    /// A conversion.
    pub(crate) fn cast(&mut self, op: CastOp, from: RegType, to: RegType, a: Value) -> Value {
        let target = scalar_type(to);
        match op {
            CastOp::Bitcast => self.bitcast(target, a),
            CastOp::Truncate | CastOp::ZeroExtend | CastOp::SignExtend => {
                self.resize(op == CastOp::SignExtend, from, to, a)
            }
            CastOp::SignedToFloat | CastOp::UnsignedToFloat => {
                let signed = op == CastOp::SignedToFloat;
                match from {
                    RegType::I1 if signed => {
                        let value = self.resize(true, from, RegType::I32, a);
                        self.builder.ins().fcvt_from_sint(target, value)
                    }
                    RegType::I64 if signed => self.builder.ins().fcvt_from_sint(target, a),
                    RegType::I64 => self.builder.ins().fcvt_from_uint(target, a),
                    RegType::I32 if signed => self.builder.ins().fcvt_from_sint(target, a),
                    RegType::I32 => {
                        let value = self.extend(types::I64, a, false);
                        self.builder.ins().fcvt_from_sint(target, value)
                    }
                    _ => {
                        let value = self.extend(types::I32, a, signed);
                        self.builder.ins().fcvt_from_sint(target, value)
                    }
                }
            }
            CastOp::FloatToSigned => match to {
                RegType::I64 | RegType::I32 => self.builder.ins().fcvt_to_sint_sat(target, a),
                _ => {
                    let bits = to.bits();
                    let (low, high) = (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1);
                    self.float_to_clamped(to, a, low, high)
                }
            },
            CastOp::FloatToUnsigned => match to {
                RegType::I64 => self.builder.ins().fcvt_to_uint_sat(target, a),
                _ => self.float_to_clamped(to, a, 0, (1i64 << to.bits()) - 1),
            },
            CastOp::FloatToFloat => match (from, to) {
                (RegType::F32, RegType::F64) => self.builder.ins().fpromote(target, a),
                (RegType::F64, RegType::F32) => self.builder.ins().fdemote(target, a),
                _ => a,
            },
        }
    }

    /// Saturates a float to `[low, high]` by way of `i64`, then keeps the low bits.
    fn float_to_clamped(&mut self, to: RegType, a: Value, low: i64, high: i64) -> Value {
        let wide = self.builder.ins().fcvt_to_sint_sat(types::I64, a);
        let low = self.int(types::I64, low);
        let high = self.int(types::I64, high);
        let wide = self.builder.ins().smax(wide, low);
        let wide = self.builder.ins().smin(wide, high);
        self.resize(true, RegType::I64, to, wide)
    }

    /// An integer sign or zero extended, or truncated.
    fn resize(&mut self, signed: bool, from: RegType, to: RegType, a: Value) -> Value {
        if to == RegType::I1 {
            let low = self.reduce(types::I8, a);
            return if from == RegType::I1 { low } else { self.builder.ins().band_imm_u(low, 1) };
        }
        let value = if from == RegType::I1 && signed { self.builder.ins().ineg(a) } else { a };
        let target = scalar_type(to);
        if scalar_type(from).bits() < target.bits() {
            self.extend(target, value, signed)
        } else {
            self.reduce(target, value)
        }
    }
}
