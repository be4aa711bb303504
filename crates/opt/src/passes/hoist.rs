//! Takes out of loops what is the same in every iteration, where it costs no memory that the loop
//! does not need anyway, or next to none.
//!
//! A value computed before a loop lives as long as the loop. It is taken out if what it is computed
//! from is not needed any more then and is as large; if it is a contraction's operand, in memory in
//! every iteration, and no larger than what it is computed from; or if it takes work and is small
//! beside the function's arguments and results. Ops are copied: what else uses them inside still
//! computes them in its kernel.

use super::residuals::is_cheap;
use super::rewrite::{self, Rewriter};
use super::{dce, region, remat};
use cranelift_entity::SecondaryMap;
use jaxrs_ir::copy::Copied;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// What takes work is taken out if arguments and results are so many times as large.
const SMALL: u64 = 16;

/// Takes out of every loop what may be.
pub fn run(function: &mut Function) {
    let types = function.parameters().iter().chain(function.results());
    let held: u64 = types.map(|&v| function.ty(v).bytes()).sum();
    let uses = crate::fuse::uses(function);
    rewrite::run(function, &mut |r, op| {
        if matches!(r.f.ops[op].op, Op::While(_)) {
            hoist(r, op, held, &uses);
        }
        None
    });
}

fn hoist(r: &mut Rewriter<'_>, op: OpId, held: u64, uses: &SecondaryMap<ValueId, u32>) {
    let body = r.f.ops[op].regions[1];
    let invariant = Invariant::new(r.f, body);
    // What stands before the loop for a value of the body.
    let mut copied = Copied::default();
    let mut moved: FxHashSet<OpId> = FxHashSet::default();
    let mut names: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for &root in &invariant.roots {
        let cone = Cone::new(r.f, &invariant, root);
        if !cone.pays(r.f, root, &invariant, held, uses) {
            continue;
        }
        for &op in &cone.ops {
            if !is_cheap(r.f, op) && !is_reshape(r.f, op) {
                if moved.insert(op) {
                    take(r, op, &copied);
                }
            } else if !copied.values.contains_key(&r.f.ops[op].results[0]) {
                copy(r, op, &mut copied);
            }
        }
        names.extend(copied.values.get(&root).map(|&outside| (root, outside)));
    }
    if names.is_empty() && moved.is_empty() {
        return;
    }
    r.f.blocks[body].ops.retain(|op| !moved.contains(op));
    super::loops::rename(r.f, body, &names);
    dce::run_region(r.f, body);
}

/// Copies an op before the loop.
fn copy(r: &mut Rewriter<'_>, op: OpId, copied: &mut Copied) {
    let data = r.f.ops[op].clone();
    let operands = outside(&data.operands, copied);
    let types = data.results.iter().map(|&v| r.f.ty(v).clone()).collect();
    let new = r.f.push_op(r.block, data.op, &operands, types, &[], data.location);
    copied.values.insert(data.results[0], r.f.ops[new].results[0]);
}

/// Moves an op before the loop.
fn take(r: &mut Rewriter<'_>, op: OpId, copied: &Copied) {
    let block = r.block;
    r.f.ops[op].operands = outside(&r.f.ops[op].operands, copied);
    r.f.blocks[block].ops.push(op);
}

fn outside(values: &[ValueId], copied: &Copied) -> Vec<ValueId> {
    values.iter().map(|v| copied.values.get(v).copied().unwrap_or(*v)).collect()
}

fn is_reshape(f: &Function, op: OpId) -> bool {
    matches!(f.ops[op].op, Op::Reshape(_))
}

/// What of a loop's body is the same in every iteration.
struct Invariant {
    /// The ops.
    ops: FxHashSet<OpId>,
    /// Values of theirs that other ops of the body use, in order, and whether only as tensors in
    /// memory: by contractions and convolutions.
    roots: Vec<ValueId>,
    contracted: FxHashSet<ValueId>,
    /// How often each value is used in the body.
    uses: FxHashMap<ValueId, u32>,
}

impl Invariant {
    fn new(f: &Function, body: BlockId) -> Invariant {
        let mut changing: FxHashSet<ValueId> = f.blocks[body].arguments.iter().copied().collect();
        let mut ops: FxHashSet<OpId> = FxHashSet::default();
        let mut uses: FxHashMap<ValueId, u32> = FxHashMap::default();
        let mut roots: FxHashSet<ValueId> = FxHashSet::default();
        let (mut contracted, mut otherwise) = (FxHashSet::default(), FxHashSet::default());
        for &op in &f.blocks[body].ops {
            let data = &f.ops[op];
            let mut used = data.operands.clone();
            if !data.regions.is_empty() {
                used.extend(region::captures(f, op));
            }
            used.iter().for_each(|&v| *uses.entry(v).or_default() += 1);
            let stays = region::is_control(f, op) || dce::has_effect(f, op);
            if !stays && !used.iter().any(|v| changing.contains(v)) {
                ops.insert(op);
                continue;
            }
            let contracts = matches!(data.op, Op::DotGeneral(_) | Op::Convolution(_));
            if contracts { &mut contracted } else { &mut otherwise }.extend(&used);
            roots.extend(used);
            changing.extend(&data.results);
        }
        roots.extend(&f.blocks[body].yields);
        let made = |op: &OpId| f.ops[*op].results.clone();
        let inside = f.blocks[body].ops.iter().filter(|op| ops.contains(op)).flat_map(made);
        let roots: Vec<ValueId> = inside.filter(|v| roots.contains(v)).collect();
        contracted.retain(|v| !otherwise.contains(v));
        Invariant { ops, roots, contracted, uses }
    }
}

/// What an invariant value is computed from.
struct Cone {
    /// The ops of the body, in the order of their dependences.
    ops: Vec<OpId>,
    /// The values from outside the body; constants apart.
    leaves: Vec<ValueId>,
}

impl Cone {
    fn new(f: &Function, invariant: &Invariant, root: ValueId) -> Cone {
        let mut cone = Cone { ops: Vec::new(), leaves: Vec::new() };
        let mut seen: FxHashSet<ValueId> = FxHashSet::default();
        let mut placed: FxHashSet<OpId> = FxHashSet::default();
        // A value, and whether what it needs is in place.
        let mut stack = vec![(root, false)];
        while let Some((value, ready)) = stack.pop() {
            let op = f.defining_op(value);
            if ready {
                let op = op.expect("an op of the body");
                if placed.insert(op) {
                    cone.ops.push(op);
                }
                continue;
            }
            if !seen.insert(value) {
                continue;
            }
            match op.filter(|op| invariant.ops.contains(op)) {
                Some(op) => {
                    stack.push((value, true));
                    let data = &f.ops[op];
                    stack.extend(data.operands.iter().map(|&v| (v, false)));
                    if !data.regions.is_empty() {
                        stack.extend(region::captures(f, op).into_iter().map(|v| (v, false)));
                    }
                }
                None if op.is_some_and(|op| matches!(f.ops[op].op, Op::Constant(_))) => {}
                None => cone.leaves.push(value),
            }
        }
        cone
    }

    fn pays(
        &self,
        f: &Function,
        root: ValueId,
        invariant: &Invariant,
        held: u64,
        uses: &SecondaryMap<ValueId, u32>,
    ) -> bool {
        let bytes = f.ty(root).bytes();
        // Contractions read these in place.
        let computes = |&op: &OpId| {
            !matches!(
                f.ops[op].op,
                Op::Reshape(_)
                    | Op::Transpose(_)
                    | Op::Slice(_)
                    | Op::Reverse(_)
                    | Op::BroadcastInDim(_)
                    | Op::Convert(_)
                    | Op::Constant(_)
                    | Op::Iota(_)
            )
        };
        if self.leaves.is_empty() || !self.ops.iter().any(computes) {
            return false;
        }
        let works = self.ops.iter().any(|&op| {
            let heavy = !is_cheap(f, op) && !is_reshape(f, op);
            heavy || remat::work(f, f.ops[op].results[0]) > 1
        });
        let read: u64 = self.leaves.iter().map(|&v| f.ty(v).bytes()).sum();
        // Nothing but the cone uses it in the body, nothing outside but ops before the loop.
        let over = |&&v: &&ValueId| {
            let inside = self.ops.iter().flat_map(|&op| &f.ops[op].operands);
            let inside = inside.filter(|&&operand| operand == v).count() as u32;
            f.defining_op(v).is_some() && uses[v] == inside && invariant.uses[&v] == inside
        };
        let freed: u64 = self.leaves.iter().filter(over).map(|&v| f.ty(v).bytes()).sum();
        freed >= bytes
            || (works && SMALL * bytes <= held)
            || (invariant.contracted.contains(&root) && bytes <= read)
    }
}
