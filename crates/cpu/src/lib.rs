//! Kernels and programs to native code; library steps; threads.
//!
//! [`compile`] makes an [`Executable`] of a planned program: one function a distinct kernel
//! (`codegen::nest`), one entry for the whole program (`codegen::entry`), both with Cranelift, and
//! prepared [`library`] steps for contractions, convolutions, sorts, linear algebra and Fourier
//! transforms.

mod codegen;
mod executable;
mod helpers;
pub mod library;
mod lone;
mod memory;
mod poison;
pub mod pool;
mod wide;
mod work;

pub use executable::{Executable, Hook, Moment};
pub use lone::LoneKernel;

use codegen::Vectors;
use codegen::entry::{self, EntryInput};
use codegen::target::{Code, Effort, Target, Texts, Workspace, namespace};
use codegen::tight::{self, Tight};
use cranelift_entity::{EntitySet, SecondaryMap};
use executable::Layout;
use helpers::Helper;
use jaxrs_kernel::program::{KernelId, Library, Program, SortOrder, Step, StepId, StepKind};
use jaxrs_kernel::{DType, Kernel};
use jaxrs_plan::Planned;
use jaxrs_runtime::Interface;
use library::LibraryStep;
use memory::CodeMemory;
use pool::{KernelFn, Pool};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use thiserror::Error;

/// How to compile.
#[derive(Clone, Default)]
pub struct Options {
    /// Threads to run on; at most as many as the plan has scratch for. 0: as many as that.
    pub threads: usize,
    /// Called before and after every step.
    pub hook: Option<Hook>,
    /// Overwrite dead memory with NaNs, to find reads of what should not be read.
    pub poison: bool,
    /// Share out even the least work between the threads, to find what depends on where it is cut.
    pub split_all: bool,
}

/// Why a program could not be compiled: all of them are this crate's or the machine's limits.
#[derive(Debug, Error)]
pub enum CompileError {
    /// The machine is not one Cranelift knows.
    #[error("no code for this machine: {0}")]
    Target(String),
    /// Cranelift refused a function.
    #[error("code generation failed: {0}")]
    Code(String),
    /// No executable memory.
    #[error("no executable memory: {0}")]
    Memory(#[from] std::io::Error),
}

/// The texts of a compiled program's functions.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Name, Cranelift's text, disassembly.
    pub functions: Vec<(String, String, String)>,
}

impl Listing {
    /// All functions' Cranelift text.
    pub fn clif(&self) -> String {
        self.functions.iter().map(|(name, clif, _)| format!("; {name}\n{clif}\n")).collect()
    }

    /// All functions' disassembly.
    pub fn asm(&self) -> String {
        self.functions.iter().map(|(name, _, asm)| format!("; {name}\n{asm}\n")).collect()
    }
}

/// Compiles a planned program for this machine.
///
/// # Errors
/// If the machine is unknown to Cranelift or gives no executable memory.
pub fn compile(planned: &Planned, options: &Options) -> Result<Executable, CompileError> {
    let parts = Parts::compile(planned, options, Texts(false))?;
    parts.link(planned, options)
}

/// The texts of what [`compile`] makes.
///
/// # Errors
/// As [`compile`].
pub fn listing(planned: &Planned, options: &Options) -> Result<Listing, CompileError> {
    let parts = Parts::compile(planned, options, Texts(true))?;
    let mut listing = Listing::default();
    for (index, code) in parts.entry.into_iter().enumerate() {
        listing.functions.push((format!("entry {index}"), code.clif, code.asm));
    }
    for (code, kernel) in parts.kernels.into_iter().zip(&parts.distinct) {
        let name = format!("{kernel} {}", planned.program.kernels[*kernel].name);
        listing.functions.push((name, code.clif, code.asm));
    }
    Ok(listing)
}

/// A program's code before it is put in its place.
struct Parts {
    layout: Layout,
    constants: executable::Constants,
    /// The first of each group of equal kernels.
    distinct: Vec<KernelId>,
    kernel_numbers: SecondaryMap<KernelId, u32>,
    kernels: Vec<Code>,
    entry: Vec<Code>,
    library: Vec<(LibraryStep, Option<KernelId>)>,
    pool_threads: usize,
}

impl Parts {
    fn compile(planned: &Planned, options: &Options, texts: Texts) -> Result<Parts, CompileError> {
        let program = &planned.program;
        let planned_threads = planned.threads.max(1) as usize;
        let threads = if options.threads == 0 {
            planned_threads
        } else {
            options.threads.min(planned_threads)
        };
        let (layout, constants) = Layout::new(planned);
        // Hooks want every step's values in memory, and what is split is a kernel of its own.
        let loops = if options.hook.is_none() && !options.split_all {
            tight::find(program, &layout)
        } else {
            FxHashMap::default()
        };
        let (distinct, kernel_numbers) = distinct_kernels(program, &loops);
        let mut splits = SecondaryMap::new();
        for (id, kernel) in &program.kernels {
            splits[id] = work::split(kernel, threads, options.split_all);
        }
        let (mut library, mut library_numbers) = (Vec::new(), FxHashMap::default());
        prepare_library(program, &program.body, &mut library, &mut library_numbers);
        let poison = options.poison.then(|| poison::Poison::new(planned, &layout));
        let input = EntryInput {
            program,
            layout: &layout,
            kernels: &kernel_numbers,
            splits: &splits,
            library: &library_numbers,
            loops: &loops,
            hooks: options.hook.is_some(),
            poison: poison.as_ref(),
        };
        let (kernels, entry) = compile_all(texts, &input, &distinct)?;
        Ok(Parts {
            layout,
            constants,
            distinct,
            kernel_numbers,
            kernels,
            entry,
            library,
            pool_threads: threads,
        })
    }

    /// Puts the code in executable memory.
    fn link(self, planned: &Planned, options: &Options) -> Result<Executable, CompileError> {
        let mut bytes = Vec::new();
        let mut place = |code: &Code| {
            bytes.resize(bytes.len().next_multiple_of(code.alignment.max(1)), 0xcc);
            let start = bytes.len();
            bytes.extend_from_slice(&code.bytes);
            start
        };
        let entry_starts: Vec<usize> = self.entry.iter().map(&mut place).collect();
        let kernel_starts: Vec<usize> = self.kernels.iter().map(&mut place).collect();
        let code_bytes = bytes.len();
        let functions = entry_starts.iter().zip(&self.entry);
        let functions = functions.chain(kernel_starts.iter().zip(&self.kernels));
        let code = CodeMemory::new(bytes, |bytes, address| {
            for (start, code) in functions {
                for &(offset, symbol, addend) in &code.relocations {
                    let index = symbol.index as usize;
                    let target = match symbol.namespace {
                        namespace::HELPER => Helper::ALL[index].address(),
                        namespace::KERNEL => address + kernel_starts[index],
                        _ => address + entry_starts[index],
                    };
                    let value = (target as i64 + addend).to_le_bytes();
                    bytes[start + offset..][..8].copy_from_slice(&value);
                }
            }
        })?;
        let function = |start: usize| code.address(start);
        let mut library = Vec::new();
        for (step, kernel) in self.library {
            if let Some(kernel) = kernel {
                let start = kernel_starts[self.kernel_numbers[kernel] as usize];
                // SAFETY: the address is that of a kernel's function, which has this signature.
                step.set_kernel(unsafe {
                    std::mem::transmute::<*const u8, KernelFn>(function(start))
                });
            }
            library.push(step);
        }
        // SAFETY: part 0 of the entry starts here and takes a context.
        let entry = unsafe {
            std::mem::transmute::<*const u8, executable::EntryFn>(function(entry_starts[0]))
        };
        Ok(Executable {
            interface: Interface::new(planned),
            program: planned.program.clone(),
            layout: self.layout,
            constants: self.constants,
            library,
            pool: if options.split_all {
                Pool::eager(self.pool_threads)
            } else {
                Pool::shared(self.pool_threads)
            },
            hook: options.hook.clone(),
            entry,
            code,
            code_bytes,
        })
    }
}

/// Compiles the kernels, on two threads if there are several, and the entry.
fn compile_all(
    texts: Texts,
    input: &EntryInput<'_>,
    distinct: &[KernelId],
) -> Result<(Vec<Code>, Vec<Code>), CompileError> {
    let (target, entry_target) = (Target::host(Effort::Fast)?, Target::host(Effort::Once)?);
    let next = AtomicUsize::new(0);
    let some_kernels = |work: &mut Workspace| -> Result<Vec<(usize, Code)>, CompileError> {
        let mut codes = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&id) = distinct.get(index) else { return Ok(codes) };
            let kernel = &input.program.kernels[id];
            codes.push((
                index,
                codegen::compile_kernel(target, work, texts, kernel, Vectors::Best)?,
            ));
        }
    };
    let several =
        distinct.len() > 3 && std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    let (mine, theirs, entry) = std::thread::scope(|scope| {
        let other = several.then(|| scope.spawn(|| some_kernels(&mut Workspace::new())));
        let mut work = Workspace::new();
        let entry = entry::compile([entry_target, target], &mut work, texts, input);
        let mine = some_kernels(&mut work);
        let theirs = other.map(|thread| thread.join().expect("code generation does not panic"));
        (mine, theirs, entry)
    });
    let mut codes = mine?;
    codes.extend(theirs.transpose()?.into_iter().flatten());
    codes.sort_by_key(|(index, _)| *index);
    Ok((codes.into_iter().map(|(_, code)| code).collect(), entry?))
}

/// Of the kernels that are called, those that are equal but for their name share their code.
fn distinct_kernels(
    program: &Program,
    loops: &FxHashMap<StepId, Tight<'_>>,
) -> (Vec<KernelId>, SecondaryMap<KernelId, u32>) {
    let inlined = loops.values().flat_map(|tight| &tight.inlined).copied().collect();
    let mut called = EntitySet::with_capacity(program.kernels.len());
    called_kernels(&program.body, &inlined, &mut called);
    let mut seen: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
    let mut distinct: Vec<KernelId> = Vec::new();
    let mut numbers = SecondaryMap::new();
    for (id, kernel) in program.kernels.iter().filter(|(id, _)| called.contains(*id)) {
        let candidates = seen.entry(fingerprint(kernel)).or_default();
        let equal = |number: &&u32| {
            let other = &program.kernels[distinct[**number as usize]];
            kernel.params == other.params
                && kernel.range == other.range
                && kernel.regs == other.regs
                && kernel.body == other.body
        };
        numbers[id] = match candidates.iter().find(equal) {
            Some(&number) => number,
            None => {
                let number = distinct.len() as u32;
                candidates.push(number);
                distinct.push(id);
                number
            }
        };
    }
    (distinct, numbers)
}

fn called_kernels(steps: &[Step], inlined: &FxHashSet<StepId>, called: &mut EntitySet<KernelId>) {
    for step in steps {
        match &step.kind {
            StepKind::Kernel(kernel) => {
                if !inlined.contains(&step.id) {
                    called.insert(*kernel);
                }
            }
            StepKind::Library(Library::Sort(sort)) => {
                if let SortOrder::Kernel(kernel) = sort.order {
                    called.insert(kernel);
                }
            }
            StepKind::Library(Library::Dot(dot)) => {
                called.extend(dot.epilogue.iter().map(|epilogue| epilogue.kernel));
            }
            StepKind::Library(_) | StepKind::Copy => {}
            StepKind::While(inner) => {
                called_kernels(&inner.condition, inlined, called);
                called_kernels(&inner.body, inlined, called);
            }
            StepKind::Case(inner) => {
                for branch in &inner.branches {
                    called_kernels(&branch.steps, inlined, called);
                }
            }
            StepKind::Tile(tile) => called_kernels(&tile.steps, inlined, called),
        }
    }
}

fn fingerprint(kernel: &Kernel) -> u64 {
    let mut hash = FxHasher::default();
    kernel.range.hash(&mut hash);
    kernel.body.stmts.len().hash(&mut hash);
    for param in kernel.params.values() {
        (param.dtype, param.len).hash(&mut hash);
    }
    for reg in kernel.regs.values() {
        reg.ty.hash(&mut hash);
        if let jaxrs_kernel::kernel::Def::Inst(inst) = &reg.def {
            inst.hash(&mut hash);
        }
    }
    hash.finish()
}

/// Bytes that the library steps of a program may allocate outside the plan, and keep.
pub fn library_scratch_bytes(planned: &Planned) -> u64 {
    let mut bytes = 0;
    library_steps(&planned.program, &planned.program.body, &mut |_, library, operands| {
        bytes += library::library_scratch_bytes(library, operands, planned.threads as usize);
    });
    bytes
}

/// Prepares the library steps of a list and of the lists inside.
fn prepare_library(
    program: &Program,
    steps: &[Step],
    prepared: &mut Vec<(LibraryStep, Option<KernelId>)>,
    numbers: &mut FxHashMap<StepId, u32>,
) {
    library_steps(program, steps, &mut |step, library, operands| {
        let kernel = match library {
            Library::Sort(sort) => match sort.order {
                SortOrder::Kernel(kernel) => Some(kernel),
                SortOrder::Key { .. } => None,
            },
            Library::Dot(dot) => dot.epilogue.as_ref().map(|epilogue| epilogue.kernel),
            Library::Convolution(_)
            | Library::TopK { .. }
            | Library::Print { .. }
            | Library::Linalg(_)
            | Library::Fft(_) => None,
        };
        numbers.insert(step, prepared.len() as u32);
        prepared.push((LibraryStep::new(library, operands), kernel));
    });
}

/// An operand's element type and shape.
type Operand = (DType, Vec<u64>);

/// Calls `f` with each library step of a list and of the lists inside, and its operands' types.
fn library_steps(
    program: &Program,
    steps: &[Step],
    f: &mut dyn FnMut(StepId, &Library, &[Operand]),
) {
    for step in steps {
        match &step.kind {
            StepKind::Library(library) => {
                let ty = |&value| {
                    let value: &jaxrs_kernel::program::Value = &program.values[value];
                    (value.dtype, value.shape.clone())
                };
                let operands: Vec<Operand> = step.operands.iter().map(ty).collect();
                f(step.id, library, &operands);
            }
            StepKind::While(inner) => {
                library_steps(program, &inner.condition, f);
                library_steps(program, &inner.body, f);
            }
            StepKind::Case(inner) => {
                for branch in &inner.branches {
                    library_steps(program, &branch.steps, f);
                }
            }
            StepKind::Tile(tile) => library_steps(program, &tile.steps, f),
            StepKind::Kernel(_) | StepKind::Copy => {}
        }
    }
}
