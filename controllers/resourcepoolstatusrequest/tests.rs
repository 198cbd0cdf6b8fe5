//! Upstream's tables, and stories with the type as a CustomResourceDefinition, because API servers
//! lack it by default.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_objects::{
    DeviceTaintRule, Object, PoolSlice, ResourceClaim, ResourcePoolStatusRequest,
};
use steersman_options::features::{self, FeatureGates};
use steersman_releases::Release;

use super::pools::{Accounting, Answer, IncompletePool, answer};
use super::{DESCRIPTOR, NAME, due};
use crate::testing::world::{World, begin};

const DRIVER: &str = "test.example.com";
const MINUTE: Duration = Duration::from_secs(60);

/// A slice of a pool: name, driver, pool, node, devices, generation, number of slices.
#[derive(Clone, Copy)]
struct Slice(
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    usize,
    i64,
    i64,
);

impl Slice {
    fn json(self) -> Value {
        let Self(name, driver, pool, node, devices, generation, count) = self;
        let devices: Vec<Value> = (0..devices)
            .map(|number| json!({"name": format!("device-{number}")}))
            .collect();
        let mut slice = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {
                "driver": driver, "devices": devices,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            },
        });
        match node {
            Some(node) => slice["spec"]["nodeName"] = json!(node),
            None => slice["spec"]["allNodes"] = json!(true),
        }
        slice
    }
}

fn claim(name: &str, pool: &str, device: &str) -> Value {
    let result = json!({"request": "r", "driver": DRIVER, "pool": pool, "device": device});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    })
}

fn request(spec: Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "test-request", "creationTimestamp": begin().to_string()},
        "spec": spec,
    })
}

fn decode<T: Object>(json: &Value) -> Arc<T> {
    Arc::new(T::decode(json.to_string().as_bytes()).unwrap())
}

fn calculated(spec: Value, slices: &[Slice], claims: &[Value]) -> Result<Answer, IncompletePool> {
    let request = decode::<ResourcePoolStatusRequest>(&request(spec));
    let slices: Vec<_> = slices
        .iter()
        .map(|slice| decode::<PoolSlice>(&slice.json()))
        .collect();
    let claims: Vec<_> = claims.iter().map(decode::<ResourceClaim>).collect();
    answer(
        &request.spec,
        &slices,
        &claims,
        Accounting::Results,
        begin(),
    )
}

/// The answer of 1.37 about the pool with these slices, whose specs lack driver and pool: its first pool, and the
/// message of the condition.
fn accounted(
    default: Option<&str>,
    slices: &[Value],
    claims: &[Value],
    rules: &[Value],
) -> (Value, Value) {
    let request = request(json!({"driver": DRIVER, "defaultPartitionTypeAttribute": default}));
    let request = decode::<ResourcePoolStatusRequest>(&request);
    let pool = json!({"name": "pool-1", "generation": 1, "resourceSliceCount": slices.len()});
    let complete = |(number, spec): (usize, &Value)| {
        let mut spec = spec.clone();
        spec["driver"] = json!(DRIVER);
        spec["pool"] = pool.clone();
        decode::<PoolSlice>(&json!({"metadata": {"name": format!("slice-{number}")}, "spec": spec}))
    };
    let slices: Vec<_> = slices.iter().enumerate().map(complete).collect();
    let claims: Vec<_> = claims.iter().map(decode::<ResourceClaim>).collect();
    let rules: Vec<_> = rules.iter().map(decode::<DeviceTaintRule>).collect();
    let accounting = Accounting::Devices(&rules);
    let found = answer(&request.spec, &slices, &claims, accounting, begin()).unwrap();
    let found = serde_json::to_value(found).unwrap();
    let message = &found["conditions"][0]["message"];
    (found["pools"][0].clone(), message.clone())
}

/// A claim of `device` with these fields of its result.
fn claim_with(device: &str, fields: Value) -> Value {
    let mut claim = claim("c", "pool-1", device);
    let result = &mut claim["status"]["allocation"]["devices"]["results"][0];
    for (name, value) in fields.as_object().unwrap() {
        result[name] = value.clone();
    }
    claim
}

fn rule(selector: Value, effect: &str) -> Value {
    let taint = json!({"key": "k", "effect": effect});
    json!({"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": taint}})
}

/// A partition of `size` of the counter `memory` in `gpu-0`, of the type `kind`.
fn partition(name: &str, kind: &str, size: &str) -> Value {
    let counters = json!({"memory": {"value": size}});
    json!({
        "name": name, "attributes": {"profile": {"string": kind}},
        "consumesCounters": [{"counterSet": "gpu-0", "counters": counters}],
    })
}

const PROFILE: &str = "test.example.com/profile";

/// A slice with a counter of `size`, and with these partitions.
fn partitioned(size: &str, attribute: Option<&str>, devices: &[Value]) -> Value {
    let counters = json!({"memory": {"value": size}});
    json!({
        "partitionTypeAttribute": attribute, "devices": devices,
        "sharedCounters": [{"name": "gpu-0", "counters": counters}],
    })
}

/// Upstream: `TestCalculatePoolStatus`, the cases with an answer.
#[test]
fn calculate_pool_status() {
    let all = || json!({"driver": DRIVER});
    let one = Some("node-1");
    let first = Slice("slice-1", DRIVER, "pool-1", one, 4, 1, 1);
    let second = Slice("slice-2", DRIVER, "pool-2", Some("node-2"), 8, 1, 1);
    let foreign = Slice(
        "slice-2",
        "other.example.com",
        "pool-2",
        Some("node-2"),
        8,
        1,
        1,
    );
    let same = |name, node| Slice(name, DRIVER, "pool-1", node, 4, 1, 1);
    let newer = |name| Slice(name, DRIVER, "pool-1", one, 4, 2, 1);
    let older = Slice("slice-old", DRIVER, "pool-1", one, 8, 1, 1);
    let of_two = |name| Slice(name, DRIVER, "pool-1", one, 4, 1, 2);
    let used = [
        claim("claim-1", "pool-1", "device-0"),
        claim("claim-2", "pool-1", "device-1"),
    ];
    // (case, request, slices, claims, pools, devices, allocated, node of the first pool)
    let cases: [(
        &str,
        Value,
        Vec<Slice>,
        &[Value],
        usize,
        usize,
        usize,
        Option<&str>,
    ); 13] = [
        (
            "single-pool-no-allocations",
            all(),
            vec![first],
            &[],
            1,
            4,
            0,
            one,
        ),
        (
            "single-pool-with-allocations",
            all(),
            vec![first],
            &used,
            1,
            4,
            2,
            one,
        ),
        (
            "multiple-pools",
            all(),
            vec![second, first],
            &[],
            2,
            12,
            0,
            one,
        ),
        (
            "filter-by-driver",
            all(),
            vec![first, foreign],
            &[],
            1,
            4,
            0,
            one,
        ),
        (
            "filter-by-pool-name",
            json!({"driver": DRIVER, "poolName": "pool-1"}),
            vec![first, second],
            &[],
            1,
            4,
            0,
            one,
        ),
        (
            "multiple-slices-same-pool",
            all(),
            vec![first, same("slice-2", one)],
            &[],
            1,
            8,
            0,
            one,
        ),
        (
            "limit-pools",
            json!({"driver": DRIVER, "limit": 1}),
            vec![first, second],
            &[],
            1,
            4,
            0,
            one,
        ),
        (
            "no-matching-pools",
            json!({"driver": "nonexistent.example.com"}),
            vec![first],
            &[],
            0,
            0,
            0,
            None,
        ),
        (
            "older-generation-slices-ignored",
            all(),
            vec![older, newer("a"), newer("b")],
            &[],
            1,
            8,
            0,
            one,
        ),
        (
            "same-node-pool-sets-nodename",
            all(),
            vec![first, same("slice-2", one)],
            &[],
            1,
            8,
            0,
            one,
        ),
        (
            "mixed-node-pool-clears-nodename",
            all(),
            vec![first, same("slice-2", Some("node-2"))],
            &[],
            1,
            8,
            0,
            None,
        ),
        (
            "nil-nodename-slices-no-nodename",
            all(),
            vec![same("a", None), same("b", None)],
            &[],
            1,
            8,
            0,
            None,
        ),
        (
            "all-pools-complete-no-validation-errors",
            all(),
            vec![of_two("a"), of_two("b")],
            &[],
            1,
            8,
            0,
            one,
        ),
    ];
    for (case, spec, slices, claims, pools, devices, allocated, node) in cases {
        let found = calculated(spec.clone(), &slices, claims).unwrap();
        let sum = |number: fn(&super::pools::PoolStatus) -> usize| -> usize {
            found.pools.iter().map(number).sum()
        };
        assert_eq!(found.pools.len(), pools, "{case}");
        let expected_count = if spec["limit"].is_null() { pools } else { 2 };
        assert_eq!(found.pool_count, expected_count, "{case}");
        assert_eq!(sum(|pool| pool.total_devices), devices, "{case}");
        assert_eq!(sum(|pool| pool.allocated_devices), allocated, "{case}");
        let name = found
            .pools
            .first()
            .and_then(|pool| pool.node_name.as_deref());
        assert_eq!(name, node, "{case}");
    }
}

/// Upstream: `TestCalculatePoolStatus`, the cases with incomplete pools, for which upstream writes no
/// answer. A pool beyond the limit has no influence.
#[test]
fn incomplete_pools_have_no_answer() {
    let of_five = |name| Slice(name, DRIVER, "pool-1", None, 4, 1, 5);
    let of_three = |name| Slice(name, DRIVER, "pool-2", None, 4, 3, 3);
    let complete = Slice("slice-1", DRIVER, "pool-1", None, 4, 1, 1);
    let all = || json!({"driver": DRIVER});
    let message = |slices: &[Slice]| calculated(all(), slices, &[]).unwrap_err().to_string();
    let begin = "incomplete pools detected, requeueing: pool test.example.com/";
    assert_eq!(
        message(&["a", "b", "c"].map(of_five)),
        format!("{begin}pool-1 is incomplete: observed 3/5 slices at generation 1")
    );
    let mixed = [complete, of_three("a"), of_three("b")];
    assert_eq!(
        message(&mixed),
        format!("{begin}pool-2 is incomplete: observed 2/3 slices at generation 3")
    );
    let first = calculated(json!({"driver": DRIVER, "limit": 1}), &mixed, &[]).unwrap();
    assert_eq!(
        (first.pool_count, &*first.pools[0].pool_name),
        (2, "pool-1")
    );
}

/// Upstream: the cases of `TestCalculatePoolStatus` about `allocatedDevices` and `unavailableDevices`, of 1.37.
#[test]
fn devices_are_counted_once_and_without_tainted_ones() {
    let device = |name: &str, effect: &str| json!({"name": name, "taints": [{"key": "k", "effect": effect}]});
    let slice = [json!({"devices": [
        device("a", "None"), device("b", "NoSchedule"), device("c", "NoExecute"), {"name": "d"},
    ]})];
    let of_device = json!({"driver": DRIVER, "pool": "pool-1", "device": "d"});
    let claim = |device| claim_with(device, json!({}));
    // (case, claims, rules, allocated, unavailable and available devices)
    let cases = [
        ("taints of the slice", vec![], vec![], [0, 2, 2]),
        (
            "a shared device",
            vec![claim("d"), claim("d")],
            vec![],
            [1, 2, 1],
        ),
        (
            "admin access",
            vec![claim_with("d", json!({"adminAccess": true}))],
            vec![],
            [0, 2, 2],
        ),
        (
            "a tainted device in use",
            vec![claim("b")],
            vec![],
            [1, 2, 1],
        ),
        (
            "more devices than the pool has",
            ["w", "x", "y", "z"].map(claim).to_vec(),
            vec![],
            [4, 2, 0],
        ),
        (
            "a rule",
            vec![],
            vec![rule(of_device.clone(), "NoExecute")],
            [0, 3, 1],
        ),
        (
            "a rule without effect",
            vec![],
            vec![rule(of_device, "None")],
            [0, 2, 2],
        ),
        (
            "a rule for all",
            vec![],
            vec![rule(json!({}), "NoSchedule")],
            [0, 4, 0],
        ),
        (
            "a rule for none",
            vec![],
            vec![rule(json!(null), "NoSchedule")],
            [0, 2, 2],
        ),
        (
            "a rule for another pool",
            vec![],
            vec![rule(json!({"pool": "pool-2"}), "NoSchedule")],
            [0, 2, 2],
        ),
    ];
    for (case, claims, rules, expected) in cases {
        let (pool, message) = accounted(None, &slice, &claims, &rules);
        let names = ["allocatedDevices", "unavailableDevices", "availableDevices"];
        let found = names.map(|name| pool[name].as_u64().unwrap());
        assert_eq!(found, expected, "{case}");
        assert_eq!(message, "Calculated status for 1 pools", "{case}");
        let views = ["partitionSummary", "shareableSummary", "validationError"];
        assert_eq!(views.map(|name| pool.get(name)), [None; 3], "{case}");
    }
}

/// Upstream: `TestComputePartitionSummary`, `TestResolveDevicePartitions`, `TestResolvePartitionType` and
/// `TestComputePoolViews_PartitionAttributeGatesView`, of 1.37.
#[test]
fn partitions_are_summed_up_by_type() {
    let full = || partition("full", "Full", "80Gi");
    let halves = || {
        [
            partition("half-1", "Half", "40Gi"),
            partition("half-2", "Half", "40Gi"),
        ]
    };
    let all = || [&[full()], &halves()[..]].concat();
    let own = Some(PROFILE);
    let with = |mut device: Value, field: &str, value: Value| {
        device[field] = value;
        device
    };
    let other = "test.example.com/shape";
    let both =
        json!({"profile": {"string": "Full"}, "test.example.com/shape": {"string": "Large"}});
    let text = |number: i64| json!({"profile": {"int": number}});
    let twice = json!([
        {"counterSet": "gpu-0", "counters": {"memory": {"value": "80Gi"}}},
        {"counterSet": "gpu-0", "counters": {"cores": {"value": "1"}}},
    ]);
    let missing = |device: &str| {
        format!(
            "PartitionTypeMissing: device \"{device}\" in pool {DRIVER}/pool-1 does not carry partition type attribute \"{PROFILE}\""
        )
    };
    let none = format!(
        "PartitionTypeMissing: pool {DRIVER}/pool-1 declares partitionTypeAttribute but publishes no sharedCounters"
    );
    let costs = format!(
        "PartitionCostMismatch: devices of partition type \"Half\" in pool {DRIVER}/pool-1 consume different counters"
    );
    let unequal = [
        partition("a", "Half", "40Gi"),
        partition("b", "Half", "50Gi"),
    ];
    // (case, attribute of the request, slices, devices in use, types with total and allocatable partitions or the error)
    let cases: [(
        &str,
        Option<&str>,
        Vec<Value>,
        &[&str],
        Result<&str, String>,
    ); 15] = [
        (
            "nothing in use",
            None,
            vec![partitioned("80Gi", own, &all())],
            &[],
            Ok("Full 1 1, Half 2 2"),
        ),
        (
            "a half in use",
            None,
            vec![partitioned("80Gi", own, &all())],
            &["half-1"],
            Ok("Full 1 0, Half 2 1"),
        ),
        (
            "the whole in use",
            None,
            vec![partitioned("80Gi", own, &all())],
            &["full"],
            Ok("Full 1 0, Half 2 0"),
        ),
        (
            "few devices",
            None,
            vec![partitioned("800Gi", own, &all())],
            &[],
            Ok("Full 1 1, Half 2 2"),
        ),
        (
            "an attribute of the request",
            own,
            vec![partitioned("80Gi", None, &all())],
            &[],
            Ok("Full 1 1, Half 2 2"),
        ),
        (
            "no attribute",
            None,
            vec![partitioned("80Gi", None, &all())],
            &[],
            Ok(""),
        ),
        (
            "an attribute of the slice goes first",
            Some(other),
            vec![partitioned(
                "80Gi",
                own,
                &[with(full(), "attributes", both.clone())],
            )],
            &[],
            Ok("Full 1 1"),
        ),
        (
            "one slice decides for the pool",
            own,
            vec![
                partitioned("80Gi", Some(other), &[with(full(), "attributes", both)]),
                json!({"devices": halves()}),
            ],
            &[],
            Ok("Large 1 1"),
        ),
        (
            "counters of another slice",
            own,
            vec![json!({"devices": halves()}), partitioned("40Gi", None, &[])],
            &[],
            Ok("Half 2 1"),
        ),
        (
            "an unknown counter",
            own,
            vec![partitioned(
                "80Gi",
                None,
                &[with(full(), "consumesCounters", twice)],
            )],
            &[],
            Ok("Full 1 0"),
        ),
        (
            "devices without counters",
            own,
            vec![partitioned(
                "80Gi",
                None,
                &[json!({"name": "plain"}), full()],
            )],
            &[],
            Ok("Full 1 1"),
        ),
        (
            "an attribute of another type",
            own,
            vec![partitioned(
                "80Gi",
                None,
                &[with(full(), "attributes", text(1))],
            )],
            &[],
            Err(missing("full")),
        ),
        (
            "no such attribute",
            own,
            vec![partitioned(
                "80Gi",
                None,
                &[with(full(), "attributes", json!(null))],
            )],
            &[],
            Err(missing("full")),
        ),
        (
            "no counters",
            own,
            vec![json!({"devices": all()})],
            &[],
            Err(none),
        ),
        (
            "different costs",
            own,
            vec![partitioned("80Gi", None, &unequal)],
            &[],
            Err(costs),
        ),
    ];
    for (case, default, slices, used, expected) in cases {
        let claims: Vec<_> = used
            .iter()
            .map(|device| claim_with(device, json!({})))
            .collect();
        let (pool, message) = accounted(default, &slices, &claims, &[]);
        let types = pool["partitionSummary"].as_array().into_iter().flatten();
        let types = types.map(|of| {
            let [kind, total, left] = ["type", "total", "allocatable"].map(|name| &of[name]);
            format!("{} {total} {left}", kind.as_str().unwrap())
        });
        let found = match pool["validationError"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(types.collect::<Vec<_>>().join(", ")),
        };
        assert_eq!(found, expected.clone().map(str::to_owned), "{case}");
        let suffix = if expected.is_err() {
            " (1 incomplete)"
        } else {
            ""
        };
        assert_eq!(
            message,
            format!("Calculated status for 1 pools{suffix}"),
            "{case}"
        );
        assert!(pool["totalDevices"].is_u64(), "{case}");
    }
    let many: Vec<_> = (0..33)
        .map(|n| partition(&format!("d{n}"), &format!("t{n}"), "1Gi"))
        .collect();
    let (pool, _) = accounted(own, &[partitioned("80Gi", None, &many)], &[], &[]);
    let expected = format!(
        "PartitionSummaryOverCap: pool {DRIVER}/pool-1 has 33 partition types, exceeding the maximum of 32"
    );
    assert_eq!(pool["validationError"], expected);
    assert_eq!(pool.get("partitionSummary"), None);
}

/// Upstream: `TestComputeShareableSummary`, of 1.37.
#[test]
fn capacity_of_shared_devices_is_summed_up() {
    let shared = |name: &str, capacity: Value| json!({"name": name, "allowMultipleAllocations": true, "capacity": capacity});
    let memory = || json!({"memory": {"value": "40Gi"}, "cores": {"value": "8"}});
    let slice = [json!({"devices": [
        shared("a", memory()), shared("b", json!({"memory": {"value": "40Gi"}})),
        {"name": "plain", "capacity": memory()},
    ]})];
    let used = |device, fields: Value| claim_with(device, fields);
    let consumed = |amount: &str| json!({"consumedCapacity": {"memory": amount}});
    let mut observed = consumed("1Gi");
    observed["adminAccess"] = json!(true);
    let claims = [
        used("a", consumed("4Gi")),
        used("a", consumed("6Gi")),
        used("b", observed),
        used("gone", json!({"consumedCapacity": {"cores": "9"}})),
    ];
    let (pool, _) = accounted(None, &slice, &claims, &[]);
    let capacity = |name: &str, [total, consumed, available]: [&str; 3]| json!({"name": name, "total": total, "consumed": consumed, "available": available});
    let expected = json!({
        "fullyAvailableDevices": 1, "partiallyAvailableDevices": 1,
        "capacity": [
            capacity("cores", ["8", "9", "0"]), capacity("memory", ["80Gi", "10Gi", "70Gi"]),
        ],
    });
    assert_eq!(pool["shareableSummary"], expected);
    assert_eq!(pool.get("validationError"), None);
    let many: serde_json::Map<_, _> = (0..33)
        .map(|n| (format!("c{n}"), json!({"value": "1"})))
        .collect();
    let (pool, _) = accounted(
        None,
        &[json!({"devices": [shared("a", many.into())]})],
        &[],
        &[],
    );
    let error = format!(
        "ShareableSummaryOverCap: pool {DRIVER}/pool-1 has 33 shareable capacity keys, exceeding the maximum of 32"
    );
    assert_eq!(pool["validationError"], error);
    assert_eq!(pool.get("shareableSummary"), None);
}

/// Upstream: `TestShouldDeleteRequest` and `TestIsOlderThan`.
#[test]
fn should_delete_request() {
    let ago = |minutes: i64| json!((begin() - SignedDuration::from_mins(minutes)).to_string());
    let answered = |kind: &str, since: Value| json!({"conditions": [{"type": kind, "lastTransitionTime": since}]});
    // (case, age in minutes, status, deleted)
    let cases = [
        (
            "completed-request-not-expired",
            0,
            answered("Complete", ago(0)),
            false,
        ),
        (
            "completed-request-expired",
            120,
            answered("Complete", ago(120)),
            true,
        ),
        (
            "failed-request-expired",
            120,
            answered("Failed", ago(61)),
            true,
        ),
        (
            "just-under-boundary-is-not-older",
            120,
            answered("Complete", ago(59)),
            false,
        ),
        (
            "zero-time-is-not-older",
            120,
            answered("Complete", json!(null)),
            false,
        ),
        (
            "other conditions only",
            120,
            answered("Other", ago(0)),
            true,
        ),
        ("pending-request-not-expired", 0, json!(null), false),
        ("pending-request-expired", 25 * 60, json!(null), true),
    ];
    for (case, age, status, deleted) in cases {
        let mut request = request(json!({"driver": DRIVER}));
        request["metadata"]["creationTimestamp"] = ago(age);
        request["status"] = status;
        let request = decode::<ResourcePoolStatusRequest>(&request);
        assert_eq!(due(&request, begin()).is_some(), deleted, "{case}");
    }
    let new = decode::<ResourcePoolStatusRequest>(&request(json!({})));
    assert_eq!(due(&new, Timestamp::MIN), None);
}

/// A cluster that has the type, with these objects, and the controller in it.
async fn world(objects: &[Value]) -> World {
    let mut world = World::bare().await;
    let kind = "ResourcePoolStatusRequest";
    let requests = definition("resource.k8s.io", kind, &["v1alpha3"], "Cluster");
    world.create(requests).await;
    for object in objects {
        world.cluster.load(object.clone()).unwrap();
    }
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(MINUTE).await;
    world
}

impl World {
    fn pool_writes(&self) -> Vec<String> {
        let requests = self.requests_of(NAME);
        let writes = requests
            .iter()
            .filter(|request| !request.starts_with("list") && !request.starts_with("watch"));
        writes
            .map(|request| {
                request.replace(
                    "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests/",
                    "",
                )
            })
            .collect()
    }

    /// The counters of processed requests and of errors, and the number of durations.
    fn pool_metrics(&self) -> [f64; 3] {
        let gather = self.registry.gather();
        let value = |name: &str| {
            let name = format!("resourcepoolstatusrequest_controller_{name}");
            let family = gather.iter().find(|family| family.name() == name);
            family.map_or(0.0, |family| {
                let metric = &family.get_metric()[0];
                assert_eq!(metric.get_label()[0].value(), DRIVER);
                let count = metric.get_histogram().get_sample_count() as f64;
                metric.get_counter().get_value() + count
            })
        };
        [
            "requests_processed_total",
            "request_processing_errors_total",
            "request_processing_duration_seconds",
        ]
        .map(value)
    }
}

/// Upstream: `TestSyncRequest`.
#[tokio::test(start_paused = true)]
async fn a_request_is_answered_once() {
    let slice = Slice("slice-1", DRIVER, "pool-1", Some("node-1"), 4, 1, 1);
    let used = claim("claim-1", "pool-1", "device-0");
    let world = world(&[request(json!({"driver": DRIVER})), slice.json(), used]).await;
    let answered = world
        .find("resourcepoolstatusrequests", "test-request")
        .unwrap();
    let condition = json!({
        "type": "Complete", "status": "True", "reason": "CalculationComplete",
        "message": "Calculated status for 1 pools",
        "lastTransitionTime": answered["status"]["conditions"][0]["lastTransitionTime"],
    });
    let pool = json!({
        "driver": DRIVER, "poolName": "pool-1", "nodeName": "node-1", "generation": 1,
        "resourceSliceCount": 1, "totalDevices": 4, "allocatedDevices": 1, "availableDevices": 3,
        "unavailableDevices": 0,
    });
    let status = json!({"poolCount": 1, "pools": [pool], "conditions": [condition]});
    assert_eq!(answered["status"], status);
    world
        .cluster
        .load(Slice("other", DRIVER, "pool-2", None, 1, 1, 1).json())
        .unwrap();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.pool_writes(), ["update test-request/status 200"]);
    assert_eq!(world.pool_metrics(), [1.0, 0.0, 1.0]);
}

/// Upstream: `TestSkipProcessedRequest`, and `TestCleanupExpiredRequests`.
#[tokio::test(start_paused = true)]
async fn an_answer_stays_for_an_hour() {
    let mut answered = request(json!({"driver": DRIVER}));
    let since = (begin() - SignedDuration::from_mins(30)).to_string();
    answered["status"] = json!({"conditions": [{"type": "Complete", "lastTransitionTime": since}]});
    let mut expired = answered.clone();
    expired["metadata"]["name"] = json!("expired");
    let old = begin() - SignedDuration::from_mins(61);
    expired["status"]["conditions"][0]["lastTransitionTime"] = json!(old.to_string());
    let world = world(&[answered, expired]).await;
    assert_eq!(world.pool_writes(), ["delete expired 200"]);
    tokio::time::sleep(MINUTE * 45).await;
    assert_eq!(world.pool_writes()[1..], ["delete test-request 200"]);
}

/// Upstream: `TestSyncRequestRequeuesIncompletePool`. After five retries, only a change of the request
/// brings it back.
#[tokio::test(start_paused = true)]
async fn a_request_about_an_incomplete_pool_waits_for_its_next_change() {
    let half = Slice("slice-1", DRIVER, "pool-1", Some("node-1"), 4, 1, 2);
    let world = world(&[request(json!({"driver": DRIVER})), half.json()]).await;
    assert_eq!(world.pool_writes(), [""; 0]);
    assert_eq!(world.pool_metrics(), [0.0; 3]);
    world
        .cluster
        .load(Slice("slice-2", DRIVER, "pool-1", Some("node-1"), 4, 1, 2).json())
        .unwrap();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.pool_writes(), [""; 0]);
    let path = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests/test-request";
    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
    world.cluster.patch(path, label).await.unwrap();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.pool_writes(), ["update test-request/status 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_is_repeated_and_counted() {
    let mut world = world(&[]).await;
    let answers = Matcher {
        subresource: Some("status".to_owned()),
        ..Matcher::new("update", "resourcepoolstatusrequests")
    };
    world
        .cluster
        .faults()
        .reject(answers, internal_error(), Some(1));
    world.create(request(json!({"driver": DRIVER}))).await;
    tokio::time::sleep(MINUTE).await;
    let update = "update test-request/status";
    assert_eq!(
        world.pool_writes(),
        [format!("{update} 500"), format!("{update} 200")]
    );
    assert_eq!(world.pool_metrics(), [2.0, 1.0, 2.0]);
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(
        world.pool_writes().len(),
        2,
        "a new leader keeps the answer"
    );
}

/// Rules of DeviceTaintRules need their gate, and 1.36 ignores them and the taints of slices.
#[tokio::test(start_paused = true)]
async fn taints_count_since_1_37() {
    // (release, gate of the rules, unavailable devices)
    let cases = [(36, true, 0), (37, false, 1), (37, true, 2)];
    for (minor, has_rules, expected) in cases {
        let mut world = world(&[]).await;
        let rules = definition(
            "resource.k8s.io",
            "DeviceTaintRule",
            &["v1beta2"],
            "Cluster",
        );
        world.create(rules).await;
        let mut slice = Slice("slice-1", DRIVER, "pool-1", Some("node-1"), 3, 1, 1).json();
        slice["spec"]["devices"][0]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
        let mut rule = rule(json!({"device": "device-1"}), "NoExecute");
        rule["apiVersion"] = json!("resource.k8s.io/v1beta2");
        rule["kind"] = json!("DeviceTaintRule");
        for object in [slice, rule] {
            world.cluster.load(object).unwrap();
        }
        world
            .restart_with(&[DESCRIPTOR], |mut context| {
                context.release = Release::of_minor(minor);
                let gate = features::DRA_DEVICE_TAINT_RULES.name;
                context.features = FeatureGates::new(|name| has_rules && name == gate);
                context
            })
            .await;
        world.create(request(json!({"driver": DRIVER}))).await;
        let answered = || {
            world
                .find("resourcepoolstatusrequests", "test-request")
                .unwrap()
        };
        world
            .until("an answer", |_| answered()["status"]["pools"].is_array())
            .await;
        let answered = answered();
        let found = &answered["status"]["pools"][0]["unavailableDevices"];
        assert_eq!(*found, expected, "1.{minor}, {has_rules}");
    }
}
