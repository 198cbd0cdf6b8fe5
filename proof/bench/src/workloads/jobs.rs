//! The loads of Jobs and CronJobs. CronJobs are due in the same minute.

use anyhow::Result;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_objects::{CronJob, Job};

use super::{Workloads, template};
use crate::run::Bench;

/// Time between the creation of CronJobs and the minute of their run.
const LEAD: SignedDuration = SignedDuration::from_secs(60);

impl Workloads {
    pub(super) async fn jobs(
        &self,
        count: usize,
        bench: &mut Bench<'_>,
        more: &Value,
    ) -> Result<()> {
        let spec = job_spec(more);
        let pods = usize::try_from(more["completions"].as_u64().unwrap_or(1))? * count;
        bench
            .phase("run", pods, async {
                for index in 0..count {
                    self.create::<Job>(index, &spec).await?;
                }
                self.all(&self.jobs, count, Job::is_complete).await
            })
            .await?;
        bench.phase("delete", pods, self.delete(&self.jobs)).await
    }

    pub(super) async fn cron_jobs(&self, count: usize, bench: &mut Bench<'_>) -> Result<()> {
        let due = (Timestamp::now() + LEAD + SignedDuration::from_secs(60)).to_zoned(TimeZone::UTC);
        let spec = json!({
            "schedule": format!("{} {} * * *", due.minute(), due.hour()), "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": job_spec(&json!({}))},
        });
        bench
            .phase("create", 0, async {
                for index in 0..count {
                    self.create::<CronJob>(index, &spec).await?;
                }
                self.all(&self.cron_jobs, count, |_| true).await
            })
            .await?;
        let is_done = |cron_job: &CronJob| {
            let status = &cron_job.status;
            status.last_successful_time.is_some() && status.active.is_empty()
        };
        bench
            .phase("run", count, self.all(&self.cron_jobs, count, is_done))
            .await?;
        bench
            .phase("delete", count, self.delete(&self.cron_jobs))
            .await
    }
}

fn job_spec(more: &Value) -> Value {
    let mut spec = json!({"template": template("job")});
    spec["template"]["spec"]["restartPolicy"] = "Never".into();
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}
