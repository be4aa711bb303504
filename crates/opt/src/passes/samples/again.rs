//! What a loop over samples makes again from samples it reads anyway, instead of reading it.

use super::{Group, Scope, is_leading, rule};
use crate::passes::residuals::is_cheap;
use crate::passes::{flow, remat};
use jaxrs_ir::{Op, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The cheapest values to read samples of: a minimum cut between what cannot be made again and
/// what the group's ops use. Adds to the group the ops behind that cut; the block keeps them, too.
pub(super) fn choose(scope: &Scope<'_>, group: &mut Group, inside: &FxHashSet<ValueId>) {
    let f = scope.f;
    let read = |op: OpId| {
        let slicing = scope.slicing(op, group).unwrap_or_default();
        let pairs = f.ops[op].operands.clone().into_iter().zip(slicing);
        pairs.filter(|(_, s)| is_leading(s, &group.batch)).map(|(value, _)| value)
    };
    let read_whole = |value: &ValueId| !inside.contains(value);
    let mut sinks: Vec<ValueId> =
        group.members.iter().flat_map(|&op| read(op)).filter(read_whole).collect();
    sinks.sort_unstable();
    sinks.dedup();
    let again = |value: ValueId| {
        let op = f.defining_op(value).filter(|&op| scope.place[op].is_some() && is_cheap(f, op))?;
        let slicing = rule(f, op, &group.batch)?;
        let moves = matches!(f.ops[op].op, Op::BroadcastInDim(_));
        let leads = |s: &Vec<(usize, usize)>| s.is_empty() || is_leading(s, &group.batch);
        (moves || slicing.iter().all(leads)).then_some((op, moves))
    };
    let there = |value: ValueId| {
        inside.contains(&value)
            || scope.returned.contains(&value)
            || f.defining_op(value).is_none_or(|op| scope.place[op].is_none())
    };
    // Backwards from what is read now.
    let mut number: FxHashMap<ValueId, u32> = FxHashMap::default();
    let (mut values, mut costs, mut edges, mut sources) = (vec![], vec![], vec![], vec![]);
    let mut stack = sinks.clone();
    while let Some(value) = stack.pop() {
        if number.contains_key(&value) {
            continue;
        }
        let n = values.len() as u32;
        number.insert(value, n);
        values.push(value);
        let bytes = if there(value) { 0 } else { f.ty(value).bytes() };
        costs.push(Some(bytes));
        match again(value) {
            Some((op, false)) if bytes > 0 => {
                let operands = f.ops[op].operands.iter().filter(|&&v| f.ty(v).rank() > 0);
                edges.extend(operands.clone().map(|&v| (v, value)));
                stack.extend(operands);
            }
            // What is spread over the samples is as small as before.
            Some((_, true)) if bytes > 0 => {}
            _ => sources.push(n),
        }
    }
    let edges: Vec<(u32, u32)> = edges.iter().map(|(a, b)| (number[a], number[b])).collect();
    let ends: Vec<u32> = sinks.iter().map(|v| number[v]).collect();
    let Some(cut) = flow::cut(&costs, &edges, &sources, &ends) else { return };
    let bytes = |n: u32| costs[n as usize].unwrap_or(0);
    let (now, then) =
        (ends.iter().map(|&n| bytes(n)).sum::<u64>(), cut.iter().map(|&n| bytes(n)).sum::<u64>());
    if 4 * then > 3 * now {
        return;
    }
    let cut: FxHashSet<ValueId> = cut.into_iter().map(|n| values[n as usize]).collect();
    let (mut made, mut work) = (FxHashSet::default(), 0);
    let mut stack = sinks;
    while let Some(value) = stack.pop() {
        if cut.contains(&value) || there(value) {
            continue;
        }
        let (op, moves) = again(value).expect("behind the cut");
        if made.insert(op) && !moves {
            work += remat::work(f, value) * f.ty(value).len();
            stack.extend(f.ops[op].operands.iter().filter(|&&v| f.ty(v).rank() > 0));
        }
    }
    if work <= remat::MAX_WORK * (now - then) {
        group.members.extend(&made);
        group.members.sort_by_key(|&op| scope.place[op]);
        group.again = made;
    }
}
