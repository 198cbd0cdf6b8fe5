//! The interface between the manager and a controller.
//!
//! [`Descriptor`] in a table -> `init` with a [`ControllerContext`] -> [`Controller::run`]
//!
//! The manager knows a controller only by its descriptor: help, flags, RBAC rules, informers and
//! health checks follow from it. Upstream: `controller_descriptor.go` in
//! `cmd/kube-controller-manager/app`.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::Registry;
use steersman_options::Options;

use steersman_client::{ApiClient, WriteGate};
use steersman_options::features::FeatureGates;
use steersman_releases::Release;
use steersman_values::clock::Clock;
use steersman_why::{Dependent, Reason, Relative};

use crate::events::EventRecorder;
use crate::informer::InformerFactory;
use crate::rbac::Rule;
use crate::reads::Read;
use crate::tasks::{CancellationToken, Tasks};
use crate::workqueue::QueueMetrics;

/// One line of the table of controllers.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    /// Canonical name, such as `deployment-controller`.
    pub name: &'static str,
    /// Other names that `--controllers` accepts, such as `deployment`.
    pub aliases: &'static [&'static str],
    /// True if `*` in `--controllers` includes it. Upstream: `ControllersDisabledByDefault` lists
    /// the exceptions.
    pub enabled_by_default: bool,
    /// Its task in one sentence, for help and docs/reference.md.
    pub summary: &'static str,
    /// Name of its client: the end of its user agent and, with `--use-service-account-credentials`,
    /// its service account. Most identities equal the name.
    pub identity: &'static str,
    /// The types it reads from shared caches. Their watches, indexes and RBAC rules follow from
    /// this list. A standby fills these caches before it leads.
    pub reads: &'static [Read],
    /// Its other RBAC rules: writes and live reads.
    pub rules: &'static [Rule],
    /// Builds the controller. Sends no request; it may read the files that its flags name.
    pub init: fn(&ControllerContext) -> Result<Box<dyn Controller>, InitError>,
}

impl Descriptor {
    /// All RBAC rules that the controller needs with any feature gates, and no others.
    pub fn all_rules(&self) -> Vec<Rule> {
        self.reads
            .iter()
            .map(Read::rule)
            .chain(self.rules.iter().copied())
            .collect()
    }

    /// The rules that the manager's own identity needs with `--use-service-account-credentials`:
    /// those of the informers. A controller of [`MANAGERS_IDENTITIES`] needs all its rules there.
    pub fn rules_of_manager(&self) -> Vec<Rule> {
        let rules = self.all_rules().into_iter();
        if MANAGERS_IDENTITIES.contains(&self.identity) {
            return rules.collect();
        }
        rules.filter_map(|rule| rule.of_informers()).collect()
    }

    /// Requests all caches of the controller from `informers`, in this state of the feature gates, as `release`.
    /// The caches exist before `init` asks for them, so a standby fills them.
    pub fn watch(&self, informers: &InformerFactory, features: &FeatureGates, release: Release) {
        let watch = |read: &Read| read.watch(informers, features, release);
        self.reads.iter().for_each(watch);
    }
}

/// A controller could not be built.
#[derive(Debug, thiserror::Error)]
#[error("build {controller}: {source}")]
pub struct InitError {
    /// Canonical name.
    pub controller: &'static str,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A built controller.
pub trait Controller: Send + 'static {
    /// Runs until `stop`, then finishes the writes in flight and returns. The manager calls it
    /// once, after the informers of the controller have synced.
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// True if the controller's own flags disable it. The manager then drops it, and its health
    /// check.
    fn is_switched_off(&self) -> bool {
        false
    }
}

/// The controller of an `init` whose flags disable it.
pub fn switched_off() -> Box<dyn Controller> {
    Box::new(SwitchedOff)
}

struct SwitchedOff;

impl Controller for SwitchedOff {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { stop.cancelled().await })
    }

    fn is_switched_off(&self) -> bool {
        true
    }
}

/// The identity of the shared informers.
pub const INFORMERS: &str = "shared-informers";

/// The identities that keep the manager's credentials with `--use-service-account-credentials`: the
/// informers, which all controllers share, and the token controller, which depends on no token.
/// Upstream: `rootClientBuilder` in `cmd/kube-controller-manager/app`.
pub const MANAGERS_IDENTITIES: [&str; 2] = [INFORMERS, "tokens-controller"];

/// Keys and certificates of the cluster that no flag names as files.
#[derive(Clone, Default)]
pub struct ClusterCredentials {
    /// Certificates of the API server's authority, in PEM, for an empty `--root-ca-file`: the
    /// `certificate-authority-data` of the kubeconfig. Empty if the kubeconfig has none.
    pub root_ca: Arc<[u8]>,
    /// The private key, in PEM, that signs tokens of ServiceAccounts, for an empty
    /// `--service-account-private-key-file`. Only a cluster within this process has one.
    pub account_key: Option<Arc<str>>,
}

/// Makes the API client of a controller identity, such as `deployment-controller`. With
/// `--use-service-account-credentials` each identity has its own token. Upstream:
/// `ControllerClientBuilder`.
pub type ClientFactory = Arc<dyn Fn(&str) -> ApiClient + Send + Sync>;

/// Answers a request for a debug page. The argument is the query string.
pub type DebugPage = Arc<dyn Fn(&str) -> DebugAnswer + Send + Sync>;

/// The content of a debug page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugAnswer {
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The text.
    pub body: String,
}

/// Debug pages by their path below `/debug/controllers/`, such as
/// `garbage-collector-controller/graph`. Clones share the pages.
#[derive(Clone, Default)]
pub struct DebugPages {
    pages: Arc<Mutex<HashMap<String, DebugPage>>>,
    /// Set by the garbage collector, as is `family`.
    dependents: Arc<Mutex<Option<DependentsOf>>>,
    family: Arc<Mutex<Option<FamilyOf>>>,
    /// By the name of the controller.
    memories: Arc<Mutex<HashMap<&'static str, MemoryOf>>>,
}

/// The memory of a controller about a key, as reasons. The key of most controllers is
/// `namespace/name`, and the controller documents others.
pub type MemoryOf = Arc<dyn Fn(&str, Timestamp) -> Vec<Reason> + Send + Sync>;

/// Answers which dependents block the foreground deletion of the object with a UID.
pub type DependentsOf = Arc<dyn Fn(&str) -> Vec<Dependent> + Send + Sync>;

/// Answers which objects are connected to the object with a UID by owner references, up to a number
/// of objects. Without a UID: the objects that are being deleted or that no cache shows.
pub type FamilyOf = Arc<dyn Fn(&str, usize) -> Vec<Relative> + Send + Sync>;

impl DebugPages {
    /// Serves `page` from now on.
    pub fn add(&self, path: String, page: DebugPage) {
        self.pages.lock().insert(path, page);
    }

    /// Answers questions about dependents from now on.
    pub fn set_dependents(&self, of: DependentsOf) {
        *self.dependents.lock() = Some(of);
    }

    /// The dependents that block the foreground deletion of the object with this UID, if the
    /// garbage collector runs. The lock ends before the call, which takes the locks of the
    /// collector.
    pub fn dependents(&self, uid: &str) -> Vec<Dependent> {
        let of = self.dependents.lock().clone();
        of.map(|of| of(uid)).unwrap_or_default()
    }

    /// Answers questions about families from now on.
    pub fn set_family(&self, of: FamilyOf) {
        *self.family.lock() = Some(of);
    }

    /// The answer of [`FamilyOf`]; `None` without a garbage collector.
    pub fn family(&self, uid: &str, limit: usize) -> Option<Vec<Relative>> {
        let of = self.family.lock().clone();
        of.map(|of| of(uid, limit))
    }

    /// Answers questions about the memory of `controller` from now on.
    pub fn set_memory(&self, controller: &'static str, of: MemoryOf) {
        self.memories.lock().insert(controller, of);
    }

    /// The memory of `controller` about `key`, if the controller runs and has one.
    pub fn memory(&self, controller: &str, key: &str, now: Timestamp) -> Vec<Reason> {
        let of = self.memories.lock().get(controller).cloned();
        of.map(|of| of(key, now)).unwrap_or_default()
    }

    /// The page at `path`.
    pub fn get(&self, path: &str) -> Option<DebugPage> {
        self.pages.lock().get(path).cloned()
    }

    /// True if the controller called `name` has pages.
    pub fn has_any_of(&self, name: &str) -> bool {
        let pages = self.pages.lock();
        pages
            .keys()
            .any(|path| path.split('/').next() == Some(name))
    }
}

/// The services of the manager for its controllers.
#[derive(Clone)]
pub struct ControllerContext {
    /// Shared informers.
    pub informers: InformerFactory,
    /// Clients by identity.
    pub clients: ClientFactory,
    /// The time.
    pub clock: Clock,
    /// Where metrics are registered.
    pub registry: Registry,
    /// Metrics of all work queues.
    pub queue_metrics: QueueMetrics,
    /// The flags.
    pub options: Arc<Options>,
    /// Debug pages, which show the state of a controller.
    pub debug: DebugPages,
    /// Tasks that outlive a controller's `run`, such as event senders.
    pub tasks: Arc<Tasks>,
    /// Ends those tasks. Cancelled after the controllers have stopped.
    pub stop: CancellationToken,
    /// The write gate for Events. `None`: Events pass the gate of all other writes.
    pub event_gate: Option<Arc<dyn WriteGate>>,
    /// The resource version at which this leadership term began, 0 without leader election. An
    /// older cache may lack writes of the previous leader.
    pub term_start_rv: u64,
    /// Feature gates; their defaults unless set.
    pub features: FeatureGates,
    /// The release that the manager equals.
    pub release: Release,
    /// Keys and certificates that no flag names as files.
    pub credentials: ClusterCredentials,
    /// One value per type, for the function `shared`.
    shared: Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>,
}

/// The parts of a [`ControllerContext`] that have no default.
pub struct ContextParts {
    /// Shared informers.
    pub informers: InformerFactory,
    /// Clients by identity.
    pub clients: ClientFactory,
    /// The time.
    pub clock: Clock,
    /// Where metrics are registered.
    pub registry: Registry,
    /// Metrics of all work queues.
    pub queue_metrics: QueueMetrics,
}

impl ControllerContext {
    /// A context in which every flag has its default.
    pub fn new(parts: ContextParts) -> Self {
        let ContextParts {
            informers,
            clients,
            clock,
            registry,
            queue_metrics,
        } = parts;
        let tasks = Arc::default();
        let stop = CancellationToken::new();
        let options = Arc::default();
        let shared = Arc::default();
        Self {
            debug: DebugPages::default(),
            informers,
            clients,
            clock,
            registry,
            queue_metrics,
            options,
            tasks,
            stop,
            event_gate: None,
            term_start_rv: 0,
            features: FeatureGates::default(),
            release: Release::DEFAULT,
            credentials: ClusterCredentials::default(),
            shared,
        }
    }

    /// The same context with one flag set, as on the command line; for tests.
    ///
    /// # Panics
    /// If the flag is unknown or the value is invalid.
    #[must_use]
    pub fn with_flag(mut self, flag: &str, value: &str) -> Self {
        let set = Arc::make_mut(&mut self.options).set(flag, value);
        set.unwrap_or_else(|error| panic!("--{flag}={value}: {error}"));
        self
    }

    /// Metrics of type `M`, which several controllers may share. The first call registers them,
    /// since a registry rejects a second registration.
    pub fn metrics<M, E>(&self, register: impl FnOnce(&Registry) -> Result<M, E>) -> Result<M, E>
    where
        M: Clone + Send + 'static,
    {
        self.shared(|| register(&self.registry))
    }

    /// The value of type `T` that several controllers share, such as the connection to a cloud. The
    /// first call makes it. Controllers are built one after another, so no second call makes the
    /// value at the same time.
    pub fn shared<T, E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E>
    where
        T: Clone + Send + 'static,
    {
        let all = || self.shared.lock();
        let known = all()
            .get(&TypeId::of::<T>())
            .and_then(|known| known.downcast_ref::<T>())
            .cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        // Without the lock: `make` may ask for another shared value.
        let made = make()?;
        all().insert(TypeId::of::<T>(), Box::new(made.clone()));
        Ok(made)
    }

    /// The client of `identity`.
    pub fn client(&self, identity: &str) -> ApiClient {
        (self.clients)(identity)
    }

    /// A started event recorder for `component`, sending through `client`. Without an
    /// `event_gate`, the gate of `client` stays in effect.
    pub fn recorder(&self, component: &'static str, client: ApiClient) -> EventRecorder {
        let client = match &self.event_gate {
            Some(gate) => client.fenced(Arc::clone(gate)),
            None => client,
        };
        EventRecorder::start(
            component,
            client,
            self.clock.clone(),
            &self.tasks,
            &self.stop,
        )
    }
}
