//! `componentstatuses`: the health of control plane components, computed for each request.
//!
//! Upstream probes fixed ports of its own host (`pkg/registry/core/componentstatus`), which a test
//! cluster does not have. This server reports its store as healthy, and other components by their
//! Leases. The list omits a component without a Lease.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::read::Page;
use super::{Answer, Call, Server, Verb};
use crate::selectors::Selection;
use crate::status::{Qualified, Status};
use crate::store::Object;

/// Component names, and the Lease in `kube-system` of each one that has a Lease.
const COMPONENTS: [(&str, Option<&str>); 3] = [
    ("controller-manager", Some("kube-controller-manager")),
    ("etcd-0", None),
    ("scheduler", Some("kube-scheduler")),
];

impl Server {
    /// Answers a GET or a list of `componentstatuses`.
    pub(super) fn components(&self, verb: Verb, call: &Call<'_>) -> Result<Answer, Status> {
        let resource = call.target.resource();
        let object = |status: Value| {
            Arc::new(Object::unstored(
                resource,
                status["metadata"]["name"].as_str().unwrap_or(""),
                &status,
            ))
        };
        let mut known = COMPONENTS
            .iter()
            .filter_map(|(name, lease)| self.component(name, *lease))
            .map(object);
        match verb {
            Verb::Get => {
                let found = known.find(|component| component.name() == call.target.name);
                let missing = || {
                    Status::not_found(
                        Qualified {
                            group: "",
                            name: "componentstatus",
                        },
                        &call.target.name,
                    )
                };
                found
                    .map(|component| Answer::object(200, component))
                    .ok_or_else(missing)
            }
            Verb::List => {
                let selection = Selection::parse(
                    resource,
                    call.query.text("labelSelector"),
                    call.query.text("fieldSelector"),
                )?;
                self.show_page(
                    call,
                    Page::unstored(
                        known
                            .filter(|component| selection.matches(component))
                            .collect(),
                    ),
                )
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// The status of a component; `None` if its Lease is missing.
    fn component(&self, name: &str, lease: Option<&str>) -> Option<Value> {
        let late = match lease {
            None => None,
            Some(lease) => {
                let leases = self
                    .registry
                    .find("coordination.k8s.io", "v1", "leases")
                    .expect("leases are built in");
                let lease = leases
                    .store
                    .get(&format!("kube-system/{lease}"))?
                    .to_value();
                overdue(&lease["spec"], self.clock.now())
            }
        };
        let condition = match late {
            None => json!({"type": "Healthy", "status": "True", "message": "ok"}),
            Some(error) => json!({"type": "Healthy", "status": "False", "error": error}),
        };
        Some(
            json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [condition]}),
        )
    }
}

/// The error of a Lease that is not held or has expired.
fn overdue(lease: &Value, now: Timestamp) -> Option<String> {
    if lease["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        return Some("the lease has no holder".to_owned());
    }
    let renewed: Timestamp = lease["renewTime"].as_str()?.parse().ok()?;
    let end =
        renewed + SignedDuration::from_secs(lease["leaseDurationSeconds"].as_i64().unwrap_or(0));
    (end < now).then(|| format!("the lease expired at {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_healthy_while_its_lease_is_held() {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| {
            overdue(
                &json!({"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}),
                now,
            )
        };
        assert_eq!(lease("a", "2026-01-01T00:00:50.000000Z"), None);
        assert_eq!(
            lease("", "2026-01-01T00:00:50.000000Z").unwrap(),
            "the lease has no holder"
        );
        assert_eq!(
            lease("a", "2026-01-01T00:00:30.000000Z").unwrap(),
            "the lease expired at 2026-01-01T00:00:45Z"
        );
    }
}
