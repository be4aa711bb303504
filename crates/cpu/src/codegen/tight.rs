//! Loops of cheap iterations, for which calls and round trips through memory would be most of the
//! time: which loops, which kernels are written into them, which values stay in registers.
//!
//! Such a loop, with the loops and branches inside, is one function of its own, made with effort.
//! * A kernel of few instructions is written into it where it is called.
//! * A value of one element that the loop makes is a variable of the function, a *cell*. It is
//!   written to its place in memory only if something in the loop reads it there: a kernel that is
//!   called, the library, a view with another element type. Places are not looked at: the plan
//!   lets a value live in its place from its definition to its last use, so a variable that holds
//!   it for the same time holds the same. The values at the loop's end are stored when it is left.
//! * Elements of values made before the loop are read once, before the loop.

use crate::executable::Layout;
use crate::work;
use jaxrs_kernel::Kernel;
use jaxrs_kernel::kernel::{Block, LoopKind, Stmt};
use jaxrs_kernel::program::{
    KernelId, Library, Program, Step, StepId, StepKind, Storage, ValueId, While,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Nanoseconds of an iteration for each of its steps above which what a call costs is little.
const CHEAP_STEP: f64 = 400.0;
/// Steps of a loop that is one function.
const MOST_STEPS: usize = 150;
/// Instructions that are written into one function.
const MOST_INSTRUCTIONS: usize = 4000;
/// Instructions without loops that are written in place of a call.
const STRAIGHT: usize = 400;
/// Executed instructions of a kernel with loops that cost about what a call does.
const LOOPED: f64 = 32.0;

/// What is known of one loop.
pub(crate) struct Tight<'a> {
    /// The kernel steps that are written in place.
    pub(crate) inlined: FxHashSet<StepId>,
    /// The steps that are called with pointers.
    pub(crate) called: Vec<&'a Step>,
    /// The values that are variables, and whether memory holds them, too.
    pub(crate) cells: FxHashMap<ValueId, bool>,
    /// The values from before the loop that are read once.
    pub(crate) outside: Vec<ValueId>,
}

/// The loops of a program that are worth it, by their steps.
pub(crate) fn find<'a>(program: &'a Program, layout: &Layout) -> FxHashMap<StepId, Tight<'a>> {
    let mut found = FxHashMap::default();
    search(program, layout, &program.body, &mut found);
    found
}

fn search<'a>(
    program: &'a Program,
    layout: &Layout,
    steps: &'a [Step],
    found: &mut FxHashMap<StepId, Tight<'a>>,
) {
    for step in steps {
        match &step.kind {
            StepKind::While(inner) => {
                let (mut count, mut time) = (0, 0.0);
                cost(program, std::slice::from_ref(step), &mut count, &mut time);
                if count <= MOST_STEPS && time <= CHEAP_STEP * count as f64 {
                    found.insert(step.id, Tight::new(program, layout, inner));
                } else {
                    search(program, layout, &inner.condition, found);
                    search(program, layout, &inner.body, found);
                }
            }
            StepKind::Case(inner) => {
                for branch in &inner.branches {
                    search(program, layout, &branch.steps, found);
                }
            }
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {}
        }
    }
}

/// Adds the steps of a list, nested ones included, and the nanoseconds of running it with every
/// loop inside taken once.
fn cost(program: &Program, steps: &[Step], count: &mut usize, time: &mut f64) {
    for step in steps {
        *count += 1;
        match &step.kind {
            StepKind::Kernel(kernel) => *time += work::nanoseconds(&program.kernels[*kernel]),
            StepKind::Library(library) => *time += library_time(program, step, library),
            StepKind::Copy => *time += program.values[step.results[0]].bytes().0 as f64 / 16.0,
            StepKind::While(inner) => {
                cost(program, &inner.condition, count, time);
                cost(program, &inner.body, count, time);
            }
            StepKind::Case(inner) => {
                let before = *time;
                let mut most = before;
                for branch in &inner.branches {
                    *time = before;
                    cost(program, &branch.steps, count, time);
                    most = most.max(*time);
                }
                *time = most;
            }
            StepKind::Tile(tile) => cost(program, &tile.steps, count, time),
        }
    }
}

/// Nanoseconds of a library step, roughly.
fn library_time(program: &Program, step: &Step, library: &Library) -> f64 {
    match library {
        Library::Dot(dot) => {
            let axes = dot.batch.iter().chain(&dot.m).chain(&dot.n).chain(&dot.k);
            axes.map(|axis| axis.extent as f64).product::<f64>() / 16.0
        }
        Library::Convolution(_) => {
            let sizes = step.operands.iter().map(|&v| program.values[v].len() as f64);
            sizes.product::<f64>() / 16.0
        }
        // The loop's time is that of the writing.
        Library::Print { .. } => 1e6,
        Library::Sort(_) | Library::TopK { .. } => {
            10.0 * program.values[step.operands[0]].len() as f64
        }
        Library::Linalg(linalg) => {
            let [rows, columns] = linalg.shape.map(|extent| extent as f64);
            100.0 + linalg.batch as f64 * rows * columns * rows.min(columns)
        }
        Library::Fft(_) => 100.0 + 4.0 * program.values[step.operands[0]].len() as f64,
    }
}

impl<'a> Tight<'a> {
    fn new(program: &'a Program, layout: &Layout, inner: &'a While) -> Tight<'a> {
        let mut walk = Walk {
            program,
            layout,
            made: FxHashSet::default(),
            outside: FxHashSet::default(),
            instructions: 0,
            tight: Tight {
                inlined: FxHashSet::default(),
                called: Vec::new(),
                cells: FxHashMap::default(),
                outside: Vec::new(),
            },
        };
        walk.define_loop(inner);
        walk.loop_(inner);
        walk.tight.outside.extend(walk.outside);
        walk.tight.outside.sort_unstable();
        walk.tight
    }

    /// The cell that holds a value.
    pub(crate) fn cell(
        &self,
        program: &Program,
        layout: &Layout,
        value: ValueId,
    ) -> Option<ValueId> {
        let (root, _) = layout.root(program, value);
        let whole = program.values[value].dtype == program.values[root].dtype
            && program.values[value].len() == 1;
        (whole && self.cells.contains_key(&root)).then_some(root)
    }
}

struct Walk<'l, 'a> {
    program: &'a Program,
    layout: &'l Layout,
    /// The values made in the loop.
    made: FxHashSet<ValueId>,
    outside: FxHashSet<ValueId>,
    instructions: usize,
    tight: Tight<'a>,
}

impl<'a> Walk<'_, 'a> {
    /// Finds the values that the loop makes and, of them, the cells.
    fn define_loop(&mut self, inner: &While) {
        inner.carries.iter().for_each(|&value| self.define(value));
        self.define_list(&inner.condition);
        self.define_list(&inner.body);
    }

    fn define_list(&mut self, steps: &[Step]) {
        for step in steps {
            step.results.iter().for_each(|&value| self.define(value));
            match &step.kind {
                StepKind::While(inner) => self.define_loop(inner),
                StepKind::Case(inner) => {
                    inner.branches.iter().for_each(|branch| self.define_list(&branch.steps));
                }
                StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => {
                }
            }
        }
    }

    fn define(&mut self, value: ValueId) {
        self.made.insert(value);
        let data = &self.program.values[value];
        if data.storage == Storage::Own && data.len() == 1 && !data.dtype.is_complex() {
            self.tight.cells.insert(value, false);
        }
    }

    fn loop_(&mut self, inner: &'a While) {
        self.list(&inner.condition);
        self.list(&inner.body);
        self.read(inner.condition_value);
        inner.carries.iter().chain(&inner.next).for_each(|&value| self.read(value));
    }

    fn list(&mut self, steps: &'a [Step]) {
        steps.iter().for_each(|step| self.step(step));
    }

    fn step(&mut self, step: &'a Step) {
        match &step.kind {
            StepKind::Kernel(kernel) => self.kernel(step, *kernel),
            StepKind::Library(_) => self.called(step),
            StepKind::Copy => step.operands.iter().for_each(|&value| self.read(value)),
            StepKind::While(inner) => {
                step.operands.iter().for_each(|&value| self.read(value));
                self.loop_(inner);
            }
            StepKind::Case(inner) => {
                self.read(step.operands[0]);
                for branch in &inner.branches {
                    self.list(&branch.steps);
                    branch.results.iter().for_each(|&value| self.read(value));
                }
            }
            StepKind::Tile(tile) => {
                let inside = tile.steps.iter().flat_map(|step| &step.operands);
                step.operands.iter().chain(inside).for_each(|&value| self.from_memory(value));
            }
        }
    }

    fn kernel(&mut self, step: &'a Step, id: KernelId) {
        let kernel = &self.program.kernels[id];
        let size = kernel.regs.len();
        let values = step.operands.iter().chain(&step.results);
        let plain = kernel.params.values().zip(values).all(|(param, &value)| {
            let dtype = self.program.values[value].dtype;
            param.dtype == dtype || dtype.is_complex()
        });
        if !plain || !is_small(kernel) || self.instructions + size > MOST_INSTRUCTIONS {
            self.called(step);
            return;
        }
        self.instructions += size;
        self.tight.inlined.insert(step.id);
        for (param, &value) in kernel.params.values().zip(&step.operands) {
            let data = &self.program.values[value];
            let (root, _) = self.layout.root(self.program, value);
            if !self.made.contains(&root) && data.len() == 1 && data.dtype == param.dtype {
                self.outside.insert(value);
            } else {
                self.read(value);
            }
        }
    }

    fn called(&mut self, step: &'a Step) {
        self.tight.called.push(step);
        step.operands.iter().for_each(|&value| self.from_memory(value));
    }

    /// A use that takes a cell where there is one.
    fn read(&mut self, value: ValueId) {
        if self.tight.cell(self.program, self.layout, value).is_none() {
            self.from_memory(value);
        }
    }

    fn from_memory(&mut self, value: ValueId) {
        let (root, _) = self.layout.root(self.program, value);
        if let Some(stored) = self.tight.cells.get_mut(&root) {
            *stored = true;
        }
    }
}

/// Whether a kernel costs about what a call does, or is short code without loops.
fn is_small(kernel: &Kernel) -> bool {
    if kernel.regs.len() > STRAIGHT {
        return false;
    }
    match loops(kernel, &kernel.body) {
        Loops::None => true,
        Loops::Exact => work::instructions(kernel) <= LOOPED,
        Loops::Ordered => false,
    }
}

/// The loops of a kernel, the least welcome last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Loops {
    None,
    /// Any order of the iterations gives the same bits.
    Exact,
    /// Vectors combine floats in an order of theirs, from which a result must not depart.
    Ordered,
}

fn loops(kernel: &Kernel, block: &Block) -> Loops {
    let of = |stmt: &Stmt| match stmt {
        Stmt::Loop(inner) => {
            let float = inner.carries.iter().any(|c| kernel.regs[c.inside].ty.is_float());
            let own =
                if inner.kind == LoopKind::Reduce && float { Loops::Ordered } else { Loops::Exact };
            own.max(loops(kernel, &inner.body))
        }
        Stmt::If(inner) => loops(kernel, &inner.then).max(loops(kernel, &inner.otherwise)),
        Stmt::Let(_) | Stmt::Store { .. } => Loops::None,
    };
    block.stmts.iter().map(of).max().unwrap_or(Loops::None)
}
