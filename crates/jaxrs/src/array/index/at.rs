//! [`At`]: elements at indices, to read or to replace.

use super::Index;
use super::plan::{Plan, Taken};
use super::windows::{clamped, from_start, place, position_type};
use crate::array::elementwise::broadcast_value;
use crate::array::{Array, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{TensorType, ValueId, ops};
use jaxrs_kernel::dtype::Class;

/// What positions in index arrays that are out of range mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mode {
    /// Reading takes the nearest position, writing leaves the element out.
    #[default]
    Default,
    /// The nearest position.
    Clip,
    /// Reading gives this number, or, of `None`, NaN for floats, the least integer for signed
    /// and the greatest for unsigned ones; writing leaves the element out.
    Fill(Option<f64>),
}

/// Elements of an array at indices: what [`Array::at`] gives.
#[derive(Clone, Debug)]
pub struct At<'a> {
    array: &'a Array,
    indices: Vec<Index>,
    mode: Mode,
}

impl Array {
    /// The elements at indices (see [`crate::i!`]), to read with [`At::get`], or to give the array
    /// with other elements there: [`At::set`], [`At::add`] and so on.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::zeros([2, 3]);
    /// let y = x.at(i![0, 1..]).set(5.0).at(i![.., 0]).add(1.0);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 5.0, 5.0, 1.0, 0.0, 0.0]);
    /// let hits = Array::zeros([3]).at(i![[0, 2, 2, 9]]).add(1.0);
    /// assert_eq!(hits.to_vec::<f32>()?, [1.0, 0.0, 2.0]);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    pub fn at(&self, indices: impl AsRef<[Index]>) -> At<'_> {
        At { array: self, indices: indices.as_ref().to_vec(), mode: Mode::Default }
    }

    /// The elements at indices: `x.at(..).get()`.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let x = Array::arange(10);
    /// assert_eq!(x.slice(i![2..-4]).to_vec::<i32>()?, [2, 3, 4, 5]);
    /// let last = Array::scalar(9i32);
    /// assert_eq!(x.slice(i![&last]).item::<i32>()?, 9);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn slice(&self, indices: impl AsRef<[Index]>) -> Array {
        self.at(indices).get()
    }
}

/// How elements and new values are combined.
#[derive(Clone, Copy, PartialEq)]
enum Update {
    Set,
    With(&'static str),
}

impl Update {
    fn apply(self, b: &mut Builder<'_>, old: ValueId, new: ValueId) -> Result<ValueId, String> {
        match self {
            Update::Set => Ok(new),
            Update::With(name) => b.elementwise(name, &[old, new]),
        }
    }
}

impl At<'_> {
    /// With another meaning of positions that are out of range.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        At { mode, ..self }
    }

    /// The elements.
    #[track_caller]
    pub fn get(&self) -> Array {
        let place = Place::here();
        let shape = self.array.shape();
        let plan = match Plan::new(&self.indices, shape) {
            Ok(plan) => plan,
            Err(message) => return trace::one(&[self.array], place, |_, _| Err(message)),
        };
        let known = known_starts(&plan, shape, place);
        let mut operands = vec![self.array];
        operands.extend(plan.arrays.iter().chain(&known));
        trace::one(&operands, place, |b, values| {
            let (x, arrays) = (values[0], &values[1..]);
            let result = TensorType::checked("index", plan.shape(), b.ty(x).dtype)?;
            if result.is_empty() {
                return b.zeros(&result);
            }
            let clips = !matches!(self.mode, Mode::Fill(_));
            let elements = if !known.is_empty() {
                b.one(ops::DynamicSlice { sizes: plan.window_sizes() }, values)?
            } else if plan.is_static() {
                cut(b, x, &plan)?
            } else if plan.is_window() && clips {
                let starts = starts(b, &plan, shape, arrays)?;
                let operands: Vec<ValueId> = [x].into_iter().chain(starts).collect();
                b.one(ops::DynamicSlice { sizes: plan.window_sizes() }, &operands)?
            } else {
                self.gathered(b, x, &plan, arrays)?
            };
            b.reshape(elements, &result.shape)
        })
    }

    fn gathered(
        &self,
        b: &mut Builder<'_>,
        x: ValueId,
        plan: &Plan,
        arrays: &[ValueId],
    ) -> Result<ValueId, String> {
        let ty = b.ty(x);
        let placed = place(b, plan, &ty.shape, arrays)?;
        let op = ops::Gather { windows: placed.windows, slice_sizes: placed.sizes, sorted: false };
        let elements = b.one(op, &[x, placed.indices])?;
        let (Mode::Fill(fill), Some(inside)) = (self.mode, placed.inside) else {
            return Ok(elements);
        };
        let shape = b.ty(elements).shape;
        let inside = b.broadcast_in_dim(inside, &shape, &placed.over)?;
        let fill = fill_value(b, fill, &TensorType::new(shape, ty.dtype))?;
        b.select(inside, elements, fill)
    }

    /// The array with these elements; the value broadcasts to their shape and is converted to the
    /// array's element type. Where indices name an element twice, one of the values is taken.
    #[track_caller]
    pub fn set(&self, value: impl Into<Operand>) -> Array {
        self.update(Update::Set, value.into())
    }

    /// The array with the value added to these elements, as often as indices name them.
    #[track_caller]
    pub fn add(&self, value: impl Into<Operand>) -> Array {
        self.update(Update::With("stablehlo.add"), value.into())
    }

    /// The array with the value subtracted from these elements, as often as indices name them.
    #[track_caller]
    pub fn subtract(&self, value: impl Into<Operand>) -> Array {
        let place = Place::here();
        let value = value.into().into_array(self.array.dtype(), place);
        self.update(Update::With("stablehlo.add"), value.unary("stablehlo.negate").into())
    }

    /// The array with these elements multiplied, as often as indices name them.
    #[track_caller]
    pub fn multiply(&self, value: impl Into<Operand>) -> Array {
        self.update(Update::With("stablehlo.multiply"), value.into())
    }

    /// The array with these elements divided, as often as indices name them.
    #[track_caller]
    pub fn divide(&self, value: impl Into<Operand>) -> Array {
        let ones = self.array.ones_like();
        let divisor = At { array: &ones, ..self.clone() };
        let divisor = divisor.update(Update::With("stablehlo.multiply"), value.into());
        (self.array / divisor).astype(self.array.dtype())
    }

    /// The array with the lesser of these elements and the value.
    #[track_caller]
    pub fn min(&self, value: impl Into<Operand>) -> Array {
        self.update(Update::With("stablehlo.minimum"), value.into())
    }

    /// The array with the greater of these elements and the value.
    #[track_caller]
    pub fn max(&self, value: impl Into<Operand>) -> Array {
        self.update(Update::With("stablehlo.maximum"), value.into())
    }

    #[track_caller]
    fn update(&self, update: Update, value: Operand) -> Array {
        let place = Place::here();
        let plan = match Plan::new(&self.indices, self.array.shape()) {
            Ok(plan) => plan,
            Err(message) => return trace::one(&[self.array], place, |_, _| Err(message)),
        };
        let value = value.into_array(self.array.dtype(), place);
        let known = known_starts(&plan, self.array.shape(), place);
        let mut operands = vec![self.array, &value];
        operands.extend(plan.arrays.iter().chain(&known));
        trace::one(&operands, place, |b, values| {
            let (x, rest) = (values[0], &values[2..]);
            let ty = b.ty(x);
            let new = b.convert(values[1], ty.dtype)?;
            let new = broadcast_value(b, new, &plan.shape())?;
            if b.ty(new).is_empty() {
                return Ok(x);
            }
            if ty.rank() == 0 {
                let new = b.reshape(new, &[])?;
                return update.apply(b, x, new);
            }
            if plan.is_static() && plan.is_window() {
                let starts = match known.is_empty() {
                    true => starts(b, &plan, &ty.shape, &[])?,
                    false => rest.to_vec(),
                };
                return window(b, x, new, &starts, &plan.window_sizes(), update);
            }
            let new = b.reshape(new, &plan.old_shape())?;
            scattered(b, x, new, &plan, rest, update, self.mode == Mode::Clip)
        })
    }
}

/// Outside of traced functions, the starts of a known window as arrays, so that other positions
/// need no other code.
fn known_starts(plan: &Plan, shape: &[u64], place: Place) -> Vec<Array> {
    if trace::is_tracing() || !plan.is_window() || !plan.is_static() {
        return Vec::new();
    }
    let dtype = position_type(shape, []);
    let start = |taken: &Taken| match *taken {
        Taken::At(at) | Taken::Range { first: at, .. } => {
            Operand::Int(at as i64).into_array(dtype, place)
        }
        Taken::Array(_) => unreachable!("the plan is static"),
    };
    plan.taken.iter().map(start).collect()
}

/// The elements of static indices, with an axis for each of the operand's.
fn cut(b: &mut Builder<'_>, x: ValueId, plan: &Plan) -> Result<ValueId, String> {
    let shape = b.ty(x).shape;
    let (mut starts, mut limits, mut strides) = (Vec::new(), Vec::new(), Vec::new());
    let mut backwards = Vec::new();
    for (axis, taken) in plan.taken.iter().enumerate() {
        let (first, count, step) = match *taken {
            Taken::At(at) => (at, 1, 1),
            Taken::Range { first, count, step } => (first, count, step),
            Taken::Array(_) => return Err("index: an array among static indices".into()),
        };
        let stride = step.unsigned_abs();
        let reach = (count - 1) * stride;
        let start = if step < 0 { first - reach } else { first };
        if step < 0 {
            backwards.push(axis);
        }
        starts.push(start);
        limits.push(start + reach + 1);
        strides.push(stride);
    }
    let mut elements = x;
    let whole = limits == shape && starts.iter().all(|&start| start == 0);
    if !whole || strides.iter().any(|&stride| stride != 1) {
        elements = b.one(ops::Slice { starts, limits, strides }, &[x])?;
    }
    if !backwards.is_empty() {
        elements = b.one(ops::Reverse { axes: backwards }, &[elements])?;
    }
    Ok(elements)
}

/// The start of a plan's window in each axis.
fn starts(
    b: &mut Builder<'_>,
    plan: &Plan,
    shape: &[u64],
    arrays: &[ValueId],
) -> Result<Vec<ValueId>, String> {
    let dtype = position_type(shape, arrays.iter().map(|&array| b.ty(array).dtype));
    let mut starts = Vec::with_capacity(shape.len());
    for (axis, taken) in plan.taken.iter().enumerate() {
        starts.push(match *taken {
            Taken::At(at) | Taken::Range { first: at, .. } => {
                b.full(&TensorType::scalar(dtype), at as f64)?
            }
            Taken::Array(number) => from_start(b, arrays[number], shape[axis], dtype)?,
        });
    }
    Ok(starts)
}

/// The array with one window, which lies inside, updated.
fn window(
    b: &mut Builder<'_>,
    x: ValueId,
    new: ValueId,
    starts: &[ValueId],
    sizes: &[u64],
    update: Update,
) -> Result<ValueId, String> {
    let mut new = b.reshape(new, sizes)?;
    if update != Update::Set {
        let operands: Vec<ValueId> = [x].iter().chain(starts).copied().collect();
        let old = b.one(ops::DynamicSlice { sizes: sizes.to_vec() }, &operands)?;
        new = update.apply(b, old, new)?;
    }
    let operands: Vec<ValueId> = [x, new].iter().chain(starts).copied().collect();
    b.one(ops::DynamicUpdateSlice, &operands)
}

fn scattered(
    b: &mut Builder<'_>,
    x: ValueId,
    new: ValueId,
    plan: &Plan,
    arrays: &[ValueId],
    update: Update,
    clip: bool,
) -> Result<ValueId, String> {
    let ty = b.ty(x);
    let placed = place(b, plan, &ty.shape, arrays)?;
    if let Some(axis) = (0..ty.rank()).find(|&axis| placed.sizes[axis] > ty.shape[axis]) {
        return Err(format!("index: axis {axis} of {ty} has no elements"));
    }
    let indices = if clip { clamped(b, &placed, &ty.shape)? } else { placed.indices };
    let scalar = TensorType::scalar(ty.dtype);
    let body =
        b.region(&[scalar.clone(), scalar], |b, x| Ok(vec![update.apply(b, x[0], x[1])?]))?;
    let op =
        ops::Scatter { windows: placed.windows, sorted: false, unique: plan.picked.is_empty() };
    Ok(b.push(op, &[x, indices, new], &[body])?[0])
}

/// What stands for elements that are out of range.
pub(super) fn fill_value(
    b: &mut Builder<'_>,
    fill: Option<f64>,
    ty: &TensorType,
) -> Result<ValueId, String> {
    let default = match ty.dtype.class() {
        Class::Float | Class::Complex => f64::NAN,
        Class::Signed => f64::NEG_INFINITY,
        Class::Bool | Class::Unsigned => f64::INFINITY,
    };
    b.full(ty, fill.unwrap_or(default))
}
