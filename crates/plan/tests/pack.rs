//! The packer: what it says is least is least, whatever idea is off; generated shapes meet the bound.

#[path = "../examples/pack_bench/shapes.rs"]
mod shapes;
#[path = "../examples/pack_bench/xla.rs"]
mod xla;

use jaxrs_plan::pack::{Effort, Ideas, Options, Problem, Row, Solution, check};
use shapes::Chance;

fn solve(problem: &Problem, options: &Options) -> Solution {
    let solution = problem.solve_with(options);
    assert_eq!(check(problem, &solution.offsets), Ok(solution.height), "{problem:?}");
    assert!(solution.proved >= solution.lower_bound && solution.height >= solution.proved);
    solution
}

/// The least height: the best order of rows that each go as low as those before allow.
fn least(problem: &Problem) -> u64 {
    fn place(problem: &Problem, offsets: &mut Vec<Option<u64>>, best: &mut u64) {
        let rows = &problem.rows;
        let standing = |offsets: &[Option<u64>], i: usize| offsets[i].or(rows[i].offset);
        if offsets.iter().all(Option::is_some) {
            let ends = rows.iter().zip(offsets.iter()).map(|(r, o)| o.unwrap_or(0) + r.size);
            *best = (*best).min(ends.max().unwrap_or(0));
            return;
        }
        for i in 0..rows.len() {
            if offsets[i].is_some() {
                continue;
            }
            let step = rows[i].alignment.max(1) as usize;
            let free = |at: u64| {
                rows.iter().enumerate().all(|(j, other)| match standing(offsets, j) {
                    Some(o) if i != j && rows[i].overlaps(other) => {
                        at + rows[i].size <= o || o + other.size <= at
                    }
                    _ => true,
                })
            };
            let at = rows[i].offset.or_else(|| (0u64..200).step_by(step).find(|&at| free(at)));
            offsets[i] = at;
            place(problem, offsets, best);
            offsets[i] = None;
        }
    }
    let mut best = u64::MAX;
    place(problem, &mut vec![None; problem.rows.len()], &mut best);
    best
}

#[test]
fn optimal_is_least() {
    let off: [fn(&mut Ideas); 9] = [
        |_| {},
        |i| i.late = true,
        |i| i.sections = false,
        |i| i.dominance = false,
        |i| i.hatless = false,
        |i| i.skips = false,
        |i| (i.skips, i.hatless) = (false, false),
        |i| i.parts = false,
        |i| i.nogoods = false,
    ];
    let (mut proved, mut above) = (0, 0);
    for seed in 0..150u64 {
        let mut chance = Chance::new(seed);
        let mut rows: Vec<Row> = (0..6)
            .map(|_| {
                let lower = chance.below(8);
                let upper = lower + 2 + chance.below(6);
                let gapped = seed % 3 == 1 && upper - lower > 3 && chance.below(2) == 0;
                Row {
                    lower,
                    upper,
                    size: 1 + chance.below(7),
                    alignment: if seed % 4 == 2 { 1 + chance.below(3) } else { 1 },
                    gaps: if gapped { vec![(lower + 1, upper - 1)] } else { Vec::new() },
                    offset: None,
                }
            })
            .collect();
        if seed % 5 == 3 {
            rows[0].alignment = 1;
            rows[0].offset = Some(chance.below(9));
        }
        let problem = Problem { rows };
        let least = least(&problem);
        for (which, off) in off.iter().enumerate() {
            let mut options =
                Options { effort: Effort { comparisons: 400_000 }, ..Options::default() };
            // Only the search is to find it.
            options.ideas.orders = false;
            options.ideas.sweeps = false;
            options.ideas.local = false;
            options.ideas.windows = seed % 2 == 0;
            off(&mut options.ideas);
            let solution = solve(&problem, &options);
            assert!(solution.height >= least, "{problem:?}");
            assert!(solution.proved <= least, "seed {seed}, idea {which}: {problem:?}");
            proved += u32::from(solution.is_optimal());
            above += u32::from(solution.proved > solution.lower_bound);
            if solution.lower_bound < least {
                let options = Options { capacity: Some(least - 1), ..options };
                assert!(solve(&problem, &options).height >= least);
            }
        }
    }
    assert!(proved >= 1300 && above >= 50, "{proved} of 1350 proved, {above} above the bound");
}

#[test]
fn generated_shapes_meet_the_bound() {
    for (name, shape) in shapes::SHAPES {
        let mut met = 0;
        for seed in 0..10 {
            let problem = shapes::problem(shape, seed);
            let solution = solve(&problem, &Options::default());
            assert!(solution.height <= xla::height(&problem), "{name} {seed}");
            met += u32::from(solution.is_optimal());
        }
        let wanted = if name == "tile" { 6 } else { 9 };
        assert!(met >= wanted, "{name}: {met} of 10");
    }
}

/// Windows of time meet the bound where no order does.
#[test]
fn many_rows() {
    let (_, tile) = shapes::SHAPES[4];
    let problem = tile(&mut Chance::new(1), 2000);
    let solution = solve(&problem, &Options::default());
    assert!(solution.height <= xla::height(&problem));
    assert!(solution.height as f64 <= solution.lower_bound as f64 * 1.06, "{solution:?}");
}

#[test]
fn a_capacity_ends_the_search() {
    let row = |lower, upper, size| Row { lower, upper, size, ..Row::default() };
    // The bound is 5, yet the least is 6.
    let rows = [(0, 3, 1), (2, 5, 2), (4, 7, 1), (6, 9, 2), (1, 5, 2), (4, 8, 2), (0, 2, 2)];
    let problem = Problem { rows: rows.iter().map(|&(l, u, s)| row(l, u, s)).collect() };
    let least = least(&problem);
    for capacity in 1..9 {
        let options = Options { capacity: Some(capacity), ..Options::default() };
        let solution = solve(&problem, &options);
        assert_eq!(solution.height <= capacity, least <= capacity);
    }
}
