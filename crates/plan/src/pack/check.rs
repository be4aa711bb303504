//! Whether a packing is one: shares nothing with what makes it but the rows.

use super::Problem;
use std::collections::BTreeMap;

/// What is wrong with a packing; rows by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not one offset for each row.
    #[error("there are {offsets} offsets for {rows} rows")]
    Count {
        /// Offsets given.
        offsets: usize,
        /// Rows of the problem.
        rows: usize,
    },
    /// A row ends beyond what 64 bits hold.
    #[error("row {0} ends beyond 2^64")]
    End(usize),
    /// A row's offset is not a multiple of its alignment.
    #[error("row {0} is not aligned")]
    Alignment(usize),
    /// A row is not at its given offset.
    #[error("row {0} is not at its given offset")]
    Moved(usize),
    /// Two rows share an address while both are live.
    #[error("rows {0} and {1} overlap")]
    Overlap(usize, usize),
}

/// Checks that every row stands where it may and that no two rows share an address while both are
/// live; the height if so. By a sweep over time: O(n log n).
pub fn check(problem: &Problem, offsets: &[u64]) -> Result<u64, Fault> {
    let rows = &problem.rows;
    if offsets.len() != rows.len() {
        return Err(Fault::Count { offsets: offsets.len(), rows: rows.len() });
    }
    let mut height = 0;
    // Time, whether it starts, row; ends before starts.
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (i, (row, &offset)) in rows.iter().zip(offsets).enumerate() {
        height = height.max(offset.checked_add(row.size).ok_or(Fault::End(i))?);
        if row.alignment > 1 && offset % row.alignment != 0 {
            return Err(Fault::Alignment(i));
        }
        if row.offset.is_some_and(|given| given != offset) {
            return Err(Fault::Moved(i));
        }
        let mut from = row.lower;
        for &(to, next) in row.gaps.iter().chain([&(row.upper, row.upper)]) {
            if from < to && row.size > 0 {
                events.push((from, true, i));
                events.push((to, false, i));
            }
            from = next;
        }
    }
    events.sort_unstable();
    // What is live, by offset.
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, starts, i) in events {
        if !starts {
            live.remove(&offsets[i]);
            continue;
        }
        let beneath = live.range(..=offsets[i]).next_back();
        let above = live.range(offsets[i]..).next();
        if let Some((&at, &other)) = beneath
            && at + rows[other].size > offsets[i]
        {
            return Err(Fault::Overlap(other, i));
        }
        if let Some((&at, &other)) = above
            && offsets[i] + rows[i].size > at
        {
            return Err(Fault::Overlap(i, other));
        }
        live.insert(offsets[i], i);
    }
    Ok(height)
}

#[cfg(test)]
mod tests {
    use super::{Fault, check};
    use crate::pack::{Problem, Row};

    #[test]
    fn faults_are_found() {
        let row = |lower, upper, size| Row { lower, upper, size, ..Row::default() };
        let gapped = Row { gaps: vec![(2, 4)], alignment: 4, ..row(0, 6, 8) };
        let fixed = Row { offset: Some(8), ..row(5, 7, 2) };
        let problem = Problem { rows: vec![gapped, row(2, 4, 5), fixed, row(1, 9, 0)] };
        assert_eq!(check(&problem, &[0, 3, 8, 1]), Ok(10));
        assert_eq!(check(&problem, &[4, 3, 8, 1]), Err(Fault::Overlap(0, 2)));
        assert_eq!(check(&problem, &[2, 3, 8, 1]), Err(Fault::Alignment(0)));
        assert_eq!(check(&problem, &[0, 3, 9, 1]), Err(Fault::Moved(2)));
        assert_eq!(check(&problem, &[0, u64::MAX, 8, 1]), Err(Fault::End(1)));
        assert_eq!(check(&problem, &[0]), Err(Fault::Count { offsets: 1, rows: 4 }));
        let problem = Problem { rows: vec![row(0, 3, 4), row(2, 4, 4)] };
        assert_eq!(check(&problem, &[3, 0]), Err(Fault::Overlap(1, 0)));
        assert_eq!(check(&problem, &[0, 0]), Err(Fault::Overlap(0, 1)));
    }
}
