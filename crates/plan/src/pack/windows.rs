//! Local search by windows of time: the rows around one that stands too high are taken out and
//! searched for afresh between those that stay, which stand fast.
//!
//! This is large-neighbourhood search (Shaw, "Using constraint programming and local search methods
//! to solve vehicle routing problems", CP 1998) with the depth-first search as what repairs. It suits
//! problems of any number of rows, since a window holds few.

use super::budget::Budget;
use super::nogoods::Nogoods;
use super::search::{Outcome, search};
use super::sections::Flat;
use super::{Ideas, Measure, Problem, Row};

/// A packing in repair.
pub(super) struct Windows {
    pub(super) offsets: Vec<u64>,
    /// Rows that a window takes out.
    rows: usize,
    seed: u64,
}

/// Rows of the first window, and of the largest.
const ROWS: (usize, usize) = (24, 200);

impl Windows {
    /// Begins with a packing.
    pub(super) fn new(offsets: Vec<u64>) -> Windows {
        Windows { offsets, rows: ROWS.0, seed: 0x2545_F491_4F6C_DD1D }
    }

    fn chance(&mut self, n: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 16) as usize % n
    }

    /// Repairs rows until none ends above the target; whether it came to that.
    pub(super) fn run(
        &mut self,
        problem: &Problem,
        ideas: &Ideas,
        target: u64,
        budget: &mut Budget,
    ) -> bool {
        let rows = &problem.rows;
        loop {
            let high: Vec<usize> =
                (0..rows.len()).filter(|&i| self.offsets[i] + rows[i].size > target).collect();
            if high.is_empty() {
                return true;
            }
            if !budget.spend(4 * rows.len()) {
                return false;
            }
            let row = high[self.chance(high.len())];
            let free = self.window(problem, row, target);
            let (part, numbers) = self.around(problem, &free, target);
            budget.spend(free.len() * part.rows.len());
            let flat = Flat::new(&part);
            let mut nogoods = Nogoods::new(14);
            let share = (40 * (part.rows.len() * part.rows.len()) as i64).min(budget.work);
            let mut inner = Budget { work: share, ..*budget };
            let capacity = (target / flat.unit) as i64;
            let orders = [
                [Measure::Load, Measure::Width, Measure::Area],
                [Measure::Area, Measure::Width, Measure::Load],
            ];
            let order = orders[self.chance(2)];
            let seed = if self.chance(2) == 0 { 0 } else { self.seed };
            let (outcome, found) =
                search(&flat, ideas, (&order, seed), capacity, &mut nogoods, &mut inner);
            budget.work -= share - inner.work;
            if outcome == Outcome::Found {
                for (&at, &offset) in flat.row.iter().zip(&found) {
                    if part.rows[at as usize].offset.is_none() {
                        self.offsets[numbers[at as usize]] = offset as u64 * flat.unit;
                    }
                }
                self.rows = ROWS.0.max(self.rows * 3 / 4);
            } else {
                self.rows = (self.rows + self.rows / 8 + 1).min(ROWS.1);
            }
        }
    }

    /// The rows that are live nearest to a time in the life of a row, and any of these that stand
    /// too high.
    fn window(&mut self, problem: &Problem, row: usize, target: u64) -> Vec<usize> {
        let rows = &problem.rows;
        let life = (rows[row].upper - rows[row].lower) as usize;
        let time = rows[row].lower + self.chance(life.max(1)) as u64;
        let far = |r: &Row| {
            if r.upper <= time { time - r.upper + 1 } else { r.lower.saturating_sub(time) }
        };
        let mut near: Vec<(u64, usize)> = (0..rows.len())
            .filter(|&i| i != row && rows[i].offset.is_none() && rows[i].size > 0)
            .map(|i| (far(&rows[i]), i))
            .collect();
        let count = self.rows.min(near.len());
        if count < near.len() {
            near.select_nth_unstable(count);
        }
        // Of rows at one distance any may stay: a few do.
        let mut free: Vec<usize> = near[..count].iter().map(|n| n.1).collect();
        free.retain(|&i| {
            self.offsets[i] + rows[i].size > target || rows[row].overlaps(&rows[i]) || {
                self.chance(8) > 0
            }
        });
        free.push(row);
        free
    }

    /// The free rows, and as fixed ones those that they meet, up to the target.
    fn around(&self, problem: &Problem, free: &[usize], target: u64) -> (Problem, Vec<usize>) {
        let rows = &problem.rows;
        let mut is_free = vec![false; rows.len()];
        let (mut from, mut to) = (u64::MAX, 0);
        for &i in free {
            is_free[i] = true;
            from = from.min(rows[i].lower);
            to = to.max(rows[i].upper);
        }
        let mut part: Vec<Row> = free.iter().map(|&i| rows[i].clone()).collect();
        let mut numbers = free.to_vec();
        for (i, row) in rows.iter().enumerate() {
            let stays = !is_free[i] && row.lower < to && from < row.upper;
            let room = target.saturating_sub(self.offsets[i]).min(row.size);
            if stays && room > 0 && free.iter().any(|&f| rows[f].overlaps(row)) {
                // Only its part below the target is in the way.
                part.push(Row {
                    size: room,
                    alignment: 1,
                    offset: Some(self.offsets[i]),
                    ..row.clone()
                });
                numbers.push(i);
            }
        }
        (Problem { rows: part }, numbers)
    }
}
