//! A compiled program and what its code sees of a call.

use crate::library::LibraryStep;
use crate::memory::CodeMemory;
use crate::pool::Pool;
use cranelift_entity::SecondaryMap;
use jaxrs_kernel::program::{ConstantId, Program, StepId, Storage, ValueId};
use jaxrs_plan::{Place, Planned, Region};
use jaxrs_runtime::Interface;
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::Arc;

/// What a hook is told.
pub struct Moment<'a> {
    /// The step.
    pub step: StepId,
    /// Whether it has run (or is about to).
    pub done: bool,
    executable: &'a Executable,
    bases: &'a [*mut u8],
}

impl Moment<'_> {
    /// The bytes of a value as they are now; none if it has no place (a tile's local value).
    /// Only the operands of the step, and its results when done, hold what their names say.
    pub fn bytes(&self, value: ValueId) -> Option<&[u8]> {
        let (program, layout) = (&self.executable.program, &self.executable.layout);
        let bytes = program.values[value].bytes().0 as usize;
        if bytes == 0 {
            return Some(&[]);
        }
        let (slot, offset) = layout.place(program, value)?;
        let start = self.bases[slot].wrapping_add(offset as usize);
        // SAFETY: the plan places the value inside its region, whose base the caller of the entry
        // promised to be valid; nothing runs while the hook looks.
        Some(unsafe { std::slice::from_raw_parts(start, bytes) })
    }
}

/// Called before and after every step that is not inside a tile.
pub type Hook = Arc<dyn Fn(&Moment<'_>) + Send + Sync>;

/// What the code of a program is given for a call.
#[repr(C)]
pub(crate) struct Context {
    /// Base addresses, by slot of [`Layout`].
    bases: *const *mut u8,
    executable: *const Executable,
}

/// Where a context keeps its table of base addresses.
pub(crate) const BASES_OFFSET: i32 = offset_of!(Context, bases) as i32;

impl Context {
    /// # Safety
    /// The context is that of a running call.
    unsafe fn executable(&self) -> &Executable {
        // SAFETY: `Executable::run` puts a reference to itself there for the call's length.
        unsafe { &*self.executable }
    }

    pub(crate) fn pool(&self) -> &Pool {
        // SAFETY: contexts exist only in `Executable::run`.
        unsafe { &self.executable().pool }
    }

    pub(crate) fn library(&self, index: u64) -> &LibraryStep {
        // SAFETY: contexts exist only in `Executable::run`.
        unsafe { &self.executable().library[index as usize] }
    }

    pub(crate) fn hook(&self, step: u32, done: bool) {
        // SAFETY: contexts exist only in `Executable::run`.
        let executable = unsafe { self.executable() };
        let Some(hook) = &executable.hook else { return };
        // SAFETY: the table has one base for each slot.
        let bases = unsafe { std::slice::from_raw_parts(self.bases, executable.layout.slots()) };
        hook(&Moment { step: StepId::from_u32(step), done, executable, bases });
    }
}

/// How regions are numbered in the table of base addresses: arguments, outputs, the arena, the
/// constants (one block).
#[derive(Debug)]
pub(crate) struct Layout {
    arguments: usize,
    outputs: usize,
    places: SecondaryMap<ValueId, Option<Place>>,
    constants: SecondaryMap<ConstantId, u64>,
    scratch: rustc_hash::FxHashMap<StepId, u64>,
}

impl Layout {
    /// The layout of a plan, and the block of its constants.
    pub(crate) fn new(planned: &Planned) -> (Layout, Constants) {
        let mut offsets = SecondaryMap::new();
        let mut total = 0;
        for (id, bytes) in &planned.program.constants {
            offsets[id] = total as u64;
            total += bytes.len().next_multiple_of(64);
        }
        let mut constants = Constants::new(total);
        for (id, bytes) in &planned.program.constants {
            constants.bytes_mut()[offsets[id] as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        let layout = Layout {
            arguments: planned.program.parameters.len(),
            outputs: planned.program.results.len(),
            places: planned.places.clone(),
            constants: offsets,
            scratch: planned.scratch.iter().map(|(&step, bytes)| (step, bytes.0)).collect(),
        };
        (layout, constants)
    }

    pub(crate) fn slots(&self) -> usize {
        self.arguments + self.outputs + 2
    }

    pub(crate) fn arena_slot(&self) -> usize {
        self.arguments + self.outputs
    }

    pub(crate) fn output_slot(&self, output: u32) -> usize {
        self.arguments + output as usize
    }

    fn constants_slot(&self) -> usize {
        self.arena_slot() + 1
    }

    /// Whether the program may write to a region: an output, or a donated argument.
    pub(crate) fn is_written(&self, planned: &Planned, slot: usize) -> bool {
        use jaxrs_kernel::program::Donation;
        match planned.program.parameters.get(slot) {
            Some(parameter) => parameter.donation != Donation::Kept,
            None => slot <= self.arena_slot(),
        }
    }

    /// The value that has the bytes of a value, and where in it they begin.
    pub(crate) fn root(&self, program: &Program, value: ValueId) -> (ValueId, u64) {
        match program.values[value].storage {
            Storage::View { base, offset } => {
                let (root, within) = self.root(program, base);
                (root, within + offset.0)
            }
            Storage::Parameter(_) | Storage::Constant(_) | Storage::Own => (value, 0),
        }
    }

    /// Slot and offset of a value's first byte; none if it has no place.
    pub(crate) fn place(&self, program: &Program, value: ValueId) -> Option<(usize, u64)> {
        if let Some(place) = self.places[value] {
            return Some(match place.region {
                Region::Argument(index) => (index as usize, place.offset.0),
                Region::Output(index) => (self.output_slot(index), place.offset.0),
                Region::Arena => (self.arena_slot(), place.offset.0),
                Region::Constant(id) => {
                    (self.constants_slot(), self.constants[id] + place.offset.0)
                }
            });
        }
        match program.values[value].storage {
            Storage::View { base, offset } => {
                let (slot, start) = self.place(program, base)?;
                Some((slot, start + offset.0))
            }
            Storage::Parameter(index) => Some((index as usize, 0)),
            Storage::Constant(id) => Some((self.constants_slot(), self.constants[id])),
            Storage::Own => None,
        }
    }

    /// Slot and offset of a step's scratch.
    pub(crate) fn scratch(&self, step: StepId) -> Option<(usize, u64)> {
        self.scratch.get(&step).map(|&offset| (self.arena_slot(), offset))
    }
}

/// The constants' bytes, aligned to 64.
pub(crate) struct Constants(Vec<Line>);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Constants {
    fn new(bytes: usize) -> Constants {
        Constants(vec![Line([0; 64]); bytes.div_ceil(64).max(1)])
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = 64 * self.0.len();
        // SAFETY: lines are 64 initialized bytes each, without padding.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), bytes) }
    }

    fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }
}

thread_local! {
    /// A call's table of base addresses, kept so that calls allocate nothing.
    static BASES: Cell<Vec<*mut u8>> = const { Cell::new(Vec::new()) };
}

/// A program's entry point.
pub(crate) type EntryFn = unsafe extern "C" fn(*const Context);

/// A compiled program.
pub struct Executable {
    pub(crate) interface: Interface,
    pub(crate) program: Program,
    pub(crate) layout: Layout,
    pub(crate) constants: Constants,
    pub(crate) library: Vec<LibraryStep>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) hook: Option<Hook>,
    pub(crate) entry: EntryFn,
    /// The code that `entry` points into.
    pub(crate) code: CodeMemory,
    pub(crate) code_bytes: usize,
}

impl Executable {
    /// Bytes of machine code.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    /// The address range of the machine code, for profilers.
    pub fn code_start(&self) -> *const u8 {
        self.code.address(0)
    }
}

impl jaxrs_runtime::Executable for Executable {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    unsafe fn run(&self, arguments: &[*mut u8], outputs: &[*mut u8], arena: *mut u8) {
        assert_eq!(arguments.len(), self.interface.arguments.len(), "arguments");
        assert_eq!(outputs.len(), self.interface.results.len(), "outputs");
        let mut bases = BASES.take();
        bases.clear();
        bases.extend_from_slice(arguments);
        bases.extend_from_slice(outputs);
        bases.push(arena);
        bases.push(self.constants.address());
        let context = Context { bases: bases.as_ptr(), executable: self };
        // SAFETY: the code is that of this executable, alive as long as `self`; the caller
        // promises the regions, and the plan keeps all accesses inside them.
        unsafe { (self.entry)(&raw const context) };
        BASES.set(bases);
    }
}
