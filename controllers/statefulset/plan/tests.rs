//! The decisions about the pods of a set, without any write.

use std::collections::HashMap;

use serde_json::{Value, json};
use steersman_helpers::history::REVISION_LABEL;
use steersman_objects::Object;

use super::super::identity::POD_NAME_LABEL;
use super::super::invariants;
use super::*;
use crate::testing::pods::{PodBuilder, pod};
use crate::testing::{StatefulSetBuilder, stateful_set};

const NOW: i64 = 1_800_000_000;

/// A healthy pod of the update revision.
fn healthy(name: &str) -> PodBuilder {
    of(name, "new").ready_since(0)
}

fn of(name: &str, revision: &str) -> PodBuilder {
    let labels = json!({"app": "web", POD_NAME_LABEL: name, REVISION_LABEL: revision});
    let set = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-of-web", "controller": true}]);
    pod(name).labels(labels).metadata("ownerReferences", set)
}

/// Mounts the claim `data` of the pod.
fn with_claim(pod: PodBuilder, name: &str) -> PodBuilder {
    let claim =
        json!({"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}});
    pod.spec("volumes", json!([claim]))
}

fn claim(name: &str, metadata: &Value) -> (String, Arc<PersistentVolumeClaim>) {
    let mut json = json!({"metadata": {"name": name, "uid": name}});
    for (field, value) in metadata.as_object().into_iter().flatten() {
        json["metadata"][field] = value.clone();
    }
    let claim = PersistentVolumeClaim::decode(json.to_string().as_bytes()).unwrap();
    (name.to_owned(), Arc::new(claim))
}

/// All actions of the three loops and of the rolling update, as texts.
fn decided(
    set: &StatefulSetBuilder,
    pods: Vec<PodBuilder>,
    claims: &[(String, Arc<PersistentVolumeClaim>)],
    max_unavailable: Option<i64>,
) -> Vec<String> {
    let limit = max_unavailable.map(|max_unavailable| Limit {
        max_unavailable,
        spares_unavailable: false,
    });
    decided_with(set, pods, claims, limit)
}

fn decided_with(
    set: &StatefulSetBuilder,
    pods: Vec<PodBuilder>,
    claims: &[(String, Arc<PersistentVolumeClaim>)],
    limit: Option<Limit>,
) -> Vec<String> {
    let seconds = set.clone().build().spec.min_ready_seconds;
    decided_after(seconds, set, pods, claims, limit)
}

/// The same, with pods that are available to updates and scale-downs after `seconds_to_available`.
fn decided_after(
    seconds_to_available: i32,
    set: &StatefulSetBuilder,
    pods: Vec<PodBuilder>,
    claims: &[(String, Arc<PersistentVolumeClaim>)],
    limit: Option<Limit>,
) -> Vec<String> {
    let set = set.clone().build();
    let pods: Vec<_> = pods.into_iter().map(|pod| Arc::new(pod.build())).collect();
    let slots = Slots::new(&set, &pods);
    let claims: HashMap<String, Arc<PersistentVolumeClaim>> = claims.iter().cloned().collect();
    let plan = Plan {
        set: &set,
        slots: &slots,
        claims: &|name| claims.get(name).cloned(),
        update_revision: "new",
        seconds_to_available,
        now: Timestamp::from_second(NOW).unwrap(),
    };
    let text = |action: Action| match action {
        Action::Delete(pod) => format!("delete {}", pod.meta.name),
        Action::Create { ordinal, side } => format!("create {ordinal} {side:?}"),
        Action::ProvideClaims(pod) => format!("claims {}", pod.meta.name),
        Action::OwnClaims(pod) => format!("own {}", pod.meta.name),
        Action::Repair(pod) => format!("repair {}", pod.meta.name),
    };
    let is_allowed = |pod: &Pod| {
        let checked = invariants::may_be_deleted(plan.set, plan.update_revision, pod);
        assert_eq!(checked, Ok(()));
    };
    let mut found = Vec::new();
    for turn in plan.loops().into_iter().flatten() {
        turn.actions.iter().for_each(|action| {
            if let Action::Delete(pod) = action {
                is_allowed(pod);
            }
        });
        found.extend(turn.actions.into_iter().map(text));
        if turn.wait && plan.is_ordered() {
            return found;
        }
    }
    let outdated = plan.outdated(limit);
    outdated.iter().for_each(|pod| is_allowed(pod));
    found.extend(
        outdated
            .iter()
            .map(|pod| format!("update {}", pod.meta.name)),
    );
    found
}

fn web(replicas: i32) -> StatefulSetBuilder {
    stateful_set("web").replicas(replicas)
}

fn parallel(replicas: i32) -> StatefulSetBuilder {
    web(replicas).spec("podManagementPolicy", "Parallel")
}

#[test]
fn ordered_sets_act_on_one_pod_at_a_time() {
    let slow = |replicas| web(replicas).spec("minReadySeconds", 10);
    let unready = |name: &str| of(name, "new").not_ready();
    // (why, set, pods, actions)
    let cases: [(&str, StatefulSetBuilder, Vec<PodBuilder>, &[&str]); 28] = [
        ("the first pod", web(2), vec![], &["create 0 Update"]),
        (
            "waits for the first pod",
            web(2),
            vec![unready("web-0")],
            &[],
        ),
        (
            "a pending pod",
            web(2),
            vec![of("web-0", "new").phase("Pending")],
            &[],
        ),
        (
            "a pending pod with an old condition Ready",
            web(2),
            vec![healthy("web-0").phase("Pending")],
            &[],
        ),
        (
            "the second pod",
            web(2),
            vec![healthy("web-0")],
            &["create 1 Update"],
        ),
        ("complete", web(1), vec![healthy("web-0")], &[]),
        (
            "a failed pod",
            web(2),
            vec![of("web-0", "new").phase("Failed")],
            &["delete web-0"],
        ),
        (
            "a succeeded pod",
            web(2),
            vec![of("web-0", "new").phase("Succeeded")],
            &["delete web-0"],
        ),
        (
            "a failed pod that terminates",
            web(2),
            vec![of("web-0", "new").phase("Failed").deleted(1)],
            &[],
        ),
        (
            "waits for a terminating pod",
            web(2),
            vec![healthy("web-0").deleted(1)],
            &[],
        ),
        (
            "not available yet",
            slow(2),
            vec![of("web-0", "new").ready_since(NOW - 9)],
            &[],
        ),
        (
            "available",
            slow(2),
            vec![of("web-0", "new").ready_since(NOW - 10)],
            &["create 1 Update"],
        ),
        (
            "a gap is filled before the end",
            web(3),
            vec![healthy("web-0"), healthy("web-2")],
            &["create 1 Update"],
        ),
        (
            "scale-down takes the highest",
            web(1),
            vec![healthy("web-0"), healthy("web-1"), healthy("web-2")],
            &["delete web-2"],
        ),
        (
            "scale-down waits for a terminating pod",
            web(1),
            vec![
                healthy("web-0"),
                healthy("web-1"),
                healthy("web-2").deleted(1),
            ],
            &[],
        ),
        (
            "scale-down waits for the slots",
            web(1),
            vec![unready("web-0"), healthy("web-1")],
            &[],
        ),
        (
            "scale-down stops at an unhealthy pod with another below it",
            web(2),
            vec![
                healthy("web-0"),
                healthy("web-1"),
                unready("web-3"),
                unready("web-4"),
            ],
            &[],
        ),
        (
            "scale-down takes the only unhealthy pod",
            web(2),
            vec![
                healthy("web-0"),
                healthy("web-1"),
                healthy("web-3"),
                unready("web-4"),
            ],
            &["delete web-4"],
        ),
        (
            "ordinals below the start are condemned",
            web(1).spec("ordinals", json!({"start": 2})),
            vec![healthy("web-0"), healthy("web-2")],
            &["delete web-0"],
        ),
        (
            "scaling precedes updates",
            web(1),
            vec![of("web-0", "old").ready_since(0), healthy("web-1")],
            &["delete web-1"],
        ),
        (
            "an update takes the highest",
            web(2),
            vec![
                of("web-0", "old").ready_since(0),
                of("web-1", "old").ready_since(0),
            ],
            &["update web-1"],
        ),
        (
            "an update goes down",
            web(2),
            vec![of("web-0", "old").ready_since(0), healthy("web-1")],
            &["update web-0"],
        ),
        (
            "an update waits for availability",
            slow(2),
            vec![
                of("web-0", "old").ready_since(0),
                of("web-1", "new").ready_since(NOW - 9),
            ],
            &[],
        ),
        (
            "an update goes on after minReadySeconds",
            slow(2),
            vec![
                of("web-0", "old").ready_since(0),
                of("web-1", "new").ready_since(NOW - 10),
            ],
            &["update web-0"],
        ),
        (
            "scale-down waits for availability",
            slow(1),
            vec![of("web-0", "new").ready_since(NOW - 9), healthy("web-1")],
            &[],
        ),
        (
            "of condemned pods that are not available yet, the lowest goes first",
            slow(1),
            vec![
                healthy("web-0"),
                of("web-1", "new").ready_since(NOW - 9),
                of("web-2", "new").ready_since(NOW - 9),
            ],
            &[],
        ),
        (
            "a condemned pod with an old condition Ready",
            web(1),
            vec![healthy("web-0"), healthy("web-1").phase("Pending")],
            &[],
        ),
        (
            "a broken roll-out is stuck",
            web(2),
            vec![healthy("web-0"), of("web-1", "old").not_ready()],
            &[],
        ),
    ];
    for (why, set, pods, expected) in cases {
        assert_eq!(decided(&set, pods, &[], None), expected, "{why}");
    }
}

/// Upstream: `isUnavailable`, and `isHealthy` of 1.33.
#[test]
fn updates_and_scale_downs_wait_for_availability_since_1_34() {
    let young = |name: &str, revision: &str| of(name, revision).ready_since(NOW - 9);
    let healthy = |name: &str| of(name, "new").ready_since(0);
    let slow = |set: StatefulSetBuilder| set.spec("minReadySeconds", 10);
    let old = of("web-0", "old").ready_since(0);
    let limit = Some(Limit {
        max_unavailable: 1,
        spares_unavailable: false,
    });
    let updated = || vec![old.clone(), young("web-1", "new")];
    let condemned = || vec![healthy("web-0"), young("web-1", "new")];
    // (why, set, pods, limit, actions in 1.33, actions since 1.34)
    let cases: [(
        &str,
        StatefulSetBuilder,
        Vec<PodBuilder>,
        Option<Limit>,
        &[&str],
        &[&str],
    ); 4] = [
        (
            "an update of a parallel set",
            parallel(2),
            updated(),
            None,
            &["update web-0"],
            &[],
        ),
        (
            "the same with a limit",
            parallel(2),
            updated(),
            limit,
            &["update web-0"],
            &[],
        ),
        (
            "an ordered set waits in any case",
            web(2),
            updated(),
            None,
            &[],
            &[],
        ),
        (
            "a condemned pod of an ordered set",
            web(1),
            condemned(),
            None,
            &[],
            &["delete web-1"],
        ),
    ];
    for (why, set, pods, limit, in_1_33, later) in cases {
        let set = slow(set);
        for (seconds, expected) in [(0, in_1_33), (10, later)] {
            let found = decided_after(seconds, &set, pods.clone(), &[], limit);
            assert_eq!(found, expected, "{why}, {seconds} s");
        }
    }
}

#[test]
fn parallel_sets_act_on_all_pods() {
    let unready = |name: &str| of(name, "new").not_ready();
    // (why, set, pods, actions)
    let cases: [(&str, StatefulSetBuilder, Vec<PodBuilder>, &[&str]); 9] = [
        (
            "all pods at once",
            parallel(3),
            vec![],
            &["create 0 Update", "create 1 Update", "create 2 Update"],
        ),
        (
            "beside unready pods",
            parallel(2),
            vec![unready("web-0")],
            &["create 1 Update"],
        ),
        (
            "failed and missing pods",
            parallel(2),
            vec![of("web-0", "new").phase("Failed")],
            &["delete web-0", "create 1 Update"],
        ),
        (
            "all condemned pods at once",
            parallel(0),
            vec![
                unready("web-0"),
                healthy("web-1"),
                healthy("web-2").deleted(1),
            ],
            &["delete web-1", "delete web-0"],
        ),
        (
            "an update beside a scale-down",
            parallel(2),
            vec![
                healthy("web-0"),
                of("web-1", "old").ready_since(0),
                healthy("web-2"),
            ],
            &["delete web-2", "update web-1"],
        ),
        (
            "a broken roll-out goes on",
            parallel(2),
            vec![healthy("web-0"), of("web-1", "old").not_ready()],
            &["update web-1"],
        ),
        (
            "one update at a time",
            parallel(2),
            vec![of("web-0", "old").ready_since(0), unready("web-1")],
            &[],
        ),
        (
            "an update waits for the end of a pod",
            parallel(2),
            vec![
                of("web-0", "old").ready_since(0),
                of("web-1", "old").ready_since(0).deleted(1),
            ],
            &[],
        ),
        (
            "an update without a partition takes all pods",
            parallel(1).update_strategy(json!({"type": "RollingUpdate"})),
            vec![of("web-0", "old").ready_since(0)],
            &["update web-0"],
        ),
    ];
    for (why, set, pods, expected) in cases {
        assert_eq!(decided(&set, pods, &[], None), expected, "{why}");
    }
}

#[test]
fn strategies_and_partitions_choose_the_outdated_pods() {
    let rolling = |partition: i32| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
    let with = |strategy: Value| parallel(3).update_strategy(strategy);
    let old = || {
        vec![
            of("web-0", "old").ready_since(0),
            of("web-1", "old").ready_since(0),
            of("web-2", "old").ready_since(0),
        ]
    };
    let from_five = || {
        ["web-5", "web-6", "web-7"]
            .map(|name| of(name, "old").ready_since(0))
            .into()
    };
    // (why, set, pods, maxUnavailable, actions)
    let cases: [(
        &str,
        StatefulSetBuilder,
        Vec<PodBuilder>,
        Option<i64>,
        &[&str],
    ); 11] = [
        (
            "OnDelete",
            with(json!({"type": "OnDelete"})),
            old(),
            None,
            &[],
        ),
        (
            "OnDelete with the gate",
            with(json!({"type": "OnDelete"})),
            old(),
            Some(2),
            &[],
        ),
        (
            "partition 0",
            with(rolling(0)),
            old(),
            None,
            &["update web-2"],
        ),
        (
            "no parameters",
            with(json!({"type": "RollingUpdate"})),
            old(),
            None,
            &["update web-2"],
        ),
        (
            "partition 2",
            with(rolling(2)),
            old(),
            None,
            &["update web-2"],
        ),
        ("partition 3", with(rolling(3)), old(), None, &[]),
        (
            "the partition counts from the start",
            with(rolling(2)).spec("ordinals", json!({"start": 5})),
            from_five(),
            None,
            &["update web-7"],
        ),
        (
            "two at once",
            with(rolling(0)),
            old(),
            Some(2),
            &["update web-2", "update web-1"],
        ),
        (
            "partition with two at once",
            with(rolling(2)),
            old(),
            Some(2),
            &["update web-2"],
        ),
        (
            "unavailable pods count",
            with(rolling(0)),
            vec![
                of("web-0", "old").ready_since(0),
                of("web-1", "old").ready_since(0),
                of("web-2", "new").not_ready(),
            ],
            Some(2),
            &["update web-1"],
        ),
        (
            "the budget is used",
            with(rolling(0)),
            vec![
                of("web-0", "old").ready_since(0),
                of("web-1", "old").not_ready(),
                healthy("web-2"),
            ],
            Some(1),
            &[],
        ),
    ];
    for (why, set, pods, max_unavailable, expected) in cases {
        assert_eq!(decided(&set, pods, &[], max_unavailable), expected, "{why}");
    }
}

#[test]
fn identity_volumes_and_claims_are_repaired() {
    let set = || web(1).claims(&["data"]);
    let mounted = |pod: PodBuilder| with_claim(pod, "web-0");
    let plain = || claim("data-web-0", &json!({}));
    let of_set = || {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-of-web", "controller": true}]);
        claim("data-web-0", &json!({"ownerReferences": owner}))
    };
    let pending = || mounted(of("web-0", "new").phase("Pending"));
    let unlabelled = || {
        mounted(
            pod("web-0")
                .labels(json!({REVISION_LABEL: "new"}))
                .ready_since(0),
        )
    };
    let terminating = claim(
        "data-web-0",
        &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    );
    // (why, set, pod, claims, actions)
    let cases: [(&str, StatefulSetBuilder, PodBuilder, Vec<_>, &[&str]); 11] = [
        (
            "nothing is wrong",
            set(),
            mounted(healthy("web-0")),
            vec![plain()],
            &[],
        ),
        (
            "a missing claim of a running pod",
            set(),
            mounted(healthy("web-0")),
            vec![],
            &[],
        ),
        (
            "a missing claim of a pending pod",
            set(),
            pending(),
            vec![],
            &["claims web-0"],
        ),
        (
            "a terminating claim of a pending pod",
            set(),
            pending(),
            vec![terminating],
            &["claims web-0"],
        ),
        (
            "a pending pod with its claim",
            set(),
            pending(),
            vec![plain()],
            &[],
        ),
        (
            "a missing label",
            set(),
            unlabelled(),
            vec![plain()],
            &["repair web-0"],
        ),
        (
            "a missing volume",
            set(),
            healthy("web-0"),
            vec![plain()],
            &["repair web-0"],
        ),
        (
            "a new retention policy",
            set().retention("Delete", "Retain"),
            mounted(healthy("web-0")),
            vec![plain()],
            &["repair web-0"],
        ),
        (
            "the retention policy holds",
            set().retention("Delete", "Retain"),
            mounted(healthy("web-0")),
            vec![of_set()],
            &[],
        ),
        (
            "a parallel set repairs unready pods",
            set().spec("podManagementPolicy", "Parallel"),
            of("web-0", "new").not_ready(),
            vec![plain()],
            &["repair web-0"],
        ),
        (
            "a parallel set corrects the owners of a claim once",
            set()
                .retention("Delete", "Retain")
                .spec("podManagementPolicy", "Parallel"),
            pending(),
            vec![plain()],
            &["claims web-0"],
        ),
    ];
    for (why, set, pod, claims, expected) in cases {
        assert_eq!(decided(&set, vec![pod], &claims, None), expected, "{why}");
    }
}

#[test]
fn condemned_pods_get_their_claims_before_their_deletion() {
    let set = web(1).claims(&["data"]).retention("Retain", "Delete");
    let pods = || {
        ["web-0", "web-1"]
            .map(|name| with_claim(healthy(name), name))
            .into()
    };
    let claims = ["data-web-0", "data-web-1"].map(|name| claim(name, &json!({})));
    assert_eq!(
        decided(&set, pods(), &claims, None),
        ["own web-1", "delete web-1"]
    );
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": "uid-of-web-1", "controller": true}]);
    let owned = [
        claim("data-web-0", &json!({})),
        claim("data-web-1", &json!({"ownerReferences": owner})),
    ];
    assert_eq!(decided(&set, pods(), &owned, None), ["delete web-1"]);
}

#[test]
fn a_stale_claim_blocks_the_creation() {
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "old", "controller": true}]);
    let stale = [claim("data-web-0", &json!({"ownerReferences": owner}))];
    let set = |set: StatefulSetBuilder| set.claims(&["data"]).retention("Retain", "Delete");
    assert!(
        decided(&set(web(2)), vec![], &stale, None).is_empty(),
        "ordered"
    );
    assert_eq!(
        decided(&set(parallel(2)), vec![], &stale, None),
        ["create 1 Update"],
        "parallel"
    );
    let retained = web(2).claims(&["data"]);
    assert_eq!(
        decided(&retained, vec![], &stale, None),
        ["create 0 Update"],
        "retained"
    );
}

/// Since 1.37. Before, the unavailable pods used the limit up, and nothing replaced them.
#[test]
fn parallel_sets_replace_unavailable_pods_beyond_the_limit() {
    let available = |name: &str| of(name, "old").ready_since(0);
    let unavailable = |name: &str| of(name, "old").not_ready();
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    let parallel = parallel(3).update_strategy(strategy.clone());
    let ordered = web(3).update_strategy(strategy);
    let broken = || {
        vec![
            unavailable("web-0"),
            unavailable("web-1"),
            unavailable("web-2"),
        ]
    };
    let mixed = || vec![unavailable("web-0"), available("web-1"), available("web-2")];
    // (why, set, pods, limit, whether the release spares unavailable pods, actions)
    let cases: [(
        &str,
        &StatefulSetBuilder,
        Vec<PodBuilder>,
        i64,
        bool,
        &[&str],
    ); 6] = [
        (
            "all are broken",
            &parallel,
            broken(),
            1,
            true,
            &["update web-2", "update web-1", "update web-0"],
        ),
        ("all are broken in 1.36", &parallel, broken(), 1, false, &[]),
        (
            "the limit is used up",
            &parallel,
            mixed(),
            1,
            true,
            &["update web-0"],
        ),
        (
            "the limit leaves room for one",
            &parallel,
            mixed(),
            2,
            true,
            &["update web-0", "update web-2"],
        ),
        (
            "two of three in 1.36",
            &parallel,
            mixed(),
            2,
            false,
            &["update web-2"],
        ),
        ("an ordered set", &ordered, mixed(), 1, true, &[]),
    ];
    for (why, set, pods, max_unavailable, spares_unavailable, expected) in cases {
        let limit = Limit {
            max_unavailable,
            spares_unavailable,
        };
        assert_eq!(decided_with(set, pods, &[], Some(limit)), expected, "{why}");
    }
}
