//! Whether an op is computed inside its readers' kernels rather than kept in memory.

use super::{At, Decider, MAX_CHAIN, MAX_CODE, MAX_SIZE};
use crate::fuse::cost::{self, STEP};
use crate::fuse::maps::{IDENTITY, Site, borders, operand_site};
use crate::fuse::units::{Kind, UnitData};
use crate::fuse::{base, constant};
use cranelift_entity::packed_option::PackedOption;
use jaxrs_ir::lower::{ElementCost, Lowering};
use jaxrs_ir::{BlockId, Op, OpId, ValueDef, ValueId, ops};
use rustc_hash::FxHashSet;

/// Pieces of a loop that is split at borders, at most.
const MAX_PIECES: usize = 9;
/// Ways to read one pad or concatenation whose borders all are splits of loops.
const MAX_BORDERED: u32 = 150;
/// Ops between a kernel's root and what it inlines at other indices than its own.
const MAX_DEPTH: u32 = 120;
/// Ways to read one value in one kernel, beyond which it becomes memory.
const MAX_MAPS: u32 = 4;
/// What one more instruction of code costs, in units of running it once.
const CODE: f64 = 30.0;
/// Large intermediate values that one kernel reads at most: all are live at once.
const MAX_LARGE: usize = 6;

impl Decider<'_> {
    /// Whether the op's operands would be overwritten before they are read where the op's result
    /// is.
    pub(super) fn outlives(&self, op: OpId, at: &At) -> bool {
        let value = self.f.ops[op].results[0];
        let mut readers = Vec::new();
        for site in &self.sites[value].0 {
            let unit = at.units.get(site.unit);
            match unit.kind {
                Kind::Op(op) => readers.extend(&self.f.ops[op].results),
                Kind::Kernel(_) => readers.extend(&unit.roots),
            }
        }
        let memory = |v: ValueId| self.estimates[v].memory;
        self.overwritten.outlived(self.f, op, &memory, &readers)
    }

    pub(super) fn worth_inlining(&mut self, op: OpId, cost: ElementCost, at: &mut At) -> bool {
        let f = self.f;
        let value = f.ops[op].results[0];
        let estimate = self.estimates[value];
        let length = f.ty(value).len() as f64;
        if self.sites[value].0.len() > 1 && estimate.work > 1.0 && length > 1.0 {
            self.merge_readers(value, at);
        }
        if self.frees_operand(op, at) {
            return false;
        }
        let sites = &self.sites[value].0;
        let size = cost::instructions(f, op);
        let is_loop = matches!(cost, ElementCost::Loop(_));
        let (mut evaluations, mut inlined) = (0.0, 0.0);
        for site in sites {
            let unit = at.units.get(site.unit);
            let own_index = site.map == IDENTITY;
            let deepest = if own_index { MAX_CHAIN } else { MAX_DEPTH };
            let code = (unit.size + size).saturating_mul(unit.cuts.copies());
            if unit.size + size > MAX_SIZE || code > MAX_CODE || site.depth > deepest {
                return false;
            }
            let once =
                |op: OpId| matches!(f.ops[op].op, Op::DynamicUpdateSlice(_)) && sites.len() == 1;
            if matches!(unit.kind, Kind::Op(op) if !once(op)) && (is_loop || estimate.work > 400.0)
            {
                return false;
            }
            if self.crowds(op, unit) {
                return false;
            }
            let times = if is_loop { site.iterations() } else { site.evaluations() };
            evaluations += times;
            inlined += times * self.extra_work(op, site).min(estimate.work);
        }
        if !self.few_ways(op, at) {
            return false;
        }
        if sites.len() == 1 && evaluations <= 1.01 * length {
            return true;
        }
        if cost == ElementCost::Free && !is_loop {
            return true;
        }
        let traffic = cost::traffic(f, value);
        let code = CODE * f64::from(size) * (sites.len() - 1) as f64;
        let stored = |place: f64| length * (estimate.work + place) + evaluations * traffic + STEP;
        let dear = cost::dear_place(f, value);
        if inlined + code <= stored(cost::place(f, value)) {
            return true;
        }
        if inlined + code > dear.map_or(0.0, stored) || !self.needs_less(op) {
            return false;
        }
        if !self.again.contains(&value) {
            self.fused.avoidable.push(value);
            return false;
        }
        true
    }

    /// Whether a few elements are taken or summed up of a large value, to be reduced to fewer: kept
    /// by themselves, they set the large value free for whatever takes its place, and may be made
    /// in one tile with it.
    pub(super) fn frees_operand(&self, op: OpId, at: &At) -> bool {
        let f = self.f;
        let data = &f.ops[op];
        let (ty, from) = (f.ty(data.results[0]), data.operands.first().map(|&v| f.ty(v)));
        let few = from.is_some_and(|from| {
            from.bytes() > cost::SMALL_BYTES && 8 * ty.bytes() <= from.bytes() && ty.len() > 1
        });
        let reduced = |site: &Site| match &at.units.get(site.unit).kind {
            Kind::Kernel(shape) => shape.iter().product::<u64>() < ty.len(),
            Kind::Op(_) => false,
        };
        matches!(data.op, Op::Gather(_) | Op::Reduce(_))
            && few
            && self.sites[data.results[0]].0.iter().any(reduced)
    }

    /// Whether no unit reads the op's value in so many ways that its code would be too much.
    pub(super) fn few_ways(&self, op: OpId, at: &At) -> bool {
        let f = self.f;
        let sites = &self.sites[f.ops[op].results[0]];
        let op_data = &f.ops[op].op;
        let bordered = matches!(op_data, Op::Pad(_) | Op::Concatenate(_));
        let most = match op_data {
            // Guards that are no splits of loops stay in the innermost loop.
            Op::Pad(_) | Op::Concatenate(_) => 2,
            // No code of their own.
            Op::Slice(_) | Op::Reverse(_) => MAX_BORDERED,
            _ => MAX_MAPS,
        };
        sites.by_unit().into_iter().all(|(unit, ways)| {
            ways <= most || bordered && ways <= MAX_BORDERED && self.splits(op, unit, ways, at)
        })
    }

    /// Whether the unit's loops can be split so that no guard of the op is left, in code that is
    /// not too much.
    pub(super) fn splits(&self, op: OpId, unit: u32, ways: u32, at: &At) -> bool {
        let data = at.units.get(unit);
        let mut cuts = data.cuts.clone();
        for site in self.sites[self.f.ops[op].results[0]].0.iter().filter(|s| s.unit == unit) {
            let Some(borders) = borders(self.f, op, site) else { return false };
            borders.into_iter().for_each(|(position, at)| cuts.add(position, at));
        }
        let code = (data.size + ways).saturating_mul(cuts.copies());
        cuts.longest() <= MAX_PIECES && code <= MAX_CODE
    }

    /// What an element costs at a site: operands that the unit reads there anyway are free.
    pub(super) fn extra_work(&self, op: OpId, site: &Site) -> f64 {
        let f = self.f;
        let data = &f.ops[op];
        let own = cost::own_work(f, op);
        let operands = data.operands.iter().enumerate().map(|(number, &operand)| {
            let estimate = self.estimates[operand];
            if f.ty(operand).rank() == 0 || estimate.symbolic {
                return 0.0;
            }
            let inner = operand_site(f, op, number, site);
            let read = |s: &Site| s.unit == inner.unit && s.map == inner.map;
            if self.sites[operand].0.iter().any(read) {
                return 0.0;
            }
            if estimate.memory { cost::traffic(f, operand) } else { estimate.work }
        });
        let times = match ops::lower(f, op) {
            Lowering::Elements { cost: ElementCost::Loop(n), .. } => n as f64,
            _ => 1.0,
        };
        own + times * operands.sum::<f64>()
    }

    /// Whether computing the op again keeps no more memory alive than keeping its result does:
    /// what it is computed from is an argument, or is not larger in all.
    pub(super) fn needs_less(&self, op: OpId) -> bool {
        let f = self.f;
        if !pointwise(&f.ops[op].op) {
            return false;
        }
        let mut left = f.ty(f.ops[op].results[0]).bytes();
        let mut stack = f.ops[op].operands.clone();
        let mut seen = FxHashSet::default();
        while let Some(value) = stack.pop() {
            if !seen.insert(value) || f.ty(value).bytes() <= 512 {
                continue;
            }
            let estimate = self.estimates[value];
            let parameter = f.blocks[f.body].arguments.contains(&value);
            match f.defining_op(value) {
                Some(op) if !estimate.memory => {
                    if !pointwise(&f.ops[op].op) {
                        return false;
                    }
                    stack.extend(&f.ops[op].operands);
                }
                _ if !parameter && !estimate.symbolic && constant(f, value).is_none() => {
                    let Some(rest) = left.checked_sub(f.ty(value).bytes()) else { return false };
                    left = rest;
                }
                _ => {}
            }
            if seen.len() > 60 {
                return false;
            }
        }
        true
    }

    /// Whether the value is written part by part: it is live whoever reads a part.
    pub(super) fn is_updated(&self, value: ValueId) -> bool {
        let op = self.f.defining_op(value).map(|op| &self.f.ops[op].op);
        matches!(op, Some(Op::DynamicUpdateSlice(_)))
    }

    /// Whether a value, or what it is sliced from, is made in a block: others are live all along.
    fn is_of_block(&self, value: ValueId, block: PackedOption<BlockId>) -> bool {
        let mut value = base(self.f, value);
        while let Some(op) = self.f.defining_op(value)
            && matches!(self.f.ops[op].op, Op::Slice(_) | Op::DynamicSlice(_))
        {
            value = base(self.f, self.f.ops[op].operands[0]);
        }
        match self.f.values[value].def {
            ValueDef::Argument(home, _) => Some(home) == block.expand(),
            ValueDef::Result(op, _) => self.home[op] == block,
        }
    }

    /// Whether computing the op in a unit would make it read too many large intermediate values at
    /// once, or a large one where only a small one would be live.
    pub(super) fn crowds(&self, op: OpId, unit: &UnitData) -> bool {
        let f = self.f;
        let data = &f.ops[op];
        let result = f.ty(data.results[0]).bytes();
        // What a loop takes from outside is live in all of it, whoever reads it.
        let here = self.home[op];
        let own = |v: ValueId| f.defining_op(v).is_none_or(|maker| self.home[maker] == here);
        let large = |v: &ValueId, than: u64| {
            f.ty(*v).bytes() > 512.max(than) && self.estimates[*v].made && own(*v)
        };
        let added: Vec<ValueId> = data
            .operands
            .iter()
            .copied()
            .filter(|v| !unit.reads.contains(v) && large(v, 0) && !self.is_updated(*v))
            .filter(|v| self.is_of_block(*v, self.home[op]))
            .collect();
        let shrinks = added.iter().any(|v| f.ty(*v).bytes() >= 8 * result);
        let memory = |v: &&ValueId| shrinks || self.estimates[**v].memory;
        let added = added.iter().filter(memory).count();
        if added == 0 {
            return false;
        }
        if shrinks {
            // Whatever else it waits for, however small, would keep the large value.
            let other = |v: &ValueId| {
                let form = self.fused.forms[*v];
                f.ty(*v).bytes() > result / 2
                    && self.estimates[*v].made
                    && (form.stored || !form.inline)
                    && !data.results.contains(v)
            };
            return added + unit.reads.iter().filter(|v| other(v)).count() > 1;
        }
        let known = unit.reads.iter().filter(memory).filter(|v| large(v, 0)).count();
        known + added > MAX_LARGE
    }
}

/// Whether an element is computed from the operands' elements at its own place, or repeats one.
fn pointwise(op: &Op) -> bool {
    matches!(
        op,
        Op::Elementwise(_)
            | Op::Convert(_)
            | Op::Compare(_)
            | Op::Select(_)
            | Op::Clamp(_)
            | Op::BroadcastInDim(_)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Iota(_)
            | Op::Constant(_)
    )
}
