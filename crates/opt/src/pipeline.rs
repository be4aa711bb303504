//! Named, timed, dumpable stages.

use jaxrs_ir::{Error, Function, text};
use std::time::{Duration, Instant};

/// How long a stage took.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The stage.
    pub name: &'static str,
    /// Wall time.
    pub duration: Duration,
}

/// The stages run so far.
pub struct Pipeline<'a> {
    wanted: &'a [String],
    timings: Vec<Timing>,
    dumps: Vec<(String, String)>,
}

impl<'a> Pipeline<'a> {
    /// No stage run; `wanted` names those to keep as text.
    pub fn new(wanted: &'a [String]) -> Pipeline<'a> {
        Pipeline { wanted, timings: Vec::new(), dumps: Vec::new() }
    }

    /// Runs a stage.
    pub fn time<T>(&mut self, name: &'static str, stage: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let out = stage();
        self.timings.push(Timing { name, duration: start.elapsed() });
        out
    }

    /// Runs the stage that makes the function.
    pub fn start(
        &mut self,
        name: &'static str,
        stage: impl FnOnce() -> Result<Function, Vec<Error>>,
    ) -> Result<Function, Vec<Error>> {
        let function = self.time(name, stage)?;
        self.dump(name, || text::print_function(&function));
        Ok(function)
    }

    /// Runs a pass over the function.
    pub fn pass(&mut self, name: &'static str, f: &mut Function, pass: impl FnOnce(&mut Function)) {
        self.time(name, || pass(f));
        self.dump(name, || text::print_function(f));
    }

    /// Keeps a stage's text if it is wanted.
    pub fn dump(&mut self, name: &str, text: impl FnOnce() -> String) {
        if self.wanted.iter().any(|wanted| wanted == name) {
            self.dumps.push((name.to_string(), text()));
        }
    }

    /// The timings and the texts kept.
    pub fn finish(self) -> (Vec<Timing>, Vec<(String, String)>) {
        (self.timings, self.dumps)
    }
}
