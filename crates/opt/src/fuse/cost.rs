//! Estimates of what computing an element costs, in units of one cheap instruction.

use super::constant;
use crate::passes::region;
use cranelift_entity::SecondaryMap;
use jaxrs_ir::lower::{ElementCost, Lowering};
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId, ops};

/// Reading or writing 4 bytes of memory.
pub(super) const MEMORY: f64 = 3.0;
/// Starting one more kernel.
pub(super) const STEP: f64 = 2000.0;
/// A division or a transcendental function.
pub(super) const EXPENSIVE: f64 = 20.0;
/// Reductions longer than this are not computed again.
const SHORT_LOOP: u64 = 16;

/// What computing an element of each value costs, its operands' elements included down to values
/// that are likely to be memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    /// Instructions, loads included.
    pub work: f64,
    /// Made of constants and counters alone, in few instructions: computed wherever it is needed,
    /// inside control flow, too.
    pub symbolic: bool,
    /// Likely to be memory.
    pub memory: bool,
    /// Computed from memory that the program itself writes.
    pub made: bool,
}

/// A tensor of at most so many bytes stays in the nearest cache.
const NEAR_BYTES: u64 = 16 << 10;

/// A tensor of at most so many bytes says nothing about the peak.
pub(super) const SMALL_BYTES: u64 = 1 << 10;

/// Units of an element of the value moved to or from memory.
pub(super) fn traffic(f: &Function, value: ValueId) -> f64 {
    let ty = f.ty(value);
    if ty.bytes() <= NEAR_BYTES { 1.0 } else { MEMORY * ty.dtype.size() as f64 / 4.0 }
}

/// Units of an element's place in memory. Memory is dear: what is written is first fetched.
pub(super) fn place(f: &Function, value: ValueId) -> f64 {
    3.0 * MEMORY * f.ty(value).dtype.size() as f64 / 4.0
}

/// The same where the whole tensor leaves the caches before it is read, and is what the peak is
/// made of; none if the tensor is too small for that.
pub(super) fn dear_place(f: &Function, value: ValueId) -> Option<f64> {
    (f.ty(value).bytes() > SMALL_BYTES).then(|| 4.0 * place(f, value))
}

/// The estimates of all values.
pub(super) fn estimates(f: &Function) -> SecondaryMap<ValueId, Estimate> {
    let mut all = SecondaryMap::new();
    let mut uses = SecondaryMap::new();
    for block in f.blocks.values() {
        let operands = block.ops.iter().flat_map(|&op| &f.ops[op].operands);
        operands.chain(&block.yields).for_each(|&v| uses[v] += 1);
    }
    block(f, f.body, &uses, &mut all);
    all
}

type Uses = SecondaryMap<ValueId, u32>;

fn block(f: &Function, id: BlockId, uses: &Uses, all: &mut SecondaryMap<ValueId, Estimate>) {
    for &argument in &f.blocks[id].arguments {
        all[argument] = Estimate { work: 0.0, symbolic: false, memory: true, made: false };
    }
    for &op in &f.blocks[id].ops {
        if region::is_control(f, op) {
            f.ops[op].regions.iter().for_each(|&region| block(f, region, uses, all));
        }
        let estimate = estimate(f, op, uses, all);
        for &result in &f.ops[op].results {
            all[result] = estimate;
        }
    }
}

fn estimate(
    f: &Function,
    op: OpId,
    uses: &Uses,
    all: &SecondaryMap<ValueId, Estimate>,
) -> Estimate {
    let data = &f.ops[op];
    let (own, times) = match ops::lower(f, op) {
        Lowering::Elements { cost: ElementCost::Free, .. } => (0.5, 1.0),
        Lowering::Elements { cost: ElementCost::Cheap, .. } => (1.0, 1.0),
        Lowering::Elements { cost: ElementCost::Expensive, .. } => (EXPENSIVE, 1.0),
        Lowering::Elements { cost: ElementCost::Loop(n), .. } => (n as f64, n as f64),
        Lowering::View => (0.0, 1.0),
        Lowering::Loops { .. } | Lowering::Library(_) | Lowering::Control => {
            return Estimate { work: 0.0, symbolic: false, memory: true, made: true };
        }
    };
    if let Some(&result) = data.results.first()
        && let Some(literal) = constant(f, result)
    {
        let symbolic = literal.as_splat().is_some();
        return Estimate { work: 0.0, symbolic, memory: !symbolic, made: false };
    }
    let mut work = own;
    let mut symbolic = data.regions.is_empty();
    let mut made = false;
    for &operand in &data.operands {
        let inner = all[operand];
        symbolic &= inner.symbolic;
        made |= inner.made;
        // A rank-0 operand is read once for the whole kernel.
        if f.ty(operand).rank() > 0 {
            let each = if inner.memory { traffic(f, operand) } else { inner.work };
            work += times * each * repeated(f, op);
        }
    }
    let long = times > SHORT_LOOP as f64;
    made |= long;
    // What is expensive is seldom computed twice.
    let shared = own >= EXPENSIVE && data.results.iter().any(|&v| uses[v] > 1);
    let memory = long || shared;
    Estimate { work: work.min(1e12), symbolic: symbolic && work <= 8.0, memory, made }
}

/// What the op itself costs for each element of its result.
pub(super) fn own_work(f: &Function, op: OpId) -> f64 {
    match ops::lower(f, op) {
        Lowering::Elements { cost: ElementCost::Free, .. } => 0.5,
        Lowering::Elements { cost: ElementCost::Expensive, .. } => EXPENSIVE,
        Lowering::Elements { cost: ElementCost::Loop(n), .. } => n as f64,
        _ => 1.0,
    }
}

/// The part of a broadcast's elements for which its operand is computed: not the innermost loops
/// that only repeat it.
fn repeated(f: &Function, op: OpId) -> f64 {
    let data = &f.ops[op];
    let Op::BroadcastInDim(broadcast) = &data.op else { return 1.0 };
    let from = &f.ty(data.operands[0]).shape;
    let moving = broadcast.axes.iter().zip(from).filter(|(_, extent)| **extent != 1);
    let outer = moving.map(|(&axis, _)| axis + 1).max().unwrap_or(0);
    1.0 / broadcast.shape[outer..].iter().map(|&e| e as f64).product::<f64>().max(1.0)
}

/// About how many instructions the op's body has.
pub(super) fn instructions(f: &Function, op: OpId) -> u32 {
    match ops::lower(f, op) {
        Lowering::Elements { cost: ElementCost::Free, .. } | Lowering::View => 1,
        Lowering::Elements { cost: ElementCost::Cheap, .. } => 3,
        Lowering::Elements { cost: ElementCost::Expensive, .. } => 30,
        Lowering::Elements { cost: ElementCost::Loop(_), .. } => 10,
        Lowering::Loops { .. } | Lowering::Library(_) | Lowering::Control => 0,
    }
}
