//! The network between a process and the API server. Each request is a separate task, so it may
//! arrive after its sender has given up or died.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use rand::Rng;
use steersman_devcluster::rest::Body as Answer;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tower::Service;

use super::world::{DEADLINE, FaultRates, LEASE, World};

const NO_FAULTS: FaultRates = FaultRates {
    loss: 0.0,
    late: 0.0,
    longest_pause: Duration::MAX,
};
/// The longest delay of a message that is not late.
const MAX_DELAY: Duration = Duration::from_millis(200);
/// The longest delay of a late message: longer than all time limits of clients.
const MAX_LATE_DELAY: Duration = Duration::from_secs(12);

/// The delays and losses of one request.
struct Fate {
    /// Delay of the request; `None` if it is lost.
    request_delay: Option<Duration>,
    /// Delay of the answer; `None` if it is lost.
    answer_delay: Option<Duration>,
    /// True if a loss closes the connection; otherwise the connection stays silent.
    is_reset: bool,
}

/// A client of the process `name` in this slot.
pub(crate) fn client(world: World, slot: usize, name: String) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let world = world.clone();
        let name = name.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = faults_end_later(&world) => {}
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

/// Returns at the end of the faults, for requests that were sent before it.
async fn faults_end_later(world: &World) {
    if world.faults_ended().is_cancelled() {
        std::future::pending::<()>().await;
    }
    world.faults_ended().cancelled().await;
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
    let Some(request_delay) = fate.request_delay else {
        return lose(fate.is_reset, answer).await;
    };
    sleep(request_delay).await;
    let handled = world.cluster.service().call(request).await;
    if is_work
        && handled
            .as_ref()
            .is_ok_and(|response| response.status().is_success())
    {
        world.work_done(name);
    }
    world.check();
    let Some(answer_delay) = fate.answer_delay else {
        return lose(fate.is_reset, answer).await;
    };
    sleep(answer_delay).await;
    // The sender may have given up already.
    let _ = answer.send(handled);
}

async fn lose<T>(is_reset: bool, answer: oneshot::Sender<T>) {
    if !is_reset {
        std::future::pending::<()>().await;
    }
    drop(answer);
}

/// Draws the fate of one request.
///
/// The delay of the leader's work is less than lease duration - renew deadline. A later write could
/// arrive in the term of another leader, because the server checks no leader on other objects. The
/// server does check the version of the Lease, so requests for the Lease may have any delay.
fn draw(world: &World, slot: usize, is_work: bool) -> Fate {
    let is_cut_off = world.is_cut_off(slot);
    let FaultRates { loss, late, .. } = if world.faults_ended().is_cancelled() {
        &NO_FAULTS
    } else {
        world.rates()
    };
    world.draw(|random| {
        let mut way = |latest: Duration| {
            let latest = if random.random_bool(*late) {
                latest
            } else {
                MAX_DELAY
            };
            random.random_range(Duration::from_millis(1)..latest)
        };
        let request_delay = way(if is_work {
            LEASE - DEADLINE
        } else {
            MAX_LATE_DELAY
        });
        let answer_delay = way(MAX_LATE_DELAY);
        let arrives = !is_cut_off && !random.random_bool(*loss);
        let returns = !random.random_bool(*loss);
        let is_reset = !is_cut_off && random.random_bool(0.4);
        Fate {
            request_delay: arrives.then_some(request_delay),
            answer_delay: returns.then_some(answer_delay),
            is_reset,
        }
    })
}
