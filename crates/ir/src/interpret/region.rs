//! Regions over scalars that are run many times: as straight-line code where every op in them has
//! a scalar body, else op by op.

use super::Frame;
use crate::function::{BlockId, Function, ValueId};
use crate::literal::Literal;
use crate::lower::{Emitter, Lowering};
use crate::ops;
use cranelift_entity::EntityRef;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::inst::{Typed, eval_binary, eval_cast, eval_compare, eval_fma, eval_unary, mask};
use jaxrs_kernel::kernel::{Def, Stmt};
use jaxrs_kernel::{Access, DType, Inst, Kernel, RegType};

/// A region over rank-0 tensors, ready to run on register bits (see [`Literal::bits`]).
pub struct ScalarRegion {
    block: BlockId,
    arguments: Vec<DType>,
    code: Option<Code>,
}

impl ScalarRegion {
    /// The region of a function under interpretation; values that it captures are fixed now.
    pub fn new(frame: &Frame<'_>, block: BlockId) -> ScalarRegion {
        let function = frame.function;
        let dtype = |&value: &ValueId| function.ty(value).dtype;
        let arguments = function.blocks[block].arguments.iter().map(dtype).collect();
        ScalarRegion { block, arguments, code: Code::new(frame, block) }
    }

    /// Appends the bits of the yields' parts for the bits of the arguments' parts.
    pub fn run(
        &mut self,
        frame: &mut Frame<'_>,
        arguments: &[u64],
        yields: &mut Vec<u64>,
    ) -> Result<(), String> {
        if let Some(code) = &mut self.code {
            code.run(arguments, yields);
            return Ok(());
        }
        let mut rest = arguments;
        let mut literals = Vec::new();
        for &dtype in &self.arguments {
            let (parts, after) = rest.split_at(dtype.parts() as usize);
            literals.push(Literal::scalar(dtype, parts));
            rest = after;
        }
        for literal in frame.region(self.block, &literals)? {
            yields.extend((0..literal.ty().dtype.parts()).map(|part| literal.bits(0, part)));
        }
        Ok(())
    }
}

/// Instructions in order, each register a slot.
struct Code {
    slots: Vec<u64>,
    types: Vec<RegType>,
    /// Slot, and the argument part it starts as.
    inputs: Vec<(usize, usize)>,
    steps: Vec<(usize, Inst)>,
    yields: Vec<usize>,
    /// Bits that stand behind the arguments: the captured values.
    captured: Vec<u64>,
}

impl Code {
    /// The region's code, or None where an op in it has no scalar body without branches.
    fn new(frame: &Frame<'_>, block: BlockId) -> Option<Code> {
        let function = frame.function;
        let data = &function.blocks[block];
        let scalar = |value: &ValueId| function.ty(*value).rank() == 0;
        for &op in &data.ops {
            let op_data = &function.ops[op];
            let plain = op_data.regions.is_empty()
                && op_data.operands.iter().chain(&op_data.results).all(scalar)
                && matches!(ops::lower(function, op), Lowering::Elements { .. } | Lowering::View);
            if !plain {
                return None;
            }
        }
        let mut e = Emitter::new(function, "region");
        let mut captured = Vec::new();
        let outside = captures(function, block);
        for &value in data.arguments.iter().chain(&outside) {
            let dtype = function.ty(value).dtype;
            let param = e.builder().param(dtype.part(), dtype.parts(), Access::Read);
            e.read_from(value, param);
        }
        for &value in &outside {
            let literal = frame.value(value).filter(|l| l.ty().rank() == 0)?;
            captured.extend((0..literal.ty().dtype.parts()).map(|part| literal.bits(0, part)));
        }
        let yields = data.yields.iter().flat_map(|&value| e.read(value, &[]).parts());
        let yields = yields.map(EntityRef::index).collect();
        Code::from_kernel(&e.finish(), yields, captured)
    }

    fn from_kernel(kernel: &Kernel, yields: Vec<usize>, captured: Vec<u64>) -> Option<Code> {
        let mut first = 0;
        let mut firsts = Vec::new();
        for param in kernel.params.values() {
            firsts.push(first);
            first += param.len as usize;
        }
        let mut code = Code {
            slots: vec![0; kernel.regs.len()],
            types: kernel.regs.values().map(|reg| reg.ty).collect(),
            inputs: Vec::new(),
            steps: Vec::new(),
            yields,
            captured,
        };
        for stmt in &kernel.body.stmts {
            let Stmt::Let(reg) = stmt else { return None };
            let Def::Inst(inst) = &kernel.regs[*reg].def else { return None };
            match inst {
                Inst::Load(param, at) => {
                    let input = firsts[param.index()] + at.as_constant()? as usize;
                    code.inputs.push((reg.index(), input));
                }
                Inst::Const(bits) => code.slots[reg.index()] = *bits,
                other => code.steps.push((reg.index(), other.clone())),
            }
        }
        Some(code)
    }

    fn run(&mut self, arguments: &[u64], yields: &mut Vec<u64>) {
        for &(slot, input) in &self.inputs {
            self.slots[slot] = match input.checked_sub(arguments.len()) {
                None => arguments[input],
                Some(position) => self.captured[position],
            };
        }
        for (slot, inst) in &self.steps {
            let bits = self.step(inst, self.types[*slot]);
            self.slots[*slot] = bits & mask(self.types[*slot]);
        }
        yields.extend(self.yields.iter().map(|&slot| self.slots[slot]));
    }

    fn step(&self, inst: &Inst, ty: RegType) -> u64 {
        let get = |reg: &jaxrs_kernel::Reg| Typed {
            ty: self.types[reg.index()],
            bits: self.slots[reg.index()],
        };
        let index = |at: &jaxrs_kernel::Affine| {
            at.terms.iter().fold(at.constant, |sum, (reg, by)| {
                sum.wrapping_add((self.slots[reg.index()] as i64).wrapping_mul(*by))
            })
        };
        match inst {
            Inst::Const(bits) => *bits,
            Inst::Index(at) => index(at) as u64,
            Inst::FloorDiv(at, by) => index(at).div_euclid(*by) as u64,
            Inst::Modulo(at, by) => index(at).rem_euclid(*by) as u64,
            Inst::Load(..) => unreachable!("loads are inputs"),
            Inst::Unary(op, a) => eval_unary(*op, get(a), ty),
            Inst::Binary(op, a, b) => eval_binary(*op, get(a), get(b)),
            Inst::Fma(a, b, c) => eval_fma(get(a), get(b), get(c)),
            Inst::Compare(op, kind, a, b) => u64::from(eval_compare(*op, *kind, get(a), get(b))),
            Inst::Select(condition, a, b) => {
                if get(condition).bits != 0 {
                    get(a).bits
                } else {
                    get(b).bits
                }
            }
            Inst::Cast(op, a) => eval_cast(*op, get(a), ty),
        }
    }
}

/// Whether every op of a region is over scalars and has a scalar body.
fn is_scalar(function: &Function, block: BlockId) -> bool {
    let rank_0 = |value: &ValueId| function.ty(*value).rank() == 0;
    function.blocks[block].ops.iter().all(|&op| {
        let data = &function.ops[op];
        data.regions.is_empty()
            && data.operands.iter().chain(&data.results).all(rank_0)
            && matches!(ops::lower(function, op), Lowering::Elements { .. } | Lowering::View)
    })
}

/// Whether a region can be emitted from its arguments alone: every op in it has a scalar body, and
/// it uses no value of outside.
pub fn is_closed(function: &Function, block: BlockId) -> bool {
    is_scalar(function, block) && captures(function, block).is_empty()
}

/// Values used in a block (not in regions inside it) that are defined outside, each once.
fn captures(function: &Function, block: BlockId) -> Vec<ValueId> {
    let data = &function.blocks[block];
    let mut known = data.arguments.clone();
    let mut outside = Vec::new();
    for &op in &data.ops {
        let op = &function.ops[op];
        outside.extend(op.operands.iter().filter(|v| !known.contains(v)));
        known.extend(&op.results);
    }
    outside.extend(data.yields.iter().filter(|v| !known.contains(v)));
    outside.sort_unstable();
    outside.dedup();
    outside
}
