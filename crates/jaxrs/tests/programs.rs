//! Runs exported programs and compares with JAX's results: those of `tests/programs` and `examples`,
//! and the `_small` ones of `../shared/corpus` where that folder is there.

use jaxrs::compare::{Tolerance, difference};
use jaxrs::compile::{Options, compile};
use jaxrs::tensor::{self, Role};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folders with a program, its inputs and its expected results.
fn folders(parent: &Path, suffix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("outputs.safetensors").exists())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    found.sort();
    found
}

/// What differs from the expected results, or why the program does not run.
fn fault(folder: &Path, options: &Options) -> Option<String> {
    let meta: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("meta.json")).expect("meta.json"))
            .expect("meta.json is JSON");
    let number = |key: &str| meta[key].as_f64().expect("a number in meta.json");
    let tolerance = Tolerance {
        rtol: number("rtol"),
        atol: number("atol"),
        mismatch_fraction: number("max_mismatch_fraction"),
    };
    let donated = meta["donated"].as_array().expect("a list in meta.json");
    let options = Options {
        donate: donated.iter().map(|i| i.as_u64().expect("an index") as u32).collect(),
        ..options.clone()
    };
    let program = folder.join("program.mlir");
    let source = std::fs::read(&program).expect("program.mlir");
    let compiled = match compile(&source, &program.to_string_lossy(), &options) {
        Ok(compiled) => compiled,
        Err(error) => return Some(error.to_string()),
    };
    let load =
        |name: &str, types, role| tensor::load(&folder.join(name), types, role).expect("tensors");
    let inputs = load("inputs.safetensors", compiled.parameter_types(), Role::Arguments);
    let expected = load("outputs.safetensors", compiled.result_types(), Role::Results);
    let results = match compiled.run(&inputs) {
        Ok(results) => results,
        Err(error) => return Some(error.to_string()),
    };
    results.iter().zip(&expected).enumerate().find_map(|(position, (got, expected))| {
        difference(got, expected, tolerance).map(|d| format!("result {position}: {d}"))
    })
}

fn check_all(folders: &[PathBuf], options: &Options) {
    let faults: Vec<String> = folders
        .iter()
        .filter_map(|folder| fault(folder, options).map(|f| format!("{}: {f}", folder.display())))
        .collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), folders.len(), faults.join("\n"));
}

fn own() -> Vec<PathBuf> {
    let mut all = folders(&root().join("tests/programs"), "");
    all.extend(folders(&root().join("examples"), ""));
    assert!(all.len() >= 24, "the programs of the repository are missing");
    all
}

fn corpus() -> Vec<PathBuf> {
    folders(&root().join("../shared/corpus"), "_small")
}

#[test]
fn own_programs_match() {
    check_all(&own(), &Options::default());
}

#[test]
fn own_programs_match_step_by_step_on_poisoned_memory() {
    check_all(&own(), &Options { check: true, poison: true, ..Options::default() });
}

#[test]
fn own_programs_match_unfused_on_two_threads() {
    check_all(&own(), &Options { fuse: false, threads: 2, ..Options::default() });
}

#[test]
fn corpus_matches() {
    check_all(&corpus(), &Options::default());
}

#[test]
fn corpus_matches_step_by_step_on_poisoned_memory() {
    check_all(&corpus(), &Options { check: true, poison: true, ..Options::default() });
}
