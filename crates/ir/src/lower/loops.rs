//! Helpers for lowerings: loop nests over a shape, and start indices read from memory.

use super::Emitter;
use crate::function::ValueId;
use jaxrs_kernel::builder::{self, Build, LoopOptions};
use jaxrs_kernel::{Affine, BinaryOp, CastOp, DType, Reg, RegType};

/// Nested parallel loops over `extents`, outermost first; `body` gets the index, as long as
/// `extents`. It may run several times: a loop is split where guards on its variable change.
///
/// If `ranged`, the outermost loop of more than one iteration is cut by the kernel's range, which
/// is set to its extent; only the single nest at the top level of a kernel may ask for that. Axes
/// of extent 1 get a constant and no loop, so that a rank-0 nest is its body alone; an extent of 0
/// leaves nothing.
pub fn nest(
    e: &mut Emitter<'_>,
    extents: &[u64],
    ranged: bool,
    mut body: impl FnMut(&mut Emitter<'_>, &[Affine]),
) {
    if extents.contains(&0) {
        return;
    }
    let mut index = vec![Affine::constant(0); extents.len()];
    let outermost = extents.iter().position(|&extent| extent > 1);
    if let (true, Some(axis)) = (ranged, outermost) {
        e.builder().set_range(extents[axis]);
    }
    let ranged_axis = if ranged { outermost } else { None };
    level(e, extents, ranged_axis, 0, &mut index, &mut body);
}

fn level(
    e: &mut Emitter<'_>,
    extents: &[u64],
    ranged_axis: Option<usize>,
    axis: usize,
    index: &mut Vec<Affine>,
    body: &mut dyn FnMut(&mut Emitter<'_>, &[Affine]),
) {
    match extents.get(axis) {
        None => body(e, index),
        Some(1) => {
            index[axis] = Affine::constant(0);
            level(e, extents, ranged_axis, axis + 1, index, body);
        }
        Some(&extent) => {
            let options = LoopOptions { ranged: ranged_axis == Some(axis), split: true };
            builder::parallel(e, extent as i64, options, |e, var| {
                index[axis] = var.clone();
                level(e, extents, ranged_axis, axis + 1, index, body);
            });
        }
    }
}

/// The rank-0 integer `value` clamped to `[0, high]`, as an index.
pub fn start_index(e: &mut Emitter<'_>, value: ValueId, high: i64) -> Affine {
    let dtype = e.function.ty(value).dtype;
    let register = e.read(value, &[]).real();
    clamped_index(e, register, dtype, high)
}

/// A register holding an integer of type `dtype` clamped to `[0, high]`, as an index.
pub fn clamped_index(e: &mut Emitter<'_>, register: Reg, dtype: DType, high: i64) -> Affine {
    if high == 0 {
        return Affine::constant(0);
    }
    let b = e.builder();
    if dtype == DType::U64 {
        // As a signed number its upper half would be negative.
        let bound = b.int(RegType::I64, high);
        let clamped = b.binary(BinaryOp::MinU, register, bound);
        return b.as_index(clamped, 0, high);
    }
    let wide = widened(e, register, dtype);
    e.builder().clamp_index(wide, 0, high)
}

/// A register holding an integer of type `dtype` as an `i64` register of the same value, modulo
/// 2^64.
pub fn widened(e: &mut Emitter<'_>, register: Reg, dtype: DType) -> Reg {
    let b = e.builder();
    match dtype {
        DType::I64 | DType::U64 => register,
        DType::I8 | DType::I16 | DType::I32 => b.cast(CastOp::SignExtend, register, RegType::I64),
        _ => b.cast(CastOp::ZeroExtend, register, RegType::I64),
    }
}
