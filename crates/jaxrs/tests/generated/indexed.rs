//! Gather, scatter, sort, top_k, random bits.

use crate::build::{Gen, sum_reach};
use jaxrs_ir::ops::compare::Order;
use jaxrs_ir::ops::indexing::Windows;
use jaxrs_ir::ops::rng_bit_generator::Algorithm;
use jaxrs_ir::ops::{Compare, Gather, Iota, RngBitGenerator, Scatter, Select, Sort, TopK};
use jaxrs_ir::{DType, Literal, TensorType, ValueId};
use jaxrs_kernel::Compare as Direction;
use jaxrs_kernel::dtype::Class;

/// How windows lie in an operand, and the indices' shape.
struct Placement {
    windows: Windows,
    indices: Vec<u64>,
    /// The window's extent in each operand axis.
    sizes: Vec<u64>,
}

fn placement(g: &mut Gen<'_>, shape: &[u64]) -> Placement {
    let (rank, over) = (shape.len(), g.r.index(3));
    let batches = if g.r.percent(25) { over.min(rank.saturating_sub(1)).min(1) } else { 0 };
    let axes = g.r.shuffled((0..rank).collect());
    let (operand_batch, rest) = (axes[..batches].to_vec(), &axes[batches..]);
    let inserted: Vec<usize> =
        rest.iter().copied().filter(|&a| shape[a] > 0 && g.r.percent(40)).collect();
    let start: Vec<usize> = rest.iter().copied().filter(|_| g.r.percent(60)).collect();
    let sizes: Vec<u64> = (0..rank)
        .map(|axis| {
            let one = operand_batch.contains(&axis) || inserted.contains(&axis);
            match shape[axis] {
                _ if one => 1,
                extent if g.r.percent(40) => extent,
                0 => 0,
                extent => 1 + g.r.below(extent),
            }
        })
        .collect();
    // The indices: axes over the windows, and one over the components.
    let mut indices: Vec<u64> = (0..over).map(|_| 1 + g.r.below(5)).collect();
    let alone = start.len() == 1 && g.r.percent(40);
    let vector = if alone { over } else { g.r.index(over + 1) };
    let batch_axes: Vec<usize> = (0..batches).collect();
    batch_axes.iter().zip(&operand_batch).for_each(|(&w, &axis)| indices[w] = shape[axis]);
    let indices_batch =
        batch_axes.iter().map(|&w| w + usize::from(!alone && w >= vector)).collect();
    if !alone {
        indices.insert(vector, start.len() as u64);
    }
    let sorted = |mut axes: Vec<usize>| {
        axes.sort_unstable();
        axes
    };
    let inside = rank - batches - inserted.len();
    let inside = sorted(g.r.shuffled((0..over + inside).collect())[..inside].to_vec());
    let windows =
        Windows { inside, inserted: sorted(inserted), operand_batch, indices_batch, start, vector };
    Placement { windows, indices, sizes }
}

/// Indices: more often inside than not.
fn indices(g: &mut Gen<'_>, shape: Vec<u64>, extent: u64) -> ValueId {
    let dtype = g.r.pick(&[DType::I32, DType::I32, DType::I32, DType::I64, DType::U32, DType::I8]);
    let ty = TensorType::new(shape, dtype);
    if g.r.percent(35) {
        return g.of(&ty);
    }
    let low = if dtype.class() == Class::Signed && g.r.percent(30) { -1 } else { 0 };
    let high = extent.min(100) as i64 - i64::from(g.r.percent(70));
    let mask = u64::MAX >> (64 - dtype.bits());
    let parts: Vec<u64> =
        (0..ty.len()).map(|_| g.r.between(low, high.max(low)) as u64 & mask).collect();
    g.constant(Literal::from_bits(ty, &parts), 100.0)
}

pub fn gather(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0 && !g.f.ty(v).is_empty())?;
    let shape = g.shape(x);
    let Placement { windows, indices: index_shape, sizes } = placement(g, &shape);
    let extent = windows.start.iter().map(|&axis| shape[axis]).max().unwrap_or(1);
    let index = indices(g, index_shape, extent);
    let bound = g.bound(x);
    g.add(Gather { windows, slice_sizes: sizes, sorted: false }, &[x, index], bound)
}

pub fn scatter(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0 && !g.f.ty(v).is_empty())?;
    let ty = g.ty(x);
    let (op, index, updates) = places(g, &ty)?;
    let update = if g.r.percent(60) { g.of(&updates) } else { g.make(&updates) };
    write(g, x, index, update, op)
}

/// A scatter into two operands at the same places; the larger of the first ones may decide for
/// both.
pub fn scatter_two(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0 && !g.f.ty(v).is_empty())?;
    let ty = g.ty(x);
    let other = TensorType::new(ty.shape.clone(), g.any_dtype());
    let y = g.of(&other);
    let (op, index, updates) = places(g, &ty)?;
    let new = [g.of(&updates), g.of(&updates.with_dtype(other.dtype))];
    let joint = !ty.dtype.is_complex() && g.r.percent(40);
    let old = [x, y];
    let rules = [0, 1].map(|n| rule(g, old[n], new[n]));
    let types = [ty.dtype, other.dtype, ty.dtype, other.dtype];
    let body = g.region(&types, |g, a| {
        if joint {
            let better = g.add(Compare::new(Direction::Gt), &[a[2], a[0]], 1.0);
            let better = better.expect("it is a scalar");
            let mut choose = |old, new| {
                g.add(Select, &[better, new, old], f64::INFINITY).expect("it is a scalar")
            };
            return vec![choose(a[0], a[2]), choose(a[1], a[3])];
        }
        [0, 1].map(|n| rules[n].0.map_or(a[n + 2], |name| g.apply(name, &[a[n], a[n + 2]]))).into()
    });
    let results = g.push(op, &[x, y, index, new[0], new[1]], &[body])?;
    for n in 0..2 {
        let bound = if joint { g.bound(old[n]).max(g.bound(new[n])) } else { rules[n].1 };
        g.keep(results[n], bound);
    }
    Some(results[1])
}

/// Where a scatter writes into a tensor: the op, the indices, and the type of the updates.
fn places(g: &mut Gen<'_>, ty: &TensorType) -> Option<(Scatter, ValueId, TensorType)> {
    let Placement { windows, indices: index_shape, sizes } = placement(g, &ty.shape);
    let extent = windows.start.iter().map(|&axis| ty.shape[axis]).max().unwrap_or(1);
    let index = indices(g, index_shape, extent);
    let kept =
        |axis: &usize| !windows.inserted.contains(axis) && !windows.operand_batch.contains(axis);
    let inside: Vec<u64> = (0..sizes.len()).filter(kept).map(|axis| sizes[axis]).collect();
    let updates =
        TensorType::new(windows.combine(&windows.batch_shape(g.f.ty(index)), &inside), ty.dtype);
    if updates.len() > g.largest {
        return None;
    }
    Some((Scatter { windows, sorted: false, unique: false }, index, updates))
}

/// A scatter of one window at a fixed place, as `x.at[1:-1].set(y)` is exported.
pub fn scatter_window(
    g: &mut Gen<'_>,
    x: ValueId,
    update: ValueId,
    starts: &[u64],
) -> Option<ValueId> {
    let rank = starts.len();
    let ty = TensorType::new([rank as u64], DType::I32);
    let index = g.constant(Literal::from_bits(ty, starts), 1.0);
    let windows = Windows {
        inside: (0..rank).collect(),
        inserted: Vec::new(),
        operand_batch: Vec::new(),
        indices_batch: Vec::new(),
        start: (0..rank).collect(),
        vector: 0,
    };
    write(g, x, index, update, Scatter { windows, sorted: true, unique: true })
}

fn write(
    g: &mut Gen<'_>,
    x: ValueId,
    index: ValueId,
    update: ValueId,
    op: Scatter,
) -> Option<ValueId> {
    let dtype = g.dtype(x);
    let (name, bound) = rule(g, x, update);
    let body = g.region(&[dtype, dtype], |g, arguments| match name {
        Some(name) => vec![g.apply(name, arguments)],
        None => vec![arguments[1]],
    });
    let result = g.push(op, &[x, index, update], &[body])?[0];
    Some(g.keep(result, bound))
}

/// The op that combines an update with what is there (None: the update alone), and the bound of
/// what comes out.
fn rule(g: &mut Gen<'_>, x: ValueId, update: ValueId) -> (Option<&'static str>, f64) {
    let dtype = g.dtype(x);
    let (old, new) = (g.bound(x), g.bound(update));
    let sum = old + new * g.f.ty(update).len() as f64;
    match g.r.below(4) {
        0 if sum <= sum_reach(dtype) => (Some("stablehlo.add"), sum),
        1 => (Some("stablehlo.maximum"), old.max(new)),
        2 if dtype.is_int() => (Some("stablehlo.xor"), f64::INFINITY),
        _ => (None, old.max(new)),
    }
}

pub fn sort(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0 && g.has_order(v))?;
    let ty = g.ty(x);
    let axis = g.r.index(ty.rank());
    let mut operands = vec![x];
    let keys = if g.r.percent(25) { 2 } else { 1 };
    let payloads = g.r.index(3);
    for n in 1..keys + payloads {
        let dtype = g.any_dtype();
        let dtype = if n < keys && dtype.is_complex() { DType::I32 } else { dtype };
        let operand = g.of(&TensorType::new(ty.shape.clone(), dtype));
        if n < keys && !g.has_order(operand) {
            return None;
        }
        operands.push(operand);
    }
    let types: Vec<DType> = operands.iter().flat_map(|&v| [g.dtype(v), g.dtype(v)]).collect();
    let direction = g.r.pick(&[Direction::Lt, Direction::Gt]);
    let body = g.region(&types, |g, arguments| {
        let mut order = None;
        for key in (0..keys).rev() {
            let pair = &arguments[2 * key..2 * key + 2];
            // Only the total order orders NaN.
            let total = g.dtype(pair[0]).is_float().then_some(Order::Total);
            let less = g.add(Compare { direction, order: total }, pair, 1.0);
            let less = less.expect("it is a scalar");
            order = Some(match order {
                None => less,
                Some(rest) => {
                    let equal = Compare { direction: Direction::Eq, order: total };
                    let equal = g.add(equal, pair, 1.0).expect("it is a scalar");
                    g.add(Select, &[equal, rest, less], 1.0).expect("it is a scalar")
                }
            });
        }
        vec![order.expect("there is a key")]
    });
    let stable = operands.len() > 1 || g.r.percent(50);
    let results = g.push(Sort { axis, stable }, &operands, &[body])?;
    for (&operand, &result) in operands.iter().zip(&results) {
        let bound = g.bound(operand);
        g.keep(result, bound);
    }
    Some(results[0])
}

pub fn top_k(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0 && g.has_order(v))?;
    let extent = *g.shape(x).last()?;
    let k = g.r.below(extent + 1);
    let results = g.push(TopK { k }, &[x], &[])?;
    let bound = g.bound(x);
    g.keep(results[0], bound);
    Some(g.keep(results[1], extent as f64))
}

/// The position of the largest element, as a sort or a reduction of pairs needs it.
pub fn positions(g: &mut Gen<'_>, ty: &TensorType, axis: usize) -> Option<ValueId> {
    let ty = ty.with_dtype(DType::I32);
    let bound = ty.shape[axis] as f64;
    g.add(Iota { axis, ty }, &[], bound)
}

pub fn random_bits(g: &mut Gen<'_>) -> Option<ValueId> {
    let algorithm = g.r.pick(&[Algorithm::ThreeFry, Algorithm::Philox, Algorithm::Default]);
    let threefry = matches!(algorithm, Algorithm::ThreeFry);
    let extent = if threefry { 2 } else { g.r.pick(&[2, 3]) };
    let state = g.of(&TensorType::new([extent], DType::U64));
    let dtype = g.r.pick(&[DType::U32, DType::U32, DType::U64, DType::U8, DType::I16, DType::I64]);
    let result = TensorType::new(g.any_shape(2), dtype);
    let results = g.push(RngBitGenerator { algorithm, result }, &[state], &[])?;
    g.keep(results[0], f64::INFINITY);
    Some(g.keep(results[1], f64::INFINITY))
}
