//! What a convolution reads as it is: transposed operands, reversed windows, padding of zeros.

use super::At;
use crate::passes::rewrite::Rewriter;
use jaxrs_ir::{Op, ValueId, ops};

pub(super) fn convolution(r: &mut Rewriter<'_>, at: &At, op: &ops::Convolution) -> Option<ValueId> {
    let mut new = op.clone();
    let mut operands = [at.operands[0], at.operands[1]];
    let mut changed = false;
    while inside(r, &mut new, &mut operands) {
        changed = true;
    }
    changed.then(|| r.push(new, &operands, at.ty.clone(), &at.location))
}

/// Reads what one of the operands is made from.
fn inside(r: &Rewriter<'_>, op: &mut ops::Convolution, operands: &mut [ValueId; 2]) -> bool {
    for (n, operand) in operands.iter_mut().enumerate() {
        let from = r.operands_of(*operand);
        match r.op_of(*operand) {
            Some(Op::Transpose(transpose)) => {
                let axes = if n == 0 { &mut op.input } else { &mut op.kernel };
                let through = |axis: &mut usize| *axis = transpose.permutation[*axis];
                through(&mut axes.batch);
                through(&mut axes.feature);
                axes.spatial.iter_mut().for_each(through);
            }
            Some(Op::Reverse(reverse)) if n == 1 => {
                let place = |axis: &usize| op.kernel.spatial.iter().position(|a| a == axis);
                let Some(places) = reverse.axes.iter().map(place).collect::<Option<Vec<_>>>()
                else {
                    continue;
                };
                places.into_iter().for_each(|n| op.reversed[n] ^= true);
            }
            Some(Op::Pad(pad)) if n == 0 && pads_window(r, op, pad, from) => {
                for (window, &axis) in op.window.iter_mut().zip(&op.input.spatial) {
                    window.low += pad.low[axis] * window.base_dilation;
                    window.high += pad.high[axis] * window.base_dilation;
                    window.base_dilation *= pad.interior[axis] as i64 + 1;
                }
            }
            _ => continue,
        }
        *operand = from[0];
        return true;
    }
    false
}

/// Whether a pad adds zeros to spatial axes only, as the window can.
fn pads_window(r: &Rewriter<'_>, op: &ops::Convolution, pad: &ops::Pad, from: &[ValueId]) -> bool {
    let zero = r.literal(from[1]).is_some_and(|l| l.bytes().iter().all(|&byte| byte == 0));
    let spatial = |axis: usize| op.input.spatial.iter().position(|&a| a == axis);
    let fits = |axis: usize| {
        let (low, high, interior) = (pad.low[axis], pad.high[axis], pad.interior[axis]);
        match spatial(axis).map(|n| op.window[n]) {
            // What is removed cannot be padded again by one number.
            Some(window) => {
                (low >= 0 || window.low <= 0)
                    && (high >= 0 || window.high <= 0)
                    && (interior == 0 || window.base_dilation == 1)
                    && i64::try_from(interior).is_ok()
            }
            None => (low, high, interior) == (0, 0, 0),
        }
    };
    zero && !r.f.ty(from[0]).is_empty() && (0..pad.low.len()).all(fits)
}
