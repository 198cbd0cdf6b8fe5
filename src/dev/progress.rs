//! How far the roll-outs are: what `kubectl rollout status` would say, for all Deployments at once.

use steersman_runtime::object::{Condition, Deployment};

/// Where one Deployment stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// Wanted pods.
    pub(super) wanted: i32,
    /// Available pods of the newest template.
    pub(super) done: i32,
    /// What is happening.
    pub(super) state: State,
}

/// What is happening to a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Pods are being replaced or added; the text says which.
    Rolling(String),
    /// All wanted pods are of the newest template and available.
    Complete,
    /// It cannot go on by itself.
    Stuck(String),
}

/// Judges a Deployment as `kubectl rollout status` does (`DeploymentStatusViewer`).
pub(super) fn assess(deployment: &Deployment) -> Progress {
    let (spec, status) = (&deployment.spec, &deployment.status);
    let wanted = spec.replicas;
    let done = status.available_replicas.min(status.updated_replicas);
    let condition = |kind: &str| status.conditions.iter().find(|c| c.kind == kind);
    let state = if status.observed_generation < deployment.meta.generation {
        State::Rolling("waiting for its controller".to_owned())
    } else if let Some(Condition { message, .. }) = condition("Progressing").filter(|c| c.reason == "ProgressDeadlineExceeded") {
        State::Stuck(message.clone())
    } else if let Some(Condition { message, .. }) = condition("Progressing").filter(|c| c.reason == "ReplicaSetCreateError") {
        State::Stuck(message.clone())
    } else if status.updated_replicas < wanted {
        let failure = condition("ReplicaFailure").map(|c| format!(": {}", c.message)).unwrap_or_default();
        State::Rolling(format!("{} of {wanted} new pods created{failure}", status.updated_replicas))
    } else if status.replicas > status.updated_replicas {
        State::Rolling(format!("{} old pods to go", status.replicas - status.updated_replicas))
    } else if status.available_replicas < status.updated_replicas {
        State::Rolling(format!("{} of {} new pods available", status.available_replicas, status.updated_replicas))
    } else {
        State::Complete
    };
    Progress { wanted, done, state }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
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
    fn a_rollout_is_judged_as_kubectl_judges_it() {
        let rolling = |text: &str| State::Rolling(text.to_owned());
        // (why, status, state)
        let cases = [
            ("not observed", json!({}), rolling("waiting for its controller")),
            ("observed", json!({"observedGeneration": 2}), rolling("0 of 3 new pods created")),
            ("old left", json!({"observedGeneration": 2, "updatedReplicas": 3, "replicas": 4}), rolling("1 old pods to go")),
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
}
