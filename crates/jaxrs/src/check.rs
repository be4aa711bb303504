//! Runs test programs that hold `check.*` ops: StableHLO's own tests.

use crate::compile::{self, Options};
use crate::tensor::Tensor;
use jaxrs_ir::ops::Op;
use jaxrs_ir::{Errors, Literal, Module, ValueId, interpret, text, verify};

/// How a test program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every check held.
    Passed,
    /// A check did not hold, or the program could not be run though all of it is supported.
    Failed(String),
    /// The program uses what is not supported; the text says what.
    Unsupported(String),
}

/// The verdict on each program of a file (programs are parted by `// -----` lines), with its
/// place, `file` or `file:line`.
pub fn run(source: &[u8], file: &str, by_interpreter: bool) -> Vec<(String, Verdict)> {
    let Ok(text) = std::str::from_utf8(source) else {
        let verdict = match text::parse_bytes(source, file) {
            Ok(_) => unreachable!("bytes that are no text are no program"),
            Err(errors) => refused(&errors),
        };
        return vec![(file.to_string(), verdict)];
    };
    let pieces = text::split(text);
    let mut verdicts = Vec::new();
    for &(line, piece) in &pieces {
        if pieces.len() > 1 && is_blank(piece) {
            continue;
        }
        let place = if line == 1 { file.to_string() } else { format!("{file}:{line}") };
        let verdict = match (verdict(piece, line, file, by_interpreter), turned_off(text)) {
            (Verdict::Failed(detail), Some(reason)) => Verdict::Failed(format!(
                "{detail} (its own suite does not run this file: {reason})"
            )),
            (verdict, _) => verdict,
        };
        verdicts.push((place, verdict));
    }
    verdicts
}

/// Whether a piece of a file holds comments alone.
fn is_blank(piece: &str) -> bool {
    piece.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with("//"))
}

/// Why StableHLO's test suite does not run a file, if it says so.
fn turned_off(text: &str) -> Option<&str> {
    let line = text.lines().find_map(|line| line.strip_prefix("// RUN-DISABLED("))?;
    line.split_once(')').map(|(reason, _)| reason)
}

/// The verdict on a program that could not be read.
fn refused(errors: &Errors) -> Verdict {
    let detail = in_one_line(errors);
    if errors.errors.iter().any(|error| error.unsupported) {
        Verdict::Unsupported(detail)
    } else {
        Verdict::Failed(detail)
    }
}

fn verdict(source: &str, first_line: u32, file: &str, by_interpreter: bool) -> Verdict {
    let module = match text::parse_from(source, file, first_line) {
        Ok(module) => module,
        Err(errors) => return refused(&errors),
    };
    if let Err(errors) = verify::verify(&module, file) {
        return Verdict::Failed(in_one_line(&errors));
    }
    let Some(entry) = module.entry() else {
        return Verdict::Unsupported("there is no function main, nor a single one".into());
    };
    if !entry.parameters().is_empty() {
        return Verdict::Unsupported("the program takes arguments".into());
    }
    if by_interpreter {
        return match interpret::call(Some(&module), entry, &[]) {
            Ok(_) => Verdict::Passed,
            Err(error) => Verdict::Failed(error.message),
        };
    }
    compiled(module, file)
}

/// Compiles with the checked values as further results, and compares those.
fn compiled(mut module: Module, file: &str) -> Verdict {
    let checks = match extract(&mut module) {
        Ok(checks) => checks,
        Err(what) => return Verdict::Unsupported(what),
    };
    let compiled = match compile::compile_module(&module, file, &Options::from_environment()) {
        Ok(compiled) => compiled,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    let results = match compiled.run(&[]) {
        Ok(results) => results,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    let literal = |t: &Tensor| Literal::dense(t.ty.clone(), t.bytes.clone());
    let mut values = results[results.len() - checks.iter().map(|c| c.1).sum::<usize>()..].iter();
    for (check, operands) in checks {
        let operands: Vec<Literal> = values.by_ref().take(operands).map(literal).collect();
        let expected = check.expected.as_ref().unwrap_or_else(|| &operands[operands.len() - 1]);
        if let Err(difference) = check.compare(&operands[0], expected) {
            return Verdict::Failed(difference);
        }
    }
    Verdict::Passed
}

/// Takes the check ops out of the entry, whose further results become their operands; gives them
/// with their numbers of operands.
fn extract(module: &mut Module) -> Result<Vec<(jaxrs_ir::ops::Check, usize)>, String> {
    let name = module.entry().map(|f| f.name.clone()).unwrap_or_default();
    let mut checks = Vec::new();
    for function in &mut module.functions {
        let is_entry = function.name == name;
        for block in function.blocks.keys().collect::<Vec<_>>() {
            let ops = std::mem::take(&mut function.blocks[block].ops);
            let (found, rest): (Vec<_>, Vec<_>) =
                ops.into_iter().partition(|&op| matches!(function.ops[op].op, Op::Check(_)));
            function.blocks[block].ops = rest;
            if !(found.is_empty() || is_entry && block == function.body) {
                return Err("a check stands in a region or in a called function".into());
            }
            for op in found {
                let data = &function.ops[op];
                let Op::Check(check) = &data.op else { unreachable!("partitioned above") };
                let operands: Vec<ValueId> = data.operands.clone();
                checks.push((check.clone(), operands.len()));
                function.blocks[block].yields.extend(operands.iter().copied());
                function.result_attributes.extend(operands.iter().map(|_| Default::default()));
            }
        }
    }
    Ok(checks)
}

/// The errors, each with its line and column.
fn in_one_line(errors: &Errors) -> String {
    let shown = errors.errors.iter().map(|error| match error.location.text {
        (0, _) => error.message.clone(),
        (line, column) => format!("{line}:{column}: {}", error.message),
    });
    shown.collect::<Vec<_>>().join("; ")
}
