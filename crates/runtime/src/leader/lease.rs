//! The Lease object as JSON: fields that an elector reads, and the record that it writes.
//!
//! The whole document is kept, because an update replaces all fields of the object. Upstream:
//! `client-go/tools/leaderelection/resourcelock/leaselock.go`.

use serde_json::{Map, Value, json};

use steersman_objects::ObjectReference;

/// A Lease as the server sent it. The next write returns fields that this code does not know.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lease(Value);

/// The fields of the spec that an elector writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Identity of the holder; empty for a released Lease. The identity of a process, not of a
    /// host: each start has a new one.
    pub(super) holder: String,
    /// Other candidates wait this long after a renewal. A released Lease has 1, as upstream's.
    pub(super) duration_seconds: u64,
    /// The start of the term of the holder.
    pub(super) acquire_time: String,
    /// Wall time of the last write. Candidates show it and never compare it.
    pub(super) renew_time: String,
    /// The number of changes of the holder so far.
    pub(super) transitions: i64,
    /// The strategy of a coordinated election, which the API server wrote.
    pub(super) strategy: Option<String>,
}

impl Lease {
    pub(super) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Map<String, Value> = serde_json::from_slice(json)?;
        Ok(Self(Value::Object(document)))
    }

    /// A Lease that does not exist at the server yet.
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
        }))
    }

    /// This Lease with `record` in its spec. As upstream's elector, it removes the preferred
    /// holder, and a strategy that the record lacks. Upstream: `LeaderElectionRecordToLeaseSpec`.
    pub(super) fn with(&self, record: &Record) -> Value {
        let mut document = self.0.clone();
        if !document["spec"].is_object() {
            document["spec"] = json!({});
        }
        let spec = document["spec"]
            .as_object_mut()
            .expect("made an object above");
        spec.insert("holderIdentity".to_owned(), json!(record.holder));
        spec.insert(
            "leaseDurationSeconds".to_owned(),
            json!(record.duration_seconds),
        );
        spec.insert("acquireTime".to_owned(), json!(record.acquire_time));
        spec.insert("renewTime".to_owned(), json!(record.renew_time));
        spec.insert("leaseTransitions".to_owned(), json!(record.transitions));
        spec.remove("strategy");
        if let Some(strategy) = &record.strategy {
            spec.insert("strategy".to_owned(), json!(strategy));
        }
        spec.remove("preferredHolder");
        document
    }

    /// The spec. Two records are equal if their specs are. Metadata has no influence: a changed
    /// label is no renewal. Upstream: `observedRawRecord`.
    pub(super) fn spec(&self) -> &Value {
        &self.0["spec"]
    }

    /// Identity of the holder; empty for a free Lease.
    pub(super) fn holder(&self) -> &str {
        self.spec()["holderIdentity"].as_str().unwrap_or_default()
    }

    /// Zero without the field: such a Lease has expired.
    pub(super) fn duration_seconds(&self) -> u64 {
        self.spec()["leaseDurationSeconds"]
            .as_u64()
            .unwrap_or_default()
    }

    pub(super) fn transitions(&self) -> i64 {
        self.spec()["leaseTransitions"].as_i64().unwrap_or_default()
    }

    pub(super) fn acquire_time(&self) -> Option<&str> {
        self.spec()["acquireTime"].as_str()
    }

    /// The strategy of a coordinated election.
    pub(super) fn strategy(&self) -> Option<&str> {
        self.spec()["strategy"].as_str()
    }

    /// The candidate that the API server would rather see as holder; empty if there is none.
    /// Upstream calls such a Lease "end of term".
    pub(super) fn preferred_holder(&self) -> &str {
        self.spec()["preferredHolder"].as_str().unwrap_or_default()
    }

    /// The resource version, or 0 for a Lease that was never stored.
    pub(super) fn resource_version(&self) -> u64 {
        self.0["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|version| version.parse().ok())
            .unwrap_or(0)
    }

    /// The reference of this Lease for Events.
    pub(super) fn reference(&self) -> ObjectReference {
        let meta = |field: &str| {
            self.0["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        ObjectReference {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            namespace: meta("namespace"),
            name: meta("name"),
            uid: meta("uid"),
            resource_version: meta("resourceVersion"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_keeps_unknown_fields() {
        let served = json!({
            "metadata": {"name": "l", "resourceVersion": "7", "labels": {"a": "b"}, "futureField": [1]},
            "spec": {"holderIdentity": "old", "leaseTransitions": 3, "strategy": "OldestEmulationVersion", "preferredHolder": "x"},
        });
        let lease = Lease::decode(served.to_string().as_bytes()).unwrap();
        let record = Record {
            holder: "me".to_owned(),
            duration_seconds: 15,
            acquire_time: "2026-01-02T03:04:05.000000Z".to_owned(),
            renew_time: "2026-01-02T03:04:06.000000Z".to_owned(),
            transitions: 4,
            strategy: None,
        };
        let coordinated = Record {
            strategy: lease.strategy().map(str::to_owned),
            ..record.clone()
        };
        let spec = &lease.with(&coordinated)["spec"];
        assert_eq!(spec["strategy"], "OldestEmulationVersion");
        assert_eq!(spec.get("preferredHolder"), None);
        assert_eq!(
            lease.with(&record),
            json!({
                "metadata": {"name": "l", "resourceVersion": "7", "labels": {"a": "b"}, "futureField": [1]},
                "spec": {
                    "holderIdentity": "me",
                    "leaseDurationSeconds": 15,
                    "acquireTime": "2026-01-02T03:04:05.000000Z",
                    "renewTime": "2026-01-02T03:04:06.000000Z",
                    "leaseTransitions": 4,
                },
            })
        );
    }

    #[test]
    fn a_lease_without_a_spec_is_free() {
        let lease = Lease::decode(br#"{"metadata":{"name":"l"}}"#).unwrap();
        assert_eq!(
            (
                lease.holder(),
                lease.duration_seconds(),
                lease.transitions()
            ),
            ("", 0, 0)
        );
    }
}
