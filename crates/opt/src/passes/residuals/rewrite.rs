//! Makes a loop save what was chosen, and its readers make the rest of it.

use super::decide::Plan;
use super::graph::{Kind, NodeId, is_barrier};
use crate::passes::rewrite::{self, Change, Rewriter};
use jaxrs_ir::ops::Elementwise;
use jaxrs_ir::{BlockId, Function, Literal, Location, Op, OpId, TensorType, ValueId, ops};
use jaxrs_kernel::Compare;
use rustc_hash::{FxHashMap, FxHashSet};

/// Rewrites the loop and the sites of the plan.
pub(super) fn apply(f: &mut Function, op: OpId, plan: Plan) {
    let mut sinks = FxHashMap::default();
    for (site, data) in plan.sites.iter().enumerate() {
        sinks.extend(data.sinks.iter().map(|&(value, node)| (value, (site, node))));
    }
    let known: FxHashSet<ValueId> =
        plan.sites.iter().flat_map(|site| site.values.keys().copied()).collect();
    let mut change = Apply { plan, op, stacks: FxHashMap::default(), made: FxHashMap::default() };
    rewrite::run(f, &mut |r, current| {
        if current == op {
            return change.stack(r);
        }
        if is_barrier(r.f, current) && r.f.ops[current].results.iter().any(|v| known.contains(v)) {
            return Some(change.barrier(r, current, &known, &sinks));
        }
        let [result] = r.f.ops[current].results[..] else { return None };
        let &(site, node) = sinks.get(&result)?;
        let location = r.f.ops[current].location.clone();
        let value = change.make(r, node, At { site, before: false }, &location);
        let shape = r.f.ty(result).clone();
        Some(vec![reshape(r, value, &shape, &location)])
    });
}

struct Apply {
    plan: Plan,
    op: OpId,
    /// The stack of each saved node.
    stacks: FxHashMap<NodeId, ValueId>,
    made: FxHashMap<(NodeId, At), ValueId>,
}

/// Where a node is made: at a site, for the site's iteration or the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct At {
    site: usize,
    before: bool,
}

impl Apply {
    /// The loop with a stack for each saved node.
    fn stack(&mut self, r: &mut Rewriter<'_>) -> Change {
        let mut data = r.f.ops[self.op].clone();
        let [condition, body] = data.regions[..] else { unreachable!("a while has two regions") };
        let fresh: Vec<NodeId> =
            self.plan.saved.iter().filter(|s| s.1.is_none()).map(|s| s.0).collect();
        let mut types: Vec<TensorType> =
            r.f.blocks[body].arguments.iter().map(|&v| r.f.ty(v).clone()).collect();
        let old = data.results.len();
        let mut values = FxHashMap::default();
        for &node in &fresh {
            let value = self.in_body(r.f, node, body, &mut values, &data.location);
            let slot = self.plan.graph.nodes[node].ty.clone();
            let shape = |n: u64| [&[n], &slot.shape[..]].concat();
            let one = TensorType::new(shape(1), slot.dtype);
            let ty = TensorType::new(shape(self.plan.trips), slot.dtype);
            let value =
                push(r.f, body, ops::Reshape { shape: shape(1) }, &[value], one, &data.location);
            r.f.add_argument(condition, ty.clone());
            let argument = r.f.add_argument(body, ty.clone());
            let index = r.current(self.plan.index);
            let zero = integer(r.f, body, 0, index, &data.location);
            let mut operands = vec![argument, value, index];
            operands.extend(slot.shape.iter().map(|_| zero));
            let next =
                push(r.f, body, ops::DynamicUpdateSlice, &operands, ty.clone(), &data.location);
            r.f.blocks[body].yields.push(next);
            let first = Literal::splat(ty.clone(), &vec![0; slot.dtype.size() as usize]);
            data.operands.push(r.constant(first, &data.location));
            types.push(ty);
        }
        let new =
            r.f.push_op(r.block, data.op, &data.operands, types, &data.regions, data.location);
        let results = r.f.ops[new].results.clone();
        for &(node, carry) in &self.plan.saved {
            if let Some(carry) = carry {
                self.stacks.insert(node, results[carry]);
            }
        }
        self.stacks.extend(fresh.into_iter().zip(results[old..].iter().copied()));
        Some(results[..old].to_vec())
    }

    /// A barrier without what is made again or comes out of a slot.
    fn barrier(
        &mut self,
        r: &mut Rewriter<'_>,
        op: OpId,
        known: &FxHashSet<ValueId>,
        sinks: &FxHashMap<ValueId, (usize, NodeId)>,
    ) -> Vec<ValueId> {
        let data = r.f.ops[op].clone();
        let rest: Vec<usize> =
            (0..data.results.len()).filter(|&n| !known.contains(&data.results[n])).collect();
        let operands: Vec<ValueId> = rest.iter().map(|&n| data.operands[n]).collect();
        let types = operands.iter().map(|&v| r.f.ty(v).clone()).collect();
        let barrier = r.f.push_op(r.block, data.op, &operands, types, &[], data.location.clone());
        let mut results = data.operands;
        for (&n, &result) in rest.iter().zip(&r.f.ops[barrier].results) {
            results[n] = result;
        }
        for (result, old) in results.iter_mut().zip(&data.results) {
            if let Some(&(site, node)) = sinks.get(old) {
                let made = self.make(r, node, At { site, before: false }, &data.location);
                *result = reshape(r, made, &r.f.ty(*old).clone(), &data.location);
            }
        }
        results
    }

    /// A node's value in the loop's body.
    fn in_body(
        &self,
        f: &mut Function,
        node: NodeId,
        body: BlockId,
        made: &mut FxHashMap<NodeId, ValueId>,
        location: &Location,
    ) -> ValueId {
        let data = &self.plan.graph.nodes[node];
        if let Some(value) = data.value.or_else(|| made.get(&node).copied()) {
            return value;
        }
        let Kind::Cheap(template) = data.kind else { unreachable!("other nodes have values") };
        let types = operand_types(f, template);
        let mut operands = Vec::new();
        for (&operand, ty) in data.operands.iter().zip(&types) {
            let mut value = self.in_body(f, operand, body, made, location);
            if f.ty(value) != ty {
                let op = ops::Reshape { shape: ty.shape.clone() };
                value = push(f, body, op, &[value], ty.clone(), location);
            }
            operands.push(value);
        }
        let op = f.ops[template].op.clone();
        let value = push(f, body, op, &operands, data.ty.clone(), location);
        made.insert(node, value);
        value
    }

    /// A node's value at a site.
    fn make(&mut self, r: &mut Rewriter<'_>, node: NodeId, at: At, location: &Location) -> ValueId {
        if let Some(&value) = self.made.get(&(node, at)) {
            return value;
        }
        let data = self.plan.graph.nodes[node].clone();
        let value = match (self.stacks.get(&node), data.kind) {
            (Some(&stack), _) => self.slot(r, stack, &data.ty, at, location),
            (None, Kind::Outside(value)) => r.current(value),
            (None, Kind::Counter) => self.counter(r, &data.ty, at, location),
            (None, Kind::Carry(_)) => self.carry(r, node, &data.ty, at, location),
            (None, Kind::Cheap(template)) => {
                let types = operand_types(r.f, template);
                let mut operands = Vec::new();
                for (&operand, ty) in data.operands.iter().zip(&types) {
                    let value = self.make(r, operand, at, location);
                    operands.push(reshape(r, value, ty, location));
                }
                let op = r.f.ops[template].op.clone();
                r.push(op, &operands, data.ty, location)
            }
            (None, Kind::Once) => unreachable!("the cut leaves nothing that cannot be made"),
        };
        self.made.insert((node, at), value);
        value
    }

    /// The index of the slot.
    fn index(&self, r: &mut Rewriter<'_>, at: At, location: &Location) -> ValueId {
        let index = r.current(self.plan.sites[at.site].index);
        if !at.before {
            return index;
        }
        let one = integer(r.f, r.block, self.plan.slot.step, index, location);
        let ty = r.f.ty(index).clone();
        r.push(row("stablehlo.subtract"), &[index, one], ty, location)
    }

    fn slot(
        &self,
        r: &mut Rewriter<'_>,
        stack: ValueId,
        ty: &TensorType,
        at: At,
        location: &Location,
    ) -> ValueId {
        let index = self.index(r, at, location);
        let zero = integer(r.f, r.block, 0, index, location);
        let mut sizes = r.f.ty(stack).shape.clone();
        sizes[0] = 1;
        let mut operands = vec![stack, index];
        operands.extend(sizes[1..].iter().map(|_| zero));
        let one = TensorType::new(sizes.clone(), ty.dtype);
        let slot = r.push(ops::DynamicSlice { sizes }, &operands, one, location);
        reshape(r, slot, ty, location)
    }

    /// The counter, from the slot's index.
    fn counter(
        &self,
        r: &mut Rewriter<'_>,
        ty: &TensorType,
        at: At,
        location: &Location,
    ) -> ValueId {
        let mut value = self.index(r, at, location);
        if self.plan.slot.step < 0 {
            let last = integer(r.f, r.block, self.plan.slot.first, value, location);
            let ty = r.f.ty(value).clone();
            value = r.push(row("stablehlo.subtract"), &[last, value], ty, location);
        }
        if r.f.ty(value) != ty {
            let op = ops::Convert { to: ty.dtype };
            value = r.push(op, &[value], ty.clone(), location);
        }
        value
    }

    /// A carry: what it was first, or what the iteration before gave it.
    fn carry(
        &mut self,
        r: &mut Rewriter<'_>,
        node: NodeId,
        ty: &TensorType,
        at: At,
        location: &Location,
    ) -> ValueId {
        let (carry, next) = self.plan.shifted[&node];
        let value = self.make(r, next, At { before: true, ..at }, location);
        let value = reshape(r, value, ty, location);
        let first = r.current(r.f.ops[self.op].operands[carry]);
        let index = self.index(r, at, location);
        let start = integer(r.f, r.block, self.plan.slot.first, index, location);
        let boolean = TensorType::scalar(jaxrs_kernel::DType::I1);
        let compare = ops::Compare::new(Compare::Eq);
        let is_first = r.push(compare, &[index, start], boolean, location);
        r.push(ops::Select, &[is_first, first, value], ty.clone(), location)
    }
}

fn operand_types(f: &Function, op: OpId) -> Vec<TensorType> {
    f.ops[op].operands.iter().map(|&v| f.ty(v).clone()).collect()
}

fn row(name: &str) -> Op {
    Elementwise::from_name(name).expect("a row of the table").into()
}

fn push(
    f: &mut Function,
    block: BlockId,
    op: impl Into<Op>,
    operands: &[ValueId],
    ty: TensorType,
    location: &Location,
) -> ValueId {
    let op = f.push_op(block, op, operands, vec![ty], &[], location.clone());
    f.ops[op].results[0]
}

/// A constant of the type of an index.
fn integer(
    f: &mut Function,
    block: BlockId,
    value: i128,
    like: ValueId,
    location: &Location,
) -> ValueId {
    let ty = f.ty(like).clone();
    let value = Literal::from_bits(ty.clone(), &[value as u64]);
    push(f, block, ops::Constant { value }, &[], ty, location)
}

fn reshape(r: &mut Rewriter<'_>, value: ValueId, ty: &TensorType, location: &Location) -> ValueId {
    if r.f.ty(value) == ty {
        return value;
    }
    r.push(ops::Reshape { shape: ty.shape.clone() }, &[value], ty.clone(), location)
}
