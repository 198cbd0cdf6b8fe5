//! The file of cases that upstream's own packages computed: matching, and single syncs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_objects::{Object, PersistentVolume, PersistentVolumeClaim};

use super::fake::{Fake, queued};
use crate::persistentvolume::known::Volumes;
use crate::persistentvolume::matching::{self, AttributesClasses};

fn cases(part: &str) -> Vec<Value> {
    let file = include_str!("../testdata/volume-binding.json");
    let mut file: BTreeMap<String, Value> = serde_json::from_str(file).unwrap();
    file.remove(part).unwrap().as_array().unwrap().clone()
}

fn decoded<T: Object>(object: &Value) -> Arc<T> {
    Arc::new(T::decode(object.to_string().as_bytes()).unwrap())
}

#[test]
fn claims_match_the_volumes_of_upstream() {
    for case in cases("matching") {
        let mut claim = None;
        let mut volumes = Volumes::default();
        for object in case["objects"].as_array().unwrap() {
            match object["kind"].as_str() {
                Some("PersistentVolume") => {
                    volumes.store(&decoded::<PersistentVolume>(object));
                }
                _ => claim = Some(decoded::<PersistentVolumeClaim>(object)),
            }
        }
        let best = matching::best(
            &claim.unwrap(),
            &volumes,
            case["delayBinding"] == true,
            AttributesClasses::Compared,
        );
        let error = best.as_ref().err().map(ToString::to_string);
        assert_eq!(json!(error), case["error"], "{}", case["name"]);
        let name = best
            .ok()
            .flatten()
            .map(|volume| volume.meta.name.to_string());
        let allowed = case["oneOf"].as_array().unwrap();
        let is_allowed = match &name {
            Some(name) => allowed.iter().any(|allowed| allowed == name),
            None => allowed.is_empty(),
        };
        assert!(is_allowed, "{}: {name:?} of {allowed:?}", case["name"]);
    }
}

/// A call without the parts that the file omits: kind, API version and empty members of bodies.
/// Folders have the name of the volume here, and deletions name the UID.
fn comparable(mut call: Value) -> Value {
    if let Some(call) = call.as_object_mut() {
        call.remove("deleteOptions");
    }
    if let Some(body) = call["body"].as_object_mut() {
        body.remove("kind");
        body.remove("apiVersion");
        if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
            spec.retain(|_, value| *value != json!({}));
        }
        body.retain(|_, value| *value != json!({}));
    }
    if call["body"].is_null() {
        call.as_object_mut().unwrap().remove("body");
    }
    if let Some(path) = call.pointer_mut("/body/spec/hostPath/path")
        && path.as_str().unwrap().starts_with("/tmp/hostpath_pv/")
    {
        *path = json!("/tmp/hostpath_pv/<uuid>");
    }
    call
}

/// Whether a claim has lost its volume. A live read confirms that here, unlike upstream.
fn is_loss(events: &Value) -> bool {
    let mut events = events.as_array().unwrap().iter();
    events.any(|event| event["reason"] == "ClaimLost" || event["reason"] == "ClaimMisbound")
}

fn comparable_all(calls: &[Value]) -> Vec<Value> {
    calls.iter().cloned().map(comparable).collect()
}

/// Upstream: `binder_test.go`, `provision_test.go`, `delete_test.go` and `recycle_test.go` have
/// their rules from the same code, as single syncs of the same states.
#[tokio::test(start_paused = true)]
async fn syncs_send_the_requests_of_upstream() {
    for case in cases("steps") {
        let name = &case["name"];
        let fake = Fake::new(case["objects"].as_array().unwrap(), &case["options"]);
        let sync = &case["sync"];
        let error = fake
            .sync(
                sync["kind"].as_str().unwrap(),
                sync["key"].as_str().unwrap(),
            )
            .await;
        fake.finish().await;
        let expected = comparable_all(case["calls"].as_array().unwrap());
        let mut calls = comparable_all(&fake.calls());
        if is_loss(&case["events"]) {
            calls.retain(|call| call["verb"] != "get");
        }
        assert_eq!(calls, expected, "{name}");
        assert_eq!(json!(fake.events()), case["events"], "{name}");
        assert_eq!(json!(error), case["error"], "{name}");
        let claims = queued(&fake.binder.claim_queue).await;
        assert_eq!(json!(claims), case["enqueuedClaims"], "{name}");
        let volumes = queued(&fake.binder.volume_queue).await;
        assert_eq!(json!(volumes), case["enqueuedVolumes"], "{name}");
    }
    // Two cases make a folder.
    std::fs::remove_dir_all("/tmp/hostpath_pv/pvc-uid-c1").unwrap();
}
