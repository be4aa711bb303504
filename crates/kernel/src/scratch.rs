//! The memory of library calls that is no value: what the planner places and the library uses.

use crate::DType;
use crate::contraction::{Arithmetic, Blocks, Contraction};
use crate::program::{Bytes, Fft, FftKind, Library, Linalg, Scratch, Sort, SortOrder};
use crate::thin::Thin;

/// Most bytes for each thread.
pub const LIMIT: u64 = 1 << 20;

/// The scratch of a library call.
pub fn scratch(library: &Library) -> Scratch {
    let bytes = match library {
        Library::Dot(dot) => {
            let one = Contraction::of_dot(dot);
            contraction(&one, dot.operand_types, dot.out, dot.epilogue.is_some())
        }
        Library::Convolution(conv) => Contraction::of_convolution(conv)
            .unwrap_or_default()
            .iter()
            .map(|c| contraction(c, conv.operand_types, conv.out, false))
            .max()
            .unwrap_or(0),
        Library::Sort(sort) => sort_bytes(sort),
        Library::TopK { k } => top_k_bytes(*k),
        Library::Linalg(linalg) => within_limit(linalg_bytes(linalg)),
        Library::Fft(fft) => within_limit(fft_bytes(fft)),
        Library::Print { .. } => 0,
    };
    Scratch { per_thread: Bytes(bytes).aligned() }
}

/// Bytes that one row of a sort needs: two arrays of keys with positions (or of positions alone),
/// and one row of the widest operand.
pub fn sort_row(sort: &Sort) -> u64 {
    let widest = sort.dtypes.iter().map(|d| d.size()).max().unwrap_or(1);
    let item = match sort.order {
        SortOrder::Key { operand, .. } if sort.dtypes[operand as usize].size() > 4 => 16,
        SortOrder::Key { .. } => 8,
        SortOrder::Kernel(_) => 4,
    };
    sort.extents[1].saturating_mul(2 * item + widest).saturating_add(192)
}

/// Bytes of a top-k: twice `k` candidates, unless that is beyond the limit.
pub fn top_k_bytes(k: u64) -> u64 {
    let bytes = k.saturating_mul(32).max(1024);
    if bytes > LIMIT { 0 } else { bytes }
}

/// Bytes of a routine on one matrix. Tensors of narrow floats are computed in wider copies.
pub fn linalg_bytes(linalg: &Linalg) -> u64 {
    let shape = linalg.shape.map(|extent| extent as usize);
    linalg.routine.memory_bytes(shape, linalg.dtype).next_multiple_of(64) + widened_bytes(linalg)
}

/// Bytes of the wider copies of one matrix of each operand; 0 where there is none.
pub fn widened_bytes(linalg: &Linalg) -> u64 {
    let dtype = crate::linalg::computed(linalg.dtype);
    if dtype == linalg.dtype {
        return 0;
    }
    let [rows, columns] = linalg.shape;
    let first = (rows * columns * dtype.size()).next_multiple_of(64);
    let beside = rows.max(columns) * rows.max(columns) * dtype.size();
    if linalg.routine.operands().0 == 1 { first } else { first + beside }
}

/// Lines that are transformed together where they are not neighbours in memory.
pub fn fft_lines(fft: &Fft) -> u64 {
    let line = 32 * fft_longest(fft).max(1);
    if fft.lengths.len() == 1 { 1 } else { (LIMIT / 4 / line).clamp(1, 8) }
}

fn fft_longest(fft: &Fft) -> u64 {
    fft.lengths.iter().copied().max().unwrap_or(0)
}

/// Bytes of the lines of a transform and of what transforms them; enough for all lengths but a few,
/// for which the library allocates the rest.
pub fn fft_bytes(fft: &Fft) -> u64 {
    let longest = fft_longest(fft);
    // A length with a large prime factor is padded to more than twice.
    let hard = fft.lengths.iter().any(|&length| largest_factor(length) > 13);
    let odd = fft.kind.is_real() && fft.lengths.last().is_some_and(|length| length % 2 == 1);
    let lines = 2 * fft_lines(fft)
        + if hard {
            8
        } else if odd {
            3
        } else {
            0
        };
    let elements = lines.saturating_mul(longest).saturating_add(16);
    let slab = fft_slab(fft);
    (elements + slab).saturating_mul(2 * fft.part.size())
}

/// Complex elements between the axes of a real inverse of several axes.
pub fn fft_slab(fft: &Fft) -> u64 {
    match fft.kind {
        FftKind::RealInverse if fft.lengths.len() > 1 => fft.complex_extents().iter().product(),
        _ => 0,
    }
}

fn largest_factor(mut number: u64) -> u64 {
    let mut factor = 2;
    while factor * factor <= number {
        if number.is_multiple_of(factor) {
            number /= factor;
        } else {
            factor += 1;
        }
    }
    number
}

/// What is beyond the limit is memory that the library allocates.
fn within_limit(bytes: u64) -> u64 {
    if bytes > LIMIT { 0 } else { bytes }
}

/// A row that does not fit is sorted in memory that the library allocates.
fn sort_bytes(sort: &Sort) -> u64 {
    let row = sort_row(sort);
    if row > LIMIT { 0 } else { row }
}

fn contraction(one: &Contraction, operands: [DType; 2], out: DType, apart: bool) -> u64 {
    let Some(arithmetic) = Arithmetic::of(operands, out) else { return 0 };
    // What has an epilogue is computed by blocks.
    if !apart && let Some(thin) = Thin::of(one, operands, out) {
        return thin.scratch();
    }
    let [left, right, depth] = one.extents();
    let parts = out.parts();
    let blocks = Blocks::new(arithmetic, out, right * parts, depth * parts);
    if apart { blocks.apart(left) } else { blocks }.layout()[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Dot, DotAxis};

    #[test]
    fn contractions_keep_to_the_limit() {
        let axis = |extent, lhs, rhs, out| DotAxis { extent, lhs, rhs, out };
        for (operand, out) in [
            (DType::F32, DType::F32),
            (DType::F64, DType::F64),
            (DType::C128, DType::C128),
            (DType::BF16, DType::BF16),
            (DType::I64, DType::I64),
        ] {
            for (m, n, k) in [(1, 1, 1), (4000, 4000, 4000), (7, 70000, 9), (0, 3, 3)] {
                let dot = Dot {
                    operand_types: [operand; 2],
                    out,
                    batch: vec![],
                    m: vec![axis(m, k as i64, 0, n as i64)],
                    n: vec![axis(n, 0, 1, 1)],
                    k: vec![axis(k, 1, n as i64, 0)],
                    begin: Default::default(),
                    epilogue: None,
                };
                let bytes = scratch(&Library::Dot(dot)).per_thread.0;
                assert!(
                    bytes <= LIMIT && bytes.is_multiple_of(64),
                    "{operand} {m}x{n}x{k}: {bytes}"
                );
            }
        }
    }
}
