//! Foreground deletion of an owner, while the user adds a dependent.

use serde_json::{Value, json};
use steersman_controllers::garbagecollector;
use steersman_explore::World;
use steersman_perturb::{FinalRule, Scenario, State, Step, rules};

use crate::{BLANK, blank};

/// A ConfigMap with the UID of its name, and its owners.
fn map(name: &str, owners: &[&str]) -> Value {
    let uid = |name: &str| format!("uid-of-{name}");
    let reference = |owner: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid(owner), "blockOwnerDeletion": true});
    let owners: Vec<Value> = owners.iter().map(reference).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "uid": uid(name), "ownerReferences": owners},
    })
}

/// No object is left behind its owner, and the one that the user took away stays.
const COLLECTED: FinalRule = FinalRule {
    name: "only the object without an owner is left",
    check: collected,
};

fn collected(state: &State) -> Result<(), String> {
    let left: Vec<&str> = state
        .all("configmaps")
        .filter_map(|map| map["metadata"]["name"].as_str())
        .collect();
    let is_owned = |map: &Value| {
        let owners = map["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| !owners.is_empty())
    };
    if state.all("configmaps").any(is_owned) || left.contains(&"owner") {
        return Err(format!("{left:?} are left"));
    }
    Ok(())
}

pub(super) fn collector() -> World {
    let scenario = Scenario {
        controller: "garbagecollector",
        name: "foreground",
        controllers: &[garbagecollector::DESCRIPTOR],
        steps: || {
            let path = |name: &str| format!("/api/v1/namespaces/default/configmaps/{name}");
            // The collector cannot know of it in time, so it may not block the owner.
            let mut late = map("late", &["owner"]);
            late["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(false);
            vec![
                Step::Load(map("owner", &[])),
                Step::Load(map("middle", &["owner"])),
                Step::Delete(path("owner"), json!({"propagationPolicy": "Foreground"})),
                Step::Create(late),
            ]
        },
        rules: &[rules::LIVE_OWNER, rules::FOREGROUND],
        final_rules: &[COLLECTED],
        ..BLANK
    };
    World {
        lags: &["configmaps"],
        ..blank(scenario)
    }
}
