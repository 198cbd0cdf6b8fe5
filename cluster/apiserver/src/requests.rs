//! The latest requests, for assertions of tests, and the number of requests of each kind, for
//! measurements.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;

/// The log drops older requests by default.
const KEPT: usize = 10_000;

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// `get`, `list`, `watch`, ...; the lower case method for paths that name no objects.
    pub verb: String,
    /// `pods`, `pods/status`; empty for paths that name no objects.
    pub resource: String,
    /// Path and query.
    pub path: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Name of the user, after impersonation.
    pub user: String,
    /// HTTP status; for a watch, the status at its start.
    pub status: u16,
    /// Whether authorization refused it.
    pub denied: bool,
    /// Address of the HTTPS port that received it; `None` for requests in the process.
    pub door: Option<SocketAddr>,
    /// Bodies, if the log keeps contents.
    pub content: Option<Arc<Content>>,
    /// The latest revision of the server at the time of the answer. If requests are handled one at
    /// a time, this request made all changes since the previous record.
    pub revision: u64,
    /// Time of the answer.
    pub answered: Instant,
}

/// The bodies of a request and of its answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Content {
    /// The `Content-Type` header of the request.
    pub content_type: String,
    /// Body of the request.
    pub body: Bytes,
    /// The object at the path, as it was before the request.
    pub before: Option<Value>,
    /// Body of the answer; empty for streams such as watches.
    pub answer: Bytes,
}

/// Extension of a request that carries the address of the HTTPS port it came through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Through(pub(crate) SocketAddr);

/// Extension of a request that carries the address of its client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// Number of requests, by verb and resource.
pub type RequestCounts = BTreeMap<(String, String), u64>;

/// The latest requests, and a count of all requests.
#[derive(Debug)]
pub struct RequestLog {
    kept: usize,
    requests: Mutex<Requests>,
    contents: AtomicBool,
}

#[derive(Debug, Default)]
struct Requests {
    latest: VecDeque<RequestRecord>,
    /// By the product of the user agent, the part before the first slash.
    counts: BTreeMap<String, RequestCounts>,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self::of_latest(KEPT)
    }
}

impl RequestLog {
    /// A log of the `kept` latest requests. The count covers all requests.
    pub fn of_latest(kept: usize) -> Self {
        Self {
            kept,
            requests: Mutex::default(),
            contents: AtomicBool::default(),
        }
    }

    /// Whether the log keeps the bodies of requests from now on. At first it does not.
    pub fn keep_contents(&self, kept: bool) {
        self.contents.store(kept, Ordering::Relaxed);
    }

    pub(crate) fn keeps_contents(&self) -> bool {
        self.contents.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, record: RequestRecord) {
        let mut requests = self.lock();
        let product = record.user_agent.split('/').next().unwrap_or_default();
        // The first look-up saves a new key per request, which `entry` would need.
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

    /// Number of all requests from clients with a user agent that starts with `product/`.
    pub fn counts(&self, product: &str) -> RequestCounts {
        self.lock().counts.get(product).cloned().unwrap_or_default()
    }

    /// Drops all records and counts.
    pub fn clear(&self) {
        *self.lock() = Requests::default();
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock()
    }
}
