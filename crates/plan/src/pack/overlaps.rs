//! Which rows are ever live together, in a form that suits their number.

use super::Row;

/// Which rows are ever live together.
pub(super) enum Overlaps<'a> {
    /// A bit for each pair.
    Bits { words: usize, bits: Vec<u64> },
    /// The rows that each row meets: from where in `lists`, then to where.
    Lists { starts: Vec<u32>, lists: Vec<u32> },
    /// Compared afresh each time.
    Rows(&'a [Row]),
}

/// More rows than this get lists.
pub(super) const MAX_BITS: usize = 8192;

/// More pairs than this are compared afresh each time.
const MAX_PAIRS: usize = 16 << 20;

impl<'a> Overlaps<'a> {
    pub(super) fn new(rows: &'a [Row]) -> Overlaps<'a> {
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        // Rows by their starts: a row meets those that start before it ends.
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_by_key(|&i| rows[i as usize].lower);
        for (at, &i) in order.iter().enumerate() {
            for &j in &order[at + 1..] {
                if rows[j as usize].lower >= rows[i as usize].upper {
                    break;
                }
                if rows[i as usize].overlaps(&rows[j as usize]) {
                    pairs.push((i, j));
                }
            }
            if pairs.len() > MAX_PAIRS && rows.len() > MAX_BITS {
                return Overlaps::Rows(rows);
            }
        }
        if rows.len() <= MAX_BITS {
            let words = rows.len().div_ceil(64);
            let mut bits = vec![0u64; words * rows.len()];
            for (i, j) in pairs {
                let (i, j) = (i as usize, j as usize);
                bits[i * words + j / 64] |= 1 << (j % 64);
                bits[j * words + i / 64] |= 1 << (i % 64);
            }
            return Overlaps::Bits { words, bits };
        }
        let mut starts = vec![0u32; rows.len() + 1];
        for &(i, j) in &pairs {
            starts[i as usize + 1] += 1;
            starts[j as usize + 1] += 1;
        }
        for i in 0..rows.len() {
            starts[i + 1] += starts[i];
        }
        let mut ends = starts.clone();
        let mut lists = vec![0u32; 2 * pairs.len()];
        for (i, j) in pairs {
            for (a, b) in [(i, j), (j, i)] {
                lists[ends[a as usize] as usize] = b;
                ends[a as usize] += 1;
            }
        }
        Overlaps::Lists { starts, lists }
    }

    pub(super) fn meet(&self, i: usize, j: usize) -> bool {
        match self {
            Overlaps::Bits { words, bits } => bits[i * words + j / 64] >> (j % 64) & 1 == 1,
            Overlaps::Lists { .. } => self.list(i).contains(&(j as u32)),
            Overlaps::Rows(rows) => rows[i].overlaps(&rows[j]),
        }
    }

    /// The rows that a row meets; only where there are lists.
    pub(super) fn list(&self, i: usize) -> &[u32] {
        match self {
            Overlaps::Lists { starts, lists } => &lists[starts[i] as usize..starts[i + 1] as usize],
            Overlaps::Bits { .. } | Overlaps::Rows(_) => &[],
        }
    }
}
