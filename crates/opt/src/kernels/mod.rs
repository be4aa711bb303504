//! What is done to a kernel once it is built: loops over the same range become one, nests become
//! long loops, and what nothing uses goes.

mod collapse;
mod dead;
mod merge;
mod row;
mod walk;

pub use collapse::{Rows, row_counts};
use jaxrs_kernel::Kernel;
pub use row::{RowKernel, of_one_row};

/// Merges loops and removes what is dead: right after the kernel is built.
pub fn tidy(kernel: &mut Kernel) {
    merge::run(kernel);
    dead::run(kernel);
}

/// Collapses the loops of a tidy kernel; its outer index counts `rows`.
pub fn finish(kernel: &mut Kernel, rows: Rows) {
    collapse::run(kernel, rows);
    dead::run(kernel);
}
