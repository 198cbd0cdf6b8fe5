//! The rules of attached volumes.

use serde_json::Value;

use crate::history::{Change, State};
use crate::rules::is_terminating;
use crate::scenario::Rule;

/// A volume that only one node may have is never attached to two nodes.
pub const ONE_NODE: Rule = Rule {
    name: "an exclusive volume is attached to one node at most",
    check: one_node,
};

/// A volume leaves the status of its node before its VolumeAttachment is deleted.
pub const UNREPORTED: Rule = Rule {
    name: "a node does not report a volume that is being detached",
    check: unreported,
};

/// A volume that a node in service uses is not detached.
pub const UNUSED: Rule = Rule {
    name: "a volume in use is detached only from a node out of service",
    check: unused,
};

/// Identity of the attach-detach controller.
const CONTROLLER: &str = "attachdetach-controller";

fn one_node(state: &State, change: &Change) -> Result<(), String> {
    let volume = volume_of(state, &change.object);
    let Some(volume) = volume.filter(|_| is_attached(change)) else {
        return Ok(());
    };
    let modes = volume["spec"]["accessModes"].as_array();
    let is_shared = |mode: &Value| mode == "ReadWriteMany" || mode == "ReadOnlyMany";
    if modes.is_some_and(|modes| modes.iter().any(is_shared)) {
        return Ok(());
    }
    let spec = &change.object["spec"];
    let other = state.all("volumeattachments").find(|other| {
        other["status"]["attached"] == true
            && other["spec"]["source"] == spec["source"]
            && other["spec"]["nodeName"] != spec["nodeName"]
    });
    match other {
        None => Ok(()),
        Some(other) => Err(format!(
            "{} is attached to {} and {}",
            volume["metadata"]["name"], spec["nodeName"], other["spec"]["nodeName"]
        )),
    }
}

fn is_attached(change: &Change) -> bool {
    &*change.plural == "volumeattachments" && change.object["status"]["attached"] == true
}

/// The PersistentVolume of a VolumeAttachment.
fn volume_of<'a>(state: &'a State, attachment: &Value) -> Option<&'a Value> {
    let name = attachment["spec"]["source"]["persistentVolumeName"].as_str()?;
    state.get("persistentvolumes", name)
}

/// The node, and the unique name of the volume, if the change begins to detach the volume.
fn detached<'a>(state: &'a State, change: &Change) -> Option<(&'a Value, String)> {
    let begins = &*change.plural == "volumeattachments"
        && change.is_by(CONTROLLER)
        && change.begins_deletion();
    let volume = volume_of(state, &change.object).filter(|_| begins)?;
    let csi = &volume["spec"]["csi"];
    let driver = csi["driver"].as_str()?;
    let handle = csi["volumeHandle"].as_str()?;
    let node = state.get("nodes", change.object["spec"]["nodeName"].as_str()?)?;
    Some((node, format!("kubernetes.io/csi/{driver}^{handle}")))
}

fn unreported(state: &State, change: &Change) -> Result<(), String> {
    let Some((node, volume)) = detached(state, change) else {
        return Ok(());
    };
    let reported = node["status"]["volumesAttached"].as_array();
    let mut reported = reported.into_iter().flatten();
    if reported.any(|reported| reported["name"] == *volume) {
        Err(format!(
            "{} still reports {volume}",
            node["metadata"]["name"]
        ))
    } else {
        Ok(())
    }
}

fn unused(state: &State, change: &Change) -> Result<(), String> {
    let Some((node, volume)) = detached(state, change) else {
        return Ok(());
    };
    let taints = node["spec"]["taints"].as_array();
    let is_out = |taint: &Value| taint["key"] == "node.kubernetes.io/out-of-service";
    let was_out = state.recent_versions("nodes", node).any(|node| {
        let taints = node["spec"]["taints"].as_array();
        taints.is_some_and(|taints| taints.iter().any(is_out))
    });
    let is_served = !was_out && !taints.is_some_and(|taints| taints.iter().any(is_out));
    let used = node["status"]["volumesInUse"].as_array();
    let mut used = used.into_iter().flatten();
    if is_served && !is_terminating(node) && used.any(|used| *used == *volume) {
        return Err(format!("{} still uses {volume}", node["metadata"]["name"]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object};
    use super::*;
    use crate::history::ChangeKind;

    const UNIQUE: &str = "kubernetes.io/csi/d^h";

    fn volume(mode: &str) -> Value {
        cluster_scoped(
            "pv",
            json!({"accessModes": [mode], "csi": {"driver": "d", "volumeHandle": "h"}}),
        )
    }

    fn attachment(node: &str, attached: bool) -> Value {
        let spec = json!({"nodeName": node, "source": {"persistentVolumeName": "pv"}});
        let mut attachment = cluster_scoped(&format!("to-{node}"), spec);
        attachment["status"] = json!({ "attached": attached });
        attachment
    }

    fn cluster_scoped(name: &str, spec: Value) -> Value {
        let mut object = object(name, spec);
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("namespace");
        object
    }

    #[test]
    fn a_second_node_breaks_the_rule() {
        let case = |why, mode: &str, other: bool, own: bool, breaks| {
            let world = vec![
                ("persistentvolumes", volume(mode)),
                ("volumeattachments", attachment("n1", other)),
            ];
            let changed = attachment("n2", own);
            (
                why,
                world,
                "attacher",
                "volumeattachments",
                ChangeKind::Updated,
                changed,
                breaks,
            )
        };
        check(
            ONE_NODE,
            [
                case("alone", "ReadWriteOnce", false, true, false),
                case("requested only", "ReadWriteOnce", true, false, false),
                case("two nodes", "ReadWriteOnce", true, true, true),
                case("a shared volume", "ReadWriteMany", true, true, false),
            ],
        );
    }

    #[test]
    fn a_detach_before_its_time_breaks_the_rules() {
        let case = |why, status: Value, taints: Value, by, breaks| {
            let mut node = cluster_scoped("n1", json!({ "taints": taints }));
            node["status"] = status;
            let world = vec![
                ("persistentvolumes", volume("ReadWriteOnce")),
                ("nodes", node),
            ];
            let gone = attachment("n1", true);
            (
                why,
                world,
                by,
                "volumeattachments",
                ChangeKind::Deleted,
                gone,
                breaks,
            )
        };
        let used = json!({"volumesInUse": [UNIQUE]});
        let reported = json!({"volumesAttached": [{"name": UNIQUE, "devicePath": ""}]});
        let out = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
        check(
            UNUSED,
            [
                case("unused", json!({}), json!([]), CONTROLLER, false),
                case("in use", used.clone(), json!([]), CONTROLLER, true),
                case("out of service", used.clone(), out, CONTROLLER, false),
                case("by a user", used, json!([]), "tester", false),
            ],
        );
        check(
            UNREPORTED,
            [
                case("not reported", json!({}), json!([]), CONTROLLER, false),
                case("reported", reported, json!([]), CONTROLLER, true),
            ],
        );
    }
}
