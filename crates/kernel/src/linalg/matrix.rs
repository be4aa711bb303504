//! Matrices as views of memory.

use super::Scalar;
use std::cell::Cell;
use std::ops::Range;

/// A matrix in memory with any strides. Views of one memory may overlap: the elements are cells.
///
/// Transposes, adjoints and matrices read from the end are views, too, so that each algorithm is
/// written for one orientation.
#[derive(Clone, Copy)]
pub struct Matrix<'a, S> {
    cells: &'a [Cell<S>],
    start: isize,
    rows: usize,
    columns: usize,
    row_step: isize,
    column_step: isize,
    conj: bool,
}

/// Cells of elements.
pub fn cells<S>(elements: &mut [S]) -> &[Cell<S>] {
    Cell::from_mut(elements).as_slice_of_cells()
}

impl<'a, S: Scalar> Matrix<'a, S> {
    /// A dense row-major matrix; panics unless there are enough cells.
    pub fn new(cells: &'a [Cell<S>], rows: usize, columns: usize) -> Matrix<'a, S> {
        let cells = &cells[..rows * columns];
        let row_step = columns as isize;
        Matrix { cells, start: 0, rows, columns, row_step, column_step: 1, conj: false }
    }

    /// Rows.
    pub fn rows(self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn columns(self) -> usize {
        self.columns
    }

    /// Memory steps from a row and from a column to the next.
    pub(super) fn steps(self) -> [isize; 2] {
        [self.row_step, self.column_step]
    }

    /// Whether elements are the conjugates of what is in memory.
    pub(super) fn is_conj(self) -> bool {
        self.conj
    }

    #[inline(always)]
    fn at(self, row: usize, column: usize) -> usize {
        let at = self.start + row as isize * self.row_step + column as isize * self.column_step;
        at as usize
    }

    /// An element.
    #[inline(always)]
    pub fn get(self, row: usize, column: usize) -> S {
        let value = self.cells[self.at(row, column)].get();
        if self.conj { value.conj() } else { value }
    }

    /// Changes an element.
    #[inline(always)]
    pub fn set(self, row: usize, column: usize, value: S) {
        self.cells[self.at(row, column)].set(if self.conj { value.conj() } else { value });
    }

    /// A part.
    pub fn block(self, rows: Range<usize>, columns: Range<usize>) -> Matrix<'a, S> {
        debug_assert!(rows.end <= self.rows && columns.end <= self.columns);
        let start = self.start
            + rows.start as isize * self.row_step
            + columns.start as isize * self.column_step;
        Matrix { start, rows: rows.len(), columns: columns.len(), ..self }
    }

    /// The transpose.
    pub fn transposed(self) -> Matrix<'a, S> {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            row_step: self.column_step,
            column_step: self.row_step,
            ..self
        }
    }

    /// The conjugate.
    pub fn conjugated(self) -> Matrix<'a, S> {
        Matrix { conj: self.conj != S::COMPLEX, ..self }
    }

    /// The conjugate transpose.
    pub fn adjoint(self) -> Matrix<'a, S> {
        self.transposed().conjugated()
    }

    /// With the last row first.
    pub fn upside_down(self) -> Matrix<'a, S> {
        let start = self.start + self.rows.saturating_sub(1) as isize * self.row_step;
        Matrix { start, row_step: -self.row_step, ..self }
    }

    /// With the last row and the last column first: an upper triangle becomes a lower one.
    pub fn reversed(self) -> Matrix<'a, S> {
        self.upside_down().transposed().upside_down().transposed()
    }

    /// A row's memory from one column to another, if its elements are neighbours in order.
    #[inline(always)]
    pub fn row(self, row: usize, columns: Range<usize>) -> Option<&'a [Cell<S>]> {
        if self.column_step != 1 || self.conj {
            return None;
        }
        let start = self.at(row, columns.start);
        Some(&self.cells[start..start + columns.len()])
    }

    /// The memory of a row's part whose elements are neighbours in ascending or descending order,
    /// from its lowest address; conjugates are not taken.
    pub(super) fn line(self, row: usize, columns: Range<usize>) -> &'a [Cell<S>] {
        debug_assert!(self.column_step.abs() == 1);
        if columns.is_empty() {
            return &[];
        }
        let ends = [self.at(row, columns.start), self.at(row, columns.end - 1)];
        &self.cells[ends[0].min(ends[1])..=ends[0].max(ends[1])]
    }

    /// Swaps two rows.
    pub fn swap_rows(self, first: usize, second: usize) {
        if first == second {
            return;
        }
        for column in 0..self.columns {
            self.cells[self.at(first, column)].swap(&self.cells[self.at(second, column)]);
        }
    }

    /// Changes every element.
    pub fn fill(self, element: impl Fn(usize, usize) -> S) {
        for row in 0..self.rows {
            for column in 0..self.columns {
                self.set(row, column, element(row, column));
            }
        }
    }

    /// Copies a matrix of the same shape that overlaps this one nowhere.
    pub fn copy_from(self, other: Matrix<'_, S>) {
        self.fill(|row, column| other.get(row, column));
    }

    /// Transposes a square matrix in place.
    pub fn transpose_in_place(self) {
        for row in 1..self.rows {
            for column in 0..row {
                let (below, above) = (self.at(row, column), self.at(column, row));
                self.cells[below].swap(&self.cells[above]);
            }
        }
    }

    /// Whether no element is infinite or NaN.
    pub fn is_finite(self) -> bool {
        (0..self.rows).all(|r| (0..self.columns).all(|c| self.get(r, c).is_finite()))
    }
}
