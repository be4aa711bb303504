//! A kernel: structured loops over scalar instructions, reading and writing buffers.
//!
//! # Meaning
//! A kernel is a function of its parameters' buffers and of a range `[lo, hi)` of its outer index.
//! Running it over `[0, range)` in any number of disjoint pieces, in any order or at once, gives
//! the same buffers, bit for bit.
//! * Statements run in order. A register is assigned once and is visible in the rest of its block
//!   and in the blocks inside.
//! * A [`LoopKind::Parallel`] loop's iterations touch no element that another one writes; it has no
//!   carries. A [`LoopKind::Reduce`] loop carries accumulators, each combined by one instruction
//!   that may be reassociated (lane-wise partial results, in an order fixed by the code alone).
//!   A [`LoopKind::Sequential`] loop runs in order.
//! * A ranged loop runs over `[max(start, lo), min(end, hi))`. Ranged loops stand at the top level
//!   only, all of them parallel, and every store is inside one. A kernel with no range runs whole,
//!   whatever `lo` and `hi` are.
//! * Every access is in bounds: `0 <= at < len`.

use crate::affine::Affine;
use crate::dtype::{DType, RegType};
use crate::inst::{BinaryOp, Inst};
use cranelift_entity::{PrimaryMap, entity_impl};

/// A register: assigned once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(u32);
entity_impl!(Reg, "r");

/// A parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParamId(u32);
entity_impl!(ParamId, "p");

/// Whether a kernel reads or writes a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Access {
    Read,
    Write,
    ReadWrite,
}

/// A buffer that a kernel reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The element type; never complex: a complex tensor is twice as many floats.
    pub dtype: DType,
    /// Elements.
    pub len: u64,
    /// Reads, writes or both.
    pub access: Access,
}

/// What a register is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Def {
    /// The result of an instruction, computed where [`Stmt::Let`] names the register.
    Inst(Inst),
    /// The variable of a loop.
    LoopVar,
    /// A carry inside its loop.
    Carry,
    /// The final value of a carry, or a result of an `if`.
    Result,
}

/// A register's type and definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegData {
    /// The type.
    pub ty: RegType,
    /// The definition.
    pub def: Def,
    /// Least and largest value, known for index registers (`i64`) only.
    pub bounds: Option<(i64, i64)>,
}

/// Statements in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The statements.
    pub stmts: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stmt {
    /// Computes the register's instruction.
    Let(Reg),
    /// Writes an element, narrowing from the register type to the parameter's element type.
    Store {
        /// The buffer.
        param: ParamId,
        /// Position in elements.
        at: Affine,
        /// The value.
        value: Reg,
    },
    /// A loop.
    Loop(Box<Loop>),
    /// A branch.
    If(Box<If>),
}

/// How the iterations of a loop depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// Not at all.
    Parallel,
    /// Through carries that may be reassociated.
    Reduce,
    /// In order.
    Sequential,
}

/// A counted loop with step 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The variable, an `i64`.
    pub var: Reg,
    /// First value.
    pub start: i64,
    /// One past the last value; above `start`.
    pub end: i64,
    /// Whether the kernel's range cuts it.
    pub ranged: bool,
    /// Dependence between iterations.
    pub kind: LoopKind,
    /// Values carried from one iteration to the next.
    pub carries: Vec<Carry>,
    /// What an iteration does.
    pub body: Block,
}

/// A value carried round a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carry {
    /// Its name inside the loop.
    pub inside: Reg,
    /// Its value at the start, defined outside.
    pub init: Reg,
    /// Its value for the next iteration, defined in the body (or outside).
    pub next: Reg,
    /// Its name after the loop.
    pub result: Reg,
    /// In a reduce loop: `next = op(inside, x)`, or a chain `op(op(inside, x), y)`, maybe through
    /// the carries of inner reduce loops, with no link of the chain used anywhere else.
    pub op: Option<BinaryOp>,
}

/// A branch; only the taken block runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct If {
    /// An `i1`.
    pub condition: Reg,
    /// Where it is true.
    pub then: Block,
    /// Where it is false.
    pub otherwise: Block,
    /// Result register, its value from `then`, its value from `otherwise`.
    pub results: Vec<(Reg, Reg, Reg)>,
}

/// A kernel. See the module's documentation for what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Made from the ops it stands for; for people.
    pub name: String,
    /// The buffers, operands first, then results.
    pub params: PrimaryMap<ParamId, Param>,
    /// The registers.
    pub regs: PrimaryMap<Reg, RegData>,
    /// What it does.
    pub body: Block,
    /// Values of the outer index, if the work can be split over it.
    pub range: Option<u64>,
}
