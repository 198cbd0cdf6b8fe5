//! A new leader, with caches that may be older than the change of leader.

use serde_json::{Value, json};

use super::{CLAIM, Evictions, POD, in_use, tolerates, untainted};
use crate::devicetainteviction::DESCRIPTOR;

const NONE: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn a_new_leader_writes_nothing_about_evicted_pods() {
    let [slice, claim, mut held] = in_use(json!([]));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let evictions = Evictions::with(&[slice, claim, held]).await;
    evictions.pass(1000).await;
    assert_eq!(evictions.terminating(), [POD]);
    evictions.0.clear_requests();
    let events = evictions.events();
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions.pass(60_000).await;
    assert_eq!(evictions.requests(), ["get pods/my-pod 200"]);
    assert_eq!(evictions.events(), events);
}

/// The new leader's cache of `plural` lacks the last change of the previous term.
async fn behind(plural: &str, change: Option<Value>) -> Evictions {
    let mut evictions = Evictions::without_controller(&in_use(json!([]))).await;
    let before = evictions.0.cluster.revision();
    change.into_iter().for_each(|object| evictions.load(object));
    evictions.load(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later", "namespace": "default"},
    }));
    let view = evictions
        .0
        .take_over_behind(&[DESCRIPTOR], plural, before)
        .await;
    evictions.pass(30_000).await;
    evictions.0.cluster.faults().remove(view);
    evictions
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_evicts_no_pod() {
    let [_, claim, _] = in_use(json!([]));
    let with = |path: &str, value: Value| {
        let mut claim = claim.clone();
        *claim.pointer_mut(path).unwrap() = value;
        claim
    };
    let mut newer = untainted();
    newer["metadata"]["name"] = json!("newer");
    newer["spec"]["pool"]["generation"] = json!(1);
    let tolerations = "/status/allocation/devices/results/0/tolerations";
    // (why, stale cache, change that it lacks, evicted)
    let cases = [
        ("nothing changed", "resourceslices", None, true),
        ("nothing changed", "resourceclaims", None, true),
        (
            "the taint is gone",
            "resourceslices",
            Some(untainted()),
            false,
        ),
        (
            "the pool has a newer generation",
            "resourceslices",
            Some(newer),
            false,
        ),
        (
            "the claim is released",
            "resourceclaims",
            Some(with("/status", json!({}))),
            false,
        ),
        (
            "the claim tolerates the taint",
            "resourceclaims",
            Some(with(tolerations, json!([tolerates(None)]))),
            false,
        ),
    ];
    for (why, plural, change, evicted) in cases {
        let evictions = behind(plural, change).await;
        assert_eq!(evictions.terminating().len(), usize::from(evicted), "{why}");
        let confirmed = evictions
            .requests()
            .iter()
            .any(|request| request.starts_with(&format!("get resourceclaims/{CLAIM}")));
        assert!(confirmed, "{why}: {:?}", evictions.requests());
        evictions.pass(600_000).await;
        assert_eq!(
            evictions.terminating().len(),
            usize::from(evicted),
            "{why}: afterwards"
        );
        if !evicted {
            assert_eq!(evictions.count("delete"), 0, "{why}");
        }
    }
}

/// The taint that the live slice lacks for a moment returns.
#[tokio::test(start_paused = true)]
async fn an_unconfirmed_eviction_is_tried_again() {
    let [tainted, claim, pod] = in_use(json!([]));
    let mut evictions = Evictions::without_controller(&[tainted.clone(), claim, pod]).await;
    let before = evictions.0.cluster.revision();
    evictions.load(untainted());
    let view = evictions
        .0
        .take_over_behind(&[DESCRIPTOR], "resourceslices", before)
        .await;
    evictions.pass(12_000).await;
    assert_eq!(evictions.terminating(), NONE);
    evictions.load(tainted);
    evictions.pass(6000).await;
    assert_eq!(evictions.terminating(), [POD]);
    evictions.0.cluster.faults().remove(view);
}
