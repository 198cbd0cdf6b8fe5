//! One candidate after another in each place: what a manager does with its elector, in a process
//! that can be paused and killed.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rand::Rng;
use serde_json::json;
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, PatchKind, Target};
use steersman_runtime::leader::{ElectionConfig, Elector, TermEnd};
use steersman_runtime::metrics::Registry;
use steersman_runtime::resource::CONFIG_MAPS;
use steersman_runtime::tasks::CancellationToken;
use tokio::time::sleep;

use super::network;
use super::world::{DEADLINE, LEASE, RETRY, WORK, World};

/// What is done to a process from outside.
#[derive(Clone, Default)]
pub(crate) struct Orders {
    /// SIGTERM.
    pub(crate) end: CancellationToken,
    /// SIGKILL.
    pub(crate) kill: CancellationToken,
    pub(crate) switch: Arc<Switch>,
}

/// SIGSTOP and SIGCONT.
#[derive(Default)]
pub(crate) struct Switch(Mutex<(bool, Option<Waker>)>);

impl Switch {
    pub(crate) fn freeze(&self) {
        self.0.lock().unwrap().0 = true;
    }

    pub(crate) fn thaw(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = false;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    fn is_frozen(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            state.1 = Some(waker.clone());
        }
        state.0
    }
}

/// A process: not polled while it is frozen, and looked at around each poll.
struct Process {
    life: Pin<Box<dyn Future<Output = ()> + Send>>,
    switch: Arc<Switch>,
    world: World,
}

impl Future for Process {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.switch.is_frozen(context.waker()) {
            return Poll::Pending;
        }
        self.world.look();
        let poll = self.life.as_mut().poll(context);
        self.world.look();
        poll
    }
}

/// Starts a process in this place each time the one before has ended.
pub(crate) async fn slot(world: World, slot: usize) {
    for birth in 0.. {
        let orders = Orders::default();
        let life = Box::pin(live(
            world.clone(),
            slot,
            format!("{slot}-{birth}"),
            orders.clone(),
        ));
        let process = Process {
            life,
            switch: Arc::clone(&orders.switch),
            world: world.clone(),
        };
        let was_killed = tokio::select! {
            biased;
            () = orders.kill.cancelled() => true,
            () = process => false,
        };
        world.died(slot, was_killed);
        let pause = world.draw(|random| Duration::from_millis(random.random_range(1..10_000)));
        tokio::select! {
            biased;
            () = world.calm().cancelled() => sleep(Duration::from_millis(1)).await,
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

/// As the manager does: acquire, hold beside the work, release when the work is done.
async fn live(world: World, slot: usize, name: String, orders: Orders) {
    let client = client(&world, slot, &name);
    let config = ElectionConfig {
        namespace: "kube-system".to_owned(),
        name: "kube-controller-manager".to_owned(),
        identity: name.clone(),
        lease_duration: LEASE,
        renew_deadline: DEADLINE,
        retry_period: RETRY,
    };
    let (recorder, clock) = (world.events.clone(), world.cluster.clock().clone());
    let mut elector =
        Elector::new(config, client.clone(), recorder, clock, &Registry::new()).unwrap();
    world.born(slot, &name, elector.gate(), orders.clone());
    if !elector.acquire(&orders.end).await {
        return;
    }
    let (renewing, work) = (
        CancellationToken::new(),
        work(client.fenced(elector.gate()), &orders.end),
    );
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

/// Writes until `end`; the write under way then is waited for.
async fn work(client: ApiClient, end: &CancellationToken) {
    let target = Target {
        resource: &CONFIG_MAPS,
        namespace: Some("default"),
        name: Some(WORK),
        subresource: None,
    };
    for number in 0.. {
        // Failures are what the network makes; the next write says more than another attempt of
        // this one.
        let _ = client
            .patch(
                target,
                PatchKind::Merge,
                &json!({"data": {"number": number.to_string()}}),
            )
            .await;
        tokio::select! {
            biased;
            () = end.cancelled() => return,
            () = sleep(Duration::from_millis(700)) => {}
        }
    }
}
