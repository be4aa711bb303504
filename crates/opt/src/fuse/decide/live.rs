//! Values that are kept so that less is live while a reader of them waits for something else.

use super::{At, Decider};
use crate::fuse::{base, constant};
use jaxrs_ir::{Op, OpId, ValueDef, ValueId};
use rustc_hash::FxHashSet;

/// Values looked at for one question.
const MAX_VALUES: usize = 60;
/// Results of at most so many bytes are not worth a step.
const LEAST_BYTES: u64 = 64;
/// What is read again within so many ops is nearly read for the last time.
const NEAR: u32 = 24;

impl Decider<'_> {
    /// Whether the op's result is less to keep than what it is computed from, where a reader waits
    /// for a value that is made later: an accumulator rather than all its summands.
    ///
    /// Only memory counts that nothing else needs by then.
    pub(super) fn is_less_to_keep(&self, op: OpId, at: &At) -> bool {
        let f = self.f;
        let value = f.ops[op].results[0];
        let bytes = f.ty(value).bytes();
        if bytes <= LEAST_BYTES || !computes(&f.ops[op].op) {
            return false;
        }
        let total = |sources: &[ValueId]| sources.iter().map(|&v| f.ty(v).bytes()).sum::<u64>();
        let sources = self.sources(op);
        if 2 * total(&sources) < 3 * bytes {
            return false;
        }
        let waits = |unit: u32| self.waits_for(unit, at);
        let Some(later) = self.sites[value].0.iter().filter_map(|site| waits(site.unit)).max()
        else {
            return false;
        };
        let is_free = |v: &ValueId| {
            let sites = self.sites[*v].0.iter().map(|site| site.unit);
            let mut readers = sites.chain(self.readers[*v].iter().copied());
            let soon = later.min(at.position + NEAR);
            !self.returned[*v] && readers.all(|unit| at.units.get(unit).position < soon)
        };
        let free: Vec<ValueId> = sources.into_iter().filter(is_free).collect();
        2 * total(&free) >= 3 * bytes
    }

    /// The position of the last op after this one whose memory the unit loads.
    pub(super) fn waits_for(&self, unit: u32, at: &At) -> Option<u32> {
        let unit = at.units.get(unit);
        let made = unit.reads.iter().filter_map(|&v| {
            let form = self.fused.forms[v];
            let position = self.position_of(v, at)?;
            let other = !unit.roots.contains(&v);
            (form.stored && other && position > at.position).then_some(position)
        });
        made.max()
    }

    /// Where in the block a value is made, unless it is there when the block begins.
    fn position_of(&self, value: ValueId, at: &At) -> Option<u32> {
        let ValueDef::Result(op, _) = self.f.values[base(self.f, value)].def else { return None };
        (self.home[op].expand() == Some(at.block)).then(|| self.overwritten.position(op))
    }

    /// The memory that the op's result is computed from, as far as others do not read it before.
    fn sources(&self, op: OpId) -> Vec<ValueId> {
        let f = self.f;
        let mut out = Vec::new();
        let mut stack = f.ops[op].operands.clone();
        let mut seen = FxHashSet::default();
        while let Some(value) = stack.pop() {
            let value = base(f, value);
            let estimate = self.estimates[value];
            if estimate.symbolic || constant(f, value).is_some() || !seen.insert(value) {
                continue;
            }
            // What others read, too, is theirs to keep or not.
            let shared = !self.sites[value].0.is_empty() || self.needed[value];
            match f.defining_op(value) {
                Some(op) if !estimate.memory && !shared => {
                    if seen.len() < MAX_VALUES {
                        stack.extend(&f.ops[op].operands);
                    }
                }
                _ => out.push(value),
            }
        }
        out.retain(|&value| self.is_freed(value, op));
        out
    }

    /// Whether a value's place is free after its last reader in the block of the op.
    fn is_freed(&self, value: ValueId, op: OpId) -> bool {
        let f = self.f;
        match f.values[value].def {
            ValueDef::Argument(block, number) => {
                let kept = block == f.body && !(self.donated)(number as usize);
                !kept && Some(block) == self.home[op].expand()
            }
            ValueDef::Result(maker, _) => self.home[maker] == self.home[op],
        }
    }
}

/// Whether the op's elements are new ones.
fn computes(op: &Op) -> bool {
    matches!(
        op,
        Op::Elementwise(_) | Op::Convert(_) | Op::Compare(_) | Op::Select(_) | Op::Clamp(_)
    )
}
