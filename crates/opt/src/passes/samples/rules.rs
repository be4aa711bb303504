//! Which ops work sample by sample, and the op on a part of the samples.

use jaxrs_ir::{Function, Literal, Op, OpId, ValueId, ops};

/// How an operand is sliced: pairs of its axis and the batch axis that runs along it. None for a
/// value that all samples use whole.
pub(super) type Slicing = Vec<(usize, usize)>;

/// Rows of a sample's factor without batch axes at least.
const LEAST_ROWS: u64 = 16;

/// For an op whose result has the batch axes first and whose samples do not depend on each other:
/// how its operands are sliced.
pub(super) fn rule(f: &Function, op: OpId, batch: &[u64]) -> Option<Vec<Slicing>> {
    let data = &f.ops[op];
    let &[result] = &data.results[..] else { return None };
    let count = batch.len();
    let leads = |v: ValueId| f.ty(v).shape.get(..count) == Some(batch);
    if !leads(result) {
        return None;
    }
    let leading: Slicing = (0..count).map(|n| (n, n)).collect();
    let first = |v: ValueId| leads(v).then(|| vec![leading.clone()]);
    match &data.op {
        Op::Elementwise(_) | Op::Compare(_) | Op::Convert(_) | Op::Select(_) | Op::Clamp(_) => {
            let each = |&v: &ValueId| match f.ty(v).rank() {
                0 => Some(Vec::new()),
                _ => leads(v).then(|| leading.clone()),
            };
            data.operands.iter().map(each).collect()
        }
        Op::BroadcastInDim(op) => {
            let from = &f.ty(data.operands[0]).shape;
            let moving = op.axes.iter().zip(from).enumerate();
            let moving = moving.filter(|(_, (axis, extent))| **axis < count && **extent != 1);
            Some(vec![moving.map(|(n, (&axis, _))| (n, axis)).collect()])
        }
        Op::Constant(constant) => constant.value.as_splat().is_some().then(Vec::new),
        Op::Iota(iota) => (iota.axis >= count).then(Vec::new),
        Op::Transpose(op) => {
            let same = op.permutation.iter().take(count).copied().eq(0..count);
            if same { first(data.operands[0]) } else { None }
        }
        Op::Reshape(_) => first(data.operands[0]),
        Op::Slice(op) => {
            let whole = (0..count).all(|n| (op.starts[n], op.strides[n]) == (0, 1));
            if whole { first(data.operands[0]) } else { None }
        }
        Op::Reverse(op) => {
            if op.axes.iter().all(|&axis| axis >= count) {
                first(data.operands[0])
            } else {
                None
            }
        }
        Op::Concatenate(op) => {
            let each = |&v: &ValueId| leads(v).then(|| leading.clone());
            if op.axis >= count { data.operands.iter().map(each).collect() } else { None }
        }
        Op::Reduce(op) => {
            let &[value, _] = &data.operands[..] else { return None };
            let kept = op.axes.iter().all(|&axis| axis >= count) && leads(value);
            kept.then(|| vec![leading, Vec::new()])
        }
        Op::DotGeneral(dot) => {
            let along = |axes: &[usize]| axes.iter().copied().zip(0..count).collect::<Slicing>();
            if dot.lhs_batch.len() >= count {
                return Some(vec![along(&dot.lhs_batch), along(&dot.rhs_batch)]);
            }
            let lhs = f.ty(data.operands[0]);
            let free = |axis: usize| !dot.lhs_contracting.contains(&axis);
            let rows: u64 =
                (count..lhs.rank()).filter(|&a| free(a)).map(|a| lhs.shape[a]).product();
            let fits = dot.lhs_batch.is_empty()
                && (0..count).all(free)
                && lhs.shape.get(..count) == Some(batch)
                && rows >= LEAST_ROWS;
            fits.then(|| vec![leading, Vec::new()])
        }
        _ => None,
    }
}

/// The op with `turn` samples along each batch axis.
pub(super) fn of_turn(op: &Op, turn: &[u64]) -> Op {
    let shape = |shape: &[u64]| [turn, &shape[turn.len()..]].concat();
    match op {
        Op::BroadcastInDim(op) => {
            ops::BroadcastInDim { axes: op.axes.clone(), shape: shape(&op.shape) }.into()
        }
        Op::Reshape(op) => ops::Reshape { shape: shape(&op.shape) }.into(),
        Op::Slice(op) => ops::Slice { limits: shape(&op.limits), ..op.clone() }.into(),
        Op::Iota(op) => {
            let mut ty = op.ty.clone();
            ty.shape = shape(&ty.shape);
            ops::Iota { axis: op.axis, ty }.into()
        }
        Op::Constant(op) => {
            let mut ty = op.value.ty().clone();
            ty.shape = shape(&ty.shape);
            let element = op.value.as_splat().expect("the rule takes splats only");
            ops::Constant { value: Literal::splat(ty, element) }.into()
        }
        other => other.clone(),
    }
}
