//! Tables about tolerations.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_helpers::scheduling::Comparisons;
use steersman_objects::{Node, Object, Pod};

use super::super::tolerance::{Tolerance, no_execute, of_pod};
use super::{node, pod, taint, toleration};

fn tolerance(taints: Value, tolerations: Value, comparisons: Comparisons) -> Tolerance {
    let decode = |object: Value| object.to_string().into_bytes();
    let node = Node::decode(&decode(node("n", taints))).unwrap();
    let pod = Pod::decode(&decode(pod("p", "n", tolerations))).unwrap();
    of_pod(&node.spec.taints, &pod.spec.tolerations, comparisons)
}

fn seconds(seconds: u64) -> Tolerance {
    Tolerance::For(Duration::from_secs(seconds))
}

/// Upstream: `TestFilterNoExecuteTaints`.
#[test]
fn filter_no_execute_taints() {
    let other = json!({"key": "two", "effect": "NoSchedule"});
    let cases = [(json!([taint(1), other]), 1), (json!([other]), 0)];
    for (taints, expected) in cases {
        let node = Node::decode(node("n", taints.clone()).to_string().as_bytes()).unwrap();
        assert_eq!(no_execute(&node.spec.taints).count(), expected, "{taints}");
    }
}

/// Upstream: `TestGetMinTolerationTime`. Each toleration is used for one taint.
#[test]
fn get_min_toleration_time() {
    // (seconds of the tolerations, tolerance)
    let cases: [(&[Option<i64>], Tolerance); 8] = [
        (&[None], Tolerance::Forever),
        (&[Some(1), Some(2)], seconds(1)),
        (&[Some(1), None], seconds(1)),
        (&[None, Some(1)], seconds(1)),
        (&[None, None], Tolerance::Forever),
        (&[Some(0), Some(5)], seconds(0)),
        (&[Some(5), Some(-1)], seconds(0)),
        (&[], Tolerance::Forever),
    ];
    for (times, expected) in cases {
        let indexes = 1..;
        let taints: Value = indexes.clone().zip(times).map(|(i, _)| taint(i)).collect();
        let tolerations: Value = indexes
            .zip(times)
            .map(|(i, time)| toleration(i, *time))
            .collect();
        assert_eq!(
            tolerance(taints, tolerations, Comparisons::Disabled),
            expected,
            "{times:?}"
        );
    }
}

#[test]
fn every_taint_needs_a_toleration_and_the_first_one_counts() {
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"});
    let all = json!({"operator": "Exists"});
    let minute = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 60});
    let dedicated = json!({"key": "dedicated", "value": "x", "effect": "NoExecute"});
    let for_dedicated = json!({"key": "dedicated", "operator": "Equal", "value": "x"});
    let no_schedule = json!({"key": "k", "effect": "NoSchedule"});
    let greater = json!({"key": "size", "operator": "Gt", "value": "5", "effect": "NoExecute"});
    // (case, taints, tolerations, tolerance)
    let cases = [
        (
            "no toleration",
            json!([not_ready]),
            json!([]),
            Tolerance::None,
        ),
        (
            "first toleration without limit",
            json!([not_ready]),
            json!([all, minute]),
            Tolerance::Forever,
        ),
        (
            "first toleration with a limit",
            json!([not_ready]),
            json!([minute, all]),
            seconds(60),
        ),
        (
            "one of two",
            json!([not_ready, dedicated]),
            json!([minute]),
            Tolerance::None,
        ),
        (
            "both",
            json!([dedicated, not_ready]),
            json!([minute, for_dedicated]),
            seconds(60),
        ),
        (
            "no NoExecute taint",
            json!([no_schedule]),
            json!([]),
            Tolerance::Forever,
        ),
        (
            "another value",
            json!([taint(1)]),
            json!([{"key": "testTaint1", "value": "other"}]),
            Tolerance::None,
        ),
        (
            "unknown operator",
            json!([taint(1)]),
            json!([{"key": "testTaint1", "operator": "In"}]),
            Tolerance::None,
        ),
    ];
    for (case, taints, tolerations, expected) in cases {
        assert_eq!(
            tolerance(taints, tolerations, Comparisons::Disabled),
            expected,
            "{case}"
        );
    }
    let sized = json!([{"key": "size", "value": "7", "effect": "NoExecute"}]);
    for (comparisons, expected) in [
        (Comparisons::Disabled, Tolerance::None),
        (Comparisons::Enabled, Tolerance::Forever),
    ] {
        let found = tolerance(sized.clone(), json!([greater]), comparisons);
        assert_eq!(found, expected, "{comparisons:?}");
    }
}
