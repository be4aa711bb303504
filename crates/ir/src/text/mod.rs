//! Parser and printer of StableHLO text.
