//! Decides which values are memory and which ops are computed together.

use crate::FusionMode;
use crate::passes::region;
use cranelift_entity::SecondaryMap;
use jaxrs_ir::lower::{ElementCost, Lowering};
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueDef, ValueId, ops};
use rustc_hash::FxHashMap;

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

/// The units and forms for a function.
pub fn run(function: &Function, mode: FusionMode) -> Fused {
    let _ = mode;
    let mut fused = Fused::default();
    unfused_block(function, function.body, &mut fused);
    fused
}

fn unfused_block(function: &Function, block: BlockId, fused: &mut Fused) {
    let data = &function.blocks[block];
    for &argument in &data.arguments {
        fused.forms[argument] = Form { stored: true, inline: false };
    }
    let mut units = Vec::new();
    for &op in &data.ops {
        let data = &function.ops[op];
        match ops::lower(function, op) {
            Lowering::View => {}
            Lowering::Elements { cost, .. } => {
                let symbolic = data.operands.is_empty() && cost == ElementCost::Free;
                for &result in &data.results {
                    fused.forms[result] = Form { stored: true, inline: symbolic };
                    if !function.ty(result).is_empty() && !is_constant_storage(function, result) {
                        let shape = function.ty(result).shape.clone();
                        units.push(Unit::Kernel(Group { shape, roots: vec![result] }));
                    }
                }
            }
            Lowering::Loops { .. } | Lowering::Library(_) | Lowering::Control => {
                for &result in &data.results {
                    fused.forms[result] = Form { stored: true, inline: false };
                }
                if region::is_control(function, op) {
                    for &region in &data.regions {
                        unfused_block(function, region, fused);
                    }
                }
                units.push(Unit::Op(op));
            }
        }
    }
    fused.units.insert(block, units);
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
