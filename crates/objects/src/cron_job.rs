//! The cached view of a CronJob.
//!
//! The view keeps the served [`Document`]: upstream PUTs the status of CronJobs, and creates Jobs
//! from `spec.jobTemplate`. Upstream: `k8s.io/api/batch/v1`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use steersman_values::resource::CRON_JOBS;

use super::wire::{nullable, whole_seconds_time};
use crate::view;

view! {
    /// A CronJob: the fields that its controller reads, and the document for its writes.
    pub struct CronJob: CRON_JOBS, keeps document {
        /// Spec.
        pub spec: CronJobSpec,
        /// Status.
        pub status: CronJobStatus,
    }
}

/// `spec` of a CronJob, without `jobTemplate`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// Schedule in cron format.
    #[serde(deserialize_with = "nullable")]
    pub schedule: String,
    /// Name of the time zone of the schedule; `None` means the zone of the process.
    pub time_zone: Option<String>,
    /// Seconds after its scheduled time for which a Job may still start; `None` means no limit.
    pub starting_deadline_seconds: Option<i64>,
    /// Treatment of Jobs that still run at the next scheduled time.
    #[serde(deserialize_with = "nullable")]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Whether no further Jobs start.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    /// Number of completed Jobs to keep; `None` keeps all.
    pub successful_jobs_history_limit: Option<i32>,
    /// Number of failed Jobs to keep; `None` keeps all.
    pub failed_jobs_history_limit: Option<i32>,
}

/// `spec.concurrencyPolicy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum ConcurrencyPolicy {
    /// Jobs may run at the same time. Values that validation rejects have this meaning too.
    #[default]
    Allow,
    /// No Job starts while an earlier one runs.
    Forbid,
    /// A new Job replaces the running one.
    Replace,
}

impl From<String> for ConcurrencyPolicy {
    fn from(name: String) -> Self {
        match &*name {
            "Forbid" => Self::Forbid,
            "Replace" => Self::Replace,
            _ => Self::Allow,
        }
    }
}

/// `status` of a CronJob. It serialises in the order of upstream's Go type, and omits the fields
/// that Go omits. Unknown fields stay in `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// References to the running Jobs, in the order of their start.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub active: Vec<ActiveJob>,
    /// Scheduled time of the last Job that was started.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "whole_seconds_time"
    )]
    pub last_schedule_time: Option<Timestamp>,
    /// Latest completion time of the Jobs.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "whole_seconds_time"
    )]
    pub last_successful_time: Option<Timestamp>,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One entry of `status.active`: an `ObjectReference` to a Job. It serialises in the order of
/// upstream's Go type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActiveJob {
    /// Kind of the Job.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub kind: String,
    /// Namespace.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub namespace: String,
    /// Name.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub name: String,
    /// UID.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub uid: String,
    /// API version.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub api_version: String,
    /// Resource version of the Job when its entry was added.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub resource_version: String,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    fn decoded(spec: &Value, status: &Value) -> CronJob {
        let json =
            json!({"metadata": {"name": "c", "managedFields": []}, "spec": spec, "status": status});
        CronJob::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn null_and_absent_cron_job_fields_have_the_default() {
        let nulls = json!({
            "schedule": null, "timeZone": null, "startingDeadlineSeconds": null, "suspend": null,
            "concurrencyPolicy": null, "successfulJobsHistoryLimit": null,
            "failedJobsHistoryLimit": null,
        });
        let statuses =
            json!({"active": null, "lastScheduleTime": null, "lastSuccessfulTime": null});
        for (spec, status) in [
            (json!(null), json!(null)),
            (json!({}), json!({})),
            (nulls, statuses),
        ] {
            let cron_job = decoded(&spec, &status);
            let found = (cron_job.spec, cron_job.status);
            assert_eq!(found, Default::default(), "{spec} {status}");
        }
    }

    #[test]
    fn a_status_is_written_as_it_was_served() {
        let active = json!([{
            "kind": "Job", "namespace": "shop", "name": "c-1", "uid": "u",
            "apiVersion": "batch/v1", "resourceVersion": "7", "fieldPath": "x",
        }]);
        let status = json!({
            "active": active, "lastScheduleTime": "2026-01-02T03:04:00Z",
            "lastSuccessfulTime": "2026-01-02T03:04:09Z", "fromTheFuture": 1,
        });
        let found = decoded(&json!({}), &status).status;
        assert_eq!(serde_json::to_value(found).unwrap(), status);
        let empty = decoded(&json!({}), &json!({"active": []})).status;
        assert_eq!(serde_json::to_string(&empty).unwrap(), "{}");
    }

    #[test]
    fn an_unknown_concurrency_policy_allows_concurrent_jobs() {
        for (name, expected) in [
            ("Allow", ConcurrencyPolicy::Allow),
            ("Forbid", ConcurrencyPolicy::Forbid),
            ("Replace", ConcurrencyPolicy::Replace),
            ("replace", ConcurrencyPolicy::Allow),
        ] {
            let spec = json!({ "concurrencyPolicy": name });
            let found = decoded(&spec, &json!({})).spec.concurrency_policy;
            assert_eq!(found, expected, "{name}");
        }
    }
}
