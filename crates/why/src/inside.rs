//! The knowledge that only a running manager has.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Reason;

/// The last failure of a key in a queue, and the number of failures in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error.
    pub error: String,
    /// Its category, as in the log.
    pub category: &'static str,
    /// Verb and path of the refused request.
    pub request: Option<String>,
    /// Failures since the last success.
    pub count: u32,
    /// Time since the first of them.
    pub first: Duration,
    /// Time since the last of them.
    pub last: Duration,
    /// The key returns only after a change of its object.
    pub is_dropped: bool,
}

/// The state of a key in a controller. Times are relative to the time of the read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyState {
    /// The controller.
    pub controller: &'static str,
    /// Time since the key was added to the queue, if no worker has taken it yet.
    pub queued: Option<Duration>,
    /// Number of keys that workers take before this one.
    pub ahead: usize,
    /// Time since a worker took the key, if its sync runs.
    pub running: Option<Duration>,
    /// Time until a delay or back-off of the key ends.
    pub delayed: Option<Duration>,
    /// The last failure; `None` after a success.
    pub failure: Option<Failure>,
    /// The resource whose cache lacks an own write.
    pub awaits_cache: Option<String>,
    /// Creations whose watch events are outstanding.
    pub creations: usize,
    /// Deletions whose watch events are outstanding.
    pub deletions: usize,
    /// Time until these expectations expire.
    pub expire: Option<Duration>,
}

/// A key with failures, for the list of all that is stuck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckKey {
    /// The controller.
    pub controller: &'static str,
    /// The key as the log shows it, usually `namespace/name`.
    pub key: String,
    /// The failure.
    pub failure: Failure,
}

/// The state of a manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagerState {
    /// The identity in the Lease.
    pub identity: String,
    /// Controllers that `--controllers` or their own flags switch off.
    pub switched_off: Vec<String>,
    /// Resources whose caches are not filled.
    pub not_synced: Vec<String>,
    /// Problems of watches, one sentence each.
    pub watches: Vec<String>,
}

/// A dependent of an object in the graph of the garbage collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependent {
    /// API version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// An object in the graph of the garbage collector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Relative {
    /// UID.
    pub uid: String,
    /// API version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UIDs of its owners.
    pub owners: Vec<String>,
    /// Whether only references name the object, and no cache shows it.
    pub is_virtual: bool,
    /// Whether it has a deletion timestamp.
    pub being_deleted: bool,
    /// Whether its foreground deletion waits for its dependents.
    pub waits_for_dependents: bool,
}

/// A running manager that leads.
pub trait Inside: Send + Sync {
    /// The state of `key` in the queues of `controller`; empty without work and failures.
    fn keys(&self, controller: &str, key: &str) -> Vec<KeyState>;

    /// The state of the manager.
    fn manager(&self) -> ManagerState;

    /// Whether the feature gate called `gate` is on in the manager.
    fn enables(&self, gate: &str) -> bool;

    /// The memory of `controller` about `key`, and its requests that wait for the limit of its
    /// client.
    fn memory(&self, controller: &str, key: &str, now: Timestamp) -> Vec<Reason>;

    /// The dependents that block a foreground deletion of the object with this UID.
    fn blocking_dependents(&self, uid: &str) -> Vec<Dependent>;
}
