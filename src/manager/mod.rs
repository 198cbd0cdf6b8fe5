//! The life of a manager.
//!
//! connect -> serve -> fill caches -> elect -> build controllers -> run them -> stop: controllers,
//! Lease, Events, informers
//!
//! The HTTPS server starts first and stops last, so that probes see every phase. Upstream: `Run` in
//! `cmd/kube-controller-manager/app/controllermanager.go`.

mod term;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use rand::Rng;
use steersman_client::ApiClient;
use steersman_runtime::controller::DebugPages;
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::leader::{Candidacy, ElectionConfig, Elector};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::access::{Access, AccessMetrics};
use crate::api::{Clients, Connection, Delegate, wait_as_candidate, wait_for_api_server};
use crate::config::{self, Config, ElectionSettings, Serving};
use crate::follow::{Follower, Reports};
use crate::health::{Check, Finding, HealthChecks, Phase, Progress, Scope};
use crate::logs::Verbosity;
use crate::server::{Endpoints, Server};
use crate::stall::StallDetector;
use crate::ui::Ui;
use crate::why::Why;
use crate::zpages::Zpages;
use crate::{metrics, version};

pub use crate::error::RunError;
use term::{SharedParts, Term};

/// Time limit of one attempt of a list, which may be hundreds of megabytes. The connection detects
/// a dead peer much earlier.
const LIST_TIMEOUT: Duration = Duration::from_secs(300);
/// Time limit of one request to `/healthz` of the API server.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for background tasks to end before a start as another release.
const RESTART: Duration = Duration::from_secs(3);

/// A manager with connections and a bound port, before it starts to work.
pub struct Manager {
    config: Config,
    clients: Clients,
    clock: Clock,
    registry: Registry,
    queue_metrics: QueueMetrics,
    debug: DebugPages,
    why: Why,
    ui: Option<Ui>,
    health: HealthChecks,
    progress: Progress,
    stall: StallDetector,
    server: Option<(Server, Endpoints)>,
    /// The runtime of the HTTPS server.
    serving: Handle,
    address: Option<SocketAddr>,
    /// The releases of API servers that the log has told.
    reports: Reports,
}

impl Manager {
    /// Registers metrics and binds the port. Must be called inside a Tokio runtime.
    pub fn new(config: Config, connection: Connection, clock: Clock) -> Result<Self, RunError> {
        Self::serving_on(&Handle::current(), config, connection, clock)
    }

    /// As [`Manager::new`], with the HTTPS server on another runtime. If the manager's runtime has
    /// only one thread, this keeps the server's clients from delaying renewals of the Lease.
    pub fn serving_on(
        serving: &Handle,
        config: Config,
        connection: Connection,
        clock: Clock,
    ) -> Result<Self, RunError> {
        let registry = Registry::new();
        let slis = Registry::new();
        metrics::register(&registry, &config.features)?;
        let mut clients = Clients::new(connection, &config, &registry)?;
        let queue_metrics = QueueMetrics::register(&registry)?;
        let started = clock.now().as_second();
        let health = HealthChecks::new(&slis, &registry, started, config.strict_health_checks)?;
        let debug = DebugPages::default();
        let why = why(&clients, &config, &clock);
        let ui = (config.ui && config.serving.is_some()).then(|| {
            let registry = registry.clone();
            let queues = queue_metrics.clone();
            Ui::new(why.clone(), registry, queues, debug.clone())
        });
        if let Some(ui) = &ui {
            clients.show_writes_to(&ui.witness());
        }
        let mut address = None;
        let server = match &config.serving {
            Some(settings) => {
                let access = access(settings, &clients, &queue_metrics, &registry, &clock)?;
                // A socket belongs to the runtime in which it is bound.
                let _inside = serving.enter();
                let server = Server::bind(settings, access, &clock, &queue_metrics)?;
                address = server.local_addr().ok();
                let endpoints = Endpoints {
                    health: health.clone(),
                    metrics: registry.clone(),
                    slis,
                    shown: config.metrics.clone().into(),
                    configz: config.configz().into(),
                    zpages: Zpages::new(config.options(), &config.features, clock.clone()),
                    releases: config.features.releases,
                    debug: debug.clone(),
                    why: Some(why.clone()),
                    ui: ui.clone(),
                    verbosity: None,
                    started,
                };
                Some((server, endpoints))
            }
            None => None,
        };
        let progress = Progress::checked_by(&health);
        let stall = StallDetector::new(clients.activity(), &queue_metrics, config.stall_timeout);
        Ok(Self {
            config,
            clients,
            clock,
            registry,
            queue_metrics,
            debug,
            why,
            ui,
            health,
            progress,
            stall,
            server,
            serving: serving.clone(),
            address,
            reports: Reports::default(),
        })
    }

    /// Logs the release of the API servers only if it is not the last one of `reports`.
    #[must_use]
    pub(crate) fn with_reports(mut self, reports: &Reports) -> Self {
        self.reports = reports.clone();
        self
    }

    /// Lets clients change `verbosity` through `/debug/flags/v`, unless `--profiling=false`.
    #[must_use]
    pub fn with_verbosity(mut self, verbosity: Verbosity) -> Self {
        if let Some((_, endpoints)) = &mut self.server {
            endpoints.verbosity = self.config.options().bool("profiling").then_some(verbosity);
        }
        self
    }

    /// The address of the HTTPS server.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Offers the simulated failures of `simulator` on the page, if `--ui` is set.
    #[cfg(feature = "dev")]
    pub(crate) fn set_simulator(&self, simulator: Arc<dyn crate::ui::Simulator>) {
        if let Some(ui) = &self.ui {
            ui.set_simulator(simulator);
        }
    }

    /// The health checks that `/healthz`, `/livez` and `/readyz` run.
    pub fn health(&self) -> HealthChecks {
        self.health.clone()
    }

    /// The phase of the manager.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The registry that `/metrics` serves.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Runs until `stop`, then stops controllers in order and releases the Lease.
    ///
    /// # Errors
    /// [`RunError::ReleaseChanged`] asks for a new manager that equals another release.
    /// Returns an error for every end other than `stop`. After [`RunError::LeaseLost`], no write is
    /// in progress or will be sent.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), RunError> {
        let tasks = Tasks::default();
        self.registry.register(Box::new(tasks.panics()))?;
        let background = CancellationToken::new();
        // Cancelled by `stop` and by a change of the release.
        let leave = stop.child_token();
        self.health
            .add("shutdown", Scope::Ready, shutdown_check(&leave));
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
            let serving = self
                .serving
                .spawn(server.run(endpoints, background.clone()));
            let serving = AbortOnDropHandle::new(serving);
            tasks.spawn("server", async move {
                if let Err(error) = serving.await {
                    tracing::error!(%error, "the HTTPS server has ended");
                }
            });
        }

        let probe = self.clients.make("controller-manager", PROBE_TIMEOUT);
        let is_candidate = elector.is_some();
        let host = self.clients.connection().host.clone();
        let healthy = async {
            if is_candidate {
                wait_as_candidate(&probe, &host).await
            } else {
                wait_for_api_server(&probe, &host).await
            }
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            checked = healthy => checked?,
        }

        let follower = Follower::new(&self.config, &self.clients, &self.reports, leave.clone());
        if let Some(follower) = &follower {
            if !follower.is_current(PROBE_TIMEOUT).await {
                background.cancel();
                tasks.join(RESTART).await;
                return Err(RunError::ReleaseChanged(follower.next()));
            }
            let follower = follower.clone();
            let until = background.clone();
            tasks.spawn("release", async move { follower.run(until).await });
        }

        let resync = jittered(self.config.min_resync);
        let features = self.config.features.for_controllers();
        let informers = InformerFactory::with_features(
            self.clients.make_for_work("shared-informers", LIST_TIMEOUT),
            resync,
            &self.registry,
            &features,
        )?;
        if let Some(ui) = &self.ui {
            ui.set_informers(&informers);
        }
        let controllers = &self.config.controllers;
        // Without a private key, the token controller needs no caches of Secrets.
        let tokens = controllers.tokens.iter().filter(|_| self.has_account_key());
        let release = self.config.features.release();
        for descriptor in tokens.chain(&controllers.enabled) {
            descriptor.watch(&informers, &features, release);
        }
        if self.config.standby_informers {
            informers.start(&tasks, &background);
        }
        self.health
            .add("informer-sync", Scope::Ready, informer_check(&informers));
        self.health.add("progress", Scope::All, self.stall.check());
        self.progress.set(Phase::Standby);

        let shared = SharedParts {
            probe,
            informers,
            tasks,
            background,
        };
        let ended = Term::new(&self, &shared, &leave, elector.as_ref(), follower.as_ref())
            .run(elector)
            .await;
        match follower {
            Some(follower) if ended.is_ok() && !stop.is_cancelled() => {
                Err(RunError::ReleaseChanged(follower.next()))
            }
            _ => ended,
        }
    }

    /// Whether there is a private key for tokens of ServiceAccounts.
    fn has_account_key(&self) -> bool {
        let flag = self
            .config
            .options()
            .text("service-account-private-key-file");
        let credentials = &self.clients.connection().credentials;
        !flag.is_empty() || credentials.account_key.is_some()
    }

    /// Prepares leader election, with its Events and its health check.
    fn elector(
        &self,
        settings: &ElectionSettings,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Result<Elector, RunError> {
        let host = gethostname::gethostname()
            .into_string()
            .map_err(RunError::HostName)?;
        let config = ElectionConfig {
            namespace: settings.namespace.clone(),
            name: settings.name.clone(),
            identity: format!("{host}_{}", uuid::Uuid::new_v4()),
            lease_duration: settings.lease_duration,
            renew_deadline: settings.renew_deadline,
            retry_period: settings.retry_period,
            coordinated: settings.coordinated,
        };
        let client = self.clients.make_for_election(config.request_limit());
        if settings.coordinated {
            let candidacy = self.candidacy(&config, client.clone());
            tasks.spawn("lease candidate", candidacy.run(stop.clone()));
        }
        let recorder = EventRecorder::start(
            version::COMPONENT,
            client.clone(),
            self.clock.clone(),
            tasks,
            stop,
        );
        let elector = Elector::new(config, client, recorder, self.clock.clone(), &self.registry)?;
        let health = elector.health();
        self.health.add(
            "leaderElection",
            Scope::All,
            Arc::new(move || health.check().map_err(Finding::Failed)),
        );
        Ok(elector)
    }
}

impl Manager {
    /// The candidacy in a coordinated election. The name of the Lease is fixed, as upstream.
    fn candidacy(&self, config: &ElectionConfig, client: ApiClient) -> Candidacy {
        Candidacy {
            client,
            clock: self.clock.clone(),
            identity: config.identity.clone(),
            lease: version::COMPONENT.to_owned(),
            binary_version: version::GIT_VERSION.trim_start_matches('v').to_owned(),
            emulation_version: format!("{}.0", self.config.features.releases.emulated),
        }
    }
}

/// The page that explains objects. It works on the thread of the server, and its requests use the
/// connections of the manager's runtime.
fn why(clients: &Clients, config: &Config, clock: &Clock) -> Why {
    let connection = clients.connection();
    let delegate = Delegate {
        client: connection.client.clone(),
        host: connection.host.clone(),
    };
    let client = clients.make_for(&delegate.on(&Handle::current()), "why");
    let lease = config.election.as_ref();
    let lease = lease.map(|lease| (lease.namespace.clone(), lease.name.clone()));
    Why::new(client, clock.clone(), lease)
}

/// The access control of the HTTPS server.
fn access(
    serving: &Serving,
    clients: &Clients,
    queues: &QueueMetrics,
    registry: &Registry,
    clock: &Clock,
) -> Result<Access, RunError> {
    let config::Access::Delegated(settings) = &serving.access else {
        return Ok(Access::Open);
    };
    let metrics = AccessMetrics::register(registry)?;
    let Connection {
        authentication,
        authorization,
        ..
    } = clients.connection();
    // The connections belong to the manager's runtime, because its own requests share them.
    let runtime = Handle::current();
    let make = |delegate: &Option<Delegate>, identity| {
        delegate
            .as_ref()
            .map(|delegate| clients.make_for(&delegate.on(&runtime), identity))
    };
    let authentication = make(authentication, "authentication");
    let authorization = make(authorization, "authorization");
    Ok(Access::delegated(
        settings,
        authentication,
        authorization,
        queues,
        metrics,
        clock.clone(),
    )?)
}

/// A check that fails after the process was asked to stop, so that `/readyz` reports the shutdown.
fn shutdown_check(stop: &CancellationToken) -> Check {
    let stop = stop.clone();
    Arc::new(move || {
        if stop.is_cancelled() {
            Err(Finding::Failed("the process is stopping".to_owned()))
        } else {
            Ok(())
        }
    })
}

/// A check that fails until all started informers have synced. Later it reports informers that
/// cannot follow their watch.
fn informer_check(informers: &InformerFactory) -> Check {
    let informers = informers.clone();
    Arc::new(move || {
        let waiting = informers.not_synced();
        let findings = informers.findings();
        match (waiting.is_empty(), findings.is_empty()) {
            (false, _) => Err(Finding::Failed(format!(
                "not synced: {}",
                waiting.join(", ")
            ))),
            (true, false) => Err(Finding::Degraded(findings.join(", "))),
            (true, true) => Ok(()),
        }
    })
}

/// A random duration between one and two times `duration`.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(1.0 + rand::rng().random::<f64>())
}
