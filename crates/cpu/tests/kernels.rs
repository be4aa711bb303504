//! Random kernels: compiled code, vector and scalar, equals the kernel interpreter bit for bit, NaN
//! payloads aside.

use jaxrs_cpu::LoneKernel;
use jaxrs_kernel::builder::{LoopOptions, branch, parallel, reduce};
use jaxrs_kernel::kernel::{Access, LoopKind};
use jaxrs_kernel::{
    Affine, BinaryOp, CastOp, Compare, CompareKind, DType, Kernel, KernelBuilder, ParamId, Reg,
    RegType, UnaryOp, interp,
};

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn shuffle<T>(&mut self, of: &mut [T]) {
        for n in 1..of.len() {
            of.swap(n, self.below(n as u64 + 1) as usize);
        }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What an element is computed from, decided before the kernel is built.
enum Expr {
    Const(RegType, u64),
    /// A load at `constant + sum(factor * variable)`.
    Load(ParamId, i64, Vec<i64>),
    /// An index expression as a value.
    Index(i64, Vec<i64>),
    /// Quotient or remainder of an index expression.
    Divided(Vec<i64>, i64, bool),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Fma(Box<[Expr; 3]>),
    Compare(Compare, CompareKind, Box<Expr>, Box<Expr>),
    Select(Box<[Expr; 3]>),
    Cast(CastOp, RegType, Box<Expr>),
    /// One expression where a variable is in a range, else another.
    Guarded(usize, i64, i64, Box<Expr>, Box<Expr>),
    /// One expression where a value holds, else another.
    Branch(Box<[Expr; 3]>),
    /// A reduction over a new variable.
    Reduce(i64, BinaryOp, Box<Expr>, Box<Expr>),
    /// `carry = carry op x`, in order, over a new variable.
    Sequence(i64, BinaryOp, Box<Expr>, Box<Expr>),
    /// An element at a computed place of a parameter with this many.
    Gather(ParamId, i64, Box<Expr>),
}

struct Generator {
    random: Random,
    builder: KernelBuilder,
    params: Vec<DType>,
    /// Whether vectors have all the instructions.
    vectors_only: bool,
}

const ELEMENTS: [DType; 13] = [
    DType::I1,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
];

/// The least and largest value of each variable.
type Extents = Vec<(i64, i64)>;

impl Generator {
    fn param(&mut self, dtype: DType, len: i64, access: Access) -> ParamId {
        self.params.push(dtype);
        self.builder.param(dtype, len as u64, access)
    }

    fn factors(&mut self, extents: &Extents) -> Vec<i64> {
        let factors = [0, 0, 1, 1, 1, 2, 3, 17, -1];
        extents.iter().map(|_| self.random.pick(&factors)).collect()
    }

    fn dtype_of(&mut self, ty: RegType) -> DType {
        let all: Vec<DType> = ELEMENTS.into_iter().filter(|d| d.reg() == ty).collect();
        self.random.pick(&all)
    }

    fn load(&mut self, dtype: DType, extents: &Extents) -> Expr {
        let mut factors = self.factors(extents);
        if self.random.chance(60) {
            // Row-major, as most loads are, or with the axes in another order.
            let mut axes: Vec<usize> = (0..extents.len()).rev().collect();
            if self.random.chance(40) {
                self.random.shuffle(&mut axes);
            }
            let mut stride = self.random.pick(&[1, 1, 1, 2, 3]);
            for axis in axes {
                factors[axis] = stride;
                stride *= extents[axis].1 - extents[axis].0 + 1;
            }
        }
        let (low, high) = range(&factors, extents);
        let spare = self.random.below(3) as i64;
        let param = self.param(dtype, high - low + 1 + spare, Access::Read);
        Expr::Load(param, spare - low, factors)
    }

    fn leaf(&mut self, ty: RegType, extents: &Extents) -> Expr {
        if self.random.chance(15) {
            let bits = match ty {
                RegType::F32 => u64::from(self.random.pick(&[0.0f32, 1.5, -2.25, 1e30]).to_bits()),
                RegType::F64 => self.random.pick(&[0.0f64, 1.5, -2.25, 1e300]).to_bits(),
                _ => self.random.next() & jaxrs_kernel::inst::mask(ty),
            };
            return Expr::Const(ty, bits);
        }
        if ty == RegType::I64 && self.random.chance(50) {
            let factors = self.factors(extents);
            let (low, _) = range(&factors, extents);
            if self.random.chance(30) {
                let by = self.random.pick(&[2, 3, 4, 7, 10]);
                return Expr::Divided(factors, by, self.random.chance(50));
            }
            return Expr::Index(self.random.below(5) as i64 - low, factors);
        }
        let dtype = self.dtype_of(ty);
        self.load(dtype, extents)
    }

    fn expr(&mut self, ty: RegType, depth: u32, extents: &Extents) -> Expr {
        use BinaryOp as B;
        if depth == 0 {
            return self.leaf(ty, extents);
        }
        let depth = depth - 1;
        match self.random.below(if ty == RegType::I1 { 5 } else { 12 }) {
            0 => {
                let [c, a, b] =
                    [RegType::I1, ty, ty].map(|t| Box::new(self.expr(t, depth, extents)));
                Expr::Select(Box::new([*c, *a, *b]))
            }
            1 if !extents.is_empty() => {
                let var = self.random.below(extents.len() as u64) as usize;
                let (low, high) = extents[var];
                let cut = low + self.random.below((high - low + 1) as u64) as i64;
                let (from, to) = if self.random.chance(50) { (low, cut) } else { (cut, high + 1) };
                let mut inside = extents.clone();
                inside[var] = (from, (to - 1).max(from));
                let then = if to > from {
                    self.expr(ty, depth.min(1), &inside)
                } else {
                    self.leaf(ty, &vec![(0, 0); extents.len()])
                };
                let otherwise = self.expr(ty, depth, extents);
                Expr::Guarded(var, from, to, Box::new(then), Box::new(otherwise))
            }
            2 => {
                let [c, a, b] =
                    [RegType::I1, ty, ty].map(|t| Box::new(self.expr(t, depth, extents)));
                Expr::Branch(Box::new([*c, *a, *b]))
            }
            3 if ty == RegType::I1 => {
                let of = self.random.pick(&[
                    RegType::I1,
                    RegType::I8,
                    RegType::I16,
                    RegType::I32,
                    RegType::I64,
                    RegType::F32,
                    RegType::F64,
                ]);
                let op = self.random.pick(&[
                    Compare::Eq,
                    Compare::Ne,
                    Compare::Lt,
                    Compare::Le,
                    Compare::Gt,
                    Compare::Ge,
                ]);
                let kind = if of.is_float() {
                    CompareKind::Float
                } else {
                    self.random.pick(&[CompareKind::Signed, CompareKind::Unsigned])
                };
                let [a, b] = [0; 2].map(|_| Box::new(self.expr(of, depth, extents)));
                Expr::Compare(op, kind, a, b)
            }
            4 | 5 => {
                // An exact reduction, whatever its order.
                let extent = self.random.pick(&[1i64, 2, 3, 5, 16, 40, 67]);
                let mut inside = extents.clone();
                inside.push((0, extent - 1));
                let small = self.load(DType::I8, &inside);
                let (op, x) = match ty {
                    RegType::F32 | RegType::F64 => (
                        self.random.pick(&[B::Add, B::MinF, B::MaxF]),
                        Expr::Cast(CastOp::SignedToFloat, ty, Box::new(small)),
                    ),
                    RegType::I1 => (
                        self.random.pick(&[B::And, B::Or, B::Xor]),
                        self.expr(ty, depth.min(1), &inside),
                    ),
                    _ => (
                        self.random.pick(&[
                            B::Add,
                            B::Mul,
                            B::MinS,
                            B::MaxS,
                            B::MinU,
                            B::MaxU,
                            B::And,
                            B::Or,
                            B::Xor,
                        ]),
                        self.expr(ty, depth.min(1), &inside),
                    ),
                };
                let init = match ty {
                    RegType::F32 | RegType::F64 => Expr::Const(ty, 0),
                    _ => self.leaf(ty, extents),
                };
                Expr::Reduce(extent, op, Box::new(init), Box::new(x))
            }
            6 => {
                let extent = self.random.pick(&[1i64, 3, 9, 20]);
                let mut inside = extents.clone();
                inside.push((0, extent - 1));
                let op = self.binary(ty);
                let init = self.leaf(ty, extents);
                let x = self.expr(ty, depth.min(1), &inside);
                Expr::Sequence(extent, op, Box::new(init), Box::new(x))
            }
            7 => {
                let len = 1 + self.random.below(40) as i64;
                let dtype = self.dtype_of(ty);
                let param = self.param(dtype, len, Access::Read);
                let at = self.expr(RegType::I64, depth.min(1), extents);
                Expr::Gather(param, len, Box::new(at))
            }
            8 if ty.is_float() => {
                Expr::Fma(Box::new([0; 3].map(|_| self.expr(ty, depth, extents))))
            }
            8 | 9 => {
                let op = if ty.is_float() {
                    let mut ops = vec![
                        UnaryOp::Neg,
                        UnaryOp::Abs,
                        UnaryOp::Sqrt,
                        UnaryOp::Floor,
                        UnaryOp::Ceil,
                        UnaryOp::Trunc,
                        UnaryOp::Nearest,
                    ];
                    if ty == RegType::F32 {
                        ops.extend([UnaryOp::RoundBf16, UnaryOp::RoundF16]);
                    }
                    self.random.pick(&ops)
                } else {
                    self.random.pick(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not, UnaryOp::Clz])
                };
                Expr::Unary(op, Box::new(self.expr(ty, depth, extents)))
            }
            10 => self.cast(ty, depth, extents),
            _ => {
                let op = self.binary(ty);
                let [a, b] = [0; 2].map(|_| Box::new(self.expr(ty, depth, extents)));
                Expr::Binary(op, a, b)
            }
        }
    }

    fn binary(&mut self, ty: RegType) -> BinaryOp {
        use BinaryOp as B;
        if ty.is_float() {
            let mut ops = vec![B::Add, B::Sub, B::Mul, B::Div, B::MinF, B::MaxF];
            if !self.vectors_only {
                ops.push(B::Rem);
            }
            return self.random.pick(&ops);
        }
        let mut ops = vec![
            B::Add,
            B::Sub,
            B::Mul,
            B::MinS,
            B::MaxS,
            B::MinU,
            B::MaxU,
            B::And,
            B::Or,
            B::Xor,
            B::Shl,
            B::ShrS,
            B::ShrU,
        ];
        ops.extend([B::DivS, B::DivU, B::RemS, B::RemU]);
        self.random.pick(&ops)
    }

    fn cast(&mut self, to: RegType, depth: u32, extents: &Extents) -> Expr {
        let from = self.random.pick(&[
            RegType::I1,
            RegType::I8,
            RegType::I16,
            RegType::I32,
            RegType::I64,
            RegType::F32,
            RegType::F64,
        ]);
        let op = match (from.is_float(), to.is_float()) {
            (false, false) if from.bits() > to.bits() => CastOp::Truncate,
            (true, true) | (false, false) if from == to => return self.expr(to, depth, extents),
            (false, false) => self.random.pick(&[CastOp::SignExtend, CastOp::ZeroExtend]),
            (false, true) => self.random.pick(&[CastOp::SignedToFloat, CastOp::UnsignedToFloat]),
            (true, false) => self.random.pick(&[CastOp::FloatToSigned, CastOp::FloatToUnsigned]),
            (true, true) => CastOp::FloatToFloat,
        };
        Expr::Cast(op, to, Box::new(self.expr(from, depth, extents)))
    }
}

fn range(factors: &[i64], extents: &Extents) -> (i64, i64) {
    let terms = factors.iter().zip(extents).map(|(f, (low, high))| (f * low, f * high));
    terms.fold((0, 0), |(low, high), (a, b)| (low + a.min(b), high + a.max(b)))
}

fn affine(constant: i64, factors: &[i64], vars: &[Affine]) -> Affine {
    let terms = factors.iter().zip(vars).map(|(&f, var)| var.scale(f));
    terms.fold(Affine::constant(constant), |sum, term| sum.add(&term))
}

fn emit(b: &mut KernelBuilder, expr: &Expr, vars: &[Affine]) -> Reg {
    match expr {
        Expr::Const(ty, bits) => b.constant(*ty, *bits),
        Expr::Load(param, constant, factors) => b.load(*param, affine(*constant, factors, vars)),
        Expr::Index(constant, factors) => b.index_value(&affine(*constant, factors, vars)),
        Expr::Divided(factors, by, quotient) => {
            let at = affine(0, factors, vars);
            let at = if *quotient { b.floor_div(&at, *by) } else { b.modulo(&at, *by) };
            b.index_value(&at)
        }
        Expr::Unary(op, a) => {
            let a = emit(b, a, vars);
            b.unary(*op, a)
        }
        Expr::Binary(op, x, y) => {
            let (x, y) = (emit(b, x, vars), emit(b, y, vars));
            b.binary(*op, x, y)
        }
        Expr::Fma(of) => {
            let [x, y, z] = [&of[0], &of[1], &of[2]].map(|e| emit(b, e, vars));
            b.fma(x, y, z)
        }
        Expr::Compare(op, kind, x, y) => {
            let (x, y) = (emit(b, x, vars), emit(b, y, vars));
            b.compare(*op, *kind, x, y)
        }
        Expr::Select(of) => {
            let [c, x, y] = [&of[0], &of[1], &of[2]].map(|e| emit(b, e, vars));
            b.select(c, x, y)
        }
        Expr::Cast(op, to, a) => {
            let a = emit(b, a, vars);
            b.cast(*op, a, *to)
        }
        Expr::Guarded(var, low, high, then, otherwise) => {
            let guard = b.in_range(&vars[*var], *low, *high);
            branch(b, guard, |b| vec![emit(b, then, vars)], |b| vec![emit(b, otherwise, vars)])[0]
        }
        Expr::Branch(of) => {
            let condition = emit(b, &of[0], vars);
            let guard = match b.as_const(condition) {
                Some(0) => jaxrs_kernel::builder::Guard::Never,
                Some(_) => jaxrs_kernel::builder::Guard::Always,
                None => jaxrs_kernel::builder::Guard::When(condition),
            };
            branch(b, guard, |b| vec![emit(b, &of[1], vars)], |b| vec![emit(b, &of[2], vars)])[0]
        }
        Expr::Reduce(extent, op, init, x) => {
            let init = emit(b, init, vars);
            let options = LoopOptions { ranged: false, split: extent % 2 == 0 };
            reduce(b, *extent, options, LoopKind::Reduce, &[(init, Some(*op))], |b, var, carry| {
                let mut inside = vars.to_vec();
                inside.push(var.clone());
                let x = emit(b, x, &inside);
                vec![b.binary(*op, carry[0], x)]
            })[0]
        }
        Expr::Sequence(extent, op, init, x) => {
            let init = emit(b, init, vars);
            let options = LoopOptions::default();
            let kind = LoopKind::Sequential;
            // A second carry lags one behind.
            let inits = [(init, None), (init, None)];
            reduce(b, *extent, options, kind, &inits, |b, var, carry| {
                let mut inside = vars.to_vec();
                inside.push(var.clone());
                let x = emit(b, x, &inside);
                vec![b.binary(*op, carry[1], x), carry[0]]
            })[1]
        }
        Expr::Gather(param, len, at) => {
            let at = emit(b, at, vars);
            let at = b.clamp_index(at, 0, len - 1);
            b.load(*param, at)
        }
    }
}

/// A kernel over up to three nested loops, with its parameters' types.
fn generate(seed: u64, vectors_only: bool) -> (Kernel, Vec<DType>) {
    let mut g = Generator {
        random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        builder: KernelBuilder::new(format!("random {seed}")),
        params: Vec::new(),
        vectors_only,
    };
    for _ in 0..8 {
        g.random.next();
    }
    let rank = 1 + g.random.below(3) as usize;
    let sizes = [1i64, 2, 3, 7, 8, 16, 17, 31, 33, 70, 130];
    let shape: Vec<i64> = (0..rank).map(|_| g.random.pick(&sizes[..12 - 2 * rank])).collect();
    let extents: Extents = shape.iter().map(|&n| (0, n - 1)).collect();
    let dtype = g.random.pick(&ELEMENTS);
    let depth = 1 + g.random.below(3) as u32;
    // Several elements side by side, as the parts of complex numbers.
    let parts = g.random.pick(&[1i64, 1, 1, 1, 2, 3, 4]);
    let exprs: Vec<Expr> =
        (0..parts).map(|n| g.expr(dtype.reg(), if n == 0 { depth } else { 1 }, &extents)).collect();
    // Row-major, or with the axes in another order, some of them backwards.
    let mut axes: Vec<usize> = (0..rank).rev().collect();
    if g.random.chance(40) {
        g.random.shuffle(&mut axes);
    }
    let gap = if g.random.chance(15) { 2 } else { 1 };
    let mut factors = vec![0; rank];
    let (mut stride, mut first) = (gap * parts, 0);
    for axis in axes {
        factors[axis] = stride;
        if g.random.chance(10) {
            factors[axis] = -stride;
            first += stride * (shape[axis] - 1);
        }
        stride *= shape[axis];
    }
    let mut order: Vec<i64> = (0..parts).collect();
    g.random.shuffle(&mut order);
    let out = g.param(dtype, stride, Access::Write);
    let split = g.random.chance(30);
    let (mut b, params) = (g.builder, g.params);
    b.set_range(shape[0] as u64);
    nest(&mut b, &shape, split, &mut Vec::new(), &mut |b, vars| {
        for (expr, part) in exprs.iter().zip(&order) {
            let mut value = emit(b, expr, vars);
            match dtype {
                DType::BF16 => value = b.unary(UnaryOp::RoundBf16, value),
                DType::F16 => value = b.unary(UnaryOp::RoundF16, value),
                _ => {}
            }
            b.store(out, affine(first + part, &factors, vars), value);
        }
    });
    (b.finish(), params)
}

fn nest(
    b: &mut KernelBuilder,
    shape: &[i64],
    split: bool,
    vars: &mut Vec<Affine>,
    body: &mut dyn FnMut(&mut KernelBuilder, &[Affine]),
) {
    let depth = vars.len();
    let Some(&extent) = shape.get(depth) else {
        body(b, vars);
        return;
    };
    let options = LoopOptions { ranged: depth == 0, split };
    parallel(b, extent, options, |b, var| {
        vars.push(var.clone());
        nest(b, shape, split, vars, body);
        vars.pop();
    });
}

fn contents(random: &mut Random, dtype: DType, len: u64) -> Vec<u8> {
    let element = |random: &mut Random| -> Vec<u8> {
        let word = random.next() ^ random.next() << 20;
        let small = (word % 41) as f32 / 4.0 - 5.0;
        match dtype {
            DType::I1 => vec![(word % 2) as u8],
            DType::I8 => vec![(word % 21) as u8 ^ if word & 64 == 0 { 0 } else { 0xff }],
            DType::F32 if !word.is_multiple_of(13) => small.to_le_bytes().to_vec(),
            DType::F64 if !word.is_multiple_of(13) => f64::from(small).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f32(small).to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f32(small).to_le_bytes().to_vec(),
            _ if word.is_multiple_of(3) => {
                (word % 9).to_le_bytes()[..dtype.size() as usize].to_vec()
            }
            _ => word.to_le_bytes()[..dtype.size() as usize].to_vec(),
        }
    };
    (0..len).flat_map(|_| element(random)).collect()
}

fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let is_nan = |x: &[u8]| match dtype {
        DType::F32 => f32::from_le_bytes(x.try_into().unwrap()).is_nan(),
        DType::F64 => f64::from_le_bytes(x.try_into().unwrap()).is_nan(),
        DType::BF16 => half::bf16::from_le_bytes(x.try_into().unwrap()).is_nan(),
        DType::F16 => half::f16::from_le_bytes(x.try_into().unwrap()).is_nan(),
        _ => false,
    };
    a == b || (is_nan(a) && is_nan(b))
}

fn check(seed: u64, vectors_only: bool) {
    let (kernel, dtypes) = generate(seed, vectors_only);
    jaxrs_kernel::verify::verify(&kernel).unwrap();
    let mut random = Random(seed + 77);
    let mut buffers: Vec<Vec<u8>> =
        kernel.params.values().map(|p| contents(&mut random, p.dtype, p.len)).collect();
    let range = kernel.range.unwrap() as i64;
    let mut expected = buffers.clone();
    interp::run(&kernel, &mut expected, 0, range);
    for code in codes(&kernel) {
        let mut got = buffers.clone();
        // What a kernel reads outside of its parameters would be seen as a fault here.
        for (cut, wanted) in [(range / 3, true), (0, false)] {
            let mut slices: Vec<&mut [u8]> = got.iter_mut().map(Vec::as_mut_slice).collect();
            if wanted {
                code.run(&mut slices, 0, cut);
                code.run(&mut slices, cut, range);
            }
        }
        for (n, dtype) in dtypes.iter().enumerate() {
            let size = dtype.size() as usize;
            let pairs = got[n].chunks(size).zip(expected[n].chunks(size)).enumerate();
            for (at, (a, b)) in pairs {
                assert!(
                    same(*dtype, a, b),
                    "seed {seed}: parameter {n} ({dtype}) at {at}: {a:x?}, should be {b:x?}\n{kernel}\n{}",
                    code.clif
                );
            }
        }
    }
    buffers.clear();
}

fn codes(kernel: &Kernel) -> Vec<LoneKernel> {
    [LoneKernel::scalar, LoneKernel::portable, LoneKernel::new]
        .map(|make| make(kernel).unwrap())
        .into()
}

#[test]
fn vectors_are_used() {
    let mut b = KernelBuilder::new("sum");
    let x = b.param(DType::F32, 1000, Access::Read);
    let out = b.param(DType::F32, 1000, Access::Write);
    b.set_range(1000);
    parallel(&mut b, 1000, LoopOptions { ranged: true, split: false }, |b, i| {
        let value = b.load(x, i.clone());
        let value = b.binary(BinaryOp::Add, value, value);
        b.store(out, i.clone(), value);
    });
    let kernel = b.finish();
    assert!(LoneKernel::portable(&kernel).unwrap().clif.contains("f32x4"));
    assert!(!LoneKernel::scalar(&kernel).unwrap().clif.contains("x4"));
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let read = |name| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let first = read("JAXRS_SEED").unwrap_or(1);
    first..first + read("JAXRS_SEEDS").unwrap_or(default)
}

#[test]
fn with_the_instructions_of_vectors() {
    seeds(200).for_each(|seed| check(seed, true));
}

#[test]
fn with_all_instructions() {
    seeds(80).for_each(|seed| check(1_000_000 + seed, false));
}
