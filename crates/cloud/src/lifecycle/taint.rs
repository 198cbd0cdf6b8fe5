//! The taint of nodes whose instance is shut down.
//!
//! The API patches the list of taints as a whole, so an edit starts from a live list and carries
//! its version. Upstream: `AddOrUpdateTaintOnNode` and `RemoveTaintOffNode` in
//! `k8s.io/cloud-provider/node/helpers`.

use k8s_openapi::api::core::v1::Node;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const KEY: &str = "node.cloudprovider.kubernetes.io/shutdown";
const EFFECT: &str = "NoSchedule";

/// A change of the list of taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    Add,
    Remove,
}

/// Whether the cached node has the taint.
pub(super) fn is_on(node: &Node) -> bool {
    let mut taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| taint.key == KEY && taint.effect == EFFECT)
}

/// A node as a live read returns it, with the fields that an edit needs.
#[derive(Debug, Deserialize)]
pub(super) struct LiveNode {
    metadata: LiveMeta,
    #[serde(default)]
    spec: LiveSpec,
}

#[derive(Debug, Deserialize)]
struct LiveMeta {
    uid: String,
    #[serde(rename = "resourceVersion")]
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
struct LiveSpec {
    #[serde(default)]
    taints: Option<Vec<Map<String, Value>>>,
}

impl LiveNode {
    /// The UID, to recognise another node of the same name.
    pub(super) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// The patch for `edit`; `None` if the list is right already.
    pub(super) fn patch(self, edit: Edit) -> Option<Value> {
        let mut taints = self.spec.taints.unwrap_or_default();
        let is_ours = |taint: &Map<String, Value>| {
            taint.get("key").is_some_and(|key| key == KEY)
                && taint.get("effect").is_some_and(|effect| effect == EFFECT)
        };
        let has_it = taints.iter().any(is_ours);
        match edit {
            Edit::Add if !has_it => {
                let taint = json!({"key": KEY, "effect": EFFECT});
                taints.extend(taint.as_object().cloned());
            }
            Edit::Remove if has_it => taints.retain(|taint| !is_ours(taint)),
            Edit::Add | Edit::Remove => return None,
        }
        let taints = (!taints.is_empty()).then_some(taints);
        Some(json!({
            "metadata": {"resourceVersion": self.metadata.resource_version},
            "spec": {"taints": taints},
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_taints_and_unknown_fields_survive_an_edit() {
        let ours = json!({"key": KEY, "effect": EFFECT, "new": 1});
        let other = json!({"key": KEY, "effect": "NoExecute", "new": [2]});
        let plain = json!({"key": KEY, "effect": EFFECT});
        // (taints, edit, taints in the patch)
        let cases = [
            (json!(null), Edit::Add, Some(json!([plain]))),
            (json!([other]), Edit::Add, Some(json!([other, plain]))),
            (json!([ours, other]), Edit::Add, None),
            (json!([ours]), Edit::Remove, Some(json!(null))),
            (json!([ours, other]), Edit::Remove, Some(json!([other]))),
            (json!([other]), Edit::Remove, None),
        ];
        for (taints, edit, expected) in cases {
            let json = json!({
                "metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"taints": taints},
            });
            let live: LiveNode = serde_json::from_value(json).unwrap();
            let expected = expected.map(
                |taints| json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": taints}}),
            );
            assert_eq!(live.patch(edit), expected, "{edit:?} {taints}");
        }
    }
}
