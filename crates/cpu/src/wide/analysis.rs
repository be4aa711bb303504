//! Which loop of a nest becomes the lanes of vectors, and what every register is under it.

use super::near::is_near;
use super::tile::{Across, Nest, Tile};
use cranelift_entity::SecondaryMap;
use jaxrs_kernel::kernel::{Block, Def, If, Loop, LoopKind, Stmt};
use jaxrs_kernel::{Affine, BinaryOp, CastOp, Inst, Kernel, ParamId, Reg, RegType, UnaryOp};
use rustc_hash::FxHashMap;

/// What a register is from lane to lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The same.
    #[default]
    Uniform,
    /// An index that grows by a constant.
    Step(i64),
    /// Anything.
    Varying,
}

/// Every register's class under a loop.
pub(crate) type Classes = SecondaryMap<Reg, Lane>;

/// How a loop chosen for lanes is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Lanes of a register: 16, or 8 where 64-bit values vary.
    pub(crate) lanes: i64,
    /// Registers of a varying value.
    pub(crate) chunks: i64,
    /// If the loop is run in tiles with the innermost one.
    pub(crate) tile: Option<Tile>,
}

/// The loops chosen, by their variable.
pub(crate) type Chosen = FxHashMap<Reg, Shape>;

/// Chooses loops for lanes, no two nested; none if the kernel has an instruction that vectors lack
/// or the loops left over would cost more than vectors save.
pub(crate) fn choose(kernel: &Kernel) -> Option<Chosen> {
    let mut chooser =
        Chooser { kernel, chosen: Chosen::default(), supported: true, across: Vec::new() };
    let cost = chooser.block(&kernel.body);
    // Scalar work is better done by scalar code, but for what is too little to matter.
    let worth = !chooser.chosen.is_empty() || cost < LITTLE;
    (chooser.supported && worth).then_some(chooser.chosen)
}

/// The classes of all registers inside a loop when it becomes the lanes.
pub(crate) fn classify(kernel: &Kernel, inner: &Loop) -> Classes {
    let mut classes = Classes::new();
    classes[inner.var] = Lane::Step(1);
    for carry in &inner.carries {
        classes[carry.inside] = Lane::Varying;
    }
    classify_block(kernel, &inner.body, &mut classes);
    classes
}

/// The class of an index expression.
pub(crate) fn affine_class(at: &Affine, classes: &Classes) -> Lane {
    let mut step = 0;
    for &(reg, coefficient) in &at.terms {
        match classes[reg] {
            Lane::Uniform => {}
            Lane::Step(by) => step += by * coefficient,
            Lane::Varying => return Lane::Varying,
        }
    }
    if step == 0 { Lane::Uniform } else { Lane::Step(step) }
}

fn classify_block(kernel: &Kernel, block: &Block, classes: &mut Classes) {
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(reg) => {
                let Def::Inst(inst) = &kernel.regs[*reg].def else { continue };
                classes[*reg] = instruction_class(inst, classes);
            }
            Stmt::Store { .. } => {}
            Stmt::Loop(inner) => classify_loop(kernel, inner, classes),
            Stmt::If(inner) => {
                classify_block(kernel, &inner.then, classes);
                classify_block(kernel, &inner.otherwise, classes);
                for &(result, a, b) in &inner.results {
                    let uniform =
                        [inner.condition, a, b].iter().all(|&r| classes[r] == Lane::Uniform);
                    classes[result] = if uniform { Lane::Uniform } else { Lane::Varying };
                }
            }
        }
    }
}

fn classify_loop(kernel: &Kernel, inner: &Loop, classes: &mut Classes) {
    classes[inner.var] = Lane::Uniform;
    for carry in &inner.carries {
        let uniform = classes[carry.init] == Lane::Uniform;
        classes[carry.inside] = if uniform { Lane::Uniform } else { Lane::Varying };
    }
    // A carry that is found to vary may make others vary.
    loop {
        classify_block(kernel, &inner.body, classes);
        let mut changed = false;
        for carry in &inner.carries {
            if classes[carry.inside] == Lane::Uniform && classes[carry.next] != Lane::Uniform {
                classes[carry.inside] = Lane::Varying;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    for carry in &inner.carries {
        classes[carry.result] = classes[carry.inside];
    }
}

fn instruction_class(inst: &Inst, classes: &Classes) -> Lane {
    let all = |regs: &[Reg]| {
        let uniform = regs.iter().all(|&r| classes[r] == Lane::Uniform);
        if uniform { Lane::Uniform } else { Lane::Varying }
    };
    match inst {
        Inst::Const(_) => Lane::Uniform,
        Inst::Index(at) => affine_class(at, classes),
        Inst::FloorDiv(at, _) | Inst::Modulo(at, _) | Inst::Load(_, at) => {
            match affine_class(at, classes) {
                Lane::Uniform => Lane::Uniform,
                Lane::Step(_) | Lane::Varying => Lane::Varying,
            }
        }
        Inst::Unary(_, a) | Inst::Cast(_, a) => all(&[*a]),
        Inst::Binary(_, a, b) | Inst::Compare(_, _, a, b) => all(&[*a, *b]),
        Inst::Fma(a, b, c) | Inst::Select(a, b, c) => all(&[*a, *b, *c]),
    }
}

/// Whether an `i64` register is an index whose values fit an `i32`, so that uses by comparisons
/// and conversions need no 64-bit lanes.
pub(crate) fn is_small_index(kernel: &Kernel, reg: Reg) -> bool {
    let data = &kernel.regs[reg];
    let index = match &data.def {
        Def::Inst(Inst::Const(bits)) => return i32::try_from(*bits as i64).is_ok(),
        Def::Inst(Inst::Index(_)) | Def::LoopVar => true,
        _ => false,
    };
    let fits = |(low, high): (i64, i64)| low >= i32::MIN.into() && high <= i32::MAX.into();
    index && data.ty == RegType::I64 && data.bounds.is_some_and(fits)
}

/// Whether the cast of a small index is done on 32-bit lanes.
pub(crate) fn is_small_cast(op: CastOp, to: RegType) -> bool {
    match op {
        CastOp::Truncate => to != RegType::I1,
        CastOp::SignedToFloat => to == RegType::F32,
        _ => false,
    }
}

/// What things cost, in cycles or so; a ranking, not much more.
const SCALAR: f64 = 1.2;
const GATHER: f64 = 1.3;
/// What a scatter in a loop inside of the lanes costs more than a gather, a lane.
const SCATTER: f64 = 1.7;
/// What lanes a multiple of a page apart cost more in a loop inside of them: they share a set of
/// the first cache, which then keeps no line until its next use.
const CONFLICT: f64 = 3.0;
const NARROW_LANE: f64 = 2.0;
/// More where each lane has a cache line of its own.
const FAR_LANE: f64 = 1.0;
const LITTLE: f64 = 400.0;

struct Chooser<'a> {
    kernel: &'a Kernel,
    chosen: Chosen,
    supported: bool,
    /// The accesses that tiles transpose, while the cost of tiles is counted.
    across: Vec<Across>,
}

impl Chooser<'_> {
    /// The cost of a block outside of vector loops; chooses among the loops inside.
    fn block(&mut self, block: &Block) -> f64 {
        let mut cost = 0.0;
        for stmt in &block.stmts {
            cost += match stmt {
                Stmt::Let(reg) => {
                    let Def::Inst(inst) = &self.kernel.regs[*reg].def else { continue };
                    self.check(inst, Lane::Uniform);
                    SCALAR * weight(inst)
                }
                Stmt::Store { .. } => SCALAR,
                Stmt::If(inner) => {
                    let both = self.block(&inner.then);
                    2.0 + both + self.block(&inner.otherwise)
                }
                Stmt::Loop(inner) => self.loop_(inner),
            };
        }
        cost
    }

    fn loop_(&mut self, inner: &Loop) -> f64 {
        let trips = (inner.end - inner.start) as f64;
        let before = self.chosen.clone();
        let scalar = trips * (2.0 + self.block(&inner.body));
        let lanes = self.lanes(inner);
        let tiles = self.tiles(inner);
        let cheaper = |a: (Shape, f64), b: (Shape, f64)| if b.1 < a.1 { b } else { a };
        let Some((shape, cost)) = lanes.into_iter().chain(tiles).reduce(cheaper) else {
            return scalar;
        };
        if cost < scalar {
            // Loops inside are not chosen again.
            self.chosen = before;
            self.chosen.insert(inner.var, shape);
            cost
        } else {
            scalar
        }
    }

    /// Shape and cost of the loop as lanes, if it can be.
    fn lanes(&mut self, inner: &Loop) -> Option<(Shape, f64)> {
        match inner.kind {
            LoopKind::Sequential => return None,
            LoopKind::Reduce => {
                let known = inner.carries.iter().all(|c| c.op.is_some_and(BinaryOp::reassociates));
                if !known || has_store(&inner.body) {
                    return None;
                }
            }
            LoopKind::Parallel => {}
        }
        let trips = inner.end - inner.start;
        if trips < 2 {
            return None;
        }
        let classes = classify(self.kernel, inner);
        let mut counts = Counts::default();
        let wide_carry = inner.carries.iter().any(|c| self.bits(c.inside) == 64);
        counts.wide |= wide_carry;
        let cost = self.lane_block(&inner.body, &classes, &mut counts)?;
        let lanes = if counts.wide { 8 } else { 16 };
        let size = counts.instructions;
        let mut chunks = match size {
            0..=14 => 4,
            15..=40 => 2,
            _ if inner.kind == LoopKind::Reduce && size < 80 => 2,
            _ => 1,
        };
        while chunks > 1 && trips < chunks * lanes {
            chunks /= 2;
        }
        // What grows with the lanes was counted for one lane.
        let vectors = (trips as f64 / lanes as f64).ceil();
        let reduce = 15.0 * inner.carries.len() as f64;
        let total = vectors * (cost + counts.per_lane * lanes as f64 + 1.0) + reduce + 6.0;
        Some((Shape { lanes, chunks, tile: None }, total))
    }

    /// Shape and cost of the loop and those in it as tiles, if they can be.
    fn tiles(&mut self, outer: &Loop) -> Option<(Shape, f64)> {
        let mut best: Option<(Shape, f64)> = None;
        for lanes_inside in [true, false] {
            let tile = Tile { lanes_inside };
            let Some(nest) = super::tile::nest(self.kernel, outer, tile) else { continue };
            let count = nest.loads.len() + nest.stores.len();
            self.across = nest.loads.iter().chain(&nest.stores).cloned().collect();
            let mut counts = Counts::default();
            let cost = self.tile_row(&nest, &mut counts);
            self.across.clear();
            let Some(cost) = cost else { continue };
            let lanes = if counts.wide { 8 } else { 16 };
            let along = |l: &Loop| (l.end - l.start + lanes - 1) / lanes;
            let tiles = (along(nest.outer) * along(nest.inner) * nest.between) as f64;
            let row = cost + counts.per_lane * lanes as f64 + 2.0 + 5.0 * count as f64;
            let total = tiles * (lanes as f64 * row + 10.0) + 20.0;
            if best.is_none_or(|(_, least)| total < least) {
                best = Some((Shape { lanes, chunks: 1, tile: Some(tile) }, total));
            }
        }
        best
    }

    /// The cost of a row of a tile; none if vectors lack an instruction.
    fn tile_row(&mut self, nest: &Nest, counts: &mut Counts) -> Option<f64> {
        let mut cost = self.lane_block(&nest.inner.body, &nest.classes, counts)?;
        for &stmt in &nest.moved {
            let Stmt::Let(reg) = stmt else { unreachable!("only computations are moved") };
            let Def::Inst(inst) = &self.kernel.regs[*reg].def else { continue };
            if !self.check(inst, nest.classes[*reg]) {
                return None;
            }
            cost += self.lane_instruction(*reg, inst, &nest.classes, counts);
        }
        Some(cost)
    }

    fn is_across(&self, param: ParamId, at: &Affine) -> bool {
        self.across.iter().any(|a| a.0 == param && a.1 == *at)
    }

    fn bits(&self, reg: Reg) -> u32 {
        self.kernel.regs[reg].ty.bits()
    }

    /// The cost of a block for one vector; none if the loop cannot be lanes.
    fn lane_block(&mut self, block: &Block, classes: &Classes, counts: &mut Counts) -> Option<f64> {
        let kernel = self.kernel;
        let mut cost = 0.0;
        for stmt in &block.stmts {
            cost += match stmt {
                Stmt::Let(reg) => {
                    let data = &kernel.regs[*reg];
                    let Def::Inst(inst) = &data.def else { continue };
                    if !self.check(inst, classes[*reg]) {
                        return None;
                    }
                    self.lane_instruction(*reg, inst, classes, counts)
                }
                Stmt::Store { param, at, value } => {
                    counts.instructions += 1;
                    counts.wide |= self.bits(*value) == 64;
                    let bytes = kernel.params[*param].dtype.size();
                    match affine_class(at, classes) {
                        _ if self.is_across(*param, at) => 1.0,
                        Lane::Uniform => return None,
                        Lane::Step(1) => 1.0,
                        Lane::Step(step) if is_near(step) => near(step),
                        // A scatter costs more than a gather.
                        class => {
                            counts.inside += SCATTER;
                            1.0 + access(class, bytes, counts)? + 0.4 * bytes.min(4) as f64
                        }
                    }
                }
                Stmt::Loop(inner) => {
                    let trips = (inner.end - inner.start) as f64;
                    for carry in &inner.carries {
                        let varies = classes[carry.inside] != Lane::Uniform;
                        counts.wide |= varies && self.bits(carry.inside) == 64;
                    }
                    let mut inside = Counts::default();
                    let once = self.lane_block(&inner.body, classes, &mut inside)?;
                    counts.wide |= inside.wide;
                    counts.instructions += inside.instructions + 2;
                    counts.per_lane += trips * (inside.per_lane + inside.inside);
                    trips * (1.0 + once)
                }
                Stmt::If(inner) => {
                    counts.instructions += 4;
                    counts.wide |= inner.results.iter().any(|&(result, ..)| {
                        classes[result] != Lane::Uniform && self.bits(result) == 64
                    });
                    if is_rare(inner) {
                        let mut rare = Counts::default();
                        self.lane_block(&inner.then, classes, &mut rare)?;
                        counts.wide |= rare.wide;
                        2.0
                    } else {
                        let then = self.lane_block(&inner.then, classes, counts)?;
                        2.0 + then + self.lane_block(&inner.otherwise, classes, counts)?
                    }
                }
            };
        }
        Some(cost)
    }

    fn lane_instruction(
        &mut self,
        reg: Reg,
        inst: &Inst,
        classes: &Classes,
        counts: &mut Counts,
    ) -> f64 {
        if let Inst::Const(_) = inst {
            return 0.0;
        }
        if classes[reg] == Lane::Uniform {
            return 0.5 * weight(inst);
        }
        let kernel = self.kernel;
        let varying_wide = |r: Reg| classes[r] != Lane::Uniform && kernel.regs[r].ty.bits() == 64;
        match inst {
            Inst::Const(_) | Inst::Index(_) => return 0.0,
            Inst::Load(param, at) => {
                counts.instructions += 1;
                let dtype = kernel.params[*param].dtype;
                counts.wide |= dtype.reg().bits() == 64;
                return match affine_class(at, classes) {
                    _ if self.is_across(*param, at) => 1.0,
                    Lane::Uniform | Lane::Step(1) => 1.0,
                    Lane::Step(step) if is_near(step) => near(step),
                    class => {
                        counts.wide |= class == Lane::Varying;
                        access(class, dtype.size(), counts).unwrap_or(1e9)
                    }
                };
            }
            Inst::FloorDiv(..) | Inst::Modulo(..) => {
                counts.wide = true;
                counts.instructions += 6;
                return 6.0;
            }
            Inst::Cast(op, a)
                if is_small_index(kernel, *a) && is_small_cast(*op, kernel.regs[reg].ty) => {}
            Inst::Compare(_, _, a, b)
                if is_small_index(kernel, *a) && is_small_index(kernel, *b) => {}
            Inst::Unary(_, a) => counts.wide |= varying_wide(*a) || varying_wide(reg),
            Inst::Cast(_, a) => counts.wide |= varying_wide(*a) || varying_wide(reg),
            Inst::Binary(op, a, b) => {
                counts.wide |= varying_wide(*a) || varying_wide(*b) || varying_wide(reg);
                // In f64.
                counts.wide |= is_division(*op) && kernel.regs[reg].ty != RegType::I1;
            }
            Inst::Compare(_, _, a, b) => {
                counts.wide |= varying_wide(*a) || varying_wide(*b) || varying_wide(reg);
            }
            Inst::Fma(a, b, c) | Inst::Select(a, b, c) => {
                counts.wide |= [*a, *b, *c, reg].into_iter().any(varying_wide);
            }
        }
        counts.instructions += 1;
        weight(inst)
    }

    /// Whether vectors have the instruction.
    fn check(&mut self, inst: &Inst, class: Lane) -> bool {
        let supported = match inst {
            Inst::Binary(BinaryOp::Rem, ..) => false,
            Inst::Unary(UnaryOp::Popcnt, _) => super::features().popcnt,
            // Multiplication by a reciprocal: only for what fits 32 bits.
            Inst::FloorDiv(at, by) | Inst::Modulo(at, by) if class != Lane::Uniform => {
                let (low, high) = super::lower::bounds(self.kernel, at);
                low >= 0 && high < 1 << 31 && *by < 1 << 31
            }
            _ => true,
        };
        self.supported &= supported || class != Lane::Uniform;
        supported
    }
}

fn is_division(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::DivS | BinaryOp::DivU | BinaryOp::RemS | BinaryOp::RemU)
}

/// Whether a branch is there for rare lanes: its one side computes without reading memory.
fn is_rare(inner: &If) -> bool {
    inner.otherwise.stmts.is_empty() && inner.then.stmts.iter().all(|s| matches!(s, Stmt::Let(_)))
}

#[derive(Default)]
struct Counts {
    instructions: u64,
    /// Cost that grows with the lanes.
    per_lane: f64,
    /// What grows with the lanes if this is the body of a loop inside of them.
    inside: f64,
    /// Whether 64-bit values vary.
    wide: bool,
}

/// The cost of an access that is not contiguous.
fn access(class: Lane, bytes: u64, counts: &mut Counts) -> Option<f64> {
    if let Lane::Step(step) = class
        && i32::try_from(step.unsigned_abs() * bytes * 64).is_err()
    {
        return None;
    }
    if class == Lane::Varying {
        counts.wide = true;
    }
    let conflict = matches!(class, Lane::Step(step)
        if step != 0 && (step.unsigned_abs() * bytes).is_multiple_of(4096));
    counts.instructions += 1;
    counts.per_lane += if bytes < 4 { NARROW_LANE } else { GATHER };
    counts.inside += if conflict { CONFLICT } else { 0.0 };
    if let Lane::Step(step) = class
        && step.unsigned_abs() * bytes >= 64
    {
        counts.per_lane += FAR_LANE;
    }
    Some(0.0)
}

/// The cost of lanes in reverse or a few elements apart, by vectors and permutations.
fn near(step: i64) -> f64 {
    if step == -1 { 2.0 } else { 2.5 * step as f64 }
}

/// The cost of an instruction relative to an addition.
fn weight(inst: &Inst) -> f64 {
    match inst {
        Inst::Const(_) | Inst::Index(_) => 0.0,
        Inst::FloorDiv(..) | Inst::Modulo(..) => 5.0,
        Inst::Unary(UnaryOp::Sqrt, _) => 8.0,
        Inst::Binary(BinaryOp::Div, ..) => 6.0,
        Inst::Binary(op, ..) if is_division(*op) => 15.0,
        Inst::Binary(BinaryOp::MinF | BinaryOp::MaxF, ..) => 3.0,
        _ => 1.0,
    }
}

fn has_store(block: &Block) -> bool {
    block.stmts.iter().any(|stmt| match stmt {
        Stmt::Let(_) => false,
        Stmt::Store { .. } => true,
        Stmt::Loop(inner) => has_store(&inner.body),
        Stmt::If(inner) => has_store(&inner.then) || has_store(&inner.otherwise),
    })
}
