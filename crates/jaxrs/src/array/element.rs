//! Rust types that are element types.

use half::{bf16, f16};
use jaxrs_ir::DType;
use num_complex::Complex;

/// A Rust type whose values are elements of an array.
pub trait Element: Copy + Send + Sync + 'static {
    /// The element type.
    const DTYPE: DType;

    /// Appends the element's bytes, little-endian.
    fn write(self, bytes: &mut Vec<u8>);

    /// The element from its bytes; there are `DTYPE.size()`.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($ty:ty: $dtype:ident,)*) => {
        $(impl Element for $ty {
            const DTYPE: DType = DType::$dtype;

            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> $ty {
                <$ty>::from_le_bytes(bytes.try_into().expect("an element's bytes"))
            }
        })*
    };
}

elements! {
    i8: I8, i16: I16, i32: I32, i64: I64,
    u8: U8, u16: U16, u32: U32, u64: U64,
    bf16: BF16, f16: F16, f32: F32, f64: F64,
}

impl Element for bool {
    const DTYPE: DType = DType::I1;

    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }

    fn read(bytes: &[u8]) -> bool {
        bytes[0] != 0
    }
}

macro_rules! complex {
    ($($part:ty: $dtype:ident,)*) => {
        $(impl Element for Complex<$part> {
            const DTYPE: DType = DType::$dtype;

            fn write(self, bytes: &mut Vec<u8>) {
                self.re.write(bytes);
                self.im.write(bytes);
            }

            fn read(bytes: &[u8]) -> Complex<$part> {
                let (re, im) = bytes.split_at(bytes.len() / 2);
                Complex::new(<$part>::read(re), <$part>::read(im))
            }
        })*
    };
}

complex! { f32: C64, f64: C128, }
