//! Constant tensors.

use crate::types::TensorType;
use jaxrs_kernel::DType;
use std::sync::Arc;

/// A tensor known at compile time, or a value of the interpreter. Cheap to clone.
///
/// Elements are little-endian, row-major; an `i1` is a byte 0 or 1; a complex element is its real
/// part, then its imaginary part.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Literal {
    ty: TensorType,
    data: Data,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Data {
    /// Every element.
    Dense(Arc<Vec<u8>>),
    /// One element's bytes, for all.
    Splat([u8; 16]),
}

impl Literal {
    /// A literal of these bytes; panics unless their number is `ty.bytes()`.
    pub fn dense(ty: TensorType, bytes: Vec<u8>) -> Literal {
        assert_eq!(bytes.len() as u64, ty.bytes(), "bytes of {ty}");
        // One element is always a splat, none never: equal literals have one form.
        if ty.len() == 1 {
            return Literal::splat(ty, &bytes);
        }
        Literal { ty, data: Data::Dense(Arc::new(bytes)) }
    }

    /// A literal whose elements are all these bytes; panics unless there are `dtype.size()`.
    pub fn splat(ty: TensorType, element: &[u8]) -> Literal {
        assert_eq!(element.len() as u64, ty.dtype.size(), "bytes of an element of {ty}");
        if ty.is_empty() {
            return Literal { ty, data: Data::Dense(Arc::default()) };
        }
        let mut bytes = [0; 16];
        bytes[..element.len()].copy_from_slice(element);
        Literal { ty, data: Data::Splat(bytes) }
    }

    /// A rank-0 literal from the parts' register bits (see [`Literal::bits`]).
    pub fn scalar(dtype: DType, parts: &[u64]) -> Literal {
        let mut bytes = Vec::new();
        for &part in parts {
            bytes.extend_from_slice(&narrow(part, dtype.part()));
        }
        Literal::splat(TensorType::scalar(dtype), &bytes)
    }

    /// A literal from the register bits of each part of each element (see [`Literal::bits`]);
    /// panics unless there are as many as elements times parts.
    pub fn from_bits(ty: TensorType, parts: &[u64]) -> Literal {
        let mut bytes = Vec::with_capacity(ty.bytes() as usize);
        for &bits in parts {
            push(&mut bytes, bits, ty.dtype.part());
        }
        Literal::dense(ty, bytes)
    }

    /// A literal from the register bits (see [`Literal::bits`]) of each element's parts; of a real
    /// type the first is taken.
    pub fn tabulate(ty: TensorType, mut element: impl FnMut(u64) -> [u64; 2]) -> Literal {
        let (part, parts) = (ty.dtype.part(), ty.dtype.parts() as usize);
        let mut bytes = Vec::with_capacity(ty.bytes() as usize);
        for position in 0..ty.len() {
            for bits in &element(position)[..parts] {
                push(&mut bytes, *bits, part);
            }
        }
        Literal::dense(ty, bytes)
    }

    /// The type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The element's bytes if the literal was made as a splat or has one element.
    pub fn as_splat(&self) -> Option<&[u8]> {
        match &self.data {
            Data::Splat(bytes) => Some(&bytes[..self.ty.dtype.size() as usize]),
            Data::Dense(_) => None,
        }
    }

    /// Bytes held in memory.
    pub fn stored_bytes(&self) -> u64 {
        match &self.data {
            Data::Splat(_) => self.ty.dtype.size(),
            Data::Dense(bytes) => bytes.len() as u64,
        }
    }

    /// All elements' bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.data {
            Data::Dense(bytes) => bytes.to_vec(),
            Data::Splat(bytes) => {
                let size = self.ty.dtype.size() as usize;
                bytes[..size].repeat(self.ty.len() as usize)
            }
        }
    }

    /// All elements' bytes, without a copy where they are stored.
    pub fn bytes(&self) -> std::borrow::Cow<'_, [u8]> {
        match &self.data {
            Data::Dense(bytes) => std::borrow::Cow::Borrowed(bytes.as_slice()),
            Data::Splat(_) => std::borrow::Cow::Owned(self.to_bytes()),
        }
    }

    /// The element at a row-major position as register bits of one part (0: real, or the whole
    /// real element; 1: imaginary), as a kernel's load gives them: `bf16` and `f16` widened to
    /// `f32`, integers zero-extended.
    pub fn bits(&self, position: u64, part: u64) -> u64 {
        let size = self.ty.dtype.size();
        let half = self.ty.dtype.part().size();
        let bytes = match &self.data {
            Data::Dense(bytes) => &bytes[(position * size + part * half) as usize..],
            Data::Splat(bytes) => &bytes[(part * half) as usize..],
        };
        widen(bytes, self.ty.dtype.part())
    }

    /// The element at a row-major position as an integer, sign-extended if its type is signed.
    pub fn int(&self, position: u64) -> i64 {
        let bits = self.bits(position, 0);
        match self.ty.dtype {
            DType::I8 => i64::from(bits as i8),
            DType::I16 => i64::from(bits as i16),
            DType::I32 => i64::from(bits as i32),
            _ => bits as i64,
        }
    }

    /// The integer at a row-major position with its sign, whatever its type.
    pub fn wide_int(&self, position: u64) -> i128 {
        match self.ty.dtype {
            DType::U64 => i128::from(self.bits(position, 0)),
            _ => i128::from(self.int(position)),
        }
    }

    /// The register bits of all parts of the element at a row-major position; of a real type the
    /// second is 0.
    pub fn parts(&self, position: u64) -> [u64; 2] {
        let im = if self.ty.dtype.is_complex() { self.bits(position, 1) } else { 0 };
        [self.bits(position, 0), im]
    }

    /// The same elements under another type of the same size in bytes per element and count.
    pub fn reshaped(&self, ty: TensorType) -> Literal {
        assert_eq!(self.ty.bytes(), ty.bytes(), "{} as {ty}", self.ty);
        assert_eq!(self.ty.dtype.size(), ty.dtype.size(), "{} as {ty}", self.ty);
        Literal { ty, data: self.data.clone() }
    }
}

impl std::fmt::Debug for Literal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: Vec<String> =
            (0..self.ty.len().min(8)).map(|i| format!("{:#x}", self.bits(i, 0))).collect();
        write!(f, "Literal({}: {})", self.ty, shown.join(", "))
    }
}

/// Register bits from an element's bytes (`dtype` is not complex).
pub fn widen(bytes: &[u8], dtype: DType) -> u64 {
    match dtype {
        DType::I1 | DType::I8 | DType::U8 => u64::from(bytes[0]),
        DType::I16 | DType::U16 => u64::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        DType::BF16 => {
            u64::from(half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32().to_bits())
        }
        DType::F16 => u64::from(half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32().to_bits()),
        DType::I32 | DType::U32 | DType::F32 => {
            u64::from(u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes")))
        }
        DType::I64 | DType::U64 | DType::F64 => {
            u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
        }
        DType::C64 | DType::C128 => unreachable!("a part is real"),
    }
}

/// An element's bytes from register bits (`dtype` is not complex).
pub fn narrow(bits: u64, dtype: DType) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8);
    push(&mut bytes, bits, dtype);
    bytes
}

/// Appends an element's bytes from register bits (`dtype` is not complex).
fn push(bytes: &mut Vec<u8>, bits: u64, dtype: DType) {
    let float = || f32::from_bits(bits as u32);
    match dtype {
        DType::BF16 => bytes.extend_from_slice(&half::bf16::from_f32(float()).to_le_bytes()),
        DType::F16 => bytes.extend_from_slice(&half::f16::from_f32(float()).to_le_bytes()),
        other => bytes.extend_from_slice(&bits.to_le_bytes()[..other.size() as usize]),
    }
}
