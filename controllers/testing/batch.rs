//! Builders of the cached views of Jobs and CronJobs.

use serde_json::{Value, json};
use steersman_objects::{CronJob, Job};

use super::builder::Builder;
use super::{NAMESPACE, time};

/// Builds a Job.
pub(crate) type JobBuilder = Builder<Job>;
/// Builds a CronJob.
pub(crate) type CronJobBuilder = Builder<CronJob>;

/// The template of a Job with one container.
pub(crate) fn job_spec() -> Value {
    let container = json!({"name": "main", "image": "busybox"});
    json!({"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}})
}

/// A running Job without an owner.
pub(crate) fn job(name: &str) -> JobBuilder {
    Builder::new(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1",
        },
        "spec": job_spec(),
        "status": {},
    }))
}

impl JobBuilder {
    /// Adds a true condition with its time at `second`. The Job also starts then, and a complete
    /// Job completes then.
    pub(crate) fn finished(mut self, kind: &str, second: i64) -> Self {
        if kind == "Complete" {
            self = self.status("completionTime", time(second));
        }
        let condition = json!({"type": kind, "status": "True", "lastTransitionTime": time(second)});
        self.status("startTime", time(second))
            .status("conditions", json!([condition]))
    }

    /// Adds the controller reference of a CronJob that [`cron_job`] built.
    pub(crate) fn of_cron_job(self, name: &str) -> Self {
        let reference = json!([{
            "apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": format!("uid-of-{name}"),
            "controller": true, "blockOwnerDeletion": true,
        }]);
        self.metadata("ownerReferences", reference)
    }
}

/// A CronJob that runs every minute.
pub(crate) fn cron_job(name: &str) -> CronJobBuilder {
    Builder::new(json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1",
            "creationTimestamp": time(0),
        },
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Allow",
            "jobTemplate": {"spec": job_spec()},
        },
        "status": {},
    }))
}
