//! Elementwise ops: every body is well formed, both interpreters of kernels agree on it, integers
//! follow their rules, complex functions equal tabulated values.

use jaxrs_ir::ops::elementwise::TABLE;
use jaxrs_ir::ops::{Elementwise, Signature};
use jaxrs_ir::{DType, Literal, TensorType};
use jaxrs_kernel::RegType;
use jaxrs_kernel::interp::{Column, run, run_each, widen};
use jaxrs_kernel::verify::verify;

/// Bytes of `count` elements: edge values first, then arbitrary bits, none of them a signalling
/// NaN (whose conversion depends on the machine).
fn arguments(dtype: DType, count: usize, mut seed: u64) -> Vec<u8> {
    let floats = [0.0, -0.0, 1.0, -1.0, 2.5, 1e30, -1e-40, f64::INFINITY, f64::NAN];
    let mut out = Vec::new();
    for n in 0..count * dtype.parts() as usize {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let bits = seed >> 13;
        let float = floats.get(n).copied().unwrap_or((bits as i32 as f64) * 1e-8);
        match dtype.part() {
            DType::I1 => out.push(bits as u8 & 1),
            DType::BF16 => out.extend(half_bits(float, 16).to_le_bytes()),
            DType::F16 => out.extend((bits as u16 & 0xbfff).to_le_bytes()),
            DType::F32 => out.extend((float as f32).to_le_bytes()),
            DType::F64 => out.extend(float.to_le_bytes()),
            int => {
                let small = if n % 3 == 0 { bits & 7 } else { bits };
                out.extend(&small.to_le_bytes()[..int.size() as usize]);
            }
        }
    }
    out
}

/// The upper bits of an `f32`: a `bf16`.
fn half_bits(value: f64, drop: u32) -> u16 {
    ((value as f32).to_bits() >> drop) as u16
}

#[test]
fn every_body_is_well_formed_and_evaluates_alike_in_both_interpreters() {
    const COUNT: usize = 24;
    for row in TABLE {
        let op = Elementwise::from_name(row.name).expect("a row of the table");
        for dtype in DType::ALL {
            let operands = vec![TensorType::new([3, 0], dtype); row.arity];
            let inferred = op.infer(&Signature { operands, ..Signature::default() });
            assert_eq!(inferred.is_ok(), (row.accepts)(dtype), "{} of {dtype}", row.name);
            if inferred.is_err() {
                continue;
            }
            let result = inferred.expect("checked")[0].dtype;
            let kernel = op.kernel(dtype);
            assert_eq!(verify(&kernel), Ok(()), "{kernel}");
            let columns: Vec<Vec<u8>> =
                (0..row.arity).map(|n| arguments(dtype, COUNT, n as u64 + 7)).collect();
            let views: Vec<Column<'_>> = columns.iter().map(|c| Column::Each(c)).collect();
            let together = run_each(&kernel, &views, COUNT).pop().expect("one result");
            for element in 0..COUNT {
                let size = dtype.size() as usize;
                let mut buffers: Vec<Vec<u8>> = columns
                    .iter()
                    .map(|c| c[element * size..(element + 1) * size].to_vec())
                    .collect();
                let size = result.size() as usize;
                buffers.push(vec![0; size]);
                run(&kernel, &mut buffers, 0, 0);
                let alone = buffers.pop().expect("the result");
                let together = &together[element * size..(element + 1) * size];
                assert!(
                    same(result, &alone, together),
                    "{} of {dtype}, element {element}: {alone:x?} and {together:x?}",
                    row.name
                );
            }
        }
    }
}

/// Equal bits, NaN payloads aside.
fn same(dtype: DType, x: &[u8], y: &[u8]) -> bool {
    let size = dtype.part().size() as usize;
    x.chunks(size).zip(y.chunks(size)).all(|(x, y)| {
        let bits = [x, y].map(|bytes| widen(bytes, dtype.part()));
        let nan = bits.map(|bits| match dtype.reg() {
            RegType::F32 => f32::from_bits(bits as u32).is_nan(),
            RegType::F64 => f64::from_bits(bits).is_nan(),
            _ => false,
        });
        bits[0] == bits[1] || nan == [true; 2]
    })
}

/// The op on elements given as register bits.
fn evaluate(name: &str, dtype: DType, operands: &[&[u64]]) -> Vec<u64> {
    let op = Elementwise::from_name(name).expect("an op");
    let literals: Vec<Literal> = operands
        .iter()
        .map(|values| {
            let size = dtype.size() as usize;
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect();
            Literal::dense(TensorType::new([values.len() as u64], dtype), bytes)
        })
        .collect();
    let result = op.evaluate(&literals).expect("elementwise ops do not fail").remove(0);
    (0..result.ty().len()).map(|at| result.bits(at, 0)).collect()
}

#[test]
fn integers_and_truth_values_follow_their_rules() {
    let check = |name: &str, dtype: DType, x: &[i64], y: &[i64], expect: &[i64]| {
        let bits = |values: &[i64]| -> Vec<u64> {
            let width = 8 * dtype.size() as u32;
            values.iter().map(|&v| v as u64 & (u64::MAX >> (64 - width))).collect()
        };
        let found = evaluate(name, dtype, &[&bits(x), &bits(y)]);
        assert_eq!(found, bits(expect), "{name} of {dtype}");
    };
    let s8 = DType::I8;
    check("stablehlo.divide", s8, &[7, -7, 7, -128], &[2, 2, 0, -1], &[3, -3, -1, -128]);
    check("stablehlo.remainder", s8, &[7, -7, 7, -128], &[2, 2, 0, -1], &[1, -1, 7, 0]);
    check("stablehlo.divide", DType::U8, &[200, 7], &[3, 0], &[66, 255]);
    check("stablehlo.shift_left", s8, &[1, 1, 1], &[6, 8, -1], &[64, 0, 0]);
    check("stablehlo.shift_right_arithmetic", s8, &[-128, -128, 64], &[3, 9, 9], &[-16, -1, 0]);
    check("stablehlo.shift_right_logical", s8, &[-128, -128], &[3, 9], &[16, 0]);
    check(
        "stablehlo.power",
        s8,
        &[-1, -1, -3, 1, -3, 0, 3, 0],
        &[1, 0, -3, -3, 3, 2, 5, 0],
        &[-1, 1, 0, 1, -27, 0, -13, 1],
    );
    check(
        "stablehlo.power",
        DType::U64,
        &[3, 2, -1],
        &[40, 63, 3],
        &[12157665459056928801u64 as i64, i64::MIN, -1],
    );
    check("stablehlo.maximum", DType::U8, &[-1, 3], &[1, 4], &[-1, 4]);
    check("stablehlo.maximum", s8, &[-1, 3], &[1, 4], &[1, 4]);
    check(
        "chlo.mulhi",
        DType::I64,
        &[-1, i64::MIN, 1 << 40],
        &[1, i64::MIN, 1 << 40],
        &[-1, 1 << 62, 1 << 16],
    );
    check("chlo.mulhi", DType::U64, &[-1, i64::MIN], &[-1, 2], &[-2, 1]);
    let bools = (&[0, 0, 1, 1][..], &[0, 1, 0, 1][..]);
    check("stablehlo.add", DType::I1, bools.0, bools.1, &[0, 1, 1, 1]);
    check("stablehlo.multiply", DType::I1, bools.0, bools.1, &[0, 0, 0, 1]);
    check("stablehlo.maximum", DType::I1, bools.0, bools.1, &[0, 1, 1, 1]);
    check("stablehlo.xor", DType::I1, bools.0, bools.1, &[0, 1, 1, 0]);
    assert_eq!(evaluate("stablehlo.not", DType::I1, &[&[0, 1]]), [1, 0]);
    assert_eq!(evaluate("stablehlo.popcnt", s8, &[&[255, 0, 5]]), [8, 0, 2]);
    assert_eq!(evaluate("stablehlo.count_leading_zeros", s8, &[&[0, 1, 128]]), [8, 7, 0]);
    assert_eq!(evaluate("stablehlo.sign", s8, &[&[200, 0, 9]]), [255, 0, 1]);
}

/// Each line of `complex.txt`: an op, real and imaginary part of an argument and of the result.
#[test]
fn complex_functions_equal_tabulated_values() {
    let mut faults = String::new();
    for line in include_str!("accuracy/complex.txt").lines() {
        let (name, numbers) = line.split_once(' ').expect("an op and numbers");
        let v: Vec<f64> = numbers.split(' ').map(|n| n.parse().expect("a number")).collect();
        let op = Elementwise::from_name(name).expect("an op");
        for dtype in [DType::C128, DType::C64] {
            let single = dtype == DType::C64;
            let parts = |re: f64, im: f64| match dtype {
                DType::C64 => [(re as f32).to_bits().into(), (im as f32).to_bits().into()],
                _ => [re.to_bits(), im.to_bits()],
            };
            // The table is for the exact argument.
            if single && (f64::from(v[0] as f32) != v[0] || f64::from(v[1] as f32) != v[1]) {
                continue;
            }
            let argument = Literal::scalar(dtype, &parts(v[0], v[1]));
            let result = op.evaluate(&[argument]).expect("no failure").remove(0);
            let part = |n| match dtype {
                DType::C64 => f64::from(f32::from_bits(result.bits(0, n) as u32)),
                _ => f64::from_bits(result.bits(0, n)),
            };
            let (re, im) = (part(0), part(1));
            let (expect_re, expect_im) = if single {
                (f64::from(v[2] as f32), f64::from(v[3] as f32))
            } else {
                (v[2], v[3])
            };
            let size = expect_re.hypot(expect_im);
            let error = (re - expect_re).hypot(im - expect_im) / size;
            let bar = if single { 1e-7 } else { 1e-14 };
            let infinite = re == expect_re && im == expect_im;
            if !(error <= bar || infinite) {
                faults += &format!("{line}: {dtype} gives {re:e} {im:e}, off by {error:e}\n");
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
