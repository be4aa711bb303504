//! LU factorization with partial pivoting.

use super::leaf::Leaf;
use super::product::subtract_product;
use super::solve::lower_solve;
use super::{Matrix, Scalar};
use std::cell::Cell;

/// Columns that are eliminated one by one.
const FEW: usize = 8;

/// Replaces `a` by `l` (below the diagonal, which is one) and `u` with `l u = p a`. `pivots[n]` is
/// the row that was swapped with row `n`, from 0; the position of the first pivot that is zero is
/// returned.
pub(super) fn factor<S: Scalar>(
    leaf: impl Leaf,
    a: Matrix<'_, S>,
    pivots: &[Cell<i32>],
    memory: &mut [S],
) -> Option<usize> {
    let (rows, columns) = (a.rows(), a.columns());
    let steps = rows.min(columns);
    if columns <= FEW || steps <= 1 {
        return few(a, pivots);
    }
    let half = if steps > 8 { (steps / 2).next_multiple_of(4) } else { steps / 2 };
    let left = a.block(0..rows, 0..half);
    let right = a.block(0..rows, half..columns);
    let singular = factor(leaf, left, &pivots[..half], memory);
    swap(right, &pivots[..half]);
    let (top, bottom) = (half, half..rows);
    let corner = a.block(0..top, 0..half);
    let (above, below) =
        (right.block(0..top, 0..columns - half), right.block(bottom.clone(), 0..columns - half));
    lower_solve(leaf, corner, above, true, memory);
    subtract_product(leaf, below, left.block(bottom.clone(), 0..half), above, memory);
    let later = &pivots[half..steps];
    let singular_later = factor(leaf, below, later, memory);
    swap(left.block(bottom, 0..half), later);
    later.iter().for_each(|pivot| pivot.set(pivot.get() + half as i32));
    singular.or(singular_later.map(|at| at + half))
}

/// Swaps rows as a factorization has swapped them.
fn swap<S: Scalar>(a: Matrix<'_, S>, pivots: &[Cell<i32>]) {
    for (row, pivot) in pivots.iter().enumerate() {
        a.swap_rows(row, pivot.get() as usize);
    }
}

fn few<S: Scalar>(a: Matrix<'_, S>, pivots: &[Cell<i32>]) -> Option<usize> {
    let mut singular = None;
    for step in 0..a.rows().min(a.columns()) {
        let mut best = step;
        for row in step + 1..a.rows() {
            if a.get(row, step).rough_size() > a.get(best, step).rough_size() {
                best = row;
            }
        }
        pivots[step].set(best as i32);
        let pivot = a.get(best, step);
        if pivot == S::default() {
            singular = singular.or(Some(step));
            continue;
        }
        a.swap_rows(step, best);
        for row in step + 1..a.rows() {
            let factor = a.get(row, step).over(pivot);
            a.set(row, step, factor);
            for column in step + 1..a.columns() {
                a.set(row, column, a.get(row, column) - factor * a.get(step, column));
            }
        }
    }
    singular
}
