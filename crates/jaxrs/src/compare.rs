//! Comparison of results with expected ones.

use crate::tensor::Tensor;
use jaxrs_ir::{DType, Literal};

/// How far an element may be from the expected one: `|got - expected| <= atol + rtol * |expected|`
/// (complex: moduli; NaN equals NaN, infinities equal themselves, integers are equal).
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerance {
    /// Relative to the expected value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
    /// The share of a tensor's elements that may be farther.
    pub mismatch_fraction: f64,
}

/// The element as real and imaginary part; integers exactly up to 2^53.
fn element(literal: &Literal, position: u64) -> (f64, f64) {
    let dtype = literal.ty().dtype;
    let float = |bits: u64| match dtype.part() {
        DType::F64 => f64::from_bits(bits),
        _ => f64::from(f32::from_bits(bits as u32)),
    };
    if dtype.is_complex() {
        (float(literal.bits(position, 0)), float(literal.bits(position, 1)))
    } else if dtype.is_float() {
        (float(literal.bits(position, 0)), 0.0)
    } else if dtype == DType::U64 {
        (literal.bits(position, 0) as f64, 0.0)
    } else {
        (literal.int(position) as f64, 0.0)
    }
}

/// What differs between two tensors, or None where nothing does: how many elements, and the first.
pub fn difference(got: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Option<String> {
    if got.ty != expected.ty {
        return Some(format!("it is {}, expected {}", got.ty, expected.ty));
    }
    let (a, b) = (
        Literal::dense(got.ty.clone(), got.bytes.clone()),
        Literal::dense(expected.ty.clone(), expected.bytes.clone()),
    );
    let exact = !(got.ty.dtype.is_float() || got.ty.dtype.is_complex());
    let (mut differ, mut first) = (0u64, None);
    for position in 0..got.ty.len() {
        let right = if exact {
            a.bits(position, 0) == b.bits(position, 0)
        } else {
            near(element(&a, position), element(&b, position), tolerance)
        };
        if !right {
            differ += 1;
            first.get_or_insert(position);
        }
    }
    let allowed = (got.ty.len() as f64 * tolerance.mismatch_fraction).ceil() as u64;
    let first = first.filter(|_| differ > allowed)?;
    let show = |literal: &Literal| match element(literal, first) {
        (re, _) if !got.ty.dtype.is_complex() => re.to_string(),
        (re, im) => format!("({re}, {im})"),
    };
    Some(format!(
        "{differ} of {} elements differ, first at {:?}: {} for {}",
        got.ty.len(),
        index(first, &got.ty.shape),
        show(&a),
        show(&b)
    ))
}

fn near(got: (f64, f64), expected: (f64, f64), tolerance: Tolerance) -> bool {
    let same = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan());
    if same(got.0, expected.0) && same(got.1, expected.1) {
        return true;
    }
    let distance = (got.0 - expected.0).hypot(got.1 - expected.1);
    distance <= tolerance.atol + tolerance.rtol * expected.0.hypot(expected.1)
        && distance.is_finite()
}

fn index(position: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = position;
    let mut index: Vec<u64> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let at = rest % extent.max(1);
            rest /= extent.max(1);
            at
        })
        .collect();
    index.reverse();
    index
}
