//! The Services to sync after a change of a pod.
//!
//! Upstream puts a record of each change into a queue, and workers compare it with all Services of
//! the namespace. [`Selectors`] make this cheap enough for the handler itself.
//!
//! One rule differs. Upstream counts every update of a terminating pod as a change, and overlooks
//! that a pod which is not ready has finished. Here a pod changes with its deletion, readiness,
//! addresses, UID, and with its end. These are all the fields that decide about endpoints.
//!
//! Upstream: `GetPodUpdateProjectionKey` and `GetServicesToUpdate` of `k8s.io/endpointslice/util`.

use std::sync::Arc;

use steersman_objects::{Object, ObjectKey, Pod, Service};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_values::sync::{Mutex, MutexGuard};

use super::selectors::Selectors;

/// Finds the Services that select a pod. Cheap to clone.
#[derive(Clone, Default)]
pub struct ServicesByPod {
    selectors: Arc<Mutex<Selectors>>,
}

impl ServicesByPod {
    /// Follows the selectors of `services`.
    ///
    /// A handler that enqueues changed Services must be added after this call. A change of a pod that
    /// does not find a new selector is then followed by the sync of that Service.
    pub fn of(services: &SharedInformer<Service>) -> Self {
        let by_pod = Self::default();
        let changed = by_pod.clone();
        services.add_handler(move |change| {
            let service = change.object();
            let mut selectors = changed.selectors();
            match change {
                Change::Deleted { .. } => selectors.remove(&service.key()),
                _ => selectors.set(&service.key(), &service.spec.selector),
            }
        });
        by_pod
    }

    /// The keys of the Services to sync after `change`, sorted.
    pub fn affected(&self, change: &Change<'_, Pod>) -> Vec<ObjectKey> {
        let (old, new) = match change {
            Change::Added { object, .. } | Change::Deleted { object, .. } => {
                return self.selecting(object);
            }
            Change::Updated { old, new } => (old, new),
        };
        let changed = is_changed(old, new);
        let moved = is_moved(old, new);
        if !changed && !moved {
            return Vec::new();
        }
        let services = self.selecting(new);
        if !moved {
            return services;
        }
        needed_updates(self.selecting(old), services, changed)
    }

    /// The keys of the Services that select `pod`, sorted.
    fn selecting(&self, pod: &Pod) -> Vec<ObjectKey> {
        self.selectors()
            .selecting(&pod.meta.namespace, &pod.meta.labels)
    }

    fn selectors(&self) -> MutexGuard<'_, Selectors> {
        self.selectors.lock()
    }
}

/// Whether the endpoint of a pod may have changed.
fn is_changed(old: &Pod, new: &Pod) -> bool {
    old.meta.deleted != new.meta.deleted
        || old.is_ready() != new.is_ready()
        || old.is_finished() != new.is_finished()
        || old.meta.uid != new.meta.uid
        || !old.ips().eq(new.ips())
}

/// Whether other Services may select the pod, or may name its host.
fn is_moved(old: &Pod, new: &Pod) -> bool {
    old.meta.labels != new.meta.labels
        || old.hostname != new.hostname
        || old.spec.subdomain != new.spec.subdomain
}

/// The Services to sync after a change of the labels of a pod, both lists sorted. Upstream:
/// `determineNeededServiceUpdates`.
fn needed_updates(before: Vec<ObjectKey>, after: Vec<ObjectKey>, changed: bool) -> Vec<ObjectKey> {
    let is_in = |list: &[ObjectKey], key: &ObjectKey| list.binary_search(key).is_ok();
    let is_common = |key: &ObjectKey| is_in(&before, key) && is_in(&after, key);
    let mut needed: Vec<ObjectKey> = before.iter().chain(&after).cloned().collect();
    needed.retain(|key| changed || !is_common(key));
    needed.sort_unstable();
    needed.dedup();
    needed
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn decode<T: Object>(json: &Value) -> Arc<T> {
        Arc::new(T::decode(json.to_string().as_bytes()).unwrap())
    }

    fn services() -> ServicesByPod {
        // (namespace, name, selector)
        let services = [
            ("ns", "web", json!({"app": "web"})),
            ("ns", "front", json!({"app": "web", "tier": "front"})),
            ("ns", "db", json!({"app": "db"})),
            ("ns", "empty", json!({})),
            ("ns", "unset", Value::Null),
            ("other", "web", json!({"app": "web"})),
        ];
        let by_pod = ServicesByPod::default();
        for (namespace, name, selector) in services {
            let service = decode::<Service>(&json!({
                "metadata": {"namespace": namespace, "name": name}, "spec": {"selector": selector},
            }));
            by_pod
                .selectors()
                .set(&service.key(), &service.spec.selector);
        }
        by_pod
    }

    fn pod(labels: &Value, changes: &Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"namespace": "ns", "name": "a", "labels": labels},
            "spec": {},
            "status": {
                "phase": "Running", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        for (pointer, value) in changes.as_object().unwrap() {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        decode(&pod)
    }

    fn names(keys: &[ObjectKey]) -> Vec<&str> {
        keys.iter().map(|key| &*key.name).collect()
    }

    /// Upstream: `TestGetPodServicesToUpdate`.
    #[test]
    fn services_that_select_a_pod_are_found() {
        // (labels, Services)
        let cases: [(Value, &[&str]); 5] = [
            (json!({"app": "web"}), &["web"]),
            (json!({"app": "web", "tier": "front"}), &["front", "web"]),
            (json!({"app": "db", "tier": "front"}), &["db"]),
            (json!({"tier": "front"}), &[]),
            (json!({}), &[]),
        ];
        for (labels, expected) in cases {
            let pod = pod(&labels, &json!({}));
            let added = Change::Added {
                object: &pod,
                initial: false,
            };
            let deleted = Change::Deleted {
                object: &pod,
                final_state_unknown: true,
            };
            for change in [added, deleted] {
                assert_eq!(names(&services().affected(&change)), expected, "{labels}");
            }
        }
    }

    /// Upstream: `Test_podChanged`.
    #[test]
    fn changes_of_endpoints_and_of_memberships_are_found() {
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        // (upstream's case, changes, changed, moved)
        let cases = [
            ("no changes", json!({}), false, false),
            (
                "change NodeName",
                json!({"/spec/nodeName": "changed"}),
                false,
                false,
            ),
            (
                "change phase",
                json!({"/status/phase": "Pending"}),
                false,
                false,
            ),
            (
                "change ResourceVersion",
                json!({"/metadata/resourceVersion": "7"}),
                false,
                false,
            ),
            (
                "add primary IPv4",
                json!({"/status/podIPs": [{"ip": "1.2.3.4"}]}),
                true,
                false,
            ),
            ("remove IPs", json!({"/status/podIPs": null}), true, false),
            (
                "add secondary IP",
                json!({"/status/podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
                true,
                false,
            ),
            (
                "readiness",
                json!({"/status/conditions": ready("False")}),
                true,
                false,
            ),
            (
                "readiness removed",
                json!({"/status/conditions": []}),
                true,
                false,
            ),
            (
                "deletion",
                json!({"/metadata/deletionTimestamp": "2026-01-02T03:04:05Z"}),
                true,
                false,
            ),
            ("end", json!({"/status/phase": "Failed"}), true, false),
            ("recreated", json!({"/metadata/uid": "u"}), true, false),
            (
                "change labels",
                json!({"/metadata/labels": {"app": "db"}}),
                false,
                true,
            ),
            (
                "change hostname",
                json!({"/spec/hostname": "h"}),
                false,
                true,
            ),
            (
                "change subdomain",
                json!({"/spec/subdomain": "s"}),
                false,
                true,
            ),
            (
                "labels and IP",
                json!({"/metadata/labels": {}, "/status/podIPs": []}),
                true,
                true,
            ),
        ];
        let labels = json!({"app": "web"});
        let old = pod(&labels, &json!({}));
        for (case, changes, changed, moved) in cases {
            let new = pod(&labels, &changes);
            let found = (is_changed(&old, &new), is_moved(&old, &new));
            assert_eq!(found, (changed, moved), "{case}");
        }
    }

    #[test]
    fn an_update_affects_services_before_and_after() {
        let front = json!({"app": "web", "tier": "front"});
        let gone = json!({"/status/podIPs": []});
        // (old labels, new labels, changes, Services)
        let cases: [(&Value, Value, Value, &[&str]); 5] = [
            (&front, front.clone(), json!({"/spec/nodeName": "n"}), &[]),
            (&front, front.clone(), gone.clone(), &["front", "web"]),
            (&front, json!({"app": "web"}), json!({}), &["front"]),
            (&front, json!({"app": "web"}), gone, &["front", "web"]),
            (
                &front,
                json!({"app": "db"}),
                json!({}),
                &["db", "front", "web"],
            ),
        ];
        for (before, after, changes, expected) in cases {
            let old = pod(before, &json!({}));
            let new = pod(&after, &changes);
            let change = Change::Updated {
                old: &old,
                new: &new,
            };
            let found = services().affected(&change);
            assert_eq!(names(&found), expected, "{before} to {after}, {changes}");
        }
    }

    /// Upstream: `TestDetermineNeededServiceUpdates`.
    #[test]
    fn unchanged_pods_affect_only_services_that_gain_or_lose_them() {
        // (upstream's case, before, after, union, symmetric difference)
        let cases: [(&str, &[&str], &[&str], &[&str], &[&str]); 6] = [
            (
                "no services changed",
                &["a", "b", "c"],
                &["a", "b", "c"],
                &["a", "b", "c"],
                &[],
            ),
            (
                "all old services removed, new services added",
                &["a", "b"],
                &["c", "d"],
                &["a", "b", "c", "d"],
                &["a", "b", "c", "d"],
            ),
            (
                "all old services removed, no new services added",
                &["a", "b"],
                &[],
                &["a", "b"],
                &["a", "b"],
            ),
            (
                "no old services, but new services added",
                &[],
                &["a", "b"],
                &["a", "b"],
                &["a", "b"],
            ),
            (
                "one service removed, one service added, two unchanged",
                &["a", "b", "c"],
                &["b", "c", "d"],
                &["a", "b", "c", "d"],
                &["a", "d"],
            ),
            ("no services", &[], &[], &[], &[]),
        ];
        let keys = |names: &[&str]| -> Vec<ObjectKey> {
            names
                .iter()
                .map(|name| ObjectKey::new("ns", name))
                .collect()
        };
        for (case, before, after, union, difference) in cases {
            for (changed, expected) in [(true, union), (false, difference)] {
                let found = needed_updates(keys(before), keys(after), changed);
                assert_eq!(names(&found), expected, "{case}, {changed}");
            }
        }
    }
}
