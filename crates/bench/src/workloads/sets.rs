//! The loads of StatefulSets and DaemonSets: each is created, rolled out and deleted.

use anyhow::Result;
use serde_json::json;
use steersman_runtime::object::{DaemonSet, StatefulSet};

use super::{Workloads, labelled, template};
use crate::run::Bench;

impl Workloads {
    pub(super) async fn stateful_sets(
        &self,
        (count, each): (usize, usize),
        bench: &mut Bench<'_>,
        management: &str,
    ) -> Result<()> {
        let replicas = i32::try_from(each)?;
        let spec = json!({
            "replicas": replicas, "podManagementPolicy": management, "serviceName": "",
            "selector": {"matchLabels": {"app": "bench"}}, "template": template("bench"),
        });
        let settled = || {
            let is_settled = |set: &StatefulSet| {
                let status = &set.status;
                status.observed_generation >= set.meta.generation
                    && [status.available_replicas, status.updated_replicas] == [replicas; 2]
                    && status.current_revision == status.update_revision
            };
            self.all(&self.stateful_sets, count, is_settled)
        };
        let pods = count * each;
        bench
            .phase("create", pods, async {
                for index in 0..count {
                    self.create::<StatefulSet>(index, &labelled(&spec, index))
                        .await?;
                }
                settled().await
            })
            .await?;
        bench
            .phase("roll out", pods, async {
                self.restart(&self.stateful_sets, count).await?;
                settled().await
            })
            .await?;
        bench
            .phase("delete", pods, self.delete(&self.stateful_sets))
            .await
    }

    pub(super) async fn daemon_sets(&self, count: usize, bench: &mut Bench<'_>) -> Result<()> {
        let nodes = self.nodes.store().len();
        let wanted = i32::try_from(nodes)?;
        let spec = json!({
            "selector": {"matchLabels": {"app": "bench"}}, "template": template("bench"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}},
        });
        let settled = || {
            let is_settled = |set: &DaemonSet| {
                let status = &set.status;
                status.observed_generation >= set.meta.generation
                    && [status.number_available, status.updated_number_scheduled] == [wanted; 2]
            };
            self.all(&self.daemon_sets, count, is_settled)
        };
        let pods = count * nodes;
        bench
            .phase("create", pods, async {
                for index in 0..count {
                    self.create::<DaemonSet>(index, &labelled(&spec, index))
                        .await?;
                }
                settled().await
            })
            .await?;
        bench
            .phase("roll out", pods, async {
                self.restart(&self.daemon_sets, count).await?;
                settled().await
            })
            .await?;
        bench
            .phase("delete", pods, self.delete(&self.daemon_sets))
            .await
    }
}
