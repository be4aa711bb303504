//! Values that are made of one piece for each step of a loop, laid along an axis, and what ops
//! make of them.

use jaxrs_ir::ops::monoid::{self, Kind};
use jaxrs_ir::{Function, Op, OpData, OpId, ValueId, interpret};
use rustc_hash::{FxHashMap, FxHashSet};

/// How a value is made of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The axis that the pieces lie along.
    pub axis: usize,
    /// The extent of a piece in that axis.
    pub block: u64,
    /// The first step whose piece belongs to it.
    pub first: u64,
    /// How many steps' pieces it has.
    pub count: u64,
    /// Whether later steps lie at higher positions.
    pub rising: bool,
}

impl Form {
    /// The form in another axis.
    pub fn along(self, axis: usize) -> Form {
        Form { axis, ..self }
    }

    /// The step of the piece at a position, counted in pieces.
    pub fn step_at(self, position: u64) -> u64 {
        if self.rising { self.first + position } else { self.first + self.count - 1 - position }
    }

    /// The form of the pieces at the positions `start..limit`.
    fn part(self, start: u64, limit: u64) -> Form {
        let first = if self.rising { start } else { self.count - limit };
        Form { first: self.first + first, count: limit - start, ..self }
    }
}

/// What is known of the values after a loop.
#[derive(Default)]
pub struct Known {
    /// Values made of pieces that the loop's body can make, each from its step's slots alone.
    pub forms: FxHashMap<ValueId, Form>,
    /// Values that need the loop's results.
    pub dependent: FxHashSet<ValueId>,
}

/// What an op makes of operands that are made of pieces.
pub enum Effect {
    /// Results made of pieces.
    Form(Form),
    /// The reductions of all pieces.
    Reduce,
    /// The piece of one step, or a part of it.
    Pick(Pick),
}

/// Which piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pick {
    /// That of a known step.
    Step(u64),
    /// That at a position known before the loop, which is clamped.
    At(ValueId),
}

/// Whether each element of the result comes from the operands' elements at its place; operands of
/// rank 0 are the same everywhere.
pub fn is_pointwise(op: &Op) -> bool {
    matches!(
        op,
        Op::Elementwise(_)
            | Op::Compare(_)
            | Op::Convert(_)
            | Op::Select(_)
            | Op::Clamp(_)
            | Op::ReducePrecision(_)
    )
}

impl Known {
    /// What an op with operands made of pieces does with them; None if it needs them whole.
    pub fn effect(&self, f: &Function, op: OpId) -> Option<Effect> {
        let data = &f.ops[op];
        let mut forms = data.operands.iter().filter_map(|v| self.forms.get(v).copied());
        let form = forms.next()?;
        // A step has but its own pieces, and what was there before the loop.
        let outer = |v: &ValueId| !self.dependent.contains(v);
        let together = forms.all(|other| other == form);
        if !together || !data.operands.iter().all(|v| self.forms.contains_key(v) || outer(v)) {
            return None;
        }
        if data.results.iter().any(|&v| f.ty(v).is_empty()) {
            return None;
        }
        let whole = f.ty(data.operands[0]);
        let axis = form.axis;
        match &data.op {
            op if is_pointwise(op) => Some(Effect::Form(form)),
            Op::BroadcastInDim(op) => Some(Effect::Form(form.along(op.axes[axis]))),
            Op::Transpose(op) => {
                let axis = op.permutation.iter().position(|&from| from == axis)?;
                Some(Effect::Form(form.along(axis)))
            }
            Op::Reshape(op) => reshaped(&whole.shape, form, &op.shape).map(Effect::Form),
            Op::Reverse(op) if op.axes.contains(&axis) => {
                Some(Effect::Form(Form { rising: !form.rising, ..form }))
            }
            Op::Reverse(_) => Some(Effect::Form(form)),
            Op::Concatenate(op) if op.axis != axis => Some(Effect::Form(form)),
            Op::Slice(op) => {
                let (start, limit) = (op.starts[axis], op.limits[axis]);
                if (start, limit, op.strides[axis]) == (0, whole.shape[axis], 1) {
                    return Some(Effect::Form(form));
                }
                let single = limit - start == 1 && form.block == 1;
                if op.strides[axis] != 1 && !single
                    || start % form.block != 0
                    || limit % form.block != 0
                {
                    return None;
                }
                let (start, limit) = (start / form.block, limit / form.block);
                match limit - start {
                    1 => Some(Effect::Pick(Pick::Step(form.step_at(start)))),
                    _ => Some(Effect::Form(form.part(start, limit))),
                }
            }
            Op::DynamicSlice(op) => {
                let starts = &data.operands[1..];
                if self.forms.contains_key(&data.operands[0]) && starts.iter().all(outer) {
                    let start = starts[axis];
                    return match op.sizes[axis] {
                        size if size == whole.shape[axis] => Some(Effect::Form(form)),
                        1 if form.block == 1 => Some(Effect::Pick(Pick::At(start))),
                        _ => None,
                    };
                }
                None
            }
            Op::Reduce(op) => {
                let inits = &data.operands[data.operands.len() / 2..];
                if !inits.iter().all(outer) || !interpret::is_closed(f, data.regions[0]) {
                    return None;
                }
                if !op.axes.contains(&axis) {
                    let before = op.axes.iter().filter(|&&other| other < axis).count();
                    return Some(Effect::Form(form.along(axis - before)));
                }
                let in_order = op.axes.len() == 1 && form.block == 1 && form.rising;
                let any_order = free_kinds(f, data).is_some();
                (in_order || any_order).then_some(Effect::Reduce)
            }
            _ => None,
        }
    }
}

/// The kinds of a reduction's accumulators, if it may reduce parts in any order and then together.
pub fn free_kinds(f: &Function, reduce: &OpData) -> Option<Vec<Kind>> {
    let kinds = monoid::kinds(f, reduce.regions[0])?;
    let free = |(kind, &value): (&Kind, &ValueId)| {
        !matches!(kind, Kind::Subtract | Kind::Old | Kind::New)
            && kind.identity(f.ty(value).dtype).is_some()
    };
    kinds.iter().zip(&reduce.operands).all(free).then_some(kinds)
}

/// The form of a reshaped value: the axes before the pieces' axis stay together, and a piece stays
/// contiguous in them.
fn reshaped(from: &[u64], form: Form, to: &[u64]) -> Option<Form> {
    let before: u64 = from[..form.axis].iter().product();
    let piece: u64 = form.block * from[form.axis + 1..].iter().product::<u64>();
    let mut product = 1;
    for (axis, &extent) in to.iter().enumerate() {
        if product == before && extent % form.count == 0 && extent > 1 {
            let after: u64 = to[axis + 1..].iter().product();
            let block = extent / form.count;
            return (block * after == piece).then_some(Form { axis, block, ..form });
        }
        product *= extent;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Form, reshaped};

    #[test]
    fn reshapes_keep_pieces() {
        let form = |axis, block, count| Form { axis, block, first: 0, count, rising: true };
        let cases = [
            (&[6, 4][..], form(0, 1, 6), &[24][..], Some(form(0, 4, 6))),
            (&[24], form(0, 4, 6), &[6, 2, 2], Some(form(0, 1, 6))),
            (&[24], form(0, 4, 6), &[12, 2], Some(form(0, 2, 6))),
            (&[24], form(0, 4, 6), &[4, 6], None),
            (&[2, 6, 3], form(1, 1, 6), &[2, 1, 18], Some(form(2, 3, 6))),
            (&[2, 6, 3], form(1, 1, 6), &[12, 3], None),
            (&[1, 6, 3], form(1, 1, 6), &[18], Some(form(0, 3, 6))),
        ];
        for (from, form, to, expected) in cases {
            assert_eq!(reshaped(from, form, to), expected, "{from:?} to {to:?}");
        }
    }
}
