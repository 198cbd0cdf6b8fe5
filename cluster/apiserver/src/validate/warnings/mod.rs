//! Warnings about valid objects that are probably mistakes of the client.
//!
//! Upstream: `WarningsOnCreate` and `WarningsOnUpdate` in `pkg/registry`.

mod kinds;

use base64::Engine as _;
use serde_json::Value;

use super::errors::{at, list, text};
use super::pod::warnings::{of_name, of_pod, of_template};
use super::{claim, persistent_volume, service, stateful_set, storage_class};
use crate::apimachinery::addresses;
use crate::apimachinery::formats::qualified_name;
use crate::apimachinery::path::Path;

/// Workloads that give their name to their pods.
const NAMED: [&str; 5] = [
    "CronJob",
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
];
const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Warnings about a new object.
pub(super) fn create(kind: &str, object: &Value) -> Vec<String> {
    match kind {
        "Pod" => return of_pod(object),
        "StatefulSet" => return stateful_set::warnings(object, true),
        _ => {}
    }
    let mut warnings = Vec::new();
    if NAMED.contains(&kind) {
        warnings.extend(of_name(object));
    }
    warnings.extend(workload(kind, object));
    warnings.extend(always(kind, object, None));
    warnings
}

/// Warnings about an update through the main endpoint or `part`.
pub(super) fn update(kind: &str, part: Option<&str>, new: &Value, old: &Value) -> Vec<String> {
    match (kind, part) {
        ("Pod", Some("status")) => {
            let mut warnings = Vec::new();
            for field in ["podIPs", "hostIPs"] {
                let path = Path::new("status");
                let path = path.child(field);
                for (index, entry) in list(&new["status"], field).iter().enumerate() {
                    let path = path.index(index);
                    warnings.extend(addresses::warning(path.child("ip"), text(entry, "ip")));
                }
            }
            warnings
        }
        ("Service", Some("status")) => {
            let path = Path::new("status.loadBalancer.ingress");
            let points = list(new, "status.loadBalancer.ingress").iter().enumerate();
            points
                .filter_map(|(index, point)| {
                    addresses::warning(path.index(index), text(point, "ip"))
                })
                .collect()
        }
        ("Pod", _) | (_, Some(_)) => Vec::new(),
        ("StatefulSet", None) => stateful_set::warnings(new, has_new_generation(kind, new, old)),
        // Upstream looks at the old template here.
        ("ReplicationController", None) if has_new_generation(kind, new, old) => {
            workload(kind, old)
        }
        ("ReplicationController", None) => Vec::new(),
        (_, None) => {
            let mut warnings = Vec::new();
            if has_new_generation(kind, new, old) {
                warnings.extend(workload(kind, new));
            }
            warnings.extend(always(kind, new, Some(old)));
            warnings
        }
    }
}

fn has_new_generation(kind: &str, new: &Value, old: &Value) -> bool {
    let generation = |object: &Value| match kind {
        "DaemonSet" => at(object, "metadata.annotations")[TEMPLATE_GENERATION].clone(),
        _ => at(object, "metadata.generation").clone(),
    };
    generation(new) != generation(old)
}

/// Warnings about the pods that a workload creates.
fn workload(kind: &str, object: &Value) -> Vec<String> {
    match kind {
        "DaemonSet" | "Deployment" | "ReplicaSet" | "ReplicationController" => {
            of_template("spec.template", at(object, "spec.template"))
        }
        "PodTemplate" => of_template("template", &object["template"]),
        "Job" => job("spec", &object["spec"]),
        "CronJob" => job("spec.jobTemplate.spec", at(object, "spec.jobTemplate.spec")),
        _ => Vec::new(),
    }
}

/// Warnings about a Job with the spec at `field`. Upstream: `WarningsForJobSpec`.
fn job(field: &str, spec: &Value) -> Vec<String> {
    const MESSAGE: &str = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
    let above = |field: &str, limit| spec[field].as_i64().is_some_and(|number| number > limit);
    let mut warnings = Vec::new();
    if spec["completionMode"] == "Indexed"
        && above("completions", 100_000)
        && above("parallelism", 10_000)
    {
        warnings.push(format!("{field}: {MESSAGE}"));
    }
    warnings.extend(of_template(&format!("{field}.template"), &spec["template"]));
    warnings
}

/// Warnings that an update repeats, whichever fields it changes.
fn always(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    match kind {
        "CronJob" => {
            const MESSAGE: &str = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
            let has_zone = old.is_some() && text(object, "spec.schedule").contains("TZ");
            has_zone.then(|| MESSAGE.to_owned()).into_iter().collect()
        }
        "PersistentVolume" => persistent_volume::warnings(object),
        "PersistentVolumeClaim" => claim::warnings_of_claim(object),
        "Secret" => secret(object).into_iter().collect(),
        "Service" => service::warnings(object),
        "ServiceAccount" => {
            let is_set = |object: &Value| !at(object, "metadata.annotations")[ENFORCED].is_null();
            let warns = is_set(object) && !old.is_some_and(is_set);
            let message = || {
                format!(
                    "metadata.annotations[{ENFORCED}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
                )
            };
            warns.then(message).into_iter().collect()
        }
        "StorageClass" => storage_class::warnings(object),
        _ => kinds::of(kind, object, old),
    }
}

/// The warning about a certificate or key that is none. Upstream also compares the two.
fn secret(secret: &Value) -> Option<String> {
    if text(secret, "type") != "kubernetes.io/tls" {
        return None;
    }
    let lacks_pem = |key: &str| {
        let data = at(secret, "data")[key].as_str().unwrap_or_default();
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(data)
            .unwrap_or_default();
        !String::from_utf8_lossy(&bytes).contains("-----BEGIN ")
    };
    [("tls.crt", "certificate"), ("tls.key", "key")]
        .iter()
        .find(|(key, _)| lacks_pem(key))
        .map(|(_, what)| format!("tls: failed to find any PEM data in {what} input"))
}

/// Warnings about the finalizers that a custom object gets. Names without a domain or path can be
/// those of another program. Upstream: `generateWarningsFromObj` in
/// `apiextensions-apiserver/pkg/registry/customresource`.
pub(super) fn finalizers(new: &Value, old: Option<&Value>) -> Vec<String> {
    const FIELD: &str = "metadata.finalizers";
    const STANDARD: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];
    let known = old.map_or(&[][..], |old| list(old, FIELD));
    let added = list(new, FIELD).iter().filter(|name| !known.contains(name));
    let mut added: Vec<&str> = added.filter_map(Value::as_str).collect();
    added.sort_unstable();
    added.dedup();
    let mut warnings = Vec::new();
    for name in added {
        let problems = qualified_name(name);
        warnings.extend(
            problems
                .iter()
                .map(|why| format!("{FIELD}: {name:?}: {why}")),
        );
        if name.contains('/') || STANDARD.contains(&name) {
            continue;
        }
        let path = if name.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        warnings.push(format!(
            "{FIELD}: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn new_finalizers_without_a_domain_cause_warnings() {
        let object = |names: &[&str]| json!({"metadata": {"finalizers": names}});
        let old = object(&["old"]);
        let new = object(&["old", "new", "example.com", "example.com/x", "orphan"]);
        assert_eq!(
            finalizers(&new, Some(&old)),
            [
                "metadata.finalizers: \"example.com\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental \
                 conflicts with other finalizer writers",
                "metadata.finalizers: \"new\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer \
                 writers",
            ]
        );
    }
}
