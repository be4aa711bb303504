//! What may be spent.

use std::time::Instant;

/// Work and time that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Comparisons of rows.
    pub(super) work: i64,
    pub(super) deadline: Option<Instant>,
    /// Times something was spent, for the clock.
    pub(super) nodes: u64,
}

impl Budget {
    /// Whether anything is left.
    pub(super) fn is_left(&self) -> bool {
        self.work > 0 && !self.is_late()
    }

    /// Whether the time is up.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() >= end)
    }

    /// Spends work; false if nothing is left then. Looks at the clock now and then.
    pub(super) fn spend(&mut self, work: usize) -> bool {
        self.work -= work as i64;
        self.nodes += 1;
        if self.nodes.is_multiple_of(256) && self.is_late() {
            self.work = self.work.min(0);
        }
        self.work > 0
    }

    /// Spends work, if that much is left.
    pub(super) fn take(&mut self, work: usize) -> Option<()> {
        if work as i64 > self.work {
            return None;
        }
        self.spend(work);
        Some(())
    }
}
