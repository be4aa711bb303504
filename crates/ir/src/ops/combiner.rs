//! The body of a reduction: how accumulators take in one more element.
//!
//! A body that is one reassociable instruction for each accumulator is known by that instruction
//! ([`combiners`]), so that loops may keep partial results in vector lanes. `reduce` then accumulates
//! sums and products of `bf16` and `f16` in `f32` and rounds once at the end, in the interpreter as
//! well as in kernels; `reduce_window` rounds at each step ([`Combiner::by_steps`]), as XLA does it
//! in the same order. Any other body runs as it stands.

use crate::function::{BlockId, Function, ValueDef, ValueId};
use crate::interpret::{Frame, ScalarRegion, is_closed};
use crate::literal::Literal;
use crate::lower::{Emitter, Scalar};
use crate::ops::Op;
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::inst::{Typed, eval_binary, eval_unary};
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::{BinaryOp, DType, KernelBuilder, Reg, RegType, UnaryOp};

/// The instruction of each accumulator if the region is one reassociable instruction a result, on
/// that result's two arguments in either order.
pub fn combiners(function: &Function, block: BlockId) -> Option<Vec<BinaryOp>> {
    let data = &function.blocks[block];
    let results = data.yields.len();
    let instruction = |(n, &value): (usize, &crate::ValueId)| {
        let ValueDef::Result(op, _) = function.values[value].def else { return None };
        let op = &function.ops[op];
        let Op::Elementwise(row) = op.op else { return None };
        let (&old, &new) = (data.arguments.get(n)?, data.arguments.get(results + n)?);
        if op.operands[..] != [old, new] && op.operands[..] != [new, old] {
            return None;
        }
        binary(row.name(), function.ty(value).dtype)
    };
    data.yields.iter().enumerate().map(instruction).collect()
}

/// The instruction that an elementwise op is on elements of this type (on both parts of a complex
/// element alike), if it may be reassociated.
fn binary(name: &str, dtype: DType) -> Option<BinaryOp> {
    use BinaryOp as B;
    use jaxrs_kernel::dtype::Class;
    Some(match (name, dtype.class()) {
        ("stablehlo.add" | "stablehlo.maximum" | "stablehlo.or", Class::Bool) => B::Or,
        ("stablehlo.multiply" | "stablehlo.minimum" | "stablehlo.and", Class::Bool) => B::And,
        ("stablehlo.add", _) => B::Add,
        ("stablehlo.multiply", Class::Signed | Class::Unsigned | Class::Float) => B::Mul,
        ("stablehlo.minimum", Class::Float) => B::MinF,
        ("stablehlo.minimum", Class::Signed) => B::MinS,
        ("stablehlo.minimum", Class::Unsigned) => B::MinU,
        ("stablehlo.maximum", Class::Float) => B::MaxF,
        ("stablehlo.maximum", Class::Signed) => B::MaxS,
        ("stablehlo.maximum", Class::Unsigned) => B::MaxU,
        ("stablehlo.and", Class::Signed | Class::Unsigned) => B::And,
        ("stablehlo.or", Class::Signed | Class::Unsigned) => B::Or,
        ("stablehlo.xor", Class::Bool | Class::Signed | Class::Unsigned) => B::Xor,
        _ => return None,
    })
}

/// A reduction's body.
pub struct Combiner {
    block: BlockId,
    dtypes: Vec<DType>,
    ops: Option<Vec<BinaryOp>>,
}

impl Combiner {
    /// The body in this region.
    pub fn new(function: &Function, block: BlockId) -> Combiner {
        let dtype = |&value| function.ty(value).dtype;
        Combiner {
            block,
            dtypes: function.blocks[block].yields.iter().map(dtype).collect(),
            ops: combiners(function, block),
        }
    }

    /// The body in this region, by the letter: each step rounds to the accumulator's type.
    pub fn by_steps(function: &Function, block: BlockId) -> Combiner {
        let mut combiner = Combiner::new(function, block);
        if (0..combiner.dtypes.len()).any(|n| combiner.rounding(n).is_some()) {
            combiner.ops = None;
        }
        combiner
    }

    /// The kind of a loop that carries the accumulators.
    pub fn kind(&self) -> LoopKind {
        if self.ops.is_some() { LoopKind::Reduce } else { LoopKind::Sequential }
    }

    /// Carries of such a loop, from the registers of the accumulators' parts.
    pub fn carries(&self, values: &[Reg]) -> Vec<(Reg, Option<BinaryOp>)> {
        let Some(ops) = &self.ops else { return values.iter().map(|&v| (v, None)).collect() };
        let of_parts = self.dtypes.iter().zip(ops);
        let ops = of_parts.flat_map(|(dtype, &op)| (0..dtype.parts()).map(move |_| Some(op)));
        values.iter().copied().zip(ops).collect()
    }

    /// The accumulators with one more element each.
    pub fn emit(&self, e: &mut Emitter<'_>, values: &[Reg], elements: &[Scalar]) -> Vec<Reg> {
        let Some(_) = &self.ops else {
            let mut arguments = self.unpack(values);
            arguments.extend_from_slice(elements);
            return pack(&e.region(self.block, &arguments));
        };
        let elements = pack(elements);
        self.carries(values)
            .into_iter()
            .zip(elements)
            .map(|((value, op), element)| {
                let op = op.expect("every accumulator has an instruction");
                e.builder().binary(op, value, element)
            })
            .collect()
    }

    /// Like [`Combiner::emit`] for elements that stand before those in the accumulators.
    pub fn emit_before(
        &self,
        e: &mut Emitter<'_>,
        values: &[Reg],
        elements: &[Scalar],
    ) -> Vec<Reg> {
        if self.ops.is_some() {
            // One instruction each, all of which commute.
            return self.emit(e, values, elements);
        }
        let mut arguments = elements.to_vec();
        arguments.extend(self.unpack(values));
        pack(&e.region(self.block, &arguments))
    }

    /// Whether combining these values with themselves, constants all, gives them again.
    pub fn keeps(&self, function: &Function, values: &[ValueId]) -> bool {
        let constants: Option<Vec<Literal>> =
            values.iter().map(|&value| constant(function, value)).collect();
        let Some(constants) = constants.filter(|_| is_closed(function, self.block)) else {
            return false;
        };
        let mut e = Emitter::new(function, "keeps");
        let mut registers = Vec::new();
        for literal in &constants {
            let dtype = literal.ty().dtype;
            for part in 0..dtype.parts() {
                registers.push(e.builder().constant(dtype.reg(), literal.bits(0, part)));
            }
        }
        let elements = self.unpack(&registers);
        let combined = self.emit(&mut e, &registers, &elements);
        combined == registers
    }

    /// The results from the final accumulators: rounded where more than the result's precision
    /// was kept.
    pub fn finish(&self, b: &mut KernelBuilder, values: &[Reg]) -> Vec<Scalar> {
        let mut scalars = self.unpack(values);
        for (n, scalar) in scalars.iter_mut().enumerate() {
            if let (Some(rounding), Scalar::Real(reg)) = (self.rounding(n), &mut *scalar) {
                *scalar = Scalar::Real(b.unary(rounding, *reg));
            }
        }
        scalars
    }

    /// How a result is rounded at the end.
    fn rounding(&self, n: usize) -> Option<UnaryOp> {
        match self.ops.as_ref()?[n] {
            BinaryOp::Add | BinaryOp::Mul => rounding(self.dtypes[n]),
            _ => None,
        }
    }

    /// Elements of the accumulators' types from the registers of their parts.
    pub fn unpack(&self, values: &[Reg]) -> Vec<Scalar> {
        let mut rest = values;
        let mut scalars = Vec::new();
        for dtype in &self.dtypes {
            let (parts, after) = rest.split_at(dtype.parts() as usize);
            scalars.push(Scalar::from_parts(parts));
            rest = after;
        }
        scalars
    }

    /// The body as the interpreter runs it.
    pub fn folder(&self, frame: &Frame<'_>) -> Folder {
        let mut steps = Vec::new();
        for (n, dtype) in self.dtypes.iter().enumerate() {
            for _ in 0..dtype.parts() {
                steps.push((dtype.reg(), self.ops.as_ref().map(|ops| ops[n]), self.rounding(n)));
            }
        }
        let region = self.ops.is_none().then(|| ScalarRegion::new(frame, self.block));
        Folder { steps, region, arguments: Vec::new(), yields: Vec::new() }
    }
}

/// The registers of elements, in order.
pub fn pack(scalars: &[Scalar]) -> Vec<Reg> {
    scalars.iter().flat_map(|s| s.parts()).collect()
}

/// The instruction that rounds an `f32` to a narrower type.
pub fn rounding(dtype: DType) -> Option<UnaryOp> {
    match dtype {
        DType::BF16 => Some(UnaryOp::RoundBf16),
        DType::F16 => Some(UnaryOp::RoundF16),
        _ => None,
    }
}

/// A body in the interpreter, over register bits.
pub struct Folder {
    /// For each part of each accumulator: register type, instruction, rounding at the end.
    steps: Vec<(RegType, Option<BinaryOp>, Option<UnaryOp>)>,
    region: Option<ScalarRegion>,
    arguments: Vec<u64>,
    yields: Vec<u64>,
}

impl Folder {
    /// Takes one more element into the accumulators.
    pub fn step(
        &mut self,
        frame: &mut Frame<'_>,
        values: &mut [u64],
        elements: &[u64],
    ) -> Result<(), String> {
        if let Some(region) = &mut self.region {
            self.arguments.clear();
            self.arguments.extend_from_slice(values);
            self.arguments.extend_from_slice(elements);
            self.yields.clear();
            region.run(frame, &self.arguments, &mut self.yields)?;
            values.copy_from_slice(&self.yields);
            return Ok(());
        }
        for ((&(ty, op, _), value), &element) in self.steps.iter().zip(values).zip(elements) {
            let op = op.expect("every accumulator has an instruction");
            *value = eval_binary(op, Typed { ty, bits: *value }, Typed { ty, bits: element });
        }
        Ok(())
    }

    /// Rounds final accumulators.
    pub fn finish(&self, values: &mut [u64]) {
        for (&(ty, _, rounding), value) in self.steps.iter().zip(values) {
            if let Some(rounding) = rounding {
                *value = eval_unary(rounding, Typed { ty, bits: *value }, ty);
            }
        }
    }
}

/// An error unless the region takes two scalars of each type, all first ones before all second
/// ones, and gives one of each.
pub fn check_body(
    what: &str,
    (arguments, yields): &(Vec<TensorType>, Vec<TensorType>),
    dtypes: &[DType],
) -> Result<(), String> {
    let scalars: Vec<TensorType> = dtypes.iter().map(|&d| TensorType::scalar(d)).collect();
    let list =
        |types: &[TensorType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let expected = [&scalars[..], &scalars[..]].concat();
    if *arguments != expected {
        return Err(format!(
            "{what}: the body takes ({}), expected ({}) from the operands",
            list(arguments),
            list(&expected)
        ));
    }
    if *yields != scalars {
        return Err(format!(
            "{what}: the body returns ({}), expected ({})",
            list(yields),
            list(&scalars)
        ));
    }
    Ok(())
}

/// The first half of the operands, of one shape, each with a scalar of its type in the second.
pub fn check_operands<'a>(
    what: &str,
    operands: &'a [TensorType],
) -> Result<(&'a [TensorType], Vec<DType>), String> {
    if operands.is_empty() || !operands.len().is_multiple_of(2) {
        return Err(format!(
            "{what}: expected operands and as many initial values, found {} operands in all",
            operands.len()
        ));
    }
    let (inputs, inits) = operands.split_at(operands.len() / 2);
    for (n, (input, init)) in inputs.iter().zip(inits).enumerate() {
        if input.shape != inputs[0].shape {
            return Err(format!(
                "{what}: operand shapes differ: operand 0 is {}, operand {n} is {input}",
                inputs[0]
            ));
        }
        if *init != TensorType::scalar(input.dtype) {
            return Err(format!(
                "{what}: the initial value of operand {n} ({input}) is {init}, expected {}",
                TensorType::scalar(input.dtype)
            ));
        }
    }
    Ok((inputs, inputs.iter().map(|t| t.dtype).collect()))
}

/// The value of a rank-0 constant, seen through reshapes and broadcasts.
pub fn constant(function: &Function, value: ValueId) -> Option<Literal> {
    let op = &function.ops[function.defining_op(value)?];
    match &op.op {
        Op::Constant(constant) => {
            let element = constant.value.as_splat()?;
            Some(Literal::splat(TensorType::scalar(constant.value.ty().dtype), element))
        }
        Op::BroadcastInDim(_) | Op::Reshape(_) => constant(function, op.operands[0]),
        _ => None,
    }
}
