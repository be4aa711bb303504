//! `jaxrs-compile run`.

use crate::{Failure, Outcome, program};
use jaxrs::compare::{Tolerance, difference};
use jaxrs::tensor;
use std::path::PathBuf;

/// Inputs, outputs and the comparison.
#[derive(clap::Args)]
pub struct Args {
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
    #[arg(long, default_value_t = 1e-5)]
    rtol: f64,
    /// Absolute tolerance.
    #[arg(long, default_value_t = 1e-6)]
    atol: f64,
    /// Print the memory plan first.
    #[arg(long)]
    show_plan: bool,
}

/// Runs the program once.
pub fn run(args: &Args) -> Outcome {
    let compiled = args.program.compile()?;
    if args.show_plan {
        crate::write_output(None, &compiled.report(&args.program.shown()).text(false))?;
    }
    let inputs = match &args.inputs {
        Some(path) => tensor::load(path, compiled.parameter_types()).map_err(Failure::program)?,
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
        Some(path) => Some(tensor::load(path, compiled.result_types()).map_err(Failure::program)?),
        None => None,
    };
    let results = compiled.run(&inputs).map_err(Failure::program)?;
    if let Some(path) = &args.outputs {
        tensor::save(path, &results).map_err(Failure::program)?;
    }
    let Some(expected) = expected else {
        if args.outputs.is_none() {
            let types: Vec<String> = results.iter().map(|r| r.ty.to_string()).collect();
            println!("ran: {} result(s): {}", results.len(), types.join(", "));
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
    println!(
        "all {} result(s) as expected (rtol {}, atol {})",
        results.len(),
        args.rtol,
        args.atol
    );
    Ok(())
}
