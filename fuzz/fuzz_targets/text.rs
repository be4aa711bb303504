//! Any bytes are parsed or refused; what is taken and well formed is printed, and taken again.
//! Start from real programs: `cargo +nightly fuzz run text corpus/text ../tests/programs`.
#![no_main]

use jaxrs_ir::{text, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(module) = text::parse_bytes(bytes, "fuzz.mlir") else { return };
    if verify::verify(&module, "fuzz.mlir").is_ok() {
        let printed = text::print(&module);
        let again = text::parse(&printed, "printed.mlir").expect("printed text parses");
        assert_eq!(text::print(&again), printed);
    }
});
