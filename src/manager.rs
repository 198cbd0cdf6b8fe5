//! The life of a manager.
//!
//! connect -> serve -> warm caches -> elect -> build controllers -> run them -> stop: controllers, Lease, events, informers

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use rand::Rng;
use steersman_runtime::client::{self, ApiClient, ApiError};
use steersman_runtime::clock::Clock;
use steersman_runtime::controller::{ClientFactory, ContextParts, Controller, ControllerContext, DebugPages, InitError};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::leader::{ElectionConfig, ElectionConfigError, Elector, TermEnd};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use tokio::sync::mpsc;

use crate::access::{Access, AccessError, AccessMetrics};
use crate::api::{Clients, Connection, Delegate, check_lock, wait_as_candidate, wait_for_api_server};
use crate::config::{self, Config, ElectionSettings, Serving};
use crate::gates::Gates;
use crate::health::{Check, Finding, HealthChecks, Phase, Progress, Scope};
use crate::logs::Verbosity;
use crate::server::{Endpoints, ServeError, Server};
use crate::zpages::Zpages;
use crate::{controllers, metrics, version};

/// Time for one attempt of a request of a controller.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for one attempt of a list, which may be hundreds of megabytes; a connection that is dead is noticed long before.
const LIST_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for one attempt to find out whether the API server is well.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for what has been queued, such as Events, to be sent when everything else has stopped.
const FLUSH: Duration = Duration::from_secs(3);

/// Why a manager ended. Texts are upstream's where it has one.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No address or credentials of an API server.
    #[error(transparent)]
    Kubeconfig(#[from] client::ConfigError),
    /// Credentials that cannot be used.
    #[error(transparent)]
    Connect(#[from] client::ConnectError),
    /// No address or credentials of the API server that is to be asked about clients.
    #[error("failed to get delegated {what} kubeconfig: {source}")]
    DelegateKubeconfig {
        /// Authentication or authorization.
        what: &'static str,
        /// Why not.
        #[source]
        source: client::ConfigError,
    },
    /// It cannot be decided who may see what.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The HTTP server cannot start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Two parts register a metric of the same name.
    #[error("register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The machine has no name to be a candidate under.
    #[error("the host name is not text: {0:?}")]
    HostName(std::ffi::OsString),
    /// The API server does not answer, or is not well.
    #[error("failed to wait for apiserver being healthy: timed out waiting for the condition: {0}")]
    Unhealthy(#[source] ApiError),
    /// The API server knows us and lets us do nothing, or does not know us.
    #[error("the API server refuses {}: {source}", source.request())]
    Refused {
        /// Its words.
        source: ApiError,
    },
    /// The Lease may not be read.
    #[error("error retrieving resource lock {lock}: {source}")]
    Lock {
        /// Namespace and name.
        lock: String,
        /// The API server's words.
        #[source]
        source: ApiError,
    },
    /// Durations of the election that cannot work; upstream panics.
    #[error(transparent)]
    Election(#[from] ElectionConfigError),
    /// A controller could not be built.
    #[error(transparent)]
    Build(#[from] InitError),
    /// Somebody else may lead now.
    #[error("leaderelection lost")]
    LeaseLost,
    /// A controller ended although nobody told it to.
    #[error("controller {0} ended unexpectedly")]
    ControllerEnded(&'static str),
    /// Controllers were still at work when their time was over.
    #[error("controller shutdown timeout reached: {} still running", .0.join(", "))]
    ShutdownTimeout(Vec<String>),
}

impl RunError {
    /// The exit status of a process that ends so.
    pub fn exit_code(&self) -> u8 {
        // A panic in Go ends with 2.
        if matches!(self, Self::Election(_)) { 2 } else { 1 }
    }
}

/// What one time at work needs, from the first controller that is built to the last Event that is sent.
struct Term {
    /// What controllers send their Events from, and whatever else outlives their `run`.
    senders: Arc<Tasks>,
    /// Ends `senders` once they have sent what they have.
    farewell: CancellationToken,
    /// What writes of controllers have to pass, and Events.
    gates: Gates,
    /// What was written before this revision may be somebody else's work.
    since: u64,
}

/// A controller and its name.
type Built = (&'static str, Box<dyn Controller>);

/// A manager that is connected and has its port, and does nothing yet.
pub struct Manager {
    config: Config,
    clients: Clients,
    clock: Clock,
    registry: Registry,
    queue_metrics: QueueMetrics,
    debug: DebugPages,
    health: HealthChecks,
    progress: Progress,
    server: Option<(Server, Endpoints)>,
    address: Option<SocketAddr>,
}

impl Manager {
    /// Registers metrics and binds the port. Must be called inside a runtime.
    pub fn new(config: Config, connection: Connection, clock: Clock) -> Result<Self, RunError> {
        let (registry, slis) = (Registry::new(), Registry::new());
        metrics::register(&registry, &config.features)?;
        let clients = Clients::new(connection, &config, &registry)?;
        let queue_metrics = QueueMetrics::register(&registry)?;
        let started = clock.now().as_second();
        let health = HealthChecks::new(&slis, &registry, started, config.strict_health_checks)?;
        let debug = DebugPages::default();
        let mut address = None;
        let server = match &config.serving {
            Some(serving) => {
                let access = access(serving, &clients, &queue_metrics, &registry, &clock)?;
                let server = Server::bind(serving, access, &clock)?;
                address = server.local_addr().ok();
                let endpoints = Endpoints {
                    health: health.clone(),
                    metrics: registry.clone(),
                    slis,
                    shown: config.metrics.clone().into(),
                    configz: config.configz().into(),
                    zpages: Zpages::new(config.options(), &config.features, clock.clone()),
                    debug: debug.clone(),
                    verbosity: None,
                    started,
                };
                Some((server, endpoints))
            }
            None => None,
        };
        let progress = Progress::checked_by(&health);
        Ok(Self { config, clients, clock, registry, queue_metrics, debug, health, progress, server, address })
    }

    /// Lets clients change `verbosity` at `/debug/flags/v`, unless `--profiling=false`.
    #[must_use]
    pub fn with_verbosity(mut self, verbosity: Verbosity) -> Self {
        if let Some((_, endpoints)) = &mut self.server {
            endpoints.verbosity = self.config.options().bool("profiling").then_some(verbosity);
        }
        self
    }

    /// Where health and metrics are served.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The checks, as `/healthz`, `/livez` and `/readyz` run them.
    pub fn health(&self) -> HealthChecks {
        self.health.clone()
    }

    /// The metrics, as `/metrics` shows them.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Works until `stop`, then stops in order and gives the Lease up.
    ///
    /// # Errors
    /// Every other way to end. After [`RunError::LeaseLost`] no write is under way and none will be sent.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), RunError> {
        let tasks = Tasks::default();
        self.registry.register(Box::new(tasks.panics()))?;
        let background = CancellationToken::new();
        self.health.add("shutdown", Scope::Ready, shutdown_check(&stop));
        let server = self.server.take();
        let elector = match self.config.election.clone() {
            Some(settings) => Some(self.elector(&settings, &tasks, &background)?),
            None => None,
        };
        if let Some((server, endpoints)) = server {
            let access = server.access();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                looked_up = access.look_up() => looked_up?,
            }
            let until = background.clone();
            tasks.spawn("authentication", async move { access.follow(until).await });
            tasks.spawn("server", server.run(endpoints, background.clone()));
        }

        let probe = self.clients.make("controller-manager", PROBE_TIMEOUT);
        let is_candidate = elector.is_some();
        let healthy = async { if is_candidate { wait_as_candidate(&probe).await } else { wait_for_api_server(&probe).await } };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            checked = healthy => checked?,
        }

        let resync = jittered(self.config.min_resync);
        let informers = InformerFactory::new(self.clients.make("shared-informers", LIST_TIMEOUT), resync, &self.registry)?;
        for descriptor in &self.config.controllers.enabled {
            (descriptor.watches)(&informers);
        }
        if self.config.standby_informers {
            informers.start(&tasks, &background);
        }
        self.health.add("informer-sync", Scope::Ready, informer_check(&informers));
        self.progress.set(Phase::Standby);

        let gate = elector.as_ref().map(Elector::gate);
        let mut term = Term {
            senders: Arc::new(tasks.beside()),
            farewell: CancellationToken::new(),
            gates: Gates::new(gate, &stop),
            since: 0,
        };
        let ended = match elector {
            Some(elector) => self.run_elected(elector, &mut term, &probe, &informers, &tasks, &background, &stop).await,
            None => self.lead(&term, &probe, &informers, &tasks, &background, &stop).await,
        };
        if !is_unclean(&ended) {
            // Last of all: a standby must not wait for our Events.
            term.farewell.cancel();
            background.cancel();
            let sent = async { tokio::join!(term.senders.join(FLUSH), tasks.join(FLUSH)) };
            let _ = tokio::time::timeout(FLUSH, sent).await;
        }
        ended
    }

    /// Waits for the Lease, leads, and gives it up when all that writes has stopped.
    #[expect(clippy::too_many_arguments, reason = "the stages of one life, each with an end of its own")]
    async fn run_elected(
        &self,
        mut elector: Elector,
        term: &mut Term,
        probe: &ApiClient,
        informers: &InformerFactory,
        tasks: &Tasks,
        background: &CancellationToken,
        stop: &CancellationToken,
    ) -> Result<(), RunError> {
        if let Some(settings) = &self.config.election {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                checked = check_lock(probe, settings) => checked?,
            }
        }
        if !elector.acquire(stop).await {
            return Ok(());
        }
        term.since = elector.term_version();
        let renewing = CancellationToken::new();
        let lead = self.lead(term, probe, informers, tasks, background, stop);
        let ended = {
            let mut hold = pin!(elector.hold(&renewing));
            tokio::select! {
                // Looked at first: when both are ready, losing the Lease is what counts.
                biased;
                _ = &mut hold => Err(RunError::LeaseLost),
                ended = lead => {
                    // A renewal under way is waited for: it must not cross with the release.
                    renewing.cancel();
                    if hold.await == TermEnd::Lost { Err(RunError::LeaseLost) } else { ended }
                }
            }
        };
        // A straggler may still have a request under way, so the Lease has to run out by itself.
        if !is_unclean(&ended) {
            elector.release().await;
        }
        ended
    }

    fn elector(&self, settings: &ElectionSettings, tasks: &Tasks, stop: &CancellationToken) -> Result<Elector, RunError> {
        let host = gethostname::gethostname().into_string().map_err(RunError::HostName)?;
        let config = ElectionConfig {
            namespace: settings.namespace.clone(),
            name: settings.name.clone(),
            identity: format!("{host}_{}", uuid::Uuid::new_v4()),
            lease_duration: settings.lease_duration,
            renew_deadline: settings.renew_deadline,
            retry_period: settings.retry_period,
        };
        // So that one request that hangs cannot use up the whole deadline.
        let timeout = (settings.renew_deadline / 2).max(Duration::from_secs(1));
        let client = self.clients.make_for_election(timeout);
        let recorder = EventRecorder::start(version::COMPONENT, client.clone(), self.clock.clone(), tasks, stop);
        let elector = Elector::new(config, client, recorder, self.clock.clone(), &self.registry)?;
        let health = elector.health();
        self.health.add("leaderElection", Scope::All, Arc::new(move || health.check().map_err(Finding::Failed)));
        Ok(elector)
    }

    /// Builds and runs the controllers until `stop`, or until one of them ends. Once `stop` has come they begin no write, and none
    /// is under way when this returns; their Events are still queued.
    async fn lead(
        &self,
        term: &Term,
        probe: &ApiClient,
        informers: &InformerFactory,
        tasks: &Tasks,
        background: &CancellationToken,
        stop: &CancellationToken,
    ) -> Result<(), RunError> {
        self.progress.set(Phase::Starting);
        // Minutes may have passed since the first time.
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            checked = wait_for_api_server(probe) => checked?,
        }
        let context = self.context(term, informers);
        let built = self.build(&context)?;
        for &(name, _) in &built {
            self.health.add(name, Scope::All, controller_check(name, &self.queue_metrics));
        }
        informers.start(tasks, background);

        let running = tasks.beside();
        let work = stop.child_token();
        let (ends, mut ended) = mpsc::unbounded_channel();
        let mut outcome = Ok(());
        if informers.wait_synced(stop).await {
            for (name, controller) in built {
                let delay = jittered(self.config.start_interval);
                running.spawn(name, supervised(name, controller, delay, work.clone(), ends.clone()));
            }
            drop(ends);
            self.progress.set(Phase::Working);
            tokio::select! {
                () = stop.cancelled() => tracing::info!("Requested to terminate. Exiting."),
                Some(name) = ended.recv() => outcome = Err(RunError::ControllerEnded(name)),
            }
        }

        term.gates.close();
        work.cancel();
        self.join(&running).await?;
        term.gates.work_is_done();
        outcome
    }

    async fn join(&self, running: &Tasks) -> Result<(), RunError> {
        let Some(limit) = self.config.shutdown_timeout else {
            running.join(Duration::from_secs(5)).await;
            return Ok(());
        };
        let joined = tokio::time::timeout(limit, running.join(limit / 3)).await;
        joined.map_err(|_| RunError::ShutdownTimeout(running.running()))
    }

    fn context(&self, term: &Term, informers: &InformerFactory) -> ControllerContext {
        let (base, gate) = (self.clients.clone(), term.gates.writes());
        let clients: ClientFactory = Arc::new(move |identity| base.make_for_controller(identity, REQUEST_TIMEOUT, &gate));
        let mut context = ControllerContext::new(ContextParts {
            informers: informers.clone(),
            clients,
            clock: self.clock.clone(),
            registry: self.registry.clone(),
            queue_metrics: self.queue_metrics.clone(),
        });
        (context.tasks, context.stop) = (Arc::clone(&term.senders), term.farewell.clone());
        (context.event_gate, context.since) = (Some(term.gates.events()), term.since);
        context.debug = self.debug.clone();
        controllers::configure(context, self.config.options())
    }

    fn build(&self, context: &ControllerContext) -> Result<Vec<Built>, RunError> {
        for name in &self.config.controllers.disabled {
            tracing::info!(controller = name, "Warning: controller is disabled");
        }
        let mut built = Vec::new();
        for descriptor in &self.config.controllers.enabled {
            let controller = (descriptor.init)(context)
                .inspect_err(|error| tracing::error!(controller = descriptor.name, %error, "Error initializing a controller"))?;
            if controller.is_switched_off() {
                tracing::info!(controller = descriptor.name, "Warning: skipping controller");
                continue;
            }
            built.push((descriptor.name, controller));
        }
        Ok(built)
    }
}

/// Who decides about requests to the server.
fn access(
    serving: &Serving,
    clients: &Clients,
    queues: &QueueMetrics,
    registry: &Registry,
    clock: &Clock,
) -> Result<Access, RunError> {
    let config::Access::Delegated(settings) = &serving.access else { return Ok(Access::Open) };
    let metrics = AccessMetrics::register(registry)?;
    let Connection { authentication, authorization, .. } = clients.connection();
    let make = |delegate: &Option<Delegate>, identity| delegate.as_ref().map(|delegate| clients.make_for(delegate, identity));
    let (authentication, authorization) = (make(authentication, "authentication"), make(authorization, "authorization"));
    Ok(Access::delegated(settings, authentication, authorization, queues, metrics, clock.clone())?)
}

/// Runs one controller after its delay, and reports its name when it ends without having been told to, by a panic too.
async fn supervised(
    name: &'static str,
    controller: Box<dyn Controller>,
    delay: Duration,
    stop: CancellationToken,
    ends: mpsc::UnboundedSender<&'static str>,
) {
    let end = End { name, stop: stop.clone(), ends };
    tokio::select! {
        () = stop.cancelled() => return,
        () = tokio::time::sleep(delay) => {}
    }
    tracing::info!(controller = name, "Controller starting...");
    controller.run(stop).await;
    drop(end);
}

struct End {
    name: &'static str,
    stop: CancellationToken,
    ends: mpsc::UnboundedSender<&'static str>,
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            // Nobody listens any more only when the manager has ended, too.
            let _ = self.ends.send(self.name);
        }
    }
}

/// Reports work of a controller that does not move, and panics.
fn controller_check(name: &'static str, queues: &QueueMetrics) -> Check {
    let queues = queues.clone();
    Arc::new(move || match &queues.troubles(name)[..] {
        [] => Ok(()),
        troubles => Err(Finding::Degraded(troubles.join(", "))),
    })
}

/// Fails from the moment the process was asked to end.
fn shutdown_check(stop: &CancellationToken) -> Check {
    let stop = stop.clone();
    Arc::new(move || if stop.is_cancelled() { Err(Finding::Failed("the process is about to end".to_owned())) } else { Ok(()) })
}

/// Fails until the informers that were started have synced; afterwards it reports what keeps them from being up to date.
fn informer_check(informers: &InformerFactory) -> Check {
    let informers = informers.clone();
    Arc::new(move || {
        let (waiting, troubles) = (informers.not_synced(), informers.troubles());
        match (waiting.is_empty(), troubles.is_empty()) {
            (false, _) => Err(Finding::Failed(format!("not synced: {}", waiting.join(", ")))),
            (true, false) => Err(Finding::Degraded(troubles.join(", "))),
            (true, true) => Ok(()),
        }
    })
}

/// Whether some write may still be under way, or be refused for a good reason.
fn is_unclean(ended: &Result<(), RunError>) -> bool {
    matches!(ended, Err(RunError::LeaseLost | RunError::ShutdownTimeout(_)))
}

/// Once to twice `duration`.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(1.0 + rand::rng().random::<f64>())
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    struct Fails(bool);

    impl Controller for Fails {
        fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                assert!(!self.0, "on purpose");
                stop.cancelled().await;
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_ends_by_itself_is_reported_and_one_that_is_stopped_is_not() {
        for panics in [true, false] {
            let (tasks, stop) = (Tasks::default(), CancellationToken::new());
            let (ends, mut ended) = mpsc::unbounded_channel();
            let delay = Duration::from_secs(1);
            tasks.spawn("x", supervised("x", Box::new(Fails(panics)), delay, stop.clone(), ends));
            if panics {
                assert_eq!(ended.recv().await, Some("x"));
            } else {
                tokio::time::sleep(delay * 2).await;
                assert_eq!(tasks.running(), ["x"]);
                stop.cancel();
                assert_eq!(ended.recv().await, None);
            }
        }
    }

    #[test]
    fn a_jittered_duration_is_once_to_twice_as_long() {
        let second = Duration::from_secs(1);
        assert!((0..100).all(|_| (second..second * 2).contains(&jittered(second))));
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
