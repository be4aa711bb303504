//! What the ops of linear algebra share. Each works on the matrices of the last two axes; the axes
//! before count matrices. What a routine does, and LAPACK's conventions that it keeps to, are in
//! [`jaxrs_kernel::linalg`], which the interpreter runs as it is.

mod rules;

use super::Signature;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::linalg::{Call, Complex, Memory, Part, Place, Plain, Routine, Scalar, cells};
use jaxrs_kernel::program::{Library, Linalg};
use std::cell::Cell;

/// The rows and columns of the matrices of an operand; an error where it has none.
pub(super) fn matrices(what: &str, ty: &TensorType) -> Result<[u64; 2], String> {
    let class_fits = ty.dtype.is_float() || ty.dtype.is_complex();
    if !class_fits {
        return Err(format!("{what}: element type {} is not taken", ty.dtype));
    }
    match ty.shape[..] {
        [.., rows, columns] if rows.max(columns) <= i32::MAX as u64 => Ok([rows, columns]),
        [.., _, _] => Err(format!("{what}: the matrices of {ty} are too large")),
        _ => Err(format!("{what}: {ty} has no two axes")),
    }
}

/// The only operand's matrices, for routines without narrow floats.
pub(super) fn operand(what: &str, signature: &Signature) -> Result<[u64; 2], String> {
    signature.expect(what, 1, 0)?;
    wide(what, &signature.operands[0])?;
    matrices(what, &signature.operands[0])
}

/// An error for narrow floats: these routines have none, as in LAPACK.
pub(super) fn wide(what: &str, ty: &TensorType) -> Result<(), String> {
    match ty.dtype {
        DType::BF16 | DType::F16 => {
            Err(format!("{what}: element type {} is not taken; convert to f32", ty.dtype))
        }
        _ => Ok(()),
    }
}

/// An error unless the matrices are square; their extent.
pub(super) fn square(what: &str, ty: &TensorType) -> Result<u64, String> {
    let [rows, columns] = matrices(what, ty)?;
    if rows != columns {
        return Err(format!("{what}: the matrices of {ty} are not square"));
    }
    Ok(rows)
}

/// The type with other extents in place of the last two, and perhaps another element type.
pub(super) fn with_last(
    what: &str,
    ty: &TensorType,
    last: &[u64],
    dtype: DType,
) -> Result<TensorType, String> {
    let mut shape = ty.shape[..ty.rank() - 2].to_vec();
    shape.extend(last);
    TensorType::checked(what, shape, dtype)
}

/// A call of the library on operands whose first result has this type.
pub(super) fn lower<'a>(routine: Routine, first: &TensorType) -> Lowering<'a> {
    Lowering::Library(Library::Linalg(linalg(routine, first)))
}

fn linalg(routine: Routine, first: &TensorType) -> Linalg {
    let rank = first.rank();
    Linalg {
        routine,
        dtype: first.dtype,
        batch: first.shape[..rank - 2].iter().product(),
        shape: [first.shape[rank - 2], first.shape[rank - 1]],
    }
}

/// The results of a routine.
pub(super) fn evaluate(
    routine: Routine,
    operands: &[Literal],
    results: &[TensorType],
) -> Vec<Literal> {
    match jaxrs_kernel::linalg::computed(results[0].dtype) {
        DType::F32 => evaluate_as::<f32>(routine, operands, results),
        DType::F64 => evaluate_as::<f64>(routine, operands, results),
        DType::C64 => evaluate_as::<Complex<f32>>(routine, operands, results),
        DType::C128 => evaluate_as::<Complex<f64>>(routine, operands, results),
        _ => unreachable!("infer takes floats and complex numbers only"),
    }
}

fn evaluate_as<S: Scalar>(
    routine: Routine,
    operands: &[Literal],
    results: &[TensorType],
) -> Vec<Literal> {
    let Linalg { batch, shape, .. } = linalg(routine, &results[0]);
    let shape = shape.map(|extent| extent as usize);
    let (count, begin) = routine.operands();
    let mut beside = if count == 2 { numbers::<S>(&operands[1 - begin]) } else { Vec::new() };
    let mut first = numbers::<S>(&operands[begin]);
    let mut buffers = Results::<S>::default();
    for &place in routine.results() {
        let len = batch as usize * routine.len(place, shape);
        match place {
            Place::First => {}
            Place::More(n) => buffers.more[n] = vec![S::default(); len],
            Place::Values => buffers.values = vec![S::Part::default(); len],
            Place::Pivots => buffers.pivots = vec![0; len],
            Place::Info => buffers.info = vec![0; len],
        }
    }
    let [elements, wide] = routine.memory(shape);
    let (mut elements, mut wide) = (vec![S::default(); elements], vec![0.0; wide]);
    // One matrix's part of each.
    fn part<T>(all: &mut [T], n: usize, batch: u64) -> &[Cell<T>] {
        let each = all.len() / batch.max(1) as usize;
        cells(&mut all[n * each..(n + 1) * each])
    }
    for n in 0..batch as usize {
        let [left, right] = &mut buffers.more;
        let call = Call {
            shape,
            beside: part(&mut beside, n, batch),
            first: part(&mut first, n, batch),
            more: [part(left, n, batch), part(right, n, batch)],
            values: part(&mut buffers.values, n, batch),
            pivots: part(&mut buffers.pivots, n, batch),
            info: part(&mut buffers.info, n, batch).first(),
        };
        routine.run(Plain, &call, Memory { elements: &mut elements, wide: &mut wide });
    }
    let literal = |(&place, ty): (&Place, &TensorType)| match place {
        Place::First => of_numbers(ty, &first),
        Place::More(n) => of_numbers(ty, &buffers.more[n]),
        Place::Values => of_values(ty, &buffers.values),
        Place::Pivots => of_integers(ty, &buffers.pivots),
        Place::Info => of_integers(ty, &buffers.info),
    };
    routine.results().iter().zip(results).map(literal).collect()
}

/// The results of all matrices but the first.
#[derive(Default)]
struct Results<S: Scalar> {
    more: [Vec<S>; 2],
    values: Vec<S::Part>,
    pivots: Vec<i32>,
    info: Vec<i32>,
}

/// The elements of a tensor.
fn numbers<S: Scalar>(literal: &Literal) -> Vec<S> {
    let wide = literal.ty().dtype.part() == DType::F64;
    let part = |bits: u64| {
        if wide { f64::from_bits(bits) } else { f32::from_bits(bits as u32).into() }
    };
    let number = |at| {
        let [re, im] = literal.parts(at);
        S::new(part(re), part(im))
    };
    (0..literal.ty().len()).map(number).collect()
}

fn of_numbers<S: Scalar>(ty: &TensorType, numbers: &[S]) -> Literal {
    let dtype = ty.dtype.part();
    Literal::tabulate(ty.clone(), |at| {
        let number = numbers[at as usize];
        [bits(dtype, number.re()), bits(dtype, number.im())]
    })
}

fn of_values<P: Part>(ty: &TensorType, values: &[P]) -> Literal {
    Literal::tabulate(ty.clone(), |at| [bits(ty.dtype, values[at as usize].wide()), 0])
}

fn of_integers(ty: &TensorType, integers: &[i32]) -> Literal {
    Literal::tabulate(ty.clone(), |at| [u64::from(integers[at as usize] as u32), 0])
}

/// The register bits of a number that the type has.
fn bits(dtype: DType, value: f64) -> u64 {
    if dtype == DType::F64 { value.to_bits() } else { u64::from((value as f32).to_bits()) }
}
