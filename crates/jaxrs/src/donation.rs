//! How donation went: figures for each jitted function.

use crate::invoke::Donation;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// How donation went at a jitted function, over all calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DonationReport {
    /// The function.
    pub function: String,
    /// Calls.
    pub calls: u64,
    /// Bytes of results that have the memory of donated arguments, which so were not copied.
    pub reused_bytes: u64,
    /// Bytes of donated arguments that were copied, because another handle to them is alive.
    pub copied_bytes: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    calls: AtomicU64,
    reused: AtomicU64,
    copied: AtomicU64,
}

static REPORTED: Mutex<Vec<(&'static str, Arc<Counters>)>> = Mutex::new(Vec::new());

impl Counters {
    /// The counters of a function.
    pub fn new(name: &'static str) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut all = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((name, Arc::clone(&counters)));
        counters
    }

    /// Counts a call.
    pub fn count(&self, donation: Donation) {
        self.calls.fetch_add(1, Relaxed);
        self.reused.fetch_add(donation.reused_bytes, Relaxed);
        self.copied.fetch_add(donation.copied_bytes, Relaxed);
    }
}

/// How donation went, for each jitted function of the process.
pub fn donation_report() -> Vec<DonationReport> {
    let all = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter()
        .map(|(name, counters)| DonationReport {
            function: (*name).to_string(),
            calls: counters.calls.load(Relaxed),
            reused_bytes: counters.reused.load(Relaxed),
            copied_bytes: counters.copied.load(Relaxed),
        })
        .collect()
}
