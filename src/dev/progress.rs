//! The progress of workloads; for Deployments, StatefulSets and DaemonSets, as
//! `kubectl rollout status` reports it.

use serde_json::Value;
use steersman_objects::{
    Condition, Deployment, Meta, Phase, Pod, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus,
    ReplicationController,
};

use super::served::{Claims, CronJobs, DaemonSets, Jobs, Served, StatefulSets};

/// The progress of one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// Desired number of pods, or of completions.
    pub(super) wanted: i32,
    /// Number of available pods of the current template, or of completions.
    pub(super) done: i32,
    /// The counted things: `pod` or `completion`.
    pub(super) unit: &'static str,
    /// The state of the rollout.
    pub(super) state: State,
    /// Whether the workload is paused or suspended.
    pub(super) paused: bool,
    /// Revision of the template, once the controller has set it.
    pub(super) revision: Option<String>,
    /// Images in the template.
    pub(super) images: Images,
}

/// Pairs of container name and image.
pub(super) type Images = Vec<(String, String)>;

/// Annotation with the current revision of a Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The state of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Pods are being replaced or added; the text has the details.
    Rolling(String),
    /// As `Rolling`, but the workload is paused or suspended.
    Paused(String),
    /// Nothing is due; the text is the schedule.
    Scheduled(String),
    /// All desired pods are available and have the current template, or have completed.
    Complete,
    /// The rollout needs a change to succeed; the text is the reason.
    Stuck(String),
}

/// Assesses a Deployment by the rules of `kubectl rollout status` (`DeploymentStatusViewer`).
pub(super) fn assess(deployment: &Deployment) -> Progress {
    let spec = &deployment.spec;
    let status = &deployment.status;
    let wanted = spec.replicas;
    let done = status.available_replicas.min(status.updated_replicas);
    let condition = |kind: &str| status.conditions.iter().find(|c| c.kind == kind);
    let state = if status.observed_generation < deployment.meta.generation {
        State::Rolling("waiting for its controller".to_owned())
    } else if let Some(Condition { message, .. }) =
        condition("Progressing").filter(|c| c.reason == "ProgressDeadlineExceeded")
    {
        State::Stuck(message.to_string())
    } else if let Some(Condition { message, .. }) =
        condition("Progressing").filter(|c| c.reason == "ReplicaSetCreateError")
    {
        State::Stuck(message.to_string())
    } else if status.updated_replicas < wanted {
        let failure = condition("ReplicaFailure")
            .map(|c| format!(": {}", c.message))
            .unwrap_or_default();
        State::Rolling(format!(
            "{} of {wanted} new pods created{failure}",
            status.updated_replicas
        ))
    } else if status.replicas > status.updated_replicas {
        let old = status.replicas - status.updated_replicas;
        State::Rolling(format!(
            "{old} old {} to go",
            if old == 1 { "pod" } else { "pods" }
        ))
    } else if status.available_replicas < status.updated_replicas {
        State::Rolling(format!(
            "{} of {} new pods available",
            status.available_replicas, status.updated_replicas
        ))
    } else {
        State::Complete
    };
    let state = match state {
        State::Rolling(text) if spec.paused => State::Paused(text),
        state => state,
    };
    let revision = deployment.annotations.get(REVISION).map(str::to_owned);
    // The cached view has no containers, so they are read from the document.
    let object = deployment.document.to_object();
    Progress {
        wanted,
        done,
        unit: "pod",
        state,
        paused: spec.paused,
        revision,
        images: object.get("spec").map(images).unwrap_or_default(),
    }
}

/// The containers of the template in a spec.
fn images(spec: &Value) -> Images {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let containers = spec["template"]["spec"]["containers"].as_array();
    containers
        .into_iter()
        .flatten()
        .map(|container| (text(&container["name"]), text(&container["image"])))
        .collect()
}

/// The number in a field of a status or spec; 0 without it.
fn number(object: &Value, field: &str) -> i32 {
    let number = object[field].as_i64().unwrap_or(0);
    number.try_into().unwrap_or(i32::MAX)
}

/// Whether the controller has not seen the current spec yet.
fn is_unobserved<K>(object: &Served<K>) -> bool {
    let observed = object.status["observedGeneration"].as_i64().unwrap_or(0);
    observed < object.meta.generation
}

/// Progress of a workload with `available` of `wanted` pods.
fn of_pods(wanted: i32, available: i32, state: State, spec: &Value) -> Progress {
    Progress {
        wanted,
        done: available.min(wanted),
        unit: "pod",
        state,
        paused: false,
        revision: None,
        images: images(spec),
    }
}

/// Assesses a StatefulSet by the rules of `kubectl rollout status` (`StatefulSetStatusViewer`).
/// Pods have to be available, too. With strategy `OnDelete`, pods may have older templates.
pub(super) fn assess_stateful_set(set: &Served<StatefulSets>) -> Progress {
    let spec = &set.spec;
    let status = &set.status;
    let wanted = number(spec, "replicas");
    let available = number(status, "availableReplicas");
    let updated = number(status, "updatedReplicas");
    let strategy = &spec["updateStrategy"];
    let to_update = (wanted - number(&strategy["rollingUpdate"], "partition")).max(0);
    let rolls = strategy["type"] != "OnDelete";
    let state = if is_unobserved(set) {
        State::Rolling("waiting for its controller".to_owned())
    } else if rolls && updated < to_update {
        State::Rolling(format!("{updated} of {to_update} new pods created"))
    } else if number(status, "replicas") > wanted {
        let surplus = number(status, "replicas") - wanted;
        State::Rolling(format!("{surplus} pods beyond {wanted} to go"))
    } else if available < wanted {
        State::Rolling(format!("{available} of {wanted} pods available"))
    } else {
        State::Complete
    };
    of_pods(wanted, available, state, spec)
}

/// Assesses a DaemonSet by the rules of `kubectl rollout status` (`DaemonSetStatusViewer`).
pub(super) fn assess_daemon_set(set: &Served<DaemonSets>) -> Progress {
    let status = &set.status;
    let wanted = number(status, "desiredNumberScheduled");
    let updated = number(status, "updatedNumberScheduled");
    let available = number(status, "numberAvailable");
    let rolls = set.spec["updateStrategy"]["type"] != "OnDelete";
    let state = if is_unobserved(set) {
        State::Rolling("waiting for its controller".to_owned())
    } else if rolls && updated < wanted {
        State::Rolling(format!("{updated} of {wanted} new pods created"))
    } else if available < wanted {
        State::Rolling(format!("{available} of {wanted} pods available"))
    } else {
        State::Complete
    };
    of_pods(wanted, available, state, &set.spec)
}

/// Assesses a Job by its conditions. A failed Job is stuck, for the reason of its condition.
pub(super) fn assess_job(job: &Served<Jobs>) -> Progress {
    let spec = &job.spec;
    let status = &job.status;
    let condition = |kind: &str| {
        let conditions = status["conditions"].as_array();
        let is_it = |c: &&Value| c["type"] == kind && c["status"] == "True";
        conditions.and_then(|conditions| conditions.iter().find(is_it))
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // A Job without completions ends with the first success.
    let wanted = spec["completions"]
        .as_i64()
        .map_or(1, |_| number(spec, "completions"));
    let done = number(status, "succeeded");
    let failed = match number(status, "failed") {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let rolling = format!("{done} of {wanted} completions{failed}");
    let is_suspended = spec["suspend"] == true;
    let state = if condition("Complete").is_some() {
        State::Complete
    } else if let Some(failure) = condition("Failed") {
        let reason = text(&failure["reason"]);
        let message = text(&failure["message"]);
        State::Stuck(format!("failed: {reason}: {message}"))
    } else if is_suspended {
        State::Paused(rolling)
    } else {
        State::Rolling(rolling)
    };
    Progress {
        wanted,
        done: done.min(wanted),
        unit: "completion",
        state,
        paused: is_suspended,
        revision: None,
        images: images(spec),
    }
}

/// Assesses a CronJob. It is never complete: its next Job comes by its schedule.
pub(super) fn assess_cron_job(job: &Served<CronJobs>) -> Progress {
    let active = job.status["active"].as_array().map_or(0, Vec::len);
    let active = i32::try_from(active).unwrap_or(i32::MAX);
    Progress {
        wanted: active,
        done: active,
        unit: "active job",
        state: State::Scheduled(format!(
            "{}, {active} active",
            job.spec["schedule"].as_str().unwrap_or_default()
        )),
        paused: job.spec["suspend"] == true,
        revision: None,
        images: images(&job.spec["jobTemplate"]["spec"]),
    }
}

/// Progress of one object without revision and images.
fn of_one(unit: &'static str, state: State) -> Progress {
    let done = i32::from(state == State::Complete);
    Progress {
        wanted: 1,
        done,
        unit,
        state,
        paused: false,
        revision: None,
        images: Images::new(),
    }
}

/// Progress of a pod without a controller.
pub(super) fn of_pod(pod: &Pod) -> Progress {
    of_one("pod", assess_pod(pod, || false))
}

/// Progress of a PersistentVolumeClaim.
pub(super) fn of_claim(claim: &Served<Claims>) -> Progress {
    of_one("claim", assess_claim(claim))
}

/// Assesses a pod of its own, without a controller.
pub(super) fn assess_pod(pod: &Pod, crash_loops: impl FnOnce() -> bool) -> State {
    match pod.phase {
        Phase::Failed => State::Stuck("failed".to_owned()),
        Phase::Succeeded => State::Complete,
        _ if pod.is_ready() => State::Complete,
        _ if crash_loops() => State::Stuck("does not stay up".to_owned()),
        _ => State::Rolling("not ready".to_owned()),
    }
}

/// Assesses a PersistentVolumeClaim: it is complete when it is bound.
pub(super) fn assess_claim(claim: &Served<Claims>) -> State {
    match claim.status["phase"].as_str() {
        Some("Bound") => State::Complete,
        Some("Lost") => State::Stuck("its volume is lost".to_owned()),
        _ => State::Rolling("not bound".to_owned()),
    }
}

/// A workload that maintains a number of pods but never replaces them by a new template.
pub(super) trait Replicated {
    /// Metadata, spec and status.
    fn parts(&self) -> (&Meta, &ReplicaSetSpec, &ReplicaSetStatus);
}

impl Replicated for ReplicaSet {
    fn parts(&self) -> (&Meta, &ReplicaSetSpec, &ReplicaSetStatus) {
        (&self.meta, &self.spec, &self.status)
    }
}

impl Replicated for ReplicationController {
    fn parts(&self) -> (&Meta, &ReplicaSetSpec, &ReplicaSetStatus) {
        (&self.meta, &self.spec, &self.status)
    }
}

/// Assesses a workload by the number of its available pods. It is never stuck, because missing pods
/// may still become available.
pub(super) fn assess_replicas(object: &impl Replicated) -> State {
    let (meta, spec, status) = object.parts();
    let failure = status
        .conditions
        .iter()
        .find(|c| c.kind == "ReplicaFailure");
    let failure = failure
        .map(|c| format!(": {}", c.message))
        .unwrap_or_default();
    if status.observed_generation < meta.generation {
        State::Rolling("waiting for its controller".to_owned())
    } else if status.replicas != spec.replicas {
        State::Rolling(format!(
            "{} pods of {}{failure}",
            status.replicas, spec.replicas
        ))
    } else if status.available_replicas < spec.replicas {
        State::Rolling(format!(
            "{} of {} pods available",
            status.available_replicas, spec.replicas
        ))
    } else {
        State::Complete
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;

    fn state(status: Value) -> State {
        let object = json!({
            "metadata": { "name": "web", "namespace": "default", "generation": 2 },
            "spec": { "replicas": 3, "selector": {}, "template": {} },
            "status": status
        });
        assess(&Deployment::decode(object.to_string().as_bytes()).unwrap()).state
    }

    #[test]
    fn rollouts_are_assessed_by_kubectls_rules() {
        let rolling = |text: &str| State::Rolling(text.to_owned());
        // (why, status, state)
        let cases = [
            (
                "not observed",
                json!({}),
                rolling("waiting for its controller"),
            ),
            (
                "observed",
                json!({"observedGeneration": 2}),
                rolling("0 of 3 new pods created"),
            ),
            (
                "old left",
                json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 4}),
                rolling("1 old pod to go"),
            ),
            (
                "not available",
                json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 1}),
                rolling("1 of 3 new pods available"),
            ),
            (
                "complete",
                json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}),
                State::Complete,
            ),
            (
                "timed out",
                json!({"observedGeneration": 2, "conditions": [
                    {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too slow"}]}),
                State::Stuck("too slow".to_owned()),
            ),
            (
                "quota",
                json!({"observedGeneration": 2, "updatedReplicas": 1, "conditions": [
                    {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}]}),
                rolling("1 of 3 new pods created: exceeded quota"),
            ),
        ];
        for (why, status, expected) in cases {
            assert_eq!(state(status), expected, "{why}");
        }
    }

    fn served<K: super::super::served::Kind>(spec: Value, status: Value) -> Served<K> {
        let object = json!({
            "metadata": {"name": "db", "namespace": "default", "uid": "u", "generation": 2},
            "spec": spec,
            "status": status,
        });
        Served::decode(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn stateful_sets_are_assessed_by_kubectls_rules() {
        let rolling = |text: &str| State::Rolling(text.to_owned());
        let status = |updated: i32, available: i32| json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": updated, "availableReplicas": available});
        let partition = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
        let on_delete = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
        let plain = json!({"replicas": 3});
        // (why, spec, status, state)
        let cases = [
            (
                "not observed",
                &plain,
                json!({"observedGeneration": 1}),
                rolling("waiting for its controller"),
            ),
            (
                "observed",
                &plain,
                json!({"observedGeneration": 2}),
                rolling("0 of 3 new pods created"),
            ),
            (
                "updated",
                &plain,
                status(3, 1),
                rolling("1 of 3 pods available"),
            ),
            ("complete", &plain, status(3, 3), State::Complete),
            (
                "partition not reached",
                &partition,
                status(0, 3),
                rolling("0 of 1 new pods created"),
            ),
            (
                "partition reached",
                &partition,
                status(1, 3),
                State::Complete,
            ),
            ("OnDelete", &on_delete, status(0, 3), State::Complete),
            (
                "scaled down",
                &json!({"replicas": 2}),
                status(3, 3),
                rolling("1 pods beyond 2 to go"),
            ),
            (
                "none wanted",
                &json!({"replicas": 0}),
                json!({"observedGeneration": 2}),
                State::Complete,
            ),
        ];
        for (why, spec, status, expected) in cases {
            let set = served(spec.clone(), status);
            assert_eq!(assess_stateful_set(&set).state, expected, "{why}");
        }
    }

    #[test]
    fn daemon_sets_are_assessed_by_kubectls_rules() {
        let rolling = |text: &str| State::Rolling(text.to_owned());
        let status = |updated: i32, available: i32| json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available});
        let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
        // (why, spec, status, state)
        let cases = [
            (
                "not observed",
                json!({}),
                json!({"observedGeneration": 1}),
                rolling("waiting for its controller"),
            ),
            (
                "old pods",
                json!({}),
                status(1, 3),
                rolling("1 of 3 new pods created"),
            ),
            (
                "not available",
                json!({}),
                status(3, 2),
                rolling("2 of 3 pods available"),
            ),
            ("complete", json!({}), status(3, 3), State::Complete),
            ("OnDelete", on_delete, status(0, 3), State::Complete),
            (
                "no node fits",
                json!({}),
                json!({"observedGeneration": 2}),
                State::Complete,
            ),
        ];
        for (why, spec, status, expected) in cases {
            assert_eq!(
                assess_daemon_set(&served(spec, status)).state,
                expected,
                "{why}"
            );
        }
    }

    #[test]
    fn jobs_end_with_their_conditions() {
        let condition = |kind: &str| json!([{"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "too many failures"}]);
        let three = json!({"completions": 3});
        // (why, spec, status, state)
        let cases = [
            (
                "new",
                &three,
                json!({}),
                State::Rolling("0 of 3 completions".to_owned()),
            ),
            (
                "under way",
                &three,
                json!({"succeeded": 1, "failed": 2}),
                State::Rolling("1 of 3 completions, 2 failed".to_owned()),
            ),
            (
                "work queue",
                &json!({"parallelism": 2}),
                json!({"active": 2}),
                State::Rolling("0 of 1 completions".to_owned()),
            ),
            (
                "suspended",
                &json!({"completions": 3, "suspend": true}),
                json!({}),
                State::Paused("0 of 3 completions".to_owned()),
            ),
            (
                "complete",
                &three,
                json!({"succeeded": 3, "conditions": condition("Complete")}),
                State::Complete,
            ),
            (
                "about to fail",
                &three,
                json!({"conditions": condition("FailureTarget")}),
                State::Rolling("0 of 3 completions".to_owned()),
            ),
            (
                "failed",
                &three,
                json!({"conditions": condition("Failed")}),
                State::Stuck("failed: BackoffLimitExceeded: too many failures".to_owned()),
            ),
        ];
        for (why, spec, status, expected) in cases {
            let job = served(spec.clone(), status);
            assert_eq!(assess_job(&job).state, expected, "{why}");
        }
    }

    #[test]
    fn cron_jobs_are_never_complete() {
        let job = served(
            json!({"schedule": "0 0 1 1 *", "suspend": true}),
            json!({"active": [{}, {}]}),
        );
        let progress = assess_cron_job(&job);
        assert_eq!(
            (progress.state, progress.wanted, progress.paused),
            (State::Scheduled("0 0 1 1 *, 2 active".to_owned()), 2, true)
        );
    }

    #[test]
    fn pause_revision_and_images_come_from_the_object() {
        let status = json!({"observedGeneration": 2});
        let object = json!({
            "metadata": {"name": "web", "namespace": "default", "generation": 2, "annotations": {REVISION: "7"}},
            "spec": {
                "replicas": 3, "selector": {}, "paused": true,
                "template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}},
            },
            "status": status,
        });
        let progress = assess(&Deployment::decode(object.to_string().as_bytes()).unwrap());
        assert_eq!(
            progress.state,
            State::Paused("0 of 3 new pods created".to_owned())
        );
        assert_eq!(
            (progress.paused, progress.revision.as_deref()),
            (true, Some("7"))
        );
        assert_eq!(progress.images, [("main".to_owned(), "web:2".to_owned())]);
    }

    #[test]
    fn replica_sets_are_complete_when_all_pods_are_available() {
        let rolling = |text: &str| State::Rolling(text.to_owned());
        // (why, status, state)
        let cases = [
            (
                "not observed",
                json!({"replicas": 3, "availableReplicas": 3, "observedGeneration": 1}),
                rolling("waiting for its controller"),
            ),
            (
                "too few",
                json!({"replicas": 1, "observedGeneration": 2}),
                rolling("1 pods of 3"),
            ),
            (
                "too many",
                json!({"replicas": 4, "availableReplicas": 4, "observedGeneration": 2}),
                rolling("4 pods of 3"),
            ),
            (
                "quota",
                json!({"replicas": 1, "observedGeneration": 2, "conditions": [
                    {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}]}),
                rolling("1 pods of 3: exceeded quota"),
            ),
            (
                "not available",
                json!({"replicas": 3, "readyReplicas": 3, "observedGeneration": 2}),
                rolling("0 of 3 pods available"),
            ),
            (
                "complete",
                json!({"replicas": 3, "availableReplicas": 3, "observedGeneration": 2}),
                State::Complete,
            ),
        ];
        for (why, status, expected) in cases {
            let object = json!({
                "metadata": {"name": "web", "namespace": "default", "generation": 2},
                "spec": {"replicas": 3, "template": {}},
                "status": status,
            });
            let json = object.to_string();
            assert_eq!(
                assess_replicas(&ReplicaSet::decode(json.as_bytes()).unwrap()),
                expected,
                "{why}"
            );
            assert_eq!(
                assess_replicas(&ReplicationController::decode(json.as_bytes()).unwrap()),
                expected,
                "{why}"
            );
        }
    }
}
