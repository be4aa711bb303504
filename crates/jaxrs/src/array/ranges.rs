//! Arrays made by rule: counts, grids, triangles and diagonals.

use super::contract::along_last;
use super::promote::Kind;
use super::{Array, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, TensorType, ValueId};
use jaxrs_kernel::Compare;
use std::borrow::Borrow;

/// A Rust number as a float.
fn number(x: &Operand) -> Option<f64> {
    match *x {
        Operand::Bool(x) => Some(f64::from(u8::from(x))),
        Operand::Int(x) => Some(x as f64),
        Operand::Float(x) => Some(x),
        Operand::Array(_) | Operand::Complex(_) => None,
    }
}

/// Whether elements `(row, column)` of the last two axes are on or below a diagonal.
fn below(
    b: &mut Builder<'_>,
    rows: u64,
    columns: u64,
    offset: i64,
    direction: Compare,
) -> Result<ValueId, String> {
    let ty = TensorType::new([rows, columns], DType::I64);
    let (row, column) = (b.iota(&ty, 0)?, b.iota(&ty, 1)?);
    let offset = b.full(&ty, offset as f64)?;
    let shifted = b.add(row, offset)?;
    b.compare(direction, shifted, column)
}

/// The value where a diagonal of the last two axes is passed in this direction, else zero.
fn triangle(
    b: &mut Builder<'_>,
    x: ValueId,
    offset: i64,
    direction: Compare,
) -> Result<ValueId, String> {
    let ty = b.ty(x);
    let [.., rows, columns] = ty.shape[..] else {
        return Err(format!("tril, triu: {ty} has less than two axes"));
    };
    let kept = below(b, rows, columns, offset, direction)?;
    let kept = b.broadcast_in_dim(kept, &ty.shape, &[ty.rank() - 2, ty.rank() - 1])?;
    let zero = b.zeros(&ty)?;
    b.select(kept, x, zero)
}

impl Array {
    /// `start`, `start + step`, ... before `stop`: `i32` if all are integers, else `f32`.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// assert_eq!(Array::arange_by(5, 0, -2).to_vec::<i32>()?, [5, 3, 1]);
    /// assert_eq!(Array::arange_by(0.0, 1.0, 0.25).len(), 4);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn arange_by(
        start: impl Into<Operand>,
        stop: impl Into<Operand>,
        step: impl Into<Operand>,
    ) -> Array {
        let operands = [start.into(), stop.into(), step.into()];
        let kind = operands.iter().map(Operand::kind).fold(Kind::WeakInt, Kind::join);
        trace::one(&[], Place::here(), |b, _| {
            let numbers: Option<Vec<f64>> = operands.iter().map(number).collect();
            let Some([start, stop, step]) = numbers.as_deref().and_then(|n| n.first_chunk()) else {
                return Err("arange: start, stop and step are real numbers of Rust".into());
            };
            let count = ((stop - start) / step).ceil();
            if !count.is_finite() {
                return Err(format!("arange: no end is reached from {start} to {stop} by {step}"));
            }
            let ty = TensorType::checked("arange", vec![count.max(0.0) as u64], kind.dtype())?;
            let count = b.iota(&ty, 0)?;
            let (start, step) = (b.full(&ty, *start)?, b.full(&ty, *step)?);
            let distance = b.multiply(count, step)?;
            b.add(distance, start)
        })
    }

    /// `count` numbers in equal distances from `start` to `stop`, both of them included, as `f32`.
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, count: u64) -> Array {
        spaced(start, stop, count, count.saturating_sub(1), DType::F32)
    }

    /// As [`Array::linspace`], in an element type.
    #[track_caller]
    pub fn linspace_of(start: f64, stop: f64, count: u64, dtype: DType) -> Array {
        spaced(start, stop, count, count.saturating_sub(1), dtype)
    }

    /// `count` numbers in equal distances from `start` to before `stop`, as `f32`.
    #[track_caller]
    pub fn linspace_open(start: f64, stop: f64, count: u64) -> Array {
        spaced(start, stop, count, count, DType::F32)
    }

    /// 10 to the power of `count` numbers in equal distances, as `f32`.
    #[track_caller]
    pub fn logspace(start: f64, stop: f64, count: u64) -> Array {
        let place = Place::here();
        trace::whole(&[], place, |_| (Array::linspace(start, stop, count) * 10f64.ln()).exp())
    }

    /// `count` numbers in equal ratios from `start` to `stop`, both positive, as `f32`.
    #[track_caller]
    pub fn geomspace(start: f64, stop: f64, count: u64) -> Array {
        let place = Place::here();
        trace::whole(&[], place, |_| Array::linspace(start.ln(), stop.ln(), count).exp())
    }

    /// Ones on the diagonal of `rows` by `columns` zeros, which is moved by `offset` to the right,
    /// as `f32`.
    #[track_caller]
    pub fn eye(rows: u64, columns: u64, offset: i64) -> Array {
        trace::one(&[], Place::here(), |b, _| {
            let on = below(b, rows, columns, offset, Compare::Eq)?;
            b.convert(on, DType::F32)
        })
    }

    /// The identity matrix, as `f32`.
    #[track_caller]
    pub fn identity(n: u64) -> Array {
        Array::eye(n, n, 0)
    }

    /// Ones on and below the diagonal that is moved by `offset` to the right, else zeros, as `f32`.
    #[track_caller]
    pub fn tri(rows: u64, columns: u64, offset: i64) -> Array {
        trace::one(&[], Place::here(), |b, _| {
            let on = below(b, rows, columns, offset, Compare::Ge)?;
            b.convert(on, DType::F32)
        })
    }

    /// The elements on and below a diagonal of the last two axes, which is moved by `offset` to
    /// the right; zeros above.
    #[track_caller]
    pub fn tril(&self, offset: i64) -> Array {
        trace::one(&[self], Place::here(), |b, x| triangle(b, x[0], offset, Compare::Ge))
    }

    /// The elements on and above a diagonal of the last two axes, which is moved by `offset` to
    /// the right; zeros below.
    #[track_caller]
    pub fn triu(&self, offset: i64) -> Array {
        trace::one(&[self], Place::here(), |b, x| triangle(b, x[0], offset, Compare::Le))
    }

    /// Of an array with one axis, the matrix that has it on a diagonal; of one with two, that
    /// diagonal. The diagonal is moved by `offset` to the right.
    #[track_caller]
    pub fn diag(&self, offset: i64) -> Array {
        match self.rank() {
            1 => trace::one(&[self], Place::here(), |b, x| {
                let ty = b.ty(x[0]);
                let away = offset.unsigned_abs();
                let n = ty.shape[0].checked_add(away).ok_or("diag: the offset is too large")?;
                let matrix = TensorType::checked("diag", vec![n, n], ty.dtype)?;
                let (low, high) = if offset < 0 { (0, away) } else { (away, 0) };
                let zero = b.zeros(&TensorType::scalar(ty.dtype))?;
                let row = b.pad(x[0], zero, &[low as i64], &[high as i64], &[0])?;
                let rows = b.broadcast_in_dim(row, &matrix.shape, &[1])?;
                let on = below(b, n, n, offset, Compare::Eq)?;
                let zeros = b.zeros(&matrix)?;
                b.select(on, rows, zeros)
            }),
            2 => self.diagonal(offset),
            _ => {
                let message = format!("diag: {} has neither one axis nor two", self.ty());
                trace::one(&[self], Place::here(), |_, _| Err(message))
            }
        }
    }

    /// Arrays with one axis, repeated to the grid that they span: the first runs along the first
    /// axis (NumPy's `indexing="ij"`), the second along the second.
    #[track_caller]
    pub fn meshgrid<A: Borrow<Array>>(arrays: impl AsRef<[A]>) -> Vec<Array> {
        let arrays: Vec<&Array> = arrays.as_ref().iter().map(Borrow::borrow).collect();
        trace::record(&arrays, arrays.len(), Place::here(), |b, x| {
            if let Some(&other) = x.iter().find(|&&value| b.ty(value).rank() != 1) {
                return Err(format!("meshgrid: {} has not one axis", b.ty(other)));
            }
            let shape: Vec<u64> = x.iter().map(|&value| b.ty(value).shape[0]).collect();
            let grids = x.iter().enumerate();
            grids.map(|(axis, &value)| b.broadcast_in_dim(value, &shape, &[axis])).collect()
        })
    }

    /// For each axis of a shape the position along it, as `i32`, along a new first axis.
    #[track_caller]
    pub fn indices(shape: impl super::IntoShape) -> Array {
        let shape = shape.into_shape();
        trace::one(&[], Place::here(), |b, _| {
            let ty = TensorType::checked("indices", shape, DType::I32)?;
            let all: Vec<u64> = [1].iter().chain(&ty.shape).copied().collect();
            let mut parts = Vec::with_capacity(ty.rank());
            for axis in 0..ty.rank() {
                let part = b.iota(&ty, axis)?;
                parts.push(b.reshape(part, &all)?);
            }
            match parts.is_empty() {
                true => b.zeros(&TensorType::new([0], DType::I32)),
                false => b.concatenate(&parts, 0),
            }
        })
    }

    /// The polynomial with these coefficients, that of the highest power first, at each element.
    #[track_caller]
    pub fn polyval(&self, coefficients: &[f64]) -> Array {
        let place = Place::here();
        trace::whole(&[self], place, |x| {
            let zero = x[0].zeros_like();
            coefficients.iter().fold(zero, |value, &coefficient| value * &x[0] + coefficient)
        })
    }

    /// A matrix with the powers of each element of an array of one axis, the highest first.
    #[track_caller]
    pub fn vander(&self, columns: u64) -> Array {
        let place = Place::here();
        trace::whole(&[self], place, |x| {
            let powers = (0..columns as i64).rev().map(|n| x[0].pow(n));
            Array::stack(powers.collect::<Vec<_>>(), -1)
        })
    }

    /// The elements on a diagonal of the last two axes; see [`Array::diagonal`] for the first two.
    #[track_caller]
    pub fn matrix_diagonal(&self) -> Array {
        trace::one(&[self], Place::here(), |b, x| {
            let ty = b.ty(x[0]);
            match ty.shape[..] {
                [.., rows, columns] => along_last(b, x[0], 0, rows.min(columns)),
                _ => Err(format!("matrix_diagonal: {ty} has less than two axes")),
            }
        })
    }
}

/// `count` numbers from `start` on, `steps` of which reach `stop`.
#[track_caller]
fn spaced(start: f64, stop: f64, count: u64, steps: u64, dtype: DType) -> Array {
    trace::one(&[], Place::here(), |b, _| {
        let ty = TensorType::checked("linspace", vec![count], dtype)?;
        if !dtype.is_float() {
            return Err(format!("linspace: {dtype} is no float type"));
        }
        let position = b.iota(&ty, 0)?;
        let steps = b.full(&ty, steps.max(1) as f64)?;
        let share = b.divide(position, steps)?;
        let one = b.full(&ty, 1.0)?;
        let rest = b.subtract(one, share)?;
        let (start, stop) = (b.full(&ty, start)?, b.full(&ty, stop)?);
        let (start, stop) = (b.multiply(start, rest)?, b.multiply(stop, share)?);
        b.add(start, stop)
    })
}
