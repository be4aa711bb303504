//! Loops of cheap iterations: what is written in place and kept in registers gives what calls
//! through memory give.
//!
//! Programs of one loop are made by chance and planned, so that values share places as they do in
//! earnest. With a hook every step is called and every value is in memory.

use cranelift_entity::PrimaryMap;
use jaxrs_cpu::Options;
use jaxrs_kernel::builder::{LoopOptions, parallel};
use jaxrs_kernel::kernel::Access;
use jaxrs_kernel::program::{
    Branch, Bytes, Case, Donation, Parameter, Program, Scratch, Sharing, Step, StepId, StepKind,
    Storage, Value, ValueId, While,
};
use jaxrs_kernel::{
    Affine, BinaryOp, CastOp, Compare, CompareKind, DType, Kernel, KernelBuilder, ParamId, Reg,
    RegType, UnaryOp, access,
};
use jaxrs_plan::Planned;
use jaxrs_runtime::{Argument, Buffer, call};
use std::sync::Arc;

/// Elements of a vector whose kernels are called, and of one whose kernels are not.
const LONG: u64 = 37;
const SHORT: u64 = 3;

struct Make {
    program: Program,
    steps: u32,
    state: u64,
}

/// The values that may be used, by kind.
#[derive(Clone, Default)]
struct Known {
    ints: Vec<ValueId>,
    halves: Vec<ValueId>,
    longs: Vec<ValueId>,
    shorts: Vec<ValueId>,
}

impl Make {
    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (self.state >> 33) as usize % limit
    }

    fn pick(&mut self, values: &[ValueId]) -> ValueId {
        values[self.below(values.len())]
    }

    fn value(&mut self, dtype: DType, len: u64, storage: Storage) -> ValueId {
        let name = format!("v{}", self.program.values.len());
        let shape = if len == 1 { vec![] } else { vec![len] };
        let op = "op".into();
        self.program.values.push(Value { name, op, dtype, shape, storage, source: None })
    }

    fn own(&mut self, dtype: DType, len: u64) -> ValueId {
        self.value(dtype, len, Storage::Own)
    }

    fn like(&mut self, other: ValueId) -> ValueId {
        let data = &self.program.values[other];
        let (dtype, len) = (data.dtype, data.len());
        self.own(dtype, len)
    }

    /// One element of a value.
    fn view(&mut self, dtype: DType, of: ValueId, offset: u64) -> ValueId {
        let (base, within) = match self.program.values[of].storage {
            Storage::View { base, offset } => (base, offset.0),
            _ => (of, 0),
        };
        self.value(dtype, 1, Storage::View { base, offset: Bytes(within + offset) })
    }

    fn step(&mut self, kind: StepKind, operands: &[ValueId], results: &[ValueId]) -> Step {
        self.steps += 1;
        Step {
            id: StepId::from_u32(self.steps - 1),
            kind,
            operands: operands.to_vec(),
            results: results.to_vec(),
            updates: Vec::new(),
            sharing: vec![vec![Sharing::Never; operands.len()]; results.len()],
            scratch: Scratch::default(),
            origin: None,
        }
    }

    /// A step of a kernel over the values' buffers.
    fn kernel(
        &mut self,
        operands: &[ValueId],
        results: &[ValueId],
        build: impl FnOnce(&mut KernelBuilder, &[ParamId]),
    ) -> Step {
        let mut b = KernelBuilder::new("kernel");
        let mut params = Vec::new();
        for (position, value) in operands.iter().chain(results).enumerate() {
            let data = &self.program.values[*value];
            let access = if position < operands.len() { Access::Read } else { Access::Write };
            params.push(b.param(data.dtype, data.len(), access));
        }
        build(&mut b, &params);
        let kernel: Kernel = b.finish();
        let sharing = access::sharing(&kernel, operands.len());
        let id = self.program.kernels.push(kernel);
        let mut step = self.step(StepKind::Kernel(id), operands, results);
        step.sharing = sharing;
        step
    }

    fn binary(&mut self, known: &mut Known) -> Step {
        use BinaryOp as B;
        let ops = [B::Add, B::Sub, B::Mul, B::DivS, B::RemS, B::MinS, B::Xor];
        let op = ops[self.below(ops.len())];
        let (a, mut b) = (self.pick(&known.ints), self.pick(&known.ints));
        if self.below(4) == 0 {
            // As the other type of its width.
            b = self.view(DType::U32, b, 0);
        }
        let constant = [-7, -1, 0, 1, 2, 3, 8, 10, 256, 1000][self.below(10)];
        let by_constant = self.below(2) == 0;
        let out = self.own(DType::I32, 1);
        let step = self.kernel(&[a, b], &[out], |k, p| {
            let (x, y) = (load(k, p[0]), load(k, p[1]));
            let c = k.int(RegType::I32, constant);
            let value = k.binary(op, x, if by_constant { c } else { y });
            let value = k.binary(BinaryOp::Xor, value, y);
            k.store(p[2], 0.into(), value);
        });
        known.ints.push(out);
        step
    }

    /// An int to `bf16`, or one back and on.
    fn half(&mut self, known: &mut Known) -> Step {
        let (a, out) = (self.pick(&known.ints), self.own(DType::BF16, 1));
        let h = self.pick(&known.halves);
        let back = self.own(DType::I32, 1);
        let step = self.kernel(&[a, h], &[out, back], |k, p| {
            let x = load(k, p[0]);
            let x = k.cast(CastOp::SignedToFloat, x, RegType::F32);
            let y = load(k, p[1]);
            let third = k.f32(0.3);
            let sum = k.fma(x, third, y);
            let sum = k.unary(UnaryOp::RoundBf16, sum);
            k.store(p[2], 0.into(), sum);
            let int = k.cast(CastOp::FloatToSigned, y, RegType::I32);
            k.store(p[3], 0.into(), int);
        });
        known.halves.push(out);
        known.ints.push(back);
        step
    }

    /// A vector and a scalar.
    fn vector(&mut self, known: &mut Known) -> Step {
        let long = self.below(2) == 0;
        let len = if long { LONG } else { SHORT };
        let a = self.pick(if long { &known.longs } else { &known.shorts });
        let (s, out) = (self.pick(&known.ints), self.own(DType::I32, len));
        let step = self.kernel(&[a, s], &[out], |k, p| {
            k.set_range(len);
            let options = LoopOptions { ranged: true, split: false };
            parallel(k, len as i64, options, |k, i| {
                let (x, y) = (k.load(p[0], i.clone()), load(k, p[1]));
                let value = k.binary(BinaryOp::Add, x, y);
                k.store(p[2], i.clone(), value);
            });
        });
        (if long { &mut known.longs } else { &mut known.shorts }).push(out);
        step
    }

    /// A scalar that a called kernel makes.
    fn sum(&mut self, known: &mut Known) -> Step {
        let (a, out) = (self.pick(&known.longs), self.own(DType::I32, 1));
        let step = self.kernel(&[a], &[out], |k, p| {
            parallel(k, LONG as i64, LoopOptions::default(), |k, i| {
                let x = k.load(p[0], i.clone());
                let i = k.index_value(i);
                let last = k.int(RegType::I64, LONG as i64 - 1);
                let is_last = k.compare(Compare::Eq, CompareKind::Signed, i, last);
                k.open_if(is_last);
                k.store(p[1], 0.into(), x);
                k.open_else(&[]);
                k.close_if(&[]);
            });
        });
        known.ints.push(out);
        step
    }

    /// One element read, or written in place.
    fn element(&mut self, known: &mut Known) -> Step {
        let (v, at) = (self.pick(&known.longs), self.pick(&known.ints));
        let index = |k: &mut KernelBuilder, p| -> Affine {
            let at = load(k, p);
            let at = k.cast(CastOp::SignExtend, at, RegType::I64);
            k.clamp_index(at, 0, LONG as i64 - 1)
        };
        if self.below(2) == 0 {
            let out = self.own(DType::I32, 1);
            let step = self.kernel(&[v, at], &[out], |k, p| {
                let at = index(k, p[1]);
                let x = k.load(p[0], at);
                k.store(p[2], 0.into(), x);
            });
            known.ints.push(out);
            return step;
        }
        let (x, out) = (self.pick(&known.ints), self.own(DType::I32, LONG));
        let mut step = self.kernel(&[v, at, x], &[out], |k, p| {
            let (at, x) = (index(k, p[1]), load(k, p[2]));
            k.store(p[3], at, x);
        });
        step.updates = vec![(0, 0)];
        known.longs.push(out);
        step
    }

    /// A one-element view, of a scalar or into a vector, or a copy.
    fn other(&mut self, known: &mut Known) -> Option<Step> {
        if self.below(2) == 0 {
            let (from, offset) = if self.below(2) == 0 {
                (self.pick(&known.ints), 0)
            } else {
                (self.pick(&known.longs), self.below(LONG as usize) as u64)
            };
            known.ints.push(self.view(DType::I32, from, 4 * offset));
            return None;
        }
        let from = self.pick(&known.ints);
        let to = self.like(from);
        known.ints.push(to);
        Some(self.step(StepKind::Copy, &[from], &[to]))
    }

    fn case(&mut self, known: &mut Known, depth: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let count = 1 + self.below(4);
        let mut selector = self.pick(&known.ints);
        if count == 2 && self.below(2) == 0 {
            let flag = self.own(DType::I1, 1);
            steps.push(self.kernel(&[selector], &[flag], |k, p| {
                let (x, c) = (load(k, p[0]), k.int(RegType::I32, 5));
                let value = k.compare(Compare::Lt, CompareKind::Signed, x, c);
                k.store(p[1], 0.into(), value);
            }));
            selector = flag;
        }
        let branches = (0..count)
            .map(|_| {
                let mut inside = known.clone();
                let steps = self.list(&mut inside, 3, depth);
                let results = vec![self.pick(&inside.ints), self.pick(&inside.longs)];
                Branch { steps, results }
            })
            .collect();
        let results = [self.own(DType::I32, 1), self.own(DType::I32, LONG)];
        steps.push(self.step(StepKind::Case(Box::new(Case { branches })), &[selector], &results));
        known.ints.push(results[0]);
        known.longs.push(results[1]);
        steps
    }

    /// A loop of a few iterations, its carries in part taken over and swapped.
    fn loop_(&mut self, known: &mut Known, depth: u32) -> Vec<Step> {
        let mut zero = self.own(DType::I32, 1);
        let start = self.kernel(&[], &[zero], |k, p| {
            let value = k.int(RegType::I32, 0);
            k.store(p[0], 0.into(), value);
        });
        let mut steps = vec![start];
        if self.below(3) == 0 {
            zero = self.program.parameters[0].value;
            steps.clear();
        }
        let mut inits = vec![zero];
        inits.extend(
            [&known.ints, &known.ints, &known.halves].map(|v| v[self.state as usize % v.len()]),
        );
        inits.extend([self.pick(&known.longs), self.pick(&known.shorts)]);
        let carries: Vec<ValueId> = inits.iter().map(|&v| self.like(v)).collect();
        let condition_value = self.own(DType::I1, 1);
        let trips = self.below(5) as i64;
        let test = self.kernel(&[carries[0]], &[condition_value], |k, p| {
            let (x, c) = (load(k, p[0]), k.int(RegType::I32, trips));
            let value = k.compare(Compare::Lt, CompareKind::Signed, x, c);
            k.store(p[1], 0.into(), value);
        });
        let mut inside = known.clone();
        inside.ints.extend(&carries[..3]);
        inside.halves.push(carries[3]);
        inside.longs.push(carries[4]);
        inside.shorts.push(carries[5]);
        let mut body = self.list(&mut inside, 6, depth);
        let following = self.own(DType::I32, 1);
        body.push(self.kernel(&[carries[0]], &[following], |k, p| {
            let (x, c) = (load(k, p[0]), k.int(RegType::I32, 1));
            let value = k.binary(BinaryOp::Add, x, c);
            k.store(p[1], 0.into(), value);
        }));
        let ints = if self.below(3) == 0 {
            [carries[2], carries[1]]
        } else {
            [self.pick(&inside.ints), self.pick(&inside.ints)]
        };
        let next = vec![
            following,
            ints[0],
            ints[1],
            self.pick(&inside.halves),
            self.pick(&inside.longs),
            self.pick(&inside.shorts),
        ];
        let results: Vec<ValueId> = inits.iter().map(|&v| self.like(v)).collect();
        let inner = While { carries, condition: vec![test], condition_value, body, next };
        steps.push(self.step(StepKind::While(Box::new(inner)), &inits, &results));
        known.ints.extend(&results[..3]);
        known.halves.push(results[3]);
        known.longs.push(results[4]);
        known.shorts.push(results[5]);
        steps
    }

    fn list(&mut self, known: &mut Known, count: usize, depth: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..count {
            match self.below(if depth > 0 { 9 } else { 7 }) {
                0 | 1 => steps.push(self.binary(known)),
                2 => steps.push(self.half(known)),
                3 => steps.push(self.vector(known)),
                4 => steps.push(self.sum(known)),
                5 => steps.push(self.element(known)),
                6 => steps.extend(self.other(known)),
                7 => steps.extend(self.case(known, depth - 1)),
                _ => steps.extend(self.loop_(known, depth - 1)),
            }
        }
        steps
    }
}

fn load(k: &mut KernelBuilder, param: ParamId) -> Reg {
    k.load(param, 0.into())
}

/// A planned program; its arguments are an int, a `bf16`, a long and a short vector.
fn program(seed: u64) -> Planned {
    let program = Program {
        name: "loops".into(),
        values: PrimaryMap::new(),
        kernels: PrimaryMap::new(),
        constants: PrimaryMap::new(),
        parameters: Vec::new(),
        results: Vec::new(),
        body: Vec::new(),
    };
    let mut make = Make { program, steps: 0, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
    let constant = make.program.constants.push(11i32.to_le_bytes().to_vec());
    let mut known = Known::default();
    let kinds = [(DType::I32, 1), (DType::BF16, 1), (DType::I32, LONG), (DType::I32, SHORT)];
    for (index, (dtype, len)) in kinds.into_iter().enumerate() {
        let value = make.value(dtype, len, Storage::Parameter(index as u32));
        let donation =
            if make.below(2) == 0 { Donation::Kept } else { Donation::Donated { preferred: None } };
        make.program.parameters.push(Parameter { value, donation });
        [&mut known.ints, &mut known.halves, &mut known.longs, &mut known.shorts][index]
            .push(value);
    }
    known.ints.push(make.value(DType::I32, 1, Storage::Constant(constant)));
    let mut body = make.list(&mut known, 2, 0);
    body.extend(make.loop_(&mut known, 2));
    body.extend(make.list(&mut known, 2, 0));
    make.program.body = body;
    let last = |values: &[ValueId]| *values.last().expect("some value");
    make.program.results =
        [&known.ints, &known.halves, &known.longs, &known.shorts].map(|v| last(v)).to_vec();
    let options = jaxrs_plan::Options { validate: true, ..Default::default() };
    jaxrs_plan::plan(make.program, &options).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

fn results(planned: &Planned, options: &Options) -> Vec<Vec<u8>> {
    let executable = jaxrs_cpu::compile(planned, options).expect("code");
    let ints = |count: u64| (0..count).flat_map(|i| (i as i32 * 7 - 5).to_le_bytes()).collect();
    let arguments: [Vec<u8>; 4] = [ints(1), vec![0x20, 0x41], ints(LONG), ints(SHORT)];
    let buffers: Vec<Buffer> =
        arguments.iter().map(|bytes| Buffer::from_bytes(bytes).expect("memory")).collect();
    let (results, _) =
        call(&executable, buffers.iter().map(Argument::Borrowed).collect()).expect("a run");
    results.iter().map(|buffer| buffer.as_bytes().to_vec()).collect()
}

#[test]
fn registers_hold_what_memory_holds() {
    let cases = if std::env::var_os("JAXRS_LONG_TESTS").is_some() { 20_000 } else { 80 };
    for seed in 0..cases {
        let planned = program(seed);
        let hook: jaxrs_cpu::Hook = Arc::new(|_| {});
        let called = results(&planned, &Options { hook: Some(hook), ..Options::default() });
        for poison in [false, true] {
            let got = results(&planned, &Options { poison, ..Options::default() });
            assert_eq!(got, called, "seed {seed}, poison {poison}: {}", planned.program);
        }
    }
}

#[test]
fn a_loop_calls_no_short_kernel() {
    let planned = program(3);
    let count = |hook| {
        let options = Options { hook, ..Options::default() };
        jaxrs_cpu::listing(&planned, &options).expect("code").functions.len()
    };
    let hook: jaxrs_cpu::Hook = Arc::new(|_| {});
    assert!(count(None) < count(Some(hook)), "{}", planned.program);
}
