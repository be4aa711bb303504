//! How exact the bodies of elementwise ops are.
//!
//! `f64` bodies are compared with `tests/accuracy/<op>.bin`, rows of an argument (or two), the `f64`
//! nearest to the exact result, and what that leaves over in units of its last place, as an `f32`;
//! `tests/accuracy/reference.py` made them. `f32` bodies are compared with the `f64` bodies on random
//! arguments of all magnitudes. Run with `--nocapture` to see the worst error of each.
//!
//! `JAXRS_ACCURACY=DIR` takes longer files from a folder instead, `JAXRS_ACCURACY_COUNT=N` more
//! arguments of `f32` bodies, `JAXRS_ACCURACY_ONLY=OPS` some ops only.

use jaxrs_ir::ops::Elementwise;
use jaxrs_kernel::DType;
use jaxrs_kernel::interp::{Column, run_each};
use std::fmt::Write;

/// An op, and the largest error in units in the last place, of `f64` and of `f32`.
struct Bar {
    op: &'static str,
    double: f64,
    single: f64,
    /// An absolute error that is allowed as well, in units of the last place of 1: where a
    /// function has zeros that are no exact numbers.
    absolute: f64,
}

const fn bar(op: &'static str, double: f64, single: f64) -> Bar {
    Bar { op, double, single, absolute: 0.0 }
}

const BARS: &[Bar] = &[
    bar("stablehlo.exponential", 2.0, 2.0),
    bar("stablehlo.exponential_minus_one", 2.0, 2.0),
    bar("stablehlo.log", 2.0, 2.0),
    bar("stablehlo.log_plus_one", 2.0, 2.0),
    bar("stablehlo.logistic", 2.0, 2.0),
    bar("stablehlo.tanh", 2.0, 2.0),
    bar("stablehlo.sine", 2.0, 2.0),
    bar("stablehlo.cosine", 2.0, 2.0),
    bar("stablehlo.tan", 2.0, 2.0),
    bar("stablehlo.sqrt", 0.5, 0.5),
    bar("stablehlo.rsqrt", 2.0, 2.0),
    bar("stablehlo.cbrt", 2.0, 2.0),
    bar("stablehlo.power", 4.0, 4.0),
    bar("stablehlo.atan2", 4.0, 4.0),
    bar("chlo.erf", 2.0, 2.0),
    bar("chlo.erfc", 2.0, 2.0),
    bar("chlo.erf_inv", 4.0, 4.0),
    bar("chlo.bessel_i1e", 8.0, 1.0),
    Bar { op: "chlo.lgamma", double: 16.0, single: 1.0, absolute: 64.0 },
    Bar { op: "chlo.digamma", double: 16.0, single: 1.0, absolute: 16.0 },
    bar("chlo.zeta", 64.0, 1.0),
    Bar { op: "chlo.polygamma", double: 64.0, single: 1.0, absolute: 16.0 },
    bar("chlo.sinh", 4.0, 4.0),
    bar("chlo.cosh", 4.0, 4.0),
    bar("chlo.asinh", 4.0, 4.0),
    bar("chlo.acosh", 4.0, 4.0),
    bar("chlo.atanh", 4.0, 4.0),
    bar("chlo.asin", 4.0, 4.0),
    bar("chlo.acos", 4.0, 4.0),
    bar("chlo.atan", 4.0, 4.0),
];

/// One comparison: arguments, the nearest float, and the rest in units of its last place.
struct Row {
    arguments: Vec<f64>,
    nearest: f64,
    rest: f64,
}

fn rows(op: Elementwise) -> Option<Vec<Row>> {
    let folder = std::env::var("JAXRS_ACCURACY")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/accuracy").into());
    let name = op.name().rsplit('.').next().expect("a name");
    let bytes = std::fs::read(format!("{folder}/{name}.bin")).ok()?;
    let arity = op.row().arity;
    let double = |b: &[u8]| f64::from_le_bytes(b.try_into().expect("8 bytes"));
    let row = |chunk: &[u8]| {
        let (arguments, result) = chunk.split_at(8 * arity);
        Row {
            arguments: arguments.chunks(8).map(double).collect(),
            nearest: double(&result[..8]),
            rest: f32::from_le_bytes(result[8..].try_into().expect("4 bytes")).into(),
        }
    };
    Some(bytes.chunks_exact(8 * arity + 12).map(row).collect())
}

/// Whether `JAXRS_ACCURACY_ONLY` names the op, or nothing.
fn wanted(bar: &Bar) -> bool {
    std::env::var("JAXRS_ACCURACY_ONLY").map_or(true, |only| only.contains(bar.op))
}

fn evaluate(op: Elementwise, dtype: DType, columns: &[Vec<u8>], count: usize) -> Vec<u8> {
    let columns: Vec<Column<'_>> = columns.iter().map(|c| Column::Each(c)).collect();
    run_each(&op.kernel(dtype), &columns, count).pop().expect("one result")
}

/// The distance in units of the last place of `nearest` (of the next smaller binade's at most).
fn ulps(found: f64, nearest: f64, rest: f64, unit: f64) -> f64 {
    if found.is_nan() && nearest.is_nan() {
        return 0.0;
    }
    if found == nearest {
        let zero_sign = found == 0.0 && found.is_sign_negative() != nearest.is_sign_negative();
        // A zero that stands for a nonzero result may have any sign.
        return if zero_sign && rest == 0.0 { f64::INFINITY } else { rest.abs() };
    }
    let error = ((found - nearest) / unit - rest).abs();
    if error.is_nan() { f64::INFINITY } else { error }
}

fn unit_double(value: f64) -> f64 {
    let exponent = (value.abs().to_bits() >> 52).max(1) as i32 - 1023 - 52;
    if exponent < -1022 {
        f64::from_bits(1 << (exponent + 1074).max(0))
    } else {
        2f64.powi(exponent)
    }
}

fn unit_single(value: f64) -> f64 {
    let exponent = (value.abs().to_bits() >> 52) as i32 - 1023;
    2f64.powi(exponent.clamp(-126, 127) - 23)
}

#[test]
fn double_precision() {
    let mut faults = String::new();
    for bar in BARS.iter().filter(|bar| wanted(bar)) {
        let op = Elementwise::from_name(bar.op).expect("an op");
        let Some(rows) = rows(op) else { continue };
        let columns: Vec<Vec<u8>> = (0..op.row().arity)
            .map(|n| rows.iter().flat_map(|r| r.arguments[n].to_le_bytes()).collect())
            .collect();
        let out = evaluate(op, DType::F64, &columns, rows.len());
        let found = out.chunks(8).map(|c| f64::from_le_bytes(c.try_into().expect("8 bytes")));
        let mut worst = (0.0, String::new());
        for (row, found) in rows.iter().zip(found) {
            let unit = unit_double(row.nearest);
            let mut error = ulps(found, row.nearest, row.rest, unit);
            if (found - row.nearest).abs() < bar.absolute * f64::EPSILON {
                error = 0.0;
            }
            if error > worst.0 {
                worst = (error, format!("{:?}: {found:e}, not {:e}", row.arguments, row.nearest));
            }
        }
        println!("f64 {:34} {:8.3} ulp at {}", bar.op, worst.0, worst.1);
        if worst.0 > bar.double {
            let _ = writeln!(faults, "{}: {} ulp at {}", bar.op, worst.0, worst.1);
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// A small generator of bits (splitmix64), so that every run tests the same arguments.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Any bit pattern, or a number of a common size, or one near a small number.
    fn single(&mut self) -> f32 {
        match self.next() % 4 {
            0 => f32::from_bits(self.next() as u32),
            1 => (2f64.powf(self.unit() * 32.0 - 24.0) as f32).copysign(self.unit() as f32 - 0.5),
            2 => (self.unit() as f32 - 0.5) * 4.0,
            _ => (self.unit() as f32 - 0.5) * 220.0,
        }
    }
}

const EDGES: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    3.0,
    -3.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    88.72,
    -87.34,
    -103.97,
    1e10,
    0.99999994,
    1.0000001,
];

#[test]
fn single_precision() {
    let count: usize =
        std::env::var("JAXRS_ACCURACY_COUNT").ok().and_then(|c| c.parse().ok()).unwrap_or(6000);
    let mut faults = String::new();
    for bar in BARS.iter().filter(|bar| wanted(bar)) {
        let op = Elementwise::from_name(bar.op).expect("an op");
        let mut bits = Bits(bar.op.len() as u64);
        let mut columns: Vec<Vec<f32>> = vec![Vec::new(); op.row().arity];
        for first in EDGES {
            for second in EDGES {
                columns[0].push(first);
                if let Some(column) = columns.get_mut(1) {
                    column.push(second);
                }
            }
        }
        while columns[0].len() < count {
            let first = bits.single();
            columns[0].push(first);
            if let Some(column) = columns.get_mut(1) {
                // Every other one such that a power is in range, but may be near its ends.
                let exponent = (bits.unit() - 0.5) * 176.0 / f64::from(first.abs()).ln();
                let any = bits.single();
                column.push(if bits.next().is_multiple_of(2) { any } else { exponent as f32 });
            }
        }
        let rows = columns[0].len();
        let singles: Vec<Vec<u8>> =
            columns.iter().map(|c| c.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
        let doubles: Vec<Vec<u8>> = columns
            .iter()
            .map(|c| c.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect())
            .collect();
        let found = evaluate(op, DType::F32, &singles, rows);
        let exact = evaluate(op, DType::F64, &doubles, rows);
        let mut worst = (0.0, String::new());
        for row in 0..rows {
            let found = f32::from_le_bytes(found[4 * row..4 * row + 4].try_into().expect("4"));
            let exact = f64::from_le_bytes(exact[8 * row..8 * row + 8].try_into().expect("8"));
            let nearest = f64::from(exact as f32);
            let unit = unit_single(exact);
            let rest = if nearest == exact || nearest.is_infinite() {
                0.0
            } else {
                (exact - nearest) / unit
            };
            let mut error = ulps(found.into(), nearest, rest, unit);
            if (f64::from(found) - exact).abs() < bar.absolute * f64::from(f32::EPSILON) {
                error = 0.0;
            }
            if error > worst.0 {
                let arguments: Vec<f32> = columns.iter().map(|c| c[row]).collect();
                worst = (error, format!("{arguments:?}: {found:e}, not {exact:e}"));
            }
        }
        println!("f32 {:34} {:8.3} ulp at {}", bar.op, worst.0, worst.1);
        if worst.0 > bar.single {
            let _ = writeln!(faults, "{}: {} ulp at {}", bar.op, worst.0, worst.1);
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
