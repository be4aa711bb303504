//! Local search over the order in which rows are placed.

use super::budget::Budget;
use super::greedy::Fit;
use super::overlaps::Overlaps;
use super::{Problem, Solution};

/// An order and where it leads. A step moves a row that reaches the top to the front of one that it
/// meets, and stays if that is no worse.
pub(super) struct Climb {
    order: Vec<u32>,
    fit: Fit,
    offsets: Vec<u64>,
    /// Of the offsets.
    pub(super) height: u64,
    seed: u64,
}

impl Climb {
    /// From an order; its placing is the first step.
    pub(super) fn new(order: Vec<u32>, fit: Fit) -> Climb {
        Climb { order, fit, offsets: Vec::new(), height: u64::MAX, seed: 0x9E37_79B9_7F4A_7C15 }
    }

    /// Goes on from a packing: its rows by their offsets, each where it first fits.
    pub(super) fn restart(&mut self, best: &Solution) {
        self.order.sort_by_key(|&i| best.offsets[i as usize]);
        self.fit = Fit::First;
        self.height = best.height;
        self.offsets.clone_from(&best.offsets);
    }

    /// The present packing.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    fn chance(&mut self, n: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 16) as usize % n
    }

    /// Steps until the goal is met or the budget is spent.
    pub(super) fn run(
        &mut self,
        problem: &Problem,
        overlaps: &Overlaps<'_>,
        goal: u64,
        budget: &mut Budget,
    ) {
        if self.offsets.is_empty() {
            let placed = problem.place(overlaps, &self.order, self.fit, u64::MAX, budget);
            let Some(offsets) = placed else { return };
            self.height = problem.height(&offsets);
            self.offsets = offsets;
        }
        while self.height > goal {
            let ends = |p: usize| {
                let row = self.order[p] as usize;
                self.offsets[row] + problem.rows[row].size
            };
            let top: Vec<usize> =
                (0..self.order.len()).filter(|&p| ends(p) == self.height).collect();
            let from = top[self.chance(top.len())];
            let row = self.order[from] as usize;
            let meets: Vec<usize> =
                (0..from).filter(|&p| overlaps.meet(self.order[p] as usize, row)).collect();
            if !budget.spend(2 * self.order.len()) {
                return;
            }
            let to = match meets.len() {
                0 => self.chance(self.order.len()),
                n => meets[self.chance(n)],
            };
            let mut next = self.order.clone();
            let moved = next.remove(from);
            next.insert(to, moved);
            let placed = problem.place(overlaps, &next, self.fit, self.height, budget);
            let Some(placed) = placed else { continue };
            self.height = problem.height(&placed);
            (self.order, self.offsets) = (next, placed);
        }
    }
}
