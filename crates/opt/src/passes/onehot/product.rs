//! Products with a one-hot operand.

use super::find::{OneHot, one_hot};
use super::inside;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::ops::indexing::Windows;
use jaxrs_ir::{DType, ValueId, ops};

/// The axes of one operand of a contraction.
struct Axes<'a> {
    batch: &'a [usize],
    contracting: &'a [usize],
    free: Vec<usize>,
}

impl<'a> Axes<'a> {
    fn new(batch: &'a [usize], contracting: &'a [usize], rank: usize) -> Axes<'a> {
        let free = |axis: &usize| !batch.contains(axis) && !contracting.contains(axis);
        Axes { batch, contracting, free: (0..rank).filter(free).collect() }
    }
}

/// A contraction with an operand that is one-hot, as a gather or a scatter of the other one.
///
/// `transposed` says that nothing but transposes use the result.
pub(super) fn dot(
    b: &mut Builder<'_>,
    dot: &ops::DotGeneral,
    operands: [ValueId; 2],
    transposed: bool,
) -> Option<ValueId> {
    let ranks = operands.map(|v| b.function.ty(v).rank());
    let left = Axes::new(&dot.lhs_batch, &dot.lhs_contracting, ranks[0]);
    let right = Axes::new(&dot.rhs_batch, &dot.rhs_contracting, ranks[1]);
    for (hot_is_left, axes) in [(true, [&left, &right]), (false, [&right, &left])] {
        let [hot_value, other] = if hot_is_left { operands } else { [operands[1], operands[0]] };
        let Some(hot) = one_hot(b, hot_value) else { continue };
        let count = b.ty(hot_value).shape[hot.axis];
        let result = dot.result;
        let product = Product { axes, hot, count, hot_is_left, other, transposed, result };
        let value = match product.axes[0].contracting {
            &[axis] if axis == product.hot.axis => product.taken(b),
            _ if product.axes[0].free == [product.hot.axis] => product.added(b),
            _ => None,
        };
        if value.is_some() {
            return value;
        }
    }
    None
}

/// A contraction whose operand `axes[0]` is one-hot.
struct Product<'a> {
    axes: [&'a Axes<'a>; 2],
    hot: OneHot,
    /// The extent of the one-hot axis.
    count: u64,
    hot_is_left: bool,
    other: ValueId,
    transposed: bool,
    result: DType,
}

impl Product<'_> {
    /// Contracted along the one-hot axis: the other operand's row at each id.
    fn taken(&self, b: &mut Builder<'_>) -> Option<ValueId> {
        let [hot_axes, other_axes] = self.axes;
        let &[along] = other_axes.contracting else { return None };
        let table = b.ty(self.other);
        let ids = b.ty(self.hot.ids);
        let batch = self.batch_windows(other_axes.batch);
        let windows = Windows {
            inside: (ids.rank()..ids.rank() + other_axes.free.len()).collect(),
            inserted: vec![along],
            operand_batch: batch.iter().map(|&(operand, _)| operand).collect(),
            indices_batch: batch.iter().map(|&(_, indices)| indices).collect(),
            start: vec![along],
            vector: ids.rank(),
        };
        let size = |(axis, &extent): (usize, &u64)| {
            if other_axes.free.contains(&axis) { extent } else { 1 }
        };
        let slice_sizes = table.shape.iter().enumerate().map(size).collect();
        let gather = ops::Gather { windows, slice_sizes, sorted: false };
        let mut rows = b.one(gather, &[self.other, self.hot.ids]).ok()?;
        let ty = b.ty(rows);
        let of_ids: Vec<usize> = (0..ids.rank()).collect();
        let inside = inside(b, self.hot.ids, table.shape[along])?;
        let inside = b.broadcast_in_dim(inside, &ty.shape, &of_ids).ok()?;
        let zeros = b.zeros(&ty).ok()?;
        rows = b.select(inside, rows, zeros).ok()?;
        rows = self.times_on(b, rows, &of_ids)?;
        rows = b.convert(rows, self.result).ok()?;
        // The ids' axes are the one-hot tensor's without one, in its order.
        let place = |axis: &usize| axis - usize::from(*axis > self.hot.axis);
        let windows = ids.rank()..ty.rank();
        let mut order: Vec<usize> = hot_axes.batch.iter().map(place).collect();
        if self.hot_is_left {
            order.extend(hot_axes.free.iter().map(place));
            order.extend(windows);
        } else {
            order.extend(windows);
            order.extend(hot_axes.free.iter().map(place));
        }
        b.transpose(rows, &order).ok()
    }

    /// The one-hot axis stays: rows of the other operand are added where their ids say.
    fn added(&self, b: &mut Builder<'_>) -> Option<ValueId> {
        let [hot_axes, other_axes] = self.axes;
        let (hot, other) = (b.ty(self.hot.ids), b.ty(self.other));
        // Sums of narrow floats are rounded once, at the end.
        let sums = match self.result {
            DType::BF16 | DType::F16 => DType::F32,
            dtype if dtype.size() == 1 && dtype.is_float() => DType::F32,
            dtype => dtype,
        };
        // The other operand with the ids' axes first, in their order.
        let of_hot = |axis: usize| axis + usize::from(axis >= self.hot.axis);
        let partner = |axis: usize| {
            let axis = of_hot(axis);
            let among = |mine: &[usize], theirs: &[usize]| {
                mine.iter().position(|&a| a == axis).map(|n| theirs[n])
            };
            among(hot_axes.batch, other_axes.batch)
                .or_else(|| among(hot_axes.contracting, other_axes.contracting))
        };
        let mut order = (0..hot.rank()).map(partner).collect::<Option<Vec<usize>>>()?;
        order.extend(&other_axes.free);
        let rows = b.transpose(self.other, &order).ok()?;
        let of_ids: Vec<usize> = (0..hot.rank()).collect();
        let rows = self.times_on(b, rows, &of_ids)?;
        let rows = b.convert(rows, sums).ok()?;
        // Batch axes, the one-hot axis, and the rows'; the latter two as the result has them, or
        // the other way round if that is what becomes of it.
        let batches = hot_axes.batch.len();
        let width: Vec<u64> = other_axes.free.iter().map(|&axis| other.shape[axis]).collect();
        let first = self.hot_is_left != self.transposed || width.is_empty();
        let mut shape: Vec<u64> = other_axes.batch.iter().map(|&axis| other.shape[axis]).collect();
        let at = if first { batches } else { batches + width.len() };
        shape.extend(&width);
        shape.insert(at, self.count);
        let place = |axis: &usize| axis - usize::from(*axis > self.hot.axis);
        let windows = Windows {
            inside: (hot.rank()..hot.rank() + width.len()).collect(),
            inserted: vec![at],
            operand_batch: (0..batches).collect(),
            indices_batch: hot_axes.batch.iter().map(place).collect(),
            start: vec![at],
            vector: hot.rank(),
        };
        let scatter = ops::Scatter { windows, sorted: false, unique: false };
        let ty = jaxrs_ir::TensorType::new(shape, sums);
        let zeros = b.zeros(&ty).ok()?;
        let scalar = jaxrs_ir::TensorType::scalar(sums);
        let add = |b: &mut Builder<'_>, x: &[ValueId]| Ok(vec![b.elementwise("stablehlo.add", x)?]);
        let body = b.region(&[scalar.clone(), scalar], add).ok()?;
        let added = b.push(scatter, &[zeros, self.hot.ids, rows], &[body]).ok()?[0];
        let added = b.convert(added, self.result).ok()?;
        if first == self.hot_is_left || width.is_empty() {
            return Some(added);
        }
        let rank = batches + 1 + width.len();
        let mut order: Vec<usize> = (0..batches).collect();
        if self.hot_is_left {
            order.push(rank - 1);
            order.extend(batches..rank - 1);
        } else {
            order.extend(batches + 1..rank);
            order.push(batches);
        }
        b.transpose(added, &order).ok()
    }

    /// Pairs of batch axes, of the other operand and of the ids, ascending in the first.
    fn batch_windows(&self, other: &[usize]) -> Vec<(usize, usize)> {
        let place = |&axis: &usize| axis - usize::from(axis > self.hot.axis);
        let ids = self.axes[0].batch.iter().map(place);
        let mut pairs: Vec<(usize, usize)> = other.iter().copied().zip(ids).collect();
        pairs.sort_unstable();
        pairs
    }

    /// Rows, whose leading axes are those of the ids, times the number at the id.
    fn times_on(&self, b: &mut Builder<'_>, rows: ValueId, of_ids: &[usize]) -> Option<ValueId> {
        let Some(on) = self.hot.on else { return Some(rows) };
        let ty = b.ty(rows);
        // What is exact in the operands' types is so in the wider one of them and the result's.
        let types = [ty.dtype, b.ty(on).dtype, self.result];
        let widest = types.into_iter().max_by_key(|d| (d.is_complex(), d.is_float(), d.size()))?;
        let rows = b.convert(rows, widest).ok()?;
        let on = b.convert(on, widest).ok()?;
        let on = b.broadcast_in_dim(on, &ty.shape, of_ids).ok()?;
        b.multiply(rows, on).ok()
    }
}
