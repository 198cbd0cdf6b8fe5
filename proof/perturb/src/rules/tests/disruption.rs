//! Evictions.

use super::*;

#[test]
fn an_eviction_counts_the_pods_that_stay() {
    let pod = |name: &str, ready: &str| {
        let mut pod = owned(object(name, json!({})), "ReplicaSet", "set");
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["status"] = json!({"conditions": [{"type": "Ready", "status": ready}]});
        ("pods", pod)
    };
    let world = |limits: &Value, third: (&'static str, Value)| {
        let mut spec = limits.clone();
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        let set = owned(object("set", json!({"replicas": 3})), "Deployment", "web");
        vec![
            ("poddisruptionbudgets", object("guard", spec)),
            ("deployments", object("web", json!({"replicas": 3}))),
            ("replicasets", set),
            pod("a", "True"),
            pod("b", "True"),
            third,
        ]
    };
    let stranger = || {
        let (plural, pod) = pod("c", "True");
        (
            plural,
            with(pod, "/metadata/labels", json!({"app": "other"})),
        )
    };
    let gone = || {
        let (plural, pod) = pod("c", "True");
        (plural, terminating(pod))
    };
    let one = json!({"maxUnavailable": 1});
    // (why, limits, third pod, evicted pods, breaks)
    let cases = [
        ("two stay", &one, pod("c", "True"), json!({"a": "t"}), false),
        (
            "one stays",
            &one,
            pod("c", "True"),
            json!({"a": "t", "b": "t"}),
            true,
        ),
        (
            "one was unready",
            &one,
            pod("c", "False"),
            json!({"a": "t"}),
            true,
        ),
        ("one was terminating", &one, gone(), json!({"a": "t"}), true),
        (
            "one belongs to others",
            &one,
            stranger(),
            json!({"a": "t"}),
            true,
        ),
        (
            "nothing is evicted",
            &one,
            pod("c", "False"),
            json!({}),
            false,
        ),
        (
            "a third, of 3",
            &json!({"maxUnavailable": "34%"}),
            pod("c", "True"),
            json!({"a": "t", "b": "t"}),
            false,
        ),
        (
            "a third, of 3",
            &json!({"maxUnavailable": "33%"}),
            pod("c", "True"),
            json!({"a": "t", "b": "t"}),
            true,
        ),
        (
            "half of 3",
            &json!({"minAvailable": "50%"}),
            pod("c", "True"),
            json!({"a": "t"}),
            false,
        ),
        (
            "half of 3",
            &json!({"minAvailable": "50%"}),
            pod("c", "False"),
            json!({"a": "t"}),
            true,
        ),
        (
            "at least 2",
            &json!({"minAvailable": 2}),
            pod("c", "True"),
            json!({"a": "t"}),
            false,
        ),
        (
            "at least 3",
            &json!({"minAvailable": 3}),
            pod("c", "True"),
            json!({"a": "t"}),
            true,
        ),
    ];
    let cases = cases.map(|(why, limits, third, evicted, breaks)| {
        let world = world(limits, third);
        let guard = with(
            world[0].1.clone(),
            "/status",
            json!({"disruptedPods": evicted}),
        );
        (
            why,
            world,
            "devcluster",
            "poddisruptionbudgets",
            ChangeKind::Updated,
            guard,
            breaks,
        )
    });
    check(BUDGET, cases);
}
