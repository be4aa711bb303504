//! `jaxrs-compile`: StableHLO in; memory plan, native code and results out.
//!
//! Exit status: 0 done; 1 the program or the comparison failed; 2 the command line is wrong.
//! Results go to standard output, errors to standard error.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod emit;
mod pack;
mod plan;
mod program;
mod run;

use clap::{Parser, Subcommand};
use jaxrs::tensor;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Compile StableHLO programs ahead of time: read the memory plan, run, measure.
#[derive(Parser)]
#[command(version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show where every value lives: totals, the peak, donations, copies.
    Plan(plan::Args),
    /// Run the program on inputs; write the results or compare them with expected ones.
    Run(run::Args),
    /// Time compilation and calls.
    Bench(bench::Args),
    /// Print a stage of the compilation.
    Emit(emit::Args),
    /// Run StableHLO test programs that hold `check.*` ops.
    Check(check::Args),
    /// Pack lifetimes into the least height: a CSV in, a CSV with offsets out.
    Pack(pack::Args),
}

/// Why a command ends early.
enum Failure {
    /// The program, its inputs or the comparison; exit status 1.
    Program(String),
    /// The command line; exit status 2.
    Usage(String),
}

impl Failure {
    fn program(error: impl std::fmt::Display) -> Failure {
        Failure::Program(error.to_string())
    }
}

type Outcome = Result<(), Failure>;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Plan(args) => plan::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Emit(args) => emit::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Pack(args) => pack::run(&args),
    };
    let (message, status) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Program(message)) => (message, 1),
        Err(Failure::Usage(message)) => (message, 2),
    };
    if message.starts_with("error:") {
        eprintln!("{message}");
    } else {
        eprintln!("error: {message}");
    }
    ExitCode::from(status)
}

/// Writes to a file, whole or not at all, or to standard output (no path, or `-`).
fn write_output(path: Option<&Path>, text: &str) -> Outcome {
    if let Some(path) = path.filter(|path| path.as_os_str() != "-") {
        return tensor::write_whole(path, text.as_bytes())
            .map_err(|error| unwritable(path, &error));
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that closed the pipe has seen what it wanted.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::program(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Fails early where [`write_output`] would fail after all the work.
fn check_output(path: Option<&Path>) -> Outcome {
    match path.filter(|path| path.as_os_str() != "-") {
        Some(path) => tensor::check_writable(path).map_err(|error| unwritable(path, &error)),
        None => Ok(()),
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Program(format!("{}: cannot be written: {error}", path.display()))
}
