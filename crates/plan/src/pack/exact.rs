//! A depth-first search for a packing within a given capacity, after MiniMalloc (Moffitt, ASPLOS
//! 2023): rows are placed at non-decreasing offsets, each as low as those beneath allow, so that
//! every layout is reached in one order only.
//!
//! * A *section* is a stretch of time in which the same rows are live. A branch ends where the
//!   lowest free offset of a section and the sizes still to come exceed its capacity.
//! * A row need not be tried above where another would have fitted wholly beneath it.
//! * What is left is split where nothing of it is live, and its parts are placed one by one.
//! * Where a row that meets no other that is still to come did not help, nothing else will.
//! * A row that stands up to the capacity from the start only lowers its sections' capacity.

use super::{Problem, Row};

/// Steps of the search, shared by its orders.
pub(super) fn fit(problem: &Problem, capacity: u64, steps: u64) -> Option<Vec<u64>> {
    let rows = &problem.rows;
    let at_ceiling = |r: &Row| r.offset.is_some_and(|o| o + r.size == capacity);
    if rows.iter().any(|r| r.offset.is_some() && !at_ceiling(r)) {
        return None;
    }
    let sections = sections(rows);
    let mut room = vec![capacity; sections.len()];
    let mut of: Vec<Vec<u32>> = vec![Vec::new(); rows.len()];
    for (s, live) in sections.iter().enumerate() {
        for &r in live {
            of[r as usize].push(s as u32);
            if rows[r as usize].offset.is_some() {
                room[s] = room[s].checked_sub(rows[r as usize].size)?;
            }
        }
    }
    // MiniMalloc's orders: by the fullest section, the width in time and the area.
    let load = |r: usize| {
        let of = of[r].iter().map(|&s| &sections[s as usize]);
        of.map(|live| live.iter().map(|&i| rows[i as usize].size).sum::<u64>()).max().unwrap_or(0)
    };
    let measures: Vec<[u64; 3]> = (0..rows.len())
        .map(|r| {
            let width = rows[r].upper - rows[r].lower;
            [width, load(r), rows[r].size.saturating_mul(width)]
        })
        .collect();
    let (width, total, area) = (0, 1, 2);
    [[total, width, area], [width, area, total], [total, area, width]].into_iter().find_map(
        |keys| {
            let mut order: Vec<u32> = (0..rows.len() as u32).collect();
            order.sort_by_key(|&i| std::cmp::Reverse(keys.map(|k| measures[i as usize][k])));
            let mut rank = vec![0; rows.len()];
            for (at, &i) in order.iter().enumerate() {
                rank[i as usize] = at as u32;
            }
            let mut search = Search {
                rows,
                sections: &sections,
                of: &of,
                room: &room,
                rank,
                low: vec![0; rows.len()],
                offset: rows.iter().map(|r| r.offset).collect(),
                steps: steps / 3,
            };
            let free =
                (0..rows.len() as u32).filter(|&i| rows[i as usize].offset.is_none()).collect();
            let found = search.apart(free).iter().all(|part| search.place(part, (0, 0)));
            found.then(|| search.offset.iter().map(|o| o.expect("every row is placed")).collect())
        },
    )
}

/// The rows live between neighbouring ends of rows.
fn sections(rows: &[Row]) -> Vec<Vec<u32>> {
    let mut times: Vec<u64> = rows.iter().flat_map(|r| r.live().map(|l| l.0)).collect();
    times.sort_unstable();
    times.dedup();
    let live = |time: u64, row: &Row| row.live().any(|(a, b)| a <= time && time < b);
    // What is live changes downwards at ends; the fullest sections begin at starts.
    times
        .into_iter()
        .map(|t| (0..rows.len() as u32).filter(|&i| live(t, &rows[i as usize])).collect())
        .collect()
}

struct Search<'a> {
    rows: &'a [Row],
    sections: &'a [Vec<u32>],
    of: &'a [Vec<u32>],
    room: &'a [u64],
    /// Earlier rows are tried first.
    rank: Vec<u32>,
    /// The lowest offset that a row may still have.
    low: Vec<u64>,
    offset: Vec<Option<u64>>,
    steps: u64,
}

impl Search<'_> {
    /// Places rows that meet each other in time, directly or by others.
    fn place(&mut self, rows: &[u32], last: (u64, u32)) -> bool {
        let mut candidates: Vec<(u64, u32, u32)> =
            rows.iter().map(|&i| (self.low[i as usize], self.rank[i as usize], i)).collect();
        candidates.sort_unstable();
        let beneath = candidates
            .iter()
            .map(|&(low, _, i)| low + self.rows[i as usize].size)
            .min()
            .unwrap_or(u64::MAX);
        for (low, rank, row) in candidates {
            if low >= beneath {
                break;
            }
            if (low, rank) < last {
                continue;
            }
            let work = self.of[row as usize].len() as u64 + rows.len() as u64;
            match self.steps.checked_sub(work) {
                Some(steps) => self.steps = steps,
                None => return false,
            }
            let before = self.low.clone();
            let holds = self.set(row as usize, low);
            // Whether nothing could lift the row, were it placed later.
            let hatless = holds
                && self.of[row as usize].iter().all(|&s| {
                    let live = &self.sections[s as usize];
                    live.iter().all(|&i| self.offset[i as usize].is_some())
                });
            let rest: Vec<u32> = rows.iter().copied().filter(|&i| i != row).collect();
            if holds && self.apart(rest).iter().all(|part| self.place(part, (low, rank))) {
                return true;
            }
            self.low = before;
            for &i in rows {
                self.offset[i as usize] = None;
            }
            if hatless || self.steps == 0 {
                return false;
            }
        }
        rows.is_empty()
    }

    /// Rows in parts that do not meet in time.
    fn apart(&self, mut rows: Vec<u32>) -> Vec<Vec<u32>> {
        rows.sort_unstable_by_key(|&i| (self.rows[i as usize].lower, i));
        let mut parts: Vec<Vec<u32>> = Vec::new();
        let mut end = 0;
        for i in rows {
            let row = &self.rows[i as usize];
            match parts.last_mut() {
                Some(part) if row.lower < end => part.push(i),
                Some(_) | None => parts.push(vec![i]),
            }
            end = end.max(row.upper);
        }
        parts
    }

    /// Places a row; false if some section can no longer hold its rows.
    fn set(&mut self, row: usize, at: u64) -> bool {
        self.offset[row] = Some(at);
        let end = at + self.rows[row].size;
        let mut touched: Vec<u32> = Vec::new();
        for &s in &self.of[row] {
            for &other in &self.sections[s as usize] {
                let other = other as usize;
                if self.offset[other].is_none() && self.low[other] < end {
                    let step = self.rows[other].alignment.max(1);
                    self.low[other] = end.next_multiple_of(step);
                    touched.extend(&self.of[other]);
                }
            }
        }
        touched.extend(&self.of[row]);
        touched.sort_unstable();
        touched.dedup();
        let work: usize = touched.iter().map(|&s| self.sections[s as usize].len()).sum();
        self.steps = self.steps.saturating_sub(work as u64 / 2);
        touched.into_iter().all(|s| {
            let (mut floor, mut sum) = (u64::MAX, 0);
            for &i in &self.sections[s as usize] {
                if self.offset[i as usize].is_none() {
                    // Nothing is placed below the present offset any more.
                    floor = floor.min(self.low[i as usize].max(at));
                    sum += self.rows[i as usize].size;
                }
            }
            sum == 0 || floor + sum <= self.room[s as usize]
        }) && self.of[row].iter().all(|&s| end <= self.room[s as usize])
    }
}
