//! Contractions: products of arrays, summed along axes they have in common.
//!
//! All are cases of one: each axis of both operands has a label; axes with the same label run
//! together, and those that the result does not have are summed.

use super::{Array, IntoAxes};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{ValueId, ops};

/// What names an axis of a contraction.
pub(super) type Label = u32;

/// An operand of a contraction.
#[derive(Clone, Debug)]
pub(super) struct Labelled {
    pub value: ValueId,
    pub labels: Vec<Label>,
}

impl Labelled {
    pub fn has(&self, label: Label) -> bool {
        self.labels.contains(&label)
    }

    pub fn extent(&self, b: &Builder<'_>, label: Label) -> Option<u64> {
        let axis = self.labels.iter().position(|&l| l == label)?;
        Some(b.ty(self.value).shape[axis])
    }

    fn position(&self, label: Label) -> usize {
        self.labels.iter().position(|&l| l == label).expect("asked for a label it has")
    }

    /// Sums the axes whose labels do not satisfy the condition.
    pub fn keep(
        self,
        b: &mut Builder<'_>,
        condition: impl Fn(Label) -> bool,
    ) -> Result<Labelled, String> {
        let gone: Vec<usize> =
            (0..self.labels.len()).filter(|&axis| !condition(self.labels[axis])).collect();
        let value = b.sum(self.value, &gone)?;
        let labels = self.labels.into_iter().filter(|&label| condition(label)).collect();
        Ok(Labelled { value, labels })
    }

    /// Drops the axes of extent 1 that the other has with another extent.
    fn without_repeats(&self, b: &mut Builder<'_>, other: &Labelled) -> Result<Labelled, String> {
        let shape = b.ty(self.value).shape;
        let repeats = |axis: usize| {
            let extent = other.extent(b, self.labels[axis]);
            shape[axis] == 1 && extent.is_some_and(|extent| extent != 1)
        };
        let rest: Vec<usize> = (0..shape.len()).filter(|&axis| !repeats(axis)).collect();
        let extents: Vec<u64> = rest.iter().map(|&axis| shape[axis]).collect();
        let value = b.reshape(self.value, &extents)?;
        Ok(Labelled { value, labels: rest.iter().map(|&axis| self.labels[axis]).collect() })
    }

    /// The axes in the order of these labels.
    pub fn ordered(self, b: &mut Builder<'_>, labels: &[Label]) -> Result<ValueId, String> {
        let order: Vec<usize> = labels.iter().map(|&label| self.position(label)).collect();
        b.transpose(self.value, &order)
    }

    fn axes(&self, labels: &[Label]) -> Vec<usize> {
        labels.iter().map(|&label| self.position(label)).collect()
    }
}

/// The product of both, of one element type, with the labels that `keep` accepts; others are
/// summed. Axes of extent 1 repeat against others.
pub(super) fn pair(
    b: &mut Builder<'_>,
    x: &Labelled,
    y: &Labelled,
    keep: impl Fn(Label) -> bool,
) -> Result<Labelled, String> {
    let (x, y) = (x.without_repeats(b, y)?, y.without_repeats(b, x)?);
    let x = {
        let (other, keep) = (&y, &keep);
        x.keep(b, |label| keep(label) || other.has(label))?
    };
    let y = {
        let (other, keep) = (&x, &keep);
        y.keep(b, |label| keep(label) || other.has(label))?
    };
    let pick = |from: &Labelled, shared: bool, kept: bool| -> Vec<Label> {
        let fits =
            |&&label: &&Label| (x.has(label) && y.has(label)) == shared && keep(label) == kept;
        from.labels.iter().filter(fits).copied().collect()
    };
    let (batch, summed) = (pick(&x, true, true), pick(&x, true, false));
    let (mut labels, y_free) = (batch.clone(), pick(&y, false, true));
    labels.extend(pick(&x, false, true));
    labels.extend(&y_free);
    let value = if summed.is_empty() {
        let extent = |&label: &Label| x.extent(b, label).or(y.extent(b, label));
        let shape: Vec<u64> =
            labels.iter().map(|l| extent(l).expect("a label of one of both")).collect();
        let made = Labelled { value: x.value, labels: labels.clone() };
        let (x, y) = (
            b.broadcast_in_dim(x.value, &shape, &made.axes(&x.labels))?,
            b.broadcast_in_dim(y.value, &shape, &made.axes(&y.labels))?,
        );
        b.multiply(x, y)?
    } else {
        let op = ops::DotGeneral {
            lhs_batch: x.axes(&batch),
            rhs_batch: y.axes(&batch),
            lhs_contracting: x.axes(&summed),
            rhs_contracting: y.axes(&summed),
            result: b.ty(x.value).dtype,
        };
        b.one(op, &[x.value, y.value])?
    };
    Ok(Labelled { value, labels })
}

/// A contraction of two arrays after promotion: labels of both for their ranks, and the result's.
#[track_caller]
fn product(
    x: &Array,
    y: &Array,
    labels: impl FnOnce(usize, usize) -> Result<[Vec<Label>; 3], String>,
) -> Array {
    let dtype = super::promote(x.dtype(), y.dtype());
    trace::one(&[x, y], Place::here(), |b, values| {
        let [x, y, result] = labels(b.ty(values[0]).rank(), b.ty(values[1]).rank())?;
        let (left, right) = (b.convert(values[0], dtype)?, b.convert(values[1], dtype)?);
        let x = Labelled { value: left, labels: x };
        let y = Labelled { value: right, labels: y };
        let made = pair(b, &x, &y, |label| result.contains(&label))?;
        // Axes of extent 1 on both sides that only one operand names are in it, too.
        made.ordered(b, &result)
    })
}

/// Labels `from..from + count`.
fn run(from: usize, count: usize) -> Vec<Label> {
    (from..from + count).map(|n| n as Label).collect()
}

/// The labels of NumPy's `matmul` for two ranks: batch axes are aligned at their last.
fn matmul_labels(m: usize, n: usize) -> Result<[Vec<Label>; 3], String> {
    const ROW: Label = Label::MAX;
    const COLUMN: Label = Label::MAX - 1;
    const SUMMED: Label = Label::MAX - 2;
    if m == 0 || n == 0 {
        return Err("matmul: an operand has rank 0".into());
    }
    let batch = m.saturating_sub(2).max(n.saturating_sub(2));
    let axes = |rank: usize| run(batch - rank.saturating_sub(2), rank.saturating_sub(2));
    let (mut x, mut y, mut result) = (axes(m), axes(n), run(0, batch));
    if m > 1 {
        x.push(ROW);
        result.push(ROW);
    }
    x.push(SUMMED);
    y.push(SUMMED);
    if n > 1 {
        y.push(COLUMN);
        result.push(COLUMN);
    }
    Ok([x, y, result])
}

impl Array {
    /// The matrix product, as NumPy's `matmul`: the last axis with the other's last but one; the
    /// axes before these are batch axes and broadcast. An operand of rank 1 is a row on the left,
    /// a column on the right.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::ones([5, 2, 3]);
    /// assert_eq!(x.matmul(&Array::ones([3, 4])).shape(), [5, 2, 4]);
    /// assert_eq!(x.matmul(&Array::ones([3])).shape(), [5, 2]);
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: &Array) -> Array {
        product(self, other, matmul_labels)
    }

    /// The dot product, as NumPy's `dot`: the last axis with the other's last but one (or only);
    /// the result has the other axes of both. With rank 0 it is the product.
    #[track_caller]
    pub fn dot(&self, other: &Array) -> Array {
        product(self, other, |m, n| {
            if m == 0 || n == 0 {
                return Ok([run(0, m), run(m, n), run(0, m + n)]);
            }
            let (x, mut y) = (run(0, m), run(m, n));
            y[n.saturating_sub(2)] = (m - 1) as Label;
            let summed = x[m - 1];
            let result = x.iter().chain(&y).copied().filter(|&label| label != summed).collect();
            Ok([x, y, result])
        })
    }

    /// The sum of products of elements of both, flattened; the left ones are conjugated.
    #[track_caller]
    pub fn vdot(&self, other: &Array) -> Array {
        let place = Place::here();
        trace::whole(&[self, other], place, |x| {
            let left = if x[0].dtype().is_complex() { x[0].conj() } else { x[0].clone() };
            left.ravel().dot(&x[1].ravel())
        })
    }

    /// The product summed along the last axis of both, as NumPy's `inner`.
    #[track_caller]
    pub fn inner(&self, other: &Array) -> Array {
        product(self, other, |m, n| {
            if m == 0 || n == 0 {
                return Ok([run(0, m), run(m, n), run(0, m + n)]);
            }
            let (x, mut y) = (run(0, m), run(m, n));
            y[n - 1] = x[m - 1];
            let result = [run(0, m - 1), run(m, n - 1)].concat();
            Ok([x, y, result])
        })
    }

    /// Every product of an element of one and an element of the other, both flattened.
    #[track_caller]
    pub fn outer(&self, other: &Array) -> Array {
        let place = Place::here();
        trace::whole(&[self, other], place, |x| {
            product(&x[0].ravel(), &x[1].ravel(), |_, _| Ok([vec![0], vec![1], vec![0, 1]]))
        })
    }

    /// The product summed along these axes of both, which correspond in order; the result has the
    /// other axes of both.
    #[track_caller]
    pub fn tensordot(&self, other: &Array, axes: impl IntoAxes, others: impl IntoAxes) -> Array {
        product(self, other, |m, n| {
            let (axes, others) = (axes.into_axes(m)?, others.into_axes(n)?);
            if axes.len() != others.len() {
                return Err(format!("tensordot: {} axes with {}", axes.len(), others.len()));
            }
            let (x, mut y) = (run(0, m), run(m, n));
            for (&axis, &other) in axes.iter().zip(&others) {
                y[other] = x[axis];
            }
            let summed: Vec<Label> = axes.iter().map(|&axis| x[axis]).collect();
            let all = x.iter().chain(&y).copied();
            let result = all.filter(|label| !summed.contains(label)).collect();
            Ok([x, y, result])
        })
    }

    /// The Kronecker product: each element of the left times the whole of the right.
    #[track_caller]
    pub fn kron(&self, other: &Array) -> Array {
        let place = Place::here();
        trace::whole(&[self, other], place, |x| {
            let rank = x[0].rank().max(x[1].rank());
            let filled = |array: &Array| {
                let mut shape = vec![1; rank - array.rank()];
                shape.extend_from_slice(array.shape());
                shape
            };
            let (left, right) = (filled(&x[0]), filled(&x[1]));
            let interleave = |pick: fn(u64, u64) -> [u64; 2]| -> Vec<u64> {
                left.iter().zip(&right).flat_map(|(&l, &r)| pick(l, r)).collect()
            };
            let product =
                x[0].reshape(interleave(|l, _| [l, 1])) * x[1].reshape(interleave(|_, r| [1, r]));
            product
                .reshape(interleave(|l, r| [l * r, 0]).into_iter().step_by(2).collect::<Vec<_>>())
        })
    }

    /// The elements at equal positions of the first two axes, moved by `offset` along the second;
    /// they run along the last axis of the result.
    #[track_caller]
    pub fn diagonal(&self, offset: i64) -> Array {
        trace::one(&[self], Place::here(), |b, x| diagonal(b, x[0], offset))
    }

    /// The sum of the [`Array::diagonal`].
    #[track_caller]
    pub fn trace(&self) -> Array {
        let dtype = super::reduce::sum_type(self.dtype());
        trace::one(&[self], Place::here(), |b, x| {
            let x = b.convert(x[0], dtype)?;
            let diagonal = diagonal(b, x, 0)?;
            let last = b.ty(diagonal).rank() - 1;
            b.sum(diagonal, &[last])
        })
    }
}

/// See [`Array::diagonal`].
fn diagonal(b: &mut Builder<'_>, x: ValueId, offset: i64) -> Result<ValueId, String> {
    let ty = b.ty(x);
    let rank = ty.rank();
    let [rows, columns, ..] = ty.shape[..] else {
        return Err(format!("diagonal: {ty} has less than two axes"));
    };
    let (down, right) = match u64::try_from(offset) {
        Ok(right) => (0, right),
        Err(_) => (offset.unsigned_abs(), 0),
    };
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right));
    let order: Vec<usize> = (2..rank).chain([0, 1]).collect();
    let last = b.transpose(x, &order)?;
    along_last(b, last, down * columns + right, length)
}

/// Of a value with two axes at its end: the elements at `start`, and so on one down and one to
/// the right.
pub(super) fn along_last(
    b: &mut Builder<'_>,
    x: ValueId,
    start: u64,
    length: u64,
) -> Result<ValueId, String> {
    let mut shape = b.ty(x).shape;
    let columns = shape.pop().expect("two axes, by the caller");
    let rows = shape.pop().expect("two axes, by the caller");
    let mut starts = vec![0; shape.len()];
    let mut limits = shape.clone();
    let mut strides = vec![1; shape.len()];
    shape.push(rows * columns);
    let flat = b.reshape(x, &shape)?;
    starts.push(if length == 0 { 0 } else { start });
    limits.push(if length == 0 { 0 } else { start + (length - 1) * (columns + 1) + 1 });
    strides.push(columns + 1);
    b.one(ops::Slice { starts, limits, strides }, &[flat])
}
