//! The load `services`: each Service has the pods of a Deployment, which are rolled out.

use anyhow::{Context, Result};
use serde_json::json;
use steersman_runtime::object::{Deployment, Service};

use super::{NAMESPACE, Workloads, labelled, name, template};
use crate::run::Bench;

impl Workloads {
    pub(super) async fn services(
        &self,
        services: usize,
        service_pods: usize,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        let spec = json!({
            "replicas": service_pods,
            "selector": {"matchLabels": {"app": "bench"}}, "template": template("bench"),
        });
        let pods = services * service_pods;
        self.slice_watch.take();
        bench
            .phase("create", pods, async {
                for index in 0..services {
                    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
                    let service = json!({"selector": {"app": name(index)}, "ports": ports});
                    self.create::<Service>(index, &service).await?;
                    self.create::<Deployment>(index, &labelled(&spec, index))
                        .await?;
                }
                self.services_settled(services, service_pods).await
            })
            .await?;
        bench.add_slices(self.slice_watch.take());
        bench
            .phase("roll out", pods, async {
                self.restart(&self.deployments, services).await?;
                self.services_settled(services, service_pods).await
            })
            .await?;
        bench.add_slices(self.slice_watch.take());
        bench
            .phase("delete", pods, async {
                self.delete_all(&self.services).await?;
                self.delete(&self.deployments).await?;
                let (services, slices) = (self.services.store(), self.slices.store());
                let is_empty = || {
                    services.in_namespace(NAMESPACE).is_empty()
                        && slices.in_namespace(NAMESPACE).is_empty()
                };
                self.wait(is_empty).await.context("slices are left")
            })
            .await?;
        bench.add_slices(self.slice_watch.take());
        Ok(())
    }

    /// Waits until the Deployments are rolled out, and the slices show their pods and no others.
    async fn services_settled(&self, services: usize, pods: usize) -> Result<()> {
        self.rolled_out(services, pods).await?;
        let slices = self.slices.store();
        let shown = || {
            let slices = slices.in_namespace(NAMESPACE);
            let endpoints = || slices.iter().flat_map(|slice| &slice.endpoints);
            let are_ready = endpoints().all(|endpoint| endpoint.conditions.ready == Some(true));
            (endpoints().count(), are_ready)
        };
        self.wait(|| shown() == (services * pods, true))
            .await
            .with_context(|| format!("the slices have {} endpoints", shown().0))
    }
}
