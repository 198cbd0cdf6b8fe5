//! Metadata from live reads, and the bodies of the collector's patches.
//!
//! Every patch carries the UID or the resource version that was read, so that it cannot change
//! another object of the same name. Upstream: `patch.go`.

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_objects::{CollectorFinalizers, OwnerReference, Uid};
use steersman_values::intern::Sym;

/// Metadata from a live read: the fields that decisions and preconditions need. Owner references
/// stay raw JSON, since a merge patch writes them back with all their fields.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Live {
    metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
    /// Its presence is enough, so the time is not parsed.
    deletion_timestamp: Option<String>,
    #[serde(default)]
    owner_references: Option<Vec<Value>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
}

impl Live {
    pub(super) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    pub(super) fn is(&self, uid: &Uid) -> bool {
        Uid::new(&self.metadata.uid) == *uid
    }

    pub(super) fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// The owner references as served.
    pub(super) fn references(&self) -> &[Value] {
        self.metadata
            .owner_references
            .as_deref()
            .unwrap_or_default()
    }

    /// The owner references, decoded. A malformed field counts as empty.
    pub(super) fn owners(&self) -> Vec<OwnerReference> {
        let text = |value: &Value| Sym::new(value.as_str().unwrap_or_default());
        let reference = |value: &Value| OwnerReference {
            api_version: text(&value["apiVersion"]),
            kind: text(&value["kind"]),
            name: text(&value["name"]),
            uid: uid_of(value),
            controller: value["controller"] == true,
            block_owner_deletion: blocks(value),
        };
        self.references().iter().map(reference).collect()
    }

    pub(super) fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    pub(super) fn collector_finalizers(&self) -> CollectorFinalizers {
        CollectorFinalizers::among(self.finalizers().iter().map(String::as_str))
    }

    /// True if the object is terminating and its deletion waits for its dependents. The terms of
    /// upstream's `classifyReferences`.
    pub(super) fn waits_for_dependents(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() && self.collector_finalizers().foreground
    }
}

fn uid_of(reference: &Value) -> Uid {
    Uid::new(reference["uid"].as_str().unwrap_or_default())
}

fn blocks(reference: &Value) -> bool {
    reference["blockOwnerDeletion"] == true
}

/// Strategic merge patch that removes the references to `owners` from the object with `uid`. The
/// API server refuses a patch with another UID. Upstream:
/// `GenerateDeleteOwnerRefStrategicMergeBytes`.
pub(super) fn without_owners(uid: &Uid, owners: &[Uid]) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|owner| json!({"$patch": "delete", "uid": owner.to_string()}))
        .collect();
    json!({"metadata": {"uid": uid.to_string(), "ownerReferences": references}})
}

/// The same as a merge patch with the resource version of `live`. `None` if there is no such
/// reference. A merge patch replaces the whole list, so it needs the version that was read.
/// Upstream: `deleteOwnerRefJSONMergePatch`.
pub(super) fn merge_without_owners(live: &Live, owners: &[Uid]) -> Option<Value> {
    let left: Vec<&Value> = live
        .references()
        .iter()
        .filter(|reference| !owners.contains(&uid_of(reference)))
        .collect();
    (left.len() < live.references().len()).then(|| merge(live, "ownerReferences", json!(left)))
}

/// Strategic merge patch that sets `blockOwnerDeletion` to false in all references of the object
/// with `uid`. Upstream: `unblockOwnerReferencesStrategicMergePatch`.
pub(super) fn unblocked(uid: &Uid, live: &Live) -> Value {
    let blocking = live
        .references()
        .iter()
        .filter(|reference| blocks(reference));
    json!({"metadata": {"uid": uid.to_string(), "ownerReferences": blocking.map(unblock).collect::<Vec<_>>()}})
}

/// The same as a merge patch with the resource version of `live`. Upstream:
/// `unblockOwnerReferencesJSONMergePatch`.
pub(super) fn merge_unblocked(live: &Live) -> Value {
    merge(
        live,
        "ownerReferences",
        live.references().iter().map(unblock).collect(),
    )
}

fn unblock(reference: &Value) -> Value {
    let mut reference = reference.clone();
    reference["blockOwnerDeletion"] = json!(false);
    reference
}

/// Merge patch that removes one finalizer, with the resource version of `live`. `None` if the
/// object lacks the finalizer. Other finalizers keep their order. Upstream: `removeFinalizer`.
pub(super) fn without_finalizer(live: &Live, finalizer: &str) -> Option<Value> {
    let left: Vec<&String> = live
        .finalizers()
        .iter()
        .filter(|name| *name != finalizer)
        .collect();
    (left.len() < live.finalizers().len()).then(|| merge(live, "finalizers", json!(left)))
}

/// Merge patch that sets `field` to `list`, with the resource version of `live`. An empty list
/// removes the field.
fn merge(live: &Live, field: &str, list: Value) -> Value {
    let list = if list.as_array().is_some_and(Vec::is_empty) {
        Value::Null
    } else {
        list
    };
    json!({"metadata": {"resourceVersion": live.version(), field: list}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Live {
        let owner = |uid: &str, blocks: bool| json!({"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid, "blockOwnerDeletion": blocks, "new": 1});
        let json = json!({"kind": "PartialObjectMetadata", "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "7", "ownerReferences": [owner("x", true), owner("y", false)],
            "finalizers": ["foregroundDeletion", "example.com/hold"], "deletionTimestamp": "2026-01-01T00:00:00Z",
        }});
        Live::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn patches_equal_upstreams_and_keep_unknown_fields() {
        let u = Uid::new("u");
        let x = Uid::new("x");
        let y = Uid::new("y");
        let live = live();
        let reference = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid, "blockOwnerDeletion": false, "new": 1});
        let merged =
            |field: &str, list: Value| json!({"metadata": {"resourceVersion": "7", field: list}});
        assert_eq!(
            without_owners(&u, std::slice::from_ref(&x)),
            json!({"metadata": {"uid": "u", "ownerReferences": [{"$patch": "delete", "uid": "x"}]}})
        );
        let left = merge_without_owners(&live, std::slice::from_ref(&x));
        assert_eq!(
            left,
            Some(merged("ownerReferences", json!([reference("y")])))
        );
        assert_eq!(
            merge_without_owners(&live, &[x, y]),
            Some(merged("ownerReferences", Value::Null))
        );
        assert_eq!(merge_without_owners(&live, &[Uid::new("z")]), None);
        assert_eq!(
            unblocked(&u, &live),
            json!({"metadata": {"uid": "u", "ownerReferences": [reference("x")]}})
        );
        assert_eq!(
            merge_unblocked(&live),
            merged("ownerReferences", json!([reference("x"), reference("y")]))
        );
        assert_eq!(
            without_finalizer(&live, "foregroundDeletion"),
            Some(merged("finalizers", json!(["example.com/hold"])))
        );
        assert_eq!(without_finalizer(&live, "orphan"), None);
    }

    #[test]
    fn a_terminating_owner_waits_only_with_the_finalizer_of_foreground_deletion() {
        assert!(live().waits_for_dependents());
        let mut other = live();
        other.metadata.finalizers = Some(vec!["orphan".to_owned()]);
        assert!(!other.waits_for_dependents());
        let mut alive = live();
        alive.metadata.deletion_timestamp = None;
        assert!(!alive.waits_for_dependents());
        assert!(live().owners()[0].block_owner_deletion && live().is(&Uid::new("u")));
    }
}
