//! Reading arrays.

use super::{Array, Element, Value};
use crate::error::{Error, Place, Result};
use jaxrs_ir::{DType, Literal};
use std::fmt;

/// More elements than this are not shown.
const SHOWN: u64 = 64;

impl Array {
    /// The elements, row-major.
    ///
    /// # Errors
    /// If the array holds an error, is traced, or has another element type.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let bytes = self.bytes(Place::here())?;
        if self.dtype() != T::DTYPE {
            let message = format!("the elements are {}, not {}", self.dtype(), T::DTYPE);
            let fix = format!("convert: .astype(DType::{:?})", T::DTYPE);
            return Err(Error::new(message, Place::here()).note(fix));
        }
        Ok(bytes.chunks_exact(T::DTYPE.size() as usize).map(T::read).collect())
    }

    /// The only element.
    ///
    /// # Errors
    /// As [`Array::to_vec`], and if there is not exactly one.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        match self.to_vec()?[..] {
            [only] => Ok(only),
            _ => Err(Error::new(format!("{} has not one element", self.ty()), Place::here())),
        }
    }

    /// The elements' bytes.
    pub(crate) fn bytes(&self, place: Place) -> Result<&[u8]> {
        match self.value() {
            Value::Concrete(buffer) => Ok(buffer.as_bytes()),
            Value::Failed(error) => {
                error.seen();
                Err(error.clone())
            }
            Value::Shape => {
                let message = format!("of this {} only the type is known", self.ty());
                Err(Error::new(message, place).note(format!("it was made at {}", self.place())))
            }
            Value::Traced(..) => Err(Error::new(
                format!("the value of a traced {} is not known while its function is traced", self.ty()),
                place,
            )
            .note(format!("it was made at {}", self.place()))
            .note("choose by value with where_, cond or switch; loop with while_loop; print with debug::print")),
        }
    }
}

/// More elements than this are not printed in full.
const PRINTED: u64 = 1000;

struct Shown<'a>(&'a Literal);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = self.0.ty();
        write!(f, "{ty} ")?;
        if ty.len() <= PRINTED {
            return axis(self.0, 0, 0, f);
        }
        f.write_str("[")?;
        for at in 0..SHOWN {
            element(self.0, at, f)?;
            f.write_str(", ")?;
        }
        f.write_str("...]")
    }
}

/// The type and the elements, of many only the first.
pub(crate) fn text(literal: &Literal) -> String {
    Shown(literal).to_string()
}

/// Writes the type and, of few elements, the elements.
pub(super) fn show(array: &Array, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ty = array.ty();
    let Value::Concrete(buffer) = array.value() else { return write!(f, "{ty}") };
    if ty.len() > SHOWN {
        return write!(f, "{ty}");
    }
    let literal = Literal::dense(ty.clone(), buffer.as_bytes().to_vec());
    write!(f, "{ty} ")?;
    axis(&literal, 0, 0, f)
}

/// Writes the elements of one position of the axes before `depth`.
fn axis(x: &Literal, depth: usize, at: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let shape = &x.ty().shape;
    let Some(&extent) = shape.get(depth) else { return element(x, at, f) };
    f.write_str("[")?;
    for n in 0..extent {
        if n > 0 {
            f.write_str(", ")?;
        }
        axis(x, depth + 1, at * extent + n, f)?;
    }
    f.write_str("]")
}

fn element(x: &Literal, at: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let float = |part| {
        let bits = x.bits(at, part);
        match x.ty().dtype.part() {
            DType::F64 => f64::from_bits(bits),
            _ => f64::from(f32::from_bits(bits as u32)),
        }
    };
    let narrow = |part| match x.ty().dtype.part() {
        DType::F64 => format!("{:?}", float(part)),
        _ => format!("{:?}", float(part) as f32),
    };
    match x.ty().dtype {
        DType::I1 => write!(f, "{}", x.bits(at, 0) != 0),
        DType::C64 | DType::C128 => write!(f, "{}{:+}i", narrow(0), float(1)),
        dtype if dtype.is_float() => f.write_str(&narrow(0)),
        _ => write!(f, "{}", x.wide_int(at)),
    }
}
