//! A function under construction: values in sight, and how large their elements are.
//!
//! A value with a finite *bound* holds integers up to that magnitude, so that sums and products of
//! it are exact in any order as long as the bound stays within the element type's reach. Ops whose
//! order of evaluation is free take such values only.

use crate::random::{Random, SMALL, bits, splat};
use jaxrs_ir::ops::{BroadcastInDim, Constant, Convert, Elementwise, Iota, Op, Reshape, Signature};
use jaxrs_ir::{BlockId, DType, Function, Literal, Location, OpId, TensorType, ValueId};
use jaxrs_kernel::dtype::Class;
use std::collections::{HashMap, HashSet};

/// A function that others may call.
#[derive(Clone)]
pub struct Callee {
    pub name: String,
    pub parameters: Vec<TensorType>,
    pub results: Vec<TensorType>,
}

pub struct Gen<'r> {
    pub r: &'r mut Random,
    pub f: Function,
    /// Where ops are appended.
    pub block: BlockId,
    /// Values that may be used, older ones first.
    pub scope: Vec<ValueId>,
    bounds: HashMap<ValueId, f64>,
    /// Extents and element types that the program likes.
    pub extents: Vec<u64>,
    pub dtypes: Vec<DType>,
    /// Elements of a value, at most.
    pub largest: u64,
    /// Loops and branches around the block.
    pub depth: u32,
    /// Ops that loops need to end.
    pub protected: HashSet<OpId>,
    pub callees: Vec<Callee>,
    /// The arguments so far; None in a function that others call.
    pub inputs: Option<Vec<Literal>>,
}

impl<'r> Gen<'r> {
    pub fn new(r: &'r mut Random, name: &str, extents: Vec<u64>, dtypes: Vec<DType>) -> Gen<'r> {
        let f = Function::new(name);
        Gen {
            r,
            block: f.body,
            f,
            scope: Vec::new(),
            bounds: HashMap::new(),
            extents,
            dtypes,
            largest: 600,
            depth: 0,
            protected: HashSet::new(),
            callees: Vec::new(),
            inputs: Some(Vec::new()),
        }
    }

    pub fn ty(&self, value: ValueId) -> TensorType {
        self.f.ty(value).clone()
    }

    pub fn dtype(&self, value: ValueId) -> DType {
        self.f.ty(value).dtype
    }

    pub fn shape(&self, value: ValueId) -> Vec<u64> {
        self.f.ty(value).shape.clone()
    }

    pub fn bound(&self, value: ValueId) -> f64 {
        if self.dtype(value) == DType::I1 { 1.0 } else { self.bounds[&value] }
    }

    /// Puts a value in sight.
    pub fn keep(&mut self, value: ValueId, bound: f64) -> ValueId {
        self.note(value, bound);
        self.scope.push(value);
        value
    }

    fn note(&mut self, value: ValueId, bound: f64) {
        let exact = bound <= reach(self.dtype(value));
        self.bounds.insert(value, if exact { bound } else { f64::INFINITY });
    }

    /// Appends an op; None if it makes too much.
    pub fn push(
        &mut self,
        op: impl Into<Op>,
        operands: &[ValueId],
        regions: &[BlockId],
    ) -> Option<Vec<ValueId>> {
        let op = op.into();
        let types = |f: &Function, values: &[ValueId]| -> Vec<TensorType> {
            values.iter().map(|&v| f.ty(v).clone()).collect()
        };
        let region = |&block: &BlockId| {
            let data = &self.f.blocks[block];
            (types(&self.f, &data.arguments), types(&self.f, &data.yields))
        };
        let signature = Signature {
            operands: types(&self.f, operands),
            results: Vec::new(),
            regions: regions.iter().map(region).collect(),
        };
        let results = op.infer(&signature).unwrap_or_else(|error| panic!("{error}: {op:?}"));
        // An operand that was made for its type may be larger than what is wanted.
        let operand = operands.iter().map(|&v| self.f.ty(v).len()).max().unwrap_or(0);
        if results.iter().any(|ty| ty.len() > self.largest.max(operand)) {
            return None;
        }
        let id = self.f.push_op(self.block, op, operands, results, regions, Location::default());
        Some(self.f.ops[id].results.clone())
    }

    /// Appends an op of one result and puts that in sight.
    pub fn add(&mut self, op: impl Into<Op>, operands: &[ValueId], bound: f64) -> Option<ValueId> {
        let result = self.push(op, operands, &[])?[0];
        Some(self.keep(result, bound))
    }

    /// Appends an elementwise op by name.
    pub fn apply(&mut self, name: &str, operands: &[ValueId]) -> ValueId {
        let row = Elementwise::from_name(name).expect("a row of the table");
        let bounds: Vec<f64> = operands.iter().map(|&v| self.bound(v)).collect();
        let bound = elementwise_bound(name, self.dtype(operands[0]), &bounds);
        self.add(row, operands, bound).expect("it is as large as its operands")
    }

    /// A constant, not in sight.
    pub fn constant(&mut self, value: Literal, bound: f64) -> ValueId {
        let ty = value.ty().clone();
        let id =
            self.f.push_op(self.block, Constant { value }, &[], vec![ty], &[], Location::default());
        let value = self.f.ops[id].results[0];
        self.note(value, bound);
        value
    }

    /// A scalar constant.
    pub fn number(&mut self, dtype: DType, value: f64) -> ValueId {
        self.constant(splat(&TensorType::scalar(dtype), value), value.abs())
    }

    /// A tensor whose elements are all one number.
    pub fn filled(&mut self, ty: &TensorType, value: f64) -> ValueId {
        self.constant(splat(ty, value), value.abs())
    }

    /// A region of ops on scalars.
    pub fn region(
        &mut self,
        arguments: &[DType],
        ops: impl FnOnce(&mut Gen<'_>, &[ValueId]) -> Vec<ValueId>,
    ) -> BlockId {
        let types: Vec<TensorType> = arguments.iter().map(|&d| TensorType::scalar(d)).collect();
        self.region_of(&types, ops)
    }

    /// A region; its arguments are not in sight of themselves.
    pub fn region_of(
        &mut self,
        arguments: &[TensorType],
        ops: impl FnOnce(&mut Gen<'_>, &[ValueId]) -> Vec<ValueId>,
    ) -> BlockId {
        let block = self.f.add_block();
        let arguments: Vec<ValueId> =
            arguments.iter().map(|ty| self.f.add_argument(block, ty.clone())).collect();
        for &argument in &arguments {
            self.note(argument, f64::INFINITY);
        }
        let (outer, sight) = (std::mem::replace(&mut self.block, block), self.scope.len());
        let parameters = self.f.parameters().len();
        let yields = ops(self, &arguments);
        self.f.blocks[block].yields = yields;
        self.block = outer;
        // New parameters stand at the front.
        self.scope.truncate(sight + self.f.parameters().len() - parameters);
        block
    }

    /// Any value, more often a late one.
    pub fn any(&mut self) -> ValueId {
        let late = self.r.percent(55);
        let from = if late { self.scope.len().saturating_sub(5) } else { 0 };
        self.scope[from + self.r.index(self.scope.len() - from)]
    }

    /// A value like this, if there is one.
    pub fn any_where(&mut self, fits: impl Fn(&Gen<'_>, ValueId) -> bool) -> Option<ValueId> {
        let found: Vec<ValueId> = self.scope.iter().copied().filter(|&v| fits(self, v)).collect();
        let from = if self.r.percent(50) { found.len().saturating_sub(3) } else { 0 };
        (!found.is_empty()).then(|| found[from + self.r.index(found.len() - from)])
    }

    /// A value of a type, a new one now and then.
    pub fn of(&mut self, ty: &TensorType) -> ValueId {
        let found = self.any_where(|g, v| g.f.ty(v) == ty);
        match found {
            Some(value) if self.r.percent(88) => value,
            _ => self.make(ty),
        }
    }

    /// A value of a type with at most this bound.
    pub fn tame(&mut self, ty: &TensorType, bound: f64) -> ValueId {
        let found = self.any_where(|g, v| g.f.ty(v) == ty && g.bound(v) <= bound);
        match found {
            Some(value) if self.r.percent(90) => value,
            _ if bound < SMALL => self.filled(ty, bound.min(1.0)),
            _ => self.fresh(ty, true),
        }
    }

    /// A new value of a type.
    pub fn make(&mut self, ty: &TensorType) -> ValueId {
        if ty.len() > self.largest {
            return self.fresh(ty, true);
        }
        match self.r.below(8) {
            0 | 1 => {
                let scalar = self.any_where(|g, v| *g.f.ty(v) == TensorType::scalar(ty.dtype));
                let scalar = scalar.unwrap_or_else(|| {
                    let number = self.r.between(0, 3) as f64;
                    self.number(ty.dtype, number)
                });
                let bound = self.bound(scalar);
                let op = BroadcastInDim { axes: Vec::new(), shape: ty.shape.clone() };
                self.add(op, &[scalar], bound).expect("the size is checked")
            }
            2 if ty.rank() > 0 && ty.dtype != DType::I1 => {
                let axis = self.r.index(ty.rank());
                let bound = (ty.shape[axis].max(1) - 1) as f64;
                self.add(Iota { axis, ty: ty.clone() }, &[], bound).expect("the size is checked")
            }
            3 | 4 => {
                let dtype = ty.dtype;
                let from = self.any_where(|g, v| {
                    g.f.ty(v).shape == ty.shape && (dtype.is_complex() || !g.dtype(v).is_complex())
                });
                match from {
                    Some(from) => self.convert(from, dtype),
                    None => self.fresh(ty, true),
                }
            }
            5 => {
                let from =
                    self.any_where(|g, v| g.dtype(v) == ty.dtype && g.f.ty(v).len() == ty.len());
                match from {
                    Some(from) => {
                        let bound = self.bound(from);
                        self.add(Reshape { shape: ty.shape.clone() }, &[from], bound)
                            .expect("the size is the same")
                    }
                    None => self.fresh(ty, false),
                }
            }
            _ => {
                let small = self.r.percent(70);
                self.fresh(ty, small)
            }
        }
    }

    /// The value in another element type.
    pub fn convert(&mut self, value: ValueId, to: DType) -> ValueId {
        let bound = if to == DType::I1 { 1.0 } else { self.bound(value) };
        self.add(Convert { to }, &[value], bound).expect("the shape is the same")
    }

    /// A parameter, or a constant where there may be no more parameters.
    pub fn fresh(&mut self, ty: &TensorType, small: bool) -> ValueId {
        let bound = if small { SMALL } else { f64::INFINITY };
        let free = self.inputs.as_ref().is_some_and(|inputs| inputs.len() < 9);
        let large = ty.len() > 80;
        if free && (large || self.r.percent(70)) {
            return self.parameter(ty, small);
        }
        let value = if large || self.r.percent(30) {
            splat(ty, self.r.between(0, SMALL as i64) as f64)
        } else {
            self.r.tensor(ty, small)
        };
        self.constant(value, bound)
    }

    /// A parameter of the function.
    pub fn parameter(&mut self, ty: &TensorType, small: bool) -> ValueId {
        let bound = if small { SMALL } else { f64::INFINITY };
        let value = self.f.add_parameter(ty.clone());
        let literal = self.r.tensor(ty, small);
        if let Some(inputs) = &mut self.inputs {
            inputs.push(literal);
        }
        self.note(value, if self.inputs.is_some() { bound } else { f64::INFINITY });
        // At the front, so that it stays in sight when the region around ends.
        self.scope.insert(0, value);
        value
    }

    /// Whether the total order of the value's elements is known: the sign of a computed NaN is not.
    pub fn has_order(&self, value: ValueId) -> bool {
        let dtype = self.dtype(value);
        let given = self.f.parameters().contains(&value) && self.inputs.is_some();
        !dtype.is_complex() && (!dtype.is_float() || self.bound(value).is_finite() || given)
    }

    /// A shape of the program's extents.
    pub fn any_shape(&mut self, most: usize) -> Vec<u64> {
        let rank = self.r.index(most + 1);
        let mut shape: Vec<u64> =
            (0..rank).map(|_| self.extents[self.r.index(self.extents.len())]).collect();
        while shape.iter().product::<u64>() > self.largest {
            shape.pop();
        }
        if !shape.is_empty() && self.r.percent(3) {
            let axis = self.r.index(shape.len());
            shape[axis] = 0;
        }
        shape
    }

    pub fn any_dtype(&mut self) -> DType {
        if self.r.percent(85) {
            let dtypes = self.dtypes.clone();
            self.r.pick(&dtypes)
        } else {
            self.r.pick(&DType::ALL)
        }
    }

    /// An index into an axis: a scalar of any integer type.
    pub fn start(&mut self, dtype: DType, extent: u64) -> ValueId {
        let found = self.any_where(|g, v| *g.f.ty(v) == TensorType::scalar(dtype));
        match found {
            Some(value) if self.r.percent(70) => value,
            _ => {
                let low = if dtype.class() == Class::Signed { -1 } else { 0 };
                let at = self.r.between(low, extent.min(100) as i64);
                self.number(dtype, at as f64)
            }
        }
    }
}

/// The largest integers that are all exact in an element type.
pub fn reach(dtype: DType) -> f64 {
    match dtype {
        DType::I1 => 1.0,
        DType::BF16 => 256.0,
        DType::F16 => 2048.0,
        DType::F32 | DType::C64 => 16_777_216.0,
        DType::F64 | DType::C128 => 9e15,
        int => {
            let sign = u32::from(int.class() == Class::Signed);
            (2f64.powi((int.bits() - sign) as i32) - 1.0).min(9e15)
        }
    }
}

/// The largest sums of an element type that are exact while they are being made.
pub fn sum_reach(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 | DType::F16 => reach(DType::F32),
        // Integers wrap, in any order.
        dtype if dtype.is_int() || dtype == DType::I1 => f64::INFINITY,
        other => reach(other),
    }
}

fn elementwise_bound(name: &str, dtype: DType, x: &[f64]) -> f64 {
    let complex = if dtype.is_complex() { 2.0 } else { 1.0 };
    let unsigned = dtype.class() == Class::Unsigned;
    match name.split_once('.').map_or(name, |(_, name)| name) {
        "add" => x[0] + x[1],
        "subtract" if !unsigned => x[0] + x[1],
        "multiply" => product(x[0], x[1]) * complex,
        "square" => product(x[0], x[0]) * complex,
        "maximum" | "minimum" | "complex" => x[0].max(x[1]),
        "negate" if !unsigned => x[0],
        "abs" | "sign" if !dtype.is_complex() => x[0],
        "conj" | "real" | "imag" => x[0],
        "floor" | "ceil" | "round_nearest_even" | "round_nearest_afz" => x[0],
        "popcnt" | "count_leading_zeros" => 64.0,
        _ => f64::INFINITY,
    }
}

/// The product, where nothing times anything at all is unknown.
fn product(x: f64, y: f64) -> f64 {
    if x.is_infinite() || y.is_infinite() { f64::INFINITY } else { x * y }
}

/// The neutral element of a combining op.
pub fn neutral(name: &str, dtype: DType) -> Literal {
    let ty = TensorType::scalar(dtype);
    let part = dtype.part();
    let signed = dtype.class() == Class::Signed;
    let all = u64::MAX >> (64 - part.bits());
    let top = 1u64 << (part.bits() - 1);
    let (low, high) = match dtype.class() {
        Class::Float | Class::Complex => (bits(part, f64::NEG_INFINITY), bits(part, f64::INFINITY)),
        _ if signed => (top, top - 1),
        _ => (0, all),
    };
    let value = match name {
        "stablehlo.maximum" => low,
        "stablehlo.minimum" => high,
        "stablehlo.multiply" => return splat(&ty, 1.0),
        "stablehlo.and" => all,
        _ => return splat(&ty, 0.0),
    };
    Literal::from_bits(ty, &vec![value; dtype.parts() as usize])
}
