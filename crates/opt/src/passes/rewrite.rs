//! A walk over a function that replaces ops as it goes.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use jaxrs_ir::{BlockId, Function, Literal, Location, Op, OpId, TensorType, ValueId, ops};

use super::region;

/// A function during a walk.
pub struct Rewriter<'f> {
    /// The function.
    pub f: &'f mut Function,
    /// The block that new ops are appended to: that of the op being visited, before it.
    pub block: BlockId,
    replaced: SecondaryMap<ValueId, PackedOption<ValueId>>,
}

/// What becomes of an op: it stays, or values stand for its results from here on.
pub type Change = Option<Vec<ValueId>>;

/// Visits every op in order, those in regions of control flow before the op itself, with operands
/// already replaced.
pub fn run(f: &mut Function, visit: &mut dyn FnMut(&mut Rewriter<'_>, OpId) -> Change) {
    let body = f.body;
    let mut rewriter = Rewriter { f, block: body, replaced: SecondaryMap::new() };
    rewriter.walk(body, visit);
}

impl Rewriter<'_> {
    fn walk(&mut self, block: BlockId, visit: &mut dyn FnMut(&mut Rewriter<'_>, OpId) -> Change) {
        let outer = std::mem::replace(&mut self.block, block);
        let ops = std::mem::take(&mut self.f.blocks[block].ops);
        self.f.blocks[block].ops.reserve(ops.len());
        for op in ops {
            self.rename(op);
            let regions = self.f.ops[op].regions.clone();
            let control = region::is_control(self.f, op);
            for region in regions {
                if control {
                    self.walk(region, visit);
                } else {
                    self.rename_block(region);
                }
            }
            self.block = block;
            match visit(self, op) {
                None => self.f.blocks[block].ops.push(op),
                Some(values) => self.replace(op, &values),
            }
        }
        let yields = std::mem::take(&mut self.f.blocks[block].yields);
        self.f.blocks[block].yields = yields.into_iter().map(|v| self.current(v)).collect();
        self.block = outer;
    }

    fn rename(&mut self, op: OpId) {
        for position in 0..self.f.ops[op].operands.len() {
            let value = self.f.ops[op].operands[position];
            self.f.ops[op].operands[position] = self.current(value);
        }
    }

    fn rename_block(&mut self, block: BlockId) {
        for position in 0..self.f.blocks[block].ops.len() {
            let op = self.f.blocks[block].ops[position];
            self.rename(op);
            for region in self.f.ops[op].regions.clone() {
                self.rename_block(region);
            }
        }
        let yields = std::mem::take(&mut self.f.blocks[block].yields);
        self.f.blocks[block].yields = yields.into_iter().map(|v| self.current(v)).collect();
    }

    fn replace(&mut self, op: OpId, values: &[ValueId]) {
        let results = self.f.ops[op].results.clone();
        debug_assert_eq!(results.len(), values.len(), "{}", self.f.ops[op].op.name());
        for (old, &new) in results.into_iter().zip(values) {
            debug_assert_eq!(self.f.ty(old), self.f.ty(new), "{}", self.f.ops[op].op.name());
            self.replaced[old] = new.into();
        }
    }

    /// What stands for a value now.
    pub fn current(&self, value: ValueId) -> ValueId {
        let mut value = value;
        while let Some(next) = self.replaced[value].expand() {
            value = next;
        }
        value
    }

    /// Appends an op with one result.
    pub fn push(
        &mut self,
        op: impl Into<Op>,
        operands: &[ValueId],
        ty: TensorType,
        location: &Location,
    ) -> ValueId {
        let op = self.f.push_op(self.block, op, operands, vec![ty], &[], location.clone());
        self.f.ops[op].results[0]
    }

    /// Appends a constant.
    pub fn constant(&mut self, value: Literal, location: &Location) -> ValueId {
        let ty = value.ty().clone();
        self.push(ops::Constant { value }, &[], ty, location)
    }

    /// The op that makes a value.
    pub fn op_of(&self, value: ValueId) -> Option<&Op> {
        self.f.defining_op(value).map(|op| &self.f.ops[op].op)
    }

    /// The literal of a value that a constant makes.
    pub fn literal(&self, value: ValueId) -> Option<&Literal> {
        match self.op_of(value)? {
            Op::Constant(constant) => Some(&constant.value),
            _ => None,
        }
    }

    /// The operands of the op that makes a value.
    pub fn operands_of(&self, value: ValueId) -> &[ValueId] {
        match self.f.defining_op(value) {
            Some(op) => &self.f.ops[op].operands,
            None => &[],
        }
    }
}
