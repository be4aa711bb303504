//! Prints the stages of a program: `show PROGRAM [STAGE..]`.

use jaxrs_opt::{Options, compile};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a program");
    let dump: Vec<String> = arguments.collect();
    let source = std::fs::read(&path).expect("the file is read");
    let module = jaxrs_ir::text::parse_bytes(&source, &path).unwrap_or_else(|e| panic!("{e}"));
    let start = std::time::Instant::now();
    let options = Options { dump, ..Options::default() };
    let lowered = compile(&module, &options).unwrap_or_else(|e| panic!("{e}"));
    let time = start.elapsed();
    for (name, text) in &lowered.dumps {
        println!("// {name}\n{text}");
    }
    for timing in &lowered.timings {
        println!("// {:16} {:?}", timing.name, timing.duration);
    }
    println!("// {time:?}, {} kernels", lowered.program.kernels.len());
}
