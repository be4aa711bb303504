//! Tensor types.

use jaxrs_kernel::DType;
use std::fmt;

/// A static shape and an element type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Extents of the axes; empty for a scalar.
    pub shape: Vec<u64>,
    /// The element type.
    pub dtype: DType,
}

impl TensorType {
    /// A type.
    pub fn new(shape: impl Into<Vec<u64>>, dtype: DType) -> TensorType {
        TensorType { shape: shape.into(), dtype }
    }

    /// A type whose bytes can be counted; an error where they overflow.
    pub fn checked(what: &str, shape: Vec<u64>, dtype: DType) -> Result<TensorType, String> {
        let bytes = shape.iter().try_fold(dtype.size(), |bytes, &e| bytes.checked_mul(e.max(1)));
        let ty = TensorType { shape, dtype };
        match bytes {
            Some(bytes) if bytes <= i64::MAX as u64 => Ok(ty),
            _ => Err(format!("{what}: {ty} is too large")),
        }
    }

    /// The rank-0 type.
    pub fn scalar(dtype: DType) -> TensorType {
        TensorType::new([], dtype)
    }

    /// Axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Elements. Shapes whose size overflows are refused where a type enters the program.
    pub fn len(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Bytes, not rounded up.
    pub fn bytes(&self) -> u64 {
        self.len() * self.dtype.size()
    }

    /// Row-major strides in elements.
    pub fn strides(&self) -> Vec<u64> {
        let mut strides = vec![1; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis] * self.shape[axis].max(1);
        }
        strides
    }

    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> TensorType {
        TensorType { shape: self.shape.clone(), dtype }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for extent in &self.shape {
            write!(f, "{extent}x")?;
        }
        write!(f, "{}>", self.dtype)
    }
}

/// The next index of a row-major walk over `shape`; false after the last one. Start with zeros.
pub fn advance(index: &mut [u64], shape: &[u64]) -> bool {
    for axis in (0..shape.len()).rev() {
        index[axis] += 1;
        if index[axis] < shape[axis] {
            return true;
        }
        index[axis] = 0;
    }
    false
}
