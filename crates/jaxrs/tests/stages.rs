//! The text of every stage for a few programs, beside the text that was reviewed last.
//!
//! A change that is meant: `INSTA_UPDATE=always cargo test -p jaxrs --test stages`, then read the difference.

use insta::Settings;
use jaxrs::compile::{self, Options, Stage};
use std::path::Path;

/// Small programs that between them have every kind of step and a reason for every place in memory:
/// donations that cross, a rotated loop, empty tensors, contractions, and values rounded to half precision.
const PROGRAMS: [&str; 5] = ["swap", "rotate", "empty", "contractions", "half_functions"];

/// Every stage that does not depend on the machine.
const STAGES: [(&str, Stage); 5] = [
    ("1-stablehlo", Stage::Stablehlo),
    ("2-ir", Stage::Ir),
    ("3-fused", Stage::Fused),
    ("4-kernels", Stage::Kernels),
    ("5-program", Stage::Program),
];

fn check(program: &str, stage: &str, text: &str) {
    let mut settings = Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path(Path::new("snapshots").join(program));
    settings.bind(|| insta::assert_snapshot!(stage, text));
}

#[test]
fn stages_print_as_reviewed() {
    let options = Options::default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    for name in PROGRAMS {
        let source = std::fs::read(root.join(name).join("program.mlir")).expect("program.mlir");
        let file = format!("{name}.mlir");
        for (stage_name, stage) in STAGES {
            let text = compile::emit(&source, &file, &options, stage).expect("it compiles");
            check(name, stage_name, &text);
        }
        let report = compile::plan(&source, &file, &options).expect("it plans").report(name);
        check(name, "6-plan", &report.text(true));
        // A line an entry, so that a difference can be read.
        check(name, "7-plan-json", &report.json().replace("},{", "},\n{"));
    }
}
