//! Benchmarks of the packer, on one thread:
//!
//! ```text
//! cargo run --release -p jaxrs-plan --example pack_bench -- files  CAPACITY|least SECONDS FILE...
//! cargo run --release -p jaxrs-plan --example pack_bench -- ablate CAPACITY|least SECONDS FILE...
//! cargo run --release -p jaxrs-plan --example pack_bench -- shapes [COUNT]
//! cargo run --release -p jaxrs-plan --example pack_bench -- large
//! ```
//!
//! `files` packs problems in minimalloc's CSV form (columns `id,lower,upper,size`), `ablate` does so
//! with each idea switched off in turn, `shapes` packs generated problems (see `shapes.rs`) and
//! compares with XLA's orders, `large` packs one of each shape with 30,000 rows.

mod shapes;
mod xla;

use jaxrs_plan::pack::{Effort, Ideas, Options, Problem, Row, Solution, check};
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["files", capacity, seconds, ref files @ ..] => {
            let options = options(capacity, seconds);
            let sum: f64 = files.iter().map(|file| report(file, &options).1).sum();
            println!("{sum:.3} s in all");
        }
        ["ablate", capacity, seconds, ref files @ ..] => ablate(&options(capacity, seconds), files),
        ["shapes"] => generated(1000),
        ["shapes", count] => generated(count.parse().expect("a count")),
        ["large"] => large(),
        _ => eprintln!("files|ablate CAPACITY|least SECONDS FILE...; shapes [COUNT]; large"),
    }
}

fn options(capacity: &str, seconds: &str) -> Options {
    Options {
        effort: Effort { comparisons: u64::MAX },
        time_limit: Some(Duration::from_secs_f64(seconds.parse().expect("seconds"))),
        capacity: (capacity != "least").then(|| capacity.parse().expect("a capacity or `least`")),
        ..Options::default()
    }
}

fn read(file: &str) -> Problem {
    let text = std::fs::read_to_string(file).expect(file);
    let rows = text.lines().skip(1).map(|line| {
        let numbers: Vec<u64> = line.split(',').map(|f| f.parse().expect("a number")).collect();
        Row { lower: numbers[1], upper: numbers[2], size: numbers[3], ..Row::default() }
    });
    Problem { rows: rows.collect() }
}

fn timed(problem: &Problem, options: &Options) -> (Solution, f64) {
    let begin = Instant::now();
    let solution = problem.solve_with(options);
    let seconds = begin.elapsed().as_secs_f64();
    assert_eq!(check(problem, &solution.offsets), Ok(solution.height));
    (solution, seconds)
}

fn report(file: &str, options: &Options) -> (Solution, f64) {
    let (solution, seconds) = timed(&read(file), options);
    let Solution { height, lower_bound, proved, solver, .. } = &solution;
    println!(
        "{file}: height {height}, bound {lower_bound}, proved {proved}, {seconds:.3} s ({solver})"
    );
    (solution, seconds)
}

/// Switches one idea off.
type Off = (&'static str, fn(&mut Ideas));

const OFF: [Off; 14] = [
    ("everything on", |_| {}),
    ("no orders but size", |i| i.orders = false),
    ("no sweeps", |i| i.sweeps = false),
    ("no search", |i| i.search = false),
    ("no restarts", |i| i.restarts = false),
    ("no sections", |i| i.sections = false),
    ("with late rows", |i| i.late = true),
    ("no dominance", |i| i.dominance = false),
    ("no hatless", |i| i.hatless = false),
    ("no skips", |i| i.skips = false),
    ("no parts", |i| i.parts = false),
    ("no nogoods", |i| i.nogoods = false),
    ("no local search", |i| i.local = false),
    ("no windows", |i| i.windows = false),
];

fn ablate(options: &Options, files: &[&str]) {
    for (name, off) in OFF {
        let mut options = *options;
        off(&mut options.ideas);
        let results: Vec<(Solution, f64)> =
            files.iter().map(|file| timed(&read(file), &options)).collect();
        let done = results.iter().filter(|(s, _)| match options.capacity {
            Some(capacity) => s.height <= capacity,
            None => s.is_optimal(),
        });
        let heights: u64 = results.iter().map(|r| r.0.height).sum();
        let seconds: f64 = results.iter().map(|r| r.1).sum();
        println!("{name:20} {} solved, heights {heights}, {seconds:.3} s", done.count());
    }
}

fn generated(count: u64) {
    for (name, shape) in shapes::SHAPES {
        let (mut bound, mut optimal, mut xla_bound, mut worse) = (0, 0, 0, 0);
        let (mut rows, mut slowest, mut sum, mut over) = (Vec::new(), 0f64, 0.0, 1f64);
        for seed in 0..count {
            let problem = shapes::problem(shape, seed);
            let options =
                Options { effort: Effort { comparisons: 30_000_000 }, ..Options::default() };
            let (solution, seconds) = timed(&problem, &options);
            let xla = xla::height(&problem);
            bound += u64::from(solution.height == solution.lower_bound);
            optimal += u64::from(solution.is_optimal());
            xla_bound += u64::from(xla == solution.lower_bound);
            worse += u64::from(solution.height > xla);
            over = over.max(solution.height as f64 / solution.proved as f64);
            rows.push(problem.rows.len());
            slowest = slowest.max(seconds);
            sum += seconds;
        }
        rows.sort_unstable();
        println!(
            "{name:12} {count} problems, median {} rows: {bound} at the bound, {optimal} proved \
             optimal, at most {over:.4} of the bound; {sum:.1} s, at most {slowest:.2} s; XLA's \
             orders: {xla_bound} at the bound, {worse} lower than ours",
            rows[rows.len() / 2]
        );
    }
}

fn large() {
    for (name, shape) in shapes::SHAPES {
        let problem = shape(&mut shapes::Chance::new(1), 30_000);
        let options = Options {
            effort: Effort { comparisons: u64::MAX },
            time_limit: Some(Duration::from_secs(4)),
            ..Options::default()
        };
        let (solution, seconds) = timed(&problem, &options);
        let Solution { height, lower_bound, solver, .. } = solution;
        let rows = problem.rows.len();
        println!(
            "{name:12} {rows} rows: height {height}, bound {lower_bound} ({:.4}), {seconds:.2} s ({solver})",
            height as f64 / lower_bound as f64
        );
    }
}
