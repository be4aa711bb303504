//! `jaxrs-compile check`.

use crate::{Failure, Outcome, program, write_output};
use jaxrs::check::{self, Verdict};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Which test programs to run, and how.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files, or folders that are searched for `.mlir` files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Interpret instead of compiling.
    #[arg(long)]
    interpret: bool,
    /// How to show it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Runs every program; exit status 1 if one fails.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut files = Vec::new();
    for path in &args.paths {
        collect(path, &mut files)?;
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        return Err(Failure::Usage("there are no .mlir files in the folders named".into()));
    }
    let mut counts = [0usize; 3];
    let mut rows = Vec::new();
    let mut text = String::new();
    for file in &files {
        let shown = program::shown(file);
        let verdicts = match program::read(file) {
            Ok(source) => check::run(&source, &shown, args.interpret),
            // The other files still run.
            Err(Failure::Program(message) | Failure::Usage(message)) => {
                let reason = message.strip_prefix(&format!("{shown}: ")).unwrap_or(&message);
                vec![(shown.clone(), Verdict::Failed(reason.to_string()))]
            }
        };
        for (place, verdict) in verdicts {
            let (class, status, detail) = match verdict {
                Verdict::Passed => (0, "passed", String::new()),
                Verdict::Failed(detail) => (1, "failed", detail),
                Verdict::Unsupported(detail) => (2, "unsupported", detail),
            };
            counts[class] += 1;
            if class > 0 {
                text += &format!("{status}: {place}: {detail}\n");
            }
            rows.push(json!({"path": place, "status": status, "detail": detail}));
        }
    }
    let [passed, failed, unsupported] = counts;
    if args.format == Format::Json {
        text = json!({
            "passed": passed, "failed": failed, "unsupported": unsupported, "programs": rows,
        })
        .to_string();
        text.push('\n');
    } else {
        text += &format!("{passed} passed, {failed} failed, {unsupported} unsupported\n");
    }
    write_output(None, &text)?;
    if failed > 0 {
        return Err(Failure::Program(format!("{failed} program(s) failed")));
    }
    Ok(())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    let fault = |error| Failure::program(format!("{}: {error}", path.display()));
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    for entry in std::fs::read_dir(path).map_err(fault)? {
        let entry = entry.map_err(fault)?.path();
        if entry.is_dir() || entry.extension().is_some_and(|e| e == "mlir") {
            collect(&entry, files)?;
        }
    }
    Ok(())
}
