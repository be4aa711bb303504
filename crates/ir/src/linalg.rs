//! Linear algebra as ops: what JAX composes of the ops that there are, on the matrices of the last
//! two axes.
//!
//! Functions append to a [`Builder`]; their errors are those of the ops' `infer`.

use crate::builder::Builder;
use crate::function::ValueId;
use crate::ops::{Cholesky, DotGeneral, DynamicSlice, Eigh, Lu, Qr, Svd, TriangularSolve, While};
use crate::types::TensorType;
use jaxrs_kernel::linalg::{Solve, Turn, Vectors};
use jaxrs_kernel::{Compare as Direction, DType};

type Built = Result<ValueId, String>;

/// Rows and columns of the matrices; an error where there are no two axes.
pub fn extents(b: &Builder<'_>, x: ValueId) -> Result<[u64; 2], String> {
    let ty = b.function.ty(x);
    match ty.shape[..] {
        [.., rows, columns] => Ok([rows, columns]),
        _ => Err(format!("linear algebra: {ty} has no two axes")),
    }
}

/// The same elements with imaginary parts negated.
pub fn conjugate(b: &mut Builder<'_>, x: ValueId) -> Built {
    if b.function.ty(x).dtype.is_complex() { b.elementwise("chlo.conj", &[x]) } else { Ok(x) }
}

/// The transposed matrices.
pub fn transpose(b: &mut Builder<'_>, x: ValueId) -> Built {
    let rank = b.function.ty(x).rank();
    if rank < 2 {
        return Err(format!("linear algebra: {} has no two axes", b.function.ty(x)));
    }
    b.move_axis(x, rank - 2, rank - 1)
}

/// The conjugates of the transposed matrices.
pub fn adjoint(b: &mut Builder<'_>, x: ValueId) -> Built {
    let x = transpose(b, x)?;
    conjugate(b, x)
}

/// The products of matrices.
pub fn product(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Built {
    let ty = b.ty(x);
    let rank = ty.rank().max(2);
    let batch: Vec<usize> = (0..rank - 2).collect();
    let op = DotGeneral {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contracting: vec![rank - 1],
        rhs_contracting: vec![rank - 2],
        result: ty.dtype,
    };
    b.one(op, &[x, y])
}

/// A truth value for each element: whether its column stands in this relation to its row plus
/// `shift`.
fn mask(b: &mut Builder<'_>, shape: &[u64], relation: Direction, shift: i64) -> Built {
    let rank = shape.len();
    let ty = TensorType::new(shape, DType::I32);
    let (rows, columns) = (b.iota(&ty, rank - 2)?, b.iota(&ty, rank - 1)?);
    let shift = b.full(&ty, shift as f64)?;
    let rows = b.add(rows, shift)?;
    b.compare(relation, columns, rows)
}

/// The elements on and below the diagonal that is `shift` columns right of the main one.
pub fn lower_triangle(b: &mut Builder<'_>, x: ValueId, shift: i64) -> Built {
    let [_, _] = extents(b, x)?;
    let shape = b.ty(x).shape;
    let (mask, zero) = (mask(b, &shape, Direction::Le, shift)?, b.full_like(x, 0.0)?);
    b.select(mask, x, zero)
}

/// The elements on and above such a diagonal.
pub fn upper_triangle(b: &mut Builder<'_>, x: ValueId, shift: i64) -> Built {
    let [_, _] = extents(b, x)?;
    let shape = b.ty(x).shape;
    let (mask, zero) = (mask(b, &shape, Direction::Ge, shift)?, b.full_like(x, 0.0)?);
    b.select(mask, x, zero)
}

/// Ones on the diagonal of matrices of this type.
pub fn identity(b: &mut Builder<'_>, ty: &TensorType) -> Built {
    let mask = mask(b, &ty.shape, Direction::Eq, 0)?;
    let (one, zero) = (b.full(ty, 1.0)?, b.zeros(ty)?);
    b.select(mask, one, zero)
}

/// The diagonals of square matrices.
pub fn diagonal(b: &mut Builder<'_>, x: ValueId) -> Built {
    let ty = b.ty(x);
    let (mask, zero) = (mask(b, &ty.shape, Direction::Eq, 0)?, b.zeros(&ty)?);
    let only = b.select(mask, x, zero)?;
    b.sum(only, &[ty.rank() - 1])
}

/// Rows (or columns) of factors repeated to matrices of a shape: element `n` of the last axis for
/// each row `n` (or column).
pub fn along(b: &mut Builder<'_>, x: ValueId, shape: &[u64], by_row: bool) -> Built {
    let rank = shape.len();
    let last = if by_row { rank - 2 } else { rank - 1 };
    let axes: Vec<usize> = (0..rank - 2).chain([last]).collect();
    b.broadcast_in_dim(x, shape, &axes)
}

/// `(x + x^H) / 2`.
pub fn symmetrize(b: &mut Builder<'_>, x: ValueId) -> Built {
    let other = adjoint(b, x)?;
    let (sum, half) = (b.add(x, other)?, b.full_like(x, 0.5)?);
    b.multiply(sum, half)
}

/// The lower factor `l` of `a = l l^H`, or the upper one, its adjoint; NaN where `a` is not positive
/// definite. One triangle is read.
pub fn cholesky(b: &mut Builder<'_>, a: ValueId, lower: bool) -> Built {
    b.one(Cholesky { lower, info: false }, &[a])
}

/// Solves systems with triangular matrices.
pub fn triangular_solve(b: &mut Builder<'_>, a: ValueId, x: ValueId, solve: Solve) -> Built {
    b.one(TriangularSolve { solve }, &[a, x])
}

/// `q` and `r` of `a = q r`.
pub fn qr(b: &mut Builder<'_>, a: ValueId, full: bool) -> Result<[ValueId; 2], String> {
    let results = b.push(Qr { full }, &[a], &[])?;
    Ok([results[0], results[1]])
}

/// `u`, `s`, `v^H` of `a = u diag(s) v^H`.
pub fn svd(b: &mut Builder<'_>, a: ValueId, full: bool) -> Result<[ValueId; 3], String> {
    let results = b.push(Svd { vectors: Vectors { computed: true, full } }, &[a], &[])?;
    Ok([results[2], results[1], results[3]])
}

/// Singular values, descending.
pub fn singular_values(b: &mut Builder<'_>, a: ValueId) -> Built {
    Ok(b.push(Svd { vectors: Vectors { computed: false, full: false } }, &[a], &[])?[1])
}

/// Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which one triangle is read.
pub fn eigh(b: &mut Builder<'_>, a: ValueId, lower: bool) -> Result<[ValueId; 2], String> {
    let results = b.push(Eigh { lower }, &[a], &[])?;
    Ok([results[1], results[0]])
}

/// `l` and `u` in one, the row swapped with each, from 0, and the rows in their new order (both
/// `i32`).
pub fn lu(b: &mut Builder<'_>, a: ValueId) -> Result<[ValueId; 3], String> {
    let [rows, _] = extents(b, a)?;
    let results = b.push(Lu, &[a], &[])?;
    let one = b.full_like(results[1], 1.0)?;
    let pivots = b.subtract(results[1], one)?;
    let order = permutation(b, pivots, rows)?;
    Ok([results[0], pivots, order])
}

/// Rows in the order that swapping each with its pivot gives.
pub fn permutation(b: &mut Builder<'_>, pivots: ValueId, rows: u64) -> Built {
    let mut ty = b.ty(pivots);
    let axis = ty.rank() - 1;
    let steps = ty.shape[axis];
    let one_each = {
        let mut shape = ty.shape.clone();
        shape[axis] = 1;
        shape
    };
    ty.shape[axis] = rows;
    let order = b.iota(&ty, axis)?;
    if steps == 0 || ty.is_empty() {
        return Ok(order);
    }
    let index = TensorType::scalar(DType::I32);
    let carried = [index.clone(), ty.clone(), b.ty(pivots)];
    let condition = b.region(&carried, |b, x| {
        let end = b.full(&index, steps as f64)?;
        Ok(vec![b.compare(Direction::Lt, x[0], end)?])
    })?;
    let body = b.region(&carried, |b, x| {
        let (step, order, pivots) = (x[0], x[1], x[2]);
        let zero = b.zeros(&index)?;
        let mut start = vec![zero; one_each.len()];
        start[axis] = step;
        let op = DynamicSlice { sizes: one_each.clone() };
        let at = |b: &mut Builder<'_>, x: ValueId| {
            let operands: Vec<ValueId> = std::iter::once(x).chain(start.iter().copied()).collect();
            b.one(op.clone(), &operands)
        };
        let (pivot, first) = (at(b, pivots)?, at(b, order)?);
        let second = b.take_along(order, pivot, axis)?;
        let places = b.iota(&ty, axis)?;
        let axes: Vec<usize> = (0..ty.rank()).collect();
        let wide = |b: &mut Builder<'_>, x: ValueId| b.broadcast_in_dim(x, &ty.shape, &axes);
        let (pivot, first, second) = (wide(b, pivot)?, wide(b, first)?, wide(b, second)?);
        let here = b.splat(step, &ty.shape)?;
        let (at_pivot, at_step) =
            (b.compare(Direction::Eq, places, pivot)?, b.compare(Direction::Eq, places, here)?);
        let order = b.select(at_pivot, first, order)?;
        let order = b.select(at_step, second, order)?;
        let one = b.full(&index, 1.0)?;
        Ok(vec![b.add(step, one)?, order, pivots])
    })?;
    let zero = b.zeros(&index)?;
    Ok(b.push(While, &[zero, order, pivots], &[condition, body])?[1])
}

/// The matrices that put rows in this order.
pub fn permutation_matrix(b: &mut Builder<'_>, order: ValueId, dtype: DType) -> Built {
    let mut ty = b.ty(order);
    ty.shape.push(ty.shape[ty.rank() - 1]);
    let rank = ty.rank();
    let columns = b.iota(&ty, rank - 1)?;
    let order = along(b, order, &ty.shape, true)?;
    let same = b.compare(Direction::Eq, columns, order)?;
    b.convert(same, dtype)
}

/// Solves `a x = b` by LU factorization.
pub fn solve(b: &mut Builder<'_>, a: ValueId, right: ValueId) -> Built {
    let [lu, _, order] = lu(b, a)?;
    solve_lu(b, lu, order, right)
}

/// Solves `a x = b` for a factorization of `a`.
pub fn solve_lu(b: &mut Builder<'_>, lu: ValueId, order: ValueId, right: ValueId) -> Built {
    let dtype = b.function.ty(right).dtype;
    let swapped = permutation_matrix(b, order, dtype)?;
    let right = product(b, swapped, right)?;
    let lower = Solve { left: true, lower: true, unit: true, turn: Turn::None };
    let right = triangular_solve(b, lu, right, lower)?;
    triangular_solve(b, lu, right, Solve { lower: false, unit: false, ..lower })
}

/// The inverses of square matrices.
pub fn inverse(b: &mut Builder<'_>, a: ValueId) -> Built {
    let ty = b.ty(a);
    extents(b, a)?;
    let one = identity(b, &ty)?;
    solve(b, a, one)
}
