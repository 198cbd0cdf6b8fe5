//! `componentstatuses`: the health of control plane components, computed for each request.
//!
//! Upstream probes fixed ports of its own host (`pkg/registry/core/componentstatus`). This server knows its
//! store and the components that run beside it, and finds others by their Leases. A component without
//! any of these gets the answer about a closed port.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::read::Page;
use super::{Answer, Call, Server, Verb};
use crate::selectors::Selection;
use crate::status::{Qualified, Status};
use crate::store::Object;

/// A component of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// kube-controller-manager, or a program in its place.
    ControllerManager,
    /// The store.
    Etcd,
    /// kube-scheduler, or a program in its place.
    Scheduler,
}

impl Component {
    const ALL: [Self; 3] = [Self::ControllerManager, Self::Etcd, Self::Scheduler];

    fn name(self) -> &'static str {
        match self {
            Self::ControllerManager => "controller-manager",
            Self::Etcd => "etcd-0",
            Self::Scheduler => "scheduler",
        }
    }

    /// The Lease in `kube-system`, and the port that upstream probes.
    fn traces(self) -> Option<(&'static str, u16)> {
        match self {
            Self::ControllerManager => Some(("kube-controller-manager", 10257)),
            Self::Etcd => None,
            Self::Scheduler => Some(("kube-scheduler", 10259)),
        }
    }
}

/// The components that run beside the server.
#[derive(Debug, Default)]
pub(crate) struct Components(RwLock<BTreeSet<Component>>);

impl Server {
    /// Reports a component as healthy in `componentstatuses`, because it runs beside the server.
    pub fn report_healthy(&self, component: Component) {
        self.components.0.write().insert(component);
    }

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
        let mut known = Component::ALL
            .into_iter()
            .map(|component| self.component(component))
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

    /// The status of a component.
    fn component(&self, component: Component) -> Value {
        let healthy = || json!({"type": "Healthy", "status": "True", "message": "ok"});
        let condition = match component.traces() {
            _ if self.components.0.read().contains(&component) => healthy(),
            None => healthy(),
            Some((lease, port)) => match self.find_lease(lease) {
                None => {
                    let url = format!("https://127.0.0.1:{port}/healthz");
                    let why = "connect: connection refused";
                    let message = format!("Get {url:?}: dial tcp 127.0.0.1:{port}: {why}");
                    json!({"type": "Healthy", "status": "False", "message": message})
                }
                Some(lease) => match overdue(&lease["spec"], self.clock.now()) {
                    None => healthy(),
                    Some(error) => json!({"type": "Healthy", "status": "False", "error": error}),
                },
            },
        };
        json!({
            "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": component.name()}, "conditions": [condition],
        })
    }

    fn find_lease(&self, name: &str) -> Option<Value> {
        let leases = self.registry.find("coordination.k8s.io", "v1", "leases")?;
        let lease = leases.store.get(&format!("kube-system/{name}"))?;
        Some(lease.to_value())
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
