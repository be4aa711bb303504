//! Linear algebra over the last two axes of arrays; axes before them are a batch. Integers count as
//! `f32`. Names and conventions are those of `jax.numpy.linalg`; all functions have derivatives.
//!
//! ```
//! use jaxrs::{linalg, prelude::*};
//! let a = Array::from_slice(&[4.0f32, 2.0, 2.0, 3.0], [2, 2]);
//! let x = linalg::solve(&a, &Array::from_vec(vec![8.0f32, 7.0]));
//! assert!((a.dot(&x) - Array::from_vec(vec![8.0f32, 7.0])).abs().max(..).item::<f32>()? < 1e-5);
//! # Ok::<(), jaxrs::Error>(())
//! ```

use crate::array::{Array, promote};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, ValueId, linalg};
use jaxrs_kernel::linalg::{Solve, Turn};

/// The element type in which a matrix of this one is computed.
fn inexact(dtype: DType) -> DType {
    if dtype.is_float() || dtype.is_complex() { dtype } else { DType::F32 }
}

/// An operation on one batch of matrices, with several results.
fn parts<const N: usize>(
    a: &Array,
    place: Place,
    f: impl FnOnce(&mut Builder<'_>, ValueId) -> Result<[ValueId; N], String>,
) -> [Array; N] {
    let dtype = inexact(a.dtype());
    let results = trace::record(&[a], N, place, |b, values| {
        let a = b.convert(values[0], dtype)?;
        Ok(f(b, a)?.to_vec())
    });
    results.try_into().unwrap_or_else(|_| unreachable!("as many as asked for"))
}

fn one(
    a: &Array,
    place: Place,
    f: impl FnOnce(&mut Builder<'_>, ValueId) -> Result<ValueId, String>,
) -> Array {
    let [result] = parts(a, place, |b, a| Ok([f(b, a)?]));
    result
}

/// The lower triangular `l` of `a = l l^H`, of the Hermitian part of `a`; NaN where that is not
/// positive definite.
#[track_caller]
pub fn cholesky(a: &Array) -> Array {
    one(a, Place::here(), |b, a| {
        let a = linalg::symmetrize(b, a)?;
        linalg::cholesky(b, a, true)
    })
}

/// `q`, with orthonormal columns, and the upper triangular `r` of `a = q r`, of the smaller
/// shapes; `m x k` and `k x n` with `k = min(m, n)`.
#[track_caller]
pub fn qr(a: &Array) -> (Array, Array) {
    let [q, r] = parts(a, Place::here(), |b, a| linalg::qr(b, a, false));
    (q, r)
}

/// `u`, the singular values, descending, and `v^H` of `a = u diag(s) v^H`, of the smaller shapes.
#[track_caller]
pub fn svd(a: &Array) -> (Array, Array, Array) {
    let [u, s, v] = parts(a, Place::here(), |b, a| linalg::svd(b, a, false));
    (u, s, v)
}

/// The singular values, descending.
#[track_caller]
pub fn svdvals(a: &Array) -> Array {
    one(a, Place::here(), linalg::singular_values)
}

/// The eigenvalues, ascending, and the eigenvectors, as columns, of the Hermitian part of `a`.
#[track_caller]
pub fn eigh(a: &Array) -> (Array, Array) {
    let [values, vectors] = parts(a, Place::here(), |b, a| {
        let a = linalg::symmetrize(b, a)?;
        linalg::eigh(b, a, true)
    });
    (values, vectors)
}

/// Two operands of a system in one element type, and whether the right one is a vector.
fn system(
    a: &Array,
    right: &Array,
    place: Place,
    f: impl FnOnce(&mut Builder<'_>, ValueId, ValueId) -> Result<ValueId, String>,
) -> Array {
    let dtype = inexact(promote(a.dtype(), right.dtype()));
    trace::one(&[a, right], place, |b, values| {
        let (a, right) = (b.convert(values[0], dtype)?, b.convert(values[1], dtype)?);
        let [_, columns] = linalg::extents(b, a)?;
        let shape = b.ty(right).shape;
        if shape == [columns] {
            let matrix = b.reshape(right, &[columns, 1])?;
            let solved = f(b, a, matrix)?;
            let rows = b.ty(solved).shape[0];
            return b.reshape(solved, &[rows]);
        }
        f(b, a, right)
    })
}

/// `x` of `a x = b`; `b` is a vector, or matrices with `a`'s batch.
#[track_caller]
pub fn solve(a: &Array, b: &Array) -> Array {
    system(a, b, Place::here(), linalg::solve)
}

/// `x` of `a x = b` for a triangular `a`, of which only the triangle named is read.
#[track_caller]
pub fn triangular_solve(a: &Array, b: &Array, lower: bool) -> Array {
    let solve = Solve { left: true, lower, unit: false, turn: Turn::None };
    system(a, b, Place::here(), |builder, a, b| linalg::triangular_solve(builder, a, b, solve))
}

/// The inverses of square matrices.
#[track_caller]
pub fn inv(a: &Array) -> Array {
    one(a, Place::here(), linalg::inverse)
}

/// The product of the diagonal of an LU factorization, and which rows were swapped.
fn diagonal_and_swaps(a: &Array, place: Place) -> (Array, Array) {
    let [diagonal, swapped] = parts(a, place, |b, a| {
        let [lu, pivots, _] = linalg::lu(b, a)?;
        let ty = b.ty(pivots);
        let own = b.iota(&ty, ty.rank() - 1)?;
        let swapped = b.compare(jaxrs_kernel::Compare::Ne, pivots, own)?;
        Ok([linalg::diagonal(b, lu)?, b.convert(swapped, DType::I32)?])
    });
    (diagonal, swapped.sum(-1))
}

/// The determinants of square matrices.
#[track_caller]
pub fn det(a: &Array) -> Array {
    let (diagonal, swaps) = diagonal_and_swaps(a, Place::here());
    diagonal.prod(-1) * (1 - 2 * (swaps % 2))
}

/// The signs (of complex matrices the phases) of the determinants, and the logarithms of their
/// absolute values.
#[track_caller]
pub fn slogdet(a: &Array) -> (Array, Array) {
    let (diagonal, swaps) = diagonal_and_swaps(a, Place::here());
    let size = diagonal.abs();
    let sign = (&diagonal / &size).prod(-1) * (1 - 2 * (swaps % 2));
    (sign, size.log().sum(-1))
}
