//! Table output: the columns people look at.
//!
//! Columns are data (`columns.json`); cells are one function per kind, in the order of its columns.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::schema;

mod age;
mod objects;
mod pod;
mod workloads;

pub use age::{age_since, human_age};
pub use pod::status as pod_status;

static COLUMNS: LazyLock<Columns> =
    LazyLock::new(|| serde_json::from_str(include_str!("columns.json")).expect("the table of columns is JSON of this shape"));

/// Descriptions that many columns share, and the columns of each kind.
#[derive(Deserialize)]
struct Columns {
    shared: HashMap<String, String>,
    kinds: HashMap<String, Vec<Column>>,
}

/// Name, type, format, priority (1: only with `-o wide`), description or the key of a shared one.
#[derive(Deserialize)]
struct Column(String, String, String, i32, String);

impl Column {
    fn definition(&self) -> Value {
        let Column(name, kind, format, priority, description) = self;
        let description = COLUMNS.shared.get(description).unwrap_or(description);
        json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
    }
}

/// `columnDefinitions` of a kind; Name and Age for kinds without an entry.
pub fn columns(kind: &str) -> Vec<Value> {
    if let Some(columns) = COLUMNS.kinds.get(kind) {
        return columns.iter().map(Column::definition).collect();
    }
    let text = |name: &str| COLUMNS.shared.get(name).cloned().unwrap_or_default();
    let (age_type, age_text) = match schema::of(kind) {
        Some(_) => ("string", text("@age")),
        None => ("date", "Custom resource definition column (in JSONPath format): .metadata.creationTimestamp".to_owned()),
    };
    vec![name_column(), json!({"name": "Age", "type": age_type, "format": "", "description": age_text, "priority": 0})]
}

/// The column with the name, which comes first for almost all kinds.
pub(crate) fn name_column() -> Value {
    json!({"name": "Name", "type": "string", "format": "name", "description": COLUMNS.shared.get("@name"), "priority": 0})
}

/// The cells of one object, one per column.
pub fn cells(kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    match kind {
        "ConfigMap" => objects::config_map(object, now),
        "CustomResourceDefinition" => vec![name(object), json!(text(object, "/metadata/creationTimestamp"))],
        "DaemonSet" => workloads::daemon_set(object, now),
        "Deployment" => workloads::deployment(object, now),
        "Endpoints" => objects::endpoints(object, now),
        "Event" => objects::event(object, now),
        "Job" => workloads::job(object, now),
        "Lease" => objects::lease(object, now),
        "Namespace" => objects::namespace(object, now),
        "Node" => objects::node(object, now),
        "Pod" => pod::cells(object, now),
        "PodDisruptionBudget" => objects::disruption_budget(object, now),
        "ReplicaSet" | "ReplicationController" => workloads::replica_set(object, now),
        "ResourceQuota" => objects::quota(object, now),
        "Scale" => workloads::scale(object, now),
        "Secret" => objects::secret(object, now),
        "Service" => objects::service(object, now),
        "StatefulSet" => workloads::stateful_set(object, now),
        _ => vec![name(object), age_cell(object, now)],
    }
}

/// `conditions` of a row: finished pods are told apart from the rest.
pub fn row_conditions(kind: &str, object: &Value) -> Option<Value> {
    let (reason, message) = match (kind, text(object, "/status/phase")) {
        ("Pod", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("Pod", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// What stands in a cell with nothing to show.
const NONE: &str = "<none>";

fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

fn age_cell(object: &Value, now: Timestamp) -> Value {
    json!(age_since(object.pointer("/metadata/creationTimestamp"), now))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `text`, or `otherwise` when it is empty.
fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// A map as `a=b,c=d`, by key.
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
        let kinds = COLUMNS.kinds.keys().map(String::as_str).chain(["Widget", "Role"]);
        for kind in kinds {
            assert_eq!(columns(kind).len(), cells(kind, &json!({}), Timestamp::UNIX_EPOCH).len(), "{kind}");
        }
    }

    #[test]
    fn other_kinds_show_name_and_age() {
        let names = |kind: &str| columns(kind).iter().map(|c| (c["name"].clone(), c["type"].clone())).collect::<Vec<_>>();
        assert_eq!(names("Widget"), [(json!("Name"), json!("string")), (json!("Age"), json!("date"))]);
        assert_eq!(names("Role")[1], (json!("Age"), json!("string")));
        let object = json!({"metadata": {"name": "w", "creationTimestamp": "2024-01-01T00:00:00Z"}});
        assert_eq!(cells("Widget", &object, "2024-01-01T00:01:05Z".parse().unwrap()), [json!("w"), json!("65s")]);
    }

    #[test]
    fn finished_pods_are_marked() {
        assert_eq!(row_conditions("Pod", &json!({"status": {"phase": "Failed"}})).unwrap()[0]["reason"], "Failed");
        assert_eq!(row_conditions("Pod", &json!({"status": {"phase": "Running"}})), None);
        assert_eq!(row_conditions("Job", &json!({"status": {"phase": "Failed"}})), None);
    }
}
