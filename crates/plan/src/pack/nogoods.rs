//! What the search has refuted: shared by its orders, restarts and capacities.
//!
//! A state of the search is the set of rows still to come and where each would come to rest now. When
//! a state is searched through in vain, no layout of those rows on that ground exists, whichever order
//! found that out; a lower capacity does not help either. States are kept as 128-bit sums of random
//! numbers, one for each row and its rest (Zobrist hashing), in a table in which the later entry
//! stays.

/// A table of refuted states.
#[derive(Debug)]
pub(super) struct Nogoods {
    /// State and the largest capacity at which it was refuted.
    entries: Vec<(u128, i64)>,
}

/// The number of a row at rest.
pub(super) fn number(row: usize, rest: i64) -> u128 {
    let seed = (rest as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ (row as u64 + 1).wrapping_mul(0xA076_1D64_78BD_642F);
    let half = |mut x: u64| {
        // SplitMix64's finish.
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    };
    let high = half(seed.wrapping_add(0xE703_7ED1_A0B4_28DB));
    u128::from(high) << 64 | u128::from(half(seed ^ high.rotate_left(17)))
}

impl Nogoods {
    /// A table with `1 << bits` places.
    pub(super) fn new(bits: u32) -> Nogoods {
        Nogoods { entries: vec![(0, -1); 1 << bits] }
    }

    fn place(&self, state: u128) -> usize {
        state as usize & (self.entries.len() - 1)
    }

    /// Whether the state is known to fit into no capacity up to this one.
    pub(super) fn refuted(&self, state: u128, capacity: i64) -> bool {
        let entry = self.entries[self.place(state)];
        entry.0 == state && entry.1 >= capacity
    }

    /// Remembers that the state does not fit.
    pub(super) fn refute(&mut self, state: u128, capacity: i64) {
        let at = self.place(state);
        self.entries[at] = (state, capacity);
    }
}
