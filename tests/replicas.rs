//! Three managers on one API server, as in production, while the leader stops, dies, freezes or
//! loses its network.
//!
//! Other managers take over, and no write happens twice or by two leaders at a time. Where a Lease
//! must expire, the durations of the election are shorter than the defaults, in about the same
//! proportion.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::requests::RequestRecord;
use steersman_values::clock::Clock;

use crate::support::cluster::{
    NO_EXPIRY, created_through, deployment, held, pod_writes, wait_for_count, wait_for_lease,
};
use crate::support::network::Network;
use crate::support::{LIMIT, Program};

const LEASE: Duration = Duration::from_secs(6);
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=800ms",
];

/// More pods than a leader creates at once: after the first thirty, the default throttle allows
/// twenty per second.
const PODS: usize = 120;

/// A manager with its own network and its own door. The door identifies its requests.
struct Instance {
    program: Program,
    network: Network,
    door: HttpsDoor,
}

impl Instance {
    async fn start(cluster: &DevCluster, durations: &[&str]) -> Self {
        let door = cluster
            .serve_https(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let network = Network::to(door.address()).await;
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let through = door
            .kubeconfig()
            .replace(&door.address().to_string(), &network.address().to_string());
        std::fs::write(&kubeconfig, through).unwrap();
        let mut arguments = vec![
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--secure-port=0",
        ];
        arguments.extend(durations);
        let mut program = Program::start(&arguments);
        // The program has read the kubeconfig now, so the file may be deleted.
        program.wait_for_line("Attempting to acquire leader lease");
        Self {
            program,
            network,
            door,
        }
    }

    /// Waits for the end of the process, and returns its exit status.
    fn end(&mut self) -> Option<i32> {
        tokio::task::block_in_place(|| self.program.end())
    }
}

/// A leader that has created only a part of the pods of a Deployment, and two standbys.
struct Managers {
    cluster: DevCluster,
    leader: Instance,
    standbys: Vec<Instance>,
    /// The spec of the Lease while the leader worked.
    lease: Value,
}

impl Managers {
    async fn at_work(durations: &[&str]) -> Self {
        let cluster = DevCluster::new(Clock::system());
        let leader = Instance::start(&cluster, durations).await;
        wait_for_lease(&cluster, held).await;
        let standbys = vec![
            Instance::start(&cluster, durations).await,
            Instance::start(&cluster, durations).await,
        ];
        cluster
            .create(deployment("web", PODS as u32))
            .await
            .unwrap();
        let begun = cluster
            .wait_for("pods", LIMIT, |pods| pods.len() >= 35)
            .await;
        assert!(
            begun.unwrap().len() < PODS,
            "the leader has pods left to create"
        );
        let lease = wait_for_lease(&cluster, held).await;
        Self {
            cluster,
            leader,
            standbys,
            lease,
        }
    }

    /// Waits until another manager acts on a new Deployment, and until all pods exist. Returns the
    /// time until the former.
    async fn until_another_has_acted(&self, since: Instant) -> Duration {
        self.cluster.create(deployment("new", 1)).await.unwrap();
        let is_new = |set: &Value| set["metadata"]["labels"]["app"] == "new";
        let acted = self
            .cluster
            .wait_for("replicasets", LIMIT, |sets| sets.iter().any(is_new))
            .await;
        acted.unwrap_or_else(|sets| panic!("no manager took over: {sets:#?}"));
        let took = since.elapsed();
        wait_for_count(&self.cluster, "pods", PODS + 1).await;
        // The log gets a request after its object is visible.
        let logged = async {
            while pod_writes(&self.cluster, "create") <= PODS {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(LIMIT, logged).await;
        in_time.expect("each pod was created by a request");
        took
    }

    /// Asserts that the Lease was taken only after it had expired.
    async fn assert_taken_after_expiry(&self) {
        let lease = wait_for_lease(&self.cluster, |spec| {
            spec["holderIdentity"] != self.lease["holderIdentity"]
        })
        .await;
        let time =
            |spec: &Value, field: &str| spec[field].as_str().unwrap().parse::<Timestamp>().unwrap();
        // The last renewal before the takeover may be later than the one seen, never earlier.
        let waited = time(&lease, "acquireTime").duration_since(time(&self.lease, "renewTime"));
        assert!(
            waited.unsigned_abs() >= LEASE,
            "taken after {waited:?}: {lease}"
        );
    }

    /// Asserts that no write happened twice, and that only one manager wrote at any time.
    fn assert_one_at_a_time(&self) {
        assert_eq!(
            pod_writes(&self.cluster, "create"),
            PODS + 1,
            "pods created"
        );
        assert_eq!(pod_writes(&self.cluster, "delete"), 0, "pods deleted");
        let requests = self.cluster.requests();
        let mut writers: Vec<_> = requests
            .iter()
            .filter(|r| is_work(r))
            .map(|r| r.door)
            .collect();
        writers.dedup();
        assert_eq!(
            writers.len(),
            2,
            "a former leader wrote after its successor: {writers:?}"
        );
    }
}

/// Whether this is a write of a controller other than an Event.
fn is_work(request: &RequestRecord) -> bool {
    let writes = !matches!(request.verb.as_str(), "get" | "list" | "watch");
    writes && request.user_agent.ends_with("-controller") && request.resource != "events"
}

/// Prints a duration; shown with `--nocapture`. `steersman-bench failover` measures with the
/// default durations.
fn report(what: &str, took: Duration) {
    println!(
        "{what}: another manager acted after {:.1} s",
        took.as_secs_f64()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_sigterm_another_manager_takes_over_without_waiting_for_the_expiry() {
    // With these durations, a takeover in time is only possible by watching the Lease.
    let mut managers = Managers::at_work(&NO_EXPIRY).await;
    let asked = Instant::now();
    managers.leader.program.signal("TERM");
    report("SIGTERM", managers.until_another_has_acted(asked).await);
    assert!(
        created_through(&managers.cluster, &managers.leader.door) < PODS,
        "the leader created all pods before it released the Lease"
    );
    assert_eq!(managers.leader.end(), Some(0));
    managers.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_sigkill_another_manager_takes_over_when_the_lease_expires() {
    let mut managers = Managers::at_work(&SHORT).await;
    let killed = Instant::now();
    managers.leader.program.signal("KILL");
    report("SIGKILL", managers.until_another_has_acted(killed).await);
    assert_eq!(managers.leader.end(), None);
    managers.assert_taken_after_expiry().await;
    managers.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_leader_that_resumes_too_late_ends_without_a_write() {
    let mut managers = Managers::at_work(&SHORT).await;
    let frozen = Instant::now();
    managers.leader.program.signal("STOP");
    report("SIGSTOP", managers.until_another_has_acted(frozen).await);
    managers.assert_taken_after_expiry().await;
    managers.leader.program.signal("CONT");
    assert_eq!(managers.leader.end(), Some(1));
    managers.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_network_ends_before_another_manager_takes_over() {
    let mut managers = Managers::at_work(&SHORT).await;
    let cut = Instant::now();
    managers.leader.network.drop_traffic();
    assert_eq!(managers.leader.end(), Some(1));
    let lease = wait_for_lease(&managers.cluster, |_| true).await;
    assert_eq!(
        lease["holderIdentity"], managers.lease["holderIdentity"],
        "another manager led while the first one still ran"
    );
    report("network cut", managers.until_another_has_acted(cut).await);
    managers.assert_taken_after_expiry().await;
    managers.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_api_server_ends_only_the_leader_and_repeats_no_write() {
    let mut managers = Managers::at_work(&SHORT).await;
    for instance in std::iter::once(&managers.leader).chain(&managers.standbys) {
        instance.network.refuse();
    }
    assert_eq!(managers.leader.end(), Some(1));
    // Long enough for all managers to notice, and for the Lease to expire.
    tokio::time::sleep(LEASE).await;
    for standby in &mut managers.standbys {
        standby.program.assert_running();
        standby.network.restore();
    }
    let back = Instant::now();
    report(
        "API server back",
        managers.until_another_has_acted(back).await,
    );
    managers.assert_taken_after_expiry().await;
    managers.assert_one_at_a_time();
}
