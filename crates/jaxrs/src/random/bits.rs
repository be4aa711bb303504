//! The generator.

use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, TensorType, ValueId};

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// The lower 32 bits of a `ui64`.
pub(super) fn low_word(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId, String> {
    let mask = b.full_like(x, f64::from(u32::MAX))?;
    let low = b.elementwise("stablehlo.and", &[x, mask])?;
    b.convert(low, DType::U32)
}

/// Two words as a key.
pub(super) fn pair(b: &mut Builder<'_>, high: ValueId, low: ValueId) -> Result<ValueId, String> {
    let (high, low) = (b.reshape(high, &[1])?, b.reshape(low, &[1])?);
    b.concatenate(&[high, low], 0)
}

/// The words of a key, rank 0.
pub(super) fn words(b: &mut Builder<'_>, key: ValueId) -> Result<(ValueId, ValueId), String> {
    let ty = b.ty(key);
    if ty != TensorType::new([2], DType::U32) {
        return Err(format!("a random key is tensor<2xui32> (see random::key), not {ty}"));
    }
    let mut word = |at: u64| {
        let one = b.slice_axis(key, 0, at, at + 1)?;
        b.reshape(one, &[])
    };
    Ok((word(0)?, word(1)?))
}

/// The hash of counts under a key of two words, all of one shape.
pub(super) fn threefry(
    b: &mut Builder<'_>,
    key: [ValueId; 2],
    counts: [ValueId; 2],
) -> Result<(ValueId, ValueId), String> {
    let parity = b.full_like(key[0], f64::from(0x1BD1_1BDAu32))?;
    let mixed = b.elementwise("stablehlo.xor", &[key[0], key[1]])?;
    let keys = [key[0], key[1], b.elementwise("stablehlo.xor", &[mixed, parity])?];
    let mut x = [b.add(counts[0], keys[0])?, b.add(counts[1], keys[1])?];
    for round in 0..5 {
        for rotation in ROTATIONS[round % 2] {
            x[0] = b.add(x[0], x[1])?;
            let left = b.full_like(x[1], f64::from(rotation))?;
            let right = b.full_like(x[1], f64::from(32 - rotation))?;
            let up = b.elementwise("stablehlo.shift_left", &[x[1], left])?;
            let down = b.elementwise("stablehlo.shift_right_logical", &[x[1], right])?;
            x[1] = b.elementwise("stablehlo.or", &[up, down])?;
            x[1] = b.elementwise("stablehlo.xor", &[x[0], x[1]])?;
        }
        x[0] = b.add(x[0], keys[(round + 1) % 3])?;
        x[1] = b.add(x[1], keys[(round + 2) % 3])?;
        let count = b.full_like(x[1], (round + 1) as f64)?;
        x[1] = b.add(x[1], count)?;
    }
    Ok((x[0], x[1]))
}

/// The hash of each position of a shape: two arrays of words.
fn hashed(b: &mut Builder<'_>, key: ValueId, shape: &[u64]) -> Result<(ValueId, ValueId), String> {
    let ty = TensorType::checked("random", shape.to_vec(), DType::U64)?;
    let (first, second) = words(b, key)?;
    let keys = [b.splat(first, shape)?, b.splat(second, shape)?];
    let counts = if ty.len() <= u64::from(u32::MAX) {
        let flat = b.iota(&TensorType::new([ty.len()], DType::U32), 0)?;
        let low = b.reshape(flat, shape)?;
        [b.full_like(low, 0.0)?, low]
    } else {
        let flat = b.iota(&TensorType::new([ty.len()], DType::U64), 0)?;
        let at = b.reshape(flat, shape)?;
        let shift = b.full_like(at, 32.0)?;
        let high = b.elementwise("stablehlo.shift_right_logical", &[at, shift])?;
        [b.convert(high, DType::U32)?, low_word(b, at)?]
    };
    threefry(b, keys, counts)
}

/// New keys, of shape `shape ++ [2]`.
pub(super) fn split(b: &mut Builder<'_>, key: ValueId, shape: &[u64]) -> Result<ValueId, String> {
    let (high, low) = hashed(b, key, shape)?;
    let with_axis = [shape, &[1]].concat();
    let (high, low) = (b.reshape(high, &with_axis)?, b.reshape(low, &with_axis)?);
    b.concatenate(&[high, low], shape.len())
}

/// One of the two keys that a key splits into.
pub(super) fn half(b: &mut Builder<'_>, keys: ValueId, at: u64) -> Result<ValueId, String> {
    let one = b.slice_axis(keys, 0, at, at + 1)?;
    b.reshape(one, &[2])
}

/// Random bits of an unsigned type.
pub(super) fn random(
    b: &mut Builder<'_>,
    key: ValueId,
    shape: &[u64],
    dtype: DType,
) -> Result<ValueId, String> {
    let (high, low) = hashed(b, key, shape)?;
    match dtype {
        DType::U64 => {
            let (high, low) = (b.convert(high, DType::U64)?, b.convert(low, DType::U64)?);
            let shift = b.full_like(high, 32.0)?;
            let high = b.elementwise("stablehlo.shift_left", &[high, shift])?;
            b.elementwise("stablehlo.or", &[high, low])
        }
        DType::U8 | DType::U16 | DType::U32 => {
            let bits = b.elementwise("stablehlo.xor", &[high, low])?;
            b.convert(bits, dtype)
        }
        _ => Err(format!("random bits are of an unsigned integer type, not {dtype}")),
    }
}
