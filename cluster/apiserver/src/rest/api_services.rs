//! APIServices: one for each served version of a group, as kube-aggregator lists them.
//!
//! built-in groups, definitions -> objects with the condition `Available`
//!
//! Upstream: `pkg/controlplane/apiserver/aggregator.go`, `pkg/controlplane/controller/crdregistration`
//! and `k8s.io/kube-aggregator/pkg/controllers` (`autoregister`, `status`). [`aggregation`](super::aggregation)
//! has the APIServices of other programs.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Server;
use super::subresources::set_condition;
use crate::registry::Registered;
use crate::route::Target;
use crate::store::{Change, Object};

/// The label on APIServices that the server maintains.
pub(super) const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Value of the label for built-in groups: created at the start, and left alone later.
const ON_START: &str = "onstart";
/// Value of the label for the groups of definitions: created and deleted with their versions.
const ALWAYS: &str = "true";

/// Priorities of built-in group versions: of the group, and of the version in its group.
const BUILT_IN: [(&str, &str, u32, u32); 21] = [
    ("", "v1", 18_000, 1),
    ("events.k8s.io", "v1", 17_750, 15),
    ("apps", "v1", 17_800, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
];

/// Priorities of the group versions of definitions.
const CUSTOM: (u32, u32) = (1000, 100);

impl Server {
    /// Creates the APIServices of the built-in groups.
    pub(super) fn create_api_services(&self) {
        let is_served = |(group, version, ..): &(&str, &str, u32, u32)| {
            self.registry.has_version(group, version) == Some(true)
        };
        for (group, version, of_group, of_version) in BUILT_IN.into_iter().filter(is_served) {
            self.create_system_object(self.api_service(
                group,
                version,
                (of_group, of_version),
                ON_START,
            ));
        }
    }

    /// Creates and deletes APIServices, so that each version that a definition serves has one.
    pub(super) fn settle_api_services(&self, definitions: &[Arc<Value>]) {
        let wanted: BTreeSet<(&str, &str)> = definitions
            .iter()
            .flat_map(|definition| served_versions(definition))
            .collect();
        let entry = self.api_service_kind();
        for (group, version) in &wanted {
            if entry.store.get(&name(group, version)).is_none() {
                self.create_system_object(self.api_service(group, version, CUSTOM, ALWAYS));
            }
        }
        let wanted: BTreeSet<String> = wanted
            .iter()
            .map(|(group, version)| name(group, version))
            .collect();
        for known in entry.store.list(&self.revisions, "").objects {
            if known.label(MANAGED) == Some(ALWAYS) && !wanted.contains(known.name()) {
                self.remove_api_service(&entry, &known);
            }
        }
    }

    /// A lost race means that a request changed the APIService; the next write settles again.
    fn remove_api_service(&self, entry: &Registered, known: &Arc<Object>) {
        if self
            .commit(entry, known.name(), Some(known), Change::Remove)
            .is_err()
        {
            tracing::debug!(
                name = known.name(),
                "an APIService changed before its deletion"
            );
        }
    }

    /// Restores the APIServices of definitions after a write of a client, and sets the conditions of
    /// those that clients own.
    pub(super) fn settle_api_service_writes(&self, target: &Target) {
        if !target.resource().is("APIService") || target.subresource.is_some() {
            return;
        }
        // Takes the lock that all writes of definitions hold.
        self.settle_definitions();
        for current in target.entry.store.list(&self.revisions, "").objects {
            let condition = || {
                let object = current.to_value();
                let spec = &object["spec"];
                if spec["service"].is_null() {
                    Some(self.available("True", "Local", LOCAL))
                } else {
                    self.known_condition(spec)
                }
            };
            let is_of_client = current.label(MANAGED).is_none();
            if let Some(condition) = is_of_client.then(condition).flatten() {
                self.set_availability(&target.entry, &current, condition);
            }
        }
    }

    /// Sets the condition `Available`. A lost race means that another request changed the APIService,
    /// which settles it again.
    pub(super) fn set_availability(
        &self,
        entry: &Registered,
        current: &Arc<Object>,
        condition: Value,
    ) {
        let mut object = current.to_value();
        let known = object["status"]["conditions"]
            .as_array()
            .and_then(|list| list.iter().find(|known| known["type"] == condition["type"]));
        let is_known = known.is_some_and(|known| {
            ["status", "reason", "message"]
                .iter()
                .all(|field| known[*field] == condition[*field])
        });
        if is_known {
            return;
        }
        set_condition(&mut object, condition);
        let change = Change::Put(object);
        if self
            .commit(entry, &current.key, Some(current), change)
            .is_err()
        {
            tracing::debug!(
                name = current.name(),
                "an APIService changed before its condition"
            );
        }
    }

    pub(super) fn api_service_kind(&self) -> Arc<Registered> {
        let found = self
            .registry
            .find("apiregistration.k8s.io", "v1", "apiservices");
        found.expect("APIServices are built in")
    }

    fn api_service(
        &self,
        group: &str,
        version: &str,
        (of_group, of_version): (u32, u32),
        managed: &str,
    ) -> Value {
        let mut object = json!({
            "kind": "APIService",
            "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": {"name": name(group, version), "labels": {MANAGED: managed}},
            "spec": {"group": group, "version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version},
        });
        if group.is_empty()
            && let Some(spec) = object["spec"].as_object_mut()
        {
            spec.remove("group");
        }
        self.sign(&mut object);
        let condition = self.available("True", "Local", LOCAL);
        object["status"] = json!({"conditions": [condition]});
        object
    }
}

const LOCAL: &str = "Local APIServices are always available";

/// `v1.apps`; `v1.` for the core group.
fn name(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

fn served_versions(definition: &Value) -> impl Iterator<Item = (&str, &str)> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .map(|version| (text(spec, "group"), text(version, "name")))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
