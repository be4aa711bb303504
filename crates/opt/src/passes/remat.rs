//! What straight-line code keeps from its first half for its second, and what it makes again
//! instead: the gradient of a network without loops reads, layer by layer, what the forward pass
//! computed long before.
//!
//! At the point where most bytes are live in the order of the source, values computed before and
//! read after are to be kept. Cheap elementwise ops make many of them from few: a minimum cut, as
//! in [`super::residuals`]. What is not kept is made again close to each late reader; what is best
//! kept in a form that only late ops compute (a narrow type) is computed early.
//!
//! Comes after the last search for equal ops, which would undo it.

use super::residuals::{is_cheap, reshaped};
use super::{flow, loops, region};
use cranelift_entity::SecondaryMap;
use jaxrs_ir::lower::{ElementCost, Lowering};
use jaxrs_ir::{Function, Op, OpId, ValueDef, ValueId, ops};
use rustc_hash::{FxHashMap, FxHashSet};

/// Points that are looked at, one after the other.
const ROUNDS: usize = 3;
/// Readers no further apart than so many ops share what is made again.
const NEAR: usize = 32;
/// Cheap instructions that may be run again for each byte that is not kept.
pub(super) const MAX_WORK: u64 = 25;
/// Ops between a late reader and what is kept.
const MAX_DEPTH: u32 = 100;
/// Larger functions are left alone.
const MAX_OPS: usize = 50_000;

/// Keeps less across the points where most is live. `donated` says of each parameter whether it
/// may be overwritten. Says whether it changed something.
pub fn run(f: &mut Function, donated: &[bool]) -> bool {
    for round in 0..ROUNDS {
        match Crossing::new(f, donated).and_then(|crossing| crossing.choose(f)) {
            Some(choice) => choice.apply(f),
            None => return round > 0,
        }
    }
    true
}

/// The values of the body at the point where most of them are live. Reshapes are no values here.
struct Crossing {
    /// The position of the last op before the point.
    point: usize,
    /// Where each value is made.
    made: SecondaryMap<ValueId, Place>,
    /// What makes it, if that can be done again, and what that reads.
    cheap: SecondaryMap<ValueId, bool>,
    /// The values, in order.
    values: Vec<ValueId>,
    /// Whether a value is there anyway: a result, a parameter that is not overwritten.
    lasting: SecondaryMap<ValueId, bool>,
    /// Late values that depend on nothing but early ones, through cheap ops.
    known: SecondaryMap<ValueId, bool>,
    /// Values that something late reads that is not known.
    sinks: Vec<ValueId>,
    /// What is kept now, as far as one can tell before kernels are made.
    now: u64,
}

/// Where a value is made: by an op at a position, or outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    At(usize),
}

/// The value itself, whatever its shape.
fn base(f: &Function, mut value: ValueId) -> ValueId {
    while let Some(inside) = reshaped(f, value) {
        value = inside;
    }
    value
}

/// What an op reads, in its regions, too.
fn reads(f: &Function, op: OpId) -> Vec<ValueId> {
    let mut all = f.ops[op].operands.clone();
    if !f.ops[op].regions.is_empty() {
        all.extend(region::captures(f, op));
    }
    all
}

impl Crossing {
    fn new(f: &Function, donated: &[bool]) -> Option<Crossing> {
        let body = &f.blocks[f.body].ops;
        if body.len() > MAX_OPS {
            return None;
        }
        let mut made: SecondaryMap<ValueId, Place> = SecondaryMap::new();
        let mut cheap: SecondaryMap<ValueId, bool> = SecondaryMap::new();
        let mut last: SecondaryMap<ValueId, usize> = SecondaryMap::new();
        let mut values = f.parameters().to_vec();
        for (position, &op) in body.iter().enumerate() {
            for value in reads(f, op) {
                last[base(f, value)] = position;
            }
            for &result in &f.ops[op].results {
                made[result] = Place::At(position);
                cheap[result] = is_cheap(f, op);
                if reshaped(f, result).is_none() {
                    values.push(result);
                }
            }
        }
        let mut lasting: SecondaryMap<ValueId, bool> = SecondaryMap::new();
        for &result in f.results() {
            last[base(f, result)] = body.len();
            lasting[base(f, result)] = true;
        }
        let point = fullest(f, body.len(), &values, &made, &last)?;
        for (n, &parameter) in f.parameters().iter().enumerate() {
            lasting[parameter] =
                !donated.get(n).copied().unwrap_or(false) || last[parameter] > point;
        }
        let known = SecondaryMap::new();
        let (sinks, now) = (Vec::new(), 0);
        let mut this = Crossing { point, made, cheap, values, lasting, known, sinks, now };
        this.find_sinks(f);
        Some(this)
    }

    fn early(&self, value: ValueId) -> bool {
        match self.made[value] {
            Place::Outside => true,
            Place::At(position) => position <= self.point,
        }
    }

    fn constant(f: &Function, value: ValueId) -> bool {
        f.defining_op(value).is_some_and(|op| matches!(f.ops[op].op, Op::Constant(_)))
    }

    /// What late ops read, and what of it must be there.
    fn find_sinks(&mut self, f: &Function) {
        let body = f.blocks[f.body].ops.clone();
        let mut needed: FxHashSet<ValueId> = FxHashSet::default();
        let mut memory: FxHashSet<ValueId> = FxHashSet::default();
        for (position, &op) in body.iter().enumerate() {
            let read: Vec<ValueId> = reads(f, op).into_iter().map(|v| base(f, v)).collect();
            let result = f.ops[op].results.first().copied();
            if result.is_some_and(|v| reshaped(f, v).is_some()) {
                continue;
            }
            let cheap = is_cheap(f, op);
            if !cheap {
                memory.extend(&read);
            }
            if position <= self.point {
                continue;
            }
            let known = cheap && read.iter().all(|&v| self.early(v) || self.known[v]);
            match result {
                Some(result) if known => self.known[result] = true,
                _ => needed.extend(read.iter().filter(|&&v| self.early(v) || self.known[v])),
            }
        }
        for &result in f.results() {
            let value = base(f, result);
            if self.known[value] {
                needed.insert(value);
            }
        }
        self.sinks = needed.into_iter().filter(|&v| !Crossing::constant(f, v)).collect();
        self.sinks.sort_unstable();
        // Kernels make again what takes an instruction or two, from what is likely to be memory.
        let mut seen: FxHashSet<ValueId> = FxHashSet::default();
        let mut stack = self.sinks.clone();
        while let Some(value) = stack.pop() {
            let there = self.lasting[value] && self.early(value);
            if there || Crossing::constant(f, value) || !seen.insert(value) {
                continue;
            }
            let stored = memory.contains(&value) || !self.cheap[value] || work(f, value) >= 20;
            if stored && self.early(value) {
                self.now += f.ty(value).bytes();
            } else if let Some(op) = f.defining_op(value) {
                stack.extend(f.ops[op].operands.iter().map(|&v| base(f, v)));
            }
        }
    }

    /// What to keep instead, if that is less.
    fn choose(self, f: &Function) -> Option<Choice> {
        let mut number: SecondaryMap<ValueId, u32> = SecondaryMap::new();
        for (n, &value) in self.values.iter().enumerate() {
            number[value] = n as u32;
        }
        let (mut costs, mut edges, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for &value in &self.values {
            let bytes = f.ty(value).bytes();
            // What would have to be computed earlier than in the source costs a little more.
            let cost = 4 * bytes + u64::from(!self.early(value));
            let lasting = self.lasting[value] && self.early(value) || Crossing::constant(f, value);
            costs.push(Some(if lasting { 0 } else { cost }));
            let n = number[value];
            if self.cheap[value] {
                let op = f.defining_op(value).expect("an op");
                if self.early(value) || self.known[value] {
                    let operands = f.ops[op].operands.iter().map(|&v| (number[base(f, v)], n));
                    edges.extend(operands);
                }
            } else if !lasting && self.early(value) {
                sources.push(n);
            }
        }
        let sinks: Vec<u32> = self.sinks.iter().map(|&v| number[v]).collect();
        let cut = flow::cut(&costs, &edges, &sources, &sinks)?;
        let cost: u64 = cut.iter().map(|&n| costs[n as usize].unwrap_or(0)).sum::<u64>() / 4;
        if cost >= self.now || 16 * (self.now - cost) < self.now {
            return None;
        }
        let saved = self.now - cost;
        let kept = cut.into_iter().map(|n| self.values[n as usize]).collect();
        let choice = Choice { crossing: self, kept };
        let (depth, work) = choice.again(f);
        (depth <= MAX_DEPTH && work <= MAX_WORK * saved).then_some(choice)
    }
}

/// The position after which most bytes are live.
fn fullest(
    f: &Function,
    positions: usize,
    values: &[ValueId],
    made: &SecondaryMap<ValueId, Place>,
    last: &SecondaryMap<ValueId, usize>,
) -> Option<usize> {
    let mut change = vec![0i64; positions + 1];
    for &value in values {
        if let Place::At(position) = made[value]
            && last[value] > position
            && !Crossing::constant(f, value)
        {
            change[position] += f.ty(value).bytes() as i64;
            change[last[value]] -= f.ty(value).bytes() as i64;
        }
    }
    let mut live = 0;
    let sums = change[..positions].iter().map(|change| {
        live += change;
        live
    });
    // The first of equal ones.
    let most = sums.enumerate().max_by_key(|&(position, live)| (live, std::cmp::Reverse(position)));
    most.map(|(position, _)| position)
}

/// What computing an element costs, its operands apart.
pub(super) fn work(f: &Function, value: ValueId) -> u64 {
    let Some(op) = f.defining_op(value) else { return 0 };
    match ops::lower(f, op) {
        Lowering::Elements { cost: ElementCost::Expensive, .. } => 20,
        Lowering::Elements { cost: ElementCost::Cheap, .. } => 1,
        _ => 0,
    }
}

/// What is kept across the point.
struct Choice {
    crossing: Crossing,
    kept: FxHashSet<ValueId>,
}

impl Choice {
    /// Whether a value is made again for late readers.
    fn is_made_again(&self, f: &Function, value: ValueId) -> bool {
        let crossing = &self.crossing;
        matches!(f.values[value].def, ValueDef::Result(..))
            && crossing.early(value)
            && crossing.cheap[value]
            && !crossing.lasting[value]
            && !self.kept.contains(&value)
            && !Crossing::constant(f, value)
    }

    /// The longest chain of ops that are run again, and what they all cost.
    fn again(&self, f: &Function) -> (u32, u64) {
        let mut depth: FxHashMap<ValueId, u32> = FxHashMap::default();
        let mut late: FxHashSet<ValueId> = self.crossing.sinks.iter().copied().collect();
        let mut total = 0;
        // Later values first: what needs an early one is known before it.
        for &value in self.crossing.values.iter().rev() {
            let known = self.crossing.known[value] && !self.kept.contains(&value);
            let again = late.contains(&value) && self.is_made_again(f, value);
            if !known && !again {
                continue;
            }
            let below = depth.get(&value).copied().unwrap_or(0) + 1;
            if !known {
                total += work(f, value) * f.ty(value).len();
            }
            let op = f.defining_op(value).expect("an op");
            for &operand in &f.ops[op].operands {
                let operand = base(f, operand);
                late.insert(operand);
                let entry = depth.entry(operand).or_insert(0);
                *entry = below.max(*entry);
            }
        }
        (depth.values().copied().max().unwrap_or(0), total)
    }

    fn apply(self, f: &mut Function) {
        let ops = std::mem::take(&mut f.blocks[f.body].ops);
        let moved = self.moved(f, &ops);
        let mut copies = Copies { made: FxHashMap::default(), position: 0 };
        for (position, &op) in ops.iter().enumerate() {
            copies.position = position;
            if moved.iter().all(|(_, m)| !m.contains(&op)) {
                if position > self.crossing.point {
                    self.replace_reads(f, op, &mut copies);
                }
                let body = f.body;
                f.blocks[body].ops.push(op);
            }
            if let Some(early) = moved.get(&position) {
                let body = f.body;
                f.blocks[body].ops.extend(early);
            }
        }
    }

    /// Late ops that are run early, each after the position of what it needs.
    fn moved(&self, f: &Function, ops: &[OpId]) -> FxHashMap<usize, Vec<OpId>> {
        let mut wanted: FxHashSet<ValueId> =
            self.kept.iter().copied().filter(|&v| !self.crossing.early(v)).collect();
        let mut moved: Vec<OpId> = Vec::new();
        if !wanted.is_empty() {
            for &op in ops[self.crossing.point + 1..].iter().rev() {
                if f.ops[op].results.iter().any(|v| wanted.contains(v)) {
                    moved.push(op);
                    wanted.extend(&f.ops[op].operands);
                }
            }
        }
        let mut at: SecondaryMap<ValueId, usize> = SecondaryMap::new();
        let mut out: FxHashMap<usize, Vec<OpId>> = FxHashMap::default();
        let inside: FxHashSet<OpId> = moved.iter().copied().collect();
        for op in moved.into_iter().rev() {
            let place = |&v: &ValueId| match (f.defining_op(v), self.crossing.made[v]) {
                (Some(op), _) if inside.contains(&op) => at[v],
                (_, Place::At(position)) => position,
                (_, Place::Outside) => 0,
            };
            let position = f.ops[op].operands.iter().map(place).max().unwrap_or(0);
            at[f.ops[op].results[0]] = position;
            out.entry(position).or_default().push(op);
        }
        out
    }

    /// Gives a late op what it reads, made again where it is not kept.
    fn replace_reads(&self, f: &mut Function, op: OpId, copies: &mut Copies) {
        for n in 0..f.ops[op].operands.len() {
            let operand = f.ops[op].operands[n];
            f.ops[op].operands[n] = self.copy(f, operand, copies);
        }
        if f.ops[op].regions.is_empty() {
            return;
        }
        let captured = region::captures(f, op);
        let mut names: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for value in captured {
            let copy = self.copy(f, value, copies);
            if copy != value {
                names.insert(value, copy);
            }
        }
        for region in f.ops[op].regions.clone() {
            loops::rename(f, region, &names);
        }
    }

    fn copy(&self, f: &mut Function, value: ValueId, copies: &mut Copies) -> ValueId {
        let again = match reshaped(f, value) {
            Some(_) => self.is_made_again(f, base(f, value)) && self.crossing.early(value),
            None => self.is_made_again(f, value),
        };
        if !again {
            return value;
        }
        if let Some(&(copy, position)) = copies.made.get(&value)
            && copies.position - position <= NEAR
        {
            return copy;
        }
        let data = f.ops[f.defining_op(value).expect("an op")].clone();
        let operands: Vec<ValueId> =
            data.operands.iter().map(|&v| self.copy(f, v, copies)).collect();
        let types = vec![f.ty(value).clone()];
        let body = f.body;
        let copy = f.push_op(body, data.op, &operands, types, &[], data.location);
        let copy = f.ops[copy].results[0];
        copies.made.insert(value, (copy, copies.position));
        copy
    }
}

/// What has been made again, and where.
struct Copies {
    made: FxHashMap<ValueId, (ValueId, usize)>,
    position: usize,
}

#[cfg(test)]
mod tests {
    use super::Crossing;
    use jaxrs_ir::{Function, Literal, Op, TensorType, interpret, text};

    const LAYERS: usize = 6;

    /// Layers of a contraction and ops that make `%a` of `%z`, and a way back that reads of each
    /// layer what it is given, mixed with what comes from behind.
    fn program(ops: &str, reads: &[(&str, &str)]) -> Function {
        let mut body = String::new();
        let at = |text: &str, layer: usize| {
            let mut out = text.replace('$', &format!("_{layer}"));
            out.push('\n');
            out
        };
        for layer in 0..LAYERS {
            let before = if layer == 0 { "%x".into() } else { format!("%a_{}", layer - 1) };
            body += &at(
                &format!(
                    "%z$ = stablehlo.dot_general {before}, %w, contracting_dims = [1] x [0] :
                       (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
                     {ops}"
                ),
                layer,
            );
        }
        let mut gradient = format!("%a_{}", LAYERS - 1);
        for layer in (0..LAYERS).rev() {
            for (n, (value, ty)) in reads.iter().enumerate() {
                body += &at(
                    &format!(
                        "%r{n}$ = stablehlo.convert {value} : (tensor<8x16x{ty}>) -> tensor<8x16xf32>
                         %g{n}$ = stablehlo.multiply {gradient}, %r{n}$ : tensor<8x16xf32>"
                    ),
                    layer,
                );
                gradient = format!("%g{n}_{layer}");
            }
            body += &at(
                &format!(
                    "%d$ = stablehlo.dot_general {gradient}, %w, contracting_dims = [1] x [1] :
                       (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>"
                ),
                layer,
            );
            gradient = format!("%d_{layer}");
        }
        let source = format!(
            "func.func public @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>)
                 -> tensor<8x16xf32> {{
               %one = stablehlo.constant dense<1.0> : tensor<8x16xf32>
               {body}
               return {gradient} : tensor<8x16xf32>
             }}"
        );
        text::parse(&source, "test").expect("a program").functions[0].clone()
    }

    /// What crosses the fullest point, before and after, in values of a layer; the results are
    /// the same.
    fn check(ops: &str, reads: &[(&str, &str)], before: usize, after: usize) {
        let mut f = program(ops, reads);
        let argument = |rows: u64| {
            let ty = TensorType::new([rows, 16], jaxrs_ir::DType::F32);
            Literal::tabulate(ty, |n| {
                let value = ((n * 37 + rows * 11) % 19) as f32 / 19.0 - 0.45;
                [u64::from(value.to_bits()), 0]
            })
        };
        let arguments = [argument(8), argument(16)];
        let expected = interpret::call(None, &f, &arguments).expect("it runs");
        let now = |f: &Function| {
            let bytes = Crossing::new(f, &[]).expect("ops").now as usize;
            (bytes + 256 * LAYERS) / (512 * LAYERS)
        };
        assert_eq!(now(&f), before, "before {ops}");
        let changed = super::run(&mut f, &[]);
        crate::passes::dce::run(&mut f);
        let text = text::print_function(&f);
        let faults = jaxrs_ir::verify::verify_function(&f, None);
        assert!(faults.is_empty(), "{faults:?}\n{text}");
        assert_eq!(now(&f), after, "after {ops}\n{text}");
        assert_eq!(changed, before != after);
        let got = interpret::call(None, &f, &arguments).expect("it runs");
        assert!(got == expected, "other results\n{text}");
    }

    const TANH: &str = "%t$ = stablehlo.tanh %z$ : tensor<8x16xf32>
        %s$ = stablehlo.subtract %one, %t$ : tensor<8x16xf32>\n";

    #[test]
    fn one_value_of_a_layer_is_kept() {
        let gelu = format!("{TANH} %a$ = stablehlo.multiply %z$, %t$ : tensor<8x16xf32>");
        check(&gelu, &[("%a$", "f32"), ("%s$", "f32"), ("%z$", "f32")], 3, 1);
        let tanh = format!("{TANH} %a$ = stablehlo.add %t$, %t$ : tensor<8x16xf32>");
        check(&tanh, &[("%s$", "f32")], 1, 1);
        check(&tanh, &[("%s$", "f32"), ("%a$", "f32")], 2, 1);
    }

    #[test]
    fn a_sum_of_contractions_is_kept_rather_than_they() {
        let residual = format!("{TANH} %a$ = stablehlo.add %t$, %one : tensor<8x16xf32>");
        check(&residual, &[("%a$", "f32")], 1, 1);
    }

    #[test]
    fn readers_share_what_is_made_again() {
        let gelu = format!("{TANH} %a$ = stablehlo.multiply %z$, %t$ : tensor<8x16xf32>");
        let mut f = program(&gelu, &[("%a$", "f32"), ("%s$", "f32")]);
        assert!(super::run(&mut f, &[]));
        let tanh = |f: &Function| {
            let ops = f.blocks[f.body].ops.iter();
            ops.filter(
                |&&op| matches!(&f.ops[op].op, Op::Elementwise(e) if e.name() == "stablehlo.tanh"),
            )
            .count()
        };
        // About one more of each layer, shared by its readers.
        assert!((2 * LAYERS - 2..=2 * LAYERS + 2).contains(&tanh(&f)), "{}", tanh(&f));
    }
}
