//! The loads of StatefulSets and DaemonSets: each is created, rolled out and deleted.

use anyhow::Result;
use serde_json::json;
use steersman_objects::{DaemonSet, StatefulSet};

use super::{Workloads, template};
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
        let is_settled = |set: &StatefulSet| {
            let status = &set.status;
            status.observed_generation >= set.meta.generation
                && [status.available_replicas, status.updated_replicas] == [replicas; 2]
                && status.current_revision == status.update_revision
        };
        let settled = async || self.all(&self.stateful_sets, count, is_settled).await;
        let size = (count, count * each);
        self.life_cycle(&self.stateful_sets, &spec, size, settled, bench)
            .await
    }

    pub(super) async fn daemon_sets(&self, count: usize, bench: &mut Bench<'_>) -> Result<()> {
        let nodes = self.nodes.store().len();
        let wanted = i32::try_from(nodes)?;
        let spec = json!({
            "selector": {"matchLabels": {"app": "bench"}}, "template": template("bench"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}},
        });
        let is_settled = |set: &DaemonSet| {
            let status = &set.status;
            status.observed_generation >= set.meta.generation
                && [status.number_available, status.updated_number_scheduled] == [wanted; 2]
        };
        let settled = async || self.all(&self.daemon_sets, count, is_settled).await;
        let size = (count, count * nodes);
        self.life_cycle(&self.daemon_sets, &spec, size, settled, bench)
            .await
    }
}
