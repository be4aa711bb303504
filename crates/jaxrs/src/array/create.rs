//! Making arrays.

use super::{Array, Element, IntoShape, Operand, Value};
use crate::array::operand::literal_array;
use crate::error::{Error, Place};
use crate::trace;
use jaxrs_ir::{DType, Literal, TensorType};
use jaxrs_runtime::Buffer;

impl Array {
    /// An array of these elements, row-major, in this shape.
    ///
    /// While a function is traced, it is a constant of that function.
    #[track_caller]
    pub fn from_slice<T: Element>(elements: &[T], shape: impl IntoShape) -> Array {
        let place = Place::here();
        let ty = TensorType::new(shape.into_shape(), T::DTYPE);
        if ty.shape.iter().try_fold(1u64, |n, &e| n.checked_mul(e)) != Some(elements.len() as u64) {
            let message = format!("{} elements do not make {ty}", elements.len());
            return Array::failed(TensorType::scalar(T::DTYPE), Error::new(message, place));
        }
        let mut bytes = Vec::with_capacity(ty.bytes() as usize);
        elements.iter().for_each(|&element| element.write(&mut bytes));
        Array::from_bytes(ty, bytes, place)
    }

    /// An array of these elements, with one axis.
    #[track_caller]
    pub fn from_vec<T: Element>(elements: impl AsRef<[T]>) -> Array {
        let elements = elements.as_ref();
        Array::from_slice(elements, [elements.len() as u64])
    }

    /// The rank-0 array of this element.
    #[track_caller]
    pub fn scalar<T: Element>(element: T) -> Array {
        Array::from_slice(&[element], [0u64; 0])
    }

    pub(crate) fn from_bytes(ty: TensorType, bytes: Vec<u8>, place: Place) -> Array {
        if trace::is_tracing() {
            return literal_array(&Literal::dense(ty, bytes), place);
        }
        match Buffer::from_bytes(&bytes) {
            Ok(buffer) => Array::new(ty, Value::Concrete(buffer), place),
            Err(error) => Array::failed(ty, Error::new(error.to_string(), place)),
        }
    }

    /// An array of its own memory that holds the same elements: to be donated while this one lives
    /// on.
    #[track_caller]
    #[must_use]
    pub fn copy(&self) -> Array {
        let place = Place::here();
        self.duplicate(place).unwrap_or_else(|error| {
            Array::failed(self.ty().clone(), Error::new(error.to_string(), place))
        })
    }

    /// An array whose elements are all this number, of the number's own kind: `f32`, `i32`,
    /// `i1` or `complex<f32>`; see [`Array::full_of`] for other types.
    #[track_caller]
    pub fn full(shape: impl IntoShape, value: impl Into<Operand>) -> Array {
        let value = value.into();
        let dtype = value.kind().dtype();
        Array::full_of(shape, value, dtype)
    }

    /// An array whose elements are all this number, in an element type.
    #[track_caller]
    pub fn full_of(shape: impl IntoShape, value: impl Into<Operand>, dtype: DType) -> Array {
        let place = Place::here();
        let shape = shape.into_shape();
        let value = value.into().into_array(dtype, place);
        trace::one(&[&value], place, |b, x| {
            TensorType::checked("full", shape.clone(), dtype)?;
            let x = b.convert(x[0], dtype)?;
            super::elementwise::broadcast_value(b, x, &shape)
        })
    }

    /// An array of `f32` zeros.
    #[track_caller]
    pub fn zeros(shape: impl IntoShape) -> Array {
        Array::full(shape, 0.0)
    }

    /// An array of `f32` ones.
    #[track_caller]
    pub fn ones(shape: impl IntoShape) -> Array {
        Array::full(shape, 1.0)
    }

    /// Zeros of the array's type.
    #[track_caller]
    pub fn zeros_like(&self) -> Array {
        Array::full_of(self.shape(), 0, self.dtype())
    }

    /// Ones of the array's type.
    #[track_caller]
    pub fn ones_like(&self) -> Array {
        Array::full_of(self.shape(), 1, self.dtype())
    }

    /// An array of which only the type is known: an argument of `lower` and [`crate::eval_shape`].
    #[track_caller]
    pub fn shape_only(shape: impl IntoShape, dtype: DType) -> Array {
        Array::new(TensorType::new(shape.into_shape(), dtype), Value::Shape, Place::here())
    }

    /// An array of the same type whose elements are all this number.
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Operand>) -> Array {
        Array::full_of(self.shape(), value, self.dtype())
    }

    /// `0, 1, ..., n - 1` as `i32`; see also [`Array::arange_by`].
    #[track_caller]
    pub fn arange(n: u64) -> Array {
        Array::iota(&TensorType::new([n], DType::I32), 0)
    }

    /// Each element is its position along an axis.
    #[track_caller]
    pub fn iota(ty: &TensorType, axis: usize) -> Array {
        trace::one(&[], Place::here(), |b, _| b.iota(ty, axis))
    }
}
