//! Cholesky's factorization.

use super::leaf::Leaf;
use super::product::subtract_product;
use super::solve::lower_solve;
use super::{Matrix, Scalar};

/// Rows that are factored one by one.
const FEW: usize = 16;
/// Columns of a step that brings a triangle up to date.
const STRIP: usize = 64;

/// Replaces the lower triangle of `a` by `l` with `l l^H = a`, reading nothing else; the position
/// of the first pivot that is not positive is the error.
pub(super) fn factor<S: Scalar>(
    leaf: impl Leaf,
    a: Matrix<'_, S>,
    memory: &mut [S],
) -> Result<(), usize> {
    let size = a.rows();
    if size <= FEW {
        return few(a);
    }
    let half = (size / 2).next_multiple_of(4);
    let first = a.block(0..half, 0..half);
    factor(leaf, first, memory)?;
    let below = a.block(half..size, 0..half);
    lower_solve(leaf, first, below.adjoint(), false, memory);
    for strip in (half..size).step_by(STRIP) {
        let columns = strip..size.min(strip + STRIP);
        let rows = a.block(strip..size, 0..half);
        let right = a.block(columns.clone(), 0..half).adjoint();
        subtract_product(leaf, a.block(strip..size, columns), rows, right, memory);
    }
    factor(leaf, a.block(half..size, half..size), memory).map_err(|at| half + at)
}

fn few<S: Scalar>(a: Matrix<'_, S>) -> Result<(), usize> {
    for column in 0..a.rows() {
        let before: f64 = (0..column).map(|k| a.get(column, k).square()).sum();
        let pivot = a.get(column, column).re() - before;
        // NaN is not positive, either.
        if pivot.is_nan() || pivot <= 0.0 {
            return Err(column);
        }
        let root = S::real(pivot.sqrt());
        a.set(column, column, root);
        for row in column + 1..a.rows() {
            let mut sum = a.get(row, column);
            for k in 0..column {
                sum -= a.get(row, k) * a.get(column, k).conj();
            }
            a.set(row, column, sum.over(root));
        }
    }
    Ok(())
}
