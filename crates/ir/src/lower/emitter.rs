//! Builds one kernel from the descriptions of the ops fused into it.

use super::Lowering;
use crate::function::{BlockId, Function, ValueDef, ValueId};
use crate::ops::{Op, OpView, dynamic_update_slice};
use jaxrs_kernel::builder::{self, Build, Guard, Scope};
use jaxrs_kernel::{Affine, KernelBuilder, ParamId, Reg};
use rustc_hash::FxHashMap;

/// An element in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// Of a real type.
    Real(Reg),
    /// Real and imaginary part.
    Complex(Reg, Reg),
}

impl Scalar {
    /// The register of a real element.
    pub fn real(self) -> Reg {
        match self {
            Scalar::Real(reg) => reg,
            Scalar::Complex(..) => unreachable!("a verified op's operand is real here"),
        }
    }

    /// The registers.
    pub fn parts(self) -> Vec<Reg> {
        match self {
            Scalar::Real(reg) => vec![reg],
            Scalar::Complex(re, im) => vec![re, im],
        }
    }

    /// An element from its registers: one, or real and imaginary part.
    pub fn from_parts(parts: &[Reg]) -> Scalar {
        match *parts {
            [reg] => Scalar::Real(reg),
            [re, im] => Scalar::Complex(re, im),
            _ => unreachable!("an element has one or two parts"),
        }
    }
}

/// How a kernel reads a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// From a parameter's buffer.
    Load(ParamId),
    /// By emitting its op's element.
    Inline,
}

/// Builds one kernel over the values of a function.
pub struct Emitter<'a> {
    /// The function whose ops are emitted.
    pub function: &'a Function,
    builder: KernelBuilder,
    reads: FxHashMap<ValueId, Read>,
    writes: FxHashMap<ValueId, ParamId>,
    memo: FxHashMap<(ValueId, Vec<Affine>), (Scalar, Scope)>,
    /// Elements bound to the arguments of the regions being emitted, innermost last.
    bound: Vec<FxHashMap<ValueId, Scalar>>,
}

impl Build for Emitter<'_> {
    fn builder(&mut self) -> &mut KernelBuilder {
        &mut self.builder
    }
}

impl<'a> Emitter<'a> {
    /// An empty kernel over a function's values. A value is read as `reads` says; one that is not
    /// named there is emitted inline.
    pub fn new(function: &'a Function, name: impl Into<String>) -> Emitter<'a> {
        Emitter {
            function,
            builder: KernelBuilder::new(name),
            reads: FxHashMap::default(),
            writes: FxHashMap::default(),
            memo: FxHashMap::default(),
            bound: Vec::new(),
        }
    }

    /// Says that the value is read from a parameter.
    pub fn read_from(&mut self, value: ValueId, param: ParamId) {
        self.reads.insert(value, Read::Load(param));
    }

    /// Says that the value is written to a parameter.
    pub fn write_to(&mut self, value: ValueId, param: ParamId) {
        self.writes.insert(value, param);
    }

    /// Whether the value is read from a parameter.
    pub fn is_loaded(&self, value: ValueId) -> bool {
        matches!(self.reads.get(&value), Some(Read::Load(_)))
    }

    /// The finished kernel.
    pub fn finish(self) -> jaxrs_kernel::Kernel {
        self.builder.finish()
    }

    /// The value's element at an index.
    pub fn read(&mut self, value: ValueId, index: &[Affine]) -> Scalar {
        debug_assert_eq!(index.len(), self.function.ty(value).rank(), "index of {value}");
        if let Some(&scalar) = self.bound.iter().rev().find_map(|b| b.get(&value)) {
            return scalar;
        }
        if let Some(&Read::Load(param)) = self.reads.get(&value) {
            return self.load(value, param, index);
        }
        let key = (value, index.to_vec());
        if let Some(&(scalar, scope)) = self.memo.get(&key)
            && self.builder.is_open(scope)
        {
            return scalar;
        }
        let scope = self.builder.scope();
        let ValueDef::Result(op, number) = self.function.values[value].def else {
            unreachable!("{value} is an argument that is neither loaded nor bound")
        };
        let scalar = self.element(op, number as usize, index);
        self.memo.insert(key, (scalar, scope));
        scalar
    }

    /// The element if it has been computed where the current block sees it.
    pub fn known(&self, value: ValueId, index: &[Affine]) -> Option<Scalar> {
        let &(scalar, scope) = self.memo.get(&(value, index.to_vec()))?;
        self.builder.is_open(scope).then_some(scalar)
    }

    /// Notes an element computed in the current block, e.g. beside another result's.
    pub fn remember(&mut self, value: ValueId, index: &[Affine], scalar: Scalar) {
        let scope = self.builder.scope();
        self.memo.insert((value, index.to_vec()), (scalar, scope));
    }

    /// The element of an op's result, computed here.
    pub fn element(&mut self, op: crate::OpId, number: usize, index: &[Affine]) -> Scalar {
        let function = self.function;
        if let Op::DynamicUpdateSlice(_) = function.ops[op].op {
            // Loops of its own where it is updated in place, but not where it is only read.
            let view = OpView { function, id: op };
            return dynamic_update_slice::element(self, view, index);
        }
        match crate::ops::lower(function, op) {
            Lowering::Elements { element, .. } => element(self, number, index),
            Lowering::View => {
                let data = &function.ops[op];
                let (operand, result) = (data.operands[number], data.results[number]);
                let (from, to) = (function.ty(operand), function.ty(result));
                let index = self.reindex(index, &to.shape, &from.shape);
                self.read(operand, &index)
            }
            Lowering::Loops { .. } | Lowering::Library(_) | Lowering::Control => {
                unreachable!("{} is not computed by elements", function.ops[op].op.name())
            }
        }
    }

    /// The index into shape `from` of the element at `index` of shape `to`, row-major.
    pub fn reindex(&mut self, index: &[Affine], to: &[u64], from: &[u64]) -> Vec<Affine> {
        let mut position = linear(index, to);
        let mut out = vec![Affine::constant(0); from.len()];
        for axis in (0..from.len()).rev() {
            let extent = from[axis] as i64;
            if axis == 0 {
                out[0] = position;
                break;
            }
            out[axis] = self.builder.modulo(&position, extent);
            position = self.builder.floor_div(&position, extent);
        }
        out
    }

    fn load(&mut self, value: ValueId, param: ParamId, index: &[Affine]) -> Scalar {
        let ty = self.function.ty(value);
        let at = linear(index, &ty.shape);
        if ty.dtype.is_complex() {
            let at = at.scale(2);
            let re = self.builder.load(param, at.clone());
            return Scalar::Complex(re, self.builder.load(param, at.offset(1)));
        }
        Scalar::Real(self.builder.load(param, at))
    }

    /// The element that a result's buffer holds now (of a result with an update, before or between
    /// the writes).
    pub fn read_written(&mut self, value: ValueId, index: &[Affine]) -> Scalar {
        let param = self.writes[&value];
        self.builder.also_read(param);
        self.load(value, param, index)
    }

    /// Writes an element of a result.
    pub fn write(&mut self, value: ValueId, index: &[Affine], scalar: Scalar) {
        let param = self.writes[&value];
        let at = linear(index, &self.function.ty(value).shape);
        match scalar {
            Scalar::Real(reg) => self.builder.store(param, at, reg),
            Scalar::Complex(re, im) => {
                self.builder.store(param, at.scale(2), re);
                self.builder.store(param, at.scale(2).offset(1), im);
            }
        }
    }

    /// The yields of a region over rank-0 tensors, with its arguments bound to elements.
    pub fn region(&mut self, block: BlockId, arguments: &[Scalar]) -> Vec<Scalar> {
        let function = self.function;
        let data = &function.blocks[block];
        let bound = data.arguments.iter().copied().zip(arguments.iter().copied()).collect();
        // Ops inside were memoized under other arguments.
        for &op in &data.ops {
            for &result in &function.ops[op].results {
                self.memo.remove(&(result, Vec::new()));
            }
        }
        self.bound.push(bound);
        let out = data.yields.iter().map(|&value| self.read(value, &[])).collect();
        self.bound.pop();
        out
    }

    /// The op a value comes from.
    pub fn op_of(&self, value: ValueId) -> Option<&'a Op> {
        self.function.defining_op(value).map(|op| &self.function.ops[op].op)
    }

    /// Elements of `then` where the guard holds, of `otherwise` elsewhere; only one side runs.
    pub fn branch(
        &mut self,
        guard: Guard,
        then: impl FnOnce(&mut Self) -> Scalar,
        otherwise: impl FnOnce(&mut Self) -> Scalar,
    ) -> Scalar {
        let parts = builder::branch(self, guard, |e| then(e).parts(), |e| otherwise(e).parts());
        Scalar::from_parts(&parts)
    }
}

/// The row-major position of an index.
pub fn linear(index: &[Affine], shape: &[u64]) -> Affine {
    let mut position = Affine::constant(0);
    for (at, &extent) in index.iter().zip(shape) {
        position = position.scale(extent as i64).add(at);
    }
    position
}
