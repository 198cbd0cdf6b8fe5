//! One time at work: the Lease, the controllers, and how both end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use steersman_runtime::client::ApiClient;
use steersman_runtime::controller::{ClientFactory, ContextParts, Controller, ControllerContext};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::leader::{Elector, TermEnd};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use tokio::sync::mpsc;

use super::{Manager, RunError, jittered};
use crate::api::{check_lock, wait_for_api_server};
use crate::gates::Gates;
use crate::health::{Check, Finding, Phase, Scope};

/// Time for one attempt of a request of a controller. Longer than the minute after which
/// kube-apiserver ends a request itself (`--request-timeout`): its answer says why, and is a sign
/// of life. Upstream waits without a limit.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(70);
/// Time for controllers to stop when the leader gives up because nothing moves, where the flag sets
/// no limit.
const STALLED_SHUTDOWN: Duration = Duration::from_secs(10);
/// Time for what has been queued, such as Events, to be sent when everything else has stopped.
const FLUSH: Duration = Duration::from_secs(3);

/// What is there before a term, and goes last.
pub(super) struct Surroundings {
    /// Asks whether the API server is well.
    pub(super) probe: ApiClient,
    pub(super) informers: InformerFactory,
    /// What runs until `background` ends it.
    pub(super) tasks: Tasks,
    pub(super) background: CancellationToken,
}

/// What one time at work needs, from the wait for the Lease to the last Event that is sent.
pub(super) struct Term<'a> {
    manager: &'a Manager,
    surroundings: &'a Surroundings,
    /// Somebody asked the process to end.
    stop: &'a CancellationToken,
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

impl<'a> Term<'a> {
    /// A term that writes only while `elector`, if there is one, lets it.
    pub(super) fn new(
        manager: &'a Manager,
        surroundings: &'a Surroundings,
        stop: &'a CancellationToken,
        elector: Option<&Elector>,
    ) -> Self {
        Self {
            manager,
            surroundings,
            stop,
            senders: Arc::new(surroundings.tasks.beside()),
            farewell: CancellationToken::new(),
            gates: Gates::new(elector.map(Elector::gate), stop),
            since: 0,
        }
    }

    /// Leads, once elected where that is asked for, until `stop` or until something goes wrong;
    /// then ends what it began, and what runs in the background too.
    pub(super) async fn run(mut self, elector: Option<Elector>) -> Result<(), RunError> {
        let ended = match elector {
            Some(elector) => self.run_elected(elector).await,
            None => self.lead().await,
        };
        if !is_unclean(&ended) {
            // Last of all: a standby must not wait for our Events.
            self.farewell.cancel();
            self.surroundings.background.cancel();
            let sent = async {
                tokio::join!(
                    self.senders.join(FLUSH),
                    self.surroundings.tasks.join(FLUSH)
                )
            };
            let _ = tokio::time::timeout(FLUSH, sent).await;
        }
        ended
    }

    /// Waits for the Lease, leads, and gives it up when all that writes has stopped.
    async fn run_elected(&mut self, mut elector: Elector) -> Result<(), RunError> {
        if let Some(settings) = &self.manager.config.election {
            tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                checked = check_lock(&self.surroundings.probe, settings) => checked?,
            }
        }
        if !elector.acquire(self.stop).await {
            return Ok(());
        }
        self.since = elector.term_version();
        let renewing = CancellationToken::new();
        let lead = self.lead();
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

    /// Builds and runs the controllers until `stop`, or until one of them ends. Once `stop` has
    /// come they begin no write, and none is under way when this returns; their Events are still
    /// queued.
    async fn lead(&self) -> Result<(), RunError> {
        let Self { manager, stop, .. } = *self;
        let Surroundings {
            probe,
            informers,
            tasks,
            background,
        } = self.surroundings;
        manager.progress.set(Phase::Starting);
        // Minutes may have passed since the first time.
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            checked = wait_for_api_server(probe, &manager.clients.connection().host) => checked?,
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
            // Said here, because the controllers may not stop either.
            tracing::error!(%error, "giving up the leadership");
        }

        // Where no request is answered, waiting for the last ones would only keep the Lease from
        // others. A write that the server still works on may land after the next leader has begun;
        // preconditions and that leader's live checks cover it (leader-election.md).
        if manager.stall.stalled().is_some() {
            self.gates.abandon();
        }
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

    fn context(&self) -> ControllerContext {
        let manager = self.manager;
        let (base, gate) = (manager.clients.clone(), self.gates.writes());
        let clients: ClientFactory =
            Arc::new(move |identity| base.make_for_controller(identity, REQUEST_TIMEOUT, &gate));
        let mut context = ControllerContext::new(ContextParts {
            informers: self.surroundings.informers.clone(),
            clients,
            clock: manager.clock.clone(),
            registry: manager.registry.clone(),
            queue_metrics: manager.queue_metrics.clone(),
        });
        (context.tasks, context.stop) = (Arc::clone(&self.senders), self.farewell.clone());
        (context.event_gate, context.term_start_rv) = (Some(self.gates.events()), self.since);
        context.debug = manager.debug.clone();
        context.options = Arc::new(manager.config.options().clone());
        context.features = manager.config.features.for_controllers();
        context
    }

    fn build(&self, context: &ControllerContext) -> Result<Vec<Built>, RunError> {
        for name in &self.manager.config.controllers.disabled {
            tracing::info!(controller = name, "Warning: controller is disabled");
        }
        let mut built = Vec::new();
        for descriptor in &self.manager.config.controllers.enabled {
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

/// Waits for controllers to stop, at most for `limit` if there is one.
async fn join(running: &Tasks, limit: Option<Duration>) -> Result<(), RunError> {
    let Some(limit) = limit else {
        running.join(Duration::from_secs(5)).await;
        return Ok(());
    };
    let joined = tokio::time::timeout(limit, running.join(limit / 3)).await;
    joined.map_err(|_| RunError::ShutdownTimeout(running.running()))
}

/// Runs one controller after its delay, and reports its name when it ends without having been told
/// to, by a panic too.
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

/// Whether some write may still be under way, or be refused for a good reason.
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
    async fn a_controller_that_ends_by_itself_is_reported_and_one_that_is_stopped_is_not() {
        for panics in [true, false] {
            let (tasks, stop) = (Tasks::default(), CancellationToken::new());
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
    fn a_jittered_duration_is_once_to_twice_as_long() {
        let second = Duration::from_secs(1);
        assert!((0..100).all(|_| (second..second * 2).contains(&jittered(second))));
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
