//! Singular values and vectors: a QR factorization with column pivoting, then one-sided Jacobi
//! rotations of its triangle (Drmač and Veselić, "New fast and accurate Jacobi SVD algorithm",
//! 2008).

use super::leaf::Leaf;
use super::reflect::{norm, reflection};
use super::{Matrix, Part, Scalar};
use std::cell::Cell;

/// Most sweeps over all pairs of columns.
const MOST: usize = 80;

/// Which vectors there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vectors {
    /// Whether they are computed; if not, their places get zeros.
    pub computed: bool,
    /// Whether there are so many that both sides are square, else one for each singular value.
    pub full: bool,
}

/// The results of a singular value decomposition, with memory of the operand's size.
pub(super) struct Results<'a, S: Scalar> {
    /// Holds the operand; destroyed.
    pub(super) operand: &'a [Cell<S>],
    pub(super) values: &'a [Cell<S::Part>],
    pub(super) left: &'a [Cell<S>],
    pub(super) right: &'a [Cell<S>],
}

/// Memory of a decomposition whose shorter side is `short`: elements, and `f64`s.
pub(super) fn memory(short: usize, long: usize) -> [usize; 2] {
    [short + long, 3 * short]
}

/// Computes singular values in descending order, and vectors: `left` has them as columns, `right`
/// as rows, conjugated. False if there is no result: the operand is not finite.
pub(super) fn svd<S: Scalar>(
    leaf: impl Leaf,
    [rows, columns]: [usize; 2],
    vectors: Vectors,
    results: &Results<'_, S>,
    memory: &mut [S],
    wide: &mut [f64],
) -> bool {
    let a = Matrix::new(results.operand, rows, columns);
    let (short, long) = (rows.min(columns), rows.max(columns));
    let extent = if vectors.full { long } else { short };
    // `b` has the columns of the tall one of `a` and its adjoint as rows.
    let tall = rows >= columns;
    let (outer, inner) =
        if tall { (results.left, results.right) } else { (results.right, results.left) };
    if !a.is_finite() {
        return false;
    }
    let b = Matrix::new(results.operand, short, long);
    if tall && short == long {
        a.transpose_in_place();
    } else if tall {
        // Through the left vectors' place, which has as many elements or more.
        let copy = Matrix::new(outer, short, long);
        copy.copy_from(a.transposed());
        b.copy_from(copy);
    } else {
        b.fill(|row, column| a.get(row, column).conj());
    }
    let largest = (0..short)
        .flat_map(|row| (0..long).map(move |column| b.get(row, column).rough_size()))
        .fold(0.0, f64::max);
    let scale = if largest == 0.0 { 1.0 } else { largest };
    b.fill(|row, column| {
        let x = b.get(row, column);
        S::new(x.re() / scale, x.im() / scale)
    });

    let (taus, memory) = memory.split_at_mut(short);
    let (order, wide) = wide.split_at_mut(short);
    let (sizes, spare) = wide.split_at_mut(short);
    pivoted_qr(leaf, b, super::cells(taus), order, sizes);
    // The triangle's adjoint, its columns as rows.
    let x = Matrix::new(inner, short, short);
    x.fill(|row, column| if column < row { S::default() } else { b.get(column, row).conj() });
    // The outer vectors, as rows: first those of the rotations.
    let w = Matrix::new(outer, extent, long);
    let rotations = w.block(0..short, 0..short);
    let wanted = vectors.computed;
    if wanted {
        let unit = |row, column| if row == column { S::real(1.0) } else { S::default() };
        w.fill(unit);
    }
    jacobi(leaf, x, wanted.then_some(rotations));
    for row in 0..short {
        let line = x.row(row, 0..short).expect("a dense matrix");
        sizes[row] = norm(line.iter().map(Cell::get));
    }
    for place in 0..short {
        let best = (place..short).max_by(|&m, &n| sizes[m].total_cmp(&sizes[n]));
        let best = best.unwrap_or(place);
        sizes.swap(place, best);
        x.swap_rows(place, best);
        if wanted {
            rotations.swap_rows(place, best);
        }
        results.values[place].set(S::Part::of(sizes[place] * scale));
    }
    if wanted {
        normalize(leaf, x, sizes, spare);
        for vector in 0..extent {
            let line = w.row(vector, 0..long).expect("a dense matrix");
            for step in (0..short).rev() {
                // The reflections are in `b`'s rows.
                let tail = b.row(step, step + 1..long).expect("a dense matrix");
                let sum = line[step].get() + leaf.dot::<S, true>(tail, &line[step + 1..]);
                let factor = -(taus[step] * sum);
                line[step].set(line[step].get() + factor);
                leaf.add::<S, false>(&line[step + 1..], factor, tail);
            }
        }
        // Undo the pivoting.
        for row in 0..short {
            for column in 0..short {
                memory[order[column] as usize] = x.get(row, column);
            }
            (0..short).for_each(|column| x.set(row, column, memory[column]));
        }
    } else {
        outer.iter().chain(inner).for_each(|cell| cell.set(S::default()));
    }
    if wanted && tall {
        // a = w^T s conj(x)
        x.fill(|row, column| x.get(row, column).conj());
        if extent == long {
            w.transpose_in_place();
        } else {
            b.copy_from(w);
            Matrix::new(outer, long, short).copy_from(b.transposed());
        }
    } else if wanted {
        // a^H = w^T s conj(x), so a = x^T s conj(w).
        w.fill(|row, column| w.get(row, column).conj());
        x.transpose_in_place();
    }
    results.operand.iter().for_each(|cell| cell.set(S::default()));
    true
}

/// Factors the matrix whose columns are the rows of `b`, in the order in which the largest of what
/// is left stands first; row `n` then has column `n` of the triangle up to position `n`, and the
/// tail of a reflection.
fn pivoted_qr<S: Scalar>(
    leaf: impl Leaf,
    b: Matrix<'_, S>,
    taus: &[Cell<S>],
    order: &mut [f64],
    sizes: &mut [f64],
) {
    let (short, long) = (b.rows(), b.columns());
    order.iter_mut().enumerate().for_each(|(n, place)| *place = n as f64);
    let size = |row: usize, from: usize| {
        let line = b.row(row, from..long).expect("a dense matrix");
        leaf.dot::<S, true>(line, line).re()
    };
    for step in 0..short {
        // Norms are computed anew: what is left of them cancels.
        for row in step..short {
            sizes[row] = size(row, step);
        }
        let best = (step..short).max_by(|&m, &n| sizes[m].total_cmp(&sizes[n]));
        let best = best.unwrap_or(step);
        b.swap_rows(step, best);
        order.swap(step, best);
        let line = b.row(step, step..long).expect("a dense matrix");
        let found = reflection(line[0].get(), norm(line[1..].iter().map(Cell::get)));
        taus[step].set(found.tau);
        line[0].set(S::real(found.beta));
        let tail = &line[1..];
        tail.iter().for_each(|cell| cell.set(cell.get() * found.scale));
        for row in step + 1..short {
            let other = b.row(row, step..long).expect("a dense matrix");
            let sum = other[0].get() + leaf.dot::<S, true>(tail, &other[1..]);
            let factor = -(found.tau.conj() * sum);
            other[0].set(other[0].get() + factor);
            leaf.add::<S, false>(&other[1..], factor, tail);
        }
    }
}

/// Rotates rows of `x`, and of `w` with them, until all are orthogonal.
fn jacobi<S: Scalar>(leaf: impl Leaf, x: Matrix<'_, S>, w: Option<Matrix<'_, S>>) {
    let size = x.rows();
    let tolerance = S::EPSILON * (size as f64).sqrt();
    let tiny = S::TINY * S::TINY;
    for _ in 0..MOST {
        let mut rotated = false;
        for first in 0..size {
            for second in first + 1..size {
                let (p, q) = (x.line(first, 0..size), x.line(second, 0..size));
                let product = leaf.dot::<S, true>(p, q);
                let angle = product.size();
                if angle == 0.0 {
                    continue;
                }
                let a = leaf.dot::<S, true>(p, p).re();
                let b = leaf.dot::<S, true>(q, q).re();
                if a <= tiny || b <= tiny || angle <= tolerance * (a * b).sqrt() {
                    continue;
                }
                rotated = true;
                let zeta = (b - a) / (2.0 * angle);
                let t = 1f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                // The second one is turned so that the product is real.
                let turn = S::new(product.re() / angle, -product.im() / angle);
                for m in [Some(x), w].into_iter().flatten() {
                    let (p, q) = (m.line(first, 0..size), m.line(second, 0..size));
                    if S::COMPLEX {
                        q.iter().for_each(|cell| cell.set(cell.get() * turn));
                        leaf.rotate(p, q, c, c * t);
                    } else {
                        // A real turn is a sign.
                        leaf.rotate(p, q, c, c * t * turn.re());
                    }
                }
            }
        }
        if !rotated {
            return;
        }
    }
}

/// Divides rows by their norms, which descend; rows that have none become unit vectors orthogonal
/// to all before.
fn normalize<S: Scalar>(leaf: impl Leaf, x: Matrix<'_, S>, sizes: &[f64], spare: &mut [f64]) {
    let size = x.rows();
    // How much of each unit vector the rows so far span.
    spare.fill(0.0);
    for row in 0..size {
        let line = x.row(row, 0..size).expect("a dense matrix");
        if sizes[row] > S::TINY {
            line.iter().for_each(|cell| {
                let value = cell.get();
                cell.set(S::new(value.re() / sizes[row], value.im() / sizes[row]));
            });
        } else {
            let unit = (0..size).min_by(|&m, &n| spare[m].total_cmp(&spare[n])).unwrap_or(0);
            line.iter().for_each(|cell| cell.set(S::default()));
            line[unit].set(S::real(1.0));
            // Twice is enough.
            for _ in 0..2 {
                for other in 0..row {
                    let other = x.row(other, 0..size).expect("a dense matrix");
                    let sum = leaf.dot::<S, true>(other, line);
                    leaf.add::<S, false>(line, -sum, other);
                }
                let length = norm(line.iter().map(Cell::get));
                line.iter().for_each(|cell| {
                    let value = cell.get();
                    cell.set(S::new(value.re() / length, value.im() / length));
                });
            }
        }
        spare.iter_mut().zip(line).for_each(|(sum, cell)| *sum += cell.get().square());
    }
}
