//! A problem in the flat form that the search reads: rows, the sections of time that they are live
//! in, and which of them meet.
//!
//! A *section* is a largest set of rows that are live at one time, as in MiniMalloc (Moffitt, ASPLOS
//! 2023): one ends where a row ends after another has started. Sizes, alignments and fixed offsets
//! are divided by their greatest common divisor.

use super::Problem;

/// Lists of numbers, one after another.
#[derive(Debug, Default)]
pub(super) struct Lists<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T> Lists<T> {
    fn new() -> Lists<T> {
        Lists { starts: vec![0], items: Vec::new() }
    }

    fn end(&mut self) {
        self.starts.push(self.items.len() as u32);
    }

    /// One list.
    pub(super) fn at(&self, index: usize) -> &[T] {
        &self.items[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

/// Rows that take room, numbered by their starts.
#[derive(Debug, Default)]
pub(super) struct Flat {
    /// The number of each row in the problem.
    pub(super) row: Vec<u32>,
    pub(super) size: Vec<i64>,
    pub(super) alignment: Vec<i64>,
    /// The given offset, or -1.
    pub(super) fixed: Vec<i64>,
    /// Time from start to end.
    pub(super) width: Vec<u64>,
    /// The first section of each row and the one after its last; in between may be gaps.
    pub(super) hull: Vec<(u32, u32)>,
    /// The stretches of sections in which a row is live.
    pub(super) spans: Lists<(u32, u32)>,
    /// The rows that a row meets.
    pub(super) meets: Lists<u32>,
    /// Those of them with a given offset, by that.
    pub(super) obstacles: Lists<u32>,
    /// The rows of a section.
    pub(super) members: Lists<u32>,
    /// The sections.
    pub(super) sections: usize,
    /// What all sizes are multiples of.
    pub(super) unit: u64,
}

impl Flat {
    /// The rows of nonzero size.
    pub(super) fn new(problem: &Problem) -> Flat {
        let rows = &problem.rows;
        let mut order: Vec<u32> =
            (0..rows.len() as u32).filter(|&i| rows[i as usize].size > 0).collect();
        order.sort_by_key(|&i| (rows[i as usize].lower, i));
        let unit = unit(problem);
        let each = |of: &dyn Fn(&super::Row) -> i64| -> Vec<i64> {
            order.iter().map(|&i| of(&rows[i as usize])).collect()
        };
        let mut flat = Flat {
            size: each(&|r| (r.size / unit) as i64),
            alignment: each(&|r| if r.alignment > 1 { (r.alignment / unit) as i64 } else { 1 }),
            fixed: each(&|r| r.offset.map_or(-1, |o| (o / unit) as i64)),
            width: order.iter().map(|&i| rows[i as usize].upper - rows[i as usize].lower).collect(),
            row: order,
            unit,
            ..Flat::default()
        };
        let spans = flat.find_sections(problem);
        flat.hull = spans.iter().map(|s| (s[0].0, s[s.len() - 1].1)).collect();
        flat.list(&spans);
        flat
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.size.len()
    }

    /// Counts the sections; the stretches of them that each row is live in.
    fn find_sections(&mut self, problem: &Problem) -> Vec<Vec<(u32, u32)>> {
        // Ends come before starts of the same time.
        let mut events: Vec<(u64, bool, u32)> = Vec::new();
        for (i, &row) in self.row.iter().enumerate() {
            for (start, end) in problem.rows[row as usize].live() {
                events.push((end, false, i as u32));
                events.push((start, true, i as u32));
            }
        }
        events.sort_unstable();
        let mut spans: Vec<Vec<(u32, u32)>> = vec![Vec::new(); self.len()];
        let (mut section, mut started) = (0, false);
        for (_, starts, row) in events {
            if starts {
                started = true;
                spans[row as usize].push((section, section));
            } else {
                if started {
                    section += 1;
                    started = false;
                }
                let last = spans[row as usize].last_mut().expect("a stretch starts before it ends");
                last.1 = section;
            }
        }
        // A gap in which no section ends is none.
        for spans in &mut spans {
            spans.retain(|s| s.0 < s.1);
            spans.dedup_by(|next, last| {
                let joined = next.0 <= last.1;
                if joined {
                    last.1 = next.1;
                }
                joined
            });
        }
        self.sections = section as usize;
        spans
    }

    fn list(&mut self, spans: &[Vec<(u32, u32)>]) {
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); self.sections];
        self.spans = Lists::new();
        for (i, spans) in spans.iter().enumerate() {
            for &(from, to) in spans {
                self.spans.items.push((from, to));
                for section in &mut members[from as usize..to as usize] {
                    section.push(i as u32);
                }
            }
            self.spans.end();
        }
        self.members = Lists::new();
        for section in members {
            self.members.items.extend(section);
            self.members.end();
        }
        self.meets = Lists::new();
        self.obstacles = Lists::new();
        let mut seen = vec![u32::MAX; self.len()];
        for (i, spans) in spans.iter().enumerate() {
            seen[i] = i as u32;
            let from = self.meets.items.len();
            for section in spans.iter().flat_map(|s| s.0..s.1) {
                for &other in self.members.at(section as usize) {
                    if seen[other as usize] != i as u32 {
                        seen[other as usize] = i as u32;
                        self.meets.items.push(other);
                    }
                }
            }
            self.meets.items[from..].sort_unstable();
            let fixed = self.meets.items[from..].iter().filter(|&&j| self.fixed[j as usize] >= 0);
            let mut fixed: Vec<u32> = fixed.copied().collect();
            fixed.sort_by_key(|&j| self.fixed[j as usize]);
            self.obstacles.items.extend(fixed);
            self.meets.end();
            self.obstacles.end();
        }
    }
}

/// What all sizes, alignments and fixed offsets are multiples of.
pub(super) fn unit(problem: &Problem) -> u64 {
    let rows = problem.rows.iter().filter(|r| r.size > 0);
    let unit = rows.fold(0, |unit, row| {
        let unit = divisor(unit, row.size);
        let unit = if row.alignment > 1 { divisor(unit, row.alignment) } else { unit };
        row.offset.map_or(unit, |offset| divisor(unit, offset))
    });
    unit.max(1)
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::Flat;
    use crate::pack::{Problem, Row};

    #[test]
    fn sections_are_the_largest_sets() {
        let row = |lower, upper, size| Row { lower, upper, size, ..Row::default() };
        // The last row's gap lets the second in; the first meets both others.
        let gapped = Row { gaps: vec![(4, 6)], ..row(2, 8, 12) };
        let rows = vec![row(0, 9, 6), row(4, 6, 18), gapped, row(1, 3, 0)];
        let flat = Flat::new(&Problem { rows });
        assert_eq!((flat.unit, flat.sections, flat.len()), (6, 3, 3));
        assert_eq!(flat.row, [0, 2, 1]);
        assert_eq!(flat.spans.at(1), [(0, 1), (2, 3)]);
        assert_eq!(flat.meets.at(0), [1, 2]);
        assert_eq!(flat.meets.at(1), [0]);
    }
}
