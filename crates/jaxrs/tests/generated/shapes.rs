//! Elementwise ops and ops that move data.

use crate::build::Gen;
use jaxrs_ir::lower::ElementCost;
use jaxrs_ir::ops::compare::Order;
use jaxrs_ir::ops::elementwise::TABLE;
use jaxrs_ir::ops::{
    BitcastConvert, BroadcastInDim, Clamp, Compare, Concatenate, DynamicSlice, DynamicUpdateSlice,
    GetDimensionSize, Iota, OptimizationBarrier, Pad, ReducePrecision, Reshape, Reverse, Select,
    Slice, Transpose,
};
use jaxrs_ir::{DType, TensorType, ValueId};
use jaxrs_kernel::Compare as Direction;

const DIRECTIONS: [Direction; 6] =
    [Direction::Eq, Direction::Ne, Direction::Lt, Direction::Le, Direction::Gt, Direction::Ge];

pub fn elementwise(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any();
    let (ty, dtype) = (g.ty(x), g.dtype(x));
    // Complex functions are long; a few of them are enough.
    let expensive = g.r.percent(if dtype.is_complex() { 12 } else { 35 });
    let fits = |row: &&jaxrs_ir::ops::elementwise::Row| {
        (row.accepts)(dtype) && (row.cost == ElementCost::Expensive) == expensive
    };
    let rows: Vec<&str> = TABLE.iter().filter(fits).map(|row| row.name).collect();
    let common = ["stablehlo.add", "stablehlo.multiply", "stablehlo.maximum"];
    let name = if rows.is_empty() || g.r.percent(15) { g.r.pick(&common) } else { g.r.pick(&rows) };
    let arity = TABLE.iter().find(|row| row.name == name)?.arity;
    if arity == 1 {
        return Some(g.apply(name, &[x]));
    }
    let y = g.of(&ty);
    let operands = if g.r.percent(50) { [x, y] } else { [y, x] };
    Some(g.apply(name, &operands))
}

pub fn compare(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any();
    let y = g.of(&g.ty(x));
    compare_values(g, x, y)
}

pub fn compare_values(g: &mut Gen<'_>, x: ValueId, y: ValueId) -> Option<ValueId> {
    let dtype = g.dtype(x);
    let direction = g.r.pick(if dtype.is_complex() { &DIRECTIONS[..2] } else { &DIRECTIONS });
    let order = (g.has_order(x) && g.has_order(y) && dtype.is_float() && g.r.percent(20))
        .then_some(Order::Total);
    g.add(Compare { direction, order }, &[x, y], 1.0)
}

pub fn select(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any();
    let ty = g.ty(x);
    let y = g.of(&ty);
    let scalar = g.r.percent(20);
    let shape = if scalar { Vec::new() } else { ty.shape };
    let predicate = g.of(&TensorType::new(shape, DType::I1));
    let bound = g.bound(x).max(g.bound(y));
    g.add(Select, &[predicate, x, y], bound)
}

pub fn clamp(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| !g.dtype(v).is_complex())?;
    let ty = g.ty(x);
    let limit = |g: &mut Gen<'_>| {
        let shape = if g.r.percent(60) { Vec::new() } else { ty.shape.clone() };
        g.of(&TensorType::new(shape, ty.dtype))
    };
    let (low, high) = (limit(g), limit(g));
    let bound = g.bound(x).max(g.bound(low)).max(g.bound(high));
    g.add(Clamp, &[low, x, high], bound)
}

pub fn convert(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any();
    let to = g.any_dtype();
    if g.dtype(x).is_complex() && !to.is_complex() {
        return None;
    }
    Some(g.convert(x, to))
}

pub fn reduce_precision(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.dtype(v).is_float())?;
    let (exponent_bits, mantissa_bits) =
        g.r.pick(&[(8, 7), (5, 10), (4, 3), (5, 2), (8, 23), (3, 0), (11, 52), (1, 1)]);
    g.add(ReducePrecision { exponent_bits, mantissa_bits }, &[x], f64::INFINITY)
}

pub fn bitcast(g: &mut Gen<'_>) -> Option<ValueId> {
    // The bits of a NaN are nobody's promise.
    let x = g.any_where(|g, v| g.dtype(v).is_int() || g.dtype(v).is_float() && g.bound(v) < 1e9)?;
    let ty = g.ty(x);
    let last = ty.shape.last().copied();
    let fits = |to: &DType| {
        let (a, b) = (ty.dtype.size(), to.size());
        *to != DType::I1 && !to.is_complex() && (b <= a || last == Some(b / a))
    };
    let types: Vec<DType> = DType::ALL.into_iter().filter(fits).collect();
    let to = g.r.pick(&types);
    g.add(BitcastConvert { to }, &[x], f64::INFINITY)
}

pub fn iota(g: &mut Gen<'_>) -> Option<ValueId> {
    let dtype = g.any_dtype();
    let mut shape = g.any_shape(3);
    if shape.is_empty() {
        shape.push(g.extents[0]);
    }
    let axis = g.r.index(shape.len());
    let dtype = if dtype == DType::I1 { DType::I32 } else { dtype };
    let bound = shape[axis] as f64;
    g.add(Iota { axis, ty: TensorType::new(shape, dtype) }, &[], bound)
}

pub fn broadcast(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any();
    let ty = g.ty(x);
    let rank = (ty.rank() + g.r.index(3)).min(4).max(ty.rank());
    let mut axes: Vec<usize> = g.r.shuffled((0..rank).collect())[..ty.rank()].to_vec();
    if g.r.percent(85) {
        axes.sort_unstable();
    }
    let mut shape: Vec<u64> = (0..rank).map(|_| g.extents[g.r.index(g.extents.len())]).collect();
    for (&axis, &extent) in axes.iter().zip(&ty.shape) {
        if extent != 1 || g.r.percent(30) {
            shape[axis] = extent;
        }
    }
    let bound = g.bound(x);
    g.add(BroadcastInDim { axes, shape }, &[x], bound)
}

pub fn reshape(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any();
    let shape = refactored(g, g.f.ty(x).len());
    let bound = g.bound(x);
    g.add(Reshape { shape }, &[x], bound)
}

/// A shape of so many elements.
fn refactored(g: &mut Gen<'_>, len: u64) -> Vec<u64> {
    let mut shape = vec![len];
    for _ in 0..g.r.below(4) {
        let at = g.r.index(shape.len());
        let whole = shape[at];
        let by = g.r.pick(&[1, 2, 3, 4, 5, 7, 8]);
        if whole % by == 0 {
            shape[at] = whole / by;
            shape.insert(at + g.r.index(2), by);
        }
    }
    if len == 1 && g.r.percent(40) { Vec::new() } else { shape }
}

pub fn transpose(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let permutation = g.r.shuffled((0..g.f.ty(x).rank()).collect());
    let bound = g.bound(x);
    g.add(Transpose { permutation }, &[x], bound)
}

pub fn reverse(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let axes = g.r.some(g.f.ty(x).rank());
    let bound = g.bound(x);
    g.add(Reverse { axes }, &[x], bound)
}

pub fn slice(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let (mut starts, mut limits, mut strides) = (Vec::new(), Vec::new(), Vec::new());
    for extent in g.shape(x) {
        let whole = g.r.percent(45);
        let start = if whole { 0 } else { g.r.below(extent + 1) };
        let limit = if whole { extent } else { start + g.r.below(extent - start + 1) };
        starts.push(start);
        limits.push(limit);
        strides.push(if g.r.percent(75) { 1 } else { 1 + g.r.below(3) });
    }
    let bound = g.bound(x);
    g.add(Slice { starts, limits, strides }, &[x], bound)
}

/// Scalars of one integer type, one an axis.
fn starts(g: &mut Gen<'_>, shape: &[u64]) -> Vec<ValueId> {
    let dtype = g.r.pick(&[DType::I32, DType::I32, DType::I32, DType::I64, DType::U8, DType::U32]);
    shape.iter().map(|&extent| g.start(dtype, extent)).collect()
}

pub fn dynamic_slice(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let shape = g.shape(x);
    let sizes = part(g, &shape);
    let mut operands = vec![x];
    operands.extend(starts(g, &shape));
    let bound = g.bound(x);
    g.add(DynamicSlice { sizes }, &operands, bound)
}

/// Extents no larger than these.
fn part(g: &mut Gen<'_>, shape: &[u64]) -> Vec<u64> {
    shape
        .iter()
        .map(|&extent| match g.r.below(3) {
            0 => extent,
            1 => extent.min(1),
            _ => g.r.below(extent + 1),
        })
        .collect()
}

pub fn dynamic_update_slice(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    update(g, x)
}

/// A value with a part of it written over.
pub fn update(g: &mut Gen<'_>, x: ValueId) -> Option<ValueId> {
    let ty = g.ty(x);
    let sizes = part(g, &ty.shape);
    let piece = if g.r.percent(35) {
        // A part of the same value, from another place.
        let mut operands = vec![x];
        operands.extend(starts(g, &ty.shape));
        let bound = g.bound(x);
        let piece = g.add(DynamicSlice { sizes }, &operands, bound)?;
        if g.r.percent(50) { g.apply("stablehlo.add", &[piece, piece]) } else { piece }
    } else {
        g.of(&TensorType::new(sizes, ty.dtype))
    };
    let mut operands = vec![x, piece];
    operands.extend(starts(g, &ty.shape));
    let bound = g.bound(x).max(g.bound(piece));
    g.add(DynamicUpdateSlice, &operands, bound)
}

pub fn pad(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let ty = g.ty(x);
    let (mut low, mut high, mut interior) = (Vec::new(), Vec::new(), Vec::new());
    for &extent in &ty.shape {
        let wide = extent.min(3) as i64;
        let (a, b) = (g.r.between(-wide, 3), g.r.between(-wide, 3));
        let inside = if g.r.percent(75) { 0 } else { 1 + g.r.below(2) };
        let fits = extent as i64 + a + b >= 0;
        low.push(if fits { a } else { 0 });
        high.push(if fits { b } else { 0 });
        interior.push(inside);
    }
    let value =
        if g.r.percent(60) { g.number(ty.dtype, 0.0) } else { g.of(&TensorType::scalar(ty.dtype)) };
    let bound = g.bound(x).max(g.bound(value));
    g.add(Pad { low, high, interior }, &[x, value], bound)
}

pub fn concatenate(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let ty = g.ty(x);
    let axis = g.r.index(ty.rank());
    let mut operands = vec![x];
    for _ in 0..1 + g.r.below(3) {
        let mut shape = ty.shape.clone();
        if g.r.percent(40) {
            shape[axis] = g.r.pick(&[0, 1, 1, 2, 3]);
        }
        operands.push(g.of(&TensorType::new(shape, ty.dtype)));
    }
    let operands = g.r.shuffled(operands);
    let bound = operands.iter().map(|&v| g.bound(v)).fold(0.0, f64::max);
    g.add(Concatenate { axis }, &operands, bound)
}

pub fn dimension_size(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let axis = g.r.index(g.f.ty(x).rank());
    let bound = g.shape(x)[axis] as f64;
    g.add(GetDimensionSize { axis }, &[x], bound)
}

pub fn barrier(g: &mut Gen<'_>) -> Option<ValueId> {
    let operands: Vec<ValueId> = (0..1 + g.r.below(3)).map(|_| g.any()).collect();
    let results = g.push(OptimizationBarrier, &operands, &[])?;
    for (&operand, &result) in operands.iter().zip(&results) {
        let bound = g.bound(operand);
        g.keep(result, bound);
    }
    Some(results[0])
}

/// Neighbours of one value combined, and the result put back into its middle.
pub fn stencil(g: &mut Gen<'_>, x: ValueId) -> Option<ValueId> {
    let ty = g.ty(x);
    let mut wide: Vec<usize> = (0..ty.rank()).filter(|&axis| ty.shape[axis] >= 3).collect();
    if wide.is_empty() || ty.is_empty() {
        return None;
    }
    if wide.len() > 1 && g.r.percent(40) {
        wide = vec![wide[g.r.index(wide.len())]];
    }
    let mut inner = ty.shape.clone();
    wide.iter().for_each(|&axis| inner[axis] -= 2);
    let bound = g.bound(x);
    let mut sum = None;
    for _ in 0..2 + g.r.below(3) {
        let mut starts = vec![0; ty.rank()];
        wide.iter().for_each(|&axis| starts[axis] = g.r.below(3));
        let limits = starts.iter().zip(&inner).map(|(s, n)| s + n).collect();
        let piece = g.add(Slice { starts, limits, strides: vec![1; ty.rank()] }, &[x], bound)?;
        let names = ["stablehlo.add", "stablehlo.add", "stablehlo.maximum", "stablehlo.multiply"];
        sum = Some(match sum {
            None => piece,
            Some(sum) => {
                let name = g.r.pick(&names);
                g.apply(name, &[sum, piece])
            }
        });
    }
    let sum = sum?;
    let at = |axis: usize| u64::from(wide.contains(&axis));
    let bound = g.bound(x).max(g.bound(sum));
    match g.r.below(4) {
        0 | 1 => {
            let mut operands = vec![x, sum];
            for axis in 0..ty.rank() {
                operands.push(g.number(DType::I32, at(axis) as f64));
            }
            g.add(DynamicUpdateSlice, &operands, bound)
        }
        2 => {
            let starts: Vec<u64> = (0..ty.rank()).map(at).collect();
            crate::indexed::scatter_window(g, x, sum, &starts)
        }
        _ => {
            let edge: Vec<i64> = (0..ty.rank()).map(|axis| at(axis) as i64).collect();
            let zero = g.number(ty.dtype, 0.0);
            let pad = Pad { low: edge.clone(), high: edge, interior: vec![0; ty.rank()] };
            let padded = g.add(pad, &[sum, zero], bound)?;
            Some(g.apply("stablehlo.add", &[x, padded]))
        }
    }
}
