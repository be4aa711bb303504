//! How much work a kernel is, and so whether and how its range is split over threads.

use jaxrs_kernel::kernel::{Block, Def, Stmt};
use jaxrs_kernel::{BinaryOp, CastOp, Inst, Kernel, UnaryOp};

/// Nanoseconds of work below which waking another thread costs more than it saves.
const LEAST_PARALLEL: f64 = 20_000.0;
/// Nanoseconds of work worth a part of its own.
const LEAST_PART: f64 = 5_000.0;
/// Nanoseconds of an ordinary instruction in a vector loop.
const INSTRUCTION: f64 = 0.08;

/// A kernel's range as threads share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// Values of the outer index.
    pub(crate) range: i64,
    /// The fewest of them worth a thread's while.
    pub(crate) grain: i64,
}

/// How the kernel is split; none if it runs on the calling thread. `all`: however little it does.
pub(crate) fn split(kernel: &Kernel, threads: usize, all: bool) -> Option<Split> {
    let range = kernel.range.filter(|&range| range > 1)?;
    if all {
        return (threads > 1).then_some(Split { range: range as i64, grain: 1 });
    }
    let total = nanoseconds(kernel);
    if threads < 2 || total < LEAST_PARALLEL {
        return None;
    }
    let grain = (LEAST_PART * range as f64 / total).ceil().max(1.0);
    Some(Split { range: range as i64, grain: grain as i64 })
}

/// About how long the whole kernel takes on one thread.
pub(crate) fn nanoseconds(kernel: &Kernel) -> f64 {
    INSTRUCTION * instructions(kernel)
}

/// About how many instructions run if there are no vectors.
pub(crate) fn instructions(kernel: &Kernel) -> f64 {
    block(kernel, &kernel.body)
}

fn block(kernel: &Kernel, block_: &Block) -> f64 {
    block_.stmts.iter().map(|stmt| statement(kernel, stmt)).sum()
}

fn statement(kernel: &Kernel, stmt: &Stmt) -> f64 {
    match stmt {
        Stmt::Let(reg) => match &kernel.regs[*reg].def {
            Def::Inst(inst) => instruction(inst),
            Def::LoopVar | Def::Carry | Def::Result => 0.0,
        },
        Stmt::Store { .. } => 2.0,
        Stmt::Loop(inner) => 2.0 + (inner.end - inner.start) as f64 * block(kernel, &inner.body),
        Stmt::If(inner) => 1.0 + block(kernel, &inner.then).max(block(kernel, &inner.otherwise)),
    }
}

fn instruction(inst: &Inst) -> f64 {
    match inst {
        Inst::Const(_) | Inst::Index(_) => 0.0,
        Inst::FloorDiv(..) | Inst::Modulo(..) => 6.0,
        Inst::Load(..) => 2.0,
        Inst::Unary(UnaryOp::Sqrt, _) => 6.0,
        Inst::Unary(UnaryOp::RoundF16 | UnaryOp::BitsF16, _) => 10.0,
        Inst::Unary(..) | Inst::Fma(..) | Inst::Compare(..) | Inst::Select(..) => 1.0,
        Inst::Binary(op, ..) => match op {
            BinaryOp::Div => 5.0,
            BinaryOp::Rem => 40.0,
            BinaryOp::DivS | BinaryOp::DivU | BinaryOp::RemS | BinaryOp::RemU => 20.0,
            _ => 1.0,
        },
        Inst::Cast(CastOp::FloatToSigned | CastOp::FloatToUnsigned, _) => 4.0,
        Inst::Cast(..) => 1.0,
    }
}
