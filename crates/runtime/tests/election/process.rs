//! Simulated processes that can be paused and killed. Each uses its elector as the manager does.
//! Each slot runs one process after another.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use serde_json::json;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, PatchKind, Target};
use steersman_runtime::leader::{ElectionConfig, Elector, TermEnd};
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::CancellationToken;
use steersman_values::resource::CONFIG_MAPS;
use tokio::time::sleep;

use super::network;
use super::world::{DEADLINE, LEASE, RETRY, WORK, World};

/// The signals to a process.
#[derive(Clone, Default)]
pub(crate) struct Signals {
    /// SIGTERM.
    pub(crate) terminate: CancellationToken,
    /// SIGKILL.
    pub(crate) kill: CancellationToken,
    pub(crate) switch: Arc<Switch>,
}

/// SIGSTOP and SIGCONT.
#[derive(Default)]
pub(crate) struct Switch(Mutex<(bool, Option<Waker>)>);

impl Switch {
    pub(crate) fn freeze(&self) {
        self.0.lock().0 = true;
    }

    pub(crate) fn thaw(&self) {
        let mut state = self.0.lock();
        state.0 = false;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    fn is_frozen(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock();
        if state.0 {
            state.1 = Some(waker.clone());
        }
        state.0
    }
}

/// A process. It is not polled while it is frozen. The invariants are checked around each poll.
struct Process {
    process_future: Pin<Box<dyn Future<Output = ()> + Send>>,
    switch: Arc<Switch>,
    world: World,
}

impl Future for Process {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.switch.is_frozen(context.waker()) {
            return Poll::Pending;
        }
        self.world.check();
        let poll = self.process_future.as_mut().poll(context);
        self.world.check();
        poll
    }
}

/// Starts a process in this slot each time the previous one has ended.
pub(crate) async fn slot(world: World, slot: usize) {
    for birth in 0.. {
        let signals = Signals::default();
        let process_future = Box::pin(run_process(
            world.clone(),
            slot,
            format!("{slot}-{birth}"),
            signals.clone(),
        ));
        let process = Process {
            process_future,
            switch: Arc::clone(&signals.switch),
            world: world.clone(),
        };
        let was_killed = tokio::select! {
            biased;
            () = signals.kill.cancelled() => true,
            () = process => false,
        };
        world.process_ended(slot, was_killed);
        let pause = world.draw(|random| Duration::from_millis(random.random_range(1..10_000)));
        tokio::select! {
            biased;
            () = world.faults_ended().cancelled() => sleep(Duration::from_millis(1)).await,
            () = sleep(pause) => {}
        }
    }
}

fn client(world: &World, slot: usize, name: &str) -> ApiClient {
    let settings = ClientSettings {
        user_agent: name.to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(5),
    };
    let metrics = ClientMetrics::register(&Registry::new()).unwrap();
    ApiClient::new(
        network::client(world.clone(), slot, name.to_owned()),
        settings,
        metrics,
    )
}

/// Runs like the manager: acquire, hold the Lease while the work runs, release after the work.
async fn run_process(world: World, slot: usize, name: String, signals: Signals) {
    let client = client(&world, slot, &name);
    let config = ElectionConfig {
        namespace: "kube-system".to_owned(),
        name: "kube-controller-manager".to_owned(),
        identity: name.clone(),
        lease_duration: LEASE,
        renew_deadline: DEADLINE,
        retry_period: RETRY,
        coordinated: false,
    };
    let recorder = world.events.clone();
    let clock = world.cluster.clock().clone();
    let mut elector =
        Elector::new(config, client.clone(), recorder, clock, &Registry::new()).unwrap();
    world.process_started(slot, &name, elector.gate(), signals.clone());
    if !elector.acquire(&signals.terminate).await {
        return;
    }
    let renewing = CancellationToken::new();
    let work = work(client.fenced(elector.gate()), &signals.terminate);
    let is_ours = {
        let mut hold = pin!(elector.hold(&renewing));
        tokio::select! {
            biased;
            _ = &mut hold => false,
            () = work => {
                renewing.cancel();
                hold.await == TermEnd::Stopped
            }
        }
    };
    if is_ours {
        elector.release().await;
    }
}

/// Writes until `terminate` is cancelled, and finishes the pending write.
async fn work(client: ApiClient, terminate: &CancellationToken) {
    let target = Target {
        resource: &CONFIG_MAPS,
        namespace: Some("default"),
        name: Some(WORK),
        subresource: None,
    };
    for number in 0.. {
        // Injected faults make writes fail. The next write has a new number, so a retry is not
        // needed.
        let _ = client
            .patch(
                target,
                PatchKind::Merge,
                &json!({"data": {"number": number.to_string()}}),
            )
            .await;
        tokio::select! {
            biased;
            () = terminate.cancelled() => return,
            () = sleep(Duration::from_millis(700)) => {}
        }
    }
}
