//! The decision for each op, from the last to the first: computed inside its readers' kernels, a
//! root of one of them, or a kernel of its own.

use super::cost::{self, Estimate, STEP};
use super::maps::{IDENTITY, Site, Sites, borders, operand_site};
use super::overwritten::Overwritten;
use super::slots::{self, WindowRead};
use super::strided::{Strided, strided};
use super::units::{Kind, UnitData, Units};
use super::{Contraction, Form, Fused, Group, Unit, base, constant, is_constant_storage, viewed};
use crate::FusionMode;
use crate::passes::region;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use jaxrs_ir::lower::{ElementCost, Lowering};
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueDef, ValueId, ops};
use jaxrs_kernel::program::Library;
use rustc_hash::FxHashSet;

/// Rough instructions of a kernel beyond which nothing more is added.
const MAX_SIZE: u32 = 4000;
/// Values that one kernel stores at most.
const MAX_ROOTS: usize = 8;
/// The same of all the code, the pieces into which loops are split at borders counted.
const MAX_CODE: u32 = 20_000;
/// Pieces of a loop that is split at borders, at most.
const MAX_PIECES: usize = 9;
/// Ways to read one pad or concatenation whose borders all are splits of loops.
const MAX_BORDERED: u32 = 150;
/// Ops between a kernel's root and what it inlines at other indices than its own.
const MAX_DEPTH: u32 = 120;
/// The same at its own index: the emitter goes as deep.
const MAX_CHAIN: u32 = 300;
/// Ways to read one value in one kernel, beyond which it becomes memory.
const MAX_MAPS: u32 = 4;
/// What one more instruction of code costs, in units of running it once.
const CODE: f64 = 30.0;
/// Kernels further apart than so many ops are not merged for a common operand: what they store
/// would be live too long.
const NEAR: u32 = 24;
/// Large intermediate values that one kernel reads at most: all are live at once.
const MAX_LARGE: usize = 6;

/// Decides for a whole function.
pub(super) struct Decider<'a> {
    f: &'a Function,
    mode: FusionMode,
    /// Values that are dearer to keep than they look.
    again: &'a FxHashSet<ValueId>,
    estimates: SecondaryMap<ValueId, Estimate>,
    /// The block of each op.
    home: SecondaryMap<OpId, PackedOption<BlockId>>,
    sites: SecondaryMap<ValueId, Sites>,
    /// Whether something needs the value in memory.
    needed: SecondaryMap<ValueId, bool>,
    /// The units that need it in memory.
    readers: SecondaryMap<ValueId, Vec<u32>>,
    /// Whether a block returns it.
    returned: SecondaryMap<ValueId, bool>,
    overwritten: Overwritten,
    uses: SecondaryMap<ValueId, u32>,
    fused: Fused,
}

struct At {
    block: BlockId,
    units: Units,
    position: u32,
}

/// The units and forms of a function.
pub(super) fn run(
    f: &Function,
    mode: FusionMode,
    donated: &dyn Fn(usize) -> bool,
    again: &FxHashSet<ValueId>,
) -> Fused {
    let mut decider = Decider {
        f,
        mode,
        again,
        estimates: cost::estimates(f),
        home: SecondaryMap::new(),
        sites: SecondaryMap::new(),
        needed: SecondaryMap::new(),
        readers: SecondaryMap::new(),
        returned: SecondaryMap::new(),
        overwritten: Overwritten::new(f, donated),
        uses: slots::uses(f),
        fused: Fused::default(),
    };
    decider.block(f.body);
    decider.fused
}

impl Decider<'_> {
    fn block(&mut self, block: BlockId) {
        let f = self.f;
        let data = &f.blocks[block];
        for &argument in &data.arguments {
            self.fused.forms[argument] = Form { stored: true, inline: false };
        }
        for &op in &data.ops {
            self.home[op] = block.into();
        }
        for &value in &data.yields {
            self.needed[value] = true;
            self.returned[value] = true;
        }
        let mut at = At { block, units: Units::default(), position: data.ops.len() as u32 };
        for &op in data.ops.iter().rev() {
            at.position -= 1;
            self.op(op, &mut at);
        }
        for &argument in &data.arguments {
            self.merge_siblings(argument, None, &mut at);
        }
        self.merge_scalars(&mut at);
        let units = at.units.ordered().into_iter().map(|unit| {
            let data = at.units.get(unit);
            match &data.kind {
                Kind::Op(op) => Unit::Op(*op),
                Kind::Kernel(shape) => {
                    let mut roots = data.roots.clone();
                    roots.sort_unstable();
                    Unit::Kernel(Group { shape: shape.clone(), roots })
                }
            }
        });
        self.fused.units.insert(block, units.collect());
    }

    fn op(&mut self, op: OpId, at: &mut At) {
        let f = self.f;
        let data = &f.ops[op];
        if let [value] = data.results[..]
            && self.estimates[value].symbolic
            && !f.ty(value).is_empty()
            && viewed(f, value).is_none()
        {
            return self.symbolic(value, at);
        }
        let live = |&v: &ValueId| self.needed[v] || !self.sites[v].0.is_empty();
        let effect = data.results.is_empty();
        if !effect && (!data.results.iter().any(live) || all_empty(f, op)) {
            for &result in &data.results {
                self.fused.forms[result].stored = true;
            }
            return;
        }
        match ops::lower(f, op) {
            Lowering::View => self.view(op, at),
            Lowering::Elements { cost, .. } => self.elements(op, cost, at),
            Lowering::Loops { .. } if self.product(op, at) => {}
            Lowering::Loops { updates, .. } => {
                let unit = self.op_unit(op, at);
                for (number, &operand) in data.operands.iter().enumerate() {
                    let updated = |o: u32| data.operands[o as usize];
                    if updates.iter().any(|&(_, o)| o as usize == number)
                        || updates.iter().any(|&(_, o)| self.reads_updated(op, operand, updated(o)))
                    {
                        self.need(operand, unit, at);
                    } else {
                        let mut site = Site::opaque(unit, op, number, f.ty(operand));
                        site.share = reads_of_loops(f, op);
                        self.read(operand, site, at);
                    }
                }
                self.read_captures(op, unit, at);
            }
            Lowering::Library(library) => {
                let unit = self.op_unit(op, at);
                let contraction = matches!(library, Library::Dot(_));
                if contraction && self.mode == FusionMode::On {
                    let outer = |v: ValueId| self.home_of(v) != Some(at.block);
                    let [a, b] = [0, 1].map(|n| strided(f, data.operands[n], &outer));
                    self.need_strided(&a, unit, at);
                    self.need_strided(&b, unit, at);
                    let contraction = Contraction { operands: [a, b], into: None };
                    self.fused.contractions.insert(op, contraction);
                } else {
                    data.operands.iter().for_each(|&v| self.need(v, unit, at));
                }
            }
            Lowering::Control => {
                let unit = self.op_unit(op, at);
                data.operands.iter().for_each(|&v| self.need(v, unit, at));
                if region::is_control(f, op) {
                    data.regions.iter().for_each(|&region| self.block(region));
                }
                for captured in region::captures(f, op) {
                    if !self.estimates[captured].symbolic {
                        self.need(captured, unit, at);
                    }
                }
            }
        }
    }

    /// Makes an op that puts a contraction into a larger tensor one with the contraction, which
    /// writes there.
    fn product(&mut self, op: OpId, at: &mut At) -> bool {
        if self.mode != FusionMode::On {
            return false;
        }
        let outer = |v: ValueId| self.home_of(v) != Some(at.block);
        let Some((product, operands, into)) = slots::product(self.f, op, &self.uses, &outer) else {
            return false;
        };
        if self.home[product].expand() != Some(at.block) {
            return false;
        }
        let unit = at.units.push(Kind::Op(product), at.position);
        self.store(self.f.ops[op].results[0], unit, at);
        for tensor in operands.iter().chain([&into.place]) {
            self.need_strided(tensor, unit, at);
        }
        let contraction = Contraction { operands, into: Some(into) };
        self.fused.contractions.insert(product, contraction);
        true
    }

    /// A library call reads or updates a tensor in a value's memory.
    fn need_strided(&mut self, tensor: &Strided, unit: u32, at: &At) {
        self.need(tensor.base, unit, at);
        tensor.starts.iter().for_each(|s| self.need(s.index, unit, at));
    }

    /// The operand's memory is needed if the view's is, and it is read where the view is read.
    fn view(&mut self, op: OpId, at: &mut At) {
        let f = self.f;
        let data = &f.ops[op];
        for (number, (&operand, &result)) in data.operands.iter().zip(&data.results).enumerate() {
            if self.needed[result] {
                self.needed[operand] = true;
                let readers = std::mem::take(&mut self.readers[result]);
                if self.home_of(operand) == Some(at.block) {
                    self.readers[operand].extend(readers);
                }
            }
            let same = f.ty(operand).shape == f.ty(result).shape;
            for site in std::mem::take(&mut self.sites[result].0) {
                let inner = if same { site } else { operand_site(f, op, number, &site) };
                self.read(operand, inner, at);
            }
        }
    }

    fn op_unit(&mut self, op: OpId, at: &mut At) -> u32 {
        let unit = at.units.push(Kind::Op(op), at.position);
        for &result in &self.f.ops[op].results {
            self.store(result, unit, at);
        }
        unit
    }

    /// The value is memory that the unit writes and all its readers but the unit load.
    fn store(&mut self, value: ValueId, unit: u32, at: &mut At) {
        self.fused.forms[value] = Form { stored: true, inline: false };
        self.merge_siblings(value, Some(unit), at);
        let sites = std::mem::take(&mut self.sites[value].0);
        let readers = std::mem::take(&mut self.readers[value]);
        for reader in readers.into_iter().chain(sites.iter().map(|s| s.unit)) {
            at.units.edge(unit, reader);
        }
        at.units.get_mut(unit).roots.push(value);
    }

    /// Something needs the value in memory.
    fn need(&mut self, value: ValueId, reader: u32, at: &At) {
        self.needed[value] = true;
        if self.home_of(value) == Some(at.block) {
            self.readers[value].push(reader);
        }
    }

    /// The block in which a value is made: units are numbered block by block.
    fn home_of(&self, value: ValueId) -> Option<BlockId> {
        match self.f.values[value].def {
            ValueDef::Argument(block, _) => Some(block),
            ValueDef::Result(op, _) => self.home[op].expand(),
        }
    }

    /// A kernel reads the value. Values of outer blocks are memory or symbolic, whoever reads.
    fn read(&mut self, value: ValueId, site: Site, at: &mut At) {
        let Some(home) = self.home_of(value) else { return };
        if !self.estimates[value].symbolic {
            let unit = at.units.get_mut(site.unit);
            unit.reads.insert(value);
            unit.iterations = unit.iterations.max(site.iterations());
            if home == at.block {
                self.sites[value].add(site);
            }
        }
    }

    /// Whether computing an operand inside an op that updates a value would read elements of that
    /// value other than the one about to be written: they may be written already.
    fn reads_updated(&self, op: OpId, operand: ValueId, updated: ValueId) -> bool {
        let f = self.f;
        let target = base(f, updated);
        let mut stack = vec![(operand, true)];
        let mut seen = FxHashSet::default();
        while let Some((value, same)) = stack.pop() {
            if value == target || viewed(f, value).is_some() && base(f, value) == target {
                return true;
            }
            let Some(maker) = f.defining_op(value) else { continue };
            // What is memory was computed before.
            if self.estimates[value].memory || !seen.insert((value, same)) {
                continue;
            }
            if seen.len() > 200 {
                return true;
            }
            let data = &f.ops[maker];
            let read = slots::window_read(f, maker, op);
            if read == Some(WindowRead::Apart) {
                continue;
            }
            let window = read == Some(WindowRead::Same) && same;
            // Each element is read where it is written, in the same order.
            let pointwise = matches!(data.op, Op::Reshape(_))
                || data.operands.iter().all(|&v| f.ty(v).shape == f.ty(value).shape)
                    && !matches!(data.op, Op::Reverse(_) | Op::Transpose(_) | Op::Gather(_));
            for &inner in &data.operands[usize::from(window)..] {
                stack.push((inner, same && pointwise));
            }
        }
        false
    }

    fn read_captures(&mut self, op: OpId, unit: u32, at: &mut At) {
        if self.f.ops[op].regions.is_empty() {
            return;
        }
        for value in region::captures(self.f, op) {
            let site = Site::opaque(unit, op, usize::MAX, self.f.ty(value));
            self.read(value, site, at);
        }
    }

    fn elements(&mut self, op: OpId, cost: ElementCost, at: &mut At) {
        let f = self.f;
        let results = &f.ops[op].results;
        let value = results[0];
        if constant(f, value).is_some() {
            self.fused.forms[value] = Form { stored: true, inline: false };
            return;
        }
        if let [_, _, ..] = results[..] {
            // A kernel goes over one shape; results of other shapes get kernels of their own.
            let mut roots: Vec<(&[u64], u32)> = Vec::new();
            for &result in results {
                if !self.needed[result] && self.sites[result].0.is_empty() {
                    continue;
                }
                let shape = f.ty(result).shape.as_slice();
                let unit = match roots.iter().find(|root| root.0 == shape) {
                    Some(root) => root.1,
                    None => {
                        let unit = self.new_kernel(shape, at);
                        roots.push((shape, unit));
                        unit
                    }
                };
                self.store(result, unit, at);
            }
            let roots: Vec<Site> =
                roots.iter().map(|&(shape, unit)| Site::root(unit, shape)).collect();
            return self.inline(op, &roots, at);
        }
        self.normalize(value, at);
        let before = self.mode == FusionMode::On && self.outlives(op, at);
        let may_inline = !self.needed[value] && self.mode == FusionMode::On && !before;
        if may_inline && self.worth_inlining(op, cost, at) {
            self.fused.forms[value] = Form { stored: false, inline: true };
            let sites = std::mem::take(&mut self.sites[value].0);
            return self.inline(op, &sites, at);
        }
        let shape = &f.ty(value).shape;
        let unit = match self.host(op, at) {
            Some(unit) if !before => unit,
            _ => self.new_kernel(shape, at),
        };
        let mut sites = vec![Site::root(unit, shape)];
        if self.mode == FusionMode::On && spreads(f, op) {
            // Reading the little operand again is cheaper than reading what it spreads to.
            sites.extend(std::mem::take(&mut self.sites[value].0));
            self.store(value, unit, at);
            self.fused.forms[value].inline = true;
        } else {
            self.store(value, unit, at);
        }
        self.inline(op, &sites, at);
    }

    /// A value that every kernel computes for itself; only whoever needs memory gets some.
    fn symbolic(&mut self, value: ValueId, at: &mut At) {
        self.fused.forms[value] = Form { stored: self.needed[value], inline: true };
        if self.needed[value] && !is_constant_storage(self.f, value) {
            let unit = self.new_kernel(&self.f.ty(value).shape, at);
            self.store(value, unit, at);
            self.fused.forms[value].inline = true;
        }
    }

    fn new_kernel(&mut self, shape: &[u64], at: &mut At) -> u32 {
        at.units.push(Kind::Kernel(shape.to_vec()), at.position)
    }

    /// The op's element is computed at these sites.
    fn inline(&mut self, op: OpId, sites: &[Site], at: &mut At) {
        let f = self.f;
        let size = cost::instructions(f, op);
        for site in sites {
            let unit = at.units.get_mut(site.unit);
            unit.size += size;
            for (position, cuts) in borders(f, op, site).unwrap_or_default() {
                unit.cuts.add(position, cuts);
            }
            for (number, &operand) in f.ops[op].operands.iter().enumerate() {
                self.read(operand, operand_site(f, op, number, site), at);
            }
            self.read_captures(op, site.unit, at);
        }
    }

    /// Gives sites the units they are in by now.
    fn normalize(&mut self, value: ValueId, at: &At) {
        let sites = std::mem::take(&mut self.sites[value].0);
        for site in sites {
            self.sites[value].add(Site { unit: at.units.find(site.unit), ..site });
        }
    }

    /// Whether the op's operands would be overwritten before they are read where the op's result
    /// is.
    fn outlives(&self, op: OpId, at: &At) -> bool {
        let value = self.f.ops[op].results[0];
        let mut readers = Vec::new();
        for site in &self.sites[value].0 {
            let unit = at.units.get(site.unit);
            match unit.kind {
                Kind::Op(op) => readers.extend(&self.f.ops[op].results),
                Kind::Kernel(_) => readers.extend(&unit.roots),
            }
        }
        let memory = |v: ValueId| self.estimates[v].memory;
        self.overwritten.outlived(self.f, op, &memory, &readers)
    }

    fn worth_inlining(&mut self, op: OpId, cost: ElementCost, at: &mut At) -> bool {
        let f = self.f;
        let value = f.ops[op].results[0];
        let estimate = self.estimates[value];
        let length = f.ty(value).len() as f64;
        if self.sites[value].0.len() > 1 && estimate.work > 1.0 && length > 1.0 {
            self.merge_readers(value, at);
        }
        if self.frees_operand(op, at) {
            return false;
        }
        let sites = &self.sites[value].0;
        let size = cost::instructions(f, op);
        let is_loop = matches!(cost, ElementCost::Loop(_));
        let (mut evaluations, mut inlined) = (0.0, 0.0);
        for site in sites {
            let unit = at.units.get(site.unit);
            let own_index = site.map == IDENTITY;
            let deepest = if own_index { MAX_CHAIN } else { MAX_DEPTH };
            let code = (unit.size + size).saturating_mul(unit.cuts.copies());
            if unit.size + size > MAX_SIZE || code > MAX_CODE || site.depth > deepest {
                return false;
            }
            let once =
                |op: OpId| matches!(f.ops[op].op, Op::DynamicUpdateSlice(_)) && sites.len() == 1;
            if matches!(unit.kind, Kind::Op(op) if !once(op)) && (is_loop || estimate.work > 400.0)
            {
                return false;
            }
            if self.crowds(op, unit) {
                return false;
            }
            let times = if is_loop { site.iterations() } else { site.evaluations() };
            evaluations += times;
            inlined += times * self.extra_work(op, site).min(estimate.work);
        }
        if !self.few_ways(op, at) {
            return false;
        }
        if sites.len() == 1 && evaluations <= 1.01 * length {
            return true;
        }
        if cost == ElementCost::Free && !is_loop {
            return true;
        }
        let traffic = cost::traffic(f, value);
        let code = CODE * f64::from(size) * (sites.len() - 1) as f64;
        let stored = |place: f64| length * (estimate.work + place) + evaluations * traffic + STEP;
        let dear = cost::dear_place(f, value);
        if inlined + code <= stored(cost::place(f, value)) {
            return true;
        }
        if inlined + code > dear.map_or(0.0, stored) || !self.needs_less(op) {
            return false;
        }
        if !self.again.contains(&value) {
            self.fused.avoidable.push(value);
            return false;
        }
        true
    }

    /// Whether a few elements are taken or summed up of a large value, to be reduced to fewer: kept
    /// by themselves, they set the large value free for whatever takes its place, and may be made
    /// in one tile with it.
    fn frees_operand(&self, op: OpId, at: &At) -> bool {
        let f = self.f;
        let data = &f.ops[op];
        let (ty, from) = (f.ty(data.results[0]), data.operands.first().map(|&v| f.ty(v)));
        let few = from.is_some_and(|from| {
            from.bytes() > cost::SMALL_BYTES && 8 * ty.bytes() <= from.bytes() && ty.len() > 1
        });
        let reduced = |site: &Site| match &at.units.get(site.unit).kind {
            Kind::Kernel(shape) => shape.iter().product::<u64>() < ty.len(),
            Kind::Op(_) => false,
        };
        matches!(data.op, Op::Gather(_) | Op::Reduce(_))
            && few
            && self.sites[data.results[0]].0.iter().any(reduced)
    }

    /// Whether no unit reads the op's value in so many ways that its code would be too much.
    fn few_ways(&self, op: OpId, at: &At) -> bool {
        let f = self.f;
        let sites = &self.sites[f.ops[op].results[0]];
        let op_data = &f.ops[op].op;
        let bordered = matches!(op_data, Op::Pad(_) | Op::Concatenate(_));
        let most = match op_data {
            // Guards that are no splits of loops stay in the innermost loop.
            Op::Pad(_) | Op::Concatenate(_) => 2,
            // No code of their own.
            Op::Slice(_) | Op::Reverse(_) => MAX_BORDERED,
            _ => MAX_MAPS,
        };
        sites.by_unit().into_iter().all(|(unit, ways)| {
            ways <= most || bordered && ways <= MAX_BORDERED && self.splits(op, unit, ways, at)
        })
    }

    /// Whether the unit's loops can be split so that no guard of the op is left, in code that is
    /// not too much.
    fn splits(&self, op: OpId, unit: u32, ways: u32, at: &At) -> bool {
        let data = at.units.get(unit);
        let mut cuts = data.cuts.clone();
        for site in self.sites[self.f.ops[op].results[0]].0.iter().filter(|s| s.unit == unit) {
            let Some(borders) = borders(self.f, op, site) else { return false };
            borders.into_iter().for_each(|(position, at)| cuts.add(position, at));
        }
        let code = (data.size + ways).saturating_mul(cuts.copies());
        cuts.longest() <= MAX_PIECES && code <= MAX_CODE
    }

    /// What an element costs at a site: operands that the unit reads there anyway are free.
    fn extra_work(&self, op: OpId, site: &Site) -> f64 {
        let f = self.f;
        let data = &f.ops[op];
        let own = cost::own_work(f, op);
        let operands = data.operands.iter().enumerate().map(|(number, &operand)| {
            let estimate = self.estimates[operand];
            if f.ty(operand).rank() == 0 || estimate.symbolic {
                return 0.0;
            }
            let inner = operand_site(f, op, number, site);
            let read = |s: &Site| s.unit == inner.unit && s.map == inner.map;
            if self.sites[operand].0.iter().any(read) {
                return 0.0;
            }
            if estimate.memory { cost::traffic(f, operand) } else { estimate.work }
        });
        let times = match ops::lower(f, op) {
            Lowering::Elements { cost: ElementCost::Loop(n), .. } => n as f64,
            _ => 1.0,
        };
        own + times * operands.sum::<f64>()
    }

    /// Whether computing the op again keeps no more memory alive than keeping its result does:
    /// what it is computed from is an argument, or is not larger in all.
    fn needs_less(&self, op: OpId) -> bool {
        let f = self.f;
        if !pointwise(&f.ops[op].op) {
            return false;
        }
        let mut left = f.ty(f.ops[op].results[0]).bytes();
        let mut stack = f.ops[op].operands.clone();
        let mut seen = FxHashSet::default();
        while let Some(value) = stack.pop() {
            if !seen.insert(value) || f.ty(value).bytes() <= 512 {
                continue;
            }
            let estimate = self.estimates[value];
            let parameter = f.blocks[f.body].arguments.contains(&value);
            match f.defining_op(value) {
                Some(op) if !estimate.memory => {
                    if !pointwise(&f.ops[op].op) {
                        return false;
                    }
                    stack.extend(&f.ops[op].operands);
                }
                _ if !parameter && !estimate.symbolic && constant(f, value).is_none() => {
                    let Some(rest) = left.checked_sub(f.ty(value).bytes()) else { return false };
                    left = rest;
                }
                _ => {}
            }
            if seen.len() > 60 {
                return false;
            }
        }
        true
    }

    /// Whether the value is written part by part: it is live whoever reads a part.
    fn is_updated(&self, value: ValueId) -> bool {
        let op = self.f.defining_op(value).map(|op| &self.f.ops[op].op);
        matches!(op, Some(Op::DynamicUpdateSlice(_)))
    }

    /// Whether computing the op in a unit would make it read too many large intermediate values at
    /// once, or a large one where only a small one would be live.
    fn crowds(&self, op: OpId, unit: &UnitData) -> bool {
        let f = self.f;
        let data = &f.ops[op];
        let result = f.ty(data.results[0]).bytes();
        let large =
            |v: &ValueId, than: u64| f.ty(*v).bytes() > 512.max(than) && self.estimates[*v].made;
        let added: Vec<ValueId> = data
            .operands
            .iter()
            .copied()
            .filter(|v| !unit.reads.contains(v) && large(v, 0) && !self.is_updated(*v))
            .collect();
        let shrinks = added.iter().any(|v| f.ty(*v).bytes() >= 8 * result);
        let memory = |v: &&ValueId| shrinks || self.estimates[**v].memory;
        let added = added.iter().filter(memory).count();
        if added == 0 {
            return false;
        }
        let most = if shrinks { 1 } else { MAX_LARGE };
        let known = unit.reads.iter().filter(memory).filter(|v| large(v, result / 2)).count();
        known + added > most
    }

    /// Merges the kernels that read the value, where they run over one space and save a pass.
    fn merge_readers(&mut self, value: ValueId, at: &mut At) {
        let space = |unit: u32, at: &At| match &at.units.get(unit).kind {
            Kind::Kernel(shape) => Some(shape.clone()),
            Kind::Op(_) => None,
        };
        let sites = self.sites[value].0.clone();
        for (n, site) in sites.iter().enumerate() {
            for other in &sites[..n] {
                let same_map = site.map == other.map && site.path == other.path;
                let (x, y) = (at.units.get(site.unit), at.units.get(other.unit));
                // What a block returns has its place already; what else is computed long before
                // it is read is only kept for that long.
                let placed = |roots: &[ValueId]| roots.iter().all(|&v| self.returned[v]);
                let near = x.position.abs_diff(y.position) <= NEAR
                    || (placed(&x.roots) && placed(&y.roots));
                if same_map
                    && near
                    && space(site.unit, at).is_some_and(|s| space(other.unit, at) == Some(s))
                {
                    self.try_merge(site.unit, other.unit, at);
                }
            }
        }
        self.normalize(value, at);
    }

    /// Whether one of two readers of a value is about to be its maker, and the other waits for a
    /// third reader, which will wait for the maker.
    fn in_between(&self, value: ValueId, a: u32, b: u32, maker: Option<u32>, at: &At) -> bool {
        let [a, b] = [a, b].map(|unit| at.units.find(unit));
        let other = match maker.map(|unit| at.units.find(unit)) {
            Some(maker) if maker == a => b,
            Some(maker) if maker == b => a,
            _ => return false,
        };
        let sites = self.sites[value].0.iter().map(|s| s.unit);
        let third: Vec<u32> = sites
            .chain(self.readers[value].iter().copied())
            .filter(|&unit| ![a, b].contains(&at.units.find(unit)))
            .collect();
        at.units.reaches(&third, other)
    }

    /// Merges two kernels over one space if no way leads from one to the other.
    fn try_merge(&mut self, a: u32, b: u32, at: &mut At) -> bool {
        let (a, b) = (at.units.find(a), at.units.find(b));
        if a == b {
            return true;
        }
        let (x, y) = (at.units.get(a), at.units.get(b));
        let size = x.size + y.size;
        let code = size.saturating_mul(x.cuts.with(&y.cuts).copies());
        let fits =
            x.roots.len() + y.roots.len() <= MAX_ROOTS && size <= MAX_SIZE && code <= MAX_CODE;
        if !fits || self.mode == FusionMode::Off || self.keeps_alive(a, b, at) {
            return false;
        }
        if !at.units.independent(a, b) {
            return false;
        }
        at.units.merge(a, b);
        true
    }

    /// Whether two kernels, run as one, would need large values at once that one of them alone
    /// does not need: values that are no arguments and that only one of them reads.
    fn keeps_alive(&self, a: u32, b: u32, at: &At) -> bool {
        let (x, y) = (&at.units.get(a).reads, &at.units.get(b).reads);
        let bytes = |value: &ValueId| self.f.ty(*value).bytes();
        let shared = x.intersection(y).map(bytes).max().unwrap_or(0);
        x.symmetric_difference(y).any(|value| {
            let made = self.f.defining_op(*value).is_some() && self.estimates[*value].memory;
            made && bytes(value) > 512 && 4 * bytes(value) >= shared
        })
    }

    /// A kernel that can store the value on its way: it reads it at its own index only, and no
    /// reader of the stored value comes before it.
    fn host(&self, op: OpId, at: &At) -> Option<u32> {
        let f = self.f;
        let value = f.ops[op].results[0];
        if self.mode == FusionMode::Off {
            return None;
        }
        let sites = &self.sites[value].0;
        let shape = &f.ty(value).shape;
        sites.iter().map(|site| site.unit).find(|&host| {
            let unit = at.units.get(host);
            let Kind::Kernel(space) = &unit.kind else { return false };
            let mut here = sites.iter().filter(|s| s.unit == host);
            let own = here.all(|s| s.map == IDENTITY && s.depth <= MAX_CHAIN);
            let fits =
                unit.roots.len() < MAX_ROOTS && unit.size + cost::instructions(f, op) <= MAX_SIZE;
            if space != shape || !own || !fits || self.crowds(op, unit) {
                return false;
            }
            let others: Vec<u32> = self.readers[value]
                .iter()
                .copied()
                .chain(sites.iter().map(|s| s.unit))
                .filter(|&u| at.units.find(u) != host)
                .collect();
            let direct = self.readers[value].iter().any(|&u| at.units.find(u) == host);
            !direct && !at.units.reaches(&others, host)
        })
    }

    /// Merges kernels that load the value in one way over one space, where that saves a pass over
    /// it and keeps nothing large alive.
    fn merge_siblings(&mut self, value: ValueId, maker: Option<u32>, at: &mut At) {
        let f = self.f;
        if f.ty(value).len() < 64 || self.mode == FusionMode::Off {
            return;
        }
        self.normalize(value, at);
        let sites = self.sites[value].0.clone();
        for (n, site) in sites.iter().enumerate() {
            for other in &sites[n.saturating_sub(4)..n] {
                if site.map != other.map || site.path != other.path {
                    continue;
                }
                let (x, y) = (at.units.get(site.unit), at.units.get(other.unit));
                let (Kind::Kernel(a), Kind::Kernel(b)) = (&x.kind, &y.kind) else { continue };
                let small = 8 * a.iter().product::<u64>() <= f.ty(value).len();
                let near = x.position.abs_diff(y.position) <= NEAR;
                let whole = site.evaluations() >= f.ty(value).len() as f64 / 2.0;
                // What a block returns has its place already.
                let placed = |roots: &[ValueId]| roots.iter().all(|&v| self.returned[v]);
                let kept = (small && near) || (placed(&x.roots) && placed(&y.roots));
                if a == b
                    && kept
                    && whole
                    && !self.in_between(value, site.unit, other.unit, maker, at)
                {
                    self.try_merge(site.unit, other.unit, at);
                }
            }
        }
        self.normalize(value, at);
    }

    /// Merges kernels that compute rank-0 values: each costs the start of a step.
    fn merge_scalars(&mut self, at: &mut At) {
        let mut last: Vec<u32> = Vec::new();
        for unit in at.units.ordered() {
            let data = at.units.get(unit);
            match &data.kind {
                Kind::Kernel(shape) if shape.is_empty() && data.iterations <= 64.0 => {}
                _ => continue,
            }
            // What reads nothing would only live longer together with what is needed elsewhere.
            let near = |other: u32| {
                let other = at.units.get(other);
                !(data.reads.is_empty() && other.reads.is_empty())
                    || data.position.abs_diff(other.position) <= 4
            };
            let recent: Vec<u32> =
                last.iter().rev().take(3).copied().filter(|&other| near(other)).collect();
            if !recent.into_iter().any(|other| self.try_merge(other, unit, at)) {
                last.push(unit);
            }
        }
    }
}

/// How often the loops of an op read an element of an operand that they do not update.
fn reads_of_loops(f: &Function, op: OpId) -> f64 {
    match f.ops[op].op {
        Op::DynamicUpdateSlice(_) | Op::Scatter(_) | Op::ReduceWindow(_) => 1.0,
        _ => 4.0,
    }
}

/// Whether an element is computed from the operands' elements at its own place, or repeats one.
fn pointwise(op: &Op) -> bool {
    matches!(
        op,
        Op::Elementwise(_)
            | Op::Convert(_)
            | Op::Compare(_)
            | Op::Select(_)
            | Op::Clamp(_)
            | Op::BroadcastInDim(_)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Iota(_)
            | Op::Constant(_)
    )
}

/// Whether the result repeats a much smaller operand.
fn spreads(f: &Function, op: OpId) -> bool {
    let data = &f.ops[op];
    matches!(data.op, Op::BroadcastInDim(_))
        && 4 * f.ty(data.operands[0]).len() <= f.ty(data.results[0]).len()
}

fn all_empty(f: &Function, op: OpId) -> bool {
    f.ops[op].results.iter().all(|&v| f.ty(v).is_empty())
}
