//! Products of matrices.

use super::leaf::{Leaf, TILE, TILE_COLUMNS, TILE_ROWS};
use super::{Matrix, Scalar};

/// Depths of a packed block.
const DEPTH: usize = 128;
/// Rows of a packed block.
const ROWS: usize = 128;
/// Work below which a product is computed where its operands are.
const SMALL: usize = 1024;

/// `c -= a * b`; `memory` has [`packed`] elements, unless the product is [`is_small`].
pub(super) fn subtract_product<S: Scalar>(
    leaf: impl Leaf,
    c: Matrix<'_, S>,
    a: Matrix<'_, S>,
    b: Matrix<'_, S>,
    memory: &mut [S],
) {
    if is_small(c.rows(), a.columns(), c.columns()) {
        for row in 0..c.rows() {
            for depth in 0..a.columns() {
                let factor = a.get(row, depth);
                for column in 0..c.columns() {
                    c.set(row, column, c.get(row, column) - factor * b.get(depth, column));
                }
            }
        }
        return;
    }
    let (left, right) = memory.split_at_mut(left_packed(c.rows(), a.columns()));
    let mut tile = [S::default(); TILE];
    for depth in (0..a.columns()).step_by(DEPTH) {
        let depths = depth..a.columns().min(depth + DEPTH);
        for row in (0..c.rows()).step_by(ROWS) {
            let rows = row..c.rows().min(row + ROWS);
            let a = a.block(rows.clone(), depths.clone());
            pack(a.transposed(), TILE_ROWS, left);
            for column in (0..c.columns()).step_by(TILE_COLUMNS) {
                let columns = column..c.columns().min(column + TILE_COLUMNS);
                let right = &mut right[..depths.len() * TILE_COLUMNS];
                pack(b.block(depths.clone(), columns.clone()), TILE_COLUMNS, right);
                let panels = left.chunks_exact(TILE_ROWS * depths.len());
                for (panel, first) in panels.zip((0..rows.len()).step_by(TILE_ROWS)) {
                    leaf.tile(panel, right, &mut tile);
                    let quad = rows.start + first..rows.end.min(rows.start + first + TILE_ROWS);
                    store(leaf, c.block(quad, columns.clone()), &tile);
                }
            }
        }
    }
}

/// Elements of memory that [`subtract_product`] needs for a result of at most so many rows and
/// sums of at most so many products.
pub(super) fn packed(rows: usize, depth: usize) -> usize {
    left_packed(rows, depth) + DEPTH.min(depth) * TILE_COLUMNS
}

fn left_packed(rows: usize, depth: usize) -> usize {
    DEPTH.min(depth) * ROWS.min(rows).next_multiple_of(TILE_ROWS)
}

/// Whether [`subtract_product`] needs no memory.
pub(super) fn is_small(rows: usize, depth: usize, columns: usize) -> bool {
    rows * depth * columns <= SMALL
}

/// Copies panels of `width` columns, `[panel][row][column]`; the last panel is filled with zeros.
#[inline(always)]
fn pack<S: Scalar>(from: Matrix<'_, S>, width: usize, to: &mut [S]) {
    let [row_step, column_step] = from.steps();
    let panels = to.chunks_exact_mut(width * from.rows().max(1));
    for (panel, first) in panels.zip((0..from.columns()).step_by(width)) {
        let columns = first..from.columns().min(first + width);
        if columns.len() < width {
            panel.fill(S::default());
        }
        if column_step == 1 && !from.is_conj() {
            for (row, to) in panel.chunks_exact_mut(width).enumerate() {
                let line = from.line(row, columns.clone());
                to.iter_mut().zip(line).for_each(|(to, from)| *to = from.get());
            }
        } else if row_step == 1 {
            let view = from.transposed();
            for (n, column) in columns.enumerate() {
                let line = view.line(column, 0..from.rows());
                for (to, from_cell) in panel.iter_mut().skip(n).step_by(width).zip(line) {
                    let value = from_cell.get();
                    *to = if from.is_conj() { value.conj() } else { value };
                }
            }
        } else {
            for (row, to) in panel.chunks_exact_mut(width).enumerate() {
                for (to, column) in to.iter_mut().zip(columns.clone()) {
                    *to = from.get(row, column);
                }
            }
        }
    }
}

/// Subtracts a tile's valid part.
fn store<S: Scalar>(leaf: impl Leaf, c: Matrix<'_, S>, tile: &[S; TILE]) {
    for row in 0..c.rows() {
        let sums = &tile[row * TILE_COLUMNS..][..c.columns()];
        match c.row(row, 0..c.columns()) {
            Some(line) => leaf.subtract(line, sums),
            None => {
                for (column, &sum) in sums.iter().enumerate() {
                    c.set(row, column, c.get(row, column) - sum);
                }
            }
        }
    }
}
