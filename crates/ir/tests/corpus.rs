//! The interpreter against the expected results of the program corpus, where the corpus lies
//! beside the workspace (`../shared/corpus`), or of another one in `JAXRS_CORPUS_DIR`.
//! `JAXRS_CORPUS=name` picks programs by a part of their name. Every program that fails is listed
//! with its largest fault.

use jaxrs_ir::{DType, Literal, Module, TensorType, interpret, text, verify};
use safetensors::SafeTensors;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[test]
fn small_programs_give_the_expected_results() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let root = std::env::var_os("JAXRS_CORPUS_DIR").map_or(beside, PathBuf::from);
    let wanted = std::env::var("JAXRS_CORPUS").unwrap_or_default();
    let mut faults = Vec::new();
    for program in programs(&root, &wanted) {
        let start = Instant::now();
        let result = check(&program);
        let name = program.file_name().expect("a folder").to_string_lossy().into_owned();
        println!("{:7.3} s {name}", start.elapsed().as_secs_f64());
        if let Err(fault) = result {
            faults.push(format!("{name}: {fault}"));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Folders of small programs; none where there is no corpus.
fn programs(root: &Path, wanted: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut programs: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    programs.retain(|path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.ends_with("_small") && name.contains(wanted)
    });
    programs.sort();
    programs
}

struct Tolerance {
    relative: f64,
    absolute: f64,
    mismatches: f64,
}

fn check(program: &Path) -> Result<(), String> {
    let read =
        |name: &str| std::fs::read(program.join(name)).map_err(|error| format!("{name}: {error}"));
    let source = String::from_utf8(read("program.mlir")?).map_err(|e| e.to_string())?;
    let meta: serde_json::Value =
        serde_json::from_slice(&read("meta.json")?).map_err(|e| e.to_string())?;
    let number = |key: &str| meta[key].as_f64().unwrap_or(0.0);
    let tolerance = Tolerance {
        relative: number("rtol"),
        absolute: number("atol"),
        mismatches: number("max_mismatch_fraction"),
    };
    let module = text::parse(&source, "program.mlir").map_err(|e| e.to_string())?;
    verify::verify(&module, "program.mlir").map_err(|e| e.to_string())?;
    let results = run(&module, &read("inputs.safetensors")?)?;
    let bytes = read("outputs.safetensors")?;
    let expected = SafeTensors::deserialize(&bytes).map_err(|e| e.to_string())?;
    if expected.len() != results.len() {
        return Err(format!("{} results, expected {}", results.len(), expected.len()));
    }
    for (n, result) in results.iter().enumerate() {
        let expected = tensor(&expected, n, result.ty())?;
        compare(result, &expected, &tolerance).map_err(|fault| format!("result {n}: {fault}"))?;
    }
    Ok(())
}

fn run(module: &Module, inputs: &[u8]) -> Result<Vec<Literal>, String> {
    let entry = module.entry().ok_or("there is no entry function")?;
    let inputs = SafeTensors::deserialize(inputs).map_err(|e| e.to_string())?;
    let arguments: Result<Vec<Literal>, String> = entry
        .parameters()
        .iter()
        .enumerate()
        .map(|(n, &value)| tensor(&inputs, n, entry.ty(value)))
        .collect();
    interpret::call(Some(module), entry, &arguments?)
        .map_err(|error| format!("{} at {:?}", error.message, error.location.text))
}

fn tensor(file: &SafeTensors<'_>, n: usize, ty: &TensorType) -> Result<Literal, String> {
    let view = file.tensor(&n.to_string()).map_err(|e| e.to_string())?;
    let shape: Vec<u64> = view.shape().iter().map(|&extent| extent as u64).collect();
    if shape != ty.shape || view.data().len() as u64 != ty.bytes() {
        return Err(format!("tensor {n} is {:?} {shape:?}, not {ty}", view.dtype()));
    }
    Ok(Literal::dense(ty.clone(), view.data().to_vec()))
}

fn compare(got: &Literal, expected: &Literal, tolerance: &Tolerance) -> Result<(), String> {
    let ty = got.ty();
    let (mut wrong, mut worst) = (0, (0.0, String::new()));
    for at in 0..ty.len() {
        let (x, y) = (value(got, at), value(expected, at));
        let (error, size) = distance(x, y);
        let limit = if ty.dtype.is_float() || ty.dtype.is_complex() {
            tolerance.absolute + tolerance.relative * size
        } else {
            0.0
        };
        if error > limit {
            wrong += 1;
            if wrong == 1 || error > worst.0 {
                worst = (error, format!("element {at} is {x:?}, expected {y:?}"));
            }
        }
    }
    if f64::from(wrong) > tolerance.mismatches * ty.len() as f64 {
        return Err(format!("{wrong} of {} elements of {ty} differ; {}", ty.len(), worst.1));
    }
    Ok(())
}

/// Distance and size of the expected value; NaN is next to NaN, an infinity next to itself.
fn distance(x: [f64; 2], y: [f64; 2]) -> (f64, f64) {
    let same = |n: usize| x[n] == y[n] || (x[n].is_nan() && y[n].is_nan());
    let error = if same(0) && same(1) { 0.0 } else { (x[0] - y[0]).hypot(x[1] - y[1]) };
    (if error.is_nan() { f64::INFINITY } else { error }, y[0].hypot(y[1]))
}

fn value(literal: &Literal, at: u64) -> [f64; 2] {
    let dtype = literal.ty().dtype;
    let part = |n| match dtype.part() {
        DType::F64 => f64::from_bits(literal.bits(at, n)),
        DType::F32 | DType::F16 | DType::BF16 => f32::from_bits(literal.bits(at, n) as u32).into(),
        DType::U64 => literal.bits(at, n) as f64,
        _ => literal.int(at) as f64,
    };
    [part(0), if dtype.is_complex() { part(1) } else { 0.0 }]
}
