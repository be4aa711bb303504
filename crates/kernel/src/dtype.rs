//! Element types of tensors, and the register types that carry their elements in a kernel.

use std::fmt;

/// The element type of a tensor, named as StableHLO names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DType {
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    BF16,
    F16,
    F32,
    F64,
    /// `complex<f32>`: real then imaginary part.
    C64,
    /// `complex<f64>`: real then imaginary part.
    C128,
}

/// The class of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Class {
    Bool,
    Signed,
    Unsigned,
    Float,
    Complex,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 15] = [
        DType::I1,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::BF16,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// StableHLO's spelling, e.g. `ui8` or `complex<f32>`.
    pub fn name(self) -> &'static str {
        match self {
            DType::I1 => "i1",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "ui8",
            DType::U16 => "ui16",
            DType::U32 => "ui32",
            DType::U64 => "ui64",
            DType::BF16 => "bf16",
            DType::F16 => "f16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "complex<f32>",
            DType::C128 => "complex<f64>",
        }
    }

    /// The element type that StableHLO spells `name`.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element in memory; an `i1` takes one byte, 0 or 1.
    pub fn size(self) -> u64 {
        match self {
            DType::I1 | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::BF16 | DType::F16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// Bits of one element as a value: 1 for `i1`.
    pub fn bits(self) -> u32 {
        if self == DType::I1 { 1 } else { 8 * self.size() as u32 }
    }

    /// The class.
    pub fn class(self) -> Class {
        match self {
            DType::I1 => Class::Bool,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => Class::Signed,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Class::Unsigned,
            DType::BF16 | DType::F16 | DType::F32 | DType::F64 => Class::Float,
            DType::C64 | DType::C128 => Class::Complex,
        }
    }

    /// Whether it is a real floating-point type.
    pub fn is_float(self) -> bool {
        self.class() == Class::Float
    }

    /// Whether it is a signed or unsigned integer type (`i1` is not).
    pub fn is_int(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }

    /// Whether it is complex.
    pub fn is_complex(self) -> bool {
        self.class() == Class::Complex
    }

    /// The type of a complex type's parts; a real type is its own part.
    pub fn part(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// Scalars a complex element is made of: 2, else 1.
    pub fn parts(self) -> u64 {
        if self.is_complex() { 2 } else { 1 }
    }

    /// The register type that carries an element (of a complex type: one part). `bf16` and `f16`
    /// travel as `f32` that hold a value of the narrow type exactly.
    pub fn reg(self) -> RegType {
        match self.part() {
            DType::I1 => RegType::I1,
            DType::I8 | DType::U8 => RegType::I8,
            DType::I16 | DType::U16 => RegType::I16,
            DType::I32 | DType::U32 => RegType::I32,
            DType::I64 | DType::U64 => RegType::I64,
            DType::BF16 | DType::F16 | DType::F32 => RegType::F32,
            DType::F64 | DType::C64 | DType::C128 => RegType::F64,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of a register in a kernel. Signedness is in the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum RegType {
    I1,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl RegType {
    /// Bits of a value.
    pub fn bits(self) -> u32 {
        match self {
            RegType::I1 => 1,
            RegType::I8 => 8,
            RegType::I16 => 16,
            RegType::I32 | RegType::F32 => 32,
            RegType::I64 | RegType::F64 => 64,
        }
    }

    /// Whether it is `f32` or `f64`.
    pub fn is_float(self) -> bool {
        matches!(self, RegType::F32 | RegType::F64)
    }

    /// The integer type of the same width.
    pub fn as_int(self) -> RegType {
        match self {
            RegType::F32 => RegType::I32,
            RegType::F64 => RegType::I64,
            other => other,
        }
    }
}

impl fmt::Display for RegType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RegType::I1 => "i1",
            RegType::I8 => "i8",
            RegType::I16 => "i16",
            RegType::I32 => "i32",
            RegType::I64 => "i64",
            RegType::F32 => "f32",
            RegType::F64 => "f64",
        })
    }
}
