//! Fields that creation and updates set beyond defaulting.
//!
//! Upstream: the strategies in `pkg/registry` (`PrepareForCreate`, `PrepareForUpdate`) and the
//! admission plugin `DefaultTolerationSeconds`.

use serde_json::{Map, Value, json};
use steersman_releases::Release;

use super::{TEMPLATE_GENERATION, apply, gates, qos_class};
use crate::schema::typed_form;

/// Kinds with a status subresource. A create request cannot set their status.
const STATUS_SUBRESOURCE: [&str; 16] = [
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "Ingress",
    "Job",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "ReplicaSet",
    "ReplicationController",
    "Service",
    "StatefulSet",
];

/// Metadata fields that a create request cannot set.
const DISCARDED: [&str; 3] = [
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Sets the fields that the server changes when a client updates `old` through the main endpoint.
///
/// These are tolerations of pods, stored versions of definitions, and the template generation of
/// DaemonSets. Call it after [`apply`] and before validation.
pub fn on_update(release: Release, kind: &str, object: &mut Value, old: &Value) {
    gates::drop_disabled(release, kind, object);
    match kind {
        "DaemonSet" => next_template_generation(object, old),
        "CustomResourceDefinition" => stored_version(object),
        "PersistentVolumeClaim" => {
            drop_foreign_source(object);
            let has = |field: &str| !old["spec"][field].is_null();
            if !has("dataSource") && !has("dataSourceRef") {
                drop_old_source(object);
            }
            same_sources(object);
        }
        "Pod" => tolerate_node_loss(object),
        "ServiceAccount" => keep_names_of_secrets(object),
        _ => {}
    }
}

/// Sets the fields that the server adds at creation, beyond [`apply`].
///
/// These are the initial status and default tolerations. A status that only the subresource can set
/// is removed.
///
/// The metadata must already have the name, the UID (for the selector of Jobs) and the creation
/// time (for conditions of pods).
pub fn on_create(release: Release, kind: &str, object: &mut Value) {
    let incomplete = begin_create(release, kind, object);
    end_create(release, kind, object, incomplete);
}

/// A new object between the two halves of its creation.
#[derive(Debug, Default)]
pub(crate) struct Incomplete {
    /// A Job without labels shares those of its template, the generated ones included.
    shares_labels: bool,
}

/// The first half of [`on_create`]: the object as its author sent it, with defaults. Admission comes
/// after it.
pub(crate) fn begin_create(release: Release, kind: &str, object: &mut Value) -> Incomplete {
    if STATUS_SUBRESOURCE.contains(&kind)
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        DISCARDED
            .iter()
            .for_each(|name| drop(metadata.remove(*name)));
    }
    let shares_labels = object["metadata"]["labels"]
        .as_object()
        .is_none_or(|labels| labels.is_empty());
    apply(release, kind, object);
    Incomplete { shares_labels }
}

/// The second half: the fields that the server adds.
pub(crate) fn end_create(release: Release, kind: &str, object: &mut Value, incomplete: Incomplete) {
    gates::drop_disabled(release, kind, object);
    match kind {
        "CustomResourceDefinition" => stored_version(object),
        "DaemonSet" => first_template_generation(object),
        "Job" => job_identity(object, incomplete.shares_labels),
        "Namespace" => namespace(object),
        "PersistentVolume" => {
            phase(object, "Pending");
            if let Some(created) = object["metadata"].get("creationTimestamp").cloned() {
                object["status"]["lastPhaseTransitionTime"] = created;
            }
        }
        "PersistentVolumeClaim" => {
            phase(object, "Pending");
            drop_foreign_source(object);
            drop_old_source(object);
            same_sources(object);
        }
        "Pod" => pod(object),
        "ServiceAccount" => keep_names_of_secrets(object),
        "Service" => cluster_ips(object),
        _ => return,
    }
    // The additions have no defaults of their own, and changes by webhooks got theirs already.
    typed_form::normalize_sent(kind, object);
}

/// Adds the storage version to `status.storedVersions`, because objects can exist in it from now
/// on.
fn stored_version(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array();
    let stored =
        versions.and_then(|versions| versions.iter().find(|version| version["storage"] == true));
    let Some(name) = stored.map(|version| version["name"].clone()) else {
        return;
    };
    let status = object_at(definition, &["status"]);
    let known = status.entry("storedVersions").or_insert(Value::Null);
    if !known.is_array() {
        *known = json!([]);
    }
    if let Some(known) = known.as_array_mut().filter(|known| !known.contains(&name)) {
        known.push(name);
    }
}

/// The object at `path`; creates missing objects on the way.
fn object_at<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut at = object;
    for step in path {
        if !at[*step].is_object() {
            at[*step] = json!({});
        }
        at = &mut at[*step];
    }
    at.as_object_mut().expect("every step is an object")
}

fn phase(object: &mut Value, phase: &str) {
    object_at(object, &["status"]).insert("phase".to_owned(), json!(phase));
}

/// A source in another namespace needs a feature gate that is off by default.
///
/// Upstream: `DropDisabledFields` in `pkg/api/persistentvolumeclaim`.
fn drop_foreign_source(claim: &mut Value) {
    let Some(spec) = claim["spec"].as_object_mut() else {
        return;
    };
    let namespace = spec.get("dataSourceRef").map(|source| &source["namespace"]);
    if namespace.is_some_and(|namespace| namespace.as_str().is_some_and(|name| !name.is_empty())) {
        spec.shift_remove("dataSourceRef");
    }
}

/// The first field for the content of a new volume only knows claims and snapshots. Other kinds are
/// ignored there, as before the second field existed.
///
/// Upstream: `EnforceDataSourceBackwardsCompatibility` in `pkg/api/persistentvolumeclaim`.
fn drop_old_source(claim: &mut Value) {
    let Some(spec) = claim["spec"].as_object_mut() else {
        return;
    };
    if spec
        .get("dataSourceRef")
        .is_some_and(|source| !source.is_null())
    {
        return;
    }
    let text = |source: &Value, field: &str| source[field].as_str().unwrap_or_default().to_owned();
    let is_known = |source: &Value| {
        let known = [
            ("PersistentVolumeClaim", ""),
            ("VolumeSnapshot", "snapshot.storage.k8s.io"),
        ];
        known.contains(&(&*text(source, "kind"), &*text(source, "apiGroup")))
    };
    if spec
        .get("dataSource")
        .is_some_and(|source| !is_known(source))
    {
        spec.shift_remove("dataSource");
    }
}

/// Both fields for the content of a new volume say the same.
///
/// Upstream: `NormalizeDataSources` in `pkg/api/persistentvolumeclaim`.
fn same_sources(claim: &mut Value) {
    let Some(spec) = claim["spec"].as_object_mut() else {
        return;
    };
    let given = |spec: &Map<String, Value>, field: &str| {
        spec.get(field).filter(|source| !source.is_null()).cloned()
    };
    match (given(spec, "dataSource"), given(spec, "dataSourceRef")) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(source)) => drop(spec.insert("dataSource".to_owned(), source)),
        _ => {}
    }
}

/// The finalizer `kubernetes` lets the namespace controller empty the namespace before its removal.
fn namespace(object: &mut Value) {
    phase(object, "Active");
    let finalizers = object_at(object, &["spec"])
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|finalizer| finalizer == "kubernetes")
    {
        finalizers.push(json!("kubernetes"));
    }
}

/// A pod starts as Pending. With scheduling gates, its PodScheduled condition starts as false.
fn pod(object: &mut Value) {
    tolerate_node_loss(object);
    phase(object, "Pending");
    object["status"]["qosClass"] = json!(qos_class(&object["spec"]));
    let gated = object["spec"]
        .get("schedulingGates")
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty());
    if gated {
        let now = object["metadata"]
            .get("creationTimestamp")
            .cloned()
            .unwrap_or(Value::Null);
        object["status"]["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": now,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
}

/// Tolerates a lost node for five minutes, unless the pod has its own tolerations.
fn tolerate_node_loss(pod: &mut Value) {
    let tolerations = object_at(pod, &["spec"])
        .entry("tolerations")
        .or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for taint in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let matches = |toleration: &Value, field: &str, wanted: &str| {
            let text = toleration.get(field).and_then(Value::as_str).unwrap_or("");
            text.is_empty() || text == wanted
        };
        if !tolerations.iter().any(|toleration| {
            matches(toleration, "key", taint) && matches(toleration, "effect", "NoExecute")
        }) {
            tolerations.push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// A Job selects its pods by its UID, unless `manualSelector` is true. Labels that the client has
/// set stay, and validation compares them.
fn job_identity(job: &mut Value, shares_labels: bool) {
    if job["spec"]["manualSelector"] == json!(true) {
        return;
    }
    let uid = job["metadata"]["uid"].clone();
    let name = job["metadata"]["name"].clone();
    let labels = object_at(job, &["spec", "template", "metadata", "labels"]);
    for (label, value) in [("controller-uid", &uid), ("job-name", &name)] {
        for label in [label.to_owned(), format!("batch.kubernetes.io/{label}")] {
            labels.entry(label).or_insert_with(|| value.clone());
        }
    }
    object_at(job, &["spec", "selector", "matchLabels"])
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert(uid);
    if shares_labels {
        let labels = job["spec"]["template"]["metadata"]["labels"].clone();
        object_at(job, &["metadata"]).insert("labels".to_owned(), labels);
    }
}

/// References to Secrets of a ServiceAccount have only names.
///
/// Upstream: `cleanSecretReferences` in `pkg/registry/core/serviceaccount`.
fn keep_names_of_secrets(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for fields in secrets
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        fields.retain(|field, _| field == "name");
    }
}

/// The template generation starts at the value of the client, or at 1.
fn first_template_generation(daemon_set: &mut Value) {
    let given = daemon_set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    let given = given.and_then(|count| count.parse::<i64>().ok());
    set_template_generation(daemon_set, given.unwrap_or(1).max(1));
}

/// Increments the template generation with every change of the template. The server ignores the
/// value of the client.
fn next_template_generation(daemon_set: &mut Value, old: &Value) {
    let before = old["metadata"]["annotations"][TEMPLATE_GENERATION]
        .as_str()
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    let is_new = daemon_set["spec"].get("template") != old["spec"].get("template");
    set_template_generation(daemon_set, before + i64::from(is_new));
}

fn set_template_generation(daemon_set: &mut Value, count: i64) {
    object_at(daemon_set, &["metadata", "annotations"])
        .insert(TEMPLATE_GENERATION.to_owned(), json!(count.to_string()));
}

/// `clusterIPs` follows a client that knows only `clusterIP`.
fn cluster_ips(service: &mut Value) {
    let spec = object_at(service, &["spec"]);
    let listed = spec.get("clusterIPs").and_then(Value::as_array);
    if listed.is_none_or(Vec::is_empty)
        && let Some(ip) = spec.get("clusterIP").cloned()
    {
        spec.insert("clusterIPs".to_owned(), json!([ip]));
    }
}
