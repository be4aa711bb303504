//! The memory of library calls that is no value: what the planner places and the library uses.

use crate::DType;
use crate::contraction::{Arithmetic, Blocks, Contraction};
use crate::program::{Bytes, Library, Scratch, Sort, SortOrder};

/// Most bytes for each thread.
pub const LIMIT: u64 = 1 << 20;

/// The scratch of a library call.
pub fn scratch(library: &Library) -> Scratch {
    let bytes = match library {
        Library::Dot(dot) => contraction(&Contraction::of_dot(dot), dot.operand_types, dot.out),
        Library::Convolution(conv) => Contraction::of_convolution(conv)
            .unwrap_or_default()
            .iter()
            .map(|c| contraction(c, conv.operand_types, conv.out))
            .max()
            .unwrap_or(0),
        Library::Sort(sort) => sort_bytes(sort),
        Library::TopK { k } => top_k_bytes(*k),
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

/// A row that does not fit is sorted in memory that the library allocates.
fn sort_bytes(sort: &Sort) -> u64 {
    let row = sort_row(sort);
    if row > LIMIT { 0 } else { row }
}

fn contraction(one: &Contraction, operands: [DType; 2], out: DType) -> u64 {
    let Some(arithmetic) = Arithmetic::of(operands, out) else { return 0 };
    let [_, right, depth] = one.extents();
    let parts = out.parts();
    Blocks::new(arithmetic, out, right * parts, depth * parts).layout()[3]
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
