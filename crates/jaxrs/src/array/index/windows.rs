//! Indices as start indices of windows, for `gather` and `scatter`.

use super::plan::{Axis, Plan, Taken};
use crate::array::elementwise::broadcast_value;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::ops::indexing::Windows;
use jaxrs_ir::{DType, TensorType, ValueId};
use jaxrs_kernel::Compare;

/// The windows that indices name.
pub(super) struct Placed {
    pub windows: Windows,
    /// The start indices.
    pub indices: ValueId,
    /// Extents of a window in the operand's axes.
    pub sizes: Vec<u64>,
    /// Over the windows: whether the computed positions are inside; None if they must be.
    pub inside: Option<ValueId>,
    /// The axes of the result that run over windows.
    pub over: Vec<usize>,
}

/// The element type in which positions along axes of these extents are computed.
pub(super) fn position_type(shape: &[u64], arrays: impl IntoIterator<Item = DType>) -> DType {
    let wide = shape.iter().any(|&extent| extent > i32::MAX as u64)
        || arrays.into_iter().any(|dtype| dtype.size() == 8 || dtype == DType::U32);
    if wide { DType::I64 } else { DType::I32 }
}

/// Positions with the negative ones counted from the end.
pub(super) fn from_start(
    b: &mut Builder<'_>,
    positions: ValueId,
    extent: u64,
    dtype: DType,
) -> Result<ValueId, String> {
    let mut positions = positions;
    let given = b.ty(positions).dtype;
    if given == DType::U64 {
        let last = b.full_like(positions, extent as f64)?;
        positions = b.elementwise("stablehlo.minimum", &[positions, last])?;
    }
    let unsigned = matches!(given, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    let positions = b.convert(positions, dtype)?;
    if unsigned {
        return Ok(positions);
    }
    let zero = b.full_like(positions, 0.0)?;
    let negative = b.compare(Compare::Lt, positions, zero)?;
    let count = b.full_like(positions, extent as f64)?;
    let moved = b.add(positions, count)?;
    b.select(negative, moved, positions)
}

/// Whether positions are within an axis.
pub(super) fn within(
    b: &mut Builder<'_>,
    positions: ValueId,
    extent: u64,
) -> Result<ValueId, String> {
    let (zero, end) = (b.full_like(positions, 0.0)?, b.full_like(positions, extent as f64)?);
    let from = b.compare(Compare::Ge, positions, zero)?;
    let to = b.compare(Compare::Lt, positions, end)?;
    b.elementwise("stablehlo.and", &[from, to])
}

/// The windows of a plan over an operand of this shape, which has an axis; `arrays` are the plan's.
pub(super) fn place(
    b: &mut Builder<'_>,
    plan: &Plan,
    shape: &[u64],
    arrays: &[ValueId],
) -> Result<Placed, String> {
    let dtype = position_type(shape, arrays.iter().map(|&array| b.ty(array).dtype));
    let axes = plan.old_axes();
    let inside_window = |axis: &Axis| match *axis {
        Axis::Range(axis) => plan.taken[axis].is_window(),
        Axis::Picked(_) | Axis::New => false,
    };
    let (inside, over): (Vec<usize>, Vec<usize>) =
        (0..axes.len()).partition(|&n| inside_window(&axes[n]));
    let batch: Vec<u64> = over.iter().map(|&n| plan.extent(axes[n])).collect();
    let ty = TensorType::new(batch.clone(), dtype);
    let stands = |axis: Axis| over.iter().position(|&n| axes[n] == axis);

    let mut components = Vec::new();
    let mut is_inside = None;
    for (axis, taken) in plan.taken.iter().enumerate() {
        let component = match *taken {
            Taken::At(0) | Taken::Range { first: 0, step: 1, .. } => continue,
            Taken::At(at) | Taken::Range { first: at, step: 1, .. } => b.full(&ty, at as f64)?,
            Taken::Range { first, step, .. } => {
                let along = stands(Axis::Range(axis)).expect("a range by steps is no window");
                let count = b.iota(&ty, along)?;
                let (step, first) = (b.full(&ty, step as f64)?, b.full(&ty, first as f64)?);
                let distance = b.multiply(count, step)?;
                b.add(distance, first)?
            }
            Taken::Array(number) => {
                let positions = from_start(b, arrays[number], shape[axis], dtype)?;
                let positions = broadcast_value(b, positions, &plan.picked)?;
                let to: Vec<usize> = (0..plan.picked.len())
                    .map(|n| stands(Axis::Picked(n)).expect("it runs over windows"))
                    .collect();
                let positions = b.broadcast_in_dim(positions, &batch, &to)?;
                let one = within(b, positions, shape[axis])?;
                is_inside = Some(match is_inside {
                    Some(others) => b.elementwise("stablehlo.and", &[others, one])?,
                    None => one,
                });
                positions
            }
        };
        components.push((axis, component));
    }
    if components.is_empty() {
        components.push((0, b.zeros(&ty)?));
    }
    let vector = batch.len();
    let mut columns = Vec::with_capacity(components.len());
    for &(_, component) in &components {
        columns.push(b.reshape(component, &[&batch[..], &[1]].concat())?);
    }
    let indices = b.concatenate(&columns, vector)?;
    let inserted: Vec<usize> =
        (0..shape.len()).filter(|&axis| !plan.taken[axis].is_window()).collect();
    let size = |taken: &Taken| match taken {
        Taken::Range { count, step: 1, .. } => *count,
        Taken::Range { .. } | Taken::At(_) | Taken::Array(_) => 1,
    };
    let windows = Windows {
        inside,
        inserted,
        operand_batch: Vec::new(),
        indices_batch: Vec::new(),
        start: components.iter().map(|&(axis, _)| axis).collect(),
        vector,
    };
    Ok(Placed {
        windows,
        indices,
        sizes: plan.taken.iter().map(size).collect(),
        inside: is_inside,
        over,
    })
}

/// Start indices clamped so that a window of one element stays inside the operand.
pub(super) fn clamped(
    b: &mut Builder<'_>,
    placed: &Placed,
    shape: &[u64],
) -> Result<ValueId, String> {
    let ty = b.ty(placed.indices);
    let last = placed.windows.start.iter().map(|&axis| shape[axis] - placed.sizes[axis]);
    let bounds: Vec<u64> = last.collect();
    let row = TensorType::new([bounds.len() as u64], ty.dtype);
    let high = b.constant(jaxrs_ir::Literal::from_bits(row, &bounds))?;
    let high = b.broadcast_in_dim(high, &ty.shape, &[placed.windows.vector])?;
    let low = b.zeros(&ty)?;
    let raised = b.elementwise("stablehlo.maximum", &[placed.indices, low])?;
    b.elementwise("stablehlo.minimum", &[raised, high])
}
