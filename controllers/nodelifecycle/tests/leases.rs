//! The look at live Leases before a silent node is lost (gate `NodeControllerLeaseCircuitBreaker`).

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RuleId, internal_error};
use steersman_devcluster::status::Status;

use super::world::Kubelets;

/// The read of a live Lease, by its node and the code of the answer.
fn read_of(node: &str, code: u16) -> String {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    format!("get {leases}/{node} {code}")
}

/// The cache of Leases stands still from now on.
fn hold_leases(kubelets: &Kubelets) -> RuleId {
    let cluster = &kubelets.world.cluster;
    let watch = Matcher::new("watch", "leases").client("shared-informers");
    cluster.faults().hold_view(watch, cluster.revision())
}

/// The `Ready` condition of a living node after its Lease was missed for longer than the grace period.
pub(crate) async fn ready_beside_an_old_cache_of_leases(is_on: bool) -> Value {
    let kubelets = Kubelets::with_breaker(&[""], is_on).await;
    kubelets.pass(30).await;
    hold_leases(&kubelets);
    kubelets.pass(90).await;
    json!(kubelets.ready("nodes", "n0"))
}

#[tokio::test(start_paused = true)]
async fn an_old_cache_of_leases_loses_no_node_and_costs_few_reads_in_each_pass() {
    let kubelets = Kubelets::with_breaker(&[""; 20], true).await;
    kubelets.pass(30).await;
    let held = hold_leases(&kubelets);
    kubelets.pass(90).await;
    let requests = kubelets.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.starts_with("get /apis")),
        "{requests:#?}"
    );
    // The grace period leaves 8 to 10 passes, of 8 reads at once. The first answer ends the reads of a pass.
    assert!((64..=80).contains(&requests.len()), "{}", requests.len());
    kubelets.world.cluster.faults().remove(held);
    kubelets.pass(60).await;
    assert_eq!(
        kubelets.requests().len(),
        requests.len(),
        "the cache is new"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_lost_after_one_read_of_its_lease() {
    let kubelets = Kubelets::with_breaker(&["", ""], true).await;
    kubelets.kill("n1");
    kubelets
        .until("n1 is tainted", |k| k.taints("n1").len() == 2)
        .await;
    kubelets.pass(60).await;
    let requests = kubelets.requests();
    let expected = [read_of("n1", 200), "patch nodes/n1/status 200".to_owned()];
    assert_eq!(requests[..2], expected);
    let reads = requests.iter().filter(|request| **request == expected[0]);
    assert_eq!(reads.count(), 1, "{requests:#?}");
}

/// The role of the node controller allows the read since 1.37.
#[tokio::test(start_paused = true)]
async fn a_silent_node_is_lost_although_the_role_forbids_the_read() {
    let kubelets = Kubelets::with_breaker(&["", ""], true).await;
    let reads = Matcher::new("get", "leases").client("node-controller");
    let forbidden = Status::new(403, "Forbidden", "leases is forbidden".to_owned());
    let faults = kubelets.world.cluster.faults();
    faults.reject(reads, forbidden, None);
    kubelets.kill("n1");
    kubelets
        .until("n1 is lost", |k| k.ready("nodes", "n1") == "Unknown")
        .await;
    assert_eq!(kubelets.requests()[0], read_of("n1", 403));
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_lost_only_after_an_answer_about_its_lease() {
    let kubelets = Kubelets::with_breaker(&["", ""], true).await;
    let reads = Matcher::new("get", "leases").client("node-controller");
    let faults = kubelets.world.cluster.faults();
    let fails = faults.reject(reads, internal_error(), None);
    kubelets.kill("n1");
    kubelets.pass(120).await;
    assert_eq!(kubelets.ready("nodes", "n1"), "True");
    faults.remove(fails);
    kubelets
        .until("n1 is lost", |k| k.ready("nodes", "n1") == "Unknown")
        .await;
}
