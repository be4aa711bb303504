//! Contractions that read parts of tensors where they are, and write their results into parts of larger
//! ones: the same results as the interpreter's, and no memory between.

use jaxrs::compile::{Options, compile_module};
use jaxrs::tensor::Tensor;
use jaxrs_ir::{DType, Literal, TensorType, interpret, text};
use jaxrs_plan::validate;

/// Small integers, so that sums are exact in every type and order.
fn elements(ty: &TensorType, seed: u64) -> Literal {
    let mut bytes = Vec::new();
    for n in 0..ty.len() * ty.dtype.parts() {
        let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed << 32);
        let small = (mixed >> 40) % 3;
        let bits = match ty.dtype.part() {
            DType::F64 => (small as f64 - 1.0).to_bits(),
            part if part.is_float() => u64::from((small as f32 - 1.0).to_bits()),
            DType::I1 => small & 1,
            _ => small,
        };
        bytes.extend(jaxrs_ir::literal::narrow(bits, ty.dtype.part()));
    }
    Literal::dense(ty.clone(), bytes)
}

/// Runs a program in several ways beside the interpreter; its arena without scratch is at most `most`.
fn check(source: &str, scalars: &[i64], most: u64) {
    let module = text::parse(source, "parts.mlir").unwrap_or_else(|e| panic!("{e}\n{source}"));
    let entry = module.entry().expect("an entry");
    let mut scalars = scalars.iter();
    let operand = |(n, ty): (usize, TensorType)| match ty.rank() {
        0 if ty.dtype.is_int() => {
            let value = *scalars.next().expect("a value for each integer of rank 0");
            Literal::dense(ty.clone(), jaxrs_ir::literal::narrow(value as u64, ty.dtype))
        }
        _ => elements(&ty, n as u64),
    };
    let types = entry.parameters().iter().map(|&p| entry.ty(p).clone());
    let literals: Vec<Literal> = types.enumerate().map(operand).collect();
    let expected = interpret::call(Some(&module), entry, &literals).expect("it evaluates");
    let tensor = |l: &Literal| Tensor { ty: l.ty().clone(), bytes: l.to_bytes() };
    let inputs: Vec<Tensor> = literals.iter().map(tensor).collect();
    let all = [
        Options { check: true, poison: true, ..Options::default() },
        Options { threads: 2, poison: true, split_all: true, ..Options::default() },
        Options { fuse: false, poison: true, ..Options::default() },
    ];
    for options in all {
        let compiled = compile_module(&module, "parts.mlir", &options).expect("it compiles");
        validate::validate(compiled.planned()).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let report = compiled.report("parts");
        if options.fuse {
            let arena = report.arena_without_scratch_bytes;
            assert!(arena <= most, "{arena} bytes for {most}\n{source}\n{}", report.text(false));
        }
        for _ in 0..2 {
            let results = compiled.run(&inputs).unwrap_or_else(|e| panic!("{e}\n{source}"));
            for (got, expected) in results.iter().zip(&expected) {
                assert_eq!(got.bytes, expected.to_bytes(), "{source}");
            }
        }
    }
}

#[test]
fn slices_are_read_where_they_are() {
    for dtype in ["f32", "f64", "bf16", "i32", "complex<f32>"] {
        check(
            &format!(
                "func.func @main(%x: tensor<24x20x{dtype}>, %w: tensor<3x42x50x{dtype}>)
                    -> tensor<24x16x{dtype}> {{
                  %0 = stablehlo.slice %w [1:2, 2:42:2, 1:49:3]
                    : (tensor<3x42x50x{dtype}>) -> tensor<1x20x16x{dtype}>
                  %1 = stablehlo.reverse %0, dims = [2] : tensor<1x20x16x{dtype}>
                  %2 = stablehlo.reshape %1 : (tensor<1x20x16x{dtype}>) -> tensor<20x16x{dtype}>
                  %3 = stablehlo.dot_general %x, %2, contracting_dims = [1] x [0]
                    : (tensor<24x20x{dtype}>, tensor<20x16x{dtype}>) -> tensor<24x16x{dtype}>
                  return %3 : tensor<24x16x{dtype}>
                }}"
            ),
            &[],
            0,
        );
    }
}

#[test]
fn dynamic_slices_are_read_where_they_are() {
    for index in ["i32", "i64", "ui64", "ui8", "i8"] {
        for at in [-1, 0, 1, 2, 3, 100] {
            check(
                &format!(
                    "func.func @main(%x: tensor<2x30x20xf32>, %w: tensor<4x2x26x20xf32>,
                        %i: tensor<{index}>, %j: tensor<{index}>) -> tensor<2x30x24xf32> {{
                      %0 = stablehlo.constant dense<0> : tensor<{index}>
                      %1 = stablehlo.dynamic_slice %w, %i, %0, %j, %0, sizes = [1, 2, 24, 20]
                        : (tensor<4x2x26x20xf32>, tensor<{index}>, tensor<{index}>,
                           tensor<{index}>, tensor<{index}>) -> tensor<1x2x24x20xf32>
                      %2 = stablehlo.reshape %1
                        : (tensor<1x2x24x20xf32>) -> tensor<2x24x20xf32>
                      %3 = stablehlo.dot_general %x, %2, batching_dims = [0] x [0],
                        contracting_dims = [2] x [2]
                        : (tensor<2x30x20xf32>, tensor<2x24x20xf32>) -> tensor<2x30x24xf32>
                      return %3 : tensor<2x30x24xf32>
                    }}"
                ),
                &[at, 1 - at],
                0,
            );
        }
    }
}

/// Stacked layers, each read at the loop's counter: two activations, one of them the result.
#[test]
fn a_loop_reads_its_layer_where_it_is() {
    check(
        "func.func @main(%w: tensor<5x16x16xf32>, %x: tensor<32x16xf32>) -> tensor<32x16xf32> {
          %0 = stablehlo.constant dense<0> : tensor<i32>
          %1 = stablehlo.constant dense<1> : tensor<i32>
          %2 = stablehlo.constant dense<5> : tensor<i32>
          %3:2 = stablehlo.while(%i = %0, %h = %x) : tensor<i32>, tensor<32x16xf32>
          cond {
            %c = stablehlo.compare LT, %i, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %a = stablehlo.dynamic_slice %w, %i, %0, %0, sizes = [1, 16, 16]
              : (tensor<5x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
            %b = stablehlo.reshape %a : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
            %d = stablehlo.dot_general %h, %b, contracting_dims = [1] x [0]
              : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
            %e = stablehlo.sign %d : tensor<32x16xf32>
            %n = stablehlo.add %i, %1 : tensor<i32>
            stablehlo.return %n, %e : tensor<i32>, tensor<32x16xf32>
          }
          return %3#1 : tensor<32x16xf32>
        }",
        &[],
        32 * 16 * 4 + 256,
    );
}

/// Queries, keys and values are three contractions, so that each lives as long as it is used.
#[test]
fn contractions_of_which_slices_are_used_are_split() {
    check(
        "func.func @main(%x: tensor<2x40x32xf32>, %w: tensor<32x96xf32>, %b: tensor<96xf32>)
            -> tensor<2x40x32xf32> {
          %0 = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0]
            : (tensor<2x40x32xf32>, tensor<32x96xf32>) -> tensor<2x40x96xf32>
          %1 = stablehlo.broadcast_in_dim %b, dims = [2]
            : (tensor<96xf32>) -> tensor<2x40x96xf32>
          %2 = stablehlo.add %0, %1 : tensor<2x40x96xf32>
          %q = stablehlo.slice %2 [0:2, 0:40, 0:32]
            : (tensor<2x40x96xf32>) -> tensor<2x40x32xf32>
          %k = stablehlo.slice %2 [0:2, 0:40, 32:64]
            : (tensor<2x40x96xf32>) -> tensor<2x40x32xf32>
          %v = stablehlo.slice %2 [0:2, 0:40, 64:96]
            : (tensor<2x40x96xf32>) -> tensor<2x40x32xf32>
          %3 = stablehlo.dot_general %q, %k, batching_dims = [0] x [0],
            contracting_dims = [2] x [2]
            : (tensor<2x40x32xf32>, tensor<2x40x32xf32>) -> tensor<2x40x40xf32>
          %4 = stablehlo.dot_general %3, %v, batching_dims = [0] x [0],
            contracting_dims = [2] x [1]
            : (tensor<2x40x40xf32>, tensor<2x40x32xf32>) -> tensor<2x40x32xf32>
          return %4 : tensor<2x40x32xf32>
        }",
        &[],
        // Keys or values, and the scores; queries lie in the result.
        (2 * 40 * 32 + 2 * 40 * 40) * 4,
    );
}

/// Contractions side by side, stacked, padded: each writes its part of the result.
#[test]
fn contractions_write_their_parts() {
    for dtype in ["f32", "f64", "bf16", "i32", "complex<f32>"] {
        let dot = |name: &str, lhs: &str, rhs: &str| {
            format!(
                "%{name} = stablehlo.dot_general {lhs}, {rhs}, contracting_dims = [1] x [0]
                   : (tensor<20x24x{dtype}>, tensor<24x22x{dtype}>) -> tensor<20x22x{dtype}>"
            )
        };
        let signature = format!(
            "func.func @main(%x: tensor<20x24x{dtype}>, %y: tensor<24x22x{dtype}>,
               %z: tensor<24x22x{dtype}>, %p: tensor<{dtype}>)"
        );
        let dots = format!("{}\n{}", dot("0", "%x", "%y"), dot("1", "%x", "%z"));
        for (axis, out) in [(0, "40x22"), (1, "20x44")] {
            check(
                &format!(
                    "{signature} -> tensor<{out}x{dtype}> {{
                      {dots}
                      %2 = stablehlo.negate %1 : tensor<20x22x{dtype}>
                      %3 = stablehlo.concatenate %0, %2, dim = {axis}
                        : (tensor<20x22x{dtype}>, tensor<20x22x{dtype}>) -> tensor<{out}x{dtype}>
                      return %3 : tensor<{out}x{dtype}>
                    }}"
                ),
                &[1],
                0,
            );
        }
        // On the last axis, from the second product transposed; the first one stands there twice.
        check(
            &format!(
                "{signature} -> tensor<22x20x3x{dtype}> {{
                  {dots}
                  %2 = stablehlo.transpose %0, dims = [1, 0]
                    : (tensor<20x22x{dtype}>) -> tensor<22x20x{dtype}>
                  %3 = stablehlo.reshape %2 : (tensor<22x20x{dtype}>) -> tensor<22x20x1x{dtype}>
                  %4 = stablehlo.transpose %1, dims = [1, 0]
                    : (tensor<20x22x{dtype}>) -> tensor<22x20x{dtype}>
                  %5 = stablehlo.reshape %4 : (tensor<22x20x{dtype}>) -> tensor<22x20x1x{dtype}>
                  %6 = stablehlo.concatenate %3, %5, %3, dim = 2 : (tensor<22x20x1x{dtype}>,
                    tensor<22x20x1x{dtype}>, tensor<22x20x1x{dtype}>) -> tensor<22x20x3x{dtype}>
                  return %6 : tensor<22x20x3x{dtype}>
                }}"
            ),
            &[1],
            20 * 22 * 16,
        );
        check(
            &format!(
                "{signature} -> tensor<25x24x{dtype}> {{
                  {}
                  %1 = stablehlo.negate %0 : tensor<20x22x{dtype}>
                  %2 = stablehlo.pad %1, %p, low = [2, 0], high = [3, 2], interior = [0, 0]
                    : (tensor<20x22x{dtype}>, tensor<{dtype}>) -> tensor<25x24x{dtype}>
                  return %2 : tensor<25x24x{dtype}>
                }}",
                dot("0", "%x", "%y")
            ),
            &[1],
            0,
        );
    }
}

/// A part that is read by the contraction of the next part, and by elementwise ops later.
#[test]
fn parts_are_read_from_the_whole() {
    let step = |n: usize, from: &str| {
        format!(
            "%d{n} = stablehlo.dot_general {from}, %w, contracting_dims = [1] x [0]
               : (tensor<24x24xf32>, tensor<24x24xf32>) -> tensor<24x24xf32>
             %t{n} = stablehlo.sign %d{n} : tensor<24x24xf32>
             %r{n} = stablehlo.reshape %t{n} : (tensor<24x24xf32>) -> tensor<24x1x24xf32>
            "
        )
    };
    let steps = [step(0, "%x"), step(1, "%t0"), step(2, "%t1")].concat();
    check(
        &format!(
            "func.func @main(%x: tensor<24x24xf32>, %w: tensor<24x24xf32>)
               -> (tensor<24x4x24xf32>, tensor<24xf32>) {{
              {steps}
              %sum = stablehlo.add %t0, %t2 : tensor<24x24xf32>
              %rs = stablehlo.reshape %sum : (tensor<24x24xf32>) -> tensor<24x1x24xf32>
              %all = stablehlo.concatenate %r0, %r1, %r2, %rs, dim = 1 : (tensor<24x1x24xf32>,
                tensor<24x1x24xf32>, tensor<24x1x24xf32>, tensor<24x1x24xf32>)
                -> tensor<24x4x24xf32>
              %zero = stablehlo.constant dense<0.0> : tensor<f32>
              %total = stablehlo.reduce(%t1 init: %zero) applies stablehlo.add
                across dimensions = [1] : (tensor<24x24xf32>, tensor<f32>) -> tensor<24xf32>
              return %all, %total : tensor<24x4x24xf32>, tensor<24xf32>
            }}"
        ),
        &[],
        0,
    );
}

/// A product, and elementwise ops on one, put where an index says.
#[test]
fn contractions_write_where_an_index_says() {
    for op in [
        "stablehlo.sign %0 : tensor<20x22xf32>",
        "stablehlo.reshape %0 : (tensor<20x22xf32>) -> tensor<20x22xf32>",
    ] {
        for at in [-5, 0, 1, 3, 4, 9] {
            check(
                &format!(
                    "func.func @main(%s: tensor<4x21x22xf32> {{jax.buffer_donor = true}},
                        %x: tensor<20x24xf32>, %y: tensor<24x22xf32>, %i: tensor<i32>)
                        -> tensor<4x21x22xf32> {{
                      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
                        : (tensor<20x24xf32>, tensor<24x22xf32>) -> tensor<20x22xf32>
                      %1 = {op}
                      %2 = stablehlo.reshape %1 : (tensor<20x22xf32>) -> tensor<1x20x22xf32>
                      %3 = stablehlo.constant dense<0> : tensor<i32>
                      %4 = stablehlo.dynamic_update_slice %s, %2, %i, %i, %3
                        : (tensor<4x21x22xf32>, tensor<1x20x22xf32>, tensor<i32>, tensor<i32>,
                           tensor<i32>) -> tensor<4x21x22xf32>
                      return %4 : tensor<4x21x22xf32>
                    }}"
                ),
                &[at],
                0,
            );
        }
    }
}

/// The states of a loop, stacked forwards or backwards: each step reads its predecessor's slot, and
/// nothing is kept beside the stack.
#[test]
fn a_loop_stacks_contractions_in_place() {
    for (slot, most) in [
        ("add %i, %0", 256),
        ("subtract %last, %i", 256),
        ("minimum %i, %1", 2 * 24 * 24 * 4 + 256),
    ] {
        check(
            &format!(
                "func.func @main(%w: tensor<24x24xf32>, %x: tensor<24x24xf32>)
                   -> tensor<5x24x24xf32> {{
                  %0 = stablehlo.constant dense<0> : tensor<i32>
                  %1 = stablehlo.constant dense<1> : tensor<i32>
                  %last = stablehlo.constant dense<4> : tensor<i32>
                  %2 = stablehlo.constant dense<5> : tensor<i32>
                  %s = stablehlo.constant dense<0.0> : tensor<5x24x24xf32>
                  %3:3 = stablehlo.while(%i = %0, %h = %x, %ys = %s)
                    : tensor<i32>, tensor<24x24xf32>, tensor<5x24x24xf32>
                  cond {{
                    %c = stablehlo.compare LT, %i, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %c : tensor<i1>
                  }} do {{
                    %d = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0]
                      : (tensor<24x24xf32>, tensor<24x24xf32>) -> tensor<24x24xf32>
                    %e = stablehlo.sign %d : tensor<24x24xf32>
                    %r = stablehlo.reshape %e : (tensor<24x24xf32>) -> tensor<1x24x24xf32>
                    %j = stablehlo.{slot} : tensor<i32>
                    %u = stablehlo.dynamic_update_slice %ys, %r, %j, %0, %0
                      : (tensor<5x24x24xf32>, tensor<1x24x24xf32>, tensor<i32>, tensor<i32>,
                         tensor<i32>) -> tensor<5x24x24xf32>
                    %n = stablehlo.add %i, %1 : tensor<i32>
                    stablehlo.return %n, %e, %u
                      : tensor<i32>, tensor<24x24xf32>, tensor<5x24x24xf32>
                  }}
                  return %3#2 : tensor<5x24x24xf32>
                }}"
            ),
            &[],
            most,
        );
    }
}
