//! The answer of a scheduler about one pod, without values that differ between runs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// `spec.nodeName`.
    node: Option<String>,
    /// The condition `PodScheduled`.
    condition: Option<Value>,
    /// The Events of the core group about the pod, from the oldest one.
    events: Vec<Value>,
}

impl Answer {
    pub(crate) fn new(pod: &Value, events: &[Value]) -> Self {
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        Self {
            node: pod["spec"]["nodeName"].as_str().map(str::to_owned),
            condition: conditions
                .find(|condition| condition["type"] == "PodScheduled")
                .map(masked),
            events: events.iter().map(masked).collect(),
        }
    }

    /// Whether the scheduler has written to the pod.
    pub(crate) fn is_complete(&self) -> bool {
        self.node.is_some() || self.condition.is_some()
    }

    /// Both answers, where they differ.
    pub(crate) fn difference(&self, found: &Self) -> String {
        let parts = |answer: &Self| serde_json::to_value(answer).unwrap();
        let mut lines = String::new();
        compare("", &parts(self), &parts(found), &mut lines);
        lines
    }
}

fn compare(path: &str, recorded: &Value, found: &Value, lines: &mut String) {
    match (recorded, found) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                compare(&path, &recorded[key], &found[key], lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}[{index}]"), a, b, lines);
            }
        }
        _ if recorded == found => {}
        _ => *lines += &format!("  {path}\n    recorded {recorded}\n    answered {found}\n"),
    }
}

/// The object with placeholders for times, UIDs, revisions, generated names and the name of the
/// scheduler's host.
fn masked(object: &Value) -> Value {
    let mut object = object.clone();
    mask(&mut object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        let name = metadata["name"].as_str().unwrap_or_default();
        let (pod, time) = name.rsplit_once('.').unwrap_or((name, ""));
        let is_time = time.len() == 16 && u64::from_str_radix(time, 16).is_ok();
        metadata["name"] = json!(format!("{pod}.{}", if is_time { "<time>" } else { time }));
    }
    object
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let placeholder = match (key.as_str(), &*value) {
                    ("uid", Value::String(_)) => "<uid>".to_owned(),
                    ("resourceVersion", Value::String(_)) => "<revision>".to_owned(),
                    ("reportingInstance", Value::String(name)) => {
                        let host = name.strip_prefix("default-scheduler-");
                        let is_host = host.is_some_and(|host| !host.is_empty());
                        let masked = "default-scheduler-<host>".to_owned();
                        if is_host { masked } else { name.clone() }
                    }
                    (key, Value::String(time)) if is_time(key) => {
                        format!("<time of {}>", time.len())
                    }
                    _ => {
                        mask(value);
                        continue;
                    }
                };
                *value = json!(placeholder);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

fn is_time(key: &str) -> bool {
    key.ends_with("Time") || key.ends_with("Timestamp")
}
