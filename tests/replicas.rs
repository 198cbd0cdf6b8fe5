//! Three managers on one API server, as they run in production: what becomes of the work when the
//! leader ends, dies, freezes or is cut off. Where a Lease has to run out, the durations of the
//! election are shorter than the defaults and in about the same proportion.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::requests::RequestRecord;
use steersman_runtime::clock::Clock;

use crate::support::cluster::{
    UNHURRIED, created_through, deployment, done, held, wait_for_count, wait_for_lease,
};
use crate::support::network::Network;
use crate::support::{LIMIT, Program};

const LEASE: Duration = Duration::from_secs(6);
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=800ms",
];

/// More than a leader creates at once: with the default throttle some twenty a second come after
/// the first thirty.
const PODS: usize = 120;

/// One manager, with a network and a door of its own, by which its requests are told from the
/// others'.
struct Member {
    program: Program,
    network: Network,
    door: HttpsDoor,
}

impl Member {
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
        // From here on it no longer needs the file.
        program.wait_for_line("Attempting to acquire leader lease");
        Self {
            program,
            network,
            door,
        }
    }

    fn end(&mut self) -> Option<i32> {
        tokio::task::block_in_place(|| self.program.end())
    }
}

/// A leader at work on a Deployment with far more pods than it has created so far, and two
/// standbys.
struct Crew {
    cluster: DevCluster,
    leader: Member,
    standbys: Vec<Member>,
    lease: Value,
}

impl Crew {
    async fn at_work(durations: &[&str]) -> Self {
        let cluster = DevCluster::new(Clock::system());
        let leader = Member::start(&cluster, durations).await;
        wait_for_lease(&cluster, held).await;
        let standbys = vec![
            Member::start(&cluster, durations).await,
            Member::start(&cluster, durations).await,
        ];
        cluster
            .create(deployment("web", PODS as u32))
            .await
            .unwrap();
        let begun = cluster
            .wait_for("pods", LIMIT, |pods| pods.len() >= 35)
            .await;
        assert!(begun.unwrap().len() < PODS, "nothing left to hand over");
        let lease = wait_for_lease(&cluster, held).await;
        Self {
            cluster,
            leader,
            standbys,
            lease,
        }
    }

    /// Waits until another has done something new, and until all that was begun is done; says how
    /// long the former took.
    async fn until_another_has_acted(&self, since: Instant) -> Duration {
        self.cluster.create(deployment("new", 1)).await.unwrap();
        let is_new = |set: &Value| set["metadata"]["labels"]["app"] == "new";
        let acted = self
            .cluster
            .wait_for("replicasets", LIMIT, |sets| sets.iter().any(is_new))
            .await;
        acted.unwrap_or_else(|sets| panic!("nobody took over: {sets:#?}"));
        let took = since.elapsed();
        wait_for_count(&self.cluster, "pods", PODS + 1).await;
        took
    }

    /// Nobody may have taken a Lease that was not given up before it had run out.
    async fn assert_taken_after_it_ran_out(&self) {
        let lease = wait_for_lease(&self.cluster, |spec| {
            spec["holderIdentity"] != self.lease["holderIdentity"]
        })
        .await;
        let time =
            |spec: &Value, field: &str| spec[field].as_str().unwrap().parse::<Timestamp>().unwrap();
        // The last renewal before the takeover is at least as late as the one that was seen.
        let waited = time(&lease, "acquireTime").duration_since(time(&self.lease, "renewTime"));
        assert!(
            waited.unsigned_abs() >= LEASE,
            "taken after {waited:?}: {lease}"
        );
    }

    /// Nothing was done twice, and once one has begun to write no other writes any more.
    fn assert_one_at_a_time(&self) {
        assert_eq!(done(&self.cluster, "create"), PODS + 1, "pods created");
        assert_eq!(done(&self.cluster, "delete"), 0, "pods deleted");
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
            "one wrote after another had begun to: {writers:?}"
        );
    }
}

/// Whether this is a write of a controller, and no Event.
fn is_work(request: &RequestRecord) -> bool {
    let writes = !matches!(request.verb.as_str(), "get" | "list" | "watch");
    writes && request.user_agent.ends_with("-controller") && request.resource != "events"
}

/// Shown with `--nocapture`; the default durations are measured by `steersman-bench --failover`.
fn report(what: &str, took: Duration) {
    println!(
        "{what}: another has acted after {:.1} s",
        took.as_secs_f64()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_told_to_end_the_lease_is_not_waited_out() {
    // Nobody would act in time who waited for the Lease to run out, or until it is time for another
    // try.
    let mut crew = Crew::at_work(&UNHURRIED).await;
    let asked = Instant::now();
    crew.leader.program.signal("TERM");
    report("SIGTERM", crew.until_another_has_acted(asked).await);
    assert!(
        created_through(&crew.cluster, &crew.leader.door) < PODS,
        "the leader did all of its work before it gave the Lease up"
    );
    assert_eq!(crew.leader.end(), Some(0));
    crew.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_killed_another_goes_on_once_the_lease_has_run_out() {
    let mut crew = Crew::at_work(&SHORT).await;
    let killed = Instant::now();
    crew.leader.program.signal("KILL");
    report("SIGKILL", crew.until_another_has_acted(killed).await);
    assert_eq!(crew.leader.end(), None);
    crew.assert_taken_after_it_ran_out().await;
    crew.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_wakes_up_too_late_writes_nothing_and_ends() {
    let mut crew = Crew::at_work(&SHORT).await;
    let frozen = Instant::now();
    crew.leader.program.signal("STOP");
    report("SIGSTOP", crew.until_another_has_acted(frozen).await);
    crew.assert_taken_after_it_ran_out().await;
    crew.leader.program.signal("CONT");
    assert_eq!(crew.leader.end(), Some(1));
    crew.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_alone_is_cut_off_ends_before_another_takes_over() {
    let mut crew = Crew::at_work(&SHORT).await;
    let cut = Instant::now();
    crew.leader.network.fall_silent();
    assert_eq!(crew.leader.end(), Some(1));
    let lease = wait_for_lease(&crew.cluster, |_| true).await;
    assert_eq!(
        lease["holderIdentity"], crew.lease["holderIdentity"],
        "another led while the first still ran"
    );
    report("network cut", crew.until_another_has_acted(cut).await);
    crew.assert_taken_after_it_ran_out().await;
    crew.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_server_is_gone_only_the_leader_ends_and_nothing_is_done_twice_afterwards() {
    let mut crew = Crew::at_work(&SHORT).await;
    for member in std::iter::once(&crew.leader).chain(&crew.standbys) {
        member.network.refuse();
    }
    assert_eq!(crew.leader.end(), Some(1));
    // Long enough for everybody to have noticed, and for the Lease to run out.
    tokio::time::sleep(LEASE).await;
    for standby in &mut crew.standbys {
        standby.program.assert_running();
        standby.network.mend();
    }
    let back = Instant::now();
    report("API server back", crew.until_another_has_acted(back).await);
    crew.assert_taken_after_it_ran_out().await;
    crew.assert_one_at_a_time();
}
