//! What is done to a kernel once it is built: loops over the same range become one, nests become
//! long loops, and what nothing uses goes.

mod collapse;
mod dead;
mod merge;
mod walk;

pub use collapse::Rows;
use jaxrs_kernel::Kernel;

/// The finished kernel; its outer index counts `rows`.
pub fn finish(kernel: &mut Kernel, rows: Rows) {
    merge::run(kernel);
    dead::run(kernel);
    collapse::run(kernel, rows);
    dead::run(kernel);
}
