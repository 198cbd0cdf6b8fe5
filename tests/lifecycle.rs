//! The life of a whole manager in-process, with controllers that only wait.

use std::pin::Pin;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use steersman::{Config, Connection, ControllerRegistry, Manager, Options, RunError};
use steersman_runtime::controller::{Controller, Descriptor, InitError};
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;
use tokio::time::Instant;

/// A controller that runs until stopped, and then needs this time to finish. `None` panics at once.
struct Waits(Option<Duration>);

impl Controller for Waits {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let finishing = self.0.expect("told to panic");
            stop.cancelled().await;
            tokio::time::sleep(finishing).await;
        })
    }
}

const QUICK: Descriptor = Descriptor {
    init: |_| Ok(Box::new(Waits(Some(Duration::from_secs(2))))),
    ..BASE
};
const SLOW: Descriptor = Descriptor {
    name: "slow",
    init: |_| Ok(Box::new(Waits(Some(Duration::from_secs(60))))),
    ..BASE
};
const PANICS: Descriptor = Descriptor {
    name: "panics",
    init: |_| Ok(Box::new(Waits(None))),
    ..BASE
};
const BROKEN: Descriptor = Descriptor {
    name: "broken",
    init: |_| {
        Err(InitError {
            controller: "broken",
            source: "no tools".into(),
        })
    },
    ..BASE
};
const BASE: Descriptor = Descriptor {
    name: "quick",
    aliases: &[],
    enabled_by_default: true,
    summary: "",
    identity: "quick",
    rules: &[],
    reads: &[],
    init: |_| unreachable!("every controller has its own"),
};

/// A manager without election and port, with an API server that answers every request with
/// `status`.
fn manager(controllers: &[Descriptor], flags: &[(&str, &str)], status: u16) -> Manager {
    let registry = controllers
        .iter()
        .fold(ControllerRegistry::empty(), |registry, d| registry.with(*d));
    let mut options = Options::default();
    for (flag, value) in [("leader-elect", "false"), ("secure-port", "0")]
        .iter()
        .chain(flags)
    {
        options.set(flag, value).unwrap();
    }
    let config = Config::new(options, &registry).unwrap();
    let service = tower::service_fn(move |_: Request<Body>| async move {
        Ok::<_, std::convert::Infallible>(
            Response::builder()
                .status(status)
                .body(Body::empty())
                .unwrap(),
        )
    });
    let connection = Connection::in_process(kube::Client::new(service, "default"), "test");
    Manager::new(config, connection, Clock::system()).unwrap()
}

/// Runs a manager for five seconds, then stops it. Returns its result and the time it took to stop.
async fn run_and_stop(manager: Manager) -> (Result<(), RunError>, Duration) {
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(
        !running.is_finished(),
        "the manager ended before the stop request"
    );
    let asked = Instant::now();
    stop.cancel();
    (running.await.unwrap(), asked.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_until_controllers_have_finished() {
    let (ended, took) = run_and_stop(manager(&[QUICK], &[], 200)).await;
    ended.unwrap();
    assert_eq!(took.as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn controllers_that_do_not_stop_in_time_are_named() {
    let (ended, took) = run_and_stop(manager(&[QUICK, SLOW], &[], 200)).await;
    assert_eq!(
        ended.unwrap_err().to_string(),
        "controller shutdown timeout reached: slow still running"
    );
    assert_eq!(took.as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn without_a_shutdown_timeout_the_wait_is_unlimited() {
    let (ended, took) = run_and_stop(manager(
        &[SLOW],
        &[("controller-shutdown-timeout", "0")],
        200,
    ))
    .await;
    ended.unwrap();
    assert_eq!(took.as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn controllers_start_after_one_to_two_start_intervals() {
    let start = Instant::now();
    let manager = manager(&[PANICS], &[("controller-start-interval", "10s")], 200);
    let ended = manager.run(CancellationToken::new()).await;
    assert!(
        matches!(ended, Err(RunError::ControllerEnded("panics"))),
        "{ended:?}"
    );
    let took = start.elapsed().as_secs();
    assert!((10..=20).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_fails_to_initialise_ends_the_manager() {
    let ended = manager(&[QUICK, BROKEN], &[], 200)
        .run(CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(
        (ended.to_string().as_str(), ended.exit_code()),
        ("build broken: no tools", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_disabled_controller_is_not_initialised() {
    run_and_stop(manager(
        &[QUICK, BROKEN],
        &[("controllers", "*,-broken")],
        200,
    ))
    .await
    .0
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_for_an_unhealthy_api_server() {
    let (ended, took) = run_and_stop(manager(&[QUICK], &[], 500)).await;
    ended.unwrap();
    assert_eq!(took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_keeps_waiting_for_an_unhealthy_api_server() {
    let stop = CancellationToken::new();
    let running =
        tokio::spawn(manager(&[QUICK], &[("leader-elect", "true")], 500).run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!running.is_finished(), "{:?}", running.await);
    stop.cancel();
    running.await.unwrap().unwrap();
}
