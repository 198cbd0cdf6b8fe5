//! Whole evictions against the in-memory API server.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, conflict, internal_error};
use steersman_devcluster::status::Status;

use super::{
    CLAIM, Evictions, POD, claim, in_use, pod, slice, taint, tainted, tolerates, untainted,
};
use crate::devicetainteviction::DESCRIPTOR;
use crate::testing::world::begin;

const EVICTION: [&str; 3] = [
    "get pods/my-pod 200",
    "patch pods/my-pod/status 200",
    "delete pods/my-pod 200",
];
const MARKED: &str = "my-pod Marking for deletion x1";
const CANCELLED: &str = "my-pod Cancelling deletion x1";
const NONE: [&str; 0] = [];
const SLICE: &str = "worker-some-driver";

/// Upstream: `TestEviction`.
#[tokio::test(start_paused = true)]
async fn eviction() {
    let unallocated = || {
        let mut claim = claim(CLAIM, POD, "1234", json!([]));
        claim["status"] = json!({});
        claim
    };
    let unbound = || {
        let mut pod = pod(POD, "1234", CLAIM);
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
        pod
    };
    let shadow = || {
        let mut slice = untainted();
        slice["metadata"]["name"] = json!("other");
        slice["spec"]["pool"]["generation"] = json!(100);
        slice
    };
    let [slice, claim, pod] = in_use(json!([]));
    let all = || vec![pod.clone(), slice.clone(), claim.clone()];
    // (case, objects before the start, a slice and a claim deleted afterwards, objects stored then)
    let cases = [
        ("initial", all(), None, vec![]),
        ("add", vec![], None, all()),
        (
            "update",
            vec![untainted(), unallocated(), unbound()],
            None,
            all(),
        ),
        (
            "delete",
            vec![slice.clone(), shadow(), unallocated(), pod.clone()],
            Some("other"),
            vec![claim.clone()],
        ),
    ];
    for (case, before, deleted, after) in cases {
        let evictions = Evictions::with(&before).await;
        evictions.pass(100).await;
        if let Some(slice) = deleted {
            evictions.remove("resourceslices", slice).await;
            evictions.remove("resourceclaims", CLAIM).await;
        }
        after.into_iter().for_each(|object| evictions.load(object));
        evictions.pass(1000).await;
        assert_eq!(evictions.requests(), EVICTION, "{case}");
        assert_eq!(evictions.events(), [MARKED], "{case}");
        let (deletions, count, seconds) = evictions.metrics();
        assert!(
            deletions == 1.0 && count == 1 && seconds < 1.0,
            "{case}: {seconds}"
        );
    }
}

/// The reference's example A, with the requests of upstream.
#[tokio::test(start_paused = true)]
async fn an_eviction_marks_the_pod_and_deletes_it_by_its_uid() {
    let evictions = Evictions::without_controller(&in_use(json!([]))).await;
    evictions.0.cluster.keep_contents();
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions.pass(1000).await;
    let bodies: Vec<Value> = {
        let requests = evictions.0.cluster.requests();
        let writes = requests
            .iter()
            .filter(|r| r.path.contains("/pods/my-pod") && matches!(&*r.verb, "patch" | "delete"));
        writes
            .map(|r| serde_json::from_slice(&r.content.as_ref().unwrap().body).unwrap())
            .collect()
    };
    let conditions = evictions.pod(POD)["status"]["conditions"].clone();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint",
        "lastProbeTime": null, "lastTransitionTime": conditions[1]["lastTransitionTime"],
    });
    assert_eq!(conditions[1], condition, "without a generation");
    let patch = json!({
        "metadata": {"uid": "1234"},
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "DisruptionTarget"}],
            "conditions": [condition],
        },
    });
    assert_eq!(bodies[0], patch);
    assert_eq!(bodies[1]["preconditions"], json!({"uid": "1234"}));
    assert_eq!(bodies[1].get("gracePeriodSeconds"), None);
    let event = &evictions.0.cluster.objects("events")[0];
    assert_eq!(event["reason"], "DeviceTaintManagerEviction");
    assert_eq!(
        event["source"]["component"],
        "device-taint-eviction-controller"
    );
    let of = &event["involvedObject"];
    let fields = ["apiVersion", "kind", "namespace", "name", "uid"].map(|field| of[field].clone());
    assert_eq!(
        json!(fields),
        json!(["v1", "Pod", "default", "my-pod", "1234"])
    );
}

/// Upstream: `TestCancelEviction`, and the reference's examples B and E.
#[tokio::test(start_paused = true)]
async fn cancel_eviction() {
    // (case, Events)
    let cases: [(&str, &[&str]); 5] = [
        ("pod-deleted", &[]),
        ("slice-deleted", &[CANCELLED]),
        ("taint removed", &[CANCELLED]),
        ("released", &[CANCELLED]),
        ("a newer generation", &[CANCELLED]),
    ];
    for (case, events) in cases {
        let evictions = Evictions::with(&in_use(json!([tolerates(Some(60))]))).await;
        evictions.pass(30_000).await;
        match case {
            "pod-deleted" => evictions.remove("pods", POD).await,
            "slice-deleted" => evictions.remove("resourceslices", SLICE).await,
            "taint removed" => evictions.load(untainted()),
            "released" => {
                let status = json!({"status": {"reservedFor": null}});
                evictions
                    .0
                    .patch("resourceclaims", &format!("{CLAIM}/status"), status)
                    .await;
            }
            _ => {
                let mut newer = untainted();
                newer["metadata"]["name"] = json!("newer");
                newer["spec"]["pool"]["generation"] = json!(1);
                evictions.load(newer);
            }
        }
        evictions.pass(600_000).await;
        assert_eq!(evictions.requests(), NONE, "{case}");
        assert_eq!(evictions.events(), events, "{case}");
        assert_eq!(evictions.metrics().0, 0.0, "{case}");
    }
}

/// Upstream: `TestParallelPodDeletion`.
#[tokio::test(start_paused = true)]
async fn parallel_pod_deletion() {
    let evictions = Evictions::with(&in_use(json!([tolerates(Some(60))]))).await;
    evictions.pass(1000).await;
    evictions.0.cluster.faults().stall_watches("pods");
    evictions.remove("pods", POD).await;
    evictions.pass(100_000).await;
    assert_eq!(evictions.requests(), ["get pods/my-pod 404"]);
    assert_eq!(evictions.events(), NONE);
    assert_eq!(evictions.metrics().0, 0.0);
}

/// Upstream: `TestRetry`.
#[tokio::test(start_paused = true)]
async fn retry() {
    let evictions = Evictions::without_controller(&in_use(json!([]))).await;
    let faults = evictions.0.cluster.faults();
    faults.reject(Matcher::new("get", "pods"), internal_error(), Some(1));
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions.pass(60_000).await;
    let requests = [&["get pods/my-pod 500"], &EVICTION[..]].concat();
    assert_eq!(evictions.requests(), requests);
    assert_eq!(evictions.events(), [MARKED]);
    assert_eq!(evictions.metrics().0, 1.0);
}

/// Upstream repeats the Event with each try.
#[tokio::test(start_paused = true)]
async fn a_refused_request_is_repeated_and_the_eviction_announced_once() {
    let deletions = Matcher::new("delete", "pods");
    let patches = Matcher::new("patch", "pods").subresource("status");
    for (matcher, status) in [(deletions, internal_error()), (patches, conflict())] {
        let verb = matcher.verb.clone().unwrap_or_default();
        let evictions = Evictions::without_controller(&in_use(json!([]))).await;
        let fault = evictions.0.cluster.faults().reject(matcher, status, None);
        let evictions = evictions.started(&[DESCRIPTOR]).await;
        evictions.pass(60_000).await;
        assert!(
            evictions.count(&format!("{verb} pods/my-pod")) > 5,
            "{verb}: {:?}",
            evictions.requests()
        );
        assert_eq!(evictions.terminating(), NONE, "{verb}");
        evictions.0.cluster.faults().remove(fault);
        evictions
            .0
            .until("the pod is deleted", |_| evictions.terminating() == [POD])
            .await;
        assert_eq!(evictions.events(), [MARKED], "{verb}");
        let patched = evictions
            .requests()
            .iter()
            .filter(|r| **r == EVICTION[1])
            .count();
        assert_eq!(patched, 1, "{verb}: the condition is written once");
        assert_eq!(evictions.metrics().0, 1.0, "{verb}");
    }
}

/// A proxy that cannot reach the API server answers 404 as well.
#[tokio::test(start_paused = true)]
async fn the_answer_of_a_proxy_ends_no_eviction() {
    for verb in ["get", "delete"] {
        let evictions = Evictions::without_controller(&in_use(json!([]))).await;
        let page = Status::new(404, "NotFound", "404 page not found");
        let faults = evictions.0.cluster.faults();
        let rule = faults.reject(Matcher::new(verb, "pods"), page, Some(4));
        let evictions = evictions.started(&[DESCRIPTOR]).await;
        evictions.pass(5000).await;
        assert_eq!(evictions.0.cluster.faults().hits(rule), 4, "{verb}");
        assert_eq!(evictions.terminating(), [POD], "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_the_taint_and_not_from_the_start() {
    let evictions = Evictions::without_controller(&in_use(json!([tolerates(Some(60))]))).await;
    evictions.pass(50_000).await;
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions.pass(9000).await;
    assert_eq!(evictions.terminating(), NONE);
    evictions.pass(2000).await;
    assert_eq!(evictions.terminating(), [POD]);
}

/// The reference's example D.
#[tokio::test(start_paused = true)]
async fn a_pod_is_evicted_when_it_is_bound() {
    let [slice, claim, bound] = in_use(json!([]));
    let mut unbound = bound.clone();
    unbound["spec"].as_object_mut().unwrap().remove("nodeName");
    let evictions = Evictions::with(&[slice, claim, unbound]).await;
    evictions.pass(60_000).await;
    assert_eq!(evictions.requests(), NONE);
    evictions.load(bound);
    evictions.pass(1000).await;
    assert_eq!(evictions.requests(), EVICTION);
}

/// Upstream reports a late cancellation.
#[tokio::test(start_paused = true)]
async fn an_evicted_pod_is_not_reported_again() {
    let [slice, claim, mut held] = in_use(json!([]));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let evictions = Evictions::with(&[slice, claim.clone(), held]).await;
    evictions.pass(1000).await;
    assert_eq!(evictions.terminating(), [POD]);
    let mut touched = claim;
    touched["metadata"]["labels"] = json!({"a": "b"});
    evictions.load(touched);
    evictions.pass(1000).await;
    evictions.load(untainted());
    evictions.pass(60_000).await;
    assert_eq!(evictions.requests(), EVICTION);
    assert_eq!(evictions.events(), [MARKED]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_terminates_counts_as_evicted() {
    let [slice, claim, mut held] = in_use(json!([]));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    held["metadata"]["deletionTimestamp"] = json!(begin().to_string());
    let evictions = Evictions::with(&[slice, claim, held]).await;
    evictions.pass(60_000).await;
    assert_eq!(evictions.requests(), EVICTION[..1]);
    assert_eq!(evictions.events(), NONE);
    assert_eq!(evictions.metrics().0, 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_of_the_same_name_survives() {
    let evictions = Evictions::with(&in_use(json!([tolerates(Some(10))]))).await;
    evictions.pass(1000).await;
    evictions.0.cluster.faults().stall_watches("pods");
    evictions.remove("pods", POD).await;
    evictions.load(pod(POD, "another", CLAIM));
    evictions.pass(20_000).await;
    assert_eq!(evictions.requests(), ["get pods/my-pod 200"]);
    evictions.0.cluster.faults().resume_watches("pods");
    evictions.pass(60_000).await;
    assert_eq!(
        evictions.terminating(),
        NONE,
        "the claim is not reserved for it"
    );
}

/// kubernetes/kubernetes#141290
#[tokio::test(start_paused = true)]
async fn a_pod_with_extended_resources_alone_is_not_evicted() {
    let [slice, claim, mut pod] = in_use(json!([]));
    pod["spec"]
        .as_object_mut()
        .unwrap()
        .remove("resourceClaims");
    pod["status"]["extendedResourceClaimStatus"] =
        json!({"resourceClaimName": CLAIM, "requestMappings": []});
    let evictions = Evictions::with(&[slice, claim, pod]).await;
    evictions.pass(60_000).await;
    assert_eq!(evictions.requests(), NONE);
}

#[tokio::test(start_paused = true)]
async fn finished_pods_are_evicted_while_they_have_the_claim() {
    let [slice, claim, mut done] = in_use(json!([]));
    done["status"]["phase"] = json!("Succeeded");
    let evictions = Evictions::with(&[slice, claim, done]).await;
    evictions.pass(1000).await;
    assert_eq!(evictions.requests(), EVICTION);
}

/// While the caches fill, an old slice may be seen before the new one.
#[tokio::test(start_paused = true)]
async fn the_first_list_of_slices_cancels_nothing() {
    let mut objects = in_use(json!([])).to_vec();
    for number in 0..10 {
        let mut newer = untainted();
        newer["metadata"]["name"] = json!(format!("newer-{number}"));
        newer["spec"]["pool"]["generation"] = json!(number);
        objects.push(newer);
    }
    let evictions = Evictions::with(&objects).await;
    evictions.pass(60_000).await;
    assert_eq!(evictions.requests(), NONE);
    assert_eq!(evictions.events(), NONE);
}

/// Upstream: `test/integration/dra/device_taints.go` evicts 1000 pods.
#[tokio::test(start_paused = true)]
async fn all_pods_of_a_tainted_device_are_evicted() {
    const PODS: usize = 200;
    let mut objects = vec![untainted()];
    for number in 0..PODS {
        let name = format!("p{number}");
        let uid = format!("u{number}");
        objects.push(claim(&name, &name, &uid, json!([])));
        objects.push(pod(&name, &uid, &name));
    }
    let evictions = Evictions::with(&objects).await;
    evictions.pass(1000).await;
    assert_eq!(evictions.requests(), NONE);
    evictions.load(tainted());
    evictions
        .0
        .until("all are evicted", |_| evictions.terminating().len() == PODS)
        .await;
    assert_eq!(evictions.requests().len(), 3 * PODS);
    assert_eq!(evictions.metrics().0, PODS as f64);
}

/// Evicted pods are back after the restore. They stay until their device is tainted, and the caches
/// of the former history evict none.
#[tokio::test(start_paused = true)]
async fn an_etcd_restore_brings_evicted_pods_back() {
    for tainted_before in [false, true] {
        let [slice, claim, mut held] = in_use(json!([tolerates(Some(60))]));
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let first = if tainted_before {
            slice.clone()
        } else {
            untainted()
        };
        let mut evictions = Evictions::with(&[first, claim, held]).await;
        evictions.pass(1000).await;
        let backup = evictions.0.cluster.snapshot();
        evictions.load(slice);
        evictions.pass(60_000).await;
        assert_eq!(evictions.terminating(), [POD]);
        evictions.0.restore(&backup);
        assert_eq!(evictions.terminating(), NONE);
        evictions.pass(60_000).await;
        assert_eq!(evictions.terminating().len(), usize::from(tainted_before));
        evictions.load(tainted());
        evictions.pass(60_000).await;
        assert_eq!(evictions.terminating(), [POD], "{tainted_before}");
    }
}

/// Servers before Kubernetes 1.34 lack `resource.k8s.io/v1`. Only this controller waits for it.
#[tokio::test(start_paused = true)]
async fn a_server_without_device_claims_blocks_no_other_controller() {
    let evictions = Evictions::without_controller(&in_use(json!([]))).await;
    let page = || Status::new(404, "NotFound", "404 page not found");
    let kinds = ["resourceclaims", "resourceslices", "deviceclasses"];
    let rejected: Vec<_> = kinds
        .iter()
        .map(|plural| {
            let requests = Matcher {
                resource: Some((*plural).to_owned()),
                ..Matcher::default()
            };
            evictions.0.cluster.faults().reject(requests, page(), None)
        })
        .collect();
    let evictions = evictions
        .started(&[DESCRIPTOR, crate::podgc::DESCRIPTOR])
        .await;
    evictions.pass(120_000).await;
    assert_eq!(evictions.0.informers.not_synced(), NONE);
    let podgc = evictions.pod(POD)["metadata"]["deletionTimestamp"].is_string();
    assert!(
        podgc || evictions.pod(POD).is_null(),
        "podgc runs: the node does not exist"
    );
    assert_eq!(evictions.requests(), NONE);
    for rule in rejected {
        evictions.0.cluster.faults().remove(rule);
    }
    evictions.load(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}}));
    evictions.load(pod(POD, "1234", CLAIM));
    evictions.load(slice("worker", &[("instance", json!([taint()]))]));
    evictions
        .0
        .until("the controller works", |_| !evictions.requests().is_empty())
        .await;
}
