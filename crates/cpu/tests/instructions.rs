//! Every instruction on edge values: compiled code equals the definition, bit for bit (NaN payloads
//! aside), in scalar code and in vector loops.

use jaxrs_cpu::LoneKernel;
use jaxrs_kernel::builder::{LoopOptions, parallel};
use jaxrs_kernel::inst::{Typed, eval_binary, eval_cast, eval_compare, eval_fma, eval_unary, mask};
use jaxrs_kernel::kernel::Access;
use jaxrs_kernel::{
    Affine, BinaryOp, CastOp, Compare, CompareKind, DType, KernelBuilder, Reg, RegType, UnaryOp,
};

const TYPES: [RegType; 7] = [
    RegType::I1,
    RegType::I8,
    RegType::I16,
    RegType::I32,
    RegType::I64,
    RegType::F32,
    RegType::F64,
];

fn dtype(ty: RegType) -> DType {
    match ty {
        RegType::I1 => DType::I1,
        RegType::I8 => DType::I8,
        RegType::I16 => DType::I16,
        RegType::I32 => DType::I32,
        RegType::I64 => DType::I64,
        RegType::F32 => DType::F32,
        RegType::F64 => DType::F64,
    }
}

/// Edge values of a type, by their bits.
fn values(ty: RegType) -> Vec<u64> {
    match ty {
        RegType::I1 => vec![0, 1],
        RegType::F32 => {
            let mut out: Vec<u64> = [
                0.0f32,
                1.0,
                1.5,
                2.5,
                0.5,
                0.49999997,
                3.0,
                7.0,
                65504.0,
                65519.0,
                65520.0,
                65536.0,
                1e-8,
                6e-8,
                5.9e-8,
                6.1e-5,
                6.1035e-5,
                1e-40,
                f32::MIN_POSITIVE,
                f32::MAX,
                f32::INFINITY,
                f32::NAN,
                127.0,
                127.5,
                128.0,
                255.0,
                256.0,
                32767.5,
                2147483648.0,
                2147483520.0,
                4294967296.0,
                9.223372e18,
                1.8446744e19,
                1e30,
                0.333333,
                3.1515927,
                8388609.0,
            ]
            .iter()
            .flat_map(|v| [v.to_bits(), (-v).to_bits()])
            .map(u64::from)
            .collect();
            out.extend([
                0x3f80_8000,
                0x3f81_8000,
                0x3f80_7fff,
                0x7f7f_ffff,
                0x3880_1000,
                0x3880_3000,
            ]);
            out
        }
        RegType::F64 => [
            0.0f64,
            1.0,
            1.5,
            2.5,
            0.5,
            0.49999999999999994,
            7.0,
            1e-310,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
            127.5,
            128.0,
            255.5,
            65535.9,
            2147483647.5,
            2147483648.0,
            4294967295.5,
            4294967296.0,
            9.223372036854775e18,
            1.8446744073709552e19,
            1e300,
            3.4028235677973366e38,
            1e-46,
            4503599627370497.5,
            0.1,
        ]
        .iter()
        .flat_map(|v| [v.to_bits(), (-v).to_bits()])
        .collect(),
        _ => {
            let bits = ty.bits();
            let mut out: Vec<u64> =
                vec![0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100];
            out.extend((0..bits).step_by(3).map(|b| 1u64 << b));
            out.extend([1u64 << (bits - 1), (1u64 << (bits - 1)) - 1, mask(ty), mask(ty) - 1]);
            out.extend([
                0x1234_5678_9abc_def1,
                0xdead_beef_f00d_4321,
                0x7c00,
                0x7c01,
                0x3ff,
                0x400,
                0xfc00,
            ]);
            let negative: Vec<u64> = out.iter().map(|v| v.wrapping_neg()).collect();
            out.extend(negative);
            out.iter_mut().for_each(|v| *v &= mask(ty));
            out.sort_unstable();
            out.dedup();
            out
        }
    }
}

fn to_bytes(ty: RegType, values: &[u64]) -> Vec<u8> {
    let size = dtype(ty).size() as usize;
    values.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect()
}

fn from_bytes(ty: RegType, bytes: &[u8]) -> Vec<u64> {
    let size = dtype(ty).size() as usize;
    let wide = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(size).map(wide).collect()
}

fn is_nan(ty: RegType, bits: u64) -> bool {
    match ty {
        RegType::F32 => f32::from_bits(bits as u32).is_nan(),
        RegType::F64 => f64::from_bits(bits).is_nan(),
        _ => false,
    }
}

/// Runs `body` over columns of operands in a loop and compares with `expected`.
fn check(
    name: &str,
    operands: &[(RegType, Vec<u64>)],
    result: RegType,
    body: impl Fn(&mut KernelBuilder, &[Reg]) -> Reg,
    expected: impl Fn(&[Typed]) -> u64,
) {
    let count = operands[0].1.len();
    let mut b = KernelBuilder::new(name);
    let params: Vec<_> =
        operands.iter().map(|(ty, _)| b.param(dtype(*ty), count as u64, Access::Read)).collect();
    let out = b.param(dtype(result), count as u64, Access::Write);
    b.set_range(count as u64);
    let options = LoopOptions { ranged: true, split: false };
    parallel(&mut b, count as i64, options, |b, i| {
        let at: &Affine = i;
        let regs: Vec<Reg> = params.iter().map(|&p| b.load(p, at.clone())).collect();
        let value = body(b, &regs);
        b.store(out, at.clone(), value);
    });
    let kernel = b.finish();
    for code in [LoneKernel::scalar, LoneKernel::portable, LoneKernel::new]
        .map(|make| make(&kernel).unwrap())
    {
        let mut inputs: Vec<Vec<u8>> = operands.iter().map(|(ty, v)| to_bytes(*ty, v)).collect();
        let mut output = vec![0xaau8; count * dtype(result).size() as usize];
        {
            let mut buffers: Vec<&mut [u8]> = inputs.iter_mut().map(Vec::as_mut_slice).collect();
            buffers.push(&mut output);
            // Two pieces, so that vector loops start at odd places and have tails.
            let middle = count as i64 / 3;
            code.run(&mut buffers, 0, middle);
            code.run(&mut buffers, middle, count as i64);
        }
        for (n, got) in from_bytes(result, &output).into_iter().enumerate() {
            let typed: Vec<Typed> =
                operands.iter().map(|(ty, v)| Typed { ty: *ty, bits: v[n] }).collect();
            let want = expected(&typed);
            let equal = got == want || (is_nan(result, got) && is_nan(result, want));
            assert!(equal, "{name}: {typed:x?} gives {got:#x}, should be {want:#x}\n{}", code.clif);
        }
    }
}

fn pairs(ty: RegType) -> Vec<(RegType, Vec<u64>)> {
    let all = values(ty);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for &x in &all {
        for &y in &all {
            a.push(x);
            b.push(y);
        }
    }
    vec![(ty, a), (ty, b)]
}

#[test]
fn unary() {
    use UnaryOp as U;
    for ty in TYPES {
        let mut ops: Vec<(U, RegType)> = Vec::new();
        if ty.is_float() {
            for op in [U::Neg, U::Abs, U::Sqrt, U::Floor, U::Ceil, U::Trunc, U::Nearest] {
                ops.push((op, ty));
            }
        } else {
            for op in [U::Neg, U::Abs, U::Not, U::Popcnt, U::Clz] {
                ops.push((op, ty));
            }
        }
        if ty == RegType::F32 {
            ops.extend([(U::RoundBf16, ty), (U::RoundF16, ty)]);
            ops.extend([(U::BitsBf16, RegType::I16), (U::BitsF16, RegType::I16)]);
        }
        if ty == RegType::I16 {
            ops.extend([(U::FromBitsBf16, RegType::F32), (U::FromBitsF16, RegType::F32)]);
        }
        for (op, result) in ops {
            check(
                &format!("{op:?} {ty}"),
                &[(ty, values(ty))],
                result,
                |b, x| b.unary(op, x[0]),
                |x| eval_unary(op, x[0], result),
            );
        }
    }
}

#[test]
fn binary() {
    use BinaryOp as B;
    for ty in TYPES {
        let ops: &[B] = if ty.is_float() {
            &[B::Add, B::Sub, B::Mul, B::Div, B::Rem, B::MinF, B::MaxF]
        } else {
            &[
                B::Add,
                B::Sub,
                B::Mul,
                B::DivS,
                B::DivU,
                B::RemS,
                B::RemU,
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
            ]
        };
        for &op in ops {
            let name = format!("{op:?} {ty}");
            check(
                &name,
                &pairs(ty),
                ty,
                |b, x| b.binary(op, x[0], x[1]),
                |x| eval_binary(op, x[0], x[1]),
            );
            // By a constant.
            for constant in [0, 1, 3, 8, u64::MAX] {
                let bits = constant & mask(ty);
                let name = format!("{op:?} {ty} by {bits}");
                let body = |b: &mut KernelBuilder, x: &[Reg]| {
                    let c = b.constant(ty, bits);
                    b.binary(op, x[0], c)
                };
                check(&name, &[(ty, values(ty))], ty, body, |x| {
                    eval_binary(op, x[0], Typed { ty, bits })
                });
            }
        }
    }
}

#[test]
fn fused_multiply_add_and_select() {
    for ty in [RegType::F32, RegType::F64] {
        let mut operands = pairs(ty);
        let all = values(ty);
        let third = (0..operands[0].1.len()).map(|n| all[n * 7 % all.len()]).collect();
        operands.push((ty, third));
        check(
            &format!("fma {ty}"),
            &operands,
            ty,
            |b, x| b.fma(x[0], x[1], x[2]),
            |x| eval_fma(x[0], x[1], x[2]),
        );
    }
    for ty in TYPES {
        let mut operands = pairs(ty);
        let flags = (0..operands[0].1.len() as u64).map(|n| n * 5 / 3 % 2).collect();
        operands.push((RegType::I1, flags));
        check(
            &format!("select {ty}"),
            &operands,
            ty,
            |b, x| b.select(x[2], x[0], x[1]),
            |x| {
                if x[2].bits == 1 { x[0].bits } else { x[1].bits }
            },
        );
    }
}

#[test]
fn compare() {
    use Compare as C;
    for ty in TYPES {
        let kinds: &[CompareKind] = if ty.is_float() {
            &[CompareKind::Float]
        } else {
            &[CompareKind::Signed, CompareKind::Unsigned]
        };
        for &kind in kinds {
            for op in [C::Eq, C::Ne, C::Lt, C::Le, C::Gt, C::Ge] {
                let name = format!("compare {op:?} {kind:?} {ty}");
                let body = |b: &mut KernelBuilder, x: &[Reg]| b.compare(op, kind, x[0], x[1]);
                check(&name, &pairs(ty), RegType::I1, body, |x| {
                    u64::from(eval_compare(op, kind, x[0], x[1]))
                });
            }
        }
    }
}

#[test]
fn cast() {
    for from in TYPES {
        for to in TYPES {
            let mut ops = Vec::new();
            match (from.is_float(), to.is_float()) {
                (false, false) if from.bits() < to.bits() => {
                    ops.extend([CastOp::SignExtend, CastOp::ZeroExtend]);
                }
                (false, false) if from.bits() > to.bits() => ops.push(CastOp::Truncate),
                (false, false) => {}
                (false, true) => ops.extend([CastOp::SignedToFloat, CastOp::UnsignedToFloat]),
                (true, false) => ops.extend([CastOp::FloatToSigned, CastOp::FloatToUnsigned]),
                (true, true) => ops.push(CastOp::FloatToFloat),
            }
            if from != to && from.bits() == to.bits() {
                ops.push(CastOp::Bitcast);
            }
            for op in ops {
                let name = format!("{op:?} {from} to {to}");
                check(
                    &name,
                    &[(from, values(from))],
                    to,
                    |b, x| b.cast(op, x[0], to),
                    |x| eval_cast(op, x[0], to),
                );
            }
        }
    }
}

#[test]
fn element_types() {
    // Loads and stores of the narrow floats.
    for dtype in [DType::BF16, DType::F16] {
        let mut b = KernelBuilder::new("copy");
        let (count, all) = (65536i64, 0..=u16::MAX);
        let from = b.param(dtype, count as u64, Access::Read);
        let to = b.param(dtype, count as u64, Access::Write);
        b.set_range(count as u64);
        parallel(&mut b, count, LoopOptions { ranged: true, split: false }, |b, i| {
            let value = b.load(from, i.clone());
            b.store(to, i.clone(), value);
        });
        let code = LoneKernel::new(&b.finish()).unwrap();
        let mut input: Vec<u8> = all.flat_map(u16::to_le_bytes).collect();
        let mut output = vec![0; input.len()];
        code.run(&mut [&mut input, &mut output], 0, count);
        for (a, b) in input.chunks(2).zip(output.chunks(2)) {
            let (a, b) = (u16::from_le_bytes([a[0], a[1]]), u16::from_le_bytes([b[0], b[1]]));
            let nan = |x: u16| match dtype {
                DType::BF16 => x & 0x7fff > 0x7f80,
                _ => x & 0x7fff > 0x7c00,
            };
            assert!(a == b || nan(a) && nan(b), "{dtype}: {a:#x} became {b:#x}");
        }
    }
}
