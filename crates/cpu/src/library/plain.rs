//! Contractions and convolutions as plain loops over any element types, straight from their
//! definitions: for the rare forms that the engine does not take, and to test it against.

use crate::pool::Pool;
use half::{bf16, f16};
use jaxrs_kernel::DType;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::program::{Convolution, Dot, DotAxis};

/// A sum, in a type that the products are exact or nearly exact in.
#[derive(Clone, Copy)]
enum Sum {
    Integer(i64),
    Bool(bool),
    Float(f64),
    Complex(f64, f64),
}

impl Sum {
    fn zero(out: DType) -> Sum {
        match out.class() {
            Class::Bool => Sum::Bool(false),
            Class::Signed | Class::Unsigned => Sum::Integer(0),
            Class::Float => Sum::Float(0.0),
            Class::Complex => Sum::Complex(0.0, 0.0),
        }
    }

    /// Plus the product of two elements, each converted to the sum's type first.
    fn add_product(&mut self, a: Element, b: Element) {
        match self {
            Sum::Integer(sum) => *sum = sum.wrapping_add(a.integer().wrapping_mul(b.integer())),
            Sum::Bool(sum) => *sum |= a.truth() && b.truth(),
            Sum::Float(sum) => *sum += a.float() * b.float(),
            Sum::Complex(re, im) => {
                let ((ar, ai), (br, bi)) = (a.complex(), b.complex());
                *re += ar * br - ai * bi;
                *im += ar * bi + ai * br;
            }
        }
    }

    /// # Safety
    /// The element is there.
    unsafe fn write(self, out: *mut u8, at: i64, dtype: DType) {
        let at = out.wrapping_offset(at as isize * dtype.size() as isize);
        // SAFETY: by the caller.
        unsafe {
            match self {
                Sum::Bool(sum) => at.write(u8::from(sum)),
                Sum::Integer(sum) => {
                    at.copy_from(sum.to_le_bytes().as_ptr(), dtype.size() as usize);
                }
                Sum::Float(sum) => match dtype {
                    DType::BF16 => at.cast::<bf16>().write(bf16::from_f32(sum as f32)),
                    DType::F16 => at.cast::<f16>().write(f16::from_f32(sum as f32)),
                    DType::F32 => at.cast::<f32>().write(sum as f32),
                    _ => at.cast::<f64>().write(sum),
                },
                Sum::Complex(re, im) => match dtype {
                    DType::C64 => at.cast::<[f32; 2]>().write([re as f32, im as f32]),
                    _ => at.cast::<[f64; 2]>().write([re, im]),
                },
            }
        }
    }
}

/// An element of an operand.
#[derive(Clone, Copy)]
enum Element {
    Integer(i64),
    Float(f64),
    Complex(f64, f64),
}

impl Element {
    /// # Safety
    /// The element is there.
    unsafe fn read(base: *const u8, at: i64, dtype: DType) -> Element {
        let at = base.wrapping_offset(at as isize * dtype.size() as isize);
        // SAFETY: by the caller.
        unsafe {
            match dtype {
                DType::I1 | DType::U8 => Element::Integer(i64::from(at.read())),
                DType::I8 => Element::Integer(i64::from(at.cast::<i8>().read())),
                DType::I16 => Element::Integer(i64::from(at.cast::<i16>().read())),
                DType::U16 => Element::Integer(i64::from(at.cast::<u16>().read())),
                DType::I32 => Element::Integer(i64::from(at.cast::<i32>().read())),
                DType::U32 => Element::Integer(i64::from(at.cast::<u32>().read())),
                DType::I64 | DType::U64 => Element::Integer(at.cast::<i64>().read()),
                DType::BF16 => Element::Float(at.cast::<bf16>().read().to_f64()),
                DType::F16 => Element::Float(at.cast::<f16>().read().to_f64()),
                DType::F32 => Element::Float(f64::from(at.cast::<f32>().read())),
                DType::F64 => Element::Float(at.cast::<f64>().read()),
                DType::C64 => {
                    let [re, im] = at.cast::<[f32; 2]>().read();
                    Element::Complex(f64::from(re), f64::from(im))
                }
                DType::C128 => {
                    let [re, im] = at.cast::<[f64; 2]>().read();
                    Element::Complex(re, im)
                }
            }
        }
    }

    fn integer(self) -> i64 {
        match self {
            Element::Integer(value) => value,
            Element::Float(value) | Element::Complex(value, _) => value as i64,
        }
    }

    fn truth(self) -> bool {
        let (re, im) = self.complex();
        re != 0.0 || im != 0.0
    }

    fn float(self) -> f64 {
        self.complex().0
    }

    fn complex(self) -> (f64, f64) {
        match self {
            Element::Integer(value) => (value as f64, 0.0),
            Element::Float(value) => (value, 0.0),
            Element::Complex(re, im) => (re, im),
        }
    }
}

/// Pointers that threads share.
#[derive(Clone, Copy)]
pub(super) struct Buffers {
    pub(super) lhs: *const u8,
    pub(super) rhs: *const u8,
    pub(super) out: *mut u8,
}
// SAFETY: threads write disjoint elements of the result.
unsafe impl Sync for Buffers {}

/// The dot.
///
/// # Safety
/// The buffers hold what the dot reads and writes.
pub(super) unsafe fn dot(dot: &Dot, pool: &Pool, buffers: Buffers) {
    let outer: Vec<DotAxis> = [&dot.batch, &dot.m, &dot.n].into_iter().flatten().copied().collect();
    let count: u64 = outer.iter().map(|a| a.extent).product();
    let depth: u64 = dot.k.iter().map(|a| a.extent).product();
    let buffers = &buffers;
    pool.run(count as i64, 64, |low, high, _| {
        for position in low..high {
            let start = offsets(&outer, position as u64);
            let mut sum = Sum::zero(dot.out);
            // SAFETY: by the caller.
            unsafe {
                for k in 0..depth {
                    let [lhs, rhs, _] = offsets(&dot.k, k);
                    let a = Element::read(buffers.lhs, start[0] + lhs, dot.operand_types[0]);
                    let b = Element::read(buffers.rhs, start[1] + rhs, dot.operand_types[1]);
                    sum.add_product(a, b);
                }
                sum.write(buffers.out, start[2], dot.out);
            }
        }
    });
}

/// The offsets of a row-major position in a group of axes.
fn offsets(axes: &[DotAxis], mut position: u64) -> [i64; 3] {
    let mut offsets = [0; 3];
    for axis in axes.iter().rev() {
        let at = (position % axis.extent) as i64;
        position /= axis.extent;
        offsets[0] += at * axis.lhs;
        offsets[1] += at * axis.rhs;
        offsets[2] += at * axis.out;
    }
    offsets
}

/// The convolution.
///
/// # Safety
/// The buffers hold what the convolution reads and writes.
pub(super) unsafe fn convolution(conv: &Convolution, pool: &Pool, buffers: Buffers) {
    let [lhs, rhs, out] = &conv.shapes;
    let count: u64 = out.iter().product();
    let buffers = &buffers;
    pool.run(count as i64, 64, |low, high, _| {
        let mut index = vec![0; out.len()];
        let mut at = [vec![0; lhs.len()], vec![0; rhs.len()]];
        for position in low..high {
            unravel(position as u64, out, &mut index);
            let mut sum = Sum::zero(conv.out);
            let window: u64 = conv.spatial.iter().map(|s| rhs[s.axis[1]]).product();
            for tap in 0..window {
                if place(conv, &index, tap, &mut at) {
                    // SAFETY: by the caller; the place is inside the input.
                    unsafe { features(conv, &index, &mut at, buffers, &mut sum) };
                }
            }
            // SAFETY: by the caller.
            unsafe { sum.write(buffers.out, position, conv.out) };
        }
    });
}

/// The spatial places of the operands' elements for an output index and a window position; false
/// if the input has none there.
fn place(conv: &Convolution, index: &[u64], mut tap: u64, at: &mut [Vec<u64>; 2]) -> bool {
    let [lhs, rhs, _] = &conv.shapes;
    for axis in &conv.spatial {
        let window = rhs[axis.axis[1]];
        let t = tap % window;
        tap /= window;
        at[1][axis.axis[1]] = if axis.reverse { window - 1 - t } else { t };
        let padded = index[axis.axis[2]] as i64 * axis.stride + t as i64 * axis.rhs_dilation;
        let place = padded - axis.pad_low;
        let dilation = axis.lhs_dilation.max(1);
        if place < 0 || place % dilation != 0 || place / dilation >= lhs[axis.axis[0]] as i64 {
            return false;
        }
        at[0][axis.axis[0]] = (place / dilation) as u64;
    }
    true
}

/// Adds the products over the input features.
///
/// # Safety
/// The spatial places are inside.
unsafe fn features(
    conv: &Convolution,
    index: &[u64],
    at: &mut [Vec<u64>; 2],
    buffers: &Buffers,
    sum: &mut Sum,
) {
    let [lhs, rhs, _] = &conv.shapes;
    let [lhs_feature, rhs_feature, rhs_out, out_feature] = conv.features;
    let [lhs_batch, out_batch] = conv.batch;
    let feature = index[out_feature];
    let outputs = rhs[rhs_out];
    let group = feature / (outputs / conv.feature_groups.max(1)).max(1);
    let batch_groups = conv.batch_groups.max(1);
    let batch_group = feature / (outputs / batch_groups).max(1);
    let images = lhs[lhs_batch] / batch_groups;
    let batch_group = if batch_groups > 1 { batch_group } else { 0 };
    at[0][lhs_batch] = batch_group * images + index[out_batch];
    at[1][rhs_out] = feature;
    let inputs = rhs[rhs_feature];
    for input in 0..inputs {
        at[0][lhs_feature] = if conv.feature_groups > 1 { group * inputs + input } else { input };
        at[1][rhs_feature] = input;
        // SAFETY: by the caller.
        unsafe {
            let a = Element::read(buffers.lhs, ravel(&at[0], lhs), conv.operand_types[0]);
            let b = Element::read(buffers.rhs, ravel(&at[1], rhs), conv.operand_types[1]);
            sum.add_product(a, b);
        }
    }
}

fn unravel(mut position: u64, shape: &[u64], index: &mut [u64]) {
    for (at, &extent) in index.iter_mut().zip(shape).rev() {
        *at = position % extent;
        position /= extent;
    }
}

fn ravel(index: &[u64], shape: &[u64]) -> i64 {
    index.iter().zip(shape).fold(0, |position, (&at, &extent)| position * extent as i64 + at as i64)
}
