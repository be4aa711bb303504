//! What is tried, in which order and for how long.
//!
//! Orders and sweeps first; if the goal is not met, rounds of the depth-first search, of local search
//! and of windows. They share what they know: the lowest packing so far bounds the search's capacities
//! and is where local search and windows go on, and refuted states (`nogoods`) stay refuted for later
//! rounds, other orders and lower capacities. The search looks for the bound first, then for heights
//! between it and the best packing, by halves. A packing at the bound, or a search that refutes all
//! that is lower, ends it; else the effort or the clock does, and the best packing so far is the
//! answer.

use super::budget::Budget;
use super::greedy::Fit;
use super::local::Climb;
use super::nogoods::Nogoods;
use super::overlaps::{MAX_BITS, Overlaps};
use super::search::{Outcome, search};
use super::sections::{Flat, unit};
use super::windows::Windows;
use super::{Measure, Options, Problem, Solution};
use std::time::Instant;

/// More rows than this are not searched depth first: its depth is theirs.
const MAX_SEARCH: usize = 1500;

/// MiniMalloc's orders.
const ORDERS: [[Measure; 3]; 3] = [
    [Measure::Load, Measure::Width, Measure::Area],
    [Measure::Load, Measure::Area, Measure::Width],
    [Measure::Width, Measure::Area, Measure::Load],
];

impl Problem {
    /// Places every row in as little height as the options allow.
    pub fn solve_with(&self, options: &Options) -> Solution {
        let bound = self.lower_bound();
        let mut portfolio = Portfolio {
            problem: self,
            options,
            goal: options.capacity.unwrap_or(bound).max(bound),
            best: Solution {
                lower_bound: bound,
                proved: bound,
                height: u64::MAX,
                ..Solution::default()
            },
            budget: Budget {
                work: options.effort.comparisons.min(i64::MAX as u64) as i64,
                deadline: options.time_limit.map(|limit| Instant::now() + limit),
                nodes: 0,
            },
        };
        let given = portfolio.budget.work;
        portfolio.run();
        let comparisons = (given - portfolio.budget.work) as u64;
        Solution { comparisons, ..portfolio.best }
    }
}

struct Portfolio<'a> {
    problem: &'a Problem,
    options: &'a Options,
    /// Anything as low as this ends it.
    goal: u64,
    best: Solution,
    budget: Budget,
}

impl Portfolio<'_> {
    fn run(&mut self) {
        let overlaps = Overlaps::new(&self.problem.rows);
        let start = self.orders(&overlaps);
        self.sweeps(start.is_none());
        if self.done() {
            return;
        }
        let rows = self.problem.rows.len();
        let mut searches = (self.options.ideas.search && rows <= MAX_SEARCH)
            .then(|| Searches::new(self.problem, self.goal, self.budget.work));
        let mut climb = start
            .filter(|_| self.options.ideas.local && rows <= MAX_BITS)
            .map(|(order, fit)| Climb::new(order, fit));
        let mut windows = (self.options.ideas.windows && self.options.ideas.search)
            .then(|| Windows::new(self.best.offsets.clone()));
        let mut step = self.best.height - self.goal;
        let unit = unit(self.problem);
        let mut round = 0;
        while !self.done() && (searches.is_some() || climb.is_some() || windows.is_some()) {
            let (turn, seed) = turn(round);
            let share = (turn * 2 * rows * rows) as i64;
            round += 1;
            if let Some(searches) = &mut searches {
                searches.seed = seed;
                self.search(searches, searches.low, share);
            }
            if let Some(climb) = climb.as_mut().filter(|_| !self.done()) {
                self.climb_round(climb, &overlaps, 3 * share);
            }
            // Small efforts go to the goal alone.
            let early = round < 3 && rows <= MAX_SEARCH;
            if let Some(searches) = searches.as_mut().filter(|_| !early) {
                searches.seed = round as u64;
                self.search_between(searches, (16 * luby(round) * 2 * rows * rows) as i64);
            }
            if let Some(windows) = windows.as_mut().filter(|_| !early && !self.done()) {
                step = self.windows_round(windows, step.max(unit), 3 * share);
            }
        }
    }

    /// Whether the goal is met or refuted, the best is proved, or nothing may be spent any more.
    fn done(&self) -> bool {
        let none = self.options.capacity.is_some() && self.best.proved > self.goal;
        self.best.height <= self.goal || none || self.best.is_optimal() || !self.budget.is_left()
    }

    fn keep(&mut self, offsets: Vec<u64>, solver: &'static str) -> bool {
        let height = self.problem.height(&offsets);
        let lower = height < self.best.height;
        if lower {
            self.best = Solution { offsets, height, solver, ..self.best };
        }
        lower
    }

    /// Places rows in every order; the best of these, if there is one.
    fn orders(&mut self, overlaps: &Overlaps<'_>) -> Option<(Vec<u32>, Fit)> {
        let mut start = None;
        for (solver, order) in self.problem.orders() {
            for fit in [Fit::Best, Fit::First] {
                // What is not lower than the best is of no use.
                let ceiling = self.best.height - 1;
                let placed = self.problem.place(overlaps, &order, fit, ceiling, &mut self.budget);
                let Some(offsets) = placed else { continue };
                if self.keep(offsets, solver) {
                    start = Some((order.clone(), fit));
                }
                if self.best.height <= self.goal {
                    return start;
                }
            }
            if !self.options.ideas.orders {
                break;
            }
        }
        start
    }

    fn sweeps(&mut self, needed: bool) {
        if !(needed || self.options.ideas.sweeps) {
            return;
        }
        for backwards in [false, true] {
            for fit in [Fit::Best, Fit::First] {
                let any = self.best.height < u64::MAX;
                if self.best.height > self.goal && !(any && self.budget.is_late()) {
                    let offsets = self.problem.sweep(fit, backwards);
                    self.keep(offsets, "sweep");
                }
            }
        }
    }

    /// Searches for what lies between the bound and the best, by halves.
    fn search_between(&mut self, searches: &mut Searches, share: i64) {
        if self.options.capacity.is_some() {
            return;
        }
        let unit = searches.flat.unit;
        let mut low = searches.low;
        for _ in 0..4 {
            if self.done() {
                return;
            }
            let high = (self.best.height / unit) as i64;
            let middle = (low + high) / 2;
            if middle <= low {
                return;
            }
            match self.search(searches, middle, share) {
                Outcome::Found => low = searches.low,
                Outcome::Refuted | Outcome::Stopped => low = middle,
            }
        }
    }

    fn search(&mut self, searches: &mut Searches, capacity: i64, share: i64) -> Outcome {
        let restarts = self.options.ideas.restarts;
        for order in if restarts { &ORDERS[..] } else { &ORDERS[..1] } {
            let work = share.min(self.budget.work);
            let mut budget = Budget { work, nodes: 0, ..self.budget };
            let flat = &searches.flat;
            let (outcome, offsets) = search(
                flat,
                &self.options.ideas,
                (order, searches.seed),
                capacity,
                &mut searches.nogoods,
                &mut budget,
            );
            self.budget.work -= work - budget.work;
            self.budget.nodes += budget.nodes;
            match outcome {
                Outcome::Found => {
                    self.keep(self.problem.whole(flat, &offsets), "search");
                    return outcome;
                }
                Outcome::Refuted => {
                    searches.low = searches.low.max(capacity + 1);
                    self.best.proved = self.best.proved.max(searches.low as u64 * flat.unit);
                    self.best.proved = self.best.proved.min(self.best.height);
                    return outcome;
                }
                Outcome::Stopped if !self.budget.is_left() => return outcome,
                Outcome::Stopped => {}
            }
        }
        Outcome::Stopped
    }

    /// Repairs a packing until it is lower by a step; the next step.
    fn windows_round(&mut self, windows: &mut Windows, step: u64, share: i64) -> u64 {
        let work = share.min(self.budget.work);
        let mut budget = Budget { work, ..self.budget };
        let target = self.best.height.saturating_sub(step).max(self.goal);
        let reached = windows.run(self.problem, &self.options.ideas, target, &mut budget);
        self.budget.work -= work - budget.work;
        if reached && self.problem.height(&windows.offsets) < self.best.height {
            self.keep(windows.offsets.clone(), "windows");
        }
        windows.offsets.clone_from(&self.best.offsets);
        if reached { 2 * step } else { (step / 2).max(1) }
    }

    fn climb_round(&mut self, climb: &mut Climb, overlaps: &Overlaps<'_>, share: i64) {
        if climb.height > self.best.height {
            climb.restart(&self.best);
        }
        let work = share.min(self.budget.work);
        let mut budget = Budget { work, ..self.budget };
        climb.run(self.problem, overlaps, self.goal, &mut budget);
        self.budget.work -= work - budget.work;
        if climb.height < self.best.height {
            self.keep(climb.offsets().to_vec(), "local search");
        }
    }
}

/// How long a round is, and the seed of its noise: at first each is twice as long as the last and
/// without noise, then come many short ones and few long ones, each with other noise.
fn turn(round: usize) -> (usize, u64) {
    match round.checked_sub(STEADY) {
        None => (1 << round, 0),
        Some(noisy) => (16 * luby(noisy + 1), noisy as u64 + 1),
    }
}

/// Rounds without noise.
const STEADY: usize = 9;

/// The sequence of Luby, Sinclair and Zuckerman (1993) for restarts: 1 1 2 1 1 2 4 and so on.
fn luby(round: usize) -> usize {
    let length = (round + 1).next_power_of_two() - 1;
    if round == length { length / 2 + 1 } else { luby(round - length / 2) }
}

/// What the searches share.
struct Searches {
    flat: Flat,
    nogoods: Nogoods,
    /// No packing is lower than this, in units.
    low: i64,
    /// Of noise in the orders.
    seed: u64,
}

impl Searches {
    fn new(problem: &Problem, goal: u64, work: i64) -> Searches {
        let flat = Flat::new(problem);
        // A state takes some comparisons for each row.
        let states = work.max(0) as u64 / (flat.len() as u64 + 1) + 1;
        let bits = ((2 * flat.len() + 1).ilog2() + 6).min(states.ilog2() + 1);
        Searches { nogoods: Nogoods::new(bits), low: (goal / flat.unit) as i64, flat, seed: 0 }
    }
}

impl Problem {
    /// Offsets of all rows from those of the flat ones.
    fn whole(&self, flat: &Flat, offsets: &[i64]) -> Vec<u64> {
        let mut whole: Vec<u64> = self.rows.iter().map(|r| r.offset.unwrap_or(0)).collect();
        for (&row, &offset) in flat.row.iter().zip(offsets) {
            whole[row as usize] = offset as u64 * flat.unit;
        }
        whole
    }
}
