//! Elements in memory as the numbers that contractions accumulate in, and back.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use jaxrs_kernel::DType;

/// An element type in memory that is read as a `T`.
pub(super) trait Source<T>: Copy {
    /// Its value.
    fn read(self) -> T;
}

macro_rules! sources {
    ($($from:ty => $to:ty: |$x:ident| $value:expr;)*) => {$(
        impl Source<$to> for $from {
            #[inline(always)]
            fn read(self) -> $to { let $x = self; $value }
        }
    )*};
}
sources! {
    f32 => f32: |x| x;
    bf16 => f32: |x| f32::from_bits(u32::from(x.to_bits()) << 16);
    f16 => f32: |x| half_to_f32(x.to_bits());
    f64 => f64: |x| x;
    i8 => i32: |x| i32::from(x);
    u8 => i32: |x| i32::from(x);
    i16 => i32: |x| i32::from(x);
    u16 => i32: |x| i32::from(x);
    i32 => i32: |x| x;
    i64 => i32: |x| x as i32;
    i8 => i64: |x| i64::from(x);
    u8 => i64: |x| i64::from(x);
    i16 => i64: |x| i64::from(x);
    u16 => i64: |x| i64::from(x);
    i32 => i64: |x| i64::from(x);
    u32 => i64: |x| i64::from(x);
    i64 => i64: |x| x;
}

/// The `f32` equal to the `f16` with these bits, without a branch, so that loops over it vectorize.
#[inline(always)]
fn half_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    // Exponent and fraction in place, scaled by 2^112 for the difference of the biases.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
    let special = f32::from_bits(0x7f80_0000 | magnitude << 13);
    let value = if magnitude >= 0x7c00 { special } else { scaled };
    f32::from_bits(value.to_bits() | sign)
}

/// Writes accumulated numbers as elements.
pub(super) trait Target: Copy {
    /// Writes one at an element position.
    ///
    /// # Safety
    /// The element is there, and the type is one that the number is accumulated for.
    unsafe fn write(self, out: *mut u8, at: isize, dtype: DType);

    /// Writes several at evenly spaced positions.
    ///
    /// # Safety
    /// As [`Target::write`], for each.
    #[inline(always)]
    unsafe fn write_line(values: &[Self], out: *mut u8, first: isize, step: isize, dtype: DType) {
        for (n, &value) in values.iter().enumerate() {
            // SAFETY: by the caller.
            unsafe { value.write(out, first + n as isize * step, dtype) };
        }
    }
}

macro_rules! put {
    ($out:expr, $at:expr, $t:ty, $value:expr) => {
        // SAFETY: by the caller.
        unsafe { $out.cast::<$t>().offset($at).write($value) }
    };
}

impl Target for f32 {
    #[inline(always)]
    unsafe fn write(self, out: *mut u8, at: isize, dtype: DType) {
        match dtype {
            DType::BF16 => put!(out, at, bf16, bf16::from_f32(self)),
            DType::F16 => put!(out, at, f16, f16::from_f32(self)),
            _ => put!(out, at, f32, self),
        }
    }

    unsafe fn write_line(values: &[f32], out: *mut u8, first: isize, step: isize, dtype: DType) {
        // SAFETY: by the caller.
        unsafe {
            match dtype {
                DType::BF16 if step == 1 => {
                    let out = out.cast::<u16>().offset(first);
                    for (n, &value) in values.iter().enumerate() {
                        out.add(n).write(to_bf16(value));
                    }
                }
                DType::F16 if step == 1 => {
                    let out = out.cast::<f16>().offset(first);
                    std::slice::from_raw_parts_mut(out, values.len())
                        .convert_from_f32_slice(values);
                }
                DType::F32 if step == 1 => {
                    let out = out.cast::<f32>().offset(first);
                    std::slice::from_raw_parts_mut(out, values.len()).copy_from_slice(values);
                }
                _ => {
                    for (n, &value) in values.iter().enumerate() {
                        value.write(out, first + n as isize * step, dtype);
                    }
                }
            }
        }
    }
}

/// The bits of the nearest `bf16`, without a branch, so that loops over it vectorize.
#[inline(always)]
fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    (if value.is_nan() { quiet } else { rounded }) as u16
}

impl Target for f64 {
    #[inline(always)]
    unsafe fn write(self, out: *mut u8, at: isize, _: DType) {
        put!(out, at, f64, self);
    }
}

impl Target for i32 {
    #[inline(always)]
    unsafe fn write(self, out: *mut u8, at: isize, dtype: DType) {
        match dtype {
            DType::I1 => put!(out, at, u8, u8::from(self != 0)),
            DType::I8 | DType::U8 => put!(out, at, u8, self as u8),
            DType::I16 | DType::U16 => put!(out, at, u16, self as u16),
            _ => put!(out, at, i32, self),
        }
    }
}

impl Target for i64 {
    #[inline(always)]
    unsafe fn write(self, out: *mut u8, at: isize, _: DType) {
        put!(out, at, i64, self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half() {
        for bits in (0..=u32::MAX).step_by(0x1357) {
            let value = f32::from_bits(bits);
            assert_eq!(to_bf16(value), bf16::from_f32(value).to_bits(), "{bits:#x}");
        }
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (half_to_f32(bits), f16::from_bits(bits).to_f32());
            assert!(ours == theirs || ours.is_nan() && theirs.is_nan(), "{bits:#x}");
            assert_eq!(ours.is_sign_negative(), theirs.is_sign_negative());
        }
    }
}
