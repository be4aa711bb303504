//! Wrong input comes back as an error with place and facts, and with the right exit status.

use crate::common::{Folder, run};

const EXAMPLE: &str = "examples/mlp_train_step/program.mlir";
const INPUTS: &str = "examples/mlp_train_step/inputs.safetensors";

/// A command's status, and what standard error must hold.
fn refuse(arguments: &[&str], input: &[u8], status: i32, wanted: &[&str]) {
    let run = run(arguments, input);
    assert_eq!(run.status, Some(status), "{arguments:?}: {}", run.err);
    assert!(run.err.starts_with("error: "), "{arguments:?}: {}", run.err);
    for text in wanted {
        assert!(run.err.contains(text), "{arguments:?}: no `{text}` in: {}", run.err);
    }
    assert!(!run.err.contains("panicked"), "{arguments:?}: {}", run.err);
    assert_eq!(run.out, "", "{arguments:?}");
}

fn main(body: &str) -> String {
    format!("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{\n  {body}\n}}\n")
}

#[test]
fn programs() {
    let add = "%0 = stablehlo.add %a, %a : tensor<4xf32>\n  return %0 : tensor<4xf32>";
    let torn = &main(add)[..70];
    let calls = "func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @main(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}";
    let mut bomb = String::from(
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %0 = call @f0(%a) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}\n",
    );
    for n in 0..40 {
        let call = |x: &str| match n {
            39 => format!("stablehlo.sine {x} : tensor<f32>"),
            _ => format!("call @f{}({x}) : (tensor<f32>) -> tensor<f32>", n + 1),
        };
        bomb += &format!(
            "func.func private @f{n}(%a: tensor<f32>) -> tensor<f32> {{\n  %0 = {}\n  %1 = {}\n  return %1 : tensor<f32>\n}}\n",
            call("%a"),
            call("%0")
        );
    }
    // Each can be addressed, all together have more bytes than 64 bits count.
    let half = "tensor<35184372088831xf32>";
    let many = |op: &str| {
        (0..200).map(|n| format!("  %{n} = {op}(%a) : ({half}) -> {half}\n")).collect::<String>()
    };
    let sum = format!(
        "func.func @main(%a: {half}) -> {half} {{\n{}  return %a : {half}\n}}\n\
         func.func private @f(%a: {half}) -> {half} {{\n{}  return %a : {half}\n}}\n",
        many("call @f"),
        many("\"stablehlo.sine\"")
    );
    let nested = "\"stablehlo.case\"(%a) ({\n".repeat(20_000);
    let many = "[".repeat(4_000_000);
    let at = "<stdin>:2:";
    let table: [(Vec<u8>, &[&str]); 21] = [
        (b"".into(), &["no function", "<stdin>:1:1"]),
        (b"\x7fELF\x02\xff\xfe".into(), &["not UTF-8", "<stdin>:1:"]),
        (b"ML\xefR\x01StableHLO".into(), &["bytecode", "as_text()"]),
        (torn.into(), &["expected", "<stdin>:2:"]),
        (main("%0 = stablehlo.add %a, %a : tensor<5xf32>\n  return %a : tensor<4xf32>").into(), &["tensor<4xf32>", "tensor<5xf32>", at]),
        (main("%0 = stablehlo.wibble %a : tensor<4xf32>\n  %1 = foo.bar %a : tensor<4xf32>\n  return %a : tensor<4xf32>").into(), &["stablehlo.wibble is not supported", "foo.bar is not supported", at, "<stdin>:3:"]),
        (main("%0 = stablehlo.add %a, %b : tensor<4xf32>\n  return %0 : tensor<4xf32>").into(), &["%b", at]),
        (main("%0 = stablehlo.slice %a [0:9] : (tensor<4xf32>) -> tensor<9xf32>\n  return %a : tensor<4xf32>").into(), &["slice", "9", at]),
        (main("%0 = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<5xf32>\n  return %a : tensor<4xf32>").into(), &["reshape", at]),
        (main("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>\n  return %a : tensor<4xf32>").into(), &["dense", "tensor<3xf32>", at]),
        (main("%0 = stablehlo.constant dense<\"0x00zz\"> : tensor<4xf32>\n  return %0 : tensor<4xf32>").into(), &["hexadecimal", at]),
        (main("return").into(), &["@main returns 0 value(s)"]),
        (b"func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n  return %a : tensor<?xf32>\n}".into(), &["dynamic", "fixed sizes", "<stdin>:1:"]),
        (b"func.func @main(%a: tensor<4294967296x4294967296x4294967296xf32>) {\n  return\n}".into(), &["no machine can address"]),
        (calls.into(), &["recursion", "@main"]),
        (bomb.into(), &["more than 4000000 ops"]),
        (sum.into(), &["more than 2^62 bytes", "<stdin>:"]),
        (nested.clone().into(), &["<stdin>:1:1"]),
        (many.into(), &["<stdin>:1:1"]),
        (b"func.func @f() {\n  return\n}\nfunc.func @g() {\n  return\n}".into(), &["@main"]),
        (b"module attributes {a = {a = {a".into(), &["<stdin>:1:"]),
    ];
    for (source, wanted) in table {
        for command in [&["plan", "-"][..], &["emit", "-", "--stage", "asm"]] {
            refuse(command, &source, 1, wanted);
        }
    }
    let deep = format!("func.func @main() {{\n{nested}");
    refuse(&["plan", "-"], deep.as_bytes(), 1, &["nested deeper than"]);
    // Attributes that no op reads are no fault.
    let known = main(
        "%0 = \"stablehlo.add\"(%a, %a) {foo.bar = 3 : i32, x = #y.z<[1, 2]>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>",
    );
    assert_eq!(run(&["plan", "-"], known.as_bytes()).status, Some(0));
}

#[test]
fn command_lines() {
    let table: [(&[&str], &[&str]); 13] = [
        (&["plan"], &["PROGRAM"]),
        (&["frobnicate"], &["frobnicate"]),
        (&["plan", EXAMPLE, "--donate", "99"], &["--donate 99", "14 argument(s)"]),
        (&["plan", EXAMPLE, "--donate", "x"], &["--donate"]),
        (&["plan", EXAMPLE, "--threads", "0"], &["1..=1024"]),
        (&["plan", EXAMPLE, "--threads", "99999"], &["1..=1024"]),
        (&["plan", EXAMPLE, "--memory-limit", "64XB"], &["KiB, MiB or GiB"]),
        (&["plan", EXAMPLE, "--memory-limit", "1.5GiB"], &["write 65536 or 64KiB"]),
        (&["plan", EXAMPLE, "--format", "xml"], &["json"]),
        (&["emit", EXAMPLE, "--stage", "nowhere"], &["kernels"]),
        (&["run", EXAMPLE], &["14 argument(s)", "--inputs"]),
        (&["run", EXAMPLE, "--rtol", "nan"], &["number from 0"]),
        (&["pack", "p.csv", "--time-limit", "soon"], &["10s"]),
    ];
    for (arguments, wanted) in table {
        refuse(arguments, b"", 2, wanted);
    }
    refuse(&["plan", EXAMPLE, "--memory-limit", "64KiB"], b"", 1, &["the limit 65536", EXAMPLE]);
}

#[test]
fn files() {
    let folder = Folder::new();
    let nowhere = folder.path("nowhere/x");
    refuse(&["plan", &nowhere], b"", 1, &[&nowhere, "No such file"]);
    refuse(&["plan", "examples"], b"", 1, &["examples", "directory"]);
    refuse(&["plan", EXAMPLE, "-o", &nowhere], b"", 1, &[&nowhere, "cannot be written"]);
    refuse(&["plan", EXAMPLE, "-o", &folder.path("")], b"", 1, &["cannot be written"]);
    // Before the work is done, not after it.
    let run_to = ["run", EXAMPLE, "--inputs", "nowhere", "--outputs", &nowhere];
    refuse(&run_to, b"", 1, &["cannot be written"]);
    assert!(folder.names().is_empty());
    let report = run(&["check", &nowhere, "tests/checks/loops.mlir"], b"");
    assert_eq!(report.status, Some(1));
    assert!(report.out.contains(&format!("failed: {nowhere}: No such file")), "{}", report.out);
    assert!(report.out.contains("4 passed, 1 failed"), "{}", report.out);
    refuse(&["check", &folder.path("")], b"", 2, &["no .mlir files"]);
}

#[cfg(unix)]
#[test]
fn devices_are_written_to_not_replaced() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = Folder::new();
    let fifo = folder.path("pipe");
    // A link to a device stands for the device, as `/dev/stdout` does.
    symlink("/dev/null", &fifo).expect("a link");
    let to_device = run(&["plan", EXAMPLE, "-o", &fifo], b"");
    assert_eq!(to_device.status, Some(0), "{}", to_device.err);
    let kind = std::fs::metadata(&fifo).expect("the device").file_type();
    assert!(kind.is_char_device());
    // A link to a file stays a link.
    let (file, link) = (folder.file("file", "old"), folder.path("link"));
    symlink(&file, &link).expect("a link");
    assert_eq!(run(&["plan", EXAMPLE, "-o", &link], b"").status, Some(0));
    assert!(std::fs::symlink_metadata(&link).expect("the link").is_symlink());
    assert!(std::fs::read_to_string(&file).expect("the file").contains("arena"));
    assert_eq!(folder.names(), ["file", "link", "pipe"]);
}

/// A safetensors file of `f32` tensors.
fn tensors(rows: &[(&str, &str, &[u64], usize)]) -> Vec<u8> {
    let (mut header, mut at) = (Vec::new(), 0);
    for (name, dtype, shape, bytes) in rows {
        header.push(format!(
            "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{at},{}]}}",
            at + bytes
        ));
        at += bytes;
    }
    let header = format!("{{{}}}", header.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(vec![0; at]);
    file
}

#[test]
fn tensors_files() {
    let folder = Folder::new();
    let program = folder.file("p.mlir", "func.func @main(%a: tensor<2xf32>, %b: tensor<i32>) -> tensor<2xf32> {\n  return %a : tensor<2xf32>\n}\n");
    let (a, b) = (("0", "F32", &[2][..], 8), ("1", "I32", &[][..], 4));
    let good = tensors(&[a, b]);
    let table: [(Vec<u8>, &[&str]); 9] = [
        (Vec::new(), &["not a safetensors file"]),
        (b"hello, this is no tensor".to_vec(), &["not a safetensors file"]),
        (good[..good.len() - 1].to_vec(), &["not a safetensors file"]),
        (vec![0xff; 64], &["not a safetensors file"]),
        (tensors(&[a]), &["tensor \"1\" is missing", "takes tensor<i32>"]),
        (tensors(&[a, b, ("2", "F32", &[1], 4)]), &["tensor \"2\" has no place", "takes 2"]),
        (tensors(&[a, b, ("weights", "F32", &[1], 4)]), &["\"weights\" has no place"]),
        (tensors(&[("0", "F32", &[3], 12), b]), &["is tensor<3xf32>", "takes tensor<2xf32>"]),
        (tensors(&[("0", "F64", &[2], 16), b]), &["is tensor<2xf64>", "takes tensor<2xf32>"]),
    ];
    for (content, wanted) in table {
        let file = folder.file("in.safetensors", content);
        let wanted = [&[file.as_str()][..], wanted].concat();
        refuse(&["run", &program, "--inputs", &file], b"", 1, &wanted);
        refuse(&["bench", &program, "--inputs", &file], b"", 1, &wanted);
    }
    let inputs = folder.file("in.safetensors", &good);
    let wrong = folder.file("out.safetensors", tensors(&[("0", "F32", &[3], 12)]));
    let compare = ["run", &program, "--inputs", &inputs, "--expect", &wrong];
    refuse(&compare, b"", 1, &["is tensor<3xf32>", "gives tensor<2xf32>"]);
    refuse(
        &["run", EXAMPLE, "--inputs", INPUTS, "--expect", EXAMPLE],
        b"",
        1,
        &["not a safetensors"],
    );
}

#[test]
fn packing_problems() {
    let table = [
        ("", "no column id"),
        ("id,lower,upper\n", "no column size"),
        ("id,lower,upper,size\n", "no rows"),
        ("id,lower,upper,size\na,0,3\n", "line: 2"),
        ("id,lower,upper,size\na,0,3,x\n", "line 2: size is \"x\""),
        ("id,lower,upper,size\na,0,3,-1\n", "line 2: size"),
        ("id,lower,upper,size\na,3,3,1\n", "line 2: a is live from 3 to 3"),
        ("id,lower,upper,size\na,0,3,1\na,0,3,1\n", "line 3: id a stands on line 2"),
        ("id,lower,upper,size,alignment\na,0,3,1,0\n", "line 2: alignment is 0"),
        ("id,lower,upper,size,offset\na,0,3,5,0\nb,2,3,5,4\n", "lines 2 and 3"),
        ("id,lower,upper,size,gaps\na,0,3,5,2\n", "line 2: gaps"),
        ("id,lower,upper,size,gaps\na,0,3,5,2-9\n", "line 2: a is live from 0 to 3, its gaps"),
        ("id,lower,upper,size,gaps\na,0,3,5,0-3\n", "line 2: a is live for no time"),
        ("id,lower,upper,size\na,0,3,9999999999999999999\nb,0,3,9999999999999999999\n", "2^62"),
    ];
    for (text, wanted) in table {
        refuse(&["pack", "-"], text.as_bytes(), 1, &["<stdin>", wanted]);
    }
    let problem = "id,lower,upper,size,offset\na,0,3,5,\nb,0,3,5,20\n";
    refuse(&["pack", "-", "--capacity", "24"], problem.as_bytes(), 1, &["25 is where", "fixed"]);
    // The bound is 2, yet the least is 3.
    let problem = "id,lower,upper,size,offset\na,0,3,1,\nb,2,5,1,1\nc,4,7,1,\nd,6,9,1,0\n\
                   e,0,1,1,1\nf,8,9,1,1\ng,5,6,1,1\n";
    let wanted = "the search tried all of them";
    refuse(&["pack", "-", "--capacity", "2"], problem.as_bytes(), 1, &[wanted]);
    // More than 64 bits, less than 2^64 but more than is added up, an offset that is not aligned.
    for size in ["18446744073709551616", "18446744073709551615"] {
        let problem = format!("id,lower,upper,size\na,0,3,{size}\n");
        refuse(
            &["pack", "-"],
            problem.as_bytes(),
            1,
            &[if size.ends_with('6') { "line 2: size" } else { "2^62" }],
        );
    }
}

#[test]
fn a_hundred_thousand_rows_are_packed_in_bounded_time() {
    let count = if cfg!(debug_assertions) { 6_000 } else { 100_000 };
    let table = |header: &str, row: &dyn Fn(u64) -> String| {
        let rows: String = (0..count).map(|i| format!("{i},{}\n", row(i))).collect();
        format!("id,lower,upper,size{header}\n{rows}")
    };
    let problems = [
        table("", &|i| format!("0,{},{}", 1 + i % 7, 1 + i % 1000)),
        table("", &|i| format!("{i},{},{}", i + 1 + i * 7919 % 200, 64 * (1 + i * 31 % 500))),
        table(",offset", &|i| format!("0,5,8,{}", 8 * i)),
        table(",gaps", &|i| format!("{i},{},8,{}-{}", i + 300, i + 1, i + 290)),
    ];
    for problem in problems {
        let begin = std::time::Instant::now();
        let run = run(&["pack", "-", "--time-limit", "1s"], problem.as_bytes());
        assert_eq!(run.status, Some(0), "{}", run.err);
        let seconds = begin.elapsed().as_secs();
        assert!(seconds < 60, "{seconds} s: {}", &problem[..80]);
    }
    // Below the bound is said at once.
    let begin = std::time::Instant::now();
    let problem = table("", &|_| "0,5,8".into());
    refuse(&["pack", "-", "--capacity", "9"], problem.as_bytes(), 1, &["no packing fits into 9"]);
    assert!(begin.elapsed().as_secs() < 30);
}
