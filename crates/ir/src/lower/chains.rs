//! Random chains of ops read through each other in one kernel, against the interpreter: what is
//! computed in place must not depend on loops being split, nor on branches taken round reads.

use super::{Emitter, nest};
use crate::error::Location;
use crate::function::{Function, ValueId};
use crate::interpret;
use crate::literal::Literal;
use crate::ops::{self, Op, Signature};
use crate::testing::{int, pattern};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::{Access, Compare, DType, interp};

/// Steps of a chain; each may read its operand several times.
const STEPS: usize = 6;

pub(super) struct Chain {
    pub function: Function,
    random: u64,
    /// Rank-0 parameters used as start indices.
    pub indices: Vec<ValueId>,
}

impl Chain {
    /// A function of three rank-0 parameters so far.
    pub fn new(seed: u64) -> Chain {
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut chain = Chain { function: Function::new("chain"), random, indices: Vec::new() };
        let scalar = TensorType::scalar(DType::I32);
        chain.indices = (0..3).map(|_| chain.function.add_parameter(scalar.clone())).collect();
        chain
    }

    pub fn parameter(&mut self, shape: &[u64]) -> ValueId {
        self.function.add_parameter(TensorType::new(shape, DType::I32))
    }

    /// The value from one kernel is what the interpreter gives.
    pub fn check(mut self, value: ValueId, seed: u64) {
        let mut arguments: Vec<Literal> =
            (0..3).map(|_| int(DType::I32, i128::from(self.below(9)) - 3)).collect();
        for &parameter in &self.function.parameters()[3..] {
            let shape = &self.function.ty(parameter).shape;
            arguments.push(pattern(DType::I32, shape, seed));
        }
        let body = self.function.body;
        self.function.blocks[body].yields = vec![value];
        let function = self.function;
        let expected = interpret::call(None, &function, &arguments).expect("a result");
        let got = fused(&function, value, &arguments);
        assert_eq!(got, expected[0].to_bytes(), "seed {seed}: {function:?}");
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % limit
    }

    fn extents(&mut self, rank: usize) -> Vec<u64> {
        (0..rank).map(|_| [1, 2, 3, 4, 5, 7, 4, 3, 6, 0][self.below(10) as usize]).collect()
    }

    pub fn push(&mut self, op: impl Into<Op>, operands: &[ValueId]) -> ValueId {
        let op = op.into();
        let types = operands.iter().map(|&value| self.function.ty(value).clone()).collect();
        let signature = Signature { operands: types, ..Signature::default() };
        let results = op.infer(&signature).unwrap_or_else(|fault| panic!("{op:?}: {fault}"));
        let body = self.function.body;
        let id = self.function.push_op(body, op, operands, results, &[], Location::default());
        self.function.ops[id].results[0]
    }

    fn starts(&mut self, rank: usize) -> Vec<ValueId> {
        let mut start = || {
            let at = self.below(3) as usize;
            self.indices[at]
        };
        (0..rank).map(|_| start()).collect()
    }

    fn step(&mut self, x: ValueId) -> ValueId {
        let TensorType { shape, dtype } = self.function.ty(x).clone();
        let rank = shape.len();
        match self.below(if rank == 0 { 2 } else { 11 }) {
            0 if rank < 3 => {
                let mut axes: Vec<usize> = (0..=rank).collect();
                axes.remove(self.below(rank as u64 + 1) as usize);
                let mut to = vec![1 + self.below(3); rank + 1];
                axes.iter().zip(&shape).for_each(|(&axis, &extent)| to[axis] = extent);
                self.push(ops::BroadcastInDim { axes, shape: to }, &[x])
            }
            0 | 1 => {
                let y = self.sibling(x);
                let order = self.push(ops::Compare::new(Compare::Lt), &[x, y]);
                let add = ops::Elementwise::from_name("stablehlo.add").expect("a row");
                let sum = self.push(add, &[x, y]);
                self.push(ops::Select, &[order, sum, y])
            }
            2 => {
                let mut permutation: Vec<usize> = (0..rank).collect();
                permutation.rotate_left(self.below(rank as u64) as usize);
                self.push(ops::Transpose { permutation }, &[x])
            }
            3 => self.slice(x, &shape),
            4 => {
                let axes = (0..rank).filter(|_| self.below(2) == 0).collect();
                self.push(ops::Reverse { axes }, &[x])
            }
            5 => self.pad(x, &shape),
            6 => {
                let axis = self.below(rank as u64) as usize;
                let part = self.slice(x, &shape);
                let [from, to] = [x, part].map(|v| self.function.ty(v).shape.clone());
                let fits = (0..rank).all(|a| a == axis || from[a] == to[a]);
                let operands = if fits { vec![part, x, part] } else { vec![x, x] };
                self.push(ops::Concatenate { axis }, &operands)
            }
            7 => {
                let sizes: Vec<u64> = shape.iter().map(|&e| e - self.below(e + 1) / 2).collect();
                let operands = [&[x], &self.starts(rank)[..]].concat();
                self.push(ops::DynamicSlice { sizes }, &operands)
            }
            8 => {
                let part = self.slice(x, &shape);
                let operands = [&[x, part], &self.starts(rank)[..]].concat();
                self.push(ops::DynamicUpdateSlice, &operands)
            }
            9 => {
                let flat = vec![shape.iter().product()];
                let to = if self.below(2) == 0 { shape.into_iter().rev().collect() } else { flat };
                self.push(ops::Reshape { shape: to }, &[x])
            }
            _ => {
                let axis = self.below(rank as u64) as usize;
                let iota = self.push(ops::Iota { axis, ty: TensorType { shape, dtype } }, &[]);
                self.push(
                    ops::Elementwise::from_name("stablehlo.multiply").expect("a row"),
                    &[x, iota],
                )
            }
        }
    }

    /// A value of the same type, not at the same index.
    fn sibling(&mut self, x: ValueId) -> ValueId {
        let rank = self.function.ty(x).rank();
        let axes = (0..rank).filter(|_| self.below(2) == 0).collect();
        self.push(ops::Reverse { axes }, &[x])
    }

    fn slice(&mut self, x: ValueId, shape: &[u64]) -> ValueId {
        let limits: Vec<u64> = shape.iter().map(|&e| e - self.below(e + 1) / 2).collect();
        let starts = limits.iter().map(|&e| self.below(e + 1) / 2).collect();
        let strides = shape.iter().map(|_| 1 + self.below(5) / 3).collect();
        self.push(ops::Slice { starts, limits, strides }, &[x])
    }

    fn pad(&mut self, x: ValueId, shape: &[u64]) -> ValueId {
        let value = self.indices[0];
        let interior: Vec<u64> = shape.iter().map(|_| self.below(4) / 2).collect();
        let wide = |axis: usize| shape[axis] + shape[axis].saturating_sub(1) * interior[axis];
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for axis in 0..shape.len() {
            let most = wide(axis) as i64;
            low.push((self.below(4) as i64 - 1).max(-most));
            high.push((self.below(4) as i64 - 1).max(-most - low[axis]));
        }
        self.push(ops::Pad { low, high, interior }, &[x, value])
    }
}

fn check(seed: u64) {
    let mut chain = Chain::new(seed);
    let rank = chain.below(4) as usize;
    let shape = chain.extents(rank);
    let mut value = chain.parameter(&shape);
    for _ in 0..STEPS {
        value = chain.step(value);
    }
    chain.check(value, seed);
}

/// The value's bytes from one kernel, which loads nothing but parameters.
fn fused(function: &Function, value: ValueId, arguments: &[Literal]) -> Vec<u8> {
    let mut e = Emitter::new(function, "chain");
    let mut buffers = Vec::new();
    for (&parameter, literal) in function.parameters().iter().zip(arguments) {
        let param = e.builder().param(DType::I32, literal.ty().len(), Access::Read);
        e.read_from(parameter, param);
        buffers.push(literal.to_bytes());
    }
    let ty = function.ty(value);
    let out = e.builder().param(DType::I32, ty.len(), Access::Write);
    e.write_to(value, out);
    buffers.push(vec![0x55; ty.bytes() as usize]);
    nest(&mut e, &ty.shape, true, |e, index| {
        let scalar = e.read(value, index);
        e.write(value, index, scalar);
    });
    let kernel = e.finish();
    assert_eq!(jaxrs_kernel::verify::verify(&kernel), Ok(()), "{kernel}");
    let whole = kernel.range.unwrap_or(1) as i64;
    interp::run(&kernel, &mut buffers, 0, whole / 2);
    interp::run(&kernel, &mut buffers, whole / 2, whole);
    buffers.pop().expect("the result")
}

#[test]
fn chains_in_one_kernel_equal_the_interpreter() {
    for seed in 0..300 {
        check(seed);
    }
}
