//! The latest requests, for tests that ask what was sent, and how many there were of each kind, for
//! who measures.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use serde_json::Value;

/// Older ones are forgotten, unless told otherwise.
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
    /// Name of the user, or of whom it acted as.
    pub user: String,
    /// HTTP status; of a watch, the status it was opened with.
    pub status: u16,
    /// Whether no role of the user allowed it.
    pub denied: bool,
    /// Address of the HTTPS door it came through; `None` is the in-process one.
    pub door: Option<SocketAddr>,
    /// What was said, while contents are kept.
    pub content: Option<Arc<Content>>,
    /// The revision of the latest change in the server when it was answered. Where one request is
    /// handled at a time, the changes since the record before are those of this request.
    pub revision: u64,
}

/// What a request and its answer said.
#[derive(Debug, PartialEq, Eq)]
pub struct Content {
    /// The `Content-Type` header of the request.
    pub content_type: String,
    /// Body of the request.
    pub body: Bytes,
    /// The object that the path names, as it was stored when the request came.
    pub before: Option<Value>,
    /// Body of the answer; empty for one that comes in pieces.
    pub answer: Bytes,
}

/// Said of a request by the door it came through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Through(pub(crate) SocketAddr);

/// How many requests there were, by verb and resource.
pub type RequestCounts = BTreeMap<(String, String), u64>;

/// A bounded log of requests, and a count of all.
#[derive(Debug)]
pub struct RequestLog {
    kept: usize,
    requests: Mutex<Requests>,
    contents: AtomicBool,
}

#[derive(Debug, Default)]
struct Requests {
    latest: VecDeque<RequestRecord>,
    /// By the product of the user agent: what comes before the first slash.
    counts: BTreeMap<String, RequestCounts>,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self::of_latest(KEPT)
    }
}

impl RequestLog {
    /// Keeps so many requests, and counts all of them.
    pub(crate) fn of_latest(kept: usize) -> Self {
        Self {
            kept,
            requests: Mutex::default(),
            contents: AtomicBool::default(),
        }
    }

    /// Keeps what requests say from now on.
    pub(crate) fn keep_contents(&self) {
        self.contents.store(true, Ordering::Relaxed);
    }

    pub(crate) fn keeps_contents(&self) -> bool {
        self.contents.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, record: RequestRecord) {
        let mut requests = self.lock();
        let product = record.user_agent.split('/').next().unwrap_or_default();
        let counts = match requests.counts.get_mut(product) {
            Some(counts) => counts,
            None => requests.counts.entry(product.to_owned()).or_default(),
        };
        *counts
            .entry((record.verb.clone(), record.resource.clone()))
            .or_default() += 1;
        requests.latest.push_back(record);
        if requests.latest.len() > self.kept {
            requests.latest.pop_front();
        }
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
        self.requests
            .lock()
            .expect("nothing panics while it holds the lock")
    }
}
