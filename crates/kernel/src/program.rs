//! A function as ordered steps over values: what the planner places and a back end runs.
//!
//! # Meaning
//! * A value is a dense row-major tensor in memory. [`Storage`] says who owns its bytes: a
//!   parameter, a constant, itself, or another value of which it is a view.
//! * A step reads its operands and writes its results, whole. Steps of a list run in order.
//!   Operands are values of the same list earlier, of an enclosing list, parameters or constants.
//! * `updates` names (result, operand) pairs where the step expects the result's memory to hold the
//!   operand's content before it starts: whoever places values shares their storage or copies.
//! * Parameters that are not donated and constants are never written.

use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::linalg::Routine;
use cranelift_entity::{PrimaryMap, entity_impl};
use std::fmt;

/// A value of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);
entity_impl!(ValueId, "v");

/// A kernel of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId(u32);
entity_impl!(KernelId, "k");

/// A constant of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConstantId(u32);
entity_impl!(ConstantId, "c");

/// A step, unique in its program, nested steps included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId(u32);
entity_impl!(StepId, "step");

/// The SSA function a step stands for, kept beside the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OriginId(u32);
entity_impl!(OriginId, "origin");

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Rounded up to the alignment of every buffer, 64.
    pub fn aligned(self) -> Bytes {
        Bytes(self.0.next_multiple_of(64))
    }
}

/// A place in a source text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourcePlace {
    /// The file, or none for the program text itself.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl fmt::Display for SourcePlace {
    /// `file:line`, or `line:column` in the program text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}:{}", self.line),
            None => write!(f, "{}:{}", self.line, self.column),
        }
    }
}

/// Who owns a value's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The argument with this index.
    Parameter(u32),
    /// A constant.
    Constant(ConstantId),
    /// The value has bytes of its own, placed by the planner.
    Own,
    /// The bytes from `offset` on of another value (never itself a view).
    View {
        /// The value that has the bytes.
        base: ValueId,
        /// Where they begin.
        offset: Bytes,
    },
}

/// A value.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name, unique: of a parameter `arg0`, of a constant `c0`, else from the op (`add.12`).
    pub name: String,
    /// The op that makes it.
    pub op: String,
    /// Element type.
    pub dtype: DType,
    /// Extents of the axes.
    pub shape: Vec<u64>,
    /// Who owns the bytes.
    pub storage: Storage,
    /// The op's place in the source.
    pub source: Option<SourcePlace>,
}

impl Value {
    /// Elements.
    pub fn len(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes, not rounded up.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.len() * self.dtype.size())
    }

    /// StableHLO's spelling, e.g. `tensor<2x3xf32>`.
    pub fn type_name(&self) -> String {
        let mut text = String::from("tensor<");
        for extent in &self.shape {
            text += &format!("{extent}x");
        }
        text + self.dtype.name() + ">"
    }
}

/// What an argument's owner allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Donation {
    /// Read only.
    Kept,
    /// May be overwritten once its content is dead.
    Donated {
        /// The result that the source text pairs it with.
        preferred: Option<u32>,
    },
}

/// An argument.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its value.
    pub value: ValueId,
    /// Whether it may be overwritten.
    pub donation: Donation,
}

/// When a result may share memory with an operand, for the bytes at equal offsets from their
/// starts. Weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sharing {
    /// Not at all.
    Never,
    /// If both start at the same address: every element of the operand is read before the element
    /// of the result with the same offset or a later one is written, on one thread.
    Ordered,
    /// If both start at the same address: an element is written only by the iteration that has
    /// read it, whatever the vectors and threads.
    SameElement,
    /// Anywhere: the operand is read in full before anything of the result is written.
    AfterFullRead,
}

/// Memory of a step that is no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Bytes for each thread; a multiple of 64.
    pub per_thread: Bytes,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its id.
    pub id: StepId,
    /// What it does.
    pub kind: StepKind,
    /// What it reads, in the order the kind defines.
    pub operands: Vec<ValueId>,
    /// What it writes.
    pub results: Vec<ValueId>,
    /// (result, operand): the result's memory holds the operand's content before the step.
    pub updates: Vec<(u32, u32)>,
    /// For each result, for each operand: whether they may share memory.
    pub sharing: Vec<Vec<Sharing>>,
    /// Memory of its own.
    pub scratch: Scratch,
    /// The SSA function it stands for: its parameters are the operands, its results the results.
    /// None for copies that the program builder adds.
    pub origin: Option<OriginId>,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum StepKind {
    /// Runs a kernel, whose parameters are the operands, then the results.
    Kernel(KernelId),
    /// Calls the library.
    Library(Library),
    /// Copies operand 0 to result 0.
    Copy,
    /// A loop. Operands are the carries' initial values, results their final ones.
    While(Box<While>),
    /// A branch. Operand 0 is the index (`i32`; out of range takes the last branch; `i1`: true
    /// takes branch 0).
    Case(Box<Case>),
    /// Steps run block of rows by block of rows.
    Tile(Box<Tile>),
}

/// `while condition(carries) { carries = body(carries) }`.
#[derive(Clone, Debug)]
pub struct While {
    /// The carries inside; each shares its type with the operand and the result of its position.
    pub carries: Vec<ValueId>,
    /// Steps that compute the condition.
    pub condition: Vec<Step>,
    /// The condition, an `i1`.
    pub condition_value: ValueId,
    /// Steps of one iteration.
    pub body: Vec<Step>,
    /// The carries' next values.
    pub next: Vec<ValueId>,
}

/// Branches of which one runs.
#[derive(Clone, Debug)]
pub struct Case {
    /// The branches; at least one.
    pub branches: Vec<Branch>,
}

/// One branch.
#[derive(Clone, Debug)]
pub struct Branch {
    /// Its steps.
    pub steps: Vec<Step>,
    /// The results' values.
    pub results: Vec<ValueId>,
}

/// Kernels with one outer index in common, run for a block of rows at a time, so that values used
/// only inside need one block each thread. A local value's row `i` is touched for outer index `i`
/// only; kernels address it as if it were whole.
#[derive(Clone, Debug)]
pub struct Tile {
    /// Values of the outer index.
    pub extent: u64,
    /// Rows of a block.
    pub rows: u64,
    /// Kernel steps whose kernels have `range == Some(extent)`, in order.
    pub steps: Vec<Step>,
    /// Values made and used only inside, with the byte offset of their block in the step's
    /// per-thread scratch. Their first axes have `extent` rows in all.
    pub locals: Vec<(ValueId, Bytes)>,
}

/// A library call.
#[derive(Clone, Debug, PartialEq)]
pub enum Library {
    /// Contraction of operands 0 and 1.
    Dot(Dot),
    /// Convolution of operands 0 and 1.
    Convolution(Convolution),
    /// Sorts operands together along an axis.
    Sort(Sort),
    /// The `k` largest of operand 0 along its last axis: values, then `i32` positions; ties by
    /// position. Floats are in IEEE 754's total order.
    TopK {
        /// How many.
        k: u64,
    },
    /// Shows its operands, and has no results. Such steps keep their order.
    Print {
        /// The line; each `{}` stands for an operand.
        label: String,
        /// A line for each position of so many leading axes, which all operands have.
        axes: u64,
    },
    /// Linear algebra on each matrix of the operands' last two axes.
    Linalg(Linalg),
    /// Fourier transform of operand 0 along its last axes.
    Fft(Fft),
}

impl Library {
    /// The (result, operand) pairs that may be one memory: each part of the operand is read in full
    /// before the same part of the result is written, and both parts lie at equal offsets.
    pub fn in_place(&self) -> Vec<(usize, usize)> {
        match self {
            Library::Sort(sort) => (0..sort.dtypes.len()).map(|n| (n, n)).collect(),
            Library::Linalg(linalg) => vec![(0, linalg.routine.operands().1)],
            Library::Fft(fft) if !fft.kind.is_real() => vec![(0, 0)],
            Library::Fft(_)
            | Library::Dot(_)
            | Library::Convolution(_)
            | Library::TopK { .. }
            | Library::Print { .. } => Vec::new(),
        }
    }
}

/// A routine on each matrix of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Linalg {
    /// What is done to each matrix.
    pub routine: Routine,
    /// The element type of the first operand.
    pub dtype: DType,
    /// Matrices.
    pub batch: u64,
    /// Rows and columns of the first result.
    pub shape: [u64; 2],
}

/// A Fourier transform.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fft {
    /// Its kind.
    pub kind: FftKind,
    /// The element type of the parts: `f32` or `f64`.
    pub part: DType,
    /// Elements of the leading axes, which are not transformed.
    pub batch: u64,
    /// Lengths of the transformed axes, of the real side where there is one; at least one.
    pub lengths: Vec<u64>,
}

/// Kinds of Fourier transforms. Inverses are divided by the number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FftKind {
    /// Complex to complex.
    Forward,
    /// Complex to complex.
    Inverse,
    /// Real to the first half (and one more) of the last axis, complex.
    RealForward,
    /// Back from there.
    RealInverse,
}

impl FftKind {
    /// Whether one side is real.
    pub fn is_real(self) -> bool {
        matches!(self, FftKind::RealForward | FftKind::RealInverse)
    }

    /// Whether it is an inverse.
    pub fn is_inverse(self) -> bool {
        matches!(self, FftKind::Inverse | FftKind::RealInverse)
    }

    /// StableHLO's name.
    pub fn name(self) -> &'static str {
        match self {
            FftKind::Forward => "FFT",
            FftKind::Inverse => "IFFT",
            FftKind::RealForward => "RFFT",
            FftKind::RealInverse => "IRFFT",
        }
    }
}

impl Fft {
    /// Extents of the transformed axes where they are complex.
    pub fn complex_extents(&self) -> Vec<u64> {
        let mut extents = self.lengths.clone();
        if let (true, Some(last)) = (self.kind.is_real(), extents.last_mut()) {
            *last = if *last == 0 { 0 } else { *last / 2 + 1 };
        }
        extents
    }
}

/// An axis of a contraction with its strides, in elements, in each tensor (0 where absent).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct DotAxis {
    pub extent: u64,
    pub lhs: i64,
    pub rhs: i64,
    pub out: i64,
}

/// Where a tensor of a contraction begins in the memory of its value, in elements: `first`, and
/// for each start its index, clamped, times its stride.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DotBegin {
    /// What is known when the program is compiled.
    pub first: i64,
    /// What is known when it runs.
    pub starts: Vec<DotStart>,
}

/// An index among the operands of a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DotStart {
    /// Which operand of the step holds it: an integer of rank 0.
    pub operand: u32,
    /// Its element type.
    pub dtype: DType,
    /// The largest index; larger ones count as this one, negative ones as 0.
    pub high: i64,
    /// Elements from one index to the next.
    pub stride: i64,
}

/// `out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]`, each group of axes in nested order.
///
/// Operands after the first two are the indices that [`DotStart`] names, then the value that the
/// step updates, if the contraction is only a part of its result, then those of the epilogue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dot {
    /// Element type of both operands, after [`Dot::operand_types`] are converted to it: `f32`
    /// accumulation for `bf16` and `f16`, the result's type for integers.
    pub operand_types: [DType; 2],
    /// The result's element type.
    pub out: DType,
    /// Batch axes.
    pub batch: Vec<DotAxis>,
    /// Free axes of the left operand.
    pub m: Vec<DotAxis>,
    /// Free axes of the right operand.
    pub n: Vec<DotAxis>,
    /// Contracting axes.
    pub k: Vec<DotAxis>,
    /// Where lhs, rhs and out begin.
    pub begin: [DotBegin; 3],
    /// What is computed of the sums before anything is written.
    pub epilogue: Option<Box<Epilogue>>,
}

/// A kernel that takes each row of a contraction's sums, which are no memory of their own, to the
/// same row of the step's result. The sums are dense, in rows of `row` elements; where the
/// contraction has an epilogue, `out` is the sums' type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// The kernel, over the elements of one row.
    pub kernel: KernelId,
    /// Elements of a row.
    pub row: u64,
    /// The kernel's parameters but the last one, which is the result.
    pub params: Vec<EpilogueParam>,
    /// Bytes of a row of the result.
    pub result_row: u64,
}

/// What a parameter of an epilogue's kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpilogueParam {
    /// The sums.
    Sums,
    /// An operand of the step, of which each row is so many bytes after the one before.
    Operand {
        /// Which one.
        operand: u32,
        /// Bytes.
        step: i64,
    },
}

/// A general convolution: StableHLO's attributes with axes resolved to positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Element types of the operands.
    pub operand_types: [DType; 2],
    /// The result's element type.
    pub out: DType,
    /// Shapes of lhs, rhs and result.
    pub shapes: [Vec<u64>; 3],
    /// Axis of the batch in lhs and result.
    pub batch: [usize; 2],
    /// Axis of the features: lhs, rhs input, rhs output, result.
    pub features: [usize; 4],
    /// Spatial axes.
    pub spatial: Vec<SpatialAxis>,
    /// Feature groups.
    pub feature_groups: u64,
    /// Batch groups.
    pub batch_groups: u64,
}

/// A spatial axis of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct SpatialAxis {
    /// Position in lhs, rhs and result.
    pub axis: [usize; 3],
    pub stride: i64,
    pub pad_low: i64,
    pub pad_high: i64,
    pub lhs_dilation: i64,
    pub rhs_dilation: i64,
    pub reverse: bool,
}

/// Sorts rows along an axis, all operands by one comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Sort {
    /// Extent of the axes before, of the sorted axis, and of the axes after.
    pub extents: [u64; 3],
    /// Element types of the operands.
    pub dtypes: Vec<DType>,
    /// Whether equal rows keep their order.
    pub stable: bool,
    /// Whether one row stands before another.
    pub order: SortOrder,
}

/// The comparison of a sort.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SortOrder {
    /// By one operand, a float: JAX's order, with -0 = +0 and NaNs equal and last; else the
    /// integers' order. Ties are equal.
    Key {
        /// The operand.
        operand: u32,
        /// Whether larger stands first (NaNs, too).
        descending: bool,
    },
    /// By a kernel over single elements: parameters are a0, b0, a1, b1, ..., then an `i1` result
    /// that says whether a stands before b.
    Kernel(KernelId),
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// The module's name.
    pub name: String,
    /// The values.
    pub values: PrimaryMap<ValueId, Value>,
    /// The kernels.
    pub kernels: PrimaryMap<KernelId, Kernel>,
    /// The constants' bytes.
    pub constants: PrimaryMap<ConstantId, Vec<u8>>,
    /// The arguments.
    pub parameters: Vec<Parameter>,
    /// The results; may name a parameter, a constant, a view or one value twice.
    pub results: Vec<ValueId>,
    /// The steps.
    pub body: Vec<Step>,
}
