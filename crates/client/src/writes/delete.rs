//! The options of a deletion.
//!
//! Upstream sends most deletions by name alone. Here every deletion of a cached object carries its
//! UID, so that a new object of the same name survives.

use serde::{Serialize, Serializer};

use steersman_objects::{Meta, Uid};

/// The body of a DELETE (`meta/v1` `DeleteOptions`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delete<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    preconditions: Preconditions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<Propagation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions<'a> {
    #[serde(serialize_with = "as_text")]
    uid: &'a Uid,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

fn as_text<S: Serializer>(uid: &Uid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(uid)
}

/// The treatment of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// The dependents stay, without the owner reference.
    Orphan,
    /// The garbage collector deletes the dependents afterwards.
    Background,
    /// The object stays until its blocking dependents are gone.
    Foreground,
}

impl<'a> Delete<'a> {
    /// Deletes the object with this metadata, and no other object of the same name.
    pub fn exactly(meta: &'a Meta) -> Self {
        Self::uid(&meta.uid)
    }

    /// Deletes the object with this UID, and no other object of the same name.
    pub fn uid(uid: &'a Uid) -> Self {
        Self {
            kind: "DeleteOptions",
            api_version: "v1",
            grace_period_seconds: None,
            preconditions: Preconditions {
                uid,
                resource_version: None,
            },
            propagation_policy: None,
        }
    }

    /// The same, if the object still has this resource version.
    #[must_use]
    pub fn unchanged_since(mut self, resource_version: impl ToString) -> Self {
        self.preconditions.resource_version = Some(resource_version.to_string());
        self
    }

    /// The same, with a grace period of zero: a pod is removed before its kubelet confirms the end.
    #[must_use]
    pub fn immediately(mut self) -> Self {
        self.grace_period_seconds = Some(0);
        self
    }

    /// The same, with this propagation policy.
    #[must_use]
    pub fn propagation(mut self, policy: Propagation) -> Self {
        self.propagation_policy = Some(policy);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_deletion_carries_the_uid() {
        let uid = Uid::new("u");
        let body = |delete| serde_json::to_value::<Delete<'_>>(delete).unwrap();
        let plain = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"},
        });
        assert_eq!(body(Delete::uid(&uid)), plain);
        let full = Delete::uid(&uid)
            .unchanged_since(7)
            .immediately()
            .propagation(Propagation::Foreground);
        let expected = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "7"},
            "propagationPolicy": "Foreground",
        });
        assert_eq!(body(full), expected);
    }
}
