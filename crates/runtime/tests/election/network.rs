//! Between a process and the server: requests travel on their own, so that they arrive though
//! nobody waits for them any more.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use rand::Rng;
use steersman_devcluster::rest::Body as Answer;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tower::Service;

use super::world::{DEADLINE, LEASE, Weather, World};

const CALM: Weather = Weather {
    loss: 0.0,
    late: 0.0,
    lull: Duration::MAX,
};
/// The longest way of what is not late.
const PROMPT: Duration = Duration::from_millis(200);
/// The longest way of what is: nobody waits so long.
const LATE: Duration = Duration::from_secs(12);

/// What happens to one request.
struct Fate {
    /// The way there; `None`: it never arrives.
    there: Option<Duration>,
    /// The way back; `None`: the answer never arrives.
    back: Option<Duration>,
    /// Whether the connection is closed where something does not arrive, and is not just silent.
    is_reset: bool,
}

/// A client of the process `name` in this place.
pub(crate) fn client(world: World, slot: usize, name: String) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (world, name) = (world.clone(), name.clone());
        async move {
            let (answer, answered) = oneshot::channel();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = calm_before(&world) => {}
                    () = carry(&world, slot, &name, request, answer) => {}
                }
            });
            answered
                .await
                .unwrap_or_else(|_| Err(Error::from(ErrorKind::ConnectionReset)))
        }
    });
    kube::Client::new(service, "default")
}

/// The end of the storm, for what was sent before.
async fn calm_before(world: &World) {
    if world.calm().is_cancelled() {
        std::future::pending::<()>().await;
    }
    world.calm().cancelled().await;
}

async fn carry(
    world: &World,
    slot: usize,
    name: &str,
    request: Request<Body>,
    answer: oneshot::Sender<Result<Response<Answer>, Error>>,
) {
    let is_work = !request.uri().path().contains("/leases");
    let fate = draw(world, slot, is_work);
    let Some(there) = fate.there else {
        return lose(fate.is_reset, answer).await;
    };
    sleep(there).await;
    let handled = world.cluster.service().call(request).await;
    if is_work
        && handled
            .as_ref()
            .is_ok_and(|response| response.status().is_success())
    {
        world.worked(name);
    }
    world.look();
    let Some(back) = fate.back else {
        return lose(fate.is_reset, answer).await;
    };
    sleep(back).await;
    // Nobody may wait for it any more.
    let _ = answer.send(handled);
}

async fn lose<T>(is_reset: bool, answer: oneshot::Sender<T>) {
    if !is_reset {
        std::future::pending::<()>().await;
    }
    drop(answer);
}

/// Work that is under way when its sender's term ends has until the Lease may be somebody else's to
/// arrive: no network does better than that without a token that the server checks. The Lease
/// itself has such a token, its version, so it may take any time.
fn draw(world: &World, slot: usize, is_work: bool) -> Fate {
    let is_cut_off = world.is_cut_off(slot);
    let Weather { loss, late, .. } = if world.calm().is_cancelled() {
        &CALM
    } else {
        world.weather()
    };
    world.draw(|random| {
        let mut way = |latest: Duration| {
            let latest = if random.random_bool(*late) {
                latest
            } else {
                PROMPT
            };
            random.random_range(Duration::from_millis(1)..latest)
        };
        let there = way(if is_work { LEASE - DEADLINE } else { LATE });
        let back = way(LATE);
        let arrives = !is_cut_off && !random.random_bool(*loss);
        let returns = !random.random_bool(*loss);
        let is_reset = !is_cut_off && random.random_bool(0.4);
        Fate {
            there: arrives.then_some(there),
            back: returns.then_some(back),
            is_reset,
        }
    })
}
