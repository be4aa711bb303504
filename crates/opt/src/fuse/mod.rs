//! Decides which values are memory and which ops are computed together.

mod cost;
mod decide;
mod maps;
mod overwritten;
mod slots;
mod strided;
mod units;

use crate::FusionMode;
use cranelift_entity::SecondaryMap;
use jaxrs_ir::lower::Lowering;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueDef, ValueId, ops};
use rustc_hash::{FxHashMap, FxHashSet};
pub(crate) use slots::{is_apart_in_steps, reads, uses};
pub use strided::{Start, Strided};

/// A splat constant of at most so many bytes that must be memory is a constant of the program; a
/// larger one is filled in when it is needed.
pub const MAX_STORED_SPLAT: u64 = 4096;

/// What fusion decides.
#[derive(Debug, Default)]
pub struct Fused {
    /// The units of each block that is the function's body or a region of control flow, in order.
    pub units: FxHashMap<BlockId, Vec<Unit>>,
    /// What each value is.
    pub forms: SecondaryMap<ValueId, Form>,
    /// Where the contractions read and write.
    pub contractions: FxHashMap<OpId, Contraction>,
    /// Large values that have memory only because computing them again takes a little longer. If
    /// they do not even share a tile with their readers, they had better be computed again.
    pub avoidable: Vec<ValueId>,
}

/// The memory of a contraction.
#[derive(Clone, Debug)]
pub struct Contraction {
    /// The operands.
    pub operands: [Strided; 2],
    /// The op that puts the result into a larger tensor: the contraction writes there.
    pub into: Option<Into>,
}

/// A part of a tensor that a contraction writes.
#[derive(Clone, Debug)]
pub struct Into {
    /// The `dynamic_update_slice` that the contraction stands for, too.
    pub update: OpId,
    /// The result as elements of the updated operand's memory.
    pub place: Strided,
    /// Whether each operand is in the same memory: it has no element in common with the part.
    pub beside: [bool; 2],
}

/// What becomes one step.
#[derive(Debug)]
pub enum Unit {
    /// Elements computed by one kernel.
    Kernel(Group),
    /// An op with loops of its own, a library call, or control flow.
    Op(OpId),
}

/// Values of one shape that one kernel computes, element by element.
#[derive(Debug)]
pub struct Group {
    /// The kernel's iteration space.
    pub shape: Vec<u64>,
    /// The values it stores.
    pub roots: Vec<ValueId>,
}

/// What a value is to the kernels. Views and constants are neither; see [`base`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// It has memory.
    pub stored: bool,
    /// Kernels compute its elements where they need them, even if it has memory.
    pub inline: bool,
}

impl Fused {
    /// Which ops are in which unit, for people.
    pub fn text(&self, function: &Function) -> String {
        let mut out = String::new();
        self.block_text(function, function.body, 0, &mut out);
        out
    }

    fn block_text(&self, f: &Function, block: BlockId, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        let name = |op: OpId| f.ops[op].op.name().rsplit('.').next().unwrap_or_default();
        for unit in &self.units[&block] {
            match unit {
                Unit::Kernel(group) => {
                    let loaded = |v: ValueId| {
                        let form = self.forms[base(f, v)];
                        form.stored && !form.inline && !group.roots.contains(&v)
                    };
                    let roots: Vec<String> = group.roots.iter().map(ToString::to_string).collect();
                    let inside = inlined(f, &group.roots, &loaded);
                    let ops: Vec<&str> = inside.iter().map(|&op| name(op)).collect();
                    *out += &format!("{indent}{} = {}\n", roots.join(", "), ops.join(" "));
                }
                Unit::Op(op) => {
                    let data = &f.ops[*op];
                    let results: Vec<String> =
                        data.results.iter().map(ToString::to_string).collect();
                    *out += &format!("{indent}{} = {}\n", results.join(", "), name(*op));
                    for region in &data.regions {
                        if self.units.contains_key(region) {
                            *out += &format!("{indent}region\n");
                            self.block_text(f, *region, depth + 1, out);
                        }
                    }
                }
            }
        }
    }
}

/// The ops that compute values, down to those that are loaded, each after its operands'.
fn inlined(f: &Function, roots: &[ValueId], loaded: &dyn Fn(ValueId) -> bool) -> Vec<OpId> {
    let mut out = Vec::new();
    let mut seen = rustc_hash::FxHashSet::default();
    let mut stack: Vec<(ValueId, bool)> = roots.iter().rev().map(|&v| (v, false)).collect();
    while let Some((value, ready)) = stack.pop() {
        let Some(op) = f.defining_op(value) else { continue };
        if ready {
            out.push(op);
        } else if !loaded(value) && seen.insert(op) {
            stack.push((value, true));
            stack.extend(f.ops[op].operands.iter().rev().map(|&v| (v, false)));
        }
    }
    out
}

/// The units and forms for a function, of whose parameters some are donated. The values `again` are
/// computed again where they are read even if that takes a little longer than to keep them (see
/// [`Fused::avoidable`]).
pub fn run(
    function: &Function,
    mode: FusionMode,
    donated: &dyn Fn(usize) -> bool,
    again: &FxHashSet<ValueId>,
) -> Fused {
    decide::run(function, mode, donated, again)
}

/// Whether the value, where it must be memory, is a constant of the program.
pub fn is_constant_storage(function: &Function, value: ValueId) -> bool {
    match constant(function, value) {
        Some(literal) => literal.as_splat().is_none() || literal.ty().bytes() <= MAX_STORED_SPLAT,
        None => function.ty(value).is_empty(),
    }
}

/// The literal of a value that a constant op makes.
pub fn constant(function: &Function, value: ValueId) -> Option<&jaxrs_ir::Literal> {
    match &function.ops[function.defining_op(value)?].op {
        Op::Constant(constant) => Some(&constant.value),
        _ => None,
    }
}

/// The value whose bytes a value has, following views.
pub fn base(function: &Function, value: ValueId) -> ValueId {
    let mut value = value;
    while let Some(operand) = viewed(function, value) {
        value = operand;
    }
    value
}

/// The operand whose bytes a view's result has.
pub fn viewed(function: &Function, value: ValueId) -> Option<ValueId> {
    let ValueDef::Result(op, number) = function.values[value].def else { return None };
    match ops::lower(function, op) {
        Lowering::View => Some(function.ops[op].operands[number as usize]),
        _ => None,
    }
}
