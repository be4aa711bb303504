//! What a contraction reads is computed by itself where what it shares with later values would make
//! it wait for them, or be kept for them.
//!
//! The way back through `z * sigmoid(z)` reads the activation for one product and its slope, times
//! what another product gives, for the next. Both have the sigmoid in common; computed together they
//! are in memory together. With a sigmoid of its own, the activation is dead before the other product
//! is made. Done in the bodies of loops, and to what is left of them outside; whether it is worth the
//! work is seen in the plans, as with [`super::remat`]. Must come after the last search for equal ops.

use super::remat::work;
use super::residuals;
use cranelift_entity::SecondaryMap;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Smaller operands are left.
const SMALL: u64 = 1024;
/// Ops that are copied for one operand.
const MOST_OPS: usize = 40;

/// Rewrites every block; says whether anything was changed.
pub fn run(f: &mut Function) -> bool {
    let mut changed = false;
    for block in f.blocks.keys().collect::<Vec<_>>() {
        let products = f.blocks[block].ops.iter().filter(|&&op| is_product(f, op)).count();
        if products > 1 {
            changed |= unshare(f, block);
        }
    }
    changed
}

/// Whether an op gives each element from a few of its operands', wherever they are.
fn is_cheap(f: &Function, op: OpId) -> bool {
    residuals::is_cheap(f, op) || matches!(f.ops[op].op, Op::Reshape(_))
}

fn is_product(f: &Function, op: OpId) -> bool {
    matches!(f.ops[op].op, Op::DotGeneral(_))
}

/// How the values of a block depend on what is not cheap.
struct Ranks {
    home: SecondaryMap<OpId, bool>,
    /// The position, from 1, of the last op that is not cheap on which a value depends; 0 for none.
    ranks: SecondaryMap<ValueId, u32>,
    users: SecondaryMap<ValueId, Vec<OpId>>,
}

fn ranks(f: &Function, block: BlockId) -> Ranks {
    let mut out =
        Ranks { home: SecondaryMap::new(), ranks: SecondaryMap::new(), users: SecondaryMap::new() };
    for (position, &op) in f.blocks[block].ops.iter().enumerate() {
        out.home[op] = true;
        let data = &f.ops[op];
        let rank = match is_cheap(f, op) {
            true => data.operands.iter().map(|&v| out.ranks[v]).max().unwrap_or(0),
            false => position as u32 + 1,
        };
        data.results.iter().for_each(|&v| out.ranks[v] = rank);
        data.operands.iter().for_each(|&v| out.users[v].push(op));
    }
    out
}

fn unshare(f: &mut Function, block: BlockId) -> bool {
    let ranks = ranks(f, block);
    // The ops to be copied, by the op that makes what a contraction reads.
    let mut wanted: FxHashMap<OpId, FxHashSet<OpId>> = FxHashMap::default();
    for &op in &f.blocks[block].ops {
        for &operand in f.ops[op].operands.iter().filter(|_| is_product(f, op)) {
            let Some(root) = root(f, operand, &ranks) else { continue };
            if let Some(copied) = shared(f, root, block, &ranks) {
                wanted.insert(root, copied);
            }
        }
    }
    if wanted.is_empty() {
        return false;
    }
    let ops = std::mem::take(&mut f.blocks[block].ops);
    for &op in &ops {
        if let Some(copied) = wanted.get(&op) {
            let mut names: FxHashMap<ValueId, ValueId> = FxHashMap::default();
            for &inner in ops.iter().filter(|inner| copied.contains(inner)) {
                let data = f.ops[inner].clone();
                let operands: Vec<ValueId> =
                    data.operands.iter().map(|v| names.get(v).copied().unwrap_or(*v)).collect();
                let ty = f.ty(data.results[0]).clone();
                let copy = f.push_op(block, data.op, &operands, vec![ty], &[], data.location);
                names.insert(data.results[0], f.ops[copy].results[0]);
            }
            let name = |v: &mut ValueId| *v = names.get(v).copied().unwrap_or(*v);
            f.ops[op].operands.iter_mut().for_each(name);
        }
        f.blocks[block].ops.push(op);
    }
    true
}

/// The op that computes an operand, which other ops may have moved since, into a slot and out of it.
fn root(f: &Function, operand: ValueId, ranks: &Ranks) -> Option<OpId> {
    let op = f.defining_op(operand).filter(|&op| ranks.home[op])?;
    let data = &f.ops[op];
    match data.op {
        Op::Reshape(_) | Op::Transpose(_) => root(f, data.operands[0], ranks),
        Op::DynamicSlice(_) => {
            let update = f.defining_op(data.operands[0]).filter(|&op| ranks.home[op])?;
            let inner = &f.ops[update];
            let same = inner.operands.get(2..) == data.operands.get(1..);
            let written = matches!(inner.op, Op::DynamicUpdateSlice(_)) && same;
            written.then(|| root(f, inner.operands[1], ranks)).flatten()
        }
        _ => (is_cheap(f, op) && f.ty(operand).bytes() >= SMALL).then_some(op),
    }
}

/// The ops behind a root that it shares with what depends on later contractions, if work is among
/// them.
fn shared(f: &Function, root: OpId, block: BlockId, ranks: &Ranks) -> Option<FxHashSet<OpId>> {
    let rank = ranks.ranks[f.ops[root].results[0]];
    let (mut cone, mut stack) = (FxHashSet::default(), vec![root]);
    while let Some(op) = stack.pop() {
        if !cone.insert(op) {
            continue;
        }
        if cone.len() > MOST_OPS {
            return None;
        }
        let makers = f.ops[op].operands.iter().filter_map(|&v| f.defining_op(v));
        stack.extend(makers.filter(|&op| ranks.home[op] && is_cheap(f, op)));
    }
    let of_loop = block != f.body || cone.iter().any(|&op| is_of_loop(f, op));
    let later = |&op: &OpId| is_cheap(f, op) && ranks.ranks[f.ops[op].results[0]] > rank;
    let hot = |&&op: &&OpId| {
        let value = f.ops[op].results[0];
        let users = &ranks.users[value];
        op != root
            && !moves(f, op)
            && users.iter().any(later)
            && users.iter().all(|user| is_cheap(f, *user))
    };
    let mut copied: FxHashSet<OpId> = FxHashSet::default();
    let mut stack: Vec<OpId> = cone.iter().filter(hot).copied().collect();
    while let Some(op) = stack.pop() {
        if copied.insert(op) {
            let makers = f.ops[op].operands.iter().filter_map(|&v| f.defining_op(v));
            stack.extend(makers.filter(|&op| cone.contains(&op) && !moves(f, op)));
        }
    }
    let heavy = copied.iter().any(|&op| work(f, f.ops[op].results[0]) >= 20);
    (of_loop && heavy).then_some(copied)
}

/// Whether an op reads elements where they lie.
fn moves(f: &Function, op: OpId) -> bool {
    matches!(f.ops[op].op, Op::Reshape(_) | Op::Slice(_) | Op::DynamicSlice(_))
}

/// Whether an op takes a part of what a loop leaves.
fn is_of_loop(f: &Function, op: OpId) -> bool {
    let data = &f.ops[op];
    let of_while =
        |&v: &ValueId| f.defining_op(v).is_some_and(|op| matches!(f.ops[op].op, Op::While(_)));
    matches!(data.op, Op::Slice(_) | Op::DynamicSlice(_))
        && data.operands.first().is_some_and(of_while)
}
