//! The load `autoscalers`: Deployments whose load rises and falls, each with a
//! HorizontalPodAutoscaler.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::{Deployment, HorizontalPodAutoscaler};

use super::metrics::MetricsServer;
use super::{Workloads, labelled, name, template};
use crate::run::{Bench, idle};

/// Use of the pods. Their requests are ten thousandths of a core, so the use is 20 % to 180 %.
const USED: &str = "2m..18m/300s";
/// The period of that sawtooth, in milliseconds.
const PERIOD: i64 = 300_000;
/// The part of the period at which each run begins. The use is 36 % then, and passes the target of 60 % after 45
/// seconds. On quiet cores, all autoscalers are active by then.
const BEGIN: i64 = 30_000;
/// Limits of the sizes.
const SIZES: (i32, i32) = (1, 3);

impl Workloads {
    pub(super) async fn autoscalers(
        &self,
        count: usize,
        minutes: usize,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        let mut template = template("bench");
        template["metadata"]["annotations"] = json!({"simulate.steersman.dev/cpu": USED});
        template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "10m"}});
        let server = MetricsServer::start(&self.client, self.pods.store(), &template).await?;
        // The sawtooth follows the clock. Managers are comparable if all of them meet the same part of it.
        tokio::time::sleep(until_begin(Timestamp::now())).await;
        let workload = json!({
            "replicas": SIZES.0, "selector": {"matchLabels": {}}, "template": template,
        });
        bench
            .phase("create", count, async {
                for index in 0..count {
                    let spec = labelled(&workload, index);
                    self.create::<Deployment>(index, &spec).await?;
                    self.create::<HorizontalPodAutoscaler>(index, &autoscaler(index))
                        .await?;
                }
                let is_active = |hpa: &HorizontalPodAutoscaler| {
                    let mut conditions = hpa.status.conditions.iter();
                    conditions.any(|condition| {
                        condition.kind == *"ScalingActive" && condition.status == *"True"
                    })
                };
                self.all(&self.autoscalers, count, is_active).await
            })
            .await?;
        bench.phase("autoscale", 0, idle(60 * minutes)).await?;
        bench
            .phase("delete", 0, async {
                self.delete_all(&self.autoscalers).await?;
                self.delete(&self.deployments).await
            })
            .await?;
        match server {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }
}

/// The time from `now` to the next beginning of a run.
fn until_begin(now: Timestamp) -> Duration {
    let left = (BEGIN - now.as_millisecond()).rem_euclid(PERIOD);
    Duration::from_millis(left.unsigned_abs())
}

fn autoscaler(index: usize) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 60});
    json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name(index)},
        "minReplicas": SIZES.0, "maxReplicas": SIZES.1,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_begins_at_the_same_part_of_the_sawtooth() {
        // (seconds of the clock, seconds of the wait)
        let cases = [(0, 30), (30, 0), (31, 299), (299, 31), (300, 30), (629, 1)];
        for (now, wait) in cases {
            let now = Timestamp::UNIX_EPOCH + Duration::from_secs(now);
            assert_eq!(until_begin(now), Duration::from_secs(wait), "{now}");
        }
    }
}
