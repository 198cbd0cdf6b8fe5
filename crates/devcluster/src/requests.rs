//! The latest requests, for tests that ask what was sent.

use std::collections::VecDeque;
use std::sync::Mutex;

/// Older ones are forgotten.
const KEPT: usize = 10_000;

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// `get`, `list`, `watch`, ...; the lower case method where the path names no objects.
    pub verb: String,
    /// Path and query.
    pub path: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// HTTP status; of a watch, the status it was opened with.
    pub status: u16,
}

/// A bounded log of requests.
#[derive(Debug, Default)]
pub struct RequestLog(Mutex<VecDeque<RequestRecord>>);

impl RequestLog {
    pub(crate) fn add(&self, record: RequestRecord) {
        let mut records = self.lock();
        if records.len() == KEPT {
            records.pop_front();
        }
        records.push_back(record);
    }

    /// The latest requests, oldest first.
    pub fn all(&self) -> Vec<RequestRecord> {
        self.lock().iter().cloned().collect()
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<RequestRecord>> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }
}
