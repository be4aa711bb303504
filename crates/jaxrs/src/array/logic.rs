//! Elementwise functions of integers and truth values, comparisons with bounds, predicates.

use super::promote::Kind;
use super::reduce::truth;
use super::{Array, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::DType;
use jaxrs_ir::ValueId;
use jaxrs_ir::builder::Builder;
use jaxrs_kernel::Compare;
use jaxrs_kernel::dtype::Class;

impl Array {
    /// The larger of both, NaN if either is.
    #[track_caller]
    pub fn maximum(&self, other: impl Into<Operand>) -> Array {
        Array::binary("stablehlo.maximum", self.into(), other.into())
    }

    /// The smaller of both, NaN if either is.
    #[track_caller]
    pub fn minimum(&self, other: impl Into<Operand>) -> Array {
        Array::binary("stablehlo.minimum", self.into(), other.into())
    }

    /// Each element, or the bound that it passes; where the bounds cross, the upper one. For one
    /// bound see [`Array::maximum`] and [`Array::minimum`].
    #[track_caller]
    pub fn clip(&self, low: impl Into<Operand>, high: impl Into<Operand>) -> Array {
        let operands = vec![Operand::from(self), low.into(), high.into()];
        let kind = operands.iter().map(Operand::kind).reduce(Kind::join);
        let dtype = kind.expect("three operands").dtype();
        Array::together(operands, dtype, |b, x| {
            let raised = b.elementwise("stablehlo.maximum", &[x[0], x[1]])?;
            b.elementwise("stablehlo.minimum", &[raised, x[2]])
        })
    }

    /// `floor(x / y)`, for integers without a detour over floats.
    #[track_caller]
    pub fn floor_divide(&self, other: impl Into<Operand>) -> Array {
        let (x, y) = (Operand::from(self), other.into());
        let dtype = x.kind().join(y.kind()).join(Kind::WeakInt).dtype();
        Array::together(vec![x, y], dtype, |b, x| floor_divide(b, x[0], x[1]))
    }

    /// Quotient and remainder: [`Array::floor_divide`] and `%`.
    #[track_caller]
    pub fn divmod(&self, other: impl Into<Operand>) -> (Array, Array) {
        let other = other.into();
        (self.floor_divide(other.clone()), Array::floor_remainder(self.into(), other))
    }

    /// Whether elements are NaN.
    #[track_caller]
    pub fn isnan(&self) -> Array {
        trace::one(&[self], Place::here(), |b, x| b.compare(Compare::Ne, x[0], x[0]))
    }

    /// Whether elements are infinite.
    #[track_caller]
    pub fn isinf(&self) -> Array {
        self.predicate("chlo.is_inf", false, "stablehlo.or")
    }

    /// Whether elements are neither infinite nor NaN.
    #[track_caller]
    pub fn isfinite(&self) -> Array {
        self.predicate("stablehlo.is_finite", true, "stablehlo.and")
    }

    /// A predicate of floats that has one value for all integers; of complex elements the
    /// predicate of both parts, joined.
    #[track_caller]
    fn predicate(&self, name: &str, of_integers: bool, join: &str) -> Array {
        match self.dtype().class() {
            Class::Float => self.unary(name),
            Class::Complex => trace::one(&[self], Place::here(), |b, x| {
                let re = b.elementwise("stablehlo.real", x)?;
                let im = b.elementwise("stablehlo.imag", x)?;
                let (re, im) = (b.elementwise(name, &[re])?, b.elementwise(name, &[im])?);
                b.elementwise(join, &[re, im])
            }),
            _ => Array::full_of(self.shape(), of_integers, DType::I1),
        }
    }

    /// The elements, with NaN as 0 and infinities as the largest finite numbers.
    #[track_caller]
    pub fn nan_to_num(&self) -> Array {
        if !self.dtype().is_float() {
            return self.clone();
        }
        trace::one(&[self], Place::here(), |b, x| {
            let x = x[0];
            let largest = match b.ty(x).dtype {
                DType::F16 => 65504.0,
                DType::BF16 => f64::from(half::bf16::MAX),
                DType::F32 => f64::from(f32::MAX),
                _ => f64::MAX,
            };
            let (zero, low, high) =
                (b.full_like(x, 0.0)?, b.full_like(x, -largest)?, b.full_like(x, largest)?);
            let nan = b.compare(Compare::Ne, x, x)?;
            let raised = b.elementwise("stablehlo.maximum", &[x, low])?;
            let bounded = b.elementwise("stablehlo.minimum", &[raised, high])?;
            b.select(nan, zero, bounded)
        })
    }

    /// Whether both are true, or not zero.
    #[track_caller]
    pub fn logical_and(&self, other: impl Into<Operand>) -> Array {
        Array::logical("stablehlo.and", self.into(), other.into())
    }

    /// Whether one is true, or not zero.
    #[track_caller]
    pub fn logical_or(&self, other: impl Into<Operand>) -> Array {
        Array::logical("stablehlo.or", self.into(), other.into())
    }

    /// Whether exactly one is true, or not zero.
    #[track_caller]
    pub fn logical_xor(&self, other: impl Into<Operand>) -> Array {
        Array::logical("stablehlo.xor", self.into(), other.into())
    }

    #[track_caller]
    fn logical(name: &str, x: Operand, y: Operand) -> Array {
        let dtype = x.kind().join(y.kind()).dtype();
        Array::together(vec![x, y], dtype, |b, x| {
            let (x, y) = (truth(b, x[0])?, truth(b, x[1])?);
            b.elementwise(name, &[x, y])
        })
    }

    /// Whether elements are false, or zero.
    #[track_caller]
    pub fn logical_not(&self) -> Array {
        trace::one(&[self], Place::here(), |b, x| {
            let truth = truth(b, x[0])?;
            b.elementwise("stablehlo.not", &[truth])
        })
    }

    /// How many bits of each integer are set.
    #[track_caller]
    pub fn popcount(&self) -> Array {
        self.unary("stablehlo.popcnt")
    }

    /// How many bits of each integer above the highest set one are zero.
    #[track_caller]
    pub fn count_leading_zeros(&self) -> Array {
        self.unary("stablehlo.count_leading_zeros")
    }

    /// The bits of each integer moved right, zeros coming in; `>>` keeps the sign.
    #[track_caller]
    pub fn shift_right_logical(&self, by: impl Into<Operand>) -> Array {
        Array::binary("stablehlo.shift_right_logical", self.into(), by.into())
    }

    /// The array's bits taken as another element type, of the same or another width: a wider one
    /// takes the last axis in, a narrower one gives a new last axis.
    #[track_caller]
    pub fn bitcast(&self, to: DType) -> Array {
        trace::one(&[self], Place::here(), |b, x| b.one(jaxrs_ir::ops::BitcastConvert { to }, x))
    }
}

/// `x << y`.
#[track_caller]
pub(super) fn shift_left(x: Operand, y: Operand) -> Array {
    Array::binary("stablehlo.shift_left", x, y)
}

/// `x >> y`; of signed integers the sign comes in, else zeros.
#[track_caller]
pub(super) fn shift_right(x: Operand, y: Operand) -> Array {
    let name = match x.kind().join(y.kind()).dtype().class() {
        Class::Unsigned => "stablehlo.shift_right_logical",
        _ => "stablehlo.shift_right_arithmetic",
    };
    Array::binary(name, x, y)
}

fn floor_divide(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<ValueId, String> {
    let dtype = b.ty(x).dtype;
    if dtype.class() == Class::Unsigned {
        return b.divide(x, y);
    }
    let (zero, one) = (b.full_like(x, 0.0)?, b.full_like(x, 1.0)?);
    let remainder = b.elementwise("stablehlo.remainder", &[x, y])?;
    let some = b.compare(Compare::Ne, remainder, zero)?;
    let float = dtype.is_float();
    let numerator = match float {
        true => {
            let exact = b.subtract(x, remainder)?;
            let by_zero = b.compare(Compare::Eq, y, zero)?;
            b.select(by_zero, x, exact)?
        }
        false => x,
    };
    let quotient = b.divide(numerator, y)?;
    let negative = b.compare(Compare::Lt, if float { remainder } else { x }, zero)?;
    let other = b.compare(Compare::Lt, y, zero)?;
    let differ = b.elementwise("stablehlo.xor", &[negative, other])?;
    let below = b.elementwise("stablehlo.and", &[some, differ])?;
    let lower = b.subtract(quotient, one)?;
    let floor = b.select(below, lower, quotient)?;
    if float { b.elementwise("stablehlo.round_nearest_afz", &[floor]) } else { Ok(floor) }
}
