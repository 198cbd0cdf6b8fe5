//! Sets the condition `DisruptionTarget` of a pod to `False` if the pod was not deleted.
//!
//! The writers of the condition, such as the scheduler and the eviction API, delete the pod
//! afterwards. A condition that is `True` for [`TIMEOUT`] without a deletion is stale. A finished
//! pod keeps its condition, and so does a pod that its kubelet terminates.
//!
//! Upstream: `nonTerminatingPodHasStaleDisruptionCondition` and `syncStalePodDisruption`.
//!
//! Other controllers, such as Jobs with a pod failure policy, act on the condition. So a stale one would
//! blame later failures on a disruption.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_client::ApiClient;
use steersman_client::writes::{OnFailure, StatusError, write_status};
use steersman_objects::{Document, ObjectKey, Pod};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::{Clock, whole_seconds};

/// Time after which the condition is stale.
///
/// Upstream: `stalePodDisruptionTimeout`.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The type of the condition.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The time until the condition of `pod` is stale. `None` if the pod has no such condition.
///
/// The wait is zero for a condition that is stale already. A time in the future waits for longer than the
/// timeout.
pub(super) fn stale_after(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let details = pod.details();
    // The view keeps the document of exactly the pods whose condition may become stale.
    let condition = details.disruption.as_ref()?;
    details.disrupted.as_ref()?;
    // Without a time the condition counts as very old, as Go's zero time does.
    let time = condition
        .0
        .get("lastTransitionTime")
        .and_then(Value::as_str);
    let since = time.and_then(|time| time.parse::<Timestamp>().ok());
    let end = since.map_or(now, |since| {
        since.checked_add(TIMEOUT).unwrap_or(Timestamp::MAX)
    });
    Some(Duration::try_from(end.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// The status of the pod `document` in which the condition is `False`, without reason and message.
/// `generation` is the observed generation of the condition; 0 omits it.
///
/// Upstream: `UpdatePodCondition`, which replaces the whole condition. All other fields of the status stay as
/// they were served.
fn cleared(document: &Document, generation: i64, now: Timestamp) -> Value {
    let mut status = document.to_object().remove("status").unwrap_or_default();
    let mut condition = Map::new();
    condition.insert("type".to_owned(), json!(DISRUPTION_TARGET));
    condition.insert("status".to_owned(), json!("False"));
    condition.insert("lastProbeTime".to_owned(), Value::Null);
    condition.insert(
        "lastTransitionTime".to_owned(),
        // The API stores whole seconds.
        json!(whole_seconds(now).to_string()),
    );
    if generation != 0 {
        condition.insert("observedGeneration".to_owned(), json!(generation));
    }
    let conditions = status["conditions"].as_array_mut().into_iter().flatten();
    let mut known = conditions.filter(|known| known["type"] == DISRUPTION_TARGET);
    if let Some(known) = known.next() {
        *known = Value::Object(condition);
    }
    status
}

/// Syncs pods with the condition.
///
/// It has a queue of its own, and one worker. A conflict fails the sync, and the retry sees the newer pod.
pub(super) struct StaleConditions {
    pub(super) cache: TrackedCache,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    /// The feature gate `PodObservedGenerationTracking`.
    pub(super) tracks_generation: bool,
}

impl ObjectSyncer for StaleConditions {
    type Object = Pod;
    type Error = StatusError;

    async fn sync(&self, key: &ObjectKey, pod: Arc<Pod>) -> Result<Requeue, StatusError> {
        let now = self.clock.now();
        let Some(wait) = stale_after(&pod, now) else {
            return Ok(Requeue::Never);
        };
        // The queue keeps the earliest time of a key, so a condition that became `True` again waits anew.
        if !wait.is_zero() {
            self.queue.add_after(key.clone(), wait);
            return Ok(Requeue::Never);
        }
        // `stale_after` requires the document, so this is for the compiler alone.
        let Some(document) = &pod.details().disrupted else {
            return Ok(Requeue::Never);
        };
        let status = cleared(document, self.generation(&pod), now);
        let put = OnFailure::Return;
        let answer = write_status::<Pod>(&self.client, &pod.meta, document, &status, put).await?;
        let recorded = self.cache.wrote_answer(key, &answer);
        recorded.map_err(StatusError::Answer)?;
        tracing::info!("Reset stale DisruptionTarget condition to False");
        Ok(Requeue::Never)
    }
}

impl StaleConditions {
    /// The observed generation of the new condition. Without the feature gate, only a condition
    /// that has one gets another one.
    ///
    /// Upstream: `CalculatePodConditionObservedGeneration`.
    fn generation(&self, pod: &Pod) -> i64 {
        let known = pod.details().disruption.as_ref();
        let known = known.and_then(|condition| condition.0.get("observedGeneration")?.as_i64());
        if self.tracks_generation || known.is_some_and(|known| known != 0) {
            pod.meta.generation
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::Object;

    use super::*;
    use crate::testing::pods::{PodBuilder, pod};
    use crate::testing::time;

    const NOW: i64 = 10_000;

    fn now() -> Timestamp {
        Timestamp::from_second(NOW).unwrap()
    }

    fn disrupted(status: &str, reason: &str, since: i64) -> PodBuilder {
        let condition = json!({"type": "DisruptionTarget", "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": time(since)});
        let ready = json!({"type": "Ready", "status": "True"});
        pod("a").status("conditions", json!([ready, condition]))
    }

    #[test]
    fn a_true_condition_of_a_pod_that_stays_is_stale_after_two_minutes() {
        let evicted = |since| disrupted("True", "EvictionByEvictionAPI", since);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let untimed =
            json!([{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": null}]);
        // (why, pod, time until it is stale)
        let cases = [
            ("new", evicted(NOW), seconds(120)),
            ("later", evicted(NOW - 100), seconds(20)),
            ("stale", evicted(NOW - 120), seconds(0)),
            ("long stale", evicted(0), seconds(0)),
            ("in the future", evicted(NOW + 10), seconds(130)),
            (
                "without a time",
                pod("a").status("conditions", untimed),
                seconds(0),
            ),
            ("terminating", evicted(0).deleted(NOW), None),
            ("finished", evicted(0).phase("Failed"), None),
            ("succeeded", evicted(0).phase("Succeeded"), None),
            ("cleared", disrupted("False", "", 0), None),
            (
                "by the kubelet",
                disrupted("True", "TerminationByKubelet", 0),
                None,
            ),
            ("without the condition", pod("a").ready_since(0), None),
        ];
        for (why, pod, expected) in cases {
            assert_eq!(stale_after(&pod.build(), now()), expected, "{why}");
        }
    }

    #[test]
    fn the_condition_is_replaced_in_its_place() {
        let pod = disrupted("True", "EvictionByEvictionAPI", 0)
            .status("new", 1)
            .build();
        let document = pod.details().disrupted.clone().unwrap();
        let status = cleared(&document, 4, now());
        let condition = json!({"type": "DisruptionTarget", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": time(NOW), "observedGeneration": 4});
        let expected = json!({"phase": "Running", "new": 1, "conditions": [{"type": "Ready", "status": "True"}, condition]});
        assert_eq!(status, expected);
        let without = cleared(&document, 0, now());
        assert_eq!(without["conditions"][1].get("observedGeneration"), None);
    }

    #[test]
    fn only_pods_with_a_true_condition_keep_their_document() {
        let metadata = json!({"name": "a", "managedFields": [{}], "resourceVersion": "3"});
        let decode = |status: &str| {
            let conditions = json!([{"type": "DisruptionTarget", "status": status}]);
            let json = json!({"metadata": metadata, "status": {"conditions": conditions}});
            Pod::decode(json.to_string().as_bytes()).unwrap()
        };
        let kept = decode("True").details().disrupted.clone().unwrap();
        assert_eq!(
            kept.to_object()["metadata"],
            json!({"name": "a", "resourceVersion": "3"})
        );
        assert_eq!(decode("False").details().disrupted, None);
    }
}
