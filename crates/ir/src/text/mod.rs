//! Parser and printer of StableHLO text.
//!
//! The parser reads what JAX prints and MLIR's generic form. Pretty forms become the attributes of
//! the generic form, by StableHLO's names, so that ops know nothing of syntax. Where a form differs
//! from what an op might expect:
//!
//! * lists of integers are [`Ints`](crate::attribute::Attribute::Ints), also the fields of
//!   `#stablehlo.gather<...>` and friends; `padding` of a window is one list of pairs, flat, or the
//!   `dense` of the generic form: [`Attributes::take_ints`](crate::Attributes::take_ints) reads
//!   both;
//! * `dot_general`: `dot_dimension_numbers` is a
//!   [`Struct`](crate::attribute::Attribute::Struct) `stablehlo.dot` with
//!   `lhs_batching_dimensions`, `rhs_batching_dimensions`, `lhs_contracting_dimensions`,
//!   `rhs_contracting_dimensions`, the batching ones being absent where there are none;
//! * `convolution`: `dimension_numbers` is a `Struct` `stablehlo.conv` with
//!   `input_batch_dimension`, `input_feature_dimension`, `input_spatial_dimensions`,
//!   `kernel_input_feature_dimension`, `kernel_output_feature_dimension`,
//!   `kernel_spatial_dimensions`, and `output_...` like `input_...`;
//! * `call` is `func.call` with `callee` (a symbol); `composite` has `name` (a string).
//!
//! Attributes that an op does not read are dropped.

mod attributes;
mod lexer;
mod literals;
mod locations;
mod module;
mod ops;
mod parser;
mod pretty;
mod print_attributes;
mod printer;
mod structured;
mod types;

use crate::error::{Error, Errors, Location};
use crate::function::{Function, Module};

/// The module that a text spells. `file` names it in errors. Every unsupported op and every other
/// fault of meaning is listed; a fault of syntax is the last one listed.
pub fn parse(source: &str, file: &str) -> Result<Module, Errors> {
    parse_from(source, file, 1)
}

/// Like [`parse`], for a piece of a file that starts on `first_line`.
pub fn parse_from(source: &str, file: &str, first_line: u32) -> Result<Module, Errors> {
    parser::Parser::new(source, first_line).parse(file)
}

/// The programs of a file, which lines `// -----` separate, each with the number of its first line.
pub fn split(source: &str) -> Vec<(u32, &str)> {
    let mut pieces = Vec::new();
    let (mut start, mut first_line, mut at) = (0, 1, 0);
    for (number, line) in (1..).zip(source.split_inclusive('\n')) {
        at += line.len();
        if line.starts_with("// -----") {
            pieces.push((first_line, &source[start..at]));
            (start, first_line) = (at, number + 1);
        }
    }
    pieces.push((first_line, &source[start..]));
    pieces
}

/// Like [`parse`], from bytes that may not be text.
pub fn parse_bytes(source: &[u8], file: &str) -> Result<Module, Errors> {
    let fail = |message: &str, note: &str, place: (u32, u32)| {
        let location = Location { text: place, ..Location::default() };
        Error::new(message, &location).note(note)
    };
    if source.starts_with(b"ML\xefR") {
        let error = fail(
            "the file is MLIR bytecode, which is not read yet",
            "export it as text: jax.jit(f).lower(...).as_text()",
            (1, 1),
        );
        let errors = vec![Error { unsupported: true, ..error }];
        return Err(Errors { file: file.into(), errors });
    }
    match std::str::from_utf8(source) {
        Ok(text) => parse(text, file),
        Err(error) => {
            let valid = &source[..error.valid_up_to()];
            let line = valid.iter().filter(|&&b| b == b'\n').count() as u32 + 1;
            let start = valid.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
            let column = (valid.len() - start) as u32 + 1;
            let error = fail(
                "the file is not UTF-8 text",
                "a program is StableHLO text, as jax.jit(f).lower(...).as_text() gives it",
                (line, column),
            );
            Err(Errors { file: file.into(), errors: vec![error] })
        }
    }
}

/// What is printed.
#[derive(Clone, Debug, Default)]
pub struct PrintOptions {
    /// `loc(...)` of ops.
    pub locations: bool,
}

/// The module's text, without locations. [`parse`] reads it back to an equal module (but for
/// places), and so does JAX.
pub fn print(module: &Module) -> String {
    print_with(module, &PrintOptions::default())
}

/// The module's text.
pub fn print_with(module: &Module, options: &PrintOptions) -> String {
    printer::module(module, options)
}

/// A function's text, without locations.
pub fn print_function(function: &Function) -> String {
    printer::function(function, &PrintOptions::default(), 0)
}
