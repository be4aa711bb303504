//! Derivatives of linear algebra, as JAX has them (`jax/_src/lax/linalg.py`), and batches, which
//! are a further leading axis.

use super::super::{
    Cholesky, Eigh, Geqrf, HouseholderProduct, Lu, OpView, Qr, Svd, TriangularSolve,
};
use crate::builder::Builder;
use crate::function::ValueId;
use crate::linalg::{
    adjoint, along, conjugate, diagonal, identity, lower_triangle, lu, permutation,
    permutation_matrix, product, solve_lu, transpose, triangular_solve, upper_triangle,
};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::linalg::{Solve, Turn, Vectors};

type Built = Result<ValueId, String>;

/// `l x = b` for a lower triangle `l`.
const LOWER: Solve = Solve { left: true, lower: true, unit: false, turn: Turn::None };
/// `x u = b` for an upper triangle `u`.
const RIGHT_UPPER: Solve = Solve { left: false, lower: false, unit: false, turn: Turn::None };

macro_rules! batches {
    () => {
        fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
            cx.is_elementwise(op)
        }
    };
}

macro_rules! not_linear {
    () => {
        fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
            none(op, "transpose", "it is not linear")
        }
    };
}

/// The lower triangle with half the diagonal.
fn half_triangle(b: &mut Builder<'_>, x: ValueId) -> Built {
    let (whole, strict) = (lower_triangle(b, x, 0)?, lower_triangle(b, x, -1)?);
    let (sum, half) = (b.add(whole, strict)?, b.full_like(x, 0.5)?);
    b.multiply(sum, half)
}

/// The Hermitian matrix of which one triangle is given.
fn hermitian(b: &mut Builder<'_>, x: ValueId, lower: bool) -> Built {
    let x = if lower { x } else { adjoint(b, x)? };
    let triangle = half_triangle(b, x)?;
    let other = adjoint(b, triangle)?;
    b.add(triangle, other)
}

fn real(b: &mut Builder<'_>, x: ValueId) -> Built {
    if b.function.ty(x).dtype.is_complex() { b.elementwise("stablehlo.real", &[x]) } else { Ok(x) }
}

impl Rules for Cholesky {
    /// Murray, "Differentiation of the Cholesky decomposition", 2016.
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let factor = cx.copy(op)[0];
        let Some(tangent) = cx.tangent(op.operand(0)) else { return Ok(()) };
        let factor = cx.residual(factor);
        let b = &mut cx.linear();
        let l = if self.lower { factor } else { adjoint(b, factor)? };
        let tangent = hermitian(b, tangent, self.lower)?;
        let right = Solve { left: false, turn: Turn::Adjoint, ..LOWER };
        let inner = triangular_solve(b, l, tangent, right)?;
        let inner = triangular_solve(b, l, inner, LOWER)?;
        let inner = half_triangle(b, inner)?;
        let tangent = product(b, l, inner)?;
        let tangent = if self.lower { tangent } else { adjoint(b, tangent)? };
        cx.bind_tangent(op.result(0), tangent);
        Ok(())
    }

    not_linear!();
    batches!();
}

impl Rules for TriangularSolve {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let x = cx.copy(op)[0];
        let solve = self.solve;
        let mut right = cx.tangent(op.operand(1));
        if let Some(tangent) = cx.tangent(op.operand(0)) {
            // op(a) x = b: op(a) x' = b' - op(a') x.
            let x = cx.residual(x);
            let b = &mut cx.linear();
            let shift = i64::from(solve.unit);
            let tangent = if solve.lower {
                lower_triangle(b, tangent, -shift)?
            } else {
                upper_triangle(b, tangent, shift)?
            };
            let tangent = match solve.turn {
                Turn::None => tangent,
                Turn::Transpose => transpose(b, tangent)?,
                Turn::Adjoint => adjoint(b, tangent)?,
            };
            let moved = if solve.left { product(b, tangent, x)? } else { product(b, x, tangent)? };
            right = Some(match right {
                Some(right) => b.subtract(right, moved)?,
                None => b.negate(moved)?,
            });
        }
        let Some(right) = right else { return Ok(()) };
        let a = cx.residual_of(op.operand(0));
        let tangent = cx.linear().one(self.clone(), &[a, right])?;
        cx.bind_tangent(op.result(0), tangent);
        Ok(())
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let (a, right) = (op.operand(0), op.operand(1));
        if cx.is_linear(a) {
            return none(op, "transpose", "it is not linear in the triangular matrix");
        }
        let Some(cotangent) = cx.cotangent(op.result(0)) else { return Ok(()) };
        let a = cx.value(a);
        let b = &mut cx.builder();
        let (a, turn) = match self.solve.turn {
            Turn::None => (a, Turn::Transpose),
            Turn::Transpose => (a, Turn::None),
            Turn::Adjoint => (conjugate(b, a)?, Turn::None),
        };
        let cotangent = triangular_solve(b, a, cotangent, Solve { turn, ..self.solve })?;
        cx.add(right, cotangent)
    }

    batches!();
}

impl Rules for Lu {
    /// De Hoog, Anderssen and Lukas, "Differentiation of matrix functionals using triangular
    /// factorization", 2011.
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let results = cx.copy(op);
        let Some(tangent) = cx.tangent(op.operand(0)) else { return Ok(()) };
        let ty = op.operand_type(0).clone();
        let rank = ty.rank();
        let [rows, columns] = [ty.shape[rank - 2], ty.shape[rank - 1]];
        let short = rows.min(columns);
        let square = |size: u64| {
            let mut shape = ty.shape.clone();
            (shape[rank - 2], shape[rank - 1]) = (size, size);
            TensorType::new(shape, ty.dtype)
        };
        let b = &mut cx.primal();
        let one = b.full_like(results[1], 1.0)?;
        let pivots = b.subtract(results[1], one)?;
        let order = permutation(b, pivots, rows)?;
        let swapped = permutation_matrix(b, order, ty.dtype)?;
        let zero = b.zeros(&TensorType::scalar(ty.dtype))?;
        // Square triangles, with ones on the diagonal where there is no pivot.
        let mut high = vec![0; rank];
        high[rank - 1] = rows as i64 - short as i64;
        let (none, still) = (vec![0; rank], vec![0; rank]);
        let l = b.slice_axis(results[0], rank - 1, 0, short)?;
        let l = lower_triangle(b, l, -1)?;
        let l = b.pad(l, zero, &none, &high, &still)?;
        let one = identity(b, &square(rows))?;
        let l = b.add(l, one)?;
        high = vec![0; rank];
        high[rank - 2] = columns as i64 - short as i64;
        let u = b.slice_axis(results[0], rank - 2, 0, short)?;
        let u = upper_triangle(b, u, 0)?;
        let u = b.pad(u, zero, &none, &high, &still)?;
        let mut corner = square(columns - short);
        corner.dtype = ty.dtype;
        let one = identity(b, &corner)?;
        let low = {
            let mut low = vec![0; rank];
            (low[rank - 2], low[rank - 1]) = (short as i64, short as i64);
            low
        };
        let one = b.pad(one, zero, &low, &none, &still)?;
        let u = b.add(u, one)?;
        let (swapped, l, u) = (cx.residual(swapped), cx.residual(l), cx.residual(u));
        let b = &mut cx.linear();
        let inner = product(b, swapped, tangent)?;
        let inner = triangular_solve(b, l, inner, Solve { unit: true, ..LOWER })?;
        let inner = triangular_solve(b, u, inner, RIGHT_UPPER)?;
        let (below, above) = (lower_triangle(b, inner, -1)?, upper_triangle(b, inner, 0)?);
        let (below, above) = (product(b, l, below)?, product(b, above, u)?);
        let tangent = b.add(below, above)?;
        cx.bind_tangent(op.result(0), tangent);
        Ok(())
    }

    not_linear!();
    batches!();
}

impl Rules for Eigh {
    /// Of eigenvalues that differ: Giles, "Collected matrix derivative results", 2008, 3.1.
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let results = cx.copy(op);
        let Some(tangent) = cx.tangent(op.operand(0)) else { return Ok(()) };
        let ty = op.operand_type(0).clone();
        let b = &mut cx.primal();
        let values = b.convert(results[1], ty.dtype)?;
        let one = identity(b, &ty)?;
        let (rows, columns) =
            (along(b, values, &ty.shape, true)?, along(b, values, &ty.shape, false)?);
        let apart = b.subtract(columns, rows)?;
        let apart = b.add(apart, one)?;
        let ones = b.full(&ty, 1.0)?;
        let factors = b.divide(ones, apart)?;
        let factors = b.subtract(factors, one)?;
        let (v, factors) = (cx.residual(results[0]), cx.residual(factors));
        let b = &mut cx.linear();
        let tangent = hermitian(b, tangent, self.lower)?;
        let back = adjoint(b, v)?;
        let inner = product(b, back, tangent)?;
        let inner = product(b, inner, v)?;
        let turned = b.multiply(factors, inner)?;
        let vectors = product(b, v, turned)?;
        let values = real(b, inner)?;
        let values = diagonal(b, values)?;
        cx.bind_tangent(op.result(0), vectors);
        cx.bind_tangent(op.result(1), values);
        Ok(())
    }

    not_linear!();
    batches!();
}

impl Rules for Svd {
    /// Of singular values that differ: Giles, as above, 3.2.
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let ty = op.operand_type(0).clone();
        let rank = ty.rank();
        let [rows, columns] = [ty.shape[rank - 2], ty.shape[rank - 1]];
        let Vectors { computed, full } = self.vectors;
        if computed && full && rows != columns {
            return none(op, "derivative", "there are vectors of no singular value");
        }
        let mut results = cx.copy(op);
        let Some(tangent) = cx.tangent(op.operand(0)) else { return Ok(()) };
        if !computed {
            let a = cx.value(op.operand(0));
            let op = Svd { vectors: Vectors { computed: true, full: false } };
            results = cx.primal().push(op, &[a], &[])?;
        }
        let (s, u, vt) = (results[1], results[2], results[3]);
        let (u, vt) = (cx.residual(u), cx.residual(vt));
        let b = &mut cx.linear();
        let (ut, v) = (adjoint(b, u)?, adjoint(b, vt)?);
        let inner = product(b, ut, tangent)?;
        let inner = product(b, inner, v)?;
        let values = real(b, inner)?;
        let values = diagonal(b, values)?;
        cx.bind_tangent(op.result(1), values);
        if !computed {
            return Ok(());
        }
        let factors = factors(&mut cx.primal(), s, &ty)?;
        let [apart, by_row, by_column, inverse] = factors.map(|factor| cx.residual(factor));
        let b = &mut cx.linear();
        let both = |b: &mut Builder<'_>, x: ValueId| {
            let other = adjoint(b, x)?;
            b.add(x, other)
        };
        let right = b.multiply(by_column, inner)?;
        let right = both(b, right)?;
        let right = b.multiply(apart, right)?;
        // What only a complex inner matrix has: a phase.
        let other = adjoint(b, inner)?;
        let skew = b.subtract(inner, other)?;
        let skew = b.multiply(skew, inverse)?;
        let right = b.add(right, skew)?;
        let mut left_vectors = product(b, u, right)?;
        let left = b.multiply(by_row, inner)?;
        let left = both(b, left)?;
        let left = b.multiply(apart, left)?;
        let mut right_vectors = product(b, v, left)?;
        let over = |b: &mut Builder<'_>, x: ValueId, s: ValueId| {
            let shape = b.ty(x).shape;
            let s = along(b, s, &shape, false)?;
            b.divide(x, s)
        };
        let s = cx.residual(s);
        let b = &mut cx.linear();
        let s = b.convert(s, ty.dtype)?;
        if rows > columns {
            let moved = product(b, tangent, v)?;
            let inside = product(b, u, inner)?;
            let outside = b.subtract(moved, inside)?;
            let outside = over(b, outside, s)?;
            left_vectors = b.add(left_vectors, outside)?;
        }
        if columns > rows {
            let back = adjoint(b, tangent)?;
            let moved = product(b, back, u)?;
            let turned = adjoint(b, inner)?;
            let inside = product(b, v, turned)?;
            let outside = b.subtract(moved, inside)?;
            let outside = over(b, outside, s)?;
            right_vectors = b.add(right_vectors, outside)?;
        }
        let right_vectors = adjoint(b, right_vectors)?;
        cx.bind_tangent(op.result(2), left_vectors);
        cx.bind_tangent(op.result(3), right_vectors);
        Ok(())
    }

    not_linear!();
    batches!();
}

/// Matrices of factors from singular values: `1 / (s_j^2 - s_i^2)` off the diagonal, `s_i`, `s_j`, and
/// `1 / (2 s_i)` on the diagonal, where `s_i` is not 0.
fn factors(b: &mut Builder<'_>, s: ValueId, a: &TensorType) -> Result<[ValueId; 4], String> {
    let mut ty = b.ty(s);
    ty.shape.push(ty.shape[ty.rank() - 1]);
    let (rows, columns) = (along(b, s, &ty.shape, true)?, along(b, s, &ty.shape, false)?);
    let one = identity(b, &ty)?;
    let ones = b.full(&ty, 1.0)?;
    let (sum, difference) = (b.add(columns, rows)?, b.subtract(columns, rows)?);
    let apart = b.multiply(sum, difference)?;
    let apart = b.add(apart, one)?;
    let apart = b.divide(ones, apart)?;
    let apart = b.subtract(apart, one)?;
    let zero = b.zeros(&ty)?;
    let is_zero = b.compare(jaxrs_kernel::Compare::Eq, rows, zero)?;
    let safe = b.select(is_zero, ones, rows)?;
    let half = b.full(&ty, 0.5)?;
    let inverse = b.divide(half, safe)?;
    let inverse = b.select(is_zero, zero, inverse)?;
    let inverse = b.multiply(inverse, one)?;
    let mut out = [apart, rows, columns, inverse];
    for factor in &mut out {
        *factor = b.convert(*factor, a.dtype)?;
    }
    Ok(out)
}

impl Rules for Qr {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        let results = cx.copy(op);
        let Some(tangent) = cx.tangent(op.operand(0)) else { return Ok(()) };
        let ty = op.operand_type(0).clone();
        let rank = ty.rank();
        let [rows, columns] = [ty.shape[rank - 2], ty.shape[rank - 1]];
        let (q, r) = (results[0], results[1]);
        let (q_tangent, r_tangent) = if rows < columns {
            // a = (a1 a2) = (q r1  q r2), r2 = q^H a2.
            let second = {
                let a = cx.value(op.operand(0));
                cx.primal().slice_axis(a, rank - 1, rows, columns)?
            };
            let first = cx.primal().slice_axis(r, rank - 1, 0, rows)?;
            let (q, first, second) = (cx.residual(q), cx.residual(first), cx.residual(second));
            let b = &mut cx.linear();
            let t1 = b.slice_axis(tangent, rank - 1, 0, rows)?;
            let t2 = b.slice_axis(tangent, rank - 1, rows, columns)?;
            let [q_tangent, r1] = thin(b, q, first, t1)?;
            let (turned, back) = (adjoint(b, q_tangent)?, adjoint(b, q)?);
            let (x, y) = (product(b, turned, second)?, product(b, back, t2)?);
            let r2 = b.add(x, y)?;
            (q_tangent, b.concatenate(&[r1, r2], rank - 1)?)
        } else if self.full && rows > columns {
            full(cx, q, r, tangent, [rows, columns])?
        } else {
            let (q, r) = (cx.residual(q), cx.residual(r));
            let [q, r] = thin(&mut cx.linear(), q, r, tangent)?;
            (q, r)
        };
        cx.bind_tangent(op.result(0), q_tangent);
        cx.bind_tangent(op.result(1), r_tangent);
        Ok(())
    }

    not_linear!();
    batches!();
}

/// Tangents of `q` and `r` for a matrix with at least as many rows as columns (Townsend,
/// "Differentiating the QR decomposition", 2018).
fn thin(
    b: &mut Builder<'_>,
    q: ValueId,
    r: ValueId,
    tangent: ValueId,
) -> Result<[ValueId; 2], String> {
    let scaled = triangular_solve(b, r, tangent, RIGHT_UPPER)?;
    let back = adjoint(b, q)?;
    let inner = product(b, back, scaled)?;
    let below = lower_triangle(b, inner, -1)?;
    let above = adjoint(b, below)?;
    let mut turn = b.subtract(below, above)?;
    if b.function.ty(q).dtype.is_complex() {
        // The imaginary part of the diagonal.
        let other = conjugate(b, inner)?;
        let (twice, half) = (b.subtract(inner, other)?, b.full_like(inner, 0.5)?);
        let imaginary = b.multiply(twice, half)?;
        let imaginary = lower_triangle(b, imaginary, 0)?;
        let imaginary = upper_triangle(b, imaginary, 0)?;
        turn = b.add(turn, imaginary)?;
    }
    let rest = b.subtract(turn, inner)?;
    let q_tangent = product(b, q, rest)?;
    let q_tangent = b.add(q_tangent, scaled)?;
    let rest = b.negate(rest)?;
    Ok([q_tangent, product(b, rest, r)?])
}

/// Tangents of a square `q` and of `r` for a tall matrix (Roberts and Roberts, "QR and LQ
/// decomposition matrix backpropagation", 2020, and arXiv 2409.13374).
fn full(
    cx: &mut Jvp<'_>,
    q: ValueId,
    r: ValueId,
    tangent: ValueId,
    [rows, columns]: [u64; 2],
) -> Result<(ValueId, ValueId), String> {
    let b = &mut cx.primal();
    let rank = b.ty(q).rank();
    let (first, rest) =
        (b.slice_axis(q, rank - 1, 0, columns)?, b.slice_axis(q, rank - 1, columns, rows)?);
    let square = b.slice_axis(r, rank - 2, 0, columns)?;
    let (top, bottom) =
        (b.slice_axis(first, rank - 2, 0, columns)?, b.slice_axis(first, rank - 2, columns, rows)?);
    // z = bottom (top - 1)^-1.
    let ty = b.ty(top);
    let one = identity(b, &ty)?;
    let moved = b.subtract(top, one)?;
    let moved = adjoint(b, moved)?;
    let bottom = adjoint(b, bottom)?;
    let [factors, _, order] = lu(b, moved)?;
    let z_adjoint = solve_lu(b, factors, order, bottom)?;
    let z = adjoint(b, z_adjoint)?;
    let span = product(b, rest, z)?;
    let span = b.add(first, span)?;
    let (first, square) = (cx.residual(first), cx.residual(square));
    let (z, z_adjoint, span) = (cx.residual(z), cx.residual(z_adjoint), cx.residual(span));
    let b = &mut cx.linear();
    let [q_tangent, r_tangent] = thin(b, first, square, tangent)?;
    let (top, bottom) = (
        b.slice_axis(q_tangent, rank - 2, 0, columns)?,
        b.slice_axis(q_tangent, rank - 2, columns, rows)?,
    );
    let inner = product(b, z, top)?;
    let inner = b.subtract(bottom, inner)?;
    let inner = adjoint(b, inner)?;
    let (x, y) = (product(b, q_tangent, z_adjoint)?, product(b, span, inner)?);
    let others = b.subtract(x, y)?;
    let q_tangent = b.concatenate(&[q_tangent, others], rank - 1)?;
    let mut below = b.ty(r_tangent);
    below.shape[rank - 2] = rows - columns;
    let zeros = b.zeros(&below)?;
    Ok((q_tangent, b.concatenate(&[r_tangent, zeros], rank - 2)?))
}

macro_rules! halves_of_qr {
    ($($op:ident),*) => {
        $(impl Rules for $op {
            fn jvp(&self, _: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
                none(op, "derivative", "jaxrs.qr has one")
            }

            not_linear!();
            batches!();
        })*
    };
}
halves_of_qr!(Geqrf, HouseholderProduct);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg;
    use crate::transform::testing::{Options, check_body, check_with, function, spread, values};
    use crate::{DType, Function, Literal};

    const COMPLEX: DType = DType::C128;

    fn complex(shape: &[u64], seed: u64) -> Literal {
        spread(COMPLEX, shape, -2.0, 2.0, seed)
    }

    fn of(
        inputs: &[Literal],
        body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
    ) -> Function {
        let types: Vec<TensorType> = inputs.iter().map(|l| l.ty().clone()).collect();
        function(&types, body)
    }

    /// Loops over pivots take long to differentiate twice.
    fn once(inputs: &[Literal], f: &Function) {
        check_with(f, inputs, Options { second: false, ..Options::default() });
    }

    /// A matrix whose values are apart.
    fn apart(b: &mut Builder<'_>, x: ValueId) -> Built {
        let ty = b.ty(x);
        let columns = b.iota(&ty, ty.rank() - 1)?;
        let one = identity(b, &ty)?;
        let (diagonal, six) = (b.multiply(one, columns)?, b.full(&ty, 6.0)?);
        let diagonal = b.multiply(diagonal, six)?;
        let diagonal = b.add(diagonal, one)?;
        b.add(x, diagonal)
    }

    /// The squares of magnitudes, which no sign or phase changes.
    fn squares(b: &mut Builder<'_>, x: ValueId) -> Built {
        let other = conjugate(b, x)?;
        let square = b.multiply(x, other)?;
        real(b, square)
    }

    #[test]
    fn factors_of_positive_definite_matrices() {
        for (x, lower) in [
            (values(&[3, 3], 1), true),
            (values(&[2, 2, 2], 2), false),
            (complex(&[2, 2], 3), true),
        ] {
            check_body(&[x], |b, x| {
                let other = adjoint(b, x[0])?;
                let square = product(b, x[0], other)?;
                let ty = b.ty(square);
                let one = identity(b, &ty)?;
                let a = b.add(square, one)?;
                Ok(vec![linalg::cholesky(b, a, lower)?])
            });
        }
        // One triangle alone counts.
        check_body(&[values(&[2, 2], 4)], |b, x| {
            let a = apart(b, x[0])?;
            let a = apart(b, a)?;
            Ok(vec![linalg::cholesky(b, a, true)?, linalg::cholesky(b, a, false)?])
        });
    }

    #[test]
    fn triangular_systems() {
        for number in 0..24 {
            let (left, lower, unit) = (number & 1 == 0, number & 2 == 0, number & 4 == 0);
            let turn = [Turn::None, Turn::Transpose, Turn::Adjoint][number / 8];
            let shape: &[u64] = if left { &[2, 3] } else { &[3, 2] };
            let inputs = if turn == Turn::Adjoint {
                [complex(&[2, 2], 5), complex(shape, 6)]
            } else {
                [values(&[2, 2], 5), values(shape, 6)]
            };
            let f = of(&inputs, |b, x| {
                let a = apart(b, x[0])?;
                Ok(vec![triangular_solve(b, a, x[1], Solve { left, lower, unit, turn })?])
            });
            // Batches do not depend on the system.
            let all = number % 8 == 0;
            check_with(&f, &inputs, Options { second: all, batch: all, ..Options::default() });
        }
    }

    #[test]
    fn lu_and_what_is_solved_by_it() {
        for shape in [[3, 3], [2, 3], [3, 2]] {
            let inputs = [values(&shape, 7)];
            once(&inputs, &of(&inputs, |b, x| Ok(vec![linalg::lu(b, x[0])?[0]])));
        }
        let inputs = [values(&[2, 3, 3], 8), values(&[2, 3, 1], 9)];
        once(&inputs, &of(&inputs, |b, x| Ok(vec![linalg::solve(b, x[0], x[1])?])));
        let inputs = [complex(&[2, 2], 10)];
        once(&inputs, &of(&inputs, |b, x| Ok(vec![linalg::inverse(b, x[0])?])));
    }

    #[test]
    fn eigenvalues_and_vectors() {
        for (x, lower) in [(values(&[3, 3], 11), true), (complex(&[2, 2], 12), false)] {
            check_body(&[x], |b, x| {
                let a = apart(b, x[0])?;
                let [w, v] = linalg::eigh(b, a, lower)?;
                Ok(vec![w, squares(b, v)?])
            });
        }
    }

    #[test]
    fn singular_values_and_vectors() {
        for x in
            [values(&[2, 2], 13), values(&[3, 2], 14), values(&[2, 3], 15), complex(&[2, 3], 16)]
        {
            let square = x.ty().shape[0] == x.ty().shape[1];
            check_body(&[x], |b, x| {
                let a = apart(b, x[0])?;
                let [u, s, vt] = linalg::svd(b, a, square)?;
                Ok(vec![s, squares(b, u)?, squares(b, vt)?, linalg::singular_values(b, a)?])
            });
        }
        let a = values(&[2, 3], 17);
        let f = of(&[a], |b, x| Ok(linalg::svd(b, x[0], true)?.to_vec()));
        let error = crate::transform::jvp(&f, &[true]).err().expect("no derivative").message;
        assert_eq!(error, "jaxrs.svd has no derivative: there are vectors of no singular value");
    }

    #[test]
    fn orthonormal_columns() {
        for (x, full) in [
            (values(&[3, 3], 18), false),
            (values(&[3, 2], 19), false),
            (values(&[2, 3], 20), true),
            (complex(&[3, 2], 21), false),
        ] {
            check_body(&[x], |b, x| {
                let a = apart(b, x[0])?;
                Ok(linalg::qr(b, a, full)?.to_vec())
            });
        }
        let inputs = [values(&[3, 2], 22)];
        once(&inputs, &of(&inputs, |b, x| Ok(linalg::qr(b, x[0], true)?.to_vec())));
    }
}
