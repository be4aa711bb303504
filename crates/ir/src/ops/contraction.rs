//! Sums of products, as `dot_general` and `convolution` compute them: in which type the operands
//! are multiplied and added up, in kernels and in the interpreter.
//!
//! Floats accumulate in `f32`, or in `f64` where an operand or the result is `f64`, and are rounded
//! once to the result; integers accumulate in the result's type and wrap; truth values are "and"
//! under "or".

use super::combiner::rounding;
use crate::literal::Literal;
use crate::lower::{ElementCost, Scalar};
use crate::types::TensorType;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::inst::{Typed, bits32, eval_cast, eval_unary, mask};
use jaxrs_kernel::{BinaryOp, CastOp, DType, KernelBuilder, Reg, RegType};

/// The types of a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    operands: [DType; 2],
    out: DType,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    F32,
    F64,
    C64,
    C128,
}

impl Arithmetic {
    /// For these element types; an error if they do not go together.
    pub fn new(what: &str, operands: [DType; 2], out: DType) -> Result<Arithmetic, String> {
        let any = |d: DType| operands.contains(&d) || out == d;
        let complex = operands.iter().any(|d| d.is_complex());
        let kind = match out.class() {
            Class::Bool if operands == [DType::I1; 2] => Kind::Bool,
            Class::Signed | Class::Unsigned if operands.iter().all(|d| !inexact(*d)) => Kind::Int,
            Class::Float if !complex && any(DType::F64) => Kind::F64,
            Class::Float if !complex => Kind::F32,
            Class::Complex if any(DType::C128) || any(DType::F64) => Kind::C128,
            Class::Complex => Kind::C64,
            _ => {
                return Err(format!(
                    "{what}: element types {} and {} do not give {out}",
                    operands[0], operands[1]
                ));
            }
        };
        Ok(Arithmetic { operands, out, kind })
    }

    /// Whether the library computes it: floats, or integers of at least a byte.
    pub fn in_library(self) -> bool {
        let class = |d: DType| if d.is_float() { Some(true) } else { d.is_int().then_some(false) };
        let out = class(self.out);
        out.is_some() && self.operands.iter().all(|&d| class(d) == out)
    }

    /// What an element that sums `terms` products costs.
    pub fn cost(self, terms: u64) -> ElementCost {
        if terms <= 1 { ElementCost::Cheap } else { ElementCost::Loop(terms) }
    }

    fn reg(self) -> RegType {
        match self.kind {
            Kind::Bool => RegType::I1,
            Kind::Int => self.out.reg(),
            Kind::F32 | Kind::C64 => RegType::F32,
            Kind::F64 | Kind::C128 => RegType::F64,
        }
    }

    fn parts(self) -> usize {
        if matches!(self.kind, Kind::C64 | Kind::C128) { 2 } else { 1 }
    }

    // ---- in kernels

    /// The accumulators' start, one register a part, with their instruction.
    pub fn zero(self, b: &mut KernelBuilder) -> Vec<(Reg, Option<BinaryOp>)> {
        let zero = b.constant(self.reg(), 0);
        vec![(zero, Some(self.sum())); self.parts()]
    }

    /// The instruction that adds a product to the accumulators.
    pub fn sum(self) -> BinaryOp {
        if self.kind == Kind::Bool { BinaryOp::Or } else { BinaryOp::Add }
    }

    /// The product's parts, of operands' elements as they are read.
    pub fn product(self, b: &mut KernelBuilder, lhs: Scalar, rhs: Scalar) -> Vec<Reg> {
        let x = self.widen(b, lhs, self.operands[0]);
        let y = self.widen(b, rhs, self.operands[1]);
        let op = if self.kind == Kind::Bool { BinaryOp::And } else { BinaryOp::Mul };
        let [x0, y0] = [x[0], y[0]];
        if self.parts() == 1 {
            return vec![b.binary(op, x0, y0)];
        }
        let [x1, y1] = [x[1], y[1]];
        let (a, c) = (b.binary(op, x0, y0), b.binary(op, x1, y1));
        let (d, f) = (b.binary(op, x0, y1), b.binary(op, x1, y0));
        vec![b.binary(BinaryOp::Sub, a, c), b.binary(BinaryOp::Add, d, f)]
    }

    /// The result's element from the accumulators.
    pub fn finish(self, b: &mut KernelBuilder, values: &[Reg]) -> Scalar {
        let narrow = |&value: &Reg| {
            let mut value = value;
            if self.reg() != self.out.reg() {
                value = b.cast(CastOp::FloatToFloat, value, self.out.reg());
            }
            match rounding(self.out) {
                Some(op) => b.unary(op, value),
                None => value,
            }
        };
        Scalar::from_parts(&values.iter().map(narrow).collect::<Vec<Reg>>())
    }

    fn widen(self, b: &mut KernelBuilder, element: Scalar, from: DType) -> Vec<Reg> {
        let (ty, bits) = (self.reg(), from.reg().bits());
        let cast = match from.class() {
            Class::Float | Class::Complex => (from.reg() != ty).then_some(CastOp::FloatToFloat),
            Class::Signed if ty.is_float() => Some(CastOp::SignedToFloat),
            Class::Bool | Class::Unsigned if ty.is_float() => Some(CastOp::UnsignedToFloat),
            _ if bits > ty.bits() => Some(CastOp::Truncate),
            _ if bits == ty.bits() => None,
            Class::Signed => Some(CastOp::SignExtend),
            Class::Bool | Class::Unsigned => Some(CastOp::ZeroExtend),
        };
        let convert = |reg: Reg| cast.map_or(reg, |op| b.cast(op, reg, ty));
        let mut parts: Vec<Reg> = element.parts().into_iter().map(convert).collect();
        if parts.len() < self.parts() {
            parts.push(b.constant(ty, 0));
        }
        parts
    }

    // ---- in the interpreter

    /// A result of type `ty`. `terms` is called for each element's row-major position and calls
    /// its argument with the positions of the factors of each product, in order.
    pub fn evaluate(
        self,
        lhs: &Literal,
        rhs: &Literal,
        ty: &TensorType,
        terms: &mut Terms<'_>,
    ) -> Literal {
        let bits: Vec<u64> = match self.kind {
            Kind::Bool => {
                let read = |l: &Literal, at, _| l.bits(at, 0) != 0;
                let sums = sums(lhs, rhs, ty, false, read, |s, x, y| s | (x & y), terms);
                sums.into_iter().map(u64::from).collect()
            }
            Kind::Int => {
                let read = |l: &Literal, at, _| l.int(at);
                let add = |s: i64, x: i64, y: i64| s.wrapping_add(x.wrapping_mul(y));
                let sums = sums(lhs, rhs, ty, 0, read, add, terms);
                sums.into_iter().map(|s| s as u64 & mask(self.reg())).collect()
            }
            Kind::F32 => {
                let sums = sums(lhs, rhs, ty, 0.0, single, |s, x, y| s + x * y, terms);
                sums.into_iter().map(|s| self.narrow(bits32(s))).collect()
            }
            Kind::F64 => {
                let sums = sums(lhs, rhs, ty, 0.0, double, |s, x, y| s + x * y, terms);
                sums.into_iter().map(|s: f64| self.narrow(s.to_bits())).collect()
            }
            Kind::C64 => {
                let read = |l: &Literal, at, _| [single(l, at, 0), single(l, at, 1)];
                let add = |s: [f32; 2], x: [f32; 2], y: [f32; 2]| {
                    [s[0] + (x[0] * y[0] - x[1] * y[1]), s[1] + (x[0] * y[1] + x[1] * y[0])]
                };
                let sums = sums(lhs, rhs, ty, [0.0; 2], read, add, terms);
                sums.into_iter().flatten().map(|s| self.narrow(bits32(s))).collect()
            }
            Kind::C128 => {
                let read = |l: &Literal, at, _| [double(l, at, 0), double(l, at, 1)];
                let add = |s: [f64; 2], x: [f64; 2], y: [f64; 2]| {
                    [s[0] + (x[0] * y[0] - x[1] * y[1]), s[1] + (x[0] * y[1] + x[1] * y[0])]
                };
                let sums = sums(lhs, rhs, ty, [0.0; 2], read, add, terms);
                sums.into_iter().flatten().map(|s| self.narrow(s.to_bits())).collect()
            }
        };
        Literal::from_bits(ty.clone(), &bits)
    }

    fn narrow(self, bits: u64) -> u64 {
        let (from, to) = (self.reg(), self.out.reg());
        let bits = if from == to {
            bits
        } else {
            eval_cast(CastOp::FloatToFloat, Typed { ty: from, bits }, to)
        };
        rounding(self.out).map_or(bits, |op| eval_unary(op, Typed { ty: to, bits }, to))
    }
}

fn inexact(dtype: DType) -> bool {
    matches!(dtype.class(), Class::Float | Class::Complex)
}

/// For an element's position, calls the second argument with each pair of factors' positions.
pub type Terms<'a> = dyn FnMut(usize, &mut dyn FnMut(usize, usize)) + 'a;

fn sums<T: Copy>(
    lhs: &Literal,
    rhs: &Literal,
    ty: &TensorType,
    zero: T,
    read: impl Fn(&Literal, u64, u64) -> T,
    add: impl Fn(T, T, T) -> T,
    terms: &mut Terms<'_>,
) -> Vec<T> {
    let all = |l: &Literal| (0..l.ty().len()).map(|at| read(l, at, 0)).collect::<Vec<T>>();
    let (xs, ys) = (all(lhs), all(rhs));
    let element = |position: u64| {
        let mut sum = zero;
        terms(position as usize, &mut |x, y| sum = add(sum, xs[x], ys[y]));
        sum
    };
    (0..ty.len()).map(element).collect()
}

fn double(literal: &Literal, at: u64, part: u64) -> f64 {
    let dtype = literal.ty().dtype;
    match dtype.class() {
        Class::Float | Class::Complex if part >= dtype.parts() => 0.0,
        Class::Float | Class::Complex if dtype.part() == DType::F64 => {
            f64::from_bits(literal.bits(at, part))
        }
        Class::Float | Class::Complex => f64::from(single(literal, at, part)),
        Class::Signed if part == 0 => literal.int(at) as f64,
        Class::Bool | Class::Unsigned if part == 0 => literal.bits(at, 0) as f64,
        _ => 0.0,
    }
}

fn single(literal: &Literal, at: u64, part: u64) -> f32 {
    match literal.ty().dtype.class() {
        Class::Complex | Class::Float if part < literal.ty().dtype.parts() => {
            f32::from_bits(literal.bits(at, part) as u32)
        }
        Class::Signed if part == 0 => literal.int(at) as f32,
        Class::Bool | Class::Unsigned if part == 0 => literal.bits(at, 0) as f32,
        _ => 0.0,
    }
}
