//! The taints that this controller owns: by condition with the effect NoSchedule, and by the
//! `Ready` condition with the effect NoExecute.
//!
//! Key and effect identify a taint; other clients may set its value and its time. The API patches
//! the list of taints as a whole, so an edit starts from the live list and carries its version.
//!
//! Upstream: `doNoScheduleTaintingPass` in `node_lifecycle_controller.go`, `AddOrUpdateTaintOnNode`
//! and `RemoveTaintOffNode` in `controller_utils.go`.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use steersman_objects::Node;
use steersman_values::clock::whole_seconds;

use super::health::Ready;

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Key and effect of a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaintId {
    pub(super) key: &'static str,
    pub(super) effect: &'static str,
}

/// Evicts pods from a node with a silent kubelet.
pub(super) const UNREACHABLE: TaintId = TaintId {
    key: "node.kubernetes.io/unreachable",
    effect: NO_EXECUTE,
};

/// Evicts pods from a node that its kubelet reports as not ready.
pub(super) const NOT_READY: TaintId = TaintId {
    key: "node.kubernetes.io/not-ready",
    effect: NO_EXECUTE,
};

/// (type and status of a condition, key of its NoSchedule taint). A condition with another status
/// brings no taint. Upstream: `nodeConditionToTaintKeyStatusMap`.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY.key),
    ("Ready", "Unknown", UNREACHABLE.key),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Key of the taint of a cordoned node: `spec.unschedulable` is true.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl TaintId {
    /// Whether the cached node has the taint.
    pub(super) fn is_on(self, node: &Node) -> bool {
        let mut taints = node.spec.taints.iter();
        taints.any(|taint| taint.is(self.key, self.effect))
    }

    fn is(self, taint: &Map<String, Value>) -> bool {
        taint.get("key").is_some_and(|key| key == self.key)
            && taint.get("effect").is_some_and(|e| e == self.effect)
    }
}

/// The live state on which a change of taints rests. Without it, the node stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Premise {
    /// The change rests on no condition.
    Always,
    /// The node has this `Ready` condition.
    Ready(Option<Ready>),
}

/// The taint for a node with this `Ready` condition, and the opposite one. A node has at most one
/// of both, as it has one status. Upstream: the `switch` of `doNoExecuteTaintingPass`.
pub(super) fn no_execute(ready: Ready) -> Option<(TaintId, TaintId)> {
    match ready {
        Ready::False => Some((NOT_READY, UNREACHABLE)),
        Ready::Unknown => Some((UNREACHABLE, NOT_READY)),
        Ready::True | Ready::Other => None,
    }
}

/// Whether `node` has one of the two NoExecute taints.
pub(super) fn has_no_execute(node: &Node) -> bool {
    UNREACHABLE.is_on(node) || NOT_READY.is_on(node)
}

/// The NoSchedule taints that `node` lacks, and those that it should lose, in upstream's order.
/// Taints with other keys are left alone, and so are these keys with another effect.
pub(super) fn no_schedule(node: &Node) -> (Vec<TaintId>, Vec<TaintId>) {
    let id = |key| TaintId {
        key,
        effect: NO_SCHEDULE,
    };
    let of_condition = |kind: &str, status: &str| {
        let mut all = BY_CONDITION.into_iter();
        let found = all.find(|(k, s, _)| *k == kind && *s == status);
        found.map(|(_, _, key)| key)
    };
    let conditions = node.status.conditions.iter();
    let wanted = || {
        let by_condition = conditions
            .clone()
            .filter_map(|condition| of_condition(&condition.kind, &condition.status));
        by_condition.chain(node.spec.unschedulable.then_some(UNSCHEDULABLE))
    };
    let owned = BY_CONDITION.iter().map(|(_, _, key)| *key);
    let lost = owned
        .chain([UNSCHEDULABLE])
        .filter(|key| id(key).is_on(node) && wanted().all(|wanted| wanted != *key));
    let missing = wanted().map(id).filter(|taint| !taint.is_on(node));
    (missing.collect(), lost.map(id).collect())
}

/// A node as a live read returns it, with the fields that an edit of taints needs.
#[derive(Debug, Deserialize)]
pub(super) struct LiveNode {
    metadata: LiveMeta,
    #[serde(default)]
    spec: LiveSpec,
    #[serde(default)]
    status: LiveStatus,
}

#[derive(Debug, Deserialize)]
struct LiveMeta {
    #[serde(default)]
    uid: String,
    #[serde(rename = "resourceVersion")]
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
struct LiveSpec {
    /// As raw JSON, so that fields of later releases survive the replacement of the list.
    #[serde(default)]
    taints: Option<Vec<Map<String, Value>>>,
}

#[derive(Debug, Default, Deserialize)]
struct LiveStatus {
    #[serde(default)]
    conditions: Option<Vec<LiveCondition>>,
}

#[derive(Debug, Deserialize)]
struct LiveCondition {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    status: String,
}

/// A change of the list of taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit<'a> {
    /// Append the taints that are missing. A taint that is there keeps its value and its time;
    /// upstream replaces it.
    Add(&'a [TaintId]),
    /// Remove these taints.
    Remove(&'a [TaintId]),
}

impl LiveNode {
    /// The UID, to recognise another node of the same name.
    pub(super) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// The resource version as a number; 0 if it is none.
    pub(super) fn version(&self) -> u64 {
        self.metadata.resource_version.parse().unwrap_or(0)
    }

    /// The status of its `Ready` condition.
    pub(super) fn ready(&self) -> Option<Ready> {
        let mut conditions = self.status.conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.kind == "Ready")?;
        Some(Ready::parse(&ready.status))
    }

    /// The patch for `edit`; `None` if the node needs none. The resource version is a precondition,
    /// because the list is replaced as a whole.
    pub(super) fn patch(self, edit: Edit<'_>, now: Timestamp) -> Option<Value> {
        let mut taints = self.spec.taints.unwrap_or_default();
        let before = taints.len();
        match edit {
            Edit::Add(added) => {
                for id in added {
                    if !taints.iter().any(|taint| id.is(taint)) {
                        let taint = json!({
                            "key": id.key,
                            "effect": id.effect,
                            "timeAdded": whole_seconds(now).to_string(),
                        });
                        taints.extend(taint.as_object().cloned());
                    }
                }
            }
            Edit::Remove(removed) => {
                taints.retain(|taint| !removed.iter().any(|id| id.is(taint)));
            }
        }
        if taints.len() == before {
            return None;
        }
        // `null` removes the field, as it was before the first taint.
        let taints = if taints.is_empty() {
            Value::Null
        } else {
            json!(taints)
        };
        Some(json!({
            "metadata": {"resourceVersion": self.metadata.resource_version},
            "spec": {"taints": taints},
        }))
    }
}
