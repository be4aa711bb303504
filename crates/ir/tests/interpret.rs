//! The interpreter on programs that check themselves, and the faults it reports.

use jaxrs_ir::{Error, interpret, text, verify};

/// Runs the function `@main` of a program without parameters.
fn run(source: &str) -> Result<(), Error> {
    let module = text::parse(source, "test.mlir").unwrap_or_else(|errors| panic!("{errors}"));
    verify::verify(&module, "test.mlir").unwrap_or_else(|errors| panic!("{errors}"));
    let entry = module.entry().expect("an entry");
    interpret::call(Some(&module), entry, &[]).map(|_| ())
}

fn passes(source: &str) {
    run(source).unwrap_or_else(|error| {
        panic!("{} at {:?} in\n{source}", error.message, error.location.text)
    });
}

#[test]
fn nested_loops_capture_outer_values() {
    // i from 0 to 3, inside it j from i to 5, adding 10 * i + j.
    passes(
        r#"
func.func @main() {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %sum = %zero) : tensor<i32>, tensor<i32>
  cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %tens = stablehlo.multiply %i, %ten : tensor<i32>
    %s:2 = stablehlo.while(%j = %i, %inner = %sum) : tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %j, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.add %tens, %j : tensor<i32>
      %next = stablehlo.add %inner, %k : tensor<i32>
      %j2 = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j2, %next : tensor<i32>, tensor<i32>
    }
    %i2 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i2, %s#1 : tensor<i32>, tensor<i32>
  }
  check.expect_eq_const %r#0, dense<3> : tensor<i32>
  check.expect_eq_const %r#1, dense<129> : tensor<i32>
  func.return
}
"#,
    );
}

#[test]
fn branches() {
    let program = |index: i32| {
        format!(
            r#"
func.func @pick(%index: tensor<i32>) -> (tensor<2xi32>, tensor<i1>) {{
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %r = "stablehlo.case"(%index) ({{
    stablehlo.return %a : tensor<2xi32>
  }}, {{
    %b = stablehlo.add %a, %a : tensor<2xi32>
    stablehlo.return %b : tensor<2xi32>
  }}, {{
    %c = stablehlo.multiply %a, %a : tensor<2xi32>
    %d = stablehlo.multiply %c, %a : tensor<2xi32>
    stablehlo.return %d : tensor<2xi32>
  }}) : (tensor<i32>) -> tensor<2xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %negative = stablehlo.compare LT, %index, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %s = "stablehlo.if"(%negative) ({{
    stablehlo.return %negative : tensor<i1>
  }}, {{
    %no = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %no : tensor<i1>
  }}) : (tensor<i1>) -> tensor<i1>
  return %r, %s : tensor<2xi32>, tensor<i1>
}}
func.func @main() -> (tensor<2xi32>, tensor<i1>) {{
  %index = stablehlo.constant dense<{index}> : tensor<i32>
  %r:2 = call @pick(%index) : (tensor<i32>) -> (tensor<2xi32>, tensor<i1>)
  return %r#0, %r#1 : tensor<2xi32>, tensor<i1>
}}
"#
        )
    };
    for (index, expected, negative) in
        [(0, [1, 2], 0), (1, [2, 4], 0), (2, [1, 8], 0), (3, [1, 8], 0), (-1, [1, 8], 1)]
    {
        let module = text::parse(&program(index), "test.mlir").expect("a valid program");
        let entry = module.entry().expect("@main");
        let results = interpret::call(Some(&module), entry, &[]).expect("results");
        assert_eq!([0, 1].map(|at| results[0].int(at)), expected, "{index}");
        assert_eq!(results[1].bits(0, 0), negative, "{index}");
    }
}

#[test]
fn calls_composites_maps_and_known_custom_calls() {
    passes(
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %a = stablehlo.composite "my.twice" %x {decomposition = @twice, version = 1 : i32} : (tensor<3xf32>) -> tensor<3xf32>
  %b = stablehlo.custom_call @Sharding(%a) {backend_config = ""} : (tensor<3xf32>) -> tensor<3xf32>
  %y = stablehlo.constant dense<10.0> : tensor<f32>
  %c = "stablehlo.map"(%b, %x) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %m = stablehlo.multiply %p, %q : tensor<f32>
    %n = stablehlo.add %m, %y : tensor<f32>
    stablehlo.return %n : tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %d:2 = stablehlo.optimization_barrier %c, %x : tensor<3xf32>, tensor<3xf32>
  check.expect_eq_const %d#0, dense<[12.0, 18.0, 28.0]> : tensor<3xf32>
  check.expect_eq_const %d#1, dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  func.return
}
func.func private @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.add %x, %x : tensor<3xf32>
  return %y : tensor<3xf32>
}
"#,
    );
}

#[test]
fn unknown_custom_calls_are_listed() {
    let errors = text::parse(
        r#"
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.custom_call @lapack_sgees_ffi(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %z = stablehlo.custom_call @other(%y) : (tensor<3xf32>) -> tensor<3xf32>
  return %z : tensor<3xf32>
}
"#,
        "test.mlir",
    );
    let errors = errors.expect_err("unsupported");
    let text = errors.to_string();
    assert!(text.contains("@lapack_sgees_ffi"), "{text}");
    assert!(text.contains("@other"), "{text}");
    assert_eq!(errors.errors[1].location.text.0, 4, "{text}");
}

#[test]
fn a_fault_names_the_innermost_place() {
    let error = run(r#"
func.func @main() {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.while(%i = %zero) : tensor<i32>
  cond {
    %c = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = func.call @inner(%i) : (tensor<i32>) -> tensor<i32>
    stablehlo.return %n : tensor<i32>
  }
  func.return
}
func.func private @inner(%x: tensor<i32>) -> tensor<i32> {
  check.expect_eq_const %x, dense<1> : tensor<i32>
  return %x : tensor<i32>
}
"#)
    .expect_err("a failed check");
    assert_eq!(error.location.text.0, 15, "{error:?}");
}

#[test]
fn endless_recursion_is_a_fault() {
    let source = r#"
func.func @main() -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r = call @again(%zero) : (tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>
}
func.func private @again(%x: tensor<i32>) -> tensor<i32> {
  %r = call @again(%x) : (tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>
}
"#;
    // The verifier refuses it; whoever does not ask it gets an error all the same.
    let module = text::parse(source, "test.mlir").expect("it parses");
    let error = interpret::call(Some(&module), module.entry().expect("@main"), &[]);
    let error = error.expect_err("endless recursion");
    assert!(error.message.contains("calls nest deeper"), "{error:?}");
}

#[test]
fn arguments_must_have_the_parameters_types() {
    let source = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}";
    let module = text::parse(source, "test.mlir").expect("a valid program");
    let error = interpret::call(Some(&module), module.entry().expect("@main"), &[]);
    let message = error.expect_err("no argument").message;
    assert_eq!(message, "call of @main: arguments are (), not (tensor<2xf32>)");
}

#[test]
fn splats_may_be_huge_but_nothing_else() {
    passes(
        r#"
func.func @main() {
  %x = stablehlo.constant dense<1> : tensor<i8>
  %y = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<i8>) -> tensor<1099511627776x64xi8>
  %z = stablehlo.slice %y [5:7, 0:1] : (tensor<1099511627776x64xi8>) -> tensor<2x1xi8>
  check.expect_eq_const %z, dense<1> : tensor<2x1xi8>
  func.return
}
"#,
    );
    let error = run(r#"
func.func @main() -> tensor<1099511627776x64xi8> {
  %x = stablehlo.iota dim = 0 : tensor<1099511627776x64xi8>
  return %x : tensor<1099511627776x64xi8>
}
"#);
    assert_eq!(
        error.expect_err("too large").message,
        "stablehlo.iota: tensor<1099511627776x64xi8> is too large to interpret"
    );
}
