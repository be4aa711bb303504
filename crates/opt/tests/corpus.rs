//! Programs compiled with and without fusion and run by interpretation give what the interpreter of
//! the IR gives.

mod common;

use jaxrs_ir::{DType, Literal, Module, TensorType, interpret, text};
use jaxrs_opt::{FusionMode, Options, compile, execute};
use std::path::{Path, PathBuf};

/// Elements of a type, small and positive.
fn pattern(ty: &TensorType, argument: u64) -> Literal {
    common::elements(ty, argument, |z, part| {
        let unit = (z >> 40) as f32 / 16_777_216.0 + 0.25;
        match part {
            DType::F64 => f64::from(unit).to_bits(),
            dtype if dtype.is_float() => u64::from(unit.to_bits()),
            DType::I1 => z & 1,
            _ => z % 3,
        }
    })
}

fn check(path: &Path, run: bool) -> Result<(), String> {
    let source = std::fs::read(path).map_err(|e| e.to_string())?;
    let module: Module = text::parse_bytes(&source, "program").map_err(|e| e.to_string())?;
    let options = |fuse| Options { fuse, ..Options::default() };
    let start = std::time::Instant::now();
    let fused = compile(&module, &options(FusionMode::On)).map_err(|e| e.to_string())?;
    let time = start.elapsed();
    if std::env::var("TIMES").is_ok() {
        println!("{path:?} {time:?}");
        for t in &fused.timings {
            println!("   {} {:?}", t.name, t.duration);
        }
    }
    for kernel in fused.program.kernels.values() {
        jaxrs_kernel::verify::verify(kernel).map_err(|e| format!("{e}\n{kernel}"))?;
    }
    if !run {
        return Ok(());
    }
    let unfused = compile(&module, &options(FusionMode::Off)).map_err(|e| e.to_string())?;
    for kernel in unfused.program.kernels.values() {
        jaxrs_kernel::verify::verify(kernel).map_err(|e| format!("{e}\n{kernel}"))?;
    }
    let entry = module.entry().expect("an entry");
    let arguments: Vec<Literal> = entry
        .parameters()
        .iter()
        .enumerate()
        .map(|(n, &p)| pattern(entry.ty(p), n as u64))
        .collect();
    let expected = interpret::call(Some(&module), entry, &arguments).map_err(|e| e.message)?;
    for (what, lowered) in [("unfused", &unfused), ("fused", &fused)] {
        let got = execute::execute(lowered, &arguments)?;
        for (n, (got, expected)) in got.iter().zip(&expected).enumerate() {
            close(got, expected).map_err(|e| format!("{what}: result {n}: {e}"))?;
        }
    }
    Ok(())
}

fn close(got: &Literal, expected: &Literal) -> Result<(), String> {
    if got.ty() != expected.ty() {
        return Err(format!("{} for {}", got.ty(), expected.ty()));
    }
    let dtype = got.ty().dtype.part();
    let float = |bits: u64| match dtype {
        DType::F64 => f64::from_bits(bits),
        _ => f64::from(f32::from_bits(bits as u32)),
    };
    for position in 0..got.ty().len() {
        for part in 0..got.ty().dtype.parts() {
            let (a, b) = (got.bits(position, part), expected.bits(position, part));
            if a == b {
                continue;
            }
            let (x, y) = (float(a), float(b));
            let tolerance = match dtype {
                DType::F64 => 1e-9,
                DType::BF16 | DType::F16 => 3e-2,
                _ => 2e-3,
            };
            let near = (x - y).abs() <= tolerance * (1.0 + x.abs().max(y.abs()));
            if !dtype.is_float() || !(near || (x.is_nan() && y.is_nan())) {
                return Err(format!("element {position}: {x:e} ({a:#x}) for {y:e} ({b:#x})"));
            }
        }
    }
    Ok(())
}

/// Programs of folders beside or in the repository: `tests/programs`, and the corpus if it is there
/// (of which a debug build takes every eighth). `ONLY=substring` picks; `ALL=1` also builds the
/// large ones, without running them.
#[test]
fn fused_equals_unfused_equals_interpreted() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let only = std::env::var("ONLY").unwrap_or_default();
    let all = std::env::var("ALL").is_ok();
    let mut paths: Vec<PathBuf> = ["tests/programs", "../shared/corpus"]
        .iter()
        .filter_map(|folder| std::fs::read_dir(repository.join(folder)).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("program.mlir").exists())
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    paths.sort();
    let large = |path: &PathBuf| path.to_string_lossy().contains("_perf");
    paths.retain(|path| all || !large(path));
    if cfg!(debug_assertions) && only.is_empty() {
        paths = paths.into_iter().step_by(8).collect();
    }
    let mut failures = Vec::new();
    for path in &paths {
        let run = !large(path);
        let program = path.join("program.mlir");
        let result = std::panic::catch_unwind(|| check(&program, run));
        let result = result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(format!("PANIC {}", text.unwrap_or_default()))
        });
        if let Err(error) = result
            && !error.contains("is not supported")
        {
            failures.push(format!("{}: {error}", path.display()));
        }
    }
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), paths.len(), failures.join("\n"));
}
