//! The admission plugins about taints: TaintNodesByCondition taints new nodes, and
//! DefaultTolerationSeconds gives pods five minutes on a node that fails.
//!
//! Upstream: `plugin/pkg/admission/nodetaint` and `plugin/pkg/admission/defaulttolerationseconds`.

use serde_json::{Value, json};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Time that a pod stays on a failed node by default. Upstream:
/// `--default-not-ready-toleration-seconds` and `--default-unreachable-toleration-seconds`.
const TOLERATION_SECONDS: i64 = 300;

/// Taints a new node until the node lifecycle controller finds it ready.
pub(super) fn taint_as_not_ready(node: &mut Value) {
    let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
    let is_same = |other: &Value| other["key"] == NOT_READY && other["effect"] == "NoSchedule";
    add_unless(is_same, taint, &mut node["spec"], "taints");
}

/// Adds the default tolerations that the pod lacks.
pub(super) fn tolerate_failed_nodes(pod: &mut Value) {
    for key in [NOT_READY, UNREACHABLE] {
        let covers = |toleration: &Value| {
            let is = |field: &str, wanted: &str| {
                let value = toleration[field].as_str().unwrap_or_default();
                value.is_empty() || value == wanted
            };
            is("key", key) && is("effect", "NoExecute")
        };
        let toleration = json!({
            "key": key, "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": TOLERATION_SECONDS,
        });
        add_unless(covers, toleration, &mut pod["spec"], "tolerations");
    }
}

/// Adds `item` to a list of the spec, unless one of its items fulfils `is_enough`.
fn add_unless(is_enough: impl Fn(&Value) -> bool, item: Value, spec: &mut Value, list: &str) {
    match &mut spec[list] {
        Value::Array(items) if items.iter().any(is_enough) => {}
        Value::Array(items) => items.push(item),
        missing => *missing = json!([item]),
    }
}
