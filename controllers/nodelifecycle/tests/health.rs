//! Tables about silence: which conditions become `Unknown`, and when.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_objects::{Lease, Object};
use tokio::time::Instant;

use super::super::health::{Health, Moment, Ready};
use super::model::Model;
use super::{at, condition, config, decode, node};

const NOW: &str = "2015-01-01T12:00:00Z";
const HOUR_LATER: &str = "2015-01-01T13:00:00Z";
const OLD: &str = "2012-01-01T00:00:00Z";
const HOUR: Duration = Duration::from_secs(3600);

fn with_status(created: &str, conditions: Value) -> Value {
    let mut node = node("node0", "", created);
    node["status"] = json!({"conditions": conditions, "capacity": {"cpu": "10"}});
    node
}

/// The condition of a kubelet that never posted a status.
fn never(kind: &str, now: &str) -> Value {
    json!({
        "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": OLD, "lastTransitionTime": now,
    })
}

fn all_never(now: &str) -> Value {
    ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .map(|kind| never(kind, now))
        .into_iter()
        .collect()
}

fn stopped_and_never(now: &str) -> Value {
    let ready = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": NOW, "lastTransitionTime": now,
    });
    let others = ["MemoryPressure", "DiskPressure", "PIDPressure"].map(|kind| never(kind, now));
    [ready].into_iter().chain(others).collect()
}

/// Upstream: `TestMonitorNodeHealthUpdateStatus`, `TestMonitorNodeHealthMarkPodsNotReady`.
#[test]
fn monitor_node_health_update_status() {
    let true_now = || json!([condition("Ready", "True", NOW)]);
    // (case, node, time until a second pass, conditions if they are written, pods are marked)
    let cases = [
        (
            "created long time ago, without status",
            node("node0", "", OLD),
            None,
            Some(all_never(NOW)),
            false,
        ),
        (
            "created recently, without status",
            node("node0", "", NOW),
            None,
            None,
            false,
        ),
        (
            "status updated by kubelet exceeds grace period",
            with_status(OLD, true_now()),
            Some(HOUR),
            Some(stopped_and_never(HOUR_LATER)),
            true,
        ),
        (
            "status updated a minute ago exceeds grace period",
            with_status(OLD, true_now()),
            Some(Duration::from_secs(60)),
            Some(stopped_and_never("2015-01-01T12:01:00Z")),
            true,
        ),
        (
            "status updated recently",
            with_status(OLD, true_now()),
            None,
            None,
            false,
        ),
    ];
    for (case, node, time, written, marked) in cases {
        let mut model = Model::new(config(), at(NOW), std::slice::from_ref(&node));
        model.pass();
        if let Some(time) = time {
            assert_eq!(model.lost, [""; 0], "{case}: first pass");
            model.advance(time);
            model.pass();
        }
        let found = (!model.lost.is_empty()).then(|| model.conditions(0));
        assert_eq!(found, written, "{case}");
        assert_eq!(!model.marked.is_empty(), marked, "{case}");
        let object = &model.objects[0];
        if node.get("status").is_some() {
            assert_eq!(
                object["status"]["capacity"]["cpu"], "10",
                "{case}: other fields stay"
            );
        }
    }
}

/// Upstream: `TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease`.
#[test]
fn monitor_node_health_update_node_and_pod_status_with_lease() {
    let ready_and_disk = |time: &str| {
        let mut conditions = json!([
            condition("Ready", "True", time),
            condition("DiskPressure", "False", time)
        ]);
        conditions[0]["lastTransitionTime"] = json!(NOW);
        conditions[1]["lastTransitionTime"] = json!(NOW);
        conditions
    };
    let only_ready = || json!([condition("Ready", "True", NOW)]);
    let bare = |created| node("node0", "", created);
    // (case, node, Lease, (Lease and conditions an hour later), conditions if they are written,
    // pods are marked)
    let cases = [
        (
            "Node created recently, without status. Node lease is missing.",
            bare(NOW),
            None,
            None,
            None,
            false,
        ),
        (
            "Node created recently, without status. Node lease is renewed recently.",
            bare(NOW),
            Some(NOW),
            None,
            None,
            false,
        ),
        (
            "Node created long time ago, without status. Node lease is missing.",
            bare(OLD),
            None,
            None,
            Some(all_never(NOW)),
            false,
        ),
        (
            "Node created long time ago, without status. Node lease is renewed recently.",
            bare(OLD),
            Some(NOW),
            Some((HOUR_LATER, Value::Null)),
            None,
            false,
        ),
        (
            "Node created long time ago, without status. Node lease is expired.",
            bare(OLD),
            Some(NOW),
            Some((NOW, Value::Null)),
            Some(all_never(HOUR_LATER)),
            false,
        ),
        (
            "Node created long time ago, with status updated by kubelet exceeds grace period. Node lease is renewed.",
            with_status(OLD, ready_and_disk(NOW)),
            Some(NOW),
            Some((HOUR_LATER, ready_and_disk(NOW))),
            None,
            false,
        ),
        (
            "Node created long time ago, with status updated by kubelet recently. Node lease is expired.",
            with_status(OLD, ready_and_disk(NOW)),
            Some(NOW),
            Some((NOW, ready_and_disk(HOUR_LATER))),
            None,
            false,
        ),
        (
            "Node created long time ago, with status updated by kubelet exceeds grace period. Node lease is also expired.",
            with_status(OLD, only_ready()),
            Some(NOW),
            Some((NOW, only_ready())),
            Some(stopped_and_never(HOUR_LATER)),
            true,
        ),
    ];
    for (case, node, lease, later, written, marked) in cases {
        let mut model = Model::new(config(), at(NOW), &[node]);
        let renew = |model: &mut Model, time: &str| {
            model.leases.insert("node0".to_owned(), at(time));
        };
        if let Some(time) = lease {
            renew(&mut model, time);
        }
        model.pass();
        if let Some((time, conditions)) = later {
            assert_eq!(model.lost, [""; 0], "{case}: first pass");
            model.advance(HOUR);
            renew(&mut model, time);
            if !conditions.is_null() {
                model.set_conditions(0, conditions);
            }
            model.pass();
        }
        let found = (!model.lost.is_empty()).then(|| model.conditions(0));
        assert_eq!(found, written, "{case}");
        assert_eq!(!model.marked.is_empty(), marked, "{case}");
    }
}

/// Upstream: `TestTryUpdateNodeHealth`.
#[test]
fn try_update_node_health() {
    let now = "2017-01-01T12:00:00Z";
    let old = "2016-01-01T12:00:00Z";
    // (case, status, time of creation and heartbeat, status afterwards)
    let cases = [
        ("Status true", Some("True"), now, Some(Ready::True)),
        ("Status false", Some("False"), now, Some(Ready::False)),
        ("Status unknown", Some("Unknown"), now, Some(Ready::Unknown)),
        ("Status nil", None, now, None),
        (
            "Status true - after grace period",
            Some("True"),
            old,
            Some(Ready::Unknown),
        ),
        (
            "Status false - after grace period",
            Some("False"),
            old,
            Some(Ready::Unknown),
        ),
        (
            "Status unknown - after grace period",
            Some("Unknown"),
            old,
            Some(Ready::Unknown),
        ),
        (
            "Status nil - after grace period",
            None,
            old,
            Some(Ready::Unknown),
        ),
    ];
    for (case, status, time, expected) in cases {
        let mut node = node("node0", "", time);
        let conditions = status.map(|status| condition("Ready", status, time));
        node["status"]["conditions"] = conditions.into_iter().collect();
        let mut model = Model::new(config(), at(time), &[node]);
        model.pass();
        model.advance(Duration::try_from(at(now).duration_since(at(time))).unwrap());
        model.pass();
        assert_eq!(Ready::of(&model.nodes[0]), expected, "{case}");
        assert_eq!(
            model.monitor.ready("node0"),
            expected,
            "{case}: memory of the monitor"
        );
    }
}

#[test]
fn a_node_is_silent_after_its_grace_period_and_not_before() {
    let mut model = Model::new(
        config(),
        at(NOW),
        &[with_status(OLD, json!([condition("Ready", "True", NOW)]))],
    );
    model.pass();
    model.advance(Duration::from_secs(50));
    model.pass();
    assert_eq!(model.lost, [""; 0]);
    model.advance(Duration::from_nanos(1));
    model.pass();
    assert_eq!(model.lost, ["node0"]);
    model.pass();
    assert_eq!(model.lost, ["node0"], "it is written once");
}

#[test]
fn signs_of_life_end_the_silence() {
    let started = Instant::now();
    let second = Duration::from_secs(1);
    let moment = |n: u32| Moment {
        wall: at(NOW) + second * n,
        at: started + second * n,
    };
    let lease = |renewed: Option<&str>| {
        let json = json!({"metadata": {"name": "n"}, "spec": {"renewTime": renewed}});
        Lease::decode(json.to_string().as_bytes()).unwrap()
    };
    let seen = |heartbeat: Option<&str>| {
        let condition = heartbeat.map(|time| condition("Ready", "True", time));
        decode(&with_status(NOW, condition.into_iter().collect()))
    };
    let early = "2015-01-01T11:00:00.5Z";
    let late = "2015-01-01T11:00:00.6Z";
    // (case, heartbeat and renewal at first, heartbeat and renewal 10 s later, it is a sign of life)
    let cases = [
        ("nothing", (Some(NOW), None), (Some(NOW), None), false),
        (
            "newer heartbeat",
            (Some(OLD), None),
            (Some(NOW), None),
            true,
        ),
        (
            "older heartbeat",
            (Some(NOW), None),
            (Some(OLD), None),
            true,
        ),
        ("first condition", (None, None), (Some(NOW), None), true),
        ("lost condition", (Some(NOW), None), (None, None), false),
        (
            "renewed Lease",
            (Some(NOW), Some(Some(early))),
            (Some(NOW), Some(Some(late))),
            true,
        ),
        (
            "same Lease",
            (Some(NOW), Some(Some(early))),
            (Some(NOW), Some(Some(early))),
            false,
        ),
        (
            "older Lease",
            (Some(NOW), Some(Some(late))),
            (Some(NOW), Some(Some(early))),
            false,
        ),
        (
            "first Lease",
            (Some(NOW), None),
            (Some(NOW), Some(Some(early))),
            true,
        ),
        (
            "deleted Lease",
            (Some(NOW), Some(Some(early))),
            (Some(NOW), None),
            false,
        ),
        (
            "Lease without time",
            (Some(NOW), Some(Some(early))),
            (Some(NOW), Some(None)),
            false,
        ),
        (
            "Lease gets a time",
            (Some(NOW), Some(None)),
            (Some(NOW), Some(Some(early))),
            false,
        ),
        (
            "malformed time",
            (Some(NOW), Some(Some("soon"))),
            (Some(NOW), Some(Some("x"))),
            false,
        ),
    ];
    for (case, first, then, is_sign) in cases {
        let look = |before: Option<&Health>, (heartbeat, renewed): (_, Option<Option<&str>>), n| {
            let lease = renewed.map(lease);
            Health::observe(before, &seen(heartbeat), lease.as_ref(), moment(n))
        };
        let before = look(None, first, 0);
        let after = look(Some(&before), then, 10);
        let expected = if is_sign { moment(10) } else { moment(0) };
        assert_eq!(after.probed_at, expected.at, "{case}");
    }
}

#[test]
fn the_age_of_a_node_without_status_counts() {
    let mut model = Model::new(
        config(),
        at(NOW),
        &[node("node0", "", "2015-01-01T11:59:10Z")],
    );
    model.pass();
    model.advance(Duration::from_secs(10));
    model.pass();
    assert_eq!(model.lost, [""; 0], "60 s after its creation");
    model.advance(Duration::from_secs(1));
    model.pass();
    assert_eq!(model.lost, ["node0"]);
}

#[test]
fn a_recreated_node_starts_with_a_new_record() {
    let mut model = Model::new(config(), at(NOW), &[node("node0", "", NOW)]);
    model.pass();
    model.advance(HOUR);
    let mut recreated = node("node0", "", HOUR_LATER);
    recreated["metadata"]["uid"] = json!("another");
    model.set(0, recreated);
    model.pass();
    assert_eq!(model.lost, [""; 0]);
}
