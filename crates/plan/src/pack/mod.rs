//! Offsets for rows that are live at given times, in as little height as possible: interval coloring,
//! also known as dynamic storage allocation.
//!
//! Stand-alone: nothing here knows what a row is. Half-open: a row is live from `lower` on and dead
//! at `upper`; in a gap it takes no room.
//!
//! * `problem`: rows, what is live when, the lower bound. `check`: whether a packing is one.
//! * `portfolio`: what is tried for how long. `greedy`: orders and sweeps. `local`: local search on
//!   orders. `windows`: local search by windows of time.
//! * `search`: the depth-first search for a capacity, on the flat form of `sections`; what it refuted
//!   is in `nogoods`.
//!
//! ```
//! use jaxrs_plan::pack::{Effort, Problem, Row};
//! let row = |lower, upper, size| Row { lower, upper, size, ..Row::default() };
//! let problem = Problem { rows: vec![row(0, 2, 4), row(1, 3, 8), row(2, 4, 4)] };
//! let solution = problem.solve(Effort::default());
//! assert_eq!(solution.height, 12);
//! assert!(solution.is_optimal());
//! ```

mod budget;
mod check;
mod greedy;
mod local;
mod nogoods;
mod overlaps;
mod portfolio;
mod problem;
mod search;
mod sections;
mod windows;

pub use check::{Fault, check};
pub use problem::{Problem, Row};

use std::time::Duration;

/// How much the packer may try.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Comparisons of two rows.
    pub comparisons: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { comparisons: 4_000_000 }
    }
}

/// How a problem is to be solved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Work until the packer gives up.
    pub effort: Effort,
    /// Time until it gives up; with one, the answer depends on the machine.
    pub time_limit: Option<Duration>,
    /// Stop at the first packing that fits; without it the least height is sought.
    pub capacity: Option<u64>,
    /// What it may use.
    pub ideas: Ideas,
}

/// A switch for each idea of the packer, so that a benchmark can show what it gives.
#[derive(Clone, Copy, Debug)]
pub struct Ideas {
    /// Place rows in several orders, not by size alone.
    pub orders: bool,
    /// Sweep time in both directions.
    pub sweeps: bool,
    /// Search depth first.
    pub search: bool,
    /// Search with several orders in turn.
    pub restarts: bool,
    /// Bound by the lowest place left in a section.
    pub sections: bool,
    /// Bound by the rows of a section that were just lifted.
    pub late: bool,
    /// Place no row above where another fits wholly beneath it.
    pub dominance: bool,
    /// Give up where a row that meets none to come did not help.
    pub hatless: bool,
    /// Conclude from a row skipped that another gets in its way.
    pub skips: bool,
    /// Split what is left where nothing of it is live.
    pub parts: bool,
    /// Remember refuted states.
    pub nogoods: bool,
    /// Improve an order by local search.
    pub local: bool,
    /// Repair windows of time by the search.
    pub windows: bool,
}

impl Default for Ideas {
    fn default() -> Ideas {
        Ideas {
            orders: true,
            sweeps: true,
            search: true,
            restarts: true,
            sections: true,
            late: false,
            dominance: true,
            hatless: true,
            skips: true,
            parts: true,
            nogoods: true,
            local: true,
            windows: true,
        }
    }
}

/// What rows are ranked by in the search, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// Size times time.
    Area,
    /// Time.
    Width,
    /// What is live at its fullest section.
    Load,
}

/// Where each row stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Solution {
    /// By row.
    pub offsets: Vec<u64>,
    /// The highest end.
    pub height: u64,
    /// The largest sum of sizes that are live at one time.
    pub lower_bound: u64,
    /// No packing is lower than this; above the lower bound where the search proved it.
    pub proved: u64,
    /// What found it.
    pub solver: &'static str,
    /// Comparisons of rows that it took.
    pub comparisons: u64,
}

impl Solution {
    /// Whether nothing lower exists: by the lower bound, or because the search found none.
    pub fn is_optimal(&self) -> bool {
        self.height == self.proved
    }
}

impl Problem {
    /// Places every row in as little height as an effort allows.
    pub fn solve(&self, effort: Effort) -> Solution {
        self.solve_with(&Options { effort, ..Options::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Effort, Problem, Row};

    fn row(lower: u64, upper: u64, size: u64) -> Row {
        Row { lower, upper, size, alignment: 1, ..Row::default() }
    }

    /// Solves, and checks that it is a packing.
    fn check(rows: Vec<Row>) -> super::Solution {
        let problem = Problem { rows };
        let solution = problem.solve(Effort::default());
        assert_eq!(super::check(&problem, &solution.offsets), Ok(solution.height));
        assert!(solution.height >= solution.proved && solution.proved >= solution.lower_bound);
        solution
    }

    #[test]
    fn small_problems() {
        assert_eq!(check(vec![]).height, 0);
        assert_eq!(check(vec![row(0, 2, 4), row(1, 3, 4), row(2, 4, 4)]).height, 8);
        // A packing that no order by size or time finds: the long row must stand in the middle.
        let example = [(0, 3, 4), (3, 9, 4), (0, 9, 4), (9, 21, 4), (0, 21, 4)];
        let solution = check(example.iter().map(|&(l, u, s)| row(l, u, s)).collect());
        assert!(solution.is_optimal());
    }

    #[test]
    fn the_search_meets_the_bound() {
        // MiniMalloc's example has height 12.
        let text = "0,3,4;3,9,4;0,9,4;9,21,4;0,21,4";
        let rows = text
            .split(';')
            .map(|line| {
                let mut numbers = line.split(',').map(|n| n.parse().expect("a number"));
                let mut next = || numbers.next().expect("three numbers");
                row(next(), next(), next())
            })
            .collect();
        assert!(check(rows).is_optimal());
        // Found by chance: greedy orders need one unit more.
        let mut seed = 99u64;
        let mut chance = |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 16) % n
        };
        let mut optimal = 0;
        for _ in 0..50 {
            let rows = (0..12)
                .map(|_| {
                    let start = chance(12);
                    row(start, start + 1 + chance(8), 1 + chance(6))
                })
                .collect();
            optimal += u32::from(check(rows).is_optimal());
        }
        assert!(optimal >= 45, "{optimal} of 50");
    }

    #[test]
    fn gaps_and_fixed_offsets() {
        let holed = Row { gaps: vec![(2, 6)], ..row(0, 8, 10) };
        assert_eq!(check(vec![holed, row(2, 6, 10)]).height, 10);
        let fixed = Row { offset: Some(16), ..row(0, 4, 8) };
        let solution = check(vec![row(0, 4, 16), fixed]);
        assert_eq!(solution.offsets, vec![0, 16]);
    }

    #[test]
    fn random_problems_are_packed_within_a_quarter_of_the_bound() {
        let mut seed = 7u64;
        let mut chance = |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 16) % n
        };
        for n in [3, 20, 60] {
            let rows = (0..n)
                .map(|_| {
                    let start = chance(100);
                    Row {
                        alignment: 64,
                        ..row(start, start + 1 + chance(30), 64 * (1 + chance(9)))
                    }
                })
                .collect();
            let solution = check(rows);
            assert!(solution.height * 4 <= solution.lower_bound * 5, "{n} rows");
        }
    }
}
