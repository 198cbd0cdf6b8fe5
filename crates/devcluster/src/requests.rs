//! The latest requests, for tests that ask what was sent, and how many there were of each kind, for who measures.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

/// Older ones are forgotten.
const KEPT: usize = 10_000;

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// `get`, `list`, `watch`, ...; the lower case method where the path names no objects.
    pub verb: String,
    /// `pods`, `pods/status`; empty where the path names no objects.
    pub resource: String,
    /// Path and query.
    pub path: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// HTTP status; of a watch, the status it was opened with.
    pub status: u16,
}

/// How many requests there were, by verb and resource.
pub type RequestCounts = BTreeMap<(String, String), u64>;

/// A bounded log of requests, and a count of all.
#[derive(Debug, Default)]
pub struct RequestLog(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    latest: VecDeque<RequestRecord>,
    /// By the product of the user agent: what comes before the first slash.
    counts: BTreeMap<String, RequestCounts>,
}

impl RequestLog {
    pub(crate) fn add(&self, record: RequestRecord) {
        let mut requests = self.lock();
        if requests.latest.len() == KEPT {
            requests.latest.pop_front();
        }
        let product = record.user_agent.split('/').next().unwrap_or_default();
        let counts = match requests.counts.get_mut(product) {
            Some(counts) => counts,
            None => requests.counts.entry(product.to_owned()).or_default(),
        };
        *counts.entry((record.verb.clone(), record.resource.clone())).or_default() += 1;
        requests.latest.push_back(record);
    }

    /// The latest requests, oldest first.
    pub fn all(&self) -> Vec<RequestRecord> {
        self.lock().latest.iter().cloned().collect()
    }

    /// All requests so far of clients whose user agent starts with `product` and a slash.
    pub fn counts(&self, product: &str) -> RequestCounts {
        self.lock().counts.get(product).cloned().unwrap_or_default()
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        *self.lock() = Requests::default();
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }
}
