//! The elements of a constant: the first byte chooses the type, the rest is the list.
#![no_main]

use jaxrs_ir::text;
use libfuzzer_sys::fuzz_target;

const TYPES: [&str; 8] = [
    "tensor<2x3xf32>",
    "tensor<4xi8>",
    "tensor<i1>",
    "tensor<9xi1>",
    "tensor<2xcomplex<f64>>",
    "tensor<0x3xui64>",
    "tensor<3xbf16>",
    "tensor<1125899906842624xi32>",
];

fuzz_target!(|input: &str| {
    let Some(first) = input.chars().next() else { return };
    let ty = TYPES[first as usize % TYPES.len()];
    let elements = &input[first.len_utf8()..];
    let source = format!(
        "func.func @main() -> {ty} {{ %0 = stablehlo.constant dense<{elements}> : {ty}\nreturn %0 \
         : {ty} }}"
    );
    let Ok(module) = text::parse(&source, "fuzz.mlir") else { return };
    let printed = text::print(&module);
    let again = text::parse(&printed, "printed.mlir").expect("printed text parses");
    assert_eq!(text::print(&again), printed);
});
