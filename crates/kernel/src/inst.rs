//! The scalar instructions of a kernel and their exact meaning.
//!
//! Every instruction is total: it has a defined result for every input and never traps. The `eval`
//! functions are the definition; a back end must agree with them bit for bit, NaN payloads aside.
//! A value travels as its bits in the low end of a `u64`, the rest zero.

use crate::affine::Affine;
use crate::dtype::RegType;
use crate::kernel::{ParamId, Reg};

/// What defines a register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Inst {
    /// A constant, by its bits.
    Const(u64),
    /// The value of an affine index expression, as `i64`.
    Index(Affine),
    /// Floor of an affine expression over a positive constant.
    FloorDiv(Affine, i64),
    /// Non-negative remainder of an affine expression over a positive constant.
    Modulo(Affine, i64),
    /// The element of a parameter at a position in elements, widened to its register type.
    Load(ParamId, Affine),
    /// One operand, result of the operand's type unless the op says otherwise.
    Unary(UnaryOp, Reg),
    /// Two operands of one type, result of that type.
    Binary(BinaryOp, Reg, Reg),
    /// `a * b + c`, rounded once.
    Fma(Reg, Reg, Reg),
    /// Comparison of two operands of one type, an `i1`.
    Compare(Compare, CompareKind, Reg, Reg),
    /// The second operand where the first, an `i1`, is true, else the third.
    Select(Reg, Reg, Reg),
    /// Conversion to the register's type.
    Cast(CastOp, Reg),
}

/// Unary instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// Float: flips the sign bit. Integer: two's complement.
    Neg,
    /// Float: clears the sign bit. Integer: wrapping absolute value.
    Abs,
    /// Square root, correctly rounded.
    Sqrt,
    /// Largest integer not above.
    Floor,
    /// Least integer not below.
    Ceil,
    /// Towards zero.
    Trunc,
    /// To the nearest integer, ties to even.
    Nearest,
    /// Bitwise complement (of an `i1`: logical).
    Not,
    /// Set bits.
    Popcnt,
    /// Leading zeros; the width for zero.
    Clz,
    /// `f32` to the nearest `bf16` value, ties to even, still an `f32`.
    RoundBf16,
    /// `f32` to the nearest `f16` value, ties to even, still an `f32`.
    RoundF16,
    /// The 16 bits of the `bf16` nearest to an `f32`, an `i16`.
    BitsBf16,
    /// The 16 bits of the `f16` nearest to an `f32`, an `i16`.
    BitsF16,
    /// The `f32` equal to the `bf16` with these 16 bits (operand `i16`).
    FromBitsBf16,
    /// The `f32` equal to the `f16` with these 16 bits (operand `i16`).
    FromBitsF16,
}

/// Binary instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Float or wrapping integer sum.
    Add,
    /// Float or wrapping integer difference.
    Sub,
    /// Float or wrapping integer product.
    Mul,
    /// Float quotient.
    Div,
    /// Float remainder with the sign of the dividend (C's `fmod`), exact.
    Rem,
    /// Signed quotient towards zero; by zero: -1; `MIN / -1`: `MIN`.
    DivS,
    /// Unsigned quotient; by zero: all ones.
    DivU,
    /// Signed remainder with the sign of the dividend; by zero: the dividend; `MIN % -1`: 0.
    RemS,
    /// Unsigned remainder; by zero: the dividend.
    RemU,
    /// Float minimum; NaN if either is NaN; -0 below +0.
    MinF,
    /// Float maximum; NaN if either is NaN; -0 below +0.
    MaxF,
    /// Signed minimum.
    MinS,
    /// Signed maximum.
    MaxS,
    /// Unsigned minimum.
    MinU,
    /// Unsigned maximum.
    MaxU,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Left shift; amounts (unsigned) of the width or more give 0.
    Shl,
    /// Arithmetic right shift; amounts (unsigned) of the width or more give the sign.
    ShrS,
    /// Logical right shift; amounts (unsigned) of the width or more give 0.
    ShrU,
}

impl BinaryOp {
    /// Whether the order of a chain of this operation may be changed by a reduction: exactly for
    /// integers, to rounding for floats (StableHLO leaves a reduction's order open).
    pub fn reassociates(self) -> bool {
        use BinaryOp as B;
        matches!(
            self,
            B::Add
                | B::Mul
                | B::MinF
                | B::MaxF
                | B::MinS
                | B::MaxS
                | B::MinU
                | B::MaxU
                | B::And
                | B::Or
                | B::Xor
        )
    }
}

/// Directions of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// How a comparison reads its operands. With a NaN, float comparisons are false, `Ne` true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CompareKind {
    Float,
    Signed,
    Unsigned,
}

/// Conversions; the target is the register's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CastOp {
    /// Sign extension (of an `i1`: all ones for true).
    SignExtend,
    /// Zero extension (of an `i1`: 1 for true).
    ZeroExtend,
    /// The low bits.
    Truncate,
    /// Signed integer to float, nearest even.
    SignedToFloat,
    /// Unsigned integer (or `i1`) to float, nearest even.
    UnsignedToFloat,
    /// Float to signed integer: towards zero, saturating, NaN to 0.
    FloatToSigned,
    /// Float to unsigned integer: towards zero, saturating, NaN to 0.
    FloatToUnsigned,
    /// Between `f32` and `f64`, nearest even.
    FloatToFloat,
    /// The same bits as the other type of the same width.
    Bitcast,
}

/// An operand of the `eval` functions with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The register type.
    pub ty: RegType,
    /// The bits, upper ones zero.
    pub bits: u64,
}

/// The low `width` bits.
pub fn mask(ty: RegType) -> u64 {
    if ty.bits() == 64 { u64::MAX } else { (1 << ty.bits()) - 1 }
}

fn signed(v: Typed) -> i64 {
    let unused = 64 - v.ty.bits();
    ((v.bits << unused) as i64) >> unused
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// The bits of an `f32` as a register value.
pub fn bits32(v: f32) -> u64 {
    u64::from(v.to_bits())
}

/// The value of a unary instruction with result type `ty`.
pub fn eval_unary(op: UnaryOp, a: Typed, ty: RegType) -> u64 {
    match a.ty {
        RegType::F32 => {
            let x = f32_of(a.bits);
            match op {
                UnaryOp::Neg => a.bits ^ 0x8000_0000,
                UnaryOp::Abs => a.bits & 0x7fff_ffff,
                UnaryOp::Sqrt => bits32(x.sqrt()),
                UnaryOp::Floor => bits32(x.floor()),
                UnaryOp::Ceil => bits32(x.ceil()),
                UnaryOp::Trunc => bits32(x.trunc()),
                UnaryOp::Nearest => bits32(x.round_ties_even()),
                UnaryOp::RoundBf16 => bits32(half::bf16::from_f32(x).to_f32()),
                UnaryOp::RoundF16 => bits32(half::f16::from_f32(x).to_f32()),
                UnaryOp::BitsBf16 => u64::from(half::bf16::from_f32(x).to_bits()),
                UnaryOp::BitsF16 => u64::from(half::f16::from_f32(x).to_bits()),
                _ => unreachable!("{op:?} takes no f32"),
            }
        }
        RegType::F64 => {
            let x = f64::from_bits(a.bits);
            match op {
                UnaryOp::Neg => a.bits ^ (1 << 63),
                UnaryOp::Abs => a.bits & !(1 << 63),
                UnaryOp::Sqrt => x.sqrt().to_bits(),
                UnaryOp::Floor => x.floor().to_bits(),
                UnaryOp::Ceil => x.ceil().to_bits(),
                UnaryOp::Trunc => x.trunc().to_bits(),
                UnaryOp::Nearest => x.round_ties_even().to_bits(),
                _ => unreachable!("{op:?} takes no f64"),
            }
        }
        _ => {
            let width = a.ty.bits();
            let value = match op {
                UnaryOp::Neg => a.bits.wrapping_neg(),
                UnaryOp::Abs => signed(a).wrapping_abs() as u64,
                UnaryOp::Not => !a.bits,
                UnaryOp::Popcnt => u64::from(a.bits.count_ones()),
                UnaryOp::Clz => u64::from(a.bits.leading_zeros() - (64 - width)),
                UnaryOp::FromBitsBf16 => bits32(half::bf16::from_bits(a.bits as u16).to_f32()),
                UnaryOp::FromBitsF16 => bits32(half::f16::from_bits(a.bits as u16).to_f32()),
                _ => unreachable!("{op:?} takes no integer"),
            };
            value & mask(ty)
        }
    }
}

macro_rules! float_binary {
    ($op:expr, $x:expr, $y:expr) => {{
        let (x, y) = ($x, $y);
        match $op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div => x / y,
            BinaryOp::Rem => x % y,
            // Equal operands differ at most in the sign of zero.
            BinaryOp::MinF if x.is_nan() || y.is_nan() => x + y,
            BinaryOp::MaxF if x.is_nan() || y.is_nan() => x + y,
            BinaryOp::MinF => {
                if x < y || (x == y && x.is_sign_negative()) {
                    x
                } else {
                    y
                }
            }
            BinaryOp::MaxF => {
                if x > y || (x == y && x.is_sign_positive()) {
                    x
                } else {
                    y
                }
            }
            other => unreachable!("{other:?} takes no float"),
        }
    }};
}

/// The value of a binary instruction.
pub fn eval_binary(op: BinaryOp, a: Typed, b: Typed) -> u64 {
    use BinaryOp as B;
    debug_assert_eq!(a.ty, b.ty, "operands of {op:?}");
    match (a.ty, op) {
        (RegType::F32, B::And | B::Or | B::Xor) | (RegType::F64, B::And | B::Or | B::Xor) => {
            unreachable!("{op:?} takes no float")
        }
        (RegType::F32, _) => bits32(float_binary!(op, f32_of(a.bits), f32_of(b.bits))),
        (RegType::F64, _) => {
            float_binary!(op, f64::from_bits(a.bits), f64::from_bits(b.bits)).to_bits()
        }
        (ty, _) => {
            let (x, y, sx, sy) = (a.bits, b.bits, signed(a), signed(b));
            let width = u64::from(ty.bits());
            let value = match op {
                B::Add => x.wrapping_add(y),
                B::Sub => x.wrapping_sub(y),
                B::Mul => x.wrapping_mul(y),
                B::DivS => {
                    if y == 0 {
                        u64::MAX
                    } else {
                        sx.wrapping_div(sy) as u64
                    }
                }
                B::DivU => x.checked_div(y).unwrap_or(u64::MAX),
                B::RemS => {
                    if y == 0 {
                        x
                    } else {
                        sx.wrapping_rem(sy) as u64
                    }
                }
                B::RemU => x.checked_rem(y).unwrap_or(x),
                B::MinS => sx.min(sy) as u64,
                B::MaxS => sx.max(sy) as u64,
                B::MinU => x.min(y),
                B::MaxU => x.max(y),
                B::And => x & y,
                B::Or => x | y,
                B::Xor => x ^ y,
                B::Shl => {
                    if y < width {
                        x << y
                    } else {
                        0
                    }
                }
                B::ShrS => (sx >> y.min(width - 1)) as u64,
                B::ShrU => {
                    if y < width {
                        x >> y
                    } else {
                        0
                    }
                }
                B::Div | B::Rem | B::MinF | B::MaxF => unreachable!("{op:?} takes no integer"),
            };
            value & mask(ty)
        }
    }
}

/// `a * b + c` rounded once, for floats.
pub fn eval_fma(a: Typed, b: Typed, c: Typed) -> u64 {
    match a.ty {
        RegType::F32 => bits32(f32_of(a.bits).mul_add(f32_of(b.bits), f32_of(c.bits))),
        RegType::F64 => {
            f64::from_bits(a.bits).mul_add(f64::from_bits(b.bits), f64::from_bits(c.bits)).to_bits()
        }
        other => unreachable!("fma takes no {other}"),
    }
}

/// Whether the comparison holds.
pub fn eval_compare(op: Compare, kind: CompareKind, a: Typed, b: Typed) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match kind {
        CompareKind::Float if a.ty == RegType::F32 => f32_of(a.bits).partial_cmp(&f32_of(b.bits)),
        CompareKind::Float => f64::from_bits(a.bits).partial_cmp(&f64::from_bits(b.bits)),
        CompareKind::Signed => Some(signed(a).cmp(&signed(b))),
        CompareKind::Unsigned => Some(a.bits.cmp(&b.bits)),
    };
    match op {
        Compare::Eq => order == Some(Equal),
        Compare::Ne => order != Some(Equal),
        Compare::Lt => order == Some(Less),
        Compare::Le => matches!(order, Some(Less | Equal)),
        Compare::Gt => order == Some(Greater),
        Compare::Ge => matches!(order, Some(Greater | Equal)),
    }
}

/// The value converted to `to`.
pub fn eval_cast(op: CastOp, a: Typed, to: RegType) -> u64 {
    let float = |v: Typed| match v.ty {
        RegType::F32 => f64::from(f32_of(v.bits)),
        _ => f64::from_bits(v.bits),
    };
    let range = |bits: u32| (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
    let value = match (op, to) {
        (CastOp::SignExtend, _) => signed(a) as u64,
        (CastOp::ZeroExtend | CastOp::Truncate | CastOp::Bitcast, _) => a.bits,
        (CastOp::SignedToFloat, RegType::F32) => bits32(signed(a) as f32),
        (CastOp::SignedToFloat, _) => (signed(a) as f64).to_bits(),
        (CastOp::UnsignedToFloat, RegType::F32) => bits32(a.bits as f32),
        (CastOp::UnsignedToFloat, _) => (a.bits as f64).to_bits(),
        (CastOp::FloatToSigned, _) => {
            let (low, high) = range(to.bits());
            (float(a) as i128).clamp(low, high) as u64
        }
        (CastOp::FloatToUnsigned, _) => (float(a) as u128).min(u128::from(mask(to))) as u64,
        (CastOp::FloatToFloat, RegType::F32) => bits32(float(a) as f32),
        (CastOp::FloatToFloat, _) => float(a).to_bits(),
    };
    value & mask(to)
}
