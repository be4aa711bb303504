//! Vector code on any machine: [`crate::wide`]'s instructions as Cranelift code on 128-bit vectors.
//!
//! A vector register of 64 bytes is four of 16; a mask is four vectors of 32-bit lanes, all ones
//! where a lane is on. `f16` bits that AVX-512 keeps in half as many bytes stay in 32-bit lanes.
//! What 128-bit vectors lack is done lane by lane.

use super::access::access_flags;
use super::nest::arguments;
use super::scalar::Scalars;
use super::target::Target;
use crate::wide::code::{Addr, Class, Code, Ins, Lanes as Apart, Src, VReg};
use crate::wide::encode::{Cond, Enc, Label, Length};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, F64, F64X2, I8X16, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{
    Block, ConstantData, Endianness, InstBuilder, MemFlagsData, StackSlot, StackSlotData,
    StackSlotKind, Type, Value,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use jaxrs_kernel::{BinaryOp, RegType, UnaryOp};
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

    // ---- registers

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

    // ---- instructions

    fn instruction(&mut self, ins: &Ins) -> Result<(), Unknown> {
        match ins {
            Ins::Op { enc, length, to, a, b, imm, mask, merge } => {
                self.op(*enc, *length, *to, *a, *b, *imm, *mask, *merge)?;
            }
            Ins::Blend { wide, length, to, mask, a, b } => {
                let n = count(*length);
                let mask = self.lane_mask(*mask, *wide, n);
                let (a, b) = (self.src(*a, *wide, n), self.src(*b, *wide, n));
                let out = self.select(&mask, &b, &a);
                self.set(*to, &out);
            }
            Ins::Shift { enc, extension, length, to, a, imm } => {
                let ty = int_type(enc.wide);
                let by = self.builder().ins().iconst(I32, i64::from(*imm));
                let values = self.vectors(*a, count(*length));
                let out = self.map(&values, ty, |b, x| match extension {
                    2 => b.ins().ushr(x, by),
                    4 => b.ins().sshr(x, by),
                    _ => b.ins().ishl(x, by),
                });
                self.set(*to, &out);
            }
            Ins::Fma { wide, length, to, a, b, c } => {
                let n = count(*length);
                let [a, b, c] = [a, b, c].map(|&s| self.src(s, *wide, n));
                let out = self.fma(*wide, &a, &b, &c);
                self.set(*to, &out);
            }
            Ins::Compare { enc, length, to, a, b, imm } => {
                let n = count(*length);
                let (a, b) = (self.src(*a, enc.wide, n), self.src(*b, enc.wide, n));
                let out = self.compare(*enc, &a, &b, *imm)?;
                let out = if enc.wide { self.narrow64(&out) } else { out };
                self.set(*to, &out);
            }
            Ins::Narrow { enc, length, to, a, .. } => {
                let values = self.vectors(*a, count(*length));
                let out = match (enc.map, enc.opcode) {
                    (2, 0x35) => self.narrow64(&values),
                    // Bits stay in 32-bit lanes.
                    (2, 0x33) => values,
                    (3, 0x1d) => self.f16_of_float(&values),
                    _ => return Err(Unknown),
                };
                self.set(*to, &out);
            }
            Ins::Copy { to, from, wide } => {
                let values = self.src(*from, *wide, 4);
                self.set(*to, &values);
            }
            Ins::Load { enc, length, to, at, mask } => {
                let out = self.load(*enc, *length, at, *mask)?;
                self.set(*to, &out);
            }
            Ins::Store { enc, length, from, at, mask, .. } => {
                self.store(*enc, *length, *from, at, *mask)?;
            }
            Ins::Gather { enc, length, to, at, index, scale, mask } => {
                let (size, elements, lanes) = self.indexed(*enc, *length, *index, *scale);
                let base = self.address(at);
                let out = self.lane_loads(size, lanes, base, &elements, *mask);
                self.set(*to, &out);
            }
            Ins::Scatter { enc, length, from, at, index, scale, mask } => {
                let (size, elements, lanes) = self.indexed(*enc, *length, *index, *scale);
                let base = self.address(at);
                let values = self.vectors(*from, 4);
                self.lane_stores(size, lanes, base, &elements, *mask, &values);
            }
            Ins::LaneLoad { bytes, count, to, at, lanes, mask } => {
                let elements = self.elements(*lanes);
                let base = self.address(at);
                let out = self.lane_loads(*bytes, *count, base, &elements, *mask);
                self.set(*to, &out);
            }
            Ins::LaneStore { bytes, count, from, at, lanes, mask } => {
                let elements = self.elements(*lanes);
                let base = self.address(at);
                let values = self.vectors(*from, 4);
                self.lane_stores(*bytes, *count, base, &elements, *mask, &values);
            }
            Ins::LaneDivide { opcode, count, to, a, b } => {
                let op = match opcode {
                    0 => BinaryOp::DivS,
                    1 => BinaryOp::DivU,
                    2 => BinaryOp::RemS,
                    _ => BinaryOp::RemU,
                };
                let (a, b) = (self.vectors(*a, 4), self.vectors(*b, 4));
                let lanes = usize::from(*count);
                let out = self.each(&[(&a, I64), (&b, I64)], I64, lanes, |s, x| {
                    s.binary(op, RegType::I64, x[0], x[1])
                });
                self.set(*to, &out);
            }
            Ins::Spread { to, from, wide } => {
                let value = self.general(*from);
                let value = if *wide { value } else { self.builder().ins().ireduce(I32, value) };
                let value = self.builder().ins().splat(int_type(*wide), value);
                self.set(*to, &[value; 4]);
            }
            Ins::First { to, from, wide } => {
                let values = self.vectors(*from, 1);
                let value = self.lane(&values, if *wide { I64 } else { I32 }, 0);
                let value = if *wide { value } else { self.builder().ins().uextend(I64, value) };
                self.set_general(*to, value);
            }
            Ins::MaskBinary { opcode, to, a, b } => {
                let (a, b) = (self.vectors(*a, 4), self.vectors(*b, 4));
                let out = a
                    .iter()
                    .zip(&b)
                    .map(|(&x, &y)| match opcode {
                        0x41 => self.builder().ins().band(x, y),
                        0x42 => self.builder().ins().band_not(y, x),
                        0x45 => self.builder().ins().bor(x, y),
                        0x46 => {
                            let differ = self.builder().ins().bxor(x, y);
                            self.builder().ins().bnot(differ)
                        }
                        _ => self.builder().ins().bxor(x, y),
                    })
                    .collect::<Vectors>();
                self.set(*to, &out);
            }
            Ins::MaskNot { to, a } => {
                let a = self.vectors(*a, 4);
                let out = self.map(&a, I32X4, |b, x| b.ins().bnot(x));
                self.set(*to, &out);
            }
            Ins::MaskCopy { to, from } => {
                let values = self.vectors(*from, 4);
                self.set(*to, &values);
            }
            Ins::MaskToGeneral { to, from } => {
                let values = self.vectors(*from, 4);
                let mut sum = None;
                for (part, &value) in values.iter().enumerate() {
                    let bits = self.builder().ins().vhigh_bits(I64, value);
                    let bits = self.builder().ins().ishl_imm_u(bits, 4 * part as i64);
                    sum = Some(match sum {
                        None => bits,
                        Some(sum) => self.builder().ins().bor(sum, bits),
                    });
                }
                self.set_general(*to, sum.expect("four parts"));
            }
            Ins::MaskFromGeneral { to, from } => {
                let bits = self.general(*from);
                let bits = self.builder().ins().ireduce(I32, bits);
                let all = self.builder().ins().splat(I32X4, bits);
                let out: Vectors = (0..4u32)
                    .map(|part| {
                        let bytes: Vec<u8> = (0..4u32)
                            .flat_map(|l| (1u32 << (4 * part + l)).to_le_bytes())
                            .collect();
                        let own = self.constant(&bytes);
                        let set = self.builder().ins().band(all, own);
                        self.builder().ins().icmp(IntCC::Equal, set, own)
                    })
                    .collect();
                self.set(*to, &out);
            }
            Ins::JumpUnless { mask, bits, label } => {
                let some = if *bits == 1 {
                    let values = self.vectors(*mask, 1);
                    self.lane(&values, I32, 0)
                } else {
                    let n = if *bits == 0xffff { 4 } else { 2 };
                    let values = self.vectors(*mask, n);
                    let mut any = values[0];
                    for &value in &values[1..] {
                        any = self.builder().ins().bor(any, value);
                    }
                    self.builder().ins().vany_true(any)
                };
                let next = self.builder().create_block();
                let target = self.labels[label.0 as usize];
                self.builder().ins().brif(some, next, &[], target, &[]);
                self.builder().switch_to_block(next);
            }
            other => self.general_instruction(other)?,
        }
        Ok(())
    }

    fn general_instruction(&mut self, ins: &Ins) -> Result<(), Unknown> {
        let (to, value) = match ins {
            Ins::Argument { to, index } => (to, self.params[usize::from(*index)]),
            Ins::Immediate { to, value } => (to, self.builder().ins().iconst(I64, *value)),
            Ins::Move { to, from } => (to, self.general(*from)),
            Ins::Add { to, a, b }
            | Ins::Sub { to, a, b }
            | Ins::Xor { to, a, b }
            | Ins::Mul { to, a, b }
            | Ins::Min { to, a, b }
            | Ins::Max { to, a, b } => {
                let (a, b) = (self.general(*a), self.general(*b));
                let ins_builder = self.builder().ins();
                let value = match ins {
                    Ins::Add { .. } => ins_builder.iadd(a, b),
                    Ins::Sub { .. } => ins_builder.isub(a, b),
                    Ins::Xor { .. } => ins_builder.bxor(a, b),
                    Ins::Mul { .. } => ins_builder.imul(a, b),
                    Ins::Min { .. } => ins_builder.smin(a, b),
                    _ => ins_builder.smax(a, b),
                };
                (to, value)
            }
            Ins::AddImm { to, a, value } => {
                let a = self.general(*a);
                (to, self.builder().ins().iadd_imm_s(a, i64::from(*value)))
            }
            Ins::AndImm { to, a, value } => {
                let a = self.general(*a);
                (to, self.builder().ins().band_imm_s(a, i64::from(*value)))
            }
            Ins::MulImm { to, a, value } => {
                let a = self.general(*a);
                (to, self.builder().ins().imul_imm_s(a, i64::from(*value)))
            }
            Ins::ShiftImm { extension, to, a, by } => {
                let (a, by) = (self.general(*a), i64::from(*by));
                let value = match extension {
                    4 => self.builder().ins().ishl_imm_u(a, by),
                    5 => self.builder().ins().ushr_imm_u(a, by),
                    _ => self.builder().ins().sshr_imm_u(a, by),
                };
                (to, value)
            }
            Ins::Neg { to, a } => {
                let a = self.general(*a);
                (to, self.builder().ins().ineg(a))
            }
            Ins::IsEqual { to, a, value } => {
                let a = self.general(*a);
                let equal = self.builder().ins().icmp_imm_s(IntCC::Equal, a, i64::from(*value));
                (to, self.builder().ins().uextend(I64, equal))
            }
            Ins::FloorDiv { quotient, remainder, a, by } => {
                let a = self.general(*a);
                let divisor = self.builder().ins().iconst(I64, *by);
                let q = self.builder().ins().sdiv(a, divisor);
                let back = self.builder().ins().imul(q, divisor);
                let rest = self.builder().ins().isub(a, back);
                let below = self.builder().ins().sshr_imm_u(rest, 63);
                let q = self.builder().ins().iadd(q, below);
                let more = self.builder().ins().band(below, divisor);
                let rest = self.builder().ins().iadd(rest, more);
                self.set_general(*quotient, q);
                (remainder, rest)
            }
            Ins::LoadAddress { to, at } => (to, self.address(at)),
            Ins::LoadGeneral { to, at } => {
                let address = self.address(at);
                (to, self.builder().ins().load(I64, access_flags(), address, 0))
            }
            Ins::LoadNarrow { bytes, to, at } => {
                let address = self.address(at);
                (to, self.load_extended(*bytes, address))
            }
            Ins::StoreNarrow { bytes, from, at } => {
                let (address, value) = (self.address(at), self.general(*from));
                self.store_low(*bytes, address, value);
                return Ok(());
            }
            Ins::Bind { label, .. } => {
                let block = self.labels[label.0 as usize];
                if !self.left {
                    self.builder().ins().jump(block, &[]);
                }
                self.builder().switch_to_block(block);
                self.left = false;
                return Ok(());
            }
            Ins::Jump { label } => {
                let block = self.labels[label.0 as usize];
                self.builder().ins().jump(block, &[]);
                self.left = true;
                return Ok(());
            }
            Ins::CompareJump { a, b, cond, label } => {
                let (a, b) = (self.general(*a), self.general(*b));
                self.jump_if(a, b, *cond, *label);
                return Ok(());
            }
            Ins::CompareJumpImm { a, value, cond, label } => {
                let a = self.general(*a);
                let b = self.builder().ins().iconst(I64, i64::from(*value));
                self.jump_if(a, b, *cond, *label);
                return Ok(());
            }
            _ => return Err(Unknown),
        };
        self.set_general(*to, value);
        Ok(())
    }

    fn jump_if(&mut self, a: Value, b: Value, cond: Cond, label: Label) {
        let cond = match cond {
            Cond::Equal => IntCC::Equal,
            Cond::Less => IntCC::SignedLessThan,
            Cond::GreaterEqual => IntCC::SignedGreaterThanOrEqual,
            Cond::Greater => IntCC::SignedGreaterThan,
        };
        let holds = self.builder().ins().icmp(cond, a, b);
        let next = self.builder().create_block();
        let target = self.labels[label.0 as usize];
        self.builder().ins().brif(holds, target, &[], next, &[]);
        self.builder().switch_to_block(next);
    }

    // ---- arithmetic

    fn map(
        &mut self,
        values: &[Value],
        ty: Type,
        mut f: impl FnMut(&mut FunctionBuilder<'b>, Value) -> Value,
    ) -> Vectors {
        values
            .iter()
            .map(|&x| {
                let x = self.cast(ty, x);
                f(self.scalars.builder, x)
            })
            .collect()
    }

    fn map2(
        &mut self,
        a: &[Value],
        b: &[Value],
        ty: Type,
        mut f: impl FnMut(&mut FunctionBuilder<'b>, Value, Value) -> Value,
    ) -> Vectors {
        a.iter()
            .zip(b)
            .map(|(&x, &y)| {
                let (x, y) = (self.cast(ty, x), self.cast(ty, y));
                f(self.scalars.builder, x, y)
            })
            .collect()
    }

    fn select(&mut self, mask: &[Value], a: &[Value], b: &[Value]) -> Vectors {
        let mut out = Vectors::new();
        for ((&m, &x), &y) in mask.iter().zip(a).zip(b) {
            let (m, x, y) = (self.cast(I32X4, m), self.cast(I32X4, x), self.cast(I32X4, y));
            out.push(self.builder().ins().bitselect(m, x, y));
        }
        out
    }

    fn fma(&mut self, wide: bool, a: &Vectors, b: &Vectors, c: &Vectors) -> Vectors {
        let ty = float_type(wide);
        if self.scalars.target.fma {
            return (0..a.len())
                .map(|n| {
                    let [x, y, z] = [a[n], b[n], c[n]].map(|v| self.cast(ty, v));
                    self.builder().ins().fma(x, y, z)
                })
                .collect();
        }
        let (lane, reg) = if wide { (F64, RegType::F64) } else { (F32, RegType::F32) };
        let lanes = a.len() * 16 / lane.bytes() as usize;
        self.each(&[(a, lane), (b, lane), (c, lane)], lane, lanes, |s, x| {
            s.fma(reg, x[0], x[1], x[2])
        })
    }

    fn compare(
        &mut self,
        enc: Enc,
        a: &[Value],
        b: &[Value],
        imm: Option<u8>,
    ) -> Result<Vectors, Unknown> {
        if enc.opcode == 0xc2 {
            let cond = match imm {
                Some(0x00) => FloatCC::Equal,
                Some(0x04) => FloatCC::NotEqual,
                Some(0x11) => FloatCC::LessThan,
                Some(0x12) => FloatCC::LessThanOrEqual,
                Some(0x1e) => FloatCC::GreaterThan,
                Some(0x1d) => FloatCC::GreaterThanOrEqual,
                Some(0x03) => FloatCC::Unordered,
                _ => return Err(Unknown),
            };
            return Ok(self.map2(a, b, float_type(enc.wide), |f, x, y| f.ins().fcmp(cond, x, y)));
        }
        let ty = int_type(enc.wide);
        if enc.opcode == 0x27 {
            let both = self.map2(a, b, ty, |f, x, y| f.ins().band(x, y));
            let zero = self.splat32(0);
            let zeros = SmallVec::<[Value; 4]>::from_elem(zero, both.len());
            return Ok(self.map2(&both, &zeros, ty, |f, x, y| f.ins().icmp(IntCC::NotEqual, x, y)));
        }
        let signed = enc.opcode == 0x1f;
        let (mut a, mut b): (Vectors, Vectors) = (a.into(), b.into());
        if !signed && enc.wide {
            // Unsigned order is signed order with the sign bits flipped.
            let flip = self.constant(&(1u64 << 63).to_le_bytes().repeat(2));
            let flips = SmallVec::<[Value; 4]>::from_elem(flip, a.len());
            a = self.map2(&a, &flips, I32X4, |f, x, y| f.ins().bxor(x, y));
            b = self.map2(&b, &flips, I32X4, |f, x, y| f.ins().bxor(x, y));
        }
        let as_signed = signed || enc.wide;
        let cond = match (imm, as_signed) {
            (Some(0), _) => IntCC::Equal,
            (Some(4), _) => IntCC::NotEqual,
            (Some(1), true) => IntCC::SignedLessThan,
            (Some(2), true) => IntCC::SignedLessThanOrEqual,
            (Some(5), true) => IntCC::SignedGreaterThanOrEqual,
            (Some(6), true) => IntCC::SignedGreaterThan,
            (Some(1), false) => IntCC::UnsignedLessThan,
            (Some(2), false) => IntCC::UnsignedLessThanOrEqual,
            (Some(5), false) => IntCC::UnsignedGreaterThanOrEqual,
            (Some(6), false) => IntCC::UnsignedGreaterThan,
            _ => return Err(Unknown),
        };
        Ok(self.map2(&a, &b, ty, |f, x, y| f.ins().icmp(cond, x, y)))
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one instruction")]
    fn op(
        &mut self,
        enc: Enc,
        length: Length,
        to: VReg,
        a: Option<Src>,
        b: Src,
        imm: Option<u8>,
        mask: Option<VReg>,
        merge: Option<VReg>,
    ) -> Result<(), Unknown> {
        let splat = enc.map == 2 && matches!(enc.opcode, 0x58 | 0x59);
        if (enc.map, enc.prefix, enc.opcode) == (1, 3, 0x6f) {
            // Truth values as numbers 0 and 1, stored as bytes later.
            let bits = self.vectors(mask.ok_or(Unknown)?, 4);
            let one = self.splat32(1);
            let out = self.map(&bits, I32X4, |f, x| f.ins().band(x, one));
            self.bytes.insert(to);
            self.set(to, &out);
            return Ok(());
        }
        let n = count(length);
        let mut out = if splat {
            let ty = if enc.wide { I64 } else { I32 };
            let value = match b {
                Src::Whole(at) => self.src(Src::Splat(at), enc.wide, 1)[0],
                other => {
                    let from = self.src(other, enc.wide, 1);
                    let first = self.lane(&from, ty, 0);
                    self.builder().ins().splat(int_type(enc.wide), first)
                }
            };
            SmallVec::from_elem(value, n)
        } else if let Some(a) = a {
            let (a, b) = (self.src(a, enc.wide, n), self.src(b, enc.wide, n));
            self.op2(enc, &a, &b, imm)?
        } else {
            self.op1(enc, n, b, imm)?
        };
        if let Some(mask) = mask {
            let mask = self.lane_mask(mask, enc.wide, n);
            let zero = self.splat32(0);
            let old = match merge {
                Some(reg) => self.vectors(reg, n),
                None => SmallVec::from_elem(zero, n),
            };
            out = self.select(&mask, &out, &old);
        }
        self.set(to, &out);
        Ok(())
    }

    fn op2(
        &mut self,
        enc: Enc,
        a: &Vectors,
        b: &Vectors,
        imm: Option<u8>,
    ) -> Result<Vectors, Unknown> {
        let (wide, ints, floats) = (enc.wide, int_type(enc.wide), float_type(enc.wide));
        let lane = if wide { I64 } else { I32 };
        let lanes = a.len() * 16 / lane.bytes() as usize;
        let reg = if wide { RegType::I64 } else { RegType::I32 };
        let is_float = enc.prefix == u8::from(wide);
        let out = match (enc.map, enc.opcode) {
            (1, 0x58) if is_float => self.map2(a, b, floats, |f, x, y| f.ins().fadd(x, y)),
            (1, 0x5c) if is_float => self.map2(a, b, floats, |f, x, y| f.ins().fsub(x, y)),
            (1, 0x59) if is_float => self.map2(a, b, floats, |f, x, y| f.ins().fmul(x, y)),
            (1, 0x5e) if is_float => self.map2(a, b, floats, |f, x, y| f.ins().fdiv(x, y)),
            // The second operand wins over a NaN and between zeros.
            (1, 0x5f) => {
                let above =
                    self.map2(a, b, floats, |f, x, y| f.ins().fcmp(FloatCC::GreaterThan, x, y));
                self.select(&above, a, b)
            }
            (3, 0x50) if imm == Some(4) => self.map2(a, b, floats, |f, x, y| f.ins().fmin(x, y)),
            (3, 0x50) => self.map2(a, b, floats, |f, x, y| f.ins().fmax(x, y)),
            (1, 0xfe | 0xd4) => self.map2(a, b, ints, |f, x, y| f.ins().iadd(x, y)),
            (1, 0xfa | 0xfb) => self.map2(a, b, ints, |f, x, y| f.ins().isub(x, y)),
            (2, 0x40) => self.map2(a, b, ints, |f, x, y| f.ins().imul(x, y)),
            (1, 0xf4) => {
                let low = self.constant(&0xffff_ffffu64.to_le_bytes().repeat(2));
                let low = self.cast(I64X2, low);
                self.map2(a, b, I64X2, |f, x, y| {
                    let (x, y) = (f.ins().band(x, low), f.ins().band(y, low));
                    f.ins().imul(x, y)
                })
            }
            (1, 0xdb) => self.map2(a, b, ints, |f, x, y| f.ins().band(x, y)),
            (1, 0xeb) => self.map2(a, b, ints, |f, x, y| f.ins().bor(x, y)),
            (1, 0xef) => self.map2(a, b, ints, |f, x, y| f.ins().bxor(x, y)),
            (2, 0x39) if !wide => self.map2(a, b, ints, |f, x, y| f.ins().smin(x, y)),
            (2, 0x3d) if !wide => self.map2(a, b, ints, |f, x, y| f.ins().smax(x, y)),
            (2, 0x3b) if !wide => self.map2(a, b, ints, |f, x, y| f.ins().umin(x, y)),
            (2, 0x3f) if !wide => self.map2(a, b, ints, |f, x, y| f.ins().umax(x, y)),
            (2, 0x39 | 0x3d | 0x3b | 0x3f) => {
                let signed = matches!(enc.opcode, 0x39 | 0x3d);
                let least = matches!(enc.opcode, 0x39 | 0x3b);
                let compare = Enc { map: 3, opcode: if signed { 0x1f } else { 0x1e }, ..enc };
                let first = self.compare(compare, a, b, Some(if least { 1 } else { 6 }))?;
                self.select(&first, a, b)
            }
            (2, 0x45..=0x47) => {
                let op = match enc.opcode {
                    0x45 => BinaryOp::ShrU,
                    0x46 => BinaryOp::ShrS,
                    _ => BinaryOp::Shl,
                };
                if b.iter().all(|&v| v == b[0]) && self.is_splat(b[0], lane) {
                    let by = self.lane(b, lane, 0);
                    return Ok(self.shift_all(op, a, ints, lane, by));
                }
                self.each(&[(a, lane), (b, lane)], lane, lanes, |s, x| {
                    s.binary(op, reg, x[0], x[1])
                })
            }
            (3, 0x43) => {
                let imm = imm.ok_or(Unknown)?;
                (0..4).map(|n| a[usize::from(imm >> (2 * n) & 3)]).collect()
            }
            _ => return Err(Unknown),
        };
        Ok(out)
    }

    /// Whether a value is a constant vector of equal lanes.
    fn is_splat(&mut self, value: Value, lane: Type) -> bool {
        use cranelift_codegen::ir::{InstructionData, ValueDef};
        let dfg = &self.builder().func.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(value) else { return false };
        let InstructionData::UnaryConst { constant_handle, .. } = dfg.insts[inst] else {
            return false;
        };
        let bytes = dfg.constants.get(constant_handle).as_slice();
        let size = lane.bytes() as usize;
        bytes.chunks(size).all(|c| c == &bytes[..size])
    }

    /// A shift of all lanes by one amount, which may be the width or more.
    fn shift_all(&mut self, op: BinaryOp, a: &[Value], ty: Type, lane: Type, by: Value) -> Vectors {
        let bits = i64::from(lane.bits());
        let inside = self.builder().ins().icmp_imm_s(IntCC::UnsignedLessThan, by, bits);
        let most = self.builder().ins().iconst(lane, bits - 1);
        let safe = self.builder().ins().select(inside, by, most);
        let zero = self.splat32(0);
        let zero = self.cast(ty, zero);
        self.map(a, ty, |f, x| match op {
            BinaryOp::ShrS => f.ins().sshr(x, safe),
            BinaryOp::ShrU => {
                let shifted = f.ins().ushr(x, safe);
                f.ins().select(inside, shifted, zero)
            }
            _ => {
                let shifted = f.ins().ishl(x, safe);
                f.ins().select(inside, shifted, zero)
            }
        })
    }

    fn op1(&mut self, enc: Enc, n: usize, b: Src, imm: Option<u8>) -> Result<Vectors, Unknown> {
        let wide = enc.wide;
        let (ints, floats) = (int_type(wide), float_type(wide));
        let x = self.src(b, wide, n);
        let out = match (enc.map, enc.prefix, enc.opcode) {
            (1, 0 | 1, 0x51) => self.map(&x, floats, |f, x| f.ins().sqrt(x)),
            (3, 1, 0x08 | 0x09) => {
                let code = imm.ok_or(Unknown)? & 3;
                self.map(&x, floats, |f, x| match code {
                    0 => f.ins().nearest(x),
                    1 => f.ins().floor(x),
                    2 => f.ins().ceil(x),
                    _ => f.ins().trunc(x),
                })
            }
            (2, 1, 0x1e | 0x1f) => self.map(&x, ints, |f, x| f.ins().iabs(x)),
            (2, 1, 0x44) => {
                let (lane, reg) = if wide { (I64, RegType::I64) } else { (I32, RegType::I32) };
                let lanes = n * 16 / lane.bytes() as usize;
                self.each(&[(&x, lane)], lane, lanes, |s, x| s.unary(UnaryOp::Clz, reg, x[0]))
            }
            (2, 1, 0x33) => x,
            (2, 1, 0x13) => self.float_of_f16(&x),
            (2, 1, 0x25) => self.widen(&x, n, true),
            (2, 1, 0x35) => self.widen(&x, n, false),
            (3, 1, 0x00) => SmallVec::from_slice(&[x[1], x[0]]),
            (1, 1, 0x70) => {
                let imm = imm.ok_or(Unknown)?;
                let mut pick = [0; 16];
                for (at, byte) in pick.iter_mut().enumerate() {
                    *byte = (imm >> (2 * (at / 4)) & 3) * 4 + (at % 4) as u8;
                }
                x.iter().map(|&v| self.shuffle(v, v, pick)).collect()
            }
            (1, 0, 0x5b) if !wide => self.map(&x, I32X4, |f, x| f.ins().fcvt_from_sint(F32X4, x)),
            (1, 3, 0x7a) if !wide => self.map(&x, I32X4, |f, x| f.ins().fcvt_from_uint(F32X4, x)),
            (1, 2, 0x5b) => self.map(&x, F32X4, |f, x| f.ins().fcvt_to_sint_sat(I32X4, x)),
            (1, 0, 0x78) if !wide => self.map(&x, F32X4, |f, x| f.ins().fcvt_to_uint_sat(I32X4, x)),
            (1, 0, 0x5a) => (0..n)
                .map(|part| {
                    let from = self.cast(F32X4, x[part / 2]);
                    let high = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
                    let from = if part % 2 == 0 { from } else { self.shuffle(from, from, high) };
                    let from = self.cast(F32X4, from);
                    self.builder().ins().fvpromote_low(from)
                })
                .collect(),
            (1, 1, 0x5a) => {
                let lanes = 2 * n;
                self.each(&[(&x, F64)], F32, lanes, |s, x| s.builder.ins().fdemote(F32, x[0]))
            }
            _ => return self.convert(enc, n, &x),
        };
        Ok(out)
    }

    /// Conversions that 128-bit vectors lack.
    fn convert(&mut self, enc: Enc, n: usize, x: &Vectors) -> Result<Vectors, Unknown> {
        let lanes = 2 * n;
        let out = match (enc.prefix, enc.opcode, enc.wide) {
            // 32-bit integers to f64.
            (2, 0xe6, false) => {
                self.each(&[(x, I32)], F64, lanes, |s, x| s.builder.ins().fcvt_from_sint(F64, x[0]))
            }
            (2, 0x7a, false) => self.each(&[(x, I32)], F64, lanes, |s, x| {
                let wide = s.builder.ins().uextend(I64, x[0]);
                s.builder.ins().fcvt_from_sint(F64, wide)
            }),
            // 64-bit integers.
            (0, 0x5b, true) => {
                self.each(&[(x, I64)], F32, lanes, |s, x| s.builder.ins().fcvt_from_sint(F32, x[0]))
            }
            (3, 0x7a, true) => {
                self.each(&[(x, I64)], F32, lanes, |s, x| s.builder.ins().fcvt_from_uint(F32, x[0]))
            }
            (2, 0xe6, true) => {
                self.each(&[(x, I64)], F64, lanes, |s, x| s.builder.ins().fcvt_from_sint(F64, x[0]))
            }
            (2, 0x7a, true) => {
                self.each(&[(x, I64)], F64, lanes, |s, x| s.builder.ins().fcvt_from_uint(F64, x[0]))
            }
            // Floats to integers, saturating: the limits that the code checks are the same.
            (1, 0x7a, wide) => {
                let from = if wide { F64 } else { F32 };
                self.each(&[(x, from)], I64, lanes, |s, x| {
                    s.builder.ins().fcvt_to_sint_sat(I64, x[0])
                })
            }
            (1, 0x78, wide) => {
                let from = if wide { F64 } else { F32 };
                self.each(&[(x, from)], I64, lanes, |s, x| {
                    s.builder.ins().fcvt_to_uint_sat(I64, x[0])
                })
            }
            (1, 0xe6, true) => self.each(&[(x, F64)], I32, lanes, |s, x| {
                // Above the range the instruction gives the least value: the quotient of the
                // least value by -1 is that.
                let (low, high) = (
                    s.builder.ins().f64const(-2147483648.0),
                    s.builder.ins().f64const(2147483648.0),
                );
                let safe = s.builder.ins().fmax(x[0], low);
                let safe = s.builder.ins().fmin(safe, high);
                let wide = s.builder.ins().fcvt_to_sint_sat(I64, safe);
                s.builder.ins().ireduce(I32, wide)
            }),
            (0, 0x78, true) => self.each(&[(x, F64)], I32, lanes, |s, x| {
                // An infinite or NaN quotient becomes all ones, as the division by zero wants.
                let max = s.builder.ins().f64const(f64::from(u32::MAX));
                let above = s.builder.ins().fcmp(FloatCC::UnorderedOrGreaterThan, x[0], max);
                let safe = s.builder.ins().select(above, max, x[0]);
                let wide = s.builder.ins().fcvt_to_uint_sat(I64, safe);
                s.builder.ins().ireduce(I32, wide)
            }),
            _ => return Err(Unknown),
        };
        Ok(out)
    }

    fn float_of_f16(&mut self, x: &Vectors) -> Vectors {
        self.each(&[(x, I32)], F32, 4 * x.len(), |s, x| {
            let bits = s.reduce(cranelift_codegen::ir::types::I16, x[0]);
            s.unary(UnaryOp::FromBitsF16, RegType::I16, bits)
        })
    }

    fn f16_of_float(&mut self, x: &Vectors) -> Vectors {
        self.each(&[(x, F32)], I32, 4 * x.len(), |s, x| {
            let bits = s.unary(UnaryOp::BitsF16, RegType::F32, x[0]);
            s.extend(I32, bits, false)
        })
    }

    // ---- memory

    fn address(&mut self, at: &Addr) -> Value {
        let mut address = self.general(at.base);
        if let Some((index, scale)) = at.index {
            let index = self.general(index);
            let scaled = self.builder().ins().imul_imm_s(index, i64::from(scale));
            address = self.builder().ins().iadd(address, scaled);
        }
        if at.disp != 0 {
            address = self.builder().ins().iadd_imm_s(address, i64::from(at.disp));
        }
        address
    }

    fn load_extended(&mut self, bytes: u8, address: Value) -> Value {
        let flags = access_flags();
        match bytes {
            1 => self.builder().ins().uload8(I64, flags, address, 0),
            2 => self.builder().ins().uload16(I64, flags, address, 0),
            4 => self.builder().ins().uload32(flags, address, 0),
            _ => self.builder().ins().load(I64, flags, address, 0),
        }
    }

    fn store_low(&mut self, bytes: u8, address: Value, value: Value) {
        let flags = access_flags();
        match bytes {
            1 => self.builder().ins().istore8(flags, value, address, 0),
            2 => self.builder().ins().istore16(flags, value, address, 0),
            4 => self.builder().ins().istore32(flags, value, address, 0),
            _ => self.builder().ins().store(flags, value, address, 0),
        };
    }

    fn load(
        &mut self,
        enc: Enc,
        length: Length,
        at: &Addr,
        mask: Option<VReg>,
    ) -> Result<Vectors, Unknown> {
        let n = count(length);
        let base = self.address(at);
        let flags = access_flags();
        if (enc.map, enc.prefix) == (2, 1) && matches!(enc.opcode, 0x58 | 0x59) {
            let ty = if enc.wide { I64 } else { I32 };
            let value = self.builder().ins().load(ty, flags, base, 0);
            let value = self.builder().ins().splat(int_type(enc.wide), value);
            return Ok(SmallVec::from_elem(value, n));
        }
        let size: u8 = match (enc.map, enc.opcode) {
            (1, 0x6f) if enc.wide => 8,
            (1, 0x6f) => 4,
            (2, 0x31) => 1,
            (2, 0x33 | 0x13) => 2,
            _ => return Err(Unknown),
        };
        let lanes = (16 * n / usize::from(size.max(4))) as u8;
        let bits = if mask.is_some() {
            self.lane_loads(size, lanes, base, &Elements::Apart(i64::from(size)), mask)
        } else {
            (0..n as i32)
                .map(|part| match size {
                    1 => {
                        let four = self.builder().ins().load(I32, flags, base, 4 * part);
                        let bytes = self.builder().ins().scalar_to_vector(I32X4, four);
                        let bytes = self.cast(I8X16, bytes);
                        let halves = self.builder().ins().uwiden_low(bytes);
                        self.builder().ins().uwiden_low(halves)
                    }
                    2 => {
                        let eight = self.builder().ins().load(I64, flags, base, 8 * part);
                        let halves = self.builder().ins().scalar_to_vector(I64X2, eight);
                        let halves = self.cast(I16X8, halves);
                        self.builder().ins().uwiden_low(halves)
                    }
                    _ => self.builder().ins().load(I32X4, flags, base, 16 * part),
                })
                .collect()
        };
        if (enc.map, enc.opcode) == (2, 0x13) {
            return Ok(self.float_of_f16(&bits));
        }
        Ok(bits)
    }

    fn store(
        &mut self,
        enc: Enc,
        length: Length,
        from: VReg,
        at: &Addr,
        mask: Option<VReg>,
    ) -> Result<(), Unknown> {
        let base = self.address(at);
        let flags = access_flags();
        if self.bytes.contains(&from) {
            let values = self.vectors(from, 4);
            let lanes = if enc.opcode == 0xd6 { 8 } else { 16 };
            if mask.is_none() && lanes == 16 {
                let packed = self.pack_bytes(&values);
                self.builder().ins().store(flags, packed, base, 0);
                return Ok(());
            }
            self.lane_stores(1, lanes, base, &Elements::Apart(1), mask, &values);
            return Ok(());
        }
        let n = count(length);
        let values = self.vectors(from, n);
        let size: u8 = match (enc.map, enc.opcode) {
            (1, 0x7e) => {
                let value = self.lane(&values, I32, 0);
                self.builder().ins().store(flags, value, base, 0);
                return Ok(());
            }
            (1, 0xd6) => {
                let value = self.lane(&values, I64, 0);
                self.builder().ins().store(flags, value, base, 0);
                return Ok(());
            }
            (1, 0x7f) if enc.wide => 8,
            (1, 0x7f) => 4,
            (2, 0x31) => 1,
            (2, 0x33) | (3, 0x1d) => 2,
            _ => return Err(Unknown),
        };
        let values = if enc.map == 3 { self.f16_of_float(&values) } else { values };
        let lanes = (16 * n / usize::from(size.max(4))) as u8;
        if mask.is_some() {
            let elements = Elements::Apart(i64::from(size));
            self.lane_stores(size, lanes, base, &elements, mask, &values);
            return Ok(());
        }
        match size {
            1 if n == 4 => {
                let packed = self.pack_bytes(&values);
                self.builder().ins().store(flags, packed, base, 0);
            }
            1 => {
                let elements = Elements::Apart(1);
                self.lane_stores(1, lanes, base, &elements, None, &values);
            }
            2 => {
                for (part, pair) in values.chunks(2).enumerate() {
                    let (a, b) = (self.cast(I32X4, pair[0]), self.cast(I32X4, pair[1]));
                    let packed = self.builder().ins().unarrow(a, b);
                    self.builder().ins().store(flags, packed, base, 16 * part as i32);
                }
            }
            _ => {
                for (part, &value) in values.iter().enumerate() {
                    self.builder().ins().store(flags, value, base, 16 * part as i32);
                }
            }
        }
        Ok(())
    }

    /// Sixteen 32-bit lanes below 256 as bytes.
    fn pack_bytes(&mut self, values: &[Value]) -> Value {
        let [a, b, c, d] = [0, 1, 2, 3].map(|n| self.cast(I32X4, values[n]));
        let low = self.builder().ins().unarrow(a, b);
        let high = self.builder().ins().unarrow(c, d);
        self.builder().ins().unarrow(low, high)
    }

    fn spill(&mut self, slot: usize, values: &[Value]) {
        let slot = self.slots[slot];
        for (part, &value) in values.iter().enumerate() {
            self.builder().ins().stack_store(I64, value, slot, 16 * part as i32);
        }
    }

    /// The element size, places and lanes of a gather or scatter.
    fn indexed(&mut self, enc: Enc, length: Length, index: Src, scale: u8) -> (u8, Elements, u8) {
        let size = if enc.wide { 8 } else { 4 };
        // Opcodes with the low bit have 64-bit indices, eight of them.
        let (index_size, lanes) = match (enc.opcode & 1 == 1, enc.wide) {
            (true, _) => (8, 8),
            (false, true) => (4, 8),
            (false, false) => (4, if length == Length::Zmm { 16 } else { 8 }),
        };
        let n = usize::from(lanes) * usize::from(index_size) / 16;
        let values = self.src(index, index_size == 8, n);
        self.spill(INDEX, &values);
        (size, Elements::Indexed(index_size, i64::from(scale)), lanes)
    }

    fn elements(&mut self, lanes: Apart) -> Elements {
        match lanes {
            Apart::Apart(bytes) => Elements::Apart(i64::from(bytes)),
            Apart::At(index, scale) => {
                let values = self.vectors(index, 4);
                self.spill(INDEX, &values);
                Elements::Indexed(8, i64::from(scale))
            }
        }
    }

    /// A loop over lanes that are on: `f` is given the lane's number and its element's address.
    fn lane_loop(
        &mut self,
        lanes: u8,
        base: Value,
        elements: &Elements,
        mask: Option<VReg>,
        f: impl FnOnce(&mut Self, Value, Value),
    ) {
        if let Some(mask) = mask {
            let values = self.vectors(mask, usize::from(lanes).div_ceil(4));
            self.spill(MASK, &values);
        }
        let (body, on, next, exit) = (
            self.builder().create_block(),
            self.builder().create_block(),
            self.builder().create_block(),
            self.builder().create_block(),
        );
        let lane = self.builder().append_block_param(body, I64);
        let zero = self.builder().ins().iconst(I64, 0);
        self.builder().ins().jump(body, &arguments([zero]));
        self.builder().switch_to_block(body);
        if mask.is_some() {
            let bit = self.slot_element(MASK, lane, 4);
            self.builder().ins().brif(bit, on, &[], next, &[]);
        } else {
            self.builder().ins().jump(on, &[]);
        }
        self.builder().switch_to_block(on);
        let distance = match elements {
            Elements::Apart(bytes) => self.builder().ins().imul_imm_s(lane, *bytes),
            Elements::Indexed(size, scale) => {
                let index = self.slot_element(INDEX, lane, *size);
                let index =
                    if *size == 8 { index } else { self.builder().ins().sextend(I64, index) };
                self.builder().ins().imul_imm_s(index, *scale)
            }
        };
        let address = self.builder().ins().iadd(base, distance);
        f(self, lane, address);
        self.builder().ins().jump(next, &[]);
        self.builder().switch_to_block(next);
        let following = self.builder().ins().iadd_imm_s(lane, 1);
        let more =
            self.builder().ins().icmp_imm_s(IntCC::SignedLessThan, following, i64::from(lanes));
        self.builder().ins().brif(more, body, &arguments([following]), exit, &[]);
        self.builder().switch_to_block(exit);
    }

    fn slot_address(&mut self, slot: usize, lane: Value, size: u8) -> Value {
        let slot = self.slots[slot];
        let base = self.builder().ins().stack_addr(I64, slot, 0);
        let distance = self.builder().ins().imul_imm_s(lane, i64::from(size));
        self.builder().ins().iadd(base, distance)
    }

    fn slot_element(&mut self, slot: usize, lane: Value, size: u8) -> Value {
        let address = self.slot_address(slot, lane, size);
        let ty = if size == 8 { I64 } else { I32 };
        self.builder().ins().load(ty, access_flags(), address, 0)
    }

    /// Elements zero-extended to lanes of 32 or 64 bits, zero where the mask is off.
    fn lane_loads(
        &mut self,
        bytes: u8,
        lanes: u8,
        base: Value,
        elements: &Elements,
        mask: Option<VReg>,
    ) -> Vectors {
        let zero = self.splat32(0);
        self.spill(DATA, &[zero; 4]);
        let size = bytes.max(4);
        self.lane_loop(lanes, base, elements, mask, |this, lane, address| {
            let value = this.load_extended(bytes, address);
            let to = this.slot_address(DATA, lane, size);
            this.store_low(size, to, value);
        });
        let slot = self.slots[DATA];
        let n = i32::from(lanes) * i32::from(size) / 16;
        (0..n.max(1))
            .map(|part| self.builder().ins().stack_load(I64, I32X4, slot, 16 * part))
            .collect()
    }

    fn lane_stores(
        &mut self,
        bytes: u8,
        lanes: u8,
        base: Value,
        elements: &Elements,
        mask: Option<VReg>,
        values: &[Value],
    ) {
        self.spill(DATA, values);
        let size = bytes.max(4);
        self.lane_loop(lanes, base, elements, mask, |this, lane, address| {
            let from = this.slot_address(DATA, lane, size);
            let value = this.load_extended(size, from);
            this.store_low(bytes, address, value);
        });
    }
}
