//! Planned programs end to end: steps of every kind, donation, code memory.

use cranelift_entity::{PrimaryMap, SecondaryMap};
use jaxrs_cpu::Options;
use jaxrs_kernel::builder::{LoopOptions, parallel};
use jaxrs_kernel::kernel::Access;
use jaxrs_kernel::program::{
    Branch, Bytes, Case, Donation, Parameter, Program, Scratch, Sharing, Step, StepId, StepKind,
    Storage, Tile, Value, ValueId, While,
};
use jaxrs_kernel::{Affine, BinaryOp, Compare, CompareKind, DType, Kernel, KernelBuilder, RegType};
use jaxrs_plan::{Place, Planned, Region};
use jaxrs_runtime::{Argument, Buffer, call};
use rustc_hash::FxHashMap;

/// Builds planned programs by hand.
struct Plan {
    planned: Planned,
    steps: u32,
}

impl Plan {
    fn new(threads: u32) -> Plan {
        let program = Program {
            name: "test".into(),
            values: PrimaryMap::new(),
            kernels: PrimaryMap::new(),
            constants: PrimaryMap::new(),
            parameters: Vec::new(),
            results: Vec::new(),
            body: Vec::new(),
        };
        let planned = Planned {
            program,
            places: SecondaryMap::new(),
            notes: Default::default(),
            scratch: FxHashMap::default(),
            results: Vec::new(),
            threads,
            arena: Bytes(0),
        };
        Plan { planned, steps: 0 }
    }

    fn value(&mut self, dtype: DType, shape: &[u64], storage: Storage) -> ValueId {
        let value = Value {
            name: "v".into(),
            op: "op".into(),
            dtype,
            shape: shape.to_vec(),
            storage,
            source: None,
        };
        self.planned.program.values.push(value)
    }

    fn parameter(&mut self, dtype: DType, shape: &[u64], donation: Donation) -> ValueId {
        let index = self.planned.program.parameters.len() as u32;
        let value = self.value(dtype, shape, Storage::Parameter(index));
        self.planned.program.parameters.push(Parameter { value, donation });
        self.place(value, Region::Argument(index), 0);
        value
    }

    /// A value in the arena.
    fn arena(&mut self, dtype: DType, shape: &[u64]) -> ValueId {
        let value = self.value(dtype, shape, Storage::Own);
        let bytes = self.planned.program.values[value].bytes().aligned();
        let offset = self.planned.arena.0;
        self.place(value, Region::Arena, offset);
        self.planned.arena.0 += bytes.0;
        value
    }

    /// A value in a result's buffer.
    fn output(&mut self, dtype: DType, shape: &[u64]) -> ValueId {
        let value = self.value(dtype, shape, Storage::Own);
        let region = Region::Output(self.planned.results.len() as u32);
        self.place(value, region, 0);
        self.planned.results.push(region);
        self.planned.program.results.push(value);
        value
    }

    fn place(&mut self, value: ValueId, region: Region, offset: u64) {
        self.planned.places[value] = Some(Place { region, offset: Bytes(offset) });
    }

    fn step(&mut self, kind: StepKind, operands: &[ValueId], results: &[ValueId]) -> Step {
        let id = StepId::from_u32(self.steps);
        self.steps += 1;
        Step {
            id,
            kind,
            operands: operands.to_vec(),
            results: results.to_vec(),
            updates: Vec::new(),
            sharing: vec![vec![Sharing::SameElement; operands.len()]; results.len()],
            scratch: Scratch::default(),
            origin: None,
        }
    }

    fn kernel(&mut self, kernel: Kernel, operands: &[ValueId], results: &[ValueId]) -> Step {
        let id = self.planned.program.kernels.push(kernel);
        self.step(StepKind::Kernel(id), operands, results)
    }
}

/// `out[i] = op(a[i], b[i or 0])` over i32.
fn elementwise(op: BinaryOp, len: u64, scalar: bool) -> Kernel {
    let mut b = KernelBuilder::new("elementwise");
    let x = b.param(DType::I32, len, Access::Read);
    let y = b.param(DType::I32, if scalar { 1 } else { len }, Access::Read);
    let out = b.param(DType::I32, len, Access::Write);
    b.set_range(len);
    parallel(&mut b, len as i64, LoopOptions { ranged: true, split: false }, |b, i| {
        let p = b.load(x, i.clone());
        let q = b.load(y, if scalar { Affine::constant(0) } else { i.clone() });
        let value = b.binary(op, p, q);
        b.store(out, i.clone(), value);
    });
    b.finish()
}

/// `out = a < b` over scalars.
fn less() -> Kernel {
    let mut b = KernelBuilder::new("less");
    let x = b.param(DType::I32, 1, Access::Read);
    let y = b.param(DType::I32, 1, Access::Read);
    let out = b.param(DType::I1, 1, Access::Write);
    let (p, q) = (b.load(x, 0.into()), b.load(y, 0.into()));
    let value = b.compare(Compare::Lt, CompareKind::Signed, p, q);
    b.store(out, 0.into(), value);
    b.finish()
}

fn ints(values: &[i32]) -> Buffer {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Buffer::from_bytes(&bytes).unwrap()
}

fn read(buffer: &Buffer) -> Vec<i32> {
    buffer.as_bytes().chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect()
}

fn run(planned: &Planned, arguments: &[Buffer]) -> Vec<Vec<i32>> {
    let mut all = Vec::new();
    for poison in [false, true] {
        let executable =
            jaxrs_cpu::compile(planned, &Options { poison, ..Options::default() }).unwrap();
        let arguments = arguments.iter().map(Argument::Borrowed).collect();
        let (results, _) = call(&executable, arguments).unwrap();
        all.push(results.iter().map(read).collect::<Vec<_>>());
    }
    assert_eq!(all[0], all[1], "poisoned memory changes nothing");
    all.swap_remove(0)
}

#[test]
fn kernels_in_order() {
    let mut p = Plan::new(2);
    let (len, shape) = (100_003, [100_003]);
    let a = p.parameter(DType::I32, &shape, Donation::Kept);
    let b = p.parameter(DType::I32, &shape, Donation::Kept);
    let sum = p.arena(DType::I32, &shape);
    let out = p.output(DType::I32, &shape);
    let add = p.kernel(elementwise(BinaryOp::Add, len, false), &[a, b], &[sum]);
    let mul = p.kernel(elementwise(BinaryOp::Mul, len, false), &[sum, b], &[out]);
    p.planned.program.body = vec![add, mul];
    let x: Vec<i32> = (0..len as i32).collect();
    let y: Vec<i32> = (0..len as i32).map(|i| i % 7).collect();
    let results = run(&p.planned, &[ints(&x), ints(&y)]);
    assert!((0..len as usize).all(|i| results[0][i] == (x[i] + y[i]) * y[i]));
}

#[test]
fn donated_argument_becomes_the_result() {
    let mut p = Plan::new(1);
    let a = p.parameter(DType::I32, &[5], Donation::Donated { preferred: None });
    let out = p.value(DType::I32, &[5], Storage::Own);
    p.place(out, Region::Argument(0), 0);
    p.planned.results.push(Region::Argument(0));
    p.planned.program.results.push(out);
    let step = p.kernel(elementwise(BinaryOp::Add, 5, false), &[a, a], &[out]);
    p.planned.program.body = vec![step];
    let executable = jaxrs_cpu::compile(&p.planned, &Options::default()).unwrap();
    let argument = ints(&[1, 2, 3, 4, 5]);
    let address = argument.as_ptr();
    let (results, report) = call(&executable, vec![Argument::Donated(argument)]).unwrap();
    assert_eq!(read(&results[0]), [2, 4, 6, 8, 10]);
    assert_eq!((results[0].as_ptr(), report.aliased_results), (address, 1));
    // A borrowed one is copied and stays as it was.
    let argument = ints(&[1, 2, 3, 4, 5]);
    let (results, report) = call(&executable, vec![Argument::Borrowed(&argument)]).unwrap();
    assert_eq!((read(&results[0]), report.copied_bytes), (vec![2, 4, 6, 8, 10], 20));
    assert_eq!(read(&argument), [1, 2, 3, 4, 5]);
    assert!(call(&executable, vec![]).is_err());
    assert!(call(&executable, vec![Argument::Donated(ints(&[1]))]).is_err());
}

#[test]
fn while_loop_and_case() {
    // i = start; x = 1; while i < limit { x = x + x; i = i + one }; case x { 0: x, else: x * x }
    let mut p = Plan::new(1);
    let start = p.parameter(DType::I32, &[], Donation::Kept);
    let limit = p.parameter(DType::I32, &[], Donation::Kept);
    let one = p.parameter(DType::I32, &[], Donation::Kept);
    let (i, x) = (p.arena(DType::I32, &[]), p.arena(DType::I32, &[]));
    let condition = p.arena(DType::I1, &[]);
    let (end_i, end_x) = (p.arena(DType::I32, &[]), p.arena(DType::I32, &[]));
    let place = p.planned.places[x];
    let next_x = p.value(DType::I32, &[], Storage::Own);
    p.planned.places[next_x] = place;
    let next_i = p.arena(DType::I32, &[]);
    let test = p.kernel(less(), &[i, limit], &[condition]);
    let double = p.kernel(elementwise(BinaryOp::Add, 1, false), &[x, x], &[next_x]);
    let count = p.kernel(elementwise(BinaryOp::Add, 1, true), &[i, one], &[next_i]);
    let body = While {
        carries: vec![i, x],
        condition: vec![test],
        condition_value: condition,
        body: vec![double, count],
        next: vec![next_i, next_x],
    };
    let kind = StepKind::While(Box::new(body));
    let loop_step = p.step(kind, &[start, one], &[end_i, end_x]);
    let out = p.output(DType::I32, &[]);
    let square = p.kernel(elementwise(BinaryOp::Mul, 1, false), &[end_x, end_x], &[out]);
    let branches = vec![
        Branch { steps: vec![], results: vec![end_i] },
        Branch { steps: vec![], results: vec![end_x] },
        Branch { steps: vec![square], results: vec![out] },
    ];
    let case_step = p.step(StepKind::Case(Box::new(Case { branches })), &[start], &[out]);
    p.planned.program.body = vec![loop_step, case_step];
    let check = |start, limit, want: i32| {
        let arguments = [ints(&[start]), ints(&[limit]), ints(&[1])];
        assert_eq!(run(&p.planned, &arguments), [[want]], "{start} {limit}");
    };
    check(0, 5, 5);
    check(1, 5, 16);
    check(2, 6, 256);
    check(7, 3, 1);
    check(-3, 0, 64);
}

#[test]
fn tile_blocks() {
    // out = (a + b) * b, rows of 10, with the sum in a thread's scratch.
    let mut p = Plan::new(2);
    let (rows, columns) = (1001u64, 10u64);
    let kernel = |op| {
        let mut b = KernelBuilder::new("rows");
        let x = b.param(DType::I32, rows * columns, Access::Read);
        let y = b.param(DType::I32, rows * columns, Access::Read);
        let out = b.param(DType::I32, rows * columns, Access::Write);
        b.set_range(rows);
        parallel(&mut b, rows as i64, LoopOptions { ranged: true, split: false }, |b, i| {
            parallel(b, columns as i64, LoopOptions::default(), |b, j| {
                let at = i.scale(columns as i64).add(j);
                let (p, q) = (b.load(x, at.clone()), b.load(y, at.clone()));
                let value = b.binary(op, p, q);
                b.store(out, at, value);
            });
        });
        b.finish()
    };
    let shape = [rows, columns];
    let a = p.parameter(DType::I32, &shape, Donation::Kept);
    let b = p.parameter(DType::I32, &shape, Donation::Kept);
    let local = p.value(DType::I32, &shape, Storage::Own);
    let out = p.output(DType::I32, &shape);
    let add = p.kernel(kernel(BinaryOp::Add), &[a, b], &[local]);
    let mul = p.kernel(kernel(BinaryOp::Mul), &[local, b], &[out]);
    let tile =
        Tile { extent: rows, rows: 7, steps: vec![add, mul], locals: vec![(local, Bytes(64))] };
    let mut step = p.step(StepKind::Tile(Box::new(tile)), &[a, b], &[out]);
    step.scratch.per_thread = Bytes(384);
    p.planned.scratch.insert(step.id, Bytes(0));
    p.planned.arena = Bytes(768);
    p.planned.program.body = vec![step];
    let x: Vec<i32> = (0..(rows * columns) as i32).collect();
    let y: Vec<i32> = x.iter().map(|i| i % 13).collect();
    let results = run(&p.planned, &[ints(&x), ints(&y)]);
    assert!((0..x.len()).all(|i| results[0][i] == (x[i] + y[i]) * y[i]));
}

#[test]
fn long_programs_are_cut() {
    let mut p = Plan::new(1);
    let a = p.parameter(DType::I32, &[3], Donation::Kept);
    let mut last = a;
    let mut steps = Vec::new();
    for _ in 0..700 {
        let next = p.arena(DType::I32, &[3]);
        steps.push(p.kernel(elementwise(BinaryOp::Add, 3, false), &[last, a], &[next]));
        last = next;
    }
    let out = p.output(DType::I32, &[3]);
    steps.push(p.step(StepKind::Copy, &[last], &[out]));
    p.planned.program.body = steps;
    assert_eq!(run(&p.planned, &[ints(&[1, 2, 3])]), [[701, 1402, 2103]]);
    let listing = jaxrs_cpu::listing(&p.planned, &Options::default()).unwrap();
    // The entry's list, four parts, and one kernel for all 700.
    assert_eq!(listing.functions.len(), 6);
    assert!(listing.clif().contains("function") && listing.asm().contains("ret"));
}

#[test]
fn dropped_code_is_given_back() {
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }
    let cycles = if std::env::var_os("JAXRS_LONG_TESTS").is_some() { 10_000 } else { 500 };
    let mut p = Plan::new(1);
    let a = p.parameter(DType::I32, &[3], Donation::Kept);
    let out = p.output(DType::I32, &[3]);
    let step = p.kernel(elementwise(BinaryOp::Add, 3, false), &[a, a], &[out]);
    p.planned.program.body = vec![step];
    let mut after_some = 0;
    for cycle in 0..cycles {
        drop(jaxrs_cpu::compile(&p.planned, &Options::default()).unwrap());
        if cycle == cycles / 5 {
            after_some = resident();
        }
    }
    let growth = resident().saturating_sub(after_some);
    assert!(growth < 8 << 20, "{growth} bytes more after {cycles} programs");
}

#[test]
fn hooks_see_operands_and_results() {
    let mut p = Plan::new(1);
    let a = p.parameter(DType::I32, &[3], Donation::Kept);
    let out = p.output(DType::I32, &[3]);
    let step = p.kernel(elementwise(BinaryOp::Add, 3, false), &[a, a], &[out]);
    p.planned.program.body = vec![step];
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = std::sync::Arc::clone(&seen);
    let hook: jaxrs_cpu::Hook = std::sync::Arc::new(move |moment| {
        let value = if moment.done { out } else { a };
        log.lock().unwrap().push((
            moment.step.as_u32(),
            moment.done,
            moment.bytes(value).unwrap()[0],
        ));
    });
    let options = Options { hook: Some(hook), ..Options::default() };
    let executable = jaxrs_cpu::compile(&p.planned, &options).unwrap();
    call(&executable, vec![Argument::Donated(ints(&[7, 8, 9]))]).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(0, false, 7), (0, true, 14)]);
    let _ = RegType::I32;
}
