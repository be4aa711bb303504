//! What must hold of every program.

use crate::program::Case;
use jaxrs::compile::{Options, compile_module};
use jaxrs::tensor::Tensor;
use jaxrs_ir::{BlockId, Function, Literal, Module, TensorType, ValueId, interpret, text, verify};
use jaxrs_plan::validate;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs with panics kept for [`fault`] instead of being printed.
pub fn quietly<T>(run: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| PANIC.with(|p| *p.borrow_mut() = info.to_string())));
    let result = catch_unwind(AssertUnwindSafe(run));
    std::panic::set_hook(hook);
    result.unwrap_or_else(|panic| {
        eprintln!("{}", PANIC.with(|p| p.borrow().clone()));
        std::panic::resume_unwind(panic)
    })
}

/// What is wrong with a program, panics included.
pub fn fault(case: &Case) -> Option<String> {
    let run = catch_unwind(AssertUnwindSafe(|| find(case)));
    match run {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(_) => Some(PANIC.with(|p| format!("panic: {}", p.borrow()))),
    }
}

fn find(case: &Case) -> Result<(), String> {
    let module = round_trip(&case.module)?;
    let entry = module.entry().ok_or("there is no entry")?;
    let expected = interpret::call(Some(&module), entry, &case.inputs)
        .map_err(|error| format!("interpreter: {}", error.message))?;
    let inputs: Vec<Tensor> = case
        .inputs
        .iter()
        .map(|literal| Tensor { ty: literal.ty().clone(), bytes: literal.to_bytes() })
        .collect();
    let one = Options::default();
    let two = Options { threads: 2, poison: true, split_all: true, ..Options::default() };
    let all = [
        Options { check: true, ..one.clone() },
        Options { fuse: false, poison: true, ..one },
        Options { fuse: false, ..two.clone() },
        two,
    ];
    for options in all {
        let how = format!(
            "fuse: {}, threads: {}, poison: {}",
            options.fuse, options.threads, options.poison
        );
        let failed = |what: String| format!("{how}: {what}");
        let compiled = compile_module(&module, "generated.mlir", &options)
            .map_err(|error| failed(error.to_string()))?;
        validate::validate(compiled.planned()).map_err(|e| failed(format!("plan: {e}")))?;
        // The second run finds what the first one left.
        for run in 0..1 + u32::from(options.poison) {
            let results = compiled.run(&inputs).map_err(|e| failed(format!("run {run}: {e}")))?;
            for (position, (got, expected)) in results.iter().zip(&expected).enumerate() {
                compare(got, expected)
                    .map_err(|d| failed(format!("run {run}: result {position}: {d}")))?;
            }
        }
    }
    Ok(())
}

/// The module as the parser reads it from its text.
fn round_trip(module: &Module) -> Result<Module, String> {
    let errors = |what: &str, errors: &dyn std::fmt::Display| format!("{what}: {errors}");
    verify::verify(module, "generated.mlir").map_err(|e| errors("verify", &e))?;
    let printed = text::print(module);
    let read = text::parse(&printed, "generated.mlir").map_err(|e| errors("parse", &e))?;
    verify::verify(&read, "generated.mlir").map_err(|e| errors("verify again", &e))?;
    let again = text::print(&read);
    if again != printed {
        return Err(format!("printed again it reads\n{again}"));
    }
    for (a, b) in module.functions.iter().zip(&read.functions) {
        same_function(a, b).map_err(|what| format!("read back @{}: {what}", a.name))?;
    }
    Ok(read)
}

/// An error unless the functions are equal but for the numbers of their values, ops and blocks.
fn same_function(a: &Function, b: &Function) -> Result<(), String> {
    if a.name != b.name || a.public != b.public {
        return Err("another name".into());
    }
    let attributes = [(&a.parameter_attributes, &b.parameter_attributes)];
    if attributes.iter().any(|(a, b)| a != b) {
        return Err("other attributes of the parameters".into());
    }
    same_block(a, b, a.body, b.body, &mut HashMap::new())
}

fn same_block(
    a: &Function,
    b: &Function,
    block_a: BlockId,
    block_b: BlockId,
    names: &mut HashMap<ValueId, ValueId>,
) -> Result<(), String> {
    let (data_a, data_b) = (&a.blocks[block_a], &b.blocks[block_b]);
    let bind = |x: &[ValueId], y: &[ValueId], names: &mut HashMap<ValueId, ValueId>| {
        names.extend(x.iter().copied().zip(y.iter().copied()));
        let types = |f: &Function, values: &[ValueId]| -> Vec<TensorType> {
            values.iter().map(|&v| f.ty(v).clone()).collect()
        };
        types(a, x) == types(b, y)
    };
    if !bind(&data_a.arguments, &data_b.arguments, names) {
        return Err("other arguments".into());
    }
    if data_a.ops.len() != data_b.ops.len() {
        return Err("another number of ops".into());
    }
    let named = |values: &[ValueId], names: &HashMap<ValueId, ValueId>| -> Vec<Option<ValueId>> {
        values.iter().map(|v| names.get(v).copied()).collect()
    };
    let known =
        |values: &[ValueId]| -> Vec<Option<ValueId>> { values.iter().copied().map(Some).collect() };
    for (&x, &y) in data_a.ops.iter().zip(&data_b.ops) {
        let (x, y) = (&a.ops[x], &b.ops[y]);
        if x.op != y.op {
            return Err(format!("{:?} became {:?}", x.op, y.op));
        }
        if named(&x.operands, names) != known(&y.operands) || x.regions.len() != y.regions.len() {
            return Err(format!("other operands or regions of {}", x.op.name()));
        }
        for (&x, &y) in x.regions.iter().zip(&y.regions) {
            same_block(a, b, x, y, names)?;
        }
        if !bind(&x.results, &y.results, names) {
            return Err(format!("other results of {}", x.op.name()));
        }
    }
    if named(&data_a.yields, names) != known(&data_b.yields) {
        return Err("other yields".into());
    }
    Ok(())
}

/// An error unless all bits are equal; NaN is NaN.
fn compare(got: &Tensor, expected: &Literal) -> Result<(), String> {
    if got.ty != *expected.ty() {
        return Err(format!("it is {}, expected {}", got.ty, expected.ty()));
    }
    let dtype = got.ty.dtype;
    let got = Literal::dense(got.ty.clone(), got.bytes.clone());
    let mut differ = 0;
    let mut first = String::new();
    for at in 0..got.ty().len() {
        for part in 0..dtype.parts() {
            let (a, b) = (got.bits(at, part), expected.bits(at, part));
            let (x, y) = (float(dtype, a), float(dtype, b));
            if a == b || x.is_nan() && y.is_nan() {
                continue;
            }
            differ += 1;
            if first.is_empty() {
                first = format!("at {at}: {a:#x} ({x}) for {b:#x} ({y})");
            }
        }
    }
    match differ {
        0 => Ok(()),
        _ => Err(format!("{}: {differ} of {} differ, first {first}", got.ty(), got.ty().len())),
    }
}

/// The value of register bits; of integers themselves.
fn float(dtype: jaxrs_ir::DType, bits: u64) -> f64 {
    use jaxrs_ir::DType as D;
    match dtype.part() {
        D::F64 => f64::from_bits(bits),
        D::BF16 | D::F16 | D::F32 => f32::from_bits(bits as u32).into(),
        _ => bits as f64,
    }
}
