//! Computes equal ops once.
//!
//! Two ops are equal if op, attributes, operands, result types and regions are. An op in a region
//! of control flow may be replaced by an equal one of an enclosing block before it, not the other
//! way round. Barriers are never equal.

use super::region;
use jaxrs_ir::{BlockId, Function, Op, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHasher};
use std::fmt::Write;
use std::hash::{Hash, Hasher};

/// Removes repeated ops.
pub fn run(function: &mut Function) {
    let mut scopes = Scopes::default();
    let mut replaced = FxHashMap::default();
    let body = function.body;
    block(function, body, &mut scopes, &mut replaced);
}

/// Ops by hash; those of blocks that have ended are taken out.
#[derive(Default)]
struct Scopes {
    table: FxHashMap<u64, Vec<OpId>>,
    added: Vec<u64>,
}

type Replaced = FxHashMap<ValueId, ValueId>;

fn block(f: &mut Function, id: BlockId, scopes: &mut Scopes, replaced: &mut Replaced) {
    let mark = scopes.added.len();
    let ops = std::mem::take(&mut f.blocks[id].ops);
    let mut kept = Vec::with_capacity(ops.len());
    for op in ops {
        rename(&mut f.ops[op].operands, replaced);
        let control = region::is_control(f, op);
        for region in f.ops[op].regions.clone() {
            if control {
                block(f, region, scopes, replaced);
            } else {
                rename_block(f, region, replaced);
            }
        }
        if control || !may_merge(f, op) {
            kept.push(op);
            continue;
        }
        let hash = hash(f, op);
        let candidates = scopes.table.entry(hash).or_default();
        match candidates.iter().find(|&&other| equal(f, op, other)) {
            Some(&other) => {
                let (old, new) = (f.ops[op].results.clone(), f.ops[other].results.clone());
                replaced.extend(old.into_iter().zip(new));
            }
            None => {
                candidates.push(op);
                scopes.added.push(hash);
                kept.push(op);
            }
        }
    }
    f.blocks[id].ops = kept;
    let mut yields = std::mem::take(&mut f.blocks[id].yields);
    rename(&mut yields, replaced);
    f.blocks[id].yields = yields;
    for hash in scopes.added.drain(mark..) {
        scopes.table.get_mut(&hash).expect("added before").pop();
    }
}

fn rename(values: &mut [ValueId], replaced: &Replaced) {
    for value in values {
        if let Some(&new) = replaced.get(value) {
            *value = new;
        }
    }
}

fn rename_block(f: &mut Function, id: BlockId, replaced: &Replaced) {
    for op in f.blocks[id].ops.clone() {
        rename(&mut f.ops[op].operands, replaced);
        for region in f.ops[op].regions.clone() {
            rename_block(f, region, replaced);
        }
    }
    let mut yields = std::mem::take(&mut f.blocks[id].yields);
    rename(&mut yields, replaced);
    f.blocks[id].yields = yields;
}

fn may_merge(f: &Function, op: OpId) -> bool {
    let data = &f.ops[op];
    let distinct = matches!(data.op, Op::OptimizationBarrier(_) | Op::CustomCall(_) | Op::Empty(_));
    !data.results.is_empty() && !distinct
}

/// Hashes what is written to it.
struct Text<'a>(&'a mut FxHasher);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        text.hash(self.0);
        Ok(())
    }
}

fn hash(f: &Function, op: OpId) -> u64 {
    let data = &f.ops[op];
    let mut hasher = FxHasher::default();
    data.op.name().hash(&mut hasher);
    data.operands.hash(&mut hasher);
    match &data.op {
        Op::Elementwise(_) => {}
        Op::Constant(constant) => constant.value.hash(&mut hasher),
        // Attributes matter only where the operands are equal, too.
        other => write!(Text(&mut hasher), "{other:?}").expect("hashing does not fail"),
    }
    for &result in &data.results {
        f.ty(result).hash(&mut hasher);
    }
    hasher.finish()
}

fn equal(f: &Function, a: OpId, b: OpId) -> bool {
    let (x, y) = (&f.ops[a], &f.ops[b]);
    let types = |op: OpId| f.ops[op].results.iter().map(|&v| f.ty(v));
    x.operands == y.operands
        && same_op(&x.op, &y.op)
        && x.results.len() == y.results.len()
        && types(a).eq(types(b))
        && x.regions.len() == y.regions.len()
        && x.regions
            .iter()
            .zip(&y.regions)
            .all(|(&a, &b)| same_region(f, a, b, &mut FxHashMap::default()))
}

/// Equality of attributes; of constants by their bytes, so that a NaN equals itself.
fn same_op(a: &Op, b: &Op) -> bool {
    a == b
}

/// Whether two regions are equal but for the names of their values.
fn same_region(f: &Function, a: BlockId, b: BlockId, names: &mut Replaced) -> bool {
    let (x, y) = (&f.blocks[a], &f.blocks[b]);
    if x.arguments.len() != y.arguments.len() || x.ops.len() != y.ops.len() {
        return false;
    }
    for (&v, &w) in x.arguments.iter().zip(&y.arguments) {
        if f.ty(v) != f.ty(w) {
            return false;
        }
        names.insert(v, w);
    }
    let same = |vs: &[ValueId], ws: &[ValueId], names: &Replaced| {
        vs.len() == ws.len() && vs.iter().zip(ws).all(|(v, w)| names.get(v).unwrap_or(v) == w)
    };
    for (&p, &q) in x.ops.iter().zip(&y.ops) {
        let (m, n) = (&f.ops[p], &f.ops[q]);
        let regions = m.regions.len() == n.regions.len()
            && m.regions.iter().zip(&n.regions).all(|(&a, &b)| same_region(f, a, b, names));
        let results = m.results.len() == n.results.len()
            && m.results.iter().zip(&n.results).all(|(&v, &w)| f.ty(v) == f.ty(w));
        if !same_op(&m.op, &n.op) || !same(&m.operands, &n.operands, names) || !regions || !results
        {
            return false;
        }
        names.extend(m.results.iter().copied().zip(n.results.iter().copied()));
    }
    same(&x.yields, &y.yields, names)
}
