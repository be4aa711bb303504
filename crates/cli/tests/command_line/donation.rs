//! What the plan says of each donated argument: what its buffer became, and why no more.

use crate::common::run;
use serde_json::Value;

/// An argument with what its buffer is used as, the result in it, and the reason.
type Row = (u64, &'static str, Option<u64>, &'static str);

/// What is said of a program. In its text `V` is `tensor<64xf32>`, `M` `tensor<64x64xf32>`, `S`
/// `tensor<f32>`; `DONOR` and `FOR0`, `FOR1` mark a donated argument and the result it is for.
struct Case {
    about: &'static str,
    arguments: &'static str,
    results: &'static str,
    body: &'static str,
    rows: &'static [Row],
    copies: usize,
}

/// Five steps that multiply the carry, `%x` at first, by `%a`.
const LOOP: &str = "%z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<5> : tensor<i32>
    %o = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %z, %c = %x) : tensor<i32>, V
    cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
    } do {
    %d = stablehlo.multiply %c, %a : V
    %j = stablehlo.add %i, %o : tensor<i32>
    stablehlo.return %j, %d : tensor<i32>, V
    }
    return %r#1 : V";

const CASES: &[Case] = &[
    Case {
        about: "in place",
        arguments: "%a: V DONOR",
        results: "V",
        body: "%y = stablehlo.tanh %a : V
               return %y : V",
        rows: &[(0, "output", Some(0), "")],
        copies: 0,
    },
    Case {
        about: "read later",
        arguments: "%a: V DONOR",
        results: "V, M",
        body: "%y = stablehlo.tanh %a : V
               %q = stablehlo.broadcast_in_dim %a, dims = [0] : (V) -> M
               %r = stablehlo.broadcast_in_dim %y, dims = [1] : (V) -> M
               %s = stablehlo.add %q, %r : M
               return %y, %s : V, M",
        rows: &[(
            0,
            "none",
            None,
            "it is still read by add.4 (5:6) when result 0 is made by tanh.1 (2:6)",
        )],
        copies: 0,
    },
    Case {
        about: "read by each step of a loop",
        arguments: "%a: V DONOR, %x: V",
        results: "V",
        body: LOOP,
        rows: &[(
            0,
            "none",
            None,
            "it is still read by multiply.10 (10:6) when result 0 is begun by arg1.copy10",
        )],
        copies: 1,
    },
    Case {
        about: "a loop's carry",
        arguments: "%a: V, %x: V DONOR",
        results: "V",
        body: LOOP,
        rows: &[(1, "output", Some(0), "")],
        copies: 0,
    },
    Case {
        about: "read in another order than it is written",
        arguments: "%a: M DONOR",
        results: "M",
        body: "%y = stablehlo.transpose %a, dims = [1, 0] : (M) -> M
               return %y : M",
        rows: &[(
            0,
            "none",
            None,
            "result 0 is made by transpose.1 (2:6), which reads it in another order than it writes",
        )],
        copies: 0,
    },
    Case {
        about: "elements of another size",
        arguments: "%a: V DONOR",
        results: "tensor<64xbf16>",
        body: "%y = stablehlo.convert %a : (V) -> tensor<64xbf16>
               return %y : tensor<64xbf16>",
        rows: &[(
            0,
            "none",
            None,
            "result 0 is made by convert.1 (2:6), which reads elements of 4 bytes for those of 2",
        )],
        copies: 0,
    },
    Case {
        about: "another element type of the same size",
        arguments: "%a: tensor<64xi32> DONOR, %b: V",
        results: "V",
        body: "%y = stablehlo.convert %a : (tensor<64xi32>) -> V
               %z = stablehlo.multiply %y, %b : V
               return %z : V",
        rows: &[(0, "output", Some(0), "")],
        copies: 0,
    },
    Case {
        about: "a part of it is overwritten and read again",
        arguments: "%a: V DONOR, %b: V, %w: M, %i: tensor<i32>",
        results: "V, tensor<2048xf32>",
        body: "%z = stablehlo.constant dense<0.0> : S
               %s = stablehlo.slice %b [0:8] : (V) -> tensor<8xf32>
               %u = stablehlo.dynamic_update_slice %a, %s, %i : (V, tensor<8xf32>, tensor<i32>) -> V
               %y = stablehlo.dot_general %w, %u, contracting_dims = [1] x [0] : (M, V) -> V
               %q = stablehlo.dot_general %w, %y, contracting_dims = [1] x [0] : (M, V) -> V
               %v = stablehlo.multiply %q, %u : V
               %t = stablehlo.reduce(%v init: %z) applies stablehlo.add across dimensions = [0] : (V, S) -> S
               %o = stablehlo.broadcast_in_dim %t, dims = [] : (S) -> tensor<2048xf32>
               return %y, %o : V, tensor<2048xf32>",
        rows: &[(
            0,
            "scratch",
            None,
            "its memory holds dynamic_update_slice.6 (4:6), which reduce.13 (8:6) reads after \
             result 0 is made by dot_general.7 (5:6)",
        )],
        copies: 0,
    },
    Case {
        about: "not used, but large enough",
        arguments: "%a: V DONOR, %b: V",
        results: "V",
        body: "%y = stablehlo.tanh %b : V
               return %y : V",
        rows: &[(0, "output", Some(0), "")],
        copies: 0,
    },
    Case {
        about: "smaller than the result",
        arguments: "%a: tensor<32xf32> DONOR, %b: tensor<32xf32> DONOR, %c: V",
        results: "V",
        body: "%p = stablehlo.concatenate %a, %a, dim = 0 : (tensor<32xf32>, tensor<32xf32>) -> V
               %y = stablehlo.add %p, %c : V
               return %y : V",
        rows: &[
            (0, "none", None, "result 0 is larger: 256 B"),
            (1, "none", None, "the program does not use it; result 0 is larger: 256 B"),
        ],
        copies: 0,
    },
    Case {
        about: "smaller than each result",
        arguments: "%a: tensor<32xf32> DONOR, %b: V",
        results: "V, tensor<128xf32>",
        body: "%y = stablehlo.tanh %b : V
               %c = stablehlo.concatenate %b, %b, dim = 0 : (V, V) -> tensor<128xf32>
               return %y, %c : V, tensor<128xf32>",
        rows: &[(
            0,
            "none",
            None,
            "the program does not use it; every result is larger: result 0, the smallest, has 256 B",
        )],
        copies: 0,
    },
    Case {
        about: "larger than the result",
        arguments: "%a: tensor<100xf32> DONOR",
        results: "V",
        body: "%s = stablehlo.slice %a [0:64] : (tensor<100xf32>) -> V
               %y = stablehlo.tanh %s : V
               return %y : V",
        rows: &[(0, "output", Some(0), "")],
        copies: 0,
    },
    Case {
        about: "the larger donor is for the larger result",
        arguments: "%a: tensor<100xf32> DONOR, %b: V DONOR",
        results: "V, tensor<100xf32>",
        body: "%s = stablehlo.slice %a [0:64] : (tensor<100xf32>) -> V
               %y = stablehlo.add %s, %b : V
               %m = stablehlo.sine %a : tensor<100xf32>
               return %y, %m : V, tensor<100xf32>",
        rows: &[(0, "output", Some(1), ""), (1, "output", Some(0), "")],
        copies: 0,
    },
    Case {
        about: "two arguments for one result",
        arguments: "%a: V DONOR, %b: V DONOR",
        results: "V",
        body: "%y = stablehlo.add %a, %b : V
               return %y : V",
        rows: &[
            (0, "output", Some(0), ""),
            (
                1,
                "none",
                None,
                "the result that fits has another donor: result 0 is in argument 0",
            ),
        ],
        copies: 0,
    },
    Case {
        about: "five arguments for four results",
        arguments: "%a: V DONOR, %b: V DONOR, %c: V DONOR, %d: V DONOR, %e: V DONOR",
        results: "V, V, V, V",
        body: "%q = stablehlo.tanh %a : V
               %r = stablehlo.tanh %b : V
               %s = stablehlo.tanh %c : V
               %t = stablehlo.add %d, %e : V
               return %q, %r, %s, %t : V, V, V, V",
        rows: &[
            (0, "output", Some(0), ""),
            (1, "output", Some(1), ""),
            (2, "output", Some(2), ""),
            (3, "output", Some(3), ""),
            (
                4,
                "none",
                None,
                "each result that fits has another donor: result 0 is in argument 0, result 1 is in \
                 argument 1, result 2 is in argument 2, 1 more",
            ),
        ],
        copies: 0,
    },
    Case {
        about: "room for other values",
        arguments: "%a: M DONOR, %w: M",
        results: "tensor<128x64xf32>",
        body: "%z = stablehlo.constant dense<0.0> : S
               %b = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (M, M) -> M
               %c = stablehlo.tanh %b : M
               %d = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (M, M) -> M
               %e = stablehlo.multiply %d, %c : M
               %f = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0, 1] : (M, S) -> S
               %o = stablehlo.broadcast_in_dim %f, dims = [] : (S) -> tensor<128x64xf32>
               return %o : tensor<128x64xf32>",
        rows: &[(0, "scratch", None, "result 0 is larger: 32.00 KiB")],
        copies: 0,
    },
    Case {
        about: "no bytes",
        arguments: "%a: tensor<0xf32> DONOR, %b: V",
        results: "tensor<0xf32>, V",
        body: "%q = stablehlo.tanh %a : tensor<0xf32>
               %y = stablehlo.tanh %b : V
               return %q, %y : tensor<0xf32>, V",
        rows: &[(0, "none", None, "it has no bytes")],
        copies: 0,
    },
    Case {
        about: "results without bytes",
        arguments: "%a: V DONOR",
        results: "tensor<0xf32>",
        body: "%y = stablehlo.slice %a [0:0] : (V) -> tensor<0xf32>
               return %y : tensor<0xf32>",
        rows: &[(0, "none", None, "the program does not use it; the program returns no bytes")],
        copies: 0,
    },
    Case {
        about: "a result as it is",
        arguments: "%a: V DONOR, %b: V DONOR",
        results: "V, V",
        body: "%y = stablehlo.add %a, %b : V
               return %a, %y : V, V",
        rows: &[(0, "output", Some(0), ""), (1, "output", Some(1), "")],
        copies: 0,
    },
    Case {
        about: "a result twice",
        arguments: "%a: V DONOR",
        results: "V, tensor<8x8xf32>",
        body: "%y = stablehlo.reshape %a : (V) -> tensor<8x8xf32>
               return %a, %y : V, tensor<8x8xf32>",
        rows: &[(0, "output", Some(0), "")],
        copies: 1,
    },
    Case {
        about: "a result twice, the second named",
        arguments: "%a: V FOR1",
        results: "V, V",
        body: "return %a, %a : V, V",
        rows: &[(0, "output", Some(1), "")],
        copies: 1,
    },
    Case {
        about: "swapped",
        arguments: "%a: V DONOR, %b: V DONOR",
        results: "V, V",
        body: "return %b, %a : V, V",
        rows: &[(0, "output", Some(1), ""), (1, "output", Some(0), "")],
        copies: 0,
    },
    Case {
        about: "a kept argument is the result",
        arguments: "%a: V, %b: V DONOR",
        results: "V",
        body: "return %a : V",
        rows: &[(1, "output", Some(0), "")],
        copies: 1,
    },
    Case {
        about: "a constant is the result",
        arguments: "%a: V DONOR",
        results: "V",
        body: "%y = stablehlo.constant dense<1.0> : V
               return %y : V",
        rows: &[(0, "output", Some(0), "")],
        copies: 1,
    },
    Case {
        about: "paired anew",
        arguments: "%a: V FOR0, %b: V FOR1",
        results: "V, V",
        body: "%c = stablehlo.tanh %a : V
               %d = stablehlo.sine %b : V
               return %d, %c : V, V",
        rows: &[
            (
                0,
                "output",
                Some(1),
                "the source names result 0; result 0 is in argument 1; result 1 goes here without a \
                 copy",
            ),
            (
                1,
                "output",
                Some(0),
                "the source names result 1, but it is still read by sine.3 (3:6) when result 1 is \
                 made by tanh.2 (2:6); result 1 is in argument 0; result 0 goes here without a copy",
            ),
        ],
        copies: 0,
    },
    Case {
        about: "paired anew as they are",
        arguments: "%a: V FOR0, %b: V FOR1",
        results: "V, V",
        body: "return %b, %a : V, V",
        rows: &[
            (
                0,
                "output",
                Some(1),
                "the source names result 0, but the argument is result 1 as it is; result 0 is in \
                 argument 1; result 1 goes here without a copy",
            ),
            (
                1,
                "output",
                Some(0),
                "the source names result 1, but the argument is result 0 as it is; result 1 is in \
                 argument 0; result 0 goes here without a copy",
            ),
        ],
        copies: 0,
    },
    Case {
        about: "the source's pair takes a copy, and no other result fits",
        arguments: "%a: V FOR0, %w: M",
        results: "V, tensor<128xf32>",
        body: "%y = stablehlo.dot_general %w, %a, contracting_dims = [1] x [0] : (M, V) -> V
               %m = stablehlo.concatenate %a, %y, dim = 0 : (V, V) -> tensor<128xf32>
               return %y, %m : V, tensor<128xf32>",
        rows: &[(0, "output", Some(0), "")],
        copies: 1,
    },
];

fn program(case: &Case) -> String {
    let text = |source: &str| {
        let mut text = source.to_string();
        let words = [
            ("DONOR", "{jax.buffer_donor = true}"),
            ("FOR0", "{tf.aliasing_output = 0 : i32}"),
            ("FOR1", "{tf.aliasing_output = 1 : i32}"),
        ];
        let types = [("V", "tensor<64xf32>"), ("M", "tensor<64x64xf32>"), ("S", "tensor<f32>")];
        for (word, meaning) in words {
            text = text.replace(word, meaning);
        }
        // A type stands alone: the letters of names are small.
        text.split_inclusive([' ', ',', ')', '(', '\n'])
            .map(|piece| {
                let end = piece.len() - usize::from(piece.ends_with([' ', ',', ')', '(', '\n']));
                let (word, rest) = piece.split_at(end);
                let meaning = types.iter().find(|t| t.0 == word).map_or(word, |t| t.1);
                format!("{meaning}{rest}")
            })
            .collect::<String>()
    };
    let lines: Vec<String> = case.body.lines().map(|line| text(line.trim())).collect();
    let (arguments, results) = (text(case.arguments), text(case.results));
    let body = lines.join("\n");
    format!("func.func @main({arguments}) -> ({results}) {{\n{body}\n}}\n")
}

fn plan(source: &str, more: &[&str]) -> Result<Value, String> {
    let arguments = [&["plan", "-", "--threads", "1", "--format", "json"], more].concat();
    let run = run(&arguments, source.as_bytes());
    match run.status {
        Some(0) => Ok(serde_json::from_str(&run.out).expect("JSON")),
        _ => Err(run.err),
    }
}

#[test]
fn each_donor_has_its_reason() {
    for case in CASES {
        let source = program(case);
        let plan = plan(&source, &[]).unwrap_or_else(|e| panic!("{}: {e}\n{source}", case.about));
        let rows = plan["donations"].as_array().expect("a list");
        let found: Vec<(u64, &str, Option<u64>, &str)> = rows
            .iter()
            .map(|row| {
                (
                    row["argument"].as_u64().expect("a number"),
                    row["used_as"].as_str().expect("a word"),
                    row["output"].as_u64(),
                    row["reason"].as_str().expect("a text"),
                )
            })
            .collect();
        assert_eq!(found, case.rows, "{}", case.about);
        let copies = plan["copies"].as_array().expect("a list");
        assert_eq!(copies.len(), case.copies, "{}: {copies:?}", case.about);
    }
}

#[test]
fn strict_aliases_bind_only_what_the_source_names() {
    let case = |about: &str| {
        program(CASES.iter().find(|case| case.about == about).expect("one of the table"))
    };
    let strictly = |source: &str| plan(source, &["--strict-aliases"]);
    let outputs = |plan: &Value| -> Vec<Option<u64>> {
        let all = plan["donations"].as_array().expect("a list");
        all.iter().map(|d| d["output"].as_u64()).collect()
    };
    // Donors that the source pairs with nothing take what is free.
    let kept = strictly(&case("in place")).expect("a plan");
    assert_eq!(outputs(&kept), [Some(0)]);
    // But not what it names for others.
    let named = "func.func @main(%a: tensor<64xf32> {tf.aliasing_output = 0 : i32}, \
                 %b: tensor<64xf32> {jax.buffer_donor = true}) -> tensor<64xf32> {
  %c = stablehlo.sine %b : tensor<64xf32>
  return %c : tensor<64xf32>
}
";
    let plan = strictly(named).expect("a plan");
    assert_eq!(outputs(&plan), [Some(0), None]);
    let crossed = strictly(&case("paired anew")).expect("a plan with a copy");
    assert_eq!(outputs(&crossed), [Some(0), Some(1)]);
    assert_eq!(crossed["copies"].as_array().map(Vec::len), Some(1));
    let error = strictly(&case("paired anew as they are")).expect_err("it cannot be kept");
    let wanted = "argument 0 cannot become result 0 as the source names it: result 1";
    assert!(error.contains(wanted) && error.contains("--> <stdin>:1:"), "{error}");
}
