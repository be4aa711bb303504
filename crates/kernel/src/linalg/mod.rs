//! Linear algebra on single matrices: what the library's routines mean, and how they are computed.
//!
//! Each routine is written once, for real and complex numbers of both widths, over views of memory
//! ([`Matrix`]); a back end gives the innermost loops ([`Leaf`]). Nothing is allocated: results
//! hold what is worked on, the rest is given by the caller ([`Routine::memory`]).
//!
//! Conventions (signs of reflections, pivots, what is returned for singular matrices) are LAPACK's.

mod cholesky;
mod eigh;
pub mod leaf;
mod lu;
mod matrix;
mod product;
mod reflect;
mod scalar;
mod solve;
mod svd;
#[cfg(test)]
mod tests;

pub use leaf::{Leaf, Plain};
pub use matrix::{Matrix, cells};
pub use scalar::{Complex, Part, Scalar};
pub use solve::{Solve, Turn};
pub use svd::Vectors;

use crate::DType;
use product::{is_small, packed};
use std::cell::Cell;

/// A routine. The shapes are of one matrix; `info` results are `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Routine {
    /// Operand `a`, `n x n`, of which one triangle is read; results: the factor, zero in the other
    /// triangle, and, where asked for, `info`: 0, or the order of the first leading part that is not
    /// positive definite; all is NaN then.
    Cholesky {
        /// Whether `l l^H = a` is computed, from the lower triangle; else `u^H u = a`.
        lower: bool,
        /// Whether there is a second result.
        info: bool,
    },
    /// Operands `a`, triangular, and `b`, `m x n`; the result solves `op(a) x = b` or
    /// `x op(a) = b`.
    Solve(Solve),
    /// Operand `a`, `m x n`; results: `l` and `u` in one matrix, the rows that were swapped, from 1
    /// (`i32`), and `info`: 0, or the position of the first pivot that is zero, from 1.
    Lu,
    /// Operand `a`, `m x n`; results: `r` with the reflections below, and their factors.
    Qr,
    /// Operands as the results of [`Routine::Qr`]; the result: the first columns of their product.
    Reflections {
        /// How many reflections.
        count: u64,
    },
    /// Operand `a`, `m x n`; results: zeros of its shape; singular values, descending; left vectors
    /// as columns; the adjoint of the right vectors; `info`: 0, or 1 for an operand that is not
    /// finite, and NaNs.
    Svd {
        /// Which vectors.
        vectors: Vectors,
    },
    /// Operand `a`, `n x n`, Hermitian, of which one triangle is read; results: eigenvectors as
    /// columns, eigenvalues, ascending; `info`: 0, or 1 for an operand that is not finite, and NaNs.
    Eigh {
        /// Which triangle.
        lower: bool,
    },
}

/// What a result of a routine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// [`Call::first`].
    First,
    /// One of [`Call::more`].
    More(usize),
    /// [`Call::values`].
    Values,
    /// [`Call::pivots`].
    Pivots,
    /// [`Call::info`].
    Info,
}

/// The matrices of one call. `info` and pivots stand apart as their types differ.
pub struct Call<'a, S: Scalar> {
    /// Rows and columns of the first result.
    pub shape: [usize; 2],
    /// The operand that no result holds: of [`Routine::Solve`] the triangle, of
    /// [`Routine::Reflections`] the factors.
    pub beside: &'a [Cell<S>],
    /// The first result, which holds the (other) operand.
    pub first: &'a [Cell<S>],
    /// Further results of its type: factors of reflections; left and right vectors.
    pub more: [&'a [Cell<S>]; 2],
    /// Singular values, eigenvalues.
    pub values: &'a [Cell<S::Part>],
    /// Pivots.
    pub pivots: &'a [Cell<i32>],
    /// Where `info` goes.
    pub info: Option<&'a Cell<i32>>,
}

/// Memory of a call.
pub struct Memory<'a, S> {
    /// Elements.
    pub elements: &'a mut [S],
    /// Wide real numbers.
    pub wide: &'a mut [f64],
}

impl Routine {
    /// A name.
    pub fn name(self) -> &'static str {
        match self {
            Routine::Cholesky { .. } => "cholesky",
            Routine::Solve(_) => "triangular_solve",
            Routine::Lu => "lu",
            Routine::Qr => "geqrf",
            Routine::Reflections { .. } => "householder_product",
            Routine::Svd { .. } => "svd",
            Routine::Eigh { .. } => "eigh",
        }
    }

    /// Operands, and which of them the first result starts from.
    pub fn operands(self) -> (usize, usize) {
        match self {
            Routine::Solve(_) => (2, 1),
            Routine::Reflections { .. } => (2, 0),
            Routine::Cholesky { .. }
            | Routine::Lu
            | Routine::Qr
            | Routine::Svd { .. }
            | Routine::Eigh { .. } => (1, 0),
        }
    }

    /// The results in order.
    pub fn results(self) -> &'static [Place] {
        use Place::{First, Info, More, Pivots, Values};
        match self {
            Routine::Cholesky { info: false, .. }
            | Routine::Solve(_)
            | Routine::Reflections { .. } => &[First],
            Routine::Cholesky { info: true, .. } => &[First, Info],
            Routine::Lu => &[First, Pivots, Info],
            Routine::Qr => &[First, More(0)],
            Routine::Svd { .. } => &[First, Values, More(0), More(1), Info],
            Routine::Eigh { .. } => &[First, Values, Info],
        }
    }

    /// Elements of a result, where the first one has this shape.
    pub fn len(self, place: Place, [rows, columns]: [usize; 2]) -> usize {
        let short = rows.min(columns);
        let thin = matches!(self, Routine::Svd { vectors: Vectors { full: false, .. } });
        match place {
            Place::First => rows * columns,
            Place::Values | Place::Pivots => short,
            Place::Info => 1,
            Place::More(_) if self == Routine::Qr => short,
            Place::More(0) => rows * if thin { short } else { rows },
            Place::More(_) => columns * if thin { short } else { columns },
        }
    }

    /// Elements of the operand beside the one that the first result starts from.
    pub fn beside_len(self, [rows, columns]: [usize; 2]) -> usize {
        match self {
            Routine::Solve(Solve { left: true, .. }) => rows * rows,
            Routine::Solve(_) => columns * columns,
            Routine::Reflections { count } => count as usize,
            Routine::Cholesky { .. }
            | Routine::Lu
            | Routine::Qr
            | Routine::Svd { .. }
            | Routine::Eigh { .. } => 0,
        }
    }

    /// Elements and wide numbers that a call on a first result of this shape needs.
    pub fn memory(self, [rows, columns]: [usize; 2]) -> [usize; 2] {
        let (short, long) = (rows.min(columns), rows.max(columns));
        // Of all the products of a routine on this matrix: each has at most its rows and depth.
        let products = |rows: usize, depth: usize, columns: usize| {
            if is_small(rows, depth, columns) { long } else { packed(rows, depth).max(long) }
        };
        match self {
            Routine::Cholesky { .. } => [products(rows, rows, rows), 0],
            Routine::Solve(solve) => {
                let (size, others) = if solve.left { (rows, columns) } else { (columns, rows) };
                [products(size, size, others), 0]
            }
            Routine::Lu => [products(rows, short, columns), 0],
            Routine::Qr | Routine::Reflections { .. } => [rows + columns, 0],
            Routine::Svd { .. } => svd::memory(short, long),
            Routine::Eigh { .. } => [3 * rows, 2 * rows],
        }
    }

    /// The same in bytes.
    pub fn memory_bytes(self, shape: [usize; 2], dtype: DType) -> u64 {
        let [elements, wide] = self.memory(shape).map(|count| count as u64);
        (elements * computed(dtype).size()).next_multiple_of(64) + wide * 8
    }

    /// Runs it.
    pub fn run<S: Scalar>(self, leaf: impl Leaf, call: &Call<'_, S>, memory: Memory<'_, S>) {
        let [rows, columns] = call.shape;
        let a = Matrix::new(call.first, rows, columns);
        let Memory { elements, wide } = memory;
        let info = |value: usize| {
            if let Some(cell) = call.info {
                cell.set(value as i32);
            }
        };
        match self {
            Routine::Cholesky { lower, .. } => {
                let view = if lower { a } else { a.adjoint() };
                let done = cholesky::factor(leaf, view, elements);
                info(done.map_or_else(|at| at + 1, |()| 0));
                match done {
                    Ok(()) => {
                        for row in 0..rows {
                            (row + 1..rows).for_each(|c| view.set(row, c, S::default()));
                        }
                    }
                    Err(_) => nan(call.first),
                }
            }
            Routine::Solve(solve) => {
                let size = if solve.left { rows } else { columns };
                solve.run(leaf, Matrix::new(call.beside, size, size), a, elements);
            }
            Routine::Lu => {
                let singular = lu::factor(leaf, a, call.pivots, elements);
                call.pivots.iter().for_each(|pivot| pivot.set(pivot.get() + 1));
                info(singular.map_or(0, |at| at + 1));
            }
            Routine::Qr => reflect::qr(leaf, a, call.more[0], elements),
            Routine::Reflections { .. } => reflect::product(leaf, a, call.beside, elements),
            Routine::Svd { vectors } => {
                let results = svd::Results {
                    operand: call.first,
                    values: call.values,
                    left: call.more[0],
                    right: call.more[1],
                };
                let done = svd::svd(leaf, call.shape, vectors, &results, elements, wide);
                if !done {
                    call.values.iter().for_each(|cell| cell.set(S::Part::of(f64::NAN)));
                    call.more.iter().for_each(|vectors| nan(vectors));
                    call.first.iter().for_each(|cell| cell.set(S::default()));
                }
                info(usize::from(!done));
            }
            Routine::Eigh { lower } => {
                if !lower {
                    // The adjoint of the upper triangle is the lower one.
                    a.transpose_in_place();
                    a.fill(|row, column| a.get(row, column).conj());
                }
                let done = eigh::eigh(leaf, a, call.values, elements, wide);
                if !done {
                    call.values.iter().for_each(|cell| cell.set(S::Part::of(f64::NAN)));
                    nan(call.first);
                }
                info(usize::from(!done));
            }
        }
    }
}

fn nan<S: Scalar>(elements: &[Cell<S>]) {
    elements.iter().for_each(|cell| cell.set(S::nan()));
}

/// The element type that a routine computes in for tensors of this type.
pub fn computed(dtype: DType) -> DType {
    match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        other => other,
    }
}
