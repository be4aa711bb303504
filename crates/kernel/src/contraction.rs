//! Contractions and convolutions in one form, with the sizes of the blocks they are computed in.
//!
//! A [`Contraction`] is `out[b, i, j] = sum over k of left[b, i, k] * right[b, j, k]` where each of
//! b, i (left rows), j (right rows) and k (depth) is a group of axes with any strides. A convolution
//! is this, too: the input's spatial position is an affine function of an output position (a row
//! axis) and a window position (a depth axis), and what lies outside of the input counts as zero
//! ([`Check`]). A dilated input becomes one contraction for each residue of the output position, so
//! that no zero is multiplied.
//!
//! The right rows are the ones along vectors; sides are exchanged so that the result is contiguous
//! along them.

use crate::DType;
use crate::program::{Convolution, Dot};

/// Depth of a block.
pub const DEPTH_BLOCK: u64 = 256;
/// Right rows of a block are a multiple of this, and this is a multiple of every vector's lanes.
pub const RIGHT_UNIT: u64 = 32;
/// Bytes of a right row-block's row, at most: 256 elements of 4 bytes.
const RIGHT_BYTES: u64 = 1024;
/// Most left rows that are computed at once.
pub const LEFT_PANEL: u64 = 12;
/// Left rows of a block that is accumulated apart from the result.
pub const STAGED_ROWS: u64 = 128;
/// Most contractions a convolution is split into.
const MOST_PHASES: u64 = 64;

/// An axis of the left or right rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RowAxis {
    pub extent: u64,
    pub operand: i64,
    pub out: i64,
}

/// A batch axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BatchAxis {
    pub extent: u64,
    pub left: i64,
    pub right: i64,
    pub out: i64,
}

/// A contracting axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DepthAxis {
    pub extent: u64,
    pub left: i64,
    pub right: i64,
}

/// `0 <= base + row_step * row + depth_step * depth < size`, or the operand's element is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Check {
    /// Which row axis.
    pub row: usize,
    /// Which depth axis.
    pub depth: usize,
    pub base: i64,
    pub row_step: i64,
    pub depth_step: i64,
    pub size: i64,
}

/// A contraction. Strides and offsets are in elements; extents of 1 are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// Whether the left side is the step's operand 1.
    pub swapped: bool,
    /// Where left, right and result begin.
    pub base: [i64; 3],
    /// Batch axes.
    pub batch: Vec<BatchAxis>,
    /// Left and right rows.
    pub rows: [Vec<RowAxis>; 2],
    /// Contracting axes.
    pub depth: Vec<DepthAxis>,
    /// The side whose elements are checked: 0 is left.
    pub checked: usize,
    /// The checks.
    pub checks: Vec<Check>,
}

impl Contraction {
    /// The contraction of a dot.
    pub fn of_dot(dot: &Dot) -> Contraction {
        let row = |extent, operand, out| RowAxis { extent, operand, out };
        Contraction {
            swapped: false,
            base: [0; 3],
            batch: dot
                .batch
                .iter()
                .map(|a| BatchAxis { extent: a.extent, left: a.lhs, right: a.rhs, out: a.out })
                .collect(),
            rows: [
                dot.m.iter().map(|a| row(a.extent, a.lhs, a.out)).collect(),
                dot.n.iter().map(|a| row(a.extent, a.rhs, a.out)).collect(),
            ],
            depth: dot
                .k
                .iter()
                .map(|a| DepthAxis { extent: a.extent, left: a.lhs, right: a.rhs })
                .collect(),
            checked: 0,
            checks: Vec::new(),
        }
        .canonical()
    }

    /// The contractions of a convolution, which together write every element of the result; None
    /// if they would be too many.
    pub fn of_convolution(conv: &Convolution) -> Option<Vec<Contraction>> {
        let strides = [0, 1, 2].map(|t| row_major(&conv.shapes[t]));
        let [lhs, rhs, out] = &strides;
        let phases: Vec<Vec<Phase>> = conv
            .spatial
            .iter()
            .map(|axis| {
                phases(
                    axis,
                    conv.shapes[0][axis.axis[0]],
                    conv.shapes[1][axis.axis[1]],
                    conv.shapes[2][axis.axis[2]],
                )
            })
            .collect::<Option<_>>()?;
        let count = phases.iter().try_fold(1u64, |n, p| n.checked_mul(p.len() as u64))?;
        if count > MOST_PHASES {
            return None;
        }
        let [batch_lhs, batch_out] = conv.batch;
        let [feature_lhs, feature_rhs, out_rhs, feature_out] = conv.features;
        let groups = conv.feature_groups.max(1);
        let batch_groups = conv.batch_groups.max(1);
        let inputs = conv.shapes[1][feature_rhs];
        let outputs = conv.shapes[1][out_rhs];
        let per_group = outputs / groups / batch_groups;
        let images = conv.shapes[0][batch_lhs] / batch_groups;
        let common = Contraction {
            swapped: false,
            base: [0; 3],
            batch: vec![
                BatchAxis {
                    extent: groups,
                    left: inputs as i64 * lhs[feature_lhs],
                    right: per_group as i64 * rhs[out_rhs],
                    out: per_group as i64 * out[feature_out],
                },
                BatchAxis {
                    extent: batch_groups,
                    left: images as i64 * lhs[batch_lhs],
                    right: per_group as i64 * rhs[out_rhs],
                    out: per_group as i64 * out[feature_out],
                },
            ],
            rows: [
                vec![RowAxis { extent: images, operand: lhs[batch_lhs], out: out[batch_out] }],
                vec![RowAxis { extent: per_group, operand: rhs[out_rhs], out: out[feature_out] }],
            ],
            depth: vec![DepthAxis {
                extent: inputs,
                left: lhs[feature_lhs],
                right: rhs[feature_rhs],
            }],
            checked: 0,
            checks: Vec::new(),
        };
        let mut all = Vec::with_capacity(count as usize);
        for number in 0..count {
            let mut one = common.clone();
            let mut rest = number;
            for (axis, choices) in conv.spatial.iter().zip(&phases) {
                let phase = &choices[(rest % choices.len() as u64) as usize];
                rest /= choices.len() as u64;
                let step = [lhs[axis.axis[0]], rhs[axis.axis[1]], out[axis.axis[2]]];
                let window = conv.shapes[1][axis.axis[1]] as i64;
                let (first, direction) = if axis.reverse {
                    (window - 1 - phase.tap_start, -1)
                } else {
                    (phase.tap_start, 1)
                };
                one.base[0] += phase.base * step[0];
                one.base[1] += first * step[1];
                one.base[2] += phase.out_start * step[2];
                one.checks.push(Check {
                    row: one.rows[0].len(),
                    depth: one.depth.len(),
                    base: phase.base,
                    row_step: phase.row_step,
                    depth_step: phase.depth_step,
                    size: conv.shapes[0][axis.axis[0]] as i64,
                });
                one.rows[0].push(RowAxis {
                    extent: phase.out_count,
                    operand: phase.row_step * step[0],
                    out: phase.out_step * step[2],
                });
                one.depth.push(DepthAxis {
                    extent: phase.tap_count,
                    left: phase.depth_step * step[0],
                    right: direction * phase.tap_step * step[1],
                });
            }
            all.push(one.canonical());
        }
        Some(all)
    }

    /// Left rows, right rows, depth.
    pub fn extents(&self) -> [u64; 3] {
        [
            self.rows[0].iter().map(|a| a.extent).product(),
            self.rows[1].iter().map(|a| a.extent).product(),
            self.depth.iter().map(|a| a.extent).product(),
        ]
    }

    /// Batches.
    pub fn batches(&self) -> u64 {
        self.batch.iter().map(|a| a.extent).product()
    }

    /// Unit axes and useless checks dropped, axes in a good order and merged, sides chosen.
    fn canonical(mut self) -> Contraction {
        self.drop_checks();
        // The result's order for rows, so that the last axis is the one to vectorize.
        for side in 0..2 {
            let order = sorted(self.rows[side].len(), |i| self.rows[side][i].out);
            self.rows[side] = order.iter().map(|&i| self.rows[side][i]).collect();
            if side == self.checked {
                for check in &mut self.checks {
                    check.row = position(&order, check.row);
                }
            }
        }
        let unit = |side: usize| {
            self.rows[side].iter().rev().find(|a| a.extent != 1).is_some_and(|a| a.out.abs() == 1)
        };
        if !unit(1) && unit(0) {
            self.swap();
        }
        let order = sorted(self.depth.len(), |i| self.depth[i].left);
        self.depth = order.iter().map(|&i| self.depth[i]).collect();
        for check in &mut self.checks {
            check.depth = position(&order, check.depth);
        }
        self.drop_units();
        self.merge();
        self
    }

    /// Exchanges the sides.
    pub fn swap(&mut self) {
        self.swapped = !self.swapped;
        self.base.swap(0, 1);
        self.rows.swap(0, 1);
        for axis in &mut self.batch {
            std::mem::swap(&mut axis.left, &mut axis.right);
        }
        for axis in &mut self.depth {
            std::mem::swap(&mut axis.left, &mut axis.right);
        }
        self.checked = 1 - self.checked;
    }

    /// Drops the checks that always hold.
    fn drop_checks(&mut self) {
        let (rows, depth) = (&self.rows[self.checked], &self.depth);
        self.checks.retain(|check| {
            let row = check.row_step * (rows[check.row].extent as i64 - 1);
            let tap = check.depth_step * (depth[check.depth].extent as i64 - 1);
            let low = check.base + row.min(0) + tap.min(0);
            let high = check.base + row.max(0) + tap.max(0);
            low < 0 || high >= check.size
        });
    }

    /// Drops axes of extent 1 that no check names.
    fn drop_units(&mut self) {
        self.batch.retain(|a| a.extent != 1);
        for side in 0..2 {
            let checks = if side == self.checked { &mut self.checks[..] } else { &mut [] };
            let named = |i: usize, checks: &[Check]| checks.iter().any(|c| c.row == i);
            let keep: Vec<usize> = (0..self.rows[side].len())
                .filter(|&i| self.rows[side][i].extent != 1 || named(i, checks))
                .collect();
            self.rows[side] = keep.iter().map(|&i| self.rows[side][i]).collect();
            for check in checks {
                check.row = position(&keep, check.row);
            }
        }
        let keep: Vec<usize> = (0..self.depth.len())
            .filter(|&i| self.depth[i].extent != 1 || self.checks.iter().any(|c| c.depth == i))
            .collect();
        self.depth = keep.iter().map(|&i| self.depth[i]).collect();
        for check in &mut self.checks {
            check.depth = position(&keep, check.depth);
        }
    }

    /// Merges neighbours that step as one axis and that no check names.
    fn merge(&mut self) {
        for side in 0..2 {
            let mut at = 1;
            while at < self.rows[side].len() {
                let (outer, inner) = (self.rows[side][at - 1], self.rows[side][at]);
                let extent = inner.extent as i64;
                let named = side == self.checked
                    && self.checks.iter().any(|c| c.row == at || c.row == at - 1);
                if named
                    || outer.operand != extent * inner.operand
                    || outer.out != extent * inner.out
                {
                    at += 1;
                    continue;
                }
                self.rows[side][at].extent *= outer.extent;
                self.rows[side].remove(at - 1);
                if side == self.checked {
                    for check in &mut self.checks {
                        check.row -= usize::from(check.row >= at);
                    }
                }
            }
        }
        let mut at = 1;
        while at < self.depth.len() {
            let (outer, inner) = (self.depth[at - 1], self.depth[at]);
            let extent = inner.extent as i64;
            let named = self.checks.iter().any(|c| c.depth == at || c.depth == at - 1);
            if named || outer.left != extent * inner.left || outer.right != extent * inner.right {
                at += 1;
                continue;
            }
            self.depth[at].extent *= outer.extent;
            self.depth.remove(at - 1);
            for check in &mut self.checks {
                check.depth -= usize::from(check.depth >= at);
            }
        }
    }
}

/// How a contraction is accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// In `f32`.
    F32,
    /// In `f64`.
    F64,
    /// In wrapping 32-bit integers.
    I32,
    /// In wrapping 64-bit integers.
    I64,
}

impl Arithmetic {
    /// Of operands and a result of these types; of complex ones, the parts'. None where operands
    /// are converted in some way that only the plain loops know.
    pub fn of(operands: [DType; 2], out: DType) -> Option<Arithmetic> {
        use DType as D;
        let [a, b] = operands;
        if a.is_complex() || b.is_complex() || out.is_complex() {
            return match (a, b, out) {
                (D::C64, D::C64, D::C64) => Some(Arithmetic::F32),
                (D::C128, D::C128, D::C128) => Some(Arithmetic::F64),
                _ => None,
            };
        }
        let narrow = |d: DType| d.is_float() && d != D::F64;
        let integer = |d: DType| !d.is_float();
        if narrow(a) && narrow(b) && narrow(out) {
            Some(Arithmetic::F32)
        } else if a == D::F64 && b == D::F64 && out == D::F64 {
            Some(Arithmetic::F64)
        } else if integer(a)
            && integer(b)
            && integer(out)
            && (out != D::I1 || a == D::I1 && b == D::I1)
        {
            Some(if out.size() == 8 { Arithmetic::I64 } else { Arithmetic::I32 })
        } else {
            None
        }
    }

    /// The result's type that is accumulated in place.
    pub fn in_place(self, out: DType) -> bool {
        match self {
            Arithmetic::F32 => out.part() == DType::F32,
            Arithmetic::F64 => out.part() == DType::F64,
            Arithmetic::I32 => matches!(out, DType::I32 | DType::U32),
            Arithmetic::I64 => matches!(out, DType::I64 | DType::U64),
        }
    }

    /// Bytes of an accumulator.
    pub fn size(self) -> u64 {
        match self {
            Arithmetic::F32 | Arithmetic::I32 => 4,
            Arithmetic::F64 | Arithmetic::I64 => 8,
        }
    }
}

/// The sizes of the blocks a contraction is computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Depth of a block.
    pub depth: u64,
    /// Right rows of a block, a multiple of [`RIGHT_UNIT`].
    pub right: u64,
    /// Whether blocks are accumulated apart from the result.
    pub staged: bool,
    /// Left rows at a time, if they are.
    pub staged_rows: u64,
    /// Bytes of an accumulator.
    pub size: u64,
}

impl Blocks {
    /// Of a contraction with right rows and a depth as given, in scalars: twice as many of complex
    /// elements.
    pub fn new(arithmetic: Arithmetic, out: DType, right: u64, depth: u64) -> Blocks {
        let size = arithmetic.size();
        Blocks {
            depth: depth.min(DEPTH_BLOCK),
            right: right.next_multiple_of(RIGHT_UNIT).min(RIGHT_BYTES / size),
            staged: !arithmetic.in_place(out) && depth > DEPTH_BLOCK,
            staged_rows: STAGED_ROWS,
            size,
        }
    }

    /// With blocks of so many left rows accumulated apart from the result, whatever its type.
    pub fn apart(self, left: u64) -> Blocks {
        let staged_rows = left.next_multiple_of(LEFT_PANEL).min(STAGED_ROWS);
        Blocks { staged: true, staged_rows, ..self }
    }

    /// Where the packed left panel, the packed right block and the staged result begin in the
    /// scratch, and its bytes in all.
    pub fn layout(&self) -> [u64; 4] {
        let left = (self.depth * LEFT_PANEL * self.size).next_multiple_of(64);
        let right = (self.depth * self.right * self.size).next_multiple_of(64);
        let staged = if self.staged { self.staged_rows * self.right * self.size } else { 0 };
        [0, left, left + right, left + right + staged]
    }
}

/// Output positions of one residue, with the window positions that meet input elements there.
struct Phase {
    out_start: i64,
    out_step: i64,
    out_count: u64,
    tap_start: i64,
    tap_step: i64,
    tap_count: u64,
    /// Input position of the first output and the first window position.
    base: i64,
    row_step: i64,
    depth_step: i64,
}

/// The phases of a spatial axis; None if too many.
fn phases(
    axis: &crate::program::SpatialAxis,
    size: u64,
    window: u64,
    out: u64,
) -> Option<Vec<Phase>> {
    let dilation = axis.lhs_dilation.max(1);
    let out_step = dilation / gcd(axis.stride, dilation);
    let tap_step = dilation / gcd(axis.rhs_dilation, dilation);
    if out_step > MOST_PHASES as i64 || size == 0 && dilation > 1 {
        return None;
    }
    let count = |start: i64, step: i64, extent: u64| {
        (extent as i64 - start).max(0).unsigned_abs().div_ceil(step as u64)
    };
    let all = (0..out_step.min(out.max(1) as i64)).map(|start| {
        let at = start * axis.stride - axis.pad_low;
        let first = (0..tap_step).find(|t| (at + t * axis.rhs_dilation) % dilation == 0);
        let tap_start = first.unwrap_or(0);
        Phase {
            out_start: start,
            out_step,
            out_count: count(start, out_step, out),
            tap_start,
            tap_step,
            tap_count: first.map_or(0, |t| count(t, tap_step, window)),
            base: (at + tap_start * axis.rhs_dilation).div_euclid(dilation),
            row_step: out_step * axis.stride / dilation,
            depth_step: tap_step * axis.rhs_dilation / dilation,
        }
    });
    Some(all.collect())
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

fn row_major(shape: &[u64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as i64;
    }
    strides
}

/// Positions `0..len` by descending absolute stride, ties in order.
fn sorted(len: usize, stride: impl Fn(usize) -> i64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(stride(i).unsigned_abs()));
    order
}

fn position(order: &[usize], old: usize) -> usize {
    order.iter().position(|&i| i == old).expect("an axis that a check names is kept")
}
