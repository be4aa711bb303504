//! Candidate orders of a graph.

use super::dag;
use super::graph::Graph;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Which of equally good steps comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tie {
    /// The one that was ready last.
    Latest,
    /// The one that the source has first.
    Source,
}

/// Bytes that a step makes, or begins to make.
fn made(graph: &Graph, step: u32) -> u64 {
    let items = graph.makes[step as usize].iter().map(|&i| &graph.items[i as usize]);
    items.filter(|item| item.makers.first() == Some(&step)).map(|item| item.bytes).sum()
}

/// The order nearest to the present one.
pub(crate) fn source(graph: &Graph) -> Vec<u32> {
    dag::sorted(&graph.dag.predecessors, &graph.dag.successors, |step| step)
}

/// The ready step first that gives back most, less what it takes.
pub(crate) fn greedy(graph: &Graph, tie: Tie) -> Vec<u32> {
    let n = graph.reads.len();
    let mut left: Vec<u32> = graph.items.iter().map(|i| i.readers.len() as u32).collect();
    let mut waits: Vec<usize> = graph.dag.predecessors.iter().map(Vec::len).collect();
    let mut done = vec![false; n];
    let mut since = vec![0u32; n];
    let score = |step: u32, left: &[u32]| {
        let gives = |&&i: &&u32| left[i as usize] == 1 && !graph.items[i as usize].kept;
        let bytes = |&i: &u32| graph.items[i as usize].bytes as i64;
        let given: i64 = graph.reads[step as usize].iter().filter(gives).map(bytes).sum();
        let taken: i64 = made(graph, step) as i64;
        given - taken
    };
    let mut ready: BTreeSet<(i64, u32, Reverse<u32>)> = BTreeSet::new();
    let mut key: Vec<Option<(i64, u32, Reverse<u32>)>> = vec![None; n];
    let rank = |step: u32, at: u32| if tie == Tie::Latest { at } else { u32::MAX - step };
    for s in (0..n as u32).filter(|&s| waits[s as usize] == 0) {
        let k = (score(s, &left), rank(s, 0), Reverse(s));
        key[s as usize] = Some(k);
        ready.insert(k);
    }
    let mut order = Vec::with_capacity(n);
    while let Some(best) = ready.pop_last() {
        let step = best.2.0;
        done[step as usize] = true;
        key[step as usize] = None;
        order.push(step);
        let now = order.len() as u32;
        for &item in &graph.reads[step as usize] {
            left[item as usize] -= 1;
            if left[item as usize] != 1 {
                continue;
            }
            // The last reader gives the value back.
            let last = graph.items[item as usize].readers.iter().find(|&&r| !done[r as usize]);
            let Some(&last) = last else { continue };
            if let Some(old) = key[last as usize] {
                ready.remove(&old);
                let k = (score(last, &left), old.1, Reverse(last));
                key[last as usize] = Some(k);
                ready.insert(k);
            }
        }
        for &next in &graph.dag.successors[step as usize] {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                since[next as usize] = now;
                let k = (score(next, &left), rank(next, now), Reverse(next));
                key[next as usize] = Some(k);
                ready.insert(k);
            }
        }
    }
    order
}

/// Each step as late as its first reader allows: what a step needs is made right before it, what
/// needs most memory first (Sethi and Ullman's rule, with bytes for registers).
pub(crate) fn depth_first(graph: &Graph) -> Vec<u32> {
    let n = graph.reads.len();
    let made = |s: u32| made(graph, s);
    // Bytes needed to make a step and all it needs, as if it were a tree.
    let mut need = vec![0u64; n];
    for step in source(graph) {
        let mut inputs: Vec<(u64, u64)> = graph.dag.predecessors[step as usize]
            .iter()
            .map(|&p| (need[p as usize], made(p)))
            .collect();
        inputs.sort_by_key(|&(need, kept)| Reverse(need.saturating_sub(kept)));
        let (mut held, mut most) = (0u64, 0u64);
        for (need, kept) in inputs {
            most = most.max(held.saturating_add(need));
            held = held.saturating_add(kept);
        }
        need[step as usize] = most.max(held.saturating_add(made(step)));
    }
    let mut order = Vec::with_capacity(n);
    let mut seen = vec![false; n];
    let mut sinks: Vec<u32> =
        (0..n as u32).filter(|&s| graph.dag.successors[s as usize].is_empty()).collect();
    sinks.sort_by_key(|&s| (Reverse(need[s as usize].saturating_sub(made(s))), s));
    for sink in sinks {
        let mut stack = vec![(sink, false)];
        while let Some((step, expanded)) = stack.pop() {
            if expanded {
                order.push(step);
                continue;
            }
            if std::mem::replace(&mut seen[step as usize], true) {
                continue;
            }
            stack.push((step, true));
            let mut inputs: Vec<u32> = graph.dag.predecessors[step as usize].clone();
            inputs.retain(|&p| !seen[p as usize]);
            // The last pushed is made first.
            inputs.sort_by_key(|&p| (need[p as usize].saturating_sub(made(p)), Reverse(p)));
            stack.extend(inputs.into_iter().map(|p| (p, false)));
        }
    }
    order
}

/// Greedy from the end: the step last whose operands take the least and whose results give most.
pub(crate) fn backwards(graph: &Graph) -> Vec<u32> {
    let n = graph.reads.len();
    let mut waits: Vec<usize> = graph.dag.successors.iter().map(Vec::len).collect();
    let mut live: Vec<bool> = graph.items.iter().map(|i| i.kept).collect();
    let mut ready: Vec<u32> = (0..n as u32).filter(|&s| waits[s as usize] == 0).collect();
    let mut order = Vec::with_capacity(n);
    while !ready.is_empty() {
        let score = |step: u32| {
            let bytes = |&i: &u32| graph.items[i as usize].bytes as i64;
            let made = made(graph, step) as i64;
            let opened: i64 =
                graph.reads[step as usize].iter().filter(|&&i| !live[i as usize]).map(bytes).sum();
            opened - made
        };
        // Long lists of ready steps are only looked at from their newer end.
        let from = ready.len().saturating_sub(256);
        let at = (from..ready.len())
            .min_by_key(|&i| (score(ready[i]), Reverse(i)))
            .expect("something is ready");
        let step = ready.remove(at);
        order.push(step);
        for &item in &graph.makes[step as usize] {
            live[item as usize] = false;
        }
        for &item in &graph.reads[step as usize] {
            live[item as usize] = true;
        }
        for &before in &graph.dag.predecessors[step as usize] {
            waits[before as usize] -= 1;
            if waits[before as usize] == 0 {
                ready.push(before);
            }
        }
    }
    order.reverse();
    order
}

/// The order with each step that gives nothing back as late as it can stand: what it makes is live
/// for less long. Only its scratch may come at a worse time.
pub(crate) fn late(graph: &Graph, order: &[u32]) -> Vec<u32> {
    // Where a step stands: right before the step at a position, the deepest first.
    type Place = (u32, Reverse<u32>);
    let mut places: Vec<Place> = vec![(0, Reverse(0)); order.len()];
    // Of each item, its last reader so far.
    let mut last: Vec<Option<Place>> = vec![None; graph.items.len()];
    for (at, &step) in order.iter().enumerate().rev() {
        let s = step as usize;
        let stay = (at as u32, Reverse(0));
        let reads = || graph.reads[s].iter().filter(|&&i| !graph.items[i as usize].kept);
        let gives = reads().any(|&i| last[i as usize].is_none());
        let read = reads().filter_map(|&i| last[i as usize]);
        let next = graph.dag.successors[s].iter().map(|&t| places[t as usize]).min();
        let place = match next.map(|next| read.chain([next]).min().unwrap_or(next)) {
            Some((position, Reverse(depth))) if !gives => (position, Reverse(depth + 1)),
            _ => stay,
        };
        places[s] = place;
        for &item in &graph.reads[s] {
            let known = &mut last[item as usize];
            *known = (*known).max(Some(place));
        }
    }
    let mut moved = order.to_vec();
    moved.sort_by_key(|&step| places[step as usize]);
    moved
}
