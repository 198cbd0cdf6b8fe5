//! [`Builder`]: a cluster with everything in it that a test, or whoever tries something, wants to
//! find at its start.
//!
//! server (empty, or of a snapshot) -> objects -> nodes -> controllers, synced -> programs of the
//! user's own

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use steersman_runtime::clock::Clock;
use steersman_runtime::controller::{Descriptor, InitError};

use crate::DevCluster;
use crate::admission::Admission;
use crate::expiry;
use crate::manifests::{self, ManifestError};
use crate::nodes::{NodesConfig, NodesError};
use crate::requests::RequestLog;
use crate::rest::Server;
use crate::running::{Program, Running};
use crate::snapshot::Snapshot;
use crate::status::Status;

/// Says what a [`DevCluster`] begins with; see [`DevCluster::builder`].
#[must_use = "nothing is there before `start`"]
pub struct Builder {
    clock: Option<Clock>,
    managed_fields: bool,
    snapshot: Option<Snapshot>,
    admission: Option<Admission>,
    event_ttl: Duration,
    log: RequestLog,
    seed: Option<u64>,
    objects: Vec<Source>,
    nodes: NodesConfig,
    controllers: Vec<Descriptor>,
    unknown: Option<StartError>,
    programs: Vec<Program>,
}

/// Where objects come from, and how they get in.
enum Source {
    Stored(Result<Value, serde_json::Error>),
    Created(Result<Value, serde_json::Error>),
    Text(String),
    File(PathBuf),
}

/// A cluster could not be started as it was described.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An object does not serialise.
    #[error("an object cannot be written as JSON: {0}")]
    Serialize(#[from] serde_json::Error),
    /// An object was refused.
    #[error("{object}: {source}")]
    Object {
        /// Kind and name.
        object: String,
        /// The server's words.
        #[source]
        source: Status,
    },
    /// A manifest cannot be read or was refused.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// No controller of the table is called so.
    #[error("no controller is called {name:?}; there are {}", known.join(", "))]
    UnknownController {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// A controller could not be built.
    #[error(transparent)]
    Controller(#[from] InitError),
    /// The simulated nodes could not be set up.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// Metrics of the machinery clash.
    #[error("set up controllers: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: None,
            managed_fields: true,
            snapshot: None,
            admission: None,
            event_ttl: Duration::ZERO,
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
    /// Where the times of stored objects come from. Without it they begin with the machine's time
    /// and move with Tokio's, so that a test that pauses and advances Tokio's time moves them, too.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Whether writes are recorded in `metadata.managedFields` from creation on, as a real server
    /// does; on unless switched off. Off, recording begins with the first server-side apply to an
    /// object, and writes are faster.
    pub fn managed_fields(mut self, recorded: bool) -> Self {
        self.managed_fields = recorded;
        self
    }

    /// What happens to new pods beyond limits and quotas; nothing without it, or what happened
    /// where the snapshot was taken.
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = Some(admission);
        self
    }

    /// How long after its last write an Event is deleted, as with kube-apiserver's `--event-ttl`.
    /// Zero, as it is unless set, keeps Events for ever: a test that lets days pass finds them all.
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// How many of the latest requests [`DevCluster::requests`] tells; 10,000 unless set, which
    /// weigh some megabytes. Counts are of all requests, whatever this is.
    pub fn kept_requests(mut self, kept: usize) -> Self {
        self.log = RequestLog::of_latest(kept);
        self
    }

    /// What is drawn is drawn from this, so that the next cluster with the same seed draws the
    /// same: names, UIDs, how long watches stay open, how long things take on the nodes, the random
    /// delays of [`faults`](crate::faults). Which of two requests comes first is still a matter of
    /// their tasks.
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

    /// Begins with the objects of a snapshot, in place of an empty cluster.
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// An object that is created through the API: defaulted, checked, with a new UID. It may be
    /// JSON or a type of `k8s-openapi`.
    pub fn object(mut self, object: impl Serialize) -> Self {
        self.objects
            .push(Source::Created(serde_json::to_value(object)));
        self
    }

    /// An object that is stored just as it is, with UID, status and times, as [`DevCluster::load`]
    /// does.
    pub fn load(mut self, object: impl Serialize) -> Self {
        self.objects
            .push(Source::Stored(serde_json::to_value(object)));
        self
    }

    /// Objects in YAML or JSON, in several documents or a `List`, that are applied as `kubectl
    /// apply` would.
    pub fn manifest(mut self, text: impl Into<String>) -> Self {
        self.objects.push(Source::Text(text.into()));
        self
    }

    /// The same from a file, or from all files of a directory.
    pub fn manifest_file(mut self, path: impl AsRef<Path>) -> Self {
        self.objects.push(Source::File(path.as_ref().to_owned()));
        self
    }

    /// So many simulated nodes, which run the pods that are created; none without it.
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes.count = count;
        self
    }

    /// Simulated nodes with names, latencies and stages of their own.
    pub fn simulated_nodes(mut self, config: NodesConfig) -> Self {
        self.nodes = config;
        self
    }

    /// All controllers of a table that are on by default; Steersman's own table is
    /// `steersman_controllers::ALL`. One that has the name of another added before takes its place.
    pub fn controllers(mut self, table: &[Descriptor]) -> Self {
        table
            .iter()
            .filter(|descriptor| descriptor.enabled_by_default)
            .for_each(|descriptor| self.add(*descriptor));
        self
    }

    /// The controllers of a table with these names or aliases (`deployment`), whether or not they
    /// are on by default. That one does not exist is told by [`start`](Self::start).
    ///
    /// Steersman's own are `.controllers_named(steersman_controllers::ALL, ["deployment",
    /// "replicaset"])`; one of the user's own is a [`Descriptor`], too:
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::{future::Future, pin::Pin, sync::Arc};
    /// # use steersman_devcluster::DevCluster;
    /// # use steersman_runtime::client::{ApiClient, Target};
    /// # use steersman_runtime::controller::{Controller, Descriptor};
    /// # use steersman_runtime::{object::Pod, reads::Read, resource::PODS, tasks::CancellationToken};
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
    ///                 self.client.delete(target, &json!({})).await.expect("nobody else deletes pods");
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
    /// cluster.wait_for("pods", std::time::Duration::from_secs(60), |pods| pods.is_empty()).await.expect("the pod goes");
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

    /// A program that runs beside the cluster from the start, such as an operator under test, until
    /// it ends by itself or [`DevCluster::stop`] drops it.
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

    /// Starts it all. When this returns the objects are there, the nodes are ready, and the
    /// controllers have seen everything that was there before them. Must be called inside a Tokio
    /// runtime.
    pub async fn start(mut self) -> Result<DevCluster, StartError> {
        if let Some(unknown) = self.unknown {
            return Err(unknown);
        }
        let clock = self
            .clock
            .unwrap_or_else(|| Clock::runtime(Timestamp::now()));
        let mut server = match &self.snapshot {
            Some(snapshot) => snapshot.server(clock, self.managed_fields, self.seed),
            None => Server::seeded(clock, self.managed_fields, self.seed),
        };
        if let Some(seed) = self.seed {
            server.faults.seed(seed);
            self.nodes.seed.get_or_insert(seed);
        }
        server.log = self.log;
        if let Some(admission) = self.admission {
            server.set_admission(admission);
        }
        let server = Arc::new(server);
        let mut cluster = DevCluster::over(Arc::clone(&server));
        for source in self.objects {
            source.bring_in(&cluster).await?;
        }
        let running =
            Running::start(&cluster, self.nodes, &self.controllers, self.programs).await?;
        if !self.event_ttl.is_zero() {
            running.beside("event-ttl", expiry::expire_events(server, self.event_ttl));
        }
        cluster.keep(running);
        Ok(cluster)
    }
}

impl Source {
    async fn bring_in(self, cluster: &DevCluster) -> Result<(), StartError> {
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
