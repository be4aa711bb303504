//! [`Array`]: a tensor, concrete or traced.

mod contract;
mod conv;
mod create;
mod cumulative;
mod einsum;
mod element;
mod elementwise;
mod handle;
mod index;
mod join;
mod live;
mod logic;
mod math;
mod operand;
mod operators;
mod order;
pub(crate) mod pool;
mod promote;
mod ranges;
mod read;
mod reduce;
mod scalar;
mod shape;

pub use conv::{Conv, Padding};
pub use element::Element;
pub use index::{At, Ellipsis, Index, Mode, NewAxis};
pub use join::{IntoCuts, PadMode};
pub use live::{LiveArray, live_arrays};
pub use operand::Operand;
pub use promote::promote;
pub(crate) use read::text;
pub use scalar::Scalar;
pub(crate) use shape::axis as axis_of;
pub use shape::{IntoAxes, IntoPositions, IntoShape, Keep, keep};

use crate::error::{Error, Place, Result};
use crate::trace::TraceId;
use handle::Inner;
use jaxrs_ir::{DType, TensorType, ValueId};
use jaxrs_runtime::Buffer;
use std::fmt;
use std::sync::Arc;

/// A tensor: element type and shape are known at run time, a clone is a handle.
///
/// It is *concrete*, with elements in memory, or, inside a function that is being traced (by
/// [`crate::jit()`], [`crate::grad`], [`crate::scan`], ...), *traced*: a value of the function that is
/// made. Operations on concrete arrays run at once; as soon as a function is traced, they are
/// recorded.
///
/// A wrong operation does not panic and returns no `Result`: it gives an array that holds the
/// error, and so does everything computed from it; the error surfaces where the value is read or
/// leaves [`crate::jit()`], or is shown by [`Array::error`].
#[derive(Clone)]
pub struct Array(Option<Arc<Inner>>);

/// What an array is.
pub(crate) enum Value {
    /// Elements in memory.
    Concrete(Buffer),
    /// A value of a function that is, or was, being traced.
    Traced(TraceId, ValueId),
    /// None: only element type and shape are known.
    Shape,
    /// The first error on the way to it.
    Failed(Error),
}

impl Array {
    pub(crate) fn concrete(ty: TensorType, buffer: Buffer, place: Place) -> Array {
        Array::new(ty, Value::Concrete(buffer), place)
    }

    /// An array that holds an error.
    pub(crate) fn failed(ty: TensorType, error: Error) -> Array {
        let place = error.place().unwrap_or_else(Place::here);
        Array::new(ty, Value::Failed(error), place)
    }

    pub(crate) fn value(&self) -> &Value {
        &self.data().value
    }

    /// Element type and shape. Of an array that holds an error: those it would have, as far as
    /// they are known, else rank 0.
    pub fn ty(&self) -> &TensorType {
        &self.data().ty
    }

    /// The extents of the axes.
    pub fn shape(&self) -> &[u64] {
        &self.data().ty.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.data().ty.dtype
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.data().ty.rank()
    }

    /// The number of elements.
    pub fn len(&self) -> u64 {
        self.data().ty.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data().ty.is_empty()
    }

    /// Where the array was made.
    pub fn place(&self) -> Place {
        self.data().place
    }

    /// Whether it is a value of a function that is being traced.
    pub fn is_traced(&self) -> bool {
        matches!(self.data().value, Value::Traced(..))
    }

    /// The first error on the way to the array, if there was one.
    pub fn error(&self) -> Option<&Error> {
        match &self.data().value {
            Value::Failed(error) => {
                error.seen();
                Some(error)
            }
            _ => None,
        }
    }

    /// The array, or the first error on the way to it.
    ///
    /// # Errors
    /// See [`Array::error`].
    pub fn ok(self) -> Result<Array> {
        match self.error() {
            Some(error) => Err(error.clone()),
            None => Ok(self),
        }
    }

    /// The elements' memory.
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match &self.data().value {
            Value::Concrete(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// The address of the first element, for those who want to see that it does not change; None
    /// while traced.
    pub fn address(&self) -> Option<usize> {
        self.buffer().map(|buffer| buffer.as_ptr() as usize)
    }
}

/// Element type, shape and, of small concrete arrays, the elements.
impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.data().value {
            Value::Concrete(_) => read::show(self, f),
            Value::Traced(..) => write!(f, "Traced({})", self.data().ty),
            Value::Shape => write!(f, "Shape({})", self.data().ty),
            Value::Failed(error) => write!(f, "Failed({error})"),
        }
    }
}

/// As `Debug`.
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
