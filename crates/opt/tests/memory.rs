//! What must not reach memory does not: each program of `memory` has a plan of at most so many
//! bytes of arena, scratch left out, and gives what the interpreter gives.
//!
//! The first line of a file says `// at most N bytes`; a second one may say
//! `// without OP, OP`: ops that must not be left.

mod common;

use jaxrs_ir::{DType, Literal, TensorType, interpret, text};
use jaxrs_kernel::program::StepKind;
use jaxrs_opt::{FusionMode, Options, compile, execute};
use std::path::{Path, PathBuf};

#[test]
fn programs_keep_to_their_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let faults: Vec<String> = files
        .iter()
        .filter_map(|file| check(file).err().map(|e| format!("{}: {e}", file.display())))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn check(path: &Path) -> Result<(), String> {
    let source = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let words = source.lines().next().and_then(|line| line.strip_prefix("// at most "));
    let most = words.and_then(|words| words.split(' ').next()).ok_or("no figure")?;
    let most: u64 = most.parse().map_err(|e| format!("{most}: {e}"))?;
    let module = text::parse(&source, "program").map_err(|e| e.to_string())?;
    let entry = module.entry().expect("an entry");
    let types = entry.parameters().iter().map(|&p| entry.ty(p));
    let arguments: Vec<Literal> = types.enumerate().map(|(n, ty)| pattern(ty, n as u64)).collect();
    let expected = interpret::call(Some(&module), entry, &arguments).map_err(|e| e.message)?;

    for fuse in [FusionMode::On, FusionMode::Off] {
        let options = Options { fuse, dump: vec!["ir".into()], ..Options::default() };
        let lowered = compile(&module, &options).map_err(|e| e.to_string())?;
        for kernel in lowered.program.kernels.values() {
            jaxrs_kernel::verify::verify(kernel).map_err(|e| format!("{e}\n{kernel}"))?;
        }
        let got = execute::execute(&lowered, &arguments)?;
        for (n, (got, expected)) in got.iter().zip(&expected).enumerate() {
            close(got, expected).map_err(|e| format!("{fuse:?}: result {n}: {e}"))?;
        }
        if fuse == FusionMode::Off {
            continue;
        }
        let ir = &lowered.dumps[0].1;
        let second = source.lines().nth(1).and_then(|line| line.strip_prefix("// without "));
        for op in second.into_iter().flat_map(|ops| ops.split(", ")) {
            if ir.contains(&format!("stablehlo.{op}")) {
                return Err(format!("{op} is left:\n{ir}"));
            }
        }
        let options = jaxrs_plan::Options { validate: true, ..Default::default() };
        let tiles = lowered.program.body.iter();
        let tiles = tiles.filter(|step| matches!(step.kind, StepKind::Tile(_))).count();
        let planned = jaxrs_plan::plan(lowered.program, &options).map_err(|e| e.to_string())?;
        let end = planned.places.iter().filter_map(|(value, place)| {
            let place = place.as_ref()?;
            let arena = place.region == jaxrs_plan::Region::Arena;
            arena.then(|| place.offset.0 + planned.program.values[value].bytes().aligned().0)
        });
        let arena = end.max().unwrap_or(0);
        if arena > most {
            return Err(format!("{arena} bytes instead of {most}, {tiles} tiles:\n{ir}"));
        }
    }
    Ok(())
}

/// Elements around 0, or small integers, a few negative.
fn pattern(ty: &TensorType, argument: u64) -> Literal {
    common::elements(ty, argument, |z, part| {
        let unit = (z >> 40) as f32 / 8_388_608.0 - 1.0;
        match part {
            DType::F64 => f64::from(unit).to_bits(),
            DType::BF16 => u64::from(unit.to_bits() & 0xFFFF_0000),
            dtype if dtype.is_float() => u64::from(unit.to_bits()),
            DType::I1 => z & 1,
            _ => (z % 37).wrapping_sub(2),
        }
    })
}

fn close(got: &Literal, expected: &Literal) -> Result<(), String> {
    if got.ty() != expected.ty() {
        return Err(format!("{} for {}", got.ty(), expected.ty()));
    }
    let dtype = got.ty().dtype.part();
    let tolerance = if dtype == DType::BF16 { 0.02 } else { 1e-4 };
    let float = |bits: u64| match dtype {
        DType::F64 => f64::from_bits(bits),
        _ => f64::from(f32::from_bits(bits as u32)),
    };
    for position in 0..got.ty().len() {
        for part in 0..got.ty().dtype.parts() {
            let (a, b) = (got.bits(position, part), expected.bits(position, part));
            let (x, y) = (float(a), float(b));
            let near = dtype.is_float()
                && (x == y
                    || (x.is_nan() && y.is_nan())
                    || (x - y).abs() <= tolerance * (1.0 + y.abs()));
            if a != b && !near {
                return Err(format!("element {position}: {a:x} ({x}) for {b:x} ({y})"));
            }
        }
    }
    Ok(())
}
