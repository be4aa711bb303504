//! `stablehlo.rng_bit_generator`: random bits by a counter, bit for bit those of XLA.
//!
//! The algorithms are Threefry-2x32 (20 rounds) and Philox-4x32 (10 rounds) of Salmon et al.,
//! "Parallel random numbers: as easy as 1, 2, 3", SC 2011; how counters map to elements follows
//! XLA. `DEFAULT` is Philox, as on XLA's CPU.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Emitter, Lowering, Scalar, linear};
use crate::function::ValueId;
use crate::ops::{DynamicSlice, DynamicUpdateSlice, While};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::{TensorType, advance};
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::{
    Affine, BinaryOp, CastOp, Compare, CompareKind, DType, KernelBuilder, Reg, RegType,
};

/// A generator of random bits.
#[derive(Clone, Debug, PartialEq)]
pub struct RngBitGenerator {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The type of the bits.
    pub result: TensorType,
}

/// How bits are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Algorithm {
    Default,
    ThreeFry,
    Philox,
}

const ALGORITHMS: [(&str, Algorithm); 3] = [
    ("DEFAULT", Algorithm::Default),
    ("THREE_FRY", Algorithm::ThreeFry),
    ("PHILOX", Algorithm::Philox),
];

/// Rotations of Threefry-2x32, four rounds each in turn.
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// The parity of Threefry's key schedule.
const PARITY: u32 = 0x1BD1_1BDA;
/// Philox's multipliers and key increments.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const INCREMENTS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Where an element's bits come from.
enum Source {
    /// Threefry's half shape for elements of up to 32 bits: the axis split in two, if any, and
    /// the extents with it halved.
    Halves(Option<usize>, Vec<u64>),
    /// One counter for so many elements in row-major order, each of so many 32-bit words.
    Blocks { elements: u64, words: u64 },
}

impl RngBitGenerator {
    fn threefry(&self) -> bool {
        self.algorithm == Algorithm::ThreeFry
    }

    fn wide(&self) -> bool {
        self.result.dtype.size() == 8
    }

    fn source(&self) -> Source {
        let shape = &self.result.shape;
        match (self.threefry(), self.wide()) {
            (true, true) => Source::Blocks { elements: 1, words: 2 },
            (false, true) => Source::Blocks { elements: 2, words: 2 },
            (false, false) => Source::Blocks { elements: 4, words: 1 },
            (true, false) => {
                // The first even axis, else the first one of the largest extent.
                let even = (0..shape.len()).find(|&axis| shape[axis].is_multiple_of(2));
                let largest = (0..shape.len()).rev().max_by_key(|&axis| shape[axis]);
                let split = even.or(largest);
                let mut half = shape.clone();
                if let Some(axis) = split {
                    half[axis] = half[axis].div_ceil(2);
                }
                Source::Halves(split, half)
            }
        }
    }

    /// Counters used for the whole result.
    fn counters(&self) -> u64 {
        match self.source() {
            Source::Halves(_, half) => half.iter().product(),
            Source::Blocks { elements, .. } => self.result.len().div_ceil(elements),
        }
    }

    /// The element's bits in a kernel.
    fn element(&self, e: &mut Emitter<'_>, state: &[Reg], index: &[Affine]) -> Reg {
        let (counter, word, words) = match self.source() {
            Source::Halves(split, half) => {
                let mut at = index.to_vec();
                let mut word = Affine::constant(0);
                if let Some(axis) = split {
                    word = e.builder().modulo(&index[axis], 2);
                    at[axis] = e.builder().floor_div(&index[axis], 2);
                }
                (linear(&at, &half), word, 1)
            }
            Source::Blocks { elements, words } => {
                let position = linear(index, &self.result.shape);
                let b = e.builder();
                let word = b.modulo(&position, elements as i64).scale(words as i64);
                (b.floor_div(&position, elements as i64), word, words)
            }
        };
        let b = e.builder();
        let counter = b.index_value(&counter);
        let key = halves(b, state[0]);
        let block = if self.threefry() {
            let counter = b.binary(BinaryOp::Add, state[1], counter);
            let counter = halves(b, counter);
            threefry(b, key, counter).to_vec()
        } else {
            let [low, high] = add_128(b, philox_counter(state), counter);
            let ([a, c], [d, f]) = (halves(b, low), halves(b, high));
            philox(b, key, [a, c, d, f]).to_vec()
        };
        let pick = |b: &mut KernelBuilder, offset: usize| {
            let mut value = block[offset];
            for n in (offset + words as usize..block.len()).step_by(words as usize) {
                let (at, n) = (b.index_value(&word), n as i64);
                let this = b.int(RegType::I64, n - offset as i64);
                let here = b.compare(Compare::Eq, CompareKind::Signed, at, this);
                value = b.select(here, block[n as usize], value);
            }
            value
        };
        let low = pick(b, 0);
        if !self.wide() {
            let ty = self.result.dtype.reg();
            return if ty == RegType::I32 { low } else { b.cast(CastOp::Truncate, low, ty) };
        }
        let high = pick(b, 1);
        let low = b.cast(CastOp::ZeroExtend, low, RegType::I64);
        let high = b.cast(CastOp::ZeroExtend, high, RegType::I64);
        let shift = b.int(RegType::I64, 32);
        let high = b.binary(BinaryOp::Shl, high, shift);
        b.binary(BinaryOp::Or, low, high)
    }

    /// The registers of the next state.
    fn next_state(&self, b: &mut KernelBuilder, state: &[Reg]) -> Vec<Reg> {
        let used = b.int(RegType::I64, self.counters() as i64);
        let mut next = vec![state[0]];
        if self.threefry() {
            next.push(b.binary(BinaryOp::Add, state[1], used));
        } else {
            let [low, high] = add_128(b, philox_counter(state), used);
            next.extend([low, high]);
        }
        next.truncate(state.len());
        next
    }
}

/// Philox's counter, low half first: the words after the key, or, where there is only one, it and
/// the key.
fn philox_counter<T: Copy>(state: &[T]) -> [T; 2] {
    if state.len() >= 3 { [state[1], state[2]] } else { [state[1], state[0]] }
}

fn halves(b: &mut KernelBuilder, word: Reg) -> [Reg; 2] {
    let shift = b.int(RegType::I64, 32);
    let high = b.binary(BinaryOp::ShrU, word, shift);
    [word, high].map(|half| b.cast(CastOp::Truncate, half, RegType::I32))
}

fn add_128(b: &mut KernelBuilder, [low, high]: [Reg; 2], by: Reg) -> [Reg; 2] {
    let sum = b.binary(BinaryOp::Add, low, by);
    let carry = b.compare(Compare::Lt, CompareKind::Unsigned, sum, low);
    let carry = b.cast(CastOp::ZeroExtend, carry, RegType::I64);
    [sum, b.binary(BinaryOp::Add, high, carry)]
}

fn word(b: &mut KernelBuilder, value: u32) -> Reg {
    b.constant(RegType::I32, value.into())
}

fn threefry(b: &mut KernelBuilder, key: [Reg; 2], counter: [Reg; 2]) -> [Reg; 2] {
    let parity = word(b, PARITY);
    let parity = b.binary(BinaryOp::Xor, parity, key[0]);
    let keys = [key[0], key[1], b.binary(BinaryOp::Xor, parity, key[1])];
    let mut x0 = b.binary(BinaryOp::Add, counter[0], keys[0]);
    let mut x1 = b.binary(BinaryOp::Add, counter[1], keys[1]);
    for group in 1..=5 {
        for rotation in ROTATIONS[(group + 1) % 2] {
            x0 = b.binary(BinaryOp::Add, x0, x1);
            let (left, right) = (word(b, rotation), word(b, 32 - rotation));
            let left = b.binary(BinaryOp::Shl, x1, left);
            let right = b.binary(BinaryOp::ShrU, x1, right);
            let rotated = b.binary(BinaryOp::Or, left, right);
            x1 = b.binary(BinaryOp::Xor, x0, rotated);
        }
        x0 = b.binary(BinaryOp::Add, x0, keys[group % 3]);
        x1 = b.binary(BinaryOp::Add, x1, keys[(group + 1) % 3]);
        let group = word(b, group as u32);
        x1 = b.binary(BinaryOp::Add, x1, group);
    }
    [x0, x1]
}

fn philox(b: &mut KernelBuilder, mut key: [Reg; 2], mut x: [Reg; 4]) -> [Reg; 4] {
    for _ in 0..10 {
        let mut product = |value: Reg, by: u32| {
            let value = b.cast(CastOp::ZeroExtend, value, RegType::I64);
            let by = b.constant(RegType::I64, by.into());
            let product = b.binary(BinaryOp::Mul, value, by);
            halves(b, product)
        };
        let [low_0, high_0] = product(x[0], MULTIPLIERS[0]);
        let [low_1, high_1] = product(x[2], MULTIPLIERS[1]);
        let first = b.binary(BinaryOp::Xor, high_1, x[1]);
        let third = b.binary(BinaryOp::Xor, high_0, x[3]);
        x = [
            b.binary(BinaryOp::Xor, first, key[0]),
            low_1,
            b.binary(BinaryOp::Xor, third, key[1]),
            low_0,
        ];
        for (key, by) in key.iter_mut().zip(INCREMENTS) {
            let by = word(b, by);
            *key = b.binary(BinaryOp::Add, *key, by);
        }
    }
    x
}

/// Threefry in the interpreter.
fn threefry_words(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], PARITY ^ key[0] ^ key[1]];
    let mut x = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for group in 1..=5 {
        for rotation in ROTATIONS[(group + 1) % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[0] ^ x[1].rotate_left(rotation);
        }
        x[0] = x[0].wrapping_add(keys[group % 3]);
        x[1] = x[1].wrapping_add(keys[(group + 1) % 3]).wrapping_add(group as u32);
    }
    x
}

/// Philox in the interpreter.
fn philox_words(mut key: [u32; 2], mut x: [u32; 4]) -> [u32; 4] {
    for _ in 0..10 {
        let product = |value: u32, by: u32| split(u64::from(value) * u64::from(by));
        let ([low_0, high_0], [low_1, high_1]) =
            (product(x[0], MULTIPLIERS[0]), product(x[2], MULTIPLIERS[1]));
        x = [high_1 ^ x[1] ^ key[0], low_1, high_0 ^ x[3] ^ key[1], low_0];
        key = [key[0].wrapping_add(INCREMENTS[0]), key[1].wrapping_add(INCREMENTS[1])];
    }
    x
}

fn split(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

impl StructuredOp for RngBitGenerator {
    const NAMES: &'static [&'static str] = &["stablehlo.rng_bit_generator"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let name = attributes.take_enum("rng_algorithm")?.unwrap_or_else(|| "DEFAULT".into());
        let known = ALGORITHMS.iter().find(|(spelling, _)| *spelling == name);
        let &(_, algorithm) = known
            .ok_or_else(|| format!("rng_bit_generator: rng_algorithm {name} is not known"))?;
        let result = signature.results.get(1).cloned();
        let result = result.ok_or("rng_bit_generator: the type of the bits is missing")?;
        Ok(RngBitGenerator { algorithm, result })
    }

    fn attributes(&self) -> Attributes {
        let known = ALGORITHMS.iter().find(|(_, algorithm)| *algorithm == self.algorithm);
        let name = known.expect("every algorithm has a name").0;
        Attributes::new()
            .with("rng_algorithm", Attribute::Enum("rng_algorithm".into(), name.into()))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("rng_bit_generator", 1, 0)?;
        let state = &signature.operands[0];
        let lengths: &[u64] = if self.threefry() { &[2] } else { &[2, 3] };
        let fits = state.rank() == 1 && lengths.contains(&state.shape[0]);
        if state.dtype != DType::U64 || !fits {
            return Err(format!(
                "rng_bit_generator: the state is {state}, expected ui64 of extent {lengths:?}"
            ));
        }
        if !self.result.dtype.is_int() {
            return Err(format!(
                "rng_bit_generator: bits of type {} are not made, only integers",
                self.result.dtype
            ));
        }
        Ok(vec![state.clone(), self.result.clone()])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        _op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let state: Vec<u64> =
            (0..operands[0].ty().len()).map(|at| operands[0].bits(at, 0)).collect();
        let [low, high] = philox_counter(&state);
        let wide = u128::from(high) << 64 | u128::from(low);
        let block = |counter: u64| -> Vec<u32> {
            if self.threefry() {
                let counter = state[1].wrapping_add(counter);
                return threefry_words(split(state[0]), split(counter)).to_vec();
            }
            let counter = wide.wrapping_add(counter.into());
            let ([a, b], [c, d]) = (split(counter as u64), split((counter >> 64) as u64));
            philox_words(split(state[0]), [a, b, c, d]).to_vec()
        };
        let source = self.source();
        let strides = |shape: &[u64]| TensorType::new(shape, DType::U64).strides();
        let mut index = vec![0; self.result.rank()];
        let mask = u64::MAX >> (64 - self.result.dtype.bits());
        let mut bits = Vec::new();
        for position in 0..self.result.len() {
            let (counter, word, words) = match &source {
                Source::Halves(split, half) => {
                    let mut at = index.clone();
                    let word = split.map_or(0, |axis| std::mem::replace(&mut at[axis], index[axis] / 2) % 2);
                    (at.iter().zip(strides(half)).map(|(i, s)| i * s).sum(), word, 1)
                }
                Source::Blocks { elements, words } => {
                    (position / elements, position % elements * words, *words)
                }
            };
            let block = block(counter);
            let high = if words == 2 { block[word as usize + 1] } else { 0 };
            bits.push((u64::from(high) << 32 | u64::from(block[word as usize])) & mask);
            advance(&mut index, &self.result.shape);
        }
        let used = self.counters();
        let mut next = vec![state[0]];
        if self.threefry() {
            next.push(state[1].wrapping_add(used));
        } else {
            let counter = wide.wrapping_add(used.into());
            next.extend([counter as u64, (counter >> 64) as u64]);
        }
        next.truncate(state.len());
        let state = Literal::from_bits(operands[0].ty().clone(), &next);
        Ok(vec![state, Literal::from_bits(self.result.clone(), &bits)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Expensive,
            element: Box::new(move |e, number, index| {
                let words = op.operand_type(0).shape[0] as i64;
                let state: Vec<Reg> = (0..words)
                    .map(|n| e.read(op.operand(0), &[Affine::constant(n)]).real())
                    .collect();
                if number == 1 {
                    return Scalar::Real(self.element(e, &state, index));
                }
                let b = e.builder();
                let next = self.next_state(b, &state);
                let at = b.index_value(&index[0]);
                let mut value = next[0];
                for (n, &word) in next.iter().enumerate().skip(1) {
                    let n = b.int(RegType::I64, n as i64);
                    let here = b.compare(Compare::Eq, CompareKind::Signed, at, n);
                    value = b.select(here, word, value);
                }
                Scalar::Real(value)
            }),
        }
    }
}

impl Rules for RngBitGenerator {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_constant(op)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it is not linear")
    }

    /// A loop over the states, so that each element has the bits that it has alone. (JAX makes
    /// all bits from the first state.)
    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let states = cx.value(op.operand(0));
        let size = cx.size();
        let mut b = cx.builder();
        let index = TensorType::scalar(DType::I64);
        let mut bits = self.result.clone();
        bits.shape.insert(0, size);
        if size == 0 {
            let empty = b.zeros(&bits)?;
            cx.bind(op.result(0), states, true);
            cx.bind(op.result(1), empty, true);
            return Ok(());
        }
        let state = op.operand_type(0).shape.clone();
        let carried = [index.clone(), b.ty(states), bits.clone()];
        let condition = b.region(&carried, |b, x| {
            let count = b.full(&index, size as f64)?;
            Ok(vec![b.compare(Compare::Lt, x[0], count)?])
        })?;
        let body = b.region(&carried, |b, x| {
            let zero = b.zeros(&index)?;
            let at = |rank: usize| std::iter::once(x[0]).chain(vec![zero; rank]);
            let slice = DynamicSlice { sizes: [&[1], &state[..]].concat() };
            let operands: Vec<ValueId> = std::iter::once(x[1]).chain(at(1)).collect();
            let row = b.one(slice, &operands)?;
            let row = b.reshape(row, &state)?;
            let mut next = vec![x[0]];
            for (n, made) in b.push(self.clone(), &[row], &[])?.into_iter().enumerate() {
                let shape = [&[1], &b.ty(made).shape[..]].concat();
                let row = b.reshape(made, &shape)?;
                let operands = [x[1 + n], row].into_iter().chain(at(shape.len() - 1));
                next.push(b.one(DynamicUpdateSlice, &operands.collect::<Vec<ValueId>>())?);
            }
            let one = b.full(&index, 1.0)?;
            next[0] = b.add(x[0], one)?;
            Ok(next)
        })?;
        let (zero, empty) = (b.zeros(&index)?, b.zeros(&bits)?);
        let results = b.push(While, &[zero, states, empty], &[condition, body])?;
        cx.bind(op.result(0), results[1], true);
        cx.bind(op.result(1), results[2], true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tensor;
    use crate::transform::testing::{batches, function};

    /// Known answers of the authors' implementation (Random123, `kat_vectors`).
    #[test]
    fn words_are_the_authors() {
        assert_eq!(threefry_words([0; 2], [0; 2]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(
            threefry_words([u32::MAX; 2], [u32::MAX; 2]),
            [0x1cb9_96fc, 0xbb00_2be7]
        );
        let zero = [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
        assert_eq!(philox_words([0; 2], [0; 4]), zero);
    }

    fn generate(name: &str, state: u64, bits: &str) -> Vec<Literal> {
        let text = format!(
            "(%s: tensor<{state}xui64>) -> (tensor<{state}xui64>, tensor<{bits}>) {{
              %t, %b = stablehlo.rng_bit_generator %s, algorithm = {name}
                : (tensor<{state}xui64>) -> (tensor<{state}xui64>, tensor<{bits}>)
              return %t, %b : tensor<{state}xui64>, tensor<{bits}>
            }}"
        );
        // The state is JAX's key (1, 2, 3, 4).
        let words = [1 | 2 << 32, 3 | 4 << 32, 5];
        let ty = TensorType::new([state], DType::U64);
        let state = Literal::from_bits(ty, &words[..state as usize]);
        crate::testing::check_function(&crate::testing::program(&text), &[state], 0.0)
    }

    /// What jax.lax.rng_bit_generator gives on the CPU.
    #[test]
    fn bits_are_those_of_xla() {
        let cases: [(&str, &str, u64, &[u64]); 7] = [
            ("DEFAULT", "2x3xui32", 2, &[0x1e8f_e864, 0x4d5e_0bd7, 0x4b87_c9be, 0x2d68_9201]),
            ("PHILOX", "5xui64", 3, &[0x4d5e_0bd7_1e8f_e864, 0x2d68_9201_4b87_c9be]),
            ("PHILOX", "7xui8", 2, &[0x64, 0xd7, 0xbe, 0x01, 0x7b, 0x96, 0x74]),
            (
                "THREE_FRY",
                "4x3xui32",
                6,
                &[
                    0x5df4_33ec, 0x2c24_a8a8, 0x9138_6643, 0x8617_198e, 0x9094_fa5e, 0x5949_1919,
                    0x4f97_fb5b, 0xed54_bb55, 0xe339_716a, 0x86b8_75a7, 0xeba6_6656, 0x7896_bcd0,
                ],
            ),
            (
                "THREE_FRY",
                "3x5xui32",
                9,
                &[0x5df4_33ec, 0x8617_198e, 0x2c24_a8a8, 0x9094_fa5e, 0x9138_6643, 0x4f97_fb5b],
            ),
            ("THREE_FRY", "5xui64", 5, &[0x8617_198e_5df4_33ec, 0x9094_fa5e_2c24_a8a8]),
            ("THREE_FRY", "3xui16", 2, &[0x33ec, 0x198e, 0xa8a8]),
        ];
        for (name, bits, used, expected) in cases {
            let got = generate(name, 2, bits);
            let words: Vec<u64> = (0..expected.len() as u64).map(|at| got[1].bits(at, 0)).collect();
            assert_eq!(words, expected, "{name} {bits}");
            assert_eq!(got[0].bits(0, 0), 1 | 2 << 32);
            assert_eq!(got[0].bits(1, 0), (3 | 4 << 32) + used, "{name} {bits}");
        }
        assert_eq!(generate("PHILOX", 3, "i32")[0].bits(2, 0), 5);
        generate("PHILOX", 3, "0x4xi8");
        generate("THREE_FRY", 2, "ui32");
        generate("THREE_FRY", 2, "3x4x5xi64");
    }

    #[test]
    fn batches_have_the_bits_of_the_loop() {
        for algorithm in [Algorithm::Default, Algorithm::ThreeFry, Algorithm::Philox] {
            for (dtype, shape) in [(DType::U32, &[3, 2][..]), (DType::U64, &[]), (DType::U8, &[0])] {
                let op = RngBitGenerator { algorithm, result: TensorType::new(shape, dtype) };
                let state = TensorType::new([2], DType::U64);
                let f = function(&[state], |b, x| b.push(op, x, &[]));
                batches(&f, &[tensor(DType::U64, &[2], &[3.0, 5.0])]);
            }
        }
    }
}
