//! Contractions with few rows on one side: matrix times vector and the like. Nothing of the matrix
//! is packed, so that they need little scratch.

use crate::DType;
use crate::contraction::{Arithmetic, Contraction};

/// Most rows of the thin side.
pub const THIN: u64 = 16;
/// Most of them where strips are added to: tiles read a matrix of numbers in place, too.
const THIN_STRIP: [u64; 2] = [4, 8];
/// Depth of a block of dot products.
pub const DOT_BLOCK: u64 = 512;

/// A contraction with a thin left side.
#[derive(Clone, Debug)]
pub struct Thin {
    /// The contraction, turned so that its left side is the thin one.
    pub contraction: Contraction,
    /// Whether depth is contiguous, else the right rows.
    pub dots: bool,
    /// Bytes of a number.
    size: u64,
}

impl Thin {
    /// None if the contraction is not thin, or neither its right rows nor its depth are contiguous.
    pub fn of(c: &Contraction, operand_types: [DType; 2], out: DType) -> Option<Thin> {
        let arithmetic = Arithmetic::of(operand_types, out)?;
        let read = match arithmetic {
            Arithmetic::F32 => [DType::F32, DType::BF16, DType::F16].as_slice(),
            Arithmetic::F64 => &[DType::F64],
            Arithmetic::I32 | Arithmetic::I64 => return None,
        };
        let mut c = c.clone();
        let [left, right, depth] = c.extents();
        if right < left {
            c.swap();
        }
        let left = left.min(right);
        let types = if c.swapped { [1, 0] } else { [0, 1] }.map(|i: usize| operand_types[i]);
        let groups = [c.batch.len(), c.rows[0].len(), c.rows[1].len(), c.depth.len()];
        if left > THIN || depth == 0 || !c.checks.is_empty() || out.is_complex() {
            return None;
        }
        if groups.iter().any(|&g| g > 16) || types.iter().any(|dtype| !read.contains(dtype)) {
            return None;
        }
        let strips = matches!(&c.rows[1][..], [axis] if axis.operand == 1);
        let dots = match &c.depth[..] {
            [] => true,
            [axis] => axis.right == 1,
            _ => false,
        };
        // Short dot products are better done side by side, long ones on their own.
        let dots = dots && (!strips || depth >= 32);
        if !dots && !strips {
            return None;
        }
        let number = types[1].size() == arithmetic.size();
        if !dots && left > THIN_STRIP[usize::from(!number)] {
            return None;
        }
        Some(Thin { contraction: c, dots, size: arithmetic.size() })
    }

    /// Numbers from one packed left row to the next.
    pub fn left_step(&self) -> u64 {
        self.contraction.extents()[2].min(DOT_BLOCK)
    }

    /// Bytes of the packed left rows.
    pub fn scratch(&self) -> u64 {
        self.contraction.extents()[0] * self.left_step() * self.size
    }
}
