//! Elements as unsigned integers in the same order.

use half::{bf16, f16};

/// An unsigned integer type that keys have.
pub(super) trait Key: Copy + Ord + Send + Sync + std::ops::Not<Output = Self> {
    /// The `n`-th byte, the lowest first.
    fn byte(self, n: usize) -> usize;
    /// Bytes.
    const BYTES: usize = size_of::<Self>();
}

macro_rules! keys {
    ($($t:ty),*) => {$(
        impl Key for $t {
            #[inline(always)]
            fn byte(self, n: usize) -> usize { (self >> (8 * n)) as usize & 0xff }
        }
    )*};
}
keys!(u32, u64);

/// An element type with keys of type `K`.
pub(super) trait Keyed<K>: Copy {
    /// JAX's order of a sort: one zero, NaNs equal and last.
    fn sort_key(self) -> K;
    /// IEEE 754's total order: -0 before +0, NaNs outermost by their sign.
    fn total_key(self) -> K;
}

macro_rules! int_keys {
    ($($t:ty => $k:ty, $flip:expr;)*) => {$(
        impl Keyed<$k> for $t {
            #[inline(always)]
            fn sort_key(self) -> $k { (self as $k) ^ $flip }
            #[inline(always)]
            fn total_key(self) -> $k { (self as $k) ^ $flip }
        }
    )*};
}
int_keys! {
    u8 => u32, 0;
    u16 => u32, 0;
    u32 => u32, 0;
    u64 => u64, 0;
    i8 => u32, 1 << 31;
    i16 => u32, 1 << 31;
    i32 => u32, 1 << 31;
    i64 => u64, 1 << 63;
}

macro_rules! float_keys {
    ($($t:ty => $k:ty, $signed:ty;)*) => {$(
        impl Keyed<$k> for $t {
            #[inline(always)]
            fn sort_key(self) -> $k {
                // Adding +0 makes -0 the other zero.
                if self.is_nan() { <$k>::MAX } else { (self + 0.0).total_key() }
            }
            #[inline(always)]
            fn total_key(self) -> $k {
                let bits = self.to_bits();
                let sign = 1 << (<$k>::BITS - 1);
                let flip = ((bits as $signed >> (<$k>::BITS - 1)) as $k) | sign;
                bits ^ flip
            }
        }
    )*};
}
float_keys! {
    f32 => u32, i32;
    f64 => u64, i64;
}

macro_rules! half_keys {
    ($($t:ty),*) => {$(
        impl Keyed<u32> for $t {
            #[inline(always)]
            fn sort_key(self) -> u32 { self.to_f32().sort_key() }
            #[inline(always)]
            fn total_key(self) -> u32 { self.to_f32().total_key() }
        }
    )*};
}
half_keys!(bf16, f16);

/// Calls a generic function with the Rust type of an element type that has keys, and the keys' type.
macro_rules! with_keyed {
    ($dtype:expr, $call:ident($($arg:expr),*)) => {
        match $dtype {
            DType::I1 | DType::U8 => $call::<u8, u32>($($arg),*),
            DType::I8 => $call::<i8, u32>($($arg),*),
            DType::I16 => $call::<i16, u32>($($arg),*),
            DType::U16 => $call::<u16, u32>($($arg),*),
            DType::I32 => $call::<i32, u32>($($arg),*),
            DType::U32 => $call::<u32, u32>($($arg),*),
            DType::BF16 => $call::<bf16, u32>($($arg),*),
            DType::F16 => $call::<f16, u32>($($arg),*),
            DType::F32 => $call::<f32, u32>($($arg),*),
            DType::I64 => $call::<i64, u64>($($arg),*),
            DType::U64 => $call::<u64, u64>($($arg),*),
            DType::F64 => $call::<f64, u64>($($arg),*),
            DType::C64 | DType::C128 => unreachable!("complex elements have no order"),
        }
    };
}
pub(super) use with_keyed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_order() {
        let order = [f32::NEG_INFINITY, f32::MIN, -1.0, -1e-45, -0.0, 0.0, 1e-45, 2.0, f32::MAX];
        for pair in order.windows(2) {
            assert!(pair[0].total_key() < pair[1].total_key(), "{pair:?}");
        }
        assert_eq!((-0.0f32).sort_key(), 0.0f32.sort_key());
        assert_eq!((-f32::NAN).sort_key(), u32::MAX);
        assert!(f32::INFINITY.sort_key() < u32::MAX);
        assert_eq!((-0.0f64).sort_key(), 0.0f64.sort_key());
        assert!((-1.5f64).sort_key() < (-1.25f64).sort_key());
        assert!(f16::NEG_INFINITY.sort_key() < f16::from_f32(-3.0).sort_key());
        assert!(i8::MIN.sort_key() < 0i8.sort_key() && 0i8.sort_key() < 1i8.sort_key());
        assert!(i64::MIN.sort_key() < (-1i64).sort_key() && (-1i64).sort_key() < 0i64.sort_key());
    }
}
