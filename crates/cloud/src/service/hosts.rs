//! Brings the current nodes to all load balancers.
//!
//! A pass compares the nodes of the last call for each Service with the nodes of today. A failed
//! update sends the Service to its own queue, where it is ensured as a whole.
//!
//! Upstream: `syncNodes`, `nodeSyncService` and `lockedUpdateLoadBalancerHosts`.

use std::convert::Infallible;
use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Service};
use steersman_objects::{ObjectKey, ObjectReference};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::workers::{Requeue, Syncer};
use steersman_runtime::workqueue::WorkQueue;
use tokio::time::Instant;

use super::changes::wants;
use super::known::Known;
use super::metrics::ServiceMetrics;
use super::nodes;
use crate::provider::{CloudError, LoadBalancers};
use crate::served::Served;

/// The key of all nodes together.
pub(super) fn all_nodes() -> ObjectKey {
    ObjectKey::new("", "nodes")
}

pub(super) struct Hosts {
    pub(super) balancers: Arc<dyn LoadBalancers>,
    pub(super) recorder: EventRecorder,
    pub(super) nodes: Store<Served<Node>>,
    pub(super) known: Arc<Known>,
    pub(super) services: WorkQueue<ObjectKey>,
    pub(super) metrics: ServiceMetrics,
    /// Calls of the provider at the same time.
    pub(super) at_once: usize,
}

impl Syncer for Hosts {
    type Error = Infallible;

    async fn sync(&self, _: &ObjectKey) -> Result<Requeue, Infallible> {
        let began = Instant::now();
        let services = stream::iter(self.known.all());
        services
            .for_each_concurrent(self.at_once, async |(key, service)| {
                if let Err(error) = self.update(&key, &service).await {
                    tracing::error!(service = %key, %error, "failed to update load balancer hosts");
                    self.metrics.failed_updates.inc();
                    self.services.add(key);
                }
            })
            .await;
        let seconds = began.elapsed().as_secs_f64();
        self.metrics.pass_seconds.observe(seconds);
        Ok(Requeue::Never)
    }
}

impl Hosts {
    async fn update(&self, key: &ObjectKey, service: &Served<Service>) -> Result<(), CloudError> {
        if !wants(&service.object) {
            return Ok(());
        }
        // Read per Service: a sync of the Service during a slow pass has seen newer nodes.
        let nodes = &nodes::targets(&self.nodes)[..];
        let Some(mut before) = self.known.swap_nodes(key, nodes) else {
            return Ok(());
        };
        // Cached objects do not change, but a taint that was tolerated then may exclude them now.
        before.retain(|node| nodes::is_target(node));
        if nodes::are_equal(&before, nodes) {
            return Ok(());
        }
        let began = Instant::now();
        self.metrics.updates.inc();
        let updated = self.balancers.update(&service.object, nodes).await;
        let outcome = match updated {
            Ok(()) => {
                if nodes.is_empty() {
                    self.event(
                        service,
                        EventType::Warning,
                        "UnAvailableLoadBalancer",
                        nodes::NONE.to_owned(),
                    );
                } else {
                    let text = "Updated load balancer with new hosts".to_owned();
                    self.event(service, EventType::Normal, "UpdatedLoadBalancer", text);
                }
                Ok(())
            }
            Err(CloudError::ImplementedElsewhere) => Ok(()),
            Err(error) => self.judge(service, nodes, error).await,
        };
        let seconds = began.elapsed().as_secs_f64();
        self.metrics.update_seconds.observe(seconds);
        outcome
    }

    /// A failure counts only if the load balancer exists.
    async fn judge(
        &self,
        service: &Served<Service>,
        nodes: &[Arc<Node>],
        error: CloudError,
    ) -> Result<(), CloudError> {
        match self.balancers.get(&service.object).await {
            Ok(None) => return Ok(()),
            Ok(Some(_)) => {}
            Err(error) => tracing::error!(
                namespace = %service.meta.namespace, name = &*service.meta.name, %error,
                "failed to check if load balancer exists"
            ),
        }
        let text = format!(
            "Error updating load balancer with new hosts {} [node names limited, total number of nodes: {}], error: {error}",
            nodes::shown_names(nodes),
            nodes.len()
        );
        self.event(
            service,
            EventType::Warning,
            "UpdateLoadBalancerFailed",
            text,
        );
        Err(error)
    }

    fn event(&self, of: &Served<Service>, kind: EventType, reason: &'static str, text: String) {
        self.recorder
            .event(ObjectReference::of(of), kind, reason, text);
    }
}
