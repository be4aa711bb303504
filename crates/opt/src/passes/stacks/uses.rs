//! What becomes of the results that a loop stacks: which of their uses the loop can serve step by
//! step, and which of them then need not exist.

use super::forms::{Effect, Form, Known, Pick, is_pointwise};
use super::slots::Filled;
use crate::passes::counter::Counted;
use crate::passes::{dce, region};
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Stacked results below this many bytes are left as they are.
const SMALL: u64 = 64;
/// Pieces of fewer elements are computed faster after the loop than in it.
const SHORT: u64 = 64;

/// What the loop is to make instead of stacked results.
pub struct Wanted {
    /// What is known of the values after the loop.
    pub known: Known,
    /// The stacked results, by value.
    pub roots: FxHashMap<ValueId, usize>,
    /// Reductions of all pieces.
    pub reduces: Vec<OpId>,
    /// Picks of one piece.
    pub picks: Vec<(OpId, Pick)>,
    /// Values to be stacked instead.
    pub stacks: Vec<ValueId>,
}

/// A use of stacked results that the loop can serve.
enum Use {
    Reduce(OpId),
    Pick(OpId, Pick),
    Stack(ValueId),
}

/// How something needs a value whole.
#[derive(Clone, Copy)]
struct Need {
    /// It must lie in memory: not just read by ops that are computed with others.
    hard: bool,
    /// Something else than the block's end needs it.
    inside: bool,
}

struct Search<'f> {
    f: &'f Function,
    counted: &'f Counted,
    filled: &'f [Filled],
    known: Known,
    /// The stacked results that a value is made from.
    sources: FxHashMap<ValueId, Vec<usize>>,
    roots: FxHashMap<ValueId, usize>,
    uses: Vec<(Use, Vec<usize>)>,
    needs: FxHashMap<ValueId, Need>,
    needed: Vec<ValueId>,
}

/// What a loop is to make instead of what it stacks, if that saves memory. `after` are the ops that
/// follow it in its block.
pub fn find(
    f: &Function,
    block: BlockId,
    after: &[OpId],
    counted: &Counted,
    filled: &[Filled],
) -> Option<Wanted> {
    let mut search = Search {
        f,
        counted,
        filled,
        known: Known::default(),
        sources: FxHashMap::default(),
        roots: FxHashMap::default(),
        uses: Vec::new(),
        needs: FxHashMap::default(),
        needed: Vec::new(),
    };
    let results = &f.ops[counted.op].results;
    search.known.dependent.extend(results);
    for (n, fill) in filled.iter().enumerate() {
        let Filled { carry, axis, block, rising, .. } = *fill;
        let form = Form { axis, block, first: 0, count: counted.trips, rising };
        search.known.forms.insert(results[carry], form);
        search.sources.insert(results[carry], vec![n]);
        search.roots.insert(results[carry], n);
    }
    for &op in after {
        search.visit(op);
    }
    for &value in &f.blocks[block].yields {
        search.need(value, Need { hard: true, inside: block != f.body });
    }
    search.decide()
}

impl Search<'_> {
    fn visit(&mut self, op: OpId) {
        let data = &self.f.ops[op];
        let captures = region::captures(self.f, op);
        let mut inputs = data.operands.iter().chain(&captures);
        if !inputs.any(|value| self.known.dependent.contains(value)) {
            if dce::has_effect(self.f, op) {
                // It stays behind the loop.
                self.known.dependent.extend(&data.results);
            }
            return;
        }
        self.known.dependent.extend(&data.results);
        for &value in &captures {
            self.need(value, Need { hard: true, inside: true });
        }
        let mut sources: Vec<usize> =
            data.operands.iter().filter_map(|v| self.sources.get(v)).flatten().copied().collect();
        sources.sort_unstable();
        sources.dedup();
        if sources.is_empty() {
            return;
        }
        match self.known.effect(self.f, op) {
            Some(Effect::Form(form)) => {
                for &result in &data.results {
                    self.known.forms.insert(result, form);
                    self.sources.insert(result, sources.clone());
                }
            }
            Some(Effect::Reduce) => self.uses.push((Use::Reduce(op), sources)),
            Some(Effect::Pick(pick)) => self.uses.push((Use::Pick(op, pick), sources)),
            None => {
                let soft = is_pointwise(&data.op)
                    || matches!(data.op, Op::BroadcastInDim(_) | Op::Reduce(_) | Op::Reshape(_));
                for &value in &data.operands {
                    self.need(value, Need { hard: !soft, inside: true });
                }
            }
        }
    }

    fn need(&mut self, value: ValueId, how: Need) {
        if !self.known.forms.contains_key(&value) {
            return;
        }
        match self.needs.get_mut(&value) {
            Some(need) => {
                need.hard |= how.hard;
                need.inside |= how.inside;
            }
            None => {
                self.needs.insert(value, how);
                self.needed.push(value);
            }
        }
    }

    /// The values made of pieces that a value's op reads; None for a stacked result.
    fn made_from(&self, value: ValueId) -> Option<Vec<ValueId>> {
        if self.roots.contains_key(&value) {
            return None;
        }
        let op = self.f.defining_op(value)?;
        let mut values: Vec<ValueId> = self.f.ops[op].operands.clone();
        values.retain(|v| self.known.forms.contains_key(v));
        values.sort_unstable();
        values.dedup();
        Some(values)
    }

    /// What is stacked so that a value can be had after the loop.
    fn cut(&self, value: ValueId, hard: bool, out: &mut Vec<ValueId>) {
        let bytes = |v: ValueId| self.f.ty(v).bytes();
        let through = self.made_from(value).filter(|operands| match hard {
            true => self.is_view(value),
            false => operands.iter().map(|&v| bytes(v)).sum::<u64>() <= bytes(value),
        });
        match through {
            Some(operands) => operands.into_iter().for_each(|v| self.cut(v, hard, out)),
            None if out.contains(&value) => {}
            None => out.push(value),
        }
    }

    /// Whether the value's elements lie in memory as its operand's do, or the loop would write them
    /// far from each other.
    fn is_view(&self, value: ValueId) -> bool {
        let op = self.f.defining_op(value).map(|op| &self.f.ops[op].op);
        let (ty, form) = (self.f.ty(value), self.known.forms[&value]);
        let run = form.block * ty.shape[form.axis + 1..].iter().product::<u64>();
        matches!(op, Some(Op::Reshape(_))) || matches!(op, Some(Op::Transpose(_))) && run < 16
    }

    fn decide(mut self) -> Option<Wanted> {
        let mut whole: FxHashSet<usize> = FxHashSet::default();
        let mut cuts = Vec::new();
        let mut inside: FxHashMap<ValueId, bool> = FxHashMap::default();
        for &value in &self.needed {
            let need = self.needs[&value];
            let mut here = Vec::new();
            self.cut(value, need.hard, &mut here);
            for value in here {
                *inside.entry(value).or_default() |= need.inside;
                if let Some(&root) = self.roots.get(&value) {
                    whole.insert(root);
                } else if !cuts.contains(&value) {
                    cuts.push(value);
                }
            }
        }
        for value in cuts {
            let sources = self.sources[&value].clone();
            self.uses.push((Use::Stack(value), sources));
        }
        self.refuse_costly(&mut whole, &inside);
        let served = |sources: &[usize]| sources.iter().any(|root| !whole.contains(root));
        let mut wanted = Wanted {
            known: self.known,
            roots: self.roots,
            reduces: Vec::new(),
            picks: Vec::new(),
            stacks: Vec::new(),
        };
        let mut some = false;
        for (what, sources) in self.uses {
            if !served(&sources) {
                continue;
            }
            some = true;
            match what {
                Use::Reduce(op) => wanted.reduces.push(op),
                Use::Pick(op, pick) => wanted.picks.push((op, pick)),
                Use::Stack(value) => wanted.stacks.push(value),
            }
        }
        some.then_some(wanted)
    }

    /// Adds to the results that stay whole those that cost less so. Results that are used together
    /// are decided together.
    fn refuse_costly(&self, whole: &mut FxHashSet<usize>, inside: &FxHashMap<ValueId, bool>) {
        let bytes = |v: ValueId| self.f.ty(v).bytes();
        let mut group: Vec<usize> = (0..self.filled.len()).collect();
        for (_, sources) in &self.uses {
            let free: Vec<usize> =
                sources.iter().copied().filter(|root| !whole.contains(root)).collect();
            for pair in free.windows(2) {
                let (a, b) = (group[pair[0]], group[pair[1]]);
                group.iter_mut().filter(|g| **g == b).for_each(|g| *g = a);
            }
        }
        for id in 0..group.len() {
            let members: Vec<usize> =
                (0..group.len()).filter(|&n| group[n] == id && !whole.contains(&n)).collect();
            let result = |n: usize| self.f.ops[self.counted.op].results[self.filled[n].carry];
            let saved: u64 = members.iter().map(|&n| bytes(result(n))).sum();
            let (mut spent, mut stacked, mut largest, mut short) = (0, 0, 0, false);
            for (what, sources) in &self.uses {
                if !sources.iter().any(|root| members.contains(root)) {
                    continue;
                }
                match *what {
                    Use::Reduce(op) => {
                        spent += self.f.ops[op].results.iter().map(|&v| bytes(v)).sum::<u64>();
                    }
                    Use::Pick(_, Pick::Step(step)) if step + 1 == self.counted.trips => {}
                    Use::Pick(..) => {
                        let piece = |&root: &usize| bytes(self.filled[root].update);
                        spent += sources.iter().map(piece).sum::<u64>();
                    }
                    Use::Stack(value) => {
                        // A result of the program exists in any case, and one other could.
                        if inside[&value] {
                            stacked += bytes(value);
                            largest = largest.max(bytes(value));
                        }
                        let length = self.f.ty(value).len() / self.counted.trips;
                        short |= length < SHORT && bytes(value) >= saved;
                    }
                }
            }
            if saved < SMALL || spent + (stacked - largest) > saved || short {
                whole.extend(members);
            }
        }
    }
}
