//! The innermost loops, which a back end may give for its machine.

use super::{Part, Scalar};
use std::cell::Cell;

/// Rows of a tile of a product.
pub const TILE_ROWS: usize = 4;
/// Columns of a tile of a product.
pub const TILE_COLUMNS: usize = 32;
/// Elements of a tile of a product.
pub const TILE: usize = TILE_ROWS * TILE_COLUMNS;

/// Loops over neighbours in memory.
pub trait Leaf: Copy {
    /// A tile of a product from a left side packed `[depth][TILE_ROWS]` and a right side packed
    /// `[depth][TILE_COLUMNS]`.
    fn tile<S: Scalar>(self, left: &[S], right: &[S], out: &mut [S; TILE]);
    /// `y -= x`.
    fn subtract<S: Scalar>(self, y: &[Cell<S>], x: &[S]);
    /// The sum of products of `x`, or of its conjugates, and `y`.
    fn dot<S: Scalar, const CONJ: bool>(self, x: &[Cell<S>], y: &[Cell<S>]) -> S;
    /// `y += factor * x`, or `x`'s conjugates.
    fn add<S: Scalar, const CONJ: bool>(self, y: &[Cell<S>], factor: S, x: &[Cell<S>]);
    /// `(x, y) = (c x - s y, s x + c y)`.
    fn rotate<S: Scalar>(self, x: &[Cell<S>], y: &[Cell<S>], c: f64, s: f64);
}

/// The loops for any machine.
#[derive(Clone, Copy)]
pub struct Plain;

impl Leaf for Plain {
    fn tile<S: Scalar>(self, left: &[S], right: &[S], out: &mut [S; TILE]) {
        tile::<S, 8, false>(left, right, out);
    }
    fn subtract<S: Scalar>(self, y: &[Cell<S>], x: &[S]) {
        subtract(y, x);
    }
    fn dot<S: Scalar, const CONJ: bool>(self, x: &[Cell<S>], y: &[Cell<S>]) -> S {
        dot::<S, CONJ, false>(x, y)
    }
    fn add<S: Scalar, const CONJ: bool>(self, y: &[Cell<S>], factor: S, x: &[Cell<S>]) {
        add::<S, CONJ, false>(y, factor, x);
    }
    fn rotate<S: Scalar>(self, x: &[Cell<S>], y: &[Cell<S>], c: f64, s: f64) {
        rotate::<S, false>(x, y, c, s);
    }
}

/// [`Leaf::tile`], `WIDTH` columns at a time.
#[inline(always)]
pub fn tile<S: Scalar, const WIDTH: usize, const FUSED: bool>(
    left: &[S],
    right: &[S],
    out: &mut [S; TILE],
) {
    for first in (0..TILE_COLUMNS).step_by(WIDTH) {
        let mut sums = [[S::default(); WIDTH]; TILE_ROWS];
        for (a, b) in left.chunks_exact(TILE_ROWS).zip(right.chunks_exact(TILE_COLUMNS)) {
            let b: &[S; WIDTH] = b[first..first + WIDTH].try_into().expect("a width");
            for row in 0..TILE_ROWS {
                for column in 0..WIDTH {
                    sums[row][column] = sums[row][column].plus_product::<FUSED>(a[row], b[column]);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            out[row * TILE_COLUMNS + first..][..WIDTH].copy_from_slice(sums);
        }
    }
}

/// [`Leaf::subtract`].
#[inline(always)]
pub fn subtract<S: Scalar>(y: &[Cell<S>], x: &[S]) {
    for (y, &x) in y.iter().zip(x) {
        y.set(y.get() - x);
    }
}

/// [`Leaf::dot`], in sixteen sums.
#[inline(always)]
pub fn dot<S: Scalar, const CONJ: bool, const FUSED: bool>(x: &[Cell<S>], y: &[Cell<S>]) -> S {
    const LANES: usize = 16;
    let len = x.len().min(y.len());
    let (x, y) = (&x[..len], &y[..len]);
    let mut sums = [S::default(); LANES];
    let (mut xs, mut ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    for (x, y) in (&mut xs).zip(&mut ys) {
        for lane in 0..LANES {
            let (x, y) = (x[lane].get().conj_if::<CONJ>(), y[lane].get());
            sums[lane] = sums[lane].plus_product::<FUSED>(x, y);
        }
    }
    let mut sum = S::default();
    for (x, y) in xs.remainder().iter().zip(ys.remainder()) {
        sum = sum.plus_product::<FUSED>(x.get().conj_if::<CONJ>(), y.get());
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0] + sum
}

/// [`Leaf::add`].
#[inline(always)]
pub fn add<S: Scalar, const CONJ: bool, const FUSED: bool>(
    y: &[Cell<S>],
    factor: S,
    x: &[Cell<S>],
) {
    for (y, x) in y.iter().zip(x) {
        y.set(y.get().plus_product::<FUSED>(factor, x.get().conj_if::<CONJ>()));
    }
}

/// [`Leaf::rotate`].
#[inline(always)]
pub fn rotate<S: Scalar, const FUSED: bool>(x: &[Cell<S>], y: &[Cell<S>], c: f64, s: f64) {
    let (c, s) = (S::Part::of(c), S::Part::of(s));
    for (x, y) in x.iter().zip(y) {
        let (a, b) = (x.get(), y.get());
        x.set(a.times(c) - b.times(s));
        y.set(a.times(s) + b.times(c));
    }
}
