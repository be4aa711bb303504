//! What the values of a loop's body are made of, as far as they can be made again elsewhere.

use jaxrs_ir::lower::{ElementCost, Lowering};
use jaxrs_ir::{Function, Op, OpId, TensorType, ValueId, ops};
use rustc_hash::FxHashMap;

/// A node's number.
pub(super) type NodeId = usize;

/// A value of the body, or one that could be computed there. Reshapes are no nodes: a node is
/// bytes, and its type is that of the op that makes them.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its type.
    pub ty: TensorType,
    /// What makes it.
    pub kind: Kind,
    /// The nodes it is computed from.
    pub operands: Vec<NodeId>,
    /// The body's value, if it is computed there.
    pub value: Option<ValueId>,
}

/// What makes a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An op like this one, cheap enough to be run again.
    Cheap(OpId),
    /// Something that is not run again.
    Once,
    /// It exists outside of the loop.
    Outside(ValueId),
    /// The loop's counter.
    Counter,
    /// A carry.
    Carry(usize),
}

/// The nodes of a loop's body.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub nodes: Vec<Node>,
    of: FxHashMap<ValueId, NodeId>,
    equal: FxHashMap<Key, NodeId>,
}

/// Ops are equal if these are.
type Key = (String, Vec<(NodeId, TensorType)>, TensorType);

impl Graph {
    /// The nodes of the body of a `while` with this counter.
    pub(super) fn new(f: &Function, op: OpId, counter: usize) -> Graph {
        let body = f.ops[op].regions[1];
        let mut graph = Graph::default();
        for (n, &argument) in f.blocks[body].arguments.iter().enumerate() {
            let kind = if n == counter { Kind::Counter } else { Kind::Carry(n) };
            let ty = f.ty(argument).clone();
            let node = Node { ty, kind, operands: Vec::new(), value: Some(argument) };
            let node = graph.push(node);
            graph.of.insert(argument, node);
        }
        for &inner in &f.blocks[body].ops {
            for &result in &f.ops[inner].results {
                if let Some(inside) = reshaped(f, result) {
                    let node = graph.captured(f, inside);
                    graph.of.insert(result, node);
                    continue;
                }
                let node = if is_cheap(f, inner) {
                    let operands = f.ops[inner].operands.clone();
                    let nodes = operands.iter().map(|&v| graph.captured(f, v)).collect();
                    graph.cheap(f, inner, nodes)
                } else {
                    let (ty, operands) = (f.ty(result).clone(), Vec::new());
                    graph.push(Node { ty, kind: Kind::Once, operands, value: None })
                };
                graph.nodes[node].value.get_or_insert(result);
                graph.of.insert(result, node);
            }
        }
        graph
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The node of a value that the body uses.
    fn captured(&mut self, f: &Function, value: ValueId) -> NodeId {
        if let Some(&node) = self.of.get(&value) {
            return node;
        }
        let node = match reshaped(f, value) {
            Some(inside) => self.captured(f, inside),
            None => match splat(f, value) {
                Some(op) => self.cheap(f, op, Vec::new()),
                None => {
                    let (ty, kind) = (f.ty(value).clone(), Kind::Outside(value));
                    self.push(Node { ty, kind, operands: Vec::new(), value: Some(value) })
                }
            },
        };
        self.of.insert(value, node);
        node
    }

    /// The node of a value, if it has one: the body uses it, or it is a constant.
    pub(super) fn known(&mut self, f: &Function, value: ValueId) -> Option<NodeId> {
        if let Some(&node) = self.of.get(&value) {
            return Some(node);
        }
        splat(f, value).map(|_| self.captured(f, value))
    }

    /// The node of what a cheap op makes of nodes.
    pub(super) fn cheap(&mut self, f: &Function, op: OpId, operands: Vec<NodeId>) -> NodeId {
        let data = &f.ops[op];
        let ty = f.ty(data.results[0]).clone();
        let name = match &data.op {
            Op::Elementwise(e) => e.name().to_string(),
            other => format!("{other:?}"),
        };
        let types = data.operands.iter().map(|&v| f.ty(v).clone());
        let key = (name, operands.iter().copied().zip(types).collect(), ty.clone());
        if let Some(&node) = self.equal.get(&key) {
            return node;
        }
        let node = self.push(Node { ty, kind: Kind::Cheap(op), operands, value: None });
        self.equal.insert(key, node);
        node
    }

    /// The nodes on which others depend through cheap ops, themselves included; `stop` ends a way.
    pub(super) fn closure(&self, of: &[NodeId], stop: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let mut seen = vec![false; self.nodes.len()];
        let mut out = Vec::new();
        let mut stack = of.to_vec();
        while let Some(node) = stack.pop() {
            if std::mem::replace(&mut seen[node], true) || stop(node) {
                continue;
            }
            out.push(node);
            stack.extend(&self.nodes[node].operands);
        }
        out.sort_unstable();
        out
    }

    /// What computing a node costs, its operands apart, in cheap instructions.
    pub(super) fn work(&self, f: &Function, node: NodeId) -> u64 {
        let Kind::Cheap(op) = self.nodes[node].kind else { return 0 };
        let each = match ops::lower(f, op) {
            Lowering::Elements { cost: ElementCost::Expensive, .. } => 20,
            Lowering::Elements { cost: ElementCost::Cheap, .. } => 1,
            _ => 0,
        };
        each * self.nodes[node].ty.len()
    }
}

/// The operand of a reshape.
pub(in crate::passes) fn reshaped(f: &Function, value: ValueId) -> Option<ValueId> {
    let data = &f.ops[f.defining_op(value)?];
    matches!(data.op, Op::Reshape(_)).then(|| data.operands[0])
}

/// Whether an op hands its operands through.
pub(super) fn is_barrier(f: &Function, op: OpId) -> bool {
    matches!(f.ops[op].op, Op::OptimizationBarrier(_))
}

/// The op of a constant of one element, everywhere the same.
fn splat(f: &Function, value: ValueId) -> Option<OpId> {
    let op = f.defining_op(value)?;
    match &f.ops[op].op {
        Op::Constant(constant) => constant.value.as_splat().map(|_| op),
        _ => None,
    }
}

/// Whether an op gives each element from a few of its operands', and gives the same every time.
pub(in crate::passes) fn is_cheap(f: &Function, op: OpId) -> bool {
    let data = &f.ops[op];
    let kind = match &data.op {
        Op::Constant(constant) => constant.value.as_splat().is_some(),
        Op::Elementwise(_)
        | Op::BroadcastInDim(_)
        | Op::Clamp(_)
        | Op::Compare(_)
        | Op::Concatenate(_)
        | Op::Convert(_)
        | Op::DynamicSlice(_)
        | Op::Iota(_)
        | Op::Pad(_)
        | Op::ReducePrecision(_)
        | Op::Reverse(_)
        | Op::Select(_)
        | Op::Slice(_)
        | Op::Transpose(_) => true,
        // Reductions, contractions, control flow, random bits, what has an effect.
        _ => false,
    };
    kind && data.results.len() == 1 && data.regions.is_empty()
}
