//! Loops in which one access is contiguous along one variable and another access along another
//! (transposes, and whatever is computed on the way): square tiles of both variables, transposed
//! in registers, so that memory is read and written in whole vectors on both sides.
//!
//! In a tile one variable is the lanes and the other one the rows, gone through one by one. What
//! is contiguous along the rows is read before them, transposed, into a scratch tile in the frame,
//! and what is stored so goes to a scratch tile and is written after them. A parallel loop's
//! iterations touch no element that another one writes, so that reading early and writing late is
//! as good; the loops in between run inside of a few tiles side by side.

use super::analysis::{self, Classes, Lane, Shape};
use super::code::{Addr, Ins, Src, VReg};
use super::encode::{Cond, Enc, Length, enc};
use super::lower::{Cx, Lower, Val};
use jaxrs_kernel::kernel::{Access, Block, Def, Loop, LoopKind, Stmt};
use jaxrs_kernel::{Affine, DType, Inst, Kernel, ParamId, Reg};
use smallvec::smallvec;
use std::rc::Rc;

/// The other loop of a tile, and which of the two is the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Whether the inner loop is the lanes.
    pub(super) lanes_inside: bool,
}

/// Tiles side by side that are gone through together.
const TOGETHER: i64 = 4;
/// Bytes of a scratch tile.
const SCRATCH: i32 = 1024;
/// Tiled accesses of a loop at most.
const MOST: usize = 8;
/// Below this many iterations of either loop a tile is mostly empty.
const LEAST: i64 = 4;

/// An access that is transposed.
pub(super) type Across = (ParamId, Affine);

/// A loop nest as tiles.
pub(super) struct Nest<'k> {
    pub(super) outer: &'k Loop,
    pub(super) inner: &'k Loop,
    lanes: &'k Loop,
    rows: &'k Loop,
    /// Iterations of the loops in between.
    pub(super) between: i64,
    /// What stands between the loops and depends on the outer one: computed for each row.
    pub(super) moved: Vec<&'k Stmt>,
    pub(super) loads: Vec<Across>,
    pub(super) stores: Vec<Across>,
    /// The registers' classes under the lanes.
    pub(super) classes: Rc<Classes>,
}

/// The nest below a loop as tiles, if there is something to transpose.
pub(super) fn nest<'k>(kernel: &'k Kernel, outer: &'k Loop, tile: Tile) -> Option<Nest<'k>> {
    let under_outer = analysis::classify(kernel, outer);
    let (mut inner, mut between, mut moved) = (outer, 1, Vec::new());
    while let Some((Stmt::Loop(next), before)) = inner.body.stmts.split_last() {
        if next.kind != LoopKind::Parallel || next.ranged {
            break;
        }
        for stmt in before {
            let Stmt::Let(reg) = stmt else { return None };
            if under_outer[*reg] == Lane::Uniform {
                continue;
            }
            if matches!(kernel.regs[*reg].def, Def::Inst(Inst::Load(..))) {
                return None;
            }
            moved.push(stmt);
        }
        if !std::ptr::eq(inner, outer) {
            between *= inner.end - inner.start;
        }
        inner = next;
    }
    let long = |l: &Loop| l.end - l.start >= LEAST && i32::try_from(l.end).is_ok();
    if std::ptr::eq(inner, outer)
        || outer.kind != LoopKind::Parallel
        || !long(outer)
        || !long(inner)
    {
        return None;
    }
    let (lanes, rows) = if tile.lanes_inside { (inner, outer) } else { (outer, inner) };
    let under_inner = analysis::classify(kernel, inner);
    let mut own = Vec::new();
    defined_in(&inner.body, &mut own);
    let across = |param: ParamId, at: &Affine| {
        let data = &kernel.params[param];
        let apart = at.coefficient(lanes.var);
        let fits = i32::try_from(apart.saturating_mul(32 * data.dtype.size() as i64)).is_ok();
        let rest = |&(reg, _): &(Reg, i64)| {
            reg == lanes.var
                || reg == rows.var
                || (under_outer[reg] == Lane::Uniform
                    && under_inner[reg] == Lane::Uniform
                    && !own.contains(&reg))
        };
        data.access != Access::ReadWrite
            && at.coefficient(rows.var) == 1
            && apart.abs() > 1
            && fits
            && at.terms.iter().all(rest)
    };
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    for stmt in &inner.body.stmts {
        match stmt {
            Stmt::Let(reg) => {
                if let Def::Inst(Inst::Load(param, at)) = &kernel.regs[*reg].def
                    && across(*param, at)
                    && !loads.contains(&(*param, at.clone()))
                {
                    loads.push((*param, at.clone()));
                }
            }
            Stmt::Store { param, at, .. } => {
                if across(*param, at) && !stores.contains(&(*param, at.clone())) {
                    stores.push((*param, at.clone()));
                }
            }
            Stmt::Loop(_) | Stmt::If(_) => {}
        }
    }
    // The order of several stores to one buffer stays as it is.
    stores.retain(|(param, _)| stores_to(&inner.body, *param) == 1);
    let count = loads.len() + stores.len();
    let classes = Rc::new(if tile.lanes_inside { under_inner } else { under_outer });
    (1..=MOST).contains(&count).then_some(Nest {
        outer,
        inner,
        lanes,
        rows,
        between,
        moved,
        loads,
        stores,
        classes,
    })
}

fn defined_in(block: &Block, regs: &mut Vec<Reg>) {
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(reg) => regs.push(*reg),
            Stmt::Store { .. } => {}
            Stmt::Loop(inner) => {
                regs.push(inner.var);
                regs.extend(inner.carries.iter().flat_map(|c| [c.inside, c.result]));
                defined_in(&inner.body, regs);
            }
            Stmt::If(inner) => {
                regs.extend(inner.results.iter().map(|r| r.0));
                defined_in(&inner.then, regs);
                defined_in(&inner.otherwise, regs);
            }
        }
    }
}

fn stores_to(block: &Block, to: ParamId) -> usize {
    block
        .stmts
        .iter()
        .map(|stmt| match stmt {
            Stmt::Let(_) => 0,
            Stmt::Store { param, .. } => usize::from(*param == to),
            Stmt::Loop(inner) => stores_to(&inner.body, to),
            Stmt::If(inner) => stores_to(&inner.then, to) + stores_to(&inner.otherwise, to),
        })
        .sum()
}

/// The tile whose rows are being written.
pub(super) struct Rows {
    loads: Vec<Across>,
    stores: Vec<Across>,
    scratch: VReg,
    /// 64 times the row.
    offset: VReg,
}

/// Where a tile is: first values and numbers of values.
#[derive(Clone, Copy)]
struct Place {
    lane: VReg,
    row: VReg,
    /// Lanes and rows, if the tile may not be whole.
    counts: Option<(VReg, VReg)>,
}

const MOVE: Enc = enc(1, 2, 0x6f, true);
const MOVE_STORE: Enc = enc(1, 2, 0x7f, true);

impl<'k> Lower<'k> {
    /// A loop and those in it, in tiles.
    pub(super) fn tile_loop(&mut self, outer: &'k Loop, shape: Shape, tile: Tile) {
        let nest = nest(self.kernel, outer, tile).expect("found when it was chosen");
        let slots = (nest.loads.len() + nest.stores.len()) as i32;
        self.code.scratch = self.code.scratch.max(slots * SCRATCH);
        let (start, end) = self.loop_bounds(outer);
        let first = self.general();
        self.put(Ins::Move { to: first, from: start });
        let (top, exit) = (self.code.label(), self.code.label());
        let (cond, label) = (Cond::GreaterEqual, exit);
        self.put(Ins::CompareJump { a: first, b: end, cond, label });
        self.put(Ins::Bind { label: top, is_loop: true });
        let mark = self.mark();
        let last = self.plus(first, TOGETHER * shape.lanes);
        let stop = self.general();
        self.put(Ins::Min { to: stop, a: last, b: end });
        self.loops_between(&nest, outer, shape.lanes, (first, stop));
        self.forget(&mark);
        let value = (TOGETHER * shape.lanes) as i32;
        self.put(Ins::AddImm { to: first, a: first, value });
        self.put(Ins::CompareJump { a: first, b: end, cond: Cond::Less, label: top });
        self.put(Ins::Bind { label: exit, is_loop: false });
    }

    /// The loops between the outer and the inner one.
    fn loops_between(&mut self, nest: &Nest<'k>, at: &'k Loop, size: i64, span: (VReg, VReg)) {
        let (last, before) = at.body.stmts.split_last().expect("the inner loop is below");
        for stmt in before {
            if !nest.moved.iter().any(|moved| std::ptr::eq(*moved, stmt)) {
                self.statements(std::slice::from_ref(stmt));
            }
        }
        let Stmt::Loop(next) = last else { unreachable!("the inner loop is below") };
        if next.var == nest.inner.var {
            self.grid(nest, size, span);
            return;
        }
        let var = self.general();
        self.put(Ins::Immediate { to: var, value: next.start });
        let top = self.code.label();
        self.put(Ins::Bind { label: top, is_loop: true });
        let mark = self.mark();
        self.set(next.var, Val::General(var));
        self.loops_between(nest, next, size, span);
        self.forget(&mark);
        self.put(Ins::AddImm { to: var, a: var, value: 1 });
        let end = self.immediate(next.end);
        self.put(Ins::CompareJump { a: var, b: end, cond: Cond::Less, label: top });
    }

    /// All tiles of a span of the outer loop.
    fn grid(&mut self, nest: &Nest<'k>, size: i64, (first, stop): (VReg, VReg)) {
        let (inner, outer) = (nest.inner, nest.outer);
        let trips = |l: &Loop| l.end - l.start;
        let may_be_whole = trips(inner) >= size && trips(outer) >= size;
        let may_be_cut = outer.ranged || trips(inner) % size != 0 || trips(outer) % size != 0;
        let [below, beside] = [0, 1].map(|_| self.code.label());
        let (down, across) = (self.general(), self.general());
        self.put(Ins::Immediate { to: down, value: inner.start });
        self.put(Ins::Bind { label: below, is_loop: true });
        self.put(Ins::Move { to: across, from: first });
        self.put(Ins::Bind { label: beside, is_loop: true });
        let inside = nest.lanes.var == inner.var;
        let (lane, row) = if inside { (down, across) } else { (across, down) };
        let mark = self.mark();
        let (cut, done) = (self.code.label(), self.code.label());
        if may_be_cut {
            let limit = self.immediate(inner.end);
            let whole = self.immediate(size);
            let [mut lower, mut left] = [(limit, down), (stop, across)].map(|(a, b)| {
                let to = self.general();
                self.put(Ins::Sub { to, a, b });
                to
            });
            if may_be_whole {
                for a in [lower, left] {
                    let (value, cond, label) = (size as i32, Cond::Less, cut);
                    self.put(Ins::CompareJumpImm { a, value, cond, label });
                }
                self.tile(nest, size, Place { lane, row, counts: None });
                self.put(Ins::Jump { label: done });
                self.put(Ins::Bind { label: cut, is_loop: false });
            }
            for count in [&mut lower, &mut left] {
                let to = self.general();
                self.put(Ins::Min { to, a: *count, b: whole });
                *count = to;
            }
            let counts = if inside { (lower, left) } else { (left, lower) };
            self.tile(nest, size, Place { lane, row, counts: Some(counts) });
            self.put(Ins::Bind { label: done, is_loop: false });
        } else {
            self.tile(nest, size, Place { lane, row, counts: None });
        }
        self.forget(&mark);
        self.put(Ins::AddImm { to: across, a: across, value: size as i32 });
        self.put(Ins::CompareJump { a: across, b: stop, cond: Cond::Less, label: beside });
        self.put(Ins::AddImm { to: down, a: down, value: size as i32 });
        let end = self.immediate(inner.end);
        self.put(Ins::CompareJump { a: down, b: end, cond: Cond::Less, label: below });
    }

    fn tile(&mut self, nest: &Nest<'k>, size: i64, place: Place) {
        let outer_cx = self.cx.clone();
        let mark = self.mark();
        self.cx =
            Cx { lanes: size, chunks: 1, mask: None, classes: Some(Rc::clone(&nest.classes)) };
        let masks = place.counts.map(|(lanes, rows)| {
            let lanes = self.first_lanes(lanes);
            (lanes, self.first_lanes(rows))
        });
        let scratch = self.general();
        self.put(Ins::Scratch { to: scratch });
        let corner = self.mark();
        self.set(nest.lanes.var, Val::General(place.lane));
        self.set(nest.rows.var, Val::General(place.row));
        for (slot, load) in nest.loads.iter().enumerate() {
            self.read_tile(nest, load, slot, scratch, place, masks);
        }
        self.forget(&corner);
        self.rows(nest, size, place, masks.map(|m| m.0), scratch);
        self.set(nest.lanes.var, Val::General(place.lane));
        self.set(nest.rows.var, Val::General(place.row));
        for (slot, store) in nest.stores.iter().enumerate() {
            let slot = nest.loads.len() + slot;
            self.write_tile(nest, store, slot, scratch, place, masks);
        }
        self.forget(&mark);
        self.cx = outer_cx;
    }

    /// The rows of a tile, one by one.
    fn rows(
        &mut self,
        nest: &Nest<'k>,
        size: i64,
        place: Place,
        mask: Option<VReg>,
        scratch: VReg,
    ) {
        let (row, offset) = (self.general(), self.general());
        self.put(Ins::Move { to: row, from: place.row });
        self.put(Ins::Immediate { to: offset, value: 0 });
        let limit = place.counts.map(|(_, rows)| self.scaled(rows, 64));
        let mark = self.mark();
        self.cx.mask = mask.map(|mask| smallvec![mask]);
        let (loads, stores) = (nest.loads.clone(), nest.stores.clone());
        self.tile = Some(Rows { loads, stores, scratch, offset });
        self.set(nest.lanes.var, Val::Lane(place.lane));
        self.prepare_addresses(&nest.inner.body);
        let top = self.code.label();
        self.put(Ins::Bind { label: top, is_loop: true });
        let inside = self.mark();
        self.set(nest.rows.var, Val::General(row));
        for &stmt in &nest.moved {
            self.statements(std::slice::from_ref(stmt));
        }
        self.block(&nest.inner.body);
        self.forget(&inside);
        self.put(Ins::AddImm { to: row, a: row, value: 1 });
        self.put(Ins::AddImm { to: offset, a: offset, value: 64 });
        let (cond, label) = (Cond::Less, top);
        match limit {
            Some(b) => self.put(Ins::CompareJump { a: offset, b, cond, label }),
            None => {
                let value = 64 * size as i32;
                self.put(Ins::CompareJumpImm { a: offset, value, cond, label });
            }
        }
        self.tile = None;
        self.cx.mask = None;
        self.forget(&mark);
    }

    /// Reads a tile along the rows, a lane's values at a time, and transposes it.
    fn read_tile(
        &mut self,
        nest: &Nest<'k>,
        (param, at): &Across,
        slot: usize,
        scratch: VReg,
        place: Place,
        masks: Option<(VReg, VReg)>,
    ) {
        let dtype = self.kernel.params[*param].dtype;
        let raw = if dtype == DType::I1 { DType::U8 } else { dtype };
        let parts = self.parts(at);
        let apart = at.coefficient(nest.lanes.var) * dtype.size() as i64;
        let skip = self.code.label();
        let mut columns = Vec::new();
        for lane in 0..self.cx.lanes {
            self.leave_at(place, lane, skip);
            let at = self.address(*param, &parts, lane * apart);
            columns.push(self.load_contiguous(raw, at, masks.map(|m| m.1)));
        }
        self.put(Ins::Bind { label: skip, is_loop: false });
        for (row, from) in self.transpose(columns, dtype).into_iter().enumerate() {
            let disp = slot as i32 * SCRATCH + 64 * row as i32;
            let at = Addr { base: scratch, index: None, disp };
            let (enc, length) = (MOVE_STORE, Length::Zmm);
            self.put(Ins::Store { enc, length, from, at, mask: None, imm: None });
        }
    }

    /// Transposes a scratch tile and writes it along the rows.
    fn write_tile(
        &mut self,
        nest: &Nest<'k>,
        (param, at): &Across,
        slot: usize,
        scratch: VReg,
        place: Place,
        masks: Option<(VReg, VReg)>,
    ) {
        let dtype = self.kernel.params[*param].dtype;
        let rows = (0..self.cx.lanes)
            .map(|row| {
                let disp = slot as i32 * SCRATCH + 64 * row as i32;
                let (to, at) = (self.vector(), Addr { base: scratch, index: None, disp });
                self.put(Ins::Load { enc: MOVE, length: Length::Zmm, to, at, mask: None });
                to
            })
            .collect();
        let columns = self.transpose(rows, dtype);
        let parts = self.parts(at);
        let apart = at.coefficient(nest.lanes.var) * dtype.size() as i64;
        let skip = self.code.label();
        for (lane, from) in columns.into_iter().enumerate() {
            self.leave_at(place, lane as i64, skip);
            let at = self.address(*param, &parts, lane as i64 * apart);
            self.store_vector(dtype, at, masks.map(|m| m.1), from);
        }
        self.put(Ins::Bind { label: skip, is_loop: false });
    }

    /// Jumps away if a tile has no such lane; every tile has the first one.
    fn leave_at(&mut self, place: Place, lane: i64, label: super::encode::Label) {
        if let Some((a, _)) = place.counts
            && lane > 0
        {
            let value = lane as i32 + 1;
            self.put(Ins::CompareJumpImm { a, value, cond: Cond::Less, label });
        }
    }

    /// What a row's statement loads from a scratch tile.
    pub(super) fn load_from_tile(&mut self, param: ParamId, at: &Affine) -> Option<Val> {
        let rows = self.tile.as_ref()?;
        let slot = rows.loads.iter().position(|l| l.0 == param && l.1 == *at)?;
        let (to, at) = (self.code.reg(super::code::Class::Vector), rows.address(slot));
        self.put(Ins::Load { enc: MOVE, length: Length::Zmm, to, at, mask: None });
        let is_truth = self.kernel.params[param].dtype == DType::I1;
        Some(Val::Varying(smallvec![if is_truth { self.not_zero(to) } else { to }]))
    }

    /// Whether a row's statement stores to a scratch tile, which is then done.
    pub(super) fn store_to_tile(&mut self, param: ParamId, at: &Affine, value: Reg) -> bool {
        let Some(rows) = self.tile.as_ref() else { return false };
        let Some(slot) = rows.stores.iter().position(|s| s.0 == param && s.1 == *at) else {
            return false;
        };
        let at = rows.address(rows.loads.len() + slot);
        let from = self.lanes_vector(value, 0);
        let (enc, length) = (MOVE_STORE, Length::Zmm);
        self.put(Ins::Store { enc, length, from, at, mask: None, imm: None });
        true
    }

    /// Vectors across vectors: as many as lanes.
    fn transpose(&mut self, rows: Vec<VReg>, dtype: DType) -> Vec<VReg> {
        let wide = dtype.reg().bits() == 64;
        let length = self.length(dtype.reg());
        let mut op = |enc: Enc, a: VReg, b: VReg, imm: Option<u8>| {
            let to = self.vector();
            self.put_op(enc, length, to, imm, Src::Reg(b), Some(a));
            to
        };
        // Within the 128-bit parts of the vectors: first 32-bit elements, then pairs.
        let mut parts = rows;
        if !wide {
            let (low, high) = (enc(1, 0, 0x14, false), enc(1, 0, 0x15, false));
            parts = parts
                .chunks(2)
                .flat_map(|p| [op(low, p[0], p[1], None), op(high, p[0], p[1], None)])
                .collect();
        }
        let (low, high) = (enc(1, 1, 0x14, true), enc(1, 1, 0x15, true));
        let half = if wide { 1 } else { 2 };
        parts = parts
            .chunks(2 * half)
            .flat_map(|p| {
                (0..half)
                    .flat_map(|n| {
                        let (a, b) = (p[n], p[n + half]);
                        [op(low, a, b, None), op(high, a, b, None)]
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        // Then the parts: `parts[group * count + n]` has column `count * q + n` in its part `q`.
        let shuffle = enc(3, 1, 0x23, false);
        let count = 2 * half;
        let mut columns = vec![VReg(0); parts.len()];
        if parts.len() == 2 * count {
            for n in 0..count {
                let (a, b) = (parts[n], parts[count + n]);
                columns[n] = op(shuffle, a, b, Some(0));
                columns[count + n] = op(shuffle, a, b, Some(3));
            }
            return columns;
        }
        for n in 0..count {
            let [a, b, c, d] = [0, 1, 2, 3].map(|group| parts[group * count + n]);
            for (first, imm) in [(0, 0x88), (1, 0xdd)] {
                let (left, right) = (op(shuffle, a, b, Some(imm)), op(shuffle, c, d, Some(imm)));
                columns[first * count + n] = op(shuffle, left, right, Some(0x88));
                columns[(first + 2) * count + n] = op(shuffle, left, right, Some(0xdd));
            }
        }
        columns
    }
}

impl Rows {
    fn address(&self, slot: usize) -> Addr {
        Addr { base: self.scratch, index: Some((self.offset, 1)), disp: slot as i32 * SCRATCH }
    }

    /// Whether an access goes to a scratch tile.
    pub(super) fn has(&self, param: ParamId, at: &Affine) -> bool {
        self.loads.iter().chain(&self.stores).any(|a| a.0 == param && a.1 == *at)
    }
}
