//! The loads on a manager: Deployments, StatefulSets, DaemonSets, Jobs, CronJobs, Services,
//! namespaces, nodes, requests for certificates, autoscalers, claims, quotas, volumes, and chains of
//! steps on slow API servers.
//!
//! Each load creates its objects, waits for their status, and deletes them again, so that loads can
//! follow each other. Waits read informers, because polling would load the API server.

mod autoscalers;
mod chains;
mod claims;
mod copies;
mod csrs;
mod deployments;
mod jobs;
pub(crate) mod large;
mod metrics;
mod namespaces;
mod nodes;
mod objects;
mod quotas;
mod services;
mod sets;
mod syncs;
mod volumes;
mod waiting;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use steersman_client::{ApiClient, Target};
use steersman_objects::{
    CertificateSigningRequest, CronJob, DaemonSet, Deployment, HorizontalPodAutoscaler, Job,
    Namespace, Node, Object, PersistentVolume, PersistentVolumeClaim, Pod, StatefulSet,
    VolumeAttachment,
};
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use steersman_runtime::metrics::Registry;
use tokio::sync::Notify;

use crate::cluster::{NAMESPACE, PREFIX};
use crate::plane::Plane;
use crate::row::{Row, Workload};
use crate::run::{Bench, idle};
pub(crate) use chains::{Chain, Reaction, run as run_chains};
use namespaces::Namespaces;
use quotas::Quotas;
use services::Services;
use syncs::SyncTimes;
use waiting::{wait, watched};

/// Flags that remove the client-side throttle. Its default of 20 requests per second would dominate
/// the measurement.
const WITHOUT_THROTTLE: [&str; 2] = ["--kube-api-qps=100000", "--kube-api-burst=100000"];
/// Flags that give each node a range of pod addresses, for up to 65,536 nodes.
const NODE_RANGES: [&str; 2] = ["--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/8"];
/// A period of autoscalers that hides less of the steps after it than the default of 15 s.
const AUTOSCALER_PERIOD: &str = "--horizontal-pod-autoscaler-sync-period=100ms";

/// The flags that a manager needs for `workload`. Their files are in `folder`.
pub(crate) fn flags(workload: Workload, folder: &Path) -> Result<Vec<String>> {
    let mut flags = Vec::new();
    if workload != Workload::Throttled {
        flags.extend(WITHOUT_THROTTLE.map(str::to_owned));
    }
    match workload {
        Workload::Nodes => flags.extend(NODE_RANGES.map(str::to_owned)),
        Workload::Csrs => flags.extend(csrs::authority(folder)?),
        Workload::Latency => flags.push(AUTOSCALER_PERIOD.to_owned()),
        _ => {}
    }
    Ok(flags)
}

/// Caches of the objects of the loads, and a client to change them.
pub(crate) struct Workloads {
    client: ApiClient,
    stateful_sets: SharedInformer<StatefulSet>,
    daemon_sets: SharedInformer<DaemonSet>,
    jobs: SharedInformer<Job>,
    cron_jobs: SharedInformer<CronJob>,
    nodes: SharedInformer<Node>,
    pods: SharedInformer<Pod>,
    deployments: SharedInformer<Deployment>,
    autoscalers: SharedInformer<HorizontalPodAutoscaler>,
    csrs: SharedInformer<CertificateSigningRequest>,
    claims: SharedInformer<PersistentVolumeClaim>,
    volumes: SharedInformer<PersistentVolume>,
    attachments: SharedInformer<VolumeAttachment>,
    syncs: SyncTimes,
    namespaces: Namespaces,
    quotas: Quotas,
    services: Services,
    changed: Arc<Notify>,
}

impl Workloads {
    /// Watches the cluster, and creates the namespace of the loads.
    pub(crate) async fn start(plane: &Plane) -> Result<Self> {
        let registry = Registry::new();
        let informers = InformerFactory::new(plane.client.clone(), Duration::ZERO, &registry)?;
        let loads = Self::new(plane.client.clone(), &informers);
        informers.start(&plane.tasks, &plane.stop);
        informers.wait_synced(&plane.stop).await;
        loads.prepare().await?;
        Ok(loads)
    }

    fn new(client: ApiClient, informers: &InformerFactory) -> Self {
        let changed = Arc::new(Notify::new());
        let deployments = watched(informers, &changed);
        Self {
            namespaces: Namespaces::new(client.clone(), informers),
            quotas: Quotas::new(client.clone(), informers),
            services: Services::new(client.clone(), informers),
            client,
            stateful_sets: watched(informers, &changed),
            daemon_sets: watched(informers, &changed),
            jobs: watched(informers, &changed),
            cron_jobs: watched(informers, &changed),
            nodes: watched(informers, &changed),
            csrs: watched(informers, &changed),
            claims: watched(informers, &changed),
            volumes: watched(informers, &changed),
            attachments: watched(informers, &changed),
            autoscalers: watched(informers, &changed),
            syncs: SyncTimes::start(&deployments),
            deployments,
            pods: watched(informers, &changed),
            changed,
        }
    }

    /// Creates the namespace of the loads. It may exist.
    async fn prepare(&self) -> Result<()> {
        match objects::create::<Namespace>(&self.client, "", NAMESPACE, json!({})).await {
            Err(error) if !error.is_already_exists() => Err(error).context("create the namespace"),
            _ => Ok(()),
        }
    }

    /// Runs the load of `row`, and adds its phases.
    pub(crate) async fn run(&self, row: Row, bench: &mut Bench<'_>) -> Result<()> {
        let Row { count, each, .. } = row;
        match row.workload {
            Workload::Idle => bench.phase("idle", 0, idle(count)).await,
            Workload::Deployments => self.deployments(count, each, bench).await,
            Workload::Scaling => self.scaling(count, each, bench).await,
            Workload::Throttled => self.throttled(count, each, bench).await,
            Workload::ParallelStatefulSets => {
                self.stateful_sets((count, each), bench, "Parallel").await
            }
            Workload::OrderedStatefulSets => {
                self.stateful_sets((count, each), bench, "OrderedReady")
                    .await
            }
            Workload::DaemonSets => self.daemon_sets(count, bench).await,
            Workload::Jobs => self.jobs(count, bench, &json!({})).await,
            Workload::IndexedJobs => {
                let indexes = json!({
                    "completions": each, "parallelism": each.div_ceil(10), "completionMode": "Indexed",
                });
                self.jobs(count, bench, &indexes).await
            }
            Workload::CronJobs => self.cron_jobs(count, bench).await,
            Workload::Services => self.services.run(count, each, bench).await,
            Workload::Namespaces => self.namespaces.run(count, bench).await,
            Workload::Nodes => self.nodes(count, each, bench).await,
            Workload::Csrs => self.csrs(count, bench).await,
            Workload::Autoscalers => self.autoscalers(count, each, bench).await,
            Workload::Claims => self.claims(count, bench).await,
            Workload::Quotas => self.quotas.run(count, each, bench).await,
            Workload::Volumes => self.volumes(count, bench).await,
            Workload::Latency => bail!("the row {row} has chains in place of phases"),
        }
    }

    async fn create<T: Object>(&self, index: usize, spec: &Value) -> Result<()> {
        let name = name(index);
        let body = json!({ "spec": spec });
        objects::create::<T>(&self.client, namespace::<T>(), &name, body)
            .await
            .with_context(|| format!("create {} {name}", T::RESOURCE))
    }

    /// Creates `count` objects, each with labels of its own.
    async fn create_labelled<T: Object>(&self, count: usize, spec: &Value) -> Result<()> {
        for index in 0..count {
            self.create::<T>(index, &labelled(spec, index)).await?;
        }
        Ok(())
    }

    /// Creates objects with pod templates, rolls them out, and deletes them. `settled` waits until
    /// the status of all of them is final.
    async fn life_cycle<T: Object>(
        &self,
        informer: &SharedInformer<T>,
        spec: &Value,
        (count, pods): (usize, usize),
        settled: impl AsyncFn() -> Result<()>,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        bench
            .phase("create", pods, async {
                self.create_labelled::<T>(count, spec).await?;
                settled().await
            })
            .await?;
        bench
            .phase("roll out", pods, async {
                self.restart(informer, count).await?;
                settled().await
            })
            .await?;
        bench.phase("delete", pods, self.delete(informer)).await
    }

    /// Changes the pod templates, as `kubectl rollout restart` does.
    async fn restart<T: Object>(&self, informer: &SharedInformer<T>, count: usize) -> Result<()> {
        self.patch_all(informer, count, &restarted()).await
    }

    /// Applies `patch` to every object of the load, and waits until the cache shows the changes.
    async fn patch_all<T: Object>(
        &self,
        informer: &SharedInformer<T>,
        count: usize,
        patch: &Value,
    ) -> Result<()> {
        let targets = (0..count).map(|index| (namespace::<T>().to_owned(), name(index)));
        let version = objects::patch_all::<T>(&self.client, targets, patch).await?;
        let store = informer.store();
        self.wait(|| store.resource_version() >= version)
            .await
            .context("the cache does not show the patches")
    }

    /// Deletes all objects of the type, and waits until they, their Jobs and their pods are gone.
    async fn delete<T: Object>(&self, informer: &SharedInformer<T>) -> Result<()> {
        self.delete_all(informer).await?;
        let left = || {
            (
                ours(informer).len(),
                ours(&self.jobs).len(),
                ours(&self.pods).len(),
            )
        };
        self.wait(|| left() == (0, 0, 0))
            .await
            .with_context(|| format!("objects, Jobs and pods are left: {:?}", left()))
    }

    /// Deletes all objects of the loads of this type.
    async fn delete_all<T: Object>(&self, informer: &SharedInformer<T>) -> Result<()> {
        if T::RESOURCE.namespaced {
            return objects::delete_all::<T>(&self.client, NAMESPACE).await;
        }
        let options = json!({"propagationPolicy": "Background"});
        for object in ours(informer) {
            let target = target::<T>(Some(&object.meta().name));
            match self.client.delete(target, &options).await {
                Err(error) if !error.is_not_found() => {
                    return Err(error).with_context(|| format!("delete a {}", T::RESOURCE));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits until `count` objects of the loads exist, and `holds` is true for all of them.
    async fn all<T: Object>(
        &self,
        informer: &SharedInformer<T>,
        count: usize,
        holds: impl Fn(&T) -> bool,
    ) -> Result<()> {
        let settled = || {
            let objects = ours(informer);
            let settled = objects.iter().filter(|object| holds(object)).count();
            (objects.len(), settled)
        };
        self.wait(|| settled() == (count, count))
            .await
            .with_context(|| {
                let (found, settled) = settled();
                format!(
                    "{settled} of {found} {} are settled, {count} should be",
                    T::RESOURCE
                )
            })
    }

    /// Waits until `count` Deployments are rolled out with `replicas` pods each.
    async fn rolled_out(&self, count: usize, replicas: usize) -> Result<()> {
        let is_settled = |deployment: &Deployment| is_rolled_out(deployment, replicas);
        self.all(&self.deployments, count, is_settled).await
    }

    async fn wait(&self, holds: impl Fn() -> bool) -> Result<()> {
        wait(&self.changed, holds).await
    }
}

fn name(index: usize) -> String {
    format!("{PREFIX}{index:04}")
}

/// Whether a Deployment is rolled out with `replicas` pods.
fn is_rolled_out(deployment: &Deployment, replicas: usize) -> bool {
    let status = &deployment.status;
    let counts = [
        deployment.spec.replicas,
        status.replicas,
        status.updated_replicas,
        status.available_replicas,
    ];
    status.observed_generation >= deployment.meta.generation
        && counts
            .iter()
            .all(|count| usize::try_from(*count) == Ok(replicas))
}

/// The patch of `kubectl rollout restart`.
fn restarted() -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"revision": "2"}}}}})
}

/// The namespace of the objects of this type; empty if they have none.
fn namespace<T: Object>() -> &'static str {
    if T::RESOURCE.namespaced {
        NAMESPACE
    } else {
        ""
    }
}

/// The objects of the loads of this type.
fn ours<T: Object>(informer: &SharedInformer<T>) -> Vec<Arc<T>> {
    let store = informer.store();
    if T::RESOURCE.namespaced {
        return store.in_namespace(NAMESPACE);
    }
    let all = store.list().into_iter();
    all.filter(|object| object.meta().name.starts_with(PREFIX))
        .collect()
}

fn target<T: Object>(name: Option<&str>) -> Target<'_> {
    Target {
        resource: T::RESOURCE,
        namespace: T::RESOURCE.namespaced.then_some(NAMESPACE),
        name,
        subresource: None,
    }
}

/// `spec` with labels of its own for the object of this number.
fn labelled(spec: &Value, index: usize) -> Value {
    let mut spec = spec.clone();
    spec["selector"]["matchLabels"]["app"] = name(index).into();
    spec["template"]["metadata"]["labels"]["app"] = name(index).into();
    spec
}

fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example/main:v1",
            "env": [{"name": "SETTING", "value": "value"}],
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        }]},
    })
}
