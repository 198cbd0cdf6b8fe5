//! Health checks of whole managers under changing conditions.

use std::time::Duration;

use steersman::health::{HealthChecks, Probe};
use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::status::Status;

use crate::election::{cluster, start};
use crate::support::LIMIT;
use crate::support::cluster::{held, wait_for_lease};

/// Waits until the body of `probe` contains `part`.
async fn wait_for(health: &HealthChecks, probe: Probe, part: &str) -> String {
    let body = || health.report(probe, "verbose").body;
    let waited = tokio::time::timeout(LIMIT * 10, async {
        while !body().contains(part) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    waited
        .await
        .unwrap_or_else(|_| panic!("no {part:?} in:\n{}", body()));
    body()
}

#[tokio::test(start_paused = true)]
async fn only_a_working_leader_and_a_standby_with_filled_caches_are_ready() {
    let cluster = cluster();
    let slow = cluster
        .faults()
        .delay(Matcher::new("watch", "pods"), Duration::from_secs(20), None);
    let leader = start(&cluster, &[]);
    wait_for_lease(&cluster, held).await;
    let body = wait_for(&leader.health, Probe::Readyz, "readyz check failed").await;
    assert!(
        body.contains("[-]informer-sync failed") && body.contains("[-]startup failed"),
        "{body}"
    );
    assert!(
        leader.health.report(Probe::Livez, "").healthy,
        "the leader is alive although it is not ready"
    );
    let body = wait_for(&leader.health, Probe::Readyz, "readyz check passed").await;
    for name in [
        "leaderElection",
        "startup",
        "shutdown",
        "informer-sync",
        "deployment-controller",
    ] {
        assert!(
            body.contains(&format!("[+]{name} ok\n")),
            "{name} in\n{body}"
        );
    }

    let warm = start(&cluster, &[]);
    let cold = start(&cluster, &[("standby-informers", "false")]);
    wait_for(&cold.health, Probe::Readyz, "readyz check passed").await;
    assert!(
        !warm.health.report(Probe::Readyz, "").healthy,
        "the caches of the standby are empty"
    );
    wait_for(&warm.health, Probe::Readyz, "readyz check passed").await;
    cluster.faults().remove(slow);

    let health = leader.health.clone();
    leader.stop().await.unwrap();
    assert!(
        health
            .report(Probe::Readyz, "")
            .body
            .contains("[-]shutdown failed: reason withheld\n")
    );
    for standby in [warm, cold] {
        standby.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_fails_readiness_only_in_strict_mode() {
    for (strict, found) in [
        ("false", "[+]informer-sync ok, but degraded"),
        ("true", "[-]informer-sync failed"),
    ] {
        let cluster = cluster();
        let manager = start(&cluster, &[("strict-health-checks", strict)]);
        wait_for(&manager.health, Probe::Readyz, "readyz check passed").await;
        for verb in ["watch", "list"] {
            cluster.faults().reject(
                Matcher::new(verb, "pods"),
                Status::internal("no pods today"),
                None,
            );
        }
        cluster.faults().break_watches("pods");
        wait_for(&manager.health, Probe::Readyz, found).await;
        assert!(
            manager.health.report(Probe::Livez, "").healthy,
            "liveness passes, because a restart would not help"
        );
        manager.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_its_flag_disables_has_no_health_check() {
    for (enabled, listed) in [("true", true), ("false", false)] {
        let cluster = cluster();
        let manager = start(&cluster, &[("enable-garbage-collector", enabled)]);
        let body = wait_for(&manager.health, Probe::Readyz, "[+]namespace-controller ok").await;
        assert_eq!(
            body.contains("[+]garbage-collector-controller ok\n"),
            listed,
            "{body}"
        );
        manager.stop().await.unwrap();
    }
}

/// The value of `steersman_health_check_degraded` for a check.
fn degraded(metrics: &prometheus::Registry, check: &str) -> f64 {
    let families = metrics.gather();
    let family = families
        .iter()
        .find(|family| family.name() == "steersman_health_check_degraded")
        .unwrap();
    let is_it = |metric: &&prometheus::proto::Metric| {
        metric
            .get_label()
            .iter()
            .any(|label| label.value() == check)
    };
    family
        .get_metric()
        .iter()
        .find(is_it)
        .unwrap()
        .get_gauge()
        .get_value()
}

#[tokio::test(start_paused = true)]
async fn a_stuck_sync_is_reported_for_its_controller_and_fails_probes_only_in_strict_mode() {
    let passes = "[+]namespace-controller ok\n";
    for (strict, stuck) in [
        (
            "false",
            "[+]namespace-controller ok, but degraded: reason withheld\n",
        ),
        ("true", "[-]namespace-controller failed: reason withheld\n"),
    ] {
        let cluster = cluster();
        let manager = start(
            &cluster,
            &[("strict-health-checks", strict), ("stall-timeout", "0s")],
        );
        wait_for(&manager.health, Probe::Healthz, passes).await;
        assert_eq!(degraded(&manager.metrics, "namespace-controller"), 0.0);
        // Each resource type waits for its time limit, so the sync takes long.
        let deletions = Matcher {
            verb: Some("deletecollection".to_owned()),
            ..Matcher::default()
        };
        let rule = cluster
            .faults()
            .on_request(deletions, RequestFault::Hang, None);
        let namespace = |name: &str| serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.create(namespace("full")).await.unwrap();
        cluster
            .delete(&cluster.path("namespaces", "", "full"))
            .await
            .unwrap();

        let body = wait_for(&manager.health, Probe::Healthz, stuck).await;
        assert!(body.contains("[+]deployment-controller ok\n"), "{body}");
        for probe in [Probe::Healthz, Probe::Livez, Probe::Readyz] {
            assert_eq!(
                manager.health.report(probe, "").healthy,
                strict == "false",
                "{probe:?}"
            );
        }
        let found = ["namespace-controller", "deployment-controller"]
            .map(|check| degraded(&manager.metrics, check));
        assert_eq!(found, [1.0, 0.0]);

        cluster.faults().remove(rule);
        wait_for(&manager.health, Probe::Healthz, passes).await;
        assert_eq!(degraded(&manager.metrics, "namespace-controller"), 0.0);
        manager.stop().await.unwrap();
    }
}
