//! Numbers that are traced.

use super::{Array, Element, Operand};
use crate::error::Place;
use crate::tree::{Path, Structure, Tree};
use std::marker::PhantomData;
use std::ops::Deref;

/// A rank-0 array of a Rust number's type: an argument of a jitted function for which callers pass
/// a number. Derefs to the array.
#[derive(Clone, Debug)]
pub struct Scalar<T> {
    array: Array,
    of: PhantomData<fn() -> T>,
}

impl<T: Element> Scalar<T> {
    /// From a rank-0 array of the type; another gives an array that holds the error.
    #[track_caller]
    pub fn new(array: Array) -> Scalar<T> {
        let array = match array.rank() {
            0 if array.dtype() == T::DTYPE => array,
            0 => array.astype(T::DTYPE),
            _ => {
                let message = format!("a scalar has rank 0, not {}", array.ty());
                let ty = jaxrs_ir::TensorType::scalar(T::DTYPE);
                Array::failed(ty, crate::Error::new(message, Place::here()))
            }
        };
        Scalar { array, of: PhantomData }
    }
}

impl<T> Deref for Scalar<T> {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.array
    }
}

impl<T> Tree for Scalar<T> {
    fn visit(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, &Array)) {
        f(path, &self.array);
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Array)) {
        f(&mut self.array);
    }

    fn map_with_path(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Array) -> Array,
    ) -> Self {
        Scalar { array: f(path, &self.array), of: PhantomData }
    }

    fn into_leaves(self, leaves: &mut Vec<Array>) {
        leaves.push(self.array);
    }

    fn structure(&self, structure: &mut Structure) {
        structure.array();
    }
}

impl<T> From<Scalar<T>> for Operand {
    fn from(scalar: Scalar<T>) -> Operand {
        Operand::Array(scalar.array)
    }
}

impl<T> From<&Scalar<T>> for Operand {
    fn from(scalar: &Scalar<T>) -> Operand {
        Operand::Array(scalar.array.clone())
    }
}

impl<T: Element> From<Array> for Scalar<T> {
    #[track_caller]
    fn from(array: Array) -> Scalar<T> {
        Scalar::new(array)
    }
}

impl<T: Element> From<&Array> for Scalar<T> {
    #[track_caller]
    fn from(array: &Array) -> Scalar<T> {
        Scalar::new(array.clone())
    }
}

macro_rules! from_numbers {
    ($($scalar:ty: $($number:ty),*;)*) => {
        $($(impl From<$number> for Scalar<$scalar> {
            #[track_caller]
            fn from(number: $number) -> Scalar<$scalar> {
                let dtype = <$scalar as Element>::DTYPE;
                Scalar::new(Operand::from(number).into_array(dtype, Place::here()))
            }
        })*)*
    };
}

from_numbers! {
    bool: bool;
    i8: i8, i32;
    i16: i16, i32;
    i32: i32;
    i64: i32, i64;
    u8: u8, i32;
    u16: u16, i32;
    u32: u32, i32;
    u64: u32, i32;
    f32: f32, f64, i32;
    f64: f32, f64, i32;
    half::bf16: f32, f64;
    half::f16: f32, f64;
}
