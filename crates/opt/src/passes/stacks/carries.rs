//! The loop with carries for what is made of its stacked results.

use super::forms::{Form, Pick, free_kinds};
use super::pieces::{Pieces, Step};
use super::slots::Filled;
use super::uses::Wanted;
use crate::passes::counter::Counted;
use crate::passes::{loops, region};
use jaxrs_ir::builder::Builder;
use jaxrs_ir::function::ValueData;
use jaxrs_ir::ops::monoid::{Body, Kind};
use jaxrs_ir::{BlockId, DType, Function, Literal, Location, Op, OpId, ValueDef, ValueId, ops};
use jaxrs_kernel::Compare;
use jaxrs_kernel::dtype::Class;
use rustc_hash::{FxHashMap, FxHashSet};

/// Rewrites a loop and the ops after it. After an error nothing has changed.
pub fn rewrite(
    f: &mut Function,
    block: BlockId,
    counted: &Counted,
    filled: &[Filled],
    wanted: &Wanted,
) -> Result<(), String> {
    let data = f.ops[counted.op].clone();
    let blocks: Vec<BlockId> = data.regions.iter().copied().chain([block]).collect();
    let saved: Vec<_> = blocks.iter().map(|&b| f.blocks[b].clone()).collect();
    let rewrite = Rewrite {
        time: data.results[0],
        f,
        block,
        counted,
        filled,
        wanted,
        location: data.location.clone(),
        before: Vec::new(),
        instead: FxHashMap::default(),
        outer: Vec::new(),
        names: FxHashMap::default(),
        picked: FxHashMap::default(),
    };
    let done = rewrite.run();
    if done.is_err() {
        for (block, saved) in blocks.into_iter().zip(saved) {
            f.blocks[block] = saved;
        }
        f.ops[counted.op] = data;
    }
    done
}

struct Rewrite<'f> {
    f: &'f mut Function,
    block: BlockId,
    counted: &'f Counted,
    filled: &'f [Filled],
    wanted: &'f Wanted,
    location: Location,
    /// Ops to stand before the loop.
    before: Vec<OpId>,
    /// Ops to stand in place of one that follows the loop.
    instead: FxHashMap<OpId, Vec<OpId>>,
    /// Values that must be there before the loop.
    outer: Vec<ValueId>,
    /// What stands for values after the loop.
    names: FxHashMap<ValueId, ValueId>,
    /// The step's number in the body, of type `i32` or `i64`.
    time: ValueId,
    /// Pieces picked so far: of a stacked result, by step.
    picked: FxHashMap<(usize, Pick, Form), ValueId>,
}

/// A new carry: the body's argument and the loop's result.
struct Carry {
    argument: ValueId,
    result: ValueId,
}

impl Rewrite<'_> {
    fn run(mut self) -> Result<(), String> {
        let ops = std::mem::take(&mut self.f.blocks[self.block].ops);
        self.time = self.step()?;
        for &(op, pick) in &self.wanted.picks {
            self.pick(op, pick)?;
        }
        for &op in &self.wanted.reduces {
            self.reduce(op)?;
        }
        for &value in &self.wanted.stacks {
            let ty = self.f.ty(value).clone();
            let init = self.before(|b| b.zeros(&ty))?;
            let carry = self.carry(init);
            let trips = self.counted.trips;
            let next = self.in_step(|p| p.stacked(value, carry.argument, trips))?;
            self.next(next);
            self.names.insert(value, carry.result);
        }
        let at = ops.iter().position(|&op| op == self.counted.op).expect("its own block");
        let (hoisted, rest) = self.hoisted(&ops[at + 1..]);
        let mut all = ops[..at].to_vec();
        all.extend(hoisted);
        all.append(&mut self.before);
        all.push(self.counted.op);
        for op in rest {
            match self.instead.remove(&op) {
                Some(ops) => all.extend(ops),
                None => all.push(op),
            }
        }
        self.f.blocks[self.block].ops = all;
        loops::rename(self.f, self.block, &self.names);
        Ok(())
    }

    fn body(&self) -> BlockId {
        self.f.ops[self.counted.op].regions[1]
    }

    /// The step's number, computed in the body.
    fn step(&mut self) -> Result<ValueId, String> {
        let (counter, line) = self.counted.counter().ok_or("no counter")?;
        let wide = self.wanted.known.forms.keys().any(|&value| {
            self.f.ty(value).shape.iter().any(|&extent| i32::try_from(extent).is_err())
        });
        let (block, location) = (self.body(), self.location.clone());
        let mut b = Builder { function: self.f, block, location };
        let mut time = counter;
        if wide || b.ty(time).dtype != DType::I32 {
            time = b.convert(time, DType::I64)?;
        }
        let ty = b.ty(time);
        let number = |n: i128| -> Result<Literal, String> {
            let n = i64::try_from(n).map_err(|_| "a counter of large numbers")?;
            let bits = n as u64 & u64::MAX >> (64 - ty.dtype.bits());
            Ok(Literal::scalar(ty.dtype, &[bits]))
        };
        if line.first != 0 {
            let first = b.constant(number(line.first)?)?;
            time = b.subtract(time, first)?;
        }
        if line.step != 1 {
            let step = b.constant(number(line.step)?)?;
            time = b.divide(time, step)?;
        }
        Ok(time)
    }

    /// Appends ops that stand before the loop.
    fn before<T>(&mut self, make: impl FnOnce(&mut Builder<'_>) -> T) -> T {
        let location = self.location.clone();
        let made = make(&mut Builder { function: self.f, block: self.block, location });
        self.before.append(&mut self.f.blocks[self.block].ops);
        made
    }

    /// Appends what a step computes of its pieces to the body.
    fn in_step<T>(
        &mut self,
        make: impl FnOnce(&mut Pieces<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let (body, step) = (self.body(), Step::Value(self.time));
        let mut pieces = Pieces::new(self.f, body, &self.wanted.known, step);
        pieces.location = self.location.clone();
        for (&root, &n) in &self.wanted.roots {
            pieces.set(root, self.filled[n].update);
        }
        let made = make(&mut pieces)?;
        self.outer.append(&mut pieces.outer);
        Ok(made)
    }

    fn carry(&mut self, init: ValueId) -> Carry {
        let (op, ty) = (self.counted.op, self.f.ty(init).clone());
        let [condition, body] = [0, 1].map(|n| self.f.ops[op].regions[n]);
        self.f.add_argument(condition, ty.clone());
        let argument = self.f.add_argument(body, ty.clone());
        let def = ValueDef::Result(op, self.f.ops[op].results.len() as u32);
        let result = self.f.values.push(ValueData { ty, def });
        self.f.ops[op].results.push(result);
        self.f.ops[op].operands.push(init);
        Carry { argument, result }
    }

    /// The next value of the first new carry that has none yet.
    fn next(&mut self, value: ValueId) {
        let body = self.body();
        self.f.blocks[body].yields.push(value);
    }

    fn reduce(&mut self, op: OpId) -> Result<(), String> {
        let data = self.f.ops[op].clone();
        let Op::Reduce(reduce) = &data.op else { return Err("not a reduction".into()) };
        let (values, inits) = data.operands.split_at(data.operands.len() / 2);
        let form = values.iter().find_map(|v| self.wanted.known.forms.get(v).copied());
        let form = form.ok_or("no pieces")?;
        let kinds = free_kinds(self.f, &data);
        let mut carries = Vec::new();
        for (n, &init) in inits.iter().enumerate() {
            let ty = self.f.ty(data.results[n]).clone();
            let dtype = precise(ty.dtype, kinds.as_ref().map(|kinds| kinds[n]));
            self.outer.push(init);
            let init = self.before(|b| {
                let init = b.convert(init, dtype)?;
                b.splat(init, &ty.shape)
            })?;
            carries.push(self.carry(init));
        }
        let old: Vec<ValueId> = carries.iter().map(|carry| carry.argument).collect();
        let trips = self.counted.trips;
        let single = reduce.axes[..] == [form.axis] && form.block == 1;
        let next = self.in_step(|p| {
            let mut new = Vec::new();
            for (n, &value) in values.iter().enumerate() {
                let ty = p.f.ty(old[n]).clone();
                let piece = p.operand(value, form)?;
                let mut b = p.builder();
                let piece = b.convert(piece, ty.dtype)?;
                new.push(match &kinds {
                    _ if single => b.reshape(piece, &ty.shape)?,
                    Some(kinds) => {
                        let identity = kinds[n].identity(ty.dtype).ok_or("no identity")?;
                        let init = b.constant(identity)?;
                        let name = kinds[n].name().ok_or("no op")?;
                        b.reduce(name, piece, init, &reduce.axes)?
                    }
                    None => return Err("elements out of order".into()),
                });
            }
            let inside = p.inside(form, trips)?;
            let combined = match &kinds {
                Some(kinds) => {
                    let mut out = Vec::new();
                    for (n, kind) in kinds.iter().enumerate() {
                        let name = kind.name().ok_or("no op")?;
                        out.push(p.builder().elementwise(name, &[old[n], new[n]])?);
                    }
                    out
                }
                None => {
                    let body = Body::new(p.f, data.regions[0]);
                    body.combine(&mut p.builder(), &old, &new, &[])?
                }
            };
            let Some(inside) = inside else { return Ok(combined) };
            let mut b = p.builder();
            combined.into_iter().zip(&old).map(|(new, &old)| b.select(inside, new, old)).collect()
        })?;
        next.into_iter().for_each(|value| self.next(value));
        for (n, carry) in carries.iter().enumerate() {
            let dtype = self.f.ty(data.results[n]).dtype;
            let location = data.location.clone();
            let mut b = Builder { function: self.f, block: self.block, location };
            let result = b.convert(carry.result, dtype)?;
            self.names.insert(data.results[n], result);
        }
        let made = std::mem::take(&mut self.f.blocks[self.block].ops);
        self.instead.insert(op, made);
        Ok(())
    }

    fn pick(&mut self, op: OpId, pick: Pick) -> Result<(), String> {
        let data = self.f.ops[op].clone();
        let value = data.operands[0];
        let form = self.wanted.known.forms[&value];
        let step = match pick {
            Pick::Step(step) => Step::Known(step),
            Pick::At(position) => Step::Value(self.step_at(position, form)?),
        };
        let mut picked = Vec::new();
        for root in self.roots_of(value) {
            picked.push((root, self.picked(self.wanted.roots[&root], pick, form, step)?));
        }
        let mut pieces = Pieces::new(self.f, self.block, &self.wanted.known, step);
        pieces.location = data.location.clone();
        for (root, picked) in picked {
            let update = self.filled[self.wanted.roots[&root]].update;
            let shape = pieces.f.ty(update).shape.clone();
            let piece = pieces.builder().reshape(picked, &shape)?;
            pieces.set(root, piece);
        }
        let piece = pieces.of(value)?;
        let mut b = pieces.builder();
        let result = match data.op {
            Op::Slice(mut slice) => {
                let axis = form.axis;
                (slice.starts[axis], slice.limits[axis], slice.strides[axis]) = (0, form.block, 1);
                b.one(slice, &[piece])?
            }
            Op::DynamicSlice(slice) => {
                let mut operands = data.operands.clone();
                operands[0] = piece;
                operands[1 + form.axis] = {
                    let ty = b.ty(operands[1 + form.axis]);
                    b.zeros(&ty)?
                };
                b.one(slice, &operands)?
            }
            other => return Err(format!("{} picks nothing", other.name())),
        };
        let made = std::mem::take(&mut self.f.blocks[self.block].ops);
        self.instead.insert(op, made);
        self.names.insert(data.results[0], result);
        Ok(())
    }

    /// The step of the piece at a position, which is clamped, computed before the loop.
    fn step_at(&mut self, position: ValueId, form: Form) -> Result<ValueId, String> {
        self.outer.push(position);
        let to = self.f.ty(self.time).dtype;
        self.before(|b| {
            let ty = b.ty(position);
            let signed = u32::from(ty.dtype.class() == Class::Signed);
            let most = u64::MAX >> (64 - (ty.dtype.bits() - signed));
            let last = Literal::scalar(ty.dtype, &[(form.count - 1).min(most)]);
            let (low, high) = (b.zeros(&ty)?, b.constant(last)?);
            let clamped = b.one(ops::Clamp, &[low, position, high])?;
            let at = b.convert(clamped, to)?;
            let bound = if form.rising { form.first } else { form.first + form.count - 1 };
            let bound = b.constant(Literal::scalar(to, &[bound]))?;
            if form.rising { b.add(at, bound) } else { b.subtract(bound, at) }
        })
    }

    /// What the body writes in a step into the slots of a stacked result, after the loop.
    fn picked(
        &mut self,
        root: usize,
        pick: Pick,
        form: Form,
        step: Step,
    ) -> Result<ValueId, String> {
        let key = (root, pick, form);
        if let Some(&value) = self.picked.get(&key) {
            return Ok(value);
        }
        let body = self.body();
        let update = self.filled[root].update;
        // What is written, without the axis of the slots.
        let value = match self.f.defining_op(update).map(|op| &self.f.ops[op]) {
            Some(data) if matches!(data.op, Op::Reshape(_)) => data.operands[0],
            _ => update,
        };
        let last = matches!(step, Step::Known(step) if step + 1 == self.counted.trips);
        let carried = self.f.blocks[body].yields.iter().position(|&v| v == value || v == update);
        if let (true, Some(n)) = (last, carried) {
            return Ok(self.f.ops[self.counted.op].results[n]);
        }
        let ty = self.f.ty(value).clone();
        let init = self.before(|b| b.zeros(&ty))?;
        let carry = self.carry(init);
        let mut next = value;
        if !last {
            let location = self.location.clone();
            let time = self.time;
            let mut b = Builder { function: self.f, block: body, location };
            let step = match step {
                Step::Value(step) => step,
                Step::Known(step) => {
                    let dtype = b.ty(time).dtype;
                    b.constant(Literal::scalar(dtype, &[step]))?
                }
            };
            let here = b.compare(Compare::Eq, time, step)?;
            next = b.select(here, value, carry.argument)?;
        }
        self.next(next);
        self.picked.insert(key, carry.result);
        Ok(carry.result)
    }

    /// The stacked results that a value is made of.
    fn roots_of(&self, value: ValueId) -> Vec<ValueId> {
        let forms = &self.wanted.known.forms;
        let (mut stack, mut seen) = (vec![value], FxHashSet::default());
        let mut roots = Vec::new();
        while let Some(value) = stack.pop() {
            if !forms.contains_key(&value) || !seen.insert(value) {
                continue;
            }
            if self.wanted.roots.contains_key(&value) {
                roots.push(value);
            } else if let Some(op) = self.f.defining_op(value) {
                stack.extend(&self.f.ops[op].operands);
            }
        }
        roots.sort_unstable();
        roots
    }

    /// The ops after the loop that must stand before it, and the others.
    fn hoisted(&self, after: &[OpId]) -> (Vec<OpId>, Vec<OpId>) {
        let mut needed: FxHashSet<ValueId> = self.outer.iter().copied().collect();
        let (mut hoisted, mut rest) = (Vec::new(), Vec::new());
        for &op in after.iter().rev() {
            let data = &self.f.ops[op];
            if !data.results.iter().any(|v| needed.contains(v)) {
                rest.push(op);
                continue;
            }
            needed.extend(&data.operands);
            needed.extend(region::captures(self.f, op));
            hoisted.push(op);
        }
        hoisted.reverse();
        rest.reverse();
        (hoisted, rest)
    }
}

/// The type in which a reduction accumulates.
fn precise(dtype: DType, kind: Option<Kind>) -> DType {
    match (dtype, kind) {
        (DType::BF16 | DType::F16, Some(Kind::Add | Kind::Multiply)) => DType::F32,
        _ => dtype,
    }
}
