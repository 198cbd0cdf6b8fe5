//! The LeaseCandidate of a process. The API server here has the type by a definition, and the test
//! plays the coordinator.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_devcluster::DevCluster;
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{self, Matcher};
use steersman_runtime::leader::Candidacy;
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;

const CANDIDATES: &str = "leasecandidates";
const NAME: &str = "host-1";

fn begin() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A cluster with the type.
async fn cluster() -> DevCluster {
    let cluster = DevCluster::new(Clock::runtime(begin()));
    let kind = definition(
        "coordination.k8s.io",
        "LeaseCandidate",
        &["v1beta1"],
        "Namespaced",
    );
    cluster.create(kind).await.unwrap();
    cluster
}

fn start(cluster: &DevCluster) -> CancellationToken {
    let settings = ClientSettings {
        user_agent: "candidate".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(5),
    };
    let metrics = ClientMetrics::register(&Registry::new()).unwrap();
    let candidacy = Candidacy {
        client: ApiClient::new(cluster.client(), settings, metrics),
        clock: cluster.clock().clone(),
        identity: NAME.to_owned(),
        lease: "kube-controller-manager".to_owned(),
        binary_version: "1.36.2".to_owned(),
        emulation_version: "1.36.0".to_owned(),
    };
    let stop = CancellationToken::new();
    tokio::spawn(candidacy.run(stop.clone()));
    stop
}

fn candidate(cluster: &DevCluster) -> Option<Value> {
    cluster.objects(CANDIDATES).pop()
}

/// Seconds between the start of the test and the last renewal.
fn renewed(cluster: &DevCluster) -> i64 {
    let candidate = candidate(cluster).expect("the candidate exists");
    let time = candidate["spec"]["renewTime"].as_str().unwrap();
    let time: Timestamp = time.parse().unwrap();
    time.duration_since(begin()).as_secs()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn ping(cluster: &DevCluster) {
    let path = cluster.path(CANDIDATES, "kube-system", NAME);
    let now = cluster.clock().now().to_string();
    let ping = json!({"spec": {"pingTime": now}});
    cluster.patch(&path, ping).await.unwrap();
}

/// The fields are those of the LeaseCandidate of kube-controller-manager 1.36.2.
#[tokio::test(start_paused = true)]
async fn a_process_makes_itself_a_candidate() {
    let cluster = cluster().await;
    let stop = start(&cluster);
    pass(1).await;
    let found = candidate(&cluster).expect("the candidate exists");
    assert_eq!(found["metadata"]["name"], NAME);
    assert_eq!(found["metadata"]["namespace"], "kube-system");
    let mut spec = found["spec"].clone();
    let time = spec["renewTime"].take();
    assert_eq!(
        time.as_str().map(str::len),
        Some("2026-01-01T00:00:00.000000Z".len())
    );
    let expected = json!({
        "binaryVersion": "1.36.2", "emulationVersion": "1.36.0",
        "leaseName": "kube-controller-manager", "renewTime": null,
        "strategy": "OldestEmulationVersion",
    });
    assert_eq!(spec, expected);
    // A renewal every five minutes, and none after the end.
    pass(305).await;
    assert_eq!(renewed(&cluster), 300);
    stop.cancel();
    pass(400).await;
    assert_eq!(renewed(&cluster), 300);
}

/// Upstream: `TestLeaseCandidateAck` and `TestLeaseCandidateCreation`.
#[tokio::test(start_paused = true)]
async fn a_candidate_answers_pings() {
    let cluster = cluster().await;
    let _stop = start(&cluster);
    pass(60).await;
    assert_eq!(renewed(&cluster), 0);
    ping(&cluster).await;
    pass(1).await;
    assert_eq!(renewed(&cluster), 60);
    pass(60).await;
    assert_eq!(renewed(&cluster), 60, "one answer for each ping");
    let found = candidate(&cluster).unwrap();
    assert!(
        found["spec"]["pingTime"].is_string(),
        "the answer keeps the ping"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_candidate_comes_back() {
    let cluster = cluster().await;
    let _stop = start(&cluster);
    pass(10).await;
    let path = cluster.path(CANDIDATES, "kube-system", NAME);
    cluster.delete(&path).await.unwrap();
    pass(2).await;
    assert_eq!(renewed(&cluster), 10);
}

#[tokio::test(start_paused = true)]
async fn a_refused_candidate_is_made_later() {
    let cluster = cluster().await;
    let creations = Matcher::new("create", CANDIDATES);
    let rule = cluster
        .faults()
        .reject(creations, faults::internal_error(), None);
    let _stop = start(&cluster);
    pass(20).await;
    assert_eq!(candidate(&cluster), None);
    cluster.faults().remove(rule);
    pass(31).await;
    assert!(candidate(&cluster).is_some());
}
