//! Finds kernels that can run block of rows by block of rows, so that what one makes and the next
//! ones use is a block for each thread and no whole tensor.
//!
//! Kernels may share a tile if their outer index can count the same rows, and whatever one of them
//! writes and another reads is, for row `i` of the outer index, read in row `i` only. That is read
//! off the finished kernels: every position of such a value is `row * i` and less than a row more.

use super::Builder;
use crate::kernels::{self, Rows};
use jaxrs_kernel::kernel::{Block, Def, Kernel, Stmt};
use jaxrs_kernel::program::{
    Bytes, KernelId, Scratch, Sharing, Step, StepKind, Storage, Tile, ValueId,
};
use jaxrs_kernel::{Affine, Inst, ParamId, Reg, access};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes of all the blocks of a tile, about: what stays in a core's own cache.
const BLOCKS: u64 = 128 << 10;
/// A row of all the local values together is at most this long.
const MAX_ROW: u64 = 256 << 10;
/// Less than this is not worth a tile.
const MIN_SAVED: u64 = 4096;
/// Kernels of a tile at most, and how far apart in the order of steps.
const MAX_STEPS: usize = 12;
const REACH: usize = 24;

impl Builder<'_> {
    /// The steps with tiles made where they save memory, every kernel finished; `out` is what
    /// leaves the block.
    pub(super) fn finish_steps(&mut self, steps: Vec<Step>, out: &[ValueId]) -> Vec<Step> {
        let steps = if self.tiles { self.with_epilogues(steps, out) } else { steps };
        let mut taken = vec![false; steps.len()];
        let mut tiles: FxHashMap<usize, (Vec<usize>, u64)> = FxHashMap::default();
        if self.tiles && steps.iter().filter(|s| matches!(s.kind, StepKind::Kernel(_))).count() > 1
        {
            let block = Uses::new(self, &steps, out);
            for first in 0..steps.len() {
                if taken[first] {
                    continue;
                }
                if let Some((members, rows)) = self.grow(&steps, first, &taken, &block) {
                    members.iter().for_each(|&m| taken[m] = true);
                    tiles.insert(first, (members, rows));
                }
            }
            let mut slots: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
            let mut done = Vec::new();
            for at in 0..slots.len() {
                if let Some((members, rows)) = tiles.remove(&at) {
                    let inner: Vec<Step> = members
                        .iter()
                        .map(|&m| slots[m].take().expect("in one tile only"))
                        .map(|step| self.finish_step(step, Rows::Exactly(rows)))
                        .collect();
                    done.push(self.tile(inner, &members, rows, &block));
                } else if let Some(step) = slots[at].take() {
                    done.push(self.finish_step(step, Rows::Any));
                }
            }
            return done;
        }
        steps.into_iter().map(|step| self.finish_step(step, Rows::Any)).collect()
    }

    /// Those of the values that are memory and not local to a tile.
    pub(super) fn whole(&self, values: &[jaxrs_ir::ValueId]) -> Vec<jaxrs_ir::ValueId> {
        let mut local = FxHashSet::default();
        let mut stack: Vec<&Step> = self.program.body.iter().collect();
        while let Some(step) = stack.pop() {
            match &step.kind {
                StepKind::Tile(tile) => local.extend(tile.locals.iter().map(|&(v, _)| v)),
                StepKind::While(data) => stack.extend(data.condition.iter().chain(&data.body)),
                StepKind::Case(data) => stack.extend(data.branches.iter().flat_map(|b| &b.steps)),
                StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy => {}
            }
        }
        let whole =
            |v: &&jaxrs_ir::ValueId| self.values[**v].expand().is_some_and(|v| !local.contains(&v));
        values.iter().filter(whole).copied().collect()
    }

    fn finish_step(&mut self, mut step: Step, rows: Rows) -> Step {
        if let StepKind::Kernel(id) = step.kind {
            let kernel = &mut self.program.kernels[id];
            kernels::finish(kernel, rows);
            step.sharing = access::sharing(kernel, step.operands.len());
        }
        step
    }

    pub(super) fn base(&self, value: ValueId) -> ValueId {
        match self.program.values[value].storage {
            Storage::View { base, .. } => base,
            _ => value,
        }
    }

    /// The kernels that make a tile with the one at `first`, and its rows.
    fn grow(
        &self,
        steps: &[Step],
        first: usize,
        taken: &[bool],
        block: &Uses,
    ) -> Option<(Vec<usize>, u64)> {
        let options = self.row_counts(&steps[first]);
        if options.is_empty() {
            return None;
        }
        let mut tile = Growing { members: vec![first], options, first };
        for next in first + 1..steps.len().min(first + REACH) {
            if taken[next] || tile.members.len() >= MAX_STEPS {
                continue;
            }
            let reads = |step: &Step| {
                step.operands.iter().any(|&v| {
                    block.maker.get(&self.base(v)).is_some_and(|m| tile.members.contains(m))
                })
            };
            if !reads(&steps[next]) {
                continue;
            }
            // What it needs from between comes along if it can.
            let mut wanted: Vec<usize> = self
                .missing(&steps[next], &tile, block)
                .into_iter()
                .filter(|&m| m != next)
                .collect();
            wanted.sort_unstable();
            wanted.push(next);
            if wanted.len() > 3 || wanted.iter().any(|&m| taken[m]) {
                continue;
            }
            if self.keeps_alive(steps, &tile, &wanted, block) {
                continue;
            }
            if let Some(larger) = self.joined(steps, &tile, &wanted, block) {
                tile = larger;
            }
        }
        if tile.members.len() < 2 {
            return None;
        }
        let rows = *tile.options.iter().max()?;
        let locals = self.locals(steps, &tile.members, block);
        let bytes = |v: &ValueId| self.program.values[*v].bytes().0;
        let saved: u64 = locals.iter().map(bytes).sum();
        if saved < MIN_SAVED || saved / rows > MAX_ROW {
            return None;
        }
        Some((tile.members, rows))
    }

    /// The steps after the tile's first that a step needs and that are not in the tile.
    fn missing(&self, step: &Step, tile: &Growing, block: &Uses) -> Vec<usize> {
        let makers = step.operands.iter().filter_map(|&v| block.maker.get(&self.base(v)));
        let mut out: Vec<usize> =
            makers.copied().filter(|m| *m > tile.first && !tile.members.contains(m)).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Whether the tile with the steps `wanted`, too, would need more at once than they need after
    /// it: what either is the last to read is live for both, and that may be more than what no
    /// longer goes from the one to the other through memory.
    fn keeps_alive(&self, steps: &[Step], tile: &Growing, wanted: &[usize], block: &Uses) -> bool {
        let within = |at: &usize| tile.members.contains(at) || wanted.contains(at);
        let bytes = |value: ValueId| self.program.values[value].bytes().0;
        let [mut taken, mut saved] = [[0; 2], [0; 2]];
        for (n, members) in [&tile.members[..], wanted].into_iter().enumerate() {
            let mut seen = FxHashSet::default();
            for operand in members.iter().flat_map(|&at| &steps[at].operands) {
                let value = self.base(*operand);
                let Some(maker) = block.maker.get(&value).filter(|_| seen.insert(value)) else {
                    continue;
                };
                let readers = block.readers.get(&value).map_or(&[][..], |readers| &readers[..]);
                if within(maker) {
                    saved[n] += bytes(value);
                } else if readers.iter().all(|at| members.contains(at) || *at < tile.first) {
                    taken[n] += bytes(value);
                }
            }
        }
        taken[0].min(taken[1]) > saved[1]
    }

    fn joined(
        &self,
        steps: &[Step],
        tile: &Growing,
        wanted: &[usize],
        block: &Uses,
    ) -> Option<Growing> {
        let mut larger = tile.clone();
        for &next in wanted {
            if !self.missing(&steps[next], &larger, block).is_empty() {
                return None;
            }
            let counts = self.row_counts(&steps[next]);
            larger.options.retain(|rows| counts.contains(rows));
            larger.members.push(next);
        }
        larger.members.sort_unstable();
        larger.options.retain(|&rows| self.rows_apart(steps, &larger.members, rows));
        (!larger.options.is_empty()).then_some(larger)
    }

    /// The numbers of rows that a step's outer index can count.
    fn row_counts(&self, step: &Step) -> Vec<u64> {
        let StepKind::Kernel(id) = step.kind else { return Vec::new() };
        let kernel = &self.program.kernels[id];
        if !step.updates.is_empty() || kernel.range.is_none() {
            return Vec::new();
        }
        kernels::row_counts(kernel)
    }

    /// Whether what the members write is read by members in the same row only.
    fn rows_apart(&self, steps: &[Step], members: &[usize], rows: u64) -> bool {
        let mut written: FxHashSet<ValueId> = FxHashSet::default();
        for &m in members {
            written.extend(steps[m].results.iter().copied());
        }
        members.iter().all(|&m| {
            let step = &steps[m];
            let StepKind::Kernel(id) = step.kind else { return false };
            let touched = step.operands.iter().chain(&step.results).enumerate();
            let flows: Vec<(usize, ValueId)> = touched
                .map(|(n, &v)| (n, self.base(v)))
                .filter(|(_, v)| written.contains(v))
                .collect();
            self.row_wise(id, rows, &flows)
        })
    }

    /// Whether a kernel with so many rows touches these parameters row by row.
    fn row_wise(&self, id: KernelId, rows: u64, params: &[(usize, ValueId)]) -> bool {
        let mut kernel = self.program.kernels[id].clone();
        kernels::finish(&mut kernel, Rows::Exactly(rows));
        kernel.range == Some(rows)
            && params.iter().all(|&(n, _)| {
                let param = ParamId::from_u32(n as u32);
                let len = kernel.params[param].len;
                len.is_multiple_of(rows) && touches_rows(&kernel, param, (len / rows) as i64)
            })
    }

    /// What the members make and nothing else uses.
    fn locals(&self, steps: &[Step], members: &[usize], block: &Uses) -> Vec<ValueId> {
        let results = members.iter().flat_map(|&m| steps[m].results.iter().copied());
        results
            .filter(|v| {
                let readers = block.readers.get(v).map_or(&[][..], |r| &r[..]);
                !block.leaves.contains(v) && readers.iter().all(|r| members.contains(r))
            })
            .collect()
    }

    fn tile(&mut self, steps: Vec<Step>, members: &[usize], rows: u64, block: &Uses) -> Step {
        let every: Vec<usize> = (0..steps.len()).collect();
        let renamed = Uses {
            maker: FxHashMap::default(),
            readers: block
                .readers
                .iter()
                .map(|(&v, readers)| {
                    let at = |r: &usize| members.iter().position(|m| m == r).unwrap_or(usize::MAX);
                    (v, readers.iter().map(at).collect())
                })
                .collect(),
            leaves: block.leaves.clone(),
        };
        let locals = self.locals(&steps, &every, &renamed);
        let row: u64 = locals.iter().map(|&v| self.program.values[v].bytes().0 / rows).sum();
        let block_rows = (BLOCKS / row.max(1)).clamp(1, rows);
        let mut end = Bytes(0);
        let mut placed = Vec::new();
        for &local in &locals {
            placed.push((local, end));
            let bytes = self.program.values[local].bytes().0 / rows * block_rows;
            end = Bytes(end.0 + bytes).aligned();
        }
        let mut made: Vec<ValueId> = Vec::new();
        let (mut operands, mut results): (Vec<ValueId>, Vec<ValueId>) = (Vec::new(), Vec::new());
        let mut sources = [Vec::new(), Vec::new()];
        for step in &steps {
            let [from, to] = &self.sources[&step.id];
            for (&operand, &source) in step.operands.iter().zip(from) {
                if !made.contains(&self.base(operand)) && !operands.contains(&operand) {
                    operands.push(operand);
                    sources[0].push(source);
                }
            }
            for (&result, &source) in step.results.iter().zip(to) {
                made.push(result);
                if !locals.contains(&result) {
                    results.push(result);
                    sources[1].push(source);
                }
            }
        }
        let sharing = results
            .iter()
            .map(|&r| operands.iter().map(|&o| self.tile_sharing(&steps, r, o, rows)).collect())
            .collect();
        let origin = Some(self.origin(&sources[0], &sources[1]));
        let kind = StepKind::Tile(Box::new(Tile {
            extent: rows,
            rows: block_rows,
            steps,
            locals: placed,
        }));
        let step = self.step(kind, operands, results, sharing, origin);
        Step { scratch: Scratch { per_thread: end }, ..step }
    }

    /// A result may take an operand's place if every row of it is read, by the steps up to the one
    /// that writes the result's row, in that row's turn.
    fn tile_sharing(
        &self,
        steps: &[Step],
        result: ValueId,
        operand: ValueId,
        rows: u64,
    ) -> Sharing {
        let writer = steps.iter().position(|s| s.results.contains(&result)).expect("a result");
        let bytes = |v: ValueId| self.program.values[v].bytes();
        if bytes(result) != bytes(operand) {
            return Sharing::Never;
        }
        let fits = steps.iter().enumerate().all(|(n, step)| {
            let Some(at) = step.operands.iter().position(|&o| o == operand) else { return true };
            let StepKind::Kernel(id) = step.kind else { return false };
            let kernel = &self.program.kernels[id];
            let param = ParamId::from_u32(at as u32);
            let len = kernel.params[param].len;
            let apart =
                len.is_multiple_of(rows) && touches_rows(kernel, param, (len / rows) as i64);
            match n.cmp(&writer) {
                std::cmp::Ordering::Less => apart,
                std::cmp::Ordering::Equal => {
                    let to = step.results.iter().position(|&r| r == result).expect("written here");
                    step.sharing[to][at] >= Sharing::SameElement
                }
                std::cmp::Ordering::Greater => false,
            }
        });
        if fits { Sharing::SameElement } else { Sharing::Never }
    }
}

/// A tile that is being put together.
#[derive(Clone)]
struct Growing {
    members: Vec<usize>,
    options: Vec<u64>,
    first: usize,
}

/// Who makes and who reads the values of a block.
pub(super) struct Uses {
    maker: FxHashMap<ValueId, usize>,
    pub(super) readers: FxHashMap<ValueId, Vec<usize>>,
    pub(super) leaves: FxHashSet<ValueId>,
}

impl Uses {
    pub(super) fn new(builder: &Builder<'_>, steps: &[Step], out: &[ValueId]) -> Uses {
        let mut uses = Uses {
            maker: FxHashMap::default(),
            readers: FxHashMap::default(),
            leaves: out.iter().map(|&v| builder.base(v)).collect(),
        };
        for (at, step) in steps.iter().enumerate() {
            step.results.iter().for_each(|&v| {
                uses.maker.insert(v, at);
            });
            reads(step, &mut |v| uses.readers.entry(builder.base(v)).or_default().push(at));
        }
        uses
    }
}

/// The values that a step reads, those of nested steps included.
fn reads(step: &Step, see: &mut dyn FnMut(ValueId)) {
    step.operands.iter().for_each(|&v| see(v));
    match &step.kind {
        StepKind::While(data) => {
            data.condition.iter().chain(&data.body).for_each(|s| reads(s, see));
            data.next.iter().for_each(|&v| see(v));
            see(data.condition_value);
        }
        StepKind::Case(data) => {
            for branch in &data.branches {
                branch.steps.iter().for_each(|s| reads(s, see));
                branch.results.iter().for_each(|&v| see(v));
            }
        }
        StepKind::Tile(tile) => tile.steps.iter().for_each(|s| reads(s, see)),
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy => {}
    }
}

/// Whether every access of a parameter is in the row that the outer index counts.
fn touches_rows(kernel: &Kernel, param: ParamId, row: i64) -> bool {
    block_touches(kernel, &kernel.body, param, row, None)
}

fn block_touches(
    kernel: &Kernel,
    block: &Block,
    param: ParamId,
    row: i64,
    outer: Option<Reg>,
) -> bool {
    let inside = |at: &Affine| {
        let Some(outer) = outer else { return false };
        let by = at.coefficient(outer);
        let mut rest = at.clone();
        rest.add_term(outer, -by);
        let (low, high) = bounds(kernel, &rest);
        by == row && low >= 0 && high < i128::from(row)
    };
    block.stmts.iter().all(|stmt| match stmt {
        Stmt::Let(reg) => match &kernel.regs[*reg].def {
            Def::Inst(Inst::Load(p, at)) if *p == param => inside(at),
            _ => true,
        },
        Stmt::Store { param: p, at, .. } => *p != param || inside(at),
        Stmt::Loop(l) => {
            let outer = if l.ranged { Some(l.var) } else { outer };
            block_touches(kernel, &l.body, param, row, outer)
        }
        Stmt::If(branch) => {
            block_touches(kernel, &branch.then, param, row, outer)
                && block_touches(kernel, &branch.otherwise, param, row, outer)
        }
    })
}

fn bounds(kernel: &Kernel, at: &Affine) -> (i128, i128) {
    let mut sum = (i128::from(at.constant), i128::from(at.constant));
    for &(reg, coefficient) in &at.terms {
        let (low, high) = kernel.regs[reg].bounds.unwrap_or((i64::MIN, i64::MAX));
        let (a, b) =
            (i128::from(low) * i128::from(coefficient), i128::from(high) * i128::from(coefficient));
        sum = (sum.0 + a.min(b), sum.1 + a.max(b));
    }
    sum
}
