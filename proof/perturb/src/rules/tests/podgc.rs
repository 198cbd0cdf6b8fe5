//! Pods that podgc deletes.

use super::*;

#[test]
fn a_running_pod_of_an_existing_node_stays() {
    use ChangeKind::{Deleted, Updated};
    let node = |spec: Value| ("nodes", json!({"metadata": {"name": "one"}, "spec": spec}));
    let p = || pod("p", "a");
    let on = |node: (&'static str, Value), pod: Value| vec![node, ("pods", pod)];
    let taint = json!({"taints": [{"key": "node.kubernetes.io/out-of-service"}]});
    let other = json!({"taints": [{"key": "node.kubernetes.io/unreachable"}]});
    check(
        LIVE_NODE,
        [
            (
                "running pod is removed",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                true,
            ),
            (
                "running pod gets a deletion timestamp",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Updated,
                terminating(p()),
                true,
            ),
            (
                "running pod gets a final phase",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Updated,
                finished(p()),
                true,
            ),
            (
                "node has another taint",
                on(node(other), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                true,
            ),
            (
                "node is out of service",
                on(node(taint), p()),
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                false,
            ),
            (
                "only conditions change",
                on(node(json!({})), p()),
                POD_COLLECTOR,
                "pods",
                Updated,
                unready(p()),
                false,
            ),
            (
                "finished pod",
                on(node(json!({})), finished(p())),
                POD_COLLECTOR,
                "pods",
                Deleted,
                finished(p()),
                false,
            ),
            (
                "its node is gone",
                vec![("pods", p())],
                POD_COLLECTOR,
                "pods",
                Deleted,
                p(),
                false,
            ),
            (
                "by a user",
                on(node(json!({})), p()),
                "kubectl",
                "pods",
                Deleted,
                p(),
                false,
            ),
        ],
    );
}
