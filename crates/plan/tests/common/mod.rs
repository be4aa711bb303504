#![allow(unreachable_pub)]
//! Programs made by hand and by chance.
#![allow(dead_code)]

use cranelift_entity::PrimaryMap;
use jaxrs_kernel::KernelBuilder;
use jaxrs_kernel::dtype::DType;
use jaxrs_kernel::program::{
    Branch, Bytes, Case, Donation, KernelId, Parameter, Program, Scratch, Sharing, Step, StepId,
    StepKind, Storage, Value, ValueId, While,
};

/// Builds a program step by step.
pub struct Build {
    pub program: Program,
    kernel: KernelId,
    steps: u32,
}

impl Default for Build {
    fn default() -> Build {
        let mut program = Program {
            name: "test".into(),
            values: PrimaryMap::new(),
            kernels: PrimaryMap::new(),
            constants: PrimaryMap::new(),
            parameters: Vec::new(),
            results: Vec::new(),
            body: Vec::new(),
        };
        let mut kernel = KernelBuilder::new("k").finish();
        kernel.range = Some(4);
        let kernel = program.kernels.push(kernel);
        Build { program, kernel, steps: 0 }
    }
}

impl Build {
    pub fn value(&mut self, op: &str, len: u64, storage: Storage) -> ValueId {
        let name = format!("{op}.{}", self.program.values.len());
        self.program.values.push(Value {
            name,
            op: op.into(),
            dtype: DType::F32,
            shape: vec![len],
            storage,
            source: None,
        })
    }

    pub fn own(&mut self, len: u64) -> ValueId {
        self.value("own", len, Storage::Own)
    }

    pub fn parameter(&mut self, len: u64, donation: Donation) -> ValueId {
        let i = self.program.parameters.len() as u32;
        let value = self.value("arg", len, Storage::Parameter(i));
        self.program.parameters.push(Parameter { value, donation });
        value
    }

    pub fn kept(&mut self, len: u64) -> ValueId {
        self.parameter(len, Donation::Kept)
    }

    pub fn donated(&mut self, len: u64) -> ValueId {
        self.parameter(len, Donation::Donated { preferred: None })
    }

    pub fn constant(&mut self, len: u64) -> ValueId {
        let id = self.program.constants.push(vec![0; 4 * len as usize]);
        self.value("constant", len, Storage::Constant(id))
    }

    pub fn view(&mut self, base: ValueId, from: u64, len: u64) -> ValueId {
        self.value("view", len, Storage::View { base, offset: Bytes(4 * from) })
    }

    pub fn id(&mut self) -> StepId {
        self.steps += 1;
        StepId::from_u32(self.steps - 1)
    }

    /// A step with one way of sharing for every pair.
    pub fn step(&mut self, operands: &[ValueId], results: &[ValueId], sharing: Sharing) -> Step {
        Step {
            id: self.id(),
            kind: StepKind::Kernel(self.kernel),
            operands: operands.to_vec(),
            results: results.to_vec(),
            updates: Vec::new(),
            sharing: vec![vec![sharing; operands.len()]; results.len()],
            scratch: Scratch::default(),
            origin: None,
        }
    }

    /// Makes a value elementwise from others of its length.
    pub fn elementwise(&mut self, steps: &mut Vec<Step>, operands: &[ValueId]) -> ValueId {
        let len = self.program.values[operands[0]].len();
        let result = self.own(len);
        steps.push(self.step(operands, &[result], Sharing::SameElement));
        result
    }

    /// Makes a value that shares with none.
    pub fn dot(&mut self, steps: &mut Vec<Step>, operands: &[ValueId], len: u64) -> ValueId {
        let result = self.own(len);
        steps.push(self.step(operands, &[result], Sharing::Never));
        result
    }

    /// Updates the first operand.
    pub fn update(&mut self, steps: &mut Vec<Step>, operands: &[ValueId]) -> ValueId {
        let len = self.program.values[operands[0]].len();
        let result = self.own(len);
        let mut step = self.step(operands, &[result], Sharing::Never);
        step.updates = vec![(0, 0)];
        step.sharing[0][0] = Sharing::SameElement;
        steps.push(step);
        result
    }

    /// A loop whose condition reads the first carry.
    pub fn repeat(
        &mut self,
        steps: &mut Vec<Step>,
        init: &[ValueId],
        body: impl FnOnce(&mut Build, &mut Vec<Step>, &[ValueId]) -> Vec<ValueId>,
    ) -> Vec<ValueId> {
        let len = |b: &Build, v: ValueId| b.program.values[v].len();
        let carries: Vec<ValueId> = init.iter().map(|&v| self.own(len(self, v))).collect();
        let mut condition = Vec::new();
        let condition_value = self.dot(&mut condition, &carries[..1], 1);
        let mut inner = Vec::new();
        let next = body(self, &mut inner, &carries);
        let results: Vec<ValueId> = init.iter().map(|&v| self.own(len(self, v))).collect();
        let kind = StepKind::While(Box::new(While {
            carries,
            condition,
            condition_value,
            body: inner,
            next,
        }));
        let step = Step { kind, ..self.step(init, &results, Sharing::Never) };
        steps.push(step);
        results
    }

    pub fn branch(
        &mut self,
        steps: &mut Vec<Step>,
        index: ValueId,
        branches: Vec<(Vec<Step>, Vec<ValueId>)>,
    ) -> Vec<ValueId> {
        let results: Vec<ValueId> =
            branches[0].1.iter().map(|&v| self.own(self.program.values[v].len())).collect();
        let branches =
            branches.into_iter().map(|(steps, results)| Branch { steps, results }).collect();
        let kind = StepKind::Case(Box::new(Case { branches }));
        let step = Step { kind, ..self.step(&[index], &results, Sharing::Never) };
        steps.push(step);
        results
    }

    pub fn finish(mut self, steps: Vec<Step>, results: &[ValueId]) -> Program {
        self.program.body = steps;
        self.program.results = results.to_vec();
        self.program
    }
}

/// Numbers from a seed (xorshift).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

const LENGTHS: [u64; 5] = [0, 1, 16, 100, 256];

/// A random program of about `size` steps.
pub fn random(seed: u64, size: usize) -> Program {
    let mut chance = Chance::new(seed);
    let mut build = Build::default();
    let mut known = Vec::new();
    for _ in 0..1 + chance.below(5) {
        let len = LENGTHS[chance.below(5)];
        let donation = match chance.below(3) {
            0 => Donation::Kept,
            1 => Donation::Donated { preferred: None },
            _ => Donation::Donated { preferred: Some(chance.below(4) as u32) },
        };
        known.push(build.parameter(len, donation));
    }
    known.push(build.constant(16));
    known.push(build.constant(1));
    let mut steps = Vec::new();
    list(&mut build, &mut chance, &mut known, &mut steps, size, 0);
    let count = 1 + chance.below(5);
    let late = known.len().saturating_sub(8);
    let results: Vec<ValueId> = (0..count)
        .map(|_| {
            let from = if chance.below(3) == 0 { 0 } else { late };
            known[from + chance.below(known.len() - from)]
        })
        .collect();
    build.finish(steps, &results)
}

fn pick(chance: &mut Chance, known: &[ValueId]) -> ValueId {
    // Mostly late values, so that chains are long.
    let from = if chance.below(3) == 0 { 0 } else { known.len().saturating_sub(5) };
    known[from + chance.below(known.len() - from)]
}

fn pick_len(build: &Build, chance: &mut Chance, known: &[ValueId], len: u64) -> Option<ValueId> {
    let fitting: Vec<ValueId> =
        known.iter().copied().filter(|&v| build.program.values[v].len() == len).collect();
    (!fitting.is_empty()).then(|| pick(chance, &fitting))
}

fn list(
    build: &mut Build,
    chance: &mut Chance,
    known: &mut Vec<ValueId>,
    steps: &mut Vec<Step>,
    size: usize,
    depth: usize,
) {
    for _ in 0..size {
        let value = pick(chance, known);
        let len = build.program.values[value].len();
        match chance.below(if depth < 2 { 14 } else { 11 }) {
            0..=2 => {
                let other = pick_len(build, chance, known, len).unwrap_or(value);
                known.push(build.elementwise(steps, &[value, other]));
            }
            3 | 4 => {
                let other = pick(chance, known);
                let length = LENGTHS[chance.below(5)];
                known.push(build.dot(steps, &[value, other], length));
                let scratch = Bytes(64 * chance.below(4) as u64);
                steps.last_mut().expect("a step").scratch = Scratch { per_thread: scratch };
            }
            5 | 6 => {
                let other = pick(chance, known);
                known.push(build.update(steps, &[value, other]));
                if chance.below(4) == 0 {
                    // Reads the operand elsewhere, too, than where it writes.
                    steps.last_mut().expect("a step").sharing[0][0] = Sharing::Never;
                }
            }
            7 => {
                // Two results with a row of sharing each.
                let operands = [value, pick(chance, known), pick(chance, known)];
                let kinds = [
                    Sharing::Never,
                    Sharing::Ordered,
                    Sharing::SameElement,
                    Sharing::AfterFullRead,
                ];
                let results = [build.own(len), build.own(LENGTHS[chance.below(5)])];
                let mut step = build.step(&operands, &results, Sharing::Never);
                for row in &mut step.sharing {
                    for cell in row {
                        *cell = kinds[chance.below(4)];
                    }
                }
                steps.push(step);
                known.extend(results);
            }
            8 => {
                if !matches!(build.program.values[value].storage, Storage::View { .. }) && len > 0 {
                    let from = 16 * chance.below(1 + len as usize / 32) as u64;
                    let part = if chance.below(2) == 0 { len } else { (len - from).min(16) };
                    let from = if part == len { 0 } else { from };
                    known.push(build.view(value, from, part));
                }
            }
            9 => {
                let result = build.own(len);
                let mut step = build.step(&[value], &[result], Sharing::AfterFullRead);
                if chance.below(2) == 0 {
                    step.kind = StepKind::Copy;
                }
                steps.push(step);
                known.push(result);
            }
            10 => {
                // Written in two parts.
                let whole = build.own(64);
                for from in [0, 32] {
                    let part = build.view(whole, from, 32);
                    let operand = pick(chance, known);
                    let step = build.step(&[operand], &[part], Sharing::Never);
                    steps.push(step);
                }
                known.push(whole);
            }
            11 | 12 => {
                let init: Vec<ValueId> =
                    (0..1 + chance.below(4)).map(|_| pick(chance, known)).collect();
                let mut inner = known.clone();
                let results = build.repeat(steps, &init, |build, body, carries| {
                    inner.extend(carries);
                    let before = inner.len();
                    let count = 1 + chance.below(5);
                    list(build, chance, &mut inner, body, count, depth + 1);
                    let made = inner[before..].to_vec();
                    carries
                        .iter()
                        .map(|&c| {
                            let len = build.program.values[c].len();
                            let from = match chance.below(6) {
                                0 => &inner[..],
                                1 => carries,
                                2 => return c,
                                _ => &made[..],
                            };
                            pick_len(build, chance, from, len).unwrap_or(c)
                        })
                        .collect()
                });
                known.extend(results);
            }
            _ => {
                let index = pick(chance, known);
                let shape: Vec<u64> = (0..1 + chance.below(3))
                    .map(|_| build.program.values[pick(chance, known)].len())
                    .collect();
                let mut branches = Vec::new();
                for _ in 0..1 + chance.below(3) {
                    let mut inner = known.clone();
                    let mut body = Vec::new();
                    let count = chance.below(4);
                    list(build, chance, &mut inner, &mut body, count, depth + 1);
                    let results = shape
                        .iter()
                        .map(|&len| pick_len(build, chance, &inner, len).expect("a value"))
                        .collect();
                    branches.push((body, results));
                }
                known.extend(build.branch(steps, index, branches));
            }
        }
    }
}
