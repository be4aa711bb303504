//! What programs show while they run.

use jaxrs_kernel::DType;
use std::sync::OnceLock;

/// Shows a line: a label, and element type, shape and bytes of each value.
pub type Printer = fn(&str, &[(DType, &[u64], &[u8])]);

static PRINTER: OnceLock<Printer> = OnceLock::new();

/// Says how programs show values: the front end knows how elements are written. The first call
/// counts.
pub fn set_printer(printer: Printer) {
    let _ = PRINTER.set(printer);
}

/// Shows a line.
pub fn print(label: &str, values: &[(DType, &[u64], &[u8])]) {
    match PRINTER.get() {
        Some(printer) => printer(label, values),
        None => println!("{label} ({} values)", values.len()),
    }
}
