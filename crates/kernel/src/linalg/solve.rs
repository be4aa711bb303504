//! Triangular systems.

use super::leaf::Leaf;
use super::product::subtract_product;
use super::{Matrix, Scalar};

/// Rows that are solved one by one.
const FEW: usize = 16;
/// Columns that are copied together.
const STRIP: usize = 32;
/// Right sides below which each is solved by itself.
const THIN: usize = 4;

/// What is done to the triangular matrix first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// Nothing.
    None,
    /// It is transposed.
    Transpose,
    /// It is transposed, its elements conjugated.
    Adjoint,
}

/// A triangular system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Solve {
    /// Whether the triangular matrix stands left of the unknown.
    pub left: bool,
    /// Whether its lower triangle is read, else the upper one.
    pub lower: bool,
    /// Whether its diagonal is taken as ones.
    pub unit: bool,
    /// What is done to it first.
    pub turn: Turn,
}

impl Solve {
    /// Solves for `x`, which holds the right side.
    pub(super) fn run<S: Scalar>(
        self,
        leaf: impl Leaf,
        a: Matrix<'_, S>,
        x: Matrix<'_, S>,
        memory: &mut [S],
    ) {
        let a = match self.turn {
            Turn::None => a,
            Turn::Transpose => a.transposed(),
            Turn::Adjoint => a.adjoint(),
        };
        // x a = b is a^T x^T = b^T; an upper triangle is a lower one from its end.
        let (a, x) = if self.left { (a, x) } else { (a.transposed(), x.transposed()) };
        let lower = (self.lower == (self.turn == Turn::None)) == self.left;
        let (a, x) = if lower { (a, x) } else { (a.reversed(), x.upside_down()) };
        lower_solve(leaf, a, x, self.unit, memory);
    }
}

/// Solves `l x = b` for a lower triangle `l`; `x` holds `b`. `memory` has what
/// [`super::memory`] says.
pub(super) fn lower_solve<S: Scalar>(
    leaf: impl Leaf,
    l: Matrix<'_, S>,
    x: Matrix<'_, S>,
    unit: bool,
    memory: &mut [S],
) {
    let size = l.rows();
    if x.columns() == 0 {
        return;
    }
    if size > FEW && x.columns() < THIN && l.steps().iter().any(|step| step.abs() == 1) {
        for column in 0..x.columns() {
            let all = 0..size;
            thin(leaf, l, x.block(all, column..column + 1), unit, memory);
        }
    } else if size > FEW {
        let half = (size / 2).next_multiple_of(4);
        let (top, bottom) = (x.block(0..half, 0..x.columns()), x.block(half..size, 0..x.columns()));
        lower_solve(leaf, l.block(0..half, 0..half), top, unit, memory);
        subtract_product(leaf, bottom, l.block(half..size, 0..half), top, memory);
        lower_solve(leaf, l.block(half..size, half..size), bottom, unit, memory);
    } else {
        few(leaf, l, x, unit);
    }
}

/// [`lower_solve`] of few rows; rows that are no neighbours in memory are copied, a strip at a time.
fn few<S: Scalar>(leaf: impl Leaf, l: Matrix<'_, S>, x: Matrix<'_, S>, unit: bool) {
    let rows = l.rows();
    if rows == 0 || x.columns() < THIN || x.row(0, 0..x.columns()).is_some() {
        return by_rows(leaf, l, x, unit);
    }
    let mut memory = [S::default(); FEW * STRIP];
    for first in (0..x.columns()).step_by(STRIP) {
        let columns = first..x.columns().min(first + STRIP);
        let strip = Matrix::new(super::cells(&mut memory), rows, columns.len());
        let part = x.block(0..rows, columns);
        strip.copy_from(part);
        by_rows(leaf, l, strip, unit);
        part.copy_from(strip);
    }
}

/// [`lower_solve`] row by row.
fn by_rows<S: Scalar>(leaf: impl Leaf, l: Matrix<'_, S>, x: Matrix<'_, S>, unit: bool) {
    let columns = 0..x.columns();
    for row in 0..l.rows() {
        let line = x.row(row, columns.clone());
        for other in 0..row {
            let factor = l.get(row, other);
            match (line, x.row(other, columns.clone())) {
                (Some(line), Some(from)) => leaf.add::<S, false>(line, -factor, from),
                _ => {
                    for column in columns.clone() {
                        let product = factor * x.get(other, column);
                        x.set(row, column, x.get(row, column) - product);
                    }
                }
            }
        }
        if !unit {
            let pivot = l.get(row, row);
            for column in columns.clone() {
                x.set(row, column, x.get(row, column).over(pivot));
            }
        }
    }
}

/// [`lower_solve`] for one right side, whose elements are first gathered in the order that those of
/// `l` have in memory.
fn thin<S: Scalar>(
    leaf: impl Leaf,
    l: Matrix<'_, S>,
    x: Matrix<'_, S>,
    unit: bool,
    memory: &mut [S],
) {
    let size = l.rows();
    let [row_step, column_step] = l.steps();
    let gathered = super::cells(&mut memory[..size]);
    let by_rows = column_step.abs() == 1;
    let descending = if by_rows { column_step } else { row_step } == -1;
    let place = |row: usize| if descending { size - 1 - row } else { row };
    (0..size).for_each(|row| gathered[place(row)].set(x.get(row, 0)));
    let solved = |row: usize, value: S| {
        let value = if unit { value } else { value.over(l.get(row, row)) };
        gathered[place(row)].set(value);
        value
    };
    if by_rows {
        for row in 0..size {
            let before = if descending { &gathered[size - row..] } else { &gathered[..row] };
            let line = l.line(row, 0..row);
            let sum = if l.is_conj() {
                leaf.dot::<S, true>(line, before)
            } else {
                leaf.dot::<S, false>(line, before)
            };
            solved(row, gathered[place(row)].get() - sum);
        }
    } else {
        for row in 0..size {
            let value = solved(row, gathered[place(row)].get());
            let after = if descending { &gathered[..size - 1 - row] } else { &gathered[row + 1..] };
            let line = l.transposed().line(row, row + 1..size);
            if l.is_conj() {
                leaf.add::<S, true>(after, -value, line);
            } else {
                leaf.add::<S, false>(after, -value, line);
            }
        }
    }
    (0..size).for_each(|row| x.set(row, 0, gathered[place(row)].get()));
}
