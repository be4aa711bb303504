//! Tests of the parser on small programs.

use super::*;

fn ok(source: &str) -> Module {
    parse(source, "t.mlir").unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(source: &str) -> String {
    parse(source, "t.mlir").expect_err("faults").to_string()
}

#[test]
fn function() {
    let module = ok(
        "module @jit_f attributes {mhlo.num_partitions = 1 : i32} {\n  func.func public @main(%arg0: \
         tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32> {jax.result_info = \
         \"r\"}) {\n    %cst = stablehlo.constant dense<1.5> : tensor<4xf32>\n    %0 = stablehlo.add \
         %arg0, %cst : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n",
    );
    assert_eq!(module.name, "jit_f");
    let f = module.entry().expect("main");
    assert_eq!(f.ops.len(), 2);
    assert_eq!(f.results().len(), 1);
}

#[test]
fn all_unsupported_ops_are_listed() {
    let text = errors(
        "func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = arith.constant dense<[1, \
         2]> : tensor<2xi32>\n  %1 = stablehlo.what %arg0, dim = 3 : (tensor<4xf32>) -> \
         tensor<4xf32>\n  %2 = \"stablehlo.other\"(%1) : (tensor<4xf32>) -> tensor<4xf32>\n  \
         return %2 : tensor<4xf32>\n}\n",
    );
    for part in ["t.mlir:2:8", "t.mlir:3:8", "t.mlir:4:8", "arith.constant", "stablehlo.other"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
