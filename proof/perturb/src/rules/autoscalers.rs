//! The rule of the pod autoscaler.

use serde_json::Value;

use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// The pod autoscaler writes no size outside the limits of an autoscaler of the target.
pub const WITHIN_LIMITS: Rule = Rule {
    name: "a target keeps within the limits of its autoscaler",
    check: within_limits,
};

/// The kinds that the scenarios scale, with their resources.
const KINDS: [(&str, &str); 2] = [("Deployment", "deployments"), ("ReplicaSet", "replicasets")];

fn within_limits(state: &State, change: &Change) -> Result<(), String> {
    let kind = KINDS.iter().find(|(_, plural)| *plural == &*change.plural);
    let is_resize = change.kind == ChangeKind::Updated && change.is_by("horizontal-pod-autoscaler");
    let Some((kind, _)) = kind.filter(|_| is_resize) else {
        return Ok(());
    };
    let number = |value: &Value, otherwise| value.as_i64().unwrap_or(otherwise);
    let size = number(&change.object["spec"]["replicas"], 0);
    let (namespace, name) = change.key.split_once('/').unwrap_or_default();
    let scales = |hpa: &&Value| {
        let target = &hpa["spec"]["scaleTargetRef"];
        target["kind"] == *kind
            && target["name"] == *name
            && hpa["metadata"]["namespace"] == *namespace
    };
    let allows = |hpa: &Value| {
        let spec = &hpa["spec"];
        (number(&spec["minReplicas"], 1)..=number(&spec["maxReplicas"], 0)).contains(&size)
    };
    const PLURAL: &str = "horizontalpodautoscalers";
    let mut autoscalers = state.all(PLURAL).filter(scales);
    if autoscalers.any(|hpa| state.recent_versions(PLURAL, hpa).any(allows)) {
        return Ok(());
    }
    Err(format!("{} got {size} replicas", change.key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object};
    use super::*;

    #[test]
    fn a_size_outside_the_limits_breaks_the_rule() {
        let target = |name: &str| json!({"kind": "ReplicaSet", "name": name});
        let case = |why, name: &str, replicas: i64, by, breaks| {
            let spec = json!({"scaleTargetRef": target("web"), "minReplicas": 2, "maxReplicas": 4});
            let world = vec![
                ("horizontalpodautoscalers", object("hpa", spec)),
                ("replicasets", object(name, json!({"replicas": 3}))),
            ];
            let resized = object(name, json!({ "replicas": replicas }));
            (
                why,
                world,
                by,
                "replicasets",
                ChangeKind::Updated,
                resized,
                breaks,
            )
        };
        let own = "horizontal-pod-autoscaler";
        check(
            WITHIN_LIMITS,
            [
                case("the upper limit", "web", 4, own, false),
                case("above the upper limit", "web", 5, own, true),
                case("below the lower limit", "web", 1, own, true),
                case("by a user", "web", 9, "tester", false),
                case("without an autoscaler", "db", 3, own, true),
            ],
        );
    }
}
