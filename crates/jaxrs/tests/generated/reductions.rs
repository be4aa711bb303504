//! Reductions, windows and contractions, on values whose sums are exact in any order.

use crate::build::{Gen, neutral, sum_reach};
use crate::indexed::positions;
use jaxrs_ir::ops::convolution::{Axes, Convolution};
use jaxrs_ir::ops::window::{WindowAxis, windows};
use jaxrs_ir::ops::{
    Compare, DotGeneral, Elementwise, Map, Pad, Reduce, ReduceWindow, Reverse, Select,
    SelectAndScatter, Transpose,
};
use jaxrs_ir::{BlockId, DType, TensorType, ValueId};
use jaxrs_kernel::Compare as Direction;
use jaxrs_kernel::dtype::Class;

/// How values are combined, and the bound of what comes out.
struct Combine {
    name: &'static str,
    bound: f64,
}

/// A combining op that gives the same for every order of `terms` values.
fn combine(g: &mut Gen<'_>, x: ValueId, terms: u64) -> Combine {
    let (dtype, bound) = (g.dtype(x), g.bound(x));
    let sum = bound * terms as f64 + 4.0;
    let mut names = vec!["stablehlo.maximum", "stablehlo.minimum"];
    if sum <= sum_reach(dtype) {
        names.extend(["stablehlo.add"; 5]);
    }
    if dtype.is_int() {
        names.extend(["stablehlo.and", "stablehlo.or", "stablehlo.xor", "stablehlo.multiply"]);
    }
    if dtype == DType::I1 {
        names.extend(["stablehlo.and", "stablehlo.or", "stablehlo.xor"]);
    }
    if dtype.is_float() && bound <= 1.0 {
        names.push("stablehlo.multiply");
    }
    let name = g.r.pick(&names);
    let bound = match name {
        "stablehlo.add" => sum,
        "stablehlo.maximum" | "stablehlo.minimum" => f64::INFINITY,
        "stablehlo.multiply" if dtype.is_float() => bound,
        _ => f64::INFINITY,
    };
    Combine { name, bound }
}

/// The first value: the neutral one, or another small one.
fn initial(g: &mut Gen<'_>, dtype: DType, combine: &mut Combine, old: f64) -> ValueId {
    let exact = matches!(combine.name, "stablehlo.maximum" | "stablehlo.minimum");
    if g.r.percent(70) && !combine.bound.is_infinite() || g.r.percent(50) {
        return g.constant(neutral(combine.name, dtype), f64::INFINITY);
    }
    if exact {
        combine.bound = old.max(4.0);
    }
    let unit = combine.name == "stablehlo.multiply";
    g.tame(&TensorType::scalar(dtype), if unit { 1.0 } else { 4.0 })
}

fn body(g: &mut Gen<'_>, dtype: DType, name: &str) -> BlockId {
    let swapped = g.r.percent(20);
    g.region(&[dtype, dtype], |g, x| {
        let operands = if swapped { [x[1], x[0]] } else { [x[0], x[1]] };
        vec![g.apply(name, &operands)]
    })
}

pub fn reduce(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any();
    let ty = g.ty(x);
    let axes = g.r.some(ty.rank());
    let terms: u64 = axes.iter().map(|&axis| ty.shape[axis]).product();
    let mut combine = combine(g, x, terms);
    let old = g.bound(x);
    let init = initial(g, ty.dtype, &mut combine, old);
    let body = body(g, ty.dtype, combine.name);
    let result = g.push(Reduce { axes }, &[x, init], &[body])?[0];
    Some(g.keep(result, combine.bound))
}

/// Several operands with a body of their own for each.
pub fn reduce_together(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any();
    let ty = g.ty(x);
    let other = TensorType::new(ty.shape.clone(), g.any_dtype());
    let y = g.of(&other);
    let axes = g.r.some(ty.rank());
    let terms: u64 = axes.iter().map(|&axis| ty.shape[axis]).product();
    let (body, inits, bounds) = two_combined(g, [x, y], terms);
    let results = g.push(Reduce { axes }, &[x, y, inits[0], inits[1]], &[body])?;
    g.keep(results[0], bounds[0]);
    Some(g.keep(results[1], bounds[1]))
}

/// The largest or smallest element with its position, as `argmax` is exported.
pub fn arg_extreme(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0 && !g.dtype(v).is_complex())?;
    let ty = g.ty(x);
    let axis = g.r.index(ty.rank());
    let position = positions(g, &ty, axis)?;
    let greater = g.r.percent(50);
    let (direction, name) = if greater {
        (Direction::Gt, "stablehlo.maximum")
    } else {
        (Direction::Lt, "stablehlo.minimum")
    };
    let init = g.constant(neutral(name, ty.dtype), f64::INFINITY);
    let zero = g.number(DType::I32, 0.0);
    let body = better_with_position(g, ty.dtype, direction);
    let results = g.push(Reduce { axes: vec![axis] }, &[x, position, init, zero], &[body])?;
    if ty.dtype.is_float() {
        // Which it is of zeros of both signs depends on the order: -0 + 0 is 0.
        let zero = g.filled(&g.ty(results[0]), 0.0);
        let add = Elementwise::from_name("stablehlo.add").expect("a row of the table");
        g.add(add, &[results[0], zero], f64::INFINITY)?;
    } else {
        g.keep(results[0], f64::INFINITY);
    }
    Some(g.keep(results[1], ty.shape[axis] as f64))
}

/// Of two values with their positions the greater or smaller one; of equal ones the first.
fn better_with_position(g: &mut Gen<'_>, dtype: DType, direction: Direction) -> BlockId {
    let types = [dtype, DType::I32, dtype, DType::I32];
    g.region(&types, |g, a| {
        let is = |g: &mut Gen<'_>, direction, x, y| {
            g.add(Compare::new(direction), &[x, y], 1.0).expect("it is a scalar")
        };
        let better = is(g, direction, a[0], a[2]);
        let not_a_number = is(g, Direction::Ne, a[0], a[0]);
        let better = g.apply("stablehlo.or", &[better, not_a_number]);
        let equal = is(g, Direction::Eq, a[0], a[2]);
        let first = is(g, Direction::Lt, a[1], a[3]);
        let tie = g.apply("stablehlo.and", &[equal, first]);
        let take = g.apply("stablehlo.or", &[better, tie]);
        let value = g.add(Select, &[better, a[0], a[2]], f64::INFINITY);
        let at = g.add(Select, &[take, a[1], a[3]], f64::INFINITY);
        vec![value.expect("it is a scalar"), at.expect("it is a scalar")]
    })
}

/// A body that depends on the order, which is the row-major one then.
pub fn reduce_in_order(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.bound(v) <= 4.0 && g.f.ty(v).rank() > 0)?;
    let ty = g.ty(x);
    let axes = g.r.some(ty.rank());
    let terms: u64 = axes.iter().map(|&axis| ty.shape[axis]).product();
    let init = g.tame(&TensorType::scalar(ty.dtype), 3.0);
    // A value of the function around the region, now and then.
    let outer = g.tame(&TensorType::scalar(ty.dtype), 3.0);
    let captured = g.r.percent(40);
    let minus = ty.dtype != DType::I1;
    let body = g.region(&[ty.dtype, ty.dtype], |g, a| {
        let step = if captured { g.apply("stablehlo.multiply", &[a[1], outer]) } else { a[1] };
        let name = if minus { "stablehlo.subtract" } else { "stablehlo.xor" };
        vec![g.apply(name, &[a[0], step])]
    });
    let bound = if ty.dtype.is_float() || ty.dtype.is_complex() {
        24.0 * (terms + 1) as f64
    } else {
        f64::INFINITY
    };
    let result = g.push(Reduce { axes }, &[x, init], &[body])?[0];
    Some(g.keep(result, bound))
}

fn window(g: &mut Gen<'_>, elements: u64, dilated: bool) -> WindowAxis {
    let dilation = |g: &mut Gen<'_>| {
        if dilated && g.r.percent(25) { g.r.between(2, 3) } else { 1 }
    };
    WindowAxis {
        extent: 1 + g.r.below(3.min(elements + 1)),
        stride: if g.r.percent(60) { 1 } else { g.r.between(1, 3) },
        base_dilation: dilation(g),
        dilation: dilation(g),
        low: g.r.between(-1, 2),
        high: g.r.between(-1, 2),
    }
}

/// Windows over a tensor, or a scan along one of its axes; None where they are too many.
fn any_windows(g: &mut Gen<'_>, ty: &TensorType) -> Option<Vec<WindowAxis>> {
    let scan = g.r.percent(45).then(|| g.r.index(ty.rank()));
    let backwards = g.r.percent(40);
    let axes: Vec<WindowAxis> = ty
        .shape
        .iter()
        .enumerate()
        .map(|(axis, &extent)| match scan {
            Some(along) if along != axis || extent == 0 => WindowAxis::POINT,
            Some(_) => {
                let before = extent as i64 - 1;
                let (low, high) = if backwards { (0, before) } else { (before, 0) };
                WindowAxis { extent, low, high, ..WindowAxis::POINT }
            }
            None if g.r.percent(40) => WindowAxis::POINT,
            None => window(g, extent, true),
        })
        .collect();
    let count: u64 = windows("window", &axes, &ty.shape).ok()?.iter().product();
    (terms(&axes) * count <= 40_000).then_some(axes)
}

/// Elements of a window.
fn terms(axes: &[WindowAxis]) -> u64 {
    axes.iter().map(|axis| axis.extent).product()
}

pub fn reduce_window(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let ty = g.ty(x);
    let window = any_windows(g, &ty)?;
    let mut combine = combine(g, x, terms(&window));
    // Each step is rounded, in a fixed order.
    let old = g.bound(x);
    let init = initial(g, ty.dtype, &mut combine, old);
    let body = body(g, ty.dtype, combine.name);
    let result = g.push(ReduceWindow { window }, &[x, init], &[body])?[0];
    Some(g.keep(result, combine.bound))
}

/// Windows of two operands: each combined by itself, or the best with its position.
pub fn reduce_windows(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0)?;
    let ty = g.ty(x);
    let window = any_windows(g, &ty)?;
    if g.r.percent(40) && !ty.dtype.is_complex() {
        let axis = g.r.index(ty.rank());
        let position = positions(g, &ty, axis)?;
        let greater = g.r.percent(50);
        let (direction, name) = if greater {
            (Direction::Gt, "stablehlo.maximum")
        } else {
            (Direction::Lt, "stablehlo.minimum")
        };
        let init = g.constant(neutral(name, ty.dtype), f64::INFINITY);
        let zero = g.number(DType::I32, 0.0);
        let body = better_with_position(g, ty.dtype, direction);
        let op = ReduceWindow { window };
        let results = g.push(op, &[x, position, init, zero], &[body])?;
        g.keep(results[0], f64::INFINITY);
        return Some(g.keep(results[1], ty.shape[axis] as f64));
    }
    let other = TensorType::new(ty.shape.clone(), g.any_dtype());
    let y = g.of(&other);
    let (body, inits, bounds) = two_combined(g, [x, y], terms(&window));
    let results = g.push(ReduceWindow { window }, &[x, y, inits[0], inits[1]], &[body])?;
    g.keep(results[0], bounds[0]);
    Some(g.keep(results[1], bounds[1]))
}

/// A body with an op of its own for each of two operands, first values, and bounds of the results.
fn two_combined(
    g: &mut Gen<'_>,
    operands: [ValueId; 2],
    terms: u64,
) -> (BlockId, Vec<ValueId>, [f64; 2]) {
    let mut combines = operands.map(|x| combine(g, x, terms));
    let mut inits = Vec::new();
    for (&operand, combine) in operands.iter().zip(&mut combines) {
        let (dtype, bound) = (g.dtype(operand), g.bound(operand));
        inits.push(initial(g, dtype, combine, bound));
    }
    let [first, second] = operands.map(|x| g.dtype(x));
    let body = g.region(&[first, second, first, second], |g, a| {
        vec![g.apply(combines[0].name, &[a[0], a[2]]), g.apply(combines[1].name, &[a[1], a[3]])]
    });
    (body, inits, combines.map(|combine| combine.bound))
}

pub fn select_and_scatter(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0 && !g.dtype(v).is_complex())?;
    let ty = g.ty(x);
    let axes: Vec<WindowAxis> = ty
        .shape
        .iter()
        .map(|&n| if g.r.percent(40) { WindowAxis::POINT } else { window(g, n, false) })
        .collect();
    let count = windows("window", &axes, &ty.shape).ok()?;
    let terms: u64 = axes.iter().map(|axis| axis.extent).product();
    if terms * count.iter().product::<u64>() > 20_000 {
        return None;
    }
    let source = g.tame(&TensorType::new(count, ty.dtype), 3.0);
    let init = g.tame(&TensorType::scalar(ty.dtype), 3.0);
    let direction = g.r.pick(&[Direction::Ge, Direction::Ge, Direction::Le, Direction::Gt]);
    let select = g.region(&[ty.dtype; 2], |g, a| {
        vec![g.add(Compare::new(direction), a, 1.0).expect("it is a scalar")]
    });
    let name = if g.r.percent(85) { "stablehlo.add" } else { "stablehlo.maximum" };
    let combine = body(g, ty.dtype, name);
    let op = SelectAndScatter { window: axes };
    let result = g.push(op, &[x, source, init], &[select, combine])?[0];
    let bound = if ty.dtype.is_int() { f64::INFINITY } else { 3.0 * (terms + 1) as f64 };
    Some(g.keep(result, bound))
}

/// The type that products are summed up in, for the caller to see.
fn sum_type(g: &mut Gen<'_>, dtype: DType) -> DType {
    let wider = match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        DType::I8 => DType::I32,
        DType::U8 => DType::U32,
        other => other,
    };
    if g.r.percent(40) { wider } else { dtype }
}

pub fn dot(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.f.ty(v).rank() > 0 && tame_enough(g, v))?;
    let ty = g.ty(x);
    let axes = g.r.shuffled((0..ty.rank()).collect());
    let batches =
        if ty.rank() > 1 && g.r.percent(35) { 1 + g.r.index(2.min(ty.rank() - 1)) } else { 0 };
    let contracted = if g.r.percent(90) { 1 + g.r.index((ty.rank() - batches).min(2)) } else { 0 };
    let (lhs_batch, rest) = (axes[..batches].to_vec(), &axes[batches..]);
    let lhs_contracting = rest[..contracted.min(rest.len())].to_vec();
    let named: Vec<usize> = lhs_batch.iter().chain(&lhs_contracting).copied().collect();
    let free = g.r.index(3);
    let order = g.r.shuffled((0..named.len() + free).collect::<Vec<usize>>());
    let order = if g.r.percent(50) { (0..order.len()).collect() } else { order };
    let mut shape: Vec<u64> =
        (0..order.len()).map(|_| g.extents[g.r.index(g.extents.len())]).collect();
    named.iter().zip(&order).for_each(|(&l, &r)| shape[r] = ty.shape[l]);
    let terms: u64 = lhs_contracting.iter().map(|&axis| ty.shape[axis]).product();
    let other = TensorType::new(shape, ty.dtype);
    if other.len() > g.largest {
        return None;
    }
    // The same value on both sides, where it fits.
    let y = if other == ty && g.r.percent(30) { x } else { g.tame(&other, 3.0) };
    let bound = terms as f64 * g.bound(x) * g.bound(y) * 2.0;
    let result = sum_type(g, ty.dtype);
    if bound > sum_reach(ty.dtype) || g.bound(y).is_infinite() && !exact(ty.dtype) {
        return None;
    }
    let op = DotGeneral {
        lhs_batch,
        rhs_batch: order[..batches].to_vec(),
        lhs_contracting,
        rhs_contracting: order[batches..named.len()].to_vec(),
        result,
    };
    let bound = if exact(ty.dtype) { f64::INFINITY } else { bound };
    if ty.len() * other.len() > 1 << 20 {
        return None;
    }
    g.add(op, &[x, y], bound)
}

/// Whether sums of the type wrap, and so have one value.
fn exact(dtype: DType) -> bool {
    dtype.is_int() || dtype == DType::I1
}

fn tame_enough(g: &Gen<'_>, value: ValueId) -> bool {
    exact(g.dtype(value)) || g.bound(value) < 1e4
}

pub fn convolution(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| {
        (2..=4).contains(&g.f.ty(v).rank()) && tame_enough(g, v) && !g.f.ty(v).is_empty()
    })?;
    let x = if g.r.percent(40) { moved(g, x)? } else { x };
    let ty = g.ty(x);
    let rank = ty.rank();
    let order = g.r.shuffled((0..rank).collect::<Vec<usize>>());
    let input = if g.r.percent(50) {
        Axes { batch: 0, feature: rank - 1, spatial: (1..rank - 1).collect() }
    } else {
        Axes { batch: order[0], feature: order[1], spatial: order[2..].to_vec() }
    };
    let (batch, feature) = (ty.shape[input.batch], ty.shape[input.feature]);
    let groups = [2, 3, feature].into_iter().find(|&n| feature % n == 0 && n > 1);
    let feature_groups = groups.filter(|_| g.r.percent(30)).unwrap_or(1);
    let batch_groups = if feature_groups == 1 && batch % 2 == 0 && g.r.percent(15) { 2 } else { 1 };
    let outputs = feature_groups * batch_groups * (1 + g.r.below(3));
    let window: Vec<WindowAxis> =
        input.spatial.iter().map(|&axis| window(g, ty.shape[axis], true)).collect();
    let mut axes = || {
        let order = g.r.shuffled((0..rank).collect::<Vec<usize>>());
        Axes { batch: order[0], feature: order[1], spatial: order[2..].to_vec() }
    };
    let (kernel, output) = (axes(), axes());
    let mut shape = vec![0; rank];
    shape[kernel.batch] = outputs;
    shape[kernel.feature] = feature / feature_groups;
    kernel.spatial.iter().zip(&window).for_each(|(&axis, w)| shape[axis] = w.extent);
    let filter = TensorType::new(shape, ty.dtype);
    if filter.len() > g.largest || filter.len() * ty.len() > 1 << 18 {
        return None;
    }
    let mut y = g.tame(&filter, 3.0);
    if g.r.percent(30) {
        let (axes, same) = (g.r.some(rank), g.bound(y));
        y = g.add(Reverse { axes }, &[y], same)?;
    }
    let bound = (filter.len() / outputs) as f64 * g.bound(x) * g.bound(y) * 2.0;
    if bound > sum_reach(ty.dtype) || g.bound(y).is_infinite() && !exact(ty.dtype) {
        return None;
    }
    let op = Convolution {
        input,
        kernel,
        output,
        reversed: window.iter().map(|_| g.r.percent(25)).collect(),
        window,
        feature_groups,
        batch_groups,
        result: sum_type(g, ty.dtype),
    };
    let bound = if exact(ty.dtype) { f64::INFINITY } else { bound };
    let result = g.add(op, &[x, y], bound)?;
    if g.r.percent(70) {
        return Some(result);
    }
    let permutation = g.r.shuffled((0..rank).collect());
    g.add(Transpose { permutation }, &[result], bound)
}

/// A value transposed or padded with zeros: what convolutions may read in place.
fn moved(g: &mut Gen<'_>, mut x: ValueId) -> Option<ValueId> {
    for _ in 0..1 + g.r.below(2) {
        let (rank, bound) = (g.f.ty(x).rank(), g.bound(x));
        x = if g.r.percent(50) {
            let permutation = g.r.shuffled((0..rank).collect());
            g.add(Transpose { permutation }, &[x], bound)?
        } else {
            let (mut low, mut high, mut interior) = (vec![0; rank], vec![0; rank], vec![0; rank]);
            for axis in g.r.some(rank) {
                (low[axis], high[axis]) = (g.r.between(0, 2), g.r.between(-1, 2).max(0));
                interior[axis] = g.r.below(3) / 2;
            }
            let zero = g.number(g.dtype(x), 0.0);
            g.add(Pad { low, high, interior }, &[x, zero], bound)?
        };
    }
    Some(x)
}

/// The same scalar ops for each element.
pub fn map(g: &mut Gen<'_>) -> Option<ValueId> {
    let x = g.any_where(|g, v| g.dtype(v).class() != Class::Bool)?;
    let ty = g.ty(x);
    let y = g.of(&ty);
    let axes = (0..ty.rank()).collect();
    let name = g.r.pick(&["stablehlo.add", "stablehlo.multiply", "stablehlo.maximum"]);
    let body = g.region(&[ty.dtype; 2], |g, a| {
        let first = g.apply(name, a);
        vec![g.apply("stablehlo.subtract", &[first, a[1]])]
    });
    let result = g.push(Map { axes }, &[x, y], &[body])?[0];
    Some(g.keep(result, f64::INFINITY))
}
