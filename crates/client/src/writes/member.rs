//! Bodies of PUT requests: a served document with another value of one member.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use steersman_objects::{Document, Object};

/// The object of type `T` in `document`, with another `value` of `member`. All other members keep
/// their bytes, so that unknown fields survive, and immutable data stays equal.
pub fn with_member<T: Object>(
    document: &Document,
    member: &str,
    value: &impl Serialize,
) -> Box<RawValue> {
    let text = |text: &str| to_raw_value(text).expect("a string is JSON");
    let api_version = text(&T::RESOURCE.api_version());
    let kind = text(&T::RESOURCE.kind);
    let value = to_raw_value(value).expect("members have string keys only");
    let served = document.text();
    let mut object: BTreeMap<String, &RawValue> =
        serde_json::from_str(&served).expect("a document is a JSON object");
    // Objects in a list lack these two fields.
    object
        .entry("apiVersion".to_owned())
        .or_insert(&api_version);
    object.entry("kind".to_owned()).or_insert(&kind);
    object.insert(member.to_owned(), &value);
    to_raw_value(&object).expect("raw JSON under string keys is JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::{ReplicaSet, ReplicaSetStatus};

    use super::*;

    #[test]
    fn all_other_members_keep_their_bytes() {
        let json = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "managedFields": [{}], "x": 1},
            "spec": {"replicas": 2, "selector": {}, "template": {}, "fromTheFuture": {"a": [1.50]}},
            "status": {"replicas": 0}
        });
        let rs = ReplicaSet::decode(json.to_string().as_bytes()).unwrap();
        let status = ReplicaSetStatus {
            replicas: 2,
            terminating_replicas: Some(0),
            ..rs.status.clone()
        };
        let found: Value =
            serde_json::from_str(with_member::<ReplicaSet>(&rs.document, "status", &status).get())
                .unwrap();
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "x": 1},
            "spec": {"replicas": 2, "selector": {}, "template": {}, "fromTheFuture": {"a": [1.50]}},
            "status": {"replicas": 2, "terminatingReplicas": 0}
        });
        assert_eq!(found, expected);
    }
}
