//! Operations with a neutral operand, and operations undone.

use super::At;
use crate::passes::rewrite::Rewriter;
use jaxrs_ir::{DType, Literal, Op, TensorType, ValueId, ops};
use jaxrs_kernel::Compare;
use jaxrs_kernel::dtype::Class;

type Value = Option<ValueId>;

pub(super) fn select(r: &mut Rewriter<'_>, at: &At) -> Value {
    let [predicate, a, b] = at.operands[..] else { return None };
    if a == b {
        return Some(a);
    }
    let known = r.literal(predicate)?.as_splat()?[0];
    Some(if known != 0 { a } else { b })
}

/// Counters are never negative.
pub(super) fn compare(r: &mut Rewriter<'_>, at: &At, op: &ops::Compare) -> Value {
    let [x, y] = at.operands[..] else { return None };
    let zero =
        |v: ValueId| r.literal(v).is_some_and(|l| l.as_splat().is_some() && l.bits(0, 0) == 0);
    let counter = |v: ValueId| matches!(r.op_of(v), Some(Op::Iota(_))) && r.f.ty(v).dtype.is_int();
    let holds = match op.direction {
        Compare::Lt if counter(x) && zero(y) => false,
        Compare::Ge if counter(x) && zero(y) => true,
        Compare::Gt if zero(x) && counter(y) => false,
        Compare::Le if zero(x) && counter(y) => true,
        _ => return None,
    };
    // The last numbers of a long axis may not be numbers of a narrow type.
    let ty = r.f.ty(x);
    let signed = ty.dtype.class() == Class::Signed;
    if signed && ty.shape.iter().any(|&extent| extent > 1 << (ty.dtype.bits() - 1)) {
        return None;
    }
    Some(r.constant(Literal::splat(at.ty.clone(), &[u8::from(holds)]), &at.location))
}

pub(super) fn elementwise(r: &mut Rewriter<'_>, at: &At, name: &str) -> Value {
    match at.operands[..] {
        [x] => undone(r, name, x),
        [x, y] => neutral(r, name, x, y)
            .or_else(|| commutes(name).then(|| neutral(r, name, y, x))?)
            .or_else(|| by_power_of_two(r, at, name, x, y)),
        _ => None,
    }
}

fn commutes(name: &str) -> bool {
    let name = name.trim_start_matches("stablehlo.");
    matches!(name, "add" | "multiply" | "maximum" | "minimum" | "and" | "or" | "xor")
}

/// `-(-x)` and the like.
fn undone(r: &Rewriter<'_>, name: &str, x: ValueId) -> Value {
    let Some(Op::Elementwise(inner)) = r.op_of(x) else { return None };
    let operands = r.operands_of(x);
    match (name, inner.name()) {
        ("stablehlo.negate", "stablehlo.negate") | ("stablehlo.not", "stablehlo.not") => {
            Some(operands[0])
        }
        ("stablehlo.real", "stablehlo.complex") => Some(operands[0]),
        ("stablehlo.imag", "stablehlo.complex") => Some(operands[1]),
        _ => None,
    }
}

/// `x` where the other operand changes nothing.
fn neutral(r: &Rewriter<'_>, name: &str, x: ValueId, y: ValueId) -> Value {
    let ty = r.f.ty(x);
    let y = r.literal(y)?;
    if *r.f.ty(x) != *y.ty() || y.ty().dtype.is_complex() {
        return None;
    }
    y.as_splat()?;
    let bits = y.bits(0, 0);
    let number = Number::new(ty.dtype, bits);
    let keeps = match name {
        // x + 0 is not x for x = -0.
        "stablehlo.add" => number.is_negative_zero() || number.is_int(0),
        "stablehlo.subtract" => number.is_positive_zero() || number.is_int(0),
        "stablehlo.multiply" | "stablehlo.divide" => {
            number.is_int(1) && ty.dtype != DType::I1 || number.is(1.0)
        }
        "stablehlo.maximum" => number.is_least(),
        "stablehlo.minimum" => number.is_largest(),
        "stablehlo.or" | "stablehlo.xor" | "stablehlo.shift_left" => number.is_int(0),
        "stablehlo.shift_right_logical" | "stablehlo.shift_right_arithmetic" => number.is_int(0),
        "stablehlo.and" => number.is_all_ones(),
        _ => false,
    };
    keeps.then_some(x)
}

/// An element as a number of its type.
struct Number {
    dtype: DType,
    bits: u64,
}

impl Number {
    fn new(dtype: DType, bits: u64) -> Number {
        Number { dtype, bits }
    }

    fn float(&self) -> Option<f64> {
        match self.dtype {
            DType::F64 => Some(f64::from_bits(self.bits)),
            d if d.is_float() => Some(f64::from(f32::from_bits(self.bits as u32))),
            _ => None,
        }
    }

    fn is(&self, value: f64) -> bool {
        self.float() == Some(value)
    }

    fn is_negative_zero(&self) -> bool {
        self.float().is_some_and(|x| x == 0.0 && x.is_sign_negative())
    }

    fn is_positive_zero(&self) -> bool {
        self.float().is_some_and(|x| x == 0.0 && x.is_sign_positive())
    }

    fn is_int(&self, value: u64) -> bool {
        self.float().is_none() && self.bits == value
    }

    fn is_all_ones(&self) -> bool {
        let ones = if self.dtype.bits() == 64 { u64::MAX } else { (1 << self.dtype.bits()) - 1 };
        self.float().is_none() && self.bits == ones
    }

    fn is_least(&self) -> bool {
        match self.dtype.class() {
            Class::Float => self.is(f64::NEG_INFINITY),
            Class::Signed => self.bits == 1 << (self.dtype.bits() - 1),
            Class::Unsigned | Class::Bool => self.bits == 0,
            Class::Complex => false,
        }
    }

    fn is_largest(&self) -> bool {
        match self.dtype.class() {
            Class::Float => self.is(f64::INFINITY),
            Class::Signed => self.bits == (1 << (self.dtype.bits() - 1)) - 1,
            Class::Unsigned | Class::Bool => self.is_all_ones(),
            Class::Complex => false,
        }
    }
}

/// `x / 2^n` as `x * 2^-n`, which is the same number and quicker.
fn by_power_of_two(r: &mut Rewriter<'_>, at: &At, name: &str, x: ValueId, y: ValueId) -> Value {
    if name != "stablehlo.divide" {
        return None;
    }
    let literal = r.literal(y)?;
    literal.as_splat()?;
    let ty: TensorType = literal.ty().clone();
    let value = Number::new(ty.dtype, literal.bits(0, 0)).float()?;
    let exact = value.is_normal() && value.to_bits().trailing_zeros() >= 52;
    // Both the divisor and its reciprocal are normal numbers of every float type in this range.
    if !exact || !(2f64.powi(-14)..=2f64.powi(14)).contains(&value.abs()) {
        return None;
    }
    let bits = match ty.dtype {
        DType::F64 => (1.0 / value).to_bits(),
        _ => u64::from((1.0 / value as f32).to_bits()),
    };
    let element = jaxrs_ir::literal::narrow(bits, ty.dtype);
    let reciprocal = r.constant(Literal::splat(ty, &element), &at.location);
    let multiply = ops::Elementwise::from_name("stablehlo.multiply")?;
    Some(at.emit(r, multiply, &[x, reciprocal], at.ty.clone()))
}
