//! Writes a kernel as vector code.
//!
//! Everything is a vector: a value that is the same in all lanes is computed with all lanes equal,
//! outside of vector loops, too. `i8` and `i16` are zero-extended to 32-bit lanes, an `i1` is a
//! mask. Index arithmetic is in general registers.
//!
//! A loop chosen for lanes becomes two: one of whole vectors, several registers a value
//! ("chunks"), and one of single vectors under a mask for the rest.

use super::analysis::{self, Chosen, Classes, Lane, Shape};
use super::code::{Addr, Class, Code, Ins, Src, VReg};
use super::encode::{Cond, Enc, Length, enc};
use super::near::Pending;
use super::tile;
use cranelift_entity::SecondaryMap;
use jaxrs_kernel::kernel::{Block, Carry, Def, If, Loop, LoopKind, Stmt};
use jaxrs_kernel::{Affine, BinaryOp, Inst, Kernel, ParamId, Reg, RegType};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

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

type BaseKey = (ParamId, SmallVec<[(VReg, i64); 4]>);

pub(super) struct Lower<'k> {
    pub(super) kernel: &'k Kernel,
    chosen: &'k Chosen,
    pub(super) code: Code,
    pub(super) values: SecondaryMap<Reg, Val>,
    /// Registers in the order of their definitions, to make them invisible again.
    defined: Vec<Reg>,
    params: SecondaryMap<ParamId, Option<VReg>>,
    range: (VReg, VReg),
    bases: FxHashMap<BaseKey, VReg>,
    base_log: Vec<BaseKey>,
    firsts: FxHashMap<Reg, VReg>,
    first_log: Vec<Reg>,
    constants: FxHashMap<Vec<u8>, u32>,
    /// The rows that a lanes loop goes through for each vector.
    rows: Option<Rows<'k>>,
    /// The tile that the code is in the rows of.
    pub(super) tile: Option<tile::Rows>,
    /// Stores that wait for others.
    pub(super) pending: Option<Pending>,
    pub(super) cx: Cx,
}

/// A block of iterations of the loop around a lanes loop, run inside of it: where the lanes stride
/// over memory that those iterations read side by side, the cache lines are used while they last.
#[derive(Clone, Copy)]
struct Rows<'k> {
    outer: &'k Loop,
    first: VReg,
    end: VReg,
}

/// Iterations of a block.
const ROWS: i64 = 16;

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

    // ---- index arithmetic

    /// An index expression with other expressions put in their places.
    fn expand(&self, at: &Affine) -> Affine {
        let mut out = Affine::constant(at.constant);
        for &(reg, coefficient) in &at.terms {
            match &self.values[reg] {
                Val::Index(inner) => out = out.add(&inner.scale(coefficient)),
                Val::Const(bits) => out.constant += coefficient * *bits as i64,
                _ => out.add_term(reg, coefficient),
            }
        }
        out
    }

    /// The parts of an index expression; of the registers that are visible, if `partly`.
    fn parts_of(&mut self, at: &Affine, partly: bool) -> Parts {
        let at = self.expand(at);
        let mut parts = Parts { constant: at.constant, ..Parts::default() };
        for &(reg, coefficient) in &at.terms {
            let general = match &self.values[reg] {
                Val::None => {
                    assert!(partly, "{reg} is used before it is defined");
                    continue;
                }
                Val::General(general) => *general,
                Val::Lane(general) => {
                    parts.step += coefficient;
                    *general
                }
                Val::Uniform(vector) => {
                    let vector = *vector;
                    self.first(reg, vector)
                }
                Val::Varying(_) => {
                    parts.varying.push((reg, coefficient));
                    continue;
                }
                Val::Index(_) | Val::Const(_) => unreachable!("expanded"),
            };
            match parts.general.iter_mut().find(|t| t.0 == general) {
                Some(term) => term.1 += coefficient,
                None => parts.general.push((general, coefficient)),
            }
        }
        // Later registers belong to inner loops.
        parts.general.sort_by_key(|t| t.0);
        parts
    }

    pub(super) fn parts(&mut self, at: &Affine) -> Parts {
        self.parts_of(at, false)
    }

    /// A uniform `i64` as a general register.
    fn first(&mut self, reg: Reg, vector: VReg) -> VReg {
        if let Some(&general) = self.firsts.get(&reg) {
            return general;
        }
        let to = self.general();
        self.put(Ins::First { to, from: vector, wide: true });
        self.firsts.insert(reg, to);
        self.first_log.push(reg);
        to
    }

    pub(super) fn scaled(&mut self, a: VReg, by: i64) -> VReg {
        if by == 1 {
            return a;
        }
        let to = self.general();
        if let Ok(value) = i32::try_from(by) {
            if by > 0 && by & (by - 1) == 0 {
                let by = by.trailing_zeros() as u8;
                self.put(Ins::ShiftImm { extension: 4, to, a, by });
            } else {
                self.put(Ins::MulImm { to, a, value });
            }
            return to;
        }
        let b = self.immediate(by);
        self.put(Ins::Mul { to, a, b });
        to
    }

    pub(super) fn immediate(&mut self, value: i64) -> VReg {
        let to = self.general();
        self.put(Ins::Immediate { to, value });
        to
    }

    pub(super) fn plus(&mut self, a: VReg, value: i64) -> VReg {
        if value == 0 {
            return a;
        }
        let to = self.general();
        if let Ok(value) = i32::try_from(value) {
            self.put(Ins::AddImm { to, a, value });
        } else {
            let b = self.immediate(value);
            self.put(Ins::Add { to, a, b });
        }
        to
    }

    /// The sum of the general parts and the constant (of the first lane).
    pub(super) fn sum(&mut self, parts: &Parts) -> VReg {
        let mut sum: Option<VReg> = None;
        for &(general, factor) in &parts.general {
            let term = self.scaled(general, factor);
            sum = Some(match sum {
                None => term,
                Some(a) => {
                    let to = self.general();
                    self.put(Ins::Add { to, a, b: term });
                    to
                }
            });
        }
        match sum {
            Some(sum) => self.plus(sum, parts.constant),
            None => self.immediate(parts.constant),
        }
    }

    /// A parameter's address plus bytes for the terms, computed once where it is first needed.
    fn base(&mut self, param: ParamId, terms: &[(VReg, i64)]) -> VReg {
        let Some((&(general, bytes), before)) = terms.split_last() else {
            return self.params[param].expect("parameters are loaded first");
        };
        let key: BaseKey = (param, terms.iter().copied().collect());
        if let Some(&base) = self.bases.get(&key) {
            return base;
        }
        let before = self.base(param, before);
        let to = self.general();
        if matches!(bytes, 1 | 2 | 4 | 8) {
            let at = Addr { base: before, index: Some((general, bytes as u8)), disp: 0 };
            self.put(Ins::LoadAddress { to, at });
        } else {
            let b = self.scaled(general, bytes);
            self.put(Ins::Add { to, a: before, b });
        }
        self.bases.insert(key.clone(), to);
        self.base_log.push(key);
        to
    }

    /// The address of the element of the first lane, `more` bytes further on.
    pub(super) fn address(&mut self, param: ParamId, parts: &Parts, more: i64) -> Addr {
        let size = self.kernel.params[param].dtype.size() as i64;
        let mut terms: SmallVec<[(VReg, i64); 4]> =
            parts.general.iter().map(|&(g, factor)| (g, factor * size)).collect();
        let mut index = None;
        if let Some(&(general, bytes)) = terms.last()
            && matches!(bytes, 1 | 2 | 4 | 8)
        {
            index = Some((general, bytes as u8));
            terms.pop();
        }
        let base = self.base(param, &terms);
        let disp = parts.constant * size + more;
        match i32::try_from(disp) {
            Ok(disp) if disp.abs() < 1 << 30 => Addr { base, index, disp },
            _ => Addr { base: self.plus(base, disp), index, disp: 0 },
        }
    }

    /// Computes the loop-invariant parts of all addresses of a block that is about to be a loop's.
    pub(super) fn prepare_addresses(&mut self, block: &Block) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(reg) => {
                    let kernel = self.kernel;
                    if let Def::Inst(Inst::Load(param, at)) = &kernel.regs[*reg].def {
                        self.prepare_address(*param, at);
                    }
                }
                Stmt::Store { param, at, .. } => self.prepare_address(*param, at),
                Stmt::Loop(inner) => self.prepare_addresses(&inner.body),
                Stmt::If(inner) => {
                    self.prepare_addresses(&inner.then);
                    self.prepare_addresses(&inner.otherwise);
                }
            }
        }
    }

    fn prepare_address(&mut self, param: ParamId, at: &Affine) {
        if self.tile.as_ref().is_some_and(|rows| rows.has(param, at)) {
            return;
        }
        let size = self.kernel.params[param].dtype.size() as i64;
        let parts = self.parts_of(at, true);
        let terms: SmallVec<[(VReg, i64); 4]> =
            parts.general.iter().map(|&(g, factor)| (g, factor * size)).collect();
        self.base(param, &terms);
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

    /// First value and end of a loop, cut by the range.
    pub(super) fn loop_bounds(&mut self, inner: &Loop) -> (VReg, VReg) {
        let (start, end) = (self.immediate(inner.start), self.immediate(inner.end));
        if !inner.ranged {
            return (start, end);
        }
        let (first, last) = (self.general(), self.general());
        let (lo, hi) = self.range;
        self.put(Ins::Max { to: first, a: start, b: lo });
        self.put(Ins::Min { to: last, a: end, b: hi });
        (first, last)
    }

    /// Whether a carry varies here.
    fn varies(&self, carry: &Carry) -> bool {
        self.cx.classes.as_ref().is_some_and(|c| c[carry.inside] != Lane::Uniform)
    }

    fn is_mask(&self, reg: Reg) -> bool {
        self.ty(reg) == RegType::I1
    }

    /// Fresh registers with the value of another register.
    fn copies(&mut self, reg: Reg, count: usize) -> Chunks {
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

    fn assign(&mut self, to: VReg, reg: Reg, chunk: usize) {
        if self.is_mask(reg) {
            let from = self.mask_of(reg, chunk);
            self.put(Ins::MaskCopy { to, from });
        } else {
            let from = self.src(reg, chunk);
            self.put(Ins::Copy { to, from, wide: self.ty(reg).bits() == 64 });
        }
    }

    fn value_of(&self, varies: bool, chunks: &Chunks) -> Val {
        if varies { Val::Varying(chunks.clone()) } else { Val::Uniform(chunks[0]) }
    }

    /// A loop one iteration at a time, perhaps in lanes of an outer loop.
    fn plain_loop(&mut self, inner: &'k Loop) {
        let trips = inner.end - inner.start;
        let statements = trips * inner.body.stmts.len() as i64;
        // The parts of a point, whose accesses are then handled together.
        let point = self.cx.classes.is_some() && trips <= 4 && statements <= 400;
        let small = (statements <= 48 && trips <= 8) || point;
        let flat = inner.body.stmts.iter().all(|s| matches!(s, Stmt::Let(_) | Stmt::Store { .. }));
        if small && flat && !inner.ranged {
            self.unrolled_loop(inner);
            return;
        }
        self.flush_stores();
        if let Some((lanes, shape)) = self.strided_lanes(inner) {
            self.rows_loop(inner, lanes, shape);
            return;
        }
        let mut carried: Vec<(bool, Chunks)> = Vec::new();
        for carry in &inner.carries {
            let varies = self.varies(carry);
            let count = if varies { self.cx.chunks } else { 1 };
            carried.push((varies, self.copies(carry.init, count)));
        }
        let (start, end) = self.loop_bounds(inner);
        let var = self.general();
        self.put(Ins::Move { to: var, from: start });
        let (top, exit) = (self.code.label(), self.code.label());
        let outer = self.mark();
        self.prepare_addresses(&inner.body);
        if inner.ranged {
            self.put(Ins::CompareJump { a: var, b: end, cond: Cond::GreaterEqual, label: exit });
        }
        self.put(Ins::Bind { label: top, is_loop: true });
        let mark = self.mark();
        self.set(inner.var, Val::General(var));
        for (carry, (varies, chunks)) in inner.carries.iter().zip(&carried) {
            let value = self.value_of(*varies, chunks);
            self.set(carry.inside, value);
        }
        self.block(&inner.body);
        self.hand_over(inner, &carried);
        self.put(Ins::AddImm { to: var, a: var, value: 1 });
        self.forget(&mark);
        if inner.ranged || i32::try_from(inner.end).is_err() {
            self.put(Ins::CompareJump { a: var, b: end, cond: Cond::Less, label: top });
        } else {
            let value = inner.end as i32;
            self.put(Ins::CompareJumpImm { a: var, value, cond: Cond::Less, label: top });
        }
        self.put(Ins::Bind { label: exit, is_loop: false });
        // Addresses prepared before an empty loop are good, too, but not worth a register.
        self.forget(&outer);
        for (carry, (varies, chunks)) in inner.carries.iter().zip(&carried) {
            let value = self.value_of(*varies, chunks);
            self.set(carry.result, value);
        }
    }

    /// The one lanes loop in a loop's body, if it strides over what the loop reads side by side.
    fn strided_lanes(&self, outer: &'k Loop) -> Option<(&'k Loop, Shape)> {
        let (last, before) = outer.body.stmts.split_last()?;
        let Stmt::Loop(inner) = last else { return None };
        let shape = self.chosen.get(&inner.var).filter(|shape| shape.tile.is_none())?;
        let kernel = self.kernel;
        let computes = |s: &Stmt| match s {
            Stmt::Let(reg) => !matches!(kernel.regs[*reg].def, Def::Inst(Inst::Load(..))),
            Stmt::Store { .. } | Stmt::Loop(_) | Stmt::If(_) => false,
        };
        let both = outer.kind == LoopKind::Parallel && inner.kind == LoopKind::Parallel;
        let long = outer.end - outer.start >= 4 && inner.end - inner.start >= shape.lanes;
        if !both || !long || self.cx.classes.is_some() || !before.iter().all(computes) {
            return None;
        }
        let strides = strides_along(kernel, &inner.body, inner.var, outer.var);
        strides.then_some((&**inner, Shape { lanes: shape.lanes, chunks: 1, tile: None }))
    }

    /// A loop in blocks of rows, each block run for every vector of the lanes loop inside.
    fn rows_loop(&mut self, outer: &'k Loop, lanes: &'k Loop, shape: Shape) {
        let (start, end) = self.loop_bounds(outer);
        let first = self.general();
        self.put(Ins::Move { to: first, from: start });
        let (top, exit) = (self.code.label(), self.code.label());
        let mark = self.mark();
        self.prepare_addresses(&outer.body);
        let (cond, label) = (Cond::GreaterEqual, exit);
        self.put(Ins::CompareJump { a: first, b: end, cond, label });
        self.put(Ins::Bind { label: top, is_loop: true });
        let last = self.plus(first, ROWS);
        let stop = self.general();
        self.put(Ins::Min { to: stop, a: last, b: end });
        self.rows = Some(Rows { outer, first, end: stop });
        self.lanes_loop(lanes, shape);
        self.rows = None;
        self.put(Ins::AddImm { to: first, a: first, value: ROWS as i32 });
        self.put(Ins::CompareJump { a: first, b: end, cond: Cond::Less, label: top });
        self.put(Ins::Bind { label: exit, is_loop: false });
        self.forget(&mark);
    }

    /// A block of rows for the vector at hand.
    fn rows_iteration(&mut self, rows: Rows<'k>, inner: &'k Loop) {
        self.prepare_addresses(&inner.body);
        let var = self.general();
        self.put(Ins::Move { to: var, from: rows.first });
        let top = self.code.label();
        self.put(Ins::Bind { label: top, is_loop: true });
        let mark = self.mark();
        self.set(rows.outer.var, Val::General(var));
        let (_, before) = rows.outer.body.stmts.split_last().expect("it holds the lanes loop");
        self.statements(before);
        self.block(&inner.body);
        self.forget(&mark);
        self.put(Ins::AddImm { to: var, a: var, value: 1 });
        self.put(Ins::CompareJump { a: var, b: rows.end, cond: Cond::Less, label: top });
    }

    /// Moves the carries' next values to their registers, all at once.
    fn hand_over(&mut self, inner: &Loop, carried: &[(bool, Chunks)]) {
        let mut moves = Vec::new();
        for (carry, (_, chunks)) in inner.carries.iter().zip(carried) {
            for (chunk, &to) in chunks.iter().enumerate() {
                moves.push((to, carry.next, chunk));
            }
        }
        let several = inner.carries.len() > 1
            && inner.carries.iter().any(|c| {
                let next = &self.values[c.next];
                carried.iter().any(|(_, chunks)| match next {
                    Val::Uniform(reg) => chunks.contains(reg),
                    Val::Varying(regs) => regs.iter().any(|r| chunks.contains(r)),
                    _ => false,
                })
            });
        if !several {
            for (to, next, chunk) in moves {
                self.assign(to, next, chunk);
            }
            return;
        }
        // A next value is another carry's register: by way of copies.
        let copies: Vec<VReg> = moves
            .iter()
            .map(|&(_, next, chunk)| {
                let mask = self.is_mask(next);
                let copy = if mask { self.mask_reg() } else { self.vector() };
                self.assign(copy, next, chunk);
                copy
            })
            .collect();
        for ((to, next, _), from) in moves.into_iter().zip(copies) {
            if self.is_mask(next) {
                self.put(Ins::MaskCopy { to, from });
            } else {
                self.put(Ins::Copy { to, from: Src::Reg(from), wide: true });
            }
        }
    }

    fn unrolled_loop(&mut self, inner: &'k Loop) {
        let mut values: Vec<Val> =
            inner.carries.iter().map(|c| self.values[c.init].clone()).collect();
        for at in inner.start..inner.end {
            let mark = self.mark();
            self.set(inner.var, Val::Const(at as u64));
            for (carry, value) in inner.carries.iter().zip(values) {
                self.set(carry.inside, value);
            }
            self.statements(&inner.body.stmts);
            values = inner.carries.iter().map(|c| self.values[c.next].clone()).collect();
            self.forget(&mark);
        }
        for (carry, value) in inner.carries.iter().zip(values) {
            self.set(carry.result, value);
        }
    }

    /// A loop whose iterations become lanes.
    fn lanes_loop(&mut self, inner: &'k Loop, shape: Shape) {
        self.flush_stores();
        let stride = shape.lanes * shape.chunks;
        let trips = inner.end - inner.start;
        let (start, end) = self.loop_bounds(inner);
        let var = self.general();
        self.put(Ins::Move { to: var, from: start });
        let outer_cx = self.cx.clone();
        let classes = std::rc::Rc::new(analysis::classify(self.kernel, inner));
        self.cx = Cx {
            lanes: shape.lanes,
            chunks: shape.chunks as usize,
            mask: None,
            classes: Some(classes),
        };
        let carried: Vec<(bool, Chunks)> = inner
            .carries
            .iter()
            .map(|carry| {
                let op = carry.op.expect("a reduce loop names its instructions");
                (true, self.identities(op, self.ty(carry.inside)))
            })
            .collect();
        let outer = self.mark();
        self.prepare_addresses(&inner.body);
        let rest = self.code.label();
        if inner.ranged || trips >= stride {
            let limit = self.plus(end, 1 - stride);
            if inner.ranged {
                let (cond, label) = (Cond::GreaterEqual, rest);
                self.put(Ins::CompareJump { a: var, b: limit, cond, label });
            }
            let top = self.code.label();
            self.put(Ins::Bind { label: top, is_loop: true });
            let mark = self.mark();
            self.iteration(inner, var, &carried);
            self.hand_over_lanes(inner, &carried);
            self.forget(&mark);
            self.put(Ins::AddImm { to: var, a: var, value: stride as i32 });
            self.put(Ins::CompareJump { a: var, b: limit, cond: Cond::Less, label: top });
        }
        self.put(Ins::Bind { label: rest, is_loop: false });
        if inner.ranged || trips % stride != 0 {
            self.masked_rest(inner, var, end, &carried);
        }
        self.forget(&outer);
        self.reduce_lanes(inner, &carried, &outer_cx);
    }

    /// One iteration of a lanes loop, leaving the next values visible until `hand_over_lanes`.
    fn iteration(&mut self, inner: &'k Loop, var: VReg, carried: &[(bool, Chunks)]) {
        self.set(inner.var, Val::Lane(var));
        for (carry, (_, chunks)) in inner.carries.iter().zip(carried) {
            let count = self.cx.chunks;
            self.set(carry.inside, Val::Varying(chunks[..count].iter().copied().collect()));
        }
        match self.rows {
            Some(rows) => self.rows_iteration(rows, inner),
            None => self.block(&inner.body),
        }
    }

    fn hand_over_lanes(&mut self, inner: &Loop, carried: &[(bool, Chunks)]) {
        for (carry, (_, chunks)) in inner.carries.iter().zip(carried) {
            for chunk in 0..self.cx.chunks {
                let to = chunks[chunk];
                let Some(masks) = self.cx.mask.clone() else {
                    self.assign(to, carry.next, chunk);
                    continue;
                };
                if self.is_mask(carry.next) {
                    let next = self.mask_of(carry.next, chunk);
                    let value = self.choose_mask(masks[chunk], next, to);
                    self.put(Ins::MaskCopy { to, from: value });
                } else {
                    let ty = self.ty(carry.next);
                    let (wide, length) = (ty.bits() == 64, self.length(ty));
                    let b = self.src(carry.next, chunk);
                    let a = Src::Reg(to);
                    self.put(Ins::Blend { wide, length, to, mask: masks[chunk], a, b });
                }
            }
        }
    }

    /// The iterations that do not fill whole vectors.
    fn masked_rest(&mut self, inner: &'k Loop, var: VReg, end: VReg, carried: &[(bool, Chunks)]) {
        let (top, done) = (self.code.label(), self.code.label());
        let mark = self.mark();
        self.cx.chunks = 1;
        self.put(Ins::CompareJump { a: var, b: end, cond: Cond::GreaterEqual, label: done });
        self.put(Ins::Bind { label: top, is_loop: true });
        let left = self.general();
        self.put(Ins::Sub { to: left, a: end, b: var });
        let mask = self.first_lanes(left);
        self.cx.mask = Some(smallvec![mask]);
        self.iteration(inner, var, carried);
        self.hand_over_lanes(inner, carried);
        self.forget(&mark);
        self.put(Ins::AddImm { to: var, a: var, value: self.cx.lanes as i32 });
        self.put(Ins::CompareJump { a: var, b: end, cond: Cond::Less, label: top });
        self.put(Ins::Bind { label: done, is_loop: false });
    }

    /// A mask of as many first lanes as a general register says, or all.
    pub(super) fn first_lanes(&mut self, count: VReg) -> VReg {
        let (spread, to) = (self.vector(), self.mask_reg());
        self.put(Ins::Spread { to: spread, from: count, wide: false });
        let length = if self.cx.lanes == 16 { Length::Zmm } else { Length::Ymm };
        let (enc, a, b) = (enc(3, 1, 0x1f, false), Src::Reg(spread), self.steps(false, 0, 1));
        self.put(Ins::Compare { enc, length, to, a, b, imm: Some(6) });
        to
    }

    /// Combines the lanes' partial results and the initial values.
    fn reduce_lanes(&mut self, inner: &Loop, carried: &[(bool, Chunks)], outer: &Cx) {
        for (carry, (_, chunks)) in inner.carries.iter().zip(carried) {
            let op = carry.op.expect("a reduce loop names its instructions");
            let ty = self.ty(carry.inside);
            let mut parts: Vec<VReg> = chunks.to_vec();
            while parts.len() > 1 {
                let half = parts.len() / 2;
                parts =
                    (0..half).map(|n| self.combine(op, ty, parts[n], parts[n + half])).collect();
            }
            let all = self.across_lanes(op, ty, parts[0]);
            self.set(carry.result, Val::Uniform(all));
        }
        self.cx = outer.clone();
        for carry in &inner.carries {
            let op = carry.op.expect("a reduce loop names its instructions");
            let ty = self.ty(carry.inside);
            let Val::Uniform(lanes) = self.values[carry.result] else { unreachable!("set above") };
            let value = if ty == RegType::I1 {
                let init = self.mask_of(carry.init, 0);
                self.combine(op, ty, init, lanes)
            } else {
                let init = self.register(carry.init, 0);
                self.combine(op, ty, init, lanes)
            };
            self.values[carry.result] = Val::Uniform(value);
        }
    }

    /// The operation's neutral element in all lanes of all chunks.
    fn identities(&mut self, op: BinaryOp, ty: RegType) -> Chunks {
        let bits = identity(op, ty);
        (0..self.cx.chunks)
            .map(|_| {
                if ty == RegType::I1 {
                    return self.mask_constant(bits != 0);
                }
                let wide = ty.bits() == 64;
                let (to, from) = (self.vector(), self.splat(wide, bits));
                self.put(Ins::Copy { to, from, wide });
                to
            })
            .collect()
    }

    fn branch(&mut self, inner: &'k If) {
        match self.values[inner.condition].clone() {
            Val::Const(bits) => {
                let (block, side) =
                    if bits != 0 { (&inner.then, 1) } else { (&inner.otherwise, 2) };
                self.block(block);
                for &(result, a, b) in &inner.results {
                    let value = self.values[if side == 1 { a } else { b }].clone();
                    self.set(result, value);
                }
            }
            Val::Uniform(mask) => self.uniform_branch(inner, mask),
            Val::Varying(masks) => self.masked_branch(inner, &masks),
            other => unreachable!("a condition is a mask, not {other:?}"),
        }
    }

    fn uniform_branch(&mut self, inner: &'k If, mask: VReg) {
        let (otherwise, exit) = (self.code.label(), self.code.label());
        let varies: Vec<bool> = inner
            .results
            .iter()
            .map(|&(result, ..)| {
                self.cx.classes.as_ref().is_some_and(|c| c[result] != Lane::Uniform)
            })
            .collect();
        let outs: Vec<Chunks> = inner
            .results
            .iter()
            .zip(&varies)
            .map(|(&(result, ..), &varies)| {
                let count = if varies { self.cx.chunks } else { 1 };
                let mask = self.is_mask(result);
                let fresh = |_| {
                    if mask { self.code.reg(Class::Mask) } else { self.code.reg(Class::Vector) }
                };
                (0..count).map(fresh).collect()
            })
            .collect();
        self.put(Ins::JumpUnless { mask, bits: 1, label: otherwise });
        for (block, first) in [(&inner.then, true), (&inner.otherwise, false)] {
            let mark = self.mark();
            self.block(block);
            for (&(_, a, b), out) in inner.results.iter().zip(&outs) {
                for (chunk, &to) in out.iter().enumerate() {
                    self.assign(to, if first { a } else { b }, chunk);
                }
            }
            self.forget(&mark);
            if first {
                self.put(Ins::Jump { label: exit });
                self.put(Ins::Bind { label: otherwise, is_loop: false });
            }
        }
        self.put(Ins::Bind { label: exit, is_loop: false });
        for ((&(result, ..), out), varies) in inner.results.iter().zip(&outs).zip(varies) {
            let value = self.value_of(varies, out);
            self.set(result, value);
        }
    }

    /// Both sides run, each with its lanes on, unless it has none.
    fn masked_branch(&mut self, inner: &'k If, condition: &Chunks) {
        let outer = self.cx.mask.clone();
        let mut sides: Vec<Vec<Chunks>> = Vec::new();
        for (block, then) in [(&inner.then, true), (&inner.otherwise, false)] {
            let masks: Chunks = condition
                .iter()
                .enumerate()
                .map(|(chunk, &c)| {
                    let to = self.mask_reg();
                    match (&outer, then) {
                        (None, true) => return c,
                        (None, false) => self.put(Ins::MaskNot { to, a: c }),
                        (Some(on), true) => {
                            self.put(Ins::MaskBinary { opcode: 0x41, to, a: c, b: on[chunk] });
                        }
                        (Some(on), false) => {
                            self.put(Ins::MaskBinary { opcode: 0x42, to, a: c, b: on[chunk] });
                        }
                    }
                    to
                })
                .collect();
            let results: Vec<Reg> =
                inner.results.iter().map(|&(_, a, b)| if then { a } else { b }).collect();
            sides.push(self.masked_side(block, masks, &results));
        }
        self.cx.mask = outer;
        let otherwise = sides.pop().expect("two sides");
        let then = sides.pop().expect("two sides");
        for (n, &(result, ..)) in inner.results.iter().enumerate() {
            let ty = self.ty(result);
            let chunks: Chunks = (0..condition.len())
                .map(|chunk| {
                    let (a, b) = (then[n][chunk], otherwise[n][chunk]);
                    if ty == RegType::I1 {
                        return self.choose_mask(condition[chunk], a, b);
                    }
                    let to = self.vector();
                    let (wide, length) = (ty.bits() == 64, self.length(ty));
                    let (mask, a, b) = (condition[chunk], Src::Reg(b), Src::Reg(a));
                    self.put(Ins::Blend { wide, length, to, mask, a, b });
                    to
                })
                .collect();
            self.set(result, Val::Varying(chunks));
        }
    }

    /// One side of a branch under masks; gives its results' registers.
    fn masked_side(&mut self, block: &'k Block, masks: Chunks, results: &[Reg]) -> Vec<Chunks> {
        let chunks = masks.len();
        let mark = self.mark();
        let skip = self.code.label();
        if needs_lanes(self.kernel, block) {
            let mut any = masks[0];
            for &mask in &masks[1..] {
                let to = self.mask_reg();
                self.put(Ins::MaskBinary { opcode: 0x45, to, a: any, b: mask });
                any = to;
            }
            let bits = if self.cx.lanes == 16 { 0xffff } else { 0xff };
            self.put(Ins::JumpUnless { mask: any, bits, label: skip });
        }
        self.cx.mask = Some(masks);
        self.block(block);
        // What is copied inside the skipped part is read only where lanes are on.
        let out = results.iter().map(|&reg| self.copies(reg, chunks)).collect();
        self.put(Ins::Bind { label: skip, is_loop: false });
        self.forget(&mark);
        out
    }

    /// `a` where the mask is on, else `b`.
    pub(super) fn choose_mask(&mut self, mask: VReg, a: VReg, b: VReg) -> VReg {
        let (x, y, to) = (self.mask_reg(), self.mask_reg(), self.mask_reg());
        self.put(Ins::MaskBinary { opcode: 0x41, to: x, a: mask, b: a });
        self.put(Ins::MaskBinary { opcode: 0x42, to: y, a: mask, b });
        self.put(Ins::MaskBinary { opcode: 0x45, to, a: x, b: y });
        to
    }
}

/// Whether the lanes' variable strides in a load along which another variable steps by one.
fn strides_along(kernel: &Kernel, block: &Block, lanes: Reg, other: Reg) -> bool {
    block.stmts.iter().any(|stmt| match stmt {
        Stmt::Let(reg) => match &kernel.regs[*reg].def {
            Def::Inst(Inst::Load(_, at)) => {
                at.coefficient(lanes).abs() > 1 && at.coefficient(other) == 1
            }
            _ => false,
        },
        Stmt::Store { .. } => false,
        Stmt::Loop(inner) => strides_along(kernel, &inner.body, lanes, other),
        Stmt::If(inner) => {
            strides_along(kernel, &inner.then, lanes, other)
                || strides_along(kernel, &inner.otherwise, lanes, other)
        }
    })
}

/// Whether a block must not run without lanes, or is too long to run for nothing.
fn needs_lanes(kernel: &Kernel, block: &Block) -> bool {
    block.stmts.len() > 30
        || block.stmts.iter().any(|stmt| match stmt {
            Stmt::Let(reg) => matches!(kernel.regs[*reg].def, Def::Inst(Inst::Load(..))),
            Stmt::Store { .. } | Stmt::Loop(_) => true,
            Stmt::If(inner) => {
                needs_lanes(kernel, &inner.then) || needs_lanes(kernel, &inner.otherwise)
            }
        })
}

/// The neutral element of a reduction's instruction.
fn identity(op: BinaryOp, ty: RegType) -> u64 {
    let bits = ty.bits();
    let all = jaxrs_kernel::inst::mask(ty);
    let float = |value: f64| match ty {
        RegType::F32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    };
    match op {
        BinaryOp::Add if ty.is_float() => float(-0.0),
        BinaryOp::Mul if ty.is_float() => float(1.0),
        BinaryOp::Mul => 1,
        BinaryOp::MinF => float(f64::INFINITY),
        BinaryOp::MaxF => float(f64::NEG_INFINITY),
        BinaryOp::MinS => all >> 1,
        BinaryOp::MaxS => 1 << (bits - 1),
        BinaryOp::MinU | BinaryOp::And => all,
        _ => 0,
    }
}
