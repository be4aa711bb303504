//! Householder's reflections, as LAPACK makes and stores them.

use super::leaf::Leaf;
use super::{Matrix, Scalar};
use std::cell::Cell;

/// The reflection `h = 1 - tau v v^H` with `h^H (alpha, x) = (beta, 0)` and `v = (1, ...)`.
pub(super) struct Reflection<S> {
    /// Zero: there is nothing to reflect.
    pub(super) tau: S,
    /// What is left, a real number.
    pub(super) beta: f64,
    /// What `x` is multiplied by to give the rest of `v`.
    pub(super) scale: S,
}

/// The reflection of a vector whose first element is `alpha` and the rest of which has this norm.
pub(super) fn reflection<S: Scalar>(alpha: S, norm: f64) -> Reflection<S> {
    if norm == 0.0 && alpha.im() == 0.0 {
        return Reflection { tau: S::default(), beta: alpha.re(), scale: S::default() };
    }
    let beta = -alpha.size().hypot(norm).copysign(alpha.re());
    let tau = S::new((beta - alpha.re()) / beta, -alpha.im() / beta);
    // In f64 also for narrow types: the difference may have no more bits there.
    let (re, im) = (alpha.re() - beta, alpha.im());
    let size = re * re + im * im;
    let scale = if S::COMPLEX && size.is_normal() {
        S::new(re / size, -im / size)
    } else {
        S::real(1.0).over(S::new(re, im))
    };
    Reflection { tau, beta, scale }
}

/// The Euclidean norm.
pub(super) fn norm<S: Scalar>(elements: impl Iterator<Item = S> + Clone) -> f64 {
    let sum: f64 = elements.clone().map(Scalar::square).sum();
    if (sum.is_normal() && sum > 1e-280) || sum.is_nan() {
        return sum.sqrt();
    }
    // The squares of f64s may overflow or vanish.
    let largest = elements.clone().map(Scalar::rough_size).fold(0.0, f64::max);
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let scaled = |x: S| {
        let (re, im) = (x.re() / largest, x.im() / largest);
        re * re + im * im
    };
    elements.map(scaled).sum::<f64>().sqrt() * largest
}

/// Replaces `a` by `r` and, below the diagonal, the reflections whose product is `q`.
/// `memory` has a row and a column.
pub(super) fn qr<S: Scalar>(leaf: impl Leaf, a: Matrix<'_, S>, taus: &[Cell<S>], memory: &mut [S]) {
    let (rows, columns) = (a.rows(), a.columns());
    let (v, memory) = memory.split_at_mut(rows);
    for step in 0..rows.min(columns) {
        let below = (step + 1..rows).map(|row| a.get(row, step));
        let found = reflection(a.get(step, step), norm(below));
        taus[step].set(found.tau);
        v[step] = S::real(1.0);
        for row in step + 1..rows {
            v[row] = a.get(row, step) * found.scale;
            a.set(row, step, v[row]);
        }
        a.set(step, step, S::real(found.beta));
        let rest = a.block(step..rows, step + 1..columns);
        reflect(leaf, rest, &v[step..], found.tau.conj(), memory);
    }
}

/// `a = (1 - tau v v^H) a`; `memory` has a row.
fn reflect<S: Scalar>(leaf: impl Leaf, a: Matrix<'_, S>, v: &[S], tau: S, memory: &mut [S]) {
    if tau == S::default() || a.columns() == 0 {
        return;
    }
    let columns = 0..a.columns();
    let product = super::cells(&mut memory[..a.columns()]);
    product.iter().for_each(|cell| cell.set(S::default()));
    for row in 0..a.rows() {
        let line = a.row(row, columns.clone()).expect("a dense matrix");
        leaf.add::<S, false>(product, v[row].conj(), line);
    }
    for row in 0..a.rows() {
        let line = a.row(row, columns.clone()).expect("a dense matrix");
        leaf.add::<S, false>(line, -(tau * v[row]), product);
    }
}

/// Replaces reflections, stored as [`qr`] does, by the first columns of their product.
/// `memory` has a row and a column.
pub(super) fn product<S: Scalar>(
    leaf: impl Leaf,
    a: Matrix<'_, S>,
    taus: &[Cell<S>],
    memory: &mut [S],
) {
    let (rows, columns) = (a.rows(), a.columns());
    let (v, memory) = memory.split_at_mut(rows);
    let one = S::real(1.0);
    let identity = |row, column| if row == column { one } else { S::default() };
    for column in taus.len()..columns {
        (0..rows).for_each(|row| a.set(row, column, identity(row, column)));
    }
    for step in (0..taus.len()).rev() {
        let tau = taus[step].get();
        v[step] = one;
        (step + 1..rows).for_each(|row| v[row] = a.get(row, step));
        let rest = a.block(step..rows, step + 1..columns);
        reflect(leaf, rest, &v[step..], tau, memory);
        for row in 0..rows {
            let value = identity(row, step);
            a.set(row, step, if row < step { value } else { value - tau * v[row] });
        }
    }
}
