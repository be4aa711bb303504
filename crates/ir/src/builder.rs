//! Appends ops to a block; their result types are inferred, so that a wrong op is an error here.

use crate::copy::Copied;
use crate::error::Location;
use crate::function::{BlockId, Function, OpId, ValueId};
use crate::literal::Literal;
use crate::ops::{self, Compare, Elementwise, Op, Signature};
use crate::types::TensorType;
use jaxrs_kernel::{Compare as Direction, DType};

/// A place in a function at which ops are appended.
///
/// Methods that take values of one type say so; their error is that of the op's `infer`.
pub struct Builder<'f> {
    /// The function that grows.
    pub function: &'f mut Function,
    /// The block whose end ops are appended to.
    pub block: BlockId,
    /// The place that new ops get.
    pub location: Location,
}

impl<'f> Builder<'f> {
    /// At the end of the function's body.
    pub fn new(function: &'f mut Function) -> Builder<'f> {
        let block = function.body;
        Builder { function, block, location: Location::default() }
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> TensorType {
        self.function.ty(value).clone()
    }

    /// The types of values.
    pub fn types(&self, values: &[ValueId]) -> Vec<TensorType> {
        values.iter().map(|&value| self.ty(value)).collect()
    }

    /// Appends an op with regions: its results.
    pub fn push(
        &mut self,
        op: impl Into<Op>,
        operands: &[ValueId],
        regions: &[BlockId],
    ) -> Result<Vec<ValueId>, String> {
        let op = op.into();
        let region = |&block: &BlockId| {
            let data = &self.function.blocks[block];
            (self.types(&data.arguments), self.types(&data.yields))
        };
        let signature = Signature {
            operands: self.types(operands),
            results: Vec::new(),
            regions: regions.iter().map(region).collect(),
        };
        let types = op.infer(&signature)?;
        let location = self.location.clone();
        let id = self.function.push_op(self.block, op, operands, types, regions, location);
        Ok(self.function.ops[id].results.clone())
    }

    /// Appends an op without regions that has one result.
    pub fn one(&mut self, op: impl Into<Op>, operands: &[ValueId]) -> Result<ValueId, String> {
        Ok(self.push(op, operands, &[])?[0])
    }

    /// Appends the row of the elementwise table with this name.
    pub fn elementwise(&mut self, name: &str, operands: &[ValueId]) -> Result<ValueId, String> {
        let row = Elementwise::from_name(name).ok_or_else(|| format!("there is no op {name}"))?;
        self.one(row, operands)
    }

    /// `x + y`, of one type.
    pub fn add(&mut self, x: ValueId, y: ValueId) -> Result<ValueId, String> {
        self.elementwise("stablehlo.add", &[x, y])
    }

    /// `x - y`, of one type.
    pub fn subtract(&mut self, x: ValueId, y: ValueId) -> Result<ValueId, String> {
        self.elementwise("stablehlo.subtract", &[x, y])
    }

    /// `x * y`, of one type.
    pub fn multiply(&mut self, x: ValueId, y: ValueId) -> Result<ValueId, String> {
        self.elementwise("stablehlo.multiply", &[x, y])
    }

    /// `x / y`, of one type.
    pub fn divide(&mut self, x: ValueId, y: ValueId) -> Result<ValueId, String> {
        self.elementwise("stablehlo.divide", &[x, y])
    }

    /// `-x`.
    pub fn negate(&mut self, x: ValueId) -> Result<ValueId, String> {
        self.elementwise("stablehlo.negate", &[x])
    }

    /// Whether `x` stands in this relation to `y`, which has the same type.
    pub fn compare(
        &mut self,
        direction: Direction,
        x: ValueId,
        y: ValueId,
    ) -> Result<ValueId, String> {
        self.one(Compare::new(direction), &[x, y])
    }

    /// `predicate ? x : y`; the predicate has the values' shape, or rank 0.
    pub fn select(
        &mut self,
        predicate: ValueId,
        x: ValueId,
        y: ValueId,
    ) -> Result<ValueId, String> {
        self.one(ops::Select, &[predicate, x, y])
    }

    /// The value in another element type; itself if it has it.
    pub fn convert(&mut self, x: ValueId, to: DType) -> Result<ValueId, String> {
        if self.function.ty(x).dtype == to {
            return Ok(x);
        }
        self.one(ops::Convert { to }, &[x])
    }

    /// A constant.
    pub fn constant(&mut self, value: Literal) -> Result<ValueId, String> {
        self.one(ops::Constant { value }, &[])
    }

    /// A constant with all elements equal to a number, rounded to the element type.
    pub fn full(&mut self, ty: &TensorType, value: f64) -> Result<ValueId, String> {
        let parts = ops::convert::evaluate_parts([value.to_bits(), 0], DType::F64, ty.dtype);
        let scalar = Literal::scalar(ty.dtype, &parts[..ty.dtype.parts() as usize]);
        let element = scalar.to_bytes();
        self.constant(Literal::splat(ty.clone(), &element))
    }

    /// A constant of zeros.
    pub fn zeros(&mut self, ty: &TensorType) -> Result<ValueId, String> {
        self.full(ty, 0.0)
    }

    /// A constant of the value's type with all elements equal to a number.
    pub fn full_like(&mut self, like: ValueId, value: f64) -> Result<ValueId, String> {
        let ty = self.ty(like);
        self.full(&ty, value)
    }

    /// The elements in another shape; the value itself if it has it.
    pub fn reshape(&mut self, x: ValueId, shape: &[u64]) -> Result<ValueId, String> {
        if self.function.ty(x).shape == shape {
            return Ok(x);
        }
        self.one(ops::Reshape { shape: shape.to_vec() }, &[x])
    }

    /// Result axis `n` is operand axis `permutation[n]`; the value itself if that changes nothing.
    pub fn transpose(&mut self, x: ValueId, permutation: &[usize]) -> Result<ValueId, String> {
        if permutation.iter().enumerate().all(|(to, &from)| to == from) {
            return Ok(x);
        }
        self.one(ops::Transpose { permutation: permutation.to_vec() }, &[x])
    }

    /// Operand axis `n` becomes axis `axes[n]` of the shape; the others repeat.
    pub fn broadcast_in_dim(
        &mut self,
        x: ValueId,
        shape: &[u64],
        axes: &[usize],
    ) -> Result<ValueId, String> {
        let same = axes.iter().enumerate().all(|(from, &to)| from == to);
        if same && self.function.ty(x).shape == shape {
            return Ok(x);
        }
        let op = ops::BroadcastInDim { axes: axes.to_vec(), shape: shape.to_vec() };
        self.one(op, &[x])
    }

    /// A rank-0 value repeated to a shape.
    pub fn splat(&mut self, x: ValueId, shape: &[u64]) -> Result<ValueId, String> {
        self.broadcast_in_dim(x, shape, &[])
    }

    /// A value of the shape as it is, one of rank 0 repeated to it.
    pub fn spread(&mut self, x: ValueId, shape: &[u64]) -> Result<ValueId, String> {
        if self.function.ty(x).rank() == 0 { self.splat(x, shape) } else { Ok(x) }
    }

    /// The value with a new axis of this extent, along which it repeats.
    pub fn repeat(&mut self, x: ValueId, axis: usize, extent: u64) -> Result<ValueId, String> {
        let mut shape = self.ty(x).shape;
        let axes: Vec<usize> = (0..shape.len()).map(|n| n + usize::from(n >= axis)).collect();
        shape.insert(axis, extent);
        self.broadcast_in_dim(x, &shape, &axes)
    }

    /// The value with an axis moved.
    pub fn move_axis(&mut self, x: ValueId, from: usize, to: usize) -> Result<ValueId, String> {
        let mut order: Vec<usize> = (0..self.function.ty(x).rank()).collect();
        let axis = order.remove(from);
        order.insert(to, axis);
        self.transpose(x, &order)
    }

    /// The counting constant along an axis.
    pub fn iota(&mut self, ty: &TensorType, axis: usize) -> Result<ValueId, String> {
        self.one(ops::Iota { axis, ty: ty.clone() }, &[])
    }

    /// A slice with steps of 1.
    pub fn slice(&mut self, x: ValueId, starts: &[u64], limits: &[u64]) -> Result<ValueId, String> {
        let strides = vec![1; starts.len()];
        self.one(ops::Slice { starts: starts.to_vec(), limits: limits.to_vec(), strides }, &[x])
    }

    /// The elements `start..limit` of one axis.
    pub fn slice_axis(
        &mut self,
        x: ValueId,
        axis: usize,
        start: u64,
        limit: u64,
    ) -> Result<ValueId, String> {
        let mut limits = self.ty(x).shape;
        let mut starts = vec![0; limits.len()];
        (starts[axis], limits[axis]) = (start, limit);
        self.slice(x, &starts, &limits)
    }

    /// The value with edges, and elements between, of a rank-0 value; see [`ops::Pad`].
    pub fn pad(
        &mut self,
        x: ValueId,
        value: ValueId,
        low: &[i64],
        high: &[i64],
        interior: &[u64],
    ) -> Result<ValueId, String> {
        let (low, high, interior) = (low.to_vec(), high.to_vec(), interior.to_vec());
        self.one(ops::Pad { low, high, interior }, &[x, value])
    }

    /// The elements at positions along an axis; on the other axes `x` and positions are equal.
    pub fn take_along(
        &mut self,
        x: ValueId,
        positions: ValueId,
        axis: usize,
    ) -> Result<ValueId, String> {
        let ty = self.ty(positions).with_dtype(self.function.ty(x).dtype);
        // A window has an element, an empty axis none.
        if ty.is_empty() {
            return self.zeros(&ty);
        }
        let others: Vec<usize> = (0..ty.rank()).filter(|&other| other != axis).collect();
        let windows = ops::indexing::Windows {
            inside: Vec::new(),
            inserted: vec![axis],
            operand_batch: others.clone(),
            indices_batch: others,
            start: vec![axis],
            vector: ty.rank(),
        };
        let slice_sizes = vec![1; ty.rank()];
        self.one(ops::Gather { windows, slice_sizes, sorted: false }, &[x, positions])
    }

    /// Values joined along an axis.
    pub fn concatenate(&mut self, values: &[ValueId], axis: usize) -> Result<ValueId, String> {
        match values {
            [only] => Ok(*only),
            _ => self.one(ops::Concatenate { axis }, values),
        }
    }

    /// A reduction along axes with the elementwise op of this name, from a rank-0 initial value.
    pub fn reduce(
        &mut self,
        name: &str,
        x: ValueId,
        init: ValueId,
        axes: &[usize],
    ) -> Result<ValueId, String> {
        if axes.is_empty() && name == "stablehlo.add" {
            return Ok(x);
        }
        let scalar = TensorType::scalar(self.function.ty(x).dtype);
        let body =
            self.region(&[scalar.clone(), scalar], |b, x| Ok(vec![b.elementwise(name, x)?]))?;
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        Ok(self.push(ops::Reduce { axes }, &[x, init], &[body])?[0])
    }

    /// The sums along axes.
    pub fn sum(&mut self, x: ValueId, axes: &[usize]) -> Result<ValueId, String> {
        let init = self.zeros(&TensorType::scalar(self.function.ty(x).dtype))?;
        self.reduce("stablehlo.add", x, init, axes)
    }

    /// A block with arguments of these types, to become a region; `body` gives what it yields.
    pub fn region(
        &mut self,
        arguments: &[TensorType],
        body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>, String>,
    ) -> Result<BlockId, String> {
        let block = self.function.add_block();
        let arguments: Vec<ValueId> =
            arguments.iter().map(|ty| self.function.add_argument(block, ty.clone())).collect();
        let location = self.location.clone();
        let mut inner = Builder { function: &mut *self.function, block, location };
        let yields = body(&mut inner, &arguments)?;
        self.function.blocks[block].yields = yields;
        Ok(block)
    }

    /// Appends a function's ops, its parameters being these values: its results.
    pub fn inline(&mut self, function: &Function, arguments: &[ValueId]) -> Vec<ValueId> {
        assert_eq!(function.parameters().len(), arguments.len(), "arguments of {}", function.name);
        let mut copied = Copied::default();
        copied.values.extend(function.parameters().iter().copied().zip(arguments.iter().copied()));
        for &op in &function.blocks[function.body].ops {
            copied.op(function, op, self.function, self.block);
        }
        copied.all(function.results())
    }

    /// Copies an op of another function, regions included; `copied` knows what it uses.
    pub fn copy(&mut self, from: &Function, op: OpId, copied: &mut Copied) -> Vec<ValueId> {
        let id = copied.op(from, op, self.function, self.block);
        self.function.ops[id].results.clone()
    }
}
