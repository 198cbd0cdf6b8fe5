//! Upstream's tables, and stories with the type as a CustomResourceDefinition, because API servers
//! lack it by default.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_objects::{Object, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};

use super::pools::{Answer, IncompletePool, answer};
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
        .map(|slice| decode::<ResourceSlice>(&slice.json()))
        .collect();
    let claims: Vec<_> = claims.iter().map(decode::<ResourceClaim>).collect();
    answer(&request.spec, &slices, &claims, begin())
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
