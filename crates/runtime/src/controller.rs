//! What a controller is to the manager: a descriptor in a table, built with a context, run until
//! told to stop.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::Registry;
use steersman_options::Options;

use crate::client::{ApiClient, WriteGate};
use crate::clock::Clock;
use crate::events::EventRecorder;
use crate::features::FeatureGates;
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
    /// Whether `*` includes it.
    pub enabled_by_default: bool,
    /// What it does, in one sentence, for help and README.
    pub summary: &'static str,
    /// Name of its client: the end of its user agent and, with `--use-service-account-credentials`,
    /// its service account. Equals the name for most.
    pub identity: &'static str,
    /// The types it reads from shared caches. Their watches, indexes and rights follow; a standby
    /// keeps the caches warm.
    pub reads: &'static [Read],
    /// Its further rights: writes, and requests beside the caches.
    pub rules: &'static [Rule],
    /// Builds it.
    pub init: fn(&ControllerContext) -> Result<Box<dyn Controller>, InitError>,
}

impl Descriptor {
    /// Everything it may do, and needs no more than.
    pub fn all_rules(&self) -> Vec<Rule> {
        self.reads
            .iter()
            .map(Read::rule)
            .chain(self.rules.iter().copied())
            .collect()
    }

    /// Asks `informers` for all caches it reads.
    pub fn watch(&self, informers: &InformerFactory) {
        self.reads.iter().for_each(|read| read.watch(informers));
    }
}

/// A controller could not be built.
#[derive(Debug, thiserror::Error)]
#[error("build {controller}: {source}")]
pub struct InitError {
    /// Canonical name.
    pub controller: &'static str,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A built controller.
pub trait Controller: Send + 'static {
    /// Works until `stop`, then finishes the writes in flight and returns. Called once, with its
    /// informers synced.
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Whether its own flags say that it shall not work: it is then left out, and out of the health
    /// checks, as if it had not been built.
    fn is_switched_off(&self) -> bool {
        false
    }
}

/// Makes the API client of a controller identity, such as `deployment-controller`.
pub type ClientFactory = Arc<dyn Fn(&str) -> ApiClient + Send + Sync>;

/// Answers a request for a debug page, given its query.
pub type DebugPage = Arc<dyn Fn(&str) -> DebugAnswer + Send + Sync>;

/// What a debug page shows.
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
}

impl DebugPages {
    /// Serves `page` from now on.
    pub fn add(&self, path: String, page: DebugPage) {
        self.pages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path, page);
    }

    /// The page at `path`.
    pub fn get(&self, path: &str) -> Option<DebugPage> {
        self.pages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(path)
            .cloned()
    }

    /// Whether the controller called `name` has pages.
    pub fn has_any_of(&self, name: &str) -> bool {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages
            .keys()
            .any(|path| path.split('/').next() == Some(name))
    }
}

/// What the manager gives to each controller.
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
    /// Where controllers show what they think.
    pub debug: DebugPages,
    /// Tasks that outlive a controller's `run`, such as event senders.
    pub tasks: Arc<Tasks>,
    /// Ends those tasks; cancelled after the controllers have stopped.
    pub stop: CancellationToken,
    /// What Events have to pass in place of the gate of other writes, if anything.
    pub event_gate: Option<Arc<dyn WriteGate>>,
    /// The resource version at which this leadership term began, 0 without leader election. An
    /// older cache may lack writes of the previous leader.
    pub term_start_rv: u64,
    /// Feature gates; their defaults unless set.
    pub features: FeatureGates,
    metrics: Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>,
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
        let (tasks, stop) = (Arc::default(), CancellationToken::new());
        let (options, metrics) = (Arc::default(), Arc::default());
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
            metrics,
        }
    }

    /// The same with one flag set, as if it had been typed.
    ///
    /// # Panics
    /// When there is no such flag, or when it cannot have this value.
    #[must_use]
    pub fn with_flag(mut self, flag: &str, value: &str) -> Self {
        let set = Arc::make_mut(&mut self.options).set(flag, value);
        set.unwrap_or_else(|error| panic!("--{flag}={value}: {error}"));
        self
    }

    /// Metrics of type `M`, which several controllers may count in: the first that asks registers
    /// them.
    pub fn metrics<M, E>(&self, register: impl FnOnce(&Registry) -> Result<M, E>) -> Result<M, E>
    where
        M: Clone + Send + 'static,
    {
        let mut all = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all
            .get(&TypeId::of::<M>())
            .and_then(|known| known.downcast_ref::<M>())
        {
            return Ok(known.clone());
        }
        let made = register(&self.registry)?;
        all.insert(TypeId::of::<M>(), Box::new(made.clone()));
        Ok(made)
    }

    /// The client of `identity`.
    pub fn client(&self, identity: &str) -> ApiClient {
        (self.clients)(identity)
    }

    /// A started event recorder for `component`, sending through `client`.
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
