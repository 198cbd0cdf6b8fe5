//! The load `autoscalers`: Deployments whose load rises and falls, each with a
//! HorizontalPodAutoscaler.

use anyhow::Result;
use serde_json::{Value, json};
use steersman_objects::{Deployment, HorizontalPodAutoscaler};

use super::metrics::MetricsServer;
use super::{Workloads, labelled, name, template};
use crate::run::{Bench, idle};

/// Use of the pods. Their requests are ten thousandths of a core, so the use is 20 % to 180 %.
const USED: &str = "2m..18m/300s";
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

fn autoscaler(index: usize) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 60});
    json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name(index)},
        "minReplicas": SIZES.0, "maxReplicas": SIZES.1,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    })
}
