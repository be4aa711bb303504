//! Builds the program: a kernel for each group, a step for each other op.

mod epilogue;
mod kernel;
pub(crate) mod origin;
mod tile;
mod values;

pub(crate) use origin::function_between;

use crate::fuse::{Fused, Start, Strided, Unit};
use crate::passes::region;
use crate::{FusionMode, Options};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use jaxrs_ir::lower::Lowering;
use jaxrs_ir::ops::OpView;
use jaxrs_ir::{BlockId, Error, Function, Location, Module, Op, OpId, ops};
use jaxrs_kernel::program::{
    Branch, Case, ConstantId, DotBegin, DotStart, Library, OriginId, Program, Scratch, Sharing,
    SortOrder, Step, StepId, StepKind, Storage, ValueId, While,
};
use jaxrs_kernel::scratch::scratch;
use rustc_hash::FxHashMap;
pub use values::is_donated;

/// A program, and what its steps stand for.
pub struct Built {
    /// The program.
    pub program: Program,
    /// The SSA function of each step's ops.
    pub origins: PrimaryMap<OriginId, Function>,
    /// The values of [`Fused::avoidable`] that became whole tensors all the same.
    pub avoidable: Vec<jaxrs_ir::ValueId>,
}

/// The program of a function's units.
pub fn run(
    module: &Module,
    function: &Function,
    fused: &Fused,
    options: &Options,
) -> Result<Built, Vec<Error>> {
    let mut builder = Builder::new(&module.name, function, fused);
    builder.parameters(options);
    builder.tiles = options.fuse == FusionMode::On;
    let steps = builder.block(function.body);
    builder.program.results = function.results().iter().map(|&v| builder.value(v)).collect();
    let results = builder.program.results.clone();
    builder.program.body = builder.finish_steps(steps, &results);
    if builder.errors.is_empty() {
        let avoidable = builder.whole(&fused.avoidable);
        Ok(Built { program: builder.program, origins: builder.origins, avoidable })
    } else {
        Err(builder.errors)
    }
}

struct Builder<'a> {
    function: &'a Function,
    fused: &'a Fused,
    program: Program,
    origins: PrimaryMap<OriginId, Function>,
    /// The program's value of each IR value that has memory.
    values: SecondaryMap<jaxrs_ir::ValueId, PackedOption<ValueId>>,
    constants: FxHashMap<Vec<u8>, ConstantId>,
    steps: u32,
    /// The IR values of a kernel step's operands and results.
    sources: FxHashMap<StepId, [Vec<jaxrs_ir::ValueId>; 2]>,
    /// Whether kernels are put into tiles.
    tiles: bool,
    errors: Vec<Error>,
}

impl<'a> Builder<'a> {
    fn new(name: &str, function: &'a Function, fused: &'a Fused) -> Builder<'a> {
        Builder {
            function,
            fused,
            program: Program {
                name: name.to_string(),
                values: PrimaryMap::new(),
                kernels: PrimaryMap::new(),
                constants: PrimaryMap::new(),
                parameters: Vec::new(),
                results: Vec::new(),
                body: Vec::new(),
            },
            origins: PrimaryMap::new(),
            values: SecondaryMap::new(),
            constants: FxHashMap::default(),
            steps: 0,
            sources: FxHashMap::default(),
            tiles: false,
            errors: Vec::new(),
        }
    }

    fn fail(&mut self, message: impl Into<String>, location: &Location) {
        self.errors.push(Error::new(message, location));
    }

    /// The steps of a block.
    fn block(&mut self, block: BlockId) -> Vec<Step> {
        let fused = self.fused;
        let mut steps = Vec::new();
        for unit in &fused.units[&block] {
            match unit {
                Unit::Kernel(group) => steps.push(self.group(group)),
                Unit::Op(op) => steps.extend(self.op(*op)),
            }
        }
        steps
    }

    /// The step of an op that is not computed by elements.
    fn op(&mut self, op: OpId) -> Option<Step> {
        let function = self.function;
        let data = &function.ops[op];
        match ops::lower(function, op) {
            Lowering::Loops { updates, emit } => Some(self.loops(op, &updates, &*emit)),
            Lowering::Library(library) => Some(self.library(op, library)),
            Lowering::Control if region::is_control(function, op) => Some(self.control(op)),
            Lowering::Control => {
                let message = format!("{} cannot be compiled", data.op.name());
                self.fail(message, &data.location);
                None
            }
            Lowering::Elements { .. } | Lowering::View => {
                unreachable!("{} is no unit of its own", data.op.name())
            }
        }
    }

    fn library(&mut self, op: OpId, mut library: Library) -> Step {
        let data = &self.function.ops[op];
        if let Library::Sort(sort) = &mut library
            && let SortOrder::Kernel(id) = &mut sort.order
        {
            let kernel = self.comparator(op);
            *id = self.program.kernels.push(kernel);
        }
        let (mut read, mut written) = (data.operands.clone(), data.results.clone());
        let mut into = None;
        if let (Op::DotGeneral(dot), Some(memory)) = (&data.op, self.fused.contractions.get(&op)) {
            let view = OpView { function: self.function, id: op };
            let [a, b] = &memory.operands;
            into = memory.into.as_ref();
            let out = into.map(|into| &into.place.strides[..]);
            let strided = dot.library_strided(view, [&a.strides, &b.strides], out);
            let mut dot = strided.expect("a library call with dense operands, too");
            read = vec![a.base, b.base];
            let tensors = [a, b].into_iter().chain(into.map(|into| &into.place));
            for (begin, tensor) in dot.begin.iter_mut().zip(tensors) {
                *begin = self.begin(tensor, &mut read);
            }
            if let Some(into) = into {
                read.push(into.place.base);
                written = self.function.ops[into.update].results.clone();
            }
            library = Library::Dot(dot);
        }
        let operands: Vec<ValueId> = read.iter().map(|&v| self.value(v)).collect();
        let results: Vec<ValueId> = written.iter().map(|&v| self.value(v)).collect();
        let origin = self.origin(&read, &written);
        let mut sharing = vec![vec![Sharing::Never; operands.len()]; results.len()];
        let mut updates = Vec::new();
        if let Some(into) = into {
            updates.push((0, operands.len() as u32 - 1));
            *sharing[0].last_mut().expect("the updated operand") = Sharing::SameElement;
            for (operand, beside) in into.beside.into_iter().enumerate() {
                if beside {
                    sharing[0][operand] = Sharing::SameElement;
                }
            }
        }
        for (result, operand) in library.in_place() {
            sharing[result][operand] = Sharing::SameElement;
        }
        let scratch = scratch(&library);
        let step = self.step(StepKind::Library(library), operands, results, sharing, Some(origin));
        self.sources.insert(step.id, [read, written]);
        Step { scratch, updates, ..step }
    }

    /// Where a tensor of a contraction begins; its indices become operands.
    fn begin(&self, tensor: &Strided, read: &mut Vec<jaxrs_ir::ValueId>) -> DotBegin {
        let start = |start: &Start| {
            let known = read[2..].iter().position(|&v| v == start.index);
            let operand = 2 + known.unwrap_or(read.len() - 2) as u32;
            if known.is_none() {
                read.push(start.index);
            }
            let dtype = self.function.ty(start.index).dtype;
            DotStart { operand, dtype, high: start.high, stride: start.stride }
        };
        DotBegin { first: tensor.first, starts: tensor.starts.iter().map(start).collect() }
    }

    fn control(&mut self, op: OpId) -> Step {
        let data = &self.function.ops[op];
        let operands: Vec<ValueId> = data.operands.iter().map(|&v| self.value(v)).collect();
        let kind = if matches!(data.op, Op::While(_)) {
            self.while_loop(op)
        } else {
            self.case(&data.regions)
        };
        let results: Vec<ValueId> = data.results.iter().map(|&v| self.value(v)).collect();
        let sharing = vec![vec![Sharing::Never; operands.len()]; results.len()];
        self.step(kind, operands, results, sharing, None)
    }

    fn while_loop(&mut self, op: OpId) -> StepKind {
        let function = self.function;
        let [condition, body] = function.ops[op].regions[..] else {
            unreachable!("a verified while has two regions")
        };
        let mut carries = Vec::new();
        let arguments = &function.blocks[body].arguments;
        for (position, (&a, &b)) in
            function.blocks[condition].arguments.iter().zip(arguments).enumerate()
        {
            let carry = self.carry(op, position, b);
            self.values[a] = carry.into();
            carries.push(carry);
        }
        let condition_steps = self.block(condition);
        let condition_value = self.value(function.blocks[condition].yields[0]);
        let condition_steps = self.finish_steps(condition_steps, &[condition_value]);
        let body_steps = self.block(body);
        let next: Vec<ValueId> =
            function.blocks[body].yields.iter().map(|&v| self.value(v)).collect();
        let body_steps = self.finish_steps(body_steps, &next);
        StepKind::While(Box::new(While {
            carries,
            condition: condition_steps,
            condition_value,
            body: body_steps,
            next,
        }))
    }

    fn case(&mut self, regions: &[BlockId]) -> StepKind {
        let function = self.function;
        let branch = |&region: &BlockId| {
            let steps = self.block(region);
            let results: Vec<ValueId> =
                function.blocks[region].yields.iter().map(|&v| self.value(v)).collect();
            let steps = self.finish_steps(steps, &results);
            Branch { steps, results }
        };
        let branches = regions.iter().map(branch).collect();
        StepKind::Case(Box::new(Case { branches }))
    }

    fn step(
        &mut self,
        kind: StepKind,
        operands: Vec<ValueId>,
        results: Vec<ValueId>,
        sharing: Vec<Vec<Sharing>>,
        origin: Option<OriginId>,
    ) -> Step {
        let id = StepId::from_u32(self.steps);
        self.steps += 1;
        let (updates, scratch) = (Vec::new(), Scratch::default());
        Step { id, kind, operands, results, updates, sharing, scratch, origin }
    }

    /// A value with its own bytes for the carry of a loop.
    fn carry(&mut self, op: OpId, position: usize, argument: jaxrs_ir::ValueId) -> ValueId {
        let data = &self.function.ops[op];
        let name = format!("{argument}.carry{position}").trim_start_matches('%').to_string();
        let ty = self.function.ty(argument);
        let value = self.new_value(name, "while", ty, Storage::Own, &data.location);
        self.values[argument] = value.into();
        value
    }
}
