//! What every order needs, whatever it is: at each step, its operands and results, and the values
//! that are made before it and read after it.

use super::graph::Graph;
use super::load::{Both, Load, in_place};

/// More steps than this are not looked at: the sets take a bit for each pair.
pub(crate) const MAX_STEPS: usize = 2048;

/// A set of small numbers.
pub(crate) type Set = Vec<u64>;

pub(crate) fn has(set: &[u64], i: u32) -> bool {
    set[i as usize / 64] >> (i % 64) & 1 == 1
}

pub(crate) fn put(set: &mut [u64], i: u32) {
    set[i as usize / 64] |= 1 << (i % 64);
}

/// The members of a set, ascending.
pub(crate) fn members(set: &[u64]) -> impl Iterator<Item = u32> + '_ {
    set.iter().enumerate().flat_map(|(w, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros());
            rest &= rest.wrapping_sub(1);
            bit.map(|b| 64 * w as u32 + b)
        })
    })
}

/// What must stand before, and what after, each node of an acyclic graph.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) before: Vec<Set>,
    pub(crate) after: Vec<Set>,
}

impl Reach {
    /// Of nodes in a topological `order`.
    pub(crate) fn new(order: &[u32], successors: &[Vec<u32>]) -> Reach {
        let n = order.len();
        let empty = vec![0u64; n.div_ceil(64)];
        let (mut before, mut after) = (vec![empty.clone(); n], vec![empty; n]);
        for &s in order {
            let mut own = before[s as usize].clone();
            put(&mut own, s);
            for &next in &successors[s as usize] {
                before[next as usize].iter_mut().zip(&own).for_each(|(a, b)| *a |= b);
            }
        }
        for &s in order.iter().rev() {
            let mut all = std::mem::take(&mut after[s as usize]);
            for &next in &successors[s as usize] {
                put(&mut all, next);
                all.iter_mut().zip(&after[next as usize]).for_each(|(a, b)| *a |= b);
            }
            after[s as usize] = all;
        }
        Reach { before, after }
    }
}

/// The least that any order needs, with and without scratch. Without `reach` only what the steps
/// themselves hold counts.
pub(crate) fn bound(graph: &Graph, reach: Option<&Reach>) -> [i64; 2] {
    let n = graph.reads.len();
    let across = match reach {
        Some(reach) => across(graph, reach),
        None => vec![Load::default(); n],
    };
    let mut least = [0i64; 2];
    for (s, &across) in across.iter().enumerate() {
        let need = at_step(graph, reach, s, across);
        for m in 0..2 {
            least[m] = least[m].max(need[m].minus(graph.rooms).most());
        }
    }
    least
}

/// For each step, what is live before and after it without being its operand.
fn across(graph: &Graph, reach: &Reach) -> Vec<Load> {
    let n = graph.reads.len();
    let mut across = vec![Load::default(); n];
    let words = n.div_ceil(64);
    for (i, item) in graph.items.iter().enumerate() {
        if item.bytes == 0 {
            continue;
        }
        let (mut made, mut needed) = (vec![0u64; words], vec![0u64; words]);
        for &m in &item.makers {
            made.iter_mut().zip(&reach.after[m as usize]).for_each(|(a, b)| *a |= b);
        }
        for &r in &item.readers {
            needed.iter_mut().zip(&reach.before[r as usize]).for_each(|(a, b)| *a |= b);
        }
        let live = made.iter().zip(&needed).map(|(&made, &needed)| {
            let made = if item.given { u64::MAX } else { made };
            let needed = if item.kept { u64::MAX } else { needed };
            made & needed
        });
        let live: Set = live.collect();
        for s in members(&live).take_while(|&s| (s as usize) < n) {
            if !graph.reads[s as usize].contains(&(i as u32)) {
                across[s as usize].add(item.load);
            }
        }
    }
    across
}

/// What a step needs at least, given what is live across it without being its operand.
fn at_step(graph: &Graph, reach: Option<&Reach>, s: usize, across: Load) -> Both {
    let stays = |i: u32| {
        let item = &graph.items[i as usize];
        item.kept || reach.is_some_and(|x| item.readers.iter().any(|&r| has(&x.after[s], r)))
    };
    let mut read = across;
    let mut write = across;
    for &i in &graph.reads[s] {
        let load = graph.items[i as usize].load;
        read.add(load);
        if stays(i) || !graph.early[s].contains(&i) {
            write.add(load);
        }
    }
    for &i in &graph.makes[s] {
        let item = &graph.items[i as usize];
        // Of a value in parts, the first may be another's; then it is live across.
        let first = match reach {
            Some(reach) => !item.makers.iter().any(|&m| has(&reach.before[s], m)),
            None => item.makers.len() == 1,
        };
        if first && !graph.reads[s].contains(&i) {
            write.add(item.load);
        }
    }
    let free = |o: u32| !stays(o) && !graph.early[s].contains(&o);
    for operand in in_place(&graph.shares[s], free) {
        write.subtract(graph.items[operand as usize].load);
    }
    let inside = &graph.inside[s];
    [0, 1].map(|m| read.plus(inside.read[m]).max(write.plus(inside.write[m])))
}
