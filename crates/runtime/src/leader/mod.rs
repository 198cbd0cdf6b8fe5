//! Leader election on a Lease.
//!
//! state.rs decides (record seen, time passed -> next request, lead, give up); this file does the
//! IO; the gate closes all writes before another process may lead.
//!
//! Differs from upstream where that is safer or quicker, and never in what the Lease looks like:
//! the term ends exactly one renew deadline after the start of the last successful renewal
//! (upstream: up to a retry period later), or at once when somebody else is in the Lease;
//! candidates also watch the Lease, so that a release is answered in milliseconds; releasing is a
//! step of its own, for when everything that writes has stopped.

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

use crate::client::{ApiClient, ApiError, Target, WriteGate};
use crate::clock::Clock;
use crate::events::{EventRecorder, EventType};
use crate::metrics::Registry;
use crate::object::ObjectReference;
use crate::resource::LEASES;
use crate::tasks::CancellationToken;
use lease::Lease;
use standing::Standing;
use state::{Election, Input, Next, Outcome, State};

pub use standing::ElectionHealth;

/// Target of the log line of each renewal, for those who want a verbosity of its own.
pub const RENEWALS: &str = "steersman_runtime::leader::renewals";

/// Upstream's `JitterFactor`: attempts to acquire are up to this many retry periods further apart.
const JITTER_FACTOR: f64 = 1.2;

/// Which Lease, who we are, and how patient to be.
#[derive(Debug, Clone)]
pub struct ElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// `<hostname>_<uuid>`, new for each process.
    pub identity: String,
    /// How long a standby waits after the last renewal it saw.
    pub lease_duration: Duration,
    /// How long the leader keeps trying to renew before it gives up.
    pub renew_deadline: Duration,
    /// Step between attempts.
    pub retry_period: Duration,
}

/// Durations that cannot work together; upstream's texts, on which it exits 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ElectionConfigError(pub &'static str);

/// How a term ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermEnd {
    /// `stop` came; the Lease is still ours.
    Stopped,
    /// The Lease could not be renewed in time. All writes are refused from now on.
    Lost,
}

impl ElectionConfig {
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

    /// Limit of one request, retries included, so that one that hangs cannot use up the whole
    /// deadline.
    fn request_limit(&self) -> Duration {
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

struct Metrics {
    master_status: GaugeVec,
    slowpath: IntCounterVec,
    name: String,
}

impl Metrics {
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
        // A family without children is not shown, as upstream's before the first slow renewal.
        if total > 0 {
            let counter = self.slowpath.with_label_values(&[&self.name]);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }
}

/// Sends an Event about the Lease.
type Announce = Box<dyn Fn(ObjectReference, String) + Send + Sync>;

/// One candidate.
pub struct Elector {
    config: ElectionConfig,
    client: ApiClient,
    announce: Announce,
    clock: Clock,
    metrics: Metrics,
    election: Election,
    standing: Arc<Standing>,
    /// Draws the pauses between attempts. It begins with the identity, which no two processes
    /// share, so that candidates do not go in step, and those of a test whose names are given do
    /// the same each time.
    jitter: SmallRng,
}

impl Elector {
    /// A candidate; no request is made yet. `client` should be of its own (`leader-election`),
    /// timing out after max(1 s, renew deadline / 2). At most one per registry.
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

    /// The gate for [`ApiClient::fenced`]: open from winning the Lease until the last renewal is as
    /// old as the renew deadline.
    ///
    /// It compares times whenever it is asked, so it closes in time even if nobody gets to run the
    /// election.
    pub fn gate(&self) -> Arc<dyn WriteGate> {
        Arc::clone(&self.standing) as Arc<dyn WriteGate>
    }

    /// The revision at which the Lease was last written by us, 0 if it never was: everything that
    /// others did while they led came before it.
    pub fn term_version(&self) -> u64 {
        self.election.lease().map_or(0, Lease::resource_version)
    }

    /// For `/healthz`.
    pub fn health(&self) -> ElectionHealth {
        ElectionHealth::of(&self.standing)
    }

    /// Tries until the Lease is ours (true) or `stop` comes (false). While somebody else holds it
    /// the Lease is watched, so that a release is answered at once. A candidate that has led never
    /// does again: false.
    ///
    /// An attempt under way at `stop` is waited for, up to the limit of one request: its write may
    /// get through, and a Lease held by a process that has gone would leave the cluster without a
    /// leader until it runs out. It is released again.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        tracing::info!(lock = self.lock(), "Attempting to acquire leader lease...");
        let mut holders = self.holders();
        let limit = self.config.request_limit();
        let stopped_for_long = async {
            stop.cancelled().await;
            sleep(limit).await;
        };
        let mut stopped_for_long = pin!(stopped_for_long);
        loop {
            let outcome = tokio::select! {
                biased;
                () = &mut stopped_for_long => return false,
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
                () = changed_to(&mut holders, str::is_empty) => {}
                () = sleep(pause) => {}
            }
        }
        tracing::info!(lock = self.lock(), "Successfully acquired lease");
        self.metrics.leads(true);
        self.say("became leader");
        true
    }

    /// Renews the Lease until `stop` or until it is lost. After `stop` nobody renews it: what still
    /// has to be written must be done within the renew deadline, then the gate closes.
    pub async fn hold(&mut self, stop: &CancellationToken) -> TermEnd {
        let identity = self.config.identity.clone();
        let mut holders = self.holders();
        loop {
            let State::Leading { until } = self.election.state() else {
                return self.lose();
            };
            let outcome = tokio::select! {
                biased;
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
                // Somebody else may be in the Lease, or it is gone: find out now.
                () = changed_to(&mut holders, |holder| holder != identity) => {}
                () = sleep(self.config.retry_period) => {}
            }
        }
    }

    /// Gives the Lease up, after everything that writes has stopped. Closes the gate. An error
    /// leaves the Lease to run out.
    pub async fn release(&mut self) {
        let was_leader = matches!(self.election.state(), State::Leading { .. });
        self.election.give_up();
        self.publish();
        self.metrics.leads(false);
        let released = timeout(self.config.renew_deadline, self.write_release()).await;
        if let Err(error) = released.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            tracing::error!(lock = self.lock(), error, "Failed to release lease");
        }
        if was_leader {
            self.say("stopped leading");
        }
    }

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
                // A renewal that was under way when we stopped came through in between.
                Err(e) if e.is_conflict() => {}
                outcome => return outcome.map(|_| ()).map_err(|e| e.to_string()),
            }
        }
    }

    /// One attempt to get or keep the Lease. May be dropped at any point.
    async fn attempt(&mut self) -> Outcome {
        let mut input = Input::Attempt;
        loop {
            let next = self.election.step(input, Instant::now(), self.clock.now());
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

    /// The Lease that `request` answers with, `None` if there is none, or what to say of the
    /// failure.
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

    fn publish(&self) {
        self.standing
            .set(self.election.state(), self.election.observed_since());
        self.metrics.slow_renewals(self.election.slow_renewals());
    }

    fn lose(&mut self) -> TermEnd {
        self.election.give_up();
        self.publish();
        self.metrics.leads(false);
        tracing::info!(lock = self.lock(), "Failed to renew lease");
        self.say("stopped leading");
        TermEnd::Lost
    }

    fn say(&self, what: &str) {
        if let Some(lease) = self.election.lease() {
            (self.announce)(
                lease.reference(),
                format!("{} {what}", self.config.identity),
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

/// Comes when the watch shows a holder of which `wanted` is true.
async fn changed_to(holders: &mut BoxStream<'static, String>, wanted: impl Fn(&str) -> bool) {
    while let Some(holder) = holders.next().await {
        if wanted(&holder) {
            return;
        }
    }
    // The stream has no end; if it had, the retry period alone would do.
    std::future::pending().await
}
