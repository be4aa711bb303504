//! What is to be packed, and how low it can be at best.

/// What takes room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// First time it is live.
    pub lower: u64,
    /// First time it is dead.
    pub upper: u64,
    /// Its size.
    pub size: u64,
    /// Its offset is a multiple of this; 0 counts as 1.
    pub alignment: u64,
    /// Times inside at which it is not live, ascending, half-open.
    pub gaps: Vec<(u64, u64)>,
    /// Where it stands if that is given.
    pub offset: Option<u64>,
}

/// Rows to place.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// The rows.
    pub rows: Vec<Row>,
}

impl Row {
    /// The stretches in which the row is live.
    pub fn live(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ends = self.gaps.iter().map(|g| g.0).chain([self.upper]);
        let starts = [self.lower].into_iter().chain(self.gaps.iter().map(|g| g.1));
        starts.zip(ends).filter(|(a, b)| a < b)
    }

    /// Whether two rows are ever live together.
    pub fn overlaps(&self, other: &Row) -> bool {
        if self.lower >= other.upper || other.lower >= self.upper {
            return false;
        }
        if self.gaps.is_empty() && other.gaps.is_empty() {
            return true;
        }
        self.live().any(|(a, b)| other.live().any(|(c, d)| a < d && c < b))
    }
}

impl Problem {
    /// The largest sum of sizes that are live at one time, or the highest end of a row with a given
    /// offset.
    pub fn lower_bound(&self) -> u64 {
        let ends = self.rows.iter().filter_map(|r| r.offset.map(|offset| offset + r.size));
        self.loads().into_iter().map(|l| l.1).chain(ends).max().unwrap_or(0)
    }

    /// The sum of sizes from each time at which it changes.
    pub fn loads(&self) -> Vec<(u64, u64)> {
        let mut events: Vec<(u64, bool, u64)> = Vec::new();
        for row in &self.rows {
            for (start, end) in row.live() {
                events.push((start, true, row.size));
                events.push((end, false, row.size));
            }
        }
        events.sort_unstable();
        let mut loads: Vec<(u64, u64)> = Vec::new();
        let mut load = 0;
        for (time, starts, size) in events {
            load = if starts { load + size } else { load - size };
            match loads.last_mut() {
                Some(last) if last.0 == time => last.1 = load,
                _ => loads.push((time, load)),
            }
        }
        loads
    }

    /// The highest end of any row.
    pub fn height(&self, offsets: &[u64]) -> u64 {
        self.rows.iter().zip(offsets).map(|(r, o)| o + r.size).max().unwrap_or(0)
    }
}
