//! Leader election of whole managers, in-process, against a cluster in memory.

use std::time::Duration;

use steersman::health::HealthChecks;
use steersman::{Config, Connection, ControllerRegistry, Manager, Options, RunError};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::LIMIT;
use crate::support::cluster::{deployment, held, wait_for_count, wait_for_lease};

/// A running manager.
pub(crate) struct Running {
    pub(crate) health: HealthChecks,
    pub(crate) metrics: prometheus::Registry,
    task: JoinHandle<Result<(), RunError>>,
    stop: CancellationToken,
}

impl Running {
    pub(crate) async fn stop(self) -> Result<(), RunError> {
        self.stop.cancel();
        self.ended().await
    }

    /// Waits until the manager ends without a stop request.
    pub(crate) async fn ended(self) -> Result<(), RunError> {
        self.task.await.unwrap()
    }
}

pub(crate) fn cluster() -> DevCluster {
    DevCluster::new(Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap()))
}

/// Starts a whole manager without a port, with administrator credentials.
pub(crate) fn start(cluster: &DevCluster, flags: &[(&str, &str)]) -> Running {
    start_with(cluster, &ControllerRegistry::builtin(), flags)
}

/// As [`start`], with these controllers.
pub(crate) fn start_with(
    cluster: &DevCluster,
    controllers: &ControllerRegistry,
    flags: &[(&str, &str)],
) -> Running {
    let connection = Connection::in_process(cluster.client(), "devcluster");
    run(cluster, connection, controllers, flags)
}

/// As [`start`], over another connection.
pub(crate) fn start_over(
    cluster: &DevCluster,
    connection: Connection,
    flags: &[(&str, &str)],
) -> Running {
    run(cluster, connection, &ControllerRegistry::builtin(), flags)
}

fn run(
    cluster: &DevCluster,
    connection: Connection,
    controllers: &ControllerRegistry,
    flags: &[(&str, &str)],
) -> Running {
    let mut options = Options::default();
    for (flag, value) in [("secure-port", "0")].iter().chain(flags) {
        options.set(flag, value).unwrap();
    }
    let config = Config::new(options, controllers).unwrap();
    let manager = Manager::new(config, connection, cluster.clock().clone()).unwrap();
    let stop = CancellationToken::new();
    let health = manager.health();
    let metrics = manager.registry().clone();
    Running {
        health,
        metrics,
        task: tokio::spawn(manager.run(stop.clone())),
        stop,
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_gets_its_pods_and_a_stop_releases_the_lease() {
    let cluster = cluster();
    let manager = start(&cluster, &[]);
    cluster.create(deployment("web", 3)).await.unwrap();
    wait_for_count(&cluster, "replicasets", 1).await;
    wait_for_count(&cluster, "pods", 3).await;
    wait_for_lease(&cluster, held).await;
    manager.stop().await.unwrap();
    let spec = wait_for_lease(&cluster, |_| true).await;
    assert_eq!(
        (
            spec["holderIdentity"].as_str(),
            spec["leaseTransitions"].as_i64()
        ),
        (Some(""), Some(0))
    );
}

#[tokio::test(start_paused = true)]
async fn without_election_no_lease_is_created() {
    let cluster = cluster();
    let manager = start(
        &cluster,
        &[("leader-elect", "false"), ("standby-informers", "false")],
    );
    cluster.create(deployment("web", 2)).await.unwrap();
    wait_for_count(&cluster, "pods", 2).await;
    manager.stop().await.unwrap();
    assert_eq!(cluster.count("leases"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_standby_writes_nothing_until_the_leader_stops() {
    let cluster = cluster();
    let first = start(&cluster, &[]);
    let holder = wait_for_lease(&cluster, held).await["holderIdentity"].clone();
    let second = start(&cluster, &[]);
    cluster.create(deployment("web", 1)).await.unwrap();
    wait_for_count(&cluster, "pods", 1).await;
    tokio::time::sleep(LIMIT).await;
    assert_eq!(
        wait_for_lease(&cluster, held).await["holderIdentity"],
        holder,
        "the standby took the Lease from a working leader"
    );

    first.stop().await.unwrap();
    let asked = Instant::now();
    wait_for_lease(&cluster, |spec| {
        held(spec) && spec["holderIdentity"] != holder
    })
    .await;
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "the standby noticed the release only after {:?}",
        asked.elapsed()
    );
    cluster.create(deployment("late", 2)).await.unwrap();
    wait_for_count(&cluster, "pods", 3).await;
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_stopped_while_it_acquires_releases_the_lease() {
    let cluster = cluster();
    // First the Lease does not exist and is created; then it exists, released, and is updated.
    for verb in ["create", "update"] {
        let slow = cluster.faults().delay(
            Matcher::new(verb, "leases"),
            Duration::from_secs(2),
            Some(1),
        );
        let manager = start(&cluster, &[]);
        let limit = tokio::time::timeout(LIMIT, async {
            while cluster.faults().hits(slow) == 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        limit.await.expect("the candidate requests the Lease");
        manager.stop().await.unwrap();
        let spec = wait_for_lease(&cluster, |_| true).await;
        assert_eq!(spec["holderIdentity"], "", "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn losing_the_lease_ends_the_manager_at_once() {
    let cluster = cluster();
    let manager = start(&cluster, &[]);
    cluster.create(deployment("web", 1)).await.unwrap();
    wait_for_count(&cluster, "pods", 1).await;
    for verb in ["update", "patch", "get"] {
        cluster.faults().reject(
            Matcher::new(verb, "leases"),
            Status::internal("no leases today"),
            None,
        );
    }
    let began = Instant::now();
    let ended = tokio::time::timeout(LIMIT, manager.task)
        .await
        .expect("the manager ends")
        .unwrap();
    assert!(matches!(ended, Err(RunError::LeaseLost)), "{ended:?}");
    assert_eq!(ended.unwrap_err().exit_code(), 1);
    assert!(
        began.elapsed() <= Duration::from_secs(12),
        "led for {:?} without renewing",
        began.elapsed()
    );

    cluster.create(deployment("late", 1)).await.unwrap();
    tokio::time::sleep(LIMIT).await;
    assert_eq!(
        cluster.count("replicasets"),
        1,
        "a manager without the Lease continued to write"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_read_of_the_lease_is_reported() {
    let cluster = cluster();
    let mut forbidden = Status::internal("");
    forbidden.code = 403;
    forbidden.reason = "Forbidden";
    forbidden.message = "leases \"kube-controller-manager\" is forbidden".to_owned();
    cluster
        .faults()
        .reject(Matcher::new("get", "leases"), forbidden, None);
    let ended = start(&cluster, &[]).task.await.unwrap().unwrap_err();
    let expected = "error retrieving resource lock kube-system/kube-controller-manager: leases \"kube-controller-manager\" is forbidden";
    assert_eq!(ended.to_string(), expected);
}
