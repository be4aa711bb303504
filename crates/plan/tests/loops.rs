//! Loops whose carries change places: the planned program, run in its planned memory, computes what
//! the loop means, and an unrolled loop does not copy.

mod common;

use common::Build;
use jaxrs_kernel::affine::Affine;
use jaxrs_kernel::builder::{LoopOptions, parallel};
use jaxrs_kernel::dtype::{DType, RegType};
use jaxrs_kernel::interp::{self, Place};
use jaxrs_kernel::program::{
    Donation, KernelId, Sharing, Step, StepKind, Storage, Value, ValueId, While,
};
use jaxrs_kernel::{Access, BinaryOp, Compare, CompareKind, KernelBuilder};
use jaxrs_plan::{Options, Planned, Region, plan};
use rustc_hash::FxHashMap;

const LEN: u64 = 512;

/// Runs a planned program; gives the results' bytes.
fn run(planned: &Planned, arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let program = &planned.program;
    let mut regions: FxHashMap<Region, usize> = FxHashMap::default();
    let mut buffers = vec![vec![0xee; planned.arena.0 as usize]];
    regions.insert(Region::Arena, 0);
    for (i, bytes) in arguments.iter().enumerate() {
        regions.insert(Region::Argument(i as u32), buffers.len());
        buffers.push(bytes.clone());
    }
    for (i, &value) in program.results.iter().enumerate() {
        regions.insert(Region::Output(i as u32), buffers.len());
        buffers.push(vec![0xee; program.values[value].bytes().0 as usize]);
    }
    for (id, bytes) in &program.constants {
        regions.insert(Region::Constant(id), buffers.len());
        buffers.push(bytes.clone());
    }
    let mut machine = Machine { planned, regions, buffers };
    machine.list(&program.body);
    planned.results.iter().map(|r| machine.buffers[machine.regions[r]].clone()).collect()
}

struct Machine<'a> {
    planned: &'a Planned,
    regions: FxHashMap<Region, usize>,
    buffers: Vec<Vec<u8>>,
}

impl Machine<'_> {
    fn place(&self, value: ValueId) -> Place {
        let place = self.planned.places[value].expect("a place");
        Place { buffer: self.regions[&place.region], offset: place.offset.0 as i64 }
    }

    fn bytes(&self, value: ValueId) -> &[u8] {
        let place = self.place(value);
        let size = self.planned.program.values[value].bytes().0 as usize;
        &self.buffers[place.buffer][place.offset as usize..][..size]
    }

    fn list(&mut self, steps: &[Step]) {
        for step in steps {
            match &step.kind {
                StepKind::Kernel(kernel) => {
                    let kernel = &self.planned.program.kernels[*kernel];
                    let values = step.operands.iter().chain(&step.results);
                    let places: Vec<Place> = values.map(|&v| self.place(v)).collect();
                    let range = kernel.range.unwrap_or(0) as i64;
                    interp::run_at(kernel, &mut self.buffers, &places, 0, range);
                }
                StepKind::Copy => {
                    let bytes = self.bytes(step.operands[0]).to_vec();
                    let to = self.place(step.results[0]);
                    self.buffers[to.buffer][to.offset as usize..][..bytes.len()]
                        .copy_from_slice(&bytes);
                }
                StepKind::While(inner) => loop {
                    self.list(&inner.condition);
                    if self.bytes(inner.condition_value)[0] == 0 {
                        break;
                    }
                    self.list(&inner.body);
                },
                StepKind::Case(inner) => {
                    let index = self.bytes(step.operands[0])[0];
                    let branch = usize::from(index == 0);
                    self.list(&inner.branches[branch].steps);
                }
                StepKind::Library(_) | StepKind::Tile(_) => unreachable!("not in these tests"),
            }
        }
    }
}

/// A scalar kernel `out = f(in)` of `i32`.
fn scalar(
    build: &mut Build,
    out: DType,
    inputs: usize,
    f: impl FnOnce(&mut KernelBuilder, Vec<jaxrs_kernel::Reg>) -> jaxrs_kernel::Reg,
) -> KernelId {
    let mut b = KernelBuilder::new("scalar");
    let params: Vec<_> = (0..inputs).map(|_| b.param(DType::I32, 1, Access::Read)).collect();
    let result = b.param(out, 1, Access::Write);
    let regs = params.iter().map(|&p| b.load(p, Affine::constant(0))).collect();
    let value = f(&mut b, regs);
    b.store(result, Affine::constant(0), value);
    build.program.kernels.push(b.finish())
}

/// `out[i] = a[i] * 2 - b[i]`; the second operand may come from another element, `shift` ahead.
fn combine(build: &mut Build, shift: bool) -> KernelId {
    let mut b = KernelBuilder::new("combine");
    let [x, y] = [0, 1].map(|_| b.param(DType::F32, LEN, Access::Read));
    let out = b.param(DType::F32, LEN, Access::Write);
    b.set_range(LEN);
    parallel(&mut b, LEN as i64, LoopOptions { ranged: true, split: false }, |b, i| {
        let first = b.load(x, i.clone());
        // The last element stands for its own neighbour, from the other end.
        let at = if shift { i.scale(-1).offset(LEN as i64 - 1) } else { i.clone() };
        let second = b.load(y, at);
        let two = b.f32(2.0);
        let twice = b.binary(BinaryOp::Mul, first, two);
        let value = b.binary(BinaryOp::Sub, twice, second);
        b.store(out, i.clone(), value);
    });
    build.program.kernels.push(b.finish())
}

fn typed(build: &mut Build, op: &str, dtype: DType, shape: Vec<u64>, storage: Storage) -> ValueId {
    let name = format!("{op}.{}", build.program.values.len());
    build.program.values.push(Value { name, op: op.into(), dtype, shape, storage, source: None })
}

fn step(
    build: &mut Build,
    kernel: KernelId,
    operands: &[ValueId],
    result: ValueId,
    sharing: Sharing,
) -> Step {
    let step = build.step(operands, &[result], sharing);
    Step { kind: StepKind::Kernel(kernel), ..step }
}

/// How the carries of the loop change: (previous, current), given the kernel.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// `(b, 2b - a)`, element by element.
    Rotate,
    /// `(2a - reversed b, b)`, which cannot run in place.
    Fresh,
    /// `(b, a)`.
    Swap,
}

/// Plans the loop with a bound that is known, or an argument; returns the plan.
fn wave(shape: Shape, iterations: i32, known: bool, donation: Donation) -> Planned {
    let mut build = Build::default();
    let a = build.parameter(LEN, donation);
    let b = build.parameter(LEN, donation);
    let limit = typed(&mut build, "arg", DType::I32, vec![], Storage::Parameter(2));
    build
        .program
        .parameters
        .push(jaxrs_kernel::program::Parameter { value: limit, donation: Donation::Kept });
    let int = |build: &mut Build, op| typed(build, op, DType::I32, vec![], Storage::Own);
    let zero = int(&mut build, "zero");
    let fill = scalar(&mut build, DType::I32, 0, |b, _| b.int(RegType::I32, 0));
    let mut steps = vec![step(&mut build, fill, &[], zero, Sharing::Never)];
    let counter = int(&mut build, "counter");
    let carries = [counter, build.own(LEN), build.own(LEN)];
    let flag = typed(&mut build, "flag", DType::I1, vec![], Storage::Own);
    let test = scalar(&mut build, DType::I1, if known { 1 } else { 2 }, |b, regs| {
        let bound = if known { b.int(RegType::I32, i64::from(iterations)) } else { regs[1] };
        b.compare(Compare::Lt, CompareKind::Signed, regs[0], bound)
    });
    let operands = if known { vec![counter] } else { vec![counter, limit] };
    let condition = vec![step(&mut build, test, &operands, flag, Sharing::AfterFullRead)];
    let next_counter = int(&mut build, "next");
    let add = scalar(&mut build, DType::I32, 1, |b, regs| {
        let one = b.int(RegType::I32, 1);
        b.binary(BinaryOp::Add, regs[0], one)
    });
    let mut body = vec![step(&mut build, add, &[counter], next_counter, Sharing::AfterFullRead)];
    let (x, y) = (carries[1], carries[2]);
    let next = match shape {
        Shape::Rotate => {
            let new = build.own(LEN);
            let kernel = combine(&mut build, false);
            body.push(step(&mut build, kernel, &[y, x], new, Sharing::SameElement));
            vec![next_counter, y, new]
        }
        Shape::Fresh => {
            let new = build.own(LEN);
            let kernel = combine(&mut build, true);
            let mut fresh = step(&mut build, kernel, &[x, x], new, Sharing::Never);
            fresh.sharing = vec![vec![Sharing::SameElement, Sharing::Never]];
            body.push(fresh);
            vec![next_counter, new, y]
        }
        Shape::Swap => vec![next_counter, y, x],
    };
    let results = [int(&mut build, "last"), build.own(LEN), build.own(LEN)];
    let inner = While { carries: carries.to_vec(), condition, condition_value: flag, body, next };
    let repeat = build.step(&[zero, a, b], &results, Sharing::Never);
    steps.push(Step { kind: StepKind::While(Box::new(inner)), ..repeat });
    let program = build.finish(steps, &results);
    plan(program, &Options { validate: true, ..Options::default() }).expect("a plan")
}

fn expected(shape: Shape, iterations: i32) -> (Vec<f32>, Vec<f32>) {
    let mut a: Vec<f32> = (0..LEN).map(|i| i as f32).collect();
    let mut b: Vec<f32> = (0..LEN).map(|i| (i * i % 97) as f32).collect();
    for _ in 0..iterations {
        match shape {
            Shape::Rotate => {
                let new = a.iter().zip(&b).map(|(a, b)| b * 2.0 - a).collect();
                a = std::mem::replace(&mut b, new);
            }
            Shape::Fresh => {
                a = (0..a.len()).map(|i| a[i] * 2.0 - a[a.len() - 1 - i]).collect();
            }
            Shape::Swap => std::mem::swap(&mut a, &mut b),
        }
    }
    (a, b)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|c| f32::from_le_bytes(c.try_into().expect("four bytes"))).collect()
}

fn bytes(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn loops_mean_the_same() {
    for shape in [Shape::Rotate, Shape::Fresh, Shape::Swap] {
        for iterations in [0, 1, 2, 3, 4, 5, 8, 9] {
            let donated = Donation::Donated { preferred: None };
            let ways = [(true, donated), (false, donated), (true, Donation::Kept)];
            for (known, donation) in ways {
                let planned = wave(shape, iterations, known, donation);
                let (a, b) = expected(shape, 0);
                let arguments = [bytes(a), bytes(b), iterations.to_le_bytes().to_vec()];
                let results = run(&planned, &arguments);
                let (a, b) = expected(shape, iterations);
                assert_eq!(results[0], iterations.to_le_bytes());
                assert_eq!(floats(&results[1]), a, "{iterations} iterations, known: {known}");
                assert_eq!(floats(&results[2]), b, "{iterations} iterations, known: {known}");
            }
        }
    }
}

#[test]
fn known_loops_do_not_copy() {
    for shape in [Shape::Rotate, Shape::Fresh, Shape::Swap] {
        for iterations in [8, 9] {
            let planned = wave(shape, iterations, true, Donation::Donated { preferred: None });
            let copied: u64 = planned.notes.copies.iter().map(|c| c.bytes.0).sum();
            assert_eq!(copied, 0, "{iterations} iterations: {:?}", planned.notes.copies);
            let room = if shape == Shape::Fresh { 4 * LEN } else { 0 };
            assert!(
                planned.arena.0 <= room + 256,
                "{} bytes of arena\n{}\n{}",
                planned.arena.0,
                planned.program,
                jaxrs_plan::report::Report::new(&planned, "x").text(true)
            );
        }
    }
}
