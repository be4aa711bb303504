//! Every command does what the command line's contract says.

use crate::common::{Folder, root, run};
use serde_json::Value;

const EXAMPLE: &str = "examples/mlp_train_step/program.mlir";
const INPUTS: &str = "examples/mlp_train_step/inputs.safetensors";
const OUTPUTS: &str = "examples/mlp_train_step/outputs.safetensors";
const DOUBLE: &str =
    "func.func @main(%x: tensor<4xf32> {jax.buffer_donor = true}) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
";

/// Runs a command that must do its work, and gives what it prints.
fn done(arguments: &[&str], input: &[u8]) -> String {
    let run = run(arguments, input);
    assert_eq!(run.status, Some(0), "{arguments:?}: {}", run.err);
    assert_eq!(run.err, "", "{arguments:?}");
    run.out
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn the_first_command_of_the_readme_works() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let block = readme.split("```").find(|block| block.starts_with("sh\n")).expect("commands");
    let words: Vec<&str> = block.split_whitespace().filter(|w| *w != "\\").collect();
    let at = words.iter().position(|w| *w == "--").expect("cargo's arguments end");
    let out = done(&words[at + 1..], b"");
    assert!(out.contains("Donated: 12 of 12 arguments become results"), "{out}");
    assert!(out.contains("all 13 result(s) as expected"), "{out}");
}

#[test]
fn plan_prints_text_json_and_a_page() {
    let text = done(&["plan", EXAMPLE, "--threads", "1"], b"");
    assert!(text.contains("The arena is fullest at point"), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    let long = done(&["plan", EXAMPLE, "--threads", "1", "--explain"], b"");
    assert!(long.contains("Values, by the points"), "{long}");
    assert!(long.contains("What the plan would be without"), "{long}");
    assert!(long.contains("tests/export.py:"), "{long}");

    let plan = json(&done(&["plan", EXAMPLE, "--format", "json"], b""));
    let mut wanted = [
        "program",
        "threads",
        "argument_bytes",
        "output_bytes",
        "alias_bytes",
        "constant_bytes",
        "arena_bytes",
        "arena_without_scratch_bytes",
        "library_scratch_bytes",
        "lower_bound_bytes",
        "peak_bytes",
        "optimal",
        "order",
        "order_bound_bytes",
        "order_expected_bytes",
        "order_least",
        "solver",
        "copies",
        "donations",
        "values",
    ];
    wanted.sort_unstable();
    assert_eq!(keys(&plan), wanted);
    let mut value = [
        "name", "op", "type", "bytes", "buffer", "region", "index", "offset", "start", "end",
        "source",
    ];
    value.sort_unstable();
    assert_eq!(keys(&plan["values"][0]), value);
    assert_eq!(keys(&plan["donations"][0]), ["argument", "bytes", "output", "reason", "used_as"]);

    let folder = Folder::new();
    let page = folder.path("plan.html");
    done(&["plan", EXAMPLE, "--format", "html", "-o", &page], b"");
    assert!(std::fs::read_to_string(&page).expect("the page").ends_with("</html>\n"));
    assert_eq!(folder.names(), ["plan.html"]);
}

#[test]
fn plan_says_what_each_idea_saves() {
    // A product from the donor's memory, and steps that can be fused.
    let program = "func.func @main(%a: tensor<64x64xf32> {jax.buffer_donor = true}, \
                   %w: tensor<64x64xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = stablehlo.tanh %b : tensor<64x64xf32>
  %d = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = stablehlo.multiply %d, %c : tensor<64x64xf32>
  %f = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<f32>
  return %f : tensor<f32>
}
";
    let arguments = ["plan", "-", "--threads", "1", "--format", "json"];
    let plan = json(&done(&arguments, program.as_bytes()));
    assert!(plan["ablation"].is_null());
    let plan = json(&done(&[&arguments[..], &["--explain"]].concat(), program.as_bytes()));
    let rows = plan["ablation"].as_array().expect("a list");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["without"].as_str()).collect();
    let wanted = [
        "reordering",
        "sharing in place",
        "arguments and results as room",
        "the packing search",
        "fusion",
    ];
    assert_eq!(names, wanted);
    let bytes = |value: &Value| value["arena_bytes"].as_u64().expect("a number");
    assert!(bytes(&rows[2]) >= bytes(&plan) + 16384, "{rows:?}");
    assert!(rows.iter().all(|row| bytes(row) >= bytes(&plan)), "{rows:?}");
}

#[test]
fn strict_aliases_keep_the_pairs_or_fail() {
    let crossed = |second: &str| {
        format!(
            "func.func @main(%a: tensor<64xf32> {{tf.aliasing_output = 0 : i32}}, \
             %b: tensor<64xf32> {{tf.aliasing_output = 1 : i32}}) -> \
             (tensor<64xf32>, tensor<64xf32>) {{
  %c = stablehlo.tanh %a : tensor<64xf32>
  %d = stablehlo.sine %b : tensor<64xf32>
  return {second}, %c : tensor<64xf32>, tensor<64xf32>
}}
"
        )
    };
    let arguments = ["plan", "-", "--format", "json"];
    let strictly = [&arguments[..], &["--strict-aliases"]].concat();
    let outputs = |plan: &Value| -> Vec<Option<u64>> {
        let all = plan["donations"].as_array().expect("a list");
        all.iter().map(|d| d["output"].as_u64()).collect()
    };
    // Without it the pairs cross over, and the report says so.
    let plan = json(&done(&arguments, crossed("%d").as_bytes()));
    assert_eq!(outputs(&plan), [Some(1), Some(0)]);
    let reason = plan["donations"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("the source names result 0"), "{reason}");
    assert_eq!(plan["copies"].as_array().map(Vec::len), Some(0));
    // With it a copy keeps them.
    let plan = json(&done(&strictly, crossed("%d").as_bytes()));
    assert_eq!(outputs(&plan), [Some(0), Some(1)]);
    assert_eq!(plan["copies"].as_array().map(Vec::len), Some(1));
    // An argument that is a result as it is cannot be another one.
    let run = run(&strictly, crossed("%b").as_bytes());
    assert_eq!(run.status, Some(1), "{}", run.out);
    assert!(run.err.contains("argument 0 cannot become result 0"), "{}", run.err);
}

#[test]
fn standard_input_is_a_program() {
    let plan = json(&done(&["plan", "-", "--format", "json"], DOUBLE.as_bytes()));
    assert_eq!(plan["program"], "<stdin>");
    assert_eq!(plan["alias_bytes"], 64);
    assert_eq!(plan["values"][1]["source"], "2:8");
}

#[test]
fn run_writes_and_compares() {
    let folder = Folder::new();
    let out = folder.path("out.safetensors");
    done(&["run", EXAMPLE, "--inputs", INPUTS, "--outputs", &out], b"");
    assert_eq!(folder.names(), ["out.safetensors"]);
    // Two runs agree bit for bit, whatever the threads.
    let exact =
        ["run", EXAMPLE, "--inputs", INPUTS, "--expect", &out, "--rtol", "0", "--atol", "0"];
    done(&exact, b"");
    done(&[&exact[..], &["--threads", "2"]].concat(), b"");
    let wrong = run(
        &["run", EXAMPLE, "--inputs", INPUTS, "--expect", OUTPUTS, "--rtol", "0", "--atol", "0"],
        b"",
    );
    assert_eq!(wrong.status, Some(1));
    assert!(wrong.err.contains("error: result 0: "), "{}", wrong.err);
    assert!(wrong.err.contains("elements differ, first at ["), "{}", wrong.err);
}

#[test]
fn bench_prints_figures() {
    let inputs = ["bench", EXAMPLE, "--inputs", INPUTS];
    let figures = json(&done(&[&inputs[..], &["--format", "json"]].concat(), b""));
    let mut wanted =
        ["program", "threads", "compile_s", "runs", "run_s_median", "run_s_min", "arena_bytes"];
    wanted.sort_unstable();
    assert_eq!(keys(&figures), wanted);
    assert!(figures["runs"].as_u64() >= Some(5));
    let profile = done(&[&inputs[..], &["--profile"]].concat(), b"");
    assert!(profile.contains("parse") && profile.contains("dot_general"), "{profile}");
}

#[test]
fn every_stage_is_printed() {
    for stage in ["stablehlo", "ir", "fused", "kernels", "program", "clif", "asm"] {
        let text = done(&["emit", EXAMPLE, "--stage", stage], b"");
        assert!(!text.is_empty(), "{stage}");
    }
    // What is printed is a program.
    let text = done(&["emit", EXAMPLE, "--stage", "stablehlo"], b"");
    let again = done(&["emit", "-", "--stage", "stablehlo"], text.as_bytes());
    assert_eq!(text, again);
}

#[test]
fn own_checks_pass() {
    for arguments in [&["check", "tests/checks"][..], &["check", "tests/checks", "--interpret"]] {
        let report = json(&done(&[arguments, &["--format", "json"]].concat(), b""));
        assert_eq!(keys(&report), ["failed", "passed", "programs", "unsupported"]);
        assert_eq!(report["failed"], 0, "{report}");
        assert_eq!(report["unsupported"], 0, "{report}");
        assert!(report["passed"].as_u64() >= Some(18), "{report}");
        assert_eq!(keys(&report["programs"][0]), ["detail", "path", "status"]);
    }
}

#[test]
fn checks_tell_failed_from_unsupported() {
    let folder = Folder::new();
    let body = |op: &str| {
        format!(
            "func.func @main() {{\n  %x = stablehlo.constant dense<1.0> : tensor<f32>\n  {op}\n  return\n}}\n"
        )
    };
    let wrong = body("check.expect_eq_const %x, dense<2.0> : tensor<f32>");
    let unknown = body("%y = \"stablehlo.uniform_quantize\"(%x) : (tensor<f32>) -> tensor<f32>");
    let all = format!("{wrong}// -----\n{unknown}// -----\n// A comment alone.\n");
    folder.file("two.mlir", all);
    folder.file("torn.mlir", &wrong[..22]);
    let found = run(&["check", &folder.path(""), "--format", "json"], b"");
    assert_eq!(found.status, Some(1));
    let report = json(&found.out);
    let status: Vec<&Value> =
        report["programs"].as_array().expect("a list").iter().map(|p| &p["status"]).collect();
    assert_eq!(status, ["failed", "failed", "unsupported"]);
    let detail = report["programs"][1]["detail"].as_str().expect("a text");
    assert!(detail.contains("element 0 is 1e0, expected 2e0"), "{detail}");
}

#[test]
fn pack_prints_figures_and_writes_offsets() {
    let folder = Folder::new();
    let problem = folder.file("p.csv", "id,lower,upper,size\na,0,3,10\nb,2,5,20\nc,4,9,10\n");
    let solution = folder.path("s.csv");
    let figures = done(&["pack", &problem, "-o", &solution], b"");
    assert!(figures.starts_with("height 30, lower bound 30, optimal, "), "{figures}");
    let text = std::fs::read_to_string(&solution).expect("the solution");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["id", "lower", "upper", "size", "offset"]);
    let number = |row: usize, column: usize| rows[row][column].parse::<u64>().expect("a number");
    for (a, b) in [(1, 2), (2, 3)] {
        let (x, y) = (number(a, 4), number(b, 4));
        assert!(x + number(a, 3) <= y || y + number(b, 3) <= x, "{text}");
    }
    let out = run(&["pack", &problem, "--capacity", "29"], b"");
    assert_eq!(out.status, Some(1));
    assert!(out.err.contains("30 are live at one time"), "{}", out.err);
}
