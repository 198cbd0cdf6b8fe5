//! The tolerations that the controller adds to its pods.
//!
//! With them a pod stays on a node with problems, and starts on a cordoned node. Upstream:
//! `AddOrUpdateDaemonPodTolerations` in `util/daemonset_util.go`.

use serde_json::{Value, json};

/// Key and effect of the taints that all pods tolerate. The operator is `Exists`.
///
/// The first two have no end, so the controller of tainted nodes never evicts daemon pods for them.
const ALWAYS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The same for pods in the network of their node. Such pods often set the network up.
const HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Key and effect of the added tolerations, in upstream's order.
///
/// The order matters, because it is that of the list in the pod.
fn added(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_host_network = host_network.then_some(HOST_NETWORK);
    ALWAYS.into_iter().chain(of_host_network)
}

/// Whether an added toleration tolerates a taint with this key and effect.
///
/// The evaluation of nodes uses it, so that no merged list is built for each node.
pub(super) fn tolerates(host_network: bool, key: &str, effect: &str) -> bool {
    added(host_network).any(|toleration| toleration == (key, effect))
}

/// The tolerations of a pod: those of the template, and the added ones. An equal toleration of the
/// template is replaced, because the added one has no `tolerationSeconds`.
pub(super) fn merged(mut tolerations: Vec<Value>, host_network: bool) -> Vec<Value> {
    for (key, effect) in added(host_network) {
        let new = json!({"key": key, "operator": "Exists", "effect": effect});
        let mut is_there = false;
        for toleration in &mut tolerations {
            if matches(toleration, &new) {
                *toleration = new.clone();
                is_there = true;
            }
        }
        if !is_there {
            tolerations.push(new);
        }
    }
    tolerations
}

/// Whether two tolerations have equal keys, operators, values and effects. An absent field is equal
/// to an empty one. Upstream: `MatchToleration`.
fn matches(a: &Value, b: &Value) -> bool {
    let text = |toleration: &Value, field: &str| {
        let value = toleration.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let fields = ["key", "operator", "value", "effect"];
    fields
        .into_iter()
        .all(|field| text(a, field) == text(b, field))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_READY: &str = "node.kubernetes.io/not-ready";

    fn keys(tolerations: &[Value]) -> Vec<&str> {
        let keys = tolerations.iter().map(|t| t["key"].as_str().unwrap_or(""));
        keys.map(|key| key.rsplit('/').next().unwrap_or(key))
            .collect()
    }

    #[test]
    fn tolerations_are_added_in_the_order_of_upstream() {
        let always = [
            "not-ready",
            "unreachable",
            "disk-pressure",
            "memory-pressure",
            "pid-pressure",
            "unschedulable",
        ];
        assert_eq!(keys(&merged(Vec::new(), false)), always);
        let host_network = merged(Vec::new(), true);
        assert_eq!(keys(&host_network)[6..], ["network-unavailable"]);
        let first = json!({"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"});
        assert_eq!(host_network[0], first);
    }

    #[test]
    fn an_equal_toleration_of_the_template_is_replaced_in_place() {
        // (why, toleration of the template, keys of the result)
        let added = json!({"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"});
        let with = |field: &str, value: Value| {
            let mut toleration = added.clone();
            toleration[field] = value;
            toleration
        };
        let cases = [
            ("equal", added.clone(), 6, true),
            (
                "with seconds",
                with("tolerationSeconds", json!(30)),
                6,
                true,
            ),
            ("empty value", with("value", json!("")), 6, true),
            (
                "other effect",
                with("effect", json!("NoSchedule")),
                7,
                false,
            ),
            ("no effect", with("effect", Value::Null), 7, false),
            ("other operator", with("operator", json!("Equal")), 7, false),
            ("catch-all", json!({"operator": "Exists"}), 7, false),
        ];
        for (why, toleration, count, replaced) in cases {
            let found = merged(vec![toleration.clone(), json!({"key": "x"})], false);
            assert_eq!(found.len(), count + 1, "{why}");
            assert_eq!(found[1], json!({"key": "x"}), "{why}");
            let first = if replaced { &added } else { &toleration };
            assert_eq!(&found[0], first, "{why}");
        }
    }

    #[test]
    fn added_tolerations_match_key_and_effect() {
        // (key, effect, tolerated, tolerated in the network of the node)
        let cases = [
            (NOT_READY, "NoExecute", true, true),
            (NOT_READY, "NoSchedule", false, false),
            ("node.kubernetes.io/unschedulable", "NoSchedule", true, true),
            (HOST_NETWORK.0, "NoSchedule", false, true),
            ("dedicated", "NoSchedule", false, false),
        ];
        for (key, effect, pod_network, host_network) in cases {
            let found = (tolerates(false, key, effect), tolerates(true, key, effect));
            assert_eq!(found, (pod_network, host_network), "{key} {effect}");
        }
    }
}
