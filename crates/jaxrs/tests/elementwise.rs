//! Every elementwise op of every element type: compiled code, vectors and scalar, equals the
//! interpreter bit for bit, NaN payloads aside.

use jaxrs_cpu::LoneKernel;
use jaxrs_ir::lower::Scalar;
use jaxrs_ir::ops::Elementwise;
use jaxrs_ir::ops::elementwise::{Row, TABLE};
use jaxrs_kernel::builder::{LoopOptions, parallel};
use jaxrs_kernel::interp::{Column, run_each, widen};
use jaxrs_kernel::kernel::Access;
use jaxrs_kernel::{Affine, DType, Kernel, KernelBuilder, ParamId, RegType};

/// More than two vectors and no multiple of any.
const COUNT: usize = 77;

/// The op over [`COUNT`] elements.
fn kernel(row: &Row, dtype: DType) -> Kernel {
    let mut b = KernelBuilder::new(row.name);
    let result = (row.result)(dtype);
    let len = |dtype: DType| COUNT as u64 * dtype.parts();
    let operands: Vec<ParamId> =
        (0..row.arity).map(|_| b.param(dtype.part(), len(dtype), Access::Read)).collect();
    let out = b.param(result.part(), len(result), Access::Write);
    b.set_range(COUNT as u64);
    let options = LoopOptions { ranged: true, split: false };
    parallel(&mut b, COUNT as i64, options, |b, index| {
        let at = |dtype: DType, part: u64| -> Affine {
            index.scale(dtype.parts() as i64).offset(part as i64)
        };
        let elements: Vec<Scalar> = operands
            .iter()
            .map(|&id| {
                let parts: Vec<_> =
                    (0..dtype.parts()).map(|part| b.load(id, at(dtype, part))).collect();
                Scalar::from_parts(&parts)
            })
            .collect();
        let value = row.element(b, dtype, &elements);
        for (part, reg) in value.parts().into_iter().enumerate() {
            b.store(out, at(result, part as u64), reg);
        }
    });
    b.finish()
}

/// Edge values, common sizes and arbitrary bits.
fn arguments(dtype: DType, mut seed: u64) -> Vec<u8> {
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        -3.0,
        88.5,
        -104.0,
        1e30,
        -1e30,
        1e5,
        1e-40,
        -1e-42,
        7e22,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e300,
        -5e-320,
        710.0,
    ];
    let mut out = Vec::new();
    for n in 0..COUNT * dtype.parts() as usize {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let bits = seed >> 11;
        let unit = bits as f64 * 2f64.powi(-53) - 0.5;
        let at = (n as u64 * 5 + seed % 3) as usize;
        let float = match n % 3 {
            0 => edges[at % edges.len()],
            1 => unit * 8.0,
            _ => unit * 300.0,
        };
        match dtype.part() {
            DType::I1 => out.push(bits as u8 & 1),
            DType::BF16 => out.extend(half::bf16::from_f64(float).to_le_bytes()),
            DType::F16 => out.extend(half::f16::from_f64(float).to_le_bytes()),
            DType::F32 => out.extend((float as f32).to_le_bytes()),
            DType::F64 => out.extend(float.to_le_bytes()),
            int => {
                let small = if n % 3 == 0 { bits & 3 } else { bits << (bits % 7) };
                out.extend(&small.to_le_bytes()[..int.size() as usize]);
            }
        }
    }
    out
}

/// Equal bits, NaN payloads aside.
fn same(dtype: DType, x: &[u8], y: &[u8]) -> bool {
    let bits = [x, y].map(|bytes| widen(bytes, dtype));
    let nan = bits.map(|bits| match dtype.reg() {
        RegType::F32 => f32::from_bits(bits as u32).is_nan(),
        RegType::F64 => f64::from_bits(bits).is_nan(),
        _ => false,
    });
    bits[0] == bits[1] || nan == [true; 2]
}

fn check(row: &Row, dtype: DType, faults: &mut String) {
    let op = Elementwise::from_name(row.name).expect("a row of the table");
    let columns: Vec<Vec<u8>> = (0..row.arity).map(|n| arguments(dtype, 3 + n as u64)).collect();
    let views: Vec<Column<'_>> = columns.iter().map(|c| Column::Each(c)).collect();
    let expected = run_each(&op.kernel(dtype), &views, COUNT).pop().expect("one result");
    let kernel = kernel(row, dtype);
    let part = (row.result)(dtype).part();
    let size = part.size() as usize;
    let codes = [("vector", LoneKernel::new(&kernel)), ("scalar", LoneKernel::scalar(&kernel))];
    for (kind, code) in codes {
        let code = code.unwrap_or_else(|e| panic!("{} of {dtype}: {e}\n{kernel}", row.name));
        let mut found = vec![0; expected.len()];
        let mut inputs = columns.clone();
        let mut buffers: Vec<&mut [u8]> = inputs.iter_mut().map(Vec::as_mut_slice).collect();
        buffers.push(&mut found);
        code.run(&mut buffers, 0, COUNT as i64);
        let differs = (0..found.len() / size).find(|&at| {
            let range = at * size..(at + 1) * size;
            !same(part, &found[range.clone()], &expected[range])
        });
        if let Some(at) = differs {
            let range = at * size..(at + 1) * size;
            let element = at / (row.result)(dtype).parts() as usize;
            let inputs: Vec<Vec<u8>> = columns
                .iter()
                .map(|c| c.chunks(dtype.size() as usize).nth(element).expect("there").to_vec())
                .collect();
            *faults += &format!(
                "{} of {dtype}, {kind} code, element {element} of {inputs:x?}: {:x?}, interpreter \
                 {:x?}\n",
                row.name,
                &found[range.clone()],
                &expected[range]
            );
        }
    }
}

#[test]
fn compiled_elementwise_ops_equal_the_interpreter() {
    let mut faults = String::new();
    for row in TABLE {
        for dtype in DType::ALL.into_iter().filter(|&dtype| (row.accepts)(dtype)) {
            check(row, dtype, &mut faults);
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
