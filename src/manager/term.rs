//! One term of leadership: the Lease, the controllers, and the order in which both end.
//!
//! acquire Lease -> build controllers -> sync informers -> run -> close gates -> join controllers
//! -> release Lease -> send queued Events
//!
//! The Lease is released only after the last write has ended, so that the next leader starts from a
//! settled state. The document `docs/leader-election.md` specifies the election.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use steersman_client::ApiClient;
use steersman_runtime::controller::{ClientFactory, ContextParts, Controller, ControllerContext};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::leader::{Elector, TermEnd};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use steersman_why::Inside;
use tokio::sync::mpsc;

use super::{Manager, RunError, jittered};
use crate::api::{check_lock, wait_for_api_server};
use crate::follow::Follower;
use crate::health::{Check, Finding, Phase, Scope};
use crate::registry::Selection;
use crate::why::ManagerInside;
use crate::write_gates::Gates;

/// Time limit of one attempt of a controller's request. kube-apiserver ends a request itself after
/// a minute (`--request-timeout`). This limit is longer, because that answer names the cause and
/// proves that the server lives. Upstream waits without a limit.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(70);
/// Time limit for controllers to stop after a stall, if `--controller-shutdown-timeout` sets none.
const STALLED_SHUTDOWN: Duration = Duration::from_secs(10);
/// Time limit of the look at the version of the API server before a term.
const LOOK: Duration = Duration::from_secs(1);
/// Time limit for sending queued Events and other background work after everything else has
/// stopped.
const FLUSH: Duration = Duration::from_secs(3);

/// Parts of a manager that exist before a term and end after it.
pub(super) struct SharedParts {
    /// Client for health checks of the API server.
    pub(super) probe: ApiClient,
    pub(super) informers: InformerFactory,
    /// Background tasks, which run until `background` is cancelled.
    pub(super) tasks: Tasks,
    pub(super) background: CancellationToken,
}

/// The state of one term, from the wait for the Lease to the last sent Event.
pub(super) struct Term<'a> {
    manager: &'a Manager,
    shared: &'a SharedParts,
    /// Cancelled when the process was asked to stop, or when the release has changed.
    stop: &'a CancellationToken,
    follower: Option<&'a Follower>,
    /// Tasks of controllers that outlive `Controller::run`, such as Event senders.
    senders: Arc<Tasks>,
    /// Cancelled to end `senders` after they have sent their queues.
    stop_senders: CancellationToken,
    /// The write gates of controllers and of Events.
    gates: Gates,
    /// Resource version at which this term began; 0 without leader election. Earlier writes may
    /// come from the previous leader.
    term_start_rv: u64,
    /// The identity in the Lease; the name of the program without leader election.
    identity: String,
}

/// A controller with its name.
type Built = (&'static str, Box<dyn Controller>);

impl<'a> Term<'a> {
    /// A term that writes only while the gate of `elector` is open, if there is one.
    pub(super) fn new(
        manager: &'a Manager,
        shared: &'a SharedParts,
        stop: &'a CancellationToken,
        elector: Option<&Elector>,
        follower: Option<&'a Follower>,
    ) -> Self {
        Self {
            manager,
            shared,
            stop,
            follower,
            senders: Arc::new(shared.tasks.beside()),
            stop_senders: CancellationToken::new(),
            gates: Gates::new(elector.map(Elector::gate), stop),
            term_start_rv: 0,
            identity: elector
                .map_or(crate::version::COMPONENT, Elector::identity)
                .to_owned(),
        }
    }

    /// Leads, after winning the election if there is one, until `stop` or an error. Then stops
    /// everything that the term or the background runs.
    pub(super) async fn run(mut self, elector: Option<Elector>) -> Result<(), RunError> {
        let ended = match elector {
            Some(elector) => self.run_elected(elector).await,
            None => self.lead().await,
        };
        if !is_unclean(&ended) {
            // Queued Events are sent after the release, so that a standby does not wait for them.
            self.stop_senders.cancel();
            self.shared.background.cancel();
            let sent =
                async { tokio::join!(self.senders.join(FLUSH), self.shared.tasks.join(FLUSH)) };
            let _ = tokio::time::timeout(FLUSH, sent).await;
        }
        ended
    }

    /// Waits for the Lease, leads, and releases the Lease after all writers have stopped.
    async fn run_elected(&mut self, mut elector: Elector) -> Result<(), RunError> {
        if let Some(settings) = &self.manager.config.election {
            tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                checked = check_lock(&self.shared.probe, settings) => checked?,
            }
        }
        if !elector.acquire(self.stop).await {
            return Ok(());
        }
        self.term_start_rv = elector.term_version();
        let renewing = CancellationToken::new();
        let lead = self.lead();
        let ended = {
            let mut hold = pin!(elector.hold(&renewing));
            tokio::select! {
                // Polled first: if both are ready, the loss of the Lease decides the outcome.
                biased;
                _ = &mut hold => Err(RunError::LeaseLost),
                ended = lead => {
                    // Wait for a renewal in progress, because it must not overlap with the release.
                    renewing.cancel();
                    if hold.await == TermEnd::Lost { Err(RunError::LeaseLost) } else { ended }
                }
            }
        };
        // Otherwise a request may still be in progress, so the Lease must expire instead.
        if !is_unclean(&ended) {
            elector.release().await;
        }
        ended
    }

    /// Builds and runs the controllers until `stop`, or until one of them ends. After `stop` they
    /// start no write. When this returns, none is in progress; their Events may still be queued.
    async fn lead(&self) -> Result<(), RunError> {
        let Self { manager, stop, .. } = *self;
        let SharedParts {
            probe,
            informers,
            tasks,
            background,
        } = self.shared;
        manager.progress.set(Phase::Starting);
        // Check again: a standby may have waited for the Lease for a long time.
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            checked = wait_for_api_server(probe, &manager.clients.connection().host) => checked?,
        }
        // A standby may have waited through an upgrade of the API servers.
        if let Some(follower) = self.follower
            && !follower.is_current(LOOK).await
        {
            return Ok(());
        }
        let context = self.context();
        let built = self.build(&context)?;
        for &(name, _) in &built {
            manager.health.add(
                name,
                Scope::All,
                controller_check(name, &manager.queue_metrics),
            );
        }
        informers.start(tasks, background);
        manager.why.lead(Some(self.inside(&built)));

        let running = tasks.beside();
        let work = stop.child_token();
        let (ends, mut ended) = mpsc::unbounded_channel();
        let mut outcome = Ok(());
        let stalled = manager.stall.stalled_for_too_long();
        let mut stalled = pin!(async {
            if manager.config.election.is_some() {
                stalled.await
            } else {
                std::future::pending().await
            }
        });
        let synced = tokio::select! {
            synced = informers.wait_synced(stop) => synced,
            reason = &mut stalled => {
                outcome = Err(RunError::Stalled(reason));
                false
            }
        };
        if synced {
            for (name, controller) in built {
                let delay = jittered(manager.config.start_interval);
                running.spawn(
                    name,
                    supervised(name, controller, delay, work.clone(), ends.clone()),
                );
            }
            drop(ends);
            manager.progress.set(Phase::Working);
            tokio::select! {
                () = stop.cancelled() => tracing::info!("Requested to terminate. Exiting."),
                Some(name) = ended.recv() => outcome = Err(RunError::ControllerEnded(name)),
                reason = &mut stalled => outcome = Err(RunError::Stalled(reason)),
            }
        }
        if let Err(error @ RunError::Stalled(_)) = &outcome {
            // Log the reason here, because the controllers may not stop either.
            tracing::error!(%error, "giving up the leadership");
        }

        // If no request is answered, waiting for the last ones would only delay the next leader. A
        // write that the server still processes may take effect after the next leader has started.
        // Preconditions and that leader's live reads cover this case (leader-election.md).
        if manager.stall.stalled().is_some() {
            self.gates.abandon();
        }
        manager.why.lead(None);
        self.gates.close();
        work.cancel();
        let shutdown = match &outcome {
            Err(RunError::Stalled(_)) => self
                .manager
                .config
                .shutdown_timeout
                .or(Some(STALLED_SHUTDOWN)),
            _ => self.manager.config.shutdown_timeout,
        };
        join(&running, shutdown).await?;
        self.gates.work_is_done();
        outcome
    }

    /// The state of this leader for explanations.
    fn inside(&self, built: &[Built]) -> Arc<dyn Inside> {
        let Selection {
            enabled,
            disabled,
            gated,
            ..
        } = &self.manager.config.controllers;
        let enabled = enabled.iter().map(|descriptor| descriptor.name);
        let not_built = enabled.filter(|name| built.iter().all(|(running, _)| running != name));
        let is_running = |name: &&str| built.iter().any(|(running, _)| running == name);
        let off = disabled.iter().chain(gated).copied().chain(not_built);
        let off = off.filter(|name| !is_running(name));
        let clients = self.manager.clients.clone();
        let inside = ManagerInside {
            identity: self.identity.clone(),
            switched_off: off.map(str::to_owned).collect(),
            queues: self.manager.queue_metrics.clone(),
            informers: self.shared.informers.clone(),
            debug: self.manager.debug.clone(),
            waiting: Box::new(move |client| clients.waiting(client)),
            features: self.manager.config.features.for_controllers(),
        };
        inside.shared()
    }

    /// The context that controllers are initialised with.
    fn context(&self) -> ControllerContext {
        let manager = self.manager;
        let base = manager.clients.clone();
        let gate = self.gates.writes();
        let clients: ClientFactory =
            Arc::new(move |identity| base.make_for_controller(identity, REQUEST_TIMEOUT, &gate));
        let mut context = ControllerContext::new(ContextParts {
            informers: self.shared.informers.clone(),
            clients,
            clock: manager.clock.clone(),
            registry: manager.registry.clone(),
            queue_metrics: manager.queue_metrics.clone(),
        });
        context.tasks = Arc::clone(&self.senders);
        context.stop = self.stop_senders.clone();
        context.event_gate = Some(self.gates.events());
        context.term_start_rv = self.term_start_rv;
        context.debug = manager.debug.clone();
        context.options = Arc::new(manager.config.options().clone());
        context.features = manager.config.features.for_controllers();
        context.release = manager.config.features.release();
        context.credentials = manager.clients.connection().credentials.clone();
        context
    }

    /// Initialises the enabled controllers. A controller that its own flag disables is skipped.
    fn build(&self, context: &ControllerContext) -> Result<Vec<Built>, RunError> {
        for notice in self.manager.config.controllers.notices() {
            let controller = notice.controller;
            let message = notice.message;
            if notice.gates.is_empty() {
                tracing::info!(controller, "{message}");
            } else {
                // As klog writes a list.
                let gates = serde_json::json!(notice.gates);
                tracing::info!(controller, requiredFeatureGates = %gates, "{message}");
            }
        }
        let mut built = Vec::new();
        let Selection {
            tokens, enabled, ..
        } = &self.manager.config.controllers;
        for descriptor in tokens.iter().chain(enabled) {
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

/// Waits until all controllers have stopped, for at most `limit` if there is one.
async fn join(running: &Tasks, limit: Option<Duration>) -> Result<(), RunError> {
    let Some(limit) = limit else {
        running.join(Duration::from_secs(5)).await;
        return Ok(());
    };
    let joined = tokio::time::timeout(limit, running.join(limit / 3)).await;
    joined.map_err(|_| RunError::ShutdownTimeout(running.running()))
}

/// Runs one controller after its delay. Sends its name if it ends without a request to stop, also
/// after a panic.
async fn supervised(
    name: &'static str,
    controller: Box<dyn Controller>,
    delay: Duration,
    stop: CancellationToken,
    ends: mpsc::UnboundedSender<&'static str>,
) {
    let end = End {
        name,
        stop: stop.clone(),
        ends,
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = tokio::time::sleep(delay) => {}
    }
    tracing::info!(controller = name, "Controller starting...");
    controller.run(stop).await;
    drop(end);
}

/// Sends the name when dropped, so that a panic of the controller is reported too.
struct End {
    name: &'static str,
    stop: CancellationToken,
    ends: mpsc::UnboundedSender<&'static str>,
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            // The receiver is gone only if the manager has ended as well.
            let _ = self.ends.send(self.name);
        }
    }
}

/// A health check that reports a stuck queue, and panics in syncs.
fn controller_check(name: &'static str, queues: &QueueMetrics) -> Check {
    let queues = queues.clone();
    Arc::new(move || match &queues.findings(name)[..] {
        [] => Ok(()),
        findings => Err(Finding::Degraded(findings.join(", "))),
    })
}

/// Whether a write may still be in progress. Then the Lease must expire, and Events are dropped.
fn is_unclean(ended: &Result<(), RunError>) -> bool {
    matches!(
        ended,
        Err(RunError::LeaseLost | RunError::ShutdownTimeout(_))
    )
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    struct Fails(bool);

    impl Controller for Fails {
        fn run(
            self: Box<Self>,
            stop: CancellationToken,
        ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                assert!(!self.0, "on purpose");
                stop.cancelled().await;
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_ends_without_a_stop_request_is_reported() {
        for panics in [true, false] {
            let tasks = Tasks::default();
            let stop = CancellationToken::new();
            let (ends, mut ended) = mpsc::unbounded_channel();
            let delay = Duration::from_secs(1);
            tasks.spawn(
                "x",
                supervised("x", Box::new(Fails(panics)), delay, stop.clone(), ends),
            );
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
    fn jittered_durations_are_one_to_two_times_as_long() {
        let second = Duration::from_secs(1);
        assert!((0..100).all(|_| (second..second * 2).contains(&jittered(second))));
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
