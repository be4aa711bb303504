//! `jaxrs-compile run`.

use crate::{Failure, Outcome, check_output, program, write_output};
use jaxrs::compare::{Tolerance, difference};
use jaxrs::tensor::{self, Role};
use std::path::PathBuf;

/// Inputs, outputs and the comparison.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    program: program::Args,
    /// The arguments, tensors named "0", "1", ... in order; none needed without arguments.
    #[arg(long)]
    inputs: Option<PathBuf>,
    /// Where to write the results, named "0", "1", ... in order.
    #[arg(long)]
    outputs: Option<PathBuf>,
    /// Expected results to compare with; a difference is exit status 1.
    #[arg(long)]
    expect: Option<PathBuf>,
    /// Tolerance relative to the expected value.
    #[arg(long, default_value = "1e-5", value_parser = tolerance)]
    rtol: f64,
    /// Absolute tolerance.
    #[arg(long, default_value = "1e-6", value_parser = tolerance)]
    atol: f64,
    /// Print the memory plan first.
    #[arg(long)]
    show_plan: bool,
}

/// Runs the program once.
pub(crate) fn run(args: &Args) -> Outcome {
    check_output(args.outputs.as_deref())?;
    let compiled = args.program.compile()?;
    if args.show_plan {
        write_output(None, &compiled.report(&args.program.shown()).text(false))?;
    }
    let inputs = match &args.inputs {
        Some(path) => tensor::load(path, compiled.parameter_types(), Role::Arguments)
            .map_err(Failure::program)?,
        None if compiled.parameter_types().is_empty() => Vec::new(),
        None => {
            return Err(Failure::Usage(format!(
                "the program takes {} argument(s): name their file with --inputs",
                compiled.parameter_types().len()
            )));
        }
    };
    // What is expected is read first, so that a fault there does not cost a run.
    let expected = match &args.expect {
        Some(path) => Some(
            tensor::load(path, compiled.result_types(), Role::Results).map_err(Failure::program)?,
        ),
        None => None,
    };
    let results = compiled.run(&inputs).map_err(Failure::program)?;
    if let Some(path) = &args.outputs {
        tensor::save(path, &results).map_err(Failure::program)?;
    }
    let Some(expected) = expected else {
        if args.outputs.is_none() {
            let types: Vec<String> = results.iter().map(|r| r.ty.to_string()).collect();
            let text = format!("ran: {} result(s): {}\n", results.len(), types.join(", "));
            write_output(None, &text)?;
        }
        return Ok(());
    };
    let tolerance = Tolerance { rtol: args.rtol, atol: args.atol, mismatch_fraction: 0.0 };
    let mut wrong = Vec::new();
    for (position, (got, expected)) in results.iter().zip(&expected).enumerate() {
        if let Some(difference) = difference(got, expected, tolerance) {
            wrong.push(format!("result {position}: {difference}"));
        }
    }
    if !wrong.is_empty() {
        return Err(Failure::Program(wrong.join("\nerror: ")));
    }
    let (count, rtol, atol) = (results.len(), args.rtol, args.atol);
    write_output(None, &format!("all {count} result(s) as expected (rtol {rtol}, atol {atol})\n"))
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 => Ok(value),
        _ => Err("a tolerance is a number from 0 on, as in 1e-5".into()),
    }
}
