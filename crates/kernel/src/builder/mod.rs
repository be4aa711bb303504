//! Builds kernels: value numbering, index simplification, and loops that split where a guard on
//! their variable changes.
//!
//! * An instruction is placed in the outermost open block in which its operands are known, so
//!   that loop-invariant code never stands in a loop. It is not moved out of a branch. A load from
//!   a parameter that the kernel writes stays where it is.
//! * Equal instructions visible from the current block are one register.
//! * A loop built by [`parallel`] or [`reduce`] with [`LoopOptions::split`] is first built once on
//!   trial to collect the values at which [`KernelBuilder::in_range`] guards on its variable
//!   change, then once for each stretch between them, where the guards are decided.

mod index;
mod loops;
#[cfg(test)]
mod tests;

pub use loops::{branch, parallel, reduce};

use crate::affine::Affine;
use crate::dtype::{DType, RegType};
use crate::inst::{
    self, BinaryOp, CastOp, Compare, CompareKind, Inst, Typed, UnaryOp, eval_binary, eval_cast,
    eval_compare, eval_fma, eval_unary,
};
use crate::kernel::{
    Access, Block, Carry, Def, If, Kernel, Loop, LoopKind, Param, ParamId, Reg, RegData, Stmt,
};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// With more pieces than this a loop keeps guards in the shortest ones.
const MAX_PIECES: usize = 9;
/// The same where its pieces would be more than so many instructions, loops inside them split, too.
const MAX_CODE: usize = 40_000;

/// What makes instructions equal.
type Key = (Inst, RegType);

/// Builds one kernel. See the module's documentation.
pub struct KernelBuilder {
    kernel: Kernel,
    frames: Vec<Frame>,
    depth: SecondaryMap<Reg, u32>,
    numbered: FxHashMap<(Inst, RegType), (Reg, u32)>,
    undo: Vec<(Key, Option<(Reg, u32)>)>,
    serial: u32,
    trials: u32,
    /// How many pieces the open loops have been split into, multiplied.
    copies: usize,
}

struct Frame {
    block: Block,
    serial: u32,
    kind: FrameKind,
    cuts: BTreeSet<i64>,
}

enum FrameKind {
    Root,
    Loop { var: Reg, start: i64, end: i64, ranged: bool, kind: LoopKind, carries: Vec<Carry> },
    Then { condition: Reg },
    Else { condition: Reg, then: Block, then_values: Vec<Reg> },
}

/// Names a block while it is open; for memo tables kept beside a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    depth: u32,
    serial: u32,
}

/// A guard, decided when the bounds of its expression allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// True for every iteration.
    Always,
    /// False for every iteration.
    Never,
    /// An `i1` register.
    When(Reg),
}

/// How to build a loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopOptions {
    /// The kernel's range cuts it (top level only).
    pub ranged: bool,
    /// Split it where guards on its variable change.
    pub split: bool,
}

struct Trial {
    lengths: Vec<usize>,
    undo: usize,
    registers: usize,
}

impl KernelBuilder {
    /// An empty kernel.
    pub fn new(name: impl Into<String>) -> KernelBuilder {
        KernelBuilder {
            kernel: Kernel {
                name: name.into(),
                params: PrimaryMap::new(),
                regs: PrimaryMap::new(),
                body: Block::default(),
                range: None,
            },
            frames: vec![Frame {
                block: Block::default(),
                serial: 0,
                kind: FrameKind::Root,
                cuts: BTreeSet::new(),
            }],
            depth: SecondaryMap::new(),
            numbered: FxHashMap::default(),
            undo: Vec::new(),
            serial: 0,
            trials: 0,
            copies: 1,
        }
    }

    /// Adds a parameter: a buffer of `len` elements of a type that is not complex.
    pub fn param(&mut self, dtype: DType, len: u64, access: Access) -> ParamId {
        assert!(!dtype.is_complex(), "a complex buffer is twice as many floats");
        self.kernel.params.push(Param { dtype, len, access })
    }

    /// Says that a parameter that is written is read, too.
    pub fn also_read(&mut self, param: ParamId) {
        let access = &mut self.kernel.params[param].access;
        if *access == Access::Write {
            *access = Access::ReadWrite;
        }
    }

    /// Sets the number of values of the outer index; without it the kernel runs whole.
    pub fn set_range(&mut self, extent: u64) {
        self.kernel.range = Some(extent);
    }

    /// The finished kernel.
    pub fn finish(mut self) -> Kernel {
        let root = self.frames.pop().expect("the root block");
        assert!(self.frames.is_empty(), "a block is still open");
        self.kernel.body = root.block;
        self.kernel
    }

    /// The type of a register.
    pub fn ty(&self, reg: Reg) -> RegType {
        self.kernel.regs[reg].ty
    }

    /// The parameter's description.
    pub fn param_data(&self, param: ParamId) -> &Param {
        &self.kernel.params[param]
    }

    /// The bits of a register that is a constant.
    pub fn as_const(&self, reg: Reg) -> Option<u64> {
        match &self.kernel.regs[reg].def {
            Def::Inst(Inst::Const(bits)) => Some(*bits),
            Def::Inst(Inst::Index(affine)) => affine.as_constant().map(|c| c as u64),
            _ => None,
        }
    }

    /// The current block, to tell later whether it is still open.
    pub fn scope(&self) -> Scope {
        let depth = self.frames.len() as u32 - 1;
        Scope { depth, serial: self.frames[depth as usize].serial }
    }

    /// Whether registers made in that block are visible.
    pub fn is_open(&self, scope: Scope) -> bool {
        self.frames.get(scope.depth as usize).is_some_and(|f| f.serial == scope.serial)
    }

    /// A constant of the type, by its bits.
    pub fn constant(&mut self, ty: RegType, bits: u64) -> Reg {
        self.place(Inst::Const(bits & inst::mask(ty)), ty, 0)
    }

    /// An `f32` constant.
    pub fn f32(&mut self, value: f32) -> Reg {
        self.constant(RegType::F32, inst::bits32(value))
    }

    /// An `f64` constant.
    pub fn f64(&mut self, value: f64) -> Reg {
        self.constant(RegType::F64, value.to_bits())
    }

    /// A float constant of type `ty`, rounded to it.
    pub fn float(&mut self, ty: RegType, value: f64) -> Reg {
        if ty == RegType::F32 { self.f32(value as f32) } else { self.f64(value) }
    }

    /// An integer constant of type `ty`, wrapped to it.
    pub fn int(&mut self, ty: RegType, value: i64) -> Reg {
        self.constant(ty, value as u64)
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) -> Reg {
        self.constant(RegType::I1, u64::from(value))
    }

    fn typed(&self, reg: Reg) -> Option<Typed> {
        self.as_const(reg).map(|bits| Typed { ty: self.ty(reg), bits })
    }

    /// A unary instruction.
    pub fn unary(&mut self, op: UnaryOp, a: Reg) -> Reg {
        let ty = match op {
            UnaryOp::BitsBf16 | UnaryOp::BitsF16 => RegType::I16,
            UnaryOp::FromBitsBf16 | UnaryOp::FromBitsF16 => RegType::F32,
            _ => self.ty(a),
        };
        if let Some(value) = self.typed(a) {
            return self.constant(ty, eval_unary(op, value, ty));
        }
        self.emit(Inst::Unary(op, a), ty)
    }

    /// A binary instruction; both operands have one type.
    pub fn binary(&mut self, op: BinaryOp, a: Reg, b: Reg) -> Reg {
        let ty = self.ty(a);
        debug_assert_eq!(ty, self.ty(b), "operands of {op:?}");
        if let (Some(x), Some(y)) = (self.typed(a), self.typed(b)) {
            return self.constant(ty, eval_binary(op, x, y));
        }
        self.emit(Inst::Binary(op, a, b), ty)
    }

    /// `a * b + c` rounded once.
    pub fn fma(&mut self, a: Reg, b: Reg, c: Reg) -> Reg {
        let ty = self.ty(a);
        if let (Some(x), Some(y), Some(z)) = (self.typed(a), self.typed(b), self.typed(c)) {
            return self.constant(ty, eval_fma(x, y, z));
        }
        self.emit(Inst::Fma(a, b, c), ty)
    }

    /// A comparison.
    pub fn compare(&mut self, op: Compare, kind: CompareKind, a: Reg, b: Reg) -> Reg {
        debug_assert_eq!(self.ty(a), self.ty(b), "operands of compare {op:?}");
        if let (Some(x), Some(y)) = (self.typed(a), self.typed(b)) {
            return self.bool(eval_compare(op, kind, x, y));
        }
        self.emit(Inst::Compare(op, kind, a, b), RegType::I1)
    }

    /// `a` where `condition`, else `b`; both are computed.
    pub fn select(&mut self, condition: Reg, a: Reg, b: Reg) -> Reg {
        let ty = self.ty(a);
        debug_assert_eq!(ty, self.ty(b), "operands of select");
        match self.as_const(condition) {
            Some(0) => b,
            Some(_) => a,
            None if a == b => a,
            None => self.emit(Inst::Select(condition, a, b), ty),
        }
    }

    /// A conversion to `ty`.
    pub fn cast(&mut self, op: CastOp, a: Reg, ty: RegType) -> Reg {
        if op == CastOp::Bitcast && self.ty(a) == ty {
            return a;
        }
        if let Some(value) = self.typed(a) {
            return self.constant(ty, eval_cast(op, value, ty));
        }
        self.emit(Inst::Cast(op, a), ty)
    }

    /// The element of a parameter at a position.
    pub fn load(&mut self, param: ParamId, at: Affine) -> Reg {
        let at = self.recombined(at);
        let data = &self.kernel.params[param];
        let (ty, read_only) = (data.dtype.reg(), data.access == Access::Read);
        if read_only {
            return self.emit(Inst::Load(param, at), ty);
        }
        let reg = self.new_reg(ty, Def::Inst(Inst::Load(param, at)), None);
        self.frame().block.stmts.push(Stmt::Let(reg));
        reg
    }

    /// Writes an element of a parameter.
    pub fn store(&mut self, param: ParamId, at: Affine, value: Reg) {
        debug_assert_eq!(self.kernel.params[param].dtype.reg(), self.ty(value), "stored value");
        let at = self.recombined(at);
        self.frame().block.stmts.push(Stmt::Store { param, at, value });
    }

    // ---- loops and branches, as brackets; `parallel`, `reduce` and `branch` close them for you

    /// Opens a loop over `[start, end)`; gives its variable and the carries inside.
    pub fn open_loop(
        &mut self,
        (start, end): (i64, i64),
        ranged: bool,
        kind: LoopKind,
        inits: &[(Reg, Option<BinaryOp>)],
    ) -> (Affine, Vec<Reg>) {
        debug_assert!(start < end, "an empty loop");
        self.push_frame(FrameKind::Root);
        let var = self.new_reg(RegType::I64, Def::LoopVar, Some((start, end - 1)));
        let mut carries = Vec::new();
        for &(init, op) in inits {
            let inside = self.new_reg(self.ty(init), Def::Carry, None);
            carries.push(Carry { inside, init, next: init, result: init, op });
        }
        let inside = carries.iter().map(|c| c.inside).collect();
        self.frame().kind = FrameKind::Loop { var, start, end, ranged, kind, carries };
        (Affine::reg(var), inside)
    }

    /// Closes the innermost loop; gives the carries' final values.
    pub fn close_loop(&mut self, next: &[Reg]) -> Vec<Reg> {
        let frame = self.frames.pop().expect("an open loop");
        let FrameKind::Loop { var, start, end, ranged, kind, mut carries } = frame.kind else {
            unreachable!("the innermost block is not a loop")
        };
        assert_eq!(next.len(), carries.len(), "carries of a loop");
        for (carry, &next) in carries.iter_mut().zip(next) {
            carry.next = next;
            carry.result = self.new_reg(self.ty(carry.init), Def::Result, None);
        }
        let results = carries.iter().map(|c| c.result).collect();
        let body = frame.block;
        let stmt = Loop { var, start, end, ranged, kind, carries, body };
        self.frame().block.stmts.push(Stmt::Loop(Box::new(stmt)));
        results
    }

    /// Opens a branch, taken where `condition` holds.
    pub fn open_if(&mut self, condition: Reg) {
        self.push_frame(FrameKind::Then { condition });
    }

    /// Ends the first side of the branch with its values and opens the other.
    pub fn open_else(&mut self, values: &[Reg]) {
        let frame = self.frames.pop().expect("an open branch");
        let FrameKind::Then { condition } = frame.kind else { unreachable!("not in a branch") };
        self.push_frame(FrameKind::Else {
            condition,
            then: frame.block,
            then_values: values.to_vec(),
        });
    }

    /// Closes the branch; gives its results.
    pub fn close_if(&mut self, values: &[Reg]) -> Vec<Reg> {
        let frame = self.frames.pop().expect("an open branch");
        let FrameKind::Else { condition, then, then_values } = frame.kind else {
            unreachable!("not in the second side of a branch")
        };
        let mut results = Vec::new();
        for (&a, &b) in then_values.iter().zip(values) {
            results.push((self.new_reg(self.ty(a), Def::Result, None), a, b));
        }
        let out = results.iter().map(|r| r.0).collect();
        let stmt = If { condition, then, otherwise: frame.block, results };
        self.frame().block.stmts.push(Stmt::If(Box::new(stmt)));
        out
    }

    // ---- placing instructions

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the root block")
    }

    fn push_frame(&mut self, kind: FrameKind) {
        self.serial += 1;
        let serial = self.serial;
        let (block, cuts) = (Block::default(), BTreeSet::new());
        self.frames.push(Frame { block, serial, kind, cuts });
    }

    fn new_reg(&mut self, ty: RegType, def: Def, bounds: Option<(i64, i64)>) -> Reg {
        let reg = self.kernel.regs.push(RegData { ty, def, bounds });
        self.depth[reg] = self.frames.len() as u32 - 1;
        reg
    }

    fn emit(&mut self, inst: Inst, ty: RegType) -> Reg {
        let mut depth = 0;
        let mut see = |reg: Reg| depth = depth.max(self.depth[reg]);
        match &inst {
            Inst::Const(_) => {}
            Inst::Index(at) | Inst::FloorDiv(at, _) | Inst::Modulo(at, _) | Inst::Load(_, at) => {
                at.terms.iter().for_each(|t| see(t.0));
            }
            Inst::Unary(_, a) | Inst::Cast(_, a) => see(*a),
            Inst::Binary(_, a, b) | Inst::Compare(_, _, a, b) => {
                [*a, *b].into_iter().for_each(see);
            }
            Inst::Fma(a, b, c) | Inst::Select(a, b, c) => {
                [*a, *b, *c].into_iter().for_each(see);
            }
        }
        let branch = self
            .frames
            .iter()
            .rposition(|f| matches!(f.kind, FrameKind::Then { .. } | FrameKind::Else { .. }));
        self.place(inst, ty, depth.max(branch.unwrap_or(0) as u32))
    }

    fn place(&mut self, inst: Inst, ty: RegType, depth: u32) -> Reg {
        let key = (inst, ty);
        if let Some(&(reg, serial)) = self.numbered.get(&key) {
            let at = self.depth[reg] as usize;
            if self.frames.get(at).is_some_and(|f| f.serial == serial) {
                return reg;
            }
        }
        let reg = self.new_reg(ty, Def::Inst(key.0.clone()), None);
        self.depth[reg] = depth;
        let frame = &mut self.frames[depth as usize];
        frame.block.stmts.push(Stmt::Let(reg));
        let old = self.numbered.insert(key.clone(), (reg, frame.serial));
        if self.trials > 0 {
            self.undo.push((key, old));
        }
        reg
    }

    fn begin_trial(&mut self) -> Trial {
        self.trials += 1;
        Trial {
            lengths: self.frames.iter().map(|f| f.block.stmts.len()).collect(),
            undo: self.undo.len(),
            registers: self.kernel.regs.len(),
        }
    }

    /// Takes back everything since the trial began; gives the cuts of the loop it opened, and the
    /// number of instructions, about.
    fn end_trial(&mut self, trial: &Trial) -> (BTreeSet<i64>, usize) {
        let cuts = std::mem::take(&mut self.frame().cuts);
        self.frames.truncate(trial.lengths.len());
        for (frame, &length) in self.frames.iter_mut().zip(&trial.lengths) {
            frame.block.stmts.truncate(length);
        }
        while self.undo.len() > trial.undo {
            let (key, old) = self.undo.pop().expect("longer than the mark");
            match old {
                Some(old) => self.numbered.insert(key, old),
                None => self.numbered.remove(&key),
            };
        }
        self.trials -= 1;
        (cuts, self.kernel.regs.len() - trial.registers)
    }
}

/// Whatever builds into a [`KernelBuilder`].
pub trait Build {
    /// The builder.
    fn builder(&mut self) -> &mut KernelBuilder;
}

impl Build for KernelBuilder {
    fn builder(&mut self) -> &mut KernelBuilder {
        self
    }
}
