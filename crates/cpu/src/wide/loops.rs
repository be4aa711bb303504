//! Loops: one iteration at a time, unrolled, in lanes, and in lanes row by row.

use super::analysis::{self, Shape};
use super::code::{Ins, Src, VReg};
use super::encode::{Cond, Length, enc};
use super::lower::{Chunks, Cx, Lower, ROWS, Rows, Val};
use jaxrs_kernel::kernel::{Block, Def, Loop, LoopKind, Stmt};
use jaxrs_kernel::{BinaryOp, Inst, Kernel, Reg, RegType};
use smallvec::smallvec;

impl<'k> Lower<'k> {
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

    /// A loop one iteration at a time, perhaps in lanes of an outer loop.
    pub(super) fn plain_loop(&mut self, inner: &'k Loop) {
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
    pub(super) fn lanes_loop(&mut self, inner: &'k Loop, shape: Shape) {
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
pub(super) fn needs_lanes(kernel: &Kernel, block: &Block) -> bool {
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
