//! Values that an op overwrites in place, and whose memory a later reader would therefore keep from
//! being reused: what such a reader wants of them is better computed before.

use super::{base, viewed};
use crate::passes::region;
use cranelift_entity::SecondaryMap;
use jaxrs_ir::lower::Lowering;
use jaxrs_ir::{Function, Op, OpId, ValueDef, ValueId, ops};
use rustc_hash::{FxHashMap, FxHashSet};

/// Ops between a value and the overwritten memory that it reads.
const MAX_DEPTH: u32 = 6;
/// Ops looked at for one question.
const MAX_OPS: usize = 64;

/// The updates of a function.
pub(super) struct Overwritten {
    /// The results that take the place of a value, each with its op.
    by: FxHashMap<ValueId, Vec<(OpId, ValueId)>>,
    /// The position of each op in its block.
    positions: SecondaryMap<OpId, u32>,
}

impl Overwritten {
    /// The updates of a function, but for those of parameters that are not donated: they are copied
    /// in any case.
    pub(super) fn new(f: &Function, donated: &dyn Fn(usize) -> bool) -> Overwritten {
        let mut by: FxHashMap<ValueId, Vec<(OpId, ValueId)>> = FxHashMap::default();
        let mut positions = SecondaryMap::new();
        for block in f.blocks.values() {
            for (position, &op) in block.ops.iter().enumerate() {
                positions[op] = position as u32;
                let data = &f.ops[op];
                let pairs: Vec<(u32, u32)> = match &data.op {
                    Op::DynamicUpdateSlice(_) | Op::Scatter(_) => match ops::lower(f, op) {
                        Lowering::Loops { updates, .. } => updates,
                        _ => continue,
                    },
                    Op::While(_) => (0..data.results.len() as u32).map(|n| (n, n)).collect(),
                    _ => continue,
                };
                for (result, operand) in pairs {
                    let old = base(f, data.operands[operand as usize]);
                    let kept = match f.values[old].def {
                        ValueDef::Argument(block, n) => block == f.body && !donated(n as usize),
                        ValueDef::Result(..) => false,
                    };
                    if !kept {
                        by.entry(old).or_default().push((op, data.results[result as usize]));
                    }
                }
            }
        }
        Overwritten { by, positions }
    }

    /// Where an op stands in its block.
    pub(super) fn position(&self, op: OpId) -> u32 {
        self.positions[op]
    }

    /// Whether an op whose result is computed inside one of `readers`, values of the op's block,
    /// would read memory there that was overwritten before. Only memory much larger than the
    /// result counts, and only what the result is not larger than otherwise.
    pub(super) fn outlived(
        &self,
        f: &Function,
        op: OpId,
        is_memory: &dyn Fn(ValueId) -> bool,
        readers: &[ValueId],
    ) -> bool {
        if self.by.is_empty() {
            return false;
        }
        let bytes = |v: ValueId| f.ty(v).bytes();
        let size = bytes(f.ops[op].results[0]);
        let mut stack = vec![(op, 0)];
        let mut seen = 0;
        while let Some((op, depth)) = stack.pop() {
            seen += 1;
            if seen > MAX_OPS {
                return false;
            }
            for &operand in &f.ops[op].operands {
                let old = base(f, operand);
                let updates = self.by.get(&old).filter(|_| 2 * size <= bytes(old));
                for &(update, new) in updates.into_iter().flatten() {
                    // What the update itself reads there is its own affair.
                    let later = |&&reader: &&ValueId| f.defining_op(reader) != Some(update);
                    if readers.iter().filter(later).any(|&r| self.needs(f, r, update, new)) {
                        return true;
                    }
                }
                // Storing what is smaller is left to its op.
                let inner = f.defining_op(operand).filter(|_| {
                    depth < MAX_DEPTH && !is_memory(old) && size <= bytes(operand).max(64)
                });
                stack.extend(inner.map(|op| (op, depth + 1)));
            }
        }
        false
    }

    /// Whether a value is computed from the result of an update.
    fn needs(&self, f: &Function, value: ValueId, update: OpId, new: ValueId) -> bool {
        let first = self.positions[update];
        let (mut stack, mut seen) = (vec![value], FxHashSet::default());
        while let Some(value) = stack.pop() {
            if value == new {
                return true;
            }
            // Values of other blocks are not looked into: they are there before this block begins.
            let Some(op) = f.defining_op(value) else { continue };
            if self.positions[op] <= first && viewed(f, value).is_none() || !seen.insert(op) {
                continue;
            }
            if seen.len() > MAX_OPS {
                return true;
            }
            stack.extend(&f.ops[op].operands);
            if !f.ops[op].regions.is_empty() {
                stack.extend(region::captures(f, op));
            }
        }
        false
    }
}
