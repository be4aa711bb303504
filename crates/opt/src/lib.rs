//! From a StableHLO module to a program of kernels and steps: graph passes, fusion, building.
//!
//! * [`compile`] is the whole pipeline, a table of contents.
//! * [`passes`]: rewrites of the SSA function, one file each.
//! * [`fuse`]: which ops are computed together, and which values are memory.
//! * [`build`]: the kernels and steps.
//! * [`kernels`]: what is done to a kernel once it is built.
//! * [`execute`]: runs a program by interpretation, the oracle of this crate's tests.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod build;
pub mod execute;
pub mod fuse;
pub mod kernels;
pub mod passes;
mod pipeline;

use cranelift_entity::PrimaryMap;
use jaxrs_ir::{Error, Errors, Function, Module, text};
use jaxrs_kernel::Program;
use jaxrs_kernel::program::OriginId;
pub use pipeline::{Pipeline, Timing};
use rustc_hash::FxHashSet;

/// What the compilation may do, and what of it to keep for reading.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Arguments that may be overwritten, beside those that the text marks.
    pub donate: Vec<u32>,
    /// Whether ops are computed together.
    pub fuse: FusionMode,
    /// Stages to keep as text: `ir`, `fused`, `kernels`, `program`, or the name of a pass.
    pub dump: Vec<String>,
}

/// Whether ops are computed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FusionMode {
    /// Where it saves memory or time.
    #[default]
    On,
    /// Each op by itself, to compare with.
    Off,
}

/// A program, with what its steps stand for and how it was made.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program.
    pub program: Program,
    /// The SSA function of each step's ops: its parameters are the step's operands.
    pub origins: PrimaryMap<OriginId, Function>,
    /// How long each stage took, in order.
    pub timings: Vec<Timing>,
    /// The stages asked for, with their text.
    pub dumps: Vec<(String, String)>,
}

/// How often fusion is done again so that less is kept.
const MAX_AGAIN: usize = 3;

/// The program of a module's entry function.
///
/// Errors name every op that cannot be compiled.
pub fn compile(module: &Module, options: &Options) -> Result<Lowered, Errors> {
    let mut prepared = prepare(module, options)?;
    let timings = std::mem::take(&mut prepared.timings);
    let lowered = prepared.lower(false)?;
    Ok(Lowered { timings: [timings, lowered.timings].concat(), ..lowered })
}

/// A module's entry function after the passes that come before the choice what to make again, so
/// that a program of either choice can be made of it.
pub struct Prepared<'a> {
    module: &'a Module,
    options: &'a Options,
    function: Function,
    /// With what need not be kept made again where it is read, if that is another program.
    again: Option<Function>,
    /// How long each stage took, in order.
    pub timings: Vec<Timing>,
    dumps: Vec<(String, String)>,
}

/// Runs the passes that come before the choice what to make again.
///
/// Errors name every op that cannot be compiled.
pub fn prepare<'a>(module: &'a Module, options: &'a Options) -> Result<Prepared<'a>, Errors> {
    let fail = |errors: Vec<Error>| Errors { file: module.name.clone(), errors };
    let mut p = Pipeline::new(&options.dump);
    let mut function = p.start("inline", || passes::inline::run(module)).map_err(&fail)?;
    if function.ops.values().any(|data| data.op.is_front_end()) {
        let lowered = p.time("front end", || jaxrs_ir::transform::lower(&function));
        function = lowered.map_err(|error| fail(vec![error]))?;
    }
    p.pass("dce", &mut function, passes::dce::run);
    p.pass("canonicalize", &mut function, passes::canonicalize::run);
    p.pass("fold", &mut function, passes::fold::run);
    p.pass("algebra", &mut function, passes::algebra::run);
    p.pass("cse", &mut function, passes::cse::run);
    p.pass("trips", &mut function, passes::trips::run);
    p.pass("loops", &mut function, passes::loops::run);
    p.pass("one-hot", &mut function, passes::onehot::run);
    p.pass("fold again", &mut function, passes::fold::run);
    p.pass("algebra again", &mut function, passes::algebra::run);
    p.pass("cse again", &mut function, passes::cse::run);
    p.pass("hoist", &mut function, passes::hoist::run);
    p.pass("pads", &mut function, passes::pads::run);
    p.pass("stacks", &mut function, passes::stacks::run);
    p.pass("residuals", &mut function, passes::residuals::run);
    p.pass("previous", &mut function, passes::stacks::previous::run);
    p.pass("peel", &mut function, passes::stacks::peel::run);
    let parameters = function.parameters().len();
    let donated: Vec<bool> =
        (0..parameters).map(|n| build::is_donated(&function, n, options)).collect();
    p.pass("replace", &mut function, |f| passes::stacks::replace::run(f, &donated));
    p.pass("reuse", &mut function, passes::stacks::reuse::run);
    p.pass("split", &mut function, passes::split::run);
    p.pass("products", &mut function, passes::products::run);
    p.pass("samples", &mut function, passes::samples::run);
    p.pass("masks", &mut function, passes::masks::run);
    p.pass("sink", &mut function, passes::sink::run);
    p.pass("barriers", &mut function, passes::barriers::run);
    p.pass("slots", &mut function, passes::slots::run);
    p.pass("private", &mut function, passes::private::run);
    p.pass("dce again", &mut function, passes::dce::run);
    let again = (options.fuse == FusionMode::On).then(|| {
        let mut again = function.clone();
        let remat = p.time("remat", || passes::remat::run(&mut again, &donated));
        let unshare = p.time("unshare", || passes::unshare::run(&mut again));
        (remat || unshare).then_some(again)
    });
    let (timings, dumps) = p.finish();
    Ok(Prepared { module, options, function, again: again.flatten(), timings, dumps })
}

impl Prepared<'_> {
    /// Whether keeping everything gives another program than making again what need not be kept.
    pub fn has_choice(&self) -> bool {
        self.again.is_some()
    }

    /// The program: with what need not be kept made again where it is read ([`passes::remat`],
    /// [`passes::unshare`]), or with everything kept. The timings are of the stages from here on.
    pub fn lower(&self, keep: bool) -> Result<Lowered, Errors> {
        let Prepared { module, options, .. } = *self;
        let fail = |errors: Vec<Error>| Errors { file: module.name.clone(), errors };
        let mut p = Pipeline::new(&options.dump);
        let again = self.again.as_ref().filter(|_| !keep);
        let mut function = again.unwrap_or(&self.function).clone();
        p.pass("dce at last", &mut function, passes::dce::run);
        p.dump("ir", || text::print_function(&function));
        let donated = |index: usize| build::is_donated(&function, index, options);
        let mut again = FxHashSet::default();
        let mut fused = p.time("fuse", || fuse::run(&function, options.fuse, &donated, &again));
        let mut built = p.time("build", || build::run(module, &function, &fused, options));
        for _ in 0..MAX_AGAIN {
            let Ok(whole) = &built else { break };
            if whole.avoidable.is_empty() {
                break;
            }
            again.extend(whole.avoidable.iter().copied());
            fused = p.time("fuse again", || fuse::run(&function, options.fuse, &donated, &again));
            built = p.time("build again", || build::run(module, &function, &fused, options));
        }
        p.dump("fused", || fused.text(&function));
        let build::Built { program, origins, .. } = built.map_err(fail)?;
        p.dump("kernels", || {
            program.kernels.iter().map(|(id, kernel)| format!("{id}: {kernel}\n")).collect()
        });
        p.dump("program", || program.to_string());
        let (timings, dumps) = p.finish();
        let dumps = self.dumps.iter().cloned().chain(dumps).collect();
        Ok(Lowered { program, origins, timings, dumps })
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, compile};
    use jaxrs_ir::ops::Elementwise;
    use jaxrs_ir::{Attributes, DType, Function, Location, Module, TensorType};

    #[test]
    fn a_chain_becomes_steps() {
        let mut f = Function::new("main");
        let ty = TensorType::new([3, 4], DType::F32);
        let (x, y) = (f.add_parameter(ty.clone()), f.add_parameter(ty.clone()));
        let add = Elementwise::from_name("stablehlo.add").expect("a row");
        let body = f.body;
        let first = f.push_op(body, add, &[x, y], vec![ty.clone()], &[], Location::default());
        let first = f.ops[first].results[0];
        let second = f.push_op(body, add, &[first, y], vec![ty], &[], Location::default());
        f.blocks[body].yields = f.ops[second].results.clone();
        let attributes = Attributes::new();
        let module = Module { name: "m".into(), attributes, functions: vec![f] };
        let lowered = compile(&module, &Options::default()).expect("compiles");
        assert!(!lowered.program.body.is_empty());
        let refused = compile(&module, &Options { donate: vec![2], ..Options::default() });
        assert!(refused.unwrap_err().to_string().contains("there are 2 arguments"));
    }

    #[test]
    fn ops_of_the_front_end_are_replaced() {
        let compiled = |op: &str| {
            let text = format!(
                "func.func public @main(%x: tensor<2xf64>) -> tensor<2xf64> {{
                  %0 = {op} ({{
                  ^bb0(%a: tensor<2xf64>):
                    %1 = stablehlo.multiply %a, %a : tensor<2xf64>
                    stablehlo.return %1 : tensor<2xf64>
                  }}) : (tensor<2xf64>) -> tensor<2xf64>
                  return %0 : tensor<2xf64>
                }}"
            );
            let module = jaxrs_ir::text::parse(&text, "test").expect("a program");
            compile(&module, &Options::default()).map(|lowered| lowered.program.to_string())
        };
        let attributes = "carries = 1 : i64, consts = 0 : i64, length = 5 : i64, reverse = true";
        let scan = compiled(&format!("\"jaxrs.scan\"(%x) <{{{attributes}}}>")).expect("a loop");
        assert!(!scan.is_empty());
        compiled("\"jaxrs.checkpoint\"(%x) <{policy = \"dots\", again = true}>").expect("an op");
        let refused = compiled("\"jaxrs.custom_linear\"(%x) <{residuals = 0 : i64}>");
        assert!(refused.unwrap_err().to_string().contains("use custom_jvp"));
    }

    #[test]
    fn long_chains_are_cut() {
        let mut f = Function::new("main");
        let ty = TensorType::new([64], DType::F32);
        let (mut x, y) = (f.add_parameter(ty.clone()), f.add_parameter(ty.clone()));
        let multiply = Elementwise::from_name("stablehlo.multiply").expect("a row");
        let body = f.body;
        for _ in 0..5000 {
            let op = f.push_op(body, multiply, &[x, y], vec![ty.clone()], &[], Location::default());
            x = f.ops[op].results[0];
        }
        f.blocks[body].yields = vec![x];
        let attributes = Attributes::new();
        let module = Module { name: "m".into(), attributes, functions: vec![f] };
        let lowered = compile(&module, &Options::default()).expect("compiles");
        let kernels = lowered.program.kernels.len();
        assert!((10..100).contains(&kernels), "{kernels} kernels");
    }
}
