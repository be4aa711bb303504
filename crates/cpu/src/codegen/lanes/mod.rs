//! Vector code on any machine: [`crate::wide`]'s instructions as Cranelift code on 128-bit vectors.
//!
//! A vector register of 64 bytes is four of 16; a mask is four vectors of 32-bit lanes, all ones
//! where a lane is on. `f16` bits that AVX-512 keeps in half as many bytes stay in 32-bit lanes.
//! What 128-bit vectors lack is done lane by lane.

mod arithmetic;
mod instructions;
mod memory;

use super::scalar::Scalars;
use super::target::Target;
use crate::wide::code::{Class, Code, Ins, Src, VReg};
use crate::wide::encode::Length;
use cranelift_codegen::ir::types::{F32X4, F64X2, I8X16, I32X4, I64, I64X2};
use cranelift_codegen::ir::{
    Block, ConstantData, Endianness, InstBuilder, MemFlagsData, StackSlot, StackSlotData,
    StackSlotKind, Type, Value,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Vectors of 16 bytes, first lanes first.
type Vectors = SmallVec<[Value; 4]>;

/// The code has an instruction that this module does not know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown;

/// Emits vector code as the body of `fn(ptrs, lo, hi)`.
pub(crate) fn emit(
    builder: &mut FunctionBuilder<'_>,
    target: &Target,
    code: &Code,
) -> Result<(), Unknown> {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let params = builder.block_params(entry).to_vec();
    let variables = code
        .classes
        .iter()
        .map(|class| match class {
            Class::General => vec![builder.declare_var(I64)],
            Class::Vector | Class::Mask => (0..4).map(|_| builder.declare_var(I32X4)).collect(),
        })
        .collect();
    let labels = (0..code.labels).map(|_| builder.create_block()).collect();
    let mut slot = || {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 64, 4);
        builder.create_sized_stack_slot(data)
    };
    let slots = [slot(), slot(), slot()];
    let scalars = Scalars { builder, target };
    let bytes = FxHashSet::default();
    let mut lanes = Lanes { scalars, code, variables, labels, params, slots, bytes, left: false };
    let mut known = Ok(());
    let mut bound = FxHashSet::default();
    for ins in &code.instructions {
        known = lanes.instruction(ins);
        if known.is_err() {
            break;
        }
        if let Ins::Bind { label, .. } = ins {
            bound.insert(label.0);
        }
    }
    if !lanes.left {
        lanes.builder().ins().return_(&[]);
    }
    // A function that is given up has to be whole, too.
    for label in (0..code.labels).filter(|label| !bound.contains(label)) {
        let block = lanes.labels[label as usize];
        lanes.builder().switch_to_block(block);
        lanes.builder().ins().return_(&[]);
    }
    known
}

struct Lanes<'a, 'b> {
    scalars: Scalars<'a, 'b>,
    code: &'a Code,
    variables: Vec<Vec<Variable>>,
    labels: Vec<Block>,
    params: Vec<Value>,
    /// Elements, masks and indices of lane-by-lane accesses.
    slots: [StackSlot; 3],
    /// Registers that hold truth values to be stored as bytes.
    bytes: FxHashSet<VReg>,
    /// Whether the last instruction was a jump.
    left: bool,
}

const DATA: usize = 0;
const MASK: usize = 1;
const INDEX: usize = 2;

/// Where the elements of a lane-by-lane access are.
enum Elements {
    /// A constant number of bytes apart.
    Apart(i64),
    /// At a scale times indices, of 4 or 8 bytes each, in the slot for them.
    Indexed(u8, i64),
}

fn count(length: Length) -> usize {
    match length {
        Length::Xmm => 1,
        Length::Ymm => 2,
        Length::Zmm => 4,
    }
}

fn float_type(wide: bool) -> Type {
    if wide { F64X2 } else { F32X4 }
}

fn int_type(wide: bool) -> Type {
    if wide { I64X2 } else { I32X4 }
}

impl<'b> Lanes<'_, 'b> {
    fn builder(&mut self) -> &mut FunctionBuilder<'b> {
        self.scalars.builder
    }

    fn vectors(&mut self, reg: VReg, n: usize) -> Vectors {
        let variables = self.variables[reg.0 as usize].clone();
        variables[..n].iter().map(|&var| self.builder().use_var(var)).collect()
    }

    fn set(&mut self, reg: VReg, values: &[Value]) {
        let variables = self.variables[reg.0 as usize].clone();
        for (&var, &value) in variables.iter().zip(values) {
            let value = self.cast(I32X4, value);
            self.builder().def_var(var, value);
        }
    }

    fn general(&mut self, reg: VReg) -> Value {
        let var = self.variables[reg.0 as usize][0];
        self.builder().use_var(var)
    }

    fn set_general(&mut self, reg: VReg, value: Value) {
        let var = self.variables[reg.0 as usize][0];
        self.builder().def_var(var, value);
    }

    fn cast(&mut self, ty: Type, value: Value) -> Value {
        if self.builder().func.dfg.value_type(value) == ty {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.builder().ins().bitcast(ty, flags, value)
    }

    fn constant(&mut self, bytes: &[u8]) -> Value {
        let handle = self.builder().func.dfg.constants.insert(ConstantData::from(bytes));
        self.builder().ins().vconst(I32X4, handle)
    }

    fn splat32(&mut self, bits: u32) -> Value {
        self.constant(&bits.to_le_bytes().repeat(4))
    }

    fn pool(&self, at: u32, bytes: usize) -> &[u8] {
        &self.code.pool[at as usize..][..bytes]
    }

    fn src(&mut self, src: Src, wide: bool, n: usize) -> Vectors {
        match src {
            Src::Reg(reg) => self.vectors(reg, n),
            Src::Splat(at) => {
                let size = if wide { 8 } else { 4 };
                let bytes = self.pool(at, size).repeat(16 / size);
                let value = self.constant(&bytes);
                SmallVec::from_elem(value, n)
            }
            Src::Whole(at) => (0..n)
                .map(|part| {
                    let bytes = self.pool(at + 16 * part as u32, 16).to_vec();
                    self.constant(&bytes)
                })
                .collect(),
        }
    }

    /// The mask for lanes of 32 or 64 bits.
    fn lane_mask(&mut self, reg: VReg, wide: bool, n: usize) -> Vectors {
        if !wide {
            return self.vectors(reg, n);
        }
        let narrow = self.vectors(reg, n.div_ceil(2));
        self.widen(&narrow, n, true)
    }

    /// 32-bit lanes extended to 64 bits.
    fn widen(&mut self, from: &[Value], n: usize, signed: bool) -> Vectors {
        (0..n)
            .map(|part| {
                let value = from[part / 2];
                let ins = self.builder().ins();
                match (part % 2 == 0, signed) {
                    (true, true) => ins.swiden_low(value),
                    (false, true) => ins.swiden_high(value),
                    (true, false) => ins.uwiden_low(value),
                    (false, false) => ins.uwiden_high(value),
                }
            })
            .collect()
    }

    /// The low halves of 64-bit lanes.
    fn narrow64(&mut self, from: &[Value]) -> Vectors {
        let pick = [0u8, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
        from.chunks(2)
            .map(|pair| {
                let second = *pair.last().expect("a chunk is not empty");
                self.shuffle(pair[0], second, pick)
            })
            .collect()
    }

    fn shuffle(&mut self, a: Value, b: Value, pick: [u8; 16]) -> Value {
        let (a, b) = (self.cast(I8X16, a), self.cast(I8X16, b));
        let mask = self.builder().func.dfg.immediates.push(ConstantData::from(&pick[..]));
        let value = self.builder().ins().shuffle(a, b, mask);
        self.cast(I32X4, value)
    }

    /// One lane of vectors as a scalar.
    fn lane(&mut self, values: &[Value], ty: Type, lane: usize) -> Value {
        let per = 16 / ty.bytes() as usize;
        let vector = self.cast(ty.by(per as u32).expect("a vector type"), values[lane / per]);
        self.builder().ins().extractlane(vector, (lane % per) as u8)
    }

    /// `f` of each lane.
    fn each(
        &mut self,
        operands: &[(&Vectors, Type)],
        to: Type,
        lanes: usize,
        mut f: impl FnMut(&mut Scalars<'_, 'b>, &[Value]) -> Value,
    ) -> Vectors {
        let per = 16 / to.bytes() as usize;
        let vector = to.by(per as u32).expect("a vector type");
        let mut out = Vectors::new();
        let zero = self.splat32(0);
        let mut current = self.cast(vector, zero);
        for lane in 0..lanes {
            let scalars: Vec<Value> =
                operands.iter().map(|&(values, ty)| self.lane(values, ty, lane)).collect();
            let target = self.scalars.target;
            let mut scalars_of = Scalars { builder: &mut *self.scalars.builder, target };
            let value = f(&mut scalars_of, &scalars);
            current = self.builder().ins().insertlane(current, value, (lane % per) as u8);
            if lane % per == per - 1 || lane == lanes - 1 {
                out.push(current);
            }
        }
        out
    }
}
