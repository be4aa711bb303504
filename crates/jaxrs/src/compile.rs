//! The pipeline: StableHLO text to a memory plan and native code.

use crate::checked::{self, Checker};
use crate::nans::NanWatch;
use crate::tensor::Tensor;
use cranelift_entity::PrimaryMap;
use jaxrs_ir::{Errors, Function, Location, Module, TensorType, text, verify};
use jaxrs_kernel::program::{OriginId, StepId};
use jaxrs_kernel::{Program, Step, StepKind};
use jaxrs_opt::{FusionMode, Lowered, Prepared};
use jaxrs_plan::report::{AblationRow, Report};
use jaxrs_plan::{Ideas, PlanError, Planned};
use jaxrs_runtime::{Argument, Buffer, CallReport, Executable as _, Interface, Lent};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Saving less is not worth computing anything again.
const MIN_SAVED: u64 = 1024;

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// Arguments to donate beside those the program marks, by position.
    pub donate: Vec<u32>,
    /// Keep the program's pairs of donated argument and result, or fail.
    pub strict_aliases: bool,
    /// Threads that a call may use.
    pub threads: u32,
    /// Fail unless the peak, in bytes, fits.
    pub memory_limit: Option<u64>,
    /// Compare each step's result with the interpreter.
    pub check: bool,
    /// Fail a call at the first step that makes a NaN.
    pub nans: bool,
    /// Fill memory whose content is dead with NaN patterns.
    pub poison: bool,
    /// Compute ops together where it saves memory or time.
    pub fuse: bool,
    /// Share out even the least work between the threads, to find what depends on where it is cut.
    pub split_all: bool,
}

impl Default for Options {
    /// One thread, nothing donated beside what the program marks.
    fn default() -> Options {
        Options {
            donate: Vec::new(),
            strict_aliases: false,
            threads: 1,
            memory_limit: None,
            check: false,
            nans: false,
            poison: false,
            fuse: true,
            split_all: false,
        }
    }
}

impl Options {
    /// The default with what `JAXRS_CHECK`, `JAXRS_DEBUG_NANS` and `JAXRS_POISON` (`1` or not) ask
    /// for.
    pub fn from_environment() -> Options {
        let on = |name| std::env::var_os(name).is_some_and(|v| v == "1");
        Options {
            check: on("JAXRS_CHECK"),
            nans: on("JAXRS_DEBUG_NANS"),
            poison: on("JAXRS_POISON"),
            ..Options::default()
        }
    }
}

/// All cores.
pub fn default_threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Why a program was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options do not fit the program.
    #[error("{0}")]
    Options(String),
    /// The program's text, or what it holds.
    #[error("{0}")]
    Program(#[from] Errors),
    /// The plan.
    #[error("{0}")]
    Plan(String),
    /// Native code.
    #[error("{0}")]
    Code(String),
}

/// A stage of the compilation that can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Stage {
    /// The program as it was read.
    Stablehlo,
    /// After the passes.
    Ir,
    /// Which ops are computed in which kernel.
    Fused,
    /// The kernels.
    Kernels,
    /// Steps over values.
    Program,
    /// Cranelift's intermediate code.
    Clif,
    /// Machine code.
    Asm,
}

/// A program with its memory plan.
pub struct PlannedProgram {
    planned: Planned,
    origins: PrimaryMap<OriginId, Function>,
    parameter_types: Vec<TensorType>,
    result_types: Vec<TensorType>,
    times: Vec<(String, f64)>,
    /// Whether nothing is made again that could be kept.
    keeps: bool,
}

impl PlannedProgram {
    /// The plan as text, JSON or a page; `name` is the program's, for people.
    pub fn report(&self, name: &str) -> Report {
        let library_scratch_bytes = jaxrs_cpu::library_scratch_bytes(&self.planned);
        Report { library_scratch_bytes, ..Report::new(&self.planned, name) }
    }

    /// The planned program.
    pub fn planned(&self) -> &Planned {
        &self.planned
    }

    /// What each step stands for.
    pub fn origins(&self) -> &PrimaryMap<OriginId, Function> {
        &self.origins
    }
}

/// A program in native code.
pub struct Compiled {
    program: PlannedProgram,
    executable: jaxrs_cpu::Executable,
    checker: Option<Arc<Checker>>,
    nans: Option<Arc<NanWatch>>,
    options: Options,
}

/// Plans a program; no code is made.
pub fn plan(source: &[u8], file: &str, options: &Options) -> Result<PlannedProgram, Error> {
    let begin = Instant::now();
    let module = read(source, file)?;
    let parse = begin.elapsed();
    let mut program = plan_module(&module, file, options)?;
    program.times.insert(0, ("parse".into(), parse.as_secs_f64()));
    Ok(program)
}

/// What the plan would be without each of the planner's ideas, and without fusion.
pub fn ablation(source: &[u8], file: &str, options: &Options) -> Result<Vec<AblationRow>, Error> {
    let module = read(source, file)?;
    let all = Ideas::default();
    let without = [
        ("reordering", Ideas { reorder: false, ..all }, options.fuse),
        ("sharing in place", Ideas { in_place: false, ..all }, options.fuse),
        ("arguments and results as room", Ideas { rooms: false, ..all }, options.fuse),
        ("the packing search", Ideas { packing: false, ..all }, options.fuse),
        ("fusion", all, false),
    ];
    // The limit is for the plan itself.
    let options = Options { memory_limit: None, ..options.clone() };
    let mut rows = Vec::new();
    for (name, ideas, fuse) in without {
        let planned = plan_with(&module, file, &Options { fuse, ..options.clone() }, ideas)?;
        rows.push(AblationRow::new(name, &planned.report(file)));
    }
    Ok(rows)
}

/// Compiles a program to native code.
pub fn compile(source: &[u8], file: &str, options: &Options) -> Result<Compiled, Error> {
    generate(plan(source, file, options)?, options)
}

/// [`compile`] for a module that has been read.
pub fn compile_module(module: &Module, file: &str, options: &Options) -> Result<Compiled, Error> {
    generate(plan_module(module, file, options)?, options)
}

/// The text of a stage.
pub fn emit(source: &[u8], file: &str, options: &Options, stage: Stage) -> Result<String, Error> {
    let module = read(source, file)?;
    let dump = match stage {
        Stage::Stablehlo => return Ok(text::print(&module)),
        Stage::Ir => "ir",
        Stage::Fused => "fused",
        Stage::Kernels => "kernels",
        Stage::Program => {
            return Ok(plan_module(&module, file, options)?.planned.program.to_string());
        }
        Stage::Clif | Stage::Asm => {
            let program = plan_module(&module, file, options)?;
            let listing = jaxrs_cpu::listing(&program.planned, &code_options(options, None))
                .map_err(|e| Error::Code(e.to_string()))?;
            return Ok(if stage == Stage::Clif { listing.clif() } else { listing.asm() });
        }
    };
    let wanted = vec![dump.to_string()];
    let opt_options = opt_options(&module, file, options, wanted)?;
    let prepared = prepare(&module, file, &opt_options)?;
    let keep = !prepared.has_choice() || plan_module(&module, file, options)?.keeps;
    let lowered = lower(&prepared, file, keep)?;
    let found = lowered.dumps.into_iter().find(|(name, _)| name == dump);
    let text = found.expect("the stage was asked for").1;
    // A program of library calls has no kernels, one that returns its arguments has no ops.
    let what = if stage == Stage::Kernels { "kernels" } else { "ops" };
    Ok(if text.is_empty() { format!("// the program has no {what}\n") } else { text })
}

fn read(source: &[u8], file: &str) -> Result<Module, Error> {
    let module = text::parse_bytes(source, file)?;
    verify::verify(&module, file)?;
    Ok(module)
}

fn opt_options(
    module: &Module,
    file: &str,
    options: &Options,
    dump: Vec<String>,
) -> Result<jaxrs_opt::Options, Error> {
    let entry = module.entry().ok_or_else(|| Errors {
        file: file.to_string(),
        errors: vec![
            jaxrs_ir::Error::new("the module has no function @main", &Location::default())
                .note("name the function to compile @main, or leave only one in the module"),
        ],
    })?;
    let arguments = entry.parameters().len();
    if let Some(index) = options.donate.iter().find(|&&i| i as usize >= arguments) {
        return Err(Error::Options(format!(
            "--donate {index}: the program has {arguments} argument(s), numbered from 0"
        )));
    }
    let fuse = if options.fuse { FusionMode::On } else { FusionMode::Off };
    Ok(jaxrs_opt::Options { donate: options.donate.clone(), fuse, dump })
}

fn prepare<'a>(
    module: &'a Module,
    file: &str,
    options: &'a jaxrs_opt::Options,
) -> Result<Prepared<'a>, Error> {
    jaxrs_opt::prepare(module, options).map_err(|errors| in_file(errors, file))
}

fn lower(prepared: &Prepared<'_>, file: &str, keep: bool) -> Result<Lowered, Error> {
    prepared.lower(keep).map_err(|errors| in_file(errors, file))
}

fn in_file(errors: Errors, file: &str) -> Error {
    Errors { file: file.to_string(), ..errors }.into()
}

fn plan_module(module: &Module, file: &str, options: &Options) -> Result<PlannedProgram, Error> {
    plan_with(module, file, options, Ideas::default())
}

/// The plan that makes again what it need not keep, or the one that keeps it, if the first saves
/// next to nothing.
fn plan_with(
    module: &Module,
    file: &str,
    options: &Options,
    ideas: Ideas,
) -> Result<PlannedProgram, Error> {
    let opt_options = opt_options(module, file, options, Vec::new())?;
    let prepared = prepare(module, file, &opt_options)?;
    let mut times = seconds(&prepared.timings, "");
    let plan_options = jaxrs_plan::Options {
        threads: options.threads,
        strict_aliases: options.strict_aliases,
        ideas,
        ..jaxrs_plan::Options::default()
    };
    let entry = module.entry().expect("prepared above");
    let mut plan = |program: Program, name: &str, worth: &dyn Fn(u64) -> bool| {
        let begin = Instant::now();
        let planned =
            jaxrs_plan::plan_if(program, &plan_options, worth).map_err(|error| match error {
                PlanError::Alias { .. } => {
                    let note = "without --strict-aliases results may change their arguments";
                    let error = jaxrs_ir::Error::new(error.to_string(), &entry.location).note(note);
                    Errors { file: file.to_string(), errors: vec![error] }.into()
                }
                PlanError::Internal(_) | PlanError::Invalid(_) => Error::Plan(error.to_string()),
            });
        times.push((name.into(), begin.elapsed().as_secs_f64()));
        planned
    };
    let kept = lower(&prepared, file, true)?;
    let mut origins = kept.origins;
    let mut planned = plan(kept.program, "plan", &|_| true)?.expect("any plan is worth it");
    let mut lowering = seconds(&kept.timings, "");
    let mut keeps = true;
    let more = planned.values_height().0;
    if prepared.has_choice() && more >= MIN_SAVED {
        // Whether making values again is worth it at a height.
        let worth = |less: u64| less + MIN_SAVED.max(more / 16) <= more;
        let again = lower(&prepared, file, false)?;
        lowering.extend(seconds(&again.timings, "-again"));
        let made_again = plan(again.program, "plan-again", &worth)?;
        if let Some(made_again) = made_again.filter(|plan| worth(plan.values_height().0)) {
            (planned, origins, keeps) = (made_again, again.origins, false);
        }
    }
    let plans = times.split_off(prepared.timings.len());
    times.extend(lowering);
    times.extend(plans);
    let types =
        |values: &[jaxrs_ir::ValueId]| values.iter().map(|&v| entry.ty(v).clone()).collect();
    let program = PlannedProgram {
        planned,
        origins,
        parameter_types: types(entry.parameters()),
        result_types: types(entry.results()),
        times,
        keeps,
    };
    within_limit(&program, file, options)?;
    Ok(program)
}

/// Stages with their seconds.
fn seconds(timings: &[jaxrs_opt::Timing], suffix: &str) -> Vec<(String, f64)> {
    let stage = |t: &jaxrs_opt::Timing| (format!("{}{suffix}", t.name), t.duration.as_secs_f64());
    timings.iter().map(stage).collect()
}

/// An error if the peak is above the limit.
fn within_limit(program: &PlannedProgram, file: &str, options: &Options) -> Result<(), Error> {
    if let Some(limit) = options.memory_limit {
        let report = program.report(file);
        if report.peak_bytes() > limit {
            let given = report.argument_bytes + report.output_bytes - report.alias_bytes
                + report.constant_bytes;
            let why = if given > limit {
                format!("arguments, results and constants alone are {given}: donate arguments")
            } else {
                format!(
                    "{} are left for the arena, which needs {}",
                    limit - given,
                    report.arena_bytes
                )
            };
            return Err(Error::Plan(format!(
                "the peak is {} bytes, the limit {limit}; {why}\n  --> {file}\n\n{}",
                report.peak_bytes(),
                report.text(false).trim_end()
            )));
        }
    }
    Ok(())
}

fn code_options(options: &Options, hook: Option<jaxrs_cpu::Hook>) -> jaxrs_cpu::Options {
    jaxrs_cpu::Options {
        threads: options.threads as usize,
        hook,
        poison: options.poison,
        split_all: options.split_all,
    }
}

fn generate(mut program: PlannedProgram, options: &Options) -> Result<Compiled, Error> {
    let begin = Instant::now();
    let checker = options.check.then(|| Checker::new(&program.planned, &program.origins));
    let nans = options.nans.then(|| NanWatch::new(&program.planned, &program.origins));
    let hook = match (&checker, &nans) {
        (None, None) => None,
        (Some(checker), None) => Some(checker.hook()),
        (None, Some(nans)) => Some(nans.hook()),
        (Some(checker), Some(nans)) => {
            let (checker, nans) = (checker.hook(), nans.hook());
            Some(Arc::new(move |moment: &jaxrs_cpu::Moment<'_>| {
                checker(moment);
                nans(moment);
            }) as jaxrs_cpu::Hook)
        }
    };
    jaxrs_runtime::set_printer(crate::debug::line);
    let executable = jaxrs_cpu::compile(&program.planned, &code_options(options, hook))
        .map_err(|error| Error::Code(error.to_string()))?;
    program.times.push(("code".into(), begin.elapsed().as_secs_f64()));
    Ok(Compiled { program, executable, checker, nans, options: options.clone() })
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The arguments do not fit the program, or there is no memory.
    #[error("{0}")]
    Call(String),
    /// A step's result differs from the interpreter's (`check`), or has a NaN (`nans`).
    #[error("{0}")]
    Check(String),
}

impl Compiled {
    /// The arguments' types.
    pub fn parameter_types(&self) -> &[TensorType] {
        &self.program.parameter_types
    }

    /// The results' types.
    pub fn result_types(&self) -> &[TensorType] {
        &self.program.result_types
    }

    /// The planned program.
    pub fn planned(&self) -> &Planned {
        &self.program.planned
    }

    /// See [`PlannedProgram::report`].
    pub fn report(&self, name: &str) -> Report {
        self.program.report(name)
    }

    /// Each stage of the compilation with its seconds, in order.
    pub fn stage_times(&self) -> &[(String, f64)] {
        &self.program.times
    }

    /// Runs the program on buffers: the results, and what the call did beside computing.
    ///
    /// # Errors
    /// If the arguments do not fit, or there is no memory.
    pub fn call(
        &self,
        arguments: Vec<Argument<'_>>,
    ) -> Result<(Vec<Buffer>, CallReport), RunError> {
        self.call_on(&self.executable, arguments)
    }

    /// Runs the program on lent memory, see [`jaxrs_runtime::call_into`].
    pub(crate) fn call_into<'a>(
        &self,
        arguments: impl Iterator<Item = Lent<'a>>,
        outputs: impl Iterator<Item = &'a mut Buffer>,
    ) -> Result<CallReport, RunError> {
        let report = jaxrs_runtime::call_into(&self.executable, arguments, outputs)
            .map_err(|error| RunError::Call(error.to_string()))?;
        match self.take_fault() {
            Some(fault) => Err(RunError::Check(fault)),
            None => Ok(report),
        }
    }

    /// What the checks found in the last call.
    fn take_fault(&self) -> Option<String> {
        let checked = self.checker.as_ref().and_then(|checker| checker.take_fault());
        let nan = self.nans.as_ref().and_then(|nans| nans.take_fault());
        checked.or(nan)
    }

    /// What the program takes and gives.
    pub(crate) fn interface(&self) -> &Interface {
        self.executable.interface()
    }

    fn call_on(
        &self,
        executable: &jaxrs_cpu::Executable,
        arguments: Vec<Argument<'_>>,
    ) -> Result<(Vec<Buffer>, CallReport), RunError> {
        let done = jaxrs_runtime::call(executable, arguments)
            .map_err(|error| RunError::Call(error.to_string()))?;
        match self.take_fault() {
            Some(fault) => Err(RunError::Check(fault)),
            None => Ok(done),
        }
    }

    /// The results for arguments; donated ones are copied first.
    pub fn run(&self, arguments: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
        let buffers = self.caller(arguments)?.call()?;
        let tensor = |(buffer, ty): (Buffer, &TensorType)| Tensor {
            ty: ty.clone(),
            bytes: buffer.as_bytes().to_vec(),
        };
        Ok(buffers.into_iter().zip(&self.program.result_types).map(tensor).collect())
    }

    /// The arguments in the form that calls take, for calling often.
    pub fn caller<'a>(&'a self, arguments: &'a [Tensor]) -> Result<Caller<'a>, RunError> {
        let types = &self.program.parameter_types;
        if arguments.len() != types.len() {
            return Err(RunError::Call(format!(
                "the program takes {} argument(s), {} were given",
                types.len(),
                arguments.len()
            )));
        }
        for (position, (argument, ty)) in arguments.iter().zip(types).enumerate() {
            if argument.ty != *ty {
                return Err(RunError::Call(format!(
                    "argument {position} is {}, the program takes {ty}",
                    argument.ty
                )));
            }
        }
        let mut caller = Caller { compiled: self, arguments, buffers: Vec::new() };
        for argument in arguments {
            caller.buffers.push(Some(buffer(argument)?));
        }
        Ok(caller)
    }

    /// The seconds that each step takes in one call, the longest first, by a compilation with a
    /// clock round each step.
    pub fn step_times(&self, arguments: &[Tensor]) -> Result<Vec<(String, f64)>, RunError> {
        let clock = Arc::new(Clock::default());
        let times = Arc::clone(&clock);
        let hook: jaxrs_cpu::Hook = Arc::new(move |moment| times.note(moment.step, moment.done));
        let executable =
            jaxrs_cpu::compile(&self.program.planned, &code_options(&self.options, Some(hook)))
                .map_err(|error| RunError::Call(error.to_string()))?;
        let mut caller = self.caller(arguments)?;
        for _ in 0..2 {
            // The first call touches every page.
            clock.clear();
            caller.renew_donated()?;
            caller.call_executable(&executable)?;
        }
        Ok(clock.sorted(&self.program.planned.program))
    }
}

fn buffer(tensor: &Tensor) -> Result<Buffer, RunError> {
    Buffer::from_bytes(&tensor.bytes).map_err(|error| RunError::Call(error.to_string()))
}

/// A program with its arguments, to be called again and again.
pub struct Caller<'a> {
    compiled: &'a Compiled,
    arguments: &'a [Tensor],
    buffers: Vec<Option<Buffer>>,
}

impl Caller<'_> {
    /// The results of a call, which uses up the donated arguments.
    pub fn call(&mut self) -> Result<Vec<Buffer>, RunError> {
        let compiled = self.compiled;
        self.call_executable(&compiled.executable)
    }

    fn call_executable(
        &mut self,
        executable: &jaxrs_cpu::Executable,
    ) -> Result<Vec<Buffer>, RunError> {
        self.renew_donated()?;
        let mut arguments = Vec::with_capacity(self.buffers.len());
        for (slot, info) in self.buffers.iter_mut().zip(&executable.interface().arguments) {
            arguments.push(if info.donated {
                Argument::Donated(slot.take().expect("renewed above"))
            } else {
                Argument::Borrowed(slot.as_ref().expect("never taken"))
            });
        }
        Ok(self.compiled.call_on(executable, arguments)?.0)
    }

    /// Copies the donated arguments afresh that a call has used up.
    pub fn renew_donated(&mut self) -> Result<(), RunError> {
        for (slot, argument) in self.buffers.iter_mut().zip(self.arguments) {
            if slot.is_none() {
                *slot = Some(buffer(argument)?);
            }
        }
        Ok(())
    }
}

/// Times steps.
#[derive(Default)]
struct Clock {
    state: Mutex<ClockState>,
}

#[derive(Default)]
struct ClockState {
    begun: FxHashMap<StepId, Instant>,
    spent: FxHashMap<StepId, (Duration, u64)>,
}

impl Clock {
    fn note(&self, step: StepId, done: bool) {
        let now = Instant::now();
        let mut state = self.state.lock().expect("no one panics with the clock");
        if !done {
            state.begun.insert(step, now);
        } else if let Some(begun) = state.begun.remove(&step) {
            let entry = state.spent.entry(step).or_default();
            entry.0 += now - begun;
            entry.1 += 1;
        }
    }

    fn clear(&self) {
        *self.state.lock().expect("no one panics with the clock") = ClockState::default();
    }

    fn sorted(&self, program: &Program) -> Vec<(String, f64)> {
        let state = self.state.lock().expect("no one panics with the clock");
        let mut rows = Vec::new();
        checked::for_each_step(&program.body, &mut |step: &Step| {
            let Some((spent, times)) = state.spent.get(&step.id) else { return };
            let results: Vec<String> = step
                .results
                .iter()
                .map(|&v| format!("{}: {}", program.values[v].name, program.values[v].type_name()))
                .collect();
            let kind = match &step.kind {
                StepKind::Kernel(kernel) => format!("kernel {}", program.kernels[*kernel].name),
                StepKind::Library(_) => "library call".into(),
                StepKind::Copy => "copy".into(),
                StepKind::While(_) => "while".into(),
                StepKind::Case(_) => "case".into(),
                StepKind::Tile(tile) => format!("tile of {} steps", tile.steps.len()),
            };
            let count = if *times > 1 { format!(" x{times}") } else { String::new() };
            let source = step.results.first().and_then(|&v| program.values[v].source.as_ref());
            let source = source.map_or(String::new(), |place| format!("  ({place})"));
            let row = format!("{kind}{count} -> {}{source}", results.join(", "));
            rows.push((row, spent.as_secs_f64()));
        });
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        rows
    }
}
