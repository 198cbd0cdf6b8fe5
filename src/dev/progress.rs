//! The progress of workloads; for Deployments, as `kubectl rollout status` reports it.

use serde_json::Value;
use steersman_runtime::object::{
    Condition, Deployment, Meta, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus,
    ReplicationController,
};

/// The progress of one Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// Desired number of pods.
    pub(super) wanted: i32,
    /// Number of available pods of the current template.
    pub(super) done: i32,
    /// The state of the rollout.
    pub(super) state: State,
    /// Whether the Deployment is paused, until `kubectl rollout resume`.
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
    /// As `Rolling`, but the Deployment is paused.
    Paused(String),
    /// All desired pods are available and, for a Deployment, have the current template.
    Complete,
    /// The rollout needs a change to succeed; the text is the reason.
    Stuck(String),
}

/// Assesses a Deployment by the rules of `kubectl rollout status` (`DeploymentStatusViewer`).
pub(super) fn assess(deployment: &Deployment) -> Progress {
    let (spec, status) = (&deployment.spec, &deployment.status);
    let wanted = spec.replicas;
    let done = status.available_replicas.min(status.updated_replicas);
    let condition = |kind: &str| status.conditions.iter().find(|c| c.kind == kind);
    let state = if status.observed_generation < deployment.meta.generation {
        State::Rolling("waiting for its controller".to_owned())
    } else if let Some(Condition { message, .. }) =
        condition("Progressing").filter(|c| c.reason == "ProgressDeadlineExceeded")
    {
        State::Stuck(message.clone())
    } else if let Some(Condition { message, .. }) =
        condition("Progressing").filter(|c| c.reason == "ReplicaSetCreateError")
    {
        State::Stuck(message.clone())
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
    let revision = deployment.annotations.get(REVISION).cloned();
    Progress {
        wanted,
        done,
        state,
        paused: spec.paused,
        revision,
        images: images(deployment),
    }
}

/// The containers of the template. The cached view has no containers, so they are read from the
/// document.
fn images(deployment: &Deployment) -> Images {
    let object = deployment.document.to_object();
    let containers = object
        .get("spec")
        .and_then(|spec| spec["template"]["spec"]["containers"].as_array());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    containers
        .into_iter()
        .flatten()
        .map(|container| (text(&container["name"]), text(&container["image"])))
        .collect()
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
    use steersman_runtime::object::Object;

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
