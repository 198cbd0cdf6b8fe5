//! The rule of the quota controller.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::State;
use crate::scenario::FinalRule;

/// The usage in the status equals the number of objects, once the cluster is at rest.
pub const EXACT_USAGE: FinalRule = FinalRule {
    name: "a quota shows as many objects as exist",
    check: exact_usage,
};

/// The resource names that the rule knows, with the type that they count. Pods count until they
/// finish.
const COUNTED: [(&str, &str); 4] = [
    ("configmaps", "configmaps"),
    ("count/configmaps", "configmaps"),
    ("pods", "pods"),
    ("services", "services"),
];

fn exact_usage(state: &State) -> Result<(), String> {
    for quota in state.all("resourcequotas") {
        // The rule knows no scopes.
        if !quota["spec"]["scopes"].is_null() {
            continue;
        }
        let namespace = &quota["metadata"]["namespace"];
        let number = |plural: &str| {
            let objects = state.all(plural);
            let own = objects.filter(|object| object["metadata"]["namespace"] == *namespace);
            own.filter(|object| !is_finished(object)).count()
        };
        let limited = quota["spec"]["hard"].as_object().into_iter().flatten();
        let limits: BTreeMap<&str, &Value> =
            limited.map(|(name, limit)| (&**name, limit)).collect();
        for (name, plural) in COUNTED.iter().filter(|(name, _)| limits.contains_key(name)) {
            let used = &quota["status"]["used"][*name];
            let exists = number(plural).to_string();
            if *used != exists {
                return Err(format!("{name} is {used}, and {exists} exist"));
            }
        }
    }
    Ok(())
}

fn is_finished(object: &Value) -> bool {
    matches!(
        object["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{object, put};
    use super::*;
    use crate::history::ChangeKind;

    #[test]
    fn another_usage_than_the_number_of_objects_breaks_the_rule() {
        let quota = |used: Value| {
            let mut quota = object("q", json!({"hard": {"pods": "3"}}));
            quota["status"] = json!({ "used": used });
            quota
        };
        // (usage, kept)
        let cases = [
            (json!({"pods": "1"}), true),
            (json!({"pods": "2"}), false),
            (json!({"pods": "0"}), false),
            (json!({}), false),
        ];
        for (used, kept) in cases {
            let mut finished = object("finished", json!({}));
            finished["status"] = json!({"phase": "Succeeded"});
            let objects = [
                ("resourcequotas", quota(used.clone())),
                ("pods", object("active", json!({}))),
                ("pods", finished),
            ];
            let mut state = State::default();
            for (plural, object) in objects {
                put(&mut state, plural, ChangeKind::Created, object, "");
            }
            let verdict = (EXACT_USAGE.check)(&state);
            assert_eq!(verdict.is_ok(), kept, "{used}: {verdict:?}");
        }
    }
}
