//! The depth-first search for a packing within a capacity, after MiniMalloc (Moffitt, ASPLOS 2023).
//!
//! * *Canonical*: rows are placed at non-decreasing offsets, ties by rank, each where it comes to
//!   rest on those beneath. Every layout slides down to such a one, and each is reached in one order.
//! * *Sections*: a branch ends where the lowest place that is left in a section and the sizes still to
//!   come exceed the capacity; the same for the rows of a section that came to rest above the last.
//! * *Dominance*: a row is not placed where another would have fitted wholly beneath it.
//! * *Skips*: a row that was tried in vain comes to rest again only on one that gets in its way; so it
//!   ends above the lowest of those that can. If none can (a row without a hat), the branch ends.
//! * *Parts*: where nothing that is left is live, what is left splits, with ranks of its own.
//! * *Nogoods*: see `nogoods`.
//!
//! Sums and minima of sections are kept up to date on flat arrays, and only where they change; a
//! trail takes changes back.

use super::budget::Budget;
use super::nogoods::{Nogoods, number};
use super::sections::Flat;
use super::{Ideas, Measure};

/// What a search ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Found,
    /// There is none.
    Refuted,
    /// Out of work or time.
    Stopped,
}

/// A search of one order for one capacity.
pub(super) struct Search<'a> {
    flat: &'a Flat,
    ideas: &'a Ideas,
    /// Rows that are larger by the first of these are tried first, ties by the next.
    measures: &'a [Measure],
    /// Of noise in the measures; 0 is none.
    seed: u64,
    capacity: i64,
    nogoods: &'a mut Nogoods,
    budget: &'a mut Budget,
    /// Where a row comes to rest on those that are placed.
    rest: Vec<i64>,
    /// The same, or higher for a row that was skipped there.
    low: Vec<i64>,
    rank: Vec<u32>,
    /// -1 for a row that is to come.
    offset: Vec<i64>,
    /// The least `low` of a section's rows to come.
    floor: Vec<i64>,
    /// The capacity less the sizes still to come.
    limit: Vec<i64>,
    /// Rows to come, a stretch for each node.
    pool: Vec<u32>,
    /// The state's number, for the part at hand.
    state: u128,
    /// Changes to rows: row, rest, low.
    rows: Vec<(u32, i64, i64)>,
    /// Changes to floors.
    floors: Vec<(u32, i64)>,
    /// Sections to look at again.
    touched: Vec<u32>,
    stamps: Vec<u32>,
    stamp: u32,
}

/// Searches; the offsets by the flat rows are given if a packing is found.
pub(super) fn search(
    flat: &Flat,
    ideas: &Ideas,
    (measures, seed): (&[Measure], u64),
    capacity: i64,
    nogoods: &mut Nogoods,
    budget: &mut Budget,
) -> (Outcome, Vec<i64>) {
    let n = flat.len();
    let mut limit = vec![capacity; flat.sections];
    for (section, limit) in limit.iter_mut().enumerate() {
        *limit -= flat.members.at(section).iter().map(|&i| flat.size[i as usize]).sum::<i64>();
    }
    let mut search = Search {
        flat,
        ideas,
        measures,
        seed,
        capacity,
        nogoods,
        budget,
        rest: vec![0; n],
        low: vec![0; n],
        rank: vec![0; n],
        offset: vec![-1; n],
        floor: vec![0; flat.sections],
        limit,
        pool: (0..n as u32).collect(),
        state: 0,
        rows: Vec::new(),
        floors: Vec::new(),
        touched: Vec::new(),
        stamps: vec![0; flat.sections],
        stamp: 0,
    };
    if !search.ground() {
        return (Outcome::Refuted, Vec::new());
    }
    let all = (0..n as u32).collect::<Vec<_>>();
    let outcome = search.parts(&all, &[0, n]);
    (outcome, search.offset)
}

impl Search<'_> {
    /// The rests on the empty ground; false if that is too high already.
    fn ground(&mut self) -> bool {
        for i in 0..self.flat.len() {
            let fixed = self.flat.fixed[i];
            self.rest[i] = if fixed >= 0 { fixed } else { self.settle(i, 0) };
            self.low[i] = self.rest[i];
            if self.low[i] + self.flat.size[i] > self.capacity {
                return false;
            }
        }
        for section in 0..self.flat.sections {
            self.floor[section] = self.lowest(section);
            if self.floor[section] > self.limit[section] {
                return false;
            }
        }
        true
    }

    /// The lowest place from `at` on that is aligned and free of fixed rows.
    fn settle(&self, row: usize, at: i64) -> i64 {
        let align = |at: i64| {
            let step = self.flat.alignment[row];
            if step == 1 { at } else { (at + step - 1) / step * step }
        };
        let mut at = align(at);
        for &other in self.flat.obstacles.at(row) {
            let from = self.flat.fixed[other as usize];
            let to = from + self.flat.size[other as usize];
            if at < to && at + self.flat.size[row] > from {
                at = align(to);
            }
        }
        at
    }

    fn lowest(&self, section: usize) -> i64 {
        let rows = self.flat.members.at(section).iter().map(|&i| i as usize);
        rows.filter(|&i| self.offset[i] < 0).map(|i| self.low[i]).min().unwrap_or(0)
    }

    /// Places the rows of a stretch of the pool, part by part if it falls into parts.
    fn solve(&mut self, from: usize, to: usize) -> Outcome {
        if self.ideas.parts && from < to {
            let mut cuts = Vec::new();
            let mut end = self.flat.hull[self.pool[from] as usize].1;
            for at in from + 1..to {
                let hull = self.flat.hull[self.pool[at] as usize];
                if hull.0 >= end {
                    cuts.push(at - from);
                }
                end = end.max(hull.1);
            }
            if !cuts.is_empty() {
                let rows = self.pool[from..to].to_vec();
                cuts.insert(0, 0);
                cuts.push(rows.len());
                return self.parts(&rows, &cuts);
            }
        }
        self.node(from, to)
    }

    /// Places the rows between each two cuts, with ranks of their own.
    fn parts(&mut self, rows: &[u32], cuts: &[usize]) -> Outcome {
        let state = self.state;
        let ranks: Vec<u32> = rows.iter().map(|&i| self.rank[i as usize]).collect();
        let mut parts: Vec<&[u32]> = cuts.windows(2).map(|cut| &rows[cut[0]..cut[1]]).collect();
        // A part that fails ends the branch: the quickest first.
        parts.sort_by_key(|part| part.len());
        let mut outcome = Outcome::Found;
        for part in parts {
            self.rank_part(part);
            let from = self.pool.len();
            self.pool.extend(part);
            outcome = self.node(from, self.pool.len());
            self.pool.truncate(from);
            if outcome != Outcome::Found {
                break;
            }
        }
        if outcome == Outcome::Refuted {
            for (&i, rank) in rows.iter().zip(ranks) {
                self.rank[i as usize] = rank;
            }
            self.state = state;
            // Parts that were placed before the one that failed.
            self.take_back(rows);
        }
        outcome
    }

    /// Ranks and numbers the rows of a part. It is a problem of its own: what was skipped before may
    /// have failed because of another part.
    fn rank_part(&mut self, part: &[u32]) {
        let flat = self.flat;
        let measure = |measure: Measure, i: usize| match measure {
            Measure::Area => (flat.size[i] as u64).saturating_mul(flat.width[i]),
            Measure::Width => flat.width[i],
            Measure::Load => {
                let sections = flat.spans.at(i).iter().flat_map(|s| s.0..s.1);
                let load = sections.map(|s| self.capacity - self.limit[s as usize]).max();
                load.unwrap_or(0) as u64
            }
        };
        let mut order: Vec<([u64; 3], u32)> = part
            .iter()
            .map(|&i| {
                let mut keys = [0; 3];
                for (key, &by) in keys.iter_mut().zip(self.measures) {
                    *key = u64::MAX - measure(by, i as usize);
                }
                if self.seed != 0 {
                    // Up to an eighth more.
                    let more = number(i as usize, self.seed as i64) as u64 % 128;
                    let first = measure(self.measures[0], i as usize);
                    keys[0] = u64::MAX
                        - (first
                            + (first / 1024).saturating_mul(more)
                            + first % 1024 * more / 1024);
                }
                (keys, i)
            })
            .collect();
        order.sort_unstable();
        self.state = 0;
        self.next_stamp();
        for (rank, &(_, i)) in order.iter().enumerate() {
            let row = i as usize;
            self.rank[row] = rank as u32;
            self.state ^= number(row, self.rest[row]);
            if self.low[row] > self.rest[row] {
                self.rows.push((i, self.rest[row], self.low[row]));
                self.low[row] = self.rest[row];
                for section in flat.spans.at(row).iter().flat_map(|s| s.0..s.1) {
                    self.touch(section);
                }
            }
        }
        for at in 0..self.touched.len() {
            let section = self.touched[at] as usize;
            self.floors.push((section as u32, self.floor[section]));
            self.floor[section] = self.lowest(section);
        }
    }

    /// Places the rows of a stretch of the pool that hang together.
    fn node(&mut self, from: usize, to: usize) -> Outcome {
        if from == to {
            return Outcome::Found;
        }
        let state = self.state;
        if self.ideas.nogoods && self.nogoods.refuted(state, self.capacity) {
            return Outcome::Refuted;
        }
        let marks = (self.rows.len(), self.floors.len());
        while let Some(at) = self.candidate(from, to) {
            let row = self.pool[at] as usize;
            let work = to - from + self.flat.meets.at(row).len();
            if !self.budget.spend(work) {
                return Outcome::Stopped;
            }
            let inner = (self.rows.len(), self.floors.len());
            if self.place(row, (from, to)) {
                let start = self.pool.len();
                self.pool.extend_from_within(from..at);
                self.pool.extend_from_within(at + 1..to);
                match self.solve(start, self.pool.len()) {
                    Outcome::Refuted => self.pool.truncate(start),
                    other => return other,
                }
            }
            self.lift(row);
            self.undo(inner);
            self.state = state;
            if !self.skip(row) {
                break;
            }
        }
        self.undo(marks);
        if self.ideas.nogoods {
            self.nogoods.refute(state, self.capacity);
        }
        Outcome::Refuted
    }

    /// The row to place next, as its place in the pool.
    fn candidate(&self, from: usize, to: usize) -> Option<usize> {
        let (mut best, mut found, mut height) = ((i64::MAX, u32::MAX), None, i64::MAX);
        for (at, &i) in self.pool[from..to].iter().enumerate() {
            let i = i as usize;
            let (rest, low) = (self.rest[i], self.low[i]);
            height = height.min(rest + self.flat.size[i]);
            if rest == low && (low, self.rank[i]) < best {
                best = (low, self.rank[i]);
                found = Some(from + at);
            }
        }
        found.filter(|_| !self.ideas.dominance || best.0 < height)
    }

    /// Places a row at its rest; false if what is left cannot fit.
    fn place(&mut self, row: usize, part: (usize, usize)) -> bool {
        let flat = self.flat;
        let (at, size) = (self.rest[row], flat.size[row]);
        let end = at + size;
        self.state ^= number(row, at);
        self.offset[row] = at;
        self.next_stamp();
        for section in flat.spans.at(row).iter().flat_map(|s| s.0..s.1) {
            self.limit[section as usize] += size;
            if self.floor[section as usize] == at {
                self.touch(section);
            }
        }
        let mut holds = true;
        let first = self.rows.len();
        for &other in flat.meets.at(row) {
            let other = other as usize;
            if self.offset[other] >= 0 || self.rest[other] >= end {
                continue;
            }
            let (rest, low) = (self.rest[other], self.low[other]);
            if flat.fixed[other] >= 0 {
                holds = false;
                break;
            }
            self.rows.push((other as u32, rest, low));
            self.state ^= number(other, rest);
            self.rest[other] = self.settle(other, end);
            self.low[other] = low.max(self.rest[other]);
            self.state ^= number(other, self.rest[other]);
            if self.low[other] + flat.size[other] > self.capacity {
                holds = false;
                break;
            }
            if self.low[other] > low {
                for section in flat.spans.at(other).iter().flat_map(|s| s.0..s.1) {
                    if self.floor[section as usize] == low {
                        self.touch(section);
                    }
                }
            }
        }
        holds = holds && self.floors_hold();
        if holds && self.ideas.late {
            holds = self.late_hold(first, end);
        }
        if holds && !self.ideas.skips && self.ideas.sections {
            // Nothing is placed below the present offset any more.
            let hulls = self.pool[part.0..part.1].iter().map(|&i| flat.hull[i as usize]);
            let (from, to) = hulls.fold((u32::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
            holds = self.limit[from as usize..to as usize].iter().all(|&limit| at <= limit);
        }
        holds
    }

    /// Takes a row off again; rests, lows and floors are the trail's.
    fn lift(&mut self, row: usize) {
        self.offset[row] = -1;
        let size = self.flat.size[row];
        for section in self.flat.spans.at(row).iter().flat_map(|s| s.0..s.1) {
            self.limit[section as usize] -= size;
        }
    }

    fn take_back(&mut self, rows: &[u32]) {
        for &row in rows {
            if self.offset[row as usize] >= 0 {
                self.lift(row as usize);
            }
        }
    }

    fn next_stamp(&mut self) {
        self.stamp += 1;
        self.touched.clear();
    }

    fn touch(&mut self, section: u32) {
        if self.stamps[section as usize] != self.stamp {
            self.stamps[section as usize] = self.stamp;
            self.touched.push(section);
        }
    }

    /// Renews the floors of touched sections; false if one leaves too little room.
    fn floors_hold(&mut self) -> bool {
        if !self.ideas.sections {
            return true;
        }
        let mut work = 0;
        for at in 0..self.touched.len() {
            let section = self.touched[at] as usize;
            work += self.flat.members.at(section).len();
            let floor = self.lowest(section);
            if floor > self.floor[section] {
                self.floors.push((section as u32, self.floor[section]));
                self.floor[section] = floor;
                if floor > self.limit[section] {
                    self.budget.work -= work as i64 / 2;
                    return false;
                }
            }
        }
        self.budget.work -= work as i64 / 2;
        true
    }

    /// Whether the rows at or above `end` fit, in every section where one was just lifted there.
    fn late_hold(&mut self, first: usize, end: i64) -> bool {
        let flat = self.flat;
        self.next_stamp();
        for at in first..self.rows.len() {
            let row = self.rows[at].0 as usize;
            for section in flat.spans.at(row).iter().flat_map(|s| s.0..s.1) {
                self.touch(section);
            }
        }
        let mut work = 0;
        let mut holds = true;
        for &section in &self.touched {
            let rows = flat.members.at(section as usize);
            work += rows.len();
            let mut sum = 0;
            for &i in rows {
                let i = i as usize;
                if self.offset[i] < 0 && self.low[i] >= end {
                    sum += flat.size[i];
                }
            }
            if end + sum > self.capacity {
                holds = false;
                break;
            }
        }
        self.budget.work -= work as i64 / 2;
        holds
    }

    /// Bars a row from where it rests; false if it then has no place.
    fn skip(&mut self, row: usize) -> bool {
        let flat = self.flat;
        if flat.fixed[row] >= 0 {
            return false;
        }
        let (rest, low) = (self.rest[row], self.low[row]);
        let top = rest + flat.size[row];
        let (mut alone, mut least) = (true, i64::MAX / 2);
        for &other in flat.meets.at(row) {
            let other = other as usize;
            if self.offset[other] < 0 {
                alone = false;
                if !self.ideas.dominance || self.low[other] < top {
                    least = least.min(self.low[other] + flat.size[other]);
                }
            }
        }
        if alone && self.ideas.hatless {
            return false;
        }
        let least = if self.ideas.skips { least } else { rest + 1 };
        if least + flat.size[row] > self.capacity {
            return false;
        }
        self.rows.push((row as u32, rest, low));
        self.low[row] = least;
        self.next_stamp();
        for section in flat.spans.at(row).iter().flat_map(|s| s.0..s.1) {
            if self.floor[section as usize] == low {
                self.touch(section);
            }
        }
        self.floors_hold()
    }

    fn undo(&mut self, marks: (usize, usize)) {
        while self.rows.len() > marks.0 {
            let (row, rest, low) = self.rows.pop().expect("the trail is longer than the mark");
            self.rest[row as usize] = rest;
            self.low[row as usize] = low;
        }
        while self.floors.len() > marks.1 {
            let (section, floor) = self.floors.pop().expect("the trail is longer than the mark");
            self.floor[section as usize] = floor;
        }
    }
}
