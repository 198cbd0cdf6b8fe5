//! Rules of aggregated ClusterRoles.

use serde_json::Value;

use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// The controller grants only rules that another role has now, or had a moment ago.
pub const GRANTED: Rule = Rule {
    name: "an aggregated role gets only rules of other roles",
    check: granted,
};

fn granted(state: &State, change: &Change) -> Result<(), String> {
    let is_update = &*change.plural == "clusterroles" && change.kind == ChangeKind::Updated;
    if !is_update || !change.is_by("clusterrole-aggregation-controller") {
        return Ok(());
    }
    let rules = |role: &Value| role["rules"].as_array().cloned().unwrap_or_default();
    let name = &change.object["metadata"]["name"];
    let others = state
        .recent("clusterroles")
        .filter(|role| role["metadata"]["name"] != *name);
    let known: Vec<Value> = others.flat_map(rules).collect();
    match rules(&change.object)
        .into_iter()
        .find(|rule| !known.contains(rule))
    {
        Some(rule) => Err(format!("{} got {rule}", change.key)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{put, put_at};
    use super::*;
    use crate::history::ChangeKind::{Created, Deleted, Updated};

    fn role(name: &str, verb: &str) -> Value {
        json!({"metadata": {"name": name, "uid": name}, "rules": [{"verbs": [verb]}]})
    }

    #[test]
    fn a_role_gets_rules_of_others() {
        const AGGREGATION: &str = "clusterrole-aggregation-controller";
        // (why, second of the write, verb, client, whether it breaks the rule)
        let cases = [
            ("a role has it", 10, "get", AGGREGATION, false),
            ("a role had it a moment ago", 2, "list", AGGREGATION, false),
            ("a role had it long ago", 10, "list", AGGREGATION, true),
            ("the role had it itself", 10, "old", AGGREGATION, true),
            ("by a user", 10, "old", "kubectl", false),
        ];
        for (why, second, verb, by, breaks) in cases {
            let mut state = State::default();
            for (name, verb) in [("sum", "old"), ("part", "get"), ("former", "list")] {
                put(&mut state, "clusterroles", Created, role(name, verb), "");
            }
            put(
                &mut state,
                "clusterroles",
                Deleted,
                role("former", "list"),
                "",
            );
            let change = put_at(
                second,
                &mut state,
                "clusterroles",
                Updated,
                role("sum", verb),
                by,
            );
            assert_eq!((GRANTED.check)(&state, &change).is_err(), breaks, "{why}");
        }
    }
}
