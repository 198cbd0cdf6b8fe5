//! The status patch that a pod gets before its removal.
//!
//! It is the strategic merge patch from the cached status to the new one, byte for byte as upstream
//! computes it. Upstream: `markFailedAndDeletePodWithCondition` in `gc_controller.go`, and
//! `PatchPodStatus`.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_client::writes::{DisruptionCause, ObservedGeneration, disruption_target};
use steersman_objects::Pod;

/// The cause that the condition `DisruptionTarget` tells.
const NODE_IS_GONE: DisruptionCause = DisruptionCause {
    reason: "DeletionByPodGC",
    message: "PodGC: node no longer exists",
};

/// The patch that sets the phase of `pod` to `Failed`; `None` if the pod is finished.
///
/// If `node_is_gone`, the patch also sets the condition `DisruptionTarget`. `tracks_generation` is
/// the feature gate `PodObservedGenerationTracking`; without it, only existing fields
/// `observedGeneration` are updated.
///
/// The UID is a precondition: the API server refuses to change it, so the patch fails for another
/// pod of this name. Keys are in alphabetical order, as upstream's are.
pub(super) fn failure(
    pod: &Pod,
    node_is_gone: bool,
    tracks_generation: bool,
    now: Timestamp,
) -> Option<Value> {
    if pod.is_finished() {
        return None;
    }
    let disruption = node_is_gone
        .then(|| {
            let generation = ObservedGeneration::tracked(tracks_generation);
            disruption_target(pod, NODE_IS_GONE, generation, now)
        })
        .flatten();
    let mut status = disruption.unwrap_or_default();
    let observed = pod.observed_generation.unwrap_or(0);
    if (tracks_generation || observed != 0) && pod.meta.generation != observed {
        status.insert(
            "observedGeneration".to_owned(),
            generation(pod).unwrap_or(Value::Null),
        );
    }
    status.insert("phase".to_owned(), json!("Failed"));
    Some(json!({"metadata": {"uid": pod.meta.uid.to_string()}, "status": status}))
}

/// `metadata.generation`, which the wire omits when it is 0.
fn generation(pod: &Pod) -> Option<Value> {
    (pod.meta.generation != 0).then(|| pod.meta.generation.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pods::{PodBuilder, pod};

    fn body(pod: PodBuilder, node_is_gone: bool) -> Option<String> {
        body_with(true, pod, node_is_gone)
    }

    fn body_with(tracks_generation: bool, pod: PodBuilder, node_is_gone: bool) -> Option<String> {
        let now = "2026-01-02T03:04:05.678Z".parse().unwrap();
        failure(&pod.uid("u1").build(), node_is_gone, tracks_generation, now)
            .map(|patch| patch.to_string())
    }

    #[test]
    fn patches_are_those_of_upstream_byte_for_byte() {
        let condition = r#"{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","message":"PodGC: node no longer exists","observedGeneration":1,"reason":"DeletionByPodGC","status":"True","type":"DisruptionTarget"}"#;
        let terminating = pod("p")
            .metadata("generation", 2)
            .status("observedGeneration", 1);
        // (why, pod, node is gone, status in the patch)
        let cases = [
            (
                "unscheduled or out of service",
                terminating.clone(),
                false,
                r#"{"observedGeneration":2,"phase":"Failed"}"#.to_owned(),
            ),
            (
                "observedGeneration is up to date",
                terminating.status("observedGeneration", 2),
                false,
                r#"{"phase":"Failed"}"#.to_owned(),
            ),
            (
                "orphan with an existing condition",
                pod("p").ready_since(0),
                true,
                format!(
                    r#"{{"$setElementOrder/conditions":[{{"type":"Ready"}},{{"type":"DisruptionTarget"}}],"conditions":[{condition}],"observedGeneration":1,"phase":"Failed"}}"#
                ),
            ),
            (
                "orphan without conditions",
                pod("p"),
                true,
                format!(
                    r#"{{"conditions":[{condition}],"observedGeneration":1,"phase":"Failed"}}"#
                ),
            ),
        ];
        for (why, pod, node_is_gone, status) in cases {
            let expected = format!(r#"{{"metadata":{{"uid":"u1"}},"status":{status}}}"#);
            assert_eq!(body(pod, node_is_gone), Some(expected), "{why}");
        }
    }

    #[test]
    fn an_existing_condition_is_patched_field_by_field() {
        let served = |status: &str| {
            let disruption = json!({"type": "DisruptionTarget", "status": status, "reason": "PreemptionByScheduler",
                "message": "m", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
            pod("p").status("observedGeneration", 1).status(
                "conditions",
                json!([disruption, {"type": "Ready", "status": "True"}]),
            )
        };
        let order =
            r#""$setElementOrder/conditions":[{"type":"DisruptionTarget"},{"type":"Ready"}]"#;
        let patch = |changed: &str| {
            Some(format!(
                r#"{{"metadata":{{"uid":"u1"}},"status":{{{order},"conditions":[{{{changed}"type":"DisruptionTarget"}}],"phase":"Failed"}}}}"#
            ))
        };
        let texts = r#""message":"PodGC: node no longer exists","reason":"DeletionByPodGC","#;
        assert_eq!(
            body(served("True"), true),
            patch(texts),
            "the transition time stays if the status is equal"
        );
        let changed =
            format!(r#""lastTransitionTime":"2026-01-02T03:04:05Z",{texts}"status":"True","#);
        assert_eq!(
            body(served("False"), true),
            patch(&changed),
            "a changed status has a new transition time"
        );
        let untouched = r#"{"metadata":{"uid":"u1"},"status":{"phase":"Failed"}}"#;
        assert_eq!(
            body(served("True"), false).as_deref(),
            Some(untouched),
            "only orphans get the condition"
        );
        let ours = json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "lastProbeTime": null,
            "message": "PodGC: node no longer exists", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let ours = pod("p")
            .status("observedGeneration", 1)
            .status("conditions", ours);
        assert_eq!(
            body(ours, true).as_deref(),
            Some(untouched),
            "the condition is up to date"
        );
    }

    /// The feature gate `PodObservedGenerationTracking`.
    #[test]
    fn without_the_gate_only_existing_observed_generations_are_updated() {
        let status = |pod: PodBuilder| {
            let patch: Value = serde_json::from_str(&body_with(false, pod, true).unwrap()).unwrap();
            let condition = patch["status"]["conditions"][0]["observedGeneration"].clone();
            (patch["status"]["observedGeneration"].clone(), condition)
        };
        let condition =
            json!([{"type": "DisruptionTarget", "status": "False", "observedGeneration": 1}]);
        let changed = || pod("p").metadata("generation", 2);
        assert_eq!(status(changed()), (Value::Null, Value::Null));
        assert_eq!(
            status(changed().status("observedGeneration", 1)),
            (json!(2), Value::Null)
        );
        assert_eq!(
            status(changed().status("conditions", condition)),
            (Value::Null, json!(2))
        );
    }

    #[test]
    fn a_finished_pod_is_not_patched() {
        for phase in ["Failed", "Succeeded"] {
            assert_eq!(body(pod("p").phase(phase), true), None, "{phase}");
        }
        for phase in ["Pending", "Running", "Unknown", ""] {
            assert!(body(pod("p").phase(phase), true).is_some(), "{phase:?}");
        }
    }
}
