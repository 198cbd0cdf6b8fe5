//! The cached view of a Job.
//!
//! The view keeps the served [`Document`]: upstream PUTs the status of Jobs, and creates their pods
//! from `spec.template`. Upstream: `Job` of `k8s.io/api/batch/v1`.

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use steersman_values::intern::Sym;
use steersman_values::labels::{Labels, Selector, SelectorError, WireSelector};
use steersman_values::resource::JOBS;

use super::deployment::is_zero;
use super::job_policies::{PodFailurePolicy, SuccessPolicy};
use super::meta::Uid;
use super::wire::{Condition, Pairs, Text, nullable, whole_seconds_time};
use crate::view;

view! {
    /// A Job: the fields that its own controller, the CronJob controller and the TTL controller read.
    pub struct Job: JOBS, keeps document {
        /// Spec.
        pub spec: JobSpec,
        /// Status.
        pub status: JobStatus,
    }
}

/// `spec` of a Job.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "SpecWire<'de>")]
pub struct JobSpec {
    /// Seconds after its end at which the Job is deleted; `None` keeps the Job.
    pub ttl_seconds_after_finished: Option<i32>,
    /// Maximum of pods that run at the same time; 1 when unset.
    pub parallelism: i32,
    /// Number of pods that have to succeed. `None`: the first success is enough.
    pub completions: Option<i32>,
    /// Seconds after its start at which a running Job fails; `None` means no limit.
    pub active_deadline_seconds: Option<i64>,
    /// Number of failed pods that the Job accepts; 6 when unset.
    pub backoff_limit: i32,
    /// Number of failed pods that each index accepts; `None` means no limit per index.
    pub backoff_limit_per_index: Option<i32>,
    /// Number of failed indexes that the Job accepts; `None` accepts all.
    pub max_failed_indexes: Option<i32>,
    /// Parsed selector, or the error of parsing it.
    pub selector: Result<Selector, SelectorError>,
    /// Meaning of the pods.
    pub completion_mode: CompletionMode,
    /// Whether the Job is suspended, so no pods run.
    pub suspend: bool,
    /// Whether a pod that still terminates is replaced.
    pub pod_replacement_policy: PodReplacementPolicy,
    /// Which failures of pods count.
    pub pod_failure_policy: Option<Box<PodFailurePolicy>>,
    /// Which succeeded indexes are enough.
    pub success_policy: Option<Box<SuccessPolicy>>,
    /// Name of the controller that manages the Job; `None` means the built-in one.
    pub managed_by: Option<Sym>,
    /// Labels of the pod template.
    pub template_labels: Labels,
    /// Whether the template names a group of pods that are scheduled together.
    pub has_scheduling_group: bool,
    /// `scheduling` as served, a field of 1.37: the form of the Workload that the Job gets. Null if it is unset.
    pub scheduling: Value,
    /// Whether kubelets restart failed containers (`restartPolicy: OnFailure` in the template).
    pub restarts_on_failure: bool,
}

/// `spec.completionMode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CompletionMode {
    /// All pods are equal.
    #[default]
    NonIndexed,
    /// Each pod works on one index from 0 to `completions` - 1.
    Indexed,
    /// A mode that this program does not know.
    Unknown,
}

/// `spec.podReplacementPolicy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodReplacementPolicy {
    /// A terminating pod is replaced at once.
    #[default]
    TerminatingOrFailed,
    /// A pod is replaced when its phase is `Failed`.
    Failed,
}

/// `status` of a Job. It serialises without the fields that Go omits. Unknown fields stay in
/// `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Conditions, in the served order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// Start of the Job, or of its last resumption.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "whole_seconds_time"
    )]
    pub start_time: Option<Timestamp>,
    /// Successful end of the Job.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "whole_seconds_time"
    )]
    pub completion_time: Option<Timestamp>,
    /// Number of pods that are neither finished nor terminating.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "nullable")]
    pub active: i32,
    /// Number of pods that succeeded, or of succeeded indexes.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "nullable")]
    pub succeeded: i32,
    /// Number of pods that failed.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "nullable")]
    pub failed: i32,
    /// Number of terminating pods that have not finished yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i32>,
    /// Succeeded indexes such as `0-3,7`.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub completed_indexes: String,
    /// Failed indexes such as `0-3,7`; unset without a limit per index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    /// Finished pods that the counters do not contain yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<UncountedTerminatedPods>,
    /// Number of active pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `status.uncountedTerminatedPods`: UIDs of finished pods that the counters do not contain yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UncountedTerminatedPods {
    /// UIDs of succeeded pods.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub succeeded: Vec<Uid>,
    /// UIDs of failed pods.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub failed: Vec<Uid>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire<'a> {
    ttl_seconds_after_finished: Option<i32>,
    parallelism: Option<i32>,
    completions: Option<i32>,
    active_deadline_seconds: Option<i64>,
    backoff_limit: Option<i32>,
    backoff_limit_per_index: Option<i32>,
    max_failed_indexes: Option<i32>,
    selector: Option<WireSelector>,
    #[serde(borrow)]
    completion_mode: Option<Text<'a>>,
    #[serde(deserialize_with = "nullable")]
    suspend: bool,
    #[serde(borrow)]
    pod_replacement_policy: Option<Text<'a>>,
    pod_failure_policy: Option<Box<PodFailurePolicy>>,
    success_policy: Option<Box<SuccessPolicy>>,
    managed_by: Option<Sym>,
    scheduling: Value,
    #[serde(borrow, deserialize_with = "nullable")]
    template: TemplateWire<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TemplateWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: TemplateMetaWire<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: TemplateSpecWire<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TemplateMetaWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    labels: Pairs<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TemplateSpecWire<'a> {
    #[serde(borrow)]
    restart_policy: Option<Text<'a>>,
    scheduling_group: Option<IgnoredAny>,
}

impl Default for JobSpec {
    fn default() -> Self {
        SpecWire::default().into()
    }
}

impl From<SpecWire<'_>> for JobSpec {
    fn from(wire: SpecWire<'_>) -> Self {
        let restart_policy = wire.template.spec.restart_policy;
        Self {
            ttl_seconds_after_finished: wire.ttl_seconds_after_finished,
            parallelism: wire.parallelism.unwrap_or(1),
            completions: wire.completions,
            active_deadline_seconds: wire.active_deadline_seconds,
            backoff_limit: wire.backoff_limit.unwrap_or(6),
            backoff_limit_per_index: wire.backoff_limit_per_index,
            max_failed_indexes: wire.max_failed_indexes,
            selector: Selector::parse(wire.selector.as_ref()),
            completion_mode: match wire.completion_mode.as_deref() {
                None | Some("NonIndexed") => CompletionMode::NonIndexed,
                Some("Indexed") => CompletionMode::Indexed,
                Some(_) => CompletionMode::Unknown,
            },
            suspend: wire.suspend,
            pod_replacement_policy: match wire.pod_replacement_policy.as_deref() {
                Some("Failed") => PodReplacementPolicy::Failed,
                _ => PodReplacementPolicy::TerminatingOrFailed,
            },
            pod_failure_policy: wire.pod_failure_policy,
            success_policy: wire.success_policy,
            managed_by: wire.managed_by,
            scheduling: wire.scheduling,
            template_labels: Labels::new(wire.template.metadata.labels.iter()),
            has_scheduling_group: wire.template.spec.scheduling_group.is_some(),
            restarts_on_failure: restart_policy.as_deref() == Some("OnFailure"),
        }
    }
}

impl Job {
    /// The first true condition `Complete` or `Failed` in the served order; `None` while the Job is
    /// not finished. Upstream: `getFinishedStatus` and `jobFinishTime`.
    pub fn finished(&self) -> Option<&Condition> {
        let is_end = |condition: &&Condition| {
            matches!(&*condition.kind, "Complete" | "Failed") && condition.status == "True"
        };
        self.status.conditions.iter().find(is_end)
    }

    /// Whether a condition `Complete` is true.
    pub fn is_complete(&self) -> bool {
        let is_complete =
            |condition: &Condition| condition.kind == "Complete" && condition.status == "True";
        self.status.conditions.iter().any(is_complete)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    #[test]
    fn null_and_absent_job_fields_have_the_default() {
        for (spec, status) in [
            (json!(null), json!(null)),
            (json!({}), json!({})),
            (
                json!({"ttlSecondsAfterFinished": null, "template": {"spec": {"schedulingGroup": null}}}),
                json!({"conditions": null, "startTime": null, "completionTime": null, "active": null}),
            ),
        ] {
            let json = json!({"metadata": {"name": "j"}, "spec": spec, "status": status});
            let job = Job::decode(json.to_string().as_bytes()).unwrap();
            let default = JobSpec::default();
            assert_eq!(
                (job.spec, job.status),
                (default, JobStatus::default()),
                "{json}"
            );
        }
    }

    #[test]
    fn a_job_view_holds_the_fields_that_controllers_read() {
        let rule = json!({
            "action": "Ignore", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]},
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        });
        let spec = json!({
            "parallelism": 2, "completions": 3, "activeDeadlineSeconds": 4, "backoffLimit": 5,
            "backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "completionMode": "Indexed",
            "suspend": true, "podReplacementPolicy": "Failed", "managedBy": "example.com/x",
            "selector": {"matchLabels": {"a": "b"}}, "podFailurePolicy": {"rules": [rule]},
            "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "OnFailure", "schedulingGroup": {}}},
        });
        let status = json!({
            "conditions": [{"type": "Suspended", "status": "False", "lastProbeTime": "2026-01-02T03:04:05Z",
                "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "JobResumed", "message": "Job resumed"}],
            "startTime": "2026-01-02T03:04:05Z", "active": 1, "succeeded": 2, "failed": 3,
            "terminating": 0, "completedIndexes": "0,1", "failedIndexes": "", "ready": 0,
            "uncountedTerminatedPods": {"succeeded": ["u"], "failed": ["v", "w"]}, "fromTheFuture": 1,
        });
        let json = json!({"metadata": {"name": "j"}, "spec": spec, "status": status});
        let job = Job::decode(json.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&job.status).unwrap(), status);
        let spec = job.spec;
        assert_eq!((spec.parallelism, spec.completions), (2, Some(3)));
        assert_eq!(
            (spec.active_deadline_seconds, spec.backoff_limit),
            (Some(4), 5)
        );
        assert_eq!(
            (spec.backoff_limit_per_index, spec.max_failed_indexes),
            (Some(0), Some(1))
        );
        assert_eq!(spec.completion_mode, CompletionMode::Indexed);
        assert_eq!(spec.pod_replacement_policy, PodReplacementPolicy::Failed);
        assert!(spec.suspend && spec.restarts_on_failure && spec.has_scheduling_group);
        assert_eq!(spec.managed_by.as_deref(), Some("example.com/x"));
        assert!(spec.selector.unwrap().matches(&spec.template_labels));
        let rule = &spec.pod_failure_policy.unwrap().rules[0];
        assert_eq!(rule.action.as_str(), "Ignore");
        assert_eq!(rule.on_exit_codes.as_ref().unwrap().values, [42]);
        assert_eq!(rule.on_pod_conditions[0].kind.as_str(), "DisruptionTarget");
        let rule = &spec.success_policy.unwrap().rules[0];
        assert_eq!(rule.succeeded_indexes.as_deref(), Some("0-1"));
        assert_eq!(rule.succeeded_count, Some(1));
    }

    #[test]
    fn the_first_true_condition_decides_how_a_job_ended() {
        // (conditions as type and status, end, complete)
        let cases: [(&[(&str, &str)], _, _); 6] = [
            (&[], None, false),
            (
                &[("SuccessCriteriaMet", "True"), ("Suspended", "True")],
                None,
                false,
            ),
            (
                &[("FailureTarget", "True"), ("Failed", "False")],
                None,
                false,
            ),
            (&[("Failed", "True")], Some("Failed"), false),
            (
                &[("Failed", "True"), ("Complete", "True")],
                Some("Failed"),
                true,
            ),
            (
                &[("Failed", "False"), ("Complete", "True")],
                Some("Complete"),
                true,
            ),
        ];
        for (conditions, end, complete) in cases {
            let conditions: Vec<_> = conditions
                .iter()
                .map(|(kind, status)| json!({"type": kind, "status": status}))
                .collect();
            let json = json!({"metadata": {"name": "j"}, "status": {"conditions": conditions}});
            let job = Job::decode(json.to_string().as_bytes()).unwrap();
            let found = job.finished().map(|condition| condition.kind.as_str());
            assert_eq!((found, job.is_complete()), (end, complete), "{json}");
        }
    }
}
