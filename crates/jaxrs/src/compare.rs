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
pub(crate) fn element(literal: &Literal, position: u64) -> (f64, f64) {
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
    let exact = !(got.ty.dtype.is_float() || got.ty.dtype.is_complex());
    let allowed = |_, size| if exact { 0.0 } else { tolerance.atol + tolerance.rtol * size };
    difference_beyond(got, expected, &allowed, tolerance.mismatch_fraction)
}

/// [`difference`] where an element may be as far off as a function of its position and of the
/// modulus of the expected one says.
pub(crate) fn difference_beyond(
    got: &Tensor,
    expected: &Tensor,
    allowed: &dyn Fn(u64, f64) -> f64,
    mismatch_fraction: f64,
) -> Option<String> {
    if got.ty != expected.ty {
        return Some(format!("it is {}, expected {}", got.ty, expected.ty));
    }
    let (a, b) = (
        Literal::dense(got.ty.clone(), got.bytes.clone()),
        Literal::dense(expected.ty.clone(), expected.bytes.clone()),
    );
    let integer = !(got.ty.dtype.is_float() || got.ty.dtype.is_complex());
    let (mut differ, mut first) = (0u64, None);
    for position in 0..got.ty.len() {
        let (x, y) = (element(&a, position), element(&b, position));
        let allowed = allowed(position, y.0.hypot(y.1));
        let right = if integer && allowed < 1.0 {
            a.bits(position, 0) == b.bits(position, 0)
        } else {
            near(x, y, allowed)
        };
        if !right {
            differ += 1;
            first.get_or_insert(position);
        }
    }
    let allowed = (got.ty.len() as f64 * mismatch_fraction).ceil() as u64;
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

fn near(got: (f64, f64), expected: (f64, f64), allowed: f64) -> bool {
    let same = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan());
    if same(got.0, expected.0) && same(got.1, expected.1) || allowed == f64::INFINITY {
        return true;
    }
    let distance = (got.0 - expected.0).hypot(got.1 - expected.1);
    distance <= allowed && distance.is_finite()
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
