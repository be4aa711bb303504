//! Tensors for programs under test.

use jaxrs_ir::{DType, Literal, TensorType};

/// A tensor whose elements' parts have the bits that `bits` makes of the next number in SplitMix64's
/// stream and of their type; each argument's numbers come from another place of the stream.
pub fn elements(ty: &TensorType, argument: u64, bits: impl Fn(u64, DType) -> u64) -> Literal {
    let mut bytes = Vec::new();
    for position in 0..ty.len() * ty.dtype.parts() {
        let mut z = (argument << 40).wrapping_add(position).wrapping_add(1);
        z = z.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let part = ty.dtype.part();
        bytes.extend(jaxrs_ir::literal::narrow(bits(z, part), part));
    }
    Literal::dense(ty.clone(), bytes)
}
