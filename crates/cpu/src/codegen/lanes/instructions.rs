//! Each instruction of the vector code.

use super::super::access::access_flags;
use super::{Lanes, Unknown, Vectors, count, int_type};
use crate::wide::code::Ins;
use crate::wide::encode::{Cond, Label};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use jaxrs_kernel::{BinaryOp, RegType};

impl Lanes<'_, '_> {
    pub(super) fn instruction(&mut self, ins: &Ins) -> Result<(), Unknown> {
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
}
