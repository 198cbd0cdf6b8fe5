//! Rules of DaemonSets.

use serde_json::Value;

use super::{is_active, is_controlled_by, is_ready, is_terminating};
use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// The DaemonSet controller creates no pod on a node that has one, except for one during a surge.
pub const ONE_PER_NODE: Rule = Rule {
    name: "a node gets no second pod beyond its surge",
    check: one_per_node,
};
/// A rolling update deletes no ready pod if another node lacks one. All scenarios have
/// `maxUnavailable` 1 or a surge of 1.
pub const AVAILABLE_NODES: Rule = Rule {
    name: "a rolling update keeps pods available",
    check: available_nodes,
};

/// Identity of the controller.
const IDENTITY: &str = "daemon-set-controller";

/// The node that a pod is bound to, or that its affinity names.
fn target(pod: &Value) -> Option<&str> {
    const NAME: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let bound = pod["spec"]["nodeName"].as_str();
    bound.or_else(|| pod.pointer(NAME)?.as_str())
}

/// The DaemonSet that controls `pod`.
fn daemon_set_of<'a>(state: &'a State, pod: &Value) -> Option<&'a Value> {
    let mut all = state.all("daemonsets");
    all.find(|ds| is_controlled_by(pod, ds))
}

fn surges(ds: &Value) -> bool {
    ds["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"].as_u64() > Some(0)
}

fn one_per_node(state: &State, change: &Change) -> Result<(), String> {
    let is_creation = change.kind == ChangeKind::Created && &*change.plural == "pods";
    if !is_creation || !change.is_by(IDENTITY) {
        return Ok(());
    }
    let Some(ds) = daemon_set_of(state, &change.object) else {
        return Ok(());
    };
    let node = target(&change.object);
    let same = |pod: &&Value| {
        target(pod) == node && is_controlled_by(pod, ds) && (is_active(pod) || !surges(ds))
    };
    let count = state.all("pods").filter(same).count();
    let most = if surges(ds) { 2 } else { 1 };
    if count <= most {
        Ok(())
    } else {
        Err(format!("{count} pods on {node:?}"))
    }
}

fn available_nodes(state: &State, change: &Change) -> Result<(), String> {
    let is_deletion = &*change.plural == "pods" && change.begins_deletion();
    let is_rolling = |ds: &&Value| ds["spec"]["updateStrategy"]["type"] == "RollingUpdate";
    let before = change.before.as_deref().unwrap_or(&change.object);
    if !is_deletion || !change.is_by(IDENTITY) || !is_ready(before) {
        return Ok(());
    }
    let Some(ds) = daemon_set_of(state, &change.object).filter(is_rolling) else {
        return Ok(());
    };
    // The nodes that should run a pod. A pod elsewhere is no longer wanted.
    let selector = &ds["spec"]["template"]["spec"]["nodeSelector"];
    let fits = |node: &&Value| {
        let labels = &node["metadata"]["labels"];
        let pairs = selector.as_object().into_iter().flatten();
        pairs.into_iter().all(|(key, value)| labels[key] == *value)
    };
    let wanted: Vec<&str> = state
        .all("nodes")
        .filter(fits)
        .filter_map(|node| node["metadata"]["name"].as_str())
        .collect();
    let serves = |node: &&&str| {
        state
            .all("pods")
            .any(|pod| target(pod) == Some(**node) && is_ready(pod) && !is_terminating(pod))
    };
    let serving = wanted.iter().filter(serves).count();
    let least = wanted.len() - usize::from(!surges(ds) && !wanted.is_empty());
    let is_wanted = target(&change.object).is_some_and(|node| wanted.contains(&node));
    if serving >= least || !is_wanted {
        Ok(())
    } else {
        Err(format!(
            "{serving} of {} nodes have a ready pod",
            wanted.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{Case, check, object, owned, terminating, with};
    use super::*;

    fn ds(surge: i32) -> (&'static str, Value) {
        let limits = json!({"maxSurge": surge, "maxUnavailable": 1 - surge});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
        let template = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
        let spec = json!({"updateStrategy": strategy, "template": template});
        ("daemonsets", object("web", spec))
    }

    /// A node with the labels that the DaemonSet selects.
    fn node(name: &str) -> (&'static str, Value) {
        let labels = json!({"disk": "ssd"});
        let node = json!({"metadata": {"name": name, "uid": name, "labels": labels}});
        ("nodes", node)
    }

    /// A ready pod of the DaemonSet.
    fn pod(name: &str, node: &str) -> Value {
        let pod = owned(object(name, json!({"nodeName": node})), "DaemonSet", "web");
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        with(pod, "/status", ready)
    }

    fn pending(name: &str, node: &str) -> Value {
        let pod = pod(name, node);
        with(pod, "/status", json!({"phase": "Pending"}))
    }

    /// A new pod, which is not bound yet.
    fn pinned(name: &str, node: &str) -> Value {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        owned(
            object(name, json!({ "affinity": affinity })),
            "DaemonSet",
            "web",
        )
    }

    #[test]
    fn a_node_gets_no_second_pod_beyond_its_surge() {
        let case = |why, surge, existing: &[Value], by, new, breaks| -> Case {
            let pods = existing.iter().map(|pod| ("pods", pod.clone()));
            let world = std::iter::once(ds(surge)).chain(pods).collect();
            (why, world, by, "pods", ChangeKind::Created, new, breaks)
        };
        let one = pod("one", "a");
        let two = pod("two", "a");
        let ended = || with(pod("one", "a"), "/status/phase", json!("Failed"));
        let new = || pinned("new", "a");
        check(
            ONE_PER_NODE,
            [
                case("first pod", 0, &[], IDENTITY, new(), false),
                case(
                    "second pod",
                    0,
                    std::slice::from_ref(&one),
                    IDENTITY,
                    new(),
                    true,
                ),
                case(
                    "another node",
                    0,
                    &[pod("one", "b")],
                    IDENTITY,
                    new(),
                    false,
                ),
                case(
                    "beside an unbound pod",
                    0,
                    &[pinned("one", "a")],
                    IDENTITY,
                    new(),
                    true,
                ),
                case(
                    "beside a terminating pod",
                    0,
                    &[terminating(one.clone())],
                    IDENTITY,
                    new(),
                    true,
                ),
                case("beside a failed pod", 0, &[ended()], IDENTITY, new(), true),
                case(
                    "second pod of a surge",
                    1,
                    std::slice::from_ref(&one),
                    IDENTITY,
                    new(),
                    false,
                ),
                case(
                    "third pod of a surge",
                    1,
                    &[one.clone(), two.clone()],
                    IDENTITY,
                    new(),
                    true,
                ),
                case(
                    "third pod of a surge, one is terminating",
                    1,
                    &[one.clone(), terminating(two)],
                    IDENTITY,
                    new(),
                    false,
                ),
                case(
                    "pod of another owner",
                    0,
                    &[owned(
                        object("one", json!({"nodeName": "a"})),
                        "DaemonSet",
                        "db",
                    )],
                    IDENTITY,
                    new(),
                    false,
                ),
                case("by a user", 0, &[one], "kubectl", new(), false),
            ],
        );
    }

    #[test]
    fn a_rolling_update_keeps_pods_available() {
        let case =
            |why, ds: (&'static str, Value), others: &[Value], by, old: Value, breaks| -> Case {
                let other_disk = ("nodes", json!({"metadata": {"name": "c", "uid": "c"}}));
                let pods = others.iter().chain(std::iter::once(&old));
                let pods = pods.map(|pod| ("pods", pod.clone()));
                let nodes = [ds, node("a"), node("b"), other_disk];
                let world = nodes.into_iter().chain(pods).collect();
                let old = terminating(old);
                (why, world, by, "pods", ChangeKind::Updated, old, breaks)
            };
        let on_a = || pod("one", "a");
        let on_b = || pod("two", "b");
        let on_delete = || {
            let (plural, ds) = ds(0);
            (
                plural,
                with(ds, "/spec/updateStrategy/type", json!("OnDelete")),
            )
        };
        check(
            AVAILABLE_NODES,
            [
                case("one of two", ds(0), &[on_b()], IDENTITY, on_a(), false),
                case("the last one", ds(0), &[], IDENTITY, on_a(), true),
                case(
                    "the other is unready",
                    ds(0),
                    &[pending("two", "b")],
                    IDENTITY,
                    on_a(),
                    true,
                ),
                case(
                    "the other is terminating",
                    ds(0),
                    &[terminating(on_b())],
                    IDENTITY,
                    on_a(),
                    true,
                ),
                case(
                    "an unready pod",
                    ds(0),
                    &[],
                    IDENTITY,
                    pending("one", "a"),
                    false,
                ),
                case(
                    "surge, without its successor",
                    ds(1),
                    &[on_b()],
                    IDENTITY,
                    on_a(),
                    true,
                ),
                case(
                    "surge, with an unready successor",
                    ds(1),
                    &[on_b(), pending("new", "a")],
                    IDENTITY,
                    on_a(),
                    true,
                ),
                case(
                    "surge, with its successor",
                    ds(1),
                    &[on_b(), pod("new", "a")],
                    IDENTITY,
                    on_a(),
                    false,
                ),
                case(
                    "a node that should run no pod",
                    ds(0),
                    &[],
                    IDENTITY,
                    pod("one", "c"),
                    false,
                ),
                case("OnDelete", on_delete(), &[], IDENTITY, on_a(), false),
                case("by a user", ds(0), &[], "kubectl", on_a(), false),
            ],
        );
    }
}
