//! What indices mean for an array: which positions of each axis, and the axes of the result.

use super::Index;
use crate::array::Array;
use crate::array::elementwise::broadcast_shapes;
use jaxrs_ir::DType;

/// What is taken of one axis of the operand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Taken {
    /// One position; the axis is dropped.
    At(u64),
    /// So many positions by steps, from the first one on.
    Range { first: u64, count: u64, step: i64 },
    /// Those in the array of this number; the axis is dropped.
    Array(usize),
}

impl Taken {
    /// Whether it is a range by steps of 1.
    pub fn is_window(&self) -> bool {
        matches!(self, Taken::Range { step: 1, .. })
    }
}

/// An axis of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    /// The range of this axis of the operand.
    Range(usize),
    /// This axis of the shape that the index arrays broadcast to.
    Picked(usize),
    /// A new one.
    New,
}

/// Indices, resolved.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// For each axis of the operand.
    pub taken: Vec<Taken>,
    /// The index arrays.
    pub arrays: Vec<Array>,
    /// The shape that they broadcast to.
    pub picked: Vec<u64>,
    /// The axes of the result.
    pub axes: Vec<Axis>,
}

impl Plan {
    /// Resolves indices of an operand of this shape.
    pub fn new(indices: &[Index], shape: &[u64]) -> Result<Plan, String> {
        let rank = shape.len();
        let named = |index: &&Index| !matches!(index, Index::Ellipsis | Index::NewAxis);
        let count = indices.iter().filter(named).count();
        let Some(left) = rank.checked_sub(count) else {
            return Err(format!("{count} indices for the {rank} axes of shape {shape:?}"));
        };
        let ellipses = indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count();
        if ellipses > 1 {
            return Err("`...` stands twice between the brackets".into());
        }
        let mut plan =
            Plan { taken: Vec::new(), arrays: Vec::new(), picked: Vec::new(), axes: Vec::new() };
        // Where in the indices positions are picked, and where their axes would stand.
        let mut picks = Vec::new();
        let mut first_pick = None;
        let whole = |plan: &mut Plan| {
            let axis = plan.taken.len();
            plan.taken.push(Taken::Range { first: 0, count: shape[axis], step: 1 });
            plan.axes.push(Axis::Range(axis));
        };
        for (position, index) in indices.iter().enumerate() {
            let axis = plan.taken.len();
            match index {
                Index::Ellipsis => (0..left).for_each(|_| whole(&mut plan)),
                Index::NewAxis => plan.axes.push(Axis::New),
                &Index::Range { start, stop, step } => {
                    plan.taken.push(range(start, stop, step, shape[axis])?);
                    plan.axes.push(Axis::Range(axis));
                }
                &Index::At(at) => {
                    plan.taken.push(Taken::At(one(at, axis, shape[axis])?));
                    picks.push(position);
                    first_pick.get_or_insert(plan.axes.len());
                }
                Index::Array(array) => {
                    check(array)?;
                    plan.taken.push(Taken::Array(plan.arrays.len()));
                    plan.arrays.push(array.clone());
                    picks.push(position);
                    first_pick.get_or_insert(plan.axes.len());
                }
            }
        }
        if ellipses == 0 {
            (0..left).for_each(|_| whole(&mut plan));
        }
        for array in &plan.arrays {
            plan.picked = broadcast_shapes(&plan.picked, array.shape()).ok_or_else(|| {
                let shapes: Vec<String> =
                    plan.arrays.iter().map(|array| array.ty().to_string()).collect();
                format!("index arrays do not broadcast: {}", shapes.join(", "))
            })?;
        }
        let together = picks.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let stand = first_pick.filter(|_| together).unwrap_or(0);
        let picked = (0..plan.picked.len()).map(Axis::Picked);
        plan.axes.splice(stand..stand, picked);
        Ok(plan)
    }

    /// The extent of an axis of the result.
    pub fn extent(&self, axis: Axis) -> u64 {
        match axis {
            Axis::New => 1,
            Axis::Picked(n) => self.picked[n],
            Axis::Range(axis) => match self.taken[axis] {
                Taken::Range { count, .. } => count,
                Taken::At(_) | Taken::Array(_) => 1,
            },
        }
    }

    /// The shape of the result.
    pub fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|&axis| self.extent(axis)).collect()
    }

    /// The axes of the result but the new ones.
    pub fn old_axes(&self) -> Vec<Axis> {
        self.axes.iter().copied().filter(|&axis| axis != Axis::New).collect()
    }

    /// The extents of [`Plan::old_axes`].
    pub fn old_shape(&self) -> Vec<u64> {
        self.old_axes().into_iter().map(|axis| self.extent(axis)).collect()
    }

    /// Whether no position is computed.
    pub fn is_static(&self) -> bool {
        self.arrays.is_empty()
    }

    /// Whether it is one window: ranges by steps of 1, and single positions.
    pub fn is_window(&self) -> bool {
        self.picked.is_empty()
            && self
                .taken
                .iter()
                .all(|taken| !matches!(taken, Taken::Range { .. } if !taken.is_window()))
    }

    /// The extents of the window in the operand's axes.
    pub fn window_sizes(&self) -> Vec<u64> {
        let size = |taken: &Taken| match taken {
            Taken::Range { count, .. } => *count,
            Taken::At(_) | Taken::Array(_) => 1,
        };
        self.taken.iter().map(size).collect()
    }
}

fn check(array: &Array) -> Result<(), String> {
    match array.dtype() {
        DType::I1 => Err("an index is a mask, whose result has no fixed shape; take all elements \
                          and choose with mask.where_(x, y)"
            .into()),
        dtype if dtype.is_int() || array.error().is_some() => Ok(()),
        _ => Err(format!("an index array is {}, expected integers", array.ty())),
    }
}

/// A position counted from the end if it is negative.
fn one(at: i64, axis: usize, extent: u64) -> Result<u64, String> {
    let from_start = i128::from(at) + if at < 0 { i128::from(extent) } else { 0 };
    u64::try_from(from_start)
        .ok()
        .filter(|&at| at < extent)
        .ok_or_else(|| format!("index {at} is out of range for axis {axis}, which is {extent}"))
}

/// A range by Python's rules: ends beyond the axis are those of the axis.
fn range(start: Option<i64>, stop: Option<i64>, step: i64, extent: u64) -> Result<Taken, String> {
    if step == 0 {
        return Err("a range has step 0".into());
    }
    let n = i128::from(extent);
    let (lowest, highest) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let end = |at: Option<i64>, default: i128| match at.map(i128::from) {
        None => default,
        Some(at) => (if at < 0 { at + n } else { at }).clamp(lowest, highest),
    };
    let (start, stop, size) = match step > 0 {
        true => (end(start, 0), end(stop, n), i128::from(step)),
        false => (end(start, n - 1), end(stop, -1), -i128::from(step)),
    };
    let distance = if step > 0 { stop - start } else { start - stop };
    if distance <= 0 {
        return Ok(Taken::Range { first: 0, count: 0, step: 1 });
    }
    let count = (distance + size - 1) / size;
    let step = if count == 1 { 1 } else { step };
    Ok(Taken::Range { first: start as u64, count: count as u64, step })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(start: Option<i64>, stop: Option<i64>, step: i64, extent: u64) -> Vec<i64> {
        match range(start, stop, step, extent) {
            Ok(Taken::Range { first, count, step }) => {
                (0..count as i64).map(|n| first as i64 + n * step).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranges_are_those_of_python() {
        assert_eq!(of(None, None, 1, 3), [0, 1, 2]);
        assert_eq!(of(Some(-2), None, 1, 3), [1, 2]);
        assert_eq!(of(None, Some(-1), 1, 3), [0, 1]);
        assert_eq!(of(None, None, -1, 3), [2, 1, 0]);
        assert_eq!(of(Some(7), Some(0), -2, 6), [5, 3, 1]);
        assert_eq!(of(Some(1), Some(100), 2, 6), [1, 3, 5]);
        assert_eq!(of(Some(4), Some(2), 1, 6), [0i64; 0]);
        assert_eq!(of(Some(-100), Some(2), 1, 6), [0, 1]);
        assert_eq!(of(None, None, 3, 0), [0i64; 0]);
        assert_eq!(of(Some(2), Some(-100), -1, 6), [2, 1, 0]);
    }

    #[test]
    fn positions_out_of_range_are_errors() {
        assert_eq!(one(-1, 0, 3), Ok(2));
        assert!(one(3, 0, 3).is_err());
        assert!(one(-4, 0, 3).is_err());
        assert!(one(0, 0, 0).is_err());
        assert!(range(None, None, 0, 3).is_err());
    }
}
