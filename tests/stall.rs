//! A leader without answers to its requests gives up the Lease, so that another manager can work.

use std::time::Duration;

use serde_json::json;
use steersman::RunError;
use steersman::health::Probe;
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::{self, Matcher, RequestFault};
use tokio::time::Instant;

use crate::election::{Running, cluster, start};
use crate::support::cluster::{deployment, held, wait_for_count, wait_for_lease};

const LIMIT: Duration = Duration::from_secs(60);

/// User actions that lead to a particular request of a controller.
enum Work {
    Start,
    Create,
    ScaleDown,
    Delete(&'static str),
    DeleteNamespace,
}

impl Work {
    async fn begin(&self, cluster: &DevCluster) {
        let web = cluster.path("deployments", "default", "web");
        match self {
            Self::Start => {}
            Self::Create => drop(cluster.create(deployment("api", 2)).await.unwrap()),
            Self::ScaleDown => drop(
                cluster
                    .patch(&web, json!({"spec": {"replicas": 1}}))
                    .await
                    .unwrap(),
            ),
            Self::Delete(policy) => {
                cluster
                    .delete_with(&web, json!({"propagationPolicy": policy}))
                    .await
                    .unwrap();
            }
            Self::DeleteNamespace => {
                drop(cluster.delete("/api/v1/namespaces/doomed").await.unwrap())
            }
        }
    }
}

/// All writes of a client except those of leader election.
fn writes_of(client: &str) -> Matcher {
    Matcher::writes().client(client).except("leases")
}

/// A leader that has created two pods.
async fn at_work(cluster: &DevCluster, flags: &[(&str, &str)]) -> Running {
    let manager = start(cluster, flags);
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}}))
        .await
        .unwrap();
    cluster.create(deployment("web", 2)).await.unwrap();
    wait_for_count(cluster, "pods", 2).await;
    tokio::time::sleep(LIMIT).await;
    manager
}

#[tokio::test(start_paused = true)]
async fn a_leader_ends_when_any_type_of_request_hangs() {
    // (requests that hang, type of request in the reason, action that causes it)
    let cases = [
        (Matcher::verb("list"), "LIST", Work::DeleteNamespace),
        (Matcher::new("watch", "pods"), "WATCH", Work::Start),
        (
            Matcher::verb("create").client("kube-controller-manager"),
            "POST",
            Work::Create,
        ),
        (
            Matcher::new("update", "deployments").subresource("status"),
            "PUT",
            Work::ScaleDown,
        ),
        (
            Matcher::new("patch", "replicasets"),
            "PATCH",
            Work::Delete("Orphan"),
        ),
        (
            Matcher::new("get", "deployments"),
            "GET",
            Work::Delete("Foreground"),
        ),
        (Matcher::new("delete", "pods"), "DELETE", Work::ScaleDown),
        (
            Matcher::verb("deletecollection"),
            "DELETECOLLECTION",
            Work::DeleteNamespace,
        ),
    ];
    for (hanging, kind, work) in cases {
        let cluster = cluster();
        let from_start = matches!(work, Work::Start);
        let manager = if from_start {
            None
        } else {
            Some(at_work(&cluster, &[]).await)
        };
        let rule = cluster
            .faults()
            .on_request(hanging, RequestFault::Hang, None);
        let manager = manager.unwrap_or_else(|| start(&cluster, &[]));
        wait_for_lease(&cluster, held).await;
        work.begin(&cluster).await;

        let began = Instant::now();
        // The deletion of a collection may take five minutes; other requests may take 70 s.
        let patience = if kind == "DELETECOLLECTION" {
            Duration::from_secs(300 - 70)
        } else {
            Duration::ZERO
        };
        tokio::time::sleep(patience + LIMIT + LIMIT / 2).await;
        let probe = manager.health.report(Probe::Readyz, "verbose").body;
        assert!(probe.contains("[-]progress failed"), "{kind}: {probe}");
        let ended = tokio::time::timeout(LIMIT * 5, manager.ended())
            .await
            .unwrap_or_else(|_| panic!("{kind}: the manager continues"));
        let error = ended.unwrap_err();
        assert!(matches!(&error, RunError::Stalled(_)), "{kind}: {error}");
        assert!(
            error
                .to_string()
                .contains(&format!("no {kind} request was answered")),
            "{error}"
        );
        assert!(
            began.elapsed() >= LIMIT * 2,
            "{kind}: {:?}",
            began.elapsed()
        );
        assert!(cluster.faults().hits(rule) > 0);
        wait_for_lease(&cluster, |spec| !held(spec)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_from_a_stalled_leader() {
    let cluster = cluster();
    let leader = at_work(&cluster, &[]).await;
    let holder = wait_for_lease(&cluster, held).await["holderIdentity"].clone();
    let standby = start(&cluster, &[]);
    let rule =
        cluster
            .faults()
            .on_request(writes_of("replicaset-controller"), RequestFault::Hang, None);
    cluster.create(deployment("api", 3)).await.unwrap();
    leader.ended().await.unwrap_err();
    cluster.faults().remove(rule);
    wait_for_lease(&cluster, |spec| {
        held(spec) && spec["holderIdentity"] != holder
    })
    .await;
    wait_for_count(&cluster, "pods", 5).await;
    standby.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopping_a_stalled_leader_releases_the_lease_at_once() {
    for accounts in ["false", "true"] {
        let cluster = cluster();
        let manager = at_work(&cluster, &[("use-service-account-credentials", accounts)]).await;
        // The current tokens expire in this time, so controllers also wait for new tokens.
        tokio::time::sleep(LIMIT * 60).await;
        let hanging = writes_of("kube-controller-manager").except("events");
        let rule = cluster
            .faults()
            .on_request(hanging, RequestFault::Hang, None);
        for name in ["a", "b", "c"] {
            cluster.create(deployment(name, 2)).await.unwrap();
        }
        tokio::time::sleep(LIMIT + LIMIT / 2).await;
        let hits = cluster.faults().hits(rule);
        assert!(hits > 0);
        let asked = Instant::now();
        manager.stop().await.unwrap();
        assert!(
            asked.elapsed() < Duration::from_secs(4),
            "accounts {accounts}: {:?}",
            asked.elapsed()
        );
        wait_for_lease(&cluster, |spec| !held(spec)).await;
        tokio::time::sleep(LIMIT).await;
        assert_eq!(
            cluster.faults().hits(rule),
            hits,
            "no request is retried after the stop"
        );
    }
}

/// A healthy manager sends no LIST, so no later answer to one shows that all is well again.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_lists_failed_for_a_while_keeps_the_lease() {
    let cluster = cluster();
    let manager = at_work(&cluster, &[]).await;
    // Watches that expire lead to lists, which have no answer.
    let watch = Matcher::new("watch", "pods");
    let list = Matcher::new("list", "pods");
    let watch = cluster.faults().reject(watch, faults::expired(), None);
    let list = cluster.faults().on_request(list, RequestFault::Reset, None);
    cluster.faults().break_watches("pods");
    tokio::time::sleep(LIMIT / 2).await;
    assert!(cluster.faults().hits(list) > 1, "lists fail");
    for rule in [watch, list] {
        cluster.faults().remove(rule);
    }
    for second in 0..300 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let probe = manager.health.report(Probe::Readyz, "verbose");
        assert!(probe.healthy || second < 60, "{second}: {}", probe.body);
    }
    cluster.create(deployment("api", 1)).await.unwrap();
    wait_for_count(&cluster, "pods", 3).await;
    manager.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_leader_is_not_stalled() {
    let cluster = cluster();
    let manager = at_work(&cluster, &[]).await;
    tokio::time::sleep(LIMIT * 60).await;
    assert!(manager.health.report(Probe::Readyz, "").healthy);
    manager.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stall_timeout_of_zero_disables_the_detection() {
    let cluster = cluster();
    let manager = at_work(&cluster, &[("stall-timeout", "0s")]).await;
    cluster
        .faults()
        .on_request(Matcher::new("delete", "pods"), RequestFault::Hang, None);
    Work::ScaleDown.begin(&cluster).await;
    assert!(
        tokio::time::timeout(LIMIT * 10, manager.ended())
            .await
            .is_err()
    );
}
