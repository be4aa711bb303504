//! The arena of each program of a folder of programs: `memory FOLDER [SUBSTRING]`, with the figures
//! that each program's `meta.json` gives for XLA read by whoever wants to compare.

use jaxrs_opt::{Options, compile};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let only = arguments.next().unwrap_or_default();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is read")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().contains(&only))
        .filter(|path| path.join("program.mlir").exists())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let source = std::fs::read(path.join("program.mlir")).expect("the file is read");
        let module = match jaxrs_ir::text::parse_bytes(&source, &name) {
            Ok(module) => module,
            Err(error) => {
                println!("{name} {error}");
                continue;
            }
        };
        let lowered = match compile(&module, &Options::default()) {
            Ok(lowered) => lowered,
            Err(error) => {
                println!("{name} {error}");
                continue;
            }
        };
        let mut lowered = lowered;
        if std::env::var("NO_SCRATCH").is_ok() {
            lowered.program.body.iter_mut().for_each(bare);
        }
        let options = jaxrs_plan::Options { threads: 1, ..Default::default() };
        match jaxrs_plan::plan(lowered.program, &options) {
            Ok(planned) => {
                let report = jaxrs_plan::report::Report::new(&planned, &name).value();
                let arena = &report["arena_without_scratch_bytes"];
                let bound = planned.notes.lower_bound.0;
                let copies = planned.notes.copies.len();
                println!("{name} {arena} {bound} {copies}");
            }
            Err(error) => println!("{name} {error:?}"),
        }
    }
}

/// Takes scratch away, to see the values alone.
fn bare(step: &mut jaxrs_kernel::program::Step) {
    use jaxrs_kernel::program::StepKind;
    step.scratch = Default::default();
    match &mut step.kind {
        StepKind::While(w) => w.condition.iter_mut().chain(&mut w.body).for_each(bare),
        StepKind::Case(c) => c.branches.iter_mut().flat_map(|b| &mut b.steps).for_each(bare),
        _ => {}
    }
}
