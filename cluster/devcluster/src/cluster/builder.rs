//! [`Builder`]: a cluster with objects, nodes, controllers and programs.
//!
//! server (empty, or of a snapshot) -> objects -> nodes -> controllers, synced -> programs of the
//! caller

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use steersman_apiserver::requests::RequestLog;
use steersman_apiserver::{Admission, Server, aggregate, compact_revisions, expire_events};
use steersman_nodes::{ATTACH_DETACH, BINDER, NodesConfig};
use steersman_releases::Release;
use steersman_runtime::controller::Descriptor;
use steersman_values::clock::Clock;

use super::DevCluster;
use super::error::StartError;
use super::manifests;
use super::running::{Program, Running};
use super::snapshot::Snapshot;

/// Describes the initial state of a [`DevCluster`]; see [`DevCluster::builder`].
#[must_use = "a builder has no effect before `start`"]
pub struct Builder {
    clock: Option<Clock>,
    release: Release,
    managed_fields: bool,
    managed_fields_opt_out: bool,
    deletion_versions: bool,
    snapshot: Option<Snapshot>,
    admission: Option<Admission>,
    event_ttl: Duration,
    compaction_interval: Duration,
    metrics: bool,
    log: RequestLog,
    seed: Option<u64>,
    objects: Vec<Source>,
    nodes: NodesConfig,
    controllers: Vec<Descriptor>,
    unknown: Option<StartError>,
    programs: Vec<Program>,
}

/// An object or manifest, and the way it is stored.
enum Source {
    Stored(Result<Value, serde_json::Error>),
    Created(Result<Value, serde_json::Error>),
    Text(String),
    File(PathBuf),
}

/// A cluster that cannot be started as described.
impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: None,
            release: Release::DEFAULT,
            managed_fields: true,
            managed_fields_opt_out: false,
            deletion_versions: false,
            snapshot: None,
            admission: None,
            event_ttl: Duration::ZERO,
            compaction_interval: Duration::ZERO,
            metrics: true,
            log: RequestLog::default(),
            seed: None,
            objects: Vec::new(),
            nodes: NodesConfig {
                count: 0,
                ..NodesConfig::default()
            },
            controllers: Vec::new(),
            unknown: None,
            programs: Vec::new(),
        }
    }
}

impl Builder {
    /// The clock of stored times. The default starts at the current time and follows Tokio's time.
    /// A test that pauses and advances Tokio's time thus moves it, too.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The release of Kubernetes to serve, such as `1.34`, `v1.34` or `1.34.8`: its resources, fields and
    /// feature gates, as far as docs/releases.md lists them. The default is 1.36.
    /// [`start`](Self::start) returns the error for an unknown release. A cluster that starts from a
    /// snapshot has the release of the snapshot.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use steersman_devcluster::DevCluster;
    ///
    /// let cluster = DevCluster::builder().kubernetes_version("1.34").start().await?;
    /// assert_eq!(cluster.get("/version").await?["gitVersion"], "v1.34.8");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn kubernetes_version(mut self, version: &str) -> Self {
        match version.parse() {
            Ok(release) => self.release(release),
            Err(unknown) => {
                self.unknown.get_or_insert(StartError::from(unknown));
                self
            }
        }
    }

    /// As [`kubernetes_version`](Self::kubernetes_version), for a release that is known.
    pub fn release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// Whether all writes are recorded in `metadata.managedFields`, as a real server does. The
    /// default is true. Otherwise recording starts at the first server-side apply of an object, and
    /// writes are faster.
    pub fn managed_fields(mut self, recorded: bool) -> Self {
        self.managed_fields = recorded;
        self
    }

    /// Lets clients ask for objects without `metadata.managedFields`: by `drop=metadata.managedFields` in
    /// `Accept`, as servers of 1.38 with the feature gate `ManagedFieldsOptOut`. The default is that they
    /// cannot. Informers ask for it.
    pub fn managed_fields_opt_out(mut self) -> Self {
        self.managed_fields_opt_out = true;
        self
    }

    /// Answers to DELETE tell the version of the deletion, as API servers do since 1.38. By default a Status has no
    /// version. Controllers then wait for this version, and no longer for the event.
    pub fn deletion_versions(mut self) -> Self {
        self.deletion_versions = true;
        self
    }

    /// Optional admission plugins. By default none is active, or those of the snapshot.
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Time after its last write at which an Event is deleted, as `--event-ttl` of kube-apiserver.
    /// The default is zero, which keeps Events forever: tests that advance time by days still find
    /// them.
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// Whether the cluster serves the metrics APIs of metrics-server and its relatives. The default is
    /// true. A plain kube-apiserver has none of them.
    pub fn metrics(mut self, served: bool) -> Self {
        self.metrics = served;
        self
    }

    /// Time between two compactions, as `--etcd-compaction-interval` of kube-apiserver. Then lists of
    /// the revisions before the last compaction, and their continue tokens, answer 410. The default is
    /// zero: no compaction.
    pub fn compaction_interval(mut self, interval: Duration) -> Self {
        self.compaction_interval = interval;
        self
    }

    /// Number of latest requests that [`DevCluster::requests`] returns. The default is 10,000,
    /// which need some megabytes. Counts always cover all requests.
    pub fn kept_requests(mut self, kept: usize) -> Self {
        self.log = RequestLog::of_latest(kept);
        self
    }

    /// Seed of random values. Clusters with the same seed get the same names, UIDs, lengths of
    /// watches, latencies of nodes and random delays of [`faults`](crate::faults).
    ///
    /// The order of concurrent requests still depends on their tasks.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use serde_json::json;
    /// use steersman_devcluster::DevCluster;
    ///
    /// let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "settings-"}});
    /// let (one, other) = (DevCluster::builder().seed(7).start().await?, DevCluster::builder().seed(7).start().await?);
    /// assert_eq!(one.create(map.clone()).await?["metadata"]["name"], other.create(map).await?["metadata"]["name"]);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts with the objects of a snapshot instead of an empty cluster.
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Creates an object through the API, with defaults, validation and a new UID. It can be JSON
    /// or a type of `k8s-openapi`.
    pub fn object(mut self, object: impl Serialize) -> Self {
        self.objects
            .push(Source::Created(serde_json::to_value(object)));
        self
    }

    /// Stores an object unchanged, with UID, status and times, as [`DevCluster::load`] does.
    pub fn load(mut self, object: impl Serialize) -> Self {
        self.objects
            .push(Source::Stored(serde_json::to_value(object)));
        self
    }

    /// Applies objects in YAML or JSON, several documents or a `List`, as `kubectl apply` does.
    pub fn manifest(mut self, text: impl Into<String>) -> Self {
        self.objects.push(Source::Text(text.into()));
        self
    }

    /// Applies a file, or all files of a directory.
    pub fn manifest_file(mut self, path: impl AsRef<Path>) -> Self {
        self.objects.push(Source::File(path.as_ref().to_owned()));
        self
    }

    /// Number of simulated nodes that run created pods; zero by default.
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes.count = count;
        self
    }

    /// Simulated nodes with configured names, latencies and stages.
    pub fn simulated_nodes(mut self, config: NodesConfig) -> Self {
        self.nodes = config;
        self
    }

    /// Adds all controllers of a table that are enabled by default; Steersman's table is
    /// `steersman_controllers::ALL`. A controller replaces an earlier one of the same name.
    pub fn controllers(mut self, table: &[Descriptor]) -> Self {
        table
            .iter()
            .filter(|descriptor| descriptor.enabled_by_default)
            .for_each(|descriptor| self.add(*descriptor));
        self
    }

    /// Adds the controllers of a table with these names or aliases (`deployment`), including those
    /// that are disabled by default. [`start`](Self::start) returns the error for an unknown name.
    ///
    /// For Steersman's own controllers, call `.controllers_named(steersman_controllers::ALL,
    /// ["deployment", "replicaset"])`. A controller of the caller is a [`Descriptor`], too:
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{future::Future, pin::Pin, sync::Arc};
    /// # use steersman_devcluster::DevCluster;
    /// # use steersman_client::{ApiClient, Target};
    /// # use steersman_runtime::controller::{Controller, Descriptor};
    /// # use steersman_objects::Pod;
    /// # use steersman_runtime::{reads::Read, tasks::CancellationToken};
    /// # use steersman_values::resource::PODS;
    /// # use serde_json::json;
    /// /// Deletes every pod it finds at its start.
    /// const REAPER: Descriptor = Descriptor {
    ///     name: "pod-reaper",
    ///     aliases: &["reaper"],
    ///     enabled_by_default: false,
    ///     summary: "Deletes every pod it finds at its start",
    ///     identity: "pod-reaper",
    ///     reads: &[Read::of::<Pod>()],
    ///     rules: &[],
    ///     init: |context| {
    ///         let (pods, client) = (context.informers.shared::<Pod>().store(), (context.clients)("pod-reaper"));
    ///         Ok(Box::new(Reaper { pods: Box::new(move || pods.list()), client }))
    ///     },
    /// };
    ///
    /// struct Reaper {
    ///     pods: Box<dyn Fn() -> Vec<Arc<Pod>> + Send>,
    ///     client: ApiClient,
    /// }
    ///
    /// impl Controller for Reaper {
    ///     fn run(self: Box<Self>, _stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    ///         Box::pin(async move {
    ///             for pod in (self.pods)() {
    ///                 let (namespace, name) = (Some(pod.meta.namespace.as_str()), Some(&*pod.meta.name));
    ///                 let target = Target { resource: &PODS, namespace, name, subresource: None };
    ///                 self.client.delete(target, &json!({})).await.expect("no other client deletes pods");
    ///             }
    ///         })
    ///     }
    /// }
    ///
    /// let cluster = DevCluster::builder()
    ///     .manifest("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: web}]}}")
    ///     .controllers_named(&[REAPER], ["reaper"])
    ///     .start()
    ///     .await?;
    /// cluster.wait_for("pods", std::time::Duration::from_secs(60), |pods| pods.is_empty()).await.expect("the pod is deleted");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn controllers_named<'a>(
        mut self,
        table: &[Descriptor],
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        for name in names {
            match table
                .iter()
                .find(|descriptor| descriptor.name == name || descriptor.aliases.contains(&name))
            {
                Some(descriptor) => self.add(*descriptor),
                None => {
                    let known = table.iter().map(|descriptor| descriptor.name).collect();
                    self.unknown.get_or_insert(StartError::UnknownController {
                        name: name.to_owned(),
                        known,
                    });
                }
            }
        }
        self
    }

    /// Runs a program beside the cluster, such as an operator under test. It runs until it returns,
    /// or until [`DevCluster::stop`] drops it.
    pub fn run<F>(
        mut self,
        name: &str,
        program: impl FnOnce(kube::Client) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.programs.push(Program {
            name: name.to_owned(),
            start: Box::new(|client| Box::pin(program(client))),
        });
        self
    }

    fn add(&mut self, descriptor: Descriptor) {
        self.controllers
            .retain(|known| known.name != descriptor.name);
        self.controllers.push(descriptor);
    }

    /// Starts the cluster. When this returns, the objects exist, the nodes are ready, and the
    /// controllers are synced. Must be called inside a Tokio runtime.
    pub async fn start(mut self) -> Result<DevCluster, StartError> {
        if let Some(unknown) = self.unknown {
            return Err(unknown);
        }
        let clock = self
            .clock
            .unwrap_or_else(|| Clock::runtime(Timestamp::now()));
        let mut server = match &self.snapshot {
            Some(snapshot) => snapshot.server(clock, self.managed_fields, self.seed),
            None => Server::of_release(self.release, clock, self.managed_fields, self.seed),
        };
        let version = &mut self.nodes.kubelet_version;
        version.get_or_insert_with(|| server.release().git_version());
        let runs = |name: &str| self.controllers.iter().any(|known| known.name == name);
        if runs(BINDER) {
            self.nodes.binds_claims = false;
        }
        if runs(ATTACH_DETACH) {
            self.nodes.attaches_volumes = true;
        }
        if let Some(seed) = self.seed {
            server.faults.seed(seed);
            self.nodes.seed.get_or_insert(seed);
        }
        server.log = self.log;
        if let Some(admission) = self.admission {
            server.set_admission(admission);
        }
        if self.managed_fields_opt_out {
            server.allow_managed_fields_opt_out();
        }
        if self.deletion_versions {
            server.tell_deletion_versions();
        }
        if self.metrics {
            server.serve_metrics();
        }
        let server = Arc::new(server);
        let mut cluster = DevCluster::over(Arc::clone(&server));
        for source in self.objects {
            source.store(&cluster).await?;
        }
        let running =
            Running::start(&cluster, self.nodes, &self.controllers, self.programs).await?;
        running.beside("aggregator", aggregate(Arc::clone(&server)));
        if !self.event_ttl.is_zero() {
            running.beside(
                "event-ttl",
                expire_events(Arc::clone(&server), self.event_ttl),
            );
        }
        if !self.compaction_interval.is_zero() {
            running.beside(
                "compaction",
                compact_revisions(server, self.compaction_interval),
            );
        }
        cluster.keep(running);
        Ok(cluster)
    }
}

impl Source {
    /// Adds the object or manifest to the cluster.
    async fn store(self, cluster: &DevCluster) -> Result<(), StartError> {
        let refused = |object: &Value, source| {
            let text = |pointer: &str| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or("?")
                    .to_owned()
            };
            StartError::Object {
                object: format!("{} {:?}", text("/kind"), text("/metadata/name")),
                source,
            }
        };
        let manifests = match self {
            Self::Stored(object) => {
                let object = object?;
                return cluster
                    .load(object.clone())
                    .map_err(|status| refused(&object, status));
            }
            Self::Created(object) => {
                let object = object?;
                return cluster
                    .create(object.clone())
                    .await
                    .map(drop)
                    .map_err(|status| refused(&object, status));
            }
            Self::Text(text) => manifests::parse(Path::new("manifest"), &text)?,
            Self::File(path) => manifests::read(&path)?,
        };
        for manifest in manifests {
            manifest.apply(cluster).await?;
        }
        Ok(())
    }
}
