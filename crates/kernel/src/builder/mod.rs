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

/// More pieces than this and a loop keeps its guards.
const MAX_PIECES: usize = 9;

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

    // ---- index expressions

    /// The expression with `n * floor(x / n) + x mod n` written as `x`, so that an index split over
    /// a shape and put together again is what it was.
    pub fn recombined(&self, mut at: Affine) -> Affine {
        let whole_of = |at: &Affine, x: &Affine, n: i64| {
            at.terms.iter().copied().find(|term| {
                matches!(&self.kernel.regs[term.0].def,
                    Def::Inst(Inst::FloorDiv(y, by)) if y == x && *by == n)
            })
        };
        loop {
            let pair = at.terms.iter().find_map(|&(rest, coefficient)| {
                let Def::Inst(Inst::Modulo(x, n)) = &self.kernel.regs[rest].def else {
                    return None;
                };
                let (whole, by) = whole_of(&at, x, *n)?;
                (by == coefficient.checked_mul(*n)?).then(|| (rest, whole, x.scale(coefficient)))
            });
            let Some((rest, whole, together)) = pair else { return at };
            let drop = |at: &mut Affine, reg| at.add_term(reg, -at.coefficient(reg));
            drop(&mut at, rest);
            drop(&mut at, whole);
            at = at.add(&together);
        }
    }

    /// An `i64` register as an index known to be in `[low, high]`.
    pub fn as_index(&mut self, reg: Reg, low: i64, high: i64) -> Affine {
        if let Some(bits) = self.as_const(reg) {
            return Affine::constant(bits as i64);
        }
        debug_assert_eq!(self.ty(reg), RegType::I64);
        let known = self.kernel.regs[reg].bounds.unwrap_or((i64::MIN, i64::MAX));
        self.kernel.regs[reg].bounds = Some((known.0.max(low), known.1.min(high)));
        Affine::reg(reg)
    }

    /// A signed `i64` register clamped to `[low, high]`, as an index.
    pub fn clamp_index(&mut self, reg: Reg, low: i64, high: i64) -> Affine {
        if low == high {
            return Affine::constant(low);
        }
        let (l, h) = (self.int(RegType::I64, low), self.int(RegType::I64, high));
        let above = self.binary(BinaryOp::MaxS, reg, l);
        let clamped = self.binary(BinaryOp::MinS, above, h);
        self.as_index(clamped, low, high)
    }

    /// The expression's value as an `i64` register.
    pub fn index_value(&mut self, at: &Affine) -> Reg {
        if let Some(c) = at.as_constant() {
            return self.int(RegType::I64, c);
        }
        if at.constant == 0 && at.terms.len() == 1 && at.terms[0].1 == 1 {
            return at.terms[0].0;
        }
        let bounds = self.bounds(at);
        let reg = self.emit(Inst::Index(at.clone()), RegType::I64);
        self.kernel.regs[reg].bounds = Some(bounds);
        reg
    }

    /// Least and largest value of the expression, as far as known.
    pub fn bounds(&self, at: &Affine) -> (i64, i64) {
        let mut sum = (i128::from(at.constant), i128::from(at.constant));
        for &(reg, coefficient) in &at.terms {
            let (low, high) = self.kernel.regs[reg].bounds.unwrap_or((i64::MIN, i64::MAX));
            let (a, b) = (
                i128::from(low) * i128::from(coefficient),
                i128::from(high) * i128::from(coefficient),
            );
            sum = (sum.0 + a.min(b), sum.1 + a.max(b));
        }
        let narrow = |v: i128| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        (narrow(sum.0), narrow(sum.1))
    }

    /// Floor of the expression over `by > 0`.
    pub fn floor_div(&mut self, at: &Affine, by: i64) -> Affine {
        let at = &self.recombined(at.clone());
        if by == 1 {
            return at.clone();
        }
        let (whole, rest) = split_multiples(at, by);
        let (low, high) = self.bounds(&rest);
        if low.div_euclid(by) == high.div_euclid(by) {
            return whole.offset(low.div_euclid(by));
        }
        let common = rest.terms.iter().fold(by, |g, t| gcd(g, t.1.abs()));
        if common > 1 {
            let reduced = Affine {
                constant: rest.constant.div_euclid(common),
                terms: rest.terms.iter().map(|&(r, c)| (r, c / common)).collect(),
            };
            return whole.add(&self.floor_div(&reduced, by / common));
        }
        let reg = self.emit(Inst::FloorDiv(rest, by), RegType::I64);
        self.kernel.regs[reg].bounds = Some((low.div_euclid(by), high.div_euclid(by)));
        whole.add(&Affine::reg(reg))
    }

    /// Non-negative remainder of the expression over `by > 0`.
    pub fn modulo(&mut self, at: &Affine, by: i64) -> Affine {
        let at = &self.recombined(at.clone());
        if by == 1 {
            return Affine::constant(0);
        }
        let (_, rest) = split_multiples(at, by);
        let (low, high) = self.bounds(&rest);
        if low.div_euclid(by) == high.div_euclid(by) {
            return rest.offset(-by * low.div_euclid(by));
        }
        let common = rest.terms.iter().fold(by, |g, t| gcd(g, t.1.abs()));
        if common > 1 {
            let reduced = Affine {
                constant: rest.constant.div_euclid(common),
                terms: rest.terms.iter().map(|&(r, c)| (r, c / common)).collect(),
            };
            let inner = self.modulo(&reduced, by / common);
            return inner.scale(common).offset(rest.constant.rem_euclid(common));
        }
        let reg = self.emit(Inst::Modulo(rest, by), RegType::I64);
        self.kernel.regs[reg].bounds = Some((0, by - 1));
        Affine::reg(reg)
    }

    /// Whether `low <= at < high`. Undecided guards on one loop's variable are remembered, so that
    /// the loop may be split there.
    pub fn in_range(&mut self, at: &Affine, low: i64, high: i64) -> Guard {
        let at = &self.recombined(at.clone());
        let (least, largest) = self.bounds(at);
        if least >= low && largest < high {
            return Guard::Always;
        }
        if largest < low || least >= high {
            return Guard::Never;
        }
        if let [(reg, coefficient)] = at.terms[..] {
            self.remember_cuts(reg, coefficient, at.constant, low, high);
        }
        let value = self.index_value(at);
        let mut condition = None;
        if least < low {
            let bound = self.int(RegType::I64, low);
            condition = Some(self.compare(Compare::Ge, CompareKind::Signed, value, bound));
        }
        if largest >= high {
            let bound = self.int(RegType::I64, high);
            let below = self.compare(Compare::Lt, CompareKind::Signed, value, bound);
            condition = Some(match condition {
                Some(above) => self.binary(BinaryOp::And, above, below),
                None => below,
            });
        }
        condition.map_or(Guard::Always, Guard::When)
    }

    /// Both guards.
    pub fn both(&mut self, a: Guard, b: Guard) -> Guard {
        match (a, b) {
            (Guard::Never, _) | (_, Guard::Never) => Guard::Never,
            (Guard::Always, other) | (other, Guard::Always) => other,
            (Guard::When(x), Guard::When(y)) => Guard::When(self.binary(BinaryOp::And, x, y)),
        }
    }

    fn remember_cuts(&mut self, reg: Reg, coefficient: i64, constant: i64, low: i64, high: i64) {
        for frame in &mut self.frames {
            let FrameKind::Loop { var, .. } = frame.kind else { continue };
            if var != reg {
                continue;
            }
            for edge in [low, high] {
                // The first value of the variable on the other side of `at == edge`.
                let cut = if coefficient > 0 {
                    -((constant - edge).div_euclid(coefficient))
                } else {
                    (constant - edge).div_euclid(-coefficient) + 1
                };
                frame.cuts.insert(cut);
            }
        }
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
        }
    }

    /// Takes back everything since the trial began; gives the cuts of the loop it opened.
    fn end_trial(&mut self, trial: &Trial) -> BTreeSet<i64> {
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
        cuts
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

/// A parallel loop over `[0, extent)`. The body may be called several times, with variables of
/// other bounds; a loop of one iteration (not ranged) is its body with a constant.
pub fn parallel<C: Build>(
    cx: &mut C,
    extent: i64,
    options: LoopOptions,
    mut body: impl FnMut(&mut C, &Affine),
) {
    stretches(cx, extent, options, LoopKind::Parallel, &[], |cx, var, _| {
        body(cx, var);
        Vec::new()
    });
}

/// A loop over `[0, extent)` with carries; gives their final values, the initial ones for extent 0.
/// In a [`LoopKind::Reduce`] loop every carry names its instruction, `next = op(carry, x)`.
pub fn reduce<C: Build>(
    cx: &mut C,
    extent: i64,
    options: LoopOptions,
    kind: LoopKind,
    inits: &[(Reg, Option<BinaryOp>)],
    body: impl FnMut(&mut C, &Affine, &[Reg]) -> Vec<Reg>,
) -> Vec<Reg> {
    stretches(cx, extent, options, kind, inits, body)
}

fn stretches<C: Build>(
    cx: &mut C,
    extent: i64,
    options: LoopOptions,
    kind: LoopKind,
    inits: &[(Reg, Option<BinaryOp>)],
    mut body: impl FnMut(&mut C, &Affine, &[Reg]) -> Vec<Reg>,
) -> Vec<Reg> {
    let mut values: Vec<(Reg, Option<BinaryOp>)> = inits.to_vec();
    let mut edges = vec![0, extent];
    if options.split && extent > 1 && cx.builder().trials == 0 {
        let trial = cx.builder().begin_trial();
        let (var, inside) = cx.builder().open_loop((0, extent), options.ranged, kind, inits);
        body(cx, &var, &inside);
        let cuts = cx.builder().end_trial(&trial);
        let cuts: Vec<i64> = cuts.into_iter().filter(|&c| c > 0 && c < extent).collect();
        if cuts.len() < MAX_PIECES {
            edges.splice(1..1, cuts);
        }
    }
    for pair in edges.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        if start >= end {
            continue;
        }
        let registers: Vec<Reg> = values.iter().map(|v| v.0).collect();
        let next = if end - start == 1 && !options.ranged {
            body(cx, &Affine::constant(start), &registers)
        } else {
            let (var, inside) = cx.builder().open_loop((start, end), options.ranged, kind, &values);
            let next = body(cx, &var, &inside);
            cx.builder().close_loop(&next)
        };
        for (value, next) in values.iter_mut().zip(next) {
            value.0 = next;
        }
    }
    values.into_iter().map(|v| v.0).collect()
}

/// Values of `then` where the guard holds, of `otherwise` elsewhere; only the taken side runs.
pub fn branch<C: Build>(
    cx: &mut C,
    guard: Guard,
    then: impl FnOnce(&mut C) -> Vec<Reg>,
    otherwise: impl FnOnce(&mut C) -> Vec<Reg>,
) -> Vec<Reg> {
    match guard {
        Guard::Always => then(cx),
        Guard::Never => otherwise(cx),
        Guard::When(condition) => {
            cx.builder().open_if(condition);
            let values = then(cx);
            cx.builder().open_else(&values);
            let values = otherwise(cx);
            cx.builder().close_if(&values)
        }
    }
}

/// `at` as a part made of multiples of `by` (divided by it) and the rest.
fn split_multiples(at: &Affine, by: i64) -> (Affine, Affine) {
    let mut whole = Affine::constant(at.constant.div_euclid(by));
    let mut rest = Affine::constant(at.constant.rem_euclid(by));
    for &(reg, coefficient) in &at.terms {
        // The part of a coefficient below `by` stays in the rest.
        whole.add_term(reg, coefficient.div_euclid(by));
        rest.add_term(reg, coefficient.rem_euclid(by));
    }
    (whole, rest)
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::{Guard, KernelBuilder, LoopOptions, branch, parallel, reduce};
    use crate::interp::run;
    use crate::kernel::{Access, Kernel, LoopKind, Stmt};
    use crate::verify::verify;
    use crate::{Affine, BinaryOp, DType, ParamId, RegType};

    const PLAIN: LoopOptions = LoopOptions { ranged: false, split: false };

    fn start(read: u64, write: u64) -> (KernelBuilder, ParamId, ParamId) {
        let mut b = KernelBuilder::new("test");
        let x = b.param(DType::I32, read, Access::Read);
        let y = b.param(DType::I32, write, Access::Write);
        (b, x, y)
    }

    /// The result for the operand `0, 1, 2, ...`.
    fn ran(kernel: &Kernel) -> Vec<i32> {
        verify(kernel).unwrap_or_else(|message| panic!("{message}\n{kernel}"));
        let lens: Vec<u64> = kernel.params.values().map(|p| p.len).collect();
        let operand = (0..lens[0] as i32).flat_map(i32::to_le_bytes).collect();
        let mut buffers = vec![operand, vec![0; 4 * lens[1] as usize]];
        run(kernel, &mut buffers, 0, i64::MAX);
        let words = buffers[1].chunks_exact(4);
        words.map(|w| i32::from_le_bytes(w.try_into().expect("4 bytes"))).collect()
    }

    #[test]
    fn equal_instructions_are_one_and_leave_the_loop() {
        let (mut b, x, y) = start(4, 4);
        parallel(&mut b, 4, PLAIN, |b, i| {
            let first = b.load(x, Affine::constant(3));
            let again = b.load(x, Affine::constant(3));
            assert_eq!(first, again);
            let own = b.load(x, i.clone());
            let sum = b.binary(BinaryOp::Add, first, own);
            b.store(y, i.clone(), sum);
        });
        let kernel = b.finish();
        assert!(matches!(kernel.body.stmts[..], [Stmt::Let(_), Stmt::Loop(_)]), "{kernel}");
        assert_eq!(ran(&kernel), [3, 4, 5, 6]);
    }

    #[test]
    fn split_loops_decide_their_guards() {
        let (mut b, x, y) = start(4, 8);
        let split = LoopOptions { ranged: false, split: true };
        parallel(&mut b, 8, split, |b, i| {
            let at = i.offset(-2);
            let guard = b.in_range(&at, 0, 4);
            let value = branch(
                b,
                guard,
                |b| vec![b.load(x, at.clone())],
                |b| vec![b.int(RegType::I32, -1)],
            );
            b.store(y, i.clone(), value[0]);
        });
        let kernel = b.finish();
        let branches = kernel.to_string().matches(" if ").count();
        assert_eq!(branches, 0, "{kernel}");
        assert_eq!(ran(&kernel), [-1, -1, 0, 1, 2, 3, -1, -1]);
    }

    #[test]
    fn reductions_carry_values() {
        let (mut b, x, y) = start(12, 3);
        parallel(&mut b, 3, PLAIN, |b, i| {
            let zero = b.int(RegType::I32, 0);
            let carries = [(zero, Some(BinaryOp::Add))];
            let sum = reduce(b, 4, PLAIN, LoopKind::Reduce, &carries, |b, j, carry| {
                let value = b.load(x, i.scale(4).add(j));
                vec![b.binary(BinaryOp::Add, carry[0], value)]
            });
            b.store(y, i.clone(), sum[0]);
        });
        assert_eq!(ran(&b.finish()), [6, 22, 38]);
    }

    #[test]
    fn indices_are_simplified() {
        let (mut b, x, y) = start(24, 24);
        parallel(&mut b, 4, PLAIN, |b, i| {
            parallel(b, 6, PLAIN, |b, j| {
                let at = i.scale(6).add(j);
                assert_eq!(b.floor_div(&at, 6), *i);
                assert_eq!(b.modulo(&at, 6), *j);
                let (whole, rest) = (b.floor_div(&at, 4), b.modulo(&at, 4));
                let together = whole.scale(4).add(&rest);
                assert_eq!(b.recombined(together), at);
                assert_eq!(b.in_range(&at, 0, 24), Guard::Always);
                assert_eq!(b.in_range(&at, 24, 30), Guard::Never);
                let value = b.load(x, at.clone());
                b.store(y, at, value);
            });
        });
        assert_eq!(ran(&b.finish()), (0..24).collect::<Vec<i32>>());
    }

    #[test]
    fn a_split_index_put_together_is_itself() {
        let mut b = KernelBuilder::new("test");
        let (x, _) = b.open_loop((0, 24), false, LoopKind::Parallel, &[]);
        let (y, _) = b.open_loop((0, 5), false, LoopKind::Parallel, &[]);
        for by in [2, 4, 6, 7] {
            let at = x.scale(10).add(&y.scale(2)).offset(3);
            let (whole, rest) = (b.floor_div(&at, by), b.modulo(&at, by));
            assert_eq!(b.recombined(whole.scale(by).add(&rest)), at, "by {by}");
            let other = whole.scale(by + 1).add(&rest);
            assert_eq!(b.recombined(other.clone()), other);
        }
    }
}
