//! What operations take beside arrays: Rust numbers.

use super::promote::Kind;
use super::{Array, Value};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::{DType, Literal, TensorType, ops};
use jaxrs_runtime::Buffer;
use num_complex::Complex;

/// An operand of an operation: an array, or a Rust number, which takes on the array's element
/// type as far as its kind allows (see [`crate::array::promote`]).
#[derive(Clone, Debug)]
pub enum Operand {
    /// An array.
    Array(Array),
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number.
    Complex(Complex<f64>),
}

impl Operand {
    /// What it is to promotion.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Operand::Array(array) => Kind::Strong(array.dtype()),
            Operand::Bool(_) => Kind::Strong(DType::I1),
            Operand::Int(_) => Kind::WeakInt,
            Operand::Float(_) => Kind::WeakFloat,
            Operand::Complex(_) => Kind::WeakComplex,
        }
    }

    /// The shape.
    pub(crate) fn shape(&self) -> &[u64] {
        match self {
            Operand::Array(array) => array.shape(),
            _ => &[],
        }
    }

    /// The operand as an array; a number in the element type given.
    pub(crate) fn into_array(self, dtype: DType, place: Place) -> Array {
        let (bits, from) = match self {
            Operand::Array(array) => return array,
            Operand::Bool(x) => ([u64::from(x), 0], DType::I1),
            Operand::Int(x) => ([x as u64, 0], DType::I64),
            Operand::Float(x) => ([x.to_bits(), 0], DType::F64),
            Operand::Complex(x) => ([x.re.to_bits(), x.im.to_bits()], DType::C128),
        };
        let parts = ops::convert::evaluate_parts(bits, from, dtype);
        if !trace::is_tracing() && matches!(dtype, DType::F32 | DType::F64 | DType::I32) {
            // The common numbers go to memory without a detour.
            let bytes = &parts[0].to_le_bytes()[..dtype.size() as usize];
            return match Buffer::from_bytes(bytes) {
                Ok(buffer) => Array::concrete(TensorType::scalar(dtype), buffer, place),
                Err(error) => Array::failed(
                    TensorType::scalar(dtype),
                    crate::Error::new(error.to_string(), place),
                ),
            };
        }
        let literal = Literal::scalar(dtype, &parts[..dtype.parts() as usize]);
        literal_array(&literal, place)
    }
}

/// An array from a literal: while a function is traced, a constant of it.
pub(crate) fn literal_array(literal: &Literal, place: Place) -> Array {
    if trace::is_tracing() {
        return trace::one(&[], place, |b, _| b.constant(literal.clone()));
    }
    let ty: TensorType = literal.ty().clone();
    match Buffer::from_bytes(&literal.bytes()) {
        Ok(buffer) => Array::new(ty, Value::Concrete(buffer), place),
        Err(error) => Array::failed(ty, crate::Error::new(error.to_string(), place)),
    }
}

impl From<Array> for Operand {
    fn from(array: Array) -> Operand {
        Operand::Array(array)
    }
}

impl From<&Array> for Operand {
    fn from(array: &Array) -> Operand {
        Operand::Array(array.clone())
    }
}

impl From<bool> for Operand {
    fn from(x: bool) -> Operand {
        Operand::Bool(x)
    }
}

macro_rules! numbers {
    ($($ty:ty => $variant:ident as $as:ty,)*) => {
        $(impl From<$ty> for Operand {
            fn from(x: $ty) -> Operand {
                Operand::$variant(x as $as)
            }
        })*
    };
}

numbers! {
    i8 => Int as i64,
    i16 => Int as i64,
    i32 => Int as i64,
    i64 => Int as i64,
    u8 => Int as i64,
    u16 => Int as i64,
    u32 => Int as i64,
    usize => Int as i64,
    f32 => Float as f64,
    f64 => Float as f64,
}

impl From<Complex<f32>> for Operand {
    fn from(x: Complex<f32>) -> Operand {
        Operand::Complex(Complex::new(x.re.into(), x.im.into()))
    }
}

impl From<Complex<f64>> for Operand {
    fn from(x: Complex<f64>) -> Operand {
        Operand::Complex(x)
    }
}
