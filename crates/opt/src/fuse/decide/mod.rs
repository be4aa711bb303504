//! The decision for each op, from the last to the first: computed inside its readers' kernels, a
//! root of one of them, or a kernel of its own.
//!
//! `worth` says what is computed again rather than kept, `live` what is kept so that less is live,
//! `merge` which kernels become one.

mod live;
mod merge;
mod worth;

use super::cost::{self, Estimate};
use super::maps::{Site, Sites, borders, operand_site};
use super::overwritten::Overwritten;
use super::slots::{self, WindowRead};
use super::strided::{Strided, strided};
use super::units::{Kind, Units};
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
/// The same of all its code, the pieces into which loops are split at borders counted.
const MAX_CODE: u32 = 20_000;
/// Ops between a kernel's root and what it inlines at its own index: the emitter goes as deep.
const MAX_CHAIN: u32 = 300;

/// Decides for a whole function.
pub(in crate::fuse) struct Decider<'a> {
    f: &'a Function,
    mode: FusionMode,
    donated: &'a dyn Fn(usize) -> bool,
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
pub(in crate::fuse) fn run(
    f: &Function,
    mode: FusionMode,
    donated: &dyn Fn(usize) -> bool,
    again: &FxHashSet<ValueId>,
) -> Fused {
    let mut decider = Decider {
        f,
        mode,
        donated,
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
                let captures = region::captures(f, op);
                // Whether this op's regions need what is known without memory is not known yet.
                let symbolic = |v: &ValueId| self.estimates[*v].symbolic;
                let elsewhere: Vec<ValueId> =
                    captures.iter().copied().filter(|v| symbolic(v) && self.needed[*v]).collect();
                elsewhere.iter().for_each(|&v| self.needed[v] = false);
                if region::is_control(f, op) {
                    data.regions.iter().for_each(|&region| self.block(region));
                }
                for captured in captures {
                    if !self.estimates[captured].symbolic || self.needed[captured] {
                        self.need(captured, unit, at);
                    }
                }
                elsewhere.iter().for_each(|&v| self.needed[v] = true);
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
        let less = self.mode == FusionMode::On && self.is_less_to_keep(op, at);
        let may_inline = !self.needed[value] && self.mode == FusionMode::On && !before && !less;
        if may_inline && self.worth_inlining(op, cost, at) {
            self.fused.forms[value] = Form { stored: false, inline: true };
            let sites = std::mem::take(&mut self.sites[value].0);
            return self.inline(op, &sites, at);
        }
        let shape = &f.ty(value).shape;
        let unit = match self.host(op, at) {
            Some(unit) if !before && (!less || self.waits_for(unit, at).is_none()) => unit,
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
}

/// How often the loops of an op read an element of an operand that they do not update.
fn reads_of_loops(f: &Function, op: OpId) -> f64 {
    match f.ops[op].op {
        Op::DynamicUpdateSlice(_) | Op::Scatter(_) | Op::ReduceWindow(_) => 1.0,
        _ => 4.0,
    }
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
