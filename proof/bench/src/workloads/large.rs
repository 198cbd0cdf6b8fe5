//! The loads of a large cluster: Deployments that grow, changes of pods, roll-outs at a steady pace,
//! and the failure of a zone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use steersman_client::{ApiError, PatchKind};
use steersman_devcluster::nodes::BEHAVIOUR;
use steersman_objects::{Deployment, Node, Object, Pod};
use tokio::time::MissedTickBehavior;

use super::deployments::spec;
use super::waiting::each;
use super::{Workloads, labelled, ours, target};

/// Pods of each Deployment.
pub(crate) const PODS_OF_EACH: usize = 50;

/// Label with the zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Annotation of the changes of pods and of templates.
const ANNOTATION: &str = "bench.steersman.dev/change";

impl Workloads {
    /// Creates Deployments until `pods` pods exist, and waits until all are ready and no others are left.
    pub(crate) async fn grow(&self, pods: usize) -> Result<()> {
        let present = ours(&self.deployments).len();
        let wanted = pods.div_ceil(PODS_OF_EACH);
        let spec = spec(PODS_OF_EACH);
        for index in present..wanted {
            self.create::<Deployment>(index, &labelled(&spec, index))
                .await?;
        }
        self.settled(wanted).await
    }

    /// Waits until `deployments` Deployments have all their pods, and no others.
    pub(super) async fn settled(&self, deployments: usize) -> Result<()> {
        self.rolled_out(deployments, PODS_OF_EACH).await?;
        let count = || ours(&self.pods).len();
        self.wait(|| count() == deployments * PODS_OF_EACH)
            .await
            .with_context(|| format!("{} pods of {deployments} Deployments", count()))
    }

    /// The number of nodes of the cluster.
    pub(crate) fn number_of_nodes(&self) -> usize {
        self.nodes.store().list().len()
    }

    /// Changes an annotation of `count` pods to `value`.
    pub(crate) async fn annotate_pods(&self, count: usize, value: &str) -> Result<()> {
        let pods = ours(&self.pods);
        let patch = annotation(ANNOTATION, &value.into());
        each(count.min(pods.len()), |index| {
            self.merge::<Pod>(&pods[index].meta.name, &patch)
        })
        .await
    }

    /// Rolls out `per_second` Deployments each second, for this number of seconds. Returns the sorted
    /// times until their status has observed the change.
    pub(crate) async fn roll_steadily(
        &self,
        per_second: usize,
        seconds: usize,
        value: &str,
    ) -> Result<Vec<Duration>> {
        let deployments = ours(&self.deployments);
        self.syncs.take();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for batch in deployments.chunks(per_second).take(seconds) {
            ticks.tick().await;
            for deployment in batch {
                self.roll(deployment, value).await?;
            }
        }
        self.rolled_out(deployments.len(), PODS_OF_EACH).await?;
        Ok(self.syncs.take())
    }

    /// Changes the template of the first Deployment.
    pub(crate) async fn roll_one(&self, value: &str) -> Result<()> {
        let deployments = ours(&self.deployments);
        let first = deployments.first().context("no Deployment")?;
        self.roll(first, value).await
    }

    async fn roll(&self, deployment: &Deployment, value: &str) -> Result<()> {
        let name = &deployment.meta.name;
        self.syncs.changes(name, deployment.meta.generation + 1);
        let template = json!({"template": annotation(ANNOTATION, &value.into())});
        self.merge::<Deployment>(name, &json!({"spec": template}))
            .await
            .with_context(|| format!("roll out {name}"))
    }

    /// Waits until a controller has seen every change of a template.
    pub(crate) async fn observed(&self) -> Result<()> {
        self.wait(|| self.syncs.waiting() == 0)
            .await
            .context("the status of a Deployment does not show its change")
    }

    /// Ends the heartbeats of all nodes in `zone`. Waits until they are not ready, and neither are
    /// their pods.
    pub(crate) async fn fail_zone(&self, zone: &str) -> Result<()> {
        self.set_behaviour(zone, &"dead".into()).await?;
        let names = self.nodes_in(zone).into_iter();
        let names: HashSet<_> = names.map(|node| Arc::clone(&node.meta.name)).collect();
        let pods = self.pods.store();
        let left = || {
            let nodes = self.nodes_in(zone).into_iter();
            let nodes = nodes.filter(|node| node.is_ready()).count();
            let is_there = |pod: &Pod| pod.node.as_deref().is_some_and(|node| names.contains(node));
            let pods = pods.list().into_iter();
            let pods = pods.filter(|pod| pod.is_ready() && is_there(pod)).count();
            (nodes, pods)
        };
        self.wait(|| left() == (0, 0))
            .await
            .with_context(|| format!("nodes and pods of the dead zone are ready: {:?}", left()))
    }

    /// Starts the heartbeats again, and waits until all nodes are ready.
    pub(crate) async fn heal_zone(&self, zone: &str) -> Result<()> {
        self.set_behaviour(zone, &Value::Null).await?;
        let is_well = |node: &Arc<Node>| node.is_ready() && node.spec.taints.is_empty();
        self.wait(|| self.nodes_in(zone).iter().all(is_well))
            .await
            .context("some nodes of the zone are not ready")
    }

    async fn set_behaviour(&self, zone: &str, value: &Value) -> Result<()> {
        let nodes = self.nodes_in(zone);
        let patch = annotation(BEHAVIOUR, value);
        each(nodes.len(), |index| {
            self.merge::<Node>(&nodes[index].meta.name, &patch)
        })
        .await
    }

    fn nodes_in(&self, zone: &str) -> Vec<Arc<Node>> {
        let all = self.nodes.store().list().into_iter();
        all.filter(|node| node.meta.labels.get(ZONE).is_some_and(|of| *of == *zone))
            .collect()
    }

    async fn merge<T: Object>(&self, name: &str, patch: &Value) -> Result<(), ApiError> {
        let patched = self
            .client
            .patch(target::<T>(Some(name)), PatchKind::Merge, patch);
        patched.await.map(drop)
    }
}

fn annotation(key: &str, value: &Value) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}
