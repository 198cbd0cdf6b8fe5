//! The load `services`: each Service has the pods of a Deployment, which are rolled out.
//!
//! Each namespace has ten Services, as in a real cluster. Upstream's syncs read all pods of a namespace,
//! so in a single one its work would grow with the square of the load.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::json;
use steersman_client::ApiClient;
use steersman_objects::{Deployment, EndpointSlice, Namespace, Object, Pod, Service};
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use tokio::sync::Notify;

use super::waiting::{wait, watched};
use super::{is_rolled_out, name, objects, restarted, template};
use crate::run::Bench;
use crate::slices::SliceWatch;

/// Prefix of the names of the namespaces.
const PREFIX: &str = "bench-services-";
/// Services in one namespace.
const PER_NAMESPACE: usize = 10;

/// Caches of Services with their pods and slices, and a client to change them.
pub(crate) struct Services {
    client: ApiClient,
    namespaces: SharedInformer<Namespace>,
    deployments: SharedInformer<Deployment>,
    pods: SharedInformer<Pod>,
    services: SharedInformer<Service>,
    slices: SharedInformer<EndpointSlice>,
    slice_watch: SliceWatch,
    changed: Arc<Notify>,
}

impl Services {
    /// Watches the cluster behind `client` through `informers`, which the caller starts afterwards.
    pub(crate) fn new(client: ApiClient, informers: &InformerFactory) -> Self {
        let changed = Arc::new(Notify::new());
        let pods = watched(informers, &changed);
        let slices = watched(informers, &changed);
        Self {
            client,
            namespaces: watched(informers, &changed),
            deployments: watched(informers, &changed),
            services: watched(informers, &changed),
            slice_watch: SliceWatch::start(PREFIX, &pods, &slices),
            pods,
            slices,
            changed,
        }
    }

    /// Creates `count` Services with `pods` each, rolls the pods out, and deletes all of them.
    pub(crate) async fn run(&self, count: usize, pods: usize, bench: &mut Bench<'_>) -> Result<()> {
        let namespaces = count.div_ceil(PER_NAMESPACE);
        bench
            .phase("create namespaces", 0, async {
                for index in 0..namespaces {
                    objects::create_namespace(&self.client, &namespace(index)).await?;
                }
                Ok(())
            })
            .await?;
        self.slice_watch.take();
        bench
            .phase("create", count * pods, async {
                for index in 0..count {
                    self.create_service(index, pods).await?;
                }
                self.settled(count, pods).await
            })
            .await?;
        bench.add_slices(self.slice_watch.take());
        bench
            .phase("roll out", count * pods, async {
                self.restart(count).await?;
                self.settled(count, pods).await
            })
            .await?;
        bench.add_slices(self.slice_watch.take());
        bench
            .phase("delete", count * pods, async {
                for index in 0..namespaces {
                    let namespace = namespace(index);
                    objects::delete_all::<Service>(&self.client, &namespace).await?;
                    objects::delete_all::<Deployment>(&self.client, &namespace).await?;
                }
                let left = || {
                    (
                        ours(&self.services).len(),
                        ours(&self.slices).len(),
                        ours(&self.pods).len(),
                    )
                };
                wait(&self.changed, || left() == (0, 0, 0))
                    .await
                    .with_context(|| format!("Services, slices and pods are left: {:?}", left()))
            })
            .await?;
        bench.add_slices(self.slice_watch.take());
        bench
            .phase("delete namespaces", 0, async {
                for index in 0..namespaces {
                    objects::delete_namespace(&self.client, &namespace(index)).await?;
                }
                let store = self.namespaces.store();
                let are_gone = || {
                    let all = store.list();
                    !all.iter().any(|namespace| is_place(&namespace.meta.name))
                };
                wait(&self.changed, are_gone)
                    .await
                    .context("namespaces are left")
            })
            .await
    }

    async fn create_service(&self, index: usize, pods: usize) -> Result<()> {
        let namespace = namespace(index / PER_NAMESPACE);
        let name = name(index);
        let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
        let service = json!({"spec": {"selector": {"app": name}, "ports": ports}});
        objects::create::<Service>(&self.client, &namespace, &name, service).await?;
        let spec = json!({
            "replicas": pods,
            "selector": {"matchLabels": {"app": name}}, "template": template(&name),
        });
        let deployment = json!({ "spec": spec });
        objects::create::<Deployment>(&self.client, &namespace, &name, deployment).await?;
        Ok(())
    }

    /// Changes the pod templates, and waits until the cache shows the changes.
    async fn restart(&self, count: usize) -> Result<()> {
        let targets = (0..count).map(|index| (namespace(index / PER_NAMESPACE), name(index)));
        let version = objects::patch_all::<Deployment>(&self.client, targets, &restarted()).await?;
        let store = self.deployments.store();
        wait(&self.changed, || store.resource_version() >= version)
            .await
            .context("the cache does not show the patches")
    }

    /// Waits until the Deployments are rolled out, and the slices show their pods and no others.
    async fn settled(&self, count: usize, pods: usize) -> Result<()> {
        let state = || {
            let deployments = ours(&self.deployments);
            let rolled_out = deployments.iter().filter(|one| is_rolled_out(one, pods));
            let slices = ours(&self.slices);
            let endpoints = || slices.iter().flat_map(|slice| &slice.endpoints);
            let ready = endpoints().filter(|endpoint| endpoint.conditions.ready == Some(true));
            (rolled_out.count(), endpoints().count(), ready.count())
        };
        wait(&self.changed, || state() == (count, count * pods, count * pods))
            .await
            .with_context(|| {
                let (rolled_out, endpoints, ready) = state();
                format!(
                    "{rolled_out} of {count} Deployments are rolled out, and {ready} of {endpoints} endpoints are ready"
                )
            })
    }
}

/// The objects of the load of this type.
fn ours<T: Object>(informer: &SharedInformer<T>) -> Vec<Arc<T>> {
    let all = informer.store().list().into_iter();
    all.filter(|object| is_place(&object.meta().namespace))
        .collect()
}

/// Whether the load created the namespace.
fn is_place(namespace: &str) -> bool {
    namespace.starts_with(PREFIX)
}

fn namespace(index: usize) -> String {
    format!("{PREFIX}{index}")
}
