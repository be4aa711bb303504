//! `jaxrs-compile bench`.

use crate::{Failure, Outcome, program, write_output};
use jaxrs::compile;
use jaxrs::tensor::{self, Role};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// What to time.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    program: program::Args,
    /// The arguments, tensors named "0", "1", ... in order.
    #[arg(long)]
    inputs: Option<PathBuf>,
    /// Calls to time: at least these, at least 5, and at least 0.6 s of them.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Show the time of each stage of compilation and of each step of the program.
    #[arg(long)]
    profile: bool,
    /// How to show it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

const SECONDS: f64 = 0.6;
const MOST_RUNS: u32 = 100_000;

/// Compiles once and calls often. Donated arguments are copied afresh before each call, outside
/// the clock; results that take over no argument are fresh handles, dropped after the call.
pub(crate) fn run(args: &Args) -> Outcome {
    let (source, shown) = (args.program.source()?, args.program.shown());
    let begin = Instant::now();
    let compiled =
        compile::compile(&source, &shown, &args.program.options()).map_err(program::failure)?;
    let compile_s = begin.elapsed().as_secs_f64();
    let inputs = match &args.inputs {
        Some(path) => tensor::load(path, compiled.parameter_types(), Role::Arguments)
            .map_err(Failure::program)?,
        None if compiled.parameter_types().is_empty() => Vec::new(),
        None => return Err(Failure::Usage("name the arguments' file with --inputs".into())),
    };
    let mut caller = compiled.caller(&inputs).map_err(Failure::program)?;
    // The first call touches every page.
    caller.call().map_err(Failure::program)?;
    let (mut times, mut total) = (Vec::new(), 0.0);
    let least = args.runs.max(5);
    while (times.len() as u32) < least || (total < SECONDS && (times.len() as u32) < MOST_RUNS) {
        caller.renew_donated().map_err(Failure::program)?;
        let begin = Instant::now();
        let results = caller.call().map_err(Failure::program)?;
        let elapsed = begin.elapsed().as_secs_f64();
        drop(results);
        times.push(elapsed);
        total += elapsed;
    }
    times.sort_by(f64::total_cmp);
    let (median, least) = (times[times.len() / 2], times[0]);
    let arena = compiled.report(&shown).arena_bytes();
    if args.format == Format::Json {
        let value = json!({
            "program": shown, "threads": args.program.options().threads, "compile_s": compile_s,
            "runs": times.len(), "run_s_median": median, "run_s_min": least, "arena_bytes": arena,
        });
        return write_output(None, &format!("{value}\n"));
    }
    let mut text = format!(
        "compile {:.3} ms; {} runs: median {:.4} ms, least {:.4} ms; arena {arena} bytes\n",
        1e3 * compile_s,
        times.len(),
        1e3 * median,
        1e3 * least
    );
    if args.profile {
        let planning = compiled.stage_times().iter().filter(|(stage, _)| stage.starts_with("plan"));
        let share = planning.map(|(_, seconds)| seconds).sum::<f64>() / compile_s;
        text += &format!("  planning is {:.1} % of compiling\n", 100.0 * share);
        for (stage, seconds) in compiled.stage_times() {
            text += &format!("  {stage:<24} {:>10.3} ms\n", 1e3 * seconds);
        }
        for (step, seconds) in compiled.step_times(&inputs).map_err(Failure::program)? {
            text += &format!("  {:>10.4} ms  {step}\n", 1e3 * seconds);
        }
    }
    write_output(None, &text)
}
