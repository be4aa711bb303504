//! Loops that stack, with what uses the stacked values: results must not change, and the stacked
//! values must be gone where they can be.

use crate::passes::{algebra, canonicalize, cse, dce, fold, inline, loops, trips};
use jaxrs_ir::ops::convert::evaluate_parts;
use jaxrs_ir::{DType, Function, Literal, TensorType, interpret, text, verify};

/// Six steps of `h -> sin(h) + x[i]` that stack `h`, forwards or backwards, in `ys`, and its halves
/// in `zs`; then `tail`, which uses them, and gives `results`.
fn program(dtype: &str, rising: bool, tail: &str, results: &str) -> String {
    let slot = match rising {
        true => "%slot = stablehlo.add %i, %zero : tensor<i32>",
        false => "%slot = stablehlo.subtract %five, %i : tensor<i32>",
    };
    let values: Vec<String> = (0..results.split(", ").count()).map(|n| format!("%r{n}")).collect();
    let values = values.join(", ");
    format!(
        "func.func public @main(%h0: tensor<2x3xT>, %x: tensor<6x2x3xT>, %at: tensor<i32>)
             -> ({results}) {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %five = stablehlo.constant dense<5> : tensor<i32>
          %none = stablehlo.constant dense<0.0> : tensor<T>
          %lowest = stablehlo.constant dense<0xLOW> : tensor<T>
          %empty = stablehlo.broadcast_in_dim %none, dims = [] : (tensor<T>) -> tensor<6x2x3xT>
          %out:4 = stablehlo.while(%i = %zero, %h = %h0, %stack = %empty, %other = %empty)
              : tensor<i32>, tensor<2x3xT>, tensor<6x2x3xT>, tensor<6x2x3xT>
          cond {{
            %six = stablehlo.constant dense<6> : tensor<i32>
            %more = stablehlo.compare LT, %i, %six : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %more : tensor<i1>
          }} do {{
            %one = stablehlo.constant dense<1> : tensor<i32>
            {slot}
            %row = stablehlo.dynamic_slice %x, %slot, %zero, %zero, sizes = [1, 2, 3]
                : (tensor<6x2x3xT>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xT>
            %flat = stablehlo.reshape %row : (tensor<1x2x3xT>) -> tensor<2x3xT>
            %sine = stablehlo.sine %h : tensor<2x3xT>
            %next = stablehlo.add %sine, %flat : tensor<2x3xT>
            %half = stablehlo.multiply %next, %next : tensor<2x3xT>
            %y = stablehlo.reshape %next : (tensor<2x3xT>) -> tensor<1x2x3xT>
            %z = stablehlo.reshape %half : (tensor<2x3xT>) -> tensor<1x2x3xT>
            %more = stablehlo.dynamic_update_slice %stack, %y, %slot, %zero, %zero
                : (tensor<6x2x3xT>, tensor<1x2x3xT>, tensor<i32>, tensor<i32>, tensor<i32>)
                -> tensor<6x2x3xT>
            %too = stablehlo.dynamic_update_slice %other, %z, %slot, %zero, %zero
                : (tensor<6x2x3xT>, tensor<1x2x3xT>, tensor<i32>, tensor<i32>, tensor<i32>)
                -> tensor<6x2x3xT>
            %after = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %after, %next, %more, %too
                : tensor<i32>, tensor<2x3xT>, tensor<6x2x3xT>, tensor<6x2x3xT>
          }}
          {tail}
          return {values} : {results}
        }}"
    )
    .replace("xT>", &format!("x{dtype}>"))
    .replace("<T>", &format!("<{dtype}>"))
    .replace("0xLOW", if dtype == "f64" { "0xFFF0000000000000" } else { "-1.0e4" })
    .replace("%ys", "%out#2")
    .replace("%zs", "%out#3")
    .replace("%last", "%out#1")
}

fn prepared(source: &str) -> Function {
    let module = text::parse(source, "test").unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut f = inline::run(&module).expect("one function");
    for pass in [
        canonicalize::run,
        fold::run,
        algebra::run,
        cse::run,
        trips::run,
        loops::run,
        algebra::run,
        dce::run,
    ] {
        pass(&mut f);
    }
    f
}

fn input(ty: &TensorType, seed: u64, at: i64) -> Literal {
    Literal::tabulate(ty.clone(), |n| match ty.dtype {
        DType::I32 => [at as u64 & 0xFFFF_FFFF, 0],
        dtype => {
            let value = ((n + 3 * seed) * 2654435761 % 1000) as f64 / 500.0 - 1.0;
            evaluate_parts([value.to_bits(), 0], DType::F64, dtype)
        }
    })
}

fn number(literal: &Literal, n: u64) -> f64 {
    let part = literal.ty().dtype.part();
    f64::from_bits(evaluate_parts(literal.parts(n), part, DType::F64)[0])
}

/// Runs the pass: what it makes gives the same results. The text of the result.
fn same(source: &str) -> String {
    same_after(source, super::run)
}

fn same_after(source: &str, pass: fn(&mut Function)) -> String {
    let before = prepared(source);
    let mut after = before.clone();
    pass(&mut after);
    dce::run(&mut after);
    let text = text::print_function(&after);
    let errors = verify::verify_function(&after, None);
    assert!(errors.is_empty(), "{errors:?}\n{text}");
    for at in [3, -7, 9] {
        let parameters = before.parameters().iter().enumerate();
        let arguments: Vec<Literal> =
            parameters.map(|(n, &p)| input(before.ty(p), n as u64, at)).collect();
        let run = |f: &Function| interpret::call(None, f, &arguments).expect("it runs");
        for (n, (a, b)) in run(&after).iter().zip(&run(&before)).enumerate() {
            assert_eq!(a.ty(), b.ty());
            let tolerance = match a.ty().dtype {
                DType::BF16 => 2e-2,
                DType::F64 => 1e-12,
                _ => 1e-5,
            };
            for element in 0..a.ty().len() {
                let (x, y) = (number(a, element), number(b, element));
                let near = (x - y).abs() <= tolerance * (1.0 + y.abs());
                assert!(near, "result {n} element {element}: {x} for {y}\n{source}\n{text}");
            }
        }
    }
    text
}

/// How many tensors of the stacked type the loop carries.
fn stacked(text: &str, dtype: &str) -> usize {
    let line = text.lines().find(|line| line.contains("stablehlo.while")).expect("a loop");
    let types = line.split_once(") : ").expect("types of the carries").1;
    types.matches(&format!("6x2x3x{dtype}")).count()
}

/// Tails with the types of their results; none needs the stacked values.
const SERVED: &[(&str, &str)] = &[
    // One step: the last, the first, one between, at an index; through ops.
    (
        "%s = stablehlo.slice %ys [5:6, 0:2, 0:3] : (tensor<6x2x3xT>) -> tensor<1x2x3xT>
         %r0 = stablehlo.reshape %s : (tensor<1x2x3xT>) -> tensor<2x3xT>",
        "tensor<2x3xT>",
    ),
    (
        "%r0 = stablehlo.slice %ys [0:1, 0:2, 1:3] : (tensor<6x2x3xT>) -> tensor<1x2x2xT>
         %r1 = stablehlo.slice %zs [2:3, 1:2, 0:3:2] : (tensor<6x2x3xT>) -> tensor<1x1x2xT>",
        "tensor<1x2x2xT>, tensor<1x1x2xT>",
    ),
    (
        "%r0 = stablehlo.dynamic_slice %ys, %at, %zero, %zero, sizes = [1, 2, 3]
            : (tensor<6x2x3xT>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xT>",
        "tensor<1x2x3xT>",
    ),
    (
        "%p = stablehlo.multiply %ys, %zs : tensor<6x2x3xT>
         %q = stablehlo.add %p, %x : tensor<6x2x3xT>
         %t = stablehlo.transpose %q, dims = [1, 0, 2] : (tensor<6x2x3xT>) -> tensor<2x6x3xT>
         %r0 = stablehlo.slice %t [0:2, 4:5, 0:3] : (tensor<2x6x3xT>) -> tensor<2x1x3xT>
         %r1 = stablehlo.dynamic_slice %t, %zero, %at, %zero, sizes = [1, 1, 3]
            : (tensor<2x6x3xT>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x3xT>",
        "tensor<2x1x3xT>, tensor<1x1x3xT>",
    ),
    // Reductions, of several axes, several of one, through ops.
    (
        "%r0 = stablehlo.reduce(%ys init: %none) applies stablehlo.add across dimensions = [0]
            : (tensor<6x2x3xT>, tensor<T>) -> tensor<2x3xT>
         %r1 = stablehlo.reduce(%ys init: %lowest) applies stablehlo.maximum
            across dimensions = [0, 2] : (tensor<6x2x3xT>, tensor<T>) -> tensor<2xT>
         %r2 = stablehlo.reduce(%zs init: %none) applies stablehlo.add
            across dimensions = [0, 1, 2] : (tensor<6x2x3xT>, tensor<T>) -> tensor<T>",
        "tensor<2x3xT>, tensor<2xT>, tensor<T>",
    ),
    (
        "%e = stablehlo.exponential %x : tensor<6x2x3xT>
         %p = stablehlo.multiply %ys, %e : tensor<6x2x3xT>
         %n = stablehlo.iota dim = 0 : tensor<6x2x3xT>
         %q = stablehlo.add %p, %n : tensor<6x2x3xT>
         %f = stablehlo.reshape %q : (tensor<6x2x3xT>) -> tensor<12x3xT>
         %t = stablehlo.tanh %f : tensor<12x3xT>
         %r0 = stablehlo.reduce(%t init: %none) applies stablehlo.add across dimensions = [0]
            : (tensor<12x3xT>, tensor<T>) -> tensor<3xT>",
        "tensor<3xT>",
    ),
    (
        "%w = stablehlo.slice %ys [2:5, 0:2, 0:3] : (tensor<6x2x3xT>) -> tensor<3x2x3xT>
         %v = stablehlo.reverse %w, dims = [0, 2] : tensor<3x2x3xT>
         %u = stablehlo.slice %x [1:4, 0:2, 0:3] : (tensor<6x2x3xT>) -> tensor<3x2x3xT>
         %m = stablehlo.multiply %v, %u : tensor<3x2x3xT>
         %r0 = stablehlo.reduce(%m init: %none) applies stablehlo.add across dimensions = [0]
            : (tensor<3x2x3xT>, tensor<T>) -> tensor<2x3xT>
         %r1 = stablehlo.slice %m [1:2, 0:2, 0:3] : (tensor<3x2x3xT>) -> tensor<1x2x3xT>",
        "tensor<2x3xT>, tensor<1x2x3xT>",
    ),
    // Values stacked in place of larger ones.
    (
        "%r0 = stablehlo.reduce(%ys init: %none) applies stablehlo.add across dimensions = [2]
            : (tensor<6x2x3xT>, tensor<T>) -> tensor<6x2xT>
         %s = stablehlo.slice %zs [1:5, 0:2, 1:2] : (tensor<6x2x3xT>) -> tensor<4x2x1xT>
         %r1 = stablehlo.negate %s : tensor<4x2x1xT>",
        "tensor<6x2xT>, tensor<4x2x1xT>",
    ),
    (
        "%s = stablehlo.slice %ys [0:2, 0:2, 0:3] : (tensor<6x2x3xT>) -> tensor<2x2x3xT>
         %r0 = stablehlo.reverse %s, dims = [0] : tensor<2x2x3xT>
         %r1 = stablehlo.slice %zs [4:6, 0:2, 0:3] : (tensor<6x2x3xT>) -> tensor<2x2x3xT>",
        "tensor<2x2x3xT>, tensor<2x2x3xT>",
    ),
    // A reduction that is no single op takes its elements in order.
    (
        "%r:2 = stablehlo.reduce(%ys init: %lowest), (%zs init: %none) across dimensions = [0]
            : (tensor<6x2x3xT>, tensor<6x2x3xT>, tensor<T>, tensor<T>)
            -> (tensor<2x3xT>, tensor<2x3xT>)
            reducer(%a: tensor<T>, %c: tensor<T>) (%b: tensor<T>, %d: tensor<T>) {
              %more = stablehlo.compare GT, %a, %c : (tensor<T>, tensor<T>) -> tensor<i1>
              %p = stablehlo.select %more, %a, %c : tensor<i1>, tensor<T>
              %q = stablehlo.select %more, %b, %d : tensor<i1>, tensor<T>
              stablehlo.return %p, %q : tensor<T>, tensor<T>
            }
         %r0 = stablehlo.add %r#0, %r#0 : tensor<2x3xT>
         %r1 = stablehlo.add %r#1, %r#1 : tensor<2x3xT>",
        "tensor<2x3xT>, tensor<2x3xT>",
    ),
];

/// Tails that need all of what is stacked, or cost less if they have it, and how many stacked
/// values remain.
const KEPT: &[(&str, &str, usize)] = &[
    ("%r0 = stablehlo.add %ys, %zs : tensor<6x2x3xT>", "tensor<6x2x3xT>", 1),
    (
        "%r0 = stablehlo.reduce(%ys init: %none) applies stablehlo.add across dimensions = [0]
            : (tensor<6x2x3xT>, tensor<T>) -> tensor<2x3xT>
         %all = stablehlo.broadcast_in_dim %r0, dims = [1, 2]
            : (tensor<2x3xT>) -> tensor<6x2x3xT>
         %r1 = stablehlo.subtract %ys, %all : tensor<6x2x3xT>",
        "tensor<2x3xT>, tensor<6x2x3xT>",
        1,
    ),
    (
        "%f = stablehlo.reshape %ys : (tensor<6x2x3xT>) -> tensor<4x9xT>
         %r0 = stablehlo.reduce(%f init: %none) applies stablehlo.add across dimensions = [0]
            : (tensor<4x9xT>, tensor<T>) -> tensor<9xT>",
        "tensor<9xT>",
        1,
    ),
    ("%r0 = stablehlo.tanh %ys : tensor<6x2x3xT>", "tensor<6x2x3xT>", 1),
];

#[test]
fn results_are_the_same() {
    for dtype in ["f32", "f64", "bf16"] {
        for rising in [true, false] {
            for (tail, results) in SERVED {
                let text = same(&program(dtype, rising, tail, results));
                // A reduction that is no single op needs its elements in order.
                let expected = if tail.contains("reducer") && !rising { 2 } else { 0 };
                assert_eq!(stacked(&text, dtype), expected, "{tail}\n{text}");
            }
            for (tail, results, expected) in KEPT {
                let text = same(&program(dtype, rising, tail, results));
                assert_eq!(stacked(&text, dtype), *expected, "{tail}\n{text}");
            }
        }
    }
}

#[test]
fn a_stacked_carry_is_read_in_its_slot() {
    for (first, step, end) in [(0, 1, 5), (3, 2, 13)] {
        for rising in [true, false] {
            let slot = if rising { "%up" } else { "%down" };
            let source = format!(
                "func.func public @main(%h0: tensor<8x32xf32>, %w: tensor<32x32xf32>)
                     -> tensor<5x8x32xf32> {{
                  %zero = stablehlo.constant dense<0> : tensor<i32>
                  %first = stablehlo.constant dense<{first}> : tensor<i32>
                  %four = stablehlo.constant dense<4> : tensor<i32>
                  %none = stablehlo.constant dense<0.0> : tensor<5x8x32xf32>
                  %out:4 = stablehlo.while(%i = %first, %h = %h0, %ys = %none, %n = %zero)
                      : tensor<i32>, tensor<8x32xf32>, tensor<5x8x32xf32>, tensor<i32>
                  cond {{
                    %end = stablehlo.constant dense<{end}> : tensor<i32>
                    %more = stablehlo.compare LT, %i, %end
                        : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %more : tensor<i1>
                  }} do {{
                    %dot = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0]
                        : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
                    %scale = stablehlo.constant dense<0.1> : tensor<8x32xf32>
                    %scaled = stablehlo.multiply %dot, %scale : tensor<8x32xf32>
                    %next = stablehlo.tanh %scaled : tensor<8x32xf32>
                    %y = stablehlo.reshape %next : (tensor<8x32xf32>) -> tensor<1x8x32xf32>
                    %by = stablehlo.constant dense<{step}> : tensor<i32>
                    %one = stablehlo.constant dense<1> : tensor<i32>
                    %up = stablehlo.add %n, %zero : tensor<i32>
                    %down = stablehlo.subtract %four, %n : tensor<i32>
                    %all = stablehlo.dynamic_update_slice %ys, %y, {slot}, %zero, %zero
                        : (tensor<5x8x32xf32>, tensor<1x8x32xf32>, tensor<i32>, tensor<i32>,
                           tensor<i32>) -> tensor<5x8x32xf32>
                    %j = stablehlo.add %i, %by : tensor<i32>
                    %m = stablehlo.add %n, %one : tensor<i32>
                    stablehlo.return %j, %next, %all, %m
                        : tensor<i32>, tensor<8x32xf32>, tensor<5x8x32xf32>, tensor<i32>
                  }}
                  return %out#2 : tensor<5x8x32xf32>
                }}"
            );
            let text = same_after(&source, super::previous::run);
            let line = text.lines().find(|line| line.contains("stablehlo.while")).expect("a loop");
            assert!(!line.contains("tensor<8x32xf32>"), "{text}");
        }
    }
}

#[test]
fn an_odd_step_is_peeled() {
    for (first, step, end) in [(0, 1, 5), (1, 2, 11)] {
        for odd in [0, 4] {
            let source = format!(
                "func.func public @main(%h0: tensor<16x16xf32>, %x: tensor<5x16x16xf32>)
                     -> tensor<16x16xf32> {{
                  %zero = stablehlo.constant dense<0> : tensor<i32>
                  %first = stablehlo.constant dense<{first}> : tensor<i32>
                  %odd = stablehlo.constant dense<{odd}> : tensor<i32>
                  %out:3 = stablehlo.while(%i = %first, %h = %h0, %n = %zero)
                      : tensor<i32>, tensor<16x16xf32>, tensor<i32>
                  cond {{
                    %end = stablehlo.constant dense<{end}> : tensor<i32>
                    %more = stablehlo.compare LT, %i, %end
                        : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %more : tensor<i1>
                  }} do {{
                    %by = stablehlo.constant dense<{step}> : tensor<i32>
                    %one = stablehlo.constant dense<1> : tensor<i32>
                    %s = stablehlo.dynamic_slice %x, %n, %zero, %zero, sizes = [1, 16, 16]
                        : (tensor<5x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>)
                        -> tensor<1x16x16xf32>
                    %w = stablehlo.reshape %s : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
                    %is = stablehlo.compare EQ, %n, %odd
                        : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    %v = stablehlo.select %is, %h0, %w : tensor<i1>, tensor<16x16xf32>
                    %dot = stablehlo.dot_general %h, %v, contracting_dims = [1] x [0]
                        : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
                    %next = stablehlo.tanh %dot : tensor<16x16xf32>
                    %j = stablehlo.add %i, %by : tensor<i32>
                    %m = stablehlo.add %n, %one : tensor<i32>
                    stablehlo.return %j, %next, %m
                        : tensor<i32>, tensor<16x16xf32>, tensor<i32>
                  }}
                  return %out#1 : tensor<16x16xf32>
                }}"
            );
            let text = same_after(&source, super::peel::run);
            assert!(!text.contains("select"), "{text}");
        }
    }
}
