//! Loops whose carries change places, unrolled so that they need no copies: after two iterations of
//! `(previous, current) -> (current, new)`, or of `x -> f(x)` where `f` cannot run in place, each
//! value is back in the memory it started from.
//!
//! Where the number of iterations is known, what it leaves over is peeled off before the loop.
//! Else the second half of the body is a branch on the condition; its other side puts the carries
//! back, once, at the end of the loop.

use crate::pipeline::Code;
use crate::walk::{lists_mut, visit};
use jaxrs_kernel::inst::{BinaryOp, Compare, CompareKind, Inst};
use jaxrs_kernel::kernel::{Def, Kernel, Reg, Stmt};
use jaxrs_kernel::program::{
    Branch, Bytes, Case, KernelId, Program, Scratch, Step, StepId, StepKind, Storage, Value,
    ValueId, While,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Steps of a body, with those inside, that may be repeated.
const MAX_BODY: usize = 200;

/// Repeats the bodies of loops `times` times. Returns the branches made for loops of unknown
/// length; none if no loop was unrolled.
pub(crate) fn unroll(
    program: &mut Program,
    code: &Code,
    loops: &FxHashSet<StepId>,
    times: u64,
    next_step: &mut u32,
) -> Option<FxHashSet<StepId>> {
    let mut makers: FxHashMap<ValueId, (KernelId, usize)> = FxHashMap::default();
    visit(&program.body, &mut |step| {
        if let StepKind::Kernel(kernel) = step.kind {
            for &result in &step.results {
                makers.insert(result, (kernel, step.operands.len()));
            }
        }
    });
    let mut body = std::mem::take(&mut program.body);
    let mut unroller = Unroller {
        program,
        code,
        loops,
        times,
        next_step,
        makers,
        branches: FxHashSet::default(),
        any: false,
    };
    unroller.list(&mut body);
    let (any, branches) = (unroller.any, unroller.branches);
    program.body = body;
    any.then_some(branches)
}

struct Unroller<'a> {
    program: &'a mut Program,
    code: &'a Code,
    loops: &'a FxHashSet<StepId>,
    times: u64,
    next_step: &'a mut u32,
    /// The kernel that makes a value, and the number of its operands.
    makers: FxHashMap<ValueId, (KernelId, usize)>,
    branches: FxHashSet<StepId>,
    any: bool,
}

type Names = FxHashMap<ValueId, ValueId>;

impl Unroller<'_> {
    fn list(&mut self, steps: &mut Vec<Step>) {
        for mut step in std::mem::take(steps) {
            for list in lists_mut(&mut step) {
                self.list(list);
            }
            if self.loops.contains(&step.id) {
                self.repeat(steps, &mut step);
            }
            steps.push(step);
        }
    }

    fn repeat(&mut self, before: &mut Vec<Step>, step: &mut Step) {
        let StepKind::While(inner) = &mut step.kind else { return };
        let mut size = 0;
        visit(&inner.body, &mut |_| size += 1);
        if size > MAX_BODY {
            return;
        }
        let original = inner.body.clone();
        match self.iterations(&step.operands, inner) {
            Some(n) if n < 2 * self.times => {}
            Some(n) => {
                let mut current = step.operands.clone();
                for _ in 0..n % self.times {
                    current = self.iteration(before, inner, &original, &current);
                }
                step.operands = current;
                let mut next = inner.next.clone();
                let mut body = std::mem::take(&mut inner.body);
                for _ in 1..self.times {
                    next = self.iteration(&mut body, inner, &original, &next);
                }
                inner.body = body;
                inner.next = next;
                self.any = true;
            }
            None if self.times == 2 => {
                self.branch(inner, &original);
                self.any = true;
            }
            None => {}
        }
    }

    /// Appends one more iteration of the original body, whose next carries `inner` still names, that
    /// starts from `current`; returns its next carries.
    fn iteration(
        &mut self,
        out: &mut Vec<Step>,
        inner: &While,
        body: &[Step],
        current: &[ValueId],
    ) -> Vec<ValueId> {
        let mut names: Names = inner.carries.iter().copied().zip(current.iter().copied()).collect();
        out.extend(body.iter().map(|s| self.copy_step(&mut names, s)).collect::<Vec<_>>());
        inner.next.iter().map(|&v| self.name(&mut names, v)).collect()
    }

    /// Makes the second iteration a branch on the condition.
    fn branch(&mut self, inner: &mut While, body: &[Step]) {
        let first = inner.next.clone();
        let mut names: Names = inner.carries.iter().copied().zip(first.iter().copied()).collect();
        let condition: Vec<Step> =
            inner.condition.iter().map(|s| self.copy_step(&mut names, s)).collect();
        let flag = self.name(&mut names, inner.condition_value);
        inner.body.extend(condition);
        let mut second = Vec::new();
        let next = self.iteration(&mut second, inner, body, &first);
        let results: Vec<ValueId> =
            first.iter().map(|&v| self.copy_value(v, Storage::Own)).collect();
        let id = self.step_id();
        self.branches.insert(id);
        let branches = vec![
            Branch { steps: second, results: next },
            Branch { steps: Vec::new(), results: first },
        ];
        inner.body.push(Step {
            id,
            kind: StepKind::Case(Box::new(Case { branches })),
            operands: vec![flag],
            results: results.clone(),
            updates: Vec::new(),
            sharing: vec![vec![jaxrs_kernel::program::Sharing::Never]; results.len()],
            scratch: Scratch::default(),
            origin: None,
        });
        inner.next = results;
    }

    fn step_id(&mut self) -> StepId {
        let id = StepId::from_u32(*self.next_step);
        *self.next_step += 1;
        id
    }

    fn copy_value(&mut self, value: ValueId, storage: Storage) -> ValueId {
        let data = self.program.values[value].clone();
        let name = format!("{}.turn{}", data.name, self.program.values.len());
        self.program.values.push(Value { name, storage, ..data })
    }

    /// What a value of the body is called in a copy of the body.
    fn name(&mut self, names: &mut Names, value: ValueId) -> ValueId {
        if let Some(&name) = names.get(&value) {
            return name;
        }
        let Storage::View { base, offset } = self.program.values[value].storage else {
            return value;
        };
        let Some(&base) = names.get(&base) else { return value };
        let view = self.view(base, offset, value);
        names.insert(value, view);
        view
    }

    fn view(&mut self, base: ValueId, offset: Bytes, like: ValueId) -> ValueId {
        let storage = match self.program.values[base].storage {
            Storage::View { base, offset: more } => {
                Storage::View { base, offset: Bytes(offset.0 + more.0) }
            }
            Storage::Own | Storage::Parameter(_) | Storage::Constant(_) => {
                Storage::View { base, offset }
            }
        };
        self.copy_value(like, storage)
    }

    /// A new value for what a step makes.
    fn made(&mut self, names: &mut Names, value: ValueId) -> ValueId {
        let copy = match self.program.values[value].storage {
            Storage::View { base, offset } => {
                let base = match names.get(&base) {
                    Some(&base) => base,
                    None => {
                        let copy = self.copy_value(base, Storage::Own);
                        names.insert(base, copy);
                        copy
                    }
                };
                self.view(base, offset, value)
            }
            storage @ (Storage::Own | Storage::Parameter(_) | Storage::Constant(_)) => {
                self.copy_value(value, storage)
            }
        };
        names.insert(value, copy);
        copy
    }

    fn copy_step(&mut self, names: &mut Names, step: &Step) -> Step {
        let mut copy = step.clone();
        copy.id = self.step_id();
        copy.operands = step.operands.iter().map(|&v| self.name(names, v)).collect();
        match &mut copy.kind {
            StepKind::While(inner) => {
                inner.carries = inner.carries.iter().map(|&v| self.made(names, v)).collect();
                inner.condition =
                    inner.condition.iter().map(|s| self.copy_step(names, s)).collect();
                inner.condition_value = self.name(names, inner.condition_value);
                inner.body = inner.body.iter().map(|s| self.copy_step(names, s)).collect();
                inner.next = inner.next.iter().map(|&v| self.name(names, v)).collect();
            }
            StepKind::Case(inner) => {
                let again = self.branches.contains(&step.id);
                if again {
                    self.branches.insert(copy.id);
                }
                for branch in &mut inner.branches {
                    branch.steps = branch.steps.iter().map(|s| self.copy_step(names, s)).collect();
                    branch.results = branch.results.iter().map(|&v| self.name(names, v)).collect();
                }
            }
            StepKind::Tile(tile) => {
                for (value, _) in &mut tile.locals {
                    *value = self.made(names, *value);
                }
                let results: Vec<ValueId> =
                    step.results.iter().map(|&v| self.made(names, v)).collect();
                for inner in &mut tile.steps {
                    inner.id = self.step_id();
                    let operands = inner.operands.iter().map(|&v| self.name(names, v));
                    inner.operands = operands.collect();
                    inner.results = inner.results.iter().map(|&v| self.name(names, v)).collect();
                }
                copy.results = results;
                return copy;
            }
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy => {}
        }
        copy.results = step.results.iter().map(|&v| self.made(names, v)).collect();
        copy
    }

    /// The number of iterations, if a carry counts up from a known value by a known step to a
    /// known bound.
    fn iterations(&self, operands: &[ValueId], inner: &While) -> Option<u64> {
        let test = inner.condition.iter().find(|s| s.results.contains(&inner.condition_value))?;
        let StepKind::Kernel(kernel) = test.kind else { return None };
        let (&[read], &[_]) = (&test.operands[..], &test.results[..]) else { return None };
        let i = inner.carries.iter().position(|&c| c == read)?;
        let limit = limit(&self.code.kernels[kernel])?;
        let add = inner.body.iter().find(|s| s.results.contains(&inner.next[i]))?;
        let StepKind::Kernel(kernel) = add.kind else { return None };
        if add.operands[..] != [read] || add.results.len() != 1 {
            return None;
        }
        let by = increment(&self.code.kernels[kernel])?;
        let start = self.scalar(operands[i])?;
        if by <= 0 || limit <= start {
            return None;
        }
        // The carry must not wrap: that holds as it stays below the bound plus the step.
        let count = (limit - start).unsigned_abs().div_ceil(by.unsigned_abs());
        limit.checked_add(by).filter(|&l| l <= i64::from(i32::MAX)).map(|_| count)
    }

    /// The value of an integer scalar that is a constant or made by a kernel without operands.
    fn scalar(&self, value: ValueId) -> Option<i64> {
        let data = &self.program.values[value];
        if data.len() != 1 || !data.dtype.is_int() {
            return None;
        }
        match data.storage {
            Storage::Constant(c) => {
                let bytes = self.code.constants.get(c)?;
                let mut wide = [0u8; 8];
                let size = bytes.len().min(8);
                wide[..size].copy_from_slice(&bytes[..size]);
                signed(u64::from_le_bytes(wide), 8 * size as u32)
            }
            Storage::Own => {
                let &(kernel, operands) = self.makers.get(&value)?;
                let kernel = &self.code.kernels[kernel];
                let [.., Stmt::Store { value, .. }] = &kernel.body.stmts[..] else { return None };
                (operands == 0 && kernel.params.len() == 1).then_some(())?;
                constant(kernel, *value)
            }
            Storage::Parameter(_) | Storage::View { .. } => None,
        }
    }
}

fn signed(bits: u64, width: u32) -> Option<i64> {
    let unused = 64u32.checked_sub(width)?;
    Some(((bits << unused) as i64) >> unused)
}

fn instruction(kernel: &Kernel, reg: Reg) -> Option<&Inst> {
    match &kernel.regs[reg].def {
        Def::Inst(inst) => Some(inst),
        Def::LoopVar | Def::Carry | Def::Result => None,
    }
}

fn constant(kernel: &Kernel, reg: Reg) -> Option<i64> {
    match instruction(kernel, reg)? {
        Inst::Const(bits) => signed(*bits, kernel.regs[reg].ty.bits()),
        Inst::Index(at) => at.as_constant(),
        _ => None,
    }
}

/// The register stored by a kernel that reads and writes one element each.
fn stored(kernel: &Kernel) -> Option<&Inst> {
    let [.., Stmt::Store { value, .. }] = &kernel.body.stmts[..] else { return None };
    let straight = kernel.body.stmts.iter().all(|s| matches!(s, Stmt::Let(_) | Stmt::Store { .. }));
    let stores = kernel.body.stmts.iter().filter(|s| matches!(s, Stmt::Store { .. })).count();
    let scalars = kernel.params.values().all(|p| p.len == 1) && kernel.params.len() == 2;
    if straight && scalars && stores == 1 { instruction(kernel, *value) } else { None }
}

fn is_load(kernel: &Kernel, reg: Reg) -> bool {
    matches!(instruction(kernel, reg), Some(Inst::Load(..)))
}

/// The bound of `carry < bound`.
fn limit(kernel: &Kernel) -> Option<i64> {
    match *stored(kernel)? {
        Inst::Compare(Compare::Lt, CompareKind::Signed, a, b) if is_load(kernel, a) => {
            constant(kernel, b)
        }
        Inst::Compare(Compare::Gt, CompareKind::Signed, a, b) if is_load(kernel, b) => {
            constant(kernel, a)
        }
        _ => None,
    }
}

/// The step of `carry + step`.
fn increment(kernel: &Kernel) -> Option<i64> {
    match *stored(kernel)? {
        Inst::Binary(BinaryOp::Add, a, b) if is_load(kernel, a) => constant(kernel, b),
        Inst::Binary(BinaryOp::Add, a, b) if is_load(kernel, b) => constant(kernel, a),
        _ => None,
    }
}
