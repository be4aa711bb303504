//! Betters an order around its peak: the blocks next to the peak in their best order, and blocks
//! further away moved past it together with what they need.

use super::blocks::Blocks;
use super::exact::{Goal, Outcome, Work, search};
use super::graph::Graph;
use super::load::{Cost, Run};

/// Work of one window.
const WINDOW: u64 = 6_000;

/// Values live at the peak that are looked at in a round.
const MAX_VALUES: usize = 16;

/// Blocks that are moved at once.
const MAX_MOVED: usize = 256;

/// Betters an order of blocks until it needs no more than `floor`, nothing helps, or the work is
/// done. The measure says whether scratch counts; without it, no more is needed with it.
pub(crate) fn improve(
    graph: &Graph,
    blocks: &Blocks,
    mut order: Vec<u32>,
    (measure, floor): (usize, i64),
    work: &mut Work,
) -> Vec<u32> {
    loop {
        let windowed = windows(graph, blocks, &mut order, (measure, floor), work);
        if !windowed || !moves(graph, blocks, &mut order, measure, work) {
            return order;
        }
    }
}

/// The need of each block of an order.
fn needs(graph: &Graph, blocks: &Blocks, order: &[u32]) -> Vec<[i64; 2]> {
    let mut run = Run::new(graph);
    let need = |run: &mut Run<'_>, block: u32| {
        let mut most = [0i64; 2];
        for &s in &blocks.steps[block as usize] {
            let peak = run.step(s);
            for m in 0..2 {
                most[m] = most[m].max(peak[m].minus(graph.rooms).most());
            }
        }
        most
    };
    order.iter().map(|&block| need(&mut run, block)).collect()
}

/// Puts windows around the peak into their best order. False once the floor is reached or the work
/// is done, true when no window helps any more.
fn windows(
    graph: &Graph,
    blocks: &Blocks,
    order: &mut [u32],
    (measure, floor): (usize, i64),
    work: &mut Work,
) -> bool {
    loop {
        if !work.spend(graph.reads.len() as u64) {
            return false;
        }
        let needs = needs(graph, blocks, order);
        let cap = needs.iter().map(|n| n[0]).max().unwrap_or(0);
        let top = needs.iter().map(|n| n[measure]).max().unwrap_or(0);
        let Some(at) = needs.iter().position(|n| n[measure] == top) else { return false };
        if top <= floor {
            return false;
        }
        let mut better = false;
        for (back, forth) in [(8, 8), (24, 8), (8, 24), (30, 30)] {
            let (from, to) = (at.saturating_sub(back), order.len().min(at + forth));
            let rest = needs[..from].iter().chain(&needs[to..]).map(|n| n[measure]).max();
            let goal = Goal { measure, floor: floor.max(rest.unwrap_or(0)), below: top, cap };
            if goal.floor >= top || !work.spend(from as u64) {
                continue;
            }
            let mut run = Run::new(graph);
            for &block in &order[..from] {
                blocks.steps[block as usize].iter().for_each(|&s| {
                    run.step(s);
                });
            }
            let mut own = Work(WINDOW.min(work.0));
            let given = own.0;
            let found = search(graph, blocks, &order[from..to], &run, goal, &mut own);
            work.spend(given - own.0);
            if let Outcome::Best(window, _) = found {
                order[from..to].copy_from_slice(&window);
                better = true;
                break;
            }
        }
        if !better {
            return true;
        }
    }
}

/// Moves what reads a value that is live at the peak before the peak, or what makes it behind. True
/// if that helped.
fn moves(
    graph: &Graph,
    blocks: &Blocks,
    order: &mut Vec<u32>,
    measure: usize,
    work: &mut Work,
) -> bool {
    let n = graph.reads.len();
    let needs = needs(graph, blocks, order);
    let top = needs.iter().map(|n| n[measure]).max().unwrap_or(0);
    let Some(at) = needs.iter().position(|n| n[measure] == top) else { return false };
    let key = |cost: Cost| match measure {
        0 => (cost.peak, cost.values, cost.area),
        _ => (cost.values, cost.peak, cost.area),
    };
    let now = graph.cost(&blocks.flat(order));
    let mut position = vec![0usize; blocks.steps.len()];
    for (i, &block) in order.iter().enumerate() {
        position[block as usize] = i;
    }
    let mut block_of = vec![0u32; n];
    for (block, steps) in blocks.steps.iter().enumerate() {
        steps.iter().for_each(|&s| block_of[s as usize] = block as u32);
    }
    let place = |s: &u32| position[block_of[*s as usize] as usize];
    let mut across: Vec<u32> = (0..graph.items.len() as u32)
        .filter(|&i| {
            let item = &graph.items[i as usize];
            let made = item.given || item.makers.iter().any(|m| place(m) < at);
            made && item.bytes > 0 && item.readers.iter().any(|r| place(r) > at)
        })
        .collect();
    across.sort_by_key(|&i| (std::cmp::Reverse(graph.items[i as usize].bytes), i));
    let peak = order[at];
    for &item in across.iter().take(MAX_VALUES) {
        let item = &graph.items[item as usize];
        let of = |s: &u32| block_of[*s as usize];
        let later: Vec<u32> = item.readers.iter().filter(|r| place(r) > at).map(of).collect();
        let makers: Vec<u32> = item.makers.iter().filter(|m| place(m) < at).map(of).collect();
        let earlier = (!item.kept)
            .then(|| closure(later, &blocks.predecessors, |b| position[b as usize] >= at, peak))
            .flatten();
        let behind = (!item.given)
            .then(|| closure(makers, &blocks.successors, |b| position[b as usize] <= at, peak))
            .flatten();
        for (moved, before) in [(earlier, true), (behind, false)] {
            let Some(moved) = moved else { continue };
            if !work.spend(2 * n as u64) {
                return false;
            }
            let is_moved = |b: &u32| moved.contains(b);
            let mut next: Vec<u32> = Vec::with_capacity(order.len());
            next.extend(order[..at].iter().filter(|b| before || !is_moved(b)));
            if !before {
                next.push(peak);
            }
            next.extend(order.iter().filter(|b| is_moved(b)));
            if before {
                next.push(peak);
            }
            next.extend(order[at + 1..].iter().filter(|b| !before || !is_moved(b)));
            let cost = graph.cost(&blocks.flat(&next));
            let worse = measure == 1 && cost.peak > now.peak;
            if key(cost) < key(now) && !worse {
                *order = next;
                return true;
            }
        }
    }
    false
}

/// Blocks and what they are joined to, as far as `inside` says; none if the peak is among them.
fn closure(
    start: Vec<u32>,
    joined: &[Vec<u32>],
    inside: impl Fn(u32) -> bool,
    peak: u32,
) -> Option<rustc_hash::FxHashSet<u32>> {
    let mut found = rustc_hash::FxHashSet::default();
    let mut stack = start;
    while let Some(block) = stack.pop() {
        if block == peak || found.len() > MAX_MOVED {
            return None;
        }
        if found.insert(block) {
            stack.extend(joined[block as usize].iter().copied().filter(|&b| inside(b)));
        }
    }
    (!found.is_empty()).then_some(found)
}
