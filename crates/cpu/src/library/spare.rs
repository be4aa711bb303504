//! Memory that a call needs beyond its planned scratch: kept between calls, so that a program that
//! runs again allocates nothing.

use std::sync::{Mutex, PoisonError};

/// Buffers that are not in use.
#[derive(Default)]
pub(super) struct Spare(Mutex<Vec<Vec<u128>>>);

impl Spare {
    /// Calls `f` with memory of at least this many bytes, aligned to 16: `planned` if that is
    /// enough.
    pub(super) fn with<R>(
        &self,
        planned: (*mut u8, usize),
        bytes: usize,
        f: impl FnOnce(*mut u8) -> R,
    ) -> R {
        if bytes <= planned.1 {
            return f(planned.0);
        }
        let items = bytes.div_ceil(16);
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = found.unwrap_or_default();
        if buffer.len() < items {
            buffer = vec![0; items];
        }
        let result = f(buffer.as_mut_ptr().cast());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        result
    }
}
