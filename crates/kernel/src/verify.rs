//! Checks what the documentation of [`crate::kernel`] promises of a kernel, but for bounds of
//! accesses, which [`crate::interp`] checks as it runs.
//!
//! * A register is assigned once, by a `Let` of its instruction, or as a loop's variable, carry or
//!   result, and is used only where it is visible.
//! * Operands and results of an instruction have the types it takes.
//! * Loads are from parameters that are read, stores to ones that are written.
//! * A ranged loop is parallel, stands at the top level of a kernel with a range, and lies inside
//!   it; in such a kernel every store stands in a ranged loop.
//! * A carry of a reduce loop is combined by its instruction alone: its next value is a chain of
//!   `op(previous, x)` that starts at the carry, through inner reduce loops, and no link of the
//!   chain is used anywhere else.

use crate::affine::Affine;
use crate::dtype::RegType;
use crate::inst::{BinaryOp, CastOp, CompareKind, Inst, UnaryOp, mask};
use crate::kernel::{Access, Block, Carry, Def, Kernel, Loop, LoopKind, ParamId, Reg, Stmt};
use cranelift_entity::SecondaryMap;

/// What is wrong with the kernel, with its name, if anything.
pub fn verify(kernel: &Kernel) -> Result<(), String> {
    let mut checker = Checker {
        kernel,
        visible: SecondaryMap::new(),
        assigned: SecondaryMap::new(),
        uses: SecondaryMap::new(),
        chains: Vec::new(),
    };
    let checked = checker.params().and_then(|()| checker.block(&kernel.body, Place::Top));
    checked
        .and_then(|()| checker.chains())
        .map_err(|message| format!("kernel {}: {message}", kernel.name))
}

/// Where a block stands, for the rules about ranged loops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    InRanged,
    Nested,
}

struct Checker<'a> {
    kernel: &'a Kernel,
    visible: SecondaryMap<Reg, bool>,
    assigned: SecondaryMap<Reg, bool>,
    uses: SecondaryMap<Reg, u32>,
    chains: Vec<(&'a Carry, &'a Loop)>,
}

type Checked = Result<(), String>;

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(message()) }
}

impl<'a> Checker<'a> {
    fn params(&self) -> Checked {
        for (id, param) in &self.kernel.params {
            ensure(!param.dtype.is_complex(), || format!("{id} is complex"))?;
        }
        Ok(())
    }

    fn ty(&self, reg: Reg) -> RegType {
        self.kernel.regs[reg].ty
    }

    /// Checks a use; gives the type.
    fn used(&mut self, reg: Reg) -> Result<RegType, String> {
        ensure(self.kernel.regs.is_valid(reg), || format!("{reg} does not exist"))?;
        ensure(self.visible[reg], || format!("{reg} is used where it is not visible"))?;
        self.uses[reg] += 1;
        Ok(self.ty(reg))
    }

    fn expect(&mut self, reg: Reg, ty: RegType) -> Checked {
        let found = self.used(reg)?;
        ensure(found == ty, || format!("{reg} is {found}, expected {ty}"))
    }

    fn index(&mut self, at: &Affine) -> Checked {
        let ascending = at.terms.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let canonical = ascending && at.terms.iter().all(|term| term.1 != 0);
        ensure(canonical, || format!("index {at} is not in canonical form"))?;
        at.terms.iter().try_for_each(|term| self.expect(term.0, RegType::I64))
    }

    fn assign(&mut self, reg: Reg, scope: &mut Vec<Reg>) -> Checked {
        ensure(self.kernel.regs.is_valid(reg), || format!("{reg} does not exist"))?;
        ensure(!self.assigned[reg], || format!("{reg} is assigned twice"))?;
        self.assigned[reg] = true;
        self.visible[reg] = true;
        scope.push(reg);
        Ok(())
    }

    fn access(&self, param: ParamId, writes: bool) -> Checked {
        ensure(self.kernel.params.is_valid(param), || format!("{param} does not exist"))?;
        let wrong = if writes { Access::Read } else { Access::Write };
        let access = self.kernel.params[param].access;
        let verb = if writes { "written" } else { "read" };
        ensure(access != wrong, || format!("{param} is {access:?} and is {verb}"))
    }

    fn block(&mut self, block: &'a Block, place: Place) -> Checked {
        let mut scope = Vec::new();
        self.statements(block, place, &mut scope)?;
        self.leave(scope);
        Ok(())
    }

    fn leave(&mut self, scope: Vec<Reg>) {
        for reg in scope {
            self.visible[reg] = false;
        }
    }

    fn statements(&mut self, block: &'a Block, place: Place, scope: &mut Vec<Reg>) -> Checked {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(reg) => {
                    ensure(self.kernel.regs.is_valid(*reg), || format!("{reg} does not exist"))?;
                    let Def::Inst(inst) = &self.kernel.regs[*reg].def else {
                        return Err(format!("{reg} is let but is no instruction"));
                    };
                    self.instruction(*reg, inst).map_err(|m| format!("{reg} = {inst:?}: {m}"))?;
                    self.assign(*reg, scope)?;
                }
                Stmt::Store { param, at, value } => {
                    self.access(*param, true)?;
                    self.index(at)?;
                    self.expect(*value, self.kernel.params[*param].dtype.reg())?;
                    let ranged = self.kernel.range.is_none() || place == Place::InRanged;
                    ensure(ranged, || format!("store to {param}[{at}] outside a ranged loop"))?;
                }
                Stmt::Loop(l) => self.looped(l, place, scope)?,
                Stmt::If(branch) => {
                    self.expect(branch.condition, RegType::I1)?;
                    let inner = if place == Place::Top { Place::Nested } else { place };
                    let mut then = Vec::new();
                    self.statements(&branch.then, inner, &mut then)?;
                    for &(result, value, _) in &branch.results {
                        self.expect(value, self.ty(result))?;
                    }
                    self.leave(then);
                    let mut otherwise = Vec::new();
                    self.statements(&branch.otherwise, inner, &mut otherwise)?;
                    for &(result, _, value) in &branch.results {
                        self.expect(value, self.ty(result))?;
                    }
                    self.leave(otherwise);
                    for &(result, ..) in &branch.results {
                        self.defined_as(result, &Def::Result)?;
                        self.assign(result, scope)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn defined_as(&self, reg: Reg, def: &Def) -> Checked {
        let found = &self.kernel.regs[reg].def;
        ensure(found == def, || format!("{reg} is {found:?}, expected {def:?}"))
    }

    fn looped(&mut self, l: &'a Loop, place: Place, scope: &mut Vec<Reg>) -> Checked {
        let var = l.var;
        ensure(l.start < l.end, || format!("loop {var}: {}..{} is empty", l.start, l.end))?;
        self.defined_as(var, &Def::LoopVar)?;
        ensure(self.ty(var) == RegType::I64, || format!("loop {var}: the variable is no i64"))?;
        let mut inner = if place == Place::Top { Place::Nested } else { place };
        if l.ranged {
            inner = Place::InRanged;
            ensure(place == Place::Top, || format!("loop {var}: ranged below the top level"))?;
            ensure(l.kind == LoopKind::Parallel, || format!("loop {var}: ranged, not parallel"))?;
            let range = self.kernel.range.and_then(|r| i64::try_from(r).ok()).unwrap_or(-1);
            let inside = l.start >= 0 && l.end <= range;
            ensure(inside, || format!("loop {var}: {}..{} is outside the range", l.start, l.end))?;
        }
        let none = l.kind != LoopKind::Parallel || l.carries.is_empty();
        ensure(none, || format!("loop {var}: parallel with carries"))?;
        for carry in &l.carries {
            let ty = self.used(carry.init)?;
            let one_type = [carry.inside, carry.next, carry.result].map(|r| self.ty(r) == ty);
            ensure(one_type == [true; 3], || format!("loop {var}: types of a carry differ"))?;
            ensure((l.kind == LoopKind::Reduce) == carry.op.is_some(), || {
                format!("loop {var}: {:?} with a carry by {:?}", l.kind, carry.op)
            })?;
        }
        let mut body = Vec::new();
        self.assign(var, &mut body)?;
        for carry in &l.carries {
            self.defined_as(carry.inside, &Def::Carry)?;
            self.assign(carry.inside, &mut body)?;
        }
        self.statements(&l.body, inner, &mut body)?;
        for carry in &l.carries {
            self.used(carry.next)?;
            if l.kind == LoopKind::Reduce {
                self.chains.push((carry, l));
            }
        }
        self.leave(body);
        for carry in &l.carries {
            self.defined_as(carry.result, &Def::Result)?;
            self.assign(carry.result, scope)?;
        }
        Ok(())
    }

    /// Walks each reduce carry's chain back from its next value.
    fn chains(&self) -> Checked {
        for &(carry, l) in &self.chains {
            let op = carry.op.expect("checked with the loop");
            ensure(op.reassociates(), || format!("loop {}: a carry by {op:?}", l.var))?;
            let mut link = carry.next;
            while link != carry.inside {
                ensure(self.uses[link] == 1, || {
                    format!("loop {}: {link} is a partial result and used elsewhere", l.var)
                })?;
                link = self.previous(link, op).ok_or_else(|| {
                    format!("loop {}: {} is not combined by {op:?} alone", l.var, carry.inside)
                })?;
            }
            let once = self.uses[carry.inside] == 1 && carry.next != carry.inside;
            ensure(once, || format!("loop {}: {} is used elsewhere", l.var, carry.inside))?;
        }
        Ok(())
    }

    fn previous(&self, link: Reg, op: BinaryOp) -> Option<Reg> {
        match &self.kernel.regs[link].def {
            Def::Inst(Inst::Binary(found, previous, _)) if *found == op => Some(*previous),
            Def::Result => {
                let carry = self.chains.iter().map(|c| c.0).find(|c| c.result == link)?;
                (carry.op == Some(op)).then_some(carry.init)
            }
            Def::Inst(_) | Def::LoopVar | Def::Carry => None,
        }
    }

    fn instruction(&mut self, reg: Reg, inst: &Inst) -> Checked {
        let ty = self.ty(reg);
        let is = |found: RegType| ensure(found == ty, || format!("gives {found}, not {ty}"));
        match inst {
            Inst::Const(bits) => ensure(bits & !mask(ty) == 0, || "upper bits are set".into()),
            Inst::Index(at) => {
                self.index(at)?;
                is(RegType::I64)
            }
            Inst::FloorDiv(at, by) | Inst::Modulo(at, by) => {
                self.index(at)?;
                ensure(*by > 0, || format!("by {by}"))?;
                is(RegType::I64)
            }
            Inst::Load(param, at) => {
                self.access(*param, false)?;
                self.index(at)?;
                is(self.kernel.params[*param].dtype.reg())
            }
            Inst::Unary(op, a) => {
                let found = self.used(*a)?;
                let (takes, gives) = unary_types(*op, found);
                ensure(takes, || format!("takes no {found}"))?;
                is(gives)
            }
            Inst::Binary(op, a, b) => {
                let found = self.used(*a)?;
                self.expect(*b, found)?;
                ensure(binary_takes(*op, found), || format!("takes no {found}"))?;
                is(found)
            }
            Inst::Fma(a, b, c) => {
                [a, b, c].into_iter().try_for_each(|&r| self.expect(r, ty))?;
                ensure(ty.is_float(), || format!("takes no {ty}"))
            }
            Inst::Compare(_, kind, a, b) => {
                let found = self.used(*a)?;
                self.expect(*b, found)?;
                let float = *kind == CompareKind::Float;
                ensure(float == found.is_float(), || format!("compares no {found}"))?;
                is(RegType::I1)
            }
            Inst::Select(condition, a, b) => {
                self.expect(*condition, RegType::I1)?;
                self.expect(*a, ty)?;
                self.expect(*b, ty)
            }
            Inst::Cast(op, a) => {
                let from = self.used(*a)?;
                ensure(cast_takes(*op, from, ty), || format!("from {from} to {ty}"))
            }
        }
    }
}

/// Whether the instruction takes the type, and what it gives.
fn unary_types(op: UnaryOp, from: RegType) -> (bool, RegType) {
    use UnaryOp as U;
    match op {
        U::Neg | U::Abs => (true, from),
        U::Sqrt | U::Floor | U::Ceil | U::Trunc | U::Nearest => (from.is_float(), from),
        U::Not | U::Popcnt | U::Clz => (!from.is_float(), from),
        U::RoundBf16 | U::RoundF16 => (from == RegType::F32, from),
        U::BitsBf16 | U::BitsF16 => (from == RegType::F32, RegType::I16),
        U::FromBitsBf16 | U::FromBitsF16 => (from == RegType::I16, RegType::F32),
    }
}

fn binary_takes(op: BinaryOp, ty: RegType) -> bool {
    use BinaryOp as B;
    match op {
        B::Add | B::Sub | B::Mul => true,
        B::Div | B::Rem | B::MinF | B::MaxF => ty.is_float(),
        B::DivS | B::DivU | B::RemS | B::RemU | B::MinS | B::MaxS | B::MinU | B::MaxU => {
            !ty.is_float()
        }
        B::And | B::Or | B::Xor | B::Shl | B::ShrS | B::ShrU => !ty.is_float(),
    }
}

fn cast_takes(op: CastOp, from: RegType, to: RegType) -> bool {
    let (int_from, int_to) = (!from.is_float(), !to.is_float());
    match op {
        CastOp::SignExtend | CastOp::ZeroExtend => int_from && int_to && from.bits() < to.bits(),
        CastOp::Truncate => int_from && int_to && from.bits() > to.bits(),
        CastOp::SignedToFloat | CastOp::UnsignedToFloat => int_from && to.is_float(),
        CastOp::FloatToSigned | CastOp::FloatToUnsigned => from.is_float() && int_to,
        CastOp::FloatToFloat => from.is_float() && to.is_float() && from != to,
        CastOp::Bitcast => from.bits() == to.bits() && from != to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{self, LoopOptions};
    use crate::{DType, KernelBuilder};

    /// A kernel whose outer loop stores `value(load)`, to be broken by a test.
    fn copy() -> (Kernel, ParamId) {
        let mut b = KernelBuilder::new("copy");
        let x = b.param(DType::F32, 8, Access::Read);
        let y = b.param(DType::F32, 8, Access::Write);
        b.set_range(8);
        builder::parallel(&mut b, 8, LoopOptions { ranged: true, split: false }, |b, i| {
            let value = b.load(x, i.clone());
            b.store(y, i.clone(), value);
        });
        (b.finish(), x)
    }

    fn check(change: impl FnOnce(&mut Kernel), expect: &str) {
        let (mut kernel, _) = copy();
        change(&mut kernel);
        let message = verify(&kernel).expect_err("a broken kernel");
        assert!(message.contains(expect), "{message} does not say {expect}");
    }

    #[test]
    fn a_right_kernel_passes() {
        assert_eq!(verify(&copy().0), Ok(()));
    }

    #[test]
    fn each_fault_is_named() {
        let outer = |kernel: &mut Kernel| {
            let Stmt::Loop(l) = kernel.body.stmts.remove(0) else { panic!("a loop") };
            *l
        };
        check(|k| k.range = Some(4), "outside the range");
        check(|k| k.params[ParamId::from_u32(0)].access = Access::Write, "is Write and is read");
        check(|k| k.params[ParamId::from_u32(1)].access = Access::Read, "is Read and is written");
        check(|k| k.params[ParamId::from_u32(0)].dtype = DType::F64, "gives f64, not f32");
        check(
            |k| {
                let l = outer(k);
                k.body.stmts.extend(l.body.stmts);
            },
            "not visible",
        );
        check(
            |k| {
                let mut l = outer(k);
                l.body.stmts.push(l.body.stmts[0].clone());
                k.body.stmts.push(Stmt::Loop(Box::new(l)));
            },
            "assigned twice",
        );
        check(
            |k| {
                let mut l = outer(k);
                l.ranged = false;
                k.body.stmts.push(Stmt::Loop(Box::new(l)));
            },
            "outside a ranged loop",
        );
    }

    #[test]
    fn a_reduce_carry_is_combined_by_its_instruction_alone() {
        let build = |twice: bool| {
            let mut b = KernelBuilder::new("sum");
            let x = b.param(DType::F32, 8, Access::Read);
            let y = b.param(DType::F32, 1, Access::Write);
            let inits = [(b.f32(0.0), Some(BinaryOp::Add))];
            let options = LoopOptions::default();
            let sum = builder::reduce(&mut b, 8, options, LoopKind::Reduce, &inits, |b, i, c| {
                let value = b.load(x, i.clone());
                let value = if twice { b.binary(BinaryOp::Mul, value, c[0]) } else { value };
                vec![b.binary(BinaryOp::Add, c[0], value)]
            });
            b.store(y, Affine::constant(0), sum[0]);
            b.finish()
        };
        assert_eq!(verify(&build(false)), Ok(()));
        assert!(verify(&build(true)).expect_err("used twice").contains("used elsewhere"));
    }
}
