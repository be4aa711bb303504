//! `jaxrs-compile emit`.

use crate::{Outcome, check_output, program, write_output};
use jaxrs::compile;
use std::path::PathBuf;

/// Which stage to print.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    program: program::Args,
    /// The stage.
    #[arg(long, value_enum)]
    stage: compile::Stage,
    /// Where to write it; standard output by default.
    #[arg(short)]
    output: Option<PathBuf>,
}

/// Compiles as far as the stage and prints it.
pub(crate) fn run(args: &Args) -> Outcome {
    check_output(args.output.as_deref())?;
    let (source, shown) = (args.program.source()?, args.program.shown());
    let text = compile::emit(&source, &shown, &args.program.options(), args.stage)
        .map_err(program::failure)?;
    write_output(args.output.as_deref(), &text)
}
