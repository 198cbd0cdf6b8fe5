//! The RuntimeClass admission plugin: the class of a pod exists, and its overhead and scheduling
//! become those of the pod.
//!
//! Upstream: `plugin/pkg/admission/runtimeclass`, and `pkg/util/tolerations` for the merge.

use std::sync::Arc;

use serde_json::Value;

use super::amounts;
use crate::Server;
use crate::apimachinery;
use crate::store::Object;

const OTHER_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const OVERHEAD_WITHOUT_CLASS: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

impl Server {
    /// The class that the pod names, if it names one. The error is the reason for a 403.
    pub(super) fn runtime_class_of(&self, pod: &Value) -> Result<Option<Arc<Object>>, String> {
        let Some(name) = pod["spec"]["runtimeClassName"].as_str() else {
            return Ok(None);
        };
        let classes = self.registry.find("node.k8s.io", "v1", "runtimeclasses");
        let classes = classes.expect("runtime classes are built in");
        let class = classes.store.get(name);
        let missing = || format!("pod rejected: RuntimeClass {name:?} not found");
        class.map(Some).ok_or_else(missing)
    }
}

/// Why no request can name the class of the pod. Upstream's client does not send it.
pub(super) fn unusable_name(pod: &Value) -> Option<String> {
    match pod["spec"]["runtimeClassName"].as_str()? {
        "" => Some("resource name may not be empty".to_owned()),
        name => apimachinery::unusable_in_path(name),
    }
}

/// Gives a new pod the overhead, node selector and tolerations of its class.
pub(super) fn complete(pod: &mut Value, class: &Value) -> Result<(), String> {
    let spec = &mut pod["spec"];
    let overhead = &class["overhead"];
    if !overhead.is_null() {
        let given = amounts::parse(&spec["overhead"]);
        if !given.is_empty() && given != amounts::parse(&overhead["podFixed"]) {
            return Err(OTHER_OVERHEAD.to_owned());
        }
        set(spec, "overhead", overhead["podFixed"].clone());
    }
    let scheduling = &class["scheduling"];
    let mut labels = spec["nodeSelector"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    for (key, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(own) = labels.get(key).filter(|own| *own != wanted) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                shown(wanted),
                shown(own)
            ));
        }
        labels.insert(key.clone(), wanted.clone());
    }
    if !labels.is_empty() {
        set(spec, "nodeSelector", labels.into());
    }
    if !scheduling.is_null() {
        let own = spec["tolerations"].as_array().into_iter().flatten();
        let of_class = scheduling["tolerations"].as_array().into_iter().flatten();
        let all: Vec<&Value> = own.chain(of_class).collect();
        let merged = merged(&all);
        if !merged.is_empty() {
            set(spec, "tolerations", merged.into());
        }
    }
    Ok(())
}

fn set(spec: &mut Value, field: &str, value: Value) {
    if !value.is_null() {
        spec[field] = value;
    }
}

/// Refuses a complete pod with another overhead than its class.
pub(super) fn check(pod: &Value, class: Option<&Value>) -> Result<(), &'static str> {
    let given = amounts::parse(&pod["spec"]["overhead"]);
    match class.map(|class| &class["overhead"]) {
        Some(overhead) if !overhead.is_null() => {
            if given == amounts::parse(&overhead["podFixed"]) {
                Ok(())
            } else {
                Err(OTHER_OVERHEAD)
            }
        }
        _ if pod["spec"]["overhead"].is_null() => Ok(()),
        _ => Err(OVERHEAD_WITHOUT_CLASS),
    }
}

/// The tolerations that no other one of the list covers. Of equal ones, the first stays.
fn merged(all: &[&Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|other| covers(other, toleration))
            || all[index + 1..]
                .iter()
                .any(|later| later != toleration && covers(later, toleration));
        if !is_covered {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Whether a pod with the toleration `wide` needs no toleration `narrow`.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    fn text<'a>(toleration: &'a Value, field: &str) -> &'a str {
        toleration[field].as_str().unwrap_or_default()
    }
    let operator = text(wide, "operator");
    let effect = text(wide, "effect");
    let is_any_key = text(wide, "key").is_empty() && operator == "Exists";
    if text(wide, "key") != text(narrow, "key") && !is_any_key {
        return false;
    }
    if effect != text(narrow, "effect") && !effect.is_empty() {
        return false;
    }
    let seconds = |toleration: &Value| toleration["tolerationSeconds"].as_i64();
    if effect == "NoExecute"
        && let Some(limit) = seconds(wide)
        && seconds(narrow).is_none_or(|own| own > limit)
    {
        return false;
    }
    match operator {
        "Equal" | "" => {
            text(narrow, "operator") == "Equal" && text(wide, "value") == text(narrow, "value")
        }
        operator => operator == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class() -> Value {
        json!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {
                "nodeSelector": {"runtime": "heavy"},
                "tolerations": [{"key": "heavy", "operator": "Exists"}],
            },
        })
    }

    #[test]
    fn a_pod_gets_overhead_selector_and_tolerations_of_its_class() {
        let equal =
            json!({"key": "heavy", "operator": "Equal", "value": "a", "effect": "NoSchedule"});
        let other = json!({"key": "other", "operator": "Exists"});
        let mut pod =
            json!({"spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [equal, other]}});
        assert_eq!(complete(&mut pod, &class()), Ok(()));
        let expected = json!({
            "overhead": {"cpu": "250m"},
            "nodeSelector": {"disk": "ssd", "runtime": "heavy"},
            "tolerations": [other, {"key": "heavy", "operator": "Exists"}],
        });
        assert_eq!(
            pod["spec"], expected,
            "the toleration of the class covers the first one of the pod"
        );
        assert_eq!(check(&pod, Some(&class())), Ok(()));
    }

    #[test]
    fn a_pod_that_contradicts_its_class_is_refused() {
        let refused = |spec: Value| complete(&mut json!({"spec": spec}), &class()).err();
        assert_eq!(refused(json!({"overhead": {"cpu": "0.25"}})), None);
        assert_eq!(
            refused(json!({"overhead": {"cpu": "1"}})).as_deref(),
            Some(OTHER_OVERHEAD)
        );
        assert_eq!(
            refused(json!({"nodeSelector": {"runtime": "light"}})).as_deref(),
            Some(
                "conflict: runtimeClass.scheduling.nodeSelector[runtime] = heavy; pod.spec.nodeSelector[runtime] = light"
            )
        );
        let pod = json!({"spec": {"overhead": {"cpu": "1"}}});
        assert_eq!(check(&pod, Some(&class())), Err(OTHER_OVERHEAD));
        let empty = json!({"spec": {"overhead": {}}});
        for class in [None, Some(&json!({}))] {
            assert_eq!(check(&pod, class), Err(OVERHEAD_WITHOUT_CLASS));
            assert_eq!(check(&empty, class), Err(OVERHEAD_WITHOUT_CLASS));
        }
    }

    #[test]
    fn a_name_that_cannot_be_in_a_path_is_unusable() {
        for (name, expected) in [
            ("", Some("resource name may not be empty")),
            (
                "..",
                Some("invalid resource name \"..\": [may not be '..']"),
            ),
            (
                "a/b%",
                Some("invalid resource name \"a/b%\": [may not contain '/' may not contain '%']"),
            ),
            ("Heavy", None),
        ] {
            let pod = json!({"spec": {"runtimeClassName": name}});
            assert_eq!(unusable_name(&pod).as_deref(), expected);
        }
        assert_eq!(unusable_name(&json!({"spec": {}})), None);
    }
}
