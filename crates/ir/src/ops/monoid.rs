//! The bodies of reductions and scatters as derivatives and batches see them: which op a body is,
//! and any body over whole tensors instead of scalars.

use crate::builder::Builder;
use crate::function::{BlockId, Function, ValueDef, ValueId};
use crate::literal::Literal;
use crate::ops::{Op, Slice};
use crate::region;
use crate::transform::batch;
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::dtype::Class;

/// What a body does with an accumulator and an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The sum.
    Add,
    /// The accumulator less the element.
    Subtract,
    /// The product.
    Multiply,
    /// The larger one.
    Maximum,
    /// The smaller one.
    Minimum,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The accumulator stays.
    Old,
    /// The element takes its place.
    New,
}

impl Kind {
    /// The elementwise op that it is.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Kind::Add => "stablehlo.add",
            Kind::Subtract => "stablehlo.subtract",
            Kind::Multiply => "stablehlo.multiply",
            Kind::Maximum => "stablehlo.maximum",
            Kind::Minimum => "stablehlo.minimum",
            Kind::And => "stablehlo.and",
            Kind::Or => "stablehlo.or",
            Kind::Xor => "stablehlo.xor",
            Kind::Old | Kind::New => return None,
        })
    }

    fn of(name: &str) -> Option<Kind> {
        use Kind as K;
        let all = [K::Add, K::Subtract, K::Multiply, K::Maximum, K::Minimum, K::And, K::Or, K::Xor];
        all.into_iter().find(|kind| kind.name() == Some(name))
    }

    /// The value that changes nothing, if there is one.
    pub fn identity(self, dtype: DType) -> Option<Literal> {
        let float = |value: f64| {
            let parts = super::convert::evaluate_parts([value.to_bits(), 0], DType::F64, dtype);
            Literal::scalar(dtype, &parts[..dtype.parts() as usize])
        };
        let bits = |bits: u64| Literal::scalar(dtype, &[bits & u64::MAX >> (64 - dtype.bits())]);
        let half = 1_u64 << (dtype.part().bits() - 1);
        Some(match (self, dtype.class()) {
            (Kind::Add | Kind::Or | Kind::Xor, _) => float(0.0),
            (Kind::Multiply, _) => float(1.0),
            (Kind::And, _) => bits(u64::MAX),
            (Kind::Maximum | Kind::Minimum, Class::Complex) => return None,
            (Kind::Maximum, Class::Float) => float(f64::NEG_INFINITY),
            (Kind::Minimum, Class::Float) => float(f64::INFINITY),
            (Kind::Maximum, Class::Signed) => bits(half),
            (Kind::Minimum, Class::Signed) => bits(half - 1),
            (Kind::Maximum, Class::Unsigned | Class::Bool) => bits(0),
            (Kind::Minimum, Class::Unsigned) => bits(u64::MAX),
            (Kind::Minimum, Class::Bool) => bits(1),
            (Kind::Subtract | Kind::Old | Kind::New, _) => return None,
        })
    }
}

/// What a body does with each of its accumulators, if that depends on no other one's.
pub fn kinds(function: &Function, body: BlockId) -> Option<Vec<Kind>> {
    let data = &function.blocks[body];
    let (old, new) = data.arguments.split_at(data.yields.len());
    let kind = |(n, &value): (usize, &ValueId)| {
        if value == old[n] {
            return Some(Kind::Old);
        }
        if value == new[n] {
            return Some(Kind::New);
        }
        let ValueDef::Result(op, _) = function.values[value].def else { return None };
        let op = &function.ops[op];
        let Op::Elementwise(row) = op.op else { return None };
        let kind = Kind::of(row.name())?;
        let in_order = op.operands[..] == [old[n], new[n]];
        let swapped = op.operands[..] == [new[n], old[n]] && kind != Kind::Subtract;
        (in_order || swapped).then_some(kind)
    };
    data.yields.iter().enumerate().map(kind).collect()
}

/// A body with the values of enclosing blocks that it uses.
pub struct Body {
    function: Function,
    /// The values of enclosing blocks.
    pub captured: Vec<ValueId>,
    /// Whether the order of elements does not matter, nor that of arguments.
    commutes: bool,
}

impl Body {
    /// The body in a region.
    pub fn new(function: &Function, region: BlockId) -> Body {
        let commutes = kinds(function, region).is_some_and(|kinds| {
            !kinds.iter().any(|kind| matches!(kind, Kind::Subtract | Kind::Old | Kind::New))
        });
        let (function, captured) = region::extract(function, region);
        Body { function, captured, commutes }
    }

    /// Accumulators and elements of one shape, combined element by element.
    pub fn combine(
        &self,
        b: &mut Builder<'_>,
        old: &[ValueId],
        new: &[ValueId],
        captured: &[ValueId],
    ) -> Result<Vec<ValueId>, String> {
        let shape = b.ty(old[0]).shape;
        let len = shape.iter().product();
        let mut flags = vec![true; old.len() + new.len()];
        flags.resize(flags.len() + captured.len(), false);
        let over = batch(&self.function, &flags, len).map_err(|error| error.message)?;
        let mut arguments = Vec::with_capacity(flags.len());
        for &value in old.iter().chain(new) {
            arguments.push(b.reshape(value, &[len])?);
        }
        arguments.extend(captured);
        let results = b.inline(&over.function, &arguments);
        let mut out = Vec::with_capacity(results.len());
        for (value, has_axis) in results.into_iter().zip(over.results) {
            out.push(if has_axis { b.reshape(value, &shape)? } else { b.splat(value, &shape)? });
        }
        Ok(out)
    }

    /// Reduces the first axis, which has at least one element, by halves.
    fn tree(
        &self,
        b: &mut Builder<'_>,
        mut values: Vec<ValueId>,
        captured: &[ValueId],
    ) -> Result<Vec<ValueId>, String> {
        loop {
            let shape = b.ty(values[0]).shape;
            let (rows, half) = (shape[0], shape[0] / 2);
            if rows == 1 {
                return values.into_iter().map(|value| b.reshape(value, &shape[1..])).collect();
            }
            // Neighbours, unless their order does not matter: then rows far apart, which are
            // contiguous.
            let (stride, second) = if self.commutes { (1, half) } else { (2, 1) };
            let part = |b: &mut Builder<'_>, value, start, limit, stride| {
                let (mut starts, mut limits) = (vec![0; shape.len()], shape.clone());
                let mut strides = vec![1; shape.len()];
                (starts[0], limits[0], strides[0]) = (start, limit, stride);
                b.one(Slice { starts, limits, strides }, &[value])
            };
            let (mut old, mut new, mut rest) = (Vec::new(), Vec::new(), Vec::new());
            for &value in &values {
                let end = if self.commutes { half } else { 2 * half };
                old.push(part(b, value, 0, end, stride)?);
                new.push(part(b, value, second, 2 * half, stride)?);
                if rows % 2 == 1 {
                    rest.push(part(b, value, rows - 1, rows, 1)?);
                }
            }
            values = self.combine(b, &old, &new, captured)?;
            for (value, rest) in values.iter_mut().zip(rest) {
                *value = b.concatenate(&[*value, rest], 0)?;
            }
        }
    }

    /// The reduction of the first axis, starting with the initial values, which are scalars.
    pub fn reduce(
        &self,
        b: &mut Builder<'_>,
        values: Vec<ValueId>,
        inits: &[ValueId],
        captured: &[ValueId],
    ) -> Result<Vec<ValueId>, String> {
        let shape = b.ty(values[0]).shape;
        let mut starts = Vec::with_capacity(inits.len());
        for &init in inits {
            starts.push(b.splat(init, &shape[1..])?);
        }
        if shape[0] == 0 {
            return Ok(starts);
        }
        let values = self.tree(b, values, captured)?;
        self.combine(b, &starts, &values, captured)
    }

    /// The running reduction along an axis: element `n` combines the elements up to `n`, or from
    /// `n` on.
    pub fn running(
        &self,
        b: &mut Builder<'_>,
        mut values: Vec<ValueId>,
        (axis, reverse): (usize, bool),
        captured: &[ValueId],
    ) -> Result<Vec<ValueId>, String> {
        let extent = b.ty(values[0]).shape[axis];
        let mut distance = 1;
        while distance < extent {
            let (mut near, mut far, mut kept) = (Vec::new(), Vec::new(), Vec::new());
            for &value in &values {
                let low = b.slice_axis(value, axis, 0, extent - distance)?;
                let high = b.slice_axis(value, axis, distance, extent)?;
                far.push(if reverse { high } else { low });
                near.push(if reverse { low } else { high });
                kept.push(if reverse {
                    b.slice_axis(value, axis, extent - distance, extent)?
                } else {
                    b.slice_axis(value, axis, 0, distance)?
                });
            }
            let (old, new) = if reverse { (near, far) } else { (far, near) };
            let combined = self.combine(b, &old, &new, captured)?;
            for ((value, combined), kept) in values.iter_mut().zip(combined).zip(kept) {
                let parts = if reverse { [combined, kept] } else { [kept, combined] };
                *value = b.concatenate(&parts, axis)?;
            }
            distance *= 2;
        }
        Ok(values)
    }
}

/// A function of parameters of these types that `body` builds.
pub fn function_of(
    types: &[TensorType],
    body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
) -> Result<Function, String> {
    let mut function = Function::new("part");
    let parameters: Vec<ValueId> =
        types.iter().map(|ty| function.add_parameter(ty.clone())).collect();
    let results = body(&mut Builder::new(&mut function), &parameters)?;
    function.result_attributes = vec![Default::default(); results.len()];
    let block = function.body;
    function.blocks[block].yields = results;
    Ok(function)
}
