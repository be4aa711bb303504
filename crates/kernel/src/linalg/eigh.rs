//! Eigenvalues and eigenvectors of Hermitian matrices: to tridiagonal form by reflections, then by
//! the implicit QL algorithm (Golub and Van Loan, "Matrix Computations", 8.3).

use super::leaf::Leaf;
use super::reflect::{norm, reflection};
use super::{Matrix, Part, Scalar};
use std::cell::Cell;

/// Most iterations for one eigenvalue.
const MOST: usize = 60;

/// Replaces `a` by its eigenvectors, as columns, and writes the eigenvalues in ascending order.
/// Only the lower triangle of `a` is read. False if there is no result: `a` is not finite.
/// `memory` has three columns, `wide` two.
pub(super) fn eigh<S: Scalar>(
    leaf: impl Leaf,
    a: Matrix<'_, S>,
    values: &[Cell<S::Part>],
    memory: &mut [S],
    wide: &mut [f64],
) -> bool {
    let size = a.rows();
    for row in 0..size {
        for column in row + 1..size {
            a.set(row, column, a.get(column, row).conj());
        }
        a.set(row, row, S::real(a.get(row, row).re()));
    }
    // Far from the ends of the range no square overflows or vanishes.
    let largest = (0..size)
        .flat_map(|row| (0..=row).map(move |column| a.get(row, column).rough_size()))
        .fold(0.0, f64::max);
    if !a.is_finite() {
        return false;
    }
    let scale = if largest > 1e-10 && largest < 1e10 || largest == 0.0 { 1.0 } else { largest };
    if scale != 1.0 {
        a.fill(|row, column| {
            let x = a.get(row, column);
            S::new(x.re() / scale, x.im() / scale)
        });
    }
    let (diagonal, beside) = wide.split_at_mut(size);
    tridiagonal(leaf, a, diagonal, beside, memory);
    if !ql(leaf, a, diagonal, beside, S::EPSILON) {
        return false;
    }
    // Ascending; the vectors are rows.
    for place in 0..size {
        let least = (place..size).min_by(|&m, &n| diagonal[m].total_cmp(&diagonal[n]));
        let least = least.unwrap_or(place);
        diagonal.swap(place, least);
        a.swap_rows(place, least);
        values[place].set(S::Part::of(diagonal[place] * scale));
    }
    a.transpose_in_place();
    true
}

/// Replaces a Hermitian matrix by the transpose of `q` with `q^H a q` tridiagonal, real, and gives
/// its diagonal and the elements beside it.
fn tridiagonal<S: Scalar>(
    leaf: impl Leaf,
    a: Matrix<'_, S>,
    diagonal: &mut [f64],
    beside: &mut [f64],
    memory: &mut [S],
) {
    let size = a.rows();
    let memory = super::cells(memory);
    let (taus, rest) = memory.split_at(size);
    let (w, v) = rest.split_at(size);
    for step in 0..size {
        diagonal[step] = a.get(step, step).re();
        if step + 1 == size {
            beside[step] = 0.0;
            break;
        }
        // The column below the diagonal is the conjugate of the row.
        let left = step + 1..size;
        let line = a.row(step, left.clone()).expect("a dense matrix");
        let below = line[1..].iter().map(Cell::get);
        let found = reflection(line[0].get().conj(), norm(below));
        taus[step].set(found.tau);
        beside[step] = found.beta;
        // The row keeps v.
        line[0].set(S::real(1.0));
        line[1..].iter().for_each(|cell| cell.set(cell.get().conj() * found.scale));
        if found.tau == S::default() {
            continue;
        }
        // w = tau A v - 1/2 tau (w^H v) v, then A -= v w^H + w v^H.
        let (w, v) = (&w[..line.len()], &v[..line.len()]);
        v.iter().zip(line).for_each(|(v, x)| v.set(x.get().conj()));
        for (w, row) in w.iter().zip(left.clone()) {
            let row = a.row(row, left.clone()).expect("a dense matrix");
            w.set(found.tau * leaf.dot::<S, false>(row, line));
        }
        let shift = found.tau * leaf.dot::<S, true>(w, line) * S::real(-0.5);
        leaf.add::<S, false>(w, shift, line);
        // Rows of v w^H and w v^H: conjugates of w and of v.
        for (n, row) in left.clone().enumerate() {
            let row = a.row(row, left.clone()).expect("a dense matrix");
            leaf.add::<S, true>(row, -line[n].get(), w);
            leaf.add::<S, false>(row, -w[n].get(), v);
        }
    }
    // The transpose of the reflections' product, from its last row on.
    for step in (0..size).rev() {
        let left = step + 1..size;
        if step + 1 < size {
            let tau = taus[step].get();
            let line = a.row(step, left.clone()).expect("a dense matrix");
            for row in left.clone() {
                let row = a.row(row, left.clone()).expect("a dense matrix");
                let sum = leaf.dot::<S, true>(line, row);
                leaf.add::<S, false>(row, -(tau * sum), line);
            }
        }
        for other in left {
            a.set(step, other, S::default());
            a.set(other, step, S::default());
        }
        a.set(step, step, S::real(1.0));
    }
}

/// Turns a tridiagonal matrix into a diagonal one, and the rows of `z` with it; false if that does
/// not end.
fn ql<S: Scalar>(
    leaf: impl Leaf,
    z: Matrix<'_, S>,
    d: &mut [f64],
    e: &mut [f64],
    epsilon: f64,
) -> bool {
    // Sums are f64s for narrow types, too; a few bits beyond the type's are enough.
    let epsilon = (epsilon * epsilon.sqrt()).max(f64::EPSILON);
    let size = d.len();
    for low in 0..size {
        for iteration in 0.. {
            let small = |m: usize| e[m].abs() <= epsilon * (d[m].abs() + d[m + 1].abs());
            let end = (low..size - 1).find(|&m| small(m)).unwrap_or(size - 1);
            if end == low {
                break;
            }
            if iteration == MOST {
                return false;
            }
            let mut g = (d[low + 1] - d[low]) / (2.0 * e[low]);
            g = d[end] - d[low] + e[low] / (g + g.hypot(1.0).copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut broken = false;
            for m in (low..end).rev() {
                let (f, b) = (s * e[m], c * e[m]);
                let r = f.hypot(g);
                e[m + 1] = r;
                if r == 0.0 {
                    d[m + 1] -= p;
                    e[end] = 0.0;
                    broken = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[m + 1] - p;
                let r = (d[m] - g) * s + 2.0 * c * b;
                p = s * r;
                d[m + 1] = g + p;
                g = c * r - b;
                let columns = 0..z.columns();
                let row = |n| z.row(n, columns.clone()).expect("a dense matrix");
                leaf.rotate(row(m), row(m + 1), c, s);
            }
            if !broken {
                d[low] -= p;
                e[low] = g;
                e[end] = 0.0;
            }
        }
    }
    true
}
