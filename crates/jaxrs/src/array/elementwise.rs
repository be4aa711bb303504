//! Elementwise functions.

use super::promote::Kind;
use super::{Array, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, ValueId};
use jaxrs_kernel::Compare;

/// The shape that both shapes broadcast to, by NumPy's rule: aligned at the last axis, extents
/// equal or one of them 1.
pub(crate) fn broadcast_shapes(x: &[u64], y: &[u64]) -> Option<Vec<u64>> {
    let rank = x.len().max(y.len());
    let extent = |shape: &[u64], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at])
    };
    let join = |axis| match (extent(x, axis), extent(y, axis)) {
        (1, n) | (n, 1) => Some(n),
        (n, m) => (n == m).then_some(n),
    };
    (0..rank).map(join).collect()
}

/// The value repeated to a shape, aligned at the last axis.
pub(crate) fn broadcast_value(
    b: &mut Builder<'_>,
    value: ValueId,
    shape: &[u64],
) -> Result<ValueId, String> {
    let rank = b.ty(value).rank();
    let Some(first) = shape.len().checked_sub(rank) else {
        return Err(format!("{} does not broadcast to {shape:?}", b.ty(value)));
    };
    let axes: Vec<usize> = (first..shape.len()).collect();
    b.broadcast_in_dim(value, shape, &axes)
}

impl Array {
    /// The elementwise op of this name.
    #[track_caller]
    pub(crate) fn unary(&self, name: &str) -> Array {
        trace::one(&[self], Place::here(), |b, x| b.elementwise(name, x))
    }

    /// The elementwise op of this name, of integers after conversion to `f32`.
    #[track_caller]
    pub(crate) fn float_unary(&self, name: &str) -> Array {
        let dtype = Kind::Strong(self.dtype()).join(Kind::WeakFloat).dtype();
        trace::one(&[self], Place::here(), |b, x| {
            let x = b.convert(x[0], dtype)?;
            b.elementwise(name, &[x])
        })
    }

    /// An operation on operands after promotion to `dtype` and broadcasting to one shape.
    #[track_caller]
    pub(crate) fn together(
        operands: Vec<Operand>,
        dtype: DType,
        f: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<ValueId, String>,
    ) -> Array {
        let place = Place::here();
        let mut shape = Some(Vec::new());
        for operand in &operands {
            shape = shape.and_then(|shape| broadcast_shapes(&shape, operand.shape()));
        }
        let arrays: Vec<Array> =
            operands.into_iter().map(|operand| operand.into_array(dtype, place)).collect();
        let arrays: Vec<&Array> = arrays.iter().collect();
        trace::one(&arrays, place, |b, values| {
            let Some(shape) = shape else {
                let shapes: Vec<String> =
                    arrays.iter().map(|array| array.ty().to_string()).collect();
                return Err(format!(
                    "shapes do not broadcast: {}; aligned at the last axis, extents must be equal \
                     or 1",
                    shapes.join(", ")
                ));
            };
            let mut all = Vec::with_capacity(values.len());
            for &value in values {
                let value = b.convert(value, dtype)?;
                all.push(broadcast_value(b, value, &shape)?);
            }
            f(b, &all)
        })
    }

    /// The elementwise op of this name on two operands, promoted and broadcast.
    #[track_caller]
    pub(crate) fn binary(name: &str, x: Operand, y: Operand) -> Array {
        let dtype = x.kind().join(y.kind()).dtype();
        Array::together(vec![x, y], dtype, |b, values| b.elementwise(name, values))
    }

    /// The elementwise op of this name on two operands, integers as floats.
    #[track_caller]
    pub(crate) fn float_binary(name: &str, x: Operand, y: Operand) -> Array {
        let dtype = x.kind().join(y.kind()).join(Kind::WeakFloat).dtype();
        Array::together(vec![x, y], dtype, |b, values| b.elementwise(name, values))
    }

    /// `x / y`; integers are divided as floats.
    #[track_caller]
    pub(crate) fn true_divide(x: Operand, y: Operand) -> Array {
        Array::float_binary("stablehlo.divide", x, y)
    }

    /// `x - floor(x / y) * y`: Python's remainder, whose sign is the divisor's.
    #[track_caller]
    pub(crate) fn floor_remainder(x: Operand, y: Operand) -> Array {
        let dtype = x.kind().join(y.kind()).dtype();
        Array::together(vec![x, y], dtype, |b, values| {
            let (x, y) = (values[0], values[1]);
            let remainder = b.elementwise("stablehlo.remainder", &[x, y])?;
            let zero = b.full_like(x, 0.0)?;
            let negative = b.compare(Compare::Lt, remainder, zero)?;
            let divisor_negative = b.compare(Compare::Lt, y, zero)?;
            let differ = b.elementwise("stablehlo.xor", &[negative, divisor_negative])?;
            let some = b.compare(Compare::Ne, remainder, zero)?;
            let fix = b.elementwise("stablehlo.and", &[differ, some])?;
            let sum = b.add(remainder, y)?;
            b.select(fix, sum, remainder)
        })
    }

    /// Whether `x` stands in this relation to `y`.
    #[track_caller]
    pub(crate) fn compared(direction: Compare, x: Operand, y: Operand) -> Array {
        let dtype = x.kind().join(y.kind()).dtype();
        Array::together(vec![x, y], dtype, |b, values| b.compare(direction, values[0], values[1]))
    }

    /// The array in another element type: floats are rounded to the nearest, to an integer
    /// towards zero (out of range: the nearest integer).
    #[track_caller]
    pub fn astype(&self, dtype: DType) -> Array {
        trace::one(&[self], Place::here(), |b, x| b.convert(x[0], dtype))
    }

    /// `x` where the condition holds, `y` elsewhere; all broadcast.
    #[track_caller]
    pub fn where_(&self, x: impl Into<Operand>, y: impl Into<Operand>) -> Array {
        let (x, y, place) = (x.into(), y.into(), Place::here());
        let dtype = x.kind().join(y.kind()).dtype();
        let shape = broadcast_shapes(x.shape(), y.shape())
            .and_then(|shape| broadcast_shapes(&shape, self.shape()));
        let (x, y) = (x.into_array(dtype, place), y.into_array(dtype, place));
        trace::one(&[self, &x, &y], place, |b, values| {
            let Some(shape) = shape else {
                let (x, y) = (x.ty(), y.ty());
                return Err(format!("where: {}, {x} and {y} do not broadcast", self.ty()));
            };
            let predicate = match b.ty(values[0]).dtype {
                DType::I1 => values[0],
                _ => {
                    let zero = b.full_like(values[0], 0.0)?;
                    b.compare(Compare::Ne, values[0], zero)?
                }
            };
            let predicate = broadcast_value(b, predicate, &shape)?;
            let (x, y) = (b.convert(values[1], dtype)?, b.convert(values[2], dtype)?);
            let (x, y) = (broadcast_value(b, x, &shape)?, broadcast_value(b, y, &shape)?);
            b.select(predicate, x, y)
        })
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $method:ident: $direction:ident,)*) => {
        impl Array {
            $($(#[$doc])*
            #[track_caller]
            pub fn $method(&self, other: impl Into<Operand>) -> Array {
                Array::compared(Compare::$direction, self.into(), other.into())
            })*
        }
    };
}

comparisons! {
    /// Whether elements are equal; NaN equals nothing.
    eq: Eq,
    /// Whether elements differ.
    ne: Ne,
    /// Whether elements are less than the other's.
    lt: Lt,
    /// Whether elements are at most the other's.
    le: Le,
    /// Whether elements are greater than the other's.
    gt: Gt,
    /// Whether elements are at least the other's.
    ge: Ge,
}
