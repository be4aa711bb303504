//! The arguments that every command on a program shares, and compiling it.

use crate::Failure;
use jaxrs::compile::{self, Compiled, Options};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A program and how to compile it. Its arguments are no group: each command's are one, of the same
/// name.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// StableHLO text; `-` reads standard input.
    pub(crate) program: PathBuf,
    /// Arguments to donate beside those the program marks, by position: `0,2`.
    #[arg(long, value_delimiter = ',')]
    pub(crate) donate: Vec<u32>,
    /// Keep the program's pairs of donated argument and result, or fail.
    #[arg(long)]
    pub(crate) strict_aliases: bool,
    /// Threads, from 1 to 1024; all cores by default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Fail unless the peak fits: bytes, or a number with KiB, MiB, GiB.
    #[arg(long, value_parser = parse_bytes)]
    pub(crate) memory_limit: Option<u64>,
}

impl Args {
    /// The program's name in messages.
    pub(crate) fn shown(&self) -> String {
        shown(&self.program)
    }

    /// The program's text.
    pub(crate) fn source(&self) -> Result<Vec<u8>, Failure> {
        read(&self.program)
    }

    /// Options for compiling.
    pub(crate) fn options(&self) -> Options {
        Options {
            donate: self.donate.clone(),
            strict_aliases: self.strict_aliases,
            threads: self.threads.unwrap_or_else(compile::default_threads),
            memory_limit: self.memory_limit,
            ..Options::from_environment()
        }
    }

    /// The program, planned and compiled to native code.
    pub(crate) fn compile(&self) -> Result<Compiled, Failure> {
        compile::compile(&self.source()?, &self.shown(), &self.options()).map_err(failure)
    }
}

/// An error of compiling, as the exit status that fits it.
pub(crate) fn failure(error: compile::Error) -> Failure {
    match error {
        compile::Error::Options(message) => Failure::Usage(message),
        other => Failure::program(other),
    }
}

/// A path as messages name it.
pub(crate) fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "<stdin>".into() } else { path.display().to_string() }
}

/// A file's bytes, or standard input's for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let outcome = if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|content| bytes = content)
    };
    outcome.map_err(|error| Failure::program(format!("{}: {error}", shown(path))))?;
    Ok(bytes)
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1u64 << 30,
        other => return Err(format!("unknown unit {other}; use KiB, MiB or GiB")),
    };
    digits
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("\"{text}\" is not a number of bytes; write 65536 or 64KiB"))
}
