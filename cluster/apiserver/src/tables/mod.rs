//! Table output of `kubectl get`: columns and cells of each kind.
//!
//! Columns are data (`columns.json`). Cells come from one function per kind, in the order of its
//! columns. Texts are those of upstream's `pkg/printers/internalversion`.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::schema::{self, descriptions};

mod access;
mod age;
mod network;
mod objects;
mod plain;
mod pod;
mod scaling;
mod volumes;
mod workloads;

pub use age::{age_since, human_age};
pub use pod::status as pod_status;

static COLUMNS: LazyLock<Columns> = LazyLock::new(|| {
    serde_json::from_str(include_str!("columns.json"))
        .expect("the table of columns is JSON of this shape")
});

/// Shared descriptions, and the columns of each kind.
#[derive(Deserialize)]
struct Columns {
    shared: HashMap<String, String>,
    kinds: HashMap<String, Vec<Column>>,
}

/// Name, type, format, priority (1: only with `-o wide`) and description. In place of a description
/// stands the key of a shared one, or `@` with the type and field that it describes.
#[derive(Deserialize)]
struct Column(String, String, String, i32, String);

impl Column {
    fn definition(&self) -> Value {
        let Column(name, kind, format, priority, description) = self;
        let description = match description.strip_prefix('@') {
            Some(field) => COLUMNS
                .shared
                .get(description)
                .cloned()
                .or_else(|| described(field))
                .unwrap_or_default(),
            None => description.clone(),
        };
        json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
    }
}

fn described(field: &str) -> Option<String> {
    let (shape, field) = field.rsplit_once('.')?;
    descriptions::of_field(shape, field)
}

/// `columnDefinitions` of a kind. Kinds without an entry have Name and Age.
pub fn columns(kind: &str) -> Vec<Value> {
    if let Some(columns) = COLUMNS.kinds.get(kind) {
        return columns.iter().map(Column::definition).collect();
    }
    let text = |name: &str| COLUMNS.shared.get(name).cloned().unwrap_or_default();
    let (age_type, age_text) = match schema::of(kind) {
        Some(_) => ("string", text("@age")),
        None => (
            "date",
            "Custom resource definition column (in JSONPath format): .metadata.creationTimestamp"
                .to_owned(),
        ),
    };
    vec![
        name_column(),
        json!({"name": "Age", "type": age_type, "format": "", "description": age_text, "priority": 0}),
    ]
}

/// The column of the name, which is the first one of almost all kinds.
pub(crate) fn name_column() -> Value {
    json!({"name": "Name", "type": "string", "format": "name", "description": COLUMNS.shared.get("@name"), "priority": 0})
}

/// The cells of an object, one per column.
pub fn cells(kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    match kind {
        "ClusterRole" | "CustomResourceDefinition" | "LimitRange" | "Role" => {
            vec![
                name(object),
                json!(text(object, "/metadata/creationTimestamp")),
            ]
        }
        "ClusterRoleBinding" | "RoleBinding" => access::binding(object, now),
        "ConfigMap" => objects::config_map(object, now),
        "ControllerRevision" => workloads::controller_revision(object, now),
        "CronJob" => workloads::cron_job(object, now),
        "DaemonSet" => workloads::daemon_set(object, now),
        "Deployment" => workloads::deployment(object, now),
        "Endpoints" => objects::endpoints(object, now),
        "EndpointSlice" => network::endpoint_slice(object, now),
        "Event" => objects::event(object, now),
        "HorizontalPodAutoscaler" => scaling::autoscaler(object, now),
        "Ingress" => network::ingress(object, now),
        "IngressClass" => network::ingress_class(object, now),
        "Job" => workloads::job(object, now),
        "Lease" => objects::lease(object, now),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            access::webhooks(object, now)
        }
        "Namespace" => objects::namespace(object, now),
        "NetworkPolicy" => network::policy(object, now),
        "Node" => objects::node(object, now),
        "PersistentVolume" => volumes::volume(object, now),
        "PersistentVolumeClaim" => volumes::claim(object, now),
        "Pod" => pod::cells(object, now),
        "PodDisruptionBudget" => objects::disruption_budget(object, now),
        "PodTemplate" => workloads::pod_template(object),
        "PriorityClass" => objects::priority_class(object, now),
        "ReplicaSet" | "ReplicationController" => workloads::replica_set(object, now),
        "ResourceQuota" => objects::quota(object, now),
        "RuntimeClass" => vec![
            name(object),
            json!(text(object, "/handler")),
            age_cell(object, now),
        ],
        "Scale" => workloads::scale(object, now),
        "Secret" => objects::secret(object, now),
        "Service" => objects::service(object, now),
        "StatefulSet" => workloads::stateful_set(object, now),
        "StorageClass" => volumes::class(object, now),
        _ => plain::cells(kind, object, now)
            .unwrap_or_else(|| vec![name(object), age_cell(object, now)]),
    }
}

/// `conditions` of a row, which mark finished pods.
pub fn row_conditions(kind: &str, object: &Value) -> Option<Value> {
    let (reason, message) = match (kind, text(object, "/status/phase")) {
        ("Pod", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("Pod", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// Text of a cell without a value.
const NONE: &str = "<none>";

fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

fn age_cell(object: &Value, now: Timestamp) -> Value {
    json!(age_since(
        object.pointer("/metadata/creationTimestamp"),
        now
    ))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The first texts, and the number of further ones.
fn shortened(texts: &[String], shown: usize, separator: &str) -> String {
    match texts.len().checked_sub(shown) {
        None | Some(0) => texts.join(separator),
        Some(more) => format!("{} + {more} more...", texts[..shown].join(separator)),
    }
}

/// The name of a class, with a mark if the class is the default.
fn name_of_class(object: &Value, default_mark: &str) -> Value {
    let is_default = object["metadata"]["annotations"][default_mark] == "true";
    json!(format!(
        "{}{}",
        text(object, "/metadata/name"),
        if is_default { " (default)" } else { "" }
    ))
}

/// `text`, or `otherwise` if it is empty.
fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// A map in the form `a=b,c=d`, sorted by key.
fn labels(labels: Option<&Value>) -> String {
    let mut pairs: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    pairs.sort_unstable();
    or(&pairs.join(","), NONE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_fills_all_its_columns() {
        let kinds = COLUMNS
            .kinds
            .keys()
            .map(String::as_str)
            .chain(["Widget", "ServiceAccount"]);
        for kind in kinds {
            assert_eq!(
                columns(kind).len(),
                cells(kind, &json!({}), Timestamp::UNIX_EPOCH).len(),
                "{kind}"
            );
        }
    }

    #[test]
    fn every_column_is_described() {
        let undescribed = |kind: &&String| {
            kind.as_str() != "RuntimeClass"
                && columns(kind)
                    .iter()
                    .any(|column| column["description"] == "")
        };
        assert_eq!(
            COLUMNS.kinds.keys().filter(undescribed).collect::<Vec<_>>(),
            [""; 0]
        );
        let schedule = &columns("CronJob")[1]["description"];
        assert!(
            schedule
                .as_str()
                .unwrap()
                .starts_with("The schedule in Cron format"),
            "{schedule}"
        );
    }

    #[test]
    fn other_kinds_show_name_and_age() {
        let names = |kind: &str| {
            columns(kind)
                .iter()
                .map(|c| (c["name"].clone(), c["type"].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names("Widget"),
            [
                (json!("Name"), json!("string")),
                (json!("Age"), json!("date"))
            ]
        );
        assert_eq!(names("Binding")[1], (json!("Age"), json!("string")));
        let object =
            json!({"metadata": {"name": "w", "creationTimestamp": "2024-01-01T00:00:00Z"}});
        assert_eq!(
            cells("Widget", &object, "2024-01-01T00:01:05Z".parse().unwrap()),
            [json!("w"), json!("65s")]
        );
    }

    #[test]
    fn finished_pods_are_marked() {
        assert_eq!(
            row_conditions("Pod", &json!({"status": {"phase": "Failed"}})).unwrap()[0]["reason"],
            "Failed"
        );
        assert_eq!(
            row_conditions("Pod", &json!({"status": {"phase": "Running"}})),
            None
        );
        assert_eq!(
            row_conditions("Job", &json!({"status": {"phase": "Failed"}})),
            None
        );
    }
}
