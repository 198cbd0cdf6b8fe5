//! Leader election on a Lease. At most one process leads at any time, and only the leader writes.
//!
//! `state.rs` decides: the record in the Lease and the time give the next request, or the end of
//! the term. This file does the IO. The write gate closes before another process may lead.
//!
//! Upstream: `client-go/tools/leaderelection`. The Lease looks the same, but the behaviour differs
//! where that is safer or quicker:
//!
//! - The term ends exactly one renew deadline after the start of the last successful renewal.
//!   Upstream's term may end a retry period later.
//! - The term ends at once if another holder is in the Lease.
//! - Candidates watch the Lease, so they answer a release in milliseconds.
//! - Release is a separate step, after all writers have stopped.
//!
//! In a coordinated election (feature gate `CoordinatedLeaderElection`) the API server chooses the
//! holder; `candidate.rs` makes this process one of those to choose from.
//!
//! `docs/leader-election.md` specifies the rules and names the tests.

mod candidate;
mod lease;
#[cfg(test)]
mod simulation;
mod standing;
mod state;
#[cfg(test)]
mod tests;
mod watch;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use prometheus::{GaugeVec, IntCounterVec, Opts};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use lease::Lease;
use standing::Standing;
use state::{Election, Input, Next, Outcome, State};
use steersman_client::{ApiClient, ApiError, Target, WriteGate};
use steersman_objects::ObjectReference;
use steersman_values::clock::Clock;
use steersman_values::resource::LEASES;

use crate::events::{EventRecorder, EventType};
use crate::metrics::Registry;
use crate::tasks::CancellationToken;

pub use candidate::Candidacy;
pub use standing::ElectionHealth;

/// The `tracing` target of the log line of each renewal. It is separate, so that a filter can hide
/// this frequent line.
pub const RENEWALS: &str = "steersman_runtime::leader::renewals";

/// Upstream's `JitterFactor`: the pause between attempts to acquire is a retry period, plus a
/// random part of up to this many retry periods. It keeps candidates apart that started together.
const JITTER_FACTOR: f64 = 1.2;

/// Namespace and name of the Lease of a manager with default flags.
pub const DEFAULT_LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");

/// The Lease, the identity of this candidate, and the durations of the election.
#[derive(Debug, Clone)]
pub struct ElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The holder name of this process: `<hostname>_<uuid>`, new for each process.
    pub identity: String,
    /// A candidate takes the Lease this long after the last renewal that it saw. Flag
    /// `--leader-elect-lease-duration`. It is written into the Lease in whole seconds.
    pub lease_duration: Duration,
    /// The leader gives up this long after the start of its last successful renewal. Flag
    /// `--leader-elect-renew-deadline`. It is below the lease duration, so the gate closes before
    /// another process may lead.
    pub renew_deadline: Duration,
    /// Pause between two attempts. Flag `--leader-elect-retry-period`.
    pub retry_period: Duration,
    /// Whether the API server chooses the holder, among the candidates of [`Candidacy`].
    pub coordinated: bool,
}

/// Invalid durations, in upstream's words. The process exits with code 2, as upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ElectionConfigError(pub &'static str);

/// How a term ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermEnd {
    /// `stop` was cancelled. This process still holds the Lease. The caller ends all writers and
    /// then calls [`Elector::release`].
    Stopped,
    /// The Lease was not renewed in time, or has another holder. The gate refuses all writes. This
    /// candidate never leads again.
    Lost,
}

impl ElectionConfig {
    /// Upstream's checks, in upstream's order (`NewLeaderElector`).
    fn check(&self) -> Result<(), ElectionConfigError> {
        let rules = [
            (
                self.lease_duration > self.renew_deadline,
                "leaseDuration must be greater than renewDeadline",
            ),
            (
                self.renew_deadline > self.retry_period.mul_f64(JITTER_FACTOR),
                "renewDeadline must be greater than retryPeriod*JitterFactor",
            ),
            (
                !self.lease_duration.is_zero(),
                "leaseDuration must be greater than zero",
            ),
            (
                !self.renew_deadline.is_zero(),
                "renewDeadline must be greater than zero",
            ),
            (
                !self.retry_period.is_zero(),
                "retryPeriod must be greater than zero",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, text)) => Err(ElectionConfigError(text)),
            None => Ok(()),
        }
    }

    /// Time limit of one request with its retries. It is half of the deadline, so that one request
    /// without an answer leaves time for another attempt.
    pub fn request_limit(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    fn target(&self) -> Target<'_> {
        Target {
            resource: &LEASES,
            namespace: Some(&self.namespace),
            name: Some(&self.name),
            subresource: None,
        }
    }
}

/// Upstream's metrics of leader election (`component-base/metrics/prometheus/clientgo`).
struct Metrics {
    master_status: GaugeVec,
    slowpath: IntCounterVec,
    name: String,
}

impl Metrics {
    /// The status exists with 0 from the start. Upstream: `NewLeaderMetric`.
    fn register(registry: &Registry, name: &str) -> Result<Self, prometheus::Error> {
        let master_status = GaugeVec::new(
            Opts::new(
                "leader_election_master_status",
                "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates \
                 master. 'name' is the string used to identify the lease. Please make sure to group by name.",
            ),
            &["name"],
        )?;
        let slowpath = IntCounterVec::new(
            Opts::new(
                "leader_election_slowpath_total",
                "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify \
                 the lease. Please make sure to group by name.",
            ),
            &["name"],
        )?;
        registry.register(Box::new(master_status.clone()))?;
        registry.register(Box::new(slowpath.clone()))?;
        let metrics = Self {
            master_status,
            slowpath,
            name: name.to_owned(),
        };
        metrics.leads(false);
        Ok(metrics)
    }

    fn leads(&self, leads: bool) {
        self.master_status
            .with_label_values(&[&self.name])
            .set(f64::from(u8::from(leads)));
    }

    fn slow_renewals(&self, total: u64) {
        // Upstream shows this family only after the first slow renewal. Prometheus omits a family
        // that has no label values yet.
        if total > 0 {
            let counter = self.slowpath.with_label_values(&[&self.name]);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }
}

/// Sends an Event about the Lease. Tests replace it.
type Announce = Box<dyn Fn(ObjectReference, String) + Send + Sync>;

/// One candidate of the election.
pub struct Elector {
    config: ElectionConfig,
    client: ApiClient,
    announce: Announce,
    clock: Clock,
    metrics: Metrics,
    election: Election,
    standing: Arc<Standing>,
    /// Draws the pauses between attempts. Its seed is the identity: processes draw different
    /// pauses, and a test with fixed identities repeats exactly.
    jitter: SmallRng,
}

impl Elector {
    /// Creates a candidate. It sends no request yet.
    ///
    /// `client` should be separate from other clients (user agent `leader-election`), with a
    /// timeout of max(1 s, renew deadline / 2). So requests of controllers cannot delay a renewal.
    ///
    /// # Errors
    /// If the durations are invalid, or `registry` has the metrics of another candidate already.
    pub fn new(
        config: ElectionConfig,
        client: ApiClient,
        recorder: EventRecorder,
        clock: Clock,
        registry: &Registry,
    ) -> Result<Self, ElectionConfigError> {
        let announce = Box::new(move |lease, message| {
            recorder.event(lease, EventType::Normal, "LeaderElection", message)
        });
        Self::announcing(config, client, announce, clock, registry)
    }

    fn announcing(
        config: ElectionConfig,
        client: ApiClient,
        announce: Announce,
        clock: Clock,
        registry: &Registry,
    ) -> Result<Self, ElectionConfigError> {
        config.check()?;
        let metrics = Metrics::register(registry, &config.name)
            .map_err(|_| ElectionConfigError("leader election metrics are registered already"))?;
        let election = Election::new(
            config.identity.clone(),
            config.lease_duration,
            config.renew_deadline,
        );
        let election = if config.coordinated {
            election.coordinated()
        } else {
            election
        };
        let standing = Arc::new(Standing::new(&config.name, config.lease_duration));
        let mut seed = DefaultHasher::new();
        config.identity.hash(&mut seed);
        let jitter = SmallRng::seed_from_u64(seed.finish());
        Ok(Self {
            config,
            client,
            announce,
            clock,
            metrics,
            election,
            standing,
            jitter,
        })
    }

    /// The gate for [`ApiClient::fenced`]. It is open from winning the Lease until the last renewal
    /// is as old as the renew deadline.
    ///
    /// It reads the clock for each write. So it closes in time even if the election's task does not
    /// run.
    pub fn gate(&self) -> Arc<dyn WriteGate> {
        Arc::clone(&self.standing) as Arc<dyn WriteGate>
    }

    /// The identity of this process in the Lease.
    pub fn identity(&self) -> &str {
        &self.config.identity
    }

    /// The resource version of the Lease as last seen, or 0. For a leader, this is the version of
    /// its own last write; all writes of earlier leaders have lower versions.
    pub fn term_version(&self) -> u64 {
        self.election.lease().map_or(0, Lease::resource_version)
    }

    /// The health check for `/healthz`.
    pub fn health(&self) -> ElectionHealth {
        ElectionHealth::of(&self.standing)
    }

    /// Tries until this candidate holds the Lease (true) or `stop` is cancelled (false).
    ///
    /// While another candidate holds the Lease, a watch shows its release at once. Returns false if
    /// a term of this candidate has ended before: it leads only once.
    ///
    /// After `stop`, a pending attempt may still finish, for the time limit of one request. Its
    /// write may succeed, and then the Lease is released again. Otherwise the cluster would have no
    /// leader until that Lease expires. Upstream: `acquire`.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        tracing::info!(lock = self.lock(), "Attempting to acquire leader lease...");
        let mut holders = self.holders();
        let identity = self.config.identity.clone();
        let limit = self.config.request_limit();
        let stop_limit = async {
            stop.cancelled().await;
            sleep(limit).await;
        };
        let mut stop_limit = pin!(stop_limit);
        loop {
            let outcome = tokio::select! {
                biased;
                () = &mut stop_limit => return false,
                outcome = self.attempt() => outcome,
            };
            if stop.is_cancelled() {
                if matches!(self.election.state(), State::Leading { .. }) {
                    self.release().await;
                }
                return false;
            }
            match outcome {
                Outcome::Acquired | Outcome::Renewed => break,
                Outcome::Lost => return false,
                Outcome::Held { holder } => {
                    tracing::trace!(
                        lock = self.lock(),
                        holder,
                        "Lease is held by and has not yet expired"
                    );
                }
                Outcome::Failed => {}
            }
            tracing::trace!(lock = self.lock(), "Failed to acquire lease");

            let pause = self
                .config
                .retry_period
                .mul_f64(1.0 + JITTER_FACTOR * self.jitter.random::<f64>());
            tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                // The Lease is free, or the API server has chosen this candidate.
                () = changed_to(&mut holders, |holder| holder.is_empty() || holder == identity) => {}
                () = sleep(pause) => {}
            }
        }
        tracing::info!(lock = self.lock(), "Successfully acquired lease");
        self.metrics.leads(true);
        self.send_event("became leader");
        true
    }

    /// Renews the Lease until `stop` is cancelled or the Lease is lost.
    ///
    /// After `stop` there are no renewals. Controllers have up to the renew deadline for their last
    /// writes; then the gate closes. Upstream: `renew`.
    pub async fn hold(&mut self, stop: &CancellationToken) -> TermEnd {
        let identity = self.config.identity.clone();
        let mut holders = self.holders();
        loop {
            let State::Leading { until } = self.election.state() else {
                return self.lose();
            };
            let outcome = tokio::select! {
                biased;
                // Even during a request: no answer can extend a term that is over.
                () = sleep_until(until) => Outcome::Lost,
                () = stop.cancelled() => return TermEnd::Stopped,
                outcome = self.attempt() => outcome,
            };
            match outcome {
                Outcome::Lost => return self.lose(),
                Outcome::Acquired | Outcome::Renewed => {
                    tracing::trace!(target: RENEWALS, lock = self.lock(), "Successfully renewed lease");
                }
                Outcome::Held { .. } | Outcome::Failed => {
                    tracing::debug!(lock = self.lock(), "Failed to renew lease in this attempt");
                }
            }

            let State::Leading { until } = self.election.state() else {
                return self.lose();
            };
            tokio::select! {
                biased;
                () = sleep_until(until) => return self.lose(),
                () = stop.cancelled() => return TermEnd::Stopped,
                // Another holder may be in the Lease, or the Lease is deleted. Attempt now.
                () = changed_to(&mut holders, |holder| holder != identity) => {}
                () = sleep(self.config.retry_period) => {}
            }
        }
    }

    /// Closes the gate and empties the Lease. All writers must have stopped before. After an error,
    /// the Lease stays until it expires. Upstream: `release`, which runs only with
    /// `ReleaseOnCancel`.
    pub async fn release(&mut self) {
        // Read before the term ends: an Event is sent only about a term that there was.
        let was_leader = matches!(self.election.state(), State::Leading { .. });
        self.election.give_up();
        self.publish();
        self.metrics.leads(false);
        let released = timeout(self.config.renew_deadline, self.write_release()).await;
        if let Err(error) = released.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            tracing::error!(lock = self.lock(), error, "Failed to release lease");
        }
        if was_leader {
            self.send_event("stopped leading");
        }
    }

    /// Writes the released record. It has no effect if the Lease has another holder or is deleted.
    async fn write_release(&self) -> Result<(), String> {
        loop {
            let Some(lease) = self.limited(self.client.get(self.config.target())).await? else {
                return Ok(());
            };
            let Some(record) = self.election.release(&lease, self.clock.now()) else {
                return Ok(());
            };
            match self
                .client
                .replace(self.config.target(), &lease.with(&record))
                .await
            {
                // The server handled a renewal of ours, sent before the stop, after our read.
                Err(e) if e.is_conflict() => {}
                outcome => return outcome.map(|_| ()).map_err(|e| e.to_string()),
            }
        }
    }

    /// One attempt to acquire or renew the Lease. Callers may drop it at any `await`. Upstream:
    /// `tryAcquireOrRenew` and `tryCoordinatedRenew`, whose decisions are in `state.rs`.
    async fn attempt(&mut self) -> Outcome {
        let mut input = Input::Attempt;
        loop {
            let next = self.election.step(input, Instant::now(), self.clock.now());
            // After each step, so that the gate opens with the answer of the write and not with the
            // end of the attempt.
            self.publish();
            input = match next {
                Next::Rest(outcome) => return outcome,
                Next::Read => self.read().await,
                Next::Create(record) => {
                    let lease = Lease::new(&self.config.namespace, &self.config.name).with(&record);
                    let collection = Target {
                        name: None,
                        ..self.config.target()
                    };
                    self.write(self.client.create(collection, &lease))
                        .await
                        .unwrap_or_else(|error| {
                            tracing::error!(
                                lock = self.lock(),
                                error,
                                "Error initially creating lease lock"
                            );
                            Input::NotWritten
                        })
                }
                Next::Renew(base, record) => self
                    .write(
                        self.client
                            .replace(self.config.target(), &base.with(&record)),
                    )
                    .await
                    .unwrap_or_else(|error| {
                        tracing::debug!(
                            lock = self.lock(),
                            error,
                            "Failed to update lease optimistically, falling back to slow path"
                        );
                        Input::NotWritten
                    }),
                Next::Update(base, record) => self
                    .write(
                        self.client
                            .replace(self.config.target(), &base.with(&record)),
                    )
                    .await
                    .unwrap_or_else(|error| {
                        tracing::error!(lock = self.lock(), error, "Failed to update lease");
                        Input::NotWritten
                    }),
            };
        }
    }

    async fn read(&self) -> Input {
        let error = match self.limited(self.client.get(self.config.target())).await {
            Ok(Some(lease)) => return Input::Found(lease),
            Ok(None) => return Input::Missing,
            Err(error) => error,
        };
        tracing::error!(lock = self.lock(), error, "Error retrieving lease lock");
        Input::Unreadable
    }

    async fn write(
        &self,
        request: impl Future<Output = Result<Bytes, ApiError>>,
    ) -> Result<Input, String> {
        match self.limited(request).await? {
            Some(lease) => Ok(Input::Written(lease)),
            None => Err("lease not found".to_owned()),
        }
    }

    /// Sends `request` with a time limit. Returns the Lease of the answer, `None` for 404, or the
    /// text of the error. The limit covers the retries of the client too.
    async fn limited(
        &self,
        request: impl Future<Output = Result<Bytes, ApiError>>,
    ) -> Result<Option<Lease>, String> {
        match timeout(self.config.request_limit(), request).await {
            Ok(Ok(json)) => Lease::decode(&json).map(Some).map_err(|e| e.to_string()),
            Ok(Err(e)) if e.is_not_found() => Ok(None),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    /// Copies the state to the gate, the health check and the metrics.
    fn publish(&self) {
        self.standing
            .set(self.election.state(), self.election.observed_since());
        self.metrics.slow_renewals(self.election.slow_renewals());
    }

    /// Ends the term after the loss of the Lease. The gate closes first.
    fn lose(&mut self) -> TermEnd {
        self.election.give_up();
        self.publish();
        self.metrics.leads(false);
        tracing::info!(lock = self.lock(), "Failed to renew lease");
        self.send_event("stopped leading");
        TermEnd::Lost
    }

    fn send_event(&self, change: &str) {
        if let Some(lease) = self.election.lease() {
            (self.announce)(
                lease.reference(),
                format!("{} {change}", self.config.identity),
            );
        }
    }

    fn holders(&self) -> BoxStream<'static, String> {
        watch::holders(self.client.clone(), self.config.clone())
    }

    fn lock(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }
}

/// Returns when the watch shows a holder for which `wanted` is true.
async fn changed_to(holders: &mut BoxStream<'static, String>, wanted: impl Fn(&str) -> bool) {
    while let Some(holder) = holders.next().await {
        if wanted(&holder) {
            return;
        }
    }
    // `watch::holders` never ends. If it did, attempts at the retry period would still be enough.
    std::future::pending().await
}
