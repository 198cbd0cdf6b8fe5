//! The load of the other controllers: StatefulSets, DaemonSets, Jobs, CronJobs, Services, nodes,
//! requests for certificates, autoscalers, and quotas.
//!
//! Each load creates its objects, waits for their status, and deletes them again, so that loads can
//! follow each other. Pods are small: other controllers than that of Deployments read little of
//! them. Waits read informers, because polling would load the API server.

mod autoscalers;
mod claims;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_devcluster::nodes::{self, NodesConfig, Pods};
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::clock::Clock;
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use steersman_runtime::object::{
    CertificateSigningRequest, CronJob, DaemonSet, Deployment, EndpointSlice,
    HorizontalPodAutoscaler, Job, Node, Object, PersistentVolume, PersistentVolumeClaim, Pod,
    Service, StatefulSet, VolumeAttachment,
};
use steersman_runtime::resource::{LEASES, NAMESPACES, NODES};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::sync::Notify;

use crate::namespaces::Namespaces;
use crate::quotas::Quotas;
use crate::slices::SliceWatch;
use crate::waiting::{wait, watched};
use crate::{Bench, csrs, idle};

/// Namespace of all objects of the loads.
const NAMESPACE: &str = "bench-workloads";
/// Prefix of the names of the nodes of the load `nodes`.
const NODE_PREFIX: &str = "bench-node-";
/// Namespace of the Leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Deletions of nodes in flight at once.
const AT_ONCE: usize = 16;
/// Pods that a simulated node takes.
const PODS_PER_NODE: usize = 10_000;
/// Time between the creation of CronJobs and the minute of their run.
const LEAD: SignedDuration = SignedDuration::from_secs(60);

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// 100 StatefulSets of 10 pods, with parallel pod management.
    ParallelStatefulSets,
    /// 100 StatefulSets of 10 pods, one pod after the other.
    OrderedStatefulSets,
    /// 20 DaemonSets on all nodes.
    DaemonSets,
    /// 2,000 Jobs of one pod.
    Jobs,
    /// 20 Jobs of 500 indexes.
    IndexedJobs,
    /// 1,000 CronJobs that are due in the same minute.
    CronJobs,
    /// Services, each with the pods of a Deployment, which are rolled out. Also measures the writes of
    /// EndpointSlices, and the time from the readiness of a pod until a slice shows it.
    Services,
    /// Namespaces that get their account and their ConfigMap `kube-root-ca.crt`, and are deleted. The
    /// managers must run namespace-controller.
    Namespaces,
    /// Nodes that get ranges of pod addresses, send heartbeats, and are deleted. The managers must run
    /// node-ipam-controller.
    Nodes,
    /// Requests of kubelets for client certificates, which are approved and signed.
    Csrs,
    /// HorizontalPodAutoscalers over Deployments with a sawtooth of load. The embedded API server has
    /// the metrics; on another one, the cluster needs a metrics server that reads the annotations.
    Autoscalers,
    /// Claims that get volumes, and are deleted with them. Another API server than the embedded one
    /// needs the provisioner of `steersman nodes --schedule`.
    Claims,
    /// Pods that come and go in namespaces with a quota.
    Quotas,
    /// Pods with attached volumes, which move to other nodes. Another API server than the embedded one
    /// needs `steersman nodes --attach`.
    Volumes,
}

/// The sizes of the loads that are too large for a trial.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Sizes {
    /// Services of the workload `services`.
    #[arg(long, default_value_t = 500, value_name = "N")]
    services: usize,
    /// Pods of each Service.
    #[arg(long, default_value_t = 100, value_name = "N")]
    service_pods: usize,
    /// Namespaces of the workload `namespaces`.
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    namespaces: usize,
    /// Nodes of the workload `nodes`.
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    nodes: usize,
    /// Requests of the workload `csrs`.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    csrs: usize,
    /// Time for which these nodes send heartbeats, in seconds.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    heartbeats: u64,
    /// Autoscalers of the workload `autoscalers`, each with a Deployment.
    #[arg(long, default_value_t = 500, value_name = "N")]
    autoscalers: usize,
    /// Time for which these autoscalers work, in minutes.
    #[arg(long, default_value_t = 10, value_name = "MINUTES")]
    autoscaler_minutes: u64,
    /// Claims of the workload `claims`.
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    claims: usize,
    /// Namespaces of the workload `quotas`, each with a quota.
    #[arg(long, default_value_t = 200, value_name = "N")]
    quotas: usize,
    /// Pods that come and go in these namespaces.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    quota_pods: usize,
    /// Volumes of the workload `volumes`, each with a pod.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    volumes: usize,
}

impl Sizes {
    /// The number of simulated nodes that take the pods of all Services, also in a roll-out.
    pub(crate) fn nodes_for_pods(&self) -> usize {
        (self.services * self.service_pods * 2)
            .div_ceil(PODS_PER_NODE)
            .max(3)
    }
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
    services: SharedInformer<Service>,
    autoscalers: SharedInformer<HorizontalPodAutoscaler>,
    slices: SharedInformer<EndpointSlice>,
    csrs: SharedInformer<CertificateSigningRequest>,
    claims: SharedInformer<PersistentVolumeClaim>,
    volumes: SharedInformer<PersistentVolume>,
    attachments: SharedInformer<VolumeAttachment>,
    slice_watch: SliceWatch,
    namespaces: Namespaces,
    quotas: Quotas,
    sizes: Sizes,
    changed: Arc<Notify>,
}

impl Workloads {
    /// Watches the cluster behind `client` through `informers`, which the caller starts afterwards.
    pub(crate) fn new(client: ApiClient, informers: &InformerFactory, sizes: Sizes) -> Self {
        let changed = Arc::new(Notify::new());
        let (pods, slices) = (watched(informers, &changed), watched(informers, &changed));
        Self {
            namespaces: Namespaces::new(client.clone(), informers),
            quotas: Quotas::new(client.clone(), informers),
            client,
            stateful_sets: watched(informers, &changed),
            daemon_sets: watched(informers, &changed),
            jobs: watched(informers, &changed),
            cron_jobs: watched(informers, &changed),
            nodes: watched(informers, &changed),
            deployments: watched(informers, &changed),
            services: watched(informers, &changed),
            csrs: watched(informers, &changed),
            claims: watched(informers, &changed),
            volumes: watched(informers, &changed),
            attachments: watched(informers, &changed),
            autoscalers: watched(informers, &changed),
            slice_watch: SliceWatch::start(NAMESPACE, &pods, &slices),
            pods,
            slices,
            sizes,
            changed,
        }
    }

    /// Creates the namespace of the loads. It may exist.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let target = Target {
            resource: &NAMESPACES,
            namespace: None,
            name: None,
            subresource: None,
        };
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        match self.client.create(target, &body).await {
            Err(error) if !error.is_already_exists() => Err(error).context("create the namespace"),
            _ => Ok(()),
        }
    }

    /// Runs `load`, and adds one row for each of its phases.
    pub(crate) async fn run(&self, load: Workload, bench: &mut Bench<'_>) -> Result<()> {
        match load {
            Workload::ParallelStatefulSets => self.stateful_sets(bench, "Parallel").await,
            Workload::OrderedStatefulSets => self.stateful_sets(bench, "OrderedReady").await,
            Workload::DaemonSets => self.daemon_sets(bench).await,
            Workload::Jobs => self.jobs(bench, 2_000, &json!({})).await,
            Workload::IndexedJobs => {
                let indexes =
                    json!({"completions": 500, "parallelism": 50, "completionMode": "Indexed"});
                self.jobs(bench, 20, &indexes).await
            }
            Workload::CronJobs => self.cron_jobs(bench).await,
            Workload::Services => self.services(bench).await,
            Workload::Namespaces => self.namespaces.run(self.sizes.namespaces, bench).await,
            Workload::Nodes => self.nodes(bench).await,
            Workload::Csrs => self.csrs(bench).await,
            Workload::Autoscalers => self.autoscalers(bench).await,
            Workload::Claims => self.claims(bench).await,
            Workload::Quotas => {
                let Sizes {
                    quotas, quota_pods, ..
                } = self.sizes;
                self.quotas.run(quotas, quota_pods, bench).await
            }
            Workload::Volumes => self.volumes(bench).await,
        }
    }

    async fn csrs(&self, bench: &mut Bench<'_>) -> Result<()> {
        let specs = (0..self.sizes.csrs).map(|_| csrs::spec());
        let specs: Vec<Value> = specs.collect::<Result<_>>()?;
        bench
            .phase("approve and sign", 0, async {
                for (index, spec) in specs.iter().enumerate() {
                    self.create::<CertificateSigningRequest>(index, spec)
                        .await?;
                }
                self.all(&self.csrs, specs.len(), |csr| csr.status.certificate.0)
                    .await
            })
            .await?;
        bench
            .phase("delete", 0, async {
                for index in 0..specs.len() {
                    let name = name(index);
                    let target = target::<CertificateSigningRequest>(Some(&name));
                    let deleted = self.client.delete(target, &json!({})).await;
                    deleted.with_context(|| format!("delete the request {name}"))?;
                }
                self.all(&self.csrs, 0, |_| true).await
            })
            .await
    }

    async fn services(&self, bench: &mut Bench<'_>) -> Result<()> {
        let Sizes {
            services,
            service_pods,
            ..
        } = self.sizes;
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
                self.services_settled().await
            })
            .await?;
        bench.add_slices(self.slice_watch.take());
        bench
            .phase("roll out", pods, async {
                self.restart::<Deployment>(services).await?;
                self.services_settled().await
            })
            .await?;
        bench.add_slices(self.slice_watch.take());
        bench
            .phase("delete", pods, async {
                self.delete_all::<Service>().await?;
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
    async fn services_settled(&self) -> Result<()> {
        let (services, pods) = (self.sizes.services, self.sizes.service_pods);
        let wanted = i32::try_from(pods)?;
        let is_settled = |deployment: &Deployment| {
            let status = &deployment.status;
            status.observed_generation >= deployment.meta.generation
                && [
                    status.replicas,
                    status.updated_replicas,
                    status.available_replicas,
                ] == [wanted; 3]
        };
        self.all(&self.deployments, services, is_settled).await?;
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

    async fn nodes(&self, bench: &mut Bench<'_>) -> Result<()> {
        let Sizes {
            nodes, heartbeats, ..
        } = self.sizes;
        let (tasks, stop) = (Tasks::default(), CancellationToken::new());
        let config = NodesConfig {
            count: nodes,
            prefix: NODE_PREFIX.to_owned(),
            pods: Pods::OfOwnNodes,
            ..NodesConfig::default()
        };
        let store = self.nodes.store();
        let count = |holds: fn(&Node) -> bool| {
            let all = store.list();
            let ours = all
                .iter()
                .filter(|node| node.meta.name.starts_with(NODE_PREFIX));
            ours.filter(|node| holds(node)).count()
        };
        let with_range = || count(|node| !node.spec.pod_cidrs.is_empty());
        bench
            .phase("create", 0, async {
                nodes::start(config, self.client.clone(), Clock::system(), &tasks, &stop).await?;
                self.wait(|| with_range() == nodes)
                    .await
                    .with_context(|| format!("{} of {nodes} nodes have a range", with_range()))
            })
            .await?;
        bench
            .phase("heartbeats", 0, idle(Duration::from_secs(heartbeats)))
            .await?;
        stop.cancel();
        tasks.join(Duration::from_secs(5)).await;
        bench
            .phase("delete", 0, async {
                let deleted = (0..nodes).map(|index| self.delete_node(index));
                stream::iter(deleted)
                    .buffer_unordered(AT_ONCE)
                    .try_collect::<()>()
                    .await
                    .context("delete the nodes")?;
                self.wait(|| count(|_| true) == 0)
                    .await
                    .context("nodes are left")
            })
            .await
    }

    /// Deletes a node of the load and its Lease.
    async fn delete_node(&self, index: usize) -> Result<(), ApiError> {
        let name = format!("{NODE_PREFIX}{index}");
        let options = json!({"propagationPolicy": "Background"});
        for (resource, namespace) in [(&NODES, None), (&LEASES, Some(LEASE_NAMESPACE))] {
            let target = Target {
                resource,
                namespace,
                name: Some(&name),
                subresource: None,
            };
            match self.client.delete(target, &options).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    async fn stateful_sets(&self, bench: &mut Bench<'_>, management: &str) -> Result<()> {
        const SETS: usize = 100;
        const REPLICAS: i32 = 10;
        let spec = json!({
            "replicas": REPLICAS, "podManagementPolicy": management, "serviceName": "",
            "selector": {"matchLabels": {"app": "bench"}}, "template": template("bench"),
        });
        let settled = || {
            let is_settled = |set: &StatefulSet| {
                let status = &set.status;
                status.observed_generation >= set.meta.generation
                    && [status.available_replicas, status.updated_replicas] == [REPLICAS; 2]
                    && status.current_revision == status.update_revision
            };
            self.all(&self.stateful_sets, SETS, is_settled)
        };
        let pods = SETS * 10;
        bench
            .phase("create", pods, async {
                for index in 0..SETS {
                    self.create::<StatefulSet>(index, &labelled(&spec, index))
                        .await?;
                }
                settled().await
            })
            .await?;
        bench
            .phase("roll out", pods, async {
                self.restart::<StatefulSet>(SETS).await?;
                settled().await
            })
            .await?;
        bench
            .phase("delete", pods, self.delete(&self.stateful_sets))
            .await
    }

    async fn daemon_sets(&self, bench: &mut Bench<'_>) -> Result<()> {
        const SETS: usize = 20;
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
            self.all(&self.daemon_sets, SETS, is_settled)
        };
        let pods = SETS * nodes;
        bench
            .phase("create", pods, async {
                for index in 0..SETS {
                    self.create::<DaemonSet>(index, &labelled(&spec, index))
                        .await?;
                }
                settled().await
            })
            .await?;
        bench
            .phase("roll out", pods, async {
                self.restart::<DaemonSet>(SETS).await?;
                settled().await
            })
            .await?;
        bench
            .phase("delete", pods, self.delete(&self.daemon_sets))
            .await
    }

    async fn jobs(&self, bench: &mut Bench<'_>, count: usize, more: &Value) -> Result<()> {
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

    async fn cron_jobs(&self, bench: &mut Bench<'_>) -> Result<()> {
        const COUNT: usize = 1_000;
        let due = (Timestamp::now() + LEAD + SignedDuration::from_secs(60)).to_zoned(TimeZone::UTC);
        let spec = json!({
            "schedule": format!("{} {} * * *", due.minute(), due.hour()), "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": job_spec(&json!({}))},
        });
        bench
            .phase("create", 0, async {
                for index in 0..COUNT {
                    self.create::<CronJob>(index, &spec).await?;
                }
                self.all(&self.cron_jobs, COUNT, |_| true).await
            })
            .await?;
        let is_done = |cron_job: &CronJob| {
            let status = &cron_job.status;
            status.last_successful_time.is_some() && status.active.is_empty()
        };
        bench
            .phase("run", COUNT, self.all(&self.cron_jobs, COUNT, is_done))
            .await?;
        bench
            .phase("delete", COUNT, self.delete(&self.cron_jobs))
            .await
    }

    async fn create<T: Object>(&self, index: usize, spec: &Value) -> Result<()> {
        let resource = T::RESOURCE;
        let body = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"name": name(index)}, "spec": spec,
        });
        let created = self.client.create(target::<T>(None), &body).await;
        created.with_context(|| format!("create {resource} {}", name(index)))?;
        Ok(())
    }

    /// Changes the pod templates, as `kubectl rollout restart` does.
    async fn restart<T: Object>(&self, count: usize) -> Result<()> {
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"revision": "2"}}}}});
        for index in 0..count {
            let name = name(index);
            let patched = self
                .client
                .patch(target::<T>(Some(&name)), PatchKind::Strategic, &patch)
                .await;
            patched.with_context(|| format!("patch {} {name}", T::RESOURCE))?;
        }
        Ok(())
    }

    /// Deletes all objects of the type, and waits until they, their Jobs and their pods are gone.
    async fn delete<T: Object>(&self, informer: &SharedInformer<T>) -> Result<()> {
        self.delete_all::<T>().await?;
        let (objects, jobs, pods) = (informer.store(), self.jobs.store(), self.pods.store());
        self.wait(|| objects.is_empty() && jobs.is_empty() && pods.is_empty())
            .await
            .with_context(|| format!("{} pods are left", pods.len()))
    }

    async fn delete_all<T: Object>(&self) -> Result<()> {
        let options = json!({"propagationPolicy": "Background"});
        let deleted = self.client.delete(target::<T>(None), &options).await;
        deleted.with_context(|| format!("delete all {}", T::RESOURCE))?;
        Ok(())
    }

    /// Waits until `count` objects exist, and `holds` is true for all of them.
    async fn all<T: Object>(
        &self,
        informer: &SharedInformer<T>,
        count: usize,
        holds: impl Fn(&T) -> bool,
    ) -> Result<()> {
        let store = informer.store();
        self.wait(|| store.len() == count && store.list().iter().all(|object| holds(object)))
            .await
            .with_context(|| {
                let settled = store.list().iter().filter(|object| holds(object)).count();
                format!("{settled} of {count} {} are settled", T::RESOURCE)
            })
    }

    async fn wait(&self, holds: impl Fn() -> bool) -> Result<()> {
        wait(&self.changed, holds).await
    }
}

fn name(index: usize) -> String {
    format!("w-{index:04}")
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

fn job_spec(more: &Value) -> Value {
    let mut spec = json!({"template": template("job")});
    spec["template"]["spec"]["restartPolicy"] = "Never".into();
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}
