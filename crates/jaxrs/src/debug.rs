//! Looking at values while a program runs.

use crate::array::text;
use crate::error::Place;
use crate::trace;
use crate::tree::Tree;
use jaxrs_ir::{Literal, TensorType, ops};
use jaxrs_kernel::DType;
use std::io::Write as _;

/// Prints a line to standard output when the program comes here: the label, with each `{}`
/// replaced by an array of the tree, in order (arrays without a `{}` follow the label).
///
/// It works on traced arrays: in jitted functions, loops and branches, once for each time that the
/// place is reached, and lines come in the order of the program. Under [`crate::vmap`] there is a
/// line for each position; of a function that is differentiated, its own values are printed once.
///
/// ```
/// use jaxrs::prelude::*;
/// use jaxrs::debug;
/// let step = jit(|x: &Array| {
///     let y = x * 2.0;
///     debug::print("y is {}", &y);
///     y + 1.0
/// });
/// step(&Array::from_vec(vec![1.0f32, 2.0]))?; // y is tensor<2xf32> [2.0, 4.0]
/// # Ok::<(), jaxrs::Error>(())
/// ```
#[track_caller]
pub fn print<T: Tree>(label: &str, values: &T) {
    let leaves = values.leaves();
    if !trace::is_tracing() && leaves.iter().all(|leaf| leaf.buffer().is_some()) {
        let values: Vec<(DType, &[u64], &[u8])> = leaves
            .iter()
            .filter_map(|leaf| Some((leaf.dtype(), leaf.shape(), leaf.buffer()?.as_bytes())))
            .collect();
        return line(label, &values);
    }
    let operands: Vec<_> = leaves.iter().collect();
    let op = ops::Print { label: label.to_string(), axes: 0 };
    trace::record(&operands, 0, Place::here(), |b, values| b.push(op, values, &[]));
}

/// Writes a line; called by programs that run.
pub(crate) fn line(label: &str, values: &[(DType, &[u64], &[u8])]) {
    let mut shown = values.iter().map(|&(dtype, shape, bytes)| {
        text(&Literal::dense(TensorType::new(shape, dtype), bytes.to_vec()))
    });
    let mut out = String::new();
    let mut rest = label;
    while let Some((before, after)) = rest.split_once("{}") {
        out.push_str(before);
        out.push_str(&shown.next().unwrap_or_else(|| "{}".into()));
        rest = after;
    }
    out.push_str(rest);
    for value in shown {
        out.push(' ');
        out.push_str(&value);
    }
    out.push('\n');
    // A reader that has gone must not end the program.
    let _ = std::io::stdout().lock().write_all(out.as_bytes());
}
