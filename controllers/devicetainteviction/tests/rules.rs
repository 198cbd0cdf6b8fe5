//! DeviceTaintRules: upstream's sequences about them, their conditions, and stories of whole rules.
//!
//! Upstream: the sequences of `TestController` with rules, and `TestDeviceTaintRule`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_objects::{DeviceTaintRule, Object};
use steersman_options::features::{self, FeatureGates};

use super::super::rules::{self, Effects, STATUS_PERIOD, Told};
use super::sequences::{Bubble, add, permutations, remove, slice_with, start, taint, with};
use super::{CLAIM, DESCRIPTOR, DRIVER, Evictions, KEY, POD, VALUE, begin, claim, pod, tolerates};
use crate::testing::world::World;

const ONE: &str = "1 pod needs to be evicted in 1 namespace.";
const DONE: &str = "1 pod evicted since starting the controller.";
const SIMULATED: &str = "if the effect was NoExecute. This information will not be updated again. \
    Recreate the DeviceTaintRule to trigger an update.";

/// A rule with the taint of the other tests, which began to taint at `time`.
fn rule_of(name: &str, uid: &str, selector: Value, effect: &str, time: Timestamp) -> Value {
    let taint =
        json!({"key": KEY, "value": VALUE, "effect": effect, "timeAdded": time.to_string()});
    json!({
        "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule",
        "metadata": {"name": name, "uid": uid, "generation": 1},
        "spec": {"deviceSelector": selector, "taint": taint},
    })
}

fn rule(effect: &str) -> Value {
    rule_of("evict", "1234", json!({"driver": DRIVER}), effect, start())
}

fn of_device(name: &str, uid: &str, device: &str, after: i64) -> Value {
    let selector = json!({"driver": DRIVER, "device": device});
    let time = start() + SignedDuration::from_secs(after);
    rule_of(name, uid, selector, "NoExecute", time)
}

/// A claim with two other devices of the pool.
fn two_devices(namespace: &str, name: &str, pod: &str, uid: &str) -> Value {
    let mut other = claim(name, pod, uid, json!([]));
    other["metadata"]["namespace"] = json!(namespace);
    let results = other["status"]["allocation"]["devices"]["results"]
        .as_array_mut()
        .unwrap();
    results.push(results[0].clone());
    results[0]["device"] = json!("instance-no-schedule");
    results[1]["device"] = json!("instance-no-execute");
    other
}

fn decode(rule: &Value) -> DeviceTaintRule {
    DeviceTaintRule::decode(rule.to_string().as_bytes()).unwrap()
}

/// A class or expressions narrow a selector. A selection by names alone would be larger.
#[test]
fn selectors_with_parts_of_1_34_select_nothing() {
    let expressions = json!([{"cel": {"expression": "true"}}]);
    // (selector, whether it selects the device)
    let cases = [
        (json!(null), false),
        (json!({}), true),
        (json!({"driver": DRIVER}), true),
        (json!({"driver": "another"}), false),
        (json!({"driver": DRIVER, "deviceClassName": "c"}), false),
        (json!({"driver": DRIVER, "selectors": expressions}), false),
        (json!({"driver": DRIVER, "selectors": []}), true),
    ];
    for (selector, expected) in cases {
        let rule = decode(&rule_of(
            "evict",
            "1234",
            selector.clone(),
            "NoExecute",
            start(),
        ));
        let selects = rules::selects(&rule, DRIVER, "pool", "instance");
        assert_eq!(selects, expected, "{selector}");
    }
}

fn told(status: &'static str, reason: &'static str, message: &str) -> Told {
    Told {
        status,
        reason,
        message: message.to_owned(),
    }
}

/// A sequence of additions: the objects, and the state after them.
struct Case {
    name: &'static str,
    objects: Vec<Value>,
    pod_groups: bool,
    /// Seconds until the eviction, and number of reasons, of the claims with an eviction.
    claims: Vec<(i64, usize)>,
    /// The waiting pods by UID: seconds until the eviction.
    pending: Vec<(&'static str, i64)>,
    /// The first condition of each rule, in the order of the objects.
    first: Vec<Told>,
    /// The condition after the evictions, if it is another one.
    last: Vec<Told>,
}

fn cases() -> Vec<Case> {
    const HOUR: i64 = 3600;
    let in_use = || claim(CLAIM, POD, "1234", json!([]));
    let named = || pod(POD, "1234", CLAIM);
    let evict = || rule("NoExecute");
    let none = || rule("None");
    let slice = || slice_with(json!([]));
    let elsewhere = || {
        [
            two_devices("default-other", CLAIM, POD, "1234-2"),
            with(
                pod(POD, "1234-2", CLAIM),
                "/metadata/namespace",
                json!("default-other"),
            ),
        ]
    };
    let other = || {
        [
            two_devices("default", "other", "my-pod-other", "1234-3"),
            pod("my-pod-other", "1234-3", "other"),
        ]
    };
    let hour = claim(CLAIM, POD, "1234", json!([tolerates(Some(HOUR))]));
    let shared = || {
        let both = json!([
            {"resource": "pods", "name": POD, "uid": "1234"},
            {"resource": "pods", "name": "my-pod-other", "uid": "1234-3"},
        ]);
        let claim = two_devices("default", "other", "my-pod-other", "1234-3");
        with(claim, "/status/reservedFor", both)
    };
    let two_claims = || {
        let claims = json!([
            {"name": "a", "resourceClaimName": CLAIM}, {"name": "b", "resourceClaimName": "other"},
        ]);
        with(named(), "/spec/resourceClaims", claims)
    };
    let of_group = || {
        let owner = json!([{"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "name": "my-podgroup", "uid": "5678", "controller": true}]);
        let consumer = json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups",
            "name": "my-podgroup", "uid": "5678"}]);
        let claim = with(in_use(), "/metadata/ownerReferences", owner);
        with(claim, "/status/reservedFor", consumer)
    };
    let member = || {
        with(
            named(),
            "/spec/schedulingGroup",
            json!({"podGroupName": "my-podgroup"}),
        )
    };
    let tolerating_both = {
        let toleration = |key: &str, seconds: i64| json!({"operator": "Exists", "key": key, "effect": "NoExecute", "tolerationSeconds": seconds});
        let tolerations = json!([
            toleration(KEY, 60),
            toleration("example.com/taint-other", 30)
        ]);
        claim(CLAIM, POD, "1234", tolerations)
    };
    let tainted_twice = slice_with(json!([
        taint(KEY, "", "NoExecute"),
        taint("example.com/taint-other", "", "NoExecute"),
    ]));
    let of_instance = |name, uid| {
        rule_of(
            name,
            uid,
            json!({"device": "instance"}),
            "NoExecute",
            start(),
        )
    };
    let progress = |message| vec![told("True", "PodsPendingEviction", message)];
    let completed = |message| vec![told("False", "Completed", message)];
    let simulated = |text: &str| vec![told("False", "NoEffect", &format!("{text} {SIMULATED}"))];
    let case = |name, objects, claims, pending, first, last| Case {
        name,
        objects,
        pod_groups: false,
        claims,
        pending,
        first,
        last,
    };
    let two = |first: [&str; 2]| {
        first
            .map(|text| told("True", "PodsPendingEviction", text))
            .to_vec()
    };
    vec![
        case(
            "rule-status",
            vec![evict()],
            vec![],
            vec![],
            vec![told("False", "NotStarted", "")],
            vec![],
        ),
        case(
            "tainted-claim-through-rule",
            vec![evict(), in_use()],
            vec![(0, 1)],
            vec![],
            vec![told("False", "NotStarted", "")],
            vec![],
        ),
        case(
            "evict-pod-rule",
            vec![in_use(), named(), evict()],
            vec![(0, 1)],
            vec![("1234", 0)],
            progress(ONE),
            completed(DONE),
        ),
        case(
            "evict-pod-rule-later",
            vec![hour, named(), evict()],
            vec![(HOUR, 1)],
            vec![("1234", HOUR)],
            progress(ONE),
            completed(DONE),
        ),
        case(
            "evict-many-pods-many-namespaces",
            [vec![in_use(), named(), evict()], elsewhere().to_vec()].concat(),
            vec![(0, 1), (0, 1)],
            vec![("1234", 0), ("1234-2", 0)],
            progress("2 pods need to be evicted in 2 different namespaces."),
            completed("2 pods evicted since starting the controller."),
        ),
        case(
            "evict-many-pods-same-namespace",
            [vec![in_use(), named(), evict()], other().to_vec()].concat(),
            vec![(0, 1), (0, 1)],
            vec![("1234", 0), ("1234-3", 0)],
            progress("2 pods need to be evicted in 1 namespace."),
            completed("2 pods evicted since starting the controller."),
        ),
        case(
            "none-pod-rule",
            vec![slice(), in_use(), named(), none()],
            vec![],
            vec![],
            simulated(
                "3 published devices selected. 1 allocated device selected. \
                 1 pod would be evicted in 1 namespace",
            ),
            vec![],
        ),
        case(
            "none-many-pods-many-namespaces",
            [vec![in_use(), named(), none()], elsewhere().to_vec()].concat(),
            vec![],
            vec![],
            simulated(
                "0 published devices selected. 3 allocated devices selected. \
                 2 pods would be evicted in 2 different namespaces",
            ),
            vec![],
        ),
        case(
            "none-many-pods-same-namespace",
            [vec![in_use(), named(), none()], other().to_vec()].concat(),
            vec![],
            vec![],
            simulated(
                "0 published devices selected. 3 allocated devices selected. \
                 2 pods would be evicted in 1 namespace",
            ),
            vec![],
        ),
        Case {
            pod_groups: true,
            ..case(
                "none-podgroup-rule",
                vec![slice(), of_group(), member(), none()],
                vec![],
                vec![],
                simulated(
                    "3 published devices selected. 1 allocated device selected. \
                     1 pod would be evicted in 1 namespace",
                ),
                vec![],
            )
        },
        case(
            "multiple-claims-same-rule",
            vec![in_use(), shared(), two_claims(), evict()],
            vec![(0, 1), (0, 1)],
            vec![("1234", 0)],
            progress(ONE),
            completed(DONE),
        ),
        // The orders 1 and 2 of upstream; all orders have the same result here.
        case(
            "multiple-claims-different-rules",
            vec![
                in_use(),
                shared(),
                two_claims(),
                of_device("evict-instance", "1234", "instance", 0),
                of_device(
                    "evict-instance-no-execute",
                    "5678",
                    "instance-no-execute",
                    40,
                ),
            ],
            vec![(0, 1), (40, 1)],
            vec![("1234", 0)],
            two([ONE, ONE]),
            [completed(DONE), completed(DONE)].concat(),
        ),
        case(
            "evict-pod-many-taints",
            vec![
                evict(),
                of_instance("evict-other", "1234-other"),
                tainted_twice,
                tolerating_both,
                named(),
            ],
            vec![(30, 4)],
            vec![("1234", 30)],
            two([ONE, ONE]),
            [completed(DONE), completed(DONE)].concat(),
        ),
    ]
}

/// Upstream: `TestController`. The order of events has no influence on the state after them.
#[test]
fn controller() {
    for case in cases() {
        let rules: Vec<DeviceTaintRule> = case
            .objects
            .iter()
            .filter(|object| object["kind"] == "DeviceTaintRule")
            .map(decode)
            .collect();
        for order in permutations(case.objects.len()) {
            let what = format!("{} {order:?}", case.name);
            let mut bubble = Bubble::new(case.pod_groups);
            for at in order {
                bubble.apply(&add(case.objects[at].clone()));
            }
            let mut claims: Vec<_> = bubble.claims().into_values().flatten().collect();
            claims.sort_unstable();
            assert_eq!(claims, case.claims, "{what}");
            let pending = case
                .pending
                .iter()
                .map(|(uid, seconds)| ((*uid).to_owned(), *seconds));
            assert_eq!(bubble.pending(), pending.collect(), "{what}");
            let conditions = |bubble: &Bubble| -> Vec<Told> {
                let conditions = rules
                    .iter()
                    .filter_map(|rule| rules::condition(rule, bubble.effects_of(rule)));
                conditions.collect()
            };
            assert_eq!(conditions(&bubble), case.first, "{what}");
            bubble.evict_all();
            if !case.last.is_empty() {
                assert_eq!(conditions(&bubble), case.last, "{what}");
            }
        }
    }
}

#[test]
fn a_rule_that_goes_cancels_its_evictions() {
    let mut bubble = Bubble::new(false);
    for object in [
        claim(CLAIM, POD, "1234", json!([])),
        pod(POD, "1234", CLAIM),
        rule("NoExecute"),
    ] {
        bubble.apply(&add(object));
    }
    assert_eq!(bubble.pending().len(), 1);
    bubble.apply(&remove(rule("NoExecute")));
    assert!(bubble.pending().is_empty());
    assert_eq!(bubble.cancelled.len(), 1);
}

#[test]
fn a_selector_matches_the_devices_of_all_its_fields() {
    let all = json!({"driver": "d", "pool": "p", "device": "x"});
    // (selector, driver, pool, device, matches)
    let cases = [
        (Value::Null, "d", "p", "x", false),
        (json!({}), "d", "p", "x", true),
        (all.clone(), "d", "p", "x", true),
        (all.clone(), "e", "p", "x", false),
        (all.clone(), "d", "q", "x", false),
        (all, "d", "p", "y", false),
        (json!({"pool": "p"}), "e", "p", "y", true),
    ];
    for (selector, driver, pool, device, matches) in cases {
        let rule = decode(&rule_of("r", "u", selector.clone(), "NoExecute", start()));
        let found = rules::selects(&rule, driver, pool, device);
        assert_eq!(found, matches, "{selector} {driver}/{pool}/{device}");
    }
}

/// The rule with a condition that was set this many seconds ago, for this generation.
fn rule_with(status: &str, reason: &str, message: &str, seconds: i64, generation: i64) -> Value {
    let time = start() - SignedDuration::from_secs(seconds);
    let condition = json!({
        "type": "EvictionInProgress", "status": status, "reason": reason, "message": message,
        "observedGeneration": generation, "lastTransitionTime": time.to_string(),
    });
    let other =
        json!({"type": "Other", "status": "True", "lastTransitionTime": start().to_string()});
    let mut rule = rule("NoExecute");
    rule["status"] = json!({"conditions": [other, condition]});
    rule
}

#[test]
fn a_condition_waits_for_ten_seconds() {
    let second = Duration::from_secs(1);
    // (case, rule, time until the next update)
    let cases = [
        ("none", rule("NoExecute"), None),
        (
            "just set",
            rule_with("True", "A", "", 0, 1),
            Some(STATUS_PERIOD),
        ),
        (
            "nine seconds old",
            rule_with("True", "A", "", 9, 1),
            Some(second),
        ),
        ("ten seconds old", rule_with("True", "A", "", 10, 1), None),
        ("of another spec", rule_with("True", "A", "", 0, 0), None),
        (
            "the clock was set back",
            rule_with("True", "A", "", -3600, 1),
            Some(STATUS_PERIOD),
        ),
    ];
    for (case, rule, expected) in cases {
        assert_eq!(
            rules::update_in(&decode(&rule), start()),
            expected,
            "{case}"
        );
    }
}

#[test]
fn an_equal_condition_is_not_written_again() {
    let effects = Effects::default();
    let known = |status, reason, generation| decode(&rule_with(status, reason, "", 60, generation));
    let expected = told("False", "NotStarted", "");
    let same = known("False", "NotStarted", 1);
    assert_eq!(rules::condition(&same, effects), None);
    for other in [
        known("True", "NotStarted", 1),
        known("False", "Completed", 1),
        known("False", "NotStarted", 0),
    ] {
        assert_eq!(rules::condition(&other, effects), Some(expected.clone()));
    }
    let other_effect = decode(&rule("NoSchedule"));
    let text = "Eviction only happens for the NoExecute effect.";
    assert_eq!(
        rules::condition(&other_effect, effects),
        Some(told("False", "OtherEffect", text))
    );
    let evicted = Effects {
        evicted: 2,
        ..effects
    };
    let text = format!("{text} 2 pods evicted since starting the controller.");
    assert_eq!(
        rules::condition(&other_effect, evicted),
        Some(told("False", "OtherEffect", &text))
    );
}

/// A world with the controller, the gate and the type, which the API server has by a definition.
async fn world(objects: &[Value], is_on: bool) -> Evictions {
    let mut evictions = Evictions::without_controller(&[]).await;
    let rules = definition(
        "resource.k8s.io",
        "DeviceTaintRule",
        &["v1beta2"],
        "Cluster",
    );
    evictions.0.create(rules).await;
    objects
        .iter()
        .for_each(|object| evictions.load(object.clone()));
    evictions
        .0
        .restart_with(&[DESCRIPTOR], |mut context| {
            let gate = features::DRA_DEVICE_TAINT_RULES.name;
            context.features = FeatureGates::new(|name| is_on && name == gate);
            context
        })
        .await;
    evictions.pass(100).await;
    evictions
}

/// Status, reason and message of the condition, and the seconds between the start and its change.
fn condition(world: &World) -> (String, String, String, i64) {
    let rule = world.find("devicetaintrules", "evict").unwrap();
    let condition = &rule["status"]["conditions"][0];
    assert_eq!(condition["type"], "EvictionInProgress");
    assert_eq!(
        condition["observedGeneration"],
        rule["metadata"]["generation"]
    );
    let text = |field: &str| condition[field].as_str().unwrap().to_owned();
    let time: Timestamp = text("lastTransitionTime").parse().unwrap();
    let seconds = time.duration_since(begin()).as_secs();
    (text("status"), text("reason"), text("message"), seconds)
}

fn expected(status: &str, reason: &str, message: &str, at: i64) -> (String, String, String, i64) {
    (status.to_owned(), reason.to_owned(), message.to_owned(), at)
}

/// Upstream: `TestDeviceTaintRule`, immediate and delayed.
#[tokio::test(start_paused = true)]
async fn device_taint_rule() {
    for seconds in [0, 30] {
        let tolerations = match seconds {
            0 => json!([]),
            _ => json!([tolerates(Some(seconds))]),
        };
        let selector = json!({"driver": DRIVER});
        let rule = |effect, time| rule_of("evict", "1234", selector.clone(), effect, time);
        let objects = [
            rule("None", begin()),
            claim(CLAIM, POD, "1234", tolerations),
            pod(POD, "1234", CLAIM),
        ];
        let evictions = world(&objects, true).await;
        let text = format!(
            "0 published devices selected. 1 allocated device selected. \
             1 pod would be evicted in 1 namespace {SIMULATED}"
        );
        let first = expected("False", "NoEffect", &text, 0);
        assert_eq!(condition(&evictions.0), first);
        assert!(evictions.terminating().is_empty());

        evictions.pass(20_000).await;
        let updated = evictions.0.clock.now_seconds();
        let at = updated.duration_since(begin()).as_secs();
        let mut changed = evictions.0.find("devicetaintrules", "evict").unwrap();
        changed["spec"] = rule("NoExecute", updated)["spec"].clone();
        changed["metadata"]["generation"] = json!(2);
        evictions.load(changed);
        evictions.pass(100).await;
        let progress = expected("True", "PodsPendingEviction", ONE, at);
        assert_eq!(condition(&evictions.0), progress);
        assert_eq!(evictions.terminating().is_empty(), seconds > 0);
        evictions.pass(u64::try_from(seconds).unwrap() * 1000).await;
        assert_eq!(evictions.terminating(), [POD]);

        evictions.pass(11_000).await;
        let (status, reason, message, changed_at) = condition(&evictions.0);
        assert_eq!(
            (&*status, &*reason, &*message),
            ("False", "Completed", DONE)
        );
        let period = i64::try_from(STATUS_PERIOD.as_secs()).unwrap();
        let due = at + seconds + period;
        assert!((due..=due + 1).contains(&changed_at), "{changed_at}");
        assert_eq!(evictions.metrics().0, 1.0);

        evictions.0.clear_requests();
        evictions.0.delete("devicetaintrules", "evict").await;
        evictions.pass(60_000).await;
        assert_eq!(evictions.requests(), [""; 0], "the rule leaves no work");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_rules_have_no_effect() {
    let objects = [
        rule("NoExecute"),
        claim(CLAIM, POD, "1234", json!([])),
        pod(POD, "1234", CLAIM),
    ];
    let evictions = world(&objects, false).await;
    evictions.pass(60_000).await;
    assert!(evictions.terminating().is_empty());
    let rule = evictions.0.find("devicetaintrules", "evict").unwrap();
    assert_eq!(rule["status"], Value::Null);
}

/// A new leader whose cache of rules is older than its term reads the rule first.
#[tokio::test(start_paused = true)]
async fn a_new_leader_confirms_the_rule() {
    for is_gone in [true, false] {
        let objects = [
            rule("NoExecute"),
            claim(CLAIM, POD, "1234", json!([])),
            pod(POD, "1234", CLAIM),
        ];
        let mut evictions = world(&objects, false).await;
        let before = evictions.0.cluster.revision();
        if is_gone {
            evictions.0.delete("devicetaintrules", "evict").await;
        }
        evictions.load(pod("other", "5678", "none"));
        let term = evictions.0.cluster.revision();
        let view = evictions.0.hold("devicetaintrules", before);
        evictions
            .0
            .restart_with(&[DESCRIPTOR], |mut context| {
                let gate = features::DRA_DEVICE_TAINT_RULES.name;
                context.features = FeatureGates::new(|name| name == gate);
                context.term_start_rv = term;
                context
            })
            .await;
        // The cache gets its first list after some seconds, since the view is held.
        evictions.pass(30_000).await;
        assert_eq!(evictions.terminating().is_empty(), is_gone);
        let read = evictions.count("get /apis/resource.k8s.io/v1beta2/devicetaintrules/evict");
        assert!(read > 0, "{:?}", evictions.requests());
        evictions.0.cluster.faults().remove(view);
        evictions.pass(60_000).await;
        assert_eq!(evictions.terminating().is_empty(), is_gone);
    }
}
