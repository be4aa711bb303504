//! Placing rows one by one, each into the lowest or the smallest gap between those that stand: in
//! orders by size, start, duration, area or end (by size and by duration these are XLA's two orders,
//! `GlobalDecreasingSizeBestFitHeap` in its heap simulator), or in sweeps over time in both directions.

use super::budget::Budget;
use super::overlaps::Overlaps;
use super::{Problem, Row, Solution};

impl Problem {
    pub(super) fn orders(&self) -> Vec<(&'static str, Vec<u32>)> {
        let rows = &self.rows;
        let by = |key: &dyn Fn(&Row) -> (u64, u64, u64)| {
            let mut order: Vec<u32> = (0..rows.len() as u32).collect();
            order.sort_by_key(|&i| (key(&rows[i as usize]), i));
            order
        };
        let time = |r: &Row| r.upper - r.lower;
        vec![
            ("size", by(&|r| (!r.size, !time(r), r.lower))),
            ("start", by(&|r| (r.lower, !r.size, r.upper))),
            ("duration", by(&|r| (!time(r), !r.size, r.lower))),
            ("area", by(&|r| (!(r.size.saturating_mul(time(r))), !r.size, r.lower))),
            ("end", by(&|r| (!r.upper, !r.size, r.lower))),
        ]
    }

    /// Places rows in an order, each into the lowest or the smallest gap. None if one would end
    /// above `ceiling`, or if it takes more comparisons than are left.
    pub(super) fn place(
        &self,
        overlaps: &Overlaps<'_>,
        order: &[u32],
        fit: Fit,
        ceiling: u64,
        budget: &mut Budget,
    ) -> Option<Vec<u64>> {
        match overlaps {
            Overlaps::Lists { .. } => self.place_by_lists(overlaps, order, fit, ceiling, budget),
            Overlaps::Bits { words, bits } => {
                let row = |i: u32| &bits[i as usize * words..(i as usize + 1) * words];
                let meet = |row: &&[u64], j: u32| row[j as usize / 64] >> (j % 64) & 1 == 1;
                self.place_by(row, meet, order, fit, ceiling, budget)
            }
            Overlaps::Rows(rows) => {
                let row = |i: u32| &rows[i as usize];
                let meet = |row: &&Row, j: u32| row.overlaps(&rows[j as usize]);
                self.place_by(row, meet, order, fit, ceiling, budget)
            }
        }
    }

    fn place_by<R>(
        &self,
        row_of: impl Fn(u32) -> R,
        meet: impl Fn(&R, u32) -> bool,
        order: &[u32],
        fit: Fit,
        ceiling: u64,
        budget: &mut Budget,
    ) -> Option<Vec<u64>> {
        let mut offsets = vec![0; self.rows.len()];
        // The rows that stand, by their offsets: start, end, row.
        let mut placed: Vec<(u64, u64, u32)> = Vec::with_capacity(order.len());
        for &i in order {
            if let Some(offset) = self.rows[i as usize].offset {
                offsets[i as usize] = offset;
                placed.push((offset, offset + self.rows[i as usize].size, i));
            }
        }
        placed.sort_unstable();
        for &i in order {
            let row = &self.rows[i as usize];
            if row.offset.is_some() {
                continue;
            }
            budget.take(placed.len())?;
            let own = row_of(i);
            // What does not meet the row is taken for nothing at the bottom: a branch for it would
            // be guessed wrong half of the time.
            let taken = placed.iter().map(|&(start, end, j)| {
                let mask = u64::from(meet(&own, j)).wrapping_neg();
                (start & mask, end & mask)
            });
            let at = gap(taken, row, fit);
            if at + row.size > ceiling {
                return None;
            }
            offsets[i as usize] = at;
            let entry = (at, at + row.size, i);
            let to = placed.partition_point(|p| *p < entry);
            placed.insert(to, entry);
        }
        Some(offsets)
    }

    /// The same for many rows of which each meets few.
    pub(super) fn place_by_lists(
        &self,
        overlaps: &Overlaps<'_>,
        order: &[u32],
        fit: Fit,
        ceiling: u64,
        budget: &mut Budget,
    ) -> Option<Vec<u64>> {
        const NOWHERE: u64 = u64::MAX;
        let mut offsets: Vec<u64> = self.rows.iter().map(|r| r.offset.unwrap_or(NOWHERE)).collect();
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for &i in order {
            let row = &self.rows[i as usize];
            if row.offset.is_some() {
                continue;
            }
            let met = overlaps.list(i as usize);
            budget.take(met.len())?;
            taken.clear();
            taken.extend(met.iter().filter_map(|&j| {
                let at = offsets[j as usize];
                (at != NOWHERE).then(|| (at, at + self.rows[j as usize].size))
            }));
            taken.sort_unstable();
            let at = gap(taken.iter().copied(), row, fit);
            if at + row.size > ceiling {
                return None;
            }
            offsets[i as usize] = at;
        }
        Some(offsets)
    }

    /// Places rows by their starts, or backwards by their ends, among those still live: quick at
    /// any size, since rows that meet too many others go on top of everything.
    pub(super) fn sweep(&self, fit: Fit, backwards: bool) -> Vec<u64> {
        // Backwards, time runs down from the last end.
        let from = |r: &Row| if backwards { u64::MAX - r.upper } else { r.lower };
        let until = |r: &Row| if backwards { u64::MAX - r.lower } else { r.upper };
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.sort_by_key(|&i| (from(&self.rows[i as usize]), !self.rows[i as usize].size));
        let mut offsets = vec![0; self.rows.len()];
        let mut fixed: Vec<u32> = Vec::new();
        for &i in &order {
            if let Some(offset) = self.rows[i as usize].offset {
                offsets[i as usize] = offset;
                fixed.push(i);
            }
        }
        // The rows in use, by their offsets: start, end, row.
        let mut live: Vec<(u64, u64, u32)> = fixed
            .iter()
            .map(|&i| (offsets[i as usize], offsets[i as usize] + self.rows[i as usize].size, i))
            .collect();
        live.sort_unstable();
        let mut top = live.iter().map(|l| l.1).max().unwrap_or(0);
        let mut work = 0;
        for i in order {
            let row = &self.rows[i as usize];
            if row.offset.is_some() {
                continue;
            }
            if work > MAX_SWEEP {
                offsets[i as usize] = top.next_multiple_of(row.alignment.max(1));
                top = offsets[i as usize] + row.size;
                continue;
            }
            work += live.len();
            live.retain(|&(.., j)| {
                let other = &self.rows[j as usize];
                other.offset.is_some() || until(other) > from(row)
            });
            let taken = live
                .iter()
                .filter(|&&(.., j)| self.rows[j as usize].overlaps(row))
                .map(|&(start, end, _)| (start, end));
            let at = gap(taken, row, fit);
            offsets[i as usize] = at;
            let entry = (at, at + row.size, i);
            top = top.max(entry.1);
            let to = live.partition_point(|l| *l < entry);
            live.insert(to, entry);
        }
        offsets
    }
}

impl Problem {
    /// Places rows as they begin to live, each as low as it fits, and searches for nothing.
    pub fn in_time_order(&self) -> Solution {
        let offsets = self.sweep(Fit::First, false);
        let (height, bound) = (self.height(&offsets), self.lower_bound());
        let solver = "program order";
        Solution { offsets, height, lower_bound: bound, proved: bound, solver, comparisons: 0 }
    }
}

/// Rows looked at in a sweep.
const MAX_SWEEP: usize = 200_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The lowest gap.
    First,
    /// The smallest gap.
    Best,
}

/// The offset of a gap for a row between intervals sorted by their starts, empty ones at the bottom
/// among them.
fn gap(taken: impl Iterator<Item = (u64, u64)>, row: &Row, fit: Fit) -> u64 {
    let alignment = row.alignment.max(1);
    let power = alignment.is_power_of_two();
    let mask = alignment - 1;
    let align = |at: u64| if power { (at + mask) & !mask } else { at.next_multiple_of(alignment) };
    let mut top = 0u64;
    let mut best: Option<(u64, u64)> = None;
    for (start, end) in taken {
        if start > top {
            let at = align(top);
            if at + row.size <= start {
                let slack = start - top;
                if fit == Fit::First {
                    return at;
                }
                if best.is_none_or(|b| slack < b.0) {
                    best = Some((slack, at));
                }
            }
        }
        top = top.max(end);
    }
    best.map_or_else(|| align(top), |b| b.1)
}
