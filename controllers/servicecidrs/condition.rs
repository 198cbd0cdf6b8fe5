//! The condition `Ready` of a ServiceCIDR, and the request that sets it.
//!
//! Upstream: `sync` and `updateConditionIfNeeded`.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::conditions::{FALSE, TRUE};
use steersman_objects::{Object, ServiceCidr};
use steersman_values::clock::whole_seconds;

/// Type of the condition.
const READY: &str = "Ready";

/// Status, reason and message of the condition `Ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ready {
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

impl Ready {
    /// The ServiceCIDR is in use.
    pub(super) const YES: Self = Self {
        status: TRUE,
        reason: "",
        message: "Kubernetes Service CIDR is ready",
    };

    /// The ServiceCIDR is deleted, but Services still have its addresses.
    pub(super) const TERMINATING: Self = Self {
        status: FALSE,
        reason: "Terminating",
        message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
    };

    /// True if `cidr` has this condition. Its time does not count.
    pub(super) fn is_set(self, cidr: &ServiceCidr) -> bool {
        let mut conditions = cidr.status.conditions.iter();
        let ready = conditions.find(|condition| condition.kind == *READY);
        ready.is_some_and(|ready| {
            ready.status == *self.status
                && ready.reason == *self.reason
                && *ready.message == *self.message
        })
    }

    /// The configuration that a server-side apply sends. As upstream, every write has the current
    /// time.
    pub(super) fn configuration(self, cidr: &ServiceCidr, now: Timestamp) -> Value {
        let Self {
            status,
            reason,
            message,
        } = self;
        let condition = json!({
            "type": READY, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": whole_seconds(now).to_string(),
        });
        json!({
            "kind": ServiceCidr::RESOURCE.kind, "apiVersion": ServiceCidr::RESOURCE.api_version(),
            "metadata": {"name": &*cidr.meta.name},
            "status": {"conditions": [condition]},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_written_if_status_reason_or_message_differ() {
        // (conditions, ready, terminating)
        let cases = [
            (json!([]), false, false),
            (
                json!([{"type": "Ready", "status": "True", "message": Ready::YES.message,
                        "lastTransitionTime": "2020-01-01T00:00:00Z", "observedGeneration": 7}]),
                true,
                false,
            ),
            (
                json!([{"type": "Ready", "status": "True",
                        "message": "Kubernetes default Service CIDR is ready"}]),
                false,
                false,
            ),
            (
                json!([{"type": "Ready", "status": "True", "reason": "x",
                        "message": Ready::YES.message}]),
                false,
                false,
            ),
            (
                json!([{"type": "Other", "status": "True", "message": Ready::YES.message},
                       {"type": "Ready", "status": "False", "reason": "Terminating",
                        "message": Ready::TERMINATING.message}]),
                false,
                true,
            ),
        ];
        for (conditions, ready, terminating) in cases {
            let json = json!({
                "metadata": {"name": "c"}, "status": {"conditions": conditions},
            });
            let cidr = ServiceCidr::decode(json.to_string().as_bytes()).unwrap();
            let found = (Ready::YES.is_set(&cidr), Ready::TERMINATING.is_set(&cidr));
            assert_eq!(found, (ready, terminating), "{json}");
        }
    }

    #[test]
    fn the_configuration_is_upstreams() {
        let json = br#"{"metadata": {"name": "c1"}}"#;
        let cidr = ServiceCidr::decode(json).unwrap();
        let now = Timestamp::from_millisecond(1_700_000_000_400).unwrap();
        let expected = json!({
            "kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": "c1"},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z",
                "reason": "", "message": "Kubernetes Service CIDR is ready",
            }]},
        });
        assert_eq!(Ready::YES.configuration(&cidr, now), expected);
    }
}
