//! The text front end on whole programs: forms, faults, and texts broken in every way.

use jaxrs_ir::text::{self, PrintOptions};
use jaxrs_ir::{Location, Module, verify};
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/text").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The programs exported from JAX that other tests use, too.
fn programs() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let mut found: Vec<_> = std::fs::read_dir(root)
        .expect("the test programs")
        .filter_map(|entry| {
            let path = entry.ok()?.path().join("program.mlir");
            Some((path.display().to_string(), std::fs::read_to_string(&path).ok()?))
        })
        .collect();
    found.sort();
    found
}

/// The module without places in its text, and without locations if they were not printed.
fn without_places(mut module: Module, options: &PrintOptions) -> Module {
    for function in &mut module.functions {
        function.location = Location::default();
        for (_, op) in &mut function.ops {
            op.location.text = (0, 0);
            if !options.locations {
                op.location = Location::default();
            }
        }
    }
    module
}

/// The printed module is read back as an equal one, which prints alike.
fn round_trip(module: &Module, name: &str) {
    for options in [PrintOptions { locations: false }, PrintOptions { locations: true }] {
        let printed = text::print_with(module, &options);
        let again = text::parse(&printed, "printed.mlir")
            .unwrap_or_else(|errors| panic!("{name}: printed text is wrong: {errors}\n{printed}"));
        assert_eq!(text::print_with(&again, &options), printed, "{name}");
        let (one, other) = (module.clone(), again);
        let equal = without_places(one, &options) == without_places(other, &options);
        assert!(equal, "{name}: not equal when read back:\n{printed}");
    }
}

#[test]
fn forms() {
    let source = read("forms.mlir");
    for (line, piece) in text::split(&source) {
        let name = format!("forms.mlir:{line}");
        let module = text::parse_from(piece, "forms.mlir", line)
            .unwrap_or_else(|errors| panic!("{name}: {errors}"));
        verify::verify(&module, "forms.mlir").unwrap_or_else(|errors| panic!("{name}: {errors}"));
        round_trip(&module, &name);
    }
}

#[test]
fn exported_programs() {
    for (name, source) in programs() {
        let module = text::parse(&source, &name).unwrap_or_else(|errors| panic!("{errors}"));
        verify::verify(&module, &name).unwrap_or_else(|errors| panic!("{errors}"));
        round_trip(&module, &name);
    }
}

#[test]
fn locations() {
    let source = read("forms.mlir");
    let piece = text::split(&source).into_iter().find(|(_, piece)| piece.contains("h.py"));
    let (line, piece) = piece.expect("the program with locations");
    let module = text::parse_from(piece, "forms.mlir", line).expect("parses");
    let found: Vec<String> = module.functions[0]
        .ops
        .values()
        .map(|op| {
            let (file, line, column) = op.location.source.clone().expect("a source");
            format!("{file}:{line}:{column} {}", op.location.name.as_deref().unwrap_or("-"))
        })
        .collect();
    assert_eq!(found, ["g.py:3:4 jit(f)/abs", "h.py:7:8 h"]);
    assert_eq!(module.functions[0].location.name.as_deref(), Some("f"));
}

/// Every fault is found, at its place, and no other.
#[test]
fn faults() {
    let source = read("faults.mlir");
    let mut expected: Vec<(String, &str)> = source
        .lines()
        .filter_map(|line| line.split_once("// fault "))
        .map(|(_, fault)| fault.split_once(": ").expect("a place and a message"))
        .map(|(place, message)| (place.to_string(), message))
        .collect();
    for (line, piece) in text::split(&source) {
        let errors = text::parse_from(piece, "faults.mlir", line).expect_err("faults");
        for error in &errors.errors {
            let (line, column) = error.location.text;
            let place = format!("{line}:{column}");
            let at = expected
                .iter()
                .position(|(at, message)| *at == place && error.message.contains(message));
            match at {
                Some(at) => drop(expected.remove(at)),
                None => panic!("not expected: {place}: {}", error.message),
            }
        }
        assert!(errors.to_string().contains(&"--> faults.mlir:".to_string()));
    }
    assert!(expected.is_empty(), "not found: {expected:?}");
}

#[test]
fn not_text() {
    let fault = |bytes: &[u8]| {
        text::parse_bytes(bytes, "f").expect_err("no text").errors[0].message.clone()
    };
    assert!(fault(b"ML\xefR\x01\x02").contains("bytecode"));
    assert!(fault(b"module {\n \xff").contains("not UTF-8"));
    assert!(fault(b"").contains("func.func @main"));
    assert!(fault(b"\x00\x01").contains("unexpected character"));
}

/// Deep nesting and long lists end in an error, on the stack of a test's thread.
#[test]
fn nesting() {
    let head = "func.func @main(%a: tensor<4xf32>) {\n";
    let deep = |open: &str, close: &str, count: usize| {
        format!("{head}{}{}return\n}}\n", open.repeat(count), close.repeat(count))
    };
    let regions = ("\"stablehlo.case\"(%a) ({\n", "}) : (tensor<4xf32>) -> ()\n");
    for (open, close) in [
        regions,
        ("stablehlo.while() cond {\n", "} do {}\n"),
        ("stablehlo.abs %a {x = [", "]} : tensor<4xf32>"),
        ("stablehlo.abs %a : (", ") -> tensor<4xf32>"),
        ("stablehlo.abs %a : tensor<4xf32> loc(callsite(", "))"),
        ("stablehlo.abs %a : !a<", ">"),
        ("stablehlo.nothing [", "]"),
    ] {
        let inner = open.rsplit(' ').next().unwrap_or(open);
        for count in [90, 5000] {
            let _ = text::parse(&deep(open, close, count), "t");
            let _ = text::parse(&format!("{head}{open}{}", inner.repeat(count)), "t");
        }
    }
    for open in ["[", "(", "{", "<", "dense<[", "tensor<", "\"", "loc(", "module {", "^", "{-#"] {
        let text = open.repeat(1 << 20);
        assert!(text::parse(&text, "t").is_err());
        assert!(text::parse(&format!("module attributes {{a = {text}"), "t").is_err());
    }
    // A chain of aliases doubles at each step.
    let mut bomb = String::from("#a0 = [1, 1]\n!t0 = (tensor<4xf32>) -> tensor<4xf32>\n");
    for n in 1..60 {
        let before = n - 1;
        bomb += &format!("#a{n} = [#a{before}, #a{before}]\n!t{n} = (!t{before}) -> !t{before}\n");
        bomb += &format!("#loc{n} = loc(fused[#loc{before}, #loc{before}])\n");
    }
    let error = text::parse(&bomb, "t").expect_err("a bomb").to_string();
    assert!(error.contains("expand to too much"), "{error}");
}

/// A small generator of numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

const SNIPPETS: &[&str] = &[
    "",
    " ",
    "\n",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ",",
    ":",
    "=",
    "#",
    "%",
    "@",
    "!",
    "^",
    "->",
    "\"",
    "-1",
    "0",
    "1",
    "2",
    "3",
    "99999999999999999999",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "0x7FC00000",
    "1.0",
    "i1",
    "i8",
    "i32",
    "ui64",
    "f32",
    "f64",
    "bf16",
    "complex<f32>",
    "tensor<",
    "tensor<f32>",
    "tensor<0xf32>",
    "tensor<4xf32>",
    "tensor<109951162777x1024xi8>",
    "dense<1> : tensor<1099511627776xi64>",
    "tensor<2x3x4xi32>",
    "dense<",
    "dense<1>",
    "array<i64: ",
    "array<i64>",
    "loc(",
    "true",
    "unit",
    "%0",
    "%a",
    "%arg0",
    "#0",
    "#1",
    ":2",
    "x",
    "stablehlo.add",
    "stablehlo.return",
    "\u{e9}",
    "\0",
];

/// One text broken at a few places.
fn mutate(source: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = source.as_bytes().to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        // Mostly whole words and numbers are replaced, so that much of the text stays sound.
        let mut end = at;
        while end < bytes.len() && (bytes[end].is_ascii_alphanumeric() || bytes[end] == b'_') {
            end += 1;
        }
        match random.below(12) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..(at + 1 + random.below(20)).min(bytes.len()))),
            2 => {
                let end = (at + 1 + random.below(60)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            3 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            4 => {
                let snippet = SNIPPETS[random.below(SNIPPETS.len())];
                bytes.splice(at..at, snippet.bytes());
            }
            // A number becomes another one.
            5..=8 => {
                let from = (0..bytes.len()).map(|n| (at + n) % bytes.len());
                let Some(start) = from.into_iter().find(|&n| bytes[n].is_ascii_digit()) else {
                    continue;
                };
                let number = format!("{}", random.below(6));
                bytes.splice(start..=start, number.bytes());
            }
            _ => {
                let snippet = SNIPPETS[random.below(SNIPPETS.len())];
                bytes.splice(at..end, snippet.bytes());
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// No broken text makes the front end panic, and what it takes, it prints and takes again.
#[test]
fn mutations() {
    let forms = read("forms.mlir");
    let mut sources: Vec<String> =
        text::split(&forms).into_iter().map(|(_, piece)| piece.to_string()).collect();
    sources.extend(programs().into_iter().map(|(_, source)| source).filter(|s| s.len() < 6000));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let rounds = std::env::var("JAXRS_MUTATIONS").ok().and_then(|n| n.parse().ok());
    let mut taken = 0;
    for _ in 0..rounds.unwrap_or(1000) {
        for source in &sources {
            let broken = mutate(source, &mut random);
            let Ok(module) = text::parse_bytes(&broken, "broken.mlir") else { continue };
            if verify::verify(&module, "broken.mlir").is_ok() {
                taken += 1;
                let printed = text::print(&module);
                let again = text::parse(&printed, "printed.mlir")
                    .unwrap_or_else(|errors| panic!("{errors}\n{printed}"));
                assert_eq!(text::print(&again), printed);
            }
        }
    }
    assert!(taken > 100, "{taken} programs were still sound");
}
