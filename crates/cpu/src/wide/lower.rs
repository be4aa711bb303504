//! Writes a kernel as vector code.
//!
//! Everything is a vector: a value that is the same in all lanes is computed with all lanes equal,
//! outside of vector loops, too. `i8` and `i16` are zero-extended to 32-bit lanes, an `i1` is a
//! mask. Index arithmetic is in general registers.
//!
//! A loop chosen for lanes becomes two: one of whole vectors, several registers a value
//! ("chunks"), and one of single vectors under a mask for the rest.

use super::analysis::{Chosen, Classes, Lane, Shape};
use super::code::{Addr, Class, Code, Ins, Src, VReg};
use super::encode::{Enc, enc};
use super::near::Pending;
use super::tile;
use cranelift_entity::SecondaryMap;
use jaxrs_kernel::kernel::{Block, Carry, Def, Loop, Stmt};
use jaxrs_kernel::{Affine, Inst, Kernel, ParamId, Reg, RegType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Registers of a value, a chunk each.
pub(super) type Chunks = SmallVec<[VReg; 4]>;

/// What a kernel's register is here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Val {
    /// Not (or no longer) visible.
    #[default]
    None,
    /// A constant, by its bits.
    Const(u64),
    /// An index expression over registers that are not such expressions.
    Index(Affine),
    /// An `i64` in a general register.
    General(VReg),
    /// The variable of the lanes: the first lane's value in a general register.
    Lane(VReg),
    /// The same in all lanes.
    Uniform(VReg),
    /// A value a lane.
    Varying(Chunks),
}

/// Where the code is.
#[derive(Clone, Default)]
pub(super) struct Cx {
    /// Lanes of a register.
    pub(super) lanes: i64,
    /// Registers of a varying value.
    pub(super) chunks: usize,
    /// Lanes that are on, for each chunk; none if all are.
    pub(super) mask: Option<Chunks>,
    /// Classes of registers under the loop of the lanes; none outside of one.
    pub(super) classes: Option<std::rc::Rc<Classes>>,
}

/// An index expression in parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// General registers (those of the first lane) with their factors.
    pub(super) general: SmallVec<[(VReg, i64); 4]>,
    /// The difference from lane to lane.
    pub(super) step: i64,
    /// Registers that vary from lane to lane in other ways, with their factors.
    pub(super) varying: SmallVec<[(Reg, i64); 2]>,
    pub(super) constant: i64,
}

pub(super) type BaseKey = (ParamId, SmallVec<[(VReg, i64); 4]>);

pub(super) struct Lower<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) chosen: &'k Chosen,
    pub(super) code: Code,
    pub(super) values: SecondaryMap<Reg, Val>,
    /// Registers in the order of their definitions, to make them invisible again.
    defined: Vec<Reg>,
    pub(super) params: SecondaryMap<ParamId, Option<VReg>>,
    pub(super) range: (VReg, VReg),
    pub(super) bases: FxHashMap<BaseKey, VReg>,
    pub(super) base_log: Vec<BaseKey>,
    pub(super) firsts: FxHashMap<Reg, VReg>,
    pub(super) first_log: Vec<Reg>,
    constants: FxHashMap<Vec<u8>, u32>,
    /// The rows that a lanes loop goes through for each vector.
    pub(super) rows: Option<Rows<'k>>,
    /// The tile that the code is in the rows of.
    pub(super) tile: Option<tile::Rows>,
    /// Stores that wait for others.
    pub(super) pending: Option<Pending>,
    pub(super) cx: Cx,
}

/// A block of iterations of the loop around a lanes loop, run inside of it: where the lanes stride
/// over memory that those iterations read side by side, the cache lines are used while they last.
#[derive(Clone, Copy)]
pub(super) struct Rows<'k> {
    pub(super) outer: &'k Loop,
    pub(super) first: VReg,
    pub(super) end: VReg,
}

/// Iterations of a block.
pub(super) const ROWS: i64 = 16;

/// Marks to go back to at the end of a block.
pub(super) struct Mark {
    defined: usize,
    bases: usize,
    firsts: usize,
}

/// The kernel's code.
pub(crate) fn lower(kernel: &Kernel, chosen: &Chosen) -> Code {
    let mut code = Code::default();
    let [ptrs, lo, hi] = [0, 1, 2].map(|index| {
        let to = code.reg(Class::General);
        code.instructions.push(Ins::Argument { to, index });
        to
    });
    let mut lower = Lower {
        kernel,
        chosen,
        code,
        values: SecondaryMap::new(),
        defined: Vec::new(),
        params: SecondaryMap::new(),
        range: (lo, hi),
        bases: FxHashMap::default(),
        base_log: Vec::new(),
        firsts: FxHashMap::default(),
        first_log: Vec::new(),
        constants: FxHashMap::default(),
        rows: None,
        tile: None,
        pending: None,
        cx: Cx { lanes: 16, chunks: 1, mask: None, classes: None },
    };
    for param in kernel.params.keys() {
        let to = lower.code.reg(Class::General);
        let disp = 8 * param.as_u32() as i32;
        lower.put(Ins::LoadGeneral { to, at: Addr { base: ptrs, index: None, disp } });
        lower.params[param] = Some(to);
    }
    lower.block(&kernel.body);
    lower.code
}

/// Least and largest value of an index expression, saturating.
pub(super) fn bounds(kernel: &Kernel, at: &Affine) -> (i64, i64) {
    let (mut low, mut high) = (i128::from(at.constant), i128::from(at.constant));
    for &(reg, coefficient) in &at.terms {
        let (a, b) = kernel.regs[reg].bounds.unwrap_or((i64::MIN, i64::MAX));
        let (a, b) =
            (i128::from(a) * i128::from(coefficient), i128::from(b) * i128::from(coefficient));
        (low, high) = (low + a.min(b), high + a.max(b));
    }
    let narrow = |v: i128| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    (narrow(low), narrow(high))
}

pub(super) const SPLAT32: Enc = enc(2, 1, 0x58, false);
pub(super) const SPLAT64: Enc = enc(2, 1, 0x59, true);

impl<'k> Lower<'k> {
    pub(super) fn put(&mut self, ins: Ins) {
        self.code.instructions.push(ins);
    }

    pub(super) fn vector(&mut self) -> VReg {
        self.code.reg(Class::Vector)
    }

    pub(super) fn mask_reg(&mut self) -> VReg {
        self.code.reg(Class::Mask)
    }

    pub(super) fn general(&mut self) -> VReg {
        self.code.reg(Class::General)
    }

    pub(super) fn ty(&self, reg: Reg) -> RegType {
        self.kernel.regs[reg].ty
    }

    // ---- constants

    fn pool(&mut self, bytes: &[u8]) -> u32 {
        if let Some(&at) = self.constants.get(bytes) {
            return at;
        }
        let pool = &mut self.code.pool;
        pool.resize(pool.len().next_multiple_of(bytes.len().next_power_of_two()), 0);
        let at = pool.len() as u32;
        pool.extend_from_slice(bytes);
        self.constants.insert(bytes.to_vec(), at);
        at
    }

    /// A 32-bit constant in all lanes.
    pub(super) fn splat32(&mut self, bits: u32) -> Src {
        Src::Splat(self.pool(&bits.to_le_bytes()))
    }

    /// A constant in all lanes, of 64 or 32 bits.
    pub(super) fn splat(&mut self, wide: bool, bits: u64) -> Src {
        if wide { Src::Splat(self.pool(&bits.to_le_bytes())) } else { self.splat32(bits as u32) }
    }

    /// Where one element of constant stands, to be read by a broadcast instruction.
    pub(super) fn element(&mut self, wide: bool, bits: u64) -> Src {
        match self.splat(wide, bits) {
            Src::Splat(at) => Src::Whole(at),
            other => other,
        }
    }

    /// 64 bytes of constants.
    pub(super) fn whole(&mut self, bytes: &[u8; 64]) -> Src {
        Src::Whole(self.pool(bytes))
    }

    /// Lane numbers, those of a chunk, times a step.
    pub(super) fn steps(&mut self, wide: bool, chunk: usize, step: i64) -> Src {
        let first = chunk as i64 * self.cx.lanes;
        let mut bytes = [0; 64];
        if wide {
            for (lane, out) in bytes.chunks_exact_mut(8).enumerate() {
                out.copy_from_slice(&(first + lane as i64).wrapping_mul(step).to_le_bytes());
            }
        } else {
            for (lane, out) in bytes.chunks_exact_mut(4).enumerate() {
                let value = (first + lane as i64).wrapping_mul(step) as i32;
                out.copy_from_slice(&value.to_le_bytes());
            }
        }
        self.whole(&bytes)
    }

    // ---- visibility

    pub(super) fn mark(&self) -> Mark {
        Mark {
            defined: self.defined.len(),
            bases: self.base_log.len(),
            firsts: self.first_log.len(),
        }
    }

    pub(super) fn forget(&mut self, mark: &Mark) {
        for reg in self.defined.drain(mark.defined..) {
            self.values[reg] = Val::None;
        }
        for key in self.base_log.drain(mark.bases..) {
            self.bases.remove(&key);
        }
        for reg in self.first_log.drain(mark.firsts..) {
            self.firsts.remove(&reg);
        }
    }

    pub(super) fn set(&mut self, reg: Reg, value: Val) {
        self.values[reg] = value;
        self.defined.push(reg);
    }

    // ---- statements

    pub(super) fn block(&mut self, block: &'k Block) {
        self.statements(&block.stmts);
        self.flush_stores();
    }

    /// Statements after which stores may wait for those of the next ones.
    pub(super) fn statements(&mut self, stmts: &'k [Stmt]) {
        let kernel = self.kernel;
        for stmt in stmts {
            match stmt {
                Stmt::Let(reg) => {
                    let Def::Inst(inst) = &kernel.regs[*reg].def else {
                        unreachable!("{reg} is not an instruction")
                    };
                    let value = match inst {
                        Inst::Const(bits) => Val::Const(*bits),
                        Inst::Index(at) => Val::Index(self.expand(at)),
                        other => self.instruction(*reg, other),
                    };
                    self.set(*reg, value);
                }
                Stmt::Store { param, at, value } => self.store(*param, at, *value),
                Stmt::Loop(inner) => match self.chosen.get(&inner.var).copied() {
                    Some(shape @ Shape { tile: Some(tile), .. }) => {
                        self.tile_loop(inner, shape, tile);
                    }
                    Some(shape) => self.lanes_loop(inner, shape),
                    None => self.plain_loop(inner),
                },
                Stmt::If(inner) => {
                    self.flush_stores();
                    self.branch(inner);
                }
            }
        }
    }

    /// Whether a carry varies here.
    pub(super) fn varies(&self, carry: &Carry) -> bool {
        self.cx.classes.as_ref().is_some_and(|c| c[carry.inside] != Lane::Uniform)
    }

    pub(super) fn is_mask(&self, reg: Reg) -> bool {
        self.ty(reg) == RegType::I1
    }

    /// Fresh registers with the value of another register.
    pub(super) fn copies(&mut self, reg: Reg, count: usize) -> Chunks {
        (0..count)
            .map(|chunk| {
                if self.is_mask(reg) {
                    let from = self.mask_of(reg, chunk);
                    let to = self.mask_reg();
                    self.put(Ins::MaskCopy { to, from });
                    return to;
                }
                let from = self.src(reg, chunk);
                let to = self.vector();
                self.put(Ins::Copy { to, from, wide: self.ty(reg).bits() == 64 });
                to
            })
            .collect()
    }

    pub(super) fn assign(&mut self, to: VReg, reg: Reg, chunk: usize) {
        if self.is_mask(reg) {
            let from = self.mask_of(reg, chunk);
            self.put(Ins::MaskCopy { to, from });
        } else {
            let from = self.src(reg, chunk);
            self.put(Ins::Copy { to, from, wide: self.ty(reg).bits() == 64 });
        }
    }

    pub(super) fn value_of(&self, varies: bool, chunks: &Chunks) -> Val {
        if varies { Val::Varying(chunks.clone()) } else { Val::Uniform(chunks[0]) }
    }
}
