//! `jaxrs-compile plan`.

use crate::{Outcome, check_output, program, write_output};
use jaxrs::compile;
use std::path::PathBuf;

/// What to show of the plan.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    program: program::Args,
    /// How to show it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Say more: every value with its place and life, and what each of the planner's ideas saves.
    #[arg(long)]
    explain: bool,
    /// Where to write it; standard output by default.
    #[arg(short)]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Html,
}

/// Plans the program and shows the plan; nothing is compiled to native code.
pub(crate) fn run(args: &Args) -> Outcome {
    check_output(args.output.as_deref())?;
    let (source, shown) = (args.program.source()?, args.program.shown());
    let options = args.program.options();
    let planned = compile::plan(&source, &shown, &options).map_err(program::failure)?;
    let mut report = planned.report(&shown);
    if args.explain {
        report.ablation = compile::ablation(&source, &shown, &options).map_err(program::failure)?;
    }
    let text = match args.format {
        Format::Text => report.text(args.explain),
        Format::Json => report.json(),
        Format::Html => report.html(),
    };
    write_output(args.output.as_deref(), &text)
}
