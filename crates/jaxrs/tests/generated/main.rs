//! Random programs over all ops: interpreter and compiled code give the same bits, fused or not, on
//! one thread or two (which share out even the least work), on poisoned memory, and the plan and the
//! text hold.
//!
//! `JAXRS_GENERATED=10000` makes so many programs; `JAXRS_GENERATED_FROM=5000` begins with that
//! seed (a failure names its seed); `JAXRS_GENERATED_TRACE=1` prints each seed before its program
//! runs, and the program where there is one only. A failing program is shrunk, printed, and written beside its inputs to a temporary folder.
//!
//! Programs that failed once stay in `found/`.

mod build;
mod check;
mod control;
mod indexed;
mod normal;
mod program;
mod random;
mod reductions;
mod shapes;
mod shrink;

use jaxrs::tensor::{self, Tensor};
use jaxrs_ir::{TensorType, text};
use program::Case;
use std::path::Path;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn generated_programs_agree() {
    let count = number("JAXRS_GENERATED").unwrap_or(if cfg!(debug_assertions) { 30 } else { 220 });
    let first = number("JAXRS_GENERATED_FROM").unwrap_or(0);
    let trace = number("JAXRS_GENERATED_TRACE").is_some();
    let mut reports = Vec::new();
    check::quietly(|| {
        for seed in first..first + count {
            if trace {
                eprintln!("seed {seed}");
            }
            let case = program::generate(seed);
            if trace && count == 1 {
                eprintln!("{}", text::print(&case.module));
            }
            if let Some(fault) = check::fault(&case) {
                reports.push(report(seed, case, &fault));
                eprintln!("{}", reports[reports.len() - 1]);
            }
            if reports.len() >= 10 {
                break;
            }
        }
    });
    assert!(reports.is_empty(), "{} programs fail:\n{}", reports.len(), reports.join("\n"));
}

/// What a fault is about, so that shrinking keeps to it.
fn kind(fault: &str) -> String {
    let kinds = [
        "panic",
        "differ",
        "plan:",
        "parse",
        "printed again",
        "read back",
        "verify",
        "interpreter",
    ];
    let kind = kinds.iter().find(|kind| fault.contains(**kind)).copied().unwrap_or("compile");
    let place = fault.split('\n').next().filter(|_| kind == "panic").unwrap_or_default();
    format!("{kind} {place}")
}

fn report(seed: u64, case: Case, fault: &str) -> String {
    let wanted = kind(fault);
    let fails = |case: &Case| check::fault(case).is_some_and(|fault| kind(&fault) == wanted);
    let small = shrink::shrink(case, &fails);
    let now = check::fault(&small).unwrap_or_default();
    let program = text::print(&small.module);
    let folder = std::env::temp_dir();
    let file = folder.join(format!("jaxrs-generated-{seed}.mlir"));
    let inputs: Vec<Tensor> = small
        .inputs
        .iter()
        .map(|literal| Tensor { ty: literal.ty().clone(), bytes: literal.to_bytes() })
        .collect();
    let saved = tensor::save(&file.with_extension("safetensors"), &inputs).is_ok();
    let written = std::fs::write(&file, &program).is_ok() && saved;
    let place = if written { format!("written to {}", file.display()) } else { String::new() };
    format!("seed {seed}: {fault}\nsmaller ({place}): {now}\n{program}")
}

#[test]
fn programs_that_failed_once_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated/found");
    let mut faults = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let source = std::fs::read_to_string(&path).expect("a text");
        let module = text::parse(&source, &path.display().to_string()).expect("a program");
        let main = module.entry().expect("an entry");
        let types: Vec<TensorType> =
            main.parameters().iter().map(|&v| main.ty(v).clone()).collect();
        let case =
            Case { module: module.clone(), inputs: shrink::inputs(&types), protected: [].into() };
        count += 1;
        if let Some(fault) = check::quietly(|| check::fault(&case)) {
            faults.push(format!("{}: {fault}", path.display()));
        }
    }
    assert!(count > 0, "there are no programs in {}", folder.display());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
