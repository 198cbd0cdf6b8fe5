//! Tables of tolerations, pools, and the states of evictions.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_objects::{Object, ObjectKey, Pod, ResourceClaim, ResourceSlice, Uid};
use steersman_runtime::informer::Change;

use super::super::claims::{Devices, Eviction};
use super::super::evictions::{Due, Effect, Evictions, PodRef};
use super::super::handlers::steps;
use super::{CLAIM, KEY, NODE, POD, VALUE, claim, pod, slice, tolerates};

fn decode<T: Object>(object: &Value) -> Arc<T> {
    Arc::new(T::decode(object.to_string().as_bytes()).unwrap())
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

/// A slice of a generation, with the taint of the device `instance`.
fn generation(name: &str, generation: i64, taints: Value) -> Value {
    let mut slice = slice(NODE, &[("instance", taints)]);
    slice["metadata"]["name"] = json!(name);
    slice["spec"]["pool"]["generation"] = json!(generation);
    slice
}

fn taint_at(seconds: i64) -> Value {
    json!({"key": KEY, "value": VALUE, "effect": "NoExecute", "timeAdded": at(seconds).to_string()})
}

fn eviction(devices: &Devices) -> Option<Arc<Eviction>> {
    devices.eviction_of(&decode::<Pod>(&pod(POD, "1234", CLAIM)))
}

/// Devices with the claim of the pod, with `tolerations`.
fn allocated(tolerations: Value) -> Devices {
    let mut devices = Devices::new(false);
    let claim = decode::<ResourceClaim>(&claim(CLAIM, POD, "1234", tolerations));
    devices.claim_changed(None, Some(&claim), at(0));
    devices
}

#[test]
fn tolerations_delay_the_eviction_or_prevent_it() {
    let toleration = |key: &str, operator: &str, value: &str, effect: &str, seconds: Value| json!({"key": key, "operator": operator, "value": value, "effect": effect, "tolerationSeconds": seconds});
    let no_execute =
        |key, operator, value| toleration(key, operator, value, "NoExecute", json!(60));
    // (case, tolerations, seconds until the eviction)
    let cases = [
        ("none", json!([]), Some(0)),
        ("all keys", json!([no_execute("", "Exists", "")]), Some(60)),
        ("the key", json!([no_execute(KEY, "Exists", "")]), Some(60)),
        (
            "another key",
            json!([no_execute("other", "Exists", "")]),
            Some(0),
        ),
        (
            "the value",
            json!([no_execute(KEY, "Equal", VALUE)]),
            Some(60),
        ),
        (
            "another value",
            json!([no_execute(KEY, "Equal", "other")]),
            Some(0),
        ),
        ("no operator", json!([no_execute(KEY, "", VALUE)]), Some(60)),
        (
            "another operator",
            json!([no_execute(KEY, "In", VALUE)]),
            Some(0),
        ),
        (
            "no effect",
            json!([toleration(KEY, "Exists", "", "", json!(60))]),
            Some(0),
        ),
        (
            "another effect",
            json!([toleration(KEY, "Exists", "", "NoSchedule", json!(60))]),
            Some(0),
        ),
        ("negative", json!([tolerates(Some(-5))]), Some(0)),
        (
            "the shortest",
            json!([tolerates(Some(60)), tolerates(Some(30))]),
            Some(30),
        ),
        (
            "without limit",
            json!([tolerates(Some(60)), tolerates(None)]),
            None,
        ),
    ];
    for (case, tolerations, seconds) in cases {
        let mut devices = allocated(tolerations);
        let slice = decode::<ResourceSlice>(&generation("s", 0, json!([taint_at(-10)])));
        devices.slice_changed(None, Some(&slice), at(0));
        let found = eviction(&devices).map(|eviction| eviction.at);
        assert_eq!(found, seconds.map(|seconds| at(seconds - 10)), "{case}");
    }
    let mut devices = allocated(json!([tolerates(Some(i64::MAX))]));
    let slice = decode::<ResourceSlice>(&generation("s", 0, json!([taint_at(0)])));
    devices.slice_changed(None, Some(&slice), at(0));
    assert_eq!(eviction(&devices).unwrap().at, Timestamp::MAX);
}

/// A real API server sets the time. Upstream crashes without it.
#[test]
fn a_taint_without_time_counts_from_now() {
    let mut devices = allocated(json!([tolerates(Some(60))]));
    let taint = json!({"key": KEY, "effect": "NoExecute"});
    let slice = decode::<ResourceSlice>(&generation("s", 0, json!([taint])));
    devices.slice_changed(None, Some(&slice), at(5));
    assert_eq!(eviction(&devices).unwrap().at, at(65));
}

#[test]
fn only_slices_of_the_newest_generation_count() {
    let tainted = |name, number| generation(name, number, json!([taint_at(0)]));
    let plain = |name, number| generation(name, number, json!([]));
    // (case, slices, tainted)
    let cases = [
        ("one slice", vec![tainted("a", 1)], true),
        (
            "a newer one without the taint",
            vec![tainted("a", 1), plain("b", 2)],
            false,
        ),
        (
            "a newer one with the taint",
            vec![plain("a", 1), tainted("b", 2)],
            true,
        ),
        (
            "two of one generation",
            vec![tainted("a", 2), plain("b", 2)],
            true,
        ),
        (
            "changed to a newer generation",
            vec![tainted("a", 1), plain("a", 2)],
            false,
        ),
    ];
    for (case, slices, is_tainted) in cases {
        let mut devices = allocated(json!([]));
        for slice in &slices {
            devices.slice_changed(None, Some(&decode(slice)), at(0));
        }
        assert_eq!(eviction(&devices).is_some(), is_tainted, "{case}");
        // The last slice goes, and the one before counts again.
        let last = decode::<ResourceSlice>(slices.last().unwrap());
        devices.slice_changed(Some(&last), None, at(0));
        let remains = slices.len() == 2 && slices[0]["metadata"]["name"] != *last.meta.name;
        let was_tainted = slices[0]["spec"]["devices"][0]["taints"] != json!([]);
        assert_eq!(
            eviction(&devices).is_some(),
            remains && was_tainted,
            "{case}"
        );
    }
}

#[test]
fn a_slice_of_another_pool_replaces_the_one_of_its_name() {
    let mut devices = allocated(json!([]));
    let old = decode::<ResourceSlice>(&generation("s", 0, json!([taint_at(0)])));
    assert_eq!(devices.slice_changed(None, Some(&old), at(0)).len(), 1);
    let mut other = generation("s", 0, json!([taint_at(0)]));
    other["spec"]["pool"]["name"] = json!("elsewhere");
    assert_eq!(
        devices
            .slice_changed(Some(&old), Some(&decode(&other)), at(0))
            .len(),
        1
    );
    assert_eq!(eviction(&devices), None);
}

#[test]
fn only_claims_with_another_eviction_are_reported() {
    let mut devices = allocated(json!([]));
    let slice = |taints: Value| decode::<ResourceSlice>(&generation("s", 0, taints));
    let plain = slice(json!([]));
    let tainted = slice(json!([taint_at(0)]));
    let no_schedule = json!({"key": "other", "effect": "NoSchedule"});
    let more = slice(json!([no_schedule, taint_at(0)]));
    // (case, old, new, reported)
    let cases = [
        ("no taint", None, Some(&plain), 0),
        ("tainted", Some(&plain), Some(&tainted), 1),
        ("another effect", Some(&tainted), Some(&more), 0),
        ("the taint goes", Some(&more), Some(&plain), 1),
        ("the slice goes", Some(&plain), None, 0),
    ];
    for (case, old, new, reported) in cases {
        assert_eq!(
            devices.slice_changed(old, new, at(0)).len(),
            reported,
            "{case}"
        );
    }
}

/// The scheduler may release a claim and allocate other devices while the watch has a gap.
#[test]
fn a_claim_with_other_devices_gets_another_deadline() {
    let mut devices = Devices::new(false);
    let slice = decode::<ResourceSlice>(&generation("s", 0, json!([taint_at(0)])));
    devices.slice_changed(None, Some(&slice), at(0));
    let before = claim(CLAIM, POD, "1234", json!([]));
    let mut after = before.clone();
    after["status"]["allocation"]["devices"]["results"][0]["device"] = json!("other");
    let before = decode::<ResourceClaim>(&before);
    let after = decode(&after);
    devices.claim_changed(None, Some(&before), at(0));
    assert!(eviction(&devices).is_some());
    devices.claim_changed(Some(&before), Some(&after), at(0));
    assert_eq!(eviction(&devices), None);
}

#[test]
fn consumers_before_and_after_a_change_are_checked() {
    let mut devices = allocated(json!([]));
    let old = claim(CLAIM, POD, "1234", json!([]));
    let mut free = old.clone();
    free["status"]["reservedFor"] = json!([]);
    let mut released = free.clone();
    released["status"] = json!({});
    let [old, free, released] = [old, free, released].map(|claim| decode::<ResourceClaim>(&claim));
    // (case, old, new, checked)
    let cases = [
        ("same consumers", Some(&old), Some(&old), 1),
        ("other consumers", Some(&old), Some(&free), 2),
        ("released", Some(&free), Some(&released), 1),
        ("still released", Some(&released), Some(&released), 0),
        ("gone", Some(&released), None, 0),
        ("created without devices", None, Some(&released), 0),
        ("created", None, Some(&old), 1),
        ("gone with devices", Some(&old), None, 1),
    ];
    for (case, old, new, checked) in cases {
        assert_eq!(
            devices.claim_changed(old, new, at(0)).len(),
            checked,
            "{case}"
        );
    }
}

#[test]
fn another_object_of_the_name_is_a_deletion_and_a_creation() {
    let old = decode::<Pod>(&pod(POD, "1", CLAIM));
    let new = decode::<Pod>(&pod(POD, "2", CLAIM));
    let uids = |change: Change<'_, Pod>| -> Vec<[Option<String>; 2]> {
        let uid = |pod: Option<&Arc<Pod>>| pod.map(|pod| pod.meta.uid.to_string());
        steps(&change)
            .into_iter()
            .map(|(old, new)| [uid(old), uid(new)])
            .collect()
    };
    let uid = |text: &str| Some(text.to_owned());
    let updated = |old, new| Change::Updated { old, new };
    assert_eq!(uids(updated(&old, &old)), [[uid("1"), uid("1")]]);
    assert_eq!(
        uids(updated(&old, &new)),
        [[uid("1"), None], [None, uid("2")]]
    );
}

fn pod_ref() -> PodRef {
    PodRef {
        key: ObjectKey::new("default", POD),
        uid: Uid::new("1234"),
    }
}

fn due_at(seconds: i64) -> Option<Arc<Eviction>> {
    Some(Arc::new(Eviction {
        at: at(seconds),
        reasons: Default::default(),
    }))
}

#[test]
fn an_eviction_is_queued_when_its_time_is_new() {
    let mut evictions = Evictions::default();
    let evict = |seconds| due_at(seconds).map(|eviction| Effect::Evict(pod_ref(), eviction));
    // (case, eviction, effect)
    let cases = [
        ("none", None, None),
        ("new", due_at(60), evict(60)),
        ("the same", due_at(60), None),
        ("earlier", due_at(-5), evict(-5)),
        ("gone", None, Some(Effect::Cancelled(pod_ref()))),
        ("still gone", None, None),
    ];
    for (case, eviction, effect) in cases {
        assert_eq!(evictions.update(pod_ref(), eviction), effect, "{case}");
    }
}

#[test]
fn an_eviction_that_has_ended_is_neither_repeated_nor_cancelled() {
    for is_cached in [true, false] {
        let mut evictions = Evictions::default();
        evictions.update(pod_ref(), due_at(0));
        evictions.ended(&pod_ref(), is_cached);
        assert_eq!(evictions.due(&pod_ref(), at(0)), Due::Never);
        let again = evictions.update(pod_ref(), due_at(0));
        assert_eq!(
            again.is_none(),
            is_cached,
            "a pod that the cache lacks leaves no record"
        );
        if is_cached {
            assert_eq!(evictions.update(pod_ref(), None), None);
        }
    }
    // (case, what happens, repeated)
    let cases: [(_, fn(&mut Evictions), _); 3] = [
        ("nothing", |_| {}, false),
        ("the pod goes", |evictions| evictions.gone(&pod_ref()), true),
        ("the history goes back", Evictions::history_went_back, true),
    ];
    for (case, happen, repeated) in cases {
        let mut evictions = Evictions::default();
        evictions.ended(&pod_ref(), true);
        happen(&mut evictions);
        let again = evictions.update(pod_ref(), due_at(0));
        assert_eq!(again.is_some(), repeated, "{case}");
    }
}

#[test]
fn an_eviction_is_announced_once() {
    let mut evictions = Evictions::default();
    assert!(!evictions.announce(&pod_ref()));
    evictions.update(pod_ref(), due_at(0));
    assert!(evictions.announce(&pod_ref()) && !evictions.announce(&pod_ref()));
    evictions.update(pod_ref(), due_at(-1));
    assert!(
        !evictions.announce(&pod_ref()),
        "another time is no other eviction"
    );
    evictions.update(pod_ref(), None);
    evictions.update(pod_ref(), due_at(0));
    assert!(
        evictions.announce(&pod_ref()),
        "but one after a cancellation is"
    );
}

#[test]
fn an_eviction_waits_for_its_time() {
    let mut evictions = Evictions::default();
    evictions.update(pod_ref(), due_at(60));
    let waits = Due::After(Duration::from_secs(1));
    assert_eq!(evictions.due(&pod_ref(), at(59)), waits);
    let due = Due::Now(due_at(60).unwrap());
    assert_eq!(evictions.due(&pod_ref(), at(60)), due);
    let later = at(60) + SignedDuration::from_hours(1);
    assert_eq!(evictions.due(&pod_ref(), later), due);
}
